//! A rank of a bench's world: waits for tasks, does them, hands in what it measured.

mod alone;
mod asleep;
mod both_ways;
mod buffer;
mod coll;
mod contention;
mod contents;
mod exchange;
mod layout;
mod memory;
mod messages;
mod outstanding;
mod prepared;
mod rate;
mod ring;

use crate::compute::compute;
use crate::error::Error;
use crate::events::Counter;
use crate::fleet::block::{Block, Measured, Task};
use crate::values::Buffers;
use buffer::Buffer;
pub(crate) use layout::Layout;
pub(crate) use memory::Memory;
use prepared::Prepared;
use std::hint::black_box;
use tocsin_sync::atomic::Ordering;
use tocsin_sync::clock::now_ns;
use tocsin_world::algorithms::ALGORITHMS;
use tocsin_world::say;
use tocsin_world::{Comm, World};

/// Arguments of the hidden command `tocsin rank`.
#[derive(Debug, clap::Args)]
pub(crate) struct Start {
    /// The world's shared memory
    #[arg(long)]
    pub block: String,
    /// Number of ranks
    #[arg(long)]
    pub ranks: u64,
    /// Algorithm of collectives
    #[arg(long)]
    pub algorithm: Option<String>,
    /// Collectives are prepared once and restarted
    #[arg(long)]
    pub persistent: bool,
    /// Buffers are made of the world's shared heap
    #[arg(long)]
    pub shared: bool,
    /// Without the library: this rank of a world that has none
    #[arg(long)]
    pub plain: Option<u64>,
    /// Where a rank without the library is bound
    #[arg(long)]
    pub cpu: Option<usize>,
}

/// Runs a rank process until the bench says that it is over.
pub(crate) fn run(start: &Start) -> Result<(), Error> {
    let block = Block::open(&start.block, start.ranks)?;
    if let Some(rank) = start.plain {
        if let Some(cpu) = start.cpu {
            tocsin_topology::bind_thread(cpu).map_err(Error::failed)?;
        }
        Member::new(&block, None, rank as usize, Buffers::Private).serve();
        return Ok(());
    }
    let world = World::from_env().map_err(Error::failed)?;
    let buffers = if start.shared { Buffers::Shared } else { Buffers::Private };
    let mut member = Member::new(&block, Some(world.comm()), world.rank() as usize, buffers);
    (member.algorithm, member.persistent) = (start.algorithm.clone(), start.persistent);
    member.serve();
    world.finalize().map_err(Error::failed)
}

/// What a rank has at hand.
pub(crate) struct Member<'a> {
    block: &'a Block,
    /// `None` in a world without the library.
    comm: Option<Comm>,
    rank: usize,
    pub(crate) algorithm: Option<String>,
    /// Whether collectives are prepared once and restarted; and the one that is.
    pub(crate) persistent: bool,
    prepared: Option<Prepared>,
    /// What happens to this thread is counted by this, or not for that reason.
    counter: Option<Result<Counter, i32>>,
    send: Buffer,
    recv: Buffer,
    layout: Layout,
    arrays: contention::Arrays,
    round: u64,
}

