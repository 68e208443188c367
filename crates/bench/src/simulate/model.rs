//! What a message costs (LogGP: Alexandrov, Ionescu, Schauser and Scheiman 1995), with nodes of several cores.

use std::fmt;
use std::str::FromStr;
use tocsin_nbc::Hierarchy;
use tocsin_topology::Locality;

/// The network and its nodes. Times are picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// From the sender's interface to the receiver's, between nodes.
    pub latency: u64,
    /// Of the core, to send a message or to receive one.
    pub overhead: u64,
    /// Between two messages through one node's interface, each way; a message of many bytes takes it for longer.
    pub gap: u64,
    /// Per byte: of the interface between nodes, of the sender's core within one.
    pub byte: u64,
    /// Per byte that a rank copies or reduces by itself.
    pub compute: u64,
    /// Ranks on a node; neighbours stand on one.
    pub cores: u32,
}

impl Default for Model {
    /// Orders of magnitude of a present cluster: 1 us, 0.2 us, 0.05 us, 10 GB/s, one rank per node.
    fn default() -> Model {
        Model { latency: 1_000_000, overhead: 200_000, gap: 50_000, byte: 100, compute: 0, cores: 1 }
    }
}

impl Model {
    /// The node of a rank.
    pub(super) fn node(&self, rank: u32) -> usize {
        (rank / self.cores.max(1)) as usize
    }

    /// The nodes, as the parts of a machine; `None`: all ranks are on one, or each is on one of its own.
    pub(super) fn hierarchy(&self, ranks: u32) -> Option<Hierarchy> {
        let on_node = |node| Locality { package: node, node, cache: node };
        let all: Vec<_> = (0..ranks).map(|rank| Some(on_node(self.node(rank) as u32))).collect();
        Hierarchy::new(&all)
    }
}

impl fmt::Display for Model {
    /// The parameters as `FromStr` takes them, in nanoseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = [
            ("latency", self.latency),
            ("overhead", self.overhead),
            ("gap", self.gap),
            ("byte", self.byte),
            ("compute", self.compute),
        ];
        for (name, ps) in times {
            write!(f, "{name}={},", ps as f64 / 1000.0)?;
        }
        write!(f, "cores={}", self.cores)
    }
}

/// One second: a longer time is a mistake in its unit, and sums of these stay far from the end of the numbers.
const MOST_NS: f64 = 1e9;

impl FromStr for Model {
    type Err = String;

    /// `latency=1000,overhead=200,gap=50,byte=0.1,compute=0,cores=1`; what is left out is as by default.
    fn from_str(text: &str) -> Result<Model, String> {
        let mut model = Model::default();
        for item in text.split(',').map(str::trim) {
            let wrong = |why: &str| {
                format!(
                    "`{item}` {why}: write for example latency=1000,overhead=200,gap=50,byte=0.1,compute=0 \
                     (nanoseconds) and cores=4 (ranks per node)"
                )
            };
            let (key, value) = item.split_once('=').ok_or_else(|| wrong("is not name=number"))?;
            let place = match key {
                "cores" => {
                    let cores = value.parse().ok().filter(|n| *n > 0);
                    model.cores = cores.ok_or_else(|| wrong("is no number of ranks"))?;
                    continue;
                }
                "latency" => &mut model.latency,
                "overhead" => &mut model.overhead,
                "gap" => &mut model.gap,
                "byte" => &mut model.byte,
                "compute" => &mut model.compute,
                _ => return Err(wrong("names no parameter")),
            };
            let ns: Option<f64> = value.parse().ok().filter(|ns| (0.0..=MOST_NS).contains(ns));
            *place = (ns.ok_or_else(|| wrong("is no time up to a second"))? * 1000.0).round() as u64;
        }
        Ok(model)
    }
}
