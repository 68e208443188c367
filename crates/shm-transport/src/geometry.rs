//! Where everything lies in a segment. A pure function of the number of ranks, so that an attaching rank
//! computes it and compares, and follows no offset that it has read.

use std::mem::{align_of, size_of};

use tocsin_transport::board::{Area, LONG_MEMORY, MEMBERS};
use tocsin_transport::transfer::{RECORD_STEP, RECORDS};
use tocsin_transport::{Class, Publication};

use crate::lane::{FEW_CELLS, LaneHead, MOST_CELLS, Shape, Slot, cell_bytes};
use crate::segment::layout::{Header, PairHead, RankBlock};

/// Most ranks in one world: the width of the bitmaps in a rank block.
pub const MAX_RANKS: u32 = 1024;

/// Boards in the segment of a world of at most [`MEMBERS`] ranks; a larger one has none.
pub const BOARDS: u32 = 16;

/// Most bytes of a heap: an eighth of the addresses that a process has.
pub const MAX_HEAP: u64 = 16 << 40;

/// Everything that is allocated separately starts on such a boundary (bytes).
pub(crate) const PAGE: u64 = 4096;
/// The heap and each rank's part of it start on such a boundary (bytes): the largest pages that machines have, because only at a page can a file be
/// mapped.
pub const HEAP_PAGE: u64 = 64 << 10;
const AREA: u64 = size_of::<Area>() as u64;
/// A rank's long memory of a board.
const LONG: u64 = LONG_MEMORY as u64;
/// Most bytes that the boards' long memory has for its place, which processes map whole: a job may have a limit on that. One board of 32 ranks.
const MOST_LONG: u64 = 32 * LONG;
/// Each rank's block begins in a page of its own, which lies on the rank's NUMA node. Not at the same place in every page, or all would
/// compete for the same sets of a cache.
const BLOCK_STEP: u64 = align_of::<RankBlock>() as u64;
/// A power of two, for each message asks where a block is.
const BLOCK_PLACES: u64 = 1 << ((PAGE - size_of::<RankBlock>() as u64) / BLOCK_STEP + 1).ilog2();
const SLOT: u64 = size_of::<Slot>() as u64;
/// The records of single copies and the published receive, at the beginning of what Bulk allocates.
const RECORD_BYTES: u64 = PAGE;
const _: () = assert!(RECORD_STEP * RECORDS as u64 + size_of::<Publication>() as u64 <= RECORD_BYTES);

/// The layout of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    ranks: u32,
    /// Slots and bytes of data per class.
    shapes: [Shape; 4],
    rank_blocks: u64,
    boards: u64,
    /// One board: an area for each rank; 0 where there are none.
    board_bytes: u64,
    pair_areas: u64,
    /// Offsets inside a pair area.
    slots: [u64; 4],
    data: [u64; 4],
    bulk: u64,
    pair_bytes: u64,
    pools: u64,
    pool_bytes: u32,
    /// Long memory of the first boards: board after board, rank after rank.
    long: u64,
    long_boards: u32,
    /// The cells of all pairs; of one, how many there are, and the bytes from one pair's to the next one's; 0: there are none.
    cells: u64,
    pair_cells: u32,
    cell_bytes: u64,
    /// Each rank's part of the heap; 0: there is none.
    arena: u64,
}

const fn round(offset: u64, to: u64) -> u64 {
    offset.div_ceil(to) * to
}

