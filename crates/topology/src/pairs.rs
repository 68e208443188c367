//! Pairs of processors at a given distance, for latency measurements.

use crate::Topology;
use std::fmt;

/// How far apart two processors are (report 002, section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Distance {
    /// Two cores of one NUMA node, sharing the lowest possible cache.
    Near,
    /// Two NUMA nodes of one package.
    Far,
    /// Two packages.
    VeryFar,
}

impl Distance {
    /// All distances, nearest first.
    pub const ALL: [Distance; 3] = [Distance::Near, Distance::Far, Distance::VeryFar];

    /// The name used on command lines and in rows.
    pub fn name(self) -> &'static str {
        match self {
            Distance::Near => "near",
            Distance::Far => "far",
            Distance::VeryFar => "very-far",
        }
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Topology {
    /// Two processors (kernel numbers) on distinct cores at that distance; `None` when the machine has none.
    pub fn pair(&self, distance: Distance) -> Option<(usize, usize)> {
        let mut best: Option<(u8, (usize, usize))> = None;
        for (i, a) in self.cores.iter().enumerate() {
            for b in &self.cores[i + 1..] {
                let at = match (a.package == b.package, a.node == b.node) {
                    (false, _) => Distance::VeryFar,
                    (true, false) => Distance::Far,
                    (true, true) => Distance::Near,
                };
                if at != distance {
                    continue;
                }
                let level = self.shared_cache(a.cpus[0], b.cpus[0]).map_or(u8::MAX, |c| c.level);
                if best.is_none_or(|(known, _)| level < known) {
                    best = Some((level, (a.cpus[0], b.cpus[0])));
                }
            }
        }
        best.map(|(_, pair)| pair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        let t = Topology::synthetic("package:2 numa:2 l2:2 core:2 pu:2").unwrap();
        assert_eq!(t.pair(Distance::Near), Some((0, 2)));
        assert_eq!(t.pair(Distance::Far), Some((0, 8)));
        assert_eq!(t.pair(Distance::VeryFar), Some((0, 16)));
        let t = Topology::synthetic("core:1 pu:2").unwrap();
        assert!(Distance::ALL.iter().all(|d| t.pair(*d).is_none()));
    }
}
