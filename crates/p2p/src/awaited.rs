//! What senders are told of receives that threads wait for, or are expected to: what is long had better be copied by both at once then.
//!
//! | a receive | its sender is told | until |
//! |---|---|---|
//! | in hand, its thread looks for it inside the engine | so | it is put down |
//! | posted, its thread waits for it alone | so, and believes it while the rank is seen waiting | it ends |
//! | posted by a thread that is expected to wait for it right after | so | it is met, or something else was brought in vain |
//!
//! It binds neither side. A receiver that computes after all takes what is announced as it always does; a sender that reads an old word sends as it would otherwise.

use tocsin_progress::Id;
use tocsin_transport::{Awaits, Class, Reach, Transport};

use crate::P2p;
use crate::request::{SOON, State};

impl<T: Transport> P2p<T> {
    /// Says to the sender of a posted receive that the thread which posted it waits for that alone, until it ends. User threads only.
    pub fn await_posted(&mut self, id: Id) {
        let Some(source) = self.source_to_tell(id).filter(|_| self.awaits.is_none()) else { return };
        let buf = self.requests.get(id).map(|request| request.target_buf());
        if buf.is_some_and(|buf| self.may_be_awaited(source, &buf)) {
            self.awaits = Some((source, Some(id)));
            self.tell_what_is_awaited(source);
        }
    }

    /// The receive in hand looks for what comes from a source. False: another thread's receive does, and is heard of alone.
    pub(crate) fn await_in_hand(&mut self, source: u32) -> bool {
        if self.awaits.is_some() {
            return false;
        }
        self.awaits = Some((source, None));
        self.tell_what_is_awaited(source);
        true
    }

    /// This receive, or the one in hand, looks for what comes no more.
    #[inline]
    pub(crate) fn await_no_more(&mut self, by: Option<Id>) {
        if let Some((source, who)) = self.awaits
            && who == by
        {
            self.awaits = None;
            self.tell_what_is_awaited(source);
        }
    }

    /// What was brought is not taken as it comes, but declined: whoever was expected to wait for what this peer sends does something else. It is told so, until another receive is posted
    /// that is waited for soon. Handler-safe.
    pub(crate) fn await_soon_in_vain(&mut self, source: u32) {
        if let Some(peer) = self.peers.get_mut(source as usize).filter(|peer| peer.soon > 0) {
            (peer.soon, peer.soon_after) = (0, self.sequence);
            self.tell_what_is_awaited(source);
        }
    }

    /// A long receive was posted by a thread that waits for it next, or is expected to.
    pub(crate) fn await_soon(&mut self, id: Id) {
        let Some(source) = self.source_to_tell(id) else { return };
        if let (Some(request), Some(peer)) = (self.requests.get_mut(id), self.peers.get_mut(source as usize))
        {
            request.flags |= SOON;
            peer.soon = peer.soon.wrapping_add(1);
            // What was brought in vain since this one was begun was for those before it.
            peer.soon_after = peer.soon_after.min(request.sequence.wrapping_sub(1));
            self.tell_what_is_awaited(source);
        }
    }

    /// A receive of which its sender was told [that](Self::await_soon) is not posted any more. Handler-safe.
    pub(crate) fn await_soon_no_more(&mut self, id: Id) {
        let Some(request) = self.requests.get(id) else { return };
        let (source, sequence) = (request.peer, request.sequence);
        if let Some(peer) = self.peers.get_mut(source as usize).filter(|peer| sequence > peer.soon_after) {
            peer.soon = peer.soon.saturating_sub(1);
            self.tell_what_is_awaited(source);
        }
    }

    /// Who may send what a posted receive is for, if that is one rank that it is worth telling of it.
    fn source_to_tell(&mut self, id: Id) -> Option<u32> {
        let request = self.requests.get(id)?;
        let source = request.peer;
        let told = request.state == State::RecvPosted
            && request.class == Class::Eager
            && self.transport.is_connected(source)
            // Between threads one copy is quicker than two.
            && self.transport.reach(source) != Reach::Direct;
        told.then_some(source)
    }

    fn tell_what_is_awaited(&mut self, source: u32) {
        let soon = self.peers.get(source as usize).is_some_and(|peer| peer.soon > 0);
        let awaits = match self.awaits {
            Some((from, None)) if from == source => Awaits::Looking,
            _ if soon => Awaits::Soon,
            Some((from, Some(_))) if from == source => Awaits::Waiting,
            _ => Awaits::Nothing,
        };
        self.transport.await_coming(source, awaits);
    }
}
