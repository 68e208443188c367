//! Raw requests: a message or a collective in flight.

mod after;
mod again;
mod all;
mod at_end;
mod board;
mod meaning;
mod waits;

use std::any::Any;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tocsin_progress::{Budget, Code, Completion, Id, Outcome, Pass};
use tocsin_sync::atomic::{AtomicBool, Ordering};

use crate::comm::Comm;
use crate::error::Error;
use crate::rank::{Need, Rank};
use crate::state::RankState;

use after::Then;
use again::Again;
pub(crate) use again::Prepared;
pub use all::{test_all, test_any, wait_all, wait_any};
pub(crate) use meaning::Kind;
use meaning::Meaning;

/// What a completed operation says about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Rank of the sender in the communicator (receives), or [`PROC_NULL`](crate::PROC_NULL); own rank for sends and collectives.
    pub source: u32,
    /// Tag of the message; 0 for collectives, -1 from the null process.
    pub tag: i32,
    /// Bytes received, or sent; 0 for collectives.
    pub bytes: usize,
}

/// What runs when a request completes, outside handlers. It may start operations; it must not wait for any, as the start of a
/// `split-tree` may do.
pub type Callback = Box<dyn FnOnce(Result<Status, Error>) + Send>;

/// An operation in flight. Dropping it detaches the operation: it goes on, and its buffer must stay valid until it
/// is complete or the rank has finalized. A persistent one ([`Comm::prepare_raw`], [`Comm::send_init_raw`], [`Comm::recv_init_raw`]) is in flight while it is active.
///
/// None of its methods may be called in a handler.
#[derive(Debug)]
pub struct RawRequest {
    operation: &'static str,
    kind: Kind,
    /// None: it was over when it was made; its outcome is `seen`, or in `again`.
    slot: Option<Slot>,
    /// The outcome, once seen; the slot is then somebody else's. An error is boxed, so that a request is short, and moved at no cost.
    seen: Seen,
    /// What the completion's callback will do.
    after: Option<Arc<Mutex<Then>>>,
    /// Somebody looks whether it is complete, without calling what makes progress.
    watched: AtomicBool,
    /// A persistent collective, which keeps its slot from run to run. Of what is persistent, `seen` is the outcome of the last run, and none while
    /// it is active.
    keeps_slot: bool,
    /// A persistent message.
    again: Option<Box<Again>>,
}

/// How a request has ended, once that is seen.
type Seen = Option<Result<Status, Box<Error>>>;

/// Where an operation is.
#[derive(Debug)]
struct Slot {
    comm: Comm,
    id: Id,
    completion: NonNull<Completion>,
}

impl Slot {
    #[inline]
    fn rank(&self) -> &Rank {
        self.comm.shared()
    }

    #[inline]
    fn completion(&self) -> &Completion {
        // SAFETY: - it lies in a slab that lives as long as the engine, which `comm` keeps.
        unsafe { self.completion.as_ref() }
    }

    /// Puts what an outcome means where it is seen, and gives it, where it has gone well. Written there, rather than copied from what [`Kind::read`] has just written, which the copy would wait for.
    #[inline]
    fn see(&self, kind: Kind, operation: &'static str, outcome: Outcome, seen: &mut Seen) -> Option<Status> {
        if outcome.code != Code::Ok {
            *seen = Some(kind.read(&self.comm, operation, outcome).map_err(Box::new));
            return None;
        }
        let status = kind.status(&self.comm, outcome);
        *seen = Some(Ok(status));
        Some(status)
    }
}

// SAFETY: - the completion lies in a slab that lives as long as the engine, which the slot's `comm` keeps, and consists of atomics
//         - the address of a persistent message's buffer is only handed on, by a start, whose caller says that the buffer may be used.
unsafe impl Send for RawRequest {}
// SAFETY: - shared use is one atomic load; what may not be shared is behind a mutex.
unsafe impl Sync for RawRequest {}

impl RawRequest {
    /// What tells it from others that are pending: where its completion lies, or lay if that is somebody else's by now; 0 of one that never had one.
    #[inline]
    pub(crate) fn place(&self) -> usize {
        self.slot.as_ref().map_or(0, |slot| slot.completion.addr().get())
    }

