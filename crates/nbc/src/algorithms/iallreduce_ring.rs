//! Allreduce along a ring: reduce-scatter, then allgather (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms",
//! 2009).
//!
//! Block j sets out at rank j and goes once around, each rank adding its contribution on the right, so that it ends at
//! rank j - 1 in the order j, j+1, ..., p-1, 0, ..., j-1. That is not rank order: the operator must be commutative.

use super::reduction::{Call, Partial, block};
use crate::Error;
use crate::builder::{ScheduleBuilder, StepId};
use crate::order::{Combination, Shape, Share};
use crate::schedule::ROUND_BITS;
use crate::table::{Algorithm, Arguments, Operation, Restrictions};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Iallreduce,
    name: "ring",
    source: "Patarasuk, Yuan 2009",
    cost: "2 (p-1) a + 2 (p-1)/p n b + (p-1)/p n g",
    restrictions: Restrictions { commutative: true, max_ranks: 1 << (ROUND_BITS - 1), ..Restrictions::NONE },
    compile,
    order: Some(combination_order),
};

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let call = Call::new(arguments)?;
    if call.is_local(b) {
        return Ok(());
    }
    let (rank, p) = (b.rank() as usize, b.size() as usize);
    let (next, previous) = (((rank + 1) % p) as u32, ((rank + p - 1) % p) as u32);
    let range = |j: usize| block(call.count, p, j % p);
    let bytes = |j: usize| call.offset(range(j).len());
    let output = |j: usize| call.output.at(call.offset(range(j).start));
    let longest = bytes(0);
    let temps = [b.temp(longest), b.temp(longest)];

    // What is sent at step s is what step s - 1 has combined. Indices are taken modulo p, hence the added p.
    let mut current: Partial = call.start();
    let mut reductions: Vec<StepId> = Vec::new();
    let mut readers: Vec<Option<StepId>> = Vec::new();
    for s in 0..p - 1 {
        let (out, inward) = (rank + p - s, rank + p - s - 1);
        let from = current.at.at(call.offset(range(out).start));
        let sent = b.send(next, s as u32, from, bytes(out), current.ready());
        readers.push(current.in_output.then_some(sent));
        let temp = temps[s % 2];
        let free = if s >= 2 { &reductions[s - 2..=s - 2] } else { &[] };
        let arrival = b.recv(previous, s as u32, temp, bytes(inward), free);
        current = call.start();
        let elements = range(inward);
        let part = (elements.start, elements.len());
        reductions.push(call.combine(b, &mut current, part, temp, true, arrival, &[])?);
    }
    let mut ready = current.written;
    for (s, reader) in readers.iter().enumerate() {
        let (out, inward) = (rank + 1 + p - s, rank + p - s);
        let round = (p - 1 + s) as u32;
        b.send(next, round, output(out), bytes(out), ready.as_slice());
        // The block that comes in now went out at step s of the reduce-scatter.
        ready = Some(b.recv(previous, round, output(inward), bytes(inward), reader.as_slice()));
    }
    Ok(())
}

fn combination_order(shape: &Shape) -> Vec<Share> {
    let p = shape.ranks as usize;
    let around = |j: usize| {
        (1..p).fold(Combination::Rank(j as u32), |left, i| {
            Combination::join(left, Combination::Rank(((j + i) % p) as u32))
        })
    };
    (0..p).map(|j| Share { elements: block(shape.count, p, j), order: around(j) }).collect()
}
