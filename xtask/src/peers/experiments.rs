//! What is compared, and what is asked of it.

use std::process::Command;
use std::time::Duration;

use crate::{cargo, child};

/// One run of one program.
pub const RUN: Duration = Duration::from_secs(300);

/// Something to measure in tocsin and in each peer.
pub struct Experiment {
    /// For people.
    pub name: &'static str,
    /// The word for `tocsin bench` and for `peers.c`.
    pub bench: &'static str,
    pub ranks: u32,
    /// tocsin's ranks are threads; a peer's are processes always.
    pub threads: bool,
    /// Buffers are allocated by the library: tocsin's shared heap, a peer's `MPI_Alloc_mem`.
    pub allocated: bool,
    pub sizes: &'static [u64],
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// In the order of the report.
pub const EXPERIMENTS: [Experiment; 9] = [
    Experiment {
        name: "pingpong",
        bench: "pingpong",
        ranks: 2,
        threads: false,
        allocated: false,
        sizes: &[8, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB],
    },
    Experiment {
        name: "pingpong-allocated",
        bench: "pingpong",
        ranks: 2,
        threads: false,
        allocated: true,
        sizes: &[64 * KIB, 256 * KIB, MIB, 4 * MIB],
    },
    Experiment {
        name: "pingpong-threads",
        bench: "pingpong",
        ranks: 2,
        threads: true,
        allocated: false,
        sizes: &[MIB],
    },
    Experiment {
        name: "pingpong-of-4",
        bench: "pingpong",
        ranks: 4,
        threads: false,
        allocated: false,
        sizes: &[KIB],
    },
    Experiment {
        name: "ring-of-4",
        bench: "ring",
        ranks: 4,
        threads: false,
        allocated: false,
        sizes: &[KIB],
    },
    Experiment {
        name: "exchange",
        bench: "exchange",
        ranks: 2,
        threads: false,
        allocated: false,
        sizes: &[8, KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB],
    },
    Experiment {
        name: "rate",
        bench: "rate",
        ranks: 2,
        threads: false,
        allocated: false,
        sizes: &[8, 64, KIB],
    },
    Experiment {
        name: "overlap",
        bench: "overlap",
        ranks: 2,
        threads: false,
        allocated: false,
        sizes: &[64 * KIB, 256 * KIB, MIB, 4 * MIB],
    },
    Experiment {
        name: "overlap-10ms",
        bench: "overlap",
        ranks: 2,
        threads: false,
        allocated: false,
        sizes: &[MIB],
    },
];

/// The experiment whose computing takes so many microseconds, however long the message takes.
const LONG: (&str, &str) = ("overlap-10ms", "10000");

/// Figures that are compared; less is better in all of them but the null ratio, which is best at 0.
pub const FIGURES: [&str; 12] = [
    "half_rtt_us_p50",
    "hop_us_p50",
    "exchange_us_p50",
    "message_ns_p50",
    "ratio",
    "null_ratio",
    "peer_blocked_us",
    "t_comm_us",
    "complete_us",
    BLOCKED_TO_COMM,
    TO_BOUND,
    CALLED_TO_BOUND,
];
/// How long who does not compute is held, by what the message takes where nobody does.
pub const BLOCKED_TO_COMM: &str = "blocked_to_comm";
/// The time of a run, by what it takes at least.
pub const TO_BOUND: &str = "to_bound";
/// The same of a run with callbacks, whose message's completion they time.
pub const CALLED_TO_BOUND: &str = "called_to_bound";

impl Experiment {
    /// tocsin's side of it.
    pub fn tocsin(&self) -> Command {
        let program = cargo::installed().join("tocsin").display().to_string();
        let sizes = self.size_words().join(",");
        let ranks = self.ranks.to_string();
        let kind = if self.threads { "thread" } else { "process" };
        let mut words = vec!["bench", self.bench, "--backend", "signal", "--json", "--kind", kind];
        words.extend(["--ranks", &ranks, "--sizes", &sizes]);
        if self.allocated {
            words.extend(["--buffers", "shared"]);
        }
        if self.bench == "overlap" {
            let (time, rounds) = if self.name == LONG.0 { (LONG.1, "30") } else { ("4x", "200") };
            words.extend(["--case", "recv,send,both", "--compute-us", time, "--rounds", rounds]);
        }
        if is_crowded(self.ranks) {
            words.extend(["--bind", "none"]);
        }
        on_two_cores(self.ranks, &program, &words)
    }

    /// What `peers.c` is to measure.
    pub fn of_peers(&self) -> &'static str {
        match self.bench {
            "pingpong" if self.allocated => "pingpong-allocated",
            "overlap" => self.name,
            bench => bench,
        }
    }

    pub fn size_words(&self) -> Vec<String> {
        self.sizes.iter().map(u64::to_string).collect()
    }