    /// With an `outcome`, the slot is somebody else's already.
    #[inline]
    pub(crate) fn new(
        comm: Comm,
        operation: &'static str,
        kind: Kind,
        id: Id,
        completion: NonNull<Completion>,
        outcome: Option<Outcome>,
    ) -> RawRequest {
        let seen = outcome.map(|outcome| kind.read(&comm, operation, outcome).map_err(Box::new));
        let slot = Some(Slot { comm, id, completion });
        let watched = AtomicBool::new(false);
        RawRequest { operation, kind, slot, seen, after: None, watched, keeps_slot: false, again: None }
    }

    /// Of what was just begun.
    #[inline(always)]
    pub(crate) fn pending(
        comm: Comm,
        operation: &'static str,
        kind: Kind,
        id: Id,
        completion: NonNull<Completion>,
    ) -> RawRequest {
        let slot = Some(Slot { comm, id, completion });
        let watched = AtomicBool::new(false);
        RawRequest { operation, kind, slot, seen: None, after: None, watched, keeps_slot: false, again: None }
    }

    /// Of what was over at once, and never had a slot.
    #[inline(always)]
    pub(crate) fn over(operation: &'static str, kind: Kind, status: Status) -> RawRequest {
        let watched = AtomicBool::new(false);
        let seen = Some(Ok(status));
        RawRequest { operation, kind, slot: None, seen, after: None, watched, keeps_slot: false, again: None }
    }

    /// Of a send that was over [at once](Comm::isend_raw_at_once).
    pub fn sent(status: Status) -> RawRequest {
        RawRequest::over("isend", Kind::Send { tag: status.tag, bytes: status.bytes }, status)
    }

    /// Of a collective that is prepared, and not active.
    pub(crate) fn persistent(
        comm: Comm,
        operation: &'static str,
        id: Id,
        completion: NonNull<Completion>,
    ) -> RawRequest {
        let never = Some(Outcome::default());
        let mut request = RawRequest::new(comm, operation, Kind::Collective, id, completion, never);
        request.keeps_slot = true;
        request
    }

    /// What errors call the operation.
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// Whether it was prepared (a collective by [`prepare_raw`](Comm::prepare_raw), a message by [`send_init_raw`](Comm::send_init_raw) or
    /// [`recv_init_raw`](Comm::recv_init_raw)) and can be started again.
    pub fn is_persistent(&self) -> bool {
        self.keeps_slot || self.again.is_some()
    }

    /// Whether it was started and its outcome has not been seen: by a wait or a test that gave it. What is not persistent
    /// is started from the beginning.
    pub fn is_active(&self) -> bool {
        self.seen.is_none()
    }

    /// Starts what was prepared once more: a collective as the next collective of its communicator, which every rank starts, in the
    /// same order among the others; a message as [`isend_raw`](Comm::isend_raw) and [`irecv_raw`](Comm::irecv_raw) post it. A callback or waker is for one
    /// run: set it anew. Where the start fails, it is as it was.
    ///
    /// The start of a collective allocates nothing, and asks the system only to ring a peer. Excepted are what a peer has
    /// done after the preparation, once: that it joined, that it is the first to share memory of the heap, that it made its pipe to this rank
    /// (TOCSIN_LMT=vmsplice); and what any pass of progress does on its way out: it may set the timer, have the kernel make the single copy of a long
    /// message, and run users' callbacks. That of a message costs what those calls do, which allocate for the first message to a peer, and where more are under
    /// way than ever were.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for one that is active, or is not persistent; [`Error::Revoked`], [`Error::Finalized`],
    /// [`Error::Aborted`], [`Error::InHandler`]; of a message, what [`isend_raw`](Comm::isend_raw) or [`irecv_raw`](Comm::irecv_raw) gives. A member that is
    /// dead is the outcome of a collective's run.
    ///
    /// # Safety
    /// The buffers and operators that it was prepared with live, and are used as the call of the operation's name says,
    /// until the run is complete or the rank has finalized.
    pub unsafe fn start(&mut self) -> Result<(), Error> {
        let operation = self.operation;
        let refused = |what: &str| {
            self.comm().map_or(Ok(()), |comm| comm.shared().open(operation))?;
            Err(Error::InvalidArgument { operation, what: what.into() })
        };
        if !self.is_persistent() {
            return refused("the request is not persistent, and was started when it was made");
        }
        if self.is_active() {
            return refused(
                "the request is active: wait for it, or test it until it is complete, and start it then",
            );
        }
        if self.again.is_some() {
            // SAFETY: - promised by the caller.
            return unsafe { self.post_again() };
        }
        // Active before anything runs: users' callbacks run on the way out, and one that panics must not leave a run whose
        // buffers nobody holds.
        let before = (self.seen.take(), self.after.take());
        // SYNC POINT: Relaxed: nobody else has this request now.
        self.watched.store(false, Ordering::Relaxed);
        // SAFETY: - promised by the caller.
        let start = |slot: &Slot| unsafe { slot.comm.start_again(operation, slot.id) };
        let started = self.slot.as_ref().map_or(Ok(()), start);
        if started.is_err() {
            (self.seen, self.after) = before;
        }
        started
    }

