//! Broadcast on the board: the root stores its buffer, the others load it. The root waits for nobody.

use crate::board::{Call, Use, compile};
use crate::table::{Algorithm, Arguments, Operation, Restrictions, misplaced};
use crate::{Error, Group};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ibcast,
    name: "shm",
    source: "folklore",
    cost: "c + 2 n b",
    restrictions: Restrictions::in_rounds_on_board(call),
    compile,
    order: None,
};

fn call(arguments: &Arguments, group: &Group) -> Result<Call, Error> {
    let Arguments::Ibcast { buffer, bytes, root } = *arguments else { return Err(misplaced()) };
    let mut call = Call::new(Operation::Ibcast, bytes, Use::Bcast { root });
    if group.rank() == root {
        (call.from, call.bytes) = (buffer, bytes);
    }
    call.to = buffer;
    Ok(call)
}
