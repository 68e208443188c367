//! The engine: enter, work, leave.
//!
//! # For users
//! One engine per rank, shared by all its threads and its handler. A user call does
//! `let mut work = engine.enter(); work.something(); drop(work);` and, if it has to wait,
//! [`Engine::wait_until`]. The doorbell's receiver runs [`Engine::handler_entry`].
//!
//! # Implementation details
//! **Entering** is [`crate::token`]'s protocol, where the reason stands why no request for a pass is lost.
//!
//! **Leaving** flushes the rings, publishes whether plain messages and offers should interrupt (newly so: fence,
//! and one more pass, because a peer that looked before saw the old answer), and tries to leave; a request that came
//! in meanwhile causes another pass. Passes are bounded: a handler makes at most [`HANDLER_PASSES`] within one
//! budget, others at most [`USER_PASSES`]. Who leaves with work or a request standing makes sure that somebody
//! comes back, in each context:
//! - *handler*: has itself run again as soon as it is over; or, when
//!   handlers have had their share, suppresses the doorbell and arms the timer for the end of the window; or arms it for later, if the thread that it interrupted is in a wait, or
//!   receives one message after the other and nothing of this rank's was under way;
//! - *user thread*: arms the timer, if its rank has one, and wakes the rank's sleepers (a progress thread is
//!   one, when it is not polling). A rank without timer and sleepers has nobody who could be waiting but
//!   threads that poll, and `poll` ranks that look at their next call: that is what `poll` means. One that waits
//!   next ([`Entered::stay`]) sets no timer for what it has begun;
//! - *progress thread, and any thread in* [`Engine::wait_until`]: it looks again itself; before it sleeps or
//!   returns it looks once more with "I am looking" withdrawn.
//!
//! **Throttling** (rule 5): handlers keep an account ([`crate::duty`]). Over the cap, an entry does no work: it
//! sets the descriptor's throttle bit and arms the timer. A throttled receiver loses no wake-up, because (1)
//! whoever sets the bit arms the timer *after* it, on the thread that the timer interrupts; (2) every entry
//! that is under the cap, whatever its cause, clears the bit unconditionally, fences and makes a pass; every
//! entry that is over it arms the timer again; so the bit never stands without a timer or an entry under way;
//! (3) sleepers and pollers are unaffected by the bit; (4) user entries that find the window over lift it
//! too. A user's lifting may race with a handler's setting: whichever wins, the timer is armed.

use crate::budget::{Budget, Context, Pass, Work};
use crate::callbacks::Callbacks;
use crate::duty::Duty;
use crate::stats::{self, Stats};
use crate::token::Token;
use crate::trace::{Trace, kind};
use core::cell::UnsafeCell;
use core::ptr;
use crossbeam_utils::CachePadded;
use std::sync::{Arc, Mutex, PoisonError};
use tocsin_doorbell::{Control, Own};
use tocsin_sync::HandlerSafe;
use tocsin_sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence, fence_after_rmw};
use tocsin_sync::thread;

mod at_once;
pub use at_once::AtOnce;
mod apart;
mod asks;
mod beside;
mod config;
pub use config::EngineConfig;
mod credit;
mod entered;
pub use entered::{Entered, Lingering};
mod follows;
use follows::Follows;
mod handler;
mod patience;
mod serve;
mod soon;
mod spin;
mod spread;
mod stays;
mod timer;
mod together;
mod turns;
pub use soon::{Post, Posts};
pub use turns::Turns;
mod wait;
pub use wait::Looking;
mod yields;

use asks::Asks;
use credit::Credit;
use patience::Patience;
use soon::Soon;
use spin::Spin;
use together::Together;
use yields::Yields;

