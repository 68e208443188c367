//! The face with ranks as threads: every kind of call, on every backend.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use tocsin_tests::run::BACKENDS;
use tocsin_tests::worlds::{config, everywhere}; // Links the tripwire allocator, too.

use std::future::Future;
use std::pin::pin;
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use tocsin::{ANY_SOURCE, ANY_TAG, BackendKind, Comm, Config, Error, Op, UserOp, ValueIndex64, World};

/// Each backend that every machine has.
fn backends() -> impl Iterator<Item = Config> {
    BACKENDS.iter().map(|backend| config(&[("TOCSIN_BACKEND", &backend.to_string())]))
}

#[test]
fn owned_requests_bring_their_buffers_back() {
    everywhere(2..=2, |comm| {
        let other = 1 - comm.rank();
        for len in [0usize, 1, 7, 1000, 100_000] {
            let data: Vec<u32> = (0..len as u32).map(|i| i ^ comm.rank()).collect();
            let send = comm.isend(data.clone(), other, 3)?;
            let (got, status) = comm.irecv(vec![0u32; len], other, 3)?.wait_with_status()?;
            assert_eq!(send.wait()?, data);
            assert_eq!((status.source, status.tag, status.bytes), (other, 3, len * 4));
            assert!(got.iter().zip(0..).all(|(x, i)| *x == i ^ other));
        }
        Ok(())
    });
}

#[test]
fn scoped_requests_borrow() {
    everywhere(3..=3, |comm| {
        let (next, before) = ((comm.rank() + 1) % 3, (comm.rank() + 2) % 3);
        let out = [comm.rank() as u64; 64];
        let mut into = [u64::MAX; 64];
        comm.scope(|s| {
            let receive = s.irecv(&mut into, before, 1)?;
            let send = s.issend(&out, next, 1)?;
            let got = receive.wait()?;
            got[0] += 100;
            send.wait()?;
            Ok(())
        })?;
        assert_eq!(into[0], u64::from(before) + 100);
        assert_eq!(into[1..], [u64::from(before); 63]);
        Ok(())
    });
}

#[test]
fn collectives() {
    for ranks in [1, 2, 3, 4, 7] {
        everywhere(ranks..=ranks, |comm| {
            let me = comm.rank();
            comm.barrier()?;
            for root in 0..ranks {
                let data = if me == root { vec![root as i16; 300] } else { vec![-1; 300] };
                assert_eq!(comm.ibcast(data, root)?.wait()?, [root as i16; 300]);
            }
            let sum = comm.iallreduce(vec![u64::from(me); 10], Op::Sum)?.wait()?;
            assert_eq!(sum, [u64::from(ranks * (ranks - 1) / 2); 10]);
            let boxed: Box<[f32]> = vec![me as f32].into();
            assert_eq!(*comm.iallreduce(boxed, Op::Max)?.wait()?, [(ranks - 1) as f32]);
            let blocks: Vec<u32> = (0..ranks).flat_map(|to| [me * 100 + to; 2]).collect();
            let expected: Vec<u32> = (0..ranks).flat_map(|from| [from * 100 + me; 2]).collect();
            assert_eq!(comm.ialltoall(blocks.clone())?.wait()?, expected);
            let mut into = vec![0; blocks.len()];
            comm.alltoall(&blocks, &mut into)?;
            assert_eq!(into, expected);
            let mut place = [ValueIndex64 { value: -f64::from(me), index: me as i32, padding: 0 }];
            comm.allreduce(&mut place, Op::MinLoc)?;
            assert_eq!(place[0].index, ranks as i32 - 1);
            Ok(())
        });
    }
}

