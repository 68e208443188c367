//! Collectives on boards: more outstanding than a board holds, on more communicators than there are boards, while ranks
//! compute and call nothing; and ranks that die.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tocsin::{Comm, Error, Op, UserOp, World};
use tocsin_sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tocsin_tests::random::Random;
use tocsin_tests::run::{Arguments, BACKENDS, Case, Kind};
use tocsin_tests::worlds::config;

fn ranks(backend: &str, ranks: u32, body: impl Fn(&Comm) -> Result<(), Error> + Sync) {
    for end in
        World::threads_with(ranks, &config(&[("TOCSIN_BACKEND", backend)]), |comm| body(&comm)).unwrap()
    {
        end.unwrap();
    }
}

/// Computes, and calls nothing of the library, until as many ranks are done.
fn compute_until(done: &AtomicU32, many: u32) {
    let begun = Instant::now();
    while done.load(Ordering::Acquire) < many {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "the others wait for this rank to call the library"
        );
        std::hint::spin_loop();
    }
}

/// Many more than a board holds, ended in another order than they were started.
#[test]
fn more_outstanding_than_a_board_holds() {
    for backend in ["signal", "thread", "poll"] {
        for size in [2, 3, 5] {
            ranks(backend, size, |comm| {
                let me = u64::from(comm.rank());
                for round in 0..20u64 {
                    let mut sums = (0..30)
                        .map(|n| comm.iallreduce(vec![n + me + round; 1 + n as usize], Op::Sum))
                        .collect::<Result<Vec<_>, _>>()?;
                    // From a root and to a root, which do not wait for each other.
                    let root = (round % u64::from(size)) as u32;
                    let casts = (0..15)
                        .map(|n| comm.ibcast(vec![me * 100 + n; 3], root))
                        .collect::<Result<Vec<_>, _>>()?;
                    let barrier = comm.ibarrier()?;
                    let all = u64::from(size);
                    while let Some(sum) = sums.pop() {
                        let n = sums.len() as u64;
                        let right = all * (n + round) + all * (all - 1) / 2;
                        assert!(sum.wait()?.iter().all(|got| *got == right));
                    }
                    barrier.wait()?;
                    for (n, cast) in (0..).zip(casts) {
                        assert_eq!(cast.wait()?, [u64::from(root) * 100 + n; 3]);
                    }
                }
                Ok(())
            });
        }
    }
}

