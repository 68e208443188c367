//! What arrives. Whatever a packet says is checked before it is used; what no honest peer writes condemns its sender.

use tocsin_progress::{Budget, Context, Id};
use tocsin_sync::clock::now_ns;
use tocsin_transport::transfer::RECORDS;
use tocsin_transport::{Class, Header, Packet, Recv, Transport, kind};

use crate::coalesced::Opened;
use crate::coming;
use crate::in_hand::Hand;
use crate::offers::{FLAG_PULLED, FLAG_UNAWAITED, FLAG_WAITS, KEYED, Offer, TICKETS};
use crate::pages::{FLAG_PAGES, Piece};
use crate::peer::{Drops, Fate};
use crate::request::{FROM_FRONT, HOLDS_RECORD, Member, OWES_FIN, PIPED, SHARED, SOON, State};
use crate::transfers::{FLAG_LOOK, FLAG_SHARED};
use crate::unexpected::{Arrival, Envelope};
use crate::urgency::Tells;
use crate::ways::Copied;
use crate::{P2p, PIECE, whole};

/// Header flag of an eager message whose sender waits for an ACK.
pub(crate) const FLAG_SYNCHRONOUS: u8 = 1;
/// Header flag of an eager message of a collective that its sender counts.
pub(crate) const FLAG_LONG: u8 = 2;

/// Header flag of an RTS that brings its message: the number of no record.
pub(crate) const FLAG_BRINGS: u8 = 0x1f;
const _: () = assert!(FLAG_BRINGS & OFFER_FLAGS == 0 && FLAG_BRINGS as u32 > RECORDS);

/// Flags of an RTS that offers, beside the record.
const OFFER_FLAGS: u8 = FLAG_WAITS | FLAG_PULLED | FLAG_UNAWAITED;

/// What became of the packet at the head of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Nothing is there.
    Empty,
    /// It was taken.
    Taken,
    /// It stays until there is room among the unexpected messages.
    Blocked,
    /// It stays: the budget is spent.
    Spent,
}

/// No honest peer writes this.
pub(crate) struct Nonsense;

impl<T: Transport> P2p<T> {
    /// Handles the packet at the head of a lane.
    pub(crate) fn step(&mut self, peer: u32, class: Class, budget: &mut Budget) -> Step {
        let packet = match self.transport.peek(peer, class) {
            Recv::Empty => return self.step_coming(peer, class, budget),
            Recv::Corrupt => {
                self.condemn(peer);
                return Step::Empty;
            }
            Recv::Packet(packet) => packet,
        };
        if !budget.packet() {
            return Step::Spent;
        }
        if matches!(class, Class::Eager | Class::Coll)
            && (self.meet_short(peer, class, &packet, budget)
                || self.keep_plain(peer, class, &packet, budget))
        {
            self.count_packet(packet.len);
            self.transport.consume(peer, class);
            self.count_taken(peer, class);
            self.trace_taken(peer, class, &packet.header);
            return Step::Taken;
        }
        let broken = self.peers.get(peer as usize).is_none_or(|p| p.fate == Fate::Broken);
        let step = if broken {
            Ok(Step::Taken)
        } else {
            match class {
                Class::Eager if packet.header.kind == kind::COALESCED => {
                    match self.open_together(peer, &packet, budget) {
                        Ok(Opened::Whole) => Ok(Step::Taken),
                        // The packet stays, as its first part is taken.
                        Ok(Opened::Part) => return Step::Taken,
                        Ok(Opened::None(step)) => Ok(step),
                        Err(nonsense) => Err(nonsense),
                    }
                }
                Class::Eager | Class::Coll => self.message(peer, class, &packet, budget),
                Class::Control => self.control(peer, &packet),
                Class::Bulk => self.data(peer, &packet, budget),
            }
        };
        let step = step.unwrap_or_else(|Nonsense| {
            self.condemn(peer);
            Step::Taken
        });
        if step == Step::Taken {
            self.take(peer, class, &packet);
        } else {
            budget.in_vain();
        }
        step
    }

    /// The packet at the head of a lane has been handled.
    #[inline]
    pub(crate) fn take(&mut self, peer: u32, class: Class, packet: &Packet) {
        let together = packet.header.kind == kind::COALESCED;
        // Its messages were counted one by one.
        self.count_packet(if together { 0 } else { packet.len });
        self.transport.consume(peer, class);
        if let Some(state) = self.peers.get_mut(peer as usize) {
            state.stopped &= !coming::bit(class);
            if class == Class::Eager {
                state.opened = 0;
            }
        }
        self.count_taken(peer, class);
        if matches!(class, Class::Eager | Class::Coll) && !together {
            self.trace_taken(peer, class, &packet.header);
        }
    }

