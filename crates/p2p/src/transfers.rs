//! Large messages in one copy: both ranks claim chunks of a shared record and copy them.
//!
//! | step | who | what |
//! |---|---|---|
//! | offer | sender | RTS names a record and the address of its buffer |
//! | accept | receiver | CTS names the address of its buffer; else a plain CTS, and the message goes through the Bulk lane |
//! | copy | whoever waits | claims a chunk, pulls or pushes it, counts it |
//! | end | who counts the last | tells the other (FIN) and ends its own request |
//!
//! **Who copies.** A user's thread that waits in the library and a progress thread copy what they find. A handler, and a
//! user's thread that only posts something, leave the copying to a peer that waits: that one sees the CTS, or has it
//! already, and whoever leaves the library with chunks unclaimed arms its own timer, so that its handler goes on. When
//! nobody waits, handlers copy within their budget and come back; the one that begins has the other rank's copy, too, if much is left, so that either is held up for
//! half as long.
//!
//! A buffer in memory that both have mapped is copied from or to without the kernel. Where that alone is the way, who cannot reach the other's
//! buffer so leaves all to the other: a sender says so in its offer, and a receiver takes no offer that it cannot pull.
//!
//! Where threads of both wait and the kernel would copy, the receiver takes no offer: pieces through the Bulk lane are there in half to nine tenths of the time,
//! one rank copying in while the other copies out, with no system call and out of caches that both share; unless the receiver [has found](crate::ways) that the
//! kernel is quicker here. So do messages of up to
//! [`SHARED_PIPELINED`](crate::SHARED_PIPELINED) bytes between buffers that both have mapped, or fewer where ranks share cores.
//!
//! **Ends before the end.** Who breaks a transfer off closes its record and gives the buffer back once no claim of the
//! peer's is open: until then the request is *closing*, and pending. A copy that fails closes the record as failed; the
//! receiver then asks for the message through the Bulk lane, from the beginning. A user's message that one end breaks off ends at the other with what the sweep
//! finds: that rank has left, or is dead, or the communicator is revoked.

use core::ptr::NonNull;

use tocsin_progress::{Budget, Code, Context, Id, Outcome};
use tocsin_sync::atomic::{Ordering, fence};
use tocsin_transport::transfer::{Claim, chunk_bytes, chunks, next_chunk};
use tocsin_transport::{Class, Header, PeerState, Reach, SendOutcome, Transport, kind};

use crate::P2p;
use crate::list::List;
use crate::pass::Part;
use crate::peer::Fate;
use crate::request::{
    ALONE, CALLED, HOLDS_RECORD, Member, OWES_FIN, Request, SHARED, State, TOLD, UNHURRIED,
};
use crate::urgency::Tells;
use crate::ways::{Copied, Taken};

/// Header flag of a CTS that accepts an offer.
pub(crate) const FLAG_SHARED: u8 = 1;
/// Header flag of a FIN that only asks to look at the records.
pub(crate) const FLAG_LOOK: u8 = 1;

/// Chunks for which a handler has the peer copy, too.
const CALLED_FROM: u32 = 4;
/// Chunks that are copied in one call at most where both ends copy, and that must be left for that.
const IN_ONE_CALL: u32 = 4;
const MANY_LEFT: u32 = 2 * IN_ONE_CALL;

impl<T: Transport> P2p<T> {
    /// Copies chunks of the transfers under way, and ends those that are over.
    pub(crate) fn copy_part(&mut self, budget: &mut Budget) -> Part {
        let mut part = Part::IDLE;
        if self.transfers.is_empty() || budget.is_sparing() {
            return part;
        }
        // A peer that sleeps hears of it before the copying, not after.
        self.transport.flush();
        if budget.is_in_passing() {
            // SYNC POINT: the CTS is published, fence, then the peer's attention is read: a peer that is seen waiting
            // looks once more, after a fence of its own, before it computes again.
            fence(Ordering::SeqCst);
        }
        let untouched = budget.bytes_left();
        // Bounded by the number of records of the connected pairs.
        let mut next = self.transfers.first(&self.requests);
        while let Some(id) = next {
            next = List::next(&self.requests, 0, id);
            part.add(self.go_on(id, budget, untouched));
            if part.spent {
                break;
            }
        }
        part
    }

