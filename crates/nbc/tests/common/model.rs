//! The sequential model: what each rank's buffers hold afterwards, computed without the crate's kernels.

use super::Random;
use super::values::{combine, compose, is_float};
use tocsin_nbc::table::{Algorithm, Block, Operation};
use tocsin_nbc::{DataType, Op, UserOp, order::Shape};

pub const AFFINE: DataType = DataType::Opaque(8);

/// As a user writes it: it allocates, and must not run in a handler.
///
/// # Safety
/// As `tocsin_nbc::UserFunction`, with elements of two `u32`.
pub unsafe fn affine(_: *const (), left: *const u8, right: *const u8, out: *mut u8, count: usize) {
    assert!(!super::driver::in_handler(), "a user operator runs in a handler");
    let values: Vec<(u32, u32)> = (0..count)
        // SAFETY: - promised by the caller.
        .map(|i| unsafe { compose(pair(left, i), pair(right, i)) })
        .collect();
    for (i, value) in values.into_iter().enumerate() {
        // SAFETY: - promised by the caller.
        unsafe { out.cast::<[u32; 2]>().add(i).write_unaligned([value.0, value.1]) };
    }
}

/// # Safety
/// `i` is the index of a readable element.
unsafe fn pair(memory: *const u8, i: usize) -> (u32, u32) {
    // SAFETY: - promised by the caller.
    let [a, b] = unsafe { memory.cast::<[u32; 2]>().add(i).read_unaligned() };
    (a, b)
}

pub fn affine_op() -> Op {
    // SAFETY: - `affine` keeps to the contract for elements of type AFFINE; its context is unused.
    Op::User(unsafe { UserOp::new(affine, std::ptr::null(), false) })
}

/// A call, as all ranks make it.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub operation: Operation,
    pub algorithm: Option<&'static str>,
    pub root: u32,
    pub data_type: DataType,
    pub op: Op,
    pub count: usize,
    pub in_place: bool,
    /// Of the lengths of blocks and where they stand.
    pub layout: u64,
}

/// How all ranks' blocks stand that may stand anywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    Packed = 1,
    Gaps,
    Backwards,
    Pieces,
}

impl Layout {
    pub const ALL: [Layout; 4] = [Layout::Packed, Layout::Gaps, Layout::Backwards, Layout::Pieces];

    /// For [`Case::layout`]: each rank's as they fall.
    pub fn any(word: u64) -> u64 {
        word << 4 >> 4
    }

    /// For [`Case::layout`]: so, whatever the rest of the word says.
    pub fn of(self, word: u64) -> u64 {
        Layout::any(word) | (self as u64) << 60
    }
}

/// Where a rank's blocks stand, in the form that is not in place.
#[derive(Clone, Debug, Default)]
pub struct Sides {
    pub send: Vec<Block>,
    pub recv: Vec<Block>,
}

/// Bytes of a buffer with these blocks.
pub fn extent(blocks: &[Block]) -> usize {
    blocks.iter().filter_map(Block::end).max().unwrap_or(0)
}

/// Writes what a block holds.
pub fn put(buffer: &mut [u8], block: &Block, mut bytes: &[u8]) {
    for (at, length) in block.runs() {
        let (now, rest) = bytes.split_at(length);
        buffer[at..at + length].copy_from_slice(now);
        bytes = rest;
    }
    assert!(bytes.is_empty());
}

impl Case {
    /// Bytes of the vector, or of an equal block.
    fn unit(&self) -> usize {
        self.count * self.data_type.size()
    }

    fn word(&self, a: usize, b: usize) -> u64 {
        Random(self.layout ^ (a as u64) << 32 ^ (b as u64) << 8).word()
    }

    /// Elements of an uneven block from one rank to another; as many the other way in the in-place forms, which need it.
    fn uneven(&self, from: usize, to: usize) -> usize {
        let (a, b) = if self.in_place { (from.min(to), from.max(to)) } else { (from, to) };
        match self.word(a, b) % 4 {
            0 => 0,
            1 => self.count,
            2 => self.count / 2,
            _ => self.count.min(1),
        }
    }

