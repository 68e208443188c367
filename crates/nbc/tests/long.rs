//! Collectives on a board whose parts are long.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::Random;
use common::driver::Machine;
use common::model::{AFFINE, Case, affine_op};
use common::network::network;
use tocsin_nbc::table::Operation;
use tocsin_nbc::{DataType, Op};
use tocsin_progress::Code;
use tocsin_progress::budget::{Budget, Context};

/// So many bytes from each rank, or to each.
fn case(operation: Operation, bytes: usize, random: &mut Random) -> Case {
    let (data_type, op) = (DataType::F32, Op::Sum);
    let (in_place, layout) = (random.chance(30), random.word());
    let count = bytes / data_type.size();
    Case { operation, algorithm: Some("shm"), root: 1, data_type, op, count, in_place, layout }
}

fn operations() -> impl Iterator<Item = Operation> {
    Operation::ALL.iter().copied().filter(|operation| common::space::takes_long(*operation))
}

/// What all need of a rank is there when it has posted; it then may compute, or be dead, as long as it likes.
#[test]
fn nobody_waits_for_one_that_has_posted() {
    let mut random = Random(0x10_0001);
    for ranks in [2, 3, 4, 8] {
        for operation in operations() {
            for late in 0..ranks as usize {
                let case = case(operation, 65_540, &mut random);
                let mut machine = Machine::new(network(ranks, random.word()), random.word());
                machine.silent = Some(late);
                let mut call = machine.call(case);
                // Late, and so without anybody's part but its own.
                machine.post(&mut call, late);
                for rank in (0..ranks as usize).filter(|rank| *rank != late) {
                    machine.post(&mut call, rank);
                }
                let over = |machine: &Machine<_>| {
                    (0..ranks as usize).all(|rank| rank == late || machine.outcome(&call, rank).is_some())
                };
                machine.drive("the others", |_, _| {}, over);
                machine.silent = None;
                let over = |machine: &Machine<_>| machine.outcome(&call, late).is_some();
                machine.drive("the late one", |_, _| {}, over);
                machine.finish(&call);
                machine.forget();
            }
        }
    }
}

/// A rank that is the first has copied its own block, unless that stands there, before the others have posted theirs.
#[test]
fn own_blocks_are_copied_before_the_others_are_there() {
    let mut random = Random(0x10_0006);
    let (ranks, bytes) = (4, 65_540);
    for operation in [Operation::Iallgather, Operation::Iallgatherv, Operation::Ialltoall] {
        for in_place in [false, true] {
            let case = Case { in_place, ..case(operation, bytes, &mut random) };
            let mut machine = Machine::new(network(ranks, random.word()), random.word());
            let mut call = machine.call(case);
            let (part, own) = call.gives_and_keeps(0);
            machine.post(&mut call, 0);
            for _ in 0..1000 {
                machine.step(0);
            }
            let copied = machine.ranks[0].nbc.copied();
            assert_eq!(
                copied.user + copied.handler + copied.progress,
                part + own,
                "{operation:?} {in_place}"
            );
            assert!(own > 0 || in_place, "{operation:?}");
            assert!(!machine.ranks[0].nbc.work_left(), "{operation:?}");
            for rank in 1..ranks as usize {
                machine.post(&mut call, rank);
            }
            let over =
                |machine: &Machine<_>| (0..ranks as usize).all(|r| machine.outcome(&call, r).is_some());
            machine.drive("all", |_, _| {}, over);
            machine.finish(&call);
            machine.forget();
        }
    }
}

