//! Copies of several pages.
//!
//! What a collective or a large message moves mostly lies in no cache close by: another rank has written it, perhaps a while ago. There a copy takes as long as
//! the processor waits for the first lines of each page: its prefetchers end with the page, and the address of the next one is looked for only then
//! (in a virtual machine by way of twice as many tables). So the next page of either end is asked for while this one is copied. And
//! lines are loaded and stored in two halves, one after the other: as whole lines are, they leave room for more lines that are waited for than quarters do, and out of another core's cache or
//! of memory that is quicker than the one instruction by which the C library moves all. (Parts of 8 ranks that share a core, after a while, on an EPYC: 448 KiB in as with the C library, 45 us, 512 KiB
//! out 44 us instead of 72; 64 KiB that another core has just written 2.0 us instead of 2.8.)
//!
//! On Intel's processors four pages are copied at once, two lines of each in turn: each page has a prefetcher of its own there, and one is not ahead of the copy when a line
//! comes from another core. (256 KiB that another core has just written, on a Granite Rapids: 12.1 us instead of 14.4 page by page, and of 14.9 with the C library; two pages at once 12.6.)
//!
//! On AMD's from Zen 5 on the string instruction moves all but what [is followed](follow). (To and fro between two
//! cores through shared memory, written anew each time, us a way, halves of lines against the instruction: where they share a cache 16 KiB 0.71 and 0.58, 64 KiB 2.1 and 1.6, 1 MiB 26 and 24, 4 MiB 121 and 112; where they do not 16 KiB 2.9 and
//! 1.6, 64 KiB 8.7 and 3.5, 1 MiB 132 and 42, 4 MiB 446 and 161, streaming stores 192. Where in a line either end begins changes that by 7 % at most, but for a copy that begins a few bytes later in its page than what it is
//! made of: that takes up to a fifth longer, which is less than by halves from 64 KiB on, and a twentieth more for 16. From 4 KiB on: below it takes longer to begin.)

/// From how many bytes on. What is shorter has hardly a next page.
pub const FROM: usize = 2 * 1024;
/// What is shorter is copied without regard to pages, and to where lines begin.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const PAGES_FROM: usize = 8 * 1024;
/// From how many bytes on the string instruction has begun soon enough, where it is the quickest.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const STRING_FROM: usize = 4 * 1024;

const LINE: usize = 64;
#[cfg(all(target_arch = "x86_64", not(miri)))]
const PAGE: usize = 4096;

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

/// From how many bytes on the string instruction takes two times as long as it should, or not, to copy what another core writes meanwhile.
const FOLLOWED_FROM: usize = 512 << 10;

/// [`copy`] of a part of `whole` bytes by who follows another core, which writes them meanwhile.
///
/// On Zen 5 a long one goes line by line, those to come asked for: the string instruction takes one of two times there, for as long as both ranks use the same
/// memory. (512 KiB, 768 KiB and 1 MiB by two cores at once, us: 9.1, 13.4 and 18.2, by the instruction 8.2 or 16, 13 or 28, 17.5 or 47; 256 KiB 5.5, but 4.5; where the cores
/// share no cache both take the same.) Written so, what another core reads takes up to three times as long.
///
/// Progress class: wait-free; bounded by `len`. Handlers may call it.
///
/// # Safety
/// As [`copy`].
#[inline]
pub unsafe fn follow(from: *const u8, to: *mut u8, len: usize, whole: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if whole >= FOLLOWED_FROM && len >= FROM && processor::has_quick_strings() && has_halves() {
            by_lines_ahead(from, to, len);
        } else {
            copy(from, to, len);
        }
    }
}

/// As many bytes as the first cache of a core holds, or more.
const FIRST_CACHE: usize = 48 << 10;
/// From how many bytes on [`pass_on`] is worth its time.
pub const PASS_ON_FROM: usize = 32 << 10;

