//! By which [stores](tocsin_transport::stores) a lane's payloads are copied in, and how often it is counted what is there.

use tocsin_sync::clock::now_ns;
pub(super) use tocsin_transport::stores::Stores;
use tocsin_transport::stores::{Compared, TRIES};

/// Payloads of so many bytes or more may be streamed; of shorter ones the fence and the first lines' way from memory are most.
pub(super) const FROM: usize = 4 * 1024;
/// Payloads of less are compared apart from those of more.
const SHORT: usize = 8 * 1024;
/// By how much streaming must be faster there as long as the consumer has said nothing: most of the way to memory comes after it.
const SHORT_HANDICAP: u64 = 2;
// Of the copies that try one kind the consumer times one.
const _: () = assert!(TRIES == super::recv::TIMED + 1);
/// A payload that is streamed comes in about so many parts, each of one to so many strides: before each count all that was streamed has to
/// be in memory, and that wait takes as long as streaming 4 KiB more (16 fences in 64 KiB: 4.4 us instead of 2.4 with four).
const PARTS: usize = 4;
const STRIDES: usize = 8;
const LEAST_PART: usize = PARTS * super::STRIDE;
/// A payload that is stored plainly comes in parts of twice as many bytes each, from one stride on, or two of 12 KiB and more, to eight: the consumer is to begin soon, and each
/// count takes its line from the consumer, which looks at it. (Zen 5, parts of one size and so, us: 16 KiB 0.475 and 0.46, 32 KiB 0.86 and 0.84, 64 KiB 1.6 and 1.53, 128 KiB 2.96 and 2.87.)
const PLAIN_STRIDES: usize = 8;
const TWO_FROM: usize = 6 * super::STRIDE;
/// Payloads whose consumer may still tell of them.
const LAST: usize = 8;

/// Bytes of a payload that comes up to the first count, and at most from one to the next; each part has twice as many as the one before. Multiples of [`STRIDE`](super::STRIDE).
#[inline]
pub(super) fn parts(stores: Stores, len: usize) -> (usize, usize) {
    let (first, most) = match stores {
        Stores::Plain => (if len < TWO_FROM { 1 } else { 2 }, PLAIN_STRIDES),
        Stores::Streaming => {
            let strides = (len / LEAST_PART).clamp(1, STRIDES);
            (strides, strides)
        }
    };
    (super::STRIDE.wrapping_mul(first), super::STRIDE.wrapping_mul(most))
}

/// What one lane's producer knows of the copies in it.
#[derive(Debug)]
pub(super) struct Experience {
    short: Compared,
    long: Compared,
    /// How the last payload was stored.
    stored: Stores,
    /// The consumer may have said something since.
    news: bool,
    /// Of the last payloads: the lane's position after them, their length, and how they were stored.
    last: [(u32, usize, Stores); LAST],
}

impl Experience {
    pub(super) const fn new() -> Experience {
        Experience {
            short: Compared::new(SHORT_HANDICAP),
            long: Compared::new(1),
            stored: Stores::Plain,
            news: false,
            last: [(0, 0, Stores::Plain); LAST],
        }
    }

    /// Copies a payload with the stores that take less time. `copy` is given them and does it.
    #[inline]
    pub(super) fn copy(&mut self, len: usize, copy: impl FnOnce(Stores)) {
        let compared = self.of(len);
        let (stores, timed) = compared.choose();
        let begun = if timed { now_ns() } else { 0 };
        copy(stores);
        if timed {
            let (time, _) = compared.times(stores);
            time.note(now_ns().wrapping_sub(begun), len);
        }
        self.stored = stores;
        self.news |= timed;
    }

    /// Whether to look for what the consumer says: once after each copy that was timed.
    #[inline]
    pub(super) fn wants_news(&self) -> bool {
        self.news
    }

    /// The last payload's packet is in the lane, whose position is this one now.
    #[inline]
    pub(super) fn sent(&mut self, position: u32, len: usize) {
        if let Some(entry) = self.last.get_mut(position as usize % LAST) {
            *entry = (position, len, self.stored);
        }
    }

    /// The consumer says how long it took to copy out the payload after which its position was this one.
    pub(super) fn note_out(&mut self, position: u32, ns: u64) {
        self.news = false;
        let Some(entry) = self.last.get_mut(position as usize % LAST) else { return };
        let (of, len, stores) = *entry;
        if of == position && len >= FROM {
            // Each is told once.
            entry.1 = 0;
            let (_, time) = self.of(len).times(stores);
            time.note(ns, len);
        }
    }

    fn of(&mut self, len: usize) -> &mut Compared {
        if len < SHORT { &mut self.short } else { &mut self.long }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_streamed_is_counted_less_often() {
        let kib_of = |stores: Stores, len: usize| {
            let (first, most) = parts(stores, len << 10);
            (first >> 10, most >> 10)
        };
        let plain = [8, 11, 12, 16, 64, 1024].map(|len| kib_of(Stores::Plain, len));
        assert_eq!(plain, [(2, 16), (2, 16), (4, 16), (4, 16), (4, 16), (4, 16)]);
        let streamed = [8, 16, 31, 32, 48, 64, 1024].map(|len| kib_of(Stores::Streaming, len));
        assert_eq!(streamed, [2, 4, 6, 8, 12, 16, 16].map(|kib| (kib, kib)));
    }

    /// How often each is chosen in `copies`, if copying in and out takes so long.
    fn chosen(known: &mut Experience, copies: u32, plain: (u64, u64), streaming: (u64, u64)) -> (u32, u32) {
        let len = 64 << 10;
        let mut counts = (0, 0);
        for position in 1..=copies {
            let (stores, timed) = known.long.choose();
            let (count, (ns, out)) = match stores {
                Stores::Plain => (&mut counts.0, plain),
                Stores::Streaming => (&mut counts.1, streaming),
            };
            *count += 1;
            if timed {
                known.long.times(stores).0.note(ns, len);
            }
            (known.stored, known.news) = (stores, timed);
            known.sent(position, len);
            if position.is_multiple_of(super::super::recv::TIMED) {
                known.note_out(position, out);
            }
        }
        counts
    }

    /// Plain stores that wait for nothing leave the waiting to the consumer.
    #[test]
    fn what_the_consumer_says_counts() {
        let mut known = Experience::new();
        let (plain, streaming) = chosen(&mut known, 10_000, (2_000, 12_000), (5_000, 5_000));
        assert!(streaming > 9_000, "{plain}, {streaming}");
        // What it says of another payload does not.
        let before = known.long.times(Stores::Plain).1;
        known.note_out(7, 1_000_000);
        assert_eq!(known.long.times(Stores::Plain).1, before);
    }
}
