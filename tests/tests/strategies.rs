//! Each strategy of large messages, forced in turn, passes what the choice between them does: every kind of rank, every backend; messages on up to
//! 33 ranks, operations at random, and under `TOCSIN_TEST_DEEP=1` collectives, restarted and interleaved ones, and those that follow the machine.

use std::path::Path;

use tocsin_tests::run::{Arguments, BACKENDS, Kind, deep};
use tocsin_tests::suite::Suite;
use tocsin_world::BackendKind;

/// Bytes of the longest message of operations at random, many times what a message may have that is not large.
const MAX: u64 = 200_000;

fn forced(lmt: &str) {
    let program = Path::new(env!("CARGO_BIN_EXE_tocsin-rank"));
    for kind in Kind::ALL {
        for backend in BACKENDS {
            passes(Suite { program, kind, backend, lmt: Some(lmt) });
        }
    }
}

fn passes(suite: Suite<'_>) {
    suite.messages();
    suite.mixed(if suite.kind == Kind::Processes { 100_000 } else { 20_000 }, MAX);
    if deep() {
        suite.collectives();
        suite.restarted();
        suite.interleaved();
        suite.placed();
    }
    let several = [("seed", 5), ("rounds", 24), ("outstanding", 6), ("max", MAX)];
    suite.case(4, "collectives", Arguments::of(&several)).pass();
    let rounds = if deep() { 1000 } else { 20 };
    let words = [("seed", 2), ("rounds", rounds), ("threads", 3), ("max", MAX)];
    suite.case(3, "threads", Arguments::of(&words)).pass();
    if suite.backend != BackendKind::Poll {
        suite.case(2, "callbacks", Arguments::of(&[("rounds", 10)])).pass();
    }
    suite.case(2, "flow-control", Arguments::of(&[("count", 20_000)])).pass();
}

#[test]
fn direct() {
    forced("direct");
}

/// Where there is no such device, this is what becomes of who asks for it.
#[test]
fn xpmem() {
    forced("xpmem");
}

/// As that one.
#[test]
fn knem() {
    forced("knem");
}

#[test]
fn cma() {
    forced("cma");
}

#[test]
fn vmsplice() {
    forced("vmsplice");
}

#[test]
fn double() {
    forced("double");
}
