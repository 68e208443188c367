//! A program that asks again and again whether something is complete.
//!
//! # Where ranks share cores
//! Who tests in a loop keeps the core from those who share it, for a time slice at a time, and among them may be the one that is to complete what is tested. So who asks in vain, and asks the
//! same again with so little in between that it has computed nothing, gives the core away: after as long a look as a wait takes, if looks pay, and each time that it asks the same from then on. (Four ranks on two cores
//! that pass 8 bytes on and test for them in a loop took 2300 us for it without, and take 2.) It goes by the experience of all yields (`yields.rs`): not beside somebody who computes, nor while that has cost it too much.
//!
//! # Whether it waits
//! Who has posted something large is taken to compute after that, or to wait, by what it did the last times (`soon.rs`). Who asks right after the post, and the same again right after that, waits,
//! and so does whose first question finds it complete, which it may have copied for that; who asks once in vain, or computes in between, does not. (Two ranks that exchange 64 KiB and test for them took 14 to 17 us, by the kernel's single copies, and take 6.)

use super::Engine;
use super::together::others_had_it;
use crate::budget::Work;
use tocsin_sync::atomic::{AtomicU64, Ordering};
use tocsin_sync::clock::now_ns;
use tocsin_sync::thread;

/// Between two questions with no more than so many nanoseconds in between nothing was computed: time for what a loop does, and some questions of what is complete.
const CLOSE_NS: u64 = 150;
/// A row whose first question does not come again for so long goes on with another one's.
const LOST_NS: u64 = 20_000;

/// One rank's questions that follow one another at once: a row. Nothing is published by any of it, and of two threads that ask at once one may be forgotten.
#[derive(Debug)]
pub(super) struct Asks {
    /// What the first of the row asked for, and when that was asked last; 0: there is no row.
    what: AtomicU64,
    asked: AtomicU64,
    /// When the last question ended in vain, or 0, and when the first began.
    last: AtomicU64,
    first: AtomicU64,
    /// Whether the core was given away in the row.
    yielded: AtomicU64,
    /// The end of the last post that was asked about right after; plus one: and that says nothing.
    early: AtomicU64,
}

impl Asks {
    pub(super) fn new() -> Asks {
        let [what, asked, last, first, yielded, early] = [(); 6].map(|()| AtomicU64::new(0));
        Asks { what, asked, last, first, yielded, early }
    }

    /// A question begins. Whether it follows the last one at once, and whether it is the one with which the row began.
    fn begins(&self, what: u64, now: u64) -> (bool, bool) {
        // SYNC POINT: Relaxed: see the type; so are all below.
        let first = self.what.load(Ordering::Relaxed);
        let close = first != 0 && now.saturating_sub(self.last.load(Ordering::Relaxed)) < CLOSE_NS;
        if !close {
            self.first.store(now, Ordering::Relaxed);
            self.last.store(0, Ordering::Relaxed);
            self.yielded.store(0, Ordering::Relaxed);
        }
        let again = close && first == what;
        if !close || again || now.saturating_sub(self.asked.load(Ordering::Relaxed)) > LOST_NS {
            self.what.store(what, Ordering::Relaxed);
            self.asked.store(now, Ordering::Relaxed);
        }
        (close, again)
    }
}

impl<W: Work> Engine<W> {
    /// A thread is about to ask whether something is complete that was not the last time: `what` is not 0, and the same whenever that is asked for. Whether it asks that again, and has computed nothing in between: for
    /// [`asked_in_vain`](Self::asked_in_vain). User threads only; wait-free.
    #[inline]
    pub fn asks(&self, what: u64) -> bool {
        let posted = self.soon.unknown_since();
        (self.shares_core() || posted.is_some()) && self.asks_now(what, posted)
    }

    fn asks_now(&self, what: u64, posted: Option<u64>) -> bool {
        let now = now_ns();
        let (close, again) = self.asks.begins(what, now);
        let early = &self.asks.early;
        let Some(posted) = posted else { return again };
        let (armed, settled) = (posted, posted.wrapping_add(1));
        let late = now.saturating_sub(posted) >= self.soon_ns();
        match early.load(Ordering::Relaxed) {
            word if word == armed && again => self.soon_follows(true),
            word if word == armed && close => {}
            // It has computed before, or since.
            _ if late => self.soon_follows(false),
            word if word == armed => early.store(settled, Ordering::Relaxed),
            word if word != settled => early.store(armed, Ordering::Relaxed),
            _ => {}
        }
        again
    }

    /// It is not complete. `again`: what [`asks`](Self::asks) said. Whether the thread has given its core away, and is to look once more. Outside of the engine.
    ///
    /// Progress class: wait-free where the rank has its core for itself, as far as is known; else blocking: the core comes back when the others on it have had their turns.
    #[inline]
    pub fn asked_in_vain(&self, again: bool) -> bool {
        if self.shares_core() {
            return self.asked_beside_others(again);
        }
        if self.soon.unknown_since().is_some() {
            self.asks.last.store(now_ns(), Ordering::Relaxed);
        }
        false
    }

    fn asked_beside_others(&self, again: bool) -> bool {
        let Asks { last, first, yielded, .. } = &self.asks;
        let now = now_ns();
        last.store(now, Ordering::Relaxed);
        let is_long = now.saturating_sub(first.load(Ordering::Relaxed)) >= self.yields.look_ns();
        // Who is inside, be it this thread in a user's operator, keeps others from going on.
        let may = again && is_long && !self.token.is_busy() && !thread::in_handler();
        if !may || self.yields.is_barred(now) || self.would_yield_to_computing(now) {
            return false;
        }
        if yielded.load(Ordering::Relaxed) == 0 {
            yielded.store(1, Ordering::Relaxed);
            self.yields.note_look(false);
        }
        // Others take it for one that waits.
        self.own.has_nothing_under_way();
        let back = self.yields.give_way(now);
        if self.config.yield_ns == 0 && !others_had_it(now, back) {
            self.together.note(false);
        }
        // It may compute from now on. Who goes on to ask says so anew before long.
        let now = now_ns();
        self.own.computes_from(now, thread::core());
        last.store(now, Ordering::Relaxed);
        true
    }

    /// It is complete. `posted`: it is of a kind that posts are [told of](Self::begins_post).
    #[inline]
    pub fn asked_well(&self, posted: bool) {
        let Asks { what, last, yielded, early, .. } = &self.asks;
        if posted && self.soon.unknown_since().is_some_and(|end| end == early.load(Ordering::Relaxed)) {
            // Mostly this thread has copied meanwhile, which takes as long as it takes.
            self.soon_follows(true);
        }
        if !self.shares_core() || what.load(Ordering::Relaxed) == 0 {
            return;
        }
        what.store(0, Ordering::Relaxed);
        // What is there from the start says nothing of looks.
        if last.load(Ordering::Relaxed) != 0 && yielded.load(Ordering::Relaxed) == 0 {
            self.yields.note_look(true);
        }
    }
}
