//! Offers of a single copy: what an announcement says of one, which receive takes it, and the records that they name.

use tocsin_progress::{Context, Id};
use tocsin_transport::transfer::{RECORDS, chunks};
use tocsin_transport::{Class, Reach, Record, Transport};

use crate::P2p;
use crate::request::{ALONE, HOLDS_RECORD, ONCE, Request, SHARED, SOON, UNAWAITED, UNHURRIED};

/// Header flag of an RTS whose sender waits for the message's end, or is [expected to](P2p::set_waits_soon). The lower five bits are the record's number and one.
pub(crate) const FLAG_WAITS: u8 = 0x80;
/// Header flag of an RTS whose sender cannot copy into a buffer of the receiver's but where both have memory.
pub(crate) const FLAG_PULLED: u8 = 0x40;
/// Header flag of an RTS for whose end only its sender waits.
pub(crate) const FLAG_UNAWAITED: u8 = 0x20;
/// Bytes behind an RTS that offers: the record's ticket, and that of a published receive that was found, or 0.
pub(crate) const TICKETS: usize = 8;
/// The same and four more: the message is offered by a key.
pub(crate) const KEYED: usize = 12;

/// What an RTS offers: a record, and where the message lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Offer {
    pub(crate) slot: u8,
    pub(crate) ticket: u32,
    /// Or by which key the kernel knows it.
    pub(crate) address: u64,
    pub(crate) keyed: bool,
    /// Ticket of the published receive that the sender copies into; 0: none.
    pub(crate) published: u32,
    /// It is the one that the message has met.
    pub(crate) found: bool,
    /// The sender's thread waits, or is expected to.
    pub(crate) waits: bool,
    /// The sender cannot push.
    pub(crate) pulled: bool,
    /// Only the sender waits for the end.
    pub(crate) unawaited: bool,
}

/// Records of transfers to one peer.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// A bit per record: it serves a transfer.
    busy: u32,
    /// Of those: its request has ended, but a claim of the peer's may be open.
    retiring: u32,
    /// The last ticket given out.
    ticket: u32,
}

const _: () = assert!(RECORDS <= 32 && RECORDS < FLAG_UNAWAITED as u32);

impl Records {
    fn take(&mut self) -> Option<(u8, u32)> {
        let slot = (!self.busy).trailing_zeros();
        if slot >= RECORDS {
            return None;
        }
        self.busy |= 1 << slot;
        // Zeroed memory has ticket 0.
        self.ticket = self.ticket.checked_add(1).unwrap_or(1);
        Some((slot as u8, self.ticket))
    }

    fn free(&mut self, slot: u8, quiet: bool) {
        let bit = 1u32.checked_shl(u32::from(slot)).unwrap_or(0);
        if quiet {
            self.busy &= !bit;
            self.retiring &= !bit;
        } else {
            self.retiring |= bit;
        }
    }
}

impl<T: Transport> P2p<T> {
    /// Opens a record for a send that is about to be announced, if a single copy can serve it. `at_once`: so many sends begin together, as far as that is known.
    pub(crate) fn offer(&mut self, id: Id, at_once: u32) -> Option<Offer> {
        let request = self.requests.get(id)?;
        let (peer, class, total) = (request.peer, request.class, request.total);
        let address = request.source_buf().run_at(0)? as u64;
        if request.has(HOLDS_RECORD) {
            // The lane was full at the last attempt.
            return Some(Offer {
                slot: request.slot,
                ticket: request.ticket,
                address: if request.address == 0 { address } else { request.address },
                keyed: request.address != 0,
                published: 0,
                found: false,
                waits: self.waits_for(class),
                pulled: request.reach == Reach::None,
                unawaited: request.has(UNAWAITED),
            });
        }
        // This one among them.
        let under_way = self.sends.max(at_once as usize).max(1) as u64;
        let is_long = total.saturating_mul(under_way) >= self.single_copy_from;
        if peer == self.me || !is_long || chunks(total).is_none() || address == 0 {
            return None;
        }
        let mut reach = self.transport.reach(peer);
        if reach == Reach::None && !self.is_pulled_otherwise(peer, address, total) {
            return None;
        }
        self.reclaim_records(peer);
        let (slot, ticket) = self.peers.get_mut(peer as usize)?.records.take()?;
        let Some(record) = self.transport.record(self.me, peer, u32::from(slot)) else {
            self.peers.get_mut(peer as usize)?.records.free(slot, true);
            return None;
        };
        let mut key = 0;
        if reach == Reach::Region {
            // Who receives copies all.
            reach = Reach::None;
            key = self.expose_offered(id, slot, ticket);
            if key == 0 && !self.is_pulled_otherwise(peer, address, total) {
                self.peers.get_mut(peer as usize)?.records.free(slot, true);
                return None;
            }
        }
        // SAFETY: the transport keeps records as long as it lives.
        unsafe { record.as_ref() }.open(ticket);
        let request = self.requests.get_mut(id)?;
        request.slot = slot;
        request.ticket = ticket;
        request.reach = reach;
        request.address = key;
        request.flags |= HOLDS_RECORD;
        self.ways.announced();
        let (pulled, unawaited) = (reach == Reach::None, request.has(UNAWAITED));
        Some(Offer {
            slot,
            ticket,
            address: if key == 0 { address } else { key },
            keyed: key != 0,
            published: 0,
            found: false,
            waits: self.waits_for(class),
            pulled,
            unawaited,
        })
    }