    /// Goes on with one transfer.
    fn go_on(&mut self, id: Id, budget: &mut Budget, untouched: usize) -> Part {
        let mut part = Part::IDLE;
        let Some(request) = self.requests.get(id) else { return part };
        if matches!(request.state, State::SendClosing | State::RecvClosing) {
            part.worked = self.end_if_over(id);
            return part;
        }
        let sending = match request.state {
            State::SendShared => true,
            State::RecvShared => false,
            _ => return part,
        };
        let (peer, total, reach) = (request.peer, request.total, request.reach);
        let (base, address) = (request.base, request.address);
        let (Some((record, ticket)), Some(count)) = (self.record_of(request), chunks(total)) else {
            return part;
        };
        let record = NonNull::from(record);
        let chunk = chunk_bytes(total);
        // SAFETY: the transport keeps records as long as it lives.
        let record = unsafe { record.as_ref() };
        loop {
            let claimed = match record.look(ticket, count) {
                Claim::Chunk(claimed) => claimed,
                Claim::Closed { .. } | Claim::Over if self.was_withdrawn(id) => {
                    part.worked = true;
                    return part;
                }
                Claim::NoneLeft | Claim::Over | Claim::Busy => return part,
                Claim::Closed { failed: false } if self.will_hear_why(id) => {
                    // The peer waits for this rank's last claim.
                    part.worked |= self.tell_once(id);
                    return part;
                }
                Claim::Closed { failed: false } => {
                    self.broken_off_by_peer(id);
                    part.worked = true;
                    return part;
                }
                Claim::Closed { failed: true } => {
                    part.worked |= self.fall_back(id);
                    return part;
                }
            };
            if !sending && claimed <= count / 4 && self.is_better_in_pieces(id) {
                // With a claim in hand: who has the last of the others cannot have ended it meanwhile.
                if !matches!(record.claim(ticket, count), Claim::Chunk(_)) {
                    continue;
                }
                record.close(ticket, true);
                record.finish(count);
                self.pieces.ask(id);
                part.worked |= self.fall_back(id);
                return part;
            }
            // Asked for each chunk: the peer may have come to wait meanwhile.
            if self.requests.get(id).is_none_or(|r| self.leaves_to_peer(r, budget.is_in_passing())) {
                return part;
            }
            self.call_peer(id, claimed, count);
            let left = budget.bytes_left();
            if chunk.min(total) > left as u64 && left != untouched || !budget.packet() {
                part.spent = true;
                return part;
            }
            match record.claim(ticket, count) {
                Claim::Chunk(_) => {}
                Claim::Busy => {
                    part.spent = true;
                    return part;
                }
                // The next look says what it is.
                _ => continue,
            }
            let done = self.requests.get(id).map_or(total, |r| r.done);
            let Some((mut offset, mut len)) = next_chunk(total, done, sending) else {
                // The peer has taken claims back.
                record.close(ticket, true);
                record.finish(count);
                self.fall_back(id);
                return part;
            };
            let mut claims = 1u32;
            while self.copies_more(id, budget, claims)
                && let Some((next, more)) = next_chunk(total, done.wrapping_add(len as u64), sending)
                && len.saturating_add(more) <= budget.bytes_left()
                && matches!(record.claim(ticket, count), Claim::Chunk(_))
            {
                // In front of what the sender has, or behind what the receiver has.
                (offset, len, claims) = (offset.min(next), len.wrapping_add(more), claims.wrapping_add(1));
            }
            let here = base.wrapping_add(offset as usize);
            let there = address.wrapping_add(offset);
            let begun = self.trace_begins();
            let timed = if reach.is_by_kernel() { self.copy_begins() } else { 0 };
            // SAFETY: offset + len <= total, which is at most the buffer's length here, which who posted vouched for.
            //       - With `Reach::Direct` the peer is in this process; its buffer was vouched for by who posted it there,
            //         and the claim says that nobody else uses this part of it until the chunk is counted.
            let copied = unsafe {
                match (reach, sending) {
                    (_, true) => self.transport.push(peer, reach, here.cast_const(), there, len),
                    // Its address is its key.
                    (Reach::Region, false) => self.transport.pull_exposed(peer, address, offset, here, len),
                    (_, false) => self.transport.pull(peer, reach, there, here, len),
                }
            };
            part.worked = true;
            budget.take_bytes(len);
            if !copied {
                self.ways.refused(peer, total);
                record.close(ticket, true);
                (0..claims).for_each(|_| _ = record.finish(count));
                self.fall_back(id);
                return part;
            }
            self.time_copy(timed, peer, total, Copied::ByKernel, len);
            self.count_once(reach, len);
            self.trace_copied(begun, peer, len);
            if let Some(request) = self.requests.get_mut(id) {
                request.done = request.done.wrapping_add(len as u64);
            }
            if (0..claims).fold(false, |_, _| record.finish(count)) {
                match record.look(ticket, count) {
                    Claim::Closed { failed: true } => {
                        self.fall_back(id);
                    }
                    Claim::Closed { failed: false } => {
                        // The other end waits for this claim, to give its buffer back.
                        self.tell_to_look(peer);
                        self.tell_end(id);
                    }
                    _ => self.tell_end(id),
                }
                return part;
            }
        }
    }

