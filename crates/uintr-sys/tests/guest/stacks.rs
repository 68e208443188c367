//! Where handlers run.

use crate::common::{
    Ended, LAST, PLACE, RUNS, count, fork, install, receiver, receiver_on, runs, signal_stack, until,
};
use core::ffi::c_void;
use tocsin_sync::atomic::real::{AtomicU64, AtomicUsize, Ordering};
use tocsin_uintr_sys::{Config, Frame, Sender, Stack, instructions, kernel};

/// Rings once, and says how far below a local of the interrupted function the handler's local was.
fn distance(sender: &Sender) -> i64 {
    let local = 0u8;
    let before = runs();
    sender.send();
    until("the ring is seen", || runs() == before + 1);
    (&raw const local).addr() as i64 - PLACE.load(Ordering::Relaxed) as i64
}

pub fn interrupted_stack() {
    signal_stack();
    let receiver = receiver_on(Stack::Interrupted);
    let sender = receiver.vector(0).unwrap().sender().unwrap();
    for _ in 0..100 {
        let below = distance(&sender);
        assert!((128..16 * 1024).contains(&below), "{below}");
    }
}

fn elsewhere(stack: Stack) {
    let receiver = receiver_on(stack);
    let sender = receiver.vector(0).unwrap().sender().unwrap();
    let mut places = Vec::new();
    for _ in 0..100 {
        let below = distance(&sender);
        assert!(below.abs() > 64 * 1024, "{below}");
        places.push(PLACE.load(Ordering::Relaxed));
    }
    assert!(places.iter().all(|&p| p == places[0]), "from the top each time: {places:x?}");
}

pub fn own_stack() {
    elsewhere(Stack::Own(32 * 1024));
}

pub fn kernel_stack() {
    elsewhere(Stack::Kernel(32 * 1024));
}

pub fn canaries_around_the_kernels_stack() {
    const PAGE: usize = 4096;
    #[repr(align(4096))]
    struct Area([u8; 6 * PAGE]);
    let mut area = Box::new(Area([0xA5; 6 * PAGE]));
    let low = area.0.as_mut_ptr().addr() + PAGE;
    let receiver = receiver();
    let sender = receiver.vector(0).unwrap().sender().unwrap();
    // SAFETY: the middle of the area, which outlives its use here.
    unsafe { kernel().unwrap().alt_stack(Some((low, 4 * PAGE))) }.unwrap();
    for round in 1..=1000 {
        sender.send();
        until("the ring is seen", || runs() == round);
    }
    // SAFETY: none is set from here on.
    unsafe { kernel().unwrap().alt_stack(None) }.unwrap();
    let area = core::hint::black_box(&area.0);
    assert!(area[..PAGE].iter().all(|&b| b == 0xA5), "written below the stack");
    assert!(area[5 * PAGE..].iter().all(|&b| b == 0xA5), "written above the stack");
    assert!(area[4 * PAGE..5 * PAGE].iter().any(|&b| b != 0xA5), "starts at the stack's top");
    assert!(area[PAGE..4 * PAGE].iter().all(|&b| b == 0xA5), "starts at the stack's top, not in its middle");
    sender.send();
    until("the ring is seen on the interrupted stack again", || runs() == 1001);
}

static DEPTH: AtomicU64 = AtomicU64::new(0);
static DEEPEST: AtomicU64 = AtomicU64::new(0);
static BROKEN: AtomicU64 = AtomicU64::new(0);
static SENDER: AtomicUsize = AtomicUsize::new(0);

/// Rings and unmasks itself four deep, and looks whether that has left its own frame alone.
unsafe extern "C" fn nests(vector: u64, frame: *mut Frame, _context: *const c_void) {
    // SAFETY: delivery's own.
    let before = unsafe { frame.read_volatile() };
    let mut canaries = [vector; 64];
    core::hint::black_box(&mut canaries);
    let depth = DEPTH.fetch_add(1, Ordering::Relaxed) + 1;
    DEEPEST.fetch_max(depth, Ordering::Relaxed);
    if depth < 4 {
        let seen = RUNS.load(Ordering::Relaxed);
        // SAFETY: a sender that outlives its use; the nested handler may run.
        unsafe {
            (*core::ptr::with_exposed_provenance::<Sender>(SENDER.load(Ordering::Relaxed))).send();
            instructions::stui();
        }
        while RUNS.load(Ordering::Relaxed) == seen {
            core::hint::spin_loop();
        }
        // SAFETY: as above.
        unsafe { instructions::clui() };
    }
    // SAFETY: delivery's own.
    let intact = unsafe { frame.read_volatile() } == before;
    if !intact || core::hint::black_box(&canaries).iter().any(|&c| c != vector) {
        BROKEN.fetch_add(1, Ordering::Relaxed);
    }
    DEPTH.fetch_sub(1, Ordering::Relaxed);
    LAST.store(vector, Ordering::Relaxed);
    RUNS.fetch_add(1, Ordering::Release);
}

pub fn unmasking_inside_a_handler() {
    let (low, size) = signal_stack();
    for stack in
        [Stack::Interrupted, Stack::Own(64 * 1024), Stack::Kernel(64 * 1024), Stack::Given(low, size)]
    {
        let child = fork(|| {
            let receiver = install(&Config::on(stack), nests);
            let sender = receiver.vector(11).unwrap().sender().unwrap();
            SENDER.store((&raw const sender).expose_provenance(), Ordering::Relaxed);
            for round in 1..=20 {
                sender.send();
                until("the rings are seen", || runs() == 4 * round);
            }
            assert_eq!((DEEPEST.load(Ordering::Relaxed), BROKEN.load(Ordering::Relaxed)), (4, 0));
            // SAFETY: a receiver is installed.
            assert!(unsafe { instructions::testui() });
            SENDER.store(0, Ordering::Relaxed);
        });
        assert_eq!(child.wait(), Ended::Exit(0), "{stack:?}");
    }
}

unsafe extern "C" fn too_deep(vector: u64, frame: *mut Frame, context: *const c_void) {
    let mut local = [0u8; 8192];
    for byte in local.iter_mut().step_by(512) {
        // SAFETY: a live local.
        unsafe { core::ptr::from_mut(byte).write_volatile(1) };
    }
    // SAFETY: as this one's.
    unsafe { count(vector, frame, context) };
    core::hint::black_box(&local);
}

pub fn overflow_faults() {
    let child = fork(|| {
        // SAFETY: SIGSEGV kills, without a word.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        let receiver = install(&Config::on(Stack::Own(8192)), too_deep);
        let sender = receiver.vector(0).unwrap().sender().unwrap();
        sender.send();
        until("the ring is seen", || runs() == 1);
    });
    assert_eq!(child.wait(), Ended::Killed(libc::SIGSEGV), "the page below the stack is not to be touched");
}
