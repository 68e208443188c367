//! The `tocsin` command.

use clap::Parser;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tocsin_bench::Counted = tocsin_bench::Counted;

fn main() -> ExitCode {
    // clap exits with 2 for usage and 0 for help.
    tocsin_bench::run(&tocsin_bench::Cli::parse())
}

#[cfg(test)]
mod tests {
    use tocsin_bench::Counted;

    #[test]
    fn the_command_counts_what_it_holds() {
        Counted::begin();
        let before = Counted::held().unwrap_or_else(|| panic!("another allocator"));
        let mut block = std::hint::black_box(vec![0u8; 64 << 20]);
        let with = Counted::held().unwrap_or(before);
        block.truncate(16 << 20);
        block.shrink_to_fit();
        let less = Counted::held().unwrap_or(before);
        drop(std::hint::black_box(block));
        let after = Counted::held().unwrap_or(before);
        let mib = [with, less, after].map(|held| (held - before + (1 << 19)) >> 20);
        assert_eq!(mib, [64, 16, 0]);
    }
}
