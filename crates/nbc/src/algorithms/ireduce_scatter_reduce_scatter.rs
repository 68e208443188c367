//! Reduce-scatter as a binomial reduction to rank 0, which then sends each rank its part (the classic of early MPI
//! libraries). Rank order holds.

use super::ireduce_binomial::{combination_order, combines, tree};
use super::reduction::Parts;
use crate::Error;
use crate::builder::ScheduleBuilder;
use crate::table::{Algorithm, Arguments, Operation, Restrictions};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::IreduceScatter,
    name: "reduce-then-scatter",
    source: "Thakur, Rabenseifner, Gropp 2005",
    cost: "ceil(log2 p) (a + n b + n g) + (p - 1) a + (p-1)/p n b",
    restrictions: Restrictions::NONE,
    compile,
    order: Some(combination_order),
};

pub(crate) const BLOCK: Algorithm = Algorithm { operation: Operation::IreduceScatterBlock, ..ALGORITHM };

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let inner = combines(b, 0);
    let parts = Parts::new(arguments, b, inner)?;
    if parts.is_local(b) {
        return Ok(());
    }
    let (rank, call) = (b.rank(), &parts.call);
    let mut partial = call.start();
    tree(b, call, &mut partial, 0)?;
    if rank > 0 {
        if parts.bytes(rank) > 0 {
            // In place, the part goes where the input was.
            let after = parts.in_place.then(|| b.all());
            b.recv(0, 1, parts.recv, parts.bytes(rank), after.as_slice());
        }
        return Ok(());
    }
    let at = |of: u32| partial.at.at(call.offset(parts.elements(of..of + 1).start));
    for other in 1..b.size() {
        if parts.bytes(other) > 0 {
            b.send(other, 1, at(other), parts.bytes(other), partial.ready());
        }
    }
    parts.deliver(b, at(0), partial.written);
    Ok(())
}