/// Who looks for what has become wrong, and has not copied its own block, is not told to look again: a pass ends it.
#[test]
fn a_look_at_what_is_wrong_finds_nothing_to_copy() {
    let mut random = Random(0x10_0007);
    let bytes = 65_540;
    let of =
        |bytes, random: &mut Random| Case { in_place: false, ..case(Operation::Iallgather, bytes, random) };
    let mut machine = Machine::new(network(2, random.word()), random.word());
    let [mut first, mut second, mut other] =
        [bytes, bytes, 2 * bytes].map(|bytes| machine.call(of(bytes, &mut random)));
    machine.post(&mut first, 0);
    machine.post(&mut second, 0);
    machine.post(&mut first, 1);
    // It ends with the first, so that nothing of the second is copied.
    let mut budget = Budget::limited(Context::User, 32, bytes);
    let rank = &mut machine.ranks[0];
    rank.nbc.progress(&mut rank.lower, &mut budget);
    assert!(machine.outcome(&first, 0).is_some() && machine.outcome(&second, 0).is_none());
    let id = second.ids[0].unwrap();
    assert!(machine.ranks[0].nbc.has_grown(id), "its own block is there");
    machine.post(&mut other, 1);
    let nbc = &mut machine.ranks[0].nbc;
    assert!(nbc.begin_look(id) && !nbc.look(id) && !nbc.has_grown(id) && nbc.work_left());
    machine.drive("its error", |_, _| {}, |machine| machine.outcome(&second, 0).is_some());
    assert_eq!(machine.outcome(&second, 0).unwrap().code, Code::Protocol);
    machine.drive("the other's", |_, _| {}, |machine| machine.outcome(&other, 1).is_some());
    assert_ne!(machine.outcome(&other, 1).unwrap().code, Code::Ok);
}

/// What stands in line is copied in by handlers, too, as their budgets allow, and places come round.
#[test]
fn more_are_outstanding_than_there_is_room_for() {
    let mut random = Random(0x10_0002);
    for round in 0..20 {
        let ranks = 2 + round % 4;
        let all: Vec<_> = operations().collect();
        // Of two, either size of places that pass, too.
        let (of_two, of_more) =
            ([8, 3000, 65_536, 150_000, 300_000, 1 << 20], [8, 3000, 20_000, 65_536, 150_000]);
        let cases: Vec<_> = (0..14)
            .map(|_| {
                let bytes = *random.pick(if ranks == 2 { &of_two[..] } else { &of_more });
                let operation = *random.pick(&all);
                let scatters =
                    [Operation::IreduceScatter, Operation::IreduceScatterBlock].contains(&operation);
                // No rounds.
                let most = if scatters { (1 << 20) / ranks as usize } else { bytes };
                case(operation, bytes.min(most), &mut random)
            })
            .collect();
        let cases: Vec<_> = cases.into_iter().map(|case| Case { root: case.root % ranks, ..case }).collect();
        let mut machine = Machine::new(network(ranks, random.word()), random.word());
        machine.only_handlers = random.chance(50).then_some(0);
        machine.run(&cases);
        machine.check_long();
    }
}

/// The longest that there are, and a piece more than a place can have.
#[test]
fn the_longest_parts() {
    let mut random = Random(0x10_0003);
    for (operation, bytes, ranks) in [
        (Operation::Ibcast, 1 << 20, 3),
        (Operation::Ireduce, 1 << 20, 3),
        (Operation::Iallreduce, 1 << 20, 4),
        (Operation::Iallreduce, (64 << 10) - 4, 33),
        (Operation::Iscatter, 1 << 19, 3),
        (Operation::Igather, 1 << 20, 3),
        (Operation::Iallgather, 1 << 20, 2),
        (Operation::Ialltoall, 1 << 20, 2),
        (Operation::Ialltoall, (1 << 20) / 3, 4),
        (Operation::IreduceScatter, 1 << 18, 4),
        (Operation::IreduceScatterBlock, 1 << 18, 4),
        (Operation::Iscan, 1 << 20, 3),
        (Operation::Iexscan, 1 << 20, 3),
    ] {
        let case = case(operation, bytes, &mut random);
        let mut machine = Machine::new(network(ranks, random.word()), random.word());
        machine.run(&[case, case]);
        machine.check_long();
    }
}

/// Ranks that run ahead come to places that nobody has needed before.
#[test]
fn what_is_written_was_allocated() {
    let mut random = Random(0x10_0005);
    for ranks in [2, 3] {
        let mut machine = Machine::new(network(ranks, random.word()), random.word());
        let one = case(Operation::Ibcast, 600 << 10, &mut random);
        let mut calls: Vec<_> = (0..4).map(|_| machine.call(Case { in_place: false, ..one })).collect();
        // The root is done with each at once, and nobody else with any.
        for call in &mut calls {
            machine.post(call, 1);
        }
        machine.check_long();
        for rank in (0..ranks as usize).filter(|rank| *rank != 1) {
            calls.iter_mut().for_each(|call| machine.post(call, rank));
        }
        let over = |machine: &Machine<_>| {
            (0..ranks as usize).all(|r| calls.iter().all(|c| machine.outcome(c, r).is_some()))
        };
        machine.drive("broadcasts", |_, _| {}, over);
        calls.iter().for_each(|call| machine.finish(call));
    }
}

