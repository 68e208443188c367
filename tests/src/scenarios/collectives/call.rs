//! One collective of a plan: what each rank's buffers hold, and what they must hold in the end.

use tocsin_nbc::order::Shape;
use tocsin_nbc::table::{Algorithm, Operation};
use tocsin_world::{Arguments, Block, Comm, DataType, Error, Op, RawRequest, UserOp};

use crate::memory::Buffer;
use crate::random::Random;

/// How elements, 8 bytes each, are combined.
#[derive(Clone, Copy, Debug)]
pub enum Combine {
    /// Integers: 0 sum, 1 minimum, 2 exclusive or.
    Integers(usize),
    /// The sum of floating-point numbers, in the order that the algorithm states.
    Floats,
    /// A user's operator that allocates and is not commutative.
    Affine,
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
}

/// The composition of affine maps `x -> a x + b`: associative, not commutative.
fn compose(left: u64, right: u64) -> u64 {
    let halves = |x: u64| (x as u32, (x >> 32) as u32);
    let ((a, b), (c, d)) = (halves(left), halves(right));
    u64::from(a.wrapping_mul(c)) | u64::from(a.wrapping_mul(d).wrapping_add(b)) << 32
}

/// As users write operators: where it may not run, its allocation aborts the program.
///
/// # Safety
/// `count` elements of 8 bytes are readable at `left` and `right`, and writable at `out`.
unsafe fn affine(_: *const (), left: *const u8, right: *const u8, out: *mut u8, count: usize) {
    let (left, right, out) = (left.cast::<u64>(), right.cast::<u64>(), out.cast::<u64>());
    // SAFETY: promised by the caller; nothing need be aligned.
    let of = |i| unsafe { compose(left.add(i).read_unaligned(), right.add(i).read_unaligned()) };
    let results: Vec<u64> = (0..count).map(of).collect();
    for (i, result) in results.into_iter().enumerate() {
        // SAFETY: promised by the caller.
        unsafe { out.add(i).write_unaligned(result) };
    }
}

impl Combine {
    /// The operator and the type of its elements.
    fn operator(self) -> (Op, DataType) {
        match self {
            Combine::Integers(which) => ([Op::Sum, Op::Min, Op::BXor][which % 3], DataType::U64),
            Combine::Floats => (Op::Sum, DataType::F64),
            Combine::Affine => {
                // SAFETY: `affine` takes elements of 8 bytes, and no context.
                (Op::User(unsafe { UserOp::new(affine, std::ptr::null(), false) }), DataType::Opaque(8))
            }
        }
    }

    fn two(self, a: u64, b: u64) -> u64 {
        match self {
            Combine::Integers(which) => match which % 3 {
                0 => a.wrapping_add(b),
                1 => a.min(b),
                _ => a ^ b,
            },
            Combine::Floats => (f64::from_bits(a) + f64::from_bits(b)).to_bits(),
            Combine::Affine => compose(a, b),
        }
    }
}

/// A rank's part in a call.
pub struct Part {
    pub send: Buffer,
    pub recv: Buffer,
    /// What `recv` holds in the end.
    pub expected: Vec<u8>,
    from: Vec<Block>,
    to: Vec<Block>,
    counts: Vec<usize>,
}

fn extent(blocks: &[Block]) -> usize {
    blocks.iter().filter_map(Block::end).max().unwrap_or(0)
}

fn put(buffer: &mut [u8], at: Block, words: &[u64]) {
    let places = at.runs().flat_map(|(start, bytes)| (start..start + bytes).step_by(8));
    for (place, word) in places.zip(words) {
        buffer[place..place + 8].copy_from_slice(&word.to_le_bytes());
    }
}

impl Call {
    /// Whether the algorithm takes the operator.
    pub fn is_allowed(&self) -> bool {
        let commutative = !matches!(self.combine, Combine::Affine) || !self.operation.is_reduction();
        commutative || !self.algorithm.restrictions.commutative
    }

    fn random(&self, a: u32, b: u32) -> Random {
        Random::new(self.seed ^ u64::from(a) << 32 ^ u64::from(b) << 12)
    }

