//! Short plain messages from and to threads that do nothing else meanwhile: no request, no queue, and nothing left behind for the stay inside the engine
//! to see to.
//!
//! What is in the way of that (a message or receive that would be first, a peer that has ended, a full lane, a trace) is asked for once, and left to
//! [`send_now`](P2p::send_now) and [`take_in_hand`](P2p::take_in_hand), which know what to do.

use core::ptr::NonNull;

use tocsin_progress::{Completion, Context, Id};
use tocsin_transport::short::{LONGEST, Put, Took, Wanted};
use tocsin_transport::{Class, Transport};

use crate::in_hand::{Hand, MET_PER_LOOK};
use crate::pattern::Pattern;
use crate::peer::Fate;
use crate::receive::POSTED_PER_PASS;
use crate::request::State;
use crate::{Layout, P2p, coming};

/// What [`post_at_once`](P2p::post_at_once) came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum AtOnce {
    /// Nothing was done.
    Not,
    /// The receive waits for its message.
    Posted(Id, NonNull<Completion>),
    /// The message is in the buffer; there is no request.
    Met {
        /// Its tag.
        tag: i32,
        /// Its length in bytes.
        bytes: usize,
    },
}

impl<T: Transport> P2p<T> {
    /// Says that ranks share cores. What is longer than a packet of one cache line goes at once, too, then: up to [`LONGEST`] bytes. Where both ends run, the general way is as quick for
    /// that: the receiver waits for the lines all the same, and copies out what is still copied in. Long messages go the way that keeps the cores busy for less, and who only posts
    /// a receive in a collective does not ask for pieces of them, unless it [will wait](Self::set_waits_soon). Before the first message.
    pub fn set_crowded(&mut self) {
        self.at_once = LONGEST;
        self.ways.set_crowded();
    }

    /// Longest message that goes [at once](Self::send_at_once), in bytes.
    #[inline(always)]
    pub fn longest_at_once(&self) -> usize {
        self.at_once
    }

    /// What is in the way of messages of this length at once, whoever the peer is.
    #[inline(always)]
    fn is_plain_sailing(&self, len: usize) -> bool {
        let [longest, _] = self.eager_max;
        len <= longest
            && !self.contexts.some_revoked()
            && self.trace.is_none()
            && self.faults.epoch() == self.transport.epoch()
    }

    /// Sends a plain message, if that can be done at once and is short. User threads only; copies at most
    /// [`LONGEST`] bytes.
    ///
    /// # Safety
    /// `payload` is readable for `len` bytes during the call.
    #[inline(always)]
    pub unsafe fn send_at_once(
        &mut self,
        context: u32,
        dest: u32,
        tag: i32,
        payload: *const u8,
        len: usize,
    ) -> Put {
        if len > self.at_once || !self.is_plain_sailing(len) {
            return Put::Not;
        }
        let Some(peer) = self.peers.made_mut(dest as usize) else { return Put::Not };
        let [waiting, _] = &peer.queues;
        if !peer.connected || peer.fate != Fate::Alive || !waiting.is_empty() {
            return Put::Not;
        }
        // SAFETY: the caller vouches for the payload.
        let put = unsafe { self.transport.put_short(dest, context, tag, payload, len) };
        if put != Put::Not {
            peer.published.put = peer.published.put.wrapping_add(1);
            self.context = Context::User;
            self.count_sent(len);
        }
        put
    }

    /// Posts a receive of a plain message, if nothing is in the way, and what comes for it travels in one packet; or ends it at once, if its message has come. [`AtOnce::Not`]: nothing was done, and [`irecv`](Self::irecv) knows why; so it is for one in so many, [which owes a pass](Self::owes_a_pass). User
    /// threads only; allocates nothing.
    ///
    /// # Safety
    /// As [`irecv`](Self::irecv), of a buffer of `room` bytes.
    #[inline(always)]
    pub unsafe fn post_at_once(
        &mut self,
        context: u32,
        source: u32,
        tag: Option<i32>,
        base: *mut u8,
        room: usize,
    ) -> AtOnce {
        let [plain, _] = &self.matching;
        if self.posted_since.wrapping_add(1) >= POSTED_PER_PASS
            || self.blocked != 0
            || self.faults.is_draining()
            || plain.posted.is_crowded()
            || !self.is_plain_sailing(room)
        {
            return AtOnce::Not;
        }
        let pattern = Pattern::new(context, Some(source), tag);
        if !plain.unexpected.is_empty() {
            // SAFETY: the caller vouches for the buffer.
            if let Some(met) = unsafe { self.receive_kept(source, &pattern, base, room) } {
                return met;
            }
        }
        let Some(peer) = self.peers.made_mut(source as usize) else { return AtOnce::Not };
        if peer.fate != Fate::Alive || !self.transport.prepare_rings(source) {
            return AtOnce::Not;
        }
        let Some((id, request, completion)) = self.requests.alloc_used() else { return AtOnce::Not };
        self.sequence = self.sequence.wrapping_add(1);
        request.base = base;
        request.layout = Layout::Contiguous { bytes: room };
        request.cookie = 0;
        request.sequence = self.sequence;
        request.total = 0;
        request.done = 0;
        request.remote = 0;
        request.set_pattern(&pattern);
        request.serial = request.serial.wrapping_add(1);
        request.class = Class::Eager;
        request.state = State::RecvPosted;
        // SAFETY: it lies in a slab that lives as long as this.
        unsafe { completion.as_ref() }.reset();
        let [plain, _] = &mut self.matching;
        plain.posted.insert(&mut self.requests, id, &pattern);
        peer.stopped &= !coming::bit(Class::Eager);
        peer.published.posted = peer.published.posted.wrapping_add(1);
        self.receives = self.receives.wrapping_add(1);
        self.posted_since = self.posted_since.wrapping_add(1);
        self.context = Context::User;
        AtOnce::Posted(id, completion)
    }

