//! The example program `cg` solves its equations, and computes the same on every backend, with ranks that are processes or
//! threads, whatever their number, as plain loops do. `harness = false`: ranks are this program again, which then is the example.
//!
//! One test takes the backend that is this machine's best: user interrupts where it has them, as in the emulated machine, where
//! `TOCSIN_TEST_UINTR_REQUIRED=1` makes anything else a failure.
#![allow(clippy::unwrap_used, clippy::expect_used)] // A test that fails says so by panicking.

use tocsin_tests::example::{self, ALONE, Said, output, said};
use tocsin_tests::in_order; // Links the tripwire allocator, too.
use tocsin_tests::run::BACKENDS;

#[path = "../../examples/cg.rs"]
mod cg;

use std::process::ExitCode;

use tocsin::BackendKind;

fn main() -> ExitCode {
    if let Some(end) = example::role(cg::main) {
        return end;
    }
    let tests: &[(&str, fn())] = &[
        ("plain_loops_solve_the_equations", plain_loops_solve_the_equations),
        ("processes_compute_what_plain_loops_do", processes_compute_what_plain_loops_do),
        ("threads_compute_what_plain_loops_do", threads_compute_what_plain_loops_do),
        ("skewed_loads_change_nothing", skewed_loads_change_nothing),
        ("no_algorithm_changes_anything", no_algorithm_changes_anything),
        ("the_best_backend_computes_what_plain_loops_do", the_best_backend_computes_what_plain_loops_do),
        ("a_tolerance_ends_all_ranks_at_the_same_step", a_tolerance_ends_all_ranks_at_the_same_step),
        ("wrong_words_are_told_by_one_rank", wrong_words_are_told_by_one_rank),
    ];
    in_order::run(tests).exit_code()
}

/// The same by plain loops: one system after the other, each in its order of elements and unknowns.
struct Plain {
    elements: usize,
    unknowns: usize,
    systems: usize,
    block: Vec<f64>,
    inverse: Vec<f64>,
}

/// By element and unknown.
type System = Vec<Vec<f64>>;

