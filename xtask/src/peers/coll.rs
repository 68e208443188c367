//! `cargo xtask peers --coll`: what a collective takes with nothing between post and wait, two ranks on two cores and four ranks
//! on two cores; tocsin's posted anew each time and restarted, and each peer's. With `--late-rank`, [`late`].
//!
//! `tocsin bench coll --mode alone` and `peers/coll.c` do the same: every rank rewrites its buffers, then all meet at the same
//! barrier, outside of both libraries; the operation lasts from a rank's own post to its completion, and as long as with the
//! slowest rank. After each batch as many in a row, with nothing between them. The root is rank 0. Medians of batches, then of rounds.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::{Value, json};

use super::apart::{self, Wanted};
use super::experiments::{Asked, is_crowded, on_one_core, on_two_cores};
use super::mpi::{self, PEERS, Peer, Source};
use super::report::{Missing, Times, best_peer, columns, median, print_missing, print_waits, verdict};
use super::{BUILD, ROUNDS, late};
use crate::{Outcome, cargo, child};

/// Vectorised, as Rust's release builds are: what fills buffers and checks them leaves the same in the caches.
const PROGRAM: Source = Source { name: "coll", flags: &["-O3"] };

/// Those that `peers/coll.c` has.
pub const OPERATIONS: [&str; 17] = [
    "ibarrier",
    "ibcast",
    "iscatter",
    "iscatterv",
    "igather",
    "igatherv",
    "iallgather",
    "iallgatherv",
    "ialltoall",
    "ialltoallv",
    "ialltoallw",
    "ireduce",
    "iallreduce",
    "ireduce_scatter",
    "ireduce_scatter_block",
    "iscan",
    "iexscan",
];
/// Those whose times are asked to be as good as the best peer's.
const TIMED: [&str; 5] = ["ibarrier", "ibcast", "iallreduce", "ialltoall", "iallgather"];
/// The operation whose size is none.
const BARRIER: &str = "ibarrier";
/// tocsin's columns: posted, and prepared once and restarted.
const TOCSIN: &str = "tocsin";
const PERSISTENT: &str = "persistent";

/// More than `peers/coll.c` has place for.
const MOST_RANKS: u32 = 64;

/// What to measure.
#[derive(Debug, PartialEq)]
pub struct Options {
    pub json: bool,
    pub rounds: usize,
    pub operations: Vec<&'static str>,
    pub ranks: Vec<u32>,
    /// In bytes.
    pub sizes: Vec<u64>,
    /// How the others fare when one rank computes, instead of how long it takes.
    pub late: bool,
    /// Where the cores are to be.
    pub apart: Wanted,
}

impl Options {
    /// # Errors
    /// An unknown word or value.
    pub fn parse(words: &[&str]) -> Result<Options, String> {
        let late = words.contains(&"--late-rank");
        let mut options = Options {
            json: false,
            rounds: if late { late::ROUNDS } else { ROUNDS },
            operations: if late { OPERATIONS.to_vec() } else { TIMED.to_vec() },
            ranks: if late { vec![4, 8] } else { vec![2, 4] },
            sizes: if late { vec![1 << 10, 64 << 10] } else { vec![8, 64 << 10, 1 << 20] },
            late,
            apart: Wanted::default(),
        };
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            match word {
                "--json" => options.json = true,
                "--late-rank" => {}
                "--rounds" => options.rounds = one(word, words.next(), rounds)?,
                "--op" => options.operations = list(word, words.next(), operation)?,
                "--ranks" => options.ranks = list(word, words.next(), number_of_ranks)?,
                "--sizes" => options.sizes = list(word, words.next(), size)?,
                "--line-ns" if !late => options.apart = one(word, words.next(), Wanted::parse)?,
                _ => {
                    return Err(format!(
                        "peers --coll does not know {word}; it knows --rounds N, --op LIST, --ranks LIST, --sizes LIST, \
                         --late-rank, --json and, without --late-rank, --line-ns LO..HI"
                    ));
                }
            }
        }
        Ok(options)
    }

    /// Sizes as words; a barrier has one, which means nothing.
    pub fn size_words(&self, operation: &str) -> Vec<String> {
        let count = if operation == BARRIER { 1 } else { self.sizes.len() };
        self.sizes.iter().take(count).map(u64::to_string).collect()
    }
}

fn one<T>(name: &str, word: Option<&&str>, read: fn(&str) -> Result<T, String>) -> Result<T, String> {
    let word = word.ok_or_else(|| format!("{name} wants a value"))?;
    read(word).map_err(|wanted| format!("{name} {word}: {wanted}"))
}

