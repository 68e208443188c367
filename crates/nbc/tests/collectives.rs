//! The algorithms over a network that is as nasty as the contract with the layer below allows.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::driver::{Machine, Rank};
use common::model::{AFFINE, Case, affine_op};
use common::network::network;
use common::{Random, has_blocks, most, takes};
use tocsin_nbc::table::{self, Arguments, Operation, Origin};
use tocsin_nbc::{DataType, Op};
use tocsin_progress::budget::{Budget, Pass};

const RANKS: [u32; 9] = [1, 2, 3, 4, 7, 8, 16, 17, 33];
/// Bytes around a typical eager limit, a handler's budget and above.
const BYTES: [usize; 12] = [0, 1, 8, 64, 1000, 8184, 8192, 8200, 65536, 65544, 300_000, 1 << 20];

/// A random operator and type that go together.
fn operator(random: &mut Random) -> (DataType, Op) {
    loop {
        if random.chance(15) {
            return (AFFINE, affine_op());
        }
        let (data_type, op) = (*random.pick(DataType::BUILT_IN), *random.pick(Op::BUILT_IN));
        let arguments =
            table::Arguments::Iallreduce { send: None, recv: std::ptr::null_mut(), count: 0, data_type, op };
        if table::compile(&common::driver::group(1, 0), &arguments, None).is_ok() {
            return (data_type, op);
        }
    }
}

fn case(random: &mut Random, ranks: u32, operation: Operation, algorithm: Option<&'static str>) -> Case {
    let (mut data_type, mut op) = operator(random);
    let commutative = algorithm.is_some_and(|a| table::find(operation, a).unwrap().restrictions.commutative);
    while commutative && !op.is_commutative() {
        (data_type, op) = operator(random);
    }
    // A million bytes for one rank, less for many: the whole stays testable.
    let named = algorithm.map(|name| table::find(operation, name).unwrap());
    let most = ((1 << 20) / ranks as usize).min(most(named, ranks));
    let bytes = (*random.pick(&BYTES)).min(most);
    let bytes = if has_blocks(operation) { bytes / ranks as usize } else { bytes };
    let root = random.below(ranks as usize) as u32;
    let count = bytes / data_type.size();
    let (in_place, layout) = (random.chance(40), random.word());
    Case { operation, algorithm, root, data_type, op, count, in_place, layout }
}

#[test]
fn every_algorithm_on_all_rank_counts() {
    let seed = 0x70c5_0001;
    let mut random = Random(seed);
    for algorithm in table::ALGORITHMS {
        for ranks in RANKS.into_iter().filter(|ranks| takes(algorithm, *ranks)) {
            for _ in 0..if ranks > 8 { 4 } else { 12 } {
                let case = case(&mut random, ranks, algorithm.operation, Some(algorithm.name));
                Machine::new(network(ranks, random.word()), random.word()).run(&[case]);
            }
        }
    }
}

#[test]
fn every_root() {
    let mut random = Random(0x70c5_0002);
    for algorithm in table::ALGORITHMS.iter().filter(|a| a.operation.has_root()) {
        for ranks in 1..=9 {
            for root in (0..ranks).filter(|_| takes(algorithm, ranks)) {
                let mut case = case(&mut random, ranks, algorithm.operation, Some(algorithm.name));
                case.root = root;
                Machine::new(network(ranks, random.word()), random.word()).run(&[case]);
            }
        }
    }
}

#[test]
fn every_operator_and_type() {
    let mut random = Random(0x70c5_0003);
    for data_type in DataType::BUILT_IN.iter().copied().chain([AFFINE]) {
        for op in Op::BUILT_IN.iter().copied().chain([affine_op()]) {
            let count = 1 + random.below(300);
            let arguments = table::Arguments::Iallreduce {
                send: None,
                recv: std::ptr::null_mut(),
                count: 0,
                data_type,
                op,
            };
            let group = common::driver::group(1, 0);
            let is_pair = matches!((data_type, op), (DataType::Opaque(8), Op::User(_)));
            let is_user = matches!(op, Op::User(_));
            if is_user != is_pair || table::compile(&group, &arguments, None).is_err() {
                continue;
            }
            for algorithm in table::ALGORITHMS.iter().filter(|a| a.operation.is_reduction()) {
                if algorithm.restrictions.commutative && !op.is_commutative() {
                    continue;
                }
                let blocks = if has_blocks(algorithm.operation) { 5 } else { 1 };
                let case = Case {
                    operation: algorithm.operation,
                    algorithm: Some(algorithm.name),
                    root: random.below(5) as u32,
                    data_type,
                    op,
                    count: count.min(most(Some(algorithm), 5) / blocks / data_type.size()),
                    in_place: random.chance(50),
                    layout: random.word(),
                };
                Machine::new(network(5, random.word()), random.word()).run(&[case]);
            }
        }
    }
}

