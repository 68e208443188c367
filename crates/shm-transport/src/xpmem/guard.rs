//! The handler of `SIGBUS` that mends copies from what has gone.
//!
//! Installed before anything is mapped, for the whole process, and not taken back. What is not a fault of a copy goes to who had the signal before. A
//! handler that the program installs later gets a peer's end as its own fault, unless it passes on what it does not know.

use core::ffi::{c_int, c_void};
use std::io;
use std::sync::OnceLock;

use super::copy;

/// Who had the signal before.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs it, the first time. User threads only.
///
/// # Errors
/// The system's, which has no reason to refuse.
pub(super) fn install() -> io::Result<()> {
    // SAFETY: zeroed is a valid sigaction, and a handler of this form is what SA_SIGINFO promises.
    unsafe {
        let mut previous: libc::sigaction = core::mem::zeroed();
        if libc::sigaction(libc::SIGBUS, core::ptr::null(), &raw mut previous) != 0 {
            return Err(io::Error::last_os_error());
        }
        let handler = on as *const () as usize;
        if previous.sa_sigaction == handler {
            return Ok(());
        }
        // Before the handler is there: it asks for it. Who came later, and passes on what is not its own, is not asked in turn.
        PREVIOUS.get_or_init(|| previous);
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        match libc::sigaction(libc::SIGBUS, &raw const action, core::ptr::null_mut()) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Goes on at the end of the copy that it was raised in.
extern "C" fn on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid ucontext_t to an SA_SIGINFO handler; handlers that chain to ours must, too.
    if unsafe { mend(context.cast()) } {
        return;
    }
    pass_on(signal, info, context);
}

/// Whether the context was in a copy; if so, it is at its end now.
///
/// # Safety
/// A handler's context, which nobody else uses.
#[cfg(target_arch = "x86_64")]
unsafe fn mend(context: *mut libc::ucontext_t) -> bool {
    // SAFETY: the caller's promise; the indices are those of this layout.
    unsafe {
        let registers = &raw mut (*context).uc_mcontext.gregs;
        let [r10, r11, rip] = [libc::REG_R10, libc::REG_R11, libc::REG_RIP]
            .map(|register| registers.cast::<i64>().add(register as usize));
        let (end, token, at) = (*r10, *r11 as u64, *rip);
        let inside = (end as u64).wrapping_sub(at as u64) < copy::REACH;
        if token != copy::TOKEN || !inside {
            return false;
        }
        rip.write(end);
        true
    }
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn mend(_: *mut libc::ucontext_t) -> bool {
    false
}

/// To who had the signal before.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(previous) = PREVIOUS.get() else { return };
    // SAFETY: the kernel passes a valid siginfo. Faults have positive codes, what somebody has sent has none.
    let is_sent = unsafe { (*info).si_code } <= 0;
    match previous.sa_sigaction {
        libc::SIG_IGN if is_sent => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: zeroed is a valid sigaction, of the default action. A fault is raised again when this returns, and what was sent comes when the
            // signal is no longer blocked.
            unsafe {
                let default: libc::sigaction = core::mem::zeroed();
                libc::sigaction(signal, &raw const default, core::ptr::null_mut());
                if is_sent {
                    libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal);
                }
            }
        }
        // SAFETY: it was installed as a handler of the form that its flags say.
        handler => unsafe {
            if previous.sa_flags & libc::SA_SIGINFO != 0 {
                let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                    core::mem::transmute(handler);
                handler(signal, info, context);
            } else {
                let handler: extern "C" fn(c_int) = core::mem::transmute(handler);
                handler(signal);
            }
        },
    }
}
