//! Handlers and signals within each other.

use crate::common::{Ended, fork};
use crate::common::{
    PLACE, RUNS, install, on_signal, receiver, receiver_on, runs, signal_stack, signal_this_thread, until,
};
use core::arch::{asm, naked_asm};
use core::ffi::c_void;
use std::time::{Duration, Instant};
use tocsin_sync::atomic::real::{AtomicU64, AtomicUsize, Ordering};
use tocsin_uintr_sys::{Config, Frame, Masked, Sender, Stack, heal, heal_here, instructions};

static SENDER: AtomicUsize = AtomicUsize::new(0);
static SIGNALS: AtomicU64 = AtomicU64::new(0);
static BROKEN: AtomicU64 = AtomicU64::new(0);

fn publish(sender: &Sender) {
    SENDER.store(core::ptr::from_ref(sender).expose_provenance(), Ordering::Release);
}

fn ring() {
    // SAFETY: `publish` was given a sender that outlives the test.
    unsafe { (*core::ptr::with_exposed_provenance::<Sender>(SENDER.load(Ordering::Acquire))).send() };
}

fn signals() -> u64 {
    SIGNALS.load(Ordering::Relaxed)
}

/// Computes in a handler until the condition holds.
fn wait(mut condition: impl FnMut() -> bool) {
    while !condition() {
        core::hint::spin_loop();
    }
}

fn place() -> usize {
    let local = 0u8;
    (&raw const local).addr()
}

