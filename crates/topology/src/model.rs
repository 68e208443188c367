use crate::{Error, Synthetic, Sys};
use std::collections::BTreeMap;

/// The usable part of a machine: what the calling thread may run on.
///
/// Cores are in topological order (package, then node, then core), so that neighbours in the list are neighbours
/// on the machine; where packages and nodes cross, as in some virtual machines, those of a node stay together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Where the description comes from, for example `/sys` or `synthetic numa:2 core:4 pu:1`.
    pub source: String,
    /// The usable cores.
    pub cores: Vec<Core>,
    /// NUMA nodes that have at least one usable core.
    pub nodes: Vec<Node>,
    /// Data and unified caches of the usable cores.
    pub caches: Vec<Cache>,
}

/// A physical core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// Kernel numbers of its usable hardware threads, ascending; never empty.
    pub cpus: Vec<usize>,
    /// Its NUMA node, an index into [`Topology::nodes`].
    pub node: usize,
    /// Its package (socket), as the kernel numbers it.
    pub package: usize,
}

/// A NUMA node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The kernel's number.
    pub number: usize,
    /// Its cores, indices into [`Topology::cores`], ascending and contiguous.
    pub cores: Vec<usize>,
}

/// What a cache holds. Instruction caches are left out: data moves through none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Data and instructions.
    Unified,
}

/// A cache and who shares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// 1, 2, 3 ...
    pub level: u8,
    /// What it holds.
    pub kind: CacheKind,
    /// Size in bytes; 0 when unknown.
    pub bytes: u64,
    /// Kernel numbers of the usable hardware threads that share it, ascending.
    pub cpus: Vec<usize>,
}

/// A source of topologies.
pub trait Discover {
    /// Reads or computes the topology.
    ///
    /// # Errors
    /// When the description is malformed or the kernel refuses to tell the affinity mask.
    fn discover(&self) -> Result<Topology, Error>;
}

/// One hardware thread as a source of topologies reports it.
pub(crate) struct Pu {
    pub cpu: usize,
    pub package: usize,
    pub node: usize,
    /// Any number that equals another's exactly when they share a core of one package.
    pub core: usize,
}

impl Topology {
    /// The machine, limited to what the calling thread may run on.
    ///
    /// # Errors
    /// When the kernel refuses to tell the thread's affinity mask. Missing files in `/sys` are no error: each
    /// processor then counts as a core of one node.
    pub fn machine() -> Result<Topology, Error> {
        #[cfg(feature = "hwloc")]
        if let Ok(machine) = crate::Hwloc::default().discover() {
            return Ok(machine);
        }
        Sys::default().discover()
    }

    /// A synthetic machine, such as `numa:2 core:4 pu:1`. With the feature `hwloc` also what only libhwloc reads; what [`Synthetic`] reads, too, means the
    /// same with and without it.
    ///
    /// # Errors
    /// When `text` does not parse.
    pub fn synthetic(text: &str) -> Result<Topology, Error> {
        let own = Synthetic::new(text);
        let machine = own.discover();
        #[cfg(feature = "hwloc")]
        if let Err(Error::Synthetic { text, why }) = &machine
            && !own.is_too_large()
        {
            let both = |theirs| Error::Synthetic { text: text.clone(), why: format!("{why}; and {theirs}") };
            return crate::Hwloc::synthetic(text).discover().map_err(both);
        }
        machine
    }

    /// Number of hardware threads.
    pub fn pus(&self) -> usize {
        self.cores.iter().map(|core| core.cpus.len()).sum()
    }

    /// The core that a hardware thread belongs to, an index into [`Topology::cores`].
    pub fn core_of(&self, cpu: usize) -> Option<usize> {
        self.cores.iter().position(|core| core.cpus.contains(&cpu))
    }

    /// The lowest level of cache (the smallest number) that two hardware threads share.
    pub fn shared_cache(&self, a: usize, b: usize) -> Option<&Cache> {
        self.caches.iter().filter(|c| c.cpus.contains(&a) && c.cpus.contains(&b)).min_by_key(|c| c.level)
    }

    /// One line for captions and reports: `2 cores, 1 NUMA node, L3 36 MiB`.
    pub fn summary(&self) -> String {
        let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let mut text = plural(self.cores.len(), "core");
        if self.pus() != self.cores.len() {
            text += &format!(" ({})", plural(self.pus(), "hardware thread"));
        }
        text += &format!(", {}", plural(self.nodes.len(), "NUMA node"));
        if let Some(last) = self.caches.iter().filter(|c| c.bytes > 0).max_by_key(|c| c.level) {
            text += &format!(", L{} {}", last.level, size(last.bytes));
        }
        text
    }

    pub(crate) fn assemble(source: String, mut pus: Vec<Pu>, caches: Vec<Cache>) -> Topology {
        let mut first_package = BTreeMap::new();
        for pu in &pus {
            let first = first_package.entry(pu.node).or_insert(pu.package);
            *first = pu.package.min(*first);
        }
        pus.sort_by_key(|p| (first_package.get(&p.node).copied(), p.node, p.package, p.core, p.cpu));
        let mut topology = Topology { source, cores: Vec::new(), nodes: Vec::new(), caches };
        let mut last = None;
        for pu in pus {
            let node = match topology.nodes.iter().position(|n| n.number == pu.node) {
                Some(node) => node,
                None => {
                    topology.nodes.push(Node { number: pu.node, cores: Vec::new() });
                    topology.nodes.len() - 1
                }
            };
            let identity = (pu.package, pu.node, pu.core);
            if last == Some(identity)
                && let Some(core) = topology.cores.last_mut()
            {
                core.cpus.push(pu.cpu);
                continue;
            }
            last = Some(identity);
            topology.nodes[node].cores.push(topology.cores.len());
            topology.cores.push(Core { cpus: vec![pu.cpu], node, package: pu.package });
        }
        topology
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 20 => format!("{:.0} MiB", b as f64 / f64::from(1 << 20)),
        b if b >= 1 << 10 => format!("{:.0} KiB", b as f64 / 1024.0),
        b => format!("{b} B"),
    }
}
