//! `cargo xtask peers --heat`, `--cg`: the example `heat` or `cg` with signals and with progress inside library calls only, and
//! the same program by each peer; alone, balanced, and with one rank's load skewed.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::process::Command;
use std::str::FromStr;

use serde_json::{Value, json};

use super::experiments::{is_crowded, on_two_cores};
use super::mpi::{self, PEERS, Peer, Source};
use super::report::{Missing, Times, best_peer, columns, median, print_missing, verdict};
use super::{BUILD, ROUNDS};
use crate::{Outcome, cargo, child};

/// tocsin's, before the peers'.
const BACKENDS: [&str; 2] = ["signal", "poll"];

/// A program of `examples/` that there is by MPI, too.
#[derive(Debug, PartialEq)]
pub struct Example {
    /// Optimised as Rust's are, and without what would change the last bit.
    program: Source,
    /// How tocsin combines the sums, if that is not left to it.
    algorithm: Option<&'static str>,
    ranks: u32,
    size: u32,
    steps: u32,
    /// So many times as many steps where nobody has more to do.
    longer: u32,
    skew: f64,
}

const FLAGS: &[&str] = &["-O3", "-ffp-contract=off", "-fno-math-errno"];

/// Its sums stand in memory that all ranks share.
pub const HEAT: Example = Example {
    program: Source { name: "heat", flags: FLAGS },
    algorithm: None,
    ranks: 3,
    size: 1024,
    steps: 500,
    longer: 1,
    skew: 4.0,
};
/// Its sums are combined and passed on by messages, along a tree. Left to itself, tocsin has them in memory that all ranks share
/// where ranks share cores: then nobody has anything to pass on, and poll is as quick as signals.
pub const CG: Example = Example {
    program: Source { name: "cg", flags: FLAGS },
    algorithm: Some("reduce-bcast"),
    ranks: 4,
    size: 384,
    steps: 8,
    longer: 6,
    skew: 24.0,
};

/// How the load lies.
struct Case {
    name: &'static str,
    /// One rank only: how fast each program computes.
    alone: bool,
    /// Which rank has more to do.
    skewed: Option<&'static str>,
    /// Most that the time with signals may be, in times with poll.
    asked: Option<f64>,
}

/// A rank that is the last in every step finds all that it needs from the others already there, whatever notifies it, and its
/// own time is that of the run: `skewed first` tells what signals cost it. What they save shows where the ranks are late in
/// turns, as where the work wanders, if the others need something of the late one to go on with what they have: in `cg` what it
/// passes on, in `heat` nothing.
const CASES: [Case; 4] = [
    Case { name: "alone", alone: true, skewed: None, asked: None },
    Case { name: "balanced", alone: false, skewed: None, asked: Some(1.02) },
    Case { name: "skewed first", alone: false, skewed: Some("first"), asked: Some(0.95) },
    Case { name: "skewed turns", alone: false, skewed: Some("turns"), asked: Some(0.95) },
];

/// What to measure.
#[derive(Debug, PartialEq)]
pub struct Options {
    example: &'static Example,
    json: bool,
    rounds: usize,
    ranks: u32,
    size: u32,
    steps: u32,
    skew: f64,
}

impl Options {
    /// # Errors
    /// An unknown word or value.
    pub fn parse(example: &'static Example, words: &[&str]) -> Result<Options, String> {
        let &Example { ranks, size, steps, skew, .. } = example;
        let mut options = Options { example, json: false, rounds: ROUNDS, ranks, size, steps, skew };
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            if word == "--json" {
                options.json = true;
                continue;
            }
            let mut value = || words.next().copied().ok_or_else(|| format!("{word} wants a value"));
            match word {
                "--rounds" => options.rounds = number(word, value()?, 1)?,
                "--ranks" => options.ranks = number(word, value()?, 2)?,
                "--size" => options.size = number(word, value()?, 3)?,
                "--steps" => options.steps = number(word, value()?, 1)?,
                "--skew" => options.skew = number(word, value()?, 0.0)?,
                _ => {
                    return Err(format!(
                        "peers --{} does not know {word}; it knows --rounds, --ranks, --size, --steps, --skew, each \
                         with a number, and --json",
                        example.program.name
                    ));
                }
            }
        }
        Ok(options)
    }

    fn ranks_of(&self, case: &Case) -> u32 {
        if case.alone { 1 } else { self.ranks }
    }

    /// Size, steps, skew and who is skewed, as the peers' programs take them.
    fn words_of(&self, case: &Case) -> [String; 4] {
        let skew = if case.skewed.is_some() { self.skew } else { 0.0 };
        let skewed = case.skewed.unwrap_or("first").to_owned();
        [self.size.to_string(), self.steps_of(case).to_string(), skew.to_string(), skewed]
    }

    fn steps_of(&self, case: &Case) -> u32 {
        if case.skewed.is_some() { self.steps } else { self.steps.saturating_mul(self.example.longer) }
    }

    /// tocsin's side of a case.
    fn tocsin(&self, case: &Case, backend: &str) -> Command {
        let (ranks, [size, steps, skew, skewed]) = (self.ranks_of(case), self.words_of(case));
        let built = cargo::installed();
        let (launcher, program) =
            (built.join("tocsin"), built.join("examples").join(self.example.program.name));
        let (launcher, program) = (launcher.display().to_string(), program.display().to_string());
        let number = ranks.to_string();
        let mut words = vec!["run", "-n", &number, "--backend", backend];
        if is_crowded(ranks) {
            words.extend(["--bind", "none"]);
        }
        words.extend([
            "--", &program, "--size", &size, "--steps", &steps, "--skew", &skew, "--skewed", &skewed,
        ]);
        if let Some(name) = self.example.algorithm {
            words.extend(["--algorithm", name]);
        }
        on_two_cores(ranks, &launcher, &words)
    }
}

