//! A rank's endpoint.
//!
//! Everything that a handler may call works on arrays that have their final size from the start, and whose pages the kernel
//! gives when they are first written: a peer takes no memory before its pair is connected. Costs, with
//! `n` ranks connected: `begin_pass` reads n / 64 + 1 words and one mark per sender; `flush` costs one fence
//! and one ring per peer that was sent to or freed; the rest is the lanes' (see `lane.rs`).

mod beside;
mod copy;
mod pages;
mod peer;
mod pieces;
mod pipes;
mod ring;
#[cfg(test)]
mod tests;

use core::ptr::NonNull;
use std::sync::Arc;

use tocsin_doorbell::{BackendKind, Own};
use tocsin_sync::atomic::{Ordering, fence};
use tocsin_sync::sparse::{Sparse, Words};
use tocsin_transport::{
    Arrival, Awaits, Capabilities, Class, Error as TransportError, Header, Packet, PeerState, Piped,
    Publication, Reach, Record, Recv, Rings, SendOutcome, Transport, Urgency, long_under_way,
};

use crate::lane::{Consumed, POOLED, Peek, Push, RecvLane, SendPool};
use crate::segment::layout::{RANK_WORDS, Ranks, RanksCopy};
use crate::segment::set_bit;
use crate::{Error, Life, Segment};
pub use copy::{Strategies, cma_refusal};
use pages::Mailbox;
pub use pages::vmsplice_refusal;
use peer::{Bell, Honesty, Peer};
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
        if strategies.pages
            && self.mailbox.is_none()
            && let Some(block) = self.segment.block(self.rank)
        {
            // Without one, what is large comes through the Bulk lane.
            self.mailbox = Mailbox::open(&block.state).ok();
        }
    }

    /// The segment that the endpoint works on.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Learns who has connected. Bits beyond the number of ranks are nonsense and left out.
    fn learn(&mut self) {
        let Some(block) = self.segment.block(self.rank) else { return };
        let size = self.segment.ranks();
        let new = update(&mut self.known, &block.incoming, size);
        update(&mut self.known_bulk, &block.bulk, size);
        if new {
            self.connected_len = list(&self.known, &mut self.connected);
            for i in 0..self.connected_len {
                let Some(peer) = self.connected.get(i).copied() else { break };
                let _made = self.make_peer(peer);
            }
        }
    }

    /// What is kept of a peer, from now on. Handler-safe.
    fn make_peer(&mut self, peer: u32) -> Option<&mut Peer> {
        let (segment, rank) = (&self.segment, self.rank);
        // SAFETY: the rank was not taken before this endpoint, and a peer is made once: its ends of the lanes are at
        // their beginning and this endpoint's alone. The segment outlives the endpoint.
        self.peers.get_or_make(peer as usize, || unsafe { Peer::new(segment, rank, peer) })
    }

    /// Whether the records of a pair are allocated.
    fn has_records(&self, from: u32, to: u32) -> bool {
        if from == self.rank {
            return self.peers.get(to as usize).is_some_and(|peer| peer.bulk);
        }
        // The bit itself rather than what was learnt of it: an announcement may be newer than the last pass.
        let block = self.segment.block(self.rank).filter(|_| to == self.rank && from < self.segment.ranks());
        let word = block.and_then(|block| block.bulk.get(from as usize / 64));
        // SYNC POINT: Acquire pairs with `set_bit`: the records are allocated.
        word.is_some_and(|word| word.load(Ordering::Acquire) & (1 << (from % 64)) != 0)
    }

    /// What follows a push that was refused.
    #[cold]
    fn not_sent(&mut self, peer: u32, class: Class, push: Push) -> SendOutcome {
        let Some(state) = self.peers.get_mut(peer as usize) else { return SendOutcome::Gone };
        if push == Push::Corrupt {
            state.close(Honesty::Caught);
            return SendOutcome::Gone;
        }
        state.starved |= bit(class);
        self.starved = true;
        if state.send_lane(class).has_asked() {
            // Plain packets that did not ring are in the way of others.
            state.sent = true;
            state.renewed = true;
            state.urgency = Urgency::Urgent;
            self.mark_dirty(peer);
        }
        SendOutcome::Full
    }

    /// Where this process has a buffer of a peer's, if that lies in the peer's part of the heap.
    fn shared(&self, peer: u32, address: u64, len: u64) -> Option<*mut u8> {
        // SYNC POINT: Relaxed: an address that the peer has said before it announced a buffer, by a packet that is published after it.
        let base = self.segment.block(peer)?.state.heap.load(Ordering::Relaxed);
        self.segment.in_heap(peer, base, address, len)
    }

    /// What is kept of a peer, if such a packet may be put into its lane.
    #[inline(always)]
    fn lane_to(&mut self, peer: u32, class: Class, header: &Header, len: usize) -> Option<&mut Peer> {
        let known = has(&self.known, peer);
        let state = self.peers.get_mut(peer as usize)?;
        let ready = known && (class != Class::Bulk || state.bulk) && state.honesty == Honesty::Honest;
        if !ready || header.kind == 0 || len > self.capabilities.max_payload(class) {
            return None;
        }
        if matches!(self.segment.life(peer), Life::Finalized | Life::Dead) { None } else { Some(state) }
    }

    /// A packet was put into a peer's lane, or was not.
    #[inline(always)]
    fn pushed(&mut self, peer: u32, class: Class, urgency: Urgency, push: Push) -> SendOutcome {
        let Some(state) = self.peers.get_mut(peer as usize) else { return SendOutcome::Gone };
        if push != Push::Sent {
            return self.not_sent(peer, class, push);
        }
        state.sent = true;
        state.renewed = true;
        state.untaken |= bit(class);
        state.urgency = state.urgency.max(urgency);
        enlist(&mut self.dirty, &mut self.dirty_len, state, peer);
        SendOutcome::Sent
    }

    fn no_memory(&self, peer: u32, (bytes, source): (u64, std::io::Error)) -> TransportError {
        TransportError::NoMemory { rank: self.rank, peer, bytes, source }
    }

    /// What one of the peeks says of a peer's lane.
    #[inline(always)]
    fn look(&mut self, peer: u32, class: Class, peek: impl FnOnce(&mut RecvLane) -> Peek) -> Recv {
        let known = if class == Class::Bulk { &self.known_bulk } else { &self.known };
        if !has(known, peer) {
            return Recv::Empty;
        }
        let Some(state) = self.peers.get_mut(peer as usize) else { return Recv::Empty };
        if state.honesty == Honesty::Caught {
            state.honesty = Honesty::Told;
            return Recv::Corrupt;
        }
        match peek(state.recv_lane(class)) {
            Peek::Empty => Recv::Empty,
            Peek::Packet(header, len, payload) => Recv::Packet(Packet { header, payload, len }),
            Peek::Corrupt => {
                state.close(Honesty::Told);
                Recv::Corrupt
            }
        }
    }
}

