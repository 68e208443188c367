//! When a waiter of a crowded node gives way to the other ranks on its core by `sched_yield`, and for how long it looks before.
//!
//! Among ranks that all wait for one another's next message a yield is quicker than a sleep and a wake, several times. Beside a rank
//! that computes it is worse than both: the core comes back at the end of a time slice, milliseconds later, and all that time the
//! waiter looks awake, so that nobody wakes it. Of a rank that computes with operations under way it is known (`beside.rs`); of others, and of
//! strangers, nothing tells beforehand which of the two it will be. So waiters yield until it has cost them something, and then not for [`FIRST`] times as long as that: no longer, because it may have been a stranger or the
//! host of a virtual machine, and a crowd waits for the one of them that does not yield. If it comes again soon, for [`GROWTH`] times as long each time, up to
//! [`REPAID`] times, so that what keeps happening takes one part in [`REPAID`] of the time; each kind of loss by itself. It costs what a core was away for, if that was
//! [`LATE_NS`] or more, and if yields have not saved as much since the last such loss: each wait that they end saves a sleep, so that ranks that are busy with one another do not begin
//! to sleep, and lose several times as much, because a stranger takes a time slice of them now and then. And of a wait that ended asleep after all, it costs no more than the sleep,
//! [`ASLEEP_NS`]: its yields have kept nobody from anything.
//!
//! Before a rank interrupts others, it yields likewise: those who only wait for a core enter the library by themselves then, which costs nobody
//! a signal. If somebody computes on that core, the ring is late by a time slice, which bars both.
//!
//! Nor does anything tell whether the message will come from a rank that runs, which takes a look of a microsecond, or from one
//! that waits for this core, which is kept from it by that. A rank goes by what its last waits have met, as an adaptive lock does; and likewise,
//! when a yield has given the core back and nothing has come yet, by whether it came soon the last times: to give the core away at once would
//! take two switches then, in the middle of which the message comes.
//!
//! Waiters that yield keep a core busy, so that the system places nobody there. Where waits are mostly long ([`LASTS_NS`]) they yield for one part in [`PART`] of the time, and sleep.

use super::apart::Apart;
use super::beside::Beside;
use super::credit::Credit;
use super::spread::Spread;
use super::wait::yield_now;
use tocsin_sync::atomic::{AtomicU64, Ordering};
use tocsin_sync::clock::now_ns;

/// For how long a waiter looks before it yields, where that does not pay, nanoseconds: once.
const SHORT_NS: u64 = 0;
/// The same where it has paid: some times what a message and its answer take.
const LONG_NS: u64 = 2_000;
/// A core that comes back later than this was computed on, nanoseconds: longer than some waiters take who copy in their turns, less than a time slice.
pub(super) const LATE_NS: u64 = 500_000;
/// A wait of so long is long, nanoseconds: yields save it a sleep, and take the core from ranks that the system would place there.
const LASTS_NS: u64 = 250_000;
/// Where waits are long a waiter yields for one part in so many of the time before it sleeps.
const PART: u64 = 16;
/// What a short wait earns, and what a long one takes.
const BRIEF_GAIN: u32 = 1;
const BRIEF_COST: u32 = 4;
/// What it takes to go to sleep and be woken, nanoseconds.
const ASLEEP_NS: u64 = 10_000;
/// So many times what a core was away for has to pass the first time: each of several waiters finds out by itself that somebody computes,
/// and all wait for the one that does.
const FIRST: u64 = 16;
/// So many times as long as the last time has to pass before the next try, if it comes again.
const GROWTH: u64 = 4;
/// How many times what was lost has to pass before the next try at most.
const REPAID: u64 = 100;
/// But no longer than this, nanoseconds: a process that was stopped meanwhile has lost nothing by a yield.
const BARRED_NS: u64 = 1_000_000_000;
/// What a look that meets its message saves, and what one that does not takes.
const LOOK_GAIN: u32 = 1;
const LOOK_COST: u32 = 4;
/// For how long a waiter looks that has got its core back, where that pays, nanoseconds: about what two switches take.
const STAY_NS: u64 = 3_000;
/// What meeting a message then saves, and what one that does not come takes: who meets it saves the two switches, who waits for what follows from it
/// saves them, too, and who looks when it comes back does not know at which moment of them it will have come. (`bench ring --ranks 4 --sizes 1K`, us, with a gain of
/// 1, 2, 4 and 16: 1.67, 1.39, 1.39 and 1.55; two ranks that follow each other bound to each core, with 1, 4 and 16: 1.87, 1.71 and 1.33.)
const STAY_GAIN: u32 = 4;
const STAY_COST: u32 = 1;
/// What yields are credited with at most for what they have saved, nanoseconds: two time slices.
const SAVED_MOST_NS: u64 = 8_000_000;
/// What they are credited with at the beginning, nanoseconds: the other ranks of the world, and what has started them, are still at their beginnings then, which say nothing of what will be.
const SAVED_FIRST_NS: u64 = SAVED_MOST_NS;

