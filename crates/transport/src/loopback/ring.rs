use std::cell::UnsafeCell;
use std::fmt;

use tocsin_sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

use crate::{Header, Packet};

struct Slot {
    header: UnsafeCell<Header>,
    len: UnsafeCell<usize>,
}

/// Bounded single-producer single-consumer ring of packets. Wait-free: push and pop take at most four atomic
/// operations and a fence.
pub(super) struct Ring {
    head: AtomicU32,
    tail: AtomicU32,
    starving: AtomicBool,
    slots: Box<[Slot]>,
    payload: Box<[UnsafeCell<u8>]>,
    stride: usize,
}

// SAFETY: the cells of a slot are written only by the producer while the slot lies outside head..tail and
// read only by the consumer while it lies inside; head and tail are published with Release and read with
// Acquire.
unsafe impl Sync for Ring {}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("slots", &self.slots.len()).finish_non_exhaustive()
    }
}

impl Ring {
    pub(super) fn new(packets: u32, max_payload: usize) -> Ring {
        // A power of two, so that free-running positions stay continuous where they wrap.
        let packets = packets.max(1).next_power_of_two();
        let bytes = vec![0u8; packets as usize * max_payload].into_boxed_slice();
        // SAFETY: UnsafeCell<u8> has the layout of u8, and the box is unique.
        let payload = unsafe { Box::from_raw(Box::into_raw(bytes) as *mut [UnsafeCell<u8>]) };
        Ring {
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
            starving: AtomicBool::new(false),
            slots: (0..packets)
                .map(|_| Slot { header: UnsafeCell::new(Header::default()), len: UnsafeCell::new(0) })
                .collect(),
            payload,
            stride: max_payload,
        }
    }

    fn index(&self, position: u32) -> usize {
        position as usize & (self.slots.len() - 1)
    }

    fn payload_of(&self, index: usize) -> *mut u8 {
        UnsafeCell::raw_get(self.payload.as_ptr()).wrapping_add(index * self.stride)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed) == self.tail.load(Ordering::Acquire)
    }

    pub(super) fn is_full(&self) -> bool {
        let (tail, head) = (self.tail.load(Ordering::Relaxed), self.head.load(Ordering::Acquire));
        tail.wrapping_sub(head) as usize >= self.slots.len()
    }

    /// Has the consumer tell the producer of the next packet that it takes.
    pub(super) fn starve(&self) {
        self.starving.store(true, Ordering::Relaxed);
        // SYNC POINT: as in `push`.
        fence(Ordering::SeqCst);
    }

    /// # Safety
    /// The caller is the only producer; `payload` is readable for `len` bytes; `len` is at most the ring's
    /// longest.
    pub(super) unsafe fn push(&self, header: &Header, payload: *const u8, len: usize) -> bool {
        if self.is_full() {
            self.starving.store(true, Ordering::Relaxed);
            // SYNC POINT: the flag is seen by a consumer that frees a slot, or the freed slot is seen here.
            fence(Ordering::SeqCst);
            if self.is_full() {
                return false;
            }
        }
        let tail = self.tail.load(Ordering::Relaxed);
        let index = self.index(tail);
        let Some(slot) = self.slots.get(index) else { return false };
        // SAFETY: the slot lies outside head..tail, so it is the producer's; `len` bytes fit into its stride.
        unsafe {
            *slot.header.get() = *header;
            *slot.len.get() = len;
            if len > 0 {
                std::ptr::copy_nonoverlapping(payload, self.payload_of(index), len);
            }
        }
        // SYNC POINT: publishes the slot.
        self.tail.store(tail.wrapping_add(1), Ordering::Release);
        true
    }

    /// # Safety
    /// The caller is the only consumer.
    pub(super) unsafe fn peek(&self) -> Option<Packet> {
        if self.is_empty() {
            return None;
        }
        let index = self.index(self.head.load(Ordering::Relaxed));
        let slot = self.slots.get(index)?;
        // SAFETY: the slot lies inside head..tail, so it is the consumer's.
        unsafe {
            Some(Packet {
                header: *slot.header.get(),
                payload: self.payload_of(index).cast_const(),
                len: *slot.len.get(),
            })
        }
    }

    /// Removes the oldest packet; whether the producer waits for room.
    ///
    /// # Safety
    /// The caller is the only consumer.
    pub(super) unsafe fn pop(&self) -> bool {
        if self.is_empty() {
            return false;
        }
        let head = self.head.load(Ordering::Relaxed);
        self.head.store(head.wrapping_add(1), Ordering::Release);
        // SYNC POINT: with the producer's fence; see push.
        fence(Ordering::SeqCst);
        self.starving.load(Ordering::Relaxed) && self.starving.swap(false, Ordering::Relaxed)
    }
}
