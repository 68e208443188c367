//! How much of a computing rank's time handlers may take: at most half of any millisecond (rule 5).
//!
//! Time is cut into buckets of 2^16 ns (65.5 us). The last 17 buckets, the current one included, always cover
//! at least 1.048 ms, so that "their sum stays below the cap" implies "no millisecond that ends now has more
//! than the cap". A handler entry is charged when it ends, to the bucket of its end, so it is counted at
//! least as long as it matters. One entry may overshoot by its own length, which the cap leaves room for.

use tocsin_sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What a signal handler's entry and return cost the interrupted thread beside what the handler measures
/// itself: kernel entry, frame with extended state, `sigreturn`. About 2 to 4 us on the machines that were measured
/// first; a user interrupt costs less, and is charged the same.
pub const ENTRY_NS: u64 = 3_000;

/// What a pass is taken to last that found nothing and therefore read no clock: over empty lanes, less than a microsecond.
pub const IDLE_PASS_NS: u64 = 1_000;
/// What such an entry is charged.
const IDLE_NS: u64 = ENTRY_NS + IDLE_PASS_NS;
/// How much of that may stand before an entry reads the clock all the same.
const UNCLOCKED_NS: u64 = 4 * IDLE_NS;
/// Half a millisecond, less one whole entry (20 us budget, entry cost, and a packet that began just before
/// the deadline) and what entries without a clock may have taken.
pub const CAP_NS: u64 = 500_000 - 35_000 - UNCLOCKED_NS;
/// Throttled handlers go on when the sum has fallen to this, so that they get a useful stretch of time.
const RESUME_NS: u64 = CAP_NS / 4 * 3;
const BUCKET_SHIFT: u32 = 16;
/// Buckets that count: 16 whole ones and the current one.
const WINDOW: u64 = 17;
const WINDOW_NS: u64 = WINDOW << BUCKET_SHIFT;
const BUCKETS: usize = 32;

/// The account. Written by the handler entries of one thread (which do not nest); read by anybody.
///
/// Progress class: wait-free; to ask, two plain loads while handlers are far from their share, 19 otherwise; to
/// charge, at most four loads and five stores.
#[derive(Debug)]
pub struct Duty {
    /// Low 32 bits of the bucket's number in the upper half, nanoseconds used in the lower half.
    buckets: [AtomicU64; BUCKETS],
    /// An upper bound on the window's sum that needs no summing: what was used since `epoch`, which lasts
    /// at least a window, and in the epoch before it.
    epoch: AtomicU64,
    epoch_used: AtomicU64,
    last_epoch_used: AtomicU64,
    /// What entries took that read no clock, since the last that did.
    unclocked: AtomicU64,
    /// Whether the receiver is, as far as is known, throttled: a hint, see `engine`.
    suppressed: AtomicBool,
}

impl Default for Duty {
    fn default() -> Self {
        Self::new()
    }
}

impl Duty {
    /// An empty account.
    pub fn new() -> Duty {
        Duty {
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            epoch: AtomicU64::new(0),
            epoch_used: AtomicU64::new(0),
            last_epoch_used: AtomicU64::new(0),
            unclocked: AtomicU64::new(0),
            suppressed: AtomicBool::new(false),
        }
    }

    #[inline]
    fn bucket(&self, number: u64) -> Option<&AtomicU64> {
        self.buckets.get(number as usize % BUCKETS)
    }

    #[inline]
    fn used_in(&self, number: u64) -> u64 {
        match self.bucket(number).map(|b| b.load(Ordering::Relaxed)) {
            Some(word) if word >> 32 == number & 0xffff_ffff => word & 0xffff_ffff,
            _ => 0,
        }
    }

    /// Adds what an entry that ended at `now` took. Handler entries only.
    #[inline]
    pub fn charge(&self, now: u64, ns: u64) {
        let ns = ns.saturating_add(self.unclocked.load(Ordering::Relaxed));
        self.unclocked.store(0, Ordering::Relaxed);
        let number = now >> BUCKET_SHIFT;
        let used = self.used_in(number).saturating_add(ns).min(0xffff_ffff);
        if let Some(bucket) = self.bucket(number) {
            bucket.store((number & 0xffff_ffff) << 32 | used, Ordering::Relaxed);
        }
        let age = now.wrapping_sub(self.epoch.load(Ordering::Relaxed));
        let mut used = self.epoch_used.load(Ordering::Relaxed);
        if age > WINDOW_NS {
            // Charges younger than a window would have begun a new epoch before: twice as old is too old.
            self.last_epoch_used.store(if age > 2 * WINDOW_NS { 0 } else { used }, Ordering::Relaxed);
            self.epoch.store(now, Ordering::Relaxed);
            used = 0;
        }
        self.epoch_used.store(used.saturating_add(ns), Ordering::Relaxed);
    }

