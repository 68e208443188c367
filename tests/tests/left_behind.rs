//! What a call leaves behind when its thread goes back to computing: nothing stays undone for want of another call.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use tocsin_tests as _; // Links the tripwire allocator.

use std::cell::Cell;
use std::time::{Duration, Instant};

use tocsin::{Comm, Config, Error, Op, UserOp, World};
use tocsin_sync::atomic::{AtomicBool, AtomicU32, Ordering};

fn signal() -> Config {
    let mut config = Config::default();
    config.set("TOCSIN_BACKEND", "signal").unwrap();
    config
}

/// Runs the ranks, as threads.
fn ranks(count: u32, run: impl Fn(Comm) -> Result<(), Error> + Sync) {
    for result in World::threads_with(count, &signal(), run).unwrap() {
        result.unwrap();
    }
}

/// Computes, and calls nothing of the library, until `done`.
fn compute_until(what: &str, done: &AtomicBool) {
    let begun = Instant::now();
    while !done.load(Ordering::Acquire) {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "{what}: it waits for this rank to call the library"
        );
        std::hint::spin_loop();
    }
}

/// Waits for a count of the library's that this thread can read without a look at any lane.
fn counted(what: &str, enough: impl Fn() -> bool) {
    let begun = Instant::now();
    while !enough() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}: it does not come about");
        std::hint::spin_loop();
    }
}

/// Receives that are served from a full pool make room for the message behind it, whose receive is posted.
#[test]
fn room_that_receives_have_freed_is_used() {
    let (posted, matched) = (AtomicBool::new(false), AtomicBool::new(false));
    ranks(2, |comm| {
        if comm.rank() == 0 {
            // With pauses, so that the pool takes them in: more than it holds.
            let mut sent = Vec::new();
            for _ in 0..5 {
                for _ in 0..200 {
                    sent.push(comm.isend(vec![1u8; 64], 1, 1)?);
                }
                comm.issend(vec![3u8; 8], 1, 3)?.wait()?;
            }
            for _ in 0..34 {
                sent.push(comm.isend(vec![1u8; 64], 1, 1)?);
            }
            let urgent = comm.issend(vec![2u8; 64], 1, 2)?;
            posted.store(true, Ordering::Release);
            urgent.wait()?;
            matched.store(true, Ordering::Release);
            sent.into_iter().try_for_each(|request| request.wait().map(drop))?;
            return comm.barrier();
        }
        let wanted = comm.irecv(vec![0u8; 64], 0, 2)?;
        let pauses = (0..5).map(|_| comm.irecv(vec![0u8; 8], 0, 3)).collect::<Result<Vec<_>, _>>()?;
        compute_until("the sender", &posted);
        for _ in 0..700 {
            comm.irecv(vec![0u8; 64], 0, 1)?.wait()?;
        }
        compute_until("a message behind a pool that has room again", &matched);
        wanted.wait()?;
        pauses.into_iter().try_for_each(|request| request.wait().map(drop))?;
        for _ in 0..334 {
            comm.recv(&mut [0u8; 64], 0, 1)?;
        }
        comm.barrier()
    });
}

/// The timer that has a rank come back is not put off by what it posts meanwhile.
#[test]
fn posts_do_not_put_a_large_message_off() {
    const BYTES: usize = 16 << 20;
    let (begun, done) = (AtomicBool::new(false), AtomicBool::new(false));
    ranks(2, |comm| {
        if comm.rank() == 0 {
            while !begun.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            comm.ibcast(vec![1u8; BYTES], 0)?.wait()?;
            done.store(true, Ordering::Release);
            return comm.barrier();
        }
        let large = comm.ibcast(vec![0u8; BYTES], 0)?;
        begun.store(true, Ordering::Release);
        let (start, mut posts) = (Instant::now(), Vec::new());
        while !done.load(Ordering::Acquire) {
            assert!(start.elapsed() < Duration::from_secs(30), "posts put the message off");
            let pause = Instant::now();
            while pause.elapsed() < Duration::from_micros(100) {}
            posts.push(comm.irecv(vec![0u8; 8], 0, 77)?);
        }
        large.wait()?;
        posts.iter_mut().for_each(|post| assert!(post.cancel()));
        comm.barrier()
    });
}

