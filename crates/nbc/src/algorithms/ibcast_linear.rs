//! Broadcast by the root alone: one message to each rank. No rank depends on another but the root.

use crate::Error;
use crate::builder::{Mem, ScheduleBuilder};
use crate::table::{Algorithm, Arguments, Operation, Restrictions, misplaced};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ibcast,
    name: "linear",
    source: "folklore",
    cost: "(p - 1) (a + n b)",
    restrictions: Restrictions::NONE,
    compile,
    order: None,
};

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let Arguments::Ibcast { buffer, bytes, root } = *arguments else { return Err(misplaced()) };
    if bytes == 0 {
        return Ok(());
    }
    let buffer = Mem::User(buffer);
    if b.rank() == root {
        for rank in (0..b.size()).filter(|rank| *rank != root) {
            b.send_last(rank, 0, buffer, bytes, &[]);
        }
    } else {
        b.recv(root, 0, buffer, bytes, &[]);
    }
    Ok(())
}