impl Plain {
    fn new(elements: usize, unknowns: usize, systems: usize) -> Plain {
        let n = unknowns;
        let mut block = vec![0.0; n * n];
        for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let distance = i.abs_diff(j) as f64;
            block[i * n + j] = 1.0 / (1.0 + distance * distance) + if i == j { 2.001 } else { 0.0 };
        }
        let mut wide: Vec<Vec<f64>> = (0..n)
            .map(|i| block[i * n..][..n].iter().copied().chain((0..n).map(|j| f64::from(i == j))).collect())
            .collect();
        for pivot in 0..n {
            let scale = 1.0 / wide[pivot][pivot];
            wide[pivot].iter_mut().for_each(|x| *x *= scale);
            let pivots = wide[pivot].clone();
            for row in (0..n).filter(|row| *row != pivot) {
                let factor = wide[row][pivot];
                wide[row].iter_mut().zip(&pivots).for_each(|(x, p)| *x -= factor * p);
            }
        }
        let inverse = wide.iter().flat_map(|row| row[n..].to_vec()).collect();
        Plain { elements, unknowns, systems, block, inverse }
    }

    fn right_side(&self, system: usize) -> System {
        let number = |e: usize, u: usize| ((e * e + 3 * u + 7 * system * (e + 1)) % 101) as f64 / 101.0 - 0.5;
        (0..self.elements).map(|e| (0..self.unknowns).map(|u| number(e, u)).collect()).collect()
    }

    fn times(&self, matrix: &[f64], x: &[f64]) -> Vec<f64> {
        matrix
            .chunks(self.unknowns)
            .map(|row| row.iter().zip(x).fold(0.0, |sum, (m, x)| sum + m * x))
            .collect()
    }

    fn precondition(&self, x: &System) -> System {
        x.iter().map(|x| self.times(&self.inverse, x)).collect()
    }

    fn product(&self, x: &System) -> System {
        let of = |e: Option<usize>, u: usize| e.and_then(|e| x.get(e)).map_or(0.0, |x| x[u]);
        let element = |e: usize| {
            let own = self.times(&self.block, &x[e]);
            own.iter().zip(0..).map(|(own, u)| own - (of(e.checked_sub(1), u) + of(Some(e + 1), u))).collect()
        };
        (0..self.elements).map(element).collect()
    }

    /// Of two vectors, by whole numbers of 2^-30, and of 2^-80.
    fn sum(a: &System, b: &System) -> f64 {
        let (mut coarse, mut fine) = (0i64, 0i64);
        for (a, b) in a.iter().zip(b) {
            let sum: f64 = a.iter().zip(b).fold(0.0, |sum, (a, b)| sum + a * b);
            let whole = (sum * 2f64.powi(30)).trunc();
            coarse += whole as i64;
            fine += ((sum - whole * 2f64.powi(-30)) * 2f64.powi(80)).trunc() as i64;
        }
        coarse as f64 * 2f64.powi(-30) + fine as f64 * 2f64.powi(-80)
    }

    /// Solution after so many steps, and the last (r, z) by the first.
    fn solve(&self, system: usize, steps: usize) -> (System, f64) {
        let each = |y: &mut System, x: &System, f: &dyn Fn(f64, f64) -> f64| {
            y.iter_mut().flatten().zip(x.iter().flatten()).for_each(|(y, x)| *y = f(*y, *x));
        };
        let quotient = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
        let mut r = self.right_side(system);
        let mut x: System = vec![vec![0.0; self.unknowns]; self.elements];
        let mut z = self.precondition(&r);
        let (mut p, mut s) = (z.clone(), self.product(&z));
        let first = Plain::sum(&r, &z);
        let mut gamma = first;
        for _ in 0..steps {
            let alpha = quotient(gamma, Plain::sum(&p, &s));
            let q = self.precondition(&s);
            each(&mut x, &p, &|x, p| x + alpha * p);
            each(&mut r, &s, &|r, s| r - alpha * s);
            each(&mut z, &q, &|z, q| z - alpha * q);
            let next = Plain::sum(&r, &z);
            let beta = quotient(next, gamma);
            gamma = next;
            let w = self.product(&z);
            each(&mut p, &z, &|p, z| z + beta * p);
            each(&mut s, &w, &|s, w| w + beta * s);
        }
        (x, quotient(gamma, first))
    }

    fn result(&self, steps: usize) -> Said {
        let (mut checksum, mut largest) = (0u64, 0.0);
        for system in 0..self.systems {
            let (x, ratio) = self.solve(system, steps);
            largest = f64::max(largest, ratio);
            for (number, at) in x.iter().flatten().zip(0u64..) {
                let place = at * self.systems as u64 + system as u64;
                checksum = checksum.wrapping_add(number.to_bits().wrapping_mul(2 * place + 1));
            }
        }
        let residual = if steps == 0 { 1.0 } else { largest.sqrt() };
        Said { steps, residual: format!("{residual:.9e}"), checksum: format!("{checksum:016x}") }
    }
}

/// The example's words for a problem, and what it has to say.
fn problem(elements: usize, unknowns: usize, systems: usize, steps: usize) -> (String, Said) {
    let words = format!("--size {elements} --unknowns {unknowns} --systems {systems} --steps {steps}");
    (words, Plain::new(elements, unknowns, systems).result(steps))
}

fn plain_loops_solve_the_equations() {
    let plain = Plain::new(30, 5, 3);
    for system in 0..plain.systems {
        let (x, ratio) = plain.solve(system, 60);
        let (product, right) = (plain.product(&x), plain.right_side(system));
        let wrong = product.iter().flatten().zip(right.iter().flatten()).map(|(a, b)| (a - b).abs());
        let wrong = wrong.fold(0.0, f64::max);
        assert!(wrong < 1e-9 && ratio < 1e-18, "system {system}: {wrong:e}, {ratio:e}");
    }
}

