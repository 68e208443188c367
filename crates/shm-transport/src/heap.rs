//! The world's heap: memory of one rank that all others map, too, so that messages from and to it are copied once, by whoever
//! waits, with no system call.
//!
//! Each rank has a part of it, its *arena*, from which it alone allocates: blocks are whole pages, whose memory is there from
//! their allocation on and is given back when they are freed. Where the heap lies differs from process to process, and a
//! message's buffer is announced by its address in its owner's: who knows where the owner has the heap finds it in its own.
//! An address outside the owner's arena is none, whatever the owner says.
//!
//! The heap is mapped when it is first needed, by its first allocation here or by the first long message after anybody's: a
//! process that has little room for addresses and never uses it loses none.
//!
//! An image of the process that the kernel writes holds its own blocks and nothing else of the heap: reading a hole to write it would fill it,
//! with all of the machine's memory.

use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use range_alloc::RangeAllocator;
use tocsin_sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::available::{STEP, available, suffices};
use crate::segment::file;
use crate::{Error, Segment};

/// What a process has of the heap.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    /// Where it is mapped; null: it is not.
    base: AtomicPtr<u8>,
    /// The system has refused to map it.
    refused: AtomicU32,
    /// What is free in the arenas of the ranks of this process, in bytes of the heap.
    arenas: Mutex<BTreeMap<u32, RangeAllocator<u64>>>,
    /// Bytes that were allocated since somebody has last looked what memory is left.
    unwatched: AtomicU64,
}

impl Heap {
    /// Where it is mapped, if it is. Handler-safe.
    pub(crate) fn base(&self) -> Option<NonNull<u8>> {
        // SYNC POINT: Acquire pairs with the Release of `map`; the mapping itself is the kernel's.
        NonNull::new(self.base.load(Ordering::Acquire))
    }

    pub(crate) fn unmap(&self, bytes: u64) {
        if let Some(base) = self.base() {
            // SAFETY: the mapping is the segment's that is being dropped, whom everybody holds who points into it: blocks and endpoints.
            unsafe { file::unmap(base, bytes) };
        }
    }
}

impl Segment {
    /// Whether somebody has allocated from the heap. Handler-safe.
    #[inline]
    pub(crate) fn is_heap_used(&self) -> bool {
        // SYNC POINT: Relaxed: nothing is read by virtue of it; who sees it late maps the heap later.
        self.header().shared.heap_used.load(Ordering::Relaxed) != 0
    }

    /// Where the heap is mapped in this process, which maps it if need be. User threads only.
    ///
    /// # Errors
    /// [`Error::NoHeap`], [`Error::HeapRefused`].
    pub(crate) fn map_heap(&self) -> Result<NonNull<u8>, Error> {
        if let Some(base) = self.heap.base() {
            return Ok(base);
        }
        let (offset, bytes) = (self.geometry().bytes(), self.geometry().heap_bytes());
        if bytes == 0 {
            return Err(Error::NoHeap);
        }
        let _one_maps = self.heap.arenas.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(base) = self.heap.base() {
            return Ok(base);
        }
        let fd = self.checked_fd().map_err(|source| Error::HeapRefused { bytes, source });
        let base = fd.and_then(|fd| file::map(fd, offset, bytes)).map_err(|error| {
            self.heap.refused.store(1, Ordering::Relaxed);
            match error {
                Error::Refused { source, .. } => Error::HeapRefused { bytes, source },
                other => other,
            }
        })?;
        file::leave_out(base.as_ptr(), bytes);
        // SYNC POINT: as `base`.
        self.heap.base.store(base.as_ptr(), Ordering::Release);
        Ok(base)
    }

    /// As [`map_heap`](Self::map_heap), but what was refused is not tried again: who is only sent messages does without.
    pub(crate) fn try_map_heap(&self) -> Option<NonNull<u8>> {
        if self.heap.base().is_none() && self.heap.refused.load(Ordering::Relaxed) != 0 {
            return None;
        }
        self.map_heap().ok()
    }

