//! Cells that two ranks have in common, and that go to and fro between them with their messages.
//!
//! A core that reads a line which another core has written mostly becomes its owner, so that the first one has to fetch it back before it writes
//! there again, while the reader might write there at once. So a rank puts long payloads for a peer where it has just read that peer's:
//! copying in then stays in its own cache, which was the quicker way wherever the cores were (2 to 4 % at 64 to 256 KiB where lines
//! come quickly from the other core, 12 to 20 % where they take long), so that nothing is [compared](super::stores) to it. Who sends one way only runs out of cells, and goes on with its pool.
//!
//! Messages of more than 256 KiB take as many as there are where [more](MOST) are allocated, which is done for who connects for such. What has no room there goes
//! through the pool. (Half round trips on an EPYC, with and without, by `bench pingpong`: 1 MiB 49 and 50 to 51 us, 2 MiB 105 and 109; with long pieces, too, 46 and 93.)
//!
//! A cell belongs to one of the two at any time, at first each has half of the first ones, and the rank with the lower number the others. Who sends a packet whose payload lies in cells gives them away with
//! it; who has taken the packet out has them. Nobody else says so, nobody waits for a cell, and what becomes of those that a rank has when it ends
//! does not matter. As long as somebody has cells, the lowest go first, so that few messages under way touch few lines.
//!
//! - *Progress class*: wait-free; at most [`MOST`] steps.
//! - *Who may call*: who holds the rank's engine token; handlers may.

use super::{LINE, Piece};

/// Bytes of a cell: 16 KiB, and a line for a payload that does not begin with one. (Their beginnings so differ in the bits by which a cache places
/// lines, too.)
const CELL: u32 = if cfg!(loom) { 128 } else { 16 * 1024 + LINE as u32 };
/// The first ones: as many as a message of 256 KiB takes, which together with its two buffers a second-level cache of today holds.
pub(crate) const FEW: u32 = 16;
/// All that two ranks may have: as many as a message of 1 MiB takes.
pub(crate) const MOST: u32 = 64;

/// Messages of more bytes have no payloads in the first ones alone: together with their buffers, the caches overflow, and the fewer different lines there are the better.
pub(crate) const LONGEST_IN_FEW: u64 = 256 * 1024;

/// Bytes of so many cells.
pub(crate) const fn bytes(cells: u32) -> u32 {
    CELL * cells
}

/// The first so many cells.
const fn first(cells: u32) -> u64 {
    match u64::MAX.checked_shr(u64::BITS.saturating_sub(cells)) {
        Some(bits) => bits,
        None => 0,
    }
}

/// Those of the rank with the higher number at first.
const HIGHER: u64 = first(FEW) & !first(FEW / 2);

/// A rank's cells of a pair.
#[derive(Debug)]
pub(crate) struct Shuttle {
    /// A bit for each cell that is this rank's, or would be if there were as many.
    mine: u64,
    /// As many are allocated.
    ready: u32,
}

impl Shuttle {
    /// The cells that a rank has at first in a pair with another.
    pub(crate) const fn new(lower: bool) -> Shuttle {
        Shuttle { mine: if lower { !HIGHER } else { HIGHER }, ready: 0 }
    }

    /// So many of the pair's cells are allocated, at least.
    pub(crate) fn make_ready(&mut self, cells: u32) {
        self.ready = self.ready.max(cells.min(MOST));
    }

    /// Whether a message of so many bytes may lie in cells.
    #[inline]
    pub(crate) fn takes(&self, of: u64) -> bool {
        self.ready > 0 && (of <= LONGEST_IN_FEW || self.ready > FEW)
    }

    /// Such and such cells.
    #[cfg(test)]
    pub(super) fn with(mine: u64, ready: u32) -> Shuttle {
        Shuttle { mine, ready }
    }

    /// Room for `len` bytes that begin `skew` bytes behind a line's beginning, if this rank has so many cells in a row. They are its own until they are
    /// [given](Self::give). `pool`: bytes of this rank's pool, behind which packets count the cells.
    #[inline]
    pub(crate) fn room(&self, base: *mut u8, skew: usize, len: usize, pool: u32) -> Option<Piece> {
        let size = u32::try_from(skew.checked_add(len)?).ok()?;
        if len == 0 || size > bytes(self.ready) {
            return None;
        }
        let mine = self.mine & first(self.ready);
        let in_a_row = if size <= CELL {
            mine
        } else {
            (1..size.div_ceil(CELL)).fold(mine, |run, i| run & mine.wrapping_shr(i))
        };
        if in_a_row == 0 {
            return None;
        }
        let at = in_a_row.trailing_zeros().wrapping_mul(CELL).wrapping_add(skew as u32);
        let cells = match size <= CELL {
            true => in_a_row & in_a_row.wrapping_neg(),
            false => covering(at, len as u32, bytes(self.ready))?,
        };
        let offset = pool.wrapping_add(at);
        Some(Piece { offset, at: base.wrapping_add(at as usize), start: 0, end: 0, cells })
    }

    /// A packet with these cells was sent.
    pub(crate) fn give(&mut self, cells: u64) {
        self.mine &= !cells;
    }

    /// A packet with these cells was taken out.
    pub(crate) fn take(&mut self, cells: u64) {
        self.mine |= cells;
    }
}

