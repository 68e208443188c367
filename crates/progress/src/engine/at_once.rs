//! What is done inside the engine in one step and leaves nothing behind.

use super::{Engine, Entered};
use crate::budget::{Context, Work};
use core::mem::ManuallyDrop;
use tocsin_sync::atomic::{Ordering, fence_after_rmw};

/// Being inside an engine for one step. Dropping it leaves as [`Entered`] does.
#[must_use = "dropping it leaves the engine"]
pub struct AtOnce<'a, W: Work> {
    engine: &'a Engine<W>,
}

impl<'a, W: Work> AtOnce<'a, W> {
    /// The work.
    #[inline(always)]
    pub fn work(&mut self) -> &mut W {
        // SAFETY: the token is ours as long as `self` lives, and `self` is borrowed exclusively.
        unsafe { &mut *self.engine.work.get() }
    }

    /// Whether somebody has asked for a pass, or wants to enter. One load.
    #[inline(always)]
    pub fn is_asked(&self) -> bool {
        self.engine.token.is_requested()
    }

    /// Stays inside.
    #[inline(always)]
    pub fn stay(self) -> Entered<'a, W> {
        let engine = ManuallyDrop::new(self).engine;
        engine.entered(Context::User, 0)
    }

    /// Leaves when nothing that a stay inside has to see to has changed: nobody is to be rung, or woken, for what was done, no operation was begun or has
    /// ended, and no pass was made. What was to be seen to before, who was inside then has. One `lock cmpxchg`; more if somebody has asked for a pass
    /// meanwhile.
    #[inline(always)]
    pub fn leave_as_found(mut self) {
        self.says_what_it_goes_on_with();
        self.leave_waiting();
    }

    /// The same of a thread that waits for what it has not found: it comes back at once, or when others on its core have had their turns.
    #[inline(always)]
    pub fn leave_waiting(self) {
        if self.engine.try_leave_as_found() {
            let _left = ManuallyDrop::new(self);
        }
    }

    /// As [`Entered`] does at its drop.
    #[inline(always)]
    fn says_what_it_goes_on_with(&mut self) {
        if self.engine.is_crowded() {
            let has_operations = self.work().has_operations();
            self.engine.goes_computing(has_operations);
        }
    }
}

impl<W: Work> AtOnce<'_, W> {
    /// [Leaves](Self::leave_as_found) when an operation was begun, which is nothing that anybody is to be rung for: threads of the rank that sleep
    /// until it has one are woken.
    #[inline(always)]
    pub fn leave_begun(mut self) {
        self.says_what_it_goes_on_with();
        let engine = self.engine;
        if engine.try_leave_as_found() {
            let _left = ManuallyDrop::new(self);
            // SYNC POINT: as in `Engine::passes`.
            fence_after_rmw();
            engine.own.wake_own_after_fence();
        }
    }
}

// What is behind it takes the engine by value: where `self` is would else be told, so that it could not stay in a register.
impl<W: Work> Drop for AtOnce<'_, W> {
    #[inline(always)]
    fn drop(&mut self) {
        self.engine.leave_after_all();
    }
}

impl<W: Work> Engine<W> {
    /// The holder leaves, unless a pass was asked for, somebody is to be reminded, or callbacks are to be run. Nothing that a stay inside has to see to has changed: who
    /// was inside last has flushed, published and told all that there was, or has left a request. One `lock cmpxchg`.
    #[inline(always)]
    pub(super) fn try_leave_as_found(&self) -> bool {
        // SYNC POINT: Relaxed: what is set by another thread meanwhile, that thread sees to.
        self.callbacks.is_empty() && !self.unheard.load(Ordering::Relaxed) && self.token.try_leave()
    }

    /// The holder leaves as [`Entered`] does.
    #[cold]
    #[inline(never)]
    fn leave_after_all(&self) {
        let mut entered = self.entered(Context::User, 0);
        let _touched = &mut *entered;
        drop(entered);
    }

    /// [Enters](Engine::enter) if nobody is inside or has asked for a pass, nothing is to be seen to on the way in, and stays are not recorded. User
    /// threads only. Wait-free: one `lock cmpxchg`.
    #[inline(always)]
    pub fn enter_at_once(&self) -> Option<AtOnce<'_, W>> {
        let enters = !self.sees_everything && !self.duty.is_suppressed() && self.token.try_lock_unasked();
        if enters { Some(AtOnce { engine: self }) } else { None }
    }
}
