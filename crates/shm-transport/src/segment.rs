//! The world's segment: creating, attaching, allocating pairs, states of ranks.

pub(crate) mod file;
pub(crate) mod layout;
mod numa;
mod place;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use tocsin_doorbell::Descriptor;
use tocsin_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use tocsin_transport::transfer::RECORDS;
use tocsin_transport::{Class, Publication, Record, SHOUTS};

use crate::geometry::PAGE;
use crate::heap::Heap;
use crate::lane::{Place, cell_bytes};
use crate::{Error, Geometry, MAX_RANKS};
use file::OwnFile;
use layout::{Header, MAGIC, PairHead, RankBlock, VERSION};
pub use numa::bind_refusal;

const ABORTED: u64 = 1 << 32;

/// What became of a rank, as written in its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Life {
    /// Not started yet.
    Absent = 0,
    /// Running.
    Alive = 1,
    /// Has left in good order.
    Finalized = 2,
    /// Died.
    Dead = 3,
}

impl Life {
    /// What cannot be read as a state is no rank of ours.
    fn from_word(word: u32) -> Life {
        match word {
            1 => Life::Alive,
            2 => Life::Finalized,
            3 => Life::Dead,
            _ => Life::Absent,
        }
    }

    fn is_over(self) -> bool {
        matches!(self, Life::Finalized | Life::Dead)
    }
}

/// The cores that ranks run on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cores {
    /// How many they have, together.
    pub count: u32,
    /// What a core's own caches do not hold is [far](tocsin_transport::copy::has_far_cache) from it.
    pub far_cache: bool,
    /// The kernel may copy from rank to rank.
    pub copied_once: bool,
}

impl Cores {
    const FAR: u32 = 1 << 31;
    const ONCE: u32 = 1 << 30;

    /// Never 0.
    fn word(self) -> u32 {
        let says = |is, bit| if is { bit } else { 0 };
        self.count.clamp(1, Cores::ONCE - 1)
            | says(self.far_cache, Cores::FAR)
            | says(self.copied_once, Cores::ONCE)
    }

    fn of(word: u32) -> Cores {
        let count = (word & (Cores::ONCE - 1)).max(1);
        Cores { count, far_cache: word & Cores::FAR != 0, copied_once: word & Cores::ONCE != 0 }
    }
}

/// One world's shared memory, mapped into this process.
#[derive(Debug)]
pub struct Segment {
    file: OwnFile,
    base: NonNull<u8>,
    geometry: Geometry,
    /// Ranks whose endpoint was made through this very value, so that they live in this process. Not in shared memory:
    /// nobody else can say so.
    local: layout::Ranks,
    pub(crate) heap: Heap,
}

fn no_ranks() -> layout::Ranks {
    std::array::from_fn(|_| AtomicU64::new(0))
}

