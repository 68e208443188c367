use tocsin_sync::atomic::{Ordering, fence, fence_after_rmw};
use tocsin_sync::clock::now_ns;
use tocsin_transport::{Header, wire};

use super::{Place, Slot, piece, shuttle, stores};

/// One packet in so many is timed, if it lies in the pool and is long.
pub(super) const TIMED: u32 = 4;

/// Answer of [`RecvLane::peek`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Peek {
    Empty,
    /// The header, the payload's length, and where it lies (in the slot or in the data ring).
    Packet(Header, usize, *const u8),
    /// The producer's words are impossible: the lane is closed.
    Corrupt,
}

/// Answer of [`RecvLane::arrival`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    Nothing,
    /// A packet of whose payload a part is missing yet: for [`RecvLane::peek_coming`].
    Comes,
    /// A packet, or nonsense: for [`RecvLane::peek`].
    Here,
}

/// Answer of [`RecvLane::consume`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Consumed {
    /// No packet was peeked at.
    Nothing,
    /// The producer is told later.
    Kept,
    /// The producer is told, and may wait for that: see [`RecvLane::wakes_producer`].
    GivenBack,
}

/// The consumer's side.
#[derive(Debug)]
pub(crate) struct RecvLane {
    pub(super) place: Place,
    pub(super) head: u32,
    /// The stamp of the slot at `head` as long as it is not filled: 0 in the first lap, then the last lap's.
    pub(super) old: u32,
    first_lap: bool,
    pub(super) data_head: u32,
    /// The head as the producer knows it.
    given_back: u32,
    /// `data_head` once the packet that was peeked is consumed.
    pub(super) peeked: Option<u32>,
    /// The cells that the packet which was peeked lies in, and those of packets consumed since they were asked for.
    peeked_cells: u64,
    came: u64,
    /// When the packet was peeked whose copying is timed; 0: none. And whether it is copied as it comes since the last look.
    timed: u64,
    follows: bool,
    /// Given back since the last `wakes_producer` that had nothing more to say.
    consumed: bool,
    /// Messages received that were taken out before.
    handed: u32,
    pub(super) closed: bool,
}

impl RecvLane {
    /// # Safety
    /// `place` is a lane at its beginning, of which this is the only consumer; it must be mapped and
    /// allocated whenever another method is called.
    pub(crate) const unsafe fn new(place: Place) -> RecvLane {
        RecvLane {
            place,
            head: 0,
            old: 0,
            first_lap: true,
            data_head: 0,
            given_back: 0,
            peeked: None,
            peeked_cells: 0,
            came: 0,
            timed: 0,
            follows: false,
            consumed: false,
            handed: 0,
            closed: false,
        }
    }

    /// Whether there is something to peek at, be it nonsense.
    #[inline]
    pub(crate) fn has_packet(&self) -> bool {
        self.arrival() == Arrival::Here
    }

    /// What there is at the head, be it nonsense.
    #[inline]
    pub(crate) fn arrival(&self) -> Arrival {
        // SAFETY: the lane is mapped (promise of `new`).
        let slot = unsafe { self.place.slot(self.head) };
        let [stamp, _, length, ..] = &slot.0;
        let stamp = stamp.load(Ordering::Acquire);
        if stamp as u32 == self.old || self.closed {
            return Arrival::Nothing;
        }
        if wire::comes((stamp >> 32) as u32) {
            // In the low half. What no honest producer writes is there at once, to be found out.
            let len = length.load(Ordering::Relaxed) as u32;
            let honest = stamp as u32 == self.head.wrapping_add(1) && len <= self.place.longest();
            if honest && slot.come() < u64::from(len) {
                return Arrival::Comes;
            }
        }
        Arrival::Here
    }

    /// How many packets were taken out.
    #[inline]
    pub(crate) fn position(&self) -> u32 {
        self.head
    }

    /// The line of the slot at the head.
    #[inline]
    pub(crate) fn head_slot(&self) -> *const u8 {
        self.place.slot_address(self.head).cast()
    }

    /// Learns what the slot at the head holds before it is filled.
    #[inline(always)]
    fn expect(&mut self) {
        let slots = self.place.shape.slots;
        self.first_lap &= self.head < slots;
        self.old = if self.first_lap { 0 } else { self.head.wrapping_add(1).wrapping_sub(slots) };
    }

    /// The oldest packet, if all of it is there.
    #[inline]
    pub(crate) fn peek(&mut self) -> Peek {
        if self.closed {
            return Peek::Empty;
        }
        // SAFETY: the lane is mapped (promise of `new`).
        let slot = unsafe { self.place.slot(self.head) };
        let [stamp, words @ ..] = &slot.0;
        // SYNC POINT: Acquire pairs with the Release of the stamp in `SendLane::try_push`.
        let stamp = stamp.load(Ordering::Acquire);
        if stamp as u32 != self.head.wrapping_add(1) {
            if stamp as u32 == self.old {
                return Peek::Empty;
            }
            self.closed = true;
            return Peek::Corrupt;
        }
        if wire::comes((stamp >> 32) as u32) {
            return self.peek_whole(slot);
        }
        let mut content: wire::Content = [0; 7];
        for (copy, word) in content.iter_mut().zip(words) {
            *copy = word.load(Ordering::Relaxed);
        }
        match self.locate((stamp >> 32) as u32, &content) {
            Some((header, len, payload, end)) => {
                self.peeked = Some(end);
                Peek::Packet(header, len, payload)
            }
            None => {
                self.closed = true;
                Peek::Corrupt
            }
        }
    }

