//! What the cases share.

use core::ffi::c_void;
use std::time::{Duration, Instant};
use tocsin_sync::atomic::real::{AtomicU64, Ordering};
use tocsin_uintr_sys::{Config, Frame, Receiver, Stack, emulation};

/// How often, and with what, [`count`] ran in this process.
pub static RUNS: AtomicU64 = AtomicU64::new(0);
pub static LAST: AtomicU64 = AtomicU64::new(u64::MAX);
/// An address on the stack of its last run.
pub static PLACE: AtomicU64 = AtomicU64::new(0);

pub fn runs() -> u64 {
    RUNS.load(Ordering::Acquire)
}

/// The handler of most cases.
pub unsafe extern "C" fn count(vector: u64, _frame: *mut Frame, _context: *const c_void) {
    let local = 0u8;
    PLACE.store((&raw const local).addr() as u64, Ordering::Relaxed);
    LAST.store(vector, Ordering::Relaxed);
    RUNS.fetch_add(1, Ordering::Release);
}

pub fn receiver() -> Receiver {
    receiver_on(Stack::Own(64 * 1024))
}

pub fn receiver_on(stack: Stack) -> Receiver {
    install(&Config::on(stack), count)
}

pub fn install(config: &Config, handler: tocsin_uintr_sys::Handler) -> Receiver {
    // SAFETY: the handlers of these tests obey the rules; receivers are dropped before their threads end, or the
    // process ends.
    unsafe { Receiver::install(config, handler, core::ptr::null()) }.unwrap()
}

/// Gives the calling thread a signal stack of its own, apart from everything else: emulated delivery then starts on
/// the interrupted stack as the CPU's does. Its lowest address and size.
pub fn signal_stack() -> (usize, usize) {
    const SIZE: usize = 256 * 1024;
    // SAFETY: a new mapping, never unmapped; unused space on both sides.
    unsafe {
        let memory = libc::mmap(
            core::ptr::null_mut(),
            3 * SIZE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(memory, libc::MAP_FAILED);
        let low = memory.wrapping_byte_add(SIZE);
        let stack = libc::stack_t { ss_sp: low, ss_flags: 0, ss_size: SIZE };
        assert_eq!(libc::sigaltstack(&raw const stack, core::ptr::null_mut()), 0);
        (low.addr(), SIZE)
    }
}

/// A signal's handler.
pub fn on_signal(signal: i32, flags: i32, handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void)) {
    // SAFETY: zeroed is a valid sigaction; the handler has the three-argument form.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = flags | libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(signal, &raw const action, core::ptr::null_mut()), 0);
    }
}

/// tgkill of the calling thread.
pub fn signal_this_thread(signal: i32) {
    // SAFETY: no memory is involved.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal) };
}

/// Sends one number of rings or steps: fewer where each costs a few signals.
pub fn scaled(real: u64, emulated: u64) -> u64 {
    if emulation::on() { emulated } else { real }
}

/// A size that the environment may set.
pub fn size(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |n| n.parse().unwrap())
}

/// Computes, without a system call where that may last, until the condition holds.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        for _ in 0..1000 {
            core::hint::spin_loop();
        }
        std::thread::yield_now();
        assert!(Instant::now() < deadline, "{what}");
    }
}

/// sched_setaffinity(2) to one CPU.
pub fn pin(tid: i32, cpu: usize) {
    // SAFETY: zeroed is the empty set; CPU numbers below 1024.
    unsafe {
        let mut set: libc::cpu_set_t = core::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(libc::sched_setaffinity(tid, size_of_val(&set), &raw const set), 0);
    }
}

/// Those that the calling thread may run on.
pub fn cpus() -> Vec<usize> {
    // SAFETY: zeroed is the empty set.
    unsafe {
        let mut set: libc::cpu_set_t = core::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &raw mut set), 0);
        (0..1024).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect()
    }
}

/// Memory that children by fork share.
pub fn shared<T>() -> &'static T {
    // SAFETY: a new zeroed mapping, never unmapped; the callers' types are arrays of atomics.
    unsafe {
        let memory = libc::mmap(
            core::ptr::null_mut(),
            size_of::<T>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(memory, libc::MAP_FAILED);
        &*memory.cast::<T>()
    }
}

/// A child process.
pub struct Child(pub i32);

#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    Exit(i32),
    Killed(i32),
}

impl Child {
    pub fn wait(self) -> Ended {
        let mut status = 0;
        loop {
            // SAFETY: our own child; `status` is a live local.
            let answer = unsafe { libc::waitpid(self.0, &raw mut status, 0) };
            if answer == self.0 {
                break;
            }
            assert_eq!(tocsin_sync::errno::get(), libc::EINTR);
        }
        if libc::WIFSIGNALED(status) {
            Ended::Killed(libc::WTERMSIG(status))
        } else {
            Ended::Exit(libc::WEXITSTATUS(status))
        }
    }

    pub fn kill(&self) {
        // SAFETY: our own child, not reaped yet.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
    }
}

/// Runs `f` in a child process, which then exits: 0, or 101 if it panicked.
pub fn fork(f: impl FnOnce()) -> Child {
    // SAFETY: the callers are single-threaded, or their children only do what children of threads may.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: ends this process with the one that started it.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
            // SAFETY: ends this process without running the parent's destructors.
            unsafe { libc::_exit(if answer.is_ok() { 0 } else { 101 }) }
        }
        pid @ 1.. => Child(pid),
        _ => panic!("fork: {}", std::io::Error::last_os_error()),
    }
}
