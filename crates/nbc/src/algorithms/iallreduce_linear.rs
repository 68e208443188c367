//! Allreduce in two rounds of messages all at once: every rank combines its share of everybody's elements, and sends the result to all
//! (folklore: the direct forms of reduce-scatter and allgather).
//!
//! As many bytes as along a ring, but two waits for others rather than 2 (p - 1): for few ranks, and where a wait costs a turn on a core.
//! Shares are combined from the left in rank order, so that the operator need not commute.

use super::reduction::{Call, Partial, block};
use crate::Error;
use crate::builder::{Mem, Reduction, ScheduleBuilder, StepId};
use crate::order::{Shape, Share, in_turn, uniform};
use crate::table::{Algorithm, Arguments, Operation, Restrictions};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Iallreduce,
    name: "linear",
    source: "folklore",
    cost: "2 (p-1) a + 2 (p-1)/p n b + (p-1)/p n g",
    restrictions: Restrictions::NONE,
    compile,
    order: Some(combination_order),
};

/// The rounds of the contributions, and of the results.
const SCATTER: u32 = 0;
const GATHER: u32 = 1;

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let call = Call::new(arguments)?;
    if call.is_local(b) {
        return Ok(());
    }
    let (rank, size) = (b.rank(), b.size());
    let share = |of: u32| block(call.count, size as usize, of as usize);
    let own = share(rank);
    let own_bytes = call.length(&own);
    // The next rank first, so that not all begin with the same one.
    let others = move |rank: u32| (1..size).map(move |i| (rank + i) % size);

    let mut arrivals: Vec<Option<(Mem, StepId)>> = vec![None; size as usize];
    for from in others(rank).filter(|_| !own.is_empty()) {
        let temp = b.temp(own_bytes);
        let arrival = b.recv(from, SCATTER, temp, own_bytes, &[]);
        if let Some(place) = arrivals.get_mut(from as usize) {
            *place = Some((temp, arrival));
        }
    }
    // In place, a share is sent before the result overwrites it.
    let mut readers: Vec<(u32, Option<StepId>)> = Vec::with_capacity(size as usize);
    for to in others(rank) {
        let theirs = share(to);
        let sent = (!theirs.is_empty()).then(|| {
            b.send(to, SCATTER, call.input.at(call.offset(theirs.start)), call.length(&theirs), &[])
        });
        readers.push((to, sent.filter(|_| call.in_place)));
    }

    let written = combine(b, &call, own.start, own.len(), &arrivals)?;
    for to in others(rank).filter(|_| !own.is_empty()) {
        b.send_last(to, GATHER, call.output.at(call.offset(own.start)), own_bytes, written.as_slice());
    }
    for (from, reader) in readers {
        let theirs = share(from);
        if !theirs.is_empty() {
            let to = call.output.at(call.offset(theirs.start));
            b.recv(from, GATHER, to, call.length(&theirs), reader.as_slice());
        }
    }
    Ok(())
}

/// Combines this rank's share, whose contributions of other ranks arrive by rank, in the output; the last step.
fn combine(
    b: &mut ScheduleBuilder,
    call: &Call,
    first: usize,
    count: usize,
    arrivals: &[Option<(Mem, StepId)>],
) -> Result<Option<StepId>, Error> {
    let out = call.output.at(call.offset(first));
    let input = call.input.at(call.offset(first));
    let mut left: Option<Partial> = None;
    for arrival in arrivals.iter().filter(|_| count > 0) {
        let (right, arrived) = match arrival {
            Some((temp, arrived)) => (*temp, Some(*arrived)),
            None => (input, None),
        };
        let Some(partial) = left else {
            left = Some(Partial { at: right, in_output: false, written: arrived });
            continue;
        };
        // In place, the output has this rank's own contribution until its turn has come: combined where the left ones arrived.
        let waits = call.in_place && arrived.is_some() && !partial.in_output;
        let to = if waits && partial.at != input { partial.at } else { out };
        let operands = Reduction { left: partial.at, right, out: to, count };
        let after: Vec<StepId> = partial.written.into_iter().chain(arrived).collect();
        let step = b.reduce(operands, call.data_type, call.op, &after)?;
        left = Some(Partial { at: to, in_output: to == out, written: Some(step) });
    }
    Ok(left.and_then(|partial| partial.written))
}

fn combination_order(shape: &Shape) -> Vec<Share> {
    uniform(shape, in_turn(0..shape.ranks))
}