    /// The oldest packet, whose payload comes, if all of it is there. Apart, so that what short messages run through stays
    /// short.
    #[inline(never)]
    fn peek_whole(&mut self, slot: &Slot) -> Peek {
        let peek = self.look_coming();
        self.follows = false;
        if let Peek::Packet(_, len, _) = peek
            && slot.come() < len as u64
        {
            self.peeked = None;
            return Peek::Empty;
        }
        peek
    }

    /// The oldest packet, if its payload comes: [`come`](Self::come) tells how much is there. It is to be consumed when that
    /// is all.
    #[inline(never)]
    pub(crate) fn peek_coming(&mut self) -> Peek {
        let peek = self.look_coming();
        self.follows = true;
        peek
    }

    fn look_coming(&mut self) -> Peek {
        self.peeked = None;
        // SAFETY: the lane is mapped (promise of `new`).
        let slot = unsafe { self.place.slot(self.head) };
        let [stamp, words @ ..] = &slot.0;
        // SYNC POINT: as in `peek`.
        let stamp = stamp.load(Ordering::Acquire);
        let meta = (stamp >> 32) as u32;
        if self.closed || stamp as u32 != self.head.wrapping_add(1) || !wire::comes(meta) {
            return Peek::Empty;
        }
        let content = std::array::from_fn(|i| words.get(i).map_or(0, |word| word.load(Ordering::Relaxed)));
        match self.locate(meta, &content) {
            Some((header, len, payload, end)) => {
                self.peeked = Some(end);
                Peek::Packet(header, len, payload)
            }
            None => {
                self.closed = true;
                Peek::Corrupt
            }
        }
    }

    /// How many bytes are there of the payload of a packet that comes. A lying producer may say anything.
    #[inline]
    pub(crate) fn come(&self) -> u64 {
        // SAFETY: the lane is mapped (promise of `new`).
        unsafe { self.place.slot(self.head) }.come()
    }

    /// Checks a copied slot: header, length, where the payload is, and the data position after it.
    #[inline]
    fn locate(&mut self, meta: u32, content: &wire::Content) -> Option<(Header, usize, *const u8, u32)> {
        let (header, len, place) = wire::unpack(meta, content)?;
        let carried = len <= self.place.shape.max_payload;
        match place {
            wire::Place::Inline | wire::Place::Data(_) | wire::Place::Coming(_) if !carried => None,
            wire::Place::Inline => {
                // Word 6 of the slot.
                // SAFETY: the slot is mapped (promise of `new`) and is 64 bytes long.
                let slot = unsafe { std::ptr::from_ref(self.place.slot(self.head)) };
                Some((header, len as usize, slot.cast::<u8>().wrapping_add(wire::INLINE_AT), self.data_head))
            }
            wire::Place::Data(position) | wire::Place::Coming(position) => {
                // Short payloads never travel here, and there is one place where this one can be.
                let (start, end) = piece(self.data_head, len, self.place.shape.data);
                if len as usize <= wire::INLINE
                    || position != start
                    || end.wrapping_sub(self.data_head) > self.place.shape.data
                {
                    return None;
                }
                Some((header, len as usize, self.place.at(start).cast_const(), end))
            }
            wire::Place::Pooled(offset) => {
                if len as usize <= wire::INLINE || len > self.place.longest() {
                    return None;
                }
                if let Some(at) = offset.checked_sub(self.place.pool_bytes) {
                    return self.locate_cells(header, len, at);
                }
                offset.checked_add(len).filter(|end| *end <= self.place.pool_bytes)?;
                if len as usize >= stores::FROM && self.head.is_multiple_of(TIMED) && !self.follows {
                    self.timed = now_ns();
                }
                Some((header, len as usize, self.place.pool.wrapping_add(offset as usize), self.data_head))
            }
        }
    }

    /// As [`locate`](Self::locate), of a payload in cells.
    #[inline(never)]
    fn locate_cells(&mut self, header: Header, len: u32, at: u32) -> Option<(Header, usize, *const u8, u32)> {
        let cells = shuttle::covering(at, len, self.place.cell_bytes)?;
        self.peeked_cells = cells;
        Some((header, len as usize, self.place.cells.wrapping_add(at as usize), self.data_head))
    }

    /// The cells of packets that were consumed since this was asked last.
    pub(crate) fn take_cells(&mut self) -> u64 {
        std::mem::take(&mut self.came)
    }

    /// Takes out the packet that was peeked. Slots are given back some at a time, which saves the producer's look for room,
    /// and this rank the fence and the look at the starving flag: a producer that starves meanwhile has filled all slots
    /// but those, and they must be consumed anyhow. Data are given back at once: what starves for them may need all.
    #[inline]
    pub(crate) fn consume(&mut self) -> Consumed {
        let Some(end) = self.peeked.take() else { return Consumed::Nothing };
        self.take_out(end)
    }

