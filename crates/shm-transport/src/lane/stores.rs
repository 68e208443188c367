//! Which stores take a payload into a lane: plain ones, or ones that go past the caches.
//!
//! The consumer's core has the lines of the ring's last lap in its cache. Where both cores share a cache, plain stores take them back
//! within some cycles, and the consumer reads what is still in a cache. Where they do not, each line is fetched from the other core
//! first, and once more by the consumer, at a tenth of the memory's speed on some machines; streaming stores ask nobody for the
//! old content, and the consumer's hardware prefetches from memory.
//!
//! Which of both a pair of cores is, and whether it stays so, nothing says reliably (clusters of cores within a socket, virtual
//! machines), so the producer compares what its own copies take and what the consumer says that the copies out take, and tries the slower
//! now and then: the rarer, the longer it has stayed the slower, because what a try costs the other rank and both caches is several per cent; and at
//! once when what the faster takes is no more what it was. Their sum, because a payload may be copied out after it was copied in as well as meanwhile: plain stores may wait for
//! nothing, and the consumer then for each line that is still in the producer's cache.

use tocsin_sync::clock::now_ns;
use tocsin_transport::copy;

/// Payloads of so many bytes or more may be streamed; of shorter ones the fence and the first lines' way from memory are most.
pub(super) const FROM: usize = 4 * 1024;
/// Payloads of less are compared apart from those of more.
const SHORT: usize = 8 * 1024;
/// By how much streaming must be faster there as long as the consumer has said nothing: most of the way to memory comes after it.
const SHORT_HANDICAP: u64 = 2;
/// Copies that try one kind in a row: of so many, one is timed by the consumer.
const TRIES: u32 = super::recv::TIMED + 1;
/// Copies at the beginning that try both in turn.
const FIRST: u32 = 4 * TRIES;
/// One copy in so many is timed.
const TIMED: u32 = 8;
/// The slower is tried after so many copies, and when it was the slower again, after four times as many, up to so many.
const TRY: u32 = 128;
const TRY_RARELY: u32 = 2048;
/// By this factor the times of the faster change where threads or caches have moved: then the other may be the faster now.
const MOVED: u64 = 2;
/// A payload that is streamed comes in about so many parts, each of one to so many strides: before each count all that was streamed has to
/// be in memory, and that wait takes as long as streaming 4 KiB more (16 fences in 64 KiB: 4.4 us instead of 2.4 with four).
const PARTS: usize = 4;
const STRIDES: usize = 8;
const LEAST_PART: usize = PARTS * super::STRIDE;
/// A payload that is stored plainly comes a stride at a time, one of 32 KiB two, of 64 KiB four, of 128 KiB or more eight: each count takes its line from the consumer, which looks at it,
/// and four pages are copied [at once](tocsin_transport::copy).
const PLAIN_PART: usize = 16 * 1024;
const PLAIN_STRIDES: usize = 8;
/// Payloads whose consumer may still tell of them.
const LAST: usize = 8;

/// How a payload is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stores {
    Plain,
    Streaming,
}

impl Stores {
    fn other(self) -> Stores {
        match self {
            Stores::Plain => Stores::Streaming,
            Stores::Streaming => Stores::Plain,
        }
    }

    /// Copies a part of a payload. After it, a Release store publishes the bytes.
    ///
    /// Progress class: wait-free; bounded by `len`. Handlers may call it.
    ///
    /// # Safety
    /// `from` is readable and `to` writable for `len` bytes, and they do not overlap.
    #[inline]
    pub(super) unsafe fn copy(self, from: *const u8, to: *mut u8, len: usize) {
        match self {
            // SAFETY: the caller's promise.
            Stores::Plain => unsafe { copy::copy(from, to, len) },
            // SAFETY: the caller's promise.
            Stores::Streaming => unsafe { stream(from, to, len) },
        }
    }

    /// Bytes from one count to the next of a payload that comes: a multiple of [`STRIDE`](super::STRIDE).
    #[inline]
    pub(super) fn stride(self, len: usize) -> usize {
        let strides = match self {
            Stores::Plain => (len / PLAIN_PART).clamp(1, PLAIN_STRIDES),
            Stores::Streaming => (len / LEAST_PART).clamp(1, STRIDES),
        };
        super::STRIDE.wrapping_mul(strides)
    }
}

