//! Prefix reductions on the board: every rank stores its vector, loads those of the ranks before it and combines them from the left, in
//! rank order. No rank waits for a later one, but for room on the board.

use crate::board::{Call, Use, compile};
use crate::kernels::Operator;
use crate::table::{Algorithm, Arguments, Operation, Restrictions, misplaced};
use crate::{Error, Group};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Iscan,
    name: "shm",
    source: "folklore",
    cost: "c + (p + 1) n b + (p - 1) n g",
    restrictions: Restrictions::in_rounds_on_board(call),
    compile,
    order: Some(super::iscan_chain::inclusive_order),
};

pub(crate) const EXCLUSIVE: Algorithm = Algorithm {
    operation: Operation::Iexscan,
    order: Some(super::iscan_chain::exclusive_order),
    ..ALGORITHM
};

fn call(arguments: &Arguments, _: &Group) -> Result<Call, Error> {
    let (inclusive, (send, recv, count, data_type, op)) = match *arguments {
        Arguments::Iscan { send, recv, count, data_type, op } => (true, (send, recv, count, data_type, op)),
        Arguments::Iexscan { send, recv, count, data_type, op } => {
            (false, (send, recv, count, data_type, op))
        }
        _ => return Err(misplaced()),
    };
    let (operator, bytes) = (Operator::new(op, data_type)?, arguments.size_bytes());
    let mut call = Call::new(arguments.operation(), bytes, Use::Scan { inclusive, count, operator });
    call.from = send.unwrap_or(recv);
    (call.bytes, call.to) = (bytes, recv);
    Ok(call)
}
