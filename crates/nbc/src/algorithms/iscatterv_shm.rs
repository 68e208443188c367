//! Scatter of blocks of different lengths on the board: the root stores those up to a limit, and each rank loads its own. Longer ones go by messages beside it,
//! straight from where they stand. The root waits for nobody that loads its own.

use super::ialltoallv_shm::{Beside, compile_as};
use super::places::Places;
use crate::board::{Call, Use, Way};
use crate::builder::{Mem, ScheduleBuilder};
use crate::table::{Algorithm, Arguments, Block, Operation, Restrictions, misplaced};
use crate::{Error, Group};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Iscatterv,
    name: "shm",
    source: "folklore",
    cost: "c + (p + 1) n b, of longer blocks (p - 1) (a + n b)",
    restrictions: Restrictions::beside_board(call),
    compile,
    order: None,
};

fn call(arguments: &Arguments, group: &Group) -> Result<Call, Error> {
    let Arguments::Iscatterv { send, recv, root, .. } = *arguments else { return Err(misplaced()) };
    let then = Use::compartments(Way::Scatter { root }, group, send);
    let mut call = Call::new(Operation::Iscatterv, 0, then);
    call.to = recv.unwrap_or(std::ptr::null_mut());
    Ok(call)
}

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let Arguments::Iscatterv { send, blocks, recv, bytes, root } = *arguments else {
        return Err(misplaced());
    };
    let (me, size) = (b.rank() as usize, b.size() as usize);
    let mut received = vec![Block::default(); size];
    // The root's may stay where it is.
    received[root as usize] = Block::new(0, if recv.is_some() { bytes } else { 0 });
    let sent = if me == root as usize { blocks.to_vec() } else { vec![Block::default(); size] };
    let to = Mem::User(recv.unwrap_or(std::ptr::null_mut()));
    let beside = Beside {
        send: Places::displaced(Mem::read_only(send), &sent),
        recv: Places::displaced(to, &received),
        in_place: false,
    };
    compile_as(call(arguments, b.group())?, (&received, &sent), &beside, b)
}
