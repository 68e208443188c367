//! Persistent collectives of borrowed buffers by the face: each of the seventeen, restarted with other contents; what is
//! refused while they are active; and how their scope ends them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use tocsin_tests::worlds::everywhere; // Links the tripwire allocator, too.

use tocsin::{Block, Blocks, Error, Op, ScopedPersistent};

const RUNS: u32 = 4;
const LEN: usize = 90;

/// What `from` has for `to` in a run.
fn block(run: u32, from: u32, to: u32) -> Vec<u32> {
    (0..LEN as u32).map(|i| run * 1_000_000 + from * 100_000 + to * 10_000 + i).collect()
}

type One<'scope> = ScopedPersistent<'scope, &'scope mut [u32]>;
type Two<'scope> = ScopedPersistent<'scope, &'scope mut [u32], &'scope mut [u32]>;

/// Fills, starts, waits, looks: a run of what has two buffers.
fn run_two(two: &mut Two<'_>, send: &[u32], expected: &[u32]) -> Result<(), Error> {
    two.send_mut()?.copy_from_slice(send);
    two.recv_mut()?.fill(7);
    two.start()?;
    two.wait()?;
    assert_eq!(two.recv()?, expected);
    assert_eq!(two.send()?, send);
    Ok(())
}

fn run_one(one: &mut One<'_>, mine: &[u32], expected: &[u32]) -> Result<(), Error> {
    one.buffer_mut()?.copy_from_slice(mine);
    one.start()?;
    one.wait()?;
    assert_eq!(one.buffer()?, expected);
    Ok(())
}

#[test]
fn blocks() {
    everywhere(1..=4, |comm| {
        let (me, ranks, root) = (comm.rank(), comm.size(), comm.size() - 1);
        let whole = LEN * ranks as usize;
        let at_root = if me == root { whole } else { 0 };
        let counts = vec![LEN; ranks as usize];
        let at = Blocks::packed(&counts);
        let bytes: Vec<Block> = (0..ranks as usize).map(|r| Block::new(r * LEN * 4, LEN * 4)).collect();
        let mut ones: Vec<Vec<u32>> = (0..6).map(|_| vec![0; LEN]).collect();
        let mut roots: Vec<Vec<u32>> = (0..4).map(|_| vec![0; at_root]).collect();
        let mut wholes: Vec<Vec<u32>> = (0..8).map(|_| vec![0; whole]).collect();
        let mut kept = vec![0; whole];
        comm.scope(|s| {
            let (mut ones, mut roots, mut wholes) =
                (ones.iter_mut().map(|b| &mut b[..]), roots.iter_mut(), wholes.iter_mut());
            let (mut one, mut at_root, mut all) = (
                || ones.next().unwrap(),
                || &mut roots.next().unwrap()[..],
                || &mut wholes.next().unwrap()[..],
            );
            let mut barrier = s.barrier_init()?;
            let mut bcast = s.bcast_init(one(), root)?;
            let mut scatter = s.scatter_init(at_root(), one(), root)?;
            let mut scatterv = s.scatterv_init(at_root(), at, one(), root)?;
            let mut gather = s.gather_init(one(), at_root(), root)?;
            let mut gatherv = s.gatherv_init(one(), at_root(), at, root)?;
            let mut allgather = s.allgather_init(one(), all())?;
            let mut alltoall = s.alltoall_init(all(), all())?;
            let mut alltoallv = s.alltoallv_init(all(), at, all(), at)?;
            let mut alltoallw = s.alltoallw_init(all(), &bytes, all(), &bytes)?;
            let mut in_place = s.alltoall_in_place_init(&mut kept)?;
            for run in 1..=RUNS {
                barrier.start()?;
                barrier.wait()?;
                let gathered = |of: &dyn Fn(u32) -> Vec<u32>| (0..ranks).flat_map(of).collect::<Vec<u32>>();
                let out = gathered(&|to| block(run, me, to));
                let back = gathered(&|from| block(run, from, me));
                run_one(&mut bcast, &block(run, root, 0), &block(run, root, 0))?;
                let at_root = if me == root { &out[..] } else { &[] };
                run_two(&mut scatter, at_root, &block(run, root, me))?;
                run_two(&mut scatterv, at_root, &block(run, root, me))?;
                let at_root = if me == root { &back[..] } else { &[] };
                run_two(&mut gather, &block(run, me, root), at_root)?;
                run_two(&mut gatherv, &block(run, me, root), at_root)?;
                run_two(&mut allgather, &block(run, me, 0), &gathered(&|from| block(run, from, 0)))?;
                run_two(&mut alltoall, &out, &back)?;
                run_two(&mut alltoallv, &out, &back)?;
                run_two(&mut alltoallw, &out, &back)?;
                run_one(&mut in_place, &out, &back)?;
            }
            let (recv, send) = alltoall.into_buffers()?;
            assert_eq!(recv[..LEN], block(RUNS, 0, me));
            assert_eq!(send[..LEN], block(RUNS, me, 0));
            Ok(())
        })
    });
}

