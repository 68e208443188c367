//! Barrier through rank 0: all tell it that they have come, then it tells all (folklore). No rank depends on another but
//! rank 0, and with few ranks nothing is shorter.

use crate::Error;
use crate::builder::{Mem, ScheduleBuilder, StepId};
use crate::table::{Algorithm, Arguments, Operation, Restrictions};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ibarrier,
    name: "linear",
    source: "folklore",
    cost: "2 (p - 1) a",
    restrictions: Restrictions::NONE,
    compile,
    order: None,
};

fn compile(_: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let nothing = Mem::User(std::ptr::dangling_mut());
    if b.rank() > 0 {
        b.send(0, 0, nothing, 0, &[]);
        b.recv(0, 0, nothing, 0, &[]);
        return Ok(());
    }
    let heard: Vec<StepId> = (1..b.size()).map(|rank| b.recv(rank, 0, nothing, 0, &[])).collect();
    let all = b.join(&heard);
    for rank in 1..b.size() {
        b.send(rank, 0, nothing, 0, &[all]);
    }
    Ok(())
}
