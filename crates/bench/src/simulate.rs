//! The library's schedules over a simulated network, for more ranks than one machine has.
//!
//! The schedule of each rank is compiled by the library as it would be for a real one, reduced to what matters here, and
//! run: the nodes of the [`Model`] are the parts of the machine that trees may follow. A step starts when its dependencies are done and its rank's core is free; messages take what the [`Model`] says.
//! Nothing depends on chance or on this machine: the same arguments give the same numbers.
//!
//! Schedules are made one rank after the other, and all of them are under way at once: what is kept of each is 12 bytes per step, and some 20
//! more where no other rank's is like it; more than [`MOST_MEMORY`] is refused. How many rounds a message's tag can number is no limit here,
//! because no world has so many ranks.

mod engine;
mod model;
mod program;
mod queue;

pub use model::Model;

use crate::error::Error;
use engine::Engine;
use program::Programs;
use std::sync::Arc;
use tocsin_nbc::table::{self, Algorithm, Arguments, Block, Operation};
use tocsin_nbc::{DataType, Group, Op};

/// Bytes of what all ranks do: what a small machine has.
pub const MOST_MEMORY: usize = 3 << 30;

/// Most bytes of a buffer of one rank: temporaries are as long, and there is one set of them at a time.
const MOST_BYTES: usize = 1 << 30;

/// A collective to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Collective {
    /// Which.
    pub operation: Operation,
    /// `None`: the one that the library chooses.
    pub algorithm: Option<&'static str>,
    /// Number of ranks.
    pub ranks: u32,
    /// The whole buffer, or the block per rank.
    pub bytes: usize,
    /// Of those that have one.
    pub root: u32,
}

/// What the operations with blocks say of them.
struct Layout {
    blocks: Vec<Block>,
    counts: Vec<usize>,
}

/// What a simulation found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Totals {
    /// Steps of all ranks.
    pub steps: u64,
    /// Messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages on the longest chain in which each waits for the one before.
    pub chain: u32,
    /// From the start, at the same time on all ranks, to the last step's end: picoseconds.
    pub time_ps: u64,
}

