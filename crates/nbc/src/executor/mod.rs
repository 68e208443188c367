//! Runs schedules: the user's side (post, release) and the list machinery. [`run`] holds what handlers reach.
//!
//! # Implementation details
//!
//! A schedule in work occupies a slot whose index is part of the cookies of its requests. Steps that can run stand in
//! their schedule's ready list, schedules with ready steps in one queue that is served in turn, all of it linked through
//! indices in memory that exists since the post. User operators that a handler meets are put into a second list, which
//! the next pass outside a handler takes up.

mod begin;
mod board;
mod copied;
mod elsewhere;
mod gates;
mod kept;
mod list;
mod long;
mod look;
mod prepare;
mod refused;
mod release;
mod rounds;
mod run;
mod seat;
mod slices;
mod tenancy;
mod wanted;

use crate::board::Call;
use crate::messages::Messages;
use crate::schedule::{Kind, NONE, Schedule};
use crate::table::Origin;
use crate::trace::Started;
use crate::{Error, Group};
pub use begin::Posted;
pub use copied::Copied;
use kept::Kept;
use list::{Link, Queue, StepList};
use long::Posts;
use seat::{Place, Scratch, Seat};
pub(crate) use slices::{next_of_pieces, room};
use std::ptr::NonNull;
use std::sync::Arc;
use tocsin_progress::Trace;
use tocsin_progress::budget::{Budget, Context, Pass};
use tocsin_progress::completion::{Code, Completion, Outcome};
use tocsin_progress::slots::{Id, Slots};
use tocsin_sync::clock::now_ns;

/// The cookie of a request has 24 bits for the slot and 24 for the step.
const MOST_SLOTS: u32 = 1 << 24;

/// Where a schedule is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Prepared, or ended and restartable.
    Resting,
    Running,
    /// It has failed, and a peer still copies from or to its memory.
    Closing,
}

/// A schedule that is prepared, running or ended.
struct Active {
    schedule: Option<Box<Schedule>>,
    /// What is done on a board, with or without a schedule.
    call: Option<Call>,
    /// What must live as long as the schedule: buffers and operators of a request that was detached.
    kept: Option<Box<dyn Send>>,
    context: u32,
    sequence: u32,
    /// Its end waits for the board that it is on, if it goes by messages beside that.
    takes_out: bool,
    /// Counts starts: cookies of an earlier run are not taken for this one's.
    run: u16,
    /// Its name in the trace, and when it started; 0 if nobody records that.
    instance: u16,
    begun: u64,
    stage: Stage,
    /// Of one that closes: how it ends, and how many messages are to be over first.
    failed: Outcome,
    closing: u32,
    /// Value of [`Messages::failures`] at which all members were found alive.
    alive_at: Option<u64>,
    detached: bool,
    /// Somebody is to hear of the end of its messages: see `wanted`.
    wanted: bool,
    ready: StepList,
    deferred: StepList,
    /// Links of the queues of schedules.
    in_ready_queue: bool,
    next_ready: u32,
    in_deferred_queue: bool,
    next_deferred: u32,
    in_gated_queue: bool,
    next_gated: u32,
    next_garbage: u32,
    /// In the line of its board.
    place: Place,
}

impl Active {
    /// Whether messages of it are not over, all of it or beside a board.
    fn has_messages(&self) -> bool {
        self.schedule.as_ref().is_some_and(|schedule| schedule.remaining > 0)
    }

    /// Whether all of what it does on a board is posted, as far as its place says.
    fn is_posted_whole(&self, place: &Place) -> bool {
        place.posted && self.call.as_ref().is_none_or(|call| call.followers() <= place.ahead)
    }

    fn new() -> Active {
        Active {
            schedule: None,
            call: None,
            kept: None,
            context: 0,
            sequence: 0,
            takes_out: false,
            run: 0,
            instance: 0,
            begun: 0,
            stage: Stage::Resting,
            failed: Outcome::default(),
            closing: 0,
            alive_at: None,
            detached: false,
            wanted: false,
            ready: StepList::EMPTY,
            deferred: StepList::EMPTY,
            in_ready_queue: false,
            next_ready: NONE,
            in_deferred_queue: false,
            next_deferred: NONE,
            in_gated_queue: false,
            next_gated: NONE,
            next_garbage: NONE,
            place: Place::NOWHERE,
        }
    }
}

