//! What every layer of tocsin stands on: the atomics switch, the handler flag, the clock, errno.
//!
//! | module | for |
//! |---|---|
//! | [`atomic`], [`cell`] | std's types, or a model checker's; every other crate takes its atomics from here |
//! | [`thread`] | which thread is this, is it interruptible, is it inside a handler |
//! | [`clock`], [`errno`], [`fpenv`] | what a handler needs to leave the interrupted code as it was |
//! | [`mod@slice`] | a short time slice, for who sleeps where ranks share cores |
//! | [`affinity`] | moving a thread to another core, where ranks share cores |
//! | [`signals`] | which signals come to a thread |
//! | [`sparse`] | memory that costs nothing until it is written |
//! | [`tripwire`] | an allocator for tests that aborts when a handler allocates |
//!
//! Everything here but [`thread::register`] (and the drop of its guard), the constructors of [`sparse`] (and its drops), [`signals::Blocked`], [`signals::block_for_good`], [`affinity`] and
//! [`mod@slice`] may be called from a handler.

// `unsafe` is allowed one module at a time, so that the files to review are a list one can grep.
#![deny(unsafe_code)]

#[allow(unsafe_code)] // sched_getaffinity, sched_setaffinity
pub mod affinity;
#[allow(unsafe_code)] // a fence's instruction
pub mod atomic;
#[allow(unsafe_code)] // UnsafeCell's accessors
pub mod cell;
#[allow(unsafe_code)] // clock_gettime
pub mod clock;
#[allow(unsafe_code)] // errno is a thread-local lvalue behind a C function
pub mod errno;
#[allow(unsafe_code)] // control registers
pub mod fpenv;
/// The model checker of this build, whose threads and locks a model uses: loom, or with `--cfg shuttle`
/// besides, shuttle. Loom tries every order of few threads, and weak memory; shuttle tries random orders of
/// many, with sequentially consistent memory.
#[cfg(all(loom, not(shuttle)))]
pub use loom as model;
#[cfg(all(loom, shuttle))]
pub use shuttle as model;
#[allow(unsafe_code)] // pthread_sigmask
pub mod signals;
#[allow(unsafe_code)] // sched_getattr, sched_setattr
pub mod slice;
#[allow(unsafe_code)] // mmap
pub mod sparse;
#[allow(unsafe_code)] // thread pointer, pthread_atfork
pub mod thread;
#[allow(unsafe_code)] // GlobalAlloc
pub mod tripwire;

/// Fetches a cache line, to be written soon, from the cores that have it. A hint: nothing is read or written.
///
/// Progress class: wait-free, one instruction. Handlers may call it.
#[inline(always)]
#[allow(unsafe_code)] // an instruction
pub fn prefetch_for_write<T>(line: *const T) {
    // SAFETY: a prefetch touches no memory as far as the program can tell, and faults nowhere, whatever the address.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly))
    };
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = line;
}

/// Fetches a cache line, to be read soon, from the core that has written it. A hint: nothing is read or written.
///
/// Progress class: wait-free, one instruction. Handlers may call it.
#[inline(always)]
#[allow(unsafe_code)] // an instruction
pub fn prefetch_for_read<T>(line: *const T) {
    // SAFETY: as `prefetch_for_write`.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        core::arch::asm!("prefetcht0 [{}]", in(reg) line, options(nostack, preserves_flags, readonly))
    };
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = line;
}

/// A type whose shared methods may be called from a handler that interrupted any of its other methods
/// on the same thread.
///
/// `Send + Sync` says nothing of handlers: a `Mutex` is both, and deadlocks when a handler locks what the
/// interrupted code holds. Code reachable from a handler demands this bound instead.
///
/// # Safety
/// The implementer promises that every method callable through a shared reference, unless its
/// documentation says that handlers may not call it,
/// - does not wait for the interrupted thread, allocate, free, lock or panic,
/// - is correct when it runs between any two instructions of any other of these methods.
#[allow(unsafe_code)] // declaring the trait
pub unsafe trait HandlerSafe {}
