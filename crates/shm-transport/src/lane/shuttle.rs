//! Cells that two ranks have in common, and that go to and fro between them with their messages.
//!
//! A core that reads a line which another core has written mostly becomes its owner, so that the first one has to fetch it back before it writes
//! there again, while the reader might write there at once. So a rank puts long payloads for a peer where it has just read that peer's:
//! copying in then stays in its own cache, which was the quicker way wherever the cores were (2 to 4 % at 64 to 256 KiB where lines
//! come quickly from the other core, 12 to 20 % where they take long), so that nothing is [compared](super::stores) to it. Who sends one way only runs out of cells, and goes on with its pool.
//!
//! A cell belongs to one of the two at any time, at first each has half of them. Who sends a packet whose payload lies in cells gives them away with
//! it; who has taken the packet out has them. Nobody else says so, nobody waits for a cell, and what becomes of those that a rank has when it ends
//! does not matter. As long as somebody has cells, the lowest go first, so that few messages under way touch few lines.
//!
//! - *Progress class*: wait-free; at most [`CELLS`] steps.
//! - *Who may call*: who holds the rank's engine token; handlers may.

use super::{LINE, Piece};

/// Bytes of a cell: 16 KiB, and a line for a payload that does not begin with one. (Their beginnings so differ in the bits by which a cache places
/// lines, too.)
const CELL: u32 = if cfg!(loom) { 128 } else { 16 * 1024 + LINE as u32 };
/// How many there are: as much as a message of 256 KiB takes, which together with its two buffers a second-level cache of today holds.
const CELLS: u32 = 16;
/// All of them.
pub(crate) const BYTES: u32 = CELL * CELLS;

/// Messages of more bytes have no payloads in cells: together with their buffers, the caches overflow, and the fewer different lines there are the better.
pub(crate) const LONGEST: u64 = 256 * 1024;

/// Those of the rank with the lower number at first.
const LOWER: u32 = (1 << (CELLS / 2)) - 1;

/// A rank's cells of a pair.
#[derive(Debug)]
pub(crate) struct Shuttle {
    /// A bit for each cell that is this rank's.
    mine: u32,
    /// They are allocated.
    pub(crate) ready: bool,
}

impl Shuttle {
    /// The cells that a rank has at first in a pair with another.
    pub(crate) const fn new(lower: bool) -> Shuttle {
        Shuttle { mine: if lower { LOWER } else { LOWER << (CELLS / 2) }, ready: false }
    }

    /// Such and such cells.
    #[cfg(test)]
    pub(super) fn with(mine: u32) -> Shuttle {
        Shuttle { mine, ready: true }
    }

    /// Room for `len` bytes that begin `skew` bytes behind a line's beginning, if this rank has so many cells in a row. They are its own until they are
    /// [given](Self::give). `pool`: bytes of this rank's pool, behind which packets count the cells.
    pub(crate) fn room(&self, base: *mut u8, skew: usize, len: usize, pool: u32) -> Option<Piece> {
        let size = u32::try_from(skew.checked_add(len)?).ok().filter(|size| self.ready && *size <= BYTES)?;
        let count = size.div_ceil(CELL);
        let in_a_row = (1..count).fold(self.mine, |run, i| run & self.mine.wrapping_shr(i));
        if in_a_row == 0 {
            return None;
        }
        let at = in_a_row.trailing_zeros().wrapping_mul(CELL).wrapping_add(skew as u32);
        let cells = covering(at, len as u32)?;
        let offset = pool.wrapping_add(at);
        Some(Piece { offset, at: base.wrapping_add(at as usize), start: 0, end: 0, cells })
    }

    /// A packet with these cells was sent.
    pub(crate) fn give(&mut self, cells: u32) {
        self.mine &= !cells;
    }

    /// A packet with these cells was taken out.
    pub(crate) fn take(&mut self, cells: u32) {
        self.mine |= cells;
    }
}

/// The cells in which a payload lies; `None`: there are no such.
pub(super) fn covering(at: u32, len: u32) -> Option<u32> {
    let last = at.checked_add(len)?.checked_sub(1).filter(|last| *last < BYTES)? / CELL;
    let first = at / CELL;
    let below = |cell: u32| 1u32.wrapping_shl(cell).wrapping_sub(1);
    Some(below(last.wrapping_add(1)) & !below(first))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const POOL: u32 = 2 << 20;

    fn ready(lower: bool) -> Shuttle {
        Shuttle::with(Shuttle::new(lower).mine)
    }

    fn room(shuttle: &Shuttle, skew: usize, len: usize) -> Option<(u32, u32)> {
        let mut memory = [0u8; 1];
        let base = memory.as_mut_ptr();
        let piece = shuttle.room(base, skew, len, POOL)?;
        assert_eq!(piece.at as usize - base as usize, (piece.offset - POOL) as usize);
        Some((piece.offset - POOL, piece.cells))
    }

    #[test]
    fn each_has_half_at_first() {
        let (lower, higher) = (ready(true), ready(false));
        assert_eq!(lower.mine & higher.mine, 0);
        assert_eq!(lower.mine | higher.mine, (1 << CELLS) - 1);
        assert_eq!(room(&lower, 0, 1), Some((0, 1)));
        assert_eq!(room(&higher, 0, 1), Some((CELLS / 2 * CELL, 1 << (CELLS / 2))));
        assert_eq!(room(&Shuttle::new(true), 0, 1), None, "not allocated yet");
    }

    #[test]
    fn what_is_given_is_the_others() {
        let (mut lower, mut higher) = (ready(true), ready(false));
        for (skew, len, count) in
            [(0, 16 << 10, 1), (63, 16 << 10, 1), (63, 64 << 10, 4), (0, 70_000, 5), (1, 1, 1)]
        {
            let before = (lower.mine, higher.mine);
            let (at, cells) = room(&lower, skew, len).unwrap();
            assert_eq!((at % 64, cells.count_ones()), (skew as u32, count));
            assert_eq!(covering(at, len as u32), Some(cells));
            lower.give(cells);
            assert_eq!(lower.mine & cells, 0);
            higher.take(cells);
            assert_eq!(room(&higher, skew, len), Some((at, cells)), "where it was read");
            higher.give(cells);
            lower.take(cells);
            assert_eq!((lower.mine, higher.mine), before);
        }
    }

    #[test]
    fn only_cells_in_a_row_are_room() {
        let mut shuttle = ready(true);
        shuttle.mine = 0b1110_1101;
        assert_eq!(room(&shuttle, 0, 2 * CELL as usize).map(|(at, _)| at), Some(2 * CELL));
        assert_eq!(room(&shuttle, 0, 3 * CELL as usize).map(|(at, _)| at), Some(5 * CELL));
        assert_eq!(room(&shuttle, 0, 4 * CELL as usize), None);
        shuttle.mine = (1 << CELLS) - 1;
        assert_eq!(room(&shuttle, 0, BYTES as usize), Some((0, (1 << CELLS) - 1)));
        assert_eq!(room(&shuttle, 1, BYTES as usize), None);
        assert_eq!(room(&shuttle, usize::MAX, 2), None);
    }

    #[test]
    fn what_lies_behind_the_last_is_in_none() {
        assert_eq!(covering(BYTES - 1, 1), Some(1 << (CELLS - 1)));
        for (at, len) in [(BYTES - 1, 2), (BYTES, 1), (u32::MAX, 1), (1, u32::MAX), (0, 0)] {
            assert_eq!(covering(at, len), None, "{at}, {len}");
        }
    }
}
