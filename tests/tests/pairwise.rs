//! Any two of what a collective depends on together, by ranks of every kind and with every backend: operation and algorithm or
//! the library's own choice, 5 to 33 ranks, root, size, type, operator, in place or not, layout, and the kind of world. One of
//! six worlds for each number of ranks and a sample of its rows; under `TOCSIN_TEST_DEEP=1` all, in many minutes of processor time.

use std::collections::BTreeSet;
use std::path::Path;

use tocsin_tests::run::{Arguments, BACKENDS, Case, Kind, deep};
use tocsin_tests::scenarios::collectives::covered::{ALL_RANKS, WORLDS, model, rows_of, said};
use tocsin_tests::scenarios::collectives::pairwise::{Pair, pairs_of};

/// Runs some rows of some worlds of one kind; which pairs they have.
fn run(kind: Kind) -> BTreeSet<Pair> {
    let mut done = BTreeSet::new();
    let every = if deep() { 1 } else { 30 };
    for (number, ranks) in (0..).zip(ALL_RANKS) {
        for world in (0..WORLDS).filter(|world| deep() || world % ALL_RANKS.len() == number) {
            if Kind::ALL[world / BACKENDS.len()] != kind {
                continue;
            }
            let rows: Vec<_> = rows_of(ranks, world).step_by(every).collect();
            let arguments = Arguments::new().with("seed", 8000 + ranks).with("rows", said(&rows));
            let case = Case {
                program: Path::new(env!("CARGO_BIN_EXE_tocsin-rank")),
                kind,
                ranks,
                backend: BACKENDS[world % BACKENDS.len()],
                scenario: "collectives-pairwise",
                arguments,
                limit_s: 600,
            };
            case.pass();
            done.extend(rows.into_iter().flat_map(|row| pairs_of(row)));
        }
    }
    done
}

#[test]
fn any_two_values_together() {
    let mut done = run(Kind::Threads);
    done.extend(run(Kind::Processes));
    println!("{} pairs", done.len());
    if deep() {
        assert_eq!(done, model().allowed(), "pairs that were not run, or may not be");
    }
    assert!(done.len() > 400, "{}", done.len());
}
