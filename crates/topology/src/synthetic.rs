//! Machines one does not have, in hwloc's synthetic notation: levels from the outermost in, each with its number of
//! children in the level above.

use crate::error::LEVELS;
use crate::model::Pu;
use crate::{Cache, CacheKind, Discover, Error, Topology};

/// A synthetic machine.
#[derive(Clone, Debug)]
pub struct Synthetic {
    text: String,
}

/// More hardware threads than this is a mistake in the description.
const MOST_PUS: usize = 1 << 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Package,
    Numa,
    Cache(u8),
    Core,
    Pu,
}

impl Synthetic {
    /// Takes a description such as `package:2 numa:1 l3:1 core:4 pu:2`. A level that is left out counts 1.
    pub fn new(text: &str) -> Synthetic {
        Synthetic { text: text.to_owned() }
    }

    /// Whether it describes more than anybody should build, in whatever levels, or in words of which that cannot be told: other than `2`, `die:2` and what stands in
    /// brackets.
    #[cfg(feature = "hwloc")]
    pub(crate) fn is_too_large(&self) -> bool {
        let (mut depth, mut levels) = (0usize, String::new());
        for c in self.text.chars() {
            match c {
                '(' | '[' => depth = depth.saturating_add(1),
                ')' | ']' => depth = depth.saturating_sub(1),
                _ if depth == 0 => levels.push(c),
                _ => {}
            }
        }
        let count = |word: &str| {
            let digits = word.rsplit(':').next().unwrap_or_default();
            let is_plain = digits.bytes().all(|digit| digit.is_ascii_digit()) && !digits.starts_with('0');
            digits.parse::<usize>().ok().filter(|_| is_plain && word.matches(':').count() <= 1)
        };
        let mut counts = levels.split_whitespace().map(count);
        counts
            .try_fold(1usize, |all, count| Some(all.saturating_mul(count?)))
            .is_none_or(|all| all > MOST_PUS)
    }

    fn error(&self, why: impl Into<String>) -> Error {
        Error::Synthetic { text: self.text.clone(), why: why.into() }
    }

    fn parse(&self) -> Result<Vec<(Level, usize)>, Error> {
        let mut levels: Vec<(Level, usize)> = Vec::new();
        for word in self.text.split_whitespace() {
            let (name, count) =
                word.split_once(':').ok_or_else(|| self.error(format!("`{word}` is not level:count")))?;
            let level = match name.to_ascii_lowercase().as_str() {
                "package" | "pack" | "socket" => Level::Package,
                "numa" | "numanode" | "node" => Level::Numa,
                "l3" | "l3cache" => Level::Cache(3),
                "l2" | "l2cache" => Level::Cache(2),
                "core" => Level::Core,
                "pu" => Level::Pu,
                _ => return Err(self.error(format!("no level is called `{name}` ({LEVELS})"))),
            };
            let count: usize =
                count.parse().map_err(|_| self.error(format!("`{count}` is not a number of {name}s")))?;
            if count == 0 {
                return Err(self.error(format!("a machine with 0 {name}s")));
            }
            if levels.iter().any(|(l, _)| *l == level) {
                return Err(self.error(format!("`{name}` stands twice")));
            }
            if level != Level::Pu && levels.iter().any(|(l, _)| *l == Level::Core || *l == Level::Pu) {
                return Err(self.error(format!("`{name}` inside a core")));
            }
            levels.push((level, count));
        }
        if levels.is_empty() {
            return Err(self.error("no level given"));
        }
        Ok(levels)
    }
}

impl Discover for Synthetic {
    fn discover(&self) -> Result<Topology, Error> {
        let levels = self.parse()?;
        let total = levels.iter().try_fold(1usize, |all, (_, n)| all.checked_mul(*n));
        let Some(total) = total.filter(|n| *n <= MOST_PUS) else {
            return Err(self.error(format!("more than {MOST_PUS} hardware threads")));
        };
        // How many hardware threads stand below one instance of each level.
        let mut below = total;
        let spans: Vec<(Level, usize)> = levels
            .iter()
            .map(|(level, count)| {
                below /= count;
                (*level, below)
            })
            .collect();
        let number = |wanted: Level, cpu: usize, absent: usize| {
            spans.iter().find(|(level, _)| *level == wanted).map_or(absent, |(_, span)| cpu / span)
        };
        let pus = (0..total)
            .map(|cpu| Pu {
                cpu,
                package: number(Level::Package, cpu, 0),
                // Without a NUMA level a package is its own node, as on most machines.
                node: number(Level::Numa, cpu, number(Level::Package, cpu, 0)),
                // A description without cores (`pu:4`) has one hardware thread per core.
                core: number(Level::Core, cpu, cpu),
            })
            .collect();
        let mut caches = Vec::new();
        for (level, span) in &spans {
            if let Level::Cache(level) = *level {
                caches.extend((0..total / span).map(|i| Cache {
                    level,
                    kind: CacheKind::Unified,
                    bytes: 0,
                    cpus: (i * span..(i + 1) * span).collect(),
                }));
            }
        }
        Ok(Topology::assemble(format!("synthetic {}", self.text), pus, caches))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes() {
        let t = Topology::synthetic("package:2 l3:1 core:2 pu:2").unwrap();
        assert_eq!((t.pus(), t.cores.len(), t.nodes.len(), t.caches.len()), (8, 4, 2, 2));
        assert_eq!(t.cores[3].cpus, [6, 7]);
        assert_eq!(t.shared_cache(4, 7).unwrap().level, 3);
        assert_eq!(t.shared_cache(3, 4), None);
        assert_eq!(t.summary(), "4 cores (8 hardware threads), 2 NUMA nodes");
    }

    #[test]
    fn refuses() {
        for (text, why) in [
            ("", "no level given"),
            ("core", "not level:count"),
            ("core:x", "not a number"),
            ("core:0", "0 cores"),
            ("core:2 core:2", "stands twice"),
            ("core:2 numa:2", "inside a core"),
            ("die:2", "no level is called `die`"),
            ("core:99999999 pu:99999999", "more than"),
            ("core:18446744073709551615 pu:3", "more than"),
        ] {
            let error = Topology::synthetic(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
