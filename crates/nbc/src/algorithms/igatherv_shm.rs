//! Gather of blocks of different lengths on the board: every rank stores its block, up to a limit, and the root loads them. Longer ones go by messages beside it,
//! straight to where they belong. Only the root waits.

use super::ialltoallv_shm::{Beside, compile_as};
use super::places::Places;
use crate::board::{Call, Use, Way};
use crate::builder::{Mem, ScheduleBuilder};
use crate::table::{Algorithm, Arguments, Block, Operation, Restrictions, misplaced};
use crate::{Error, Group};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Igatherv,
    name: "shm",
    source: "folklore",
    cost: "c + (p + 1) n b, of longer blocks (p - 1) (a + n b)",
    restrictions: Restrictions::beside_board(call),
    compile,
    order: None,
};

fn call(arguments: &Arguments, group: &Group) -> Result<Call, Error> {
    let Arguments::Igatherv { send, recv, root, .. } = *arguments else { return Err(misplaced()) };
    let then = Use::compartments(Way::Gather { root }, group, send.unwrap_or(std::ptr::null()));
    let mut call = Call::new(Operation::Igatherv, 0, then);
    call.to = recv;
    Ok(call)
}

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let Arguments::Igatherv { send, bytes, recv, blocks, root } = *arguments else { return Err(misplaced()) };
    let (me, size) = (b.rank() as usize, b.size() as usize);
    let mut sent = vec![Block::default(); size];
    sent[root as usize] = Block::new(0, if send.is_some() { bytes } else { 0 });
    let mut received = if me == root as usize { blocks.to_vec() } else { vec![Block::default(); size] };
    if send.is_none() && me == root as usize {
        // It stands there.
        received[me] = Block::default();
    }
    let from = Mem::read_only(send.unwrap_or(std::ptr::null()));
    let beside = Beside {
        send: Places::displaced(from, &sent),
        recv: Places::displaced(Mem::User(recv), &received),
        in_place: false,
    };
    compile_as(call(arguments, b.group())?, (&received, &sent), &beside, b)
}
