//! What the executor needs from the layer below: requests that are reserved once and started from anywhere.

use crate::Error;
use std::ptr::NonNull;
use tocsin_p2p::{Class, ConstBuf, Mode, MutBuf, P2p, RecvArgs, SendArgs};
use tocsin_progress::completion::{Code, Outcome};
use tocsin_progress::slots::Id;
use tocsin_transport::{PeerState, Transport};

/// The envelope of a collective's message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// Context of the communicator's collectives.
    pub context: u32,
    /// World rank at the other end.
    pub peer: u32,
    /// Collective and round.
    pub tag: i32,
    /// Comes back from [`Messages::next_completed`]; never 0.
    pub cookie: u64,
    /// Of a send: nobody waits for what its receiver does about it but that rank itself.
    pub ends_there: bool,
    /// Of a send: nobody waits for its end but this rank itself.
    pub ends_here: bool,
    /// Of a send: so many, this one among them, begin together.
    pub at_once: u32,
}

/// Point-to-point messages as a schedule uses them. Implemented by [`P2p`]; a simulated network can
/// stand in for it.
///
/// A request is *reserved* until it is started and again once [`next_completed`](Self::next_completed) has given its
/// cookie or [`abandon`](Self::abandon) was called.
pub trait Messages {
    /// Reserves a request. User threads only.
    ///
    /// # Errors
    /// Memory refused.
    fn reserve(&mut self) -> Result<Id, Error>;

    /// Makes sure that messages of up to `bytes` can be sent to, and any received from, a world rank. User threads only;
    /// the second time it takes next to nothing, and no memory.
    ///
    /// # Errors
    /// No such rank, or memory refused.
    fn prepare_peer(&mut self, peer: u32, bytes: usize) -> Result<(), Error>;

    /// Gives a reserved request back. User threads only.
    fn release(&mut self, request: Id);

    /// Starts a send on a reserved request. Handler-safe.
    ///
    /// # Safety
    /// `from..from + bytes` stays readable until the request is reserved again.
    unsafe fn start_send(&mut self, request: Id, envelope: &Envelope, from: *const u8, bytes: usize);

    /// Starts a receive on a reserved request. Handler-safe.
    ///
    /// # Safety
    /// `to..to + bytes` stays writable, and nobody else uses it, until the request is reserved again.
    unsafe fn start_recv(&mut self, request: Id, envelope: &Envelope, to: *mut u8, bytes: usize);

    /// Longest message in bytes that a start may copy at once. Handler-safe.
    fn eager_max(&self) -> usize;

    /// Bytes copied so far by whoever ran the engine: what a start has copied at once is charged to the budget.
    /// Handler-safe.
    fn copied(&self) -> u64;

    /// Gives up a started request: whether it is reserved again, its memory is not touched any more, and its cookie will not come back. If
    /// not, a peer is just copying from or to that memory, and the cookie comes when that is over; asked again, it says whether it is by
    /// now. Handler-safe.
    fn abandon(&mut self, request: Id) -> bool;

    /// The next request that has ended, in the order in which they did. Handler-safe.
    fn next_completed(&mut self) -> Option<(u64, Outcome)>;

    /// Changes after a rank has died *and* what it had sent has been delivered. Handler-safe.
    fn failures(&self) -> u64;

    /// The first of these world ranks that is dead or broken, as of [`failures`](Self::failures), and the code that says
    /// so. A rank that has finalized has done its part of every collective. Handler-safe.
    fn failed_among(&self, ranks: &[u32]) -> Option<(u32, Code)>;

    /// Makes rings to a world rank as fast as they can be. False: it is not known yet how, ask again. User threads only.
    fn prepare_ring(&mut self, _rank: u32) -> bool {
        true
    }

    /// Has a world rank rung, before the engine's token is released, for what stands on a board. Handler-safe.
    fn announce(&mut self, _rank: u32) {}

    /// Allocates long memory of this rank's on a board, of whole pages; whether it is there. User threads only.
    fn allocate_long(&mut self, _at: NonNull<u8>, _bytes: usize) -> bool {
        true
    }

    /// Whether a ring would interrupt it by signal. Handler-safe.
    fn would_signal(&self, _rank: u32) -> bool {
        false
    }

