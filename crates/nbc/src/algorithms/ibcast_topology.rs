//! Broadcast along the [tree over the parts of the machine](super::kin): leaders of packages, of NUMA nodes, of caches, then the ranks of one.

use super::kin::{Kin, kin};
use crate::Error;
use crate::builder::{Mem, ScheduleBuilder, StepId};
use crate::table::{Algorithm, Arguments, Operation, Restrictions, TOPOLOGY_AWARE, misplaced};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ibcast,
    name: TOPOLOGY_AWARE,
    source: "Karonis et al. 2000",
    cost: "sum of ceil(log2 k) (a + n b) over the levels of the machine, with k parts in one of the level above",
    restrictions: Restrictions::NONE,
    compile,
    order: None,
};

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let Arguments::Ibcast { buffer, bytes, root } = *arguments else { return Err(misplaced()) };
    if bytes > 0 {
        let kin = kin(b.group().hierarchy(), b.size(), b.rank(), root);
        down(b, &kin, Mem::User(buffer), bytes, 0, &[], &[]);
    }
    Ok(())
}

/// The steps of the way down, in one round. The root sends after `ready`; the others receive after `free`.
pub(super) fn down(
    b: &mut ScheduleBuilder,
    kin: &Kin,
    buffer: Mem,
    bytes: usize,
    round: u32,
    ready: &[StepId],
    free: &[StepId],
) {
    let heard = kin.parent.map(|parent| b.recv(parent, round, buffer, bytes, free));
    let ready = heard.as_ref().map_or(ready, std::slice::from_ref);
    for child in &kin.children {
        if child.is_leaf {
            b.send_last(child.rank, round, buffer, bytes, ready);
        } else {
            b.send(child.rank, round, buffer, bytes, ready);
        }
    }
}
