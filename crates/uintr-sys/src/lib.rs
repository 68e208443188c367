//! User interrupts (UINTR): CPU probe, instructions, descriptor layouts.
//!
//! Facts are from Intel's Software Developer's Manual, volume 3, chapter "User Interrupts". No kernel
//! interface is here: mainline Linux has none.
//!
//! | module | for |
//! |---|---|
//! | [`probe()`] | does this machine have them, and does its kernel let us use them |
//! | `instructions` | the five instructions (x86-64 only) |
//! | [`layout`] | what CPU, kernel and user share in memory |
//! | [`xsave`] | how large a state a handler must save |

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
pub mod xsave;

pub use probe::{Probe, probe};
