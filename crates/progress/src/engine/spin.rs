//! For how long a wait spins before it sleeps, where the core is the rank's own.
//!
//! A sleep and a wake cost some 20 us, in virtual machines more, on the way of the message that ends the wait. So a wait spins for about
//! as long at least; and longer, as long as sleeps turn out to have been short, as halt polling does: a rank whose messages come
//! every 100 us would sleep before each of them. A wait that lasts longer than is worth spinning for brings it back.

use tocsin_sync::atomic::{AtomicU64, Ordering};

/// No wait spins for longer, nanoseconds: some times what a message of some megabytes takes.
const MOST_NS: u64 = 500_000;

/// One rank's experience, for all its users' threads. Nothing is published by any of it.
#[derive(Debug)]
pub(super) struct Spin {
    /// Beyond what the configuration says, nanoseconds.
    longer: AtomicU64,
}

impl Spin {
    pub(super) fn new() -> Spin {
        Spin { longer: AtomicU64::new(0) }
    }

    /// How long a wait that begins now spins, where it is to spin for `least` nanoseconds.
    #[inline]
    pub(super) fn ns(&self, least: u64) -> u64 {
        // SYNC POINT: Relaxed: see the type; so is the other.
        least.saturating_add(self.longer.load(Ordering::Relaxed))
    }

    /// A wait that spun for `least` or longer was asleep in the end, and had taken so long when it was woken, nanoseconds.
    pub(super) fn note_sleep(&self, waited: u64, least: u64) {
        let longer =
            if waited > MOST_NS { 0 } else { waited.saturating_mul(2).min(MOST_NS).saturating_sub(least) };
        self.longer.store(longer, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_would_have_come_is_waited_for() {
        let spin = Spin::new();
        assert_eq!(spin.ns(20_000), 20_000);
        spin.note_sleep(100_000, 20_000);
        assert_eq!(spin.ns(20_000), 200_000);
        spin.note_sleep(400_000, 20_000);
        assert_eq!(spin.ns(20_000), MOST_NS);
        // Somebody computes.
        spin.note_sleep(10_000_000, 20_000);
        assert_eq!(spin.ns(20_000), 20_000);
    }
}