#[test]
fn reductions() {
    everywhere(1..=4, |comm| {
        let (me, ranks) = (comm.rank(), comm.size());
        let whole = LEN * ranks as usize;
        let counts = vec![LEN; ranks as usize];
        let (mut a, mut b, mut c, mut d) = ([0; LEN], [0; LEN], [0; LEN], [0; LEN]);
        let (mut e, mut f, mut g, mut h) = (vec![0; whole], [0; LEN], vec![0; whole], [0; LEN]);
        let (mut all, mut gathered) = ([0; LEN], vec![0; whole]);
        comm.scope(|s| {
            let mut reduce = s.reduce_init(&mut a, Op::Sum, 0)?;
            let mut allreduce = s.allreduce_init(&mut b, Op::Sum)?;
            let mut scan = s.scan_init(&mut c, Op::Sum)?;
            let mut exscan = s.exscan_init(&mut d, Op::Sum)?;
            let mut parts = s.reduce_scatter_init(&mut e, &mut f, &counts, Op::Sum)?;
            let mut equal = s.reduce_scatter_block_init(&mut g, &mut h, Op::Sum)?;
            let mut allgatherv = s.allgatherv_init(&mut all, &mut gathered, Blocks::packed(&counts))?;
            for run in 1..=RUNS {
                let sum = |n: u32| (0..n).map(|r| r + run).sum::<u32>();
                let (mine, total) = ([me + run; LEN], [sum(ranks); LEN]);
                run_one(&mut reduce, &mine, if me == 0 { &total } else { &mine })?;
                run_one(&mut allreduce, &mine, &total)?;
                run_one(&mut scan, &mine, &[sum(me + 1); LEN])?;
                run_one(&mut exscan, &mine, &[if me == 0 { run } else { sum(me) }; LEN])?;
                run_two(&mut parts, &vec![me + run; whole], &total)?;
                run_two(&mut equal, &vec![me + run; whole], &total)?;
                let expected: Vec<u32> = (0..ranks).flat_map(|r| [r + run; LEN]).collect();
                run_two(&mut allgatherv, &mine, &expected)?;
            }
            Ok(())
        })?;
        // The buffers are ours again, as the last runs have left them.
        assert_eq!(b[0], (0..ranks).map(|r| r + RUNS).sum::<u32>());
        Ok(())
    });
}

#[test]
fn its_buffers_are_refused_while_it_is_active() {
    everywhere(1..=4, |comm| {
        let (mut mine, mut out, mut back) =
            ([1u32; 5], vec![1u32; 40], vec![0u32; 40 * comm.size() as usize]);
        comm.scope(|s| {
            let mut sum = s.allreduce_init(&mut mine, Op::Sum)?;
            let mut gather = s.allgather_init(&mut out, &mut back)?;
            assert!(!sum.is_active() && sum.is_done() && matches!(sum.test(), Some(Ok(()))));
            for _ in 0..3 {
                sum.buffer_mut()?.fill(1);
                sum.start()?;
                gather.start()?;
                assert!(sum.is_active() && gather.is_active());
                let says = "is active";
                let refused = [
                    sum.buffer().unwrap_err(),
                    sum.buffer_mut().unwrap_err(),
                    gather.recv().unwrap_err(),
                    gather.recv_mut().unwrap_err(),
                    gather.send().unwrap_err(),
                    gather.send_mut().unwrap_err(),
                    sum.start().unwrap_err(),
                ];
                assert!(refused.iter().all(|e| e.to_string().contains(says)), "{refused:?}");
                while gather.wait_timeout(Duration::from_millis(1)).is_none() {}
                while !sum.is_done() {
                    comm.progress();
                }
                // Complete, and active until somebody has seen it.
                assert!(sum.buffer().is_err());
                assert!(matches!(sum.test(), Some(Ok(()))));
                assert_eq!(sum.buffer()?, [comm.size(); 5]);
                assert!(gather.recv()?.iter().all(|x| *x == 1));
            }
            // Given back while a run is active, and lent again.
            sum.start()?;
            let given = sum.into_buffer()?;
            assert_eq!(given, [comm.size() * comm.size(); 5]);
            given.fill(2);
            s.iallreduce(given, Op::Sum)?.wait()?;
            Ok(())
        })?;
        assert_eq!(mine, [2 * comm.size(); 5]);
        Ok(())
    });
}

