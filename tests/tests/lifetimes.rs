//! What lives how long, with ranks as threads: messages, requests, callbacks and buffers whose owners go early, and
//! threads of one rank that hold each other up.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use tocsin_tests::worlds::config; // Links the tripwire allocator, too.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Barrier, Mutex, OnceLock, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tocsin::{Comm, Error, Op, Request, UserOp, World};
use tocsin_sync::atomic::{AtomicBool, Ordering};

/// Far longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls when woken and at no other time; `None` when nobody wakes it.
fn block_on<F: Future>(future: F) -> Option<F::Output> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    let end = std::time::Instant::now() + LONG;
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(value);
        }
        let left = end.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return None;
        }
        std::thread::park_timeout(left);
    }
}

/// A sender that floods a receiver, then sends the one message that matters.
fn flood(comm: &Comm, messages: usize) -> Result<Vec<Request<Vec<u8>>>, Error> {
    let mut all = Vec::new();
    for _ in 0..messages {
        all.push(comm.isend(vec![1u8; 64], 1, 1)?);
    }
    all.push(comm.isend(vec![2u8; 64], 1, 2)?);
    Ok(all)
}

#[test]
fn a_future_behind_a_full_pool_is_completed() {
    const FLOOD: usize = 20_000;
    for result in World::threads(2, |comm| {
        if comm.rank() == 0 {
            for request in flood(&comm, FLOOD)? {
                request.wait()?;
            }
        } else {
            let wanted = comm.irecv(vec![0u8; 64], 0, 2)?;
            let got = block_on(wanted).expect("nobody woke the future")?;
            assert_eq!(got, [2; 64]);
            for _ in 0..FLOOD {
                comm.recv(&mut [0u8; 64], 0, 1)?;
            }
        }
        comm.barrier()
    })
    .unwrap()
    {
        result.unwrap();
    }
}

#[test]
fn a_pool_at_its_limit_fails_no_receive_while_others_receive() {
    const FLOOD: usize = 20_000;
    for tests in [true, false] {
        for result in World::threads_with(2, &config(&[("TOCSIN_UNEXPECTED_MAX", "64K")]), |comm| {
            if comm.rank() == 0 {
                for request in flood(&comm, FLOOD)? {
                    request.wait()?;
                }
                return comm.barrier();
            }
            let wanted = if tests {
                let mut wanted = comm.irecv(vec![0u8; 64], 0, 2)?;
                for _ in 0..FLOOD {
                    assert!(!matches!(wanted.test(), Some(Err(_))), "a test ended a receive");
                    comm.recv(&mut [0u8; 64], 0, 1)?;
                }
                wanted.wait()?
            } else {
                std::thread::scope(|threads| {
                    let waiter = threads.spawn(|| comm.irecv(vec![0u8; 64], 0, 2)?.wait());
                    for _ in 0..FLOOD {
                        comm.recv(&mut [0u8; 64], 0, 1)?;
                    }
                    waiter.join().unwrap()
                })?
            };
            assert_eq!(wanted, [2; 64]);
            comm.barrier()
        })
        .unwrap()
        {
            result.unwrap();
        }
    }
}

/// A wait that was held up by a full pool goes on when there is room, and lasts as long as it may.
#[test]
fn a_wait_behind_a_pool_that_was_full_does_not_end_early() {
    const FLOOD: usize = 20_000;
    let pass_time = |ms| {
        let end = std::time::Instant::now() + Duration::from_millis(ms);
        while std::time::Instant::now() < end {}
    };
    for result in World::threads_with(2, &config(&[("TOCSIN_UNEXPECTED_MAX", "64K")]), |comm| {
        if comm.rank() == 0 {
            let sent: Vec<_> =
                (0..FLOOD).map(|_| comm.isend(vec![1u8; 64], 1, 1)).collect::<Result<_, Error>>()?;
            for request in sent {
                request.wait()?;
            }
            comm.recv(&mut [0u8], 1, 3)?;
            comm.send(&[2u8; 64], 1, 2)?;
            return comm.barrier();
        }
        std::thread::scope(|threads| {
            let waiter = threads.spawn(|| {
                let mut wanted = comm.irecv(vec![0u8; 64], 0, 2)?;
                wanted.wait_timeout(LONG).expect("the wait ended before its time")?;
                wanted.wait()
            });
            // The waiter comes to see the full pool, then one with room, and waits longer than it would watch that.
            pass_time(50);
            for _ in 0..FLOOD {
                comm.recv(&mut [0u8; 64], 0, 1)?;
            }
            pass_time(300);
            comm.send(&[0u8], 0, 3)?;
            assert_eq!(waiter.join().unwrap()?, [2; 64]);
            comm.barrier()
        })
    })
    .unwrap()
    {
        result.unwrap();
    }
}

