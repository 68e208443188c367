//! What this layer records in its rank's trace: messages that go into lanes and come out, copies of large ones.
//!
//! Both ends number the messages of an ordered pair and class in the order of their lane, which keeps it: pair, class and
//! number name a message, and nothing of it travels for that.

use std::sync::Arc;

use tocsin_progress::Trace;
use tocsin_progress::trace::kind::FIRST_FREE;
use tocsin_sync::clock::now_ns;
use tocsin_transport::{Class, Header, Transport, kind};

use crate::P2p;

/// A message, or its announcement, went into a lane; the words are a [`Passed`]'s.
pub const SENT: u16 = FIRST_FREE;
/// It was taken out; the words are a [`Passed`]'s.
pub const TAKEN: u16 = FIRST_FREE + 1;
/// A part of a large message was copied; the words are a [`Copied`]'s.
pub const COPIED: u16 = FIRST_FREE + 2;

const LOW_48: u64 = (1 << 48) - 1;

/// Bits of each part of a [`Passed`]'s words: 64 in either.
const TAG_BITS: u32 = 32;
const NUMBER_BITS: u32 = 20;
const PEER_BITS: u32 = 10;
const BYTES_BITS: u32 = 38;
const CONTEXT_BITS: u32 = 26;
const _: () = assert!(TAG_BITS + NUMBER_BITS + PEER_BITS + 2 == 64 && BYTES_BITS + CONTEXT_BITS == 64);

/// The bit of a context that marks its collective half.
const COLLECTIVE: u32 = 1 << 31;

/// The lowest bits.
const fn low(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// A message that passes a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The rank at the other end.
    pub peer: u16,
    /// Its number among those of its sender, receiver and class. Wraps at 2^20, far beyond what a ring holds.
    pub number: u32,
    /// Whether it is a collective's.
    pub collective: bool,
    /// Whether this is its announcement.
    pub announced: bool,
    /// Context of its communicator, whose bit 31 marks a collective's; `None`: it is none of the first 2^26 - 1.
    pub context: Option<u32>,
    /// Its tag.
    pub tag: i32,
    /// Its length, not that of the announcement; no more than 2^38 - 1 are said.
    pub bytes: u64,
}

impl Passed {
    /// As an event keeps it. Handler-safe.
    #[inline]
    pub fn words(self) -> [u64; 2] {
        const UNKNOWN: u64 = low(CONTEXT_BITS);
        let flags = u64::from(self.collective) << 62 | u64::from(self.announced) << 63;
        let peer = u64::from(self.peer) & low(PEER_BITS);
        let number = u64::from(self.number) & low(NUMBER_BITS);
        let context = self.context.map_or(UNKNOWN, |context| u64::from(context & !COLLECTIVE).min(UNKNOWN));
        let bytes = self.bytes.min(low(BYTES_BITS));
        let tag = u64::from(self.tag as u32);
        [flags | peer << (TAG_BITS + NUMBER_BITS) | number << TAG_BITS | tag, context << BYTES_BITS | bytes]
    }

    /// From what an event has kept. Handler-safe.
    pub fn from_words([a, b]: [u64; 2]) -> Passed {
        let collective = a >> 62 & 1 != 0;
        let context = Some(b >> BYTES_BITS).filter(|context| *context != low(CONTEXT_BITS));
        Passed {
            peer: (a >> (TAG_BITS + NUMBER_BITS) & low(PEER_BITS)) as u16,
            number: (a >> TAG_BITS & low(NUMBER_BITS)) as u32,
            collective,
            announced: a >> 63 != 0,
            context: context.map(|context| context as u32 | if collective { COLLECTIVE } else { 0 }),
            tag: a as u32 as i32,
            bytes: b & low(BYTES_BITS),
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

    /// A message or its announcement went into a lane. The time is that before it did, so that it is never later than the
    /// other end's.
    #[inline]
    pub(crate) fn trace_sent(&mut self, begun: u64, peer: u32, class: Class, header: &Header) {
        if begun != 0 {
            self.record_passed(SENT, begun, peer, class, header);
        }
    }

    /// A message or its announcement was taken out of a lane.
    #[inline]
    pub(crate) fn trace_taken(&mut self, peer: u32, class: Class, header: &Header) {
        if self.trace.is_some() {
            self.record_passed(TAKEN, now_ns(), peer, class, header);
        }
    }

    #[cold]
    fn record_passed(&mut self, event: u16, ns: u64, peer: u32, class: Class, header: &Header) {
        let Some(state) = self.peers.get_mut(peer as usize) else { return };
        let [plain, collective] = &mut state.recorded;
        let [sent, taken] = if class == Class::Coll { collective } else { plain };
        let number = if event == SENT { sent } else { taken };
        *number = number.wrapping_add(1);
        let number = *number;
        let passed = Passed {
            peer: peer as u16,
            number,
            collective: class == Class::Coll,
            announced: header.kind == kind::RTS,
            context: Some(header.context),
            tag: header.tag,
            bytes: header.a,
        };
        if let Some(trace) = &self.trace {
            let [a, b] = passed.words();
            trace.record_at(ns, event, a, b);
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
            let half = if collective { COLLECTIVE } else { 0 };
            for (context, tag) in [(0, 0), (5, -1), ((1 << 26) - 2, i32::MIN), (77, i32::MAX)] {
                let passed = Passed {
                    peer: 1023,
                    number: (1 << 20) - 1,
                    collective,
                    announced,
                    context: Some(context | half),
                    tag,
                    bytes: (1 << 38) - 1,
                };
                assert_eq!(Passed::from_words(passed.words()), passed);
                // What there is no room for.
                let more = Passed { number: u32::MAX, bytes: u64::MAX, ..passed };
                assert_eq!(Passed::from_words(more.words()), passed);
                for context in [u32::MAX >> 6, u32::MAX >> 1] {
                    let unknown = Passed { context: Some(context | half), ..passed };
                    let told = Passed::from_words(unknown.words());
                    assert_eq!(told, Passed { context: None, ..passed });
                }
            }
        }
        let copied = Copied { peer: 1023, took: LOW_48, bytes: 65_536 };
        assert_eq!(Copied::from_words(copied.words()), copied);
        assert_eq!(Copied::from_words(Copied { took: u64::MAX, ..copied }.words()), copied);
    }
}
