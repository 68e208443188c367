//! A model of waiting: the engine that ships over the doorbell that ships and a modelled kernel. A thread
//! that sleeps for what another context completes is woken; a broken variant must be caught as a deadlock.
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use loom::sync::Arc;
use std::sync::Arc as StdArc;
use tocsin_doorbell::{Descriptor, Mark, Own, Urgency, ring};
use tocsin_progress::{Budget, Completion, Context, Engine, EngineConfig, Outcome, Pass, Stats, Work};
use tocsin_sync::atomic::{AtomicU32, Ordering, fence};

struct Shared {
    descriptor: Descriptor,
    mark: Mark,
    posted: AtomicU32,
    completion: Completion,
}

struct Finishing(Arc<Shared>);

// SAFETY: a load, a fence and a completion.
unsafe impl Work for Finishing {
    fn progress(&mut self, _budget: &mut Budget) -> Pass {
        self.0.mark.clear_if_set();
        fence(Ordering::SeqCst);
        if self.work_left() {
            self.0.completion.finish(Outcome::default());
            return Pass::Worked;
        }
        Pass::Idle
    }

    fn leave(&mut self) {}

    fn wants_plain(&self) -> bool {
        false
    }

    fn wants_offers(&self) -> bool {
        false
    }

    fn work_left(&self) -> bool {
        self.0.posted.load(Ordering::Relaxed) > 0 && !self.0.completion.is_done()
    }
}

fn engine() -> (Arc<Shared>, Arc<Engine<Finishing>>) {
    let shared = Arc::new(Shared {
        descriptor: Descriptor::new(),
        mark: Mark::new(),
        posted: AtomicU32::new(0),
        completion: Completion::new(),
    });
    // SAFETY: the work keeps the descriptor.
    let own = unsafe { Own::new(&shared.descriptor) };
    let config = EngineConfig { spin_ns: 0, yield_ns: 0, callback_thread: false, trace: None };
    let engine = Engine::new(Finishing(shared.clone()), own, config, StdArc::new(Stats::new()));
    (shared, Arc::new(engine))
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 20_000;
    builder.check(model);
}

/// A peer's message.
#[test]
fn a_ring_wakes_the_waiter() {
    check(|| {
        let (shared, engine) = engine();
        let peer = shared.clone();
        let thread = loom::thread::spawn(move || {
            peer.posted.store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            let _outcome = ring(&peer.descriptor, &peer.mark, 0, Urgency::Urgent);
        });
        assert!(engine.wait_until(|| shared.completion.is_done(), None));
        thread.join().unwrap();
    });
}

/// Another context of the rank makes the pass that completes; nobody rings.
#[test]
fn another_context_wakes_the_waiter() {
    check(|| {
        let (shared, engine) = engine();
        let (other, pokes) = (shared.clone(), engine.clone());
        let thread = loom::thread::spawn(move || {
            other.posted.store(1, Ordering::Relaxed);
            pokes.poke(Context::ProgressThread);
        });
        assert!(engine.wait_until(|| shared.completion.is_done(), None));
        thread.join().unwrap();
    });
}

/// A user call completes it (a cancel, say).
#[test]
fn a_user_call_wakes_the_waiter() {
    check(|| {
        let (shared, engine) = engine();
        let calls = engine.clone();
        let thread = loom::thread::spawn(move || {
            let mut inside = calls.enter();
            let work: &mut Finishing = &mut inside;
            work.0.completion.finish(Outcome::default());
        });
        assert!(engine.wait_until(|| shared.completion.is_done(), None));
        thread.join().unwrap();
    });
}

/// Broken: completed behind the engine's back (through a shared reference, so that leaving wakes nobody).
#[test]
#[should_panic(expected = "deadlock")]
fn completing_without_a_wake_is_caught() {
    check(|| {
        let (shared, engine) = engine();
        let calls = engine.clone();
        let thread = loom::thread::spawn(move || {
            let inside = calls.enter();
            inside.0.completion.finish(Outcome::default());
        });
        assert!(engine.wait_until(|| shared.completion.is_done(), None));
        thread.join().unwrap();
    });
}
