//! The table of algorithms. The dispatcher, the tests, the documentation and `--algorithm` read it; an algorithm that
//! is not in it does not exist.

use crate::builder::ScheduleBuilder;
use crate::order::{Shape, Share};
use crate::schedule::Schedule;
use crate::{DataType, Error, Group, Op, algorithms};
use std::fmt;
use std::str::FromStr;

/// A collective operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Operation {
    /// Barrier.
    Ibarrier,
    /// Broadcast.
    Ibcast,
    /// Reduction whose result all ranks get.
    Iallreduce,
    /// Every rank sends a block to every rank.
    Ialltoall,
}

impl Operation {
    /// All operations.
    pub const ALL: &'static [Operation] =
        &[Operation::Ibarrier, Operation::Ibcast, Operation::Iallreduce, Operation::Ialltoall];

    /// The name used in messages and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Ibarrier => "ibarrier",
            Operation::Ibcast => "ibcast",
            Operation::Iallreduce => "iallreduce",
            Operation::Ialltoall => "ialltoall",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no operation.
#[derive(Debug, thiserror::Error)]
#[error("unknown operation `{name}`; there are: ibarrier, ibcast, iallreduce, ialltoall")]
pub struct UnknownOperation {
    name: String,
}

impl FromStr for Operation {
    type Err = UnknownOperation;

    fn from_str(name: &str) -> Result<Operation, UnknownOperation> {
        let found = Operation::ALL.iter().find(|o| o.name() == name);
        found.copied().ok_or_else(|| UnknownOperation { name: name.to_owned() })
    }
}

/// The arguments of a call, as untyped memory. `send: None` is the in-place form: the input stands in `recv`.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Arguments {
    /// Barrier.
    Ibarrier,
    /// Broadcast of `bytes` from `root`'s `buffer` into everybody's.
    Ibcast {
        /// Read at the root, written elsewhere.
        buffer: *mut u8,
        /// Its length.
        bytes: usize,
        /// The rank that sends.
        root: u32,
    },
    /// Reduction.
    Iallreduce {
        /// Input, or in place.
        send: Option<*const u8>,
        /// Result.
        recv: *mut u8,
        /// Elements.
        count: usize,
        /// Their type.
        data_type: DataType,
        /// The operator.
        op: Op,
    },
    /// Exchange of blocks.
    Ialltoall {
        /// One block per rank, or in place.
        send: Option<*const u8>,
        /// One block per rank.
        recv: *mut u8,
        /// Bytes of a block.
        block: usize,
    },
}

impl Arguments {
    /// The operation these arguments are for.
    pub const fn operation(&self) -> Operation {
        match self {
            Arguments::Ibarrier => Operation::Ibarrier,
            Arguments::Ibcast { .. } => Operation::Ibcast,
            Arguments::Iallreduce { .. } => Operation::Iallreduce,
            Arguments::Ialltoall { .. } => Operation::Ialltoall,
        }
    }

    /// The size by which an algorithm is chosen: the whole buffer, or the block per rank of an all-to-all.
    fn size_bytes(&self) -> usize {
        match self {
            Arguments::Ibarrier => 0,
            Arguments::Ibcast { bytes, .. } => *bytes,
            Arguments::Iallreduce { count, data_type, .. } => count.saturating_mul(data_type.size()),
            Arguments::Ialltoall { block, .. } => *block,
        }
    }

    fn is_commutative(&self) -> bool {
        match self {
            Arguments::Iallreduce { op, .. } => op.is_commutative(),
            _ => true,
        }
    }

    fn check(&self, group: &Group) -> Result<(), Error> {
        match *self {
            Arguments::Ibarrier => Ok(()),
            Arguments::Ibcast { root, bytes, .. } => {
                if root >= group.size() {
                    return Err(Error::NoSuchRank { what: "root", rank: root, size: group.size() });
                }
                fits(bytes, 1)
            }
            Arguments::Iallreduce { count, data_type, op, .. } => {
                crate::kernels::Operator::new(op, data_type)?;
                fits(count, data_type.size())
            }
            Arguments::Ialltoall { block, .. } => fits(group.size() as usize, block),
        }
    }
}

/// No allocation is longer than `isize::MAX`; temporaries need at most a few times as much as the user's buffers,
/// and the builder checks them by itself.
fn fits(count: usize, size: usize) -> Result<(), Error> {
    match count.checked_mul(size) {
        Some(bytes) if isize::try_from(bytes).is_ok() => Ok(()),
        _ => Err(Error::TooLarge { count, size }),
    }
}

/// What an algorithm cannot do.
#[derive(Clone, Copy, Debug)]
pub struct Restrictions {
    /// Needs a commutative operator.
    pub commutative: bool,
    /// Most ranks it takes.
    pub max_ranks: u32,
}

impl Restrictions {
    /// None at all.
    pub const NONE: Restrictions = Restrictions { commutative: false, max_ranks: u32::MAX };

    /// Why these arguments are excluded, if they are.
    pub fn refusal(&self, arguments: &Arguments, ranks: u32) -> Option<&'static str> {
        if self.commutative && !arguments.is_commutative() {
            return Some("changes the order of operands and so needs a commutative operator");
        }
        if ranks > self.max_ranks {
            return Some("has more rounds than a message tag can number with so many ranks");
        }
        None
    }
}

