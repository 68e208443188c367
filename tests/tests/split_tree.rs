//! Split trees in worlds: whatever a rank calls next lets the others go on, and nobody who is in the library is waited for.
#![allow(clippy::unwrap_used)]

use tocsin_tests as _; // Links the tripwire allocator.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tocsin::{Comm, Config, Error, Op, Request, World, wait_all};
use tocsin_sync::atomic::{AtomicU32, Ordering};

const RANKS: u32 = 4;

fn worlds(run: impl Fn(Comm) -> Result<(), Error> + Sync) {
    for backend in ["signal", "thread", "poll"] {
        let mut config = Config::default();
        config.set("TOCSIN_BACKEND", backend).unwrap();
        for result in World::threads_with(RANKS, &config, &run).unwrap() {
            result.unwrap();
        }
    }
}

type Called = fn(&Comm, &mut Request<Vec<u64>>) -> Result<(), Error>;

type Waits = fn(&Comm) -> Result<(), Error>;

/// What rank 0 calls while the others wait for what it has yet to pass on.
#[test]
fn any_call_that_waits_or_looks_passes_on() {
    let calls: [Called; 6] = [
        |_, request| {
            while request.test().is_none() {}
            Ok(())
        },
        |_, request| {
            while request.wait_timeout(Duration::from_millis(1)).is_none() {}
            Ok(())
        },
        |_, request| {
            while !request.is_done() {
                std::hint::spin_loop();
            }
            Ok(())
        },
        // All others answer when they have it.
        |comm, _| (1..RANKS).try_for_each(|rank| comm.recv(&mut [0u64], rank, 1).map(drop)),
        |comm, _| (1..RANKS).try_for_each(|rank| comm.probe(rank, 1).map(drop)),
        |comm, _| comm.barrier(),
    ];
    for (at, call) in calls.iter().enumerate() {
        worlds(|comm| {
            let split = comm.with_algorithm("split-tree");
            let mut request = split.ibcast(vec![u64::from(comm.rank() == 0); 5000], 0)?;
            if comm.rank() == 0 {
                call(&comm, &mut request)?;
                request.wait()?;
            } else {
                assert_eq!(request.wait()?, vec![1; 5000]);
            }
            // What is not received by the call of this round.
            if (3..=4).contains(&at) {
                match comm.rank() {
                    0 if at == 4 => {
                        (1..RANKS).try_for_each(|rank| comm.recv(&mut [0u64], rank, 1).map(drop))?
                    }
                    0 => {}
                    _ => comm.send(&[1u64], 0, 1)?,
                }
            }
            if at == 5 && comm.rank() != 0 { comm.barrier() } else { Ok(()) }
        });
    }
}