impl<'a> Member<'a> {
    pub(crate) fn new(block: &'a Block, comm: Option<Comm>, rank: usize, buffers: Buffers) -> Member<'a> {
        let heap = comm.clone().filter(|_| buffers == Buffers::Shared);
        Member {
            block,
            comm,
            rank,
            algorithm: None,
            persistent: false,
            prepared: None,
            counter: None,
            send: Buffer::new(heap.clone()),
            recv: Buffer::new(heap),
            layout: Layout::default(),
            arrays: contention::Arrays::default(),
            round: 0,
        }
    }

    /// Does tasks until told to quit.
    pub(crate) fn serve(mut self) {
        let mut seen = 0;
        loop {
            let task = self.block.next(&mut seen);
            if task == Task::Quit {
                self.block.hand_in(self.rank, Measured::default());
                return;
            }
            self.round += 1;
            match self.perform(task) {
                Ok(measured) => self.block.hand_in(self.rank, measured),
                // Requests may still refer to the buffers, so nothing is dropped.
                Err(error) => fail(self.rank as u32, &error),
            }
        }
    }

    fn comm(&self) -> Result<&Comm, Error> {
        self.comm.as_ref().ok_or_else(no_library)
    }

    fn perform(&mut self, task: Task) -> Result<Measured, Error> {
        match task {
            Task::Quit => Ok(Measured::default()),
            Task::Pingpong { bytes, trips, count } => self.pingpong(bytes as usize, trips, count),
            Task::Together { bytes, trips } => self.together(bytes as usize, trips),
            Task::Overlap { bytes, case, work } => self.overlap(bytes as usize, case, work),
            Task::Coll { op, bytes, root, work } => self.coll(op, bytes as usize, root as u32, work),
            Task::Alone { op, bytes, root, count, algorithm } => {
                let asked = algorithm.checked_sub(1).and_then(|at| ALGORITHMS.get(at as usize));
                let of_world = asked.map(|asked| self.algorithm.replace(asked.name.to_owned()));
                let measured = self.alone(op, bytes as usize, root as u32, count as usize);
                self.algorithm = of_world.unwrap_or_else(|| self.algorithm.take());
                measured
            }
            Task::InARow { op, bytes, root, count } => {
                self.in_a_row(op, bytes as usize, root as u32, count as usize)
            }
            Task::Asleep { op, bytes, root, count } => {
                self.asleep(op, bytes as usize, root as u32, count as usize)
            }
            Task::Late { op, bytes, root, rank, work } => {
                self.late(op, bytes as usize, root as u32, rank as usize, work)
            }
            Task::Compute { work } => {
                self.block.barrier().wait();
                let t_comp = timed(|| {
                    compute(work, self.round);
                });
                Ok(Measured { t_comp, verified: 1, ..Measured::default() })
            }
            Task::CopyCost { bytes } => self.copy_cost(bytes as usize),
            Task::Ring { bytes, laps } => self.ring(bytes as usize, laps),
            Task::Rate { bytes, window, windows, receives, work } => {
                self.rate(bytes as usize, window as usize, windows, receives, work)
            }
            Task::Outstanding { bytes, count, batches, callbacks } => {
                self.outstanding(bytes as usize, count as usize, batches, callbacks)
            }
            Task::BothWays { bytes, trips, waits } => self.both_ways(bytes as usize, trips, waits),
            Task::Exchange { bytes, reach } => self.exchange(bytes as usize, reach as u32),
            Task::Contend { bytes, trips, load, passes, phase } => {
                self.contend(bytes as usize, trips, load, passes, phase)
            }
        }
    }

    /// What copying `bytes` costs a rank when another core has just written them: rank 1 copies what rank 0 wrote.
    fn copy_cost(&mut self, bytes: usize) -> Result<Measured, Error> {
        let area = self.block.copy_area();
        self.recv.resize(size_of_val(area))?;
        let mut left = bytes;
        let mut total = 0;
        while left > 0 {
            let words = left.div_ceil(8).min(area.len());
            left -= left.min(words * 8);
            self.block.barrier().wait();
            if self.rank == 0 {
                area[..words].iter().for_each(|w| w.store(self.round, Ordering::Relaxed));
            }
            self.block.barrier().wait();
            if self.rank == 1 {
                let target = self.recv.as_mut_ptr();
                // SAFETY:
                // - source: inside the shared area, which nobody writes between the barriers;
                // - target: our own buffer of at least as many bytes;
                // - they are distinct memory.
                total += timed(|| unsafe {
                    std::ptr::copy_nonoverlapping(area.as_ptr().cast::<u8>(), target, words * 8);
                });
                black_box(&mut self.recv);
            }
        }
        self.block.barrier().wait();
        Ok(Measured { t_comm: total, verified: 1, ..Measured::default() })
    }
}

/// Ends this process at once, for a rank without which the others cannot go on.
pub(crate) fn fail(rank: u32, error: &dyn std::fmt::Display) -> ! {
    say(format_args!("tocsin bench: rank {rank}: {error}"));
    std::process::exit(1)
}

/// For a task that only the library can do.
fn no_library() -> Error {
    Error::Failed("this world has no library".into())
}

/// How long `f` takes, in nanoseconds.
fn timed(f: impl FnOnce()) -> u64 {
    let start = now_ns();
    f();
    now_ns() - start
}
