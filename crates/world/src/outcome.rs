//! The one place where codes and errors of the layers below become this crate's errors.

use tocsin_progress::{Code, Outcome};

use crate::error::Error;

/// The error that an outcome means, if any. `room`: bytes of the receive buffer; `rank_of`: world rank to
/// communicator rank.
pub(crate) fn check(
    operation: &'static str,
    outcome: Outcome,
    room: usize,
    rank_of: impl Fn(u32) -> u32,
) -> Result<(), Error> {
    let rank = outcome.source;
    Err(match outcome.code {
        Code::Ok => return Ok(()),
        Code::Truncated => Error::Truncated {
            source_rank: rank_of(rank),
            tag: outcome.tag,
            message: outcome.bytes,
            buffer: room as u64,
        },
        Code::PeerDead => Error::PeerDead { operation, rank },
        Code::PeerFinalized => Error::PeerFinalized { operation, rank },
        Code::NeverReceived => {
            Error::NeverReceived { operation, rank, tag: outcome.tag, bytes: outcome.bytes, others: 0 }
        }
        Code::Finalized => Error::Finalized { operation },
        Code::Cancelled => Error::Cancelled { operation },
        Code::Revoked => Error::Revoked { operation },
        Code::TooManyUnexpected => Error::TooManyUnexpected { operation },
        Code::UserOperatorPanicked => Error::UserOperatorPanicked { operation },
        Code::Aborted => Error::Aborted { operation, code: outcome.detail as i32 },
        Code::OutOfMemory => Error::OutOfMemory { operation, rank },
        _ => Error::Protocol { operation, rank },
    })
}

/// A refusal of the point-to-point layer; see [`Rank::or_abort`](crate::rank::Rank::or_abort).
pub(crate) fn message_error(operation: &'static str, error: tocsin_p2p::Error) -> Error {
    use tocsin_p2p::Error as E;
    match error {
        E::NoSuchRank { rank, size } => Error::RankOutOfRange { operation, rank, size },
        E::PeerDead { rank } => Error::PeerDead { operation, rank },
        E::PeerFinalized { rank } => Error::PeerFinalized { operation, rank },
        E::Protocol { rank } => Error::Protocol { operation, rank },
        E::Revoked { .. } => Error::Revoked { operation },
        E::TooLong { .. } => Error::BufferLength { operation, what: error.to_string() },
        E::NoSuchMessage => Error::InvalidArgument { operation, what: error.to_string() },
        other => Error::System { operation: operation.into(), reason: other.to_string() },
    }
}

/// A refusal of the collectives; see [`Rank::or_abort`](crate::rank::Rank::or_abort).
pub(crate) fn collective_error(operation: &'static str, error: tocsin_nbc::Error) -> Error {
    use tocsin_nbc::Error as E;
    match error {
        E::NoSuchRank { rank, size, .. } => Error::RootOutOfRange { operation, root: rank, size },
        E::InvalidOperator { op, data_type } => Error::OperatorType {
            operation,
            op: op.to_string(),
            data_type: data_type.to_string(),
            hint: "bitwise and logical operators take integers, minloc and maxloc value-index pairs, the others numbers",
        },
        E::UnknownAlgorithm { name, known, .. } => Error::UnknownAlgorithm { operation, name, known },
        E::TooLarge { .. } | E::Blocks { .. } => Error::BufferLength { operation, what: error.to_string() },
        E::Restricted { .. } | E::Buffers(_) => Error::InvalidArgument { operation, what: error.to_string() },
        E::BadSchedule(_) => Error::Internal { operation, what: error.to_string() },
        E::PointToPoint(below) => message_error(operation, below),
        other => Error::System { operation: operation.into(), reason: other.to_string() },
    }
}
