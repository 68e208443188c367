//! Every algorithm over a simulated network, for more ranks than a world has, and the messages that this takes. What takes longer than a test
//! should is left out, unless `TOCSIN_TEST_DEEP=1`: `cargo test --release -p tocsin-bench --test large_worlds -- --nocapture` says how long.
#![allow(clippy::unwrap_used)] // a test

use std::time::Instant;
use tocsin_bench::simulate::{Collective, Model};
use tocsin_nbc::table::{ALGORITHMS, Algorithm, Operation};

fn deep() -> bool {
    std::env::var_os("TOCSIN_TEST_DEEP").is_some_and(|v| v == "1")
}

/// One byte per rank, in messages of none that are empty.
fn bytes(algorithm: &Algorithm, ranks: u32) -> usize {
    match (algorithm.operation, algorithm.name) {
        (Operation::Ibcast, "scatter-allgather") => 64 * ranks as usize,
        (Operation::Ireduce | Operation::Iallreduce, _) => ranks as usize,
        _ => 1,
    }
}

/// Messages of all ranks, with root 0.
fn messages(algorithm: &Algorithm, ranks: u32) -> u64 {
    let p = u64::from(ranks);
    let (pairs, rounds) = (p * (p - 1), u64::from(ranks.next_power_of_two().ilog2()));
    // Any number of ranks reduced to a power of two: a message of each of those that stand aside.
    let levels = u64::from(ranks.ilog2());
    let (core, aside) = (1 << levels, p - (1 << levels));
    match (algorithm.operation, algorithm.name) {
        (Operation::Ibarrier, "dissemination") => p * rounds,
        (Operation::Ibarrier, _) => 2 * (p - 1),
        // In the ring nobody is sent what it has from the scatter: its subtree's parts.
        (Operation::Ibcast, "scatter-allgather") => {
            let subtree = |rank: u64| if rank == 0 { p } else { (1 << rank.trailing_zeros()).min(p - rank) };
            p - 1 + pairs - (0..p).map(|rank| subtree(rank) - 1).sum::<u64>()
        }
        (Operation::Iallgather | Operation::Iallgatherv | Operation::Ialltoall, "bruck") => p * rounds,
        (_, "recursive-doubling") if algorithm.restrictions.power_of_two => p * rounds,
        (Operation::Iallreduce, "recursive-doubling") => core * levels + 2 * aside,
        (Operation::Iallreduce, "rabenseifner") => 2 * core * levels + 2 * aside,
        (Operation::Iallreduce, "ring" | "linear") => 2 * pairs,
        (Operation::Iallreduce, _) => 2 * (p - 1),
        // Rank 0 stands aside if any does, and gets the result from the one that stands for it.
        (Operation::Ireduce, "rabenseifner") => core * levels + core - 1 + aside + u64::from(aside > 0),
        (Operation::IreduceScatter | Operation::IreduceScatterBlock, name) => match name {
            "reduce-then-scatter" => 2 * (p - 1),
            "recursive-halving" => core * levels + 2 * aside,
            _ => pairs,
        },
        // In the round of distance d, all but the last d ranks send.
        (Operation::Iscan | Operation::Iexscan, "recursive-doubling") => p * rounds - ((1 << rounds) - 1),
        (
            Operation::Ibcast
            | Operation::Iscatter
            | Operation::Iscatterv
            | Operation::Igather
            | Operation::Igatherv
            | Operation::Ireduce
            | Operation::Iscan
            | Operation::Iexscan,
            _,
        ) => p - 1,
        _ => pairs,
    }
}

/// Whether it takes no more than O(N log N) messages.
fn is_sparse(algorithm: &Algorithm) -> bool {
    messages(algorithm, 1 << 16) < 1 << 26
}

fn simulate(wanted: impl Fn(&Algorithm) -> bool, ranks: u32) -> usize {
    let mut number = 0;
    for algorithm in ALGORITHMS.iter().filter(|a| !a.restrictions.needs_board() && wanted(a)) {
        let ranks = if algorithm.restrictions.power_of_two { 1 << ranks.ilog2() } else { ranks };
        let Algorithm { operation, name, .. } = *algorithm;
        let bytes = bytes(algorithm, ranks);
        let begun = Instant::now();
        let one = Collective { operation, algorithm: Some(name), ranks, bytes, root: 0 };
        // Nodes, so that topology-aware trees differ from others.
        let totals = one.simulate(&Model { cores: 16, ..Model::default() }).unwrap();
        let took = begun.elapsed().as_secs_f64();
        println!("{operation} {name}, {ranks} ranks: {} steps, {took:.1} s", totals.steps);
        assert_eq!(totals.messages, messages(algorithm, ranks), "{operation} {name}, {ranks} ranks");
        number += 1;
    }
    number
}

#[test]
fn four_thousand_and_ninety_six_ranks() {
    let all = ALGORITHMS.iter().filter(|a| !a.restrictions.needs_board());
    let number = simulate(|algorithm| deep() || is_sparse(algorithm), 4096);
    let left_out = all.clone().filter(|a| !is_sparse(a)).count();
    assert_eq!(number, all.count() - if deep() { 0 } else { left_out });
}

#[test]
fn a_hundred_thousand_ranks_and_few_messages() {
    if deep() {
        assert!(simulate(is_sparse, 100_000) > 30);
    }
}
