//! Messages that nobody here will ever receive: who waits for that is told.
//!
//! A rank that leaves the world posts no receives any more, and nobody posts one in a communicator that is gone. What comes then and meets no posted
//! receive is for nobody. Of an eager message, whose send is over, nothing is said. A send that waits for its receiver (announced, or synchronous) is
//! answered by CANCEL, and ends with [`Code::NeverReceived`]. So no two ranks wait for ever, each for the other to take its message, where one of them
//! leaves. What meets a posted receive is received as ever, for as long as the rank is there.
//!
//! | a message | is declined |
//! |---|---|
//! | that arrives | at once, instead of being kept |
//! | that was kept before, probed ones included | by the next sweep |
//! | for whose answer there is no room | by the sweep of a later pass; it is kept until then |
//!
//! The sender takes the answer only for a message of which it has heard nothing else. Who leaves wants to hear of announcements, lest it sleep while one waits
//! for its answer; of a communicator that is gone, it is answered when this rank looks.

use tocsin_progress::{Code, Id};
use tocsin_transport::{Class, Header, SendOutcome, Transport, kind};

use crate::P2p;
use crate::request::{SHARED, State};
use crate::unexpected::{Arrival, Envelope};
use crate::urgency::Tells;

/// What this rank declines.
#[derive(Debug, Default)]
pub(crate) struct ForNobody {
    /// All that meets no posted receive, per class: Eager, Coll.
    all: [bool; 2],
    /// Some is kept until there is room for its answer.
    kept: bool,
}

impl ForNobody {
    /// Whether all that meets no posted receive in a class is declined.
    #[inline]
    pub(crate) fn is_all(&self, class: usize) -> bool {
        self.all.get(class).copied().unwrap_or(false)
    }

    /// Whether this rank leaves.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.all != [false; 2]
    }
}

impl<T: Transport> P2p<T> {
    /// No receive of a class is posted here any more, because this rank leaves: what meets none that is posted is dropped, and who waits for it to be received
    /// is told that it is not. User threads only.
    pub fn take_no_more(&mut self, class: Class) {
        if let Some(all) = self.for_nobody.all.get_mut(usize::from(class == Class::Coll)) {
            *all = true;
        }
        self.faults.restart();
        self.again |= self.blocked > 0;
    }

    /// Whether a message that meets no posted receive is never received. Handler-safe.
    pub(crate) fn is_for_nobody(&self, class: usize, context: u32) -> bool {
        self.for_nobody.is_all(class) || self.contexts.is_gone(context)
    }

    /// Tells the sender of a message that it is never received, if it waits for that. False: there is no room to say so; the caller keeps the message, and a
    /// later pass [looks](Self::look_for_nobodys) for it. Handler-safe.
    pub(crate) fn decline(&mut self, class: usize, envelope: &Envelope) -> bool {
        // A collective in a communicator that is gone is another one's than this rank's: that is said where it is found out.
        let untold = class != 0 && !self.for_nobody.is_all(class);
        if envelope.arrival == Arrival::Eager || untold {
            return true;
        }
        if envelope.source == self.me {
            self.end_unreceived(envelope.remote, self.me);
            return true;
        }
        let header = Header {
            kind: kind::CANCEL,
            context: envelope.context,
            tag: envelope.tag,
            a: envelope.remote,
            ..Header::default()
        };
        let told = self.transmit_control(envelope.source, Tells::GivenUp, &header) != SendOutcome::Full;
        self.for_nobody.kept |= !told;
        told
    }

    /// Has the next sweep decline what was kept for want of room. A full lane rings who has written there when it has room. Handler-safe.
    pub(crate) fn look_for_nobodys(&mut self) {
        if self.for_nobody.kept {
            self.for_nobody.kept = false;
            self.faults.restart();
        }
    }

    /// A receiver says that a message is never received. False: it can be none that this rank waits for. Handler-safe.
    pub(crate) fn end_unreceived(&mut self, name: u64, peer: u32) -> bool {
        let Some(id) = self.awaiting_receiver(name, peer) else { return false };
        let of_collective = self.requests.get(id).is_some_and(|request| request.class == Class::Coll);
        // A collective says of its member that it takes no part.
        self.fail(id, if of_collective { Code::PeerFinalized } else { Code::NeverReceived }, peer);
        true
    }

    /// The send that a packet of `peer` names, if its receiver has not answered it yet.
    fn awaiting_receiver(&self, name: u64, peer: u32) -> Option<Id> {
        // As for a CTS: the receive that was found has been withdrawn.
        let found = || {
            let id = self.named(name, peer, State::SendShared)?;
            self.requests.get(id).filter(|request| request.has(SHARED) && request.done == 0).map(|_| id)
        };
        let announced = self.named(name, peer, State::SendAnnounced);
        announced.or_else(|| self.named(name, peer, State::SendUnmatched)).or_else(found)
    }
}
