//! When it is time for another look at what is kept and mostly stays so, as operations that nothing ever meets: seldom enough that looking, which takes longer the more there
//! is, takes a small part of the time.

use std::time::Duration;

use tocsin_sync::atomic::{AtomicU64, Ordering};
use tocsin_sync::clock::now_ns;

/// The next look is so many times as long after one as that took, and after one that found something this long at least, nanoseconds; after each that did not twice as long, up
/// to [`MOST_NS`].
const TIMES: u64 = 16;
const LEAST_NS: u64 = 1_000_000;
const MOST_NS: u64 = 128_000_000;

/// The time of the next look. What is kept is behind a lock, under which this is written, and nothing is published by it.
#[derive(Debug)]
pub(super) struct Due {
    /// 0: nothing is kept.
    at: AtomicU64,
    /// For how long the last look was waited for.
    interval: AtomicU64,
}

impl Default for Due {
    fn default() -> Due {
        Due { at: AtomicU64::new(0), interval: AtomicU64::new(LEAST_NS) }
    }
}

impl Due {
    /// Something more is kept from now on.
    pub(super) fn keep(&self) {
        if self.is_first() {
            self.interval.store(LEAST_NS, Ordering::Relaxed);
            self.at.store(now_ns() + LEAST_NS, Ordering::Relaxed);
        }
    }

    /// Whether something is kept, and it is time. A load, where nothing is.
    #[inline]
    pub(super) fn has_come(&self) -> bool {
        // SYNC POINT: Relaxed: see the type; so are all here.
        let at = self.at.load(Ordering::Relaxed);
        at != 0 && now_ns() >= at
    }

    /// Until when who sleeps may do so, if something is kept.
    pub(super) fn left(&self) -> Option<Duration> {
        let at = self.at.load(Ordering::Relaxed);
        (at != 0).then(|| Duration::from_nanos(at.saturating_sub(now_ns())))
    }

    /// Whether nothing was kept so far.
    pub(super) fn is_first(&self) -> bool {
        self.at.load(Ordering::Relaxed) == 0
    }

    /// A look that has begun at that time has ended now, found so much, and left so much.
    pub(super) fn looked(&self, begun: u64, found: usize, left: usize) {
        let now = now_ns();
        let interval = match found {
            0 => self.interval.load(Ordering::Relaxed).saturating_mul(2).min(MOST_NS),
            _ => LEAST_NS,
        };
        self.interval.store(interval, Ordering::Relaxed);
        let next = now + interval.max(now.saturating_sub(begun).saturating_mul(TIMES));
        self.at.store(if left > 0 { next } else { 0 }, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long after a look, that took so long, the next one is, in LEAST_NS.
    fn next_after(due: &Due, took: u64, found: usize) -> u64 {
        due.looked(now_ns() - took * LEAST_NS, found, 1);
        assert!(!due.has_come());
        // The clock goes on meanwhile.
        due.left().unwrap().as_nanos().div_ceil(u128::from(LEAST_NS)) as u64
    }

    #[test]
    fn looks_are_as_seldom_as_they_are_in_vain_and_take_long() {
        let due = Due::default();
        assert!(due.is_first() && !due.has_come() && due.left().is_none(), "nothing is kept");
        due.keep();
        assert!(!due.is_first() && due.left().is_some_and(|left| left.as_nanos() <= u128::from(LEAST_NS)));
        while !due.has_come() {}
        due.keep();
        assert!(due.has_come(), "that is no reason to put it off");
        for interval in [2, 4, 8, 16, 32, 64, 128, 128] {
            let next = next_after(&due, 0, 0);
            assert!((interval / 2 + 1..=interval).contains(&next), "{next} for {interval}");
        }
        assert!(next_after(&due, 0, 1) <= 1);
        assert!(next_after(&due, 100, 0) > 1000);
        due.looked(now_ns(), 1, 0);
        assert!(due.is_first());
    }
}
