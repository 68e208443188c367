//! Entering, deferring and waiting with more threads than loom can try, in random orders: the code that ships
//! over a modelled kernel, and a broken variant that shuttle must catch. `ci/shuttle.sh` runs them.
#![cfg(shuttle)]
#![allow(clippy::unwrap_used)]

use shuttle::sync::Arc;
use shuttle::thread;
use std::sync::Arc as StdArc;
use tocsin_doorbell::{BackendKind, Descriptor, Mark, Own, Urgency, ring};
use tocsin_progress::token::Token;
use tocsin_progress::{Budget, Completion, Context, Engine, EngineConfig, Outcome, Pass, Stats, Work};
use tocsin_sync::atomic::{AtomicU32, Ordering, fence};

/// Random orders per model.
const ORDERS: usize = 20_000;

/// A count that threads post to and that only the token's holder may handle.
struct Shared {
    token: Token,
    posted: AtomicU32,
    handled: AtomicU32,
    inside: AtomicU32,
    armed: AtomicU32,
}

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared {
            token: Token::new(),
            posted: AtomicU32::new(0),
            handled: AtomicU32::new(0),
            inside: AtomicU32::new(0),
            armed: AtomicU32::new(0),
        })
    }

    fn pass(&self) {
        assert_eq!(self.inside.fetch_add(1, Ordering::Relaxed), 0, "two threads inside");
        let posted = self.posted.load(Ordering::Relaxed);
        self.handled.store(posted, Ordering::Relaxed);
        self.inside.fetch_sub(1, Ordering::Relaxed);
    }

    fn drain(&self, limit: u32) {
        let clean = self.token.drain(
            &mut (),
            limit,
            |()| false,
            |()| {
                self.pass();
                true
            },
        );
        if !clean {
            self.armed.store(1, Ordering::Relaxed);
        }
    }

    fn post(&self, limit: u32) {
        self.posted.fetch_add(1, Ordering::Relaxed);
        if self.token.request_or_lock() {
            self.drain(limit);
        }
    }

    /// Broken: tries first, asks when that failed.
    fn try_then_ask(&self) {
        self.posted.fetch_add(1, Ordering::Relaxed);
        if self.token.try_lock() {
            self.pass();
            self.drain(8);
        } else {
            self.token.request();
        }
    }

    fn finish(&self, expected: u32) {
        if self.armed.load(Ordering::Relaxed) > 0 && self.token.request_or_lock() {
            // The timer.
            self.drain(64);
        }
        assert_eq!(self.handled.load(Ordering::Relaxed), expected, "a request was lost");
        assert!(!self.token.is_busy(), "the token was lost");
    }
}

fn posts(threads: u32, times: u32, post: fn(&Shared)) {
    let shared = Shared::new();
    let threads_of: Vec<_> = (0..threads)
        .map(|_| {
            let shared = shared.clone();
            thread::spawn(move || (0..times).for_each(|_| post(&shared)))
        })
        .collect();
    threads_of.into_iter().for_each(|t| t.join().unwrap());
    shared.finish(threads * times);
}

#[test]
fn eight_threads_lose_no_request() {
    shuttle::check_random(|| posts(8, 4, |s| s.post(8)), ORDERS);
    shuttle::check_pct(|| posts(8, 4, |s| s.post(8)), ORDERS, 4);
}

#[test]
fn bounded_stays_leave_their_requests_to_the_timer() {
    shuttle::check_random(|| posts(6, 4, |s| s.post(1)), ORDERS);
    shuttle::check_pct(|| posts(6, 4, |s| s.post(1)), ORDERS, 4);
}

#[test]
#[should_panic(expected = "a request was lost")]
fn asking_after_trying_is_caught() {
    shuttle::check_random(|| posts(2, 1, Shared::try_then_ask), 5 * ORDERS);
}

const PEERS: usize = 3;
const MESSAGES: u32 = 2;

/// A rank with a lane and a completion per peer: message `m` of a peer finishes its completion `m`.
struct Rank {
    descriptor: Descriptor,
    marks: [Mark; PEERS],
    posted: [AtomicU32; PEERS],
    completions: [[Completion; MESSAGES as usize]; PEERS],
}

struct Finishing {
    rank: Arc<Rank>,
    /// Broken: looks without clearing the marks first.
    keeps_marks: bool,
}

