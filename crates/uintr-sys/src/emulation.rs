//! User interrupts without the hardware, for tests: signals stand for notifications, and SIGILL for the instructions.
//!
//! A notification is a `SIGWINCH`, whose handler edits the interrupted context exactly as delivery would. The five
//! instructions raise SIGILL, whose handler does what they do. Descriptors (UPID) live in memfds, so that vectors'
//! descriptors pass between processes as the module's do: a vector is a file position in the receiver's memfd.
//!
//! What differs: it is slow, a notification interrupts system calls as signals do, code that blocks SIGILL dies of it,
//! and delivery is as late as signals are.

mod cpu;
mod kernel;

use std::sync::OnceLock;

/// What notifies: a signal that is ignored by default, so that a late one after exec harms nobody.
const NOTIFY: i32 = libc::SIGWINCH;

/// Has this process (and its children by fork) use the emulation: true, unless there is a real kernel interface.
pub fn start() -> bool {
    static STARTED: OnceLock<bool> = OnceLock::new();
    *STARTED.get_or_init(|| {
        if crate::kernel::kernel().is_ok() || !crate::kernel::use_instead(&kernel::Emulated) {
            return false;
        }
        for (signal, handler) in
            [(NOTIFY, cpu::on_notify as *const ()), (libc::SIGILL, cpu::on_illegal as *const ())]
        {
            // SAFETY: zeroed is a valid sigaction; the handlers have the three-argument form. They run with all
            // signals blocked: nothing sees them half done.
            unsafe {
                let mut action: libc::sigaction = core::mem::zeroed();
                action.sa_sigaction = handler as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
                libc::sigfillset(&raw mut action.sa_mask);
                libc::sigaction(signal, &raw const action, core::ptr::null_mut());
            }
        }
        // SAFETY: the hook touches this module's statics and thread-locals alone.
        unsafe { libc::pthread_atfork(None, None, Some(kernel::in_child)) };
        true
    })
}

/// Has emulated delivery set the trap flag, so that the trampoline is stepped through from its first instruction: the CPU's
/// delivery clears the flag.
pub fn step_into_handlers(on: bool) {
    cpu::STEPS.store(u32::from(on), tocsin_sync::atomic::real::Ordering::Relaxed);
}

/// Whether this process uses the emulation.
pub fn on() -> bool {
    crate::kernel::kernel().is_ok_and(|k| k.name() == kernel::NAME)
}

/// The restartable-sequences area that the calling thread's receiver looks at. A private one takes the real one's place
/// where it is asked for, and where signals emulate: the kernel would end the real area's sections itself.
pub fn rseq_area(private: bool) -> *mut core::ffi::c_void {
    let Some(thread) = crate::thread::current() else { return core::ptr::null_mut() };
    if private || on() {
        let own = crate::rseq::nobodys();
        crate::rseq::look_at(own);
        thread.rseq.set(own);
    }
    thread.rseq.get().cast()
}
