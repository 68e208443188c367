//! Where ranks share cores: whether who posts something mostly waits for it at once, or computes first.
//!
//! What goes quickest between two that wait costs interrupts if one of them computes, and the other way round. A post cannot tell; so a rank goes by what followed its last ones.
//! (Where each rank has a core, a post looks for a moment whether the others are there, and who computes has lost no more than that.)

use super::Engine;
use crate::budget::Work;
use tocsin_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use tocsin_sync::clock::now_ns;

/// Who waits within so many nanoseconds after a post has not computed: other ranks may have had the core meanwhile.
const SOON_NS: u64 = 50_000;
/// So many posts in a row are to be waited for at once until the next is expected to be: of a program that waits for one and computes after the next, neither is.
const IN_A_ROW: u32 = 4;

/// One rank's posts. Nothing is published by any of it, and of two threads that post at once one may be forgotten.
#[derive(Debug)]
pub(super) struct Soon {
    /// When the last post ended, on the clock of [`now_ns`]; 0: what followed it is known.
    posted: AtomicU64,
    /// Posts in a row that were waited for at once, up to [`IN_A_ROW`].
    row: AtomicU32,
}

impl Soon {
    /// Of a rank that has posted nothing yet, which is expected to wait.
    pub(super) fn new() -> Soon {
        Soon { posted: AtomicU64::new(0), row: AtomicU32::new(IN_A_ROW) }
    }

    fn is_expected(&self) -> bool {
        // SYNC POINT: Relaxed: see the type; so are all below.
        self.row.load(Ordering::Relaxed) >= IN_A_ROW
    }

    fn note_end_of_post(&self, now: u64) {
        self.posted.store(now, Ordering::Relaxed);
    }

    /// The rank posts again. Right after the last post that says nothing of either: what follows this one does.
    fn note_post(&self, now: u64) {
        self.follows(now, false);
    }

    fn note_wait(&self, now: impl FnOnce() -> u64) {
        if self.posted.load(Ordering::Relaxed) != 0 {
            self.follows(now(), true);
        }
    }

    fn follows(&self, now: u64, waits: bool) {
        let posted = self.posted.swap(0, Ordering::Relaxed);
        let soon = now.saturating_sub(posted) < SOON_NS;
        if posted == 0 || soon && !waits {
            return;
        }
        let row = if soon { self.row.load(Ordering::Relaxed).saturating_add(1).min(IN_A_ROW) } else { 0 };
        self.row.store(row, Ordering::Relaxed);
    }
}

impl<W: Work> Engine<W> {
    /// A thread is about to post something: whether it is expected to wait for it at once, by what followed what was [posted](Self::has_posted) before. False where
    /// each rank has a core. User threads only.
    pub fn begins_post(&self) -> bool {
        self.is_crowded() && {
            self.soon.note_post(now_ns());
            self.soon.is_expected()
        }
    }

    /// Something is posted, and the thread leaves the library. User threads only.
    pub fn has_posted(&self) {
        if self.is_crowded() {
            self.soon.note_end_of_post(now_ns());
        }
    }

    /// A user's thread waits, if only for what is over.
    #[inline]
    pub fn note_wait(&self) {
        self.soon.note_wait(now_ns);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Posts, each of which is waited for so many nanoseconds later; whether the next is expected to be.
    fn posts(soon: &Soon, times: u32, after: u64) -> bool {
        for _ in 0..times {
            soon.note_post(1 << 40);
            soon.note_end_of_post(1 << 40);
            soon.note_wait(|| (1 << 40) + after);
        }
        soon.is_expected()
    }

    #[test]
    fn who_computes_after_posts_is_found_out_and_who_stops_too() {
        let soon = Soon::new();
        assert!(soon.is_expected(), "nothing is known yet");
        assert!(posts(&soon, 100, SOON_NS - 1));
        assert!(!posts(&soon, 1, SOON_NS));
        assert!(!posts(&soon, IN_A_ROW - 1, 0));
        assert!(posts(&soon, 1, 0));
    }

    #[test]
    fn of_those_that_do_both_in_turns_nothing_is_expected() {
        let soon = Soon::new();
        posts(&soon, 1, SOON_NS);
        for _ in 0..100 {
            assert!(!posts(&soon, 1, 0) && !posts(&soon, 1, SOON_NS));
        }
    }

    /// Of several posts, what follows the last counts. What is over is not always waited for.
    #[test]
    fn a_post_right_after_one_says_nothing_and_a_late_one_that_it_has_computed() {
        let soon = Soon::new();
        let mut now = 1 << 40;
        for _ in 0..2 {
            for _ in 0..100 {
                soon.note_post(now);
                soon.note_end_of_post(now);
            }
            now += SOON_NS;
            soon.note_wait(|| now);
            assert!(!soon.is_expected());
        }
        posts(&soon, IN_A_ROW, 0);
        soon.note_end_of_post(now);
        soon.note_post(now + SOON_NS);
        assert!(!soon.is_expected());
    }

    #[test]
    fn a_post_is_followed_once() {
        let soon = Soon::new();
        soon.note_end_of_post(1);
        soon.note_wait(|| 1);
        for _ in 0..100 {
            soon.note_wait(|| panic!("a wait for something else"));
        }
        assert!(soon.is_expected());
    }
}
