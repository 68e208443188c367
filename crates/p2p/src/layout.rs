//! Buffers are layouts: where a message's bytes lie in the user's memory.

use tocsin_transport::{copy, short};

/// How the bytes of a message are spread from its base address on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// One run of bytes.
    Contiguous {
        /// Length in bytes.
        bytes: usize,
    },
    /// `count` blocks of `block` bytes each, whose starts lie `stride` bytes apart (it may be negative).
    Strided {
        /// Bytes per block.
        block: usize,
        /// Bytes from the start of a block to the start of the next.
        stride: isize,
        /// Number of blocks.
        count: usize,
    },
}

impl Layout {
    /// Bytes of the message in total; saturates. Handler-safe.
    #[inline]
    pub const fn bytes(&self) -> usize {
        match *self {
            Layout::Contiguous { bytes } => bytes,
            Layout::Strided { block, count, .. } => block.saturating_mul(count),
        }
    }

    /// Calls `each(displacement from base, offset from `offset`, length)` for the runs that make up
    /// `offset..offset + len` of the message, cut at the message's end.
    #[inline]
    fn runs(&self, offset: usize, len: usize, mut each: impl FnMut(isize, usize, usize)) {
        let len = len.min(self.bytes().saturating_sub(offset));
        match *self {
            Layout::Contiguous { .. } => {
                if len > 0 {
                    each(offset as isize, 0, len);
                }
            }
            Layout::Strided { block, stride, .. } => {
                if block == 0 {
                    return;
                }
                let mut number = offset / block;
                let mut within = offset % block;
                let mut done = 0;
                while done < len {
                    let run = (block - within).min(len - done);
                    let start = (number as isize).wrapping_mul(stride).wrapping_add(within as isize);
                    each(start, done, run);
                    done += run;
                    number += 1;
                    within = 0;
                }
            }
        }
    }
}

/// A buffer that is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConstBuf {
    /// Address of the first block. May dangle when the layout has no bytes.
    pub base: *const u8,
    /// Where the bytes lie from there.
    pub layout: Layout,
}

/// A buffer that is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MutBuf {
    /// Address of the first block. May dangle when the layout has no bytes.
    pub base: *mut u8,
    /// Where the bytes lie from there.
    pub layout: Layout,
}

impl ConstBuf {
    /// `bytes` bytes from `base` on.
    #[inline]
    pub const fn contiguous(base: *const u8, bytes: usize) -> ConstBuf {
        ConstBuf { base, layout: Layout::Contiguous { bytes } }
    }

    /// Copies bytes `offset..offset + len` of the message to `to`. Cut at the message's end. Handler-safe; bounded by
    /// `len`.
    ///
    /// # Safety
    /// The buffer is readable as its layout says, and `to` is writable for `len` bytes that do not overlap it.
    #[inline]
    pub unsafe fn pack(&self, offset: usize, len: usize, to: *mut u8) {
        let base = self.base;
        self.layout.runs(offset, len, |from, at, run| {
            // SAFETY: `runs` stays inside the layout and inside `offset..offset + len`; the caller vouches for both.
            unsafe { core::ptr::copy_nonoverlapping(base.wrapping_offset(from), to.wrapping_add(at), run) };
        });
    }

    /// The address of byte `offset`, if the bytes from there on lie in one run. Handler-safe.
    #[inline]
    pub(crate) fn run_at(&self, offset: usize) -> Option<*const u8> {
        match self.layout {
            Layout::Contiguous { .. } => Some(self.base.wrapping_add(offset)),
            Layout::Strided { .. } => None,
        }
    }
}

impl MutBuf {
    /// The address of byte `offset`, if the bytes from there on lie in one run. Handler-safe.
    #[inline]
    pub(crate) fn run_at(&self, offset: usize) -> Option<*mut u8> {
        match self.layout {
            Layout::Contiguous { .. } => Some(self.base.wrapping_add(offset)),
            Layout::Strided { .. } => None,
        }
    }

    /// `bytes` bytes from `base` on.
    #[inline]
    pub const fn contiguous(base: *mut u8, bytes: usize) -> MutBuf {
        MutBuf { base, layout: Layout::Contiguous { bytes } }
    }

    /// Copies `len` bytes from `from` to bytes `offset..` of the message. Cut at the message's end. Handler-safe;
    /// bounded by `len`.
    ///
    /// # Safety
    /// The buffer is writable as its layout says, and `from` is readable for `len` bytes that do not overlap it. The
    /// bytes at `from` may change meanwhile: then those that arrive are unspecified.
    #[inline]
    pub unsafe fn unpack(&self, offset: usize, len: usize, from: *const u8) {
        let (base, layout) = (self.base, self.layout);
        layout.runs(offset, len, |to, at, run| {
            let (from, to) = (from.wrapping_add(at), base.wrapping_offset(to));
            // SAFETY: `runs` stays inside the layout and inside `offset..offset + len`; the caller vouches for both.
            unsafe {
                if run >= copy::FROM {
                    copy::copy(from, to, run);
                } else {
                    short::copy(from, to, run);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_bytes_touch_nothing() {
        for layout in [
            Layout::Contiguous { bytes: 0 },
            Layout::Strided { block: 0, stride: 8, count: 9 },
            Layout::Strided { block: 9, stride: 8, count: 0 },
        ] {
            let mut byte = 7u8;
            // SAFETY: a layout without bytes dereferences nothing.
            unsafe {
                ConstBuf { base: core::ptr::null(), layout }.pack(0, 10, &mut byte);
                MutBuf { base: core::ptr::null_mut(), layout }.unpack(3, 10, &byte);
            }
            assert_eq!((byte, layout.bytes()), (7, 0));
        }
    }

    proptest! {
        /// Packing any slice equals picking those bytes one by one, and unpacking is its inverse.
        #[test]
        fn slices_equal_single_bytes(block in 1usize..9, gap in 0isize..5, back: bool, count in 0usize..9,
                                     offset in 0usize..80, len in 0usize..80) {
            let stride = (block as isize + gap) * if back { -1 } else { 1 };
            let layout = Layout::Strided { block, stride, count };
            let memory: Vec<u8> = (0..256).map(|i| i as u8).collect();
            let at = |i: usize| (128 + (i / block) as isize * stride) as usize + i % block;
            let expected: Vec<u8> =
                (offset..(offset + len).min(layout.bytes()).max(offset)).map(|i| memory[at(i)]).collect();
            let mut packed = vec![0u8; len];
            // SAFETY: 9 blocks of at most 12 bytes either way from the middle stay inside the 256 bytes.
            unsafe {
                ConstBuf { base: memory.as_ptr().add(128), layout }.pack(offset, len, packed.as_mut_ptr());
            }
            prop_assert_eq!(&packed[..expected.len()], &expected[..]);
            prop_assert!(packed[expected.len()..].iter().all(|b| *b == 0));
            let mut other = vec![0u8; 256];
            // SAFETY: as above.
            unsafe {
                MutBuf { base: other.as_mut_ptr().add(128), layout }.unpack(offset, len, packed.as_ptr());
            }
            for i in 0..256 {
                let inside = (offset..offset + expected.len()).any(|n| at(n) == i);
                prop_assert_eq!(other[i], if inside { memory[i] } else { 0 });
            }
        }
    }
}
