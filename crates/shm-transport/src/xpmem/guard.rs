//! The handler of `SIGBUS` and `SIGSEGV` that mends copies from what has gone.
//!
//! The first is what a peer leaves behind, the second what the device does when it forgets this process. Installed before anything is mapped, for the whole process, and not taken back. What is
//! not a fault of a copy goes to who had the signal before. A handler that the program installs later gets a peer's end as its own fault, unless it passes on what it
//! does not know.

use core::ffi::{c_int, c_void};
use std::io;
use std::sync::OnceLock;

use super::copy;

/// The signals, and who had them before.
static MENDED: [(c_int, OnceLock<libc::sigaction>); 2] =
    [(libc::SIGBUS, OnceLock::new()), (libc::SIGSEGV, OnceLock::new())];

/// "The memory of this page has an error, which nobody has touched yet": comes to whoever the kernel likes.
const EARLY: c_int = 5;

/// Installs it where it is not, and nobody has come since who may pass on. User threads only.
///
/// # Errors
/// The system's, which has no reason to refuse.
pub(super) fn install() -> io::Result<()> {
    for (signal, before) in &MENDED {
        let current = exchange(*signal, None)?;
        let handler = on as *const () as usize;
        let is_nobodys = matches!(current.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN);
        if current.sa_sigaction == handler || before.get().is_some() && !is_nobodys {
            continue;
        }
        // Before the handler is there: it asks for it.
        before.get_or_init(|| current);
        // Blocked meanwhile is what that one counts on.
        let mut action = current;
        action.sa_sigaction = handler;
        action.sa_flags &= libc::SA_RESTART | libc::SA_NODEFER;
        action.sa_flags |= libc::SA_SIGINFO | libc::SA_ONSTACK;
        exchange(*signal, Some(&action))?;
    }
    Ok(())
}

/// The action of a signal, instead of which there is another one now, if one is given.
fn exchange(signal: c_int, new: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
    let new = new.map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: zeroed is a valid sigaction; a handler of ours has the form that SA_SIGINFO promises, and keeps to the rules of handlers.
    unsafe {
        let mut old: libc::sigaction = core::mem::zeroed();
        match libc::sigaction(signal, new, &raw mut old) {
            0 => Ok(old),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Goes on at the end of the copy that it was raised in.
extern "C" fn on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo to an SA_SIGINFO handler; handlers that chain to ours must, too. What an instruction raises has a positive
    // code, what somebody has sent has none.
    let code = unsafe { (*info).si_code };
    let is_raised = code > 0 && !(signal == libc::SIGBUS && code == EARLY);
    // SAFETY: the same of the ucontext_t.
    if is_raised && unsafe { mend(context.cast()) } {
        return;
    }
    pass_on(signal, info, context, is_raised);
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
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void, is_raised: bool) {
    let of = MENDED.iter().find(|(mended, _)| *mended == signal);
    let Some(previous) = of.and_then(|(_, before)| before.get()) else { return };
    // SAFETY: zeroed is a valid sigaction, of the default action.
    let take_default = || unsafe {
        let default: libc::sigaction = core::mem::zeroed();
        libc::sigaction(signal, &raw const default, core::ptr::null_mut());
    };
    if previous.sa_flags & libc::SA_RESETHAND != 0 {
        take_default();
    }
    match previous.sa_sigaction {
        libc::SIG_IGN if !is_raised => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            take_default();
            // A fault is raised again when this returns, and what was sent comes when the signal is no longer blocked.
            // SAFETY: no pointers.
            unsafe {
                if !is_raised {
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
