//! Among which NUMA nodes there is a choice where memory lies.

use crate::sys::{ROOT, list, read};
use std::path::Path;

/// The NUMA nodes that have both processors and memory, if there are two or more: with one there is nothing to choose.
///
/// Always the machine's, as `/sys` describes it: memory cannot be placed on a machine that one does not have. Nodes of memory alone
/// (slow or fast memory beside the ordinary) are nobody's; processors without memory of their own have no node here, because the kernel
/// gives them the nearest by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryNodes {
    /// Kernel numbers of a node and of its processors, ascending.
    nodes: Vec<(u32, Vec<usize>)>,
}

impl MemoryNodes {
    /// This machine's. Reads two short files where there is one node. Not for handlers.
    pub fn machine() -> MemoryNodes {
        MemoryNodes::at(ROOT)
    }

    /// Those of another directory laid out as `/sys/devices/system`; none if any part of it cannot be read.
    pub fn at(root: impl AsRef<Path>) -> MemoryNodes {
        let dir = root.as_ref().join("node");
        let of = |file: &str| read(&dir.join(file)).and_then(|text| list(&text)).unwrap_or_default();
        let with_cpus = of("has_cpu");
        let mut numbers = of("has_memory");
        numbers.retain(|number| with_cpus.contains(number));
        if numbers.len() < 2 {
            return MemoryNodes::default();
        }
        let node = |number: usize| {
            Some((u32::try_from(number).ok()?, list(&read(&dir.join(format!("node{number}/cpulist")))?)?))
        };
        let nodes: Option<Vec<_>> = numbers.into_iter().map(node).collect();
        MemoryNodes { nodes: nodes.unwrap_or_default() }
    }

    /// Kernel numbers of the nodes, ascending; none where there is no choice.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.nodes.iter().map(|(number, _)| *number)
    }

    /// The node of a thread that may run on these processors (kernel numbers); `None` when they are not all of one node, or there is no
    /// choice.
    pub fn of(&self, cpus: &[usize]) -> Option<u32> {
        let (first, rest) = cpus.split_first()?;
        let (number, all) = self.nodes.iter().find(|(_, all)| all.contains(first))?;
        rest.iter().all(|cpu| all.contains(cpu)).then_some(*number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// What `node` is called with the given files.
    fn described(name: &str, files: &[(&str, &str)]) -> MemoryNodes {
        let root = std::env::temp_dir().join(format!("tocsin-memory-{name}-{}", std::process::id()));
        for (file, text) in files {
            let path = root.join("node").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        let nodes = MemoryNodes::at(&root);
        fs::remove_dir_all(&root).unwrap();
        nodes
    }

    #[test]
    fn processors_have_the_node_that_they_share() {
        let nodes = described(
            "two",
            &[
                ("has_cpu", "0,3"),
                ("has_memory", "0,3"),
                ("node0/cpulist", "0-1,4-5"),
                ("node3/cpulist", "2-3,6-7"),
            ],
        );
        assert_eq!(nodes.numbers().collect::<Vec<_>>(), [0, 3]);
        assert_eq!((nodes.of(&[4]), nodes.of(&[6])), (Some(0), Some(3)));
        assert_eq!((nodes.of(&[2, 7]), nodes.of(&[1, 2])), (Some(3), None));
        assert_eq!((nodes.of(&[]), nodes.of(&[8]), nodes.of(&[0, 8])), (None, None, None));
    }

    #[test]
    fn one_node_with_both_is_no_choice() {
        let cpus = ("node0/cpulist", "0-3");
        for (name, with_cpus, with_memory) in
            [("one", "0", "0"), ("slow", "0", "0-1"), ("bare", "0-1", "0"), ("nonsense", "0-1", "x")]
        {
            let nodes = described(name, &[("has_cpu", with_cpus), ("has_memory", with_memory), cpus]);
            assert_eq!((nodes.of(&[0]), nodes), (None, MemoryNodes::default()), "{name}");
        }
        assert_eq!(MemoryNodes::at("/nonexistent"), MemoryNodes::default());
    }

    #[test]
    fn processors_without_memory_have_none() {
        let nodes = described(
            "three",
            &[
                ("has_cpu", "0-2"),
                ("has_memory", "0-1"),
                ("node0/cpulist", "0"),
                ("node1/cpulist", "1"),
                ("node2/cpulist", "2"),
            ],
        );
        assert_eq!((nodes.of(&[1]), nodes.of(&[2])), (Some(1), None));
    }

    #[test]
    fn this_machine() {
        let nodes = MemoryNodes::machine();
        assert_ne!(nodes.numbers().count(), 1);
    }
}
