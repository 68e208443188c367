use crate::table::Operation;
use crate::{DataType, Op};

/// Why a collective could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A rank or root outside the communicator.
    #[error("{what} {rank} does not exist: this communicator has ranks 0 to {}", size.saturating_sub(1))]
    NoSuchRank {
        /// "rank" or "root".
        what: &'static str,
        /// The number given.
        rank: u32,
        /// Number of ranks.
        size: u32,
    },
    /// An operator that the element type does not have.
    #[error("operator {op} does not exist for elements of type {data_type}: {hint}", hint = hint(*.op))]
    InvalidOperator {
        /// The operator.
        op: Op,
        /// The element type.
        data_type: DataType,
    },
    /// No algorithm of that name.
    #[error("{operation} has no algorithm `{name}`; it has: {known}")]
    UnknownAlgorithm {
        /// The operation.
        operation: Operation,
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The algorithm's restrictions exclude these arguments.
    #[error(
        "algorithm `{name}` of {operation} {why}; leave the choice to the library or take one of: {others}"
    )]
    Restricted {
        /// The operation.
        operation: Operation,
        /// The algorithm asked for.
        name: &'static str,
        /// Which restriction.
        why: &'static str,
        /// The algorithms that can do it.
        others: String,
    },
    /// Sizes whose product does not fit the address space.
    #[error("a buffer of {count} elements of {size} bytes does not fit the address space: check the count")]
    TooLarge {
        /// Elements.
        count: usize,
        /// Bytes of each.
        size: usize,
    },
    /// A list of blocks that is not one per rank.
    #[error("the {what} buffer has {given} blocks: give one for each of the {size} ranks")]
    Blocks {
        /// "send" or "receive".
        what: &'static str,
        /// Blocks given.
        given: usize,
        /// Number of ranks.
        size: u32,
    },
    /// Buffers that do not go together.
    #[error("{0}")]
    Buffers(&'static str),
    /// A schedule that is not a valid graph: an error of the algorithm that built it.
    #[error("the algorithm built a schedule that is none ({0})")]
    BadSchedule(&'static str),
    /// No memory for the schedule.
    #[error(
        "no memory for a schedule ({bytes} bytes of temporaries): complete some collectives first, or raise the job's memory limit"
    )]
    OutOfMemory {
        /// Bytes of temporaries asked for.
        bytes: usize,
    },
    /// No memory that the ranks of the communicator share, where long parts of its collectives stand.
    #[error(
        "no shared memory for this rank's part of a collective ({bytes} bytes): raise the job's memory limit (cgroup memory.max or memory.limit_in_bytes, \
         vm.overcommit_memory; ulimit does not count it), have such collectives in fewer communicators, since each keeps its own, or name an \
         algorithm that goes by messages"
    )]
    NoLongMemory {
        /// Bytes asked for.
        bytes: usize,
    },
    /// A handle that was released before, or a schedule that is still running.
    #[error("this collective {0}")]
    BadHandle(&'static str),
    /// The layer below refused requests, or memory for a peer.
    #[error(transparent)]
    PointToPoint(#[from] tocsin_p2p::Error),
}

impl Error {
    /// Whether the system refused this rank memory, or what else it needs of it: the others may have begun what it could not, and are
    /// to [hear](crate::Nbc::refuse) of that.
    pub fn is_want_of_memory(&self) -> bool {
        use tocsin_p2p::Error as Below;
        use tocsin_transport::Error as Transport;
        let of_the_system =
            |error: &Transport| matches!(error, Transport::NoMemory { .. } | Transport::Os { .. });
        match self {
            Error::OutOfMemory { .. }
            | Error::NoLongMemory { .. }
            | Error::PointToPoint(Below::OutOfMemory { .. }) => true,
            Error::PointToPoint(Below::Transport(error)) => of_the_system(error),
            _ => false,
        }
    }
}

fn hint(op: Op) -> &'static str {
    match op {
        Op::BAnd | Op::BOr | Op::BXor => "bitwise operators take integers and bytes",
        Op::LAnd | Op::LOr | Op::LXor => "logical operators take integers",
        Op::MinLoc | Op::MaxLoc => "minloc and maxloc take pairs of a value and an index",
        Op::User(_) => "user operators take elements of at least one byte",
        _ => "sum, prod, min and max take integers and floats",
    }
}
