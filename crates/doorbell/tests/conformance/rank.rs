//! A rank to ring at, and the shared memory it lives in.

use std::time::{Duration, Instant};
use tocsin_doorbell::{
    BackendKind, Cause, Config, Control, Descriptor, Mark, Own, Receiver, RingOutcome, Urgency, ring,
};
use tocsin_sync::atomic::real::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
use tocsin_sync::thread;

/// Senders there may be.
pub const LANES: usize = 4;

/// What ranks share: a descriptor, and per sender a mark and a "lane" (a count of messages).
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Shared {
    pub descriptor: Descriptor,
    pub other: Descriptor,
    pub marks: [Mark; LANES],
    pub sent: [AtomicU64; LANES],
    pub seen: [AtomicU64; LANES],
    pub runs: AtomicU64,
    pub timer_runs: AtomicU64,
    pub unmask_runs: AtomicU64,
    /// The handler found itself nested or outside a scope.
    pub broken_runs: AtomicU64,
    /// An address on the handler's stack.
    pub stack: AtomicUsize,
    /// Self rings that the handler is to make from its next runs.
    pub ring_in_handler: AtomicU64,
    /// How often the entry function is yet to ask to be run again, by [`CONTROL`].
    pub again: AtomicU64,
    pub flag: AtomicU64,
    pub stop: AtomicBool,
    /// Looks in the wrong order: the lost-wake-up test must catch it.
    pub broken: AtomicBool,
}

impl Shared {
    /// New zeroed memory that children of fork share.
    pub fn map() -> &'static Shared {
        // SAFETY: a new mapping, zeroed: a valid `Shared`, which consists of atomics; never unmapped.
        unsafe {
            let memory = libc::mmap(
                core::ptr::null_mut(),
                size_of::<Shared>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(memory, libc::MAP_FAILED);
            &*memory.cast::<Shared>()
        }
    }

    pub fn own(&'static self) -> Own {
        // SAFETY: never unmapped.
        unsafe { Own::new(&raw const self.descriptor) }
    }

    /// Publishes one message in a lane and rings.
    pub fn send(&self, lane: usize, urgency: Urgency) -> RingOutcome {
        connect_once(&self.descriptor);
        self.publish(lane);
        let outcome = ring(&self.descriptor, &self.marks[lane], lane as u8, urgency);
        let by_user_interrupt = self.descriptor.backend() == Some(BackendKind::Uintr);
        // SAFETY: no precondition.
        let to_itself = || self.descriptor.attention().tid() == unsafe { libc::gettid() } as u32;
        if outcome == RingOutcome::Rang && by_user_interrupt && !thread::in_handler() && to_itself() {
            // The cases that ring themselves expect the handler to have run, as it has when tgkill returns. A user
            // interrupt goes through the interrupt controller, which takes less than a microsecond.
            let start = Instant::now();
            while start.elapsed() < Duration::from_micros(5) {
                core::hint::spin_loop();
            }
        }
        outcome
    }