/// The collectives of one rank. Used under the rank's engine token.
pub struct Nbc {
    slots: Slots<Active, Completion>,
    ready: Queue,
    deferred: Queue,
    /// Those with levels of a tree that this rank does itself, in its next call.
    gated: Queue,
    /// Detached schedules that have ended, linked by `next_garbage`.
    garbage: u32,
    /// [`Messages::failures`] as last seen.
    failures: u64,
    running: usize,
    copied: Copied,
    trace: Option<Arc<Trace>>,
    /// The next start's name in the trace.
    instance: u16,
    /// The boards, by the numbers that groups name.
    seats: Vec<Seat>,
    /// Seats with a line.
    waiting: u32,
    /// Seats that have members to be rung.
    telling: u32,
    /// Seats of communicators of which something has gone by messages.
    exposed: u32,
    /// How many that go by messages are wanted: see `wanted`.
    wanting: u32,
    /// A handler has met a user operator on a board.
    deferred_on_board: bool,
    /// Something has left its line, and what stands behind it may go on.
    moved_up: bool,
    scratch: Scratch,
    kept: Kept,
}

impl Default for Nbc {
    fn default() -> Nbc {
        Nbc::new()
    }
}

impl Nbc {
    /// No collectives yet.
    pub fn new() -> Nbc {
        Nbc {
            slots: Slots::with_shared(Active::new, Completion::new),
            ready: Queue::EMPTY,
            deferred: Queue::EMPTY,
            gated: Queue::EMPTY,
            garbage: NONE,
            failures: 0,
            running: 0,
            copied: Copied::default(),
            trace: None,
            instance: 0,
            seats: Vec::new(),
            waiting: 0,
            telling: 0,
            exposed: 0,
            wanting: 0,
            deferred_on_board: false,
            moved_up: false,
            scratch: Scratch::default(),
            kept: Kept::default(),
        }
    }

    /// Has collectives and their steps recorded from now on: [`trace`](crate::trace). User threads only.
    pub fn set_trace(&mut self, trace: Option<Arc<Trace>>) {
        self.trace = trace;
    }

    /// Posts a collective: [`prepare`](Self::prepare) and [`start`](Self::start). Every rank of the communicator posts
    /// its collectives in the same order, each with the next `sequence`.
    ///
    /// User threads only. When it returns, every step that waits for nothing has been run, so that handlers alone can do
    /// the rest.
    ///
    /// # Safety
    /// The buffers and operators that the schedule was compiled for stay valid, and the buffers untouched as MPI
    /// demands (what is sent is not written, what is received into not used), until the completion is done or this
    /// `Nbc` and the layer below are dropped.
    ///
    /// # Errors
    /// Memory or a peer refused; nothing has been sent then.
    pub unsafe fn post<M: Messages>(
        &mut self,
        messages: &mut M,
        schedule: Box<Schedule>,
        context: u32,
        sequence: u32,
    ) -> Result<Id, Error> {
        let id = self.prepare_for(messages, schedule, context, Posts::Now)?;
        // SAFETY: - buffers: promised by the caller.
        unsafe { self.run(messages, id, sequence)? };
        Ok(id)
    }

