//! What a start of what is persistent costs: no allocation, and no system call when nobody has to be interrupted or
//! woken. Allocations are counted; system calls kill, by a seccomp filter, in a process of its own.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "persistent_start/calls.rs"]
mod calls;
#[path = "persistent_start/quiet.rs"]
mod quiet;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::process::Command;

use tocsin::{Block, Blocks, Comm, Config, Error, Launch, OnFailure, Op, Persistent, World};
use tocsin_sync::atomic::{AtomicU32, Ordering};

/// Counts what each thread takes and gives back.
struct Counting;

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // At its very end a thread has no such storage any more, and nobody asks.
    let _ = TAKEN.try_with(|taken| taken.set(taken.get() + 1));
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: each method passes its arguments, whose obligations the caller has met, to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        // SAFETY: passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// A persistent collective of any type.
trait Restarted {
    fn start(&mut self) -> Result<(), Error>;
    fn test(&mut self) -> Option<Result<(), Error>>;
}

macro_rules! restarted {
    ($($buffers:ty),*) => {
        $(impl Restarted for $buffers {
            fn start(&mut self) -> Result<(), Error> {
                Persistent::start(self)
            }
            fn test(&mut self) -> Option<Result<(), Error>> {
                Persistent::test(self)
            }
        })*
    };
}

restarted!(Persistent<()>, Persistent<Vec<u64>>, Persistent<Vec<u64>, Vec<u64>>);

