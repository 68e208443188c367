//! Pools of unexpected messages that are full: what lies behind them still ends, as it should.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tocsin::{Comm, Error, World};
use tocsin_sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tocsin_tests::worlds::config; // Links the tripwire allocator, too.

/// What a rank does before it dies.
#[derive(Clone, Copy, Debug)]
enum Flood {
    Messages,
    Broadcasts,
}

/// Sends more than the other ranks' pools hold at first, and dies.
fn flood_and_die(comm: &Comm, flood: Flood) {
    match flood {
        Flood::Messages => {
            let sends: Vec<_> = (0..5000).map(|_| comm.isend(vec![1u8; 64], 1, 1).unwrap()).collect();
            std::panic::panic_any(sends.len());
        }
        Flood::Broadcasts => {
            let all: Vec<_> = (0..20).map(|_| comm.ibcast(vec![1u8; 65536], 0).unwrap()).collect();
            std::panic::panic_any(all.len());
        }
    }
}

/// Rank 0 floods and dies; `survivor` is what rank 1 does, in another communicator, and has to see the death.
fn dies_behind_a_full_pool(flood: Flood, max: &str, survivor: fn(&Comm) -> Result<(), Error>) {
    for backend in ["signal", "thread", "poll"] {
        let settings = config(&[("TOCSIN_BACKEND", backend), ("TOCSIN_UNEXPECTED_MAX", max)]);
        let end = Mutex::new(None);
        let ends = World::threads_with(2, &settings, |comm| {
            // The death may come before this rank has its communicator: that is as good a place to see it.
            let result = comm.dup().and_then(|other| {
                if comm.rank() == 0 {
                    flood_and_die(&comm, flood);
                }
                survivor(&other)
            });
            *end.lock().unwrap() = Some(result);
        });
        assert!(ends.is_err(), "rank 0 died");
        let end = end.into_inner().unwrap();
        let seen = matches!(end, Some(Err(Error::PeerDead { rank: 0, .. })));
        assert!(seen, "{backend} {flood:?} {max}: {end:?}");
    }
}

#[test]
fn a_death_behind_a_full_pool_is_seen() {
    for (flood, max) in [(Flood::Messages, "64M"), (Flood::Broadcasts, "64M"), (Flood::Messages, "64K")] {
        dies_behind_a_full_pool(flood, max, |comm| comm.barrier());
        dies_behind_a_full_pool(flood, max, |comm| comm.irecv(vec![0u8; 8], 0, 7)?.wait().map(drop));
        dies_behind_a_full_pool(flood, max, |comm| comm.issend(vec![0u8; 8], 0, 7)?.wait().map(drop));
        dies_behind_a_full_pool(flood, max, |comm| {
            let mut request = comm.ibarrier()?;
            loop {
                if let Some(end) = request.test() {
                    return end.map(drop);
                }
            }
        });
    }
}

#[test]
fn a_rank_that_only_finalizes_behind_a_full_pool_ends() {
    for backend in ["signal", "thread", "poll"] {
        let ends = World::threads_with(2, &config(&[("TOCSIN_BACKEND", backend)]), |comm| {
            comm.barrier().unwrap();
            if comm.rank() == 0 {
                flood_and_die(&comm, Flood::Messages);
            }
            // Dropped while it is pending: finalize sees it through.
            let pending = comm.ibarrier().unwrap();
            pending.is_done()
        });
        assert!(ends.is_err(), "rank 0 died");
    }
}

