//! Where a block stands in its buffer.

use crate::schedule::Pieces;

/// A block of a buffer whose blocks stand anywhere in it: one run of bytes, or pieces of one length at equal distances.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Block {
    /// Bytes from the start of the buffer to its first byte.
    pub offset: usize,
    /// Its length: that of all its pieces together.
    pub bytes: usize,
    /// Nothing in one run.
    pieces: Pieces,
}

impl Block {
    /// One run of `bytes` bytes.
    pub const fn new(offset: usize, bytes: usize) -> Block {
        Block { offset, bytes, pieces: Pieces { length: 0, stride: 0 } }
    }

    /// `count` pieces of `length` bytes each, whose starts lie `stride` bytes apart, as those of MPI_Type_vector: a column of
    /// a matrix, say. Pieces that overlap, where `stride` is less than `length`, are refused by the call that is given them.
    pub const fn strided(offset: usize, count: usize, length: usize, stride: usize) -> Block {
        let bytes = count.saturating_mul(length);
        if count <= 1 || stride == length {
            return Block::new(offset, bytes);
        }
        Block { offset, bytes, pieces: Pieces { length, stride } }
    }

    /// As many bytes in these pieces, the last of which may be shorter.
    pub(crate) const fn of_pieces(offset: usize, bytes: usize, pieces: Pieces) -> Block {
        Block { offset, bytes, pieces }
    }

    /// Whether it has more than one piece.
    pub const fn is_strided(&self) -> bool {
        self.pieces.length > 0 && self.pieces.length < self.bytes
    }

    /// The first byte after it; `None` if that is beyond all addresses.
    pub fn end(&self) -> Option<usize> {
        if !self.is_strided() {
            return self.offset.checked_add(self.bytes);
        }
        let before = self.bytes.div_ceil(self.pieces.length) - 1;
        let last = self.bytes - before * self.pieces.length;
        before.checked_mul(self.pieces.stride)?.checked_add(last)?.checked_add(self.offset)
    }

    /// Its pieces, from the first to the last: offset from the start of the buffer, and length. For one that has an
    /// [`end`](Self::end).
    pub fn runs(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (first, bytes, Pieces { length, stride }) = (self.offset, self.bytes, self.pieces());
        (0..bytes.div_ceil(length.max(1))).map(move |i| (first + i * stride, length.min(bytes - i * length)))
    }

    /// How far its pieces are apart; one run is one piece.
    pub(crate) fn pieces(&self) -> Pieces {
        if self.is_strided() { self.pieces } else { Pieces { length: self.bytes, stride: self.bytes } }
    }

    /// Whether two of its pieces have a byte in common.
    pub(super) fn overlaps_itself(&self) -> bool {
        self.is_strided() && self.pieces.stride < self.pieces.length
    }

    /// Whether two blocks that do not overlap themselves, and have an end, have a byte in common.
    pub(crate) fn overlaps(&self, other: &Block) -> bool {
        if self.bytes == 0 || other.bytes == 0 {
            return false;
        }
        let (first, second) = if self.offset <= other.offset { (self, other) } else { (other, self) };
        if first.end() <= Some(second.offset) {
            return false;
        }
        let (a, b) = (first.pieces(), second.pieces());
        if a.stride == b.stride {
            // What the first piece of the later one meets, or does not, comes again at each of the others.
            return second.runs().take(1).any(|run| first.touches(run));
        }
        let (few, many) = match first.bytes / a.length.max(1) < second.bytes / b.length.max(1) {
            true => (first, second),
            false => (second, first),
        };
        few.runs().any(|run| many.touches(run))
    }

    /// Whether a run of bytes has one in common with it.
    fn touches(&self, (start, bytes): (usize, usize)) -> bool {
        let Pieces { length, stride } = self.pieces();
        // Of the pieces that begin before the run ends, the last reaches farthest.
        let Some(reach) = (start + bytes).checked_sub(self.offset + 1) else { return false };
        let last = (reach / stride.max(1)).min(self.bytes.div_ceil(length.max(1)) - 1);
        self.offset + last * stride + length.min(self.bytes - last * length) > start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_piece_is_one_run() {
        assert_eq!(Block::strided(5, 1, 8, 3), Block::new(5, 8));
        assert_eq!(Block::strided(5, 3, 8, 8), Block::new(5, 24));
        assert_eq!(Block::strided(5, 0, 8, 9).bytes, 0);
        assert!(!Block::strided(5, 3, 0, 9).is_strided());
        assert_eq!(Block::strided(5, 3, 2, 9).end(), Some(25));
        assert_eq!(Block::strided(5, 3, 2, 9).runs().collect::<Vec<_>>(), [(5, 2), (14, 2), (23, 2)]);
        assert_eq!(Block::new(5, 0).runs().count(), 0);
        assert_eq!(Block::strided(1, usize::MAX, 2, 3).end(), None);
        assert_eq!(Block::strided(1, 3, 2, usize::MAX).end(), None);
        // Its length may be changed: the last piece is then shorter.
        let shorter = Block { bytes: 5, ..Block::strided(5, 3, 2, 9) };
        assert_eq!(shorter.runs().collect::<Vec<_>>(), [(5, 2), (14, 2), (23, 1)]);
        assert_eq!(shorter.end(), Some(24));
    }

    /// Few and short pieces, of which the last is a byte shorter or not.
    fn all() -> Vec<Block> {
        let mut all = vec![Block::new(0, 0)];
        for (count, length, gap) in (0..4 * 3 * 4).map(|i| (1 + i / 12, 1 + i / 4 % 3, i % 4)) {
            let block = Block::strided(0, count, length, length + gap);
            all.extend([block, Block { bytes: block.bytes - 1, ..block }]);
        }
        all
    }

    #[test]
    fn blocks_overlap_where_bytes_do() {
        let bytes = |block: &Block| -> Vec<usize> { block.runs().flat_map(|(at, n)| at..at + n).collect() };
        for a in all() {
            assert_eq!((bytes(&a).len(), a.overlaps_itself()), (a.bytes, false));
            assert_eq!(bytes(&a).last().map_or(a.end(), |last| Some(last + 1)), a.end());
            for b in all() {
                for offset in 0..20 {
                    let b = Block { offset, ..b };
                    let theirs = bytes(&b);
                    let both = bytes(&a).iter().any(|byte| theirs.contains(byte));
                    assert_eq!((a.overlaps(&b), b.overlaps(&a)), (both, both), "{a:?}, {b:?}");
                }
            }
        }
    }
}
