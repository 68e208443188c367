//! Restartable sequences that the kernel forgets between delivery and the handler, as it does when it preempts there.

use crate::common::{RUNS, cpus, install, on_signal, receiver, runs, signal_stack, until};
use crate::state::{STOP, Section, section};
use core::ffi::c_void;
use tocsin_sync::atomic::real::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use tocsin_uintr_sys::{Config, Frame, emulation};

/// Where an area names its section.
const SECTION_WORD: usize = 8;
/// The trampoline's instructions up to and including its load of that word.
const LOADED: u64 = 4;
/// Looked at: all up to there, and enough beyond.
const LOOKED_AT: u64 = 40;

static AREA: AtomicUsize = AtomicUsize::new(0);
/// Instructions of the trampoline before the section is forgotten; 0: it is not.
static FORGET_AFTER: AtomicU64 = AtomicU64::new(0);
static STEPS: AtomicU64 = AtomicU64::new(0);
/// What is named then: no section, or another, as a signal's handler leaves one of its own.
static NAMED_THEN: AtomicU64 = AtomicU64::new(0);

fn named_section() -> *mut u64 {
    core::ptr::with_exposed_provenance_mut(AREA.load(Ordering::Relaxed).wrapping_add(SECTION_WORD))
}

/// What the kernel does when it preempts the trampoline after so many instructions.
extern "C" fn forgets(_: i32, _: *mut libc::siginfo_t, context: *mut c_void) {
    const TRAP: i64 = 1 << 8;
    let steps = STEPS.fetch_add(1, Ordering::Relaxed) + 1;
    if steps >= FORGET_AFTER.load(Ordering::Relaxed) {
        // SAFETY: the kernel's ucontext; this thread's area.
        unsafe {
            (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP;
            named_section().write_volatile(NAMED_THEN.load(Ordering::Relaxed));
        }
    }
}

/// A delivery into a section, which is forgotten after so many of the trampoline's instructions: whether it was aborted.
fn delivered(receiver: &tocsin_uintr_sys::Receiver, forget_after: u64) -> bool {
    let sender = receiver.vector(0).unwrap().fd().unwrap().sender().unwrap();
    STOP.store(0, Ordering::Relaxed);
    STEPS.store(0, Ordering::Relaxed);
    FORGET_AFTER.store(forget_after, Ordering::Relaxed);
    emulation::step_into_handlers(forget_after > 0);
    let seen = runs();
    let ringer = std::thread::spawn(move || {
        // SAFETY: the receiver's thread lives until this one has ended.
        while unsafe { named_section().read_volatile() } == 0 {
            core::hint::spin_loop();
        }
        sender.send();
        until("the ring is seen", || runs() > seen);
        STOP.store(1, Ordering::Relaxed);
    });
    let aborted = section(named_section().wrapping_sub(1).cast(), &mut Section::new(0));
    emulation::step_into_handlers(false);
    ringer.join().unwrap();
    assert!(STEPS.load(Ordering::Relaxed) == forget_after, "it was stepped through");
    aborted
}

/// By the emulation alone: nothing real can be stepped through.
pub fn forgotten_at_each_instruction() {
    if !emulation::on() {
        return;
    }
    signal_stack();
    on_signal(libc::SIGTRAP, libc::SA_ONSTACK, forgets);
    let mut another = Section::new(0);
    // Nobody's code; the abort address lies outside.
    another.words = [0, 1, 8];
    for named_then in [0, (&raw const another).expose_provenance() as u64] {
        NAMED_THEN.store(named_then, Ordering::Relaxed);
        let mut lost = 0;
        for forget_after in 1..=LOOKED_AT {
            let receiver = receiver();
            AREA.store(emulation::rseq_area(true).expose_provenance(), Ordering::Relaxed);
            // The first delivery into a section that no handler has seen: this much remains, and no more.
            let aborted = delivered(&receiver, forget_after);
            assert_eq!(aborted, forget_after >= LOADED, "after {forget_after} instructions");
            lost += u64::from(!aborted);
            // Once it was seen it is not lost again.
            assert!(delivered(&receiver, 0));
            assert!(delivered(&receiver, forget_after), "after {forget_after} instructions");
            let statistics = receiver.statistics();
            assert_eq!(statistics.aborted_sequences, 2 + u64::from(aborted));
            assert_eq!(statistics.forgotten_sequences, u64::from(!aborted));
        }
        assert_eq!(lost, LOADED - 1);
    }
}

static LOW: AtomicU64 = AtomicU64::new(0);
static LENGTH: AtomicU64 = AtomicU64::new(0);
static STILL_INSIDE: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn looks_where(_vector: u64, frame: *mut Frame, _context: *const c_void) {
    // SAFETY: delivery's own.
    let rip = unsafe { (*frame).rip };
    if rip.wrapping_sub(LOW.load(Ordering::Relaxed)) < LENGTH.load(Ordering::Relaxed) {
        STILL_INSIDE.fetch_add(1, Ordering::Relaxed);
    }
    RUNS.fetch_add(1, Ordering::Release);
}

fn pin_to(cpu: usize) {
    // SAFETY: zeroed is an empty set; a live local.
    unsafe {
        let mut set: libc::cpu_set_t = core::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &raw const set), 0);
    }
}

