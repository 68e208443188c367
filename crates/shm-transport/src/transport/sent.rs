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

#[cfg(test)]
mod tests {
    use tocsin_transport::{Recv, Transport as _, conformance};

    use super::*;
    use crate::lane::{ALONE, LONG};
    use crate::transport::tests::world;

    /// Sends one packet from rank 0 to rank 1, which takes it out. Whether it came.
    fn comes(ends: &mut [ShmTransport], class: Class, n: u64, len: usize) -> bool {
        assert_eq!(conformance::send(&mut ends[0], 1, class, n, len), SendOutcome::Sent);
        ends[1].begin_pass();
        let comes = matches!(ends[1].peek_coming(0, class), Recv::Packet(_));
        assert!(conformance::receive(&mut ends[1], 0, class, n));
        comes
    }

    #[test]
    fn an_answer_comes_and_what_follows_it_does_not() {
        let mut ends = world(2);
        ends[0].connect(1).unwrap();
        for (n, class) in [Class::Eager, Class::Coll].into_iter().enumerate() {
            let n = 10 * n as u64;
            assert!(!comes(&mut ends, class, n, ALONE), "nothing was heard of it");
            for round in 0..2 {
                assert_eq!(conformance::send(&mut ends[1], 0, class, n + round, 8), SendOutcome::Sent);
                ends[0].begin_pass();
                assert!(conformance::receive(&mut ends[0], 1, class, n + round));
                assert!(!comes(&mut ends, class, n + 1 + 4 * round, ALONE - 1), "it is short");
                assert!(comes(&mut ends, class, n + 2 + 4 * round, ALONE));
                assert!(!comes(&mut ends, class, n + 3 + 4 * round, LONG - 1), "it is the second");
                assert!(comes(&mut ends, class, n + 4 + 4 * round, LONG));
            }
        }
    }
}
