//! Reduce-scatter by pairwise exchange (Thakur, Rabenseifner and Gropp 2005, section 4.4, for long vectors): in round i a
//! rank sends the part of the rank i above it to that rank, and combines what the rank i below it sends with what it has.
//!
//! A rank's own part meets those of the ranks below it, nearest first, and then those from the last rank down: not rank
//! order, so that the operator must be commutative.

use super::reduction::{Landings, Parts};
use crate::Error;
use crate::builder::{Reduction, ScheduleBuilder, StepId};
use crate::order::{Combination, Shape, Share, uniform};
use crate::table::{Algorithm, Arguments, Operation, Restrictions};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::IreduceScatter,
    name: "pairwise",
    source: "Thakur, Rabenseifner, Gropp 2005",
    cost: "(p - 1) a + (p-1)/p n (b + g)",
    restrictions: Restrictions { commutative: true, ..Restrictions::NONE },
    compile,
    order: Some(combination_order),
};

pub(crate) const BLOCK: Algorithm = Algorithm { operation: Operation::IreduceScatterBlock, ..ALGORITHM };

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let parts = Parts::new(arguments, b, false)?;
    if parts.is_local(b) {
        return Ok(());
    }
    let (rank, size, call) = (b.rank(), b.size(), &parts.call);
    let (own, bytes) = (parts.elements(rank..rank + 1), parts.bytes(rank));
    // In place, the result may stand where other ranks' parts of the input do: it moves there last.
    let out = if parts.in_place { b.temp(bytes) } else { parts.recv };
    let mut landings = Landings::new(b, bytes, size as usize - 1);
    let mut partial = call.input.at(call.offset(own.start));
    let mut written: Option<StepId> = None;
    let mut before: Vec<StepId> = Vec::new();
    for i in 1..size {
        let (above, below) = ((rank + i) % size, (rank + (size - i)) % size);
        let mut round: Vec<StepId> = Vec::new();
        let theirs = parts.elements(above..above + 1);
        if !theirs.is_empty() {
            let from = call.input.at(call.offset(theirs.start));
            round.push(b.send(above, 0, from, call.length(&theirs), &before));
        }
        if !own.is_empty() {
            let (temp, free) = landings.next();
            let after: Vec<StepId> = before.iter().copied().chain(free).collect();
            let arrival = b.recv(below, 0, temp, bytes, &after);
            let operands = Reduction { left: temp, right: partial, out, count: own.len() };
            let after: Vec<StepId> = written.into_iter().chain([arrival]).collect();
            let step = b.reduce(operands, call.data_type, call.op, &after)?;
            landings.used_until(step);
            (partial, written) = (out, Some(step));
            round.push(arrival);
        }
        before = round;
    }
    parts.deliver(b, partial, written);
    Ok(())
}

fn combination_order(shape: &Shape) -> Vec<Share> {
    let (own, ranks) = (shape.rank, shape.ranks);
    let others = (0..own).rev().chain((own + 1..ranks).rev());
    let order =
        others.fold(Combination::Rank(own), |right, left| Combination::join(Combination::Rank(left), right));
    uniform(shape, Some(order))
}
