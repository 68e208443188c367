//! Allreduce by recursive doubling (Thakur, Rabenseifner and Gropp 2005, section 4.5).
//!
//! At level k each rank of the core exchanges its partial result with the rank at distance 2^k and both combine, the
//! lower half of ranks on the left. So all ranks compute the same expression, in rank order, whatever the operator.

use super::core::{Core, combination_order};
use super::reduction::Call;
use crate::Error;
use crate::builder::{ScheduleBuilder, StepId};
use crate::table::{Algorithm, Arguments, Operation, Restrictions};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Iallreduce,
    name: "recursive-doubling",
    source: "Thakur, Rabenseifner, Gropp 2005",
    cost: "ceil(log2 p) (a + n b + n g); 2 (a + n b) + n g more when p is no power of two",
    restrictions: Restrictions::NONE,
    compile,
    order: Some(combination_order),
};

/// Up to this size every level has a temporary of its own, so that all receives are posted at the start and arrivals
/// are never unexpected; above it two take turns.
const OWN_TEMPORARY: usize = 64 << 10;

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let call = Call::new(arguments)?;
    if call.is_local(b) {
        return Ok(());
    }
    let Some((core, mut partial)) = Core::enter(b, &call)? else { return Ok(()) };
    let bytes = call.bytes();
    let levels = core.levels();
    let kept = if bytes <= OWN_TEMPORARY { levels } else { levels.min(2) } as usize;
    let temps: Vec<_> = (0..kept).map(|_| b.temp(bytes)).collect();
    let mut reductions: Vec<StepId> = Vec::new();
    for level in 0..levels {
        let partner = core.rank ^ (1 << level);
        let (peer, round) = (core.member(partner), 1 + level);
        let i = level as usize;
        let temp = temps[i % kept];
        let free = if i >= kept { &reductions[i - kept..=i - kept] } else { &[] };
        let sent = b.send(peer, round, partial.at, bytes, partial.ready());
        let arrival = b.recv(peer, round, temp, bytes, free);
        let whole = (0, call.count);
        let lower = partner < core.rank;
        reductions.push(call.combine(b, &mut partial, whole, temp, lower, arrival, &[sent])?);
    }
    core.leave(b, &call, partial.ready());
    Ok(())
}
