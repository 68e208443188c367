//! Broadcast along a binomial tree (the classic of MPI libraries since MPICH 1; see Thakur, Rabenseifner and Gropp 2005,
//! section 4.2).
//!
//! Counting ranks from the root, a rank hears from the rank with its lowest set bit cleared and tells the ranks with one
//! lower bit set, the farthest first.

use crate::Error;
use crate::builder::{Mem, ScheduleBuilder, StepId};
use crate::table::{Algorithm, Arguments, Operation, Restrictions, SPLIT_TREE, misplaced};
use tocsin_topology::split_tree::Weights;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ibcast,
    name: "binomial",
    source: "Thakur, Rabenseifner, Gropp 2005",
    cost: "ceil(log2 p) (a + n b)",
    restrictions: Restrictions::NONE,
    compile,
    order: None,
};

/// Whose levels next to the leaves the ranks do themselves: [`split`](crate::split).
pub(crate) const SPLIT: Algorithm = Algorithm {
    name: SPLIT_TREE,
    source: "Taboada, thesis, Bordeaux 2018, chapter 5",
    compile: compile_split,
    ..ALGORITHM
};

fn compile_split(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    b.split(Weights::Constant);
    compile(arguments, b)
}

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let Arguments::Ibcast { buffer, bytes, root } = *arguments else { return Err(misplaced()) };
    if bytes > 0 {
        tree(b, Mem::User(buffer), bytes, root, 0, &[], &[]);
    }
    Ok(())
}

/// The steps of the broadcast, in one round. The root sends after `ready`; the others receive after `free`.
pub(super) fn tree(
    b: &mut ScheduleBuilder,
    buffer: Mem,
    bytes: usize,
    root: u32,
    round: u32,
    ready: &[StepId],
    free: &[StepId],
) {
    let size = u64::from(b.size());
    let root = u64::from(root);
    let place = (u64::from(b.rank()) + size - root) % size;
    let member = |place: u64| ((place + root) % size) as u32;
    let mut ready = ready.to_vec();
    let mut bit = size.next_power_of_two();
    if place != 0 {
        bit = 1 << place.trailing_zeros();
        ready = vec![b.recv(member(place - bit), round, buffer, bytes, free)];
    }
    while bit > 1 {
        bit /= 2;
        if place + bit >= size {
            continue;
        }
        let gate = b.gate(bit.ilog2() + 1);
        let after: Vec<StepId> = ready.iter().copied().chain(gate).collect();
        // Those at odd places have nobody below them, nor has who is the last.
        if bit == 1 || place + bit + 1 == size {
            b.send_last(member(place + bit), round, buffer, bytes, &after);
        } else {
            b.send(member(place + bit), round, buffer, bytes, &after);
        }
    }
}
