//! What lies between two processors, as far as memory is concerned that both use.

use crate::Topology;
use std::fmt;

/// What lies between two processors; the nearest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Relation {
    /// They are on one NUMA node and share a cache, of whatever level.
    Cache,
    /// They are on one NUMA node and share no cache.
    Node,
    /// They are on two NUMA nodes.
    Across,
}

impl Relation {
    /// All of them, nearest first.
    pub const ALL: [Relation; 3] = [Relation::Cache, Relation::Node, Relation::Across];

    /// The name used in tables and rows.
    pub fn name(self) -> &'static str {
        match self {
            Relation::Cache => "cache",
            Relation::Node => "node",
            Relation::Across => "across",
        }
    }

    /// The one of a name.
    pub fn named(name: &str) -> Option<Relation> {
        Relation::ALL.into_iter().find(|relation| relation.name() == name)
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Topology {
    /// What lies between two processors (kernel numbers); `None`: this topology does not have both.
    pub fn relation(&self, a: usize, b: usize) -> Option<Relation> {
        let (one, other) = (self.cores.get(self.core_of(a)?)?, self.cores.get(self.core_of(b)?)?);
        Some(match (one.node == other.node, self.shared_cache(a, b)) {
            (false, _) => Relation::Across,
            // Threads of one core share what it has, whether that is described or not.
            (true, Some(_)) => Relation::Cache,
            (true, None) if one.cpus == other.cpus => Relation::Cache,
            (true, None) => Relation::Node,
        })
    }

    /// Two processors (kernel numbers) on distinct cores with nothing else between them than that: those that share the lowest
    /// cache, if they share one. `None` when the machine has none.
    pub fn pair_of(&self, relation: Relation) -> Option<(usize, usize)> {
        let mut best: Option<(u8, (usize, usize))> = None;
        for (i, a) in self.cores.iter().enumerate() {
            for b in self.cores.iter().skip(i + 1) {
                let (Some(&a), Some(&b)) = (a.cpus.first(), b.cpus.first()) else { continue };
                if self.relation(a, b) != Some(relation) {
                    continue;
                }
                let level = self.shared_cache(a, b).map_or(u8::MAX, |cache| cache.level);
                if best.is_none_or(|(known, _)| level < known) {
                    best = Some((level, (a, b)));
                }
            }
        }
        best.map(|(_, pair)| pair)
    }

    /// What there is between distinct cores of the machine, nearest first; nothing where it has one core.
    pub fn relations(&self) -> Vec<Relation> {
        Relation::ALL.into_iter().filter(|relation| self.pair_of(*relation).is_some()).collect()
    }

    /// What lies between those two of some processors (kernel numbers) that are the farthest from each other. `None`: they are
    /// fewer than two, or this topology does not have them all.
    pub fn widest(&self, cpus: &[usize]) -> Option<Relation> {
        let mut distinct = cpus.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let nodes: Vec<usize> = distinct
            .iter()
            .map(|cpu| Some(self.cores.get(self.core_of(*cpu)?)?.node))
            .collect::<Option<_>>()?;
        if cpus.len() < 2 {
            return None;
        }
        if nodes.windows(2).any(|two| two[0] != two[1]) {
            return Some(Relation::Across);
        }
        // Mostly one cache has them all, and pairs need not be looked at.
        let all_in = |cpus: &[usize]| distinct.iter().all(|cpu| cpus.contains(cpu));
        if distinct.len() < 2 || self.caches.iter().any(|cache| all_in(&cache.cpus)) {
            return Some(Relation::Cache);
        }
        let pairs = distinct.iter().enumerate().flat_map(|(i, a)| distinct[i + 1..].iter().map(|b| (*a, *b)));
        pairs.filter_map(|(a, b)| self.relation(a, b)).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Relation::{Across, Cache, Node};

    #[test]
    fn relations_of_machines() {
        let relations = |text: &str| Topology::synthetic(text).unwrap().relations();
        assert_eq!(relations("core:1 pu:2"), []);
        assert_eq!(relations("core:4"), [Node]);
        assert_eq!(relations("l3:1 core:4"), [Cache]);
        assert_eq!(relations("l3:2 core:2"), [Cache, Node]);
        assert_eq!(relations("numa:2 core:2"), [Node, Across]);
        assert_eq!(relations("numa:2 core:1"), [Across]);
        assert_eq!(relations("package:2 numa:2 l3:2 core:2 pu:2"), Relation::ALL);
    }

    #[test]
    fn pairs_have_their_relation() {
        let machine = Topology::synthetic("numa:2 l3:2 l2:2 core:2 pu:2").unwrap();
        for relation in Relation::ALL {
            let (a, b) = machine.pair_of(relation).unwrap();
            assert!(machine.core_of(a) != machine.core_of(b));
            assert_eq!(machine.relation(a, b), Some(relation));
            assert_eq!(machine.relation(b, a), Some(relation));
            assert_eq!(Relation::named(relation.name()), Some(relation));
        }
        let (a, b) = machine.pair_of(Cache).unwrap();
        assert_eq!(machine.shared_cache(a, b).unwrap().level, 2);
        assert_eq!((machine.relation(0, 1), machine.relation(0, 0)), (Some(Cache), Some(Cache)));
        assert_eq!((machine.relation(0, 999), Relation::named("far")), (None, None));
    }

    #[test]
    fn the_widest_is_that_of_the_farthest_two() {
        let machine = Topology::synthetic("numa:2 l3:2 core:2").unwrap();
        for (cpus, right) in [
            (&[0, 1][..], Some(Cache)),
            (&[1, 1], Some(Cache)),
            (&[0, 1, 2], Some(Node)),
            (&[3, 2], Some(Cache)),
            (&[0, 1, 4], Some(Across)),
            (&[7, 0], Some(Across)),
            (&[0], None),
            (&[], None),
            (&[0, 99], None),
        ] {
            assert_eq!(machine.widest(cpus), right, "{cpus:?}");
        }
        assert_eq!(Topology::synthetic("core:2 pu:2").unwrap().widest(&[0, 1]), Some(Cache));
    }
}
