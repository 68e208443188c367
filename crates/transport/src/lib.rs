//! The transport trait: packets, classes, capabilities, peer states.
//!
//! A transport moves small packets between the ranks of one world, in order per (sender, receiver, class),
//! and rings the receiver's doorbell. It knows nothing of tags, requests or collectives: those live above.
//!
//! # For users
//!
//! An endpoint ([`Transport`]) belongs to one rank and is used only under that rank's engine token, by
//! whoever holds it: a user call, a handler, a progress thread. A pass over an endpoint is:
//!
//! 1. [`begin_pass`](Transport::begin_pass);
//! 2. for each sender in [`connected`](Transport::connected) and each class: [`peek`](Transport::peek), use
//!    the packet, [`consume`](Transport::consume), until empty or out of budget; retry sends that found a
//!    lane full;
//! 3. [`flush`](Transport::flush), before the token is released.
//!
//! [`loopback`] is a transport inside one process, for tests of the layers above. [`conformance`] is the
//! suite that every transport passes.
//!
//! # Implementation details
//!
//! What all ranks of a communicator say to each other at once needs no packets: [`board`].
//!
//! Packets are packed into 64-byte slots by [`wire`]; the kinds of packets stand in one table, [`kind`].
#![warn(missing_debug_implementations)]

pub mod board;
pub mod conformance;
pub mod copy;
mod error;
pub mod kind;
pub mod loopback;
mod packet;
pub mod pages;
pub mod publication;
mod rings;
pub mod short;
pub mod stores;
pub mod transfer;
pub mod wire;

pub use board::Board;
pub use error::Error;
pub use packet::{Arrival, Awaits, Capabilities, Class, Header, Packet, PeerState, Recv, SendOutcome};
pub use pages::Piped;
pub use publication::{Notice, Publication};
pub use rings::Rings;
pub use tocsin_doorbell::Urgency;
pub use transfer::{Reach, Record};

use core::ptr::NonNull;

/// How many revocations of a rank all others hear of at most that have no lane to it: [`Transport::shout`].
pub const SHOUTS: usize = 8;

/// How many long messages of collectives may be under way to a peer that waits, in a world of so many ranks: each may have to be kept
/// there, of each of the others. To one that computes, one.
pub const fn long_under_way(ranks: u32) -> u32 {
    if ranks <= 4 { 8 } else { 1 }
}

/// One rank's endpoint of a transport.
///
/// # Safety
///
/// Implementers promise that:
/// - the methods listed as handler-safe are so, if [`Capabilities::handler_safe`] says so: no allocation, no
///   waiting, no panic, bounded, `errno` kept by the caller;
/// - a packet returned by [`peek`](Self::peek) has `payload..payload+len` readable until
///   [`consume`](Self::consume) of the same peer and class, whatever the peer writes meanwhile (the bytes may
///   change under the reader's eyes if the peer misbehaves, so read them once, through raw pointers);
/// - per (sender, class) packets arrive in the order sent, each once.
pub unsafe trait Transport: Send {
    /// This endpoint's rank.
    fn rank(&self) -> u32;

    /// Number of ranks in the world.
    fn size(&self) -> u32;

    /// What this transport can do.
    fn capabilities(&self) -> &Capabilities;

    /// Allocates what the pair needs in both directions, for [`Class::Eager`], [`Class::Coll`] and
    /// [`Class::Control`]. User threads only. Idempotent, and cheap the second time.
    ///
    /// Connecting to a dead or finalized rank succeeds; [`try_send`](Self::try_send) then says
    /// [`SendOutcome::Gone`].
    ///
    /// # Errors
    /// [`Error::NoSuchRank`], [`Error::NoMemory`], [`Error::Os`].
    fn connect(&mut self, peer: u32) -> Result<(), Error>;

    /// Allocates what [`Class::Bulk`] from this rank to `peer` needs. User threads only. Idempotent. Connects
    /// the other classes too.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    fn connect_bulk(&mut self, peer: u32) -> Result<(), Error>;

    /// Makes rings to `peer` as fast as they can be, if it has joined: what needs a system call per peer. User threads
    /// only; cheap once it is done, and again and again until the peer has joined. False: ask again.
    fn prepare_rings(&mut self, _peer: u32) -> bool {
        true
    }

    /// How often this rank has interrupted others, and how. Not for handlers.
    fn rings(&self) -> Rings {
        Rings::default()
    }

