//! What each schedule does with ranks that have something to do, and with those that have not.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::budget::Budget;
use crate::completion::{Completion, Outcome};
use crate::engine::EngineConfig;
use crate::stats::Stats;
use std::cell::Cell;
use std::sync::Mutex;
use tocsin_doorbell::{BackendKind, Config, Descriptor, Mark, Receiver, Urgency, ring};
use tocsin_sync::atomic::{AtomicU64, fence};

/// A rank's lane and what it does with it: item `n` of rank `r` is passed on to the rank after it.
struct Lane {
    descriptor: Descriptor,
    mark: Mark,
    posted: AtomicU64,
    handled: AtomicU64,
    /// Whether the rank has an operation under way.
    operating: AtomicBool,
    /// Done with the first item; whether its callback has run.
    completion: Completion,
    called: AtomicBool,
}

impl Lane {
    fn post(&self) {
        self.posted.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let _outcome = ring(&self.descriptor, &self.mark, 0, Urgency::Urgent);
    }
}

struct Passing {
    lane: Arc<Lane>,
    next: Option<Arc<Lane>>,
    to_send: u64,
}

// SAFETY: loads, stores and rings.
unsafe impl Work for Passing {
    fn progress(&mut self, budget: &mut Budget) -> Pass {
        let mut found = Pass::Idle;
        self.lane.mark.clear_if_set();
        fence(Ordering::SeqCst);
        while self.work_left() {
            if !budget.packet() {
                return Pass::More;
            }
            if self.lane.handled.fetch_add(1, Ordering::Relaxed) == 0 {
                self.lane.completion.finish(Outcome::default());
            }
            self.to_send += 1;
            found = Pass::Worked;
        }
        found
    }

    fn leave(&mut self) {
        for _ in 0..std::mem::take(&mut self.to_send) {
            if let Some(next) = &self.next {
                next.post();
            }
        }
    }

    fn wants_plain(&self) -> bool {
        true
    }

    fn wants_offers(&self) -> bool {
        false
    }

    fn has_operations(&self) -> bool {
        self.lane.operating.load(Ordering::Relaxed)
    }

    fn work_left(&self) -> bool {
        self.lane.handled.load(Ordering::Relaxed) < self.lane.posted.load(Ordering::Relaxed)
    }
}

/// Ranks whose progress threads share a core.
struct World {
    threads: Vec<ProgressThread>,
    _receivers: Vec<Receiver>,
    engines: Vec<Arc<Engine<Passing>>>,
    lanes: Vec<Arc<Lane>>,
    core: Arc<ProgressCore<Passing>>,
}

impl World {
    /// All operating.
    fn new(ranks: usize, schedule: Schedule) -> World {
        World::with(ranks, schedule, true)
    }

    fn with(ranks: usize, schedule: Schedule, operating: bool) -> World {
        let lane = |_| {
            Arc::new(Lane {
                descriptor: Descriptor::new(),
                mark: Mark::new(),
                posted: AtomicU64::new(0),
                handled: AtomicU64::new(0),
                operating: AtomicBool::new(operating),
                completion: Completion::new(),
                called: AtomicBool::new(false),
            })
        };
        let lanes: Vec<Arc<Lane>> = (0..ranks).map(lane).collect();
        let engine = |(at, lane): (usize, &Arc<Lane>)| {
            let work = Passing { lane: lane.clone(), next: lanes.get(at + 1).cloned(), to_send: 0 };
            // SAFETY: the work keeps the descriptor.
            let own = unsafe { Own::new(&lane.descriptor) };
            let config = EngineConfig { callback_thread: false, ..EngineConfig::default() };
            Arc::new(Engine::new(work, own, config, Arc::new(Stats::new())))
        };
        let engines: Vec<_> = lanes.iter().enumerate().map(engine).collect();
        let receiver = |(lane, engine): (&Arc<Lane>, &Arc<Engine<Passing>>)| {
            let context = Arc::as_ptr(engine).cast::<()>();
            let config = Config::new(BackendKind::Thread);
            // SAFETY: the world drops its receivers before its engines and lanes.
            unsafe { Receiver::install(&lane.descriptor, &config, Engine::<Passing>::handler_entry, context) }
                .unwrap()
        };
        let receivers = lanes.iter().zip(&engines).map(receiver).collect();
        let core = Arc::new(ProgressCore::new(true));
        let spawn = |engine: &Arc<Engine<Passing>>| {
            ProgressThread::spawn_on(&core, engine.clone(), Some(0), schedule).unwrap()
        };
        World { threads: engines.iter().map(spawn).collect(), _receivers: receivers, engines, lanes, core }
    }

