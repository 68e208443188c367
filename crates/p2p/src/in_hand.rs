//! A receive that its thread waits for inside the engine, without a request.
//!
//! It stands behind all posted receives and is gone before the engine is left, so it never meets anything that a receive
//! posted in its place would not have met. What it cannot end at once (an announced message, one whose sender waits for
//! an answer) is kept as an unexpected one, and the thread posts its receive after all.

use tocsin_progress::{Budget, Code, Context, Outcome};
use tocsin_transport::{Arrival, Class, Header, Packet, Reach, Recv, Transport, kind};

use crate::coming;
use crate::packets::Step;
use crate::pattern::Pattern;
use crate::{Error, Layout, MutBuf, P2p, RecvArgs, whole};

/// Receives met in hand, and ends of messages met, from one look at everything else to the next.
pub(crate) const MET_PER_LOOK: u32 = 8;

/// What has become of the receive that a thread waits for.
#[derive(Debug)]
pub(crate) enum Hand {
    /// There is none.
    Empty,
    /// It waits.
    Waiting(InHand),
    /// Its message is in the buffer.
    Met(Met),
}

/// The message that a receive in hand has met. Three words that are read as they were written, rather than an
/// [`Outcome`] whose copy would wait for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Met {
    /// World rank of its sender.
    pub source: u32,
    /// Its tag.
    pub tag: i32,
    /// Its length, which may be more than there was room for.
    pub bytes: usize,
}

impl Met {
    /// What the receive of at most `room` bytes ended with.
    pub fn outcome(self, room: usize) -> Outcome {
        let truncated = self.bytes > room;
        Outcome {
            code: if truncated { Code::Truncated } else { Code::Ok },
            source: self.source,
            tag: self.tag,
            bytes: self.bytes as u64,
            detail: if truncated { room as u64 } else { 0 },
        }
    }
}

#[derive(Debug)]
pub(crate) struct InHand {
    context: u32,
    pub(crate) source: u32,
    tag: Option<i32>,
    pub(crate) buf: MutBuf,
    /// A payload has stopped coming: its packet is waited for.
    stopped: bool,
}

// SAFETY: the buffer's address is only followed under the engine's token, by the thread that lent it.
unsafe impl Send for InHand {}

/// What a [`glance`](P2p::glance) found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Glance {
    /// Nothing has come from that sender.
    Nothing,
    /// Something was taken in that others may wait for.
    Other,
    /// There is nothing to wait for any more: [`put_down`](P2p::put_down) tells.
    Over,
}

impl InHand {
    #[inline]
    pub(crate) fn meets(&self, context: u32, source: u32, tag: i32) -> bool {
        self.context == context && self.source == source && self.tag.is_none_or(|wanted| wanted == tag)
    }

    /// Copies an eager message into the buffer. Inlined, so that the packet need not be written to memory to be read again.
    ///
    /// # Safety
    /// The packet is the one that the transport lends now.
    #[inline(always)]
    pub(crate) unsafe fn receive(&self, source: u32, packet: &Packet) -> Met {
        // SAFETY: who took the receive in hand vouched for the buffer, and `unpack` stays inside it; the caller vouches for
        // the payload.
        unsafe { self.buf.unpack(0, packet.len, packet.payload) };
        self.met(source, packet)
    }

    pub(crate) fn met(&self, source: u32, packet: &Packet) -> Met {
        Met { source, tag: packet.header.tag, bytes: packet.len }
    }
}