    /// Whether this rank may send to `peer` in the Eager, Coll and Control classes: one of the two has
    /// connected, and this rank knows. Handler-safe.
    fn is_connected(&self, peer: u32) -> bool;

    // --- handler-safe from here on ---

    /// Starts a pass: takes this rank's own posted interrupts, learns which ranks have connected, clears
    /// their marks (so that they ring again), and fences, so that whatever was published before a suppressed
    /// ring is seen by the peeks that follow. Bounded by the number of ranks.
    fn begin_pass(&mut self);

    /// Gets what packets of long messages, of `of` bytes, travel quicker through to a peer and back, once; they travel without, too. User threads only.
    fn prepare_long(&mut self, _peer: u32, _of: usize) {}

    /// Whether the peer has done with the last long message of the Coll class that was sent to it in one packet
    /// ([`note_long_sent`](Self::note_long_sent)): else the next had better be announced, so that what the peer has to
    /// keep of such messages while it computes is bounded. A peer that waits takes them out as they come: some more may be under way.
    fn may_send_long(&self, _peer: u32) -> bool {
        true
    }

    /// A long message was sent.
    fn note_long_sent(&mut self, _peer: u32) {}

    /// A long message of this peer's was received, or dropped.
    fn note_long_done(&mut self, _peer: u32) {}

    /// Which of a connected peer's lanes to peek at: a bit per [`Class::index`]. A lane whose bit is clear was empty at the
    /// call.
    fn arrivals(&self, _peer: u32) -> u8 {
        u8::MAX
    }

    /// Whether there is something to peek at in one lane: its bit of [`arrivals`](Self::arrivals), for who waits for that
    /// lane alone.
    fn has_arrived(&self, peer: u32, class: Class) -> bool {
        self.arrivals(peer) >> class.index() & 1 != 0
    }

    /// As [`has_arrived`](Self::has_arrived); and whether something comes of which not all is there:
    /// [`peek_coming`](Self::peek_coming).
    #[inline]
    fn arrival(&self, peer: u32, class: Class) -> Arrival {
        if self.has_arrived(peer, class) { Arrival::Here } else { Arrival::Nothing }
    }

    /// In which of a connected peer's lanes of classes Eager, Coll and Bulk [`Arrival::Comes`]: a bit per [`Class::index`].
    fn coming(&self, _peer: u32) -> u8 {
        0
    }

    /// Ranks that may have sent something, in rank order, as of the last [`begin_pass`](Self::begin_pass).
    fn connected(&self) -> &[u32];

    /// Sends one packet, if there is room. The payload is copied before this returns. The peer is noted, so
    /// that [`flush`](Self::flush) rings it.
    ///
    /// After [`SendOutcome::Full`] the sender is rung when there is room again; who waits for that must retry
    /// after each [`begin_pass`](Self::begin_pass). What can never be sent (an unknown or unconnected peer, a
    /// payload longer than the class carries: errors of the caller) is answered with [`SendOutcome::Gone`].
    ///
    /// # Safety
    /// `payload` is readable for `len` bytes; it may be anything when `len` is 0.
    unsafe fn try_send(
        &mut self,
        peer: u32,
        class: Class,
        urgency: Urgency,
        header: &Header,
        payload: *const u8,
        len: usize,
    ) -> SendOutcome;

    /// How many packets of a class `peer` has taken out, and messages that it had kept [handed over](Self::note_handed), as a number that is another one after each, if its lane has no place free. `None`: it has, or nothing
    /// can be sent there. Nobody is told that somebody asks; a peer may say what it likes. Handler-safe.
    fn filled(&mut self, _peer: u32, _class: Class) -> Option<u32> {
        None
    }

    /// This rank waits for no room in the lane to `peer` of a class any more, though a send there found none: `peer` need not say that there is. For who looks by itself, and has nothing
    /// that waits to go there. Handler-safe.
    fn asks_no_more(&mut self, _peer: u32, _class: Class) {}

    /// A message that came from `peer` in a class, and was kept, is handed over: which counts as [taken out](Self::filled). Handler-safe.
    fn note_handed(&mut self, _peer: u32, _class: Class) {}