fn number<T>(name: &str, word: &str, least: T) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display,
{
    let number = word.parse().ok().filter(|n| *n >= least);
    number.ok_or_else(|| format!("{name} {word}: use a number of at least {least}"))
}

/// What a program said.
#[derive(Debug, PartialEq)]
struct Said {
    seconds: f64,
    checksum: String,
}

impl Said {
    /// Reads a program's output, launchers' lines among it.
    fn read(who: &str, output: &str) -> Result<Said, String> {
        let value = |name: &str| {
            let found = output.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            found.map(str::trim).ok_or_else(|| format!("{who} printed no {name}: {output}"))
        };
        let seconds = value("time_s")?;
        let seconds = seconds.parse().map_err(|_| format!("{who} printed no time but {seconds}"))?;
        Ok(Said { seconds, checksum: value("checksum")?.to_owned() })
    }
}

/// Prints what was measured, also when a later program fails.
///
/// # Errors
/// When tocsin cannot be built, a program fails, or computes what the others do not.
pub fn run(options: &Options) -> Outcome {
    let build = [
        "build",
        "--profile",
        cargo::INSTALLED,
        "--bin",
        "tocsin",
        "--example",
        options.example.program.name,
    ];
    child::output(child::command(&cargo::program(), &build, BUILD), "cargo build")?;
    let (peers, missing) = mpi::find_all(&options.example.program);
    let mut figures: Vec<Times> = CASES.iter().map(|_| Times::new()).collect();
    let end = measure(options, &peers, &mut figures);
    print(options, &figures, &missing);
    end
}

