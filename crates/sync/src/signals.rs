//! Which signals come to a thread: none but those that tell of errors, or those that a copy cannot do without.

use core::mem::MaybeUninit;
use core::ptr;

/// Signals that an instruction raises: they come to the thread that executes it, and end the process if that blocks them.
const OF_INSTRUCTIONS: [i32; 6] =
    [libc::SIGILL, libc::SIGTRAP, libc::SIGBUS, libc::SIGFPE, libc::SIGSEGV, libc::SIGSYS];

/// Until it is dropped, no signals come to the thread but those that instructions raise, unless it blocks them anyway.
#[derive(Debug)]
#[must_use = "they come again when this is dropped"]
pub struct Blocked {
    /// What was blocked before, if it could be asked.
    before: Option<libc::sigset_t>,
    /// It is this thread's.
    _not_send: core::marker::PhantomData<*mut ()>,
}

/// All signals but those.
fn all_others() -> libc::sigset_t {
    let mut others = MaybeUninit::uninit();
    // SAFETY: sigfillset makes the set before it is read.
    unsafe {
        libc::sigfillset(others.as_mut_ptr());
        for signal in OF_INSTRUCTIONS {
            libc::sigdelset(others.as_mut_ptr(), signal);
        }
        others.assume_init()
    }
}

/// No signals come to the calling thread ever again but those that instructions raise, and those do, whatever it has blocked before. User threads only.
pub fn block_for_good() {
    let others = all_others();
    // SAFETY: the set is live.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const others, ptr::null_mut()) };
}

impl Blocked {
    /// Blocks them on the calling thread. User threads only.
    pub fn here() -> Blocked {
        let (others, mut before) = (all_others(), MaybeUninit::uninit());
        // SAFETY: the set is live; `before` is read only when the call has written it.
        let before = unsafe {
            let done = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const others, before.as_mut_ptr());
            (done == 0).then(|| before.assume_init())
        };
        Blocked { before, _not_send: core::marker::PhantomData }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // SAFETY: the set is live, and was the thread's.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, ptr::null_mut()) };
        }
    }
}

/// As the kernel counts them.
static FAULTS: u64 = 1 << (libc::SIGBUS - 1) | 1 << (libc::SIGSEGV - 1);
/// Bytes of its set of signals.
const SET: usize = 8;

/// Until it is [over](Self::over), `SIGBUS` and `SIGSEGV` come to the thread, whatever it blocks: for what mends them. Two system calls.
///
/// Handlers may use it, and have to: a user interrupt comes to a thread that blocks all signals as well. (So nothing is dropped here, which compilers see
/// a panic behind.)
#[derive(Debug)]
#[must_use = "they come until this is over"]
pub struct Faults {
    /// What was blocked before, as the kernel has it.
    before: u64,
    _not_send: core::marker::PhantomData<*mut ()>,
}

impl Faults {
    /// Has them come to the calling thread.
    pub fn come() -> Faults {
        let mut before = 0u64;
        // SAFETY: both sets are live, and of the length that the call is told.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigprocmask,
                libc::SIG_UNBLOCK,
                &raw const FAULTS,
                &raw mut before,
                SET,
            )
        };
        Faults { before, _not_send: core::marker::PhantomData }
    }

    /// Blocks those again that were blocked.
    pub fn over(self) {
        if self.before & FAULTS != 0 {
            let nothing = ptr::null_mut::<u64>();
            // SAFETY: the set is live, and was the thread's.
            unsafe {
                libc::syscall(
                    libc::SYS_rt_sigprocmask,
                    libc::SIG_SETMASK,
                    &raw const self.before,
                    nothing,
                    SET,
                )
            };
        }
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    fn blocks(signal: i32) -> bool {
        let mut now = MaybeUninit::uninit();
        // SAFETY: the call writes the set, and changes none.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), now.as_mut_ptr());
            libc::sigismember(now.as_ptr(), signal) == 1
        }
    }

    /// As programs do that wait for all signals in one thread.
    fn block_all() {
        let mut all = MaybeUninit::uninit();
        // SAFETY: sigfillset makes the set.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), ptr::null_mut());
        }
    }

    #[test]
    fn what_instructions_raise_is_never_blocked() {
        let all = || (blocks(libc::SIGURG) && blocks(libc::SIGTERM), OF_INSTRUCTIONS.into_iter().any(blocks));
        let thread = std::thread::spawn(move || {
            let guard = Blocked::here();
            assert_eq!(all(), (true, false));
            drop(guard);
            assert!(!blocks(libc::SIGURG));
            block_all();
            assert_eq!(all(), (true, true));
            block_for_good();
            assert_eq!(all(), (true, false));
        });
        thread.join().unwrap();
    }

    #[test]
    fn faults_come_to_who_blocks_all() {
        std::thread::spawn(|| {
            block_all();
            let faults = Faults::come();
            assert!(!blocks(libc::SIGBUS) && !blocks(libc::SIGSEGV) && blocks(libc::SIGURG));
            faults.over();
            assert!(blocks(libc::SIGBUS) && blocks(libc::SIGSEGV) && blocks(libc::SIGURG));
        })
        .join()
        .unwrap();
    }
}
