//! Message buffers with content that can be checked.

use tocsin_world::{Comm, HeapBlock};

use crate::error::Error;

/// A buffer, grown as needed, reused from round to round.
#[derive(Default)]
pub(super) struct Buffer {
    /// From malloc, and not used where there is a heap.
    own: Vec<u8>,
    /// The world's shared heap, and what is of it.
    heap: Option<Comm>,
    block: Option<HeapBlock>,
    /// How much of it is used.
    len: usize,
}

impl Buffer {
    /// From the heap of a world, or from malloc.
    pub(super) fn new(heap: Option<Comm>) -> Buffer {
        Buffer { heap, ..Buffer::default() }
    }

    /// Makes it hold exactly `bytes`.
    ///
    /// # Errors
    /// When the heap has no room.
    pub(super) fn resize(&mut self, bytes: usize) -> Result<(), Error> {
        let Some(heap) = &self.heap else {
            self.own.resize(bytes, 0);
            return Ok(());
        };
        if self.block.as_ref().is_none_or(|block| block.len() < bytes) {
            self.block = Some(heap.alloc(bytes).map_err(Error::failed)?);
        }
        self.len = bytes;
        Ok(())
    }

    #[inline]
    pub(super) fn as_ptr(&self) -> *const u8 {
        self.as_bytes().as_ptr()
    }

    #[inline]
    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.as_bytes_mut().as_mut_ptr()
    }

    /// Writes every byte: content that depends on the seed and the place.
    pub(super) fn fill(&mut self, seed: u64) {
        let mut chunks = self.as_bytes_mut().chunks_exact_mut(8);
        let mut at = 0;
        for chunk in &mut chunks {
            chunk.copy_from_slice(&pattern(seed, at).to_le_bytes());
            at += 1;
        }
        let rest = pattern(seed, at).to_le_bytes();
        chunks.into_remainder().iter_mut().zip(rest).for_each(|(byte, right)| *byte = right);
    }

    /// Whether every byte is what `fill(seed)` writes.
    pub(super) fn is_filled(&self, seed: u64) -> bool {
        let chunks = self.as_bytes().chunks_exact(8);
        let rest = pattern(seed, chunks.len() as u64).to_le_bytes();
        let remainder = chunks.remainder().iter().zip(rest).all(|(byte, right)| *byte == right);
        remainder && chunks.enumerate().all(|(at, chunk)| *chunk == pattern(seed, at as u64).to_le_bytes())
    }

    /// Writes one byte in every 64-byte line: enough to take the buffer away from the other core's cache.
    #[inline]
    pub(super) fn touch(&mut self, seed: u8) {
        self.as_bytes_mut().iter_mut().step_by(64).for_each(|byte| *byte = seed);
    }

    /// Whether the first and the last line are what `touch(seed)` writes.
    #[inline]
    pub(super) fn is_touched_at_ends(&self, seed: u8) -> bool {
        let last = self.as_bytes().len().saturating_sub(1) / 64 * 64;
        self.as_bytes().first().is_none_or(|byte| *byte == seed)
            && self.as_bytes().get(last).is_none_or(|byte| *byte == seed)
    }

    /// Whether all lines are what `touch(seed)` writes.
    pub(super) fn is_touched(&self, seed: u8) -> bool {
        self.as_bytes().iter().step_by(64).all(|byte| *byte == seed)
    }

    #[inline]
    pub(super) fn as_bytes(&self) -> &[u8] {
        match &self.block {
            // SAFETY: the block is this buffer's alone, has at least so many bytes, and was zeros; a message that is received
            // into it is over when its bytes are looked at.
            Some(block) => unsafe { std::slice::from_raw_parts(block.as_ptr(), self.len) },
            None => &self.own,
        }
    }

    #[inline]
    pub(super) fn as_bytes_mut(&mut self) -> &mut [u8] {
        match &self.block {
            // SAFETY: as in `as_bytes`; `self` is borrowed exclusively.
            Some(block) => unsafe { std::slice::from_raw_parts_mut(block.as_ptr(), self.len) },
            None => &mut self.own,
        }
    }
}

fn pattern(seed: u64, at: u64) -> u64 {
    (seed << 32 | at).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_checked_to_the_last_byte() {
        for bytes in [0, 1, 7, 8, 9, 63, 64, 65, 1000] {
            let mut buffer = Buffer::default();
            buffer.resize(bytes).unwrap();
            buffer.fill(3);
            assert!(buffer.is_filled(3));
            for at in 0..bytes {
                buffer.own[at] ^= 1;
                assert!(!buffer.is_filled(3), "{at} of {bytes}");
                buffer.own[at] ^= 1;
            }
            buffer.touch(9);
            assert!(buffer.is_touched(9) && buffer.is_touched_at_ends(9));
            assert!(bytes == 0 || !buffer.is_touched_at_ends(8));
        }
    }
}