/// Passes of one handler entry: the first, and those asked for meanwhile; all within one budget.
pub const HANDLER_PASSES: u32 = 4;
/// Passes that a leaving user or progress thread makes for others before it leaves all the same.
pub const USER_PASSES: u32 = 8;
/// The timer's delay after a user thread left work behind: enough for it to get away from the engine.
const USER_CONTINUE_NS: u64 = 5_000;
/// The timer's delay after a user thread has posted what nobody else goes on with yet. Mostly somebody soon does: the
/// thread itself, in a wait, or the peer in one. Long enough to interrupt nobody for that; short against the millisecond
/// that both may compute.
pub const UNFINISHED_NS: u64 = 200_000;
/// The timer's delay after a handler that has left something to a thread that receives one message after the other: handlers so far apart take little of it, and one that has
/// stopped to receive, or has posted something by now, is kept waiting for no longer; the next handler goes on at once.
const RECEIVING_NS: u64 = 50_000;

/// One rank's engine. See the module.
pub struct Engine<W> {
    token: CachePadded<Token>,
    work: UnsafeCell<W>,
    own: Own,
    /// What `attach` was given; null before. The boxes live in `controls` as long as the engine.
    control: AtomicPtr<Control>,
    #[allow(clippy::vec_box)] // `control` points into the boxes, which must not move
    controls: Mutex<Vec<Box<Control>>>,
    duty: Duty,
    callbacks: Callbacks,
    stats: Arc<Stats>,
    config: EngineConfig,
    /// Each stay inside is recorded.
    sees_everything: bool,
    yields: Yields,
    spin: Spin,
    together: Together,
    soon: Soon,
    follows: Follows,
    asks: Asks,
    /// Rings held back for who then looked by himself.
    patience: Credit,
    /// Somebody who was rung may not have heard it ([`Work::awaits_answer`]).
    unheard: AtomicBool,
    /// A user's thread is in a wait: it makes passes by itself.
    waits: AtomicBool,
    /// Receives that user threads have met without a request since a handler looked here last, which those that find nothing mostly do not: two threads, or a handler between, may lose some or count
    /// them twice.
    received: AtomicU32,
    /// Threads that wait for the token.
    wanting: AtomicU32,
    /// When the timer goes off that was set last; 0 once a handler has run since.
    timer: AtomicU64,
}

// SAFETY: `work` is reached by whoever holds the token, one at a time, and is Send; the rest is Sync.
unsafe impl<W: Work> Sync for Engine<W> {}
// SAFETY: all of it may move to another thread; `Own`'s descriptor is shared memory.
unsafe impl<W: Work> Send for Engine<W> {}
// SAFETY: of the shared methods, those for handlers (`try_enter`, `poke`, `handler_entry`, getters) are
// bounded and never wait; `enter` and `wait_until` notice that they run in a handler.
unsafe impl<W: Work> HandlerSafe for Engine<W> {}

impl<W> core::fmt::Debug for Engine<W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Engine").field("token", &self.token).finish_non_exhaustive()
    }
}

/// What a stay inside left behind.
#[derive(Clone, Copy)]
struct Left {
    /// Some pass found something to do.
    worked: bool,
    /// Work or a request is left.
    more: bool,
    /// Something [unfinished](Work::is_unfinished) is.
    copies: bool,
    /// An operation of this rank's is [under way](Work::has_operations): asked in handlers.
    operations: bool,
    /// [`Budget::time_began`] of the last pass.
    began: u64,
}

impl Left {
    /// Nothing was done, and nothing is known to be left.
    const NOTHING: Left = Left { worked: false, more: false, copies: false, operations: false, began: 0 };

    fn pass(self) -> Pass {
        match self {
            Left { more: true, .. } => Pass::More,
            Left { worked: true, .. } => Pass::Worked,
            Left { .. } => Pass::Idle,
        }
    }
}

