//! Every instruction of ring and queue operations, with a handler injected at each. The progress crate's ring
//! must come out clean; a two-phase queue must be caught, or the stepper proves nothing.
//! `cargo test -p tocsin-tests --profile step --test 'step_*'`
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::unwrap_used)]

use std::cell::{Cell, RefCell, UnsafeCell};
use std::process::Command;
use tocsin_progress::ring::{CONTENT, Consumer, Producer, Slot};
use tocsin_sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use tocsin_tests::stepper::{Hang, Report, Stepper};

const CAPACITY: u32 = 4;

/// A ring, its two ends (one for the operation, one for the handler), and what came out, in order.
struct Ring {
    _slots: Box<[Slot]>,
    _head: Box<AtomicU32>,
    producer: UnsafeCell<Producer>,
    consumer: UnsafeCell<Consumer>,
    pushed: Cell<u64>,
    popped: UnsafeCell<[u64; 16]>,
    count: Cell<usize>,
    wrong_answer: Cell<bool>,
}

fn item(n: u64) -> [u64; CONTENT] {
    core::array::from_fn(|i| n << 8 | i as u64)
}

impl Ring {
    /// A ring that has gone around almost once, with `filled` items in it.
    fn new(filled: u64) -> Ring {
        let slots: Box<[Slot]> = (0..CAPACITY).map(|_| Slot::new()).collect();
        let head = Box::new(AtomicU32::new(0));
        // SAFETY: the boxes are kept beside the ends.
        let (producer, consumer) = unsafe {
            (
                Producer::new(slots.as_ptr(), CAPACITY, &raw const *head, 0).unwrap(),
                Consumer::new(slots.as_ptr(), CAPACITY, &raw const *head, 0).unwrap(),
            )
        };
        let ring = Ring {
            _slots: slots,
            _head: head,
            producer: UnsafeCell::new(producer),
            consumer: UnsafeCell::new(consumer),
            pushed: Cell::new(0),
            popped: UnsafeCell::new([0; 16]),
            count: Cell::new(0),
            wrong_answer: Cell::new(false),
        };
        for _ in 0..3 {
            ring.push();
            ring.pop();
        }
        (0..filled).for_each(|_| ring.push());
        ring
    }

    fn push(&self) {
        let n = self.pushed.get();
        // SAFETY: only the operation or only the handler of a case pushes.
        if unsafe { &mut *self.producer.get() }.try_push(n as u32, &item(n)) {
            self.pushed.set(n + 1);
        }
    }

    fn pop(&self) {
        // SAFETY: only the operation or only the handler of a case pops.
        let consumer = unsafe { &mut *self.consumer.get() };
        if let Some((meta, content)) = consumer.peek() {
            consumer.advance();
            let count = self.count.get();
            if content != item(u64::from(meta)) {
                self.wrong_answer.set(true);
            }
            // SAFETY: as above.
            if let Some(place) = unsafe { &mut *self.popped.get() }.get_mut(count) {
                *place = u64::from(meta);
            }
            self.count.set(count + 1);
        }
    }

    /// First in, first out; nothing lost, duplicated or made up.
    fn check(&self) -> Result<(), String> {
        for _ in 0..=CAPACITY {
            self.pop();
        }
        // SAFETY: nobody else uses it now.
        let popped = unsafe { &*self.popped.get() };
        let popped = &popped[..self.count.get()];
        let expected: Vec<u64> = (0..self.pushed.get()).collect();
        if popped != expected || self.wrong_answer.get() {
            return Err(format!("{popped:?} came out of {expected:?}"));
        }
        Ok(())
    }
}

#[test]
fn a_push_interrupted_by_pops() {
    let mut total = Report::default();
    for filled in 0..=u64::from(CAPACITY) {
        for pops in 1..=3 {
            let report = Stepper::new().every_boundary(
                || Ring::new(filled),
                Ring::push,
                |ring| (0..pops).for_each(|_| ring.pop()),
                |ring| {
                    // A push may be refused only when the ring was full as it began.
                    if ring.pushed.get() != 3 + filled + 1 && filled < u64::from(CAPACITY) {
                        return Err("wrong full".into());
                    }
                    ring.check()
                },
            );
            assert!(report.is_clean() && report.boundaries > 10, "{report}");
            total.add(&report);
        }
    }
    println!("push x pops: {total}");
}

#[test]
fn a_pop_interrupted_by_pushes() {
    let mut total = Report::default();
    for filled in 0..=u64::from(CAPACITY) {
        for pushes in 1..=3 {
            let report = Stepper::new().every_boundary(
                || Ring::new(filled),
                Ring::pop,
                |ring| (0..pushes).for_each(|_| ring.push()),
                |ring| {
                    if ring.count.get() != 4 && filled > 0 {
                        return Err("wrong empty".into());
                    }
                    ring.check()
                },
            );
            assert!(report.is_clean() && report.boundaries > 10, "{report}");
            total.add(&report);
        }
    }
    println!("pop x pushes: {total}");
}

