//! A rank's endpoint.
//!
//! Everything that a handler may call works on arrays that have their final size from the start, and whose pages the kernel
//! gives when they are first written: a peer takes no memory before its pair is connected. Costs, with
//! `n` ranks connected: `begin_pass` reads n / 64 + 1 words and one mark per sender; `flush` costs one fence
//! and one ring per peer that was sent to or freed; the rest is the lanes' (see `lane.rs`).

mod attached;
mod awaited;
mod beside;
mod connect;
mod copy;
mod known;
mod look;
mod one_copy;
mod pages;
mod peer;
mod pieces;
mod pipes;
mod regions;
mod ring;
mod sent;
mod short;
#[cfg(test)]
mod tests;

use core::ptr::NonNull;
use std::sync::Arc;

use tocsin_doorbell::Own;
use tocsin_sync::atomic::Ordering;
use tocsin_sync::sparse::{Sparse, Words};
use tocsin_transport::short::{Put, Run, Took, Wanted};
use tocsin_transport::{
    Arrival, Awaits, Capabilities, Class, Error as TransportError, Header, PeerState, Piped, Publication,
    Reach, Record, Recv, Rings, SendOutcome, Transport, Urgency,
};

use crate::lane::{Consumed, POOLED, RecvLane, SendPool};
use crate::segment::layout::{RANK_WORDS, RanksCopy};
use crate::{Error, Life, Segment};
use attached::Attached;
pub use copy::{Strategies, cma_refusal};
use known::{has, would_update};
use pages::Mailbox;
pub use pages::vmsplice_refusal;
use peer::Peer;
use regions::Regions;
use ring::enlist;

/// One rank's endpoint in a segment; a rank of a world has one, once.
#[derive(Debug)]
pub struct ShmTransport {
    /// Keeps the mapping alive that all pointers here lead into.
    segment: Arc<Segment>,
    rank: u32,
    own: Own,
    capabilities: Capabilities,
    pool: SendPool,
    /// Its memory was asked for.
    pool_asked: bool,
    /// The others know where the heap is mapped.
    heap_said: bool,
    /// Peers' memory that is mapped, where XPMEM may be used.
    attached: Option<Attached>,
    /// Buffers that the kernel was told of, where KNEM may be used.
    regions: Option<Regions>,
    /// Those that are connected, and others that this rank has thought of ringing.
    peers: Sparse<Peer>,
    /// Bits of `incoming` and `bulk` of this rank's block that have been learnt.
    known: RanksCopy,
    known_bulk: RanksCopy,
    /// Ranks in `known`, ascending; the first `connected_len` count.
    connected: Words,
    connected_len: usize,
    /// Peers that `flush` has to look at; the first `dirty_len` count.
    dirty: Words,
    dirty_len: usize,
    /// Some peer has a lane that answered full since the last `begin_pass`.
    starved: bool,
    /// A ring did not get through; `flush` tries again.
    retry: bool,
    /// Some peer was rung by user interrupt and has not looked since.
    unanswered: bool,
    rings: Rings,
    /// Where the next look at who computes begins.
    next_beside: u32,
    seen_epoch: u64,
    strategies: Strategies,
    /// Where the ends of others' pipes come in, if pages go through pipes.
    mailbox: Option<Mailbox>,
}

// SAFETY: the raw pointers lead into the segment, which is kept alive; the endpoint is the only one of its
// rank, so that it is the only producer and the only consumer of its ends of the lanes, whichever thread uses
// it.
unsafe impl Send for ShmTransport {}

impl ShmTransport {
    /// Makes the endpoint of `rank`. Its life state is the caller's to set ([`Segment::set_life`]).
    ///
    /// # Errors
    /// [`Error::NoSuchRank`]; [`Error::RankTaken`] when the rank had an endpoint before.
    pub fn new(segment: Arc<Segment>, rank: u32) -> Result<Self, Error> {
        let ranks = segment.ranks();
        let missing = || Error::NoSuchRank { rank, ranks };
        let block = segment.block(rank).ok_or_else(missing)?;
        if block.state.taken.swap(1, Ordering::AcqRel) != 0 {
            return Err(Error::RankTaken { rank });
        }
        segment.set_local(rank);
        copy::publish(&block.state);
        // SAFETY: the descriptor is in the segment, which outlives the endpoint.
        let own = unsafe { Own::new(&raw const block.descriptor) };
        let bytes = u64::from(ranks) * size_of::<Peer>() as u64;
        let refused = |source| Error::Refused { call: "mmap", bytes, source };
        let words = || Words::new(ranks as usize).map_err(refused);
        Ok(ShmTransport {
            rank,
            own,
            capabilities: Capabilities::new(true, true, segment.geometry().max_payload()),
            pool: SendPool::none(),
            pool_asked: false,
            heap_said: false,
            attached: None,
            regions: None,
            peers: Sparse::new(ranks as usize).map_err(refused)?,
            known: [0; RANK_WORDS],
            known_bulk: [0; RANK_WORDS],
            connected: words()?,
            connected_len: 0,
            dirty: words()?,
            dirty_len: 0,
            starved: false,
            retry: false,
            unanswered: false,
            rings: Rings::default(),
            next_beside: 0,
            seen_epoch: segment.epoch(),
            strategies: Strategies::default(),
            mailbox: None,
            segment,
        })
    }

