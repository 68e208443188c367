//! How algorithms grow beyond one machine: steps, messages, bytes and the critical path of simulated schedules against what they are by hand, in
//! LogGP (Alexandrov, Ionescu, Schauser and Scheiman 1995) and with a core's time per byte that is copied or reduced.
#![allow(clippy::unwrap_used)] // a test

use tocsin_bench::simulate::{Collective, Model, Totals};
use tocsin_nbc::table::Operation;

/// Picoseconds. No gap is longer than an overhead, and no message of a block occupies an interface for as long.
const MODEL: Model =
    Model { latency: 1_000_000, overhead: 100_000, gap: 50_000, byte: 200, compute: 300, cores: 1 };

/// As many ranks as the simulation takes.
const MOST: u64 = 100_000;

/// The same for what takes seconds then, unless `TOCSIN_TEST_DEEP=1` asks for it.
fn many() -> u64 {
    if std::env::var_os("TOCSIN_TEST_DEEP").is_some_and(|v| v == "1") { MOST } else { 20_000 }
}

/// A collective of so many bytes, or of blocks of so many.
fn run(operation: Operation, algorithm: &'static str, ranks: u64, bytes: u64) -> Totals {
    let (ranks, bytes) = (u32::try_from(ranks).unwrap(), usize::try_from(bytes).unwrap());
    Collective { operation, algorithm: Some(algorithm), ranks, bytes, root: 0 }.simulate(&MODEL).unwrap()
}

/// From the begin of a send to the end of its receive: `2 o + L + n G`.
fn message(bytes: u64) -> u64 {
    2 * MODEL.overhead + MODEL.latency + bytes * MODEL.byte
}

/// A core's time for bytes that it copies or reduces.
fn work(bytes: u64) -> u64 {
    bytes * MODEL.compute
}

/// ceil(log2 p).
fn rounds(ranks: u64) -> u64 {
    u64::from(ranks.next_power_of_two().ilog2())
}

/// Most messages between the root of a binomial tree and a rank: one per bit of its number.
fn depth(ranks: u64) -> u64 {
    (0..ranks).map(|rank| u64::from(rank.count_ones())).max().unwrap()
}

/// Ranks in the subtree of a rank of a binomial tree that is not its root.
fn subtree(rank: u64, ranks: u64) -> u64 {
    (1 << rank.trailing_zeros()).min(ranks - rank)
}

/// Steps, messages, bytes, and messages of the longest chain.
fn assert_counts(totals: &Totals, (steps, messages, bytes, chain): (u64, u64, u64, u64), what: &str) {
    let found = (totals.steps, totals.messages, totals.bytes, u64::from(totals.chain));
    assert_eq!(found, (steps, messages, bytes, chain), "steps, messages, bytes and chain of {what}");
}

/// Each rank tells another in each round, and hears from one.
#[test]
fn dissemination_takes_p_log_p_messages() {
    for ranks in [1000, 4096, MOST] {
        let totals = run(Operation::Ibarrier, "dissemination", ranks, 0);
        let rounds = rounds(ranks);
        let counts = (2 * ranks * rounds, ranks * rounds, 0, rounds);
        assert_counts(&totals, counts, &format!("the barrier of {ranks}"));
        assert_eq!(totals.time_ps, rounds * message(0), "{ranks} ranks");
    }
}

/// Up and down again.
#[test]
fn a_tree_barrier_takes_two_messages_per_rank() {
    for ranks in [1000, 4096, MOST] {
        let totals = run(Operation::Ibarrier, "tree", ranks, 0);
        let others = ranks - 1;
        assert_counts(
            &totals,
            (4 * others, 2 * others, 0, 2 * depth(ranks)),
            &format!("the barrier of {ranks}"),
        );
    }
}

/// When the last rank of a binomial broadcast has its message. A rank that has it sends one after the other, an overhead apart, first to the rank of
/// its subtree that is farthest.
fn broadcast(ranks: u64, bytes: u64) -> u64 {
    let mut told = vec![0; usize::try_from(ranks).unwrap()];
    for rank in 0..ranks {
        let bits = if rank == 0 { rounds(ranks) } else { u64::from(rank.trailing_zeros()) };
        let there = (0..bits).rev().map(|bit| rank + (1 << bit)).filter(|child| *child < ranks);
        for (sent, child) in (0..).zip(there) {
            told[child as usize] = told[rank as usize] + sent * MODEL.overhead + message(bytes);
        }
    }
    told.into_iter().max().unwrap()
}