/// Two ranks exchange parts whose places pass between them, among others whose places do not, of all lengths, several at a time; some restarted.
#[test]
fn exchanges_of_two_among_others() {
    const KIB: usize = 1024 / 8;
    let value = |rank: u64, n: u64, i: usize| rank * 1_000_000_007 + n * 1_000_003 + i as u64;
    let part = |rank: u64, n: u64, len: usize| (0..len).map(|i| value(rank, n, i)).collect::<Vec<u64>>();
    for backend in ["signal", "thread", "poll"] {
        ranks(backend, 2, |comm| {
            let (me, other) = (u64::from(comm.rank()), 1 - u64::from(comm.rank()));
            let mut random = Random::new(7);
            let mut again = comm.allgather_init(part(me, 0, 5 * KIB), vec![0; 10 * KIB])?;
            for round in 0..60u64 {
                let (mut gathers, mut exchanges, mut sums, mut casts) = (vec![], vec![], vec![], vec![]);
                let mut parts = vec![];
                for n in 0..=random.below(6) {
                    let n = round * 10 + n;
                    // Both sides of what a slot holds, of either size that passes, and of what goes by the board.
                    let len = [1, 3 * KIB, 8 * KIB, 33 * KIB, 64 * KIB, 256 * KIB, 257 * KIB, 1024 * KIB]
                        [random.below(8) as usize]
                        + random.below(2) as usize;
                    match random.below(5) {
                        0 => gathers.push((n, comm.iallgather(part(me, n, len), vec![0; 2 * len])?)),
                        4 => {
                            let whole = part(me, n, 2 * len);
                            parts.push((n, comm.ireduce_scatter_block_in_place(whole, Op::Sum)?));
                        }
                        1 => exchanges.push((n, comm.ialltoall(part(me, n, 2 * len))?)),
                        2 => sums.push((n, comm.iallreduce(part(me, n, len), Op::Sum)?)),
                        _ => casts.push((n, comm.ibcast(part(me, n, len), 0)?)),
                    }
                }
                if random.below(3) == 0 {
                    again.send_mut()?.copy_from_slice(&part(me, round, 5 * KIB));
                    again.start()?;
                    again.wait()?;
                    assert_eq!(again.recv()?[5 * KIB * other as usize], value(other, round, 0));
                }
                while let Some((n, sum)) = sums.pop() {
                    let sum = sum.wait()?;
                    assert!((0..).zip(&sum).all(|(i, got)| *got == value(0, n, i) + value(1, n, i)));
                }
                for (n, part) in parts {
                    let got = part.wait()?;
                    let len = got.len() / 2;
                    let all = (me as usize * len..).map(|i| value(0, n, i) + value(1, n, i));
                    assert!(got[..len].iter().copied().eq(all.take(len)), "{n}, {len}");
                }
                for (n, gather) in gathers {
                    let got = gather.wait()?;
                    let len = got.len() / 2;
                    assert!(got[..len] == part(0, n, len) && got[len..] == part(1, n, len), "{n}, {len}");
                }
                for (n, exchange) in exchanges {
                    let got = exchange.wait()?;
                    let len = got.len() / 2;
                    let mine = |rank| part(rank, n, 2 * len)[len * me as usize..][..len].to_vec();
                    assert!(got[..len] == mine(0) && got[len..] == mine(1), "{n}, {len}");
                }
                for (n, cast) in casts {
                    let got = cast.wait()?;
                    assert!(got == part(0, n, got.len()));
                }
            }
            Ok(())
        });
    }
}

/// A rank that has posted more than the board holds, and computes, takes part in all of it by its handler.
#[test]
fn a_computing_rank_takes_part_in_all_that_it_has_posted() {
    for size in [2, 4] {
        let done = AtomicU32::new(0);
        ranks("signal", size, |comm| {
            comm.barrier()?;
            let posted =
                (0..30u64).map(|n| comm.iallreduce(vec![n], Op::Sum)).collect::<Result<Vec<_>, _>>()?;
            let casts = (0..10).map(|n| comm.ibcast(vec![n], 1)).collect::<Result<Vec<_>, _>>()?;
            let last = comm.ibarrier()?;
            if comm.rank() == 0 {
                compute_until(&done, size - 1);
            }
            for (n, sum) in (0..).zip(posted) {
                assert_eq!(sum.wait()?, [n * u64::from(size)]);
            }
            for (n, cast) in (0..).zip(casts) {
                assert_eq!(cast.wait()?, [n]);
            }
            last.wait()?;
            done.fetch_add(1, Ordering::Release);
            comm.barrier()
        });
    }
}

/// Collectives that are made in rounds, as many as a rank may post and more, on every backend: a rank that computes posts what the others lack, by its handler, and has
/// the results when it waits.
#[test]
fn rounds_beside_a_rank_that_computes() {
    // Parts of 1.5 and of 5 MiB.
    for numbers in [3 << 16, 5 << 17] {
        for (backend, size) in [("signal", 2), ("signal", 3), ("thread", 2), ("poll", 3)] {
            let done = AtomicU32::new(0);
            ranks(backend, size, |comm| {
                let by_board = comm.with_algorithm("shm");
                let me = u64::from(comm.rank());
                by_board.barrier()?;
                let sum = by_board.iallreduce(vec![me + 1; numbers], Op::Sum)?;
                let all = by_board.iallgather(vec![me; numbers], vec![0; numbers * size as usize])?;
                let cast = by_board.ibcast(vec![me + 5; numbers], 1)?;
                if me == 0 && backend != "poll" {
                    compute_until(&done, size - 1);
                }
                let whole: u64 = (1..=u64::from(size)).sum();
                assert!(sum.wait()?.iter().all(|number| *number == whole), "{backend} {size} {numbers}");
                let all = all.wait()?;
                assert!(all.iter().zip(0..).all(|(number, at)| *number == at / numbers as u64));
                assert!(cast.wait()?.iter().all(|number| *number == 6));
                done.fetch_add(1, Ordering::Release);
                comm.barrier()
            });
        }
    }
}

