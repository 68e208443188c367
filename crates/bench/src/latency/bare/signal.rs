//! A signal and its handler.

use super::rung;
use crate::error::Error;
use crate::values::HandlerStack;
use tocsin_sync::clock::now_ns;

/// The doorbell's: its default action is to ignore, so that a late one harms nobody.
const SIGNAL: i32 = libc::SIGURG;
/// The alternate stack: the largest frame there is (AMX) and a handler that was unmasked within itself, many times over.
const STACK: usize = 256 * 1024;

/// The calling thread's handler, and the disposition and stack that it took the place of.
pub(super) struct Caught {
    #[cfg_attr(not(test), allow(dead_code))] // kept for the kernel
    stack: Box<[u8]>,
    old_stack: libc::stack_t,
    old_action: libc::sigaction,
}

/// A thread of this process.
pub(super) struct Target {
    pid: i32,
    tid: i32,
}

impl Target {
    #[inline]
    pub(super) fn ring(&self) -> bool {
        // SAFETY: no memory is involved.
        unsafe { libc::syscall(libc::SYS_tgkill, self.pid, self.tid, SIGNAL) == 0 }
    }
}

extern "C" fn on(_signal: i32) {
    let now = now_ns();
    // SAFETY: zeroed is a set for sigemptyset to fill; the signal is a valid one; the calls are made of one system call
    // each, and leave errno alone because they succeed.
    unsafe {
        let mut set: libc::sigset_t = core::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, SIGNAL);
        rung(now, || {
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, core::ptr::null_mut());
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, core::ptr::null_mut());
        });
    }
}

impl Caught {
    /// On another stack unless that of the interrupted code is asked for.
    pub(super) fn install(stack: HandlerStack) -> Result<(Caught, Target), Error> {
        let alternate = stack != HandlerStack::Own;
        let flags = libc::SA_RESTART | if alternate { libc::SA_ONSTACK } else { 0 };
        let mut stack = vec![0u8; STACK].into_boxed_slice();
        // SAFETY: zeroed is valid for all of them; the pointers are to live locals; the stack stays until `drop` has set
        // the old one; the handler obeys the rules of handlers.
        unsafe {
            let mut old_stack: libc::stack_t = core::mem::zeroed();
            let new_stack = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: STACK };
            if libc::sigaltstack(&raw const new_stack, &raw mut old_stack) != 0 {
                return Err(Error::last_os("sigaltstack"));
            }
            let mut old_action: libc::sigaction = core::mem::zeroed();
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = on as extern "C" fn(i32) as usize;
            action.sa_flags = flags;
            let installed = libc::sigaction(SIGNAL, &raw const action, &raw mut old_action);
            if installed != 0 {
                let error = Error::last_os("sigaction");
                libc::sigaltstack(&raw const old_stack, core::ptr::null_mut());
                return Err(error);
            }
            let target = Target { pid: libc::getpid(), tid: libc::gettid() };
            Ok((Caught { stack, old_stack, old_action }, target))
        }
    }
}

impl Drop for Caught {
    fn drop(&mut self) {
        // SAFETY: what stood there before. What is still on its way is ignored, or that handler's.
        unsafe {
            libc::sigaction(SIGNAL, &raw const self.old_action, core::ptr::null_mut());
            libc::sigaltstack(&raw const self.old_stack, core::ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::BOARD;
    use super::*;
    use tocsin_sync::atomic::real::Ordering;

    #[test]
    fn handlers_run_on_the_stack_asked_for() {
        for stack in [HandlerStack::Own, HandlerStack::Alternate, HandlerStack::Own] {
            let (caught, target) = Caught::install(stack).unwrap();
            let runs = BOARD.runs.load(Ordering::Acquire);
            assert!(target.ring());
            assert_eq!(BOARD.runs.load(Ordering::Acquire), runs + 1, "delivered when the call returns");
            let place = core::ptr::without_provenance(BOARD.place.load(Ordering::Relaxed));
            assert_eq!(caught.stack.as_ptr_range().contains(&place), stack == HandlerStack::Alternate);
        }
    }
}