/// Who stops waiting for a large message, in the midst of it mostly, has somebody else go on with the copying: both ranks compute from then on.
#[test]
fn a_large_message_goes_on_when_its_waiter_leaves() {
    const BYTES: usize = 4 << 20;
    for round in 0..40u64 {
        for receiver_leaves in [true, false] {
            let ended = [AtomicBool::new(false), AtomicBool::new(false)];
            let ended = std::sync::Arc::new(ended);
            ranks(2, |comm| {
                comm.barrier()?;
                let me = comm.rank() as usize;
                let patience = Duration::from_micros(10 * round);
                let leaves = (comm.rank() == 1) == receiver_leaves;
                let theirs = ended.clone();
                let over = move |ok: bool| {
                    assert!(ok, "the message failed");
                    theirs[me].store(true, Ordering::Release);
                };
                let mut large = match comm.rank() {
                    0 => comm.isend(vec![7u8; BYTES], 1, 5)?,
                    _ => comm.irecv(vec![0u8; BYTES], 0, 5)?,
                };
                if leaves {
                    let _over_or_not = large.wait_timeout(patience);
                }
                large.on_complete(move |outcome| {
                    over(outcome.is_ok_and(|(data, _)| data.iter().all(|byte| *byte == 7)));
                });
                compute_until("a large message whose waiter has left", &ended[me]);
                comm.barrier()
            });
        }
    }
}

/// Who waits for any of two leaves when the small one has come, in the midst of the large one mostly: as above.
#[test]
fn a_large_message_goes_on_when_who_waits_for_any_has_another() {
    const BYTES: usize = 4 << 20;
    for round in 0..40u64 {
        for receiver_leaves in [true, false] {
            let ended = std::sync::Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
            ranks(2, |comm| {
                comm.barrier()?;
                let (me, other) = (comm.rank() as usize, 1 - comm.rank());
                let large = match me {
                    0 => comm.isend(vec![7u8; BYTES], 1, 5)?,
                    _ => comm.irecv(vec![0u8; BYTES], 0, 5)?,
                };
                let large = if (me == 1) == receiver_leaves {
                    let mut both = [large, comm.irecv(vec![0u8; 8], other, 6)?];
                    assert!(tocsin::wait_any(&mut both).is_some());
                    let [large, small] = both;
                    small.wait()?;
                    large
                } else {
                    let start = Instant::now();
                    while start.elapsed() < Duration::from_micros(10 * round) {}
                    comm.send(&[1u8; 8], other, 6)?;
                    large
                };
                let theirs = ended.clone();
                large.on_complete(move |outcome| {
                    assert!(outcome.is_ok_and(|(data, _)| data.iter().all(|byte| *byte == 7)));
                    theirs[me].store(true, Ordering::Release);
                });
                compute_until("a large message whose waiter had another", &ended[me]);
                comm.barrier()
            });
        }
    }
}

