//! What the endpoints of a world share, and how a world of them is made.

use std::sync::{Arc, OnceLock};

use tocsin_sync::atomic::{AtomicBool, AtomicU8, AtomicU64};

use super::pipe::Pipe;
use super::ring::Ring;
use super::{ALIVE, Loopback};
use crate::transfer::RECORDS;
use crate::{Capabilities, Class, Publication, Reach, Record};

/// Capacities of a fabric.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Packets per lane, by [`Class::index`]; at least 1.
    pub packets: [u32; 4],
    /// Longest payload in bytes, by [`Class::index`].
    pub max_payload: [usize; 4],
}

impl Default for Limits {
    fn default() -> Self {
        Limits { packets: [32, 32, 64, 2], max_payload: [16384, 65536, 16, 65536] }
    }
}

/// A buffer that is exposed; of none, the address is 0.
#[derive(Debug, Default)]
pub(super) struct Region {
    pub(super) address: AtomicU64,
    pub(super) len: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) size: u32,
    pub(super) limits: Limits,
    pub(super) states: Vec<AtomicU8>,
    pub(super) epoch: AtomicU64,
    /// Bit 32 set: aborted with the code in the low 32 bits.
    pub(super) abort: AtomicU64,
    /// Per ordered pair (from * size + to): Eager, Coll, Control; and Bulk.
    pub(super) lanes: Vec<OnceLock<[Ring; 3]>>,
    pub(super) bulk: Vec<OnceLock<Ring>>,
    /// Transfers by single copies, per ordered pair; all ranks are in one address space.
    pub(super) records: Vec<OnceLock<(Box<[Record]>, Publication)>>,
    /// What each rank may expose at a time.
    pub(super) regions: Vec<Box<[Region]>>,
    /// Of every pair.
    pub(super) reach: Reach,
    /// See [`is_shared`].
    pub(super) shares: bool,
    /// Pipes, per ordered pair, of so many pieces; made with Bulk.
    pub(super) pipes: Vec<OnceLock<Pipe>>,
    pub(super) pieces: u32,
    /// Set once by connect, both directions.
    pub(super) joined: Vec<AtomicBool>,
    /// The receivers of these pairs copy out what comes.
    pub(super) awaited: Vec<AtomicU8>,
}

impl Shared {
    pub(super) fn pair(&self, from: u32, to: u32) -> usize {
        from as usize * self.size as usize + to as usize
    }

    pub(super) fn ring(&self, from: u32, to: u32, class: Class) -> Option<&Ring> {
        if from >= self.size || to >= self.size {
            return None;
        }
        let pair = self.pair(from, to);
        match class {
            Class::Bulk => self.bulk.get(pair)?.get(),
            _ => self.lanes.get(pair)?.get()?.get(class.index()),
        }
    }

    pub(super) fn pipe(&self, from: u32, to: u32) -> Option<&Pipe> {
        if from >= self.size || to >= self.size { None } else { self.pipes.get(self.pair(from, to))?.get() }
    }

    pub(super) fn new_ring(&self, class: Class) -> Ring {
        let i = class.index();
        Ring::new(self.limits.packets[i], self.limits.max_payload[i])
    }
}

/// `n` endpoints that reach each other, all alive, with default capacities.
pub fn fabric(n: u32) -> Vec<Loopback> {
    fabric_with(n, Limits::default())
}

/// `n` endpoints with the given capacities.
pub fn fabric_with(n: u32, limits: Limits) -> Vec<Loopback> {
    build(n, limits, Reach::None, false, 0)
}

/// `n` endpoints with the given capacities, whose ranks have pipes to each other, for at least so many pieces of pages; a piece is not put in whole if it
/// is longer than three quarters of the longest payload of the Bulk lane.
pub fn fabric_with_pages(n: u32, limits: Limits, pieces: u32) -> Vec<Loopback> {
    build(n, limits, Reach::None, false, pieces)
}

/// `n` endpoints with the given capacities, whose ranks reach each other's buffers as it says, but where [`is_shared`] says that they share
/// them.
pub fn fabric_with_shared_buffers(n: u32, limits: Limits, reach: Reach) -> Vec<Loopback> {
    build(n, limits, reach, true, 0)
}

/// Whether a buffer is one that ranks share: about every second one, wherever it was allocated.
pub fn is_shared(address: u64) -> bool {
    (address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 != 0
}

/// `n` endpoints with the given capacities, whose ranks reach each other's buffers as it says.
pub fn fabric_with_single_copies(n: u32, limits: Limits, reach: Reach) -> Vec<Loopback> {
    build(n, limits, reach, false, 0)
}

fn build(n: u32, limits: Limits, reach: Reach, shares: bool, pieces: u32) -> Vec<Loopback> {
    let pairs = n as usize * n as usize;
    let shared = Arc::new(Shared {
        size: n,
        limits,
        states: (0..n).map(|_| AtomicU8::new(ALIVE)).collect(),
        epoch: AtomicU64::new(1),
        abort: AtomicU64::new(0),
        lanes: (0..pairs).map(|_| OnceLock::new()).collect(),
        bulk: (0..pairs).map(|_| OnceLock::new()).collect(),
        records: (0..pairs).map(|_| OnceLock::new()).collect(),
        regions: (0..n).map(|_| (0..n * RECORDS).map(|_| Region::default()).collect()).collect(),
        reach,
        shares,
        pipes: (0..pairs).map(|_| OnceLock::new()).collect(),
        pieces,
        joined: (0..pairs).map(|_| AtomicBool::new(false)).collect(),
        awaited: (0..pairs).map(|_| AtomicU8::new(0)).collect(),
    });
    (0..n)
        .map(|rank| Loopback {
            rank,
            capabilities: Capabilities::new(true, true, limits.max_payload),
            connected: Vec::with_capacity(n as usize),
            dirty: vec![false; n as usize],
            rings: vec![0; n as usize],
            starved: vec![[false; 4]; n as usize],
            attending: Vec::new(),
            waiting: vec![false; n as usize],
            committed: vec![false; n as usize],
            meanwhile: None,
            read: vec![0; n as usize],
            refuses_pages: false,
            exposed_max: usize::MAX,
            refuses_regions: false,
            reach,
            exposed: vec![[(0, 0); RECORDS as usize]; n as usize],
            copies: 0,
            comes: None,
            come: AtomicU64::new(0),
            ahead: Vec::with_capacity(limits.max_payload[Class::Bulk.index()]),
            sent_ahead: 0,
            seen_epoch: 1,
            shared: shared.clone(),
        })
        .collect()
}