/// A call that waits for what is there already passes on nevertheless, and the root computes from then on.
#[test]
fn a_wait_that_is_over_at_once_passes_on() {
    // Whether the message is sent before, so that this is not the call that passes on.
    let calls: [(bool, Waits); 11] = [
        (false, |comm| comm.sendrecv(&[7u8], 0, 2, &mut [0u8], 0, 2).map(drop)),
        (true, |comm| comm.recv(&mut [0u8], 0, 2).map(drop)),
        (true, |comm| comm.irecv(vec![0u8], 0, 2)?.wait().map(drop)),
        (true, |comm| {
            let mut request = comm.irecv(vec![0u8], 0, 2)?;
            while request.test().is_none() {}
            request.wait().map(drop)
        }),
        (true, |comm| wait_all([comm.irecv(vec![0u8], 0, 2)?]).map(drop)),
        (false, |comm| comm.send(&[7u8], 0, 3)),
        (false, |comm| comm.isend(vec![7u8], 0, 3)?.wait().map(drop)),
        (false, |comm| comm.isend(vec![7u8; 4096], 0, 3)?.wait().map(drop)),
        // The others are there already, so that it is over in its post.
        (false, |comm| comm.ibarrier()?.wait()),
        (false, |comm| {
            let mut send = comm.send_init(vec![7u8], 0, 3)?;
            send.start()?;
            send.wait().map(drop)
        }),
        (true, |comm| {
            let mut receive = comm.recv_init(vec![0u8], 0, 2)?;
            receive.start()?;
            receive.wait().map(drop)
        }),
    ];
    const BARRIER: usize = 8;
    for (at, (sent, call)) in calls.iter().enumerate() {
        let (there, ended) = (AtomicU32::new(0), AtomicU32::new(0));
        worlds(|comm| {
            // Apart from the calls', which come in another order.
            let split = comm.dup()?.with_algorithm("split-tree");
            there.store(0, Ordering::Relaxed);
            ended.store(0, Ordering::Relaxed);
            // Short messages need no request from the second one on.
            for _ in 0..2 {
                comm.send(&[7u8], comm.rank(), 2)?;
                comm.recv(&mut [0u8], comm.rank(), 2)?;
            }
            if *sent && comm.rank() == 0 {
                comm.send(&[7u8], 0, 2)?;
            }
            comm.barrier()?;
            if at == BARRIER && comm.rank() > 0 {
                let barrier = comm.ibarrier()?;
                there.fetch_add(1, Ordering::Release);
                let received = split.ibcast(vec![0u64; 100], 0)?.wait()?;
                assert_eq!(received, vec![1; 100]);
                ended.fetch_add(1, Ordering::Release);
                return barrier.wait();
            }
            while at == BARRIER && there.load(Ordering::Acquire) < RANKS - 1 {
                std::thread::yield_now();
            }
            let request = split.ibcast(vec![u64::from(comm.rank() == 0); 100], 0)?;
            if comm.rank() == 0 {
                call(&comm)?;
                let since = Instant::now();
                while ended.load(Ordering::Acquire) < RANKS - 1 {
                    assert!(since.elapsed() < Duration::from_secs(30), "call {at} has passed nothing on");
                    std::hint::spin_loop();
                }
                request.wait().map(drop)
            } else {
                assert_eq!(request.wait()?, vec![1; 100]);
                ended.fetch_add(1, Ordering::Release);
                Ok(())
            }
        });
    }
}

/// What was given up, or has a callback, is passed on though the root computes from then on.
#[test]
fn who_is_told_or_gives_up_passes_on() {
    let (begun, ended) = (AtomicU32::new(0), AtomicU32::new(0));
    worlds(|comm| {
        let split = comm.with_algorithm("split-tree");
        for told in [false, true] {
            let request = split.ibcast(vec![3u8; 100], 0)?;
            if comm.rank() > 0 {
                assert_eq!(request.wait()?, [3; 100]);
                ended.fetch_add(1, Ordering::Release);
                continue;
            }
            if told {
                request.on_complete(drop)
            } else {
                drop(request)
            }
            let all = (begun.fetch_add(1, Ordering::Relaxed) + 1) * (RANKS - 1);
            let since = Instant::now();
            while ended.load(Ordering::Acquire) < all {
                assert!(
                    since.elapsed() < Duration::from_secs(30),
                    "the others wait for a call of the root's"
                );
                std::hint::spin_loop();
            }
        }
        comm.barrier()
    });
}

/// Who asks for a message that others send when they have what it has yet to pass on, or is told of that, passes on: whether it asked before, or not.
#[test]
fn who_asks_for_something_else_passes_on() {
    for backend in ["signal", "thread"] {
        let mut config = Config::default();
        config.set("TOCSIN_BACKEND", backend).unwrap();
        // Ends a test that hangs.
        // SAFETY: no memory effects.
        unsafe { libc::alarm(60) };
        let rank = |comm: Comm| -> Result<(), Error> {
            let split = comm.with_algorithm("split-tree");
            for (asked, told) in [(false, false), (true, false), (false, true)] {
                if comm.rank() > 0 {
                    assert_eq!(split.ibcast(vec![0u8; 100], 0)?.wait()?, [3; 100]);
                    comm.send(&[1u8], 0, 1)?;
                    continue;
                }
                let answers = (1..RANKS).map(|rank| comm.irecv(vec![0u8], rank, 1));
                let answers = answers.collect::<Result<Vec<_>, _>>()?;
                if asked {
                    assert!(answers.iter().all(|answer| !answer.is_done()));
                }
                let request = split.ibcast(vec![3u8; 100], 0)?;
                if told {
                    let came = Arc::new(AtomicU32::new(0));
                    for answer in answers {
                        let came = came.clone();
                        answer.on_complete(move |_| _ = came.fetch_add(1, Ordering::AcqRel));
                    }
                    while came.load(Ordering::Acquire) < RANKS - 1 {
                        std::hint::spin_loop();
                    }
                } else {
                    while !answers.iter().all(|answer| answer.is_done()) {
                        std::hint::spin_loop();
                    }
                }
                request.wait()?;
            }
            Ok(())
        };
        for result in World::threads_with(RANKS, &config, rank).unwrap() {
            result.unwrap();
        }
        // SAFETY: as above.
        unsafe { libc::alarm(0) };
    }
}

