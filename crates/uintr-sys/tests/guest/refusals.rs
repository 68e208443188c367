//! What the kernel refuses, and how.

use crate::common::{Ended, count, fork, receiver, runs, until};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use tocsin_uintr_sys::{Config, Error, Receiver, Stack, VectorFd, instructions, kernel};

fn default_illegal_and_fault() {
    // SAFETY: default actions; the emulation's own handler of SIGILL stays.
    unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
}

pub fn bad_vector() {
    let receiver = receiver();
    assert_eq!(receiver.vector(64).unwrap_err(), Error::NoSuchVector(64));
    for vector in [64, 65, u32::MAX] {
        assert_eq!(kernel().unwrap().vector_fd(vector).unwrap_err(), Error::NoSuchVector(vector));
        assert_eq!(kernel().unwrap().register_self(vector).unwrap_err(), Error::NoSuchVector(vector));
    }
    assert!(Error::NoSuchVector(64).to_string().contains("64"));
}

pub fn bad_stack() {
    let kernel = kernel().unwrap();
    let high = 1usize << 63;
    for stack in [(0x10_0000, 1), (0x10_0000, 4095), (0, 4096), (high, 8192), (usize::MAX - 4096, 4096)] {
        // SAFETY: refused.
        let answer = unsafe { kernel.register_handler(bad_stack as *const () as usize, Some(stack)) };
        assert_eq!(answer, Err(Error::BadStack), "{stack:x?}");
    }
    for entry in [high, usize::MAX] {
        // SAFETY: refused.
        assert_eq!(unsafe { kernel.register_handler(entry, None) }, Err(Error::BadStack));
    }
    let mut local = [0u8; 16 * 1024];
    let apart = vec![0u8; 16 * 1024];
    for (low, size) in [(local.as_mut_ptr().addr(), local.len()), (apart.as_ptr().addr(), 2048)] {
        let config = Config::on(Stack::Given(low, size));
        // SAFETY: refused.
        let answer = unsafe { Receiver::install(&config, count, core::ptr::null()) };
        assert_eq!(answer.unwrap_err(), Error::BadStack, "{size} bytes");
    }
    let _receiver = receiver();
    for stack in [(0x10_0000, 1), (high, 8192)] {
        // SAFETY: refused.
        assert_eq!(unsafe { kernel.alt_stack(Some(stack)) }, Err(Error::BadStack));
    }
}

pub fn bad_descriptor() {
    let null = std::fs::File::open("/dev/null").unwrap();
    assert_eq!(VectorFd::from(OwnedFd::from(null)).sender().unwrap_err(), Error::NotAVector);
    // SAFETY: not open, which is the point; nobody closes it.
    let closed = unsafe { BorrowedFd::borrow_raw(987) };
    assert_eq!(kernel().unwrap().register_sender(closed), Err(Error::NotAVector));
}

/// How a SENDUIPI with this index ends, in a process that has a table of senders or not.
fn senduipi(index: u64, table: bool) -> Ended {
    fork(|| {
        default_illegal_and_fault();
        if table {
            let receiver = receiver();
            core::mem::forget(receiver.vector(0).unwrap().sender().unwrap());
            core::mem::forget(receiver);
        }
        // SAFETY: faults, which is the point.
        unsafe { instructions::senduipi(index) };
    })
    .wait()
}

pub fn bad_index() {
    let kernel = kernel().unwrap();
    for index in [200, 256, u32::MAX] {
        assert_eq!(kernel.unregister_sender(index), Err(Error::NoSuchIndex(index)));
    }
    assert_eq!(senduipi(0, true), Ended::Exit(0), "the first index is 0");
    for index in [1, 200, 255, 256, 1 << 32, u64::MAX] {
        assert_eq!(senduipi(index, true), Ended::Killed(libc::SIGSEGV), "{index}");
        assert_eq!(senduipi(index, false), Ended::Killed(libc::SIGILL), "{index}, no table");
    }
    let receiver = receiver();
    let sender = receiver.vector(0).unwrap().sender().unwrap();
    let index = sender.index();
    drop(sender);
    assert_eq!(kernel.unregister_sender(index), Err(Error::NoSuchIndex(index)), "twice");
}

pub fn second_receiver() {
    let _receiver = receiver();
    // SAFETY: refused.
    let second = unsafe { Receiver::install(&Config::default(), count, core::ptr::null()) };
    assert_eq!(second.unwrap_err(), Error::AlreadyRegistered);
    // SAFETY: refused.
    let second = unsafe { kernel().unwrap().register_handler(second_receiver as *const () as usize, None) };
    assert_eq!(second, Err(Error::AlreadyRegistered));
}

pub fn receiver_is_gone() {
    let receiver = receiver();
    let fd = receiver.vector(0).unwrap().fd().unwrap();
    let sender = fd.sender().unwrap();
    drop(receiver);
    assert_eq!(fd.sender().unwrap_err(), Error::ReceiverGone);
    assert!(sender.send(), "silent");
}