/// Has what this core wrote last leave its first cache for its second, from where other cores get it sooner: fetches other lines instead, those of `len` bytes that were read
/// for it. For a thread whose message somebody waits for: it takes 0.5 us, mostly while that one copies.
///
/// On Intel's processors alone, where that was measured: of what another core has just written, the last 48 KiB are read at 7 GB/s, and what came before them at 40.
/// (Half round trips of 48 KiB 5.1 us without and 4.7 with, of 64 KiB 6.4 and 6.05, of 256 KiB 16.7 and 15.6, of 512 KiB 36 and 34.9, on a Granite Rapids. To demote the
/// lines to the third cache takes two times as long.)
///
/// Progress class: wait-free, bounded. Handlers may call it, and have no use for it.
#[inline(never)]
pub fn pass_on(read: *const u8, len: usize) {
    if len < PASS_ON_FROM || !processor::is_intel() {
        return;
    }
    let mut at = 0usize;
    for _ in 0..FIRST_CACHE / LINE {
        tocsin_sync::prefetch_for_read(read.wrapping_add(at));
        at = at.wrapping_add(LINE);
        if at >= len {
            at = 0;
        }
    }
}

/// Asks the processor how it copies, which is remembered: in a virtual machine each question to it may take as long as a handler has in all, so that none is to be the
/// first who asks. User threads only.
pub fn prepare() {
    let _known = has_halves();
    processor::prepare();
}

/// Whether what a core's own caches do not hold is far from it: behind a mesh, as in Intel's servers, where a plain copy of it takes twice as long as in a cache that a
/// few cores share, and the kernel's single copy less than two of them. (A copy of 256 KiB, 1 and 4 MiB on an Emerald Rapids: 40, 24 and 13 GB/s.) User threads only: it
/// asks the processor.
#[must_use]
pub fn has_far_cache() -> bool {
    processor::prepare();
    processor::is_intel()
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

/// What the processor copies quickest by.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod processor {
    use core::arch::x86_64::{__cpuid, __cpuid_count};
    use core::sync::atomic::Ordering;

    // A fact of the processor, not a protocol: nothing that loom would have to try.
    #[expect(clippy::disallowed_types)]
    type Known = core::sync::atomic::AtomicU8;

    const PAGE_BY_PAGE: u8 = 0;
    const SEVERAL_PAGES: u8 = 1;
    const STRING: u8 = 2;

    static QUICKEST: Known = Known::new(PAGE_BY_PAGE);

    /// The first family of AMD's whose string instruction is the quickest: Zen 5.
    const ZEN_5: u32 = 0x1a;
    /// Leaf 7, EBX: `rep movsb` is as quick as any loop, the maker says ("enhanced").
    const ERMS: u32 = 1 << 9;

    /// Asks the processor who has made it.
    pub(super) fn prepare() {
        let who = __cpuid(0);
        let quickest = match &[who.ebx, who.edx, who.ecx].map(u32::to_le_bytes).concat()[..] {
            b"GenuineIntel" => SEVERAL_PAGES,
            b"AuthenticAMD"
                if who.eax >= 7 && family(__cpuid(1).eax) >= ZEN_5 && __cpuid_count(7, 0).ebx & ERMS != 0 =>
            {
                STRING
            }
            _ => PAGE_BY_PAGE,
        };
        // SYNC POINT: Relaxed: all who ask are told the same, and who has not heard of it yet copies page by page.
        QUICKEST.store(quickest, Ordering::Relaxed);
    }

    /// Of the signature that leaf 1 has in EAX: the family and, where that is the last of four bits, the extended one.
    pub(super) fn family(signature: u32) -> u32 {
        match (signature >> 8) & 0xf {
            0xf => ((signature >> 20) & 0xff).wrapping_add(0xf),
            family => family,
        }
    }

    #[inline]
    fn quickest() -> u8 {
        // SYNC POINT: Relaxed: see `prepare`.
        QUICKEST.load(Ordering::Relaxed)
    }

    /// Whether the processor is Intel's.
    #[inline]
    pub(super) fn is_intel() -> bool {
        quickest() == SEVERAL_PAGES
    }

    /// Whether the string instruction is quicker than any loop.
    #[inline]
    pub(super) fn has_quick_strings() -> bool {
        quickest() == STRING
    }

    /// As if the processor were another one.
    #[cfg(test)]
    pub(super) fn pretend_all(mut test: impl FnMut()) {
        for quickest in [PAGE_BY_PAGE, SEVERAL_PAGES, STRING] {
            QUICKEST.store(quickest, Ordering::Relaxed);
            test();
        }
    }

    /// How many pages are copied at once, of `len` bytes that are left, as a power of two. A little less than a page is one, too.
    #[inline]
    pub(super) fn pages(len: usize) -> u32 {
        match len.wrapping_add(super::LINE) / super::PAGE {
            2.. if !is_intel() => 0,
            4.. => 2,
            2.. => 1,
            _ => 0,
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod processor {
    pub(super) fn prepare() {}

    pub(super) fn has_quick_strings() -> bool {
        false
    }

    pub(super) fn is_intel() -> bool {
        false
    }

    #[cfg(test)]
    pub(super) fn pretend_all(mut test: impl FnMut()) {
        test();
    }
}

/// Copies by the string instruction.
///
/// # Safety
/// As [`copy`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
unsafe fn by_string(from: *const u8, to: *mut u8, len: usize) {
    // What is published afterwards by a Release store needs no fence: the instruction's stores may come in any order among themselves, but before later ones.
    // SAFETY: the caller's promise. The direction flag is clear: the ABI has it so wherever code of Rust runs; before a signal's handler the kernel clears it, before that of a user interrupt the
    // trampoline does.
    unsafe {
        core::arch::asm!(
            "rep movsb",
            inout("rcx") len => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags),
        );
    }
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
/// As [`copy`], for the line at `at`.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
#[target_feature(enable = "avx")]
unsafe fn line(from: *const u8, to: *mut u8, at: usize) {
    use core::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_storeu_si256};
    // SAFETY: the caller's promise.
    unsafe {
        let (from, to) = (from.add(at).cast::<__m256i>(), to.add(at).cast::<__m256i>());
        let (first, second) = (_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1)));
        _mm256_storeu_si256(to, first);
        _mm256_storeu_si256(to.add(1), second);
    }
}

