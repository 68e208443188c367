//! Blocks of any length of which each two ranks know what they have for each other, and nobody else: those of the v and w forms. Handler-safe but where it
//! says otherwise.
//!
//! A part has a compartment for each member that it has something for, all equally long. Its first word says how long, as much as the longest of its
//! blocks there takes; each compartment begins with the length of its block. Blocks longer than a [limit], which depends on nothing but what all members
//! know, go by messages beside the board (`algorithms/ialltoallv_shm.rs`), and their compartment says that they do: so two ranks
//! agree about each block without a word of the others, and every member posts a part, whatever the lengths.
//!
//! A part whose compartments do not fit into a slot is long, and the slot has its first word alone; of those of one collective some may be long, and others not: who reads
//! one sees by that word where it lies.

use super::blocks::layout;
use super::{Call, MOST, Use};
use crate::Group;
use crate::executor::{next_of_pieces, room};
use crate::table::Block;
use core::ops::Range;
use tocsin_p2p::{ConstBuf, MutBuf};
use tocsin_progress::budget::Budget;
use tocsin_transport::board::{Board, LONG, ROOM};

/// Who has something for whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Scatter { root: u32 },
    Gather { root: u32 },
    All,
}

/// Bytes of the words before the compartments, and of each before its block.
const WORD: usize = size_of::<u64>();
impl Use {
    /// What a rank has for others stands from `base` on. That it is there in pieces, and how it is [laid out](Layout), is said when its blocks are known.
    pub(crate) fn compartments(way: Way, group: &Group, base: *const u8) -> Use {
        let limit = limit(way, group) as u32;
        Use::Compartments { way, members: group.size(), limit, packed: 0, base, lists: std::ptr::null() }
    }
}

/// In the place of a block's length: it goes by a message.
const BESIDE: u64 = u64::MAX;

/// The longest block in bytes that goes on a board. The same on all members.
///
/// In slots: as many compartments fit there, and a root reads no more than a handler may at once. In long memory, as the forms whose blocks are all as long: where ranks share cores,
/// others copy out at once what one has copied in, and wait less often for a core than for messages; a root alone has most of the work. (4 ranks on 2 cores of a Zen 5, us, by
/// messages and so: igatherv of 64 KiB 17.5 and 3.3, of 256 KiB 43 and 16, iscatterv of 64 KiB 17.8 and 4.1, ialltoallv of 4 KiB 14.4 and 10.5, of 256 KiB 191 and 114, of 512 KiB
/// 620 and 480.) Of two, each would copy both ways in turns (ialltoallv of 256 KiB 30 and 14, of 1 MiB 127 and 60; iscatterv 23 and 9.5, 79 and 50; igatherv of 4 KiB 0.92 and 0.72, but of
/// 64 KiB 2.4 and 2.6, of 1 MiB 43 and 51).
pub(crate) fn limit(way: Way, group: &Group) -> usize {
    let members = group.size() as usize;
    let two = members == 2;
    let quick = match way {
        _ if !group.has_long_parts() || !group.shares_cores() && !two => 0,
        _ if group.is_one_process() => 128 << 10,
        // One copy by the kernel.
        _ if two && group.has_far_cache() && group.has_single_copies() => (512 << 10) - 1,
        Way::Gather { .. } if two => 32 << 10,
        Way::Scatter { .. } if two => LONG,
        Way::All => LONG,
        Way::Gather { .. } => 512 << 10,
        Way::Scatter { .. } => 128 << 10,
    };
    let most = (LONG - WORD) / receivers(way, members) - WORD;
    in_slot(way, members).max(most.min(quick) & !(WORD - 1))
}

/// The longest block of a part that lies in a slot.
fn in_slot(way: Way, members: usize) -> usize {
    let compartment = match way {
        Way::Gather { .. } => (ROOM - WORD).min(MOST / members.max(1)),
        Way::Scatter { .. } | Way::All => (ROOM - WORD) / receivers(way, members),
    };
    compartment.saturating_sub(WORD) & !(WORD - 1)
}

/// How many members a part has compartments for.
fn receivers(way: Way, members: usize) -> usize {
    match way {
        Way::Gather { .. } => 1,
        Way::Scatter { .. } | Way::All => members.saturating_sub(1).max(1),
    }
}

/// What the part of a member is, whose blocks for the [served] are these.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Layout {
    /// Its bytes; 0: it has no compartment.
    pub(crate) bytes: usize,
    /// Whether it is long.
    pub(crate) long: bool,
    /// Bytes of the run that it is put into, or what of it is in pieces if it is long.
    pub(crate) packed: usize,
}

impl Layout {
    pub(crate) fn of(
        way: Way,
        members: usize,
        limit: usize,
        blocks: impl Iterator<Item = Block> + Clone,
    ) -> Layout {
        let count = blocks.clone().count();
        if count == 0 {
            return Layout::default();
        }
        let stride = stride(blocks.clone(), limit);
        let (bytes, long) = (WORD + count * (WORD + stride), stride > in_slot(way, members));
        let in_pieces = blocks.filter(|block| is_there(block, limit) && block.is_strided());
        let packed = if long { in_pieces.map(|block| block.bytes).sum() } else { bytes };
        Layout { bytes, long, packed }
    }
}

