//! Collectives: the raw calls. Where a buffer is an `Option`, `None` is the in-place form of MPI.

mod blocks;
mod reductions;

use std::ptr::NonNull;

use tocsin_nbc::Posted;
use tocsin_nbc::board::Call;
use tocsin_nbc::table::{self, Arguments, Origin};
use tocsin_progress::engine::{Looking, Posts};
use tocsin_progress::{Code, Completion, Entered, Id, Outcome};

use super::{COLLECTIVE, Comm};
use crate::BackendKind;
use crate::error::Error;
use crate::outcome::collective_error;
use crate::request::{Kind, RawRequest, Status};
use crate::state::RankState;

/// From which size in bytes on who posts looks by itself meanwhile, and stays while pieces of its messages are under way. (Between two on an EPYC: an allgather of 80 KiB took
/// 36 us, for a signal to who was about to look, and takes 8.5; an allreduce of 64 KiB on cores that share no cache 40 and 12.)
const LARGE: usize = 24 << 10;
/// The same where ranks share cores: who stays keeps one from the others. (4 ranks on 2 cores of a Zen 5, 64 KiB: an allgather by `bruck` 47 us, and with this 35, of 8 by `ring` 180 and 163.)
const LARGE_SHARING: usize = 64 << 10;

impl Comm {
    /// Starts a barrier.
    ///
    /// # Errors
    /// [`Error::UnknownAlgorithm`], [`Error::InvalidArgument`] for an algorithm that cannot serve this communicator or
    /// operator, [`Error::PeerDead`], [`Error::Revoked`], [`Error::Finalized`]; refusals of memory, which end this
    /// collective and all later ones of this communicator on the other ranks, too, with [`Error::OutOfMemory`], or with [`Error::Revoked`]
    /// where there are more than 64 ranks, or many communicators.
    pub fn ibarrier_raw(&self, algorithm: Option<&str>) -> Result<RawRequest, Error> {
        // SAFETY: - a barrier has no buffers.
        unsafe { self.start_raw(&Arguments::Ibarrier, algorithm) }
    }

    /// Starts a broadcast of `bytes` bytes at `buf` from `root`.
    ///
    /// # Errors
    /// [`Error::RootOutOfRange`], and those of [`ibarrier_raw`](Self::ibarrier_raw).
    ///
    /// # Safety
    /// `bytes` bytes at `buf` are writable, and used by nobody else, until the request is complete or the rank has
    /// finalized.
    pub unsafe fn ibcast_raw(
        &self,
        buf: *mut u8,
        bytes: usize,
        root: u32,
        algorithm: Option<&str>,
    ) -> Result<RawRequest, Error> {
        // SAFETY: - the buffer: promised by the caller.
        unsafe { self.start_raw(&Arguments::Ibcast { buffer: buf, bytes, root }, algorithm) }
    }

    /// Starts the collective that the arguments describe: all the calls here in one.
    ///
    /// # Errors
    /// Those of the call of the operation's name.
    ///
    /// # Safety
    /// As the call of the operation's name: buffers live, and are used as it says, until the request is complete or the
    /// rank has finalized.
    pub unsafe fn start_raw(
        &self,
        arguments: &Arguments,
        algorithm: Option<&str>,
    ) -> Result<RawRequest, Error> {
        // SAFETY: - promised by the caller.
        unsafe { self.start_for(arguments.operation().name(), arguments, algorithm) }
    }

