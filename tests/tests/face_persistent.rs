//! Persistent collectives by the face: each of the seventeen, restarted with other contents, and what is refused.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use tocsin_tests::worlds::everywhere; // Links the tripwire allocator, too.

use tocsin::{Block, Blocks, Error, Op, OwnedBuffer, Persistent, UserOp, World};
use tocsin_sync::atomic::{AtomicUsize, Ordering};

const RUNS: u32 = 4;
const LEN: usize = 90;

/// What `from` has for `to` in a run.
fn block(run: u32, from: u32, to: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| run * 1_000_000 + from * 100_000 + to * 10_000 + i).collect()
}

fn from_all(ranks: u32, of: impl Fn(u32) -> Vec<u32>) -> Vec<u32> {
    (0..ranks).flat_map(of).collect()
}

/// Fills, starts, waits, looks: a run of what has two buffers.
fn run_pair(two: &mut Persistent<Vec<u32>, Vec<u32>>, send: &[u32], expected: &[u32]) -> Result<(), Error> {
    two.send_mut()?.copy_from_slice(send);
    two.recv_mut()?.fill(7);
    two.start()?;
    two.wait()?;
    assert_eq!(two.recv()?, expected);
    assert_eq!(two.send()?, send);
    Ok(())
}

fn run_one(one: &mut Persistent<Vec<u32>>, mine: &[u32], expected: &[u32]) -> Result<(), Error> {
    one.buffer_mut()?.copy_from_slice(mine);
    one.start()?;
    one.wait()?;
    assert_eq!(one.buffer()?, expected);
    Ok(())
}

#[test]
fn blocks_of_one_length() {
    everywhere(1..=4, |comm| {
        let (me, ranks, root) = (comm.rank(), comm.size(), comm.size() - 1);
        let whole = LEN * ranks as usize;
        let at_root = if me == root { whole } else { 0 };
        let mut barrier = comm.barrier_init()?;
        let mut bcast = comm.bcast_init(vec![0; LEN], root)?;
        let mut scatter = comm.scatter_init(vec![0; at_root], vec![0; LEN], root)?;
        let mut gather = comm.gather_init(vec![0; LEN], vec![0; at_root], root)?;
        let mut allgather = comm.allgather_init(vec![0; LEN], vec![0; whole])?;
        let mut alltoall = comm.alltoall_init(vec![0; whole], vec![0; whole])?;
        for run in 1..=RUNS {
            barrier.start()?;
            barrier.wait()?;
            let mine = |to: u32| block(run, me, to, LEN);
            let for_me = |from: u32| block(run, from, me, LEN);
            run_one(&mut bcast, &mine(0), &block(run, root, 0, LEN))?;
            let all = if me == root { from_all(ranks, mine) } else { Vec::new() };
            run_pair(&mut scatter, &all, &for_me(root))?;
            let all = if me == root { from_all(ranks, for_me) } else { Vec::new() };
            run_pair(&mut gather, &mine(root), &all)?;
            run_pair(&mut allgather, &mine(0), &from_all(ranks, |r| block(run, r, 0, LEN)))?;
            run_pair(&mut alltoall, &from_all(ranks, mine), &from_all(ranks, for_me))?;
        }
        let (recv, send) = alltoall.into_buffers()?;
        assert_eq!(recv, from_all(ranks, |r| block(RUNS, r, me, LEN)));
        assert_eq!(send, from_all(ranks, |r| block(RUNS, me, r, LEN)));
        Ok(())
    });
}

