//! Whether a rank's collectives follow one another, where ranks share cores.
//!
//! Who waits for a collective whose last parts come from ranks on other cores has two ways to do so. It looks, and goes on to the next one without a switch, as
//! soon as they come; the other ranks of its core have theirs then, and take several turns' worth in one. Or it gives the core away at once: then each of them is there when the parts come, and the
//! slowest has the result sooner, for one more switch of each. Which is better depends on what follows. Of barriers of four ranks on two cores one by itself takes 5.0 us the first way and 4.1 the
//! second, of its slowest rank, and one of many in a row 2.5 and 4.3 (`bench coll --ranks 4 --op ibarrier --mode alone`, EPYC of Zen 5). So a rank that comes
//! from the last collective looks, and one that comes from something else gives its core away.

use super::Engine;
use crate::budget::Work;
use tocsin_sync::atomic::{AtomicU64, Ordering};
use tocsin_sync::clock::now_ns;
use tocsin_sync::thread;

/// What begins within so many nanoseconds after the last has ended follows it: time for what a program does with the result in hand, and for nothing that counts as computing.
const AT_ONCE_NS: u64 = 1_000;

/// When the last collective of a rank ended. Nothing is published by it, and of threads that end theirs at once one is forgotten.
#[derive(Debug)]
pub(super) struct Follows(AtomicU64);

impl Follows {
    pub(super) fn new() -> Follows {
        Follows(AtomicU64::new(0))
    }
}

impl<W: Work> Engine<W> {
    /// A collective has ended in a call of this thread. Where ranks share cores that [says where it is](tocsin_doorbell::Own::is_on), too, since others may wait for what it posted there.
    /// Wait-free; not for handlers.
    #[inline]
    pub fn has_ended(&self) {
        if self.is_crowded() {
            let now = now_ns();
            self.own.is_on(thread::core(), now);
            // SYNC POINT: Relaxed: see the type; so is the load.
            self.follows.0.store(now, Ordering::Relaxed);
        }
    }

    /// Whether who begins to wait for a collective at that time of the one clock had better look: it follows such an end at once, or yields [do not pay](super::Turns::give_way) now. Wait-free; where ranks share cores.
    #[inline]
    pub fn follows(&self, now: u64) -> bool {
        now.saturating_sub(self.follows.0.load(Ordering::Relaxed)) < AT_ONCE_NS || self.yields.is_barred(now)
    }
}
