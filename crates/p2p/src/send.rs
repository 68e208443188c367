//! Sends, from posting to the last byte in the lane.

use tocsin_progress::{Budget, Code, Context, Id, Outcome};
use tocsin_sync::{prefetch_for_read, prefetch_for_write};
use tocsin_transport::{Class, Header, Reach, SendOutcome, Transport, copy, kind};

use crate::offers::{FLAG_PULLED, FLAG_UNAWAITED, FLAG_WAITS, KEYED, TICKETS};
use crate::packets::{FLAG_LONG, FLAG_SYNCHRONOUS};
use crate::peer::Fate;
use crate::request::{
    FROM_FRONT, HOLDS_RECORD, Member, PIPED, Request, SHARED, SYNCHRONOUS, State, UNAWAITED, UNHURRIED,
};
use crate::urgency::Tells;
use crate::ways::{Copied, Taken};
use crate::{ConstBuf, Error, LONG, Mode, P2p, PIPELINED, PIPELINED_FIRST, PIPELINED_LONG, SendArgs};

/// Smallest piece of a large message that is worth a packet of its own when the budget is nearly spent.
const SMALL_PIECE: usize = 16 * 1024;

/// What became of an attempt to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attempt {
    /// It is in the lane, or its request has ended.
    Done,
    /// The lane is full.
    Full,
    /// The budget is spent.
    Spent,
}

impl<T: Transport> P2p<T> {
    /// Posts a send. User threads only: it may allocate.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`], [`Error::PeerDead`], [`Error::PeerFinalized`], [`Error::Protocol`], [`Error::Revoked`],
    /// [`Error::WrongClass`], [`Error::TooLong`], [`Error::OutOfMemory`], [`Error::Transport`]. Nothing was sent then.
    ///
    /// # Safety
    /// The buffer is readable as its layout says, from whichever thread or handler holds the engine's token, and not
    /// written, until the request is complete or [abandoned](Self::abandon).
    pub unsafe fn isend(&mut self, args: SendArgs) -> Result<Id, Error> {
        self.context = Context::User;
        let bytes = self.check(args.class, args.context, &args.buf.layout)?;
        if args.dest >= self.size {
            return Err(Error::NoSuchRank { rank: args.dest, size: self.size });
        }
        if bytes > self.eager_max(args.class) {
            self.fetch_for_announcement(args.dest, args.class);
        }
        self.refresh_epoch();
        if let Some(code) = self.peers.get(args.dest as usize).and_then(|p| p.fate.no_more_to()) {
            return Err(self.refusal(args.context, code, args.dest));
        }
        self.prepare_peer(args.dest, bytes)?;
        let id = self.reserve_request()?;
        // SAFETY: the caller vouches for the buffer.
        unsafe { self.start_send(id, args) };
        Ok(id)
    }

    /// Has the lines fetched that an announcement reads and writes, which the receiver has written and read last: all at once, and not each when it is come to. (A post and a wait of
    /// 64 and 256 KiB take 3 to 10 percent less by it where one rank computes between: Emerald Rapids, ten runs in turns.)
    #[inline]
    fn fetch_for_announcement(&self, dest: u32, class: Class) {
        if let Some(at) = self.transport.publication(self.me, dest) {
            prefetch_for_read(at.as_ptr());
        }
        // The one that is taken where no other message is under way.
        if let Some(at) = self.transport.record(self.me, dest, 0) {
            prefetch_for_write(at.as_ptr());
        }
        self.transport.will_send(dest, class);
    }

