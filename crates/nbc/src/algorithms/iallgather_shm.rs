//! Allgather on the board: every rank stores its block and loads all.

use crate::board::{Call, Use, compile};
use crate::table::{Algorithm, Arguments, Operation, Restrictions, misplaced};
use crate::{Error, Group};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Iallgather,
    name: "shm",
    source: "folklore",
    cost: "c + (p + 1) n b",
    restrictions: Restrictions::in_rounds_on_board(call),
    compile,
    order: None,
};

fn call(arguments: &Arguments, group: &Group) -> Result<Call, Error> {
    let Arguments::Iallgather { send, recv, block } = *arguments else { return Err(misplaced()) };
    let mut call = Call::new(Operation::Iallgather, block, Use::Allgather { stride: block });
    call.from = send.unwrap_or(recv.wrapping_add(group.rank() as usize * block));
    (call.bytes, call.to) = (block, recv);
    Ok(call)
}
