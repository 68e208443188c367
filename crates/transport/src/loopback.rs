//! A transport inside one process: no shared memory, no doorbells, no system calls. For tests of the layers
//! above.
//!
//! Deterministic: what one thread does to its endpoints depends on nothing else. Small capacities provoke
//! [`SendOutcome::Full`]; [`Loopback::set_state`] kills or finalizes a rank.
//!
//! # Implementation details
//! One bounded SPSC ring per ordered pair and class, allocated at connect. Sending, peeking and consuming are
//! wait-free (at most four atomic operations) and handler-safe, like the real transport's.

mod fabric;
mod pipe;
mod ring;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tocsin_sync::atomic::{AtomicU64, Ordering, fence};

use crate::short::{self, Put, Run, Took, Wanted};
use crate::transfer::RECORDS;
use crate::{
    Arrival, Awaits, Capabilities, Class, Error, Header, Packet, PeerState, Piped, Publication, Reach,
    Record, Recv, SendOutcome, Transport, Urgency,
};
use core::ptr::NonNull;
pub use fabric::{
    Limits, fabric, fabric_with, fabric_with_pages, fabric_with_shared_buffers, fabric_with_single_copies,
    is_shared,
};
use fabric::{Region, Shared};
use pipe::Pipe;

const ABSENT: u8 = 0;
const ALIVE: u8 = 1;
const FINALIZED: u8 = 2;
const DEAD: u8 = 3;
const ABORTED: u64 = 1 << 32;

/// One rank's endpoint.
#[derive(Debug)]
pub struct Loopback {
    rank: u32,
    capabilities: Capabilities,
    /// Capacity for all ranks from the start: never grows.
    connected: Vec<u32>,
    dirty: Vec<bool>,
    rings: Vec<u64>,
    starved: Vec<[bool; 4]>,
    waiting: Vec<bool>,
    attending: Vec<u32>,
    committed: Vec<bool>,
    /// See [`set_meanwhile`](Loopback::set_meanwhile).
    meanwhile: Option<fn()>,
    /// Bytes read of the piece at the head of each peer's pipe.
    read: Vec<usize>,
    /// See [`set_refuses_pages`](Loopback::set_refuses_pages).
    refuses_pages: bool,
    /// See [`set_exposed_max`](Loopback::set_exposed_max).
    exposed_max: usize,
    /// See [`set_refuses_regions`](Loopback::set_refuses_regions).
    refuses_regions: bool,
    /// See [`set_reach`](Loopback::set_reach).
    reach: Reach,
    /// Ticket and key of each buffer that is exposed, by peer and record; 0: none.
    exposed: Vec<[(u32, u64); RECORDS as usize]>,
    /// See [`copies`](Loopback::copies).
    copies: u64,
    /// See [`set_coming`](Loopback::set_coming): how much more there is at each look, and how much there is.
    comes: Option<(Class, u64)>,
    come: AtomicU64,
    /// What was copied ahead last. Room for the longest payload from the start.
    ahead: Vec<u8>,
    sent_ahead: u64,
    seen_epoch: u64,
    shared: Arc<Shared>,
}