    /// What rank `from` has for rank `to`; its vector, where that is for all.
    fn contribution(&self, from: u32, to: u32, elements: usize) -> Vec<u64> {
        let mut random = self.random(from, to);
        random = Random::new(random.bits() ^ self.run.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        if matches!(self.combine, Combine::Floats) {
            // Of very different sizes, so that the order of a sum shows in its last bits.
            let mut float = |_| (random.bits() as f64 - 9e18) * 0.5_f64.powi(random.below(90) as i32);
            return (0..elements).map(|i| float(i).to_bits()).collect();
        }
        (0..elements).map(|_| random.bits()).collect()
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
        matches!(
            self.operation,
            Operation::Iscatterv
                | Operation::Igatherv
                | Operation::Iallgatherv
                | Operation::Ialltoallv
                | Operation::Ialltoallw
                | Operation::IreduceScatter
        )
    }

    /// Elements of a rank's own block, or of its part of a reduction.
    fn own(&self, rank: u32) -> usize {
        if self.is_uneven() { self.uneven(rank, rank) } else { self.elements }
    }

    /// Blocks of these many elements: backwards with gaps, or in pieces between those of the others, where they may stand
    /// anywhere; else side by side.
    fn placed(&self, elements: impl Iterator<Item = usize>, ranks: u32) -> Vec<Block> {
        if self.is_uneven() && self.seed.is_multiple_of(3) {
            let piece = [8, 24, 800][self.seed as usize / 3 % 3];
            let width = piece + 16;
            let spread = |(rank, n): (usize, usize)| {
                let count = (n * 8).div_ceil(piece);
                let mut block = Block::strided(8 + rank * width, count, piece, ranks as usize * width);
                // The last piece is often shorter.
                block.bytes = n * 8;
                block
            };
            return elements.enumerate().map(spread).collect();
        }
        let gap = if self.is_uneven() { 24 } else { 0 };
        let mut blocks: Vec<Block> = elements.map(|n| Block::new(0, n * 8)).collect();
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
    fn reduced(&self, comm: &Comm, whole: usize, start: usize, elements: usize) -> Vec<u64> {
        let (me, ranks) = (comm.rank(), comm.size());
        let part = |rank: u32| self.contribution(rank, 0, whole)[start..start + elements].to_vec();
        let two = |a: Vec<u64>, b: Vec<u64>| -> Vec<u64> {
            a.into_iter().zip(b).map(|(a, b)| self.combine.two(a, b)).collect()
        };
        if !matches!(self.combine, Combine::Floats) {
            let last = match self.operation {
                Operation::Iscan => me + 1,
                Operation::Iexscan => me,
                _ => ranks,
            };
            return (1..last).fold(part(0), |sum, rank| two(sum, part(rank)));
        }
        let order = self.algorithm.order.unwrap_or_else(|| panic!("{} states no order", self.algorithm.name));
        let hierarchy = comm.hierarchy();
        let mut total = vec![0; elements];
        for share in order(&Shape { ranks, count: elements, root: self.root, rank: me, hierarchy }) {
            let range = share.elements;
            let value = share.order.evaluate(&|rank| part(rank)[range.clone()].to_vec(), &two);
            total[range].copy_from_slice(&value);
        }
        total
    }

    /// Buffers of this rank, ready for the call.
    pub fn part(&self, comm: &Comm) -> Part {
        let (me, ranks) = (comm.rank(), comm.size());
        let is_root = me == self.root;
        let single = |n: usize| vec![Block::new(0, n * 8)];
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
            let words = self.contribution(me, addressee, block.bytes / 8);
            put(&mut send, *block, &words);
            if let Some(at) = in_place_at.filter(|_| self.is_in_place(me)) {
                let mut place = to[at + other as usize];
                place.bytes = block.bytes;
                put(&mut recv, place, &words);
            }
        }
        if self.operation == Operation::Ibcast && is_root {
            put(&mut recv, to[0], &self.contribution(me, 0, own));
        }
        let mut expected = recv.clone();
        let from_all = |addressee: u32| {
            let words = |(other, block): (u32, &Block)| self.contribution(other, addressee, block.bytes / 8);
            (0..).zip(&to).map(words).collect::<Vec<_>>()
        };
        let results = match self.operation {
            Operation::Ibarrier => Vec::new(),
            Operation::Ibcast => vec![self.contribution(self.root, 0, own)],
            Operation::Iscatter | Operation::Iscatterv if self.is_in_place(me) => Vec::new(),
            Operation::Iscatter | Operation::Iscatterv => vec![self.contribution(self.root, me, own)],
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
        for (block, words) in to.iter().zip(&results) {
            put(&mut expected, *block, words);
        }
        Part { send: send.into(), recv: recv.into(), expected, from, to, counts }
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
        let (block, bytes, count, root) = (self.elements * 8, self.own(me) * 8, self.elements, self.root);
        let (op, data_type) = self.combine.operator();
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
        let own = self.own(comm.rank());
        let (bytes, count, root, name) = (self.elements * 8, self.elements, self.root, algorithm);
        let (op, kind) = self.combine.operator();
        let exchanged = send.map(|send| (send, &part.from[..]));
        // SAFETY: the buffers are as long as the operation asks; how long they live is the caller's promise.
        unsafe {
            match self.operation {
                Operation::Ibarrier => comm.ibarrier_raw(name),
                Operation::Ibcast => comm.ibcast_raw(to, bytes, root, name),
                Operation::Iscatter => comm.iscatter_raw(from, recv, bytes, root, name),
                Operation::Iscatterv => comm.iscatterv_raw(from, &part.from, recv, own * 8, root, name),
                Operation::Igather => comm.igather_raw(send, to, bytes, root, name),
                Operation::Igatherv => comm.igatherv_raw(send, own * 8, to, &part.to, root, name),
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