    /// Sends a plain message at once and without a request, if it travels eagerly and there is room in the lane. False: it
    /// takes an [`isend`](Self::isend). User threads only; copies at most `waiting_eager_max` bytes.
    ///
    /// Each part by itself, and not as [`SendArgs`]: what the caller has just written is read as it was written, which
    /// costs no wait for its stores.
    ///
    /// # Errors
    /// As [`isend`](Self::isend).
    ///
    /// # Safety
    /// What the buffer describes is readable during the call.
    #[inline]
    pub unsafe fn send_now(
        &mut self,
        context: u32,
        dest: u32,
        tag: i32,
        buf: &ConstBuf,
    ) -> Result<bool, Error> {
        self.context = Context::User;
        let bytes = self.check(Class::Eager, context, &buf.layout)?;
        if bytes >= LONG {
            self.transport.prepare_long(dest, LONG);
        }
        let long = bytes > self.eager_max(Class::Eager);
        if long && !self.is_waited_for(dest, bytes) {
            return Ok(false);
        }
        self.refresh_epoch();
        let Some(peer) = self.peers.get(dest as usize) else { return Ok(false) };
        let [waiting, _] = &peer.queues;
        if !peer.connected || peer.fate.no_more_to().is_some() || !waiting.is_empty() {
            return Ok(false);
        }
        self.transport.prepare_rings(dest);
        if long {
            self.transport.rouse(dest);
        }
        let begun = self.trace_begins();
        let header = Header { kind: kind::EAGER, context, tag, a: bytes as u64, ..Header::default() };
        let outcome = match buf.run_at(0) {
            // SAFETY: `payload` is the sender's buffer, of `bytes` bytes in one run.
            Some(payload) => unsafe { self.put(dest, Class::Eager, Tells::Message, &header, payload, bytes) },
            None => self.transmit(dest, Class::Eager, Tells::Message, &header, buf, 0, bytes),
        };
        let sent = outcome == SendOutcome::Sent;
        if sent {
            self.count_put(dest, Class::Eager);
            self.trace_sent(begun, dest, Class::Eager, &header);
            if long {
                // Whoever waits for it copies it out.
                copy::pass_on(buf.base, bytes);
            }
        }
        Ok(sent)
    }

    /// How many packets a rank has taken out of the lane that plain messages to it travel in, and how many messages it has received of those it had kept, as a number that is another one after each, if that
    /// lane is full, and nothing but room is in the way of the next one. Handler-safe.
    #[inline]
    pub fn lacks_room(&mut self, dest: u32) -> Option<u32> {
        let taken = self.transport.filled(dest, Class::Eager)?;
        let peer = self.peers.get(dest as usize)?;
        let [waiting, _] = &peer.queues;
        let clear = peer.connected && peer.fate == Fate::Alive && waiting.is_empty();
        clear.then_some(taken)
    }

    /// Who [finds no room](Self::lacks_room) for a plain message to a rank looks for it by itself: nobody is asked to say when there is. Handler-safe.
    #[inline]
    pub fn looks_for_room(&mut self, dest: u32) {
        self.transport.asks_no_more(dest, Class::Eager);
    }

    /// Whether a long message to a rank had better go through the lane, because a thread there copies it out while it is
    /// copied in. If it waits for another message after all, this one is kept, as others are.
    fn is_waited_for(&self, dest: u32, bytes: usize) -> bool {
        bytes <= self.waiting_eager_max && self.transport.is_awaited_by(dest)
    }

    /// Starts a reserved request as a send; its peer was [prepared](Self::prepare_peer). What [`isend`](Self::isend)
    /// answers with an error, the request ends with here. Ignored if the request is in use. Handler-safe; copies at
    /// most `eager_max` bytes.
    ///
    /// # Safety
    /// As [`isend`](Self::isend).
    pub unsafe fn start_send(&mut self, id: Id, args: SendArgs) {
        let Some(request) = self.requests.get_mut(id) else { return };
        if request.state != State::Reserved {
            return;
        }
        request.base = args.buf.base.cast_mut();
        request.layout = args.buf.layout;
        request.cookie = args.cookie;
        request.total = args.buf.layout.bytes() as u64;
        request.done = 0;
        request.sequence = 0;
        request.context = args.context;
        request.peer = args.dest;
        request.tag = args.tag;
        request.serial = request.serial.wrapping_add(1);
        request.class = if args.class == Class::Coll { Class::Coll } else { Class::Eager };
        request.flags = match args.mode {
            Mode::Standard => 0,
            Mode::Synchronous => SYNCHRONOUS,
            Mode::Step { ends_there, ends_here, .. } => {
                let says = |is, flag| if is { flag } else { 0 };
                says(ends_there, UNHURRIED) | says(ends_here, UNAWAITED)
            }
        };
        request.state = State::SendQueued;
        let at_once = if let Mode::Step { at_once, .. } = args.mode { at_once } else { 0 };
        if args.dest == self.me {
            self.own_sends = self.own_sends.wrapping_add(1);
        } else {
            self.sends = self.sends.wrapping_add(1);
        }
        let class = request.class;
        let Some(peer) = self.peers.get(args.dest as usize) else {
            return self.fail(id, Code::Protocol, args.dest);
        };
        if let Some(code) = peer.fate.no_more_to() {
            return self.fail(id, code, args.dest);
        }
        if self.contexts.is_revoked(args.context) {
            return self.fail(id, Code::Revoked, args.dest);
        }
        // Nobody overtakes a send that waits in the same lane.
        let queue = peer.queues.get(usize::from(class == Class::Coll));
        if queue.is_some_and(|queue| !queue.is_empty()) || self.try_first_packet(id, at_once) == Attempt::Full
        {
            self.enlist(id, Member::Queue);
        }
    }