extern "C" fn count_signal(_: i32, _: *mut libc::siginfo_t, _: *mut c_void) {
    PLACE.store(place() as u64, Ordering::Relaxed);
    // Much of the signal stack is written.
    let mut much = [0x77u8; 4096];
    core::hint::black_box(&mut much);
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

unsafe extern "C" fn signals_itself(vector: u64, frame: *mut Frame, _context: *const c_void) {
    // SAFETY: delivery's own.
    let before = unsafe { frame.read_volatile() };
    let mut canaries = [vector; 64];
    core::hint::black_box(&mut canaries);
    let seen = signals();
    signal_this_thread(libc::SIGUSR2);
    wait(|| signals() > seen);
    // SAFETY: delivery's own.
    let intact = unsafe { frame.read_volatile() } == before;
    if !intact || core::hint::black_box(&canaries).iter().any(|&c| c != vector) {
        BROKEN.fetch_add(1, Ordering::Relaxed);
    }
    RUNS.fetch_add(1, Ordering::Release);
}

pub fn signal_in_handler() {
    let (low, size) = signal_stack();
    on_signal(libc::SIGUSR2, libc::SA_ONSTACK, count_signal);
    let receiver = install(&Config::default(), signals_itself);
    let sender = receiver.vector(4).unwrap().sender().unwrap();
    for round in 1..=100 {
        sender.send();
        until("the ring is seen", || runs() == round);
    }
    assert_eq!((signals(), BROKEN.load(Ordering::Relaxed)), (100, 0));
    let place = PLACE.load(Ordering::Relaxed) as usize;
    assert!((low..low + size).contains(&place), "the signal ran on its own stack");
}

extern "C" fn rings_itself(_: i32, _: *mut libc::siginfo_t, _: *mut c_void) {
    let mut canaries = [0x33u8; 512];
    core::hint::black_box(&mut canaries);
    let seen = runs();
    ring();
    wait(|| runs() > seen);
    if core::hint::black_box(&canaries).iter().any(|&c| c != 0x33) {
        BROKEN.fetch_add(1, Ordering::Relaxed);
    }
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

pub fn handler_in_signal() {
    let (low, size) = signal_stack();
    on_signal(libc::SIGUSR1, libc::SA_ONSTACK, rings_itself);
    let receiver = receiver();
    let sender = receiver.vector(0).unwrap().sender().unwrap();
    publish(&sender);
    for round in 1..=100 {
        signal_this_thread(libc::SIGUSR1);
        assert_eq!((signals(), runs()), (round, round));
    }
    assert_eq!(BROKEN.load(Ordering::Relaxed), 0);
    let place = PLACE.load(Ordering::Relaxed) as usize;
    assert!((low..low + size).contains(&place), "the handler stays on the live signal stack");
}

/// A signal's handler on the signal stack, interrupted by a handler, interrupted by another signal, which would
/// overwrite the first if it started at the signal stack's top.
pub fn signal_in_handler_in_signal() {
    for stack in [Some(Stack::Own(64 * 1024)), Some(Stack::Kernel(64 * 1024)), Some(Stack::Interrupted), None]
    {
        let child = fork(|| {
            let (low, size) = signal_stack();
            let stack = stack.unwrap_or(Stack::Given(low, size));
            on_signal(libc::SIGUSR1, libc::SA_ONSTACK, rings_itself);
            on_signal(libc::SIGUSR2, libc::SA_ONSTACK, count_signal);
            let receiver = install(&Config::on(stack), signals_itself);
            let sender = receiver.vector(0).unwrap().sender().unwrap();
            publish(&sender);
            for round in 1..=100 {
                signal_this_thread(libc::SIGUSR1);
                assert_eq!((signals(), runs()), (2 * round, round));
            }
            assert_eq!(BROKEN.load(Ordering::Relaxed), 0);
            sender.send();
            until("the ring is seen", || runs() == 101);
        });
        assert_eq!(child.wait(), Ended::Exit(0), "{stack:?}");
    }
}

/// The same with a signal stack that is an array in the thread's ordinary stack; once set before the receiver is there, once
/// after, when it takes a signal's handler that asks for healing to become known.
pub fn signal_stack_in_the_ordinary_stack() {
    for later in [false, true] {
        let child = fork(|| {
            let mut array = [0u8; 128 * 1024];
            let stack = libc::stack_t { ss_sp: array.as_mut_ptr().cast(), ss_flags: 0, ss_size: array.len() };
            // SAFETY: the array lives as long as the process has anything to do.
            let set = || unsafe { libc::sigaltstack(&raw const stack, core::ptr::null_mut()) };
            on_signal(libc::SIGUSR1, libc::SA_ONSTACK, rings_itself);
            on_signal(libc::SIGUSR2, libc::SA_ONSTACK, count_signal);
            if !later {
                assert_eq!(set(), 0);
            }
            let receiver = install(&Config::default(), signals_itself);
            let sender = receiver.vector(0).unwrap().sender().unwrap();
            publish(&sender);
            if later {
                assert_eq!(set(), 0);
                let inside = array.as_ptr().addr() + array.len() / 2;
                // SAFETY: these change no memory. What `heal` is told is where a signal's handler would have been interrupted.
                let healed = unsafe {
                    instructions::clui();
                    let healed = heal(inside, 0);
                    instructions::stui();
                    healed
                };
                assert!(!healed, "the array is the signal stack, on which a handler may be alive");
            }
            for round in 1..=100 {
                signal_this_thread(libc::SIGUSR1);
                assert_eq!((signals(), runs()), (2 * round, round));
            }
            assert_eq!(BROKEN.load(Ordering::Relaxed), 0);
            sender.send();
            until("the ring is seen", || runs() == 101);
            core::hint::black_box(&mut array);
        });
        assert_eq!(child.wait(), Ended::Exit(0), "set later: {later}");
    }
}

/// A proof that cannot fail proves nothing: a handler that moves off a signal stack in use has it overwritten.
pub fn a_handler_that_leaves_the_signal_stack_is_caught() {
    let child = fork(|| {
        signal_stack();
        on_signal(libc::SIGUSR1, libc::SA_ONSTACK, rings_itself);
        on_signal(libc::SIGUSR2, libc::SA_ONSTACK, count_signal);
        // Whoever's frames are overwritten may well crash, or spin for ever.
        let limit = libc::rlimit { rlim_cur: 2, rlim_max: 2 };
        // SAFETY: a live local.
        unsafe { libc::setrlimit(libc::RLIMIT_CPU, &raw const limit) };
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT] {
            // SAFETY: the default action.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        let mut config = Config::on(Stack::Own(64 * 1024));
        config.broken_stacks = true;
        let receiver = install(&config, signals_itself);
        let sender = receiver.vector(0).unwrap().sender().unwrap();
        publish(&sender);
        signal_this_thread(libc::SIGUSR1);
        assert_eq!(BROKEN.load(Ordering::Relaxed), 0);
    });
    assert_ne!(child.wait(), Ended::Exit(0), "an overwritten signal stack went unnoticed");
}

unsafe extern "C" fn canaries(vector: u64, frame: *mut Frame, _context: *const c_void) {
    // SAFETY: delivery's own.
    let before = unsafe { frame.read_volatile() };
    let mut canaries = [vector; 64];
    core::hint::black_box(&mut canaries);
    for _ in 0..300 {
        core::hint::spin_loop();
    }
    // SAFETY: delivery's own.
    let intact = unsafe { frame.read_volatile() } == before;
    if !intact || core::hint::black_box(&canaries).iter().any(|&c| c != vector) {
        BROKEN.fetch_add(1, Ordering::Relaxed);
    }
    RUNS.fetch_add(1, Ordering::Release);
}

extern "C" fn signal_with_canaries(_: i32, _: *mut libc::siginfo_t, _: *mut c_void) {
    let mut canaries = [0x44u8; 512];
    core::hint::black_box(&mut canaries);
    for _ in 0..300 {
        core::hint::spin_loop();
    }
    if core::hint::black_box(&canaries).iter().any(|&c| c != 0x44) {
        BROKEN.fetch_add(1, Ordering::Relaxed);
    }
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

pub fn signals_and_handlers_at_random() {
    /// Signals and rings between two looks at whether the disturbed thread still comes to its ordinary code: it would not,
    /// where they come in faster than their handlers run.
    const BURST: u32 = 32;
    static STOP: AtomicU64 = AtomicU64::new(0);
    static LOOKS: AtomicU64 = AtomicU64::new(0);
    for stack in [Some(Stack::Own(64 * 1024)), Some(Stack::Kernel(64 * 1024)), None] {
        let child = fork(|| {
            let (low, size) = signal_stack();
            let stack = stack.unwrap_or(Stack::Given(low, size));
            on_signal(libc::SIGUSR1, libc::SA_ONSTACK, signal_with_canaries);
            on_signal(libc::SIGUSR2, libc::SA_ONSTACK, signal_with_canaries);
            let receiver = install(&Config::on(stack), canaries);
            let sender = receiver.vector(0).unwrap().fd().unwrap().sender().unwrap();
            // SAFETY: neither has a precondition.
            let (pid, tid) = unsafe { (libc::getpid(), libc::gettid()) };
            let stopped = || STOP.load(Ordering::Relaxed) != 0;
            let disturber = std::thread::spawn(move || {
                let mut random = 1u32;
                while !stopped() {
                    let looks = LOOKS.load(Ordering::Relaxed);
                    for _ in 0..BURST {
                        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        match random >> 30 {
                            0 | 1 => assert!(sender.send()),
                            which => {
                                let signal = if which == 2 { libc::SIGUSR1 } else { libc::SIGUSR2 };
                                // SAFETY: no memory is involved.
                                unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, signal) };
                            }
                        }
                        for _ in 0..(random >> 8) % 400 {
                            core::hint::spin_loop();
                        }
                    }
                    while LOOKS.load(Ordering::Relaxed) == looks && !stopped() {
                        std::thread::yield_now();
                    }
                }
            });
            let rounds = 3_000;
            let deadline = Instant::now() + Duration::from_secs(60);
            while signals() <= rounds || runs() <= rounds {
                LOOKS.fetch_add(1, Ordering::Relaxed);
                for _ in 0..100 {
                    core::hint::spin_loop();
                }
                assert!(
                    Instant::now() < deadline,
                    "{} signals and {} rings came in; unmasked: {}",
                    signals(),
                    runs(),
                    unmasked()
                );
            }
            STOP.store(1, Ordering::Relaxed);
            disturber.join().unwrap();
            assert_eq!(BROKEN.load(Ordering::Relaxed), 0);
        });
        assert_eq!(child.wait(), Ended::Exit(0), "{stack:?}");
    }
}

static ESCAPE: AtomicUsize = AtomicUsize::new(0);

/// What sigsetjmp is in C: calls `f`; returns 0 when that returns, 1 when [`escape`] was called.
#[unsafe(naked)]
unsafe extern "C" fn with_escape(f: extern "C" fn()) -> u64 {
    naked_asm!(
        "push rbx", "push rbp", "push r12", "push r13", "push r14", "push r15",
        "sub rsp, 8",
        "mov [rip + {escape}], rsp",
        "call rdi",
        "add rsp, 8",
        "pop r15", "pop r14", "pop r13", "pop r12", "pop rbp", "pop rbx",
        "xor eax, eax",
        "ret",
        escape = sym ESCAPE,
    )
}

/// What siglongjmp is in C.
#[unsafe(naked)]
unsafe extern "C" fn escape() -> ! {
    naked_asm!(
        "mov rsp, [rip + {escape}]",
        "add rsp, 8",
        "pop r15", "pop r14", "pop r13", "pop r12", "pop rbp", "pop rbx",
        "mov eax, 1",
        "ret",
        escape = sym ESCAPE,
    )
}

extern "C" fn jumps_out(signal: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's ucontext.
    let interrupted = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let (rsp, rip) = (interrupted[libc::REG_RSP as usize], interrupted[libc::REG_RIP as usize]);
    // The handler below is alive: nothing to heal.
    // SAFETY: the kernel's ucontext of this signal.
    if unsafe { heal(rsp as usize, rip as usize) } || heal_here() {
        BROKEN.fetch_add(1, Ordering::Relaxed);
    }
    SIGNALS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: as siglongjmp with a saved mask; what is jumped over has no destructors.
    unsafe {
        let mut set: libc::sigset_t = core::mem::zeroed();
        libc::sigaddset(&raw mut set, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, core::ptr::null_mut());
        escape()
    }
}

extern "C" fn ring_until_thrown_out() {
    ring();
    loop {
        core::hint::spin_loop();
    }
}

unsafe extern "C" fn signals_itself_1(_vector: u64, _frame: *mut Frame, _context: *const c_void) {
    if heal_here() {
        BROKEN.fetch_add(1, Ordering::Relaxed);
    }
    if RUNS.fetch_add(1, Ordering::Release) & 1 == 0 {
        signal_this_thread(libc::SIGUSR1);
        wait(|| false); // the signal does not return
    }
}

fn unmasked() -> bool {
    // SAFETY: a receiver is installed.
    unsafe { instructions::testui() }
}

pub fn siglongjmp_out_of_a_signal_in_a_handler() {
    for stack in [Some(Stack::Own(64 * 1024)), Some(Stack::Kernel(64 * 1024)), None] {
        let child = fork(|| {
            let (low, size) = signal_stack();
            let stack = stack.unwrap_or(Stack::Given(low, size));
            on_signal(libc::SIGUSR1, libc::SA_ONSTACK, jumps_out);
            let receiver = install(&Config::on(stack), signals_itself_1);
            let sender = receiver.vector(0).unwrap().sender().unwrap();
            publish(&sender);
            for round in 1..=20 {
                assert!(!heal_here(), "nothing to heal yet");
                // SAFETY: what is jumped over has no destructors.
                assert_eq!(unsafe { with_escape(ring_until_thrown_out) }, 1);
                assert!(!unmasked(), "the handler never returned");
                {
                    let _guard = tocsin_uintr_sys::Masked::new();
                    assert!(!heal_here(), "masked on purpose");
                }
                assert!(heal_here());
                assert!(unmasked());
                sender.send();
                until("rings come in again", || runs() == 2 * round);
                assert!(unmasked());
            }
            assert_eq!((signals(), BROKEN.load(Ordering::Relaxed)), (20, 0));
            assert_eq!(receiver.statistics().healed, 20);
        });
        assert_eq!(child.wait(), Ended::Exit(0), "{stack:?}");
    }
}

unsafe extern "C" fn breaks(_vector: u64, _frame: *mut Frame, _context: *const c_void) {
    // SAFETY: SIGTRAP has a handler.
    unsafe { asm!("int3") };
    RUNS.fetch_add(1, Ordering::Release);
}

pub fn breakpoint_in_a_handler() {
    signal_stack();
    on_signal(libc::SIGTRAP, libc::SA_ONSTACK, count_signal);
    let receiver = install(&Config::default(), breaks);
    let sender = receiver.vector(0).unwrap().sender().unwrap();
    for round in 1..=20 {
        sender.send();
        until("the ring is seen", || runs() == round);
        assert_eq!(signals(), round);
        assert!(unmasked());
    }
}

const TRAP: i64 = 1 << 8;

/// Counts a step; takes the trap flag away when the code has set the stop word.
extern "C" fn step(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
    if STOP_STEPPING.load(Ordering::Relaxed) != 0 {
        // SAFETY: the kernel's ucontext.
        unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP };
    }
}

