//! Blocks of any length of which each two ranks know what they have for each other, and nobody else: those of the v and w forms. Handler-safe but where it
//! says otherwise.
//!
//! A part has a compartment for each member that it has something for, all equally long. Its first word says how long, as much as the longest of its
//! blocks there takes; each compartment begins with the length of its block. Blocks longer than a [limit], which depends on nothing but how many
//! members there are, go by messages beside the board (`algorithms/ialltoallv_shm.rs`), and their compartment says that they do: so two ranks
//! agree about each block without a word of the others, and every member posts a part, whatever the lengths.

use super::blocks::layout;
use super::{Call, MOST, Use};
use crate::executor::{next_of_pieces, room};
use crate::table::Block;
use core::ops::Range;
use tocsin_p2p::{ConstBuf, MutBuf};
use tocsin_progress::budget::Budget;
use tocsin_transport::board::{Board, ROOM};

/// Who has something for whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Scatter { root: u32 },
    Gather { root: u32 },
    All,
}

/// Bytes of the words before the compartments, and of each before its block.
const WORD: usize = size_of::<u64>();
/// In the place of a block's length: it goes by a message.
const BESIDE: u64 = u64::MAX;

/// The longest block in bytes that goes on a board of so many members: as many compartments fit into a part, and a root reads no more than a handler may at once.
pub(crate) fn limit(way: Way, members: usize) -> usize {
    let compartment = match way {
        Way::Gather { .. } => (ROOM - WORD).min(MOST / members.max(1)),
        Way::Scatter { .. } | Way::All => (ROOM - WORD) / members.saturating_sub(1).max(1),
    };
    compartment.saturating_sub(WORD) & !(WORD - 1)
}

/// Whether a block has a place in a compartment.
fn is_there(block: &Block, limit: usize) -> bool {
    block.bytes > 0 && block.bytes <= limit
}

/// The bytes of a part in which each of these blocks has a compartment; 0: there is none.
pub(crate) fn part_bytes(blocks: impl Iterator<Item = Block> + Clone, limit: usize) -> usize {
    match blocks.clone().count() {
        0 => 0,
        count => WORD + count * (WORD + stride(blocks, limit)),
    }
}

/// The bytes of the longest of these blocks that goes on a board, in whole words.
fn stride(blocks: impl Iterator<Item = Block>, limit: usize) -> usize {
    let there = blocks.filter(|block| is_there(block, limit)).map(|block| block.bytes);
    there.max().unwrap_or(0).next_multiple_of(WORD)
}

/// The members that one of so many has a compartment for, in their order from it on.
pub(crate) fn served(way: Way, me: usize, members: usize) -> impl Iterator<Item = usize> + Clone {
    let ahead: Range<usize> = match way {
        Way::Gather { root } if root as usize == me => 0..0,
        Way::Gather { root } => {
            let ahead = (root as usize).wrapping_add(members).wrapping_sub(me) % members.max(1);
            ahead..ahead.wrapping_add(1)
        }
        Way::Scatter { root } if root as usize != me => 0..0,
        Way::Scatter { .. } | Way::All => 1..members,
    };
    ahead.map(move |ahead| me.wrapping_add(ahead) % members.max(1))
}

/// Where the compartment for a member stands among those of another one.
fn place(way: Way, owner: usize, member: usize, members: usize) -> usize {
    match way {
        Way::Gather { .. } => 0,
        Way::Scatter { .. } | Way::All => {
            (member.wrapping_add(members).wrapping_sub(owner) % members.max(1)).wrapping_sub(1)
        }
    }
}

impl Call {
    /// What this rank gets from a member, of so many, or has for it.
    ///
    /// The lists lie behind each other, those of what is received first.
    #[inline]
    fn block(&self, received: bool, member: usize, members: usize) -> Block {
        let Use::Compartments { lists, .. } = self.then else { return Block::default() };
        let at = if received { member } else { members.wrapping_add(member) };
        // SAFETY: two lists of one block for each member, as long as the call is used: `look_at`.
        unsafe { *lists.wrapping_add(at) }
    }

    /// Where in a member's part the compartment for this rank begins, and how much room its block has there. `None`: the part says what none of that form can.
    #[inline]
    fn compartment(&self, board: &Board, member: usize, number: u32) -> Option<(usize, usize)> {
        let Use::Compartments { way, .. } = self.then else { return None };
        let members = board.members();
        let room = usize::try_from(word(board, member, number, 0)).ok()?;
        if room > limit(way, members) {
            return None;
        }
        let place = place(way, member, board.me(), members);
        let at = place.checked_mul(room.wrapping_add(WORD))?.wrapping_add(WORD);
        (at.wrapping_add(WORD).wrapping_add(room) <= ROOM).then_some((at, room))
    }

    /// Whether a member whose part is there has for this rank what this one expects of it; of all other forms, yes.
    #[inline]
    pub(super) fn agrees(&self, board: &Board, member: usize, number: u32) -> bool {
        let Use::Compartments { way, .. } = self.then else { return true };
        let members = board.members();
        let expected = self.block(true, member, members).bytes;
        let Some((at, room)) = self.compartment(board, member, number) else { return false };
        let said = word(board, member, number, at);
        if expected > limit(way, members) {
            said == BESIDE
        } else {
            said == expected as u64 && expected <= room
        }
    }

