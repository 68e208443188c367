//! Prefix reductions by recursive doubling (Hillis and Steele, "Data parallel algorithms", 1986).
//!
//! At level k each rank hands what it covers, itself and up to 2^k - 1 ranks below it, to the rank 2^k above it, where it
//! comes in on the left. For the exclusive prefix a rank keeps two vectors: with its own contribution, to hand on, and
//! without.

use super::reduction::{Call, Partial};
use crate::Error;
use crate::builder::{Reduction, ScheduleBuilder, StepId};
use crate::order::{Combination, Shape, Share, uniform};
use crate::table::{Algorithm, Arguments, Operation, Restrictions};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Iscan,
    name: "recursive-doubling",
    source: "Hillis, Steele 1986",
    cost: "ceil(log2 p) (a + n b + n g)",
    restrictions: Restrictions::NONE,
    compile,
    order: Some(inclusive_order),
};

pub(crate) const EXCLUSIVE: Algorithm = Algorithm {
    operation: Operation::Iexscan,
    cost: "ceil(log2 p) (a + n b + 2 n g)",
    compile: compile_exclusive,
    order: Some(exclusive_order),
    ..ALGORITHM
};

/// The distances that a rank hands on over: 1, 2, 4, ...
fn distances(size: u32) -> impl Iterator<Item = u32> {
    (0..u32::BITS).map(|level| 1 << level).take_while(move |distance| *distance < size)
}

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let call = Call::new(arguments)?;
    if call.is_local(b) {
        return Ok(());
    }
    let (rank, size, bytes) = (b.rank(), b.size(), call.bytes());
    let mut partial = call.start();
    for distance in distances(size) {
        let mut reader: Option<StepId> = None;
        if size - rank > distance {
            reader = Some(b.send(rank + distance, 0, partial.at, bytes, partial.ready()));
        }
        if rank >= distance {
            let temp = b.temp(bytes);
            let arrival = b.recv(rank - distance, 0, temp, bytes, &[]);
            let whole = (0, call.count);
            call.combine(b, &mut partial, whole, temp, true, arrival, reader.as_slice())?;
        }
    }
    if rank == 0 {
        call.keep_input(b);
    }
    Ok(())
}

fn compile_exclusive(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let mut call = Call::new(arguments)?;
    let (rank, size, bytes, count) = (b.rank(), b.size(), call.bytes(), call.count);
    if count == 0 || size == 1 {
        return Ok(());
    }
    let result = call.output;
    let mut partial = call.start();
    let hands_on = rank + 1 < size;
    if rank > 0 && hands_on {
        call.output = b.temp(bytes);
    }
    // In place, the first prefix to arrive would overwrite the input.
    if call.in_place && rank > 0 && hands_on {
        let aside = b.temp(bytes);
        let copied = b.copy(call.input, aside, bytes, &[]);
        partial = Partial { at: aside, in_output: false, written: Some(copied) };
    }
    let mut prefix: Option<StepId> = partial.written;
    let mut is_empty = true;
    for distance in distances(size) {
        let mut reader: Option<StepId> = None;
        if size - rank > distance {
            reader = Some(b.send(rank + distance, 0, partial.at, bytes, partial.ready()));
        }
        if rank < distance {
            continue;
        }
        let temp = b.temp(bytes);
        let arrival = b.recv(rank - distance, 0, temp, bytes, &[]);
        let after: Vec<StepId> = prefix.into_iter().chain([arrival]).collect();
        prefix = Some(if is_empty {
            b.copy(temp, result, bytes, &after)
        } else {
            let operands = Reduction { left: temp, right: result, out: result, count };
            b.reduce(operands, call.data_type, call.op, &after)?
        });
        is_empty = false;
        if size - rank > 2 * distance {
            call.combine(b, &mut partial, (0, count), temp, true, arrival, reader.as_slice())?;
        }
    }
    Ok(())
}

/// What a rank covers before the level of `distance`.
fn covered(rank: u32, distance: u32) -> Combination {
    let below = distance / 2;
    if distance <= 1 {
        Combination::Rank(rank)
    } else if rank >= below {
        Combination::join(covered(rank - below, below), covered(rank, below))
    } else {
        covered(rank, below)
    }
}

fn inclusive_order(shape: &Shape) -> Vec<Share> {
    uniform(shape, Some(covered(shape.rank, shape.ranks.next_power_of_two())))
}

fn exclusive_order(shape: &Shape) -> Vec<Share> {
    let mut prefix: Option<Combination> = None;
    for distance in distances(shape.ranks).filter(|distance| *distance <= shape.rank) {
        let arrived = covered(shape.rank - distance, distance);
        prefix = Some(match prefix {
            Some(right) => Combination::join(arrived, right),
            None => arrived,
        });
    }
    uniform(shape, prefix)
}