#[test]
fn user_operators_commuting_or_not() {
    everywhere(5..=5, |comm| {
        // Affine maps x -> a x + b, packed in one word: composition does not commute.
        let compose = UserOp::ordered(|f: u64, g: u64| {
            let ((fa, fb), (ga, gb)) = ((f >> 32, f & 0xffff_ffff), (g >> 32, g & 0xffff_ffff));
            (((fa * ga) % 9973) << 32) | ((ga * fb + gb) % 9973)
        });
        let of = |rank: u64| (rank + 2) << 32 | (rank * 7 + 1);
        let mut mine = [of(u64::from(comm.rank()))];
        comm.allreduce(&mut mine, Op::User(compose))?;
        let all = (1..5).fold(of(0), |f, rank| {
            let g = of(rank);
            let ((fa, fb), (ga, gb)) = ((f >> 32, f & 0xffff_ffff), (g >> 32, g & 0xffff_ffff));
            (((fa * ga) % 9973) << 32) | ((ga * fb + gb) % 9973)
        });
        assert_eq!(mine, [all]);
        Ok(())
    });
}

#[test]
fn a_panicking_operator_is_an_error() {
    everywhere(2..=2, |comm| {
        let bad = UserOp::commutative(|_: i32, _: i32| panic!("as asked"));
        let error = comm.iallreduce(vec![1], Op::User(bad))?.wait().unwrap_err();
        assert!(matches!(error, Error::UserOperatorPanicked { .. }), "{error:?}");
        Ok(())
    });
}

#[test]
fn an_operator_may_not_call_the_library() {
    static CALLER: Mutex<Option<Comm>> = Mutex::new(None);
    everywhere(2..=2, |comm| {
        let calls = UserOp::commutative(|_: u32, _: u32| {
            let caller = CALLER.lock().unwrap().clone();
            u32::from(matches!(caller.unwrap().ibarrier(), Err(Error::InHandler { .. })))
        });
        if comm.rank() == 0 {
            *CALLER.lock().unwrap() = Some(comm.clone());
        }
        comm.barrier()?;
        assert_eq!(comm.iallreduce(vec![5u32], Op::User(calls))?.wait()?, [1]);
        Ok(())
    });
    *CALLER.lock().unwrap() = None;
}

#[test]
fn wildcards_probes_and_matched_receives() {
    everywhere(3..=3, |comm| {
        if comm.rank() > 0 {
            comm.send(&[comm.rank(); 5], 0, comm.rank() as i32)?;
            return comm.barrier();
        }
        let mut seen = [false; 3];
        for _ in 0..2 {
            let (message, status) = loop {
                if let Some(found) = comm.improbe(ANY_SOURCE, ANY_TAG)? {
                    break found;
                }
            };
            assert_eq!((status.tag, status.bytes), (status.source as i32, 20));
            let (got, again) = comm.mrecv(message, vec![0u32; 5])?.wait_with_status()?;
            assert_eq!((again, &got[..]), (status, &[status.source; 5][..]));
            seen[status.source as usize] = true;
        }
        assert_eq!(seen, [false, true, true]);
        assert_eq!(comm.iprobe(ANY_SOURCE, ANY_TAG)?, None);
        comm.barrier()
    });
}

