//! The command's allocator: the system's, which counts what is held from when somebody wants to know. What the C library says of its heap counts what threads
//! keep for later as held, too, and of hundreds of threads that is more than what they hold.

use std::alloc::{GlobalAlloc, Layout, System};

use tocsin_sync::atomic::Ordering;
use tocsin_sync::atomic::real::{AtomicBool, AtomicI64};

static COUNTS: AtomicBool = AtomicBool::new(false);
/// Bytes that were allocated since, less those that were freed.
static HELD: AtomicI64 = AtomicI64::new(0);
/// The program has this allocator.
static THERE: AtomicBool = AtomicBool::new(false);

/// Passes to the system's.
#[derive(Debug)]
pub struct Counted;

impl Counted {
    /// Counts from now on.
    pub fn begin() {
        // SYNC POINT: Relaxed: a switch; what other threads do meanwhile may count or not.
        COUNTS.store(true, Ordering::Relaxed);
        // What tells whether it is counted here.
        drop(std::hint::black_box(Box::new(0u8)));
    }

    /// Bytes that are held more than at the beginning; `None` where nobody counts.
    pub fn held() -> Option<i64> {
        // SYNC POINT: Relaxed, both: the threads that changed them have met the reader at a barrier.
        THERE.load(Ordering::Relaxed).then(|| HELD.load(Ordering::Relaxed))
    }
}

/// Takes note of bytes that somebody holds now, or does no longer.
fn note(more: usize, less: usize) {
    // SYNC POINT: Relaxed: as in `begin`.
    if COUNTS.load(Ordering::Relaxed) {
        // SYNC POINT: Relaxed: always the same; who asks is behind a `begin`.
        THERE.store(true, Ordering::Relaxed);
        // SYNC POINT: Relaxed: a sum, in any order.
        HELD.fetch_add(more as i64 - less as i64, Ordering::Relaxed);
    }
}

/// Takes note of what was asked for, unless it was refused.
fn taken(block: *mut u8, more: usize, less: usize) -> *mut u8 {
    if !block.is_null() {
        note(more, less);
    }
    block
}

// SAFETY: every method passes its arguments, whose obligations the caller has met, to the system's allocator unchanged, and returns its answer.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's obligations, passed on.
        taken(unsafe { System.alloc(layout) }, layout.size(), 0)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(0, layout.size());
        // SAFETY: the caller's obligations, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's obligations, passed on.
        taken(unsafe { System.alloc_zeroed(layout) }, layout.size(), 0)
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's obligations, passed on.
        taken(unsafe { System.realloc(pointer, layout, new_size) }, new_size, layout.size())
    }
}
