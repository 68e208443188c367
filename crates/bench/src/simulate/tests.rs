use super::*;

/// Nanoseconds; the picoseconds of the model are too fine to read.
const NS: u64 = 1000;

const MODEL: Model =
    Model { latency: 1000 * NS, overhead: 100 * NS, gap: 50 * NS, byte: 200, compute: 300, cores: 1 };

fn collective(operation: Operation, algorithm: &'static str, ranks: u32, bytes: usize) -> Collective {
    Collective { operation, algorithm: Some(algorithm), ranks, bytes, root: 0 }
}

fn run(operation: Operation, algorithm: &'static str, ranks: u32, bytes: usize, model: &Model) -> Totals {
    collective(operation, algorithm, ranks, bytes).simulate(model).unwrap()
}

fn log2_ceil(ranks: u32) -> u64 {
    u64::from(ranks.next_power_of_two().trailing_zeros())
}

/// One message from a core to another, received: `2 o + L + n G`.
fn message(bytes: u64) -> u64 {
    2 * MODEL.overhead + MODEL.latency + bytes * MODEL.byte
}

#[test]
fn binomial_broadcasts_in_ceil_log2_rounds() {
    // A rank sends one message per round, and a round is as long as a message takes.
    let rounds = Model { latency: 10 * NS, overhead: 0, gap: 10 * NS, byte: 0, compute: 0, cores: 1 };
    for ranks in 1..=200 {
        let totals = run(Operation::Ibcast, "binomial", ranks, 8, &rounds);
        assert_eq!(totals.time_ps, log2_ceil(ranks) * 10 * NS, "{ranks} ranks");
        let messages = u64::from(ranks) - 1;
        assert_eq!((totals.messages, totals.bytes), (messages, 8 * messages));
        // A rank hears through as many others as its number has ones.
        let most = (0..ranks).map(u32::count_ones).max().unwrap();
        assert_eq!(totals.chain, most, "{ranks} ranks");
    }
    for power in 1..=10 {
        let totals = run(Operation::Ibcast, "binomial", 1 << power, 4096, &MODEL);
        assert_eq!(totals.time_ps, power * message(4096));
    }
}

#[test]
fn linear_broadcast_waits_for_one_interface() {
    for (ranks, bytes) in [(2, 0), (9, 1), (9, 100), (9, 1000), (100, 65536)] {
        let totals = run(Operation::Ibcast, "linear", ranks, bytes.max(1), &MODEL);
        let bytes = bytes.max(1) as u64;
        let each = MODEL.overhead.max(MODEL.gap).max(bytes * MODEL.byte);
        assert_eq!(totals.time_ps, (u64::from(ranks) - 2) * each + message(bytes), "{ranks} ranks, {bytes}");
        assert_eq!(totals.chain, 1);
    }
}

#[test]
fn a_chain_is_a_pipeline() {
    let wire = Model { latency: 0, overhead: 0, gap: 0, byte: 1, compute: 0, cores: 1 };
    for (ranks, segments) in [(2, 1), (5, 1), (5, 8), (64, 32)] {
        let totals = run(Operation::Ibcast, "pipelined-chain", ranks, segments << 15, &wire);
        assert_eq!(totals.time_ps, (u64::from(ranks) - 2 + segments as u64) << 15);
        assert_eq!(totals.messages, u64::from(ranks - 1) * segments as u64);
        assert_eq!(totals.chain, ranks - 1);
        // Whole messages wait for each other.
        let whole = run(Operation::Ibcast, "chain", ranks, segments << 15, &wire);
        assert_eq!(whole.time_ps, u64::from(ranks - 1) * ((segments as u64) << 15));
        assert_eq!((whole.messages, whole.chain), (u64::from(ranks - 1), ranks - 1));
    }
}

#[test]
fn a_tree_is_as_deep_as_its_ranks_have_children() {
    for (name, children) in [("2-ary", 2u32), ("4-ary", 4), ("8-ary", 8)] {
        for depth in 1..4 {
            let ranks = (0..=depth).map(|level| children.pow(level)).sum();
            let totals = run(Operation::Ibcast, name, ranks, 1, &MODEL);
            assert_eq!((totals.messages, totals.chain), (u64::from(ranks) - 1, depth), "{name}, {ranks}");
        }
    }
}

#[test]
fn dissemination_takes_ceil_log2_rounds() {
    for ranks in (2..=130).chain([1000, 4096]) {
        let totals = run(Operation::Ibarrier, "dissemination", ranks, 0, &MODEL);
        let rounds = log2_ceil(ranks);
        assert_eq!(totals.messages, rounds * u64::from(ranks));
        assert_eq!((totals.time_ps, u64::from(totals.chain)), (rounds * message(0), rounds), "{ranks} ranks");
    }
}

