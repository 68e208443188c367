//! The product of all that a collective depends on, on up to 4 ranks, of every type with every operator: all of what is short, in one of the six
//! worlds, and a part of what is long, under `TOCSIN_TEST_DEEP=1`; else a seeded sample. All of what is long would take some hours.

use tocsin_tests::products::{Sample, product};
use tocsin_tests::run::{Kind, deep};

/// In depth all that is short in one of the worlds, an eighth of what is long, and an eightieth of what has megabytes.
fn all_types(kind: Kind) {
    let deeply = Sample { every: 6, long: 48, longest: 480 };
    let some = Sample { every: 2250, long: 22_500, longest: 22_500 };
    product(env!("CARGO_BIN_EXE_tocsin-rank"), kind, "all", if deep() { deeply } else { some });
}

#[test]
fn all_types_threads() {
    all_types(Kind::Threads);
}

#[test]
fn all_types_processes() {
    all_types(Kind::Processes);
}
