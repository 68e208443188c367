use tocsin_sync::atomic::{Ordering, fence};
use tocsin_transport::{Header, short, wire};

use super::stores::{self, Experience, Stores};
use super::{LONG, Piece, Place, Slot, piece};

/// Answer of [`SendLane::try_push`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Push {
    Sent,
    Full,
    /// The consumer's word is impossible: the lane is closed.
    Corrupt,
}

/// The producer's side.
#[derive(Debug)]
pub(crate) struct SendLane {
    pub(super) place: Place,
    pub(super) tail: u32,
    pub(super) data_tail: u32,
    /// Bytes of the data ring that the last packet took that could have taken some: neither of those that go by
    /// [`try_push_short`](Self::try_push_short) nor of those in the pool.
    pub(super) last: u32,
    /// Packets that had come from the consumer when it was last asked for.
    heard: u32,
    /// The consumer's word as last seen.
    head: u32,
    data_head: u32,
    pub(super) closed: bool,
    experience: Experience,
    /// The last push that found no room is news to the consumer.
    asked: bool,
    /// The tails when it was last told: it comes back as long as it has not taken all that lay there then.
    asked_at: u32,
    asked_at_data: u32,
    /// Leaves out the fence, so that the model can show that it notices.
    #[cfg(loom)]
    pub(crate) broken: bool,
    /// Takes no notice of a starving flag that was taken, likewise.
    #[cfg(loom)]
    pub(crate) forgets: bool,
    /// Takes what is given back for all that is taken, likewise.
    #[cfg(loom)]
    pub(crate) trusts: bool,
    /// Counts on data that are to come back however full the lane is, likewise.
    #[cfg(loom)]
    pub(crate) counts_data: bool,
    /// Leaves the last lap's count in a slot whose payload comes, likewise.
    #[cfg(loom)]
    pub(crate) leaves_count: bool,
    /// Publishes a slot before it is filled, likewise.
    #[cfg(loom)]
    pub(crate) hurries: bool,
}

impl SendLane {
    /// # Safety
    /// `place` is a lane at its beginning, of which this is the only producer; it must be mapped and
    /// allocated whenever another method is called.
    pub(crate) const unsafe fn new(place: Place) -> SendLane {
        SendLane {
            place,
            tail: 0,
            data_tail: 0,
            last: 0,
            heard: 0,
            head: 0,
            data_head: 0,
            closed: false,
            experience: Experience::new(),
            asked: false,
            asked_at: 0,
            asked_at_data: 0,
            #[cfg(loom)]
            broken: false,
            #[cfg(loom)]
            forgets: false,
            #[cfg(loom)]
            trusts: false,
            #[cfg(loom)]
            counts_data: false,
            #[cfg(loom)]
            leaves_count: false,
            #[cfg(loom)]
            hurries: false,
        }
    }

    /// Pushes one packet; its payload is copied.
    ///
    /// # Safety
    /// `payload` is readable for `len` bytes if `len` is not 0, and `len` is at most the lane's longest
    /// payload.
    #[inline]
    pub(crate) unsafe fn try_push(&mut self, header: &Header, payload: *const u8, len: usize) -> Push {
        // SAFETY: the caller's promise.
        unsafe { self.try_push_as(header, payload, len, len >= LONG) }
    }

