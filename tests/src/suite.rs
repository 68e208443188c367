//! Messages and collectives against sequential models, on up to 33 ranks: what every kind of rank and backend has to pass, and in depth every strategy.

use std::path::Path;

use tocsin_world::BackendKind;

use crate::run::{Arguments, Case, Kind, deep};
use crate::ways;

/// How many ranks worlds have.
const RANKS: [u32; 9] = [1, 2, 3, 4, 7, 8, 16, 17, 33];

/// Worlds of one kind of rank that are notified in one way, by the program `tocsin-rank`.
#[derive(Clone, Copy, Debug)]
pub struct Suite<'a> {
    /// That program.
    pub program: &'a Path,
    /// Ranks as threads or processes.
    pub kind: Kind,
    /// How they are notified.
    pub backend: BackendKind,
    /// By what their large messages travel, as `TOCSIN_LMT` has it, where that is forced; else `auto`.
    pub lmt: Option<&'a str>,
}

impl<'a> Suite<'a> {
    /// A case of it, which has two minutes.
    pub fn case(&self, ranks: u32, scenario: &'a str, arguments: Arguments) -> Case<'a> {
        let Suite { program, kind, backend, lmt } = *self;
        let arguments = lmt.into_iter().fold(arguments, |all, lmt| all.with("lmt", lmt));
        // Between processes one plain copy is of the shared heap.
        let needs_heap = kind == Kind::Processes && lmt == Some("direct");
        let arguments = if needs_heap { arguments.with("buffers", "mixed") } else { arguments };
        let way = lmt.and_then(|lmt| if needs_heap { Some("memory") } else { ways::of(kind, lmt) });
        let arguments = match way.filter(|_| ranks > 1 && scenario != "flow-control") {
            Some(way) => arguments.with("by", way).with("least", LARGE),
            None => arguments,
        };
        Case { program, kind, ranks, backend, scenario, arguments, limit_s: 120 }
    }

    /// Messages of random sizes, tags and orders.
    pub fn messages(&self) {
        for ranks in RANKS {
            let rounds = if deep() { 20 } else { 3 };
            let arguments = Arguments::new()
                .with("seed", 1000 + ranks)
                .with("rounds", rounds)
                .with("messages", 8 * ranks.min(16))
                .with("max", largest(ranks).min(if deep() { 1 << 23 } else { 300_000 }));
            self.case(ranks, "messages", arguments).pass();
        }
        let long = [("seed", 2), ("rounds", 3), ("messages", 24), ("max", 8 << 20), ("longest", 4 << 20)];
        self.case(2, "messages", Arguments::of(&long)).pass();
    }

    /// Collectives, several at once.
    pub fn collectives(&self) {
        for ranks in RANKS {
            let rounds = if deep() { 100 } else { 12 };
            let arguments = Arguments::new()
                .with("seed", 2000 + ranks)
                .with("rounds", rounds)
                .with("outstanding", 6)
                .with("max", largest(ranks) / if deep() { 1 } else { 8 });
            self.case(ranks, "collectives", arguments).pass();
        }
    }

    /// Persistent collectives, among others.
    pub fn restarted(&self) {
        for ranks in [1, 2, 3, 4, 7, 16] {
            let rounds = if deep() { 60 } else { 8 };
            let arguments = Arguments::new().with("seed", 5000 + ranks).with("rounds", rounds);
            // A strategy that is forced is of large ones.
            let part = if self.lmt.is_some() {
                2
            } else if deep() {
                8
            } else {
                32
            };
            let arguments = arguments.with("max", largest(ranks) / part);
            self.case(ranks, "restarted", arguments).pass();
        }
    }

    /// Up to 32 collectives outstanding on three communicators.
    pub fn interleaved(&self) {
        for ranks in [2, 3, 5] {
            let rounds = if deep() { 100 } else { 6 };
            let arguments = Arguments::new().with("seed", 6000 + ranks).with("rounds", rounds);
            let arguments = arguments.with("max", self.interleaved_max());
            self.case(ranks, "interleaved", arguments).pass();
        }
    }

    /// Bytes per rank of one of many at once: short ones change places more often, and a strategy that is forced is of large ones.
    fn interleaved_max(&self) -> u64 {
        if self.lmt.is_some() { 250_000 } else { 40_000 }
    }

    /// The algorithms whose trees follow the machine, by ranks in several parts of one: from every root, on communicators of some ranks, too.
    pub fn placed(&self) {
        for (machine, ranks) in
            [("numa:2 l3:2 core:2", 8), ("package:2 core:3", 5), ("numa:3 core:1 pu:2", 6)]
        {
            let arguments = Arguments::new().with("seed", 7000 + ranks).with("topology", machine);
            let (every, long) = if deep() { (1, 8) } else { (24, 240) };
            let only = arguments.clone().with("every", every).with("long", long);
            let only = only.with("algorithm", "topology-aware").with("most", 9 << 20);
            self.case(ranks, "collectives-product", only).pass();
            let any = arguments.with("rounds", if deep() { 30 } else { 3 });
            let any = any.with("max", self.interleaved_max());
            self.case(ranks, "interleaved", any).pass();
        }
    }

    /// So many operations of every kind at random, on several communicators; messages of up to `max` bytes.
    pub fn mixed(&self, operations: u64, max: u64) {
        let arguments = Arguments::new().with("seed", 3).with("operations", operations).with("max", max);
        Case { limit_s: 400, ..self.case(4, "mixed", arguments) }.pass();
    }
}

/// Bytes that go by a strategy that is forced, in each case of it, at least: those of a large message. (Of what goes through the lanes it says nothing: all
/// that is short does.)
const LARGE: u64 = 65536;

/// Bytes of one message, so that a rank holds at most 8 MiB of them.
fn largest(ranks: u32) -> u64 {
    (8 << 20) / u64::from(ranks.max(4))
}
