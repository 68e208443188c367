//! Where ranks share cores: who computes beside this rank, and that this one computes.
//!
//! A rank that leaves the library with operations under way says when, and on which core ([`tocsin_doorbell::COMPUTES_NS`]). Before a waiter
//! yields it looks whether somebody has computed on its core for long: then the core would come back at the end of a time slice,
//! and all that time the waiter would look awake. So it sleeps instead. A wake takes the core at once from who has computed for long,
//! where a yield takes its turn behind him. It looks once in [`FRESH_NS`], and when it finds itself on another core.
//!
//! It is a hint: who computes may have been moved to another core since, or have gone to sleep outside the library. Then a yield costs
//! what it does (`yields.rs`), or a sleep stands where a yield had done.

use super::Engine;
use crate::budget::{Budget, Context, Work};
use tocsin_doorbell::core_number;
use tocsin_sync::affinity::move_to;
use tocsin_sync::atomic::{AtomicU64, Ordering};
use tocsin_sync::clock::now_ns;
use tocsin_sync::thread;

/// For how long an answer serves, nanoseconds: half of what makes a rank one that computes.
const FRESH_NS: u64 = tocsin_doorbell::COMPUTES_NS / 2;
/// Of the word, what is the answer; then comes the core's number; the rest is the time.
const ANSWER: u64 = 1;
const CORE_SHIFT: u32 = 1;
const CORE: u64 = 0xFFF << CORE_SHIFT;

/// The last answer, one word. Nothing is published by it.
#[derive(Debug)]
pub(super) struct Beside(AtomicU64);

impl Beside {
    pub(super) fn new() -> Beside {
        Beside(AtomicU64::new(0))
    }

    fn core_bits(core: u32) -> u64 {
        (u64::from(core) << CORE_SHIFT) & CORE
    }

    /// What is known of a core now.
    fn known(&self, now: u64, core: u32) -> Option<bool> {
        // SYNC POINT: Relaxed: see the type; so is the other.
        let word = self.0.load(Ordering::Relaxed);
        let is_fresh = word != 0 && now.saturating_sub(word & !(CORE | ANSWER)) < FRESH_NS;
        (is_fresh && word & CORE == Beside::core_bits(core)).then_some(word & ANSWER != 0)
    }

    fn note(&self, now: u64, core: u32, answer: bool) {
        let answer = if answer { ANSWER } else { 0 };
        let word = (now & !(CORE | ANSWER)) | Beside::core_bits(core) | answer;
        self.0.store(word, Ordering::Relaxed);
    }
}

impl<W: Work> Engine<W> {
    /// A user's thread leaves the library. One that has nothing under way is not said to compute, however long it does: it is mostly
    /// about to post what the others have posted.
    #[inline]
    pub(super) fn goes_computing(&self, has_operations: bool) {
        if has_operations {
            self.own.computes_from(now_ns(), thread::core());
        } else {
            self.own.has_nothing_under_way();
        }
    }

    /// Says on which core a thread of this rank waits at that time of the one clock, and says that to the caller, by its [number](core_number). Where ranks share cores; not for handlers.
    #[inline]
    pub fn waits_here(&self, now: u64) -> u32 {
        let core = thread::core();
        self.own.waits_on(core, now);
        core_number(core)
    }

    /// Whether somebody computes on this core, as far as is known, by who holds the token. Not for handlers.
    pub(super) fn is_beside_computing(&self, work: &mut W, now: u64) -> bool {
        let core = core_number(thread::core());
        self.yields.beside.known(now, core).unwrap_or_else(|| {
            let answer = work.computes_beside(core, now);
            self.yields.beside.note(now, core, answer);
            answer
        })
    }

    /// The same, by who does not hold it. While somebody else does, nothing new is learnt. Not for handlers.
    pub(super) fn would_yield_to_computing(&self, now: u64) -> bool {
        if !self.is_crowded() {
            // Nobody says so.
            return false;
        }
        let core = self.waits_here(now);
        if let Some(answer) = self.yields.beside.known(now, core) {
            return answer;
        }
        if self.token.is_busy() || !self.token.try_lock() {
            return false;
        }
        // SAFETY: the token is ours; the reference ends before `passes`.
        let work = unsafe { &mut *self.work.get() };
        let answer = self.is_beside_computing(work, now);
        let spread = &self.yields.spread;
        let roomier = spread.is_due(now).then(|| spread.note(now, work.roomier_core(core, now)));
        let budget = Budget::of(Context::User).waiting();
        // SAFETY: the token is ours. Callbacks may last, and the caller has just looked at the clock.
        let left = unsafe { self.passes(Context::User, false, false, false, budget) };
        if left.more {
            // Whoever is inside next sees to it: this waiter, which looks again before it sleeps, or who keeps it from looking.
            self.token.request();
        }
        if let Some(roomier) = roomier.flatten() {
            // So that nobody else comes along meanwhile.
            self.own.waits_on(roomier, now);
            if !move_to(roomier) {
                self.own.waits_on(core, now);
            }
        }
        answer
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_answer_serves_for_a_while_and_for_its_core() {
        let beside = Beside::new();
        assert_eq!((beside.known(1, 0), beside.known(FRESH_NS, 0)), (None, None), "nobody has asked");
        let now = 1 << 30;
        for answer in [true, false] {
            for core in [0, 1, 4095] {
                beside.note(now, core, answer);
                assert_eq!(beside.known(now, core), Some(answer));
                assert_eq!(beside.known(now + FRESH_NS / 2, core), Some(answer));
                assert_eq!(beside.known(now + FRESH_NS, core), None);
                assert_eq!(beside.known(now, core ^ 1), None);
            }
        }
    }
}