#[test]
fn binomial_trees_take_a_message_per_rank() {
    for ranks in [1000, 4096, 1 << 16, MOST] {
        let (others, depth, bytes) = (ranks - 1, depth(ranks), 100);
        let totals = run(Operation::Ibcast, "binomial", ranks, bytes);
        assert_counts(
            &totals,
            (2 * others, others, others * bytes, depth),
            &format!("the broadcast of {ranks}"),
        );
        assert_eq!(totals.time_ps, broadcast(ranks, bytes), "{ranks} ranks");
        // A message of each subtree's blocks; who has a subtree keeps its own block by a copy.
        let moved = bytes * (1..ranks).map(|rank| subtree(rank, ranks)).sum::<u64>();
        for operation in [Operation::Iscatter, Operation::Igather] {
            let totals = run(operation, "binomial", ranks, bytes);
            assert_counts(
                &totals,
                (2 * others + ranks / 2, others, moved, depth),
                &format!("{operation} of {ranks}"),
            );
        }
        // Each message is combined with what is there.
        let totals = run(Operation::Ireduce, "binomial", ranks, bytes);
        assert_counts(
            &totals,
            (3 * others, others, others * bytes, depth),
            &format!("the reduction of {ranks}"),
        );
        if ranks.is_power_of_two() {
            assert_eq!(broadcast(ranks, bytes), rounds(ranks) * message(bytes), "by hand");
            assert_eq!(totals.time_ps, rounds(ranks) * (message(bytes) + work(bytes)), "{ranks} ranks");
        }
    }
}

/// Half of the blocks, a quarter, ... one after the other; or the other way round.
#[test]
fn blocks_take_their_time_in_a_binomial_tree() {
    for ranks in [1 << 10, 1 << 12, 1 << 16] {
        let (rounds, others, bytes) = (rounds(ranks), ranks - 1, 100);
        for operation in [Operation::Iscatter, Operation::Igather] {
            let totals = run(operation, "binomial", ranks, bytes);
            let way = rounds * message(0) + others * bytes * MODEL.byte;
            assert_eq!(totals.time_ps, way, "{operation}, {ranks} ranks");
        }
    }
}

/// Each rank waits for the one before it.
#[test]
fn a_chain_is_as_long_as_there_are_ranks() {
    for ranks in [1000, MOST] {
        let (others, bytes) = (ranks - 1, 1000);
        let totals = run(Operation::Ibcast, "chain", ranks, bytes);
        assert_counts(
            &totals,
            (2 * others, others, others * bytes, others),
            &format!("the chain of {ranks}"),
        );
        assert_eq!(totals.time_ps, others * message(bytes), "{ranks} ranks");
    }
}

/// In each round a rank sends all that it has, but for the last, which are the missing ones: all blocks but its own in the end.
#[test]
fn bruck_gathers_in_log_p_rounds() {
    for ranks in [1000, 4096, many()] {
        let (rounds, bytes) = (rounds(ranks), 8);
        let totals = run(Operation::Iallgather, "bruck", ranks, bytes);
        // Two copies of the own block, and of the others as many as there are sides of it, which is one of the first rank and of the last.
        let steps = 2 * ranks * rounds + 2 * ranks + 2 * ranks - 2;
        assert_counts(
            &totals,
            (steps, ranks * rounds, bytes * ranks * (ranks - 1), rounds),
            &format!("Bruck of {ranks}"),
        );
        let moved = (ranks - 1) * bytes;
        assert_eq!(
            totals.time_ps,
            work(2 * bytes) + rounds * message(0) + moved * MODEL.byte + work(moved),
            "{ranks} ranks"
        );
    }
}

