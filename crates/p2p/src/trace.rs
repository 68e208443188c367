//! What this layer records in its rank's trace: messages that go into lanes and come out, copies of large ones.
//!
//! Both ends number the messages of an ordered pair and class in the order of their lane, which keeps it: pair, class and
//! number name a message, and nothing of it travels for that.

use std::sync::Arc;

use tocsin_progress::Trace;
use tocsin_progress::trace::kind::FIRST_FREE;
use tocsin_sync::clock::now_ns;
use tocsin_transport::{Class, Transport};

use crate::P2p;

/// A message, or its announcement, went into a lane; the words are a [`Passed`]'s.
pub const SENT: u16 = FIRST_FREE;
/// It was taken out; the words are a [`Passed`]'s.
pub const TAKEN: u16 = FIRST_FREE + 1;
/// A part of a large message was copied; the words are a [`Copied`]'s.
pub const COPIED: u16 = FIRST_FREE + 2;

const LOW_48: u64 = (1 << 48) - 1;

/// A message that passes a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The rank at the other end.
    pub peer: u16,
    /// Its number among those of its sender, receiver and class; wraps.
    pub number: u32,
    /// Whether it is a collective's.
    pub collective: bool,
    /// Whether this is its announcement.
    pub announced: bool,
    /// Its length, not that of the announcement.
    pub bytes: u64,
}

impl Passed {
    /// As an event keeps it. Handler-safe.
    #[inline]
    pub fn words(self) -> [u64; 2] {
        let flags = u64::from(self.collective) << 48 | u64::from(self.announced) << 49;
        [flags | u64::from(self.peer) << 32 | u64::from(self.number), self.bytes]
    }

    /// From what an event has kept. Handler-safe.
    pub fn from_words([a, bytes]: [u64; 2]) -> Passed {
        Passed {
            peer: (a >> 32) as u16,
            number: a as u32,
            collective: a >> 48 & 1 != 0,
            announced: a >> 49 & 1 != 0,
            bytes,
        }
    }
}

/// A part of a large message that this rank copied; the event's time is its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The rank at the other end.
    pub peer: u16,
    /// Nanoseconds it took.
    pub took: u64,
    /// Its length.
    pub bytes: u64,
}

impl Copied {
    /// As an event keeps it. Handler-safe.
    #[inline]
    pub fn words(self) -> [u64; 2] {
        [u64::from(self.peer) << 48 | self.took.min(LOW_48), self.bytes]
    }

    /// From what an event has kept. Handler-safe.
    pub fn from_words([a, bytes]: [u64; 2]) -> Copied {
        Copied { peer: (a >> 48) as u16, took: a & LOW_48, bytes }
    }
}

impl<T: Transport> P2p<T> {
    /// Has messages and copies recorded from now on. Both ranks of a pair must have it from their beginning, or their
    /// numbers differ. User threads only.
    pub fn set_trace(&mut self, trace: Option<Arc<Trace>>) {
        self.trace = trace;
    }

    /// When something begins that may be recorded; 0 if it is not.
    #[inline]
    pub(crate) fn trace_begins(&self) -> u64 {
        if self.trace.is_some() { now_ns() } else { 0 }
    }

    /// A message went into a lane. The time is that before it did, so that it is never later than the other end's.
    #[inline]
    pub(crate) fn trace_sent(&mut self, begun: u64, peer: u32, class: Class, bytes: usize, announced: bool) {
        if begun != 0 {
            self.record_passed(SENT, begun, peer, class, bytes, announced);
        }
    }

    /// A message was taken out of a lane.
    #[inline]
    pub(crate) fn trace_taken(&mut self, peer: u32, class: Class, bytes: usize, announced: bool) {
        if self.trace.is_some() {
            self.record_passed(TAKEN, now_ns(), peer, class, bytes, announced);
        }
    }

    #[cold]
    fn record_passed(&mut self, kind: u16, ns: u64, peer: u32, class: Class, bytes: usize, announced: bool) {
        let Some(state) = self.peers.get_mut(peer as usize) else { return };
        let [sent, taken] = &mut state.collective;
        let counted = if kind == SENT { sent } else { taken };
        let number = match class {
            Class::Coll => {
                *counted = counted.wrapping_add(1);
                *counted
            }
            _ if kind == SENT => state.published.put,
            _ => state.published.taken,
        };
        let collective = class == Class::Coll;
        let passed = Passed { peer: peer as u16, number, collective, announced, bytes: bytes as u64 };
        if let Some(trace) = &self.trace {
            let [a, b] = passed.words();
            trace.record_at(ns, kind, a, b);
        }
    }

    /// A part of a large message was copied.
    #[inline]
    pub(crate) fn trace_copied(&self, begun: u64, peer: u32, bytes: usize) {
        if begun != 0 {
            self.record_copied(begun, peer, bytes);
        }
    }

    #[cold]
    fn record_copied(&self, begun: u64, peer: u32, bytes: usize) {
        let Some(trace) = &self.trace else { return };
        let now = now_ns();
        let copied = Copied { peer: peer as u16, took: now.saturating_sub(begun), bytes: bytes as u64 };
        let [a, b] = copied.words();
        trace.record_at(now, COPIED, a, b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_everything() {
        for (collective, announced) in [(false, false), (true, false), (false, true), (true, true)] {
            let passed = Passed { peer: 1023, number: u32::MAX, collective, announced, bytes: u64::MAX };
            assert_eq!(Passed::from_words(passed.words()), passed);
        }
        let copied = Copied { peer: 1023, took: LOW_48, bytes: 65_536 };
        assert_eq!(Copied::from_words(copied.words()), copied);
        assert_eq!(Copied::from_words(Copied { took: u64::MAX, ..copied }.words()), copied);
    }
}
