//! The product of all that a collective depends on, in six worlds: every kind of rank, every backend.

use std::path::Path;

use crate::run::{Arguments, BACKENDS, Case, Kind, deep};

/// One in so many of what is short, of what is long, and of what has megabytes.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// To 130 KiB.
    pub every: u64,
    /// To 1 MiB.
    pub long: u64,
    /// The rest.
    pub longest: u64,
}

/// Runs such a sample on up to 4 ranks of a kind, of `some` or `all` types. `program`: `env!("CARGO_BIN_EXE_tocsin-rank")`.
pub fn product(program: &str, kind: Kind, types: &str, sample: Sample) {
    for (number, backend) in (0..).zip(BACKENDS) {
        let turn = number + if kind == Kind::Threads { 0 } else { BACKENDS.len() };
        for ranks in 1..=4 {
            let arguments = Arguments::new()
                .with("seed", 4000 + ranks)
                .with("types", types)
                .with("turn", turn)
                .with("every", sample.every)
                .with("long", sample.long)
                .with("longest", sample.longest)
                .with("most", if deep() { 65 << 20 } else { 17 << 20 });
            let arguments = if deep() { arguments.with("malloc", "keep") } else { arguments };
            let (program, scenario) = (Path::new(program), "collectives-product");
            let limit_s = if deep() { 3600 } else { 400 };
            Case { program, kind, ranks, backend, scenario, arguments, limit_s }.pass();
        }
    }
}
