//! Messages that arrived before their receive.
//!
//! Room is bounded: slots for messages (a payload of at most 64 bytes lies in the slot) and blocks of 512 bytes for
//! longer payloads. Only user threads add room, up to a limit. When there is none the message stays in its lane, and
//! everything behind it: the lane pushes back on its sender.
//!
//! Each stands in the bin of its source and tag, and in that of its communicator, in the order in which they came. The bins of patterns that leave one of source and tag open
//! are filled when the first such pattern is looked for, from those of the communicators, and kept from then on: who never asks so does not pay for it.

use tocsin_progress::{Id, Slots};
use tocsin_transport::short;

use crate::list::{Link, Linked, List, NONE};
use crate::offers::Offer;
use crate::pattern::{Bins, KINDS, Pattern};
use crate::{MutBuf, Status};

/// Payload bytes of a block; with its link 512.
const BLOCK: usize = 508;
/// Payload bytes in the message's own slot.
const INLINE: usize = 64;
/// Bins per kind at the start.
const BINS: usize = 128;
/// The kind of pattern that names source and tag, that which names none, and those that leave one of them open.
const NAMED: usize = 0;
const ANY: usize = KINDS - 1;
const OPEN: core::ops::Range<usize> = NAMED + 1..ANY;

#[derive(Debug)]
#[repr(C)]
struct Block {
    data: [u8; BLOCK],
    next: u32,
}

const _: () = assert!(size_of::<Block>() == 512);

impl Block {
    fn new() -> Block {
        Block { data: [0; BLOCK], next: NONE }
    }
}

/// Arrived whole, or announced by RTS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    /// Payload is here.
    Eager,
    /// Payload is here; the sender waits for an ACK.
    Synchronous,
    /// Payload is with the sender, who waits for a CTS.
    Announced,
}

/// Who sent what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Envelope {
    pub(crate) context: u32,
    pub(crate) source: u32,
    pub(crate) tag: i32,
    pub(crate) arrival: Arrival,
    /// Its sender counts it: see [`Transport::may_send_long`](tocsin_transport::Transport::may_send_long).
    pub(crate) long: bool,
    /// Bytes of the whole message.
    pub(crate) bytes: usize,
    /// The sender's request, as it names itself.
    pub(crate) remote: u64,
    /// Of an announced message: how else than through the Bulk lane it can travel.
    pub(crate) offer: Option<Offer>,
}

#[derive(Debug)]
pub(crate) struct Message {
    links: [Link; KINDS],
    pub(crate) envelope: Envelope,
    /// Taken out of matching by a probe.
    pub(crate) taken: bool,
    first: u32,
    inline: [u8; INLINE],
}

impl Message {
    fn new() -> Message {
        Message {
            links: [Link::UNLINKED; KINDS],
            envelope: Envelope {
                context: 0,
                source: 0,
                tag: 0,
                arrival: Arrival::Eager,
                long: false,
                bytes: 0,
                remote: 0,
                offer: None,
            },
            taken: false,
            first: NONE,
            inline: [0; INLINE],
        }
    }
}

impl Linked for Message {
    #[inline]
    fn link(&self, which: usize) -> Link {
        self.links.get(which).copied().unwrap_or(Link::UNLINKED)
    }

    #[inline]
    fn set_link(&mut self, which: usize, link: Link) {
        if let Some(slot) = self.links.get_mut(which) {
            *slot = link;
        }
    }
}

/// The unexpected messages of one class.
#[derive(Debug)]
pub(crate) struct Unexpected {
    messages: Slots<Message>,
    blocks: Slots<Block>,
    bins: Bins,
    /// Kinds of pattern whose bins are kept.
    kept: [bool; KINDS],
    /// Context, source and tag of the last message that was put in or taken out, and its bins.
    last: Option<((u32, u32, i32), [usize; 2])>,
    limit: usize,
}

pub(crate) fn blocks_for(bytes: usize) -> usize {
    if bytes <= INLINE { 0 } else { bytes.div_ceil(BLOCK) }
}