    /// Whether a world rank has finalized: what it has not posted on a board by then it never will. Handler-safe.
    fn has_finalized(&self, _rank: u32) -> bool {
        false
    }

    /// Whether a communicator was revoked, as far as the news has come. Handler-safe.
    fn is_revoked(&self, _context: u32) -> bool {
        false
    }

    /// As [`failed_among`](Self::failed_among), but without waiting for what a dead rank had sent: whom to blame when
    /// another rank has given up a message, because it knew of a death first. Handler-safe.
    fn blame(&self, ranks: &[u32]) -> Option<(u32, Code)> {
        self.failed_among(ranks)
    }
}

impl<T: Transport> Messages for P2p<T> {
    fn reserve(&mut self) -> Result<Id, Error> {
        Ok(self.reserve_request()?)
    }

    fn prepare_peer(&mut self, peer: u32, bytes: usize) -> Result<(), Error> {
        Ok(P2p::prepare_peer(self, peer, bytes)?)
    }

    fn release(&mut self, request: Id) {
        P2p::release(self, request);
    }

    unsafe fn start_send(&mut self, request: Id, envelope: &Envelope, from: *const u8, bytes: usize) {
        let arguments = SendArgs {
            context: envelope.context,
            dest: envelope.peer,
            tag: envelope.tag,
            buf: ConstBuf::contiguous(from, bytes),
            mode: Mode::Step {
                ends_there: envelope.ends_there,
                ends_here: envelope.ends_here,
                at_once: envelope.at_once,
            },
            class: Class::Coll,
            cookie: envelope.cookie,
        };
        // SAFETY: - the buffer: promised by the caller.
        unsafe { P2p::start_send(self, request, arguments) }
    }

    unsafe fn start_recv(&mut self, request: Id, envelope: &Envelope, to: *mut u8, bytes: usize) {
        let arguments = RecvArgs {
            context: envelope.context,
            source: Some(envelope.peer),
            tag: Some(envelope.tag),
            buf: MutBuf::contiguous(to, bytes),
            class: Class::Coll,
            cookie: envelope.cookie,
        };
        // SAFETY: - the buffer: promised by the caller.
        unsafe { P2p::start_recv(self, request, arguments) }
    }

    fn eager_max(&self) -> usize {
        P2p::eager_max(self, Class::Coll)
    }

    fn copied(&self) -> u64 {
        self.counters().bytes_copied.iter().fold(0, |sum, n| sum.wrapping_add(*n))
    }

    fn abandon(&mut self, request: Id) -> bool {
        P2p::abandon_collective(self, request)
    }

    fn next_completed(&mut self) -> Option<(u64, Outcome)> {
        P2p::next_completed(self)
    }

    fn failures(&self) -> u64 {
        self.failed_epoch()
    }

    fn prepare_ring(&mut self, rank: u32) -> bool {
        // A rank counts as alive before it can be rung in the way that it wants.
        let is_over = matches!(self.transport().peer_state(rank), PeerState::Dead | PeerState::Finalized);
        self.transport_mut().prepare_rings(rank) || is_over
    }

    fn announce(&mut self, rank: u32) {
        self.transport_mut().announce(rank);
    }

    fn allocate_long(&mut self, at: NonNull<u8>, bytes: usize) -> bool {
        self.transport_mut().allocate_long(at, bytes)
    }

    fn would_signal(&self, rank: u32) -> bool {
        self.transport().would_signal(rank)
    }

    fn has_finalized(&self, rank: u32) -> bool {
        self.transport().peer_state(rank) == PeerState::Finalized
    }

    fn is_revoked(&self, context: u32) -> bool {
        P2p::is_revoked(self, context)
    }

    fn failed_among(&self, ranks: &[u32]) -> Option<(u32, Code)> {
        self.failed_peer(ranks)
    }

    fn blame(&self, ranks: &[u32]) -> Option<(u32, Code)> {
        let is_dead = |rank: &&u32| self.transport().peer_state(**rank) == PeerState::Dead;
        let dead = || ranks.iter().find(is_dead).map(|rank| (*rank, Code::PeerDead));
        self.failed_peer(ranks).or_else(dead)
    }
}