#[inline]
fn has(ranks: &RanksCopy, rank: u32) -> bool {
    ranks.get(rank as usize / 64).is_some_and(|word| word & (1 << (rank % 64)) != 0)
}

/// The bits of word `i` that stand for ranks.
fn valid(i: usize, size: u32) -> u64 {
    let below = (size as usize).saturating_sub(i.saturating_mul(64));
    if below >= 64 { u64::MAX } else { (1u64 << below).wrapping_sub(1) }
}

/// Copies the shared bits into the private ones; whether there were new ones.
fn update(known: &mut RanksCopy, shared: &Ranks, size: u32) -> bool {
    let mut new = false;
    let words = (size as usize).div_ceil(64);
    for (i, (known, shared)) in known.iter_mut().zip(shared).take(words).enumerate() {
        // SYNC POINT: Acquire pairs with `set_bit`: the pair's memory is allocated.
        let bits = shared.load(Ordering::Acquire) & valid(i, size);
        new |= bits & !*known != 0;
        *known |= bits;
    }
    new
}

/// Whether `update` would find new bits.
fn would_update(known: &RanksCopy, shared: &Ranks, size: u32) -> bool {
    let words = (size as usize).div_ceil(64);
    let mut pairs = known.iter().zip(shared).take(words).enumerate();
    pairs.any(|(i, (known, shared))| shared.load(Ordering::Acquire) & valid(i, size) & !known != 0)
}

/// Writes the ranks of a bitmap into `out`, ascending; returns how many.
fn list(ranks: &RanksCopy, out: &mut [u32]) -> usize {
    let mut len = 0usize;
    for (i, word) in ranks.iter().enumerate() {
        let mut bits = *word;
        while bits != 0 {
            let Some(entry) = out.get_mut(len) else { return len };
            *entry = (i as u32).wrapping_mul(64).wrapping_add(bits.trailing_zeros());
            len = len.wrapping_add(1);
            bits &= bits.wrapping_sub(1);
        }
    }
    len
}

