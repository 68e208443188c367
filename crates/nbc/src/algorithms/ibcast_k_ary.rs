//! Broadcast along a tree in which every rank tells up to two, four or eight others (k-ary trees: Pjesivac-Grbovic and others 2007).
//! Those of four are less deep than the binomial tree from 6 ranks on, and no rank sends more than so many times.

use crate::Error;
use crate::builder::{Mem, ScheduleBuilder};
use crate::table::{Algorithm, Arguments, Operation, Restrictions, misplaced};

pub(crate) const QUATERNARY: Algorithm = Algorithm {
    operation: Operation::Ibcast,
    name: "4-ary",
    source: "Pjesivac-Grbovic et al. 2007",
    cost: "4 ceil(log4 p) (a + n b)",
    restrictions: Restrictions::NONE,
    compile: compile::<4>,
    order: None,
};

pub(crate) const BINARY: Algorithm =
    Algorithm { name: "2-ary", cost: "2 ceil(log2 p) (a + n b)", compile: compile::<2>, ..QUATERNARY };

pub(crate) const OCTONARY: Algorithm =
    Algorithm { name: "8-ary", cost: "8 ceil(log8 p) (a + n b)", compile: compile::<8>, ..QUATERNARY };

fn compile<const CHILDREN: u64>(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let Arguments::Ibcast { buffer, bytes, root } = *arguments else { return Err(misplaced()) };
    if bytes == 0 {
        return Ok(());
    }
    let (size, root, buffer) = (u64::from(b.size()), u64::from(root), Mem::User(buffer));
    // Counted from the root, the children of a rank follow those of the rank before it.
    let place = (u64::from(b.rank()) + size - root) % size;
    let member = |place: u64| ((place + root) % size) as u32;
    let mut ready = Vec::new();
    if place > 0 {
        ready.push(b.recv(member((place - 1) / CHILDREN), 0, buffer, bytes, &[]));
    }
    for child in (CHILDREN * place + 1..=CHILDREN * (place + 1)).filter(|child| *child < size) {
        if CHILDREN * child + 1 < size {
            b.send(member(child), 0, buffer, bytes, &ready);
        } else {
            b.send_last(member(child), 0, buffer, bytes, &ready);
        }
    }
    Ok(())
}
