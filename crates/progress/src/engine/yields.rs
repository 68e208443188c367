//! When a waiter of a crowded node gives way to the other ranks on its core by `sched_yield`.
//!
//! Among ranks that all wait for one another's next message a yield is quicker than a sleep and a wake, several times. Beside a rank
//! that computes it is worse than both: the core comes back at the end of a time slice, milliseconds later, and all that time the
//! waiter looks awake, so that nobody wakes it. Nothing tells beforehand which of the two it will be. So waiters yield
//! until it has cost them something, a yield from which the core came back late or a wait that ended asleep after all, and then not for
//! [`REPAID`] times as long as that: what yields can lose is bounded by one part in [`REPAID`] of the time.

use super::wait::yield_now;
use tocsin_sync::atomic::{AtomicU64, Ordering};
use tocsin_sync::clock::now_ns;

/// For how long a waiter that may yield looks before it does, nanoseconds: some times what a message takes that was under way.
pub(super) const SPIN_NS: u64 = 500;
/// A core that comes back later than this was used for more than a look, nanoseconds: several times round a crowd's waiters.
const LATE_NS: u64 = 100_000;
/// How many times what was lost has to pass before the next try.
const REPAID: u64 = 100;

/// One rank's experience with yields, for all its threads.
#[derive(Debug)]
pub(super) struct Yields {
    /// Since when it may yield again, on the clock of [`now_ns`].
    barred_until: AtomicU64,
}

impl Yields {
    pub(super) fn new() -> Yields {
        Yields { barred_until: AtomicU64::new(0) }
    }

    pub(super) fn is_barred(&self, now: u64) -> bool {
        // SYNC POINT: Relaxed: nothing is published by it; one of two threads that bar at once decides.
        now < self.barred_until.load(Ordering::Relaxed)
    }

    /// `lost` nanoseconds were lost until `now`.
    pub(super) fn bar(&self, now: u64, lost: u64) {
        let until = now.saturating_add(lost.saturating_mul(REPAID));
        // SYNC POINT: Relaxed: as in `is_barred`.
        self.barred_until.store(until, Ordering::Relaxed);
    }

    /// Yields once. False: the core came back late, and yields are barred.
    pub(super) fn give_way(&self, now: u64) -> bool {
        yield_now();
        let back = now_ns();
        let away = back.saturating_sub(now);
        if away > LATE_NS {
            self.bar(back, away);
        }
        away <= LATE_NS
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_is_repaid_before_the_next_try() {
        let yields = Yields::new();
        assert!(!yields.is_barred(0));
        yields.bar(5_000, 200);
        assert!(yields.is_barred(5_000));
        assert!(yields.is_barred(5_000 + 200 * REPAID - 1));
        assert!(!yields.is_barred(5_000 + 200 * REPAID));
        yields.bar(u64::MAX - 1, u64::MAX);
        assert!(yields.is_barred(u64::MAX - 1), "nothing wraps round");
    }

    #[test]
    fn a_core_that_comes_back_late_bars_yields() {
        let yields = Yields::new();
        let now = now_ns();
        assert!(now > 2 * LATE_NS, "the clock has run for longer than that");
        assert!(!yields.give_way(now - 2 * LATE_NS), "as if the yield had begun then");
        assert!(yields.is_barred(now));
        // One that began when it ended is never late.
        let other = Yields::new();
        assert!(other.give_way(u64::MAX));
        assert!(!other.is_barred(now));
    }
}