impl<T: Transport> P2p<T> {
    /// Takes a receive of a plain message from one source in hand, to be looked for by [`glance`](Self::glance) and by
    /// passes. False: it takes an [`irecv`](Self::irecv). User threads only.
    ///
    /// # Errors
    /// As [`irecv`](Self::irecv).
    ///
    /// # Safety
    /// The buffer is writable as its layout says, and not otherwise used, until [`put_down`](Self::put_down), which the
    /// caller calls before it leaves the engine.
    #[inline]
    pub unsafe fn take_in_hand(&mut self, args: &RecvArgs) -> Result<bool, Error> {
        self.context = Context::User;
        let room = self.check(args.class, args.context, &args.buf.layout)?;
        let (Some(source), Class::Eager) = (args.source, args.class) else { return Ok(false) };
        let long = room > self.eager_max(Class::Eager);
        if long && !self.may_be_awaited(source, &args.buf) {
            return Ok(false);
        }
        self.refresh_epoch();
        let Some(peer) = self.peers.get(source as usize) else { return Ok(false) };
        // Who has ended, and what is behind a full pool, is the general way's to see to.
        if peer.fate.no_more_to().is_some() || self.blocked > 0 || !self.transport.is_connected(source) {
            return Ok(false);
        }
        let pattern = Pattern::new(args.context, args.source, args.tag);
        let [plain, _] = &mut self.matching;
        if let Some(message) = plain.unexpected.find(&pattern) {
            let Layout::Contiguous { bytes: room } = args.buf.layout else { return Ok(false) };
            // SAFETY: the caller vouches for the buffer.
            let met = unsafe { plain.unexpected.hand_over(message, args.buf.base, room) };
            if let Some((tag, bytes)) = met {
                self.freed = self.freed.wrapping_add(1);
                self.transport.note_handed(source, Class::Eager);
                self.count_copy(bytes);
                self.hand = Hand::Met(Met { source, tag, bytes });
            }
            return Ok(met.is_some());
        }
        if long {
            // Between threads one copy is quicker than two.
            if self.transport.reach(source) == Reach::Direct {
                return Ok(false);
            }
            if !self.await_in_hand(source) {
                return Ok(false);
            }
        }
        self.transport.prepare_rings(source);
        self.hand = Hand::Waiting(InHand {
            context: args.context,
            source,
            tag: args.tag,
            buf: args.buf,
            stopped: false,
        });
        Ok(true)
    }

    /// Has what the answer to the message of the receive in hand is written to fetched: for who finds that it takes a while. User threads only.
    #[inline]
    pub fn will_answer(&self) {
        let Hand::Waiting(hand) = &self.hand else { return };
        self.transport.will_answer(hand.source, Class::Eager);
    }

    /// Looks for the message of the receive in hand, and takes in at most one packet of its sender. User threads only;
    /// copies at most one packet, and waits for 5 us at most for each 4 KiB of one that comes.
    #[inline]
    pub fn glance(&mut self) -> Glance {
        let Hand::Waiting(hand) = &self.hand else { return Glance::Over };
        let source = hand.source;
        match self.transport.arrival(source, Class::Eager) {
            Arrival::Nothing => return Glance::Nothing,
            Arrival::Comes if hand.stopped => return Glance::Nothing,
            Arrival::Comes => return self.receive_coming(),
            Arrival::Here => {}
        }
        if self.receive_plain() {
            return Glance::Over;
        }
        let step = self.step(source, Class::Eager, &mut Budget::user());
        self.set_blocked(source, Class::Eager, step);
        match (&self.hand, step) {
            (Hand::Waiting(_), Step::Taken) => {
                if let Hand::Waiting(hand) = &mut self.hand {
                    hand.stopped = false;
                }
                Glance::Other
            }
            // It stays where it is: more than glances must be done.
            (Hand::Waiting(_), _) => {
                self.hand = Hand::Empty;
                Glance::Over
            }
            _ => Glance::Over,
        }
    }

    /// What [`step`](Self::step) comes to for most packets: a plain message that meets the receive in hand and no other.
    /// Whether there is nothing to wait for any more.
    #[inline]
    fn receive_plain(&mut self) -> bool {
        let Hand::Waiting(hand) = &self.hand else { return false };
        let source = hand.source;
        let packet = match self.transport.peek(source, Class::Eager) {
            Recv::Packet(packet) => packet,
            Recv::Empty => return false,
            Recv::Corrupt => return self.give_up_on(source),
        };
        if !self.meets_hand_alone(hand, &packet) {
            let taken = self.hand_takes_brought(source, &packet);
            if taken {
                self.take_plain(source, &packet);
            }
            return taken;
        }
        // SAFETY: it is the packet at the head of the lane.
        self.hand = Hand::Met(unsafe { hand.receive(source, &packet) });
        self.take_plain(source, &packet);
        true
    }

