//! On which core a rank was when it last looked, for peers that share cores with it.
//!
//! Who waits for a rank that runs elsewhere does best to look for its message, which comes within a microsecond or so. Who waits for one that waits for this very core
//! keeps it from that by looking, and gives the core away at once. It is written by who waits, where ranks share cores, when it is on another core than it was: so it lies on a
//! line that its peers mostly have in their caches.
//!
//! **It is a hint**, and publishes nothing: the thread may have been moved since, or be one of several. Who goes by a wrong one looks, or yields, for
//! a moment in vain.

use crate::computing::core_number;
use crate::descriptor::Descriptor;
use crate::fork;
use crate::own::Own;
use tocsin_sync::atomic::{AtomicU32, Ordering};

/// A core's number plus one; 0: not said.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Place(AtomicU32);

impl Place {
    pub(crate) fn new() -> Place {
        Place(AtomicU32::new(0))
    }
}

impl Own {
    /// "I am on this core."
    ///
    /// Wait-free (a load, at most one store); handlers may call it.
    #[inline]
    pub fn is_on(&self, core: u32) {
        let word = &self.descriptor().place.0;
        let said = core_number(core).wrapping_add(1);
        // SYNC POINT: Relaxed: a hint, see the module.
        if word.load(Ordering::Relaxed) != said && !fork::disowned() {
            word.store(said, Ordering::Relaxed);
        }
    }
}

impl Descriptor {
    /// On which core ([`core_number`]) the owner was when it last waited, as far as is known.
    ///
    /// Wait-free: one load; handlers may call it.
    #[inline]
    pub fn core(&self) -> Option<u32> {
        // SYNC POINT: Relaxed: a hint, see the module. Nonsense is no core's number.
        self.place.0.load(Ordering::Relaxed).checked_sub(1)
    }
}

#[cfg(all(test, not(loom)))]
#[allow(unsafe_code)] // descriptor by pointer
mod tests {
    use super::*;

    #[test]
    fn the_last_core_is_known() {
        let descriptor = Box::new(Descriptor::new());
        // SAFETY: the box is kept beside it.
        let own = unsafe { Own::new(&raw const *descriptor) };
        assert_eq!(descriptor.core(), None, "nothing was said");
        for core in [0, 1, 1, 0, 4095, 4096, u32::MAX] {
            own.is_on(core);
            assert_eq!(descriptor.core(), Some(core_number(core)));
        }
    }
}
