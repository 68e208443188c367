//! What rounds of communication alone, computing alone, and both together add up to.

use super::{most, us};
use crate::fleet::block::Measured;
use crate::row::Row;
use crate::stats::{Overlap, Ratios, Times};

/// The rounds of one world.
#[derive(Default)]
pub(super) struct Overlapped {
    t_comm: Times,
    pub(super) t_comp: Times,
    t_ovrl: Times,
    ratio: Ratios,
    null_ratio: Ratios,
    rate: Ratios,
    pub(super) interrupts: u64,
}

impl Overlapped {
    /// Adds a round, of which it gives the three times: those of the slowest rank.
    pub(super) fn add(&mut self, measured: &[Measured]) -> Overlap {
        let overlap = Overlap {
            t_comm: most(measured, |m| m.t_comm) as f64,
            t_comp: most(measured, |m| m.t_comp) as f64,
            t_ovrl: most(measured, |m| m.t_ovrl) as f64,
        };
        self.t_comm.add(overlap.t_comm as u64);
        self.t_comp.add(overlap.t_comp as u64);
        self.t_ovrl.add(overlap.t_ovrl as u64);
        self.ratio.add(overlap.ratio());
        self.null_ratio.add(overlap.null_ratio(most(measured, |m| m.t_comp_again) as f64));
        self.rate.add(overlap.rate_percent());
        self.interrupts += measured.iter().map(|m| m.interrupts).sum::<u64>();
        overlap
    }

    /// The columns that say it.
    pub(super) fn columns(&self, row: Row) -> Row {
        row.number("t_comm_us", us(self.t_comm.median()))
            .number("t_comp_us", us(self.t_comp.median()))
            .number("t_ovrl_us", us(self.t_ovrl.median()))
            .number("ratio", self.ratio.median())
            .number("null_ratio", self.null_ratio.median())
            .number("rate_percent", self.rate.median())
    }
}
