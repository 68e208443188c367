//! Which thread is this, is it interruptible, and is it inside a handler?
//!
//! # Implementation details
//! Thread-local storage is not async-signal-safe in general (a lazily allocated block may call malloc at
//! its first use, from a handler). So the answers live in a static table keyed by the thread pointer, which
//! is one instruction to read and unique among live threads.
//!
//! The table is open-addressed. An entry lies at most `DEEPEST` places behind its home; that
//! distance only grows and is raised before the entry appears, so that a look-up is a bounded number of
//! loads (1 in practice) and needs no tombstones. An entry is claimed by a compare-and-swap to `RESERVED`,
//! filled, and only then given its key: a handler on the registering thread finds nothing or all of it.

use crate::atomic::compiler_fence;
use crate::atomic::real::{AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use core::marker::PhantomData;

/// Threads that may be registered at a time.
pub const CAPACITY: usize = 4096;
/// An entry further than this from its home counts as "table full".
const MAX_PROBE: usize = 256;
const FREE: usize = 0;
/// No thread pointer is 1: it is the aligned address of a control block.
const RESERVED: usize = 1;

struct Entry {
    key: AtomicUsize,
    context: AtomicPtr<()>,
    depth: AtomicU32,
}

static TABLE: [Entry; CAPACITY] = [const {
    Entry {
        key: AtomicUsize::new(FREE),
        context: AtomicPtr::new(core::ptr::null_mut()),
        depth: AtomicU32::new(0),
    }
}; CAPACITY];

/// The largest distance from home that any entry ever had.
static DEEPEST: AtomicUsize = AtomicUsize::new(0);

/// 0 until `pthread_atfork` was called; then 1.
static FORK_WATCH: AtomicI32 = AtomicI32::new(0);

/// The thread pointer: `fs:0` on x86-64, `tpidr_el0` on aarch64. Unique among live threads, never 0 or 1.
///
/// Progress class: wait-free, one instruction. Handlers may call it.
#[inline]
pub fn pointer() -> usize {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let pointer: usize;
        // SAFETY: on x86-64 Linux the ABI keeps the thread control block's own address at fs:0.
        unsafe {
            core::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly, pure));
        }
        pointer
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let pointer: usize;
        // SAFETY: reading the user thread register has no effect beside its result.
        unsafe {
            core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, preserves_flags, pure));
        }
        pointer
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    {
        // errno's address is as unique as the thread, and the C library hands it out in handlers too.
        // SAFETY: the function has no precondition.
        unsafe { libc::__errno_location() as usize }
    }
}

/// The number of the core that this thread runs on, at this moment: by the time the caller looks at it, it may run on another. 0 if the system does
/// not say.
///
/// Wait-free; not for handlers: the C library reads it from thread-local storage, or asks the vDSO or the kernel.
#[inline]
pub fn core() -> u32 {
    // SAFETY: no precondition.
    u32::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

#[inline]
fn home(key: usize) -> usize {
    // Control blocks are page-ish aligned with few distinct low bits: multiplicative hash, top 12 bits.
    ((key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52) as usize & (CAPACITY - 1)
}

#[inline]
fn place(home: usize, distance: usize) -> &'static Entry {
    // The mask keeps the index inside, so the compiler drops the bounds check: no panic in handlers.
    &TABLE[home.wrapping_add(distance) & (CAPACITY - 1)]
}

#[inline]
fn find(key: usize) -> Option<&'static Entry> {
    let start = home(key);
    let first = place(start, 0);
    // Only the thread itself looks for its key, so what it wrote is what it sees: Relaxed.
    if first.key.load(Ordering::Relaxed) == key { Some(first) } else { find_behind(start, key) }
}

#[cold]
fn find_behind(start: usize, key: usize) -> Option<&'static Entry> {
    let deepest = DEEPEST.load(Ordering::Relaxed);
    let mut distance = 1;
    while distance <= deepest {
        let entry = place(start, distance);
        if entry.key.load(Ordering::Relaxed) == key {
            return Some(entry);
        }
        distance = distance.wrapping_add(1);
    }
    None
}

/// The table has no place for one more thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableFull;

impl core::fmt::Display for TableFull {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "too many interruptible threads in this process (at most {CAPACITY}), or this thread is one already"
        )
    }
}

impl std::error::Error for TableFull {}

/// The calling thread's entry; dropping it removes the entry. Stays on its thread.
#[derive(Debug)]
#[must_use = "dropping it removes the thread from the table"]
pub struct Registration {
    key: usize,
    _not_send: PhantomData<*const ()>,
}

