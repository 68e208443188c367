//! Long parts, and results that members share: what does not fit into a slot lies in memory of its own.
//!
//! Behind each slot stands [`LONG`] bytes of its owner's long memory. A long part is copied there before the slot's stamp is stored, and
//! read by virtue of that stamp, as a short one is; and so the argument of [`board`](super) why a slot may be written again is the argument for this
//! memory, too.
//!
//! # Results that members share
//! Of what all members make of the same parts, each may keep pieces behind its part, for the others to take instead of making them once more. Pieces are
//! numbered; who has made one copies it there and [says so](Board::share). Who looks and finds nobody's makes the piece by itself: nobody waits
//! for anybody, and a member that computes, or has died, holds up nobody. That two make the same piece at the same time costs time and nothing else,
//! for each writes into its own memory. Who begins one [says that, too](Board::begin_piece): a hint, by which others begin with other pieces.
//!
//! The word that says so is cleared before the stamp of the next part is stored there, and read only after that stamp was seen: it never says of a
//! later number what was true of an earlier one. A member keeps pieces of a number until it posts SLOTS numbers later, when
//! all are done with it.
//!
//! # Hostile members
//! What is read may be anything, as the bytes of a part. Where it is read follows from the caller's own numbers.

use super::words::{read, write};
use super::{Board, Real, SLOTS, Variant};
use core::ptr::NonNull;
use tocsin_sync::atomic::{AtomicU64, Ordering};

/// Bytes behind a slot, for a long part and what its owner shares of the result.
pub const LONG: usize = if cfg!(loom) { 16 } else { 512 << 10 };
/// Bytes of a member's long memory.
pub const LONG_MEMORY: usize = SLOTS * LONG;
/// Most pieces of a result: one bit each.
pub const PIECES: u32 = 64;

impl Board {
    /// The same with long memory: each member's [`LONG_MEMORY`], in the order of the areas. None where their number is another one.
    ///
    /// # Safety
    /// The memory is aligned for words, outlives the board, and only this protocol uses it. Of a member's, what it [fills](Self::fill) was allocated
    /// before.
    #[must_use]
    pub unsafe fn with_long(mut self, memory: Box<[NonNull<AtomicU64>]>) -> Board {
        if memory.len() == self.areas.len() {
            self.long = memory;
        }
        self
    }

    /// Whether there is long memory.
    #[inline]
    pub fn has_long(&self) -> bool {
        !self.long.is_empty()
    }

    /// This member's long memory: where it begins. Slot after slot has [`LONG`] bytes.
    pub fn own_long(&self) -> Option<NonNull<AtomicU64>> {
        self.long.get(self.me).copied()
    }

    /// Words of a member's long memory behind a number's slot from a byte on, if so many bytes are there.
    #[inline]
    fn long(&self, member: usize, number: u32, first: usize, bytes: usize) -> Option<&[AtomicU64]> {
        let memory = self.long.get(member)?;
        let ends = first.checked_add(bytes)?;
        if ends > LONG {
            return None;
        }
        let at = (number as usize % SLOTS).wrapping_mul(LONG / 8);
        // SAFETY: LONG bytes behind each of SLOTS slots are there as long as the board, by the promise to `with_long`.
        Some(unsafe { core::slice::from_raw_parts(memory.as_ptr().add(at), LONG / 8) })
    }

    /// Copies bytes of the part that is posted next to its place. There is [room](Self::has_room) for that.
    ///
    /// # Safety
    /// `from` is readable for `bytes`. Beyond [`LONG`] nothing is copied.
    #[inline]
    pub unsafe fn fill(&self, first: usize, from: *const u8, bytes: usize) {
        let next = self.posted().wrapping_add(1);
        if let Some(memory) = self.long(self.me, next, first, bytes) {
            // SAFETY: the caller's promise; nobody reads there before the part is posted.
            unsafe { copy_in(memory, first, from, bytes) };
        }
    }

    /// Posts a part that was [filled in](Self::fill), as [`post`](Self::post).
    #[inline]
    pub fn post_long(&mut self, about: u64) -> u32 {
        self.post_long_as::<Real>(about)
    }