    #[inline]
    pub(crate) fn count_packet(&mut self, len: usize) {
        self.counters.packets_received = self.counters.packets_received.wrapping_add(1);
        self.counters.bytes_received = self.counters.bytes_received.wrapping_add(len as u64);
    }

    /// An eager message or an announcement. Inlined where there is one in a packet, as there mostly is.
    #[inline(always)]
    pub(crate) fn message(
        &mut self,
        peer: u32,
        class: Class,
        packet: &Packet,
        budget: &mut Budget,
    ) -> Result<Step, Nonsense> {
        let header = &packet.header;
        let arrival = match (header.kind, header.flags) {
            (kind::EAGER, 0) => Arrival::Eager,
            (kind::EAGER, FLAG_LONG) if class == Class::Coll => Arrival::Eager,
            (kind::EAGER, FLAG_SYNCHRONOUS) => Arrival::Synchronous,
            (kind::RTS, 0) if packet.len == 0 => Arrival::Announced,
            (kind::RTS, FLAG_BRINGS) if class == Class::Eager && whole::brings(packet) => Arrival::Announced,
            (kind::RTS, flags)
                if (1..=RECORDS).contains(&u32::from(flags & !OFFER_FLAGS))
                    && matches!(packet.len, TICKETS | KEYED)
                    && header.c != 0 =>
            {
                Arrival::Announced
            }
            _ => return Err(Nonsense),
        };
        let bytes = usize::try_from(header.a).ok().filter(|n| *n <= isize::MAX as usize).ok_or(Nonsense)?;
        if arrival != Arrival::Announced && (bytes != packet.len || packet.len > self.longest) {
            return Err(Nonsense);
        }
        let mut envelope = Envelope {
            context: header.context,
            source: peer,
            tag: header.tag,
            arrival,
            long: arrival == Arrival::Eager && header.flags == FLAG_LONG,
            bytes,
            remote: header.b,
            offer: if arrival == Arrival::Announced { Self::offered(packet) } else { None },
        };
        let mut len = if arrival == Arrival::Announced { 0 } else { packet.len };
        if self.contexts.is_revoked(header.context) {
            if arrival != Arrival::Eager {
                self.tell_revoked(peer, header.context);
            }
            self.done_with(&envelope);
            return Ok(Step::Taken);
        }
        let index = usize::from(class == Class::Coll);
        let drops = self.peers.get(peer as usize).and_then(|p| p.drops.get(index)).copied();
        if drops == Some(Drops::Begun) {
            self.done_with(&envelope);
            return Ok(Step::Taken);
        }
        // A packet goes whole; one that is longer than what is left waits for a fresh budget.
        if len > budget.bytes_left() && budget.bytes_left() < self.longest.min(PIECE) {
            return Ok(Step::Spent);
        }
        if arrival == Arrival::Announced && self.hand_takes_brought(peer, packet) {
            self.count_copy(packet.len);
            budget.take_bytes(packet.len);
            return Ok(Step::Taken);
        }
        let brought = header.flags == FLAG_BRINGS && arrival == Arrival::Announced;
        let Some(matching) = self.matching.get_mut(index) else { return Err(Nonsense) };
        let Some(id) = matching.posted.find(&self.requests, header.context, peer, header.tag) else {
            if index == 0
                && let Hand::Waiting(hand) = &self.hand
                && hand.meets(header.context, peer, header.tag)
            {
                if arrival == Arrival::Eager {
                    // SAFETY: it is the packet at the head of the lane.
                    self.hand = Hand::Met(unsafe { hand.receive(peer, packet) });
                    self.count_copy(len);
                    budget.take_bytes(len);
                    return Ok(Step::Taken);
                }
                // Its end takes a request. What comes after it must not overtake.
                self.hand = Hand::Empty;
            }
            let for_nobody = self.is_for_nobody(index, header.context);
            if for_nobody && self.decline(index, &envelope) {
                self.done_with(&envelope);
                return Ok(Step::Taken);
            }
            let Some(matching) = self.matching.get_mut(index) else { return Err(Nonsense) };
            // SAFETY: the transport vouches for the payload until it is consumed.
            if !unsafe { matching.unexpected.keep(envelope, packet.payload, len) } {
                if drops != Some(Drops::Allowed) || for_nobody {
                    return Ok(Step::Blocked);
                }
                if let Some(drops) = self.peers.get_mut(peer as usize).and_then(|p| p.drops.get_mut(index)) {
                    *drops = Drops::Begun;
                }
                self.done_with(&envelope);
                return Ok(Step::Taken);
            }
            self.count_copy(len);
            budget.take_bytes(len);
            if brought {
                self.await_soon_in_vain(peer);
            }
            return Ok(Step::Taken);
        };
        // Who copies no more than a piece, or has no room, asks for pieces.
        let takes = brought
            && self.requests.get(id).is_some_and(|r| {
                packet.len <= r.layout.bytes()
                    && (!budget.is_in_passing() || self.context == Context::User && r.has(SOON))
            });
        if takes && packet.len > budget.bytes_left() && budget.is_waiting() && budget.bytes_left() < PIECE {
            // The next pass of who waits has room for it.
            return Ok(Step::Spent);
        }
        if takes && packet.len <= budget.bytes_left() {
            envelope.arrival = Arrival::Synchronous;
            len = packet.len;
        } else if brought {
            self.await_soon_in_vain(peer);
        }
        if let Some(offer) = envelope.offer.as_mut() {
            offer.found = offer.published != 0 && self.meets_published(id, offer.published, bytes);
        }
        self.unlink(id);
        if let Some(request) = self.requests.get(id) {
            let buf = request.target_buf();
            let len = len.min(buf.layout.bytes());
            // SAFETY: who posted the receive vouched for its buffer; the transport for the payload.
            unsafe { buf.unpack(0, len, packet.payload) };
            self.count_copy(len);
            budget.take_bytes(len);
        }
        self.done_with(&envelope);
        self.matched(id, &envelope);
        Ok(Step::Taken)
    }

