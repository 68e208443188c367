//! The guard that keeps a rank's thread from being interrupted.

use std::marker::PhantomData;

/// Keeps the calling thread from being interrupted for as long as it lives: rings that come in meanwhile wait, and its drop has
/// the engine look at what they were for. System calls that return `EINTR` whenever a signal was handled, as `poll` and
/// `nanosleep` do, are left alone: the signal is blocked on this thread, which takes a system call here and one in the drop.
/// Guards nest, and are dropped in the opposite order. On a thread that is not interruptible it does nothing.
///
/// It is about the world of which the thread is a rank when it is made, and may outlive that. A world that the thread joins later interrupts it
/// as without it. Whichever ends first, the signal is blocked in the end if it was before all of them, and else is not.
///
/// Who holds it long keeps those waiting that need this rank. A program that is started meanwhile by `exec` inherits the blocked
/// signal (`std::process::Command` unblocks all signals).
///
/// Not for signal handlers of one's own.
#[derive(Debug)]
#[must_use = "the thread is masked until this is dropped"]
pub struct Masked {
    /// The signal, if this guard has blocked it.
    blocked: Option<i32>,
    /// Goes after the signal is unblocked: what comes in then is noted, and run once.
    _inner: tocsin_doorbell::Masked,
    _not_send: PhantomData<*const ()>,
}

impl Masked {
    /// Masks the calling thread.
    pub fn new() -> Masked {
        let inner = tocsin_doorbell::Masked::new();
        let blocked = tocsin_doorbell::signal_here().filter(|signal| block(*signal));
        blocked.into_iter().for_each(tocsin_doorbell::note_guard);
        Masked { blocked, _inner: inner, _not_send: PhantomData }
    }
}

impl Default for Masked {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Masked {
    fn drop(&mut self) {
        let Some(signal) = self.blocked.take() else { return };
        // A thread that is no rank's any more has no handler for what rang it meanwhile, which might end the process.
        if tocsin_doorbell::signal_here() != Some(signal) {
            forget_pending(signal);
        }
        if tocsin_doorbell::take_guard(signal) {
            unblock(signal);
        }
    }
}

/// The set of one signal.
fn only(signal: i32) -> libc::sigset_t {
    // SAFETY: - a zeroed set is memory for sigemptyset to fill, and the number is that of a signal that had a handler.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        set
    }
}

/// Blocks the signal on this thread. False: it was blocked.
fn block(signal: i32) -> bool {
    let set = only(signal);
    // SAFETY: - both sets are live locals, and a zeroed one is memory to be filled.
    unsafe {
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before) == 0
            && libc::sigismember(&raw const before, signal) == 0
    }
}

fn unblock(signal: i32) {
    let set = only(signal);
    // SAFETY: - the set is a live local; unblocking a valid signal does not fail.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut()) };
}

