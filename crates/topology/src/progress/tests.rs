use super::*;
use std::collections::BTreeSet;

fn machine(nodes: usize, cores: usize, pus: usize) -> Topology {
    Topology::synthetic(&format!("numa:{nodes} core:{cores} pu:{pus}")).unwrap()
}

fn threads(t: &Topology, bind: Policy, progress: ProgressPolicy, ranks: usize) -> Vec<usize> {
    t.seats(bind, progress, ranks).unwrap().into_iter().map(|seat| seat.progress.unwrap()).collect()
}

/// Every machine of up to 8 nodes of up to 40 cores, with every number of ranks until all cores are taken, and some.
fn every_machine(mut check: impl FnMut(&Topology, usize, usize, usize)) {
    for nodes in 1..=8 {
        for cores in 1..=40 {
            let t = machine(nodes, cores, 1);
            for ranks in 0..=nodes * cores + 2 {
                check(&t, nodes, cores, ranks);
            }
        }
    }
}

/// Algorithm 3 as printed, its quotient `c / f` kept as two integers.
fn algorithm_3(c: usize, n_local: usize, local: usize) -> usize {
    if n_local >= c {
        return local;
    }
    let f = c - n_local;
    ((local * f / c + 1) * c).div_ceil(f) - 1
}

#[test]
fn scattered_ranks_have_cores_of_their_own_and_nodes_are_balanced() {
    every_machine(|t, nodes, cores, ranks| {
        for bind in [Policy::Scatter, Policy::ScatterNuma] {
            let cpus = t.place(bind, ranks);
            let distinct: BTreeSet<usize> = cpus.iter().map(|cpu| cpu.unwrap()).collect();
            assert_eq!(distinct.len(), ranks.min(nodes * cores), "{bind}: {nodes} x {cores}, {ranks} ranks");
        }
        let mut counts = vec![0; nodes];
        t.place(Policy::ScatterNuma, ranks).into_iter().for_each(|cpu| counts[cpu.unwrap() / cores] += 1);
        let (most, least) = (counts.iter().max().unwrap(), counts.iter().min().unwrap());
        assert!(most - least <= 1, "{nodes} x {cores}, {ranks} ranks: {counts:?}");
    });
}

#[test]
fn numa_is_algorithm_3_and_takes_free_cores_of_the_ranks_node() {
    every_machine(|t, nodes, cores, ranks| {
        let what = || format!("{nodes} x {cores}, {ranks} ranks");
        let seats = t.seats(Policy::ScatterNuma, ProgressPolicy::Numa, ranks).unwrap();
        let mut counts = vec![0; nodes];
        seats.iter().for_each(|seat| counts[seat.cpu.unwrap() / cores] += 1);
        let taken: BTreeSet<usize> = seats.iter().map(|seat| seat.cpu.unwrap()).collect();
        let mut on: BTreeMap<usize, usize> = BTreeMap::new();
        for seat in &seats {
            let (cpu, thread) = (seat.cpu.unwrap(), seat.progress.unwrap());
            let (node, local) = (cpu / cores, cpu % cores);
            assert_eq!(thread, node * cores + algorithm_3(cores, counts[node], local), "{}", what());
            let has_free = counts[node] < cores;
            assert_eq!(taken.contains(&thread), !has_free, "{}: {seats:?}", what());
            assert!(has_free || thread == cpu, "{}", what());
            *on.entry(thread).or_default() += 1;
        }
        for (node, &n_local) in counts.iter().enumerate() {
            let free = cores.saturating_sub(n_local);
            let of_node = on.range(node * cores..(node + 1) * cores);
            let loads: Vec<usize> = of_node.map(|(_, load)| *load).collect();
            if free > 0 && n_local > 0 {
                // As many cores as can be of use, and evenly.
                assert_eq!(loads.len(), free.min(n_local), "{}", what());
                assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1, "{}", what());
            }
        }
    });
}

