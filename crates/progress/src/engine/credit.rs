//! Whether something pays that can only be found out by trying, such as to look for a moment before doing what costs more.
//!
//! It is done as long as it mostly succeeds, and once in a while when it does not, as an adaptive lock spins.

use tocsin_sync::atomic::{AtomicU32, Ordering};

/// What successes earn counts up to this.
const MOST: u32 = 16;
/// Where it does not pay, one try in so many is made all the same.
const TRY: u32 = 32;

/// One rank's experience with it. Nothing is published by any of it, and of two threads that note something at once one may be
/// forgotten.
#[derive(Debug)]
pub(super) struct Credit {
    /// What a success earns and a failure costs: as what each of them saves or takes.
    gain: u32,
    cost: u32,
    credit: AtomicU32,
    /// Failures, and tries not made, since the last that was made without credit.
    since: AtomicU32,
}

impl Credit {
    pub(super) fn new(gain: u32, cost: u32) -> Credit {
        Credit { gain, cost, credit: AtomicU32::new(MOST), since: AtomicU32::new(0) }
    }

    /// Of what does not pay as far as is known.
    pub(super) fn unproven(gain: u32, cost: u32) -> Credit {
        Credit { credit: AtomicU32::new(0), ..Credit::new(gain, cost) }
    }

    /// Whether it mostly succeeds.
    #[inline]
    pub(super) fn is_proven(&self) -> bool {
        // SYNC POINT: Relaxed: see the type; so are all below.
        self.credit.load(Ordering::Relaxed) > 0
    }

    /// Whether to try. The same until [`note`](Self::note) is called.
    pub(super) fn is_good(&self) -> bool {
        self.is_proven() || self.since.load(Ordering::Relaxed) == 0
    }

    /// How it ended; not to have tried is a failure, too.
    pub(super) fn note(&self, success: bool) {
        let before = self.credit.load(Ordering::Relaxed);
        let after = match success {
            true => before.saturating_add(self.gain).min(MOST),
            false => before.saturating_sub(self.cost),
        };
        if after != before {
            self.credit.store(after, Ordering::Relaxed);
        }
        if !success {
            let since = self.since.load(Ordering::Relaxed).wrapping_add(1) % TRY;
            self.since.store(since, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_given_up_and_tried_again() {
        let credit = Credit::new(1, 4);
        let good = |tries: u32, success: bool| {
            let made = (0..tries).filter(|_| {
                let good = credit.is_good();
                credit.note(success);
                good
            });
            made.count()
        };
        assert_eq!(good(1, false), 1);
        assert!(credit.is_good(), "one that fails does not end it");
        good(TRY, false);
        assert_eq!(good(10 * TRY, false), 10);
        credit.note(true);
        assert_eq!(good(100, true), 100);
        assert_eq!(good(MOST / 4, false), (MOST / 4) as usize);
        assert!(good(TRY, false) <= 1);
    }

    #[test]
    fn what_nobody_expects_to_pay_is_tried_all_the_same() {
        let credit = Credit::unproven(4, 1);
        assert!(credit.is_good() && !credit.is_proven());
        let tried = (0..10 * TRY).filter(|_| {
            let good = credit.is_good();
            credit.note(false);
            good
        });
        assert_eq!(tried.count(), 10);
        credit.note(true);
        assert!(credit.is_proven());
        (0..4).for_each(|_| credit.note(false));
        assert!(!credit.is_proven());
    }
}
