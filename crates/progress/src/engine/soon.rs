//! Whether who posts something large mostly waits for it at once, or computes first.
//!
//! What goes quickest between two that wait costs interrupts if one of them computes, and the other way round. A post cannot tell; so a rank goes by what followed its last ones
//! of that kind. (A collective is asked about only where ranks share cores: elsewhere its post looks for a moment whether the others are there, and who computes has lost no more than that.)

use super::Engine;
use crate::budget::Work;
use tocsin_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use tocsin_sync::clock::now_ns;

/// Who waits within so many nanoseconds after a post has not computed, or for so short a time that nothing is to be hidden behind it.
const SOON_NS: u64 = 5_000;
/// The same where ranks share cores: others may have had the core meanwhile.
const SOON_CROWDED_NS: u64 = 50_000;
/// So many posts in a row are to be waited for at once until the next is expected to be: of a program that waits for one and computes after the next, neither is.
const IN_A_ROW: u32 = 4;

/// What is posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Posts {
    /// A large collective.
    Collective = 0,
    /// A large message to another rank.
    Send = 1,
    /// A receive of one.
    Receive = 2,
}

/// A post of a kind that [is told of](Engine::begins_post).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Post {
    /// Its thread is expected to wait for it at once.
    pub soon: bool,
    /// And, of a send, to post no other large message before that.
    pub last: bool,
    /// When it began, on the clock of [`now_ns`].
    pub begun: u64,
}

/// Kinds of posts.
const KINDS: usize = 3;

/// One rank's posts. Nothing is published by any of it, and of two threads that post at once one may be forgotten.
#[derive(Debug)]
pub(super) struct Soon {
    /// When the last post ended, on the clock of [`now_ns`]; 0: what followed it is known.
    posted: AtomicU64,
    /// Kinds of posts of which it is not known yet: a bit each.
    unknown: AtomicU32,
    /// Posts of a kind in a row that were waited for at once, up to [`IN_A_ROW`].
    rows: [AtomicU32; KINDS],
    /// Sends in a row after which no other large message was posted before that.
    last: AtomicU32,
}

impl Soon {
    /// Of a rank that has posted nothing yet: it is expected to wait for collectives. (That a message is not moved by who could do so costs more than two copies of it save.)
    pub(super) fn new() -> Soon {
        Soon {
            posted: AtomicU64::new(0),
            unknown: AtomicU32::new(0),
            rows: [IN_A_ROW, 0, 0].map(AtomicU32::new),
            last: AtomicU32::new(0),
        }
    }

    fn row(&self, what: Posts) -> &AtomicU32 {
        let [collectives, sends, receives] = &self.rows;
        match what {
            Posts::Collective => collectives,
            Posts::Send => sends,
            Posts::Receive => receives,
        }
    }

    fn is_expected(&self, what: Posts) -> bool {
        // SYNC POINT: Relaxed: see the type; so are all below.
        self.row(what).load(Ordering::Relaxed) >= IN_A_ROW
    }

    fn is_expected_last(&self, what: Posts) -> bool {
        what == Posts::Send && self.last.load(Ordering::Relaxed) >= IN_A_ROW
    }

    /// When the last posts ended, if it is not known yet what follows them.
    #[inline]
    pub(super) fn unknown_since(&self) -> Option<u64> {
        let posted = self.posted.load(Ordering::Relaxed);
        (posted != 0).then_some(posted)
    }

    fn note_end_of_post(&self, what: Posts, now: u64) {
        self.unknown.store(self.unknown.load(Ordering::Relaxed) | bit(what), Ordering::Relaxed);
        self.posted.store(now, Ordering::Relaxed);
    }

    /// The rank posts again. Right after the last post that says nothing of either: what follows this one does.
    fn note_post(&self, now: u64, within: u64) {
        let posted = self.posted.load(Ordering::Relaxed);
        if posted != 0 && now.saturating_sub(posted) >= within {
            self.follows(false);
        } else if self.unknown.load(Ordering::Relaxed) & bit(Posts::Send) != 0 {
            self.last.store(0, Ordering::Relaxed);
        }
    }

