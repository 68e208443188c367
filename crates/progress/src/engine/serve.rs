//! What progress threads that share a core do with an engine, and the callback thread: one look at a time.

use super::{Engine, USER_CONTINUE_NS};
use crate::budget::{Budget, Context, Pass, Work};
use crate::progress_thread::Polling;
use crate::schedule::crew::Member;
use crate::stats;
use core::time::Duration;
use tocsin_doorbell::Own;
use tocsin_sync::atomic::Ordering;

/// How often who looks in passing finds something before it leaves.
const IN_PASSING: u32 = 8;

impl<W: Work> Engine<W> {
    /// A turn: a look, and a pass if there is something; callbacks stay queued. Not for handlers.
    pub(crate) fn turn(&self, more: bool) -> Option<Pass> {
        stats::add(&self.stats.turns, 1);
        self.visit(Context::ProgressThread, more, 1)
    }

    /// Sleeps until somebody rings or wakes the rank's sleepers; unless there is something already, which has its pass, or are callbacks, which stay
    /// queued, or `done()` says that there is no need. Not for handlers.
    pub(crate) fn sleep_until_rung(&self, mut done: impl FnMut() -> bool) {
        // Somebody who was rung and did not hear it is rung again by the pass that follows.
        let nap =
            self.unheard.load(Ordering::Relaxed).then_some(super::timer::REMIND_NS).map(Duration::from_nanos);
        self.own.sleep(nap, || {
            done()
                || matches!(
                    self.look_first(Budget::of(Context::ProgressThread)),
                    Some(Pass::Worked | Pass::More)
                )
                || self.callbacks.need_a_thread()
                || nap.is_none() && self.unheard.load(Ordering::Relaxed)
        });
    }

    /// The look-once-more of a thread that no longer polls: after [`Own::end_poll`], which has fenced. Then callbacks.
    pub(crate) fn look_once_more(&self) -> Option<Pass> {
        self.look(Budget::of(Context::ProgressThread))
    }

    /// Whether the rank has an operation under way. None: somebody is inside. If that one begins an operation, it wakes the rank's
    /// sleepers when it leaves. Callbacks stay queued. Not for handlers.
    pub(crate) fn has_operations(&self) -> Option<bool> {
        if !self.token.lock_or_request() {
            return None;
        }
        // SAFETY: the token is ours; the reference ends before `passes`.
        let has = unsafe { &*self.work.get() }.has_operations();
        // SAFETY: the token is ours.
        unsafe {
            self.passes(Context::ProgressThread, false, false, false, Budget::of(Context::ProgressThread))
        };
        Some(has)
    }

    /// A look by a thread that waits for nothing, and some more as long as they find something. Nobody rings the rank meanwhile, so
    /// callbacks stay queued: they may last. User threads only.
    pub fn look_in_passing(&self) {
        let polling = Polling::begin(self.own());
        let mut found = None;
        for _ in 0..IN_PASSING {
            found = self.glance(found == Some(Pass::More));
            if !matches!(found, Some(Pass::Worked | Pass::More)) {
                break;
            }
        }
        drop(polling);
        // What was published while this thread was seen polling was not announced to anybody.
        if Member::look(self) == Some(Pass::More) {
            // Who has no timer has a progress thread, which passes that serve do not wake.
            self.own.wake_own();
            self.come_back(USER_CONTINUE_NS);
        }
    }

    /// [`visit`](Self::visit) by who looks at other engines, too: one look, and callbacks stay queued.
    fn glance(&self, more: bool) -> Option<Pass> {
        if self.token.is_busy() || !self.token.try_lock() {
            return None;
        }
        // SAFETY: the token is ours; the reference ends before `passes`.
        let something = more || unsafe { &*self.work.get() }.work_left() || self.token.is_requested();
        let budget = Budget::of(Context::ProgressThread);
        // SAFETY: the token is ours. What is left is the caller's to come back for.
        Some(unsafe { self.passes(Context::ProgressThread, something, false, true, budget) }.pass())
    }
}

impl<W: Work> Member for Engine<W> {
    fn own(&self) -> &Own {
        Engine::own(self)
    }

    fn visit(&self, more: bool) -> Option<Pass> {
        self.glance(more)
    }

    fn look(&self) -> Option<Pass> {
        if !self.token.lock_or_request() {
            return None;
        }
        // SAFETY: the token is ours; the reference ends before `passes`.
        let something = unsafe { &*self.work.get() }.work_left();
        let budget = Budget::of(Context::ProgressThread);
        // SAFETY: the token is ours.
        Some(unsafe { self.passes(Context::ProgressThread, something, false, true, budget) }.pass())
    }

    fn has_callbacks(&self) -> bool {
        self.callbacks.need_a_thread()
    }

    fn run_callbacks(&self) {
        if !self.callbacks.is_empty() {
            Engine::run_callbacks(self);
        }
    }
}
