//! One collective of a plan: what each rank's buffers hold, and what they must hold in the end.

use std::ops::Range;

use tocsin_nbc::order::Shape;
use tocsin_nbc::table::{Algorithm, Operation};
use tocsin_world::{Arguments, Block, Comm, DataType, Error, Op, RawRequest, UserOp};

use super::values::{combine, compose, is_float};
use super::{space, supply};
use crate::memory::Buffer;
use crate::random::Random;

/// Elements of the pieces that blocks are in.
pub const PIECES: [usize; 3] = [1, 3, 100];

/// How elements are combined, and of which type they are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Combine {
    pub op: Op,
    pub data_type: DataType,
}

/// A collective, as all ranks call it.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub operation: Operation,
    pub algorithm: &'static Algorithm,
    pub combine: Combine,
    pub seed: u64,
    /// Which time it is started: the contents are others each time.
    pub run: u64,
    /// Of the vector, or of the longest block.
    pub elements: usize,
    pub root: u32,
    pub in_place: bool,
    /// Blocks that may stand anywhere are in pieces of so many elements; else backwards, with gaps.
    pub pieces: Option<usize>,
}

/// As users write operators: where it may not run, its allocation aborts the program.
///
/// # Safety
/// `count` elements of 8 bytes are readable at `left` and `right`, and writable at `out`.
unsafe fn affine(_: *const (), left: *const u8, right: *const u8, out: *mut u8, count: usize) {
    let (left, right, out) = (left.cast::<u64>(), right.cast::<u64>(), out.cast::<u64>());
    // SAFETY: promised by the caller; nothing need be aligned.
    let of = |i| unsafe { (left.add(i).read_unaligned(), right.add(i).read_unaligned()) };
    let halves = |x: u64| (x as u32, (x >> 32) as u32);
    let two = |(left, right)| compose(halves(left), halves(right));
    let results: Vec<u64> =
        (0..count).map(of).map(two).map(|(a, b)| u64::from(a) | u64::from(b) << 32).collect();
    for (i, result) in results.into_iter().enumerate() {
        // SAFETY: promised by the caller.
        unsafe { out.add(i).write_unaligned(result) };
    }
}

impl Combine {
    /// The sum of floating-point numbers, in the order that the algorithm states.
    pub const FLOATS: Combine = Combine { op: Op::Sum, data_type: DataType::F64 };

    /// Sum, minimum or exclusive or of integers.
    pub fn integers(which: usize) -> Combine {
        Combine { op: [Op::Sum, Op::Min, Op::BXor][which % 3], data_type: DataType::U64 }
    }

    /// A user's operator that allocates and is not commutative.
    pub fn affine() -> Combine {
        // SAFETY: `affine` takes elements of 8 bytes, and no context.
        let op = Op::User(unsafe { UserOp::new(affine, std::ptr::null(), false) });
        Combine { op, data_type: DataType::Opaque(8) }
    }

    /// Every operator with every type that it takes.
    pub fn all() -> impl Iterator<Item = Combine> {
        let operators = space::operators(Combine::affine().op).into_iter().flatten();
        operators.flat_map(|op| {
            let types = space::types().into_iter().filter(move |data_type| space::combines(*data_type, op));
            types.map(move |data_type| Combine { op, data_type })
        })
    }

    /// Whether the order of operands shows in the result.
    pub fn is_float(self) -> bool {
        is_float(self.data_type)
    }

    /// Whether the operator is a user's.
    pub fn is_users(self) -> bool {
        matches!(self.op, Op::User(_))
    }

    /// Bytes of an element.
    pub fn size(self) -> usize {
        self.data_type.size()
    }

    fn two(self, a: &[u8], b: &[u8]) -> Vec<u8> {
        combine(self.data_type, self.op, a, b)
    }
}

/// A rank's part in a call.
pub struct Part {
    pub send: Buffer,
    pub recv: Buffer,
    /// What `recv` holds in the end.
    pub expected: Vec<u8>,
    /// What it may hold, too, where the order of operands is not known.
    pub others: Vec<Vec<u8>>,
    from: Vec<Block>,
    to: Vec<Block>,
    counts: Vec<usize>,
}

