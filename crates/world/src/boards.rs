//! Which boards of the segment this rank uses: a communicator has one when each of its members had it to offer.
//!
//! Ranks must agree whether a communicator has a board, and which, or they would choose different algorithms and wait for
//! each other for ever. So that is part of the agreement by which the communicator is made: each member offers the boards for which it
//! has no use, and says which have memory; the lowest that all members offer and that has memory is taken. The world's
//! communicator has the first, for good.
//!
//! Memory is allocated for all ranks at once, so that it is enough if one member sees to it. Each does for what it offers up to the
//! first board above all those that it cannot offer. Of the members, let h be the highest board that one cannot offer: then all offer
//! h + 1, the lowest that all offer is no higher, and that member has seen to its memory.
//!
//! # Given back
//! That a communicator is dropped is each rank's own affair: the others may still read what it has posted. A rank says that
//! it has left, when what it has started there has ended, and offers the board again once it has seen that all other members
//! have left, too, or are gone; who will be a member of the next communicator has nothing to do with that. The argument is
//! in `tocsin_transport`'s `board/tenancy.rs`. What is in use may change between an offer and the end of the agreement in one direction
//! only, because one agreement at a time makes offers: a board that was offered stays free until then.
//!
//! A drop may come anywhere, also where the engine cannot be entered. So it notes the board here, and whoever makes the
//! next pass of the engine, which the drop asks for, tells the collectives.

use tocsin_shm_transport::{BOARDS, Segment};
use tocsin_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The world's board.
pub(crate) const WORLD_BOARD: u32 = 0;
/// In an offer, the boards that have memory stand above those that are free.
const MEMORY: u32 = 32;
const _: () = assert!(BOARDS <= MEMORY);
/// A board without a seat.
const NONE: u32 = u32::MAX;

/// The boards of one rank.
#[derive(Debug)]
pub(crate) struct Boards {
    /// Those that were taken and have not come back.
    used: AtomicU64,
    /// Those that have memory, as far as this rank knows.
    allocated: AtomicU64,
    /// By board: the number by which collectives name it.
    seats: [AtomicU32; BOARDS as usize],
    /// Those whose communicator was dropped and of which the collectives have not heard.
    dropped: AtomicU64,
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

/// Bits of all boards.
const ALL: u64 = (1 << BOARDS) - 1;

impl Boards {
    /// The world's is used.
    pub(crate) fn new() -> Boards {
        Boards {
            used: AtomicU64::new(1 << WORLD_BOARD),
            allocated: AtomicU64::new(1 << WORLD_BOARD),
            seats: [const { AtomicU32::new(NONE) }; BOARDS as usize],
            dropped: AtomicU64::new(0),
            offering: AtomicBool::new(false),
        }
    }

    /// Boards that this rank could use, and which have memory. `is_over`: whether all members have left the board that
    /// collectives name so.
    pub(crate) fn offer(&self, segment: &Segment, mut is_over: impl FnMut(u32) -> bool) -> Offer<'_> {
        // SYNC POINT: Acquire pairs with the Release of the last offer's drop: the board that it took counts as used.
        if !segment.has_boards() || self.offering.swap(true, Ordering::Acquire) {
            return Offer { boards: self, mask: 0 };
        }
        for (board, seat) in (0..BOARDS).zip(&self.seats) {
            // SYNC POINT: Relaxed: a number that is not seen yet is that of a board that is in use; what a number stands for is
            // looked up under the engine's token.
            let number = seat.load(Ordering::Relaxed);
            if number != NONE && is_over(number) {
                seat.store(NONE, Ordering::Relaxed);
                self.give_back(board);
            }
        }
        let free = ALL & !self.used.load(Ordering::Relaxed);
        let mut allocated = self.allocated.load(Ordering::Relaxed);
        let above = (ALL & !free).checked_ilog2().unwrap_or(0) + 1;
        for board in (0..=above).filter(|board| free & 1 << board != 0) {
            if allocated & 1 << board != 0 || segment.allocate_board(board) {
                allocated |= 1 << board;
            }
        }
        self.allocated.store(allocated, Ordering::Relaxed);
        if free == 0 {
            self.offering.store(false, Ordering::Release);
            return Offer { boards: self, mask: 0 };
        }
        Offer { boards: self, mask: free | allocated << MEMORY }
    }

    /// How collectives name a board that was taken.
    pub(crate) fn set_seat(&self, board: u32, number: u32) {
        if let Some(seat) = self.seats.get(board as usize) {
            seat.store(number, Ordering::Relaxed);
        }
    }

    /// A board that was taken was not used after all.
    pub(crate) fn give_back(&self, board: u32) {
        self.used.fetch_and(!(1 << board), Ordering::Relaxed);
    }

