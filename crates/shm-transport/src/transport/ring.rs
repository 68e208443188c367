//! Who is to be told something, and by which bell.

use tocsin_doorbell::{BackendKind, RingOutcome, hold_back, is_held, is_left_alone, release, remind, ring};
use tocsin_sync::atomic::{Ordering, fence};
use tocsin_sync::sparse::{Sparse, Words};
use tocsin_transport::Urgency;

use super::ShmTransport;
use super::known::has;
use super::peer::{Bell, Peer};
use crate::Segment;

/// Vectors below the doorbell's own.
const VECTORS: u32 = tocsin_doorbell::VECTOR_WAKE as u32;

impl ShmTransport {
    /// See [`Transport::begin_pass`](tocsin_transport::Transport::begin_pass).
    #[inline]
    pub(super) fn take_back_marks(&mut self) {
        let epoch = self.segment.epoch();
        let mut cleared = self.own.take() != 0 || self.seen_epoch != epoch;
        self.seen_epoch = epoch;
        self.learn();
        if self.starved {
            self.starved = false;
            for peer in self.connected.iter().take(self.connected_len) {
                if let Some(state) = self.peers.get_mut(*peer as usize) {
                    state.starved = 0;
                }
            }
        }
        for peer in self.connected.iter().take(self.connected_len) {
            if let Some(state) = self.peers.get(*peer as usize) {
                // SAFETY: the pair is connected, so that its head is allocated; it is made of atomics.
                cleared |= unsafe { (*state.from).mark.0.clear_if_set() };
            }
        }
        if let Some(block) = self.segment.block(self.rank).filter(|_| self.segment.has_boards()) {
            for mark in block.marks.0.iter().take(self.segment.ranks() as usize) {
                cleared |= mark.clear_if_set();
            }
        }
        if cleared {
            // SYNC POINT: a sender publishes, fences, reads its mark; here the mark is cleared, fence, the lanes
            // are read. A ring that the mark suppressed is for a packet that the peeks to come will see. The same
            // fence orders `own.take` and the epoch before the look. Where nothing was cleared, nothing that
            // suppresses a ring was taken away.
            fence(Ordering::SeqCst);
        }
    }

    /// See [`Transport::would_signal`](tocsin_transport::Transport::would_signal).
    #[inline]
    pub(super) fn would_interrupt(&self, peer: u32) -> bool {
        let Some(block) = self.segment.block(peer) else { return false };
        let attention = block.descriptor.attention();
        block.descriptor.backend() == Some(BackendKind::Signal)
            && attention.pollers() == 0
            && attention.sleepers() == 0
            && !attention.throttled()
            && attention.tid() != 0
            && !block.descriptor.computes()
    }

    /// See [`Transport::prepare_rings`](tocsin_transport::Transport::prepare_rings).
    #[inline]
    pub(super) fn knows_bell(&mut self, peer: u32) -> bool {
        let is_known = |peers: &Sparse<Peer>| {
            peers.get(peer as usize).is_some_and(|state| !matches!(state.bell, Bell::Unknown))
        };
        is_known(&self.peers) || {
            self.learn_bell(peer);
            is_known(&self.peers)
        }
    }

    /// Looks how a peer is rung.
    #[cold]
    fn learn_bell(&mut self, peer: u32) {
        let segment = self.segment.clone();
        let Some(theirs) = segment.block(peer) else { return };
        let bell = match theirs.descriptor.backend() {
            None => Bell::Unknown,
            Some(BackendKind::Uintr) => match tocsin_doorbell::connect(&theirs.descriptor) {
                Ok(connection) => Bell::Connected(connection),
                Err(tocsin_doorbell::Error::NotInstalled) => Bell::Unknown,
                // Rings go by signal then, as the doorbell's text says; asking again would not help.
                Err(_) => {
                    self.rings.refused = self.rings.refused.wrapping_add(1);
                    Bell::Plain
                }
            },
            Some(_) => Bell::Plain,
        };
        if let Some(state) = self.make_peer(peer) {
            state.bell = bell;
        }
    }

    /// What [`ring_dirty`](Self::ring_dirty) comes to for most stays inside: something was sent to one peer, who is left alone. Whether it
    /// was so; if not, nothing is said yet.
    #[inline]
    pub(super) fn leaves_all_alone(&mut self) -> bool {
        let (1, Some(peer)) = (self.dirty_len, self.dirty.first()) else { return false };
        let Some(state) = self.peers.get_mut(*peer as usize) else { return false };
        // Room that was made, and what was begun before, are `ring_dirty`'s to see to.
        if !state.sent || state.held || state.unanswered || state.consumed != 0 || self.retry {
            return false;
        }
        // SYNC POINT: publish (stamps), fence, then read the attention word, as in `ring_dirty`.
        fence(Ordering::SeqCst);
        // SAFETY: the block of a rank is always allocated, made of atomics, and outlives the endpoint. The fence is the one that is asked for.
        let descriptor = unsafe { &(*state.block).descriptor };
        let urgency = urgency_after_fence(&self.segment, self.rank, *peer, state);
        if !is_left_alone(descriptor, urgency) {
            return false;
        }
        (state.sent, state.dirty, state.renewed, state.announced) = (false, false, false, false);
        state.urgency = Urgency::Plain;
        self.unanswered = false;
        self.dirty_len = 0;
        true
    }