/// A message that must be heard is heard behind more plain ones than a lane has slots for.
#[test]
fn an_urgent_message_behind_a_full_lane_interrupts() {
    for plain in [200usize, 300, 1000] {
        for blocking in [false, true] {
            let (ready, matched) = (AtomicBool::new(false), AtomicBool::new(false));
            ranks(2, |comm| {
                if comm.rank() == 0 {
                    while !ready.load(Ordering::Acquire) {
                        std::hint::spin_loop();
                    }
                    let mut sent = Vec::new();
                    for _ in 0..plain {
                        if blocking {
                            comm.send(&[1u8; 64], 1, 1)?;
                        } else {
                            sent.push(comm.isend(vec![1u8; 64], 1, 1)?);
                        }
                    }
                    comm.issend(vec![2u8; 64], 1, 2)?.wait()?;
                    matched.store(true, Ordering::Release);
                    sent.into_iter().try_for_each(|request| request.wait().map(drop))?;
                    return comm.barrier();
                }
                let wanted = comm.irecv(vec![0u8; 64], 0, 2)?;
                let plain_ones =
                    (0..plain).map(|_| comm.irecv(vec![0u8; 64], 0, 1)).collect::<Result<Vec<_>, _>>()?;
                ready.store(true, Ordering::Release);
                compute_until("a message behind a full lane", &matched);
                wanted.wait()?;
                plain_ones.into_iter().try_for_each(|request| request.wait().map(drop))?;
                comm.barrier()
            });
        }
    }
}

/// Past what travels in one packet.
const LARGE: usize = 256 << 10;

/// Lets a signal that is pending come in.
fn let_signals_in() {
    std::thread::yield_now();
}

/// A large message for which no receive is posted interrupts nobody: whoever posts the receive finds it, and may compute
/// again at once.
#[test]
fn an_announcement_waits_for_its_receive() {
    let [quiet, ready, announced, done] = [(); 4].map(|()| AtomicBool::new(false));
    ranks(2, |comm| {
        comm.barrier()?;
        if comm.rank() == 0 {
            quiet.store(true, Ordering::Release);
            compute_until("the receiver", &ready);
            let send = comm.isend(vec![7u8; LARGE], 1, 5)?;
            announced.store(true, Ordering::Release);
            send.wait()?;
            done.store(true, Ordering::Release);
            return comm.barrier();
        }
        compute_until("the sender's barrier", &quiet);
        let_signals_in();
        let before = comm.stats().interrupts;
        ready.store(true, Ordering::Release);
        compute_until("the announcement", &announced);
        let_signals_in();
        assert_eq!(comm.stats().interrupts, before, "nothing could be done about it");
        let receive = comm.irecv(vec![0u8; LARGE], 0, 5)?;
        compute_until("a message that was there before its receive", &done);
        let bytes = receive.wait()?;
        assert!(bytes.iter().all(|byte| *byte == 7));
        comm.barrier()
    });
}

/// One for which a receive is posted that its sender does not find goes on while the receiver computes.
#[test]
fn an_announcement_reaches_who_computes_after_its_receive() {
    let [posted, done] = [(); 2].map(|()| AtomicBool::new(false));
    ranks(2, |comm| {
        comm.barrier()?;
        if comm.rank() == 0 {
            compute_until("the receiver", &posted);
            for tag in [2, 1, 3] {
                comm.send(&vec![tag as u8; LARGE], 1, tag)?;
            }
            done.store(true, Ordering::Release);
            return comm.barrier();
        }
        let receives = [1, 2].map(|tag| comm.irecv(vec![0u8; LARGE], 0, tag));
        let any = comm.irecv(vec![0u8; LARGE], tocsin::ANY_SOURCE, 3)?;
        posted.store(true, Ordering::Release);
        compute_until("messages whose receives are posted", &done);
        for (tag, receive) in [1u8, 2].into_iter().zip(receives) {
            let bytes = receive?.wait()?;
            assert!(bytes.iter().all(|byte| *byte == tag));
        }
        let bytes = any.wait()?;
        assert!(bytes.iter().all(|byte| *byte == 3));
        comm.barrier()
    });
}

thread_local!(static HOLDS_PASSES: Cell<bool> = const { Cell::new(false) });
/// How far the two ranks of the next test are.
static STAGE: AtomicU32 = AtomicU32::new(0);