impl Part {
    /// Has the buffers lie where such lots [have them](Buffer::share).
    pub fn share(&mut self, comm: &Comm, lots: u64) {
        for (buffer, lot) in [(&mut self.send, lots), (&mut self.recv, lots >> 1)] {
            *buffer = std::mem::replace(buffer, Vec::new().into()).share(comm, lot);
        }
    }
}

fn extent(blocks: &[Block]) -> usize {
    blocks.iter().filter_map(Block::end).max().unwrap_or(0)
}

fn put(buffer: &mut [u8], at: Block, mut bytes: &[u8]) {
    for (start, length) in at.runs() {
        let (now, rest) = bytes.split_at(length.min(bytes.len()));
        buffer[start..start + now.len()].copy_from_slice(now);
        bytes = rest;
    }
}

impl Call {
    /// Whether the algorithm takes the operator.
    pub fn is_allowed(&self) -> bool {
        let commutative = self.combine.op.is_commutative() || !self.operation.is_reduction();
        commutative || !self.algorithm.restrictions.commutative
    }

    fn random(&self, a: u32, b: u32) -> Random {
        Random::new(self.seed ^ u64::from(a) << 32 ^ u64::from(b) << 12)
    }

    /// What rank `from` has for rank `to`; its vector, where that is for all.
    fn contribution(&self, from: u32, to: u32, bytes: usize) -> Vec<u8> {
        self.part_of(from, to, bytes, 0..bytes)
    }

    /// Some bytes of it, which has so many.
    fn part_of(&self, from: u32, to: u32, bytes: usize, part: Range<usize>) -> Vec<u8> {
        let mut random = self.random(from, to);
        let lot = Random::new(random.bits() ^ self.run.wrapping_mul(0x9e37_79b9_7f4a_7c15)).bits();
        supply::cut(self.combine.data_type, lot, bytes, part)
    }

    /// Pieces for blocks, by lot: often none.
    pub fn any_pieces(seed: u64) -> Option<usize> {
        seed.is_multiple_of(3).then(|| PIECES[seed as usize / 3 % PIECES.len()])
    }

    /// Elements of an uneven block from one rank to another; in place, MPI asks for as many the other way.
    fn uneven(&self, from: u32, to: u32) -> usize {
        let (a, b) = if self.in_place { (from.min(to), from.max(to)) } else { (from, to) };
        match self.random(a + 1, b + 1).below(4) {
            0 => 0,
            1 => self.elements,
            2 => self.elements / 2,
            _ => self.elements.min(1),
        }
    }

    fn is_uneven(&self) -> bool {
        self.operation == Operation::IreduceScatter || space::has_layout(self.operation)
    }

    /// Elements of a rank's own block, or of its part of a reduction.
    fn own(&self, rank: u32) -> usize {
        if self.is_uneven() { self.uneven(rank, rank) } else { self.elements }
    }

    /// Blocks of these many elements: backwards with gaps, or in pieces between those of the others, where they may stand
    /// anywhere; else side by side.
    fn placed(&self, elements: impl Iterator<Item = usize>, ranks: u32) -> Vec<Block> {
        let size = self.combine.size();
        if let Some(piece) = self.pieces.filter(|_| self.is_uneven()) {
            let piece = piece * size;
            let width = piece + 16;
            let spread = |(rank, n): (usize, usize)| {
                let count = (n * size).div_ceil(piece);
                let mut block = Block::strided(8 + rank * width, count, piece, ranks as usize * width);
                // The last piece is often shorter.
                block.bytes = n * size;
                block
            };
            return elements.enumerate().map(spread).collect();
        }
        let gap = if self.is_uneven() { 24 } else { 0 };
        let mut blocks: Vec<Block> = elements.map(|n| Block::new(0, n * size)).collect();
        let mut next = 0;
        for i in 0..ranks as usize {
            let rank = if self.is_uneven() { ranks as usize - 1 - i } else { i };
            blocks[rank].offset = next + gap;
            next += gap + blocks[rank].bytes;
        }
        blocks
    }

