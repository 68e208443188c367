//! Long parts, and results that members share: what does not fit into a slot lies in memory of its own.
//!
//! A member's long memory has [`PLACES`] places of [`LONG`] bytes, and some of each of [`ROOMS_PASSING`], which [pass](passing) to who has read there. A long part is copied to one of them before the stamp of its slot is stored, which says where
//! it lies, and is read by virtue of that stamp, as a short one is; or ahead of it, as below.
//!
//! # When a place may be written again
//! A place that was last used for number n is free for a number from n + SLOTS on, by the argument of [`board`](super) for slots; so that of as many places as
//! there are slots one is always free. It is free before, once all members [say](Board::note_long_done) that they are done with n, which ranks that work in step
//! mostly have: then as much memory as stays in the caches is used again and again, a part after the other in each place. Nobody waits for that word.
//!
//! # Parts that are read while they are filled
//! Of a part that takes long to copy in, its owner may [say](Board::begin_filling) beforehand where it will lie and what it is about, and from time to time [how much](Board::note_filled)
//! is there. Who waits for that number may copy that out [ahead](Board::filled) of the stamp, and takes the rest when that is there. Nothing depends on it: that a
//! number has come says the stamp alone, for which alone anybody is rung. The slot is the owner's to write from when it has room for the number on; the words
//! say by that number's own stamp, which no other number and no other communicator has, of what they are true.
//!
//! # Results that members share
//! Of what all members make of the same parts, each may keep pieces behind its part, for the others to take instead of making them once more. Pieces are
//! numbered; who has made one copies it there and [says so](Board::share). Who looks and finds nobody's makes the piece by itself: nobody waits
//! for anybody, and a member that computes, or has died, holds up nobody. That two make the same piece at the same time costs time and nothing else,
//! for each writes into its own memory. Who begins one [says that, too](Board::begin_piece): a hint, by which others begin with other pieces.
//!
//! The words that say so are cleared before the stamp of the next part is stored there, and read only after that stamp was seen: they never say of a
//! later number what was true of an earlier one. A member keeps pieces of a number until all are done with it, as it keeps its part.
//!
//! # Hostile members
//! What is read may be anything, as the bytes of a part. Where it is read is some member's place, whatever it says. That somebody has allocated the place is
//! its word, too: who reads what nobody has allocated has the kernel allocate it, no more than the member's long memory; where there is no memory left, that is
//! a SIGBUS. To allocate before reading would not help against who lies: it may take pages of the segment away again at any time, as it may end any process of its user.
//! Where this member writes for another one after an exchange that one may choose, too, but among the two members' rooms for each other.

use super::words::{read, write};
use super::{Board, Real, SLOTS, Variant};
use crate::copy;
use core::ptr::NonNull;
use tocsin_sync::atomic::{AtomicU64, Ordering};

mod passing;
mod storing;

use crate::stores::Stores;
pub use passing::{ALL_PLACES, ROOMS_PASSING};
use passing::{LARGE, LARGER, PASSING, Rooms, SMALL, Spot};
use storing::Storing;

/// Bytes of a place, for a long part and what its owner shares of the result.
pub const LONG: usize = if cfg!(loom) { 16 } else { 2 << 20 };
/// Places of a member's long memory.
pub const PLACES: usize = SLOTS;
/// Bytes of a member's long memory.
pub const LONG_MEMORY: usize = PLACES * LONG + PASSING * (SMALL + LARGE);
/// Bytes of parts after which a member of two comes back to where it has written, if that is free: by then what it overwrites has left the caches next to the cores of those who
/// have read it, from which each line would have to be taken, and is still in the one that all share. (Between two ranks of an EPYC of Zen 4, whose cores have a second cache of 1 MiB, where a member came back after 512 KiB, or
/// eight parts, and so, us: ibcast of 4 KiB 1.03 and 0.50, 16 KiB 2.6 and 1.25, 64 KiB 6.5 and 2.8, 256 KiB 20 and 7.6; `bench coll --mode alone --algorithm shm`.)
const ROUND: usize = 2 << 20;
/// Three and four members share so much; of more, each has as much as a second-level cache of today.
const ALL_ROUND: usize = 4 << 20;
const LEAST_ROUND: usize = 1 << 20;
/// The same where there is [no more memory](Board::narrow), of parts that all begin where their places do.
const NARROW_ROUND: usize = 512 << 10;
/// Longer parts have one place, if that is free: with the buffers they come from and go to they take all of the caches in any case, and the fewer different lines there are the better.
const TURNING: usize = 512 << 10;
/// In a place, parts begin at multiples of so many bytes.
const PAGE: usize = if cfg!(loom) { 8 } else { 4096 };
const _: () = assert!(LONG / PAGE <= u16::MAX as usize);
const _: () = assert!(ALL_PLACES <= u16::MAX as usize);
/// Most pieces of a result: one bit each.
pub const PIECES: u32 = 128;

