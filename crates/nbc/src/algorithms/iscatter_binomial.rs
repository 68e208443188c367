//! Scatter along a binomial tree (the classic of MPI libraries; see Thakur, Rabenseifner and Gropp 2005, section 4).
//!
//! A rank gets the blocks of its whole subtree in one message and passes on those of its children's. The root sends
//! from where the blocks stand: a subtree whose ranks begin again at 0 takes two messages.

use super::places::put;
use super::tree::{Run, Tree, level};
use crate::Error;
use crate::builder::{Mem, ScheduleBuilder, StepId};
use crate::table::{Algorithm, Arguments, Operation, Restrictions, SPLIT_TREE, misplaced};
use tocsin_topology::split_tree::Weights;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Iscatter,
    name: "binomial",
    source: "Thakur, Rabenseifner, Gropp 2005",
    cost: "ceil(log2 p) a + (p-1) n b",
    restrictions: Restrictions::NONE,
    compile,
    order: None,
};

/// Whose levels next to the leaves the ranks do themselves: [`split`](crate::split).
pub(crate) const SPLIT: Algorithm = Algorithm {
    name: SPLIT_TREE,
    source: "Taboada, thesis, Bordeaux 2018, chapter 5",
    compile: compile_split,
    ..ALGORITHM
};

fn compile_split(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    b.split(Weights::Doubling);
    compile(arguments, b)
}

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let Arguments::Iscatter { send, recv, block, root } = *arguments else { return Err(misplaced()) };
    if block == 0 {
        return Ok(());
    }
    let tree = Tree::new(b.rank(), b.size(), root);
    let own = recv.map_or(Mem::read_only(send).at(block * b.rank() as usize), Mem::User);
    // Below the root, the blocks of a subtree stand in the order of its places.
    let held = match tree.span() {
        _ if tree.place == 0 => Mem::read_only(send),
        1 => own,
        span => b.temp(block * span as usize),
    };
    let memory = |run: &Run| match tree.place {
        0 => held.at(block * run.rank as usize),
        top => held.at(block * (run.place - top) as usize),
    };
    let mut ready: Vec<StepId> = Vec::new();
    if let Some(parent) = tree.parent() {
        for (round, run) in (0..).zip(tree.runs(tree.place, tree.span())) {
            ready.push(b.recv(parent, round, memory(&run), block * run.ranks as usize, &[]));
        }
    }
    for (place, span) in tree.children() {
        let gate = b.gate(level(place));
        let after: Vec<StepId> = ready.iter().copied().chain(gate).collect();
        for (round, run) in (0..).zip(tree.runs(place, span)) {
            b.send(tree.member(place), round, memory(&run), block * run.ranks as usize, &after);
        }
    }
    let mine = if tree.place == 0 { held.at(block * b.rank() as usize) } else { held };
    put(b, mine, own, block, &ready);
    Ok(())
}