/// What a computing rank waits for ends without a call of its own.
#[test]
fn what_a_computing_rank_has_posted_ends() {
    ranks("signal", 3, |comm| {
        for _ in 0..20 {
            let late = comm.rank() == 2;
            if late {
                // Posts when the others compute.
                std::thread::sleep(Duration::from_millis(2));
            }
            let sum = comm.iallreduce(vec![1u32], Op::Sum)?;
            let begun = Instant::now();
            while !sum.is_done() {
                assert!(begun.elapsed() < Duration::from_secs(30), "it waits for a call");
                std::hint::spin_loop();
            }
            assert_eq!(sum.wait()?, [3]);
        }
        Ok(())
    });
}

/// Of a prepared one, each run; and what is to be called at the end, which nobody looks at.
#[test]
fn each_run_of_what_a_computing_rank_has_prepared_ends() {
    ranks("signal", 3, |comm| {
        let mut sum = comm.allreduce_init(vec![0u32], Op::Sum)?;
        for run in 0..20 {
            if comm.rank() == 2 {
                // Posts when the others compute.
                std::thread::sleep(Duration::from_millis(2));
            }
            sum.buffer_mut()?[0] = run;
            sum.start()?;
            let called = Arc::new(AtomicBool::new(false));
            let is_called = called.clone();
            if run % 2 == 0 {
                sum.on_complete(move |_| is_called.store(true, Ordering::Release));
            }
            let begun = Instant::now();
            while if run % 2 == 0 { !called.load(Ordering::Acquire) } else { !sum.is_done() } {
                assert!(begun.elapsed() < Duration::from_secs(30), "it waits for a call");
                std::hint::spin_loop();
            }
            sum.wait()?;
            assert_eq!(sum.buffer()?, [3 * run]);
        }
        Ok(())
    });
}

/// Behind the first of the line, too.
#[test]
fn who_waits_for_any_is_rung() {
    for backend in ["signal", "thread"] {
        ranks(backend, 2, |comm| {
            let other = comm.dup()?;
            for _ in 0..20 {
                if comm.rank() == 0 {
                    // Nobody begins the one; the other ends behind two.
                    let mut behind: Vec<_> =
                        (0..3).map(|n| comm.iallreduce(vec![n], Op::Sum)).collect::<Result<_, _>>()?;
                    let mut all = vec![other.iallreduce(vec![7], Op::Sum)?, behind.remove(2)];
                    assert_eq!(tocsin::wait_any(&mut all), Some(1));
                    assert_eq!(all.remove(1).wait()?, [4]);
                    comm.barrier()?;
                    assert_eq!(all.remove(0).wait()?, [8]);
                    for (n, sum) in (0..).zip(behind) {
                        assert_eq!(sum.wait()?, [2 * n]);
                    }
                } else {
                    std::thread::sleep(Duration::from_millis(2));
                    for n in 0..3 {
                        assert_eq!(comm.iallreduce(vec![n], Op::Sum)?.wait()?, [2 * n]);
                    }
                    comm.barrier()?;
                    assert_eq!(other.iallreduce(vec![1], Op::Sum)?.wait()?, [8]);
                }
            }
            Ok(())
        });
    }
}

