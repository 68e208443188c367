//! Many rings.

use crate::common::{RUNS, cpus, install, pin, runs, scaled, size, until};
use core::ffi::c_void;
use std::sync::mpsc::channel;
use tocsin_sync::atomic::real::{AtomicPtr, AtomicU64, Ordering};
use tocsin_uintr_sys::{Config, Frame, Receiver, Sender, VectorFd};

fn rings() -> u64 {
    size("TOCSIN_TEST_RINGS", scaled(1_000_000, 20_000))
}

/// What the sender has posted, and what the handler has seen of it.
static POSTED: AtomicU64 = AtomicU64::new(0);
static SEEN: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn look(_vector: u64, _frame: *mut Frame, _context: *const c_void) {
    SEEN.store(POSTED.load(Ordering::Acquire), Ordering::Release);
    RUNS.fetch_add(1, Ordering::Relaxed);
}

/// A ringer, while this thread computes: on two CPUs, where there are as many.
fn rung(ringer: impl FnOnce(Sender) + Send + 'static) -> Receiver {
    let cpus = cpus();
    let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
    pin(0, first);
    let receiver = install(&Config::default(), look);
    let sender = receiver.vector(0).unwrap().fd().unwrap().sender().unwrap();
    let thread = std::thread::spawn(move || {
        pin(0, last);
        ringer(sender);
    });
    while !thread.is_finished() {
        core::hint::spin_loop();
    }
    thread.join().unwrap();
    receiver
}

pub fn each_is_seen() {
    let count = rings();
    // One outstanding: any ring that is lost ends it.
    let receiver = rung(move |sender| {
        for item in 1..=count {
            POSTED.store(item, Ordering::Release);
            sender.send();
            until("the item is seen", || SEEN.load(Ordering::Acquire) == item);
        }
    });
    assert_eq!(receiver.statistics().runs, count);
    println!("{count} rings, {} runs", runs());
}

pub fn none_is_lost_in_a_storm() {
    let count = rings();
    let receiver = rung(move |sender| {
        for item in 1..=count {
            POSTED.store(item, Ordering::Release);
            sender.send();
        }
    });
    // No further ring: the last one tells of all.
    until("the last item is seen", || SEEN.load(Ordering::Acquire) == count);
    println!("{count} rings, {} runs", runs());
    drop(receiver);
}

/// Whom the handler of each of two threads rings back, how often it has, and when it stops.
static BACK: [AtomicPtr<Sender>; 2] = [const { AtomicPtr::new(core::ptr::null_mut()) }; 2];
static TURNS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
static LIMIT: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn ring_back(_vector: u64, _frame: *mut Frame, context: *const c_void) {
    let me = context.addr() & 1;
    if TURNS[me].fetch_add(1, Ordering::Release) < LIMIT.load(Ordering::Relaxed) {
        // SAFETY: null or a sender that is never freed.
        if let Some(sender) = unsafe { BACK[me].load(Ordering::Acquire).as_ref() } {
            sender.send();
        }
    }
}

pub fn both_ways() {
    let count = rings() / 10;
    LIMIT.store(count, Ordering::Relaxed);
    let (give, take) = channel::<(usize, VectorFd)>();
    let threads: Vec<_> = (0..2)
        .map(|me| {
            let give = give.clone();
            std::thread::spawn(move || {
                let context = core::ptr::without_provenance(me);
                // SAFETY: the handler touches statics alone; the receiver is dropped at the thread's end.
                let receiver = unsafe { Receiver::install(&Config::default(), ring_back, context) }.unwrap();
                give.send((me, receiver.vector(0).unwrap().fd().unwrap())).unwrap();
                until("the last turn", || TURNS[me].load(Ordering::Acquire) >= count);
            })
        })
        .collect();
    for _ in 0..2 {
        let (me, fd) = take.recv().unwrap();
        let sender = Box::leak(Box::new(fd.sender().unwrap()));
        BACK[1 - me].store(sender, Ordering::Release);
    }
    // SAFETY: set above, never freed.
    unsafe { BACK[0].load(Ordering::Acquire).as_ref() }.unwrap().send();
    threads.into_iter().for_each(|t| t.join().unwrap());
}
