//! All messages at once: every rank sends a block to every other, starting with its successor, so that no rank is
//! everybody's first (folklore; Open MPI's `basic linear`).

use crate::Error;
use crate::builder::{Mem, ScheduleBuilder, StepId};
use crate::table::{Algorithm, Arguments, Operation, Restrictions, misplaced};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ialltoall,
    name: "linear",
    source: "folklore",
    cost: "(p - 1) (a + n b)",
    restrictions: Restrictions::NONE,
    compile,
    order: None,
};

/// Where the blocks to send stand, and the step that must precede their use and the overwriting of the result.
pub(super) struct Blocks {
    pub send: Mem,
    pub recv: Mem,
    pub block: usize,
    pub ready: Vec<StepId>,
    /// This rank's own block, where it has to be moved.
    own: Option<usize>,
}

impl Blocks {
    /// In place, copies all of them aside first.
    pub(super) fn new(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<Blocks, Error> {
        let Arguments::Ialltoall { send, recv, block } = *arguments else { return Err(misplaced()) };
        let (whole, own) = (block * b.size() as usize, block * b.rank() as usize);
        let in_place = send.is_none_or(|send| std::ptr::eq(send, recv));
        let recv = Mem::User(recv);
        if block == 0 {
            return Ok(Blocks { send: recv, recv, block, ready: Vec::new(), own: None });
        }
        match send {
            Some(send) if !in_place => {
                let send = Mem::read_only(send);
                Ok(Blocks { send, recv, block, ready: Vec::new(), own: Some(own) })
            }
            // Alone, in place: nothing moves.
            _ if b.size() == 1 => Ok(Blocks { send: recv, recv, block, ready: Vec::new(), own: None }),
            _ => {
                let aside = b.temp(whole);
                let copied = b.copy(recv, aside, whole, &[]);
                Ok(Blocks { send: aside, recv, block, ready: vec![copied], own: None })
            }
        }
    }

    /// Copies this rank's own block. Called last: others wait for what is sent, nobody for this.
    pub(super) fn keep(&self, b: &mut ScheduleBuilder) {
        if let Some(own) = self.own {
            b.copy(self.send.at(own), self.recv.at(own), self.block, &[]);
        }
    }

    pub(super) fn to(&self, rank: u32) -> Mem {
        self.send.at(self.block * rank as usize)
    }

    pub(super) fn from(&self, rank: u32) -> Mem {
        self.recv.at(self.block * rank as usize)
    }
}

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let blocks = Blocks::new(arguments, b)?;
    if blocks.block == 0 {
        return Ok(());
    }
    let (rank, size) = (b.rank(), b.size());
    let below = |i: u32| (rank + (size - i)) % size;
    let above = |i: u32| (rank + i) % size;
    for i in 1..size {
        b.send_last(above(i), 0, blocks.to(above(i)), blocks.block, &blocks.ready);
    }
    for i in 1..size {
        b.recv(below(i), 0, blocks.from(below(i)), blocks.block, &blocks.ready);
    }
    blocks.keep(b);
    Ok(())
}
