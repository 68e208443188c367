//! Barrier by dissemination (Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", 1988).
//!
//! In round k each rank tells the rank 2^k above it and hears from the rank 2^k below it; what it says includes all it
//! has heard.

use crate::Error;
use crate::builder::{Mem, ScheduleBuilder};
use crate::table::{Algorithm, Arguments, Operation, Restrictions};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ibarrier,
    name: "dissemination",
    source: "Hensgen, Finkel, Manber 1988",
    cost: "ceil(log2 p) a",
    restrictions: Restrictions::NONE,
    compile,
    order: None,
};

fn compile(_: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let (rank, size) = (u64::from(b.rank()), u64::from(b.size()));
    let nothing = Mem::User(std::ptr::dangling_mut());
    let mut heard = Vec::new();
    let mut distance = 1;
    let mut round = 0;
    while distance < size {
        let to = ((rank + distance) % size) as u32;
        let from = ((rank + size - distance) % size) as u32;
        b.send(to, round, nothing, 0, &heard);
        // All receives are posted at the start; a round's message counts once the rounds before have been heard,
        // because a send depends on all of them.
        heard.push(b.recv(from, round, nothing, 0, &[]));
        distance *= 2;
        round += 1;
    }
    Ok(())
}
