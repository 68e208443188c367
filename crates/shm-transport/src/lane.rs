//! A lane: a wait-free single-producer single-consumer ring of packets in shared memory, for one ordered pair
//! of ranks and one class.
//!
//! - *Progress class*: wait-free. [`SendLane::try_push`]: at most 8 stores into the slot, 2 loads of the
//!   consumer's word, a load and a store of the starving flag, 1 fence, plus the payload's copy, with a store for each
//!   [`STRIDE`] bytes of a long one. [`RecvLane::peek`]: 8 loads, 19 of a payload
//!   that comes; [`RecvLane::peek_coming`]: 8. [`SendLane::try_push_short`] and [`SendLane::try_push_plain`]: 8 stores, 2 loads, plus the copy; [`RecvLane::take_short`]: as many loads as are asked for, 5 more and at
//!   most 2 stores, and the copy of a payload in the data ring. [`RecvLane::take_run`]: 4 loads a message, 2 stores for all. [`RecvLane::consume`]: at most 2 stores. [`RecvLane::is_starving`]: 1 fence, 1 load.
//!   [`RecvLane::wakes_producer`]: 2 loads, 1 exchange, 1 fence. [`RecvLane::note_handed`]: 1 store; [`SendLane::ask_no_more`]: 1 load, 1 store.
//! - *Memory*: 64 bytes a slot, the data ring, 256 bytes of head.
//! - *Who may call*: who holds the rank's engine token; handlers may.
//! - *Shown by*: the loom model (`loom_tests.rs`, FIFO, starving never lost), the transport conformance
//!   suite, the hostile-bytes property test.
//!
//! # Protocol
//!
//! The producer's tail is its own; slots say themselves that they are full: word 0 of the slot at position
//! `p` has `p + 1` in its low half, written last. The consumer publishes one word, how many slots and how
//! many bytes of data it has given back: a quarter of the slots at a time, and with every packet that has data. Beside it
//! stands how many packets it has taken out, which the producer reads before it interrupts anybody for them, and what one of them took
//! to be copied out, from which the producer learns how to store (`lane/stores.rs`).
//! A payload of more than 16 bytes lies in one piece in the data ring, rounded up to 64 bytes; a piece that
//! does not fit before the ring's end starts at its beginning. Both sides compute that place, so the consumer
//! compares and never follows.
//!
//! A payload of [`LONG`] bytes or more, or of [`ALONE`] after something was heard of the consumer, *comes*: its slot is published first, then its bytes, some at a time, with a count in
//! the slot (word 6). Two ranks that both wait for it copy at once then. For everybody else the packet is there when the
//! count has reached its length: before that [`RecvLane::peek`] and [`RecvLane::has_packet`] do not see it, so that nobody
//! waits for a producer that has stopped.
//!
//! A payload of [`POOLED`] bytes or more lies in the producer's pool (`lane/pool.rs`) instead, if that has room: anywhere in it, which
//! the consumer checks. It is the producer's again once the consumer has taken its packet. Or it lies in cells that both have in common
//! (`lane/shuttle.rs`), which count from the pool's end on, and are the consumer's then.
//!
//! Nothing that is read from the other side is used before it is checked: a stamp is the expected one, or the
//! previous lap's, or the lane is closed; the consumer's word never runs ahead of the producer's tail, or the
//! lane is closed.

mod pool;
mod publish;
mod recv;
mod send;
mod short;
mod shuttle;
mod stores;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

use tocsin_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use tocsin_transport::wire;

pub(crate) use pool::{Lent, POOLED, Piece, SendPool, longest_whole};
pub(crate) use recv::{Arrival, Consumed, Peek, RecvLane};
pub(crate) use send::{Push, SendLane};
pub(crate) use short::Short;
pub(crate) use shuttle::{
    FEW as FEW_CELLS, LONGEST_IN_FEW, MOST as MOST_CELLS, Shuttle, bytes as cell_bytes,
};

/// Pieces of the data ring are multiples of this many bytes: a cache line.
const PIECE: u32 = 64;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Payloads of so many bytes or more come.
pub(crate) const LONG: usize = if cfg!(loom) { 96 } else { 2 * 1024 };
/// And of so many, if the consumer is likely to wait for just this one. Of several in a row the next would wait for each other's counts.
pub(crate) const ALONE: usize = 1024;
// Shorter ones are not asked about.
#[cfg(not(loom))]
const _: () = assert!(ALONE >= POOLED && ALONE < LONG);
/// Bytes that come at a time.
const STRIDE: usize = if cfg!(loom) { 64 } else { wire::STRIDE };

/// One slot; see [`tocsin_transport::wire`]. All words are atomics, since a lying peer may write them at any
/// time.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Slot(pub(crate) [AtomicU64; 8]);

#[repr(C, align(128))]
#[derive(Debug)]
struct Line<T>(T);

/// What the two sides tell each other apart from the slots: each word has its own pair of cache lines.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct LaneHead {
    /// Written by the consumer, and read by a producer that finds no room or has somebody to interrupt.
    consumer: Line<ConsumerWords>,
    /// Set by a producer that found no room; cleared by the consumer that will ring it, or by a producer that looks by itself.
    starving: Line<AtomicU32>,
}

