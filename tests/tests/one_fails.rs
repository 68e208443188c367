//! A collective by messages that fails on one rank, for a reason that only this rank can see: the others hear of it while that rank lives.
#![allow(clippy::unwrap_used, clippy::expect_used)] // A test that fails says so by panicking.

use std::time::{Duration, Instant};

use tocsin::{Blocks, Comm, Config, Error, Op, UserOp, World};
use tocsin_sync::atomic::{AtomicU32, Ordering};
use tocsin_tests as _; // its allocator

/// More than a rank takes that hears of it; who does not would wait for ever.
const LIMIT: Duration = Duration::from_secs(30);

/// How a collective ended; none that has not.
fn end<T: tocsin::Element>(request: Result<tocsin::Request<Vec<T>>, Error>) -> Option<Result<(), Error>> {
    match request {
        Err(error) => Some(Err(error)),
        Ok(mut request) => request.wait_timeout(LIMIT).map(|ended| ended.map(drop)),
    }
}

/// Every rank does it, and none leaves before all have ended: who leaves is heard of, too.
fn ends(
    ranks: u32,
    backend: &str,
    act: impl Fn(&Comm) -> Option<Result<(), Error>> + Sync,
) -> Vec<Result<(), Error>> {
    let mut config = Config::default();
    config.set("TOCSIN_BACKEND", backend).unwrap();
    let ended = AtomicU32::new(0);
    let all = World::threads_with(ranks, &config, |comm| {
        let end = act(&comm);
        ended.fetch_add(1, Ordering::Relaxed);
        let start = Instant::now();
        while ended.load(Ordering::Relaxed) < ranks && start.elapsed() < 2 * LIMIT {
            comm.progress();
            std::thread::yield_now();
        }
        end
    });
    all.unwrap().into_iter().map(|end| end.expect("a rank was not told")).collect()
}

fn odd(left: u64, right: u64) -> u64 {
    assert!(left % 100 != 13 && right % 100 != 13, "on purpose");
    left + right
}

/// An operation in which the user operator panics on the ranks that see the number of the last one.
fn panics(comm: &Comm, (operation, algorithm): (&str, &str), count: usize) -> Option<Result<(), Error>> {
    let comm = comm.with_algorithm(algorithm);
    let mine = vec![if comm.rank() + 1 == comm.size() { 13u64 } else { 1 }; count];
    let op = Op::User(UserOp::commutative(odd));
    match operation {
        "ireduce" => end(comm.ireduce(mine, op, 0)),
        "iscan" => end(comm.iscan(mine, op)),
        _ => end(comm.iallreduce(mine, op)),
    }
}

/// Elements: of messages that are sent at once, and of such as the receiver is asked for first.
const COUNTS: [usize; 2] = [8, 100_000];

const PANICS: [(&str, &str); 6] = [
    ("ireduce", "binomial"),
    ("iallreduce", "recursive-doubling"),
    ("iallreduce", "reduce-bcast"),
    ("iallreduce", "ring"),
    ("iallreduce", "rabenseifner"),
    ("iscan", "chain"),
];

#[test]
fn a_user_operator_that_panics_on_one_rank_ends_it_on_all_who_wait() {
    for backend in ["signal", "thread", "poll"] {
        for (case, count) in PANICS.iter().flat_map(|case| COUNTS.map(|count| (*case, count))) {
            let ends = ends(4, backend, |comm| {
                let first = panics(comm, case, count);
                // Who was done before hears of it later.
                let later = panics(comm, ("iallreduce", "recursive-doubling"), 8);
                assert!(matches!(later, Some(Err(_))), "{case:?}: {later:?}");
                first
            });
            let panicked = |end: &Result<(), Error>| matches!(end, Err(Error::UserOperatorPanicked { .. }));
            assert!(ends.iter().any(panicked), "{backend}, {case:?}, {count}: {ends:?}");
            assert!(
                ends.iter().all(|end| end.is_ok() || panicked(end)),
                "{backend}, {case:?}, {count}: {ends:?}"
            );
        }
    }
}

/// There, they hear of it when the rank that knows has seen it: by a revocation.
#[test]
fn without_a_board_too() {
    for (case, count) in PANICS.iter().flat_map(|case| COUNTS.map(|count| (*case, count))) {
        let ends = ends(4, "signal", |comm| {
            // Those that were made first have all boards.
            let all: Vec<Comm> = (0..20).map(|_| comm.dup().unwrap()).collect();
            let end = panics(all.last().unwrap(), case, count);
            // It takes nobody else's communicators with it.
            all[0].barrier().unwrap();
            end
        });
        let told = |end: &Result<(), Error>| {
            matches!(end, Ok(()) | Err(Error::UserOperatorPanicked { .. } | Error::Revoked { .. }))
        };
        assert!(ends.iter().all(told) && ends.iter().any(Result::is_err), "{case:?}, {count}: {ends:?}");
    }
}

