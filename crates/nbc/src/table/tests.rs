//! Properties of every schedule that the table can make, without running it.

use super::*;
use crate::schedule::Kind;
use crate::{Op, UserOp};
use std::collections::BTreeMap;

// Addresses that nobody follows: compiling looks at no memory.
const SEND: usize = 0x1000_0000;
const RECV: usize = 0x9000_0000;

fn group(ranks: u32, me: u32) -> Group {
    // World ranks that differ from the group's, so that a mix-up shows.
    Group::new((0..ranks).map(|r| 7 + 3 * r).collect::<Vec<_>>().into(), me).unwrap()
}

fn arguments(operation: Operation, bytes: usize, root: u32, in_place: bool) -> Arguments {
    let send = (!in_place).then_some(SEND as *const u8);
    let recv = RECV as *mut u8;
    match operation {
        Operation::Ibarrier => Arguments::Ibarrier,
        Operation::Ibcast => Arguments::Ibcast { buffer: recv, bytes, root },
        Operation::Iallreduce => {
            Arguments::Iallreduce { send, recv, count: bytes, data_type: DataType::U8, op: Op::Sum }
        }
        Operation::Ialltoall => Arguments::Ialltoall { send, recv, block: bytes },
    }
}

/// Ranges that a step reads and writes.
fn accesses(kind: &Kind) -> Vec<(usize, usize, bool)> {
    match *kind {
        Kind::Send { from, bytes, .. } => vec![(from as usize, bytes, false)],
        Kind::Recv { to, bytes, .. } => vec![(to as usize, bytes, true)],
        Kind::Copy { from, to, bytes } => vec![(from as usize, bytes, false), (to as usize, bytes, true)],
        Kind::Reduce { left, right, out, count, operator } => {
            let bytes = count * operator.size();
            vec![(left as usize, bytes, false), (right as usize, bytes, false), (out as usize, bytes, true)]
        }
        Kind::Join => vec![],
    }
}

/// Two steps of which one writes what the other uses are ordered.
fn check_hazards(schedule: &Schedule, what: &str) {
    let n = schedule.steps.len();
    let words = n.div_ceil(64);
    // Row i, as a bit set: the steps that precede step i. Algorithms name only earlier steps, so one sweep does.
    let mut before = vec![0u64; n * words];
    let precedes = |before: &[u64], j: usize, i: usize| before[i * words + j / 64] >> (j % 64) & 1 == 1;
    for i in 0..n {
        let step = &schedule.steps[i];
        let first = step.first_dependant as usize;
        for &next in &schedule.dependants[first..first + step.dependants as usize] {
            let next = next as usize;
            assert!(next > i);
            for word in 0..words {
                before[next * words + word] |= before[i * words + word];
            }
            before[next * words + i / 64] |= 1 << (i % 64);
        }
    }
    let used: Vec<_> = schedule.steps.iter().map(|step| accesses(&step.kind)).collect();
    for i in 0..n {
        for j in 0..i {
            if precedes(&before, j, i) {
                continue;
            }
            for a in &used[i] {
                for b in &used[j] {
                    let apart = a.0 + a.1 <= b.0 || b.0 + b.1 <= a.0 || a.1 == 0 || b.1 == 0;
                    assert!(apart || !(a.2 || b.2), "{what}: steps {j} and {i} race: {schedule:?}");
                }
            }
        }
    }
}

/// Every message that is sent is received, with the same round and length.
fn check_messages(schedules: &[Box<Schedule>], what: &str) {
    let mut open: BTreeMap<(u32, u32, u32, usize), i32> = BTreeMap::new();
    for schedule in schedules {
        let me = schedule.group().world_rank(schedule.group().rank()).unwrap();
        for step in &schedule.steps {
            match step.kind {
                Kind::Send { peer, round, bytes, .. } => {
                    *open.entry((me, peer, round, bytes)).or_default() += 1
                }
                Kind::Recv { peer, round, bytes, .. } => {
                    *open.entry((peer, me, round, bytes)).or_default() -= 1
                }
                _ => {}
            }
        }
    }
    open.retain(|_, n| *n != 0);
    assert!(open.is_empty(), "{what}: (from, to, round, bytes) without a partner: {open:?}");
}

#[test]
fn schedules_have_no_races_and_no_lost_messages() {
    for algorithm in ALGORITHMS {
        for ranks in (1..=17).chain([32, 33]) {
            let sizes: &[usize] = if ranks <= 9 { &[0, 1, 5, 100, 70_000, 200_000] } else { &[5, 70_000] };
            for &bytes in sizes {
                for in_place in [false, true] {
                    let root = (ranks * 2 / 3) % ranks;
                    let arguments = arguments(algorithm.operation, bytes, root, in_place);
                    let what = format!("{arguments:?} by {} on {ranks} ranks", algorithm.name);
                    let schedules: Vec<_> = (0..ranks)
                        .map(|me| compile(&group(ranks, me), &arguments, Some(algorithm.name)).unwrap())
                        .collect();
                    check_messages(&schedules, &what);
                    for schedule in &schedules {
                        check_hazards(schedule, &what);
                    }
                }
            }
        }
    }
}