    /// Adds an entry that found nothing, without a look at the clock, to what the next [`charge`](Self::charge) adds.
    /// False: there were enough of those, this one is to be charged. Handler entries only.
    #[inline]
    pub fn idle(&self) -> bool {
        let unclocked = self.unclocked.load(Ordering::Relaxed).saturating_add(IDLE_NS);
        let room = unclocked <= UNCLOCKED_NS;
        if room {
            self.unclocked.store(unclocked, Ordering::Relaxed);
        }
        room
    }

    /// Whether handlers are so far from their share that [`wait`](Self::wait) would be 0 at any time.
    #[inline]
    pub fn is_far(&self) -> bool {
        let (this, last) =
            (self.epoch_used.load(Ordering::Relaxed), self.last_epoch_used.load(Ordering::Relaxed));
        this.saturating_add(last) < CAP_NS
    }

    /// What handlers took in the window that ends at `now`.
    #[inline]
    pub fn used(&self, now: u64) -> u64 {
        let current = now >> BUCKET_SHIFT;
        let mut sum = 0u64;
        let mut back = 0;
        while back < WINDOW {
            sum = sum.wrapping_add(self.used_in(current.wrapping_sub(back)));
            back = back.wrapping_add(1);
        }
        sum
    }

    /// 0 when a handler may run now; else the nanoseconds (1 to about 1.1 ms) until it may.
    #[inline]
    pub fn wait(&self, now: u64) -> u64 {
        if self.is_far() { 0 } else { self.wait_by_sum(now) }
    }

    fn wait_by_sum(&self, now: u64) -> u64 {
        let mut sum = self.used(now);
        if sum < CAP_NS {
            return 0;
        }
        let current = now >> BUCKET_SHIFT;
        // Let the oldest buckets fall out of the window until enough has.
        let mut back = WINDOW;
        while back > 0 && sum > RESUME_NS {
            back = back.wrapping_sub(1);
            sum = sum.wrapping_sub(self.used_in(current.wrapping_sub(back)));
        }
        // The bucket `back` before the current one is the last that must fall out.
        let out_at = current.wrapping_sub(back).wrapping_add(WINDOW) << BUCKET_SHIFT;
        out_at.wrapping_sub(now).max(1)
    }

    /// Notes that the doorbell was suppressed.
    #[inline]
    pub fn set_suppressed(&self) {
        self.suppressed.store(true, Ordering::Relaxed);
    }

    /// Whether the doorbell was suppressed and nobody has lifted that since. A hint.
    #[inline]
    pub fn is_suppressed(&self) -> bool {
        self.suppressed.load(Ordering::Relaxed)
    }

    /// Notes that it was lifted.
    #[inline]
    pub fn clear_suppressed(&self) {
        self.suppressed.store(false, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_burst_may_take_its_share_and_then_waits() {
        let duty = Duty::new();
        let mut now = 1 << 40;
        let mut taken = 0;
        while duty.wait(now) == 0 {
            now += 23_000;
            taken += 23_000;
            duty.charge(now, 23_000);
        }
        assert!((440_000..500_000).contains(&taken), "{taken}");
        let wait = duty.wait(now);
        assert!((100_000..1_200_000).contains(&wait), "{wait}");
        assert_eq!(duty.wait(now + wait), 0);
    }

    #[test]
    fn entries_without_a_clock_are_charged_by_the_next_with_one() {
        let duty = Duty::new();
        let now = 1 << 40;
        assert_eq!((0..10).filter(|_| duty.idle()).count() as u64, UNCLOCKED_NS / IDLE_NS);
        duty.charge(now, 100);
        assert_eq!(duty.used(now), UNCLOCKED_NS + 100);
        assert!(duty.is_far() && duty.idle());
        duty.charge(now, CAP_NS);
        assert!(!duty.is_far());
    }

    proptest! {
        /// Whatever the entries' lengths and gaps, no millisecond has more than half of handlers.
        #[test]
        fn no_millisecond_has_more_than_half(
            steps in prop::collection::vec((0u64..120_000, 1u64..32_000), 1..400),
            start in 0u64..(1 << 50),
        ) {
            let duty = Duty::new();
            let mut now = start;
            let mut entries: Vec<(u64, u64)> = Vec::new();
            for (gap, length) in steps {
                now += gap;
                now += duty.wait(now);
                prop_assert_eq!(duty.wait(now), 0);
                prop_assert_eq!(duty.wait_by_sum(now), 0);
                let begun = now;
                now += length;
                duty.charge(now, length);
                entries.push((begun, now));
                let window = now.saturating_sub(1_000_000);
                let sum: u64 = entries.iter().map(|&(b, e)| e.saturating_sub(b.max(window))).sum();
                prop_assert!(sum <= 500_000, "{sum}");
            }
        }
    }
}