impl<W: Work> Engine<W> {
    /// An engine around `work`. `stats` may be shared with the work. Not for handlers.
    pub fn new(work: W, own: Own, config: EngineConfig, stats: Arc<Stats>) -> Self {
        let yields = if config.yield_ns > 0 { Yields::new() } else { Yields::unproven() };
        Engine {
            token: CachePadded::new(Token::new()),
            work: UnsafeCell::new(work),
            own,
            control: AtomicPtr::new(ptr::null_mut()),
            controls: Mutex::new(Vec::new()),
            duty: Duty::new(),
            callbacks: Callbacks::new(config.callback_thread),
            stats,
            sees_everything: config.trace.is_some(),
            config,
            yields,
            spin: Spin::new(),
            together: Together::new(),
            soon: Soon::new(),
            follows: Follows::new(),
            asks: Asks::new(),
            patience: patience::credit(),
            unheard: AtomicBool::new(false),
            waits: AtomicBool::new(false),
            received: AtomicU32::new(0),
            wanting: AtomicU32::new(0),
            timer: AtomicU64::new(0),
        }
    }

    /// Says by what the engine may have itself called again: after `Receiver::install`, whose `run` is
    /// [`handler_entry`](Self::handler_entry). Looks once, because what was published before was not
    /// announced. A control whose receiver is gone does no harm. User threads only.
    pub fn attach(&self, control: Control) {
        let mut boxed = Box::new(control);
        let pointer: *mut Control = &raw mut *boxed;
        self.controls.lock().unwrap_or_else(PoisonError::into_inner).push(boxed);
        // SYNC POINT: Release pairs with `arm`'s Acquire: the control behind the pointer.
        self.control.store(pointer, Ordering::Release);
        fence(Ordering::SeqCst);
        self.poke(Context::User);
    }

