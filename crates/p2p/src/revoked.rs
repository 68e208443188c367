//! Revoked communicators: who is told, and who tells.

use tocsin_progress::Budget;
use tocsin_transport::{Header, SHOUTS, SendOutcome, Transport, kind};

use crate::P2p;
use crate::urgency::Tells;

/// Revocations that wait for a full Control lane, per peer; beyond them those are not repeated that a handler has to tell.
pub(crate) const REVOKES: usize = 16;

impl<T: Transport> P2p<T> {
    /// Revokes a communicator, both halves of its context: its requests here end with [`Revoked`](crate::Code::Revoked), its unexpected
    /// messages are dropped, and the members are told, so that theirs end too. User threads only: it allocates. When
    /// it returns, of the communicator's requests only those are pending whose peer is just copying from or to their buffer;
    /// they end as soon as it has finished that piece.
    pub fn revoke(&mut self, context: u32, members: &[u32]) {
        self.contexts.make_room();
        if self.contexts.revoke(context) != Some(true) {
            return;
        }
        let mut unheard = false;
        for rank in members.iter().copied() {
            if rank == self.me {
                continue;
            }
            // Memory refused for a peer's lanes means that nothing was ever exchanged with it, but it may wait for that.
            if self.prepare_peer(rank, 0).is_err() {
                unheard = true;
                continue;
            }
            let Some(peer) = self.peers.get_mut(rank as usize) else { continue };
            if peer.fate.no_more_to().is_none() && peer.revokes.push(context) {
                self.owed = self.owed.wrapping_add(1);
                self.outgoing.insert(rank);
                self.retry_revokes(rank);
            }
        }
        if unheard {
            self.transport.shout(context);
        }
        self.faults.restart();
        while self.faults.is_sweeping() {
            self.sweep(&mut Budget::user());
        }
        self.again = true;
    }

    /// A peer says that a communicator is revoked. None: it floods.
    pub(crate) fn revoked_by(&mut self, context: u32) -> Option<()> {
        if !self.contexts.is_gone(context) && self.contexts.revoke(context)? {
            self.faults.restart();
        }
        Some(())
    }

    /// A peer still waits in a communicator that is revoked here. Whether it is told, now or as soon as there is room.
    pub(crate) fn tell_revoked(&mut self, rank: u32, context: u32) -> bool {
        let Some(peer) = self.peers.get_mut(rank as usize) else { return false };
        if peer.fate.no_more_to().is_some() {
            return false;
        }
        if peer.revokes.contains(context) {
            return true;
        }
        let told = peer.revokes.try_push(context);
        if told {
            self.owed = self.owed.wrapping_add(1);
            self.outgoing.insert(rank);
            self.retry_revokes(rank);
        }
        told
    }

    /// Sends the revocations that a peer must be told. False: the lane is full.
    pub(crate) fn retry_revokes(&mut self, rank: u32) -> bool {
        while let Some(context) = self.peers.get(rank as usize).and_then(|p| p.revokes.last()) {
            let header = Header { kind: kind::REVOKE, context, ..Header::default() };
            if self.transmit_control(rank, Tells::GivenUp, &header) == SendOutcome::Full {
                return false;
            }
            if let Some(peer) = self.peers.get_mut(rank as usize) {
                peer.revokes.pop();
            }
            self.owed = self.owed.saturating_sub(1);
        }
        true
    }

    /// Whether a communicator is revoked, here or by a peer that said so. Handler-safe.
    pub fn is_revoked(&self, context: u32) -> bool {
        self.contexts.is_revoked(context)
    }

    /// Learns which communicators a peer has revoked that has no lane to tell this rank.
    pub(crate) fn hear_revoked(&mut self, peer: u32) {
        for at in 0..SHOUTS {
            // Parts of one communicator have the same context: those of others are not this rank's. Of one that is yet to be made here, it is asked again then.
            if let Some(context) = self.transport.shouted(peer, at)
                && self.contexts.has_member(context, peer)
            {
                // Where there is no room for more, it is heard of by who sends there.
                let _no_room = self.revoked_by(context);
            }
        }
    }
}