/// The long memory of a board, as one member uses it.
#[derive(Debug)]
pub(super) struct Long {
    /// By member; empty where there is none.
    memory: Box<[NonNull<AtomicU64>]>,
    /// By member: where the rooms for it are, some of them in its memory. See `passing`.
    rooms: Box<[Rooms]>,
    /// By place: the number for which this member has used it last, if it has; of those that pass, if it is not done with that.
    used: [Option<u32>; ALL_PLACES],
    /// The place of either size that has passed last.
    passed: [usize; 2],
    /// Where it has posted last what comes to [several](TURNING) places, and how often that has come back to the first ones.
    last: usize,
    laps: usize,
    /// Where the next part goes, once that is known, from which page of it on, and of how many bytes that is so.
    next: Option<usize>,
    page: u16,
    page_of: usize,
    /// After so many bytes parts come back to where they were.
    round: usize,
    /// All begin where their places do.
    narrow: bool,
    /// By slot: where this member's parts are.
    posted: [Option<Spot>; SLOTS],
    /// How parts are copied in.
    storing: Storing,
}

impl Default for Long {
    fn default() -> Long {
        Long {
            memory: Box::default(),
            rooms: Box::default(),
            used: [None; ALL_PLACES],
            passed: [PLACES, LARGER],
            // The next one is the first.
            last: PLACES - 1,
            laps: usize::MAX,
            next: None,
            page: 0,
            page_of: 0,
            round: 0,
            narrow: false,
            posted: [None; SLOTS],
            storing: Storing::new(),
        }
    }
}

impl Board {
    /// The same with long memory: each member's [`LONG_MEMORY`], in the order of the areas. None where their number is another one.
    ///
    /// # Safety
    /// The memory is aligned for words, outlives the board, and only this protocol uses it. A [place](Self::next_place) of this member's is allocated before
    /// it is [filled](Self::fill).
    #[must_use]
    pub unsafe fn with_long(mut self, memory: Box<[NonNull<AtomicU64>]>) -> Board {
        if memory.len() == self.areas.len() {
            self.long.memory = memory;
            self.long.rooms = (0..self.members()).map(|_| passing::own_rooms(self.me)).collect();
            let each = ALL_ROUND.checked_div(self.members()).unwrap_or(0);
            self.long.round = each.clamp(LEAST_ROUND, ROUND);
        }
        self
    }

    /// Whether there is long memory.
    #[inline]
    pub fn has_long(&self) -> bool {
        !self.long.memory.is_empty()
    }

    /// A place of this member's, of [`ALL_PLACES`]: where it begins.
    pub fn own_place(&self, place: usize) -> Option<NonNull<u8>> {
        let memory = self.long.memory.get(self.me)?;
        NonNull::new(memory.as_ptr().cast::<u8>().wrapping_add(self.own_spot(place).range()?.0))
    }

    #[inline]
    fn own_spot(&self, place: usize) -> Spot {
        Spot { member: self.me as u32, place: u16::try_from(place).unwrap_or(u16::MAX), page: 0 }
    }

    /// Where the next part goes.
    #[inline]
    fn next_spot(&self) -> Option<Spot> {
        self.long.next.map(|place| Spot { page: self.long.page, ..self.own_spot(place) })
    }

    /// Bytes after which this member comes back to where parts of so many bytes were: those of one part, where that is long.
    fn round(&self, bytes: usize) -> usize {
        if bytes > TURNING { bytes } else { self.long.round }
    }

    /// How many places a member with parts of so many bytes uses in turn, as long as they are free.
    fn turns(&self, bytes: usize) -> usize {
        (self.round(bytes) / bytes.max(1)).clamp(1, PLACES)
    }

    /// How many of them one place has, one after the other, and the bytes from one to the next.
    fn in_a_place(&self, bytes: usize) -> (usize, usize) {
        let each = (bytes.clamp(1, LONG).wrapping_add(PAGE - 1)) & !(PAGE - 1);
        // No division that might panic in a handler.
        let many = |room: usize| room.checked_div(each).unwrap_or(0);
        let most = if self.long.narrow { 1 } else { many(LONG) };
        (many(self.round(bytes) / PLACES).min(most).max(1), each)
    }

    /// Bytes of a place that parts of so many bytes come to lie in, one after the other.
    pub fn reach(&self, bytes: usize) -> usize {
        let (many, each) = self.in_a_place(bytes);
        if bytes == 0 { 0 } else { many.wrapping_mul(each) }
    }

    /// How far into its [place](Self::next_place) the part reaches that is posted next, which has so many bytes.
    pub fn next_reach(&self, bytes: usize) -> usize {
        if bytes == 0 { 0 } else { usize::from(self.long.page).wrapping_mul(PAGE).wrapping_add(bytes) }
    }

    /// There is no memory for more: from now on this member comes back sooner, and all parts begin where their places do. But not the one whose [place](Self::next_place) is known, unless
    /// nothing is there of it yet (`next`): that has another place then.
    pub fn narrow(&mut self, next: bool) {
        (self.long.round, self.long.narrow) = (NARROW_ROUND, true);
        if next {
            self.long.next = None;
        }
    }