#[test]
fn truncation_is_an_error_of_the_right_request_alone() {
    everywhere(2..=2, |comm| {
        if comm.rank() == 0 {
            for len in [100usize, 100_000] {
                comm.isend(vec![1u8; len], 1, 0)?.wait()?;
                comm.isend(vec![2u8; 4], 1, 1)?.wait()?;
            }
            return Ok(());
        }
        for len in [100u64, 100_000] {
            let short = comm.irecv(vec![0u8; 10], 0, 0)?;
            let good = comm.irecv(vec![0u8; 4], 0, 1)?;
            match short.wait() {
                Err(Error::Truncated { source_rank: 0, tag: 0, message, buffer: 10 }) => {
                    assert_eq!(message, len)
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(good.wait()?, [2; 4]);
        }
        Ok(())
    });
}

#[test]
fn dup_and_split_keep_traffic_apart() {
    everywhere(4..=4, |comm| {
        let twin = comm.dup()?;
        assert_eq!((twin.rank(), twin.size()), (comm.rank(), 4));
        let other = comm.rank() ^ 1;
        let on_twin = twin.irecv(vec![0u32], other, 5)?;
        let on_comm = comm.irecv(vec![0u32], other, 5)?;
        comm.send(&[1u32], other, 5)?;
        twin.send(&[2u32], other, 5)?;
        assert_eq!((on_comm.wait()?, on_twin.wait()?), (vec![1], vec![2]));
        // Even and odd ranks, in reverse order; rank 3 in neither.
        let color = (comm.rank() != 3).then_some(comm.rank() % 2);
        match comm.split(color, -(comm.rank() as i32))? {
            None => assert_eq!(comm.rank(), 3),
            Some(half) if color == Some(0) => {
                assert_eq!((half.size(), half.rank()), (2, u32::from(comm.rank() == 0)));
                let mut all = [u64::from(comm.rank())];
                half.allreduce(&mut all, Op::Sum)?;
                assert_eq!(all, [2]);
                let status = half.sendrecv(&[7u8], 1 - half.rank(), 0, &mut [0u8], ANY_SOURCE, ANY_TAG)?;
                assert_eq!(status.source, 1 - half.rank());
                let (mut word, other) = ([half.rank()], 1 - half.rank());
                half.sendrecv_replace(&mut word, other, 1, other, 1)?;
                assert_eq!(word, [other]);
            }
            Some(half) => assert_eq!(half.size(), 1),
        }
        comm.barrier()
    });
}

#[test]
fn dropped_and_forgotten_requests_go_on() {
    everywhere(2..=2, |comm| {
        let other = 1 - comm.rank();
        // Rendezvous and eager sends whose requests nobody keeps.
        drop(comm.isend(vec![comm.rank(); 50_000], other, 1)?);
        std::mem::forget(comm.isend(vec![comm.rank(); 10], other, 2)?);
        drop(comm.irecv(vec![0u8; 10], other, 99)?);
        std::mem::forget(comm.irecv(vec![0u8; 10], other, 98)?);
        assert_eq!(comm.irecv(vec![0u32; 10], other, 2)?.wait()?, [other; 10]);
        assert_eq!(comm.irecv(vec![0u32; 50_000], other, 1)?.wait()?, vec![other; 50_000]);
        Ok(())
    });
}

#[test]
fn a_scope_left_with_pending_requests_revokes_and_returns() {
    everywhere(2..=2, |comm| {
        let twin = comm.dup()?;
        if comm.rank() == 0 {
            let mut never = [0u8; 8];
            let begun = Instant::now();
            let error = twin
                .scope(|s| {
                    std::mem::forget(s.irecv(&mut never, 1, 42)?);
                    Ok(())
                })
                .unwrap_err();
            assert!(matches!(error, Error::ScopeLeftPending { pending: 1 }), "{error:?}");
            assert!(begun.elapsed() < Duration::from_secs(2));
            never[0] = 1;
            assert_eq!(never[0], 1);
        } else {
            // Refused at once if the revoke came first.
            let error = twin.irecv(vec![0u8; 8], 0, 1).and_then(tocsin::Request::wait).unwrap_err();
            assert!(matches!(error, Error::Revoked { .. }), "{error:?}");
        }
        assert!(matches!(twin.ibarrier().and_then(tocsin::Request::wait), Err(Error::Revoked { .. })));
        comm.barrier()
    });
}

#[test]
fn a_scope_that_unwinds_returns_the_buffers_first() {
    everywhere(2..=2, |comm| {
        let twin = comm.dup()?;
        let mut buffer = [0u8; 16];
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _never: Result<(), Error> = twin.scope(|s| {
                // Refused at once if the other's revoke came first.
                let _request = s.irecv(&mut buffer, 1 - twin.rank(), 0);
                panic!("as asked");
            });
        }));
        assert!(caught.is_err());
        comm.barrier()
    });
}

#[test]
fn cancelled_receives_say_so() {
    everywhere(1..=1, |comm| {
        let mut request = comm.irecv(vec![0u8; 4], ANY_SOURCE, 9)?;
        assert!(request.test().is_none());
        assert!(request.wait_timeout(Duration::from_millis(5)).is_none());
        assert!(request.cancel());
        assert!(matches!(request.wait(), Err(Error::Cancelled { .. })));
        Ok(())
    });
}

