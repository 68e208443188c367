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
    // Bytes of so many blocks, from that of rank + first on.
    let bytes_of = |first: u32, count: u32| {
        let first = (rank + first) % size;
        match size - first {
            upper if count <= upper => call.all.sum(first..first + count),
            upper => call.all.sum(first..size) + call.all.sum(0..count - upper),
        }
    };
    let collected = b.temp(bytes_of(0, size));
    let mut ready: Vec<StepId> = Vec::new();
    ready.extend(put(b, call.own, collected, call.all.bytes(rank), &[]));
    let (mut have, mut held) = (1u32, call.all.bytes(rank));
    while have < size {
        let more = have.min(size - have);
        let (to, from) = ((rank + (size - have)) % size, (rank + have) % size);
        let out = if more == have { held } else { bytes_of(0, more) };
        let coming = bytes_of(have, more);
        if out > 0 {
            b.send(to, 0, collected, out, &ready);
        }
        if coming > 0 {
            ready.push(b.recv(from, 0, collected.at(held), coming, &[]));
        }
        (have, held) = (have + more, held + coming);
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
