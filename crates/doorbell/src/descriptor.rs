//! The two things that live in shared memory.

use crate::attention::Attention;
use crate::place::Place;
use tocsin_sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A thread's doorbell, in shared memory, one per rank.
///
/// All bytes zero is a valid descriptor: nobody there yet. It may be mapped at different addresses by
/// different processes. Whatever a ringer reads from it is checked before it is used: a descriptor full of
/// nonsense can make a ring useless, never unsound, and never more than one of the signals a rank may use.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Descriptor {
    /// Posted vectors: one bit each, set by ringers, taken by the owner.
    pub(crate) pir: AtomicU64,
    /// See [`Attention`].
    pub(crate) attention: AtomicU64,
    /// Sleepers wait for this to change.
    pub(crate) wake_seq: AtomicU32,
    /// A [`crate::BackendKind`] as a number.
    pub(crate) backend: AtomicU32,
    /// The process of the interruptible thread.
    pub(crate) pid: AtomicU32,
    /// The signal it takes rings by.
    pub(crate) signal: AtomicU32,
    /// Signals sent so far: lets the handler tell a ring whose vectors were already taken by a poller from
    /// a signal that was none of ours.
    pub(crate) rung: AtomicU32,
    /// The number plus 1 of the file descriptor that stands for the hardware's vector, in the owner's process.
    pub(crate) vector_fd: AtomicU32,
    /// Which installation this is, for whoever is connected to one.
    pub(crate) serial: AtomicU64,
    /// See [`crate::computing`].
    pub(crate) computing: AtomicU64,
    /// How many of those who look do so for a moment, before they ring: a hint.
    pub(crate) brief: AtomicU32,
    /// See [`crate::place`].
    pub(crate) place: Place,
    /// What the kernel would know about the thread.
    #[cfg(loom)]
    pub(crate) kernel: crate::sys::Kernel,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Descriptor>() == 128 && align_of::<Descriptor>() == 128);

impl Default for Descriptor {
    fn default() -> Self {
        Self::new()
    }
}

impl Descriptor {
    /// An empty descriptor: the same as zeroed memory.
    pub fn new() -> Self {
        Self {
            pir: AtomicU64::new(0),
            attention: AtomicU64::new(0),
            wake_seq: AtomicU32::new(0),
            backend: AtomicU32::new(0),
            pid: AtomicU32::new(0),
            signal: AtomicU32::new(0),
            rung: AtomicU32::new(0),
            vector_fd: AtomicU32::new(0),
            serial: AtomicU64::new(0),
            computing: AtomicU64::new(0),
            brief: AtomicU32::new(0),
            place: Place::new(),
            #[cfg(loom)]
            kernel: crate::sys::Kernel::new(),
        }
    }

    /// What the owner is doing right now. Wait-free; handlers may call it.
    #[inline]
    pub fn attention(&self) -> Attention {
        Attention(self.attention.load(Ordering::Acquire))
    }

    /// Whether a thread of the owner is in a wait: it sleeps, or looks by itself and not only for the moment before it rings. A hint. Wait-free: two loads;
    /// handlers may call it.
    #[inline]
    pub fn is_in_wait(&self) -> bool {
        let attention = self.attention();
        // SYNC POINT: Relaxed: a hint, read apart from the other word.
        attention.sleepers() > 0 || attention.pollers() > self.brief.load(Ordering::Relaxed)
    }

    /// The vectors that are posted and not yet taken. Wait-free; handlers may call it.
    #[inline]
    pub fn posted(&self) -> u64 {
        self.pir.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn rung(&self) -> u32 {
        self.rung.load(Ordering::Relaxed)
    }

    /// Which installation a connection must be to.
    #[cfg(any(loom, all(target_arch = "x86_64", not(miri))))]
    #[inline]
    pub(crate) fn serial(&self) -> u64 {
        self.serial.load(Ordering::Relaxed)
    }

    /// The process, and in it the file descriptor, that ringers connect by.
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    pub(crate) fn connection_point(&self) -> (u32, Option<i32>) {
        let fd = i32::try_from(self.vector_fd.load(Ordering::Relaxed)).ok().and_then(|fd| fd.checked_sub(1));
        (self.pid(), fd.filter(|&fd| fd >= 0))
    }

    /// The backend of the last installed receiver; `None` when there was none (or the word is nonsense).
    #[inline]
    pub fn backend(&self) -> Option<crate::BackendKind> {
        crate::BackendKind::from_number(self.backend.load(Ordering::Relaxed))
    }

    /// The process that owns the interruptible thread; 0 when there is none.
    #[inline]
    pub fn pid(&self) -> u32 {
        self.pid.load(Ordering::Relaxed)
    }
}

impl Descriptor {
    /// Names the thread that rings reach from now on.
    pub(crate) fn publish(
        &self,
        backend: crate::BackendKind,
        pid: u32,
        tid: u32,
        signal: u32,
        (serial, vector_fd): (u64, u32),
    ) -> Result<(), crate::Error> {
        self.pid.store(pid, Ordering::Relaxed);
        self.signal.store(signal, Ordering::Relaxed);
        self.vector_fd.store(vector_fd, Ordering::Relaxed);
        self.serial.store(serial, Ordering::Relaxed);
        self.backend.store(backend as u32, Ordering::Relaxed);
        // SYNC POINT: Release: who finds the thread id finds what is above.
        let named = self.attention.fetch_update(Ordering::Release, Ordering::Relaxed, |word| {
            (Attention(word).tid() == 0).then_some(word | u64::from(tid) << Attention::TID_SHIFT)
        });
        // SYNC POINT: pairs with the ringer's fence between its data and its look at the attention: the
        // owner's first look, after this, sees what was not announced.
        fence(Ordering::SeqCst);
        named.map(drop).map_err(|word| crate::Error::Taken(Attention(word).tid()))
    }

    /// Takes the name back, if it is still this one.
    pub(crate) fn unpublish(&self, pid: u32, tid: u32) {
        let named = self.attention().tid() == tid && self.pid.load(Ordering::Relaxed) == pid;
        if named {
            self.attention.fetch_and(Attention::LOW, Ordering::Release);
        }
    }
}

/// "I have rung, and you have not looked since": one word per ordered pair of ranks, in shared memory,
/// written by the ringing rank, cleared by the rung one. Zeroed memory is a clear mark.
///
/// Only [`ring`](crate::ring) and [`hold_back`](crate::hold_back) set it. The owner clears the marks of those it is about to look at, then
/// executes `fence(SeqCst)`, then looks.
#[repr(transparent)]
#[derive(Debug)]
pub struct Mark(pub(crate) AtomicU64);

impl Default for Mark {
    fn default() -> Self {
        Self::new()
    }
}

impl Mark {
    /// A clear mark.
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Clears the mark; whether it was set. A clear mark is only read, so that looking at idle peers moves
    /// no cache line. Wait-free (a load, a store); handlers may call it. `fence(SeqCst)` must follow before
    /// the look.
    #[inline]
    pub fn clear_if_set(&self) -> bool {
        // SYNC POINT: Relaxed, ordered before the look by the caller's fence(SeqCst). A ringer that sets the
        // mark anew between the load and the store has rung anyway, or holds a ring back for which this look will do: what is
        // lost is a suppression.
        let set = self.0.load(Ordering::Relaxed) != 0;
        if set {
            self.0.store(0, Ordering::Relaxed);
        }
        set
    }

    /// Whether the mark is set. Wait-free; handlers may call it.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }
}
