//! Waiting: spin, then yield, then sleep; never a busy waiter against a computing rank.
//!
//! # No lost wake-up
//! A waiter is at any time counted as poller or as sleeper in the attention word, or has withdrawn both and
//! looks once more before it goes away. It becomes a sleeper *before* it stops being a poller, so that no
//! ringer finds a moment at which this thread would have to be interrupted.
//! One that waits for what nobody rings for is neither while it spins ([`Engine::wait_unannounced`]): rings reach it as
//! they reach a computing rank, and it becomes a poller before it yields or sleeps.
//!
//! - *A peer's message*: the doorbell's protocol (publish, fence, read attention against attention, fence,
//!   look).
//! - *A completion by another context of the same rank*: that context finishes the operation, leaves the
//!   token, fences, and wakes the rank's sleepers if there are any; the sleeper says so, fences, and asks
//!   `done()`.
//! - *A look that finds the engine busy*: the request stands, so the holder makes a pass after it and then
//!   wakes the sleepers if that pass did anything or left anything.
//! - *Several waiters*: a ring wakes all; each looks. A waiter that gave up (time-out) looks once more too,
//!   because the wake that was meant for the rank may have gone to it alone.

use super::together::others_had_it;
use super::{Engine, EngineConfig, USER_CONTINUE_NS};
use crate::budget::{Budget, Context, Pass, Work};
use crate::stats;
use crate::trace::kind;
use core::time::Duration;
use tocsin_doorbell::Own;
use tocsin_sync::atomic::Ordering;
use tocsin_sync::clock::now_ns;
use tocsin_sync::slice::ShortSlice;
use tocsin_sync::thread;

/// Looks at the lanes per visit of a waiter that has its core to itself, who holds the token meanwhile: some 100 ns; 500 after a switch.
const LOOKS: u32 = if cfg!(loom) { 1 } else { 16 };

/// How often a post that looks finds something before it leaves.
const MEETINGS: u32 = 8;

/// Gives the core away if somebody else wants it.
pub(super) fn yield_now() {
    #[cfg(not(loom))]
    std::thread::yield_now();
    #[cfg(loom)]
    tocsin_sync::model::thread::yield_now();
}

/// "I look by myself", withdrawn at the latest when dropped (`done` may panic).
struct Polling<'a> {
    own: &'a Own,
    on: bool,
    /// The last visit left work.
    more: bool,
}

impl Polling<'_> {
    fn begin(&mut self) {
        if !self.on {
            self.own.begin_poll();
            self.on = true;
        }
    }

    fn end(&mut self) {
        if self.on {
            self.on = false;
            self.own.end_poll();
        }
    }
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// A thread of the rank looks by itself until this is dropped, which looks once more, and has the rank come back for what that leaves.
#[derive(Debug)]
pub struct Looking<'a, W: Work> {
    engine: &'a Engine<W>,
    /// Not ended yet.
    on: bool,
    /// [`Engine::stay_begins`].
    begun: u64,
}

impl<W: Work> Looking<'_, W> {
    /// Ends it after looks until `done()`, or nothing has been found for `ns` nanoseconds, at most `MEETINGS` times: ranks that post together meet
    /// then, and not in handlers. Where ranks may have to share a core, one look. Whether work is left, for which the caller goes on itself or
    /// [has the rank come back](super::Entered::come_back): nobody else does.
    #[must_use = "nobody comes back for what is left"]
    pub fn go_on(mut self, ns: u64, mut done: impl FnMut() -> bool) -> bool {
        let (meetings, ns) = if self.engine.config.yield_ns > 0 { (1, 0) } else { (MEETINGS, ns) };
        for _ in 0..meetings {
            if !self.finds_within(ns, &mut done) {
                break;
            }
        }
        self.end()
    }

    /// Looks until something is found, or `done()`, or for so long. Whether something was.
    fn finds_within(&self, ns: u64, done: &mut impl FnMut() -> bool) -> bool {
        let begun = now_ns();
        while !matches!(self.engine.look_first(Budget::of(Context::User)), Some(Pass::Worked | Pass::More)) {
            if done() || now_ns().wrapping_sub(begun) >= ns {
                return false;
            }
            tocsin_sync::atomic::spin_loop();
        }
        true
    }

    /// Ends it as its drop does, but that the look leaves to peers that wait what they can do as well: of who has posted something and may post more.
    pub fn leave(mut self) {
        if self.end_with(Budget::of(Context::User).in_passing()) {
            self.engine.come_back_late();
        }
    }

    /// Whether work is left.
    fn end(&mut self) -> bool {
        self.end_with(Budget::of(Context::User))
    }

    fn end_with(&mut self, budget: Budget) -> bool {
        self.on = false;
        self.engine.own().end_poll();
        // As at the end of a wait: what was published meanwhile was not announced to anybody else.
        let more = self.engine.look(budget) == Some(Pass::More);
        self.engine.stay_ends(self.begun);
        more
    }
}

