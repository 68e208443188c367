//! A receive posted before its send publishes its buffer, so that the sender copies there at once.
//!
//! **Matching order holds** because the receiver publishes only what is certain: a receive of one source, while it is
//! the only posted one that this source's messages could meet, for the message with the number that comes next out of
//! that source's lane. Receives posted later rank behind it. The sender uses it only for the message that it is just
//! putting into the lane, when that has this number, and the announcement goes through the lane all the same: the
//! receiver matches it as usual, and finds the same receive.
//!
//! | meanwhile | so |
//! |---|---|
//! | an earlier message lies in the lane | the numbers differ |
//! | an earlier message waits for room in the lane | so does this one, behind it; it has its number when it is put there |
//! | a receive of any source is posted earlier | nothing is published |
//! | the receive is cancelled | its publication is withdrawn, or taken: then it is too late to cancel |
//! | the receive fails | it closes as every transfer does: see `transfers` |
//!
//! **It asks for announcements, too.** A receive that is published is for messages of one rank. What that one announces all the same (with another tag, or
//! because both had better copy) interrupts this rank, as long as the publication stands: whoever rings for an announcement looks there, after the fence that
//! each ring is made after. So the attention word, which all peers read, is left as it is. As with that word, who has published fences and looks once more.

use core::ptr::NonNull;

use tocsin_progress::{Context, Id};
use tocsin_sync::atomic::spin_loop;
use tocsin_sync::clock::now_ns;
use tocsin_transport::transfer::{RECORDS, chunks};
use tocsin_transport::{Class, Notice, Publication, Reach, Transport};

use crate::P2p;
use crate::request::{ANY_SOURCE, ANY_TAG, ASKS, Member, Request, SHARED, SOON, State};

/// How long a send looks for a receive that is published at the same time, in ns: some times what the post of one takes from its look for what has come to its
/// publication, and a fraction of what an answer takes of its receiver.
const SOON_NS: u64 = 200;
/// The same, at most, of who waits next, and has nothing else to do: what posts took in the slowest tenth of a run. If there is no receive, its announcement comes later by that.
const SOON_WAITED_NS: u64 = 1_500;
/// And no longer than a nanosecond for so many bytes: an eighth of what their copying takes at 8 GB/s. (64 KiB, only the receiver computes: half of the announcements had come before
/// their receive's publication, one in two hundred with such looks of 1.5 us, and what the receiver loses, post and wait, fell by a fifth: Emerald Rapids, 16 runs in turns.)
const SOON_BYTES_PER_NS: u64 = 64;
/// Who waits next and has looked so many times in a row in vain looks at one in so many messages only, until a look finds one.
const IN_VAIN: u8 = 4;
const ONCE_IN: u8 = 16;

/// What a rank keeps of one peer's messages and of the receive that is published for them.
#[derive(Debug, Default)]
pub(crate) struct Published {
    /// Messages put into the peer's Eager lane, and taken from it.
    pub(crate) put: u32,
    pub(crate) taken: u32,
    /// Posted receives of this source in the Eager class.
    pub(crate) posted: u32,
    /// The receive that is published.
    receive: Option<Id>,
    ticket: u32,
    /// The receive that was published and found, until it ends: the publication's record is its transfer's.
    found: Option<Id>,
    /// The sender has said that all is copied, before its announcement was read.
    finished: bool,
    /// Long looks in a row, up to [`IN_VAIN`], that were of no use.
    in_vain: u8,
    /// Sends since the last look that did without one because such looks were in vain.
    passed_over: u8,
}

impl Published {
    /// Whether a receive is.
    #[inline]
    pub(crate) fn is_there(&self) -> bool {
        self.receive.is_some()
    }

    /// Whether a send that could look for its receive for a moment had better do so.
    fn is_worth_a_look(&mut self) -> bool {
        self.passed_over =
            if self.in_vain < IN_VAIN { 0 } else { self.passed_over.wrapping_add(1) % ONCE_IN };
        self.passed_over == 0
    }

    /// Whether a long look was of use.
    pub(crate) fn note_look(&mut self, useful: bool) {
        self.in_vain = if useful { 0 } else { self.in_vain.saturating_add(1).min(IN_VAIN) };
    }
}

