//! Persistent messages: each start posts the same message once more, by the calls that post it once.
//!
//! A run has a slot of its own, as what is started once has, and gives it back when its outcome is seen. One that has none any more, or never had one, and whose
//! outcome nobody has been given, keeps that here: it is active, and complete.

use tocsin_progress::{Code, Outcome};
use tocsin_sync::atomic::Ordering;

use super::{Kind, RawRequest, Status};
use crate::comm::Comm;
use crate::error::Error;
use crate::{ConstBuf, Mode, MutBuf};

/// What a start posts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Prepared {
    Send { buf: ConstBuf, dest: u32, tag: i32, mode: Mode },
    Receive { buf: MutBuf, source: Option<u32>, tag: Option<i32> },
}

impl Prepared {
    fn kind(&self) -> Kind {
        match *self {
            Prepared::Send { buf, tag, .. } => Kind::Send { tag, bytes: buf.layout.bytes() },
            Prepared::Receive { buf, .. } => Kind::Receive { room: buf.layout.bytes() },
        }
    }

    /// What errors of its runs call it: as the call that posts it once.
    fn operation(&self) -> &'static str {
        match self {
            Prepared::Send { mode: Mode::Synchronous, .. } => "issend",
            Prepared::Send { .. } => "isend",
            Prepared::Receive { .. } => "irecv",
        }
    }

    /// # Safety
    /// The buffer lives, and is used as [`isend_raw`](Comm::isend_raw) and [`irecv_raw`](Comm::irecv_raw) say, until the run is complete or the rank has
    /// finalized.
    unsafe fn post(&self, comm: &Comm) -> Result<RawRequest, Error> {
        match *self {
            // SAFETY: - promised by the caller.
            Prepared::Send { buf, dest, tag, mode } => unsafe { comm.isend_raw(buf, dest, tag, mode) },
            // SAFETY: - promised by the caller.
            Prepared::Receive { buf, source, tag } => unsafe { comm.irecv_raw(buf, source, tag) },
        }
    }
}

/// A persistent message.
#[derive(Debug)]
pub(super) struct Again {
    pub(super) comm: Comm,
    message: Prepared,
    /// Of a run that is active and has no slot: how it has ended.
    pub(super) over: Option<Result<Status, Box<Error>>>,
}

impl RawRequest {
    /// Of a message that is prepared, and not active.
    pub(crate) fn message(comm: Comm, message: Prepared) -> RawRequest {
        let never = Status { source: comm.rank(), ..Status::default() };
        let mut request = RawRequest::over(message.operation(), message.kind(), never);
        request.again = Some(Box::new(Again { comm, message, over: None }));
        request
    }

    /// Posts the message of an inactive one. If that fails, it is as before.
    ///
    /// # Safety
    /// As [`start`](Self::start).
    pub(super) unsafe fn post_again(&mut self) -> Result<(), Error> {
        let Some(again) = &mut self.again else { return Ok(()) };
        // SAFETY: - promised by the caller.
        let mut posted = unsafe { again.message.post(&again.comm)? };
        // Taken out first: the slot of one that is over is somebody else's, and the drop of what is left here must not give it back.
        let slot = posted.slot.take();
        again.over = posted.seen.take();
        self.slot = slot.filter(|_| again.over.is_none());
        self.seen = None;
        self.after = None;
        // SYNC POINT: Relaxed: nobody else has this request now.
        self.watched.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// The outcome of a run that is active and has no slot; from then on it is inactive.
    pub(super) fn take_over(&mut self) -> Option<Result<Status, Box<Error>>> {
        self.again.as_mut()?.over.take()
    }

    /// How a message has ended whose slot was just given back. What is persistent stays active until a wait or a test gives the outcome.
    /// The outcome, where it has gone well and is not persistent.
    #[inline]
    pub(super) fn has_met(&mut self, outcome: Option<Outcome>) -> Option<Status> {
        match (&self.slot, outcome) {
            (Some(slot), Some(outcome)) if self.again.is_none() && outcome.code == Code::Ok => {
                slot.see(self.kind, self.operation, outcome, &mut self.seen)
            }
            _ => {
                self.has_met_what(outcome);
                None
            }
        }
    }

    /// The same of all that ends otherwise.
    #[cold]
    fn has_met_what(&mut self, outcome: Option<Outcome>) {
        let result = outcome.and_then(|outcome| self.read(outcome));
        match &mut self.again {
            Some(again) => {
                again.over = result;
                self.slot = None;
            }
            None => self.seen = result,
        }
    }
}
