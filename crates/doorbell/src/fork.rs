//! A child of fork() is not a rank.
//!
//! It inherits copies of its parent's private memory and the very shared memory: if it rang, polled or ran
//! the engine as if it were its parent, it would corrupt the parent's lanes. So a child of a process that
//! has receivers is *disowned*: its rings do nothing ([`crate::RingOutcome::Gone`]), its [`crate::Own`]
//! changes nothing, signals that reach it run nothing. The parent's descriptor goes on naming the parent.
//! A child that installs a receiver of its own, or says [`participate`], is a participant in its own right.
//!
//! `vfork` and `posix_spawn` children share their parent's memory and only call `exec`: nothing to do.

use tocsin_sync::atomic::real::{AtomicBool, AtomicU32, AtomicU64, Ordering};

static DISOWNED: AtomicBool = AtomicBool::new(false);
static WATCHED: AtomicBool = AtomicBool::new(false);
/// Receivers installed in this process.
static RECEIVERS: AtomicU32 = AtomicU32::new(0);

/// Whether this process is a child of fork() whose parent had receivers. One load; handlers may call it.
#[inline]
pub fn disowned() -> bool {
    DISOWNED.load(Ordering::Relaxed)
}

/// Says that this process, though forked from one that had receivers, rings on its own behalf with
/// descriptors and marks of its own. Installing a [`crate::Receiver`] says it, too.
pub fn participate() {
    DISOWNED.store(false, Ordering::Relaxed);
}

/// Grows in each child.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Which process this is, as far as fork() goes.
#[cfg_attr(not(all(target_arch = "x86_64", not(miri), not(loom))), allow(dead_code))]
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    crate::uintr::in_child();
    // Counted in the parent: those threads do not exist here.
    if RECEIVERS.swap(0, Ordering::Relaxed) > 0 {
        DISOWNED.store(true, Ordering::Relaxed);
    }
}

/// Has children noticed from now on.
pub(crate) fn watch() {
    if !WATCHED.swap(true, Ordering::Relaxed) && cfg!(not(miri)) {
        // SAFETY: `in_child` only touches atomics, which any forked child may do. If the C library refuses
        // (no memory), children go unnoticed, which only matters if they use tocsin against its rules.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    }
}

/// One more receiver.
pub(crate) fn installed() {
    watch();
    RECEIVERS.fetch_add(1, Ordering::Relaxed);
    participate();
}

/// One receiver less, in the process that installed it.
pub(crate) fn removed() {
    RECEIVERS.fetch_sub(1, Ordering::Relaxed);
}