/// Translates a call into steps.
pub type Compile = fn(&Arguments, &mut ScheduleBuilder) -> Result<(), Error>;

/// One algorithm.
#[derive(Debug)]
pub struct Algorithm {
    /// What it computes.
    pub operation: Operation,
    /// Its name, unique within the operation.
    pub name: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// What it takes on p ranks with n bytes (the size that `size_bytes` means): `a` is the time of a message, `b` of
    /// moving a byte, `g` of reducing a byte.
    pub cost: &'static str,
    /// What it cannot do.
    pub restrictions: Restrictions,
    /// How it does it.
    pub compile: Compile,
    /// Reductions: the documented combination order, for each range of elements; all ranks get the same.
    pub order: Option<fn(&Shape) -> Vec<Share>>,
}

/// All algorithms; the first of each operation has no restriction.
pub static ALGORITHMS: &[Algorithm] = &[
    algorithms::ibarrier_dissemination::ALGORITHM,
    algorithms::ibcast_binomial::ALGORITHM,
    algorithms::ibcast_chain::ALGORITHM,
    algorithms::ibcast_linear::ALGORITHM,
    algorithms::iallreduce_recursive_doubling::ALGORITHM,
    algorithms::iallreduce_reduce_bcast::ALGORITHM,
    algorithms::iallreduce_rabenseifner::ALGORITHM,
    algorithms::iallreduce_ring::ALGORITHM,
    algorithms::ialltoall_linear::ALGORITHM,
    algorithms::ialltoall_pairwise::ALGORITHM,
    algorithms::ialltoall_bruck::ALGORITHM,
];

/// The algorithms of an operation.
pub fn of(operation: Operation) -> impl Iterator<Item = &'static Algorithm> {
    ALGORITHMS.iter().filter(move |a| a.operation == operation)
}

/// The algorithm of that name.
///
/// # Errors
/// [`Error::UnknownAlgorithm`], which lists the names there are.
pub fn find(operation: Operation, name: &str) -> Result<&'static Algorithm, Error> {
    of(operation).find(|a| a.name == name).ok_or_else(|| Error::UnknownAlgorithm {
        operation,
        name: name.to_owned(),
        known: names(of(operation)),
    })
}

/// The algorithm that the library takes by itself. The same on all ranks, because it looks at nothing but what all
/// ranks know.
pub fn choose(arguments: &Arguments, ranks: u32) -> &'static Algorithm {
    // Defaults until `tocsin tune` measures them: the orders of magnitude at which MPICH and Open MPI switch too.
    let bytes = arguments.size_bytes();
    let name = match arguments.operation() {
        Operation::Ibarrier => "dissemination",
        Operation::Ibcast if ranks > 2 && bytes >= 512 << 10 => "chain",
        Operation::Ibcast => "binomial",
        Operation::Iallreduce if bytes <= 16 << 10 || ranks <= 2 => "recursive-doubling",
        Operation::Iallreduce if bytes >= 1 << 20 && (ranks as usize) <= bytes >> 16 => "ring",
        Operation::Iallreduce => "rabenseifner",
        Operation::Ialltoall if bytes <= 256 && ranks >= 8 => "bruck",
        Operation::Ialltoall if bytes <= 32 << 10 => "linear",
        Operation::Ialltoall => "pairwise",
    };
    let able = |a: &&Algorithm| a.restrictions.refusal(arguments, ranks).is_none();
    of(arguments.operation())
        .find(|a| a.name == name)
        .filter(able)
        .or_else(|| of(arguments.operation()).find(able))
        .unwrap_or(&ALGORITHMS[0])
}

/// Compiles a call. User threads only: allocates.
///
/// The schedule keeps the addresses of the buffers; who posts it promises that they live.
///
/// # Errors
/// Invalid arguments, an unknown or restricted algorithm, memory refused.
pub fn compile(
    group: &Group,
    arguments: &Arguments,
    algorithm: Option<&str>,
) -> Result<Box<Schedule>, Error> {
    arguments.check(group)?;
    let operation = arguments.operation();
    let chosen = match algorithm {
        None => choose(arguments, group.size()),
        Some(name) => find(operation, name)?,
    };
    if let Some(why) = chosen.restrictions.refusal(arguments, group.size()) {
        let able = of(operation).filter(|a| a.restrictions.refusal(arguments, group.size()).is_none());
        return Err(Error::Restricted { operation, name: chosen.name, why, others: names(able) });
    }
    let mut builder = ScheduleBuilder::new(group);
    (chosen.compile)(arguments, &mut builder)?;
    builder.finish()
}

fn names(algorithms: impl Iterator<Item = &'static Algorithm>) -> String {
    algorithms.map(|a| a.name).collect::<Vec<_>>().join(", ")
}

/// For `compile` functions: the arguments of another operation than their own.
pub(crate) const fn misplaced() -> Error {
    Error::BadSchedule("an algorithm was given another operation's arguments")
}

#[cfg(test)]
mod tests;
