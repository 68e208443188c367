//! Overlap of one message with computing at its receiver: signal against poll.
//!
//! First the two are compared in turn, round by round, as `tocsin bench overlap` does; then criterion times each
//! ("both together", in which a perfect overlap takes as long as the computing alone).

use clap::Parser;
use criterion::{BenchmarkId, Criterion};
use std::process::ExitCode;
use std::time::Duration;
use tocsin_bench::bench::Session;
use tocsin_bench::stats::{Ratios, Times};
use tocsin_bench::{Backend, Case, Cli, Error, Kind};

const BACKENDS: [Backend; 2] = [Backend::Signal, Backend::Poll];
const SIZES: [u64; 3] = [4 << 10, 64 << 10, 1 << 20];
const ROUNDS: u64 = 40;

fn main() -> ExitCode {
    // The ranks are this program again.
    if std::env::args().nth(1).as_deref() == Some("rank") {
        return tocsin_bench::run(&Cli::parse());
    }
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("overlap: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<(), Error> {
    let mut session = Session::start(&BACKENDS, Kind::Process)?;
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    println!(
        "{:>10} {:>8} {:>10} {:>10} {:>10} {:>7}",
        "bytes", "backend", "t_comm_us", "t_comp_us", "t_ovrl_us", "ratio"
    );
    let mut computing = Vec::new();
    for bytes in SIZES {
        let mut alone: [Times; 2] = Default::default();
        for round in 0..2 * ROUNDS {
            let at = (round % 2) as usize;
            alone[at].add(session.round(at, bytes, Case::Recv, 0.0)?.t_comm as u64);
        }
        // The same fixed work for both, so that their totals compare.
        let compute_ns = 2.0 * alone[0].median().max(alone[1].median());
        computing.push(compute_ns);
        let mut times: [[Times; 3]; 2] = Default::default();
        let mut ratios: [Ratios; 2] = Default::default();
        for round in 0..2 * ROUNDS {
            let at = (round % 2) as usize;
            let overlap = session.round(at, bytes, Case::Recv, compute_ns)?;
            ratios[at].add(overlap.ratio());
            for (times, ns) in times[at].iter_mut().zip([overlap.t_comm, overlap.t_comp, overlap.t_ovrl]) {
                times.add(ns as u64);
            }
        }
        for (at, backend) in BACKENDS.iter().enumerate() {
            let [comm, comp, ovrl] = times[at].each_ref().map(|t| t.median() / 1000.0);
            let ratio = ratios[at].median();
            println!(
                "{bytes:>10} {backend:>8} {comm:>10.1} {comp:>10.1} {ovrl:>10.1} {ratio:>7.2}",
                backend = backend.to_string()
            );
        }
    }
    let mut group = criterion.benchmark_group("overlap");
    let mut failed = None;
    for (bytes, compute_ns) in SIZES.into_iter().zip(computing) {
        for (at, backend) in BACKENDS.iter().enumerate() {
            group.bench_function(BenchmarkId::new(backend.to_string(), bytes), |bencher| {
                bencher.iter_custom(|rounds| {
                    let mut total = 0.0;
                    for _ in 0..rounds {
                        match session.round(at, bytes, Case::Recv, compute_ns) {
                            Ok(overlap) => total += overlap.t_ovrl,
                            Err(error) => {
                                failed.get_or_insert(error);
                                // criterion wants a time that is not 0.
                                return Duration::from_nanos(rounds);
                            }
                        }
                    }
                    Duration::from_nanos(total as u64)
                });
            });
        }
    }
    group.finish();
    match failed {
        Some(error) => Err(error),
        None => session.stop(),
    }
}
