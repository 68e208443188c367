//! Which boards of the segment this rank uses: a communicator has one when each of its members had it to offer.
//!
//! Ranks must agree whether a communicator has a board, and which, or they would choose different algorithms and wait for
//! each other for ever. So that is part of the agreement by which the communicator is made: each member offers boards that it
//! does not use, and the lowest that all members offer is taken. The world's communicator has the first.
//!
//! A board is not given out again when its communicator is dropped: another member may still read there. When all are given
//! out, communicators have none, and their collectives go by messages.

use tocsin_shm_transport::{BOARDS, Segment};
use tocsin_sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The world's board.
pub(crate) const WORLD_BOARD: u32 = 0;
/// How many boards are offered at a time: more than one, because members of many communicators do not use the same.
const OFFERED: u32 = 2;

/// The boards of one rank.
#[derive(Debug)]
pub(crate) struct Boards {
    used: AtomicU64,
    /// An agreement is under way in which boards were offered. Another one offers none meanwhile, lest both take the same.
    offering: AtomicBool,
}

/// What a rank offers in an agreement.
#[derive(Debug)]
pub(crate) struct Offer<'a> {
    boards: &'a Boards,
    /// Bits of the boards; none: there is nothing to take back.
    pub(crate) mask: u64,
}

impl Boards {
    /// The world's is used.
    pub(crate) fn new() -> Boards {
        Boards { used: AtomicU64::new(1 << WORLD_BOARD), offering: AtomicBool::new(false) }
    }

    /// Boards that this rank could use, with their memory.
    pub(crate) fn offer(&self, segment: &Segment) -> Offer<'_> {
        // SYNC POINT: Acquire pairs with the Release of the last offer's drop: the board that it took counts as used.
        if !segment.has_boards() || self.offering.swap(true, Ordering::Acquire) {
            return Offer { boards: self, mask: 0 };
        }
        let used = self.used.load(Ordering::Relaxed);
        let free = (0..BOARDS).filter(|board| used & 1 << board == 0);
        let mut mask = 0;
        for board in free.take(OFFERED as usize) {
            if segment.allocate_board(board) {
                mask |= 1 << board;
            }
        }
        if mask == 0 {
            self.offering.store(false, Ordering::Release);
        }
        Offer { boards: self, mask }
    }
}

impl Offer<'_> {
    /// Takes the board that all members take to whom `all` is known: what each of them has offered.
    pub(crate) fn take(self, all: impl Iterator<Item = u64>) -> Option<u32> {
        let agreed = all.fold(u64::MAX, |common, mask| common & mask);
        // A member that says what it has not offered does not make this rank use a board twice.
        let agreed = agreed & self.mask;
        let board = (agreed != 0).then(|| agreed.trailing_zeros())?;
        self.boards.used.fetch_or(1 << board, Ordering::Relaxed);
        Some(board)
    }
}

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        if self.mask != 0 {
            // SYNC POINT: Release after what was taken.
            self.boards.offering.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_that_all_offer_is_taken_once() {
        let segment = Segment::create(2).unwrap();
        let boards = Boards::new();
        let first = boards.offer(&segment);
        assert_eq!(first.mask, 0b110);
        // Another agreement at the same time offers nothing.
        let second = boards.offer(&segment);
        assert_eq!(second.mask, 0);
        assert_eq!(second.take([0b110, 0].into_iter()), None);
        assert_eq!(first.take([0b110, 0b1100].into_iter()), Some(2));
        assert_eq!(boards.offer(&segment).take([u64::MAX].into_iter()), Some(1));
        assert_eq!(boards.offer(&segment).mask, 0b11000);
        assert_eq!(boards.offer(&segment).take([0b1].into_iter()), None);
        for board in 3..BOARDS {
            assert_eq!(boards.offer(&segment).take([u64::MAX].into_iter()), Some(board));
        }
        assert_eq!(boards.offer(&segment).mask, 0);
        assert_eq!(Boards::new().offer(&Segment::create(1).unwrap()).mask, 0);
    }
}