pub fn senders_full() {
    let (give, take) = std::sync::mpsc::channel();
    let hold = std::sync::Arc::new(std::sync::Barrier::new(6));
    let threads: Vec<_> = (0..5)
        .map(|_| {
            let (give, hold) = (give.clone(), hold.clone());
            std::thread::spawn(move || {
                let receiver = receiver();
                for vector in 0..64 {
                    give.send(receiver.vector(vector).unwrap().fd().unwrap()).unwrap();
                }
                hold.wait();
            })
        })
        .collect();
    let fds: Vec<VectorFd> = (0..320).map(|_| take.recv().unwrap()).collect();
    let senders: Vec<_> = fds.iter().map_while(|fd| fd.sender().ok()).collect();
    assert_eq!(senders.len(), 256);
    assert_eq!(fds[256].sender().unwrap_err(), Error::SendersFull);
    // What is there already still is.
    drop(fds[0].sender());
    let mut senders = senders;
    senders.pop();
    let again = fds[256].sender().unwrap();
    assert_eq!(again.index(), 255);
    drop(senders);
    hold.wait();
    threads.into_iter().for_each(|t| t.join().unwrap());
}

const NOBODY: u32 = 65534;

pub fn who_has_no_descriptor_cannot_ring() {
    let receiver = receiver();
    let fd = receiver.vector(0).unwrap().fd().unwrap();
    let sender = fd.sender().unwrap();
    let number = fd.as_fd().as_raw_fd();
    // SAFETY: no precondition.
    let (parent, root) = unsafe { (libc::getpid(), libc::geteuid() == 0) };
    let child = fork(|| {
        drop(fd);
        // SAFETY: no memory is involved.
        unsafe {
            if root {
                assert_eq!(libc::setgid(NOBODY) | libc::setuid(NOBODY), 0);
            }
            default_illegal_and_fault();
        }
        for index in 0..256 {
            assert_eq!(senduipi(index, false), Ended::Killed(libc::SIGILL), "{index}");
        }
        for index in [1, 2, 17, 255] {
            assert_eq!(senduipi(index, true), Ended::Killed(libc::SIGSEGV), "{index}");
        }
        if root {
            // SAFETY: no memory is involved.
            let taken = unsafe {
                let process = libc::syscall(libc::SYS_pidfd_open, parent, 0);
                libc::syscall(libc::SYS_pidfd_getfd, process, number, 0)
            };
            assert_eq!((taken, tocsin_sync::errno::get()), (-1, libc::EPERM));
        }
        // The unprivileged may well be receivers and senders.
        let own = self::receiver();
        let to_itself = own.vector(0).unwrap().sender().unwrap();
        to_itself.send();
        until("its own ring is seen", || runs() == 1);
    });
    assert_eq!(child.wait(), Ended::Exit(0));
    assert_eq!(runs(), 0);
    sender.send();
    until("who has one can", || runs() == 1);
}

/// The device's calls, raw: number and size of argument.
pub fn flags_and_pointers() {
    if kernel().unwrap().name() != "/dev/uintr" {
        println!("not by the device");
        return;
    }
    let device = std::fs::OpenOptions::new().read(true).write(true).open("/dev/uintr").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&device.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o666);
    let _receiver = receiver();
    let ioctl = |number: u64, argument: *const u64| {
        // SAFETY: the module checks the pointer, which is the point.
        let answer = unsafe { libc::ioctl(device.as_raw_fd(), number as libc::Ioctl, argument) };
        (answer, tocsin_sync::errno::get())
    };
    const HANDLER: u64 = 0x4020_7511;
    const STACK: u64 = 0x4018_7513;
    const VECTOR_FD: u64 = 0x4008_7514;
    const SENDER: u64 = 0x4008_7515;
    const INDEX: u64 = 0x4008_7516;
    const SELF: u64 = 0x4008_7517;
    for number in [HANDLER, STACK, VECTOR_FD, SENDER, INDEX, SELF, 0x8030_7510, 0x8020_7518] {
        assert_eq!(ioctl(number, core::ptr::without_provenance(8)), (-1, libc::EFAULT), "{number:#x}");
    }
    // Flags, and after them reserved fields, which are the last words.
    let flags = 1u64 << 32;
    for number in [VECTOR_FD, SENDER, INDEX, SELF] {
        assert_eq!(ioctl(number, &raw const flags), (-1, libc::EINVAL), "{number:#x}");
    }
    for last in [1u64, 1 << 32] {
        let handler = [flags_and_pointers as *const () as u64, 0, 0, last];
        let stack = [0, 0, last];
        assert_eq!(ioctl(HANDLER, handler.as_ptr()), (-1, libc::EINVAL));
        assert_eq!(ioctl(STACK, stack.as_ptr()), (-1, libc::EINVAL));
    }
    for number in [0x7500, 0x7519, 0x4008_7414] {
        assert_eq!(ioctl(number, core::ptr::null()), (-1, libc::ENOTTY), "{number:#x}");
    }
}

pub fn calls_of_the_unregistered() {
    let kernel = kernel().unwrap();
    assert_eq!(kernel.unregister_handler(), Err(Error::NotRegistered));
    assert_eq!(kernel.vector_fd(0).unwrap_err(), Error::NotRegistered);
    assert_eq!(kernel.register_self(0), Err(Error::NotRegistered));
    // SAFETY: refused.
    assert_eq!(unsafe { kernel.alt_stack(None) }, Err(Error::NotRegistered));
    if kernel.info().is_ok() {
        assert_eq!(kernel.switches(), Err(Error::NotRegistered));
    }
}
