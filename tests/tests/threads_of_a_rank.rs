//! Several threads of one rank at once, callbacks and wakers: nobody who waits is forgotten, whoever made the progress.

use std::path::Path;

use tocsin_tests::run::{Arguments, BACKENDS, Case, Kind, deep};
use tocsin_world::BackendKind;

fn run(kind: Kind, ranks: u32, backend: BackendKind, scenario: &str, arguments: Arguments) {
    let program = Path::new(env!("CARGO_BIN_EXE_tocsin-rank"));
    Case { program, kind, ranks, backend, scenario, arguments, limit_s: 120 }.pass();
}

/// Each kind of world with each backend.
fn everywhere(ranks: u32, backends: &[BackendKind], scenario: &str, arguments: &Arguments) {
    for kind in Kind::ALL {
        for backend in backends {
            run(kind, ranks, *backend, scenario, arguments.clone());
        }
    }
}

#[test]
fn threads_post_wait_and_test_at_once() {
    let rounds = if deep() { 5_000 } else { 150 };
    for seed in 1..=2_u64 {
        let arguments = Arguments::new()
            .with("seed", seed)
            .with("rounds", rounds)
            .with("threads", 3)
            .with("max", 100_000);
        everywhere(3, &BACKENDS, "threads", &arguments);
    }
}

#[test]
fn tests_get_past_a_flood() {
    everywhere(2, &BACKENDS, "test-behind-flood", &Arguments::new().with("count", 5_000));
}

#[test]
fn a_waiter_rests_behind_a_flood() {
    let arguments = Arguments::new().with("count", 5_000);
    everywhere(2, &[BackendKind::Signal, BackendKind::Poll], "rest-behind-flood", &arguments);
}

#[test]
fn callbacks_and_wakers_run_while_the_rank_computes() {
    let arguments = Arguments::new().with("rounds", 30);
    everywhere(2, &[BackendKind::Signal, BackendKind::Thread], "callbacks", &arguments);
}

#[test]
fn communicators_made_at_once_have_contexts_of_their_own() {
    let rounds = if deep() { 5_000 } else { 300 };
    for seed in 1..=2_u64 {
        let arguments = Arguments::new().with("seed", seed).with("rounds", rounds);
        everywhere(3, &BACKENDS, "make-communicators", &arguments);
    }
}
