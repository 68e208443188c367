//! Prefix reductions along a chain (the linear algorithm of early MPI libraries), whole or pipelined in segments: each rank combines
//! what comes from its predecessor with its own and passes it on, while the next segment is on its way.

use super::reduction::{Call, Landings};
use crate::Error;
use crate::builder::{Reduction, ScheduleBuilder};
use crate::order::{Shape, Share, in_turn, uniform};
use crate::table::{Algorithm, Arguments, Operation, Restrictions};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Iscan,
    name: "chain",
    source: "folklore",
    cost: "(p - 1) (a + n (b + g))",
    restrictions: Restrictions::NONE,
    compile: compile::<false>,
    order: Some(inclusive_order),
};

pub(crate) const PIPELINED: Algorithm = Algorithm {
    name: "pipelined-chain",
    source: "folklore, pipelined",
    cost: "(p - 2 + s) (a + n/s (b + g)) with s segments of 16 KiB",
    compile: compile::<true>,
    ..ALGORITHM
};

pub(crate) const EXCLUSIVE: Algorithm = Algorithm {
    operation: Operation::Iexscan,
    compile: compile_exclusive::<false>,
    order: Some(exclusive_order),
    ..ALGORITHM
};

pub(crate) const PIPELINED_EXCLUSIVE: Algorithm = Algorithm {
    operation: Operation::Iexscan,
    compile: compile_exclusive::<true>,
    order: Some(exclusive_order),
    ..PIPELINED
};

/// What a rank may move in one handler entry, for receiving, combining and passing on a segment, with some to spare.
const SEGMENT: usize = 16 << 10;

/// Longer vectors have longer segments: each takes two requests per rank.
const MOST_SEGMENTS: usize = 1024;

/// (round, first element, elements) of each segment.
fn segments<const PIPELINED: bool>(
    call: &Call,
) -> impl Iterator<Item = (u32, usize, usize)> + use<PIPELINED> {
    let count = call.count;
    let usual = (SEGMENT / call.data_type.size().max(1)).max(1);
    let length = if PIPELINED { count.div_ceil(MOST_SEGMENTS).max(usual) } else { count.max(1) };
    (0..).zip((0..count).step_by(length)).map(move |(round, start)| (round, start, length.min(count - start)))
}

fn compile<const PIPELINED: bool>(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let call = Call::new(arguments)?;
    if call.is_local(b) {
        return Ok(());
    }
    let (rank, size) = (b.rank(), b.size());
    let all = segments::<PIPELINED>(&call).count();
    let longest = segments::<PIPELINED>(&call).next().map_or(0, |(_, _, count)| call.offset(count));
    if rank == 0 {
        for (round, start, count) in segments::<PIPELINED>(&call) {
            b.send(1, round, call.input.at(call.offset(start)), call.offset(count), &[]);
        }
        call.keep_input(b);
        return Ok(());
    }
    let mut landings = Landings::new(b, longest, all);
    for (round, start, count) in segments::<PIPELINED>(&call) {
        let (offset, bytes) = (call.offset(start), call.offset(count));
        let (temp, free) = landings.next();
        let arrival = b.recv(rank - 1, round, temp, bytes, free.as_slice());
        let out = call.output.at(offset);
        let operands = Reduction { left: temp, right: call.input.at(offset), out, count };
        let combined = b.reduce(operands, call.data_type, call.op, &[arrival])?;
        landings.used_until(combined);
        if rank + 1 < size {
            b.send(rank + 1, round, out, bytes, &[combined]);
        }
    }
    Ok(())
}

fn compile_exclusive<const PIPELINED: bool>(
    arguments: &Arguments,
    b: &mut ScheduleBuilder,
) -> Result<(), Error> {
    let call = Call::new(arguments)?;
    let (rank, size) = (b.rank(), b.size());
    if call.count == 0 || size == 1 {
        return Ok(());
    }
    let all = segments::<PIPELINED>(&call).count();
    let longest = segments::<PIPELINED>(&call).next().map_or(0, |(_, _, count)| call.offset(count));
    // What is passed on, and, in place, what would overwrite the input before it is combined.
    let mut onward = Landings::new(b, if rank > 0 && rank + 1 < size { longest } else { 0 }, all);
    let mut inward = Landings::new(b, if rank > 0 && call.in_place { longest } else { 0 }, all);
    for (round, start, count) in segments::<PIPELINED>(&call) {
        let (offset, bytes) = (call.offset(start), call.offset(count));
        let (input, result) = (call.input.at(offset), call.output.at(offset));
        if rank == 0 {
            b.send(1, round, input, bytes, &[]);
            continue;
        }
        let is_last = rank + 1 == size;
        if is_last {
            // Nobody needs this rank's own contribution.
            b.recv(rank - 1, round, result, bytes, &[]);
            continue;
        }
        let (landing, free) = if call.in_place { inward.next() } else { (result, None) };
        let arrival = b.recv(rank - 1, round, landing, bytes, free.as_slice());
        let (out, free) = onward.next();
        let after: Vec<_> = free.into_iter().chain([arrival]).collect();
        let operands = Reduction { left: landing, right: input, out, count };
        let combined = b.reduce(operands, call.data_type, call.op, &after)?;
        onward.used_until(b.send(rank + 1, round, out, bytes, &[combined]));
        if call.in_place {
            inward.used_until(b.copy(landing, result, bytes, &[combined]));
        }
    }
    Ok(())
}

pub(super) fn inclusive_order(shape: &Shape) -> Vec<Share> {
    uniform(shape, in_turn(0..shape.rank + 1))
}

pub(super) fn exclusive_order(shape: &Shape) -> Vec<Share> {
    uniform(shape, in_turn(0..shape.rank))
}