    /// Whether the last post, by whichever thread, ended less than `within` before.
    fn note_wait(&self, now: impl FnOnce() -> u64, within: u64) -> bool {
        let posted = self.posted.load(Ordering::Relaxed);
        if posted == 0 {
            return false;
        }
        let soon = now().saturating_sub(posted) < within;
        self.follows(soon);
        soon
    }

    /// What followed the last posts: a wait, or computing.
    #[cold]
    fn follows(&self, waits: bool) {
        self.posted.store(0, Ordering::Relaxed);
        let unknown = self.unknown.swap(0, Ordering::Relaxed);
        let counted = |row: &AtomicU32| {
            let longer = row.load(Ordering::Relaxed).saturating_add(1).min(IN_A_ROW);
            row.store(if waits { longer } else { 0 }, Ordering::Relaxed);
        };
        if unknown & bit(Posts::Send) != 0 {
            counted(&self.last);
        }
        for what in [Posts::Collective, Posts::Send, Posts::Receive] {
            if unknown & bit(what) != 0 {
                counted(self.row(what));
            }
        }
    }
}

const fn bit(what: Posts) -> u32 {
    1u32.wrapping_shl(what as u32)
}

impl<W: Work> Engine<W> {
    /// A thread is about to post something: whether it is expected to wait for it at once, by what followed what was [posted](Self::has_posted) before. `None` of collectives where
    /// each rank has a core. User threads only.
    pub fn begins_post(&self, what: Posts) -> Option<Post> {
        self.is_told_of(what).then(|| {
            let begun = now_ns();
            self.soon.note_post(begun, self.soon_ns());
            Post { soon: self.soon.is_expected(what), last: self.soon.is_expected_last(what), begun }
        })
    }

    /// Something is posted, and the thread leaves the library. User threads only.
    pub fn has_posted(&self, what: Posts) {
        if self.is_told_of(what) {
            self.soon.note_end_of_post(what, now_ns());
        }
    }

    /// The same of a [post](Self::begins_post) that has mostly taken no time to speak of, without another look at the clock.
    #[inline]
    pub fn has_posted_quickly(&self, what: Posts, post: Post) {
        self.soon.note_end_of_post(what, post.begun);
    }

    /// A user's thread waits, if only for what is over. Whether something long was posted right before, and that had not been known yet.
    #[inline]
    pub fn note_wait(&self) -> bool {
        self.soon.note_wait(now_ns, self.soon_ns())
    }

    /// What follows the last posts is known: a wait, or computing.
    #[cold]
    pub(super) fn soon_follows(&self, waits: bool) {
        self.soon.follows(waits);
    }

    fn is_told_of(&self, what: Posts) -> bool {
        what != Posts::Collective || self.is_crowded()
    }