fn list<T>(name: &str, word: Option<&&str>, read: fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    let all = word.ok_or_else(|| format!("{name} wants a list such as 2,4 or 8,64K"))?;
    all.split(',').map(|word| one(name, Some(&word), read)).collect()
}

fn rounds(word: &str) -> Result<usize, String> {
    word.parse().ok().filter(|n| *n > 0).ok_or_else(|| "use a number of at least 1".into())
}

fn number_of_ranks(word: &str) -> Result<u32, String> {
    let ranks = word.parse().ok().filter(|n| (2..=MOST_RANKS).contains(n));
    ranks.ok_or_else(|| format!("use a number from 2 to {MOST_RANKS}"))
}

fn operation(word: &str) -> Result<&'static str, String> {
    let known = OPERATIONS.iter().find(|name| **name == word);
    known.copied().ok_or_else(|| format!("there are: {}", OPERATIONS.join(", ")))
}

/// Sums are of 8-byte integers on both sides.
fn size(word: &str) -> Result<u64, String> {
    let (digits, unit) = match word.char_indices().last() {
        Some((at, 'K')) => (&word[..at], 1 << 10),
        Some((at, 'M')) => (&word[..at], 1 << 20),
        _ => (word, 1),
    };
    let bytes = digits.parse::<u32>().ok().map(|n| u64::from(n) * unit);
    let fits = bytes.filter(|bytes| (8..=64 << 20).contains(bytes) && bytes.is_multiple_of(8));
    fits.ok_or_else(|| "use a multiple of 8 up to 64M, such as 8, 64K, 1M".into())
}

/// `tocsin bench coll` on so many ranks.
pub fn tocsin(operation: &str, ranks: u32, sizes: &[String], more: &[&str]) -> Command {
    command(operation, ranks, sizes, more, |program, words| on_two_cores(ranks, program, words))
}

/// The command that measures an algorithm with all ranks on one core, where all of them call the library.
pub fn on_its_core(operation: &str, ranks: u32, sizes: &[String], algorithm: &str) -> Command {
    let more = ["--algorithm", algorithm, "--mode", "alone", "--backend", "poll"];
    command(operation, ranks, sizes, &more, on_one_core)
}

fn command(
    operation: &str,
    ranks: u32,
    sizes: &[String],
    more: &[&str],
    place: impl Fn(&str, &[&str]) -> Command,
) -> Command {
    let program = cargo::installed().join("tocsin").display().to_string();
    let (number, sizes) = (ranks.to_string(), sizes.join(","));
    let mut words =
        vec!["bench", "coll", "--op", operation, "--ranks", &number, "--kind", "process", "--json"];
    if operation != BARRIER {
        words.extend(["--sizes", &sizes]);
    }
    if is_crowded(ranks) {
        words.extend(["--bind", "none"]);
    }
    words.extend(more);
    place(&program, &words)
}

/// Every program's command for an operation.
fn programs(peers: &[Peer], operation: &'static str, ranks: u32, sizes: &[String]) -> Programs {
    let alone = ["--mode", "alone", "--backend", "signal"];
    let again = ["--mode", "alone", "--backend", "signal", "--persistent"];
    let mut all = vec![
        (TOCSIN, tocsin(operation, ranks, sizes, &alone)),
        (PERSISTENT, tocsin(operation, ranks, sizes, &again)),
    ];
    let words: Vec<&str> = ["alone", operation].into_iter().chain(sizes.iter().map(String::as_str)).collect();
    all.extend(peers.iter().map(|peer| (peer.mpi.name, peer.run(ranks, &words))));
    all
}

