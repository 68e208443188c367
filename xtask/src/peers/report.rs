//! The figures of all rounds, as a table or as JSON: medians, and tocsin's against the best peer's.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde_json::{Value, json};

use super::apart;
use super::experiments::{
    Asked, BLOCKED_TO_COMM, CALLED_TO_BOUND, EXPERIMENTS, Experiment, FIGURES, TO_BOUND, is_crowded,
};
use super::mpi::{PEERS, Peer};
use crate::{Outcome, cargo};

/// A peer that is not there.
pub struct Missing {
    pub name: &'static str,
    pub why: String,
}

/// Position of the experiment, case, size, figure.
type Place = (usize, String, u64, &'static str);

/// By what was measured, and then by program, the values of the rounds.
#[derive(Default)]
pub struct Figures(BTreeMap<Place, Times>);

impl Figures {
    /// Takes what a program printed: a JSON object per line; other lines are the launchers'.
    ///
    /// # Errors
    /// When an object is none.
    pub fn note(&mut self, experiment: &Experiment, who: &'static str, output: &str) -> Outcome {
        let at = EXPERIMENTS.iter().position(|e| e.name == experiment.name).unwrap_or(0);
        for line in output.lines().filter(|line| line.starts_with('{')) {
            let row: Value =
                serde_json::from_str(line).map_err(|e| format!("{who} printed no JSON: {e}: {line}"))?;
            let size = row.get("size_bytes").and_then(Value::as_u64).unwrap_or(0);
            // What the sizes are measured for, if more than one thing.
            let case = ["case", "receives", "waits"].map(|key| cargo::text(&row, key)).concat();
            for figure in FIGURES {
                if let Some(value) = value(&row, figure) {
                    let place = (at, case.clone(), size, figure);
                    self.0.entry(place).or_default().entry(who).or_default().push(value);
                }
            }
        }
        Ok(())
    }

    /// How far apart the cores were before and after a run.
    pub fn note_apart(&mut self, experiment: &Experiment, who: &'static str, looks: [f64; 2]) {
        let at = EXPERIMENTS.iter().position(|e| e.name == experiment.name).unwrap_or(0);
        let place = (at, String::new(), 0, apart::FIGURE);
        self.0.entry(place).or_default().entry(who).or_default().extend(looks);
    }
}

/// A figure of a row, or what its figures say.
fn value(row: &Value, figure: &str) -> Option<f64> {
    let number = |key: &str| row.get(key).and_then(Value::as_f64);
    match figure {
        BLOCKED_TO_COMM => Some(number("peer_blocked_us")? / number("t_comm_us")?),
        TO_BOUND => Some(1.0 / number("efficiency")?),
        CALLED_TO_BOUND => Some(1.0 / number("efficiency_called")?),
        _ => number(figure),
    }
}

/// The middle one; of an even number, the larger of the two.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

/// Values of the rounds, by program, of one thing that is measured; less is better.
pub type Times = BTreeMap<&'static str, Vec<f64>>;

/// The peer of the lowest median.
pub fn best_peer(times: &Times) -> Option<&'static str> {
    let peers = PEERS.iter().filter_map(|mpi| Some((mpi.name, median(times.get(mpi.name)?)?)));
    peers.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(name, _)| name)
}

/// Whether what is asked holds, behind it.
pub fn verdict(holds: Option<bool>) -> &'static str {
    match holds {
        Some(true) => ": held",
        Some(false) => ": missed",
        None => ": nothing to compare",
    }
}

/// Cells of a table of numbers.
pub fn columns(cells: impl Iterator<Item = impl Display>) -> String {
    cells.map(|cell| format!("{cell:>9}")).collect::<Vec<String>>().join(" ")
}

/// One figure of all programs.
struct Line<'a> {
    experiment: &'a Experiment,
    case: &'a str,
    size: u64,
    figure: &'static str,
    tocsin: Option<f64>,
    peers: Vec<Option<f64>>,
}

