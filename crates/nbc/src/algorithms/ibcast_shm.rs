//! Broadcast on the board: the root stores its buffer, the others load it. The root waits for nobody.

use crate::Error;
use crate::board::{Call, Use};
use crate::builder::ScheduleBuilder;
use crate::table::{Algorithm, Arguments, Operation, Restrictions, misplaced};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ibcast,
    name: "shm",
    source: "folklore",
    cost: "c + 2 n b",
    restrictions: Restrictions::BOARD,
    compile,
    order: None,
};

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let Arguments::Ibcast { buffer, bytes, root } = *arguments else { return Err(misplaced()) };
    if bytes == 0 {
        return Ok(());
    }
    let mut call = Call::new(b.board()?, Operation::Ibcast, bytes, Use::Bcast { root });
    if b.rank() == root {
        (call.from, call.bytes) = (buffer, bytes);
    }
    call.to = buffer;
    b.on_board(call);
    Ok(())
}
