//! A tree of which some levels run on the cores that compute: split-tree (Taboada's thesis, chapter 5; its cost model is
//! [`tocsin_topology::split_tree`]).
//!
//! Of the levels of a binomial tree, the S widest, next to the leaves, are left to the ranks themselves: on the way to the
//! root inside the call that starts the collective, which returns when this rank's part of them is over; on the way from the
//! root in the next call into the library, which is mostly the wait. Progress threads on cores of their own do the rest. S is
//! each rank's own affair: it says when something is begun, never what.
//!
//! What is started again, persistent or [kept](crate::Nbc::post_again), learns: how long the program computes between start
//! and wait, and what a transfer takes. The first run goes by the model alone. If that leaves nothing to the rank, there is no
//! transfer that it could measure, so that the second run takes a level more.

use tocsin_topology::split_tree::{Adaptive, SplitTree, Weights};

use crate::Group;

/// Where the levels of one rank's schedule begin and end. Levels are counted from 1 at the leaves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Levels {
    /// By level: the step before all that this rank sends from the root on.
    pub gates: Vec<(u32, u32)>,
    /// By level, ascending: the step after all that this rank does towards the root, up to this level.
    pub ends: Vec<(u32, u32)>,
}

/// How one rank's schedule is split, and what its runs have told.
#[derive(Clone, Debug)]
pub(crate) struct Split {
    levels: Levels,
    weights: Weights,
    learned: Adaptive,
    runs: u32,
    /// Levels that this run leaves to the rank.
    own: u32,
    /// When the call that started this run was done, and since when the rank itself does its levels, nanoseconds; 0: not yet.
    left: u64,
    since: u64,
    /// For how long the last run computed, and what a transfer took when one was measured last, nanoseconds; 0: unknown.
    computed: u64,
    transfer: u64,
}

impl Split {
    /// `None` for a rank that no level concerns, or a tree that is none.
    pub(crate) fn new(group: &Group, weights: Weights, levels: Levels) -> Option<Split> {
        if levels.gates.is_empty() && levels.ends.is_empty() {
            return None;
        }
        let cores = group.size().checked_add(group.dedicated_cores())?;
        let tree = SplitTree::new(cores, group.size(), weights).ok()?;
        let learned = Adaptive::new(tree);
        Some(Split { levels, weights, learned, runs: 0, own: 0, left: 0, since: 0, computed: 0, transfer: 0 })
    }

    /// A run begins: decides on its levels.
    pub(crate) fn begin(&mut self, now: u64) {
        match std::mem::take(&mut self.computed) {
            0 => {}
            // A transfer of unknown length is ignored.
            computed => self.learned.observe(computed, self.transfer),
        }
        let tries = u32::from(self.transfer == 0 && self.runs == 1);
        self.own = self.learned.levels().max(tries);
        self.runs = self.runs.saturating_add(1);
        self.left = 0;
        self.since = if self.levels.ends.is_empty() { 0 } else { now };
    }

    /// The steps that hold back what is sent on levels that are the rank's, and those that hold nothing back.
    pub(crate) fn gates(&self, own: bool) -> impl Iterator<Item = u32> + '_ {
        self.levels.gates.iter().filter(move |(level, _)| (*level <= self.own) == own).map(|(_, step)| *step)
    }

    /// Whether a step is one that holds others back.
    pub(crate) fn is_gate(&self, step: u32) -> bool {
        self.levels.gates.iter().any(|(_, gate)| *gate == step)
    }

    /// The step after the levels that the call does itself.
    pub(crate) fn end(&self) -> Option<u32> {
        self.levels.ends.iter().rev().find(|(level, _)| *level <= self.own).map(|(_, step)| *step)
    }

    /// The call that started the run is done.
    pub(crate) fn leave(&mut self, now: u64) {
        self.left = now.max(1);
        if self.end().is_some() {
            self.took(now);
        }
    }

    /// The rank is back in the library.
    pub(crate) fn come_back(&mut self, now: u64) {
        if self.left != 0 {
            self.computed = now.saturating_sub(self.left).max(1);
            self.left = 0;
        }
        self.since = now;
    }

    /// The run is over.
    pub(crate) fn over(&mut self, now: u64) {
        if self.gates(true).next().is_some() {
            self.took(now);
        }
    }

    /// The levels of this run were done from `since` to now. Of one that has ended before it came to them there is nothing to learn.
    fn took(&mut self, now: u64) {
        if self.since == 0 {
            return;
        }
        let messages = match self.weights {
            Weights::Constant => u64::from(self.own),
            Weights::Doubling => (1u64 << self.own.min(32)) - 1,
        };
        let took = now.saturating_sub(std::mem::take(&mut self.since));
        if let Some(each) = took.checked_div(messages).filter(|each| *each > 0) {
            self.transfer = each;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(ranks: u32, dedicated: u32, levels: Levels) -> Split {
        let group = Group::new(&(0..ranks).collect::<Vec<_>>(), 0).unwrap().with_dedicated_cores(dedicated);
        Split::new(&group, Weights::Constant, levels).unwrap()
    }

    fn down() -> Levels {
        Levels { gates: vec![(3, 10), (2, 11), (1, 12)], ends: Vec::new() }
    }

    fn up() -> Levels {
        Levels { gates: Vec::new(), ends: vec![(1, 20), (2, 21), (3, 22)] }
    }

    #[test]
    fn the_model_decides_on_the_first_run() {
        // Nobody else is there to do anything.
        let mut alone = split(8, 0, down());
        alone.begin(1);
        assert_eq!(alone.gates(true).collect::<Vec<_>>(), [10, 11, 12]);
        assert_eq!(alone.gates(false).count(), 0);
        // The model's own example, with two levels for the ranks.
        let mut thesis = split(58, 6, up());
        thesis.begin(1);
        assert_eq!((thesis.own, thesis.end()), (2, Some(21)));
        // A core for each: all is theirs.
        let mut free = split(8, 8, up());
        free.begin(1);
        assert_eq!((free.own, free.end()), (0, None));
        let nothing = Group::new(&[0, 1], 0).unwrap();
        assert!(Split::new(&nothing, Weights::Constant, Levels::default()).is_none());
    }

    /// Runs of a program that computes for so long, where a transfer takes 1000 ns.
    fn learned(mut split: Split, compute: u64) -> Vec<u32> {
        let mut now = 1;
        let run = |_| {
            split.begin(now);
            let own = split.own;
            let took = u64::from(own) * 1000;
            if split.end().is_some() {
                now += took;
            }
            split.leave(now);
            now += compute;
            split.come_back(now);
            if split.gates(true).next().is_some() {
                now += took;
            }
            split.over(now);
            own
        };
        (0..40).map(run).collect()
    }

    #[test]
    fn a_program_that_is_repeated_is_learned() {
        for levels in [down(), up()] {
            // One core for seven messages of eight ranks, which take as long as the model supposes that these compute.
            let long = learned(split(8, 1, levels.clone()), 100_000);
            assert_eq!(long.last(), Some(&0), "{long:?}");
            let short = learned(split(8, 1, levels.clone()), 10);
            let tree = SplitTree::new(9, 8, Weights::Constant).unwrap();
            let best = tree.best_with(tocsin_topology::split_tree::Time::new(10, 1000));
            assert!(best > 0);
            assert_eq!(short.last(), Some(&best), "{short:?}");
            // Where the model leaves nothing to the ranks, the second run has something to measure.
            let free = learned(split(8, 8, levels), 100_000);
            assert_eq!(free[..3], [0, 1, 0]);
        }
    }
}
