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
            Layout::Equal(bytes) => Block::new(bytes * rank, bytes),
            Layout::Displaced(blocks) => blocks.get(rank).copied().unwrap_or_default(),
        }
    }

    /// Bytes of a rank's block.
    pub(super) fn bytes(&self, rank: u32) -> usize {
        self.block(rank).bytes
    }

    /// Where a rank's block begins.
    pub(super) fn at(&self, rank: u32) -> Mem {
        self.base.at(self.block(rank).offset)
    }

    /// A rank's block and where it stands.
    pub(super) fn spot(&self, rank: u32) -> Spot {
        Spot { base: self.base, block: self.block(rank) }
    }

    /// Whether some of them have pieces.
    pub(super) fn is_strided(&self) -> bool {
        match self.layout {
            Layout::Equal(_) => false,
            Layout::Displaced(blocks) => blocks.iter().any(Block::is_strided),
        }
    }

    /// Bytes of the blocks of several ranks.
    pub(super) fn sum(&self, ranks: Range<u32>) -> usize {
        match self.layout {
            Layout::Equal(bytes) => bytes * ranks.len(),
            Layout::Displaced(_) => ranks.map(|rank| self.bytes(rank)).sum(),
        }
    }

    /// The first of some ranks' blocks that stand side by side: where they begin, their bytes, and the rank after them. Empty ones stand
    /// anywhere.
    pub(super) fn run(&self, ranks: Range<u32>) -> (Mem, usize, u32) {
        let (start, bytes, end) = match self.layout {
            Layout::Equal(block) => (block * ranks.start as usize, block * ranks.len(), ranks.end),
            Layout::Displaced(_) => {
                let (mut start, mut bytes, mut end) = (0, 0, ranks.start);
                for block in ranks.map(|rank| self.block(rank)) {
                    if block.bytes > 0 && bytes == 0 {
                        start = block.offset;
                    } else if block.bytes > 0 && start + bytes != block.offset {
                        break;
                    }
                    bytes += block.bytes;
                    end += 1;
                }
                (start, bytes, end)
            }
        };
        (self.base.at(start), bytes, end)
    }

    /// Memory in which the blocks of ranks 0 to `size` - 1 stand side by side, if they do.
    pub(super) fn side_by_side(&self, size: u32) -> Option<Mem> {
        if let Layout::Equal(_) = self.layout {
            return Some(self.base);
        }
        // What is empty stands nowhere.
        let mut blocks = (0..size).map(|rank| self.block(rank)).filter(|block| block.bytes > 0);
        let Some(Block { offset: first, bytes, .. }) = blocks.next() else { return Some(self.base) };
        let mut end = first + bytes;
        let packed = blocks.all(|block| {
            let follows = block.offset == end;
            end += block.bytes;
            follows
        });
        packed.then(|| self.base.at(first))
    }
}

/// A block that may have pieces. Messages are of one run: what has pieces goes through a temporary.
#[derive(Clone, Copy)]
pub(super) struct Spot {
    base: Mem,
    block: Block,
}

impl Spot {
    /// One run.
    pub(super) fn run(base: Mem, bytes: usize) -> Spot {
        Spot { base, block: Block::new(0, bytes) }
    }

    pub(super) fn bytes(&self) -> usize {
        self.block.bytes
    }

    fn start(&self) -> Mem {
        self.base.at(self.block.offset)
    }

    /// The same bytes in one run, and the step that must precede its use.
    pub(super) fn packed(&self, b: &mut ScheduleBuilder) -> (Mem, Option<StepId>) {
        if !self.block.is_strided() {
            return (self.start(), None);
        }
        let run = b.temp(self.block.bytes);
        (run, Some(b.pack(self.base, &self.block, run, &[])))
    }

    /// Receives it, unless it is empty; the step after which it is there.
    pub(super) fn receive(
        &self,
        b: &mut ScheduleBuilder,
        from: u32,
        round: u32,
        after: &[StepId],
    ) -> Option<StepId> {
        let bytes = self.block.bytes;
        if bytes == 0 {
            return None;
        }
        if !self.block.is_strided() {
            return Some(b.recv(from, round, self.start(), bytes, after));
        }
        let run = b.temp(bytes);
        let arrived = b.recv(from, round, run, bytes, after);
        Some(b.unpack(run, self.base, &self.block, &[arrived]))
    }

    /// Sends it to who does nothing after, unless it is empty.
    pub(super) fn send(&self, b: &mut ScheduleBuilder, to: u32, round: u32) -> Option<StepId> {
        self.send_after(b, to, round, &[])
    }

    /// The same after some steps.
    pub(super) fn send_after(
        &self,
        b: &mut ScheduleBuilder,
        to: u32,
        round: u32,
        after: &[StepId],
    ) -> Option<StepId> {
        if self.block.bytes == 0 {
            return None;
        }
        let (run, ready) = self.packed(b);
        let after: Vec<StepId> = after.iter().copied().chain(ready).collect();
        Some(b.send_last(to, round, run, self.block.bytes, &after))
    }
}

/// Copies a block to where another of its length stands, unless that is where it is, or it is empty.
pub(super) fn put_block(b: &mut ScheduleBuilder, from: &Spot, to: &Spot, after: &[StepId]) -> Option<StepId> {
    match (from.block.is_strided(), to.block.is_strided()) {
        (false, false) => put(b, from.start(), to.start(), to.block.bytes, after),
        (true, false) => Some(b.pack(from.base, &from.block, to.start(), after)),
        (false, true) => Some(b.unpack(from.start(), to.base, &to.block, after)),
        (true, true) => {
            let run = b.temp(from.block.bytes);
            let packed = b.pack(from.base, &from.block, run, after);
            Some(b.unpack(run, to.base, &to.block, &[packed]))
        }
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