    /// As [`try_push`](Self::try_push), of a payload of which is said whether it comes: a long one does, and one that travels in
    /// its slot does not.
    ///
    /// # Safety
    /// As there.
    // As `try_send`, in which it is.
    #[inline(always)]
    pub(crate) unsafe fn try_push_as(
        &mut self,
        header: &Header,
        payload: *const u8,
        len: usize,
        comes: bool,
    ) -> Push {
        if self.closed {
            return Push::Corrupt;
        }
        let inline = len <= wire::INLINE;
        let (start, end) = if inline {
            (self.data_tail, self.data_tail)
        } else {
            piece(self.data_tail, len as u32, self.place.shape.data)
        };
        if !self.fits(end)
            && let Some(refusal) = self.make_room(end)
        {
            return refusal;
        }
        let (meta, content) = if inline {
            let mut words = [0u64; 2];
            // SAFETY: the caller vouches for `payload`; `len` is at most 16, the size of `words`.
            unsafe { short::copy(payload, words.as_mut_ptr().cast::<u8>(), len) };
            wire::pack_inline(header, words, len)
        } else if comes {
            wire::pack_coming(header, len as u32, start)
        } else {
            let to = self.place.at(start);
            // SAFETY: `piece` keeps offset + len inside the data ring, `fits` says that the consumer has
            // given these bytes back; no reference to them exists anywhere. Pieces begin with a cache line.
            unsafe {
                std::ptr::copy_nonoverlapping(payload, to, len);
            }
            wire::pack_data(header, len as u32, start)
        };
        self.last = end.wrapping_sub(start);
        self.data_tail = end;
        // SAFETY: the lane is mapped (promise of `new`), and has a slot.
        let slot = unsafe { self.publish(meta, content) };
        if comes {
            // SAFETY: as for a payload that goes in before its stamp; the caller vouches for `payload`.
            unsafe { self.copy_in(slot, payload, self.place.at(start), len) };
        }
        Push::Sent
    }

    /// As [`try_push_as`](Self::try_push_as), of a payload that goes into the pool. [`position`](Self::position) is its packet's then.
    ///
    /// # Safety
    /// As there, and nobody else uses the piece, which is `len` bytes long.
    pub(crate) unsafe fn try_push_pooled(
        &mut self,
        header: &Header,
        payload: *const u8,
        len: usize,
        piece: &Piece,
        comes: bool,
    ) -> Push {
        if let Some(refusal) = self.slot_refusal() {
            return refusal;
        }
        if piece.cells != 0 {
            // SAFETY: the caller's promise.
            unsafe { self.push_cells(header, payload, len, piece, comes) };
            return Push::Sent;
        }
        if len >= stores::FROM && self.experience.wants_news() {
            self.learn();
        }
        if !comes {
            // SAFETY: the caller's promise.
            unsafe { self.copy_long(payload, piece.at, len) };
        }
        self.publish_pooled(header, len, piece, comes, |lane, slot| {
            // SAFETY: the caller's promise.
            unsafe { lane.copy_in(slot, payload, piece.at, len) }
        });
        self.experience.sent(self.tail, len);
        Push::Sent
    }

    /// A payload that goes into cells, whose lines this core's cache has: by plain stores, to which nothing is compared.
    ///
    /// # Safety
    /// As [`try_push_pooled`](Self::try_push_pooled).
    unsafe fn push_cells(
        &mut self,
        header: &Header,
        payload: *const u8,
        len: usize,
        piece: &Piece,
        comes: bool,
    ) {
        if !comes {
            // SAFETY: the caller's promise.
            unsafe { Stores::Plain.copy(payload, piece.at, len) };
        }
        self.publish_pooled(header, len, piece, comes, |_, slot| {
            // SAFETY: the caller's promise.
            unsafe { SendLane::copy_by(Stores::Plain, slot, payload, piece.at, len) }
        });
    }

    /// Copies a payload into a piece of the pool, for [`try_push_ahead`](Self::try_push_ahead).
    ///
    /// # Safety
    /// As [`try_push_pooled`](Self::try_push_pooled).
    pub(crate) unsafe fn copy_ahead(&mut self, payload: *const u8, len: usize, piece: &Piece) {
        if piece.cells != 0 {
            // SAFETY: the caller's promise.
            return unsafe { Stores::Plain.copy(payload, piece.at, len) };
        }
        if len >= stores::FROM && self.experience.wants_news() {
            self.learn();
        }
        // SAFETY: the caller's promise.
        unsafe { self.copy_long(payload, piece.at, len) };
    }

    /// As [`try_push_pooled`](Self::try_push_pooled), of a payload that its piece holds already.
    pub(crate) fn try_push_ahead(&mut self, header: &Header, len: usize, piece: &Piece) -> Push {
        if let Some(refusal) = self.slot_refusal() {
            return refusal;
        }
        self.publish_pooled(header, len, piece, false, |_, _| {});
        if piece.cells == 0 {
            self.experience.sent(self.tail, len);
        }
        Push::Sent
    }