/// For root; another user's thread preempts whenever the scheduler lets who has slept go first.
fn real_time() {
    let priority = libc::sched_param { sched_priority: 10 };
    // SAFETY: a live local.
    let refused = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) } != 0;
    // SAFETY: no precondition.
    assert!(!refused || unsafe { libc::geteuid() } != 0, "root may");
}

fn sleep_ns(ns: i64) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: ns };
    // SAFETY: a live local.
    unsafe { libc::nanosleep(&raw const time, core::ptr::null_mut()) };
}

/// Deliveries into a section while a real-time thread preempts the receiver at any instruction: no handler finds itself
/// above code that is still inside. Goes on until so many of those sections were forgotten before the trampoline had looked as
/// `TOCSIN_TEST_FORGOTTEN` says: none but where a CPU's turn may end after any instruction.
pub fn preempted_at_any_instruction() {
    const ROUNDS: u64 = 5_000;
    const PREEMPTIONS: u64 = 200;
    const SHORTEST_PAUSE_NS: i64 = 400_000;
    const LONGEST_PAUSE_NS: i64 = 100_000_000;
    const RUNS_BETWEEN: u64 = 5;
    let wanted = std::env::var("TOCSIN_TEST_FORGOTTEN").map_or(0, |number| number.parse().unwrap());
    let (preemptions, enough) = (AtomicU64::new(0), AtomicBool::new(wanted == 0));
    let [here, there, ..] = cpus()[..] else {
        println!("left out: one CPU");
        return;
    };
    let receiver = install(&Config::default(), looks_where);
    let area = emulation::rseq_area(false);
    assert!(!area.is_null(), "this C library registers no restartable sequences");
    let sender = receiver.vector(0).unwrap().fd().unwrap().sender().unwrap();
    let mut descriptor = Section::new(0);
    // One delivery with nobody else about: the section is known from here on.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin_to(there);
            while runs() == 0 {
                sender.send();
                sleep_ns(1_000_000);
            }
            STOP.store(1, Ordering::Relaxed);
        });
        loop {
            section(area, &mut descriptor);
            if STOP.load(Ordering::Relaxed) != 0 {
                break;
            }
        }
    });
    assert!(descriptor.words[1] > 0, "the section has a length");
    LOW.store(descriptor.words[0], Ordering::Relaxed);
    LENGTH.store(descriptor.words[1], Ordering::Relaxed);
    STOP.store(0, Ordering::Relaxed);
    pin_to(here);
    let aborted = std::thread::scope(|scope| {
        scope.spawn(|| {
            pin_to(here);
            real_time();
            let (mut pause, mut before) = (SHORTEST_PAUSE_NS, 0);
            while STOP.load(Ordering::Relaxed) == 0 {
                let wakeups = preemptions.fetch_add(1, Ordering::Relaxed);
                // A slow machine would have time for nothing but these.
                let enough = runs() - before >= RUNS_BETWEEN;
                pause =
                    if enough { SHORTEST_PAUSE_NS.max(pause / 2) } else { LONGEST_PAUSE_NS.min(pause * 2) };
                before = runs();
                sleep_ns(pause + (wakeups * 7919 % 200_000) as i64);
            }
        });
        scope.spawn(|| {
            pin_to(there);
            let mut random = 1u32;
            while runs() < ROUNDS
                || preemptions.load(Ordering::Relaxed) < PREEMPTIONS
                || !enough.load(Ordering::Relaxed)
            {
                sender.send();
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                for _ in 0..100 + (random >> 20) % 300 {
                    core::hint::spin_loop();
                }
            }
            STOP.store(1, Ordering::Relaxed);
        });
        let mut aborted = 0u64;
        while STOP.load(Ordering::Relaxed) == 0 {
            aborted += u64::from(section(area, &mut descriptor));
            enough.store(receiver.statistics().forgotten_sequences >= wanted, Ordering::Relaxed);
        }
        aborted
    });
    let (ours, forgotten) =
        (receiver.statistics().aborted_sequences, receiver.statistics().forgotten_sequences);
    let inside = STILL_INSIDE.load(Ordering::Relaxed);
    println!(
        "{} runs, {preemptions:?} preemptions, {ours} aborts by handlers of {aborted}, {forgotten} of them forgotten, \
         {inside} left inside",
        runs()
    );
    assert!(ours > 100, "{ours}");
    assert_eq!(inside, 0, "handlers left the section un-aborted");
}