#[repr(C)]
#[derive(Debug)]
struct ConsumerWords {
    /// Slots given back (low half), bytes of data given back (high half); free-running.
    given_back: AtomicU64,
    /// Packets taken out.
    taken: AtomicU32,
    /// Messages that were taken out before anybody received them, and have been received since.
    handed: AtomicU32,
    /// What it took to copy one out, nanoseconds (high half), and how many had been taken then (low half).
    spent: AtomicU64,
}

#[cfg(loom)]
impl LaneHead {
    pub(crate) fn new() -> LaneHead {
        let [given_back, spent] = std::array::from_fn(|_| AtomicU64::new(0));
        let consumer =
            ConsumerWords { given_back, taken: AtomicU32::new(0), handed: AtomicU32::new(0), spent };
        LaneHead { consumer: Line(consumer), starving: Line(AtomicU32::new(0)) }
    }
}

/// Size of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    /// Slots, a power of two.
    pub slots: u32,
    /// Bytes of the data ring: 0, or a power of two of at least twice the longest payload.
    pub data: u32,
    /// Longest payload in bytes.
    pub max_payload: u32,
    /// Slots that the consumer gives back at a time, if no data makes it do so sooner: at least a quarter.
    grain: u32,
}

impl Shape {
    /// A lane whose slots are given back a quarter at a time.
    pub(crate) const fn new(slots: u32, data: u32, max_payload: u32) -> Shape {
        let grain = if slots < 4 { 1 } else { slots / 4 };
        Shape { slots, data, max_payload, grain }
    }

    /// The same with another grain, which must be a quarter of the slots or more.
    #[cfg(test)]
    pub(crate) fn with_grain(self, grain: u32) -> Shape {
        assert!(
            grain > 0 && grain >= self.slots / 4,
            "{self:?}: a grain of {grain} leaves the lane mostly full"
        );
        Shape { grain, ..self }
    }

    /// Three quarters of the slots: with more than that filled, a producer that starves is left alone.
    const fn mostly(self) -> u32 {
        self.slots.wrapping_sub(self.slots / 4)
    }

    /// All that both sides must agree on.
    pub(crate) const fn agreed(self) -> [u32; 4] {
        let Shape { slots, data, max_payload, grain } = self;
        [slots, data, max_payload, grain]
    }
}

/// Where a lane lies in this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub head: *const LaneHead,
    pub slots: *const Slot,
    pub data: *mut u8,
    /// The producer's pool, for the consumer: its bytes, a power of two, or 0 of none.
    pub pool: *const u8,
    pub pool_bytes: u32,
    /// Cells of the pair, for the consumer, and their bytes: 0: there are none.
    pub cells: *const u8,
    pub cell_bytes: u32,
    pub shape: Shape,
}

impl Slot {
    /// Of a payload that comes: how many of its bytes are there, as the producer says.
    #[inline]
    fn come(&self) -> u64 {
        let [.., come, _] = &self.0;
        // SYNC POINT: Acquire pairs with the Release in `SendLane::copy_in`: the bytes counted are there.
        come.load(Ordering::Acquire)
    }
}

impl Place {
    /// Longest payload in the lane, the pool or cells.
    #[inline]
    fn longest(&self) -> u32 {
        self.shape.max_payload.max(pool::longest_whole(self.pool_bytes))
    }

    /// # Safety
    /// The lane's slots are mapped and outlive `'a`.
    #[inline]
    unsafe fn slot<'a>(&self, position: u32) -> &'a Slot {
        // SAFETY: it is one of the lane's slots; the caller vouches for the mapping. Only atomics are referred to.
        unsafe { &*self.slot_address(position) }
    }

    /// Where the slot of a position lies.
    #[inline]
    fn slot_address(&self, position: u32) -> *const Slot {
        let index = position & self.shape.slots.wrapping_sub(1);
        self.slots.wrapping_add(index as usize)
    }

    /// Where a free-running position of the data ring lies.
    #[inline]
    fn at(&self, position: u32) -> *mut u8 {
        self.data.wrapping_add((position & self.shape.data.wrapping_sub(1)) as usize)
    }

    /// # Safety
    /// The lane's head is mapped and outlives `'a`.
    #[inline]
    unsafe fn head<'a>(&self) -> &'a LaneHead {
        // SAFETY: the caller vouches for the mapping. Only atomics are referred to.
        unsafe { &*self.head }
    }
}

/// Where a piece of `len` bytes starts that follows the free-running position `tail`, and where the next one
/// may.
#[inline]
fn piece(tail: u32, len: u32, ring: u32) -> (u32, u32) {
    let size = len.wrapping_add(PIECE - 1) & !(PIECE - 1);
    let offset = tail & ring.wrapping_sub(1);
    let start =
        if offset.wrapping_add(size) <= ring { tail } else { tail.wrapping_add(ring.wrapping_sub(offset)) };
    (start, start.wrapping_add(size))
}