/// The cells in which a payload lies, of such as have so many bytes together; `None`: there are no such.
pub(super) fn covering(at: u32, len: u32, bytes: u32) -> Option<u64> {
    let last = at.checked_add(len)?.checked_sub(1).filter(|last| *last < bytes)? / CELL;
    Some(first(last.wrapping_add(1)) & !first(at / CELL))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const POOL: u32 = 2 << 20;

    fn ready(lower: bool, cells: u32) -> Shuttle {
        Shuttle::with(Shuttle::new(lower).mine, cells)
    }

    fn room(shuttle: &Shuttle, skew: usize, len: usize) -> Option<(u32, u64)> {
        let mut memory = [0u8; 1];
        let base = memory.as_mut_ptr();
        let piece = shuttle.room(base, skew, len, POOL)?;
        assert_eq!(piece.at as usize - base as usize, (piece.offset - POOL) as usize);
        Some((piece.offset - POOL, piece.cells))
    }

    #[test]
    fn each_cell_is_somebodys_at_first() {
        let (lower, higher) = (ready(true, MOST), ready(false, MOST));
        assert_eq!(lower.mine & higher.mine, 0);
        assert_eq!(lower.mine | higher.mine, first(MOST));
        assert_eq!((lower.mine & first(FEW)).count_ones(), (higher.mine & first(FEW)).count_ones());
        assert_eq!(room(&lower, 0, 1), Some((0, 1)));
        assert_eq!(room(&higher, 0, 1), Some((bytes(FEW / 2), 1 << (FEW / 2))));
        assert_eq!(room(&Shuttle::new(true), 0, 1), None, "not allocated yet");
    }

    #[test]
    fn what_is_given_is_the_others() {
        let (mut lower, mut higher) = (ready(true, FEW), ready(false, FEW));
        for (skew, len, count) in
            [(0, 16 << 10, 1), (63, 16 << 10, 1), (63, 64 << 10, 4), (0, 70_000, 5), (1, 1, 1)]
        {
            let before = (lower.mine, higher.mine);
            let (at, cells) = room(&lower, skew, len).unwrap();
            assert_eq!((at % 64, cells.count_ones()), (skew as u32, count));
            assert_eq!(covering(at, len as u32, bytes(FEW)), Some(cells));
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
        let mut shuttle = ready(true, FEW);
        shuttle.mine = 0b1110_1101;
        assert_eq!(room(&shuttle, 0, 2 * CELL as usize).map(|(at, _)| at), Some(2 * CELL));
        assert_eq!(room(&shuttle, 0, 3 * CELL as usize).map(|(at, _)| at), Some(5 * CELL));
        assert_eq!(room(&shuttle, 0, 4 * CELL as usize), None);
        for ready in [FEW, MOST] {
            let all = bytes(ready);
            let shuttle = Shuttle::with(u64::MAX, ready);
            assert_eq!(room(&shuttle, 0, all as usize), Some((0, first(ready))));
            assert_eq!(room(&shuttle, 1, all as usize), None);
            assert_eq!(room(&shuttle, usize::MAX, 2), None);
        }
    }

    #[test]
    fn what_is_not_allocated_is_no_room() {
        let mut shuttle = Shuttle::new(true);
        assert!(!shuttle.takes(1));
        shuttle.make_ready(FEW);
        assert!(shuttle.takes(LONGEST_IN_FEW) && !shuttle.takes(LONGEST_IN_FEW + 1));
        assert_eq!(room(&shuttle, 0, bytes(FEW / 2) as usize + 1), None, "though the next ones are its own");
        shuttle.make_ready(u32::MAX);
        assert!(shuttle.takes(u64::MAX));
        shuttle.make_ready(FEW);
        let long = room(&shuttle, 0, bytes(MOST - FEW) as usize);
        assert_eq!(long, Some((bytes(FEW), !first(FEW))), "they stay");
    }

    /// What is sent with a packet is what its receiver finds by its place and length.
    #[test]
    fn both_ends_name_the_same_cells() {
        for mine in [1, 2, 0b1000, 0b1011_0110, 1 << 15, u64::MAX] {
            let shuttle = Shuttle::with(mine, FEW);
            for cells in 1..=3usize {
                let border = cells * CELL as usize;
                for skew in [0, 1, 63] {
                    for len in [1, 2, border - skew - 1, border - skew, border - skew + 1] {
                        let Some((at, cells)) = room(&shuttle, skew, len) else { continue };
                        assert_eq!(
                            covering(at, len as u32, bytes(FEW)),
                            Some(cells),
                            "{mine:#b} {skew} {len}"
                        );
                        assert_eq!(cells & !mine, 0);
                    }
                }
            }
        }
    }

    #[test]
    fn nothing_lies_in_no_cell() {
        assert_eq!(covering(0, 0, bytes(FEW)), None);
        assert_eq!(room(&ready(true, FEW), 0, 0), None);
    }

    #[test]
    fn what_lies_behind_the_last_is_in_none() {
        for cells in [FEW, MOST] {
            let all = bytes(cells);
            assert_eq!(covering(all - 1, 1, all), Some(1 << (cells - 1)));
            for (at, len) in [(all - 1, 2), (all, 1), (u32::MAX, 1), (1, u32::MAX), (0, 0)] {
                assert_eq!(covering(at, len, all), None, "{at}, {len}");
            }
        }
        assert_eq!(covering(0, 1, 0), None, "there are none");
    }
}
