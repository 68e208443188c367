//! Ranks that should have cores of their own, and share one all the same: somebody has moved them, or the system has put them together, because other programs keep the other
//! cores busy.
//!
//! Who spins then keeps the core from the very rank that it waits for, until it sleeps; and the system, which wakes a thread where it slept, finds nothing wrong with that. A yield brings the message at once. But beside a
//! stranger it costs a time slice. So a waiter whose spinning was in vain yields before it sleeps, once in a while, and if others had the core meanwhile and what it waits for was there when that came
//! back, the next ones yield as on a crowded node (`yields.rs`), as long as that goes on; with the same bars on yields after which a core comes back late.
//! (Half round trips of 8 bytes, in each of two worlds of two ranks on two cores, which nobody has bound: 110 us without this, and 2 with it. `bench pingpong --sizes 8 --bind none`, twice at once.)

use super::Engine;
use super::credit::Credit;
use super::yields::LATE_NS;
use crate::budget::Work;

/// What a yield that brings a message saves, and what one in vain takes.
const GAIN: u32 = 4;
const COST: u32 = 1;
/// A core that comes back sooner was not wanted by anybody, nanoseconds: a yield to nobody takes 700 on some virtual machines, two switches and what runs between them some 3000.
const SWITCHED_NS: u64 = 1_500;
/// For how long a wait yields before it sleeps, nanoseconds: as on a crowded node.
const YIELD_NS: u64 = 1_000_000;

/// One rank's experience with that.
#[derive(Debug)]
pub(super) struct Together(Credit);

impl Together {
    pub(super) fn new() -> Together {
        Together(Credit::unproven(GAIN, COST))
    }

    /// Whether waits are to yield.
    #[inline]
    pub(super) fn is_known(&self) -> bool {
        self.0.is_proven()
    }

    /// Whether a wait that is about to sleep is to try a yield first. If not, it says so by [`note`](Self::note).
    pub(super) fn is_tried(&self) -> bool {
        self.0.is_good()
    }

    /// Whether a yield has brought what was waited for.
    pub(super) fn note(&self, met: bool) {
        self.0.note(met);
    }
}

/// Whether others had a core that was given away at one time and was back at another; not, if it came back late.
pub(super) fn others_had_it(away: u64, back: Option<u64>) -> bool {
    back.is_some_and(|back| (SWITCHED_NS..=LATE_NS).contains(&back.saturating_sub(away)))
}

impl<W: Work> Engine<W> {
    /// For how long waits yield, nanoseconds; 0: they do not.
    #[inline]
    pub(super) fn yield_ns(&self) -> u64 {
        match self.config.yield_ns {
            0 if self.together.is_known() => YIELD_NS,
            configured => configured,
        }
    }

    /// Whether this rank's threads share their core with others', as far as is known: because there are more ranks than cores, or because it was found out.
    #[inline]
    pub fn shares_core(&self) -> bool {
        self.yield_ns() > 0
    }

    /// Whether a wait that is about to sleep yields first, to find out.
    pub(super) fn tries_a_yield(&self, now: u64) -> bool {
        let tries = self.together.is_tried() && !self.yields.is_barred(now);
        if !tries {
            self.together.note(false);
        }
        tries
    }
}
