//! Members of a board, one after the other: what they post, who is rung, how it ends.

use super::driver::{Machine, Rank};
use super::network::{End, network};
use tocsin_nbc::messages::{Envelope, Messages};
use tocsin_nbc::table::{self, Arguments};
use tocsin_nbc::{DataType, Error, Nbc, Op, Posted};
use tocsin_progress::budget::Budget;
use tocsin_progress::completion::{Code, Outcome};
use tocsin_progress::slots::Id;
use tocsin_transport::board::Area;

/// What the ranks may disagree about.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    Barrier,
    Bcast(u32),
    Reduce(u32),
    Allreduce,
    Scatter(u32),
    Gather(u32),
    ReduceScatter,
    Scan,
    Exscan,
}

impl Kind {
    /// Any, with any root.
    pub fn any(random: &mut super::Random, ranks: u32) -> Kind {
        let root = random.below(ranks as usize) as u32;
        let rooted = [Kind::Bcast(root), Kind::Reduce(root), Kind::Scatter(root), Kind::Gather(root)];
        let others = [Kind::Barrier, Kind::Allreduce, Kind::ReduceScatter, Kind::Scan, Kind::Exscan];
        if random.chance(50) { *random.pick(&rooted) } else { *random.pick(&others) }
    }
}

/// Numbers that a rank of a few has for each collective: one for each rank, of blocks.
pub const NUMBERS: usize = 8;

/// Posts an allreduce of so many numbers on a rank.
pub fn post<M: Messages>(lower: &mut M, nbc: &mut Nbc, me: u32, numbers: &mut [u64]) -> Posted {
    post_kind(lower, nbc, (2, me), Kind::Allreduce, numbers)
}

/// Posts a collective on a rank of so many, on the board, and waits for it.
pub fn post_kind<M: Messages>(
    lower: &mut M,
    nbc: &mut Nbc,
    place: (u32, u32),
    kind: Kind,
    numbers: &mut [u64],
) -> Posted {
    let posted = post_as(lower, nbc, place, (kind, Way::Board), 0, numbers);
    nbc.want_all(lower);
    posted
}

/// How a collective is done.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Way {
    Board,
    Messages,
}

/// Posts a collective with a sequence number on a rank of so many.
pub fn post_as<M: Messages>(
    lower: &mut M,
    nbc: &mut Nbc,
    (ranks, me): (u32, u32),
    (kind, way): (Kind, Way),
    sequence: u32,
    numbers: &mut [u64],
) -> Posted {
    let group = super::driver::group(ranks, me).with_board(0);
    let (recv, count, data_type, op) = (numbers.as_mut_ptr().cast(), numbers.len(), DataType::U64, Op::Sum);
    let send = None;
    let arguments = match kind {
        Kind::Barrier => Arguments::Ibarrier,
        Kind::Bcast(root) => Arguments::Ibcast { buffer: recv, bytes: 8 * count, root },
        Kind::Reduce(root) if root == me => Arguments::Ireduce { send, recv, count, data_type, op, root },
        Kind::Reduce(root) => {
            Arguments::Ireduce { send: Some(recv.cast_const()), recv, count, data_type, op, root }
        }
        Kind::Allreduce => Arguments::Iallreduce { send, recv, count, data_type, op },
        Kind::Scatter(root) => {
            Arguments::Iscatter { send: recv, recv: (root != me).then_some(recv), block: 8, root }
        }
        Kind::Gather(root) if root == me => Arguments::Igather { send, recv, block: 8, root },
        Kind::Gather(root) => Arguments::Igather { send: Some(recv.cast_const()), recv, block: 8, root },
        Kind::ReduceScatter => Arguments::IreduceScatterBlock { send, recv, count: 1, data_type, op },
        Kind::Scan => Arguments::Iscan { send, recv, count, data_type, op },
        Kind::Exscan => Arguments::Iexscan { send, recv, count, data_type, op },
    };
    if way == Way::Board {
        let mut call = table::call_on_board(&group, &arguments, None).unwrap().unwrap();
        call.number(sequence);
        // SAFETY: the tests keep the numbers until the request is over.
        return unsafe { nbc.post_on_board(lower, &call, 1 << 31, sequence) }.unwrap();
    }
    let algorithm = match kind {
        Kind::Barrier => "dissemination",
        Kind::Bcast(_) | Kind::Reduce(_) | Kind::Scatter(_) | Kind::Gather(_) => "binomial",
        Kind::Allreduce | Kind::Scan | Kind::Exscan => "recursive-doubling",
        Kind::ReduceScatter => "pairwise",
    };
    let schedule = table::compile(&group, &arguments, Some(algorithm)).unwrap();
    // SAFETY: as above.
    Posted::Waits(unsafe { nbc.post(lower, schedule, 1 << 31, sequence) }.unwrap())
}

