//! Buffers of which the kernel is told before it copies from them, where that is how two ranks reach each other ([`Reach::Region`]).
//!
//! A sender has its buffer exposed when it offers the message, says the key in the announcement, and takes it back when its record serves another. The
//! receiver copies all: a key may come to stand for another buffer of the sender's, and who reads by an old one reads what is thrown away, because the record that it
//! claims by has another ticket, or is closed; who wrote by one would write into what is somebody else's by now. So receives are published to those alone who reach
//! their buffers by address. All of that as long as the device has a key stand for one buffer until that is taken back, as it says.
//!
//! **What it takes** is a call of the kernel's for each buffer, which looks at each of its pages. Handlers tell of no more than [`BY_HANDLER`] bytes, and
//! what is longer goes by what is left.

use tocsin_progress::{Context, Id};
use tocsin_transport::{Reach, Transport};

use crate::P2p;

/// Longest buffer in bytes of which a handler tells the kernel: 64 pages. Of four it may before it looks at its clock.
const BY_HANDLER: u64 = 256 << 10;

impl<T: Transport> P2p<T> {
    /// Whether a receiver may take a message of this rank's that it does not reach as this rank reaches it.
    pub(crate) fn is_pulled_otherwise(&self, peer: u32, address: u64, total: u64) -> bool {
        self.transport.is_shared_with(peer, address, total) || self.transport.has_pipe_to(peer)
    }

    /// How this rank copies to or from an address of a peer's.
    pub(crate) fn reach_by_address(&mut self, peer: u32, address: u64, len: u64) -> Reach {
        match self.transport.reach_at(peer, address, len) {
            Reach::Region => Reach::None,
            reach => reach,
        }
    }

    /// Exposes the buffer of a send that is about to be offered, unless the receiver has that mapped: its key, or 0.
    pub(crate) fn expose_offered(&mut self, id: Id, slot: u8, ticket: u32) -> u64 {
        let Some(request) = self.requests.get(id) else { return 0 };
        let (peer, base, total) = (request.peer, request.base.cast_const(), request.total);
        let is_told = self.context != Context::Handler || total <= BY_HANDLER;
        let Ok(len) = usize::try_from(total) else { return 0 };
        if !is_told || self.transport.is_shared_with(peer, base as u64, total) {
            return 0;
        }
        // SAFETY: who posted the send vouched for its buffer, which lies in one run, until the send has ended: then it is concealed.
        unsafe { self.transport.expose(peer, u32::from(slot), ticket, base, len) }
    }
}
