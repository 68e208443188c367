//! `cargo xtask peers --coll --late-rank`: one rank posts a collective and computes; how long the others wait, for each algorithm
//! and each late rank, with signals and with progress inside library calls only, and with each peer.
//!
//! Where ranks share cores, those that are not late may have one for all of them: what the collective takes then with nobody late, on one core, is measured, too.
//!
//! `tocsin bench coll --late-rank` and `peers/coll.c` do the same. A peer chooses its algorithm by itself.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::coll::{OPERATIONS, Options, on_its_core, rows, tocsin};
use super::experiments::is_crowded;
use super::mpi::{PEERS, Peer};
use super::report::{Missing, Times, columns, median, print_missing, print_waits};
use crate::{Outcome, cargo, child};

/// Rounds of programs; each takes the median of [`TURNS`] itself.
pub const ROUNDS: usize = 1;
/// In microseconds, without a library call.
const LATE_US: &str = "10000";
const TURNS: &str = "11";
/// Where poll's others wait for as long, in microseconds, ...
const HELD_UP: f64 = 5000.0;
/// ... signal's wait at most for this.
const ASKED: f64 = 500.0;
/// tocsin's, before the peers'.
const BACKENDS: [&str; 2] = ["signal", "poll"];
/// To ask which algorithms there are.
const ASK: Duration = Duration::from_secs(60);

/// Number of ranks, position of the operation, size, algorithm, late rank.
type Place = (u32, usize, u64, String, u64);

/// What was measured, by program; a peer's stands beside every algorithm.
#[derive(Default)]
struct Figures {
    ours: BTreeMap<Place, Times>,
    peers: BTreeMap<(u32, usize, u64, u64), Times>,
    /// By number of ranks, position of the operation, size and algorithm: nobody late, on one core.
    one_core: BTreeMap<(u32, usize, u64, String), Vec<f64>>,
}

impl Figures {
    /// Takes what a program printed. `peer`: who it was; tocsin's rows say the backend.
    fn note(&mut self, peer: Option<&'static str>, output: &str) -> Outcome {
        let who = peer.unwrap_or("tocsin");
        for row in rows(who, output)? {
            let number = |key: &str| row.get(key).and_then(Value::as_u64);
            let read = || {
                let at = OPERATIONS.iter().position(|name| *name == cargo::text(&row, "op"))?;
                let backend = || BACKENDS.into_iter().find(|name| *name == cargo::text(&row, "backend"));
                let place = (number("ranks")? as u32, at, number("size_bytes")?, number("late_rank")?);
                Some((peer.or_else(backend)?, place, row.get("others_done_us")?.as_f64()?))
            };
            let read = read().ok_or_else(|| format!("{who} printed what is no figure of a late rank: {row}"));
            let (name, place, time) = read?;
            let times = match peer {
                Some(_) => self.peers.entry(place).or_default(),
                None => {
                    let (ranks, at, size, late) = place;
                    let algorithm = cargo::text(&row, "algorithm").to_owned();
                    self.ours.entry((ranks, at, size, algorithm, late)).or_default()
                }
            };
            times.entry(name).or_default().push(time);
        }
        Ok(())
    }

    /// Takes what was measured on one core.
    fn note_one_core(&mut self, output: &str) -> Outcome {
        for row in rows("tocsin", output)? {
            let number = |key: &str| row.get(key).and_then(Value::as_u64);
            let read = || {
                let at = OPERATIONS.iter().position(|name| *name == cargo::text(&row, "op"))?;
                let algorithm = cargo::text(&row, "algorithm").to_owned();
                let place = (number("ranks")? as u32, at, number("size_bytes")?, algorithm);
                Some((place, row.get("t_comm_us")?.as_f64()?))
            };
            let (place, time) = read().ok_or_else(|| format!("tocsin printed what is no time: {row}"))?;
            self.one_core.entry(place).or_default().push(time);
        }
        Ok(())
    }

    fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        self.ours.iter().map(|(place, ours)| {
            let (ranks, at, size, algorithm, late) = place;
            let peers = self.peers.get(&(*ranks, *at, *size, *late));
            Line {
                ranks: *ranks,
                operation: OPERATIONS[*at],
                size: *size,
                algorithm,
                late: *late,
                ours,
                peers,
                one_core: self
                    .one_core
                    .get(&(*ranks, *at, *size, algorithm.clone()))
                    .and_then(|times| median(times)),
            }
        })
    }
}

