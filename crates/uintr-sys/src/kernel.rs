//! The kernel's side, behind one trait.
//!
//! | implementation | for |
//! |---|---|
//! | `device` | `/dev/uintr`: a module for stock kernels (`kernel-patches/module`) |
//! | `syscalls` | the nine system calls of Intel's kernel tree |
//!
//! Neither is found by trying a call's number, which on another kernel may be quite another call.

pub(crate) mod device;
pub(crate) mod syscalls;

use crate::error::{Error, Unavailable};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::OnceLock;

/// Version of the module's interface.
pub const ABI: u32 = 1;
/// Entries of a process's table of senders.
pub const SENDERS: u32 = 256;
/// The least alternate stack in bytes.
pub const MIN_STACK: usize = 4096;

/// What the module says of the whole system. For tests and curious people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Info {
    /// The interface's version.
    pub abi: u32,
    /// The notification vector.
    pub notification_vector: u32,
    /// Whether APIC ids are written as x2APIC has them.
    pub x2apic: bool,
    /// Receivers there are now.
    pub receivers: u64,
    /// Descriptors that somebody still refers to.
    pub upids: u64,
    /// Tables of senders there are.
    pub tables: u64,
    /// Notifications that found their receiver off its CPU.
    pub notifications: u64,
}

/// A receiver's counters, kept by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Switches {
    /// Times the thread was put on a CPU.
    pub switched_in: u64,
    /// Times it was taken off.
    pub switched_out: u64,
    /// Times posted vectors were found when it was put on a CPU.
    pub merged: u64,
    /// Times the CPU was another one.
    pub migrated: u64,
}

/// The kernel's calls, as they are: on the calling thread (receivers) and its process (senders).
///
/// Not from handlers.
pub trait Kernel: Send + Sync {
    /// What the interface is called.
    fn name(&self) -> &'static str;

    /// What the kernel says of the whole system.
    ///
    /// # Errors
    /// [`Error::NotSupported`] where only the system calls are.
    fn info(&self) -> Result<Info, Error>;

    /// Registers the calling thread: deliveries jump to `entry`, on `stack` (lowest address, size) or 128 bytes below
    /// the interrupted RSP. UIF stays as it is.
    ///
    /// # Errors
    /// [`Error::AlreadyRegistered`], [`Error::BadStack`] (or a bad entry), [`Error::Kernel`] (no memory).
    ///
    /// # Safety
    /// `entry` keeps to what delivery demands, the stack is the thread's own, for as long as it is registered.
    unsafe fn register_handler(&self, entry: usize, stack: Option<(usize, usize)>) -> Result<(), Error>;

    /// Takes the registration back; nothing is delivered after it.
    ///
    /// # Errors
    /// [`Error::NotRegistered`].
    fn unregister_handler(&self) -> Result<(), Error>;

    /// Sets or removes the alternate stack.
    ///
    /// # Errors
    /// [`Error::BadStack`], [`Error::NotRegistered`].
    ///
    /// # Safety
    /// The stack is the thread's own for as long as it is set.
    unsafe fn alt_stack(&self, stack: Option<(usize, usize)>) -> Result<(), Error>;

    /// A descriptor (close-on-exec) of a vector of the calling thread.
    ///
    /// # Errors
    /// [`Error::NoSuchVector`], [`Error::NotRegistered`], [`Error::Kernel`] (no memory, no descriptors).
    fn vector_fd(&self, vector: u32) -> Result<OwnedFd, Error>;

    /// Lets this process ring: gives the index for SENDUIPI. The module gives one index for one vector, and counts.
    ///
    /// # Errors
    /// [`Error::NotAVector`], [`Error::ReceiverGone`], [`Error::SendersFull`], [`Error::Kernel`] (no memory).
    fn register_sender(&self, vector: BorrowedFd<'_>) -> Result<u32, Error>;

    /// Takes one registration of an index back.
    ///
    /// # Errors
    /// [`Error::NoSuchIndex`].
    fn unregister_sender(&self, index: u32) -> Result<(), Error>;

    /// An index of a vector of the calling thread itself.
    ///
    /// # Errors
    /// As [`vector_fd`](Self::vector_fd) and [`register_sender`](Self::register_sender).
    fn register_self(&self, vector: u32) -> Result<u32, Error>;

    /// The calling thread's counters.
    ///
    /// # Errors
    /// [`Error::NotRegistered`], [`Error::NotSupported`] where only the system calls are.
    fn switches(&self) -> Result<Switches, Error>;
}

static FOUND: OnceLock<&'static dyn Kernel> = OnceLock::new();

/// The kernel's interface to user interrupts, if this machine has one. The first success is remembered, a failure is
/// not: a module may be loaded later.
///
/// Not from handlers.
///
/// # Errors
/// With what is missing.
pub fn kernel() -> Result<&'static dyn Kernel, Unavailable> {
    if let Some(found) = FOUND.get() {
        return Ok(*found);
    }
    let found: &'static dyn Kernel = match device::open() {
        Ok(device) => Box::leak(Box::new(device)),
        Err(why_no_device) => {
            let probe = crate::probe();
            if let Some(why) = probe.why_not() {
                return Err(Unavailable::Machine(why));
            }
            if syscalls::announced(probe) { &syscalls::Syscalls } else { return Err(why_no_device) }
        }
    };
    Ok(*FOUND.get_or_init(|| found))
}

/// Has [`kernel`] give this one from now on, unless it has given another already: whether it does.
#[cfg(feature = "emulation")]
pub(crate) fn use_instead(kernel: &'static dyn Kernel) -> bool {
    core::ptr::addr_eq(*FOUND.get_or_init(|| kernel), kernel)
}

/// The last error of registering a sender.
pub(crate) fn sender_error(call: crate::Call) -> Error {
    match tocsin_sync::errno::get() {
        libc::EBADF | libc::EOPNOTSUPP => Error::NotAVector,
        libc::ESHUTDOWN => Error::ReceiverGone,
        libc::ENOSPC => Error::SendersFull,
        errno => Error::Kernel(call, errno),
    }
}

/// The last error of registering as a sender to oneself.
pub(crate) fn self_error(vector: u32) -> Error {
    match tocsin_sync::errno::get() {
        libc::EOPNOTSUPP => Error::NotRegistered,
        libc::ENOSPC if vector >= crate::layout::UittEntry::VECTORS => Error::NoSuchVector(vector),
        libc::ENOSPC => Error::SendersFull,
        errno => Error::Kernel(crate::Call::RegisterSelf, errno),
    }
}
