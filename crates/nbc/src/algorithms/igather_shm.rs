//! Gather on the board: every rank stores its block, the root loads all. Only the root waits.

use crate::board::{Call, Use, compile};
use crate::table::{Algorithm, Arguments, Operation, Restrictions, misplaced};
use crate::{Error, Group};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Igather,
    name: "shm",
    source: "folklore",
    cost: "c + (p + 1) n b",
    restrictions: Restrictions::in_rounds_on_board(call),
    compile,
    order: None,
};

fn call(arguments: &Arguments, group: &Group) -> Result<Call, Error> {
    let Arguments::Igather { send, recv, block, root } = *arguments else { return Err(misplaced()) };
    let then = Use::Gather { root, stride: block, at_root: group.rank() == root };
    let mut call = Call::new(Operation::Igather, block, then);
    // In place, at the root, it stands among the others.
    call.from = send.unwrap_or(recv.wrapping_add(root as usize * block));
    (call.bytes, call.to) = (block, recv);
    Ok(call)
}
