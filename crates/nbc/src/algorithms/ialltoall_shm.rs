//! All-to-all on the board: every rank stores its blocks and loads those that are for it.

use crate::board::{Call, Use, compile};
use crate::table::{Algorithm, Arguments, Operation, Restrictions, misplaced};
use crate::{Error, Group};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ialltoall,
    name: "shm",
    source: "folklore",
    cost: "c + 2 p n b",
    restrictions: Restrictions::in_rounds_on_board(call),
    compile,
    order: None,
};

fn call(arguments: &Arguments, group: &Group) -> Result<Call, Error> {
    let Arguments::Ialltoall { send, recv, block } = *arguments else { return Err(misplaced()) };
    let mut call = Call::new(Operation::Ialltoall, block, Use::Alltoall { block, stride: block });
    call.from = send.unwrap_or(recv);
    (call.bytes, call.to) = (group.size() as usize * block, recv);
    Ok(call)
}
