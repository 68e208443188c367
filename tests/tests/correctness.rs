//! Messages and collectives against sequential models: every kind of rank, every backend, up to 33 ranks.

use std::path::Path;

use tocsin_tests::run::{Arguments, BACKENDS, Case, Kind, deep};
use tocsin_world::BackendKind;

const RANKS: [u32; 9] = [1, 2, 3, 4, 7, 8, 16, 17, 33];

fn case(
    kind: Kind,
    ranks: u32,
    backend: BackendKind,
    scenario: &'static str,
    arguments: Arguments,
) -> Case<'static> {
    let program = Path::new(env!("CARGO_BIN_EXE_tocsin-rank"));
    Case { program, kind, ranks, backend, scenario, arguments, limit_s: 120 }
}

/// Bytes of one message, so that a rank holds at most 8 MiB of them.
fn largest(ranks: u32) -> u64 {
    (8 << 20) / u64::from(ranks.max(4))
}

fn messages(kind: Kind, backend: BackendKind) {
    for ranks in RANKS {
        let rounds = if deep() { 20 } else { 3 };
        let arguments = Arguments::new()
            .with("seed", 1000 + ranks)
            .with("rounds", rounds)
            .with("messages", 8 * ranks.min(16))
            .with("max", largest(ranks).min(if deep() { 1 << 23 } else { 1 << 18 }));
        case(kind, ranks, backend, "messages", arguments).pass();
    }
    // Up to 8 MiB in one message.
    let arguments =
        Arguments::new().with("seed", 9).with("rounds", 2).with("messages", 4).with("max", 8 << 20);
    case(kind, 2, backend, "messages", arguments).pass();
}

fn collectives(kind: Kind, backend: BackendKind) {
    for ranks in RANKS {
        let rounds = if deep() { 100 } else { 12 };
        let arguments = Arguments::new()
            .with("seed", 2000 + ranks)
            .with("rounds", rounds)
            .with("outstanding", 6)
            .with("max", largest(ranks) / if deep() { 1 } else { 8 });
        case(kind, ranks, backend, "collectives", arguments).pass();
    }
}

/// The algorithms whose trees follow the machine, by ranks in several parts of one: from every root, on communicators of some ranks, too.
fn placed(kind: Kind, backend: BackendKind) {
    for (machine, ranks) in [("numa:2 l3:2 core:2", 8), ("package:2 core:3", 5), ("numa:3 core:1 pu:2", 6)] {
        let arguments = Arguments::new().with("seed", 7000 + ranks).with("topology", machine);
        let (every, long) = if deep() { (1, 8) } else { (24, 240) };
        let only = arguments.clone().with("every", every).with("long", long);
        let only = only.with("algorithm", "topology-aware").with("most", 9 << 20);
        case(kind, ranks, backend, "collectives-product", only).pass();
        let any = arguments.with("rounds", if deep() { 30 } else { 3 }).with("max", 40_000);
        case(kind, ranks, backend, "interleaved", any).pass();
    }
}

/// Persistent collectives, among others.
fn restarted(kind: Kind, backend: BackendKind) {
    for ranks in [1, 2, 3, 4, 7, 16] {
        let rounds = if deep() { 60 } else { 8 };
        let arguments = Arguments::new().with("seed", 5000 + ranks).with("rounds", rounds);
        let arguments = arguments.with("max", largest(ranks) / if deep() { 8 } else { 32 });
        case(kind, ranks, backend, "restarted", arguments).pass();
    }
}

/// Up to 32 collectives outstanding on three communicators.
fn interleaved(kind: Kind, backend: BackendKind) {
    for ranks in [2, 3, 5] {
        let rounds = if deep() { 100 } else { 6 };
        let arguments =
            Arguments::new().with("seed", 6000 + ranks).with("rounds", rounds).with("max", 40_000);
        case(kind, ranks, backend, "interleaved", arguments).pass();
    }
}

/// 10^5 operations of every kind at random, several communicators, for one backend.
fn soak(kind: Kind, backend: BackendKind, operations: u64) {
    let arguments = Arguments::new().with("seed", 3).with("operations", operations).with("max", 20_000);
    Case { limit_s: 400, ..case(kind, 4, backend, "mixed", arguments) }.pass();
}

#[test]
fn messages_threads() {
    BACKENDS.into_iter().for_each(|b| messages(Kind::Threads, b));
}

#[test]
fn messages_processes() {
    BACKENDS.into_iter().for_each(|b| messages(Kind::Processes, b));
}

#[test]
fn collectives_threads() {
    BACKENDS.into_iter().for_each(|b| collectives(Kind::Threads, b));
}

#[test]
fn collectives_processes() {
    BACKENDS.into_iter().for_each(|b| collectives(Kind::Processes, b));
}

#[test]
fn placed_threads() {
    BACKENDS.into_iter().for_each(|b| placed(Kind::Threads, b));
}

#[test]
fn placed_processes() {
    BACKENDS.into_iter().for_each(|b| placed(Kind::Processes, b));
}

#[test]
fn restarted_threads() {
    BACKENDS.into_iter().for_each(|b| restarted(Kind::Threads, b));
}

#[test]
fn restarted_processes() {
    BACKENDS.into_iter().for_each(|b| restarted(Kind::Processes, b));
}

#[test]
fn interleaved_threads() {
    BACKENDS.into_iter().for_each(|b| interleaved(Kind::Threads, b));
}

#[test]
fn interleaved_processes() {
    BACKENDS.into_iter().for_each(|b| interleaved(Kind::Processes, b));
}

#[test]
fn soak_signal() {
    soak(Kind::Processes, BackendKind::Signal, 100_000);
}

#[test]
fn soak_thread() {
    soak(Kind::Processes, BackendKind::Thread, 100_000);
}

#[test]
fn soak_poll() {
    soak(Kind::Processes, BackendKind::Poll, 100_000);
}

#[test]
fn soak_signal_thread_ranks() {
    soak(Kind::Threads, BackendKind::Signal, 20_000);
}
