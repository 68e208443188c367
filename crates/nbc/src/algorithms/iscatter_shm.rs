//! Scatter on the board: the root stores all blocks, each rank loads its own. The root waits for nobody.

use crate::board::{Call, Use, compile};
use crate::table::{Algorithm, Arguments, Operation, Restrictions, misplaced};
use crate::{Error, Group};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Iscatter,
    name: "shm",
    source: "folklore",
    cost: "c + (p + 1) n b",
    restrictions: Restrictions::in_rounds_on_board(call),
    compile,
    order: None,
};

fn call(arguments: &Arguments, group: &Group) -> Result<Call, Error> {
    let Arguments::Iscatter { send, recv, block, root } = *arguments else { return Err(misplaced()) };
    let mut call = Call::new(Operation::Iscatter, block, Use::Scatter { root, block, stride: block });
    if group.rank() == root {
        (call.from, call.bytes) = (send, group.size() as usize * block);
    }
    // The root's own may stay where it is.
    call.to = recv.unwrap_or(send.cast_mut().wrapping_add(root as usize * block));
    Ok(call)
}
