//! Several short plain messages in one packet.
//!
//! Sends whose lane is full wait in a queue. When there is room again, those in front that are short go in together: 85 messages of eight bytes take one
//! slot, 33 cache lines instead of 85, and one interrupt of a rank that computes. Nothing is held back for that, because a message for which there is room never waits.
//!
//! The payload is one entry for each message: an envelope (context, tag, length; 16 bytes), and the message, filled up to a multiple of eight bytes. The
//! receiver takes them in one by one, as if each had a packet of its own, and may stop between any two: for want of room for one that nobody has posted a
//! receive for, or of budget, or because the one that its thread waits for was among them.

use tocsin_progress::{Budget, Id};
use tocsin_transport::{Class, Header, Packet, SendOutcome, Transport, kind, short};

use crate::P2p;
use crate::in_hand::Hand;
use crate::list::Linked;
use crate::packets::{Nonsense, Step};
use crate::request::{HOLDS_RECORD, Request, SYNCHRONOUS};
use crate::send::Attempt;
use crate::urgency::Tells;

/// Longest payload of such a packet, in bytes: shorter than all that come piece by piece, and long enough to lie in the sender's pool, where there is room for
/// as many as a lane has slots.
pub(crate) const LONGEST: usize = 2040;
/// Longest message that goes in with others.
const SHORT: usize = 128;
/// Messages that are one packet of a budget, and after which it is another peer's turn.
const MESSAGES: u32 = 16;
/// Bytes of an envelope.
const ENVELOPE: usize = 16;

/// What stands before each message.
#[derive(Clone, Copy)]
#[repr(C)]
struct Envelope {
    context: u32,
    tag: i32,
    len: u32,
    _unused: u32,
}

const _: () = assert!(size_of::<Envelope>() == ENVELOPE);

/// How far a packet of several messages was taken in.
pub(crate) enum Opened {
    /// To its end.
    Whole,
    /// One message at least, and not all.
    Part,
    /// Not at all, and why.
    None(Step),
}

/// Bytes that a message takes behind its envelope.
#[inline]
const fn filled_up(len: usize) -> usize {
    len.wrapping_add(7) & !7
}

impl<T: Transport> P2p<T> {
    /// Sends in one packet what stands in front of the queue of plain messages to a peer, as far as it is short. `None`: that is less than two messages.
    /// Handler-safe; copies at most [`LONGEST`] bytes, of 127 messages.
    #[inline(never)]
    pub(crate) fn send_together(&mut self, peer: u32, budget: &mut Budget) -> Option<Attempt> {
        let [queue, _] = &self.peers.get(peer as usize)?.queues;
        let first = queue.first(&self.requests)?;
        if budget.exhausted() {
            return Some(Attempt::Spent);
        }
        let (count, bytes, len) = self.copy_together(first, budget);
        if count < 2 {
            return None;
        }
        if !budget.packet() {
            return Some(Attempt::Spent);
        }
        let header = Header { kind: kind::COALESCED, a: u64::from(count), ..Header::default() };
        let begun = self.trace_begins();
        // SAFETY: `copy_together` has filled so many bytes of the scratch.
        let outcome = unsafe {
            let urgency = Tells::Message.urgency();
            self.transport.try_send(peer, Class::Eager, urgency, &header, self.scratch.as_ptr(), len)
        };
        match outcome {
            SendOutcome::Full => {
                budget.in_vain();
                return Some(Attempt::Full);
            }
            SendOutcome::Gone => self.fail_gone(first, peer),
            SendOutcome::Sent => {
                self.count_put(peer, Class::Eager);
                self.count_sent(bytes);
                budget.took(count / MESSAGES, len);
                for _ in 0..count {
                    self.sent_with_others(peer, begun);
                }
            }
        }
        Some(Attempt::Done)
    }

    /// The first of a queue was sent with others.
    fn sent_with_others(&mut self, peer: u32, begun: u64) {
        let Some([queue, _]) = self.peers.get(peer as usize).map(|state| &state.queues) else { return };
        let Some(id) = queue.first(&self.requests) else { return };
        let Some(request) = self.requests.get(id) else { return };
        let header = short::plain(request.context, request.tag, request.total as usize);
        self.unlink(id);
        self.trace_sent(begun, peer, Class::Eager, &header);
        self.finish_send(id);
    }

