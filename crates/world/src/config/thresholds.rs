//! From which size on a message travels how: defaults, or what was measured.

use super::{Config, DEFAULT_EAGER_MAX, Lmt};
use crate::tune::{Ranks, Relation, Row};
use tocsin_shm_transport::Strategies;

/// So many times as long are eager messages of collectives.
const COLL_EAGER: usize = 4;
/// So many times as long are those to who waits for them.
const WAITING_EAGER: usize = 4;

/// What holds for one world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thresholds {
    /// Longest eager message in bytes.
    pub(crate) eager_max: usize,
    /// Longest message in bytes that comes in one packet to who waits for it.
    waiting_eager_max: usize,
    /// Ways to copy once.
    pub(crate) strategies: Strategies,
    /// Shorter messages in bytes are copied twice.
    single_copy_from: u64,
    /// Two who wait copy in a pipeline.
    pipelines: bool,
}

impl Thresholds {
    /// Whether messages of half a megabyte and more are copied once, by the kernel, which is asked last.
    pub(crate) fn copy_once(&self, refusal: impl FnOnce() -> Option<String>) -> bool {
        self.strategies.cma && self.single_copy_from <= 512 << 10 && refusal().is_none()
    }
}

impl Config {
    /// The thresholds of a world of `size` ranks, between which [that](Self::relation) lies.
    pub(crate) fn thresholds(&self, ranks: Ranks, size: u32, relation: Option<Relation>) -> Thresholds {
        let row = self.tune.as_ref().and_then(|tuning| tuning.table.row(ranks, size, relation));
        let measured_eager_max = row.map_or(DEFAULT_EAGER_MAX, |row| row.eager_max);
        let eager_max = self.eager_max.unwrap_or(measured_eager_max);
        // A strategy that was asked for has all that is longer than `eager_max`.
        let (strategies, single_copy_from, longer) = match (self.lmt, row) {
            (Lmt::Auto, Some(row)) => (measured(row), row.from, WAITING_EAGER),
            (Lmt::Auto, None) => (Lmt::Auto.strategies(), 0, WAITING_EAGER),
            (lmt, _) => (lmt.strategies(), 0, 1),
        };
        let waiting_eager_max = eager_max.saturating_mul(longer);
        let pipelines = self.lmt == Lmt::Auto;
        Thresholds { eager_max, waiting_eager_max, strategies, single_copy_from, pipelines }
    }

    /// What the point-to-point layer needs of both.
    pub(crate) fn point_to_point(&self, thresholds: &Thresholds) -> tocsin_p2p::Config {
        tocsin_p2p::Config {
            eager_max: thresholds.eager_max,
            coll_eager_max: thresholds.eager_max.saturating_mul(COLL_EAGER),
            waiting_eager_max: thresholds.waiting_eager_max,
            single_copy_from: thresholds.single_copy_from,
            pipelines: thresholds.pipelines,
            compares: thresholds.pipelines,
            unexpected_limit: self.unexpected_max,
            ..tocsin_p2p::Config::default()
        }
    }
}

