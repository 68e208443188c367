//! The names of the collectives.

use std::fmt;
use std::str::FromStr;

macro_rules! operations {
    ($($(#[$doc:meta])* $variant:ident = $name:literal),* $(,)?) => {
        /// A collective operation.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum Operation { $($(#[$doc])* $variant),* }

        impl Operation {
            /// All operations.
            pub const ALL: &'static [Operation] = &[$(Operation::$variant),*];

            /// The name used in messages and on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Operation::$variant => $name),* }
            }
        }
    };
}

operations! {
    /// Barrier.
    Ibarrier = "ibarrier",
    /// Broadcast.
    Ibcast = "ibcast",
    /// The root gives every rank a block.
    Iscatter = "iscatter",
    /// The same with blocks of different lengths, anywhere in the root's memory.
    Iscatterv = "iscatterv",
    /// Every rank gives the root a block.
    Igather = "igather",
    /// The same with blocks of different lengths, anywhere in the root's memory.
    Igatherv = "igatherv",
    /// Every rank gives every rank the same block.
    Iallgather = "iallgather",
    /// The same with blocks of different lengths, anywhere in memory.
    Iallgatherv = "iallgatherv",
    /// Every rank sends a block to every rank.
    Ialltoall = "ialltoall",
    /// The same with blocks of different lengths, anywhere in memory.
    Ialltoallv = "ialltoallv",
    /// The same where each block has a type of its own: in bytes, as here, no different from `ialltoallv`.
    Ialltoallw = "ialltoallw",
    /// Reduction whose result the root gets.
    Ireduce = "ireduce",
    /// Reduction whose result all ranks get.
    Iallreduce = "iallreduce",
    /// Reduction of which every rank gets a part.
    IreduceScatter = "ireduce_scatter",
    /// The same with parts of one length.
    IreduceScatterBlock = "ireduce_scatter_block",
    /// Every rank gets the reduction of the ranks up to itself.
    Iscan = "iscan",
    /// Every rank gets the reduction of the ranks before it; rank 0 gets nothing.
    Iexscan = "iexscan",
}

impl Operation {
    /// Whether it combines elements, in an order that each of its algorithms states.
    pub const fn is_reduction(self) -> bool {
        matches!(
            self,
            Operation::Ireduce
                | Operation::Iallreduce
                | Operation::IreduceScatter
                | Operation::IreduceScatterBlock
                | Operation::Iscan
                | Operation::Iexscan
        )
    }

    /// Whether all ranks know one size of it, by which an algorithm can be chosen. The others' algorithms are the same for
    /// all sizes.
    pub const fn has_common_size(self) -> bool {
        !matches!(
            self,
            Operation::Ibarrier
                | Operation::Iscatterv
                | Operation::Igatherv
                | Operation::Ialltoallv
                | Operation::Ialltoallw
        )
    }

    /// Whether one of the ranks has a part of its own.
    pub const fn has_root(self) -> bool {
        matches!(
            self,
            Operation::Ibcast
                | Operation::Iscatter
                | Operation::Iscatterv
                | Operation::Igather
                | Operation::Igatherv
                | Operation::Ireduce
        )
    }
}

impl Operation {
    /// The name of the operation itself, whether it is started at once, prepared or waited for: `allreduce`.
    pub fn plain_name(self) -> &'static str {
        self.name().strip_prefix('i').unwrap_or(self.name())
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no operation.
#[derive(Debug, thiserror::Error)]
#[error("unknown operation `{name}`; there are: {}", known())]
pub struct UnknownOperation {
    name: String,
}

fn known() -> String {
    Operation::ALL.iter().map(|o| o.name()).collect::<Vec<_>>().join(", ")
}

impl FromStr for Operation {
    type Err = UnknownOperation;

    fn from_str(name: &str) -> Result<Operation, UnknownOperation> {
        let found = Operation::ALL.iter().find(|o| o.name() == name);
        found.copied().ok_or_else(|| UnknownOperation { name: name.to_owned() })
    }
}
