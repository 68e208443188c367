//! A board: memory in which all ranks of a communicator say what they have to say to each other, and read what the
//! others say.
//!
//! Each member owns an [`Area`] and alone writes there, but for one word; all read. What is done on a board is numbered from 1, the same on
//! all members: for each number a member *posts its part*, what it contributes, into one of the few slots of its area.
//! Who has read all the parts that it needs is done with that number. There are no messages, no acknowledgements and no
//! turns: where all others have posted before, a number takes one reading of each other area.
//!
//! # When a slot may be written again
//! A member *retires* numbers one after the other: those that it is done with and for which it has seen the parts of all
//! members. It posts no number more than [`OUTSTANDING`] beyond what it has retired, and has [`SLOTS`] slots, twice that.
//! Let member m post n + SLOTS into the slot of n. Then m has retired n + OUTSTANDING, hence has seen that each member q has
//! posted it. To post that, q had retired n, hence was done with it: nobody reads what m overwrites.
//!
//! For the same reason nobody who looks for the part of a number that he has not retired finds a later one in its place:
//! who shows him one lies.
//!
//! # No lost wake-up
//! Who has posted and waits for parts says so in his slot, fences, and looks once more. Who posts fences, looks at
//! the others' parts, and if he finds that his was the last one that somebody needed, rings those who say that they wait. Of
//! two members' fences one is the later: that member sees what the other did before his. So either the poster sees the
//! waiting, or the waiter the part; and where the last two parts come at the same time, one of the posters sees both. Who
//! cannot post, because some part of an older number is missing, says that he is [stuck](Board::be_stuck), likewise.
//!
//! # Who gives up
//! A member that finds that the members disagree about a number posts no more: its numbers would no longer be the others'. Nor does one
//! that is refused the memory for what it was to begin, or whose user operator panics in what goes without the board, or that hears of one; it [says that](Board::say_why) first.
//! It [says so](Board::give_up) in all its slots, beside the stamps that who waits for it looks at, after all that it has
//! posted; whoever then lacks a part of it sees that this [never](Part::Never) comes. What it begins no more at all it [says](Board::refuse) for those
//! who wait for it without the board.
//!
//! # Long parts
//! What is longer than a slot lies in memory of its own, and is posted and read by the same stamps: `long`.
//!
//! # What goes without the board
//! Not every collective of a communicator is done on its board, and members that go by something else than what their program
//! says may disagree about that, too. Who begins one [without it](Board::go_elsewhere) says so in his area; `elsewhere` has the argument why
//! one of the two then sees the other.
//!
//! # Hostile members
//! All that is read is read once, as words, and means nothing but what is checked: a stamp is the expected one or it is not,
//! and what a part is about is compared with what it has to be about. The bytes of a part are the user's, and may be
//! anything. Nothing that is read here is an address or an index; where a long part lies, and how much of it is there, is taken for no more than a member's places have.

mod elsewhere;
mod long;
mod tenancy;
mod words;

use core::ptr::NonNull;
pub use elsewhere::Why;
use long::Long;
pub use long::{ALL_PLACES, LONG, LONG_MEMORY, PIECES, PLACES, ROOMS_PASSING};
use tocsin_sync::atomic::{AtomicU64, Ordering, fence, fence_after_rmw};
use words::{read, write};

/// Most members of a board.
pub const MEMBERS: usize = 64;
/// Most bytes of a part.
pub const ROOM: usize = if cfg!(loom) { 8 } else { 2048 };
/// How far a member may post beyond what it has retired.
pub const OUTSTANDING: u32 = if cfg!(loom) { 1 } else { 4 };
/// How many posts before it is written a slot's first line is fetched from those who have read it.
const AHEAD: u32 = 2;
/// The lines of so many members are asked for by a post at most: what a core can wait for at a time.
const FETCHED: usize = 8;
/// Slots of an area.
pub const SLOTS: usize = 2 * OUTSTANDING as usize;

