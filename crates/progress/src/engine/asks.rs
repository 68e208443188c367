//! A program that asks again and again, where ranks share cores.
//!
//! Who tests in a loop until something is complete keeps the core from those who share it, for a time slice at a time, and among them may be the one that is to complete it. So
//! who has asked in vain, and asks in vain again so soon that it has computed nothing in between, gives the core away: after as long a look as a wait takes,
//! if looks pay, and at each question from then on. (Four ranks on two cores that pass 8 bytes on and test for them in a loop took 2300 us for it without, and take 3.)
//!
//! To somebody who computes the core is given, too, and comes back at the end of a time slice: a program that asks has no better use for it, and cannot sleep.

use super::Engine;
use super::wait::yield_now;
use crate::budget::Work;
use tocsin_sync::atomic::{AtomicU64, Ordering};
use tocsin_sync::clock::now_ns;

/// Who asks again within so many nanoseconds has computed nothing in between: time for a few questions of other things.
const CLOSE_NS: u64 = 300;

/// One rank's questions in vain that follow one another. Nothing is published by any of it, and of two threads that ask at once one may be forgotten.
#[derive(Debug)]
pub(super) struct Asks {
    /// When the last of them ended; 0: there was none since something was complete.
    last: AtomicU64,
    /// When the first of a row did.
    first: AtomicU64,
    /// When the first yield of a row was, or 0.
    yielded: AtomicU64,
}

impl Asks {
    pub(super) fn new() -> Asks {
        Asks { last: AtomicU64::new(0), first: AtomicU64::new(0), yielded: AtomicU64::new(0) }
    }
}

impl<W: Work> Engine<W> {
    /// A thread has asked whether something is complete, and it is not. Whether it has given its core away, and is to look once more. User threads only, outside of the engine.
    ///
    /// Progress class: wait-free where the rank has its core for itself, as far as is known; else blocking: the core comes back when the others on it have had their turns.
    #[inline]
    pub fn asked_in_vain(&self) -> bool {
        self.shares_core() && self.asked_again()
    }

    fn asked_again(&self) -> bool {
        let Asks { last, first, yielded } = &self.asks;
        let now = now_ns();
        // SYNC POINT: Relaxed: see the type; so are all below.
        let before = last.load(Ordering::Relaxed);
        if before == 0 || now.saturating_sub(before) > CLOSE_NS {
            first.store(now, Ordering::Relaxed);
            yielded.store(0, Ordering::Relaxed);
            last.store(now, Ordering::Relaxed);
            return false;
        }
        if now.saturating_sub(first.load(Ordering::Relaxed)) < self.yields.look_ns() {
            last.store(now, Ordering::Relaxed);
            return false;
        }
        if yielded.load(Ordering::Relaxed) == 0 {
            yielded.store(now, Ordering::Relaxed);
            self.yields.note_look(false);
        }
        // Others take it for one that waits.
        self.own.has_nothing_under_way();
        self.waits_here(now);
        yield_now();
        last.store(now_ns(), Ordering::Relaxed);
        true
    }

    /// What a thread has asked for is complete.
    #[inline]
    pub fn asked_well(&self) {
        if self.shares_core() && self.asks.last.load(Ordering::Relaxed) != 0 {
            self.asks.last.store(0, Ordering::Relaxed);
            if self.asks.yielded.load(Ordering::Relaxed) == 0 {
                self.yields.note_look(true);
            }
        }
    }
}
