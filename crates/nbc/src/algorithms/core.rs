//! Any number of ranks reduced to a power of two, keeping rank order (Thakur, Rabenseifner and Gropp, "Optimization of
//! Collective Communication Operations in MPICH", 2005, section 4.5).
//!
//! With `p = 2^k + e` ranks, the first `2e` ranks form pairs: the even one hands its vector to the odd one and stands
//! aside until the result comes back. The `2^k` ranks that go on are the *core*. Each pair and each single rank is a
//! run of neighbours, so that the core's order is rank order.

use super::reduction::{Call, Partial};
use crate::Error;
use crate::builder::{ScheduleBuilder, StepId};
use crate::order::{Combination, Shape, Share, doubling, uniform};
use crate::schedule::ROUND_BITS;

/// The last round carries the result back to the even ranks.
const RETURN: u32 = (1 << ROUND_BITS) - 1;

/// Round of the hand-over; the algorithm's own start at 1.
const FOLD: u32 = 0;

pub(super) struct Core {
    pub rank: u32,
    /// A power of two.
    pub size: u32,
    extra: u32,
}

impl Core {
    /// log2 of the size.
    pub(super) fn levels(&self) -> u32 {
        self.size.trailing_zeros()
    }

    /// Rank in the group of a rank of the core.
    pub(super) fn member(&self, core: u32) -> u32 {
        if core < self.extra { 2 * core + 1 } else { core + self.extra }
    }

    /// Folds the ranks outside the core. `None` on a rank that stands aside: its part is done.
    pub(super) fn enter(b: &mut ScheduleBuilder, call: &Call) -> Result<Option<(Core, Partial)>, Error> {
        let (rank, ranks) = (b.rank(), b.size());
        let size = 1u32 << ranks.ilog2();
        let extra = ranks - size;
        let mut partial = call.start();
        if rank >= 2 * extra {
            return Ok(Some((Core { rank: rank - extra, size, extra }, partial)));
        }
        let bytes = call.bytes();
        if rank % 2 == 0 {
            let sent = b.send(rank + 1, FOLD, call.input, bytes, &[]);
            let read = [sent];
            b.recv(rank + 1, RETURN, call.output, bytes, if call.in_place { &read } else { &[] });
            return Ok(None);
        }
        let temp = b.temp(bytes);
        let arrival = b.recv(rank - 1, FOLD, temp, bytes, &[]);
        call.combine(b, &mut partial, (0, call.count), temp, true, arrival, &[])?;
        Ok(Some((Core { rank: rank / 2, size, extra }, partial)))
    }

    /// Returns the result, complete after the steps `ready`, to the rank that stands aside, if there is one.
    pub(super) fn leave(&self, b: &mut ScheduleBuilder, call: &Call, ready: &[StepId]) {
        if self.rank < self.extra {
            b.send(b.rank() - 1, RETURN, call.output, call.bytes(), ready);
        }
    }
}

/// Pairs first, then the core by distances 1, 2, 4, ...
pub(super) fn combination_order(shape: &Shape) -> Vec<Share> {
    let size = 1u32 << shape.ranks.ilog2();
    let extra = shape.ranks - size;
    let core = (0..size).map(|i| {
        if i < extra {
            Combination::join(Combination::Rank(2 * i), Combination::Rank(2 * i + 1))
        } else {
            Combination::Rank(i + extra)
        }
    });
    uniform(shape, doubling(core.collect()))
}
