//! Collectives whose parts are taken from blocks, or go to blocks, that stand anywhere, in pieces perhaps, wherever the budget ends. Handler-safe.

use super::{Call, Use};
use crate::executor::{next_of_pieces, room};
use crate::table::Block;
use tocsin_p2p::{ConstBuf, Layout, MutBuf};
use tocsin_progress::budget::Budget;
use tocsin_transport::board::{Board, ROOM};

/// The pieces of a block.
pub(super) fn layout(block: &Block) -> Layout {
    let pieces = block.pieces();
    let count = block.bytes.div_ceil(pieces.length.max(1));
    Layout::Strided { block: pieces.length, stride: pieces.stride as isize, count }
}

impl Call {
    /// The block that this rank's part is taken from, if that has pieces.
    fn in_pieces(&self, me: usize) -> Option<Block> {
        match self.then {
            Use::Allgatherv { blocks, in_place: true, .. } => {
                // SAFETY: one for each member, as long as the call is used: `look_at`.
                Some(unsafe { *blocks.wrapping_add(me) }).filter(Block::is_strided)
            }
            _ => None,
        }
    }

    /// Puts this rank's part, if it is in pieces, into the run of the schedule's that it is posted from: at the start, since a handler that posts it could not
    /// stop in the middle. User threads only.
    ///
    /// # Safety
    /// The part is readable.
    pub(crate) unsafe fn pack(&self, me: usize) {
        if let Use::Compartments { .. } = self.then {
            // SAFETY: promised by the caller.
            return unsafe { self.put_in(me) };
        }
        let Some(block) = self.in_pieces(me) else { return };
        let from = ConstBuf { base: self.to.wrapping_add(block.offset).cast_const(), layout: layout(&block) };
        // SAFETY: - the pieces are readable: the caller's promise
        //         - the run is as long, the schedule's, and nobody's else while the call is not posted: `pack_into`.
        unsafe { from.pack(0, block.bytes, self.from.cast_mut()) };
    }

    /// Bytes of that run; 0: it is not needed.
    pub(crate) fn packed_bytes(&self, me: usize) -> usize {
        if let Use::Compartments { packed, .. } = self.then {
            return packed;
        }
        self.in_pieces(me).map_or(0, |block| block.bytes)
    }

    /// Has it [packed](Self::pack) there, where so many bytes are writable as long as it is used.
    pub(crate) fn pack_into(&mut self, run: *mut u8) {
        self.from = run;
    }

    /// Copies each part to its block, this rank's own first, unless it stands there, up to so many bytes in all. At most as many turns as there are members, and
    /// as the budget has slices.
    ///
    /// # Safety
    /// As [`make_long`](Self::make_long).
    pub(super) unsafe fn copy_to_blocks(
        &self,
        board: &Board,
        number: u32,
        (blocks, all, in_place): (*const Block, usize, bool),
        (done, scratch): (&mut usize, *mut u8),
        budget: &mut Budget,
    ) -> bool {
        let (me, members) = (board.me(), board.members());
        let mut before = 0usize;
        for turn in usize::from(in_place)..members {
            // Then the next member's, so that not all read the same memory.
            let member = me.wrapping_add(turn) % members.max(1);
            // SAFETY: one for each member, as long as the call is used: `look_at`.
            let block = unsafe { *blocks.wrapping_add(member) };
            let end = before.wrapping_add(block.bytes).min(all);
            while *done < end {
                let (first, left) = (done.wrapping_sub(before), end.wrapping_sub(*done));
                let to = self.to.wrapping_add(block.offset);
                // SAFETY: - a part of a block, all of which are writable: the caller's promise; they are this rank's own, not read
                //         - its own part is one run, readable, and apart from where it goes or that very place
                //         - a short part fits into scratch.
                let (now, charge) = unsafe {
                    if block.is_strided() {
                        let (now, charge) = next_of_pieces(block.pieces().length, left, room(budget));
                        let to = MutBuf { base: to, layout: layout(&block) };
                        let from = if member == me {
                            Some(self.from.wrapping_add(first))
                        } else if self.long {
                            board.long_part(member, number, first, now)
                        } else {
                            let now = now.min(ROOM);
                            board.read(member, number, first, scratch, now);
                            Some(scratch.cast_const())
                        };
                        if let Some(from) = from {
                            to.unpack(first, now, from);
                        }
                        (now, charge)
                    } else {
                        let (now, to) = (left.min(room(budget)), to.wrapping_add(first));
                        let own = self.from.wrapping_add(first);
                        if member != me && self.long {
                            board.read_long(member, number, first, to, now);
                        } else if member != me {
                            board.read(member, number, first, to, now);
                        } else if !std::ptr::eq(own, to) {
                            tocsin_transport::copy::copy(own, to, now);
                        }
                        (now, now)
                    }
                };
                budget.take_bytes(charge);
                *done = done.wrapping_add(now);
                if *done < all && budget.exhausted() {
                    return false;
                }
            }
            before = end;
        }
        true
    }
}
