//! Allreduce on the board: every rank stores its vector, loads all and combines them from the left, in rank order. So all
//! ranks compute the same expression, whatever the operator. Of long vectors ranks that run at the same time share the work, piece by piece, where they are more than two or the operator is the user's.

use crate::board::{Call, Use, compile};
use crate::kernels::Operator;
use crate::order::{Shape, Share, in_turn, uniform};
use crate::table::{Algorithm, Arguments, Operation, Restrictions, misplaced};
use crate::{Error, Group};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Iallreduce,
    name: "shm",
    source: "folklore",
    cost: "c + (p + 1) n b + (p - 1) n g",
    restrictions: Restrictions::in_rounds_on_board(call),
    compile,
    order: Some(order),
};

fn call(arguments: &Arguments, _: &Group) -> Result<Call, Error> {
    let Arguments::Iallreduce { send, recv, count, data_type, op } = *arguments else {
        return Err(misplaced());
    };
    let operator = Operator::new(op, data_type)?;
    let bytes = arguments.size_bytes();
    let then = Use::Reduce { root: None, count, operator };
    let mut call = Call::new(Operation::Iallreduce, bytes, then);
    call.from = send.unwrap_or(recv);
    (call.bytes, call.to) = (bytes, recv);
    // Two members' long parts are made in one way or another, by whose operator it is.
    call.say_beside(u64::from(!operator.is_built_in()), false);
    Ok(call)
}

/// From the left, in rank order.
pub(super) fn order(shape: &Shape) -> Vec<Share> {
    uniform(shape, in_turn(0..shape.ranks))
}
