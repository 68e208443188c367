//! Large messages by pages: the sender puts the pages of its buffer into a pipe, the receiver reads them from there into its own.
//!
//! | step | who | what |
//! |---|---|---|
//! | offer | sender | RTS names a record, as for a single copy |
//! | ask | receiver | CTS that grants the message in pieces says that pages will do |
//! | put | sender | puts pages into the pipe, then tells of them on the Bulk lane (DATA) |
//! | read | receiver | reads them where a piece in the lane would be copied from |
//! | end | receiver | has read the last, and that the record was open after that: FIN, at once or when there is room, and the send is complete |
//!
//! A piece that the system refuses to take is copied into the lane; the two kinds mix, since both have their place in the lane. All pieces of a message that
//! was asked for in pages go from its front, because the system may take fewer bytes than it is given; those of others from the back.
//!
//! **The buffer is the sender's again** when the receiver has said so, because until then the pipe refers to it. Or when the sender gives the message
//! up: then it closes the record first. What the receiver reads after that may be anything, and nothing comes of it, because it looks at the record
//! after its last read. It reads what it does not want, too: what lies behind that in the pipe is another message's.

use tocsin_progress::{Budget, Id};
use tocsin_transport::transfer::{Claim, chunks};
use tocsin_transport::{Class, Header, Packet, Piped, Record, SendOutcome, Transport, kind, pages};

use crate::offers::Offer;
use crate::packets::Nonsense;
use crate::request::{Member, PIPE_USED, PIPED, Request, State, UNHURRIED};
use crate::send::Attempt;
use crate::unsaid::Word;
use crate::urgency::Tells;
use crate::{P2p, PIECE};

/// Header flag of a CTS that asks for pages.
pub(crate) const FLAG_PAGES: u8 = 2;
/// Header flag of a DATA whose bytes are in the pipe.
pub(crate) const FLAG_PIPED: u8 = 1;
/// Header flag of the last DATA of a message some of whose bytes were in the pipe: its sender waits for the FIN.
pub(crate) const FLAG_LAST: u8 = 2;
/// To put pages into a pipe takes this part of what it takes to copy them.
const CHEAPER: usize = 8;

/// Where the bytes of a DATA are, and how many there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) piped: bool,
    pub(crate) last: bool,
    pub(crate) bytes: usize,
}

impl Piece {
    /// What a DATA says; `None`: no honest one does.
    pub(crate) fn of(packet: &Packet) -> Option<Piece> {
        let flags = packet.header.flags;
        let (piped, last) = (flags & FLAG_PIPED != 0, flags & FLAG_LAST != 0);
        if packet.header.kind != kind::DATA
            || flags & !(FLAG_PIPED | FLAG_LAST) != 0
            || !last && packet.header.c != 0
        {
            return None;
        }
        let bytes = if piped {
            // SAFETY: the transport vouches for `len` bytes of payload until the packet is consumed.
            let bytes = unsafe { pages::unpack(packet.payload, packet.len) };
            bytes.and_then(|bytes| usize::try_from(bytes).ok()).filter(|bytes| *bytes <= PIECE)?
        } else {
            packet.len
        };
        Some(Piece { piped, last, bytes })
    }
}

impl<T: Transport> P2p<T> {
    /// Has a matched receive, which cannot copy what it is offered, ask for pages, if there is a pipe.
    pub(crate) fn accept_pages(&mut self, id: Id, offer: Offer) {
        let Some(peer) = self.requests.get(id).map(|request| request.peer) else { return };
        if self.transport.has_pipe_from(peer)
            && let Some(request) = self.requests.get_mut(id)
        {
            request.slot = offer.slot;
            request.ticket = offer.ticket;
            request.flags |= PIPED;
        }
    }

    /// Sends the next piece of a message as pages. `None`: they are refused, and what is left is to be copied.
    pub(crate) fn next_pages(&mut self, id: Id, len: usize, budget: &mut Budget) -> Option<Attempt> {
        let request = self.requests.get_mut(id)?;
        let (peer, offset) = (request.peer, request.done as usize);
        let piped = match request.source_buf().run_at(offset) {
            // SAFETY: offset + len <= total, the length of the buffer, which who posted vouched for; nobody else uses it until the request has ended,
            // and what is read there after that comes to nothing.
            Some(from) => unsafe { self.transport.put_pages(peer, from, len) },
            None => Piped::Refused,
        };
        let request = self.requests.get_mut(id)?;
        let bytes = match piped {
            Piped::Bytes(bytes) => bytes.min(len),
            Piped::Full => {
                budget.in_vain();
                return Some(Attempt::Full);
            }
            Piped::Refused => {
                request.flags &= !PIPED;
                return None;
            }
            Piped::Gone => {
                self.fail_gone(id, peer);
                return Some(Attempt::Done);
            }
        };
        request.flags |= PIPE_USED;
        let (last, name) = Self::says_last(id, request, bytes);
        let header = Header {
            kind: kind::DATA,
            flags: FLAG_PIPED | last,
            context: request.context,
            tag: request.tag,
            a: request.remote,
            b: offset as u64,
            c: name,
        };
        budget.take_bytes(bytes / CHEAPER);
        let payload = pages::pack(bytes as u64);
        // SAFETY: `payload` is as long as that.
        let outcome = unsafe {
            self.transport.try_send(
                peer,
                Class::Bulk,
                Tells::Piece.urgency(),
                &header,
                payload.as_ptr(),
                payload.len(),
            )
        };
        if outcome == SendOutcome::Sent {
            self.counters.packets_sent = self.counters.packets_sent.wrapping_add(1);
            self.counters.bytes_sent = self.counters.bytes_sent.wrapping_add(bytes as u64);
            self.piece_sent(id, bytes);
        } else {
            // There is room, unless the peer is gone, or has had its lanes closed.
            self.fail_gone(id, peer);
        }
        Some(Attempt::Done)
    }