/// Enters the calling thread with a context that its handlers will find.
///
/// # Errors
/// [`TableFull`] when there is no place, or when the thread is registered already (one per thread).
///
/// Progress class: lock-free. Not from a handler.
pub fn register(context: *const ()) -> Result<Registration, TableFull> {
    watch_forks();
    let key = pointer();
    if find(key).is_some() {
        return Err(TableFull);
    }
    let start = home(key);
    for distance in 0..MAX_PROBE {
        let entry = place(start, distance);
        if entry.key.load(Ordering::Relaxed) != FREE {
            continue;
        }
        // SYNC POINT: Acquire pairs with the Release in `Registration::drop` of the entry's last owner, so
        // that its last store to the entry is not reordered after ours.
        if entry.key.compare_exchange(FREE, RESERVED, Ordering::Acquire, Ordering::Relaxed).is_err() {
            continue;
        }
        entry.context.store(context.cast_mut(), Ordering::Relaxed);
        entry.depth.store(0, Ordering::Relaxed);
        DEEPEST.fetch_max(distance, Ordering::Relaxed);
        // A handler of this very thread sees the key only after everything above.
        compiler_fence(Ordering::Release);
        entry.key.store(key, Ordering::Release);
        return Ok(Registration { key, _not_send: PhantomData });
    }
    Err(TableFull)
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Absent in a fork()ed child, whose table was cleared.
        if let Some(entry) = find(self.key) {
            // SYNC POINT: Release, see `register`.
            entry.key.store(FREE, Ordering::Release);
        }
    }
}

/// The context the calling thread registered; null when it did not.
///
/// Progress class: wait-free, at most `deepest + 1` loads (below 257). Handlers may call it.
#[inline]
pub fn context() -> *const () {
    match find(pointer()) {
        Some(entry) => entry.context.load(Ordering::Relaxed),
        None => core::ptr::null(),
    }
}

/// Whether the calling thread is inside a [`HandlerScope`]. False for a thread that is not registered.
///
/// Progress class and bound as [`context`]. Handlers may call it.
#[inline]
pub fn in_handler() -> bool {
    depth() > 0
}

/// Whether the calling thread is outside handlers, as far as one look can tell, which mostly can. False: [`in_handler`] knows.
///
/// Progress class: wait-free, four loads. Handlers may call it.
#[inline(always)]
pub fn is_seen_outside_handlers() -> bool {
    let key = pointer();
    let entry = place(home(key), 0);
    let found = entry.key.load(Ordering::Relaxed);
    if found == key {
        entry.depth.load(Ordering::Relaxed) == 0
    } else {
        // Registered nowhere else either.
        found == FREE && DEEPEST.load(Ordering::Relaxed) == 0
    }
}

/// How many [`HandlerScope`]s of the calling thread are open. 0 for a thread that is not registered.
///
/// Progress class and bound as [`context`]. Handlers may call it.
#[inline]
pub fn depth() -> u32 {
    match find(pointer()) {
        Some(entry) => entry.depth.load(Ordering::Relaxed),
        None => 0,
    }
}

/// Marks the calling thread as being inside a handler for as long as it lives. Nests. A no-op on a thread
/// that is not registered.
///
/// Progress class and bound as [`context`]. For handlers.
#[must_use = "the scope ends when this is dropped"]
pub struct HandlerScope {
    entry: Option<&'static Entry>,
    depth: u32,
    _not_send: PhantomData<*const ()>,
}

impl HandlerScope {
    /// Opens a scope.
    #[inline]
    pub fn enter() -> HandlerScope {
        let entry = find(pointer());
        let mut depth = 0;
        if let Some(entry) = entry {
            // Load and store, no read-modify-write: only this thread writes, and a handler that comes in
            // between leaves the value as it found it.
            depth = entry.depth.load(Ordering::Relaxed).wrapping_add(1);
            entry.depth.store(depth, Ordering::Relaxed);
        }
        compiler_fence(Ordering::SeqCst);
        HandlerScope { entry, depth, _not_send: PhantomData }
    }

    /// 1 for the outermost scope, more when this one interrupted another; 0 on an unregistered thread.
    #[inline]
    pub fn depth(&self) -> u32 {
        self.depth
    }
}

impl Drop for HandlerScope {
    #[inline]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        if let Some(entry) = self.entry {
            entry.depth.store(self.depth.wrapping_sub(1), Ordering::Relaxed);
        }
    }
}

/// A child of fork() has one thread, and it is not a rank of its parent's world: its table starts empty.
/// (New threads of the child may get the thread pointers of threads that stayed behind.)
extern "C" fn forget_all() {
    for entry in &TABLE {
        entry.key.store(FREE, Ordering::Relaxed);
        entry.depth.store(0, Ordering::Relaxed);
    }
}

fn watch_forks() {
    if cfg!(miri) || FORK_WATCH.swap(1, Ordering::Relaxed) != 0 {
        return;
    }
    // SAFETY: `forget_all` stores to atomics only, which any forked child may do. A refusal (no memory)
    // leaves the child's table as it was, which only a child that starts ranks of its own would notice.
    unsafe { libc::pthread_atfork(None, None, Some(forget_all)) };
}

#[cfg(test)]
mod tests;