    /// Whether one more chunk of a transfer had better be copied in the same call as those claimed: a call of the kernel's for 64 KiB took 1.07 of its part of
    /// one for 1 MiB. All that are left of a collective's, where their receiver waits. Else a few, as long as so many are left that both ends
    /// are over at about the same time.
    fn copies_more(&self, id: Id, budget: &Budget, claims: u32) -> bool {
        let waits = self.context == Context::User && !budget.is_in_passing();
        let Some(request) = self.requests.get(id).filter(|r| waits && r.reach.is_by_kernel()) else {
            return false;
        };
        // Of a collective each end has something to receive, as a rule.
        if request.class == Class::Coll && request.state == State::RecvShared {
            return true;
        }
        let (Some((record, ticket)), Some(count)) = (self.record_of(request), chunks(request.total)) else {
            return false;
        };
        let many = |claimed: u32| count.saturating_sub(claimed) >= MANY_LEFT;
        claims < IN_ONE_CALL && matches!(record.look(ticket, count), Claim::Chunk(claimed) if many(claimed))
    }

    /// Whether a message that the peer has given up is ended by what that says beside it, or by the sweep that follows: who gives up a user's message leaves its
    /// world, or has revoked the communicator, and a collective's may be given up for that. Not a receive all of which is here.
    pub(crate) fn will_hear_why(&self, id: Id) -> bool {
        let Some(request) = self.requests.get(id).filter(|r| !self.contexts.is_revoked(r.context)) else {
            return false;
        };
        if request.is_send() {
            return request.class == Class::Eager;
        }
        let (Some((record, ticket)), Some(count)) = (self.record_of(request), chunks(request.total)) else {
            return false;
        };
        // Where it serves another by now, that was said.
        let is_said = record.says_why(ticket) || record.look(ticket, count) == Claim::Over;
        is_said && !self.is_copied_whole(request)
    }

    /// Whether all of a transfer was copied before the peer gave it up.
    fn is_copied_whole(&self, request: &Request) -> bool {
        // Counted before the record is looked at again: it serves no other message since.
        let (Some((record, ticket)), Some(count)) = (self.record_of(request), chunks(request.total)) else {
            return false;
        };
        record.is_complete(count) && matches!(record.look(ticket, count), Claim::Closed { failed: false })
    }

    /// Whether a send has found a published receive and copied nothing yet.
    fn is_untouched(request: &Request) -> bool {
        request.has(HOLDS_RECORD) && request.has(SHARED) && request.done == 0
    }

    /// Whether the receive that a send has found was withdrawn before this end had copied anything: then the announcement
    /// is one like others, and its answer will come.
    fn was_withdrawn(&mut self, id: Id) -> bool {
        let Some(request) = self.requests.get(id).filter(|request| Self::is_untouched(request)) else {
            return false;
        };
        let peer = request.peer;
        self.unlink(id);
        if let Some(request) = self.requests.get_mut(id) {
            request.flags &= !SHARED;
            request.state = State::SendAnnounced;
        }
        // The announcement did not ring.
        self.tell_to_look(peer);
        true
    }

