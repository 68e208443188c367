//! Allgather along a ring (Thakur, Rabenseifner and Gropp 2005, section 4.1): each rank passes on to its successor what it
//! got from its predecessor, so that every block goes once around.

use super::iallgather_linear::Call;
use crate::Error;
use crate::builder::{ScheduleBuilder, StepId};
use crate::schedule::ROUND_BITS;
use crate::table::{Algorithm, Arguments, Operation, Restrictions};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Iallgather,
    name: "ring",
    source: "Thakur, Rabenseifner, Gropp 2005",
    cost: "(p - 1) (a + n b)",
    restrictions: Restrictions { max_ranks: 1 << ROUND_BITS, ..Restrictions::NONE },
    compile,
    order: None,
};

pub(crate) const DISPLACED: Algorithm = Algorithm { operation: Operation::Iallgatherv, ..ALGORITHM };

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    Call::compile(arguments, b, steps)
}

fn steps(call: &Call, b: &mut ScheduleBuilder) {
    let (rank, size) = (b.rank(), b.size());
    let (next, previous) = ((rank + 1) % size, (rank + (size - 1)) % size);
    let mut from = call.own;
    let mut ready: Option<StepId> = None;
    for round in 0..size - 1 {
        let (out, inward) = ((rank + (size - round)) % size, (previous + (size - round)) % size);
        // All ranks know all lengths: an empty block does not travel.
        if call.all.bytes(out) > 0 {
            let (bytes, after) = (call.all.bytes(out), ready.as_slice());
            if round + 2 < size {
                b.send(next, round, from, bytes, after);
            } else {
                b.send_last(next, round, from, bytes, after);
            }
        }
        from = call.all.at(inward);
        ready =
            (call.all.bytes(inward) > 0).then(|| b.recv(previous, round, from, call.all.bytes(inward), &[]));
    }
    call.keep(b);
}