/// One rank's experience with yields, for all its users' threads. Nothing is published by any of it.
#[derive(Debug)]
pub(super) struct Yields {
    /// Since when it may yield again, on the clock of [`now_ns`].
    barred_until: AtomicU64,
    /// Since when it may hold back rings for yields again.
    rings_barred_until: AtomicU64,
    /// Of cores that came back late.
    late: Losses,
    /// Of waits that ended asleep.
    asleep: Losses,
    /// What waits that yields have ended have saved since the last loss, nanoseconds.
    saved: AtomicU64,
    /// Looks that met their message.
    looks: Credit,
    /// The same of looks after a yield.
    stays: Credit,
    /// Waits that were over soon.
    brief: Credit,
    /// What is known of who computes on this core.
    pub(super) beside: Beside,
    /// Whether who sends always runs on this core.
    pub(super) apart: Apart,
    /// Whether other cores have fewer ranks.
    pub(super) spread: Spread,
}

/// Losses of one kind.
#[derive(Debug)]
struct Losses {
    /// How many times the first of several has to pass.
    first: u64,
    /// How many times the last had to pass, and until when another is taken for the same again.
    times: AtomicU64,
    remembered_until: AtomicU64,
}

impl Losses {
    fn new(first: u64) -> Losses {
        Losses { first, times: AtomicU64::new(0), remembered_until: AtomicU64::new(0) }
    }

    /// `lost` nanoseconds were lost until `now`: until when that bars yields.
    fn note(&self, now: u64, lost: u64) -> u64 {
        // SYNC POINT: Relaxed: see [`Yields`]; so are all below.
        let again = now < self.remembered_until.load(Ordering::Relaxed);
        let times = match again {
            true => self.times.load(Ordering::Relaxed).saturating_mul(GROWTH).min(REPAID),
            false => self.first,
        };
        self.times.store(times, Ordering::Relaxed);
        let length = |times| lost.saturating_mul(times).min(BARRED_NS);
        let until = now.saturating_add(length(times));
        self.remembered_until.fetch_max(until.saturating_add(length(REPAID)), Ordering::Relaxed);
        until
    }
}

impl Yields {
    pub(super) fn new() -> Yields {
        Yields {
            barred_until: AtomicU64::new(0),
            rings_barred_until: AtomicU64::new(0),
            late: Losses::new(FIRST),
            asleep: Losses::new(1),
            saved: AtomicU64::new(SAVED_FIRST_NS),
            looks: Credit::new(LOOK_GAIN, LOOK_COST),
            stays: Credit::new(STAY_GAIN, STAY_COST),
            brief: Credit::new(BRIEF_GAIN, BRIEF_COST),
            beside: Beside::new(),
            apart: Apart::new(),
            spread: Spread::new(),
        }
    }

    /// Where nothing says that they pay: the first loss bars them.
    pub(super) fn unproven() -> Yields {
        Yields { saved: AtomicU64::new(0), ..Yields::new() }
    }

    pub(super) fn is_barred(&self, now: u64) -> bool {
        // SYNC POINT: Relaxed: see the type; so are all below.
        now < self.barred_until.load(Ordering::Relaxed)
    }