    /// Allocates `bytes` bytes, rounded up to pages, from a rank's part of the heap. They are zeros, and there: touching
    /// them never fails. User threads only, of the rank's process.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`]; [`Error::NoHeap`]; [`Error::HeapRefused`]; [`Error::HeapFull`]; [`Error::HeapShort`] where the machine or the job has not that
    /// much memory left; [`Error::Refused`] where a limit is exceeded.
    pub fn alloc(self: &Arc<Segment>, rank: u32, bytes: usize) -> Result<HeapBlock, Error> {
        let (ranks, arena) = (self.ranks(), self.geometry().arena_bytes());
        if rank >= ranks {
            return Err(Error::NoSuchRank { rank, ranks });
        }
        let base = self.map_heap()?;
        let full = || Error::HeapFull { rank, bytes: bytes as u64, arena };
        let length = (bytes.max(1) as u64).checked_next_multiple_of(file::page()).ok_or_else(full)?;
        let begin = self.geometry().arena(rank);
        let range = {
            let mut arenas = self.heap.arenas.lock().unwrap_or_else(PoisonError::into_inner);
            let free = arenas.entry(rank).or_insert_with(|| RangeAllocator::new(begin..begin + arena));
            free.allocate_range(length).map_err(|_| full())?
        };
        let process = std::process::id();
        let block = HeapBlock { base, range: range.clone(), bytes, rank, process, segment: self.clone() };
        let at = self.geometry().bytes() + range.start;
        // On failure the block goes back by its drop.
        let looks = self.heap.unwatched.fetch_add(length, Ordering::Relaxed).saturating_add(length) >= STEP;
        if looks {
            self.heap.unwatched.store(0, Ordering::Relaxed);
        }
        allocate_watched(
            length,
            || if looks { available() } else { None },
            |from, bytes| file::allocate(self.checked_fd()?, at + from, bytes),
        )?;
        file::populate(block.as_ptr(), length);
        file::take_in(block.as_ptr(), length);
        self.header().shared.heap_used.store(1, Ordering::Relaxed);
        Ok(block)
    }

    /// Whether a buffer lies in a rank's part of the heap, here. Handler-safe.
    pub(crate) fn is_in_arena(&self, rank: u32, address: u64, bytes: u64) -> bool {
        let base = self.heap.base().map_or(0, |base| base.as_ptr() as u64);
        self.in_arena(rank, base, address, bytes).is_some()
    }

    /// Where this process has the buffer that a rank has at `address`, whose heap lies at `base` there. `None`: it is not in that
    /// rank's part of the heap, or this process has not mapped it. Handler-safe.
    pub(crate) fn in_heap(&self, rank: u32, base: u64, address: u64, bytes: u64) -> Option<*mut u8> {
        let offset = self.in_arena(rank, base, address, bytes)?;
        Some(self.heap.base()?.as_ptr().wrapping_add(offset as usize))
    }

    fn in_arena(&self, rank: u32, base: u64, address: u64, bytes: u64) -> Option<u64> {
        let geometry = self.geometry();
        let begin = geometry.arena(rank);
        if base == 0 || rank >= self.ranks() {
            return None;
        }
        let offset = address.checked_sub(base)?;
        let end = offset.checked_add(bytes)?;
        (begin <= offset && end <= begin.checked_add(geometry.arena_bytes())?).then_some(offset)
    }
}

/// Allocates so many bytes step by step, as long as there is memory: others may allocate at the same time. `available`: what is left, if it is known.
fn allocate_watched(
    bytes: u64,
    mut available: impl FnMut() -> Option<u64>,
    mut allocate: impl FnMut(u64, u64) -> std::io::Result<()>,
) -> Result<(), Error> {
    let mut done = 0;
    while done < bytes {
        let left = bytes - done;
        if let Some(available) = available().filter(|available| !suffices(*available, left)) {
            return Err(Error::HeapShort { bytes, available });
        }
        let step = left.min(STEP);
        allocate(done, step).map_err(|source| Error::Refused { call: "fallocate", bytes, source })?;
        done += step;
    }
    Ok(())
}

/// Memory from the heap. Dropping it gives it back; not for handlers. A child of fork() has the very memory, not a copy of it, and gives
/// nothing back.
#[derive(Debug)]
pub struct HeapBlock {
    base: NonNull<u8>,
    /// In the heap.
    range: Range<u64>,
    bytes: usize,
    rank: u32,
    /// Whose it is: a child has a copy of this value.
    process: u32,
    segment: Arc<Segment>,
}

// SAFETY: the memory is the block's, wherever that is; the base only locates it.
unsafe impl Send for HeapBlock {}
// SAFETY: a shared block gives an address away and nothing else.
unsafe impl Sync for HeapBlock {}

