//! The first piece of a large message, which is its last part, copied while its sender waits for the answer to its announcement.
//!
//! Where threads of both wait and the message will go in pieces, the answer says nothing but that the receiver is there. The announcement and the answer take
//! as long as a piece does to copy; so the first one is where the receiver will find it, and takes no more than a packet when it is asked for. If the
//! message goes otherwise after all, the copy was in vain, by a thread that had nothing else to do.

use tocsin_progress::Id;
use tocsin_transport::{Reach, Transport};

use crate::{P2p, PIPELINED_FIRST};

impl<T: Transport> P2p<T> {
    /// A send was announced, with an offer. Copies its first piece if a thread waits for it, its receiver will ask for pieces, and that is worth it. At most
    /// [`PIPELINED_FIRST`] bytes.
    pub(crate) fn copy_ahead(&mut self, id: Id) {
        let Some(request) = self.requests.get(id) else { return };
        let (peer, class, total, serial) = (request.peer, request.class, request.total, request.serial);
        let source = request.source_buf();
        let Some(base) = source.run_at(0) else { return };
        // As the receiver will find it: by where this end's buffer is.
        let reach = match request.reach {
            Reach::Direct => return,
            _ if self.transport.is_shared_with(peer, base as u64, total) => Reach::Shared,
            other => other,
        };
        if !self.is_pipelined(class, peer, reach, [false; 2], total) {
            return;
        }
        self.transport.rouse(peer);
        let len = usize::try_from(total)
            .map_or(PIPELINED_FIRST, |total| total.min(PIPELINED_FIRST))
            .min(self.piece);
        // Pieces go from the back. A receiver that asks for pages gets its first from the front, and this copy is in vain.
        let Some(from) = source.run_at((total as usize).saturating_sub(len)) else { return };
        // SAFETY: it is the last `len` bytes of the buffer, which who posted the send vouched for.
        let held = unsafe { self.transport.copy_ahead(peer, from, len, total) };
        self.ahead = held.then_some((id, serial));
    }

    /// Whether the transport holds the first piece of a send, which is about to go. Once.
    pub(crate) fn takes_ahead(&mut self, id: Id, serial: u32, done: u64) -> bool {
        done == 0 && self.ahead.take_if(|ahead| *ahead == (id, serial)).is_some()
    }
}
