//! Notify that thread: by user interrupt, signal, futex, or not at all.
//!
//! # For users
//! A rank has one [`Descriptor`] in shared memory. Its owner installs a [`Receiver`] on the thread that may
//! be interrupted and says, in the descriptor's attention word, what that thread is doing ([`Own`]). Who has
//! put something where the owner will look calls [`ring()`]. A ring says "look", never "how many": rings of
//! the same vector collapse.
//!
//! The protocol that loses no wake-up:
//!
//! | who rings | who is rung |
//! |---|---|
//! | 1. publish the data | 1. say what you do now ([`Own::end_poll`], clearing a [`Mark`], ...) |
//! | 2. `fence(SeqCst)` | 2. `fence(SeqCst)` |
//! | 3. [`ring()`] | 3. look at the data once more |
//!
//! Either the ringer sees the new attention and rings, or the owner's last look sees the data. Nobody's
//! death can silence another: a ring is suppressed only by a mark that the *same* ringer set.
//!
//! # Implementation details
//! Four backends sit behind one trait ([`backend`]). `uintr` is `signal` with a faster way in, for ringers that
//! are connected ([`connect`]). The kernel is reached through one small module, which under `--cfg loom` is a model of the
//! kernel, so that loom drives the very code that ships (`tests/loom_doorbell.rs`).

// `unsafe` is allowed one module at a time, so that the files to review are a list one can grep.
#![deny(unsafe_code)]

mod attention;
#[allow(unsafe_code)] // calls the owner's entry function
pub mod backend;
#[allow(unsafe_code)] // the interruptible thread's block is reached by pointer
mod block;
mod computing;
mod descriptor;
mod error;
#[allow(unsafe_code)] // pthread_atfork
pub mod fork;
mod kind;
#[allow(unsafe_code)] // HandlerSafe, descriptor by pointer
mod own;
mod place;
mod poll;
mod ring;
#[allow(unsafe_code)] // sigaction, sigaltstack, timers
mod signal;
#[cfg_attr(not(loom), path = "sys/linux.rs")]
#[cfg_attr(loom, path = "sys/model.rs")]
#[allow(unsafe_code)] // system calls
mod sys;
mod thread;
#[cfg_attr(not(all(target_arch = "x86_64", not(miri), not(loom))), path = "uintr/absent.rs")]
#[allow(unsafe_code)] // instructions, descriptors of other processes
mod uintr;

pub use attention::Attention;
pub use backend::{Cause, Config, Control, Receiver, Run};
pub use block::{Masked, signal_here};
pub use computing::{COMPUTES_NS, core_number};
pub use descriptor::{Descriptor, Mark};
pub use error::Error;
pub use kind::{BackendKind, RingOutcome, UnknownBackend, Urgency};
pub use own::Own;
pub use ring::{
    MARK_LIFE_NS, VECTOR_WAKE, hold_back, is_held, is_left_alone, release, remind, ring, rouse, wake_any,
};
pub use signal::{note_guard, refusal as signal_refusal, take_guard};
pub use uintr::{Connection, connect};

/// Stopping places inside the protocol, for the tests that kill a ringer at each of them, and deliberately
/// broken variants, for the tests that must catch them.
#[doc(hidden)]
pub mod testing {
    pub use crate::ring::{RING_STEPS, Real, Step, Stopped, Variant, ring_as};
}
