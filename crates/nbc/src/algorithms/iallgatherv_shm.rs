//! Allgather of blocks of different lengths on the board: every rank stores its block, wherever its pieces stand, and loads all of them to where
//! they go.

use crate::board::{Call, Use, compile};
use crate::table::{Algorithm, Arguments, Operation, Restrictions, misplaced};
use crate::{Error, Group};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Iallgatherv,
    name: "shm",
    source: "folklore",
    cost: "c + (p + 1) n b",
    restrictions: Restrictions::on_board(call),
    compile,
    order: None,
};

fn call(arguments: &Arguments, group: &Group) -> Result<Call, Error> {
    let Arguments::Iallgatherv { send, recv, blocks } = *arguments else { return Err(misplaced()) };
    let own = blocks.get(group.rank() as usize).copied().ok_or(misplaced())?;
    let whole = blocks.iter().fold(0usize, |sum, block| sum.saturating_add(block.bytes));
    let equal = blocks.iter().all(|block| block.bytes == own.bytes);
    // What all ranks say that the lengths are.
    let said = blocks.iter().fold(0u64, |said, block| {
        (said ^ block.bytes as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    });
    let blocks = blocks.as_ptr();
    let then = Use::Allgatherv { blocks, whole, equal, in_place: send.is_none() };
    let mut call = Call::new(Operation::Iallgatherv, said as usize, then);
    call.from = send.unwrap_or(recv.wrapping_add(own.offset));
    (call.bytes, call.to) = (own.bytes, recv);
    Ok(call)
}