type Programs = Vec<(&'static str, Command)>;

/// Number of ranks, position of the operation, size, position of the figure.
type Place = (u32, usize, u64, usize);

/// What is measured of each: one by itself, and one of many in a row.
const FIGURES: [&str; 2] = ["t_comm_us", "in_a_row_us"];

/// By what was measured, and then by program, the values of the rounds; which algorithm tocsin took; and where the cores were.
#[derive(Default)]
struct Figures {
    apart: BTreeMap<(u32, usize), Times>,
    times: BTreeMap<Place, Times>,
    algorithms: BTreeMap<Place, String>,
}

impl Figures {
    /// Takes what a program printed of an operation: a JSON object per line; other lines are the launchers'.
    fn note(&mut self, ranks: u32, operation: &str, who: &'static str, output: &str) -> Outcome {
        let at = position(operation);
        for row in rows(who, output)? {
            let size = row.get("size_bytes").and_then(Value::as_u64).unwrap_or(0);
            for (figure, name) in FIGURES.iter().enumerate() {
                let time = row.get(*name).and_then(Value::as_f64);
                let time = time.ok_or_else(|| format!("{who} printed no {name}: {row}"))?;
                let place = (ranks, at, size, figure);
                self.times.entry(place).or_default().entry(who).or_default().push(time);
                if who == TOCSIN {
                    self.algorithms.insert(place, cargo::text(&row, "algorithm").to_owned());
                }
            }
        }
        Ok(())
    }

    /// How far apart the cores were before and after a run.
    fn note_apart(&mut self, ranks: u32, operation: &str, who: &'static str, looks: [f64; 2]) {
        let at = position(operation);
        self.apart.entry((ranks, at)).or_default().entry(who).or_default().extend(looks);
    }

    fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        self.times.iter().map(|(place, times)| {
            let (ranks, at, size, figure) = *place;
            let algorithm = self.algorithms.get(place).map_or("", String::as_str);
            Line { ranks, operation: OPERATIONS[at], size, figure: FIGURES[figure], algorithm, times }
        })
    }
}

fn position(operation: &str) -> usize {
    OPERATIONS.iter().position(|name| *name == operation).unwrap_or(0)
}

/// The JSON objects among what a program printed.
///
/// # Errors
/// One that is none.
pub fn rows(who: &str, output: &str) -> Result<Vec<Value>, String> {
    let lines = output.lines().filter(|line| line.starts_with('{'));
    lines
        .map(|line| serde_json::from_str(line).map_err(|e| format!("{who} printed no JSON: {e}: {line}")))
        .collect()
}

/// One operation of one size.
struct Line<'a> {
    ranks: u32,
    operation: &'static str,
    size: u64,
    figure: &'static str,
    algorithm: &'a str,
    times: &'a Times,
}

impl Line<'_> {
    fn of(&self, who: &str) -> Option<f64> {
        median(self.times.get(who)?)
    }

    fn to_best(&self, who: &str) -> Option<f64> {
        Some(self.of(who)? / self.of(best_peer(self.times)?)?)
    }

    /// What is asked of tocsin's, as a part of the best peer's. A barrier counts as a small message.
    fn asked(&self) -> Option<Asked> {
        if !TIMED.contains(&self.operation) || self.figure != FIGURES[0] {
            return None;
        }
        match (self.ranks, self.size) {
            (2, ..=8) => Some(Asked::OfBest(0.8)),
            (2, _) => Some(Asked::OfBest(1.05)),
            (4, _) => Some(Asked::OfBest(1.15)),
            _ => None,
        }
    }

    /// Whether it holds; `None` where nothing is asked, or nobody is there to compare with.
    fn holds(&self) -> Option<bool> {
        match self.asked()? {
            Asked::OfBest(most) => Some(self.to_best(TOCSIN)? <= most),
            _ => None,
        }
    }

    fn json(&self) -> Value {
        let mut row = json!({
            "bench": "coll", "op": self.operation, "mode": "alone", "kind": "process", "ranks": self.ranks,
            "size_bytes": self.size, "rounds": most(self.times), "algorithm": self.algorithm, "figure": self.figure,
        });
        let mut set = |key: &str, value: Value| {
            if let (Some(row), false) = (row.as_object_mut(), value.is_null()) {
                row.insert(key.to_owned(), value);
            }
        };
        for who in who() {
            set(who, json!(self.of(who)));
        }
        set("best_peer", json!(best_peer(self.times)));
        set("ratio_to_best", json!(self.to_best(TOCSIN)));
        set("persistent_to_best", json!(self.to_best(PERSISTENT)));
        if let Some(Asked::OfBest(most)) = self.asked() {
            set("asked_ratio_to_best", json!(most));
        }
        set("holds", json!(self.holds()));
        row
    }

    fn text(&self) -> String {
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.3}"));
        let ratio = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.2}"));
        let times = columns(who().map(|who| number(self.of(who))));
        let to_best = columns([TOCSIN, PERSISTENT].iter().map(|who| ratio(self.to_best(who))));
        let asked = match self.asked() {
            Some(Asked::OfBest(most)) => format!("{most:.2} of best{}", verdict(self.holds())),
            _ => String::new(),
        };
        let Line { ranks, operation, size, figure, algorithm, .. } = self;
        let figure = figure.trim_end_matches("_us");
        let line = format!(
            "{operation:21} {ranks:>5} {size:>8} {figure:8} {times}  {to_best}  {asked:20} {algorithm}"
        );
        line.trim_end().to_owned()
    }
}