/// The protocol's variation points. [`Real`] is what ships; the others exist in tests, to be caught.
#[doc(hidden)]
pub trait Variant {
    /// What publishes a part.
    const POST: Ordering = Ordering::Release;
    /// The poster's fence between its part and its look at the others.
    const FENCE_AFTER_POST: bool = true;
    /// The waiter's fence between "I wait" and its last look.
    const FENCE_BEFORE_LOOK: bool = true;
    /// Numbers count as retired only when all members have posted them.
    const SEE_ALL: bool = true;
    /// What says that no more is posted.
    const GIVE_UP: Ordering = Ordering::Release;
    /// An area is written for another communicator only when all members of its last have left.
    const SEE_LEFT: bool = true;
    /// Who has yet to come is not taken for one that has left.
    const SEE_BEFORE: bool = true;
    /// Who has begun something without the board fences before it looks at the others' parts.
    const FENCE_ELSEWHERE: bool = true;
    /// What publishes a piece of a result: see `long`.
    const SHARE: Ordering = Ordering::Release;
    /// A place of long memory is free before its slot is only when all members say that they are done.
    const SEE_DONE: bool = true;
    /// A part is posted without the pieces of an older one.
    const CLEAR_SHARED: bool = true;
    /// What publishes the bytes of a part that is being filled: see `long`.
    const FILL: Ordering = Ordering::Release;
    /// A part is begun without the bytes of an older one.
    const CLEAR_FILLED: bool = true;
    /// A place that its owner has used goes to who has read there: see `long`.
    const PASSES: bool = true;
}

/// What ships.
#[doc(hidden)]
#[derive(Debug)]
pub struct Real;
impl Variant for Real {}

/// One part: its head and its first 40 bytes on one cache line.
#[repr(C, align(128))]
#[derive(Debug)]
struct Slot {
    /// Context and number of the part that is here.
    stamp: AtomicU64,
    /// What its poster says that it is about.
    about: AtomicU64,
    /// The stamp once more while its poster waits for others' parts, and is to be rung for them; or that he has given up.
    waits: AtomicU64,
    data: [AtomicU64; ROOM / 8],
    long: OfLong,
}

/// What is said of a long part, on a line of its own. See `long`.
#[repr(C, align(64))]
#[derive(Debug)]
struct OfLong {
    /// While it is being filled: its stamp, and how many bytes are there.
    filling: AtomicU64,
    filled: AtomicU64,
    /// Where it lies.
    place: AtomicU64,
    /// The pieces of the result that its poster shares, and the one that it makes, plus one.
    shared: [AtomicU64; 2],
    begun: AtomicU64,
}

#[cfg(not(loom))]
const _: () = assert!(core::mem::offset_of!(Slot, data) + 40 == 64);

/// What is seldom written.
#[repr(C, align(128))]
#[derive(Debug)]
struct Head {
    /// The stamp that some member lacks and without which the owner cannot post.
    stuck: AtomicU64,
    /// The last context that the owner has left here: see `tenancy`.
    left: AtomicU64,
    /// Context and sequence number of what the owner has last begun without the board: see `elsewhere`.
    elsewhere: AtomicU64,
    /// The context, when a member wants the owner to look. The one word here that others write.
    asked: AtomicU64,
    /// Context and sequence number of the first collective that the owner does not begin any more: see `elsewhere`.
    refuses: AtomicU64,
    /// Context, and for which member's sake, and why, the owner has given up: see `elsewhere`.
    why: AtomicU64,
    /// Context and number of the last long parts with which the owner is done: see `long`.
    done: AtomicU64,
}

/// What one member writes. In shared memory; all bytes zero is its beginning. It may be left over from another board,
/// whose context is another.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Area {
    head: Head,
    slots: [Slot; SLOTS],
}

impl Default for Area {
    fn default() -> Area {
        Area::new()
    }
}

impl Area {
    /// Nothing was ever posted.
    pub fn new() -> Area {
        let word = || AtomicU64::new(0);
        Area {
            head: Head {
                stuck: word(),
                left: word(),
                elsewhere: word(),
                asked: word(),
                refuses: word(),
                why: word(),
                done: word(),
            },
            slots: core::array::from_fn(|_| Slot {
                stamp: word(),
                about: word(),
                waits: word(),
                data: core::array::from_fn(|_| word()),
                long: OfLong {
                    filling: word(),
                    filled: word(),
                    place: word(),
                    shared: [word(), word()],
                    begun: word(),
                },
            }),
        }
    }
}

