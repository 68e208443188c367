//! The product of all that a collective depends on, on up to 4 ranks, of every type with every operator, dealt out among six worlds: every kind of
//! rank, every backend. A seeded sample; under `TOCSIN_TEST_DEEP=1` all of it, in an hour or two.

use tocsin_tests::products::{Sample, product};
use tocsin_tests::run::{Kind, deep};

fn all_types(kind: Kind) {
    let deeply = Sample { every: 6, long: 6, longest: 6 };
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
