//! Which stores take a payload into a lane: plain ones, or ones that go past the caches.
//!
//! The consumer's core has the lines of the ring's last lap in its cache. Where both cores share a cache, plain stores take them back
//! within some cycles, and the consumer reads what is still in a cache. Where they do not, each line is fetched from the other core
//! first, and once more by the consumer, at a tenth of the memory's speed on some machines; streaming stores ask nobody for the
//! old content, and the consumer's hardware prefetches from memory.
//!
//! Which of both a pair of cores is, and whether it stays so, nothing says reliably (clusters of cores within a socket, virtual
//! machines), so the producer compares what its own copies take, which is where plain stores wait, and tries the slower now and then.

use tocsin_sync::clock::now_ns;

/// Payloads of so many bytes or more may be streamed; of shorter ones the fence and the first lines' way from memory are most.
pub(super) const FROM: usize = 4 * 1024;
/// Where the first kind of payload ends, of which the consumer sees nothing before it is whole.
const COMING: usize = super::LONG;
/// By how much streaming must be faster there: the consumer's way to memory comes after it, and is not seen here.
const SHORT_HANDICAP: u64 = 2;
/// Copies at the beginning that try both in turn.
const FIRST: u32 = 8;
/// One copy in so many is timed.
const TIMED: u32 = 8;
/// The slower is tried once in so many copies, and if it takes more than twice as long, once in so many.
const TRY: u32 = 32;
const TRY_RARELY: u32 = 256;

/// How a payload is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stores {
    Plain,
    Streaming,
}

impl Stores {
    /// Copies a part of a payload. After it, a Release store publishes the bytes.
    ///
    /// Progress class: wait-free; bounded by `len`. Handlers may call it.
    ///
    /// # Safety
    /// `from` is readable and `to` writable for `len` bytes, and they do not overlap; `to` is a multiple of 64.
    #[inline]
    pub(super) unsafe fn copy(self, from: *const u8, to: *mut u8, len: usize) {
        match self {
            // SAFETY: the caller's promise.
            Stores::Plain => unsafe { core::ptr::copy_nonoverlapping(from, to, len) },
            // SAFETY: the caller's promise.
            Stores::Streaming => unsafe { stream(from, to, len) },
        }
    }
}

/// # Safety
/// As [`Stores::copy`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn stream(from: *const u8, to: *mut u8, len: usize) {
    use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const LINE: usize = 64;
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

/// What one lane's producer knows of its own copies.
#[derive(Debug)]
pub(super) struct Experience([Compared; 2]);

impl Experience {
    pub(super) const fn new() -> Experience {
        Experience([Compared::new(SHORT_HANDICAP), Compared::new(1)])
    }

    /// Copies a payload with the stores that take less time. `copy` is given them and does it.
    #[inline]
    pub(super) fn copy(&mut self, len: usize, copy: impl FnOnce(Stores)) {
        let [short, long] = &mut self.0;
        let compared = if len < COMING { short } else { long };
        let (stores, timed) = compared.choose();
        let begun = if timed { now_ns() } else { 0 };
        copy(stores);
        if timed {
            compared.note(stores, now_ns().wrapping_sub(begun), len);
        }
    }
}

#[derive(Debug)]
struct Compared {
    /// Time of each, in nanoseconds for 64 KiB, of streaming times its handicap; 0: unknown.
    plain: u64,
    streaming: u64,
    handicap: u64,
    copies: u32,
}

impl Compared {
    const fn new(handicap: u64) -> Compared {
        Compared { plain: 0, streaming: 0, handicap, copies: 0 }
    }

    /// And whether its time is wanted.
    fn choose(&mut self) -> (Stores, bool) {
        let at = self.copies;
        // Never back to the beginning.
        self.copies = at.checked_add(1).unwrap_or(FIRST);
        let (faster, slower, times) = if self.plain <= self.streaming {
            (Stores::Plain, Stores::Streaming, (self.plain, self.streaming))
        } else {
            (Stores::Streaming, Stores::Plain, (self.streaming, self.plain))
        };
        let every = if times.1 > times.0.saturating_mul(2) { TRY_RARELY } else { TRY };
        match at {
            0..FIRST if at % 2 == 0 => (Stores::Plain, true),
            0..FIRST => (Stores::Streaming, true),
            _ if at % every == 0 => (slower, true),
            _ => (faster, at % TIMED == 1),
        }
    }

    /// A time may contain an interrupt, or the first touch of the memory: one that is longer than before counts little.
    fn note(&mut self, stores: Stores, ns: u64, len: usize) {
        let of_64k = ns.saturating_mul(64 << 10).checked_div(len as u64).unwrap_or(0).max(1);
        let (time, of_64k) = match stores {
            Stores::Plain => (&mut self.plain, of_64k),
            Stores::Streaming => (&mut self.streaming, of_64k.saturating_mul(self.handicap)),
        };
        *time = match *time {
            0 => of_64k,
            known if of_64k < known => of_64k,
            known => known.saturating_add((of_64k.min(known.saturating_mul(4)).saturating_sub(known)) / 8),
        };
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
            for (offset, len) in [(0, 0), (0, 1), (3, 63), (1, 64), (0, 65), (7, 640), (5, 1000)] {
                let mut to = Aligned([0; 1024]);
                // SAFETY: both are long enough.
                unsafe { stores.copy(from.as_ptr().add(offset), to.0.as_mut_ptr(), len) };
                assert_eq!(to.0[..len], from[offset..offset + len], "{stores:?}");
                assert!(to.0[len..].iter().all(|byte| *byte == 0), "{stores:?}, {len} bytes");
            }
        }
    }

    /// How often each is chosen in `copies`, if they take so long.
    fn chosen(compared: &mut Compared, copies: u32, plain: u64, streaming: u64) -> (u32, u32) {
        let mut counts = (0, 0);
        for _ in 0..copies {
            let (stores, timed) = compared.choose();
            let (count, ns) = match stores {
                Stores::Plain => (&mut counts.0, plain),
                Stores::Streaming => (&mut counts.1, streaming),
            };
            *count += 1;
            if timed {
                compared.note(stores, ns, 64 << 10);
            }
        }
        counts
    }

    #[test]
    fn the_faster_stores_are_found_and_found_again() {
        let mut compared = Compared::new(1);
        // The first touch of the memory.
        assert_eq!(chosen(&mut compared, 2, 500_000, 300_000), (1, 1));
        let (plain, streaming) = chosen(&mut compared, 10_000, 3_000, 6_000);
        assert!(streaming < 10_000 / TRY + FIRST && streaming >= 10_000 / TRY_RARELY, "{plain}, {streaming}");
        // The threads move to cores that share nothing.
        let (plain, streaming) = chosen(&mut compared, 10_000, 30_000, 6_000);
        assert!(plain < 1_000 && streaming > 9_000, "{plain}, {streaming}");
        // An interrupt now and then changes nothing.
        compared.note(Stores::Streaming, 1_000_000, 64 << 10);
        let (plain, _) = chosen(&mut compared, 1_000, 30_000, 6_000);
        assert!(plain <= 1_000 / TRY_RARELY + 1, "{plain}");
        let (plain, _) = chosen(&mut compared, 10_000, 3_000, 6_000);
        assert!(plain > 8_000, "{plain}");
    }
}
