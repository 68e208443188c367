//! Allgather by recursive doubling (Thakur, Rabenseifner and Gropp 2005, section 4.1): at level k each rank exchanges the
//! 2^k blocks that it has with the rank at distance 2^k, in one message.

use super::iallgather_linear::Call;
use super::places::put;
use crate::Error;
use crate::builder::{ScheduleBuilder, StepId};
use crate::table::{Algorithm, Arguments, Operation, Restrictions};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Iallgather,
    name: "recursive-doubling",
    source: "Thakur, Rabenseifner, Gropp 2005",
    cost: "log2 p a + (p-1) n b",
    restrictions: Restrictions { power_of_two: true, ..Restrictions::NONE },
    compile,
    order: None,
};

pub(crate) const DISPLACED: Algorithm = Algorithm { operation: Operation::Iallgatherv, ..ALGORITHM };

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    Call::compile(arguments, b, steps)
}

fn steps(call: &Call, b: &mut ScheduleBuilder) {
    let (rank, size) = (b.rank(), b.size());
    let all = call.all;
    // In rank order without gaps: the user's memory if it is so, else a temporary.
    let direct = all.side_by_side(size);
    let gathered = direct.unwrap_or_else(|| b.temp(all.sum(0..size)));
    let offset = |rank: u32| all.sum(0..rank);
    let mut ready: Vec<StepId> = Vec::new();
    ready.extend(put(b, call.own, gathered.at(offset(rank)), all.bytes(rank), &[]));
    for level in 0..size.trailing_zeros() {
        let mine = rank >> level << level;
        let theirs = mine ^ (1 << level);
        let (out, inward) = (all.sum(mine..mine + (1 << level)), all.sum(theirs..theirs + (1 << level)));
        let partner = rank ^ (1 << level);
        if out > 0 {
            b.send(partner, 0, gathered.at(offset(mine)), out, &ready);
        }
        if inward > 0 {
            ready.push(b.recv(partner, 0, gathered.at(offset(theirs)), inward, &[]));
        }
    }
    if direct.is_none() {
        for other in (0..size).filter(|other| *other != rank) {
            put(b, gathered.at(offset(other)), all.at(other), all.bytes(other), &ready);
        }
        call.keep(b);
    }
}