    fn is_in_place(&self, rank: u32) -> bool {
        let may = !matches!(self.operation, Operation::Ibarrier | Operation::Ibcast);
        self.in_place && may && (!self.operation.has_root() || rank == self.root)
    }

    /// The reduction, for this rank: elements `start` to `start + elements` of the whole.
    fn reduced(&self, comm: &Comm, whole: usize, start: usize, elements: usize) -> Vec<u8> {
        let (me, ranks, size) = (comm.rank(), comm.size(), self.combine.size());
        let bytes = start * size..(start + elements) * size;
        let part = |rank: u32| self.part_of(rank, 0, whole * size, bytes.clone());
        let two = |a: Vec<u8>, b: Vec<u8>| self.combine.two(&a, &b);
        if !self.combine.is_float() {
            let last = match self.operation {
                Operation::Iscan => me + 1,
                Operation::Iexscan => me,
                _ => ranks,
            };
            return (1..last).fold(part(0), |sum, rank| two(sum, part(rank)));
        }
        let order = self.algorithm.order.unwrap_or_else(|| panic!("{} states no order", self.algorithm.name));
        let hierarchy = comm.hierarchy();
        let parts: Vec<Vec<u8>> = (0..ranks).map(part).collect();
        let mut total = vec![0; elements * size];
        for share in order(&Shape { ranks, count: elements, root: self.root, rank: me, hierarchy }) {
            let range = share.elements.start * size..share.elements.end * size;
            let value = share.order.evaluate(&|rank| parts[rank as usize][range.clone()].to_vec(), &two);
            total[range].copy_from_slice(&value);
        }
        total
    }

