//! What is taken in without a pass, by who posts a long receive, and by who comes to wait for a large message that is over.
//!
//! A pass looks at everything that may have come, from everybody. Of a message that was hidden behind computing, the post and the wait are all that is left to be
//! seen of it, so that both first look where news of that message would lie.

use core::ptr::NonNull;

use tocsin_progress::{Budget, Context, Id};
use tocsin_sync::atomic::{Ordering, fence};
use tocsin_sync::{prefetch_for_read, prefetch_for_write};
use tocsin_transport::{Arrival, Class, Packet, Record, Recv, Transport, kind};

use crate::P2p;
use crate::in_hand::{Glance, MET_PER_LOOK};
use crate::packets::Step;
use crate::probe::Grown;
use crate::request::{ANY_SOURCE, Request, State};
use crate::transfers::FLAG_LOOK;

/// Packets taken in by a post.
const MOST: u32 = 8;
/// Lines in which [news](P2p::news_of) of a message may lie.
pub const NEWS: usize = 3;
/// Answers taken in by a wait: a message may have been accepted, its sender asked to look, and its end told.
const ANSWERS: u32 = 4;

impl<T: Transport> P2p<T> {
    /// Has the line fetched that a receive from `source` is published in: its sender has claimed by it what was published last.
    #[inline]
    pub(crate) fn fetch_for_publication(&self, source: u32) {
        if let Some(at) = self.transport.publication(source, self.me) {
            prefetch_for_write(at.as_ptr());
        }
    }

    /// Takes in what has come in that lane while a receive for it was posted, if that is published: its sender may have looked for that too early, and
    /// then does not ring for what it has announced instead. Whether something was. What is left there has the engine look. User threads only; bounded:
    /// 8 packets.
    #[inline]
    pub fn take_in_after(&mut self, source: u32) -> bool {
        // A lane that this rank has yet to learn of is for the engine to look into.
        if !self.transport.is_connected(source) || !self.takes_published() {
            return false;
        }
        // SYNC POINT: published, fence, look; a sender announces, fences, and asks what is published.
        fence(Ordering::SeqCst);
        let came = self.take_in_plain(source, false);
        self.has_published = came && self.transport.arrival(source, Class::Eager) == Arrival::Here;
        came
    }

    /// Takes in what lies in the lane of plain messages from `source`, by who posts something and `waits` next, or goes away. Whether something was. User threads only; bounded: 8 packets.
    #[inline]
    pub(crate) fn take_in_plain(&mut self, source: u32, waits: bool) -> bool {
        if self.transport.arrival(source, Class::Eager) != Arrival::Here {
            return false;
        }
        self.fetch_for_answer(source);
        self.context = Context::User;
        let budget = Budget::user();
        self.take_in_within(source, Class::Eager, MOST, if waits { budget } else { budget.in_passing() });
        true
    }

    /// Has all lines fetched at once that are read and written when an announcement from `source` is answered: each comes from the core that sent it.
    #[inline]
    fn fetch_for_answer(&self, source: u32) {
        // The one that was taken where no other message is under way.
        if let Some(at) = self.transport.record(source, self.me, 0) {
            prefetch_for_read(at.as_ptr());
        }
        self.transport.will_send(source, Class::Control);
    }

    /// Whether the peer of a request has answered something that was not looked at, and it may be [met](Self::meet_end): who meets one end after the
    /// other makes a pass for everybody else now and then, as who meets one receive after the other [does](Self::owes_a_look). User threads only; a
    /// few loads.
    #[inline]
    pub fn has_answer(&self, id: Id) -> bool {
        self.met_in_hand.wrapping_add(1) < MET_PER_LOOK
            && self.requests.get(id).is_some_and(|request| {
                self.fetch_for_end(request);
                request.peer != ANY_SOURCE
                    && self.transport.arrival(request.peer, Class::Control) == Arrival::Here
            })
    }

    /// Has the line fetched that is read when a request's peer says that all is copied: the record by which it has done that, or the announcement.
    #[inline]
    fn fetch_for_end(&self, request: &Request) {
        match request.state {
            State::RecvPosted => {
                if let Some(line) = self.transport.news_at(request.peer, Class::Eager) {
                    prefetch_for_read(line.as_ptr());
                }
                // By which its sender has copied, and the next receive is published.
                if let Some(at) = self.transport.publication(request.peer, self.me) {
                    prefetch_for_write(at.as_ptr());
                }
            }
            State::SendAnnounced | State::SendShared | State::RecvShared => {
                if let Some((record, _)) = self.record_of(request) {
                    prefetch_for_read(record);
                }
                // Its receiver has had it fetched with the announcement; it is closed.
                if let Some((own, _)) = self.own_record_beside(request) {
                    prefetch_for_write(own);
                }
            }
            _ => {}
        }
    }