/// How rank 0 leaves the run that nobody else starts.
#[derive(Clone, Copy, Debug)]
enum Leaving {
    Dropped,
    Forgotten,
    Unwound,
}

/// Rank 0 ends a scope in which a run is pending; the others wait for nothing.
fn left_behind(leaving: Leaving, requests: usize) {
    everywhere(1..=4, |comm| {
        if comm.size() == 1 {
            return Ok(());
        }
        let ours = comm.dup()?;
        let (mut pending, mut other, mine) = (vec![1u32; 20_000], [1u32; 3], [1u32; 3]);
        if comm.rank() == 0 {
            let body = || {
                ours.scope(|s| {
                    let mut sum = s.allreduce_init(&mut pending, Op::Sum)?;
                    let mut other = &mut other[..];
                    // So many that the scope gives up those that are over: not this one, which is about to start.
                    for _ in 0..requests {
                        let received = s.irecv(other, 0, 1)?;
                        s.isend(&mine, 0, 1)?.wait()?;
                        other = received.wait()?;
                    }
                    sum.start()?;
                    match leaving {
                        Leaving::Dropped => drop(sum),
                        Leaving::Forgotten => std::mem::forget(sum),
                        Leaving::Unwound => std::panic::panic_any(leaving as usize),
                    }
                    Ok(())
                })
            };
            match (leaving, std::panic::catch_unwind(std::panic::AssertUnwindSafe(body))) {
                (Leaving::Unwound, Err(_)) => {}
                (_, Ok(Err(Error::ScopeLeftPending { pending: 1 }))) => {}
                (_, outcome) => panic!("{leaving:?}: {outcome:?}"),
            }
            assert!(ours.raw().is_revoked());
            // Nobody touches it any more.
            pending.fill(5);
        }
        comm.barrier()?;
        assert!(comm.rank() > 0 || pending.iter().all(|x| *x == 5));
        Ok(())
    });
}

#[test]
fn its_scope_ends_what_is_dropped() {
    left_behind(Leaving::Dropped, 0);
}

#[test]
fn its_scope_ends_what_is_forgotten() {
    left_behind(Leaving::Forgotten, 0);
}

#[test]
fn its_scope_ends_what_unwinding_leaves() {
    left_behind(Leaving::Unwound, 0);
}

#[test]
fn its_scope_knows_it_however_many_requests_have_ended_meanwhile() {
    left_behind(Leaving::Dropped, 40);
    left_behind(Leaving::Forgotten, 40);
}

#[test]
fn a_scope_whose_runs_are_over_ends_well() {
    everywhere(1..=4, |comm| {
        let (mut dropped, mut forgotten, mut never) = ([1u32; 3], [1u32; 3], [1u32; 3]);
        comm.scope(|s| {
            let mut sum = s.allreduce_init(&mut dropped, Op::Sum)?;
            sum.start()?;
            sum.wait()?;
            drop(sum);
            let mut sum = s.allreduce_init(&mut forgotten, Op::Sum)?;
            sum.start()?;
            sum.wait()?;
            std::mem::forget(sum);
            let _never = s.allreduce_init(&mut never, Op::Sum)?;
            Ok(())
        })?;
        assert_eq!((dropped, forgotten, never), ([comm.size(); 3], [comm.size(); 3], [1; 3]));
        comm.barrier()
    });
}