// SAFETY: the handler-safe methods neither allocate (arrays have their final size), wait nor panic (no
// indexing); the payload of a packet lies in the lane until it is consumed; lanes are FIFO.
unsafe impl Transport for ShmTransport {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.segment.ranks()
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn connect(&mut self, peer: u32) -> Result<(), TransportError> {
        self.learn();
        if has(&self.known, peer) {
            return Ok(());
        }
        let segment = self.segment.clone();
        let size = segment.ranks();
        let (Some(mine), Some(theirs)) = (segment.block(self.rank), segment.block(peer)) else {
            return Err(TransportError::NoSuchRank { peer, size });
        };
        segment.allocate_pair(self.rank, peer).map_err(|e| self.no_memory(peer, e))?;
        // Only now may anybody touch the pair's lanes.
        set_bit(&theirs.incoming, self.rank);
        set_bit(&mine.incoming, peer);
        self.learn();
        Ok(())
    }

    fn connect_bulk(&mut self, peer: u32) -> Result<(), TransportError> {
        self.connect(peer)?;
        let segment = self.segment.clone();
        let size = segment.ranks();
        let (Some(state), Some(theirs)) = (self.peers.get_mut(peer as usize), segment.block(peer)) else {
            return Err(TransportError::NoSuchRank { peer, size });
        };
        if state.bulk {
            return Ok(());
        }
        segment.allocate_bulk(self.rank, peer).map_err(|(bytes, source)| TransportError::NoMemory {
            rank: self.rank,
            peer,
            bytes,
            source,
        })?;
        state.bulk = true;
        set_bit(&theirs.bulk, self.rank);
        self.learn();
        Ok(())
    }

    #[inline]
    fn prepare_rings(&mut self, peer: u32) -> bool {
        let is_known = |peers: &Sparse<Peer>| {
            peers.get(peer as usize).is_some_and(|state| !matches!(state.bell, Bell::Unknown))
        };
        is_known(&self.peers) || {
            self.learn_bell(peer);
            is_known(&self.peers)
        }
    }

    fn rings(&self) -> Rings {
        self.rings
    }

    #[inline]
    fn is_connected(&self, peer: u32) -> bool {
        has(&self.known, peer)
    }

    fn begin_pass(&mut self) {
        let epoch = self.segment.epoch();
        let mut cleared = self.own.take() != 0 || self.seen_epoch != epoch;
        self.seen_epoch = epoch;
        self.learn();
        if self.starved {
            self.starved = false;
            for peer in self.connected.iter().take(self.connected_len) {
                if let Some(state) = self.peers.get_mut(*peer as usize) {
                    state.starved = 0;
                }
            }
        }
        for peer in self.connected.iter().take(self.connected_len) {
            if let Some(state) = self.peers.get(*peer as usize) {
                // SAFETY: the pair is connected, so that its head is allocated; it is made of atomics.
                cleared |= unsafe { (*state.from).mark.0.clear_if_set() };
            }
        }
        if let Some(block) = self.segment.block(self.rank).filter(|_| self.segment.has_boards()) {
            for mark in block.marks.0.iter().take(self.segment.ranks() as usize) {
                cleared |= mark.clear_if_set();
            }
        }
        if cleared {
            // SYNC POINT: a sender publishes, fences, reads its mark; here the mark is cleared, fence, the lanes
            // are read. A ring that the mark suppressed is for a packet that the peeks to come will see. The same
            // fence orders `own.take` and the epoch before the look. Where nothing was cleared, nothing that
            // suppresses a ring was taken away.
            fence(Ordering::SeqCst);
        }
    }

    fn prepare_long(&mut self) {
        if self.pool_asked {
            return;
        }
        self.pool_asked = true;
        // Without the memory, payloads go through the lanes' own rings.
        if self.segment.allocate_pool(self.rank).is_ok()
            && let Some((base, bytes)) = self.segment.pool(self.rank)
        {
            // SAFETY: the pool is this rank's, of which there is one endpoint; it is allocated now, and mapped as long as the segment,
            // which outlives the endpoint. It begins with a page.
            self.pool = unsafe { SendPool::new(base, bytes) }.unwrap_or_else(SendPool::none);
        }
    }

    fn may_send_long(&self, peer: u32) -> bool {
        let Some(state) = self.peers.get(peer as usize).filter(|_| has(&self.known, peer)) else {
            return false;
        };
        // SYNC POINT: Relaxed: nothing is read by virtue of it; an old value has the message announced. A peer that lies
        // has its own pool filled.
        // SAFETY: the pair is connected, so that its head is allocated; it is made of atomics.
        let done = unsafe { (*state.to).long_done.0.load(Ordering::Relaxed) };
        let under_way = state.long_sent.wrapping_sub(done);
        under_way == 0 || under_way < long_under_way(self.segment.ranks()) && self.is_waiting(peer)
    }

