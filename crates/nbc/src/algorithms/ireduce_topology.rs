//! Reduce along the [tree over the parts of the machine](super::kin): in each cache, then over caches, NUMA nodes and packages.
//!
//! Whose parts lie where decides in which order ranks are combined, so that the operator must be commutative.

use super::kin::{Kin, kin};
use super::reduction::{Call, Partial};
use crate::builder::{ScheduleBuilder, StepId};
use crate::order::{Combination, Shape, Share, uniform};
use crate::table::{Algorithm, Arguments, Operation, Restrictions, TOPOLOGY_AWARE, misplaced};
use crate::{Error, Hierarchy};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ireduce,
    name: TOPOLOGY_AWARE,
    source: "Karonis et al. 2000",
    cost: "sum of ceil(log2 k) (a + n b + n g) over the levels of the machine, with k parts in one of the level above",
    restrictions: Restrictions { commutative: true, ..Restrictions::NONE },
    compile,
    order: Some(combination_order),
};

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let Arguments::Ireduce { root, .. } = *arguments else { return Err(misplaced()) };
    let kin = kin(b.group().hierarchy(), b.size(), b.rank(), root);
    let (call, _) = Call::to_root(arguments, b, !kin.children.is_empty())?;
    if !call.is_local(b) {
        up(b, &call, &mut call.start(), &kin)?;
    }
    Ok(())
}

/// Steps of the way up, in round 0. Afterwards the root has the result in `partial`; elsewhere the step is the one that hands
/// `partial` on.
pub(super) fn up(
    b: &mut ScheduleBuilder,
    call: &Call,
    partial: &mut Partial,
    kin: &Kin,
) -> Result<Option<StepId>, Error> {
    let bytes = call.bytes();
    // The nearest first.
    for child in kin.children.iter().rev() {
        let temp = b.temp(bytes);
        let arrival = b.recv(child.rank, 0, temp, bytes, &[]);
        call.combine(b, partial, (0, call.count), temp, false, arrival, &[])?;
    }
    Ok(kin.parent.map(|parent| b.send(parent, 0, partial.at, bytes, partial.ready())))
}

fn combination_order(shape: &Shape) -> Vec<Share> {
    uniform(shape, Some(combined(shape.hierarchy, shape.ranks, shape.root, shape.root)))
}

/// What a rank hands on: its own, then what its children hand on, the nearest first.
pub(super) fn combined(hierarchy: Option<&Hierarchy>, ranks: u32, root: u32, rank: u32) -> Combination {
    let children = kin(hierarchy, ranks, rank, root).children.into_iter().rev();
    children.fold(Combination::Rank(rank), |all, child| {
        Combination::join(all, combined(hierarchy, ranks, root, child.rank))
    })
}
