//! Probes that wait: woken by whatever they wait for, whoever made the progress, and at rest until then.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use tocsin::{ANY_SOURCE, ANY_TAG, Comm, Config, Error, World};
use tocsin_sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tocsin_tests::worlds::config; // Links the tripwire allocator, too.

const BACKENDS: [&str; 3] = ["signal", "thread", "poll"];

fn each(ranks: u32, settings: &Config, rank: impl Fn(Comm) -> Result<(), Error> + Sync) {
    for end in World::threads_with(ranks, settings, rank).unwrap() {
        end.unwrap();
    }
}

fn cpu() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Threads that probe, each for its own tag, beside one that only computes: handlers, or each other's looks, take in what they wait for.
#[test]
fn threads_that_probe_get_each_its_own() {
    const THREADS: u32 = 3;
    const MESSAGES: u32 = 60;
    for backend in BACKENDS {
        let large = ["auto", "direct", "cma", "vmsplice", "double"].map(|lmt| (300_000, lmt));
        for (bytes, lmt) in [(8usize, "auto"), (5_000, "auto")].into_iter().chain(large) {
            let got = AtomicU32::new(0);
            each(2, &config(&[("TOCSIN_BACKEND", backend), ("TOCSIN_LMT", lmt)]), |comm| {
                if comm.rank() == 0 {
                    for n in 0..MESSAGES {
                        // Now and then all who probe have gone to sleep.
                        if n % 8 == 0 {
                            while got.load(Ordering::Acquire) < n {
                                std::thread::yield_now();
                            }
                            let begun = Instant::now();
                            while begun.elapsed() < Duration::from_millis(2) {}
                        }
                        comm.isend(vec![n as u8; bytes], 1, (n % THREADS) as i32)?.wait()?;
                    }
                    return comm.barrier();
                }
                std::thread::scope(|scope| -> Result<(), Error> {
                    let threads: Vec<_> = (0..THREADS)
                        .map(|tag| {
                            let (comm, got) = (&comm, &got);
                            scope.spawn(move || -> Result<(), Error> {
                                for n in (tag..MESSAGES).step_by(THREADS as usize) {
                                    let source = if n % 2 == 0 { 0.into() } else { ANY_SOURCE };
                                    let status = comm.probe(source, tag as i32)?;
                                    assert_eq!(
                                        (status.source, status.tag, status.bytes),
                                        (0, tag as i32, bytes)
                                    );
                                    let (message, status) = comm.mprobe(source, tag as i32)?;
                                    let data = comm.mrecv(message, vec![0u8; status.bytes])?.wait()?;
                                    assert!(data.iter().all(|byte| *byte == n as u8));
                                    got.fetch_add(1, Ordering::Release);
                                }
                                Ok(())
                            })
                        })
                        .collect();
                    // The rank's own thread is interrupted, and never looks.
                    while got.load(Ordering::Acquire) < MESSAGES && threads.iter().any(|t| !t.is_finished()) {
                        std::hint::spin_loop();
                    }
                    threads.into_iter().try_for_each(|thread| thread.join().unwrap())
                })?;
                comm.barrier()
            });
        }
    }
}

#[test]
fn who_probes_sleeps() {
    for backend in BACKENDS {
        each(2, &config(&[("TOCSIN_BACKEND", backend)]), |comm| {
            if comm.rank() == 0 {
                std::thread::sleep(Duration::from_millis(400));
                comm.send(&[1u8], 1, 7)?;
                return comm.barrier();
            }
            let (wall, before) = (Instant::now(), cpu());
            let status = comm.probe(ANY_SOURCE, ANY_TAG)?;
            let (took, waited) = (cpu() - before, wall.elapsed());
            assert!(took < waited / 4, "{backend}: {took:?} of CPU in a wait of {waited:?}");
            assert_eq!(status.tag, 7);
            comm.recv(&mut [0u8], 0, 7)?;
            comm.barrier()
        });
    }
}

