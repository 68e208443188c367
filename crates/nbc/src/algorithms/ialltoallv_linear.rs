//! All messages at once, between blocks of any length anywhere in memory (folklore; Open MPI's `basic linear`). Empty
//! blocks do not travel. With `ialltoallw` blocks differ in type too, which bytes do not show: it is the same.

use super::places::{Places, put};
use crate::Error;
use crate::builder::{Mem, ScheduleBuilder, StepId};
use crate::table::{Algorithm, Arguments, Operation, Restrictions, misplaced};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ialltoallv,
    name: "linear",
    source: "folklore",
    cost: "(p - 1) (a + n b)",
    restrictions: Restrictions::NONE,
    compile,
    order: None,
};

pub(crate) const TYPED: Algorithm = Algorithm { operation: Operation::Ialltoallw, ..ALGORITHM };

/// Blocks to send, blocks to receive, and what must precede the use of both.
pub(super) struct Exchange<'a> {
    pub send: Places<'a>,
    pub recv: Places<'a>,
    pub ready: Vec<StepId>,
}

impl<'a> Exchange<'a> {
    /// Copies this rank's own block; in place, copies what is sent aside first.
    pub(super) fn new(arguments: &Arguments<'a>, b: &mut ScheduleBuilder) -> Result<Exchange<'a>, Error> {
        let (Arguments::Ialltoallv { send, recv, blocks } | Arguments::Ialltoallw { send, recv, blocks }) =
            *arguments
        else {
            return Err(misplaced());
        };
        let (rank, size) = (b.rank(), b.size());
        let recv = Places::displaced(Mem::User(recv), blocks);
        if let Some((send, sent)) = send {
            let send = Places::displaced(Mem::read_only(send), sent);
            put(b, send.at(rank), recv.at(rank), recv.bytes(rank), &[]);
            return Ok(Exchange { send, recv, ready: Vec::new() });
        }
        // As far as the last block reaches, so that the copies stand where the blocks do.
        let reach = blocks.iter().map(|block| block.offset + block.bytes).max().unwrap_or(0);
        let aside = Places::displaced(b.temp(reach), blocks);
        let others = (0..size).filter(|other| *other != rank);
        let copies: Vec<StepId> = others
            .filter_map(|other| put(b, recv.at(other), aside.at(other), recv.bytes(other), &[]))
            .collect();
        let ready = if copies.is_empty() { Vec::new() } else { vec![b.join(&copies)] };
        Ok(Exchange { send: aside, recv, ready })
    }

    pub(super) fn receive(&self, b: &mut ScheduleBuilder, from: u32, after: &[StepId]) -> Option<StepId> {
        let bytes = self.recv.bytes(from);
        (bytes > 0).then(|| b.recv(from, 0, self.recv.at(from), bytes, after))
    }

    pub(super) fn send(&self, b: &mut ScheduleBuilder, to: u32, after: &[StepId]) -> Option<StepId> {
        let bytes = self.send.bytes(to);
        (bytes > 0).then(|| b.send(to, 0, self.send.at(to), bytes, after))
    }
}

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let exchange = Exchange::new(arguments, b)?;
    let (rank, size) = (b.rank(), b.size());
    for i in 1..size {
        exchange.receive(b, (rank + (size - i)) % size, &exchange.ready);
    }
    for i in 1..size {
        exchange.send(b, (rank + i) % size, &exchange.ready);
    }
    Ok(())
}
