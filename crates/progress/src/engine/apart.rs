//! Ranks that wait for one another in turn on one core, while another core may idle.
//!
//! Where each wait ends by its first yield, and never by a look, who sends runs on this core, and none but these two take part: they take a switch for each message. The system
//! moves threads that always run no sooner than it balances its cores, milliseconds later, and often not then; but whom it wakes it places on an idle core, if
//! there is one. So after so many such waits in a row the next one sleeps at once. If that was in vain, twice as many have to pass before the next.
//! (Half round trips of 1 KiB between two of four ranks on two cores: 0.4 us, and 1.0 to 1.4 where the two share one. That was so in 125 of 300 runs, and is in 45 by this and by what
//! `yields.rs` does where waits are long; a ring of the four takes 1.9 % longer. `bench pingpong` and `bench ring`, `--ranks 4 --sizes 1K`.)

use tocsin_sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// So many waits in a row end by yields before the first sleep: some 100 us.
pub(super) const FIRST: u32 = 64;
/// And before each at most: several milliseconds, in which a sleep and a wake are nothing.
const MOST: u32 = 2048;

/// One rank's waits. Nothing is published by any of it, and of two threads that note something at once one may be forgotten.
#[derive(Debug)]
pub(super) struct Apart {
    /// Waits in a row that one yield has ended.
    row: AtomicU32,
    /// So many are to be, for the next sleep.
    due: AtomicU32,
    asked: AtomicBool,
}

impl Apart {
    pub(super) fn new() -> Apart {
        Apart { row: AtomicU32::new(0), due: AtomicU32::new(FIRST), asked: AtomicBool::new(false) }
    }

    /// Yields have ended a wait: one, or several, in which case somebody else was waited for.
    pub(super) fn note_yielded(&self, several: bool) {
        if several {
            return self.note_met();
        }
        // SYNC POINT: Relaxed: see the type; so are all below.
        let row = self.row.load(Ordering::Relaxed).saturating_add(1);
        let due = self.due.load(Ordering::Relaxed);
        if row < due {
            return self.row.store(row, Ordering::Relaxed);
        }
        self.row.store(0, Ordering::Relaxed);
        self.due.store(due.saturating_mul(2).min(MOST), Ordering::Relaxed);
        self.asked.store(true, Ordering::Relaxed);
    }

    /// A message has come while this thread had its core: its sender runs on another one.
    pub(super) fn note_met(&self) {
        if self.row.load(Ordering::Relaxed) > 0 {
            self.row.store(0, Ordering::Relaxed);
        }
        self.note_slept();
    }

    /// Whether the next wait is to sleep at once.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// A wait sleeps.
    pub(super) fn note_slept(&self) {
        if self.is_asked() {
            self.asked.store(false, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// After how many waits that yields end it is asked.
    fn after(apart: &Apart) -> u32 {
        let mut waits = 0;
        while !apart.is_asked() {
            apart.note_yielded(false);
            waits += 1;
        }
        apart.note_slept();
        waits
    }

    #[test]
    fn what_is_in_vain_is_tried_less_often() {
        let apart = Apart::new();
        let mut due = FIRST;
        for _ in 0..10 {
            assert_eq!(after(&apart), due);
            assert!(!apart.is_asked());
            due = (2 * due).min(MOST);
        }
        assert_eq!(due, MOST);
    }

    #[test]
    fn whose_sender_runs_elsewhere_stays() {
        let apart = Apart::new();
        for row in 0..10 * MOST {
            (1..FIRST).for_each(|_| apart.note_yielded(false));
            if row.is_multiple_of(2) {
                apart.note_met()
            } else {
                apart.note_yielded(true)
            }
            assert!(!apart.is_asked());
        }
        assert_eq!(after(&apart), FIRST);
        (0..2 * FIRST).for_each(|_| apart.note_yielded(false));
        assert!(apart.is_asked());
        apart.note_met();
        assert!(!apart.is_asked(), "it has moved without that");
    }
}
