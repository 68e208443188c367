//! When it is time for another look at what is kept and mostly stays so, as operations that nothing ever meets: seldom enough that looking, which takes longer the more there
//! is, takes a small part of the time.

use std::time::Duration;

use tocsin_sync::atomic::{AtomicU64, Ordering};
use tocsin_sync::clock::now_ns;

/// The next look is so many times as long after one as that took, or longer.
const TIMES: u64 = 16;
/// And this long after something was kept, or after a look that found something, nanoseconds; after each that did not twice as long, up to [`MOST_NS`].
const LEAST_NS: u64 = 1_000_000;
const MOST_NS: u64 = 128_000_000;

/// The time of the next look. Nothing is published by it, and of two threads that note something at once one may be forgotten for [`MOST_NS`].
#[derive(Debug)]
pub(super) struct Due {
    /// 0: nothing is kept.
    at: AtomicU64,
    /// Not before, whatever is kept meanwhile.
    earliest: AtomicU64,
    /// For how long the last look was waited for.
    interval: AtomicU64,
}

impl Default for Due {
    fn default() -> Due {
        Due { at: AtomicU64::new(0), earliest: AtomicU64::new(0), interval: AtomicU64::new(LEAST_NS) }
    }
}

impl Due {
    /// Something more is kept from now on.
    pub(super) fn keep(&self) {
        self.keep_from(now_ns());
    }

    fn keep_from(&self, now: u64) {
        // SYNC POINT: Relaxed: see the type; so are all here.
        self.interval.store(LEAST_NS, Ordering::Relaxed);
        let next = self.earliest.load(Ordering::Relaxed).max(now + LEAST_NS);
        let at = self.at.load(Ordering::Relaxed);
        if at == 0 || at > next {
            self.at.store(next, Ordering::Relaxed);
        }
    }

    /// For how long who waits may do so before a look, if something is kept. A load, where nothing is. While a panic unwinds nobody looks.
    #[inline]
    pub(super) fn left(&self) -> Option<Duration> {
        let at = self.at.load(Ordering::Relaxed);
        (at != 0 && !std::thread::panicking()).then(|| Duration::from_nanos(at.saturating_sub(now_ns())))
    }

    /// Whether something is kept, and it is time.
    #[inline]
    pub(super) fn has_come(&self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }

    /// Whether a look that is not due would be too soon after the last.
    pub(super) fn is_too_soon(&self) -> bool {
        now_ns() < self.earliest.load(Ordering::Relaxed)
    }

    /// One that was not due, and has begun at that time, has ended now.
    pub(super) fn looked_early(&self, begun: u64) {
        let now = now_ns();
        self.earliest.store(now + now.saturating_sub(begun).saturating_mul(TIMES), Ordering::Relaxed);
    }

    /// A look that has begun at that time has ended now, found so much, and left so much.
    pub(super) fn looked(&self, begun: u64, found: usize, left: usize) {
        self.looked_until(begun, now_ns(), found, left);
    }

    fn looked_until(&self, begun: u64, now: u64, found: usize, left: usize) {
        let interval = match (found, left) {
            (0, 1..) => self.interval.load(Ordering::Relaxed).saturating_mul(2).min(MOST_NS),
            _ => LEAST_NS,
        };
        let earliest = now + now.saturating_sub(begun).saturating_mul(TIMES);
        self.interval.store(interval, Ordering::Relaxed);
        self.earliest.store(earliest, Ordering::Relaxed);
        self.at.store(if left > 0 { earliest.max(now + interval) } else { 0 }, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_as_seldom_as_they_are_in_vain_and_take_long() {
        let due = Due::default();
        assert!(!due.has_come() && due.left().is_none() && !due.is_too_soon(), "nothing is kept");
        let at = |due: &Due| due.at.load(Ordering::Relaxed);
        let mut now = 1000 * MOST_NS;
        due.keep_from(now);
        assert_eq!(at(&due), now + LEAST_NS);
        due.keep_from(now + 5);
        assert_eq!(at(&due), now + LEAST_NS, "that is no reason to put it off");
        for interval in [2, 4, 8, 16, 32, 64, 128, 128] {
            now = at(&due);
            due.looked_until(now, now, 0, 1);
            assert_eq!(at(&due), now + interval * LEAST_NS);
        }
        due.keep_from(now + 7);
        assert_eq!(at(&due), now + 7 + LEAST_NS, "what is new may end soon");
        due.looked_until(now, now, 0, 1);
        assert_eq!(at(&due), now + 2 * LEAST_NS);
        due.looked_until(now, now, 3, 1);
        assert_eq!(at(&due), now + LEAST_NS);
        // One that takes long.
        due.looked_until(now - 100 * LEAST_NS, now, 3, 1);
        assert_eq!(at(&due), now + TIMES * 100 * LEAST_NS);
        due.keep_from(now + 7);
        assert_eq!(at(&due), now + TIMES * 100 * LEAST_NS);
        due.looked_until(now, now, 0, 0);
        assert!(at(&due) == 0 && due.left().is_none());
        due.keep_from(now);
        assert_eq!(at(&due), now + LEAST_NS);
    }

    #[test]
    fn what_is_kept_is_due_and_nobody_looks_in_a_panic() {
        let due = Due::default();
        due.keep();
        while !due.has_come() {}
        assert_eq!(due.left(), Some(Duration::ZERO));
        struct Asks<'a>(&'a Due);
        impl Drop for Asks<'_> {
            fn drop(&mut self) {
                assert!(!self.0.has_come() && self.0.left().is_none());
            }
        }
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _asks = Asks(&due);
            std::panic::resume_unwind(Box::new(()));
        }));
        assert!(unwound.is_err() && due.has_come());
        due.looked(now_ns() - MOST_NS, 0, 1);
        assert!(due.is_too_soon());
    }
}