#[test]
fn several_outstanding_in_any_order() {
    let mut random = Random(0x70c5_0004);
    for round in 0..60 {
        let ranks = *random.pick(&RANKS[1..7]);
        let outstanding = 1 + random.below(32);
        let cases: Vec<Case> = (0..outstanding)
            .map(|_| {
                let operation = *random.pick(Operation::ALL);
                let mut case = case(&mut random, ranks, operation, None);
                case.count = case.count.min(random.below(3000));
                case
            })
            .collect();
        println!("round {round}: {outstanding} on {ranks} ranks");
        let mut machine = Machine::new(network(ranks, random.word()), random.word());
        machine.run(&cases);
        machine.run(&cases[..outstanding / 2]);
    }
}

#[test]
fn started_again_and_again() {
    let mut random = Random(0x70c5_0005);
    for algorithm in table::ALGORITHMS {
        for ranks in [1, 2, 3, 5, 8].into_iter().filter(|ranks| takes(algorithm, *ranks)) {
            let mut case = case(&mut random, ranks, algorithm.operation, Some(algorithm.name));
            case.count = case.count.min(5000);
            Machine::new(network(ranks, random.word()), random.word()).run_again(case, 4);
        }
    }
}

#[test]
fn posted_again_as_before() {
    let mut random = Random(0x70c5_0006);
    let (mut again, mut kept) = (0, Vec::new());
    for algorithm in table::ALGORITHMS {
        for ranks in [1, 2, 3, 5, 8].into_iter().filter(|ranks| takes(algorithm, *ranks)) {
            let mut case = case(&mut random, ranks, algorithm.operation, Some(algorithm.name));
            case.count = case.count.min(5000);
            let mut machine = Machine::new(network(ranks, random.word()), random.word());
            if machine.post_again(case, 3) {
                again += 1;
                kept.push(algorithm.operation);
            }
            // Others in between, more than are kept.
            let others: Vec<Case> = (0..12).map(|_| any_case(&mut random, ranks)).collect();
            machine.run(&others);
            machine.post_again(case, 2);
            machine.forget();
        }
    }
    assert!(again > 150, "schedules of {again} cases were kept");
    let never = Operation::ALL.iter().find(|operation| !kept.contains(operation));
    assert_eq!(never, None, "no schedule of this was kept");
}

/// Some collective by an algorithm of the library's choice.
fn any_case(random: &mut Random, ranks: u32) -> Case {
    let operation = *random.pick(Operation::ALL);
    let mut case = case(random, ranks, operation, None);
    case.count = case.count.min(500);
    case
}

/// What failed has left its requests in no state to rely on.
#[test]
fn what_failed_is_compiled_anew() {
    let mut machine = Machine::new(network(2, 1), 2);
    let origin =
        |me| Origin::new(&common::driver::group(2, me), &Arguments::Ibarrier, Some("dissemination")).unwrap();
    let Rank { lower, nbc } = &mut machine.ranks[0];
    let schedule =
        table::compile(&common::driver::group(2, 0), &Arguments::Ibarrier, Some("dissemination")).unwrap();
    // SAFETY: a barrier has no buffers.
    let id = unsafe { nbc.post(lower, schedule, 1 << 31, 1) }.unwrap();
    lower.kill(1);
    while nbc.progress(lower, &mut Budget::user()) != Pass::Idle {}
    assert!(nbc.release(lower, id));
    // SAFETY: as above.
    assert_eq!(unsafe { nbc.post_again(lower, &origin(0), 1 << 31, 2) }.unwrap(), None);
    assert!(lower.is_clean());
}