#[test]
fn callbacks_run_with_the_buffer() {
    everywhere(2..=2, |comm| {
        let (done, ended) = mpsc::channel();
        if comm.rank() == 0 {
            comm.irecv(vec![0u16; 3], 1, 0)?.on_complete(move |outcome| done.send(outcome).unwrap());
            let begun = Instant::now();
            let outcome = loop {
                // Under `poll` nothing completes but in calls.
                comm.progress();
                if let Ok(outcome) = ended.recv_timeout(Duration::from_millis(1)) {
                    break outcome;
                }
                assert!(begun.elapsed() < Duration::from_secs(10));
            };
            let (buffer, status) = outcome?;
            assert_eq!((buffer, status.source), (vec![1, 2, 3], 1));
        } else {
            std::thread::sleep(Duration::from_millis(5));
            comm.send(&[1u16, 2, 3], 0, 0)?;
        }
        comm.barrier()
    });
}

struct Flag(Mutex<bool>, Condvar);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }
}

fn block_on<F: Future>(future: F, mut idle: impl FnMut()) -> F::Output {
    let flag = Arc::new(Flag(Mutex::new(false), Condvar::new()));
    let waker = Waker::from(flag.clone());
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        loop {
            let woken = flag.0.lock().unwrap();
            let mut woken = flag.1.wait_timeout(woken, Duration::from_millis(1)).unwrap().0;
            if std::mem::take(&mut *woken) {
                break;
            }
            // Not under the lock: it may run the waker.
            drop(woken);
            idle();
        }
    }
}

#[test]
fn requests_are_futures() {
    everywhere(2..=2, |comm| {
        let other = 1 - comm.rank();
        let receive = comm.irecv(vec![0u64; 2], other, 0)?;
        std::thread::sleep(Duration::from_millis(3 * u64::from(comm.rank())));
        let send = comm.isend(vec![u64::from(comm.rank()); 2], other, 0)?;
        let got = block_on(
            async {
                send.await?;
                receive.await
            },
            || comm.progress(),
        )?;
        assert_eq!(got, [u64::from(other); 2]);
        Ok(())
    });
}

#[test]
fn many_at_once() {
    everywhere(2..=2, |comm| {
        let other = 1 - comm.rank();
        let sends: Vec<_> = (0..500).map(|i| comm.isend(vec![i; 3], other, i)).collect::<Result<_, _>>()?;
        // In the opposite order: all but one are unexpected.
        let receives: Vec<_> =
            (0..500).rev().map(|i| comm.irecv(vec![0; 3], other, i)).collect::<Result<_, _>>()?;
        for (got, i) in tocsin::wait_all(receives)?.into_iter().zip((0..500).rev()) {
            assert_eq!(got, [i; 3]);
        }
        assert_eq!(tocsin::wait_all(sends)?.len(), 500);
        comm.barrier()
    });
}

#[test]
fn wait_all_gives_the_first_error_when_all_are_complete() {
    everywhere(2..=2, |comm| {
        let other = 1 - comm.rank();
        // Nobody sends what the third asks for; the second and the fourth have too little room; the last message is sent when
        // all others have come.
        let rooms = [4, 3, 4, 2, 4];
        let mut receives: Vec<_> = (0..)
            .zip(rooms)
            .map(|(tag, room)| comm.irecv(vec![0u8; room], other, tag))
            .collect::<Result<_, _>>()?;
        let sends: Vec<_> = [0, 1, 3]
            .into_iter()
            .map(|tag| comm.isend(vec![7u8; 4], other, tag))
            .collect::<Result<_, _>>()?;
        assert_eq!(tocsin::wait_all(sends)?, vec![vec![7; 4]; 3]);
        assert!(receives[2].cancel());
        comm.barrier()?;
        let sending = comm.isend(vec![7u8; 4], other, 4)?;
        let error = tocsin::wait_all(receives).unwrap_err();
        assert!(matches!(error, Error::Truncated { tag: 1, message: 4, buffer: 3, .. }), "{error}");
        sending.wait()?;
        comm.barrier()?;
        assert_eq!(comm.iprobe(ANY_SOURCE, ANY_TAG)?, None, "all were received");
        assert!(tocsin::wait_all(Vec::<tocsin::Request<Vec<u8>>>::new())?.is_empty());
        comm.barrier()
    });
}

