//! Masking.

use crate::common::{RUNS, install, receiver, runs, until};
use core::ffi::c_void;
use tocsin_sync::atomic::real::{AtomicU64, Ordering};
use tocsin_uintr_sys::{Config, Frame, Masked, instructions};

fn unmasked() -> bool {
    // SAFETY: a receiver is installed.
    unsafe { instructions::testui() }
}

pub fn guards_nest() {
    drop(Masked::new()); // nothing to mask
    let receiver = receiver();
    assert!(unmasked());
    let sender = receiver.vector(0).unwrap().sender().unwrap();
    let (outer, inner) = (Masked::new(), Masked::new());
    sender.send();
    assert!(!unmasked());
    drop(outer); // the order does not matter
    assert!(!unmasked() && runs() == 0);
    drop(inner);
    until("the ring is seen", || runs() == 1);
    assert!(unmasked());
    let outlives = Masked::new();
    drop(receiver);
    drop(outlives);
}

/// A guard that outlived its receiver is nobody's: not even the next receiver's.
pub fn a_guard_of_an_earlier_receiver() {
    let earlier = receiver();
    let outlives = Masked::new();
    drop(earlier);
    let receiver = receiver();
    let sender = receiver.vector(0).unwrap().sender().unwrap();
    let mine = Masked::new();
    sender.send();
    drop(outlives);
    assert!(!unmasked() && runs() == 0, "the receiver's own guard lives");
    drop(mine);
    until("the ring is seen", || runs() == 1);
    assert!(unmasked());
}

/// The ringer waits for each ring's answer, and then for a while that varies. One that rings sooner than the handler ends
/// interrupts the receiver again at every UIRET, and leaves it an instruction between two runs, or none.
pub fn nothing_runs_while_masked() {
    const SECTIONS: u32 = 2000;
    const RUNG: u32 = 100;
    let receiver = receiver();
    let sender = receiver.vector(0).unwrap().fd().unwrap().sender().unwrap();
    static STOP: AtomicU64 = AtomicU64::new(0);
    static SENT: AtomicU64 = AtomicU64::new(0);
    let ringer = std::thread::spawn(move || {
        let going_on = || STOP.load(Ordering::Relaxed) == 0;
        let mut pause = 0;
        while going_on() {
            let seen = runs();
            sender.send();
            SENT.fetch_add(1, Ordering::Release);
            while runs() == seen && going_on() {
                core::hint::spin_loop();
            }
            pause = (pause + 389) % 1000;
            for _ in 0..pause {
                core::hint::spin_loop();
            }
        }
    });
    let (mut sections, mut rung_inside) = (0, 0);
    while sections < SECTIONS || rung_inside < RUNG {
        let masked = Masked::new();
        let (before, sent) = (runs(), SENT.load(Ordering::Acquire));
        // Every other section lasts until a ring was sent, which on some machines takes longer than 300 looks, or for a while.
        let most = if sections % 2 == 0 { 300 } else { 20_000 };
        for _ in 0..most {
            core::hint::spin_loop();
            if SENT.load(Ordering::Acquire) != sent {
                break;
            }
        }
        for _ in 0..300 {
            core::hint::spin_loop();
        }
        assert_eq!(runs(), before);
        rung_inside += u32::from(SENT.load(Ordering::Acquire) != sent);
        sections += 1;
        drop(masked);
    }
    until("rings are seen in between", || runs() > 0);
    STOP.store(1, Ordering::Relaxed);
    ringer.join().unwrap();
}

/// 1: the guard unmasked in the handler.
static WRONG: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn guards(_vector: u64, _frame: *mut Frame, _context: *const c_void) {
    drop(Masked::new());
    WRONG.store(u64::from(unmasked()), Ordering::Relaxed);
    RUNS.fetch_add(1, Ordering::Release);
}

pub fn a_guard_in_a_handler_keeps_it_masked() {
    let receiver = install(&Config::default(), guards);
    let sender = receiver.vector(0).unwrap().sender().unwrap();
    for round in 1..=10 {
        sender.send();
        until("the ring is seen", || runs() == round);
        assert_eq!(WRONG.load(Ordering::Relaxed), 0);
        assert!(unmasked(), "UIRET unmasks");
    }
}