/// Takes what is pending, which nobody adds to: senders ask for no rank that has left.
fn forget_pending(signal: i32) {
    let set = only(signal);
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: - set and time are live locals, and nothing more is asked.
    while unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const at_once) } == signal {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, threads};
    use tocsin_sync::atomic::real::{AtomicBool, AtomicI32, Ordering};

    /// What the kernel says of a thread of this process under a name.
    fn status(tid: i32, name: &str) -> String {
        let all = std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).unwrap();
        all.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()
    }

    fn until(so: impl Fn() -> bool) {
        while !so() {
            std::thread::yield_now();
        }
    }

    /// What poll says of a pipe that is written to after a message has rung for the thread that is in it; and whether the
    /// message was there once the guard was gone. A broadcast by messages, to one who has asked whether it is over, and so is rung.
    fn polled_while_rung(masked: bool) -> (i32, bool) {
        let mut config = Config::default();
        config.set("TOCSIN_BACKEND", "signal").unwrap();
        let mut ends = [0; 2];
        // SAFETY: - room for two descriptors.
        assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
        let [read, write] = ends;
        let (poller, returned, looked) = (AtomicI32::new(0), AtomicBool::new(false), AtomicBool::new(false));
        let said = threads(2, &config, |comm| {
            if comm.rank() == 0 {
                let mut got = [0u8; 8];
                // SAFETY: - the buffer lives until the request has been waited for.
                let mut request =
                    unsafe { comm.ibcast_raw(got.as_mut_ptr(), 8, 1, Some("binomial")) }.unwrap();
                assert!(!request.is_done());
                let guard = masked.then(Masked::new);
                // SAFETY: - no pointers.
                poller.store(unsafe { libc::gettid() }, Ordering::Release);
                let mut asked = libc::pollfd { fd: read, events: libc::POLLIN, revents: 0 };
                // SAFETY: - one descriptor of ours.
                let said = unsafe { libc::poll(&raw mut asked, 1, 60_000) };
                returned.store(true, Ordering::Release);
                drop(guard);
                let there = request.is_over();
                request.wait().unwrap();
                // What is asked of this thread is asked while there is one.
                until(|| looked.load(Ordering::Acquire));
                (said, there)
            } else {
                until(|| poller.load(Ordering::Acquire) != 0);
                let tid = poller.load(Ordering::Acquire);
                until(|| status(tid, "State:").starts_with('S'));
                let mut sent = [7u8; 8];
                // SAFETY: - the buffer lives until the request has been waited for.
                unsafe { comm.ibcast_raw(sent.as_mut_ptr(), 8, 1, Some("binomial")) }
                    .unwrap()
                    .wait()
                    .unwrap();
                // Not before the ring: the pipe would be what poll tells of.
                let signals = |name| u64::from_str_radix(&status(tid, name), 16).unwrap();
                let kept = || signals("SigPnd:") & signals("SigBlk:") != 0;
                until(|| returned.load(Ordering::Acquire) || kept());
                looked.store(true, Ordering::Release);
                // SAFETY: - a byte of ours, a descriptor of ours.
                assert_eq!(unsafe { libc::write(write, [1u8].as_ptr().cast(), 1) }, 1);
                (0, true)
            }
        });
        // SAFETY: - descriptors of ours, which nobody uses any more.
        unsafe { (libc::close(read), libc::close(write)) };
        said.unwrap()[0]
    }

    #[test]
    fn a_ring_interrupts_no_system_call_while_masked() {
        assert_eq!(polled_while_rung(true), (1, true));
    }

    /// The test above tells the difference.
    #[test]
    fn a_ring_interrupts_poll() {
        assert_eq!(polled_while_rung(false).0, -1);
    }

    fn is_blocked(signal: i32) -> bool {
        // SAFETY: - two sets, of which the first is not there and the second a local.
        unsafe {
            let mut now: libc::sigset_t = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut now);
            libc::sigismember(&raw const now, signal) == 1
        }
    }

    /// A world, a guard, the end of the world, another world, and then the ends of that and of the guard in either order.
    #[test]
    fn the_signal_is_in_the_end_as_it_was_at_first() {
        let mut config = Config::default();
        config.set("TOCSIN_BACKEND", "signal").unwrap();
        let join = || crate::World::join(crate::bootstrap::Singleton::default(), &config).unwrap();
        for before in [false, true] {
            for guard_goes_first in [false, true] {
                for again in [false, true] {
                    if before {
                        assert!(block(libc::SIGURG));
                    }
                    let first = join();
                    assert!(!is_blocked(libc::SIGURG));
                    let guard = Masked::new();
                    assert!(is_blocked(libc::SIGURG));
                    first.finalize().unwrap();
                    let second = again.then(join);
                    assert!(!again || !is_blocked(libc::SIGURG), "a rank that joins is interrupted");
                    if guard_goes_first {
                        drop(guard);
                        drop(second);
                    } else {
                        drop(second);
                        drop(guard);
                    }
                    let how =
                        format!("blocked {before}, guard first {guard_goes_first}, joined again {again}");
                    assert_eq!(is_blocked(libc::SIGURG), before, "{how}");
                    unblock(libc::SIGURG);
                }
            }
        }
    }

    #[test]
    fn a_guard_that_outlives_its_world_ends_nothing() {
        let mut config = Config::default();
        config.set("TOCSIN_BACKEND", "signal").unwrap();
        config.set("TOCSIN_SIGNAL", "USR2").unwrap();
        let world = crate::World::join(crate::bootstrap::Singleton::default(), &config).unwrap();
        let guard = Masked::new();
        // SAFETY: - no pointers: the signal is pending on this thread.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), libc::SIGUSR2) };
        world.finalize().unwrap();
        drop(guard);
        assert!(!is_blocked(libc::SIGUSR2));
    }

    /// What rang for the first world does not end the process when the second one unblocks it.
    #[test]
    fn a_world_under_a_guard_is_not_rung_for_the_one_before() {
        let mut config = Config::default();
        config.set("TOCSIN_BACKEND", "signal").unwrap();
        config.set("TOCSIN_SIGNAL", "USR1").unwrap();
        let join = || crate::World::join(crate::bootstrap::Singleton::default(), &config).unwrap();
        let first = join();
        let guard = Masked::new();
        // SAFETY: - no pointers: the signal is pending on this thread.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), libc::SIGUSR1) };
        first.finalize().unwrap();
        let second = join();
        drop(guard);
        second.finalize().unwrap();
        assert!(!is_blocked(libc::SIGUSR1));
    }
}