    /// [`try_send`](Self::try_send) for most messages: plain ones of at most [`short::LONGEST`] bytes in class Eager, to a peer that can take them, when
    /// there is nothing else to [`flush`](Self::flush).
    ///
    /// # Safety
    /// As [`try_send`](Self::try_send).
    #[inline]
    unsafe fn put_short(
        &mut self,
        _peer: u32,
        _context: u32,
        _tag: i32,
        _payload: *const u8,
        _len: usize,
    ) -> short::Put {
        short::Put::Not
    }

    /// [`peek`](Self::peek) and [`consume`](Self::consume) of what a thread waits for, if it is a plain message of at most [`short::LONGEST`] bytes in class
    /// Eager that `to` has room for. Looks at most `looks` times whether anything comes, and makes nothing of what else it may be.
    ///
    /// # Safety
    /// `to` is writable for `room` bytes; it may be anything when `room` is 0.
    #[inline]
    unsafe fn take_short(
        &mut self,
        _peer: u32,
        _wanted: short::Wanted,
        _to: *mut u8,
        _room: usize,
        _looks: u32,
    ) -> short::Took {
        short::Took::Other
    }

    /// [`peek`](Self::peek) and [`consume`](Self::consume) of plain messages of at most [`short::LONGEST`] bytes in class Eager, one after the other, as long
    /// as `meet` takes them, and at most `most` of them. It is given each message's envelope ([`short::context_and_tag`] reads it), its length, and where its payload
    /// lies, which is readable during that call only. What else has come stays. Handler-safe, if `meet` is.
    #[inline]
    fn take_run(
        &mut self,
        _peer: u32,
        _most: u32,
        _meet: impl FnMut(u64, usize, *const u8) -> bool,
    ) -> short::Run {
        short::Run::default()
    }

    /// Copies the first piece of a message of `of` bytes to where its packet's payload will lie, as long as nothing else is sent: for who waits for leave to
    /// [send it](Self::try_send_piece), and so has it sent at once then. False: nothing is gained by that. Bounded by `len`.
    ///
    /// # Safety
    /// `payload` is readable for `len` bytes.
    unsafe fn copy_ahead(&mut self, _peer: u32, _payload: *const u8, _len: usize, _of: u64) -> bool {
        false
    }

    /// As [`try_send`](Self::try_send), of a piece of a message of `of` bytes, in class Bulk, urgent. `ahead`: the payload is the one that was last copied
    /// [ahead](Self::copy_ahead), and has not changed since.
    ///
    /// # Safety
    /// As [`try_send`](Self::try_send).
    unsafe fn try_send_piece(
        &mut self,
        peer: u32,
        header: &Header,
        payload: *const u8,
        len: usize,
        _of: u64,
        _ahead: bool,
    ) -> SendOutcome {
        // SAFETY: the caller vouches for the payload.
        unsafe { self.try_send(peer, Class::Bulk, Urgency::Urgent, header, payload, len) }
    }

    /// Sends a piece of a message of `of` bytes as [`try_send_piece`](Self::try_send_piece), which may be as long as [`longest_whole`](Self::longest_whole), though the class carries
    /// less. It [comes](Arrival::Comes). False: it is not sent; shorter ones may be. Bounded by `len`.
    ///
    /// # Safety
    /// As [`try_send`](Self::try_send).
    unsafe fn try_send_long_piece(
        &mut self,
        _peer: u32,
        _header: &Header,
        _payload: *const u8,
        _len: usize,
        _of: u64,
    ) -> bool {
        false
    }

    /// Longest payload of [`try_send_whole`](Self::try_send_whole) in bytes; 0: there is none.
    fn longest_whole(&self) -> usize {
        0
    }

    /// As [`try_send`](Self::try_send) in class Eager, of a payload that may be longer than the class carries, for a peer that copies it out as it
    /// [comes](Self::await_coming). Without room for it at this moment nothing is sent, and nobody is rung when there is some: false.
    ///
    /// # Safety
    /// As [`try_send`](Self::try_send).
    unsafe fn try_send_whole(
        &mut self,
        _peer: u32,
        _header: &Header,
        _payload: *const u8,
        _len: usize,
    ) -> bool {
        false
    }

    /// Looks at the oldest packet that `peer` sent in `class`. The packet stays until
    /// [`consume`](Self::consume): peeking twice gives the same packet. Packets of a dead peer are still
    /// given.
    fn peek(&mut self, peer: u32, class: Class) -> Recv;

