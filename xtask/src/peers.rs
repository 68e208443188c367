//! `cargo xtask peers`: tocsin beside Open MPI, MPICH and Intel MPI on two cores of this machine, interleaved: half round trips,
//! overlap, four ranks on the two cores, and how many small messages go in a second.
//!
//! The peers are unpacked in the user's cache, not installed; `peers/peers.c` is the program, compiled against each. With
//! `--heat` or `--cg`, the example of that name and `peers/heat.c` or `peers/cg.c`; with `--coll`, collectives and `peers/coll.c`.

mod apart;
pub mod coll;
mod experiments;
pub mod heat;
mod intel;
mod late;
mod mpi;
mod report;

use std::time::Duration;

use crate::{Outcome, cargo, child};
use apart::Wanted;
use experiments::EXPERIMENTS;
use mpi::{Peer, Source};
use report::Figures;

const BUILD: Duration = Duration::from_secs(600);
/// Interleaved rounds: fewer give no median to go by.
const ROUNDS: usize = 5;

/// What to measure.
pub struct Options {
    json: bool,
    rounds: usize,
    /// Only the experiments whose name contains it.
    only: String,
    /// Where the cores are to be.
    apart: Wanted,
}

impl Options {
    /// # Errors
    /// An unknown word.
    pub fn parse(words: &[&str]) -> Result<Options, String> {
        let mut options =
            Options { json: false, rounds: ROUNDS, only: String::new(), apart: Wanted::default() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--json" => options.json = true,
                "--rounds" => {
                    let rounds = words.next().and_then(|n| n.parse().ok()).filter(|n| *n > 0);
                    options.rounds = rounds.ok_or("--rounds wants a number of at least 1")?;
                }
                "--line-ns" => {
                    let range =
                        words.next().ok_or("--line-ns wants a range in nanoseconds, such as 0..120")?;
                    options.apart =
                        Wanted::parse(range).map_err(|why| format!("--line-ns {range}: {why}"))?;
                }
                option if option.starts_with('-') => {
                    return Err(format!(
                        "peers does not know {option}; it knows --rounds N, --line-ns LO..HI, --json and the NAME of an experiment, or \
                         --heat, --cg or --coll before its own options"
                    ));
                }
                name => options.only = name.to_owned(),
            }
        }
        if !EXPERIMENTS.iter().any(|e| e.name.contains(&options.only)) {
            let names: Vec<&str> = EXPERIMENTS.iter().map(|e| e.name).collect();
            return Err(format!("no experiment is called {}; there are: {}", options.only, names.join(", ")));
        }
        Ok(options)
    }
}

/// Prints what was measured, also when a program of a later round fails, or the cores are not where they are to be.
///
/// # Errors
/// When tocsin cannot be built or no peer can be had, or a program fails.
pub fn run(options: &Options) -> Outcome {
    let build = ["build", "--profile", cargo::INSTALLED, "--bin", "tocsin"];
    child::output(child::command(&cargo::program(), &build, BUILD), "cargo build")?;
    let (peers, missing) = mpi::find_all(&Source { name: "peers", flags: &["-O2"] });
    if peers.is_empty() {
        return Err("there is no peer to compare with".into());
    }
    let mut figures = Figures::default();
    let end = measure(options, &peers, &mut figures);
    report::print(&figures, &peers, &missing, options.json);
    end
}

fn measure(options: &Options, peers: &[Peer], figures: &mut Figures) -> Outcome {
    for round in 1..=options.rounds {
        for experiment in EXPERIMENTS.iter().filter(|e| e.name.contains(&options.only)) {
            eprintln!("round {round} of {}: {}", options.rounds, experiment.name);
            let theirs = peers.iter().map(|peer| (peer.mpi.name, peer.command(experiment)));
            for (who, command) in std::iter::once(("tocsin", experiment.tocsin())).chain(theirs) {
                let (output, looks) = options.apart.output(command, who)?;
                figures.note(experiment, who, &output)?;
                figures.note_apart(experiment, who, looks);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        let got = Options::parse(&["--rounds", "3", "--json", "ring"]).expect("valid");
        assert_eq!((got.rounds, got.json, got.only.as_str()), (3, true, "ring"));
        for bad in [&["--rounds"][..], &["--rounds", "0"], &["--table"], &["carousel"], &["--line-ns", "9"]] {
            assert!(Options::parse(bad).is_err(), "{bad:?}");
        }
    }
}
