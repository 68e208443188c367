//! Status codes: one for each kind of error that a program can act on.

use std::ffi::{CStr, c_char, c_int};

use tocsin_world::Error;

/// Success.
pub const TOCSIN_OK: c_int = 0;
/// An argument is NULL, out of range or does not fit the others.
pub const TOCSIN_ERROR_ARGUMENT: c_int = 1;
/// A rank or root that the communicator does not have.
pub const TOCSIN_ERROR_RANK: c_int = 2;
/// A negative tag.
pub const TOCSIN_ERROR_TAG: c_int = 3;
/// An operator or element type that does not exist, or the two do not go together.
pub const TOCSIN_ERROR_OPERATOR: c_int = 4;
/// No algorithm of that name.
pub const TOCSIN_ERROR_ALGORITHM: c_int = 5;
/// An environment variable TOCSIN_* is wrong, or names a backend that this machine cannot run.
pub const TOCSIN_ERROR_ENVIRONMENT: c_int = 6;
/// The message was longer than the buffer.
pub const TOCSIN_ERROR_TRUNCATED: c_int = 7;
/// A rank that the operation needs died.
pub const TOCSIN_ERROR_PEER_DEAD: c_int = 8;
/// A rank that the operation needs has finalized, or will never receive the message, because it leaves or has freed the communicator and has no request there.
pub const TOCSIN_ERROR_PEER_FINALIZED: c_int = 9;
/// The request was cancelled.
pub const TOCSIN_ERROR_CANCELLED: c_int = 10;
/// The communicator was revoked.
pub const TOCSIN_ERROR_REVOKED: c_int = 11;
/// A peer called another collective than this rank, or wrote what is no message.
pub const TOCSIN_ERROR_PROTOCOL: c_int = 12;
/// Too many messages that nobody receives.
pub const TOCSIN_ERROR_UNEXPECTED: c_int = 13;
/// Some rank called tocsin_abort.
pub const TOCSIN_ERROR_ABORTED: c_int = 14;
/// The rank has finalized.
pub const TOCSIN_ERROR_FINALIZED: c_int = 15;
/// The call is not allowed on this thread, or in the function of an operator.
pub const TOCSIN_ERROR_THREAD: c_int = 16;
/// The world could not be joined.
pub const TOCSIN_ERROR_BOOTSTRAP: c_int = 17;
/// The system refused memory, descriptors or a call.
pub const TOCSIN_ERROR_SYSTEM: c_int = 18;
/// An operator or a rank's body failed.
pub const TOCSIN_ERROR_USER: c_int = 19;
/// A mistake in tocsin itself: please report it.
pub const TOCSIN_ERROR_INTERNAL: c_int = 20;

/// The text of each code, by its value.
const TEXTS: [&CStr; 21] = [
    c"success",
    c"invalid argument",
    c"rank or root out of range",
    c"invalid tag",
    c"operator or element type does not fit",
    c"unknown algorithm",
    c"wrong environment variable or unusable backend",
    c"message truncated",
    c"peer died",
    c"peer has finalized",
    c"cancelled",
    c"communicator revoked",
    c"peer called another collective or broke the protocol",
    c"too many unexpected messages",
    c"world aborted",
    c"rank has finalized",
    c"not allowed on this thread",
    c"cannot join the world",
    c"the system refused",
    c"user function failed",
    c"internal error",
];

/// The code of an error of the layer below.
pub(crate) fn code_of(error: &Error) -> c_int {
    match error {
        Error::BufferLength { .. } | Error::InvalidArgument { .. } => TOCSIN_ERROR_ARGUMENT,
        Error::RankOutOfRange { .. } | Error::RootOutOfRange { .. } => TOCSIN_ERROR_RANK,
        Error::NegativeTag { .. } => TOCSIN_ERROR_TAG,
        Error::OperatorType { .. } => TOCSIN_ERROR_OPERATOR,
        Error::UnknownAlgorithm { .. } => TOCSIN_ERROR_ALGORITHM,
        Error::Environment { .. } | Error::UnknownVariable { .. } | Error::BackendUnusable { .. } => {
            TOCSIN_ERROR_ENVIRONMENT
        }
        Error::Truncated { .. } => TOCSIN_ERROR_TRUNCATED,
        Error::PeerDead { .. } => TOCSIN_ERROR_PEER_DEAD,
        Error::PeerFinalized { .. } | Error::NeverReceived { .. } => TOCSIN_ERROR_PEER_FINALIZED,
        Error::Cancelled { .. } => TOCSIN_ERROR_CANCELLED,
        Error::Revoked { .. } => TOCSIN_ERROR_REVOKED,
        Error::Protocol { .. } => TOCSIN_ERROR_PROTOCOL,
        Error::TooManyUnexpected { .. } => TOCSIN_ERROR_UNEXPECTED,
        Error::Aborted { .. } => TOCSIN_ERROR_ABORTED,
        Error::Finalized { .. } => TOCSIN_ERROR_FINALIZED,
        Error::InHandler { .. } => TOCSIN_ERROR_THREAD,
        Error::Bootstrap { .. }
        | Error::JoinedBefore { .. }
        | Error::Version { .. }
        | Error::OtherTable { .. } => TOCSIN_ERROR_BOOTSTRAP,
        Error::UserOperatorPanicked { .. } | Error::RankPanicked { .. } => TOCSIN_ERROR_USER,
        Error::Internal { .. } => TOCSIN_ERROR_INTERNAL,
        // The rest are refusals by the system; a variant that is new below says so in its text.
        _ => TOCSIN_ERROR_SYSTEM,
    }
}

/// A few words for a status code, never NULL. For what exactly was wrong see tocsin_last_error.
#[unsafe(no_mangle)]
pub extern "C" fn tocsin_strerror(code: c_int) -> *const c_char {
    let text = usize::try_from(code).ok().and_then(|code| TEXTS.get(code).copied());
    text.unwrap_or(c"unknown status code").as_ptr()
}