#[test]
fn logarithmic_algorithms_are() {
    for ranks in 1..=130u32 {
        let log = ranks.next_power_of_two().trailing_zeros() as usize;
        let most = |operation, name| {
            let arguments = arguments(operation, 1000, 0, false);
            let sent = |me| compile(&group(ranks, me), &arguments, Some(name)).unwrap().sent().0;
            (0..ranks).map(sent).max().unwrap()
        };
        assert_eq!(most(Operation::Ibarrier, "dissemination"), log);
        assert_eq!(most(Operation::Ibcast, "binomial"), log);
        assert_eq!(most(Operation::Ialltoall, "bruck"), log);
        assert_eq!(most(Operation::Iallreduce, "recursive-doubling"), log);
        assert!(most(Operation::Iallreduce, "rabenseifner") <= 2 * log + 1);
    }
}

#[test]
fn orders_cover_all_elements_and_ranks() {
    for algorithm in ALGORITHMS {
        let Some(order) = algorithm.order else {
            assert_ne!(algorithm.operation, Operation::Iallreduce, "a reduction states its order");
            continue;
        };
        for ranks in 1..40 {
            for count in [1, 2, 39, 40, 1000] {
                let shares = order(&Shape { ranks, count });
                let mut next = 0;
                for share in &shares {
                    assert_eq!(share.elements.start, next);
                    next = share.elements.end;
                    let mut all = share.order.ranks();
                    if algorithm.restrictions.commutative {
                        all.sort_unstable();
                    }
                    assert_eq!(all, (0..ranks).collect::<Vec<_>>(), "{}", algorithm.name);
                }
                assert_eq!(next, count);
            }
        }
    }
}

#[test]
fn the_table_is_well_formed() {
    for operation in Operation::ALL {
        assert_eq!(operation.name().parse::<Operation>().unwrap(), *operation);
        let mut names: Vec<_> = of(*operation).map(|a| a.name).collect();
        assert!(of(*operation).next().unwrap().restrictions.max_ranks == u32::MAX);
        assert!(!of(*operation).next().unwrap().restrictions.commutative);
        names.sort_unstable();
        let before = names.len();
        names.dedup();
        assert_eq!(before, names.len());
        for ranks in [1, 2, 3, 8, 1000, 100_000] {
            for bytes in [0, 1, 1 << 12, 1 << 20, 1 << 27] {
                let arguments = arguments(*operation, bytes, 0, false);
                assert_eq!(choose(&arguments, ranks).operation, *operation);
            }
        }
    }
    assert!("bcast".parse::<Operation>().unwrap_err().to_string().contains("ibcast"));
}

unsafe fn nothing(_: *const (), _: *const u8, _: *const u8, _: *mut u8, _: usize) {}

#[test]
fn bad_arguments_are_clear_errors() {
    // SAFETY: - the operator is never applied.
    let ordered = Op::User(unsafe { UserOp::new(nothing, std::ptr::null(), false) });
    let reduce = |count, data_type, op| Arguments::Iallreduce {
        send: None,
        recv: RECV as *mut u8,
        count,
        data_type,
        op,
    };
    let bcast = |root, bytes| Arguments::Ibcast { buffer: RECV as *mut u8, bytes, root };
    let huge = isize::MAX as usize;
    let table: &[(Arguments, Option<&str>, &str)] = &[
        (bcast(4, 1), None, "root 4 does not exist: this communicator has ranks 0 to 3"),
        (bcast(0, huge + 1), None, "does not fit the address space"),
        (bcast(0, 8), Some("tree"), "ibcast has no algorithm `tree`; it has: binomial, chain, linear"),
        (Arguments::Ibarrier, Some("ring"), "ibarrier has no algorithm `ring`; it has: dissemination"),
        (reduce(1, DataType::F64, Op::BAnd), None, "operator band does not exist for elements of type f64"),
        (reduce(1, DataType::F32, Op::LOr), None, "logical operators take integers"),
        (reduce(1, DataType::Byte, Op::Sum), None, "operator sum does not exist for elements of type byte"),
        (reduce(1, DataType::I32, Op::MinLoc), None, "pairs of a value and an index"),
        (reduce(1, DataType::I64Index, Op::Sum), None, "operator sum does not exist"),
        (reduce(1, DataType::Opaque(0), ordered), None, "at least one byte"),
        (reduce(huge, DataType::F64, Op::Sum), None, "does not fit the address space"),
        (reduce(9, DataType::F64, ordered), Some("ring"), "needs a commutative operator; leave the choice"),
        (Arguments::Ialltoall { send: None, recv: RECV as *mut u8, block: huge }, None, "does not fit"),
        (reduce(huge / 8, DataType::F64, Op::Sum), Some("reduce-bcast"), "no memory for a schedule"),
    ];
    for (arguments, algorithm, message) in table {
        let error = compile(&group(4, 0), arguments, *algorithm).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    assert!(Group::new(vec![0, 1].into(), 2).unwrap_err().to_string().contains("rank 2 does not exist"));
}
