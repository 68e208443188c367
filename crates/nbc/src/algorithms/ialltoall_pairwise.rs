//! Pairwise exchange (Thakur, Rabenseifner and Gropp 2005, section 4.3): in round i a rank sends to the rank i above it and
//! receives from the rank i below it, one round after the other, so that every rank has one sender at a time.

use super::ialltoall_linear::Blocks;
use crate::Error;
use crate::builder::ScheduleBuilder;
use crate::table::{Algorithm, Arguments, Operation, Restrictions};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ialltoall,
    name: "pairwise",
    source: "Thakur, Rabenseifner, Gropp 2005",
    cost: "(p - 1) (a + n b), one message at a time",
    restrictions: Restrictions::NONE,
    compile,
    order: None,
};

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let blocks = Blocks::new(arguments, b)?;
    if blocks.block == 0 {
        return Ok(());
    }
    let (rank, size) = (b.rank(), b.size());
    let mut before = blocks.ready.clone();
    for i in 1..size {
        let (above, below) = ((rank + i) % size, (rank + (size - i)) % size);
        let (from, bytes) = (blocks.to(above), blocks.block);
        let sent = if i + 1 < size {
            b.send(above, 0, from, bytes, &before)
        } else {
            b.send_last(above, 0, from, bytes, &before)
        };
        let received = b.recv(below, 0, blocks.from(below), blocks.block, &before);
        before = vec![received, sent];
    }
    blocks.keep(b);
    Ok(())
}
