//! All messages at once: every rank sends its block to every other, its successor first (folklore; Open MPI's
//! `basic linear`).

use super::places::{Places, put};
use crate::Error;
use crate::builder::{Mem, ScheduleBuilder};
use crate::table::{Algorithm, Arguments, Operation, Restrictions, misplaced};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Iallgather,
    name: "linear",
    source: "folklore",
    cost: "(p - 1) (a + n b)",
    restrictions: Restrictions::NONE,
    compile,
    order: None,
};

pub(crate) const DISPLACED: Algorithm = Algorithm { operation: Operation::Iallgatherv, ..ALGORITHM };

/// What all algorithms of the allgathers start from.
pub(super) struct Call<'a> {
    /// Where the blocks go.
    pub all: Places<'a>,
    /// Where this rank's block stands before; the same place in the in-place form.
    pub own: Mem,
}

impl<'a> Call<'a> {
    pub(super) fn new(arguments: &Arguments<'a>, b: &ScheduleBuilder) -> Result<Call<'a>, Error> {
        let (send, all) = match *arguments {
            Arguments::Iallgather { send, recv, block } => (send, Places::equal(Mem::User(recv), block)),
            Arguments::Iallgatherv { send, recv, blocks } => {
                (send, Places::displaced(Mem::User(recv), blocks))
            }
            _ => return Err(misplaced()),
        };
        Ok(Call { all, own: send.map_or(all.at(b.rank()), Mem::read_only) })
    }

    /// Puts this rank's own block where it belongs.
    pub(super) fn keep(&self, b: &mut ScheduleBuilder) {
        let rank = b.rank();
        put(b, self.own, self.all.at(rank), self.all.bytes(rank), &[]);
    }
}

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let call = Call::new(arguments, b)?;
    let (rank, size) = (b.rank(), b.size());
    for i in 1..size {
        let from = (rank + (size - i)) % size;
        if call.all.bytes(from) > 0 {
            b.recv(from, 0, call.all.at(from), call.all.bytes(from), &[]);
        }
    }
    let bytes = call.all.bytes(rank);
    for i in (1..size).filter(|_| bytes > 0) {
        b.send((rank + i) % size, 0, call.own, bytes, &[]);
    }
    call.keep(b);
    Ok(())
}
