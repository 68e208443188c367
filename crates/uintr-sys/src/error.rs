//! What can go wrong, and what to do about it.

use core::fmt;

/// A call of the kernel's interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Call {
    /// Registering the calling thread as a receiver.
    RegisterHandler,
    /// Taking that back.
    UnregisterHandler,
    /// Setting the kernel's alternate stack.
    AltStack,
    /// Making a descriptor of a vector.
    VectorFd,
    /// Registering as a sender to what a descriptor stands for.
    RegisterSender,
    /// Taking that back.
    UnregisterSender,
    /// Registering as a sender to a vector of the calling thread's own.
    RegisterSelf,
    /// Reading counters.
    Statistics,
    /// What the operating system was asked beside them.
    System(&'static str),
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Call::RegisterHandler => "registering for user interrupts",
            Call::UnregisterHandler => "unregistering from user interrupts",
            Call::AltStack => "setting the alternate stack of user interrupts",
            Call::VectorFd => "making a descriptor of a user-interrupt vector",
            Call::RegisterSender => "registering as a sender of user interrupts",
            Call::UnregisterSender => "unregistering as a sender of user interrupts",
            Call::RegisterSelf => "registering as a sender to this thread itself",
            Call::Statistics => "reading the counters of user interrupts",
            Call::System(call) => call,
        })
    }
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// This machine or kernel has no user interrupts that this process can use.
    Unavailable(Unavailable),
    /// The thread is registered already, perhaps by other code (EBUSY).
    AlreadyRegistered,
    /// The thread is not registered (EOPNOTSUPP or EINVAL, depending on the call).
    NotRegistered,
    /// There are 64 vectors, 0 to 63 (ENOSPC).
    NoSuchVector(u32),
    /// The descriptor is not one of a vector (EOPNOTSUPP), or is none at all (EBADF).
    NotAVector,
    /// The receiver has ended or unregistered (ESHUTDOWN).
    ReceiverGone,
    /// The process's table of senders (256 entries) is full: drop senders that are not needed (ENOSPC).
    SendersFull,
    /// No such index is registered (EINVAL).
    NoSuchIndex(u32),
    /// The stack is too small, not apart from the thread's ordinary one, or not the program's memory (EINVAL).
    BadStack,
    /// This kernel interface does not have that call.
    NotSupported(Call),
    /// Out of descriptors, of memory, or something that ought not to happen: the call and its error number.
    Kernel(Call, i32),
}

/// What is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unavailable {
    /// The machine or the kernel: see [`crate::Probe::why_not`].
    Machine(&'static str),
    /// The CPU would do, but neither `/dev/uintr` nor the system calls are there.
    NoInterface,
    /// `/dev/uintr` is there and cannot be opened: the error number.
    Device(i32),
    /// `/dev/uintr` speaks another version of the interface.
    Version(u32),
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unavailable::Machine(why) => f.write_str(why),
            Unavailable::NoInterface => f.write_str(
                "this kernel offers no user interrupts: load the module `uintr` (kernel-patches/README.md)",
            ),
            Unavailable::Device(errno) => {
                write!(f, "/dev/uintr cannot be opened: {}", std::io::Error::from_raw_os_error(*errno))
            }
            Unavailable::Version(abi) => {
                write!(
                    f,
                    "the kernel module's interface has version {abi}, this program needs {}",
                    crate::ABI
                )
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unavailable(why) => why.fmt(f),
            Error::AlreadyRegistered => {
                f.write_str("this thread is registered for user interrupts already: one receiver per thread")
            }
            Error::NotRegistered => f.write_str("this thread is not registered for user interrupts"),
            Error::NoSuchVector(vector) => write!(f, "there is no user vector {vector}: use 0 to 63"),
            Error::NotAVector => f.write_str("the descriptor is not one of a user-interrupt vector"),
            Error::ReceiverGone => f.write_str("the receiver of these user interrupts is gone"),
            Error::SendersFull => f.write_str(
                "this process's table of user-interrupt senders is full (256): drop senders that are not needed",
            ),
            Error::NoSuchIndex(index) => write!(f, "no user-interrupt sender has index {index}"),
            Error::BadStack => f.write_str(
                "the handler's stack is too small (4096 bytes at least, and 2048 more than the CPU's vector state), in the thread's \
                 ordinary stack, or no valid memory",
            ),
            Error::NotSupported(call) => write!(f, "{call}: this kernel has no call for it"),
            Error::Kernel(call, errno) => {
                write!(f, "{call} failed: {}", std::io::Error::from_raw_os_error(*errno))
            }
        }
    }
}

impl std::error::Error for Error {}
impl std::error::Error for Unavailable {}

impl From<Unavailable> for Error {
    fn from(why: Unavailable) -> Error {
        Error::Unavailable(why)
    }
}

/// The last call's error number, as an error.
pub(crate) fn last(call: Call) -> Error {
    Error::Kernel(call, tocsin_sync::errno::get())
}