/// What is behind messages that nobody receives ends as a receive there does, and the messages are all there.
#[test]
fn a_probe_behind_a_full_pool_ends() {
    const SENDS: usize = 3_000;
    for backend in BACKENDS {
        let settings = config(&[("TOCSIN_BACKEND", backend), ("TOCSIN_UNEXPECTED_MAX", "64K")]);
        each(3, &settings, |comm| {
            if comm.rank() == 0 {
                let sent =
                    (0..SENDS).map(|n| comm.isend(vec![n as u8; 64], 1, 1)).collect::<Result<Vec<_>, _>>()?;
                let last = comm.isend(vec![9u8; 8], 1, 2)?;
                sent.into_iter().try_for_each(|request| request.wait().map(drop))?;
                last.wait()?;
                return comm.barrier();
            }
            if comm.rank() == 2 {
                // Past the pool, and seen by who probes for it.
                comm.send(&[3u8], 1, 3)?;
                return comm.barrier();
            }
            let (wall, before) = (Instant::now(), cpu());
            let probe = comm.probe(0, 2);
            assert!(
                matches!(probe, Err(Error::TooManyUnexpected { operation: "probe" })),
                "{backend}: {probe:?}"
            );
            let probe = comm.mprobe(ANY_SOURCE, 2);
            assert!(
                matches!(probe, Err(Error::TooManyUnexpected { operation: "mprobe" })),
                "{backend}: {probe:?}"
            );
            let (took, waited) = (cpu() - before, wall.elapsed());
            assert!(took < waited / 4, "{backend}: {took:?} of CPU in waits of {waited:?}");
            assert_eq!(comm.probe(0, 1)?.bytes, 64);
            for n in 0..SENDS {
                let mut data = [0u8; 64];
                comm.recv(&mut data, 0, 1)?;
                assert_eq!(data, [n as u8; 64]);
            }
            assert_eq!(comm.probe(0, 2)?.bytes, 8);
            comm.recv(&mut [0u8; 8], 0, 2)?;
            assert_eq!(comm.probe(ANY_SOURCE, 3)?.source, 2);
            comm.recv(&mut [0u8], 2, 3)?;
            comm.barrier()
        });
    }
}

/// Receives make room: what a probe waits for comes, however many messages are before it.
#[test]
fn a_probe_ends_when_another_thread_makes_room() {
    const SENDS: usize = 3_000;
    for backend in BACKENDS {
        let settings = config(&[("TOCSIN_BACKEND", backend), ("TOCSIN_UNEXPECTED_MAX", "64K")]);
        each(2, &settings, |comm| {
            if comm.rank() == 0 {
                let sent =
                    (0..SENDS).map(|_| comm.isend(vec![1u8; 64], 1, 1)).collect::<Result<Vec<_>, _>>()?;
                comm.isend(vec![9u8; 8], 1, 2)?.wait()?;
                sent.into_iter().try_for_each(|request| request.wait().map(drop))?;
                return comm.barrier();
            }
            std::thread::scope(|scope| -> Result<(), Error> {
                let probe = scope.spawn(|| comm.probe(0, 2));
                for _ in 0..SENDS {
                    comm.recv(&mut [0u8; 64], 0, 1)?;
                }
                assert_eq!(probe.join().unwrap()?.bytes, 8);
                comm.recv(&mut [0u8; 8], 0, 2).map(drop)
            })?;
            comm.barrier()
        });
    }
}

/// Who sleeps in a probe hears of the end of those it waits for, and of a revoke.
#[test]
fn a_probe_ends_with_who_it_waits_for() {
    for backend in BACKENDS {
        let settings = config(&[("TOCSIN_BACKEND", backend)]);
        each(2, &settings, |comm| {
            let mine = comm.dup()?;
            comm.barrier()?;
            if comm.rank() == 0 {
                std::thread::sleep(Duration::from_millis(50));
                mine.revoke();
                return Ok(());
            }
            let probe = mine.probe(0, ANY_TAG);
            assert!(matches!(probe, Err(Error::Revoked { .. })), "{backend}: {probe:?}");
            let probe = comm.probe(0, ANY_TAG);
            assert!(matches!(probe, Err(Error::PeerFinalized { rank: 0, .. })), "{backend}: {probe:?}");
            let probe = comm.mprobe(ANY_SOURCE, 1);
            assert!(matches!(probe, Err(Error::PeerFinalized { rank: 0, .. })), "{backend}: {probe:?}");
            Ok(())
        });
        let seen = AtomicBool::new(false);
        let ends = World::threads_with(2, &settings, |comm| {
            comm.barrier().unwrap();
            if comm.rank() == 0 {
                std::thread::sleep(Duration::from_millis(50));
                panic!("dies");
            }
            let probe = comm.probe(ANY_SOURCE, 5);
            seen.store(matches!(probe, Err(Error::PeerDead { rank: 0, .. })), Ordering::Relaxed);
        });
        assert!(ends.is_err(), "rank 0 died");
        assert!(seen.into_inner(), "{backend}");
    }
}