    /// An eager message takes no room here any more.
    pub(crate) fn done_with(&mut self, envelope: &Envelope) {
        if envelope.long {
            self.transport.note_long_done(envelope.source);
        }
    }

    /// What an announcement offers, its flags being checked.
    fn offered(packet: &Packet) -> Option<Offer> {
        let flags = packet.header.flags;
        let slot = (flags & !OFFER_FLAGS).checked_sub(1).filter(|_| flags != FLAG_BRINGS)?;
        let mut tickets = [0u32; 2];
        if !matches!(packet.len, TICKETS | KEYED) {
            return None;
        }
        // SAFETY: the transport vouches for `len` bytes of payload until the packet is consumed.
        unsafe { core::ptr::copy_nonoverlapping(packet.payload, tickets.as_mut_ptr().cast(), TICKETS) };
        let [ticket, published] = tickets.map(u32::from_le);
        let says = |flag| flags & flag != 0;
        let (waits, pulled, unawaited) = (says(FLAG_WAITS), says(FLAG_PULLED), says(FLAG_UNAWAITED));
        Some(Offer {
            slot,
            ticket,
            address: packet.header.c,
            keyed: packet.len == KEYED,
            published,
            found: false,
            waits,
            pulled,
            unawaited,
        })
    }

    /// An answer. Always taken, so that Control lanes never block.
    fn control(&mut self, peer: u32, packet: &Packet) -> Result<Step, Nonsense> {
        let header = &packet.header;
        let flags = match header.kind {
            kind::CTS if header.flags == FLAG_PAGES => FLAG_PAGES,
            kind::CTS => FLAG_SHARED,
            kind::FIN => FLAG_LOOK,
            _ => 0,
        };
        if packet.len != 0 || header.flags & !flags != 0 {
            return Err(Nonsense);
        }
        match header.kind {
            kind::CTS => self.clear_to_send(peer, header)?,
            kind::ACK => match self
                .named(header.a, peer, State::SendUnmatched)
                .or_else(|| self.brought(header.a, peer))
            {
                Some(id) => self.finish_send(id),
                None => self.tolerate(peer)?,
            },
            // What it asks for is what every pass does.
            kind::FIN if header.flags == FLAG_LOOK => {}
            kind::FIN => {
                let shared = self.named(header.a, peer, State::SendShared);
                match shared.or_else(|| self.named(header.a, peer, State::RecvShared)) {
                    Some(id) if self.finished_by_peer(id) => {}
                    Some(_) => return Err(Nonsense),
                    None if self.finished_early(header.a, peer) => {}
                    None if self.pages_are_read(header.a, peer) => {}
                    None => match self.named(header.a, peer, State::SendAnnounced) {
                        // The receiver has copied all of it into a receive that it had published, and its next
                        // publication has made this end believe that it was withdrawn.
                        Some(id) if self.requests.get(id).is_some_and(|r| r.sequence != 0) => {
                            self.finish_send(id)
                        }
                        _ => self.tolerate(peer)?,
                    },
                }
            }
            kind::ABORT_SEND => match self
                .named(header.a, peer, State::RecvData)
                .or_else(|| self.named(header.a, peer, State::RecvShared))
                // It has asked for pieces after all, or is about to.
                .or_else(|| self.named(header.a, peer, State::RecvOwes))
            {
                // All of it is copied; only its sender does not know.
                Some(id) if self.requests.get(id).is_some_and(|request| request.has(OWES_FIN)) => {
                    self.set_stale(peer);
                    self.end_well(id);
                }
                Some(id) => {
                    let (tag, context) = self.requests.get(id).map_or((0, 0), |r| (r.tag, r.context));
                    let outcome = self.given_up_by_peer(peer, context, tag);
                    // Pieces sent before it may still lie in the Bulk lane.
                    self.set_stale(peer);
                    if self.requests.get(id).is_some_and(|request| request.state == State::RecvShared) {
                        // It may wait for this rank's last claim.
                        self.tell_to_look(peer);
                    }
                    self.end_when_over(id, outcome);
                }
                None if self.peers.get(peer as usize).is_some_and(|p| p.may_abort_late) => {}
                None => self.tolerate(peer)?,
            },
            kind::CANCEL if self.end_unreceived(header.a, peer) => {}
            kind::CANCEL => self.tolerate(peer)?,
            kind::REVOKE => self.revoked_by(header.context).ok_or(Nonsense)?,
            _ => return Err(Nonsense),
        }
        Ok(Step::Taken)
    }