    /// The oldest packet of a lane in which [`Arrival::Comes`], a packet whose payload its sender still copies:
    /// [`come`](Self::come) tells how many bytes of it are there. To be consumed when all are. For who can wait for a
    /// moment, and turns to something else when it takes longer: the sender may have stopped.
    fn peek_coming(&mut self, peer: u32, class: Class) -> Recv {
        self.peek(peer, class)
    }

    /// How many bytes are there of the payload of the packet that [`peek_coming`](Self::peek_coming) gave: multiples of
    /// [`wire::STRIDE`], then all. More than it has means all, too.
    fn come(&self, _peer: u32, _class: Class) -> u64 {
        u64::MAX
    }

    /// Says whether a thread of this rank copies out what comes in `peer`'s Eager lane, as it comes. The peer may trust in it no more
    /// than in the weather.
    fn await_coming(&mut self, _peer: u32, _awaits: Awaits) {}

    /// Wakes `peer`, if it sleeps in a wait: before something long is copied for it. After a fence. Handler-safe.
    fn rouse(&mut self, _peer: u32) {}

    /// Whether `peer` has [said so](Self::await_coming) of this rank's lane: a thread looks or waits.
    fn is_awaited_by(&self, _peer: u32) -> bool {
        false
    }

    /// Whether what `peer` has said is that a thread is expected to wait [soon](Awaits::Soon).
    fn is_awaited_soon(&self, _peer: u32) -> bool {
        false
    }

    /// Removes the packet that [`peek`](Self::peek) gave; nothing if it gave none since. If the sender waits
    /// for room, it is noted, so that [`flush`](Self::flush) rings it.
    fn consume(&mut self, peer: u32, class: Class);

    /// Whether a pass would find something new: a packet in any lane, a rank that has newly connected, room
    /// in a lane that answered full, a new epoch. Changes nothing, so that it serves as the "look once more"
    /// of the doorbell's protocol (after a fence by the caller).
    ///
    /// A packet that the layer above has peeked at and left in its lane counts, too: who sleeps while it cannot
    /// take that packet must know so by itself.
    fn work_left(&self) -> bool;

    /// [`work_left`](Self::work_left), but for packets from `peer` in a class: of who takes those out one after the other by itself. May answer as `work_left`.
    fn work_left_beside(&self, _peer: u32, _class: Class) -> bool {
        self.work_left()
    }

    /// Fences once, then rings each rank that was sent to, or whose waiting sends have room again, at most
    /// once.
    fn flush(&mut self);

    /// [`flush`](Self::flush), but for rings that would interrupt somebody by signal: these are held back, and whether there are
    /// any is the answer. Called again, it forgets those whom it sees looking, or to have looked, by themselves. Nobody is rung by
    /// anybody else of this rank until `flush` has rung the rest: the caller keeps its engine's token from here to there. User threads only; costs as
    /// `flush`.
    fn flush_quietly(&mut self) -> bool {
        self.flush();
        false
    }

    /// The line that a look at a class's lane from `peer` will read first, which stays mapped as long as the transport lives: for who will look there after something else, and has it fetched
    /// meanwhile. Handler-safe, constant.
    fn news_at(&self, _peer: u32, _class: Class) -> Option<NonNull<u8>> {
        None
    }

    /// Has what the next packet of a class to `peer` is written to fetched meanwhile, and what says whether somebody waits there: a hint. Handler-safe, constant.
    fn will_send(&self, _peer: u32, _class: Class) {}

    /// The same as of [`will_send`](Self::will_send), and what the payload is written to, if it is as long as the last one was: for who waits for
    /// something from `peer`, which it is likely to answer. Handler-safe, constant.
    fn will_answer(&self, _peer: u32, _class: Class) {}

    /// Has [`flush`](Self::flush) ring a rank for something that is not in its lanes, but that this rank has published
    /// where the other looks in its passes: on a board. The rank need not be connected. Handler-safe, constant.
    fn announce(&mut self, _peer: u32) {}

    /// Whether a ring would interrupt a rank by signal that may come to look by itself before: a hint, for who may hold it back.
    /// Handler-safe, constant.
    fn would_signal(&self, _peer: u32) -> bool {
        false
    }

    /// Whether another rank has computed for long on a core, by its number as doorbells know it, at a time of the one clock: a hint, for
    /// who would yield there. Handler-safe, bounded by a constant.
    fn computes_beside(&mut self, _core: u32, _now: u64) -> bool {
        false
    }