impl Loopback {
    /// Says what became of a rank, for everybody, from any endpoint.
    pub fn set_state(&self, rank: u32, state: PeerState) {
        let Some(cell) = self.shared.states.get(rank as usize) else { return };
        let value = match state {
            PeerState::Absent => ABSENT,
            PeerState::Alive => ALIVE,
            PeerState::Finalized => FINALIZED,
            PeerState::Dead => DEAD,
        };
        // SYNC POINT: Release, so that who sees the state (Acquire) sees all packets sent before it was set.
        cell.store(value, Ordering::Release);
        self.shared.epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// Aborts the world with an exit code.
    pub fn abort(&self, code: i32) {
        self.shared.abort.store(ABORTED | u64::from(code as u32), Ordering::Release);
        self.shared.epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// How often [`flush`](Transport::flush) of this endpoint would have rung `peer`.
    pub fn rings_to(&self, peer: u32) -> u64 {
        self.rings.get(peer as usize).copied().unwrap_or(0)
    }

    /// Says whether this endpoint takes `peer` for one that waits in the library.
    pub fn set_waiting(&mut self, peer: u32, waits: bool) {
        if let Some(entry) = self.waiting.get_mut(peer as usize) {
            *entry = waits;
        }
    }

    /// Says that what waits at `peer` only waits to be rung.
    pub fn set_attending(&mut self, peer: u32) {
        self.attending.push(peer);
    }

    /// Says whether this endpoint takes `peer` for one that waits for a collective.
    pub fn set_committed(&mut self, peer: u32, waits: bool) {
        if let Some(entry) = self.committed.get_mut(peer as usize) {
            *entry = waits;
        }
    }

    /// Has something done whenever this endpoint asks whether a peer waits for a collective: what a peer does meanwhile.
    pub fn set_meanwhile(&mut self, meanwhile: Option<fn()>) {
        self.meanwhile = meanwhile;
    }

    /// Says whether this endpoint puts no pages into pipes (any more).
    pub fn set_refuses_pages(&mut self, refuses: bool) {
        self.refuses_pages = refuses;
    }

    /// Has the payloads of Eager packets come to this endpoint, from nothing, so many bytes more at each look. `None`: they
    /// are there whole.
    pub fn set_coming(&mut self, step: Option<u64>) {
        self.set_coming_in(Class::Eager, 0, step);
    }

    /// The same of a class, of the first one from so many bytes on. In class Bulk a packet is there when all of its payload is, and the next one comes from nothing.
    pub fn set_coming_in(&mut self, class: Class, from: u64, step: Option<u64>) {
        self.comes = step.map(|step| (class, step));
        self.come = AtomicU64::new(from);
    }

    /// Whether what is at the head of a lane comes.
    fn head_comes(&self, class: Class, ring: &ring::Ring) -> bool {
        if self.comes.is_none_or(|(comes, _)| comes != class) {
            return false;
        }
        // SAFETY: only this endpoint consumes from this ring, and one thread has it.
        let len = unsafe { ring.peek() }.map_or(0, |packet| packet.len as u64);
        class != Class::Bulk || self.come.load(Ordering::Relaxed) < len
    }

    /// Says how much of a buffer this endpoint exposes at most, whatever it says to others.
    pub fn set_exposed_max(&mut self, bytes: usize) {
        self.exposed_max = bytes;
    }

    /// Says whether this endpoint exposes no buffers (any more).
    pub fn set_refuses_regions(&mut self, refuses: bool) {
        self.refuses_regions = refuses;
    }

    /// Says how this endpoint reaches all others, however they reach it.
    pub fn set_reach(&mut self, reach: Reach) {
        self.reach = reach;
    }

    /// How many buffers of this endpoint's are exposed.
    pub fn exposed(&self) -> usize {
        self.exposed.iter().flatten().filter(|(_, key)| *key != 0).count()
    }

    /// What a key stands for: a rank, and which of its regions.
    fn region(&self, key: u64) -> Option<&Region> {
        self.shared.regions.get((key >> 32) as usize)?.get((key as u32).wrapping_sub(1) as usize)
    }

    fn forget(&self, key: u64) {
        if let Some(region) = self.region(key) {
            region.address.store(0, Ordering::Relaxed);
        }
    }

    /// How often this endpoint has pulled or pushed.
    pub fn copies(&self) -> u64 {
        self.copies
    }

    /// How long what was copied ahead last is, bytes.
    pub fn copied_ahead(&self) -> usize {
        self.ahead.len()
    }

    /// How many pieces were sent that had been copied ahead.
    pub fn sent_ahead(&self) -> u64 {
        self.sent_ahead
    }

    fn head(&mut self, peer: u32, class: Class) -> Recv {
        self.shared
            .ring(peer, self.rank, class)
            // SAFETY: only this endpoint, which is borrowed mutably, consumes from this ring.
            .and_then(|ring| unsafe { ring.peek() })
            .map_or(Recv::Empty, Recv::Packet)
    }

    fn check(&self, peer: u32) -> Result<(), Error> {
        if peer < self.shared.size { Ok(()) } else { Err(Error::NoSuchRank { peer, size: self.shared.size }) }
    }
}

// SAFETY: the handler-safe methods neither allocate (vectors have their final capacity), wait nor panic; a
// ring's slot is not reused before `consume`; rings are FIFO.
unsafe impl Transport for Loopback {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.shared.size
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn connect(&mut self, peer: u32) -> Result<(), Error> {
        self.check(peer)?;
        let shared = &self.shared;
        for (from, to) in [(self.rank, peer), (peer, self.rank)] {
            let pair = shared.pair(from, to);
            shared.lanes[pair]
                .get_or_init(|| [Class::Eager, Class::Coll, Class::Control].map(|c| shared.new_ring(c)));
        }
        for (from, to) in [(self.rank, peer), (peer, self.rank)] {
            // SYNC POINT: Release; pairs with the Acquire in begin_pass.
            shared.joined[shared.pair(from, to)].store(true, Ordering::Release);
        }
        Ok(())
    }

    fn connect_bulk(&mut self, peer: u32) -> Result<(), Error> {
        self.connect(peer)?;
        let shared = &self.shared;
        let pair = shared.pair(self.rank, peer);
        shared.records[pair]
            .get_or_init(|| ((0..RECORDS).map(|_| Record::new()).collect(), Publication::new()));
        shared.bulk[pair].get_or_init(|| shared.new_ring(Class::Bulk));
        if shared.pieces > 0 {
            let longest = shared.limits.max_payload[Class::Bulk.index()] / 4 * 3;
            shared.pipes[pair].get_or_init(|| Pipe::new(shared.pieces, longest));
        }
        Ok(())
    }

    fn is_connected(&self, peer: u32) -> bool {
        peer < self.shared.size
            && self
                .shared
                .joined
                .get(self.shared.pair(self.rank, peer))
                .is_some_and(|j| j.load(Ordering::Acquire))
    }

    fn begin_pass(&mut self) {
        self.seen_epoch = self.epoch();
        self.starved.fill([false; 4]);
        self.connected.clear();
        for from in 0..self.shared.size {
            let pair = self.shared.pair(from, self.rank);
            if self.shared.joined.get(pair).is_some_and(|j| j.load(Ordering::Acquire)) {
                self.connected.push(from);
            }
        }
        // SYNC POINT: what was sent before the wake-up that led here is seen by the peeks that follow.
        fence(Ordering::SeqCst);
    }

    fn connected(&self) -> &[u32] {
        &self.connected
    }

    unsafe fn try_send(
        &mut self,
        peer: u32,
        class: Class,
        _urgency: Urgency,
        header: &Header,
        payload: *const u8,
        len: usize,
    ) -> SendOutcome {
        if !self.is_connected(peer)
            || len > self.capabilities.max_payload(class)
            || matches!(self.peer_state(peer), PeerState::Finalized | PeerState::Dead)
        {
            return SendOutcome::Gone;
        }
        let Some(ring) = self.shared.ring(self.rank, peer, class) else { return SendOutcome::Gone };
        // SAFETY: the caller vouches for the payload, whose length was checked above; only this endpoint,
        // which is borrowed mutably, produces into this ring.
        let sent = unsafe { ring.push(header, payload, len) };
        if let Some(starved) =
            self.starved.get_mut(peer as usize).and_then(|lanes| lanes.get_mut(class.index()))
        {
            *starved = !sent;
        }
        if !sent {
            return SendOutcome::Full;
        }
        if let Some(dirty) = self.dirty.get_mut(peer as usize) {
            *dirty = true;
        }
        SendOutcome::Sent
    }

    unsafe fn put_short(&mut self, peer: u32, context: u32, tag: i32, payload: *const u8, len: usize) -> Put {
        if len > short::LONGEST {
            return Put::Not;
        }
        let header = short::plain(context, tag, len);
        // SAFETY: the caller vouches for the payload.
        match unsafe { self.try_send(peer, Class::Eager, Urgency::Plain, &header, payload, len) } {
            SendOutcome::Sent => Put::Flush,
            SendOutcome::Full | SendOutcome::Gone => Put::Not,
        }
    }

    unsafe fn take_short(
        &mut self,
        peer: u32,
        wanted: Wanted,
        to: *mut u8,
        room: usize,
        _looks: u32,
    ) -> Took {
        match self.arrival(peer, Class::Eager) {
            Arrival::Nothing | Arrival::Comes => return Took::Nothing,
            Arrival::Here => {}
        }
        let Recv::Packet(Packet { header, payload, len }) = self.peek(peer, Class::Eager) else {
            return Took::Nothing;
        };
        let plain = short::plain(header.context, header.tag, len);
        let is_wanted = wanted.is(short::envelope(header.context, header.tag));
        if len > short::LONGEST.min(room) || header != plain || !is_wanted {
            return Took::Other;
        }
        // SAFETY: the caller vouches for `to`, where there is room; the payload is readable until it is consumed.
        unsafe { short::copy(payload, to, len) };
        self.consume(peer, Class::Eager);
        Took::Message { tag: header.tag, len, flush: true }
    }

    fn take_run(&mut self, peer: u32, most: u32, mut meet: impl FnMut(u64, usize, *const u8) -> bool) -> Run {
        let mut taken = 0;
        while taken < most {
            match self.arrival(peer, Class::Eager) {
                Arrival::Nothing => return Run { taken, emptied: true },
                Arrival::Comes => break,
                Arrival::Here => {}
            }
            let Recv::Packet(Packet { header, payload, len }) = self.peek(peer, Class::Eager) else { break };
            let plain = short::plain(header.context, header.tag, len);
            let is_short = len <= short::LONGEST && header == plain;
            if !is_short || !meet(short::envelope(header.context, header.tag), len, payload) {
                break;
            }
            self.consume(peer, Class::Eager);
            taken += 1;
        }
        Run { taken, emptied: false }
    }

    unsafe fn copy_ahead(&mut self, _peer: u32, payload: *const u8, len: usize, _of: u64) -> bool {
        self.ahead.clear();
        if len > self.ahead.capacity() {
            return false;
        }
        // SAFETY: the caller vouches for the payload; nothing is allocated, as was checked above.
        self.ahead.extend_from_slice(unsafe { core::slice::from_raw_parts(payload, len) });
        true
    }

    unsafe fn try_send_piece(
        &mut self,
        peer: u32,
        header: &Header,
        payload: *const u8,
        len: usize,
        _of: u64,
        ahead: bool,
    ) -> SendOutcome {
        // What lies there is sent as it is: whoever takes another payload for it is found out.
        let held = ahead && self.ahead.len() == len;
        self.sent_ahead += u64::from(held);
        let payload = if held { self.ahead.as_ptr() } else { payload };
        // SAFETY: the caller vouches for the payload; what is held is as long.
        unsafe { self.try_send(peer, Class::Bulk, Urgency::Urgent, header, payload, len) }
    }

    unsafe fn try_send_long_piece(
        &mut self,
        peer: u32,
        header: &Header,
        payload: *const u8,
        len: usize,
        of: u64,
    ) -> bool {
        let full = self.shared.ring(self.rank, peer, Class::Bulk).is_none_or(|ring| ring.is_full());
        // SAFETY: the caller vouches for the payload.
        !full
            && len <= self.capabilities.max_payload(Class::Bulk)
            && unsafe { self.try_send_piece(peer, header, payload, len, of, false) } == SendOutcome::Sent
    }

    fn longest_whole(&self) -> usize {
        self.capabilities.max_payload(Class::Eager)
    }

    unsafe fn try_send_whole(&mut self, peer: u32, header: &Header, payload: *const u8, len: usize) -> bool {
        let full = self.shared.ring(self.rank, peer, Class::Eager).is_none_or(|ring| ring.is_full());
        // SAFETY: the caller vouches for the payload.
        !full
            && unsafe { self.try_send(peer, Class::Eager, Urgency::Offer, header, payload, len) }
                == SendOutcome::Sent
    }

    fn arrival(&self, peer: u32, class: Class) -> Arrival {
        let ring = self.shared.ring(peer, self.rank, class);
        match ring.filter(|ring| !ring.is_empty()) {
            Some(ring) if self.head_comes(class, ring) => Arrival::Comes,
            Some(_) => Arrival::Here,
            None => Arrival::Nothing,
        }
    }

    fn coming(&self, peer: u32) -> u8 {
        let comes = |class: Class| u8::from(self.arrival(peer, class) == Arrival::Comes) << class.index();
        comes(Class::Eager) | comes(Class::Bulk)
    }

    fn peek_coming(&mut self, peer: u32, class: Class) -> Recv {
        self.head(peer, class)
    }

    fn await_coming(&mut self, peer: u32, awaits: Awaits) {
        if let Some(word) = self.shared.awaited.get(self.shared.pair(peer, self.rank)) {
            word.store(awaits as u8, Ordering::Relaxed);
        }
    }

    fn is_awaited_by(&self, peer: u32) -> bool {
        let word = self.shared.awaited.get(self.shared.pair(self.rank, peer));
        match word.map_or(0, |word| word.load(Ordering::Relaxed)) {
            0 => false,
            word if word == Awaits::Soon as u8 => false,
            word => word == Awaits::Looking as u8 || self.is_waiting(peer),
        }
    }

    fn is_awaited_soon(&self, peer: u32) -> bool {
        let word = self.shared.awaited.get(self.shared.pair(self.rank, peer));
        word.is_some_and(|word| word.load(Ordering::Relaxed) == Awaits::Soon as u8)
    }

    fn come(&self, _peer: u32, _class: Class) -> u64 {
        let Some((_, step)) = self.comes else { return u64::MAX };
        let before = self.come.load(Ordering::Relaxed);
        self.come.store(before.saturating_add(step), Ordering::Relaxed);
        before
    }

    fn peek(&mut self, peer: u32, class: Class) -> Recv {
        if self.arrival(peer, class) == Arrival::Comes { Recv::Empty } else { self.head(peer, class) }
    }

    fn consume(&mut self, peer: u32, class: Class) {
        let Some(ring) = self.shared.ring(peer, self.rank, class) else { return };
        // SAFETY: only this endpoint, which is borrowed mutably, consumes from this ring.
        let starving = unsafe { ring.pop() };
        if class == Class::Bulk {
            self.come.store(0, Ordering::Relaxed);
        }
        if starving && let Some(dirty) = self.dirty.get_mut(peer as usize) {
            *dirty = true;
        }
    }

    fn work_left(&self) -> bool {
        if self.seen_epoch != self.epoch() {
            return true;
        }
        (0..self.shared.size).any(|peer| {
            if self.is_connected(peer) && !self.connected.contains(&peer) {
                return true;
            }
            let starved = self.starved.get(peer as usize).copied().unwrap_or_default();
            Class::ALL.into_iter().zip(starved).any(|(class, starved)| {
                self.shared.ring(peer, self.rank, class).is_some_and(|r| !r.is_empty())
                    || starved && self.shared.ring(self.rank, peer, class).is_some_and(|r| !r.is_full())
            })
        })
    }

    fn flush(&mut self) {
        fence(Ordering::SeqCst);
        for (dirty, rings) in self.dirty.iter_mut().zip(self.rings.iter_mut()) {
            if *dirty {
                *dirty = false;
                *rings = rings.wrapping_add(1);
            }
        }
    }

    fn peer_state(&self, peer: u32) -> PeerState {
        match self.shared.states.get(peer as usize).map_or(ABSENT, |s| s.load(Ordering::Acquire)) {
            ALIVE => PeerState::Alive,
            FINALIZED => PeerState::Finalized,
            DEAD => PeerState::Dead,
            _ => PeerState::Absent,
        }
    }

    fn epoch(&self) -> u64 {
        self.shared.epoch.load(Ordering::Acquire)
    }

    fn aborted(&self) -> Option<i32> {
        let word = self.shared.abort.load(Ordering::Acquire);
        (word & ABORTED != 0).then_some(word as u32 as i32)
    }

    fn reach(&mut self, _peer: u32) -> Reach {
        self.reach
    }

    fn reach_at(&mut self, peer: u32, address: u64, _len: u64) -> Reach {
        if self.shared.shares && is_shared(address) { Reach::Shared } else { self.reach(peer) }
    }

    fn is_shared_with(&self, _peer: u32, address: u64, _len: u64) -> bool {
        self.shared.shares && is_shared(address)
    }

    fn record(&self, from: u32, to: u32, slot: u32) -> Option<NonNull<Record>> {
        if from >= self.shared.size || to >= self.shared.size {
            return None;
        }
        let (records, _) = self.shared.records.get(self.shared.pair(from, to))?.get()?;
        records.get(slot as usize).map(NonNull::from)
    }

    fn publication(&self, from: u32, to: u32) -> Option<NonNull<Publication>> {
        if from >= self.shared.size || to >= self.shared.size {
            return None;
        }
        let (_, publication) = self.shared.records.get(self.shared.pair(from, to))?.get()?;
        Some(NonNull::from(publication))
    }

    unsafe fn pull(&mut self, _peer: u32, reach: Reach, from: u64, to: *mut u8, len: usize) -> bool {
        if reach == Reach::None {
            return false;
        }
        self.copies += 1;
        // SAFETY: the caller vouches for both ends.
        unsafe { core::ptr::copy_nonoverlapping(from as *const u8, to, len) };
        true
    }

    unsafe fn push(&mut self, _peer: u32, reach: Reach, from: *const u8, to: u64, len: usize) -> bool {
        if reach == Reach::None {
            return false;
        }
        self.copies += 1;
        // SAFETY: the caller vouches for both ends.
        unsafe { core::ptr::copy_nonoverlapping(from, to as *mut u8, len) };
        true
    }

    fn has_regions(&self) -> bool {
        self.shared.reach == Reach::Region
    }

    unsafe fn expose(&mut self, peer: u32, slot: u32, ticket: u32, buffer: *const u8, len: usize) -> u64 {
        if self.refuses_regions || !self.has_regions() {
            return 0;
        }
        let old = self.exposed.get(peer as usize).and_then(|to| to.get(slot as usize)).map_or(0, |old| old.1);
        self.forget(old);
        let Some(own) = self.shared.regions.get(self.rank as usize) else { return 0 };
        // SYNC POINT: Relaxed, all of these: only this rank writes them, and who has a key has it by a packet.
        let free = own.iter().position(|region| region.address.load(Ordering::Relaxed) == 0);
        // The lowest that is free, as KNEM does.
        let Some((at, region)) = free.and_then(|at| Some((at, own.get(at)?))) else { return 0 };
        region.len.store(len.min(self.exposed_max) as u64, Ordering::Relaxed);
        region.address.store(buffer as u64, Ordering::Relaxed);
        let key = u64::from(self.rank) << 32 | (at as u64).wrapping_add(1);
        if let Some(exposed) = self.exposed.get_mut(peer as usize).and_then(|to| to.get_mut(slot as usize)) {
            *exposed = (ticket, key);
        }
        key
    }

    fn conceal(&mut self, peer: u32, slot: u32, ticket: u32) {
        let exposed = self.exposed.get_mut(peer as usize).and_then(|to| to.get_mut(slot as usize));
        if let Some(exposed) = exposed.filter(|exposed| exposed.0 == ticket && exposed.1 != 0) {
            let key = core::mem::take(&mut exposed.1);
            self.forget(key);
        }
    }

    unsafe fn pull_exposed(&mut self, peer: u32, key: u64, offset: u64, to: *mut u8, len: usize) -> bool {
        let Some(region) = self.region(key) else { return false };
        let (address, whole) = (region.address.load(Ordering::Relaxed), region.len.load(Ordering::Relaxed));
        let is_there = offset.checked_add(len as u64).is_some_and(|end| end <= whole);
        // SAFETY: the caller vouches for `to`, and who has exposed the other end for that.
        address != 0
            && is_there
            && unsafe { self.pull(peer, Reach::Region, address.wrapping_add(offset), to, len) }
    }

    fn has_pipe_to(&self, peer: u32) -> bool {
        self.shared.pipe(self.rank, peer).is_some()
    }

    fn has_pipe_from(&self, peer: u32) -> bool {
        self.shared.pipe(peer, self.rank).is_some()
    }

    unsafe fn put_pages(&mut self, peer: u32, from: *const u8, len: usize) -> Piped {
        if matches!(self.peer_state(peer), PeerState::Finalized | PeerState::Dead) {
            return Piped::Gone;
        }
        let shared = &self.shared;
        let pipe = shared.pipe(self.rank, peer).filter(|_| !self.refuses_pages);
        let (Some(lane), Some(pipe)) = (shared.ring(self.rank, peer, Class::Bulk), pipe) else {
            return Piped::Refused;
        };
        // SAFETY: the caller vouches for the buffer; only this endpoint, which is borrowed mutably, puts into this pipe.
        let put = |pipe: &Pipe| unsafe { pipe.put(from, len) };
        if !lane.is_full()
            && let Some(bytes) = put(pipe)
        {
            return Piped::Bytes(bytes);
        }
        if let Some([.., bulk]) = self.starved.get_mut(peer as usize) {
            *bulk = true;
        }
        lane.starve();
        Piped::Full
    }

    unsafe fn read_pages(&mut self, peer: u32, to: *mut u8, len: usize) -> bool {
        let Some(read) = self.read.get_mut(peer as usize) else { return false };
        let Some(pipe) = self.shared.pipe(peer, self.rank) else { return false };
        // SAFETY: the caller vouches for the buffer; only this endpoint, which is borrowed mutably, reads from this pipe.
        unsafe { pipe.read(read, to, len) }
    }

    fn is_committed(&self, peer: u32) -> bool {
        if let Some(meanwhile) = self.meanwhile {
            meanwhile();
        }
        self.committed.get(peer as usize).copied().unwrap_or(false)
    }

    fn is_waiting(&self, peer: u32) -> bool {
        self.waiting.get(peer as usize).copied().unwrap_or(false)
    }

    fn has_waiter(&self, peer: u32) -> bool {
        self.is_waiting(peer) && !self.attending.contains(&peer)
    }
}