    /// Rings whom there is something to say to; with `hold`, no one by signal. Whether somebody is left.
    pub(super) fn ring_dirty(&mut self, hold: bool) -> bool {
        // SYNC POINT: publish (stamps, consumers' words), fence, then read marks, attention words and
        // starving flags: the sender's half of the doorbell's protocol and the consumer's half of the lanes',
        // for all peers at once.
        fence(Ordering::SeqCst);
        self.retry = false;
        self.unanswered = false;
        let listed = self.dirty_len;
        let (mut kept, mut holds) = (0usize, false);
        for i in 0..listed {
            let Some(peer) = self.dirty.get(i).copied() else { break };
            let Some(state) = self.peers.get_mut(peer as usize) else { continue };
            // SAFETY: the pair is connected, so that its head is allocated, or the peer is rung for a board, in a world small
            // enough for a mark in the block; the block of a rank is always allocated. Both
            // are made of atomics and outlive the endpoint. The fence above is the one that `ring` and `hold_back` ask for.
            let (descriptor, mark) = unsafe {
                let block = &*state.block;
                // A peer that is rung for a board need not be connected. What was held back or not answered goes on by the mark that it
                // was begun with.
                if !state.held && !state.unanswered {
                    state.marks_block = !has(&self.known, peer);
                }
                let unconnected = block.marks.0.get(self.rank as usize).filter(|_| state.marks_block);
                (&block.descriptor, unconnected.unwrap_or_else(|| &(*state.to).mark.0))
            };
            state.urgency = urgency_after_fence(&self.segment, self.rank, peer, state);
            // Who waits for room has requests that cannot go on: that is urgent, and not held back.
            let frees = state.takes_waiting_sender();
            if state.held {
                // Who looks now sees all that was sent; who has looked, all but what was sent after that. Who took it out may have
                // done so before the mark was set.
                state.sent = descriptor.attention().pollers() == 0
                    && (state.renewed || mark.is_set())
                    && (state.announced || !state.is_emptied());
                state.held = hold
                    && !frees
                    && state.sent
                    && !state.renewed
                    && is_held(descriptor, mark, state.urgency);
                if !state.held {
                    release(mark);
                }
            }
            state.renewed = false;
            if hold && state.sent && !state.held && !frees {
                state.held = hold_back(descriptor, mark, state.urgency);
            }
            if state.held {
                holds = true;
                if let Some(entry) = self.dirty.get_mut(kept) {
                    *entry = peer;
                    kept = kept.wrapping_add(1);
                }
                continue;
            }
            let urgency = if frees { Urgency::Urgent } else { state.urgency };
            let vector = (self.rank % VECTORS) as u8;
            let outcome = if state.sent || frees {
                Some(ring(descriptor, mark, vector, urgency))
            } else if state.unanswered {
                remind(descriptor, mark, vector, Urgency::Urgent)
            } else {
                None
            };
            if let Some(outcome) = outcome.filter(|o| o.rang()) {
                let by_user_interrupt =
                    outcome == RingOutcome::Rang && matches!(state.bell, Bell::Connected(_));
                let count = if by_user_interrupt {
                    &mut self.rings.by_user_interrupt
                } else {
                    &mut self.rings.by_signal
                };
                *count = count.wrapping_add(1);
            }
            let again = outcome == Some(RingOutcome::Retry);
            // A user interrupt waits where a signal does not: until the peer has looked, it may need the other.
            state.unanswered = outcome.is_some_and(|o| o.rang() || o == RingOutcome::Suppressed)
                && descriptor.backend() == Some(BackendKind::Uintr);
            self.unanswered |= state.unanswered;
            state.dirty = again || state.unanswered;
            // What must be said stays to be said: `sent` stands for any reason to ring.
            state.sent = again;
            // Room that was made is news, too, whatever the lanes hold.
            state.announced = again && (state.announced || frees);
            state.urgency = if again { urgency } else { Urgency::Plain };
            self.retry |= again;
            if state.dirty
                && let Some(entry) = self.dirty.get_mut(kept)
            {
                *entry = peer;
                kept = kept.wrapping_add(1);
            }
        }
        self.dirty_len = kept;
        holds
    }

    #[inline]
    pub(super) fn mark_dirty(&mut self, peer: u32) {
        if let Some(state) = self.peers.get_mut(peer as usize) {
            enlist(&mut self.dirty, &mut self.dirty_len, state, peer);
        }
    }
}

/// How much what was sent to a peer matters to it. One that has a receive published for this rank waits for an announcement, whatever its attention word
/// says. The caller has executed a SeqCst fence since the last packet was published.
#[inline]
pub(super) fn urgency_after_fence(segment: &Segment, rank: u32, peer: u32, state: &Peer) -> Urgency {
    if state.urgency != Urgency::Offer || !state.bulk {
        return state.urgency;
    }
    // SAFETY: Bulk to the peer is connected, so that what it publishes for this rank is allocated; it is made of atomics, and outlives the endpoint.
    let waits = segment.publication(rank, peer).is_some_and(|at| unsafe { at.as_ref() }.is_open());
    if waits { Urgency::Urgent } else { Urgency::Offer }
}

/// Lists a peer for the next flush.
#[inline]
pub(super) fn enlist(dirty: &mut Words, len: &mut usize, state: &mut Peer, peer: u32) {
    if !state.dirty {
        state.dirty = true;
        // Each peer is listed once, so that there is always room.
        if let Some(entry) = dirty.get_mut(*len) {
            *entry = peer;
            *len = len.wrapping_add(1);
        }
    }
}