    /// The same of a packet whose payload its sender still copies. If it stops, the receive in hand waits for the whole.
    #[inline(never)]
    fn receive_coming(&mut self) -> Glance {
        let Hand::Waiting(hand) = &self.hand else { return Glance::Over };
        let source = hand.source;
        let packet = match self.transport.peek_coming(source, Class::Eager) {
            Recv::Packet(packet) => packet,
            Recv::Empty => return Glance::Nothing,
            Recv::Corrupt => {
                self.give_up_on(source);
                return Glance::Over;
            }
        };
        if whole::brings(&packet) {
            return match self.hand_takes_brought(source, &packet) {
                true => {
                    self.take_plain(source, &packet);
                    Glance::Over
                }
                false => self.turn_away(),
            };
        }
        let met = self.meets_hand_alone(hand, &packet);
        // SAFETY: it is the packet at the head of the lane; who took the receive in hand vouched for the buffer.
        if met && unsafe { coming::copy(&self.transport, source, Class::Eager, &packet, &hand.buf) } {
            self.hand = Hand::Met(hand.met(source, &packet));
            self.take_plain(source, &packet);
            return Glance::Over;
        }
        self.turn_away()
    }

    /// What comes is waited for until it is whole, if there is still something to wait for.
    fn turn_away(&mut self) -> Glance {
        let Hand::Waiting(hand) = &mut self.hand else { return Glance::Over };
        hand.stopped = true;
        Glance::Nothing
    }

    /// The sender has written nonsense, which the transport says once: there is nothing to wait for.
    #[cold]
    fn give_up_on(&mut self, source: u32) -> bool {
        self.condemn(source);
        self.hand = Hand::Empty;
        true
    }

    /// Whether a packet of the receive's sender is a plain message that meets it and no other receive.
    #[inline(always)]
    fn meets_hand_alone(&self, hand: &InHand, packet: &Packet) -> bool {
        let header = &packet.header;
        header.kind == kind::EAGER
            && header.flags == 0
            && header.a == packet.len as u64
            && packet.len <= self.longest
            && self.is_for_hand_alone(hand, header)
    }

    #[inline(always)]
    pub(crate) fn is_for_hand_alone(&self, hand: &InHand, header: &Header) -> bool {
        let [posted, _] = &self.matching;
        hand.meets(header.context, hand.source, header.tag)
            && posted.posted.is_empty()
            && !self.contexts.is_revoked(header.context)
            && self.peers.get(hand.source as usize).is_some_and(|p| p.is_open(0))
    }

    /// The message at the head of a sender's lane was received.
    #[inline(always)]
    fn take_plain(&mut self, source: u32, packet: &Packet) {
        self.count_copy(packet.len);
        self.count_packet(packet.len);
        self.transport.consume(source, Class::Eager);
        self.count_taken(source, Class::Eager);
        self.trace_taken(source, Class::Eager, &packet.header);
    }

    /// Whether so many receives were met in hand since somebody looked at all else that the caller must: who receives one
    /// message after the other makes a pass for everybody else, if there is work for one. Counts one more. `looked`: the
    /// caller has, while the receive was in hand.
    #[inline]
    pub fn owes_a_look(&mut self, looked: bool) -> bool {
        self.met_in_hand = if looked { 0 } else { self.met_in_hand.wrapping_add(1) };
        let owed = self.met_in_hand >= MET_PER_LOOK;
        if owed {
            self.met_in_hand = 0;
        }
        owed
    }

    /// Puts the receive down. Its message, if it came; if not, the buffer is not touched any more, and nothing has been
    /// received for it, though it may hold a part of a message that has not come to its end.
    #[inline]
    pub fn put_down(&mut self) -> Option<Met> {
        self.await_no_more(None);
        let met = match &self.hand {
            Hand::Met(met) => {
                self.expects_longer = met.bytes > self.at_once;
                Some(*met)
            }
            Hand::Waiting(_) | Hand::Empty => None,
        };
        self.hand = Hand::Empty;
        met
    }
}
