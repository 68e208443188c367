//! From times of algorithms to the rows of collectives.

use super::decide::LEAST_ROUNDS;
use crate::values::Operation;
use tocsin_nbc::MOST_CHOICES;
use tocsin_world::tune::{Collective, Ranks, Relation};

/// An algorithm takes the place of the library's own choice if it takes at most this part of its time, and no more than it in
/// nine of ten rounds: less of a difference is not found again in the next run.
const GAIN: f64 = 0.95;

/// One size, and all algorithms that can serve it.
#[derive(Clone, Debug)]
pub(super) struct Contest {
    /// The size by which algorithms are chosen, in bytes.
    pub(super) from: u64,
    /// How often they were compared.
    pub(super) rounds: u64,
    pub(super) rivals: Vec<Rival>,
}

/// An algorithm, and its times as parts of that of the one which the library takes by itself in the same round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rival {
    pub(super) name: &'static str,
    /// The median.
    pub(super) ratio: f64,
    /// What nine of ten are not above.
    pub(super) most: f64,
}

/// The quickest algorithm; `None`: none is clearly quicker than the library's own choice.
fn quickest(rivals: &[Rival]) -> Option<&'static str> {
    let quick = rivals.iter().filter(|rival| rival.ratio <= GAIN && rival.most <= 1.0);
    quick.min_by(|a, b| a.ratio.total_cmp(&b.ratio)).map(|rival| rival.name)
}

/// Why a contest tells nothing, if it does not: too few rounds, or an algorithm that is quicker by the median and in some
/// rounds is not, while no other is quicker in all.
pub(super) fn unclear(operation: Operation, contests: &[Contest]) -> Option<String> {
    if let Some(Contest { from, rounds, .. }) = contests.iter().find(|of| of.rounds < LEAST_ROUNDS) {
        return Some(format!(
            "from {from} bytes on there was time for {rounds} of at least {LEAST_ROUNDS} rounds"
        ));
    }
    let undecided = |rivals: &[Rival]| {
        let near = rivals.iter().find(|rival| rival.ratio <= GAIN)?;
        let Rival { name, ratio, most } = near;
        let why = format!(
            "{name} takes {ratio:.2} of the time by the median, and up to {most:.2} in single rounds"
        );
        quickest(rivals).is_none().then_some(why)
    };
    if !operation.has_common_size() {
        return undecided(&on_the_whole(contests));
    }
    contests.iter().find_map(|of| Some(format!("from {} bytes on {}", of.from, undecided(&of.rivals)?)))
}

/// The rows of an operation on `size` ranks. A choice holds from its size on up to the next that was measured, the first from
/// 0 and the last for all longer ones. Where ranks have no size in common, one row: the algorithm that takes the smallest part of the
/// time on the whole, by the geometric mean over all sizes. `relation`: what the rows say of where the ranks were.
pub(super) fn rows(
    operation: Operation,
    (ranks, size, relation): (Ranks, u32, Option<Relation>),
    contests: &[Contest],
) -> Vec<Collective> {
    let row = |from, algorithm| Collective { operation, ranks, size, from, algorithm, relation };
    if !operation.has_common_size() {
        return (!contests.is_empty())
            .then(|| row(0, quickest(&on_the_whole(contests))))
            .into_iter()
            .collect();
    }
    let mut rows: Vec<Collective> = Vec::new();
    for contest in contests {
        let algorithm = quickest(&contest.rivals);
        match rows.last() {
            None => rows.push(row(0, algorithm)),
            // Sizes that the dispatcher does not tell apart, and a choice that goes on.
            Some(last) if contest.from <= last.from || algorithm == last.algorithm => {}
            Some(_) => rows.push(row(contest.from, algorithm)),
        }
    }
    rows.truncate(MOST_CHOICES);
    rows
}

