//! Pairwise exchange of blocks of any length anywhere in memory (Thakur, Rabenseifner and Gropp 2005, section 4.3): in
//! round i a rank sends to the rank i above it and receives from the rank i below it, one round after the other.

use super::ialltoallv_linear::Exchange;
use crate::Error;
use crate::builder::ScheduleBuilder;
use crate::table::{Algorithm, Arguments, Operation, Restrictions};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ialltoallv,
    name: "pairwise",
    source: "Thakur, Rabenseifner, Gropp 2005",
    cost: "(p - 1) (a + n b), one message at a time",
    restrictions: Restrictions::NONE,
    compile,
    order: None,
};

pub(crate) const TYPED: Algorithm = Algorithm { operation: Operation::Ialltoallw, ..ALGORITHM };

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let exchange = Exchange::new(arguments, b)?;
    let (rank, size) = (b.rank(), b.size());
    let mut before = exchange.ready.clone();
    for i in 1..size {
        let received = exchange.receive(b, (rank + (size - i)) % size, &before);
        let sent = exchange.send(b, (rank + i) % size, &before, i + 1 == size);
        if received.is_some() || sent.is_some() {
            before = received.into_iter().chain(sent).collect();
        }
    }
    exchange.keep(b);
    Ok(())
}