    /// Has the peer copy, too, where both compute and much is left: what handlers do for a message takes either rank half as long then, where the ring takes as
    /// long as one chunk does. But not where a thread of this rank waits, which goes on itself. Once; `claimed` of `count` chunks are.
    fn call_peer(&mut self, id: Id, claimed: u32, count: u32) {
        let waits = || self.transport.is_waiting(self.me);
        if self.context != Context::Handler || count.saturating_sub(claimed) < CALLED_FROM || waits() {
            return;
        }
        let Some(request) = self.requests.get_mut(id) else { return };
        // Who has copied something is about it. Where only the receiver reaches, it copies all; and of a collective each end has something to receive, as a rule.
        let own = request.done.div_ceil(chunk_bytes(request.total));
        let helps =
            request.class == Class::Eager && !(request.state == State::RecvShared && request.has(ALONE));
        if !helps || request.has(CALLED) || u64::from(claimed) != own {
            return;
        }
        request.flags |= CALLED;
        let peer = request.peer;
        self.tell_to_look(peer);
    }

    /// Whether this rank leaves the chunks that are left to its peer. `passing`: who runs the engine goes away afterwards.
    fn leaves_to_peer(&self, request: &Request, passing: bool) -> bool {
        // After a handler nobody comes: what only comes when it is rung there may have left it to this rank.
        let waits = if self.context == Context::Handler { T::has_waiter } else { T::is_waiting };
        Self::is_left_to_peer(request, passing && waits(&self.transport, request.peer))
    }

    /// Whether it is the peer's to copy what is left, which waits or not.
    fn is_left_to_peer(request: &Request, waits: bool) -> bool {
        match request.state {
            State::SendShared if request.reach == Reach::None => true,
            State::RecvShared if request.has(ALONE) => false,
            _ => waits,
        }
    }

    /// Whether peers that wait go on with all transfers under way, but for one that has failed or ended, which is not looked at: the records stay where they are, and so
    /// with whoever copies. Handler-safe; bounded as a pass is.
    pub fn is_left_to_who_waits(&self) -> bool {
        let mut next = self.transfers.first(&self.requests);
        while let Some(id) = next {
            let left = self.requests.get(id).is_some_and(|request| {
                matches!(request.state, State::SendShared | State::RecvShared)
                    && self.leaves_to_peer(request, true)
            });
            if !left {
                return false;
            }
            next = List::next(&self.requests, 0, id);
        }
        true
    }

    /// Whether a pass would find a transfer to go on with, but for those that are left to peers of which `waits` says that they wait. Bounded by the number of records of the
    /// connected pairs.
    #[inline]
    pub(crate) fn copies_left(&self, waits: impl Fn(&T, u32) -> bool) -> bool {
        !self.transfers.is_empty() && self.some_copy_left(waits)
    }

    fn some_copy_left(&self, waits: impl Fn(&T, u32) -> bool) -> bool {
        let mut next = self.transfers.first(&self.requests);
        while let Some(id) = next {
            let Some(request) = self.requests.get(id) else { return false };
            let left = match request.state {
                State::SendClosing | State::RecvClosing => self.is_over(request),
                _ => match (self.record_of(request), chunks(request.total)) {
                    (Some((record, ticket)), Some(count)) => match record.look(ticket, count) {
                        Claim::Chunk(_) => {
                            !Self::is_left_to_peer(request, waits(&self.transport, request.peer))
                        }
                        Claim::Closed { failed } => !request.has(TOLD) || !failed && !self.will_hear_why(id),
                        Claim::Over => Self::is_untouched(request),
                        Claim::NoneLeft | Claim::Busy => false,
                    },
                    _ => false,
                },
            };
            if left {
                return true;
            }
            next = List::next(&self.requests, 0, id);
        }
        false
    }

    /// All is copied, and this rank knows it first: tells the other.
    fn tell_end(&mut self, id: Id) {
        let Some(request) = self.requests.get_mut(id) else { return };
        request.flags |= OWES_FIN;
        let (peer, receiving) = (request.peer, !request.is_send());
        if receiving && let Some(state) = self.peers.get_mut(peer as usize) {
            state.may_abort_late = true;
        }
        if !self.try_fin(id) {
            self.unlink(id);
            self.enlist(id, Member::Control);
        }
    }

