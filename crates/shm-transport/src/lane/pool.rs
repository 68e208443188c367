//! A rank's pool: where its long payloads lie, whoever they are for.
//!
//! The rings of a pair are small, because there are many, and so their lines are still in the consumer's cache when the producer
//! comes round to them: each store has to take the line away from there first. The pool is as large as the second-level caches of
//! both cores together, so that they have dropped what the producer overwrites, and there is one per rank.
//!
//! It is a ring of pieces. Each belongs to a packet in some lane, and is free when that lane's consumer has taken it; the oldest ones are
//! looked at when there is no room. One that its consumer keeps is passed by, where it is for somebody else than what needs room: it lies where it
//! lies, and is the oldest again when the ring has come round. And where there are several consumers none has more than [half of the pool](SendPool::most): who takes nothing
//! slows down nobody else. What finds no room goes through the lane's own ring.
//!
//! The pieces of a message as long as the pool lie in its first half: such a message overwrites its own pieces in any case, and the fewer pages and lines they
//! take, the more of those that it is sent from and received into stay in the caches.
//!
//! A payload may be copied ahead of its packet, while its sender waits for leave to send it: into the room that comes next, as long as nobody else asks for
//! room.

use super::{LINE, piece};

/// Payloads of so many bytes or more lie in the pool.
pub(crate) const POOLED: usize = if cfg!(loom) { 96 } else { 1024 };
/// Payloads of so many bytes or more stand in their lines as their senders' do; for shorter ones whole lines are quicker.
const SKEWED: usize = if cfg!(test) { 1000 } else { 32 * 1024 };
/// Pieces lent at once.
const MOST: usize = if cfg!(loom) { 4 } else { 2048 };

/// Longest payload in a pool of so many bytes: wherever the ring's tail is, so much fits without its end between.
pub(super) const fn longest(bytes: u32) -> u32 {
    bytes / 2
}

/// Longest payload of a message that is copied out as it comes, whatever a class carries: with the buffers it comes from and goes to, about as much as
/// the second-level caches of both cores hold, and a part of a pool that leaves others room.
const WHOLE: u32 = 512 * 1024;

/// The same, in pools of so many bytes.
pub(crate) const fn longest_whole(pool: u32) -> u32 {
    if pool / 4 < WHOLE { pool / 4 } else { WHOLE }
}

/// Pieces passed by in search of room for one payload.
const PASSED: u32 = 32;

/// A piece that is about to be lent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// In the pool.
    pub(super) offset: u32,
    pub(super) at: *mut u8,
    /// Where it begins and where the next one may, free-running.
    pub(super) start: u32,
    pub(super) end: u32,
    /// It is no part of the pool, but these cells of a pair.
    pub(crate) cells: u64,
}

impl Piece {
    /// How far from a line's beginning a payload had better lie.
    pub(crate) fn skew(payload: *const u8, len: usize) -> usize {
        if len < SKEWED { 0 } else { payload as usize % LINE }
    }
}

/// A piece that is lent: to which peer's lane, and up to which position of it.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Lent {
    pub peer: u32,
    pub class: u8,
    pub position: u32,
    start: u32,
    end: u32,
}

/// The producer's side.
#[derive(Debug)]
pub(crate) struct SendPool {
    base: *mut u8,
    /// A power of two; 0: there is none.
    bytes: u32,
    /// Where the oldest piece begins, or before that where nothing is lent; where the next one may. Free-running.
    head: u32,
    tail: u32,
    /// A ring of as many as can be.
    lent: Box<[Lent]>,
    first: usize,
    count: usize,
    /// The room that was given last holds a payload whose packet is yet to come, and how long that is.
    ahead: Option<(Piece, usize)>,
}

impl SendPool {
    /// None.
    pub(crate) fn none() -> SendPool {
        let (base, lent) = (std::ptr::null_mut(), Box::default());
        SendPool { base, bytes: 0, head: 0, tail: 0, lent, first: 0, count: 0, ahead: None }
    }

    /// A pool of which nothing is lent. `None` if there is no memory for its records. User threads only.
    ///
    /// # Safety
    /// `base` is mapped and allocated for `bytes`, a power of two, as long as the pool lives, and aligned to 64; nobody else writes there.
    pub(crate) unsafe fn new(base: *mut u8, bytes: u32) -> Option<SendPool> {
        let mut lent = Vec::new();
        lent.try_reserve_exact(MOST).ok()?;
        lent.resize(MOST, Lent::default());
        Some(SendPool { base, bytes, lent: lent.into_boxed_slice(), ..SendPool::none() })
    }

