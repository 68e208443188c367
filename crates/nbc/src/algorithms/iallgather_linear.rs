//! All messages at once: every rank sends its block to every other, its successor first (folklore; Open MPI's
//! `basic linear`).

use super::places::{Places, Spot, put, put_block};
use crate::Error;
use crate::builder::{Mem, ScheduleBuilder};
use crate::table::{Algorithm, Arguments, Block, Operation, Restrictions, misplaced};

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
    fn new(arguments: &Arguments<'a>, b: &ScheduleBuilder) -> Result<Call<'a>, Error> {
        let (send, all) = match *arguments {
            Arguments::Iallgather { send, recv, block } => (send, Places::equal(Mem::User(recv), block)),
            Arguments::Iallgatherv { send, recv, blocks } => {
                (send, Places::displaced(Mem::User(recv), blocks))
            }
            _ => return Err(misplaced()),
        };
        Ok(Call { all, own: send.map_or(all.at(b.rank()), Mem::read_only) })
    }

    /// Translates a call by what an algorithm makes of one whose blocks are single runs. Where some have pieces, that is done
    /// in a temporary, side by side.
    pub(super) fn compile(
        arguments: &Arguments<'a>,
        b: &mut ScheduleBuilder,
        steps: impl Fn(&Call<'_>, &mut ScheduleBuilder),
    ) -> Result<(), Error> {
        let call = Call::new(arguments, b)?;
        if !call.all.is_strided() {
            steps(&call, b);
            return Ok(());
        }
        let (rank, size) = (b.rank(), b.size());
        let mut next = 0;
        let side_by_side = |other| {
            let block = Block::new(next, call.all.bytes(other));
            next += block.bytes;
            block
        };
        let blocks: Vec<Block> = (0..size).map(side_by_side).collect();
        let here = Places::displaced(b.temp(next), &blocks);
        let in_place = matches!(arguments, Arguments::Iallgatherv { send: None, .. });
        let own = if in_place { here.at(rank) } else { call.own };
        let filled = in_place.then(|| put_block(b, &call.all.spot(rank), &here.spot(rank), &[])).flatten();
        let first = b.len();
        steps(&Call { all: here, own }, b);
        if let Some(filled) = filled {
            b.order_all(filled, first);
        }
        let done = [b.all()];
        for other in (0..size).filter(|other| *other != rank) {
            put_block(b, &here.spot(other), &call.all.spot(other), &done);
        }
        if !in_place {
            put_block(b, &Spot::run(call.own, call.all.bytes(rank)), &call.all.spot(rank), &[]);
        }
        Ok(())
    }

    /// Puts this rank's own block where it belongs.
    pub(super) fn keep(&self, b: &mut ScheduleBuilder) {
        let rank = b.rank();
        put(b, self.own, self.all.at(rank), self.all.bytes(rank), &[]);
    }
}

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    Call::compile(arguments, b, steps)
}

fn steps(call: &Call, b: &mut ScheduleBuilder) {
    let (rank, size) = (b.rank(), b.size());
    let bytes = call.all.bytes(rank);
    for i in (1..size).filter(|_| bytes > 0) {
        b.send_last((rank + i) % size, 0, call.own, bytes, &[]);
    }
    for i in 1..size {
        let from = (rank + (size - i)) % size;
        if call.all.bytes(from) > 0 {
            b.recv(from, 0, call.all.at(from), call.all.bytes(from), &[]);
        }
    }
    call.keep(b);
}
