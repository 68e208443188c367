//! From times of algorithms to the rows of collectives.

use crate::values::Operation;
use tocsin_nbc::MOST_CHOICES;
use tocsin_world::tune::{Collective, Ranks};

/// An algorithm takes the place of the library's own choice if it takes at most this part of its time: less of a difference
/// is not found again in the next run.
const GAIN: f64 = 0.95;

/// One size, and all algorithms that can serve it.
#[derive(Clone, Debug)]
pub(super) struct Contest {
    /// The size by which algorithms are chosen, in bytes.
    pub(super) from: u64,
    /// Names, and times as parts of that of the algorithm that the library takes by itself, which is among them with 1.
    pub(super) ratios: Vec<(&'static str, f64)>,
}

/// The quickest algorithm; `None`: none is clearly quicker than the library's own choice.
fn quickest(ratios: &[(&'static str, f64)]) -> Option<&'static str> {
    let quick = ratios.iter().filter(|(_, ratio)| *ratio <= GAIN);
    quick.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(name, _)| *name)
}

/// The rows of an operation on `size` ranks. A choice holds from its size on up to the next that was measured, the first from
/// 0 and the last for all longer ones. Where ranks have no size in common, one row: the algorithm that takes the smallest part of the
/// time on the whole, by the geometric mean over all sizes.
pub(super) fn rows(operation: Operation, ranks: Ranks, size: u32, contests: &[Contest]) -> Vec<Collective> {
    let row = |from, algorithm| Collective { operation, ranks, size, from, algorithm };
    if !operation.has_common_size() {
        return (!contests.is_empty())
            .then(|| row(0, quickest(&on_the_whole(contests))))
            .into_iter()
            .collect();
    }
    let mut rows: Vec<Collective> = Vec::new();
    for contest in contests {
        let algorithm = quickest(&contest.ratios);
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
fn on_the_whole(contests: &[Contest]) -> Vec<(&'static str, f64)> {
    let Some((first, others)) = contests.split_first() else { return Vec::new() };
    let mean = |(name, ratio): &(&'static str, f64)| {
        let of =
            |contest: &Contest| contest.ratios.iter().find(|(other, _)| other == name).map(|(_, r)| r.ln());
        let logarithms = others.iter().map(of).collect::<Option<Vec<f64>>>()?;
        let sum = ratio.ln() + logarithms.iter().sum::<f64>();
        Some((*name, (sum / contests.len() as f64).exp()))
    };
    first.ratios.iter().filter_map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contest(from: u64, ratios: &[(&'static str, f64)]) -> Contest {
        Contest { from, ratios: ratios.to_vec() }
    }

    fn decided(operation: Operation, contests: &[Contest]) -> Vec<(u64, Option<&'static str>)> {
        let rows = rows(operation, Ranks::Threads, 2, contests);
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
}
