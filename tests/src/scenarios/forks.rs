//! Processes that are forked while messages from and to their buffers are under way.

use tocsin_world::{Comm, ConstBuf, Mode, MutBuf, wait_all};

use crate::random::Random;
use crate::run::Arguments;

/// `rounds`, `max` (bytes of a message). Each rank sends to the next one, and has children that write all over the buffers, which are their own
/// copies: nothing of that arrives anywhere.
pub fn forked_in_flight(comm: &Comm, arguments: &Arguments) {
    let (me, ranks) = (comm.rank(), comm.size());
    let (next, before) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
    let max = arguments.number("max") as usize;
    let content =
        |round: u64, rank: u32, bytes: &mut [u8]| Random::fill(round << 32 | u64::from(rank), bytes);
    let (mut sent, mut received, mut expected) = (vec![0; max], vec![0; max], vec![0; max]);
    for round in 0..arguments.number("rounds") {
        content(round, me, &mut sent);
        received.fill(0xa5);
        let to = MutBuf::contiguous(received.as_mut_ptr(), max);
        let from = ConstBuf::contiguous(sent.as_ptr(), max);
        let buffers = [sent.as_mut_ptr(), received.as_mut_ptr()];
        let mut children = vec![child_that_writes(buffers, max)];
        // SAFETY: the buffers live, untouched by this process, until the wait below.
        let posted = unsafe {
            (comm.irecv_raw(to, Some(before), Some(0)), comm.isend_raw(from, next, 0, Mode::Standard))
        };
        let (Ok(mut recv), Ok(mut send)) = posted else { panic!("rank {me}: not posted") };
        // A part of it may have been copied, or be in a pipe, by now.
        children.push(child_that_writes(buffers, max));
        wait_all(&mut [&mut recv, &mut send]).unwrap_or_else(|e| panic!("{e}"));
        content(round, before, &mut expected);
        assert!(received == expected, "rank {me}, round {round}: wrong bytes");
        content(round, me, &mut expected);
        assert!(sent == expected, "rank {me}, round {round}: what was sent has changed");
        children.into_iter().for_each(reap);
    }
}

/// A child that overwrites its copies of buffers, and ends.
fn child_that_writes(buffers: [*mut u8; 2], len: usize) -> libc::pid_t {
    // SAFETY: the child writes memory of its own and calls nothing but `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the buffers are as long as that, and nobody else is in this process.
        unsafe {
            buffers.iter().for_each(|buffer| buffer.write_bytes(0xee, len));
            libc::_exit(0);
        }
    }
    assert!(child > 0, "fork: {}", std::io::Error::last_os_error());
    child
}

fn reap(child: libc::pid_t) {
    let mut status = 0;
    loop {
        // SAFETY: `status` is writable.
        let reaped = unsafe { libc::waitpid(child, &raw mut status, 0) };
        match (reaped, std::io::Error::last_os_error().raw_os_error()) {
            (-1, Some(libc::EINTR)) => {}
            // A launcher in this process reaps whatever ends.
            (-1, Some(libc::ECHILD)) => return,
            _ => return assert_eq!((reaped, status), (child, 0)),
        }
    }
}
