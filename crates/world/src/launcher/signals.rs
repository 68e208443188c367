//! Signals that the launcher passes on.

use std::mem::MaybeUninit;
use std::ptr;

const PASSED_ON: [libc::c_int; 7] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2, libc::SIGCONT];

fn set() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: - `sigemptyset` initialises the set, which `sigaddset` then changes.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in PASSED_ON {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

/// The signals to pass on, blocked on this thread; as before when dropped.
#[derive(Debug)]
pub(super) struct Blocked {
    before: libc::sigset_t,
}

impl Blocked {
    pub(super) fn new() -> Blocked {
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: - both sets are live; the call initialises `before`.
        unsafe {
            libc::sigemptyset(before.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_BLOCK, &set(), before.as_mut_ptr());
            Blocked { before: before.assume_init() }
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: - the mask came from `pthread_sigmask`.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut()) };
    }
}

/// Whether the system forgets how this process's children end, because it ignores SIGCHLD, perhaps from its parent, or does not want to hear of them.
pub(super) fn children_are_forgotten() -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: - the call changes nothing, and fills in what is live; all zeros are an action, too.
    let action = unsafe {
        libc::sigaction(libc::SIGCHLD, ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN || action.sa_flags & libc::SA_NOCLDWAIT != 0
}

/// In a rank between fork and exec: a rank starts with the signals unblocked. Async-signal-safe.
pub(super) fn unblock() {
    // SAFETY: - the set is live; the call changes nothing but this thread's mask.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &set(), ptr::null_mut()) };
}

/// Whether it asks a process to end.
pub(super) fn ends(signal: i32) -> bool {
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT].contains(&signal)
}

/// A signal that somebody sent this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) signal: i32,
    /// By a terminal, which sends to its whole foreground group, ranks included.
    pub(super) to_all: bool,
}

/// A signal that waits to be passed on.
pub(super) fn take() -> Option<Sent> {
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: - all three are live and of the right types.
    let signal = unsafe { libc::sigtimedwait(&set(), info.as_mut_ptr(), &raw const now) };
    if signal <= 0 {
        return None;
    }
    // SAFETY: - zeroed is a valid siginfo, and the call has filled it.
    let code = unsafe { info.assume_init() }.si_code;
    Some(Sent { signal, to_all: code == libc::SI_KERNEL })
}

/// Who has been asked to end, and how.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked(u64);

impl Asked {
    /// Notes a signal. True: it asks the ranks to end, and has done so before. (Hanging up again means to read again what a program is
    /// configured by, to those who take it for that.)
    pub(super) fn again(&mut self, signal: i32) -> bool {
        let bit = u32::try_from(signal).ok().and_then(|signal| 1u64.checked_shl(signal)).unwrap_or(0);
        let before = self.0 & bit != 0;
        if ends(signal) && signal != libc::SIGHUP {
            self.0 |= bit;
        }
        before
    }
}