struct Line<'a> {
    ranks: u32,
    operation: &'static str,
    size: u64,
    algorithm: &'a str,
    late: u64,
    ours: &'a Times,
    peers: Option<&'a Times>,
    one_core: Option<f64>,
}

impl Line<'_> {
    fn of(&self, who: &str) -> Option<f64> {
        median(self.ours.get(who).or_else(|| self.peers?.get(who))?)
    }

    /// What is asked of signal's, and whether it holds.
    fn asked(&self) -> Option<(f64, bool)> {
        let (signal, poll) = (self.of("signal")?, self.of("poll")?);
        (poll >= HELD_UP).then_some((ASKED, signal <= ASKED))
    }

    fn json(&self, rounds: usize) -> Value {
        let mut row = json!({
            "bench": "coll", "op": self.operation, "mode": "late", "kind": "process", "ranks": self.ranks,
            "size_bytes": self.size, "rounds": rounds, "algorithm": self.algorithm, "late_rank": self.late,
            "figure": "others_done_us",
        });
        if let Some(row) = row.as_object_mut() {
            for who in who() {
                row.extend(self.of(who).map(|time| (who.to_owned(), json!(time))));
            }
            row.extend(self.one_core.map(|time| ("one_core".to_owned(), json!(time))));
            if let Some((most, holds)) = self.asked() {
                row.insert("asked_at_most".into(), json!(most));
                row.insert("holds".into(), json!(holds));
            }
        }
        row
    }

    fn text(&self) -> String {
        let times =
            columns(who().map(|who| self.of(who).map_or("-".to_owned(), |time| format!("{time:.1}"))));
        let asked = match self.asked() {
            Some((most, true)) => format!("{most:.0}: held"),
            Some((most, false)) => format!("{most:.0}: missed"),
            None => String::new(),
        };
        let one_core = self.one_core.map_or("-".to_owned(), |time| format!("{time:.1}"));
        let Line { ranks, operation, size, algorithm, late, .. } = self;
        let place = format!("{operation:21} {algorithm:18} {ranks:>5} {late:>4} {size:>8}");
        let line = format!("{place} {times} {one_core:>9}  {asked}");
        line.trim_end().to_owned()
    }
}

fn who() -> impl Iterator<Item = &'static str> {
    BACKENDS.into_iter().chain(PEERS.iter().map(|mpi| mpi.name))
}

/// What loads and stores one segment sends no messages that could be simulated.
const ON_BOARDS: &str = "shm";
/// By design it has ranks do a part themselves, when they are called.
const IN_CALLS: &str = "split-tree";

/// The names of the algorithms that can do an operation on so many ranks.
fn algorithms(operation: &str, ranks: u32) -> Result<Vec<String>, String> {
    let program = cargo::installed().join("tocsin").display().to_string();
    let names = |words: &[&str]| -> Result<Vec<String>, String> {
        let words = [&["plan"], words, &["--op", operation, "--json"]].concat();
        let said = child::output(child::command(&program, &words, ASK), "tocsin plan")?;
        Ok(rows("tocsin plan", &said)?.iter().map(|row| cargo::text(row, "algorithm").to_owned()).collect())
    };
    let by_messages = names(&["schedule", "--algorithm", "all", "--ranks", &ranks.to_string()])?;
    let mut all = names(&["algorithms"])?;
    all.retain(|name| name == ON_BOARDS || by_messages.contains(name) && name != IN_CALLS);
    Ok(all)
}

/// Prints what was measured, also when a later program fails.
///
/// # Errors
/// When a program fails.
pub fn run(options: &Options, peers: &[Peer], missing: &[Missing]) -> Outcome {
    let mut figures = Figures::default();
    let end = measure(options, peers, &mut figures);
    print(&figures, peers, missing, options);
    end
}