impl Geometry {
    /// The layout for a number of ranks (capped to [`MAX_RANKS`]). Up to 32 ranks: Eager 256 slots and 128
    /// KiB, Coll 128 slots and 128 KiB, Control 256 slots, Bulk 32 slots and 2 x 64 KiB. Up to 64, half the
    /// data for Eager and Coll, above, fewer of all, so that a pair takes 172 or 50 KiB instead of 300. A pool takes 2 MiB, twice
    /// what a second-level cache has today; of more than 64 ranks 512 KiB, of more than 256 128 KiB. Up to 64 ranks, the cells of two ranks take 260 KiB, and up to 16 ranks 1 MiB where they send each other messages of more than 256 KiB.
    pub fn for_ranks(ranks: u32) -> Geometry {
        let ranks = ranks.clamp(1, MAX_RANKS);
        let shape = Shape::new;
        let [eager, coll, control] = match ranks {
            ..=32 => [shape(256, 128 << 10, 64 << 10), shape(128, 128 << 10, 64 << 10), shape(256, 0, 16)],
            33..=64 => [shape(256, 64 << 10, 32 << 10), shape(128, 64 << 10, 32 << 10), shape(256, 0, 16)],
            _ => [shape(64, 16 << 10, 8 << 10), shape(64, 16 << 10, 8 << 10), shape(64, 0, 16)],
        };
        let shapes = [eager, coll, control, shape(32, 128 << 10, 64 << 10)];
        let rank_blocks = round(size_of::<Header>() as u64, PAGE);
        let boards = rank_blocks + u64::from(ranks) * PAGE;
        let board_bytes = match ranks as usize {
            2..=MEMBERS => round(u64::from(ranks) * AREA, PAGE),
            _ => 0,
        };
        let pair_areas = boards + u64::from(BOARDS) * board_bytes;
        let (mut slots, mut data) = ([0; 4], [0; 4]);
        let mut at = round(size_of::<PairHead>() as u64, PAGE);
        for class in [Class::Control, Class::Eager, Class::Coll] {
            slots[class.index()] = at;
            at += u64::from(shapes[class.index()].slots) * SLOT;
        }
        for class in [Class::Control, Class::Eager, Class::Coll] {
            data[class.index()] = at;
            at += u64::from(shapes[class.index()].data);
        }
        let bulk = round(at, PAGE);
        slots[3] = bulk + RECORD_BYTES;
        data[3] = round(slots[3] + u64::from(shapes[3].slots) * SLOT, PAGE);
        let pair_bytes = round(data[3] + u64::from(shapes[3].data), PAGE);
        let pools = pair_areas + u64::from(ranks) * u64::from(ranks) * pair_bytes;
        let pool_bytes = match ranks {
            ..=64 => 2 << 20,
            65..=256 => 512 << 10,
            _ => 128 << 10,
        };
        let long = pools + u64::from(ranks) * u64::from(pool_bytes);
        let long_boards = if board_bytes > 0 { MOST_LONG / (u64::from(ranks) * LONG) } else { 0 };
        let long_boards = long_boards.min(BOARDS.into()) as u32;
        let cells = long + u64::from(long_boards) * u64::from(ranks) * LONG;
        let pair_cells = match ranks {
            ..=16 => MOST_CELLS,
            17..=64 => FEW_CELLS,
            _ => 0,
        };
        let cell_bytes = round(cell_bytes(pair_cells).into(), PAGE);
        Geometry {
            ranks,
            shapes,
            rank_blocks,
            boards,
            board_bytes,
            pair_areas,
            slots,
            data,
            bulk,
            pair_bytes,
            pools,
            pool_bytes,
            long,
            long_boards,
            cells,
            pair_cells,
            cell_bytes,
            arena: 0,
        }
    }

    /// The same with a heap, of which each rank has `arena` bytes, rounded up to pages of 64 KiB. `None`: more than [`MAX_HEAP`].
    pub fn with_heap(self, arena: u64) -> Option<Geometry> {
        let arena = arena.checked_next_multiple_of(HEAP_PAGE)?;
        let heap = arena.checked_mul(u64::from(self.ranks))?;
        (heap <= MAX_HEAP).then_some(Geometry { arena, ..self })
    }

    /// Number of ranks.
    #[inline]
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Size of the segment in bytes, but for the heap; nearly all of it is a hole until ranks connect.
    pub fn bytes(&self) -> u64 {
        let ranks = u64::from(self.ranks);
        round(self.cells + ranks * (ranks - 1) / 2 * self.cell_bytes, HEAP_PAGE)
    }

