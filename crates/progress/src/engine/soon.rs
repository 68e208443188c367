//! Where ranks share cores: whether who posts something mostly waits for it at once, or computes first.
//!
//! What goes quickest between two that wait costs interrupts if one of them computes, and the other way round. A post cannot tell; so a rank goes by what followed its last ones.
//! (Where each rank has a core, a post looks for a moment whether the others are there, and who computes has lost no more than that.)

use super::Engine;
use super::credit::Credit;
use crate::budget::Work;
use tocsin_sync::atomic::{AtomicU64, Ordering};
use tocsin_sync::clock::now_ns;

/// Who waits, or posts again, within so many nanoseconds has not computed: other ranks may have had the core meanwhile.
const SOON_NS: u64 = 50_000;
/// What a post that is waited for saves, and what interrupts take where it was not.
const SOON_GAIN: u32 = 1;
const SOON_COST: u32 = 4;

/// One rank's posts. Nothing is published by any of it, and of two threads that post at once one may be forgotten.
#[derive(Debug)]
pub(super) struct Soon {
    /// When the last post ended, on the clock of [`now_ns`]; 0: what followed it is known.
    posted: AtomicU64,
    waits: Credit,
}

impl Soon {
    pub(super) fn new() -> Soon {
        Soon { posted: AtomicU64::new(0), waits: Credit::new(SOON_GAIN, SOON_COST) }
    }

    fn note_post(&self, now: u64) {
        // SYNC POINT: Relaxed: see the type; so are all below.
        self.posted.store(now, Ordering::Relaxed);
    }

    /// The rank waits, or posts again.
    fn note_entry(&self, now: impl FnOnce() -> u64) {
        let posted = self.posted.load(Ordering::Relaxed);
        if posted != 0 {
            self.posted.store(0, Ordering::Relaxed);
            self.waits.note(now().saturating_sub(posted) < SOON_NS);
        }
    }
}

impl<W: Work> Engine<W> {
    /// Whether a thread that is about to post something will mostly wait for it at once, by what followed what was [posted](Self::has_posted) before. False where
    /// each rank has a core. User threads only.
    pub fn waits_soon(&self) -> bool {
        self.is_crowded() && {
            self.soon.note_entry(now_ns);
            self.soon.waits.is_good()
        }
    }

    /// Something is posted, and the thread leaves the library. User threads only.
    pub fn has_posted(&self) {
        if self.is_crowded() {
            self.soon.note_post(now_ns());
        }
    }

    /// A user's thread begins to wait.
    #[inline]
    pub(super) fn note_wait(&self) {
        self.soon.note_entry(now_ns);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Posts, and what follows each `after` nanoseconds later; whether the next is expected to be waited for.
    fn posts(soon: &Soon, times: u32, after: u64) -> bool {
        for at in 1..=u64::from(times) {
            soon.note_post(at);
            soon.note_entry(|| at + after);
        }
        soon.waits.is_good()
    }

    #[test]
    fn who_computes_after_posts_is_found_out_and_who_stops_too() {
        let soon = Soon::new();
        assert!(soon.waits.is_good(), "nothing is known yet");
        assert!(posts(&soon, 100, SOON_NS - 1));
        assert!(posts(&soon, 1, SOON_NS), "once may be a stranger's time slice");
        assert!(!posts(&soon, 4, SOON_NS));
        assert!(posts(&soon, 1, 0));
    }

    #[test]
    fn a_post_is_followed_once() {
        let soon = Soon::new();
        soon.note_post(1);
        soon.note_entry(|| 1);
        for _ in 0..100 {
            soon.note_entry(|| panic!("a wait for something else"));
        }
        assert!(soon.waits.is_good());
    }
}