    /// Whether the board has something for this rank.
    pub(crate) fn takes_out(&self) -> bool {
        let Use::Compartments { members, .. } = self.then else { return true };
        self.bytes_in_compartments(members as usize) > 0
    }

    /// Bytes that [`take_out`](Self::take_out) copies.
    pub(super) fn bytes_in_compartments(&self, members: usize) -> usize {
        let Use::Compartments { way, .. } = self.then else { return 0 };
        let limit = limit(way, members);
        let blocks = (0..members).map(|member| self.block(true, member, members));
        blocks.filter(|block| is_there(block, limit)).fold(0usize, |sum, block| sum.wrapping_add(block.bytes))
    }

    /// Puts this rank's blocks into the compartments of the run that its part is posted from: at the start, as [`pack`](Self::pack). User threads only.
    ///
    /// # Safety
    /// The blocks are readable.
    pub(super) unsafe fn put_in(&self, me: usize) {
        let Use::Compartments { way, members, base, .. } = self.then else { return };
        let members = members as usize;
        let limit = limit(way, members);
        let served = served(way, me, members).map(|member| self.block(false, member, members));
        if self.bytes == 0 {
            return;
        }
        let stride = stride(served.clone(), limit);
        let put_word = |at: usize, word: u64| {
            // SAFETY: at + WORD <= the bytes of the run: `part_bytes`, by which it was made.
            unsafe { self.from.cast_mut().add(at).cast::<u64>().write_unaligned(word) };
        };
        put_word(0, stride as u64);
        let mut at = WORD;
        for block in served {
            let beside = block.bytes > limit;
            put_word(at, if beside { BESIDE } else { block.bytes as u64 });
            if is_there(&block, limit) {
                // SAFETY: - the block is readable: the caller's promise
                //         - the run has room for it: as above.
                unsafe { pack_block(base, &block, self.from.cast_mut().add(at + WORD)) };
            }
            at += WORD + stride;
        }
    }

    /// Copies each short block to where it belongs, this rank's own first, as far as the budget allows. `done`: how many bytes are. Whether all are. At most as many
    /// turns as there are members, and as the budget has slices.
    ///
    /// # Safety
    /// As [`make_long`](Self::make_long).
    pub(super) unsafe fn take_out(
        &self,
        board: &Board,
        number: u32,
        (done, scratch): (&mut usize, *mut u8),
        budget: &mut Budget,
    ) -> bool {
        let Use::Compartments { way, base, .. } = self.then else { return true };
        let (me, members) = (board.me(), board.members());
        let (limit, all) = (limit(way, members), self.bytes_in_compartments(members));
        let mut before = 0usize;
        for turn in 0..members {
            let member = me.wrapping_add(turn) % members.max(1);
            let block = self.block(true, member, members);
            if !is_there(&block, limit) {
                continue;
            }
            let end = before.wrapping_add(block.bytes);
            if *done < end {
                // Again, in each part: it is memory that a member writes. What it says now may be something else, and the bytes are its own then.
                let found = if member == me { None } else { self.compartment(board, member, number) };
                let at = found.map_or(0, |(at, _)| at.wrapping_add(WORD));
                let own = if member == me { self.block(false, me, members) } else { block };
                let to = MutBuf { base: self.to.wrapping_add(block.offset), layout: layout(&block) };
                let from = ConstBuf { base: base.wrapping_add(own.offset), layout: layout(&own) };
                let length = block.pieces().length.min(own.pieces().length);
                while *done < end {
                    let (first, left) = (done.wrapping_sub(before), end.wrapping_sub(*done));
                    let (now, charge) = next_of_pieces(length, left, room(budget));
                    // SAFETY: - the block is writable, and this rank's own to send is readable and as long: the caller's promise; they are apart, or that very place
                    //         - first + now <= the block's bytes, no more than the limit, which is less than scratch has.
                    unsafe {
                        if member != me && !block.is_strided() {
                            board.read(member, number, at.wrapping_add(first), to.base.add(first), now);
                        } else if member != me {
                            board.read(member, number, at.wrapping_add(first), scratch, now);
                            to.unpack(first, now, scratch);
                        } else if !block.is_strided() && !own.is_strided() {
                            if !std::ptr::eq(from.base, to.base) {
                                core::ptr::copy_nonoverlapping(from.base.add(first), to.base.add(first), now);
                            }
                        } else {
                            from.pack(first, now, scratch);
                            to.unpack(first, now, scratch);
                        }
                    }
                    budget.take_bytes(charge);
                    *done = done.wrapping_add(now);
                    if *done < all && budget.exhausted() {
                        return false;
                    }
                }
            }
            before = end;
        }
        true
    }
}

/// Copies a block into one run.
///
/// # Safety
/// The block is readable there, and the run writable for its bytes.
unsafe fn pack_block(base: *const u8, block: &Block, run: *mut u8) {
    let from = base.wrapping_add(block.offset);
    // SAFETY: promised by the caller.
    unsafe {
        if block.is_strided() {
            ConstBuf { base: from, layout: layout(block) }.pack(0, block.bytes, run);
        } else {
            core::ptr::copy_nonoverlapping(from, run, block.bytes);
        }
    }
}

/// A word of a member's part.
#[inline]
fn word(board: &Board, member: usize, number: u32, at: usize) -> u64 {
    let mut word = 0u64;
    // SAFETY: the word is writable.
    unsafe { board.read(member, number, at, (&raw mut word).cast(), WORD) };
    word
}
