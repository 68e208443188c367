//! Delivery within a process.

use crate::common::{LAST, RUNS, count, install, receiver, runs, scaled, until};
use core::ffi::c_void;
use tocsin_sync::atomic::real::{AtomicU64, AtomicUsize, Ordering};
use tocsin_uintr_sys::{Config, Frame, Masked, Receiver};

pub fn itself() {
    let receiver = receiver();
    let sender = receiver.vector(5).unwrap().sender().unwrap();
    for round in 1..=100 {
        assert!(sender.send());
        until("the ring is seen", || runs() == round);
        assert_eq!(LAST.load(Ordering::Relaxed), 5);
    }
    assert_eq!(receiver.statistics().runs, 100);
    drop(receiver);
    sender.send();
    for _ in 0..100_000 {
        core::hint::spin_loop();
    }
    assert_eq!(runs(), 100, "nobody is there any more");
}

pub fn two_threads() {
    let receiver = receiver();
    let sender = receiver.vector(0).unwrap().fd().unwrap().sender().unwrap();
    let rounds = scaled(10_000, 2_000);
    let other = std::thread::spawn(move || {
        for round in 1..=rounds {
            sender.send();
            until("the ring is seen", || runs() >= round);
        }
    });
    until("all rings", || runs() == rounds);
    other.join().unwrap();
    assert_eq!(LAST.load(Ordering::Relaxed), 0);
}

static ORDER: [AtomicU64; 64] = [const { AtomicU64::new(u64::MAX) }; 64];
static NEXT: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn note_order(vector: u64, _frame: *mut Frame, _context: *const c_void) {
    if let Some(place) = ORDER.get(NEXT.fetch_add(1, Ordering::Relaxed)) {
        place.store(vector, Ordering::Relaxed);
    }
    RUNS.fetch_add(1, Ordering::Release);
}

pub fn highest_vector_first() {
    let receiver = install(&Config::default(), note_order);
    let vectors = [3u8, 60, 0, 17, 63, 18];
    let senders = vectors.map(|v| receiver.vector(v).unwrap().fd().unwrap().sender().unwrap());
    let masked = Masked::new();
    assert!(senders.iter().all(|s| s.send()));
    for _ in 0..100_000 {
        core::hint::spin_loop();
    }
    assert_eq!(runs(), 0);
    drop(masked);
    until("one run per vector", || runs() == 6);
    let order: Vec<u64> = ORDER.iter().take(6).map(|o| o.load(Ordering::Relaxed)).collect();
    assert_eq!(order, [63, 60, 18, 17, 3, 0]);
    assert_eq!(receiver.statistics().runs, 6);
}

pub fn one_vector_collapses() {
    let receiver = receiver();
    let sender = receiver.vector(7).unwrap().sender().unwrap();
    {
        let _masked = Masked::new();
        assert!((0..1000).all(|_| sender.send()));
        assert_eq!(runs(), 0);
    }
    until("the ring is seen", || runs() >= 1);
    assert_eq!(runs(), 1);
}

pub fn each_of_64_vectors() {
    let receiver = receiver();
    for vector in 0..64u8 {
        let sender = receiver.vector(vector).unwrap().fd().unwrap().sender().unwrap();
        sender.send();
        until("the ring is seen", || runs() == u64::from(vector) + 1);
        assert_eq!(LAST.load(Ordering::Relaxed), vector.into());
    }
}

pub fn duplicate_registration() {
    let receiver = receiver();
    let vector = receiver.vector(9).unwrap();
    let (one, two) = (vector.fd().unwrap(), vector.fd().unwrap());
    let copy = one.try_clone().unwrap();
    let senders = [&one, &two, &copy].map(|fd| fd.sender().unwrap());
    let other = receiver.vector(10).unwrap().fd().unwrap().sender().unwrap();
    if receiver.kernel() != "system calls" {
        assert!(senders.iter().all(|s| s.index() == senders[0].index()), "one vector, one index");
    }
    assert_ne!(other.index(), senders[0].index());
    let [first, second, third] = senders;
    drop((first, third, one, two, copy));
    // Counted: the last one still rings.
    second.send();
    until("the ring is seen", || runs() == 1);
    assert_eq!(LAST.load(Ordering::Relaxed), 9);
}

unsafe extern "C" fn count_in_context(_vector: u64, _frame: *mut Frame, context: *const c_void) {
    // SAFETY: the tests pass a static counter.
    unsafe { &*context.cast::<AtomicU64>() }.fetch_add(1, Ordering::Release);
}

pub fn different_handlers_in_different_threads() {
    static COUNTS: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
    let (give, take) = std::sync::mpsc::channel();
    let threads: Vec<_> = COUNTS
        .iter()
        .map(|counter| {
            let give = give.clone();
            std::thread::spawn(move || {
                let context = core::ptr::from_ref(counter).cast();
                // SAFETY: the counter is static; the receiver is dropped at the thread's end.
                let receiver = unsafe { Receiver::install(&Config::default(), count_in_context, context) };
                let receiver = receiver.unwrap();
                let fd = receiver.vector(1).unwrap().fd().unwrap();
                give.send((counter, fd)).unwrap();
                until("ten rings", || counter.load(Ordering::Acquire) == 10);
            })
        })
        .collect();
    let _mine = install(&Config::default(), count);
    for _ in 0..3 {
        let (counter, fd) = take.recv().unwrap();
        let sender = fd.sender().unwrap();
        for round in 1..=10 {
            sender.send();
            until("the ring is seen", || counter.load(Ordering::Acquire) == round);
        }
    }
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(runs(), 0, "nobody rang this one");
}

pub fn registered_again() {
    for round in 1..=50 {
        let receiver = receiver();
        let sender = receiver.vector(2).unwrap().fd().unwrap().sender().unwrap();
        sender.send();
        until("the ring is seen", || runs() == round);
        drop(receiver);
        // To the one that is gone: not delivered to the next one.
        sender.send();
    }
    let _last = receiver();
    for _ in 0..100_000 {
        core::hint::spin_loop();
    }
    assert_eq!(runs(), 50, "what was posted to another registration is not delivered to this one");
}

pub fn any_thread_may_send() {
    let receiver = receiver();
    // One thread that was there before the registration, and some that come after it.
    let (give, take) = std::sync::mpsc::channel::<std::sync::Arc<tocsin_uintr_sys::Sender>>();
    let before = std::thread::spawn(move || assert!(take.recv().unwrap().send()));
    let sender = std::sync::Arc::new(receiver.vector(0).unwrap().fd().unwrap().sender().unwrap());
    give.send(sender.clone()).unwrap();
    before.join().unwrap();
    until("the ring is seen", || runs() == 1);
    for round in 2..=10 {
        let sender = sender.clone();
        std::thread::spawn(move || sender.send()).join().unwrap();
        until("the ring is seen", || runs() == round);
    }
}
