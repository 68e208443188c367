//! How long user threads stay in the library, for the trace.

use super::Engine;
use crate::budget::Work;
use crate::trace::kind;
use tocsin_sync::thread;

impl<W: Work> Engine<W> {
    /// When a user thread comes in; 0 if nobody wants to know.
    #[inline]
    pub(super) fn stay_begins(&self) -> u64 {
        if self.trace().is_some() { tocsin_sync::clock::now_ns() } else { 0 }
    }

    /// It goes.
    #[inline]
    pub(super) fn stay_ends(&self, begun: u64) {
        if begun != 0 {
            self.record_stay(begun);
        }
    }

    #[cold]
    fn record_stay(&self, begun: u64) {
        if let Some(trace) = self.trace() {
            let now = tocsin_sync::clock::now_ns();
            trace.record_at(now, kind::LIBRARY, now.saturating_sub(begun), thread::pointer() as u64);
        }
    }
}