#[test]
fn recursive_doubling_and_the_ring_reduce_as_their_formulas_say() {
    for power in 1..=8u64 {
        let totals = run(Operation::Iallreduce, "recursive-doubling", 1 << power, 1000, &MODEL);
        assert_eq!(totals.time_ps, power * (message(1000) + 1000 * MODEL.compute));
        assert_eq!((totals.messages, u64::from(totals.chain)), (power << power, power));
    }
    for ranks in [2, 3, 7, 16] {
        let block = 100;
        let totals = run(Operation::Iallreduce, "ring", ranks, block * ranks as usize, &MODEL);
        let (block, steps) = (block as u64, u64::from(ranks) - 1);
        assert_eq!(totals.time_ps, 2 * steps * message(block) + steps * block * MODEL.compute);
        assert_eq!(totals.messages, 2 * steps * u64::from(ranks));
        assert_eq!(u64::from(totals.chain), 2 * steps);
    }
}

#[test]
fn alltoall_in_pairs() {
    for ranks in [2, 3, 8, 13] {
        let totals = run(Operation::Ialltoall, "pairwise", ranks, 500, &Model { compute: 0, ..MODEL });
        let steps = u64::from(ranks) - 1;
        assert_eq!(totals.time_ps, steps * message(500));
        assert_eq!(totals.messages, steps * u64::from(ranks));
        // Bruck: fewer messages, more bytes.
        let bruck = run(Operation::Ialltoall, "bruck", ranks, 500, &MODEL);
        assert_eq!(bruck.messages, log2_ceil(ranks) * u64::from(ranks));
        assert!(bruck.bytes >= totals.bytes);
    }
}

#[test]
fn within_a_node_there_is_no_network() {
    let node = Model { cores: 16, ..MODEL };
    let totals = run(Operation::Ibcast, "binomial", 16, 1000, &node);
    assert_eq!(totals.time_ps, 4 * (2 * MODEL.overhead + 1000 * MODEL.byte));
    // Two nodes: of the root's messages one goes to the other node, the first.
    let totals = run(Operation::Ibcast, "binomial", 16, 1000, &Model { cores: 8, ..MODEL });
    assert_eq!(totals.time_ps, message(1000) + 3 * (2 * MODEL.overhead + 1000 * MODEL.byte));
    // Ranks of a node share its interface, both ways.
    let wire = Model { latency: 0, overhead: 0, gap: 0, byte: 10, compute: 0, cores: 8 };
    let totals = run(Operation::Ialltoall, "pairwise", 16, 100, &wire);
    assert!(totals.time_ps >= 64 * 100 * 10, "64 blocks each way, one after another: {totals:?}");
}

/// Leaders of nodes are a binomial tree, whoever is the root and however ranks are numbered on nodes: each node's interface is passed
/// once, and as many rounds as nodes need are as long as the network takes.
#[test]
fn trees_that_follow_nodes_take_the_rounds_of_nodes() {
    let rounds = Model { latency: 10 * NS, overhead: 0, gap: 10 * NS, byte: 0, compute: 0, cores: 1 };
    for (ranks, cores) in [(48u32, 6), (50, 6), (100, 7), (9, 5), (64, 8), (17, 16), (12, 12), (5, 1)] {
        let model = Model { cores, ..rounds };
        let nodes = ranks.div_ceil(cores);
        for root in [0, ranks / 2, ranks - 1] {
            for operation in [Operation::Ibcast, Operation::Ireduce] {
                let of = |name| Collective { root, ..collective(operation, name, ranks, 8) };
                let totals = of("topology-aware").simulate(&model).unwrap();
                assert_eq!(totals.messages, u64::from(ranks) - 1);
                if operation == Operation::Ibcast {
                    assert_eq!(
                        totals.time_ps,
                        log2_ceil(nodes) * 10 * NS,
                        "{ranks} ranks, {cores} cores, {root}"
                    );
                }
                // Across nodes the other tree goes on further levels, unless nodes are its subtrees.
                let plain = if operation == Operation::Ibcast { "binomial" } else { "binomial-root" };
                let plain = of(plain).simulate(&model).unwrap();
                assert!(plain.time_ps >= totals.time_ps, "{operation}, {ranks} ranks, {cores} cores, {root}");
            }
        }
    }
    let of = |name| Collective { root: 5, ..collective(Operation::Ibcast, name, 48, 8) };
    let model = Model { cores: 6, ..rounds };
    let times = ["topology-aware", "binomial"].map(|name| of(name).simulate(&model).unwrap().time_ps);
    assert_eq!(times, [30 * NS, 60 * NS]);
    let both = |operation| run(operation, "topology-aware", 48, 8, &model).time_ps;
    assert_eq!(both(Operation::Iallreduce), both(Operation::Ibarrier));
}

