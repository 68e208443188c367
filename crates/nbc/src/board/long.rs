//! Collectives whose parts are long: copied in when they are posted, copied out or combined piece by piece, wherever the budget ends. Handler-safe.
//!
//! Of two members either combines its own vector, or block, with the other's, in places that pass between them: each reads and writes as much there as it would to share the work. (Allreduces of 64 KiB on an EPYC of Zen 4, us: 4.0 so,
//! by shared pieces 7.7, and 7.5 and 10.7 while a line took three times as long; of 1 MiB 58 and 68, 88 and 127: `bench coll --op iallreduce --mode alone --ranks 2`.) A user's operator may take longer than lines do.
//!
//! Else an allreduce is cut into pieces. Who has all parts makes a piece, beginning with those that would be his if all shared the work evenly, keeps it
//! where the others find it, and takes those that he finds made. So the work is shared among those who are there, and nobody waits for anybody
//! a second time: what one that computes, or has lost its core, has not made, others make for themselves. All combine in rank order, so that it makes no
//! difference whose a piece is.

use super::{Call, MOST, Use};
use crate::executor::room;
use crate::kernels::Panicked;
use crate::table::Arguments;
use core::ops::Range;
use tocsin_progress::budget::Budget;
use tocsin_transport::board::{Board, LONG, PIECES};

/// Longest part in bytes: behind it there is as much for pieces of the result.
pub(crate) const PART: usize = LONG / 2;
/// Length of a piece in bytes, where that is not too short or long for other reasons: some pieces for each of a few ranks, each of which stays in a
/// first-level cache with what it is combined of.
pub(super) const PIECE: usize = 8 << 10;

/// Whether long parts are long enough for what the ranks contribute.
pub(super) fn fits(arguments: &Arguments, ranks: usize) -> bool {
    let bytes = arguments.size_bytes();
    match *arguments {
        // Its own block is not posted.
        Arguments::Iscatter { .. } | Arguments::Ialltoall { .. } => {
            bytes.saturating_mul(ranks.saturating_sub(1)) <= PART
        }
        Arguments::Iallreduce { count, data_type, .. } => {
            let size = data_type.size().max(1);
            let piece = piece(count, size, ranks).saturating_mul(size).saturating_mul(ranks);
            bytes <= PART && piece <= MOST
        }
        _ if is_too_wide(arguments, ranks) => false,
        Arguments::Ireduce { .. } | Arguments::Iscan { .. } | Arguments::Iexscan { .. } => bytes <= PART,
        Arguments::IreduceScatterBlock { .. } => bytes.saturating_mul(ranks) <= PART,
        Arguments::IreduceScatter { counts, data_type, .. } => {
            let whole = counts.iter().fold(0usize, |sum, count| sum.saturating_add(*count));
            whole.saturating_mul(data_type.size()) <= PART
        }
        Arguments::Ibarrier => true,
        Arguments::Ibcast { .. } | Arguments::Igather { .. } | Arguments::Iallgather { .. } => bytes <= PART,
        Arguments::Iallgatherv { .. } => arguments.longest_block() <= PART,
        _ => false,
    }
}

/// Whether an element of all parts, which is combined in one piece, is too much for that.
pub(super) fn is_too_wide(arguments: &Arguments, ranks: usize) -> bool {
    let size = match *arguments {
        Arguments::Ireduce { data_type, .. }
        | Arguments::IreduceScatter { data_type, .. }
        | Arguments::IreduceScatterBlock { data_type, .. }
        | Arguments::Iscan { data_type, .. }
        | Arguments::Iexscan { data_type, .. } => data_type.size(),
        _ => 0,
    };
    size.saturating_mul(ranks) > MOST
}

/// From how many bytes on a block of an all-to-all among more than two passes: each has a page of its own then.
const PASSES_FROM: usize = 512;
/// After so many bytes a root says that they are there.
const AHEAD: usize = 32 << 10;