    /// Whether it is a message of a collective longer than plain ones are that travel eagerly.
    fn is_long(&self, request: &Request) -> bool {
        request.class == Class::Coll && request.total as usize > self.eager_max(Class::Eager)
    }

    /// Whether a message would travel eagerly now. One that has offered a record is announced.
    fn is_eager(&self, request: &Request) -> bool {
        request.total as usize <= self.eager_max(request.class)
            && !request.has(HOLDS_RECORD)
            && (!self.is_long(request) || self.transport.may_send_long(request.peer))
    }

    /// Puts the message, or its announcement, into the lane. So many sends begin together, as far as that is known.
    fn try_first_packet(&mut self, id: Id, at_once: u32) -> Attempt {
        let Some(request) = self.requests.get(id) else { return Attempt::Done };
        let (peer, class, total) = (request.peer, request.class, request.total as usize);
        let synchronous = request.has(SYNCHRONOUS);
        let eager = self.is_eager(request);
        let long = eager && self.is_long(request);
        if !eager && self.try_bring(id) {
            return Attempt::Done;
        }
        let offer = if eager { None } else { self.offer(id, at_once) };
        let (found, has_looked) = match offer {
            Some(offer) => self.find_published_soon(id, !offer.pulled),
            None => (None, false),
        };
        let found = found.and_then(|found| {
            let reach = self.reach_by_address(peer, found.address, total as u64);
            let pushes =
                reach != Reach::None && !self.is_pipelined(class, peer, reach, [false; 2], total as u64);
            pushes.then_some((found, reach))
        });
        if has_looked && let Some(state) = self.peers.get_mut(peer as usize) {
            state.published.note_look(found.is_some());
        }
        let Some(request) = self.requests.get(id) else { return Attempt::Done };
        let mut header = Header {
            kind: if eager { kind::EAGER } else { kind::RTS },
            flags: match (eager && synchronous, long) {
                (true, _) => FLAG_SYNCHRONOUS,
                (false, true) => FLAG_LONG,
                (false, false) => 0,
            },
            context: request.context,
            tag: request.tag,
            a: request.total,
            b: 0,
            c: 0,
        };
        if !eager || synchronous {
            header.b = Self::wire_name(id, request.serial);
        }
        let tells = match class {
            // One of the long ones is to be taken before the next.
            Class::Coll => Tells::Step { ends: request.has(UNHURRIED), whole: eager && !long },
            _ if !eager => Tells::Announced { there: found.is_some() },
            _ if synchronous => Tells::Synchronous,
            _ => Tells::Message,
        };
        let (mut len, mut buf) = (if eager { total } else { 0 }, request.source_buf());
        let tickets = [offer.map_or(0, |offer| offer.ticket), found.map_or(0, |(found, _)| found.ticket), 0]
            .map(u32::to_le);
        if let Some(offer) = offer {
            let says = |is, flag| if is { flag } else { 0 };
            header.flags = offer.slot.wrapping_add(1)
                | says(offer.waits, FLAG_WAITS)
                | says(offer.pulled, FLAG_PULLED)
                | says(offer.unawaited, FLAG_UNAWAITED);
            // Into a published receive nothing is copied by key.
            let keyed = offer.keyed && found.is_none();
            header.c = match offer.keyed && !keyed {
                true => buf.run_at(0).map_or(0, |run| run as u64),
                false => offer.address,
            };
            len = if keyed { KEYED } else { TICKETS };
            buf = ConstBuf::contiguous(tickets.as_ptr().cast(), len);
        }
        let begun = self.trace_begins();
        match self.transmit(peer, class, tells, &header, &buf, 0, len) {
            SendOutcome::Full => return Attempt::Full,
            SendOutcome::Gone => self.fail_gone(id, peer),
            SendOutcome::Sent => {
                self.unlink(id);
                self.count_put(peer, class);
                self.trace_sent(begun, peer, class, &header);
                if header.kind == kind::EAGER && header.flags == FLAG_LONG {
                    self.transport.note_long_sent(peer);
                }
                let Some(request) = self.requests.get_mut(id) else { return Attempt::Done };
                if let Some((found, reach)) = found {
                    request.reach = reach;
                    request.sequence = u64::from(found.ticket);
                    request.remote = found.name;
                    request.address = found.address;
                    request.flags |= SHARED;
                    request.state = State::SendShared;
                    self.enlist(id, Member::Transfer);
                } else if !eager {
                    request.state = State::SendAnnounced;
                    if offer.is_some() {
                        self.copy_ahead(id);
                    }
                } else if synchronous {
                    request.state = State::SendUnmatched;
                } else {
                    self.finish_send(id);
                }
            }
        }
        Attempt::Done
    }

