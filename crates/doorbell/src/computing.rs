//! Since when a rank's thread computes, and on which core: what its peers go by where ranks share cores.
//!
//! Who yields beside a computing thread has the core back at the end of a time slice, milliseconds later; and who waits for a computing
//! rank to look by itself waits as long as it computes. Both can be known beforehand if those who leave the library say so.
//!
//! One word of the descriptor says it: when the thread left the library with operations under way, in nanoseconds, the lowest bits replaced by the
//! number of its core. It is written where ranks share cores, by their users' threads. A thread that waits does not take it back, for that
//! stands in the attention word.
//!
//! **It is a hint**, and publishes nothing. Who goes by a wrong one interrupts somebody who was about to look, or sleeps where a yield
//! had been quicker, or yields in vain, and loses no wake-up: whether a ring is held back may change with every reading
//! (`tests/loom_doorbell.rs`).

use crate::descriptor::Descriptor;
use crate::fork;
use crate::own::Own;
use crate::sys;
use tocsin_sync::atomic::Ordering;

/// Who has been out of the library for as long, with operations under way, is taken to compute, nanoseconds. Short against the time slice that
/// a yield beside it takes, and longer than most who only do something between two calls.
pub const COMPUTES_NS: u64 = 100_000;

/// Of the word, what says the core.
pub(crate) const CORE: u64 = 0xFFF;

/// A core's number as descriptors know it: larger machines have several cores of one number.
#[inline]
pub fn core_number(core: u32) -> u32 {
    core & CORE as u32
}

impl Own {
    /// "I compute from now on", at a time of the one clock, on a core.
    ///
    /// Wait-free (one store); handlers may call it.
    #[inline]
    pub fn computes_from(&self, now: u64, core: u32) {
        if fork::disowned() {
            return;
        }
        // One bit is always set: 0 says nothing.
        let word = (now & !CORE) | (CORE + 1) | (u64::from(core) & CORE);
        // SYNC POINT: Relaxed: a hint, see the module.
        self.descriptor().computing.store(word, Ordering::Relaxed);
    }

    /// Takes [`computes_from`](Self::computes_from) back: the thread may compute, but has nothing under way. Whether that was said.
    ///
    /// Wait-free (a load, at most one store); handlers may call it.
    #[inline]
    pub fn has_nothing_under_way(&self) -> bool {
        let word = &self.descriptor().computing;
        // SYNC POINT: Relaxed: a hint, see the module.
        let is_said = word.load(Ordering::Relaxed) != 0 && !fork::disowned();
        if is_said {
            word.store(0, Ordering::Relaxed);
        }
        is_said
    }
}

impl Descriptor {
    /// On which core ([`core_number`]) the owner has computed for [`COMPUTES_NS`] or longer, as far as is known; `None`: it has not, or waits.
    ///
    /// Wait-free: at most two loads, and `now` if they leave it open. Handlers may call it.
    #[inline]
    pub fn computes_on(&self, now: impl FnOnce() -> u64) -> Option<u32> {
        // SYNC POINT: Relaxed: a hint, see the module.
        let word = self.computing.load(Ordering::Relaxed);
        if word == 0 {
            return None;
        }
        let attention = self.attention();
        let waits = attention.pollers() > 0 || attention.sleepers() > attention.attendants();
        // A time that is yet to come, of a lying or confused peer, is not long ago.
        let is_long = || now().saturating_sub(word & !CORE) >= COMPUTES_NS;
        (!waits && attention.tid() != 0 && is_long()).then_some((word & CORE) as u32)
    }

    /// Whether the owner has computed for that long, on whichever core. Bounds as [`computes_on`](Self::computes_on)'s; handlers may call it.
    #[inline]
    pub fn computes(&self) -> bool {
        self.computes_on(|| sys::now_ns(self)).is_some()
    }
}

#[cfg(all(test, not(loom)))]
#[allow(unsafe_code, clippy::unwrap_used)] // descriptor by pointer
mod tests {
    use super::*;
    use crate::{Attention, BackendKind, Mark, Urgency, hold_back, is_held, release};
    use tocsin_sync::clock::now_ns;

    fn installed() -> (Box<Descriptor>, Own) {
        let descriptor = Box::new(Descriptor::new());
        descriptor.publish(BackendKind::Signal, 1, 1, libc::SIGURG as u32, (0, 0)).unwrap();
        // SAFETY: the box is kept beside it.
        let own = unsafe { Own::new(&raw const *descriptor) };
        (descriptor, own)
    }

    #[test]
    fn who_has_left_long_ago_computes_unless_it_waits() {
        let (descriptor, own) = installed();
        let left = 7_000_000;
        let later = left + COMPUTES_NS + CORE;
        assert_eq!(descriptor.computes_on(|| u64::MAX), None, "nothing was said");
        own.computes_from(left, 5);
        assert_eq!(descriptor.computes_on(|| left + COMPUTES_NS / 2), None, "not for long");
        assert_eq!(descriptor.computes_on(|| left - COMPUTES_NS), None, "nor from a time to come");
        assert_eq!(descriptor.computes_on(|| later), Some(5));
        own.begin_poll();
        assert_eq!(descriptor.computes_on(|| later), None);
        own.end_poll();
        own.sleep(None, || {
            assert_eq!(descriptor.computes_on(|| later), None);
            true
        });
        // A progress thread that sleeps says nothing of the user's.
        own.attend(None, || {
            assert_eq!(descriptor.computes_on(|| later), Some(5));
            true
        });
        own.has_nothing_under_way();
        assert_eq!(descriptor.computes_on(|| later), None);
        own.computes_from(left, 5);
        descriptor.attention.fetch_and(Attention::LOW, Ordering::Relaxed);
        assert_eq!(descriptor.computes_on(|| later), None, "its thread is gone");
    }

    #[test]
    fn numbers_of_any_size_are_cores() {
        let (descriptor, own) = installed();
        for core in [0, 1, 4095, 4096, 5000, u32::MAX] {
            own.computes_from(1, core);
            assert_eq!(descriptor.computes_on(|| u64::MAX), Some(core_number(core)));
            own.computes_from(u64::MAX, core);
            assert_eq!(descriptor.computes_on(|| 1), None);
        }
    }

    #[test]
    fn nothing_is_held_back_from_who_computes() {
        let (descriptor, own) = installed();
        let mark = Mark::new();
        own.computes_from(now_ns(), 0);
        assert!(hold_back(&descriptor, &mark, Urgency::Urgent), "it may be about to look");
        own.computes_from(now_ns() - 2 * COMPUTES_NS, 0);
        assert!(!is_held(&descriptor, &mark, Urgency::Urgent));
        release(&mark);
        assert!(!hold_back(&descriptor, &mark, Urgency::Urgent) && !mark.is_set());
    }
}
