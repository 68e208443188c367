//! Large messages by pages: their sender puts the pages of its buffer into a pipe, and their receiver reads them from there into its own.
//!
//! That is one copy, made by the kernel, for which neither needs permission to look into the other's memory. Each piece that lies in
//! the pipe is told of by a packet of the Bulk lane, in the same order, so that pieces that are copied into the lane and those in the pipe
//! mix. The pipe refers to the sender's pages: what the sender writes there before they are read is what is read.

/// Bytes of the payload of a packet that tells of pages. More than travel in a slot: such payloads are given back with each packet, and so wake a
/// sender that waits for room.
pub const PAYLOAD: usize = 24;

/// What became of an attempt to put pages into a pipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piped {
    /// So many bytes are in, at least one and no more than asked for. The next packet of the Bulk lane to that peer, with a payload of at most
    /// [`PAYLOAD`] bytes, finds room.
    Bytes(usize),
    /// The pipe or the lane is full: as [`SendOutcome::Full`](crate::SendOutcome::Full).
    Full,
    /// The system does not do it, for these pages or any more, or the peer does not read: it goes otherwise.
    Refused,
    /// As [`SendOutcome::Gone`](crate::SendOutcome::Gone).
    Gone,
}

/// The payload that tells of `bytes` in the pipe.
#[inline]
pub const fn pack(bytes: u64) -> [u8; PAYLOAD] {
    let mut payload = [0; PAYLOAD];
    let word = bytes.to_le_bytes();
    let mut i = 0;
    while i < word.len() {
        payload[i] = word[i];
        i += 1;
    }
    payload
}

/// How many bytes a payload tells of; `None`: none does so.
///
/// # Safety
/// `payload` is readable for `len` bytes.
#[inline]
pub unsafe fn unpack(payload: *const u8, len: usize) -> Option<u64> {
    let mut words = [0u64; PAYLOAD / size_of::<u64>()];
    if len != PAYLOAD {
        return None;
    }
    // SAFETY: the caller vouches for `PAYLOAD` bytes, which is the size of `words`.
    unsafe { core::ptr::copy_nonoverlapping(payload, words.as_mut_ptr().cast(), PAYLOAD) };
    let [bytes, rest @ ..] = words.map(u64::from_le);
    (bytes != 0 && rest == [0; 2]).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked_and_nothing_else() {
        let of = |payload: &[u8]| {
            // SAFETY: a slice is readable for its length.
            unsafe { unpack(payload.as_ptr(), payload.len()) }
        };
        for bytes in [1, 4096, 65536, u64::MAX] {
            assert_eq!(of(&pack(bytes)), Some(bytes));
        }
        assert_eq!((of(&pack(0)), of(&[1; 8]), of(&[1; PAYLOAD]), of(&[])), (None, None, None, None));
    }
}