    fn turns(&self, rank: usize) -> u64 {
        self.engines[rank].stats().snapshot().turns
    }

    /// Rank 0's turns and those of the rest of the core, at one moment: while the one is read the others do not change.
    fn turns_and_rests(&self) -> (u64, u64) {
        let read = Cell::new((0, 0));
        self.until("a moment without a turn of the rest", || {
            let rests = self.core.turns.rests();
            read.set((self.turns(0), rests));
            self.core.turns.rests() == rests
        });
        read.get()
    }

    fn until(&self, what: &str, done: impl Fn() -> bool) {
        let begun = std::time::Instant::now();
        while !done() {
            assert!(begun.elapsed().as_secs() < 60, "{what} never came: {:?}", self.state());
            std::thread::yield_now();
        }
    }

    /// Of each rank: items posted and handled, turns, attention.
    fn state(&self) -> Vec<impl std::fmt::Debug> {
        let of = |(lane, rank): (&Arc<Lane>, usize)| {
            let [posted, handled] = [&lane.posted, &lane.handled].map(|n| n.load(Ordering::Relaxed));
            (posted, handled, self.turns(rank), lane.descriptor.attention())
        };
        self.lanes.iter().zip(0..).map(of).collect()
    }

    fn is_asleep(&self, rank: usize) -> bool {
        let attention = self.lanes[rank].descriptor.attention();
        attention.sleepers() == 1 && attention.pollers() == 0
    }

    /// The rank posts: an operation begins or all are over.
    fn operate(&self, rank: usize, operating: bool) {
        let mut inside = self.engines[rank].enter();
        let work: &mut Passing = &mut inside;
        work.lane.operating.store(operating, Ordering::Relaxed);
    }

    /// Nothing of it looks or sleeps any more.
    fn stop(mut self) {
        self.threads.clear();
        for lane in &self.lanes {
            let attention = lane.descriptor.attention();
            assert_eq!((attention.pollers(), attention.sleepers()), (0, 0));
        }
    }
}

const ALL: [Schedule; 6] = [
    Schedule::Event,
    Schedule::RoundRobin,
    Schedule::Suspend,
    Schedule::Semaphore,
    Schedule::Priority(3),
    Schedule::Priority(0),
];

/// However they are scheduled, what comes is passed on from rank to rank.
#[test]
fn a_chain_goes_through_under_every_schedule() {
    for schedule in ALL {
        let world = World::new(5, schedule);
        for n in 1..=40 {
            world.lanes[0].post();
            world.until(&format!("the end of the chain, {schedule}"), || {
                world.lanes[4].handled.load(Ordering::Relaxed) == n
            });
            if n % 10 == 0 && matches!(schedule, Schedule::Event | Schedule::Semaphore) {
                world.until("sleep", || (0..5).all(|rank| world.is_asleep(rank)));
            }
        }
        // Many at once, at all of them.
        for n in 0..1000 {
            world.lanes[n % 5].post();
        }
        world.until("the rest", || world.lanes[4].handled.load(Ordering::Relaxed) == 1040);
        world.stop();
    }
}