    #[inline]
    pub(super) fn soon_ns(&self) -> u64 {
        if self.is_crowded() { SOON_CROWDED_NS } else { SOON_NS }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const START: u64 = 1 << 40;

    /// Posts, each of which is waited for so many nanoseconds later; whether the next is expected to be.
    fn posts(soon: &Soon, what: Posts, times: u32, after: u64) -> bool {
        for _ in 0..times {
            soon.note_post(START, SOON_NS);
            soon.note_end_of_post(what, START);
            soon.note_wait(|| START + after, SOON_NS);
        }
        soon.is_expected(what)
    }

    #[test]
    fn who_computes_after_posts_is_found_out_and_who_stops_too() {
        for what in [Posts::Collective, Posts::Send, Posts::Receive] {
            let soon = Soon::new();
            assert_eq!(soon.is_expected(what), what == Posts::Collective, "nothing is known yet");
            assert!(posts(&soon, what, 100, SOON_NS - 1));
            assert!(!posts(&soon, what, 1, SOON_NS));
            assert!(!posts(&soon, what, IN_A_ROW - 1, 0));
            assert!(posts(&soon, what, 1, 0));
        }
    }

    #[test]
    fn of_those_that_do_both_in_turns_nothing_is_expected() {
        let soon = Soon::new();
        posts(&soon, Posts::Send, 1, SOON_NS);
        for _ in 0..100 {
            assert!(!posts(&soon, Posts::Send, 1, 0) && !posts(&soon, Posts::Send, 1, SOON_NS));
        }
    }

    /// Of several posts, what follows the last counts. What is over is not always waited for.
    #[test]
    fn a_post_right_after_one_says_nothing_and_a_late_one_that_it_has_computed() {
        let soon = Soon::new();
        let mut now = START;
        for _ in 0..2 {
            for _ in 0..100 {
                soon.note_post(now, SOON_NS);
                soon.note_end_of_post(Posts::Collective, now);
            }
            now += SOON_NS;
            soon.note_wait(|| now, SOON_NS);
            assert!(!soon.is_expected(Posts::Collective));
        }
        posts(&soon, Posts::Collective, IN_A_ROW, 0);
        soon.note_end_of_post(Posts::Collective, now);
        soon.note_post(now + SOON_NS, SOON_NS);
        assert!(!soon.is_expected(Posts::Collective));
    }

    /// Who posts receives, fills what it sends, sends, and waits, has computed after the receives only.
    #[test]
    fn what_follows_one_kind_is_not_what_follows_another() {
        let soon = Soon::new();
        posts(&soon, Posts::Receive, IN_A_ROW, 0);
        for round in 0..IN_A_ROW {
            soon.note_post(START, SOON_NS);
            soon.note_end_of_post(Posts::Receive, START);
            soon.note_post(START + SOON_NS, SOON_NS);
            assert!(!soon.is_expected(Posts::Receive) && !soon.is_expected(Posts::Send), "{round}");
            soon.note_end_of_post(Posts::Send, START + SOON_NS);
            soon.note_wait(|| START + SOON_NS + 1, SOON_NS);
        }
        assert!(soon.is_expected(Posts::Send) && !soon.is_expected(Posts::Receive));
        // Both at once are waited for together.
        for _ in 0..IN_A_ROW {
            soon.note_end_of_post(Posts::Receive, START);
            soon.note_post(START + 1, SOON_NS);
            soon.note_end_of_post(Posts::Send, START + 2);
            soon.note_wait(|| START + 3, SOON_NS);
        }
        assert!(soon.is_expected(Posts::Send) && soon.is_expected(Posts::Receive));
    }

    /// A send is the last post before its wait only where no other message was posted after the last few.
    #[test]
    fn what_is_posted_between_a_send_and_its_wait_is_expected_again() {
        let soon = Soon::new();
        let sends = |more: Option<Posts>| {
            for _ in 0..IN_A_ROW {
                for what in [Some(Posts::Send), more].into_iter().flatten() {
                    soon.note_post(START, SOON_NS);
                    soon.note_end_of_post(what, START);
                }
                soon.note_wait(|| START, SOON_NS);
            }
            assert!(soon.is_expected(Posts::Send));
            soon.is_expected_last(Posts::Send)
        };
        for more in [Posts::Send, Posts::Receive] {
            assert!(sends(None) && !sends(Some(more)), "{more:?}");
        }
        assert!(sends(None) && !soon.is_expected_last(Posts::Receive));
        soon.note_end_of_post(Posts::Send, START);
        soon.note_wait(|| START + SOON_NS, SOON_NS);
        assert!(!soon.is_expected_last(Posts::Send), "it has computed");
        // Receives that were posted before are in nobody's way.
        for _ in 0..IN_A_ROW {
            soon.note_end_of_post(Posts::Receive, START);
            soon.note_post(START, SOON_NS);
            soon.note_end_of_post(Posts::Send, START);
            soon.note_wait(|| START, SOON_NS);
        }
        assert!(soon.is_expected_last(Posts::Send));
    }

    #[test]
    fn a_post_is_followed_once() {
        let soon = Soon::new();
        soon.note_end_of_post(Posts::Collective, 1);
        soon.note_wait(|| 1, SOON_NS);
        for _ in 0..100 {
            soon.note_wait(|| panic!("a wait for something else"), SOON_NS);
        }
        assert!(soon.is_expected(Posts::Collective));
    }
}
