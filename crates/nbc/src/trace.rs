//! What this layer records in its rank's trace: collectives, and the steps of their schedules.

use tocsin_progress::trace::kind::FIRST_FREE;

use crate::schedule::{Kind, ROUND_BITS, Step, tag};
use crate::table::{ALGORITHMS, Algorithm};

/// A collective starts; the words are a [`Started`]'s.
pub const STARTED: u16 = FIRST_FREE + 16;
/// It ends; the words are an [`Ended`]'s.
pub const ENDED: u16 = FIRST_FREE + 17;
/// A step is done; the words are a [`Stepped`]'s. This number is that of a send; those of the other kinds follow in the
/// order of [`STEPS`].
pub const STEPPED: u16 = FIRST_FREE + 18;

/// The kinds of steps.
pub const STEPS: [&str; 5] = ["send", "recv", "copy", "reduce", "join"];

const LOW_48: u64 = (1 << 48) - 1;
const NUMBER_BITS: u32 = 10;
const BYTES_BITS: u32 = 38;

/// The number by which events name an algorithm; 0 for a schedule that comes from none.
pub(crate) fn number_of(algorithm: &Algorithm) -> u16 {
    let at = ALGORITHMS.iter().position(|a| std::ptr::eq(a, algorithm));
    at.and_then(|at| u16::try_from(at + 1).ok()).filter(|n| *n < 1 << NUMBER_BITS).unwrap_or(0)
}

/// The algorithm that an event names.
pub fn algorithm(number: u16) -> Option<&'static Algorithm> {
    ALGORITHMS.get(usize::from(number.checked_sub(1)?))
}

/// What the messages of one collective have in common on a rank, of those with this context and tag: no other collective among
/// the 2^19 that its communicator starts before and after it has the same.
pub fn of_message(context: u32, tag: i32) -> (u32, i32) {
    (context, tag >> ROUND_BITS)
}

/// A collective starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// Tells it from the 65535 collectives that this rank starts before and after it.
    pub instance: u16,
    /// Its [`algorithm`].
    pub algorithm: u16,
    /// Members of its communicator, and the world rank of the first: contexts of groups that have no member in common may
    /// be equal.
    pub ranks: u16,
    /// See `ranks`.
    pub first_rank: u16,
    /// Context of its communicator, and its number there: what the ranks have in common.
    pub context: u32,
    /// See `context`.
    pub sequence: u32,
}

impl Started {
    /// As an event keeps it. Handler-safe.
    pub fn words(self) -> [u64; 2] {
        let low = u64::from(self.algorithm) << 16 | u64::from(self.instance);
        let group = u64::from(self.ranks) << 16 | u64::from(self.first_rank);
        [group << 32 | low, u64::from(self.context) << 32 | u64::from(self.sequence)]
    }

    /// What its messages have in common on this rank: see [`of_message`].
    pub fn messages(&self) -> (u32, i32) {
        of_message(self.context, tag(self.sequence, 0))
    }

    /// From what an event has kept.
    pub fn from_words([a, b]: [u64; 2]) -> Started {
        Started {
            instance: a as u16,
            algorithm: (a >> 16) as u16,
            ranks: (a >> 48) as u16,
            first_rank: (a >> 32) as u16,
            context: (b >> 32) as u32,
            sequence: b as u32,
        }
    }
}

/// A collective ends, or fails; the event's time is its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// As [`Started::instance`].
    pub instance: u16,
    /// As [`Started::algorithm`].
    pub algorithm: u16,
    /// Whether it failed.
    pub failed: bool,
    /// Nanoseconds since it started.
    pub took: u64,
}

impl Ended {
    /// As an event keeps it. Handler-safe.
    pub fn words(self) -> [u64; 2] {
        let low = u64::from(self.algorithm) << 16 | u64::from(self.instance);
        [self.took, u64::from(self.failed) << 32 | low]
    }

    /// From what an event has kept.
    pub fn from_words([took, b]: [u64; 2]) -> Ended {
        Ended { instance: b as u16, algorithm: (b >> 16) as u16, failed: b >> 32 & 1 != 0, took }
    }
}