/// Copies `PAGES` runs of `run` bytes, from `at` on, at once, two lines of each in turn.
///
/// # Safety
/// As [`copy`], of `at + PAGES * run` bytes. `run` is a multiple of two lines.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
#[target_feature(enable = "avx")]
unsafe fn pages<const PAGES: usize>(from: *const u8, to: *mut u8, at: usize, run: usize) {
    let mut inside = 0usize;
    while inside < run {
        for page in 0..PAGES {
            let at = at.wrapping_add(page.wrapping_mul(run)).wrapping_add(inside);
            // SAFETY: at + 2 * LINE <= the caller's bytes, since `run` is a multiple of that.
            unsafe {
                line(from, to, at);
                line(from, to, at.wrapping_add(LINE));
            }
        }
        inside = inside.wrapping_add(2 * LINE);
    }
}

/// How far ahead of a copy line by line its lines are asked for.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const ASKED_AHEAD: usize = 32 * LINE;

/// Copies line by line, and asks for those to come.
///
/// # Safety
/// As [`copy`]; `len` is at least a line, and the processor [has halves](has_halves).
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(never)] // as `by_pages`
#[target_feature(enable = "avx")]
unsafe fn by_lines_ahead(from: *const u8, to: *mut u8, len: usize) {
    let last = len.wrapping_sub(LINE);
    // SAFETY: there is a line at least: the caller's promise.
    unsafe { line(from, to, 0) };
    let mut at = (to as usize).wrapping_neg() % LINE;
    while at <= last {
        ask_for(from.wrapping_add(at).wrapping_add(ASKED_AHEAD));
        // SAFETY: at + LINE <= len.
        unsafe { line(from, to, at) };
        at = at.wrapping_add(LINE);
    }
    // SAFETY: there is a line at least.
    unsafe { line(from, to, last) };
}

