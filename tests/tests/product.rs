//! The product of all that a collective depends on, on up to 4 ranks, in six worlds: every kind of rank, every backend. A seeded
//! sample; under `TOCSIN_TEST_DEEP=1` all of it, but that what takes long is dealt out among the worlds. Of all types: `product_types`.

use tocsin_tests::products::{Sample, product};
use tocsin_tests::run::{Kind, deep};

/// Sums and minima of integers, sums of floating-point numbers, and a user's operator. In depth all that is short in each
/// world, and what is long in one of them.
fn some_types(kind: Kind) {
    let deeply = Sample { every: 1, long: 6, longest: 6 };
    let some = Sample { every: 90, long: 900, longest: 900 };
    product(env!("CARGO_BIN_EXE_tocsin-rank"), kind, "some", if deep() { deeply } else { some });
}

#[test]
fn some_types_threads() {
    some_types(Kind::Threads);
}

#[test]
fn some_types_processes() {
    some_types(Kind::Processes);
}
