//! When a waiter of a crowded node gives way to the other ranks on its core by `sched_yield`, and for how long it looks before.
//!
//! Among ranks that all wait for one another's next message a yield is quicker than a sleep and a wake, several times. Beside a rank
//! that computes it is worse than both: the core comes back at the end of a time slice, milliseconds later, and all that time the
//! waiter looks awake, so that nobody wakes it. Nothing tells beforehand which of the two it will be. So waiters yield
//! until it has cost them something, a yield from which the core came back late or a wait that ended asleep after all, and then not for
//! [`REPAID`] times as long as that: what yields can lose is bounded by one part in [`REPAID`] of the time.
//!
//! Nor does anything tell whether the message will come from a rank that runs, which takes a look of a microsecond, or from one
//! that waits for this core, which is kept from it by that. A rank goes by what its last waits have met, as an adaptive lock does.

use super::wait::yield_now;
use tocsin_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use tocsin_sync::clock::now_ns;

/// For how long a waiter looks before it yields, nanoseconds: some times what a message takes that was under way.
const SHORT_NS: u64 = 500;
/// The same where that has paid: some times what a message and its answer take.
const LONG_NS: u64 = 2_000;
/// A core that comes back later than this was used for more than a look, nanoseconds: several times round a crowd's waiters.
const LATE_NS: u64 = 100_000;
/// How many times what was lost has to pass before the next try.
const REPAID: u64 = 100;
/// Waits in which a look met its message, less twice those in which it did not, count up to this.
const MOST: u32 = 8;
/// Where looks do not pay, one wait in so many tries.
const TRY: u32 = 32;

/// One rank's experience with yields, for all its threads. Nothing is published by any of it, and of two threads that note something
/// at once one may be forgotten.
#[derive(Debug)]
pub(super) struct Yields {
    /// Since when it may yield again, on the clock of [`now_ns`].
    barred_until: AtomicU64,
    /// See [`MOST`].
    credit: AtomicU32,
    /// Waits since the last try.
    waits: AtomicU32,
}

impl Yields {
    pub(super) fn new() -> Yields {
        Yields { barred_until: AtomicU64::new(0), credit: AtomicU32::new(MOST / 2), waits: AtomicU32::new(0) }
    }

    pub(super) fn is_barred(&self, now: u64) -> bool {
        // SYNC POINT: Relaxed: see the type; so are all below.
        now < self.barred_until.load(Ordering::Relaxed)
    }

    /// `lost` nanoseconds were lost until `now`.
    pub(super) fn bar(&self, now: u64, lost: u64) {
        let until = now.saturating_add(lost.saturating_mul(REPAID));
        self.barred_until.store(until, Ordering::Relaxed);
    }

    /// Whether a wait that begins now should look for long before it yields.
    pub(super) fn should_look(&self) -> bool {
        if self.credit.load(Ordering::Relaxed) > 0 {
            return true;
        }
        let waits = self.waits.load(Ordering::Relaxed).wrapping_add(1) % TRY;
        self.waits.store(waits, Ordering::Relaxed);
        waits == 0
    }

    /// For how long, nanoseconds.
    pub(super) fn look_ns(&self) -> u64 {
        if self.should_look() { LONG_NS } else { SHORT_NS }
    }

    /// Whether a look met what it was for.
    pub(super) fn note_look(&self, met: bool) {
        let before = self.credit.load(Ordering::Relaxed);
        let after = if met { before.saturating_add(1).min(MOST) } else { before.saturating_sub(2) };
        if after != before {
            self.credit.store(after, Ordering::Relaxed);
        }
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
        // One that ended before it began is never late.
        let other = Yields::new();
        assert!(other.give_way(u64::MAX));
        assert!(!other.is_barred(now));
    }

    #[test]
    fn looks_that_meet_nothing_are_given_up_and_tried_again() {
        let yields = Yields::new();
        let tried = |waits: u32| (0..waits).filter(|_| yields.should_look()).count();
        assert_eq!(tried(100), 100);
        for _ in 0..MOST {
            yields.note_look(false);
        }
        assert_eq!((tried(10 * TRY), yields.look_ns()), (10, SHORT_NS));
        yields.note_look(true);
        assert_eq!((tried(100), yields.look_ns()), (100, LONG_NS));
        yields.note_look(false);
        assert_eq!(tried(TRY), 1);
        for _ in 0..2 * MOST {
            yields.note_look(true);
        }
        for _ in 0..MOST / 2 {
            assert!(yields.should_look(), "one that fails does not end it");
            yields.note_look(false);
        }
        assert_eq!(tried(TRY), 1);
    }
}