#[test]
fn ranks_that_disagree_about_sizes_all_hear_of_it() {
    type Act = fn(&Comm, usize) -> Option<Result<(), Error>>;
    let cases: [(&str, Act); 5] = [
        ("a large iallreduce", |comm, n| end(comm.iallreduce(vec![1u64; n << 16], Op::Sum))),
        ("recursive doubling", |comm, n| {
            end(comm.with_algorithm("recursive-doubling").iallreduce(vec![1u64; n], Op::Sum))
        }),
        ("binomial", |comm, n| end(comm.with_algorithm("binomial").ireduce(vec![1u64; n], Op::Sum, 0))),
        ("iscan", |comm, n| end(comm.iscan(vec![1u64; n], Op::Sum))),
        ("iexscan", |comm, n| end(comm.iexscan(vec![1u64; n], Op::Sum))),
    ];
    for backend in ["signal", "poll"] {
        for (name, act) in &cases {
            for other in [3, 0] {
                for without_board in [false, true] {
                    let ends = ends(4, backend, |comm| {
                        let count = if comm.rank() == other { 9 } else { 8 };
                        let all: Vec<Comm> =
                            (0..if without_board { 20 } else { 1 }).map(|_| comm.dup().unwrap()).collect();
                        act(all.last().unwrap(), count)
                    });
                    let told = |end: &Result<(), Error>| {
                        matches!(end, Ok(()) | Err(Error::Protocol { .. } | Error::Revoked { .. }))
                    };
                    let who = format!("{name}, {backend}, {other}, {without_board}: {ends:?}");
                    assert!(ends.iter().all(told) && ends.iter().any(Result::is_err), "{who}");
                }
            }
        }
    }
}

/// Who takes a block for a long one has a message, of which who takes it for a short one knows nothing: neither waits for it.
#[test]
fn ranks_that_take_a_block_for_long_and_short_hear_of_it() {
    for (backend, persistent) in [("signal", false), ("signal", true), ("thread", false), ("poll", false)] {
        for (sent, expected) in [(1 << 20, 8), (8, 1 << 20), (1 << 20, 0), (9000, 8)] {
            let ends = ends(3, backend, |comm| {
                let (me, all) = (comm.rank() as usize, comm.with_algorithm("shm"));
                let count = |rank: usize| if rank == 1 { sent } else { 16 };
                let counts: Vec<usize> = (0..3).map(count).collect();
                let starts: Vec<usize> = (0..3).map(|rank| counts[..rank].iter().sum()).collect();
                let send = vec![1u8; if me == 0 { counts.iter().sum() } else { 0 }];
                let recv = vec![0u8; if me == 1 { expected } else { 16 }];
                let blocks = Blocks::placed(&counts, &starts);
                if !persistent {
                    return end(all.iscatterv(send, blocks, recv, 0));
                }
                let mut scatter = all.scatterv_init(send, blocks, recv, 0).unwrap();
                scatter.start().unwrap();
                scatter.wait_timeout(LIMIT)
            });
            let told = format!("{backend}, {persistent}: {sent} {expected}: {ends:?}");
            assert!(matches!(ends[1], Err(Error::Protocol { .. })), "{told}");
            // What is sent at once ends well.
            assert!(sent < 1 << 20 || matches!(ends[0], Err(Error::Protocol { .. })), "{told}");
            assert!(matches!(ends[2], Ok(()) | Err(Error::Protocol { .. })), "{told}");
        }
    }
}

/// What was posted on the board behind it hides nothing.
#[test]
fn who_has_posted_more_on_the_board_is_heard_of_too() {
    for backend in ["signal", "poll"] {
        let posted = AtomicU32::new(0);
        let ends = ends(2, backend, |comm| {
            let by_messages = comm.with_algorithm("reduce-bcast");
            let op = Op::User(UserOp::commutative(odd));
            if comm.rank() == 0 {
                // Its operator panics once the other's part is here.
                let sum = by_messages.iallreduce(vec![13u64], op);
                let barrier = comm.with_algorithm("shm").ibarrier();
                posted.store(1, Ordering::Release);
                let end = end(sum);
                assert!(barrier.unwrap().wait_timeout(LIMIT).is_some_and(|end| end.is_err()), "the barrier");
                return end;
            }
            while posted.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
            end(by_messages.iallreduce(vec![1u64], op))
        });
        let panicked = |end: &Result<(), Error>| matches!(end, Err(Error::UserOperatorPanicked { .. }));
        assert!(ends.iter().all(panicked), "{backend}: {ends:?}");
    }
}
