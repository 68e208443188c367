use super::*;

#[test]
fn lists_and_sizes() {
    assert_eq!(list("0-3,8,10-11"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
    assert_eq!(list("3-1"), None);
    assert_eq!(list("0-99999999999"), None);
    assert_eq!(
        (bytes("32K"), bytes("1M"), bytes("12"), bytes("1X"), bytes("")),
        (Some(32768), Some(1 << 20), Some(12), None, None)
    );
}

/// Two packages, each a node of two cores of two hardware threads; numbered as Linux does: siblings last.
fn fake(root: &Path) {
    for cpu in 0..8usize {
        let (package, core) = (cpu / 2 % 2, cpu % 4);
        let dir = root.join(format!("cpu/cpu{cpu}"));
        fs::create_dir_all(dir.join("topology")).unwrap();
        fs::create_dir_all(dir.join(format!("node{package}"))).unwrap();
        let put = |file: &str, text: String| fs::write(dir.join(file), text + "\n").unwrap();
        put("topology/core_cpus_list", format!("{core},{}", core + 4));
        put("topology/physical_package_id", package.to_string());
        for (index, (level, kind, size, sharers)) in [
            (1, "Data", "48K", format!("{core},{}", core + 4)),
            (1, "Instruction", "32K", format!("{core},{}", core + 4)),
            (3, "Unified", "32M", if package == 0 { "0-1,4-5".into() } else { "2-3,6-7".into() }),
        ]
        .into_iter()
        .enumerate()
        {
            fs::create_dir_all(dir.join(format!("cache/index{index}"))).unwrap();
            put(&format!("cache/index{index}/level"), level.to_string());
            put(&format!("cache/index{index}/type"), kind.to_string());
            put(&format!("cache/index{index}/size"), size.to_string());
            put(&format!("cache/index{index}/shared_cpu_list"), sharers);
        }
    }
}

#[test]
fn a_copy_of_sys() {
    let root = std::env::temp_dir().join(format!("tocsin-topology-{}", std::process::id()));
    fake(&root);
    let whole = Sys::at(&root, (0..8).collect()).discover().unwrap();
    let masked = Sys::at(&root, vec![1, 5, 6]).discover().unwrap();
    fs::remove_dir_all(&root).unwrap();

    assert_eq!((whole.cores.len(), whole.nodes.len(), whole.pus()), (4, 2, 8));
    assert_eq!(whole.cores[1].cpus, [1, 5]);
    assert_eq!(whole.caches.len(), 6);
    assert_eq!(whole.shared_cache(0, 5).map(|c| (c.level, c.bytes)), Some((3, 32 << 20)));
    assert_eq!(whole.summary(), "4 cores (8 hardware threads), 2 NUMA nodes, L3 32 MiB");

    assert_eq!(masked.cores.iter().map(|c| c.cpus.clone()).collect::<Vec<_>>(), [vec![1, 5], vec![6]]);
    assert_eq!(masked.nodes.len(), 2);
}

/// Processors of a core, a package and a node each, in a directory that goes with the answer: `cpus` has each one's package and node.
fn small(name: &str, cpus: &[(usize, usize)], linked: bool) -> Topology {
    let root = std::env::temp_dir().join(format!("tocsin-topology-{name}-{}", std::process::id()));
    for (cpu, (package, node)) in cpus.iter().enumerate() {
        let dir = root.join(format!("cpu/cpu{cpu}"));
        fs::create_dir_all(dir.join("topology")).unwrap();
        fs::write(dir.join("topology/physical_package_id"), package.to_string()).unwrap();
        if linked {
            fs::create_dir_all(dir.join(format!("node{node}"))).unwrap();
        }
        let of_node: Vec<String> =
            (0..cpus.len()).filter(|c| cpus[*c].1 == *node).map(|c| c.to_string()).collect();
        let dir = root.join(format!("node/node{node}"));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("cpulist"), of_node.join(",")).unwrap();
    }
    let topology = Sys::at(&root, (0..cpus.len()).collect()).discover().unwrap();
    fs::remove_dir_all(&root).unwrap();
    topology
}

fn cpus_of_nodes(topology: &Topology) -> Vec<(usize, Vec<usize>)> {
    let cpus = |cores: &[usize]| cores.iter().flat_map(|core| topology.cores[*core].cpus.clone()).collect();
    topology.nodes.iter().map(|node| (node.number, cpus(&node.cores))).collect()
}

#[test]
fn nodes_that_only_their_own_lists_tell() {
    let cpus = [(0, 0), (0, 0), (1, 3), (1, 3)];
    let (linked, hidden) = (small("linked", &cpus, true), small("hidden", &cpus, false));
    assert_eq!(cpus_of_nodes(&hidden), [(0, vec![0, 1]), (3, vec![2, 3])]);
    assert_eq!((linked.cores, linked.nodes), (hidden.cores, hidden.nodes));
}

#[test]
fn cores_of_a_node_stay_together() {
    // A package for each processor, as some virtual machines have it, whose nodes take turns.
    let topology = small("turns", &[(0, 0), (1, 1), (2, 0), (3, 1)], true);
    assert_eq!(cpus_of_nodes(&topology), [(0, vec![0, 2]), (1, vec![1, 3])]);
    assert_eq!(topology.nodes[1].cores, [2, 3]);
    for policy in [crate::Policy::Scatter, crate::Policy::ScatterNuma] {
        assert_eq!(topology.place(policy, 2), [Some(0), Some(1)], "{policy}");
    }
    // The higher node first, where its package is.
    let topology = small("crossed", &[(1, 0), (0, 1)], true);
    assert_eq!(cpus_of_nodes(&topology), [(1, vec![1]), (0, vec![0])]);
}

#[test]
fn memory_and_processors_that_are_nobodys() {
    // Node 0 of memory alone, node 2 with processors alone: nodes of cores are those of the processors.
    let topology = small("apart", &[(0, 1), (0, 2)], true);
    assert_eq!(cpus_of_nodes(&topology), [(1, vec![0]), (2, vec![1])]);
    assert_eq!(topology.place(crate::Policy::ScatterNuma, 2), [Some(0), Some(1)]);
}

#[test]
fn files_that_a_container_empties() {
    // What a runtime masks reads as nothing; a masked directory has no entries.
    let root = std::env::temp_dir().join(format!("tocsin-topology-masked-{}", std::process::id()));
    for cpu in 0..2 {
        let dir = root.join(format!("cpu/cpu{cpu}"));
        fs::create_dir_all(dir.join("topology")).unwrap();
        fs::create_dir_all(dir.join("cache/index0")).unwrap();
        for file in ["topology/core_cpus_list", "topology/physical_package_id", "cache/index0/type"] {
            fs::write(dir.join(file), "").unwrap();
        }
    }
    fs::create_dir_all(root.join("node")).unwrap();
    let t = Sys::at(&root, vec![0, 1]).discover().unwrap();
    assert_eq!(crate::MemoryNodes::at(&root).numbers().count(), 0);
    fs::remove_dir_all(&root).unwrap();
    assert_eq!((t.cores.len(), t.nodes.len(), t.caches.len()), (2, 1, 0));
}

#[test]
fn nothing_there() {
    let t = Sys::at("/nonexistent", vec![0, 3]).discover().unwrap();
    assert_eq!((t.cores.len(), t.nodes.len(), t.caches.len()), (2, 1, 0));
}

#[test]
fn this_machine() {
    let t = Topology::machine().unwrap();
    assert_eq!(t.pus(), allowed_cpus().unwrap().len());
}