/// # Safety
/// As [`Stores::copy`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn stream(from: *const u8, to: *mut u8, len: usize) {
    const LINE: usize = 64;
    let first = (to as usize).wrapping_neg() % LINE;
    let first = if first < len { first } else { len };
    // SAFETY: `first` is at most `len`; the caller's promise.
    let (from, to, len) = unsafe {
        core::ptr::copy_nonoverlapping(from, to, first);
        (from.add(first), to.add(first), len.wrapping_sub(first))
    };
    use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const PART: usize = size_of::<__m128i>();
    let whole = len & !(LINE - 1);
    let mut at = 0usize;
    while at < whole {
        // SAFETY: at + 64 <= len, and `to + at` is a multiple of 64. Four stores fill a line, which leaves the core in one piece.
        unsafe {
            let (from, to) = (from.add(at).cast::<__m128i>(), to.add(at).cast::<__m128i>());
            let parts = [0, 1, 2, 3].map(|i| _mm_loadu_si128(from.add(i)));
            for (i, part) in parts.into_iter().enumerate() {
                _mm_stream_si128(to.add(i), part);
            }
        }
        at = at.wrapping_add(4 * PART);
    }
    // SAFETY: `whole` is at most `len`; the caller's promise.
    unsafe { core::ptr::copy_nonoverlapping(from.add(whole), to.add(whole), len.wrapping_sub(whole)) };
    // SYNC POINT: streaming stores are ordered by nothing else, a Release store included.
    // SAFETY: part of the least x86-64.
    unsafe { _mm_sfence() };
}