#[test]
fn wait_any_finds_the_one_that_ends() {
    everywhere(2..=2, |comm| {
        if comm.rank() == 0 {
            let mut all = [comm.irecv(vec![0u8; 1], 1, 0)?, comm.irecv(vec![0u8; 1], 1, 1)?];
            assert_eq!(tocsin::wait_any(&mut all), Some(1));
            comm.send(&[0u8], 1, 2)?;
            let [first, second] = all;
            assert_eq!((first.wait()?, second.wait()?), (vec![10], vec![11]));
        } else {
            comm.send(&[11u8], 0, 1)?;
            comm.recv(&mut [0u8], 0, 2)?;
            comm.send(&[10u8], 0, 0)?;
        }
        Ok(())
    });
}

#[test]
fn other_threads_of_a_rank_may_communicate() {
    everywhere(2..=2, |comm| {
        let other = 1 - comm.rank();
        std::thread::scope(|threads| {
            for tag in 0..4 {
                let comm = &comm;
                threads.spawn(move || {
                    for i in 0..50u32 {
                        let send = comm.isend(vec![i; 100], other, tag).unwrap();
                        assert_eq!(comm.irecv(vec![0; 100], other, tag).unwrap().wait().unwrap(), [i; 100]);
                        send.wait().unwrap();
                    }
                });
            }
        });
        comm.barrier()
    });
}

#[test]
fn a_panicking_rank_is_a_dead_rank() {
    for config in backends() {
        let begun = Instant::now();
        let results = World::threads_each(3, &config, |comm| {
            if comm.rank() == 1 {
                panic!("as asked");
            }
            comm.irecv(vec![0u8; 1], 1, 0)?.wait().map(drop)
        })
        .unwrap();
        assert!(
            matches!(&results[1], Err(Error::RankPanicked { rank: 1, message }) if message == "as asked")
        );
        for rank in [0, 2] {
            let error = results[rank].as_ref().unwrap().as_ref().unwrap_err();
            assert!(matches!(error, Error::PeerDead { rank: 1, .. }), "{:?}: {error:?}", config.backend);
        }
        assert!(begun.elapsed() < Duration::from_secs(5));
        let error =
            World::threads_with(2, &config, |comm| assert!(comm.rank() == 0, "rank 1 breaks")).unwrap_err();
        assert!(matches!(error, Error::RankPanicked { rank: 1, .. }), "{error:?}");
    }
}

/// What a rank panics with panics itself when it is dropped, and so does that.
struct Panics(u32);

impl Drop for Panics {
    fn drop(&mut self) {
        if let Some(left) = self.0.checked_sub(1) {
            std::panic::panic_any(Panics(left));
        }
    }
}

#[test]
fn what_a_rank_panics_with_stays_with_it() {
    for depth in 0..4 {
        let results = World::threads(2, |comm| {
            if comm.rank() == 1 {
                std::panic::panic_any(Panics(depth));
            }
        });
        assert!(matches!(results, Err(Error::RankPanicked { rank: 1, .. })), "{depth}: {results:?}");
    }
}

#[test]
fn a_computing_rank_receives_what_it_looks_for() {
    let mut config = Config::default();
    config.set("TOCSIN_BACKEND", "signal").unwrap();
    let results = World::threads_with(2, &config, |comm| {
        assert_eq!(comm.backend(), BackendKind::Signal);
        // By rendezvous: its announcement interrupts, because the sender waits for an answer.
        let request = comm.irecv(vec![0u8; 100_000], 1 - comm.rank(), 0)?;
        comm.barrier()?;
        if comm.rank() == 0 {
            // No call that makes progress: a handler has to.
            let begun = Instant::now();
            while !request.is_done() && begun.elapsed() < Duration::from_secs(5) {
                std::hint::spin_loop();
            }
            assert!(request.is_done());
            assert!(comm.stats().interrupts > 0);
        } else {
            std::thread::sleep(Duration::from_millis(20));
        }
        comm.send(&[3u8; 100_000], 1 - comm.rank(), 0)?;
        assert_eq!(request.wait()?, [3u8; 100_000]);
        Ok::<(), Error>(())
    });
    results.unwrap().into_iter().collect::<Result<(), _>>().unwrap();
}

