//! What lies between two processors, as far as memory is concerned that both use.

use crate::{Locality, Topology};
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

    /// What lies between the farthest two of those that are in these parts of one machine, as [`Topology::widest`] says it of processors. `None`: they
    /// are fewer than two, or of some it is not known where they are.
    pub fn between(localities: impl IntoIterator<Item = Option<Locality>>) -> Option<Relation> {
        let mut all = localities.into_iter();
        let first = all.next()??;
        let farther = |one: Locality| match (one.node == first.node, one.cache == first.cache) {
            (false, _) => Relation::Across,
            (true, false) => Relation::Node,
            (true, true) => Relation::Cache,
        };
        // Who is as near to the first as that is so near to each other, too.
        all.try_fold(None, |widest, one| Some(widest.max(Some(farther(one?))))).flatten()
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

    /// All processors (kernel numbers) of a part of the machine, the narrowest, in which so many distinct cores are and the farthest two of its
    /// cores have that between them: a cache, a NUMA node, or all of it. `None`: there is no such part.
    pub fn part_of(&self, relation: Relation, cores: usize) -> Option<Vec<usize>> {
        let of_node = |node: usize| self.cores.iter().filter(move |core| core.node == node);
        let mut nodes: Vec<usize> = self.cores.iter().map(|core| core.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let parts: Vec<Vec<usize>> = match relation {
            // Some caches are those of several nodes.
            Relation::Cache => {
                let within = |cpu: &usize, node: usize| {
                    self.core_of(*cpu)
                        .and_then(|core| self.cores.get(core))
                        .is_some_and(|core| core.node == node)
                };
                let parts = self.caches.iter().flat_map(|cache| {
                    let part =
                        |node: &usize| cache.cpus.iter().filter(|cpu| within(cpu, *node)).copied().collect();
                    nodes.iter().map(part)
                });
                parts.collect()
            }
            Relation::Node => {
                nodes.iter().map(|node| of_node(*node).flat_map(|core| core.cpus.clone()).collect()).collect()
            }
            Relation::Across => vec![self.cores.iter().flat_map(|core| core.cpus.clone()).collect()],
        };
        let firsts = |part: &[usize]| {
            let firsts = self.cores.iter().filter_map(|core| core.cpus.iter().find(|cpu| part.contains(cpu)));
            firsts.copied().collect::<Vec<_>>()
        };
        let fits = |part: &Vec<usize>| {
            let firsts = firsts(part);
            firsts.len() >= cores.max(2) && self.widest(&firsts) == Some(relation)
        };
        parts.into_iter().filter(fits).min_by_key(|part| firsts(part).len())
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
    fn parts_have_room_and_their_relation() {
        let machine = Topology::synthetic("numa:2 l3:2 l2:2 core:2 pu:2").unwrap();
        let part = |relation, cores| machine.part_of(relation, cores);
        let first = |cpus: usize| Some((0..cpus).collect::<Vec<_>>());
        // The lowest cache that has the room: two cores share one, four the next.
        assert_eq!([1, 2, 3, 4].map(|cores| part(Cache, cores)), [4, 4, 8, 8].map(first));
        assert_eq!([2, 8].map(|cores| part(Node, cores)), [first(16), first(16)]);
        assert_eq!([2, 16].map(|cores| part(Across, cores)), [first(32), first(32)]);
        assert_eq!([part(Cache, 5), part(Node, 9), part(Across, 17)], [None, None, None]);
        // A core's own cache has one core; a node in which all share a cache is no part of cores that do not.
        let machine = Topology::synthetic("numa:2 l3:1 l2:2 core:1 pu:2").unwrap();
        assert_eq!(machine.part_of(Cache, 2), Some(vec![0, 1, 2, 3]));
        assert_eq!((machine.part_of(Node, 2), machine.part_of(Across, 4)), (None, first(8)));
        assert_eq!(Topology::synthetic("core:1 pu:2").unwrap().part_of(Cache, 1), None);
        // A cache of two nodes: what lies in one of them.
        let machine = Topology::synthetic("package:2 l3:1 numa:2 core:2").unwrap();
        assert_eq!(machine.relations(), [Cache, Across]);
        assert_eq!([machine.part_of(Cache, 2), machine.part_of(Across, 2)], [first(2), first(8)]);
    }

    /// Of every two, three and four processors of some machines.
    #[test]
    fn localities_tell_what_processors_do() {
        let machines = [
            "numa:2 l3:2 core:2",
            "numa:2 core:2 pu:2",
            "l3:1 core:4",
            "package:2 numa:2 l3:1 core:1",
            "core:3",
        ];
        for text in machines {
            let machine = Topology::synthetic(text).unwrap();
            let between = |cpus: &[usize]| {
                let known: Vec<_> = cpus.iter().copied().map(Some).collect();
                Relation::between(machine.localities(&known))
            };
            let all = 0..machine.pus();
            for cpus in all.clone().flat_map(|a| all.clone().map(move |b| [a, b])) {
                assert_eq!(between(&cpus), machine.widest(&cpus), "{text}: {cpus:?}");
                for c in all.clone() {
                    let three = [cpus[0], cpus[1], c];
                    assert_eq!(between(&three), machine.widest(&three), "{text}: {three:?}");
                    let four = [c, cpus[0], cpus[1], 0];
                    assert_eq!(between(&four), machine.widest(&four), "{text}: {four:?}");
                }
            }
            assert_eq!((between(&[]), between(&[0])), (None, None));
            let known = machine.localities(&[Some(0), None, Some(1)]);
            assert_eq!(Relation::between(known), None);
        }
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
