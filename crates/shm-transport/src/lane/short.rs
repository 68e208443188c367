//! Short plain messages, most of which are one cache line each: put there and taken out with nothing between that others need.

use tocsin_sync::atomic::{Ordering, look_again};
use tocsin_transport::short::{self, Run};
use tocsin_transport::wire;

use super::{Consumed, RecvLane, SendLane, piece};

/// Answer of [`RecvLane::take_short`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Short {
    Nothing,
    Other,
    Taken { tag: i32, len: usize, consumed: Consumed },
}

impl SendLane {
    /// [`try_push`](Self::try_push) of a plain message. False: nothing was done, and `try_push` says why.
    ///
    /// # Safety
    /// `payload` is readable for `len` bytes if `len` is not 0, and `len` is at most [`wire::INLINE`].
    #[inline(always)]
    pub(crate) unsafe fn try_push_short(
        &mut self,
        context: u32,
        tag: i32,
        payload: *const u8,
        len: usize,
    ) -> bool {
        if self.closed || !self.has_slot() && !self.has_slot_after_all() {
            return false;
        }
        let mut words = [0u64; 2];
        // SAFETY: the caller vouches for `payload`; `len` is at most 16, the size of `words`.
        unsafe { short::copy_inline(payload, words.as_mut_ptr().cast::<u8>(), len) };
        let (meta, content) = wire::pack_inline(&short::plain(context, tag, len), words, len);
        // SAFETY: the lane is mapped (promise of `new`), and has a slot.
        let _slot = unsafe { self.publish(meta, content) };
        true
    }

    /// The same of one whose payload goes into the data ring. Apart, so that what shorter ones run through stays short.
    ///
    /// # Safety
    /// `payload` is readable for `len` bytes, which are more than [`wire::INLINE`].
    #[inline(never)]
    pub(crate) unsafe fn try_push_plain(
        &mut self,
        context: u32,
        tag: i32,
        payload: *const u8,
        len: usize,
    ) -> bool {
        if self.closed || len > self.place.shape.max_payload as usize {
            return false;
        }
        let (start, end) = piece(self.data_tail, len as u32, self.place.shape.data);
        if !self.fits(end) && !self.fits_after_all(end) {
            return false;
        }
        // SAFETY: as in `try_push_as`.
        unsafe { core::ptr::copy_nonoverlapping(payload, self.place.at(start), len) };
        let (meta, content) = wire::pack_data(&short::plain(context, tag, len), len as u32, start);
        self.last = end.wrapping_sub(start);
        self.data_tail = end;
        // SAFETY: the lane is mapped (promise of `new`), and has a slot.
        let _slot = unsafe { self.publish(meta, content) };
        true
    }

    /// Whether the consumer has given back enough for a slot and data up to `end` since the last look.
    #[cold]
    fn fits_after_all(&mut self, end: u32) -> bool {
        self.refresh();
        !self.closed && self.fits(end)
    }

    /// Whether the consumer has given back enough for a slot since the last look.
    #[cold]
    fn has_slot_after_all(&mut self) -> bool {
        self.refresh();
        !self.closed && self.has_slot()
    }

    /// How many packets the consumer has taken out, and received after that, if no slot is free. It is not told that anybody asks, and the caller publishes nothing by it.
    #[inline]
    pub(crate) fn filled(&mut self) -> Option<u32> {
        if self.has_slot() { None } else { self.filled_after_all() }
    }

    #[cold]
    fn filled_after_all(&mut self) -> Option<u32> {
        let room = self.has_slot_after_all();
        if room || self.closed { None } else { Some(self.taken().wrapping_add(self.handed())) }
    }
}

impl RecvLane {
    /// [`take_short`](Self::take_short) of the packet with this stamp, if its payload is in the data ring. Apart, as in
    /// [`try_push_plain`](SendLane::try_push_plain).
    ///
    /// # Safety
    /// As there.
    #[inline(never)]
    unsafe fn take_plain(&mut self, stamp: u64, wanted: short::Wanted, to: *mut u8, room: usize) -> Short {
        // SAFETY: the lane is mapped (promise of `new`).
        let slot = unsafe { self.place.slot(self.head) };
        let [_, envelope, length, bytes, ..] = &slot.0;
        let envelope = envelope.load(Ordering::Relaxed);
        let meta = (stamp >> 32) as u32;
        if stamp as u32 != self.head.wrapping_add(1)
            || !wire::is_plain_data(meta)
            || !wanted.is(envelope)
            || self.closed
        {
            return Short::Other;
        }
        let Some((len, payload, end)) = self.find_data(length.load(Ordering::Relaxed), self.data_head) else {
            return Short::Other;
        };
        if len > room || bytes.load(Ordering::Relaxed) != len as u64 {
            return Short::Other;
        }
        // SAFETY: the piece is inside the data ring, and the producer has filled it before the stamp; the caller vouches for `to`, where there is room.
        unsafe { core::ptr::copy_nonoverlapping(payload, to, len) };
        self.peeked = None;
        let consumed = self.take_out(end);
        Short::Taken { tag: (envelope >> 32) as i32, len, consumed }
    }

