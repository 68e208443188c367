//! Which lane a packet goes into, and what follows when it was put there, or was not.

use tocsin_transport::{Class, Header, SendOutcome, Urgency};

use super::known::has;
use super::peer::{Honesty, Peer};
use super::ring::enlist;
use super::{ShmTransport, bit};
use crate::Life;
use crate::lane::Push;

impl ShmTransport {
    /// What follows a push that was refused.
    #[cold]
    fn not_sent(&mut self, peer: u32, class: Class, push: Push) -> SendOutcome {
        let Some(state) = self.peers.get_mut(peer as usize) else { return SendOutcome::Gone };
        if push == Push::Corrupt {
            state.close(Honesty::Caught);
            return SendOutcome::Gone;
        }
        state.starved |= bit(class);
        self.starved = true;
        if state.send_lane(class).has_asked() {
            // Plain packets that did not ring are in the way of others.
            state.sent = true;
            state.renewed = true;
            state.urgency = Urgency::Urgent;
            self.mark_dirty(peer);
        }
        SendOutcome::Full
    }

    /// See [`Transport::filled`](tocsin_transport::Transport::filled).
    #[inline]
    pub(super) fn fullness(&mut self, peer: u32, class: Class) -> Option<u32> {
        let known = has(&self.known, peer);
        let state = self.peers.get_mut(peer as usize).filter(|state| {
            known && (class != Class::Bulk || state.bulk) && state.honesty == Honesty::Honest
        })?;
        state.send_lane(class).filled()
    }

    /// What is kept of a peer, if such a packet may be put into its lane.
    #[inline(always)]
    pub(super) fn lane_to(
        &mut self,
        peer: u32,
        class: Class,
        header: &Header,
        len: usize,
    ) -> Option<&mut Peer> {
        let known = has(&self.known, peer);
        let state = self.peers.get_mut(peer as usize)?;
        let ready = known && (class != Class::Bulk || state.bulk) && state.honesty == Honesty::Honest;
        if !ready || header.kind == 0 || len > self.capabilities.max_payload(class) {
            return None;
        }
        if matches!(self.segment.life(peer), Life::Finalized | Life::Dead) { None } else { Some(state) }
    }

    /// A packet was put into a peer's lane, or was not.
    #[inline(always)]
    pub(super) fn pushed(&mut self, peer: u32, class: Class, urgency: Urgency, push: Push) -> SendOutcome {
        let Some(state) = self.peers.get_mut(peer as usize) else { return SendOutcome::Gone };
        if push != Push::Sent {
            return self.not_sent(peer, class, push);
        }
        state.sent = true;
        state.renewed = true;
        state.untaken |= bit(class);
        state.urgency = state.urgency.max(urgency);
        enlist(&mut self.dirty, &mut self.dirty_len, state, peer);
        SendOutcome::Sent
    }
}