/// A receive that was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) ticket: u32,
    pub(crate) name: u64,
    pub(crate) address: u64,
}

impl<T: Transport> P2p<T> {
    /// Where this rank publishes for messages from `peer`.
    fn publication(&self, peer: u32) -> Option<&Publication> {
        // SAFETY: the transport keeps publications as long as it lives.
        self.transport.publication(peer, self.me).map(|publication| unsafe { &*publication.as_ptr() })
    }

    /// Publishes a receive that was just posted, if it is certain what it will match. Whether it is published. Bounded; one system call when the
    /// peer has not been tried.
    pub(crate) fn publish(&mut self, id: Id) -> bool {
        let Some(request) = self.requests.get(id) else { return false };
        let peer = request.peer;
        let room = request.layout.bytes();
        if request.class != Class::Eager
            || peer == ANY_SOURCE
            || peer == self.me
            || room <= self.eager_max(Class::Eager)
        {
            return false;
        }
        let Some(address) = request.target_buf().run_at(0).filter(|base| !base.is_null()) else {
            return false;
        };
        let any_source = self.matching.first().is_none_or(|matching| matching.posted.any_source() > 0);
        let Some(state) = self.peers.get(peer as usize) else { return false };
        let alone = state.published.posted == 1 && state.published.receive.is_none();
        // Between two chunks a record looks as if it were at rest: only its receive's end says that it is.
        let free = state.published.found.is_none();
        if any_source || !alone || !free || state.fate.no_more_to().is_some() {
            return false;
        }
        let notice = Notice {
            number: state.published.taken,
            context: request.context,
            tag: (!request.has(ANY_TAG)).then_some(request.tag),
            name: Self::wire_name(id, request.serial),
            address: address as u64,
            room: room as u64,
        };
        let reach = self.transport.reach(peer);
        let Some(state) = self.peers.get_mut(peer as usize) else { return false };
        let ticket = state.published.ticket.checked_add(1).unwrap_or(1);
        let at = self
            .transport
            .publication(peer, self.me)
            .filter(|_| !matches!(reach, Reach::None | Reach::Region));
        // SAFETY: the transport keeps publications as long as it lives.
        let Some(at) = at.map(|at| unsafe { at.as_ref() }).filter(|at| at.record().is_at_rest()) else {
            return false;
        };
        state.published.ticket = ticket;
        state.published.receive = Some(id);
        state.published.finished = false;
        at.publish(ticket, &notice);
        self.has_published = true;
        if let Some(request) = self.requests.get_mut(id) {
            request.reach = reach;
        }
        true
    }

    /// Whether a receive was published since this was asked last: then the caller fences, and looks at what has come meanwhile, as after any word
    /// by which this rank asks to be rung. Handler-safe.
    #[inline]
    pub fn takes_published(&mut self) -> bool {
        core::mem::take(&mut self.has_published)
    }

    /// As [`find_published`](Self::find_published). A user's thread whose receiver computes, or is about to post, looks for a moment: a receiver that posts at
    /// the same time would find the announcement when its receive is published, and have to answer it before it computes. Takes [`SOON_NS`] at most where the thread is not expected to wait for the send. One that
    /// [does so next](Self::set_waits_next), and `may_push` into whatever buffer, takes [`SOON_WAITED_NS`] at most, but seldom where that was of no use; and no other takes any time. And whether it was such a long look, which is to be
    /// [noted](Published::note_look).
    pub(crate) fn find_published_soon(&mut self, id: Id, may_push: bool) -> (Option<Found>, bool) {
        let Some(request) = self.requests.get(id).filter(|request| request.class == Class::Eager) else {
            return (None, false);
        };
        let (peer, total) = (request.peer, request.total);
        let found = self.find_published(request);
        // For what waits for room nothing is published yet; where ranks share cores, nobody posts while this one looks.
        if found.is_some()
            || self.context != Context::User
            || !self.publishes
            || request.member == Member::Queue
            || self.ways.is_crowded()
            || self.transport.is_waiting(peer)
        {
            return (found, false);
        }
        if !self.waits {
            return (self.look_for_published(id, SOON_NS, |_| false), false);
        }
        let says_so = |transport: &T| {
            transport.is_waiting(peer) || transport.is_awaited_by(peer) || transport.is_awaited_soon(peer)
        };
        let may_look = self.waits_next && may_push && !says_so(&self.transport);
        if !may_look
            || !self.peers.get_mut(peer as usize).is_some_and(|state| state.published.is_worth_a_look())
        {
            return (None, false);
        }
        let most = SOON_WAITED_NS.min(total / SOON_BYTES_PER_NS);
        (self.look_for_published(id, most, says_so), true)
    }

