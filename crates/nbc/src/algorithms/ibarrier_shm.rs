//! Barrier on the board: every rank stores a word and loads the others'.

use crate::board::{Call, Use, compile};
use crate::table::{Algorithm, Arguments, Operation, Restrictions};
use crate::{Error, Group};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ibarrier,
    name: "shm",
    source: "folklore",
    cost: "c for the last rank to come, with c for loading lines of all others at once",
    restrictions: Restrictions::on_board(call),
    compile,
    order: None,
};

fn call(_: &Arguments, _: &Group) -> Result<Call, Error> {
    Ok(Call::new(Operation::Ibarrier, 0, Use::Barrier))
}