#[test]
fn a_pool_that_stays_full_ends_the_wait_behind_it() {
    for result in World::threads_with(2, &config(&[("TOCSIN_UNEXPECTED_MAX", "64K")]), |comm| {
        if comm.rank() == 0 {
            let sent = flood(&comm, 20_000)?;
            comm.barrier()?;
            drop(sent);
            return Ok(());
        }
        let outcome = comm.irecv(vec![0u8; 64], 0, 2)?.wait();
        assert!(matches!(outcome, Err(Error::TooManyUnexpected { .. })), "{outcome:?}");
        comm.barrier()
    })
    .unwrap()
    {
        result.unwrap();
    }
}

#[test]
fn a_dropped_message_lets_its_sender_go_on() {
    for bytes in [0, 10, 100_000] {
        for result in World::threads(2, |comm| {
            if comm.rank() == 0 {
                let mut sent = comm.issend(vec![1u8; bytes], 1, 1)?;
                sent.wait_timeout(LONG).expect("the sender waits for a message that was dropped")?;
            } else {
                drop(comm.mprobe(0, 1)?);
            }
            comm.barrier()
        })
        .unwrap()
        {
            result.unwrap();
        }
    }
}

#[test]
fn dropped_messages_take_no_memory() {
    const MESSAGES: usize = 20_000;
    for result in World::threads_with(2, &config(&[("TOCSIN_UNEXPECTED_MAX", "64K")]), |comm| {
        if comm.rank() == 0 {
            for _ in 0..MESSAGES {
                comm.send(&[1u8; 64], 1, 1)?;
            }
        } else {
            for _ in 0..MESSAGES {
                drop(comm.mprobe(0, 1)?);
            }
        }
        comm.barrier()
    })
    .unwrap()
    {
        result.unwrap();
    }
}

#[test]
fn a_message_is_received_by_the_rank_that_probed_it() {
    let slots = Mutex::new([None, None]);
    let gate = Barrier::new(2);
    for result in World::threads(2, |comm| {
        let me = comm.rank();
        let sent = comm.isend(vec![me as u8; 4], me, 1)?;
        let (message, _) = comm.mprobe(me, 1)?;
        slots.lock().unwrap()[me as usize] = Some(message);
        gate.wait();
        let theirs = slots.lock().unwrap()[1 - me as usize].take().unwrap();
        let got = comm.mrecv(theirs, vec![9u8; 4]).map(drop);
        assert!(matches!(got, Err(Error::InvalidArgument { operation: "mrecv", .. })), "{got:?}");
        sent.wait().map(drop)
    })
    .unwrap()
    {
        result.unwrap();
    }
}

#[test]
fn callbacks_and_wakers_learn_of_the_end() {
    for backend in ["signal", "thread", "poll"] {
        let (told, heard) = mpsc::channel();
        let (future, polled) = (OnceLock::new(), Arc::new(Barrier::new(2)));
        World::threads_with(1, &config(&[("TOCSIN_BACKEND", backend)]), |comm| {
            let told = told.clone();
            comm.irecv(vec![0u8; 4], 0, 1)
                .unwrap()
                .on_complete(move |outcome| told.send(outcome.map(drop)).unwrap());
            let request = comm.irecv(vec![0u8; 4], 0, 2).unwrap();
            let gate = polled.clone();
            let thread = std::thread::spawn(move || {
                let mut request = pin!(request);
                let mut passed = false;
                block_on(std::future::poll_fn(move |context| {
                    let polled = request.as_mut().poll(context);
                    if !std::mem::replace(&mut passed, true) {
                        gate.wait();
                    }
                    polled
                }))
            });
            assert!(future.set(thread).is_ok());
            // The waker is set.
            polled.wait();
        })
        .unwrap();
        let outcome = heard.recv_timeout(LONG).expect("the callback never ran");
        assert!(matches!(outcome, Err(Error::Finalized { .. })), "{backend}: {outcome:?}");
        let polled = future.into_inner().unwrap().join().unwrap().expect("nobody woke the future");
        assert!(matches!(polled, Err(Error::Finalized { .. })), "{backend}: {polled:?}");
    }
}