    /// Most bytes that one peer is to have at a time where there are others, who need some.
    #[inline]
    pub(crate) fn most(&self) -> u32 {
        self.bytes / 2
    }

    /// Room for a payload, to be [lent](Self::lend) once it is in a lane. A long one stands as `payload` does in its cache lines: what is
    /// copied from one place within lines to another takes half as long again, and several times as long where caches overflow; and messages
    /// mostly go from one buffer of an allocator's to another, which stand alike. `of`: how long the message is of which it is a piece. `peer`: whom it
    /// is for. `is_free` tells of a piece that is lent whether it is back.
    /// Handler-safe; wait-free: asks for each piece that was lent at most once, but for [`PASSED`] of those that are kept.
    pub(crate) fn room(
        &mut self,
        payload: *const u8,
        len: usize,
        of: u64,
        peer: u32,
        is_free: impl FnMut(&Lent) -> bool,
    ) -> Option<Piece> {
        self.ahead = None;
        let skew = Piece::skew(payload, len);
        let len = u32::try_from(len.checked_add(skew)?).ok().filter(|len| *len <= longest(self.bytes))?;
        let (mut start, mut end) = self.place(len, of);
        if !self.fits(end) {
            self.take_back(len, of, peer, is_free);
            if self.count == 0 {
                // Nothing is lent: it may begin anywhere.
                self.head = self.tail;
            }
            (start, end) = self.place(len, of);
            if !self.fits(end) {
                return None;
            }
        }
        let offset = (start & self.bytes.wrapping_sub(1)).wrapping_add(skew as u32);
        Some(Piece { offset, at: self.base.wrapping_add(offset as usize), start, end, cells: 0 })
    }

    /// The piece that [`room`](Self::room) gave last is a packet's now.
    pub(crate) fn lend(&mut self, piece: &Piece, peer: u32, class: u8, position: u32) {
        let at = self.index(self.count);
        if let Some(entry) = self.lent.get_mut(at) {
            *entry = Lent { peer, class, position, start: piece.start, end: piece.end };
            self.count = self.count.wrapping_add(1);
            self.tail = piece.end;
        }
    }

    /// Where a payload of a message may begin, and the next one, free-running.
    fn place(&self, len: u32, of: u64) -> (u32, u32) {
        let (start, end) = piece(self.tail, len, self.bytes);
        let offset = start & self.bytes.wrapping_sub(1);
        let in_half = offset.wrapping_add(end.wrapping_sub(start)) <= self.bytes / 2;
        // In a small pool a piece is so long that hardly another fits into the half.
        if of < u64::from(self.bytes) || len > self.bytes / 8 || in_half {
            return (start, end);
        }
        // Back to the beginning.
        let start = start.wrapping_add(self.bytes.wrapping_sub(offset));
        piece(start, len, self.bytes)
    }

    /// Room is asked for elsewhere: what was copied ahead may be overwritten.
    pub(crate) fn forget_ahead(&mut self) {
        self.ahead = None;
    }

    /// The piece that was given last holds a payload, until it is asked for room again.
    pub(crate) fn keep_ahead(&mut self, piece: Piece, len: usize) {
        self.ahead = Some((piece, len));
    }

    /// The piece that holds a payload, if nobody has asked for room since and it is as long.
    pub(crate) fn take_ahead(&mut self, len: usize) -> Option<Piece> {
        self.ahead.take().filter(|(_, kept)| *kept == len).map(|(piece, _)| piece)
    }

    fn fits(&self, end: u32) -> bool {
        self.count < self.lent.len() && end.wrapping_sub(self.head) <= self.bytes
    }

    /// Takes back the oldest pieces: enough, and then a quarter of the pool, so that their consumers' words are looked at rarely. Those
    /// of others that are kept are passed by until there is enough.
    fn take_back(&mut self, len: u32, of: u64, peer: u32, mut is_free: impl FnMut(&Lent) -> bool) {
        let (before, mut passed) = (self.head, 0);
        while self.count > 0 {
            let fits = self.fits(self.place(len, of).1);
            let enough = fits && self.head.wrapping_sub(before) >= self.bytes / 4;
            let Some(oldest) = self.lent.get(self.first).copied().filter(|_| !enough) else { return };
            if is_free(&oldest) {
                self.first = self.index(1);
                self.count = self.count.wrapping_sub(1);
                let next = self.lent.get(self.first).filter(|_| self.count > 0);
                self.head = next.map_or(oldest.end, |next| next.start);
            } else if fits || oldest.peer == peer || passed == PASSED {
                return;
            } else {
                passed = passed.wrapping_add(1);
                self.pass_by(oldest);
            }
        }
    }