    /// Looks for so many nanoseconds at most, and no longer once the peer says that a thread looks there or is about to: it will see an announcement by itself.
    fn look_for_published(&self, id: Id, most: u64, says_so: impl Fn(&T) -> bool) -> Option<Found> {
        let request = self.requests.get(id)?;
        let begun = now_ns();
        // Bounded by time.
        loop {
            spin_loop();
            let is_over = now_ns().wrapping_sub(begun) >= most || says_so(&self.transport);
            let found = self.find_published(request);
            if found.is_some() || is_over {
                return found;
            }
        }
    }

    /// The receive that is published for the next message to a peer, if it is this one.
    fn find_published(&self, request: &Request) -> Option<Found> {
        let number = self.peers.get(request.peer as usize)?.published.put;
        let at: NonNull<Publication> = self.transport.publication(self.me, request.peer)?;
        // SAFETY: the transport keeps publications as long as it lives.
        let (ticket, notice) = unsafe { at.as_ref() }.look()?;
        let meets = notice.is_for(number, request.context, request.tag, request.total);
        (meets && notice.address != 0).then_some(Found { ticket, name: notice.name, address: notice.address })
    }

    /// A message was put into a peer's Eager lane.
    #[inline]
    pub(crate) fn count_put(&mut self, peer: u32, class: Class) {
        if let Some(state) = self.peers.get_mut(peer as usize).filter(|_| class == Class::Eager) {
            state.published.put = state.published.put.wrapping_add(1);
        }
    }

    /// A message was taken from a peer's Eager lane.
    #[inline]
    pub(crate) fn count_taken(&mut self, peer: u32, class: Class) {
        let Some(state) = self.peers.get_mut(peer as usize).filter(|_| class == Class::Eager) else { return };
        state.published.taken = state.published.taken.wrapping_add(1);
        if state.published.receive.is_some() {
            self.renumber(peer);
        }
    }

    /// The receive that is published is for another message than it was.
    #[cold]
    fn renumber(&mut self, peer: u32) {
        let number = self.peers.get(peer as usize).map_or(0, |state| state.published.taken);
        if let Some(at) = self.publication(peer) {
            at.renumber(number);
        }
    }

    /// Whether the sender has said of a published receive that all is copied, before its announcement was read.
    pub(crate) fn is_copied(&self, id: Id, peer: u32) -> bool {
        self.peers
            .get(peer as usize)
            .is_some_and(|state| state.published.finished && state.published.receive == Some(id))
    }

    /// Whether the receive is published.
    fn is_published(&self, id: Id) -> bool {
        let Some(request) = self.requests.get(id).filter(|r| r.member == Member::Posted) else {
            return false;
        };
        self.peers.get(request.peer as usize).is_some_and(|p| p.published.receive == Some(id))
    }

    /// Takes a receive's publication back. False: the sender has it.
    pub(crate) fn withdraw(&mut self, id: Id) -> bool {
        if !self.is_published(id) {
            return true;
        }
        let peer = self.requests.get(id).map_or(ANY_SOURCE, |request| request.peer);
        let ticket = self.peers.get(peer as usize).map_or(0, |p| p.published.ticket);
        if !self.publication(peer).is_none_or(|at| at.withdraw(ticket)) {
            return false;
        }
        if let Some(state) = self.peers.get_mut(peer as usize) {
            state.published.receive = None;
        }
        true
    }

    /// A published receive ends by anything but its message: if the sender has it, the request becomes a transfer that
    /// can be closed.
    pub(crate) fn unpublish(&mut self, id: Id) {
        if self.withdraw(id) {
            return;
        }
        self.become_shared(id);
    }

