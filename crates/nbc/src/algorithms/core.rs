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
pub(super) const RETURN: u32 = (1 << ROUND_BITS) - 1;

/// Round of the hand-over; the algorithm's own start at 1.
const FOLD: u32 = 0;

pub(super) struct Core {
    pub rank: u32,
    /// A power of two.
    pub size: u32,
    extra: u32,
}

/// What a rank does after the fold.
pub(super) enum Role {
    /// It goes on, with what its pair has.
    Member(Core, Partial),
    /// It waits for its result from the rank above it; the step reads the input.
    Aside(StepId),
}

/// Whether a rank hands its vector over and waits.
pub(super) fn stands_aside(rank: u32, ranks: u32) -> bool {
    rank.is_multiple_of(2) && rank < 2 * (ranks - (1 << ranks.ilog2()))
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

    /// The first of the ranks that a rank of the core stands for, itself or its pair's.
    pub(super) fn first(&self, core: u32) -> u32 {
        core + core.min(self.extra)
    }

    /// The rank of the core that stands for a rank of the group.
    pub(super) fn of(&self, rank: u32) -> u32 {
        if rank < 2 * self.extra { rank / 2 } else { rank - self.extra }
    }

    /// Folds the ranks outside the core.
    pub(super) fn fold(b: &mut ScheduleBuilder, call: &Call) -> Result<Role, Error> {
        let (rank, ranks) = (b.rank(), b.size());
        let size = 1u32 << ranks.ilog2();
        let extra = ranks - size;
        let mut partial = call.start();
        if stands_aside(rank, ranks) {
            return Ok(Role::Aside(b.send(rank + 1, FOLD, call.input, call.bytes(), &[])));
        }
        if rank >= 2 * extra {
            return Ok(Role::Member(Core { rank: rank - extra, size, extra }, partial));
        }
        let temp = b.temp(call.bytes());
        let arrival = b.recv(rank - 1, FOLD, temp, call.bytes(), &[]);
        call.combine(b, &mut partial, (0, call.count), temp, true, arrival, &[])?;
        Ok(Role::Member(Core { rank: rank / 2, size, extra }, partial))
    }

    /// The same where every rank gets the whole result: `None` on a rank that stands aside, whose part is done.
    pub(super) fn enter(b: &mut ScheduleBuilder, call: &Call) -> Result<Option<(Core, Partial)>, Error> {
        match Core::fold(b, call)? {
            Role::Member(core, partial) => Ok(Some((core, partial))),
            Role::Aside(sent) => {
                let read = if call.in_place { Some(sent) } else { None };
                b.recv(b.rank() + 1, RETURN, call.output, call.bytes(), read.as_slice());
                Ok(None)
            }
        }
    }

    /// Returns the result, complete after the steps `ready`, to the rank that stands aside, if there is one.
    pub(super) fn leave(&self, b: &mut ScheduleBuilder, call: &Call, ready: &[StepId]) {
        if self.rank < self.extra {
            b.send(b.rank() - 1, RETURN, call.output, call.bytes(), ready);
        }
    }
}

/// What the core's ranks have after the fold.
pub(super) fn folded(ranks: u32) -> Vec<Combination> {
    let size = 1u32 << ranks.ilog2();
    let extra = ranks - size;
    let core = (0..size).map(|i| {
        if i < extra {
            Combination::join(Combination::Rank(2 * i), Combination::Rank(2 * i + 1))
        } else {
            Combination::Rank(i + extra)
        }
    });
    core.collect()
}

/// Pairs first, then the core by distances 1, 2, 4, ...
pub(super) fn combination_order(shape: &Shape) -> Vec<Share> {
    uniform(shape, doubling(folded(shape.ranks)))
}
