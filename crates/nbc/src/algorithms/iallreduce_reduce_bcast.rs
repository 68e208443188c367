//! Allreduce as a binomial reduction to rank 0 followed by a binomial broadcast (the classic of early MPI libraries).
//!
//! In the reduction, rank r covers ranks r to r + 2^k - 1 after k levels; the ranks above come in on the right, so that
//! rank order holds.

use super::reduction::Call;
use crate::Error;
use crate::builder::ScheduleBuilder;
use crate::order::{Combination, Shape, Share, doubling, uniform};
use crate::table::{Algorithm, Arguments, Operation, Restrictions, SPLIT_TREE};
use tocsin_topology::split_tree::Weights;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Iallreduce,
    name: "reduce-bcast",
    source: "Thakur, Rabenseifner, Gropp 2005 (binomial trees)",
    cost: "2 ceil(log2 p) (a + n b) + ceil(log2 p) n g",
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

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let call = Call::new(arguments)?;
    if call.is_local(b) {
        return Ok(());
    }
    let mut partial = call.start();
    let handed_on = super::ireduce_binomial::tree(b, &call, &mut partial, 0)?;
    let readers = handed_on.filter(|_| partial.in_output);
    let bytes = call.bytes();
    super::ibcast_binomial::tree(b, call.output, bytes, 0, 1, partial.ready(), readers.as_slice());
    Ok(())
}

/// Neighbours at distance 1, 2, 4, ...
fn combination_order(shape: &Shape) -> Vec<Share> {
    uniform(shape, doubling((0..shape.ranks).map(Combination::Rank).collect()))
}
