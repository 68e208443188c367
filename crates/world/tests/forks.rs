//! What a child of fork() does with its parent's requests leaves its parent's messages alone.
#![allow(missing_docs, clippy::unwrap_used)] // a test

use std::sync::Barrier;
use tocsin_world::{BackendKind, Comm, Config, ConstBuf, Mode, MutBuf, RawRequest};

/// As many as make who gives them back look at the lanes.
const RECEIVED: usize = 40;
/// In the lane when the child gives back.
const THERE: u64 = 100;
/// So many that the parent's lane goes around.
const AFTER: u64 = 1000;

fn send(comm: &Comm, value: u64, tag: i32) {
    let bytes = value.to_ne_bytes();
    // SAFETY: - the buffer outlives the call
    unsafe {
        comm.send_raw(ConstBuf::contiguous(bytes.as_ptr(), bytes.len()), 0, tag, Mode::Standard).unwrap()
    };
}

/// Runs `child` in a child of fork(), which ends with what it answers.
fn in_a_child(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: - no pointers
    //         - other threads are not in the child: what it runs takes no lock of theirs but the allocator's, which the
    //           C library has free in a child.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: - no pointers. What waits for ever ends by SIGALRM.
        unsafe { libc::alarm(30) };
        let answer = child();
        // SAFETY: - no pointers.
        unsafe { libc::_exit(answer) };
    }
    let mut status = -1;
    // SAFETY: - the status is a local, the child our own.
    while unsafe { libc::waitpid(pid, &raw mut status, 0) } == -1 {}
    assert!(libc::WIFEXITED(status), "ended by {status}");
    libc::WEXITSTATUS(status)
}

#[test]
fn a_child_that_gives_requests_back_takes_nothing_from_the_lanes() {
    let mut config = Config::default();
    config.backend = Some(BackendKind::Signal);
    let barrier = Barrier::new(2);
    let sender = |comm: &Comm| {
        barrier.wait();
        (0..RECEIVED as u64).for_each(|value| send(comm, value, 0));
        barrier.wait();
        (0..THERE).for_each(|value| send(comm, value, 1));
        barrier.wait();
        barrier.wait();
        (THERE..THERE + AFTER).for_each(|value| send(comm, value, 1));
    };
    let receiver = |comm: &Comm| {
        let mut buffers = [[0u8; 8]; RECEIVED];
        let post = |buffer: &mut [u8; 8]| {
            // SAFETY: - the buffers outlive the requests, which are over before they are read
            unsafe { comm.irecv_raw(MutBuf::contiguous(buffer.as_mut_ptr(), 8), Some(1), Some(0)).unwrap() }
        };
        let mut requests: Vec<RawRequest> = buffers.iter_mut().map(post).collect();
        barrier.wait();
        while !requests.iter().all(RawRequest::is_over) {
            comm.progress();
        }
        barrier.wait();
        barrier.wait();
        let over = in_a_child(|| requests.iter_mut().map(|request| i32::from(request.wait().is_ok())).sum());
        assert_eq!(over as usize, RECEIVED, "what was over before the fork is over in the child");
        barrier.wait();
        for value in 0..THERE + AFTER {
            let mut bytes = [0u8; 8];
            let buffer = MutBuf::contiguous(bytes.as_mut_ptr(), bytes.len());
            // SAFETY: - the buffer outlives the call
            unsafe { comm.recv_raw(buffer, Some(1), Some(1)) }
                .unwrap_or_else(|e| panic!("message {value}: {e}"));
            assert_eq!(u64::from_ne_bytes(bytes), value);
        }
        requests.iter_mut().for_each(|request| assert!(request.wait().is_ok()));
    };
    tocsin_world::threads(2, &config, |comm| if comm.rank() == 0 { receiver(&comm) } else { sender(&comm) })
        .unwrap();
}

/// It is no rank: what it aborts is itself.
#[test]
fn a_child_that_aborts_ends_alone() {
    let mut config = Config::default();
    config.backend = Some(BackendKind::Poll);
    let ends = tocsin_world::threads(1, &config, |comm| {
        assert_eq!(in_a_child(|| comm.abort(3)), 3);
        comm.ibarrier_raw(None).and_then(|mut barrier| barrier.wait()).map(drop)
    });
    assert!(ends.unwrap().iter().all(Result::is_ok));
}