#[test]
fn handlers_at_every_boundary_in_turn() {
    let report = Stepper::new().in_turn(
        || Ring::new(0),
        |ring| (0..8).for_each(|_| ring.push()),
        Ring::pop,
        |ring| match ring.pushed.get() {
            11 => ring.check(),
            n => Err(format!("{n} pushed: wrong full")),
        },
    );
    println!("8 pushes, a pop at every boundary: {report}");
    assert!(report.is_clean(), "{report}");
    let report = Stepper::new().in_turn(
        || Ring::new(4),
        |ring| (0..8).for_each(|_| ring.pop()),
        Ring::push,
        Ring::check,
    );
    println!("8 pops, a push at every boundary: {report}");
    assert!(report.is_clean(), "{report}");
}

/// The classic mistake: claim a place, then fill it. A consumer that finds a claimed place waits for it.
struct TwoPhase {
    tail: AtomicUsize,
    head: AtomicUsize,
    ready: [AtomicU32; 8],
    value: [AtomicU64; 8],
    out: AtomicU64,
    /// Whether the consumer waits for a claimed place (a hang), or passes it by (a loss).
    waits: bool,
}

impl TwoPhase {
    fn new(waits: bool) -> TwoPhase {
        TwoPhase {
            tail: AtomicUsize::new(0),
            head: AtomicUsize::new(0),
            ready: Default::default(),
            value: Default::default(),
            out: AtomicU64::new(0),
            waits,
        }
    }

    fn push(&self, value: u64) {
        let place = self.tail.fetch_add(1, Ordering::AcqRel) & 7;
        self.value[place].store(value, Ordering::Relaxed);
        self.ready[place].store(1, Ordering::Release);
    }

    fn pop(&self) -> Option<u64> {
        let place = self.head.load(Ordering::Relaxed);
        if place == self.tail.load(Ordering::Acquire) {
            return None;
        }
        self.head.store(place + 1, Ordering::Relaxed);
        let place = place & 7;
        while self.ready[place].load(Ordering::Acquire) == 0 {
            if !self.waits {
                return None;
            }
            std::hint::spin_loop();
        }
        Some(self.value[place].load(Ordering::Relaxed))
    }

    fn pop_out(&self) {
        if let Some(value) = self.pop() {
            self.out.fetch_add(value, Ordering::Relaxed);
        }
    }
}

fn step_two_phase(waits: bool) -> Report {
    Stepper::new().limits(20_000, 5_000).every_boundary(
        || TwoPhase::new(waits),
        |queue| queue.push(7),
        TwoPhase::pop_out,
        |queue| {
            queue.pop_out();
            match queue.out.load(Ordering::Relaxed) {
                7 => Ok(()),
                n => Err(format!("{n} came out instead of 7")),
            }
        },
    )
}

#[test]
fn a_two_phase_queue_is_caught_hanging() {
    let report = step_two_phase(true);
    println!("two-phase, waiting: {report}");
    assert!(report.hangs.iter().any(|(_, who)| *who == Hang::Handler), "not caught: {report}");
}

#[test]
fn a_two_phase_queue_is_caught_losing() {
    let report = step_two_phase(false);
    println!("two-phase, passing by: {report}");
    assert!(!report.wrong.is_empty(), "not caught: {report}");
}

/// The stepper's own bookkeeping: it sees every boundary of a plain load-add-store.
#[test]
fn a_lost_update_is_caught() {
    let add = |n: &Cell<u64>| {
        // Volatile, so that load and store stay two instructions.
        // SAFETY: a cell's own memory, one thread.
        unsafe {
            let now = n.as_ptr().read_volatile();
            n.as_ptr().write_volatile(std::hint::black_box(now) + 1);
        }
    };
    let report = Stepper::new().every_boundary(
        || Cell::new(0),
        add,
        add,
        |n| if n.get() == 2 { Ok(()) } else { Err("lost update".into()) },
    );
    println!("load, add, store: {report}");
    assert!(!report.wrong.is_empty() && report.wrong.len() < 10, "{report}");
    assert_eq!(report.injections, report.boundaries);
}

/// Run by the test below in a process of its own, because it must die.
#[test]
#[ignore = "aborts on purpose: an_allocating_handler_is_caught runs it"]
fn child_with_an_allocating_handler() {
    Stepper::new().in_turn(
        || RefCell::new(Vec::<u8>::new()),
        |_| (),
        |vec| {
            vec.replace(Vec::with_capacity(100));
        },
        |_| Ok(()),
    );
}

#[test]
fn an_allocating_handler_is_caught() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_with_an_allocating_handler", "--ignored", "--nocapture", "--test-threads=1"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    println!("allocating handler: {}; it said: {}", output.status, said.trim());
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "not caught");
    assert!(said.contains("inside a handler"), "{said}");
}
