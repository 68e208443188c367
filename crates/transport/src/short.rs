//! Copies that are mostly short.

/// Copies `len` bytes. Up to 16 of them, the payload of a packet that is one cache line, without a call: with loads and
/// stores of a fixed size, which may overlap.
///
/// Progress class: wait-free; bounded by `len`. Handlers may call it.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, and they do not overlap. Either may be anything when `len` is 0.
/// The bytes at `from` may change meanwhile: then those that arrive are unspecified.
#[inline]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: each access lies inside `len` bytes: the second of a pair ends with the last of them, and starts at or behind
    // the first byte, because at least its size are there. The caller vouches for both ends.
    unsafe {
        match len {
            0 => {}
            1..4 => {
                let (middle, last) = (len / 2, len.wrapping_sub(1));
                let bytes = [from.read(), from.add(middle).read(), from.add(last).read()];
                to.write(bytes[0]);
                to.add(middle).write(bytes[1]);
                to.add(last).write(bytes[2]);
            }
            4..8 => pair::<u32>(from, to, len),
            8..=16 => pair::<u64>(from, to, len),
            _ => core::ptr::copy_nonoverlapping(from, to, len),
        }
    }
}

/// The first and the last bytes of `len`, as two values of `N`.
///
/// # Safety
/// As [`copy`]; `len` is at least the size of `N`, and at most twice that.
#[inline]
unsafe fn pair<N: Copy>(from: *const u8, to: *mut u8, len: usize) {
    let last = len.wrapping_sub(size_of::<N>());
    // SAFETY: the caller's promise.
    unsafe {
        let (begin, end) = (from.cast::<N>().read_unaligned(), from.add(last).cast::<N>().read_unaligned());
        to.cast::<N>().write_unaligned(begin);
        to.add(last).cast::<N>().write_unaligned(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lengths_arrive_and_nothing_else() {
        let from: Vec<u8> = (1..=64).collect();
        for len in 0..=40 {
            let mut to = [0u8; 64];
            // SAFETY: both have 64 bytes.
            unsafe { copy(from.as_ptr().add(3), to.as_mut_ptr().add(5), len) };
            assert_eq!(to[5..5 + len], from[3..3 + len]);
            assert!(to[..5].iter().chain(&to[5 + len..]).all(|byte| *byte == 0), "{len}");
        }
    }
}