    /// What is asked of tocsin's figure against the best peer's, or of the figure itself.
    pub fn asked(&self, case: &str, size: u64, figure: &str) -> Option<Asked> {
        let of_best = |most| Some(Asked::OfBest(most));
        match (self.name, case, figure) {
            // Bandwidths are the inverse of these.
            ("pingpong" | "pingpong-allocated", _, "half_rtt_us_p50") => match size {
                ..=8 => of_best(0.75),
                9..65_536 => of_best(1.05),
                65_536..MIB => of_best(1.0),
                _ => of_best(1.0 / 1.2),
            },
            ("pingpong-threads", _, "half_rtt_us_p50") => of_best(1.0 / 1.5),
            ("pingpong-of-4", _, "half_rtt_us_p50") | ("ring-of-4", _, "hop_us_p50") => of_best(1.15),
            ("overlap", "recv", "ratio") => Some(Asked::AtMost(if size > 65_536 { 0.10 } else { 0.20 })),
            ("overlap", "send", "ratio") if size > 65_536 => Some(Asked::AtMost(0.10)),
            ("overlap", _, "null_ratio") => Some(Asked::Within(0.03)),
            ("overlap-10ms", "both", "complete_us") => Some(Asked::AtMost(2000.0)),
            ("overlap-10ms", "both", TO_BOUND | CALLED_TO_BOUND) => Some(Asked::AtMost(1.03)),
            ("overlap-10ms", "recv" | "send", BLOCKED_TO_COMM) => Some(Asked::AtMost(3.0)),
            _ => None,
        }
    }
}

/// What a figure may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Asked {
    /// At most this part of the best peer's.
    OfBest(f64),
    /// At most this, by itself.
    AtMost(f64),
    /// At most so far from 0, on either side.
    Within(f64),
}

/// More ranks than the two cores that they run on.
pub fn is_crowded(ranks: u32) -> bool {
    ranks > 2
}

/// The command; a crowded one is kept to two cores where there are more.
pub fn on_two_cores(ranks: u32, program: &str, words: &[&str]) -> Command {
    let cores = if is_crowded(ranks) { two_of_many() } else { None };
    match &cores {
        None => child::command(program, words, RUN),
        Some(list) => {
            let all: Vec<&str> = ["-c", list, program].into_iter().chain(words.iter().copied()).collect();
            child::command("taskset", &all, RUN)
        }
    }
}

/// The command, on one core.
pub fn on_one_core(program: &str, words: &[&str]) -> Command {
    let all: Vec<&str> = ["-c", FIRST, program].into_iter().chain(words.iter().copied()).collect();
    child::command("taskset", &all, RUN)
}

/// The first processor, as a list for `taskset`.
const FIRST: &str = "0";

/// Two processors of different cores, as a list for `taskset`; none where there are no more than two.
fn two_of_many() -> Option<String> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let siblings = (0..processors).filter_map(|n| {
        let file = format!("/sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list");
        std::fs::read_to_string(file).ok().map(|list| (n, list))
    });
    two_cores(&siblings.collect::<Vec<_>>()).filter(|_| processors > 2)
}

/// The first processors of the first two cores; each processor comes with those of its core.
fn two_cores(processors: &[(usize, String)]) -> Option<String> {
    let (first, its) = processors.first()?;
    let (second, _) = processors.iter().find(|(_, of)| of != its)?;
    Some(format!("{first},{second}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked() {
        let asked = |name: &str, case: &str, size, figure: &str| {
            let experiment = EXPERIMENTS.iter().find(|e| e.name == name).expect("there is one");
            experiment.asked(case, size, figure)
        };
        assert_eq!(asked("pingpong", "", 8, "half_rtt_us_p50"), Some(Asked::OfBest(0.75)));
        assert_eq!(asked("pingpong", "", 16 * KIB, "half_rtt_us_p50"), Some(Asked::OfBest(1.05)));
        assert_eq!(asked("pingpong", "", 256 * KIB, "half_rtt_us_p50"), Some(Asked::OfBest(1.0)));
        assert_eq!(asked("pingpong", "", 4 * MIB, "half_rtt_us_p50"), Some(Asked::OfBest(1.0 / 1.2)));
        assert_eq!(asked("ring-of-4", "", KIB, "hop_us_p50"), Some(Asked::OfBest(1.15)));
        assert_eq!(asked("ring-of-4", "", 0, "line_ns"), None);
        assert_eq!(asked("overlap", "recv", 64 * KIB, "ratio"), Some(Asked::AtMost(0.20)));
        assert_eq!(asked("overlap", "send", 64 * KIB, "ratio"), None);
        assert_eq!(asked("overlap", "recv", MIB, "null_ratio"), Some(Asked::Within(0.03)));
        assert_eq!(asked("overlap-10ms", "recv", MIB, "ratio"), None);
        assert_eq!(asked("overlap-10ms", "both", MIB, "complete_us"), Some(Asked::AtMost(2000.0)));
        assert_eq!(asked("overlap-10ms", "send", MIB, BLOCKED_TO_COMM), Some(Asked::AtMost(3.0)));
    }

    #[test]
    fn two_processors_of_one_core_are_no_two_cores() {
        let of = |lists: &[&str]| -> Vec<_> { lists.iter().map(|&l| l.to_owned()).enumerate().collect() };
        assert_eq!(two_cores(&of(&["0-1", "0-1", "2-3", "2-3"])).as_deref(), Some("0,2"));
        assert_eq!(two_cores(&of(&["0,4", "1,5", "0,4", "1,5"])).as_deref(), Some("0,1"));
        assert_eq!(two_cores(&of(&["0-1", "0-1"])), None);
        assert_eq!(two_cores(&[]), None);
    }
}
