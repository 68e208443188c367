//! Barrier on the board: every rank stores a word and loads the others'.

use crate::Error;
use crate::board::{Call, Use};
use crate::builder::ScheduleBuilder;
use crate::table::{Algorithm, Arguments, Operation, Restrictions};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ibarrier,
    name: "shm",
    source: "folklore",
    cost: "c for the last rank to come, with c for loading lines of all others at once",
    restrictions: Restrictions::BOARD,
    compile,
    order: None,
};

fn compile(_: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let call = Call::new(b.board()?, Operation::Ibarrier, 0, Use::Barrier);
    b.on_board(call);
    Ok(())
}