/// Holds the receiver's first pass open until the lane is full, and its second until the lane has been refilled.
fn sum_slowly(a: u64, b: u64) -> u64 {
    if HOLDS_PASSES.get() {
        if STAGE.load(Ordering::Acquire) == 0 {
            STAGE.store(1, Ordering::Release);
            while STAGE.load(Ordering::Acquire) < 2 {
                std::hint::spin_loop();
            }
        } else {
            STAGE.store(3, Ordering::Release);
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(200) {}
        }
    }
    a + b
}

/// The same when the lane is refilled within the receiver's pass, which then finds the sender waiting and the lane full.
#[test]
fn an_urgent_message_behind_a_lane_that_was_refilled_interrupts() {
    // So that the data ring is full before the slots are, but not much.
    const PLAIN: usize = 700;
    const BYTES: usize = 600;
    let sum = || Op::User(UserOp::commutative(sum_slowly));
    let (posted, matched) = (AtomicBool::new(false), AtomicBool::new(false));
    ranks(2, |comm| {
        let by_doubling = comm.with_algorithm("recursive-doubling");
        comm.barrier()?;
        if comm.rank() == 0 {
            while !posted.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            let first = by_doubling.iallreduce(vec![1u64], sum())?;
            while STAGE.load(Ordering::Acquire) < 1 {
                std::hint::spin_loop();
            }
            let sent =
                (0..PLAIN).map(|_| comm.isend(vec![1u8; BYTES], 1, 1)).collect::<Result<Vec<_>, _>>()?;
            let urgent = comm.issend(vec![2u8; 8], 1, 2)?;
            let second = by_doubling.iallreduce(vec![1u64], sum())?;
            STAGE.store(2, Ordering::Release);
            while STAGE.load(Ordering::Acquire) < 3 {
                std::hint::spin_loop();
            }
            urgent.wait()?;
            matched.store(true, Ordering::Release);
            sent.into_iter().try_for_each(|request| request.wait().map(drop))?;
            first.wait()?;
            second.wait()?;
            return comm.barrier();
        }
        HOLDS_PASSES.set(true);
        let wanted = comm.irecv(vec![0u8; 8], 0, 2)?;
        let plain = (0..PLAIN).map(|_| comm.irecv(vec![0u8; BYTES], 0, 1)).collect::<Result<Vec<_>, _>>()?;
        let mut first = by_doubling.iallreduce(vec![1u64], sum())?;
        let second = by_doubling.iallreduce(vec![1u64], sum())?;
        posted.store(true, Ordering::Release);
        // Its operator waits for a call: this one makes the passes.
        while STAGE.load(Ordering::Acquire) < 3 {
            drop(first.test());
        }
        compute_until("a message behind a lane that was refilled", &matched);
        first.wait()?;
        second.wait()?;
        wanted.wait()?;
        plain.into_iter().try_for_each(|request| request.wait().map(drop))?;
        comm.barrier()
    });
}

