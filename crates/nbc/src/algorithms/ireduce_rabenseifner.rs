//! Reduce as a reduce-scatter by recursive halving followed by a gather to the root (Rabenseifner 2004).
//!
//! The halving is that of the allreduce of the same name, in rank order. On the way back, at each level the rank that is
//! not on the root's side hands over all it has.

use super::core::{Core, RETURN, Role, combination_order, stands_aside};
use super::iallreduce_rabenseifner::halve;
use super::reduction::Call;
use crate::Error;
use crate::builder::{ScheduleBuilder, StepId};
use crate::table::{Algorithm, Arguments, Operation, Restrictions};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ireduce,
    name: "rabenseifner",
    source: "Rabenseifner 2004",
    cost: "2 ceil(log2 p) a + 2 (p-1)/p n b + (p-1)/p n g; 2 (a + n b) + n g more when p is no power of two",
    restrictions: Restrictions::NONE,
    compile,
    order: Some(combination_order),
};

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let combines = !stands_aside(b.rank(), b.size());
    let (call, root) = Call::to_root(arguments, b, combines)?;
    if call.is_local(b) {
        return Ok(());
    }
    let (core, mut partial) = match Core::fold(b, &call)? {
        Role::Member(core, partial) => (core, partial),
        Role::Aside(sent) => {
            if b.rank() == root {
                let read = call.in_place.then_some(sent);
                b.recv(root + 1, RETURN, call.output, call.bytes(), read.as_slice());
            }
            return Ok(());
        }
    };
    let levels = halve(b, &call, &core, &mut partial)?;
    let top = core.of(root);
    let mut ready: Vec<StepId> = partial.written.into_iter().collect();
    for (i, level) in (0..).zip(levels.iter().rev()) {
        let bit = core.levels() - 1 - i;
        let round = 1 + core.levels() + i;
        let elements = if (core.rank ^ top) >> bit & 1 == 1 { &level.kept } else { &level.given };
        let (at, bytes) = (call.output.at(call.offset(elements.start)), call.length(elements));
        if (core.rank ^ top) >> bit & 1 == 1 {
            b.send(level.peer, round, at, bytes, &ready);
            return Ok(());
        }
        ready.push(b.recv(level.peer, round, at, bytes, level.reader.as_slice()));
    }
    if b.rank() != root {
        b.send(root, RETURN, call.output, call.bytes(), &ready);
    }
    Ok(())
}
