//! One rank of a world: its engine, and what joins and leaves.

mod beside;
pub(crate) mod dropped;
mod due;
mod last;
mod posted;
mod room;
mod wait;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use tocsin_doorbell::{Own, Receiver};
use tocsin_p2p::P2p;
use tocsin_progress::engine::{Engine, EngineConfig, Entered};
use tocsin_progress::stats::{Snapshot, Stats};
use tocsin_progress::{Code, Context, Id, Outcome, ProgressThread};
use tocsin_shm_transport::{Cores, Life, Segment, ShmTransport, cma_refusal};
use tocsin_sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tocsin_transport::copy::has_far_cache;

use crate::BackendKind;
use crate::boards::{Boards, Offer};
use crate::bootstrap::{Place, segment_error};
use crate::comm::probes::Sought;
use crate::config::{Config, ProgressPlacement, Seat, cores_here, progress_cpu};
use crate::error::Error;
use crate::memory::publish_node;
use crate::places::Places;
use crate::request::RawRequest;
use crate::state::RankState;
use crate::trace::Recording;
use crate::tune::{Agreed, Ranks};
use dropped::Dropped;
use due::Due;
use last::Last;
use posted::Posted;

/// What every communicator and request of a rank shares.
#[derive(Debug)]
pub(crate) struct Rank {
    pub(crate) engine: Arc<Engine<RankState>>,
    pub(crate) segment: Arc<Segment>,
    pub(crate) rank: u32,
    pub(crate) backend: BackendKind,
    /// No new operations; set when finalize begins.
    closing: AtomicBool,
    /// Nothing moves any more; every request is over.
    closed: Arc<AtomicBool>,
    /// See [`RankState`].
    blocked: Arc<AtomicBool>,
    /// Longest plain message in bytes that comes in one packet, as far as this rank knows.
    pub(crate) eager_max: usize,
    /// How far this rank has handed out the context ids that it owns: `comm/agree.rs`.
    pub(crate) next_context: AtomicU32,
    /// The boards that its communicators have.
    pub(crate) boards: Arc<Boards>,
    /// What was measured of collectives.
    pub(crate) measured: Agreed,
    /// Whether ranks take turns on cores: the same on all of them.
    pub(crate) shares_cores: bool,
    /// Whether what a core's own caches do not hold is far from it: the same on all of them.
    pub(crate) far_cache: bool,
    /// Whether the kernel may copy from rank to rank: the same on all of them.
    pub(crate) copied_once: bool,
    /// Ranks are threads of one process.
    pub(crate) one_process: bool,
    /// Where the ranks are: the same on all of them.
    pub(crate) places: Places,
    /// Cores of progress threads that no rank is bound to.
    pub(crate) dedicated_cores: u32,
    /// What was posted last of all that may be waited for right after.
    pub(crate) posted_last: Posted,
    /// Whether something is left for this rank's next call: see [`open_gates`](Rank::open_gates).
    gated: AtomicBool,
    /// When to look again what has ended: of what was given up in communicators that were dropped, and of requests that were.
    given_up_due: Due,
    parked: Mutex<Parked>,
    /// Communicators that were dropped and of which the engine has not heard.
    dropped: Mutex<Vec<Dropped>>,
}

/// What a waiter waits for, as far as a full pool of unexpected messages can be in its way.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Need<'a> {
    /// A send or receive. `rings`: a peer may have to be told that somebody waits here.
    Message { id: Id, rings: bool },
    /// A message that is not received yet.
    Probe(&'a Sought),
    /// A collective.
    Collective,
}

/// Dropped requests whose buffers must live on.
#[derive(Debug, Default)]
struct Parked {
    requests: Vec<(RawRequest, Option<Box<dyn Any + Send>>)>,
    /// Length at which it pays to look which are complete.
    sweep_at: usize,
}

/// What belongs to the thread that joined, in the order of their drop.
pub(crate) struct Bound {
    progress_thread: Option<ProgressThread>,
    receiver: Receiver,
    recording: Option<Recording>,
}

impl std::fmt::Debug for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bound").field("receiver", &self.receiver).finish_non_exhaustive()
    }
}

