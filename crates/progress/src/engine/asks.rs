//! A program that asks again and again whether something is complete.
//!
//! # Where ranks share cores
//! Who tests in a loop keeps the core from those who share it, for a time slice at a time, and among them may be the one that is to complete what is tested. So who asks in vain, and asks the
//! same again with so little in between that it has computed nothing, gives the core away: after as long a look as a wait takes, if looks pay, and each time that it asks the same from then on. (Four ranks on two cores
//! that pass 8 bytes on and test for them in a loop took 2300 us for it without, and take 2.) Who waits yields only as long as that pays, and sleeps else;
//! who asks cannot sleep, and to hold the core buys it nothing that the system would not give it: it yields to whoever is there, who may compute, and have the core for a time slice.
//!
//! # Whether it waits
//! Who has posted something large is taken to compute after that, or to wait, by what it did the last times (`soon.rs`). Who asks right after the post, and the same again right after that, waits,
//! and so does whose first question finds it complete, which it may have copied for that; who asks once in vain, or computes in between, does not. (Two ranks that exchange 64 KiB and test for them took 14 to 17 us, by the kernel's single copies, and take 6.)

use super::Engine;
use super::together::others_had_it;
use super::wait::yield_now;
use crate::budget::Work;
use tocsin_sync::atomic::{AtomicU64, Ordering};
use tocsin_sync::clock::now_ns;
use tocsin_sync::thread;

/// Between two questions with no more than so many nanoseconds in between nothing was computed: time for what a loop does, and some questions of what is complete.
const CLOSE_NS: u64 = 150;
/// The same, where it is to be told from computing that something large could be hidden behind.
const SOON_CLOSE_NS: u64 = 1_000;
/// A row whose first question does not come again for so long, or half of what it has lasted, goes on with another one's.
const LOST_NS: u64 = 20_000;
/// Of a row whose first question was answered: the next one takes its place.
const ANSWERED: u64 = u64::MAX;

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
    /// What was asked for then.
    early_what: AtomicU64,
}

impl Asks {
    pub(super) fn new() -> Asks {
        let [what, asked, last, first, yielded, early, early_what] = [(); 7].map(|()| AtomicU64::new(0));
        Asks { what, asked, last, first, yielded, early, early_what }
    }

    /// A question begins. Whether it is the one with which the row began, and nothing was computed since, and how long after the last one it is.
    fn begins(&self, what: u64, now: u64) -> (bool, u64) {
        // SYNC POINT: Relaxed: see the type; so are all below.
        let first = self.what.load(Ordering::Relaxed);
        let gap = now.saturating_sub(self.last.load(Ordering::Relaxed));
        let close = first != 0 && gap < CLOSE_NS;
        if !close {
            self.first.store(now, Ordering::Relaxed);
            self.last.store(0, Ordering::Relaxed);
            self.yielded.store(0, Ordering::Relaxed);
        }
        let again = close && first == what;
        let lasts = now.saturating_sub(self.first.load(Ordering::Relaxed));
        let is_lost = || now.saturating_sub(self.asked.load(Ordering::Relaxed)) > LOST_NS.max(lasts / 2);
        if !close || again || first == ANSWERED || is_lost() {
            self.what.store(what, Ordering::Relaxed);
            self.asked.store(now, Ordering::Relaxed);
        }
        (again, gap)
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
        let (again, gap) = self.asks.begins(what, now);
        let Asks { early, early_what, .. } = &self.asks;
        let close = gap < SOON_CLOSE_NS;
        let Some(posted) = posted else { return again };
        let (armed, settled) = (posted, posted.wrapping_add(1));
        let late = now.saturating_sub(posted) >= self.soon_ns();
        let word = early.load(Ordering::Relaxed);
        if word == armed && close {
            if early_what.load(Ordering::Relaxed) == what {
                self.soon_follows(true);
            }
        } else if late {
            // It has computed before, or since.
            self.soon_follows(false);
        } else if word == armed {
            early.store(settled, Ordering::Relaxed);
        } else if word != settled {
            early.store(armed, Ordering::Relaxed);
            early_what.store(what, Ordering::Relaxed);
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
        if !again || !is_long || thread::in_handler() {
            return false;
        }
        if yielded.load(Ordering::Relaxed) == 0 {
            yielded.store(1, Ordering::Relaxed);
            self.yields.note_look(false);
        }
        // Others take it for one that waits.
        let computed = self.own.has_nothing_under_way();
        self.waits_here(now);
        yield_now();
        let back = now_ns();
        if self.config.yield_ns == 0 && !others_had_it(now, Some(back)) {
            self.together.note(false);
        }
        if computed && self.is_crowded() {
            // It may compute from now on. Who goes on to ask takes that back before long.
            self.own.computes_from(back, thread::core());
        }
        last.store(back, Ordering::Relaxed);
        true
    }

    /// It is complete. `posted`: it is of a kind that posts are [told of](Self::begins_post).
    #[inline]
    pub fn asked_well(&self, what: u64, posted: bool) {
        let unknown = self.soon.unknown_since();
        if self.shares_core() || unknown.is_some() {
            self.asked_well_now(what, posted, unknown);
        }
    }

    /// A thread is about to ask for something posted that is complete already: it waits, if only for that, unless it has computed.
    #[inline]
    pub fn asks_for_what_is_over(&self) {
        let Some(end) = self.soon.unknown_since() else { return };
        let Asks { last, early, .. } = &self.asks;
        let close = || now_ns().saturating_sub(last.load(Ordering::Relaxed)) < SOON_CLOSE_NS;
        if end == early.load(Ordering::Relaxed) && close() {
            // What it asked for before has taken its time.
            self.soon_follows(true);
        } else {
            self.note_wait();
        }
    }

    fn asked_well_now(&self, what: u64, posted: bool, unknown: Option<u64>) {
        let Asks { what: of_row, last, first, yielded, early, .. } = &self.asks;
        if posted && unknown.is_some_and(|end| end == early.load(Ordering::Relaxed)) {
            // Mostly this thread has copied meanwhile, which takes as long as it takes.
            self.soon_follows(true);
        }
        // What is there from the start says nothing of looks.
        let looked = last.load(Ordering::Relaxed) != 0 && yielded.load(Ordering::Relaxed) == 0;
        if looked && self.shares_core() {
            self.yields.note_look(true);
        }
        // The row goes on: nothing was computed. The looks begin anew.
        let now = now_ns();
        if of_row.load(Ordering::Relaxed) == what {
            of_row.store(ANSWERED, Ordering::Relaxed);
        }
        first.store(now, Ordering::Relaxed);
        yielded.store(0, Ordering::Relaxed);
        last.store(now, Ordering::Relaxed);
    }
}
