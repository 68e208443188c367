//! Among which NUMA nodes there is a choice where memory lies.

use crate::sys::{ROOT, list, read};
use std::collections::BTreeMap;
use std::path::Path;
use thiserror::Error;

/// The NUMA nodes that have memory for some of the machine's processors, if there are two or more: with one there is nothing to choose.
///
/// Always the machine's, as `/sys` describes it: memory cannot be placed on a machine that one does not have. Nodes of memory alone
/// (slow or fast memory beside the ordinary) are nobody's while each processor has memory on its own node. Processors whose node has none,
/// or none that this process may have, are served by the nearest that has: it is where the kernel takes their memory from when they ask
/// for it themselves, and what is allocated for a rank is mostly asked for by others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryNodes {
    /// Kernel numbers of a node and of the processors that it serves, ascending; two nodes or more.
    nodes: Result<Vec<(u32, Vec<usize>)>, NoChoice>,
}

/// Why there is no choice where memory lies.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoChoice {
    /// There is nothing to choose from.
    #[error("one NUMA node, so that there is nothing to choose")]
    OneNode,
    /// Nor is there for this process: its cpuset (a cgroup's `cpuset.mems`) leaves out the memory of nodes of these kernel numbers.
    #[error(
        "one NUMA node that this process may have memory of, so that there is nothing to choose: its cpuset (mems) leaves out {}",
        listed(.0)
    )]
    Withheld(Vec<usize>),
    /// What the kernel tells of nodes lacks this, or it cannot be read.
    #[error(
        "one NUMA node as far as can be seen: nothing is told by {0} (a kernel without NUMA, or a container that hides it)"
    )]
    Untold(String),
}

impl MemoryNodes {
    /// This machine's, as far as the calling thread's cpuset allows. Reads two short files where there is one node. Not for handlers.
    pub fn machine() -> MemoryNodes {
        MemoryNodes::described(Path::new(ROOT), || allowed(&read(Path::new("/proc/thread-self/status"))?))
    }

    /// Those of another directory laid out as `/sys/devices/system`, as if no cpuset was in the way; none if any part of it cannot be read.
    pub fn at(root: impl AsRef<Path>) -> MemoryNodes {
        MemoryNodes::described(root.as_ref(), || None)
    }

    /// `allowed` says which nodes this process may have memory of, if anything does.
    fn described(root: &Path, allowed: impl FnOnce() -> Option<Vec<usize>>) -> MemoryNodes {
        MemoryNodes { nodes: serving(&root.join("node"), allowed) }
    }

    /// Kernel numbers of the nodes, ascending; none where there is no choice.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.nodes.iter().flatten().map(|(number, _)| *number)
    }

    /// Why there are none; `None` where there is a choice.
    pub fn no_choice(&self) -> Option<&NoChoice> {
        self.nodes.as_ref().err()
    }

    /// The node that serves a thread which may run on these processors (kernel numbers); `None` when they are not all served by one, or
    /// there is no choice.
    pub fn of(&self, cpus: &[usize]) -> Option<u32> {
        let (first, rest) = cpus.split_first()?;
        let (number, all) = self.nodes.iter().flatten().find(|(_, all)| all.contains(first))?;
        rest.iter().all(|cpu| all.contains(cpu)).then_some(*number)
    }
}

fn serving(
    dir: &Path,
    allowed: impl FnOnce() -> Option<Vec<usize>>,
) -> Result<Vec<(u32, Vec<usize>)>, NoChoice> {
    let numbers = |file: &str| {
        let path = dir.join(file);
        read(&path).and_then(|text| list(&text)).ok_or_else(|| NoChoice::Untold(path.display().to_string()))
    };
    let (with_cpus, with_memory) = (numbers("has_cpu")?, numbers("has_memory")?);
    if with_cpus.len() < 2 {
        return Err(NoChoice::OneNode);
    }
    let allowed = allowed();
    let may_have = |number: &usize| allowed.as_ref().is_none_or(|allowed| allowed.contains(number));
    let (usable, withheld): (Vec<usize>, Vec<usize>) = with_memory.into_iter().partition(may_have);
    let mut serves = BTreeMap::<u32, Vec<usize>>::new();
    for node in with_cpus {
        let cpus = numbers(&format!("node{node}/cpulist"))?;
        let of_its_own = usable.contains(&node).then_some(node);
        let serving = of_its_own.or_else(|| nearest(dir, node, &usable));
        if let Some(number) = serving.and_then(|number| u32::try_from(number).ok()) {
            serves.entry(number).or_default().extend(cpus);
        }
    }
    match (serves.len(), withheld.is_empty()) {
        (2.., _) => {
            serves.values_mut().for_each(|cpus| cpus.sort_unstable());
            Ok(serves.into_iter().collect())
        }
        (_, true) => Err(NoChoice::OneNode),
        (_, false) => Err(NoChoice::Withheld(withheld)),
    }
}

fn listed(numbers: &[usize]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The one of `usable` that is nearest to a node, the first of equals; none if the distances cannot be read.
fn nearest(dir: &Path, node: usize, usable: &[usize]) -> Option<usize> {
    // One distance for each node that is online.
    let online = list(&read(&dir.join("online"))?)?;
    let text = read(&dir.join(format!("node{node}/distance")))?;
    let distances: Vec<u32> = text.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let known = online.iter().zip(distances).filter(|(number, _)| usable.contains(number));
    known.min_by_key(|(_, distance)| *distance).map(|(number, _)| *number)
}

/// The nodes of a thread's cpuset, from its `status` in `/proc`.
fn allowed(status: &str) -> Option<Vec<usize>> {
    list(status.lines().find_map(|line| line.strip_prefix("Mems_allowed_list:"))?.trim())
}

#[cfg(test)]
mod tests;
