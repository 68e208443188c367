//! The `tocsin` command.

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    // clap exits with 2 for usage and 0 for help.
    tocsin_bench::run(&tocsin_bench::Cli::parse())
}
