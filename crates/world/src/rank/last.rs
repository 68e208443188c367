//! What a rank that leaves waits for: that what it has sent is taken, or can never be.
//!
//! # When it never can
//! Its receiver is gone, or leaves, too. A rank that leaves posts nothing more. Once none of its receives is under way, nor a collective, it takes nothing any more,
//! and says so in the segment. So a rank all of whose sends are to such ranks would wait for what never comes; where they are in a circle, all of them would, for ever. It
//! looks once more for answers that came before the word, and leaves. What was left then, or was given up because its receiver had gone, was never received, and
//! the rank's end says which message that was.

use tocsin_p2p::Lost;
use tocsin_progress::{Budget, Pass, Work};

use super::Rank;
use crate::error::Error;
use crate::state::RankState;

/// How far a rank is that leaves.
pub(super) struct Last {
    /// It has said that it takes nothing any more.
    deaf: bool,
    /// What was lost before.
    before: Lost,
}

impl Last {
    pub(super) fn new(state: &RankState) -> Last {
        Last { deaf: false, before: state.p2p.lost() }
    }

    /// Whether there is nothing more to wait for. User threads only.
    pub(super) fn is_over(&mut self, rank: &Rank) -> bool {
        // Entered, not tried: who turned away because another thread is inside might then sleep, and nobody would wake it.
        let mut state = rank.enter();
        if state.is_drained() {
            return true;
        }
        if state.nbc.outstanding() > 0 {
            return false;
        }
        if !self.deaf && !state.p2p.may_take() {
            self.deaf = true;
            rank.segment.set_deaf(rank.rank);
            rank.segment.wake_all();
        }
        if !state.p2p.pending_sends().all(|(to, ..)| rank.segment.is_deaf(to)) {
            return false;
        }
        // What they have answered before they said so lies in the lanes.
        while state.progress(&mut Budget::user()) == Pass::More {}
        !state.p2p.may_answer()
    }

    /// A message that was never received, if there is one.
    pub(super) fn lost(&self, rank: &Rank) -> Option<Error> {
        let state = rank.enter();
        let Lost { count, last } = state.p2p.lost();
        let gone = count.wrapping_sub(self.before.count);
        let gone = (gone > 0).then_some((last, gone));
        let left = state.p2p.pending_sends();
        let left =
            left.fold(gone, |lost, one| Some(lost.map_or((one, 1), |(last, count)| (last, count + 1))));
        left.map(|((rank, tag, bytes), count)| Error::NeverReceived { rank, tag, bytes, others: count - 1 })
    }
}
