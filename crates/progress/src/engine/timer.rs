//! The timer: what was left, or may not have been heard, has the handler run again.

use super::{Engine, UNFINISHED_NS};
use crate::budget::Work;
use tocsin_doorbell::Control;
use tocsin_sync::atomic::Ordering;

/// How long somebody who was rung may take to look before it is rung by other means.
pub(super) const REMIND_NS: u64 = tocsin_doorbell::MARK_LIFE_NS;

impl<W: Work> Engine<W> {
    /// Has the handler run in `delay_ns`. False: there is no timer. Handler-safe, one system call.
    #[inline]
    pub(super) fn arm(&self, delay_ns: u64) -> bool {
        let control = self.control.load(Ordering::Acquire);
        // SAFETY: null, or a box that lives as long as the engine and that nobody changes.
        match unsafe { control.as_ref() } {
            Some(control) => {
                let goes_off = tocsin_sync::clock::now_ns().saturating_add(delay_ns);
                self.timer.store(goes_off, Ordering::Relaxed);
                control.arm(delay_ns)
            }
            None => false,
        }
    }

    /// Has the handler run again that calls this and leaves work. At once: the cap on what handlers take counts this one, and a timer that goes off soon may
    /// take a thread of a virtual machine three times what the handler does (arming it 9 us, going off 20, on the Xeon). Where that cannot be, or another
    /// thread wants the engine, which is free between two entries for a microsecond only, in `delay_ns`.
    pub(super) fn go_on(&self, delay_ns: u64) {
        let control = self.control.load(Ordering::Acquire);
        // SYNC POINT: Relaxed: a hint.
        let wanted = self.wanting.load(Ordering::Relaxed) > 0;
        // SAFETY: as in `arm`.
        if wanted || !unsafe { control.as_ref() }.is_some_and(Control::again) {
            self.arm(delay_ns);
        }
    }

    /// Has this rank come back to those who may not have heard it.
    #[cold]
    pub(super) fn remind(&self) {
        self.arm_unless_sooner(REMIND_NS);
    }

    /// As [`arm`](Self::arm), unless the timer goes off before that anyway: there is one, and who asks for it again and
    /// again must not put it off each time. Whatever its pass leaves sets it again.
    pub(super) fn arm_unless_sooner(&self, delay_ns: u64) {
        let now = tocsin_sync::clock::now_ns();
        // SYNC POINT: Relaxed: two threads that set the timer at once may leave the other's time here; it is forgotten when
        // the timer goes off.
        let left = self.timer.load(Ordering::Relaxed).saturating_sub(now);
        if left == 0 || left > delay_ns {
            self.arm(delay_ns);
        }
    }

    /// Somebody must enter again, and the thread that waited for short messages, or is in the library again and again, mostly does that soon. A handler
    /// beside it would take its time for what it is about to do itself, and as it takes less at a time, would have itself called again and again.
    pub(super) fn come_back_late(&self) {
        self.arm_unless_sooner(UNFINISHED_NS);
    }

    /// Somebody must enter again, outside handlers' own arrangements.
    pub(super) fn come_back(&self, delay_ns: u64) {
        // Sleepers were woken by `passes`; this is for the thread that goes back to computing.
        self.arm(delay_ns);
    }
}
