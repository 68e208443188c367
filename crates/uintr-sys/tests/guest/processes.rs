//! Several processes.

use crate::common::{Child, Ended, count, fork, install, receiver, runs, scaled, shared, size, until};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use tocsin_sync::atomic::real::{AtomicU64, Ordering};
use tocsin_uintr_sys::{Config, Error, VectorFd};

/// Rings until the parent, which counts in shared memory, has seen each of the rings.
fn ping(fd: &VectorFd, seen: &AtomicU64, rounds: u64) {
    let sender = fd.sender().unwrap();
    for round in 1..=rounds {
        sender.send();
        until("the ring is seen", || seen.load(Ordering::Acquire) >= round);
    }
}

/// The calling process is rung by `child`, made by `start`.
fn rung_by(start: impl FnOnce(VectorFd, &'static AtomicU64, u64) -> Child) {
    let seen: &AtomicU64 = shared();
    let receiver = receiver();
    let rounds = scaled(2000, 500);
    let child = start(receiver.vector(1).unwrap().fd().unwrap(), seen, rounds);
    until("all rings", || {
        seen.store(runs(), Ordering::Release);
        runs() == rounds
    });
    seen.store(rounds, Ordering::Release);
    assert_eq!(child.wait(), Ended::Exit(0));
}

pub fn descriptor_by_inheritance() {
    rung_by(|fd, seen, rounds| fork(|| ping(&fd, seen, rounds)));
}

/// Sends a descriptor with one byte.
fn give(socket: &UnixStream, fd: BorrowedFd<'_>) {
    let mut byte = [0u8; 1];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let mut control = [0u64; 8];
    // SAFETY: zeroed is a valid msghdr; everything it points to is alive.
    unsafe {
        let mut message: libc::msghdr = core::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as usize;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(header).cast::<i32>().write_unaligned(fd.as_raw_fd());
        assert_eq!(libc::sendmsg(socket.as_raw_fd(), &raw const message, 0), 1);
    }
}

/// Gets a descriptor.
fn take(socket: &UnixStream) -> VectorFd {
    let mut byte = [0u8; 1];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let mut control = [0u64; 8];
    // SAFETY: as in `give`; the descriptor is new.
    unsafe {
        let mut message: libc::msghdr = core::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        while libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) != 1 {
            assert_eq!(tocsin_sync::errno::get(), libc::EINTR);
        }
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        assert!(!header.is_null());
        let fd = libc::CMSG_DATA(header).cast::<i32>().read_unaligned();
        VectorFd::from(OwnedFd::from_raw_fd(fd))
    }
}

pub fn descriptor_by_scm_rights() {
    rung_by(|fd, seen, rounds| {
        let (here, there) = UnixStream::pair().unwrap();
        let child = fork(|| {
            drop(here.try_clone());
            ping(&take(&there), seen, rounds);
        });
        give(&here, fd.as_fd());
        child
    });
}

/// pidfd_open(2) and pidfd_getfd(2).
fn get_from(pid: i32, fd: i32) -> Result<VectorFd, i32> {
    // SAFETY: no memory is involved; the descriptors are new.
    unsafe {
        let process = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        assert!(process >= 0, "pidfd_open: {}", tocsin_sync::errno::get());
        let process = OwnedFd::from_raw_fd(process as i32);
        match libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) {
            got @ 0.. => Ok(VectorFd::from(OwnedFd::from_raw_fd(got as i32))),
            _ => Err(tocsin_sync::errno::get()),
        }
    }
}

pub fn descriptor_by_pidfd_getfd() {
    rung_by(|fd, seen, rounds| {
        // SAFETY: no precondition.
        let (pid, number) = (unsafe { libc::getpid() }, fd.as_fd().as_raw_fd());
        // The parent's descriptor stays open for as long as the child may take it.
        core::mem::forget(fd);
        fork(move || {
            // SAFETY: the child's copy; it has to be taken from the parent anew.
            unsafe { libc::close(number) };
            ping(&get_from(pid, number).unwrap(), seen, rounds);
        })
    });
}

pub fn receiver_killed_while_rung() {
    for round in 0..size("TOCSIN_TEST_KILLS", scaled(50, 20)) {
        let (here, there) = UnixStream::pair().unwrap();
        let seen: &AtomicU64 = shared();
        let child = fork(|| {
            let receiver = install(&Config::default(), count);
            give(&there, receiver.vector(0).unwrap().fd().unwrap().as_fd());
            loop {
                seen.store(runs(), Ordering::Relaxed);
                core::hint::spin_loop();
            }
        });
        let fd = take(&here);
        let sender = fd.sender().unwrap();
        until("the first ring is seen", || {
            sender.send();
            seen.load(Ordering::Relaxed) > 0
        });
        for _ in 0..round * 10 {
            sender.send();
        }
        child.kill();
        for _ in 0..200 {
            sender.send();
        }
        assert_eq!(child.wait(), Ended::Killed(libc::SIGKILL));
        assert!(sender.send(), "silent");
        if tocsin_uintr_sys::emulation::on() {
            continue; // its kernel does not notice deaths
        }
        // Its end may be told a moment before it has left its processor, with which its registration ends.
        until("the receiver is gone", || fd.sender().is_err());
        assert_eq!(fd.sender().unwrap_err(), Error::ReceiverGone);
    }
}

