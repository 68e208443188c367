//! Models of completion: what `is_done` vouches for, and that a callback runs exactly once whoever comes
//! first; broken variants are caught.
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use loom::sync::Arc;
use std::sync::Arc as StdArc;
use tocsin_progress::testing::{Real, Variant};
use tocsin_progress::{Callbacks, Code, Completion, Outcome};
use tocsin_sync::atomic::{AtomicU32, Ordering};
use tocsin_sync::cell::UnsafeCell;

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

const OUTCOME: Outcome = Outcome { code: Code::Truncated, source: 1, tag: -2, bytes: 3, detail: 4 };

/// A received buffer: written by the engine, read by its owner once it is done.
fn visible<V: Variant>() {
    check(|| {
        let completion = Arc::new(Completion::new());
        let buffer = Arc::new(UnsafeCell::new(0u32));
        let (finishes, fills) = (completion.clone(), buffer.clone());
        let thread = loom::thread::spawn(move || {
            // SAFETY: nobody reads before it is done; loom checks that.
            fills.with_mut(|b| unsafe { *b = 7 });
            finishes.finish_as::<V>(OUTCOME);
        });
        while !completion.is_done() {
            loom::thread::yield_now();
        }
        assert_eq!(completion.outcome(), Some(OUTCOME));
        // SAFETY: done.
        assert_eq!(buffer.with(|b| unsafe { *b }), 7);
        thread.join().unwrap();
        assert_eq!(completion.outcome(), Some(OUTCOME));
    });
}

#[test]
fn done_vouches_for_outcome_and_buffer() {
    visible::<Real>();
}

struct Silent;
impl Variant for Silent {
    const FINISH: Ordering = Ordering::Relaxed;
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_completion_that_publishes_nothing_is_caught() {
    visible::<Silent>();
}

#[test]
fn a_callback_runs_exactly_once() {
    check(|| {
        let completion = Arc::new(Completion::new());
        let callbacks = StdArc::new(Callbacks::new(false));
        let ran = Arc::new(AtomicU32::new(0));
        let (finishes, runs) = (completion.clone(), callbacks.clone());
        let thread = loom::thread::spawn(move || {
            finishes.finish(OUTCOME);
            runs.run();
        });
        let counts = ran.clone();
        callbacks
            .set(
                &completion,
                Box::new(move |outcome| {
                    assert_eq!(outcome, OUTCOME);
                    counts.fetch_add(1, Ordering::Relaxed);
                }),
            )
            .unwrap();
        callbacks.run();
        thread.join().unwrap();
        // Nobody runs it now: whoever came last has.
        assert_eq!(ran.load(Ordering::Relaxed), 1, "not exactly once");
        assert!(callbacks.is_empty());
    });
}

/// A completion whose two sides look at each other without one common word: both may miss.
struct CheckThenSet {
    done: AtomicU32,
    callback: AtomicU32,
}

#[test]
#[should_panic(expected = "not exactly once")]
fn checking_then_setting_is_caught() {
    check(|| {
        let it = Arc::new(CheckThenSet { done: AtomicU32::new(0), callback: AtomicU32::new(0) });
        let ran = Arc::new(AtomicU32::new(0));
        let (finishes, counts) = (it.clone(), ran.clone());
        let thread = loom::thread::spawn(move || {
            finishes.done.store(1, Ordering::Release);
            if finishes.callback.load(Ordering::Acquire) == 1 {
                counts.fetch_add(1, Ordering::Relaxed);
            }
        });
        if it.done.load(Ordering::Acquire) == 1 {
            ran.fetch_add(1, Ordering::Relaxed);
        } else {
            it.callback.store(1, Ordering::Release);
        }
        thread.join().unwrap();
        assert_eq!(ran.load(Ordering::Relaxed), 1, "not exactly once");
    });
}

/// Two runners and a push: what one leaves to the other is run.
#[test]
fn what_one_runner_leaves_the_other_runs() {
    check(|| {
        let callbacks = StdArc::new(Callbacks::new(false));
        let completions = Arc::new([Completion::new(), Completion::new()]);
        let ran = Arc::new(AtomicU32::new(0));
        for completion in completions.iter() {
            let counts = ran.clone();
            callbacks
                .set(
                    completion,
                    Box::new(move |_| {
                        counts.fetch_add(1, Ordering::Relaxed);
                    }),
                )
                .unwrap();
        }
        let (finishes, runs) = (completions.clone(), callbacks.clone());
        let thread = loom::thread::spawn(move || {
            finishes[0].finish(OUTCOME);
            runs.run();
        });
        completions[1].finish(OUTCOME);
        callbacks.run();
        thread.join().unwrap();
        assert_eq!(ran.load(Ordering::Relaxed), 2, "not exactly once");
    });
}

/// Who would sleep, beside one who runs callbacks: what it leaves to that one is run.
fn sleeper<V: Variant>() {
    check(|| {
        let callbacks = StdArc::new(Callbacks::new(false));
        let completions = Arc::new([Completion::new(), Completion::new()]);
        let ran = Arc::new(AtomicU32::new(0));
        for completion in completions.iter() {
            let counts = ran.clone();
            let call = move |_| _ = counts.fetch_add(1, Ordering::Relaxed);
            callbacks.set(completion, Box::new(call)).unwrap();
        }
        let (finishes, runs) = (completions.clone(), callbacks.clone());
        let thread = loom::thread::spawn(move || {
            finishes[0].finish(OUTCOME);
            runs.run();
        });
        completions[1].finish(OUTCOME);
        if callbacks.need_a_thread_as::<V>() {
            callbacks.run();
        }
        thread.join().unwrap();
        assert_eq!(ran.load(Ordering::Relaxed), 2, "left to nobody");
    });
}

#[test]
fn who_sleeps_leaves_callbacks_to_who_sees_them() {
    sleeper::<Real>();
}

struct Loads;
impl Variant for Loads {
    const ASK_RUNNER_BY_SWAP: bool = false;
}

#[test]
#[should_panic(expected = "left to nobody")]
fn who_sleeps_by_a_load_is_caught() {
    sleeper::<Loads>();
}
