//! What the trampoline needs to know of its thread, and how it finds it.
//!
//! # Implementation details
//! A delivery may come between any two instructions, so what it looks up must neither lock nor allocate, nor be
//! built at first use: one thread-local word, declared in assembly with the initial-exec model. It is read by two
//! loads, in executables (dynamic and static) and in libraries alike.

use core::arch::{asm, global_asm};
use core::cell::Cell;
use core::ffi::c_void;

global_asm!(
    ".pushsection .tbss.tocsin_uintr_thread,\"awT\",@nobits",
    ".globl tocsin_uintr_thread",
    ".hidden tocsin_uintr_thread",
    ".type tocsin_uintr_thread,@object",
    ".size tocsin_uintr_thread,8",
    ".p2align 3",
    "tocsin_uintr_thread:",
    ".zero 8",
    ".popsection",
);

/// Everything here belongs to one thread and its handlers.
#[repr(C)]
pub(crate) struct Thread {
    /// The end of the handler's own stack; 0: it has none.
    pub(crate) own_top: Cell<usize>,
    pub(crate) own_low: Cell<usize>,
    pub(crate) own_size: Cell<usize>,
    /// Where the thread's ordinary stack lies.
    pub(crate) ordinary_low: Cell<usize>,
    pub(crate) ordinary_size: Cell<usize>,
    /// Where the kernel's alternate stack lies, if the receiver has one: the CPU puts frames there.
    pub(crate) pad_low: Cell<usize>,
    pub(crate) pad_size: Cell<usize>,
    /// Extended state to save, as XSAVEC wants it, and its size.
    pub(crate) mask: Cell<u64>,
    pub(crate) area: Cell<usize>,
    /// The default control and status word of SSE.
    pub(crate) mxcsr: Cell<u64>,
    /// Where the trampoline lies.
    pub(crate) entry: Cell<usize>,
    pub(crate) entry_size: Cell<usize>,
    /// A handler has moved to its own stack and not come back.
    pub(crate) busy: Cell<u64>,
    pub(crate) handler: Cell<crate::Handler>,
    pub(crate) context: Cell<*const c_void>,
    /// The thread's restartable-sequences area; null: the C library registered none.
    pub(crate) rseq: Cell<*mut crate::rseq::Area>,
    /// Restartable sequences that its handlers have interrupted.
    pub(crate) known: crate::rseq::Known,
    /// Which receiver this is, of all that the process ever had. Never 0.
    pub(crate) serial: Cell<u64>,
    /// Guards that mask, and what the outermost one found.
    pub(crate) masked: Cell<u32>,
    pub(crate) was_unmasked: Cell<bool>,
    /// Handler runs.
    pub(crate) runs: Cell<u64>,
    /// Interrupted restartable sequences that were sent to their abort addresses.
    pub(crate) aborted: Cell<u64>,
    pub(crate) forgotten: Cell<u64>,
    /// Times that a flag left clear was found and set.
    pub(crate) healed: Cell<u64>,
}

/// The calling thread's; `None` when it has no receiver. Wait-free; handlers may call it.
#[inline(always)]
pub(crate) fn current() -> Option<&'static Thread> {
    let thread: *const Thread;
    // SAFETY: the symbol is the word above; the two loads read it for the calling thread.
    unsafe {
        asm!(
            "mov {t}, qword ptr [rip + tocsin_uintr_thread@GOTTPOFF]",
            "mov {t}, qword ptr fs:[{t}]",
            t = out(reg) thread,
            options(nostack, preserves_flags, readonly),
        );
    }
    // SAFETY: null, or what `set` was given: valid while it is set, on this thread alone. Callers keep the reference
    // for one call of theirs, and only a receiver's install and drop, which no handler calls, change it.
    unsafe { thread.as_ref() }
}

/// Sets what [`current`] gives on the calling thread.
///
/// # Safety
/// Null, or valid until it is set anew.
pub(crate) unsafe fn set(thread: *const Thread) {
    // SAFETY: the symbol is the word above; the store writes it for the calling thread.
    unsafe {
        asm!(
            "mov {t}, qword ptr [rip + tocsin_uintr_thread@GOTTPOFF]",
            "mov qword ptr fs:[{t}], {v}",
            t = out(reg) _,
            v = in(reg) thread,
            options(nostack, preserves_flags),
        );
    }
}

/// The stack pointer of whoever calls.
#[inline(always)]
pub(crate) fn stack_pointer() -> usize {
    let rsp: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) rsp, options(nomem, nostack, preserves_flags)) };
    rsp
}
