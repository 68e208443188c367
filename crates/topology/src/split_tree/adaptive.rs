//! The form that learns the computation of an iterative program (Taboada's thesis, chapter 7, perspectives).

use super::{SplitTree, Time};

/// Chooses the levels from the time that the program spent between start and wait, instead of supposing one.
///
/// What it learns from is measured by whoever runs the collective; here is no clock. A computation much longer than the
/// collective puts all of the tree on the dedicated cores, one much shorter all of it on the application's.
#[derive(Clone, Copy, Debug)]
pub struct Adaptive {
    tree: SplitTree,
    /// Nanoseconds between start and wait, and of the transfer of one buffer; `None` before the first measurement.
    learned: Option<(u64, u64)>,
}

impl Adaptive {
    /// Nothing learned yet: the model's own computation holds.
    pub fn new(tree: SplitTree) -> Adaptive {
        Adaptive { tree, learned: None }
    }

    /// An iteration computed for `compute_ns` between start and wait, and the transfer of one buffer took `transfer_ns`.
    /// Later iterations count more: each takes a quarter of the difference to what was known. A transfer of no time at
    /// all tells nothing and is ignored.
    pub fn observe(&mut self, compute_ns: u64, transfer_ns: u64) {
        if transfer_ns == 0 {
            return;
        }
        self.learned = Some(match self.learned {
            None => (compute_ns, transfer_ns),
            Some((compute, transfer)) => (nearer(compute, compute_ns), nearer(transfer, transfer_ns)),
        });
    }

    /// The computation to hide, in units of the transfer of one buffer.
    pub fn compute(&self) -> Time {
        match self.learned {
            None => self.tree.compute(),
            Some((compute, transfer)) => Time::new(compute, transfer),
        }
    }

    /// The number of levels to run on the application's cores next time.
    pub fn levels(&self) -> u32 {
        self.tree.best_with(self.compute())
    }
}

/// A quarter of the way from `known` to `seen`, and a step at least, so that it gets there.
fn nearer(known: u64, seen: u64) -> u64 {
    let step = known.abs_diff(seen).div_ceil(4);
    if seen > known { known + step } else { known - step }
}