#[test]
fn floating_point_would_collide_here() {
    let t = machine(1, 25, 1);
    let threads = threads(&t, Policy::ScatterNuma, ProgressPolicy::Numa, 14);
    // The 11 free cores: ceil((k + 1) * 25 / 11) - 1.
    let free: BTreeSet<usize> = (0..11usize).map(|k| ((k + 1) * 25).div_ceil(11) - 1).collect();
    assert_eq!(free, [2, 4, 6, 9, 11, 13, 15, 18, 20, 22, 24].into());
    assert_eq!(threads.iter().copied().collect::<BTreeSet<_>>(), free);
}

#[test]
fn the_thesis_seven_rank_example() {
    // 2 nodes of 4 cores: no free core on the first, so as bind; one on the second, which takes all.
    let t = machine(2, 4, 1);
    assert_eq!(threads(&t, Policy::ScatterNuma, ProgressPolicy::Numa, 7), [0, 1, 2, 3, 7, 7, 7]);
    assert_eq!(threads(&t, Policy::ScatterNuma, ProgressPolicy::Bind, 7), [0, 1, 2, 3, 4, 5, 6]);
    // 62 ranks on 64 cores (section 5.2.1): ranks 0 to 30 on core 31, the others on core 63.
    let t = machine(2, 32, 1);
    let numa = threads(&t, Policy::ScatterNuma, ProgressPolicy::Numa, 62);
    assert!((0..62).all(|rank| numa[rank] == if rank <= 30 { 31 } else { 63 }));
    let odd_even = threads(&t, Policy::ScatterNuma, ProgressPolicy::OddEven, 62);
    assert!((0..62).all(|rank| odd_even[rank] == if rank % 2 == 0 { 31 } else { 63 }));
}

#[test]
fn numa_with_ranks_that_were_scattered_over_the_whole_machine() {
    every_machine(|t, _, cores, ranks| {
        let seats = t.seats(Policy::Scatter, ProgressPolicy::Numa, ranks).unwrap();
        let taken: BTreeSet<usize> = seats.iter().map(|seat| seat.cpu.unwrap()).collect();
        for seat in &seats {
            let (cpu, thread) = (seat.cpu.unwrap(), seat.progress.unwrap());
            assert_eq!(cpu / cores, thread / cores);
            assert!(!taken.contains(&thread) || thread == cpu);
        }
    });
}

#[test]
fn odd_even_takes_two_cores_and_free_ones_while_there_are() {
    every_machine(|t, nodes, cores, ranks| {
        let all = nodes * cores;
        let seats = t.seats(Policy::ScatterNuma, ProgressPolicy::OddEven, ranks).unwrap();
        let taken: BTreeSet<usize> = seats.iter().map(|seat| seat.cpu.unwrap()).collect();
        let mut used = BTreeSet::new();
        for (rank, seat) in seats.iter().enumerate() {
            let thread = seat.progress.unwrap();
            assert_eq!(Some(thread), seats[rank % 2].progress);
            used.insert(thread);
        }
        assert_eq!(used.len(), ranks.min(all).min(2));
        let free = used.iter().filter(|thread| !taken.contains(thread)).count();
        // A rank alone uses one of the two.
        assert!(free >= (all - ranks.min(all)).min(used.len()) || ranks < 2, "{nodes} x {cores}, {ranks}");
    });
}

#[test]
fn odd_even_prefers_one_node() {
    let t = machine(2, 4, 1);
    assert_eq!(threads(&t, Policy::ScatterNuma, ProgressPolicy::OddEven, 4), [5, 7, 5, 7]);
    // On two cores there is nothing to dedicate.
    assert_eq!(threads(&machine(1, 2, 1), Policy::Scatter, ProgressPolicy::OddEven, 3), [0, 1, 0]);
    assert_eq!(threads(&machine(1, 1, 1), Policy::Scatter, ProgressPolicy::OddEven, 2), [0, 0]);
}

