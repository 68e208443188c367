//! Receivers that are in the kernel, asleep, off their CPU, or on another one.

use crate::common::{cpus, pin, receiver, runs, scaled, size, until};
use std::os::fd::AsRawFd;
use tocsin_sync::atomic::real::{AtomicU64, Ordering};

pub fn in_the_kernel() {
    let receiver = receiver();
    let sender = receiver.vector(0).unwrap().fd().unwrap().sender().unwrap();
    let rounds = scaled(2000, 1000);
    let ringer = std::thread::spawn(move || {
        for round in 1..=rounds {
            sender.send();
            until("the ring is seen", || runs() >= round);
        }
    });
    let zero = std::fs::File::open("/dev/zero").unwrap();
    let mut buffer = vec![1u8; 16 * 1024];
    while runs() < rounds {
        // SAFETY: a live buffer of this size.
        unsafe {
            libc::read(zero.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len());
            libc::getppid();
        }
    }
    ringer.join().unwrap();
}

pub fn blocked() {
    let receiver = receiver();
    let sender = receiver.vector(0).unwrap().fd().unwrap().sender().unwrap();
    let mut pipe = [0i32; 2];
    // SAFETY: an array of two.
    unsafe { assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0) };
    static ROUND: AtomicU64 = AtomicU64::new(0);
    // SAFETY: no precondition.
    let tid = unsafe { libc::gettid() };
    let ringer = std::thread::spawn(move || {
        for round in 1..=50 {
            until("the receiver goes to sleep", || {
                let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap();
                ROUND.load(Ordering::Acquire) == round && stat.contains(") S ")
            });
            sender.send();
            // SAFETY: a live buffer of one byte.
            unsafe { libc::write(pipe[1], c"!".as_ptr().cast(), 1) };
        }
    });
    for round in 1..=50 {
        ROUND.store(round, Ordering::Release);
        let mut byte = 0u8;
        // SAFETY: a live buffer of one byte.
        while unsafe { libc::read(pipe[0], (&raw mut byte).cast(), 1) } != 1 {}
        // Posted before the byte was written: delivered before the call's return is seen.
        until("the ring is seen", || runs() == round);
    }
    ringer.join().unwrap();
}

static STOP: AtomicU64 = AtomicU64::new(0);

pub fn preempted_by_a_hog() {
    let cpus = cpus();
    let receiver = receiver();
    let sender = receiver.vector(0).unwrap().fd().unwrap().sender().unwrap();
    pin(0, cpus[0]);
    let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
    let hogs: Vec<_> = (0..2)
        .map(|_| {
            std::thread::spawn(move || {
                pin(0, first);
                while STOP.load(Ordering::Relaxed) == 0 {
                    core::hint::spin_loop();
                }
            })
        })
        .collect();
    let ringer = std::thread::spawn(move || {
        pin(0, last);
        let (mut round, mut pause) = (0, 1u64);
        while STOP.load(Ordering::Relaxed) == 0 {
            round += 1;
            // At any moment of the hogs' time, not only in the receiver's last moment before theirs.
            pause = pause.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (0..pause >> 48).for_each(|_| core::hint::spin_loop());
            sender.send();
            until("the ring is seen", || runs() >= round || STOP.load(Ordering::Relaxed) != 0);
        }
        round
    });
    // Until it has been off its CPU often, and rung there, as far as the kernel tells.
    let least = scaled(300, 100);
    let mut before = 0;
    let mut preempted = 0;
    while runs() < least || preempted < 20 {
        for _ in 0..10_000 {
            core::hint::spin_loop();
        }
        preempted = match receiver.statistics().switches {
            Some(switches) => switches.merged,
            None => preempted + u64::from(runs() > before),
        };
        before = runs();
    }
    STOP.store(1, Ordering::Relaxed);
    let rung = ringer.join().unwrap();
    until("the last ring is seen", || runs() == rung);
    hogs.into_iter().for_each(|h| h.join().unwrap());
    println!("{rung} rings, {:?}", receiver.statistics().switches);
}

pub fn migrated_while_rung() {
    let cpus = cpus();
    if cpus.len() < 2 {
        println!("one CPU: nowhere to go");
        return;
    }
    let receiver = receiver();
    let sender = receiver.vector(0).unwrap().fd().unwrap().sender().unwrap();
    // SAFETY: no precondition.
    let tid = unsafe { libc::gettid() };
    let migrations = size("TOCSIN_TEST_MIGRATIONS", 1000);
    let mover = std::thread::spawn(move || {
        for step in 0..migrations {
            pin(tid, cpus[step as usize % cpus.len()]);
            let before = runs();
            // On the way, not before.
            until("rings come in on each CPU", || runs() > before);
        }
        STOP.store(1, Ordering::Release);
    });
    // One outstanding: any ring that is lost on the way ends it.
    static RUNG: AtomicU64 = AtomicU64::new(0);
    let ringer = std::thread::spawn(move || {
        let mut round = 0;
        while STOP.load(Ordering::Acquire) == 0 {
            round += 1;
            RUNG.store(round, Ordering::Relaxed);
            sender.send();
            until("the ring is seen", || runs() >= round);
        }
    });
    while STOP.load(Ordering::Acquire) == 0 {
        core::hint::spin_loop();
    }
    mover.join().unwrap();
    ringer.join().unwrap();
    assert_eq!(runs(), RUNG.load(Ordering::Relaxed));
    if let Some(switches) = receiver.statistics().switches {
        println!("{switches:?}");
        assert!(switches.migrated >= migrations * 9 / 10, "{switches:?}");
    }
}
