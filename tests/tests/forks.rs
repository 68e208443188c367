//! A child of fork() whose parent has a thread inside of the library: nobody in the child will ever leave.
#![allow(clippy::unwrap_used, clippy::expect_used)] // A test that fails says so by panicking.

use std::time::{Duration, Instant};

use tocsin::{Config, Op, UserOp, World};
use tocsin_sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tocsin_tests as _; // its allocator

static INSIDE: AtomicU32 = AtomicU32::new(0);
static GO_ON: AtomicBool = AtomicBool::new(false);

/// Combined inside of the library, and as long as it takes.
fn slow(left: u64, right: u64) -> u64 {
    INSIDE.fetch_add(1, Ordering::Relaxed);
    let start = Instant::now();
    while !GO_ON.load(Ordering::Relaxed) && start.elapsed() < Duration::from_secs(30) {
        std::thread::yield_now();
    }
    left + right
}

/// Runs `child` in a child of fork(): whether it came to its end.
fn in_a_child(child: impl FnOnce()) -> bool {
    // SAFETY: no pointers; what the child runs takes no lock but the allocator's, which the C library has free in a child.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: no pointers. What waits for ever ends by SIGALRM.
        unsafe { libc::alarm(10) };
        child();
        // SAFETY: no pointers.
        unsafe { libc::_exit(0) };
    }
    let mut status = -1;
    // SAFETY: the status is a local, the child our own.
    while unsafe { libc::waitpid(pid, &raw mut status, 0) } == -1 {}
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

#[test]
fn what_a_child_asks_is_answered_without_entering() {
    let mut config = Config::default();
    config.set("TOCSIN_BACKEND", "poll").unwrap();
    let ended = World::threads_with(2, &config, |comm| {
        let op = Op::User(UserOp::commutative(slow));
        let combine = || comm.with_algorithm("binomial").ireduce(vec![1u64], op, 0)?.wait().map(drop);
        if comm.rank() == 1 {
            combine().unwrap();
            return true;
        }
        std::thread::scope(|scope| {
            let other = scope.spawn(combine);
            while INSIDE.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            let ended = in_a_child(|| {
                let _none = comm.stats();
                comm.revoke();
                assert!(comm.isend(vec![1u8], 1, 1).is_err() && comm.ibarrier().is_err());
            });
            GO_ON.store(true, Ordering::Relaxed);
            other.join().unwrap().unwrap();
            ended
        })
    });
    assert_eq!(ended.unwrap(), [true, true]);
}
