//! Broadcast along a chain, whole or pipelined in segments (the classic for large messages; see Pjesivac-Grbovic and others, "Performance
//! analysis of MPI collective operations", 2007).
//!
//! Counting from the root, each rank passes the message, or every segment of it, on to its successor as soon as it has it.

use crate::Error;
use crate::builder::{Mem, ScheduleBuilder};
use crate::table::{Algorithm, Arguments, Operation, Restrictions, misplaced};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ibcast,
    name: "chain",
    source: "Pjesivac-Grbovic et al. 2007",
    cost: "(p - 1) (a + n b)",
    restrictions: Restrictions::NONE,
    compile,
    order: None,
};

pub(crate) const PIPELINED: Algorithm = Algorithm {
    name: "pipelined-chain",
    cost: "(p - 2 + s) (a + n/s b) with s segments of 32 KiB",
    compile: compile_pipelined,
    ..ALGORITHM
};

/// Half of what a rank may copy in one handler entry, so that one entry receives a segment and passes it on.
const SEGMENT: usize = 32 << 10;

/// Longer messages have longer segments: each takes two requests per rank.
const MOST_SEGMENTS: usize = 1024;

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    compile_segments(arguments, b, arguments.size_bytes().max(1))
}

fn compile_pipelined(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    compile_segments(arguments, b, arguments.size_bytes().div_ceil(MOST_SEGMENTS).max(SEGMENT))
}

fn compile_segments(arguments: &Arguments, b: &mut ScheduleBuilder, segment: usize) -> Result<(), Error> {
    let Arguments::Ibcast { buffer, bytes, root } = *arguments else { return Err(misplaced()) };
    let size = u64::from(b.size());
    let root = u64::from(root);
    let place = (u64::from(b.rank()) + size - root) % size;
    let member = |place: u64| ((place + root) % size) as u32;
    for (round, start) in (0..).zip((0..bytes).step_by(segment)) {
        let part = Mem::User(buffer).at(start);
        let length = segment.min(bytes - start);
        let mut ready = Vec::new();
        if place > 0 {
            ready.push(b.recv(member(place - 1), round, part, length, &[]));
        }
        if place + 1 < size {
            b.send(member(place + 1), round, part, length, &ready);
        }
    }
    Ok(())
}
