use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

fn machine(nodes: usize, cores: usize, pus: usize) -> Topology {
    Topology::synthetic(&format!("numa:{nodes} core:{cores} pu:{pus}")).unwrap()
}

fn node_counts(t: &Topology, cpus: &[Option<usize>]) -> Vec<usize> {
    let mut counts = vec![0; t.nodes.len()];
    for cpu in cpus {
        counts[t.cores[t.core_of(cpu.unwrap()).unwrap()].node] += 1;
    }
    counts
}

fn distinct_cores(t: &Topology, cpus: &[Option<usize>]) -> usize {
    cpus.iter().map(|cpu| t.core_of(cpu.unwrap()).unwrap()).collect::<HashSet<_>>().len()
}

#[test]
fn the_thesis_seven_rank_example() {
    // 7 ranks on 2 nodes: ranks 0 to 3 on the first, 4 to 6 on the second (ceil, not the printed floor).
    let t = machine(2, 8, 1);
    let cpus = t.place(Policy::ScatterNuma, 7);
    assert_eq!(cpus, [0, 2, 4, 6, 8, 10, 13].map(Some));
}

#[test]
fn scatter_is_far_apart() {
    assert_eq!(machine(1, 8, 1).place(Policy::Scatter, 2), [Some(0), Some(4)]);
    assert_eq!(machine(2, 2, 2).place(Policy::Scatter, 4), [0, 2, 4, 6].map(Some));
}

#[test]
fn more_ranks_than_cores_take_sibling_threads() {
    assert_eq!(machine(1, 2, 2).place(Policy::Scatter, 4), [0, 1, 2, 3].map(Some));
    assert_eq!(machine(1, 2, 1).place(Policy::Scatter, 4), [0, 0, 1, 1].map(Some));
}

#[test]
fn none_and_no_ranks() {
    assert_eq!(machine(1, 2, 1).place(Policy::None, 2), [None, None]);
    assert_eq!(machine(1, 2, 1).place(Policy::ScatterNuma, 0), []);
}

#[test]
fn this_machine() {
    let usable = crate::allowed_cpus().unwrap();
    for policy in Policy::ALL {
        for cpu in placement(policy, 5).into_iter().flatten() {
            assert!(usable.contains(&cpu));
        }
    }
}

#[test]
fn names() {
    for policy in Policy::ALL {
        assert_eq!(policy.name().parse::<Policy>().unwrap(), policy);
    }
    let error = "spread".parse::<Policy>().unwrap_err().to_string();
    assert!(error.contains("scatter_numa"), "{error}");
}

proptest! {
    #[test]
    fn distinct_and_balanced(nodes in 1..9usize, cores in 1..33usize, pus in 1..5usize, ranks in 0..300usize) {
        let t = machine(nodes, cores, pus);
        for policy in [Policy::Scatter, Policy::ScatterNuma] {
            let cpus = t.place(policy, ranks);
            prop_assert_eq!(cpus.len(), ranks);
            prop_assert_eq!(distinct_cores(&t, &cpus), ranks.min(t.cores.len()));
        }
        let counts = node_counts(&t, &t.place(Policy::ScatterNuma, ranks));
        prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{:?}", counts);
    }

    /// An affinity mask leaves any subset of the cores.
    #[test]
    fn distinct_on_uneven_nodes(keep in proptest::collection::vec(any::<bool>(), 24), share in 0..100usize) {
        let mut pus = Vec::new();
        for (cpu, _) in keep.iter().enumerate().filter(|(_, kept)| **kept) {
            pus.push(crate::model::Pu { cpu, package: 0, node: cpu / 6, core: cpu });
        }
        let t = Topology::assemble("test".into(), pus, Vec::new());
        let ranks = t.cores.len() * share / 100;
        let cpus = t.place(Policy::ScatterNuma, ranks);
        prop_assert_eq!(cpus.len(), ranks);
        prop_assert_eq!(distinct_cores(&t, &cpus), ranks);
    }
}
