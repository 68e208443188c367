//! Ranks that share cores unevenly, and have them evenly from then on.
//!
//! Where ranks wait for one another, each turn on a core takes a switch: with three of four ranks on one of two cores a collective takes half as long again as with two on each. The system
//! evens that out, but not soon: threads that have just run count as hot in their caches, and a core that is never idle looks for others' threads once in some 30 ms, which it then takes
//! at its third or fourth look; and now and then it makes even cores uneven. So where ranks share cores each that waits, or has just posted, says on which ([`tocsin_doorbell::Descriptor::is_where`]), and who gives its core away looks
//! once in [`LOOK_NS`] whether two more ranks wait there than on another core, on which some do, too, and nobody computes. If it is so [twice](ROW) in a row, it moves there: the first of
//! those on this core, so that others do not come along. It is as free as before then, and the system moves it again as it likes ([`tocsin_sync::affinity`]).
//!
//! The system may have had its reasons, such as a stranger on that core. So if cores are uneven again before [so many looks](SETTLED) have found them even, or come back late, the next has to wait longer, each
//! time [`GROWTH`] times, up to [`MOST_NS`].

use tocsin_sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Between two looks, nanoseconds: each reads a line or two of each other rank.
const LOOK_NS: u64 = 250_000;
/// So many looks in a row find it uneven before a move.
const ROW: u32 = 2;
/// Between two moves, at first, at most, and how that grows while the cores do not stay even.
const FIRST_NS: u64 = 1_000_000;
const MOST_NS: u64 = 1_000_000_000;
const GROWTH: u64 = 8;
/// After a move that lasts, so many looks find even cores: some 20 ms in which ranks give cores away.
const SETTLED: u32 = 80;

/// One rank's looks and moves. Nothing is published by any of it, and of two threads that look at once one may be forgotten.
#[derive(Debug)]
pub(super) struct Spread {
    looked_at: AtomicU64,
    row: AtomicU32,
    /// Looks since the last move, or core that came back late, that found even cores.
    even: AtomicU32,
    moved_at: AtomicU64,
    /// How long after that the next may be.
    interval: AtomicU64,
}

impl Spread {
    pub(super) fn new() -> Spread {
        Spread {
            looked_at: AtomicU64::new(0),
            row: AtomicU32::new(0),
            even: AtomicU32::new(0),
            moved_at: AtomicU64::new(0),
            interval: AtomicU64::new(FIRST_NS),
        }
    }

    /// Whether to look now; the next time is later, then.
    pub(super) fn is_due(&self, now: u64) -> bool {
        // SYNC POINT: Relaxed: see the type; so are all below.
        let since = now.saturating_sub(self.looked_at.load(Ordering::Relaxed));
        if since < LOOK_NS {
            return false;
        }
        self.looked_at.store(now, Ordering::Relaxed);
        if since >= 4 * LOOK_NS {
            // What was seen then says nothing of now.
            self.row.store(0, Ordering::Relaxed);
        }
        true
    }

    /// What a look found: the core that has fewer. Whether to move there.
    pub(super) fn note(&self, now: u64, roomier: Option<u32>) -> Option<u32> {
        let since = now.saturating_sub(self.moved_at.load(Ordering::Relaxed));
        let interval = self.interval.load(Ordering::Relaxed);
        if roomier.is_none() {
            self.row.store(0, Ordering::Relaxed);
            let even = self.even.load(Ordering::Relaxed).saturating_add(1);
            self.even.store(even, Ordering::Relaxed);
            if even == SETTLED {
                self.interval.store(FIRST_NS, Ordering::Relaxed);
            }
            return None;
        }
        let row = self.row.load(Ordering::Relaxed).saturating_add(1);
        self.row.store(row, Ordering::Relaxed);
        if row < ROW || since < interval {
            return None;
        }
        self.row.store(0, Ordering::Relaxed);
        self.put_off(now, GROWTH);
        roomier
    }

    /// A core has come back late: who moves then may be in somebody's way.
    pub(super) fn note_late(&self, now: u64) {
        self.put_off(now, 1);
    }

    fn put_off(&self, now: u64, times: u64) {
        let interval = self.interval.load(Ordering::Relaxed).saturating_mul(times).min(MOST_NS);
        self.interval.store(interval, Ordering::Relaxed);
        self.moved_at.store(now, Ordering::Relaxed);
        self.even.store(0, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// After how long, from a time on, it moves, where it finds the same at each look.
    fn moves_after(spread: &Spread, from: u64) -> u64 {
        let mut now = from;
        loop {
            now += LOOK_NS;
            assert!(spread.is_due(now) && !spread.is_due(now) && !spread.is_due(now + LOOK_NS - 1));
            if spread.note(now, Some(7)) == Some(7) {
                return now - from;
            }
        }
    }

    #[test]
    fn what_does_not_last_is_tried_less_often() {
        let spread = Spread::new();
        let start = 10 * MOST_NS;
        assert_eq!(moves_after(&spread, start), u64::from(ROW) * LOOK_NS);
        let mut now = start + u64::from(ROW) * LOOK_NS;
        for interval in [8, 64, 512, 1000, 1000].map(|ms| ms * 1_000_000) {
            assert_eq!(moves_after(&spread, now), interval);
            now += interval;
        }
        // Looks that nobody made say nothing.
        now += MOST_NS / 2;
        assert_eq!(spread.note(now, None), None);
        assert_eq!(moves_after(&spread, now), MOST_NS / 2);
        now += MOST_NS / 2;
        // It lasted.
        for _ in 0..SETTLED {
            now += LOOK_NS;
            assert_eq!(spread.note(now, None), None);
        }
        assert_eq!(moves_after(&spread, now), u64::from(ROW) * LOOK_NS);
    }

    #[test]
    fn one_look_is_none() {
        let spread = Spread::new();
        for look in 0..100 {
            let now = MOST_NS + look * LOOK_NS;
            assert_eq!(spread.note(now, (look % 2 == 0).then_some(1)), None);
        }
        // Nor are two that are long apart.
        for look in 0..100 {
            let now = 2 * MOST_NS + 4 * look * LOOK_NS;
            assert!(spread.is_due(now));
            assert_eq!(spread.note(now, Some(1)), None);
        }
    }

    #[test]
    fn a_core_that_comes_back_late_puts_it_off() {
        let spread = Spread::new();
        let start = 10 * MOST_NS;
        spread.note_late(start);
        assert_eq!(moves_after(&spread, start), FIRST_NS);
    }
}