    fn clear_to_send(&mut self, peer: u32, header: &Header) -> Result<(), Nonsense> {
        let announced = self.named(header.a, peer, State::SendAnnounced);
        // A plain one after an accepted offer: a single copy has failed, and the receiver asks anew. Any, when the receive
        // that was found has been withdrawn.
        let again = self.named(header.a, peer, State::SendShared).filter(|id| {
            let found = self.requests.get(*id).is_some_and(|r| r.has(SHARED) && r.done == 0);
            header.flags == 0 || found
        });
        let Some(id) = announced.or(again) else {
            self.tolerate(peer)?;
            if self.contexts.is_revoked(header.context) {
                self.tell_revoked(peer, header.context);
            }
            // Who granted nothing waits for nothing.
            if header.c != 0 {
                self.abort_send(peer, header.b);
            }
            return Ok(());
        };
        let Some(request) = self.requests.get_mut(id) else { return Err(Nonsense) };
        if header.flags == FLAG_SHARED {
            if !request.has(HOLDS_RECORD) || header.c == 0 {
                return Err(Nonsense);
            }
            let total = request.total;
            let reach = self.reach_by_address(peer, header.c, total);
            self.unlink(id);
            let Some(request) = self.requests.get_mut(id) else { return Err(Nonsense) };
            request.flags &= !SHARED;
            request.reach = reach;
            request.remote = header.b;
            request.address = header.c;
            request.state = State::SendShared;
            self.enlist(id, Member::Transfer);
            return Ok(());
        }
        let pages = header.flags == FLAG_PAGES;
        if pages && !request.has(HOLDS_RECORD) {
            return Err(Nonsense);
        }
        self.unlink(id);
        let piped = pages && self.transport.has_pipe_to(peer);
        if !piped {
            self.free_record(id);
        }
        let Some(request) = self.requests.get_mut(id) else { return Err(Nonsense) };
        request.flags &= !SHARED;
        if pages {
            request.flags |= FROM_FRONT;
        }
        if piped {
            request.flags |= PIPED;
        }
        if header.c == 0 {
            // Longer than the receiver's buffer: the receiver reports that; this end is complete.
            self.finish_send(id);
        } else if header.c == request.total {
            request.remote = header.b;
            request.state = State::SendData;
            request.done = 0;
            self.enlist(id, Member::Bulk);
        } else {
            return Err(Nonsense);
        }
        Ok(())
    }

