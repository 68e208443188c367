//! In which parts of a machine the members of a group are, and in which parts of these.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use tocsin_topology::Locality;

/// What numbers the parts of one kind.
type Kind = fn(&Locality) -> u32;
const KINDS: usize = 3;

/// In which parts of the machine the ranks of a group are: packages, NUMA nodes, last-level caches. The same of all its members, because trees
/// are made by it.
///
/// # Implementation details
/// A level divides each part of the level above. The level of the fewest parts comes first: where parts of one kind lie within those of another, there are
/// not fewer of them, whichever is inside on this machine. Where two kinds cross, a part is what lies in one of both. Ranks of which nothing is known
/// are together a part of their own. The numbers that a machine gives its parts decide nothing: parts are in the order of their first ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// The ranks, those of a part one after the other, and in a part that has no others inside in rank order.
    order: Box<[u32]>,
    /// By rank: where it stands there.
    at: Box<[u32]>,
    /// By level, the widest parts first: where each part begins, ascending from 0.
    levels: Vec<Box<[u32]>>,
}

impl Hierarchy {
    /// By rank. `None`: all ranks are in one part, as far as anybody knows, or there are none. User threads only: allocates.
    pub fn new(localities: &[Option<Locality>]) -> Option<Hierarchy> {
        let ranks = u32::try_from(localities.len()).ok()?;
        let number = |rank: u32, kind: Kind| {
            let known = localities.get(rank as usize)?.as_ref()?;
            Some(kind(known))
        };
        let parts = |kind| (0..ranks).map(|rank| number(rank, kind)).collect::<HashSet<_>>().len();
        let mut kinds: [Kind; KINDS] = [|l| l.package, |l| l.node, |l| l.cache];
        // Stable: of two kinds with as many parts the order above.
        kinds.sort_by_cached_key(|kind| parts(*kind));
        // By level: the part of a rank, named by the first rank that is in it.
        let keys: Vec<[Option<u32>; KINDS]> =
            (0..ranks).map(|rank| kinds.map(|kind| number(rank, kind))).collect();
        let mut first: [HashMap<&[Option<u32>], u32>; KINDS] = Default::default();
        let mut named: Vec<([u32; KINDS], u32)> = Vec::with_capacity(keys.len());
        for (key, rank) in keys.iter().zip(0..) {
            let mut names = [rank; KINDS];
            for ((name, first), length) in names.iter_mut().zip(&mut first).zip(1..) {
                *name = *first.entry(key.get(..length).unwrap_or(key)).or_insert(rank);
            }
            named.push((names, rank));
        }
        named.sort_unstable();
        let mut levels: Vec<Box<[u32]>> = Vec::new();
        for level in 0..KINDS {
            let name = |at: usize| named.get(at).and_then(|(names, _)| names.get(level));
            let begins = |at: &u32| *at == 0 || name(*at as usize) != name(*at as usize - 1);
            let starts: Box<[u32]> = (0..ranks).filter(begins).collect();
            // Of those that divide nothing, or leave nothing together, there is nothing to follow.
            let above = levels.last().map_or(1, |above| above.len());
            if starts.len() > above && starts.len() < named.len() {
                levels.push(starts);
            }
        }
        if levels.is_empty() {
            return None;
        }
        let order: Box<[u32]> = named.iter().map(|(_, rank)| *rank).collect();
        let mut at = vec![0; order.len()].into_boxed_slice();
        for (rank, position) in order.iter().zip(0..) {
            if let Some(at) = at.get_mut(*rank as usize) {
                *at = position;
            }
        }
        Some(Hierarchy { order, at, levels })
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.order.len() as u32
    }