/// Who gives up holds a lock, perhaps, that a callback wants.
#[test]
fn who_gives_up_runs_no_callbacks() {
    let (begun, posted) = (AtomicU32::new(0), AtomicU32::new(0));
    let mut config = Config::default();
    config.set("TOCSIN_BACKEND", "poll").unwrap();
    // Ends a test that hangs.
    // SAFETY: no memory effects.
    unsafe { libc::alarm(60) };
    let until = |flag: &AtomicU32| {
        while flag.load(Ordering::Acquire) == 0 {
            std::hint::spin_loop();
        }
    };
    let rank = |comm: Comm| -> Result<(), Error> {
        let split = comm.with_algorithm("split-tree");
        if comm.rank() > 0 {
            until(&begun);
            let barrier = comm.ibarrier()?;
            posted.store(1, Ordering::Release);
            assert_eq!(split.ibcast(vec![0u8; 100], 0)?.wait()?, [3; 100]);
            return barrier.wait().map(drop);
        }
        let lock = Arc::new(Mutex::new(()));
        let (wanted, ended) = (lock.clone(), Arc::new(AtomicU32::new(0)));
        let end = ended.clone();
        comm.ibarrier()?.on_complete(move |_| {
            drop(wanted.lock());
            end.store(1, Ordering::Release);
        });
        let request = split.ibcast(vec![3u8; 100], 0)?;
        begun.store(1, Ordering::Release);
        until(&posted);
        let held = lock.lock().unwrap();
        drop(request);
        drop(held);
        while ended.load(Ordering::Acquire) == 0 {
            comm.progress();
        }
        Ok(())
    };
    for result in World::threads_with(2, &config, rank).unwrap() {
        result.unwrap();
    }
    // SAFETY: as above.
    unsafe { libc::alarm(0) };
}

/// A request may end inside a user's operator, where the engine cannot be entered: it is passed on in the next call.
#[test]
fn who_gives_up_inside_an_operator_passes_on_later() {
    worlds(|comm| {
        let split = comm.with_algorithm("split-tree");
        let request = split.ibcast(vec![u8::from(comm.rank() == 0); 100], 0)?;
        if comm.rank() > 0 {
            assert_eq!(request.wait()?, [1; 100]);
        } else {
            let inside = tocsin_world::InsideOperator::enter();
            drop(request);
            drop(inside);
        }
        comm.barrier()
    });
}

/// A program that repeats the same learns, and stays right.
#[test]
fn repeated_reductions_and_broadcasts() {
    worlds(|comm| {
        let split = comm.with_algorithm("split-tree");
        let mut sum = split.allreduce_init(vec![0u64; 300], Op::Sum)?;
        for run in 0..200u64 {
            sum.buffer_mut()?.fill(run + u64::from(comm.rank()));
            sum.start()?;
            // Some compute for longer.
            (0..run * 10 * u64::from(comm.rank())).for_each(|n| _ = std::hint::black_box(n));
            let expected = u64::from(RANKS) * run + u64::from(RANKS * (RANKS - 1) / 2);
            sum.wait()?;
            assert!(sum.buffer()?.iter().all(|n| *n == expected));
            let gathered = split
                .igather(vec![run; 10], if comm.rank() == 1 { vec![0u64; 40] } else { vec![] }, 1)?
                .wait()?;
            assert!(gathered.iter().all(|n| *n == run));
        }
        Ok(())
    });
}