    /// Blocks of these lengths, anywhere: in rank order or not, with gaps or without, in pieces between those of the others
    /// or in one.
    fn placed(&self, lengths: Vec<usize>, owner: usize, side: usize) -> Vec<Block> {
        let word = self.word(owner, 0x7000 + side);
        // All alike, where the layout asks for it.
        let word = match Layout::ALL.iter().find(|layout| **layout as u64 == self.layout >> 60) {
            Some(Layout::Packed) => word & !0x63,
            Some(Layout::Gaps) => word & !0x70 | 1,
            Some(Layout::Backwards) => word & !0x60 | 0x11,
            Some(Layout::Pieces) => word | 0x60,
            None => word,
        };
        if word & 96 == 96 {
            return self.spread(lengths, word);
        }
        let (gaps, backwards, n) =
            (!word.is_multiple_of(4), word & 16 > 0 && !word.is_multiple_of(4), lengths.len());
        let mut blocks = vec![Block::default(); n];
        let mut offset = 0;
        for i in 0..n {
            let rank = if backwards { n - 1 - i } else { i };
            let bytes = lengths[rank] * self.data_type.size();
            offset += if gaps { self.word(owner, 0x7100 + i) as usize % 3 * 8 } else { 0 };
            blocks[rank] = Block::new(offset, bytes);
            offset += bytes;
        }
        blocks
    }

    /// Pieces of a few or of many elements, as the columns of a matrix; the last one is often shorter.
    fn spread(&self, lengths: Vec<usize>, word: u64) -> Vec<Block> {
        let (n, size, most) =
            (lengths.len(), self.data_type.size(), lengths.iter().max().copied().unwrap_or(0));
        let piece = size * [1, 3, 40, most / 3 + 1][(word >> 7) as usize % 4];
        let width = piece + (word >> 9) as usize % 2 * 8;
        let place = |(rank, length): (usize, usize)| {
            let (bytes, column) = (length * size, if word & 16 > 0 { n - 1 - rank } else { rank });
            let mut block = Block::strided(column * width, bytes.div_ceil(piece), piece, n * width);
            block.bytes = bytes;
            block
        };
        lengths.into_iter().enumerate().map(place).collect()
    }

    fn equal(&self, blocks: usize) -> Vec<Block> {
        (0..blocks).map(|i| Block::new(i * self.unit(), self.unit())).collect()
    }

    /// Elements of each rank's part of a reduce-scatter.
    pub fn counts(&self, ranks: usize) -> Vec<usize> {
        let uneven = self.operation == Operation::IreduceScatter;
        (0..ranks).map(|rank| if uneven { self.uneven(rank, rank) } else { self.count }).collect()
    }

    /// Bytes of the receive buffer: of its blocks, or of the input that stands there in place.
    pub fn room(&self, rank: usize, sides: &Sides) -> usize {
        let recv = extent(&sides.recv);
        if self.operation.is_reduction() && self.is_in_place(rank) {
            recv.max(extent(&sides.send))
        } else {
            recv
        }
    }

    /// One block of so many elements.
    fn single(&self, elements: usize) -> Vec<Block> {
        vec![Block::new(0, elements * self.data_type.size())]
    }

    pub fn sides(&self, rank: usize, ranks: usize) -> Sides {
        let is_root = rank == self.root as usize;
        let all = |uneven: bool| match uneven {
            true => self.placed((0..ranks).map(|r| self.uneven(r, r)).collect(), rank, 0),
            false => self.equal(ranks),
        };
        let at_root = |uneven: bool| if is_root { all(uneven) } else { Vec::new() };
        let one = |uneven: bool| self.single(if uneven { self.uneven(rank, rank) } else { self.count });
        let sent = || self.placed((0..ranks).map(|other| self.uneven(rank, other)).collect(), rank, 0);
        let received = || self.placed((0..ranks).map(|other| self.uneven(other, rank)).collect(), rank, 1);
        let (send, recv) = match self.operation {
            Operation::Ibarrier => (Vec::new(), Vec::new()),
            Operation::Ibcast => (Vec::new(), one(false)),
            Operation::Iscatter => (at_root(false), one(false)),
            Operation::Iscatterv => (at_root(true), one(true)),
            Operation::Igather => (one(false), at_root(false)),
            Operation::Igatherv => (one(true), at_root(true)),
            Operation::Iallgather => (one(false), all(false)),
            Operation::Iallgatherv => (one(true), all(true)),
            Operation::Ialltoall => (all(false), all(false)),
            Operation::Ialltoallv | Operation::Ialltoallw => (sent(), received()),
            Operation::Ireduce => (one(false), if is_root { one(false) } else { Vec::new() }),
            Operation::IreduceScatter | Operation::IreduceScatterBlock => {
                let counts = self.counts(ranks);
                let whole = self.single(counts.iter().sum());
                (whole, self.single(counts[rank]))
            }
            _ => (one(false), one(false)),
        };
        Sides { send, recv }
    }

