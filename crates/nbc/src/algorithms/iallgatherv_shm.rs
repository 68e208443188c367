//! Allgather of blocks of different lengths on the board: every rank stores its block, which it has put into one run when it started if it is in
//! pieces, and loads all others to where their pieces go.

use crate::board::{Call, Use, compile, is_short};
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
    let all = blocks.iter().fold(0usize, |sum, block| sum.saturating_add(block.bytes));
    let (equal, in_place) = (arguments.has_equal_blocks(), send.is_none());
    let whole = if in_place { all.saturating_sub(own.bytes) } else { all };
    let then = Use::Allgatherv { blocks: blocks.as_ptr(), whole, equal, in_place };
    let mut call = match equal {
        true => Call::new(Operation::Iallgatherv, own.bytes, then),
        // What all ranks say that the lengths are; never what those say whose are equal, which is exact, because places pass on their word.
        false => {
            let said = Call::said_of(blocks.iter().map(|block| block.bytes));
            let mut call = Call::new(Operation::Iallgatherv, said as usize, then);
            call.say_beside(said >> 32, !is_short(arguments, blocks.len()));
            call
        }
    };
    call.from = send.unwrap_or(recv.wrapping_add(own.offset));
    (call.bytes, call.to) = (own.bytes, recv);
    Ok(call)
}