    fn note_long_sent(&mut self, peer: u32) {
        if let Some(state) = self.peers.get_mut(peer as usize) {
            state.long_sent = state.long_sent.wrapping_add(1);
        }
    }

    fn note_long_done(&mut self, peer: u32) {
        if let Some(state) = self.peers.get_mut(peer as usize).filter(|_| has(&self.known, peer)) {
            state.long_done = state.long_done.wrapping_add(1);
            // SAFETY: the pair is connected, so that its head is allocated; it is made of atomics.
            unsafe { (*state.from).long_done.0.store(state.long_done, Ordering::Relaxed) };
        }
    }

    fn await_coming(&mut self, peer: u32, awaits: Awaits) {
        if let Some(state) = self.peers.get(peer as usize).filter(|_| has(&self.known, peer)) {
            // SYNC POINT: Relaxed: nothing is read by virtue of it, and who reads an old value sends as it would otherwise.
            // SAFETY: the pair is connected, so that its head is allocated; it is made of atomics.
            unsafe { (*state.from).awaited.0.store(awaits as u32, Ordering::Relaxed) };
        }
    }

    fn rouse(&mut self, peer: u32) {
        let Some(block) = self.segment.block(peer) else { return };
        if block.descriptor.attention().sleepers() > 0 {
            tocsin_doorbell::rouse(&block.descriptor);
        }
    }

    fn is_awaited_by(&self, peer: u32) -> bool {
        let state = self.peers.get(peer as usize).filter(|_| has(&self.known, peer));
        let Some(state) = state else { return false };
        // SYNC POINT: Relaxed, as above. A peer that lies has its own pool filled.
        // SAFETY: as above.
        match unsafe { (*state.to).awaited.0.load(Ordering::Relaxed) } {
            0 => false,
            word => word == Awaits::Looking as u32 || self.is_waiting(peer),
        }
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
        state.map_or(0, Peer::coming)
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

    // Else what it answers, which is long, would be written to memory to be read again.
    #[inline(always)]
    fn peek(&mut self, peer: u32, class: Class) -> Recv {
        self.look(peer, class, RecvLane::peek)
    }

    fn peek_coming(&mut self, peer: u32, class: Class) -> Recv {
        self.look(peer, class, RecvLane::peek_coming)
    }

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

    fn work_left(&self) -> bool {
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
            self.peers.get(*peer as usize).is_some_and(|state| state.work_left(has(&self.known_bulk, *peer)))
        })
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

    fn would_signal(&self, peer: u32) -> bool {
        let Some(block) = self.segment.block(peer) else { return false };
        let attention = block.descriptor.attention();
        block.descriptor.backend() == Some(BackendKind::Signal)
            && attention.pollers() == 0
            && attention.sleepers() == 0
            && !attention.throttled()
            && attention.tid() != 0
            && !block.descriptor.computes()
    }

    fn computes_beside(&mut self, core: u32, now: u64) -> bool {
        self.is_beside_computing(core, now)
    }

    #[inline]
    fn flush_quietly(&mut self) -> bool {
        self.dirty_len > 0 && !self.leaves_all_alone() && self.ring_dirty(true)
    }

    fn flush(&mut self) {
        if self.dirty_len > 0 && !self.leaves_all_alone() {
            self.ring_dirty(false);
        }
    }

    #[inline]
    fn awaits_answer(&self) -> bool {
        self.unanswered || self.retry
    }

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
    fn aborted(&self) -> Option<i32> {
        self.segment.aborted()
    }

    fn reach(&mut self, peer: u32, class: Class) -> Reach {
        let local = self.segment.is_local(peer);
        let (Some(state), Some(block)) = (self.peers.get_mut(peer as usize), self.segment.block(peer)) else {
            return Reach::None;
        };
        if self.strategies.direct && local && class != Class::Coll {
            Reach::Direct
        } else if self.strategies.cma && state.kernel.is_open(&block.state) {
            Reach::Kernel
        } else {
            Reach::None
        }
    }

    fn record(&self, from: u32, to: u32, slot: u32) -> Option<NonNull<Record>> {
        if self.has_records(from, to) { self.segment.record(from, to, slot) } else { None }
    }

    fn publication(&self, from: u32, to: u32) -> Option<NonNull<Publication>> {
        if self.has_records(from, to) { self.segment.publication(from, to) } else { None }
    }