#[test]
fn blocks_of_many_lengths() {
    everywhere(1..=4, |comm| {
        let (me, ranks) = (comm.rank(), comm.size());
        let count = |r: u32| 30 * (r as usize % 3);
        let counts: Vec<usize> = (0..ranks).map(count).collect();
        let whole: usize = counts.iter().sum();
        let (root, own) = (ranks / 2, counts[me as usize]);
        let at_root = if me == root { whole } else { 0 };
        let packed = Blocks::packed(&counts);
        let mut scatterv = comm.scatterv_init(vec![0; at_root], packed, vec![0; own], root)?;
        let mut gatherv = comm.gatherv_init(vec![0; own], vec![0; at_root], packed, root)?;
        let mut allgatherv = comm.allgatherv_init(vec![0; own], vec![0; whole], packed)?;

        let length = |a: u32, b: u32| 20 * ((a + b) as usize % 3);
        let lengths: Vec<usize> = (0..ranks).map(|r| length(me, r)).collect();
        let sum: usize = lengths.iter().sum();
        let each = Blocks::packed(&lengths);
        let mut alltoallv = comm.alltoallv_init(vec![0; sum], each, vec![0; sum], each)?;
        let mut offset = 0;
        let place = |n: &usize| {
            let at = Block::new(offset, n * 4);
            offset += at.bytes;
            at
        };
        let bytes: Vec<Block> = lengths.iter().map(place).collect();
        let mut alltoallw = comm.alltoallw_init(vec![0u32; sum], &bytes, vec![0u8; sum * 4], &bytes)?;
        for run in 1..=RUNS {
            let mine = |to: u32| block(run, me, to, count(to));
            let all = if me == root { from_all(ranks, mine) } else { Vec::new() };
            run_pair(&mut scatterv, &all, &block(run, root, me, own))?;
            let all = from_all(ranks, |r| block(run, r, 0, count(r)));
            run_pair(&mut gatherv, &block(run, me, 0, own), if me == root { &all } else { &[] })?;
            run_pair(&mut allgatherv, &block(run, me, 0, own), &all)?;
            let send = from_all(ranks, |r| block(run, me, r, length(me, r)));
            let recv = from_all(ranks, |r| block(run, r, me, length(r, me)));
            run_pair(&mut alltoallv, &send, &recv)?;
            alltoallw.send_mut()?.copy_from_slice(&send);
            alltoallw.start()?;
            alltoallw.wait()?;
            let got = alltoallw.recv()?.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            assert!(got.eq(recv));
        }
        Ok(())
    });
}

/// Keeps the digits of both, in order: associative and not commutative.
fn join(left: u32, right: u32) -> u32 {
    let digits = |mut x: u32| {
        let mut n = 0;
        while x > 0 {
            (x, n) = (x / 4, n + 1);
        }
        n
    };
    left << (2 * digits(right)) | right
}

#[test]
fn reductions() {
    everywhere(1..=4, |comm| {
        let (me, ranks) = (comm.rank(), comm.size());
        let of = |run: u32, r: u32, i: usize| (i as u32 + run + r) % 3 + 1;
        let joined = |run: u32, ranks: std::ops::Range<u32>, i: usize| {
            ranks.map(|r| of(run, r, i)).reduce(join).unwrap_or(0)
        };
        let ordered = Op::User(UserOp::ordered(join));
        let whole = LEN * ranks as usize;
        let counts: Vec<usize> = (0..ranks as usize).map(|r| r * 10).collect();
        let (sum, first): (usize, usize) = (counts.iter().sum(), counts[..me as usize].iter().sum());
        let mut reduce = comm.reduce_init(vec![0; LEN], ordered, 0)?;
        let mut allreduce = comm.allreduce_init(vec![0; LEN], ordered)?;
        let mut part =
            comm.reduce_scatter_init(vec![0; sum], vec![0; counts[me as usize]], &counts, ordered)?;
        let mut even = comm.reduce_scatter_block_init(vec![0; whole], vec![0; LEN], ordered)?;
        let mut scan = comm.scan_init(vec![0; LEN], ordered)?;
        let mut exscan = comm.exscan_init(vec![0; LEN], ordered)?;
        for run in 1..=RUNS {
            let mine = |n: usize| (0..n).map(|i| of(run, me, i)).collect::<Vec<u32>>();
            let result = |ranks: std::ops::Range<u32>, at: usize, n: usize| {
                (at..at + n).map(|i| joined(run, ranks.clone(), i)).collect::<Vec<u32>>()
            };
            let all = result(0..ranks, 0, LEN);
            let own = mine(LEN);
            run_one(&mut reduce, &own, if me == 0 { &all } else { &own })?;
            run_one(&mut allreduce, &mine(LEN), &all)?;
            run_pair(&mut part, &mine(sum), &result(0..ranks, first, counts[me as usize]))?;
            run_pair(&mut even, &mine(whole), &result(0..ranks, me as usize * LEN, LEN))?;
            run_one(&mut scan, &mine(LEN), &result(0..me + 1, 0, LEN))?;
            let before = if me == 0 { mine(LEN) } else { result(0..me, 0, LEN) };
            run_one(&mut exscan, &mine(LEN), &before)?;
        }
        Ok(())
    });
}

#[test]
fn others_are_outstanding_meanwhile() {
    everywhere(1..=4, |comm| {
        let ranks = comm.size();
        let dup = comm.dup()?;
        let mut sum = comm.allreduce_init(vec![0u64; 5000], Op::Sum)?;
        let mut also = comm.allreduce_init(vec![0u64; 3], Op::Max)?;
        let mut apart = dup.allreduce_init(vec![0u64; 40], Op::Sum)?;
        for run in 1..=50 {
            sum.buffer_mut()?.fill(run);
            also.buffer_mut()?.fill(run + u64::from(comm.rank()));
            apart.buffer_mut()?.fill(2 * run);
            also.start()?;
            let between = comm.iallreduce(vec![run; 7], Op::Sum)?;
            sum.start()?;
            let after = comm.ibarrier()?;
            apart.start()?;
            after.wait()?;
            sum.wait()?;
            assert_eq!(between.wait()?, [run * u64::from(ranks); 7]);
            while apart.test().transpose()?.is_none() {}
            also.wait()?;
            assert!(sum.buffer()?.iter().all(|x| *x == run * u64::from(ranks)));
            assert_eq!(also.buffer()?, [run + u64::from(ranks) - 1; 3]);
            assert!(apart.buffer()?.iter().all(|x| *x == 2 * run * u64::from(ranks)));
        }
        Ok(())
    });
}