/// A collective and its name.
type Named = (&'static str, Box<dyn Restarted>);

/// One of each operation, of `len` elements of 8 bytes in a vector or block.
fn all(comm: &Comm, len: usize) -> Result<Vec<Named>, Error> {
    let ranks = comm.size() as usize;
    let one = || vec![1u64; len];
    let whole = || vec![1u64; len * ranks];
    let counts = vec![len; ranks];
    let packed = Blocks::packed(&counts);
    let bytes: Vec<Block> = (0..ranks).map(|r| Block::new(r * len * 8, len * 8)).collect();
    Ok(vec![
        ("barrier", Box::new(comm.barrier_init()?)),
        ("bcast", Box::new(comm.bcast_init(one(), 0)?)),
        ("scatter", Box::new(comm.scatter_init(whole(), one(), 0)?)),
        ("scatterv", Box::new(comm.scatterv_init(whole(), packed, one(), 0)?)),
        ("gather", Box::new(comm.gather_init(one(), whole(), 0)?)),
        ("gatherv", Box::new(comm.gatherv_init(one(), whole(), packed, 0)?)),
        ("allgather", Box::new(comm.allgather_init(one(), whole())?)),
        ("allgatherv", Box::new(comm.allgatherv_init(one(), whole(), packed)?)),
        ("alltoall", Box::new(comm.alltoall_init(whole(), whole())?)),
        ("alltoallv", Box::new(comm.alltoallv_init(whole(), packed, whole(), packed)?)),
        ("alltoallw", Box::new(comm.alltoallw_init(whole(), &bytes, whole(), &bytes)?)),
        ("reduce", Box::new(comm.reduce_init(one(), Op::Sum, 0)?)),
        ("allreduce", Box::new(comm.allreduce_init(one(), Op::Sum)?)),
        ("reduce_scatter", Box::new(comm.reduce_scatter_init(whole(), one(), &counts, Op::Sum)?)),
        ("reduce_scatter_block", Box::new(comm.reduce_scatter_block_init(whole(), one(), Op::Sum)?)),
        ("scan", Box::new(comm.scan_init(one(), Op::Sum)?)),
        ("exscan", Box::new(comm.exscan_init(one(), Op::Sum)?)),
    ])
}

/// Elements of 8 bytes about all sizes from which on something is done otherwise, in bytes: 2 KiB, 16 KiB, 64 KiB, 256 KiB, 1 MiB.
const LENGTHS: [usize; 9] = [1, 256, 257, 2048, 2049, 8192, 8193, 32_768, 131_072];

/// Prepares and runs all of so many elements: no start takes memory, the first neither.
fn count_starts(comm: &Comm, len: usize) -> Result<(), Error> {
    let (rank, ranks) = (comm.rank(), comm.size());
    let mut prepared = Vec::new();
    // One rank after the other: what the later ones say meanwhile meets the earlier ones when they start.
    for turn in 0..ranks {
        if turn == rank {
            let before = TAKEN.get();
            prepared = all(comm, len)?;
            assert_ne!(TAKEN.get(), before, "preparing is not counted");
        }
        comm.barrier()?;
    }
    for run in 0..3 {
        for (name, one) in &mut prepared {
            let before = TAKEN.get();
            let started = one.start();
            let taken = TAKEN.get() - before;
            started?;
            assert_eq!(taken, 0, "{name}, run {run} of {len} elements, rank {rank} of {ranks}");
        }
        for (name, one) in &mut prepared {
            let outcome = loop {
                if let Some(outcome) = one.test() {
                    break outcome;
                }
            };
            outcome.unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
    Ok(())
}

#[test]
fn a_start_allocates_nothing() {
    for backend in ["signal", "thread", "poll"] {
        let mut config = Config::default();
        config.set("TOCSIN_BACKEND", backend).unwrap();
        for ranks in 2..=4 {
            let results = World::threads_with(ranks, &config, |comm| {
                LENGTHS.iter().try_for_each(|len| count_starts(&comm, *len))
            });
            for result in results.unwrap() {
                result.unwrap_or_else(|e| panic!("{backend}: {e}"));
            }
        }
    }
}

/// Ranks as processes, whichever way long messages go. The longest are the first, so that no shorter ones have had done what they need.
#[test]
fn a_start_of_a_process_allocates_nothing() {
    for (lmt, backend) in
        [("auto", "signal"), ("auto", "thread"), ("cma", "poll"), ("vmsplice", "poll"), ("double", "poll")]
    {
        for ranks in 2..=4 {
            let mut launch = Launch::new(std::env::current_exe().unwrap(), ranks);
            launch.config.set("TOCSIN_BACKEND", backend).unwrap();
            launch.config.set("TOCSIN_LMT", lmt).unwrap();
            launch.args = child_arguments("child_that_counts").map(Into::into).into();
            launch.env = vec![(CHILD.into(), "1".into())];
            let report = launch.run().unwrap();
            assert_eq!(report.status, 0, "{lmt}, {backend}, {ranks} ranks: {report:?}");
        }
    }
}

#[test]
#[ignore = "a rank of a_start_of_a_process_allocates_nothing"]
fn child_that_counts() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    // SAFETY: as in `child_without_system_calls`.
    unsafe { libc::alarm(60) };
    let world = World::from_env().unwrap();
    let comm = world.comm();
    // All have joined.
    comm.barrier().unwrap();
    for len in LENGTHS.into_iter().rev() {
        count_starts(&comm, len).unwrap();
    }
    drop(comm);
    world.finalize().unwrap();
}

#[test]
fn a_start_in_a_scope_allocates_nothing() {
    for backend in ["signal", "thread", "poll"] {
        let mut config = Config::default();
        config.set("TOCSIN_BACKEND", backend).unwrap();
        let results = World::threads_with(3, &config, |comm| {
            for len in [1, 20_000] {
                let (mut sum, mut out, mut back) =
                    (vec![1u64; len], vec![1u64; 3 * len], vec![0u64; 3 * len]);
                comm.scope(|s| {
                    let mut sum = s.allreduce_init(&mut sum, Op::Max)?;
                    let mut exchange = s.alltoall_init(&mut out, &mut back)?;
                    for run in 0..4 {
                        let before = TAKEN.get();
                        let started = sum.start().and_then(|()| exchange.start());
                        let taken = TAKEN.get() - before;
                        started?;
                        assert_eq!(taken, 0, "{backend}, run {run} of {len} elements");
                        sum.wait()?;
                        exchange.wait()?;
                        assert_eq!((sum.buffer()?[0], exchange.recv()?[3 * len - 1]), (1, 1));
                    }
                    Ok(())
                })?;
            }
            Ok::<_, Error>(())
        });
        for result in results.unwrap() {
            result.unwrap();
        }
    }
}

/// Messages of each length, standard and synchronous, to the next rank: the runs before the third may have had memory reserved for as many.
fn count_starts_of_messages(comm: &Comm) -> Result<(), Error> {
    let (rank, ranks) = (comm.rank(), comm.size());
    let (next, last) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
    let (mut receives, mut sends) = (Vec::new(), Vec::new());
    for (len, tag) in LENGTHS.into_iter().zip(0..) {
        receives.push(comm.recv_init(vec![0u64; len], last, 2 * tag)?);
        receives.push(comm.recv_init(vec![0u64; len], last, 2 * tag + 1)?);
        sends.push(comm.send_init(vec![1u64; len], next, 2 * tag)?);
        sends.push(comm.ssend_init(vec![1u64; len], next, 2 * tag + 1)?);
    }
    for run in 0..10 {
        // What nobody has posted a receive for is kept in memory that a pass may have to take.
        let before = TAKEN.get();
        let started = receives.iter_mut().try_for_each(Persistent::start);
        let posted = TAKEN.get() - before;
        started?;
        comm.barrier()?;
        for (number, send) in sends.iter_mut().enumerate() {
            let before = TAKEN.get();
            let started = send.start();
            let taken = TAKEN.get() - before;
            started?;
            assert!(
                run < 2 || (posted, taken) == (0, 0),
                "message {number}, run {run}, rank {rank} of {ranks}"
            );
        }
        for receive in &mut receives {
            receive.wait()?;
        }
        sends.iter_mut().try_for_each(Persistent::wait)?;
    }
    Ok(())
}

#[test]
fn a_start_of_a_message_allocates_nothing() {
    for backend in ["signal", "thread", "poll"] {
        for lmt in ["auto", "double"] {
            let mut config = Config::default();
            config.set("TOCSIN_BACKEND", backend).unwrap();
            config.set("TOCSIN_LMT", lmt).unwrap();
            for ranks in 1..=3 {
                let results = World::threads_with(ranks, &config, |comm| count_starts_of_messages(&comm));
                for result in results.unwrap() {
                    result.unwrap_or_else(|e| panic!("{backend}, {lmt}: {e}"));
                }
            }
        }
    }
}

/// The process is the child of the test below.
const CHILD: &str = "PERSISTENT_START_CHILD";
/// What it exits with if no call was made that ends it.
const NO_CALL: i32 = 42;
const RUNS: u32 = 50;

/// Arguments of this program by which it runs nothing but a test that is a child of others.
fn child_arguments(name: &str) -> [&str; 5] {
    ["--exact", name, "--ignored", "--nocapture", "--test-threads=1"]
}

#[test]
fn a_start_that_interrupts_nobody_makes_no_system_call() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(child_arguments("child_without_system_calls"))
        .env(CHILD, "1")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(NO_CALL), "SIGSYS is a call; {output:?}");
}

