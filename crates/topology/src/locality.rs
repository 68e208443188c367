//! Which parts of a machine processors are in, for trees of messages that follow them.

use crate::Topology;
use std::collections::BTreeMap;

/// The parts of a machine that a processor is in. The numbers of one machine say nothing but which are the same part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Locality {
    /// Its package (socket).
    pub package: u32,
    /// Its NUMA node.
    pub node: u32,
    /// Its last-level cache; where none is described, its core.
    pub cache: u32,
}

/// Of each number in a word.
const BITS: u32 = 21;
const LOW: u64 = (1 << BITS) - 1;
/// Says that a word means a locality.
const KNOWN: u64 = 1 << 63;

impl Locality {
    /// As one word, which is not 0; `None`: a number has more than 21 bits.
    pub fn to_word(self) -> Option<u64> {
        let parts = [self.package, self.node, self.cache].map(u64::from);
        let fits = parts.iter().all(|part| *part <= LOW);
        fits.then(|| parts.iter().fold(0, |word, part| word << BITS | part) | KNOWN)
    }

    /// What a word means. Of one that is no locality's, nothing; every other is one. Handler-safe.
    pub fn from_word(word: u64) -> Option<Locality> {
        let part = |at: u32| (word >> (at * BITS) & LOW) as u32;
        (word & KNOWN != 0).then(|| Locality { package: part(2), node: part(1), cache: part(0) })
    }
}

impl Topology {
    /// Where processors (kernel numbers) are; `None`: one that is not known, or that this topology does not have.
    pub fn localities(&self, cpus: &[Option<usize>]) -> Vec<Option<Locality>> {
        // By processor: the level and the number of its last cache.
        let mut cache_of: BTreeMap<usize, (u8, usize)> = BTreeMap::new();
        for (at, cache) in self.caches.iter().enumerate() {
            for cpu in &cache.cpus {
                let known = cache_of.entry(*cpu).or_insert((cache.level, at));
                *known = if cache.level > known.0 { (cache.level, at) } else { *known };
            }
        }
        let mut all: BTreeMap<usize, Locality> = BTreeMap::new();
        for (at, core) in self.cores.iter().enumerate() {
            for cpu in &core.cpus {
                let cache = cache_of.get(cpu).map_or(self.caches.len() + at, |(_, cache)| *cache);
                let [package, node, cache] = [core.package, core.node, cache].map(|n| n as u32);
                all.insert(*cpu, Locality { package, node, cache });
            }
        }
        cpus.iter().map(|cpu| all.get(cpu.as_ref()?).copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<[u32; 3]> {
        let machine = Topology::synthetic(text).unwrap();
        let cpus: Vec<Option<usize>> = (0..machine.pus()).map(Some).collect();
        let of = |l: Option<Locality>| l.map(|l| [l.package, l.node, l.cache]).unwrap();
        machine.localities(&cpus).into_iter().map(of).collect()
    }

    /// By level: which processor is the first in the same part.
    fn firsts(text: &str) -> [Vec<usize>; 3] {
        let all = all(text);
        std::array::from_fn(|level| {
            let first = |one: &[u32; 3]| all.iter().position(|other| other[level] == one[level]).unwrap();
            all.iter().map(first).collect()
        })
    }

    #[test]
    fn parts_of_machines() {
        let nested = firsts("package:2 numa:2 l3:2 l2:2 pu:1");
        assert_eq!(nested[0], [0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8]);
        assert_eq!(nested[1], [0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12]);
        // The last level, not the one below.
        assert_eq!(nested[2], [0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 12, 14, 14]);
        // Without a cache, cores are what hardware threads have in common.
        assert_eq!(
            firsts("numa:2 core:2 pu:2"),
            [vec![0; 8], vec![0, 0, 0, 0, 4, 4, 4, 4], vec![0, 0, 2, 2, 4, 4, 6, 6]]
        );
    }

    #[test]
    fn who_is_nowhere_has_no_parts() {
        let machine = Topology::synthetic("core:2").unwrap();
        let of = machine.localities(&[None, Some(1), Some(9)]);
        assert!(of[0].is_none() && of[1].is_some() && of[2].is_none());
        // A core that the described caches leave out.
        let mut machine = Topology::synthetic("l3:2 core:2").unwrap();
        machine.caches.pop();
        let caches: Vec<u32> =
            machine.localities(&[0, 1, 2, 3].map(Some)).iter().map(|l| l.unwrap().cache).collect();
        assert!(caches[0] == caches[1] && caches[2] != caches[3] && !caches[2..].contains(&caches[0]));
    }

    #[test]
    fn words_keep_everything_and_others_are_nothing() {
        let most = (1 << BITS) - 1;
        for numbers in [[0, 0, 0], [1, 2, 3], [most, 0, most], [most; 3]] {
            let [package, node, cache] = numbers;
            let locality = Locality { package, node, cache };
            assert_eq!(Locality::from_word(locality.to_word().unwrap()), Some(locality));
        }
        assert_eq!(Locality { package: 0, node: most + 1, cache: 0 }.to_word(), None);
        assert_eq!((Locality::from_word(0), Locality::from_word(u64::MAX >> 1)), (None, None));
        assert!(Locality::from_word(u64::MAX).is_some());
    }
}
