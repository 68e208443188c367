//! Probes: messages that are looked for before they are received.

use std::cell::Cell;

use tocsin_p2p::MessageId;

use super::Comm;
use super::null::PROC_NULL;
use crate::MutBuf;
use crate::asks;
use crate::error::Error;
use crate::operator::InsideOperator;
use crate::outcome::message_error;
use crate::rank::Need;
use crate::request::{Kind, RawRequest, Status};
use crate::state::RankState;

/// A message that [`Comm::improbe`] took out of matching, to be received once by [`Comm::mrecv_raw`]. Dropping it
/// receives it into nothing: its memory is free, and a sender that waits for the receiver goes on.
#[derive(Debug)]
#[must_use = "dropping it discards the message"]
pub struct Message {
    comm: Comm,
    /// None once it is received, and of the null process.
    id: Option<MessageId>,
}

impl Message {
    /// Whether it was probed in this communicator.
    pub fn is_of(&self, comm: &Comm) -> bool {
        std::ptr::eq(self.comm.shared(), comm.shared()) && self.comm.context() == comm.context()
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        self.comm.set_goes_on();
        // What cannot be entered now (a handler, a user operator, a child of fork) stays until the rank leaves.
        let Ok(mut state) = self.comm.shared().enter_open("mprobe") else { return };
        // Who drops may hold a lock that a callback wants.
        state.leave_callbacks();
        let nothing = MutBuf::contiguous(std::ptr::NonNull::dangling().as_ptr(), 0);
        // SAFETY: - a buffer of no bytes is never touched.
        if let Ok(request) = unsafe { state.p2p.mrecv(id, nothing, 0) } {
            state.p2p.release(request);
        }
    }
}

/// What a probe waits for: source, in the world, and tag; none is any.
#[derive(Debug)]
pub(crate) struct Sought {
    context: u32,
    source: Option<u32>,
    tag: Option<i32>,
    /// It is behind a pool of unexpected messages that stays full.
    given_up: Cell<bool>,
}

impl Sought {
    /// Whether a probe would tell something now.
    fn is_told(&self, state: &RankState) -> bool {
        state.p2p.would_tell(self.context, self.source, self.tag)
    }

    pub(crate) fn is_behind_blocked(&self, state: &RankState) -> bool {
        state.p2p.is_sought_behind_blocked(self.context, self.source)
    }

    pub(crate) fn needs_end(&self, state: &RankState) -> bool {
        state.p2p.is_end_sought(self.context, self.source)
    }

    /// Ends its wait, if it is behind a blocked lane or an end that is.
    pub(crate) fn give_up(&self, state: &RankState) -> bool {
        self.given_up.set(self.is_behind_blocked(state) || self.needs_end(state));
        self.given_up.get()
    }
}

impl Comm {
    /// Looks for a message without receiving it.
    ///
    /// # Errors
    /// As [`irecv_raw`](Self::irecv_raw).
    pub fn iprobe(&self, source: Option<u32>, tag: Option<i32>) -> Result<Option<Status>, Error> {
        self.ask(source, tag, || self.look("iprobe", source, tag))
    }

    /// Waits for a message without receiving it.
    ///
    /// # Errors
    /// As [`irecv_raw`](Self::irecv_raw), and [`Error::TooManyUnexpected`] where it is behind more messages than may be kept, of which none was received for a second.
    pub fn probe(&self, source: Option<u32>, tag: Option<i32>) -> Result<Status, Error> {
        self.look_until_there("probe", source, tag, Comm::look)
    }

    /// Takes a message out of matching, if one is there.
    ///
    /// # Errors
    /// As [`iprobe`](Self::iprobe).
    pub fn improbe(&self, source: Option<u32>, tag: Option<i32>) -> Result<Option<(Message, Status)>, Error> {
        self.ask(source, tag, || self.take("improbe", source, tag))
    }

    /// Waits for a message and takes it out of matching.
    ///
    /// # Errors
    /// As [`probe`](Self::probe).
    pub fn mprobe(&self, source: Option<u32>, tag: Option<i32>) -> Result<(Message, Status), Error> {
        self.look_until_there("mprobe", source, tag, Comm::take)
    }

    /// Asks once, and once more if the core was given away after that, because the program only asks.
    fn ask<F>(
        &self,
        source: Option<u32>,
        tag: Option<i32>,
        ask: impl Fn() -> Result<Option<F>, Error>,
    ) -> Result<Option<F>, Error> {
        let engine = &self.shared().engine;
        let what = asks::for_a_message(source, tag);
        let again = engine.asks(what);
        let found = ask()?;
        if found.is_some() {
            engine.asked_well(what, false);
            Ok(found)
        } else if engine.asked_in_vain(again && !InsideOperator::is_here()) {
            ask()
        } else {
            Ok(None)
        }
    }