    /// Says how large messages may travel, once and before others send to this rank; [`Strategies::default`], unless this is called.
    pub fn set_strategies(&mut self, strategies: Strategies) {
        self.strategies = strategies;
        let Some(block) = self.segment.block(self.rank) else { return };
        if strategies.pages && self.mailbox.is_none() {
            // Without one, what is large comes through the Bulk lane.
            self.mailbox = Mailbox::open(&block.state).ok();
        }
        self.attached = Attached::open(&block.state, strategies.xpmem, self.segment.ranks());
        self.regions = Regions::open(&block.state, strategies.knem, self.segment.ranks());
    }

    /// The segment that the endpoint works on.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// [`work_left`](Transport::work_left), but for what one peer has sent in one class.
    #[inline(always)]
    fn work_left_but(&self, spared: Option<(u32, Class)>) -> bool {
        if self.retry || self.seen_epoch != self.segment.epoch() {
            return true;
        }
        if let Some(block) = self.segment.block(self.rank) {
            let size = self.segment.ranks();
            if would_update(&self.known, &block.incoming, size)
                || would_update(&self.known_bulk, &block.bulk, size)
            {
                return true;
            }
        }
        self.connected().iter().any(|peer| {
            self.peers.get(*peer as usize).is_some_and(|state| {
                let spared = spared.filter(|(spared, _)| spared == peer).map_or(0, |(_, class)| bit(class));
                state.work_left(has(&self.known_bulk, *peer), spared)
            })
        })
    }
}

// SAFETY: the handler-safe methods neither allocate (arrays have their final size), wait nor panic (no
// indexing); the payload of a packet lies in the lane until it is consumed; lanes are FIFO.
unsafe impl Transport for ShmTransport {
    #[inline]
    fn rank(&self) -> u32 {
        self.rank
    }

    #[inline]
    fn size(&self) -> u32 {
        self.segment.ranks()
    }

    #[inline]
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    #[inline]
    fn connect(&mut self, peer: u32) -> Result<(), TransportError> {
        self.connect_pair(peer)
    }

    #[inline]
    fn connect_bulk(&mut self, peer: u32) -> Result<(), TransportError> {
        self.connect_bulk_lane(peer)
    }

    #[inline]
    fn prepare_rings(&mut self, peer: u32) -> bool {
        self.knows_bell(peer)
    }

    #[inline]
    fn rings(&self) -> Rings {
        self.rings
    }

    #[inline]
    fn is_connected(&self, peer: u32) -> bool {
        has(&self.known, peer)
    }

    #[inline]
    fn begin_pass(&mut self) {
        self.take_back_marks();
    }

    #[inline]
    fn prepare_long(&mut self, peer: u32, of: usize) {
        self.make_long_ready(peer, of);
    }

    #[inline]
    fn may_send_long(&self, peer: u32) -> bool {
        self.has_few_long_ones(peer)
    }

    #[inline]
    fn note_long_sent(&mut self, peer: u32) {
        if let Some(state) = self.peers.get_mut(peer as usize) {
            state.long_sent = state.long_sent.wrapping_add(1);
        }
    }

    #[inline]
    fn note_long_done(&mut self, peer: u32) {
        if let Some(state) = self.peers.get_mut(peer as usize).filter(|_| has(&self.known, peer)) {
            state.long_done = state.long_done.wrapping_add(1);
            // SAFETY: the pair is connected, so that its head is allocated; it is made of atomics.
            unsafe { (*state.from).long_done.0.store(state.long_done, Ordering::Relaxed) };
        }
    }

    #[inline]
    fn await_coming(&mut self, peer: u32, awaits: Awaits) {
        self.say_what_is_awaited(peer, awaits);
    }