    /// What a push answers that takes a slot and no data, if there is none.
    fn slot_refusal(&mut self) -> Option<Push> {
        if self.closed {
            return Some(Push::Corrupt);
        }
        if self.fits(self.data_tail) { None } else { self.make_room(self.data_tail) }
    }

    /// Publishes the slot of a payload in the pool, which is filled after that if it comes.
    #[inline]
    fn publish_pooled(
        &mut self,
        header: &Header,
        len: usize,
        piece: &Piece,
        comes: bool,
        fill: impl FnOnce(&mut SendLane, &Slot),
    ) {
        let (meta, content) = wire::pack_pooled(header, len as u32, piece.offset, comes);
        // SAFETY: the lane is mapped (promise of `new`), and has a slot, for which the caller has looked.
        let slot = unsafe { self.publish(meta, content) };
        if comes {
            fill(self, slot);
        }
    }

    /// What the consumer says that it took to copy one of the last payloads out.
    #[cold]
    fn learn(&mut self) {
        // SAFETY: the lane is mapped (promise of `new`).
        let lane = unsafe { self.place.head() };
        // SYNC POINT: Relaxed: one word. A consumer that lies has its own messages stored the slower way.
        let spent = lane.consumer.0.spent.load(Ordering::Relaxed);
        self.experience.note_out(spent as u32, spent >> 32);
    }

    /// Whether so many packets from the consumer are more than when this was asked last.
    #[inline]
    pub(crate) fn hears(&mut self, position: u32) -> bool {
        std::mem::replace(&mut self.heard, position) != position
    }

    /// How many packets were pushed.
    #[inline]
    pub(crate) fn position(&self) -> u32 {
        self.tail
    }

    /// Whether the consumer has taken out the packet after whose push the [`position`](Self::position) was this one.
    pub(crate) fn has_taken(&self, position: u32) -> bool {
        // SAFETY: the lane is mapped (promise of `new`).
        let lane = unsafe { self.place.head() };
        // SYNC POINT: Acquire pairs with the Release in `RecvLane::consume`: the payload has been read. A consumer that lies has its
        // own messages overwritten.
        let taken = lane.consumer.0.taken.load(Ordering::Acquire);
        // By what is under way, which is little: a position may be older than half of all numbers.
        self.tail.wrapping_sub(taken) <= self.tail.wrapping_sub(position)
    }

    /// Copies a payload that is to be whole before its slot is published. Apart, so that what short messages run through stays
    /// short.
    ///
    /// # Safety
    /// `payload` is readable for `len` bytes; `to` is that packet's place in the data ring.
    #[inline(never)]
    unsafe fn copy_long(&mut self, payload: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        self.experience.copy(len, |stores| unsafe { stores.copy(payload, to, len) });
    }

    /// Copies a payload whose slot is published already, and counts what is there. Apart, so that what short messages run
    /// through stays short.
    ///
    /// # Safety
    /// `payload` is readable for `len` bytes; `to` is that packet's place in the data ring.
    #[inline(never)]
    unsafe fn copy_in(&mut self, slot: &Slot, payload: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        self.experience.copy(len, |stores| unsafe { SendLane::copy_by(stores, slot, payload, to, len) });
    }

    /// # Safety
    /// As [`copy_in`](Self::copy_in).
    unsafe fn copy_by(stores: Stores, slot: &Slot, payload: *const u8, to: *mut u8, len: usize) {
        let [.., come, _] = &slot.0;
        let (mut part, most) = stores::parts(stores, len);
        let mut done = 0usize;
        while done < len {
            let run = len.wrapping_sub(done).min(part);
            // SAFETY: done + run <= len; the caller's promise. No reference to these bytes exists anywhere.
            unsafe { stores.copy(payload.add(done), to.add(done), run) };
            done = done.wrapping_add(run);
            part = part.wrapping_mul(2).min(most);
            // SYNC POINT: Release publishes the bytes; pairs with the Acquire in `Slot::come`.
            come.store(done as u64, Ordering::Release);
        }
    }