// SAFETY: the mapping belongs to the segment until drop; everything reached through it is made of atomics, or
// is lane data, which only the single producer and the single consumer of the lane touch.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// Creates the segment of a world of `ranks` ranks: a memfd without a name in any file system, sealed
    /// against resizing. All ranks are [`Life::Absent`].
    ///
    /// # Errors
    /// [`Error::Ranks`]; [`Error::Refused`] when a limit or the machine's memory is exceeded.
    pub fn create(ranks: u32) -> Result<Segment, Error> {
        Segment::create_with_heap(ranks, 0)
    }

    /// As [`create`](Self::create), with a heap of which each rank may allocate `arena` bytes. It takes addresses when it is first used, and
    /// memory as it is. Where a limit of the process is against a file of that length, there is none: [`alloc`](Self::alloc) says so.
    ///
    /// # Errors
    /// As [`create`](Self::create); [`Error::HeapTooLarge`].
    pub fn create_with_heap(ranks: u32, arena: u64) -> Result<Segment, Error> {
        Segment::create_on(ranks, arena, &[])
    }

    /// As [`create_with_heap`](Self::create_with_heap), where ranks run on known NUMA nodes: `nodes` has them by rank, by the kernel's number;
    /// who is not named has none. What is allocated for a rank lies on its node, if the kernel and that node's memory allow.
    ///
    /// # Errors
    /// As [`create_with_heap`](Self::create_with_heap). That memory cannot be placed is none.
    pub fn create_on(ranks: u32, arena: u64, nodes: &[Option<u32>]) -> Result<Segment, Error> {
        if ranks == 0 || ranks > MAX_RANKS {
            return Err(Error::Ranks { ranks, max: MAX_RANKS });
        }
        let without = Geometry::for_ranks(ranks);
        let mut geometry = without.with_heap(arena).ok_or(Error::HeapTooLarge { arena, ranks })?;
        if arena > 0 && file::forbids(geometry.file_bytes()) {
            geometry = without;
        }
        let fd = file::create_sealed(geometry.file_bytes())?;
        numa::bind_fixed(fd.as_fd(), &geometry, nodes);
        file::allocate(fd.as_fd(), 0, geometry.fixed_bytes()).map_err(|source| Error::Refused {
            call: "fallocate",
            bytes: geometry.fixed_bytes(),
            source,
        })?;
        let file = OwnFile::new(fd)?;
        let base = file::map(file.unchecked(), 0, geometry.bytes())?;
        let segment = Segment { file, base, geometry, local: no_ranks(), heap: Heap::default() };
        let header = segment.header();
        header.version.store(VERSION, Ordering::Relaxed);
        header.ranks.store(ranks, Ordering::Relaxed);
        header.bytes.store(geometry.file_bytes(), Ordering::Relaxed);
        header.arena.store(geometry.arena_bytes(), Ordering::Relaxed);
        header.digest.store(geometry.digest(), Ordering::Relaxed);
        header.shared.epoch.store(1, Ordering::Relaxed);
        segment.note_nodes(nodes);
        // SYNC POINT: the segment reaches other processes through a socket, other threads through an Arc;
        // both order these stores before anything the others read.
        header.magic.store(MAGIC, Ordering::Release);
        Ok(segment)
    }

    /// Maps a segment that somebody else created, after checking that it is one: seals, magic, version,
    /// ranks, layout, size. Nothing in it is followed before.
    ///
    /// # Errors
    /// One error per check; see [`Error`].
    pub fn attach(fd: OwnedFd, expected_ranks: u32) -> Result<Segment, Error> {
        if expected_ranks == 0 || expected_ranks > MAX_RANKS {
            return Err(Error::Ranks { ranks: expected_ranks, max: MAX_RANKS });
        }
        file::check_seals(fd.as_fd())?;
        let size = file::size(fd.as_fd())?;
        let found = file::Preamble::read(fd.as_fd(), size)?;
        let without = Geometry::for_ranks(expected_ranks);
        let geometry = without.with_heap(found.arena).unwrap_or(without);
        if found.magic != MAGIC {
            return Err(Error::Magic { found: found.magic });
        }
        if found.version != VERSION {
            return Err(Error::Version { found: found.version, expected: VERSION });
        }
        if found.ranks != expected_ranks {
            return Err(Error::RankCount { found: found.ranks, expected: expected_ranks });
        }
        if found.digest != geometry.digest() {
            return Err(Error::Layout { found: found.digest, expected: geometry.digest() });
        }
        for found in [found.bytes, size] {
            if found != geometry.file_bytes() {
                return Err(Error::Size { found, expected: geometry.file_bytes() });
            }
        }
        let file = OwnFile::new(fd)?;
        let base = file::map(file.unchecked(), 0, geometry.bytes())?;
        Ok(Segment { file, base, geometry, local: no_ranks(), heap: Heap::default() })
    }

    /// The memfd, to be passed to other processes, before anybody else may have closed it. Close-on-exec.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.unchecked()
    }

    /// The memfd, if this process has not closed its descriptor. Not for handlers.
    pub(crate) fn checked_fd(&self) -> io::Result<BorrowedFd<'_>> {
        self.file.get()
    }

    /// The layout.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Number of ranks.
    #[inline]
    pub fn ranks(&self) -> u32 {
        self.geometry.ranks()
    }

    /// A rank's doorbell, valid as long as the segment; null for a rank that does not exist. Handler-safe.
    pub fn descriptor(&self, rank: u32) -> *const Descriptor {
        self.block(rank).map_or(std::ptr::null(), |b| &raw const b.descriptor)
    }

    /// What became of a rank; `Absent` for one that does not exist. Handler-safe.
    #[inline]
    pub fn life(&self, rank: u32) -> Life {
        // SYNC POINT: Acquire pairs with the Release of `set_life`: who sees the end of a rank sees all it
        // has sent.
        self.block(rank).map_or(Life::Absent, |b| Life::from_word(b.state.life.load(Ordering::Acquire)))
    }

    /// A rank joins: false if it is dead already, to the others too. Handler-safe.
    pub fn come_to_life(&self, rank: u32) -> bool {
        self.leave_absence(rank, Life::Alive)
    }

    /// Marks a rank dead that has never joined: false if it has, or is dead already. Changes the epoch if so.
    pub fn mark_absent_dead(&self, rank: u32) -> bool {
        let dead = self.leave_absence(rank, Life::Dead);
        if dead {
            self.bump_epoch();
        }
        dead
    }

    fn leave_absence(&self, rank: u32, life: Life) -> bool {
        let Some(block) = self.block(rank) else { return false };
        // SYNC POINT: AcqRel as in `set_life`. One of the two comes first, and the other one fails.
        block
            .state
            .life
            .compare_exchange(Life::Absent as u32, life as u32, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Says what became of a rank. An end (Finalized, Dead) changes the epoch; waking the others is the
    /// caller's part ([`wake_all`](Self::wake_all)). Handler-safe.
    pub fn set_life(&self, rank: u32, life: Life) {
        let Some(block) = self.block(rank) else { return };
        // SYNC POINT: Release after all that the rank has sent; see `life`.
        block.state.life.swap(life as u32, Ordering::AcqRel);
        if life.is_over() {
            self.bump_epoch();
        }
    }

    /// Has all ranks hear that this one has revoked a communicator, where it has no lane to tell some of them. Of more than a few, the last.
    /// Changes the epoch. Handler-safe.
    pub fn shout(&self, rank: u32, context: u32) {
        let Some(shouts) = self.block(rank).map(|block| &block.state.shouts) else { return };
        let word = context.wrapping_add(1);
        let last = word as usize % SHOUTS;
        let free = shouts.iter().find(|shout| shout.load(Ordering::Relaxed) == 0);
        if let Some(place) = free.or(shouts.get(last)) {
            // SYNC POINT: Relaxed: before the Release of `bump_epoch`; nothing but the word is used.
            place.store(word, Ordering::Relaxed);
        }
        self.bump_epoch();
    }

    /// What a rank has had all hear so, one by one. Handler-safe.
    pub fn shouted(&self, rank: u32, at: usize) -> Option<u32> {
        // SYNC POINT: Relaxed: after the Acquire of `epoch`, where it changed.
        self.block(rank)?.state.shouts.get(at)?.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Says that one more thread of a rank waits for a collective, until the answer is dropped. Of a rank that does not exist nothing
    /// is said.
    pub fn commit(&self, rank: u32) -> Commitment<'_> {
        let count = self.block(rank).map(|block| &block.state.committed);
        if let Some(count) = count {
            count.fetch_add(1, Ordering::Relaxed);
        }
        Commitment { count }
    }

    /// Marks a rank dead, unless it has finalized or is dead already; whether this call did it. Changes the
    /// epoch if so.
    pub fn mark_dead(&self, rank: u32) -> bool {
        let Some(block) = self.block(rank) else { return false };
        let life = &block.state.life;
        // Alive after Absent is the only step that can come between, so that two attempts are enough.
        for _ in 0..3 {
            let word = life.load(Ordering::Acquire);
            if Life::from_word(word).is_over() {
                return false;
            }
            if life.compare_exchange(word, Life::Dead as u32, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                self.bump_epoch();
                return true;
            }
        }
        false
    }

    /// Counts deaths, finalizes and aborts. Handler-safe.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.header().shared.epoch.load(Ordering::Acquire)
    }

    /// Makes everybody look at the states of the ranks. Handler-safe.
    pub fn bump_epoch(&self) {
        // SYNC POINT: Release after the state that it announces; pairs with the Acquire of `epoch`.
        self.header().shared.epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// Aborts the world; the first code stays. Changes the epoch. Handler-safe.
    pub fn set_abort(&self, code: i32) {
        let word = ABORTED | u64::from(code as u32);
        let _first_stays =
            self.header().shared.abort.compare_exchange(0, word, Ordering::AcqRel, Ordering::Acquire);
        self.bump_epoch();
    }

    /// The code of an abort. Handler-safe.
    #[inline]
    pub fn aborted(&self) -> Option<i32> {
        let word = self.header().shared.abort.load(Ordering::Acquire);
        (word & ABORTED != 0).then_some(word as u32 as i32)
    }

    /// Says what all ranks have to be alike in. The first rank's word stays; whether this is the same. 0 counts as 1.
    /// Handler-safe.
    pub fn agree(&self, word: u64) -> bool {
        let word = word.max(1);
        // SYNC POINT: Relaxed: nothing but the word itself is used, and one exchange decides whose it is.
        let first =
            self.header().shared.agreed.compare_exchange(0, word, Ordering::Relaxed, Ordering::Relaxed);
        first.map_or_else(|said| said == word, |_| true)
    }

    /// What cores the ranks have: what the first rank that asked has seen. All ranks hear the same, so that what they choose by it is the same. No core
    /// counts as 1. Handler-safe.
    pub fn cores(&self, seen: Cores) -> Cores {
        let word = seen.word();
        // SYNC POINT: Relaxed: nothing but the word itself is used, and one exchange decides whose it is.
        let first =
            self.header().shared.cores.compare_exchange(0, word, Ordering::Relaxed, Ordering::Relaxed);
        Cores::of(first.map_or_else(|said| said, |_| word))
    }

    /// Wakes every rank that runs, whatever its attention says: after a death, a finalize or an abort.
    pub fn wake_all(&self) {
        for rank in 0..self.ranks() {
            if let Some(block) = self.block(rank)
                && self.life(rank) == Life::Alive
            {
                tocsin_doorbell::wake_any(&block.descriptor);
            }
        }
    }

    #[inline]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the mapping starts with a header, page-aligned, made of atomics, and outlives `self`.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    #[inline]
    pub(crate) fn block(&self, rank: u32) -> Option<&RankBlock> {
        if rank >= self.ranks() {
            return None;
        }
        // SAFETY: the geometry keeps the block of an existing rank inside the mapping, aligned; it is made of
        // atomics and allocated since creation.
        Some(unsafe { &*self.at(self.geometry.rank_block(rank)).cast::<RankBlock>() })
    }

    /// The head of an ordered pair's area. It may be dereferenced only once the pair is allocated.
    pub(crate) fn pair(&self, from: u32, to: u32) -> Option<*const PairHead> {
        if from >= self.ranks() || to >= self.ranks() {
            return None;
        }
        Some(self.at(self.geometry.pair(from, to)).cast::<PairHead>().cast_const())
    }

    /// Notes that a rank lives in this process.
    pub(crate) fn set_local(&self, rank: u32) {
        set_bit(&self.local, rank);
    }

    /// Whether a rank is known to live in this process. Handler-safe.
    pub(crate) fn is_local(&self, rank: u32) -> bool {
        let word = self.local.get(rank as usize / 64);
        // SYNC POINT: Acquire pairs with `set_bit`; nothing but the bit itself is used.
        word.is_some_and(|word| word.load(Ordering::Acquire) & (1 << (rank % 64)) != 0)
    }

    /// A record of single copies. It may be dereferenced only once Bulk of the ordered pair is allocated.
    #[inline]
    pub(crate) fn record(&self, from: u32, to: u32, slot: u32) -> Option<NonNull<Record>> {
        if from >= self.ranks() || to >= self.ranks() || slot >= RECORDS {
            return None;
        }
        NonNull::new(self.at(self.geometry.record(from, to, slot)).cast())
    }

    /// The published receive of an ordered pair. As [`record`](Self::record).
    #[inline]
    pub(crate) fn publication(&self, from: u32, to: u32) -> Option<NonNull<Publication>> {
        if from >= self.ranks() || to >= self.ranks() {
            return None;
        }
        NonNull::new(self.at(self.geometry.record(from, to, RECORDS)).cast())
    }

    /// Where a lane of an ordered pair lies. It may be used only once the pair is allocated.
    pub(crate) fn lane(&self, from: u32, to: u32, class: Class) -> Option<Place> {
        let pair = self.pair(from, to)?;
        let (slots, data) = self.geometry.lane(from, to, class);
        // Address arithmetic only.
        // SAFETY: `pair` lies inside the mapping, with room for a head.
        let head = unsafe { &raw const (*pair).lanes[class.index()] };
        let (pool, pool_bytes) = self.pool(from)?;
        let cells = self.cells(from, to);
        // A rank and itself have none.
        let cell_bytes = if cells.is_null() { 0 } else { cell_bytes(self.geometry.pair_cells()) };
        Some(Place {
            head,
            slots: self.at(slots).cast(),
            data: self.at(data),
            pool,
            pool_bytes,
            cells,
            cell_bytes,
            shape: self.geometry.shape(class),
        })
    }

    /// Where a rank's pool lies, and its length. It may be written only once it is allocated.
    pub(crate) fn pool(&self, rank: u32) -> Option<(*mut u8, u32)> {
        let (offset, bytes) = self.geometry.pool(rank);
        (rank < self.ranks()).then(|| (self.at(offset), bytes))
    }

    /// Where the cells of a pair lie; null: there are none. They may be touched only once they are allocated.
    pub(crate) fn cells(&self, a: u32, b: u32) -> *mut u8 {
        self.geometry.cells(a, b).map_or(std::ptr::null_mut(), |(offset, _)| self.at(offset))
    }

    /// Allocates so many of the cells of a pair, or as many as there are, which it returns. User threads only.
    pub(crate) fn allocate_cells(&self, a: u32, b: u32, cells: u32) -> Result<u32, (u64, io::Error)> {
        let Some((offset, all)) = self.geometry.cells(a, b) else { return Ok(0) };
        let cells = cells.min(self.geometry.pair_cells());
        let bytes = u64::from(cell_bytes(cells)).next_multiple_of(PAGE).min(all);
        self.allocate_near(a.min(b), (offset, bytes))?;
        file::populate(self.at(offset), bytes);
        Ok(cells)
    }

    /// Allocates a rank's pool. User threads only.
    pub(crate) fn allocate_pool(&self, rank: u32) -> Result<(), (u64, io::Error)> {
        let (offset, bytes) = self.geometry.pool(rank);
        self.allocate_and_map(rank, (offset, u64::from(bytes)))
    }

    /// Allocates a part that its rank is about to use itself. User threads only.
    pub(crate) fn allocate_and_map(
        &self,
        rank: u32,
        (offset, bytes): (u64, u64),
    ) -> Result<(), (u64, io::Error)> {
        self.allocate_near(rank, (offset, bytes))?;
        file::populate(self.at(offset), bytes);
        Ok(())
    }

    #[inline]
    pub(crate) fn at(&self, offset: u64) -> *mut u8 {
        debug_assert!(offset < self.geometry.bytes());
        self.base.as_ptr().wrapping_add(offset as usize)
    }

    /// Allocates the memory of both directions of a pair, Bulk apart. User threads only.
    pub(crate) fn allocate_pair(&self, a: u32, b: u32) -> Result<(), (u64, io::Error)> {
        self.allocate_near(b, self.geometry.small_part(a, b))?;
        if a == b { Ok(()) } else { self.allocate_near(a, self.geometry.small_part(b, a)) }
    }

    /// Allocates the memory of Bulk of an ordered pair. User threads only.
    pub(crate) fn allocate_bulk(&self, from: u32, to: u32) -> Result<(), (u64, io::Error)> {
        self.allocate_near(to, self.geometry.bulk_part(from, to))
    }

    /// Allocates a part on the node of the rank that it is for: `numa.rs` says which, and why.
    fn allocate_near(&self, rank: u32, part: (u64, u64)) -> Result<(), (u64, io::Error)> {
        self.bind_near(rank, part);
        self.allocate(part)
    }

    pub(crate) fn allocate(&self, (offset, bytes): (u64, u64)) -> Result<(), (u64, io::Error)> {
        self.checked_fd().and_then(|fd| file::allocate(fd, offset, bytes)).map_err(|source| (bytes, source))
    }
}

/// A thread waits for a collective.
#[derive(Debug)]
pub struct Commitment<'a> {
    count: Option<&'a AtomicU32>,
}

impl Drop for Commitment<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.count {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Adds a rank to a bitmap; the rank exists.
pub(crate) fn set_bit(ranks: &layout::Ranks, rank: u32) {
    if let Some(word) = ranks.get(rank as usize / 64) {
        let word: &AtomicU64 = word;
        // SYNC POINT: Release after the memory was allocated; pairs with the Acquire of who learns the bit.
        word.fetch_or(1 << (rank % 64), Ordering::Release);
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: the mapping is this segment's, and whoever points into it holds the segment.
        unsafe { file::unmap(self.base, self.geometry.bytes()) };
        self.heap.unmap(self.geometry.heap_bytes());
    }
}
