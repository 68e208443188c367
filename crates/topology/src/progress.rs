//! Which processor each rank's progress thread is bound to. Source: Taboada's thesis, section 4.2.2 (algorithm 3), section
//! 4.3 and section 5.2.2; exact integer arithmetic throughout, where floating point would put two threads' cores on
//! one (25 cores, 14 ranks).

use crate::{Error, Node, Policy, Topology};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Where progress threads run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProgressPolicy {
    /// Not bound: such a thread starts with its rank's binding, if that has one.
    #[default]
    None,
    /// On their rank's processor.
    Bind,
    /// On the free cores of their rank's NUMA node, each on the nearest one above its rank's; on their rank's processor
    /// where the node has no free core. Spread evenly where ranks are placed by [`Policy::ScatterNuma`].
    Numa,
    /// On another hardware thread of their rank's core. Good for messages between machines; within one, the copies
    /// thrash the cache of the computation (Taboada's thesis, section 4.3.2).
    Smt,
    /// On two cores, those of even ranks on one and those of odd ranks on the other, so that in a chain (scan, exscan)
    /// a send overlaps the next receive. The two are free cores while there are any, of one node if possible; on a
    /// machine that has none left, those with the fewest ranks.
    OddEven,
}

impl ProgressPolicy {
    /// All policies.
    pub const ALL: [ProgressPolicy; 5] = [
        ProgressPolicy::None,
        ProgressPolicy::Bind,
        ProgressPolicy::Numa,
        ProgressPolicy::Smt,
        ProgressPolicy::OddEven,
    ];

    /// The name used on command lines.
    pub fn name(self) -> &'static str {
        match self {
            ProgressPolicy::None => "none",
            ProgressPolicy::Bind => "bind",
            ProgressPolicy::Numa => "numa",
            ProgressPolicy::Smt => "smt",
            ProgressPolicy::OddEven => "odd_even",
        }
    }

    fn refused(self, why: impl Into<String>) -> Error {
        Error::Progress { policy: self.name(), why: why.into() }
    }
}

impl fmt::Display for ProgressPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ProgressPolicy {
    type Err = Error;
    fn from_str(text: &str) -> Result<ProgressPolicy, Error> {
        let known = ProgressPolicy::ALL.into_iter().find(|p| p.name() == text);
        known.ok_or_else(|| Error::UnknownProgressPolicy(text.to_owned()))
    }
}

/// Where a rank and its progress thread run, as the kernel numbers processors; `None`: not bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seat {
    /// The rank's own thread.
    pub cpu: Option<usize>,
    /// Its progress thread.
    pub progress: Option<usize>,
}

impl Topology {
    /// The processors (kernel numbers) of the progress threads of ranks that [`Topology::place`] has put on the
    /// processors `ranks`; `None`: not bound.
    ///
    /// # Errors
    /// [`Error::Progress`] when the policy depends on where ranks are and they are not bound, or when `smt` meets a core
    /// that has one hardware thread.
    pub fn place_progress(
        &self,
        policy: ProgressPolicy,
        ranks: &[Option<usize>],
    ) -> Result<Vec<Option<usize>>, Error> {
        match policy {
            ProgressPolicy::None => return Ok(vec![None; ranks.len()]),
            ProgressPolicy::Bind => return Ok(ranks.to_vec()),
            _ => {}
        }
        let bound: Option<Vec<usize>> = ranks.iter().copied().collect();
        let bound = bound.ok_or_else(|| {
            policy.refused("it depends on where ranks are, and they are not bound: bind them by scatter_numa")
        })?;
        let table = Table::new(self, &bound)?;
        Ok(match policy {
            ProgressPolicy::Smt => table.siblings()?.into_iter().map(Some).collect(),
            ProgressPolicy::OddEven => table.odd_even().into_iter().map(Some).collect(),
            _ => table.numa().into_iter().map(Some).collect(),
        })
    }

    /// Where ranks and their progress threads run.
    ///
    /// # Errors
    /// As [`Topology::place_progress`].
    pub fn seats(&self, bind: Policy, progress: ProgressPolicy, ranks: usize) -> Result<Vec<Seat>, Error> {
        self.seats_beside(0, bind, progress, ranks)
    }

    /// [`seats`](Topology::seats), with `reserved` cores on which no rank is placed, so that progress threads find them free.
    ///
    /// # Errors
    /// As [`Topology::place_progress`]; [`Error::Reserved`] when no core is left for ranks, or they are not bound, so that nothing
    /// keeps them off.
    pub fn seats_beside(
        &self,
        reserved: usize,
        bind: Policy,
        progress: ProgressPolicy,
        ranks: usize,
    ) -> Result<Vec<Seat>, Error> {
        let refused = |why: String| Err(Error::Reserved { cores: reserved, why });
        let cpus = match (reserved, bind) {
            (0, _) => self.place(bind, ranks),
            (_, Policy::None) => {
                return refused("ranks that are not bound run there, too: bind them by scatter".into());
            }
            _ if reserved >= self.cores.len() => {
                return refused(format!("there are {}, and ranks need one", self.cores.len()));
            }
            _ => self.without(reserved).place(bind, ranks),
        };
        let threads = self.place_progress(progress, &cpus)?;
        Ok(cpus.into_iter().zip(threads).map(|(cpu, progress)| Seat { cpu, progress }).collect())
    }
}