    /// Enters. User threads only: spins, then yields, until the token is free (whoever has it never waits
    /// while inside). Does not by itself cause a pass.
    ///
    /// In a handler it would have to wait for the interrupted code: that is a bug of the caller's, which ends
    /// the process with a message rather than hang it. Not reentrant.
    ///
    /// Progress class: blocking.
    #[inline]
    pub fn enter(&self) -> Entered<'_, W> {
        let begun = self.stay_begins();
        self.lift_throttle();
        if !self.token.try_lock() {
            self.wait_for_token();
        }
        self.entered(Context::User, begun)
    }

    #[cold]
    fn wait_for_token(&self) {
        // SYNC POINT: Relaxed: a hint to handlers, which leave the token free for a while then. (This never panics.)
        self.wanting.fetch_add(1, Ordering::Relaxed);
        self.take_token();
        self.wanting.fetch_sub(1, Ordering::Relaxed);
    }

    fn take_token(&self) {
        let mut tries = 0u32;
        loop {
            if thread::in_handler() {
                abort_waiting_in_handler();
            }
            // Who lingers inside hears it.
            self.token.request();
            while self.token.is_busy() {
                tries = tries.saturating_add(1);
                if tries < 64 {
                    tocsin_sync::atomic::spin_loop();
                } else {
                    wait::yield_now();
                }
            }
            if self.token.try_lock() {
                return;
            }
        }
    }

    /// Enters if nobody is inside; otherwise the holder makes another pass before it leaves. After success,
    /// a pass is made when the guard is dropped, if not before.
    ///
    /// Handlers may call it. Wait-free: one `lock or`, one `lock bts`.
    #[inline]
    pub fn try_enter(&self, context: Context) -> Option<Entered<'_, W>> {
        let begun = if context == Context::User {
            self.lift_throttle();
            self.stay_begins()
        } else {
            0
        };
        if !self.token.request_or_lock() {
            if context == Context::Handler {
                stats::add(&self.stats.deferrals, 1);
            }
            return None;
        }
        Some(self.entered(context, begun))
    }

    /// One bounded visit: enter, a pass, leave. [`Pass::Idle`] also when somebody else is inside (who then
    /// makes the pass).
    ///
    /// Handlers may call it (but [`handler_entry`](Self::handler_entry) is theirs). Wait-free: at most
    /// `2 * USER_PASSES + 6` atomic operations beside the work's.
    pub fn poke(&self, context: Context) -> Pass {
        let begun = if context == Context::User {
            self.lift_throttle();
            self.stay_begins()
        } else {
            0
        };
        if !self.token.lock_or_request() {
            return Pass::Idle;
        }
        // SAFETY: the token is ours.
        let left = unsafe { self.passes(context, true, false, false, Budget::of(context)) };
        if context != Context::Handler && left.more {
            self.come_back(USER_CONTINUE_NS);
        }
        self.see_to_callbacks(context);
        self.stay_ends(begun);
        left.pass()
    }

    /// [`passes`](Self::passes) for most stays: nobody has asked for a pass, and nothing is to be seen to after it but
    /// sleepers. False: still inside, with all of that to do.
    ///
    /// # Safety
    /// As [`passes`](Self::passes), if it answers true.
    #[inline]
    unsafe fn leave_at_once(&self, context: Context, touched: bool) -> bool {
        // SAFETY: the token is ours until `try_leave`, after which `work` is not used.
        let work = unsafe { &mut *self.work.get() };
        if context == Context::Handler {
            work.leave();
        } else if work.leave_quietly() {
            // Somebody would be interrupted: `passes` knows when.
            return false;
        }
        if work.wants_chore() || work.awaits_answer() || touched && work.is_unfinished() {
            return false;
        }
        if self.publish_wants(work) {
            // The pass that is due.
            self.token.request();
            return false;
        }
        if !self.callbacks.is_empty() || self.unheard.load(Ordering::Relaxed) || !self.token.try_leave() {
            return false;
        }
        if touched {
            // SYNC POINT: as in `passes`.
            fence_after_rmw();
            self.own.wake_own_after_fence();
        }
        true
    }

    /// Has callbacks run that are queued, after a stay inside. They may last: whoever is to come back for what that has left has been called before.
    #[inline]
    fn see_to_callbacks(&self, context: Context) {
        if !self.callbacks.is_empty() {
            self.run_or_leave_callbacks(context);
        }
    }

    /// Callbacks are queued: runs them, or, in a handler, wakes their thread.
    fn run_or_leave_callbacks(&self, context: Context) {
        if context == Context::Handler {
            self.callbacks.notify();
        } else {
            self.run_callbacks();
        }
    }

    /// Runs callbacks that are queued, unless another thread is at it. How many.
    fn run_callbacks(&self) -> usize {
        let ran = self.callbacks.run();
        stats::add(&self.stats.callbacks, ran as u64);
        ran
    }

    /// The rest of a stay inside: passes as needed, leaving, and what must follow, but for callbacks, which stay queued. Does not see to somebody
    /// coming back when work is left: the caller does. `serves`: the caller goes on with what is left, so that only threads that
    /// wait for what was completed need be woken.
    ///
    /// # Safety
    /// The caller holds the token, which this gives up, and no reference to the work.
    #[inline]
    unsafe fn passes(
        &self,
        context: Context,
        first_pass: bool,
        touched: bool,
        serves: bool,
        mut budget: Budget,
    ) -> Left {
        // SAFETY: the token is ours until `drain` leaves, after which `work` is not used.
        let work = unsafe { &mut *self.work.get() };
        let mut left = Left::NOTHING;
        if first_pass {
            if self.token.is_requested() {
                self.token.take_requests();
            }
            self.pass(work, &mut budget, &mut left);
        }
        let handler = context == Context::Handler;
        let (mut chore, mut unheard) = (false, false);
        let limit = if handler { HANDLER_PASSES } else { USER_PASSES };
        let passing = budget.is_in_passing();
        let (mut copies, mut operations) = (false, false);
        let mut patience = if handler { Patience::Over } else { Patience::Untried };
        let clean = self.token.drain(
            work,
            limit,
            |work| {
                if self.ring(work, &mut patience, passing) {
                    return true;
                }
                copies = work.is_unfinished();
                operations = handler && work.has_operations();
                chore = work.wants_chore();
                unheard = work.awaits_answer();
                // Before anybody is woken, who sleeps for no longer than that allows.
                self.unheard.store(unheard, Ordering::Relaxed);
                self.publish_wants(work)
            },
            |work| {
                if !handler {
                    budget.renew();
                }
                self.pass(work, &mut budget, &mut left);
                !handler || !budget.is_over()
            },
        );
        (left.copies, left.operations) = (copies, operations);
        if !clean {
            left.more = true;
        } else if copies && !left.more && !handler && (passing || touched && !self.callbacks.is_empty()) {
            // Who stays in the library goes on by itself, but after the callbacks, those of this pass among them, which may take their time.
            // If the thread waits, it is done before that.
            self.arm_unless_sooner(UNFINISHED_NS);
        }
        // Who only passes by and has left all that there was has found nothing.
        if left.worked || left.more || touched || copies && passing {
            // SYNC POINT: the token was left by a read-modify-write, after all that was completed here; pairs with the
            // sleeper's fence between "I sleep" and its last look.
            fence_after_rmw();
            // Somebody may sleep for what was completed here, or has to take over what was left.
            if serves && !unheard {
                self.own.wake_waiters_after_fence();
            } else {
                self.own.wake_own_after_fence();
            }
        }
        if chore {
            self.callbacks.ask_chore();
        }
        if unheard && !left.more {
            self.remind();
        }
        left
    }

    #[inline]
    fn pass(&self, work: &mut W, budget: &mut Budget, left: &mut Left) {
        stats::add(&self.stats.passes, 1);
        let found = work.progress(budget);
        left.more = found == Pass::More;
        left.began = budget.time_began();
        if found != Pass::Idle {
            left.worked = true;
            if let Some(trace) = self.trace() {
                trace.record(kind::PASS, budget.context() as u64, u64::from(left.more));
            }
        }
    }

    /// Publishes what may interrupt this rank. True: it asks for more than before, and there is something
    /// already that nobody announced.
    #[inline]
    fn publish_wants(&self, work: &mut W) -> bool {
        let published = work.takes_published();
        if !self.own.set_wants(work.wants_plain(), work.wants_offers()) && !published {
            return false;
        }
        // SYNC POINT: attention word, or what the work has published beside it, fence, look; a ringer publishes, fences, reads the attention word
        // and what stands beside it.
        fence(Ordering::SeqCst);
        work.work_left()
    }

    /// A user entry after the throttle's end lifts it. One load when there is none.
    #[inline]
    fn lift_throttle(&self) {
        if self.duty.is_suppressed() {
            self.lift_throttle_if_over();
        }
    }

    #[cold]
    fn lift_throttle_if_over(&self) {
        if self.duty.wait(tocsin_sync::clock::now_ns()) == 0 {
            self.duty.clear_suppressed();
            self.own.suppress(false);
            // SYNC POINT: as in `publish_wants`; the look is the pass that the request causes.
            fence(Ordering::SeqCst);
            self.token.request();
        }
    }

    /// The counters. Handlers may call it.
    #[inline]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The trace, if there is one. Handlers may call it.
    #[inline]
    pub fn trace(&self) -> Option<&Trace> {
        self.config.trace.as_deref()
    }

    /// The rank's own descriptor. Handlers may call it.
    #[inline]
    pub fn own(&self) -> &Own {
        &self.own
    }

    /// The rank's callbacks: where to set one.
    #[inline]
    pub fn callbacks(&self) -> &Callbacks {
        &self.callbacks
    }

    /// How handlers' share of the time is accounted.
    #[inline]
    pub fn duty(&self) -> &Duty {
        &self.duty
    }

    /// The work, by who owns the engine alone. Not for handlers.
    pub fn work_mut(&mut self) -> &mut W {
        self.work.get_mut()
    }
}

/// Someone called `enter` from a handler while the engine was busy.
#[cold]
fn abort_waiting_in_handler() -> ! {
    const TEXT: &[u8] = b"tocsin: a handler tried to wait for the engine that its own thread may hold\n";
    // SAFETY: writes a static text to standard error, then ends the process.
    unsafe {
        libc::write(2, TEXT.as_ptr().cast(), TEXT.len());
        libc::abort()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
