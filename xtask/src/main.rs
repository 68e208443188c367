//! Development commands, run as `cargo xtask COMMAND`. Nothing here needs more than a Rust toolchain and a C compiler;
//! what is missing is installed where that is possible, else the line to type is printed.

use std::process::ExitCode;

mod cargo;
mod child;
mod demo;
mod disasm;
mod guest;
mod install;
mod licences;
mod peers;
mod prerequisites;
mod spdx;
mod tests;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  demo                  builds the `tocsin` command and shows communication that overlaps computation, on two ranks;
                        the last line is the path of a picture
  test [--deep] [--on-hardware] [NAME]
                        all tests: unit, cross-crate, loom models, instruction stepper, emulated machines; --deep adds
                        Miri, shuttle, the exhaustive products and the guest's other kernels. --on-hardware runs instead
                        what the guests run, on this machine, which must have user interrupts and the module. With NAME,
                        only the steps whose name contains it
  install --prefix DIR [--destdir DIR]
                        builds and installs tocsin.h, libtocsin.a, libtocsin.so, tocsin.pc and the `tocsin` command
  guest [--kernel stock|stock-6.12|patched] [--cpus N] [--quantum N] [--x2apic] [--full] [--shell] [--keep] [NAME]
                        boots emulated machines that have user interrupts and runs the tests of
                        kernel-patches/guest/tests.txt in them, or those whose name contains NAME; --shell boots one to
                        play with. Debian's packages come from the mirror that apt knows, or XTASK_DEBIAN_MIRROR
  peers [--rounds N] [--json] [--line-ns LO..HI] [NAME]
                        tocsin beside Debian's Open MPI and MPICH and Intel MPI on two cores, interleaved: half round trips,
                        overlap, four ranks. With NAME, only the experiments whose name contains it; --line-ns repeats what ran
                        while a line took less or more ns from core to core
  peers --heat | --cg [--rounds N] [--json] [--ranks N] [--size N] [--steps N] [--skew X]
                        examples/heat or examples/cg with signals and with poll, and the same program with each peer,
                        interleaved: balanced, and with one rank's load skewed
  peers --coll [--rounds N] [--json] [--op LIST] [--ranks LIST] [--sizes LIST] [--late-rank | --line-ns LO..HI]
                        collectives with nothing between post and wait, beside each peer's, interleaved, on 2 cores; with
                        --late-rank, how long the others wait while one rank computes for 10 ms, by algorithm and late rank.
                        Example: cargo xtask peers --coll --op ibcast,iallreduce --ranks 2,4 --sizes 8,64K,1M --rounds 5
  licences              checks the licence of every dependency
  disasm [BINARY]       checks the machine code of the functions listed in ci/wait-free.txt and ci/packed.txt, in `tocsin` as it is
                        tested, and it and the C library as they are installed
";

/// What went wrong, in words for the person at the terminal.
type Outcome = Result<(), String>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        words
            if words.first() == Some(&"help") || words.iter().any(|word| ["--help", "-h"].contains(word)) =>
        {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        ["demo"] => demo::run(),
        ["test", rest @ ..] => tests::Selection::parse(rest).and_then(|selection| tests::run(&selection)),
        ["install", rest @ ..] => install::Destination::parse(rest).and_then(|d| install::run(&d)),
        ["guest", rest @ ..] => guest::Options::parse(rest).and_then(|options| guest::run(&options)),
        ["peers", "--heat", rest @ ..] => {
            peers::heat::Options::parse(&peers::heat::HEAT, rest).and_then(|o| peers::heat::run(&o))
        }
        ["peers", "--cg", rest @ ..] => {
            peers::heat::Options::parse(&peers::heat::CG, rest).and_then(|o| peers::heat::run(&o))
        }
        ["peers", "--coll", rest @ ..] => {
            peers::coll::Options::parse(rest).and_then(|options| peers::coll::run(&options))
        }
        ["peers", rest @ ..] => peers::Options::parse(rest).and_then(|options| peers::run(&options)),
        ["licences"] => licences::run(),
        ["disasm"] => disasm::run(None),
        ["disasm", binary] => disasm::run(Some(binary)),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