    /// Sends the FIN that a request owes, and ends the request. False: the lane is full.
    pub(crate) fn try_fin(&mut self, id: Id) -> bool {
        let Some(request) = self.requests.get(id) else { return true };
        let header = Header { kind: kind::FIN, a: request.remote, ..Header::default() };
        let tells = Tells::Copied { class: request.class, ends: request.has(UNHURRIED) };
        if self.transmit_control(request.peer, tells, &header) == SendOutcome::Full {
            return false;
        }
        self.end_well(id);
        true
    }

    /// Ends a request whose message is copied.
    pub(crate) fn end_well(&mut self, id: Id) {
        match self.requests.get(id) {
            Some(request) if request.is_send() => {
                self.ways.saw(request.peer, request.total, Taken::Once);
                self.finish_send(id);
            }
            Some(_) => self.finish_recv(id),
            None => {}
        }
    }

    /// The peer says that all is copied. False: it is not.
    pub(crate) fn finished_by_peer(&mut self, id: Id) -> bool {
        let Some(request) = self.requests.get(id) else { return false };
        let (Some((record, ticket)), Some(count)) = (self.record_of(request), chunks(request.total)) else {
            return false;
        };
        // Who has counted the last chunk may use the record for the next message by now, or be about to: how many are
        // counted is not asked. This rank's own copies are over, because it holds the token.
        // (A record that was closed after the last claim is complete all the same.)
        if !matches!(record.look(ticket, count), Claim::Over | Claim::NoneLeft) && !record.is_complete(count)
        {
            return false;
        }
        self.end_well(id);
        true
    }

    /// The peer has closed the record: it has given the message up.
    pub(crate) fn broken_off_by_peer(&mut self, id: Id) {
        let Some(request) = self.requests.get(id) else { return };
        let (peer, context, tag, sending) =
            (request.peer, request.context, request.tag, request.state == State::SendShared);
        if self.is_copied_whole(request) {
            // The peer gave it up while it had yet to say that all is copied.
            self.set_stale(peer);
            self.end_well(id);
            return;
        }
        // What it said before it closed may still be in the lane.
        self.set_stale(peer);
        // It waits for this rank's last claim.
        self.tell_to_look(peer);
        if sending && !self.contexts.is_revoked(context) {
            // A collective's: how that ends for its members is not for this message to say.
            return self.finish_send(id);
        }
        self.finish(id, self.given_up_by_peer(peer, context, tag));
    }

    /// What a message ends with that the peer has given up.
    pub(crate) fn given_up_by_peer(&self, peer: u32, context: u32, tag: i32) -> Outcome {
        let (code, rank) = if self.contexts.is_revoked(context) {
            (Code::Revoked, peer)
        } else {
            self.root_cause(context, Code::Cancelled, peer)
        };
        Outcome { code, source: rank, tag, bytes: 0, detail: u64::from(rank) }
    }

    /// A copy failed, here or there: the receiver asks for the message through the Bulk lane, once it is quiet. Whether
    /// anything was done.
    fn fall_back(&mut self, id: Id) -> bool {
        let told = self.tell_once(id);
        let Some(request) = self.requests.get(id) else { return false };
        let Some((record, ticket)) = self.record_of(request) else { return false };
        if request.state != State::RecvShared || !record.is_quiet(ticket) {
            return told;
        }
        self.unlink(id);
        let Some(request) = self.requests.get_mut(id) else { return false };
        request.flags &= !(SHARED | TOLD);
        request.done = 0;
        request.state = State::RecvOwes;
        self.answer(id);
        true
    }

    /// Has the other end of a transfer that is closed look, if it was not told before. Whether it is told now.
    fn tell_once(&mut self, id: Id) -> bool {
        let Some(request) = self.requests.get_mut(id).filter(|request| !request.has(TOLD)) else {
            return false;
        };
        request.flags |= TOLD;
        let peer = request.peer;
        self.tell_to_look(peer);
        true
    }

    /// Has the peer look at its transfers, as soon as there is room to say so.
    pub(crate) fn tell_to_look(&mut self, peer: u32) {
        let header = Header { kind: kind::FIN, flags: FLAG_LOOK, ..Header::default() };
        let full = self.transmit_control(peer, Tells::Look, &header) == SendOutcome::Full;
        if let Some(state) = self.peers.get_mut(peer as usize) {
            state.owes_look = full;
            if full {
                self.outgoing.insert(peer);
            }
        }
    }