/// Elements of a piece of so many, each of `size` bytes, that are combined of so many parts: no more than [`PIECES`] pieces.
pub(super) fn piece(count: usize, size: usize, members: usize) -> usize {
    let bytes = PIECE.min(MOST / members.max(1));
    (bytes / size.max(1)).max(count.div_ceil(PIECES as usize)).max(1)
}

/// How far the making of a result is.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Made {
    /// Bytes that are copied, or elements that are combined.
    done: usize,
    /// The pieces that stand in the result.
    pieces: u128,
}

impl Made {
    pub(crate) const NOTHING: Made = Made { done: 0, pieces: 0 };

    /// Bytes copied for a call, which was as far `before`, if that has taken so many of a budget.
    pub(crate) fn bytes_since(&self, before: &Made, call: &Call, taken: usize) -> usize {
        match call.then {
            // Short pieces are charged more than they copy.
            Use::Allgatherv { .. } | Use::Compartments { .. } => self.done.wrapping_sub(before.done),
            _ => taken,
        }
    }
}

/// What can be copied though not all parts are there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ahead {
    /// What is there of this root's part.
    Root(usize),
    /// This rank's own block.
    Own,
}

/// Longest parts that come to several places where all members have one.
const ALL_TURN: usize = 256 << 10;

impl Call {
    /// Bytes of a place of long memory that this rank needs.
    pub(crate) fn long_bytes(&self) -> usize {
        match self.then {
            _ if !self.long => 0,
            // Its part, and behind it the pieces that it shares.
            Use::Reduce { root: None, .. } => self.bytes.saturating_mul(2),
            _ => self.part_bytes(),
        }
    }

    /// Bytes of this rank's long part.
    fn part_bytes(&self) -> usize {
        match self.then {
            Use::Scatter { block, .. } | Use::Alltoall { block, .. } => self.bytes.saturating_sub(block),
            Use::Gather { at_root: true, .. } => 0,
            _ => self.bytes,
        }
    }

    /// Bytes that each other member gets of this rank's part, if that is made of nothing else: then it may [pass](Board::exchange). The same on all.
    #[inline]
    fn for_each(&self, members: usize) -> Option<usize> {
        match self.then {
            _ if !self.long => None,
            Use::Alltoall { block, .. } if members == 2 || block >= PASSES_FROM => Some(block),
            Use::Allgather { .. } | Use::Allgatherv { equal: true, .. } if members == 2 => Some(self.bytes),
            Use::Reduce { root: None, operator, .. } if members == 2 && operator.is_built_in() => {
                Some(self.bytes)
            }
            Use::ReduceScatter { count, operator, stride: Some(_), .. }
                if members == 2 && operator.is_built_in() =>
            {
                Some(count.wrapping_mul(operator.size()))
            }
            _ => None,
        }
    }

    /// What each other member gets in a place that passes, if this rank's part goes to one.
    #[inline]
    fn passing(&self, board: &Board) -> Option<usize> {
        self.for_each(board.members()).filter(|bytes| board.passing(*bytes).is_some())
    }

    /// Bytes of a place that this rank's parts come to lie in, one after the other, and the pieces that it shares.
    pub(crate) fn reach(&self, board: &Board) -> usize {
        let bytes = self.long_bytes();
        if self.has_one_place() { bytes } else { board.reach(bytes) }
    }

    /// Whether its parts come back to one place, if that is free: those of rounds, which come one after the other, and those that all members have and that take
    /// most of their caches. (512 KiB of each of two, on an EPYC of Zen 4, in one place and in turn: ireduce 35 and 43 us, iscan 32 and 43; of a root alone, ibcast 33 and 14.)
    fn has_one_place(&self) -> bool {
        self.is_round() || self.long_bytes() > ALL_TURN && !self.is_copied_ahead()
    }

    /// Whether others copy out what is there of this rank's part while it is filled.
    fn is_copied_ahead(&self) -> bool {
        matches!(self.then, Use::Bcast { .. } | Use::Scatter { .. })
    }

