//! A user interrupt and its handler, behind the trampoline.

use super::rung;
use crate::error::Error;
use crate::values::HandlerStack;
use core::ffi::c_void;
use tocsin_sync::clock::now_ns;
use tocsin_uintr_sys::instructions::{clui, stui};
use tocsin_uintr_sys::{Config, Frame, Receiver, Sender, Stack};

/// The handler's stack: it may be unmasked within itself, many times over.
const STACK: usize = 256 * 1024;

unsafe extern "C" fn on(_vector: u64, _frame: *mut Frame, _context: *const c_void) {
    let now = now_ns();
    rung(now, || {
        // SAFETY: a receiver is installed, so the instructions are there; this handler may run within itself.
        unsafe {
            stui();
            clui();
        }
    });
}

/// Makes the calling thread a receiver; with what posts to it.
pub(super) fn install(stack: HandlerStack) -> Result<(Receiver, Sender), Error> {
    let stack = match stack {
        HandlerStack::Own => Stack::Interrupted,
        HandlerStack::Alternate => Stack::Kernel(STACK),
        HandlerStack::Trampoline => Stack::Own(STACK),
    };
    // SAFETY: the handler obeys the rules and needs no context; no stack is given; the callers drop the receiver before
    // its thread ends.
    let receiver =
        unsafe { Receiver::install(&Config::on(stack), on, core::ptr::null()) }.map_err(Error::failed)?;
    let vector = receiver.vector(0).map_err(Error::failed)?;
    let sender = vector.fd().and_then(|fd| fd.sender()).map_err(Error::failed)?;
    Ok((receiver, sender))
}
