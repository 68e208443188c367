//! Machines as `/sys` describes them, in a directory of temporary files.

use super::*;
use std::fs;

/// What `node` is called with the given files, and the nodes of the cpuset.
fn described(name: &str, files: &[(&str, &str)], allowed: Option<&[usize]>) -> MemoryNodes {
    let root = std::env::temp_dir().join(format!("tocsin-memory-{name}-{}", std::process::id()));
    for (file, text) in files {
        let path = root.join("node").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }
    let nodes = MemoryNodes::described(&root, || allowed.map(<[usize]>::to_vec));
    if !files.is_empty() {
        fs::remove_dir_all(&root).unwrap();
    }
    nodes
}

fn numbers(nodes: &MemoryNodes) -> Vec<u32> {
    nodes.numbers().collect()
}

/// Nodes 0 and 3, numbered with holes.
const TWO: [(&str, &str); 7] = [
    ("has_cpu", "0,3"),
    ("has_memory", "0,3"),
    ("online", "0,3"),
    ("node0/cpulist", "0-1,4-5"),
    ("node3/cpulist", "2-3,6-7"),
    ("node0/distance", "10 21"),
    ("node3/distance", "21 10"),
];

/// Four nodes of two sockets, two processors each; the second of each socket has no memory.
const HALF_EMPTY: [(&str, &str); 11] = [
    ("has_cpu", "0-3"),
    ("has_memory", "0,2"),
    ("online", "0-3"),
    ("node0/cpulist", "0-1"),
    ("node1/cpulist", "2-3"),
    ("node2/cpulist", "4-5"),
    ("node3/cpulist", "6-7"),
    ("node0/distance", "10 12 32 32"),
    ("node1/distance", "12 10 32 32"),
    ("node2/distance", "32 32 10 12"),
    ("node3/distance", "32 32 12 10"),
];

#[test]
fn processors_have_the_node_that_they_share() {
    let nodes = described("two", &TWO, None);
    assert_eq!(numbers(&nodes), [0, 3]);
    assert_eq!((nodes.of(&[4]), nodes.of(&[6])), (Some(0), Some(3)));
    assert_eq!((nodes.of(&[2, 7]), nodes.of(&[1, 2])), (Some(3), None));
    assert_eq!((nodes.of(&[]), nodes.of(&[8]), nodes.of(&[0, 8])), (None, None, None));
}

#[test]
fn one_node_with_both_is_no_choice() {
    let (cpus, of_none) = (("node0/cpulist", "0-3"), ("node1/cpulist", ""));
    for (name, with_cpus, with_memory) in [("one", "0", "0"), ("slow", "0", "0-1"), ("bare", "0-1", "0")] {
        let files = [("has_cpu", with_cpus), ("has_memory", with_memory), cpus, of_none];
        let nodes = described(name, &files, None);
        assert_eq!((nodes.of(&[0]), numbers(&nodes)), (None, vec![]), "{name}");
        assert_eq!(nodes.no_choice(), Some(&NoChoice::OneNode), "{name}");
    }
}

#[test]
fn what_is_hidden_is_named() {
    for (name, files, untold) in [
        ("nothing", &[][..], "has_cpu"),
        // What a container runtime masks is a directory without files, or files without contents, which are no nodes.
        ("part", &[("has_cpu", "0-1")], "has_memory"),
        ("nonsense", &[("has_cpu", "0-1"), ("has_memory", "x")], "has_memory"),
        ("lists", &[("has_cpu", "0-1"), ("has_memory", "0-1"), ("node0/cpulist", "0-3")], "node1/cpulist"),
    ] {
        let nodes = described(name, files, None);
        let Some(why @ NoChoice::Untold(file)) = nodes.no_choice() else { panic!("{name}: {nodes:?}") };
        assert!(
            file.ends_with(&format!("/node/{untold}")) && why.to_string().contains(file),
            "{name}: {why}"
        );
        assert_eq!(numbers(&nodes), [], "{name}");
    }
    let empty = described("empty", &[("has_cpu", ""), ("has_memory", "")], None);
    assert_eq!(empty.no_choice(), Some(&NoChoice::OneNode));
}

#[test]
fn processors_without_memory_are_served_by_the_nearest() {
    let nodes = described("half-empty", &HALF_EMPTY, None);
    assert_eq!(numbers(&nodes), [0, 2]);
    assert_eq!(
        (nodes.of(&[0]), nodes.of(&[3]), nodes.of(&[5]), nodes.of(&[6])),
        (Some(0), Some(0), Some(2), Some(2))
    );
    // Two nodes' processors, one node's memory.
    assert_eq!((nodes.of(&[1, 2]), nodes.of(&[3, 4])), (Some(0), None));
}

