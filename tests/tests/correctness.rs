//! Messages and collectives against sequential models: every kind of rank, every backend, up to 33 ranks.

use std::path::Path;

use tocsin_tests::run::{BACKENDS, Kind};
use tocsin_tests::suite::Suite;
use tocsin_world::BackendKind;

fn suite(kind: Kind, backend: BackendKind) -> Suite<'static> {
    Suite { program: Path::new(env!("CARGO_BIN_EXE_tocsin-rank")), kind, backend, lmt: None }
}

/// All backends, of one kind of rank.
fn suites(kind: Kind) -> impl Iterator<Item = Suite<'static>> {
    BACKENDS.into_iter().map(move |backend| suite(kind, backend))
}

#[test]
fn messages_threads() {
    suites(Kind::Threads).for_each(|s| s.messages());
}

#[test]
fn messages_processes() {
    suites(Kind::Processes).for_each(|s| s.messages());
}

#[test]
fn collectives_threads() {
    suites(Kind::Threads).for_each(|s| s.collectives());
}

#[test]
fn collectives_processes() {
    suites(Kind::Processes).for_each(|s| s.collectives());
}

#[test]
fn placed_threads() {
    suites(Kind::Threads).for_each(|s| s.placed());
}

#[test]
fn placed_processes() {
    suites(Kind::Processes).for_each(|s| s.placed());
}

#[test]
fn restarted_threads() {
    suites(Kind::Threads).for_each(|s| s.restarted());
}

#[test]
fn restarted_processes() {
    suites(Kind::Processes).for_each(|s| s.restarted());
}

#[test]
fn interleaved_threads() {
    suites(Kind::Threads).for_each(|s| s.interleaved());
}

#[test]
fn interleaved_processes() {
    suites(Kind::Processes).for_each(|s| s.interleaved());
}

#[test]
fn soak_signal() {
    suite(Kind::Processes, BackendKind::Signal).mixed(100_000, 20_000);
}

#[test]
fn soak_thread() {
    suite(Kind::Processes, BackendKind::Thread).mixed(100_000, 20_000);
}

#[test]
fn soak_poll() {
    suite(Kind::Processes, BackendKind::Poll).mixed(100_000, 20_000);
}

#[test]
fn soak_signal_thread_ranks() {
    suite(Kind::Threads, BackendKind::Signal).mixed(20_000, 20_000);
}
