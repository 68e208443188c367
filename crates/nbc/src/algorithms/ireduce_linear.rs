//! Reduce by the root alone: every rank sends its vector, and the root combines them one after the other, in rank order
//! from the left (folklore; Open MPI's `basic linear`).

use super::reduction::{Call, Landings};
use crate::Error;
use crate::builder::{Mem, Reduction, ScheduleBuilder, StepId};
use crate::order::{Shape, Share, in_turn, uniform};
use crate::table::{Algorithm, Arguments, Operation, Restrictions};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ireduce,
    name: "linear",
    source: "folklore",
    cost: "(p - 1) (a + n b + n g)",
    restrictions: Restrictions::NONE,
    compile,
    order: Some(combination_order),
};

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let (call, root) = Call::to_root(arguments, b, false)?;
    if call.is_local(b) {
        return Ok(());
    }
    let (rank, size, bytes, count) = (b.rank(), b.size(), call.bytes(), call.count);
    if rank != root {
        b.send(root, 0, call.input, bytes, &[]);
        return Ok(());
    }
    let mut landings = Landings::new(b, bytes, size as usize - 1);
    // The root's own input is not overwritten before its turn has come.
    let early = if call.in_place && rank > 1 { b.temp(bytes) } else { call.output };
    let mut left: Option<(Mem, Option<StepId>)> = None;
    let mut written: Option<StepId> = None;
    for other in 0..size {
        let (right, arrival) = if other == rank {
            (call.input, None)
        } else {
            let (temp, free) = landings.next();
            (temp, Some(b.recv(other, 0, temp, bytes, free.as_slice())))
        };
        let Some((at, first)) = left else {
            left = Some((right, arrival));
            continue;
        };
        let out = if other < rank { early } else { call.output };
        let after: Vec<StepId> = written.into_iter().chain(first).chain(arrival).collect();
        let operands = Reduction { left: at, right, out, count };
        let step = b.reduce(operands, call.data_type, call.op, &after)?;
        for _ in first.into_iter().chain(arrival) {
            landings.used_until(step);
        }
        written = Some(step);
        left = Some((out, None));
    }
    Ok(())
}

fn combination_order(shape: &Shape) -> Vec<Share> {
    uniform(shape, in_turn(0..shape.ranks))
}