pub fn outcome(nbc: &Nbc, posted: Posted) -> Option<Outcome> {
    match posted {
        Posted::Done => Some(Outcome::default()),
        Posted::Failed(outcome) => Some(outcome),
        // SAFETY: valid as long as the Nbc.
        Posted::Waits(id) => unsafe { nbc.completion(id).unwrap().as_ref() }.outcome(),
    }
}

/// Notes who is rung.
pub struct Rung(pub End, pub Vec<u32>);
impl Messages for Rung {
    fn reserve(&mut self) -> Result<Id, Error> {
        self.0.reserve()
    }
    fn prepare_peer(&mut self, peer: u32, bytes: usize) -> Result<(), Error> {
        self.0.prepare_peer(peer, bytes)
    }
    fn release(&mut self, request: Id) {
        self.0.release(request);
    }
    unsafe fn start_send(&mut self, request: Id, envelope: &Envelope, from: *const u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0.start_send(request, envelope, from, bytes) }
    }
    unsafe fn start_recv(&mut self, request: Id, envelope: &Envelope, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0.start_recv(request, envelope, to, bytes) }
    }
    fn eager_max(&self) -> usize {
        self.0.eager_max()
    }
    fn copied(&self) -> u64 {
        0
    }
    fn abandon(&mut self, request: Id) -> bool {
        self.0.abandon(request)
    }
    fn next_completed(&mut self) -> Option<(u64, Outcome)> {
        self.0.next_completed()
    }
    fn failures(&self) -> u64 {
        0
    }
    fn failed_among(&self, _: &[u32]) -> Option<(u32, Code)> {
        None
    }
    fn announce(&mut self, rank: u32) {
        self.1.push(rank);
    }
    fn would_signal(&self, _: u32) -> bool {
        true
    }
}

/// Ranks that post, and then get a pass only when they are rung.
pub struct Rungs {
    pub ranks: Vec<(Rung, Nbc)>,
    /// What each has posted, with the memory.
    pub posted: Vec<Vec<(Posted, Box<[u64; NUMBERS]>)>>,
    _areas: Vec<Box<Area>>,
}

impl Rungs {
    pub fn new(ranks: u32, seed: u64) -> Rungs {
        let mut machine = Machine::new(network(ranks, seed), seed);
        let posted = (0..ranks).map(|_| Vec::new()).collect();
        let rung = |Rank { lower, nbc }| (Rung(lower, Vec::new()), nbc);
        let ranks = machine.ranks.drain(..).map(rung).collect();
        Rungs { ranks, posted, _areas: std::mem::take(&mut machine.areas) }
    }

    pub fn post(&mut self, rank: usize, kind: Kind) {
        self.post_as(rank, kind, Way::Board);
    }

    /// Posts, and waits for it.
    pub fn post_as(&mut self, rank: usize, kind: Kind, way: Way) {
        self.post_and_compute(rank, kind, way);
        self.wait(rank);
    }

    pub fn wait(&mut self, rank: usize) {
        let (lower, nbc) = &mut self.ranks[rank];
        nbc.want_all(lower);
        nbc.announce(lower);
    }

    pub fn post_and_compute(&mut self, rank: usize, kind: Kind, way: Way) {
        let place = (self.ranks.len() as u32, rank as u32);
        let sequence = self.posted[rank].len() as u32;
        let (lower, nbc) = &mut self.ranks[rank];
        let mut numbers = Box::new([1; NUMBERS]);
        let posted = post_as(lower, nbc, place, (kind, way), sequence, &mut *numbers);
        nbc.announce(lower);
        self.posted[rank].push((posted, numbers));
    }

    /// Who is rung, for what stands on the board or for messages that have come, after all messages have.
    pub fn rung(&mut self) -> Option<u32> {
        for _ in 0..20 {
            self.ranks.iter_mut().for_each(|(lower, _)| lower.0.pump());
        }
        let for_board = self.ranks.iter_mut().find_map(|(lower, _)| lower.1.pop());
        let has_completed = |(lower, _): &(Rung, Nbc)| lower.0.has_completed();
        for_board.or_else(|| self.ranks.iter().position(has_completed).map(|rank| rank as u32))
    }

    /// Passes for those who are rung, until nobody is.
    pub fn settle(&mut self) {
        let mut rings = 0;
        while let Some(rung) = self.rung() {
            rings += 1;
            assert!(rings < 100_000, "rings without end");
            let (lower, nbc) = &mut self.ranks[rung as usize];
            let mut passes = 0;
            while nbc.progress(lower, &mut Budget::handler()) == tocsin_progress::Pass::More {
                passes += 1;
                assert!(passes < 1000, "passes without end");
            }
            assert!(!nbc.work_left(), "a look finds what a pass does not");
            nbc.announce(lower);
        }
    }

    pub fn code(&self, rank: usize, at: usize) -> Option<Code> {
        outcome(&self.ranks[rank].1, self.posted[rank][at].0).map(|outcome| outcome.code)
    }
}