/// A rank that has posted a collective and computes takes part in it, however many long messages of another one wait.
#[test]
fn a_computing_rank_takes_part_behind_broadcasts() {
    for eager in ["1K", "8K", "16K", "32K"] {
        let settings = config(&[("TOCSIN_BACKEND", "signal"), ("TOCSIN_EAGER_MAX", eager)]);
        let others_are_done = AtomicBool::new(false);
        for end in World::threads_with(3, &settings, |comm| {
            let other = comm.dup()?;
            comm.barrier()?;
            let mut barrier = (comm.rank() == 1).then(|| other.ibarrier()).transpose()?;
            if barrier.is_some() {
                let begun = Instant::now();
                while !others_are_done.load(Ordering::Relaxed) {
                    assert!(
                        begun.elapsed() < Duration::from_secs(30),
                        "{eager}: the others wait for this rank"
                    );
                    std::hint::spin_loop();
                }
            }
            let broadcasts =
                (0..20u8).map(|n| comm.ibcast(vec![n; 65536], 0)).collect::<Result<Vec<_>, _>>()?;
            let barrier = match barrier.take() {
                Some(barrier) => barrier,
                None => other.ibarrier()?,
            };
            barrier.wait()?;
            if comm.rank() == 0 {
                others_are_done.store(true, Ordering::Relaxed);
            }
            for (n, broadcast) in (0u8..).zip(broadcasts) {
                assert!(broadcast.wait()?.iter().all(|byte| *byte == n));
            }
            comm.barrier()
        })
        .unwrap()
        {
            end.unwrap();
        }
    }
}

/// Long messages of one communicator's collectives leave room for another's, in the smallest pool.
#[test]
fn collectives_of_two_communicators_cross_in_a_small_pool() {
    for (max, count) in [("64K", 8), ("64K", 100), ("64M", 1100)] {
        for end in World::threads_with(2, &config(&[("TOCSIN_UNEXPECTED_MAX", max)]), |comm| {
            let other = comm.dup()?;
            let content = |n: usize| vec![n as u8; 65536];
            if comm.rank() == 0 {
                let all = (0..count).map(|n| comm.ibcast(content(n), 0)).collect::<Result<Vec<_>, _>>()?;
                other.barrier()?;
                all.into_iter().try_for_each(|request| request.wait().map(drop))?;
            } else {
                other.barrier()?;
                for n in 0..count {
                    assert_eq!(comm.ibcast(vec![0u8; 65536], 0)?.wait()?, content(n));
                }
            }
            comm.barrier()
        })
        .unwrap()
        {
            end.unwrap();
        }
    }
}

/// Who only looks has room made for it.
#[test]
fn what_lies_behind_a_flood_is_seen_by_looking() {
    for backend in ["signal", "thread"] {
        for end in World::threads_with(2, &config(&[("TOCSIN_BACKEND", backend)]), |comm| {
            if comm.rank() == 0 {
                let mut sends =
                    (0..5000).map(|_| comm.isend(vec![1u8; 64], 1, 1)).collect::<Result<Vec<_>, _>>()?;
                sends.push(comm.isend(vec![2u8; 64], 1, 2)?);
                sends.into_iter().try_for_each(|send| send.wait().map(drop))?;
            } else {
                let wanted = comm.irecv(vec![0u8; 64], 0, 2)?;
                let begun = Instant::now();
                while !wanted.is_done() {
                    assert!(begun.elapsed() < Duration::from_secs(30), "{backend}: never done");
                    std::hint::spin_loop();
                }
                assert_eq!(wanted.wait()?, [2u8; 64]);
                for _ in 0..5000 {
                    comm.recv(&mut [0u8; 64], 0, 1)?;
                }
            }
            comm.barrier()
        })
        .unwrap()
        {
            end.unwrap();
        }
    }
}

/// Looking runs no callback: one that wants a lock the caller holds would wait for ever.
#[test]
fn looking_runs_no_callback() {
    for end in World::threads_with(2, &config(&[("TOCSIN_BACKEND", "signal")]), |comm| {
        for _ in 0..500 {
            comm.barrier()?;
            if comm.rank() == 0 {
                comm.send(&[1u8; 8], 1, 1)?;
                comm.send(&[1u8; 8], 1, 2)?;
                continue;
            }
            let list = Arc::new(Mutex::new(Vec::new()));
            let theirs = list.clone();
            comm.irecv(vec![0u8; 8], 0, 1)?.on_complete(move |_| theirs.lock().unwrap().clear());
            // Outside the lock: posting runs callbacks.
            let second = comm.irecv(vec![0u8; 8], 0, 2)?;
            list.lock().unwrap().push(second);
            while !list.lock().unwrap().iter().all(|request| request.is_done()) {
                std::thread::yield_now();
            }
        }
        Ok::<(), Error>(())
    })
    .unwrap()
    {
        end.unwrap();
    }
}

