//! All messages at once, between blocks of any length anywhere in memory (folklore; Open MPI's `basic linear`). Empty
//! blocks do not travel, and those in pieces travel packed. With `ialltoallw` blocks differ in type too, which bytes do not
//! show: it is the same.

use super::places::{Places, Spot, put_block};
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
    /// In one run each, with what must precede the use of this one.
    send: Vec<(Mem, usize, Option<StepId>)>,
    recv: Places<'a>,
    pub ready: Vec<StepId>,
    /// This rank's own block, where it has to be moved: from there, to there.
    own: Option<(Spot, Spot)>,
}

impl<'a> Exchange<'a> {
    /// In place, copies what is sent aside first.
    pub(super) fn new(arguments: &Arguments<'a>, b: &mut ScheduleBuilder) -> Result<Exchange<'a>, Error> {
        let (Arguments::Ialltoallv { send, recv, blocks } | Arguments::Ialltoallw { send, recv, blocks }) =
            *arguments
        else {
            return Err(misplaced());
        };
        let (rank, size) = (b.rank(), b.size());
        let recv = Places::displaced(Mem::User(recv), blocks);
        let mut all = Vec::with_capacity(size as usize);
        if let Some((send, sent)) = send {
            let send = Places::displaced(Mem::read_only(send), sent);
            let own = Some((send.spot(rank), recv.spot(rank)));
            for other in 0..size {
                let block = send.spot(other);
                // This rank's own goes straight where it belongs.
                let (run, ready) = if other == rank { (Mem::Temp(0), None) } else { block.packed(b) };
                all.push((run, block.bytes(), ready));
            }
            return Ok(Exchange { send: all, recv, ready: Vec::new(), own });
        }
        let mut copies: Vec<StepId> = Vec::new();
        for other in 0..size {
            let block = recv.spot(other);
            let bytes = if other == rank { 0 } else { block.bytes() };
            let aside = b.temp(bytes);
            if bytes > 0 {
                copies.extend(put_block(b, &block, &Spot::run(aside, bytes), &[]));
            }
            all.push((aside, bytes, None));
        }
        let ready = if copies.is_empty() { Vec::new() } else { vec![b.join(&copies)] };
        Ok(Exchange { send: all, recv, ready, own: None })
    }

    /// Copies this rank's own block. Called last: others wait for what is sent, nobody for this.
    pub(super) fn keep(&self, b: &mut ScheduleBuilder) {
        if let Some((from, to)) = &self.own {
            put_block(b, from, to, &[]);
        }
    }

    pub(super) fn receive(&self, b: &mut ScheduleBuilder, from: u32, after: &[StepId]) -> Option<StepId> {
        self.recv.spot(from).receive(b, from, 0, after)
    }

    /// Sends a rank its block; `last`: that one sends nothing after it.
    pub(super) fn send(
        &self,
        b: &mut ScheduleBuilder,
        to: u32,
        after: &[StepId],
        last: bool,
    ) -> Option<StepId> {
        let (run, bytes, ready) = *self.send.get(to as usize).filter(|(_, bytes, _)| *bytes > 0)?;
        let after: Vec<StepId> = after.iter().copied().chain(ready).collect();
        Some(if last { b.send_last(to, 0, run, bytes, &after) } else { b.send(to, 0, run, bytes, &after) })
    }
}

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let exchange = Exchange::new(arguments, b)?;
    let (rank, size) = (b.rank(), b.size());
    for i in 1..size {
        exchange.receive(b, (rank + (size - i)) % size, &exchange.ready);
    }
    for i in 1..size {
        exchange.send(b, (rank + i) % size, &exchange.ready, true);
    }
    exchange.keep(b);
    Ok(())
}
