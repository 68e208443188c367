//! How a packet is packed into a 64-byte slot.
//!
//! ```text
//! word 0  stamp: low 32 bits position + 1 | high 32 bits meta = kind, flags, inline length (or 0xff to 0xfc), 0
//! word 1  context | tag << 32
//! word 2  payload length | data position << 32
//! word 3  a
//! word 4  b
//! word 5  c
//! word 6  inline payload; or how many bytes of a payload that comes are there
//! word 7  inline payload
//! ```
//! A payload of at most 16 bytes travels in words 6 and 7; a longer one in the lane's data ring, at the
//! free-running data position, or in the sender's pool, at an offset. Of a payload that *comes*, the slot is filled first, with 0 in word 6, and the bytes follow:
//! word 6 grows to the payload's length.

use crate::{Header, kind, short};

/// Longest payload that travels inside the slot, in bytes.
pub const INLINE: usize = 16;
/// Where in the slot it lies, in bytes.
pub const INLINE_AT: usize = 48;
/// Inline length that says "in the data ring".
const OUTSIDE: u8 = 0xff;
/// Inline length that says "comes into the data ring".
const COMING: u8 = 0xfe;
/// Inline length that says "in the sender's pool".
const POOLED: u8 = 0xfd;
/// Inline length that says "comes into the sender's pool".
const POOLED_COMING: u8 = 0xfc;

/// Bytes of a payload that come at a time, or a multiple of them.
pub const STRIDE: usize = 2 * 1024;

/// Words 1 to 7 of a slot.
pub type Content = [u64; 7];

/// Where a received payload is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In words 6 and 7 of the slot.
    Inline,
    /// In the data ring, at this free-running position.
    Data(u32),
    /// There, too, as far as word 6 says.
    Coming(u32),
    /// In the sender's pool, at this offset; all of it, or as far as word 6 says.
    Pooled(u32),
}

/// Packs a header and an inline payload (`len` at most [`INLINE`]; more is cut).
#[inline]
pub fn pack_inline(header: &Header, words: [u64; 2], len: usize) -> (u32, Content) {
    let len = if len > INLINE { INLINE } else { len };
    (meta(header, len as u8), content(header, len as u32, 0, words))
}

/// Packs a header whose payload of `len` bytes is at `position` of the data ring.
#[inline]
pub fn pack_data(header: &Header, len: u32, position: u32) -> (u32, Content) {
    (meta(header, OUTSIDE), content(header, len, position, [0; 2]))
}

/// Packs a header whose payload of `len` bytes will come to `position` of the data ring. None of it is there.
#[inline]
pub fn pack_coming(header: &Header, len: u32, position: u32) -> (u32, Content) {
    (meta(header, COMING), content(header, len, position, [0; 2]))
}

/// Packs a header whose payload of `len` bytes is at `offset` of the sender's pool, or comes there.
#[inline]
pub fn pack_pooled(header: &Header, len: u32, offset: u32, comes: bool) -> (u32, Content) {
    (meta(header, if comes { POOLED_COMING } else { POOLED }), content(header, len, offset, [0; 2]))
}

/// Whether a slot says that its payload comes.
#[inline]
pub fn comes(meta: u32) -> bool {
    let [_, _, inline, _] = meta.to_le_bytes();
    inline == COMING || inline == POOLED_COMING
}

/// The payload's length, if a slot says that it holds a plain message with its payload.
#[inline]
pub fn plain_inline(meta: u32) -> Option<usize> {
    let [kind, flags, inline, zero] = meta.to_le_bytes();
    let is = kind == kind::EAGER && flags == 0 && zero == 0 && usize::from(inline) <= INLINE;
    is.then_some(usize::from(inline))
}

/// Whether a slot says that it holds a plain message, all of whose payload is in the data ring.
#[inline]
pub fn is_plain_data(meta: u32) -> bool {
    meta == u32::from_le_bytes([kind::EAGER, 0, OUTSIDE, 0])
}

#[inline]
fn meta(header: &Header, inline: u8) -> u32 {
    u32::from_le_bytes([header.kind, header.flags, inline, 0])
}

#[inline]
fn content(header: &Header, len: u32, position: u32, words: [u64; 2]) -> Content {
    [
        short::envelope(header.context, header.tag),
        u64::from(len) | (u64::from(position) << 32),
        header.a,
        header.b,
        header.c,
        words[0],
        words[1],
    ]
}