/// Joins a world: from the return on, the calling thread may be interrupted.
pub(crate) fn join(place: Place, config: &Config) -> Result<(Arc<Rank>, Bound), Error> {
    let (segment, rank) = (place.segment.clone(), place.rank);
    let joined = try_join(place, config);
    if joined.is_err() && segment.mark_dead(rank) {
        segment.wake_all();
    }
    joined
}

fn try_join(place: Place, config: &Config) -> Result<(Arc<Rank>, Bound), Error> {
    let Place { segment, rank, cpu, progress, cores, relation, sharers, dedicated, progress_cores, launcher } =
        place;
    let backend = config.usable_backend()?;
    if let Some(launcher) = launcher {
        // Under Yama, lets the launcher's descendants (the other ranks) read this one's memory. Elsewhere an error
        // that means nothing.
        // SAFETY: - no pointers.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, launcher as libc::c_ulong, 0, 0, 0) };
    }
    publish_node(&segment, rank);
    let places = Places::of(&segment);
    let ranks = segment.ranks();
    let mut transport = ShmTransport::new(segment.clone(), rank).map_err(segment_error)?;
    // A world of one, which has no launcher either, sends nothing that is large.
    let kind = if launcher.is_some() { Ranks::Processes } else { Ranks::Threads };
    let measured = Agreed::new(config, kind, &segment, rank)?;
    let thresholds = config.thresholds(kind, ranks, relation);
    // A rank that is bound may use one core, but the world has more.
    let far_cache = has_far_cache();
    let copied_once = far_cache && kind == Ranks::Processes && thresholds.copy_once(cma_refusal);
    let Cores { count, far_cache, copied_once } =
        segment.cores(Cores { count: cores_here(cores), far_cache, copied_once });
    let shares_cores = ranks > count;
    transport.set_strategies(thresholds.strategies);
    let mut p2p = P2p::new(transport, config.point_to_point(&thresholds))
        .map_err(|e| Error::System { operation: "joining the world".into(), reason: e.to_string() })?;
    if shares_cores {
        p2p.set_crowded();
    }
    let closed = Arc::new(AtomicBool::new(false));
    let descriptor = segment.descriptor(rank);
    // SAFETY: - the segment, which `Rank` and the transport keep, outlives the engine.
    let own = unsafe { Own::new(descriptor) };
    let recording =
        config.trace.as_ref().map(|path| Recording::begin(path, config.trace_format, rank, ranks));
    let events = recording.as_ref().map(Recording::trace);
    p2p.set_trace(events.clone());
    let mut engine_config = EngineConfig {
        callback_thread: backend != BackendKind::Poll,
        trace: events.clone(),
        ..EngineConfig::default()
    };
    if shares_cores {
        engine_config = engine_config.oversubscribed();
    }
    let blocked = Arc::new(AtomicBool::new(false));
    let boards = Arc::new(Boards::new());
    let mut state = RankState::new(p2p, closed.clone(), blocked.clone(), boards.clone());
    state.nbc.set_trace(events);
    let engine = Arc::new(Engine::new(state, own, engine_config, Arc::new(Stats::new())));
    if !segment.come_to_life(rank) {
        let what =
            format!("rank {rank} is dead to the others: the process that was started for it has ended");
        return Err(Error::Bootstrap { what });
    }

    let mut doorbell = tocsin_doorbell::Config::new(backend);
    doorbell.signal = config.signal;
    doorbell.ancestor = launcher.unwrap_or(0);
    let context = Arc::as_ptr(&engine).cast::<()>();
    // SAFETY: - the descriptor is in the segment and the engine in an Arc, and `Bound`, which drops the receiver, is
    //           kept beside both by `World`, which is dropped before them; a forgotten World forgets all three
    //         - `handler_entry` is made for this and takes this context.
    let receiver =
        unsafe { Receiver::install(descriptor, &doorbell, Engine::<RankState>::handler_entry, context) }
            .map_err(|e| doorbell_error(backend, &e))?;
    engine.attach(receiver.control());
    let progress_thread = match backend {
        BackendKind::Thread => {
            let starts_on = progress_cpu(Seat { cpu, progress }, config.progress);
            let core = progress_cores.at(starts_on, sharers);
            // One without a placement has its rank's binding already.
            let at = starts_on.filter(|_| config.progress != ProgressPlacement::None);
            let thread = ProgressThread::spawn_on(&core, engine.clone(), at, config.schedule);
            Some(thread.map_err(|e| Error::thread("starting the progress thread", e))?)
        }
        _ => None,
    };
    let shared = Rank {
        engine,
        segment,
        rank,
        backend,
        closing: AtomicBool::new(false),
        closed,
        blocked,
        eager_max: thresholds.eager_max,
        next_context: AtomicU32::new(crate::comm::FIRST_CONTEXT),
        boards,
        measured,
        shares_cores,
        far_cache,
        copied_once,
        one_process: kind == Ranks::Threads,
        places,
        dedicated_cores: if backend == BackendKind::Thread { dedicated } else { 0 },
        posted_last: Posted::nothing(),
        gated: AtomicBool::new(false),
        given_up_due: Due::default(),
        parked: Mutex::default(),
        dropped: Mutex::default(),
    };
    let shared = Arc::new(shared);
    // Weak: what waits for a rank to be dropped must not keep it.
    let rank = Arc::downgrade(&shared);
    shared.engine.callbacks().set_look(Box::new({
        let rank = rank.clone();
        move || {
            // Nor in a child of fork() that a callback has made: its lanes are its parent's.
            if let Some(rank) = rank.upgrade().filter(|rank| !rank.is_closed()) {
                rank.engine.look_in_passing();
            }
        }
    }));
    shared.engine.callbacks().set_chore(Box::new(move || {
        if let Some(rank) = rank.upgrade() {
            rank.make_room_for_wanted();
        }
    }));
    Ok((shared, Bound { progress_thread, receiver, recording }))
}