#[test]
fn memory_without_processors_serves_who_has_none() {
    // Ordinary memory on nodes 2 and 3 alone; node 4 is far from all.
    let files = [
        ("has_cpu", "0-1"),
        ("has_memory", "2-4"),
        ("online", "0-4"),
        ("node0/cpulist", "0-1"),
        ("node1/cpulist", "2-3"),
        ("node0/distance", "10 20 17 14 40"),
        ("node1/distance", "20 10 14 17 40"),
    ];
    let nodes = described("apart", &files, None);
    assert_eq!((numbers(&nodes), nodes.of(&[0]), nodes.of(&[3])), (vec![2, 3], Some(3), Some(2)));
}

#[test]
fn who_has_memory_of_its_own_takes_no_other() {
    // Node 2 is fast memory, nearer by its distance than it can be.
    let mut files = TWO.to_vec();
    files[1] = ("has_memory", "0,2-3");
    files[2] = ("online", "0,2-3");
    files[5] = ("node0/distance", "10 1 21");
    let nodes = described("fast", &files, None);
    assert_eq!((numbers(&nodes), nodes.of(&[0])), (vec![0, 3], Some(0)));
}

#[test]
fn what_is_not_told_binds_nobody() {
    // No distances: who has memory of its own has it, the others have no node.
    let quiet: Vec<_> = HALF_EMPTY.into_iter().filter(|(file, _)| !file.ends_with("distance")).collect();
    let nodes = described("quiet", &quiet, None);
    assert_eq!((nodes.of(&[0]), nodes.of(&[2]), nodes.of(&[4])), (Some(0), None, Some(2)));
    for (missing, text) in [("online", "0-1"), ("node1/distance", "12 far 32 32"), ("node1/distance", "")] {
        let mut files = HALF_EMPTY.to_vec();
        files.iter_mut().filter(|(file, _)| *file == missing).for_each(|file| file.1 = text);
        // Fewer distances than nodes tell of those that are there.
        let near = if missing == "online" { Some(0) } else { None };
        assert_eq!(described("odd", &files, None).of(&[2]), near, "{missing} {text}");
    }
}

#[test]
fn a_cpuset_withholds_memory() {
    let nodes = described("all", &TWO, Some(&[0, 1, 2, 3, 4]));
    assert_eq!((numbers(&nodes), nodes.no_choice()), (vec![0, 3], None));
    // One is left: no choice, for nobody.
    let nodes = described("one-left", &TWO, Some(&[3]));
    assert_eq!((numbers(&nodes), nodes.of(&[0]), nodes.of(&[2])), (vec![], None, None));
    assert_eq!(nodes.no_choice(), Some(&NoChoice::Withheld(vec![0])));
    assert!(NoChoice::Withheld(vec![0, 7]).to_string().ends_with("(mems) leaves out 0, 7"));
    // It leaves out what nobody would have had.
    let mut files = TWO.to_vec();
    files[0] = ("has_cpu", "0");
    assert_eq!(described("one-with-cpus", &files, Some(&[0])).no_choice(), Some(&NoChoice::OneNode));
    // Two are left of four that have memory.
    let mut files = HALF_EMPTY.to_vec();
    files[1] = ("has_memory", "0-3");
    let nodes = described("two-left", &files, Some(&[1, 3]));
    assert_eq!(numbers(&nodes), [1, 3]);
    assert_eq!((nodes.of(&[0]), nodes.of(&[7])), (Some(1), Some(3)));
}

#[test]
fn a_cpuset_is_read() {
    let status = "Name:\tx\nMems_allowed:\t00000000,00000009\nMems_allowed_list:\t0,3\nThreads:\t1\n";
    assert_eq!(allowed(status), Some(vec![0, 3]));
    assert_eq!((allowed("Name:\tx\n"), allowed("Mems_allowed_list:\tall\n")), (None, None));
}

#[test]
fn processors_that_are_offline_are_of_no_node() {
    // The kernel lists those that are online, and nodes with one of them at least.
    let mut files = TWO.to_vec();
    files[3] = ("node0/cpulist", "0,4-5");
    let nodes = described("one-offline", &files, None);
    assert_eq!((nodes.of(&[0]), nodes.of(&[1]), nodes.of(&[2])), (Some(0), None, Some(3)));
    (files[0], files[4]) = (("has_cpu", "0"), ("node3/cpulist", ""));
    assert_eq!(numbers(&described("node-offline", &files, None)), []);
}

#[test]
fn this_machine() {
    let nodes = MemoryNodes::machine();
    assert_ne!(nodes.numbers().count(), 1);
}