#[test]
fn recursive_doubling_takes_log_p_rounds() {
    for ranks in [1 << 10, 1 << 12, 1 << 14] {
        let (rounds, bytes) = (rounds(ranks), 8);
        let gathered = run(Operation::Iallgather, "recursive-doubling", ranks, bytes);
        let counts = (ranks * (2 * rounds + 1), ranks * rounds, bytes * ranks * (ranks - 1), rounds);
        assert_counts(&gathered, counts, &format!("all of {ranks}"));
        let moved = (ranks - 1) * bytes;
        assert_eq!(gathered.time_ps, work(bytes) + rounds * message(0) + moved * MODEL.byte, "{ranks} ranks");
        let bytes = 100;
        let reduced = run(Operation::Iallreduce, "recursive-doubling", ranks, bytes);
        assert_counts(
            &reduced,
            (3 * ranks * rounds, ranks * rounds, bytes * ranks * rounds, rounds),
            &format!("the sum of {ranks}"),
        );
        assert_eq!(reduced.time_ps, rounds * (message(bytes) + work(bytes)), "{ranks} ranks");
    }
}

/// All but the lowest ranks receive in each round, and all but the highest send.
#[test]
fn a_scan_takes_log_p_rounds() {
    for ranks in [1000, 4096, many()] {
        let (rounds, bytes) = (rounds(ranks), 8);
        let messages = ranks * rounds - ((1 << rounds) - 1);
        for operation in [Operation::Iscan, Operation::Iexscan] {
            let totals = run(operation, "recursive-doubling", ranks, bytes);
            let found = (totals.messages, totals.bytes, u64::from(totals.chain));
            assert_eq!(
                found,
                (messages, messages * bytes, u64::from(ranks.ilog2())),
                "{operation}, {ranks} ranks"
            );
        }
    }
}

/// N^2 messages, of which each rank has one under way at a time.
#[test]
fn rings_and_pairs_take_as_many_rounds_as_there_are_ranks() {
    for ranks in [300, 800] {
        let (others, bytes) = (ranks - 1, 100);
        let ring = run(Operation::Iallgather, "ring", ranks, bytes);
        let pairs = (ranks * others, ranks * others * bytes);
        assert_counts(
            &ring,
            (2 * pairs.0 + ranks, pairs.0, pairs.1, others),
            &format!("the ring of {ranks}"),
        );
        assert_eq!(ring.time_ps, others * message(bytes), "{ranks} ranks");
        let pairwise = run(Operation::Ialltoall, "pairwise", ranks, bytes);
        assert_counts(
            &pairwise,
            (2 * pairs.0 + ranks, pairs.0, pairs.1, others),
            &format!("pairs of {ranks}"),
        );
        assert_eq!(pairwise.time_ps, others * message(bytes), "{ranks} ranks");
        // Twice round; in each round of the first time a block is reduced.
        let bytes = 10 * ranks;
        let sums = run(Operation::Iallreduce, "ring", ranks, bytes);
        let found = (sums.messages, sums.bytes, u64::from(sums.chain));
        assert_eq!(found, (2 * pairs.0, 2 * others * bytes, 2 * others), "{ranks} ranks");
        assert_eq!(sums.time_ps, 2 * others * message(10) + others * work(10), "{ranks} ranks");
    }
}

/// Half of all blocks in each round, packed and unpacked; all of them are turned round before and after.
#[test]
fn bruck_exchanges_in_log_p_rounds() {
    for ranks in [1 << 8, 1 << 10, 1 << 12] {
        let (rounds, bytes) = (rounds(ranks), 8);
        let totals = run(Operation::Ialltoall, "bruck", ranks, bytes);
        let half = ranks / 2 * bytes;
        let found = (totals.messages, totals.bytes, u64::from(totals.chain));
        assert_eq!(found, (ranks * rounds, ranks * rounds * half, rounds), "{ranks} ranks");
        let all = work(ranks * bytes);
        assert_eq!(totals.time_ps, 2 * all + rounds * (message(half) + 2 * work(half)), "{ranks} ranks");
    }
}

/// Reduced by halves, and gathered by doubling: twice as many rounds, and twice all parts but one's own.
#[test]
fn rabenseifner_moves_each_byte_twice() {
    for ranks in [1 << 6, 1 << 10, 1 << 12] {
        let (rounds, part) = (rounds(ranks), 8);
        let totals = run(Operation::Iallreduce, "rabenseifner", ranks, part * ranks);
        let moved = part * (ranks - 1);
        let found = (totals.messages, totals.bytes, u64::from(totals.chain));
        assert_eq!(found, (2 * ranks * rounds, 2 * ranks * moved, 2 * rounds), "{ranks} ranks");
        assert_eq!(
            totals.time_ps,
            2 * (rounds * message(0) + moved * MODEL.byte) + work(moved),
            "{ranks} ranks"
        );
    }
}