    #[inline]
    fn rouse(&mut self, peer: u32) {
        let Some(block) = self.segment.block(peer) else { return };
        if block.descriptor.attention().sleepers() > 0 {
            tocsin_doorbell::rouse(&block.descriptor);
        }
    }

    #[inline]
    fn is_awaited_soon(&self, peer: u32) -> bool {
        self.will_wait_for_this(peer)
    }

    #[inline]
    fn is_awaited_by(&self, peer: u32) -> bool {
        self.looks_or_waits_for_this(peer)
    }

    #[inline]
    fn arrivals(&self, peer: u32) -> u8 {
        self.peers.get(peer as usize).map_or(0, |state| state.arrivals(has(&self.known_bulk, peer)))
    }

    #[inline]
    fn has_arrived(&self, peer: u32, class: Class) -> bool {
        let known = has(if class == Class::Bulk { &self.known_bulk } else { &self.known }, peer);
        known && self.peers.get(peer as usize).is_some_and(|state| state.has_arrived(class))
    }

    #[inline]
    fn arrival(&self, peer: u32, class: Class) -> Arrival {
        let known = has(if class == Class::Bulk { &self.known_bulk } else { &self.known }, peer);
        match self.peers.get(peer as usize) {
            Some(state) if known => state.arrival(class),
            _ => Arrival::Nothing,
        }
    }

    #[inline]
    fn coming(&self, peer: u32) -> u8 {
        let state = self.peers.get(peer as usize).filter(|_| has(&self.known, peer));
        state.map_or(0, |state| state.coming(has(&self.known_bulk, peer)))
    }

    #[inline]
    fn connected(&self) -> &[u32] {
        self.connected.get(..self.connected_len).unwrap_or(&[])
    }

    // Else the header would be written to memory in other pieces than it is read in, which has to wait for the writes.
    #[inline(always)]
    unsafe fn try_send(
        &mut self,
        peer: u32,
        class: Class,
        urgency: Urgency,
        header: &Header,
        payload: *const u8,
        len: usize,
    ) -> SendOutcome {
        let Some(state) = self.lane_to(peer, class, header, len) else { return SendOutcome::Gone };
        let push = if len >= POOLED {
            // SAFETY: the pair is connected, so that the lane is allocated; the length was checked; the caller vouches for the payload.
            unsafe { self.try_push_long(peer, class, header, payload, len, len as u64) }
        } else {
            // SAFETY: the same.
            unsafe { state.send_lane(class).try_push(header, payload, len) }
        };
        self.pushed(peer, class, urgency, push)
    }

    #[inline]
    fn filled(&mut self, peer: u32, class: Class) -> Option<u32> {
        self.fullness(peer, class)
    }

    #[inline]
    fn asks_no_more(&mut self, peer: u32, class: Class) {
        if let Some(state) = self.peers.get_mut(peer as usize).filter(|_| has(&self.known, peer)) {
            state.starved &= !bit(class);
            state.send_lane(class).ask_no_more();
        }
    }

    #[inline]
    fn note_handed(&mut self, peer: u32, class: Class) {
        if let Some(state) = self.peers.get_mut(peer as usize).filter(|_| has(&self.known, peer)) {
            state.recv_lane(class).note_handed();
        }
    }

    #[inline(always)]
    unsafe fn put_short(&mut self, peer: u32, context: u32, tag: i32, payload: *const u8, len: usize) -> Put {
        // SAFETY: the caller vouches for the payload.
        unsafe { self.put_at_once(peer, context, tag, payload, len) }
    }

    #[inline(always)]
    unsafe fn take_short(&mut self, peer: u32, wanted: Wanted, to: *mut u8, room: usize, looks: u32) -> Took {
        // SAFETY: the caller vouches for the buffer.
        unsafe { self.take_at_once(peer, wanted, to, room, looks) }
    }

    #[inline(always)]
    fn take_run(&mut self, peer: u32, most: u32, meet: impl FnMut(u64, usize, *const u8) -> bool) -> Run {
        self.take_several(peer, most, meet)
    }

    #[inline]
    unsafe fn copy_ahead(&mut self, peer: u32, payload: *const u8, len: usize, of: u64) -> bool {
        // SAFETY: the caller vouches for the payload.
        unsafe { self.put_ahead(peer, payload, len, of) }
    }

    unsafe fn try_send_piece(
        &mut self,
        peer: u32,
        header: &Header,
        payload: *const u8,
        len: usize,
        of: u64,
        ahead: bool,
    ) -> SendOutcome {
        // SAFETY: the caller vouches for the payload.
        unsafe { self.push_piece(peer, header, payload, len, of, ahead) }
    }

