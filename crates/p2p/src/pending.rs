//! The life of requests: reserved, in one list at a time, ended, given back.

use core::ptr::NonNull;

use tocsin_progress::{Code, Completion, Context, Id, Outcome};
use tocsin_transport::{Class, Transport};

use crate::request::{DETACHED, Member, OWES_FIN, Request, SHARED, State, WANTS};
use crate::unsaid::Word;
use crate::urgency::Tells;
use crate::{Error, P2p};

impl<T: Transport> P2p<T> {
    /// A request of the caller's own, for [`start_send`](Self::start_send) and [`start_recv`](Self::start_recv). To be
    /// given back by [`release`](Self::release). User threads only.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn reserve_request(&mut self) -> Result<Id, Error> {
        self.context = Context::User;
        let id = match self.requests.alloc() {
            Some(id) => id,
            None => {
                // A quarter more each time: few growths, and little memory that is never used.
                let more = (self.requests.capacity() / 4).max(1);
                self.requests.reserve(more).map_err(|_| Error::OutOfMemory { what: "a request" })?;
                self.requests.alloc().ok_or(Error::OutOfMemory { what: "a request" })?
            }
        };
        self.reset(id);
        Ok(id)
    }

    /// The request's completion, readable by any thread without the token, at a stable address as long as this value
    /// lives. Handler-safe.
    pub fn completion(&self, id: Id) -> Option<NonNull<Completion>> {
        self.requests.shared_pointer(id)
    }

    /// Whether the request names one that exists and has been started and is not complete. Handler-safe.
    pub fn is_pending(&self, id: Id) -> bool {
        self.requests.get(id).is_some_and(Request::is_pending)
    }

    /// The owner has seen the completion, or drops a request that was never started: the slot is free again. A pending
    /// request is [detached](Self::detach). Handler-safe.
    #[inline]
    pub fn release(&mut self, id: Id) {
        let Some(request) = self.requests.get_mut(id) else { return };
        if request.is_pending() {
            request.flags |= DETACHED;
            return;
        }
        if request.member != Member::None {
            self.unlink(id);
        }
        self.requests.free(id);
    }

    /// The owner is gone, and has not seen the completion: the slot is freed when the request completes. The buffer must live until then. Handler-safe.
    pub fn detach(&mut self, id: Id) {
        self.count_lost(id);
        self.release(id);
    }

    /// Cancels a receive that is not matched yet; it completes with [`Code::Cancelled`]. False: it is matched or
    /// complete, or no receive. Its buffer may hold a part of a message that has not come to its end. Handler-safe, O(1).
    pub fn cancel(&mut self, id: Id) -> bool {
        let Some(request) = self.requests.get(id) else { return false };
        if request.state != State::RecvPosted || !self.withdraw(id) {
            return false;
        }
        let Some(request) = self.requests.get(id) else { return false };
        let outcome =
            Outcome { code: Code::Cancelled, source: self.me, tag: request.tag, bytes: 0, detail: 0 };
        self.finish(id, outcome);
        true
    }

    /// Takes a reserved request back from whatever it does; its buffer is not touched after this, nothing is reported,
    /// and it may be started again. If the peer knows of it, the peer's messages for it are ignored. The peer may just
    /// be copying a piece: this waits for that. User threads only.
    pub fn abandon(&mut self, id: Id) {
        if self.requests.get(id).is_none() {
            return;
        }
        self.break_off(id);
        self.wait_until_over(id);
        self.retire(id);
        self.reset(id);
    }

    /// As [`abandon`](Self::abandon), for a message of a collective, and without waiting: whether its buffer is not touched any more.
    /// If not, the peer is just copying a piece; the request ends when that is over, and [`next_completed`](Self::next_completed) gives its
    /// cookie. Asked again, it says whether it is over by now. A user's message stays as it is. Handler-safe, O(1).
    pub fn abandon_collective(&mut self, id: Id) -> bool {
        if self.requests.get(id).is_none_or(|r| r.class != Class::Coll) {
            return true;
        }
        self.break_off(id);
        if !self.closes(id, Code::Cancelled, self.me) {
            self.retire(id);
            self.reset(id);
            return true;
        }
        false
    }

    /// Completed requests that have a cookie, in order of completion. The request is reserved again, ready for its next
    /// start. Handler-safe, O(1).
    pub fn next_completed(&mut self) -> Option<(u64, Outcome)> {
        let id = self.completed.first(&self.requests)?;
        self.completed.remove(&mut self.requests, 0, id);
        let (request, completion) = self.requests.both_mut(id)?;
        request.member = Member::None;
        request.state = State::Reserved;
        let outcome = completion.outcome().unwrap_or_default();
        completion.reset();
        Some((request.cookie, outcome))
    }

    /// Somebody wants to hear of the request's completion without looking (a callback, a waker): plain messages ring
    /// for it. Handler-safe.
    pub fn set_wants(&mut self, id: Id) {
        let Some(request) = self.requests.get_mut(id) else { return };
        if request.is_pending() && !request.has(WANTS) {
            request.flags |= WANTS;
            self.wants = self.wants.wrapping_add(1);
        }
    }

    /// Ends every pending request with `code` and `detail`: this rank leaves, and no buffer is touched any more. User
    /// threads only; bounded by the number of requests.
    pub fn end_all(&mut self, code: Code, detail: u64) {
        for at in 0..self.requests.capacity() as u32 {
            let Some(id) = self.requests.by_index(at) else { continue };
            let Some(tag) = self.requests.get(id).filter(|r| r.is_pending()).map(|r| r.tag) else { continue };
            self.finish(id, Outcome { code, source: self.me, tag, bytes: 0, detail });
        }
    }

    fn reset(&mut self, id: Id) {
        let Some((request, completion)) = self.requests.both_mut(id) else { return };
        request.state = State::Reserved;
        request.member = Member::None;
        request.flags = 0;
        request.cookie = 0;
        completion.reset();
    }

    /// Ends a request. A second end is ignored.
    pub(crate) fn finish(&mut self, id: Id, outcome: Outcome) {
        if !self.requests.get(id).is_some_and(Request::is_pending) {
            return;
        }
        self.retire(id);
        self.await_no_more(Some(id));
        self.report(id, outcome);
    }

    /// As [`finish`](Self::finish), of a receive that is in no list any more and too short ever to have been published: it has no
    /// record of a single copy to look for.
    #[inline]
    pub(crate) fn finish_short(&mut self, id: Id, outcome: Outcome) {
        self.uncount(id);
        self.await_no_more(Some(id));
        self.report(id, outcome);
    }

    /// Says that a request, which is pending nowhere any more, has ended.
    #[inline]
    fn report(&mut self, id: Id, outcome: Outcome) {
        let Some((request, completion)) = self.requests.both_mut(id) else { return };
        request.state = State::Done;
        let (detached, cookie) = (request.has(DETACHED), request.cookie);
        completion.finish(outcome);
        if detached {
            self.requests.free(id);
        } else if cookie != 0 {
            request.member = Member::Completed;
            self.completed.push(&mut self.requests, 0, id);
        }
    }

    /// Tells the receiver of a large message that no more of it comes, as soon as there is room to say so. As many may wait for that as a pair has records, so that
    /// all find a place but messages that go without one, in pieces: of those, one that finds none hears by what it was broken off for, if that is a revocation
    /// or a death.
    pub(crate) fn abort_send(&mut self, peer: u32, remote: u64) {
        let _said = self.say(peer, Word::Aborted, remote, Tells::GivenUp);
    }

    /// Notes before its end by anything but the protocol that the peer may still speak of a request.
    pub(crate) fn break_off(&mut self, id: Id) {
        self.unpublish(id);
        let Some(request) = self.requests.get(id) else { return };
        // The other end waits to hear why it is given up, and may not hear of it from who has revoked. Before it hears that it is.
        let (peer, context) = (request.peer, request.context);
        let is_told = self.contexts.is_revoked(context)
            && Self::is_awaited(request)
            && self.tell_revoked(peer, context);
        let says_why = is_told || self.is_leaving;
        let Some(request) = self.requests.get(id) else { return };
        if !request.is_known_abroad() && !request.has(SHARED) {
            // A send that is queued may hold a record that nobody knows of yet.
            self.close_record(id, says_why);
            return;
        }
        // The record of a single copy says so, too, until it serves another message; of a published receive it serves no other.
        let answered = request.state == State::SendShared && !request.has(SHARED);
        let sending = answered || matches!(request.state, State::SendData | State::SendPiped);
        let (remote, copied) = (request.remote, request.has(OWES_FIN));
        self.set_stale(peer);
        self.close_record(id, says_why);
        match sending {
            // All of it is copied; only the receiver does not know.
            true if copied => _ = self.say(peer, Word::Copied, remote, Tells::GivenUp),
            true if !self.is_leaving => self.abort_send(peer, remote),
            _ => {}
        }
    }

    /// Takes a request out of its list and out of the counts of pending ones.
    fn retire(&mut self, id: Id) {
        self.unlink(id);
        self.free_record(id);
        self.done_with_publication(id);
        self.uncount(id);
    }

    /// Takes a request out of the counts of pending ones.
    #[inline]
    fn uncount(&mut self, id: Id) {
        let Some(request) = self.requests.get_mut(id) else { return };
        if request.is_send() {
            let sends = if request.peer == self.me { &mut self.own_sends } else { &mut self.sends };
            *sends = sends.saturating_sub(1);
        } else if request.is_pending() {
            self.receives = self.receives.saturating_sub(1);
        }
        if request.has(WANTS) {
            request.flags &= !WANTS;
            self.wants = self.wants.saturating_sub(1);
        }
    }

    pub(crate) fn unlink(&mut self, id: Id) {
        if self.requests.get(id).is_none_or(|request| request.member == Member::None) {
            return;
        }
        if self.requests.get(id).is_some_and(|request| request.member == Member::Posted) {
            self.unposted(id);
        }
        let Some(request) = self.requests.get_mut(id) else { return };
        let (member, peer, class) =
            (request.member, request.peer as usize, usize::from(request.class == Class::Coll));
        request.member = Member::None;
        let list = match member {
            Member::None => return,
            Member::Posted => {
                if let Some(matching) = self.matching.get_mut(class) {
                    matching.posted.remove(&mut self.requests, id);
                }
                return;
            }
            Member::Completed => Some(&mut self.completed),
            Member::Transfer => Some(&mut self.transfers),
            Member::Queue => self.peers.get_mut(peer).and_then(|p| p.queues.get_mut(class)),
            Member::Control => {
                self.owed = self.owed.saturating_sub(1);
                self.peers.get_mut(peer).map(|p| &mut p.control)
            }
            Member::Bulk => self.peers.get_mut(peer).map(|p| &mut p.bulk),
        };
        if let Some(list) = list {
            list.remove(&mut self.requests, 0, id);
        }
    }

    /// Appends a request to one of its peer's lists.
    pub(crate) fn enlist(&mut self, id: Id, member: Member) {
        let Some(request) = self.requests.get_mut(id) else { return };
        let (peer, class) = (request.peer, usize::from(request.class == Class::Coll));
        let Some(state) = self.peers.get_mut(peer as usize) else { return };
        let list = match member {
            Member::Queue => state.queues.get_mut(class),
            Member::Control => {
                self.owed = self.owed.wrapping_add(1);
                Some(&mut state.control)
            }
            Member::Bulk => Some(&mut state.bulk),
            Member::Transfer => Some(&mut self.transfers),
            Member::None | Member::Posted | Member::Completed => None,
        };
        let Some(list) = list else { return };
        request.member = member;
        list.push(&mut self.requests, 0, id);
        if member != Member::Transfer {
            self.outgoing.insert(peer);
        }
    }

    /// The name by which packets call a request: its slot and which start of it.
    pub(crate) fn wire_name(id: Id, serial: u32) -> u64 {
        u64::from(serial) << 32 | u64::from(id.index)
    }

    /// The pending request that a packet of `peer` names, if it is in `state`.
    pub(crate) fn named(&self, wire: u64, peer: u32, state: State) -> Option<Id> {
        let id = self.requests.by_index(wire as u32)?;
        let request = self.requests.get(id)?;
        (request.serial == (wire >> 32) as u32 && request.state == state && request.peer == peer)
            .then_some(id)
    }
}