    /// Buffers of this rank, ready for the call.
    pub fn part(&self, comm: &Comm) -> Part {
        let (me, ranks) = (comm.rank(), comm.size());
        let is_root = me == self.root;
        let size = self.combine.size();
        let single = |n: usize| vec![Block::new(0, n * size)];
        let all = || self.placed((0..ranks).map(|rank| self.own(rank)), ranks);
        let sent = || self.placed((0..ranks).map(|rank| self.uneven(me, rank)), ranks);
        let received = || self.placed((0..ranks).map(|rank| self.uneven(rank, me)), ranks);
        let own = self.own(me);
        let counts: Vec<usize> = (0..ranks).map(|rank| self.own(rank)).collect();
        let whole: usize = counts.iter().sum();
        let start: usize = counts[..me as usize].iter().sum();
        let (from, to) = match self.operation {
            Operation::Ibarrier => (Vec::new(), Vec::new()),
            Operation::Ibcast => (Vec::new(), single(own)),
            Operation::Iscatter | Operation::Iscatterv => {
                (if is_root { all() } else { Vec::new() }, single(own))
            }
            Operation::Igather | Operation::Igatherv => {
                (single(own), if is_root { all() } else { Vec::new() })
            }
            Operation::Iallgather | Operation::Iallgatherv => (single(own), all()),
            Operation::Ialltoall => (all(), all()),
            Operation::Ialltoallv | Operation::Ialltoallw => (sent(), received()),
            Operation::IreduceScatter | Operation::IreduceScatterBlock => (single(whole), single(own)),
            Operation::Ireduce => (single(own), if is_root { single(own) } else { Vec::new() }),
            _ => (single(own), single(own)),
        };
        let mut room = extent(&to);
        if self.operation.is_reduction() && self.is_in_place(me) {
            room = room.max(extent(&from));
        }
        let (mut send, mut recv) = (vec![0x5b; extent(&from)], vec![0x5b; room]);
        // What is the same for all ranks counts as something for rank 0.
        let addressed = matches!(
            self.operation,
            Operation::Iscatter
                | Operation::Iscatterv
                | Operation::Ialltoall
                | Operation::Ialltoallv
                | Operation::Ialltoallw
        );
        let in_place_at = match self.operation {
            Operation::Iscatter | Operation::Iscatterv => None,
            Operation::Igather | Operation::Igatherv => Some(me as usize),
            Operation::Iallgather | Operation::Iallgatherv => Some(me as usize),
            _ => Some(0),
        };
        for (other, block) in (0..).zip(&from) {
            let addressee = if addressed { other } else { 0 };
            let bytes = self.contribution(me, addressee, block.bytes);
            put(&mut send, *block, &bytes);
            if let Some(at) = in_place_at.filter(|_| self.is_in_place(me)) {
                let mut place = to[at + other as usize];
                place.bytes = block.bytes;
                put(&mut recv, place, &bytes);
            }
        }
        if self.operation == Operation::Ibcast && is_root {
            put(&mut recv, to[0], &self.contribution(me, 0, own * size));
        }
        let mut expected = recv.clone();
        let from_all = |addressee: u32| {
            let sent = |(other, block): (u32, &Block)| self.contribution(other, addressee, block.bytes);
            (0..).zip(&to).map(sent).collect::<Vec<_>>()
        };
        let results = match self.operation {
            Operation::Ibarrier => Vec::new(),
            Operation::Ibcast => vec![self.contribution(self.root, 0, own * size)],
            Operation::Iscatter | Operation::Iscatterv if self.is_in_place(me) => Vec::new(),
            Operation::Iscatter | Operation::Iscatterv => vec![self.contribution(self.root, me, own * size)],
            Operation::Igather | Operation::Igatherv => from_all(0),
            Operation::Iallgather | Operation::Iallgatherv => from_all(0),
            Operation::Ialltoall | Operation::Ialltoallv | Operation::Ialltoallw => from_all(me),
            Operation::IreduceScatter | Operation::IreduceScatterBlock => {
                vec![self.reduced(comm, whole, start, own)]
            }
            Operation::Ireduce if !is_root => Vec::new(),
            Operation::Iexscan if me == 0 => Vec::new(),
            _ => vec![self.reduced(comm, own, 0, own)],
        };
        for (block, bytes) in to.iter().zip(&results) {
            put(&mut expected, *block, bytes);
        }
        let others = Vec::new();
        Part { send: send.into(), recv: recv.into(), expected, others, from, to, counts }
    }

    /// Other contents for the next run, in the same buffers; to be followed by a start.
    pub fn refill(&self, part: &mut Part, comm: &Comm) {
        let next = self.part(comm);
        part.send.copy_from_slice(&next.send);
        part.recv.copy_from_slice(&next.recv);
        part.expected = next.expected;
    }