/// # Safety
/// As [`copy`]; `len` is at least a line, and the processor [has halves](has_halves).
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(never)] // else a compiler that sees both ends may make one call of the loop
#[target_feature(enable = "avx")]
unsafe fn by_pages(from: *const u8, to: *mut u8, len: usize) {
    if len >= STRING_FROM && processor::has_quick_strings() {
        // SAFETY: the caller's promise.
        return unsafe { by_string(from, to, len) };
    }
    let last = len.wrapping_sub(LINE);
    if len < PAGES_FROM {
        let mut at = 0usize;
        while at < last {
            // SAFETY: at + LINE <= len.
            unsafe { line(from, to, at) };
            at = at.wrapping_add(LINE);
        }
        // SAFETY: there is a line at least.
        return unsafe { line(from, to, last) };
    }
    // The first line, and then from the beginning of one at `to`: what is stored across lines takes twice as long.
    // SAFETY: there is a line at least: the caller's promise.
    unsafe { line(from, to, 0) };
    let mut at = (to as usize).wrapping_neg() % LINE;
    while at <= last {
        let left = len.wrapping_sub(at);
        let many = processor::pages(left);
        let run = if many == 0 { PAGE } else { left.wrapping_shr(many).min(PAGE) & !(2 * LINE - 1) };
        let next = at.wrapping_add(run.wrapping_shl(many));
        // Behind the end there is nothing to ask for.
        if next <= last {
            ask_for(from.wrapping_add(next));
            ask_for(to.wrapping_add(next));
        }
        match many {
            // SAFETY: so many runs are left.
            2 => unsafe { pages::<4>(from, to, at, run) },
            // SAFETY: so many runs are left.
            1 => unsafe { pages::<2>(from, to, at, run) },
            _ => {
                let end = next.min(last.wrapping_add(1));
                while at < end {
                    // SAFETY: at + LINE <= len.
                    unsafe { line(from, to, at) };
                    at = at.wrapping_add(LINE);
                }
            }
        }
        at = at.max(next);
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

/// # Safety
/// As [`copy`].
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn by_lines_ahead(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { core::ptr::copy_nonoverlapping(from, to, len) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_arrive_and_nothing_else() {
        processor::pretend_all(all_lengths);
        prepare();
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn the_family_of_a_processor() {
        // Zen 5 (26), Zen 3 (25), Zen (23), a Xeon (6).
        let all = [0x00b0_0f21, 0x00a0_0f11, 0x0080_0f11, 0x000a_06d1].map(processor::family);
        assert_eq!(all, [26, 25, 23, 6]);
    }

    fn all_lengths() {
        let from: Vec<u8> = (0..60_000u32).map(|i| (i % 251) as u8 + 1).collect();
        let lens = [
            0,
            1,
            64,
            FROM - 1,
            FROM,
            FROM + 1,
            FROM + 63,
            FROM + 64,
            8127,
            8128,
            8191,
            8192,
            8193,
            8255,
            12_288,
            12_300,
        ];
        for len in lens
            .into_iter()
            .chain([16_319, 16_320, 16_383, 16_384, 16_448, 20_479, 24_576, 32_768, 36_863, 50_001])
        {
            for (skew_from, skew_to) in [(0, 0), (1, 0), (0, 1), (3, 63), (64, 17), (100, 100)] {
                for whole in [None, Some(0), Some(FOLLOWED_FROM)] {
                    let mut to = vec![0u8; 60_000];
                    // SAFETY: both are long enough, and two.
                    unsafe {
                        let (from, to) = (from.as_ptr().add(skew_from), to.as_mut_ptr().add(skew_to));
                        match whole {
                            Some(whole) => follow(from, to, len, whole),
                            None => copy(from, to, len),
                        }
                    }
                    assert_eq!(to[skew_to..skew_to + len], from[skew_from..skew_from + len], "{len} bytes");
                    let around = to[..skew_to].iter().chain(&to[skew_to + len..]);
                    assert!(around.copied().all(|byte| byte == 0), "{len} bytes at {skew_to}, {whole:?}");
                }
            }
        }
    }
}
