//! A rank that the system refuses memory: those who wait for it hear of that, and nobody else.
#![allow(clippy::unwrap_used)]

use std::sync::Barrier;
use tocsin_nbc::{DataType, Op};
use tocsin_sync::atomic::{AtomicU32, Ordering};
use tocsin_tests::run::BACKENDS;
use tocsin_world::{Comm, Config, Error, RawRequest, threads};

/// More than a world has boards.
const MANY: usize = 17;
const RANKS: u32 = 3;
/// The rank that is refused.
const POOR: u32 = 1;

/// Has the system refuse this thread memory of files, and with it what ranks share.
fn refuse_shared_memory() {
    let load = |offset| libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: offset };
    let answer = |k| libc::sock_filter { code: 0x06, jt: 0, jf: 0, k };
    let filter = [
        load(0), // the number of the call
        libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: libc::SYS_fallocate as u32 },
        answer(libc::SECCOMP_RET_ERRNO | libc::ENOSPC as u32),
        answer(libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the program is live during the call; both calls concern this thread only.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

/// A sum of so many numbers, posted.
fn sum(comm: &Comm, numbers: &mut [u32], algorithm: &str) -> Result<RawRequest, Error> {
    let (to, count) = (numbers.as_mut_ptr().cast(), numbers.len());
    // SAFETY: the tests keep the numbers until the request is over.
    unsafe { comm.iallreduce_raw(None, to, count, DataType::U32, Op::Sum, Some(algorithm)) }
}

/// How a sum ends here and in the two that come after it.
fn sums(comm: &Comm, count: usize, algorithm: &str) -> Vec<Error> {
    let mut numbers = vec![1; count];
    (0..3).map(|_| sum(comm, &mut numbers, algorithm).and_then(|mut sum| sum.wait()).unwrap_err()).collect()
}

#[test]
fn who_is_refused_memory_for_a_collective_says_so_to_all() {
    for backend in BACKENDS {
        // Ends a test that hangs.
        // SAFETY: no memory effects.
        unsafe { libc::alarm(60) };
        let mut config = Config::default();
        config.backend = Some(backend);
        let (heard, refused) = (AtomicU32::new(0), AtomicU32::new(0));
        let ends = threads(RANKS, &config, |comm| {
            let mut others: Vec<Comm> = (0..MANY).map(|_| comm.dup().unwrap()).collect();
            let without_board = others.pop().unwrap();
            if comm.rank() == POOR {
                refuse_shared_memory();
            }
            // On the board, by messages beside it, and by messages without one.
            let ends = [(&comm, 16 << 10, "shm"), (&others[0], 100, "ring"), (&without_board, 100, "ring")];
            let mut round = 0;
            let ends = ends.map(|(comm, count, algorithm)| {
                round += 1;
                // Whoever of a pair is first has memory for both to exchange messages through.
                while algorithm == "ring" && comm.rank() != POOR && refused.load(Ordering::Acquire) < round {
                    std::thread::yield_now();
                }
                let ends = sums(comm, count, algorithm);
                if comm.rank() == POOR {
                    refused.store(round, Ordering::Release);
                }
                ends
            });
            // Who is refused goes on computing: the others hear of it all the same, and nobody of its end.
            heard.fetch_add(1, Ordering::AcqRel);
            while heard.load(Ordering::Acquire) < RANKS {
                std::thread::yield_now();
            }
            ends
        });
        // SAFETY: as above.
        unsafe { libc::alarm(0) };
        for (rank, [board, beside, without]) in (0u32..).zip(ends.unwrap()) {
            let what = format!("{backend} {rank}: {board:?} {beside:?} {without:?}");
            for ends in [&board, &beside] {
                let named = |end: &Error| matches!(end, Error::OutOfMemory { rank: POOR, .. });
                assert!(ends[1..].iter().all(|end| rank == POOR || named(end)), "{what}");
                // Who is refused hears what; the others, whom.
                assert!(
                    if rank == POOR { ends[0].to_string().contains("memory limit") } else { named(&ends[0]) },
                    "{what}"
                );
            }
            let revoked = |end: &Error| matches!(end, Error::Revoked { .. });
            assert!(without[1..].iter().all(revoked) && (rank == POOR || revoked(&without[0])), "{what}");
        }
    }
}

/// The temporaries of its own part, too, which the others may not need.
#[test]
fn who_is_refused_temporaries_says_so_to_all() {
    for backend in BACKENDS {
        // Ends a test that hangs.
        // SAFETY: no memory effects.
        unsafe { libc::alarm(60) };
        let mut config = Config::default();
        config.backend = Some(backend);
        let heard = AtomicU32::new(0);
        let ends = threads(RANKS, &config, |comm| {
            let mut numbers = vec![1u32; 100];
            let begun = if comm.rank() == POOR {
                let to = numbers.as_mut_ptr().cast();
                // SAFETY: refused before anything is touched: no system has so much memory.
                unsafe { comm.iallreduce_raw(None, to, 1 << 44, DataType::U32, Op::Sum, Some("ring")) }
            } else {
                sum(&comm, &mut numbers, "ring")
            };
            let end = begun.and_then(|mut sum| sum.wait()).unwrap_err();
            let later = sums(&comm, 100, "ring");
            // Nobody is to hear of another one's end.
            heard.fetch_add(1, Ordering::AcqRel);
            while heard.load(Ordering::Acquire) < RANKS {
                std::thread::yield_now();
            }
            (end, later)
        });
        // SAFETY: as above.
        unsafe { libc::alarm(0) };
        for (rank, (first, later)) in (0u32..).zip(ends.unwrap()) {
            let named = |end: &Error| matches!(end, Error::OutOfMemory { rank: POOR, .. });
            assert!(rank == POOR || named(&first), "{backend} {rank}: {first:?}");
            assert!(later.iter().all(named), "{backend} {rank}: {later:?}");
        }
    }
}

/// A revocation that it cannot send to each member is heard by the members alone: both parts of a split have the same context.
#[test]
fn another_part_of_a_split_is_not_revoked() {
    for backend in BACKENDS {
        let mut config = Config::default();
        config.backend = Some(backend);
        let barrier = Barrier::new(4);
        let revoked = threads(4, &config, |comm| {
            let half = comm.split(Some(comm.rank() / 2), 0).unwrap().unwrap();
            barrier.wait();
            if comm.rank() == 0 {
                refuse_shared_memory();
                half.revoke();
            }
            barrier.wait();
            half.progress();
            let revoked = half.is_revoked();
            barrier.wait();
            revoked
        });
        assert_eq!(revoked.unwrap(), [true, true, false, false], "{backend:?}");
    }
}
