//! Wait-free single-producer single-consumer ring over raw memory.
//!
//! The lanes between ranks are such rings; their memory is shared with a peer that may be dead, slow or
//! lying. So there are indices and no pointers, "full" is an answer and never a wait, each side keeps its own
//! position in private memory, and what the other side wrote is read once and checked.
//!
//! # Protocol
//! Slot `p mod capacity` holds item `p` when the low half of its stamp is `p + 1` (mod 2^32). The producer
//! writes the content, then the stamp (Release); the consumer reads the stamp (Acquire), then the content,
//! then publishes its position (Release), which the producer reads (Acquire) only when its cached copy says
//! "full". There is no claimed-but-unfilled state that anybody could wait for: until the stamp appears the
//! ring is simply empty at that point.
//!
//! # Trust
//! The consumer reads only inside its slots whatever the stamps say: a hostile stamp looks empty, or
//! delivers content that the caller must check. The producer takes a consumer's position that is out of
//! range for "full".
//!
//! Wrap-around: positions are `u32` and wrap; a slot's previous stamp is `capacity` less than the awaited
//! one, so stamps are distinct while the capacity is at most 2^31, which [`Producer::new`] requires.
//!
//! Shown by: `tests/loom_ring.rs` (FIFO, capacity 2, and a variant whose stamp is published too early, which
//! loom must catch), the proptests here, and every-instruction stepping in the workspace's `tests/`.

use crate::testing::{Real, Variant};
use core::ptr::NonNull;
use tocsin_sync::HandlerSafe;
use tocsin_sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Words of content per slot.
pub const CONTENT: usize = 7;

/// 64 bytes: a stamp and 56 bytes of content. All zero is an empty slot of a fresh ring.
///
/// The content is atomic words accessed Relaxed, which compile to plain moves: a lying peer that writes
/// while we read can make us read nonsense, but not undefined behaviour.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Slot {
    /// Low half: position + 1. High half: the producer's meta word.
    stamp: AtomicU64,
    content: [AtomicU64; CONTENT],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Slot>() == 64 && align_of::<Slot>() == 64);

impl Default for Slot {
    fn default() -> Self {
        Self::new()
    }
}

