//! Which core each rank is bound to. Source: Taboada's thesis, chapter 4, algorithm 2, with its printed floors corrected
//! (node k holds ranks ceil(k*N/m) to ceil((k+1)*N/m)-1); exact integer arithmetic throughout.

use crate::{Error, Topology};
use std::fmt;
use std::str::FromStr;

/// A placement policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Nobody is bound.
    None,
    /// As far apart as possible on the machine.
    Scatter,
    /// As far apart as possible within NUMA nodes, balanced over the nodes.
    ScatterNuma,
}

impl Policy {
    /// All policies.
    pub const ALL: [Policy; 3] = [Policy::None, Policy::Scatter, Policy::ScatterNuma];

    /// The name used on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Policy::None => "none",
            Policy::Scatter => "scatter",
            Policy::ScatterNuma => "scatter_numa",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Policy {
    type Err = Error;
    fn from_str(text: &str) -> Result<Policy, Error> {
        let known = Policy::ALL.into_iter().find(|p| p.name() == text);
        known.ok_or_else(|| Error::UnknownPolicy(text.to_owned()))
    }
}

/// The processor (kernel number) each rank is bound to on this machine; `None`: not bound.
///
/// A machine that cannot be described binds nobody: placement is never a reason to fail.
pub fn placement(policy: Policy, ranks: usize) -> Vec<Option<usize>> {
    match (policy, Topology::machine()) {
        (Policy::None, _) | (_, Err(_)) => vec![None; ranks],
        (_, Ok(machine)) => machine.place(policy, ranks),
    }
}

impl Topology {
    /// The processor (kernel number) each rank is bound to; `None`: not bound.
    ///
    /// While ranks are no more than cores, each has a core of its own; beyond that, ranks of one core take its
    /// hardware threads in turn.
    pub fn place(&self, policy: Policy, ranks: usize) -> Vec<Option<usize>> {
        if self.cores.is_empty() {
            return vec![None; ranks];
        }
        let cores: Vec<usize> = match policy {
            Policy::None => return vec![None; ranks],
            Policy::Scatter => (0..ranks).map(|rank| rank * self.cores.len() / ranks).collect(),
            Policy::ScatterNuma => self.scatter_numa(ranks),
        };
        let mut taken = vec![0; self.cores.len()];
        let cpu = |core: usize| {
            let cpus = &self.cores[core].cpus;
            taken[core] += 1;
            Some(cpus[(taken[core] - 1) % cpus.len()])
        };
        cores.into_iter().map(cpu).collect()
    }

    fn scatter_numa(&self, ranks: usize) -> Vec<usize> {
        let mut placed = Vec::with_capacity(ranks);
        for (node, n_local) in self.nodes.iter().zip(self.ranks_per_node(ranks)) {
            let c = node.cores.len();
            placed.extend((0..n_local).map(|l| node.cores[l * c / n_local]));
        }
        placed
    }

    /// Ranks on each node: the thesis's balanced split, except that a node smaller than its share passes what it
    /// cannot hold on to the others while they have free cores (an affinity mask may leave nodes uneven).
    fn ranks_per_node(&self, ranks: usize) -> Vec<usize> {
        let m = self.nodes.len();
        let mut counts: Vec<usize> =
            (0..m).map(|k| ((k + 1) * ranks).div_ceil(m) - (k * ranks).div_ceil(m)).collect();
        if ranks > self.cores.len() {
            return counts;
        }
        let capacity = |k: usize| self.nodes[k].cores.len();
        let mut surplus = 0;
        for (k, count) in counts.iter_mut().enumerate() {
            surplus += count.saturating_sub(capacity(k));
            *count = (*count).min(capacity(k));
        }
        for _ in 0..surplus {
            // The emptiest node that still has a free core, the first of equals.
            if let Some(k) = (0..m).filter(|&k| counts[k] < capacity(k)).min_by_key(|&k| counts[k]) {
                counts[k] += 1;
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests;
