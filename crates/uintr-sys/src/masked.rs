//! Keeping the handler out for a while.

use crate::instructions::{clui, stui, testui};
use crate::thread;
use core::marker::PhantomData;
use core::sync::atomic::{Ordering, compiler_fence};

/// Masks the calling thread's user interrupts (CLUI) for as long as it lives; what is posted meanwhile is delivered
/// when the last guard goes (STUI), unless they were masked before the first, as in a handler (TESTUI tells). On a
/// thread without receiver it does nothing.
///
/// Wait-free: about 2 cycles for masking, 32 for unmasking. Handlers may use it.
#[derive(Debug)]
#[must_use = "the thread is masked until this is dropped"]
pub struct Masked {
    /// Of the receiver that it counts with; 0: there was none.
    serial: u64,
    _not_send: PhantomData<*const ()>,
}

impl Masked {
    /// Masks.
    #[inline]
    pub fn new() -> Masked {
        let Some(thread) = thread::current() else {
            return Masked { serial: 0, _not_send: PhantomData };
        };
        // SAFETY: a receiver is installed, so the instructions are there.
        let was_unmasked = unsafe { testui() };
        // Who comes in between two of these instructions, a handler or a signal's, has dropped its guards when it returns. The
        // count goes up first: from then on those guards are inside this one, and `heal` keeps away.
        let held = thread.masked.get();
        thread.masked.set(held.wrapping_add(1));
        compiler_fence(Ordering::SeqCst);
        // SAFETY: as above.
        unsafe { clui() };
        if held == 0 {
            thread.was_unmasked.set(was_unmasked);
        }
        Masked { serial: thread.serial.get(), _not_send: PhantomData }
    }
}

impl Default for Masked {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Masked {
    #[inline]
    fn drop(&mut self) {
        // The receiver may be gone, or be another one, which has guards of its own. A child of fork() keeps its copy.
        let Some(thread) = thread::current().filter(|t| self.serial == t.serial.get() && t.masked.get() > 0)
        else {
            return;
        };
        let held = thread.masked.get();
        // Before the count goes down: then a signal's handler may hold the only guard, and note what it finds.
        let unmask = held == 1 && thread.was_unmasked.get();
        thread.masked.set(held.wrapping_sub(1));
        compiler_fence(Ordering::SeqCst);
        if unmask {
            // SAFETY: a receiver is installed; its handler may run.
            unsafe { stui() };
        }
    }
}
