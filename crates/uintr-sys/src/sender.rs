//! Who may ring, and whom.

use crate::error::Error;
use crate::fork;
use crate::instructions::senduipi;
use crate::kernel::{Kernel, kernel};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tocsin_sync::signals::Blocked;

/// A descriptor of one vector of one receiver. Who holds one may ring: pass it by inheritance (it is close-on-exec),
/// by `SCM_RIGHTS`, or let it be taken by `pidfd_getfd`. Closing it ends no registration made with it.
#[derive(Debug)]
pub struct VectorFd(OwnedFd);

impl VectorFd {
    /// Registers this process as a sender.
    ///
    /// Not from handlers.
    ///
    /// # Errors
    /// See [`Kernel::register_sender`].
    pub fn sender(&self) -> Result<Sender, Error> {
        let kernel = kernel()?;
        fork::watch();
        let index = unsignalled(|| kernel.register_sender(self.0.as_fd()))?;
        Ok(Sender { index, generation: fork::generation(), kernel })
    }

    /// A second descriptor of the same vector.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn try_clone(&self) -> std::io::Result<VectorFd> {
        self.0.try_clone().map(VectorFd)
    }
}

impl AsFd for VectorFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Any descriptor may be turned into one; one that is not of a vector fails when it is used.
impl From<OwnedFd> for VectorFd {
    fn from(fd: OwnedFd) -> VectorFd {
        VectorFd(fd)
    }
}

impl From<VectorFd> for OwnedFd {
    fn from(fd: VectorFd) -> OwnedFd {
        fd.0
    }
}

/// Calls with all signals blocked but those that tell of errors. For a process's first index the kernel locks all that it maps,
/// which it gives up when a signal is pending, and begins anew: a thread that is signalled often enough would never come
/// to the end.
pub(crate) fn unsignalled<T>(call: impl FnOnce() -> T) -> T {
    let _blocked = Blocked::here();
    call()
}

/// A registration as a sender, the whole process's: any of its threads may send. Dropping it takes it back.
///
/// A thread's first send may trap once into the kernel, which then sets the thread up.
pub struct Sender {
    index: u32,
    generation: u64,
    kernel: &'static dyn Kernel,
}

impl Sender {
    /// Posts the vector and notifies its receiver. What was written before is visible to the handler: the posting is
    /// a locked read-modify-write.
    ///
    /// False: this is a child of fork(), which has no senders of its parent's. True does not mean that somebody is
    /// there: a post to a receiver that has ended is silent.
    ///
    /// Wait-free. Handlers may call it.
    #[inline]
    pub fn send(&self) -> bool {
        if self.generation != fork::generation() {
            return false;
        }
        // SAFETY: the kernel gave the index to this process, which has it until `drop`.
        unsafe { senduipi(self.index.into()) };
        true
    }

    /// The index: SENDUIPI's operand, as long as this lives and no child is forked.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Made by [`Kernel::register_self`].
    pub(crate) fn from_index(index: u32, kernel: &'static dyn Kernel) -> Sender {
        fork::watch();
        Sender { index, generation: fork::generation(), kernel }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if self.generation == fork::generation() {
            // It fails only if other code took the registration back.
            let _best_effort = self.kernel.unregister_sender(self.index);
        }
    }
}

impl core::fmt::Debug for Sender {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Sender").field("index", &self.index).finish_non_exhaustive()
    }
}
