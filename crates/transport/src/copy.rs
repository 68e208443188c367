//! Copies of several pages.
//!
//! What a collective or a large message moves mostly lies in no cache close by: another rank has written it, perhaps a while ago. There a copy takes as long as
//! the processor waits for the first lines of each page: its prefetchers end with the page, and the address of the next one is looked for only then
//! (in a virtual machine by way of twice as many tables). So the next page of either end is asked for while this one is copied. And
//! lines are loaded and stored in two halves, one after the other: as whole lines are, they leave room for more lines that are waited for than quarters do, and out of another core's cache or
//! of memory that is quicker than the one instruction by which the C library moves all. (Parts of 8 ranks that share a core, after a while: 448 KiB in as with the C library, 45 us, 512 KiB
//! out 44 us instead of 72; 64 KiB that another core has just written 2.0 us instead of 2.8.)

/// From how many bytes on. What is shorter has hardly a next page.
pub const FROM: usize = 8 * 1024;

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
        if len >= FROM && has_halves() {
            by_pages(from, to, len);
        } else {
            core::ptr::copy_nonoverlapping(from, to, len);
        }
    }
}

/// Asks the processor how it copies, which is remembered: in a virtual machine each question to it may take as long as a handler has in all, so that none is to be the
/// first who asks. User threads only.
pub fn prepare() {
    let _known = has_halves();
}

/// Whether the processor moves half a line at once. Asks it once.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn has_halves() -> bool {
    std::arch::is_x86_feature_detected!("avx")
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn has_halves() -> bool {
    false
}

/// Has a line and the address of its page looked for.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn ask_for(line: *const u8) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: reads and writes nothing that a program could see, wherever it points. (Newer compilers need no promise.)
    #[allow(unused_unsafe)]
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
}

/// # Safety
/// As [`copy`]; `len` is at least a line, and the processor [has halves](has_halves).
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(never)] // else a compiler that sees both ends may make one call of the loop
#[target_feature(enable = "avx")]
unsafe fn by_pages(from: *const u8, to: *mut u8, len: usize) {
    use core::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_storeu_si256};
    const LINE: usize = 64;
    const PAGE: usize = 4096;
    /// # Safety
    /// As [`by_pages`], for the line at `at`.
    #[inline]
    #[target_feature(enable = "avx")]
    unsafe fn line(from: *const u8, to: *mut u8, at: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let (from, to) = (from.add(at).cast::<__m256i>(), to.add(at).cast::<__m256i>());
            let (first, second) = (_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1)));
            _mm256_storeu_si256(to, first);
            _mm256_storeu_si256(to.add(1), second);
        }
    }
    let last = len.wrapping_sub(LINE);
    // The first line, and then from the beginning of one at `to`: what is stored across lines takes twice as long.
    // SAFETY: there is a line at least: the caller's promise.
    unsafe { line(from, to, 0) };
    let mut at = LINE.wrapping_sub(to as usize % LINE);
    while at <= last {
        let next = at.wrapping_add(PAGE);
        // Behind the end there is nothing to ask for.
        if next <= last {
            ask_for(from.wrapping_add(next));
            ask_for(to.wrapping_add(next));
        }
        let end = next.min(last.wrapping_add(1));
        while at < end {
            // SAFETY: at + LINE <= len.
            unsafe { line(from, to, at) };
            at = at.wrapping_add(LINE);
        }
    }
    // What is left is less than a line: the last one, of which a part is there.
    // SAFETY: there is a line at least.
    unsafe { line(from, to, last) };
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