    /// From now on the request's record is the publication's.
    fn become_shared(&mut self, id: Id) {
        let Some(request) = self.requests.get_mut(id) else { return };
        let Some(state) = self.peers.get_mut(request.peer as usize) else { return };
        state.published.receive = None;
        state.published.found = Some(id);
        request.slot = RECORDS as u8;
        request.ticket = state.published.ticket;
        request.flags |= SHARED;
    }

    /// A posted receive leaves the table of posted ones.
    pub(crate) fn unposted(&mut self, id: Id) {
        // What is taken here without its announcement was taken by a peer that lies, and writes where it was let.
        self.withdraw(id);
        let Some(request) = self.requests.get_mut(id).filter(|r| r.class == Class::Eager) else { return };
        let soon = request.has(SOON);
        if request.has(ASKS) {
            request.flags &= !ASKS;
            self.awaits_offers = self.awaits_offers.saturating_sub(1);
        }
        if soon {
            self.await_soon_no_more(id);
        }
        let Some(request) = self.requests.get(id) else { return };
        let Some(state) = self.peers.get_mut(request.peer as usize) else { return };
        state.published.posted = state.published.posted.saturating_sub(1);
        if state.published.receive == Some(id) {
            state.published.receive = None;
        }
    }

    /// A receive has ended: the publication serves the next.
    pub(crate) fn done_with_publication(&mut self, id: Id) {
        let Some(request) = self.requests.get(id).filter(|request| !request.is_send()) else { return };
        if let Some(state) = self.peers.get_mut(request.peer as usize)
            && state.published.found == Some(id)
        {
            state.published.found = None;
        }
    }

    /// The announcement of the message that the sender copies into a published receive has come, and matches it.
    pub(crate) fn meets_published(&mut self, id: Id, ticket: u32, bytes: usize) -> bool {
        let Some(request) = self.requests.get(id) else { return false };
        let known = self.peers.get(request.peer as usize).is_some_and(|p| p.published.ticket == ticket);
        if !known
            || !self.is_published(id)
            || bytes > request.layout.bytes()
            || chunks(bytes as u64).is_none_or(|n| n == 0)
        {
            return false;
        }
        self.become_shared(id);
        true
    }

    /// A receive whose buffer the sender has found goes on as a transfer.
    pub(crate) fn begin_published(&mut self, id: Id, address: u64) {
        let Some(request) = self.requests.get(id) else { return };
        let (peer, total) = (request.peer, request.total);
        let reach = self.reach_by_address(peer, address, total);
        let Some(request) = self.requests.get_mut(id) else { return };
        request.reach = reach;
        request.address = address;
        request.state = State::RecvShared;
        let finished = self.peers.get(request.peer as usize).is_some_and(|p| p.published.finished);
        self.enlist(id, Member::Transfer);
        if finished {
            self.finish_recv(id);
        }
    }

    /// The sender says that all is copied; its announcement is still in the lane. False: there is no such receive.
    pub(crate) fn finished_early(&mut self, name: u64, peer: u32) -> bool {
        let Some(id) = self.named(name, peer, State::RecvPosted) else { return false };
        if !self.is_published(id) {
            return false;
        }
        if let Some(state) = self.peers.get_mut(peer as usize) {
            state.published.finished = true;
        }
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Which of the next so many sends look, if none finds anything.
    fn looks(state: &mut Published, sends: usize) -> Vec<usize> {
        let mut looks = |send| {
            let looks = state.is_worth_a_look();
            if looks {
                state.note_look(false);
            }
            looks.then_some(send)
        };
        (0..sends).filter_map(&mut looks).collect()
    }

    #[test]
    fn who_looks_in_vain_soon_looks_seldom() {
        let mut state = Published::default();
        let first = looks(&mut state, 1000);
        assert_eq!(first[..6], [0, 1, 2, 3, 19, 35]);
        assert!(first[4..].windows(2).all(|pair| pair[1] - pair[0] == usize::from(ONCE_IN)), "{first:?}");
        state.note_look(true);
        assert_eq!(looks(&mut state, 10), [0, 1, 2, 3]);
    }
}
