//! Scatter by the root alone: one message to each rank, straight from where its block stands (folklore; Open MPI's
//! `basic linear`). The only algorithm for blocks of different lengths: nobody but the root knows these.

use super::places::{Places, Spot, put_block};
use crate::Error;
use crate::builder::{Mem, ScheduleBuilder};
use crate::table::{Algorithm, Arguments, Operation, Restrictions, misplaced};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Iscatter,
    name: "linear",
    source: "folklore",
    cost: "(p - 1) (a + n b)",
    restrictions: Restrictions::NONE,
    compile,
    order: None,
};

pub(crate) const DISPLACED: Algorithm = Algorithm { operation: Operation::Iscatterv, ..ALGORITHM };

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let (all, recv, bytes, root) = match *arguments {
        Arguments::Iscatter { send, recv, block, root } => {
            (Places::equal(Mem::read_only(send), block), recv, block, root)
        }
        Arguments::Iscatterv { send, blocks, recv, bytes, root } => {
            (Places::displaced(Mem::read_only(send), blocks), recv, bytes, root)
        }
        _ => return Err(misplaced()),
    };
    let (rank, size) = (b.rank(), b.size());
    if rank != root {
        if let Some(recv) = recv.filter(|_| bytes > 0) {
            b.recv(root, 0, Mem::User(recv), bytes, &[]);
        }
        return Ok(());
    }
    for i in 1..size {
        let to = (rank + i) % size;
        all.spot(to).send(b, to, 0);
    }
    // Others wait for what is sent, nobody for this.
    if let Some(recv) = recv {
        put_block(b, &all.spot(rank), &Spot::run(Mem::User(recv), bytes), &[]);
    }
    Ok(())
}
