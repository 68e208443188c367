//! Backend `uintr`: rings are `senduipi`; the trampoline runs the owner's entry function.
//!
//! It is the `signal` backend with a faster way in: the same block, the same stack, the same masking, the timer. The
//! signal remains for whoever has no connection ([`crate::connect`]), for [`crate::wake_any`], and for a thread that
//! does not answer within a millisecond because it is blocked in a system call of its own, where user interrupts
//! wait until the call returns.
//!
//! The handler runs on the signal stack, so that signals and user interrupts nest in whatever order they come
//! (`tocsin_uintr_sys::Stack::Given`).

mod senders;

pub use senders::{Connection, connect};
pub(crate) use senders::{in_child, ring};

use crate::backend::{Backend, Cause, Control, Place};
use crate::block::Block;
use crate::error::Error;
use crate::kind::BackendKind;
use crate::signal::Signal;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, PoisonError};
use tocsin_uintr_sys::{self as sys, Frame, VectorFd};

/// The one hardware vector: which of the 64 of the descriptor are posted stands in the descriptor.
const VECTOR: u8 = 0;

/// An installed receiver's belongings, in the order in which they go.
pub(crate) struct Uintr {
    published: Published,
    _receiver: sys::Receiver,
    signal: Signal,
}

impl Backend for Uintr {
    const KIND: BackendKind = BackendKind::Uintr;

    fn install(place: &Place) -> Result<Self, Error> {
        if let Some(why) = sys::why_not() {
            return Err(Error::Unavailable { backend: BackendKind::Uintr, why });
        }
        let signal = Signal::install(place)?;
        let block = signal.block();
        let (low, size) = signal.stack();
        let context = core::ptr::from_ref(block).cast();
        // SAFETY: - the block is static, and the handler obeys the rules as far as the owner's entry function does,
        //           which `Receiver::install`'s caller promises
        //         - the stack is the thread's signal stack, which `signal` keeps, and which goes after the receiver
        //         - `Receiver::install`'s caller drops it before the thread ends.
        let receiver = unsafe {
            sys::Receiver::install(&sys::Config::on(sys::Stack::Given(low, size)), on_user_interrupt, context)
        }?;
        let fd = receiver.vector(VECTOR)?.fd()?;
        // SAFETY: no precondition.
        let pid = u64::from(unsafe { libc::getpid() } as u32);
        let serial = pid << 32 | block.serial() & 0xFFFF_FFFF;
        let_relatives_take_descriptors(place.ancestor);
        Ok(Uintr { published: Published::new(serial, fd), _receiver: receiver, signal })
    }

    fn control(&self) -> Control {
        self.signal.control()
    }

    fn signal(&self) -> i32 {
        Backend::signal(&self.signal)
    }

    fn connection_point(&self) -> (u64, u32) {
        (self.published.serial, self.published.fd as u32 + 1)
    }
}

/// What the trampoline runs: what the signal handler does for a ring.
unsafe extern "C" fn on_user_interrupt(_vector: u64, _frame: *mut Frame, context: *const core::ffi::c_void) {
    // SAFETY: `install` passes a static block, which is this thread's while its receiver is installed.
    let block = unsafe { &*context.cast::<Block>() };
    // `Block::arrived` is not asked: it would count signals that are still on their way as seen. `enter` keeps errno, the
    // trampoline has set the default floating-point environment.
    block.enter_in_default_fp(Cause::UserInterrupt);
}

/// Receivers of this process, for ringers of the same process.
static HERE: Mutex<Vec<(u64, VectorFd)>> = Mutex::new(Vec::new());

/// The descriptor of the vector, open for as long as other processes may take it.
struct Published {
    serial: u64,
    fd: i32,
}

impl Published {
    fn new(serial: u64, fd: VectorFd) -> Published {
        let number = fd.as_fd().as_raw_fd();
        HERE.lock().unwrap_or_else(PoisonError::into_inner).push((serial, fd));
        Published { serial, fd: number }
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        // In a child of fork() the lock may be held by a thread that does not exist there: then it stays.
        let here = if crate::fork::disowned() { HERE.try_lock().ok() } else { HERE.lock().ok() };
        if let Some(mut here) = here {
            here.retain(|(serial, _)| *serial != self.serial);
        }
    }
}

/// See [`crate::Config::ancestor`].
fn let_relatives_take_descriptors(ancestor: i32) {
    let restricted =
        std::fs::read("/proc/sys/kernel/yama/ptrace_scope").is_ok_and(|scope| scope.starts_with(b"1"));
    if !restricted {
        return;
    }
    // SAFETY: neither involves memory. If the second fails, ringers fall back to the signal.
    unsafe {
        let ancestor = if ancestor > 0 { ancestor } else { libc::getppid() };
        libc::prctl(libc::PR_SET_PTRACER, ancestor as libc::c_ulong, 0, 0, 0);
    }
}