/// Communicators with boards and, when these are used up, without; each rank goes through them in another order.
#[test]
fn many_communicators_in_any_order() {
    for backend in ["signal", "poll"] {
        ranks(backend, 4, |comm| {
            let me = comm.rank();
            let mut comms = vec![comm.dup()?];
            for n in 0..20 {
                comms.push(comm.dup()?);
                if let Some(half) = comm.split(Some((me >> (n % 2)) & 1), 0)? {
                    comms.push(half);
                }
            }
            for round in 0..3u32 {
                let order = (0..comms.len()).map(|at| (at * 5 + me as usize * 7) % comms.len());
                let order: Vec<usize> =
                    if comms.len() % 5 == 0 { (0..comms.len()).collect() } else { order.collect() };
                let mut sums = Vec::new();
                for at in order {
                    sums.push((comms[at].iallreduce(vec![round, 1], Op::Sum)?, comms[at].size()));
                }
                for (sum, size) in sums {
                    assert_eq!(sum.wait()?, [round * size, size]);
                }
            }
            Ok(())
        });
    }
}

/// Operators of users run in calls only, in rank order, and one that panics ends its collective alone.
#[test]
fn operators_of_users() {
    /// The map x -> hi x + lo, after the one on the right; numbers of 32 bits.
    fn after(left: u64, right: u64) -> u64 {
        assert!(left != 13, "on purpose");
        let [a, b] = [left, right].map(|map| ((map >> 32) as u32, map as u32));
        let (slope, shift) = (a.0.wrapping_mul(b.0), a.0.wrapping_mul(b.1).wrapping_add(a.1));
        u64::from(slope) << 32 | u64::from(vec![shift][0])
    }
    let operator = || Op::User(UserOp::ordered(after));
    for backend in ["signal", "thread", "poll"] {
        ranks(backend, 3, |comm| {
            let by_board = comm.with_algorithm("shm");
            let by_messages = comm.with_algorithm("recursive-doubling");
            let me = u64::from(comm.rank());
            for round in 0..10u64 {
                let mine = || vec![((me + 2) << 32) | (round + me); 3];
                let [one, two] = [&by_board, &by_messages].map(|comm| comm.iallreduce(mine(), operator()));
                assert_eq!(one?.wait()?, two?.wait()?);
            }
            let bad = by_board.iallreduce(vec![13u64], operator())?.wait();
            assert!(matches!(bad, Err(Error::UserOperatorPanicked { .. })), "{bad:?}");
            assert_eq!(by_board.iallreduce(vec![me], Op::Max)?.wait()?, [2]);
            Ok(())
        });
    }
}

/// Who waits on a board for a rank that dies hears of it, and so does all that comes later.
#[test]
fn a_death_ends_what_waits() {
    for backend in ["signal", "thread", "poll"] {
        let ends = World::threads_with(3, &config(&[("TOCSIN_BACKEND", backend)]), |comm| {
            comm.barrier().unwrap();
            if comm.rank() == 1 {
                std::panic::panic_any("on purpose");
            }
            let posted: Vec<_> = (0..12).map(|_| comm.iallreduce(vec![1u8], Op::Sum)).collect();
            for request in posted {
                let end = request.and_then(|request| request.wait());
                assert!(matches!(end, Err(Error::PeerDead { rank: 1, .. })), "{end:?}");
            }
            let end = comm.barrier();
            assert!(matches!(end, Err(Error::PeerDead { rank: 1, .. })), "{end:?}");
        });
        assert!(ends.is_err(), "rank 1 died");
    }
}

/// Who waits for several ranks hears of any of them that has left, though another one is yet to come.
#[test]
fn a_rank_that_has_left_ends_what_waits() {
    for backend in ["signal", "thread", "poll"] {
        let heard = AtomicBool::new(false);
        ranks(backend, 3, |comm| {
            match comm.rank() {
                0 => assert!(until(&heard), "rank 2 heard nothing"),
                1 => {}
                _ => {
                    let end = comm.barrier();
                    assert!(matches!(end, Err(Error::PeerFinalized { rank: 1, .. })), "{end:?}");
                    heard.store(true, Ordering::Release);
                }
            }
            Ok(())
        });
    }
}

