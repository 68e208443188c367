//! On which core a rank waits, or is active, for peers that share cores with it.
//!
//! Who waits for a rank that runs elsewhere does best to look for its message, which comes within a microsecond or so. Who waits for one that waits for this very core
//! keeps it from that by looking, and gives the core away at once. So where ranks share cores who looks by itself, or is about to give its core away, says which that is, when it is another
//! one than it said, and anew after [`ANEW_NS`]; what was said longer than [`FRESH_NS`] ago says nothing: that rank computes, or sleeps. The word lies
//! on a line that its peers mostly have in their caches. Who never waits, such as the root of broadcasts, says where it has posted: others that wait for its core's next turn are not to
//! keep it from that either.
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

/// Of the word, that the rank waits.
const WAITS: u64 = CORE + 1;

/// A time, the lowest bits replaced by the core's number and [`WAITS`]; 0: nothing was said.
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
        self.say_place(core, WAITS, now);
    }

    /// "I am active on this core", which who [waits](Self::waits_on) there is, too.
    ///
    /// Wait-free (a load, at most one store); handlers may call it.
    #[inline]
    pub fn is_on(&self, core: u32, now: u64) {
        self.say_place(core, 0, now);
    }

    #[inline]
    fn say_place(&self, core: u32, waits: u64, now: u64) {
        let word = &self.descriptor().place.0;
        // SYNC POINT: Relaxed: a hint, see the module; so is the store.
        let said = word.load(Ordering::Relaxed);
        let core = u64::from(core) & CORE;
        let is_said =
            said & CORE == core && said & waits == waits && now.saturating_sub(time(said)) < ANEW_NS;
        if !is_said && !fork::disowned() {
            word.store(now & !(CORE | WAITS) | waits | core, Ordering::Relaxed);
        }
    }
}

impl Descriptor {
    /// On which core ([`core_number`](crate::core_number)) the owner waits, or is [active](Own::is_on), as far as is known at a time of the one clock.
    ///
    /// Wait-free: one load; handlers may call it.
    #[inline]
    pub fn is_where(&self, now: u64) -> Option<u32> {
        self.place(now).map(|(core, _)| core)
    }

    /// The same of one that waits.
    ///
    /// Wait-free: one load; handlers may call it.
    #[inline]
    pub fn waits_where(&self, now: u64) -> Option<u32> {
        self.place(now).and_then(|(core, waits)| waits.then_some(core))
    }

    #[inline]
    fn place(&self, now: u64) -> Option<(u32, bool)> {
        // SYNC POINT: Relaxed: a hint, see the module. A time that is yet to come, of a lying or confused peer, is as good as now: nobody is far ahead of the one clock.
        let said = self.place.0.load(Ordering::Relaxed);
        let is_fresh = said != 0 && now.saturating_sub(time(said)) < FRESH_NS;
        is_fresh.then_some(((said & CORE) as u32, said & WAITS != 0))
    }
}

#[inline]
fn time(said: u64) -> u64 {
    said & !(CORE | WAITS)
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
            assert_eq!(descriptor.waits_where(now + FRESH_NS - WAITS - CORE - 1), Some(core_number(core)));
            assert_eq!(descriptor.waits_where(now + FRESH_NS), None);
            now += FRESH_NS;
        }
        // It is not written each time.
        own.waits_on(7, now);
        let written = descriptor.place.0.load(Ordering::Relaxed);
        own.waits_on(7, now + ANEW_NS - WAITS - CORE - 1);
        assert_eq!(descriptor.place.0.load(Ordering::Relaxed), written);
        own.waits_on(7, now + ANEW_NS);
        assert!(descriptor.waits_where(now + FRESH_NS).is_some());
        assert_eq!(descriptor.waits_where(0), Some(7), "the clock does not go back far");
    }
    #[test]
    fn who_does_not_wait_is_somewhere_too() {
        let descriptor = Box::new(Descriptor::new());
        // SAFETY: the box is kept beside it.
        let own = unsafe { Own::new(&raw const *descriptor) };
        let now = 5 * FRESH_NS;
        let says = || (descriptor.is_where(now), descriptor.waits_where(now));
        own.is_on(3, now);
        assert_eq!(says(), (Some(3), None));
        own.waits_on(3, now);
        assert_eq!(says(), (Some(3), Some(3)));
        // Who waits now and then is one that waits, as long as that counts.
        own.is_on(3, now);
        assert_eq!(says(), (Some(3), Some(3)));
        own.is_on(4, now);
        assert_eq!(says(), (Some(4), None), "it has been moved");
        own.waits_on(4, now);
        own.is_on(4, now + ANEW_NS);
        assert_eq!(says(), (Some(4), None));
    }
}
