//! Raw requests: a message or a collective in flight.

mod all;
mod board;

use std::any::Any;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

use tocsin_p2p::Grown;
use tocsin_progress::{Budget, Code, Completion, Context, Id, Outcome, Pass};
use tocsin_sync::atomic::{AtomicBool, Ordering};

use crate::comm::Comm;
use crate::error::Error;
use crate::rank::Need;
use crate::state::RankState;

pub use all::{wait_all, wait_any};

/// What a completed operation says about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Rank of the sender in the communicator (receives); own rank for sends and collectives.
    pub source: u32,
    /// Tag of the message; 0 for collectives.
    pub tag: i32,
    /// Bytes received, or sent; 0 for collectives.
    pub bytes: usize,
}

/// What runs when a request completes, outside handlers. It may start operations; it must not wait for any.
pub type Callback = Box<dyn FnOnce(Result<Status, Error>) + Send>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Send { tag: i32, bytes: usize },
    Receive { room: usize },
    Collective,
}

/// How to read an outcome: what a request and its callbacks share.
#[derive(Clone, Debug)]
struct Meaning {
    comm: Comm,
    operation: &'static str,
    kind: Kind,
}

impl Meaning {
    /// What ends a request whose rank has left the world.
    fn over(&self) -> Error {
        let operation = self.operation;
        if tocsin_doorbell::fork::disowned() {
            return crate::rank::of_a_fork(operation);
        }
        match self.comm.shared().segment.aborted() {
            Some(code) => Error::Aborted { operation, code },
            None => Error::Finalized { operation },
        }
    }

    fn read(&self, outcome: Outcome) -> Result<Status, Error> {
        self.kind.read(&self.comm, self.operation, outcome)
    }
}

impl Kind {
    /// What an outcome means to who started the operation.
    #[inline]
    pub(crate) fn read(
        self,
        comm: &Comm,
        operation: &'static str,
        outcome: Outcome,
    ) -> Result<Status, Error> {
        if outcome.code != Code::Ok {
            self.check(comm, operation, outcome)?;
        }
        Ok(match self {
            Kind::Send { tag, bytes } => Status { source: comm.rank(), tag, bytes },
            Kind::Receive { .. } => Status {
                source: comm.rank_of(outcome.source),
                tag: outcome.tag,
                bytes: outcome.bytes as usize,
            },
            Kind::Collective => Status { source: comm.rank(), tag: 0, bytes: 0 },
        })
    }

    /// The error that an outcome means, if any.
    #[cold]
    fn check(self, comm: &Comm, operation: &'static str, outcome: Outcome) -> Result<(), Error> {
        let room = match self {
            Kind::Receive { room } => room,
            _ => 0,
        };
        crate::outcome::check(operation, outcome, room, |world| comm.rank_of(world)).map_err(|error| {
            // A rank that aborts dies of it: the abort is the cause to report.
            let code = comm.shared().segment.aborted();
            code.map_or(error, |code| Error::Aborted { operation, code })
        })
    }
}

/// An operation in flight. Dropping it detaches the operation: it goes on, and its buffer must stay valid until it
/// is complete or the rank has finalized. A persistent one ([`Comm::prepare_raw`]) is in flight while it is active.
///
/// None of its methods may be called in a handler.
#[derive(Debug)]
pub struct RawRequest {
    meaning: Meaning,
    id: Id,
    /// None: it was over when it was made, without a slot; its outcome is `seen`.
    completion: Option<NonNull<Completion>>,
    /// The outcome, once seen; the slot is then somebody else's.
    seen: Option<Result<Status, Error>>,
    /// What the completion's callback will do.
    after: Option<Arc<Mutex<Then>>>,
    /// Somebody looks whether it is complete, without calling what makes progress.
    watched: AtomicBool,
    /// Keeps its slot from run to run; `seen` is then the outcome of the last one, and none while it is active.
    persistent: bool,
}

/// What to do when a request is complete.
enum Then {
    Call(Callback),
    Wake(Waker),
    /// It is complete, and this was done.
    Happened,
}

impl std::fmt::Debug for Then {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Then::Call(_) => "Call",
            Then::Wake(_) => "Wake",
            Then::Happened => "Happened",
        })
    }
}

// SAFETY: - the completion lies in a slab that lives as long as the engine, which `comm` keeps, and consists of atomics.
unsafe impl Send for RawRequest {}
// SAFETY: - shared use is one atomic load; what may not be shared is behind a mutex.
unsafe impl Sync for RawRequest {}