    /// The communicator of a board is gone. The caller asks for a pass.
    pub(crate) fn drop_board(&self, board: u32) {
        // SYNC POINT: Release pairs with the Acquire of `take_dropped`: the board's number.
        self.dropped.fetch_or(1 << board, Ordering::Release);
    }

    /// How collectives name the boards whose communicators were dropped since. Handler-safe.
    #[inline]
    pub(crate) fn take_dropped(&self) -> impl Iterator<Item = u32> {
        let mut left = match self.dropped.load(Ordering::Relaxed) {
            0 => 0,
            // SYNC POINT: as in `drop_board`. The request for a pass that follows there makes sure that somebody comes here.
            _ => self.dropped.swap(0, Ordering::Acquire),
        };
        std::iter::from_fn(move || {
            let board = (left != 0).then(|| left.trailing_zeros())?;
            left &= left.wrapping_sub(1);
            self.seats.get(board as usize).map(|seat| seat.load(Ordering::Relaxed))
        })
    }
}

impl Offer<'_> {
    /// Takes the board that all members take to whom `all` is known: what each of them has offered.
    pub(crate) fn take(self, all: impl Iterator<Item = u64>) -> Option<u32> {
        let (free, allocated) =
            all.fold((u64::MAX, 0), |(free, allocated), offer| (free & offer, allocated | offer >> MEMORY));
        // A member that says what it has not offered does not make this rank use a board twice.
        let agreed = free & allocated & self.mask & ALL;
        let board = (agreed != 0).then(|| agreed.trailing_zeros())?;
        self.boards.used.fetch_or(1 << board, Ordering::Relaxed);
        self.boards.allocated.fetch_or(1 << board, Ordering::Relaxed);
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

    fn words(boards: &[u32]) -> u64 {
        boards.iter().fold(0, |all, board| all | 1 << board | 1 << (board + MEMORY))
    }

    #[test]
    fn the_lowest_that_all_offer_is_taken_once() {
        let segment = Segment::create(2).unwrap();
        let boards = Boards::new();
        let offer = || boards.offer(&segment, |_| false);
        let first = offer();
        assert_eq!(first.mask, ALL & !1 | 0b11 << MEMORY);
        // Another agreement at the same time offers nothing.
        let second = offer();
        assert_eq!(second.mask, 0);
        assert_eq!(second.take([first.mask, 0].into_iter()), None);
        let mask = first.mask;
        assert_eq!(first.take([mask, words(&[2, 3])].into_iter()), Some(2));
        assert_eq!(offer().take([u64::MAX].into_iter()), Some(1));
        assert_eq!(offer().mask, ALL & !0b111 | 0b1111 << MEMORY);
        assert_eq!(offer().take([words(&[0, 1])].into_iter()), None);
        // Memory that another member knows of serves, and none that nobody knows of.
        assert_eq!(offer().take([u64::from(u32::MAX) & !0b1000].into_iter()), None);
        let mine = offer();
        let both = [mine.mask, words(&[9])];
        assert_eq!(mine.take(both.into_iter()), Some(9));
        // And this rank sees to that of all that it offers below.
        assert_eq!(offer().mask >> MEMORY, (1 << 11) - 1);
        for board in (3..BOARDS).filter(|board| *board != 9) {
            assert_eq!(offer().take([u64::MAX].into_iter()), Some(board));
        }
        assert_eq!(offer().mask, 0);
        assert_eq!(Boards::new().offer(&Segment::create(1).unwrap(), |_| true).mask, 0);
    }

    #[test]
    fn what_all_have_left_is_offered_again() {
        let segment = Segment::create(2).unwrap();
        let boards = Boards::new();
        for (board, number) in [(1, 40), (2, 41), (3, 42)] {
            assert_eq!(boards.offer(&segment, |_| false).take([u64::MAX].into_iter()), Some(board));
            // Taken, and not in use yet.
            let is_over = |number| {
                assert!(number < 40 + board - 1, "{number}");
                false
            };
            assert_eq!(boards.offer(&segment, is_over).mask & ALL & 1 << board, 0);
            boards.set_seat(board, number);
        }
        assert_eq!(boards.take_dropped().count(), 0);
        boards.drop_board(3);
        boards.drop_board(2);
        assert_eq!(boards.take_dropped().collect::<Vec<_>>(), [41, 42]);
        assert_eq!(boards.take_dropped().count(), 0);
        assert_eq!(boards.offer(&segment, |number| number == 41).mask & 0b1111, 0b100);
        assert_eq!(boards.offer(&segment, |_| false).mask & 0b1111, 0b100);
        assert_eq!(boards.offer(&segment, |number| number == 40).mask & 0b1111, 0b110);
    }
}