/// Why a child of fork() may not use the rank.
pub(crate) fn of_a_fork(operation: &'static str) -> Error {
    let what = "this process is a fork of a rank, and a rank's traffic is its own: use it in the parent";
    Error::InvalidArgument { operation, what: what.into() }
}

/// In a child of fork(): the thread that progresses is not here to be joined, and the rest is nobody's.
fn leave_to_the_parent(bound: Bound) {
    std::mem::forget(bound);
}

const RANK_BEFORE: &str = "this thread is a rank of another world, and is interrupted for that: use that world's communicators, finalize it \
                           first, or join on another thread";

fn doorbell_error(backend: BackendKind, error: &tocsin_doorbell::Error) -> Error {
    if matches!(error, tocsin_doorbell::Error::Threads(_)) && tocsin_doorbell::signal_here().is_some() {
        return Error::JoinedBefore { what: RANK_BEFORE };
    }
    Error::BackendUnusable { backend: backend.to_string(), reason: error.to_string() }
}

impl Rank {
    /// Checks that an operation may start.
    #[inline]
    pub(crate) fn open(&self, operation: &'static str) -> Result<(), Error> {
        let callable = !tocsin_sync::thread::in_handler()
            && !crate::operator::InsideOperator::is_here()
            && !tocsin_doorbell::fork::disowned();
        if callable && self.is_open() { Ok(()) } else { self.refuse(operation) }
    }

    /// Whether operations may be called here, as far as one look can tell: not in a handler, in a user operator, or in a child of fork().
    /// False: [`open`](Self::open) knows.
    #[inline(always)]
    pub(crate) fn is_seen_callable() -> bool {
        tocsin_sync::thread::is_seen_outside_handlers()
            && !crate::operator::InsideOperator::is_here()
            && !tocsin_doorbell::fork::disowned()
    }

