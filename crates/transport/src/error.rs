use crate::PeerState;

/// Why a transport could not do what a user thread asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A rank outside the world.
    #[error("rank {peer} does not exist: this world has ranks 0 to {}", size.saturating_sub(1))]
    NoSuchRank {
        /// The rank asked for.
        peer: u32,
        /// Number of ranks in the world.
        size: u32,
    },
    /// The system refused the memory that a pair of ranks needs.
    #[error(
        "no memory for the lanes between ranks {rank} and {peer}: {bytes} bytes were refused ({source}); \
         raise the memory limit of the job (cgroup memory.max, vm.overcommit_memory) or run fewer ranks per node"
    )]
    NoMemory {
        /// This rank.
        rank: u32,
        /// The rank to be connected to.
        peer: u32,
        /// Bytes asked for.
        bytes: u64,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The peer can no longer be reached.
    #[error("rank {peer} is {state}")]
    Gone {
        /// The rank.
        peer: u32,
        /// What became of it.
        state: PeerState,
    },
    /// A system call failed otherwise.
    #[error("{call} failed: {source}")]
    Os {
        /// The system call.
        call: &'static str,
        /// Its answer.
        source: std::io::Error,
    },
}
