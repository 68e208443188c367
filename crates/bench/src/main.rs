//! The `tocsin` command.

use clap::Parser;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tocsin_bench::Counted = tocsin_bench::Counted;

fn main() -> ExitCode {
    // clap exits with 2 for usage and 0 for help.
    tocsin_bench::run(&tocsin_bench::Cli::parse())
}
