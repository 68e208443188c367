//! Gather by the root alone: one message from each rank, straight to where its block belongs (folklore; Open MPI's
//! `basic linear`). The only algorithm for blocks of different lengths: nobody but the root knows these.

use super::places::{Places, Spot, put_block};
use crate::Error;
use crate::builder::{Mem, ScheduleBuilder};
use crate::table::{Algorithm, Arguments, Operation, Restrictions, misplaced};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Igather,
    name: "linear",
    source: "folklore",
    cost: "(p - 1) (a + n b)",
    restrictions: Restrictions::NONE,
    compile,
    order: None,
};

pub(crate) const DISPLACED: Algorithm = Algorithm { operation: Operation::Igatherv, ..ALGORITHM };

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let (all, send, bytes, root) = match *arguments {
        Arguments::Igather { send, recv, block, root } => {
            (Places::equal(Mem::User(recv), block), send, block, root)
        }
        Arguments::Igatherv { send, bytes, recv, blocks, root } => {
            (Places::displaced(Mem::User(recv), blocks), send, bytes, root)
        }
        _ => return Err(misplaced()),
    };
    let (rank, size) = (b.rank(), b.size());
    if rank != root {
        if let Some(send) = send.filter(|_| bytes > 0) {
            b.send_last(root, 0, Mem::read_only(send), bytes, &[]);
        }
        return Ok(());
    }
    for i in 1..size {
        let from = (rank + i) % size;
        all.spot(from).receive(b, from, 0, &[]);
    }
    if let Some(send) = send {
        put_block(b, &Spot::run(Mem::read_only(send), bytes), &all.spot(rank), &[]);
    }
    Ok(())
}
