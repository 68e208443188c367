//! Which stores write what another core reads: plain ones, or ones that go past the caches.
//!
//! The reader's core has the lines that it read last time in its cache. Where both cores share a cache, plain stores take them back
//! within some cycles, and the reader finds in a cache what is written. Where they do not, each line is fetched from the other core
//! first, and once more by the reader, at a tenth of the memory's speed on some machines; streaming stores ask nobody for the
//! old content, and the reader's hardware prefetches from memory. (256 KiB over what another core has just read, on an EPYC whose cores share a third cache: 29 us by
//! plain stores and 9 by streaming ones, where they do not 113 and 9; to read them takes 6 and 14 us, and 14 and 14.)
//!
//! Which of both a pair of cores is, and whether it stays so, nothing says reliably (clusters of cores within a socket, virtual
//! machines), so the writer [compares](Compared) what its own copies take and what readers say, if they do, that the copies out take, and tries the slower
//! now and then: the rarer, the longer it has stayed the slower, because what a try costs the other rank and both caches is several per cent; and at
//! once when what the faster takes is no more what it was. Their sum, because what is copied in may be copied out after that as well as meanwhile: plain stores may wait for
//! nothing, and the reader then for each line that is still in the writer's cache.

use crate::copy;

/// Copies that try one kind in a row.
pub const TRIES: u32 = 5;
/// Copies at the beginning that try both in turn.
const FIRST: u32 = 4 * TRIES;
/// One copy in so many is timed.
const TIMED: u32 = 8;
/// The slower is tried after so many copies, and when it was the slower again, after four times as many, up to so many.
const TRY: u32 = 128;
const TRY_RARELY: u32 = 2048;
/// By this factor the times of the faster change where threads or caches have moved: then the other may be the faster now.
const MOVED: u64 = 2;

/// How bytes are stored that another core reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stores {
    /// By plain stores: who has the old content gives it up.
    Plain,
    /// By streaming stores, which go past the caches and ask nobody.
    Streaming,
}

impl Stores {
    fn other(self) -> Stores {
        match self {
            Stores::Plain => Stores::Streaming,
            Stores::Streaming => Stores::Plain,
        }
    }

    /// Copies bytes. After it, a Release store publishes the bytes.
    ///
    /// Progress class: wait-free; bounded by `len`. Handlers may call it.
    ///
    /// # Safety
    /// `from` is readable and `to` writable for `len` bytes, and they do not overlap.
    #[inline]
    pub unsafe fn copy(self, from: *const u8, to: *mut u8, len: usize) {
        match self {
            // SAFETY: the caller's promise.
            Stores::Plain => unsafe { copy::copy(from, to, len) },
            // SAFETY: the caller's promise.
            Stores::Streaming => unsafe { stream(from, to, len) },
        }
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

/// A time in nanoseconds for 64 KiB; 0: unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Time(u64);

impl Time {
    /// So many bytes took so many ns. One may contain an interrupt, or the first touch of the memory: one that is longer than before counts little.
    pub fn note(&mut self, ns: u64, len: usize) {
        let of_64k = ns.saturating_mul(64 << 10).checked_div(len as u64).unwrap_or(0).max(1);
        self.0 = match self.0 {
            0 => of_64k,
            known if of_64k < known => of_64k,
            known => known.saturating_add(of_64k.min(known.saturating_mul(4)).saturating_sub(known) / 8),
        };
    }
}

/// What copies in and out by either stores take.
#[derive(Debug)]
pub struct Compared {
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
    /// Nothing is known. `handicap`: by how much streaming must be faster as long as nobody says what it takes to copy out.
    #[must_use]
    pub const fn new(handicap: u64) -> Compared {
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

    /// What copies in and out by these stores take.
    pub fn times(&mut self, stores: Stores) -> &mut (Time, Time) {
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

    /// The stores for the next copy, and whether its time is wanted.
    pub fn choose(&mut self) -> (Stores, bool) {
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

#[cfg(all(test, not(loom)))]
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

    /// How often each is chosen in `copies`, if copying in takes so long.
    fn chosen(known: &mut Compared, copies: u32, plain: u64, streaming: u64) -> (u32, u32) {
        let mut counts = (0, 0);
        for _ in 0..copies {
            let (stores, timed) = known.choose();
            let (count, ns) = match stores {
                Stores::Plain => (&mut counts.0, plain),
                Stores::Streaming => (&mut counts.1, streaming),
            };
            *count += 1;
            if timed {
                known.times(stores).0.note(ns, 64 << 10);
            }
        }
        counts
    }

    #[test]
    fn the_faster_stores_are_found_and_found_again() {
        let mut known = Compared::new(1);
        // The first touch of the memory.
        let (plain, streaming) = chosen(&mut known, 2 * TRIES, 500_000, 300_000);
        assert_eq!((plain, streaming), (TRIES, TRIES));
        let (plain, streaming) = chosen(&mut known, 10_000, 3_000, 6_000);
        let tries = 10_000 / TRY_RARELY * TRIES;
        assert!(streaming >= tries && streaming <= tries + 4 * TRIES, "{plain}, {streaming}");
        // The threads move to cores that share nothing.
        let (plain, streaming) = chosen(&mut known, 10_000, 30_000, 6_000);
        assert!(plain < 300 && streaming > 9_700, "{plain}, {streaming}");
        // An interrupt now and then changes nothing.
        known.times(Stores::Streaming).0.note(1_000_000, 64 << 10);
        let (plain, _) = chosen(&mut known, 1_000, 30_000, 6_000);
        assert!(plain <= 2 * TRIES, "{plain}");
        // And back, to where only a try shows it.
        let (plain, _) = chosen(&mut known, 10_000, 3_000, 6_000);
        assert!(plain > 10_000 - TRY_RARELY - 8 * TRIES, "{plain}");
    }

    #[test]
    fn streaming_is_to_be_faster_by_the_handicap() {
        for (handicap, streams) in [(1, true), (2, true), (4, false)] {
            let mut known = Compared::new(handicap);
            let (plain, streaming) = chosen(&mut known, 10_000, 30_000, 10_000);
            assert_eq!(streaming > plain, streams, "{handicap}: {plain}, {streaming}");
        }
    }
}