/// What there is of a member's part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Nothing yet.
    Missing,
    /// All of it.
    Here {
        /// What it is about.
        about: u64,
    },
    /// Nothing, for good: the member has given up before it posted it.
    Never,
    /// A part that cannot be here: the member does not keep to the protocol.
    Corrupt,
}

/// A board as one of its members uses it, under its engine's token. All methods but [`new`](Self::new) are handler-safe
/// and wait-free: bounded by the number of members, or by the bytes of a part.
#[derive(Debug)]
pub struct Board {
    areas: Box<[NonNull<Area>]>,
    me: usize,
    context: u64,
    posted: u32,
    retired: u32,
    /// So many members have been seen to have posted the number after `retired`.
    seen: usize,
    /// This member posts no more.
    gave_up: bool,
    /// By member: what it had left when this board began. See `tenancy`.
    before: Box<[u64]>,
    long: Long,
}

// SAFETY: the areas are made of atomics, in memory that outlives the board by the promise to `new`.
unsafe impl Send for Board {}
// SAFETY: as above; shared use only reads.
unsafe impl Sync for Board {}

impl Board {
    /// The board of the members whose areas these are, as number `me` of them uses it. `None` for fewer than two members,
    /// more than [`MEMBERS`], a member that is none of them, or a context of more than 31 bits. User threads only: allocates.
    ///
    /// # Safety
    /// The areas outlive the board. This is the only board of this rank with its area, and
    /// [all have left](Self::all_have_left) the one before; the same context was never before used with any of these
    /// areas, by members that are among these. That the members have this board was agreed after each had seen that.
    pub unsafe fn new(areas: Box<[NonNull<Area>]>, me: u32, context: u32) -> Option<Board> {
        let me = me as usize;
        let fits = (2..=MEMBERS).contains(&areas.len()) && me < areas.len();
        if !fits || context == 0 || context >> 31 != 0 {
            return None;
        }
        let context = u64::from(context) << 32;
        let (before, long) = (Box::default(), Long::default());
        let board =
            Board { areas, me, context, posted: 0, retired: 0, seen: 0, gave_up: false, before, long };
        let before = board.all_left();
        Some(Board { before, ..board })
    }

    /// Whether it is the board of the communicator of a context, whichever half of it. Handler-safe.
    #[inline]
    pub fn is_of(&self, context: u32) -> bool {
        (self.context >> 32) as u32 == context & !(1 << 31)
    }

    /// How many members there are.
    #[inline]
    pub fn members(&self) -> usize {
        self.areas.len()
    }

    /// This member.
    #[inline]
    pub fn me(&self) -> usize {
        self.me
    }

    /// The last number that was posted; 0 if none was.
    #[inline]
    pub fn posted(&self) -> u32 {
        self.posted
    }

    #[inline]
    fn stamp(&self, number: u32) -> u64 {
        self.context | u64::from(number)
    }

    #[inline]
    fn area(&self, member: usize) -> Option<&Area> {
        // SAFETY: the area is there as long as the board, by the promise to `new`; it is made of atomics.
        self.areas.get(member).map(|area| unsafe { area.as_ref() })
    }

    #[inline]
    fn slot(&self, member: usize, number: u32) -> Option<&Slot> {
        self.area(member)?.slots.get(number as usize % SLOTS)
    }

    /// Whether the next number may be posted, where this member is done with all up to `done`. Retires what can be.
    #[inline]
    pub fn has_room(&mut self, done: u32) -> bool {
        self.has_room_as::<Real>(done)
    }

    /// [`has_room`](Self::has_room) with variation points.
    #[doc(hidden)]
    #[inline]
    pub fn has_room_as<V: Variant>(&mut self, done: u32) -> bool {
        // A wrapped difference, so that numbers may wrap.
        while self.posted.wrapping_sub(self.retired) >= OUTSTANDING {
            let next = self.retired.wrapping_add(1);
            if done.wrapping_sub(next) as i32 >= 0 && (!V::SEE_ALL || self.see_all(next)) {
                self.retired = next;
                self.seen = 0;
            } else {
                return false;
            }
        }
        true
    }

