//! Point to point.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use tocsin_p2p::{Class, NEWS, RecvArgs, SendArgs};
use tocsin_progress::Work;
use tocsin_progress::engine::{Post, Posts};
use tocsin_progress::{Completion, Entered, Id, Outcome};

use tocsin_sync::clock::now_ns;

use super::Comm;
use super::at_once::{Posted, Waited};
use super::null::PROC_NULL;
use crate::error::Error;
use crate::outcome::message_error;
use crate::request::{Kind, RawRequest, Status};
use crate::state::RankState;
use crate::{BackendKind, ConstBuf, Mode, MutBuf};

/// How long who has posted its side of a message takes to be seen waiting for it, nanoseconds.
const ABOUT_TO_WAIT_NS: u64 = 1_000;
/// From so many bytes on, who waits for a message copies nothing of it before it is seen waiting, or its peer would begin, too, by interrupts. What is shorter
/// is mostly copied sooner than that.
const COPIED_IN_WAIT: usize = 512 << 10;

/// What a thread does after a post.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Then {
    /// It waits for what it has posted.
    Waits,
    /// It leaves the library, and what it does is [expected](Comm::waits_soon) by what it did the last times.
    Leaves,
}

impl Comm {
    /// World rank of `rank`, or the error of a rank out of range.
    pub(super) fn peer(&self, operation: &'static str, rank: u32) -> Result<u32, Error> {
        self.world_rank(rank).ok_or_else(|| Error::RankOutOfRange { operation, rank, size: self.size() })
    }

    pub(super) fn tag(operation: &'static str, tag: i32) -> Result<i32, Error> {
        if tag < 0 { Err(Error::NegativeTag { operation, tag }) } else { Ok(tag) }
    }

    /// Checked source and tag of a receive.
    pub(super) fn selection(
        &self,
        operation: &'static str,
        source: Option<u32>,
        tag: Option<i32>,
    ) -> Result<(Option<u32>, Option<i32>), Error> {
        let source = source.map(|rank| self.peer(operation, rank)).transpose()?;
        let tag = tag.map(|tag| Comm::tag(operation, tag)).transpose()?;
        Ok((source, tag))
    }

    /// Starts a send.
    ///
    /// # Errors
    /// [`Error::RankOutOfRange`], [`Error::NegativeTag`], [`Error::PeerDead`], [`Error::PeerFinalized`], [`Error::Protocol`],
    /// [`Error::Revoked`], [`Error::Finalized`], [`Error::InHandler`] where the thread may not call the library, refusals of memory.
    ///
    /// # Safety
    /// What `buf` describes is readable, and not written, until the request is complete or the rank has finalized.
    // Inlined, so that the request is written where it is to be, and not copied there.
    #[inline]
    pub unsafe fn isend_raw(
        &self,
        buf: ConstBuf,
        dest: u32,
        tag: i32,
        mode: Mode,
    ) -> Result<RawRequest, Error> {
        // SAFETY: - promised by the caller.
        unsafe { self.isend_then(buf, dest, tag, mode, Then::Leaves) }
    }

