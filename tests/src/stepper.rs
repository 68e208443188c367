//! Every-instruction stepping: injects a handler at each instruction boundary of an operation.
//!
//! A handler may come between *any* two instructions of the code it interrupts. Models show that a protocol
//! is right; this shows that the machine code is, with whatever the compiler made of it. x86-64 only.
//!
//! # For users
//! Describe a case by four closures over a state `S` that the operation and the handler share (by `&S`, so it
//! has interior mutability: cells, atomics, raw pointers):
//!
//! ```no_run
//! # use tocsin_tests::stepper::Stepper;
//! # use std::cell::Cell;
//! let report = Stepper::new().every_boundary(
//!     || Cell::new(0u32),                       // a fresh state for every run
//!     |state| state.set(state.get() + 1),       // the operation, single-stepped
//!     |state| state.set(state.get() + 1),       // the handler, injected at one boundary of each run
//!     |state| match state.get() {               // the outcome, after the operation
//!         2 => Ok(()),
//!         n => Err(format!("{n} instead of 2")),
//!     },
//! );
//! println!("{report}");                         // counts of boundaries, lost updates, hangs
//! ```
//!
//! - [`Stepper::every_boundary`]: for each boundary k: fresh state, step the operation, inject the handler at
//!   k, check. Costs about N * (N + H) steps for an operation of N and a handler of H instructions; a step
//!   takes 1 to 8 us. [`Stepper::every_nth`] takes a sample.
//! - [`Stepper::in_turn`]: one run, the handler injected at every boundary of it. Costs N * H steps.
//!
//! The handler runs as the doorbell's does: on the interrupted thread, inside a
//! [`HandlerScope`] (so that the tripwire allocator aborts when it
//! allocates, and `in_handler()` is true), `errno` kept. So it must not panic or format: let it note what it
//! sees, and let `check` judge. It is itself single-stepped, but nothing is injected into it: a handler that
//! waits for the interrupted code is found by the number of its steps, not by a test that never ends.
//! [`Stepper::step_handler`]`(false)` makes long handlers cheap and hangs fatal.
//!
//! A run whose operation or handler exceeds its limit of steps is a *hang*: it is abandoned where it stands
//! (its frames are never unwound, its state is leaked), reported, and the next run begins.
//!
//! # What is skipped
//! - The boundary right after a `syscall` instruction: the kernel clears the trap flag on entry and restores it
//!   on return, and the trap comes one instruction later. The vDSO is stepped like other code.
//! - `rep`-prefixed string instructions trap once per element: keep payloads small (64 bytes).
//! - Threads that the operation starts are not stepped (a thread inherits the flag; it is cleared there).
//! - The operation must not block `SIGTRAP`: the kernel kills a process that traps with the signal blocked.
//!
//! # Implementation details
//! The operation is called with EFLAGS.TF set. Each instruction then raises `SIGTRAP`; the kernel clears TF
//! for the handler and restores it with the rest of the context. One thread steps at a time (a mutex).

use std::any::Any;
use std::cell::UnsafeCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, Once, PoisonError};
use tocsin_sync::atomic::real::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::Relaxed};
use tocsin_sync::thread::HandlerScope;
use tocsin_sync::{errno, thread};

const TRAP_FLAG: i64 = 0x100;

/// How to step.
#[derive(Debug, Clone, Copy)]
pub struct Stepper {
    operation_limit: u64,
    handler_limit: u64,
    step_handler: bool,
}

impl Default for Stepper {
    fn default() -> Self {
        Self::new()
    }
}

/// Who did not come to an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hang {
    /// The interrupted operation.
    Operation,
    /// The handler: it waited for the code that it interrupted.
    Handler,
}

/// What stepping found.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Instruction boundaries of the operation without a handler.
    pub boundaries: u64,
    /// Handlers injected.
    pub injections: u64,
    /// Single steps in all.
    pub steps: u64,
    /// The most instructions that a handler took: its bound, as far as it was seen. 0 when not stepped.
    pub longest_handler: u64,
    /// The boundaries at which a handler led to a hang.
    pub hangs: Vec<(u64, Hang)>,
    /// The boundaries at which a handler led to an outcome that `check` refused, and what it said.
    pub wrong: Vec<(u64, String)>,
}

impl Report {
    /// No hang, no wrong outcome.
    pub fn is_clean(&self) -> bool {
        self.hangs.is_empty() && self.wrong.is_empty()
    }

