//! The shared structures. All of them consist of atomics, and all bytes zero is their beginning.

use tocsin_doorbell::{Descriptor, Mark};
use tocsin_sync::atomic::{AtomicI64, AtomicU32, AtomicU64};
use tocsin_transport::SHOUTS;
use tocsin_transport::board::MEMBERS;

use crate::geometry::MAX_RANKS;
use crate::lane::LaneHead;

/// "tocsin" and two bytes that no text file has.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"tocsin\x1a\x00");
/// Changes with every change of layout or protocol that the digest does not notice.
pub(crate) const VERSION: u32 = 14;

/// Words of a bitmap of ranks.
pub(crate) const RANK_WORDS: usize = MAX_RANKS as usize / 64;

/// One bit per rank.
pub(crate) type Ranks = [AtomicU64; RANK_WORDS];
/// A private copy of one.
pub(crate) type RanksCopy = [u64; RANK_WORDS];

/// At offset 0. The first six fields are written before the segment is passed on and never again; an
/// attaching process reads them with `pread`, before it maps anything.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Header {
    pub magic: AtomicU64,
    pub version: AtomicU32,
    pub ranks: AtomicU32,
    pub bytes: AtomicU64,
    pub digest: AtomicU64,
    /// Bytes of the heap that each rank has.
    pub arena: AtomicU64,
    pub shared: Shared,
}

/// What changes, on lines of its own.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct Shared {
    /// Counts deaths, finalizes and aborts.
    pub epoch: AtomicU64,
    /// Bit 32: aborted, with the exit code in the low half.
    pub abort: AtomicU64,
    /// 1 once somebody has allocated from the heap.
    pub heap_used: AtomicU32,
    /// What all ranks have to be alike in; 0: no rank has said it yet.
    pub agreed: AtomicU64,
    /// How many cores the ranks have, together, and of what kind: [`Cores`](super::Cores); 0: no rank has said it yet.
    pub cores: AtomicU32,
}

/// One per rank.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct RankBlock {
    pub descriptor: Descriptor,
    pub state: State,
    /// Who has connected to this rank: bit of a rank = the pair's memory is allocated, both ways.
    pub incoming: Ranks,
    /// Who has allocated Bulk to this rank.
    pub bulk: Ranks,
    /// By rank: marks of those that ring this one without having connected, for a part on a board.
    pub marks: BoardMarks,
}

#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct State {
    /// A `Life`.
    pub life: AtomicU32,
    /// 1 once the rank has an endpoint.
    pub taken: AtomicU32,
    /// Its NUMA node and one; 0: it has none.
    pub node: AtomicU32,
    /// The process of the rank, and where in its memory stands which word: for its peers to try to read.
    pub process: AtomicU32,
    pub probe_value: AtomicU64,
    pub probe_address: AtomicU64,
    /// What XPMEM calls the process's memory; negative: it does not, 0: the rank has not said.
    pub xpmem: AtomicI64,
    /// The key by which KNEM knows the word that peers try; all ones: there is none, 0: the rank has not said.
    pub knem: AtomicU64,
    /// How many of the rank's threads wait for a collective: written by it alone.
    pub committed: AtomicU32,
    /// How many pipes' ends were sent to the rank.
    pub mails: AtomicU32,
    /// Contexts, and 1, of which all ranks are to hear that the rank has revoked them; 0: none. Written by it alone.
    pub shouts: [AtomicU32; SHOUTS],
    /// Where in the rank's memory the heap lies, once it reaches others' buffers there; else 0.
    pub heap: AtomicU64,
    /// The name of the socket to which they are sent, in the kernel's space of names, filled up with zeros; 0: there is none. And what proves
    /// that a datagram is from a rank of this world.
    pub mail_name: AtomicU64,
    pub mail_secret: [AtomicU64; 2],
    /// In which parts of the machine it is, as who made the world has put it into a word, before anybody else had the segment; 0: that is not known.
    pub place: AtomicU64,
}

#[cfg(test)]
impl State {
    /// That of a rank that runs, and has said nothing else.
    pub(crate) fn running() -> State {
        State {
            life: AtomicU32::new(1),
            taken: AtomicU32::new(1),
            node: AtomicU32::new(0),
            process: AtomicU32::new(0),
            probe_value: AtomicU64::new(0),
            probe_address: AtomicU64::new(0),
            xpmem: AtomicI64::new(0),
            knem: AtomicU64::new(0),
            committed: AtomicU32::new(0),
            mails: AtomicU32::new(0),
            shouts: std::array::from_fn(|_| AtomicU32::new(0)),
            heap: AtomicU64::new(0),
            mail_name: AtomicU64::new(0),
            mail_secret: [AtomicU64::new(0), AtomicU64::new(0)],
            place: AtomicU64::new(0),
        }
    }
}

#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct BoardMarks(pub [Mark; MEMBERS]);

/// At the beginning of a pair area.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct PairHead {
    /// Set by the sender of the pair when it rings, cleared by the receiver when it looks.
    pub mark: PairMark,
    /// How many long messages of the Coll class the receiver has done with: written by it alone.
    pub long_done: PairCount,
    /// Whether the receiver copies out what comes, as it comes, an `Awaits`: written by it alone.
    pub awaited: PairCount,
    /// By `Class::index`.
    pub lanes: [LaneHead; 4],
}

#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct PairMark(pub Mark);

#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct PairCount(pub AtomicU32);
