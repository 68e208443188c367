//! User interrupts (UINTR): CPU probe, instructions, descriptor layouts, and safe wrappers over the kernel's
//! interfaces.
//!
//! # For users
//! A thread installs a [`Receiver`] with a handler, which runs between two of its instructions whenever somebody
//! rings. It gives away [`VectorFd`]s; who holds one registers as a [`Sender`] and rings by one instruction.
//! [`Masked`] keeps the handler out for a while.
//!
//! ```no_run
//! # #[cfg(all(target_arch = "x86_64", not(miri)))]
//! # fn main() -> Result<(), tocsin_uintr_sys::Error> {
//! use tocsin_uintr_sys::{Config, Frame, Receiver};
//! unsafe extern "C" fn handler(_vector: u64, _frame: *mut Frame, _context: *const core::ffi::c_void) {}
//! // SAFETY: the handler does nothing; the receiver is dropped before its thread ends.
//! let receiver = unsafe { Receiver::install(&Config::default(), handler, core::ptr::null()) }?;
//! let sender = receiver.vector(0)?.fd()?.sender()?;
//! std::thread::spawn(move || sender.send());
//! # Ok(())
//! # }
//! # #[cfg(not(all(target_arch = "x86_64", not(miri))))]
//! # fn main() {}
//! ```
//!
//! # Implementation details
//! Facts are from Intel's Software Developer's Manual, volume 3, chapter "User Interrupts". Mainline Linux has no
//! interface to them: [`kernel()`] finds that of a loadable module or of a patched kernel.
//!
//! | module | for |
//! |---|---|
//! | [`probe()`] | does this machine have them, and does its kernel let us use them |
//! | `instructions` | the five instructions (x86-64 only) |
//! | [`layout`] | what CPU, kernel and user share in memory |
//! | [`xsave`] | how large a state a handler must save |
//! | `kernel` | the kernel's calls behind one trait (x86-64 only) |
//! | `trampoline` | from delivery to Rust and back |
//! | `emulation` (feature) | user interrupts by signals, for tests on machines without them |

// `unsafe` is allowed one module at a time, so that the files to review are a list one can grep.
#![deny(unsafe_code)]

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)] // an intrinsic
mod cpuid;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)] // inline assembly
pub mod instructions;
pub mod layout;
#[allow(unsafe_code)] // sigaction around one instruction
mod probe;
#[allow(unsafe_code)] // XGETBV
pub mod xsave;

#[cfg(all(target_arch = "x86_64", not(miri), feature = "emulation"))]
#[allow(unsafe_code)] // signal frames
#[doc(hidden)]
pub mod emulation;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod error;
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[allow(unsafe_code)] // pthread_atfork
mod fork;
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[allow(unsafe_code)] // ioctl, system calls
mod kernel;
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[allow(unsafe_code)] // instructions
mod masked;
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[allow(unsafe_code)] // thread-local by pointer, instructions
mod receiver;
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[allow(unsafe_code)] // memory that the kernel shares
mod rseq;
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[allow(unsafe_code)] // an instruction
mod sender;
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[allow(unsafe_code)] // mmap, pthread attributes
mod stack;
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[allow(unsafe_code)] // assembly
mod thread;
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[allow(unsafe_code)] // assembly
mod trampoline;

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub use error::{Call, Error, Unavailable};
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub use kernel::{ABI, Info, Kernel, MIN_STACK, SENDERS, Switches, kernel};
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub use masked::Masked;
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub use receiver::{Config, Handler, Receiver, Stack, Statistics, Vector, heal, heal_here, installed};
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub use sender::{Sender, VectorFd};

pub use layout::Frame;
pub use probe::{Probe, probe};

/// Why this process cannot use user interrupts; `None` when it can. For messages to people.
///
/// Not from handlers.
pub fn why_not() -> Option<String> {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        kernel().err().map(|why| why.to_string())
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        probe().why_not().map(str::to_owned)
    }
}