impl Unexpected {
    /// User threads only. None: memory was refused.
    pub(crate) fn new(messages: usize, blocks: usize, limit: usize) -> Option<Unexpected> {
        let mut new = Unexpected {
            messages: Slots::new(Message::new),
            blocks: Slots::new(Block::new),
            bins: Bins::new(BINS)?,
            kept: std::array::from_fn(|kind| !OPEN.contains(&kind)),
            last: None,
            limit,
        };
        new.messages.reserve(messages.max(1)).ok()?;
        new.blocks.reserve(blocks).ok()?;
        Some(new)
    }

    /// Keeps a message. False: no room. Handler-safe; bounded by `len`.
    ///
    /// # Safety
    /// `payload` is readable for `len` bytes.
    pub(crate) unsafe fn keep(&mut self, envelope: Envelope, payload: *const u8, len: usize) -> bool {
        let needed = blocks_for(len);
        if self.blocks.capacity().wrapping_sub(self.blocks.len()) < needed {
            return false;
        }
        let Some(id) = self.messages.alloc() else { return false };
        let Some(message) = self.messages.get_mut(id) else { return false };
        message.envelope = envelope;
        message.taken = false;
        message.first = NONE;
        if needed == 0 {
            // SAFETY: at most INLINE bytes, because no block is needed; the caller vouches for the source.
            unsafe { core::ptr::copy_nonoverlapping(payload, message.inline.as_mut_ptr(), len.min(INLINE)) };
        } else {
            // From the last block to the first, so that each is linked to one that exists.
            let mut next = NONE;
            for number in (0..needed).rev() {
                let Some(block) = self.blocks.alloc() else { break };
                let Some(memory) = self.blocks.get_mut(block) else { break };
                let start = number.wrapping_mul(BLOCK);
                let run = len.saturating_sub(start).min(BLOCK);
                // SAFETY: start + run <= len, and run fits the block.
                unsafe {
                    core::ptr::copy_nonoverlapping(payload.add(start), memory.data.as_mut_ptr(), run);
                }
                memory.next = next;
                next = block.index;
            }
            message.first = next;
        }
        self.list(id, envelope.context, envelope.source, envelope.tag);
        true
    }