/// Two ranks that look for messages at each other's side and never compute: nobody has to be interrupted. Their threads may
/// make no system call but the one that ends the process; one of them starts all before the other starts any.
#[test]
#[ignore = "in a process of its own: a_start_that_interrupts_nobody_makes_no_system_call runs it"]
fn child_without_system_calls() {
    // It ends its process, which has to be its own.
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    // SAFETY: alarm has no memory effects; SIGALRM's default action ends a process that hangs.
    unsafe { libc::alarm(60) };
    let mut config = Config::default();
    config.set("TOCSIN_BACKEND", "poll").unwrap();
    // Else the kernel makes the copies of what is long.
    config.set("TOCSIN_LMT", "double").unwrap();
    let (ready, done, begun) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    // Without the library: who waits there may be asleep, and has to be woken.
    let meet = |count: &AtomicU32| {
        count.fetch_add(1, Ordering::SeqCst);
        while count.load(Ordering::SeqCst) < 2 {
            std::hint::spin_loop();
        }
    };
    let results = World::threads_with(2, &config, |comm| -> Result<(), Error> {
        // In one packet; longer than what a slot of a board holds; announced.
        let mut prepared = all(&comm, 8)?;
        prepared.extend(all(&comm, 300)?);
        prepared.extend(all(&comm, 40_000)?);
        let run_all = |run: u32, prepared: &mut Vec<Named>| -> Result<(), Error> {
            while comm.rank() == 1 && begun.load(Ordering::SeqCst) <= run {
                std::hint::spin_loop();
            }
            let started = prepared.iter_mut().try_for_each(|(_, one)| one.start());
            if comm.rank() == 0 {
                begun.fetch_add(1, Ordering::SeqCst);
            }
            started?;
            for (_, one) in prepared {
                while one.test().transpose()?.is_none() {
                    std::hint::spin_loop();
                }
            }
            Ok(())
        };
        // The first run, too, asks for nothing: whatever it needs is there.
        meet(&ready);
        forbid_calls();
        let failed = (0..RUNS).try_for_each(|run| run_all(run, &mut prepared)).is_err();
        meet(&done);
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(if failed { 1 } else { NO_CALL }) }
    });
    panic!("{results:?}");
}

