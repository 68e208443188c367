//! Reduce along a binomial tree whose top is the root: a message less than `binomial`, but ranks are counted from the
//! root, so that the operator must be commutative.

use super::ireduce_binomial::{combines, tree};
use super::reduction::Call;
use crate::Error;
use crate::builder::ScheduleBuilder;
use crate::order::{Combination, Shape, Share, doubling, uniform};
use crate::table::{Algorithm, Arguments, Operation, Restrictions, misplaced};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ireduce,
    name: "binomial-root",
    source: "Thakur, Rabenseifner, Gropp 2005",
    cost: "ceil(log2 p) (a + n b + n g)",
    restrictions: Restrictions { commutative: true, ..Restrictions::NONE },
    compile,
    order: Some(combination_order),
};

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let Arguments::Ireduce { root, .. } = *arguments else { return Err(misplaced()) };
    let inner = combines(b, root);
    let (call, root) = Call::to_root(arguments, b, inner)?;
    if !call.is_local(b) {
        tree(b, &call, &mut call.start(), root)?;
    }
    Ok(())
}

/// Counted from the root: neighbours at distance 1, 2, 4, ...
fn combination_order(shape: &Shape) -> Vec<Share> {
    let from_root = (shape.root..shape.ranks).chain(0..shape.root);
    uniform(shape, doubling(from_root.map(Combination::Rank).collect()))
}
