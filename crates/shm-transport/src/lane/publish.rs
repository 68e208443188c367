//! A slot's words, and the stamp that lets the consumer have them.

use tocsin_sync::atomic::Ordering;
use tocsin_sync::prefetch_for_write;
use tocsin_transport::wire;

use super::{PIECE, SendLane, Slot};

/// Lines of a payload that are fetched before it is known: as many as a core fetches at a time. More made messages of 2 KiB slower.
const FETCHED: u32 = 16;

/// So many slots ahead of the tail is what [`fetch_ahead`](SendLane::fetch_ahead) fetches: 2 and 8 gain less.
const AHEAD: u32 = 4;

impl SendLane {
    /// Fills the slot at the tail, and lets the consumer have it.
    ///
    /// # Safety
    /// The slot is free, and the lane mapped, which it stays for `'a`.
    #[inline(always)]
    pub(super) unsafe fn publish<'a>(&mut self, meta: u32, content: wire::Content) -> &'a Slot {
        // SAFETY: the caller's promise.
        let slot = unsafe { self.place.slot(self.tail) };
        let [stamp, words @ ..] = &slot.0;
        #[cfg(loom)]
        let content = self.changed(slot, content);
        #[cfg(loom)]
        if self.hurries {
            let early = u64::from(self.tail.wrapping_add(1)) | (u64::from(meta) << 32);
            stamp.store(early, Ordering::Release);
        }
        for (word, value) in words.iter().zip(content) {
            word.store(value, Ordering::Relaxed);
        }
        self.tail = self.tail.wrapping_add(1);
        // SYNC POINT: Release publishes words and payload; pairs with the Acquire in `RecvLane::peek` and `RecvLane::take_short`. That
        // the slot may be overwritten at all comes from the Acquire in `refresh`. Of a payload that comes, it publishes that
        // nothing is there yet.
        stamp.store(u64::from(self.tail) | (u64::from(meta) << 32), Ordering::Release);
        slot
    }

    /// Has the line of the slot at the tail fetched, which the consumer has looked at, for a packet that comes soon.
    #[inline(always)]
    pub(crate) fn fetch_slot(&self) {
        prefetch_for_write(self.place.slot_address(self.tail));
    }

    /// Has the line of a slot that comes up some packets later fetched, which the consumer has read a lap ago: for who sends one after the other, so that the fence after the packet that comes
    /// there does not wait for it. (Messages of 8 B in a row take 90 ns and took 135, where a line takes 250 ns from core to core: `bench rate`, EPYC of Zen 5. Of answers it is in the way: half round
    /// trips took 0.27 us and take 0.25.)
    #[inline(always)]
    pub(crate) fn fetch_ahead(&self) {
        prefetch_for_write(self.place.slot_address(self.tail.wrapping_add(AHEAD)));
    }

    /// The slot at the tail, and the first lines of its payload, if that is as long as the last one in the ring, and does not begin it anew: the consumer has read them a lap ago.
    #[inline]
    pub(crate) fn fetch_next(&self) {
        self.fetch_slot();
        for line in 0..(self.last / PIECE).min(FETCHED) {
            let at = self.data_tail.wrapping_add(line.wrapping_mul(PIECE));
            prefetch_for_write(self.place.at(at).cast_const());
        }
    }

    /// What a variant makes of a slot's content.
    #[cfg(loom)]
    fn changed(&self, slot: &Slot, mut content: wire::Content) -> wire::Content {
        if self.leaves_count {
            let [.., come, _] = &mut content;
            *come = slot.come();
        }
        content
    }
}
