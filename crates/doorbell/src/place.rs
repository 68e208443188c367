//! On which core a rank waits, for peers that share cores with it.
//!
//! Who waits for a rank that runs elsewhere does best to look for its message, which comes within a microsecond or so. Who waits for one that waits for this very core
//! keeps it from that by looking, and gives the core away at once. So where ranks share cores who looks by itself, or is about to give its core away, says which that is, when it is another
//! one than it said, and anew after [`ANEW_NS`]; what was said longer than [`FRESH_NS`] ago says nothing: that rank computes, or sleeps. The word lies
//! on a line that its peers mostly have in their caches.
//!
//! **It is a hint**, and publishes nothing: the thread may have been moved since, or be one of several, which say so in turns. Who goes by a wrong one looks, or yields, for
//! a moment in vain.

use crate::computing::CORE;
use crate::descriptor::Descriptor;
use crate::fork;
use crate::own::Own;
use tocsin_sync::atomic::{AtomicU64, Ordering};

/// What is true is said again after so long, nanoseconds.
const ANEW_NS: u64 = 250_000;
/// For how long it counts.
const FRESH_NS: u64 = 1_000_000;

/// A time, the lowest bits replaced by the core's number; 0: nothing was said.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Place(AtomicU64);

impl Place {
    pub(crate) fn new() -> Place {
        Place(AtomicU64::new(0))
    }
}

impl Own {
    /// "I wait on this core", at a time of the one clock.
    ///
    /// Wait-free (a load, at most one store); handlers may call it.
    #[inline]
    pub fn waits_on(&self, core: u32, now: u64) {
        let word = &self.descriptor().place.0;
        // SYNC POINT: Relaxed: a hint, see the module; so is the store.
        let said = word.load(Ordering::Relaxed);
        let core = u64::from(core) & CORE;
        let is_said = said & CORE == core && now.saturating_sub(said & !CORE) < ANEW_NS;
        if !is_said && !fork::disowned() {
            word.store(now & !CORE | core, Ordering::Relaxed);
        }
    }
}

impl Descriptor {
    /// On which core ([`core_number`](crate::core_number)) the owner waits, as far as is known at a time of the one clock.
    ///
    /// Wait-free: one load; handlers may call it.
    #[inline]
    pub fn waits_where(&self, now: u64) -> Option<u32> {
        // SYNC POINT: Relaxed: a hint, see the module. A time that is yet to come, of a lying or confused peer, is as good as now: nobody is far ahead of the one clock.
        let said = self.place.0.load(Ordering::Relaxed);
        (said != 0 && now.saturating_sub(said & !CORE) < FRESH_NS).then_some((said & CORE) as u32)
    }
}

#[cfg(all(test, not(loom)))]
#[allow(unsafe_code)] // descriptor by pointer
mod tests {
    use super::*;
    use crate::core_number;

    #[test]
    fn the_last_core_is_known_for_a_while() {
        let descriptor = Box::new(Descriptor::new());
        // SAFETY: the box is kept beside it.
        let own = unsafe { Own::new(&raw const *descriptor) };
        let mut now = 5 * FRESH_NS;
        assert_eq!(descriptor.waits_where(now), None, "nothing was said");
        for core in [0, 1, 1, 0, 4095, 4096, u32::MAX] {
            own.waits_on(core, now);
            assert_eq!(descriptor.waits_where(now + FRESH_NS - CORE - 1), Some(core_number(core)));
            assert_eq!(descriptor.waits_where(now + FRESH_NS), None);
            now += FRESH_NS;
        }
        // It is not written each time.
        own.waits_on(7, now);
        let written = descriptor.place.0.load(Ordering::Relaxed);
        own.waits_on(7, now + ANEW_NS - CORE - 1);
        assert_eq!(descriptor.place.0.load(Ordering::Relaxed), written);
        own.waits_on(7, now + ANEW_NS);
        assert!(descriptor.waits_where(now + FRESH_NS).is_some());
        assert_eq!(descriptor.waits_where(0), Some(7), "the clock does not go back far");
    }
}
