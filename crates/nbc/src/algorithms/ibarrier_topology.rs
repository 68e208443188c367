//! Barrier along the [tree over the parts of the machine](super::kin): up to rank 0 when a part is complete, then down again.

use super::kin::kin;
use crate::Error;
use crate::builder::{Mem, ScheduleBuilder, StepId};
use crate::table::{Algorithm, Arguments, Operation, Restrictions, TOPOLOGY_AWARE};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ibarrier,
    name: TOPOLOGY_AWARE,
    source: "Karonis et al. 2000",
    cost: "sum of 2 ceil(log2 k) a over the levels of the machine, with k parts in one of the level above",
    restrictions: Restrictions::NONE,
    compile,
    order: None,
};

fn compile(_: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let nothing = Mem::User(std::ptr::dangling_mut());
    let kin = kin(b.group().hierarchy(), b.size(), b.rank(), 0);
    let mut ready: Vec<StepId> =
        kin.children.iter().map(|child| b.recv(child.rank, 0, nothing, 0, &[])).collect();
    if let Some(parent) = kin.parent {
        b.send(parent, 0, nothing, 0, &ready);
        // The parent answers when all have come, these children too.
        ready = vec![b.recv(parent, 0, nothing, 0, &[])];
    }
    for child in &kin.children {
        b.send(child.rank, 0, nothing, 0, &ready);
    }
    Ok(())
}
