//! Reduce on the board: every rank stores its vector, the root loads all and combines them from the left, in rank order.
//! Only the root waits.

use crate::board::{Call, Use, compile};
use crate::kernels::Operator;
use crate::table::{Algorithm, Arguments, Operation, Restrictions, misplaced};
use crate::{Error, Group};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ireduce,
    name: "shm",
    source: "folklore",
    cost: "c + (p + 1) n b + (p - 1) n g",
    restrictions: Restrictions::in_rounds_on_board(call),
    compile,
    order: Some(super::iallreduce_shm::order),
};

fn call(arguments: &Arguments, _: &Group) -> Result<Call, Error> {
    let Arguments::Ireduce { send, recv, count, data_type, op, root } = *arguments else {
        return Err(misplaced());
    };
    let operator = Operator::new(op, data_type)?;
    let bytes = arguments.size_bytes();
    let then = Use::Reduce { root: Some(root), count, operator };
    let mut call = Call::new(Operation::Ireduce, bytes, then);
    call.from = send.unwrap_or(recv);
    (call.bytes, call.to) = (bytes, recv);
    Ok(call)
}
