//! What the kernel does: receivers, vectors' descriptors, the process's table of senders.

use super::cpu;
use crate::error::{Call, Error};
use crate::kernel::{Info, Kernel, MIN_STACK, SENDERS, Switches};
use core::cell::Cell;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use tocsin_sync::atomic::real::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use tocsin_sync::errno;

pub(super) const NAME: &str = "emulation by signals";
const MAGIC: u64 = 0x5549_4E54_5245_4D55;

/// A receiver's descriptor, in a memfd.
#[repr(C)]
pub(super) struct Upid {
    magic: AtomicU64,
    pub(super) posted: AtomicU64,
    pub(super) outstanding: AtomicU32,
    pub(super) alive: AtomicU32,
    pub(super) pid: AtomicU32,
    pub(super) tid: AtomicU32,
}

/// The calling thread's registration.
#[derive(Clone, Copy)]
pub(super) struct Registered {
    pub(super) entry: usize,
    pub(super) stack: Option<(usize, usize)>,
    pub(super) upid: &'static Upid,
    memfd: i32,
}

std::thread_local! {
    /// Of a plain type and constant: no allocation at first use, no destructor.
    pub(super) static RECEIVER: Cell<Option<Registered>> = const { Cell::new(None) };
}

/// An entry of the table of senders.
pub(super) struct Target {
    pub(super) upid: &'static Upid,
    pub(super) vector: u32,
    identity: (u64, u64),
}

/// Null: not in use. Targets are never freed, as somebody may be ringing.
pub(super) static TABLE: [AtomicPtr<Target>; SENDERS as usize] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; SENDERS as usize];
/// Registrations of each entry.
static COUNTS: Mutex<[u32; SENDERS as usize]> = Mutex::new([0; SENDERS as usize]);
/// Whether this process has a table: without one SENDUIPI is an undefined instruction.
pub(super) static HAS_TABLE: AtomicU32 = AtomicU32::new(0);

/// Neither receiver nor table of senders.
pub(super) extern "C" fn in_child() {
    RECEIVER.with(|r| r.set(None));
    cpu::reset();
    HAS_TABLE.store(0, Ordering::Relaxed);
    for entry in &TABLE {
        entry.store(core::ptr::null_mut(), Ordering::Relaxed);
    }
    if let Ok(mut counts) = COUNTS.try_lock() {
        counts.fill(0);
    }
}

fn map(memfd: i32) -> Option<&'static Upid> {
    // SAFETY: a new mapping of a file of at least this size, never unmapped; it consists of atomics.
    unsafe {
        let memory = libc::mmap(
            core::ptr::null_mut(),
            size_of::<Upid>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            memfd,
            0,
        );
        if memory == libc::MAP_FAILED { None } else { Some(&*memory.cast::<Upid>()) }
    }
}

fn failed(call: Call) -> Error {
    Error::Kernel(call, errno::get())
}

/// User addresses end here.
const TASK_SIZE: usize = (1 << 47) - 4096;

fn check_stack(stack: Option<(usize, usize)>) -> Result<(), Error> {
    match stack {
        Some((low, size)) if low == 0 || size < MIN_STACK || low.saturating_add(size) > TASK_SIZE => {
            Err(Error::BadStack)
        }
        _ => Ok(()),
    }
}

fn registered() -> Result<Registered, Error> {
    RECEIVER.with(Cell::get).ok_or(Error::NotRegistered)
}

/// The kernel.
pub(super) struct Emulated;

