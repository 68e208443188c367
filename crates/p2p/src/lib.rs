//! Point to point: tag matching, requests, eager and rendezvous.
//!
//! # For users of this crate
//! A [`P2p`] is one rank's state, over one [`Transport`]; it is used under the rank's engine token. User threads post
//! ([`isend`](P2p::isend), [`irecv`](P2p::irecv)) and look at the request's [`Completion`] without the token; whoever
//! holds the token calls [`progress`](P2p::progress). Layers that post from handlers reserve a request first
//! ([`reserve_request`](P2p::reserve_request), [`prepare_peer`](P2p::prepare_peer)), start it as often as they like
//! ([`start_send`](P2p::start_send), [`start_recv`](P2p::start_recv)) and learn of its end by
//! [`next_completed`](P2p::next_completed).
//!
//! | a message of | travels | its send is complete |
//! |---|---|---|
//! | at most [`Config::eager_max`] bytes | in one packet | when it is in the lane; synchronous: when it is matched |
//! | at most [`Config::waiting_eager_max`] bytes, of a blocking send to a blocking receive that waits | in one packet, copied out while it is copied in | when it is in the lane |
//! | at most [`Transport::longest_whole`], of a send to a receive both of which are waited for, or are expected to be ([`P2p::set_waits`], [`Config::pipelines`]) | in one packet, too, which announces it, so that a receiver that does not take it may ask for it | when the receiver has it |
//! | more | announced (RTS), asked for (CTS), then in one copy by whoever waits, or by pages that its receiver reads from a pipe, or in pieces through a lane: where one copy is not possible, or both wait ([`Config::pipelines`]) | when all of it is copied, or read, or in the lane |
//!
//! Messages between two ranks in one context match in the order in which they were sent (MPI's non-overtaking rule), and
//! the earliest posted receive that matches wins, wildcards included.
//!
//! What arrives before its receive is kept, within bounds ([`Config::unexpected_limit`]). When there is no more room the
//! message stays in its lane and pushes back on its sender. User threads that wait add room
//! ([`grow_unexpected`](P2p::grow_unexpected)); handlers never do. At the limit the lane goes on waiting until messages are
//! received; who knows that nobody will can end a receive behind it ([`give_up_message`](P2p::give_up_message)).
//!
//! # Implementation details
//! | module | one idea |
//! |---|---|
//! | `request`, `list`, `pending` | pending operations; the lists they are in; their life |
//! | `pattern`, `posted`, `unexpected` | matching |
//! | `send`, `receive`, `probe` | the operations, from posting to their end |
//! | `at_once` | short plain messages that nothing is in the way of |
//! | `between` | what posts and waits of large messages take in without a pass |
//! | `in_hand` | receives whose thread waits inside the engine |
//! | `packets` | what arrives, checked before it is used |
//! | `short`, `run` | most of it: short plain messages for posted receives; several of them |
//! | `offers`, `transfers`, `publish` | large messages in one copy: announced, done; receives that their sender finds |
//! | `pieces` | what threads stay for after a post |
//! | `awaited` | what senders are told of receives that threads wait for |
//! | `whole` | announcements that bring their message |
//! | `ahead` | the first piece of a large message, copied before it is asked for |
//! | `ways` | whether two who wait copy a large message once or twice, by what copies take |
//! | `pages` | large messages by pages that their receiver reads from a pipe |
//! | `coalesced` | short messages that wait for room, in one packet |
//! | `pass` | one bounded pass: drain, retry, sweep |
//! | `trace` | what a rank's trace says of messages |
//! | `for_nobody` | what nobody here will receive: its sender is told |
//! | `faults`, `peer`, `revoked`, `contexts`, `runs` | dead, finalized and lying peers; revoked and dropped communicators |
//!
//! Why nothing deadlocks by flow control: the Control and Bulk lanes are always consumable, because what arrives there
//! belongs to a request that exists. An Eager or Coll lane waits only for room among its own class's unexpected
//! messages. Answers (ACK, CTS) that find their lane full wait in their receive's own slot. So a flood in one class
//! stops that class alone, and only until its receiver calls the library.
#![warn(missing_debug_implementations)]

