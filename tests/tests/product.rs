//! The product of all that a collective depends on, on up to 4 ranks, in six worlds: every kind of rank, every backend. A seeded
//! sample; under `TOCSIN_TEST_DEEP=1` all of it, but that what takes long is dealt out among the worlds, and of every type with every
//! operator an eighth of that is taken.

use std::path::Path;

use tocsin_tests::run::{Arguments, BACKENDS, Case, Kind, deep};

/// One in so many of what is short, and of what is long.
type Sample = (u64, u64);

fn product(kind: Kind, types: &str, sample: Sample) {
    for (number, backend) in (0..).zip(BACKENDS) {
        let turn = number + if kind == Kind::Threads { 0 } else { BACKENDS.len() };
        for ranks in 1..=4 {
            let arguments = Arguments::new()
                .with("seed", 4000 + ranks)
                .with("types", types)
                .with("turn", turn)
                .with("every", sample.0)
                .with("long", sample.1)
                .with("most", if deep() { 65 << 20 } else { 17 << 20 });
            let program = Path::new(env!("CARGO_BIN_EXE_tocsin-rank"));
            let scenario = "collectives-product";
            let limit_s = if deep() { 2400 } else { 400 };
            Case { program, kind, ranks, backend, scenario, arguments, limit_s }.pass();
        }
    }
}

/// Sums and minima of integers, sums of floating-point numbers, and a user's operator. In depth all that is short in each
/// world, and what is long in one of them.
fn some_types(kind: Kind) {
    product(kind, "some", if deep() { (1, 6) } else { (90, 900) });
}

/// Every type with every operator. In depth all that is short in one of the worlds, and an eighth of what is long.
fn all_types(kind: Kind) {
    product(kind, "all", if deep() { (6, 48) } else { (2250, 22_500) });
}

#[test]
fn some_types_threads() {
    some_types(Kind::Threads);
}

#[test]
fn some_types_processes() {
    some_types(Kind::Processes);
}

#[test]
fn all_types_threads() {
    all_types(Kind::Threads);
}

#[test]
fn all_types_processes() {
    all_types(Kind::Processes);
}
