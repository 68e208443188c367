//! Where ranks share cores: whether what a thread waits for comes from this very core, and so never while it looks.

use tocsin_progress::Id;
use tocsin_sync::clock::now_ns;
use tocsin_transport::Transport;

use super::Rank;
use crate::state::RankState;

impl Rank {
    /// Whether a rank waits for this core, as far as is known.
    #[inline]
    pub(crate) fn is_beside(&self, state: &RankState, peer: u32) -> bool {
        self.engine.is_crowded() && {
            let now = now_ns();
            let core = self.engine.waits_here(now);
            state.p2p.transport().is_where(peer, now) == Some(core)
        }
    }

    /// Whether a collective on a board lacks the part of any rank that waits for this core, as far as is known at a time of the one clock. Where ranks share cores.
    #[inline]
    pub(crate) fn lacks_from_beside(&self, state: &RankState, id: Id, now: u64) -> bool {
        let core = self.engine.waits_here(now);
        let transport = state.p2p.transport();
        state.nbc.lacks_any(id, |rank| transport.is_where(rank, now) == Some(core))
    }
}
