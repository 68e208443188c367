//! Allreduce along the [tree over the parts of the machine](super::kin): up to rank 0, and down again.

use super::ibcast_topology::down;
use super::ireduce_topology::{combined, up};
use super::kin::kin;
use super::reduction::Call;
use crate::Error;
use crate::builder::ScheduleBuilder;
use crate::order::{Shape, Share, uniform};
use crate::table::{Algorithm, Arguments, Operation, Restrictions, TOPOLOGY_AWARE};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Iallreduce,
    name: TOPOLOGY_AWARE,
    source: "Karonis et al. 2000",
    cost: "sum of ceil(log2 k) (2 a + 2 n b + n g) over the levels of the machine, with k parts in one of the level above",
    restrictions: Restrictions { commutative: true, ..Restrictions::NONE },
    compile,
    order: Some(combination_order),
};

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let call = Call::new(arguments)?;
    if call.is_local(b) {
        return Ok(());
    }
    let kin = kin(b.group().hierarchy(), b.size(), b.rank(), 0);
    let mut partial = call.start();
    let handed_on = up(b, &call, &mut partial, &kin)?;
    let readers = handed_on.filter(|_| partial.in_output);
    down(b, &kin, call.output, call.bytes(), 1, partial.ready(), readers.as_slice());
    Ok(())
}

fn combination_order(shape: &Shape) -> Vec<Share> {
    uniform(shape, Some(combined(shape.hierarchy, shape.ranks, 0, 0)))
}
