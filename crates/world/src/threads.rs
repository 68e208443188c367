//! Ranks as threads of this process.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tocsin_shm_transport::Segment;
use tocsin_topology::Relation;

use crate::bootstrap::{Bootstrap, InProcess, Place, ProgressCores, segment_error};
use crate::comm::Comm;
use crate::config::{Config, Seat, cores_of, dedicated_of, sharers_of};
use crate::error::Error;
use crate::memory::segment_for;
use crate::places;
use crate::trace;
use crate::world::World;

/// Runs `f` on `ranks` threads, each a rank of one world; gives what each returned, by rank.
///
/// A rank that panics is a dead rank: operations of the others that need it fail with [`Error::PeerDead`].
///
/// # Errors
/// [`Error::RankPanicked`] naming the first rank that panicked; wrong configuration; refusals of the system.
pub fn threads<R: Send, F: Fn(Comm) -> R + Sync>(ranks: u32, config: &Config, f: F) -> Result<Vec<R>, Error> {
    threads_each(ranks, config, f)?.into_iter().collect()
}

/// As [`threads`], with one result per rank: a rank that panicked is an error of its own.
///
/// # Errors
/// Wrong configuration and refusals of the system before any rank ran.
pub fn threads_each<R: Send, F: Fn(Comm) -> R + Sync>(
    ranks: u32,
    config: &Config,
    f: F,
) -> Result<Vec<Result<R, Error>>, Error> {
    threads_telling(ranks, config, f, |_, _| ())
}

/// As [`threads_each`], for ranks that wait for each other elsewhere than in the library: `failed` hears of a rank that does not join, or
/// panics, when it happens, on that rank's thread.
///
/// # Errors
/// As [`threads_each`].
pub fn threads_telling<R: Send, F: Fn(Comm) -> R + Sync>(
    ranks: u32,
    config: &Config,
    f: F,
    failed: impl Fn(u32, &Error) + Sync,
) -> Result<Vec<Result<R, Error>>, Error> {
    config.usable_backend()?;
    trace::check(config)?;
    if ranks == 0 {
        let what = "0 ranks make no world: start at least 1".into();
        return Err(Error::InvalidArgument { operation: "threads", what });
    }
    let (seats, machine) = config.seats_on(ranks)?;
    let (cores, relation) = (cores_of(&seats), config.relation(&seats));
    let dedicated = dedicated_of(&seats);
    let progress_cores: Arc<ProgressCores> = Arc::default();
    let segment = segment_for(ranks, config.arena(ranks), &seats).map_err(segment_error)?;
    places::note(&segment, &seats, machine.as_ref());
    let segment = Arc::new(segment);
    let of_ranks = config.for_ranks();
    let (f, failed, of_ranks) = (&f, &failed, &of_ranks);
    let gate = &Gate::new();
    let results = std::thread::scope(|scope| {
        let mut handles = Vec::with_capacity(ranks as usize);
        for rank in 0..ranks {
            let at = seats.get(rank as usize).copied().unwrap_or_default();
            let sharers = sharers_of(&seats, at, config.progress);
            let of_process = progress_cores.clone();
            let segment = segment.clone();
            let member = Member { segment, rank, at, cores, relation, sharers, dedicated, of_process };
            let started =
                std::thread::Builder::new().name(format!("rank-{rank}")).spawn_scoped(scope, move || {
                    match gate.pass() {
                        true => member.run(of_ranks, f).inspect_err(|error| failed(rank, error)),
                        // Nobody reads it: who started the threads gives its own error.
                        false => Err(Error::Finalized { operation: "threads" }),
                    }
                });
            match started {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    // Those that have started end without a rank; the scope waits for them.
                    gate.open(false);
                    return Err(refused(rank, ranks, &error));
                }
            }
        }
        gate.open(true);
        let ended = handles
            .into_iter()
            .zip(0..)
            .map(|(handle, rank)| handle.join().unwrap_or_else(|panic| Err(panicked(rank, panic))));
        Ok(ended.collect())
    })?;
    if let Some(path) = &config.trace {
        trace::join(path, config.trace_format, ranks);
    }
    Ok(results)
}

fn refused(rank: u32, ranks: u32, error: &std::io::Error) -> Error {
    Error::System {
        operation: format!("starting the thread of rank {rank} of {ranks}"),
        reason: format!(
            "{error}: start fewer ranks, or raise the limit of processes or of memory (ulimit -u, ulimit -v, cgroup pids.max)"
        ),
    }
}

/// What the threads of the ranks wait for: no rank begins before all threads have started, because one that begins
/// waits for all others.
struct Gate {
    /// Whether the ranks may run, once that is known.
    open: Mutex<Option<bool>>,
    changed: Condvar,
}

impl Gate {
    fn new() -> Gate {
        Gate { open: Mutex::new(None), changed: Condvar::new() }
    }

    fn open(&self, run: bool) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(run);
        self.changed.notify_all();
    }

    /// Waits until it is known whether the ranks may run.
    fn pass(&self) -> bool {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match *open {
                Some(run) => return run,
                None => open = self.changed.wait(open).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

struct Member {
    segment: Arc<Segment>,
    rank: u32,
    at: Seat,
    cores: Option<usize>,
    relation: Option<Relation>,
    sharers: u32,
    dedicated: u32,
    of_process: Arc<ProgressCores>,
}

impl Bootstrap for &Member {
    fn place(self) -> Result<Place, Error> {
        let mut place = InProcess { segment: self.segment.clone(), rank: self.rank }.place()?;
        (place.cpu, place.progress, place.cores) = (self.at.cpu, self.at.progress, self.cores);
        (place.relation, place.dedicated) = (self.relation, self.dedicated);
        (place.sharers, place.progress_cores) = (self.sharers, self.of_process.clone());
        Ok(place)
    }
}

impl Member {
    fn run<R>(self, config: &Config, f: &impl Fn(Comm) -> R) -> Result<R, Error> {
        if let Some(cpu) = self.at.cpu {
            // Placement is a wish, never a reason to fail.
            let _refused = tocsin_topology::bind_thread(cpu);
        }
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let world = World::join(&self, config)?;
            let result = f(world.comm());
            // What could not be drained was for ranks that are gone, and they report themselves.
            let _drained = world.finalize();
            Ok(result)
        }));
        // A world that was never joined is no partner to wait for either.
        gone(&self.segment, self.rank);
        ran.unwrap_or_else(|panic| Err(panicked(self.rank, panic)))
    }
}

/// Marks a rank dead that has not finalized. A child of fork() says nothing of its parent's rank.
pub(crate) fn gone(segment: &Segment, rank: u32) {
    if !tocsin_doorbell::fork::disowned() && segment.mark_dead(rank) {
        segment.wake_all();
    }
}

fn panicked(rank: u32, panic: Box<dyn Any + Send>) -> Error {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        // Its own drop could panic again: leak it.
        std::mem::forget(again);
    }
    Error::RankPanicked { rank, message: text.unwrap_or_else(|| "no text".into()) }
}