fn is_active_error<T: std::fmt::Debug>(result: Result<T, Error>) -> bool {
    matches!(&result, Err(e @ Error::InvalidArgument { .. }) if e.to_string().contains("allreduce")
        && e.to_string().contains("is active"))
}

#[test]
fn what_is_active_is_not_touched() {
    everywhere(1..=4, |comm| {
        let mut sum = comm.allreduce_init(vec![1u64; 9], Op::Sum)?;
        // What was never started is complete.
        assert!(sum.is_done() && !sum.is_active());
        sum.wait()?;
        assert!(matches!(sum.test(), Some(Ok(()))));
        for _ in 0..3 {
            sum.start()?;
            assert!(sum.is_active());
            assert!(is_active_error(sum.start()));
            assert!(is_active_error(sum.buffer().map(drop)));
            assert!(is_active_error(sum.buffer_mut().map(drop)));
            // Complete, but nobody has been told: still.
            comm.barrier()?;
            while !sum.is_done() {
                comm.progress();
            }
            assert!(is_active_error(sum.start()));
            sum.wait()?;
            sum.buffer_mut()?.fill(1);
        }
        Ok(())
    });
}

#[test]
fn dropped_or_forgotten_while_active_it_goes_on() {
    everywhere(1..=4, |comm| {
        for run in 0..20 {
            let mut sum = comm.allreduce_init(vec![run; 3000], Op::Sum)?;
            sum.start()?;
            if run % 5 == 0 {
                std::mem::forget(sum);
            } else {
                drop(sum);
            }
            // One that is prepared and never started concerns nobody.
            if comm.rank() == 0 {
                drop(comm.bcast_init(vec![0u8; 10], 0)?);
            }
            let mut again = comm.bcast_init(vec![run + u64::from(comm.rank()); 10], 0)?;
            again.start()?;
            assert_eq!(again.into_buffers()?.0, [run; 10]);
        }
        Ok(())
    });
}

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

#[test]
fn it_is_a_future_of_each_run() {
    everywhere(1..=4, |comm| {
        let mut sum = comm.allreduce_init(vec![0u64; 9], Op::Sum)?;
        for run in 1..=10 {
            sum.buffer_mut()?.fill(run);
            sum.start()?;
            let count = Arc::new(Count(AtomicUsize::new(0)));
            let waker = Waker::from(count.clone());
            let mut context = Context::from_waker(&waker);
            let mut woken = 0;
            loop {
                if let Poll::Ready(outcome) = pin!(&mut sum).poll(&mut context) {
                    outcome?;
                    break;
                }
                while count.0.load(Ordering::Acquire) == woken {
                    comm.progress();
                }
                woken = count.0.load(Ordering::Acquire);
            }
            assert_eq!(sum.buffer()?, [run * u64::from(comm.size()); 9]);

            let called = Arc::new(AtomicUsize::new(0));
            let theirs = called.clone();
            sum.start()?;
            sum.on_complete(move |outcome| {
                theirs.store(1 + usize::from(outcome.is_err()), Ordering::Release);
            });
            while called.load(Ordering::Acquire) == 0 {
                comm.progress();
            }
            assert_eq!(called.load(Ordering::Acquire), 1);
            sum.wait()?;
        }
        Ok(())
    });
}

/// Sets a callback on a run that is over: it comes at once, and gives what it says.
fn told_at_once(one: &mut Persistent<impl OwnedBuffer>) -> Result<(), Error> {
    let told = Arc::new(Mutex::new(None));
    let theirs = told.clone();
    one.on_complete(move |outcome| *theirs.lock().unwrap() = Some(outcome));
    told.lock().unwrap().take().expect("it is over: the callback comes at once")
}

