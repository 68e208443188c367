//! What a start of a persistent collective costs: no allocation, and no system call when nobody has to be interrupted or
//! woken. Allocations are counted; system calls kill, by a seccomp filter, in a process of its own.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::process::Command;

use tocsin::{Block, Blocks, Comm, Config, Error, Op, Persistent, World};
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

#[test]
fn a_start_allocates_nothing() {
    for backend in ["signal", "thread", "poll"] {
        let mut config = Config::default();
        config.set("TOCSIN_BACKEND", backend).unwrap();
        let results = World::threads_with(3, &config, |comm| {
            // In one packet, and announced: longer than any message that is not.
            for len in [1, 20_000] {
                let before = TAKEN.get();
                let mut prepared = all(&comm, len)?;
                assert_ne!(TAKEN.get(), before, "preparing is not counted");
                for run in 0..4 {
                    let before = TAKEN.get();
                    // The first run too.
                    let started = prepared.iter_mut().try_for_each(|(_, one)| one.start());
                    let taken = TAKEN.get() - before;
                    started?;
                    assert_eq!(taken, 0, "{backend}, run {run} of {len} elements");
                    for (name, one) in &mut prepared {
                        let outcome = loop {
                            if let Some(outcome) = one.test() {
                                break outcome;
                            }
                        };
                        outcome.unwrap_or_else(|e| panic!("{backend}, {name}: {e}"));
                    }
                }
            }
            Ok::<_, Error>(())
        });
        for result in results.unwrap() {
            result.unwrap();
        }
    }
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

/// The process is the child of the test below.
const CHILD: &str = "PERSISTENT_START_CHILD";
/// What it exits with if no call was made that kills.
const NO_CALL: i32 = 42;
const RUNS: u32 = 50;

#[test]
fn a_start_that_interrupts_nobody_makes_no_system_call() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_without_system_calls", "--ignored", "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(NO_CALL), "SIGSYS is a call; {output:?}");
}

/// Two ranks that look for messages at each other's side and never compute: nobody has to be interrupted. Their threads may
/// make no system call but the one that ends the process.
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
    let (ready, done) = (AtomicU32::new(0), AtomicU32::new(0));
    // Without the library: who waits there may be asleep, and has to be woken.
    let meet = |count: &AtomicU32| {
        count.fetch_add(1, Ordering::SeqCst);
        while count.load(Ordering::SeqCst) < 2 {
            std::hint::spin_loop();
        }
    };
    let results = World::threads_with(2, &config, |comm| -> Result<(), Error> {
        let mut prepared = all(&comm, 8)?;
        let run_all = |prepared: &mut Vec<Named>| -> Result<(), Error> {
            prepared.iter_mut().try_for_each(|(_, one)| one.start())?;
            for (_, one) in prepared {
                while one.test().transpose()?.is_none() {
                    std::hint::spin_loop();
                }
            }
            Ok(())
        };
        // The first run maps what the kernel gives when it is first asked.
        run_all(&mut prepared)?;
        meet(&ready);
        forbid_calls();
        let failed = (0..RUNS).try_for_each(|_| run_all(&mut prepared)).is_err();
        meet(&done);
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(if failed { 1 } else { NO_CALL }) }
    });
    panic!("{results:?}");
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
