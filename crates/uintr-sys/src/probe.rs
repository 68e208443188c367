//! Does this machine have user interrupts, and does its kernel let us use them?

/// What the machine offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The CPU has the instructions (CPUID leaf 7, EDX bit 5).
    pub cpuid: bool,
    /// The kernel has switched them on (CR4.UINTR): TESTUI runs instead of raising SIGILL.
    pub kernel_enabled: bool,
}

impl Probe {
    /// What the machine lacks; `None` when the instructions can be used. (A process needs a kernel interface beside
    /// them: see [`crate::why_not`].)
    pub fn why_not(&self) -> Option<&'static str> {
        if !cfg!(target_arch = "x86_64") {
            Some("user interrupts exist on x86-64 only")
        } else if !self.cpuid {
            Some("this CPU has no user interrupts (CPUID leaf 7, EDX bit 5)")
        } else if !self.kernel_enabled {
            Some(
                "this kernel has not switched user interrupts on (CR4.UINTR): load the module `uintr` (kernel-patches/README.md)",
            )
        } else {
            None
        }
    }
}

/// Asks the machine; the answer is remembered. Where the CPU has the bit, this runs TESTUI once with SIGILL
/// caught, and puts SIGILL's disposition back.
///
/// Not from a handler: the first call locks.
pub fn probe() -> Probe {
    static ANSWER: std::sync::OnceLock<Probe> = std::sync::OnceLock::new();
    *ANSWER.get_or_init(|| {
        let cpuid = arch::cpu_has_them();
        Probe { cpuid, kernel_enabled: cpuid && arch::testui_runs() }
    })
}

#[cfg(not(target_arch = "x86_64"))]
mod arch {
    pub(super) fn cpu_has_them() -> bool {
        false
    }
    pub(super) fn testui_runs() -> bool {
        false
    }
}

#[cfg(target_arch = "x86_64")]
mod arch {
    use crate::cpuid::cpuid;
    use std::sync::{Mutex, PoisonError};
    use tocsin_sync::atomic::real::{AtomicBool, AtomicUsize, Ordering};

    pub(super) fn cpu_has_them() -> bool {
        const UINTR: u32 = 1 << 5;
        cpuid(0, 0).eax >= 7 && cpuid(7, 0).edx & UINTR != 0
    }

    /// TESTUI as a function's first instruction, so that the guard knows its address. All four bytes long.
    #[unsafe(naked)]
    extern "C" fn testui() {
        core::arch::naked_asm!("testui", "ret")
    }
    const TESTUI_LENGTH: i64 = 4;

    static FAULTED: AtomicBool = AtomicBool::new(false);
    /// The handler that the guard replaced, for a SIGILL that is none of ours: 0 and 1 are SIG_DFL, SIG_IGN.
    static OLD: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);

    /// Steps over our TESTUI; anything else faults again under the old disposition.
    extern "C" fn guard(signal: i32, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel passes a valid ucontext_t to an SA_SIGINFO handler; nobody else refers to it.
        let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
        let rip = &mut context.uc_mcontext.gregs[libc::REG_RIP as usize];
        if *rip == testui as *const () as i64 {
            *rip += TESTUI_LENGTH;
            FAULTED.store(true, Ordering::Relaxed);
            return;
        }
        // SAFETY: zeroed is a valid sigaction; the handler in it was the process's own (its flags may
        // differ: the worst is a crash report of an illegal instruction that crashes anyway).
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = OLD.load(Ordering::Relaxed);
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(signal, &raw const action, core::ptr::null_mut());
        }
    }

    pub(super) fn testui_runs() -> bool {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        FAULTED.store(false, Ordering::Relaxed);
        // SAFETY: zeroed is a valid sigaction; the guard has the form SA_SIGINFO promises; the old
        // disposition is put back before anything else happens on this thread. SIGILL of an instruction is
        // delivered even where it is blocked (by killing), so it is unblocked here, too.
        unsafe {
            let mut new: libc::sigaction = core::mem::zeroed();
            let mut old: libc::sigaction = core::mem::zeroed();
            let mut illegal: libc::sigset_t = core::mem::zeroed();
            let mut old_mask: libc::sigset_t = core::mem::zeroed();
            if libc::sigaction(libc::SIGILL, core::ptr::null(), &raw mut old) != 0 {
                return false;
            }
            OLD.store(old.sa_sigaction, Ordering::Relaxed);
            new.sa_sigaction = guard as *const () as usize;
            new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&raw mut illegal);
            libc::sigaddset(&raw mut illegal, libc::SIGILL);
            if libc::sigaction(libc::SIGILL, &raw const new, &raw mut old) != 0 {
                return false;
            }
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const illegal, &raw mut old_mask);
            testui();
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const old_mask, core::ptr::null_mut());
            libc::sigaction(libc::SIGILL, &raw const old, core::ptr::null_mut());
        }
        !FAULTED.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_guard_survives_and_restores() {
            extern "C" fn mine(_: i32) {}
            let disposition = || {
                // SAFETY: asks only.
                unsafe {
                    let mut now: libc::sigaction = core::mem::zeroed();
                    libc::sigaction(libc::SIGILL, core::ptr::null(), &raw mut now);
                    (now.sa_sigaction, now.sa_flags & libc::SA_NODEFER)
                }
            };
            // SAFETY: a handler of the one-argument form, with no SA_SIGINFO.
            unsafe {
                let mut new: libc::sigaction = core::mem::zeroed();
                new.sa_sigaction = mine as *const () as usize;
                new.sa_flags = libc::SA_NODEFER;
                libc::sigaction(libc::SIGILL, &raw const new, core::ptr::null_mut());
            }
            let before = disposition();
            for _ in 0..3 {
                let runs = testui_runs();
                assert!(!runs || cpu_has_them(), "TESTUI ran on a CPU without it");
                assert_eq!(disposition(), before);
            }
        }

        #[test]
        fn the_answer_is_consistent() {
            let answer = crate::probe();
            assert_eq!(answer, crate::probe());
            assert_eq!(answer.why_not().is_none(), answer.cpuid && answer.kernel_enabled);
            assert_eq!(answer.cpuid, cpu_has_them());
        }
    }
}
