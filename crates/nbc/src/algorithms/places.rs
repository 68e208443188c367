//! One block per rank in the user's memory: all of one length and side by side, or each where the user wants it.

use crate::builder::{Mem, ScheduleBuilder, StepId};
use crate::table::Block;
use std::ops::Range;

#[derive(Clone, Copy)]
pub(super) struct Places<'a> {
    base: Mem,
    layout: Layout<'a>,
}

#[derive(Clone, Copy)]
enum Layout<'a> {
    Equal(usize),
    Displaced(&'a [Block]),
}

impl<'a> Places<'a> {
    pub(super) fn equal(base: Mem, block: usize) -> Places<'a> {
        Places { base, layout: Layout::Equal(block) }
    }

    pub(super) fn displaced(base: Mem, blocks: &'a [Block]) -> Places<'a> {
        Places { base, layout: Layout::Displaced(blocks) }
    }

    fn block(&self, rank: u32) -> Block {
        let rank = rank as usize;
        match self.layout {
            Layout::Equal(bytes) => Block { offset: bytes * rank, bytes },
            Layout::Displaced(blocks) => blocks.get(rank).copied().unwrap_or_default(),
        }
    }

    /// Bytes of a rank's block.
    pub(super) fn bytes(&self, rank: u32) -> usize {
        self.block(rank).bytes
    }

    /// Where a rank's block stands.
    pub(super) fn at(&self, rank: u32) -> Mem {
        self.base.at(self.block(rank).offset)
    }

    /// Bytes of the blocks of several ranks.
    pub(super) fn sum(&self, ranks: Range<u32>) -> usize {
        match self.layout {
            Layout::Equal(bytes) => bytes * ranks.len(),
            Layout::Displaced(_) => ranks.map(|rank| self.bytes(rank)).sum(),
        }
    }

    /// Memory in which the blocks of ranks 0 to `size` - 1 stand side by side, if they do.
    pub(super) fn side_by_side(&self, size: u32) -> Option<Mem> {
        let first = self.block(0).offset;
        let mut end = first;
        let packed = (0..size).all(|rank| {
            let block = self.block(rank);
            let follows = block.bytes == 0 || block.offset == end;
            end += block.bytes;
            follows
        });
        packed.then(|| self.base.at(first))
    }
}

/// Copies a rank's block to its place, unless it stands there or is empty.
pub(super) fn put(
    b: &mut ScheduleBuilder,
    from: Mem,
    to: Mem,
    bytes: usize,
    after: &[StepId],
) -> Option<StepId> {
    (bytes > 0 && from != to).then(|| b.copy(from, to, bytes, after))
}