    /// Adds another report's counts and findings, for totals.
    pub fn add(&mut self, other: &Report) {
        self.boundaries += other.boundaries;
        self.injections += other.injections;
        self.steps += other.steps;
        self.longest_handler = self.longest_handler.max(other.longest_handler);
        self.hangs.extend_from_slice(&other.hangs);
        self.wrong.extend_from_slice(&other.wrong);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} boundaries, {} injections, {} steps, longest handler {} instructions, {} hangs, {} wrong outcomes",
            self.boundaries,
            self.injections,
            self.steps,
            self.longest_handler,
            self.hangs.len(),
            self.wrong.len()
        )?;
        if let Some((k, who)) = self.hangs.first() {
            write!(f, "; first hang at boundary {k}: {who:?}")?;
        }
        if let Some((k, why)) = self.wrong.first() {
            write!(f, "; first wrong outcome at boundary {k}: {why}")?;
        }
        Ok(())
    }
}

impl Stepper {
    /// Limits of 200 000 steps for the operation and for each handler; handlers are stepped.
    pub fn new() -> Stepper {
        Stepper { operation_limit: 200_000, handler_limit: 200_000, step_handler: true }
    }

    /// More steps than these are a hang.
    #[must_use]
    pub fn limits(self, operation: u64, handler: u64) -> Stepper {
        Stepper { operation_limit: operation, handler_limit: handler, ..self }
    }

    /// Whether handlers are stepped: their hangs found and their instructions counted, at the price of a
    /// trap each.
    #[must_use]
    pub fn step_handler(self, yes: bool) -> Stepper {
        Stepper { step_handler: yes, ..self }
    }

    /// For every boundary of the operation, a run with a fresh state and the handler injected there.
    ///
    /// # Panics
    /// When the operation hangs or is wrong without a handler, or panics.
    pub fn every_boundary<S>(
        &self,
        fresh: impl FnMut() -> S,
        operation: impl FnMut(&S),
        handler: impl FnMut(&S),
        check: impl FnMut(&S) -> Result<(), String>,
    ) -> Report {
        self.every_nth(1, fresh, operation, handler, check)
    }

    /// As [`every_boundary`](Self::every_boundary), for the first of every `nth` boundaries.
    ///
    /// # Panics
    /// As there.
    pub fn every_nth<S>(
        &self,
        nth: u64,
        mut fresh: impl FnMut() -> S,
        mut operation: impl FnMut(&S),
        mut handler: impl FnMut(&S),
        mut check: impl FnMut(&S) -> Result<(), String>,
    ) -> Report {
        let mut report = Report::default();
        // Twice without a handler: the first run binds symbols and warms up what is lazy.
        for _ in 0..2 {
            let state = fresh();
            report.boundaries = self.run(&state, &mut operation, &mut handler, Inject::Never).boundaries;
        }
        let mut k = 0;
        // An interrupted operation may take a longer way; go on until the boundary is not reached any more.
        loop {
            let state = fresh();
            let ran = self.run(&state, &mut operation, &mut handler, Inject::At(k));
            if ran.injections == 0 && ran.hang.is_none() {
                return report;
            }
            report.take(k, ran, state, &mut check);
            k += nth.max(1);
        }
    }

    /// One run with a fresh state in which the handler is injected at every boundary in turn.
    ///
    /// # Panics
    /// When the operation panics.
    pub fn in_turn<S>(
        &self,
        mut fresh: impl FnMut() -> S,
        mut operation: impl FnMut(&S),
        mut handler: impl FnMut(&S),
        mut check: impl FnMut(&S) -> Result<(), String>,
    ) -> Report {
        let mut report = Report::default();
        let state = fresh();
        let ran = self.run(&state, &mut operation, &mut handler, Inject::Always);
        report.boundaries = ran.boundaries;
        let last = ran.boundaries.saturating_sub(1);
        report.take(last, ran, state, &mut check);
        report
    }