    /// Posts a collective as one like it was posted before, if its schedule was kept: [`post`](Self::post) without the compiling. `None`:
    /// it has to be compiled.
    ///
    /// # Safety
    /// As [`post`](Self::post), for the buffers that `origin` names.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    pub unsafe fn post_again<M: Messages>(
        &mut self,
        messages: &mut M,
        origin: &Origin,
        context: u32,
        sequence: u32,
    ) -> Result<Option<Id>, Error> {
        self.collect(messages);
        let Some(schedule) = self.kept.take(origin) else { return Ok(None) };
        let id = self.occupy(messages, schedule, context)?;
        // SAFETY: - promised by the caller.
        match unsafe { self.start(messages, id, sequence) } {
            Ok(()) => Ok(Some(id)),
            Err(error) => {
                self.free(messages, id);
                Err(error)
            }
        }
    }

    /// Starts a prepared schedule, or one whose last run has ended. Allocates nothing, shared memory neither, but for a peer that
    /// has come since the schedule was prepared and is rung for the first time. User threads only, because all that waits for nothing is
    /// run at once, whatever its size, user operators included.
    ///
    /// # Safety
    /// As [`post`](Self::post).
    ///
    /// # Errors
    /// [`Error::BadHandle`] for a schedule that runs or was released; a peer refused. Nothing has been sent then.
    pub unsafe fn start<M: Messages>(
        &mut self,
        messages: &mut M,
        id: Id,
        sequence: u32,
    ) -> Result<(), Error> {
        // SAFETY: - promised by the caller.
        if unsafe { self.start_short(messages, id, sequence) } {
            return Ok(());
        }
        if let Some(schedule) = self.slots.get(id).and_then(|active| active.schedule.as_deref()) {
            // How a peer is rung could not be known before it had joined.
            for step in &schedule.steps {
                if let Kind::Send { peer, .. } | Kind::Recv { peer, .. } = step.kind {
                    messages.prepare_peer(peer, 0)?;
                }
            }
            if let Some(call) = schedule.board {
                self.prepare_rings(messages, call.board);
                if call.long {
                    self.prepare_long(messages, &call, Posts::Now)?;
                }
            }
        }
        // SAFETY: - promised by the caller.
        unsafe { self.run(messages, id, sequence) }
    }

    /// Starts what is prepared, its peers too.
    ///
    /// # Safety
    /// As [`post`](Self::post).
    unsafe fn run<M: Messages>(&mut self, messages: &mut M, id: Id, sequence: u32) -> Result<(), Error> {
        let of_split =
            |active: &Active| active.schedule.as_ref().is_some_and(|schedule| schedule.split.is_some());
        let is_split = self.slots.get(id).is_some_and(of_split);
        if is_split {
            // Those of others may be what this one waits for inside the call. Before it runs: what is left of its last run opens nothing of this one.
            self.recall_gated();
        }
        let Some((active, completion)) = self.slots.both_mut(id) else {
            return Err(Error::BadHandle("was released before"));
        };
        let Some(schedule) = active.schedule.as_mut() else {
            return Err(Error::BadHandle("was released before"));
        };
        if active.stage != Stage::Resting {
            return Err(Error::BadHandle("is still running; wait for it before you start it again"));
        }
        completion.reset();
        schedule.rewind();
        active.sequence = sequence;
        active.run = active.run.wrapping_add(1);
        active.stage = Stage::Running;
        if let Some(trace) = &self.trace {
            let of = (active.context, sequence, schedule.algorithm);
            (active.instance, active.begun) = record_start(trace, &mut self.instance, of, &schedule.group);
        }
        for i in 0..schedule.initial.len() {
            let step = schedule.initial[i];
            active.ready.push(&mut schedule.state, step);
        }
        self.running += 1;
        let is_empty = schedule.is_empty();
        let has_steps = !schedule.steps.is_empty();
        active.takes_out = active.call.as_ref().is_some_and(Call::takes_out);
        if let Some(call) = &mut active.call {
            call.rewind();
            call.number(sequence);
            // SAFETY: promised by the caller.
            unsafe { call.pack(schedule.group.rank() as usize) };
        }
        let board = active.call.map(|call| call.board);
        let mut beside = schedule.group.board().filter(|_| board.is_none());
        let context = active.context;
        let failures = Some(messages.failures());
        let dead = match active.alive_at == failures {
            true => None,
            false => failed_member(messages, &schedule.group),
        };
        if dead.is_none() {
            active.alive_at = failures;
        }
        let seat = beside.and_then(|at| self.seats.get_mut(at as usize));
        let refused = seat.and_then(|seat| seat.begin_elsewhere(sequence));
        let refused = refused.map(|outcome| or_death(messages, &schedule.group, outcome));
        if refused.is_some() {
            beside = None;
        }
        if let Some(at) = board.filter(|_| has_steps) {
            self.expose(at, context);
        }
        match dead.or(refused) {
            Some(outcome) => self.end(id, outcome),
            None if is_empty => self.end(id, Outcome::default()),
            None => match board {
                Some(at) if self.line_up(id, at) => {
                    let seat = self.seats.get(at as usize);
                    let refused = Outcome { code: Code::Protocol, ..Outcome::default() };
                    let disagreed = |seat: &Seat| or_death(messages, &seat.group, seat.disagree(seat.blamed));
                    self.end(id, seat.map_or(refused, disagreed));
                }
                Some(at) => {
                    while self.advance(messages, at, &mut Budget::user(), true) == Pass::More {}
                    if !has_steps {
                        return Ok(());
                    }
                    self.ready.push(&mut self.slots, id.index, Link::Ready);
                }
                None => self.ready.push(&mut self.slots, id.index, Link::Ready),
            },
        }
        if is_split {
            self.begin_split(id);
        }
        while self.progress(messages, &mut Budget::user()) == Pass::More {}
        if let Some(at) = beside {
            self.go_elsewhere(messages, at, context, sequence);
        }
        Ok(())
    }

    /// The completion of a collective, valid as long as this `Nbc`; any thread may look at it without the token. A
    /// start resets it. Handler-safe.
    pub fn completion(&self, id: Id) -> Option<NonNull<Completion>> {
        self.slots.shared_pointer(id)
    }

    /// Collectives that have not ended, detached ones included. Handler-safe.
    pub fn outstanding(&self) -> usize {
        self.running
    }

    /// The contexts of the collectives that have not ended, once for each.
    pub fn used(&self) -> impl Iterator<Item = u32> + '_ {
        let active = |id| self.slots.get(id).filter(|active| active.stage != Stage::Resting);
        self.slots.ids().filter_map(active).map(|active| active.context)
    }

    /// Whether steps with user operators wait for a pass outside handlers. Handler-safe.
    pub fn has_deferred_user_steps(&self) -> bool {
        !self.deferred.is_empty() || self.deferred_on_board
    }

    /// Whether [`progress`](Self::progress) has steps to run, whatever arrives. Handler-safe.
    pub fn work_left(&self) -> bool {
        !self.ready.is_empty() || self.boards_left()
    }

    /// Whether members of running collectives may have ended since the last pass. Handler-safe.
    pub fn has_news<M: Messages>(&self, messages: &M) -> bool {
        self.failures != messages.failures()
    }

    /// Length in bytes of the longest message of a prepared schedule; 0 if it is none.
    pub fn longest_message(&self, id: Id) -> usize {
        let schedule = self.slots.get(id).and_then(|active| active.schedule.as_deref());
        let lengths = schedule.into_iter().flat_map(|schedule| &schedule.steps).map(|step| match step.kind {
            Kind::Send { bytes, .. } | Kind::Recv { bytes, .. } => bytes,
            _ => 0,
        });
        lengths.max().unwrap_or(0)
    }

    /// Bytes copied and combined so far, by who did it.
    pub fn copied(&self) -> Copied {
        self.copied
    }
}

