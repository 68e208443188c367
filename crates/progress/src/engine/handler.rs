//! What a doorbell's handler does.

use super::{Engine, Left, RECEIVING_NS};
use crate::budget::{Budget, Context, Work};
use crate::duty::{ENTRY_NS, IDLE_PASS_NS};
use crate::stats;
use crate::trace::kind;
use tocsin_doorbell::Cause;
use tocsin_sync::atomic::{Ordering, fence};
use tocsin_sync::clock::now_ns;

/// A thread that has met so many receives since the last handler is in the library again and again.
pub(super) const RECEIVES: u32 = 4;

impl<W: Work> Engine<W> {
    /// What the receiver runs: `Receiver::install(.., Engine::<W>::handler_entry, engine_pointer.cast())`.
    /// Looks at the work within rule 5's budget and the duty cycle, or leaves the look to whoever is inside.
    ///
    /// Handlers only. Wait-free: besides the work a constant number of atomic operations for each of at most `HANDLER_PASSES` passes and for the entry, five
    /// clock readings, two `timer_settime`, and when it is over one `tgkill`.
    ///
    /// # Safety
    /// `context` points to an `Engine<W>` that outlives the receiver; called on the receiver's thread, in a
    /// `HandlerScope`, not nested in itself.
    pub unsafe fn handler_entry(context: *const (), cause: Cause) {
        // SAFETY: the caller's promise.
        let engine = unsafe { &*context.cast::<Engine<W>>() };
        engine.interrupted(cause);
    }

    fn interrupted(&self, cause: Cause) {
        stats::add(&self.stats.interrupts, 1);
        if cause == Cause::UserInterrupt {
            stats::add(&self.stats.user_interrupts, 1);
        }
        // It may have been the timer. One that stands all the same is set once more than needed, at the worst.
        self.timer.store(0, Ordering::Relaxed);
        // Most entries of a rank that is not flooded find little or nothing: those read the clock when work begins, or not
        // at all, which is a good part of what they take. 0: not read.
        let begun = if self.trace().is_none() && self.duty.is_far() { 0 } else { now_ns() };
        if let Some(trace) = self.trace() {
            trace.record_at(begun, kind::INTERRUPT, cause as u64, 0);
        }
        // The cause decides nothing else: a timer's and a ring's signal collapse into one.
        let wait = if begun == 0 { 0 } else { self.duty.wait(begun) };
        let left = if wait > 0 && self.throttle(wait) {
            // No work now, but the next to come in from anywhere makes the pass that is due.
            self.token.request();
            Left::NOTHING
        } else {
            // (Without a timer there is no throttling: nobody would lift it.)
            self.duty.clear_suppressed();
            self.own.suppress(false);
            // SYNC POINT: attention word, fence, look; a ringer publishes, fences, reads the attention word.
            fence(Ordering::SeqCst);
            if self.token.lock_or_request() {
                let budget = if begun == 0 { Budget::handler() } else { Budget::handler_since(begun) };
                // SAFETY: the token is ours.
                let left = unsafe { self.passes(Context::Handler, true, false, false, budget) };
                self.see_to_callbacks(Context::Handler);
                left
            } else {
                stats::add(&self.stats.deferrals, 1);
                if let Some(trace) = self.trace() {
                    trace.record(kind::DEFERRED, 0, 0);
                }
                Left::NOTHING
            }
        };
        if begun == 0 && left.began == 0 && !left.worked && !left.more && self.duty.idle() {
            return;
        }
        self.account(cause, if begun == 0 { left.began } else { begun }, left);
    }

    /// Charges an entry that began at `begun` (0: it found nothing, and nobody looked) and now ends, and has it go on
    /// later if there is more.
    fn account(&self, cause: Cause, begun: u64, left: Left) {
        let more = left.more;
        let ended = now_ns();
        let took = if begun == 0 { IDLE_PASS_NS } else { ended.wrapping_sub(begun) };
        stats::add(&self.stats.stolen_ns, took);
        self.duty.charge(ended, took.saturating_add(ENTRY_NS));
        if let Some(trace) = self.trace() {
            trace.record_at(ended, kind::INTERRUPT_END, took, kind::interrupt_ended(cause as u64, more));
        }
        // SYNC POINT: Relaxed, both: a hint; what threads count between may be lost.
        let receives = self.received.load(Ordering::Relaxed) >= RECEIVES;
        self.received.store(0, Ordering::Relaxed);
        let wait = self.duty.wait(ended);
        if wait > 0 && self.throttle(wait) {
            return;
        }
        let alone = !self.callbacks.are_running();
        if more && alone && self.waits.load(Ordering::Relaxed) {
            // The thread that was interrupted goes on, unless it is in a callback, which may last.
            self.come_back_late();
        } else if more && alone && receives && !left.operations {
            // Likewise, if it receives one message after the other, and nothing of this rank's own was under way that could be among what is left: a handler that took in all that comes
            // would let it receive nothing, as long as its peers send.
            self.arm_unless_sooner(RECEIVING_NS);
        } else if more {
            self.go_on(took.saturating_add(ENTRY_NS));
        }
    }

    /// Has ringers leave this thread alone for `wait` ns. False: there is no timer, nothing was done.
    fn throttle(&self, wait: u64) -> bool {
        self.duty.set_suppressed();
        self.own.suppress(true);
        // The timer comes after the bit, on the thread that it will interrupt: see the engine's text.
        if self.arm(wait) {
            stats::add(&self.stats.throttles, 1);
            if let Some(trace) = self.trace() {
                trace.record(kind::THROTTLE, wait, 0);
            }
            return true;
        }
        self.duty.clear_suppressed();
        self.own.suppress(false);
        // SYNC POINT: who saw the bit meanwhile did not ring; the look is the pass that the request causes,
        // or, where the caller goes on to one, that.
        fence(Ordering::SeqCst);
        self.token.request();
        false
    }
}
