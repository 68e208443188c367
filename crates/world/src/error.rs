//! The one error type of this crate: which rank, which operation, what to do.

use std::{fmt, io};

/// What went wrong, in terms of what the caller passed or what happened to a peer.
///
/// Every text says the operation, the rank where there is one, and what to do next. `{:?}` gives it, too: that is what `main` and `unwrap` print.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A rank that the communicator does not have.
    #[error("{operation}: rank {rank} is out of range: this communicator has ranks 0 to {}", size.saturating_sub(1))]
    RankOutOfRange {
        /// The call.
        operation: &'static str,
        /// The rank as passed.
        rank: u32,
        /// Size of the communicator.
        size: u32,
    },
    /// A root that the communicator does not have.
    #[error("{operation}: root {root} is out of range: this communicator has ranks 0 to {}", size.saturating_sub(1))]
    RootOutOfRange {
        /// The call.
        operation: &'static str,
        /// The root as passed.
        root: u32,
        /// Size of the communicator.
        size: u32,
    },
    /// A negative tag.
    #[error("{operation}: tag {tag} is negative: use tags from 0 to {}", i32::MAX)]
    NegativeTag {
        /// The call.
        operation: &'static str,
        /// The tag as passed.
        tag: i32,
    },
    /// A buffer whose length does not fit the operation.
    #[error("{operation}: {what}")]
    BufferLength {
        /// The call.
        operation: &'static str,
        /// Which length was wrong, and which one is right.
        what: String,
    },
    /// An argument that is wrong for another reason.
    #[error("{operation}: {what}")]
    InvalidArgument {
        /// The call.
        operation: &'static str,
        /// What was wrong, and what is right.
        what: String,
    },
    /// An operator that is not defined on the element type.
    #[error("{operation}: operator {op} is not defined on {data_type} elements: {hint}")]
    OperatorType {
        /// The call.
        operation: &'static str,
        /// The operator.
        op: String,
        /// The element type.
        data_type: String,
        /// What would be right.
        hint: &'static str,
    },
    /// An algorithm that the operation does not have. One that cannot serve this communicator is an [`InvalidArgument`](Self::InvalidArgument).
    #[error("{operation}: no algorithm `{name}` here: choose one of {known}")]
    UnknownAlgorithm {
        /// The call.
        operation: &'static str,
        /// The name as passed.
        name: String,
        /// Those that exist, comma separated.
        known: String,
    },
    /// An environment variable, or option of the same meaning, with a wrong value.
    #[error("{variable}={value}: not a value of it: use {right}")]
    Environment {
        /// Its name.
        variable: String,
        /// Its value as found.
        value: String,
        /// The right values.
        right: String,
    },
    /// A `TOCSIN_` variable that does not exist.
    #[error("{variable} is not a variable of tocsin: unset it, or use one of {known}")]
    UnknownVariable {
        /// Its name.
        variable: String,
        /// Those that exist, comma separated.
        known: String,
    },
    /// A backend that this machine cannot run.
    #[error(
        "backend {backend} is not usable here: {reason}; {}",
        // What auto means is no advice to whom it failed.
        if backend == "uintr" { "use TOCSIN_BACKEND=auto, or one of signal, thread, poll" } else { "or use TOCSIN_BACKEND=thread or poll" }
    )]
    BackendUnusable {
        /// Its name.
        backend: String,
        /// Why not.
        reason: String,
    },
    /// The message was longer than the buffer of the receive that it matched.
    #[error(
        "receive from rank {source_rank} tag {tag}: the message has {message} bytes, the buffer {buffer}: receive into a larger one"
    )]
    Truncated {
        /// Sender, as a rank of the communicator.
        source_rank: u32,
        /// Its tag.
        tag: i32,
        /// Bytes sent.
        message: u64,
        /// Bytes of room.
        buffer: u64,
    },
    /// A rank that the operation needs died (killed, panicked, or exited without finalizing).
    #[error(
        "{operation}: rank {rank} of the world is dead (killed, panicked, or ended without finalizing): nothing more will come from it; revoke the communicator and go on without it, or finish"
    )]
    PeerDead {
        /// The call.
        operation: &'static str,
        /// Rank in the world.
        rank: u32,
    },
    /// A rank that the operation needs has finalized and will not answer.
    #[error("{operation}: rank {rank} of the world has finalized: it can no longer take part")]
    PeerFinalized {
        /// The call.
        operation: &'static str,
        /// Rank in the world.
        rank: u32,
    },
    /// The receiver of a message leaves the world, or has dropped the communicator, and has not received it. From finalize: so it was with messages that
    /// were still to be taken when this rank began to leave, or whose requests were dropped; they are given up, and it has left.
    #[error(
        "{operation}: a message of {bytes} bytes with tag {tag} to rank {rank} of the world{} was never received, and cannot be any more, since its receiver leaves \
         the world, or has dropped the communicator: have it receive what it is sent before that",
        match others { 0 => String::new(), n => format!(" (and {n} more)") }
    )]
    NeverReceived {
        /// The call.
        operation: &'static str,
        /// Receiver, in the world.
        rank: u32,
        /// The message's tag.
        tag: i32,
        /// Its bytes.
        bytes: u64,
        /// How many more there are.
        others: usize,
    },
    /// The request was cancelled.
    #[error("{operation}: cancelled")]
    Cancelled {
        /// The call.
        operation: &'static str,
    },
    /// The communicator was revoked, here or by a peer.
    #[error(
        "{operation}: the communicator was revoked (by a call of a rank's, or because one was refused memory for a collective or could not go on with it): make a new one \
         with dup or split from a communicator that was not"
    )]
    Revoked {
        /// The call.
        operation: &'static str,
    },
    /// A peer wrote something that is no packet, or takes part in a collective that is another one than this rank's.
    #[error(
        "{operation}: rank {rank} of the world called another collective than this rank (operation, root, size or algorithm), or \
         broke the protocol: compare what the two call in which order"
    )]
    Protocol {
        /// The call.
        operation: &'static str,
        /// Rank in the world.
        rank: u32,
    },
    /// The system refused a rank what a collective takes, so that none of the communicator's ranks can have the result, nor that of later ones.
    #[error(
        "{operation}: rank {rank} of the world was refused memory for a collective of this communicator, which has no more of them: see the error \
         that rank had; raise the job's memory limit, or go on with communicators that were made before"
    )]
    OutOfMemory {
        /// The call.
        operation: &'static str,
        /// Rank in the world.
        rank: u32,
    },
    /// The hard limit of unexpected messages was reached.
    #[error(
        "{operation}: too many unexpected messages: post receives earlier, or raise TOCSIN_UNEXPECTED_MAX"
    )]
    TooManyUnexpected {
        /// The call.
        operation: &'static str,
    },
    /// A user operator panicked, on this rank or another. Where that was in a collective by messages, others had waited for the rest of it,
    /// and later ones of the communicator have no result either.
    #[error(
        "{operation}: the user operator panicked, here or on another rank: this collective has no result, and if it went by messages, later ones of its \
         communicator have none either (then go on with another one, or make one with dup or split from one that is in order)"
    )]
    UserOperatorPanicked {
        /// The call.
        operation: &'static str,
    },
    /// Some rank called abort.
    #[error("{operation}: the world was aborted with code {code}")]
    Aborted {
        /// The call.
        operation: &'static str,
        /// The code.
        code: i32,
    },
    /// A scope ended with operations in flight; its communicator is revoked.
    #[error(
        "scope: it ended with {pending} operations pending: its communicator was revoked; wait for every request inside the scope"
    )]
    ScopeLeftPending {
        /// How many had to be stopped.
        pending: usize,
    },
    /// A call after finalize.
    #[error(
        "{operation}: this rank has finalized: make the call before World::finalize or the drop of World"
    )]
    Finalized {
        /// The call.
        operation: &'static str,
    },
    /// A call from a callback or handler that may not make it.
    #[error("{operation}: not allowed in a handler or in a user operator: do it on a user thread, outside")]
    InHandler {
        /// The call.
        operation: &'static str,
    },
    /// The environment promised a launcher, and it could not be used.
    #[error(
        "cannot join the world: {what}; start the program with `tocsin run -n N -- PROGRAM`, or unset the TOCSIN_BOOTSTRAP variables to run alone"
    )]
    Bootstrap {
        /// What failed.
        what: String,
    },
    /// A world is joined again where that cannot be.
    #[error("cannot join a world again: {what}")]
    JoinedBefore {
        /// What was joined before, and what to do.
        what: &'static str,
    },
    /// Launcher and program are of different versions.
    #[error(
        "cannot join the world: the launcher is tocsin {launcher}, this program was built with {program}: build both from one version"
    )]
    Version {
        /// The launcher's.
        launcher: String,
        /// This program's.
        program: String,
    },
    /// This rank's table of algorithms is not that of the ranks which joined before it.
    #[error(
        "rank {rank} cannot join the world: its table TOCSIN_TUNE ({table}) says other algorithms of collectives than that of the ranks which have joined, and they would wait for each other for ever: give all ranks the same table, or none"
    )]
    OtherTable {
        /// Rank in the world.
        rank: u32,
        /// The table's file, or `none`.
        table: String,
    },
    /// More ranks than this process may have descriptors for.
    #[error(
        "{ranks} ranks need {needed} file descriptors, the limit (RLIMIT_NOFILE) is {limit}: start fewer ranks, or raise it (ulimit -n {needed})"
    )]
    DescriptorLimit {
        /// Ranks asked for.
        ranks: u32,
        /// Descriptors needed.
        needed: u64,
        /// Soft limit in force.
        limit: u64,
    },
    /// The program to launch could not be started.
    #[error("cannot start `{program}`: {reason}")]
    Start {
        /// The program.
        program: String,
        /// The system's reason, and what to do.
        reason: String,
    },
    /// One rank thread panicked.
    #[error("rank {rank} panicked: {message}")]
    RankPanicked {
        /// Rank in the world.
        rank: u32,
        /// The panic's text.
        message: String,
    },
    /// A mistake in tocsin itself.
    #[error("{operation}: {what}: this is a mistake in tocsin, please report it")]
    Internal {
        /// The call.
        operation: &'static str,
        /// What cannot be.
        what: String,
    },
    /// The system refused something.
    #[error("{operation}: {reason}")]
    System {
        /// What was attempted.
        operation: String,
        /// The system's reason and what to do.
        reason: String,
    },
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// A refusal of a thread: its limit counts with processes.
    pub(crate) fn thread(operation: impl Into<String>, error: io::Error) -> Error {
        let what =
            "raise the limit of processes and threads, or of memory (ulimit -u, ulimit -v, cgroup pids.max)";
        Error::System { operation: operation.into(), reason: format!("{error}: {what}") }
    }

    /// A refusal by the system.
    pub(crate) fn os(operation: impl Into<String>, error: io::Error) -> Error {
        Error::System { operation: operation.into(), reason: error.to_string() }
    }

    /// The world rank that this error is about, where it names one.
    pub fn rank(&self) -> Option<u32> {
        match self {
            Error::PeerDead { rank, .. }
            | Error::PeerFinalized { rank, .. }
            | Error::Protocol { rank, .. }
            | Error::OutOfMemory { rank, .. }
            | Error::NeverReceived { rank, .. }
            | Error::RankPanicked { rank, .. } => Some(*rank),
            _ => None,
        }
    }
}