    /// Whether who would have to interrupt somebody should do that at once, and not yield first so that they come by themselves.
    pub(super) fn is_ring_barred(&self, now: u64) -> bool {
        now < self.rings_barred_until.load(Ordering::Relaxed)
    }

    /// A core came back `lost` nanoseconds late, at `now`.
    fn bar(&self, now: u64, lost: u64) {
        let until = self.late.note(now, lost);
        self.barred_until.fetch_max(until, Ordering::Relaxed);
        self.rings_barred_until.fetch_max(until, Ordering::Relaxed);
    }

    /// A wait that had yielded ended asleep at `now`.
    pub(super) fn bar_asleep(&self, now: u64) {
        self.barred_until.fetch_max(self.asleep.note(now, ASLEEP_NS), Ordering::Relaxed);
    }

    /// Whether a wait that begins now should look for long before it yields.
    pub(super) fn should_look(&self) -> bool {
        self.looks.is_good()
    }

    /// For how long, nanoseconds.
    pub(super) fn look_ns(&self) -> u64 {
        if self.should_look() { LONG_NS } else { SHORT_NS }
    }

    /// Whether a look met what it was for.
    pub(super) fn note_look(&self, met: bool) {
        self.looks.note(met);
        if met {
            self.apart.note_met();
        }
    }

    /// Until when a waiter looks whose core has come back at `back`.
    pub(super) fn stays_until(&self, back: u64) -> u64 {
        if self.stays.is_good() { back.saturating_add(STAY_NS) } else { back }
    }

    /// Whether what a waiter that had got its core back was waiting for came while it stayed.
    pub(super) fn note_stay(&self, met: bool) {
        self.stays.note(met);
        if met {
            self.apart.note_met();
        }
    }

    /// For how long a waiter yields before it sleeps, of `ns` nanoseconds that are allowed.
    pub(super) fn yields_for(&self, ns: u64) -> u64 {
        if self.brief.is_good() { ns } else { ns / PART }
    }

    /// A wait that has yielded or slept is over, or a sleep of it, after so many nanoseconds in which it found nothing. (One yield takes no clock to be brief.)
    pub(super) fn note_lasted(&self, ns: u64) {
        self.brief.note(ns < LASTS_NS);
    }

    /// A wait that has yielded ends after so many nanoseconds in which it found nothing, not by what it waited for: one that is short says nothing.
    pub(super) fn note_unmet(&self, ns: u64) {
        if ns >= LASTS_NS {
            self.note_lasted(ns);
        }
    }

    /// Yields have ended a wait: one, or several.
    pub(super) fn note_saved(&self, several: bool) {
        self.apart.note_yielded(several);
        let saved = self.saved.load(Ordering::Relaxed);
        if saved < SAVED_MOST_NS {
            self.saved.store(saved + ASLEEP_NS, Ordering::Relaxed);
        }
    }

    /// As if nothing had been lost yet.
    #[cfg(test)]
    pub(super) fn forget(&self) {
        for until in [&self.barred_until, &self.rings_barred_until, &self.late.remembered_until] {
            until.store(0, Ordering::Relaxed);
        }
    }

    /// Yields once: when the core came back. None: so late that yields are barred.
    pub(super) fn give_way(&self, now: u64) -> Option<u64> {
        yield_now();
        let back = now_ns();
        let away = back.saturating_sub(now);
        if away > LATE_NS {
            self.spread.note_late(back);
        }
        (away <= LATE_NS || self.affords(back, away)).then_some(back)
    }