/// Nor does dropping, which may come anywhere: a communicator, a request, a message that was found and not received.
#[test]
fn dropping_runs_no_callback() {
    const AFTER: i32 = 9;
    for backend in ["signal", "thread", "poll"] {
        for end in World::threads_with(2, &config(&[("TOCSIN_BACKEND", backend)]), |comm| {
            for round in 0..60 {
                let dup = comm.dup()?;
                if comm.rank() == 0 {
                    comm.send(&[1u8; 8], 1, 2)?;
                    comm.barrier()?;
                    comm.send(&[1u8; 8], 1, 1)?;
                    comm.send(&[1u8; 8], 1, AFTER)?;
                    continue;
                }
                let (lock, calls) = (Arc::new(Mutex::new(())), Arc::new(AtomicU32::new(0)));
                let (theirs, called) = (lock.clone(), calls.clone());
                // On this thread only if a call runs it while the lock is held here; on another one it waits.
                let here = std::thread::current().id();
                let first = comm.irecv(vec![0u8; 8], 0, 1)?;
                first.on_complete(move |_| {
                    if std::thread::current().id() == here && theirs.try_lock().is_err() {
                        called.fetch_add(100, Ordering::Relaxed);
                    } else {
                        drop(theirs.lock());
                    }
                    called.fetch_add(1, Ordering::Relaxed);
                });
                let found = comm.mprobe(0, 2)?;
                let never = comm.irecv(vec![0u8; 8], 0, 3)?;
                comm.barrier()?;
                let held = lock.lock().unwrap();
                // What comes meanwhile completes the receive in the stay of what is dropped.
                match round % 3 {
                    0 => drop((dup, never, found)),
                    1 => drop((never, found, dup)),
                    _ => drop((found, dup, never)),
                }
                drop(held);
                comm.recv(&mut [0u8; 8], 0, AFTER)?;
                let begun = Instant::now();
                while calls.load(Ordering::Relaxed) == 0 {
                    assert!(begun.elapsed() < Duration::from_secs(30), "{backend}: it never runs");
                    comm.progress();
                }
                assert_eq!(calls.load(Ordering::Relaxed), 1, "{backend}: it ran where something was dropped");
            }
            Ok::<(), Error>(())
        })
        .unwrap()
        {
            end.unwrap();
        }
    }
}

/// What a schedule's step copies when it starts is part of the handler's budget.
#[test]
fn a_forwarding_handler_keeps_to_its_budget() {
    for bytes in [34 << 10, 48 << 10, 60_000] {
        let rounds_done = AtomicU32::new(0);
        for end in World::threads_with(4, &config(&[("TOCSIN_BACKEND", "signal")]), |comm| {
            for round in 1..=50 {
                comm.barrier()?;
                let before = comm.stats();
                // In the binomial tree rank 2 receives from rank 0 and sends to rank 3.
                let request = comm.ibcast(vec![comm.rank() as u8; bytes], 0)?;
                if comm.rank() == 2 {
                    let begun = Instant::now();
                    while rounds_done.load(Ordering::Relaxed) < round
                        && begun.elapsed() < Duration::from_secs(30)
                    {
                        std::hint::spin_loop();
                    }
                    let after = comm.stats();
                    let copied = after.bytes_copied_handler - before.bytes_copied_handler;
                    let entries = after.interrupts - before.interrupts;
                    assert!(copied <= entries * (64 << 10), "{bytes}: {copied} bytes in {entries} entries");
                }
                assert!(request.wait()?.iter().all(|byte| *byte == 0));
                if comm.rank() == 3 {
                    rounds_done.store(round, Ordering::Relaxed);
                }
            }
            comm.barrier()
        })
        .unwrap()
        {
            end.unwrap();
        }
    }
}

