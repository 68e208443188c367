//! A child of fork() has neither its parent's receivers nor its table of senders.

use std::sync::Once;
use tocsin_sync::atomic::real::{AtomicU64, Ordering};

static GENERATION: AtomicU64 = AtomicU64::new(0);

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    // The one thread of the child is no receiver.
    // SAFETY: null.
    unsafe { crate::thread::set(core::ptr::null()) };
}

/// Which process this is, as far as fork() goes. Wait-free; handlers may call it.
#[inline(always)]
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// Has [`generation`] change in children from now on.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: `in_child` only touches an atomic and a thread-local word. If the C library refuses (no memory), a child that rings its
        // parent's senders faults.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}