/// Values of whoever has most.
fn most(times: &Times) -> usize {
    times.values().map(Vec::len).max().unwrap_or(0)
}

/// The columns of times.
fn who() -> impl Iterator<Item = &'static str> {
    [TOCSIN, PERSISTENT].into_iter().chain(PEERS.iter().map(|mpi| mpi.name))
}

/// Prints what was measured, also when a program of a later round fails, or the cores are not where they are to be.
///
/// # Errors
/// When tocsin cannot be built or no peer can be had, or a program fails.
pub fn run(options: &Options) -> Outcome {
    let build = ["build", "--profile", cargo::INSTALLED, "--bin", "tocsin"];
    child::output(child::command(&cargo::program(), &build, BUILD), "cargo build")?;
    let (peers, missing) = mpi::find_all(&PROGRAM);
    if peers.is_empty() {
        return Err("there is no peer to compare with".into());
    }
    if options.late {
        return late::run(options, &peers, &missing);
    }
    let mut figures = Figures::default();
    let end = measure(options, &peers, &mut figures);
    print(&figures, &peers, &missing, options);
    end
}

fn measure(options: &Options, peers: &[Peer], figures: &mut Figures) -> Outcome {
    for round in 1..=options.rounds {
        for &ranks in &options.ranks {
            for &operation in &options.operations {
                eprintln!("round {round} of {}: {operation}, {ranks} ranks", options.rounds);
                let mut programs = programs(peers, operation, ranks, &options.size_words(operation));
                // Nobody always comes after the same other.
                if round % 2 == 0 {
                    programs.reverse();
                }
                for (who, command) in programs {
                    let what = if who == PERSISTENT { "tocsin, persistent" } else { who };
                    let (output, looks) = options.apart.output(command, what)?;
                    figures.note(ranks, operation, who, &output)?;
                    figures.note_apart(ranks, operation, who, looks);
                }
            }
        }
    }
    Ok(())
}

fn print(figures: &Figures, peers: &[Peer], missing: &[Missing], options: &Options) {
    if !options.json {
        println!(
            "us; t_comm: post and wait with nothing between, of the slowest rank, all beginning at once; in_a_row: of many, one after the \
             other; bytes: of ibcast and iallreduce the whole buffer, of ialltoall and iallgather one rank's block; persistent: \
             tocsin's, restarted"
        );
        let (head, ratios) = (columns(who()), columns(["to best", "pers. to"].into_iter()));
        println!(
            "{:21} {:>5} {:>8} {:8} {head}  {ratios}  {:20} algorithm",
            "operation", "ranks", "bytes", "", "asked"
        );
    }
    let (mut asked, mut held) = (0, 0);
    for line in figures.lines() {
        asked += u64::from(line.asked().is_some());
        held += u64::from(line.holds() == Some(true));
        if options.json {
            println!("{}", line.json());
        } else {
            println!("{}", line.text());
        }
    }
    if !options.json {
        println!("asked {asked} times, held {held} times");
    }
    print_apart(figures, options);
    print_waits(peers, &options.ranks, options.json);
    print_missing(missing, options.json);
}

