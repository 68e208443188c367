use super::*;

fn best(cores: u32, ranks: u32, weights: Weights) -> u32 {
    SplitTree::new(cores, ranks, weights).unwrap().best()
}

/// The rank counts at which the best number of levels changes, with the new number.
fn changes(cores: u32, weights: Weights) -> Vec<(u32, u32)> {
    let all: Vec<u32> = (2..cores).map(|ranks| best(cores, ranks, weights)).collect();
    let at = (3..cores).zip(all.windows(2)).filter(|(_, pair)| pair[0] != pair[1]);
    at.map(|(ranks, pair)| (ranks, pair[1])).collect()
}

/// The rank count that takes the least time with everything on the dedicated cores.
fn best_ranks(cores: u32, weights: Weights) -> u32 {
    let timed = |ranks: &u32| SplitTree::new(cores, *ranks, weights).unwrap().time(0);
    (2..cores).min_by_key(timed).unwrap()
}

/// Section 5.1.2.2: 51 ranks. Section 5.1.4: 0 to 1 at 52 ranks, 1 to 2 at 58, 2 to 3 at 62.
#[test]
fn the_thesis_on_64_cores() {
    assert_eq!(best_ranks(64, Weights::Constant), 51);
    assert_eq!(changes(64, Weights::Constant), [(52, 1), (58, 2), (62, 3)]);
}

/// Not in the thesis's text: computed apart from this code, from the formulas of the module.
#[test]
fn other_machines_and_doubling_weights() {
    assert_eq!(best_ranks(48, Weights::Constant), 38);
    assert_eq!(changes(48, Weights::Constant), [(39, 1), (44, 2), (47, 3)]);
    assert_eq!(best_ranks(64, Weights::Doubling), 57);
    assert_eq!(changes(64, Weights::Doubling), [(58, 1), (60, 2), (61, 3), (63, 4)]);
}

/// Section 5.1.2.2: 55 messages with 56 ranks, 56 with 57; one less than ranks on any number.
#[test]
fn messages_are_counted_right() {
    for ranks in 1..=5000 {
        let tree = SplitTree::new(ranks + 1, ranks, Weights::Constant).unwrap();
        let total: u32 = (1..=tree.depth()).map(|level| tree.messages(level)).sum();
        assert_eq!(total, ranks - 1);
        assert!(tree.messages(tree.depth() + 1) == 0 && tree.messages(0) == 0 && tree.messages(99) == 0);
    }
}

/// Section 5.1.1, 16 ranks: 15 steps on one dedicated core, 8 on two (folded level by level: 4 + 2 + 1 + 1).
#[test]
fn folding() {
    let none = Time::new(0, 1);
    let time = |cores: u32, s: u32| {
        SplitTree::new(cores, 16, Weights::Constant).unwrap().time_with(s, none).unwrap().as_f64()
    };
    assert_eq!((time(17, 0), time(18, 0), time(17, 1), time(17, 4)), (15.0, 8.0, 8.0, 4.0));
    // With a core per message of the widest level nothing is folded.
    assert_eq!(time(24, 0), 4.0);
}

#[test]
fn doubling_weights() {
    let tree = SplitTree::new(5, 4, Weights::Doubling).unwrap();
    let none = Time::new(0, 1);
    // Two messages of 1, then one of 2, on one core; or the first level at once; or all of it.
    let times: Vec<f64> = (0..3).map(|s| tree.time_with(s, none).unwrap().as_f64()).collect();
    assert_eq!(times, [4.0, 3.0, 3.0]);
    // C(4) = 5/4 * (2^3 - 1), which hides it all.
    assert_eq!(tree.time(0).unwrap(), Time::new(35, 4));
}

#[test]
fn without_dedicated_cores_all_of_it_runs_where_the_ranks_are() {
    let tree = SplitTree::new(8, 8, Weights::Constant).unwrap();
    assert_eq!((0..4).map(|s| tree.time(s).is_some()).collect::<Vec<_>>(), [false, false, false, true]);
    assert_eq!((tree.best(), tree.time(3).unwrap()), (3, Time::new(6, 1)));
    // One rank has nothing to tell anybody.
    assert_eq!(best(1, 1, Weights::Constant), 0);
}

#[test]
fn no_overflow_on_the_largest() {
    for weights in Weights::ALL {
        for ranks in [1, 2, u32::MAX / 2, u32::MAX - 1, u32::MAX] {
            let tree = SplitTree::new(u32::MAX, ranks, weights).unwrap();
            assert!(tree.best() <= tree.depth());
            assert!(tree.best_with(Time::new(u64::MAX, 1)) <= tree.depth());
        }
    }
}

#[test]
fn refuses() {
    for (cores, ranks) in [(8, 0), (8, 9), (0, 0)] {
        let error = SplitTree::new(cores, ranks, Weights::Constant).unwrap_err().to_string();
        assert!(error.contains(&format!("{ranks} ranks on {cores} cores")), "{error}");
    }
}

/// Chapter 7: a long computation leaves all to the dedicated cores, none puts all on the application's, and the model's
/// own computation gives the model's own choice.
#[test]
fn adaptive() {
    let tree = SplitTree::new(64, 60, Weights::Constant).unwrap();
    let mut adaptive = Adaptive::new(tree);
    assert_eq!(adaptive.levels(), tree.best());
    adaptive.observe(1, 0);
    assert_eq!(adaptive.levels(), tree.best());
    // 60 messages on 4 cores take 18 transfers.
    let folded = tree.time_with(0, Time::new(0, 1)).unwrap().as_f64() as u64;
    adaptive.observe(folded * 1000, 1000);
    assert_eq!((adaptive.levels(), adaptive.compute()), (0, Time::new(folded, 1)));
    // It follows a program that changes, and gets there.
    let mut seen = vec![0];
    for _ in 0..100 {
        adaptive.observe(0, 1000);
        seen.push(adaptive.levels());
    }
    assert!(seen.is_sorted(), "{seen:?}");
    assert_eq!(adaptive.compute(), Time::new(0, 1));
    let at_once = |s: u32| tree.time_with(s, Time::new(0, 1)).unwrap();
    assert!((0..=tree.depth()).all(|s| at_once(adaptive.levels()) <= at_once(s)));
}