    /// Size of the whole file in bytes.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.bytes() + self.heap_bytes()
    }

    /// Size of the heap in bytes, behind all else; a hole until somebody allocates from it.
    pub fn heap_bytes(&self) -> u64 {
        self.arena * u64::from(self.ranks)
    }

    /// Bytes of the heap that each rank may allocate.
    pub fn arena_bytes(&self) -> u64 {
        self.arena
    }

    /// Where in the heap a rank's part begins.
    pub(crate) fn arena(&self, rank: u32) -> u64 {
        u64::from(rank) * self.arena
    }

    /// Longest payload in bytes per class.
    pub fn max_payload(&self) -> [usize; 4] {
        self.shapes.map(|s| s.max_payload as usize)
    }

    /// Bytes that connecting two ranks allocates per direction: Eager, Coll and Control; Bulk.
    pub fn connection_bytes(&self) -> (u64, u64) {
        (self.bulk, self.pair_bytes - self.bulk)
    }

    /// Bytes that a rank's first long message allocates.
    pub fn pool_bytes(&self) -> u64 {
        self.pool_bytes.into()
    }

    /// A digest of everything above and of the sizes of the shared structures, written into the header.
    pub(crate) fn digest(&self) -> u64 {
        let mut parts = vec![
            u64::from(self.ranks),
            self.rank_blocks,
            self.boards,
            self.board_bytes,
            self.pair_areas,
            AREA,
            self.bulk,
            self.pair_bytes,
            u64::from(self.pool_bytes),
            self.long,
            LONG,
            self.cells,
            u64::from(self.pair_cells),
            self.cell_bytes,
            self.arena,
            size_of::<Header>() as u64,
            size_of::<RankBlock>() as u64,
            size_of::<PairHead>() as u64,
            size_of::<LaneHead>() as u64,
            BLOCK_STEP,
            BLOCK_PLACES,
            SLOT,
            RECORD_BYTES,
        ];
        parts.extend(self.slots.iter().chain(&self.data));
        parts.extend(self.shapes.iter().flat_map(|s| s.agreed().map(u64::from)));
        // FNV-1a over words: tells layouts apart, protects against nothing else.
        parts.iter().fold(0xcbf2_9ce4_8422_2325, |hash, part| (hash ^ part).wrapping_mul(0x0100_0000_01b3))
    }

    pub(crate) fn shape(&self, class: Class) -> Shape {
        self.shapes[class.index()]
    }

    /// Bytes from the start that exist from creation on: header, rank blocks and the world's board, which is the first.
    pub(crate) fn fixed_bytes(&self) -> u64 {
        self.boards + self.board_bytes
    }

    /// Offset and length of a board, if there is one of that number.
    pub(crate) fn board(&self, index: u32) -> Option<(u64, u64)> {
        let exists = self.board_bytes > 0 && index < BOARDS;
        exists.then(|| (self.boards + u64::from(index) * self.board_bytes, self.board_bytes))
    }

    /// Offset of a rank's area of a board.
    pub(crate) fn board_area(&self, index: u32, rank: u32) -> Option<u64> {
        self.board(index).filter(|_| rank < self.ranks).map(|(at, _)| at + u64::from(rank) * AREA)
    }

    /// How many boards have long memory: the first.
    pub fn long_boards(&self) -> u32 {
        self.long_boards
    }

    /// Offset of a rank's long memory of a board.
    pub(crate) fn board_long(&self, index: u32, rank: u32) -> Option<u64> {
        let at = u64::from(index) * u64::from(self.ranks) + u64::from(rank);
        self.board_area(index, rank).filter(|_| index < self.long_boards).map(|_| self.long + at * LONG)
    }

    /// A range of a rank's long memory of one board, if it is that.
    pub(crate) fn long_part(&self, rank: u32, at: u64, bytes: u64) -> Option<(u64, u64)> {
        let ends = at.checked_add(bytes)?;
        let is_in = |begins: &u64| *begins <= at && ends <= *begins + LONG;
        let mut own = (0..BOARDS).filter_map(|index| self.board_long(index, rank));
        own.any(|begins| is_in(&begins)).then_some((at, bytes))
    }

    /// Offset and length of the pages of a board that begin in the areas of the ranks from `first` to before `end`.
    pub(crate) fn board_part(&self, index: u32, first: u32, end: u32) -> Option<(u64, u64)> {
        let (at, bytes) = self.board(index)?;
        let page = |rank: u32| round(u64::from(rank) * AREA, PAGE).min(bytes);
        Some((at + page(first), page(end).saturating_sub(page(first))))
    }

    /// Offset of a rank's block. `rank` is below the number of ranks, here and below.
    #[inline]
    pub(crate) fn rank_block(&self, rank: u32) -> u64 {
        let rank = u64::from(rank);
        self.rank_blocks + rank * PAGE + rank % BLOCK_PLACES * BLOCK_STEP
    }

    /// Offset and length of the pages of the blocks of the ranks from `first` to before `end`, which are there.
    pub fn rank_pages(&self, first: u32, end: u32) -> (u64, u64) {
        (self.rank_blocks + u64::from(first) * PAGE, u64::from(end.saturating_sub(first)) * PAGE)
    }

    /// Offset of the area of an ordered pair.
    pub(crate) fn pair(&self, from: u32, to: u32) -> u64 {
        self.pair_areas + (u64::from(from) * u64::from(self.ranks) + u64::from(to)) * self.pair_bytes
    }

    /// Offset and length of what Eager, Coll and Control of an ordered pair of ranks need.
    pub fn small_part(&self, from: u32, to: u32) -> (u64, u64) {
        (self.pair(from, to), self.bulk)
    }

    /// Offset and length of what Bulk, records of single copies and the published receive of an ordered pair need beyond that.
    pub fn bulk_part(&self, from: u32, to: u32) -> (u64, u64) {
        (self.pair(from, to) + self.bulk, self.pair_bytes - self.bulk)
    }

    /// Offset of a record of single copies; part of what Bulk needs. `slot` is below [`RECORDS`], or that, for the
    /// published receive behind them.
    pub(crate) fn record(&self, from: u32, to: u32, slot: u32) -> u64 {
        self.pair(from, to) + self.bulk + u64::from(slot) * RECORD_STEP
    }

    /// Offset and length in bytes of a rank's pool.
    pub fn pool(&self, rank: u32) -> (u64, u32) {
        (self.pools + u64::from(rank) * u64::from(self.pool_bytes), self.pool_bytes)
    }

    /// Offset and length of the cells that two ranks have in common, in either order, which their first messages of such lengths allocate.
    pub fn cells(&self, a: u32, b: u32) -> Option<(u64, u64)> {
        let (low, high) = (u64::from(a.min(b)), u64::from(a.max(b)));
        let exists = self.cell_bytes > 0 && low < high && high < u64::from(self.ranks);
        exists.then(|| (self.cells + (high * (high - 1) / 2 + low) * self.cell_bytes, self.cell_bytes))
    }

    /// How many cells two ranks have in common at most.
    pub(crate) fn pair_cells(&self) -> u32 {
        self.pair_cells
    }

    /// Offset of a lane's slots and of its data.
    pub(crate) fn lane(&self, from: u32, to: u32, class: Class) -> (u64, u64) {
        let pair = self.pair(from, to);
        (pair + self.slots[class.index()], pair + self.data[class.index()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_overlap() {
        for ranks in [1, 2, 3, 32, 33, 64, 65, MAX_RANKS] {
            let g = Geometry::for_ranks(ranks);
            let mut parts = vec![(0, size_of::<PairHead>() as u64), (g.bulk, RECORD_BYTES)];
            for class in Class::ALL {
                let (slots, data) = (g.slots[class.index()], g.data[class.index()]);
                parts.push((slots, u64::from(g.shape(class).slots) * SLOT));
                parts.push((data, u64::from(g.shape(class).data)));
                assert!(g.shape(class).slots.is_power_of_two());
                let (data, max) = (g.shape(class).data, g.shape(class).max_payload);
                assert!(data == 0 || data.is_power_of_two() && data >= 2 * max && max.is_multiple_of(64));
            }
            parts.sort_unstable();
            for pair in parts.windows(2) {
                assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:?}");
            }
            assert!(parts.last().is_some_and(|(at, len)| at + len <= g.pair_bytes));
            for rank in 0..ranks {
                let (at, bytes) = g.rank_pages(rank, rank + 1);
                let (block, len) = (g.rank_block(rank), size_of::<RankBlock>() as u64);
                assert!(at.is_multiple_of(PAGE) && block.is_multiple_of(align_of::<RankBlock>() as u64));
                assert!(at <= block && block + len <= at + bytes && at + bytes <= g.boards);
            }
            assert!(g.rank_pages(0, ranks).0 >= size_of::<Header>() as u64);
            assert!(g.fixed_bytes() <= g.pair(0, 0));
            assert_eq!(g.board(0).is_some(), (2..=MEMBERS).contains(&(ranks as usize)));
            if let Some((last, bytes)) = g.board(BOARDS - 1) {
                assert!(last + bytes <= g.pair(0, 0));
                assert!(g.board_area(BOARDS - 1, ranks - 1).is_some_and(|at| at + AREA <= last + bytes));
                assert!(g.board(BOARDS).is_none() && g.board_area(0, ranks).is_none());
            }
            let (pools, pool_bytes) = g.pool(0);
            assert_eq!(g.pair(ranks - 1, ranks - 1) + g.pair_bytes, pools);
            assert!(pools.is_multiple_of(PAGE) && pool_bytes.is_power_of_two());
            assert_eq!(g.pool(ranks - 1).0 + u64::from(pool_bytes), g.long);
            assert!(g.long.is_multiple_of(PAGE) && LONG.is_multiple_of(PAGE));
            assert_eq!(g.long_boards() > 0, (2..=32).contains(&ranks));
            assert_eq!(g.board_long(g.long_boards(), 0), None);
            match g.board_long(g.long_boards().wrapping_sub(1), ranks - 1) {
                Some(last) => {
                    assert_eq!(last + LONG, g.cells);
                    assert_eq!(g.long_part(ranks - 1, last, LONG), Some((last, LONG)));
                    assert_eq!(g.long_part(ranks - 1, last + 1, LONG), None);
                    assert_eq!(g.long_part(0, last, PAGE), None, "another's");
                }
                None => assert_eq!(g.long, g.cells),
            }
            let mut cells: Vec<(u64, u64)> = (0..ranks.min(65))
                .flat_map(|a| {
                    (0..ranks.min(65)).filter_map(move |b| if a < b { g.cells(a, b) } else { None })
                })
                .collect();
            cells.sort_unstable();
            assert_eq!(cells.is_empty(), !(2..=64).contains(&ranks));
            assert!(cells.windows(2).all(|pair| pair[0].0 + pair[0].1 == pair[1].0));
            assert!(cells.first().is_none_or(|(at, _)| *at == g.cells));
            assert_eq!(round(cells.last().map_or(g.cells, |(at, len)| at + len), HEAP_PAGE), g.bytes());
            assert_eq!(g.cells(0, 1), g.cells(1, 0));
            assert!(g.cells(0, 0).is_none() && g.cells(0, ranks).is_none());
        }
    }

    #[test]
    fn a_heap_lies_behind_all_else_and_ends() {
        let g = Geometry::for_ranks(3);
        assert_eq!((g.heap_bytes(), g.file_bytes()), (0, g.bytes()));
        let with = g.with_heap((1 << 30) + 1).unwrap();
        assert_eq!((with.arena_bytes(), with.bytes()), ((1 << 30) + HEAP_PAGE, g.bytes()));
        assert!((1..=MAX_RANKS).all(|ranks| Geometry::for_ranks(ranks).bytes().is_multiple_of(HEAP_PAGE)));
        assert_eq!(with.file_bytes(), g.bytes() + 3 * with.arena_bytes());
        assert_eq!(with.arena(2) + with.arena_bytes(), with.heap_bytes());
        assert_ne!(with.digest(), g.digest());
        for too_much in [MAX_HEAP, u64::MAX, u64::MAX / 2, MAX_HEAP / 3 + HEAP_PAGE] {
            assert_eq!(g.with_heap(too_much), None);
        }
    }

    #[test]
    fn each_page_of_a_board_is_of_one_rank() {
        for ranks in [2, 3, 33, 64] {
            let g = Geometry::for_ranks(ranks);
            let (board, bytes) = g.board(1).unwrap();
            let mut next = board;
            for rank in 0..ranks {
                let (at, len) = g.board_part(1, rank, rank + 1).unwrap();
                assert!(at == next && at.is_multiple_of(PAGE) && len.is_multiple_of(PAGE));
                let area = g.board_area(1, rank).unwrap();
                assert!(at >= area && at < area + PAGE, "what begins before is the one before's");
                next = at + len;
            }
            assert_eq!(next, board + bytes);
            assert_eq!(g.board_part(1, 0, ranks), g.board(1));
            assert!(g.board_part(BOARDS, 0, 1).is_none());
        }
    }

    #[test]
    fn layouts_have_different_digests() {
        let digests: std::collections::HashSet<u64> =
            (1..=MAX_RANKS).map(|n| Geometry::for_ranks(n).digest()).collect();
        assert_eq!(digests.len(), MAX_RANKS as usize);
    }

    #[test]
    fn lanes_given_back_otherwise_have_another_digest() {
        let ships = Geometry::for_ranks(2);
        for class in Class::ALL {
            let mut other = ships;
            let shape = &mut other.shapes[class.index()];
            *shape = shape.with_grain(shape.slots);
            assert_ne!(other.digest(), ships.digest(), "{class:?}");
        }
    }
}
