//! A moment for the receiver of a full lane.

use tocsin_progress::Entered;
use tocsin_progress::engine::Lingering;
use tocsin_sync::atomic::spin_loop;
use tocsin_sync::clock::now_ns;

use super::Comm;
use crate::state::RankState;

/// How long a sender waits for a receiver that takes nothing out, nanoseconds: longer than one that is in the library does anything else between.
const UNMOVED_NS: u64 = 2_000;
/// How often the sender looks at everything else meanwhile: some 5 us are between two of these.
const LOOKS: u32 = 32;
/// Pauses between two looks at what the receiver has taken: each look takes the line away from it.
const PAUSES: u32 = 4;

impl Comm {
    /// Waits for room in the lane to a rank, if it is full and the receiver is seen to take messages out: it is in the library, and would be interrupted, or asked to
    /// ring back, for nothing. Neither is said to it here: if there is no room after this, the send says it, as it does without.
    #[inline]
    pub(super) fn linger_for_room(&self, state: &mut Entered<'_, RankState>, dest: u32) {
        if let Some(taken) = state.p2p.lacks_room(dest) {
            self.linger_while_full(state, dest, taken);
        }
    }

    #[cold]
    fn linger_while_full(&self, state: &mut Entered<'_, RankState>, dest: u32, mut taken: u32) {
        if !self.shared().engine.should_look() {
            return;
        }
        let mut moved = now_ns();
        state.linger(LOOKS, |state| {
            let Some(now_taken) = state.p2p.lacks_room(dest) else { return Lingering::Over };
            let now = now_ns();
            if now_taken != taken {
                (taken, moved) = (now_taken, now);
            } else if now.wrapping_sub(moved) >= UNMOVED_NS {
                return Lingering::Over;
            }
            (0..PAUSES).for_each(|_| spin_loop());
            Lingering::Nothing
        });
    }
}
