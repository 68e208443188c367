//! Buffers of which the kernel is told before it copies from or to them, where that is how two ranks reach each other ([`Reach::Region`]).
//!
//! | whose | told of | and no more |
//! |---|---|---|
//! | a sender's | when it offers its message | when its record serves another |
//! | a receiver's | when it takes an offer whose sender would push | when the receive ends, or asks for pieces |
//! | a published one | before it is published | when it is withdrawn, or the receive ends |
//!
//! A sender says with its offer that it would use a key, because it may reach the receiver otherwise than it is reached. Whose buffer the kernel does not take, copies
//! alone: a receiver that gives no key, as one whose sender cannot push; a sender that has none, as one that cannot be pulled from. A published
//! receive is found only where both can copy.
//!
//! **What it takes** is a call of the kernel's for each buffer, which looks at each of its pages. Handlers tell of no more than [`BY_HANDLER`] bytes, and
//! what is longer goes by what is left.

use tocsin_progress::{Context, Id};
use tocsin_transport::transfer::RECORDS;
use tocsin_transport::{End, Reach, Transport};

use crate::P2p;
use crate::offers::Offer;
use crate::request::{HOLDS_RECORD, Request, SHARED};

/// Longest buffer in bytes of which a handler tells the kernel: 256 pages, which take about as long as a chunk does to copy.
const BY_HANDLER: u64 = 1 << 20;
/// Longest buffer in bytes that is published: its message may be much shorter, and to announce that is little of what a longer one takes to copy.
const PUBLISHED: u64 = 4 << 20;

impl<T: Transport> P2p<T> {
    /// The record that the keys of a transfer belong to: [`RECORDS`] for that of the publication.
    pub(crate) fn slot_of(request: &Request) -> u32 {
        let found = request.has(HOLDS_RECORD) && request.has(SHARED);
        if found { RECORDS } else { u32::from(request.slot) }
    }

    /// Whether a receiver may take a message of this rank's that it does not reach as this rank reaches it.
    pub(crate) fn is_pulled_otherwise(&self, peer: u32, address: u64, total: u64) -> bool {
        self.transport.is_shared_with(peer, address, total) || self.transport.has_pipe_to(peer)
    }

    fn may_expose(&self, bytes: u64) -> bool {
        self.context != Context::Handler || bytes <= BY_HANDLER
    }

    /// Exposes a buffer of this rank's. Whether it is.
    ///
    /// # Safety
    /// Who posted the request has vouched for it, until that ends.
    unsafe fn expose(&mut self, peer: u32, end: End, name: (u32, u32), at: *mut u8, bytes: u64) -> bool {
        let ((slot, ticket), Ok(len)) = (name, usize::try_from(bytes)) else { return false };
        // SAFETY: the caller's promise; it is concealed when the request ends.
        self.may_expose(bytes) && unsafe { self.transport.expose(peer, end, slot, ticket, at, len) }
    }

    /// A send is about to be offered: exposes its buffer where this rank reaches the peer so, and asks for the other one's key. How this rank reaches the receiver; not at
    /// all, if the receiver would not reach it.
    pub(crate) fn expose_offered(&mut self, id: Id, slot: u8, ticket: u32, reach: Reach) -> Reach {
        let Some(request) = self.requests.get(id) else { return Reach::None };
        let (peer, base, total) = (request.peer, request.base, request.total);
        let slot = u32::from(slot);
        // SAFETY: who posted the send vouched for its buffer, which lies in one run.
        let is_reached = reach != Reach::Region
            || self.transport.is_shared_with(peer, base as u64, total)
            || unsafe { self.expose(peer, End::Sender, (slot, ticket), base, total) };
        self.transport.ask_for_key(peer, slot, is_reached && reach == Reach::Region);
        if is_reached { reach } else { Reach::None }
    }

    /// A receive is about to take an offer, and its buffer is not one that both have mapped: exposes that, if the sender asks for a key. False: it asks, and gets none.
    pub(crate) fn gives_what_is_asked(&mut self, id: Id, offer: Offer) -> bool {
        let Some(request) = self.requests.get(id) else { return false };
        let (peer, base, total) = (request.peer, request.base, request.total);
        let name = (u32::from(offer.slot), offer.ticket);
        // SAFETY: who posted the receive vouched for its buffer, which lies in one run and has room for the message.
        !self.transport.is_asked_for_key(peer, name.0)
            || unsafe { self.expose(peer, End::Receiver, name, base, total) }
    }

    /// A receive is about to be published: exposes its buffer. False: the sender would not reach it.
    pub(crate) fn expose_published(&mut self, peer: u32, ticket: u32, at: *mut u8, room: usize) -> bool {
        let bytes = room as u64;
        // SAFETY: who posted the receive vouched for its buffer, which lies in one run.
        self.transport.is_shared_with(peer, at as u64, bytes)
            || bytes <= PUBLISHED && unsafe { self.expose(peer, End::Receiver, (RECORDS, ticket), at, bytes) }
    }

    /// A send has found a published receive, which it reaches so: whether either may copy.
    pub(crate) fn both_reach(&mut self, id: Id, reach: Reach) -> bool {
        let Some(request) = self.requests.get(id) else { return false };
        let (peer, base, total) = (request.peer, request.base, request.total);
        let (slot, ticket, own) = (u32::from(request.slot), request.ticket, request.reach);
        // It is exposed where the receiver reaches this rank by regions.
        let exposed = self.transport.has_key(peer, End::Receiver, RECORDS);
        if reach == Reach::Region && !exposed {
            return false;
        }
        if !exposed && own != Reach::Region || self.transport.is_shared_with(peer, base as u64, total) {
            return true;
        }
        // SAFETY: as in `expose_offered`.
        self.transport.expose_to_published(peer, slot, ticket)
            || unsafe { self.expose(peer, End::Sender, (slot, ticket), base, total) }
                && self.transport.expose_to_published(peer, slot, ticket)
    }

    /// A published receive is not any more, or has ended.
    pub(crate) fn conceal_published(&mut self, peer: u32, ticket: u32) {
        if self.transport.has_regions() {
            self.transport.conceal(peer, End::Receiver, RECORDS, ticket);
        }
    }

    /// A receive ends, or asks for pieces: its buffer is not exposed any more, if it was by an offer that it has taken.
    pub(crate) fn conceal_received(&mut self, id: Id) {
        if !self.transport.has_regions() {
            return;
        }
        let Some(request) = self.requests.get(id).filter(|r| !r.is_send() && r.has(SHARED)) else { return };
        let (peer, slot, ticket) = (request.peer, u32::from(request.slot), request.ticket);
        self.transport.conceal(peer, End::Receiver, slot, ticket);
    }
}