impl RawRequest {
    /// With an `outcome`, the slot is somebody else's already.
    pub(crate) fn new(
        comm: Comm,
        operation: &'static str,
        kind: Kind,
        id: Id,
        completion: NonNull<Completion>,
        outcome: Option<Outcome>,
    ) -> RawRequest {
        let meaning = Meaning { comm, operation, kind };
        let seen = outcome.map(|outcome| meaning.read(outcome));
        let watched = AtomicBool::new(false);
        RawRequest {
            meaning,
            id,
            completion: Some(completion),
            seen,
            after: None,
            watched,
            persistent: false,
        }
    }

    /// Of what was over at once, and never had a slot.
    pub(crate) fn over(comm: Comm, operation: &'static str, kind: Kind, status: Status) -> RawRequest {
        RawRequest {
            meaning: Meaning { comm, operation, kind },
            // Names no slot.
            id: Id { index: u32::MAX, generation: 0 },
            completion: None,
            seen: Some(Ok(status)),
            after: None,
            watched: AtomicBool::new(false),
            persistent: false,
        }
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
        request.persistent = true;
        request
    }

    /// What errors call the operation.
    pub fn operation(&self) -> &'static str {
        self.meaning.operation
    }

    /// Whether it is a collective that was [prepared](Comm::prepare_raw) and can be started again.
    pub fn is_persistent(&self) -> bool {
        self.persistent
    }

    /// Whether it was started and its outcome has not been seen: by a wait or a test that gave it. What is not persistent
    /// is started from the beginning.
    pub fn is_active(&self) -> bool {
        self.seen.is_none()
    }

    /// Starts a prepared collective once more, as the next collective of its communicator: every rank starts it, in the
    /// same order among the others. A callback or waker is for one run: set it anew.
    ///
    /// The start itself allocates nothing, and asks the system only to ring a peer. Excepted are a peer that joined after
    /// the preparation, and what any pass of progress does on its way out: it may set the timer, have the kernel make the
    /// single copy of a long message, and run users' callbacks.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for one that is active, or is not persistent; [`Error::Revoked`], [`Error::Finalized`],
    /// [`Error::Aborted`], [`Error::InHandler`]. A member that is dead is the outcome of the run.
    ///
    /// # Safety
    /// The buffers and operators that it was prepared with live, and are used as the call of the operation's name says,
    /// until the run is complete or the rank has finalized.
    pub unsafe fn start(&mut self) -> Result<(), Error> {
        let operation = self.meaning.operation;
        self.meaning.comm.shared().open(operation)?;
        let refused = |what: &str| Err(Error::InvalidArgument { operation, what: what.into() });
        if !self.persistent {
            return refused("the request is not persistent, and was started when it was made");
        }
        if self.is_active() {
            return refused(
                "the request is active: wait for it, or test it until it is complete, and start it then",
            );
        }
        // Active before anything runs: users' callbacks run on the way out, and one that panics must not leave a run whose
        // buffers nobody holds.
        let before = (self.seen.take(), self.after.take());
        // SYNC POINT: Relaxed: nobody else has this request now.
        self.watched.store(false, Ordering::Relaxed);
        // SAFETY: - promised by the caller.
        let started = unsafe { self.meaning.comm.start_again(operation, self.id) };
        if started.is_err() {
            (self.seen, self.after) = before;
        }
        started
    }

    fn completion(&self) -> Option<&Completion> {
        // SAFETY: - as for Send: it lives as long as the engine, which `self` keeps.
        self.completion.map(|completion| unsafe { completion.as_ref() })
    }

    /// What is in its slot, which is its own as long as it has not been seen.
    fn outcome(&self) -> Option<Outcome> {
        self.completion().and_then(Completion::outcome)
    }

    fn need(&self) -> Need {
        match self.meaning.kind {
            Kind::Collective => Need::Collective,
            // What fits here comes in one packet, if it comes as it should: nobody rings for it.
            Kind::Receive { room } => {
                Need::Message { id: self.id, rings: room > self.meaning.comm.shared().eager_max }
            }
            Kind::Send { .. } => Need::Message { id: self.id, rings: true },
        }
    }

    fn is_complete(&self) -> bool {
        self.seen.is_some() || self.completion().is_none_or(Completion::is_done)
    }

    /// Whether it is complete. Does not wait, and runs no callback; a few loads, but the first time that it is not: then
    /// it enters the engine to say that somebody who computes looks at it between, so that its message, or its last part, interrupts
    /// from then on. Not for signal handlers.
    pub fn is_done(&self) -> bool {
        if self.is_over() {
            return true;
        }
        // SYNC POINT: Relaxed: two threads that both come first say it twice, which counts once.
        if self.watched.load(Ordering::Relaxed) {
            self.meaning.comm.shared().try_make_room(self.need());
        } else if self.watch() {
            self.watched.store(true, Ordering::Relaxed);
        }
        false
    }

    /// As [`is_done`](Self::is_done), for who keeps books and does not wait for it.
    pub fn is_over(&self) -> bool {
        self.is_complete() || self.meaning.comm.shared().is_closed()
    }

    /// Has what this request waits for ring: plain messages, and the parts of collectives on a board; collectives' messages ring by
    /// themselves. False: not now, because somebody is inside the engine.
    #[cold]
    fn watch(&self) -> bool {
        let Some(mut state) = self.meaning.comm.shared().try_enter_open("is_done") else { return false };
        if self.meaning.kind == Kind::Collective {
            let inside = &mut *state;
            // As a handler does: the caller's locks are not known, and users' operators may want them.
            return inside.nbc.want(&mut inside.p2p, self.id, &mut Budget::handler()) != Pass::More;
        }
        state.p2p.set_wants(self.id);
        true
    }

    /// The same, inside the engine of its rank, for who waits or will be called. User threads only.
    fn want_in(&self, state: &mut RankState) {
        match self.meaning.kind {
            Kind::Collective => {
                while state.nbc.want(&mut state.p2p, self.id, &mut Budget::user()) == Pass::More {}
            }
            _ => state.p2p.set_wants(self.id),
        }
    }

    /// The outcome if there is one; frees the slot when it is first seen, unless it will be used again. What is persistent
    /// is inactive from then on.
    fn look(&mut self) -> Option<Result<Status, Error>> {
        if self.persistent {
            self.seen = self.peek();
        } else if self.seen.is_none() {
            if let Some(outcome) = self.outcome() {
                let result = self.meaning.read(outcome);
                self.free();
                self.seen = Some(result);
            } else if self.meaning.comm.shared().is_closed() {
                return Some(Err(self.meaning.over()));
            }
        }
        self.seen.clone()
    }

    /// As [`look`](Self::look), inside the engine of its rank, of one that is neither persistent nor over by the rank's end.
    fn look_in(&mut self, state: &mut RankState) {
        if self.seen.is_none()
            && !self.persistent
            && let Some(outcome) = self.outcome()
        {
            self.free_in(state);
            self.seen = Some(self.meaning.read(outcome));
        }
    }

    /// The outcome of a persistent one if there is one; it stays active, or inactive.
    fn peek(&self) -> Option<Result<Status, Error>> {
        if self.seen.is_some() {
            return self.seen.clone();
        }
        if let Some(outcome) = self.outcome() {
            return Some(self.meaning.read(outcome));
        }
        self.meaning.comm.shared().is_closed().then(|| Err(self.meaning.over()))
    }

    /// The outcome if there is one, for a callback: that makes nothing inactive, a wait or a test does.
    fn look_for_callback(&mut self) -> Option<Result<Status, Error>> {
        if self.persistent { self.peek() } else { self.look() }
    }

    fn free(&self) {
        self.free_in(&mut self.meaning.comm.shared().enter());
    }

    fn free_in(&self, state: &mut RankState) {
        match self.meaning.kind {
            Kind::Collective => {
                state.nbc.release(&mut state.p2p, self.id);
            }
            _ => state.p2p.release(self.id),
        }
    }

    /// Makes some progress, then gives the outcome if there is one. The outcome stays: later calls repeat it.
    pub fn test(&mut self) -> Option<Result<Status, Error>> {
        if !self.is_over() {
            let shared = self.meaning.comm.shared();
            shared.engine.poke(Context::User);
            // Who only tests waits, too.
            if !self.is_complete() && shared.make_room(&[self.need()]) == Grown::Room {
                shared.engine.poke(Context::User);
            }
            shared.end_if_aborted();
        }
        self.look()
    }

    /// Waits for the outcome.
    ///
    /// # Errors
    /// That of the operation.
    pub fn wait(&mut self) -> Result<Status, Error> {
        loop {
            if let Some(result) = self.wait_for(None) {
                return result;
            }
        }
    }

    /// Waits at most `timeout`; `None` when time was up.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Option<Result<Status, Error>> {
        self.wait_for(Some(timeout))
    }

    fn wait_for(&mut self, timeout: Option<Duration>) -> Option<Result<Status, Error>> {
        self.try_to_be_over(timeout);
        self.look()
    }

    /// Waits for the outcome, which is left where it is.
    fn wait_until_over(&mut self) {
        while !self.is_over() {
            self.try_to_be_over(None);
        }
    }

    fn try_to_be_over(&mut self, timeout: Option<Duration>) {
        if self.meaning.kind == Kind::Collective && !self.is_complete() {
            self.look_on_board();
        }
        self.pass_time(timeout);
    }

    /// Waits until it is over, or time is up.
    fn pass_time(&self, timeout: Option<Duration>) {
        if !self.is_over() {
            self.meaning.comm.shared().wait_until(&[self.need()], || self.is_complete(), timeout);
        }
    }

    /// Cancels a receive that has matched no message: its outcome is then [`Error::Cancelled`]. Whether it was
    /// cancelled; sends and collectives are not.
    pub fn cancel(&mut self) -> bool {
        if self.is_over() || !matches!(self.meaning.kind, Kind::Receive { .. }) {
            return false;
        }
        self.meaning.comm.shared().enter().p2p.cancel(self.id)
    }

    /// Runs `callback` once when complete, outside handlers, on some thread of this process; at once if it is complete.
    /// Takes the place of an earlier callback or waker. If the thread that runs callbacks cannot be started, this waits
    /// and runs it here. A persistent one stays active until a wait or a test gives the outcome.
    pub fn on_complete(&mut self, callback: Callback) {
        match self.look_for_callback() {
            Some(result) => callback(result),
            None => self.afterwards(Then::Call(callback)),
        }
    }

    /// Wakes `waker` when complete; takes the place of an earlier one. Look again after it.
    pub fn set_waker(&mut self, waker: &Waker) {
        if !self.is_over() {
            self.afterwards(Then::Wake(waker.clone()));
        }
    }

    /// Has `then` done at the end, or now if that has come meanwhile.
    fn afterwards(&mut self, then: Then) {
        if let Some(after) = &self.after {
            // What it replaces is dropped outside the lock and the token: it may be anything.
            let (now, _replaced) = {
                let mut slot = after.lock().unwrap_or_else(PoisonError::into_inner);
                match *slot {
                    Then::Happened => (Some(then), Then::Happened),
                    _ => (None, std::mem::replace(&mut *slot, then)),
                }
            };
            if let Some(then) = now {
                self.now(then);
            }
            return;
        }
        // Somebody wants to hear of it without looking.
        self.want_in(&mut self.meaning.comm.shared().enter());
        let after = Arc::new(Mutex::new(then));
        let (theirs, meaning) = (after.clone(), self.meaning.clone());
        let call = Box::new(move |outcome| {
            let then = {
                let mut slot = theirs.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::replace(&mut *slot, Then::Happened)
            };
            match then {
                Then::Call(callback) => callback(meaning.read(outcome)),
                Then::Wake(waker) => waker.wake(),
                Then::Happened => {}
            }
        });
        self.after = Some(after.clone());
        let comm = self.meaning.comm.clone();
        // From here on it may run, and it may free this request.
        let set = self.completion().map(|completion| comm.shared().engine.callbacks().set(completion, call));
        comm.shared().look_for_wanted();
        if set.is_none_or(|set| set.is_err()) {
            let then = {
                let mut slot = after.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::replace(&mut *slot, Then::Happened)
            };
            self.now(then);
        }
    }

    /// Without a callback thread, or after the end.
    fn now(&mut self, then: Then) {
        match then {
            Then::Call(callback) => loop {
                self.pass_time(None);
                if let Some(result) = self.look_for_callback() {
                    return callback(result);
                }
            },
            Then::Wake(waker) => waker.wake(),
            Then::Happened => {}
        }
    }

    /// Gives it up: the operation goes on, and `keep` lives until nothing can touch its buffer.
    pub fn detach(self, keep: Option<Box<dyn Any + Send>>) {
        if keep.is_none() || self.is_over() {
            return;
        }
        let comm = self.meaning.comm.clone();
        comm.shared().park(self, keep);
    }

    /// After a cancel and a revoke: waits, for a bounded time, until nothing can touch the buffer. All that is copied
    /// is copied by this rank's own engine, and a revoke ends its requests there and then, so that nobody has to answer.
    pub fn settle(&mut self) {
        while !self.is_over() {
            self.wait_timeout(Duration::from_millis(100));
        }
    }
}

impl Drop for RawRequest {
    fn drop(&mut self) {
        // In a user operator the engine cannot be entered: the slot is free again when the rank leaves.
        let unreachable = crate::operator::InsideOperator::is_here();
        let freed = self.seen.is_some() && !self.persistent;
        if freed || self.meaning.comm.shared().is_closed() {
            return;
        }
        // Also where it cannot be given up: messages for it are still to come.
        self.meaning.comm.set_goes_on();
        if unreachable {
            return;
        }
        let mut guard = self.meaning.comm.shared().enter();
        let state = &mut *guard;
        match self.meaning.kind {
            Kind::Collective => state.nbc.detach(&mut state.p2p, self.id, None),
            _ => state.p2p.detach(self.id),
        }
    }
}
