//! Places that pass from one member to another.
//!
//! A core that reads a line which another core has written mostly becomes its owner, so that the one who has read there writes there next in no time, and the one who has written fetches each line back. So where
//! members post long parts under a number of which every byte is for one other member, a place has a *room* for each other member, and of two members either takes the other's room for its own once it is
//! [done](Board::exchange) with the number, and has its own room no more. Who posts says where its rooms are; nothing is said of their passing: all know which numbers are such (what a part is about tells), and what has passed nobody but the new owner has anything to do with, for the
//! old one only wrote there before it posted, and stays away from then on. Such parts have places of their own, of two sizes, all of which are allocated whole before they are first used, so that it makes no difference whose a room was first.
//! One place is free for each post: those that a member has posted in and is not done with are of numbers that it has not retired, fewer than [`OUTSTANDING`] before a post. So a member exchanges under each such number that ends, or posts no more, or nobody reads there any more
//! (a number that ends as revoked: the other members have said so, and ended their own).
//! (Exchanges of 64 KiB between 2 took 8.2 to 9.3 us in places that do not pass, on an EPYC, and 4.4 in these, where both copy at once; of 256 KiB 23 to 25, and 19 to 20; of 1 MiB 76 to 95, and 71 to 73: `bench coll --mode alone --ranks 2`. An ialltoall of 64 KiB among 4 that share 2 cores of a Granite Rapids
//! 38.6 to 39.6, and 32.2: to fill a room takes less than half of what it takes to fetch its lines back from who has read them.)

use super::{LONG, PAGE, PLACES, Stores, copy_in};
use crate::board::{Board, OUTSTANDING, ROOM, Real, Slot, Variant};
use core::ops::Range;
use tocsin_sync::atomic::{AtomicU64, Ordering};

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
/// Rooms begin at multiples of so many bytes.
const ALIGN: usize = if cfg!(loom) { 8 } else { 4096 };

/// A place among all members': whose memory it is in, and which one there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Spot {
    pub(super) member: u32,
    pub(super) place: u16,
    /// From which [page](PAGE) of the place on; 0 in those that pass.
    pub(super) page: u16,
}

impl Spot {
    pub(super) fn word(self) -> u64 {
        u64::from(self.member) << 32 | u64::from(self.page) << 16 | u64::from(self.place)
    }

    pub(super) fn of_word(word: u64) -> Spot {
        Spot { member: (word >> 32) as u32, place: word as u16, page: (word >> 16) as u16 }
    }

    /// Of which size, if it is one that passes.
    pub(super) fn passes(self) -> Option<usize> {
        match self.place as usize {
            _ if self.page > 0 => None,
            PLACES..LARGER => Some(0),
            LARGER..ALL_PLACES => Some(1),
            _ => None,
        }
    }

