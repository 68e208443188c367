//! Allgather on the board: every rank stores its block and loads all.

use crate::Error;
use crate::board::{Call, Use};
use crate::builder::ScheduleBuilder;
use crate::table::{Algorithm, Arguments, Operation, Restrictions, misplaced};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Iallgather,
    name: "shm",
    source: "folklore",
    cost: "c + (p + 1) n b",
    restrictions: Restrictions::BOARD,
    compile,
    order: None,
};

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let Arguments::Iallgather { send, recv, block } = *arguments else { return Err(misplaced()) };
    if block == 0 {
        return Ok(());
    }
    let mut call = Call::new(b.board()?, Operation::Iallgather, block, Use::Allgather);
    call.from = send.unwrap_or(recv.wrapping_add(b.rank() as usize * block));
    (call.bytes, call.to) = (block, recv);
    b.on_board(call);
    Ok(())
}
