//! An allocator for tests: whoever allocates or frees inside a handler is caught at once.

use core::alloc::{GlobalAlloc, Layout};

/// Passes to `A`, unless the calling thread is inside a handler ([`crate::thread::in_handler`]): then it
/// writes one line to standard error with `write(2)` and aborts.
///
/// ```
/// # use tocsin_sync::tripwire::Tripwire;
/// #[global_allocator]
/// static ALLOCATOR: Tripwire<std::alloc::System> = Tripwire::new(std::alloc::System);
/// # fn main() {}
/// ```
#[derive(Debug, Default)]
pub struct Tripwire<A>(A);

impl<A> Tripwire<A> {
    /// Wraps an allocator.
    pub const fn new(inner: A) -> Self {
        Self(inner)
    }
}

#[cold]
fn caught(what: &[u8]) -> ! {
    // SAFETY: the pointer and length are those of a live byte slice; write(2) and abort(3) are
    // async-signal-safe. A failed write changes nothing: the abort follows.
    unsafe {
        libc::write(2, what.as_ptr().cast(), what.len());
        libc::abort()
    }
}

// SAFETY: every method either passes its arguments, whose obligations the caller has met, to `A`
// unchanged and returns its answer, or never returns.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Tripwire<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if crate::thread::in_handler() {
            caught(b"tripwire: allocation inside a handler\n");
        }
        // SAFETY: the caller's obligations, passed on.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if crate::thread::in_handler() {
            caught(b"tripwire: free inside a handler\n");
        }
        // SAFETY: the caller's obligations, passed on.
        unsafe { self.0.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if crate::thread::in_handler() {
            caught(b"tripwire: allocation inside a handler\n");
        }
        // SAFETY: the caller's obligations, passed on.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if crate::thread::in_handler() {
            caught(b"tripwire: reallocation inside a handler\n");
        }
        // SAFETY: the caller's obligations, passed on.
        unsafe { self.0.realloc(pointer, layout, new_size) }
    }
}