    /// Whether operations may start, as far as the rank goes.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.segment.aborted().is_none() && !self.closing.load(Ordering::Acquire)
    }

    /// Why an operation may not start.
    #[cold]
    fn refuse(&self, operation: &'static str) -> Result<(), Error> {
        if tocsin_sync::thread::in_handler() || crate::operator::InsideOperator::is_here() {
            return Err(Error::InHandler { operation });
        }
        if tocsin_doorbell::fork::disowned() {
            return Err(of_a_fork(operation));
        }
        self.still_open(operation)
    }

    #[cold]
    fn still_open(&self, operation: &'static str) -> Result<(), Error> {
        if let Some(code) = self.segment.aborted() {
            return Err(Error::Aborted { operation, code });
        }
        if self.closing.load(Ordering::Acquire) {
            return Err(Error::Finalized { operation });
        }
        Ok(())
    }

    /// Enters the engine, as soon as whoever is inside has left.
    ///
    /// # Panics
    /// In a user operator: it runs inside already. The panic ends the operator with an error, where waiting would
    /// never end.
    pub(crate) fn enter(&self) -> Entered<'_, RankState> {
        if crate::operator::InsideOperator::is_here() {
            inside_operator();
        }
        self.engine.enter()
    }

    /// Enters for an operation that needs an open rank: one that lends the engine a buffer or makes it look at its
    /// lanes. Asked again under the token, because another thread may have closed the rank while this one waited, and
    /// freed the buffers that a pass would write to.
    ///
    /// Inlined: what a call returns through memory, in pieces, is copied from there before they have got there.
    #[inline(always)]
    pub(crate) fn enter_open(&self, operation: &'static str) -> Result<Entered<'_, RankState>, Error> {
        self.open(operation)?;
        let state = self.engine.enter();
        self.is_still_open(operation)?;
        Ok(state)
    }

    /// What [`enter_open`](Self::enter_open) asks inside, after [`open`](Self::open) outside: for what is entered most often, which stays where it is made then.
    #[inline(always)]
    pub(crate) fn is_still_open(&self, operation: &'static str) -> Result<(), Error> {
        if self.is_open() { Ok(()) } else { self.still_open(operation) }
    }

    /// [`enter_open`](Self::enter_open) without waiting, and without running callbacks at the end: the caller's locks are
    /// not known. None: somebody is inside, or the rank is not open.
    pub(crate) fn try_enter_open(&self, operation: &'static str) -> Option<Entered<'_, RankState>> {
        self.open(operation).ok()?;
        // As a handler does, which leaves callbacks to their thread.
        let state = self.engine.try_enter(Context::Handler)?;
        self.still_open(operation).ok().map(|()| state)
    }

    /// Whether the rank has left, or is another process's, whose child of fork() this is: then no request will move again.
    pub(crate) fn is_closed(&self) -> bool {
        // SYNC POINT: Acquire pairs with the Release of `close`: who sees it sees the last copy into its buffer.
        self.closed.load(Ordering::Acquire) || tocsin_doorbell::fork::disowned()
    }

    /// After an abort nothing moves any more and every request is over. Whether that is so.
    pub(crate) fn end_if_aborted(&self) -> bool {
        let Some(code) = self.segment.aborted() else { return false };
        if self.is_closed() {
            return true;
        }
        // Under the token, so that no copy is under way. Entered, not tried: who turned away because the progress thread
        // is inside might then sleep, and nobody would wake it. Callbacks run at the end, also in a wait: nobody has to ring this rank any more.
        let mut state = self.enter();
        self.closing.store(true, Ordering::Release);
        if !self.is_closed() {
            state.p2p.close_transfers();
        }
        self.end_all(&mut state, Code::Aborted, code as u64);
        true
    }

    /// Ends all operations under the token: their callbacks and wakers are not lost, and no buffer is touched any more.
    fn end_all(&self, state: &mut RankState, code: Code, detail: u64) {
        let outcome = Outcome { code, source: self.rank, detail, ..Outcome::default() };
        state.nbc.end_all(&mut state.p2p, outcome);
        state.p2p.end_all(code, detail);
        // SYNC POINT: Release: who sees it without the token sees the last copy.
        self.closed.store(true, Ordering::Release);
    }

    /// Statistics so far.
    pub(crate) fn stats(&self) -> Snapshot {
        let mut all = self.engine.stats().snapshot();
        // The engine is the parent's: who was inside is not here to leave, and a pass would take from the parent's lanes.
        if tocsin_doorbell::fork::disowned() {
            return all;
        }
        let (messages, collectives, rings) = {
            let state = self.enter();
            (state.p2p.counters(), state.nbc.copied(), state.p2p.rings())
        };
        all.packets_sent += messages.packets_sent;
        all.packets_received += messages.packets_received;
        all.bytes_sent += messages.bytes_sent;
        all.bytes_received += messages.bytes_received;
        all.bytes_copied_user += messages.bytes_copied[0] + collectives.user;
        all.bytes_copied_handler += messages.bytes_copied[1] + collectives.handler;
        all.bytes_copied_progress += messages.bytes_copied[2] + collectives.progress;
        all.bytes_in_place += messages.bytes_in_place;
        all.bytes_by_kernel += messages.bytes_by_kernel;
        all.bytes_by_knem += messages.bytes_by_knem;
        all.bytes_by_pages += messages.bytes_by_pages;
        all.rings_by_user_interrupt += rings.by_user_interrupt;
        all.rings_by_signal += rings.by_signal;
        all.ranks_without_user_interrupts += rings.refused;
        all
    }

    /// Keeps a dropped request and its buffer until it is complete, or until the rank has closed.
    pub(crate) fn park(&self, request: RawRequest, keep: Option<Box<dyn Any + Send>>) {
        let over = {
            let mut parked = self.parked.lock().unwrap_or_else(PoisonError::into_inner);
            parked.requests.push((request, keep));
            // SYNC POINT: `close` stores `closed` and then takes what is parked: what is pushed after that is told of it by the lock. Each request holds its rank, which would
            // hold the request for ever.
            if self.closed.load(Ordering::Acquire) {
                std::mem::take(&mut parked.requests)
            } else {
                self.given_up_due.keep();
                parked.sweep()
            }
        };
        // Outside the lock: a dropped buffer may be anything.
        drop(over);
    }

    /// Frees what was kept for dropped requests that have ended since: of how many, and how many are left.
    fn free_parked(&self) -> (usize, usize) {
        let (over, left) = {
            let mut parked = self.parked.lock().unwrap_or_else(PoisonError::into_inner);
            (parked.take_over(), parked.requests.len())
        };
        let freed = over.len();
        // A panic in a user's drop is reported by the panic hook; it must not end a call that has a buffer under way.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(over))) {
            // Its own drop could panic again: leak it.
            std::mem::forget(payload);
        }
        (freed, left)
    }

    fn has_parked(&self) -> bool {
        !self.parked.lock().unwrap_or_else(PoisonError::into_inner).requests.is_empty()
    }

    /// What this rank offers when a communicator is made, boards of dropped ones included.
    pub(crate) fn offer_boards(&self) -> Offer<'_> {
        // A dropped request that is over would keep its communicator.
        self.look_what_has_ended();
        self.enter().close_boards();
        let is_gone = |rank| matches!(self.segment.life(rank), Life::Finalized | Life::Dead);
        // Entered for each, and not held: memory is allocated meanwhile.
        self.boards.offer(&self.segment, |number| self.enter().nbc.is_board_over(number, is_gone))
    }

    /// Ends every rank of the world; in a child of fork(), which is none, that child.
    pub(crate) fn abort(&self, code: i32) -> ! {
        if tocsin_doorbell::fork::disowned() {
            // SAFETY: it does not return. What the parent has registered to be done at its exit is not this process's to do.
            unsafe { libc::_exit(exit_status(code)) }
        }
        self.segment.set_abort(code);
        self.segment.wake_all();
        std::process::exit(exit_status(code))
    }

    /// Leaves the world in good order: what was sent is delivered or its receiver gone.
    pub(crate) fn finalize(&self, bound: Bound) -> Result<(), Error> {
        if tocsin_doorbell::fork::disowned() {
            leave_to_the_parent(bound);
            return Err(of_a_fork("finalize"));
        }
        self.closing.store(true, Ordering::Release);
        let mut last = {
            let mut state = self.enter();
            let inside = &mut *state;
            inside.nbc.want_all(&mut inside.p2p);
            Last::new(inside)
        };
        let aborted = || self.segment.aborted();
        self.wait_until(&[Need::Collective], || aborted().is_some() || last.is_over(self), None);
        // Of those that were dropped, the engine counts what was lost.
        let over = self.parked.lock().unwrap_or_else(PoisonError::into_inner).take_over();
        drop(over);
        let lost = last::lost(self);
        self.close(Life::Finalized, bound);
        match (aborted(), lost) {
            (Some(code), _) => Err(Error::Aborted { operation: "finalize", code }),
            (None, Some(lost)) => Err(lost),
            (None, None) => Ok(()),
        }
    }

    /// The error that a refusal is: a rank that aborts dies of it, so that the abort is the cause to report.
    #[cold]
    pub(crate) fn or_abort(&self, operation: &'static str, error: Error) -> Error {
        self.segment.aborted().map_or(error, |code| Error::Aborted { operation, code })
    }

    /// Is dead to the others, without entering the engine. What is bound to the thread stays there, and the rank's memory.
    pub(crate) fn leave_dead(self: &Arc<Self>) {
        crate::threads::gone(&self.segment, self.rank);
        std::mem::forget(self.clone());
    }

    /// Leaves the world as a dead rank.
    pub(crate) fn die(&self, bound: Bound) {
        if tocsin_doorbell::fork::disowned() {
            return leave_to_the_parent(bound);
        }
        self.closing.store(true, Ordering::Release);
        self.close(Life::Dead, bound);
    }

    fn close(&self, life: Life, bound: Bound) {
        {
            let mut state = self.enter();
            // No peer copies from or to buffers that are the user's again.
            state.p2p.close_transfers();
            // What was sent must be announced before the end is.
            tocsin_progress::Work::leave(&mut *state);
            match self.segment.aborted() {
                Some(code) => self.end_all(&mut state, Code::Aborted, code as u64),
                None => self.end_all(&mut state, Code::Finalized, 0),
            }
        }
        let Bound { progress_thread, receiver, recording } = bound;
        drop(progress_thread);
        drop(receiver);
        self.segment.set_life(self.rank, life);
        self.segment.wake_all();
        // Threads of this rank that wait see `closed`.
        self.engine.own().wake_own();
        let parked = std::mem::take(&mut self.parked.lock().unwrap_or_else(PoisonError::into_inner).requests);
        drop(parked);
        if let Some(recording) = recording {
            recording.write(self.rank);
        }
    }
}

