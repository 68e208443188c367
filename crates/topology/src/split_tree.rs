//! How much of a tree collective runs on the cores that compute, and how much on cores dedicated to communication: the
//! cost model of split-tree (Taboada's thesis, chapter 5).
//!
//! Of the levels of the tree, the `s` widest (next to the leaves) run on the application's cores, in parallel but not
//! behind any computation: inside the call for all-to-one, inside the wait for one-to-all. The others are folded onto
//! the dedicated cores, where computation hides them. The model needs no calibration: its unit is the transfer of one
//! buffer, and it knows only the numbers of ranks and cores. Everything is computed in exact integers.
//!
//! ```
//! use tocsin_topology::split_tree::{SplitTree, Weights};
//! let tree = SplitTree::new(64, 51, Weights::Constant)?;
//! assert_eq!(tree.best(), 0); // 13 dedicated cores keep up
//! assert_eq!(SplitTree::new(64, 58, Weights::Constant)?.best(), 2);
//! # Ok::<(), tocsin_topology::Error>(())
//! ```

mod adaptive;

pub use adaptive::Adaptive;

use crate::Error;
use std::cmp::Ordering;

/// What a message weighs, by its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Weights {
    /// The same on all levels: reduce, broadcast.
    Constant,
    /// Twice as much on each level, towards the root: gather, scatter.
    Doubling,
}

impl Weights {
    /// Both.
    pub const ALL: [Weights; 2] = [Weights::Constant, Weights::Doubling];

    /// The name used on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Weights::Constant => "constant",
            Weights::Doubling => "doubling",
        }
    }

    /// Of one message at `level`, counted from 1 at the leaves.
    fn of(self, level: u32) -> u128 {
        match self {
            Weights::Constant => 1,
            Weights::Doubling => 1 << (level - 1),
        }
    }

    /// Of the levels 1 to `levels` on a path to the root.
    fn up_to(self, levels: u32) -> u128 {
        match self {
            Weights::Constant => u128::from(levels),
            Weights::Doubling => (1 << levels) - 1,
        }
    }
}

/// A time in units of the transfer of one buffer: an exact fraction.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    over: u128,
    under: u64,
}

impl Time {
    /// `over / under`. A zero below counts as one.
    pub fn new(over: u64, under: u64) -> Time {
        Time { over: u128::from(over), under: under.max(1) }
    }

    /// As a floating-point number.
    pub fn as_f64(self) -> f64 {
        self.over as f64 / self.under as f64
    }

    /// `lead + max(self, rest)`
    fn cover(self, lead: u128, rest: u128) -> Time {
        let under = u128::from(self.under);
        Time { over: lead * under + self.over.max(rest * under), under: self.under }
    }
}

impl PartialEq for Time {
    fn eq(&self, other: &Time) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Time {}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Time) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Time) -> Ordering {
        let across = |a: &Time, b: &Time| a.over.saturating_mul(u128::from(b.under));
        across(self, other).cmp(&across(other, self))
    }
}

/// A binomial tree over the ranks of a machine that has more cores than ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitTree {
    cores: u32,
    ranks: u32,
    weights: Weights,
}

impl SplitTree {
    /// `ranks` on as many of `cores`; the other cores are dedicated to communication.
    ///
    /// # Errors
    /// [`Error::SplitTree`] for no rank, or more ranks than cores.
    pub fn new(cores: u32, ranks: u32, weights: Weights) -> Result<SplitTree, Error> {
        match ranks {
            0 => Err(Error::SplitTree { ranks, cores }),
            n if n > cores => Err(Error::SplitTree { ranks, cores }),
            _ => Ok(SplitTree { cores, ranks, weights }),
        }
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// `P`: cores that are dedicated to communication.
    pub fn dedicated(&self) -> u32 {
        self.cores - self.ranks
    }

    /// `H(N) = ceil(log2 N)`: levels of the tree.
    pub fn depth(&self) -> u32 {
        depth(self.ranks)
    }

    /// `F(N, i)`: messages at a level, counted from 1 at the leaves (the printed equation 5.5 miscounts them where the
    /// number of ranks is no power of two).
    pub fn messages(&self, level: u32) -> u32 {
        match level {
            0 => 0,
            _ => u64::from(self.ranks).div_ceil(1u64.checked_shl(level - 1).unwrap_or(u64::MAX)) as u32 / 2,
        }
    }

    /// `C(N)`: the computation that is to be hidden, as the thesis supposes it: as long as the blocking collective on all
    /// cores, if all cores compute.
    pub fn compute(&self) -> Time {
        let whole = self.weights.up_to(depth(self.cores));
        Time { over: whole * u128::from(self.cores), under: u64::from(self.ranks) }
    }

    /// `T(s, N)`: time of computation and collective with `s` levels on the application's cores. `None` when levels are
    /// left and no core is dedicated to them.
    pub fn time(&self, s: u32) -> Option<Time> {
        self.time_with(s, self.compute())
    }

    /// As [`time`](Self::time), with a computation that was measured.
    pub fn time_with(&self, s: u32, compute: Time) -> Option<Time> {
        let depth = self.depth();
        let lead = s.min(depth);
        let dedicated = u128::from(self.dedicated());
        if lead < depth && dedicated == 0 {
            return None;
        }
        let folded =
            |level: u32| u128::from(self.messages(level)).div_ceil(dedicated.max(1)) * self.weights.of(level);
        let rest = (lead + 1..=depth).map(folded).sum();
        Some(compute.cover(self.weights.up_to(lead), rest))
    }

    /// The number of levels on the application's cores that takes the least time; the smallest of equals.
    pub fn best(&self) -> u32 {
        self.best_with(self.compute())
    }

    /// As [`best`](Self::best), with a computation that was measured.
    pub fn best_with(&self, compute: Time) -> u32 {
        let timed = (0..=self.depth()).filter_map(|s| Some((self.time_with(s, compute)?, s)));
        // The tuple's second makes the smallest of equals the least.
        timed.min().map_or(0, |(_, s)| s)
    }
}

fn depth(ranks: u32) -> u32 {
    u32::BITS - ranks.saturating_sub(1).leading_zeros()
}

#[cfg(test)]
mod tests;