    /// [`post_long`](Self::post_long) with variation points.
    #[doc(hidden)]
    #[inline]
    pub fn post_long_as<V: Variant>(&mut self, about: u64) -> u32 {
        let next = self.posted().wrapping_add(1);
        if let Some(slot) = self.slot(self.me, next).filter(|_| V::CLEAR_SHARED) {
            // SYNC POINT: Relaxed: the stamp's Release is behind it, and nobody reads it by an older stamp.
            slot.shared.store(0, Ordering::Relaxed);
            slot.begun.store(0, Ordering::Relaxed);
        }
        // SAFETY: no bytes.
        unsafe { self.post_as::<V>(about, core::ptr::null(), 0) }
    }

    /// Copies bytes of a member's long part, which is [here](super::Part::Here), or of a piece that it [shares](Self::shared).
    ///
    /// # Safety
    /// `to` is writable for `bytes`. Beyond [`LONG`] nothing is copied.
    #[inline]
    pub unsafe fn read_long(&self, member: usize, number: u32, first: usize, to: *mut u8, bytes: usize) {
        if let Some(memory) = self.long(member, number, first, bytes) {
            // SAFETY: the caller's promise.
            unsafe { copy_out(memory, first, to, bytes) };
        }
    }

    /// Where that stands, for who combines it. A member that lies may change it meanwhile.
    #[inline]
    pub fn long_part(&self, member: usize, number: u32, first: usize, bytes: usize) -> Option<*const u8> {
        let memory = self.long(member, number, first, bytes)?;
        Some(memory.as_ptr().cast::<u8>().wrapping_add(first))
    }

    /// The pieces of a number's result that a member shares, a bit for each. Its part is [here](super::Part::Here).
    #[inline]
    pub fn shared(&self, member: usize, number: u32) -> u64 {
        // SYNC POINT: Acquire pairs with the Release of `share`: the piece.
        self.slot(member, number).map_or(0, |slot| slot.shared.load(Ordering::Acquire))
    }

    /// The piece that a member makes, as far as is known.
    #[inline]
    pub fn begun_by(&self, member: usize, number: u32) -> Option<u32> {
        // SYNC POINT: Relaxed: a hint, by which nothing is read.
        let begun = self.slot(member, number)?.begun.load(Ordering::Relaxed);
        u32::try_from(begun).ok()?.checked_sub(1)
    }

