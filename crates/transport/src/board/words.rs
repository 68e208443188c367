//! Bytes as the words of a slot.

use tocsin_sync::atomic::{AtomicU64, Ordering};

/// Stores bytes as words.
///
/// # Safety
/// `from` is readable for `bytes`, if those are not 0.
#[inline]
pub(super) unsafe fn write(data: &[AtomicU64], from: *const u8, bytes: usize) {
    let (whole, rest) = (bytes / 8, bytes % 8);
    let (mut words, mut at) = (data.iter(), from);
    for word in words.by_ref().take(whole) {
        // SAFETY: below `bytes`; any alignment.
        unsafe {
            word.store(at.cast::<u64>().read_unaligned(), Ordering::Relaxed);
            at = at.add(8);
        }
    }
    if rest > 0
        && let Some(word) = words.next()
    {
        let mut last = [0u8; 8];
        // SAFETY: the last `rest` of the bytes, fewer than 8.
        unsafe { core::ptr::copy_nonoverlapping(at, last.as_mut_ptr(), rest) };
        word.store(u64::from_ne_bytes(last), Ordering::Relaxed);
    }
}

/// Loads bytes as words.
///
/// # Safety
/// `to` is writable for `bytes`.
#[inline]
pub(super) unsafe fn read(data: &[AtomicU64], first: usize, to: *mut u8, bytes: usize) {
    let mut words = data.iter().skip(first / 8);
    let (mut at, mut left) = (to, bytes);
    let skip = first % 8;
    if skip > 0
        && let Some(word) = words.next()
    {
        let (loaded, now) = (word.load(Ordering::Relaxed).to_ne_bytes(), left.min(8usize.wrapping_sub(skip)));
        let from = loaded.as_ptr().wrapping_add(skip);
        // SAFETY: skip + now <= 8, and now <= bytes.
        unsafe {
            core::ptr::copy_nonoverlapping(from, at, now);
            at = at.add(now);
        }
        left = left.wrapping_sub(now);
    }
    for word in words.by_ref().take(left / 8) {
        // SAFETY: below `bytes`; any alignment.
        unsafe {
            at.cast::<u64>().write_unaligned(word.load(Ordering::Relaxed));
            at = at.add(8);
        }
    }
    left %= 8;
    if left > 0
        && let Some(word) = words.next()
    {
        let loaded = word.load(Ordering::Relaxed).to_ne_bytes();
        // SAFETY: the last `left` of the bytes, fewer than 8.
        unsafe { core::ptr::copy_nonoverlapping(loaded.as_ptr(), at, left) };
    }
}