/// Parts of one length come to lie all over their places, if there is memory, and else at the beginning of each; what is written was allocated.
#[test]
fn what_comes_round_was_allocated() {
    let mut random = Random(0x10_0007);
    // Which pass places, or share pieces.
    let others = [
        Operation::Iallgather,
        Operation::Iallgatherv,
        Operation::Iallreduce,
        Operation::Ialltoall,
        Operation::IreduceScatter,
        Operation::IreduceScatterBlock,
    ];
    for (ranks, operation) in operations().flat_map(|operation| [2u32, 3].map(|ranks| (ranks, operation))) {
        for (bytes, limited) in [(20_000, false), (20_000, true), (65_536, false), (65_536, true)] {
            let case = case(operation, bytes, &mut random);
            for again in [false, true] {
                let mut machine = Machine::new(network(ranks, random.word()), random.word());
                if limited && !others.contains(&operation) {
                    let part =
                        if operation == Operation::Iscatter { bytes * (ranks as usize - 1) } else { bytes };
                    let each = part.next_multiple_of(64 << 10);
                    machine.ranks.iter().for_each(|rank| rank.lower.limit_long(8 * each));
                }
                match again {
                    false => (0..40).for_each(|_| machine.run(&[case])),
                    true => machine.run_again(case, 40),
                }
                machine.check_long();
            }
        }
    }
}

/// Ranks in step do with half a megabyte each.
#[test]
fn where_there_is_no_memory_parts_come_back_sooner() {
    let mut random = Random(0x10_0008);
    for (ranks, operation) in [(2, Operation::Ibcast), (3, Operation::Ireduce), (4, Operation::Igather)] {
        for bytes in [64 << 10, 128 << 10, 256 << 10] {
            let case = case(operation, bytes, &mut random);
            let mut machine = Machine::new(network(ranks, random.word()), random.word());
            machine.ranks.iter().for_each(|rank| rank.lower.limit_long(512 << 10));
            (0..30).for_each(|_| machine.run(&[case]));
            machine.check_long();
        }
    }
}

/// Around all sizes at which something else is done, posted and restarted, of elements that come out even and of such as do not.
#[test]
fn around_all_thresholds() {
    let mut random = Random(0x10_0004);
    for (ranks, operation) in operations().flat_map(|operation| [2u32, 3].map(|ranks| (ranks, operation))) {
        // What a part has, and the most of a part.
        let others = ranks as usize - 1;
        let (blocks, most) = match operation {
            Operation::Iscatter | Operation::Ialltoall => (others, 1 << 20),
            Operation::IreduceScatter | Operation::IreduceScatterBlock => (ranks as usize, 1 << 20),
            Operation::Iallreduce => (1, (1 << 20).min(128 * ((32 << 10) / ranks as usize / 8 * 8))),
            _ => (1, 1 << 20),
        };
        for bytes in [2 << 10, 64 << 10, 512 << 10, most] {
            let near = bytes / blocks;
            let cases = [
                (near - 1, DataType::U8, Op::Sum),
                (near, DataType::F32, Op::Sum),
                (near + 1, DataType::U8, Op::Max),
                (near, AFFINE, affine_op()),
            ];
            for (bytes, data_type, op) in cases.into_iter().filter(|(bytes, ..)| bytes * blocks <= most) {
                let (count, layout, in_place) = (bytes / data_type.size(), random.word(), random.chance(30));
                let (algorithm, root) = (Some("shm"), ranks - 1);
                let case = Case { operation, algorithm, root, data_type, op, count, in_place, layout };
                let mut machine = Machine::new(network(ranks, random.word()), random.word());
                match random.chance(50) {
                    true => machine.run(&[case]),
                    false => machine.run_again(case, 2),
                }
                machine.check_long();
            }
        }
    }
}