impl std::fmt::Debug for Nbc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nbc").field("running", &self.running).finish_non_exhaustive()
    }
}

/// Says in the trace that a collective (context, sequence, algorithm) starts: its instance and the time.
#[cold]
fn record_start(
    trace: &Trace,
    instance: &mut u16,
    (context, sequence, algorithm): (u32, u32, u16),
    group: &Group,
) -> (u16, u64) {
    *instance = instance.wrapping_add(1);
    let now = now_ns();
    let first_rank = group.world_ranks().first().map_or(0, |first| *first as u16);
    let (instance, ranks) = (*instance, group.size() as u16);
    let started = Started { instance, algorithm, ranks, first_rank, context, sequence };
    let [a, b] = started.words();
    trace.record_at(now, crate::trace::STARTED, a, b);
    (instance, now)
}

/// How a collective of this group ends, if a member is dead. Handler-safe.
fn failed_member<M: Messages>(messages: &M, group: &Group) -> Option<Outcome> {
    let (source, code) = messages.failed_among(group.world_ranks())?;
    Some(Outcome { code, source, ..Outcome::default() })
}

/// How a collective of this group ends for what looks like a disagreement: a member that has heard of a death goes on with what comes
/// later, or has given up, while this rank has yet to hear of it. Handler-safe.
fn or_death<M: Messages>(messages: &M, group: &Group, outcome: Outcome) -> Outcome {
    if outcome.code != Code::Protocol {
        return outcome;
    }
    let blamed = messages.blame(group.world_ranks());
    blamed.map_or(outcome, |(source, code)| Outcome { code, source, ..Outcome::default() })
}

const fn is_handler(context: Context) -> bool {
    matches!(context, Context::Handler)
}
