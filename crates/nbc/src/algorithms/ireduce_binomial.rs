//! Reduce along a binomial tree (the classic of MPI libraries; see Thakur, Rabenseifner and Gropp 2005, section 4.4).
//!
//! After k levels, rank r covers ranks r to r + 2^k - 1; the ranks above come in on the right, so that rank order holds
//! whatever the root. The tree's top is rank 0, which sends the result to the root in one more message.

use super::reduction::{Call, Partial};
use super::tree::{Tree, level};
use crate::Error;
use crate::builder::{ScheduleBuilder, StepId};
use crate::order::{Combination, Shape, Share, doubling, uniform};
use crate::table::{Algorithm, Arguments, Operation, Restrictions, SPLIT_TREE};
use tocsin_topology::split_tree::Weights;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ireduce,
    name: "binomial",
    source: "Thakur, Rabenseifner, Gropp 2005",
    cost: "ceil(log2 p) (a + n b + n g); a + n b more when the root is not rank 0",
    restrictions: Restrictions::NONE,
    compile,
    order: Some(combination_order),
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

/// Steps of the way up, in round 0. Afterwards the top has the result in `partial`; elsewhere the step is the one that
/// hands `partial` on.
pub(super) fn tree(
    b: &mut ScheduleBuilder,
    call: &Call,
    partial: &mut Partial,
    top: u32,
) -> Result<Option<StepId>, Error> {
    let tree = Tree::new(b.rank(), b.size(), top);
    let bytes = call.bytes();
    for (place, _) in tree.children().rev() {
        let temp = b.temp(bytes);
        let arrival = b.recv(tree.member(place), 0, temp, bytes, &[]);
        let combined = call.combine(b, partial, (0, call.count), temp, false, arrival, &[])?;
        b.end_level(level(place), &[combined]);
    }
    let Some(parent) = tree.parent() else { return Ok(None) };
    let handed_on = b.send(parent, 0, partial.at, bytes, partial.ready());
    b.end_level(level(tree.place), &[handed_on]);
    Ok(Some(handed_on))
}

/// Whether a rank has others below it.
pub(super) fn combines(b: &ScheduleBuilder, top: u32) -> bool {
    Tree::new(b.rank(), b.size(), top).span() > 1
}

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let inner = combines(b, 0);
    let (call, root) = Call::to_root(arguments, b, inner)?;
    if call.is_local(b) {
        return Ok(());
    }
    let mut partial = call.start();
    let handed_on = tree(b, &call, &mut partial, 0)?;
    if b.rank() == 0 && root != 0 {
        b.send(root, 1, partial.at, call.bytes(), partial.ready());
    }
    if b.rank() == root && root != 0 {
        let readers = handed_on.filter(|_| partial.in_output);
        b.recv(0, 1, call.output, call.bytes(), readers.as_slice());
    }
    Ok(())
}

/// Neighbours at distance 1, 2, 4, ...
pub(super) fn combination_order(shape: &Shape) -> Vec<Share> {
    uniform(shape, doubling((0..shape.ranks).map(Combination::Rank).collect()))
}
