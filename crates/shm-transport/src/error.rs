use std::io;

/// Why a segment could not be made, attached or passed on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Zero ranks, or more than the descriptors allow.
    #[error("a world of {ranks} ranks is not possible: 1 to {max} ranks share one segment; use fewer ranks")]
    Ranks {
        /// Ranks asked for.
        ranks: u32,
        /// Most ranks possible.
        max: u32,
    },
    /// The system refused the segment or its memory.
    #[error(
        "the system refused shared memory for the world: {call} of {bytes} bytes failed ({source}); \
         check the limits of the job (ulimit -a: file size, open files, virtual memory, and locked memory where the process locks what it maps; cgroup memory.max, or memory.limit_in_bytes)"
    )]
    Refused {
        /// The system call.
        call: &'static str,
        /// Bytes asked for.
        bytes: u64,
        /// Its answer.
        source: io::Error,
    },
    /// A heap that no process could map.
    #[error(
        "a heap of {arena} bytes for each of {ranks} ranks is not possible: all of it may have at most {} bytes: set TOCSIN_HEAP to less",
        crate::MAX_HEAP
    )]
    HeapTooLarge {
        /// Bytes per rank.
        arena: u64,
        /// Ranks.
        ranks: u32,
    },
    /// The world has no heap.
    #[error(
        "this world has no shared heap: it was made without one (TOCSIN_HEAP=0), or a limit of the job (ulimit -f) is against a file of that length; allocate otherwise"
    )]
    NoHeap,
    /// The process has no room for the heap's addresses.
    #[error(
        "the system refused {bytes} bytes of addresses for the world's shared heap ({source}): set TOCSIN_HEAP to less (each rank's part), or \
         raise the limit of the job (ulimit -v)"
    )]
    HeapRefused {
        /// Bytes of all parts.
        bytes: u64,
        /// The system's answer.
        source: io::Error,
    },
    /// A rank's part of the heap has no room in one piece.
    #[error(
        "rank {rank} has {arena} bytes of the world's shared heap and no {bytes} of them free in one piece: free some, or set TOCSIN_HEAP \
         to more"
    )]
    HeapFull {
        /// The rank.
        rank: u32,
        /// Bytes asked for.
        bytes: u64,
        /// Bytes that it has.
        arena: u64,
    },
    /// What was asked for would take memory that is not there.
    #[error(
        "{bytes} bytes of the world's shared heap were asked for, and this machine, or the control group of this job, has {available} bytes of memory \
         left, of which some must stay: allocate less, free something, or raise the limit of the job (cgroup memory.max, or memory.limit_in_bytes)"
    )]
    HeapShort {
        /// Bytes asked for.
        bytes: u64,
        /// Bytes that are left.
        available: u64,
    },
    /// What was passed is no memfd that can be sealed.
    #[error("not a tocsin segment: the descriptor is no sealable memfd ({source})")]
    NotMemfd {
        /// The system's answer.
        source: io::Error,
    },
    /// A seal is missing, so that its owner could cut the memory off under this process.
    #[error("not a tocsin segment: it is not sealed against {missing}, so it could vanish while in use")]
    NotSealed {
        /// Which seals are missing.
        missing: String,
    },
    /// The magic number is wrong.
    #[error("not a tocsin segment: it starts with {found:#018x}")]
    Magic {
        /// What stands there.
        found: u64,
    },
    /// Another version.
    #[error(
        "the segment has version {found}, this program has {expected}: launcher and program must be built from the \
         same version of tocsin"
    )]
    Version {
        /// What stands in the segment.
        found: u32,
        /// What this program knows.
        expected: u32,
    },
    /// Another number of ranks than agreed.
    #[error("the segment is for {found} ranks, the launcher announced {expected}")]
    RankCount {
        /// What stands in the segment.
        found: u32,
        /// What was announced.
        expected: u32,
    },
    /// Laid out otherwise.
    #[error(
        "the segment is laid out otherwise (digest {found:#x}, here {expected:#x}): launcher and program must be \
         built from the same version of tocsin"
    )]
    Layout {
        /// What stands in the segment.
        found: u64,
        /// What this program computes.
        expected: u64,
    },
    /// The file is shorter or longer than its layout.
    #[error("the segment has {found} bytes where its layout needs {expected}")]
    Size {
        /// Bytes of the file.
        found: u64,
        /// Bytes of the layout.
        expected: u64,
    },
    /// A rank outside the world.
    #[error("rank {rank} does not exist: this world has ranks 0 to {}", ranks.saturating_sub(1))]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// Number of ranks.
        ranks: u32,
    },
    /// The rank has had an endpoint already; positions in its lanes live in that endpoint alone.
    #[error("rank {rank} already has an endpoint: a rank joins a world once")]
    RankTaken {
        /// The rank.
        rank: u32,
    },
    /// The other end of a socket belongs to somebody else.
    #[error("refused: the other end of the socket runs as user {found}, this process as user {expected}")]
    ForeignUser {
        /// The other's user id.
        found: u32,
        /// Ours.
        expected: u32,
    },
    /// The other end closed the socket.
    #[error("the other end closed the socket while {doing}")]
    Closed {
        /// What we were at.
        doing: &'static str,
    },
    /// No answer in time.
    #[error("no answer within {seconds} s while {doing}")]
    TimedOut {
        /// What we were at.
        doing: &'static str,
        /// The time allowed.
        seconds: f64,
    },
    /// What arrived is no message of ours.
    #[error("the other end of the socket sent nonsense: {what}")]
    Protocol {
        /// What was wrong.
        what: String,
    },
    /// A system call failed otherwise.
    #[error("{call} failed: {source}")]
    Os {
        /// The system call.
        call: &'static str,
        /// Its answer.
        source: io::Error,
    },
}

impl Error {
    /// The last system call's error, under the call's name.
    pub(crate) fn os(call: &'static str) -> Error {
        Error::Os { call, source: io::Error::last_os_error() }
    }
}
