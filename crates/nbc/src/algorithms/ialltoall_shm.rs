//! All-to-all on the board: every rank stores its blocks and loads those that are for it.

use crate::Error;
use crate::board::{Call, Use};
use crate::builder::ScheduleBuilder;
use crate::table::{Algorithm, Arguments, Operation, Restrictions, misplaced};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ialltoall,
    name: "shm",
    source: "folklore",
    cost: "c + 2 p n b",
    restrictions: Restrictions::BOARD,
    compile,
    order: None,
};

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let Arguments::Ialltoall { send, recv, block } = *arguments else { return Err(misplaced()) };
    if block == 0 {
        return Ok(());
    }
    let mut call = Call::new(b.board()?, Operation::Ialltoall, block, Use::Alltoall { block });
    call.from = send.unwrap_or(recv);
    (call.bytes, call.to) = (b.size() as usize * block, recv);
    b.on_board(call);
    Ok(())
}
