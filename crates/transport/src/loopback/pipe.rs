use super::ring::Ring;
use crate::Header;

/// Pages from one rank to another: where pieces of a buffer lie, until they are read there. As [`Ring`], one end puts and one reads.
#[derive(Debug)]
pub(super) struct Pipe {
    pieces: Ring,
    longest: usize,
}

impl Pipe {
    /// Of at least so many pieces of up to `longest` bytes.
    pub(super) fn new(pieces: u32, longest: usize) -> Pipe {
        Pipe { pieces: Ring::new(pieces, 0), longest: longest.max(1) }
    }

    /// Puts a piece in; how many bytes. `None`: it is full.
    ///
    /// # Safety
    /// The caller is the only one that puts; `from` is readable for `len` bytes until they are read.
    pub(super) unsafe fn put(&self, from: *const u8, len: usize) -> Option<usize> {
        let len = len.min(self.longest);
        let piece = Header { a: from as u64, b: len as u64, ..Header::default() };
        // SAFETY: the caller's promise; there is no payload.
        unsafe { self.pieces.push(&piece, core::ptr::null(), 0) }.then_some(len)
    }

    /// Reads bytes; `read` is how many were read before of the piece at the head. False: they are not there.
    ///
    /// # Safety
    /// The caller is the only one that reads; `to` is writable for `len` bytes.
    pub(super) unsafe fn read(&self, read: &mut usize, to: *mut u8, len: usize) -> bool {
        let mut done = 0;
        while done < len {
            // SAFETY: the caller's promise.
            let Some(piece) = (unsafe { self.pieces.peek() }) else { return false };
            let (from, bytes) = (piece.header.a as *const u8, piece.header.b as usize);
            let part = bytes.saturating_sub(*read).min(len.saturating_sub(done));
            // SAFETY: who put it in vouched for the piece, the caller for `to`.
            unsafe { core::ptr::copy_nonoverlapping(from.wrapping_add(*read), to.wrapping_add(done), part) };
            done = done.saturating_add(part);
            *read = read.saturating_add(part);
            if *read >= bytes {
                *read = 0;
                // SAFETY: the caller's promise.
                unsafe { self.pieces.pop() };
            }
        }
        true
    }
}
