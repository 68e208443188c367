//! Receives, from posting to the last byte in the buffer.

use tocsin_progress::{Code, Context, Id, Outcome};
use tocsin_transport::{Class, Header, SendOutcome, Transport, kind};

use crate::coming;
use crate::pages::FLAG_PAGES;
use crate::pattern::Pattern;
use crate::request::{ANY_TAG, ASKS, Member, OWES_ACK, OWES_FIN, PIPED, Request, SHARED, State};
use crate::transfers::FLAG_SHARED;
use crate::unexpected::{Arrival, Envelope};
use crate::urgency::Tells;
use crate::{Error, Layout, MessageId, MutBuf, P2p, RecvArgs};

/// Receives posted in a row before a pass: so few that a sender which is somewhat quicker has not filled a lane since, and so many that
/// the look, mostly in vain, costs little of each.
pub(crate) const POSTED_PER_PASS: u32 = 32;

impl<T: Transport> P2p<T> {
    /// Posts a receive. User threads only: it may allocate.
    ///
    /// A message that is longer than the buffer ends it with [`Code::Truncated`]: `bytes` is the message's length,
    /// `detail` the buffer's; of an eager message the buffer holds the beginning, of a larger one nothing.
    ///
    /// # Errors
    /// As [`isend`](Self::isend). A receive of any source is refused when a member of the communicator
    /// ([`set_members`](Self::set_members)) is dead, or all others have finalized; what has already arrived is
    /// received all the same.
    ///
    /// # Safety
    /// The buffer is writable as its layout says, from whichever thread or handler holds the engine's token, and not
    /// otherwise used, until the request is complete or [abandoned](Self::abandon).
    #[inline]
    pub unsafe fn irecv(&mut self, args: RecvArgs) -> Result<Id, Error> {
        // SAFETY: promised by the caller.
        unsafe { self.post_recv(args, false) }.map(|(id, _)| id)
    }

