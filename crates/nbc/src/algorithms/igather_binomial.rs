//! Gather along a binomial tree (the classic of MPI libraries; see Thakur, Rabenseifner and Gropp 2005, section 4).
//!
//! A rank collects the blocks of its subtree and hands them to its parent in one message. At the root they arrive where
//! they belong: a subtree whose ranks begin again at 0 takes two messages.

use super::places::put;
use super::tree::{Run, Tree, level};
use crate::Error;
use crate::builder::{Mem, ScheduleBuilder, StepId};
use crate::table::{Algorithm, Arguments, Operation, Restrictions, SPLIT_TREE, misplaced};
use tocsin_topology::split_tree::Weights;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Igather,
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
    let Arguments::Igather { send, recv, block, root } = *arguments else { return Err(misplaced()) };
    if block == 0 {
        return Ok(());
    }
    let tree = Tree::new(b.rank(), b.size(), root);
    let own = send.map_or(Mem::User(recv).at(block * b.rank() as usize), Mem::read_only);
    // Below the root, the blocks of a subtree stand in the order of its places.
    let held = match tree.span() {
        _ if tree.place == 0 => Mem::User(recv),
        1 => own,
        span => b.temp(block * span as usize),
    };
    let memory = |run: &Run| match tree.place {
        0 => held.at(block * run.rank as usize),
        top => held.at(block * (run.place - top) as usize),
    };
    let mut ready: Vec<StepId> = Vec::new();
    for (place, span) in tree.children().rev() {
        let before = ready.len();
        for (round, run) in (0..).zip(tree.runs(place, span)) {
            let bytes = block * run.ranks as usize;
            ready.push(b.recv(tree.member(place), round, memory(&run), bytes, &[]));
        }
        b.end_level(level(place), &ready[before..]);
    }
    let mine = if tree.place == 0 { held.at(block * b.rank() as usize) } else { held };
    ready.extend(put(b, own, mine, block, &[]));
    if let Some(parent) = tree.parent() {
        let mut sent = Vec::new();
        for (round, run) in (0..).zip(tree.runs(tree.place, tree.span())) {
            sent.push(b.send(parent, round, memory(&run), block * run.ranks as usize, &ready));
        }
        b.end_level(level(tree.place), &sent);
    }
    Ok(())
}