#[test]
fn smt_takes_the_other_hardware_threads() {
    assert_eq!(threads(&machine(1, 2, 2), Policy::Scatter, ProgressPolicy::Smt, 2), [1, 3]);
    // Two ranks on a core of four: one idle thread each.
    assert_eq!(threads(&machine(1, 1, 4), Policy::Scatter, ProgressPolicy::Smt, 2), [2, 3]);
    // A rank on each hardware thread.
    assert_eq!(threads(&machine(1, 1, 2), Policy::Scatter, ProgressPolicy::Smt, 2), [1, 0]);
    let error = machine(1, 2, 1).seats(Policy::Scatter, ProgressPolicy::Smt, 2).unwrap_err().to_string();
    assert!(error.contains("smt") && error.contains("only hardware thread"), "{error}");
}

#[test]
fn threads_that_share_a_core_take_its_hardware_threads_in_turn() {
    assert_eq!(threads(&machine(1, 4, 2), Policy::ScatterNuma, ProgressPolicy::Numa, 3), [6, 7, 6]);
}

#[test]
fn what_needs_bound_ranks_says_so() {
    let t = machine(1, 4, 2);
    for policy in [ProgressPolicy::Numa, ProgressPolicy::Smt, ProgressPolicy::OddEven] {
        let error = t.seats(Policy::None, policy, 2).unwrap_err().to_string();
        assert!(error.contains(policy.name()) && error.contains("scatter_numa"), "{error}");
        assert!(matches!(t.place_progress(policy, &[Some(99)]), Err(Error::NoSuchCpu(99))));
        assert_eq!(t.seats(Policy::None, policy, 0).unwrap(), []);
    }
    for policy in [ProgressPolicy::None, ProgressPolicy::Bind] {
        assert_eq!(t.seats(Policy::None, policy, 2).unwrap(), [Seat::default(); 2]);
    }
}

#[test]
fn names() {
    for policy in ProgressPolicy::ALL {
        assert_eq!(policy.name().parse::<ProgressPolicy>().unwrap(), policy);
        let error = "left".parse::<ProgressPolicy>().unwrap_err().to_string();
        assert!(error.contains(policy.name()), "{error}");
    }
}

/// No rank is on a reserved core, progress threads are on them by `numa`, and all nodes give of theirs.
#[test]
fn reserved_cores_are_free_of_ranks() {
    for (nodes, cores) in [(1, 2), (1, 8), (2, 4), (4, 3)] {
        let t = machine(nodes, cores, 1);
        for reserved in 0..nodes * cores {
            for ranks in [1, 2, nodes * cores - reserved, 16] {
                let what = format!("{nodes} x {cores}, {reserved} reserved, {ranks} ranks");
                let seats =
                    t.seats_beside(reserved, Policy::ScatterNuma, ProgressPolicy::Numa, ranks).unwrap();
                let taken: BTreeSet<usize> = seats.iter().map(|seat| seat.cpu.unwrap()).collect();
                assert_eq!(taken.len(), ranks.min(nodes * cores - reserved), "{what}");
                if reserved == 0 {
                    assert_eq!(seats, t.seats(Policy::ScatterNuma, ProgressPolicy::Numa, ranks).unwrap());
                } else if nodes == 1 {
                    let last = nodes * cores - reserved;
                    assert!(taken.iter().all(|cpu| *cpu < last), "{what}");
                    assert!(seats.iter().all(|seat| !taken.contains(&seat.progress.unwrap())), "{what}");
                }
            }
        }
        let refused =
            |reserved, bind| t.seats_beside(reserved, bind, ProgressPolicy::None, 1).unwrap_err().to_string();
        assert!(refused(nodes * cores, Policy::Scatter).contains("ranks need one"));
        assert!(refused(1, Policy::None).contains("bind them by scatter"));
    }
    let without = machine(2, 4, 1).without(3);
    let left: Vec<usize> = without.cores.iter().flat_map(|core| core.cpus.clone()).collect();
    assert_eq!(left, [0, 1, 2, 4, 5]);
    assert_eq!(
        without.nodes.iter().map(|node| node.cores.clone()).collect::<Vec<_>>(),
        [vec![0, 1, 2], vec![3, 4]]
    );
}