// SAFETY: loads, stores, fences and completions.
unsafe impl Work for Finishing {
    fn progress(&mut self, _budget: &mut Budget) -> Pass {
        if !self.keeps_marks {
            for mark in &self.rank.marks {
                mark.clear_if_set();
            }
        }
        fence(Ordering::SeqCst);
        let mut found = Pass::Idle;
        for (posted, completions) in self.rank.posted.iter().zip(&self.rank.completions) {
            let posted = posted.load(Ordering::Relaxed) as usize;
            for completion in completions[..posted].iter().filter(|c| !c.is_done()) {
                completion.finish(Outcome::default());
                found = Pass::Worked;
            }
        }
        found
    }

    fn leave(&mut self) {}

    fn wants_plain(&self) -> bool {
        false
    }

    fn wants_offers(&self) -> bool {
        false
    }

    fn work_left(&self) -> bool {
        let lanes = self.rank.posted.iter().zip(&self.rank.completions);
        lanes.into_iter().any(|(posted, completions)| {
            let posted = posted.load(Ordering::Relaxed) as usize;
            completions[..posted].iter().any(|c| !c.is_done())
        })
    }
}

fn engine(keeps_marks: bool) -> (Arc<Rank>, Arc<Engine<Finishing>>) {
    let rank = Arc::new(Rank {
        descriptor: Descriptor::new(),
        marks: core::array::from_fn(|_| Mark::new()),
        posted: core::array::from_fn(|_| AtomicU32::new(0)),
        completions: core::array::from_fn(|_| core::array::from_fn(|_| Completion::new())),
    });
    // SAFETY: the work keeps the descriptor.
    let own = unsafe { Own::new(&rank.descriptor) };
    let config = EngineConfig { spin_ns: 0, yield_ns: 0, callback_thread: false, trace: None };
    let work = Finishing { rank: rank.clone(), keeps_marks };
    (rank, Arc::new(Engine::new(work, own, config, StdArc::new(Stats::new()))))
}

fn senders(rank: &Arc<Rank>) -> Vec<thread::JoinHandle<()>> {
    (0..PEERS)
        .map(|peer| {
            let rank = rank.clone();
            thread::spawn(move || {
                for _ in 0..MESSAGES {
                    rank.posted[peer].fetch_add(1, Ordering::Relaxed);
                    fence(Ordering::SeqCst);
                    let _outcome = ring(&rank.descriptor, &rank.marks[peer], peer as u8, Urgency::Urgent);
                }
            })
        })
        .collect()
}

/// A thread per peer waits for its messages; all sleep in the same rank.
#[test]
fn every_waiter_of_a_rank_is_woken() {
    let model = || {
        let (rank, engine) = engine(false);
        let mut threads = senders(&rank);
        for peer in 0..PEERS {
            let (rank, engine) = (rank.clone(), engine.clone());
            threads.push(thread::spawn(move || {
                for completion in &rank.completions[peer] {
                    assert!(engine.wait_until(|| completion.is_done(), None));
                }
            }));
        }
        threads.into_iter().for_each(|t| t.join().unwrap());
    };
    shuttle::check_random(model, ORDERS);
    shuttle::check_pct(model, ORDERS, 5);
}

/// Nobody waits: the modelled signal's handler makes every pass, and none is missing in the end.
fn computing_rank(keeps_marks: bool) {
    let (rank, engine) = engine(keeps_marks);
    rank.descriptor.model_install(BackendKind::Signal);
    let threads = senders(&rank);
    let computing = {
        let (rank, engine) = (rank.clone(), engine.clone());
        thread::spawn(move || {
            for _ in 0..8 {
                if rank.descriptor.model_deliver() {
                    engine.poke(Context::Handler);
                }
                thread::yield_now();
            }
        })
    };
    threads.into_iter().for_each(|t| t.join().unwrap());
    computing.join().unwrap();
    // A signal that is still pending is delivered before the thread does anything else.
    if rank.descriptor.model_deliver() {
        engine.poke(Context::Handler);
    }
    for completions in &rank.completions {
        assert!(completions.iter().all(Completion::is_done), "a message was not announced");
    }
}

#[test]
fn a_computing_rank_is_interrupted_for_every_message() {
    shuttle::check_random(|| computing_rank(false), ORDERS);
    shuttle::check_pct(|| computing_rank(false), ORDERS, 5);
}

#[test]
#[should_panic(expected = "a message was not announced")]
fn looking_without_clearing_the_marks_is_caught() {
    shuttle::check_random(|| computing_rank(true), ORDERS);
}
