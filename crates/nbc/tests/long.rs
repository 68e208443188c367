//! Collectives on a board whose parts are long.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::Random;
use common::driver::Machine;
use common::model::Case;
use common::network::network;
use tocsin_nbc::table::{self, Operation};
use tocsin_nbc::{DataType, Op};

/// So many bytes from each rank, or to each.
fn case(operation: Operation, bytes: usize, random: &mut Random) -> Case {
    let (data_type, op) = (DataType::F32, Op::Sum);
    let (in_place, layout) = (random.chance(30), random.word());
    let count = bytes / data_type.size();
    Case { operation, algorithm: Some("shm"), root: 1, data_type, op, count, in_place, layout }
}

fn operations() -> impl Iterator<Item = Operation> {
    let on_board = |operation: &Operation| table::of(*operation).any(|a| a.restrictions.needs_board());
    Operation::ALL.iter().copied().filter(on_board)
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

/// What stands in line is copied in by handlers, too, as their budgets allow, and places come round.
#[test]
fn more_are_outstanding_than_there_is_room_for() {
    let mut random = Random(0x10_0002);
    for round in 0..20 {
        let ranks = 2 + round % 4;
        let all: Vec<_> = operations().collect();
        let cases: Vec<_> = (0..14)
            .map(|_| {
                let bytes = *random.pick(&[8, 3000, 20_000, 65_536, 150_000]);
                case(*random.pick(&all), bytes, &mut random)
            })
            .collect();
        let cases: Vec<_> = cases.into_iter().map(|case| Case { root: case.root % ranks, ..case }).collect();
        let mut machine = Machine::new(network(ranks, random.word()), random.word());
        machine.only_handlers = random.chance(50).then_some(0);
        machine.run(&cases);
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
        (Operation::Iallgather, 1 << 20, 2),
        (Operation::Ialltoall, 256 << 10, 4),
    ] {
        let case = case(operation, bytes, &mut random);
        Machine::new(network(ranks, random.word()), random.word()).run(&[case, case]);
    }
}
