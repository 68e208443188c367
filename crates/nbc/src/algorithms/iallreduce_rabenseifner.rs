//! Allreduce as a reduce-scatter by recursive halving followed by an allgather by recursive doubling (Rabenseifner,
//! "Optimization of collective reduction operations", ICCS 2004).
//!
//! At level k ranks of the core at distance 2^k split the range of elements they share: the lower rank keeps the lower
//! half. Distances grow, so that partial results always cover neighbouring ranks and rank order holds; the allgather
//! goes through the levels backwards. Each element is combined as in `recursive-doubling`.

use super::core::{Core, combination_order};
use super::reduction::{Call, Partial};
use crate::Error;
use crate::builder::{ScheduleBuilder, StepId};
use crate::table::{Algorithm, Arguments, Operation, Restrictions};
use std::ops::Range;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Iallreduce,
    name: "rabenseifner",
    source: "Rabenseifner 2004",
    cost: "2 ceil(log2 p) a + 2 (p-1)/p n b + (p-1)/p n g; 2 (a + n b) + n g more when p is no power of two",
    restrictions: Restrictions::NONE,
    compile,
    order: Some(combination_order),
};

/// A level of the halving, to be undone by who collects the result.
pub(super) struct Level {
    pub peer: u32,
    pub kept: Range<usize>,
    pub given: Range<usize>,
    /// The step that reads `given` out of the output, if it does.
    pub reader: Option<StepId>,
}

/// The reduce-scatter: at the end the output has this rank's `kept` elements of the last level.
pub(super) fn halve(
    b: &mut ScheduleBuilder,
    call: &Call,
    core: &Core,
    partial: &mut Partial,
) -> Result<Vec<Level>, Error> {
    let mut levels = Vec::new();
    let mut mine = 0..call.count;
    for level in 0..core.levels() {
        let partner = core.rank ^ (1 << level);
        let (peer, round) = (core.member(partner), 1 + level);
        let middle = mine.start + mine.len() / 2;
        let (low, high) = (mine.start..middle, middle..mine.end);
        let (kept, given) = if partner > core.rank { (low, high) } else { (high, low) };
        let temp = b.temp(call.length(&kept));
        let from = partial.at.at(call.offset(given.start));
        let sent = b.send(peer, round, from, call.length(&given), partial.ready());
        let arrival = b.recv(peer, round, temp, call.length(&kept), &[]);
        let reader = partial.in_output.then_some(sent);
        // The half that is combined is not the half that is being sent.
        call.combine(b, partial, (kept.start, kept.len()), temp, partner < core.rank, arrival, &[])?;
        mine = kept.clone();
        levels.push(Level { peer, kept, given, reader });
    }
    Ok(levels)
}

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let call = Call::new(arguments)?;
    if call.is_local(b) {
        return Ok(());
    }
    let Some((core, mut partial)) = Core::enter(b, &call)? else { return Ok(()) };
    let levels = halve(b, &call, &core, &mut partial)?;
    let mut ready: Vec<StepId> = partial.written.into_iter().collect();
    let rounds = 1 + core.levels();
    for (i, level) in (0..).zip(levels.iter().rev()) {
        let kept = call.output.at(call.offset(level.kept.start));
        let given = call.output.at(call.offset(level.given.start));
        b.send(level.peer, rounds + i, kept, call.length(&level.kept), &ready);
        let length = call.length(&level.given);
        ready.push(b.recv(level.peer, rounds + i, given, length, level.reader.as_slice()));
    }
    core.leave(b, &call, &ready);
    Ok(())
}