fn measure(options: &Options, peers: &[Peer], figures: &mut [Times]) -> Outcome {
    let mut right: BTreeMap<u32, String> = BTreeMap::new();
    for round in 1..=options.rounds {
        for (case, times) in CASES.iter().zip(&mut *figures) {
            eprintln!("round {round} of {}: {}", options.rounds, case.name);
            let (ranks, words) = (options.ranks_of(case), options.words_of(case));
            let words = words.each_ref().map(String::as_str);
            let ours = BACKENDS.iter().map(|backend| (*backend, options.tocsin(case, backend)));
            let theirs = peers.iter().map(|peer| (peer.mpi.name, peer.run(ranks, &words)));
            let mut programs: Vec<(&'static str, Command)> = ours.chain(theirs).collect();
            // Nobody always comes after the same other.
            if round % 2 == 0 {
                programs.reverse();
            }
            for (who, command) in programs {
                let said = Said::read(who, &child::output(command, who)?)?;
                let right = right.entry(options.steps_of(case)).or_insert_with(|| said.checksum.clone());
                if said.checksum != *right {
                    return Err(format!("{who}, {}: checksum {}, not {right}", case.name, said.checksum));
                }
                times.entry(who).or_default().push(said.seconds);
            }
        }
    }
    Ok(())
}

/// Median of the rounds' ratios.
fn ratio(times: &Times, of: &str, to: &str) -> Option<f64> {
    let (of, to) = (times.get(of)?, times.get(to)?);
    median(&of.iter().zip(to).map(|(a, b)| a / b).collect::<Vec<f64>>())
}

/// Whether what is asked of signal holds; `None` where nothing is.
fn holds(case: &Case, times: &Times) -> Option<bool> {
    Some(ratio(times, "signal", "poll")? <= case.asked?)
}

fn row(options: &Options, case: &Case, times: &Times) -> Value {
    let mut row = json!({
        "bench": options.example.program.name, "case": case.name, "ranks": options.ranks_of(case), "kind": "process", "size": options.size,
        "steps": options.steps_of(case), "skew": if case.skewed.is_some() { options.skew } else { 0.0 }, "rounds": options.rounds,
    });
    let mut set = |key: String, value: Value| {
        if let (Some(row), false) = (row.as_object_mut(), value.is_null()) {
            row.insert(key, value);
        }
    };
    set("algorithm".into(), json!(options.example.algorithm));
    for (who, values) in times {
        set(format!("{who}_s"), json!(median(values)));
    }
    set("signal_to_poll".into(), json!(ratio(times, "signal", "poll")));
    set("asked_signal_to_poll".into(), json!(case.asked));
    set("holds".into(), json!(holds(case, times)));
    for mpi in &PEERS {
        set(format!("{}_to_poll", mpi.name), json!(ratio(times, mpi.name, "poll")));
    }
    if let Some(best) = best_peer(times) {
        set("best_peer".into(), json!(best));
        set("signal_to_best".into(), json!(ratio(times, "signal", best)));
    }
    row
}

/// A line per case: seconds, then ratios to poll, and what is asked of that of signal.
fn print(options: &Options, figures: &[Times], missing: &[Missing]) {
    let programs: Vec<&str> = BACKENDS.into_iter().chain(PEERS.iter().map(|mpi| mpi.name)).collect();
    if !options.json {
        let by = options.example.algorithm.map_or(String::new(), |name| format!(" (tocsin by {name})"));
        println!("seconds, then the median of the rounds' ratios to poll{by}");
        let all = programs.iter().chain(programs.iter().filter(|who| **who != "poll"));
        println!("{:14} {}  asked of signal", "case", columns(all.copied()));
    }
    for (case, times) in CASES.iter().zip(figures) {
        if options.json {
            println!("{}", row(options, case, times));
            continue;
        }
        let cell = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.4}"));
        let seconds = programs.iter().map(|who| cell(times.get(who).and_then(|values| median(values))));
        let ratios = programs.iter().filter(|who| **who != "poll").map(|who| cell(ratio(times, who, "poll")));
        let asked = case
            .asked
            .map_or(String::new(), |most| format!("at most {most:.2}{}", verdict(holds(case, times))));
        println!("{:14} {}  {asked}", case.name, columns(seconds.chain(ratios)));
    }
    print_missing(missing, options.json);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        let got = Options::parse(&CG, &["--rounds", "7", "--json", "--size", "32", "--skew", "0.5"])
            .expect("valid");
        let &Example { ranks, steps, .. } = &CG;
        let asked = Options { example: &CG, json: true, rounds: 7, ranks, size: 32, steps, skew: 0.5 };
        assert_eq!(got, asked);
        let steps = CASES.map(|case| got.steps_of(&case));
        assert_eq!(steps, [CG.steps * CG.longer, CG.steps * CG.longer, CG.steps, CG.steps]);
        for bad in [&["--rounds"][..], &["--rounds", "0"], &["--ranks", "1"], &["--skew", "-1"], &["ring"]] {
            assert!(Options::parse(&HEAT, bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_a_program_said() {
        let output = "a launcher's line\nheat on 4 x 4\ntime_s 0.25\nresidual 1e-3\nchecksum 00ff\n";
        let right = Said { seconds: 0.25, checksum: "00ff".into() };
        assert_eq!(Said::read("it", output), Ok(right));
        assert!(Said::read("it", "time_s 1\n").expect_err("no checksum").contains("it printed no checksum"));
    }

    #[test]
    fn ratios_are_of_rounds_and_the_best_peer_is_that_of_the_lowest_median() {
        let (first, second) = (PEERS[0].name, PEERS[1].name);
        let times: Times = [
            ("signal", vec![1.0, 2.0, 9.0]),
            ("poll", vec![2.0, 2.0, 10.0]),
            (first, vec![1.0, 8.0, 8.0]),
            (second, vec![4.0, 4.0, 3.0]),
        ]
        .into();
        let options = Options::parse(&HEAT, &[]).expect("the defaults");
        let row = row(&options, &CASES[3], &times);
        assert_eq!((row["signal_to_poll"].as_f64(), row["signal_s"].as_f64()), (Some(0.9), Some(2.0)));
        assert_eq!((row["asked_signal_to_poll"].as_f64(), row["skew"].as_f64()), (Some(0.95), Some(4.0)));
        assert_eq!((row["best_peer"].as_str(), row["signal_to_best"].as_f64()), (Some(second), Some(0.5)));
        assert!(row.get(format!("{}_s", PEERS[2].name)).is_none());
    }
}