    /// Where news of a message's end will lie that is under way, as far as that is known: lines that are worth [fetching](prefetch_for_read) when its thread comes back from computing. They stay
    /// mapped as long as the transport lives; what stands there may be of other messages by then. Handler-safe, constant.
    #[inline]
    pub fn news_of(&self, id: Id) -> [Option<NonNull<u8>>; NEWS] {
        let Some(request) = self.requests.get(id).filter(|request| request.peer != ANY_SOURCE) else {
            return [None; NEWS];
        };
        let news = |class| self.transport.news_at(request.peer, class);
        let record = |found: Option<(&Record, u32)>| found.map(|(record, _)| NonNull::from(record).cast());
        match request.state {
            State::RecvPosted => {
                let publication = self.transport.publication(request.peer, self.me);
                [news(Class::Control), news(Class::Eager), publication.map(NonNull::cast)]
            }
            _ => {
                let (own, record_of) = (self.own_record_beside(request), self.record_of(request));
                [news(Class::Control), record(record_of), record(own)]
            }
        }
    }

    /// Takes in what a request's peer has answered to it, and if that says that the message is copied, its announcement, which may still be in its lane. Whether
    /// the request is over by that. If not, the next look finds a pass to make for what was set going. User threads only; bounded: 5 packets.
    pub fn meet_end(&mut self, id: Id) -> bool {
        let Some(peer) = self.requests.get(id).map(|request| request.peer) else { return false };
        if peer == ANY_SOURCE {
            return false;
        }
        self.context = Context::User;
        for _ in 0..ANSWERS {
            if !self.is_pending(id) || !self.is_answered_next(id, peer) {
                break;
            }
            self.take_in(peer, Class::Control, 1);
        }
        if self.requests.get(id).is_some_and(|request| request.state == State::RecvPosted)
            && self.is_copied(id, peer)
        {
            self.take_in(peer, Class::Eager, 1);
        }
        let over = !self.is_pending(id);
        self.again |= !over;
        self.met_in_hand = self.met_in_hand.wrapping_add(u32::from(over));
        over
    }

    /// Looks for the message of a posted receive that comes in one packet, and takes in at most one packet of its sender, as it comes. [`Glance::Over`]: it is over, or is for a pass
    /// to go on with; who [owes](Self::owes_a_look) the others a look sees to it then. User threads only, that wait; copies at most one packet, and waits for 10 us at most for each 4 KiB of
    /// one that comes.
    #[inline]
    pub fn glance_for(&mut self, id: Id) -> Glance {
        let source =
            self.requests.get(id).filter(|request| request.state == State::RecvPosted).map(|r| r.peer);
        let Some(source) = source.filter(|source| *source != ANY_SOURCE) else { return Glance::Over };
        if self.transport.arrival(source, Class::Eager) == Arrival::Nothing {
            return Glance::Nothing;
        }
        self.context = Context::User;
        let step = self.step(source, Class::Eager, &mut Budget::user());
        self.set_blocked(source, Class::Eager, step);
        if step == Step::Taken && self.is_pending(id) { Glance::Other } else { Glance::Over }
    }

    /// Whether the oldest answer of a peer is to this request, or asks for nothing but a look: what else was set going would be a pass's to go on with.
    fn is_answered_next(&mut self, id: Id, peer: u32) -> bool {
        let Some(request) = self.requests.get(id) else { return false };
        let name = Self::wire_name(id, request.serial);
        match self.transport.peek(peer, Class::Control) {
            Recv::Packet(Packet { header, .. }) => match header.kind {
                kind::FIN if header.flags == FLAG_LOOK => true,
                kind::FIN | kind::CTS => header.a == name,
                _ => false,
            },
            Recv::Empty => false,
            Recv::Corrupt => {
                self.condemn(peer);
                false
            }
        }
    }

    /// Takes in all that this rank has sent itself, so that a receive or a probe that nobody else can meet any more meets that: as far as there is room for it among the unexpected messages.
    /// User threads only; bounded by how much that is.
    pub(crate) fn take_in_own(&mut self) {
        loop {
            let before = self.counters.packets_received;
            self.progress(&mut Budget::user());
            // Of what this completed the collectives have yet to hear.
            self.again = true;
            self.take_in(self.me, Class::Eager, u32::MAX);
            let grown = self.blocked > 0 && self.grow_unexpected() == Grown::Room;
            let queued = self.peers.get(self.me as usize).is_some_and(|own| {
                let [waiting, _] = &own.queues;
                !waiting.is_empty()
            });
            let left = queued || self.transport.arrival(self.me, Class::Eager) != Arrival::Nothing;
            if !left || !grown && self.counters.packets_received == before {
                return;
            }
        }
    }

    /// Takes in at most so many packets of one lane. What is still coming is left to a pass.
    fn take_in(&mut self, peer: u32, class: Class, most: u32) {
        self.take_in_within(peer, class, most, Budget::user());
    }

    fn take_in_within(&mut self, peer: u32, class: Class, most: u32, mut budget: Budget) {
        for _ in 0..most {
            if self.transport.arrival(peer, class) != Arrival::Here {
                return;
            }
            let step = self.step(peer, class, &mut budget);
            if class == Class::Eager {
                self.set_blocked(peer, class, step);
            }
            if step != Step::Taken {
                return;
            }
        }
    }
}