/// Every algorithm ends on any number of ranks, and sends what its schedules say.
#[test]
fn every_algorithm_ends() {
    for algorithm in table::ALGORITHMS {
        for ranks in (1..=17).chain([32, 33, 100]) {
            let one = collective(algorithm.operation, algorithm.name, ranks, 40_000);
            if one.algorithm().is_err() {
                continue;
            }
            let layout = one.layout().unwrap();
            let arguments = one.arguments(&layout).unwrap();
            let sent = |rank: u32| {
                let group = Group::shared((0..ranks).collect(), rank).unwrap();
                table::compile(&group, &arguments, Some(algorithm.name)).unwrap().sent()
            };
            let (messages, bytes) = (0..ranks).map(sent).fold((0, 0), |(n, b), (m, c)| (n + m, b + c));
            let totals = one.simulate(&Model { cores: 4, ..MODEL }).unwrap();
            assert_eq!((totals.messages, totals.bytes), (messages as u64, bytes as u64), "{one:?}");
            assert_eq!(totals, one.simulate(&Model { cores: 4, ..MODEL }).unwrap(), "not by chance");
        }
    }
}

#[test]
fn a_hundred_thousand_ranks() {
    let totals = run(Operation::Ibcast, "binomial", 100_000, 8, &MODEL);
    assert_eq!((totals.messages, totals.chain), (99_999, 16));
    let totals = run(Operation::Ibarrier, "dissemination", 100_000, 0, &MODEL);
    assert_eq!(totals.time_ps, 17 * message(0));
}

#[test]
fn models_are_read_and_written() {
    for text in ["latency=1000", "cores=4", "latency=0.5,overhead=1,gap=0,byte=0.001,compute=2,cores=36"] {
        let model: Model = text.parse().unwrap();
        assert_eq!(model.to_string().parse::<Model>().unwrap(), model);
    }
    assert_eq!("latency=2.5".parse::<Model>().unwrap(), Model { latency: 2500, ..Model::default() });
    for text in
        ["", "latency", "latency=x", "latency=-1", "latency=1e12", "latency=NaN", "speed=1", "cores=0"]
    {
        assert!(text.parse::<Model>().unwrap_err().contains("cores=4"), "{text}");
    }
}

#[test]
fn refuses() {
    for (one, says) in [
        (collective(Operation::Ibcast, "rumour", 4, 8), "binomial"),
        (collective(Operation::Iallreduce, "ring", 50_000, 8), "fewer ranks"),
        (collective(Operation::Iallgather, "recursive-doubling", 50_000, 8), "power of two"),
        (collective(Operation::Ialltoall, "pairwise", 2000, 1 << 20), "1 GiB"),
        (Collective { root: 9, ..collective(Operation::Ibcast, "binomial", 9, 8) }, "root 9"),
    ] {
        let error = one.simulate(&MODEL).unwrap_err();
        assert!(matches!(&error, Error::Usage(text) if text.contains(says)), "{error}");
    }
}

#[test]
fn blocks_travel_as_the_formulas_say() {
    for ranks in [2u32, 3, 8, 17] {
        let others = u64::from(ranks) - 1;
        for operation in [Operation::Ialltoall, Operation::Ialltoallv, Operation::Ialltoallw] {
            let totals = run(operation, "pairwise", ranks, 100, &MODEL);
            let messages = u64::from(ranks) * others;
            assert_eq!((totals.messages, totals.bytes), (messages, messages * 100), "{operation}, {ranks}");
        }
        for operation in [Operation::Iallgather, Operation::Iallgatherv] {
            let totals = run(operation, "ring", ranks, 100, &MODEL);
            assert_eq!((totals.messages, u64::from(totals.chain)), (u64::from(ranks) * others, others));
            assert_eq!(totals.time_ps, others * message(100), "{operation}, {ranks}");
        }
        for operation in [Operation::Igather, Operation::Igatherv, Operation::Iscatter, Operation::Iscatterv]
        {
            let totals = run(operation, "linear", ranks, 100, &MODEL);
            assert_eq!(
                (totals.messages, totals.bytes, totals.chain),
                (others, others * 100, 1),
                "{operation}"
            );
        }
    }
}