    fn run<S>(
        &self,
        state: &S,
        operation: &mut dyn FnMut(&S),
        handler: &mut dyn FnMut(&S),
        inject: Inject,
    ) -> Ran {
        let one_at_a_time = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        install();
        // On a thread with a receiver there is a registration already, which serves as well.
        let registration = thread::register(std::ptr::null());
        let mut operation = Call { call: &mut || operation(state), panic: None };
        let mut handler = Call { call: &mut || handler(state), panic: None };
        let stepping = &STEPPING;
        stepping.boundary.store(0, Relaxed);
        stepping.handler_steps.store(0, Relaxed);
        stepping.all_handler_steps.store(0, Relaxed);
        stepping.longest_handler.store(0, Relaxed);
        stepping.injections.store(0, Relaxed);
        stepping.in_handler.store(false, Relaxed);
        stepping.hang.store(0, Relaxed);
        stepping.operation_limit.store(self.operation_limit, Relaxed);
        stepping.handler_limit.store(self.handler_limit, Relaxed);
        stepping.step_handler.store(self.step_handler, Relaxed);
        stepping.handler.store((&raw mut handler).cast(), Relaxed);
        let (first, last) = match inject {
            Inject::Never => (1, 0),
            Inject::At(k) => (k, k),
            Inject::Always => (0, u64::MAX),
        };
        stepping.first.store(first, Relaxed);
        stepping.last.store(last, Relaxed);
        stepping.thread.store(thread::pointer(), Relaxed);
        // SAFETY: `operation` is a live `Call`; the landing place is this process's own static, used by one
        // thread at a time (the mutex). When the call is abandoned, its frames hold references to `state` and
        // to locals of this function, all of which outlive the call.
        unsafe { call_stepped((&raw mut operation).cast(), run_call, STEPPING.landing.get()) };
        stepping.thread.store(0, Relaxed);
        // Closes the scope of a handler that was abandoned.
        // SAFETY: no handler runs any more, and the mutex keeps other threads out.
        drop(unsafe { (*STEPPING.scope.get()).take() });
        drop(registration);
        if let Some(panic) = operation.panic.or(handler.panic) {
            resume_unwind(panic);
        }
        let hang = match stepping.hang.load(Relaxed) {
            0 => None,
            1 => Some(Hang::Operation),
            _ => Some(Hang::Handler),
        };
        assert!(
            hang.is_none() || !matches!(inject, Inject::Never),
            "the operation exceeds its limit of steps without any handler"
        );
        let ran = Ran {
            boundaries: stepping.boundary.load(Relaxed),
            injections: stepping.injections.load(Relaxed),
            handler_steps: stepping.all_handler_steps.load(Relaxed),
            longest_handler: stepping.longest_handler.load(Relaxed),
            hang,
        };
        // Not earlier: the next run resets what was just read.
        drop(one_at_a_time);
        ran
    }
}

impl Report {
    fn take<S>(&mut self, k: u64, ran: Ran, state: S, check: &mut dyn FnMut(&S) -> Result<(), String>) {
        self.injections += ran.injections;
        self.steps += ran.boundaries + ran.handler_steps;
        self.longest_handler = self.longest_handler.max(ran.longest_handler);
        match ran.hang {
            Some(who) => {
                self.hangs.push((k, who));
                // The abandoned code may have left anything in it.
                std::mem::forget(state);
            }
            None => {
                if let Err(why) = check(&state) {
                    self.wrong.push((k, why));
                }
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Inject {
    Never,
    At(u64),
    Always,
}

struct Ran {
    boundaries: u64,
    injections: u64,
    handler_steps: u64,
    longest_handler: u64,
    hang: Option<Hang>,
}

/// A closure to call, and the panic it ended with.
struct Call<'a> {
    call: &'a mut dyn FnMut(),
    panic: Option<Box<dyn Any + Send>>,
}

/// # Safety
/// `call` points to a live [`Call`] that nobody else uses.
unsafe extern "C" fn run_call(call: *mut u8) {
    // SAFETY: the caller's promise.
    let call = unsafe { &mut *call.cast::<Call<'_>>() };
    // A panic must not unwind through assembly.
    call.panic = catch_unwind(AssertUnwindSafe(|| (call.call)())).err();
}

/// Where an abandoned run goes on.
#[repr(C)]
struct Landing {
    stack: u64,
    instruction: u64,
}

/// What the trap handler knows. Written by `run` before, by the trap handler during a run; one at a time.
struct Stepping {
    thread: AtomicUsize,
    boundary: AtomicU64,
    first: AtomicU64,
    last: AtomicU64,
    injections: AtomicU64,
    in_handler: AtomicBool,
    step_handler: AtomicBool,
    handler_steps: AtomicU64,
    all_handler_steps: AtomicU64,
    longest_handler: AtomicU64,
    operation_limit: AtomicU64,
    handler_limit: AtomicU64,
    /// 0: none; 1: operation; 2: handler.
    hang: AtomicU64,
    handler: AtomicPtr<u8>,
    landing: UnsafeCell<Landing>,
    handler_landing: UnsafeCell<Landing>,
    scope: UnsafeCell<Option<HandlerScope>>,
}

// SAFETY: the cells are used by the thread that holds ONE_AT_A_TIME, and by its trap handler.
unsafe impl Sync for Stepping {}

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

static STEPPING: Stepping = Stepping {
    thread: AtomicUsize::new(0),
    boundary: AtomicU64::new(0),
    first: AtomicU64::new(1),
    last: AtomicU64::new(0),
    injections: AtomicU64::new(0),
    in_handler: AtomicBool::new(false),
    step_handler: AtomicBool::new(true),
    handler_steps: AtomicU64::new(0),
    all_handler_steps: AtomicU64::new(0),
    longest_handler: AtomicU64::new(0),
    operation_limit: AtomicU64::new(0),
    handler_limit: AtomicU64::new(0),
    hang: AtomicU64::new(0),
    handler: AtomicPtr::new(std::ptr::null_mut()),
    landing: UnsafeCell::new(Landing { stack: 0, instruction: 0 }),
    handler_landing: UnsafeCell::new(Landing { stack: 0, instruction: 0 }),
    scope: UnsafeCell::new(None),
};

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: a zeroed sigaction is valid; the handler has the three-argument form that SA_SIGINFO asks
        // for. SA_NODEFER: a stepped handler traps inside the trap handler.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_trap as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
            assert_eq!(libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut()), 0);
        }
    });
}

