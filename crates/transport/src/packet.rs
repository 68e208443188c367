use std::fmt;

/// What a packet is for. Classes between the same two ranks are independent: one that is full never blocks
/// another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Class {
    /// Point-to-point eager messages and announcements (RTS), in one lane so that matching order holds.
    Eager = 0,
    /// The same for collectives.
    Coll = 1,
    /// Answers (CTS, ACK, FIN, ...): bounded by what the receiver itself has outstanding, always consumable.
    Control = 2,
    /// Pieces of large messages.
    Bulk = 3,
}

impl Class {
    /// All classes, by index; Control first is the better order to drain them in.
    pub const ALL: [Class; 4] = [Class::Eager, Class::Coll, Class::Control, Class::Bulk];

    /// 0 to 3.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Whether a thread copies out what comes, as it comes ([`Transport::await_coming`](crate::Transport::await_coming)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Awaits {
    /// None does.
    Nothing = 0,
    /// One stays inside the engine for that.
    Looking = 1,
    /// One waits, if [`Transport::is_waiting`](crate::Transport::is_waiting) says so.
    Waiting = 2,
    /// One has posted a receive that it is expected to wait for right after.
    Soon = 3,
}

/// The envelope of a packet. What `a`, `b` and `c` mean depends on the kind.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct Header {
    /// One of [`kind`](crate::kind).
    pub kind: u8,
    /// Meaning depends on the kind.
    pub flags: u8,
    /// Context of the communicator.
    pub context: u32,
    /// Tag of the message.
    pub tag: i32,
    /// First word.
    pub a: u64,
    /// Second word.
    pub b: u64,
    /// Third word.
    pub c: u64,
}

/// A received packet: the header copied out, the payload still in the lane.
///
/// `payload..payload+len` lies inside the lane, is readable until the packet is consumed, and may be changed
/// by a misbehaving peer at any time: copy it out once, through raw pointers, and check the copy.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// The envelope.
    pub header: Header,
    /// First byte of the payload. Not null, also when `len` is 0.
    pub payload: *const u8,
    /// Bytes of payload.
    pub len: usize,
}

/// What a transport can do.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Capabilities {
    /// Whether the methods so listed may be called from a handler.
    pub handler_safe: bool,
    /// Whether all ranks share one node's memory.
    pub node_shared: bool,
    /// Longest payload in bytes per class, by [`Class::index`].
    pub max_payload: [usize; 4],
}

impl Capabilities {
    /// Capabilities of a transport.
    pub const fn new(handler_safe: bool, node_shared: bool, max_payload: [usize; 4]) -> Self {
        Capabilities { handler_safe, node_shared, max_payload }
    }

    /// Longest payload of a class in bytes.
    #[inline]
    pub const fn max_payload(&self, class: Class) -> usize {
        match class {
            Class::Eager => self.max_payload[0],
            Class::Coll => self.max_payload[1],
            Class::Control => self.max_payload[2],
            Class::Bulk => self.max_payload[3],
        }
    }
}

/// Answer of [`try_send`](crate::Transport::try_send).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum SendOutcome {
    /// The packet is in the lane.
    Sent,
    /// No room now; the sender is rung when there is.
    Full,
    /// The peer is dead, finalized, or has written nonsense: nothing sent to it is ever read.
    Gone,
}

/// What became of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerState {
    /// Not yet started, or no such rank.
    Absent,
    /// Running.
    Alive,
    /// Has left the world in good order. What it sent before is still there.
    Finalized,
    /// Died. What it sent before is still there.
    Dead,
}

impl fmt::Display for PeerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PeerState::Absent => "not started",
            PeerState::Alive => "alive",
            PeerState::Finalized => "finalized",
            PeerState::Dead => "dead",
        })
    }
}

/// Answer of [`arrival`](crate::Transport::arrival).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// There is nothing.
    Nothing,
    /// The oldest packet is on its way: a part of its payload is missing.
    Comes,
    /// There is something to peek at.
    Here,
}

/// Answer of [`peek`](crate::Transport::peek).
#[derive(Clone, Copy, Debug)]
pub enum Recv {
    /// Nothing there.
    Empty,
    /// The oldest packet.
    Packet(Packet),
    /// The peer wrote nonsense. Said once per peer; its lanes are closed (empty, and `Gone` for sends) from
    /// now on.
    Corrupt,
}