    /// From which page of its place on the part lies that is posted next.
    fn page(&self, bytes: usize) -> u16 {
        let (many, each) = self.in_a_place(bytes);
        let begins = self.long.laps.checked_rem(many).unwrap_or(0).wrapping_mul(each);
        (begins / PAGE) as u16
    }

    /// The place of the part that is posted next, which has so many bytes: a free one, and in turn no more memory than stays in the caches. There is
    /// [room](Self::has_room) for that part.
    #[inline]
    pub fn next_place(&mut self, bytes: usize) -> usize {
        self.next_place_as::<Real>(bytes)
    }

    /// [`next_place`](Self::next_place) with variation points.
    #[doc(hidden)]
    pub fn next_place_as<V: Variant>(&mut self, bytes: usize) -> usize {
        if let Some(place) = self.long.next.filter(|place| *place < PLACES) {
            // It may have been another part's.
            if bytes != self.long.page_of {
                (self.long.page, self.long.page_of) = (self.page(bytes), bytes);
            }
            return place;
        }
        let number = self.posted().wrapping_add(1);
        let free = |place: &usize| match self.long.used.get(*place).copied().flatten() {
            // A wrapped difference, so that numbers may wrap.
            Some(used) => {
                number.wrapping_sub(used) >= SLOTS as u32 || !V::SEE_DONE || self.all_are_done(used)
            }
            None => true,
        };
        let turns = self.turns(bytes);
        let first = self.long.last.wrapping_add(1);
        let first = if first < turns { first } else { 0 };
        // No division that might panic in a handler.
        let turn = |ahead: usize| first.wrapping_add(ahead).checked_rem(turns).unwrap_or(0);
        let few = (0..turns).map(turn);
        // There is one: the numbers that keep places are fewer.
        let place = few.chain(turns..PLACES).find(free).unwrap_or(0);
        if place <= self.long.last && bytes <= TURNING {
            self.long.laps = self.long.laps.wrapping_add(1);
        }
        (self.long.next, self.long.page, self.long.page_of) = (Some(place), self.page(bytes), bytes);
        place
    }

    /// Whether all members say that they are done with a number.
    fn all_are_done(&self, number: u32) -> bool {
        (0..self.members()).all(|member| {
            // SYNC POINT: Acquire pairs with the Release of `note_long_done`: what the member has read there it has read before.
            let done = self.area(member).map_or(0, |area| area.head.done.load(Ordering::Acquire));
            // No later than what may be posted. A word that was not written for half of all numbers says nothing, and must not look ahead of these.
            done >> 32 == self.context >> 32 && (done as u32).wrapping_sub(number) < 2 * SLOTS as u32
        })
    }

    /// Says that this member is done with a number whose parts are long, and with all before.
    #[inline]
    pub fn note_long_done(&self, number: u32) {
        if let Some(area) = self.area(self.me) {
            // SYNC POINT: as in `all_are_done`.
            area.head.done.store(self.stamp(number), Ordering::Release);
        }
    }

    /// Words of a place, if so many bytes are there from a byte on.
    #[inline]
    fn place(&self, spot: Spot, first: usize, bytes: usize) -> Option<&[AtomicU64]> {
        self.words(spot.member as usize, spot.range()?, first, bytes)
    }

    /// Words of so many bytes of a member's memory, if others are there among them, from a byte on.
    #[inline]
    fn words(
        &self,
        member: usize,
        (at, room): (usize, usize),
        first: usize,
        bytes: usize,
    ) -> Option<&[AtomicU64]> {
        let memory = self.long.memory.get(member)?;
        if first.checked_add(bytes)? > room || at.checked_add(room)? > LONG_MEMORY {
            return None;
        }
        // SAFETY: the bytes lie inside LONG_MEMORY, which is there as long as the board, by the promise to `with_long`.
        Some(unsafe { core::slice::from_raw_parts(memory.as_ptr().add(at / 8), room / 8) })
    }

    /// The same of the place of a number, which is posted, or of the room there for this member.
    #[inline]
    fn long(&self, member: usize, number: u32, first: usize, bytes: usize) -> Option<&[AtomicU64]> {
        // SYNC POINT: Relaxed: after the Acquire of the stamp.
        let spot = Spot::of_word(self.slot(member, number)?.long.place.load(Ordering::Relaxed));
        if spot.passes().is_some() {
            return self.room(self.room_of(member, number)?, member, first, bytes);
        }
        self.place(spot, first, bytes)
    }

    /// Copies bytes of the part that is posted next, which has so many in all, to its [place](Self::next_place).
    ///
    /// # Safety
    /// `from` is readable for `bytes`. Beyond the place nothing is copied.
    #[inline]
    pub unsafe fn fill(&mut self, (first, whole): (usize, usize), from: *const u8, bytes: usize) {
        let Some(spot) = self.next_spot().filter(|spot| usize::from(spot.place) < PLACES) else { return };
        if first == 0 {
            self.long.storing.begin(whole);
        }
        let begun = self.long.storing.copy_begins();
        if let Some(memory) = self.place(spot, first, bytes) {
            // SAFETY: the caller's promise; nobody reads there before the part is posted, but what is said to be there.
            unsafe { copy_in(memory, first, from, bytes, self.long.storing.stores()) };
        }
        self.long.storing.copied(begun);
    }

