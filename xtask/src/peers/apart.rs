//! How far apart the two cores are while a program runs on them.
//!
//! The host of a virtual machine may move its cores, for seconds at a time, between ones that share a cache and ones that do not;
//! what a copy takes from one to the other changes several times over. So each run stands between two looks, what they saw is
//! printed, and who wants figures of one state says so.

use std::ops::RangeInclusive;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{cargo, child};

/// The figure: how long one rank's store to a line takes to be seen by another's core, in nanoseconds.
pub const FIGURE: &str = "line_ns";
/// For the cores to come to where they are wanted, and stay for a run.
const PATIENCE: Duration = Duration::from_secs(300);
/// Between two looks at cores that are elsewhere.
const PAUSE: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_secs(20);

/// Where the cores are to be while something is measured; anywhere, unless said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted(Option<RangeInclusive<f64>>);

impl Wanted {
    /// # Errors
    /// What is no range.
    pub fn parse(word: &str) -> Result<Wanted, String> {
        let ends = word.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
        let range = ends.filter(|(from, to): &(f64, f64)| *from >= 0.0 && from < to && to.is_finite());
        let (from, to) = range.ok_or("use a range in nanoseconds, such as 0..120")?;
        Ok(Wanted(Some(from..=to)))
    }

    fn holds(&self, seen: f64) -> bool {
        self.0.as_ref().is_none_or(|range| range.contains(&seen))
    }

    /// Runs the command, again and again until the cores are as wanted before and after; its output, and what the two looks saw.
    ///
    /// # Errors
    /// When it fails, or the cores do not come there and stay.
    pub fn output(&self, command: Command, who: &str) -> Result<(String, [f64; 2]), String> {
        self.output_between(command, who, look, PATIENCE)
    }

    fn output_between(
        &self,
        mut command: Command,
        who: &str,
        look: impl Fn() -> Result<f64, String>,
        patience: Duration,
    ) -> Result<(String, [f64; 2]), String> {
        let start = Instant::now();
        let mut all = Vec::new();
        loop {
            let before = look()?;
            all.push(before);
            if self.holds(before) {
                let output = child::output_of(&mut command, who)?;
                let after = look()?;
                all.push(after);
                if self.holds(after) {
                    return Ok((output, [before, after]));
                }
            }
            if start.elapsed() >= patience {
                all.sort_by(f64::total_cmp);
                let (least, most) = (all[0], all[all.len() - 1]);
                return Err(format!(
                    "a line took from {least:.0} to {most:.0} ns from core to core in {} s, and never before and after a run of \
                     {who} what --line-ns asks for: ask for another range, or leave it out",
                    patience.as_secs()
                ));
            }
            thread::sleep(PAUSE);
        }
    }
}

/// What the nearest pair of cores does now. A tenth of the times are no longer: others who use the cores do not count.
fn look() -> Result<f64, String> {
    let program = cargo::installed().join("tocsin").display().to_string();
    let words =
        ["bench", "latency", "--mechanism", "cacheline", "--kind", "thread", "--rounds", "500", "--json"];
    let said = child::output(child::command(&program, &words, LOOK), "tocsin bench latency")?;
    let row: Option<Value> = said.lines().next().and_then(|line| serde_json::from_str(line).ok());
    let seen = row.and_then(|row| row.get("p10_ns")?.as_f64());
    seen.ok_or_else(|| format!("tocsin bench latency printed no p10_ns: {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn ranges() {
        let near = Wanted::parse("0..120").expect("a range");
        assert!(near.holds(55.5) && near.holds(120.0) && !near.holds(121.0));
        assert!(Wanted::default().holds(1e9));
        for bad in ["", "5", "5..", "9..5", "a..b", "-1..4", "0..inf"] {
            assert!(Wanted::parse(bad).is_err(), "{bad}");
        }
    }

    fn script(wanted: &str, seen: &[f64], patience: Duration) -> Result<(String, [f64; 2]), String> {
        let left = RefCell::new(seen.iter().copied());
        let last = seen[seen.len() - 1];
        let look = || Ok(left.borrow_mut().next().unwrap_or(last));
        let command = child::command("echo", &["ran"], LOOK);
        Wanted::parse(wanted).expect("a range").output_between(command, "echo", look, patience)
    }

    #[test]
    fn what_ran_elsewhere_or_was_moved_meanwhile_runs_again() {
        let got = script("0..100", &[300.0, 50.0, 300.0, 60.0, 55.0], PATIENCE);
        assert_eq!(got, Ok(("ran\n".into(), [60.0, 55.0])));
    }

    #[test]
    fn patience_ends_and_says_what_was_seen() {
        let why = script("0..100", &[310.0, 330.0], Duration::ZERO).expect_err("never there");
        assert!(why.contains("from 310 to 310 ns") && why.contains("--line-ns"), "{why}");
    }
}
