//! Large messages by each strategy, forced in turn, and where the system forbids copies between processes.

#![allow(clippy::unwrap_used)] // A test that fails says so by panicking.

use std::path::Path;

use tocsin_tests::run::{Arguments, BACKENDS, Case, Kind};
use tocsin_world::BackendKind;

fn case(kind: Kind, ranks: u32, backend: BackendKind, scenario: &'static str, words: &[(&str, &str)]) {
    let program = Path::new(env!("CARGO_BIN_EXE_tocsin-rank"));
    let arguments = words.iter().fold(Arguments::new(), |all, (name, value)| all.with(name, value));
    Case { program, kind, ranks, backend, scenario, arguments, limit_s: 120 }.pass();
}

fn forced(lmt: &str) {
    for kind in Kind::ALL {
        for backend in BACKENDS {
            for (ranks, max) in [("2", "8388608"), ("3", "300000"), ("7", "100000")] {
                let words =
                    [("seed", ranks), ("rounds", "3"), ("messages", "24"), ("max", max), ("lmt", lmt)];
                case(kind, ranks.parse().unwrap(), backend, "messages", &words);
            }
            let words =
                [("seed", "5"), ("rounds", "6"), ("outstanding", "6"), ("max", "200000"), ("lmt", lmt)];
            case(kind, 4, backend, "collectives", &words);
        }
    }
}

#[test]
fn direct() {
    forced("direct");
}

#[test]
fn cma() {
    forced("cma");
}

#[test]
fn double() {
    forced("double");
}

/// From the start, later at all ranks, later at some: what was begun by a single copy arrives otherwise.
#[test]
fn forbidden_copies() {
    for backend in BACKENDS {
        for forbid in ["start", "later", "some"] {
            for (ranks, max) in [("2", "4194304"), ("4", "300000")] {
                let words =
                    [("seed", ranks), ("rounds", "3"), ("messages", "24"), ("max", max), ("forbid", forbid)];
                case(Kind::Processes, ranks.parse().unwrap(), backend, "messages", &words);
            }
            let words =
                [("seed", "5"), ("rounds", "6"), ("outstanding", "6"), ("max", "200000"), ("forbid", forbid)];
            case(Kind::Processes, 4, backend, "collectives", &words);
        }
    }
}