    /// Says that the part that is posted next, which is about this, is being filled in its [place](Self::next_place): from here on who waits for it may copy out what
    /// is [there](Self::note_filled), and nobody else writes there. There is [room](Self::has_room) for it.
    #[inline]
    pub fn begin_filling(&self, about: u64) {
        self.begin_filling_as::<Real>(about);
    }

    /// [`begin_filling`](Self::begin_filling) with variation points.
    #[doc(hidden)]
    #[inline]
    pub fn begin_filling_as<V: Variant>(&self, about: u64) {
        let number = self.posted().wrapping_add(1);
        let (Some(slot), Some(spot)) = (self.slot(self.me, number), self.next_spot()) else { return };
        // SYNC POINT: Relaxed, both of them: the Releases behind them publish them, and nobody reads them by an older stamp.
        slot.long.place.store(spot.word(), Ordering::Relaxed);
        if V::CLEAR_FILLED {
            slot.long.filled.store(0, Ordering::Relaxed);
        }
        // SYNC POINT: Release, both of them, pair with the Acquires of `filled`: what it reads next is no older. The first where the second has the same value since the numbers came round.
        slot.about.store(about, Ordering::Release);
        slot.long.filling.store(self.stamp(number), Ordering::Release);
    }

    /// Says that so many bytes of the part that is [being filled](Self::begin_filling) are there, from its first on.
    #[inline]
    pub fn note_filled(&self, bytes: usize) {
        self.note_filled_as::<Real>(bytes);
    }

    /// [`note_filled`](Self::note_filled) with variation points.
    #[doc(hidden)]
    #[inline]
    pub fn note_filled_as<V: Variant>(&self, bytes: usize) {
        if let Some(slot) = self.slot(self.me, self.posted().wrapping_add(1)) {
            // SYNC POINT: Release publishes the bytes; pairs with the Acquire of `filled`.
            slot.long.filled.store(bytes as u64, V::FILL);
        }
    }

    /// How many bytes of a member's part of a number are there, if that is about this and [being filled](Self::begin_filling), or was. This member has posted the number, and not
    /// retired it. What is said may be too much, from a member that lies: no more than a place has can be [read](Self::read_long).
    #[inline]
    pub fn filled(&self, member: usize, number: u32, about: u64) -> usize {
        let Some(slot) = self.slot(member, number) else { return 0 };
        // SYNC POINT: Acquire, all of them: the first two pair with the Releases of `begin_filling`, the third with that of `note_filled`.
        if slot.long.filling.load(Ordering::Acquire) != self.stamp(number)
            || slot.about.load(Ordering::Acquire) != about
        {
            return 0;
        }
        usize::try_from(slot.long.filled.load(Ordering::Acquire)).unwrap_or(0)
    }

    /// Posts a part that was [filled in](Self::fill), as [`post`](Self::post).
    #[inline]
    pub fn post_long(&mut self, about: u64) -> u32 {
        self.post_long_as::<Real>(about)
    }

    /// The same, with bytes in its slot, too, at most [`ROOM`](super::ROOM), which are [read](Self::read) there.
    #[inline]
    pub fn post_long_and(&mut self, about: u64, in_slot: &[u8]) -> u32 {
        self.post_both::<Real>(about, in_slot)
    }

    /// [`post_long`](Self::post_long) with variation points.
    #[doc(hidden)]
    #[inline]
    pub fn post_long_as<V: Variant>(&mut self, about: u64) -> u32 {
        self.post_both::<V>(about, &[])
    }

    #[inline]
    fn post_both<V: Variant>(&mut self, about: u64, in_slot: &[u8]) -> u32 {
        self.long.storing.end();
        let number = self.posted().wrapping_add(1);
        let place = self.long.next.unwrap_or_else(|| self.next_place_as::<V>(LONG));
        let spot = self.next_spot().unwrap_or(self.own_spot(place));
        if let Some(used) = self.long.used.get_mut(place) {
            *used = Some(number);
        }
        self.long.next = None;
        if place < PLACES && self.long.page_of <= TURNING {
            self.long.last = place;
        }
        if let Some(posted) = self.long.posted.get_mut(number as usize % SLOTS) {
            *posted = Some(spot);
        }
        if let Some(slot) = self.slot(self.me, number) {
            // SYNC POINT: Relaxed, all of them: the stamp's Release is behind it, and nobody reads them by an older stamp.
            slot.long.place.store(spot.word(), Ordering::Relaxed);
            self.say_rooms(slot, place);
            if V::CLEAR_SHARED {
                slot.long.shared.iter().for_each(|word| word.store(0, Ordering::Relaxed));
                slot.long.begun.store(0, Ordering::Relaxed);
            }
        }
        // SAFETY: so many bytes are readable.
        unsafe { self.post_as::<V>(about, in_slot.as_ptr(), in_slot.len()) }
    }