    /// The places that this rank's part may have, and the bytes of each, if they [pass](Board::exchange).
    pub(crate) fn passes(&self, board: &Board) -> Option<(Range<usize>, usize)> {
        board.passing(self.for_each(board.members())?)
    }

    /// Where this rank's part goes, which is posted next.
    pub(crate) fn next_place(&self, board: &mut Board) -> usize {
        match self.passing(board) {
            Some(bytes) => board.next_passing(bytes),
            None if self.has_one_place() => board.next_place(LONG),
            None => board.next_place(self.long_bytes()),
        }
    }

    /// Copies this rank's part to its place, as much as the budget allows. `filled`: how far that is. Whether it is all there. Those who wait for a root's
    /// [copy out meanwhile](Self::copy_ahead) what is there.
    ///
    /// # Safety
    /// The part is readable. There is room for the next number.
    pub(crate) unsafe fn fill(&self, board: &mut Board, filled: &mut usize, budget: &mut Budget) -> bool {
        if let Use::Compartments { .. } = self.then {
            // SAFETY: promised by the caller.
            return unsafe { self.fill_compartments(board, filled, budget) };
        }
        // The others' blocks, in their order from this rank on, as in `copy_out`. Nobody else reads its own.
        let (me, members) = (board.me(), board.members().max(1));
        let passing = self.passing(board).map(|each| each.max(1));
        let (begins, apart) = match self.then {
            Use::Scatter { block, stride, .. } | Use::Alltoall { block, stride } if stride == block => {
                (block.wrapping_mul(me.wrapping_add(1)), None)
            }
            Use::Scatter { block, stride, .. } | Use::Alltoall { block, stride } => {
                (0, Some((block.max(1), stride, me.wrapping_add(1))))
            }
            // Everybody's, its own among them, from the first on, or the other's.
            Use::ReduceScatter { stride: Some(stride), .. } if self.is_round() || passing.is_some() => {
                let first = if passing.is_some() { me.wrapping_add(1) } else { 0 };
                (0, Some(((self.bytes / members).max(1), stride, first)))
            }
            _ => (0, None),
        };
        let to_end = self.bytes.saturating_sub(begins);
        let others = members.wrapping_sub(1);
        let bytes = passing.map_or(self.part_bytes(), |each| each.wrapping_mul(others));
        let ahead = self.is_copied_ahead();
        if ahead && *filled == 0 && bytes > 0 {
            board.begin_filling(self.about);
        }
        while *filled < bytes {
            let (from, end) = match apart {
                Some((block, stride, first)) => {
                    let (turn, within) = (*filled / block, *filled % block);
                    let member = first.wrapping_add(turn) % members;
                    let end = filled.wrapping_add(block.wrapping_sub(within));
                    (member.wrapping_mul(stride).wrapping_add(within), end.min(bytes))
                }
                None if *filled < to_end => (begins.wrapping_add(*filled), to_end.min(bytes)),
                None => (filled.wrapping_sub(to_end), bytes),
            };
            let now =
                end.saturating_sub(*filled).min(room(budget)).min(if ahead { AHEAD } else { usize::MAX });
            // No further than one member's.
            let now = passing.map_or(now, |each| now.min(each.wrapping_sub(*filled % each)));
            let from = self.from.wrapping_add(from);
            // SAFETY: - from + now <= the end of what is sent, which is readable: the caller's promise.
            unsafe {
                match passing {
                    Some(each) => {
                        let turn = (*filled / each).wrapping_add(1);
                        let member = me.wrapping_add(turn) % members;
                        board.fill_room(member, *filled % each, from, now);
                    }
                    None => board.fill((*filled, bytes), from, now),
                }
            }
            budget.take_bytes(now);
            *filled = filled.wrapping_add(now);
            if ahead {
                board.note_filled(*filled);
            }
            if *filled < bytes && budget.exhausted() {
                return false;
            }
        }
        true
    }