/// A step is done; the event's time is its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stepped {
    /// As [`Started::instance`].
    pub instance: u16,
    /// As [`Started::algorithm`].
    pub algorithm: u16,
    /// World rank at the other end of a message.
    pub peer: Option<u16>,
    /// Bytes sent, received, copied or combined.
    pub bytes: u64,
    /// Nanoseconds since it was run, or first run; of a message, since it was posted.
    pub took: u64,
}

impl Stepped {
    /// As an event keeps it. Handler-safe.
    pub fn words(self) -> [u64; 2] {
        let peer = self.peer.map_or(0, |peer| u64::from(peer).wrapping_add(1));
        let bytes = self.bytes.min((1 << BYTES_BITS) - 1);
        let low = u64::from(self.algorithm) & ((1 << NUMBER_BITS) - 1) | bytes << NUMBER_BITS;
        [peer << 48 | self.took.min(LOW_48), low | u64::from(self.instance) << 48]
    }

    /// From what an event has kept.
    pub fn from_words([a, b]: [u64; 2]) -> Stepped {
        Stepped {
            instance: (b >> 48) as u16,
            algorithm: (b & ((1 << NUMBER_BITS) - 1)) as u16,
            peer: ((a >> 48) as u16).checked_sub(1),
            bytes: (b & LOW_48) >> NUMBER_BITS,
            took: a & LOW_48,
        }
    }
}

/// An event's kind, and what it says of a step. Handler-safe.
pub(crate) fn describe(step: &Step) -> (u16, Option<u16>, u64) {
    let (at, peer, bytes) = match step.kind {
        Kind::Send { peer, bytes, .. } => (0, Some(peer), bytes),
        Kind::Recv { peer, bytes, .. } => (1, Some(peer), bytes),
        Kind::Copy { bytes, .. } | Kind::Pack { bytes, .. } | Kind::Unpack { bytes, .. } => (2, None, bytes),
        Kind::Reduce { count, operator, .. } => (3, None, count.saturating_mul(operator.size())),
        Kind::Join => (4, None, 0),
    };
    (STEPPED.wrapping_add(at), peer.map(|peer| peer as u16), bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_everything() {
        let started = Started {
            instance: u16::MAX,
            algorithm: 1023,
            ranks: 1024,
            first_rank: u16::MAX,
            context: u32::MAX,
            sequence: u32::MAX,
        };
        assert_eq!(Started::from_words(started.words()), started);
        for failed in [false, true] {
            let ended = Ended { instance: u16::MAX, algorithm: 1023, failed, took: u64::MAX };
            assert_eq!(Ended::from_words(ended.words()), ended);
        }
        for peer in [None, Some(0), Some(1023)] {
            let stepped = Stepped {
                instance: u16::MAX,
                algorithm: 1023,
                peer,
                bytes: (1 << BYTES_BITS) - 1,
                took: LOW_48,
            };
            assert_eq!(Stepped::from_words(stepped.words()), stepped);
            let more = Stepped { bytes: u64::MAX, took: u64::MAX, ..stepped };
            assert_eq!(Stepped::from_words(more.words()), stepped);
        }
    }

    #[test]
    fn messages_are_told_by_context_and_sequence() {
        let started = |context, sequence| Started {
            instance: 1,
            algorithm: 0,
            ranks: 2,
            first_rank: 0,
            context,
            sequence,
        };
        for sequence in [0, 1, (1 << 19) - 1, u32::MAX] {
            let of = started(1 << 31, sequence).messages();
            for round in [0, 1, (1 << ROUND_BITS) - 1] {
                assert_eq!(of_message(1 << 31, tag(sequence, round)), of);
            }
            assert_ne!(started(1 << 31 | 1, sequence).messages(), of);
            assert_ne!(started(1 << 31, sequence.wrapping_add(1)).messages(), of);
        }
    }

    #[test]
    fn every_algorithm_has_a_number() {
        for wanted in ALGORITHMS {
            let found = algorithm(number_of(wanted)).unwrap();
            assert_eq!((found.operation, found.name), (wanted.operation, wanted.name));
        }
        assert!(algorithm(0).is_none() && algorithm(u16::MAX).is_none());
    }
}