    /// Copies bytes of a member's long part, which is [here](super::Part::Here), or of a piece that it [shares](Self::shared).
    ///
    /// # Safety
    /// `to` is writable for `bytes`. Beyond the place nothing is copied.
    #[inline]
    pub unsafe fn read_long(&self, member: usize, number: u32, first: usize, to: *mut u8, bytes: usize) {
        if let Some(memory) = self.long(member, number, first, bytes) {
            // SAFETY: the caller's promise.
            unsafe { copy_out(memory, first, to, bytes, None) };
        }
    }

    /// [`read_long`](Self::read_long) of a part of `whole` bytes that its member may be writing the rest of.
    ///
    /// # Safety
    /// As [`read_long`](Self::read_long).
    #[inline]
    pub unsafe fn follow_long(
        &self,
        (member, number): (usize, u32),
        first: usize,
        to: *mut u8,
        bytes: usize,
        whole: usize,
    ) {
        if let Some(memory) = self.long(member, number, first, bytes) {
            // SAFETY: the caller's promise.
            unsafe { copy_out(memory, first, to, bytes, Some(whole)) };
        }
    }

    /// Where that stands, for who combines it. A member that lies may change it meanwhile.
    #[inline]
    pub fn long_part(&self, member: usize, number: u32, first: usize, bytes: usize) -> Option<*const u8> {
        let memory = self.long(member, number, first, bytes)?;
        Some(memory.as_ptr().cast::<u8>().wrapping_add(first))
    }

    /// The pieces of a number's result that a member shares, a bit for each. Its part is [here](super::Part::Here).
    #[inline]
    pub fn shared(&self, member: usize, number: u32) -> u128 {
        let Some(slot) = self.slot(member, number) else { return 0 };
        // SYNC POINT: Acquire, both of them, pairs with the Release of `share`: the piece.
        let [low, high] = slot.long.shared.each_ref().map(|word| word.load(Ordering::Acquire));
        u128::from(high) << 64 | u128::from(low)
    }

    /// The piece that a member makes, as far as is known.
    #[inline]
    pub fn begun_by(&self, member: usize, number: u32) -> Option<u32> {
        // SYNC POINT: Relaxed: a hint, by which nothing is read.
        let begun = self.slot(member, number)?.long.begun.load(Ordering::Relaxed);
        u32::try_from(begun).ok()?.checked_sub(1)
    }