    /// Closes the record of a request that ends by anything but the protocol. `says_why`: the other end hears why otherwise.
    pub(crate) fn close_record(&mut self, id: Id, says_why: bool) {
        let Some(request) = self.requests.get(id) else { return };
        let (peer, abroad) = (request.peer, matches!(request.state, State::SendShared | State::RecvShared));
        let (record, own) = (self.record_of(request), self.own_record_beside(request));
        own.iter().chain(&record).for_each(|(record, ticket)| record.give_up(*ticket, says_why));
        if record.is_some() && abroad {
            self.tell_to_look(peer);
        }
    }

    /// Whether no copy of the peer's from or to the request's buffer is under way or will begin.
    fn is_over(&self, request: &Request) -> bool {
        let Some((record, ticket)) = self.record_of(request) else { return true };
        if request.state == State::RecvOwes {
            return true;
        }
        let broken = self.peers.get(request.peer as usize).is_none_or(|p| p.fate == Fate::Broken);
        if broken || matches!(self.transport.peer_state(request.peer), PeerState::Dead | PeerState::Finalized)
        {
            return true;
        }
        // Its receiver may have taken the announcement for one of those that it accepts.
        record.is_quiet(ticket)
            && self.own_record_beside(request).is_none_or(|(own, ticket)| own.is_quiet(ticket))
    }

    /// Keeps what a request waits for from going on.
    fn close_again(&self, request: &Request) {
        let records = [self.record_of(request), self.own_record_beside(request)];
        for (record, ticket) in records.into_iter().flatten() {
            record.close(ticket, false);
        }
    }

    /// Ends a request, or lets it close until its buffer can be given back.
    pub(crate) fn end_when_over(&mut self, id: Id, outcome: Outcome) {
        if !self.closes(id, outcome.code, outcome.source) {
            self.finish(id, outcome);
        }
    }

    /// Lets a request whose record is closed close, to end with `code` for a reason that lies in `rank`, if its buffer cannot be given back yet. Whether it
    /// closes.
    pub(crate) fn closes(&mut self, id: Id, code: Code, rank: u32) -> bool {
        let Some(request) = self.requests.get(id) else { return false };
        if !request.is_pending() || self.is_over(request) {
            return false;
        }
        let sending = request.is_send();
        self.unlink(id);
        let Some(request) = self.requests.get_mut(id) else { return false };
        request.state = if sending { State::SendClosing } else { State::RecvClosing };
        request.done = u64::from(code as u32);
        request.remote = u64::from(rank);
        self.enlist(id, Member::Transfer);
        true
    }

    /// Ends a closing request if it is over. Whether it is.
    pub(crate) fn end_if_over(&mut self, id: Id) -> bool {
        let Some(request) = self.requests.get(id) else { return true };
        if !self.is_over(request) {
            // The peer may have outrun the closing.
            self.close_again(request);
            return false;
        }
        let (code, rank) = (Code::from_u32(request.done as u32), request.remote as u32);
        let outcome = Self::failure(request, code, rank);
        self.finish(id, outcome);
        true
    }

    /// Closes all transfers and waits until no peer copies from or to a buffer of this rank: before it leaves its world.
    /// Waits for at most one copy of the peer's, or the death of the peer that copies. User threads only.
    pub fn close_transfers(&mut self) {
        self.is_leaving = true;
        for index in 0..self.requests.capacity() as u32 {
            let Some(id) = self.requests.by_index(index) else { continue };
            self.unpublish(id);
            self.close_record(id, true);
        }
        self.transport.flush();
        for index in 0..self.requests.capacity() as u32 {
            let Some(id) = self.requests.by_index(index) else { continue };
            self.wait_until_over(id);
        }
    }

    /// Waits until a request whose record is closed is over. User threads only.
    pub(crate) fn wait_until_over(&self, id: Id) {
        if let Some(request) = self.requests.get(id) {
            while request.is_pending() && !self.is_over(request) {
                // The peer may have outrun the closing.
                self.close_again(request);
                std::thread::yield_now();
            }
        }
    }
}
