//! What callers say: arguments, limits, answers.

use tocsin_transport::Class;

use crate::{ConstBuf, MutBuf};

/// When a send is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// When its buffer may be used again.
    #[default]
    Standard,
    /// When, besides, the receiver has matched it.
    Synchronous,
    /// As [`Standard`](Self::Standard), of a collective: who waits for what.
    Step {
        /// Nobody waits for what its receiver does about it but that rank itself: that it has come interrupts nobody who has not asked for that, if it
        /// goes in one short packet or this rank copies it there.
        ends_there: bool,
        /// Nobody waits for its end but this rank itself: that its receiver has copied it interrupts nobody who has not asked for that.
        ends_here: bool,
        /// So many sends, this one among them, begin together there: see [`Config::single_copy_from`].
        at_once: u32,
    },
}

/// What to send, where.
#[derive(Clone, Copy, Debug)]
pub struct SendArgs {
    /// Context of the communicator. Bit 31 marks its collective half.
    pub context: u32,
    /// World rank of the receiver.
    pub dest: u32,
    /// Tag.
    pub tag: i32,
    /// The message.
    pub buf: ConstBuf,
    /// When it is complete.
    pub mode: Mode,
    /// [`Class::Eager`] for users' messages, [`Class::Coll`] for those of collectives.
    pub class: Class,
    /// 0 for a user's request; else the word by which [`next_completed`](crate::P2p::next_completed) names it.
    pub cookie: u64,
}

/// What to receive, from where.
#[derive(Clone, Copy, Debug)]
pub struct RecvArgs {
    /// Context of the communicator.
    pub context: u32,
    /// World rank of the sender; None: any.
    pub source: Option<u32>,
    /// Tag; None: any.
    pub tag: Option<i32>,
    /// Where the message goes. Longer messages are truncated.
    pub buf: MutBuf,
    /// As in [`SendArgs`].
    pub class: Class,
    /// As in [`SendArgs`].
    pub cookie: u64,
}

/// What a probe tells of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// World rank of the sender.
    pub source: u32,
    /// Tag.
    pub tag: i32,
    /// Length in bytes.
    pub bytes: usize,
}

/// A message taken out of matching by [`improbe`](crate::P2p::improbe); to be received by
/// [`mrecv`](crate::P2p::mrecv), once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MessageId {
    pub(crate) class: u8,
    pub(crate) index: u32,
    pub(crate) serial: u32,
}

/// Sizes and limits of one rank's engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Longest message in bytes that travels eagerly. The transport's longest payload cuts it.
    pub eager_max: usize,
    /// The same for a blocking send to a blocking receive of another process that waits already: both copy at once then,
    /// the sender into the lane while the receiver takes out what is there.
    pub waiting_eager_max: usize,
    /// The same for messages of collectives. Longer, because what is late there delays others: an eager message takes one
    /// interrupt of who computes, an announced one two or three.
    pub coll_eager_max: usize,
    /// Shortest message in bytes that is offered for a single copy where it is all that this rank sends; shorter ones that are announced go through the Bulk
    /// lane. Of k sends that are under way at once a k-th part is enough: together they take as much of the caches, which what is copied twice fills twice. (S. Moreaud, RenPar 2009, section 4:
    /// between two ranks a single copy pays from 16 KiB on, in an alltoall among eight from 4.)
    pub single_copy_from: u64,
    /// Whether large messages go in pieces through the Bulk lane where threads of both ranks wait for them and the kernel would have
    /// to copy: one copies in while the other copies out, which is quicker than two that copy half of it each by system calls; and those of
    /// up to 256 KiB from and to memory that both have mapped, or of [`waiting_eager_max`](Self::waiting_eager_max) where ranks [share cores](crate::P2p::set_crowded).
    pub pipelines: bool,
    /// Whether [that](Self::pipelines) is compared with the kernel's copies, for messages of more than 256 KiB, and all of collectives, and done where it is the
    /// quicker way: where ranks [share cores](crate::P2p::set_crowded), that which keeps the cores busy for less.
    pub compares: bool,
    /// Shortest message of a collective in bytes that a rank which has begun to copy it alone asks for anew, in pieces, because both wait by
    /// now; with [`pipelines`](Self::pipelines).
    pub pieces_from: u64,
    /// Unexpected messages that there is room for from the start, per class.
    pub unexpected_messages: usize,
    /// 512-byte blocks for their payloads from the start, per class. Payloads of at most 64 bytes need none.
    pub unexpected_blocks: usize,
    /// Bytes that unexpected messages may take at most, per class.
    pub unexpected_limit: usize,
    /// Whether receives that are posted before their messages publish their buffers, so that senders copy there with no
    /// handshake and no interrupt.
    pub publish: bool,
}

impl Default for Config {
    /// 16 KiB eager, 64 KiB in collectives and to who waits; 1 MiB or so of unexpected messages, at most 256 MiB.
    fn default() -> Config {
        Config {
            eager_max: 16384,
            waiting_eager_max: 65536,
            coll_eager_max: 65536,
            single_copy_from: 0,
            pipelines: false,
            compares: false,
            pieces_from: 64 << 10,
            unexpected_messages: 1024,
            unexpected_blocks: 1024,
            unexpected_limit: 256 << 20,
            publish: true,
        }
    }
}

/// What was moved, since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Packets put into lanes.
    pub packets_sent: u64,
    /// Packets taken out of lanes.
    pub packets_received: u64,
    /// Payload bytes put into lanes.
    pub bytes_sent: u64,
    /// Payload bytes taken out of lanes.
    pub bytes_received: u64,
    /// Bytes copied, by who ran the engine: user's thread, handler, progress thread.
    pub bytes_copied: [u64; 3],
    /// Those of them that were copied once from sender to receiver, through no lane: in memory that both have mapped.
    pub bytes_in_place: u64,
    /// The same by the kernel, from or to the other process.
    pub bytes_by_kernel: u64,
    /// The same by KNEM.
    pub bytes_by_knem: u64,
    /// Those that were read out of a pipe into which their sender had put pages.
    pub bytes_by_pages: u64,
}
