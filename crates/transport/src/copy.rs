//! Copies of several pages.
//!
//! What a collective or a large message moves mostly lies in no cache close by: another rank has written it, perhaps a while ago. There a copy takes as long as
//! the processor waits for the first lines of each page: its prefetchers end with the page, and the address of the next one is looked for only then
//! (in a virtual machine by way of twice as many tables). So the next page of either end is asked for while this one is copied. And whole
//! lines are loaded and stored one after the other, where the C library has one instruction move all: out of memory that takes half as long again. (The
//! copies of 8 ranks that share a core, 448 KiB each: 48 us in and 45 us out, where it was 51 and 71; where all lies in caches, 15 and 16, where it was 15 and 19.)

/// From how many bytes on. What is shorter has hardly a next page.
const FROM: usize = 8 * 1024;

/// Copies `len` bytes.
///
/// Progress class: wait-free; bounded by `len`. Handlers may call it.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, and they do not overlap. The bytes at `from` may change meanwhile: then those that arrive are
/// unspecified.
#[inline]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if len >= FROM {
            by_pages(from, to, len);
        } else {
            core::ptr::copy_nonoverlapping(from, to, len);
        }
    }
}

/// # Safety
/// As [`copy`]; `len` is at least a line.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(never)] // else a compiler that sees both ends may make one call of the loop
unsafe fn by_pages(from: *const u8, to: *mut u8, len: usize) {
    use core::arch::x86_64::{__m128i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm_storeu_si128};
    const LINE: usize = 64;
    const PAGE: usize = 4096;
    let last = len.wrapping_sub(LINE);
    // SAFETY: - at + 64 <= len in each call: the caller's promise.
    let line = |at: usize| unsafe {
        let (from, to) = (from.add(at).cast::<__m128i>(), to.add(at).cast::<__m128i>());
        let parts = [0, 1, 2, 3].map(|i| _mm_loadu_si128(from.add(i)));
        for (i, part) in parts.into_iter().enumerate() {
            _mm_storeu_si128(to.add(i), part);
        }
    };
    // The first line, and then from the beginning of one at `to`: what is stored across lines takes twice as long.
    line(0);
    let mut at = LINE.wrapping_sub(to as usize % LINE);
    while at <= last {
        let end = at.wrapping_add(PAGE).min(last.wrapping_add(1));
        // Behind the end there is nothing to ask for; an address alone may be anything.
        if at.wrapping_add(PAGE) <= last {
            let next = at.wrapping_add(PAGE);
            // SAFETY: reads and writes nothing that a program could see.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(next).cast());
                _mm_prefetch::<_MM_HINT_T0>(to.wrapping_add(next).cast());
            }
        }
        while at < end {
            line(at);
            at = at.wrapping_add(LINE);
        }
    }
    // What is left is less than a line: the last one, of which a part is there.
    line(last);
}

/// # Safety
/// As [`copy`].
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn by_pages(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { core::ptr::copy_nonoverlapping(from, to, len) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_arrive_and_nothing_else() {
        let from: Vec<u8> = (0..40_000u32).map(|i| (i % 251) as u8 + 1).collect();
        let lens = [0, 1, 64, FROM - 1, FROM, FROM + 1, FROM + 63, FROM + 64, 12_288, 12_300, 20_479, 36_863];
        for len in lens {
            for (skew_from, skew_to) in [(0, 0), (1, 0), (0, 1), (3, 63), (64, 17), (100, 100)] {
                let mut to = vec![0u8; 40_000];
                // SAFETY: both are long enough, and two.
                unsafe { copy(from.as_ptr().add(skew_from), to.as_mut_ptr().add(skew_to), len) };
                assert_eq!(to[skew_to..skew_to + len], from[skew_from..skew_from + len], "{len} bytes");
                let around = to[..skew_to].iter().chain(&to[skew_to + len..]);
                assert!(around.copied().all(|byte| byte == 0), "{len} bytes at {skew_to}");
            }
        }
    }
}