/// Room that was refused for one peer's end is asked for again when another ends.
#[test]
fn a_death_after_another_end_behind_a_full_pool_is_seen() {
    /// Each lasts for a second at least: a death that nobody sees in all of them is never seen.
    const WAITS: u32 = 20;
    for backend in ["signal", "thread", "poll"] {
        let settings = config(&[("TOCSIN_BACKEND", backend), ("TOCSIN_UNEXPECTED_MAX", "64K")]);
        let (refused, end) = (AtomicBool::new(false), Mutex::new(None));
        let ends = World::threads_with(3, &settings, |comm| {
            comm.barrier().unwrap();
            match comm.rank() {
                0 => {
                    let mut receive = comm.irecv(vec![0u8; 8], 2, 9).unwrap();
                    // Once this is refused, rank 1 is known to have finalized, its last messages behind the pool.
                    while comm.isend(Vec::<u8>::new(), 1, 1).is_ok_and(|send| send.wait().is_ok()) {
                        assert!(receive.test().is_none());
                        std::thread::yield_now();
                    }
                    assert!(receive.wait_timeout(Duration::from_millis(20)).is_none());
                    refused.store(true, Ordering::Release);
                    let mut outcome = receive.wait().map(drop);
                    // Between its message and its death rank 2 may take longer than a wait behind a full pool does.
                    for _ in 0..WAITS {
                        if !matches!(outcome, Err(Error::TooManyUnexpected { .. })) {
                            break;
                        }
                        outcome = comm.irecv(vec![0u8; 8], 2, 9).and_then(|again| again.wait()).map(drop);
                    }
                    *end.lock().unwrap() = Some(outcome);
                }
                1 => {
                    let sends: Vec<_> = (0..1150).map(|_| comm.isend(vec![1u8; 64], 0, 1).unwrap()).collect();
                    sends.into_iter().for_each(|send| drop(send.wait().unwrap()));
                }
                _ => {
                    while !refused.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                    comm.send(&[1u8; 64], 0, 1).unwrap();
                    panic!("dies");
                }
            }
        });
        assert!(ends.is_err(), "rank 2 died");
        let end = end.into_inner().unwrap();
        assert!(matches!(end, Some(Err(Error::PeerDead { rank: 2, .. }))), "{backend}: {end:?}");
    }
}

/// A peer that sends more than is kept from the start, blocking, before it comes to what this rank waits for.
#[test]
fn a_wait_for_something_else_makes_room_for_sends() {
    const SENDS: usize = 5_000;
    for end in World::threads(2, |comm| {
        if comm.rank() == 0 {
            for _ in 0..SENDS {
                comm.send(&[1u8; 64], 1, 1)?;
            }
            return comm.barrier();
        }
        let mut barrier = comm.ibarrier()?;
        barrier.wait_timeout(Duration::from_secs(30)).expect("the sender waits for room")?;
        for _ in 0..SENDS {
            comm.recv(&mut [0u8; 64], 0, 1)?;
        }
        Ok(())
    })
    .unwrap()
    {
        end.unwrap();
    }
}

/// A wait behind a pool that stays full comes to rest.
#[test]
fn a_wait_behind_a_full_pool_sleeps() {
    let cpu = || {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a live timespec.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    };
    const SENDS: usize = 3_000;
    for end in World::threads_with(2, &config(&[("TOCSIN_UNEXPECTED_MAX", "64K")]), |comm| {
        if comm.rank() == 0 {
            let sent = (0..SENDS).map(|_| comm.isend(vec![1u8; 64], 1, 1)).collect::<Result<Vec<_>, _>>()?;
            sent.into_iter().try_for_each(|request| request.wait().map(drop))?;
            return comm.barrier();
        }
        let (wall, before) = (Instant::now(), cpu());
        let outcome = comm.irecv(vec![0u8; 8], 0, 2)?.wait();
        assert!(matches!(outcome, Err(tocsin::Error::TooManyUnexpected { .. })), "{outcome:?}");
        let (took, waited) = (cpu() - before, wall.elapsed());
        assert!(took < waited / 4, "{took:?} of CPU in a wait of {waited:?}");
        for _ in 0..SENDS {
            comm.recv(&mut [0u8; 64], 0, 1)?;
        }
        comm.barrier()
    })
    .unwrap()
    {
        end.unwrap();
    }
}