    /// Says that this member makes a piece of a number's result, which it has posted.
    #[inline]
    pub fn begin_piece(&self, number: u32, piece: u32) {
        if let Some(slot) = self.slot(self.me, number) {
            // SYNC POINT: as in `begun_by`.
            slot.begun.store(u64::from(piece).wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Shares a piece of a number's result: `bytes` that stand from `first` on behind this member's part.
    ///
    /// # Safety
    /// `from` is readable for `bytes`. What does not end within [`LONG`] is not shared.
    #[inline]
    pub unsafe fn share(&self, number: u32, piece: u32, first: usize, from: *const u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.share_as::<Real>(number, piece, first, from, bytes) }
    }

    /// [`share`](Self::share) with variation points.
    ///
    /// # Safety
    /// As `share`.
    #[doc(hidden)]
    #[inline]
    pub unsafe fn share_as<V: Variant>(
        &self,
        number: u32,
        piece: u32,
        first: usize,
        from: *const u8,
        bytes: usize,
    ) {
        let memory = self.long(self.me, number, first, bytes);
        let (Some(memory), Some(slot)) = (memory, self.slot(self.me, number)) else { return };
        // SAFETY: the caller's promise; nobody reads there before the bit is set, and nobody else sets it.
        unsafe { copy_in(memory, first, from, bytes) };
        // SYNC POINT: Release publishes the piece; pairs with the Acquire of `shared`. Only this member writes the word.
        let before = slot.shared.load(Ordering::Relaxed);
        slot.shared.store(before | 1 << (piece % PIECES), V::SHARE);
    }
}

/// # Safety
/// `from` is readable for `bytes`, and the memory has them from `first` on; nobody else uses those.
#[inline]
unsafe fn copy_in(memory: &[AtomicU64], first: usize, from: *const u8, bytes: usize) {
    if cfg!(loom) {
        // As words, which the model sees; whole ones.
        // SAFETY: the caller's promise.
        return unsafe { write(memory.get(first / 8..).unwrap_or_default(), from, bytes) };
    }
    let to = memory.as_ptr().cast::<u8>().cast_mut();
    // SAFETY: - the caller's promise; words are interior mutable
    //         - a member of another process that lies may write there meanwhile: what is read then may be anything, and is only bytes.
    unsafe { core::ptr::copy_nonoverlapping(from, to.add(first), bytes) }
}

/// # Safety
/// `to` is writable for `bytes`, and the memory has them from `first` on.
#[inline]
unsafe fn copy_out(memory: &[AtomicU64], first: usize, to: *mut u8, bytes: usize) {
    if cfg!(loom) {
        // SAFETY: the caller's promise.
        return unsafe { read(memory, first, to, bytes) };
    }
    let from = memory.as_ptr().cast::<u8>();
    // SAFETY: as in `copy_in`: who posted or shared it writes there no more until all are done with it.
    unsafe { core::ptr::copy_nonoverlapping(from.add(first), to, bytes) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::Part;
    use super::super::tests::Memory;
    use super::*;

    #[test]
    fn long_parts_and_pieces_are_read_as_they_were_written() {
        let memory = Memory::new(2);
        let (mut one, mut two) = (memory.board(0, 7), memory.board(1, 7));
        assert!(!one.has_long());
        let mut words: Vec<Vec<u64>> = vec![vec![0; LONG_MEMORY / 8]; 2];
        let long: Vec<NonNull<AtomicU64>> =
            words.iter_mut().map(|words| NonNull::from(&mut words[0]).cast()).collect();
        let with_long = |board: Board| {
            // SAFETY: the words are kept, and used by the boards alone until they are dropped.
            unsafe { board.with_long(long.clone().into()) }
        };
        (one, two) = (with_long(one), with_long(two));
        assert!(one.has_long() && one.own_long() == Some(long[0]));
        let bytes: Vec<u8> = (0..LONG).map(|i| (i * 7 + i / 256) as u8).collect();
        for number in 1..=2 * SLOTS as u32 {
            let half = LONG / 2 + number as usize;
            // SAFETY: slices.
            unsafe {
                one.fill(100, bytes[100..half].as_ptr(), half - 100);
                one.fill(0, bytes.as_ptr(), 100);
            }
            assert_eq!(two.part(0, number), Part::Missing);
            assert_eq!((one.post_long(3), two.post_long(3)), (number, number));
            assert_eq!(two.part(0, number), Part::Here { about: 3 });
            assert_eq!((two.shared(0, number), two.begun_by(0, number)), (0, None), "of an older number");
            let mut got = vec![0u8; half];
            // SAFETY: a slice.
            unsafe { two.read_long(0, number, 0, got.as_mut_ptr(), half) };
            assert!(got == bytes[..half]);
            one.begin_piece(number, 63);
            // SAFETY: a slice.
            unsafe { one.share(number, 63, half, bytes[half..].as_ptr(), 50) };
            assert_eq!((two.shared(0, number), two.begun_by(0, number)), (1 << 63, Some(63)));
            // SAFETY: a slice.
            unsafe { two.read_long(0, number, half, got.as_mut_ptr(), 50) };
            assert!(got[..50] == bytes[half..half + 50]);
            // SAFETY: the words are kept.
            assert_eq!(unsafe { two.long_part(0, number, half, 1).unwrap().read() }, bytes[half]);
            // What is not there is neither written nor read.
            // SAFETY: slices.
            unsafe {
                one.share(number, 1, LONG - 1, bytes.as_ptr(), 2);
                two.read_long(0, number, usize::MAX, got.as_mut_ptr(), 2);
            }
            assert_eq!(two.shared(0, number), 1 << 63);
            assert!(two.long_part(0, number, LONG, 1).is_none());
            for board in [&mut one, &mut two] {
                assert!(board.has_room(number));
            }
        }
    }
}