    /// Another core, by its number as doorbells know it, on which fewer ranks wait than on this rank's own, if the difference is two or more, nobody is known to
    /// compute there, and this rank is the first on its core: a hint. Handler-safe, bounded by a constant.
    fn roomier_core(&self, _core: u32, _now: u64) -> Option<u32> {
        None
    }

    /// On which core a rank waits, or has just posted what others may wait for, by its number as doorbells know it, at a time of the one clock; `None` if it does not, as far as is known: a hint, for who would look for its message, or
    /// yield. Handler-safe, constant.
    fn is_where(&self, _peer: u32, _now: u64) -> Option<u32> {
        None
    }

    /// Whether a rank that was rung may have to be rung again by other means, because the ring may not reach it where
    /// it is: then [`flush`](Self::flush) is called again a millisecond later. Handler-safe, constant.
    fn awaits_answer(&self) -> bool {
        false
    }

    /// State of a rank; [`PeerState::Absent`] for a rank that does not exist.
    ///
    /// A rank may send up to its end: read the state first, then drain its lanes until they are empty, and only
    /// then conclude that a message does not come.
    fn peer_state(&self, peer: u32) -> PeerState;

    /// Changes whenever a rank becomes Finalized or Dead, or the world is aborted.
    fn epoch(&self) -> u64;

    /// Has all ranks hear that this one has revoked a communicator, without lanes to them: changes the epoch, and wakes who sleeps. User
    /// threads only.
    fn shout(&mut self, _context: u32) {}

    /// What `peer` has had all hear so, number `at` from 0 to [`SHOUTS`] less one.
    fn shouted(&self, _peer: u32, _at: usize) -> Option<u32> {
        None
    }

    /// The exit code with which some rank aborted the world.
    fn aborted(&self) -> Option<i32>;

    /// Allocates memory of this rank's on a board: `bytes` from an address on, both multiples of 4096. Whether it is there; the
    /// second time it takes a system call, and changes nothing. User threads only.
    fn allocate_long(&mut self, _at: NonNull<u8>, _bytes: usize) -> bool {
        true
    }

    // --- single copies; a transport without them leaves these as they are ---

    /// How this rank reaches the buffers of `peer`. Learnt by trying, when first asked; a peer
    /// that has not joined yet is asked again. Handler-safe; some system calls while it is tried.
    fn reach(&mut self, _peer: u32) -> Reach {
        Reach::None
    }

    /// As [`reach`](Self::reach), for `len` bytes at an address of the peer's, which may lie where both have memory. Handler-safe.
    fn reach_at(&mut self, peer: u32, _address: u64, _len: u64) -> Reach {
        self.reach(peer)
    }

    /// Whether `peer` reaches `len` bytes at an address of this rank's by memory that it has mapped, whatever else it may or may
    /// not do: once true of an address, it stays so. Handler-safe.
    fn is_shared_with(&self, _peer: u32, _address: u64, _len: u64) -> bool {
        false
    }

    /// Maps what others have begun to share, so that [`reach_at`](Self::reach_at) finds it, and takes in the ends of pipes that they have sent. User threads only; cheap when there is
    /// nothing new.
    fn prepare_shared(&mut self) {}

    /// The record `slot` of transfers from one rank to another, one of which is this one. It is there as long as the
    /// transport, once the sender has connected [`Class::Bulk`]. Handler-safe.
    fn record(&self, _from: u32, _to: u32, _slot: u32) -> Option<NonNull<Record>> {
        None
    }

    /// Where `to` publishes receives for messages from `from`. As [`record`](Self::record).
    fn publication(&self, _from: u32, _to: u32) -> Option<NonNull<Publication>> {
        None
    }

    /// Copies from a buffer of `peer`, but by [`Reach::Region`], for which there is [`pull_exposed`](Self::pull_exposed). False: it could not, and what is at `to` is unspecified. Handler-safe; bounded by
    /// `len`.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes. With [`Reach::Direct`], `from` is an address of this process that is readable
    /// for `len` bytes, and none of them is written meanwhile. With [`Reach::Shared`], `to` does not lie in what the peer shares.
    unsafe fn pull(&mut self, _peer: u32, _reach: Reach, _from: u64, _to: *mut u8, _len: usize) -> bool {
        false
    }

