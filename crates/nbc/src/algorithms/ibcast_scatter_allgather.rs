//! Broadcast as a scatter of its parts followed by an allgather (Barnett, Shuler, Gupta, Payne, van de Geijn and Watts,
//! "Building a high-performance collective communication library", 1994): every rank sends about twice the buffer at most,
//! however many they are.
//!
//! Counted from the root, part i is for rank i. The scatter goes down a binomial tree and leaves each rank with the parts
//! of its subtree; in the ring of the allgather nobody is sent a part that it has.

use super::tree::Tree;
use crate::Error;
use crate::builder::{Mem, ScheduleBuilder, StepId};
use crate::schedule::ROUND_BITS;
use crate::table::{Algorithm, Arguments, Operation, Restrictions, misplaced};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ibcast,
    name: "scatter-allgather",
    source: "Barnett et al. 1994 (van de Geijn)",
    cost: "(ceil(log2 p) + p - 1) a + 2 (p-1)/p n b",
    restrictions: Restrictions { max_ranks: (1 << ROUND_BITS) - 1, ..Restrictions::NONE },
    compile,
    order: None,
};

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let Arguments::Ibcast { buffer, bytes, root } = *arguments else { return Err(misplaced()) };
    let (buffer, size) = (Mem::User(buffer), b.size());
    let tree = Tree::new(b.rank(), size, root);
    // Parts of whole cache lines, so that no line is written for two of them.
    let part = bytes.div_ceil(size as usize).next_multiple_of(64);
    let start = |place: u32| (part * place as usize).min(bytes);
    let length = |place: u32, span: u32| start(place + span) - start(place);

    let mut scattered: Option<StepId> = None;
    let mine = length(tree.place, tree.span());
    if let Some(parent) = tree.parent().filter(|_| mine > 0) {
        scattered = Some(b.recv(parent, 0, buffer.at(start(tree.place)), mine, &[]));
    }
    for (place, span) in tree.children() {
        let bytes = length(place, span);
        if bytes > 0 {
            b.send(tree.member(place), 0, buffer.at(start(place)), bytes, scattered.as_slice());
        }
    }

    // The ring: part i sets out at place i, or from the last place that has had it from the scatter.
    let (before, after) = ((tree.place + (size - 1)) % size, (tree.place + 1) % size);
    let span_of_next = Tree::new(tree.member(after), size, root).span();
    let mut arrived: Option<StepId> = None;
    for step in steps(tree.place, bytes.div_ceil(part.max(1)).min(size as usize) as u32, size) {
        let (out, inward) = ((tree.place + (size - step)) % size, (before + (size - step)) % size);
        let round = 1 + step;
        if !has(after, span_of_next, out) && length(out, 1) > 0 {
            let ready = if has(tree.place, tree.span(), out) { scattered } else { arrived };
            b.send(tree.member(after), round, buffer.at(start(out)), length(out, 1), ready.as_slice());
        }
        arrived = None;
        if !has(tree.place, tree.span(), inward) && length(inward, 1) > 0 {
            arrived =
                Some(b.recv(tree.member(before), round, buffer.at(start(inward)), length(inward, 1), &[]));
        }
    }
    Ok(())
}

/// The steps of the ring in which a place sends or receives one of the parts that have bytes, the first so many.
fn steps(place: u32, parts: u32, size: u32) -> impl Iterator<Item = u32> {
    let all = size - 1;
    let (low, high) = if parts >= size {
        (0..all, 0..0)
    } else if parts <= place {
        (place - parts..(place + 1).min(all), 0..0)
    } else {
        // Round to the last part again.
        (0..(place + 1).min(all), (place + size - parts).min(all)..all)
    };
    low.chain(high)
}

/// Whether the place has the part from the scatter.
fn has(place: u32, span: u32, part: u32) -> bool {
    part >= place && part - place < span
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_step_with_a_part_is_left_out() {
        for size in 1..12u32 {
            for (place, parts) in (0..size).flat_map(|place| (0..=size).map(move |parts| (place, parts))) {
                let moves = |step: &u32| {
                    let (out, inward) = ((place + size - step) % size, (place + 2 * size - 1 - step) % size);
                    out < parts || inward < parts
                };
                let found: Vec<u32> = steps(place, parts, size).collect();
                assert!(found.is_sorted_by(|a, b| a < b) && found.iter().all(|step| *step < size - 1));
                assert!(
                    (0..size - 1).filter(moves).all(|step| found.contains(&step)),
                    "{place} {parts} {size}"
                );
                assert!(found.len() as u32 <= parts + 1, "{place} {parts} {size}: {found:?}");
            }
        }
    }
}
