//! The example program `heat` computes the same on every backend, with ranks that are processes or threads, whatever their
//! number, as a plain loop does. `harness = false`: ranks are this program again, which then is the example.
//!
//! One test takes the backend that is this machine's best: user interrupts where it has them, as in the emulated machine, where
//! `TOCSIN_TEST_UINTR_REQUIRED=1` makes anything else a failure.
#![allow(clippy::unwrap_used, clippy::expect_used)] // A test that fails says so by panicking.

use tocsin_tests::example::{self, ALONE, Said, output, said};
use tocsin_tests::in_order; // Links the tripwire allocator, too.
use tocsin_tests::run::BACKENDS;

#[path = "../../examples/heat.rs"]
mod heat;

use std::process::ExitCode;

use tocsin::BackendKind;

fn main() -> ExitCode {
    if let Some(end) = example::role(heat::main) {
        return end;
    }
    let tests: &[(&str, fn())] = &[
        ("processes_compute_what_a_loop_does", processes_compute_what_a_loop_does),
        ("threads_compute_what_a_loop_does", threads_compute_what_a_loop_does),
        ("skewed_loads_change_nothing", skewed_loads_change_nothing),
        ("the_best_backend_computes_what_a_loop_does", the_best_backend_computes_what_a_loop_does),
        ("a_tolerance_ends_all_ranks_at_the_same_step", a_tolerance_ends_all_ranks_at_the_same_step),
        ("wrong_words_are_told", wrong_words_are_told),
    ];
    in_order::run(tests).exit_code()
}

/// The same by the plainest loop.
fn plain(size: usize, steps: usize) -> Said {
    let mut old: Vec<Vec<f64>> =
        (0..size).map(|r| (0..size).map(|c| ((r * r + 3 * c) % 101) as f64).collect()).collect();
    let mut residual = f64::INFINITY;
    for _ in 0..steps {
        let mut new = old.clone();
        residual = 0.0;
        for r in 0..size {
            let (above, below) = (&old[(r + size - 1) % size], &old[(r + 1) % size]);
            for c in 1..size - 1 {
                new[r][c] = 0.25 * (above[c] + below[c] + old[r][c - 1] + old[r][c + 1]);
                residual = f64::max(residual, (new[r][c] - old[r][c]).abs());
            }
        }
        old = new;
    }
    let points = old.iter().flatten().zip(0u64..);
    let sum = points.fold(0u64, |sum, (p, at)| sum.wrapping_add(p.to_bits().wrapping_mul(2 * at + 1)));
    Said { steps, residual: format!("{residual:.9e}"), checksum: format!("{sum:016x}") }
}

fn processes_compute_what_a_loop_does() {
    let right = plain(37, 30);
    for backend in BACKENDS {
        for ranks in ["1", "2", "3", "5"] {
            assert_eq!(said(ranks, backend, "--size 37 --steps 30"), right, "{ranks} ranks, {backend}");
        }
    }
    // Some ranks with one row only; rows that are large messages; nothing to do.
    for (ranks, size, steps) in [("4", 5, 9), ("2", 2500, 2), ("3", 10, 0)] {
        let words = format!("--size {size} --steps {steps}");
        assert_eq!(said(ranks, BackendKind::Signal, &words), plain(size, steps), "{words}");
    }
}

fn threads_compute_what_a_loop_does() {
    let right = plain(37, 30);
    for backend in BACKENDS {
        for ranks in [1, 2, 3, 5] {
            let words = format!("--size 37 --steps 30 --threads {ranks}");
            assert_eq!(said(ALONE, backend, &words), right, "{words}, {backend}");
        }
    }
}

fn skewed_loads_change_nothing() {
    let right = plain(64, 40);
    for backend in BACKENDS {
        for skewed in ["first", "turns"] {
            let words = format!("--size 64 --steps 40 --skew 2.5 --skewed {skewed}");
            assert_eq!(said("3", backend, &words), right, "{words}, {backend}");
        }
    }
}

fn the_best_backend_computes_what_a_loop_does() {
    let best = example::best_backend();
    eprintln!("backend {best}");
    let (words, right) = ("--size 24 --steps 20 --skew 2 --skewed turns", plain(24, 20));
    for ranks in [2, 3] {
        assert_eq!(said(&ranks.to_string(), best, words), right, "{ranks} ranks");
        assert_eq!(said(ALONE, best, &format!("{words} --threads {ranks}")), right, "{ranks} threads");
    }
}

fn a_tolerance_ends_all_ranks_at_the_same_step() {
    let words = "--size 24 --steps 10000 --tolerance 0.01";
    let alone = said("1", BackendKind::Signal, words);
    assert!((2..10_000).contains(&alone.steps) && alone.residual.parse::<f64>().unwrap() < 0.01, "{alone:?}");
    assert_eq!(alone, plain(24, alone.steps));
    // A residual is known a step after its own, and no later.
    assert!(plain(24, alone.steps - 2).residual.parse::<f64>().unwrap() >= 0.01);
    for backend in BACKENDS {
        assert_eq!(said("3", backend, words), alone, "{backend}");
    }
}

fn wrong_words_are_told() {
    for (role, words, told) in [
        (ALONE, "--size", "--size wants a value"),
        (ALONE, "--warm", "there is no option --warm"),
        (ALONE, "--size wide", "--size wide: use a whole number"),
        (ALONE, "--size 2", "use 3 to 65536"),
        (ALONE, "--skew -1", "--skew -1: use a number from 0"),
        (ALONE, "--skewed last", "use first or turns"),
        (ALONE, "--warm 1", "usage: heat"),
        (ALONE, "--size 4 --threads 5", "every rank needs a row, and there are 5 ranks"),
        ("3", "--warm 1", "usage: heat"),
        ("5", "--size 4", "every rank needs a row, and there are 5 ranks"),
    ] {
        let output = output(role, BackendKind::Signal, words);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && text.contains(told), "{words}: {}\n{text}", output.status);
        assert_eq!(text.matches("heat: ").count(), 1, "one rank says it: {words}\n{text}");
    }
    let help = output("3", BackendKind::Signal, "--help");
    let text = String::from_utf8_lossy(&help.stdout);
    assert!(help.status.success() && text.matches("usage: heat").count() == 1, "{}\n{text}", help.status);
}