    /// Says that this member makes a piece of a number's result, which it has posted.
    #[inline]
    pub fn begin_piece(&self, number: u32, piece: u32) {
        if let Some(slot) = self.slot(self.me, number) {
            // SYNC POINT: as in `begun_by`.
            slot.long.begun.store(u64::from(piece).wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Shares a piece of a number's result: `bytes` that stand from `first` on behind this member's part, by the stores by which it has copied in its last one.
    ///
    /// # Safety
    /// `from` is readable for `bytes`. What does not end within [`LONG`] is not shared.
    #[inline]
    pub unsafe fn share(&self, number: u32, piece: u32, first: usize, from: *const u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.share_as::<Real>(number, piece, first, from, bytes) }
    }

    /// [`share`](Self::share) with variation points.
    ///
    /// # Safety
    /// As `share`.
    #[doc(hidden)]
    #[inline]
    pub unsafe fn share_as<V: Variant>(
        &self,
        number: u32,
        piece: u32,
        first: usize,
        from: *const u8,
        bytes: usize,
    ) {
        // By what this member knows: others might write to its slot.
        let spot = self.long.posted.get(number as usize % SLOTS).copied().flatten();
        let spot = spot.filter(|spot| spot.passes().is_none());
        let memory = spot.and_then(|spot| self.place(spot, first, bytes));
        let (Some(memory), Some(slot)) = (memory, self.slot(self.me, number)) else { return };
        // SAFETY: the caller's promise; nobody reads there before the bit is set, and nobody else sets it.
        unsafe { copy_in(memory, first, from, bytes, self.long.storing.stores()) };
        // SYNC POINT: Release publishes the piece; pairs with the Acquire of `shared`. Only this member writes the word.
        let Some(word) = slot.long.shared.get((piece % PIECES / 64) as usize) else { return };
        word.store(word.load(Ordering::Relaxed) | 1 << (piece % 64), V::SHARE);
    }
}

/// # Safety
/// `from` is readable for `bytes`, and the memory has them from `first` on; nobody else uses those.
#[inline]
unsafe fn copy_in(memory: &[AtomicU64], first: usize, from: *const u8, bytes: usize, stores: Stores) {
    if cfg!(loom) {
        // As words, which the model sees; whole ones.
        // SAFETY: the caller's promise.
        return unsafe { write(memory.get(first / 8..).unwrap_or_default(), from, bytes) };
    }
    let to = memory.as_ptr().cast::<u8>().cast_mut();
    // SAFETY: - the caller's promise; words are interior mutable
    //         - a member of another process that lies may write there meanwhile: what is read then may be anything, and is only bytes.
    unsafe { stores.copy(from, to.add(first), bytes) }
}

/// `followed`: the length of what is being written there.
///
/// # Safety
/// `to` is writable for `bytes`, and the memory has them from `first` on.
#[inline]
unsafe fn copy_out(memory: &[AtomicU64], first: usize, to: *mut u8, bytes: usize, followed: Option<usize>) {
    if cfg!(loom) {
        // SAFETY: the caller's promise.
        return unsafe { read(memory, first, to, bytes) };
    }
    let from = memory.as_ptr().cast::<u8>();
    // SAFETY: as in `copy_in`: who posted or shared it, or said that it is there, writes there no more until all are done with it.
    unsafe {
        match followed {
            Some(whole) => copy::follow(from.add(first), to, bytes, whole),
            None => copy::copy(from.add(first), to, bytes),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::Part;
    use super::super::tests::Memory;
    use super::*;

    /// What is there of a part is told to who asks for that very part, and means nothing but what fits into the place.
    #[test]
    fn what_is_there_is_told_of_that_part_alone() {
        let memory = Memory::new(2);
        let (mut one, mut two) = (memory.board(0, 7), memory.board(1, 7));
        let mut words: Vec<Vec<u64>> = vec![vec![0; LONG_MEMORY / 8]; 2];
        let long: Vec<_> = words.iter_mut().map(|w| NonNull::new(w.as_mut_ptr().cast()).unwrap()).collect();
        // SAFETY: the words outlive the boards, and nobody else uses them.
        (one, two) = unsafe { (one.with_long(long.clone().into()), two.with_long(long.into())) };
        let bytes: Vec<u8> = (0..1000).map(|i| i as u8 | 1).collect();
        let mut got = vec![0u8; LONG + 1];
        for number in 1..=4 {
            // SAFETY: no bytes.
            assert_eq!(unsafe { two.post(7, std::ptr::null(), 0) }, number);
            one.next_place(1000);
            assert_eq!(two.filled(0, number, 7), 0, "it is not begun");
            one.begin_filling(7);
            assert_eq!(two.filled(0, number, 7), 0);
            // SAFETY: the bytes are readable.
            unsafe { one.fill((0, 1000), bytes.as_ptr(), 600) };
            one.note_filled(600);
            assert_eq!((two.filled(0, number, 7), two.part(0, number)), (600, Part::Missing));
            assert_eq!((two.filled(0, number, 8), two.filled(0, number + 1, 7)), (0, 0));
            // SAFETY: as many are writable.
            unsafe { two.read_long(0, number, 0, got.as_mut_ptr(), 600) };
            assert_eq!(got[..600], bytes[..600]);
            // What a member that lies says.
            one.note_filled(usize::MAX);
            let told = two.filled(0, number, 7).min(LONG + 1);
            // SAFETY: as above.
            unsafe { two.read_long(0, number, 1, got.as_mut_ptr(), told) };
            assert_eq!(got[..600], bytes[..600], "there is no such place");
            one.post_long(7);
            assert_eq!(two.part(0, number), Part::Here { about: 7 });
            one.note_long_done(number);
            two.note_long_done(number);
        }
    }

    #[test]
    fn long_parts_and_pieces_are_read_as_they_were_written() {
        let memory = Memory::new(2);
        let (mut one, mut two) = (memory.board(0, 7), memory.board(1, 7));
        assert!(!one.has_long());
        let mut words: Vec<Vec<u64>> = vec![vec![0; LONG_MEMORY / 8]; 2];
        let long: Vec<NonNull<AtomicU64>> =
            words.iter_mut().map(|words| NonNull::from(&mut words[0]).cast()).collect();
        let with_long = |board: Board| {
            // SAFETY: the words are kept, and used by the boards alone until they are dropped.
            unsafe { board.with_long(long.clone().into()) }
        };
        (one, two) = (with_long(one), with_long(two));
        assert!(one.has_long() && one.own_place(0) == Some(long[0].cast()));
        assert_eq!(one.own_place(ALL_PLACES), None);
        let bytes: Vec<u8> = (0..LONG).map(|i| (i * 7 + i / 256) as u8).collect();
        for number in 1..=2 * SLOTS as u32 {
            let half = LONG / 2 + number as usize;
            // Nobody says that he is done: the places come round as slots do.
            assert_eq!(one.next_place(1), (number as usize - 1) % PLACES);
            // SAFETY: slices.
            unsafe {
                one.fill((100, half), bytes[100..half].as_ptr(), half - 100);
                one.fill((0, half), bytes.as_ptr(), 100);
            }
            assert_eq!(two.part(0, number), Part::Missing);
            assert_eq!((one.post_long(3), two.post_long(3)), (number, number));
            assert_eq!(two.part(0, number), Part::Here { about: 3 });
            assert_eq!((two.shared(0, number), two.begun_by(0, number)), (0, None), "of an older number");
            let mut got = vec![0u8; half];
            // SAFETY: a slice.
            unsafe { two.read_long(0, number, 0, got.as_mut_ptr(), half) };
            assert!(got == bytes[..half]);
            one.begin_piece(number, 70);
            // SAFETY: a slice.
            unsafe { one.share(number, 70, half, bytes[half..].as_ptr(), 50) };
            assert_eq!((two.shared(0, number), two.begun_by(0, number)), (1 << 70, Some(70)));
            // SAFETY: a slice.
            unsafe { two.read_long(0, number, half, got.as_mut_ptr(), 50) };
            assert!(got[..50] == bytes[half..half + 50]);
            // SAFETY: the words are kept.
            assert_eq!(unsafe { two.long_part(0, number, half, 1).unwrap().read() }, bytes[half]);
            // What is not there is neither written nor read.
            // SAFETY: slices.
            unsafe {
                one.share(number, 1, LONG - 1, bytes.as_ptr(), 2);
                two.read_long(0, number, usize::MAX, got.as_mut_ptr(), 2);
            }
            assert_eq!(two.shared(0, number), 1 << 70);
            assert!(two.long_part(0, number, LONG, 1).is_none());
            for board in [&mut one, &mut two] {
                assert!(board.has_room(number));
            }
        }
    }

    /// Boards with long memory, which is to be kept.
    pub(super) fn with_long(memory: &Memory, words: &mut Vec<Vec<u64>>, members: usize) -> Vec<Board> {
        words.extend((0..members).map(|_| vec![0u64; LONG_MEMORY / 8]));
        let long: Vec<NonNull<AtomicU64>> =
            words.iter_mut().map(|words| NonNull::from(&mut words[0]).cast()).collect();
        // SAFETY: the words are kept, and used by the boards alone until they are dropped.
        (0..members as u32).map(|me| unsafe { memory.board(me, 7).with_long(long.clone().into()) }).collect()
    }

    /// Where the part lies that this board posts next.
    #[allow(clippy::unwrap_used)] // clippy exempts test functions only
    fn at(board: &mut Board, bytes: usize) -> usize {
        let place = board.next_place(bytes);
        let spot = board.next_spot().unwrap();
        assert_eq!((spot.place as usize, spot.member as usize), (place, board.me()));
        let (at, room) = spot.range().unwrap();
        let within = at - place * LONG;
        assert!(within + bytes <= board.reach(bytes) && board.reach(bytes) <= LONG, "{bytes}: {within}");
        assert!(bytes <= room && within + room == LONG && at.is_multiple_of(PAGE));
        at
    }

    #[test]
    fn a_member_comes_back_to_what_has_left_the_caches() {
        for (members, round) in [(2, ROUND), (3, ALL_ROUND / 3), (4, LEAST_ROUND), (8, LEAST_ROUND)] {
            let (memory, mut words) = (Memory::new(members), Vec::new());
            let mut boards = with_long(&memory, &mut words, members);
            for bytes in [3 << 10, 4 << 10, 40_000, 64 << 10, 192 << 10, TURNING, TURNING + 1, LONG] {
                let mut before = std::collections::VecDeque::new();
                for _ in 0..1200 {
                    let places: Vec<usize> = boards.iter_mut().map(|board| at(board, bytes)).collect();
                    assert!(places.iter().all(|place| *place == places[0]), "in step");
                    let number = boards.iter_mut().fold(0, |_, board| board.post_long(0));
                    for board in &mut boards {
                        assert!(board.has_room(number));
                        board.note_long_done(number);
                    }
                    before.push_front(places[0]);
                }
                // The first are where those of another length have left it.
                let last = before[0];
                let after = before.iter().skip(1).position(|place| *place == last).unwrap() + 1;
                let (each, took) = (bytes.next_multiple_of(PAGE), after * bytes.next_multiple_of(PAGE));
                match bytes {
                    ..=TURNING => assert!(
                        took <= round && took + PLACES * each > round,
                        "{members} members, {bytes} bytes: after {took}"
                    ),
                    _ => assert_eq!(after, 1),
                }
            }
        }
    }

    /// A part that was not posted leaves its place to another one, which may be longer.
    #[test]
    fn what_was_not_posted_leaves_its_place_to_what_is() {
        let (memory, mut words) = (Memory::new(2), Vec::new());
        let mut boards = with_long(&memory, &mut words, 2);
        let lengths = [4 << 10, LONG, 64 << 10, 300_000, 1, 5000, TURNING];
        for turn in 0..500 {
            let bytes = |at: usize| lengths[(turn * 7 + at) % lengths.len()];
            for board in &mut boards {
                let at = (0..turn % 4).map(|other| at(board, bytes(other)) / LONG).max();
                let posted = self::at(board, bytes(4)) / LONG;
                assert!(at.is_none_or(|at| at == posted));
            }
            let number = boards.iter_mut().fold(0, |_, board| board.post_long(0));
            for board in &mut boards {
                assert!(board.has_room(number));
                board.note_long_done(number);
            }
        }
    }

    #[test]
    fn a_member_without_memory_comes_back_sooner() {
        let (memory, mut words) = (Memory::new(2), Vec::new());
        let mut boards = with_long(&memory, &mut words, 2);
        let bytes = 128 << 10;
        let step = |boards: &mut Vec<Board>, begins: usize| {
            let number = boards.iter_mut().fold(0, |_, board| {
                let at = at(board, bytes);
                assert_eq!(at, begins);
                board.post_long(0)
            });
            for board in boards {
                assert!(board.has_room(number));
                board.note_long_done(number);
            }
        };
        let begins = |turn: usize| turn % PLACES * LONG + turn / PLACES % 2 * bytes;
        (0..17).for_each(|turn| step(&mut boards, begins(turn)));
        // What is known of a part, and may be there already, stays so.
        for board in &mut boards {
            assert_eq!(at(board, bytes), LONG);
            board.narrow(false);
            let spot = board.next_spot();
            assert_eq!((board.next_place(bytes), board.next_spot()), (1, spot));
        }
        (1..12).for_each(|turn| step(&mut boards, turn % 4 * LONG));
        // On the second way round.
        let (memory, mut words) = (Memory::new(2), Vec::new());
        let mut boards = with_long(&memory, &mut words, 2);
        (0..8).for_each(|turn| step(&mut boards, begins(turn)));
        for board in &mut boards {
            assert_eq!((at(board, bytes), board.next_reach(bytes)), (bytes, 2 * bytes));
            board.narrow(false);
            assert_eq!(
                (board.next_place(bytes), board.next_reach(bytes)),
                (0, 2 * bytes),
                "it may be there already"
            );
            board.narrow(true);
            assert_eq!((board.next_place(bytes), board.next_reach(bytes)), (0, bytes));
        }
    }

    /// A part is read where its owner says, and nowhere else than in one of its places.
    #[test]
    fn a_part_is_read_from_its_page_on() {
        let (memory, mut words) = (Memory::new(2), Vec::new());
        let mut boards = with_long(&memory, &mut words, 2);
        let bytes = 5000;
        for number in 1..=200u32 {
            let part: Vec<u8> = (0..bytes).map(|i| (i as u32 * 3 + number) as u8).collect();
            let [one, two] = &mut boards[..] else { unreachable!() };
            at(one, bytes);
            // SAFETY: a slice.
            unsafe { one.fill((0, bytes), part.as_ptr(), bytes) };
            assert_eq!((one.post_long(0), two.post_long(0)), (number, number));
            let mut got = vec![0u8; bytes];
            // SAFETY: a slice.
            unsafe { two.read_long(0, number, 0, got.as_mut_ptr(), bytes) };
            assert!(got == part);
            // What lies.
            let slot = one.slot(0, number).unwrap();
            for (page, place) in [(LONG / PAGE, 0), (LONG / PAGE - 1, 0), (1, PLACES), (u16::MAX as usize, 7)]
            {
                let word = Spot { member: 0, place: place as u16, page: page as u16 }.word();
                slot.long.place.store(word, Ordering::Relaxed);
                assert!(two.long_part(0, number, 0, bytes).is_none(), "{page} of {place}");
            }
            for board in &mut boards {
                assert!(board.has_room(number));
                board.note_long_done(number);
            }
        }
    }

    #[test]
    fn a_place_with_which_all_are_done_is_used_again() {
        let (memory, mut words) = (Memory::new(2), Vec::new());
        let mut boards = with_long(&memory, &mut words, 2);
        let (mut two, mut one) = (boards.remove(1), boards.remove(0));
        let mut step = |bytes: usize, done: [bool; 2], place: usize| {
            assert_eq!(one.next_place(bytes), place);
            let number = one.post_long(0);
            assert_eq!(two.post_long(0), number);
            assert!(one.has_room(number) && two.has_room(number));
            for (board, _) in [&one, &two].into_iter().zip(done).filter(|(_, done)| *done) {
                board.note_long_done(number);
            }
        };
        let (whole, some) = (LONG, TURNING);
        step(whole, [true, true], 0);
        step(whole, [true, true], 0);
        step(whole, [false, true], 0);
        step(whole, [true, false], 1);
        // Who is done with that one is done with what was before.
        step(whole, [true, true], 0);
        step(whole, [false, false], 0);
        // Nobody says that he is done: one after the other, as slots.
        for place in [1, 2, 3, 4, 5, 6, 7, 0, 1] {
            step(whole, [false, false], place);
        }
        step(whole, [true, true], 2);
        for place in [0, 1, 2, 3, 0] {
            step(some, [true, true], place);
        }
        for place in [1, 2, 3, 4, 5, 6, 7, 0] {
            step(1, [true, true], place);
        }
        // Nor does one of so long ago that it seems to be ahead.
        let (mut one, mut two) = (memory.board(0, 9), memory.board(1, 9));
        one.post_long(0);
        two.post_long(0);
        one.note_long_done(1);
        two.note_long_done(1);
        for board in [&mut one, &mut two] {
            (board.posted, board.retired) = (i32::MAX as u32 + 5, i32::MAX as u32 + 5);
        }
        let place = one.next_place(LONG);
        let number = one.post_long(0);
        one.note_long_done(number);
        assert_ne!(one.next_place(LONG), place, "the other one has yet to read what stands there");
        // A word of another board's context says nothing.
        let (mut one, mut two) = (memory.board(0, 8), memory.board(1, 8));
        one.post_long(0);
        two.post_long(0);
        assert_eq!(one.next_place(LONG), 1);
    }
}
