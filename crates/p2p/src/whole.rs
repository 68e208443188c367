//! Announcements that bring their message.
//!
//! Where threads of both wait, a message that is too long to be eager need not wait for the answer to its announcement either: the sender copies all of it in
//! behind the announcement while the receiver copies it out, and hears when that is done.
//!
//! | step | who | what |
//! |---|---|---|
//! | bring | sender, whose thread waits for the send's end, or is expected to | RTS with the message as its payload, to a rank that has said that it copies out what comes |
//! | take | a thread that waits, or any user's thread for a receive that is expected to be waited for next | copies it out as it comes, and answers ACK: the send is complete |
//! | decline | anybody else | takes the RTS as one that brings nothing, and answers CTS when it has met a receive: pieces follow |
//!
//! Nobody is bound to take it, because the sender keeps its buffer until it is answered: so no handler ever copies more than a piece, and nothing that is
//! brought is ever kept. What was copied in is in vain then, mostly by a thread that had nothing else to do, and the sender [hears](P2p::await_soon_in_vain) that nobody waits who was expected to.

use tocsin_progress::{Context, Id};
use tocsin_transport::{Class, Header, Packet, SendOutcome, Transport, copy, kind};

use crate::in_hand::Hand;
use crate::packets::FLAG_BRINGS;
use crate::request::{BRINGS, HOLDS_RECORD, Request, SYNCHRONOUS, State};
use crate::urgency::Tells;
use crate::{MutBuf, P2p, coming};

/// Whether a packet is an announcement that brings its message.
#[inline]
pub(crate) fn brings(packet: &Packet) -> bool {
    let header = &packet.header;
    header.kind == kind::RTS && header.flags == FLAG_BRINGS && header.a == packet.len as u64
}

impl<T: Transport> P2p<T> {
    /// Longest message that a receive may say to be waited for.
    pub(crate) fn awaited_max(&self) -> usize {
        let whole = if self.pipelines { self.transport.longest_whole() } else { 0 };
        self.waiting_eager_max.max(whole)
    }

    /// Announces a send and brings its message. False: it is to be announced alone. User threads only; copies the message.
    pub(crate) fn try_bring(&mut self, id: Id) -> bool {
        let Some(request) = self.requests.get(id).filter(|request| self.is_to_bring(request)) else {
            return false;
        };
        let (peer, buf) = (request.peer, request.source_buf());
        let Ok(len) = usize::try_from(request.total) else { return false };
        let Some(payload) = buf.run_at(0) else { return false };
        let header = Header {
            kind: kind::RTS,
            flags: FLAG_BRINGS,
            context: request.context,
            tag: request.tag,
            a: request.total,
            b: Self::wire_name(id, request.serial),
            c: 0,
        };
        let begun = self.trace_begins();
        self.transport.rouse(peer);
        // SAFETY: who posted the send vouched for its buffer, of `len` bytes in one run.
        if !unsafe { self.transport.try_send_whole(peer, &header, payload, len) } {
            return false;
        }
        // This thread waits for the answer.
        copy::pass_on(payload, len);
        self.count_sent(len);
        self.count_put(peer, Class::Eager);
        self.trace_sent(begun, peer, Class::Eager, &header);
        self.unlink(id);
        if let Some(request) = self.requests.get_mut(id) {
            request.flags |= BRINGS;
            request.state = State::SendAnnounced;
        }
        true
    }

    fn is_to_bring(&self, request: &Request) -> bool {
        let (peer, total) = (request.peer, request.total);
        self.waits
            && self.pipelines
            && self.context == Context::User
            && request.class == Class::Eager
            && !request.has(SYNCHRONOUS)
            && !request.has(HOLDS_RECORD)
            && peer != self.me
            && total <= self.transport.longest_whole() as u64
            && (self.transport.is_awaited_by(peer) || self.transport.is_awaited_soon(peer))
            && (total <= self.shared_pipelined() || {
                let from = request.base as u64;
                !self.transport.is_shared_with(peer, from, total)
            })
    }

    /// Whether a receive may say that it is waited for: it is longer than eager messages are, and not so long, or in memory that both have mapped, that there
    /// is a quicker way.
    pub(crate) fn may_be_awaited(&self, source: u32, buf: &MutBuf) -> bool {
        let room = buf.layout.bytes();
        room > self.eager_max(Class::Eager)
            && room <= self.awaited_max()
            && (room as u64 <= self.shared_pipelined()
                || !self.transport.is_shared_with(source, buf.base as u64, room as u64))
    }

    /// Takes a brought message that lies at the head of a lane for the receive in hand, if it meets that and no other, and there is room for it; as much of it
    /// as is not there yet, as it comes. It is to be consumed then. False: it is for others, or has stopped coming, or the hand is empty now. User threads only.
    pub(crate) fn hand_takes_brought(&mut self, source: u32, packet: &Packet) -> bool {
        let Hand::Waiting(hand) = &self.hand else { return false };
        let meets = brings(packet)
            && hand.source == source
            && packet.len <= hand.buf.layout.bytes()
            && self.is_for_hand_alone(hand, &packet.header);
        // SAFETY: it is the packet at the head of the lane; who took the receive in hand vouched for the buffer.
        if !meets || !unsafe { coming::copy(&self.transport, source, Class::Eager, packet, &hand.buf) } {
            return false;
        }
        let met = hand.met(source, packet);
        if self.acknowledge(source, &packet.header) {
            self.hand = Hand::Met(met);
            return true;
        }
        // A receive that is posted can wait until there is room for the answer.
        self.hand = Hand::Empty;
        false
    }

    /// The announced send that an ACK names, if it has brought its message.
    pub(crate) fn brought(&self, name: u64, peer: u32) -> Option<Id> {
        let id = self.named(name, peer, State::SendAnnounced)?;
        self.requests.get(id).filter(|request| request.has(BRINGS)).map(|_| id)
    }

    /// The sender of a brought message hears that it is here. False: there is no room to say so.
    fn acknowledge(&mut self, peer: u32, header: &Header) -> bool {
        let ack = Header { kind: kind::ACK, flags: 0, a: header.b, b: 0, ..*header };
        self.transmit_control(peer, Tells::Received, &ack) != SendOutcome::Full
    }
}
