//! Before a user's thread interrupts others: it gives those whom it would have to interrupt a moment to look by themselves.
//!
//! Where each rank has a core, that is about what a signal takes. On a crowded node those who are not in the library may only wait for a
//! core: this one, or one that another rank gives away. So the thread yields some times, as long as no core comes back a time slice
//! later for it (`yields.rs`), and looks at its lanes between.
//!
//! The token is held meanwhile: handlers leave a request, which ends the patience, and other threads of the rank wait, at most for the
//! time slice of a yield that another process's computing makes long.

use super::Engine;
use super::{USER_PASSES, credit::Credit};
use crate::budget::Work;
use tocsin_sync::atomic::spin_loop;
use tocsin_sync::clock::now_ns;

/// Tries to leave in one stay at which a signal may be held back; each but the last may end in a pass.
const PATIENT_TRIES: u32 = 4;
// One pass more, if that was asked for before.
const _: () = assert!(PATIENT_TRIES + 1 < USER_PASSES);
/// How long a user's thread holds back signals: about what they take.
pub(super) const PATIENCE_NS: u64 = 5_000;
/// How often it yields in one try, on a crowded node: by then the others that share its core have had it, and those on other cores theirs.
pub(super) const PATIENT_YIELDS: u32 = 4;
/// What a signal takes of both ranks together, and what it takes to hold one back in vain.
const PATIENCE_GAIN: u32 = 4;
const PATIENCE_COST: u32 = 1;

/// What is left of a thread's patience with those whom it would have to interrupt, in one stay.
pub(super) enum Patience {
    Untried,
    /// Not tried yet: the pass that was asked for in this stay is made first. A request ends the patience, and that one says nothing of those whom it is for.
    AfterPass,
    /// Until when, and for how many tries more.
    Until(u64, u32),
    Over,
}

/// A rank's experience with it.
pub(super) fn credit() -> Credit {
    Credit::new(PATIENCE_GAIN, PATIENCE_COST)
}

impl<W: Work> Engine<W> {
    /// Rings whom there is something to say to. But a user's thread that would have to interrupt somebody by signal holds that back for a
    /// moment: who has posted something is mostly about to wait for it, and then looks by himself; as this thread does meanwhile,
    /// whom others would have to interrupt. True: something has come for this rank meanwhile, and a pass is due, and another
    /// call after it. `passing`: this thread goes away then.
    #[inline]
    pub(super) fn ring(&self, work: &mut W, patience: &mut Patience, passing: bool) -> bool {
        if let Patience::Over = patience {
            work.leave();
            false
        } else if work.leave_quietly() {
            self.ring_patiently(work, patience, passing)
        } else {
            // Only the first try to leave makes a pass for that, so that passes are left for those that follow.
            if let Patience::Untried = patience {
                *patience = Patience::AfterPass;
            }
            if let Patience::Until(..) = patience {
                self.patience.note(true);
                if !self.is_crowded() {
                    *patience = Patience::Over;
                }
            }
            false
        }
    }

    #[cold]
    fn ring_patiently(&self, work: &mut W, patience: &mut Patience, passing: bool) -> bool {
        if let Patience::Untried = patience
            && self.token.is_requested()
        {
            *patience = Patience::AfterPass;
            return true;
        }
        let crowded = self.is_crowded();
        let (until, tries) = match patience {
            Patience::Until(until, tries) => (*until, tries.saturating_sub(1)),
            _ if crowded && self.should_not_yield(work) => {
                // Which says nothing of those whom it would be for.
                *patience = Patience::Over;
                work.leave();
                return false;
            }
            _ if self.patience.is_good() => {
                let ns = if crowded { self.config.yield_ns } else { PATIENCE_NS };
                (now_ns().saturating_add(ns), PATIENT_TRIES)
            }
            _ => (0, 0),
        };
        *patience = Patience::Until(until, tries);
        let (mut holds, mut came) = (true, false);
        let in_time = |engine: &Self| now_ns() < until && !engine.token.is_requested();
        if tries > 0 && in_time(self) {
            if passing {
                self.own.begin_brief_poll();
            } else {
                self.own.begin_poll();
            }
            let mut yields = PATIENT_YIELDS;
            while holds && !work.work_left() && in_time(self) && yields > 0 {
                if !crowded {
                    spin_loop();
                } else if self.yields.give_way(now_ns()).is_some() {
                    yields -= 1;
                } else {
                    yields = 0;
                }
                holds = work.leave_quietly();
            }
            // What was published while this thread was seen looking was not announced to anybody: `end_poll` fences, look, and
            // whatever is there has its pass.
            if passing {
                self.own.end_brief_poll();
            } else {
                self.own.end_poll();
            }
            came = work.work_left();
        }
        if holds && came && in_time(self) {
            return true;
        }
        self.patience.note(!holds);
        if holds || !crowded {
            *patience = Patience::Over;
        }
        work.leave();
        came
    }

    /// A yield would be to somebody who computes, or was.
    fn should_not_yield(&self, work: &mut W) -> bool {
        let now = now_ns();
        self.yields.is_ring_barred(now) || self.is_beside_computing(work, now)
    }
}