    /// A piece of a large message, or as much of it as the budget allows.
    fn data(&mut self, peer: u32, packet: &Packet, budget: &mut Budget) -> Result<Step, Nonsense> {
        let Some(state) = self.peers.get_mut(peer as usize) else { return Err(Nonsense) };
        let partial = state.partial;
        let piece = Piece::of(packet).ok_or(Nonsense)?;
        let Some((id, at)) = self.wanted(peer, packet, piece, partial)? else {
            return self.unwanted(peer, packet, piece, budget);
        };
        let left = piece.bytes.wrapping_sub(partial);
        let Some(request) = self.requests.get(id) else { return Err(Nonsense) };
        let len = left.min(budget.bytes_left());
        let buf = request.target_buf();
        let begun = if self.trace.is_some() { now_ns() } else { 0 };
        if piece.piped {
            self.read_piece(id, at, len)?;
            self.counters.bytes_by_pages = self.counters.bytes_by_pages.wrapping_add(len as u64);
        } else {
            let (timed, total) = (self.copy_begins(), request.total);
            // SAFETY: at + len <= total <= the buffer's length, which was checked when the CTS was granted; the transport
            // vouches for partial + len <= packet.len bytes of payload.
            unsafe { buf.unpack(at, len, packet.payload.wrapping_add(partial)) };
            self.time_copy(timed, peer, total, Copied::Out, len);
        }
        let Some(request) = self.requests.get_mut(id) else { return Err(Nonsense) };
        request.done = request.done.wrapping_add(len as u64);
        let complete = request.done >= request.total;
        self.count_copy(len);
        self.trace_copied(begun, peer, len);
        budget.take_bytes(len);
        if len < left {
            self.set_partial(peer, partial.wrapping_add(len));
            return Ok(Step::Spent);
        }
        self.set_partial(peer, 0);
        if complete && piece.last {
            self.end_of_pages(id)?;
        } else if complete {
            self.finish_recv(id);
        }
        Ok(Step::Taken)
    }

    /// The receive that a piece is for, of which a part is taken already, and where in the message what is left of it begins. `None`: it is not received any
    /// more.
    pub(crate) fn wanted(
        &self,
        peer: u32,
        packet: &Packet,
        piece: Piece,
        partial: usize,
    ) -> Result<Option<(Id, usize)>, Nonsense> {
        let header = &packet.header;
        if partial >= piece.bytes {
            return Err(Nonsense);
        }
        let Some(id) = self.named(header.a, peer, State::RecvData) else { return Ok(None) };
        let Some(request) = self.requests.get(id) else { return Err(Nonsense) };
        // One lane, one order: pieces come without gaps, and the last one is what is left.
        let before = request.done.checked_sub(partial as u64).ok_or(Nonsense)?;
        let begins = request.piece_at(before, piece.bytes, request.has(PIPED)).ok_or(Nonsense)?;
        let ends = request.total.saturating_sub(before) == piece.bytes as u64;
        // Who has asked for pages is told which piece is the last.
        let fits = !piece.last || ends && request.has(PIPED) && header.c == request.remote;
        if header.b != begins || !fits {
            return Err(Nonsense);
        }
        Ok(Some((id, (begins as usize).wrapping_add(partial))))
    }

    /// A piece of a message that is not received any more.
    fn unwanted(
        &mut self,
        peer: u32,
        packet: &Packet,
        piece: Piece,
        budget: &mut Budget,
    ) -> Result<Step, Nonsense> {
        self.tolerate(peer)?;
        let partial = self.peers.get(peer as usize).map_or(0, |state| state.partial);
        let left = piece.bytes.saturating_sub(partial);
        if piece.piped && left > 0 {
            let len = self.drop_piece(peer, left.min(budget.bytes_left()))?;
            budget.take_bytes(len);
            if len < left {
                self.set_partial(peer, partial.wrapping_add(len));
                return Ok(Step::Spent);
            }
        }
        self.set_partial(peer, 0);
        if piece.last {
            self.let_go(peer, packet.header.c, Tells::GivenUp)?;
        }
        Ok(Step::Taken)
    }

    pub(crate) fn set_partial(&mut self, peer: u32, partial: usize) {
        if let Some(state) = self.peers.get_mut(peer as usize) {
            state.partial = partial;
        }
    }

    pub(crate) fn set_stale(&mut self, peer: u32) {
        if let Some(state) = self.peers.get_mut(peer as usize) {
            state.stale = true;
        }
    }

    /// A packet names a request that is not there: honest if one that the peer knows was broken off here.
    fn tolerate(&self, peer: u32) -> Result<(), Nonsense> {
        match self.peers.get(peer as usize) {
            Some(state) if state.stale => Ok(()),
            _ => Err(Nonsense),
        }
    }
}