/// Both ranks hear that they disagree, and not only who comes last.
#[test]
fn who_waits_hears_of_a_disagreement() {
    for backend in ["signal", "thread", "poll"] {
        let (posts, heard) = (AtomicBool::new(false), AtomicBool::new(false));
        ranks(backend, 2, |comm| {
            if comm.rank() == 0 {
                let posted = comm.iallreduce(vec![1u64; 2], Op::Sum)?;
                posts.store(true, Ordering::Release);
                let end = posted.wait();
                assert!(matches!(end, Err(Error::Protocol { .. })), "{end:?}");
                heard.store(true, Ordering::Release);
            } else {
                assert!(until(&posts));
                let end = comm.iallreduce(vec![1u64; 3], Op::Sum)?.wait();
                assert!(matches!(end, Err(Error::Protocol { .. })), "{end:?}");
                assert!(until(&heard), "rank 0 heard nothing");
            }
            Ok(())
        });
    }
}

/// Who is done before anybody disagrees hears of it in what comes next, though nobody posts that any more.
#[test]
fn who_saw_no_disagreement_hears_of_it_later() {
    for backend in ["signal", "thread", "poll"] {
        let (cast, heard) = (AtomicBool::new(false), AtomicBool::new(false));
        ranks(backend, 2, |comm| {
            if comm.rank() == 0 {
                comm.ibcast(vec![1u64; 2], 0)?.wait()?;
                cast.store(true, Ordering::Release);
                let end = comm.barrier();
                assert!(matches!(end, Err(Error::Protocol { .. })), "{end:?}");
                heard.store(true, Ordering::Release);
            } else {
                assert!(until(&cast));
                let end = comm.iallreduce(vec![1u64; 2], Op::Sum)?.wait();
                assert!(matches!(end, Err(Error::Protocol { .. })), "{end:?}");
                assert!(until(&heard), "rank 0 heard nothing");
            }
            Ok(())
        });
    }
}

/// All who wait hear that they disagree with one that needs none of them.
#[test]
fn all_who_wait_hear_of_a_disagreement() {
    for backend in ["signal", "thread", "poll"] {
        let (posted, heard) = (AtomicU32::new(0), AtomicU32::new(0));
        ranks(backend, 3, |comm| {
            if comm.rank() < 2 {
                let sum = comm.iallreduce(vec![1u64; 2], Op::Sum)?;
                posted.fetch_add(1, Ordering::Release);
                let end = sum.wait();
                assert!(matches!(end, Err(Error::Protocol { .. })), "{end:?}");
                heard.fetch_add(1, Ordering::Release);
            } else {
                compute_until(&posted, 2);
                let end = comm.ireduce(vec![1u64; 2], Op::Sum, 0)?.wait();
                assert!(matches!(end, Err(Error::Protocol { .. })), "{end:?}");
                compute_until(&heard, 2);
            }
            Ok(())
        });
    }
}

/// Some find it small enough for the board, and some do not, or name another algorithm: all hear of it, and of whom they disagree with,
/// whoever comes first, where the others wait or compute.
#[test]
fn who_is_on_the_board_and_who_is_not_hear_of_each_other() {
    for backend in ["signal", "thread", "poll"] {
        for (size, beside) in [(2, 0b01), (2, 0b10), (3, 0b010), (3, 0b101), (4, 0b0011)] {
            for (named, first) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
                let (posted, heard) = (AtomicU32::new(0), AtomicU32::new(0));
                ranks(backend, size, |comm| {
                    let comm = comm.dup()?;
                    let me = comm.rank();
                    let by_messages = beside >> me & 1 == 1;
                    if me % 2 != first {
                        // The others post before.
                        compute_until(&posted, (0..size).filter(|rank| rank % 2 == first).count() as u32);
                    }
                    let end = if named {
                        let by = comm.with_algorithm(if by_messages { "dissemination" } else { "shm" });
                        let barrier = by.ibarrier()?;
                        posted.fetch_add(1, Ordering::Release);
                        barrier.wait()
                    } else {
                        let sum = comm.iallreduce(vec![1u64; 256 + usize::from(by_messages)], Op::Sum)?;
                        posted.fetch_add(1, Ordering::Release);
                        sum.wait().map(drop)
                    };
                    let Err(Error::Protocol { rank, .. }) = end else { panic!("rank {me}: {end:?}") };
                    assert_ne!(beside >> rank & 1 == 1, by_messages, "rank {me} and rank {rank}");
                    heard.fetch_add(1, Ordering::Release);
                    // Nobody leaves before: that would be news of its own.
                    compute_until(&heard, size);
                    Ok(())
                });
            }
        }
    }
}