#[test]
fn a_send_to_oneself_that_nobody_receives_does_not_hold_the_end_up() {
    for result in World::threads(1, |comm| comm.issend(vec![1u8; 4], 0, 0).map(drop)).unwrap() {
        result.unwrap();
    }
}

#[test]
fn one_thread_of_a_scope_posts_while_another_waits() {
    for result in World::threads(2, |comm| {
        if comm.rank() == 1 {
            for _ in 0..16 {
                comm.recv(&mut [0u8], 0, 1)?;
            }
            return comm.send(&[5u8], 0, 9);
        }
        let (mut answer, messages, waits) = ([0u8], [7u8; 16], AtomicBool::new(false));
        comm.scope(|scope| {
            let receive = scope.irecv(&mut answer, 1, 9)?;
            std::thread::scope(|threads| {
                let waiter = threads.spawn(|| {
                    waits.store(true, Ordering::Release);
                    receive.wait().map(|buffer| buffer[0])
                });
                while !waits.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                for message in messages.chunks(1) {
                    // More than the scope keeps without looking at the older ones.
                    let _runs_on = scope.isend(message, 1, 1)?;
                    std::thread::yield_now();
                }
                waiter.join().unwrap()
            })
        })
        .map(|got| assert_eq!(got, 5))
    })
    .unwrap()
    {
        result.unwrap();
    }
}

#[test]
fn an_operator_that_calls_the_library_is_an_error() {
    static COMM: OnceLock<Comm> = OnceLock::new();
    let operator = UserOp::commutative(|a: u64, b: u64| {
        // It would wait for the engine that runs it.
        let _stats = COMM.get().unwrap().stats();
        a + b
    });
    for result in World::threads(2, |comm| {
        if comm.rank() == 0 {
            assert!(COMM.set(comm.clone()).is_ok());
        }
        comm.barrier()?;
        let outcome = comm.allreduce(&mut [1u64], Op::User(operator));
        assert!(matches!(outcome, Err(Error::UserOperatorPanicked { .. })), "{outcome:?}");
        Ok::<(), Error>(())
    })
    .unwrap()
    {
        result.unwrap();
    }
}

/// Threads of a rank that post while it leaves: nothing may arrive in the buffers that it frees. An operator that holds
/// the engine while the rank closes makes the others find it closed once they are in.
#[test]
fn operations_that_race_with_the_end_touch_nothing() {
    const RECEIVES: usize = 2000;
    for backend in ["signal", "poll", "signal", "poll", "signal", "poll"] {
        let left = OnceLock::new();
        World::threads_with(3, &config(&[("TOCSIN_BACKEND", backend)]), |comm| {
            let pair = comm.split((comm.rank() < 2).then_some(1), 0).unwrap();
            match comm.rank() {
                0 => {
                    comm.recv(&mut [0u8], 1, 5).unwrap();
                    let sum = Op::User(UserOp::commutative(|a: u64, b| a + b));
                    drop(pair.unwrap().iallreduce(vec![1u64], sum).unwrap());
                    for _ in 0..RECEIVES {
                        drop(comm.isend(vec![1u8; 64], 1, 2));
                    }
                }
                1 => {
                    // Parked: their buffers are freed when the rank leaves.
                    for _ in 0..RECEIVES {
                        drop(comm.irecv(vec![0u8; 64], 0, 2).unwrap());
                    }
                    let probe = comm.irecv(vec![0u8; 64], 0, 99).unwrap();
                    static BUSY: Mutex<Option<mpsc::Sender<()>>> = Mutex::new(None);
                    let (busy, is_busy) = mpsc::channel();
                    *BUSY.lock().unwrap() = Some(busy);
                    let slow = UserOp::commutative(|a: u64, b: u64| {
                        if let Some(busy) = BUSY.lock().unwrap().take() {
                            busy.send(()).unwrap();
                        }
                        // Some time inside, in which the others come to the door.
                        let start = std::time::Instant::now();
                        while start.elapsed() < Duration::from_millis(20) {
                            std::hint::spin_loop();
                        }
                        a + b
                    });
                    let (pair, mine) = (pair.unwrap(), comm.clone());
                    let operator = std::thread::spawn(move || {
                        drop(pair.iallreduce(vec![1u64], Op::User(slow)).map(|r| r.wait()));
                    });
                    comm.send(&[0u8], 0, 5).unwrap();
                    is_busy.recv_timeout(LONG).unwrap();
                    let posting: Vec<_> = (0..16)
                        .map(|_| {
                            let comm = mine.clone();
                            std::thread::spawn(move || comm.irecv(vec![0u8; 1], 0, 55).map(drop))
                        })
                        .collect();
                    let watch = std::thread::spawn(move || {
                        while !probe.is_done() {
                            std::thread::yield_now();
                        }
                        let before = mine.stats().packets_received;
                        for thread in posting {
                            drop(thread.join().unwrap());
                        }
                        operator.join().unwrap();
                        mine.stats().packets_received - before
                    });
                    assert!(left.set(watch).is_ok());
                }
                _ => {}
            }
        })
        .unwrap();
        let after = left.into_inner().unwrap().join().unwrap();
        assert_eq!(after, 0, "{backend}: packets were taken in after the rank had left");
    }
}