mod ahead;
mod args;
mod at_once;
mod awaited;
mod between;
mod coalesced;
mod coming;
mod contexts;
mod error;
mod faults;
mod for_nobody;
mod in_hand;
mod layout;
mod list;
mod offers;
mod packets;
mod pages;
mod pass;
mod pattern;
mod peer;
mod pending;
mod pieces;
mod posted;
mod probe;
mod publish;
mod receive;
mod regions;
mod request;
mod revoked;
mod run;
mod runs;
mod send;
mod short;
pub mod trace;
mod transfers;
mod unexpected;
mod unsaid;
mod urgency;
mod ways;
mod whole;

pub use args::{Config, Counters, MessageId, Mode, RecvArgs, SendArgs, Status};
pub use at_once::AtOnce;
pub use between::NEWS;
pub use error::Error;
pub use faults::Lost;
pub use in_hand::{Glance, Met};
pub use layout::{ConstBuf, Layout, MutBuf};
pub use probe::Grown;
pub use tocsin_progress::{Budget, Code, Completion, Id, Outcome, Pass};
pub use tocsin_transport::Class;
pub use tocsin_transport::short::{LONGEST, Put, Took, Wanted};
pub use tocsin_transport::wire::INLINE;

use std::sync::Arc;

use contexts::Contexts;
use list::List;
use peer::{Peers, Ranks};
use pieces::Pieces;
use posted::Posted;
use request::{OWES_ACK, Request, Requests};
use tocsin_progress::{Context, Slots, Trace};
use tocsin_transport::{Reach, Transport, long_under_way};
use unexpected::Unexpected;
use ways::Ways;

/// Longest piece of a large message in one packet: what a handler may copy in one entry.
const PIECE: usize = 64 * 1024;
/// Shortest message in bytes for which there is a quicker way ([`Transport::prepare_long`]).
const LONG: usize = 1024;
/// Longest piece of a large message that one rank copies in while the other copies out the piece before: short beside the message, long beside
/// what a packet takes.
const PIPELINED: usize = 32 * 1024;
/// The same where there is room for more at a time, which the other takes out as it comes.
const PIPELINED_LONG: usize = 128 * 1024;
/// The first of them, for which the receiver waits.
const PIPELINED_FIRST: usize = 16 * 1024;
/// Longest message that is copied twice, in a pipeline, though both ranks have mapped its buffers. In one copy, each rank writes lines that the other has
/// in its caches, and the sender takes its own back when it writes them next: more than a second copy costs, as long as the message stays in the caches
/// of the core that sends it (a quarter of today's second-level cache).
const SHARED_PIPELINED: u64 = 256 * 1024;

/// Matching in one class.
#[derive(Debug)]
struct Matching {
    posted: Posted,
    unexpected: Unexpected,
}

/// Point-to-point state of one rank.
pub struct P2p<T> {
    transport: T,
    me: u32,
    size: u32,
    /// Longest message that travels eagerly, per class: plain messages, those of collectives.
    eager_max: [usize; 2],
    /// See [`Config::waiting_eager_max`].
    waiting_eager_max: usize,
    /// See [`Config::single_copy_from`].
    single_copy_from: u64,
    /// See [`Config::pipelines`].
    pipelines: bool,
    /// See [`Config::pieces_from`].
    pieces_from: u64,
    /// See [`Config::publish`].
    publishes: bool,
    /// Longest payload of a DATA packet.
    piece: usize,
    /// Longest message that goes at once: see [`P2p::set_crowded`].
    at_once: usize,
    /// Longest payload of a packet of several messages.
    together: usize,
    /// Longest payload that a peer, whatever its configuration, can send eagerly.
    longest: usize,
    requests: Requests,
    /// Eager, Coll.
    matching: [Matching; 2],
    peers: Peers,
    /// Peers that something waits to be sent to.
    outgoing: Ranks,
    /// Requests with a cookie that are complete and not reported yet.
    completed: List,
    /// Single copies under way.
    transfers: List,
    contexts: Contexts,
    /// Where scattered buffers are packed before they go into a lane.
    scratch: Box<[u8]>,
    sequence: u64,
    /// Lanes that wait for room among the unexpected messages.
    blocked: usize,
    /// Something was posted or freed that may unblock a lane.
    again: bool,
    /// Alternates what goes first.
    turn: u32,
    /// The peer whose waiting sends come first in the next pass.
    retry_from: u32,
    /// Whose turn it is first in this pass, as a position among those connected.
    first: usize,
    /// Requests whose completion should be rung for.
    wants: usize,
    /// Posted receives that announced messages may meet and that are not published.
    awaits_offers: usize,
    /// A receive was published, and this rank has not looked since.
    has_published: bool,
    /// Sends to others that are not complete.
    sends: usize,
    /// The same to itself, which nobody but this rank can receive.
    own_sends: usize,
    /// Receives that are not complete.
    receives: usize,
    /// Answers and revocations that are not in their lane yet.
    owed: usize,
    /// Unexpected messages that were freed.
    freed: u64,
    /// Lanes that became blocked, and peers that ended.
    hindrances: u64,
    faults: faults::Faults,
    for_nobody: for_nobody::ForNobody,
    /// This rank is about to say that it has left: the others hear by that what its messages are given up for.
    is_leaving: bool,
    counters: Counters,
    /// The receive whose thread waits inside the engine.
    hand: in_hand::Hand,
    /// Whose lane this rank has said to copy out of as it fills, and for which posted receive; none for that in hand.
    awaits: Option<(u32, Option<Id>)>,
    /// Receives met in hand, and ends of messages met, since the last look at everything else.
    met_in_hand: u32,
    /// The last message that a thread waited for was longer than those that it takes at once.
    expects_longer: bool,
    /// Receives posted by users since the last pass.
    posted_since: u32,
    /// Who runs the engine now.
    context: Context,
    /// A user's thread, that waits for what it does now.
    waits: bool,
    /// See [`P2p::set_waits_next`].
    waits_next: bool,
    /// Who stays as long as pieces come or go.
    pieces: Pieces,
    /// The send whose first piece the transport holds, and which start of it.
    ahead: Option<(Id, u32)>,
    ways: Ways,
    /// See [`P2p::set_waits_soon`].
    waits_soon: bool,
    /// Where messages are recorded, if they are.
    trace: Option<Arc<Trace>>,
}