    /// [`isend_raw`](Self::isend_raw) of a thread that does such a thing next.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub(super) unsafe fn isend_then(
        &self,
        buf: ConstBuf,
        dest: u32,
        tag: i32,
        mode: Mode,
        then: Then,
    ) -> Result<RawRequest, Error> {
        // SAFETY: - the buffer: promised by the caller for longer than the call.
        match unsafe { self.isend_raw_at_once(&buf, dest, tag, mode) } {
            Some(sent) => Ok(RawRequest::sent(sent)),
            // SAFETY: - promised by the caller.
            None => unsafe { self.isend_in_general(buf, dest, tag, mode, then) },
        }
    }

    /// The other part of [`isend_raw`](Self::isend_raw), for what is not over [at once](Self::isend_raw_at_once).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn isend_raw_later(
        &self,
        buf: ConstBuf,
        dest: u32,
        tag: i32,
        mode: Mode,
    ) -> Result<RawRequest, Error> {
        // SAFETY: - promised by the caller.
        unsafe { self.isend_in_general(buf, dest, tag, mode, Then::Leaves) }
    }

    /// The first part of [`isend_raw`](Self::isend_raw): sends, if that is over at once, so that there is no request to be kept. `None`: nothing was done, and
    /// [`isend_raw_later`](Self::isend_raw_later) is the other part.
    ///
    /// # Safety
    /// As there, during the call.
    #[inline(always)]
    pub unsafe fn isend_raw_at_once(
        &self,
        buf: &ConstBuf,
        dest: u32,
        tag: i32,
        mode: Mode,
    ) -> Option<Status> {
        // SAFETY: - promised by the caller.
        let sent = mode != Mode::Synchronous && unsafe { self.send_at_once(buf, dest, tag) };
        sent.then(|| {
            // Its wait will be none.
            self.shared().open_gates();
            Status { source: self.rank(), tag, bytes: buf.layout.bytes() }
        })
    }

    /// [`isend_raw`](Self::isend_raw) of what is not over at once.
    ///
    /// # Safety
    /// As there.
    #[inline(never)]
    unsafe fn isend_in_general(
        &self,
        buf: ConstBuf,
        dest: u32,
        tag: i32,
        mode: Mode,
        then: Then,
    ) -> Result<RawRequest, Error> {
        let operation = if mode == Mode::Synchronous { "issend" } else { "isend" };
        if dest == PROC_NULL {
            let status = self.send_to_null(operation, tag)?;
            return Ok(RawRequest::over(operation, Kind::Send { tag, bytes: 0 }, status));
        }
        let dest = self.peer(operation, dest)?;
        let tag = Comm::tag(operation, tag)?;
        let args = SendArgs { context: self.context(), dest, tag, buf, mode, class: Class::Eager, cookie: 0 };
        let bytes = buf.layout.bytes();
        let kind = Kind::Send { tag, bytes };
        let mut state = self.shared().enter_open(operation)?;
        // Most small messages are in the lane at once, and need no request. A larger one would not be over so soon.
        let long = bytes > state.p2p.eager_max(Class::Eager);
        if mode != Mode::Synchronous && !long {
            // SAFETY: - the buffer: promised by the caller for longer than the call.
            let sent = unsafe { state.p2p.send_now(self.context(), dest, tag, &buf) };
            if sent.map_err(|e| self.shared().or_abort(operation, message_error(operation, e)))? {
                drop(state);
                let status = Status { source: self.rank(), tag, bytes };
                self.shared().open_gates();
                return Ok(RawRequest::over(operation, kind, status));
            }
        }
        let (soon, post) = self.waits_soon(Posts::Send, long, then);
        // Who waits in this call posts nothing else before.
        let waits_next = soon && (then == Then::Waits || post.is_some_and(|post| post.last));
        state.p2p.set_waits(soon);
        state.p2p.set_waits_next(waits_next);
        // SAFETY: - the buffer: promised by the caller.
        let id = unsafe { state.p2p.isend(args) };
        state.p2p.set_waits(false);
        let id = id.map_err(|e| self.shared().or_abort(operation, message_error(operation, e)))?;
        if long && then == Then::Waits {
            return self.request(state, operation, kind, id, Some(COPIED_IN_WAIT));
        }
        // Who is expected to wait next, and to post no other message before, copies here what nobody else does, and is seen to: a peer that posts its side meanwhile leaves it to this one, which would
        // not be seen waiting for as long as that takes.
        let looking = waits_next.then(|| self.shared().engine.looking());
        if waits_next {
            state.is_looking();
            // Nobody rings the rank as long as it is seen looking, and callbacks may last.
            state.leave_callbacks();
            state.ask_for_pass();
        } else if long {
            // What has met a receive that was posted: if nobody waits, the drop sets a timer.
            Self::look_for_a_peer_that_waits(&state);
        }
        let news = state.p2p.news_of(id);
        let request = self.request(state, operation, kind, id, None);
        if let Some(looking) = looking {
            looking.leave();
        }
        if post.is_some() {
            self.note_posted(request.as_ref().ok(), news);
            self.shared().engine.has_posted(Posts::Send);
        }
        request
    }

    /// Whether a thread that does such a thing next is expected to wait right after what it posts now: where it leaves, by what followed what this rank posted before. And the post, if its
    /// end is to be told.
    #[inline]
    fn waits_soon(&self, posts: Posts, long: bool, then: Then) -> (bool, Option<Post>) {
        if !long || then == Then::Waits {
            return (long, None);
        }
        let post = self.shared().engine.begins_post(posts);
        // Where there are no handlers nobody would go on with what was expected in vain.
        (post.is_some_and(|post| post.soon) && self.shared().backend != BackendKind::Poll, post)
    }

    /// The request of what was just started. Leaves the engine, as [`leave_with`](Self::leave_with) does.
    #[inline]
    pub(super) fn request(
        &self,
        state: Entered<'_, RankState>,
        operation: &'static str,
        kind: Kind,
        id: Id,
        waits: Option<usize>,
    ) -> Result<RawRequest, Error> {
        let (completion, outcome) = Self::leave_with(state, id, waits)?;
        Ok(RawRequest::new(self.clone(), operation, kind, id, completion, outcome))
    }

    /// Leaves the engine. With the outcome, if there is one, the slot is somebody else's: most small messages need not
    /// enter once more to give it back. `waits`: the caller waits for it next, and it has at most so many bytes.
    #[inline]
    fn leave_with(
        mut state: Entered<'_, RankState>,
        id: Id,
        waits: Option<usize>,
    ) -> Result<(NonNull<Completion>, Option<Outcome>), Error> {
        // A request that was just made has a completion.
        let completion = state.p2p.completion(id).ok_or_else(|| Error::Internal {
            operation: "starting a message",
            what: "the request was lost".into(),
        })?;
        // SAFETY: - it lies in a slab that lives as long as the engine.
        let outcome = unsafe { completion.as_ref() }.outcome();
        if outcome.is_some() {
            state.p2p.release(id);
        } else if waits.is_some_and(|bytes| bytes >= COPIED_IN_WAIT) {
            state.stay_to_copy();
        } else if waits.is_some() {
            state.stay();
        }
        Ok((completion, outcome))
    }

    /// Waits for what was just started. Leaves the engine.
    pub(super) fn finish(
        &self,
        state: Entered<'_, RankState>,
        operation: &'static str,
        kind: Kind,
        id: Id,
    ) -> Result<Status, Error> {
        let most = match kind {
            Kind::Send { bytes, .. } | Kind::Receive { room: bytes } => bytes,
            Kind::Collective => 0,
        };
        match Self::leave_with(state, id, Some(most))? {
            (_, Some(outcome)) => kind.read(self, operation, outcome),
            (completion, None) => {
                RawRequest::new(self.clone(), operation, kind, id, completion, None).wait_posted()
            }
        }
    }

    /// Sends, and waits until the buffer is free again.
    ///
    /// # Errors
    /// As [`isend_raw`](Self::isend_raw), and what a send ends with: these, and [`Error::TooManyUnexpected`], [`Error::NeverReceived`].
    ///
    /// # Safety
    /// What `buf` describes is readable, and not written, during the call.
    // In its caller, who mostly knows how long the buffer is, which mode and which tag: half of what is asked for a short message falls away.
    #[inline(always)]
    pub unsafe fn send_raw(&self, buf: ConstBuf, dest: u32, tag: i32, mode: Mode) -> Result<Status, Error> {
        self.shared().open_gates();
        // SAFETY: - the buffer: promised by the caller for the time of the call.
        if mode != Mode::Synchronous && unsafe { self.send_at_once(&buf, dest, tag) } {
            return Ok(Status { source: self.rank(), tag, bytes: buf.layout.bytes() });
        }
        // SAFETY: - promised by the caller.
        unsafe { self.send_in_general(buf, dest, tag, mode) }
    }

    /// [`send_raw`](Self::send_raw) of what is not over at once.
    ///
    /// # Safety
    /// As there.
    #[inline(never)]
    unsafe fn send_in_general(
        &self,
        buf: ConstBuf,
        dest: u32,
        tag: i32,
        mode: Mode,
    ) -> Result<Status, Error> {
        let operation = if mode == Mode::Synchronous { "ssend" } else { "send" };
        if dest == PROC_NULL {
            return self.send_to_null(operation, tag);
        }
        let dest = self.peer(operation, dest)?;
        let tag = Comm::tag(operation, tag)?;
        if buf.layout.bytes() > self.shared().eager_max {
            // From now on, and not when it has copied.
            self.shared().engine.note_wait();
        }
        let mut state = self.shared().enter_open(operation)?;
        if mode != Mode::Synchronous {
            self.linger_for_room(&mut state, dest);
            // SAFETY: - the buffer: promised by the caller for the time of the call.
            let sent = unsafe { state.p2p.send_now(self.context(), dest, tag, &buf) };
            if sent.map_err(|e| self.shared().or_abort(operation, message_error(operation, e)))? {
                return Ok(Status { source: self.rank(), tag, bytes: buf.layout.bytes() });
            }
        }
        let args = SendArgs { context: self.context(), dest, tag, buf, mode, class: Class::Eager, cookie: 0 };
        state.p2p.set_waits(true);
        state.p2p.set_waits_next(true);
        // SAFETY: - as above; the call ends when the request has.
        let id = unsafe { state.p2p.isend(args) };
        state.p2p.set_waits(false);
        let id = id.map_err(|e| self.shared().or_abort(operation, message_error(operation, e)))?;
        self.finish(state, operation, Kind::Send { tag, bytes: buf.layout.bytes() }, id)
    }

    /// Receives, and waits for it; `None` matches any.
    ///
    /// # Errors
    /// As [`irecv_raw`](Self::irecv_raw), and what a receive ends with: these, and [`Error::Truncated`]. The buffer may hold a part of a message then.
    ///
    /// # Safety
    /// What `buf` describes is writable, and used by nobody else, during the call.
    // As `send_raw`.
    #[inline(always)]
    pub unsafe fn recv_raw(
        &self,
        buf: MutBuf,
        source: Option<u32>,
        tag: Option<i32>,
    ) -> Result<Status, Error> {
        self.shared().open_gates();
        // SAFETY: - the buffer: promised by the caller for the time of the call.
        match unsafe { self.recv_at_once(&buf, source, tag) } {
            Waited::Received(status) => Ok(status),
            // SAFETY: - promised by the caller.
            Waited::Not(state) => unsafe { self.recv_in_general(state, buf, source, tag) },
        }
    }

    /// Starts a receive; `None` matches any.
    ///
    /// # Errors
    /// [`Error::RankOutOfRange`], [`Error::NegativeTag`], [`Error::PeerDead`], [`Error::PeerFinalized`], [`Error::Protocol`],
    /// [`Error::Revoked`], [`Error::Finalized`], [`Error::InHandler`] where the thread may not call the library, refusals of memory.
    ///
    /// # Safety
    /// What `buf` describes is writable, and used by nobody else, until the request is complete or the rank has
    /// finalized.
    // Inlined, so that the request is written where it is to be, and not copied there.
    #[inline]
    pub unsafe fn irecv_raw(
        &self,
        buf: MutBuf,
        source: Option<u32>,
        tag: Option<i32>,
    ) -> Result<RawRequest, Error> {
        // SAFETY: - promised by the caller.
        unsafe { self.irecv_then(buf, source, tag, Then::Leaves) }
    }

    /// [`irecv_raw`](Self::irecv_raw) of a thread that does such a thing next.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub(super) unsafe fn irecv_then(
        &self,
        buf: MutBuf,
        source: Option<u32>,
        tag: Option<i32>,
        then: Then,
    ) -> Result<RawRequest, Error> {
        let kind = Kind::Receive { room: buf.layout.bytes() };
        // SAFETY: - promised by the caller.
        match unsafe { self.irecv_at_once(&buf, source, tag) } {
            Posted::Pending(id, completion) => {
                Ok(RawRequest::pending(self.clone(), "irecv", kind, id, completion))
            }
            Posted::Over(status) => Ok(RawRequest::over("irecv", kind, status)),
            // SAFETY: - promised by the caller.
            Posted::Not(state) => unsafe { self.irecv_in_general(state, buf, source, tag, then) },
        }
    }

    /// [`irecv_raw`](Self::irecv_raw), whose request is written where it is to stay. (One that is returned is copied there, by loads that wait for the narrower stores which have
    /// just written it: a quarter of what a short message takes to post.)
    ///
    /// # Errors
    /// As there. Nothing was written then.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub unsafe fn irecv_raw_in<'p>(
        &self,
        place: &'p mut MaybeUninit<RawRequest>,
        buf: MutBuf,
        source: Option<u32>,
        tag: Option<i32>,
    ) -> Result<&'p mut RawRequest, Error> {
        let kind = Kind::Receive { room: buf.layout.bytes() };
        // SAFETY: - promised by the caller.
        Ok(match unsafe { self.irecv_at_once(&buf, source, tag) } {
            Posted::Pending(id, completion) => {
                place.write(RawRequest::pending(self.clone(), "irecv", kind, id, completion))
            }
            Posted::Over(status) => place.write(RawRequest::over("irecv", kind, status)),
            Posted::Not(state) => {
                // SAFETY: - promised by the caller.
                place.write(unsafe { self.irecv_in_general(state, buf, source, tag, Then::Leaves) }?)
            }
        })
    }

    /// [`irecv_raw`](Self::irecv_raw) of what is not posted at once, by who may be inside already.
    ///
    /// # Safety
    /// As there.
    #[inline(never)]
    unsafe fn irecv_in_general(
        &self,
        inside: Option<Entered<'_, RankState>>,
        buf: MutBuf,
        source: Option<u32>,
        tag: Option<i32>,
        then: Then,
    ) -> Result<RawRequest, Error> {
        if source == Some(PROC_NULL) {
            drop(inside);
            let status = self.receive_from_null("irecv", tag)?;
            return Ok(RawRequest::over("irecv", Kind::Receive { room: 0 }, status));
        }
        let (source, tag) = self.selection("irecv", source, tag)?;
        let args = RecvArgs { context: self.context(), source, tag, buf, class: Class::Eager, cookie: 0 };
        let mut state = match inside {
            Some(state) => state,
            None => self.shared().enter_open("irecv")?,
        };
        let long = buf.layout.bytes() > self.shared().eager_max;
        let (soon, post) = self.waits_soon(Posts::Receive, long, then);
        state.p2p.set_waits(soon);
        // SAFETY: - the buffer: promised by the caller.
        let posted = unsafe {
            // What a sender that came first has announced.
            if long { state.p2p.irecv_long(args) } else { state.p2p.irecv(args).map(|id| (id, false)) }
        };
        state.p2p.set_waits(false);
        let (id, early) = posted.map_err(|e| self.shared().or_abort("irecv", message_error("irecv", e)))?;
        let passes = state.p2p.owes_a_pass() && state.work_left();
        if passes {
            state.pass();
        }
        let kind = Kind::Receive { room: buf.layout.bytes() };
        if long && then == Then::Waits {
            return self.request(state, "irecv", kind, id, Some(COPIED_IN_WAIT));
        }
        let met = early || long && source.is_some_and(|source| state.p2p.take_in_after(source));
        if !met || Self::is_left_to_peer(&state) {
            let news = if long { state.p2p.news_of(id) } else { [None; NEWS] };
            let request = self.request(state, "irecv", kind, id, None);
            self.note_posted(request.as_ref().ok(), news);
            match post {
                Some(post) if !met && !passes => {
                    self.shared().engine.has_posted_quickly(Posts::Receive, post)
                }
                Some(_) => self.shared().engine.has_posted(Posts::Receive),
                None => {}
            }
            return request;
        }
        // This thread copies what nobody else does. The peer leaves that to it, as to any that looks by itself.
        let looking = self.shared().engine.looking();
        state.is_looking();
        // Nobody rings the rank as long as it is seen looking, and callbacks may last.
        state.leave_callbacks();
        state.ask_for_pass();
        let news = state.p2p.news_of(id);
        let request = self.request(state, "irecv", kind, id, None);
        drop(looking);
        self.note_posted(request.as_ref().ok(), news);
        self.shared().engine.has_posted(Posts::Receive);
        request
    }

    /// Whether a peer that waits goes on with all large messages under way; one that has just posted its side of one is mostly about to wait for it. Looks
    /// for less than it takes to set a timer.
    fn is_left_to_peer(state: &Entered<'_, RankState>) -> bool {
        if !state.p2p.is_unfinished() {
            return true;
        }
        let begun = now_ns();
        while now_ns().wrapping_sub(begun) < ABOUT_TO_WAIT_NS {
            if !state.p2p.is_unfinished() {
                return true;
            }
            tocsin_sync::atomic::spin_loop();
        }
        false
    }

    /// Looks as long for a peer that waits, of who goes away whatever is seen, since the drop sees what is left: while it looks it leaves the records to who copies.
    fn look_for_a_peer_that_waits(state: &Entered<'_, RankState>) {
        if state.p2p.is_left_to_who_waits() || !state.p2p.is_unfinished() {
            return;
        }
        let begun = now_ns();
        while !state.p2p.is_left_to_who_waits() && now_ns().wrapping_sub(begun) < ABOUT_TO_WAIT_NS {
            tocsin_sync::atomic::spin_loop();
        }
    }

    /// Has a wait for a message know that it was posted last, and where [news](tocsin_p2p::P2p::news_of) of it lies, or that something else was.
    #[inline]
    pub(super) fn note_posted(&self, message: Option<&RawRequest>, news: [Option<NonNull<u8>>; NEWS]) {
        self.shared().posted_last.note(message.map_or(0, RawRequest::place), news);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{Comm, Mode, Posts, Then};
    use crate::{Config, ConstBuf, MutBuf, threads_each};
    use std::sync::Barrier;
    use tocsin_sync::atomic::{AtomicU32, Ordering::Relaxed};

    /// Who is expected to wait next copies in its post what the other rank, which computes, would else be interrupted for; who is expected to post another message before does not.
    #[test]
    fn who_is_expected_to_wait_next_copies_in_its_post() {
        const LEN: usize = 200_000;
        const ENOUGH: u32 = 200;
        let mut config = Config::default();
        config.set("TOCSIN_BACKEND", "signal").unwrap();
        let from = vec![1u8; LEN];
        for (sends, rounds) in [(1, 2000), (2, 2 * ENOUGH)] {
            let (both, copied) = (Barrier::new(2), AtomicU32::new(0));
            let rank = |comm: Comm| {
                let (mut to, mut whole) = (vec![vec![0u8; LEN]; sends], true);
                // Now and then a post copies for other reasons, and a thread that loses its core between post and wait has not waited at once.
                for _ in 0..rounds {
                    // SAFETY: the buffers outlive the requests.
                    let mut requests: Vec<_> = unsafe {
                        if comm.rank() == 1 {
                            let receives = (0..).zip(&mut to).map(|(tag, to)| {
                                let into = MutBuf::contiguous(to.as_mut_ptr(), LEN);
                                comm.irecv_raw(into, Some(0), Some(tag)).unwrap()
                            });
                            let receives = receives.collect();
                            both.wait();
                            receives
                        } else {
                            both.wait();
                            let data = ConstBuf::contiguous(from.as_ptr(), LEN);
                            let first = comm.isend_raw(data, 1, 0, Mode::Standard).unwrap();
                            copied.fetch_add(u32::from(first.is_over()), Relaxed);
                            let post = |tag| comm.isend_raw(data, 1, tag, Mode::Standard).unwrap();
                            std::iter::once(first).chain((1..sends as i32).map(post)).collect()
                        }
                    };
                    if comm.rank() == 0 {
                        for request in &mut requests {
                            request.wait().unwrap();
                        }
                    }
                    // Outside the library.
                    both.wait();
                    for request in &mut requests {
                        request.wait().unwrap();
                    }
                    // Whoever fails leaves the loop with the other.
                    whole &= comm.rank() == 0 || to.iter().all(|to| *to == from);
                    if copied.load(Relaxed) >= ENOUGH {
                        break;
                    }
                    to.iter_mut().for_each(|to| to.fill(0));
                }
                whole
            };
            let ends = threads_each(2, &config, rank).unwrap();
            assert!(ends.iter().all(|whole| *whole.as_ref().unwrap()));
            let copied = copied.load(Relaxed);
            assert!((copied >= ENOUGH) == (sends == 1), "{copied} of {rounds} rounds, {sends} sends");
        }
    }

    /// Who has waited for what it posted is expected to again, but where there are no handlers to go on if it does not.
    #[test]
    fn where_there_are_no_handlers_nobody_is_expected_to_wait() {
        for backend in ["poll", "signal"] {
            let mut config = Config::default();
            config.set("TOCSIN_BACKEND", backend).unwrap();
            let ends = threads_each(1, &config, |comm| {
                let engine = &comm.shared().engine;
                let expected = |long, then| comm.waits_soon(Posts::Send, long, then).0;
                // A thread that loses its core between the two has not waited at once.
                let leaves = (0..1000).any(|_| {
                    engine.has_posted(Posts::Send);
                    engine.note_wait();
                    expected(true, Then::Leaves)
                });
                (leaves, expected(true, Then::Waits), expected(false, Then::Waits))
            });
            assert_eq!(*ends.unwrap()[0].as_ref().unwrap(), (backend == "signal", true, false));
        }
    }
}
