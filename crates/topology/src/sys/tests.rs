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