    fn look(
        &self,
        operation: &'static str,
        source: Option<u32>,
        tag: Option<i32>,
    ) -> Result<Option<Status>, Error> {
        if source == Some(PROC_NULL) {
            return self.receive_from_null(operation, tag).map(Some);
        }
        let (source, tag) = self.selection(operation, source, tag)?;
        self.shared().open(operation)?;
        self.advance();
        let mut state = self.shared().enter_open(operation)?;
        let found = state.p2p.iprobe(self.context(), source, tag);
        drop(state);
        let found = found.map_err(|e| self.shared().or_abort(operation, message_error(operation, e)))?;
        Ok(found.map(|seen| self.status(seen)))
    }

    fn take(
        &self,
        operation: &'static str,
        source: Option<u32>,
        tag: Option<i32>,
    ) -> Result<Option<(Message, Status)>, Error> {
        if source == Some(PROC_NULL) {
            let status = self.receive_from_null(operation, tag)?;
            return Ok(Some((Message { comm: self.clone(), id: None }, status)));
        }
        let (source, tag) = self.selection(operation, source, tag)?;
        self.shared().open(operation)?;
        self.advance();
        let mut state = self.shared().enter_open(operation)?;
        let found = state.p2p.improbe(self.context(), source, tag);
        drop(state);
        let found = found.map_err(|e| self.shared().or_abort(operation, message_error(operation, e)))?;
        Ok(found.map(|(id, seen)| (Message { comm: self.clone(), id: Some(id) }, self.status(seen))))
    }

    /// Looks by `look`, and waits between for something new.
    fn look_until_there<F>(
        &self,
        operation: &'static str,
        source: Option<u32>,
        tag: Option<i32>,
        look: impl Fn(&Comm, &'static str, Option<u32>, Option<i32>) -> Result<Option<F>, Error>,
    ) -> Result<F, Error> {
        // What the null process has is found by the first look.
        let real = source.filter(|rank| *rank != PROC_NULL);
        let (world_source, world_tag) = self.selection(operation, real, tag)?;
        let given_up = Cell::new(false);
        let sought = Sought { context: self.context(), source: world_source, tag: world_tag, given_up };
        loop {
            if let Some(found) = look(self, operation, source, tag)? {
                return Ok(found);
            }
            if sought.given_up.get() {
                return Err(self.shared().or_abort(operation, Error::TooManyUnexpected { operation }));
            }
            let rank = self.shared();
            let told = || sought.given_up.get() || sought.is_told(&rank.enter_in_wait());
            rank.wait_until(&[Need::Probe(&sought)], told, None);
        }
    }

    fn status(&self, found: tocsin_p2p::Status) -> Status {
        Status { source: self.rank_of(found.source), tag: found.tag, bytes: found.bytes }
    }

    /// Receives a message that [`improbe`](Self::improbe) took, in the communicator where it was probed: the status names
    /// its source there.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a message that another rank has probed, which is dropped then; [`Error::PeerDead`], [`Error::Protocol`], [`Error::Revoked`],
    /// [`Error::Finalized`], refusals of memory.
    ///
    /// # Safety
    /// As [`irecv_raw`](Self::irecv_raw).
    pub unsafe fn mrecv_raw(&self, mut message: Message, buf: MutBuf) -> Result<RawRequest, Error> {
        let operation = "mrecv";
        if !std::ptr::eq(self.shared(), message.comm.shared()) {
            let what = "the message was probed by another rank: receive it there".into();
            return Err(Error::InvalidArgument { operation, what });
        }
        let Some(taken) = message.id else {
            let status = message.comm.receive_from_null(operation, None)?;
            return Ok(RawRequest::over(operation, Kind::Receive { room: 0 }, status));
        };
        let mut state = self.shared().enter_open(operation)?;
        // SAFETY: - the buffer: promised by the caller.
        let id = unsafe { state.p2p.mrecv(taken, buf, 0) }
            .map_err(|e| self.shared().or_abort(operation, message_error(operation, e)));
        if !matches!(id, Err(Error::System { .. })) {
            // Received, or of no more use; where memory was refused, its drop discards it.
            message.id = None;
        }
        let comm = message.comm.clone();
        // On an error `state` is dropped before the message, whose drop enters.
        comm.request(state, operation, Kind::Receive { room: buf.layout.bytes() }, id?, None)
    }
}