fn measure(options: &Options, peers: &[Peer], figures: &mut Figures) -> Outcome {
    for round in 1..=options.rounds {
        for &ranks in &options.ranks {
            for &operation in &options.operations {
                eprintln!("round {round} of {}: {operation}, {ranks} ranks", options.rounds);
                let sizes = options.size_words(operation);
                for algorithm in algorithms(operation, ranks)? {
                    for late in 0..ranks {
                        let late = late.to_string();
                        let mut more =
                            vec!["--algorithm", &algorithm, "--late-rank", &late, "--late-us", LATE_US];
                        more.extend(["--backend", "signal,poll", "--rounds", TURNS]);
                        let command = tocsin(operation, ranks, &sizes, &more);
                        figures.note(None, &child::output(command, "tocsin")?)?;
                    }
                    if is_crowded(ranks) {
                        let command = on_its_core(operation, ranks, &sizes, &algorithm);
                        figures.note_one_core(&child::output(command, "tocsin")?)?;
                    }
                }
                let words = ["late", operation, LATE_US].into_iter().chain(sizes.iter().map(String::as_str));
                let words: Vec<&str> = words.collect();
                for peer in peers {
                    let name = peer.mpi.name;
                    figures.note(Some(name), &child::output(peer.run(ranks, &words), name)?)?;
                }
            }
        }
    }
    Ok(())
}

fn print(figures: &Figures, peers: &[Peer], missing: &[Missing], options: &Options) {
    if !options.json {
        println!(
            "others_done, us: from the last post of the ranks that are not late to the last of their completions; the late one \
             computes for {LATE_US} us; asked of signal where poll takes {HELD_UP:.0} us or more; one core: the collective, nobody late, \
             with all ranks on one core"
        );
        let (algorithm, late, head) = ("algorithm", "late", columns(who()));
        println!(
            "{:21} {algorithm:18} {:>5} {late:>4} {:>8} {head}  one core  asked",
            "operation", "ranks", "bytes"
        );
    }
    let (mut asked, mut held, mut too_long) = (0, 0, 0);
    for line in figures.lines() {
        if let Some((_, holds)) = line.asked() {
            asked += 1;
            held += u64::from(holds);
            too_long += u64::from(!holds && line.one_core.is_some_and(|time| time > ASKED));
        }
        if options.json {
            println!("{}", line.json(options.rounds));
        } else {
            println!("{}", line.text());
        }
    }
    if !options.json {
        println!(
            "asked {asked} times, held {held} times; of the others {too_long} take longer on one core than is asked"
        );
    }
    print_waits(peers, &options.ranks, options.json);
    print_missing(missing, options.json);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signal_is_asked_where_poll_is_held_up() {
        let mut figures = Figures::default();
        let row = |backend: &str, late: u64, us: f64| {
            format!(
                "{{\"backend\":\"{backend}\",\"ranks\":4,\"op\":\"ibcast\",\"algorithm\":\"chain\",\"size_bytes\":1024,\
                 \"late_rank\":{late},\"others_done_us\":{us}}}\n"
            )
        };
        let ours = [
            row("signal", 1, 80.0),
            row("poll", 1, 9800.0),
            row("signal", 2, 700.0),
            row("poll", 2, 9700.0),
            row("signal", 3, 700.0),
            row("poll", 3, 20.0),
        ];
        figures.note(None, &ours.concat()).expect("rows");
        figures
            .note(Some(PEERS[0].name), &format!("a launcher's line\n{}", row("", 2, 9900.5)))
            .expect("rows");
        let alone = "{\"ranks\":4,\"op\":\"ibcast\",\"algorithm\":\"chain\",\"size_bytes\":1024,\"t_comm_us\":612.5}\n";
        figures.note_one_core(alone).expect("a row");
        let asked: Vec<_> = figures.lines().map(|line| line.asked()).collect();
        assert_eq!(asked, [Some((ASKED, true)), Some((ASKED, false)), None]);
        let second = figures.lines().nth(1).expect("three");
        let text = second.text();
        assert!(text.starts_with("ibcast                chain                  4    2     1024"), "{text}");
        assert!(text.contains("9700.0    9900.5") && text.ends_with(" 612.5  500: missed"), "{text}");
        let json = second.json(1);
        assert_eq!(json["one_core"], 612.5);
        assert_eq!((json["holds"].as_bool(), json[PEERS[0].name].as_f64()), (Some(false), Some(9900.5)));
        assert!(json.get(PEERS[1].name).is_none());
    }

    #[test]
    fn what_is_no_figure_is_an_error() {
        let mut figures = Figures::default();
        for bad in [
            "{no",
            "{\"op\":\"ibcast\",\"backend\":\"signal\"}",
            "{\"op\":\"igossip\",\"backend\":\"signal\",\"others_done_us\":1.0}",
            "{\"op\":\"ibcast\",\"backend\":\"signal\",\"others_done_us\":1.0}",
        ] {
            assert!(figures.note(None, bad).is_err(), "{bad}");
        }
        assert_eq!(figures.lines().count(), 0);
    }
}