/// Unpacks a slot: header, payload length, place. `None` when the parts contradict each other, which no
/// honest sender writes. The length of a payload outside the slot and its position are still to be checked
/// against the lane.
#[inline]
pub fn unpack(meta: u32, content: &Content) -> Option<(Header, u32, Place)> {
    let [kind, flags, inline, zero] = meta.to_le_bytes();
    let [addressing, length, a, b, c, _, _] = *content;
    let len = length as u32;
    let place = if usize::from(inline) <= INLINE {
        if u32::from(inline) != len {
            return None;
        }
        Place::Inline
    } else if inline == OUTSIDE {
        Place::Data((length >> 32) as u32)
    } else if inline == COMING {
        Place::Coming((length >> 32) as u32)
    } else if inline == POOLED || inline == POOLED_COMING {
        Place::Pooled((length >> 32) as u32)
    } else {
        return None;
    };
    if zero != 0 || kind == 0 {
        return None;
    }
    let header =
        Header { kind, flags, context: addressing as u32, tag: (addressing >> 32) as u32 as i32, a, b, c };
    Some((header, len, place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header { kind: 3, flags: 0x81, context: u32::MAX, tag: i32::MIN, a: 1, b: u64::MAX, c: 1 << 63 }
    }

    #[test]
    fn a_packed_header_comes_back() {
        let (meta, content) = pack_inline(&header(), [7, 8], 16);
        assert_eq!(unpack(meta, &content), Some((header(), 16, Place::Inline)));
        assert_eq!(content[5..], [7, 8]);
        let (meta, content) = pack_data(&header(), 70_000, u32::MAX);
        assert_eq!(unpack(meta, &content), Some((header(), 70_000, Place::Data(u32::MAX))));
        assert!(!comes(meta));
        let (meta, content) = pack_coming(&header(), 70_000, 5);
        assert_eq!(unpack(meta, &content), Some((header(), 70_000, Place::Coming(5))));
        assert!(comes(meta) && content[5] == 0);
        for coming in [false, true] {
            let (meta, content) = pack_pooled(&header(), 70_000, 64, coming);
            assert_eq!(unpack(meta, &content), Some((header(), 70_000, Place::Pooled(64))));
            assert!(comes(meta) == coming && content[5] == 0);
        }
    }

    #[test]
    fn plain_messages_in_their_slot_are_told_from_all_others() {
        let plain = short::plain(7, -1, 16);
        assert_eq!(plain_inline(pack_inline(&plain, [0; 2], 16).0), Some(16));
        assert_eq!(plain_inline(pack_inline(&plain, [0; 2], 0).0), Some(0));
        let others = [Header { kind: kind::RTS, ..plain }, Header { flags: 1, ..plain }];
        assert!(others.iter().all(|other| plain_inline(pack_inline(other, [0; 2], 8).0).is_none()));
        for outside in
            [pack_data(&plain, 17, 0), pack_coming(&plain, 17, 0), pack_pooled(&plain, 17, 0, false)]
        {
            assert_eq!(plain_inline(outside.0), None);
            assert_eq!(is_plain_data(outside.0), outside == pack_data(&plain, 17, 0));
        }
        assert!(others.iter().all(|other| !is_plain_data(pack_data(other, 17, 0).0)));
        assert!(!is_plain_data(pack_inline(&plain, [0; 2], 16).0));
        let [word, ..] = pack_inline(&plain, [0; 2], 16).1;
        assert!(short::Wanted::new(7, Some(-1)).is(word) && short::Wanted::new(7, None).is(word));
        assert!(!short::Wanted::new(7, Some(0)).is(word) && !short::Wanted::new(6, None).is(word));
    }

    #[test]
    fn contradictions_are_refused() {
        let (meta, mut content) = pack_inline(&header(), [0; 2], 4);
        content[1] = 5;
        assert_eq!(unpack(meta, &content), None, "inline length differs from the length");
        let (meta, content) = pack_inline(&header(), [0; 2], 4);
        assert_eq!(unpack(meta | 1 << 24, &content), None, "unused meta bits");
        assert_eq!(unpack(meta & !0xff, &content), None, "kind 0");
        assert_eq!(unpack(meta | 0x40 << 16, &content), None, "inline length above 16");
    }
}