    /// The part of a send before the ring.
    pub fn publish(&self, lane: usize) {
        self.sent[lane].fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// What an engine's pass does: takes vectors, clears marks, fence, looks.
    pub fn look(&'static self) {
        if self.broken.load(Ordering::Relaxed) {
            return self.look_too_early();
        }
        self.own().take();
        for mark in &self.marks {
            mark.clear_if_set();
        }
        fence(Ordering::SeqCst);
        for (sent, seen) in self.sent.iter().zip(&self.seen) {
            let now = sent.load(Ordering::Relaxed);
            if seen.load(Ordering::Relaxed) < now {
                seen.fetch_max(now, Ordering::Relaxed);
            }
        }
    }

    /// [`look`](Self::look), but what arrives between the look and the clearing of the mark is lost.
    fn look_too_early(&'static self) {
        for (sent, seen) in self.sent.iter().zip(&self.seen) {
            seen.fetch_max(sent.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        // What a ringer who is lucky with the time does right here. (Left to the scheduler it is too rare on a
        // busy machine.)
        if self.marks[0].is_set() {
            let _suppressed = self.send(0, Urgency::Urgent);
        }
        for mark in &self.marks {
            mark.clear_if_set();
        }
        self.own().take();
    }

    pub fn all_seen(&self) -> bool {
        self.sent.iter().zip(&self.seen).all(|(s, d)| s.load(Ordering::Relaxed) == d.load(Ordering::Relaxed))
    }

    pub fn seen(&self, lane: usize) -> u64 {
        self.seen[lane].load(Ordering::Relaxed)
    }

    pub fn sent(&self, lane: usize) -> u64 {
        self.sent[lane].load(Ordering::Relaxed)
    }

    pub fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }
}

/// Off: rings to a `uintr` receiver go by signal.
pub static CONNECTS: AtomicBool = AtomicBool::new(true);

/// What a ringer does once for each receiver, outside of handlers.
fn connect_once(target: &Descriptor) {
    static LAST: AtomicU64 = AtomicU64::new(0);
    if thread::in_handler() || !CONNECTS.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: no precondition.
    let process = u64::from(unsafe { libc::getpid() } as u32);
    let key = process << 32 | u64::from(target.attention().tid());
    if LAST.load(Ordering::Relaxed) == key || LAST.swap(key, Ordering::Relaxed) == key {
        return;
    }
    // If it fails, rings go by signal: what `connecting` looks at.
    core::mem::forget(tocsin_doorbell::connect(target));
}

/// Whether [`emulate_if_need_be`] can do something.
pub fn emulation_possible() -> bool {
    cfg!(all(target_arch = "x86_64", not(miri))) && tocsin_uintr_sys::xsave::compact_size(3).is_some()
}

/// Has this process emulate user interrupts, unless the machine has them.
pub fn emulate_if_need_be() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    tocsin_uintr_sys::emulation::start();
}

/// What the entry function asks.
pub static CONTROL: AtomicPtr<Control> = AtomicPtr::new(core::ptr::null_mut());

/// The entry function of all ranks here.
///
/// # Safety
/// `context` is a `&'static Shared`.
pub unsafe fn run(context: *const (), cause: Cause) {
    // SAFETY: the caller's promise.
    let shared: &'static Shared = unsafe { &*context.cast() };
    let local = 0u8;
    shared.stack.store((&raw const local).addr(), Ordering::Relaxed);
    shared.runs.fetch_add(1, Ordering::Relaxed);
    match cause {
        Cause::Ring | Cause::UserInterrupt => {}
        Cause::Timer => drop(shared.timer_runs.fetch_add(1, Ordering::Relaxed)),
        Cause::Unmask => drop(shared.unmask_runs.fetch_add(1, Ordering::Relaxed)),
    }
    if thread::depth() != 1 {
        shared.broken_runs.fetch_add(1, Ordering::Relaxed);
    }
    shared.look();
    if shared.again.load(Ordering::Relaxed) > 0 {
        shared.again.fetch_sub(1, Ordering::Relaxed);
        let control = CONTROL.load(Ordering::Relaxed);
        // SAFETY: null, or a leaked box.
        if !unsafe { control.as_ref() }.is_some_and(Control::again) {
            shared.broken_runs.fetch_add(1, Ordering::Relaxed);
        }
    }
    if shared.ring_in_handler.load(Ordering::Relaxed) > 0 {
        shared.ring_in_handler.fetch_sub(1, Ordering::Relaxed);
        let _any = shared.send(LANES - 1, Urgency::Urgent);
    }
}

/// The calling thread as an interruptible rank; with its progress thread where the backend has one.
pub struct Rank {
    pub shared: &'static Shared,
    pub kind: BackendKind,
    receiver: Option<Receiver>,
    progress: Option<std::thread::JoinHandle<()>>,
}

impl Rank {
    pub fn start(shared: &'static Shared, kind: BackendKind) -> Rank {
        Rank::configured(shared, &Config::new(kind))
    }

    pub fn configured(shared: &'static Shared, config: &Config) -> Rank {
        if config.signal != Config::default().signal {
            // A case about that signal.
            CONNECTS.store(false, Ordering::Relaxed);
        }
        let context = core::ptr::from_ref(shared).cast();
        // SAFETY: the memory is never unmapped; `run` obeys the handler rules; the receiver is dropped with
        // the rank, or its process ends.
        let receiver =
            unsafe { Receiver::install(&raw const shared.descriptor, config, run, context) }.unwrap();
        assert_eq!(receiver.backend(), config.backend);
        shared.look();
        let progress = (config.backend == BackendKind::Thread).then(|| {
            std::thread::spawn(move || {
                while !shared.stop.load(Ordering::Relaxed) {
                    shared.own().sleep(None, || shared.stop.load(Ordering::Relaxed) || !shared.all_seen());
                    shared.look();
                }
            })
        });
        Rank { shared, kind: config.backend, receiver: Some(receiver), progress }
    }

    pub fn control(&self) -> Control {
        self.receiver.as_ref().unwrap().control()
    }

    /// Computes until the condition holds. Only who has no other way to notice makes library calls.
    pub fn compute_until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let limit = if self.shared.broken.load(Ordering::Relaxed) { 1 } else { 9 };
        let deadline = Instant::now() + Duration::from_secs(limit);
        while !condition() {
            for _ in 0..64 {
                core::hint::spin_loop();
            }
            if self.kind == BackendKind::Poll {
                self.shared.look();
            }
            std::thread::yield_now();
            assert!(Instant::now() < deadline, "{what}: {:?}", self.shared);
        }
        assert_eq!(self.shared.broken_runs.load(Ordering::Relaxed), 0, "nested or unscoped run");
    }

    pub fn compute_until_all_seen(&self) {
        self.compute_until("a wake-up was lost", || self.shared.all_seen());
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        self.receiver = None;
        if let Some(progress) = self.progress.take() {
            self.shared.stop.store(true, Ordering::Relaxed);
            self.shared.own().wake_own();
            progress.join().unwrap();
        }
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

/// Spins, with yields, until the condition holds.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(9);
    while !condition() {
        std::thread::yield_now();
        assert!(Instant::now() < deadline, "{what}");
    }
}

/// tgkill of the calling thread.
pub fn signal_this_thread(signal: i32) {
    // SAFETY: no memory is involved.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal) };
}