/// # Safety
/// As [`Stores::copy`].
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn stream(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { core::ptr::copy_nonoverlapping(from, to, len) }
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

/// A time in nanoseconds for 64 KiB; 0: unknown.
#[derive(Clone, Copy, Debug)]
struct Time(u64);

impl Time {
    /// One may contain an interrupt, or the first touch of the memory: one that is longer than before counts little.
    fn note(&mut self, ns: u64, len: usize) {
        let of_64k = ns.saturating_mul(64 << 10).checked_div(len as u64).unwrap_or(0).max(1);
        self.0 = match self.0 {
            0 => of_64k,
            known if of_64k < known => of_64k,
            known => known.saturating_add(of_64k.min(known.saturating_mul(4)).saturating_sub(known) / 8),
        };
    }
}

/// Copies in and out by either stores.
#[derive(Debug)]
struct Compared {
    plain: (Time, Time),
    streaming: (Time, Time),
    handicap: u64,
    copies: u32,
    /// The copy with which the last try began, how many there are between this one and the next, what was the faster then, and what that took.
    tried: u32,
    every: u32,
    faster: Stores,
    taken: u64,
}

impl Compared {
    const fn new(handicap: u64) -> Compared {
        let unknown = (Time(0), Time(0));
        Compared {
            plain: unknown,
            streaming: unknown,
            handicap,
            copies: 0,
            tried: FIRST - TRIES,
            every: TRY,
            faster: Stores::Plain,
            taken: 0,
        }
    }

    fn times(&mut self, stores: Stores) -> &mut (Time, Time) {
        match stores {
            Stores::Plain => &mut self.plain,
            Stores::Streaming => &mut self.streaming,
        }
    }

    /// What each takes, as far as the two can be compared.
    fn compared(&self) -> (u64, u64) {
        let ((plain, plain_out), (streaming, streaming_out)) = (self.plain, self.streaming);
        if plain_out.0 == 0 || streaming_out.0 == 0 {
            (plain.0, streaming.0.saturating_mul(self.handicap))
        } else {
            (plain.0.saturating_add(plain_out.0), streaming.0.saturating_add(streaming_out.0))
        }
    }

    /// And whether its time is wanted.
    fn choose(&mut self) -> (Stores, bool) {
        let at = self.copies;
        // Never back to the beginning.
        self.copies = at.checked_add(1).unwrap_or(FIRST);
        let (plain, streaming) = self.compared();
        let (faster, slower, time) = if plain <= streaming {
            (Stores::Plain, Stores::Streaming, plain)
        } else {
            (Stores::Streaming, Stores::Plain, streaming)
        };
        let since = at.wrapping_sub(self.tried);
        match at {
            0..FIRST if (at / TRIES).is_multiple_of(2) => return (Stores::Plain, true),
            0..FIRST => return (Stores::Streaming, true),
            // A try is under way.
            _ if since > 0 && since < TRIES => return (self.faster.other(), true),
            _ if since == TRIES || faster != self.faster => self.settle(faster, time),
            _ => {}
        }
        // Whatever made the difference, there is no more than one try in so many copies.
        let moved = time > self.taken.saturating_mul(MOVED) || time < self.taken / MOVED;
        if since >= self.every || since >= TRY && moved {
            self.tried = at;
            return (slower, true);
        }
        (faster, at % TIMED == TIMED - 1)
    }

    /// The slower has been tried, or is the faster now: the longer it stays the slower, the rarer it is tried.
    fn settle(&mut self, faster: Stores, time: u64) {
        let stays = faster == self.faster && self.taken > 0;
        self.every = if stays { self.every.saturating_mul(4).min(TRY_RARELY) } else { TRY };
        self.faster = faster;
        self.taken = time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_stores_copy_all_and_nothing_else() {
        #[repr(align(64))]
        struct Aligned([u8; 1024]);
        let from: Vec<u8> = (0..1024).map(|i| (i % 251) as u8 + 1).collect();
        for stores in [Stores::Plain, Stores::Streaming] {
            let lens = [(0, 0), (0, 1), (3, 63), (1, 64), (0, 65), (7, 640), (5, 900)];
            for ((offset, len), skew) in lens.into_iter().flat_map(|at| [0, 1, 16, 63].map(|skew| (at, skew)))
            {
                let mut to = Aligned([0; 1024]);
                // SAFETY: both are long enough.
                unsafe { stores.copy(from.as_ptr().add(offset), to.0.as_mut_ptr().add(skew), len) };
                assert_eq!(to.0[skew..skew + len], from[offset..offset + len], "{stores:?}");
                let around = to.0[..skew].iter().chain(&to.0[skew + len..]);
                assert!(around.copied().all(|byte| byte == 0), "{stores:?}, {len} bytes after {skew}");
            }
        }
    }

    #[test]
    fn what_is_streamed_is_counted_less_often() {
        let strides =
            |stores: Stores| [8, 16, 31, 32, 48, 64, 1024].map(|kib| stores.stride(kib << 10) >> 10);
        assert_eq!(strides(Stores::Plain), [2, 2, 2, 4, 6, 8, 16]);
        assert_eq!(strides(Stores::Streaming), [2, 4, 6, 8, 12, 16, 16]);
    }

    /// How often each is chosen in `copies`, if copying in and out takes so long.
    fn chosen(known: &mut Experience, copies: u32, plain: (u64, u64), streaming: (u64, u64)) -> (u32, u32) {
        let len = 64 << 10;
        let mut counts = (0, 0);
        for _ in 0..copies {
            let position = known.long.copies.wrapping_add(1);
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
            if out > 0 && position.is_multiple_of(super::super::recv::TIMED) {
                known.note_out(position, out);
            }
        }
        counts
    }

    #[test]
    fn the_faster_stores_are_found_and_found_again() {
        let mut known = Experience::new();
        // The first touch of the memory.
        let (plain, streaming) = chosen(&mut known, 2 * TRIES, (500_000, 0), (300_000, 0));
        assert_eq!((plain, streaming), (TRIES, TRIES));
        let (plain, streaming) = chosen(&mut known, 10_000, (3_000, 0), (6_000, 0));
        let tries = 10_000 / TRY_RARELY * TRIES;
        assert!(streaming >= tries && streaming <= tries + 4 * TRIES, "{plain}, {streaming}");
        // The threads move to cores that share nothing.
        let (plain, streaming) = chosen(&mut known, 10_000, (30_000, 0), (6_000, 0));
        assert!(plain < 300 && streaming > 9_700, "{plain}, {streaming}");
        // An interrupt now and then changes nothing.
        known.long.times(Stores::Streaming).0.note(1_000_000, 64 << 10);
        let (plain, _) = chosen(&mut known, 1_000, (30_000, 0), (6_000, 0));
        assert!(plain <= 2 * TRIES, "{plain}");
        // And back, to where only a try shows it.
        let (plain, _) = chosen(&mut known, 10_000, (3_000, 0), (6_000, 0));
        assert!(plain > 10_000 - TRY_RARELY - 8 * TRIES, "{plain}");
    }

    /// Plain stores that wait for nothing leave the waiting to the consumer.
    #[test]
    fn what_the_consumer_says_counts() {
        let mut known = Experience::new();
        let (plain, streaming) = chosen(&mut known, 10_000, (2_000, 12_000), (5_000, 5_000));
        assert!(streaming > 9_000, "{plain}, {streaming}");
        // What it says of another payload does not.
        known.long.plain = (Time(1), Time(1));
        known.note_out(7, 1_000_000);
        assert_eq!(known.long.plain.1.0, 1);
    }
}
