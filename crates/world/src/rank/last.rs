//! What a rank that leaves waits for: that what it has sent is received, or can never be.
//!
//! # When it never can
//! Its receiver is gone, or says that it is never received, because it leaves, too, and has no receive for it. A rank that leaves posts nothing more: it says so of
//! all that comes and meets no posted receive, of users' messages from the beginning, and of collectives' once it takes part in none any more. So ranks that leave do not
//! wait for each other, nor does one that does not leave wait for one that does. What was given up so is an error, which says which message that was; so is what was declined before, if its
//! request was dropped.

use tocsin_p2p::{Class, Lost};

use super::Rank;
use crate::error::Error;
use crate::state::RankState;

/// How far a rank is that leaves.
pub(super) struct Last {
    /// No collective is under way, and none will be.
    alone: bool,
}

impl Last {
    /// Posts are refused already.
    pub(super) fn new(state: &mut RankState) -> Last {
        state.p2p.take_no_more(Class::Eager);
        Last { alone: false }
    }

    /// Whether there is nothing more to wait for. User threads only.
    pub(super) fn is_over(&mut self, rank: &Rank) -> bool {
        // Entered, not tried: who turned away because another thread is inside might then sleep, and nobody would wake it.
        let mut state = rank.enter_in_wait();
        if !self.alone && state.nbc.outstanding() == 0 {
            self.alone = true;
            state.p2p.take_no_more(Class::Coll);
        }
        state.is_drained()
    }
}

/// A message that was never received, of which nobody has heard, if there is one.
pub(super) fn lost(rank: &Rank) -> Option<Error> {
    let Lost { count, last: (to, tag, bytes) } = rank.enter().p2p.lost();
    let others = count.checked_sub(1)?;
    Some(Error::NeverReceived { operation: "finalize", rank: to, tag, bytes, others })
}