    /// [`irecv`](Self::irecv) of a long message by a user's thread: what lies in its sender's lane is taken in before the buffer is published, so that an announcement
    /// that is there already meets its receive, and nobody need be told where that is nor be interrupted. And whether something lay there. Bounded: 8 packets.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub unsafe fn irecv_long(&mut self, args: RecvArgs) -> Result<(Id, bool), Error> {
        if let Some(source) = args.source {
            self.fetch_for_publication(source);
        }
        // SAFETY: promised by the caller.
        unsafe { self.post_recv(args, true) }
    }

    /// Posts a receive; `looks` in its sender's lane before it is published. Whether something was there.
    ///
    /// # Safety
    /// As [`irecv`](Self::irecv).
    #[inline]
    unsafe fn post_recv(&mut self, args: RecvArgs, looks: bool) -> Result<(Id, bool), Error> {
        self.context = Context::User;
        let room = self.check(args.class, args.context, &args.buf.layout)?;
        if room > self.eager_max(args.class) {
            self.transport.prepare_shared();
        }
        if let Some(rank) = args.source.filter(|rank| *rank >= self.size) {
            return Err(Error::NoSuchRank { rank, size: self.size });
        }
        self.learn_ends();
        let class = usize::from(args.class == Class::Coll);
        let pattern = Pattern::new(args.context, args.source, args.tag);
        let mut kept = self.matching.get_mut(class).and_then(|m| m.unexpected.find(&pattern));
        if kept.is_none()
            && let Some((code, rank)) = self.no_source(args.context, args.source)
        {
            self.take_in_own();
            kept = self.matching.get_mut(class).and_then(|m| m.unexpected.find(&pattern));
            if kept.is_none() {
                return Err(self.refusal(args.context, code, rank));
            }
        }
        if let Some(source) = args.source {
            // Handlers will answer it.
            self.transport.prepare_rings(source);
        }
        let id = self.reserve_request()?;
        self.begin_recv(id, args.buf, args.class, args.cookie, &pattern);
        let mut met = false;
        match kept {
            Some(message) => self.deliver(id, message),
            None => {
                self.enter(id, args.class, &pattern);
                met = looks && args.source.is_some_and(|source| self.take_in_plain(source, self.waits));
                if !met || self.requests.get(id).is_some_and(|request| request.state == State::RecvPosted) {
                    self.tell_of(id, args.class, room);
                }
            }
        }
        if let Some(matching) = self.matching.get_mut(class) {
            matching.posted.make_room(&mut self.requests);
        }
        self.posted_since = self.posted_since.wrapping_add(1);
        Ok((id, met))
    }

    /// Whether so many receives were posted since the last pass that the caller owes one, if there is work for it: who posts many in
    /// a row is in the library nearly all the time, and would be interrupted for what meanwhile fills the lanes. Counts anew then.
    #[inline]
    pub fn owes_a_pass(&mut self) -> bool {
        let owed = self.posted_since >= POSTED_PER_PASS;
        if owed {
            self.posted_since = 0;
        }
        owed
    }

    /// [`owes_a_pass`](Self::owes_a_pass) of who gives requests back one after the other, which counts as posting them does.
    #[inline]
    pub fn owes_a_pass_for_one_more(&mut self) -> bool {
        self.posted_since = self.posted_since.wrapping_add(1);
        self.owes_a_pass()
    }

    /// Starts a reserved request as a receive. What [`irecv`](Self::irecv) answers with an error, the request ends with
    /// here. Ignored if the request is in use. Handler-safe; copies at most `eager_max` bytes.
    ///
    /// # Safety
    /// As [`irecv`](Self::irecv).
    pub unsafe fn start_recv(&mut self, id: Id, args: RecvArgs) {
        let pattern = Pattern::new(args.context, args.source, args.tag);
        if !self.begin_recv(id, args.buf, args.class, args.cookie, &pattern) {
            return;
        }
        if args.source.is_some_and(|source| source >= self.size) {
            return self.fail(id, Code::Protocol, args.source.unwrap_or(0));
        }
        if self.contexts.is_revoked(args.context) {
            return self.fail(id, Code::Revoked, self.me);
        }
        let class = usize::from(args.class == Class::Coll);
        if let Some(message) = self.matching.get_mut(class).and_then(|m| m.unexpected.find(&pattern)) {
            return self.deliver(id, message);
        }
        if let Some((code, rank)) = self.no_source(args.context, args.source) {
            return self.fail(id, code, rank);
        }
        self.enter(id, args.class, &pattern);
        self.tell_of(id, args.class, args.buf.layout.bytes());
    }

    /// Puts a receive, for which no message is kept, into the table of posted ones. Handler-safe.
    #[inline]
    fn enter(&mut self, id: Id, class: Class, pattern: &Pattern) {
        let plain = class != Class::Coll;
        if let Some(matching) = self.matching.get_mut(usize::from(!plain)) {
            matching.posted.insert(&mut self.requests, id, pattern);
        }
        if let Some(state) = pattern.source().and_then(|source| self.peers.get_mut(source as usize)) {
            state.stopped &= !coming::bit(class);
            if plain {
                state.published.posted = state.published.posted.wrapping_add(1);
            }
        }
    }

    /// Tells its sender of a receive in that table, if that is of use. `room`: its buffer's length. Handler-safe.
    #[inline]
    fn tell_of(&mut self, id: Id, class: Class, room: usize) {
        // One that announced messages of users, of those that fit, may meet.
        let long = class != Class::Coll && room > self.eager_max(Class::Eager);
        if long && self.waits {
            self.await_soon(id);
        }
        if long
            && !(self.publishes && self.publish(id))
            && let Some(request) = self.requests.get_mut(id)
        {
            request.flags |= ASKS;
            self.awaits_offers = self.awaits_offers.wrapping_add(1);
        }
        // It may be what the head of a blocked lane waits for.
        self.again |= self.blocked > 0;
    }

    /// Receives a probed message. User threads only: it may allocate.
    ///
    /// # Errors
    /// [`Error::NoSuchMessage`], [`Error::Revoked`], [`Error::OutOfMemory`]; [`Error::PeerDead`] when the sender died
    /// before it handed a large message over. After [`Error::OutOfMemory`] the message can still be received.
    ///
    /// # Safety
    /// As [`irecv`](Self::irecv).
    pub unsafe fn mrecv(&mut self, message: MessageId, buf: MutBuf, cookie: u64) -> Result<Id, Error> {
        self.context = Context::User;
        let class = if message.class == 0 { Class::Eager } else { Class::Coll };
        let name = message.id();
        let unexpected =
            &mut self.matching.get_mut(usize::from(message.class)).ok_or(Error::NoSuchMessage)?.unexpected;
        let envelope = unexpected.get(name).filter(|m| m.taken).ok_or(Error::NoSuchMessage)?.envelope;
        let checked = self.check(class, envelope.context, &buf.layout);
        if matches!(checked, Err(Error::Revoked { .. })) {
            // The message is of no more use.
            self.free_message(class, name);
        }
        checked?;
        self.refresh_epoch();
        let fate = self.peers.get(envelope.source as usize).and_then(|p| p.fate.no_more_to());
        if let Some(code) = fate.filter(|_| envelope.arrival == Arrival::Announced) {
            self.free_message(class, name);
            return Err(self.refusal(envelope.context, code, envelope.source));
        }
        let id = self.reserve_request()?;
        self.begin_recv(id, buf, class, cookie, &Pattern::new(envelope.context, None, Some(0)));
        self.deliver(id, name);
        Ok(id)
    }

    /// What all posts check. Answers the message's length.
    #[inline]
    pub(crate) fn check(&mut self, class: Class, context: u32, layout: &Layout) -> Result<usize, Error> {
        if !matches!(class, Class::Eager | Class::Coll) {
            return Err(Error::WrongClass { class });
        }
        let bytes = layout.bytes();
        if bytes > isize::MAX as usize {
            return Err(Error::TooLong { bytes });
        }
        if self.contexts.is_revoked(context) {
            return Err(Error::Revoked { context });
        }
        self.contexts.make_room();
        Ok(bytes)
    }

    /// Fills a reserved request in as a receive that is in no table yet.
    #[inline]
    fn begin_recv(&mut self, id: Id, buf: MutBuf, class: Class, cookie: u64, asks: &Pattern) -> bool {
        let Some(request) = self.requests.get_mut(id) else { return false };
        if request.state != State::Reserved {
            return false;
        }
        self.sequence = self.sequence.wrapping_add(1);
        request.base = buf.base;
        request.layout = buf.layout;
        request.cookie = cookie;
        request.sequence = self.sequence;
        request.total = 0;
        request.done = 0;
        request.remote = 0;
        request.set_pattern(asks);
        request.serial = request.serial.wrapping_add(1);
        request.class = if class == Class::Coll { Class::Coll } else { Class::Eager };
        request.state = State::RecvPosted;
        self.receives = self.receives.wrapping_add(1);
        true
    }

    /// Gives a kept message to a receive.
    fn deliver(&mut self, id: Id, message: Id) {
        let Some(request) = self.requests.get(id) else { return };
        let (class, buf) = (request.class, request.target_buf());
        let Some(matching) = self.matching.get(usize::from(class == Class::Coll)) else { return };
        let Some(envelope) = matching.unexpected.get(message).map(|m| m.envelope) else { return };
        if envelope.arrival != Arrival::Announced {
            let room = buf.layout.bytes();
            // SAFETY: who posted the receive vouched for its buffer.
            unsafe { matching.unexpected.copy_out(message, &buf, room) };
            self.count_copy(envelope.bytes.min(room));
        }
        self.free_message(class, message);
        self.matched(id, &envelope);
    }

    pub(crate) fn free_message(&mut self, class: Class, message: Id) {
        if let Some(matching) = self.matching.get_mut(usize::from(class == Class::Coll)) {
            let envelope = matching.unexpected.get(message).map(|m| m.envelope);
            matching.unexpected.free(message);
            if let Some(envelope) = envelope {
                self.done_with(&envelope);
                self.transport.note_handed(envelope.source, class);
            }
            self.freed = self.freed.wrapping_add(1);
        }
        // There is room for the head of a blocked lane.
        self.again |= self.blocked > 0;
    }

    /// A receive, in no table any more, has its message; the payload of an eager one is in the buffer. Answers the
    /// sender if it waits for that.
    pub(crate) fn matched(&mut self, id: Id, envelope: &Envelope) {
        let [too_short, _] = self.eager_max;
        let Some(request) = self.requests.get_mut(id) else { return };
        request.peer = envelope.source;
        request.tag = envelope.tag;
        request.flags &= !ANY_TAG;
        request.total = envelope.bytes as u64;
        request.remote = envelope.remote;
        request.state = State::RecvOwes;
        match envelope.arrival {
            Arrival::Eager if request.layout.bytes() <= too_short => {
                let outcome = Self::received(request);
                return self.finish_short(id, outcome);
            }
            Arrival::Eager => return self.finish_recv(id),
            Arrival::Synchronous => request.flags |= OWES_ACK,
            Arrival::Announced => {}
        }
        if let Some(offer) = envelope.offer.filter(|offer| offer.found) {
            return self.begin_published(id, offer.address);
        }
        if let Some(offer) = envelope.offer.filter(|_| envelope.bytes <= request.target_buf().layout.bytes())
        {
            self.accept(id, offer);
        }
        self.answer(id);
    }

    /// Sends the answer that a receive owes, when its turn comes.
    pub(crate) fn answer(&mut self, id: Id) {
        let Some(request) = self.requests.get(id) else { return };
        // Answers go out in order; one that finds the lane full waits in its own receive.
        let waiting = self.peers.get(request.peer as usize).is_none_or(|p| !p.control.is_empty());
        if waiting || !self.try_answer(id) {
            self.enlist(id, Member::Control);
        }
    }

    /// Sends the ACK or CTS that a receive owes. False: the lane is full.
    pub(crate) fn try_answer(&mut self, id: Id) -> bool {
        let Some(request) = self.requests.get(id) else { return true };
        if request.has(OWES_FIN) {
            return self.try_fin(id);
        }
        let (peer, ack, shared) = (request.peer, Self::owes_ack(request), request.has(SHARED));
        let granted =
            if request.total <= request.target_buf().layout.bytes() as u64 { request.total } else { 0 };
        let header = Header {
            kind: if ack { kind::ACK } else { kind::CTS },
            flags: match (ack, shared, request.has(PIPED)) {
                (false, true, _) => FLAG_SHARED,
                (false, false, true) => FLAG_PAGES,
                _ => 0,
            },
            context: request.context,
            tag: request.tag,
            a: request.remote,
            b: if ack { 0 } else { Self::wire_name(id, request.serial) },
            c: match (ack, shared) {
                (true, _) => 0,
                (_, true) => request.base as u64,
                _ => granted,
            },
        };
        let tells = if ack { Tells::Received } else { Tells::Granted { by_all: shared } };
        match self.transmit_control(peer, tells, &header) {
            SendOutcome::Full => return false,
            // The message is here: that its sender does not hear of it any more is no loss.
            SendOutcome::Gone if ack => self.finish_recv(id),
            SendOutcome::Gone => self.fail_gone(id, peer),
            SendOutcome::Sent => {
                self.unlink(id);
                if ack || granted == 0 {
                    self.finish_recv(id);
                } else if let Some(request) = self.requests.get_mut(id) {
                    request.state = if shared { State::RecvShared } else { State::RecvData };
                    if shared {
                        self.enlist(id, Member::Transfer);
                    }
                }
            }
        }
        true
    }

    /// Ends a receive whose message is complete, or too long.
    pub(crate) fn finish_recv(&mut self, id: Id) {
        let Some(request) = self.requests.get(id) else { return };
        let outcome = Self::received(request);
        self.ways.received(id);
        self.finish(id, outcome);
    }

    fn received(request: &Request) -> Outcome {
        let room = request.layout.bytes() as u64;
        let truncated = request.total > room;
        Outcome {
            code: if truncated { Code::Truncated } else { Code::Ok },
            source: request.peer,
            tag: request.tag,
            bytes: request.total,
            detail: if truncated { room } else { 0 },
        }
    }
}