    /// Whether this rank makes the call in its in-place form.
    pub fn is_in_place(&self, rank: usize) -> bool {
        match self.operation {
            Operation::Ibarrier | Operation::Ibcast => false,
            _ => self.in_place && (!self.operation.has_root() || rank == self.root as usize),
        }
    }

    /// Which of a rank's receive blocks its first send block stands in, in the in-place form. None: a scatter's root
    /// sends from where the blocks are anyway.
    pub fn input_at(&self, rank: usize) -> Option<usize> {
        match self.operation {
            Operation::Iscatter | Operation::Iscatterv => None,
            Operation::Igather | Operation::Igatherv => Some(rank),
            Operation::Iallgather | Operation::Iallgatherv => Some(rank),
            _ => Some(0),
        }
    }

    /// What a rank's receive blocks hold at the end, given what each rank's send blocks hold (the root's buffer, for a
    /// broadcast). `None`: nothing is received.
    pub fn results(
        &self,
        rank: usize,
        algorithm: &Algorithm,
        inputs: &[Vec<Vec<u8>>],
    ) -> Option<Vec<Vec<u8>>> {
        let (ranks, root) = (inputs.len(), self.root as usize);
        let gathered = || inputs.iter().map(|blocks| blocks[0].clone()).collect::<Vec<_>>();
        match self.operation {
            Operation::Ibarrier => None,
            Operation::Ibcast => Some(inputs[root].clone()),
            Operation::Iscatter | Operation::Iscatterv => {
                (!self.is_in_place(rank)).then(|| vec![inputs[root][rank].clone()])
            }
            Operation::Igather | Operation::Igatherv => (rank == root).then(gathered),
            Operation::Iallgather | Operation::Iallgatherv => Some(gathered()),
            Operation::Ialltoall | Operation::Ialltoallv | Operation::Ialltoallw => {
                Some((0..ranks).map(|from| inputs[from][rank].clone()).collect())
            }
            Operation::Ireduce => (rank == root).then(|| vec![self.reduced(rank, algorithm, &gathered())]),
            Operation::IreduceScatter | Operation::IreduceScatterBlock => {
                let counts = self.counts(ranks);
                let size = self.data_type.size();
                let start = counts[..rank].iter().sum::<usize>() * size;
                let part = |all: &Vec<Vec<u8>>| all[0][start..start + counts[rank] * size].to_vec();
                Some(vec![self.reduced(rank, algorithm, &inputs.iter().map(part).collect::<Vec<_>>())])
            }
            Operation::Iexscan if rank == 0 => None,
            _ => Some(vec![self.reduced(rank, algorithm, &gathered())]),
        }
    }

    /// The result of `rank`, given what each rank contributes to it.
    fn reduced(&self, rank: usize, algorithm: &Algorithm, inputs: &[Vec<u8>]) -> Vec<u8> {
        let (size, op) =
            (self.data_type.size(), |a: Vec<u8>, b: Vec<u8>| combine(self.data_type, self.op, &a, &b));
        if !is_float(self.data_type) {
            let parts = match self.operation {
                Operation::Iscan => &inputs[..=rank],
                Operation::Iexscan => &inputs[..rank],
                _ => inputs,
            };
            return parts[1..].iter().fold(parts[0].clone(), |a, b| op(a, b.clone()));
        }
        let count = inputs[0].len() / size;
        let ranks = inputs.len() as u32;
        let hierarchy = super::driver::hierarchy(ranks);
        let hierarchy = hierarchy.as_deref();
        let shape = Shape { ranks, count, root: self.root, rank: rank as u32, hierarchy };
        let mut out = vec![0; count * size];
        for share in algorithm.order.expect("a reduction states its order")(&shape) {
            let bytes = share.elements.start * size..share.elements.end * size;
            let value = share.order.evaluate(&|rank| inputs[rank as usize][bytes.clone()].to_vec(), &op);
            out[bytes].copy_from_slice(&value);
        }
        out
    }
}