/// Whether a block has a place in a compartment.
fn is_there(block: &Block, limit: usize) -> bool {
    block.bytes > 0 && block.bytes <= limit
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

    /// This rank's compartment in a member's part. `None`: the part says what none of that form can.
    #[inline]
    fn compartment(&self, board: &Board, member: usize, number: u32) -> Option<Compartment> {
        let Use::Compartments { way, limit, .. } = self.then else { return None };
        let members = board.members();
        let first = Compartment { at: 0, room: 0, long: false };
        let room = usize::try_from(first.word(board, member, number)).ok()?;
        if room > limit as usize {
            return None;
        }
        let long = room > in_slot(way, members);
        let place = place(way, member, board.me(), members);
        let at = place.checked_mul(room.wrapping_add(WORD))?.wrapping_add(WORD);
        let end = if long { LONG } else { ROOM };
        (at.wrapping_add(WORD).wrapping_add(room) <= end).then_some(Compartment { at, room, long })
    }

    /// Whether a member whose part is there has for this rank what this one expects of it; of all other forms, yes.
    #[inline]
    pub(super) fn agrees(&self, board: &Board, member: usize, number: u32) -> bool {
        let Use::Compartments { limit, .. } = self.then else { return true };
        let expected = self.block(true, member, board.members()).bytes;
        let Some(compartment) = self.compartment(board, member, number) else { return false };
        let said = compartment.word(board, member, number);
        if expected > limit as usize {
            said == BESIDE
        } else {
            said == expected as u64 && expected <= compartment.room
        }
    }

    /// Whether the board has something for this rank.
    pub(crate) fn takes_out(&self) -> bool {
        let Use::Compartments { members, .. } = self.then else { return true };
        self.bytes_in_compartments(members as usize) > 0
    }

    /// Bytes that [`take_out`](Self::take_out) copies.
    pub(super) fn bytes_in_compartments(&self, members: usize) -> usize {
        let Use::Compartments { limit, .. } = self.then else { return 0 };
        let blocks = (0..members).map(|member| self.block(true, member, members));
        let there = blocks.filter(|block| is_there(block, limit as usize));
        there.fold(0usize, |sum, block| sum.wrapping_add(block.bytes))
    }

    /// This rank's blocks that have compartments in its part, in their order.
    fn served(&self, me: usize) -> impl Iterator<Item = Block> + Clone + '_ {
        let (way, members) = match self.then {
            Use::Compartments { way, members, .. } => (way, members as usize),
            _ => (Way::Scatter { root: u32::MAX }, 0),
        };
        served(way, me, members).map(move |member| self.block(false, member, members))
    }

    /// Puts this rank's blocks into the compartments of the run that its part is posted from: at the start, as [`pack`](Self::pack). Of a long part, those alone that are in pieces,
    /// one behind the other. User threads only.
    ///
    /// # Safety
    /// The blocks are readable.
    pub(super) unsafe fn put_in(&self, me: usize) {
        let Use::Compartments { limit, base, .. } = self.then else { return };
        let limit = limit as usize;
        if self.bytes == 0 {
            return;
        }
        let mut at = 0;
        if self.long {
            for block in self.served(me).filter(|block| is_there(block, limit) && block.is_strided()) {
                // SAFETY: - the block is readable: the caller's promise
                //         - the run has room for all: `Layout`, by which it was made.
                unsafe { pack_block(base, &block, self.from.cast_mut().add(at)) };
                at += block.bytes;
            }
            return;
        }
        let stride = stride(self.served(me), limit);
        let put_word = |at: &mut usize, word: u64| {
            // SAFETY: at + WORD <= the bytes of the run: as above.
            unsafe { self.from.cast_mut().add(*at).cast::<u64>().write_unaligned(word) };
            *at += WORD;
        };
        put_word(&mut at, stride as u64);
        for block in self.served(me) {
            put_word(&mut at, said(&block, limit));
            if is_there(&block, limit) {
                // SAFETY: as above.
                unsafe { pack_block(base, &block, self.from.cast_mut().add(at)) };
            }
            at += stride;
        }
    }

    /// Copies this rank's blocks to the compartments of its place, from some bytes of that on, as much as the budget allows. Whether they are all there. At most as
    /// many turns as there are members, and as the budget has slices.
    ///
    /// # Safety
    /// As [`fill`](Self::fill).
    pub(super) unsafe fn fill_compartments(
        &self,
        board: &mut Board,
        filled: &mut usize,
        budget: &mut Budget,
    ) -> bool {
        let Use::Compartments { limit, base, .. } = self.then else { return true };
        let (me, limit) = (board.me(), limit as usize);
        let stride = stride(self.served(me), limit);
        let there = self.served(me).filter(|block| is_there(block, limit));
        let whole = there.fold(0usize, |sum, block| sum.wrapping_add(block.bytes));
        let put_word = |board: &mut Board, filled: &mut usize, word: u64| {
            // SAFETY: the word is readable.
            unsafe { board.fill((*filled, whole), (&raw const word).cast(), WORD) };
            *filled = filled.wrapping_add(WORD);
        };
        if *filled == 0 {
            put_word(board, filled, stride as u64);
        }
        let (mut begins, mut packed) = (WORD, 0usize);
        for block in self.served(me) {
            let within = begins.wrapping_add(WORD);
            let here = if is_there(&block, limit) { block.bytes } else { 0 };
            let run = block.is_strided().then_some(packed);
            if run.is_some() {
                packed = packed.wrapping_add(here);
            }
            begins = within.wrapping_add(stride);
            if *filled >= begins {
                continue;
            }
            if *filled < within {
                put_word(board, filled, said(&block, limit));
            }
            let end = within.wrapping_add(here);
            while *filled < end {
                let (now, first) = (end.wrapping_sub(*filled).min(room(budget)), filled.wrapping_sub(within));
                let from = match run {
                    Some(packed) => self.from.wrapping_add(packed),
                    None => base.wrapping_add(block.offset),
                };
                // SAFETY: first + now <= the block's bytes, which are readable there: the caller's promise, and `put_in`.
                unsafe { board.fill((*filled, whole), from.wrapping_add(first), now) };
                budget.take_bytes(now);
                *filled = filled.wrapping_add(now);
                if budget.exhausted() && *filled < self.bytes {
                    return false;
                }
            }
            *filled = begins;
        }
        true
    }

    /// Posts a long part that is [there](Self::fill): its number.
    pub(crate) fn post_long(&self, board: &mut Board) -> u32 {
        let Use::Compartments { limit, .. } = self.then else { return board.post_long(self.about) };
        let word = stride(self.served(board.me()), limit as usize) as u64;
        board.post_long_and(self.about, &word.to_ne_bytes())
    }

    /// Whether some parts are long, or may be.
    #[inline]
    pub(crate) fn has_long_parts(&self) -> bool {
        match self.then {
            Use::Compartments { way, members, limit, .. } => limit as usize > in_slot(way, members as usize),
            _ => self.long,
        }
    }

    /// Copies each block of the board's to where it belongs, this rank's own first, as far as the budget allows. `done`: how many bytes are. Whether all are. At most as many
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
        let Use::Compartments { limit, base, .. } = self.then else { return true };
        let (me, members) = (board.me(), board.members());
        let (limit, all) = (limit as usize, self.bytes_in_compartments(members));
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
                let (at, long) = found.map_or((0, false), |found| (found.at.wrapping_add(WORD), found.long));
                let own = if member == me { self.block(false, me, members) } else { block };
                let to = MutBuf { base: self.to.wrapping_add(block.offset), layout: layout(&block) };
                let from = ConstBuf { base: base.wrapping_add(own.offset), layout: layout(&own) };
                let length = block.pieces().length.min(own.pieces().length);
                while *done < end {
                    let (first, left) = (done.wrapping_sub(before), end.wrapping_sub(*done));
                    let (now, charge) = next_of_pieces(length, left, room(budget));
                    // What goes through scratch goes by as much as that has.
                    let in_pieces = block.is_strided() || member == me && own.is_strided();
                    let now = if in_pieces && !(long && member != me) { now.min(ROOM) } else { now };
                    let (at, place) = (at.wrapping_add(first), to.base.wrapping_add(first));
                    // SAFETY: - the block is writable, and this rank's own to send is readable and as long: the caller's promise; they are apart, or that very place
                    //         - first + now <= the block's bytes.
                    unsafe {
                        if member == me && in_pieces {
                            from.pack(first, now, scratch);
                            to.unpack(first, now, scratch);
                        } else if member == me {
                            if !std::ptr::eq(from.base, to.base) {
                                tocsin_transport::copy::copy(from.base.wrapping_add(first), place, now);
                            }
                        } else if !in_pieces && long {
                            board.read_long(member, number, at, place, now);
                        } else if !in_pieces {
                            board.read(member, number, at, place, now);
                        } else if long {
                            if let Some(part) = board.long_part(member, number, at, now) {
                                to.unpack(first, now, part);
                            }
                        } else {
                            board.read(member, number, at, scratch, now);
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

/// Where in a part a compartment begins, how much room its block has there, and whether the part is long.
#[derive(Clone, Copy)]
struct Compartment {
    at: usize,
    room: usize,
    long: bool,
}

impl Compartment {
    /// What is said of its block.
    #[inline]
    fn word(&self, board: &Board, member: usize, number: u32) -> u64 {
        let mut word = 0u64;
        let to = (&raw mut word).cast();
        // SAFETY: the word is writable.
        unsafe {
            match self.long {
                true => board.read_long(member, number, self.at, to, WORD),
                false => board.read(member, number, self.at, to, WORD),
            }
        }
        word
    }
}

/// What a compartment says of its block.
fn said(block: &Block, limit: usize) -> u64 {
    if block.bytes > limit { BESIDE } else { block.bytes as u64 }
}