    /// The rank's part, as the library is told of it.
    fn arguments<'a>(&self, me: u32, part: &'a mut Part) -> Arguments<'a> {
        let in_place = self.is_in_place(me);
        let (from, to) = (part.send.as_ptr(), part.recv.as_mut_ptr());
        let (send, recv) = ((!in_place).then_some(from), (!in_place).then_some(to));
        let Part { from: blocks, to: places, counts, .. } = part;
        let size = self.combine.size();
        let (block, bytes, count, root) =
            (self.elements * size, self.own(me) * size, self.elements, self.root);
        let Combine { op, data_type } = self.combine;
        let exchanged = send.map(|send| (send, &blocks[..]));
        match self.operation {
            Operation::Ibarrier => Arguments::Ibarrier,
            Operation::Ibcast => Arguments::Ibcast { buffer: to, bytes: block, root },
            Operation::Iscatter => Arguments::Iscatter { send: from, recv, block, root },
            Operation::Iscatterv => Arguments::Iscatterv { send: from, blocks, recv, bytes, root },
            Operation::Igather => Arguments::Igather { send, recv: to, block, root },
            Operation::Igatherv => Arguments::Igatherv { send, bytes, recv: to, blocks: places, root },
            Operation::Iallgather => Arguments::Iallgather { send, recv: to, block },
            Operation::Iallgatherv => Arguments::Iallgatherv { send, recv: to, blocks: places },
            Operation::Ialltoall => Arguments::Ialltoall { send, recv: to, block },
            Operation::Ialltoallv => Arguments::Ialltoallv { send: exchanged, recv: to, blocks: places },
            Operation::Ialltoallw => Arguments::Ialltoallw { send: exchanged, recv: to, blocks: places },
            Operation::Ireduce => Arguments::Ireduce { send, recv: to, count, data_type, op, root },
            Operation::Iallreduce => Arguments::Iallreduce { send, recv: to, count, data_type, op },
            Operation::IreduceScatter => Arguments::IreduceScatter { send, recv: to, counts, data_type, op },
            Operation::IreduceScatterBlock => {
                Arguments::IreduceScatterBlock { send, recv: to, count, data_type, op }
            }
            Operation::Iscan => Arguments::Iscan { send, recv: to, count, data_type, op },
            Operation::Iexscan => Arguments::Iexscan { send, recv: to, count, data_type, op },
            other => panic!("no scenario for {other}"),
        }
    }

    /// Prepares the rank's part, to be started again and again in the same buffers.
    pub fn prepare(&self, comm: &Comm, part: &mut Part) -> Result<RawRequest, Error> {
        comm.prepare_raw(&self.arguments(comm.rank(), part), Some(self.algorithm.name))
    }

    /// Starts the rank's part.
    ///
    /// # Safety
    /// The part's buffers stay where they are, untouched, until the request is complete.
    pub unsafe fn start(
        &self,
        comm: &Comm,
        part: &mut Part,
        algorithm: Option<&str>,
    ) -> Result<RawRequest, Error> {
        let in_place = self.is_in_place(comm.rank());
        let (from, to) = (part.send.as_ptr(), part.recv.as_mut_ptr());
        let (send, recv) = ((!in_place).then_some(from), (!in_place).then_some(to));
        let size = self.combine.size();
        let own = self.own(comm.rank()) * size;
        let (bytes, count, root, name) = (self.elements * size, self.elements, self.root, algorithm);
        let Combine { op, data_type: kind } = self.combine;
        let exchanged = send.map(|send| (send, &part.from[..]));
        // SAFETY: the buffers are as long as the operation asks; how long they live is the caller's promise.
        unsafe {
            match self.operation {
                Operation::Ibarrier => comm.ibarrier_raw(name),
                Operation::Ibcast => comm.ibcast_raw(to, bytes, root, name),
                Operation::Iscatter => comm.iscatter_raw(from, recv, bytes, root, name),
                Operation::Iscatterv => comm.iscatterv_raw(from, &part.from, recv, own, root, name),
                Operation::Igather => comm.igather_raw(send, to, bytes, root, name),
                Operation::Igatherv => comm.igatherv_raw(send, own, to, &part.to, root, name),
                Operation::Iallgather => comm.iallgather_raw(send, to, bytes, name),
                Operation::Iallgatherv => comm.iallgatherv_raw(send, to, &part.to, name),
                Operation::Ialltoall => comm.ialltoall_raw(send, to, bytes, name),
                Operation::Ialltoallv => comm.ialltoallv_raw(exchanged, to, &part.to, name),
                Operation::Ialltoallw => comm.ialltoallw_raw(exchanged, to, &part.to, name),
                Operation::Ireduce => comm.ireduce_raw(send, to, count, kind, op, root, name),
                Operation::Iallreduce => comm.iallreduce_raw(send, to, count, kind, op, name),
                Operation::IreduceScatter => comm.ireduce_scatter_raw(send, to, &part.counts, kind, op, name),
                Operation::IreduceScatterBlock => {
                    comm.ireduce_scatter_block_raw(send, to, count, kind, op, name)
                }
                Operation::Iscan => comm.iscan_raw(send, to, count, kind, op, name),
                Operation::Iexscan => comm.iexscan_raw(send, to, count, kind, op, name),
                other => panic!("no scenario for {other}"),
            }
        }
    }
}
