//! Places that pass from one member to the other.
//!
//! A core that reads a line which another core has written mostly becomes its owner, so that the one who has read there writes there next in no time, and the one who has written fetches each line back. So of two
//! members that both post a long part under a number, and read nothing but that, either takes the place of the other's part for its own once it is [done](Board::exchange) with the number, and has its own
//! place no more. Nothing is said of that: both know which numbers are such (what a part is about tells), and what has passed nobody but the new owner has anything to do with, for the
//! old one only wrote there before it posted, and stays away from then on. Such parts have places of their own, of two sizes, all of which are allocated whole, so that it makes no difference which of a size it is.
//! One of them is free for each post: those that a member has posted in and is not done with are of numbers that it has not retired, fewer than [`OUTSTANDING`] before a post. So a member exchanges under each such number that ends, or posts no more, or nobody reads there any more
//! (a number that ends as revoked: the other member has said so, and ended its own).
//! (Exchanges of 64 KiB took 8.2 to 9.3 us in places that do not pass, on an EPYC, and 4.4 in these, where both copy at once; of 256 KiB 23 to 25, and 19 to 20; of 1 MiB 76 to 95, and 71 to 73: `bench coll --mode alone --ranks 2`.)

use super::{LONG, PLACES};
use crate::board::{Board, OUTSTANDING, Real, Variant};
use core::ops::Range;
use tocsin_sync::atomic::Ordering;

/// Bytes of a place that passes, of either size.
pub const ROOMS_PASSING: [usize; 2] = if cfg!(loom) { [8, 16] } else { [256 << 10, 1 << 20] };
pub(super) const SMALL: usize = ROOMS_PASSING[0];
pub(super) const LARGE: usize = ROOMS_PASSING[1];
/// Such places of a size that a member has at any time.
pub(super) const PASSING: usize = OUTSTANDING as usize;
/// All places that a member has: those that pass are behind the others, the smaller ones first.
pub const ALL_PLACES: usize = LARGER + PASSING;
/// The first of the larger ones.
pub(super) const LARGER: usize = PLACES + PASSING;

/// A place among all members': whose memory it is in, and which one there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Spot {
    pub(super) member: u32,
    pub(super) place: u32,
}

impl Spot {
    pub(super) const NONE: Spot = Spot { member: u32::MAX, place: 0 };

    pub(super) fn word(self) -> u64 {
        u64::from(self.member) << 32 | u64::from(self.place)
    }

    pub(super) fn of_word(word: u64) -> Spot {
        Spot { member: (word >> 32) as u32, place: word as u32 }
    }

    /// Of which size, if it is one that passes.
    fn passes(self) -> Option<usize> {
        match self.place as usize {
            PLACES..LARGER => Some(0),
            LARGER..ALL_PLACES => Some(1),
            _ => None,
        }
    }

    /// Where in its member's memory it begins, and its bytes; `None`: there is no such place.
    pub(super) fn range(self) -> Option<(usize, usize)> {
        match self.place as usize {
            place @ ..PLACES => Some((place.wrapping_mul(LONG), LONG)),
            place @ PLACES..LARGER => {
                let before = place.wrapping_sub(PLACES).wrapping_mul(SMALL);
                Some(((PLACES * LONG).wrapping_add(before), SMALL))
            }
            place @ LARGER..ALL_PLACES => {
                let before = place.wrapping_sub(LARGER).wrapping_mul(LARGE);
                Some(((PLACES * LONG + PASSING * SMALL).wrapping_add(before), LARGE))
            }
            _ => None,
        }
    }
}

impl Board {
    /// The places that [pass](Self::exchange) for parts of so many bytes, and the bytes of each; `None`: there are none.
    #[inline]
    pub fn passing(bytes: usize) -> Option<(Range<usize>, usize)> {
        if bytes <= SMALL {
            Some((PLACES..LARGER, SMALL))
        } else {
            (bytes <= LARGE).then_some((LARGER..ALL_PLACES, LARGE))
        }
    }

