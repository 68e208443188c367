//! The tocsin command: info, run, benches and plots. Everything it does is library calls.
//!
//! What is measured, and how, is said by each bench's module; the rules are those of DESIGN.md: A and B in turn in
//! one run, medians of paired rounds, a null beside each ratio, buffers rewritten before each send, results checked.
//!
//! The public items serve the criterion benches and `cargo xtask demo`.

// They panic where nobody reads: `row::print` and `tocsin_world::say` are for that.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod bench;
mod cli;
mod commands;
mod compute;
mod counted;
mod error;
mod events;
mod fleet;
pub mod latency;
pub mod plot;
mod rank;
pub mod row;
mod shared;
pub mod simulate;
mod started;
pub mod stats;
mod steps;
mod tune;
mod values;

pub use cli::Cli;
pub use compute::{Speed, compute};
pub use counted::Counted;
pub use error::Error;
pub use values::{
    Backend, Case, Comparison, Completion, ComputeTime, Kernel, Kind, Lmt, Mechanism, Mode, OnFailure,
    Operation, Shape, Sizes, TraceFormat,
};

use cli::{BenchCommand, Command};
use std::process::ExitCode;
use tocsin_world::say;

/// Runs a parsed command line: exit status 0 success, 1 the run failed, 2 usage.
///
/// Not from a rank: it starts them.
pub fn run(cli: &Cli) -> ExitCode {
    started::hear_of_children();
    let done = match &cli.command {
        Command::Info(args) => commands::info::run(args).map(|()| 0),
        Command::Run(args) => commands::run::run(args),
        Command::Tune(args) => tune::run(args).map(|()| 0),
        Command::Plan(args) => commands::plan::run(&args.plan).map(|()| 0),
        Command::Rank(start) => rank::run(start).map(|()| 0),
        Command::Peer(args) => latency::peer(args).map(|()| 0),
        Command::Bench(args) => match &args.bench {
            BenchCommand::Latency(args) => latency::run(args),
            BenchCommand::Pingpong(args) => bench::pingpong::run(args),
            BenchCommand::Ring(args) => bench::ring::run(args),
            BenchCommand::Exchange(args) => bench::exchange::run(args),
            BenchCommand::Rate(args) => bench::rate::run(args),
            BenchCommand::Outstanding(args) => bench::outstanding::run(args),
            BenchCommand::Pairs(args) => bench::pairs::run(args),
            BenchCommand::Overlap(args) => bench::overlap::run(args),
            BenchCommand::Coll(args) => bench::coll::run(args),
            BenchCommand::Compare(args) => bench::compare::run(args),
            BenchCommand::Idle(args) => bench::idle::run(args),
            BenchCommand::Contention(args) => bench::contention::run(args),
        }
        .map(|()| 0),
    };
    match done {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            say(format_args!("tocsin: {error}"));
            ExitCode::from(error.status())
        }
    }
}