    /// Takes out the packet at the head, whose data end there.
    #[inline(always)]
    pub(super) fn take_out(&mut self, end: u32) -> Consumed {
        self.head = self.head.wrapping_add(1);
        self.expect();
        if self.peeked_cells != 0 {
            self.came |= std::mem::take(&mut self.peeked_cells);
        }
        self.follows = false;
        if self.timed != 0 {
            self.say_spent();
        }
        // SAFETY: the lane is mapped (promise of `new`).
        let lane = unsafe { self.place.head() };
        // SYNC POINT: Release, so that a payload in the pool has been read before the producer (Acquire in `SendLane::has_taken`)
        // writes there again. Who reads an old value rings once too often.
        lane.consumer.0.taken.store(self.head, Ordering::Release);
        if end == self.data_head && self.head.wrapping_sub(self.given_back) < self.place.shape.grain {
            return Consumed::Kept;
        }
        self.data_head = end;
        self.given_back = self.head;
        self.consumed = true;
        // SYNC POINT: Release, so that the slot and the payload have been read before the producer (Acquire
        // in `SendLane::refresh`) writes them again.
        lane.consumer.0.given_back.store(u64::from(self.head) | (u64::from(end) << 32), Ordering::Release);
        Consumed::GivenBack
    }

    /// A message that was taken out before anybody received it has been received: a producer that waits for room sees that the consumer gets on.
    #[inline]
    pub(crate) fn note_handed(&mut self) {
        self.handed = self.handed.wrapping_add(1);
        // SAFETY: the lane is mapped (promise of `new`).
        let lane = unsafe { self.place.head() };
        // SYNC POINT: Relaxed: a hint by virtue of which nothing is read or written.
        lane.consumer.0.handed.store(self.handed, Ordering::Relaxed);
    }

    /// Tells the producer what it took to copy the packet out that was just taken.
    #[cold]
    fn say_spent(&mut self) {
        let spent = now_ns().wrapping_sub(std::mem::take(&mut self.timed)).min(u64::from(u32::MAX));
        // SAFETY: the lane is mapped (promise of `new`).
        let lane = unsafe { self.place.head() };
        // SYNC POINT: Relaxed: one word, by virtue of which nothing else is read.
        lane.consumer.0.spent.store(u64::from(self.head) | spent << 32, Ordering::Relaxed);
    }

    /// Whether the producer may wait for room, after something was given back: [`wakes_producer`](Self::wakes_producer) knows then. Once in a quarter of
    /// the lane.
    #[cold]
    pub(crate) fn is_starving(&mut self) -> bool {
        // SYNC POINT: as in `wakes_producer`, whose fence is this one if it is not asked.
        fence(Ordering::SeqCst);
        // SAFETY: the lane is mapped (promise of `new`).
        let lane = unsafe { self.place.head() };
        self.consumed = lane.starving.0.load(Ordering::Relaxed) != 0;
        self.consumed
    }

    /// Whether the producer waits for room and is to be rung. The caller has executed a SeqCst fence since
    /// the last `consume`.
    ///
    /// A producer that still has most of the lane filled is left alone, so that it is not rung for every
    /// slot: its flag stays, and the next call after slots are given back looks again. A quarter of the lane or an
    /// empty lane comes sooner or later, since the packets that are left must be consumed anyhow.
    pub(crate) fn wakes_producer(&mut self) -> bool {
        if !self.consumed {
            return false;
        }
        // SAFETY: the lane is mapped (promise of `new`).
        let lane = unsafe { self.place.head() };
        // SYNC POINT: the consumer's half of the protocol in `SendLane::try_push`. The flag is cleared by an
        // exchange, before the ring: a producer that finds the lane full again after that ring sets it anew.
        if lane.starving.0.load(Ordering::Relaxed) == 0 {
            self.consumed = false;
            return false;
        }
        if self.mostly_full() {
            return false;
        }
        self.consumed = false;
        let waits = lane.starving.0.swap(0, Ordering::Relaxed) != 0;
        // SYNC POINT: the flag is taken, fence, then the ring reads the producer's attention; a producer that goes to sleep
        // says so, fences, and looks at the flag (`retry_is_due`).
        fence_after_rmw();
        waits
    }

    /// Whether more than three quarters of the slots are certainly still filled: the one three quarters ahead
    /// is.
    fn mostly_full(&self) -> bool {
        let ahead = self.head.wrapping_add(self.place.shape.mostly());
        // SAFETY: the lane is mapped (promise of `new`).
        let [stamp, ..] = unsafe { &self.place.slot(ahead).0 };
        stamp.load(Ordering::Relaxed) as u32 == ahead.wrapping_add(1)
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.peeked = None;
    }

    /// As if so much had gone through already.
    #[cfg(test)]
    pub(crate) fn start_at(&mut self, position: u32, data: u32) {
        (self.head, self.given_back, self.data_head) = (position, position, data);
        self.expect();
    }
}
