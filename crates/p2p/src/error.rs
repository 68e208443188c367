//! Why a call was refused. A request that was accepted ends with a [`Code`](tocsin_progress::Code) instead.

/// Why a call was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A rank outside the world.
    #[error("rank {rank} does not exist: this world has ranks 0 to {}", size.saturating_sub(1))]
    NoSuchRank {
        /// The rank asked for.
        rank: u32,
        /// Number of ranks in the world.
        size: u32,
    },
    /// The rank died.
    #[error("rank {rank} is dead; revoke the communicator and go on with the survivors, or abort")]
    PeerDead {
        /// The rank.
        rank: u32,
    },
    /// The rank has left the world.
    #[error("rank {rank} has finalized; send to it and receive from it before it leaves")]
    PeerFinalized {
        /// The rank.
        rank: u32,
    },
    /// The rank has written what the protocol does not allow, and is treated as dead.
    #[error("rank {rank} broke the protocol (a damaged or hostile process) and is treated as dead")]
    Protocol {
        /// The rank.
        rank: u32,
    },
    /// The communicator was revoked.
    #[error("the communicator (context {context}) was revoked; make a new one")]
    Revoked {
        /// Its context.
        context: u32,
    },
    /// Memory was refused.
    #[error("memory for {what} was refused; complete some requests first, or raise the job's memory limit")]
    OutOfMemory {
        /// What it was for.
        what: &'static str,
    },
    /// A class that carries no messages.
    #[error("class {class:?} carries no messages; use Eager or Coll")]
    WrongClass {
        /// The class.
        class: tocsin_transport::Class,
    },
    /// A message whose size does not fit in memory.
    #[error("a message of {bytes} bytes does not fit in memory; check block, stride and count")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// A message that was received already, or never existed.
    #[error("this probed message was received already; receive each message once")]
    NoSuchMessage,
    /// The transport could not set up the pair.
    #[error(transparent)]
    Transport(#[from] tocsin_transport::Error),
}
