//! Barrier along a binomial tree: up to rank 0 when a subtree is complete, then down again (the classic of MPI libraries).
//! Half the messages of dissemination for many ranks, twice as long a path.

use super::tree::Tree;
use crate::Error;
use crate::builder::{Mem, ScheduleBuilder, StepId};
use crate::table::{Algorithm, Arguments, Operation, Restrictions};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ibarrier,
    name: "tree",
    source: "Thakur, Rabenseifner, Gropp 2005 (binomial trees)",
    cost: "2 ceil(log2 p) a",
    restrictions: Restrictions::NONE,
    compile,
    order: None,
};

fn compile(_: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let nothing = Mem::User(std::ptr::dangling_mut());
    let tree = Tree::new(b.rank(), b.size(), 0);
    let mut ready: Vec<StepId> =
        tree.children().map(|(place, _)| b.recv(tree.member(place), 0, nothing, 0, &[])).collect();
    if let Some(parent) = tree.parent() {
        b.send(parent, 0, nothing, 0, &ready);
        // The parent answers when all have come, these children too.
        ready = vec![b.recv(parent, 0, nothing, 0, &[])];
    }
    for (place, _) in tree.children() {
        b.send(tree.member(place), 0, nothing, 0, &ready);
    }
    Ok(())
}