    /// By level, the widest parts first: how many parts there are.
    pub fn parts(&self) -> impl Iterator<Item = usize> + '_ {
        self.levels.iter().map(|starts| starts.len())
    }

    /// How many levels there are.
    pub(crate) fn depth(&self) -> usize {
        self.levels.len()
    }

    /// Where a rank stands.
    pub(crate) fn position(&self, rank: u32) -> u32 {
        self.at.get(rank as usize).copied().unwrap_or(0)
    }

    /// The rank that stands there.
    pub(crate) fn rank_at(&self, position: u32) -> u32 {
        self.order.get(position as usize).copied().unwrap_or(0)
    }

    /// Where the parts of a level begin that lie in a range of positions, which begins and ends with parts of the level above.
    pub(crate) fn starts(&self, level: usize, within: &Range<u32>) -> &[u32] {
        let Some(starts) = self.levels.get(level) else { return &[] };
        let before = |position: u32| starts.partition_point(|start| *start < position);
        starts.get(before(within.start)..before(within.end)).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tocsin_topology::Topology;

    /// Of ranks on these processors, by level: the parts.
    fn parts(machine: &str, cpus: &[Option<usize>]) -> Vec<Vec<Vec<u32>>> {
        let localities = Topology::synthetic(machine).unwrap().localities(cpus);
        let Some(hierarchy) = Hierarchy::new(&localities) else { return Vec::new() };
        assert_eq!(hierarchy.ranks() as usize, cpus.len());
        let all = 0..hierarchy.ranks();
        for position in all.clone() {
            assert_eq!(hierarchy.position(hierarchy.rank_at(position)), position);
        }
        let level = |level| {
            let starts = hierarchy.starts(level, &all);
            let ends = starts.iter().skip(1).copied().chain([all.end]);
            starts.iter().zip(ends).map(|(s, e)| (*s..e).map(|at| hierarchy.rank_at(at)).collect()).collect()
        };
        let levels: Vec<Vec<Vec<u32>>> = (0..hierarchy.depth()).map(level).collect();
        assert!(levels.iter().map(Vec::len).eq(hierarchy.parts()));
        levels
    }

    fn cpus(of: &[usize]) -> Vec<Option<usize>> {
        of.iter().copied().map(Some).collect()
    }

    #[test]
    fn levels_are_nested_the_widest_first() {
        let all = cpus(&[0, 1, 2, 3, 4, 5, 6, 7]);
        let halves = vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]];
        let quarters = vec![vec![0, 1], vec![2, 3], vec![4, 5], vec![6, 7]];
        for (machine, levels) in [
            ("numa:2 core:4", vec![halves.clone()]),
            ("numa:2 l3:2 core:2", vec![halves.clone(), quarters.clone()]),
            ("package:2 numa:2 core:2", vec![halves.clone(), quarters.clone()]),
            // Whichever is inside.
            ("l3:2 numa:2 core:2", vec![halves.clone(), quarters.clone()]),
            ("numa:2 package:2 core:2", vec![halves.clone(), quarters]),
            // Two kinds in one.
            ("package:2 numa:1 l3:1 core:4", vec![halves]),
            // All in one, and each in one.
            ("l3:1 core:8", vec![]),
            ("numa:8 core:1", vec![]),
        ] {
            assert_eq!(parts(machine, &all), levels, "{machine}");
        }
    }

    #[test]
    fn ranks_are_anywhere() {
        // In turns on two nodes: a part's ranks need not be neighbours.
        assert_eq!(parts("numa:2 core:2", &cpus(&[2, 0, 3, 1])), [[[0, 2], [1, 3]]]);
        // Of whom nothing is known: one part, apart from all others.
        let some = [Some(0), None, Some(1), Some(2), None];
        let (known, unknown) = (vec![0, 2, 3], vec![1, 4]);
        let nodes = vec![vec![0, 2], vec![3], unknown.clone()];
        assert_eq!(parts("numa:2 l3:1 core:2", &some), [vec![known, unknown], nodes]);
        assert!(parts("numa:2 core:2", &[None; 4]).is_empty() && parts("core:2", &[]).is_empty());
    }

    /// Whatever a peer has written where a launcher writes: nothing panics, and what is made of it is whole.
    #[test]
    fn any_words_are_parts() {
        let mut word = 1u64;
        for ranks in 1..200 {
            let localities: Vec<_> = (0..ranks)
                .map(|_| {
                    word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                    // Few packages, more nodes, many caches, which are in any of them.
                    Locality::from_word(word & (1 << 63 | 3 << 61 | 7 << 30 | 63))
                })
                .collect();
            let Some(hierarchy) = Hierarchy::new(&localities) else { continue };
            let mut order = hierarchy.order.to_vec();
            order.sort_unstable();
            assert!(order.into_iter().eq(0..ranks));
            for pair in hierarchy.levels.windows(2) {
                assert!(pair[0].iter().all(|start| pair[1].contains(start)), "levels divide those above");
            }
        }
    }
}