    /// Takes the oldest packet out if it is a plain message with its payload, wanted, and `to` has room. Looks at most `looks` times whether there is one.
    ///
    /// # Safety
    /// `to` is writable for `room` bytes.
    #[inline(always)]
    pub(crate) unsafe fn take_short(
        &mut self,
        wanted: short::Wanted,
        to: *mut u8,
        room: usize,
        looks: u32,
    ) -> Short {
        // SAFETY: the lane is mapped (promise of `new`).
        let slot = unsafe { self.place.slot(self.head) };
        let [stamp, envelope, length, bytes, ..] = &slot.0;
        let mut left = looks;
        let stamp = loop {
            // SYNC POINT: Acquire, as in `peek`.
            let stamp = stamp.load(Ordering::Acquire);
            if stamp as u32 != self.old {
                break stamp;
            }
            if left <= 1 {
                return Short::Nothing;
            }
            left = left.wrapping_sub(1);
            look_again();
        };
        let Some(len) = wire::plain_inline((stamp >> 32) as u32) else {
            // SAFETY: the caller's promise.
            return unsafe { self.take_plain(stamp, wanted, to, room) };
        };
        let envelope = envelope.load(Ordering::Relaxed);
        if stamp as u32 != self.head.wrapping_add(1)
            || !wanted.is(envelope)
            || len > room
            || self.closed
            || length.load(Ordering::Relaxed) as u32 as usize != len
            || bytes.load(Ordering::Relaxed) != len as u64
        {
            return Short::Other;
        }
        let payload = std::ptr::from_ref(slot).cast::<u8>().wrapping_add(wire::INLINE_AT);
        // SAFETY: the slot is mapped and 64 bytes long, of which the payload is the last 16; the caller vouches for `to`, where there is room.
        unsafe { short::copy_inline(payload, to, len) };
        self.peeked = None;
        let consumed = self.take_out(self.data_head);
        Short::Taken { tag: (envelope >> 32) as i32, len, consumed }
    }

    /// Takes out plain messages of at most [`short::LONGEST`] bytes, one after the other, as long as `meet` takes them, and at most `most`: it is given envelope, length and
    /// where the payload lies, which is for the time of the call. Answers, too, what that comes to for all of them together. What else there is, nonsense included,
    /// stays for [`peek`](Self::peek).
    ///
    /// Wait-free: 4 loads a message, 5 of a payload, and at most 2 stores in all, beside what `meet` does.
    #[inline(always)]
    pub(crate) fn take_run(
        &mut self,
        most: u32,
        mut meet: impl FnMut(u64, usize, *const u8) -> bool,
    ) -> (Run, Consumed) {
        let (mut taken, mut emptied, mut data) = (0u32, false, self.data_head);
        while taken < most && !self.closed {
            let at = self.head.wrapping_add(taken);
            // SAFETY: the lane is mapped (promise of `new`).
            let slot = unsafe { self.place.slot(at) };
            let [stamp, envelope, length, bytes, ..] = &slot.0;
            // SYNC POINT: Acquire, as in `peek`.
            let stamp = stamp.load(Ordering::Acquire);
            if stamp as u32 != at.wrapping_add(1) {
                // Or it is nonsense, which the next look finds.
                emptied = true;
                break;
            }
            let length = length.load(Ordering::Relaxed);
            let (len, payload, end) = match wire::plain_inline((stamp >> 32) as u32) {
                Some(len) if length as u32 as usize == len => {
                    (len, std::ptr::from_ref(slot).cast::<u8>().wrapping_add(wire::INLINE_AT), data)
                }
                None if wire::is_plain_data((stamp >> 32) as u32) => {
                    let Some(found) = self.find_data(length, data) else { break };
                    found
                }
                _ => break,
            };
            if bytes.load(Ordering::Relaxed) != len as u64
                || !meet(envelope.load(Ordering::Relaxed), len, payload)
            {
                break;
            }
            (taken, data) = (taken.wrapping_add(1), end);
        }
        if taken == 0 {
            return (Run::default(), Consumed::Nothing);
        }
        self.peeked = None;
        // All but the last, and the last.
        self.head = self.head.wrapping_add(taken.wrapping_sub(1));
        (Run { taken, emptied }, self.take_out(data))
    }

    /// Where the payload is that a slot says to be in the data ring by this word, if what lies before it ends at `data`: its length, its place, and its end. `None`: that is
    /// nonsense, or it is no short one.
    #[inline]
    fn find_data(&self, length: u64, data: u32) -> Option<(usize, *const u8, u32)> {
        let (len, position) = (length as u32, (length >> 32) as u32);
        let longest = (self.place.shape.max_payload as usize).min(short::LONGEST);
        if len as usize <= wire::INLINE || len as usize > longest {
            return None;
        }
        // There is one place where it can be.
        let (start, end) = piece(data, len, self.place.shape.data);
        let fits = position == start && end.wrapping_sub(data) <= self.place.shape.data;
        fits.then(|| (len as usize, self.place.at(start).cast_const(), end))
    }
}