/// Those who have nothing to wait for are told of it, too, and the one who waits for them is not left alone.
#[test]
fn who_waits_for_one_that_is_done_by_messages_hears_of_it() {
    for backend in ["signal", "thread"] {
        let (cast, heard) = (AtomicBool::new(false), AtomicBool::new(false));
        ranks(backend, 2, |comm| {
            if comm.rank() == 0 {
                comm.with_algorithm("binomial").ibcast(vec![1u64; 2], 0)?.wait()?;
                cast.store(true, Ordering::Release);
                assert!(until(&heard), "rank 1 heard nothing");
            } else {
                assert!(until(&cast));
                let end = comm.with_algorithm("shm").ibcast(vec![1u64; 2], 0)?.wait();
                assert!(matches!(end, Err(Error::Protocol { rank: 0, .. })), "{end:?}");
                heard.store(true, Ordering::Release);
            }
            Ok(())
        });
    }
}

/// One has given up, and is refused what the others do by messages, who saw nothing of the reason: they hear of it, though it computes
/// from then on, whether they begin before or after.
#[test]
fn who_does_by_messages_what_another_one_is_refused_hears_of_it() {
    for backend in ["signal", "thread", "poll"] {
        for late in [false, true] {
            let (cast, begun, heard) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
            ranks(backend, 3, |comm| {
                let dup = comm.dup()?;
                if dup.rank() < 2 {
                    dup.with_algorithm("shm").ibcast(vec![1u64; 2], 0)?.wait()?;
                    cast.fetch_add(1, Ordering::Release);
                    if !late {
                        compute_until(&begun, 1);
                    }
                    let barrier = dup.with_algorithm("dissemination").ibarrier()?;
                    begun.fetch_add(1, Ordering::Release);
                    let end = barrier.wait();
                    assert!(matches!(end, Err(Error::Protocol { rank: 2, .. })), "{backend} {late}: {end:?}");
                    heard.fetch_add(1, Ordering::Release);
                } else {
                    compute_until(if late { &begun } else { &cast }, 2);
                    let end = dup.iallreduce(vec![1u64; 2], Op::Sum)?.wait();
                    assert!(matches!(end, Err(Error::Protocol { .. })), "{end:?}");
                    let end = dup.barrier();
                    assert!(matches!(end, Err(Error::Protocol { .. })), "{end:?}");
                    begun.fetch_add(1, Ordering::Release);
                }
                // Nobody leaves before: that would be news of its own.
                compute_until(&heard, 2);
                Ok(())
            });
        }
    }
}

/// A root that waits for nobody may be ahead of the others by more collectives than parts have numbers for.
#[test]
fn who_is_far_ahead_does_not_disagree() {
    const AHEAD: u64 = 40_000;
    for backend in ["signal", "poll"] {
        ranks(backend, 2, |comm| {
            let dup = comm.dup()?;
            let by_messages = dup.with_algorithm("binomial");
            if comm.rank() == 0 {
                for n in 0..AHEAD {
                    by_messages.ibcast(vec![n], 0)?.wait()?;
                }
                let barrier = dup.ibarrier()?;
                comm.send(&[1u8], 1, 0)?;
                barrier.wait()?;
            } else {
                comm.recv(&mut [0u8], 0, 0)?;
                for n in 0..AHEAD {
                    assert_eq!(by_messages.ibcast(vec![0], 0)?.wait()?, [n]);
                }
                dup.ibarrier()?.wait()?;
            }
            Ok(())
        });
    }
}

