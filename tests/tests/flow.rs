//! Back-pressure: nothing lost, nothing blocked that has nothing to do with it, no computation stopped.

use std::path::Path;

use tocsin_tests::run::{Arguments, BACKENDS, Case, Kind};
use tocsin_world::BackendKind;

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

#[test]
fn a_million_sends_do_not_block_a_barrier() {
    for kind in Kind::ALL {
        for backend in BACKENDS {
            let count = if cfg!(debug_assertions) { 200_000 } else { 1_000_000 };
            case(kind, 2, backend, "flow-control", Arguments::new().with("count", count)).pass();
        }
    }
}

#[test]
fn a_flooded_rank_keeps_computing() {
    for ranks in [2, 4] {
        let arguments = Arguments::new().with("count", 20_000).with("units", 60_000_000).with("keep", 40);
        case(Kind::Processes, ranks, BackendKind::Signal, "flood", arguments).pass();
    }
}

/// More ranks than cores, and as many as there are.
#[test]
fn who_waits_leaves_the_core_to_who_computes() {
    for kind in Kind::ALL {
        for backend in BACKENDS {
            for ranks in [2, 4] {
                let arguments = Arguments::new().with("units", 120_000_000).with("TOCSIN_BIND", "none");
                case(kind, ranks, backend, "waits-for-who-computes", arguments).pass();
            }
        }
    }
}

/// More than a pool holds lies for the one that has stopped.
#[test]
fn who_has_stopped_holds_nobody_else_up() {
    for backend in BACKENDS {
        for ranks in [3, 4] {
            let arguments = Arguments::new().with("count", 1200);
            case(Kind::Processes, ranks, backend, "beside-a-stopped-rank", arguments).pass();
        }
    }
}
