//! What lies at the head of a peer's lane.

use tocsin_transport::{Class, Packet, Recv};

use super::ShmTransport;
use super::known::has;
use super::peer::Honesty;
use crate::lane::{Peek, RecvLane};

impl ShmTransport {
    /// What one of the peeks says of a peer's lane.
    #[inline(always)]
    pub(super) fn look(&mut self, peer: u32, class: Class, peek: impl FnOnce(&mut RecvLane) -> Peek) -> Recv {
        let known = if class == Class::Bulk { &self.known_bulk } else { &self.known };
        if !has(known, peer) {
            return Recv::Empty;
        }
        let Some(state) = self.peers.get_mut(peer as usize) else { return Recv::Empty };
        if state.honesty == Honesty::Caught {
            state.honesty = Honesty::Told;
            return Recv::Corrupt;
        }
        match peek(state.recv_lane(class)) {
            Peek::Empty => Recv::Empty,
            Peek::Packet(header, len, payload) => Recv::Packet(Packet { header, payload, len }),
            Peek::Corrupt => {
                state.close(Honesty::Told);
                Recv::Corrupt
            }
        }
    }
}