static STOP_STEPPING: AtomicU64 = AtomicU64::new(0);

fn start_stepping() {
    // SAFETY: SIGTRAP has a handler; the flags are otherwise as before.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
}

unsafe extern "C" fn steps(_vector: u64, _frame: *mut Frame, _context: *const c_void) {
    STOP_STEPPING.store(0, Ordering::Relaxed);
    start_stepping();
    let mut sum = 0u64;
    for i in 0..20u64 {
        sum = core::hint::black_box(sum.wrapping_add(i));
    }
    STOP_STEPPING.store(1, Ordering::Relaxed);
    if core::hint::black_box(sum) != 190 {
        BROKEN.fetch_add(1, Ordering::Relaxed);
    }
    RUNS.fetch_add(1, Ordering::Release);
}

pub fn single_steps_through_a_handler() {
    signal_stack();
    on_signal(libc::SIGTRAP, libc::SA_ONSTACK, step);
    let receiver = install(&Config::default(), steps);
    let sender = receiver.vector(0).unwrap().sender().unwrap();
    for round in 1..=10 {
        let before = signals();
        sender.send();
        until("the ring is seen", || runs() == round);
        assert!(signals() > before + 15, "{} steps", signals() - before);
        assert!(unmasked());
    }
    drop(receiver);
    // And stepping through interrupted code: delivery clears the flag, UIRET gives it back.
    let receiver = receiver_on(Stack::Own(64 * 1024));
    let sender = receiver.vector(0).unwrap().sender().unwrap();
    let seen = runs();
    STOP_STEPPING.store(0, Ordering::Relaxed);
    start_stepping();
    sender.send();
    while runs() == seen {
        core::hint::spin_loop();
    }
    let after = signals();
    for i in 0..20u64 {
        core::hint::black_box(i);
    }
    STOP_STEPPING.store(1, Ordering::Relaxed);
    core::hint::black_box(());
    assert!(signals() > after + 10, "the interrupted code is stepped through after the handler, too");
    assert_eq!(BROKEN.load(Ordering::Relaxed), 0);
}