#[test]
fn a_computing_rank_takes_part() {
    let mut config = Config::default();
    config.set("TOCSIN_BACKEND", "signal").unwrap();
    let results = World::threads_with(2, &config, |comm| {
        assert_eq!(comm.backend(), BackendKind::Signal);
        // Large, so by rendezvous. Messages of a collective interrupt who computes, because others depend on its part.
        let sum = || comm.iallreduce(vec![3u64; 20_000], Op::Sum);
        let request = if comm.rank() == 0 { Some(sum()?) } else { None };
        if comm.rank() == 0 {
            // No call that makes progress: a handler has to.
            let begun = Instant::now();
            while !request.as_ref().unwrap().is_done() && begun.elapsed() < Duration::from_secs(5) {
                std::hint::spin_loop();
            }
            assert!(request.as_ref().unwrap().is_done());
            assert!(comm.stats().interrupts > 0);
        } else {
            std::thread::sleep(Duration::from_millis(20));
        }
        let request = request.map_or_else(sum, Ok)?;
        assert_eq!(request.wait()?, [6u64; 20_000]);
        Ok::<(), Error>(())
    });
    results.unwrap().into_iter().collect::<Result<(), _>>().unwrap();
}

#[test]
fn wrong_arguments_say_what_is_right() {
    everywhere(2..=2, |comm| {
        let text = |e: Error| e.to_string();
        let rows = [
            (text(comm.isend(vec![0u8], 2, 0).unwrap_err()), "isend: rank 2 is out of range"),
            (text(comm.irecv(vec![0u8], 9, 0).unwrap_err()), "irecv: rank 9 is out of range"),
            (text(comm.isend(vec![0u8], 0, -1).unwrap_err()), "isend: tag -1 is negative"),
            (text(comm.irecv(vec![0u8], 0, -7).unwrap_err()), "irecv: tag -7 is negative"),
            (text(comm.iprobe(5, 0).unwrap_err()), "iprobe: rank 5 is out of range"),
            (text(comm.ibcast(vec![0u8], 2).unwrap_err()), "ibcast: root 2 is out of range"),
            (text(comm.ialltoall(vec![0u8; 3]).unwrap_err()), "use a multiple of 2"),
            (text(comm.alltoall(&[0u8; 2], &mut [0u8; 4]).unwrap_err()), "make them equal"),
            (text(comm.iallreduce(vec![0f64], Op::BAnd).unwrap_err()), "not defined on f64"),
            (text(comm.iallreduce(vec![0u8], Op::MinLoc).unwrap_err()), "not defined on u8"),
            (text(comm.with_algorithm("magic").ibarrier().unwrap_err()), "dissemination"),
            (
                text(comm.sendrecv(&[0u8], 3, 0, &mut [0u8], 0, 0).unwrap_err()),
                "sendrecv: rank 3 is out of range",
            ),
            (
                text(comm.sendrecv_replace(&mut [0u8], 0, 0, 3, 0).unwrap_err()),
                "sendrecv_replace: rank 3 is out of range",
            ),
        ];
        for (text, part) in rows {
            assert!(text.contains(part), "{text}");
        }
        comm.barrier()
    });
    assert!(World::threads(0, |_| ()).unwrap_err().to_string().contains("at least 1"));
    let mut config = Config::default();
    config.set("TOCSIN_BACKEND", "uintr").unwrap();
    let error = World::threads_with(1, &config, |_| ()).unwrap_err();
    assert!(matches!(error, Error::BackendUnusable { .. }), "{error}");
}

#[test]
fn calls_after_the_end_are_errors() {
    for config in backends() {
        let comms = World::threads_with(2, &config, |comm| {
            let pending = comm.irecv(vec![0u8; 1], 1 - comm.rank(), 0);
            (comm, pending)
        })
        .unwrap();
        for (comm, pending) in comms {
            assert!(matches!(comm.isend(vec![0u8], 0, 0), Err(Error::Finalized { .. })));
            assert!(matches!(comm.barrier(), Err(Error::Finalized { .. })));
            let ended = pending.and_then(tocsin::Request::wait);
            assert!(matches!(ended, Err(Error::Finalized { .. } | Error::PeerFinalized { .. })), "{ended:?}");
            comm.revoke();
            comm.progress();
        }
    }
}