    /// Whether a message to or from a peer had better be copied twice, in a pipeline, because threads of both wait, or are expected to. Of a collective the peer
    /// must have said so: who has just posted one looks by itself for a moment, and may compute for long after that.
    pub(crate) fn is_pipelined(
        &self,
        class: Class,
        peer: u32,
        reach: Reach,
        [waits, peer_waits]: [bool; 2],
        total: u64,
    ) -> bool {
        let worth_it = match reach {
            Reach::Kernel | Reach::Region => true,
            Reach::Shared | Reach::Attached => class == Class::Eager && total <= self.shared_pipelined(),
            Reach::None | Reach::Direct => false,
        };
        (waits || self.waits_for(class))
            && self.pipelines
            && worth_it
            && (peer_waits
                || class == Class::Eager
                    && (self.transport.is_in_wait(peer) || self.transport.is_awaited_soon(peer)))
    }

    /// Decides whether a matched receive takes an offer.
    pub(crate) fn accept(&mut self, id: Id, offer: Offer) {
        let Some(request) = self.requests.get(id) else { return };
        let (peer, class, total) = (request.peer, request.class, request.total);
        let contiguous = request.target_buf().run_at(0).is_some_and(|base| !base.is_null());
        if !contiguous || peer == self.me || total == 0 || chunks(total).is_none() {
            return;
        }
        let here = request.base as u64;
        let soon = request.has(SOON) && self.context == Context::User;
        let reach = match offer.keyed {
            true if self.transport.has_regions() => Reach::Region,
            true => Reach::None,
            false => self.reach_by_address(peer, offer.address, total),
        };
        if self.transport.record(peer, self.me, u32::from(offer.slot)).is_none() {
            return;
        }
        if reach == Reach::None {
            return self.accept_pages(id, offer);
        }
        let mut decided = 0;
        if self.is_pipelined(class, peer, reach, [soon, offer.waits], total) {
            if !reach.is_by_kernel() || self.ways.goes_twice(id, [self.me, peer], class, total) {
                if class == Class::Coll {
                    self.pieces.ask(id);
                }
                return;
            }
            decided = ONCE;
        }
        let alone = offer.pulled && !self.transport.is_shared_with(peer, here, total);
        let Some(request) = self.requests.get_mut(id) else { return };
        if alone {
            request.flags |= ALONE;
        }
        if offer.unawaited {
            request.flags |= UNHURRIED;
        }
        request.slot = offer.slot;
        request.ticket = offer.ticket;
        request.address = offer.address;
        request.reach = reach;
        request.flags |= SHARED | decided;
    }

    /// The record of a request that has one, and the ticket there. Of a send whose receive was found published, the
    /// publication's.
    pub(crate) fn record_of(&self, request: &Request) -> Option<(&Record, u32)> {
        let sending = request.has(HOLDS_RECORD);
        if !sending && !request.has(SHARED) {
            return None;
        }
        let (from, to) = if sending { (self.me, request.peer) } else { (request.peer, self.me) };
        let found = sending && request.has(SHARED);
        let ticket = if found { request.sequence as u32 } else { request.ticket };
        if found || u32::from(request.slot) == RECORDS {
            let publication = self.transport.publication(from, to)?;
            // SAFETY: the transport keeps publications as long as it lives.
            return Some((unsafe { &*publication.as_ptr() }.record(), ticket));
        }
        let record = self.transport.record(from, to, u32::from(request.slot))?;
        // SAFETY: the transport keeps records as long as it lives.
        Some((unsafe { &*record.as_ptr() }, ticket))
    }

    /// Of a send whose receive was found published, its own record beside that publication's: the receive may be withdrawn, and another one accept the announcement, before
    /// this end hears of either.
    pub(crate) fn own_record_beside(&self, request: &Request) -> Option<(&Record, u32)> {
        if !request.has(HOLDS_RECORD) || !request.has(SHARED) || u32::from(request.slot) == RECORDS {
            return None;
        }
        let record = self.transport.record(self.me, request.peer, u32::from(request.slot))?;
        // SAFETY: the transport keeps records as long as it lives.
        Some((unsafe { &*record.as_ptr() }, request.ticket))
    }

    /// The request ends: its record serves another, as soon as no claim is open.
    pub(crate) fn free_record(&mut self, id: Id) {
        let Some(request) = self.requests.get(id) else { return };
        if !request.has(HOLDS_RECORD) {
            return;
        }
        let (peer, slot, ticket) = (request.peer, request.slot, request.ticket);
        let complete = chunks(request.total);
        let Some(record) = self.transport.record(self.me, peer, u32::from(slot)) else { return };
        // SAFETY: the transport keeps records as long as it lives.
        let record = unsafe { record.as_ref() };
        let quiet = complete.is_some_and(|count| record.is_complete(count)) || {
            record.close(ticket, false);
            record.is_quiet(ticket)
        };
        if let Some(request) = self.requests.get_mut(id) {
            request.flags &= !HOLDS_RECORD;
        }
        if self.transport.has_regions() {
            self.transport.conceal(peer, u32::from(slot), ticket);
        }
        self.ways.over();
        if let Some(state) = self.peers.get_mut(peer as usize) {
            state.records.free(slot, quiet);
        }
    }

    /// Records whose peer has meanwhile finished its last claim. Bounded by the number of records of a pair.
    fn reclaim_records(&mut self, peer: u32) {
        let Some(state) = self.peers.get(peer as usize) else { return };
        let mut bits = state.records.retiring;
        while bits != 0 {
            let slot = bits.trailing_zeros();
            bits &= bits.wrapping_sub(1);
            let Some(record) = self.transport.record(self.me, peer, slot) else { continue };
            // SAFETY: the transport keeps records as long as it lives.
            if unsafe { record.as_ref() }.is_closed_and_quiet()
                && let Some(state) = self.peers.get_mut(peer as usize)
            {
                state.records.free(slot as u8, true);
            }
        }
    }
}