impl Collective {
    /// The algorithm that is simulated.
    ///
    /// # Errors
    /// [`Error::Usage`] when there is none of that name, or it cannot do this.
    pub fn algorithm(&self) -> Result<&'static Algorithm, Error> {
        let layout = self.layout()?;
        let arguments = self.arguments(&layout)?;
        let Some(name) = self.algorithm else { return Ok(table::choose(&arguments, self.ranks)) };
        let found = table::find(self.operation, name).map_err(usage)?;
        if found.restrictions.needs_board() {
            return Err(Error::Usage(format!(
                "{name} of {} has no schedule that could be simulated: its ranks load and store one memory, in one phase; \
                 measure it with `tocsin bench coll --op {} --algorithm {name}`",
                self.operation, self.operation
            )));
        }
        match found.restrictions.refusal_of_outline(&arguments, self.ranks) {
            Some(why) => Err(Error::Usage(format!("{name} of {} {why}", self.operation))),
            None => Ok(found),
        }
    }

    /// Equal blocks side by side, for the operations whose blocks may differ; elements of each part, likewise.
    fn layout(&self) -> Result<Layout, Error> {
        let ranks = if self.has_blocks() { self.ranks as usize } else { 1 };
        if self.bytes.saturating_mul(ranks) > MOST_BYTES {
            return Err(Error::Usage(format!(
                "{} of {} bytes with {} ranks: a rank's buffer has more than 1 GiB",
                self.operation, self.bytes, self.ranks
            )));
        }
        let block = |at: usize| Block::new(at * self.bytes, self.bytes);
        Ok(Layout { blocks: (0..ranks).map(block).collect(), counts: vec![self.bytes; ranks] })
    }

    /// Whether a buffer holds a block for each rank.
    fn has_blocks(&self) -> bool {
        !matches!(
            self.operation,
            Operation::Ibarrier
                | Operation::Ibcast
                | Operation::Ireduce
                | Operation::Iallreduce
                | Operation::Iscan
                | Operation::Iexscan
        )
    }

    /// Addresses that nothing is ever read from or written to: compiling a schedule only reckons with them.
    fn arguments<'a>(&self, layout: &'a Layout) -> Result<Arguments<'a>, Error> {
        let (from, recv) = (std::ptr::without_provenance(1 << 30), std::ptr::without_provenance_mut(1 << 60));
        let (bytes, root, send) = (self.bytes, self.root, Some(from));
        let (count, data_type, op) = (bytes, DataType::U8, Op::Sum);
        let Layout { blocks, counts } = layout;
        let exchanged = Some((from, &blocks[..]));
        Ok(match self.operation {
            Operation::Ibarrier => Arguments::Ibarrier,
            Operation::Ibcast => Arguments::Ibcast { buffer: recv, bytes, root },
            Operation::Iscatter => Arguments::Iscatter { send: from, recv: Some(recv), block: bytes, root },
            Operation::Iscatterv => {
                Arguments::Iscatterv { send: from, blocks, recv: Some(recv), bytes, root }
            }
            Operation::Igather => Arguments::Igather { send, recv, block: bytes, root },
            Operation::Igatherv => Arguments::Igatherv { send, bytes, recv, blocks, root },
            Operation::Iallgather => Arguments::Iallgather { send, recv, block: bytes },
            Operation::Iallgatherv => Arguments::Iallgatherv { send, recv, blocks },
            Operation::Ialltoall => Arguments::Ialltoall { send, recv, block: bytes },
            Operation::Ialltoallv => Arguments::Ialltoallv { send: exchanged, recv, blocks },
            Operation::Ialltoallw => Arguments::Ialltoallw { send: exchanged, recv, blocks },
            Operation::Ireduce => Arguments::Ireduce { send, recv, count, data_type, op, root },
            Operation::Iallreduce => Arguments::Iallreduce { send, recv, count, data_type, op },
            Operation::IreduceScatter => Arguments::IreduceScatter { send, recv, counts, data_type, op },
            Operation::IreduceScatterBlock => {
                Arguments::IreduceScatterBlock { send, recv, count, data_type, op }
            }
            Operation::Iscan => Arguments::Iscan { send, recv, count, data_type, op },
            Operation::Iexscan => Arguments::Iexscan { send, recv, count, data_type, op },
            other => return Err(Error::Usage(format!("{other} cannot be simulated"))),
        })
    }

    /// Compiles the schedule of every rank and runs them.
    ///
    /// # Errors
    /// [`Error::Usage`] for arguments that do not fit together or are too much; [`Error::Failed`] when a schedule never
    /// ends, which is an error of its algorithm.
    pub fn simulate(&self, model: &Model) -> Result<Totals, Error> {
        let name = self.algorithm()?.name;
        let layout = self.layout()?;
        let arguments = self.arguments(&layout)?;
        let ranks: Arc<[u32]> = (0..self.ranks).collect();
        let hierarchy = model.hierarchy(self.ranks).map(Arc::new);
        let mut programs = Programs::new(self.ranks);
        let mut longest = 0;
        for rank in 0..self.ranks {
            let group = Group::shared(Arc::clone(&ranks), rank).map_err(usage)?;
            let group = group.with_hierarchy(hierarchy.clone());
            // The arguments of all ranks are the same, and those of many blocks long to check.
            if rank == 0 {
                arguments.check(&group).map_err(usage)?;
            }
            let outline = table::outline(&group, &arguments, Some(name)).map_err(usage)?;
            let before = programs.memory();
            programs.push(&outline)?;
            longest = longest.max(programs.memory() - before);
            // What the others will need is guessed from some, without the one that may be the root.
            let each = (programs.memory() - longest) / rank.max(1) as usize;
            let guess = programs.memory().max(each * self.ranks as usize);
            // The fewer the more generously: ranks may stand aside.
            let is_sure = |ranks, times| rank >= ranks && guess / times > MOST_MEMORY;
            if programs.memory() > MOST_MEMORY || is_sure(4, 8) || is_sure(64, 2) {
                return Err(Error::Usage(format!(
                    "{name} of {} with {} ranks takes some {} GiB of memory to simulate, and {} are the most: take fewer ranks",
                    self.operation,
                    self.ranks,
                    guess.div_ceil(1 << 30).max((MOST_MEMORY >> 30) + 1),
                    MOST_MEMORY >> 30
                )));
            }
        }
        Engine::new(*model, programs).run()
    }
}

fn usage(error: impl std::fmt::Display) -> Error {
    Error::Usage(error.to_string())
}

#[cfg(test)]
mod tests;