    fn reach_at(&mut self, peer: u32, class: Class, address: u64, len: u64) -> Reach {
        // In one process a plain copy would do, but not of a buffer of a collective, which may be given back meanwhile.
        if self.strategies.direct && !self.segment.is_local(peer) && self.shared(peer, address, len).is_some()
        {
            return Reach::Shared;
        }
        self.reach(peer, class)
    }

    fn is_shared_with(&self, peer: u32, address: u64, len: u64) -> bool {
        let Some(block) = self.segment.block(peer) else { return false };
        // SYNC POINT: Relaxed: a peer that has mapped the heap never does without again, and nothing of what it has written is read by
        // virtue of this.
        block.state.heap.load(Ordering::Relaxed) != 0
            && !self.segment.is_local(peer)
            && self.segment.is_in_arena(self.rank, address, len)
    }

    fn prepare_shared(&mut self) {
        self.collect_pipes();
        if self.heap_said || !self.strategies.direct || !self.segment.is_heap_used() {
            return;
        }
        if let (Some(base), Some(block)) = (self.segment.try_map_heap(), self.segment.block(self.rank)) {
            self.heap_said = true;
            // SYNC POINT: Relaxed: it is an address, and says nothing of what lies there.
            block.state.heap.store(base.as_ptr() as u64, Ordering::Relaxed);
        }
    }

    unsafe fn pull(&mut self, peer: u32, reach: Reach, from: u64, to: *mut u8, len: usize) -> bool {
        let Some(state) = self.peers.get(peer as usize) else { return false };
        match reach {
            Reach::None => false,
            Reach::Shared => match self.shared(peer, from, len as u64) {
                // SAFETY: the caller vouches for `to`, which is not in the peer's arena; there all of `from` lies, mapped as long as the segment. What the
                // peer writes there meanwhile, if it does not keep to the protocol, is copied as it is.
                Some(from) => unsafe {
                    core::ptr::copy_nonoverlapping(from, to, len);
                    true
                },
                None => false,
            },
            // SAFETY: the caller vouches for both ends.
            Reach::Direct => unsafe {
                core::ptr::copy_nonoverlapping(from as *const u8, to, len);
                true
            },
            // SAFETY: the caller vouches for the local end; the kernel checks the other.
            Reach::Kernel => unsafe { state.kernel.read(from, to, len) },
        }
    }

    unsafe fn push(&mut self, peer: u32, reach: Reach, from: *const u8, to: u64, len: usize) -> bool {
        let Some(state) = self.peers.get(peer as usize) else { return false };
        match reach {
            Reach::None => false,
            Reach::Shared => match self.shared(peer, to, len as u64) {
                // SAFETY: as in `pull`.
                Some(to) => unsafe {
                    core::ptr::copy_nonoverlapping(from, to, len);
                    true
                },
                None => false,
            },
            // SAFETY: the caller vouches for both ends.
            Reach::Direct => unsafe {
                core::ptr::copy_nonoverlapping(from, to as *mut u8, len);
                true
            },
            // SAFETY: the caller vouches for the local end; the kernel checks the other.
            Reach::Kernel => unsafe { state.kernel.write(from, to, len) },
        }
    }

    fn prepare_pages(&mut self, peer: u32) {
        self.make_pipe(peer);
    }

    fn has_pipe_to(&self, peer: u32) -> bool {
        self.peers.get(peer as usize).is_some_and(Peer::lends)
    }

    fn has_pipe_from(&self, peer: u32) -> bool {
        self.peers.get(peer as usize).is_some_and(|state| state.pages_from.is_some())
    }

    unsafe fn put_pages(&mut self, peer: u32, from: *const u8, len: usize) -> Piped {
        // SAFETY: the caller vouches for the buffer.
        unsafe { self.lend(peer, from, len) }
    }

    unsafe fn read_pages(&mut self, peer: u32, to: *mut u8, len: usize) -> bool {
        let reader = self.peers.get(peer as usize).and_then(|state| state.pages_from.as_ref());
        // SAFETY: the caller vouches for the buffer.
        reader.is_some_and(|reader| unsafe { reader.read(to, len) })
    }

    fn is_committed(&self, peer: u32) -> bool {
        // SYNC POINT: Relaxed: nothing is read by virtue of it; a late value has a message copied otherwise.
        self.segment.block(peer).is_some_and(|block| block.state.committed.load(Ordering::Relaxed) > 0)
    }

    fn is_waiting(&self, peer: u32) -> bool {
        let Some(block) = self.segment.block(peer) else { return false };
        let attention = block.descriptor.attention();
        attention.pollers() > 0 || attention.sleepers() > 0
    }
}

#[inline]
fn bit(class: Class) -> u8 {
    1 << (class as u8)
}
