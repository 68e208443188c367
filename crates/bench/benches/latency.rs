//! Notification latency between two near cores, threads and processes: signal, futex, eventfd, cache line.

use clap::Parser;
use criterion::{BenchmarkId, Criterion};
use std::process::ExitCode;
use std::time::Duration;
use tocsin_bench::latency::Probe;
use tocsin_bench::{Cli, Error, Kind, Mechanism};

const MECHANISMS: [Mechanism; 4] =
    [Mechanism::Signal, Mechanism::Futex, Mechanism::Eventfd, Mechanism::Cacheline];

fn main() -> ExitCode {
    // The receiving process is this program again.
    if std::env::args().nth(1).as_deref() == Some("peer") {
        return tocsin_bench::run(&Cli::parse());
    }
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("latency: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<(), Error> {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let usable = tocsin_topology::allowed_cpus().map_err(Error::failed)?;
    for kind in [Kind::Thread, Kind::Process] {
        let mut probe = Probe::start(kind)?;
        let mut group = criterion.benchmark_group("latency");
        let mut failed = None;
        for mechanism in MECHANISMS {
            group.bench_function(BenchmarkId::new(mechanism.to_string(), kind), |bencher| {
                bencher.iter_custom(|posts| {
                    probe.total(mechanism, posts).unwrap_or_else(|error| {
                        failed.get_or_insert(error);
                        // criterion wants a time that is not 0.
                        Duration::from_nanos(posts)
                    })
                });
            });
        }
        group.finish();
        match failed {
            Some(error) => return Err(error),
            None => probe.stop()?,
        }
        // The probe has bound this thread; the next one starts from the whole machine.
        tocsin_topology::bind_thread_to_all(&usable).map_err(Error::failed)?;
    }
    Ok(())
}