/// Where the cores were while each operation was measured.
fn print_apart(figures: &Figures, options: &Options) {
    for (&(ranks, at), looks) in &figures.apart {
        let of = |who| looks.get(who).and_then(|values| median(values));
        if options.json {
            let mut row = json!({
                "bench": "coll", "op": OPERATIONS[at], "mode": "alone", "kind": "process", "ranks": ranks,
                "rounds": most(looks) / 2, "figure": apart::FIGURE,
            });
            if let Some(row) = row.as_object_mut() {
                row.extend(who().filter_map(|who| Some((who.to_owned(), json!(of(who)?)))));
            }
            println!("{row}");
        } else {
            let cells = columns(who().map(|who| of(who).map_or("-".to_owned(), |ns| format!("{ns:.0}"))));
            println!("{:21} {ranks:>5} {:>8} {:8} {cells}", OPERATIONS[at], "", apart::FIGURE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        let got =
            Options::parse(&["--rounds", "3", "--json", "--op", "ibcast,ialltoall", "--sizes", "8,64K"])
                .expect("valid");
        let wanted = Options {
            json: true,
            rounds: 3,
            operations: vec!["ibcast", "ialltoall"],
            ranks: vec![2, 4],
            sizes: vec![8, 65536],
            late: false,
            apart: Wanted::default(),
        };
        assert_eq!(got, wanted);
        let late = Options::parse(&["--late-rank", "--ranks", "4"]).expect("valid");
        assert!(late.late && late.ranks == [4] && late.sizes == [1024, 65536]);
        for bad in [
            &["--rounds"][..],
            &["--rounds", "0"],
            &["--op", "igossip"],
            &["--op"],
            &["--ranks", "1"],
            &["--ranks", "2,65"],
            &["--sizes", "12"],
            &["--sizes", "8,"],
            &["--sizes", "99M"],
            &["--table"],
            &["--line-ns", "120"],
            &["--late-rank", "--line-ns", "0..120"],
        ] {
            assert!(Options::parse(bad).is_err(), "{bad:?}");
        }
        let unknown = Options::parse(&["--op", "igossip"]).expect_err("unknown");
        assert!(unknown.contains("ibarrier, ibcast"), "{unknown}");
    }

    #[test]
    fn a_barrier_has_no_sizes() {
        let options = Options::parse(&[]).expect("the defaults");
        assert_eq!(options.size_words("ibarrier"), ["8"]);
        assert_eq!(options.size_words("ibcast"), ["8", "65536", "1048576"]);
        let words = |operation| {
            let command = tocsin(operation, 4, &options.size_words(operation), &["--mode", "alone"]);
            command.get_args().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert!(!words("ibarrier").iter().any(|word| word == "--sizes"));
        let ibcast = words("ibcast").join(" ");
        assert!(ibcast.ends_with("--sizes 8,65536,1048576 --bind none --mode alone"), "{ibcast}");
    }

    #[test]
    fn ratios_are_of_medians_and_the_bound_stands_beside() {
        let mut figures = Figures::default();
        let row = |us: f64| {
            format!(
                "a launcher's line\n{{\"op\":\"ibcast\",\"size_bytes\":8,\"algorithm\":\"linear\",\"t_comm_us\":{us},\"in_a_row_us\":1}}\n"
            )
        };
        for (ours, again, first, second) in [(3.0, 2.0, 1.0, 4.0), (3.0, 2.0, 9.0, 4.0), (2.0, 1.0, 9.0, 4.0)]
        {
            let all = [(TOCSIN, ours), (PERSISTENT, again), (PEERS[0].name, first), (PEERS[1].name, second)];
            for (who, us) in all {
                figures.note(2, "ibcast", who, &row(us)).expect("JSON");
            }
        }
        let line = figures.lines().next().expect("one");
        let json = line.json();
        assert_eq!(json["rounds"].as_u64(), Some(3));
        let number = |key: &str| json[key].as_f64();
        assert_eq!(json["best_peer"].as_str(), Some(PEERS[1].name));
        assert_eq!((number(TOCSIN), number("ratio_to_best")), (Some(3.0), Some(0.75)));
        assert_eq!((number(PERSISTENT), number("persistent_to_best")), (Some(2.0), Some(0.5)));
        assert_eq!((number("asked_ratio_to_best"), &json["holds"]), (Some(0.8), &json!(true)));
        assert!(json.get(PEERS[2].name).is_none());
        let text = line.text();
        assert!(
            text.starts_with(
                "ibcast                    2        8 t_comm       3.000     2.000     9.000     4.000"
            ),
            "{text}"
        );
        assert!(text.ends_with("0.75      0.50  0.80 of best: held   linear"), "{text}");
        let in_a_row = figures.lines().nth(1).expect("the other figure").json();
        assert_eq!(
            (in_a_row["figure"].as_str(), in_a_row["ratio_to_best"].as_f64()),
            (Some("in_a_row_us"), Some(1.0))
        );
        assert!(in_a_row.get("asked_ratio_to_best").is_none());
        assert!(figures.note(2, "ibcast", TOCSIN, "{no").is_err());
        assert!(figures.note(2, "ibcast", TOCSIN, "{\"op\":\"ibcast\"}").is_err());
    }

    #[test]
    fn what_is_asked() {
        let times = Times::new();
        let asked = |ranks, size| {
            Line { ranks, operation: "ibcast", size, figure: FIGURES[0], algorithm: "", times: &times }
                .asked()
        };
        assert_eq!(asked(2, 0), Some(Asked::OfBest(0.8)));
        assert_eq!(asked(2, 64 << 10), Some(Asked::OfBest(1.05)));
        assert_eq!(asked(4, 8), Some(Asked::OfBest(1.15)));
        assert_eq!(asked(8, 8), None);
    }
}