impl Line<'_> {
    /// The best peer is that of the lowest median.
    fn best(&self) -> Option<(&'static str, f64)> {
        let known = PEERS.iter().zip(&self.peers).filter_map(|(mpi, value)| Some((mpi.name, (*value)?)));
        known.min_by(|(_, a), (_, b)| a.total_cmp(b))
    }

    fn to_best(&self) -> Option<f64> {
        // A ratio's ratio says nothing, and where the cores are is nobody's merit.
        let of_nothing = ["ratio", apart::FIGURE, BLOCKED_TO_COMM];
        let says = !of_nothing.iter().any(|figure| self.figure.ends_with(figure));
        self.tocsin.zip(self.best()).filter(|_| says).map(|(ours, (_, best))| ours / best)
    }

    fn asked(&self) -> Option<Asked> {
        self.experiment.asked(self.case, self.size, self.figure)
    }

    /// Whether what is asked holds; `None` where nothing is, or nobody is there to compare with.
    fn holds(&self) -> Option<bool> {
        Some(match self.asked()? {
            Asked::OfBest(most) => self.to_best()? <= most,
            Asked::AtMost(most) => self.tocsin? <= most,
            Asked::Within(most) => self.tocsin?.abs() <= most,
        })
    }

    fn json(&self) -> Value {
        let kind = if self.experiment.threads { "thread" } else { "process" };
        let mut row = json!({
            "bench": self.experiment.bench, "experiment": self.experiment.name, "ranks": self.experiment.ranks,
            "kind": kind, "size_bytes": self.size, "figure": self.figure,
        });
        let mut set = |key: &str, value: Value| {
            if let (Some(row), false) = (row.as_object_mut(), value.is_null()) {
                row.insert(key.to_owned(), value);
            }
        };
        if !self.case.is_empty() {
            set("case", json!(self.case));
        }
        set("tocsin", json!(self.tocsin));
        for (mpi, value) in PEERS.iter().zip(&self.peers) {
            set(mpi.name, json!(value));
        }
        let best = self.best().filter(|_| !matches!(self.asked(), Some(Asked::Within(_))));
        set("best_peer", json!(best.map(|(name, _)| name)));
        set("ratio_to_best", json!(self.to_best()));
        match self.asked() {
            Some(Asked::OfBest(most)) => set("asked_ratio_to_best", json!(most)),
            Some(Asked::AtMost(most)) => set("asked_at_most", json!(most)),
            Some(Asked::Within(most)) => set("asked_within", json!(most)),
            None => {}
        }
        set("holds", json!(self.holds()));
        row
    }

    fn text(&self) -> String {
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.3}"));
        let mut line = format!(
            "{:16} {:5} {:>8} {:16} {:>10}",
            self.experiment.name,
            self.case,
            self.size,
            self.figure,
            number(self.tocsin)
        );
        for value in &self.peers {
            line += &format!(" {:>10}", number(*value));
        }
        let to_best = self.to_best().map_or(String::new(), |ratio| format!("{ratio:.2}"));
        let asked = match self.asked() {
            Some(Asked::OfBest(most)) => format!("{most:.2} of best"),
            Some(Asked::AtMost(most)) => format!("{most:.2}"),
            Some(Asked::Within(most)) => format!("{most:.2} either way"),
            None => String::new(),
        };
        let holds = if self.asked().is_some() { verdict(self.holds()) } else { "" };
        format!("{line} {to_best:>8}  {asked}{holds}").trim_end().to_owned()
    }
}

/// A line per figure; then how the peers wait, and which are not there.
pub fn print(figures: &Figures, peers: &[Peer], missing: &[Missing], as_json: bool) {
    if !as_json {
        let mut head =
            format!("{:16} {:5} {:>8} {:16} {:>10}", "experiment", "case", "bytes", "figure", "tocsin");
        PEERS.iter().for_each(|mpi| head += &format!(" {:>10}", mpi.name));
        println!("{head} {:>8}  asked at most", "to best");
    }
    let (mut asked, mut held) = (0, 0);
    for ((at, case, size, figure), by) in &figures.0 {
        let of = |who: &str| by.get(who).and_then(|values| median(values));
        let line = Line {
            experiment: &EXPERIMENTS[*at],
            case,
            size: *size,
            figure,
            tocsin: of("tocsin"),
            peers: PEERS.iter().map(|mpi| of(mpi.name)).collect(),
        };
        asked += u64::from(line.asked().is_some());
        held += u64::from(line.holds() == Some(true));
        if as_json {
            println!("{}", line.json());
        } else {
            println!("{}", line.text());
        }
    }
    if !as_json {
        println!("asked {asked} times, held {held} times");
    }
    let ranks: Vec<u32> = figures.0.keys().map(|(at, ..)| EXPERIMENTS[*at].ranks).collect();
    print_waits(peers, &ranks, as_json);
    print_missing(missing, as_json);
}