/// The same of ranks that are processes: each may make no call from the moment when both have prepared all.
/// By no other backend: who is between two tests is outside the library, and is interrupted, which is a call.
#[test]
fn a_start_of_a_process_makes_no_system_call() {
    let mut launch = Launch::new(std::env::current_exe().unwrap(), 2);
    launch.config.set("TOCSIN_BACKEND", "poll").unwrap();
    launch.config.set("TOCSIN_LMT", "double").unwrap();
    // The first to end must not end the other.
    launch.on_failure = OnFailure::Report;
    launch.args = child_arguments("child_process_without_system_calls").map(Into::into).into();
    launch.env = vec![(CHILD.into(), "1".into())];
    let report = launch.run().unwrap();
    assert_eq!(report.ranks, [NO_CALL; 2], "128 + SIGSYS is a call; {report:?}");
}

#[test]
#[ignore = "a rank of a_start_of_a_process_makes_no_system_call"]
fn child_process_without_system_calls() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    // SAFETY: as in `child_without_system_calls`.
    unsafe { libc::alarm(60) };
    let world = World::from_env().unwrap();
    let comm = world.comm();
    let mut prepared = all(&comm, 8).unwrap();
    prepared.extend(all(&comm, 300).unwrap());
    prepared.extend(all(&comm, 40_000).unwrap());
    let (mut ready, mut done) = (comm.barrier_init().unwrap(), comm.barrier_init().unwrap());
    // Who waits may be asleep, and has to be woken; who tests is not.
    let test = |one: &mut dyn Restarted| loop {
        match one.test() {
            Some(outcome) => return outcome,
            None => std::hint::spin_loop(),
        }
    };
    Persistent::start(&mut ready).unwrap();
    test(&mut ready).unwrap();
    forbid_calls();
    let run_all = |prepared: &mut Vec<Named>| {
        prepared.iter_mut().try_for_each(|(_, one)| one.start())?;
        prepared.iter_mut().try_for_each(|(_, one)| test(&mut **one))
    };
    let failed = (0..RUNS).try_for_each(|_| run_all(&mut prepared)).is_err();
    // The other may end as soon as it has all that it needs.
    let _ = Persistent::start(&mut done).and_then(|()| test(&mut done));
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(if failed { 1 } else { NO_CALL }) }
}

/// From here on the thread's system calls kill the process, but for exit_group.
fn forbid_calls() {
    let load = |offset| libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: offset };
    let answer = |k| libc::sock_filter { code: 0x06, jt: 0, jf: 0, k };
    let equal = |call: libc::c_long, jt, jf| libc::sock_filter { code: 0x15, jt, jf, k: call as u32 };
    let filter = [
        load(0), // the number of the call
        equal(libc::SYS_exit_group, 0, 1),
        answer(libc::SECCOMP_RET_ALLOW),
        answer(libc::SECCOMP_RET_KILL_PROCESS),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the program is live during the call; both calls concern this thread.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}