/// The news of a death that comes with the start of another operation reaches the collective that waits.
#[test]
fn a_death_that_another_operation_learns_of_ends_a_collective() {
    for backend in ["signal", "thread", "poll"] {
        let ended = Mutex::new(None);
        let (dead, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let all_are_there = Barrier::new(3);
        let ends = World::threads_with(3, &config(&[("TOCSIN_BACKEND", backend)]), |comm| {
            let other = comm.dup().unwrap();
            // Not by a collective: the death of a rank that has left it may end it for the others.
            all_are_there.wait();
            match comm.rank() {
                0 => {
                    let barrier = other.ibarrier().unwrap();
                    // Rank 2 says that rank 1 has died. Until then this rank does not enter the library.
                    while !dead.load(Ordering::Acquire) {
                        std::hint::spin_loop();
                    }
                    let never = comm.irecv(vec![0u8; 8], 2, 1).unwrap();
                    *ended.lock().unwrap() = Some(barrier.wait().map(drop));
                    drop(never);
                    over.store(true, Ordering::Release);
                }
                1 => panic!("dies"),
                _ => {
                    let end = comm.irecv(vec![0u8; 8], 1, 1).and_then(|request| request.wait());
                    assert!(matches!(end, Err(Error::PeerDead { rank: 1, .. })), "{backend}: {end:?}");
                    dead.store(true, Ordering::Release);
                    // It must not be gone, too.
                    while !over.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                }
            }
        });
        assert!(ends.is_err(), "rank 1 died");
        let ended = ended.into_inner().unwrap();
        assert!(matches!(ended, Some(Err(Error::PeerDead { rank: 1, .. }))), "{backend}: {ended:?}");
    }
}

/// Its buffer may be written while it is told.
#[test]
fn what_a_pending_request_says_of_itself_is_not_read_from_its_buffer() {
    for result in World::threads(2, |comm| {
        let (mut received, mut sum, sent) = ([0xA5u8; 64], [0xA5u8; 64], [0xA5u8; 64]);
        let other = 1 - comm.rank();
        comm.scope(|s| {
            let receive = s.irecv(&mut received, other, 0)?;
            let send = s.isend(&sent, other, 0)?;
            let reduction = s.iallreduce(&mut sum, Op::BAnd)?;
            for text in [format!("{receive:?}"), format!("{send:?}"), format!("{reduction:?}")] {
                assert!(!text.contains("165, 165") && !text.contains("a5, a5"), "{text}");
            }
            assert_eq!(receive.wait()?, [0xA5; 64]);
            assert_eq!(send.wait()?, [0xA5; 64]);
            assert_eq!(reduction.wait()?, [0xA5; 64]);
            Ok(())
        })
    })
    .unwrap()
    {
        result.unwrap();
    }
}