    /// The flag of a piece of so many bytes that is the last of a message which went by pages, and the name that goes with it.
    pub(crate) fn says_last(id: Id, request: &Request, bytes: usize) -> (u8, u64) {
        let last = request.done.wrapping_add(bytes as u64) >= request.total;
        if last && request.has(PIPE_USED) { (FLAG_LAST, Self::wire_name(id, request.serial)) } else { (0, 0) }
    }

    /// A piece of a message is in the lane, or in the pipe.
    pub(crate) fn piece_sent(&mut self, id: Id, bytes: usize) {
        self.unlink(id);
        let Some(request) = self.requests.get_mut(id) else { return };
        let (peer, used) = (request.peer, request.has(PIPE_USED));
        request.done = request.done.wrapping_add(bytes as u64);
        let over = request.done >= request.total;
        if over && used {
            request.state = State::SendPiped;
        }
        if let Some(state) = self.peers.get_mut(peer as usize) {
            state.pieces_sent = state.pieces_sent.wrapping_add(bytes as u64);
        }
        match (over, used) {
            // To the end of the list: large messages to one peer take turns.
            (false, _) => self.enlist(id, Member::Bulk),
            (true, false) => self.finish_send(id),
            (true, true) => {}
        }
    }

    /// Reads a part of a piece, from byte `at` of the message on, into the buffer of a receive that has asked for pages.
    pub(crate) fn read_piece(&mut self, id: Id, at: usize, len: usize) -> Result<(), Nonsense> {
        let request = self.requests.get(id).filter(|request| request.has(PIPED)).ok_or(Nonsense)?;
        let (peer, buf) = (request.peer, request.target_buf());
        let to = buf.run_at(at).ok_or(Nonsense)?;
        // SAFETY: at + len <= total <= the buffer's length, which was checked when the CTS was granted, and who posted vouched for.
        if unsafe { self.transport.read_pages(peer, to, len) } { Ok(()) } else { Err(Nonsense) }
    }

    /// Reads a part of a piece that nobody wants any more. How many bytes.
    pub(crate) fn drop_piece(&mut self, peer: u32, len: usize) -> Result<usize, Nonsense> {
        let len = len.min(self.scratch.len());
        // SAFETY: the scratch has room for `len` bytes.
        if unsafe { self.transport.read_pages(peer, self.scratch.as_mut_ptr(), len) } {
            Ok(len)
        } else {
            Err(Nonsense)
        }
    }

    /// Tells the sender of a message that its pages are read, as soon as there is room to say so.
    pub(crate) fn let_go(&mut self, peer: u32, name: u64, tells: Tells) -> Result<(), Nonsense> {
        // Each such send holds a record until then, so that there are no more than a pair has of these.
        if self.say(peer, Word::Read, name, tells) { Ok(()) } else { Err(Nonsense) }
    }

    /// The receiver of a message says that its pages are read: its send is complete. False: no send waits for that.
    pub(crate) fn pages_are_read(&mut self, name: u64, peer: u32) -> bool {
        let Some(id) = self.named(name, peer, State::SendPiped) else { return false };
        self.finish_send(id);
        true
    }

    /// The last piece of a message is read: ends its receive, well if the sender had not given it up meanwhile.
    pub(crate) fn end_of_pages(&mut self, id: Id) -> Result<(), Nonsense> {
        let Some(request) = self.requests.get(id) else { return Ok(()) };
        let (peer, ticket, name) = (request.peer, request.ticket, request.remote);
        let tells = Tells::Copied { class: request.class, ends: request.has(UNHURRIED) };
        let record = self.transport.record(peer, self.me, u32::from(request.slot)).zip(chunks(request.total));
        // SAFETY: the transport keeps records as long as it lives.
        let record = record.map(|(record, count)| (unsafe { record.as_ref() }, count));
        if record.is_none_or(|(record, count)| record.was_given_up(ticket, count)) {
            let hears_why = |(record, count): (&Record, u32)| {
                record.says_why(ticket) || record.look(ticket, count) == Claim::Over
            };
            if self.contexts.is_revoked(request.context) || !record.is_some_and(hears_why) {
                self.broken_off_by_peer(id);
            }
            return Ok(());
        }
        // The sender may give up what is all here, before it hears of that.
        if let Some(state) = self.peers.get_mut(peer as usize) {
            state.may_abort_late = true;
        }
        self.let_go(peer, name, tells)?;
        self.end_well(id);
        Ok(())
    }
}