impl Topology {
    /// The machine without so many of its cores: of each node in turn, from the last one on, the last.
    fn without(&self, reserved: usize) -> Topology {
        let mut nodes: Vec<Vec<usize>> = self.nodes.iter().rev().map(|node| node.cores.clone()).collect();
        let mut gone = Vec::with_capacity(reserved);
        while gone.len() < reserved && nodes.iter().any(|node| !node.is_empty()) {
            let left = reserved - gone.len();
            gone.extend(nodes.iter_mut().filter_map(Vec::pop).take(left));
        }
        let kept: Vec<usize> = (0..self.cores.len()).filter(|core| !gone.contains(core)).collect();
        let mut rest = Topology { cores: Vec::new(), nodes: Vec::new(), ..self.clone() };
        for core in kept {
            let mut core = self.cores[core].clone();
            let number = self.nodes[core.node].number;
            core.node = rest.nodes.iter().position(|node| node.number == number).unwrap_or_else(|| {
                rest.nodes.push(Node { number, cores: Vec::new() });
                rest.nodes.len() - 1
            });
            rest.nodes[core.node].cores.push(rest.cores.len());
            rest.cores.push(core);
        }
        rest
    }
}

/// Who sits where.
struct Table<'a> {
    topology: &'a Topology,
    /// The processor of each rank.
    cpus: &'a [usize],
    /// The core of each rank.
    cores: Vec<usize>,
    /// Ranks and progress threads on each core, so far.
    taken: Vec<usize>,
}

impl<'a> Table<'a> {
    fn new(topology: &'a Topology, cpus: &'a [usize]) -> Result<Table<'a>, Error> {
        let core_of: BTreeMap<usize, usize> = (0..)
            .zip(&topology.cores)
            .flat_map(|(at, core)| core.cpus.iter().map(move |cpu| (*cpu, at)))
            .collect();
        let core = |cpu: &usize| core_of.get(cpu).copied().ok_or(Error::NoSuchCpu(*cpu));
        let cores: Vec<usize> = cpus.iter().map(core).collect::<Result<_, _>>()?;
        let mut taken = vec![0; topology.cores.len()];
        for core in &cores {
            taken[*core] += 1;
        }
        Ok(Table { topology, cpus, cores, taken })
    }

    /// The next processor of a core: those that come to one core take its hardware threads in turn.
    fn take(&mut self, core: usize) -> usize {
        let cpus = &self.topology.cores[core].cpus;
        self.taken[core] += 1;
        cpus[(self.taken[core] - 1) % cpus.len()]
    }

    fn numa(mut self) -> Vec<usize> {
        let free: Vec<Vec<usize>> = self
            .topology
            .nodes
            .iter()
            .map(|node| node.cores.iter().copied().filter(|core| self.taken[*core] == 0).collect())
            .collect();
        (0..self.cpus.len())
            .map(|rank| {
                let core = self.cores[rank];
                let free = &free[self.topology.cores[core].node];
                // Behind ranks that are not scattered over their node there may be no free core: the last one before.
                let above = free.partition_point(|at| *at < core).min(free.len().saturating_sub(1));
                free.get(above).map_or(self.cpus[rank], |core| self.take(*core))
            })
            .collect()
    }

    fn odd_even(mut self) -> Vec<usize> {
        let cores = &self.topology.cores;
        let second = (0..cores.len()).rev().min_by_key(|core| self.taken[*core]);
        let first = second.and_then(|second| {
            let others = (0..cores.len()).rev().filter(|core| *core != second);
            others.min_by_key(|core| (self.taken[*core], cores[*core].node != cores[second].node))
        });
        let Some(second) = second else { return Vec::new() };
        let (first, second) = (first.unwrap_or(second).min(second), first.unwrap_or(second).max(second));
        (0..self.cpus.len()).map(|rank| self.take(if rank % 2 == 0 { first } else { second })).collect()
    }

    fn siblings(self) -> Result<Vec<usize>, Error> {
        // Of each core: its hardware threads without a rank, and how many of them are given away.
        let mut given = vec![0; self.topology.cores.len()];
        let mut idle: Vec<Vec<usize>> = self.topology.cores.iter().map(|core| core.cpus.clone()).collect();
        for (core, cpu) in self.cores.iter().zip(self.cpus) {
            idle[*core].retain(|other| other != cpu);
        }
        let sibling = |(&core, &cpu): (&usize, &usize)| {
            let all = &self.topology.cores[core].cpus;
            if all.len() < 2 {
                return Err(ProgressPolicy::Smt.refused(format!(
                    "cpu {cpu} is the only hardware thread of its core: use bind or numa"
                )));
            }
            if idle[core].is_empty() {
                // A rank on each: the next one.
                let at = all.iter().position(|other| *other == cpu).unwrap_or(0);
                return Ok(all[(at + 1) % all.len()]);
            }
            given[core] += 1;
            Ok(idle[core][(given[core] - 1) % idle[core].len()])
        };
        self.cores.iter().zip(self.cpus).map(sibling).collect()
    }
}

#[cfg(test)]
mod tests;
