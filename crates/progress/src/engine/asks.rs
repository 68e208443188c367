//! A program that asks again and again, where ranks share cores.
//!
//! Who tests in a loop until something is complete keeps the core from those who share it, for a time slice at a time, and among them may be the one that is to complete it. So
//! who has asked in vain, and asks in vain again so soon that it has computed nothing in between, gives the core away: after as long a look as a wait takes,
//! if looks pay, and at each question from then on. (Four ranks on two cores that pass 8 bytes on and test for them in a loop took 2300 us for it without, and take 3.)
//!
//! To somebody who computes the core is given, too, and comes back at the end of a time slice: a program that asks has no better use for it, and cannot sleep.
//!
//! # Whether it waits
//! Who has posted something large is taken to compute after that, or to wait, by what it did the last times (`soon.rs`). Who asks right after the post, and asks again right after that, waits,
//! and may have copied what it asks for meanwhile; who asks once, or computes in between, does not. (Two ranks that exchange 64 KiB and test for them took 14 to 17 us, the kernel's single copies, and take 6.)

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
    /// The end of the last post that was asked about right after.
    early: AtomicU64,
}

impl Asks {
    pub(super) fn new() -> Asks {
        Asks {
            last: AtomicU64::new(0),
            first: AtomicU64::new(0),
            yielded: AtomicU64::new(0),
            early: AtomicU64::new(0),
        }
    }
}

impl<W: Work> Engine<W> {
    /// A thread is about to ask whether something is complete. Who does so right after a post, and again and again, waits.
    #[inline]
    pub fn asks(&self) {
        if let Some(posted) = self.soon.unknown_since() {
            self.asks_after(posted);
        }
    }

    fn asks_after(&self, posted: u64) {
        let Asks { last, early, .. } = &self.asks;
        let now = now_ns();
        // SYNC POINT: Relaxed: see the type; so are all below.
        if early.load(Ordering::Relaxed) != posted {
            if now.saturating_sub(posted) < self.soon_ns() {
                early.store(posted, Ordering::Relaxed);
            }
        } else if now.saturating_sub(last.load(Ordering::Relaxed)) < CLOSE_NS {
            self.note_asks();
        }
    }

    /// A thread has asked whether something is complete, and it is not. Whether it has given its core away, and is to look once more. User threads only, outside of the engine.
    ///
    /// Progress class: wait-free where the rank has its core for itself, as far as is known; else blocking: the core comes back when the others on it have had their turns.
    #[inline]
    pub fn asked_in_vain(&self) -> bool {
        if self.shares_core() {
            return self.asked_again();
        }
        if self.soon.unknown_since().is_some() {
            self.asks.last.store(now_ns(), Ordering::Relaxed);
        }
        false
    }

    fn asked_again(&self) -> bool {
        let Asks { last, first, yielded, .. } = &self.asks;
        let now = now_ns();
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
        if self.soon.unknown_since().is_some_and(|posted| posted == self.asks.early.load(Ordering::Relaxed)) {
            // It was over at the first question, be it that it took long because this thread has copied.
            self.soon.forget();
        }
        if self.shares_core() && self.asks.last.load(Ordering::Relaxed) != 0 {
            self.asks.last.store(0, Ordering::Relaxed);
            if self.asks.yielded.load(Ordering::Relaxed) == 0 {
                self.yields.note_look(true);
            }
        }
    }
}