impl Slot {
    /// An empty slot of a fresh ring, for rings in private memory.
    pub fn new() -> Slot {
        Slot { stamp: AtomicU64::new(0), content: core::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

/// The writing end. One per ring, used by one context at a time (the engine's token sees to that).
///
/// Handlers may use it. Progress class: wait-free; [`try_push`](Producer::try_push) is at most one load of
/// the consumer's position and eight stores.
#[derive(Debug)]
pub struct Producer {
    slots: NonNull<Slot>,
    mask: u32,
    head: NonNull<AtomicU32>,
    tail: u32,
    cached_head: u32,
}

/// The reading end. One per ring, used by one context at a time.
///
/// Handlers may use it. Progress class: wait-free; [`peek`](Consumer::peek) is at most eight loads,
/// [`advance`](Consumer::advance) one store.
#[derive(Debug)]
pub struct Consumer {
    slots: NonNull<Slot>,
    mask: u32,
    head: NonNull<AtomicU32>,
    position: u32,
}

// SAFETY: the memory behind the pointers is valid for as long as the ends are (`new`'s contract) and only
// accessed atomically; each end has one user at a time because its methods that write take &mut.
unsafe impl Send for Producer {}
// SAFETY: as above.
unsafe impl Send for Consumer {}
// SAFETY: shared methods only load.
unsafe impl Sync for Producer {}
// SAFETY: as above.
unsafe impl Sync for Consumer {}
// SAFETY: no method waits, allocates or panics; exclusive methods are kept apart by &mut.
unsafe impl HandlerSafe for Producer {}
// SAFETY: as above.
unsafe impl HandlerSafe for Consumer {}

#[inline]
fn stamp_of(position: u32) -> u32 {
    position.wrapping_add(1)
}

impl Producer {
    /// The writing end of a ring whose positions both start at `start` (0 for a fresh ring). `None` unless
    /// `capacity` is a power of two of at most 2^31 and the pointers are non-null.
    ///
    /// # Safety
    /// - `slots` points to `capacity` slots and `head` to the consumer's published position; both stay valid
    ///   for reads and writes as long as this end lives, and are aligned.
    /// - All processes that touch them do so atomically, and nobody here makes another writing end of the
    ///   same ring. The slots are zero, or were last used with positions that end at `start`.
    pub unsafe fn new(
        slots: *const Slot,
        capacity: u32,
        head: *const AtomicU32,
        start: u32,
    ) -> Option<Producer> {
        if !capacity.is_power_of_two() {
            return None;
        }
        Some(Producer {
            slots: NonNull::new(slots.cast_mut())?,
            mask: capacity.wrapping_sub(1),
            head: NonNull::new(head.cast_mut())?,
            tail: start,
            cached_head: start,
        })
    }

    /// Slots of the ring.
    #[inline]
    pub fn capacity(&self) -> u32 {
        self.mask.wrapping_add(1)
    }

    /// Items pushed so far (mod 2^32), counted from `start`.
    #[inline]
    pub fn position(&self) -> u32 {
        self.tail
    }

    #[inline]
    fn room(&self) -> u32 {
        // A lying consumer's position may be anything: more than `capacity` in use counts as full.
        self.capacity().saturating_sub(self.tail.wrapping_sub(self.cached_head))
    }

    /// How many items fit now. One load.
    #[inline]
    pub fn free(&mut self) -> u32 {
        // SAFETY: `new`'s contract.
        // SYNC POINT: Acquire pairs with the consumer's Release in `advance`: it has read the slots that we
        // are about to overwrite.
        self.cached_head = unsafe { self.head.as_ref() }.load(Ordering::Acquire);
        self.room()
    }

    /// Appends an item. False: full, nothing was written.
    #[inline]
    pub fn try_push(&mut self, meta: u32, content: &[u64; CONTENT]) -> bool {
        self.try_push_as::<Real>(meta, content)
    }

    /// [`try_push`](Self::try_push) with variation points.
    #[doc(hidden)]
    #[inline]
    pub fn try_push_as<V: Variant>(&mut self, meta: u32, content: &[u64; CONTENT]) -> bool {
        if self.room() == 0 && self.free() == 0 {
            return false;
        }
        // SAFETY: the mask keeps the index below the capacity (`new`'s contract).
        let slot = unsafe { self.slots.add((self.tail & self.mask) as usize).as_ref() };
        let stamp = u64::from(meta) << 32 | u64::from(stamp_of(self.tail));
        if !V::STAMP_LAST {
            slot.stamp.store(stamp, V::PUSH);
        }
        for (to, from) in slot.content.iter().zip(content) {
            to.store(*from, Ordering::Relaxed);
        }
        // SYNC POINT: Release pairs with `peek`'s Acquire: the stamp vouches for the content (and for
        // whatever else the producer wrote before, such as payload in a data ring).
        if V::STAMP_LAST {
            slot.stamp.store(stamp, V::PUSH);
        }
        self.tail = self.tail.wrapping_add(1);
        true
    }
}

impl Consumer {
    /// The reading end; arguments and obligations as for [`Producer::new`], for the one reading end.
    ///
    /// # Safety
    /// As [`Producer::new`], with "writing" read as "reading".
    pub unsafe fn new(
        slots: *const Slot,
        capacity: u32,
        head: *const AtomicU32,
        start: u32,
    ) -> Option<Consumer> {
        if !capacity.is_power_of_two() {
            return None;
        }
        Some(Consumer {
            slots: NonNull::new(slots.cast_mut())?,
            mask: capacity.wrapping_sub(1),
            head: NonNull::new(head.cast_mut())?,
            position: start,
        })
    }

    /// Slots of the ring.
    #[inline]
    pub fn capacity(&self) -> u32 {
        self.mask.wrapping_add(1)
    }

    /// Items consumed so far (mod 2^32), counted from `start`.
    #[inline]
    pub fn position(&self) -> u32 {
        self.position
    }

    #[inline]
    fn slot(&self) -> &Slot {
        // SAFETY: the mask keeps the index below the capacity (`new`'s contract).
        unsafe { self.slots.add((self.position & self.mask) as usize).as_ref() }
    }

    /// Whether there is no item now. One load.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // SYNC POINT: Acquire, as `peek`.
        self.slot().stamp.load(Ordering::Acquire) as u32 != stamp_of(self.position)
    }

    /// A copy of the oldest item, which stays: its meta word and content. Read once; check it before use.
    #[inline]
    pub fn peek(&self) -> Option<(u32, [u64; CONTENT])> {
        let slot = self.slot();
        // SYNC POINT: Acquire pairs with `try_push`'s Release.
        let stamp = slot.stamp.load(Ordering::Acquire);
        if stamp as u32 != stamp_of(self.position) {
            return None;
        }
        let mut content = [0; CONTENT];
        for (to, from) in content.iter_mut().zip(&slot.content) {
            *to = from.load(Ordering::Relaxed);
        }
        Some(((stamp >> 32) as u32, content))
    }

    /// Gives the oldest item's slot back. Only after [`peek`](Self::peek) returned it.
    #[inline]
    pub fn advance(&mut self) {
        self.position = self.position.wrapping_add(1);
        // SAFETY: `new`'s contract.
        // SYNC POINT: Release pairs with `Producer::free`'s Acquire: our reads of the slot (and of payload
        // that belongs to it) are done before the producer overwrites it.
        unsafe { self.head.as_ref() }.store(self.position, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
