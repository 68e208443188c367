//! Allgather in a logarithmic number of messages for any number of ranks (Bruck, Ho, Kipnis, Upfal and Weathersby 1997).
//!
//! Each rank collects blocks in the order rank, rank + 1, ...; in round k it hands what it has, up to what is missing, to
//! the rank 2^k below it. In the end blocks are copied to their places, those that stand side by side together.

use super::iallgather_linear::Call;
use super::places::put;
use crate::Error;
use crate::builder::{ScheduleBuilder, StepId};
use crate::table::{Algorithm, Arguments, Operation, Restrictions};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Iallgather,
    name: "bruck",
    source: "Bruck, Ho, Kipnis, Upfal, Weathersby 1997",
    cost: "ceil(log2 p) a + (p-1) n b",
    restrictions: Restrictions::NONE,
    compile,
    order: None,
};

pub(crate) const DISPLACED: Algorithm = Algorithm { operation: Operation::Iallgatherv, ..ALGORITHM };

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    Call::compile(arguments, b, steps)
}

fn steps(call: &Call, b: &mut ScheduleBuilder) {
    let (rank, size) = (b.rank(), b.size());
    call.keep(b);
    if size == 1 {
        return;
    }
    // Where the block of rank + i starts.
    let offset = |i: u32| match size - rank {
        upper if i <= upper => call.all.sum(rank..rank + i),
        upper => call.all.sum(rank..size) + call.all.sum(0..i - upper),
    };
    let collected = b.temp(offset(size));
    let mut ready: Vec<StepId> = Vec::new();
    ready.extend(put(b, call.own, collected, call.all.bytes(rank), &[]));
    let mut have = 1u32;
    while have < size {
        let more = have.min(size - have);
        let (to, from) = ((rank + (size - have)) % size, (rank + have) % size);
        let out = offset(more);
        let (start, end) = (offset(have), offset(have + more));
        if out > 0 {
            b.send(to, 0, collected, out, &ready);
        }
        if end > start {
            ready.push(b.recv(from, 0, collected.at(start), end - start, &[]));
        }
        have += more;
    }
    let mut at = call.all.bytes(rank);
    for others in [rank + 1..size, 0..rank] {
        let mut first = others.start;
        while first < others.end {
            let (to, bytes, end) = call.all.run(first..others.end);
            put(b, collected.at(at), to, bytes, &ready);
            (at, first) = (at + bytes, end);
        }
    }
}