impl<W: Work> Drop for Looking<'_, W> {
    fn drop(&mut self) {
        if self.on && self.end() {
            // Who has posted something long mostly comes to wait for it.
            self.engine.come_back_late();
        }
    }
}

impl<W: Work> Engine<W> {
    /// Says that this thread, which posts something that takes long, looks by itself: nobody has to ring the rank meanwhile.
    /// To be dropped before the thread waits for anything, since nobody wakes a rank that looks. User threads only.
    pub fn looking(&self) -> Looking<'_, W> {
        self.own().begin_poll();
        Looking { engine: self, on: true, begun: self.stay_begins() }
    }

    /// Makes progress until `done()`. False: the time-out came first. `done` is called often, between passes and
    /// not under the token; it must be cheap.
    ///
    /// A pass; then for `spin_ns`, or longer where that pays (`engine/spin.rs`), looks back to back; then sleep until a ring or another context's completion. Where the
    /// configuration has `yield_ns`, and yields pay (`engine/yields.rs`): for a shorter time looks back to back, and for `yield_ns`
    /// looks with `sched_yield` between. Work found starts it anew. The token is held for some looks at a time and never while
    /// it yields or sleeps.
    ///
    /// User threads only, several at a time; in a handler it does not wait but answers `done()`.
    ///
    /// Progress class: blocking.
    pub fn wait_until(&self, done: impl FnMut() -> bool, timeout: Option<Duration>) -> bool {
        self.wait_as_user(true, done, timeout)
    }

    /// [`wait_until`](Self::wait_until) for what comes without a ring, such as a small message: as long as it spins it
    /// does not say that it looks by itself, which would cost each ringer a cache miss and this thread two.
    pub fn wait_unannounced(&self, done: impl FnMut() -> bool, timeout: Option<Duration>) -> bool {
        self.wait_as_user(false, done, timeout)
    }

    fn wait_as_user(&self, announce: bool, done: impl FnMut() -> bool, timeout: Option<Duration>) -> bool {
        let begun = self.stay_begins();
        self.note_wait();
        // SYNC POINT: Relaxed: a hint to handlers. Two threads that wait may leave the other's word here.
        self.waits.store(true, Ordering::Relaxed);
        let finished = self.wait_in(Context::User, announce, done, timeout);
        self.waits.store(false, Ordering::Relaxed);
        self.stay_ends(begun);
        finished
    }

    /// A look, and a pass if there is something, by a user's thread that is in the library again and again, and mostly is soon after this.
    pub fn look_between(&self) {
        if self.token.is_busy() || !self.token.try_lock() {
            return;
        }
        // SAFETY: the token is ours; the reference ends before `passes`.
        let something = unsafe { &*self.work.get() }.work_left();
        // SAFETY: the token is ours.
        let left =
            unsafe { self.passes(Context::User, something, false, false, Budget::user().in_passing()) };
        if left.more && self.callbacks.is_empty() {
            self.come_back_late();
        } else if left.more {
            self.come_back(USER_CONTINUE_NS);
        }
        self.see_to_callbacks(Context::User);
    }

    /// [`wait_until`](Self::wait_until) in a given context: a progress thread's loop.
    pub(crate) fn wait_in(
        &self,
        context: Context,
        announce: bool,
        mut done: impl FnMut() -> bool,
        timeout: Option<Duration>,
    ) -> bool {
        if done() {
            return true;
        }
        if thread::in_handler() {
            return false;
        }
        self.lift_throttle();
        let mut polling = Polling { own: self.own(), on: false, more: false };
        if announce {
            // Before the first pass, which may copy for long: a peer that only posts what this thread waits for, and does
            // not see it waiting, would begin to copy, too.
            polling.begin();
        } else {
            // The attention word is not touched by what is over after one pass.
            let found = self.visit(context, false, self.looks(context, false));
            self.call_back(context, &mut polling, found);
            if done() {
                if found == Some(Pass::More) {
                    self.come_back_late();
                }
                return true;
            }
            polling.more = found == Some(Pass::More);
        }
        let ends = timeout.map(|t| now_ns().saturating_add(u64::try_from(t.as_nanos()).unwrap_or(u64::MAX)));
        let finished = self.wait_polling(context, &mut done, ends, &mut polling);
        if !polling.on {
            // Nobody has left anything to this thread, which leaves nothing behind either.
            if polling.more && self.look(Budget::of(context)) == Some(Pass::More) {
                self.come_back_late();
            }
            return finished || done();
        }
        polling.end();
        // What was published while this thread was seen polling or sleeping was not announced to anybody
        // else: look once more (`end` has fenced), and leave nothing behind.
        if self.look(Budget::of(context)) == Some(Pass::More) {
            self.come_back(USER_CONTINUE_NS);
        }
        finished || done()
    }

    fn wait_polling(
        &self,
        context: Context,
        done: &mut impl FnMut() -> bool,
        ends: Option<u64>,
        polling: &mut Polling<'_>,
    ) -> bool {
        let mut idle_since = now_ns();
        let (mut spin, mut most) = self.patience(context, idle_since);
        let (mut found, mut yielded, mut several, mut slept) = (None, false, false, false);
        // Until when this thread stays on the core that a yield gave back to it, and whether it had to.
        let (mut stays_until, mut stayed) = (0, false);
        // The time before a visit, which is that after one that finds nothing, too: when a yield gave the core back, or when the wait began, if it does not look for long.
        let mut before = (spin == 0).then_some(idle_since);
        // Whether others had the core when it was given away just now, where that tells; and whether a yield was tried before the next sleep.
        let (mut others, mut tried) = (None, false);
        // Whether it has looked for long for what comes next. Where ranks share cores it looks once before: what is there from the start says nothing of looks.
        let mut looked = !self.shares_core();
        let mut slice = ShortSlice::new();
        loop {
            let looks = if looked { self.looks(context, yielded) } else { 1 };
            found = self.visit(context, found == Some(Pass::More), looks);
            if self.call_back(context, polling, found) {
                // They take as long as they like.
                before = None;
                idle_since = now_ns();
            }
            // Somebody else inside may have been there only to post something.
            polling.more = found.map_or(polling.more, |pass| pass == Pass::More);
            if done() {
                if let Some(others) = others {
                    self.together.note(others);
                }
                if looked && !yielded && most > spin {
                    self.yields.note_look(true);
                }
                if stayed {
                    self.yields.note_stay(true);
                }
                if yielded && !slept {
                    self.yields.note_saved(several);
                    self.yields.note_lasted(if several { now_ns().wrapping_sub(idle_since) } else { 0 });
                }
                return true;
            }
            let worked = matches!(found, Some(Pass::Worked | Pass::More));
            if let Some(others) = others.take() {
                self.together.note(others && worked);
            }
            let now = before.take().filter(|_| !worked).unwrap_or_else(now_ns);
            if ends.is_some_and(|end| now >= end) {
                if yielded && !slept && !worked {
                    self.yields.note_unmet(now.wrapping_sub(idle_since));
                }
                return false;
            }
            if worked {
                idle_since = now;
                if looked && !yielded && most > spin {
                    self.yields.note_look(true);
                }
                (spin, most) = self.patience(context, now);
                looked = !self.shares_core();
                if stayed {
                    self.yields.note_stay(true);
                    stayed = false;
                }
                continue;
            }
            let idle = now.wrapping_sub(idle_since);
            if idle < spin || now < stays_until {
                stayed = idle >= spin;
                looked = true;
                tocsin_sync::atomic::spin_loop();
                continue;
            }
            polling.begin();
            if idle < most {
                if yielded {
                    self.yields.note_stay(false);
                } else {
                    self.yields.note_look(false);
                }
                stayed = false;
                if self.would_yield_to_computing(now) {
                    // A wake takes the core from who computes on it, where a yield does not: sleep next.
                    most = spin;
                    continue;
                }
                (several, yielded) = (yielded, true);
                before = self.yields.give_way(now);
                if self.spins_longer(context) {
                    others = Some(others_had_it(now, before));
                }
                match before {
                    Some(back) => stays_until = self.yields.stays_until(back),
                    // Likewise: somebody has computed there meanwhile.
                    None => most = spin,
                }
                continue;
            }
            if yielded && most > spin {
                self.yields.bar_asleep(now);
            }
            if !yielded && !tried && self.spins_longer(context) && !self.yields.apart.is_asked() {
                tried = true;
                if self.tries_a_yield(now) {
                    before = self.yields.give_way(now);
                    others = Some(others_had_it(now, before));
                    continue;
                }
            }
            slept = true;
            self.yields.apart.note_slept();
            if context == Context::User && self.is_crowded() {
                // Who wakes it needs something of it, and may be the one that computes on this core.
                slice.begin();
            }
            stats::add(&self.stats.sleeps, 1);
            if let Some(trace) = self.trace() {
                trace.record_at(now, kind::SLEEP, 0, 0);
            }
            let mut finished = false;
            // Somebody who was rung and did not hear it is rung again by the pass that follows.
            let reminder = self.unheard.load(Ordering::Relaxed).then_some(super::timer::REMIND_NS);
            let left = ends.map(|end| end.wrapping_sub(now));
            let nap = reminder.into_iter().chain(left).min().map(Duration::from_nanos);
            let look = || {
                // Already counted as a sleeper.
                polling.end();
                let found = self.look_first(Budget::of(context).waiting());
                finished = done();
                finished
                    || matches!(found, Some(Pass::Worked | Pass::More))
                    || self.callbacks.need_a_thread()
                    || reminder.is_none() && self.unheard.load(Ordering::Relaxed)
            };
            let woken = self.own.sleep(nap, look);
            if let Some(trace) = self.trace() {
                trace.record(kind::WAKE, u64::from(woken), 0);
            }
            polling.begin();
            let now = now_ns();
            if context == Context::User && self.is_crowded() {
                let lasted = now.wrapping_sub(idle_since);
                if woken || finished {
                    self.yields.note_lasted(lasted);
                } else {
                    self.yields.note_unmet(lasted);
                }
            }
            if woken && self.spins_longer(context) {
                self.spin.note_sleep(now.wrapping_sub(idle_since), self.config.spin_ns);
            }
            if finished {
                return true;
            }
            tried = false;
            idle_since = now;
            (spin, most) = self.patience(context, idle_since);
        }
    }

    /// Runs callbacks that are queued. This thread does not look by itself meanwhile: they may last, and the rank is rung. Whether any was run.
    #[inline]
    fn call_back(&self, context: Context, polling: &mut Polling<'_>, found: Option<Pass>) -> bool {
        self.callbacks.are_left() && self.call_back_now(context, polling, found)
    }

    #[cold]
    fn call_back_now(&self, context: Context, polling: &mut Polling<'_>, mut found: Option<Pass>) -> bool {
        let polled = polling.on;
        polling.end();
        // As at the end of a wait.
        if polled {
            found = self.look_first(Budget::of(context));
        }
        if found == Some(Pass::More) {
            self.come_back(USER_CONTINUE_NS);
        }
        let ran = self.run_callbacks();
        if polled {
            polling.begin();
        }
        ran > 0
    }

    /// For how long a wait that begins now looks before it yields, and before it sleeps, nanoseconds. A progress thread, which
    /// is for ever in vain, does not yield, and leaves its rank's experience alone.
    pub(super) fn patience(&self, context: Context, now: u64) -> (u64, u64) {
        let yields = context == Context::User
            && self.yield_ns() > 0
            && !self.yields.is_barred(now)
            && !self.would_yield_to_computing(now);
        if !yields {
            let least = self.config.spin_ns;
            let spin = if self.spins_longer(context) { self.spin.ns(least) } else { least };
            (spin, spin)
        } else if self.yields.apart.is_asked() {
            (0, 0)
        } else {
            // The message may be that of the rank to which this one gives the core.
            let look = self.yields.look_ns();
            (look, look.saturating_add(self.yields.yields_for(self.yield_ns())))
        }
    }

    /// Whether a wait may spin for longer than the configuration says: the core is a user's thread's own.
    fn spins_longer(&self, context: Context) -> bool {
        let EngineConfig { spin_ns, yield_ns, .. } = self.config;
        context == Context::User && yield_ns == 0 && spin_ns > 0
    }

    /// Whether it pays to look for long for what a thread is about to [wait for](Self::wait_until). If that look meets it, and it was not there from the start, which
    /// says nothing of looks, the caller says so by [`note_met`](Self::note_met).
    pub fn should_look(&self) -> bool {
        self.yield_ns() == 0 || self.yields.should_look()
    }

    /// A thread has received what was there, or was soon, and mostly receives more.
    #[inline(always)]
    pub fn note_received(&self) {
        // SYNC POINT: Relaxed, both: a hint to handlers. Of two threads that count at once, one is enough.
        let received = self.received.load(Ordering::Relaxed);
        self.received.store(received.wrapping_add(1), Ordering::Relaxed);
    }

    /// A look before [`wait_until`](Self::wait_until) met what it was for.
    #[inline]
    pub fn note_met(&self) {
        if self.yield_ns() > 0 {
            self.yields.note_look(true);
        }
    }

    /// How often a visit looks. Once where others wait for this core, which has just come back or is about to be given away.
    #[inline]
    fn looks(&self, context: Context, yielded: bool) -> u32 {
        if context == Context::User && (yielded || !self.should_look()) { 1 } else { LOOKS }
    }

    /// So many looks, and a pass if there is something, if nobody is inside; without a request if somebody is: for who
    /// will look again anyway. With `more`, a pass at once. Callbacks stay queued.
    #[inline]
    pub(super) fn visit(&self, context: Context, more: bool, looks: u32) -> Option<Pass> {
        if self.token.is_busy() || !self.token.try_lock() {
            return None;
        }
        let something = more
            || (0..looks).any(|_| {
                // SAFETY: the token is ours; the reference ends before `passes`.
                let work = unsafe { &*self.work.get() };
                work.work_left() || work.has_coming() || self.token.is_requested()
            });
        if !something && self.try_leave_as_found() {
            return Some(Pass::Idle);
        }
        // SAFETY: the token is ours. What is left is this thread's to come back for.
        Some(unsafe { self.passes(context, something, false, false, Budget::of(context).waiting()) }.pass())
    }

    /// The look-once-more, after a full fence: a pass if there is something. None: somebody is inside and
    /// will make a pass that began after this call.
    pub(super) fn look(&self, budget: Budget) -> Option<Pass> {
        let context = budget.context();
        let found = self.look_first(budget);
        if !self.callbacks.is_empty() && found.is_some() {
            if found == Some(Pass::More) {
                // They may last, and the caller sees to what is left after them.
                self.come_back(USER_CONTINUE_NS);
            }
            self.run_or_leave_callbacks(context);
        }
        found
    }

    /// [`look`](Self::look), and callbacks stay queued: for who is seen looking or sleeping, since they may last.
    pub(super) fn look_first(&self, budget: Budget) -> Option<Pass> {
        if !self.token.lock_or_request() {
            return None;
        }
        // SAFETY: the token is ours; the reference ends before `passes`.
        let something = unsafe { &*self.work.get() }.work_left();
        if !something && self.try_leave_as_found() {
            return Some(Pass::Idle);
        }
        // SAFETY: the token is ours.
        Some(unsafe { self.passes(budget.context(), something, false, false, budget) }.pass())
    }
}