    /// One packet whose payload is a part of a buffer.
    #[inline]
    #[allow(clippy::too_many_arguments)] // the transport's, and where in the buffer
    fn transmit(
        &mut self,
        peer: u32,
        class: Class,
        tells: Tells,
        header: &Header,
        buf: &ConstBuf,
        offset: usize,
        len: usize,
    ) -> SendOutcome {
        let Some(payload) = self.payload(buf, offset, len) else { return SendOutcome::Gone };
        // SAFETY: `payload` is readable for `len` bytes: scratch, or the sender's buffer from `offset` on, inside its
        // layout, which the poster vouched for.
        unsafe { self.put(peer, class, tells, header, payload, len) }
    }

    /// Where a part of a buffer lies in one run: there, or packed. `None`: it is longer than there is room for.
    #[inline]
    fn payload(&mut self, buf: &ConstBuf, offset: usize, len: usize) -> Option<*const u8> {
        if let Some(run) = buf.run_at(offset) {
            return Some(run);
        }
        if len > self.scratch.len() {
            return None;
        }
        // SAFETY: the scratch has room for `len` bytes; who posted the send vouched for its buffer.
        unsafe { buf.pack(offset, len, self.scratch.as_mut_ptr()) };
        Some(self.scratch.as_ptr())
    }

    /// One packet, counted. Inlined, so that the header need not be written to memory to be read again.
    ///
    /// # Safety
    /// `payload` is readable for `len` bytes.
    #[inline(always)]
    unsafe fn put(
        &mut self,
        peer: u32,
        class: Class,
        tells: Tells,
        header: &Header,
        payload: *const u8,
        len: usize,
    ) -> SendOutcome {
        // SAFETY: the caller vouches for the payload.
        let outcome = unsafe { self.transport.try_send(peer, class, tells.urgency(), header, payload, len) };
        if outcome == SendOutcome::Sent {
            // An announcement's ticket is no part of the message.
            self.count_sent(if header.kind == kind::RTS { 0 } else { len });
        }
        outcome
    }

    /// A packet with so much of a message was sent.
    #[inline]
    pub(crate) fn count_sent(&mut self, len: usize) {
        self.counters.packets_sent = self.counters.packets_sent.wrapping_add(1);
        self.counters.bytes_sent = self.counters.bytes_sent.wrapping_add(len as u64);
        self.count_copy(len);
    }

    /// A packet without payload, on the Control lane.
    pub(crate) fn transmit_control(&mut self, peer: u32, tells: Tells, header: &Header) -> SendOutcome {
        let nothing = ConstBuf::contiguous(core::ptr::null(), 0);
        self.transmit(peer, Class::Control, tells, header, &nothing, 0, 0)
    }

    pub(crate) fn finish_send(&mut self, id: Id) {
        let Some(request) = self.requests.get(id) else { return };
        let outcome = Outcome {
            code: Code::Ok,
            source: request.peer,
            tag: request.tag,
            bytes: request.total,
            detail: 0,
        };
        self.finish(id, outcome);
    }

    /// Retries the sends that wait for room in one class's lane to a peer, in order.
    pub(crate) fn retry_queue(&mut self, peer: u32, class: Class, budget: &mut Budget) -> Attempt {
        let index = usize::from(class == Class::Coll);
        loop {
            // What finds no place is not copied together in vain.
            if class == Class::Eager && self.transport.filled(peer, class).is_none() {
                match self.send_together(peer, budget) {
                    Some(Attempt::Done) => continue,
                    Some(other) => return other,
                    None => {}
                }
            }
            let queue = self.peers.get(peer as usize).and_then(|p| p.queues.get(index));
            let Some(id) = queue.and_then(|queue| queue.first(&self.requests)) else { return Attempt::Done };
            let request = self.requests.get(id).filter(|request| self.is_eager(request));
            let len = request.map_or(0, |request| request.total as usize);
            // A message goes in whole; one that is longer than a whole budget goes in when nothing else does.
            if len > budget.bytes_left() && budget.bytes_left() < self.eager_max(class) {
                return Attempt::Spent;
            }
            if !budget.packet() {
                return Attempt::Spent;
            }
            let before = self.bytes_copied();
            match self.try_first_packet(id, 0) {
                // A long message may travel eagerly now though it would not have a moment ago.
                Attempt::Done => budget.take_bytes(self.bytes_copied().wrapping_sub(before) as usize),
                other => {
                    budget.in_vain();
                    return other;
                }
            }
        }
    }