impl HeapBlock {
    /// Its address, on a page's boundary; valid for [`len`](Self::len) bytes as long as the block lives.
    pub fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr().wrapping_add(self.range.start as usize)
    }

    /// Its length in bytes, as asked for.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Another one of the same rank's. As [`Segment::alloc`].
    ///
    /// # Errors
    /// As [`Segment::alloc`].
    pub fn another(&self, bytes: usize) -> Result<HeapBlock, Error> {
        self.segment.alloc(self.rank, bytes)
    }

    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

impl Drop for HeapBlock {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        let at = self.segment.geometry().bytes().saturating_add(self.range.start);
        let length = self.range.end.saturating_sub(self.range.start);
        file::leave_out(self.as_ptr(), length);
        // What cannot be given back now would be seen by who has it next.
        let given = self.segment.checked_fd().and_then(|fd| file::give_back(fd, at, length));
        let mut arenas = self.segment.heap.arenas.lock().unwrap_or_else(PoisonError::into_inner);
        if given.is_ok()
            && let Some(free) = arenas.get_mut(&self.rank)
        {
            free.free_range(self.range.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARENA: u64 = 1 << 20;

    fn world() -> Arc<Segment> {
        Arc::new(Segment::create_with_heap(2, ARENA).unwrap())
    }

    fn allocated(segment: &Segment) -> u64 {
        // SAFETY: zero is a valid `stat`.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: `stat` is a live structure.
        assert_eq!(unsafe { libc::fstat(std::os::fd::AsRawFd::as_raw_fd(&segment.fd()), &raw mut stat) }, 0);
        stat.st_blocks as u64 * 512
    }

    fn bytes(block: &mut HeapBlock) -> &mut [u8] {
        // SAFETY: the block is this test's alone, and nobody else writes there.
        unsafe { std::slice::from_raw_parts_mut(block.as_ptr(), block.len()) }
    }

    #[test]
    fn what_one_writes_the_other_reads_where_it_has_the_heap() {
        let a = world();
        let b = Segment::attach(a.fd().try_clone_to_owned().unwrap(), 2).unwrap();
        let mut block = a.alloc(1, 10_000).unwrap();
        bytes(&mut block)[9_999] = 7;
        let (base, address) = (a.heap.base().unwrap().as_ptr() as u64, block.as_ptr() as u64);
        assert!(b.is_heap_used() && b.in_heap(1, base, address, 10_000).is_none(), "not mapped yet");
        assert_ne!(b.map_heap().unwrap(), a.heap.base().unwrap());
        let there = b.in_heap(1, base, address, 10_000).unwrap();
        // SAFETY: inside the mapping, whose pages the block's owner has allocated.
        assert_eq!(unsafe { there.add(9_999).read_volatile() }, 7);
    }

    #[test]
    fn memory_that_is_not_there_is_an_error_before_it_is_taken() {
        let Some(left) = available() else { return };
        let a = Arc::new(Segment::create_with_heap(1, 2 * left + (1 << 30)).unwrap());
        let before = allocated(&a);
        let error = a.alloc(0, left as usize + (1 << 30)).unwrap_err();
        assert!(
            matches!(error, Error::HeapShort { .. }) && error.to_string().contains("memory.max"),
            "{error}"
        );
        assert_eq!(allocated(&a), before);
        drop(a.alloc(0, STEP as usize).unwrap());
    }

    #[test]
    fn what_others_take_meanwhile_is_seen() {
        const LENGTH: u64 = 4 * STEP + 5;
        let mut taken = Vec::new();
        let mut allocate = |available: &mut dyn FnMut() -> Option<u64>| {
            taken.clear();
            let end = allocate_watched(LENGTH, available, |from, bytes| {
                taken.push((from, bytes));
                Ok(())
            });
            (end.is_ok(), taken.clone())
        };
        let all = [(0, STEP), (STEP, STEP), (2 * STEP, STEP), (3 * STEP, STEP), (4 * STEP, 5)];
        assert_eq!(allocate(&mut || None), (true, all.to_vec()));
        assert_eq!(allocate(&mut || Some(8 * STEP)), (true, all.to_vec()));
        assert_eq!(allocate(&mut || Some(4 * STEP)), (false, Vec::new()));
        let mut left = 10 * STEP;
        let mut shrinking = || {
            left -= 2 * STEP;
            Some(left)
        };
        let (ok, some) = allocate(&mut shrinking);
        assert!(!ok && (1..all.len()).contains(&some.len()) && all.starts_with(&some));
    }

    #[test]
    fn what_was_refused_is_tried_again_by_who_allocates() {
        let a = world();
        a.heap.refused.store(1, Ordering::Relaxed);
        assert_eq!(a.try_map_heap(), None);
        let _block = a.alloc(0, 1).unwrap();
        assert_eq!(a.try_map_heap(), a.heap.base());
    }

    #[test]
    fn only_a_ranks_own_part_is_reached() {
        let a = world();
        let block = a.alloc(1, 4096).unwrap();
        let (base, at) = (a.heap.base().unwrap().as_ptr() as u64, block.as_ptr() as u64);
        assert!(a.is_in_arena(1, at, ARENA) && !a.is_in_arena(0, at, 1));
        for (rank, base, address, len) in [
            (0, base, at, 1),
            (2, base, at, 1),
            (1, 0, at, 1),
            (1, base, at, ARENA + 1),
            (1, base, at - 1, 1),
            (1, base, at + ARENA, 1),
            (1, base, at, u64::MAX),
            (1, base, u64::MAX, 1),
            (1, u64::MAX, at, 1),
        ] {
            assert_eq!(a.in_heap(rank, base, address, len), None, "{rank} {base:x} {address:x} {len}");
        }
        assert_eq!(a.in_heap(1, base, at + ARENA, 0), Some(block.as_ptr().wrapping_add(ARENA as usize)));
    }

    #[test]
    fn what_is_freed_is_given_back_and_comes_again_as_zeros() {
        let a = world();
        let before = allocated(&a);
        for fill in 1..=3 {
            let mut blocks: Vec<_> = (0..4).map(|_| a.alloc(0, ARENA as usize / 4).unwrap()).collect();
            assert!(allocated(&a) >= before + ARENA);
            for block in &mut blocks {
                assert!(bytes(block).iter().all(|byte| *byte == 0), "round {fill}");
                bytes(block).fill(fill);
            }
            let error = a.alloc(0, 1).unwrap_err();
            assert!(matches!(error, Error::HeapFull { rank: 0, bytes: 1, arena: ARENA }), "{error}");
            assert!(error.to_string().contains("TOCSIN_HEAP"));
            assert!(a.alloc(1, 1).is_ok(), "the other's part is its own");
            drop(blocks);
            assert_eq!(allocated(&a), before);
        }
    }

    #[test]
    fn no_heap_no_rank_no_room_are_errors() {
        let none = Arc::new(Segment::create(2).unwrap());
        assert!(matches!(none.alloc(0, 1), Err(Error::NoHeap)) && none.try_map_heap().is_none());
        assert!(!none.alloc(0, 1).unwrap_err().to_string().contains("  "));
        let a = world();
        assert!(matches!(a.alloc(2, 1), Err(Error::NoSuchRank { rank: 2, .. })));
        for bytes in [ARENA as usize + 1, usize::MAX] {
            assert!(matches!(a.alloc(0, bytes), Err(Error::HeapFull { .. })));
        }
        let block = a.alloc(0, 0).unwrap();
        assert!(block.is_empty() && !block.as_ptr().is_null());
        assert!(matches!(Segment::create_with_heap(2, u64::MAX), Err(Error::HeapTooLarge { .. })));
    }

    /// Whether an image of this process has the page at an address.
    fn is_in_images(address: *const u8) -> bool {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut here = false;
        let flags = maps.lines().find_map(|line| {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let number = |hex: &str| usize::from_str_radix(hex, 16).ok();
            if let Some((Some(from), Some(to))) = range.map(|(from, to)| (number(from), number(to))) {
                here = (from..to).contains(&(address as usize));
            }
            line.strip_prefix("VmFlags:").filter(|_| here)
        });
        !flags.unwrap().split(' ').any(|flag| flag == "dd")
    }

    #[test]
    fn images_of_the_process_have_its_blocks_and_leave_the_holes_out() {
        let a = world();
        let base = a.map_heap().unwrap().as_ptr();
        let ends = [base, base.wrapping_add(2 * ARENA as usize - 1)];
        assert!(!ends.iter().any(|at| is_in_images(*at)));
        let block = a.alloc(0, 10_000).unwrap();
        let last = block.as_ptr().wrapping_add(block.len() - 1);
        assert!(is_in_images(block.as_ptr()) && is_in_images(last) && !is_in_images(last.wrapping_add(4096)));
        drop(block);
        assert!(!is_in_images(last));
    }
}
