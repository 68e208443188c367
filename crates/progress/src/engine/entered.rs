//! Being inside an engine.

use super::{Engine, Left, USER_CONTINUE_NS};
use crate::budget::{Budget, Context, Pass, Work};
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

/// Glances between two looks at everything: some 150 ns.
pub(super) const GLANCES: u32 = if cfg!(loom) { 1 } else { 32 };

/// What a glance of [`Entered::linger`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lingering {
    /// Nothing.
    Nothing,
    /// Something that others may wait to hear of.
    Worked,
    /// What it is for, or that it does not come this way.
    Over,
}

/// Being inside an engine. Dereferences to the work. Its drop makes the passes that were asked for, flushes,
/// leaves, wakes who sleeps, and outside handlers runs callbacks, unless [told not to](Entered::leave_callbacks): hold no lock that a callback
/// may want.
///
/// The drop is wait-free but for the callbacks.
#[must_use = "dropping it leaves the engine"]
pub struct Entered<'a, W: Work> {
    engine: &'a Engine<W>,
    context: Context,
    touched: bool,
    /// The thread waits for what it has posted.
    stays: bool,
    /// And has long copies to make then.
    spares: bool,
    /// It is [`Looking`], and comes back for what is left.
    looks: bool,
    /// It runs no callbacks.
    quiet: bool,
    /// [`Engine::stay_begins`].
    begun: u64,
    _not_send: PhantomData<*const ()>,
}

impl<W: Work> Entered<'_, W> {
    /// Who is inside.
    #[inline]
    pub fn context(&self) -> Context {
        self.context
    }

    /// Says that this thread calls [`Engine::wait_until`] next, or until then what it has posted is done: nobody else
    /// need come back for it.
    #[inline]
    pub fn stay(&mut self) {
        self.stays = true;
    }

    /// The same of who has mostly long copies to make next: while it waits for them peers leave them to it, and so it makes none before. It enters again, to wait or to
    /// give back what is over by then, and what is left of others is seen to there.
    #[inline]
    pub fn stay_to_copy(&mut self) {
        (self.stays, self.spares) = (true, true);
    }

    /// Says that this thread is [`Looking`](super::Looking), so that nobody need come back for what the drop leaves.
    #[inline]
    pub fn is_looking(&mut self) {
        self.looks = true;
    }

    /// Leaves callbacks to their thread and to later calls: where this is called may be anywhere, as the end of a value may.
    #[inline]
    pub fn leave_callbacks(&mut self) {
        self.quiet = true;
    }

    /// Has a pass made when this is dropped.
    pub fn ask_for_pass(&self) {
        self.engine.token.request();
    }

    /// Has the rank come back soon, for what [`Looking::go_on`](super::Looking::go_on) has left.
    pub fn come_back(&self) {
        self.engine.come_back(USER_CONTINUE_NS);
    }

    /// Glances until there is nothing to wait for, and makes passes when there is something else, without leaving: for
    /// what may come within a microsecond. A glance is cheap, and all that is done between two looks at the rest, so that
    /// nothing in it delays what it is for. Gives up after `looks`, or when somebody else wants the engine. Whether it has
    /// looked at the rest: what was there has had its pass.
    ///
    /// User threads only. Wait-free: bounded by `looks` passes and `looks * GLANCES` glances.
    #[inline]
    pub fn linger(&mut self, looks: u32, mut glance: impl FnMut(&mut W) -> Lingering) -> bool {
        self.touched = true;
        let mut looked = false;
        for _ in 0..looks {
            for _ in 0..GLANCES {
                // SAFETY: the token is ours; the reference ends with the call.
                match glance(unsafe { &mut *self.engine.work.get() }) {
                    Lingering::Nothing => tocsin_sync::atomic::look_again(),
                    Lingering::Worked => {
                        self.leave();
                        // Others may want the engine by now.
                        break;
                    }
                    Lingering::Over => return looked,
                }
            }
            let asked = self.engine.token.is_requested();
            let budget = Budget::of(self.context).waiting();
            if (asked || self.work_left()) && self.pass_within(budget) != Pass::Idle {
                // Whom it has answered may wait for that.
                self.leave();
            }
            looked = true;
            if asked {
                break;
            }
        }
        // The last pass may have brought it.
        // SAFETY: as above.
        let _over_or_not = glance(unsafe { &mut *self.engine.work.get() });
        looked
    }

    /// Makes a pass now instead of at the drop; requests so far are served by it.
    #[inline]
    pub fn pass(&mut self) -> Pass {
        self.pass_within(Budget::of(self.context))
    }

    #[inline]
    fn pass_within(&mut self, mut budget: Budget) -> Pass {
        self.touched = true;
        let engine = self.engine;
        if engine.token.is_requested() {
            engine.token.take_requests();
        }
        let mut left = Left::NOTHING;
        engine.pass(&mut *self, &mut budget, &mut left);
        if left.more {
            // The drop must not forget it.
            engine.token.request();
        }
        left.pass()
    }
}

impl<W: Work> Deref for Entered<'_, W> {
    type Target = W;
    #[inline]
    fn deref(&self) -> &W {
        // SAFETY: the token is ours as long as `self` lives.
        unsafe { &*self.engine.work.get() }
    }
}

impl<W: Work> DerefMut for Entered<'_, W> {
    #[inline]
    fn deref_mut(&mut self) -> &mut W {
        self.touched = true;
        // SAFETY: the token is ours as long as `self` lives, and `self` is borrowed exclusively.
        unsafe { &mut *self.engine.work.get() }
    }
}

impl<W: Work> Drop for Entered<'_, W> {
    #[inline]
    fn drop(&mut self) {
        if self.touched && !self.stays && self.context == Context::User && self.engine.is_crowded() {
            self.engine.goes_computing(self.has_operations());
        }
        // SAFETY: the token is ours, and the references lent end with `self`.
        if unsafe { self.engine.leave_at_once(self.context, self.touched) } {
            return self.engine.stay_ends(self.begun);
        }
        let begun = Budget::of(self.context);
        let begun = match (self.stays, self.spares) {
            (false, _) => begun.in_passing(),
            (true, false) => begun.waiting(),
            (true, true) => begun.sparing(),
        };
        // SAFETY: the token is ours, and the references lent end with `self`.
        let left = unsafe { self.engine.passes(self.context, false, self.touched, false, begun) };
        // Callbacks may last: who looks does not look meanwhile.
        let may_last = !self.quiet && !self.engine.callbacks.is_empty();
        // Who has begun a long copy mostly comes to wait for it.
        if left.more && (self.stays || left.copies && !self.looks) && !may_last {
            self.engine.come_back_late();
        } else if left.more && (!self.looks || may_last) {
            self.engine.come_back(USER_CONTINUE_NS);
        }
        if self.quiet {
            self.engine.callbacks.notify();
        } else {
            self.engine.see_to_callbacks(self.context);
        }
        self.engine.stay_ends(self.begun);
    }
}

impl<W: Work> Engine<W> {
    /// Inside: the token is the caller's.
    #[inline]
    pub(super) fn entered(&self, context: Context, begun: u64) -> Entered<'_, W> {
        Entered {
            engine: self,
            context,
            touched: false,
            stays: false,
            spares: false,
            looks: false,
            quiet: false,
            begun,
            _not_send: PhantomData,
        }
    }
}
