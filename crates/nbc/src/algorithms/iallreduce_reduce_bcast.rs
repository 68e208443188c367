//! Allreduce as a binomial reduction to rank 0 followed by a binomial broadcast (the classic of early MPI libraries).
//!
//! In the reduction, rank r covers ranks r to r + 2^k - 1 after k levels; the ranks above come in on the right, so that
//! rank order holds.

use super::reduction::Call;
use crate::Error;
use crate::builder::ScheduleBuilder;
use crate::order::{Combination, Shape, Share, doubling, uniform};
use crate::table::{Algorithm, Arguments, Operation, Restrictions};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Iallreduce,
    name: "reduce-bcast",
    source: "Thakur, Rabenseifner, Gropp 2005 (binomial trees)",
    cost: "2 ceil(log2 p) (a + n b) + ceil(log2 p) n g",
    restrictions: Restrictions::NONE,
    compile,
    order: Some(combination_order),
};

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let call = Call::iallreduce(arguments)?;
    if call.is_local(b) {
        return Ok(());
    }
    let (rank, size) = (b.rank(), b.size());
    let bytes = call.bytes();
    let mut partial = call.start();
    let mut handed_on = Vec::new();
    for level in 0..size.next_power_of_two().trailing_zeros() {
        let bit = 1 << level;
        if rank & bit != 0 {
            handed_on.push(b.send(rank - bit, 0, partial.at, bytes, partial.ready()));
            break;
        }
        if rank + bit < size {
            let temp = b.temp(bytes);
            let arrival = b.recv(rank + bit, 0, temp, bytes, &[]);
            call.combine(b, &mut partial, (0, call.count), temp, false, arrival, &[])?;
        }
    }
    if !partial.in_output {
        handed_on.clear();
    }
    super::ibcast_binomial::tree(b, call.output, bytes, 0, 1, partial.ready(), &handed_on);
    Ok(())
}

/// Neighbours at distance 1, 2, 4, ...
fn combination_order(shape: &Shape) -> Vec<Share> {
    uniform(shape, doubling((0..shape.ranks).map(Combination::Rank).collect()))
}