pub fn sender_killed() {
    let receiver = receiver();
    let fd = receiver.vector(0).unwrap().fd().unwrap();
    let mine = fd.sender().unwrap();
    for _ in 0..size("TOCSIN_TEST_KILLS", scaled(50, 10)) {
        let children: Vec<_> = (0..2)
            .map(|_| {
                fork(|| {
                    let sender = fd.sender().unwrap();
                    loop {
                        sender.send();
                    }
                })
            })
            .collect();
        let before = runs();
        until("rings come in", || runs() > before + 20);
        for child in children {
            child.kill();
            assert_eq!(child.wait(), Ended::Killed(libc::SIGKILL));
        }
        for _ in 0..10_000 {
            core::hint::spin_loop();
        }
        let before = runs();
        mine.send();
        until("another sender gets through", || runs() > before);
    }
}

pub fn a_child_has_neither_receiver_nor_senders() {
    let parents = receiver();
    let sender = parents.vector(0).unwrap().sender().unwrap();
    let mut moved = Some(parents);
    let child = fork(|| {
        assert!(!sender.send(), "the parent's senders are not the child's");
        drop(moved.take());
        let own = receiver();
        let before = runs();
        let sender = own.vector(0).unwrap().sender().unwrap();
        sender.send();
        until("the child's own ring is seen", || runs() == before + 1);
    });
    assert_eq!(child.wait(), Ended::Exit(0));
    assert_eq!(runs(), 0);
    sender.send();
    until("the parent's ring is seen", || runs() == 1);
}

/// This binary's argument that makes it the program that a receiver execs.
pub const EXEC_HELPER: &str = "--exec-helper";

/// Computes while the parent rings what it was, then is a receiver in its own right.
pub fn exec_helper() {
    let mut byte = [0u8; 1];
    // SAFETY: a live buffer of one byte.
    unsafe {
        assert_eq!(libc::write(1, c"!".as_ptr().cast(), 1), 1);
        for _ in 0..200_000 {
            core::hint::spin_loop();
        }
        while libc::read(0, byte.as_mut_ptr().cast(), 1) < 0 {}
    }
    let receiver = receiver();
    let sender = receiver.vector(0).unwrap().sender().unwrap();
    sender.send();
    until("the new program's ring is seen", || runs() == 1);
}

pub fn exec_leaves_nothing() {
    let (here, there) = UnixStream::pair().unwrap();
    let (mut hold, mut ready) = ([0i32; 2], [0i32; 2]);
    // SAFETY: arrays of two.
    unsafe { assert_eq!(libc::pipe(hold.as_mut_ptr()) | libc::pipe(ready.as_mut_ptr()), 0) };
    let child = fork(|| {
        let receiver = receiver();
        let own = receiver.vector(3).unwrap().sender().unwrap();
        give(&there, receiver.vector(0).unwrap().fd().unwrap().as_fd());
        core::mem::forget((receiver, own));
        // SAFETY: descriptors and null-terminated strings and arrays of ours.
        unsafe {
            libc::dup2(hold[0], 0);
            libc::dup2(ready[1], 1);
            libc::close(hold[1]);
            libc::close(ready[0]);
            let arguments = [c"helper".as_ptr(), c"--exec-helper".as_ptr(), core::ptr::null()];
            libc::execv(c"/proc/self/exe".as_ptr(), arguments.as_ptr());
        }
        panic!("exec failed");
    });
    let sender = take(&here).sender().unwrap();
    // SAFETY: descriptors of ours.
    unsafe {
        libc::close(hold[0]);
        libc::close(ready[1]);
        libc::fcntl(ready[0], libc::F_SETFL, libc::O_NONBLOCK);
    }
    let mut byte = [0u8; 1];
    // Rung before, while and after it execs.
    until("the new program starts", || {
        sender.send();
        // SAFETY: a live buffer of one byte.
        unsafe { libc::read(ready[0], byte.as_mut_ptr().cast(), 1) == 1 }
    });
    for _ in 0..1000 {
        sender.send();
    }
    // SAFETY: a descriptor of ours.
    unsafe { libc::close(hold[1]) };
    assert_eq!(child.wait(), Ended::Exit(0));
}