    /// Its communicator; none of what was over when it was made, and is not persistent.
    fn comm(&self) -> Option<&Comm> {
        let slot = self.slot.as_ref().map(|slot| &slot.comm);
        slot.or_else(|| self.again.as_ref().map(|again| &again.comm))
    }

    /// What is in its slot, which is its own as long as it has not been seen.
    #[inline]
    fn outcome(&self) -> Option<Outcome> {
        self.slot.as_ref().and_then(|slot| slot.completion().outcome())
    }

    /// What a wait for it needs; none of what was over when it was made.
    fn need(&self) -> Option<Need<'static>> {
        let slot = self.slot.as_ref()?;
        Some(match self.kind {
            Kind::Collective => Need::Collective,
            // What fits here comes in one packet, if it comes as it should: nobody rings for it.
            Kind::Receive { room } => Need::Message { id: slot.id, rings: room > slot.rank().eager_max },
            Kind::Send { .. } => Need::Message { id: slot.id, rings: true },
        })
    }

    #[inline]
    fn is_complete(&self) -> bool {
        self.seen.is_some() || self.slot.as_ref().is_none_or(|slot| slot.completion().is_done())
    }

    /// Whether the rank has left.
    fn is_closed(&self) -> bool {
        self.slot.as_ref().is_some_and(|slot| slot.rank().is_closed())
    }

    /// Whether it is complete. Does not wait, and runs no callback; a few loads, but the first time that it is not: then
    /// it enters the engine to say that somebody who computes looks at it between, so that its message, or its last part, interrupts
    /// from then on. Where ranks share cores, who does nothing else than to ask in vain gives its core away. Not for signal handlers.
    pub fn is_done(&self) -> bool {
        let asked = self.asks();
        // Who looks is here to do its own levels of split trees, whatever it looks at.
        if let Some(comm) = self.comm() {
            comm.shared().try_open_gates();
        }
        if self.is_over() {
            self.asked(asked);
            return true;
        }
        // SYNC POINT: Relaxed: two threads that both come first say it twice, which counts once.
        if self.watched.load(Ordering::Relaxed) {
            if let (Some(slot), Some(need)) = (&self.slot, self.need()) {
                slot.rank().try_make_room(need);
            }
        } else if self.watch() {
            self.watched.store(true, Ordering::Relaxed);
        }
        self.asked(asked) && self.is_over()
    }

    /// As [`is_done`](Self::is_done), for who keeps books and does not wait for it.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.is_complete() || self.is_closed()
    }

    /// Has what this request waits for ring: plain messages, and the parts of collectives on a board; collectives' messages ring by
    /// themselves, but for the last that this rank alone waits for. False: not now, because somebody is inside the engine.
    #[cold]
    fn watch(&self) -> bool {
        let Some(slot) = &self.slot else { return true };
        let Some(mut state) = slot.rank().try_enter_open("is_done") else { return false };
        if self.kind == Kind::Collective {
            let inside = &mut *state;
            // As a handler does: the caller's locks are not known, and users' operators may want them.
            return inside.nbc.want(&mut inside.p2p, slot.id, &mut Budget::handler()) != Pass::More;
        }
        state.p2p.set_wants(slot.id);
        true
    }

    /// The same, inside the engine of its rank, for who waits or will be called. User threads only.
    fn want_in(&self, state: &mut RankState) {
        let Some(Slot { id, .. }) = self.slot else { return };
        match self.kind {
            Kind::Collective => {
                while state.nbc.want(&mut state.p2p, id, &mut Budget::user()) == Pass::More {}
            }
            _ => {
                state.nbc.open_gates(&mut state.p2p);
                state.p2p.set_wants(id);
            }
        }
    }

    /// The outcome if there is one; frees the slot when it is first seen, unless it will be used again. What is persistent
    /// is inactive from then on.
    fn look(&mut self) -> Option<Result<Status, Error>> {
        if self.keeps_slot {
            let new = if self.seen.is_none() { self.outcome() } else { None };
            if new.is_some() {
                self.note_end();
            }
            self.seen = self.peek().map(|result| result.map_err(Box::new));
            self.tell_others(new);
        } else if self.seen.is_none() {
            if let Some(outcome) = self.outcome() {
                let result = self.read(outcome);
                // Before anything that may run callbacks: the slot is somebody else's then.
                self.seen = result;
                self.free();
                self.note_end();
                self.tell_others(Some(outcome));
            } else if let Some(over) = self.take_over() {
                self.seen = Some(over);
            } else if self.is_closed() {
                self.seen = self.gone().map(|error| Err(Box::new(error)));
            }
        }
        self.result()
    }

    /// What it was for has ended in a call of this thread.
    fn note_end(&self) {
        if let Some(slot) = self.slot.as_ref().filter(|_| self.kind == Kind::Collective) {
            slot.rank().engine.has_ended();
        }
    }

    /// As [`look`](Self::look), inside the engine of its rank, of one that gives its slot back and is not over by the rank's end.
    #[inline]
    fn look_in(&mut self, state: &mut RankState) {
        if self.seen.is_none()
            && !self.keeps_slot
            && let Some(outcome) = self.outcome()
        {
            self.free_in(state);
            let Some(slot) = &self.slot else { return };
            if self.kind.leaves_others(&slot.comm, outcome) {
                slot.comm.revoke_inside(state);
            }
            slot.see(self.kind, self.operation, outcome, &mut self.seen);
        }
    }

    /// What was seen.
    fn result(&self) -> Option<Result<Status, Error>> {
        self.seen.as_ref().map(copy)
    }

    /// Those who may wait for the rest of a collective that has ended like this.
    #[inline]
    fn tell_others(&self, outcome: Option<Outcome>) {
        let comm = self.slot.as_ref().map(|slot| &slot.comm).zip(outcome);
        if let Some((comm, _)) = comm.filter(|(comm, outcome)| self.kind.leaves_others(comm, *outcome)) {
            comm.revoke();
        }
    }

    /// What an outcome means.
    #[inline]
    fn read(&self, outcome: Outcome) -> Option<Result<Status, Box<Error>>> {
        let comm = &self.slot.as_ref()?.comm;
        Some(self.kind.read(comm, self.operation, outcome).map_err(Box::new))
    }

    /// What ends it when its rank has left the world.
    #[cold]
    fn gone(&self) -> Option<Error> {
        self.meaning().map(|meaning| meaning.over())
    }

    /// What a callback reads an outcome by.
    fn meaning(&self) -> Option<Meaning> {
        let comm = self.slot.as_ref()?.comm.clone();
        Some(Meaning { comm, operation: self.operation, kind: self.kind })
    }

    /// The outcome of a persistent one if there is one; it stays active, or inactive.
    fn peek(&self) -> Option<Result<Status, Error>> {
        if self.seen.is_some() {
            return self.result();
        }
        if let Some(over) = self.again.as_ref().and_then(|again| again.over.as_ref()) {
            return Some(copy(over));
        }
        if let Some(outcome) = self.outcome() {
            return self.read(outcome).map(|result| result.map_err(|error| *error));
        }
        if self.is_closed() { self.gone().map(Err) } else { None }
    }

    /// The outcome if there is one, for a callback: that makes nothing inactive, a wait or a test does.
    fn look_for_callback(&mut self) -> Option<Result<Status, Error>> {
        if self.is_persistent() { self.peek() } else { self.look() }
    }

    #[inline]
    fn free_in(&self, state: &mut RankState) {
        let Some(slot) = &self.slot else { return };
        match self.kind {
            Kind::Collective => {
                state.nbc.release(&mut state.p2p, slot.id);
            }
            _ => state.p2p.release(slot.id),
        }
    }

    /// What a wait gives at once: the outcome of what is not persistent, if that was seen to be over and to have gone well.
    #[inline]
    pub fn succeeded(&self) -> Option<Status> {
        match self.seen {
            Some(Ok(status)) if !self.is_persistent() => Some(status),
            _ => None,
        }
    }

    /// Whether it was over when it was made.
    pub(crate) fn has_succeeded(&self) -> bool {
        matches!(self.seen, Some(Ok(_)))
    }

    /// Whether it has ended with an error.
    fn has_failed(&self) -> bool {
        match &self.seen {
            Some(seen) => seen.is_err(),
            None => self.outcome().is_some_and(|outcome| outcome.code != Code::Ok),
        }
    }

    /// Cancels a receive that has matched no message: its outcome is then [`Error::Cancelled`]. Whether it was
    /// cancelled; sends and collectives are not.
    pub fn cancel(&mut self) -> bool {
        if self.is_over() || !matches!(self.kind, Kind::Receive { .. }) {
            return false;
        }
        self.slot.as_ref().is_some_and(|slot| slot.rank().enter().p2p.cancel(slot.id))
    }

    /// Gives it up: the operation goes on, and `keep` lives until nothing can touch its buffer.
    pub fn detach(self, keep: Option<Box<dyn Any + Send>>) {
        if keep.is_none() || self.is_over() {
            return;
        }
        if let Some(comm) = self.slot.as_ref().map(|slot| slot.comm.clone()) {
            // Nobody will wait for it.
            comm.shared().open_gates_quietly();
            comm.shared().park(self, keep);
        }
    }

    /// After a cancel and a revoke: waits until nothing can touch the buffer. A revoke ends this rank's requests there and then, but for one whose peer is just
    /// copying: that ends with the copy, or with the peer.
    pub fn settle(&mut self) {
        while !self.is_over() {
            self.wait_timeout(Duration::from_millis(100));
        }
    }
}

/// Of what stays where it is.
fn copy(result: &Result<Status, Box<Error>>) -> Result<Status, Error> {
    result.as_ref().copied().map_err(|error| (**error).clone())
}

impl Drop for RawRequest {
    fn drop(&mut self) {
        if self.seen.is_some() && !self.keeps_slot {
            return;
        }
        let Some(slot) = self.slot.as_ref().filter(|slot| !slot.rank().is_closed()) else { return };
        // Also where it cannot be given up: messages for it are still to come.
        if slot.completion().outcome().is_none() {
            slot.comm.set_goes_on();
        }
        // In a user operator the engine cannot be entered: the slot is free again when the rank leaves.
        if crate::operator::InsideOperator::is_here() {
            return;
        }
        let mut guard = slot.rank().enter();
        // Who drops may hold a lock that a callback wants.
        guard.leave_callbacks();
        let state = &mut *guard;
        if let Some(outcome) = slot.completion().outcome()
            && self.kind.leaves_others(&slot.comm, outcome)
        {
            slot.comm.revoke_inside(state);
        }
        match self.kind {
            Kind::Collective => state.nbc.detach(&mut state.p2p, slot.id, None),
            _ => state.p2p.detach(slot.id),
        }
    }
}