#[test]
fn a_finished_rank_has_no_turns_before_it_posts_again() {
    let world = World::with(3, Schedule::Suspend, false);
    world.until("sleep", || (0..3).all(|rank| world.is_asleep(rank)));
    assert_eq!([0, 1, 2].map(|rank| world.turns(rank)), [0; 3]);
    world.operate(0, true);
    world.until("turns of rank 0", || world.turns(0) >= 2000);
    assert_eq!([1, 2].map(|rank| world.turns(rank)), [0; 2], "while rank 0 had 2000");
    world.operate(1, true);
    world.until("turns of rank 1", || world.turns(1) >= 1000);
    world.operate(0, false);
    world.until("the end of rank 0's", || world.is_asleep(0));
    let (finished, going) = (world.turns(0), world.turns(1));
    // What its peers send it is no operation of its own.
    world.lanes[0].post();
    world.until("turns of rank 1", || world.turns(1) >= going + 2000);
    assert_eq!((world.turns(0), world.turns(2)), (finished, 0));
    world.stop();
}

/// What `suspend` is compared with: here it has as many turns as the others.
#[test]
fn round_robin_runs_finished_ranks_too() {
    let world = World::with(2, Schedule::RoundRobin, false);
    world.operate(0, true);
    world.until("both", || world.turns(0) > 0 && world.turns(1) > 0);
    let before = [0, 1].map(|rank| world.turns(rank));
    world.until("turns", || world.turns(0) >= before[0] + 2000);
    let [busy, finished] = [0, 1].map(|rank| world.turns(rank) - before[rank]);
    // But for a turn that was overdue.
    assert!(finished * 10 >= busy * 9, "{busy} turns, and {finished} of the finished rank");
    world.stop();
}

#[test]
fn a_semaphore_runs_for_events_only() {
    let world = World::new(2, Schedule::Semaphore);
    for n in 1..=50 {
        world.until("sleep", || world.is_asleep(0) && world.is_asleep(1));
        let turns = world.turns(1);
        world.lanes[1].post();
        world.until("its pass", || world.lanes[1].handled.load(Ordering::Relaxed) == n);
        // The pass may have come on the way to sleep, where the thread counts as asleep already: the next one, too, before this turn.
        world.until("its turn", || world.turns(1) > turns);
    }
    world.until("sleep", || world.is_asleep(1));
    let (idle, busy) = (world.turns(0), world.turns(1));
    assert_eq!(idle, 0, "nothing has come for rank 0");
    // A wake may come after what it was for was found.
    assert!((50..=100).contains(&busy), "{busy} turns for 50 events");
    world.stop();
}

#[test]
fn by_priority_the_rest_of_the_core_waits_for_longer() {
    for base in [0, 4] {
        let world = World::new(1, Schedule::Priority(base));
        let (turns, rests) = world.turns_and_rests();
        world.until("turns", || world.turns(0) >= turns + 3000);
        let now = world.turns_and_rests();
        let each = (now.0 - turns) as f64 / (now.1 - rests) as f64;
        let right = f64::from(base) + 1.0;
        assert!((each / right - 1.0).abs() < 0.02, "{each} turns for each one of the rest, base {base}");
        world.stop();
    }
}

/// Who is woken serves all: the others are asleep meanwhile, and have no turns.
#[test]
fn one_thread_of_a_crew_is_woken() {
    let world = World::new(8, Schedule::Event);
    world.until("sleep", || (0..8).all(|rank| world.is_asleep(rank)));
    let before: Vec<u64> = (0..8).map(|rank| world.turns(rank)).collect();
    for n in 1..=50 {
        world.lanes[0].post();
        world.until("the end of the chain", || world.lanes[7].handled.load(Ordering::Relaxed) == n);
        world.until("sleep", || (0..8).all(|rank| world.is_asleep(rank)));
    }
    let others: u64 = (1..8).map(|rank| world.turns(rank) - before[rank]).sum();
    let first = world.turns(0) - before[0];
    // Its thread may find an item before it says that it serves; then the next one's is woken, and may come so late that it serves
    // the next item of the first.
    assert!(
        first + others >= 50 && others <= 350 / 2,
        "{first} turns of the first, {others} of the others for 350 hops"
    );
    world.stop();
}

