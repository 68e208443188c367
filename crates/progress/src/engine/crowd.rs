//! Yielding where there are more ranks than cores: to ranks that wait, not to one that computes.
//!
//! Who yields to other waiters has the core back within some microseconds, less than it takes to sleep and be woken by
//! another core, and it needs no ring: it looks by itself. Who yields to a rank that computes gets the core back at the end
//! of that one's time slice, milliseconds later, and looks awake meanwhile. Nobody can say beforehand which of the two it
//! will be. So each yield is timed: after one that came back late the waiters of this rank sleep instead, for a while, and for
//! longer when the next attempts are late, too. So a rank that computes beside a waiter costs it one late yield, then one
//! in many; and what the system has to do now and then ends the yielding for that while only.

use tocsin_sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How long a wait yields before it sleeps, nanoseconds: some laps of a message round all ranks.
pub(super) const YIELD_NS: u64 = 50_000;
/// A yield that takes so long had the core with somebody who did not wait. Waiters give it back after a microsecond each.
const LATE_NS: u64 = 50_000;
/// One that takes no longer than this gave the core to nobody: about half of what two switches take.
const ALONE_NS: u64 = 500;
/// How long to look without a yield after that.
const ALONE_SPIN_NS: u64 = 1_000;
/// Looks of a thread that stays inside the engine, when others may want the core.
const LOOKS: u32 = 2;
/// How long waiters sleep at once after a late yield, and at most after many.
const FIRST_NS: u64 = 50_000_000;
const LONGEST_NS: u64 = 3_200_000_000;
/// So many yields to others that came back soon make a late one the first.
const PROMPT: u64 = 256;

/// What a rank's waiters know of those they yield to. Progress class: wait-free. Threads of a rank that write at the same
/// time may lose one another's news, which is as well.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    /// Until then waiters do not yield.
    until: AtomicU64,
    /// How long the last ban was.
    ban: AtomicU64,
    /// Yields to others since then that came back soon.
    prompt: AtomicU64,
    /// The last yield gave the core to nobody.
    alone: AtomicBool,
}

impl Crowd {
    /// Whether to yield now.
    #[inline]
    pub(super) fn may_yield(&self, now: u64) -> bool {
        // SYNC POINT: Relaxed, here and below: nothing is read by virtue of it.
        now >= self.until.load(Ordering::Relaxed)
    }

    /// How many of so many looks to make before the first yield.
    #[inline]
    pub(super) fn looks(&self, looks: u32) -> u32 {
        if self.alone.load(Ordering::Relaxed) { looks } else { looks.min(LOOKS) }
    }

    /// Notes a yield and when it was over; until when it is better to look without another.
    #[inline]
    pub(super) fn yielded(&self, from: u64, to: u64) -> u64 {
        let took = to.saturating_sub(from);
        self.alone.store(took < ALONE_NS, Ordering::Relaxed);
        if took < ALONE_NS {
            return to.saturating_add(ALONE_SPIN_NS);
        }
        if took < LATE_NS {
            self.prompt.store(self.prompt.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        } else {
            self.late(to);
        }
        to
    }

    #[cold]
    fn late(&self, now: u64) {
        let again = self.prompt.swap(0, Ordering::Relaxed) < PROMPT;
        let last = self.ban.load(Ordering::Relaxed);
        let ban = if again { last.saturating_mul(2).clamp(FIRST_NS, LONGEST_NS) } else { FIRST_NS };
        self.ban.store(ban, Ordering::Relaxed);
        self.until.store(now.saturating_add(ban), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_late_yield_is_the_last_for_a_while() {
        let crowd = Crowd::default();
        let start = 1_000_000_000_000;
        assert!(crowd.may_yield(start));
        assert_eq!(crowd.looks(100), LOOKS);
        assert_eq!(crowd.yielded(start, start + 300), start + 300 + ALONE_SPIN_NS);
        assert_eq!((crowd.looks(100), crowd.looks(1)), (100, 1));
        assert_eq!(crowd.yielded(start, start + 2_000), start + 2_000);
        assert_eq!(crowd.looks(100), LOOKS);
        assert!(crowd.may_yield(start));
        // Late, again and again.
        let mut now = start;
        for expected in [1, 2, 4, 8, 16, 32, 64, 64, 64].map(|times| times * FIRST_NS) {
            now += 4_000_000;
            crowd.yielded(now - 4_000_000, now);
            assert!(!crowd.may_yield(now) && !crowd.may_yield(now + expected - 1), "{expected}");
            now += expected;
            assert!(crowd.may_yield(now), "{expected}");
        }
        // After many that were none, it is as new.
        for _ in 0..PROMPT {
            crowd.yielded(now, now + 1_000);
        }
        crowd.yielded(now - LATE_NS, now);
        assert!(!crowd.may_yield(now) && crowd.may_yield(now + FIRST_NS));
    }
}
