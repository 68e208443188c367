//! Reduce-scatter by recursive halving (Thakur, Rabenseifner and Gropp 2005, section 4.4): at each level a rank of the
//! core hands the half of the parts that is not its own to the rank at half the distance of the level before, and combines
//! what it gets for its half.
//!
//! The first partners are the farthest, so that each rank ends with its own part; hence not rank order: the operator must
//! be commutative. Every part is combined in the same order.

use super::core::{Core, RETURN, Role, folded, stands_aside};
use super::reduction::Parts;
use crate::Error;
use crate::builder::ScheduleBuilder;
use crate::order::{Shape, Share, doubling, uniform};
use crate::table::{Algorithm, Arguments, Operation, Restrictions};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::IreduceScatter,
    name: "recursive-halving",
    source: "Thakur, Rabenseifner, Gropp 2005",
    cost: "ceil(log2 p) a + (p-1)/p n (b + g); 2 a + (1 + 1/p) n b + n g more when p is no power of two",
    restrictions: Restrictions { commutative: true, ..Restrictions::NONE },
    compile,
    order: Some(combination_order),
};

pub(crate) const BLOCK: Algorithm = Algorithm { operation: Operation::IreduceScatterBlock, ..ALGORITHM };

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let combines = !stands_aside(b.rank(), b.size());
    let parts = Parts::new(arguments, b, combines)?;
    if parts.is_local(b) {
        return Ok(());
    }
    let (rank, call) = (b.rank(), &parts.call);
    let (core, mut partial) = match Core::fold(b, call)? {
        Role::Member(core, partial) => (core, partial),
        Role::Aside(sent) => {
            if parts.bytes(rank) > 0 {
                // In place, the part goes where the input was.
                let read = parts.in_place.then_some(sent);
                b.recv(rank + 1, RETURN, parts.recv, parts.bytes(rank), read.as_slice());
            }
            return Ok(());
        }
    };
    // The parts of the core's ranks from `low` on, each with its pair's.
    let elements = |low: u32, high: u32| parts.elements(core.first(low)..core.first(high));
    let (mut low, mut reach) = (0, core.size);
    let mut level = 0;
    while reach > 1 {
        reach /= 2;
        level += 1;
        let is_upper = core.rank & reach != 0;
        let (kept, given) = if is_upper {
            (elements(low + reach, low + 2 * reach), elements(low, low + reach))
        } else {
            (elements(low, low + reach), elements(low + reach, low + 2 * reach))
        };
        let peer = core.member(core.rank ^ reach);
        if !given.is_empty() {
            let from = partial.at.at(call.offset(given.start));
            b.send(peer, level, from, call.length(&given), partial.ready());
        }
        if !kept.is_empty() {
            let temp = b.temp(call.length(&kept));
            let arrival = b.recv(peer, level, temp, call.length(&kept), &[]);
            call.combine(b, &mut partial, (kept.start, kept.len()), temp, is_upper, arrival, &[])?;
        }
        low += if is_upper { reach } else { 0 };
    }
    let at = |of: u32| partial.at.at(call.offset(parts.elements(of..of + 1).start));
    let first = core.first(core.rank);
    if first != rank && parts.bytes(first) > 0 {
        b.send(first, RETURN, at(first), parts.bytes(first), partial.ready());
    }
    parts.deliver(b, at(rank), partial.written);
    Ok(())
}

/// Pairs first, then the core by distances p/2, p/4, ..., 1: neighbours in the order of reversed bits.
fn combination_order(shape: &Shape) -> Vec<Share> {
    let core = folded(shape.ranks);
    let bits = core.len().trailing_zeros();
    let reversed = |i: usize| i.reverse_bits().checked_shr(usize::BITS - bits).unwrap_or(0);
    uniform(shape, doubling((0..core.len()).map(|i| core[reversed(i)].clone()).collect()))
}