/// A world has few boards, but no communicator goes without that has members in common with few others at the time.
#[test]
fn a_thousand_communicators_each_have_a_board() {
    for kind in Kind::ALL {
        for (backend, ranks, rounds) in [(0, 4, 1000), (0, 2, 1000), (1, 5, 300), (2, 3, 300)] {
            let backend = BACKENDS[backend];
            let arguments = Arguments::new().with("seed", 12 + ranks).with("rounds", rounds);
            let program = Path::new(env!("CARGO_BIN_EXE_tocsin-rank"));
            let scenario = "boards-come-back";
            Case { program, kind, ranks, backend, scenario, arguments, limit_s: 120 }.pass();
        }
    }
}

/// What a root has posted stays for who has yet to come, while the root uses boards with others that are done with theirs.
#[test]
fn who_is_late_finds_what_was_posted() {
    for backend in ["signal", "thread", "poll"] {
        let done = AtomicBool::new(false);
        ranks(backend, 3, |comm| {
            let me = comm.rank();
            let late = comm.split((me != 1).then_some(0), 0)?;
            let others = comm.split((me != 2).then_some(0), 0)?;
            if let Some(late) = &late {
                let late = late.with_algorithm("shm");
                if me == 2 {
                    assert!(until(&done));
                }
                for n in 0..4 {
                    let cast = late.ibcast(vec![u32::from(me == 0) * (n + 7); 5], 0)?;
                    let begun = Instant::now();
                    while !cast.is_done() {
                        assert!(begun.elapsed() < Duration::from_secs(30), "what was posted is gone");
                        std::hint::spin_loop();
                    }
                    assert_eq!(cast.wait()?, [n + 7; 5]);
                }
            }
            drop(late);
            if let Some(others) = others {
                for n in 0..40u64 {
                    let next = others.dup()?.with_algorithm("shm");
                    for _ in 0..9 {
                        assert_eq!(next.iallreduce(vec![n], Op::Sum)?.wait()?, [2 * n]);
                    }
                }
                done.store(true, Ordering::Release);
            }
            Ok(())
        });
    }
}

/// A board comes back of which a member has died, or kept its communicator and left the world.
#[test]
fn boards_of_those_who_are_gone_come_back() {
    for dies in [true, false] {
        let gone = AtomicBool::new(false);
        let ends = World::threads_each(4, &config(&[("TOCSIN_BACKEND", "signal")]), |comm| {
            let me = comm.rank();
            let three = comm.split((me != 3).then_some(0), 0).unwrap();
            // Rank 2 shares boards with rank 3, which never drops its communicators.
            let pairs = [0, 1, 2].map(|_| comm.split(Some(me / 2), 0).unwrap().unwrap());
            for pair in &pairs {
                pair.with_algorithm("shm").barrier().unwrap();
            }
            let Some(three) = three else {
                for pair in pairs {
                    std::mem::forget(pair);
                }
                if dies {
                    std::panic::panic_any("on purpose");
                }
                return;
            };
            drop(pairs);
            if me == 2 {
                // Nobody posts anything with rank 3 any more: this ends with it.
                assert!(comm.barrier().is_err());
                gone.store(true, Ordering::Release);
            }
            assert!(until(&gone));
            three.barrier().unwrap();
            // All boards but the world's and that of `three`.
            let all: Vec<Comm> = (0..14).map(|_| three.dup().unwrap()).collect();
            for (at, comm) in all.iter().enumerate() {
                let end = comm.with_algorithm("shm").barrier();
                assert!(end.is_ok(), "{at}: {end:?}");
            }
        });
        let ends: Vec<bool> = ends.unwrap().iter().map(Result::is_ok).collect();
        assert_eq!(ends, [true, true, true, !dies]);
    }
}

/// Whether something is said within a minute.
fn until(flag: &AtomicBool) -> bool {
    let begun = std::time::Instant::now();
    while !flag.load(Ordering::Acquire) && begun.elapsed().as_secs() < 60 {
        std::thread::yield_now();
    }
    flag.load(Ordering::Acquire)
}