    /// Sends the next piece of the large message whose turn it is.
    pub(crate) fn next_piece(&mut self, peer: u32, budget: &mut Budget) -> Option<Attempt> {
        let id = self.peers.get(peer as usize)?.bulk.first(&self.requests)?;
        let request = self.requests.get(id)?;
        let done = request.done;
        let left = request.total.saturating_sub(done) as usize;
        // Of two that wait each copies a piece at a time; who is interrupted for it takes as much as it may.
        let piped = request.has(PIPED);
        let most = match self.waits && !piped {
            true if done == 0 => PIPELINED_FIRST,
            true => PIPELINED,
            false => usize::MAX,
        };
        let whole = left.min(most).min(self.piece);
        if budget.bytes_left() < whole.min(SMALL_PIECE) || !budget.packet() {
            return Some(Attempt::Spent);
        }
        let len = whole.min(budget.bytes_left());
        if piped && let Some(attempt) = self.next_pages(id, len, budget) {
            return Some(attempt);
        }
        if done > 0 && self.waits && self.try_long_piece(id, left.min(PIPELINED_LONG), budget) {
            return Some(Attempt::Done);
        }
        let request = self.requests.get(id)?;
        let (total, serial, buf) = (request.total, request.serial, request.source_buf());
        let from_front = request.has(FROM_FRONT);
        let header = Self::piece_header(id, request, len);
        let offset = header.b as usize;
        let ahead = !from_front && self.takes_ahead(id, serial, done);
        let timed = if ahead { 0 } else { self.copy_begins() };
        let outcome = match self.payload(&buf, offset, len) {
            // SAFETY: the payload is readable for `len` bytes: scratch, or the sender's buffer from `offset` on, inside its layout, which who posted
            // vouched for; it has not changed since it was copied ahead, because the same send is pending.
            Some(payload) => unsafe {
                self.transport.try_send_piece(peer, &header, payload, len, total, ahead)
            },
            None => SendOutcome::Gone,
        };
        match outcome {
            SendOutcome::Full => {
                budget.in_vain();
                return Some(Attempt::Full);
            }
            SendOutcome::Gone => self.fail_gone(id, peer),
            SendOutcome::Sent => self.note_piece(id, timed, len, budget),
        }
        Some(Attempt::Done)
    }

    /// Sends the next piece of a message, longer than others are, to a receiver that mostly waits for it, and takes it out as it comes. False: it is not longer, or
    /// there is no such room.
    fn try_long_piece(&mut self, id: Id, len: usize, budget: &mut Budget) -> bool {
        let Some(request) = self.requests.get(id) else { return false };
        let len = len.min(budget.bytes_left());
        if len <= self.piece || request.has(PIPED) {
            return false;
        }
        let (peer, total) = (request.peer, request.total);
        let header = Self::piece_header(id, request, len);
        let Some(payload) = request.source_buf().run_at(header.b as usize) else { return false };
        let timed = self.copy_begins();
        // SAFETY: the piece lies inside the buffer, which lies in one run and which who posted vouched for.
        if !unsafe { self.transport.try_send_long_piece(peer, &header, payload, len, total) } {
            return false;
        }
        self.note_piece(id, timed, len, budget);
        true
    }

    fn piece_header(id: Id, request: &Request, len: usize) -> Header {
        let (last, name) = Self::says_last(id, request, len);
        Header {
            kind: kind::DATA,
            flags: last,
            context: request.context,
            tag: request.tag,
            a: request.remote,
            // No piece is longer than what is left.
            b: request.piece_at(request.done, len, request.has(FROM_FRONT)).unwrap_or(0),
            c: name,
        }
    }

    /// A piece was copied into the lane, since a time.
    fn note_piece(&mut self, id: Id, timed: u64, len: usize, budget: &mut Budget) {
        let Some(request) = self.requests.get(id) else { return };
        let (peer, total) = (request.peer, request.total);
        self.time_copy(timed, peer, total, Copied::In, len);
        self.ways.saw(peer, total, Taken::Twice);
        self.count_sent(len);
        budget.take_bytes(len);
        self.piece_sent(id, len);
    }
}
