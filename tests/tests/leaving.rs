//! A rank leaves, and another waits for it to receive what it never will: neither waits for ever.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use tocsin_tests::run::{Arguments, BACKENDS, Case, Kind};

fn one_leaves(kind: Kind) {
    for backend in BACKENDS {
        // What ranks that are threads receive stays in this process.
        let ways = if kind == Kind::Threads {
            &["auto", "double"][..]
        } else {
            &["auto", "cma", "vmsplice", "double"]
        };
        for (bytes, lmt) in [(100 << 10, "auto")].into_iter().chain(ways.iter().map(|lmt| (1 << 20, *lmt))) {
            for order in ["sent-before", "sent-after"] {
                for posted in ["exact", "any", "other", "none"] {
                    let arguments = Arguments::new().with("bytes", bytes).with("lmt", lmt);
                    let arguments = arguments.with("order", order).with("posted", posted);
                    let program = Path::new(env!("CARGO_BIN_EXE_tocsin-rank"));
                    let scenario = "one-leaves";
                    Case { program, kind, ranks: 2, backend, scenario, arguments, limit_s: 60 }.pass();
                }
            }
        }
    }
}

#[test]
fn who_waits_for_a_thread_that_leaves_hears_of_it() {
    one_leaves(Kind::Threads);
}

#[test]
fn who_waits_for_a_process_that_leaves_hears_of_it() {
    one_leaves(Kind::Processes);
}