    /// Copies the messages into the scratch that can go together, from `first` on: how many, and their bytes without and with envelopes.
    fn copy_together(&mut self, first: Id, budget: &Budget) -> (u32, usize, usize) {
        let longest = self.eager_max(Class::Eager).min(SHORT);
        let room = self.together.min(budget.bytes_left());
        let (mut count, mut bytes, mut used) = (0u32, 0usize, 0usize);
        let mut next = first.index;
        while let Some((_, request)) = self.requests.at(next)
            && goes_together(request, longest)
        {
            let len = request.total as usize;
            let at = used.wrapping_add(ENVELOPE);
            let end = at.wrapping_add(filled_up(len));
            let place = if end <= room { self.scratch.get_mut(used..end) } else { None };
            let Some(place) = place else { break };
            let to = place.as_mut_ptr();
            let envelope =
                Envelope { context: request.context, tag: request.tag, len: len as u32, _unused: 0 };
            let buf = request.source_buf();
            // SAFETY: `place` has room for an envelope and `len` bytes, filled up; who posted the send vouched for its buffer.
            unsafe {
                to.cast::<Envelope>().write_unaligned(envelope);
                // What was there before may have been for another rank.
                if filled_up(len) != len {
                    to.add(ENVELOPE.wrapping_add(filled_up(len)).wrapping_sub(8))
                        .cast::<u64>()
                        .write_unaligned(0);
                }
                match buf.run_at(0) {
                    Some(run) => short::copy(run, to.add(ENVELOPE), len),
                    None => buf.pack(0, len, to.add(ENVELOPE)),
                }
            }
            (count, bytes, used) = (count.wrapping_add(1), bytes.wrapping_add(len), end);
            next = request.link(0).next_index();
        }
        (count, bytes, used)
    }

    /// A message for which no posted receive has room, or that takes more.
    #[inline(never)]
    fn message_among_others(
        &mut self,
        peer: u32,
        message: &Packet,
        budget: &mut Budget,
    ) -> Result<Step, Nonsense> {
        self.message(peer, Class::Eager, message, budget)
    }

    /// Takes in messages from the packet at the head of a peer's Eager lane, from where it stopped last; one packet of the budget was taken, and each that meets no
    /// receive takes another. Handler-safe; at most [`MESSAGES`].
    #[inline(never)]
    pub(crate) fn open_together(
        &mut self,
        peer: u32,
        packet: &Packet,
        budget: &mut Budget,
    ) -> Result<Opened, Nonsense> {
        let from = self.peers.get(peer as usize).map_or(0, |state| state.opened);
        if packet.header.flags != 0 || packet.len == 0 || packet.len > LONGEST {
            return Err(Nonsense);
        }
        let (mut at, mut taken) = (from, 0u32);
        let stopped = loop {
            if taken == MESSAGES {
                break Step::Taken;
            }
            let (message, end) = message_at(packet, at).ok_or(Nonsense)?;
            let waited = matches!(self.hand, Hand::Waiting(_));
            if !self.meet_short(peer, Class::Eager, &message, budget) {
                // Most of those are kept, which takes more than what a copy does.
                if taken > 0 && !budget.packet() {
                    break Step::Spent;
                }
                let kept = self.keep_plain(peer, Class::Eager, &message, budget);
                let step =
                    if kept { Step::Taken } else { self.message_among_others(peer, &message, budget)? };
                if step != Step::Taken {
                    break step;
                }
            }
            self.counters.bytes_received = self.counters.bytes_received.wrapping_add(message.len as u64);
            self.trace_taken(peer, Class::Eager, &message.header);
            (at, taken) = (end, taken.wrapping_add(1));
            if at == packet.len {
                return Ok(Opened::Whole);
            }
            // The next one may be what the thread receives next, where it need not be kept meanwhile.
            if waited && matches!(self.hand, Hand::Met(_)) {
                break Step::Taken;
            }
        };
        if at == from {
            return Ok(Opened::None(stopped));
        }
        if let Some(state) = self.peers.get_mut(peer as usize) {
            state.opened = at;
        }
        Ok(Opened::Part)
    }
}

/// Whether a message may stand beside others in a packet.
#[inline]
fn goes_together(request: &Request, longest: usize) -> bool {
    request.total <= longest as u64 && !request.has(SYNCHRONOUS) && !request.has(HOLDS_RECORD)
}

/// The message whose envelope stands at an offset of a packet, as a packet of its own, and where the next one is. `None`: it is not inside the packet.
#[inline]
fn message_at(packet: &Packet, at: usize) -> Option<(Packet, usize)> {
    let start = at.checked_add(ENVELOPE).filter(|start| *start <= packet.len)?;
    let from = packet.payload.wrapping_add(at);
    // SAFETY: the transport vouches for `packet.len` bytes of payload until it is consumed; the envelope is read once.
    let envelope = unsafe { from.cast::<Envelope>().read_unaligned() };
    let len = envelope.len as usize;
    let end = start.checked_add(filled_up(len)).filter(|end| len <= SHORT && *end <= packet.len)?;
    let header = short::plain(envelope.context, envelope.tag, len);
    Some((Packet { header, payload: packet.payload.wrapping_add(start), len }, end))
}