    /// What can be copied though not all parts are there, and up to where: of a root's part, what is there and not copied out; or this rank's own block, which
    /// is in its cache when its part has just been filled.
    #[inline]
    fn ahead(&self, board: &Board, number: u32, made: &Made) -> Option<(Ahead, usize)> {
        let (what, end) = match self.then {
            _ if !self.long => return None,
            Use::Bcast { root } if root as usize != board.me() => {
                let root = root as usize;
                (Ahead::Root(root), board.filled(root, number, self.about).min(self.size()))
            }
            Use::Scatter { root, block, .. } if root as usize != board.me() => {
                let (root, at) = (root as usize, self.own_at(board));
                (Ahead::Root(root), board.filled(root, number, self.about).saturating_sub(at).min(block))
            }
            Use::Scatter { .. }
            | Use::Gather { at_root: true, .. }
            | Use::Allgather { .. }
            | Use::Alltoall { .. }
            | Use::Allgatherv { .. } => (Ahead::Own, self.own_bytes(board.me())),
            _ => return None,
        };
        (end > made.done).then_some((what, end))
    }

    /// Where what this rank takes of the root's part begins there.
    fn own_at(&self, board: &Board) -> usize {
        let Use::Scatter { root, block, .. } = self.then else { return 0 };
        let members = board.members();
        let ahead = board.me().wrapping_add(members).wrapping_sub(root as usize) % members.max(1);
        ahead.saturating_sub(1).wrapping_mul(block)
    }

    /// Bytes of this rank's own block that it copies to its place in the result, if that is made of blocks.
    fn own_bytes(&self, me: usize) -> usize {
        let (own, place, bytes) = match self.then {
            Use::Gather { stride, .. } | Use::Allgather { stride } => {
                (0, me.wrapping_mul(stride), self.bytes)
            }
            Use::Alltoall { block, stride } => (me.wrapping_mul(stride), me.wrapping_mul(stride), block),
            Use::Scatter { block, stride, .. } => (me.wrapping_mul(stride), 0, block),
            Use::Allgatherv { in_place: true, .. } => return 0,
            Use::Allgatherv { blocks, .. } => {
                // SAFETY: one for each member, as long as the call is used: `look_at`.
                let block = unsafe { *blocks.wrapping_add(me) };
                if block.is_strided() {
                    return block.bytes;
                }
                (0, block.offset, block.bytes)
            }
            _ => return 0,
        };
        let stands_there = std::ptr::eq(self.from.wrapping_add(own), self.to.wrapping_add(place));
        if stands_there { 0 } else { bytes }
    }

    /// Whether there is something to [copy ahead](Self::copy_ahead).
    #[inline]
    pub(crate) fn is_ahead(&self, board: &Board, number: u32, made: &Made) -> bool {
        self.ahead(board, number, made).is_some()
    }

    /// Copies before all parts are there, as much as the budget allows, what of a root's part is, or this rank's own block: so many bytes. At most the part's, or
    /// the block's.
    ///
    /// # Safety
    /// As [`make_long`](Self::make_long), but that the parts are there.
    pub(crate) unsafe fn copy_ahead(
        &self,
        board: &Board,
        number: u32,
        (made, scratch): (&mut Made, *mut u8),
        budget: &mut Budget,
    ) -> usize {
        let before = made.done;
        while let Some((what, end)) = self.ahead(board, number, made) {
            // SAFETY: - to + end <= the end of the result: the caller's promise; the size is this rank's own
            //         - of this rank's own block, which comes first, nobody's part is read.
            unsafe {
                match (what, self.then) {
                    (Ahead::Root(root), _) => {
                        let now = end.wrapping_sub(made.done).min(room(budget));
                        let to = self.to.wrapping_add(made.done);
                        let from = self.own_at(board).wrapping_add(made.done);
                        board.follow_long((root, number), from, to, now, self.size());
                        budget.take_bytes(now);
                        made.done = made.done.wrapping_add(now);
                    }
                    (Ahead::Own, Use::Allgatherv { blocks, in_place, .. }) => {
                        let made = (&mut made.done, scratch);
                        self.copy_to_blocks(board, number, (blocks, end, in_place), made, budget);
                    }
                    (Ahead::Own, _) => {
                        self.copy_out(board, number, (&mut made.done, end), budget);
                    }
                }
            }
            if budget.exhausted() {
                break;
            }
        }
        made.done.wrapping_sub(before)
    }