    /// Receives the message of `source` that was kept for a pattern, if it is a plain one. `None`: none was kept.
    ///
    /// # Safety
    /// `base` is writable for `room` bytes.
    #[inline]
    unsafe fn receive_kept(
        &mut self,
        source: u32,
        pattern: &Pattern,
        base: *mut u8,
        room: usize,
    ) -> Option<AtOnce> {
        let [plain, _] = &mut self.matching;
        let message = plain.unexpected.find(pattern)?;
        // SAFETY: the caller vouches for the buffer.
        let Some((tag, bytes)) = (unsafe { plain.unexpected.hand_over(message, base, room) }) else {
            return Some(AtOnce::Not);
        };
        self.freed = self.freed.wrapping_add(1);
        self.transport.note_handed(source, Class::Eager);
        self.posted_since = self.posted_since.wrapping_add(1);
        self.context = Context::User;
        self.count_copy(bytes);
        Some(AtOnce::Met { tag, bytes })
    }

    /// Whether a receive of `room` bytes may take its message [at once](Self::receive_at_once): nothing that has come, and no receive that was posted, can be
    /// first, as long as nobody leaves the engine or makes a pass. User threads only.
    #[inline(always)]
    pub fn can_receive_at_once(&self, source: u32, room: usize) -> bool {
        let [plain, _] = &self.matching;
        let open = |peer: &crate::peer::Peer| {
            peer.fate == Fate::Alive && peer.is_open(0) && !peer.published.is_there()
        };
        // What is longer would be found out only when it is there, and go the general way from its beginning.
        (room <= self.at_once || !self.expects_longer)
            && self.is_plain_sailing(room)
            && self.blocked == 0
            && plain.unexpected.is_empty()
            && plain.posted.is_empty()
            && matches!(self.hand, Hand::Empty)
            && !self.is_look_due()
            && self.peers.made(source as usize).is_some_and(open)
    }

    /// Has what the answer to a message of `source` is written to fetched: for who finds that the message takes a while. User threads only.
    #[inline]
    pub fn will_answer_to(&self, source: u32) {
        self.transport.will_answer(source, Class::Eager);
    }

    /// Whether the next receive that is met owes a look at everything else, which [`can_receive_at_once`](Self::can_receive_at_once) refuses to do without.
    #[inline(always)]
    pub fn is_look_due(&self) -> bool {
        self.met_in_hand.wrapping_add(1) >= MET_PER_LOOK
    }

    /// The look found nothing [beside the lane](Self::work_left_beside) of who receives.
    #[inline]
    pub fn note_looked(&mut self) {
        self.met_in_hand = 0;
    }

    /// Takes the next message of a source if it is the one, and short. Looks at most `looks` times whether there is any. User threads only; copies
    /// at most [`LONGEST`] bytes.
    ///
    /// # Safety
    /// [`can_receive_at_once`](Self::can_receive_at_once) has said so of this source and room since the engine was entered, and no pass was made since. `to` is
    /// writable for `room` bytes during the call.
    #[inline(always)]
    pub unsafe fn receive_at_once(
        &mut self,
        source: u32,
        wanted: Wanted,
        to: *mut u8,
        room: usize,
        looks: u32,
    ) -> Took {
        // SAFETY: the caller vouches for the buffer.
        let took = unsafe { self.transport.take_short(source, wanted, to, room.min(self.at_once), looks) };
        self.expects_longer = took == Took::Other;
        if let Took::Message { len, .. } = took {
            if let Some(peer) = self.peers.made_mut(source as usize) {
                peer.published.taken = peer.published.taken.wrapping_add(1);
            }
            self.met_in_hand = self.met_in_hand.wrapping_add(1);
            self.context = Context::User;
            self.count_copy(len);
            self.count_packet(len);
        }
        took
    }
}