    /// [`start_raw`](Self::start_raw) as part of a call that errors name.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub(super) unsafe fn start_for(
        &self,
        operation: &'static str,
        arguments: &Arguments,
        algorithm: Option<&str>,
    ) -> Result<RawRequest, Error> {
        if let Some(mut call) = table::short_on_board(&self.inner.group, arguments, algorithm) {
            // SAFETY: - the buffers: promised by the caller.
            return unsafe { self.start_on_board(operation, &mut call) };
        }
        // SAFETY: - as above.
        unsafe { self.start_in_general(operation, arguments, algorithm) }
    }

    /// [`start_raw`](Self::start_raw) of what is not the same at every call.
    ///
    /// # Safety
    /// As there.
    #[inline(never)]
    unsafe fn start_in_general(
        &self,
        operation: &'static str,
        arguments: &Arguments,
        algorithm: Option<&str>,
    ) -> Result<RawRequest, Error> {
        self.shared().open(operation)?;
        let refused = |e| self.shared().or_abort(operation, collective_error(operation, e));
        let call = table::call_on_board(&self.inner.group, arguments, algorithm).map_err(refused)?;
        if let Some(mut call) = call {
            // SAFETY: - the buffers: promised by the caller.
            return unsafe { self.start_on_board(operation, &mut call) };
        }
        // On a board nobody rings for what is copied in a post.
        let by_messages = || table::goes_by_messages(&self.inner.group, arguments, algorithm);
        let large = self.is_large(arguments.longest_block()) && by_messages();
        let looking = self.looking(large);
        // Counted under the token, and only for what is posted: ranks that were refused alike stay in step.
        if let Some(origin) = Origin::new(&self.inner.group, arguments, algorithm) {
            let mut guard = self.enter_collectives(operation, large)?;
            let (state, context, sequence) = (&mut *guard, self.context() | COLLECTIVE, self.sequence());
            // SAFETY: - the buffers: promised by the caller.
            let posted = unsafe { state.nbc.post_again(&mut state.p2p, &origin, context, sequence) };
            match posted {
                // What follows may be refused.
                Ok(None) => state.stays_not(large),
                Ok(Some(id)) => return self.posted(guard, operation, id, looking),
                Err(error) => {
                    state.stays_not(large);
                    return Err(self.refused(state, operation, error));
                }
            }
        }
        let schedule = match table::compile(&self.inner.group, arguments, algorithm) {
            Ok(schedule) => schedule,
            // Its temporaries: the others may not need any.
            Err(error) if error.is_want_of_memory() => {
                drop(looking);
                let mut guard = self.shared().enter_open(operation)?;
                return Err(self.refused(&mut guard, operation, error));
            }
            Err(error) => return Err(refused(error)),
        };
        let mut guard = self.enter_collectives(operation, large)?;
        let (state, context, sequence) = (&mut *guard, self.context() | COLLECTIVE, self.sequence());
        // SAFETY: - the buffers: promised by the caller.
        let posted = unsafe { state.nbc.post(&mut state.p2p, schedule, context, sequence) };
        let id = posted.map_err(|error| {
            state.stays_not(large);
            self.refused(state, operation, error)
        })?;
        self.posted(guard, operation, id, looking)
    }

    fn is_large(&self, bytes: usize) -> bool {
        bytes >= if self.shared().shares_cores { LARGE_SHARING } else { LARGE }
    }

    /// Enters the engine to post a collective; a large one by a thread that [stays](Self::leave).
    fn enter_collectives(
        &self,
        operation: &'static str,
        large: bool,
    ) -> Result<Entered<'_, RankState>, Error> {
        let mut guard = self.shared().enter_open(operation)?;
        if large {
            // Which may last: they run when this thread is no more seen looking.
            guard.leave_callbacks();
        }
        if guard.p2p.is_revoked(self.context()) {
            return Err(Error::Revoked { operation });
        }
        if large {
            self.begin_stay(&mut guard);
        }
        Ok(guard)
    }

    /// A thread is about to post a large collective, and [stays](Self::leave).
    fn begin_stay(&self, state: &mut RankState) {
        state.p2p.begin_stay();
        // Where there are no handlers nobody would go on with what was expected in vain.
        let post = self.shared().engine.begins_post(Posts::Collective);
        let soon = post.is_some_and(|post| post.soon) && self.shared().backend != BackendKind::Poll;
        state.p2p.set_waits_soon(soon);
        state.p2p.prepare_shared();
    }

    /// A large collective takes long to post, since whatever is there is copied: peers need not ring for what comes meanwhile.
    fn looking(&self, large: bool) -> Option<Looking<'_, RankState>> {
        large.then(|| self.shared().engine.looking())
    }

    /// Leaves the engine after a post.
    fn leave(
        &self,
        mut guard: Entered<'_, RankState>,
        completion: NonNull<Completion>,
        looking: Option<Looking<'_, RankState>>,
    ) {
        let Some(looking) = looking else { return };
        guard.is_looking();
        drop(guard);
        // SAFETY: - it lives as long as the engine, which `self` keeps; its methods are made for any thread.
        self.shared().stay(looking, || unsafe { completion.as_ref() }.is_done());
        self.shared().posted_last.forget();
        self.shared().engine.has_posted(Posts::Collective);
    }

    /// Leaves the engine after something was started while levels of a [split tree](tocsin_nbc::split) are this rank's own to do, mostly of what
    /// was started: who stays would begin what is to be done in the next call.
    #[cold]
    fn leave_split(
        &self,
        mut guard: Entered<'_, RankState>,
        id: Id,
        looking: Option<Looking<'_, RankState>>,
    ) {
        guard.stays_not(looking.is_some());
        drop(guard);
        // Peers ring a rank that sleeps, not one that looks.
        drop(looking);
        self.shared().start_split(id);
        self.shared().posted_last.forget();
        self.shared().engine.has_posted(Posts::Collective);
    }

    /// Counts what was posted, and leaves the engine.
    fn posted(
        &self,
        mut guard: Entered<'_, RankState>,
        operation: &'static str,
        id: Id,
        looking: Option<Looking<'_, RankState>>,
    ) -> Result<RawRequest, Error> {
        self.count();
        let Some(completion) = guard.nbc.completion(id) else {
            guard.stays_not(looking.is_some());
            return Err(lost(operation));
        };
        if guard.nbc.is_gated() {
            self.leave_split(guard, id, looking);
        } else if looking.is_none() && is_over_well(completion) {
            // Its slot is somebody else's at once.
            let state = &mut *guard;
            state.nbc.release(&mut state.p2p, id);
            drop(guard);
            return Ok(self.over(operation));
        } else {
            self.leave(guard, completion, looking);
        }
        Ok(RawRequest::new(self.clone(), operation, Kind::Collective, id, completion, None))
    }

    /// The request of what has ended well, and has nothing to give back: its wait will be none. Not for who is inside the engine.
    #[inline]
    fn over(&self, operation: &'static str) -> RawRequest {
        self.shared().open_gates();
        let status = Status { source: self.rank(), ..Status::default() };
        RawRequest::over(operation, Kind::Collective, status)
    }

    /// Starts what needs no schedule.
    ///
    /// # Safety
    /// As [`start_raw`](Self::start_raw).
    #[inline]
    unsafe fn start_on_board(&self, operation: &'static str, call: &mut Call) -> Result<RawRequest, Error> {
        let shared = self.shared();
        shared.open(operation)?;
        let mut guard = shared.engine.enter();
        shared.is_still_open(operation)?;
        let state = &mut *guard;
        if state.p2p.is_revoked(self.context()) {
            return Err(Error::Revoked { operation });
        }
        let (context, sequence) = (self.context() | COLLECTIVE, self.sequence());
        call.number(sequence);
        // SAFETY: - the buffers: promised by the caller.
        let posted = unsafe { state.nbc.post_on_board(&mut state.p2p, call, context, sequence) };
        if posted.is_ok() {
            self.count();
        }
        match posted {
            Ok(Posted::Done) => {
                drop(guard);
                self.shared().engine.has_ended();
                Ok(self.over(operation))
            }
            posted => self.started_on_board(guard, operation, posted),
        }
    }

    /// What was posted on a board and goes on, or did not end well.
    fn started_on_board(
        &self,
        mut guard: Entered<'_, RankState>,
        operation: &'static str,
        posted: Result<Posted, tocsin_nbc::Error>,
    ) -> Result<RawRequest, Error> {
        let state = &mut *guard;
        let (id, completion, outcome) = match posted {
            // Names no slot, and is not asked for one.
            Ok(Posted::Done) => (Id::from_bits(0), NonNull::dangling(), Some(Outcome::default())),
            Ok(Posted::Failed(outcome)) => (Id::from_bits(0), NonNull::dangling(), Some(outcome)),
            Ok(Posted::Waits(id)) => (id, state.nbc.completion(id).ok_or_else(|| lost(operation))?, None),
            Err(error) => return Err(self.refused(state, operation, error)),
        };
        drop(guard);
        Ok(RawRequest::new(self.clone(), operation, Kind::Collective, id, completion, outcome))
    }

    /// Prepares a collective that is then [started](RawRequest::start) as often as one likes, and says nothing to the
    /// other ranks. All that its runs need is reserved here: the schedule, its temporaries and requests, the connections
    /// to its peers.
    ///
    /// # Errors
    /// Those of the call of the operation's name; the other ranks hear of none, not even of a refusal of memory.
    pub fn prepare_raw(&self, arguments: &Arguments, algorithm: Option<&str>) -> Result<RawRequest, Error> {
        let operation = arguments.operation().plain_name();
        self.shared().open(operation)?;
        let refused = |e| self.shared().or_abort(operation, collective_error(operation, e));
        let schedule = table::compile(&self.inner.group, arguments, algorithm).map_err(refused)?;
        let mut guard = self.shared().enter_open(operation)?;
        let state = &mut *guard;
        if state.p2p.is_revoked(self.context()) {
            return Err(Error::Revoked { operation });
        }
        let context = self.context() | COLLECTIVE;
        let id = state.nbc.prepare(&mut state.p2p, schedule, context).map_err(refused)?;
        let completion = state.nbc.completion(id).ok_or_else(|| lost(operation))?;
        drop(guard);
        Ok(RawRequest::persistent(self.clone(), operation, id, completion))
    }

    /// Starts what [`prepare_raw`](Self::prepare_raw) prepared, as the next collective of this communicator.
    ///
    /// # Safety
    /// As [`start_raw`](Self::start_raw).
    pub(crate) unsafe fn start_again(&self, operation: &'static str, id: Id) -> Result<(), Error> {
        let mut guard = self.enter_collectives(operation, false)?;
        let completion = guard.nbc.completion(id).ok_or_else(|| lost(operation))?;
        let large = self.is_large(guard.nbc.longest_message(id));
        let looking = self.looking(large);
        if large {
            // As in `enter_collectives`.
            guard.leave_callbacks();
        }
        let state = &mut *guard;
        if large {
            self.begin_stay(state);
        }
        // Counted as in `start_raw`.
        let sequence = self.sequence();
        // SAFETY: - the buffers: promised by the caller.
        let started = unsafe { state.nbc.start(&mut state.p2p, id, sequence) };
        started.map_err(|error| {
            state.stays_not(large);
            self.refused(state, operation, error)
        })?;
        self.count();
        if guard.nbc.is_gated() {
            self.leave_split(guard, id, looking);
        } else {
            self.leave(guard, completion, looking);
            // SAFETY: - it lives as long as the engine, which `self` keeps; its methods are made for any thread.
            if unsafe { completion.as_ref() }.is_done() {
                self.shared().engine.has_ended();
            }
        }
        Ok(())
    }

    /// A collective was not begun. Where the system refused this rank what it takes, the others may have begun it, and would wait for ever: they are
    /// told, on the communicator's board if it has one, which names this rank, and else by a revocation.
    #[cold]
    fn refused(&self, state: &mut RankState, operation: &'static str, error: tocsin_nbc::Error) -> Error {
        if error.is_want_of_memory() && !state.nbc.refuse(&mut state.p2p, self.inner.group.board()) {
            self.revoke_inside(state);
        }
        self.shared().or_abort(operation, collective_error(operation, error))
    }
}

/// Of what is inside the engine.
fn is_over_well(completion: NonNull<Completion>) -> bool {
    // SAFETY: - it lives as long as the engine; its methods are made for any thread.
    unsafe { completion.as_ref() }.outcome().is_some_and(|outcome| outcome.code == Code::Ok)
}

fn lost(operation: &'static str) -> Error {
    Error::Internal { operation, what: "the request was lost".into() }
}