impl Kernel for Emulated {
    fn name(&self) -> &'static str {
        NAME
    }

    fn info(&self) -> Result<Info, Error> {
        Err(Error::NotSupported(Call::Statistics))
    }

    unsafe fn register_handler(&self, entry: usize, stack: Option<(usize, usize)>) -> Result<(), Error> {
        let call = Call::RegisterHandler;
        if registered().is_ok() {
            return Err(Error::AlreadyRegistered);
        }
        check_stack(stack)?;
        if entry == 0 || entry >= TASK_SIZE {
            return Err(Error::BadStack);
        }
        // SAFETY: a constant string; no memory is involved otherwise.
        let memfd = unsafe { libc::memfd_create(c"upid".as_ptr(), libc::MFD_CLOEXEC) };
        // SAFETY: as above.
        if memfd < 0 || unsafe { libc::ftruncate(memfd, 4096) } != 0 {
            return Err(failed(call));
        }
        let upid = map(memfd).ok_or_else(|| failed(call))?;
        // SAFETY: neither has a precondition.
        let (pid, tid) = unsafe { (libc::getpid(), libc::gettid()) };
        upid.pid.store(pid as u32, Ordering::Relaxed);
        upid.tid.store(tid as u32, Ordering::Relaxed);
        upid.alive.store(1, Ordering::Relaxed);
        upid.magic.store(MAGIC, Ordering::Release);
        RECEIVER.with(|r| r.set(Some(Registered { entry, stack, upid, memfd })));
        Ok(())
    }

    fn unregister_handler(&self) -> Result<(), Error> {
        let receiver = registered()?;
        receiver.upid.alive.store(0, Ordering::Release);
        RECEIVER.with(|r| r.set(None));
        cpu::reset();
        // SAFETY: opened by `register_handler`, used by nobody else.
        unsafe { libc::close(receiver.memfd) };
        Ok(())
    }

    unsafe fn alt_stack(&self, stack: Option<(usize, usize)>) -> Result<(), Error> {
        let receiver = registered()?;
        check_stack(stack)?;
        RECEIVER.with(|r| r.set(Some(Registered { stack, ..receiver })));
        Ok(())
    }

    fn vector_fd(&self, vector: u32) -> Result<OwnedFd, Error> {
        let receiver = registered()?;
        if vector >= 64 {
            return Err(Error::NoSuchVector(vector));
        }
        let path = std::ffi::CString::new(format!("/proc/self/fd/{}", receiver.memfd)).unwrap_or_default();
        // Opened anew: a file position of its own, which travels with the descriptor.
        // SAFETY: a string of ours; the descriptor is new.
        unsafe {
            let fd = libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
            if fd < 0 || libc::lseek(fd, vector.into(), libc::SEEK_SET) < 0 {
                return Err(failed(Call::VectorFd));
            }
            Ok(OwnedFd::from_raw_fd(fd))
        }
    }

    fn register_sender(&self, vector: BorrowedFd<'_>) -> Result<u32, Error> {
        let fd = vector.as_raw_fd();
        let mut magic = 0u64;
        // SAFETY: zeroed is a valid stat; live locals.
        let (identity, position, read) = unsafe {
            let mut stat: libc::stat = core::mem::zeroed();
            if libc::fstat(fd, &raw mut stat) != 0 || stat.st_size != 4096 {
                return Err(Error::NotAVector);
            }
            let read = libc::pread(fd, (&raw mut magic).cast(), 8, 0);
            ((stat.st_dev, stat.st_ino), libc::lseek(fd, 0, libc::SEEK_CUR), read)
        };
        let vector = u32::try_from(position).unwrap_or(u32::MAX);
        if read != 8 || magic != MAGIC || vector >= 64 {
            return Err(Error::NotAVector);
        }
        let upid = map(fd).ok_or_else(|| failed(Call::RegisterSender))?;
        if upid.alive.load(Ordering::Acquire) == 0 {
            return Err(Error::ReceiverGone);
        }
        let mut counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
        let same = TABLE.iter().position(|entry| {
            // SAFETY: null or a target, never freed.
            let target = unsafe { entry.load(Ordering::Acquire).as_ref() };
            target.is_some_and(|t| t.identity == identity && t.vector == vector)
        });
        let index = match same {
            Some(index) => index,
            None => {
                let free = counts.iter().position(|&count| count == 0).ok_or(Error::SendersFull)?;
                let target = Box::leak(Box::new(Target { upid, vector, identity }));
                TABLE[free].store(target, Ordering::Release);
                HAS_TABLE.store(1, Ordering::Relaxed);
                free
            }
        };
        counts[index] += 1;
        Ok(index as u32)
    }

    fn unregister_sender(&self, index: u32) -> Result<(), Error> {
        let mut counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get_mut(index as usize) {
            Some(count) if *count > 0 => {
                *count -= 1;
                if *count == 0 {
                    TABLE[index as usize].store(core::ptr::null_mut(), Ordering::Release);
                }
                Ok(())
            }
            _ => Err(Error::NoSuchIndex(index)),
        }
    }

    fn register_self(&self, vector: u32) -> Result<u32, Error> {
        let fd = self.vector_fd(vector)?;
        self.register_sender(std::os::fd::AsFd::as_fd(&fd))
    }

    fn switches(&self) -> Result<Switches, Error> {
        Err(Error::NotSupported(Call::Statistics))
    }
}