    /// The oldest piece stays where it is: it is the newest, on the ring's next round, and room begins behind it.
    fn pass_by(&mut self, oldest: Lent) {
        self.tail = oldest.end.wrapping_add(self.bytes);
        self.first = self.index(1);
        let last = self.index(self.count.wrapping_sub(1));
        if let Some(entry) = self.lent.get_mut(last) {
            *entry = Lent { start: oldest.start.wrapping_add(self.bytes), end: self.tail, ..oldest };
        }
        self.head = self.lent.get(self.first).map_or(self.tail, |next| next.start);
    }

    /// Where the record so many behind the oldest is.
    fn index(&self, behind: usize) -> usize {
        self.first.wrapping_add(behind).checked_rem(self.lent.len()).unwrap_or(0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const BYTES: u32 = 4096;

    /// A payload that stands so far from the beginning of a line; nobody reads it.
    fn payload(skew: u32) -> *const u8 {
        std::ptr::without_provenance(4096 + skew as usize % 64)
    }

    /// A pool in private memory, near the wrap of its positions.
    #[allow(clippy::expect_used)] // clippy exempts test functions only
    fn pool(memory: &mut [u8]) -> SendPool {
        assert_eq!(memory.len(), BYTES as usize);
        // SAFETY: the memory outlives the pool in each test, and nothing is written there.
        let mut pool = unsafe { SendPool::new(memory.as_mut_ptr(), BYTES) }.expect("memory for its records");
        let start = 0u32.wrapping_sub(BYTES);
        (pool.head, pool.tail) = (start, start);
        pool
    }

    #[test]
    fn pieces_do_not_overlap_and_come_back_in_order() {
        let mut memory = vec![0; BYTES as usize];
        let base = memory.as_ptr() as usize;
        let mut pool = pool(&mut memory);
        let mut lent: Vec<(u32, usize, usize)> = Vec::new();
        let (mut refused, mut taken) = (0, 0);
        for n in 0..10_000u32 {
            let len = 100 + (n as usize * 7919) % 1900;
            match pool.room(payload(n), len, 0, 3, |piece| piece.position < taken) {
                Some(piece) => {
                    lent.retain(|(position, ..)| *position >= taken);
                    let (from, to) = (piece.at as usize - base, piece.at as usize - base + len);
                    assert!(to <= BYTES as usize && from == piece.offset as usize);
                    let skew = if len < SKEWED { 0 } else { n as usize % 64 };
                    assert_eq!(from % 64, skew, "as the payload stands in its lines");
                    assert!(lent.iter().all(|(_, a, b)| to <= *a || *b <= from), "{from}..{to} in {lent:?}");
                    pool.lend(&piece, 3, 1, n);
                    lent.push((n, from, to));
                }
                None => {
                    refused += 1;
                    taken = n - lent.len() as u32 / 2;
                }
            }
        }
        assert!(refused > 100, "{refused}");
    }

    #[test]
    fn the_longest_has_room_wherever_the_tail_is() {
        let mut memory = vec![0; BYTES as usize];
        let mut pool = pool(&mut memory);
        for n in 0..200 {
            let long = pool.room(payload(0), longest(BYTES) as usize, 0, 0, |_| true);
            pool.lend(&long.unwrap(), 0, 0, n);
            let short = pool.room(payload(0), 64 * (n as usize % 7 + 1), 0, 0, |_| true);
            pool.lend(&short.unwrap(), 0, 0, n);
        }
        assert!(pool.room(payload(0), longest(BYTES) as usize + 1, 0, 0, |_| true).is_none());
        assert!(SendPool::none().room(payload(0), 64, 0, 0, |_| true).is_none());
    }

    #[test]
    fn a_long_message_keeps_to_the_first_half() {
        let mut memory = vec![0; BYTES as usize];
        let base = memory.as_ptr() as usize;
        let mut pool = pool(&mut memory);
        let mut lent: Vec<(u32, usize)> = Vec::new();
        for n in 0..1000u32 {
            // Now and then another's, anywhere.
            let of = if n % 50 == 0 { 0 } else { u64::from(BYTES) };
            let taken = n.saturating_sub(2);
            let piece = pool.room(payload(0), 512, of, 0, |piece| piece.position < taken).unwrap();
            lent.retain(|(position, _)| *position >= taken);
            let at = piece.at as usize - base;
            assert!(of == 0 || at + 512 <= BYTES as usize / 2, "{at}");
            assert!(
                lent.iter().all(|(_, other)| at + 512 <= *other || other + 512 <= at),
                "{at} in {lent:?}"
            );
            pool.lend(&piece, 0, 0, n);
            lent.push((n, at));
        }
    }

    #[test]
    fn what_was_copied_ahead_is_there_until_somebody_asks_for_room() {
        let mut memory = vec![0; BYTES as usize];
        let mut pool = pool(&mut memory);
        let mut ahead = |asks: bool, len| {
            let piece = pool.room(payload(0), 100, 0, 0, |_| true).unwrap();
            pool.keep_ahead(piece, 100);
            if asks {
                let _other = pool.room(payload(0), 100, 0, 0, |_| true);
            }
            let taken = pool.take_ahead(len).map(|taken| taken.at == piece.at);
            (taken, pool.take_ahead(len).is_some())
        };
        assert_eq!(ahead(false, 100), (Some(true), false));
        assert_eq!(ahead(false, 101), (None, false));
        assert_eq!(ahead(true, 100), (None, false));
    }

    #[test]
    fn there_are_only_so_many_records() {
        let mut memory = vec![0; BYTES as usize];
        let mut pool = pool(&mut memory);
        pool.lent = vec![Lent::default(); 5].into_boxed_slice();
        for n in 0..5 {
            let piece = pool.room(payload(0), 64, 0, 0, |_| false).unwrap();
            pool.lend(&piece, 0, 0, n);
        }
        assert!(pool.room(payload(0), 64, 0, 0, |_| false).is_none());
        assert!(pool.room(payload(0), 64, 0, 0, |piece| piece.position == 0).is_some());
    }

    /// Pieces of one that takes nothing lie everywhere between those of others, who take all; there is room for these all the same, and none of
    /// those is overwritten.
    #[test]
    fn what_one_keeps_leaves_room_for_the_others() {
        let mut memory = vec![0; BYTES as usize];
        let base = memory.as_ptr() as usize;
        let mut pool = pool(&mut memory);
        let place = |piece: &Piece, len: usize| {
            let from = piece.at as usize - base;
            assert!(from + len <= BYTES as usize);
            (from, from + len)
        };
        let mut kept: Vec<(u32, usize, usize)> = Vec::new();
        let (mut resumed, mut refused) = (0, 0);
        for n in 0..20_000u32 {
            let len = 64 + (n as usize * 7919) % 130;
            let is_free = |piece: &Lent| piece.peer != 7 || piece.position < resumed;
            let keeps = n % 5 == 0 && kept.len() < 6;
            // Some of them pieces of long messages, which keep to the first half.
            let of = if n % 11 == 0 { u64::from(BYTES) } else { 0 };
            let peer = if keeps { 7 } else { n % 3 };
            match pool.room(payload(n), len, of, peer, is_free) {
                Some(piece) => {
                    let (from, to) = place(&piece, len);
                    assert!(kept.iter().all(|(_, a, b)| to <= *a || *b <= from), "{from}..{to} in {kept:?}");
                    pool.lend(&piece, peer, 0, n);
                    if keeps {
                        kept.push((n, from, to));
                    }
                }
                None => refused += u32::from(!keeps),
            }
            // Now and then it takes all, or some of it.
            if n % 1000 == 999 {
                let until = if n % 2000 == 999 { n + 1 } else { kept.get(2).map_or(0, |(n, ..)| *n) };
                resumed = until;
                kept.retain(|(n, ..)| *n >= until);
            }
        }
        assert!(refused < 200, "{refused}");
    }

    #[test]
    fn what_a_peer_keeps_itself_is_not_passed_by() {
        let mut memory = vec![0; BYTES as usize];
        let mut pool = pool(&mut memory);
        while let Some(piece) = pool.room(payload(0), 512, 0, 1, |_| false) {
            pool.lend(&piece, 1, 0, 0);
        }
        let (head, tail) = (pool.head, pool.tail);
        assert!(pool.room(payload(0), 512, 0, 1, |_| false).is_none());
        assert_eq!((pool.head, pool.tail), (head, tail));
        // Nor is there an end to the search of others.
        for _ in 0..100 {
            assert!(pool.room(payload(0), 512, 0, 2, |_| false).is_none());
        }
        assert!(pool.room(payload(0), 512, 0, 2, |_| true).is_some());
    }
}