    /// Bytes of [`work`](Self::work) that are left.
    pub(crate) fn work_left(&self, board: &Board, made: &Made) -> usize {
        let is_copied = matches!(
            self.then,
            Use::Bcast { .. }
                | Use::Scatter { .. }
                | Use::Gather { .. }
                | Use::Allgather { .. }
                | Use::Alltoall { .. }
                | Use::Allgatherv { .. }
                | Use::Compartments { .. }
        );
        self.work(board).saturating_sub(if is_copied { made.done } else { 0 })
    }

    /// Makes of the result what the budget allows. Whether it is made.
    ///
    /// # Safety
    /// All parts that are needed are there. The result's memory is writable, as long as the arguments say, and nobody else uses it. `scratch` is
    /// writable for [`ROOM`](tocsin_transport::board::ROOM).
    pub(crate) unsafe fn make_long(
        &self,
        board: &Board,
        number: u32,
        (made, scratch): (&mut Made, *mut u8),
        budget: &mut Budget,
    ) -> Result<bool, Panicked> {
        let me = board.me();
        // SAFETY: promised by the caller.
        unsafe {
            match self.then {
                Use::Barrier => Ok(true),
                Use::Bcast { root } if root as usize == me => Ok(true),
                Use::Gather { at_root: false, .. } => Ok(true),
                Use::Bcast { .. }
                | Use::Scatter { .. }
                | Use::Gather { .. }
                | Use::Allgather { .. }
                | Use::Alltoall { .. } => {
                    Ok(self.copy_out(board, number, (&mut made.done, usize::MAX), budget))
                }
                Use::Allgatherv { blocks, whole, in_place, .. } => {
                    let made = (&mut made.done, scratch);
                    Ok(self.copy_to_blocks(board, number, (blocks, whole, in_place), made, budget))
                }
                Use::Reduce { root: Some(root), .. } if root as usize != me => Ok(true),
                Use::Reduce { root: Some(_), count, operator } => {
                    let all = (0, board.members());
                    self.combine_all(board, number, (count, operator), all, &mut made.done, budget)
                }
                Use::ReduceScatter { count, operator, stride: Some(stride), .. }
                    if self.passing(board).is_some() =>
                {
                    let own = (me.wrapping_mul(stride), &mut made.done);
                    self.combine_with_other(board, number, (count, operator), own, budget)
                }
                Use::ReduceScatter { at, count, operator, .. } => {
                    let own = (at, board.members());
                    self.combine_all(board, number, (count, operator), own, &mut made.done, budget)
                }
                Use::Scan { inclusive, count, operator } => {
                    let before = (0, me.wrapping_add(usize::from(inclusive)));
                    self.combine_all(board, number, (count, operator), before, &mut made.done, budget)
                }
                Use::Compartments { .. } => {
                    Ok(self.take_out(board, number, (&mut made.done, scratch), budget))
                }
                Use::Reduce { root: None, count, operator } if self.passing(board).is_some() => {
                    self.combine_with_other(board, number, (count, operator), (0, &mut made.done), budget)
                }
                Use::Reduce { root: None, count, operator } => {
                    self.combine_shared(board, number, (count, operator), &mut made.pieces, budget)
                }
            }
        }
    }