    /// Reads what the consumer has given back since. What the push answers, if that is not enough.
    #[cold]
    fn make_room(&mut self, end: u32) -> Option<Push> {
        self.refresh();
        if !self.closed && !self.fits(end) {
            // SAFETY: the lane is mapped (promise of `new`).
            let lane = unsafe { self.place.head() };
            // SYNC POINT: Relaxed load: whether to ring, no more; a flag that is taken after it is seen by the second look.
            // Then: store the flag, fence, look again; the consumer stores its word, fences, looks
            // at the flag (`wakes_producer`). By the two fences one of them sees the other's store: the
            // consumer the flag, and rings; or this side the room.
            let newly = lane.starving.0.load(Ordering::Relaxed) == 0;
            lane.starving.0.store(1, Ordering::Relaxed);
            #[cfg(loom)]
            let fenced = !self.broken;
            #[cfg(not(loom))]
            let fenced = true;
            if fenced {
                fence(Ordering::SeqCst);
            }
            self.refresh();
            if !self.closed && !self.fits(end) {
                // A flag that stands from before says that the consumer comes back, unless it has taken all that lay
                // here then and found the lane refilled when it looked at the flag.
                self.asked = newly || !self.comes_back();
                if self.asked {
                    self.asked_at = self.tail;
                    self.asked_at_data = self.data_tail;
                }
                return Some(Push::Full);
            }
        }
        self.closed.then_some(Push::Corrupt)
    }

    /// What a push of a payload of `len` bytes, more than travel in a slot and fewer than come, would answer for want of room. `None`: it would be
    /// sent.
    pub(crate) fn refusal(&mut self, len: u32) -> Option<Push> {
        if self.closed {
            return Some(Push::Corrupt);
        }
        let (_, end) = piece(self.data_tail, len, self.place.shape.data);
        if self.fits(end) { None } else { self.make_room(end) }
    }

    /// Has the consumer ring as for a push that found no room, though there is some: what its packets stand for fills something else. They have
    /// data, so that each gives something back.
    #[cold]
    pub(crate) fn starve(&mut self) {
        // SAFETY: the lane is mapped (promise of `new`).
        let lane = unsafe { self.place.head() };
        // SYNC POINT: as in `make_room`; the second look is the caller's.
        let newly = lane.starving.0.load(Ordering::Relaxed) == 0;
        lane.starving.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.refresh();
        self.asked = newly || !self.comes_back();
        if self.asked {
            self.asked_at = self.tail;
            self.asked_at_data = self.data_tail;
        }
    }

    /// Whether the consumer is sure to give something back yet of what lay here when it was last told, and to find then
    /// that this side is to be rung. Data are given back with their packet; of other slots, less than a grain may be taken
    /// and not given back. A grain, at least a quarter, leaves at most three quarters filled. A packet with data may leave
    /// more: the consumer leaves the flag alone then (`wakes_producer`), and need not look again.
    fn comes_back(&self) -> bool {
        // How far `asked` is ahead of what is given back. Beyond the tail: it is from another lap.
        let ahead = |asked: u32, head: u32, tail: u32| {
            let ahead = asked.wrapping_sub(head);
            if ahead > tail.wrapping_sub(head) { 0 } else { ahead }
        };
        let grain = self.place.shape.grain;
        #[cfg(loom)]
        let grain = if self.trusts { 1 } else { grain };
        let mostly_full = self.tail.wrapping_sub(self.head) > self.place.shape.mostly();
        #[cfg(loom)]
        let mostly_full = mostly_full && !self.counts_data;
        ahead(self.asked_at, self.head, self.tail) >= grain
            || !mostly_full && ahead(self.asked_at_data, self.data_head, self.data_tail) > 0
    }

    /// Whether a slot is free.
    #[inline]
    pub(super) fn has_slot(&self) -> bool {
        self.tail.wrapping_sub(self.head) < self.place.shape.slots
    }

