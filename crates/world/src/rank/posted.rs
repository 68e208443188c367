//! What was posted last of all that may be waited for, and where news of its end will lie.
//!
//! Of a message that was hidden behind computing, post and wait are all that is left to be seen, and most of the wait is for lines that the peer has written meanwhile. They are
//! asked for when it begins, before the engine is entered. (A wait of 256 KiB, only its sender computes: a tenth to a fifth less, Emerald Rapids, 21 runs in turns.)

use core::ptr::{NonNull, null_mut};

use tocsin_p2p::NEWS;
use tocsin_sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use tocsin_sync::prefetch_for_read;

/// Hints, to the thread itself as a rule: nothing is published by any of it, and no line is more than fetched.
#[derive(Debug)]
pub(crate) struct Posted {
    /// [`RawRequest::place`](crate::request::RawRequest::place); 0: it has been waited for, or is none.
    place: AtomicUsize,
    news: [AtomicPtr<u8>; NEWS],
}

impl Posted {
    pub(super) fn nothing() -> Posted {
        Posted { place: AtomicUsize::new(0), news: [const { AtomicPtr::new(null_mut()) }; NEWS] }
    }

    /// Something is, of which news lies in these lines.
    #[inline]
    pub(crate) fn note(&self, place: usize, news: [Option<NonNull<u8>>; NEWS]) {
        // SYNC POINT: Relaxed: see the type; so are all here.
        self.place.store(place, Ordering::Relaxed);
        for (line, news) in self.news.iter().zip(news) {
            line.store(news.map_or(null_mut(), NonNull::as_ptr), Ordering::Relaxed);
        }
    }

    /// Something else was.
    #[inline]
    pub(crate) fn forget(&self) {
        self.place.store(0, Ordering::Relaxed);
    }

    /// It is waited for. False: something else was posted since, or it was waited for before.
    #[inline]
    pub(crate) fn take(&self, place: usize) -> bool {
        let is_last = place != 0 && self.place.load(Ordering::Relaxed) == place;
        if is_last {
            self.forget();
        }
        is_last
    }

    /// Has the lines fetched in which news of what was [taken](Self::take) lies.
    #[inline]
    pub(crate) fn fetch_news(&self) {
        // Of what is mapped nowhere the processor would look for an address each time.
        for line in self.news.iter().map(|line| line.load(Ordering::Relaxed)).filter(|line| !line.is_null()) {
            prefetch_for_read(line.cast_const());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_one_is_taken_and_once() {
        let posted = Posted::nothing();
        assert!(!posted.take(0) && !posted.take(64));
        posted.note(64, [None; NEWS]);
        posted.note(128, [None; NEWS]);
        assert!(!posted.take(64));
        assert!(posted.take(128) && !posted.take(128));
        posted.note(64, [None; NEWS]);
        posted.forget();
        assert!(!posted.take(64));
        // Of nothing, too.
        posted.fetch_news();
    }
}