fn processes_compute_what_plain_loops_do() {
    let (words, right) = problem(20, 4, 150, 12);
    for backend in BACKENDS {
        for ranks in ["1", "2", "3", "5"] {
            assert_eq!(said(ranks, backend, &words), right, "{ranks} ranks, {backend}");
        }
    }
    // Ranks with one element and with two; one unknown; sums in shared memory; elements that are large messages; nothing to do; more
    // steps than there is to solve.
    for (ranks, elements, unknowns, systems, steps) in
        [("4", 5, 3, 9, 9), ("2", 9, 1, 140, 5), ("3", 6, 30, 300, 2), ("3", 10, 2, 4, 0), ("2", 4, 2, 3, 90)]
    {
        let (words, right) = problem(elements, unknowns, systems, steps);
        assert_eq!(said(ranks, BackendKind::Signal, &words), right, "{words}");
    }
}

fn threads_compute_what_plain_loops_do() {
    let (words, right) = problem(20, 4, 150, 12);
    for backend in BACKENDS {
        for ranks in [1, 2, 3, 5] {
            let words = format!("{words} --threads {ranks}");
            assert_eq!(said(ALONE, backend, &words), right, "{words}, {backend}");
        }
    }
}

fn skewed_loads_change_nothing() {
    let (words, right) = problem(32, 4, 150, 20);
    for backend in BACKENDS {
        for skewed in ["first", "last", "turns", "1"] {
            let words = format!("{words} --skew 2.5 --skewed {skewed}");
            assert_eq!(said("3", backend, &words), right, "{words}, {backend}");
        }
    }
}

fn no_algorithm_changes_anything() {
    let (words, right) = problem(21, 3, 150, 8);
    for algorithm in ["recursive-doubling", "rabenseifner", "ring", "linear", "reduce-bcast"] {
        let words = format!("{words} --algorithm {algorithm}");
        assert_eq!(said("3", BackendKind::Signal, &words), right, "{words}");
    }
}

fn the_best_backend_computes_what_plain_loops_do() {
    let best = example::best_backend();
    eprintln!("backend {best}");
    let (words, right) = problem(16, 3, 140, 10);
    let words = format!("{words} --skew 2 --skewed turns");
    for ranks in [2, 3] {
        assert_eq!(said(&ranks.to_string(), best, &words), right, "{ranks} ranks");
        assert_eq!(said(ALONE, best, &format!("{words} --threads {ranks}")), right, "{ranks} threads");
    }
}

fn a_tolerance_ends_all_ranks_at_the_same_step() {
    let words = "--size 24 --unknowns 4 --systems 10 --steps 10000 --tolerance 1e-6";
    let alone = said("1", BackendKind::Signal, words);
    assert!((2..100).contains(&alone.steps) && alone.residual.parse::<f64>().unwrap() < 1e-6, "{alone:?}");
    let plain = Plain::new(24, 4, 10);
    assert_eq!(alone, plain.result(alone.steps));
    assert!(plain.result(alone.steps - 1).residual.parse::<f64>().unwrap() >= 1e-6);
    for backend in BACKENDS {
        assert_eq!(said("3", backend, words), alone, "{backend}");
    }
}

fn wrong_words_are_told_by_one_rank() {
    for (role, words, told) in [
        (ALONE, "--size", "--size wants a value"),
        ("3", "--size", "--size wants a value"),
        (ALONE, "--warm", "there is no option --warm"),
        (ALONE, "--size wide", "--size wide: use a number from 1"),
        (ALONE, "--unknowns 0", "--unknowns 0: use a number from 1"),
        ("3", "--skew -1", "--skew -1: use a number from 0"),
        (ALONE, "--skewed never", "use first, last, turns or a rank's number"),
        ("3", "--skewed 3", "--skewed 3: the last of 3 ranks is 2"),
        ("3", "--warm 1", "usage: cg"),
        (ALONE, "--size 4 --threads 5", "every rank needs an element, and there are 5 ranks"),
        ("5", "--size 4", "every rank needs an element, and there are 5 ranks"),
    ] {
        let output = output(role, BackendKind::Signal, words);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && text.contains(told), "{words}: {}\n{text}", output.status);
        assert_eq!(text.matches("cg: ").count(), 1, "one rank says it: {words}\n{text}");
    }
    let help = output("3", BackendKind::Signal, "--help");
    let text = String::from_utf8_lossy(&help.stdout);
    assert!(help.status.success() && text.matches("usage: cg").count() == 1, "{}\n{text}", help.status);
}