    /// Whether a slot is free and the data ring has room up to `end`.
    #[inline]
    pub(super) fn fits(&self, end: u32) -> bool {
        self.has_slot() && end.wrapping_sub(self.data_head) <= self.place.shape.data
    }

    /// Reads the consumer's word; closes the lane if it is impossible.
    pub(super) fn refresh(&mut self) {
        let (head, data_head) = self.consumed();
        if head.wrapping_sub(self.head) <= self.tail.wrapping_sub(self.head)
            && data_head.wrapping_sub(self.data_head) <= self.data_tail.wrapping_sub(self.data_head)
        {
            self.head = head;
            self.data_head = data_head;
        } else {
            self.closed = true;
        }
    }

    fn consumed(&self) -> (u32, u32) {
        // SAFETY: the lane is mapped (promise of `new`).
        let lane = unsafe { self.place.head() };
        // SYNC POINT: Acquire, so that the consumer has read a slot before it is written again.
        let word = lane.consumer.0.given_back.load(Ordering::Acquire);
        (word as u32, (word >> 32) as u32)
    }

    /// Whether the push that found no room is due again: the consumer has given something back since, or has taken the
    /// starving flag. It may have done that for less room than the push needs and that this side knew of; nobody would
    /// say more unless the push sets the flag anew.
    pub(crate) fn retry_is_due(&self) -> bool {
        if self.closed {
            return false;
        }
        // SAFETY: the lane is mapped (promise of `new`).
        let lane = unsafe { self.place.head() };
        // SYNC POINT: Relaxed: who took the flag has this rank look (again) after that.
        let taken = lane.starving.0.load(Ordering::Relaxed) == 0;
        #[cfg(loom)]
        let taken = taken && !self.forgets;
        taken || self.consumed() != (self.head, self.data_head)
    }

    /// Takes the starving flag back: nothing waits for room any more that the consumer would be rung for. A consumer that has taken the flag before this rings for nothing. The next push that
    /// finds no room sets it anew.
    #[inline]
    pub(crate) fn ask_no_more(&mut self) {
        // SAFETY: the lane is mapped (promise of `new`).
        let lane = unsafe { self.place.head() };
        // SYNC POINT: Relaxed, both: nothing is read or written by virtue of a flag that is not set, and who sets it fences after that.
        if lane.starving.0.load(Ordering::Relaxed) != 0 {
            lane.starving.0.store(0, Ordering::Relaxed);
        }
    }

    /// Whether the consumer has taken out all that was pushed: it need not be told of it. The caller publishes nothing by it.
    #[inline]
    pub(crate) fn is_emptied(&self) -> bool {
        self.taken() == self.tail
    }

    /// How many packets the consumer has taken out, as it says. Nothing is read or written by virtue of it.
    #[inline]
    pub(super) fn taken(&self) -> u32 {
        // SAFETY: the lane is mapped (promise of `new`).
        let lane = unsafe { self.place.head() };
        // SYNC POINT: Relaxed: what the consumer took it has seen, whatever else is visible here. A consumer that lies is not rung.
        lane.consumer.0.taken.load(Ordering::Relaxed)
    }

    /// How many messages the consumer has received that it had taken out before, as it says: as [`taken`](Self::taken).
    #[inline]
    pub(super) fn handed(&self) -> u32 {
        // SAFETY: the lane is mapped (promise of `new`).
        let lane = unsafe { self.place.head() };
        // SYNC POINT: Relaxed, as in `taken`.
        lane.consumer.0.handed.load(Ordering::Relaxed)
    }

    /// Whether the consumer is to be rung for the last push that found no room: it may have been told of nothing that lies
    /// here, and what is behind may be urgent. Once for what a lane holds.
    pub(crate) fn has_asked(&self) -> bool {
        self.asked
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// As if so much had gone through already.
    #[cfg(test)]
    pub(crate) fn start_at(&mut self, position: u32, data: u32) {
        (self.tail, self.head, self.data_tail, self.data_head) = (position, position, data, data);
        (self.asked_at, self.asked_at_data) = (position, data);
    }
}