#[test]
fn a_callback_leaves_a_run_that_is_over_active() {
    everywhere(1..=4, |comm| {
        let mut sum = comm.allreduce_init(vec![1u64; 5], Op::Sum)?;
        sum.start()?;
        while !sum.is_done() {
            comm.progress();
        }
        // Each comes, and none makes it inactive.
        for _ in 0..2 {
            told_at_once(&mut sum)?;
            assert!(sum.is_active());
            assert!(matches!(sum.buffer(), Err(Error::InvalidArgument { .. })));
            assert!(matches!(sum.start(), Err(Error::InvalidArgument { .. })));
        }
        sum.wait()?;
        assert!(!sum.is_active());
        assert_eq!(sum.buffer()?, [u64::from(comm.size()); 5]);
        told_at_once(&mut sum)?;

        // A run that fails: rank 0 does not come.
        let ours = comm.dup()?;
        let mut barrier = ours.barrier_init()?;
        if comm.rank() > 0 {
            barrier.start()?;
        }
        comm.barrier()?;
        ours.revoke();
        if comm.rank() > 0 {
            while !barrier.is_done() {
                comm.progress();
            }
            assert!(matches!(told_at_once(&mut barrier), Err(Error::Revoked { .. })));
            assert!(barrier.is_active());
            assert!(matches!(barrier.test(), Some(Err(Error::Revoked { .. }))));
            assert!(!barrier.is_active());
            // Refused: the outcome stays.
            assert!(matches!(barrier.start(), Err(Error::Revoked { .. })));
            assert!(!barrier.is_active());
            assert!(matches!(barrier.wait(), Err(Error::Revoked { .. })));
        }
        comm.barrier()
    });
}

#[test]
fn a_revoked_communicator_ends_its_runs() {
    everywhere(1..=4, |comm| {
        let ours = comm.dup()?;
        let mut barrier = ours.barrier_init()?;
        let mut sum = ours.allreduce_init(vec![1u64; 4], Op::Sum)?;
        sum.start()?;
        sum.wait()?;
        if comm.size() > 1 {
            // Rank 0 does not come.
            if comm.rank() > 0 {
                barrier.start()?;
            }
            comm.barrier()?;
            if comm.rank() == 0 {
                ours.revoke();
            } else {
                assert!(matches!(barrier.wait(), Err(Error::Revoked { .. })));
                assert!(!barrier.is_active());
            }
            comm.barrier()?;
            while !ours.raw().is_revoked() {
                comm.progress();
            }
            assert!(matches!(sum.start(), Err(Error::Revoked { .. })));
            assert!(matches!(ours.allreduce_init(vec![1u64; 4], Op::Sum), Err(Error::Revoked { .. })));
        }
        assert_eq!(sum.buffer()?, [u64::from(comm.size()); 4]);
        Ok(())
    });
}

#[test]
fn what_does_not_fit_is_refused_by_its_own_name() {
    let results = World::threads(3, |comm| {
        let texts = [
            comm.scatter_init(vec![0u8; 7], vec![0u8; 2], comm.rank()).map(drop),
            comm.bcast_init(vec![0u8; 7], 3).map(drop),
            comm.alltoall_init(vec![0u8; 4], vec![0u8; 4]).map(drop),
            comm.allgatherv_init(vec![0u8; 1], vec![0u8; 3], Blocks::packed(&[1, 1])).map(drop),
            comm.scan_init(vec![0f32; 3], Op::BAnd).map(drop),
            comm.with_algorithm("rumour").barrier_init().map(drop),
        ];
        comm.barrier()?;
        Ok::<_, Error>(texts.map(|result| result.unwrap_err().to_string()))
    })
    .unwrap();
    let says = [
        "scatter: the send buffer has 7 elements, the receive buffer 2",
        "bcast: root 3 is out of range",
        "alltoall: 4 elements cannot be divided among 3 ranks",
        "allgatherv: the receive buffer needs one block for each of the 3 ranks",
        "scan: operator band is not defined on f32",
        "barrier: no algorithm `rumour` here",
    ];
    for texts in results {
        for (text, says) in texts.unwrap().iter().zip(says) {
            assert!(text.starts_with(says), "{text:?} does not say {says:?}");
        }
    }
}

#[test]
fn it_may_outlive_its_world() {
    let left = World::threads(2, |comm| -> Result<_, Error> {
        let mut sum = comm.allreduce_init(vec![1u64; 4], Op::Sum)?;
        sum.start()?;
        sum.wait()?;
        let mut never = comm.barrier_init()?;
        if comm.rank() == 0 {
            never.start()?;
        }
        Ok((sum, never))
    });
    for (rank, result) in left.unwrap().into_iter().enumerate() {
        let (mut sum, mut never) = result.unwrap();
        assert_eq!(sum.buffer().unwrap(), [2; 4]);
        assert!(matches!(sum.start(), Err(Error::Finalized { .. })));
        // Rank 0 saw that rank 1 had left, or had no rank any more to see it.
        assert_eq!(never.wait().is_err(), rank == 0);
        assert!(!never.is_active());
        assert_eq!(sum.into_buffers().unwrap().0, [2; 4]);
    }
}