    /// As [`has_room`](Self::has_room), but changes nothing.
    #[inline]
    pub fn would_have_room(&self, done: u32) -> bool {
        let lacks = self.posted.wrapping_sub(self.retired).wrapping_sub(OUTSTANDING - 1) as i32;
        let next = |ahead: u32| self.retired.wrapping_add(ahead);
        lacks <= 0
            || (1..=lacks as u32).all(|ahead| {
                let is_here = |member| self.part(member, next(ahead)) != Part::Missing;
                done.wrapping_sub(next(ahead)) as i32 >= 0 && (0..self.members()).all(is_here)
            })
    }

    fn see_all(&mut self, number: u32) -> bool {
        while self.seen < self.members() {
            // A part that cannot be here keeps this member from posting, as one that is missing does, until it is read.
            if !matches!(self.part(self.seen, number), Part::Here { .. }) {
                return false;
            }
            self.seen = self.seen.wrapping_add(1);
        }
        true
    }

    /// This member is done with a number of which it has seen the parts of all: what [`has_room`](Self::has_room) would
    /// find out by looking.
    #[inline]
    pub fn note_done_with_all(&mut self, number: u32) {
        if self.retired.wrapping_add(1) == number {
            self.retired = number;
            self.seen = 0;
        }
    }

    /// Posts this member's part of the next number, and fences: looks that follow see the parts of all who posted, or said
    /// that they wait, before. The number, which is also [`posted`](Self::posted) from then on. There is
    /// [room](Self::has_room).
    ///
    /// # Safety
    /// `from` is readable for `bytes`, if those are not 0. More than [`ROOM`] are cut.
    #[inline]
    pub unsafe fn post(&mut self, about: u64, from: *const u8, bytes: usize) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { self.post_as::<Real>(about, from, bytes) }
    }

    /// [`post`](Self::post) with variation points.
    ///
    /// # Safety
    /// As `post`.
    #[doc(hidden)]
    #[inline]
    pub unsafe fn post_as<V: Variant>(&mut self, about: u64, from: *const u8, bytes: usize) -> u32 {
        let number = self.posted.wrapping_add(1);
        self.posted = number;
        // Nobody looks there yet, so that it is still this core's when it is written.
        if let Some(later) = self.slot(self.me, number.wrapping_add(AHEAD)) {
            tocsin_sync::prefetch_for_write(&raw const later.stamp);
        }
        self.fetch_others(number);
        if let Some(slot) = self.slot(self.me, number) {
            // SAFETY: the caller's promise.
            unsafe { write(&slot.data, from, bytes) };
            slot.about.store(about, Ordering::Relaxed);
            // SYNC POINT: Release publishes the part; pairs with the Acquire of `part`. That the slot may be written at all
            // comes from the Acquire there, too: `has_room` has seen what the readers posted after they had read it.
            if V::FENCE_AFTER_POST {
                slot.stamp.swap(self.stamp(number), V::POST);
                // SYNC POINT: post, fence, look at the others; they say that they wait, fence, look at this.
                fence_after_rmw();
            } else {
                slot.stamp.store(self.stamp(number), V::POST);
            }
        }
        number
    }

    /// Asks for the lines of others that are about to be read, so that they come while the fence of a post waits for its own; and for those by which the next
    /// post has to find out that it has room.
    #[inline]
    fn fetch_others(&self, number: u32) {
        let retires = number.wrapping_sub(self.retired) >= OUTSTANDING;
        for member in 0..self.members().min(FETCHED) {
            if member == self.me {
                continue;
            }
            if let Some(slot) = self.slot(member, number) {
                tocsin_sync::prefetch_for_read(&raw const slot.stamp);
            }
            if let Some(slot) = self.slot(member, self.lacking()).filter(|_| retires) {
                tocsin_sync::prefetch_for_read(&raw const slot.stamp);
            }
        }
    }

    /// What there is of a member's part of a number that this member has not retired.
    #[inline]
    pub fn part(&self, member: usize, number: u32) -> Part {
        let Some(slot) = self.slot(member, number) else { return Part::Corrupt };
        // SYNC POINT: Acquire pairs with the Release of `post`.
        let stamp = slot.stamp.load(Ordering::Acquire);
        if stamp == self.stamp(number) {
            Part::Here { about: slot.about.load(Ordering::Relaxed) }
        } else if stamp >> 32 == self.context >> 32 && (stamp as u32).wrapping_sub(number) as i32 > 0 {
            // Of the same board, and later: nobody may overwrite what this member has not retired.
            Part::Corrupt
        } else if slot.waits.load(Ordering::Relaxed) == self.given_up() {
            self.last_part(slot, number)
        } else {
            Part::Missing
        }
    }

    /// Says that this member waits for parts of a number that it has posted, and is to be rung for the last of them. The
    /// caller looks once more.
    #[inline]
    pub fn wait_for(&self, number: u32) {
        self.wait_for_as::<Real>(number);
    }

    /// [`wait_for`](Self::wait_for) with variation points.
    #[doc(hidden)]
    #[inline]
    pub fn wait_for_as<V: Variant>(&self, number: u32) {
        // Who has given up is rung for everything.
        let Some(slot) = self.slot(self.me, number).filter(|_| !self.gave_up) else { return };
        // SYNC POINT: "I wait", fence, look; a poster posts, fences, and looks who waits.
        if V::FENCE_BEFORE_LOOK {
            slot.waits.swap(self.stamp(number), Ordering::Relaxed);
            fence_after_rmw();
        } else {
            slot.waits.store(self.stamp(number), Ordering::Relaxed);
        }
    }

    /// Takes that back: this member looks by itself until it says otherwise.
    #[inline]
    pub fn look_for(&self, number: u32) {
        if let Some(slot) = self.slot(self.me, number).filter(|_| !self.gave_up) {
            // SYNC POINT: Relaxed: who reads the old value rings once too often.
            slot.waits.store(0, Ordering::Relaxed);
        }
    }

    /// Whether a member waits for parts of a number.
    #[inline]
    pub fn waits(&self, member: usize, number: u32) -> bool {
        // SYNC POINT: Relaxed: after the fence of `post`.
        self.slot(member, number).is_some_and(|slot| {
            let waits = slot.waits.load(Ordering::Relaxed);
            waits == self.stamp(number) || waits == self.given_up()
        })
    }

    /// The number that this member has to retire next.
    #[inline]
    pub fn lacking(&self) -> u32 {
        self.retired.wrapping_add(1)
    }

    /// Says that this member has more to post and no room: who posts the last part of the number that it has to retire
    /// rings it. The caller asks for room once more.
    #[cold]
    pub fn be_stuck(&self) {
        self.be_stuck_as::<Real>();
    }

    /// [`be_stuck`](Self::be_stuck) with variation points.
    #[doc(hidden)]
    pub fn be_stuck_as<V: Variant>(&self) {
        let Some(area) = self.area(self.me) else { return };
        let lacks = self.stamp(self.lacking());
        area.head.stuck.store(lacks, Ordering::Relaxed);
        if V::FENCE_BEFORE_LOOK {
            // SYNC POINT: as in `wait_for`.
            fence(Ordering::SeqCst);
        }
    }

    /// Whether a member needs the last part of a number to go on posting.
    #[inline]
    pub fn is_stuck(&self, member: usize, number: u32) -> bool {
        // SYNC POINT: as in `waits`.
        self.area(member).is_some_and(|area| area.head.stuck.load(Ordering::Relaxed) == self.stamp(number))
    }

    /// Copies bytes of a member's part, which is [here](Part::Here), from its beginning plus `first`, a multiple of 8 or
    /// anything.
    ///
    /// # Safety
    /// `to` is writable for `bytes`. Beyond [`ROOM`] nothing is copied.
    #[inline]
    pub unsafe fn read(&self, member: usize, number: u32, first: usize, to: *mut u8, bytes: usize) {
        if let Some(slot) = self.slot(member, number) {
            // SAFETY: the caller's promise.
            unsafe { read(&slot.data, first, to, bytes) };
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