impl<T> core::fmt::Debug for P2p<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("P2p")
            .field("rank", &self.me)
            .field("requests", &self.requests)
            .field("outstanding_sends", &self.sends)
            .field("unexpected", &self.matching.each_ref().map(|m| m.unexpected.len()))
            .field("blocked_lanes", &self.blocked)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

fn new_matching(config: &Config, blocks: usize) -> Option<Matching> {
    Some(Matching {
        posted: Posted::new()?,
        unexpected: Unexpected::new(config.unexpected_messages, blocks, config.unexpected_limit)?,
    })
}

impl<T: Transport> P2p<T> {
    /// The state of `transport`'s rank. User threads only.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn new(transport: T, config: Config) -> Result<Self, Error> {
        let refused = || Error::OutOfMemory { what: "matching tables" };
        // Handlers copy.
        tocsin_transport::copy::prepare();
        let capabilities = *transport.capabilities();
        let [eager, coll, _, bulk] = capabilities.max_payload;
        let eager_max = [config.eager_max.min(eager).min(PIECE), config.coll_eager_max.min(coll).min(PIECE)];
        let piece = bulk.min(PIECE);
        let longest_eager = eager_max.into_iter().max().unwrap_or(0);
        let size = transport.size();
        // The long messages of each peer: see `Transport::may_send_long`.
        let [plain_max, coll_max] = eager_max;
        let long = if coll_max > plain_max { unexpected::blocks_for(coll_max) } else { 0 };
        let under_way = long.saturating_mul(long_under_way(size) as usize);
        let blocks = config.unexpected_blocks.saturating_add(under_way.saturating_mul(size as usize));
        let matching = [
            new_matching(&config, config.unexpected_blocks).ok_or_else(refused)?,
            new_matching(&config, blocks).ok_or_else(refused)?,
        ];
        Ok(P2p {
            me: transport.rank(),
            size,
            eager_max,
            waiting_eager_max: config.waiting_eager_max.min(eager).min(PIECE),
            single_copy_from: config.single_copy_from,
            pipelines: config.pipelines,
            pieces_from: config.pieces_from,
            publishes: config.publish,
            piece,
            at_once: tocsin_transport::wire::INLINE,
            together: eager.min(coalesced::LONGEST),
            longest: eager.max(coll),
            requests: Slots::with_shared(Request::new, Completion::new),
            matching,
            peers: Peers::new(size)?,
            outgoing: Ranks::new(size),
            completed: List::EMPTY,
            transfers: List::EMPTY,
            contexts: Contexts::new(size).ok_or_else(refused)?,
            scratch: vec![0; longest_eager.max(eager).max(piece)].into_boxed_slice(),
            sequence: 0,
            blocked: 0,
            again: false,
            turn: 0,
            retry_from: 0,
            first: 0,
            wants: 0,
            awaits_offers: 0,
            has_published: false,
            receives: 0,
            sends: 0,
            own_sends: 0,
            owed: 0,
            freed: 0,
            hindrances: 0,
            faults: faults::Faults::new(),
            for_nobody: for_nobody::ForNobody::default(),
            is_leaving: false,
            counters: Counters::default(),
            hand: in_hand::Hand::Empty,
            awaits: None,
            met_in_hand: 0,
            expects_longer: false,
            posted_since: 0,
            context: Context::User,
            waits: false,
            waits_next: false,
            pieces: Pieces::default(),
            waits_soon: false,
            ways: Ways::new(size, config.pipelines && config.compares),
            ahead: None,
            trace: None,
            transport,
        })
    }

    /// The transport. Handler-safe.
    #[inline]
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// The transport. Handler-safe. Packets must not be taken past this layer.
    #[inline]
    pub fn transport_mut(&mut self) -> &mut T {
        &mut self.transport
    }

    /// Says whether the user's thread that posts next waits for it right after, or is expected to; or that none does any more. Between two who do, what is long is copied
    /// by both at once, in lanes; a long receive of one source tells that one as long as it is posted. If it does not wait after all, handlers see to what it has
    /// posted, as to anything else.
    #[inline]
    pub fn set_waits(&mut self, waits: bool) {
        self.waits = waits;
        self.waits_next = false;
    }

    /// Says of who [waits](Self::set_waits) for a send right after whether it posts no other large message before: then it may look for a moment whether its receive is posted at the same time. That holds
    /// until something is said of who waits, or a pass.
    #[inline]
    pub fn set_waits_next(&mut self, next: bool) {
        self.waits_next = next;
    }

    /// Says whether the user's thread that posts a collective next, and [stays](Self::begin_stay), will wait for it right after, as far as can be told: whether its large messages go in
    /// pieces is decided as for one that waits. That holds until it stays no more, or somebody makes a pass who waits, or is no user's thread.
    #[inline]
    pub fn set_waits_soon(&mut self, soon: bool) {
        self.waits_soon = soon;
    }

    /// Whether who posts a message of a class waits, or soon will.
    pub(crate) fn waits_for(&self, class: Class) -> bool {
        self.waits || class == Class::Coll && self.waits_soon
    }

    /// Longest message in bytes that is copied twice though both ranks have mapped its buffers. Where ranks share cores no more than in any case is: a second copy takes a core
    /// from another.
    pub(crate) fn shared_pipelined(&self) -> u64 {
        if self.ways.is_crowded() { self.waiting_eager_max as u64 } else { SHARED_PIPELINED }
    }

    /// Longest message of a class that travels eagerly, in bytes. Handler-safe.
    pub fn eager_max(&self, class: Class) -> usize {
        let [plain, coll] = self.eager_max;
        if class == Class::Coll { coll } else { plain }
    }

    /// Makes sure that handlers can send messages of up to `max_bytes` to a peer. User threads only; cheap the second
    /// time.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`], [`Error::Transport`].
    pub fn prepare_peer(&mut self, peer: u32, max_bytes: usize) -> Result<(), Error> {
        // What is started now is copied by this thread: a collective is started by what follows.
        self.context = Context::User;
        let size = self.size;
        let large = self.eager_max.iter().any(|limit| max_bytes > *limit);
        if max_bytes >= LONG {
            let through = self.pipelines && self.transport.reach(peer) != Reach::Direct;
            self.transport.prepare_long(peer, if through { max_bytes } else { LONG });
        }
        if large {
            self.transport.prepare_shared();
        }
        let Some(state) = self.peers.get_mut(peer as usize) else {
            return Err(Error::NoSuchRank { rank: peer, size });
        };
        if large && !state.bulk_connected {
            self.transport.connect_bulk(peer)?;
            state.bulk_connected = true;
            state.connected = true;
        } else if !state.connected {
            self.transport.connect(peer)?;
            state.connected = true;
        }
        let bulk = state.bulk_connected;
        self.transport.prepare_rings(peer);
        if bulk {
            self.transport.prepare_pages(peer);
        }
        Ok(())
    }

    /// Maps the memory that ranks have begun to share. User threads only; cheap when there is nothing new.
    pub fn prepare_shared(&mut self) {
        self.transport.prepare_shared();
    }

    /// Whether plain messages should ring. Handler-safe.
    #[inline]
    pub fn wants_plain(&self) -> bool {
        self.wants > 0
    }

    /// Whether announcements should ring: a receive is posted that one of them may meet and that is not [published](Self::takes_published), or one may be for a communicator
    /// that is revoked, or this rank leaves, of which its sender must hear. One that is longer than the longest receive there
    /// is waits until this rank looks, to be truncated. Handler-safe.
    #[inline]
    pub fn wants_offers(&self) -> bool {
        self.awaits_offers > 0 || self.contexts.some_revoked() || self.for_nobody.is_any()
    }

    /// Whether a pass might find something to do. Handler-safe.
    ///
    /// While a lane waits for room among the unexpected messages the transport counts it as work, so this stays true.
    pub fn work_left(&self) -> bool {
        self.has_chores() || self.transport.work_left() || self.copies_left(|_, _| false)
    }

    /// [`work_left`](Self::work_left), but for plain messages and announcements from one rank: of who receives those one after the other, and would find what a pass had taken in and
    /// kept only behind more steps. Handler-safe.
    pub fn work_left_beside(&self, source: u32) -> bool {
        self.has_chores()
            || self.transport.work_left_beside(source, Class::Eager)
            || self.copies_left(|_, _| false)
    }

    /// Whether there is anything to see to that nobody else has sent.
    #[inline]
    fn has_chores(&self) -> bool {
        self.again
            || !self.completed.is_empty()
            || self.faults.has_news(self.transport.epoch())
            || self.faults.is_sweeping()
    }

    /// Whether another pass would go on at once, and nobody but this rank knows: there is room again among the unexpected
    /// messages for the head of a blocked lane, or requests have ended that their owner has not been told of.
    /// Handler-safe.
    #[inline]
    pub fn is_left_over(&self) -> bool {
        self.again && self.blocked > 0 || !self.completed.is_empty()
    }

    /// Whether a large message waits for this rank to go on, and not for a peer that waits in the library: who leaves the
    /// library for long must come back. Handler-safe; after a flush.
    #[inline]
    pub fn is_unfinished(&self) -> bool {
        self.copies_left(T::is_waiting)
    }

    /// The same, or for a peer of which no thread waits but such as only come when they are rung: they have not been told of it, or have left it to this rank in their turn.
    /// Handler-safe; after a flush.
    #[inline]
    pub fn is_left_behind(&self) -> bool {
        self.copies_left(T::has_waiter)
    }

    /// Sends to others that are not complete, and answers that are not in their lane: what a clean end waits for.
    /// Handler-safe.
    pub fn outstanding_sends(&self) -> usize {
        self.sends.saturating_add(self.owed)
    }

    /// Sends to itself that are not complete: who [leaves](Self::take_no_more) ends them in its passes, as received or not. Handler-safe.
    pub fn own_sends(&self) -> usize {
        self.own_sends
    }

    /// Whether a send or receive is under way, a collective's or a detached one included. Handler-safe.
    pub fn has_requests(&self) -> bool {
        self.receives > 0 || self.outstanding_sends() > 0
    }

    /// What was moved since the start. Handler-safe.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// How often this rank has interrupted others.
    pub fn rings(&self) -> tocsin_transport::Rings {
        self.transport.rings()
    }

    /// Bytes copied so far, by whoever ran the engine.
    pub(crate) fn bytes_copied(&self) -> u64 {
        self.counters.bytes_copied.iter().fold(0, |sum, bytes| sum.wrapping_add(*bytes))
    }

    #[inline]
    fn count_copy(&mut self, bytes: usize) {
        let [user, handler, thread] = &mut self.counters.bytes_copied;
        let counter = match self.context {
            Context::User => user,
            Context::Handler => handler,
            Context::ProgressThread => thread,
        };
        *counter = counter.wrapping_add(bytes as u64);
    }

    /// The same of what is copied once, where the peer has it.
    #[inline]
    fn count_once(&mut self, reach: Reach, bytes: usize) {
        self.count_copy(bytes);
        let counter = match reach {
            Reach::None => return,
            Reach::Direct | Reach::Shared | Reach::Attached => &mut self.counters.bytes_in_place,
            Reach::Kernel => &mut self.counters.bytes_by_kernel,
            Reach::Region => &mut self.counters.bytes_by_knem,
        };
        *counter = counter.wrapping_add(bytes as u64);
    }

    fn owes_ack(request: &Request) -> bool {
        request.has(OWES_ACK)
    }
}