/// At which step [`step_with_a_guard`] acts.
static ACTS_AT: AtomicU64 = AtomicU64::new(0);

/// Counts a step. At one of them takes a guard and lets it go, and has the thread mended as the doorbell's handler does.
extern "C" fn step_with_a_guard(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's ucontext, and what it says of the interrupted code.
    unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        if SIGNALS.fetch_add(1, Ordering::Relaxed) == ACTS_AT.load(Ordering::Relaxed) {
            drop(Masked::new());
            heal(registers[libc::REG_RSP as usize] as usize, registers[libc::REG_RIP as usize] as usize);
        }
        if STOP_STEPPING.load(Ordering::Relaxed) != 0 {
            registers[libc::REG_EFL as usize] &= !TRAP;
        }
    }
}

/// Between any two instructions of a guard's making and of its end a signal may come whose handler takes one, too: the
/// section is masked, and unmasked after it.
pub fn a_signals_guard_at_each_instruction_of_a_guard() {
    signal_stack();
    on_signal(libc::SIGTRAP, libc::SA_ONSTACK, step_with_a_guard);
    let receiver = receiver_on(Stack::Own(64 * 1024));
    let sender = receiver.vector(0).unwrap().sender().unwrap();
    // How many steps it took. The signal comes at one of them.
    let stepped = |acts_at: u64, code: &mut dyn FnMut()| {
        SIGNALS.store(0, Ordering::Relaxed);
        ACTS_AT.store(acts_at, Ordering::Relaxed);
        STOP_STEPPING.store(0, Ordering::Relaxed);
        start_stepping();
        code();
        STOP_STEPPING.store(1, Ordering::Relaxed);
        core::hint::black_box(());
        signals()
    };
    let mut rings = 0;
    for begins in [true, false] {
        let mut acts_at = 0;
        loop {
            let mut guard = None;
            let never = u64::MAX;
            let steps = stepped(if begins { acts_at } else { never }, &mut || guard = Some(Masked::new()));
            assert!(!unmasked(), "not masked: a signal at step {acts_at} of {steps}");
            sender.send();
            assert_eq!(runs(), rings, "masked");
            let of_the_end = stepped(if begins { never } else { acts_at }, &mut || drop(guard.take()));
            rings += 1;
            until("the ring is seen", || runs() == rings);
            assert!(unmasked(), "a signal at step {acts_at} of {of_the_end}");
            acts_at += 1;
            if acts_at > if begins { steps } else { of_the_end } {
                break;
            }
        }
        assert!(acts_at > 10, "{acts_at} steps");
    }
}