/// The geometric means of those that could serve all sizes.
fn on_the_whole(contests: &[Contest]) -> Vec<Rival> {
    let Some(first) = contests.first() else { return Vec::new() };
    let mean = |name: &str, of: fn(&Rival) -> f64| {
        let in_one = |contest: &Contest| contest.rivals.iter().find(|rival| rival.name == name).map(of);
        let logarithms = contests.iter().map(|contest| in_one(contest).map(f64::ln));
        let sum = logarithms.sum::<Option<f64>>()?;
        Some((sum / contests.len() as f64).exp())
    };
    let rival = |&Rival { name, .. }: &Rival| {
        Some(Rival { name, ratio: mean(name, |r| r.ratio)?, most: mean(name, |r| r.most)? })
    };
    first.rivals.iter().filter_map(rival).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contest(from: u64, ratios: &[(&'static str, f64)]) -> Contest {
        let rival = |(name, ratio): &(&'static str, f64)| Rival { name, ratio: *ratio, most: *ratio };
        Contest { from, rounds: 5, rivals: ratios.iter().map(rival).collect() }
    }

    fn decided(operation: Operation, contests: &[Contest]) -> Vec<(u64, Option<&'static str>)> {
        let rows = rows(operation, (Ranks::Threads, 2, Some(Relation::Node)), contests);
        assert!(rows.iter().all(|row| row.relation == Some(Relation::Node)));
        rows.iter().map(|row| (row.from, row.algorithm)).collect()
    }

    #[test]
    fn a_choice_holds_up_to_the_next() {
        let contests = [
            contest(8, &[("shm", 1.0), ("binomial", 1.4)]),
            contest(64, &[("shm", 1.0), ("binomial", 0.8), ("chain", 0.9)]),
            contest(512, &[("shm", 1.0), ("binomial", 0.7)]),
            contest(4096, &[("binomial", 1.0), ("chain", 0.96), ("linear", f64::NAN)]),
            contest(65536, &[("binomial", 1.0), ("chain", 0.5)]),
        ];
        let right = [(0, None), (64, Some("binomial")), (4096, None), (65536, Some("chain"))];
        assert_eq!(decided(Operation::Ibcast, &contests), right);
        // The first holds for what is shorter, too.
        assert_eq!(decided(Operation::Ibcast, &contests[1..3]), [(0, Some("binomial"))]);
        assert_eq!(decided(Operation::Ibcast, &[]), []);
    }

    #[test]
    fn who_is_not_always_quicker_is_not_chosen() {
        let contest = |most| {
            let own = Rival { name: "binomial", ratio: 1.0, most: 1.0 };
            let chain = Rival { name: "chain", ratio: 0.6, most };
            let linear = Rival { name: "linear", ratio: 0.8, most: 0.9 };
            [Contest { from: 8, rounds: 5, rivals: vec![own, chain, linear] }]
        };
        assert_eq!(decided(Operation::Ibcast, &contest(1.0)), [(0, Some("chain"))]);
        assert_eq!(decided(Operation::Ibcast, &contest(1.1)), [(0, Some("linear"))]);
    }

    #[test]
    fn sizes_that_are_not_told_apart_have_one_row() {
        let contests = [
            contest(0, &[("pairwise", 1.0), ("recursive-halving", 1.2)]),
            contest(0, &[("pairwise", 1.0), ("recursive-halving", 0.2)]),
            contest(32, &[("pairwise", 1.0), ("recursive-halving", 0.3)]),
        ];
        let right = [(0, None), (32, Some("recursive-halving"))];
        assert_eq!(decided(Operation::IreduceScatter, &contests), right);
    }

    #[test]
    fn where_sizes_are_not_known_the_whole_decides() {
        let contests = |long| {
            [
                contest(0, &[("linear", 1.0), ("pairwise", 2.0)]),
                contest(0, &[("linear", 1.0), ("pairwise", long), ("bruck", 0.1)]),
            ]
        };
        assert_eq!(decided(Operation::Ialltoallv, &contests(0.4)), [(0, Some("pairwise"))]);
        assert_eq!(decided(Operation::Ialltoallv, &contests(0.49)), [(0, None)]);
        assert_eq!(decided(Operation::Ialltoallw, &[]), []);
        assert_eq!(
            decided(Operation::Ibarrier, &[contest(0, &[("shm", 1.0), ("tree", 0.5)])]),
            [(0, Some("tree"))]
        );
    }

    #[test]
    fn no_more_rows_than_a_table_takes() {
        let turns = (0..40).map(|at| contest(at * 8, &[("chain", if at % 2 == 0 { 1.0 } else { 0.5 })]));
        assert_eq!(decided(Operation::Ibcast, &turns.collect::<Vec<_>>()).len(), MOST_CHOICES);
    }

    #[test]
    fn what_single_rounds_contradict_is_unclear() {
        let rival = |name, ratio, most| Rival { name, ratio, most };
        let contest = |from, rivals: &[Rival]| Contest { from, rounds: 3, rivals: rivals.to_vec() };
        let own = rival("binomial", 1.0, 1.0);
        let clear = [
            contest(8, &[own, rival("chain", 0.96, 1.4), rival("linear", 2.0, 3.0)]),
            contest(64, &[own, rival("chain", 0.7, 0.9), rival("linear", 0.8, 1.2)]),
        ];
        assert_eq!(unclear(Operation::Ibcast, &clear), None);
        let noisy = [clear[0].clone(), contest(64, &[own, rival("chain", 0.7, 1.1)])];
        let right = "chain takes 0.70 of the time by the median, and up to 1.10 in single rounds";
        assert_eq!(unclear(Operation::Ibcast, &noisy).unwrap(), format!("from 64 bytes on {right}"));
        // Where sizes are not known the whole decides.
        let mixed = [contest(8, &[own, rival("chain", 1.4, 1.5)]), noisy[1].clone()];
        assert_eq!(unclear(Operation::Ialltoallv, &mixed), None);
        assert_eq!(unclear(Operation::Ialltoallv, &noisy[1..]).unwrap(), right);
        let short = [clear[0].clone(), Contest { rounds: 2, ..clear[1].clone() }];
        let why = "from 64 bytes on there was time for 2 of at least 3 rounds";
        assert_eq!(unclear(Operation::Ibcast, &short).unwrap(), why);
        assert_eq!(unclear(Operation::Ibcast, &[]), None);
    }
}
