//! Short plain messages, and copies that are mostly short.

use crate::Header;

/// Longest message that [`put_short`](crate::Transport::put_short) and [`take_short`](crate::Transport::take_short) move.
pub const LONGEST: usize = 1024;

/// The envelope of a plain message that a thread waits for, as it stands in a packet of one cache line.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    envelope: u64,
    mask: u64,
}

impl Wanted {
    /// Of a message in `context`, with `tag` or any.
    #[inline]
    pub const fn new(context: u32, tag: Option<i32>) -> Wanted {
        match tag {
            Some(tag) => Wanted { envelope: envelope(context, tag), mask: u64::MAX },
            None => Wanted { envelope: envelope(context, 0), mask: u32::MAX as u64 },
        }
    }

    /// Whether a packet's context and tag are those.
    #[inline]
    pub const fn is(self, envelope: u64) -> bool {
        (envelope ^ self.envelope) & self.mask == 0
    }
}

/// Context and tag in one word.
#[inline]
pub(crate) const fn envelope(context: u32, tag: i32) -> u64 {
    context as u64 | (tag as u32 as u64) << 32
}

/// What [`take_run`](crate::Transport::take_run) gives as envelope.
#[inline]
pub const fn context_and_tag(envelope: u64) -> (u32, i32) {
    (envelope as u32, (envelope >> 32) as u32 as i32)
}

/// The header of a plain message of `len` bytes.
#[inline]
pub const fn plain(context: u32, tag: i32, len: usize) -> Header {
    Header { kind: crate::kind::EAGER, flags: 0, context, tag, a: len as u64, b: 0, c: 0 }
}

/// Answer of [`put_short`](crate::Transport::put_short).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Put {
    /// Nothing was done: it takes a [`try_send`](crate::Transport::try_send), which says more.
    Not,
    /// It is in the lane, and its receiver need not be told.
    Quiet,
    /// It is in the lane, and [`flush`](crate::Transport::flush) has somebody to tell.
    Flush,
}

/// Answer of [`take_short`](crate::Transport::take_short).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Took {
    /// Nothing has come.
    Nothing,
    /// What has come stays where it is: it takes a [`peek`](crate::Transport::peek).
    Other,
    /// The message is in the buffer.
    Message {
        /// Its tag.
        tag: i32,
        /// Its length in bytes.
        len: usize,
        /// [`flush`](crate::Transport::flush) has somebody to tell that there is room again.
        flush: bool,
    },
}

/// Answer of [`take_run`](crate::Transport::take_run).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Run {
    /// How many messages were taken.
    pub taken: u32,
    /// They were all that there was. False: not looked at, or something that stays.
    pub emptied: bool,
}

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

/// [`copy`] of at most [`INLINE`](crate::wire::INLINE) bytes; of more, the first so many. Most of those are a number of eight bytes or two, so that these
/// come first.
///
/// # Safety
/// As [`copy`].
#[inline(always)]
pub unsafe fn copy_inline(from: *const u8, to: *mut u8, len: usize) {
    let len = len.min(crate::wire::INLINE);
    // SAFETY: as in `copy`; the caller's promise.
    unsafe {
        if len >= 8 {
            pair::<u64>(from, to, len);
        } else if len >= 4 {
            pair::<u32>(from, to, len);
        } else if len > 0 {
            copy_few(from, to, len);
        }
    }
}

/// # Safety
/// As [`copy`].
#[cold]
unsafe fn copy_few(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { copy(from, to, len) };
}

/// The first and the last bytes of `len`, as two values of `N`.
///
/// # Safety
/// As [`copy`]; `len` is at least the size of `N`, and at most twice that.
#[inline(always)]
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
            let (mut to, few) = ([0u8; 64], len.min(crate::wire::INLINE));
            // SAFETY: as above.
            unsafe { copy_inline(from.as_ptr().add(3), to.as_mut_ptr().add(5), len) };
            assert_eq!(to[5..5 + few], from[3..3 + few]);
            assert!(to[..5].iter().chain(&to[5 + few..]).all(|byte| *byte == 0), "{len}");
        }
    }
}