    /// As [`keep`](Self::keep), of an eager message that its sender does not count.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub(crate) unsafe fn keep_plain(
        &mut self,
        context: u32,
        source: u32,
        tag: i32,
        payload: *const u8,
        len: usize,
    ) -> bool {
        let arrival = Arrival::Eager;
        let envelope =
            Envelope { context, source, tag, arrival, long: false, bytes: len, remote: 0, offer: None };
        if len > INLINE {
            // SAFETY: the caller's promise.
            return unsafe { self.keep(envelope, payload, len) };
        }
        let Some(id) = self.messages.alloc() else { return false };
        let Some(message) = self.messages.get_mut(id) else { return false };
        message.envelope = envelope;
        message.taken = false;
        message.first = NONE;
        // SAFETY: there is room for so much; the caller vouches for the source.
        unsafe { short::copy(payload, message.inline.as_mut_ptr(), len) };
        self.list(id, context, source, tag);
        true
    }

    /// Puts a message into the lists that it belongs to.
    #[inline]
    fn list(&mut self, id: Id, context: u32, source: u32, tag: i32) {
        let [named, any] = self.bins_of(context, source, tag);
        if let Some(bin) = self.bins.list_mut(named) {
            bin.push(&mut self.messages, NAMED, id);
        }
        if let Some(bin) = self.bins.list_mut(any) {
            bin.push(&mut self.messages, ANY, id);
        }
        for kind in OPEN {
            if self.kept.get(kind) == Some(&true)
                && let Some(bin) = self.bins.bin(&Pattern::of(kind, context, source, tag))
            {
                bin.push(&mut self.messages, kind, id);
            }
        }
    }

    /// The bins whose kinds are always kept. Mostly all messages have the same.
    #[inline]
    fn bins_of(&mut self, context: u32, source: u32, tag: i32) -> [usize; 2] {
        let of = (context, source, tag);
        if let Some((last, bins)) = self.last
            && last == of
        {
            return bins;
        }
        let bins = [NAMED, ANY].map(|kind| self.bins.index(&Pattern::of(kind, context, source, tag)));
        self.last = Some((of, bins));
        bins
    }

    /// Fills the bins of a kind, and keeps them from now on.
    #[cold]
    fn keep_kind(&mut self, kind: usize) {
        let Some(kept) = self.kept.get_mut(kind) else { return };
        *kept = true;
        for number in 0..self.bins.per_kind() {
            let list = self.bins.lists().get(self.bins.per_kind().wrapping_mul(ANY).wrapping_add(number));
            let mut at = list.and_then(|list| list.first(&self.messages));
            while let Some(id) = at {
                at = List::next(&self.messages, ANY, id);
                let Some(e) = self.messages.get(id).map(|m| m.envelope) else { break };
                if let Some(bin) = self.bins.bin(&Pattern::of(kind, e.context, e.source, e.tag)) {
                    bin.push(&mut self.messages, kind, id);
                }
            }
        }
    }

    /// The earliest message that a pattern matches. Handler-safe; bounded by the messages of one bin, and by all of them for the first pattern of a kind.
    #[inline]
    pub(crate) fn find(&mut self, pattern: &Pattern) -> Option<Id> {
        if self.messages.is_empty() { None } else { self.find_kept(pattern) }
    }

    fn find_kept(&mut self, pattern: &Pattern) -> Option<Id> {
        let kind = pattern.kind();
        if self.kept.get(kind) == Some(&false) {
            self.keep_kind(kind);
        }
        self.find_in_bin(pattern)
    }

    /// Whether [`find`](Self::find) may find something: what it does, or that it has to look.
    pub(crate) fn may_have(&self, pattern: &Pattern) -> bool {
        let unknown = || self.kept.get(pattern.kind()) == Some(&false);
        !self.messages.is_empty() && (unknown() || self.find_in_bin(pattern).is_some())
    }

    fn find_in_bin(&self, pattern: &Pattern) -> Option<Id> {
        let kind = pattern.kind();
        let mut at = self.bins.look(pattern).and_then(|bin| bin.first(&self.messages));
        while let Some(id) = at {
            let envelope = self.messages.get(id)?.envelope;
            if Pattern::of(kind, envelope.context, envelope.source, envelope.tag) == *pattern {
                return Some(id);
            }
            at = List::next(&self.messages, kind, id);
        }
        None
    }

    pub(crate) fn get(&self, id: Id) -> Option<&Message> {
        self.messages.get(id)
    }

    pub(crate) fn status(&self, id: Id) -> Option<Status> {
        let envelope = self.messages.get(id)?.envelope;
        Some(Status { source: envelope.source, tag: envelope.tag, bytes: envelope.bytes })
    }

    /// Takes a message out of matching; it stays. Handler-safe, O(1).
    pub(crate) fn take(&mut self, id: Id) {
        let Some(message) = self.messages.get_mut(id) else { return };
        if message.taken {
            return;
        }
        message.taken = true;
        let Envelope { context, source, tag, .. } = message.envelope;
        let [named, any] = self.bins_of(context, source, tag);
        if let Some(bin) = self.bins.list_mut(named) {
            bin.remove(&mut self.messages, NAMED, id);
        }
        if let Some(bin) = self.bins.list_mut(any) {
            bin.remove(&mut self.messages, ANY, id);
        }
        for kind in OPEN {
            if self.kept.get(kind) == Some(&true)
                && let Some(bin) = self.bins.bin(&Pattern::of(kind, context, source, tag))
            {
                bin.remove(&mut self.messages, kind, id);
            }
        }
    }

    /// Gives a message to a buffer of `room` bytes, and its own room back, if it is an eager one that its sender does not count, and no longer than that. Its tag and length.
    /// Handler-safe; bounded by the message.
    ///
    /// # Safety
    /// `to` is writable for `room` bytes.
    #[inline]
    pub(crate) unsafe fn hand_over(&mut self, id: Id, to: *mut u8, room: usize) -> Option<(i32, usize)> {
        let message = self.messages.get(id)?;
        let Envelope { tag, bytes, arrival, long, .. } = message.envelope;
        if arrival != Arrival::Eager || long || bytes > room {
            return None;
        }
        if message.first == NONE {
            // SAFETY: without blocks it has at most so many bytes; the caller vouches for the buffer.
            unsafe { short::copy(message.inline.as_ptr(), to, bytes.min(INLINE)) };
            self.take(id);
            self.messages.free(id);
        } else {
            // SAFETY: the caller vouches for the buffer.
            unsafe { self.copy_out(id, &MutBuf::contiguous(to, room), room) };
            self.free(id);
        }
        Some((tag, bytes))
    }

    /// Copies the payload, cut at `room` bytes, to a buffer. Handler-safe; bounded by the message.
    ///
    /// # Safety
    /// The buffer is writable as its layout says.
    pub(crate) unsafe fn copy_out(&self, id: Id, buf: &MutBuf, room: usize) {
        let Some(message) = self.messages.get(id) else { return };
        let len = message.envelope.bytes.min(room);
        if message.first == NONE {
            // SAFETY: a message without blocks has at most INLINE bytes; the caller vouches for the buffer.
            unsafe { buf.unpack(0, len.min(INLINE), message.inline.as_ptr()) };
            return;
        }
        let (mut at, mut offset) = (message.first, 0usize);
        while offset < len {
            let Some(block) = self.blocks.by_index(at).and_then(|b| self.blocks.get(b)) else { return };
            let run = len.wrapping_sub(offset).min(BLOCK);
            // SAFETY: run fits the block; the caller vouches for the buffer.
            unsafe { buf.unpack(offset, run, block.data.as_ptr()) };
            offset = offset.wrapping_add(run);
            at = block.next;
        }
    }

    /// Gives a message's room back. Handler-safe; bounded by the message.
    pub(crate) fn free(&mut self, id: Id) {
        self.take(id);
        let Some(message) = self.messages.get(id) else { return };
        let mut at = message.first;
        while let Some(block) = self.blocks.by_index(at) {
            at = self.blocks.get(block).map_or(NONE, |b| b.next);
            self.blocks.free(block);
        }
        self.messages.free(id);
    }

    /// Slots of messages, to walk over.
    pub(crate) fn capacity(&self) -> u32 {
        self.messages.capacity() as u32
    }

    pub(crate) fn at(&self, index: u32) -> Option<Id> {
        self.messages.by_index(index)
    }

    /// Whether there is none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Messages kept.
    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Bytes that messages and blocks take.
    fn bytes(&self) -> usize {
        self.messages
            .capacity()
            .saturating_mul(size_of::<Message>())
            .saturating_add(self.blocks.capacity().saturating_mul(size_of::<Block>()))
    }

    /// Adds room for at least one message of `longest` bytes, and doubles what is there, as far as the limit allows.
    /// False: the limit is reached, or memory was refused. User threads only: it allocates.
    pub(crate) fn grow(&mut self, longest: usize) -> bool {
        let need = blocks_for(longest);
        let free_messages = self.messages.capacity().saturating_sub(self.messages.len());
        let free_blocks = self.blocks.capacity().saturating_sub(self.blocks.len());
        let mut grown = free_messages > 0 && free_blocks >= need;
        if free_messages == 0 {
            grown |= self.add(self.messages.capacity().max(128), size_of::<Message>(), |s, n| {
                s.messages.reserve(n).is_ok()
            });
        }
        if free_blocks < need {
            grown |= self.add(self.blocks.capacity().max(need), size_of::<Block>(), |s, n| {
                s.blocks.reserve(n).is_ok()
            });
        }
        if grown {
            self.make_room();
        }
        grown
    }

    fn add(&mut self, count: usize, size: usize, reserve: impl Fn(&mut Self, usize) -> bool) -> bool {
        // Slabs grow by chunks of 128: no less is asked for, so that the limit is kept.
        let allowed = self.limit.saturating_sub(self.bytes()) / size / 128 * 128;
        let count = count.next_multiple_of(128).min(allowed);
        count > 0 && reserve(self, count)
    }

    fn make_room(&mut self) {
        if self.messages.capacity() < self.bins.per_kind().saturating_mul(4) {
            return;
        }
        let Some(mut bins) = Bins::new(self.messages.capacity()) else { return };
        let per_kind = self.bins.per_kind().max(1);
        for (number, list) in self.bins.lists().iter().enumerate() {
            let kind = number / per_kind;
            let mut at = list.first(&self.messages);
            while let Some(id) = at {
                at = List::next(&self.messages, kind, id);
                let Some(e) = self.messages.get(id).map(|m| m.envelope) else { break };
                if let Some(bin) = bins.bin(&Pattern::of(kind, e.context, e.source, e.tag)) {
                    bin.push(&mut self.messages, kind, id);
                }
            }
        }
        self.bins = bins;
        self.last = None;
    }
}