    /// Where in its member's memory it begins, and its bytes; `None`: there is no such place.
    pub(super) fn range(self) -> Option<(usize, usize)> {
        let before = usize::from(self.page).wrapping_mul(PAGE);
        match self.place as usize {
            place @ ..PLACES if before < LONG => {
                Some((place.wrapping_mul(LONG).wrapping_add(before), LONG.wrapping_sub(before)))
            }
            _ if before > 0 => None,
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

/// Where a member's rooms for another one are, by place that passes.
pub(super) type Rooms = [Spot; ALL_PLACES - PLACES];

/// Those that are in its own memory.
pub(super) fn own_rooms(member: usize) -> Rooms {
    core::array::from_fn(|at| Spot { member: member as u32, place: PLACES.wrapping_add(at) as u16, page: 0 })
}

/// Which of a member's rooms, and of the words that say where they are, is for another one.
#[inline]
fn which(member: usize, other: usize) -> usize {
    if other < member { other } else { other.wrapping_sub(1) }
}

/// Where a slot says of a room for a member where it is.
#[inline]
fn said(slot: &Slot, poster: usize, member: usize) -> Option<&AtomicU64> {
    const { assert!(ROOM / 8 >= if cfg!(loom) { 1 } else { crate::board::MEMBERS - 1 }) };
    slot.data.get(which(poster, member))
}

impl Board {
    /// Bytes of a room in a place of so many.
    #[inline]
    fn room_bytes(&self, place: usize) -> usize {
        // No division that might panic in a handler.
        place.checked_div(self.members().wrapping_sub(1)).unwrap_or(0) & !(ALIGN - 1)
    }

    /// The places that [pass](Self::exchange) for parts of so many bytes for each other member, and the bytes of each; `None`: there are none.
    #[inline]
    pub fn passing(&self, bytes: usize) -> Option<(Range<usize>, usize)> {
        if bytes <= self.room_bytes(SMALL) {
            Some((PLACES..LARGER, SMALL))
        } else {
            (bytes <= self.room_bytes(LARGE)).then_some((LARGER..ALL_PLACES, LARGE))
        }
    }

    /// As [`next_place`](Self::next_place), of one that [passes](Self::passing), if there are such for so many bytes for each other member.
    #[inline]
    pub fn next_passing(&mut self, bytes: usize) -> usize {
        let Some((places, _)) = self.passing(bytes) else {
            return self.next_place(bytes.saturating_mul(self.members().wrapping_sub(1)));
        };
        if let Some(place) = self.long.next.filter(|place| places.contains(place)) {
            return place;
        }
        let free = |place: &usize| self.long.used.get(*place).is_some_and(Option::is_none);
        // What this member has read last, and else one that it has not used for a number with which it is not done: there is one.
        let last = self.long.passed.into_iter().filter(|place| places.contains(place));
        let place = last.chain(places.clone()).find(free).unwrap_or(places.start);
        (self.long.next, self.long.page) = (Some(place), 0);
        place
    }

    /// Where this member's room for another one is, of a place that passes.
    #[inline]
    fn own_room(&self, place: usize, member: usize) -> Option<Spot> {
        self.long.rooms.get(member)?.get(place.checked_sub(PLACES)?).copied()
    }

    /// Words of a room by which two members pass things to each other, if so many bytes are there from a byte on.
    #[inline]
    pub(super) fn room(&self, spot: Spot, other: usize, first: usize, bytes: usize) -> Option<&[AtomicU64]> {
        let owner = spot.member as usize;
        let partner = if owner == self.me { other } else { self.me };
        let (at, whole) = spot.range()?;
        let room = self.room_bytes(whole);
        let at = at.checked_add(which(owner, partner).checked_mul(room)?)?;
        self.words(owner, (at, room), first, bytes)
    }

    /// Copies bytes of what is for a member of the part that is posted next, of which so many in all are for it, to the room for it in the place that [passes](Self::next_passing).
    ///
    /// # Safety
    /// `from` is readable for `bytes`. Beyond the room nothing is copied.
    #[inline]
    pub unsafe fn fill_room(&mut self, member: usize, first: usize, from: *const u8, bytes: usize) {
        let Some(spot) = self.long.next.and_then(|place| self.own_room(place, member)) else { return };
        if let Some(memory) = self.room(spot, member, first, bytes) {
            // This member has read there last: its core has the lines.
            // SAFETY: the caller's promise; nobody reads there before the part is posted.
            unsafe { copy_in(memory, first, from, bytes, Stores::Plain) };
        }
    }

    /// Says where the rooms of the part that is posted next are, if that is in a place that passes.
    #[inline]
    pub(super) fn say_rooms(&self, slot: &Slot, place: usize) {
        if place < PLACES {
            return;
        }
        for member in (0..self.members()).filter(|member| *member != self.me) {
            if let (Some(spot), Some(word)) = (self.own_room(place, member), said(slot, self.me, member)) {
                // SYNC POINT: Relaxed: as the words of a part.
                word.store(spot.word(), Ordering::Relaxed);
            }
        }
    }

    /// Where a member's room for this one is, of a number that it has posted in a place that passes, by what it says: a room of either's for the other, or none.
    #[inline]
    pub(super) fn room_of(&self, member: usize, number: u32) -> Option<Spot> {
        let slot = self.slot(member, number)?;
        // SYNC POINT: Relaxed: after the Acquire of the stamp, as in `long`.
        let spot = Spot::of_word(said(slot, member, self.me)?.load(Ordering::Relaxed));
        let theirs = [member, self.me].contains(&(spot.member as usize)) && member != self.me;
        (theirs && spot.passes().is_some()).then_some(spot)
    }

    /// Takes the other members' rooms of a number for those that this member has used for it, which are the others' then, if they are in places [that pass](Self::next_passing): this
    /// member is done with the number, and has not said so yet. Handler-safe.
    #[inline]
    pub fn exchange(&mut self, number: u32) {
        self.exchange_as::<Real>(number);
    }

    /// [`exchange`](Self::exchange) with variation points.
    #[doc(hidden)]
    #[inline]
    pub fn exchange_as<V: Variant>(&mut self, number: u32) {
        let passing = self.long.used.get(PLACES..).unwrap_or_default();
        let Some(at) = passing.iter().position(|used| *used == Some(number)) else { return };
        let place = PLACES.wrapping_add(at);
        for member in (0..self.members()).filter(|member| *member != self.me) {
            // Who names no such room has what it reads here next overwritten, and no more.
            let Some(theirs) = self.room_of(member, number).filter(|_| V::PASSES) else { continue };
            if let Some(own) = self.long.rooms.get_mut(member).and_then(|rooms| rooms.get_mut(at))
                && own.passes() == theirs.passes()
            {
                *own = theirs;
            }
        }
        if let Some(used) = self.long.used.get_mut(place) {
            *used = None;
        }
        let size = usize::from(place >= LARGER);
        if let Some(passed) = self.long.passed.get_mut(size) {
            *passed = place;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::tests::with_long;
    use super::*;
    use crate::board::MEMBERS;
    use crate::board::tests::Memory;
    use std::collections::HashSet;

    fn others(board: &Board) -> Vec<usize> {
        (0..board.members()).filter(|member| *member != board.me()).collect()
    }

    /// What a member posts for another one.
    fn word(number: u32, from: usize, to: usize) -> u64 {
        u64::from(number) << 32 | (from as u64) << 8 | to as u64
    }

    /// Where the rooms of a place are, by address; 0: its own.
    fn rooms(board: &Board, place: usize, bytes: usize) -> Vec<usize> {
        let at = |member| {
            let spot = board.own_room(place, member).filter(|_| member != board.me())?;
            Some(board.room(spot, member, 0, bytes)?.as_ptr() as usize)
        };
        (0..board.members()).map(|member| at(member).unwrap_or(0)).collect()
    }

    /// Fills a place that passes, of which so many bytes are needed for each, with a word at each end, and posts it: where the rooms are.
    #[allow(clippy::unwrap_used)] // clippy exempts test functions only
    fn post_passing(board: &mut Board, bytes: usize) -> Vec<usize> {
        let place = board.next_passing(bytes);
        assert!(board.passing(bytes).unwrap().0.contains(&place));
        assert_eq!(board.next_passing(bytes), place, "as long as nothing is posted");
        let at = rooms(board, place, bytes);
        let number = board.posted() + 1;
        for member in others(board) {
            let word = word(number, board.me(), member);
            // SAFETY: a word of this frame's.
            unsafe { board.fill_room(member, bytes - 8, (&raw const word).cast(), 8) };
        }
        board.post_long(0);
        at
    }

    /// Reads all others' words of a number, and is done with it.
    fn read_passing(board: &mut Board, bytes: usize, number: u32) {
        for member in others(board) {
            let mut got = 0u64;
            // SAFETY: a word of this frame's.
            unsafe { board.read_long(member, number, bytes - 8, (&raw mut got).cast(), 8) };
            assert_eq!(got, word(number, member, board.me()));
        }
        board.exchange(number);
        board.exchange(number);
        board.note_long_done(number);
    }

    #[test]
    fn who_has_read_a_room_writes_there_next() {
        for members in [2, 3, 4, 7] {
            let (memory, mut words) = (Memory::new(members), Vec::new());
            let mut boards = with_long(&memory, &mut words, members);
            let (small, large) = (boards[0].room_bytes(SMALL), boards[0].room_bytes(LARGE));
            let mut last: [Option<Vec<Vec<usize>>>; 2] = [None, None];
            for number in 1..=40u32 {
                let (size, bytes) = [(0, small), (1, small + 8), (1, large), (0, 8)][number as usize % 4];
                let at: Vec<_> = boards.iter_mut().map(|board| post_passing(board, bytes)).collect();
                if let Some(before) = last[size].replace(at.clone()) {
                    for (one, two) in (0..members).flat_map(|one| (0..members).map(move |two| (one, two))) {
                        assert_eq!(at[one][two], before[two][one]);
                    }
                }
                for board in &mut boards {
                    read_passing(board, bytes, number);
                }
                assert!(boards.iter_mut().all(|board| board.has_room(number)));
            }
            // What is too long does not pass.
            let one = &mut boards[0];
            let place = one.next_passing(large + 1);
            assert!(place < PLACES && one.next_place(1) == place);
            one.post_long(0);
            one.exchange(41);
            assert_ne!(one.next_place(1), place, "the others have yet to read what stands there");
        }
    }

    #[test]
    fn rooms_of_numbers_that_are_not_done_are_left_alone() {
        for members in [2, 3] {
            let (memory, mut words) = (Memory::new(members), Vec::new());
            let mut boards = with_long(&memory, &mut words, members);
            // Some are ahead of others, by as much as may be: these come back to another place than those.
            for begun in 0..20u32 {
                let place = if begun % 3 == 0 { SMALL } else { LARGE };
                let bytes = boards[0].room_bytes(place);
                let number = |at| begun * OUTSTANDING + at;
                for board in &mut boards {
                    let mut at = HashSet::new();
                    for _ in 1..=OUTSTANDING {
                        assert!(board.has_room(number(0)));
                        at.extend(post_passing(board, bytes));
                    }
                    at.remove(&0);
                    assert_eq!(at.len(), OUTSTANDING as usize * (members - 1));
                }
                boards.rotate_left(1);
                for board in &mut boards {
                    (1..=OUTSTANDING).for_each(|at| read_passing(board, bytes, number(at)));
                    assert!(board.has_room(number(OUTSTANDING)));
                }
            }
            let mut all = HashSet::new();
            for board in &boards {
                for at in (PLACES..ALL_PLACES).flat_map(|place| rooms(board, place, 8)).filter(|at| *at != 0)
                {
                    assert!(all.insert(at), "each is one's");
                }
            }
            assert_eq!(all.len(), (ALL_PLACES - PLACES) * members * (members - 1));
        }
    }

    /// Members of which each is done with a number when chance has it.
    #[test]
    fn rooms_pass_between_members_that_are_done_at_different_times() {
        const MEMBERS: usize = 4;
        let (memory, mut words) = (Memory::new(MEMBERS), Vec::new());
        let mut boards = with_long(&memory, &mut words, MEMBERS);
        let bytes = |board: &Board, number: u32| match number % 5 {
            0 => board.room_bytes(LARGE),
            _ => board.room_bytes(SMALL) - 8 * (number as usize % 7),
        };
        let (mut done, mut chance) = ([0u32; MEMBERS], 1u64);
        while done.iter().any(|done| *done < 500) {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let member = (chance >> 40) as usize % MEMBERS;
            let there = boards.iter().map(Board::posted).min().unwrap_or(0);
            let board = &mut boards[member];
            if chance >> 62 != 0 && done[member] < there {
                done[member] += 1;
                let bytes = bytes(board, done[member]);
                read_passing(board, bytes, done[member]);
            } else if board.has_room(done[member]) {
                let bytes = bytes(board, board.posted() + 1);
                post_passing(board, bytes);
            }
        }
    }

    #[test]
    fn rooms_lie_in_their_places_apart_from_each_other() {
        for members in 2..=MEMBERS {
            let memory = Memory::new(members);
            let board = memory.board(0, 7);
            for place in [SMALL, LARGE] {
                let room = board.room_bytes(place);
                assert!(
                    room >= ALIGN
                        && room * (members - 1) <= place
                        && place - room * (members - 1) < members * ALIGN
                );
                assert!(board.passing(room).is_some_and(|(_, whole)| whole <= place));
            }
            assert_eq!(board.passing(board.room_bytes(LARGE) + 1), None);
            for one in 0..members {
                let mut all: Vec<usize> =
                    (0..members).filter(|two| *two != one).map(|two| which(one, two)).collect();
                all.sort_unstable();
                assert!(all.into_iter().eq(0..members - 1));
            }
        }
    }

    /// A member that lies about where its rooms are.
    #[test]
    fn rooms_that_are_none_do_not_pass() {
        let (memory, mut words) = (Memory::new(3), Vec::new());
        let mut boards = with_long(&memory, &mut words, 3);
        let bytes = boards[0].room_bytes(SMALL);
        for (number, word) in (1..).zip([
            0,
            u64::MAX,
            // Of the third.
            2 << 32 | PLACES as u64,
            3 << 32 | PLACES as u64,
            1 << 32 | (PLACES - 1) as u64,
            1 << 32 | ALL_PLACES as u64,
            1 << 63 | PLACES as u64,
            1 << 32 | LARGER as u64,
        ]) {
            let at: Vec<_> = boards.iter_mut().map(|board| post_passing(board, bytes)).collect();
            said(boards[0].slot(1, number).unwrap(), 1, 0).unwrap().store(word, Ordering::Relaxed);
            let mut got = 0u64;
            // SAFETY: a word of this frame's.
            unsafe { boards[0].read_long(1, number, bytes - 8, (&raw mut got).cast(), 8) };
            boards[0].exchange(number);
            boards[0].note_long_done(number);
            let place = boards[0].next_passing(8);
            let next = rooms(&boards[0], place, 8);
            assert_eq!((next[1], next[2]), (at[0][1], at[2][0]), "{word:#x}");
            for board in &mut boards[1..] {
                board.exchange(number);
                board.note_long_done(number);
            }
            assert!(boards.iter_mut().all(|board| board.has_room(number)));
            // As it was.
            boards[1].long.rooms[0] = own_rooms(1);
        }
        assert_eq!((boards[0].own_place(ALL_PLACES), boards[0].own_place(usize::MAX)), (None, None));
    }
}