    /// Copies into a buffer of `peer`. As [`pull`](Self::pull).
    ///
    /// # Safety
    /// `from` is readable for `len` bytes. With [`Reach::Direct`], `to` is an address of this process that is writable
    /// for `len` bytes, and nobody else uses them meanwhile. With [`Reach::Shared`], as in `pull`.
    unsafe fn push(&mut self, _peer: u32, _reach: Reach, _from: *const u8, _to: u64, _len: usize) -> bool {
        false
    }

    // --- buffers of which the kernel is told first, for `Reach::Region`; a transport without them leaves these as they are ---

    /// Whether this rank tells the kernel of buffers at all. Handler-safe, constant.
    fn has_regions(&self) -> bool {
        false
    }

    /// Tells the kernel of a buffer that this rank sends, so that peers copy from it: its key, which is never 0. `slot`: the record; `ticket`: the transfer's
    /// there. 0: it is refused. What was exposed so for an older ticket is not any more. Handler-safe; the kernel looks at each page of the buffer.
    ///
    /// # Safety
    /// The buffer is readable for `len` bytes until it is [concealed](Self::conceal).
    unsafe fn expose(
        &mut self,
        _peer: u32,
        _slot: u32,
        _ticket: u32,
        _buffer: *const u8,
        _len: usize,
    ) -> u64 {
        0
    }

    /// Takes that back; nothing if there is no such. Its key may stand for another buffer of this rank's from then on. A copy that is under way goes on. Handler-safe; the
    /// kernel looks at each page of the buffer, then or later.
    fn conceal(&mut self, _peer: u32, _slot: u32, _ticket: u32) {}

    /// Copies from the buffer that the peer has exposed by this key, from an offset on. False also where that ends before. As [`pull`](Self::pull).
    ///
    /// # Safety
    /// `to` is writable for `len` bytes, and nobody else uses them.
    unsafe fn pull_exposed(
        &mut self,
        _peer: u32,
        _key: u64,
        _offset: u64,
        _to: *mut u8,
        _len: usize,
    ) -> bool {
        false
    }

    // --- pages through a pipe; a transport without them leaves these as they are ---

    /// Makes the pipe to `peer` and gives it the end to read from, if it has joined: what needs system calls. User threads only; cheap once it is
    /// done, and again and again until the peer has joined.
    fn prepare_pages(&mut self, _peer: u32) {}

    /// Whether there is a pipe to put pages into for `peer`. Handler-safe, constant.
    fn has_pipe_to(&self, _peer: u32) -> bool {
        false
    }

    /// Whether there is a pipe in which `peer` puts pages for this rank, as of the last [`prepare_shared`](Self::prepare_shared). Handler-safe,
    /// constant.
    fn has_pipe_from(&self, _peer: u32) -> bool {
        false
    }

    /// Puts the pages of a buffer into the pipe to `peer`, as much as there is room for. Handler-safe; never waits; bounded by `len`; at most three
    /// system calls, mostly one.
    ///
    /// # Safety
    /// `from` is readable for `len` bytes. What lies there until the peer has read it is what it reads.
    unsafe fn put_pages(&mut self, _peer: u32, _from: *const u8, _len: usize) -> Piped {
        Piped::Refused
    }

    /// Reads `len` bytes that `peer` has put into its pipe. False: they are not there. Handler-safe; never waits; bounded by `len`.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes.
    unsafe fn read_pages(&mut self, _peer: u32, _to: *mut u8, _len: usize) -> bool {
        false
    }

    /// Whether some thread of `peer` waits inside the library, so that it goes on with what it is told by itself. After
    /// a full fence since the telling: then true means that it looks once more before it computes again. Handler-safe.
    fn is_waiting(&self, _peer: u32) -> bool {
        false
    }

    /// Whether some thread of `peer` waits inside the library for something, and not only until it is rung, as a progress thread does that has nothing to do: a hint, which says more
    /// than [`is_waiting`](Self::is_waiting). Handler-safe.
    fn has_waiter(&self, peer: u32) -> bool {
        self.is_waiting(peer)
    }

    /// Whether some thread of `peer` is in a wait, rather than about to ring and go away: a hint, which says more than [`is_waiting`](Self::is_waiting).
    /// Handler-safe.
    fn is_in_wait(&self, peer: u32) -> bool {
        self.is_waiting(peer)
    }

    /// Whether a thread of `peer` waits for a collective and, as long as that moves, stays: a hint, which says more than
    /// [`is_waiting`](Self::is_waiting), that is true of who looks for a moment only. Handler-safe.
    fn is_committed(&self, _peer: u32) -> bool {
        false
    }
}