/// The ways to copy once that a row leaves.
fn measured(row: &Row) -> Strategies {
    match row.strategy {
        Lmt::Double => row.strategy.strategies(),
        Lmt::Vmsplice => Strategies { direct: true, ..row.strategy.strategies() },
        // Quicker than the device, or measured before it was there.
        Lmt::Cma => Strategies { xpmem: false, ..Lmt::Auto.strategies() },
        // What the kernel refuses between two ranks may be possible between others.
        _ => Lmt::Auto.strategies(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::{Table, Tuning};

    fn tuned(strategy: Lmt) -> Config {
        let row = Row {
            ranks: Ranks::Processes,
            at_once: 1,
            eager_max: 4096,
            strategy,
            from: 65536,
            relation: None,
        };
        with(vec![row])
    }

    fn with(rows: Vec<Row>) -> Config {
        let table = Table::new(rows, Vec::new()).unwrap();
        Config { tune: Some(Tuning { file: "table".into(), table }), ..Config::default() }
    }

    /// Where ranks are bound on a machine that has several relations, the row of theirs is taken.
    #[test]
    fn where_ranks_are_decides() {
        let row = |relation, eager_max| Row {
            ranks: Ranks::Processes,
            at_once: 1,
            eager_max,
            strategy: Lmt::Cma,
            from: 65536,
            relation,
        };
        let rows = vec![row(None, 1), row(Some(Relation::Cache), 2), row(Some(Relation::Across), 3)];
        let eager_max = |topology: &str, bind: &str, ranks: u32| {
            let mut config = with(rows.clone());
            config.set("TOCSIN_TOPOLOGY", topology).unwrap();
            config.set("TOCSIN_BIND", bind).unwrap();
            let relation = config.relation(&config.seats(ranks).unwrap());
            config.thresholds(Ranks::Processes, ranks, relation).eager_max
        };
        for (topology, right) in [("numa:2 l3:1 core:2", 3), ("l3:1 core:4", 2), ("l3:2 core:2", 1)] {
            assert_eq!(eager_max(topology, "scatter", 2), right, "{topology}");
            assert_eq!(eager_max(topology, "none", 2), 1, "{topology}");
        }
        assert_eq!(eager_max("numa:2 l3:1 core:2", "scatter", 1), 1);
        // Nobody looks at the machine for a table that does not ask.
        let mut plain = with(vec![row(None, 1)]);
        plain.set("TOCSIN_TOPOLOGY", "numa:2 core:1").unwrap();
        plain.set("TOCSIN_BIND", "scatter").unwrap();
        assert_eq!(plain.relation(&plain.seats(2).unwrap()), None);
    }

    #[test]
    fn a_table_is_what_auto_means() {
        let config = tuned(Lmt::Cma);
        let thresholds = config.thresholds(Ranks::Processes, 2, None);
        let single = Strategies { xpmem: false, ..Lmt::Auto.strategies() };
        assert_eq!((thresholds.eager_max, thresholds.strategies), (4096, single));
        let mapped = tuned(Lmt::Xpmem).thresholds(Ranks::Processes, 2, None);
        assert_eq!(mapped.strategies, Lmt::Auto.strategies());
        let p2p = config.point_to_point(&thresholds);
        assert_eq!(
            (p2p.eager_max, p2p.coll_eager_max, p2p.waiting_eager_max, p2p.single_copy_from),
            (4096, 16384, 16384, 65536)
        );
        // Of threads it says nothing.
        let defaults = Config::default().thresholds(Ranks::Threads, 2, None);
        assert_eq!(config.thresholds(Ranks::Threads, 2, None), defaults);
        assert_eq!((defaults.eager_max, defaults.single_copy_from), (DEFAULT_EAGER_MAX, 0));
        assert_eq!(
            tuned(Lmt::Double).thresholds(Ranks::Processes, 2, None).strategies,
            Lmt::Double.strategies()
        );
        let pages = tuned(Lmt::Vmsplice).thresholds(Ranks::Processes, 2, None).strategies;
        assert_eq!((pages.direct, pages.cma, pages.pages), (true, false, true));
    }

    #[test]
    fn what_is_set_goes_before_the_table() {
        // The default counts as any other size does, if somebody set it; a rank that is started has it from there too.
        for bytes in [1024, DEFAULT_EAGER_MAX] {
            let mut config = tuned(Lmt::Double);
            config.set("TOCSIN_EAGER_MAX", &bytes.to_string()).unwrap();
            assert_eq!(config.thresholds(Ranks::Processes, 2, None).eager_max, bytes);
            assert!(config.to_variables().contains(&("TOCSIN_EAGER_MAX", bytes.to_string())));
        }
        let unset = tuned(Lmt::Double).to_variables();
        assert!(!unset.iter().any(|(name, _)| *name == "TOCSIN_EAGER_MAX"), "{unset:?}");
        let forced = Config { lmt: Lmt::Cma, ..tuned(Lmt::Double) };
        let thresholds = forced.thresholds(Ranks::Processes, 2, None);
        assert_eq!((thresholds.strategies, thresholds.single_copy_from), (Lmt::Cma.strategies(), 0));
        assert_eq!((thresholds.eager_max, thresholds.waiting_eager_max), (4096, 4096));
    }

    #[test]
    fn long_messages_are_copied_once_where_all_allow_it() {
        let of = |lmt| Config { lmt, ..Config::default() }.thresholds(Ranks::Processes, 2, None);
        let (may, refused) = (|| None, || Some("no".to_owned()));
        for (lmt, once) in [(Lmt::Auto, true), (Lmt::Cma, true), (Lmt::Double, false), (Lmt::Vmsplice, false)]
        {
            assert_eq!((of(lmt).copy_once(may), of(lmt).copy_once(refused)), (once, false), "{lmt:?}");
        }
        for (from, once) in [(512 << 10, true), ((512 << 10) + 1, false)] {
            assert_eq!(Thresholds { single_copy_from: from, ..of(Lmt::Auto) }.copy_once(may), once);
        }
        assert!(!of(Lmt::Double).copy_once(|| panic!("asked in vain")));
    }
}
