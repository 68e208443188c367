//! The one place atomics come from: std's, or a model checker's: loom's under `--cfg loom`, shuttle's under
//! `--cfg loom --cfg shuttle`.
//!
//! Protocols are written with *fences* rather than with `SeqCst` accesses, because loom models the former
//! and not the latter.
//!
//! std's types stand behind transparent wrappers, because clippy's `disallowed_types`, which bans them
//! elsewhere, sees through re-exports. The wrappers have the methods that tocsin uses, under their names,
//! with their meaning: see `core::sync::atomic` for it.

/// Atomics that loom never replaces: for `static`s (loom's have no `const fn new`) and for state whose
/// other party is the kernel.
pub mod real;

#[cfg(not(loom))]
pub use real::{
    AtomicBool, AtomicI32, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
    Ordering, fence, fence_after_rmw,
};

#[cfg(loom)]
pub use crate::model::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
    Ordering, fence,
};

/// See the real one.
#[cfg(loom)]
#[inline]
pub fn fence_after_rmw() {
    fence(Ordering::SeqCst);
}

/// Orders this thread's accesses against those of a handler on the same thread. Costs no instruction.
///
/// Progress class: wait-free. Handlers may call it.
pub use core::sync::atomic::compiler_fence;

/// Between two looks at a cache line that another core is about to write: the next look is begun when the last is over, and what is behind it then. Else
/// tens of looks are under way at a time, which the write has to be told from; and a core that runs two threads runs the other one meanwhile. Unlike
/// [`spin_loop`], it takes no time of its own, in which the write would not be seen.
///
/// Progress class: wait-free, one instruction. Never in a handler all the same.
#[inline(always)]
pub fn look_again() {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    // SAFETY: SSE2, which the instruction is of, is there on all of x86-64; it only waits for earlier loads.
    unsafe {
        core::arch::asm!("lfence", options(nostack, preserves_flags))
    };
    #[cfg(not(all(target_arch = "x86_64", not(loom), not(miri))))]
    spin_loop();
}

/// Tells the CPU that this is a spin loop (in a model: lets another thread run).
///
/// Progress class: wait-free. Never in a handler all the same: handlers do not spin.
#[inline]
pub fn spin_loop() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
    #[cfg(loom)]
    crate::model::thread::yield_now();
}