/// What a process ends with that aborts: of the code no more than eight bits are a status, and none says that all went well.
pub(crate) fn exit_status(code: i32) -> i32 {
    match code & 0xff {
        0 => 1,
        status => status,
    }
}

#[cold]
#[allow(clippy::panic)] // caught where operators are run
fn inside_operator() -> ! {
    panic!("a user operator called the library, which runs it: an operator may only combine its operands")
}

impl Parked {
    /// Takes out what is complete, seldom enough that parking costs O(1) on average, and often enough that there is room for no more than a few, and an eighth of those that
    /// were not when it last did.
    fn sweep(&mut self) -> Vec<(RawRequest, Option<Box<dyn Any + Send>>)> {
        if self.requests.len() < self.sweep_at {
            return Vec::new();
        }
        self.take_over()
    }

    /// Takes out what is complete.
    fn take_over(&mut self) -> Vec<(RawRequest, Option<Box<dyn Any + Send>>)> {
        let (over, kept) = std::mem::take(&mut self.requests).into_iter().partition(|(r, _)| r.is_over());
        self.requests = kept;
        self.sweep_at = self.requests.len() + self.requests.len() / 8 + 16;
        over
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::{Config, ConstBuf, Mode, MutBuf, threads};

    /// Buffers of what was given up and has ended do not gather behind what never ends.
    #[test]
    fn few_that_have_ended_are_kept_with_many_that_have_not() {
        const STUCK: usize = 400;
        const MOST: usize = STUCK / 8 + 17;
        let mut config = Config::default();
        config.set("TOCSIN_BACKEND", "poll").unwrap();
        let kept = threads(1, &config, |comm| {
            let give_up = |tag, counted: &Arc<()>| {
                let mut buffer = Box::new([0u8; 8]);
                let into = MutBuf::contiguous(buffer.as_mut_ptr(), 8);
                // SAFETY: the buffer is kept with the request.
                let request = unsafe { comm.irecv_raw(into, Some(0), Some(tag)) }.unwrap();
                request.detach(Some(Box::new((buffer, counted.clone()))));
            };
            let (stuck, counted) = (Arc::new(()), Arc::new(()));
            (0..STUCK).for_each(|_| give_up(1, &stuck));
            let most = (0..STUCK).map(|_| {
                give_up(2, &counted);
                // SAFETY: the buffer lives until the call is over.
                unsafe { comm.send_raw(ConstBuf::contiguous([7u8; 8].as_ptr(), 8), 0, 2, Mode::Standard) }
                    .unwrap();
                comm.progress();
                Arc::strong_count(&counted) - 1
            });
            let most = most.max().unwrap();
            assert_eq!(Arc::strong_count(&stuck), 1 + STUCK);
            comm.revoke();
            most
        });
        let most = kept.unwrap()[0];
        assert!((1..=MOST).contains(&most), "{most}");
    }
}