    /// Copies out of each part what is this rank's, its own first, up to so many bytes of the result. Whether they are all there.
    ///
    /// # Safety
    /// As [`make_long`](Self::make_long).
    unsafe fn copy_out(
        &self,
        board: &Board,
        number: u32,
        (done, end): (&mut usize, usize),
        budget: &mut Budget,
    ) -> bool {
        let (me, members) = (board.me(), board.members());
        // What each contributes, and where.
        let (turns, block, stride) = match self.then {
            Use::Bcast { .. } => (1, self.size(), 0),
            Use::Scatter { block, .. } => (1, block, 0),
            Use::Alltoall { block, stride } => (members, block, stride),
            Use::Gather { stride, .. } | Use::Allgather { stride } => (members, self.bytes, stride),
            _ => (members, self.bytes, self.bytes),
        };
        let whole = turns.wrapping_mul(block).min(end);
        let passing = self.passing(board).is_some();
        while *done < whole {
            let (turn, first) = (*done / block.max(1), *done % block.max(1));
            let now = block.wrapping_sub(first).min(whole.wrapping_sub(*done)).min(room(budget));
            // Then the next member's, so that not all read the same memory.
            let (member, place) = match self.then {
                Use::Bcast { root } | Use::Scatter { root, .. } => (root as usize, 0),
                _ => {
                    let member = me.wrapping_add(turn) % members.max(1);
                    (member, member.wrapping_mul(stride))
                }
            };
            let to = self.to.wrapping_add(place.wrapping_add(first));
            // Where that stands in its part, and where this rank's own is.
            let (at, own) = match self.then {
                Use::Scatter { stride, .. } => (self.own_at(board), me.wrapping_mul(stride)),
                Use::Alltoall { .. } if passing => (0, me.wrapping_mul(stride)),
                Use::Alltoall { .. } => {
                    let ahead = me.wrapping_add(members).wrapping_sub(member) % members.max(1);
                    (ahead.saturating_sub(1).wrapping_mul(block), me.wrapping_mul(stride))
                }
                _ => (0, 0),
            };
            let (from, own) = (at.wrapping_add(first), self.from.wrapping_add(own.wrapping_add(first)));
            // SAFETY: - `to` is as long as the sizes say: the caller's promise; they are this rank's own, not read
            //         - its own block is readable, and apart from where it goes or that very place.
            unsafe {
                if matches!(self.then, Use::Bcast { .. }) {
                    board.follow_long((member, number), from, to, now, whole);
                } else if member != me {
                    board.read_long(member, number, from, to, now);
                } else if !std::ptr::eq(own, to) {
                    tocsin_transport::copy::copy(own, to, now);
                }
            }
            budget.take_bytes(now);
            *done = done.wrapping_add(now);
            if *done < whole && budget.exhausted() {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_few_and_cover_all() {
        for members in [2, 3, 4, 8, 33, 64] {
            for size in [1, 2, 4, 8, 16] {
                for count in [1, 2, 63, 64, 65, 1000, 4096, 16384, 65536] {
                    let length = piece(count, size, members);
                    let pieces = count.div_ceil(length);
                    assert!(pieces <= PIECES as usize && (pieces - 1) * length < count, "{count} {length}");
                }
            }
        }
        assert_eq!(piece(16384, 4, 4), 2048);
        assert_eq!(piece(16384, 4, 8), 1024);
    }

    #[test]
    fn what_is_combined_in_one_piece_is_no_more_than_an_entry_may_do() {
        use crate::{DataType, Op};
        let (send, recv) = (None, std::ptr::null_mut());
        for (size, ranks, fits_there) in
            [(16 << 10, 2, true), (20_000, 2, false), (512, 64, true), (520, 64, false)]
        {
            let (count, op, data_type) = (4096 / size as usize + 8, Op::Sum, DataType::Opaque(size));
            let reduce = Arguments::Ireduce { send, recv, count, data_type, op, root: 0 };
            let allreduce = Arguments::Iallreduce { send, recv, count, data_type, op };
            assert_eq!([fits(&reduce, ranks), fits(&allreduce, ranks)], [fits_there; 2], "{size} {ranks}");
        }
    }
}