/// A probe that takes in a collective's message behind a full pool leaves the collective's next step to this rank.
#[test]
fn a_probe_leaves_no_collective_behind() {
    /// What a pool holds before room is made in it.
    const POOL: usize = 1024;
    /// The rest is less than a lane holds.
    const FLOOD: usize = POOL + 50;
    let (stage, got) = (AtomicU32::new(0), AtomicBool::new(false));
    ranks(3, |comm| {
        let other = comm.dup()?;
        // By messages, small as they are.
        let pair = other.split(Some(u32::from(comm.rank() == 2)), 0)?.unwrap().with_algorithm("binomial");
        let chain = comm.with_algorithm("chain");
        comm.barrier()?;
        match comm.rank() {
            0 => {
                counted("the middle of the chain", || stage.load(Ordering::Acquire) == 1);
                let before = comm.stats().packets_sent;
                let sent = |packets: usize| {
                    counted("packets of the root", || comm.stats().packets_sent - before >= packets as u64);
                };
                let flood =
                    (0..FLOOD).map(|_| pair.ibcast(vec![7u8; 8], 0)).collect::<Result<Vec<_>, _>>()?;
                sent(FLOOD);
                let broadcast = chain.ibcast(vec![9u8; 8], 0)?;
                sent(FLOOD + 1);
                stage.store(2, Ordering::Release);
                broadcast.wait()?;
                flood.into_iter().try_for_each(|request| request.wait().map(drop))?;
            }
            1 => {
                let broadcast = chain.ibcast(vec![0u8; 8], 0)?;
                let before = comm.stats().packets_received;
                stage.store(1, Ordering::Release);
                // The flood is taken in as far as there is room; the rest and the broadcast are in the lane behind it.
                counted("a full pool", || comm.stats().packets_received - before >= POOL as u64);
                counted("the root", || stage.load(Ordering::Acquire) == 2);
                assert!(comm.iprobe(0, 99)?.is_none());
                compute_until("the rank behind this one in a chain", &got);
                broadcast.wait()?;
                for _ in 0..FLOOD {
                    pair.ibcast(vec![0u8; 8], 0)?.wait()?;
                }
            }
            _ => {
                chain.ibcast(vec![0u8; 8], 0)?.wait()?;
                got.store(true, Ordering::Release);
            }
        }
        comm.barrier()
    });
}

/// A probed message is received where it was probed, whichever communicator the call names.
#[test]
fn a_probed_message_keeps_its_communicator() {
    ranks(3, |comm| {
        let reverse = comm.split(Some(0), -(comm.rank() as i32))?.unwrap();
        if comm.rank() == 0 {
            comm.send(&[5u8; 8], 2, 4)?;
        }
        if comm.rank() == 2 {
            let (message, seen) = comm.mprobe(0, 4)?;
            let (_, status) = reverse.mrecv(message, vec![0u8; 8])?.wait_with_status()?;
            assert_eq!((seen.source, status.source), (0, 0));
        }
        comm.barrier()
    });
}

/// A rank that receives one message after the other, each there already, goes on with what else it has to do.
#[test]
fn receives_that_find_their_messages_let_sends_go_on() {
    // More than a lane has slots.
    const SENDS: u32 = 300;
    const RECEIVES: usize = 200;
    let (stage, received) = (AtomicU32::new(0), AtomicU32::new(0));
    let until = |stage: &AtomicU32, wanted: u32| {
        let begun = Instant::now();
        while stage.load(Ordering::Acquire) < wanted {
            assert!(begun.elapsed() < Duration::from_secs(30), "not {wanted}");
            std::thread::yield_now();
        }
    };
    let mut config = Config::default();
    config.set("TOCSIN_BACKEND", "poll").unwrap();
    for end in World::threads_with(3, &config, |comm| {
        comm.barrier()?;
        match comm.rank() {
            0 => {
                comm.send(&[9u8; 8], 1, 7)?;
                until(&stage, 1);
                (0..RECEIVES).try_for_each(|_| comm.send(&[1u8; 8], 1, 1))?;
                stage.store(2, Ordering::Release);
            }
            1 => {
                comm.recv(&mut [0u8; 8], 0, 7)?;
                let sends =
                    (0..SENDS).map(|_| comm.isend(vec![2u8; 8], 2, 2)).collect::<Result<Vec<_>, _>>()?;
                stage.store(1, Ordering::Release);
                until(&stage, 2);
                // The lane is empty by then, and the rest is queued here.
                until(&received, 256);
                for _ in 0..RECEIVES {
                    comm.recv(&mut [0u8; 8], 0, 1)?;
                }
                until(&received, SENDS);
                sends.into_iter().try_for_each(|send| send.wait().map(drop))?;
            }
            _ => {
                until(&stage, 1);
                for _ in 0..SENDS {
                    comm.recv(&mut [0u8; 8], 1, 2)?;
                    received.fetch_add(1, Ordering::Release);
                }
            }
        }
        comm.barrier()
    })
    .unwrap()
    {
        end.unwrap();
    }
}
