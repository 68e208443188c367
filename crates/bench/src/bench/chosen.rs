//! Which algorithm a world takes by itself: what its table says, else the library's own choice.

use crate::error::Error;
use crate::fleet::Plan;
use crate::rank::Layout;
use crate::values::{Kind, Operation};
use std::sync::Arc;
use tocsin_nbc::board::MEMBERS;
use tocsin_nbc::{Choices, Group};
use tocsin_world::algorithms::{self, Algorithm, Arguments};

/// The algorithm asked for, or the one the library takes by itself in a world of this plan.
pub(super) fn algorithm(plan: &Plan, op: Operation, bytes: u64, root: u32) -> Result<String, Error> {
    if let Some(name) = &plan.algorithm
        && !(plan.ranks == 1 && needs_board(op, name))
    {
        return Ok(name.clone());
    }
    let config = plan.config()?;
    let shares_cores = config.shares_cores(plan.ranks).map_err(Error::failed)?;
    let copies = config.copies(plan.kind.of_library(), plan.ranks).map_err(Error::failed)?;
    let relation = config.relation(&config.seats(plan.ranks).map_err(Error::failed)?);
    let choices = config.tune.and_then(|tuning| {
        let kind = plan.kind.of_library();
        tuning.table.choices(kind, plan.ranks, relation)
    });
    with_arguments(op, bytes, root, plan.ranks, |arguments| {
        own(arguments, plan.ranks, plan.kind, (shares_cores, copies), choices)
    })?
    .map(|algorithm| algorithm.name.to_owned())
}

/// The algorithm that the library takes in a world of so many ranks of a kind, which share cores or do not, what [copies](tocsin_world::Config::copies) are like
/// there, and whose table says `choices`.
pub(crate) fn own(
    arguments: &Arguments,
    ranks: u32,
    kind: Kind,
    (shares_cores, copies): (bool, (bool, bool)),
    choices: Option<Choices>,
) -> Result<&'static Algorithm, Error> {
    // As the communicator of a world of so many ranks does.
    let group = Group::new(&(0..ranks).collect::<Vec<_>>(), 0).map_err(Error::failed)?;
    let group = if has_board(ranks) { group.with_board(0) } else { group };
    let group = group.with_choices(choices.map(Arc::new)).with_shared_cores(shares_cores);
    let group = group.with_far_cache(copies.0).with_single_copies(copies.1);
    Ok(algorithms::choose_for(arguments, &group.with_one_process(kind == Kind::Thread)))
}

/// Whether that algorithm is one of those for which a rank that is alone, and shares nothing, takes another.
fn needs_board(op: Operation, name: &str) -> bool {
    algorithms::of(op).any(|algorithm| algorithm.name == name && algorithm.restrictions.needs_board())
}

/// Whether the communicator of a world of so many ranks has a board.
pub(crate) fn has_board(ranks: u32) -> bool {
    (2..=MEMBERS).contains(&(ranks as usize))
}

/// What `f` says of the arguments of a bench's operation. Only their sizes may be looked at, never the buffers.
pub(crate) fn with_arguments<R>(
    op: Operation,
    bytes: u64,
    root: u32,
    ranks: u32,
    f: impl FnOnce(&Arguments) -> R,
) -> Result<R, Error> {
    let layout = Layout::of(op, bytes as usize, ranks as usize);
    let (from, to) = (std::ptr::null(), std::ptr::null_mut());
    layout.arguments(op, bytes as usize, root, from, to).map(|arguments| f(&arguments))
}