/// A callback that waits for another rank's progress does not keep that from it.
#[test]
fn a_callback_that_waits_stops_nobody_else() {
    for schedule in ALL {
        let world = World::new(2, schedule);
        let (lane, waited) = (world.lanes[1].clone(), world.lanes[0].clone());
        let call = Box::new(move |_: Outcome| {
            lane.post();
            // This one, and the item that rank 0 passes on.
            while lane.handled.load(Ordering::Relaxed) < 2 {
                std::thread::yield_now();
            }
            waited.called.store(true, Ordering::Relaxed);
        });
        world.engines[0].callbacks().set(&world.lanes[0].completion, call).unwrap();
        world.lanes[0].post();
        world.until("the callback", || world.lanes[0].called.load(Ordering::Relaxed));
        world.stop();
    }
}

/// Callbacks may last, and who is counted on to look, or to be woken, does neither meanwhile: a ring wakes the rank's other threads then.
#[test]
fn nobody_counts_on_a_thread_that_runs_callbacks() {
    for (schedule, operating) in ALL.into_iter().flat_map(|schedule| [(schedule, true), (schedule, false)]) {
        let world = World::with(1, schedule, operating);
        let lane = &world.lanes[0];
        let seen = Arc::new(Mutex::new(Vec::new()));
        let call = |then: fn(&Lane)| {
            let (lane, seen) = (lane.clone(), seen.clone());
            Box::new(move |_: Outcome| {
                let attention = lane.descriptor.attention();
                seen.lock().unwrap().push((attention.pollers(), attention.sleepers()));
                then(&lane);
            })
        };
        let first = Completion::new();
        // Its item is found by the look before the thread sleeps, if that sleeps, and then the second one is called.
        let first_call = call(|lane| {
            lane.operating.store(true, Ordering::Relaxed);
            lane.posted.fetch_add(1, Ordering::Relaxed);
        });
        let second_call = call(|lane| lane.called.store(true, Ordering::Release));
        world.engines[0].callbacks().set(&first, first_call).unwrap();
        world.engines[0].callbacks().set(&lane.completion, second_call).unwrap();
        first.finish(Outcome::default());
        world.engines[0].own().wake_own();
        world.until("both", || lane.called.load(Ordering::Acquire));
        assert_eq!(*seen.lock().unwrap(), [(0, 0); 2], "{schedule}, operating: {operating}");
        world.stop();
    }
}

/// Its thread goes while it serves a rank that has much to do, whose own thread takes over.
#[test]
fn a_server_that_stops_leaves_nothing_behind() {
    const MANY: u64 = 20_000_000;
    for _ in 0..5 {
        let mut world = World::new(2, Schedule::Event);
        world.until("sleep", || (0..2).all(|rank| world.is_asleep(rank)));
        // As if it were rung while rank 0's thread is seen polling for it.
        world.lanes[1].posted.store(MANY, Ordering::Relaxed);
        world.lanes[0].post();
        world.until("start", || world.lanes[1].handled.load(Ordering::Relaxed) > 100_000);
        drop(world.threads.remove(0));
        world.until("go on", || world.lanes[1].handled.load(Ordering::Relaxed) >= MANY);
        world.stop();
    }
}

/// Rank 0's message is taken in by rank 1's thread, which goes on for its own rank while rank 0's callback waits for that.
#[test]
fn a_callback_runs_on_its_own_ranks_thread() {
    let world = World::new(2, Schedule::Event);
    world.until("sleep", || (0..2).all(|rank| world.is_asleep(rank)));
    let (lane, waited) = (world.lanes[1].clone(), world.lanes[0].clone());
    let call = Box::new(move |_: Outcome| {
        lane.post();
        let all = lane.posted.load(Ordering::Relaxed);
        let begun = std::time::Instant::now();
        while lane.handled.load(Ordering::Relaxed) < all && begun.elapsed().as_secs() < 30 {
            std::thread::yield_now();
        }
        waited.called.store(lane.handled.load(Ordering::Relaxed) >= all, Ordering::Relaxed);
        waited.operating.store(false, Ordering::Relaxed);
    });
    world.engines[0].callbacks().set(&world.lanes[0].completion, call).unwrap();
    world.lanes[0].posted.fetch_add(1, Ordering::Relaxed);
    world.lanes[1].post();
    world.until("run the callback", || !world.lanes[0].operating.load(Ordering::Relaxed));
    assert!(world.lanes[0].called.load(Ordering::Relaxed), "rank 1 stood still");
    world.stop();
}