/// How each peer waits, if there were more ranks than cores.
pub fn print_waits(peers: &[Peer], ranks: &[u32], as_json: bool) {
    let crowded = ranks.iter().any(|ranks| is_crowded(*ranks));
    for peer in peers.iter().filter(|_| crowded) {
        let (name, waits) = (peer.mpi.name, peer.mpi.waits);
        if as_json {
            println!("{}", json!({"peer": name, "waits_when_crowded": waits}));
        } else {
            println!("more than 2 ranks on 2 cores, {name}: {waits}");
        }
    }
}

/// A line for each peer that is not there.
pub fn print_missing(missing: &[Missing], as_json: bool) {
    for Missing { name, why } in missing {
        if as_json {
            println!("{}", json!({"peer": name, "missing": why}));
        } else {
            println!("without {name}: {why}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_peer_is_that_of_the_lowest_median() {
        let mut figures = Figures::default();
        let ping = &EXPERIMENTS[0];
        let row = |us: f64| {
            format!(
                "a launcher's line\n{{\"bench\":\"pingpong\",\"size_bytes\":8,\"half_rtt_us_p50\":{us}}}\n"
            )
        };
        for (ours, first, second) in [(3.0, 1.0, 4.0), (3.0, 9.0, 4.0), (2.0, 9.0, 4.0)] {
            for (who, us) in [("tocsin", ours), (PEERS[0].name, first), (PEERS[1].name, second)] {
                figures.note(ping, who, &row(us)).expect("JSON");
            }
        }
        let by = figures.0.values().next().expect("one figure");
        let of = |who: &str| by.get(who).and_then(|values| median(values));
        let peers = PEERS.iter().map(|mpi| of(mpi.name)).collect();
        let line =
            Line { experiment: ping, case: "", size: 8, figure: FIGURES[0], tocsin: of("tocsin"), peers };
        assert_eq!(line.best(), Some((PEERS[1].name, 4.0)));
        let json = line.json();
        assert_eq!(
            (json["ratio_to_best"].as_f64(), json["best_peer"].as_str()),
            (Some(0.75), Some(PEERS[1].name))
        );
        assert_eq!(json["holds"], true);
        assert!(json.get(PEERS[2].name).is_none());
        assert!(line.text().ends_with("0.75  0.75 of best: held"), "{}", line.text());
        assert!(figures.note(ping, "tocsin", "{no").is_err());
        let overlap = EXPERIMENTS.iter().find(|e| e.name == "overlap").expect("there is one");
        let null = Line {
            experiment: overlap,
            case: "recv",
            size: 65_536,
            figure: "null_ratio",
            tocsin: Some(-0.5),
            peers: vec![Some(-0.1); PEERS.len()],
        };
        assert!(null.text().ends_with("0.03 either way: missed"), "{}", null.text());
        let ratio =
            |tocsin| Line { figure: "ratio", tocsin: Some(tocsin), peers: null.peers.clone(), ..null };
        assert_eq!([0.2, 0.21].map(|of| ratio(of).holds()), [Some(true), Some(false)]);
        let slow = Line { tocsin: Some(3.1), peers: line.peers.clone(), ..line };
        assert_eq!(slow.holds(), Some(false));
        let alone = Line { peers: vec![None; PEERS.len()], ..slow };
        assert_eq!(alone.holds(), None);
        assert!(alone.text().ends_with("0.75 of best: nothing to compare"), "{}", alone.text());
        let json = null.json();
        assert_eq!((json["asked_within"].as_f64(), json.get("best_peer")), (Some(0.03), None));
        let row = json!({"peer_blocked_us": 300.0, "t_comm_us": 100.0, "efficiency": 0.8, "efficiency_called": 0.5});
        let figures = [BLOCKED_TO_COMM, TO_BOUND, CALLED_TO_BOUND];
        assert_eq!(figures.map(|of| value(&row, of)), [Some(3.0), Some(1.25), Some(2.0)]);
        assert_eq!(value(&json!({"t_comm_us": 1.0}), TO_BOUND), None);
    }
}
