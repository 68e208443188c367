//! Collectives whose parts are taken from blocks, or go to blocks, that stand anywhere, in pieces perhaps: run by run, wherever the budget ends. Handler-safe.

use super::{Call, Use};
use crate::executor::{CACHE_LINE, room};
use crate::table::Block;
use tocsin_progress::budget::Budget;
use tocsin_transport::board::Board;

impl Call {
    /// The block that this rank's part is taken from, if that has pieces.
    pub(super) fn in_pieces(&self, me: usize) -> Option<Block> {
        match self.then {
            Use::Allgatherv { blocks, in_place: true, .. } => {
                // SAFETY: one for each member, as long as the call is used: `look_at`.
                Some(unsafe { *blocks.wrapping_add(me) }).filter(Block::is_strided)
            }
            _ => None,
        }
    }

    /// Puts this rank's short part, if it is in pieces, into one run.
    ///
    /// # Safety
    /// The part is readable. `scratch` is writable for [`ROOM`](tocsin_transport::board::ROOM).
    #[inline]
    pub(crate) unsafe fn packed(&self, board: &Board, scratch: *mut u8) -> *const u8 {
        match self.in_pieces(board.me()) {
            None => self.from,
            Some(block) => {
                let mut at = 0;
                while at < self.bytes {
                    let (from, run) = block.run_at(at);
                    // SAFETY: at + run <= bytes, which fit into a slot.
                    unsafe {
                        self.from.wrapping_add(from).copy_to_nonoverlapping(scratch.wrapping_add(at), run)
                    };
                    at = at.wrapping_add(run.max(1));
                }
                scratch
            }
        }
    }

    /// Copies the next run of this rank's long part, which is in pieces, to its place, as much as the budget allows.
    ///
    /// # Safety
    /// As [`fill`](Self::fill).
    pub(super) unsafe fn fill_from(
        &self,
        block: &Block,
        board: &mut Board,
        filled: &mut usize,
        budget: &mut Budget,
    ) {
        let (from, run) = block.run_at(*filled);
        let now = run.min(room(budget)).max(1);
        // SAFETY: - a run of this rank's block, which is readable: the caller's promise.
        unsafe { board.fill((*filled, self.bytes), self.from.wrapping_add(from), now) };
        budget.take_bytes(now.max(CACHE_LINE));
        *filled = filled.wrapping_add(now);
    }

    /// Copies each part to its block, this rank's own last. At most as many turns as there are members, and as the budget has runs.
    ///
    /// # Safety
    /// As [`make_long`](Self::make_long).
    pub(super) unsafe fn copy_to_blocks(
        &self,
        board: &Board,
        number: u32,
        (blocks, whole, in_place): (*const Block, usize, bool),
        done: &mut usize,
        budget: &mut Budget,
    ) -> bool {
        let (me, members) = (board.me(), board.members());
        let mut before = 0usize;
        for turn in 0..members {
            // The next member first, so that not all read the same memory.
            let member = me.wrapping_add(1).wrapping_add(turn) % members.max(1);
            // SAFETY: one for each member, as long as the call is used: `look_at`.
            let block = unsafe { *blocks.wrapping_add(member) };
            let end = before.wrapping_add(block.bytes);
            if member == me && in_place {
                *done = end.max(*done);
            }
            while *done < end {
                let first = done.wrapping_sub(before);
                let (at, run) = block.run_at(first);
                let now = run.min(room(budget)).max(1);
                let to = self.to.wrapping_add(block.offset).wrapping_add(at);
                // SAFETY: - a run of a block, all of which are writable: the caller's promise; they are this rank's own, not read
                //         - its own part is one run, readable, and apart from where it goes or that very place.
                unsafe {
                    if member == me {
                        let own = self.from.wrapping_add(first);
                        if !std::ptr::eq(own, to) {
                            tocsin_transport::copy::copy(own, to, now);
                        }
                    } else if self.long {
                        board.read_long(member, number, first, to, now);
                    } else {
                        board.read(member, number, first, to, now);
                    }
                }
                budget.take_bytes(now.max(CACHE_LINE));
                *done = done.wrapping_add(now);
                if *done < whole && budget.exhausted() {
                    return false;
                }
            }
            before = end;
        }
        true
    }
}
