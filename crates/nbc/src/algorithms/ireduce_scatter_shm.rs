//! Reduce-scatter on the board: every rank stores its vector, of two mostly the other's block alone, loads its own part of all and combines them from the left, in rank order.

use crate::board::{Call, Use, compile, is_short};
use crate::kernels::Operator;
use crate::table::{Algorithm, Arguments, Operation, Restrictions, misplaced};
use crate::{Error, Group};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::IreduceScatter,
    name: "shm",
    source: "folklore",
    cost: "c + 2 p n b + (p - 1) n g",
    restrictions: Restrictions::on_board(call),
    compile,
    order: Some(super::iallreduce_shm::order),
};

pub(crate) const BLOCK: Algorithm = Algorithm {
    operation: Operation::IreduceScatterBlock,
    restrictions: Restrictions::in_rounds_on_board(call),
    ..ALGORITHM
};

fn call(arguments: &Arguments, group: &Group) -> Result<Call, Error> {
    let (rank, ranks) = (group.rank() as usize, group.size() as usize);
    // Elements of all parts, of those before this rank's, and of this.
    let (send, recv, data_type, op, [whole, before, count], equal) = match *arguments {
        Arguments::IreduceScatter { send, recv, counts, data_type, op } => {
            let (before, rest) = counts.split_at_checked(rank).ok_or(misplaced())?;
            let (before, count) = (before.iter().sum(), rest.first().copied().ok_or(misplaced())?);
            (send, recv, data_type, op, [counts.iter().sum(), before, count], false)
        }
        Arguments::IreduceScatterBlock { send, recv, count, data_type, op } => {
            (send, recv, data_type, op, [count * ranks, count * rank, count], true)
        }
        _ => return Err(misplaced()),
    };
    let (operator, size) = (Operator::new(op, data_type)?, data_type.size());
    let stride = equal.then_some(count * size);
    let then = Use::ReduceScatter { at: before * size, count, operator, stride };
    let mut call = match *arguments {
        // Of the same vector there may be other parts.
        Arguments::IreduceScatter { counts, .. } => {
            let said = Call::said_of(counts.iter().copied());
            let mut call = Call::new(Operation::IreduceScatter, said as usize, then);
            call.say_beside(said >> 32, !is_short(arguments, ranks));
            call
        }
        _ => {
            let mut call = Call::new(Operation::IreduceScatterBlock, whole * size, then);
            // As of an allreduce.
            call.say_beside(u64::from(!operator.is_built_in()), false);
            call
        }
    };
    call.from = send.unwrap_or(recv);
    (call.bytes, call.to) = (whole * size, recv);
    Ok(call)
}