extern "C" fn on_trap(_signal: i32, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let stepping = &STEPPING;
    // SAFETY: the kernel passes the interrupted context, which is ours to change until we return.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let flags = &mut registers[libc::REG_EFL as usize];
    if stepping.thread.load(Relaxed) != thread::pointer() {
        // A thread that inherited the flag from the one that started it.
        *flags &= !TRAP_FLAG;
        return;
    }
    let abandon = if stepping.in_handler.load(Relaxed) {
        let steps = stepping.handler_steps.load(Relaxed) + 1;
        stepping.handler_steps.store(steps, Relaxed);
        if steps > stepping.handler_limit.load(Relaxed) { 2 } else { 0 }
    } else {
        let k = stepping.boundary.load(Relaxed);
        stepping.boundary.store(k + 1, Relaxed);
        if k > stepping.operation_limit.load(Relaxed) {
            1
        } else {
            if k >= stepping.first.load(Relaxed) && k <= stepping.last.load(Relaxed) {
                inject();
            }
            0
        }
    };
    if abandon != 0 {
        stepping.hang.store(abandon, Relaxed);
        // SAFETY: written by `call_stepped` of the operation, whose frame is still there.
        let landing = unsafe { &*stepping.landing.get() };
        *flags &= !TRAP_FLAG;
        registers[libc::REG_RSP as usize] = landing.stack as i64;
        registers[libc::REG_RIP as usize] = landing.instruction as i64;
    }
}

/// Runs the handler as a doorbell would.
fn inject() {
    let stepping = &STEPPING;
    stepping.injections.store(stepping.injections.load(Relaxed) + 1, Relaxed);
    stepping.handler_steps.store(0, Relaxed);
    let errno = errno::Saved::save();
    // SAFETY: handlers do not nest (`in_handler`), and this is the stepping thread. The scope lies in a static
    // so that `run` can close it when the handler is abandoned.
    unsafe { *stepping.scope.get() = Some(HandlerScope::enter()) };
    stepping.in_handler.store(true, Relaxed);
    let handler = stepping.handler.load(Relaxed);
    // SAFETY: `run` put a live `Call` there, which nothing else uses while it waits for the operation.
    unsafe {
        if stepping.step_handler.load(Relaxed) {
            call_stepped(handler, run_call, stepping.handler_landing.get());
        } else {
            run_call(handler);
        }
    }
    stepping.in_handler.store(false, Relaxed);
    // SAFETY: as above.
    drop(unsafe { (*stepping.scope.get()).take() });
    let steps = stepping.handler_steps.load(Relaxed);
    stepping.all_handler_steps.store(stepping.all_handler_steps.load(Relaxed) + steps, Relaxed);
    stepping.longest_handler.store(stepping.longest_handler.load(Relaxed).max(steps), Relaxed);
    drop(errno);
}

/// Calls `function(argument)` with the trap flag set. Also "returns" when the trap handler sets stack and
/// instruction pointer to what it finds in `landing`: then the call is abandoned where it stands.
///
/// # Safety
/// `function(argument)` may be called and does not unwind; the trap handler is installed; `landing` is
/// writable. If the call may be abandoned, nothing relies on its frames' being left in order.
#[unsafe(naked)]
unsafe extern "C" fn call_stepped(
    argument: *mut u8,
    function: unsafe extern "C" fn(*mut u8),
    landing: *mut Landing,
) {
    core::arch::naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "mov [rdx], rsp",
        "lea rax, [rip + 2f]",
        "mov [rdx + 8], rax",
        "pushfq",
        "or qword ptr [rsp], 0x100",
        "popfq",
        "call rsi",
        "pushfq",
        "and qword ptr [rsp], -257",
        "popfq",
        "2:",
        "cld",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}