    /// As [`next_place`](Self::next_place), of one that [passes](Self::passing), if there are such for so many bytes.
    #[inline]
    pub fn next_passing(&mut self, bytes: usize) -> usize {
        let Some((places, _)) = Board::passing(bytes) else { return self.next_place(bytes) };
        if let Some(place) = self.long.next.filter(|place| places.contains(place)) {
            return place;
        }
        let free = |place: &usize| self.long.used.get(*place).is_some_and(Option::is_none);
        // What this member has read last, and else one that it has not used for a number with which it is not done: there is one.
        let last = self.long.passed.into_iter().filter(|place| places.contains(place));
        let place = last.chain(places.clone()).find(free).unwrap_or(places.start);
        self.long.next = Some(place);
        place
    }

    /// Takes the other member's place of a number for the one that this member has used for it, which is the other's then, if it is one [that passes](Self::next_passing): this
    /// member is done with the number, and has not said so yet. Does nothing where there are more members. Handler-safe.
    #[inline]
    pub fn exchange(&mut self, number: u32) {
        self.exchange_as::<Real>(number);
    }

    /// [`exchange`](Self::exchange) with variation points.
    #[doc(hidden)]
    #[inline]
    pub fn exchange_as<V: Variant>(&mut self, number: u32) {
        if self.members() != 2 {
            return;
        }
        let passing = self.long.used.get(PLACES..).unwrap_or_default();
        let Some(place) = passing.iter().position(|used| *used == Some(number)) else { return };
        let place = place.wrapping_add(PLACES);
        // SYNC POINT: Relaxed: after the Acquire of the stamp, as in `long`.
        let word = self.slot(1 - self.me, number).map(|slot| slot.long.place.load(Ordering::Relaxed));
        let (Some(at), Some(used)) = (self.long.at.get_mut(place), self.long.used.get_mut(place)) else {
            return;
        };
        let size = at.passes();
        let is_such = |spot: &Spot| V::PASSES && spot.passes() == size && spot.member < 2;
        // Who names no such place has what it reads here next overwritten, and no more.
        (*at, *used) = (word.map(Spot::of_word).filter(is_such).unwrap_or(*at), None);
        if let Some(passed) = size.and_then(|size| self.long.passed.get_mut(size)) {
            *passed = place;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::LONG_MEMORY;
    use super::*;
    use crate::board::tests::Memory;
    use core::ptr::NonNull;
    use tocsin_sync::atomic::AtomicU64;

    /// Two boards with long memory, which is to be kept.
    fn two_with_long(memory: &Memory, words: &mut [Vec<u64>; 2]) -> [Board; 2] {
        let long: Vec<NonNull<AtomicU64>> = words
            .iter_mut()
            .map(|words| {
                words.resize(LONG_MEMORY / 8, 0);
                NonNull::from(&mut words[0]).cast()
            })
            .collect();
        // SAFETY: the words are kept, and used by the boards alone until they are dropped.
        [0, 1].map(|me| unsafe { memory.board(me, 7).with_long(long.clone().into()) })
    }

    /// Fills a place that passes, of which so many bytes are needed, with a word at their end, and posts it: where that is.
    #[allow(clippy::unwrap_used)] // clippy exempts test functions only
    fn post_passing(board: &mut Board, bytes: usize, word: u64) -> NonNull<u8> {
        let place = board.next_passing(bytes);
        assert!(Board::passing(bytes).is_none_or(|(places, _)| places.contains(&place)));
        assert_eq!(board.next_passing(bytes), place, "as long as nothing is posted");
        let at = board.own_place(place).unwrap();
        // SAFETY: a word of this frame's.
        unsafe { board.fill((bytes - 8, bytes), (&raw const word).cast(), 8) };
        board.post_long(0);
        at
    }

    fn read_passing(board: &Board, bytes: usize, number: u32) -> u64 {
        let mut got = 0u64;
        // SAFETY: a word of this frame's.
        unsafe { board.read_long(1 - board.me(), number, bytes - 8, (&raw mut got).cast(), 8) };
        got
    }

    #[test]
    fn who_has_read_a_place_writes_there_next() {
        let (memory, mut words) = (Memory::new(2), Default::default());
        let mut boards = two_with_long(&memory, &mut words);
        let mut last: [Option<[NonNull<u8>; 2]>; 2] = [None; 2];
        for number in 1..=40u32 {
            let (size, bytes) = [(0, SMALL), (1, SMALL + 8), (1, LARGE), (0, 8)][number as usize % 4];
            let at = boards.each_mut().map(|board| {
                let word = u64::from(number) * 2 + board.me() as u64;
                post_passing(board, bytes, word)
            });
            if let Some([one, two]) = last[size].replace(at) {
                assert_eq!(at, [two, one]);
            }
            for board in &mut boards {
                assert_eq!(read_passing(board, bytes, number), u64::from(number) * 2 + 1 - board.me() as u64);
                board.exchange(number);
                board.exchange(number);
                board.note_long_done(number);
                assert!(board.has_room(number));
            }
        }
        // What does not pass is where it was, nor does what is too long.
        let [one, _] = &mut boards;
        let place = one.next_passing(LARGE + 1);
        assert!(place < PLACES && one.next_place(1) == place);
        one.post_long(0);
        one.exchange(41);
        assert_ne!(one.next_place(1), place, "the other one has yet to read what stands there");
    }

    #[test]
    fn places_of_numbers_that_are_not_done_are_left_alone() {
        let (memory, mut words) = (Memory::new(2), Default::default());
        let mut boards = two_with_long(&memory, &mut words);
        // One is ahead of the other, by as much as may be.
        for begun in 0..20u32 {
            for board in &mut boards {
                let mut at = std::collections::HashSet::new();
                for number in 1..=OUTSTANDING {
                    let number = begun * OUTSTANDING + number;
                    assert!(board.has_room(begun * OUTSTANDING));
                    let bytes = if begun % 3 == 0 { SMALL } else { LARGE };
                    at.insert(post_passing(board, bytes, u64::from(number) * 2 + board.me() as u64));
                }
                assert_eq!(at.len(), OUTSTANDING as usize);
            }
            for board in boards.iter_mut().rev() {
                for number in 1..=OUTSTANDING {
                    let number = begun * OUTSTANDING + number;
                    let bytes = if begun % 3 == 0 { SMALL } else { LARGE };
                    assert_eq!(
                        read_passing(board, bytes, number),
                        u64::from(number) * 2 + 1 - board.me() as u64
                    );
                    board.exchange(number);
                    board.note_long_done(number);
                }
                assert!(board.has_room((begun + 1) * OUTSTANDING));
            }
        }
        let all = |board: &Board| {
            (PLACES..ALL_PLACES).map(|place| board.own_place(place).unwrap()).collect::<Vec<_>>()
        };
        let [one, two] = boards.each_ref().map(all);
        assert!(one.iter().all(|at| !two.contains(at)), "each is one's");
    }

    /// A member that lies about where its part is.
    #[test]
    fn places_that_are_none_do_not_pass() {
        let (memory, mut words) = (Memory::new(2), Default::default());
        let [mut one, mut two] = two_with_long(&memory, &mut words);
        for (number, word) in (1..).zip([
            0,
            u64::MAX,
            2 << 32 | PLACES as u64,
            1 << 32 | (PLACES - 1) as u64,
            1 << 32 | ALL_PLACES as u64,
            1 << 63 | PLACES as u64,
            1 << 32 | LARGER as u64,
        ]) {
            let at = post_passing(&mut one, SMALL, 1);
            post_passing(&mut two, SMALL, 2);
            two.slot(1, number).unwrap().long.place.store(word, Ordering::Relaxed);
            let _anything = read_passing(&one, SMALL, number);
            one.exchange(number);
            one.note_long_done(number);
            let place = one.next_passing(8);
            assert_eq!(one.own_place(place), Some(at), "{word:#x}");
            two.exchange(number);
            two.note_long_done(number);
            assert!(one.has_room(number) && two.has_room(number));
        }
        assert_eq!((one.own_place(ALL_PLACES), one.own_place(usize::MAX)), (None, None));
    }
}