    unsafe fn try_send_long_piece(
        &mut self,
        peer: u32,
        header: &Header,
        payload: *const u8,
        len: usize,
        of: u64,
    ) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.push_whole(peer, (Class::Bulk, Urgency::Urgent), header, payload, len, of) }
    }

    #[inline]
    fn longest_whole(&self) -> usize {
        self.longest_brought()
    }

    #[inline]
    unsafe fn try_send_whole(&mut self, peer: u32, header: &Header, payload: *const u8, len: usize) -> bool {
        // SAFETY: the caller vouches for the payload.
        unsafe { self.push_whole(peer, (Class::Eager, Urgency::Offer), header, payload, len, len as u64) }
    }

    // Else what it answers, which is long, would be written to memory to be read again.
    #[inline(always)]
    fn peek(&mut self, peer: u32, class: Class) -> Recv {
        self.look(peer, class, RecvLane::peek)
    }

    #[inline]
    fn peek_coming(&mut self, peer: u32, class: Class) -> Recv {
        self.look(peer, class, RecvLane::peek_coming)
    }

    #[inline]
    fn come(&self, peer: u32, class: Class) -> u64 {
        self.peers.get(peer as usize).map_or(0, |state| state.incoming(class).come())
    }

    #[inline]
    fn consume(&mut self, peer: u32, class: Class) {
        let Some(state) = self.peers.get_mut(peer as usize) else { return };
        if state.recv_lane(class).consume() == Consumed::GivenBack {
            state.consumed |= bit(class);
            enlist(&mut self.dirty, &mut self.dirty_len, state, peer);
        }
    }

    #[inline]
    fn work_left(&self) -> bool {
        self.work_left_but(None)
    }

    #[inline]
    fn work_left_beside(&self, peer: u32, class: Class) -> bool {
        self.work_left_but(Some((peer, class)))
    }

    #[inline]
    fn news_at(&self, peer: u32, class: Class) -> Option<NonNull<u8>> {
        NonNull::new(self.peers.get(peer as usize)?.incoming(class).head_slot().cast_mut())
    }

    #[inline]
    fn will_send(&self, peer: u32, class: Class) {
        if let Some(state) = self.peers.get(peer as usize) {
            state.outgoing(class).fetch_slot();
        }
        if let Some(block) = self.segment.block(peer) {
            // Who sends asks next whether somebody waits there.
            tocsin_sync::prefetch_for_read(&raw const block.descriptor);
        }
    }

    #[inline]
    fn will_answer(&self, peer: u32, class: Class) {
        if let Some(state) = self.peers.get(peer as usize) {
            state.outgoing(class).fetch_next();
        }
    }

    fn announce(&mut self, peer: u32) {
        if !self.segment.has_boards() {
            return;
        }
        if let Some(state) = self.make_peer(peer) {
            state.sent = true;
            state.announced = true;
            state.renewed = true;
            state.urgency = Urgency::Urgent;
            self.mark_dirty(peer);
        }
    }

    #[inline]
    fn would_signal(&self, peer: u32) -> bool {
        self.would_interrupt(peer)
    }

    #[inline]
    fn allocate_long(&mut self, at: NonNull<u8>, bytes: usize) -> bool {
        self.segment.allocate_long(self.rank, at, bytes)
    }

    #[inline]
    fn computes_beside(&mut self, core: u32, now: u64) -> bool {
        self.is_beside_computing(core, now)
    }

    #[inline]
    fn roomier_core(&self, core: u32, now: u64) -> Option<u32> {
        self.core_with_fewer(core, now)
    }

    #[inline]
    fn is_where(&self, peer: u32, now: u64) -> Option<u32> {
        self.segment.block(peer)?.descriptor.is_where(now)
    }

    #[inline]
    fn flush_quietly(&mut self) -> bool {
        self.dirty_len > 0 && !self.leaves_all_alone() && self.ring_dirty(true)
    }

    #[inline]
    fn flush(&mut self) {
        if self.dirty_len > 0 && !self.leaves_all_alone() {
            self.ring_dirty(false);
        }
    }

    #[inline]
    fn awaits_answer(&self) -> bool {
        self.unanswered || self.retry
    }

    #[inline]
    fn peer_state(&self, peer: u32) -> PeerState {
        match self.segment.life(peer) {
            Life::Absent => PeerState::Absent,
            Life::Alive => PeerState::Alive,
            Life::Finalized => PeerState::Finalized,
            Life::Dead => PeerState::Dead,
        }
    }

    #[inline]
    fn epoch(&self) -> u64 {
        self.segment.epoch()
    }

    #[inline]
    fn shout(&mut self, context: u32) {
        self.segment.shout(self.rank, context);
        self.segment.wake_all();
    }

    #[inline]
    fn shouted(&self, peer: u32, at: usize) -> Option<u32> {
        self.segment.shouted(peer, at)
    }

    #[inline]
    fn aborted(&self) -> Option<i32> {
        self.segment.aborted()
    }

    #[inline]
    fn reach(&mut self, peer: u32) -> Reach {
        self.way_to(peer)
    }

    #[inline]
    fn record(&self, from: u32, to: u32, slot: u32) -> Option<NonNull<Record>> {
        if self.has_records(from, to) { self.segment.record(from, to, slot) } else { None }
    }

    #[inline]
    fn publication(&self, from: u32, to: u32) -> Option<NonNull<Publication>> {
        if self.has_records(from, to) { self.segment.publication(from, to) } else { None }
    }

    #[inline]
    fn reach_at(&mut self, peer: u32, address: u64, len: u64) -> Reach {
        self.way_to_buffer(peer, address, len)
    }

    #[inline]
    fn is_shared_with(&self, peer: u32, address: u64, len: u64) -> bool {
        self.finds_in_heap(peer, address, len)
    }

    #[inline]
    fn prepare_shared(&mut self) {
        self.collect_pipes();
        self.say_where_the_heap_is();
    }

    #[inline]
    unsafe fn pull(&mut self, peer: u32, reach: Reach, from: u64, to: *mut u8, len: usize) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.pull_by(peer, reach, from, to, len) }
    }

    #[inline]
    unsafe fn push(&mut self, peer: u32, reach: Reach, from: *const u8, to: u64, len: usize) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.push_by(peer, reach, from, to, len) }
    }

    #[inline]
    fn has_regions(&self) -> bool {
        self.regions.is_some()
    }

    #[inline]
    unsafe fn expose(&mut self, peer: u32, slot: u32, ticket: u32, buffer: *const u8, len: usize) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { self.tell_of(peer, slot, ticket, buffer, len) }
    }

    #[inline]
    fn conceal(&mut self, peer: u32, slot: u32, ticket: u32) {
        self.tell_no_more_of(peer, slot, ticket);
    }

    #[inline]
    unsafe fn pull_exposed(&mut self, _: u32, key: u64, offset: u64, to: *mut u8, len: usize) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.pull_by_key(key, offset, to, len) }
    }

    #[inline]
    fn prepare_pages(&mut self, peer: u32) {
        self.make_pipe(peer);
    }

    #[inline]
    fn has_pipe_to(&self, peer: u32) -> bool {
        self.peers.get(peer as usize).is_some_and(Peer::lends)
    }

    #[inline]
    fn has_pipe_from(&self, peer: u32) -> bool {
        self.peers.get(peer as usize).is_some_and(|state| state.pages_from.is_some())
    }

    #[inline]
    unsafe fn put_pages(&mut self, peer: u32, from: *const u8, len: usize) -> Piped {
        // SAFETY: the caller vouches for the buffer.
        unsafe { self.lend(peer, from, len) }
    }

    #[inline]
    unsafe fn read_pages(&mut self, peer: u32, to: *mut u8, len: usize) -> bool {
        let reader = self.peers.get(peer as usize).and_then(|state| state.pages_from.as_ref());
        // SAFETY: the caller vouches for the buffer.
        reader.is_some_and(|reader| unsafe { reader.read(to, len) })
    }

    #[inline]
    fn is_committed(&self, peer: u32) -> bool {
        // SYNC POINT: Relaxed: nothing is read by virtue of it; a late value has a message copied otherwise.
        self.segment.block(peer).is_some_and(|block| block.state.committed.load(Ordering::Relaxed) > 0)
    }

    #[inline]
    fn is_waiting(&self, peer: u32) -> bool {
        let Some(block) = self.segment.block(peer) else { return false };
        let attention = block.descriptor.attention();
        attention.pollers() > 0 || attention.sleepers() > 0
    }

    #[inline]
    fn has_waiter(&self, peer: u32) -> bool {
        let Some(block) = self.segment.block(peer) else { return false };
        let attention = block.descriptor.attention();
        attention.pollers() > 0 || attention.sleepers() > attention.attendants()
    }

    #[inline]
    fn is_in_wait(&self, peer: u32) -> bool {
        self.segment.block(peer).is_some_and(|block| block.descriptor.is_in_wait())
    }
}

#[inline]
fn bit(class: Class) -> u8 {
    1 << (class as u8)
}