    /// A core came back late, at `back`. False: yields are barred.
    fn affords(&self, back: u64, away: u64) -> bool {
        let left = self.saved.load(Ordering::Relaxed).checked_sub(away);
        self.saved.store(left.unwrap_or(0), Ordering::Relaxed);
        if left.is_none() {
            self.bar(back, away);
        }
        left.is_some()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_is_repaid_before_the_next_try() {
        let yields = Yields::new();
        assert!(!yields.is_barred(0));
        let mut now = 5_000;
        for times in [FIRST, FIRST * GROWTH, REPAID, REPAID] {
            yields.bar(now, 200);
            assert!(yields.is_barred(now));
            assert!(yields.is_barred(now + 200 * times - 1));
            now += 200 * times;
            assert!(!yields.is_barred(now), "{times}");
        }
        // Long afterwards it is something else.
        now += 200 * REPAID;
        yields.bar(now, 200);
        assert!(!yields.is_barred(now + FIRST * 200));
        yields.bar(u64::MAX - 1, u64::MAX);
        assert!(yields.is_barred(u64::MAX - 1), "nothing wraps round");
    }

    #[test]
    fn where_waits_are_long_yields_are_few() {
        let yields = Yields::new();
        assert_eq!(yields.yields_for(1600), 1600);
        (0..4).for_each(|_| yields.note_lasted(LASTS_NS));
        assert_eq!(yields.yields_for(1600), 1600 / PART);
        (0..2).for_each(|_| yields.note_lasted(LASTS_NS - 1));
        assert_eq!(yields.yields_for(1600), 1600, "they are over soon again");
        (0..8).for_each(|_| yields.note_unmet(LASTS_NS));
        assert_eq!(yields.yields_for(1600), 1600 / PART, "nobody knows how long they would have been");
        (0..100).for_each(|_| yields.note_unmet(LASTS_NS - 1));
        assert_eq!(yields.yields_for(1600), 1600 / PART, "nor these");
    }

    /// Sleeps that keep happening say nothing of a core that is away once.
    #[test]
    fn each_kind_of_loss_comes_again_by_itself() {
        let yields = Yields::new();
        let mut now = 5_000;
        for _ in 0..6 {
            yields.bar_asleep(now);
            now += REPAID * ASLEEP_NS;
        }
        let away = 2 * LATE_NS;
        yields.bar(now, away);
        assert!(yields.is_barred(now + FIRST * away - 1));
        assert!(!yields.is_barred(now + FIRST * away));
    }

    /// One that has lost what it began with.
    fn without_credit() -> Yields {
        let yields = Yields::new();
        assert!(yields.affords(0, SAVED_FIRST_NS) && !yields.is_barred(0), "it begins with that");
        yields
    }

    #[test]
    fn a_core_that_comes_back_late_bars_yields() {
        let yields = without_credit();
        let now = now_ns();
        assert!(now > 2 * LATE_NS, "the clock has run for longer than that");
        assert_eq!(yields.give_way(now - 2 * LATE_NS), None, "as if the yield had begun then");
        assert!(yields.is_barred(now));
        // One that ended before it began is never late.
        let other = Yields::new();
        assert!(other.give_way(u64::MAX).is_some());
        assert!(!other.is_barred(now));
    }

    #[test]
    fn what_yields_have_saved_pays_for_a_loss_once() {
        let yields = without_credit();
        let away = 2 * LATE_NS;
        for _ in 0..away / ASLEEP_NS {
            yields.note_saved(false);
        }
        assert!(yields.affords(1, away) && !yields.is_barred(1), "there was enough");
        assert!(!yields.affords(1, away) && yields.is_barred(1), "there is none left");
        for _ in 0..2 * SAVED_MOST_NS / ASLEEP_NS {
            yields.note_saved(false);
        }
        assert!(yields.affords(1, SAVED_MOST_NS) && !yields.affords(1, 1), "it is bounded");
    }

    #[test]
    fn bars_end_and_the_longest_counts() {
        let yields = Yields::new();
        yields.bar(1_000, 1_000);
        yields.bar(1_000, 1);
        assert!(yields.is_barred(1_000 + FIRST * 1_000 - 1), "the shorter one does not replace it");
        yields.bar(1_000, u64::MAX);
        assert!(yields.is_barred(1_000 + BARRED_NS - 1) && !yields.is_barred(1_000 + BARRED_NS));
    }

    #[test]
    fn looks_that_meet_nothing_are_short() {
        let yields = Yields::new();
        assert_eq!((yields.should_look(), yields.look_ns()), (true, LONG_NS));
        for _ in 0..5 {
            yields.note_look(false);
        }
        assert_eq!((yields.should_look(), yields.look_ns()), (false, SHORT_NS));
    }
}
