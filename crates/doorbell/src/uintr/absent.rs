//! Backend `uintr` where there are no user interrupts: refused.

use crate::backend::{Backend, Control, Place};
use crate::descriptor::Descriptor;
use crate::error::Error;
use crate::kind::BackendKind;

/// Never installed.
pub(crate) struct Uintr;

fn unavailable() -> Error {
    let why = tocsin_uintr_sys::why_not();
    let why = why.unwrap_or_else(|| "this build is without user interrupts".to_owned());
    Error::Unavailable { backend: BackendKind::Uintr, why }
}

impl Backend for Uintr {
    const KIND: BackendKind = BackendKind::Uintr;

    fn install(_place: &Place) -> Result<Self, Error> {
        Err(unavailable())
    }

    fn control(&self) -> Control {
        Control::none()
    }
}

/// This process's connection to a descriptor's receiver: none is needed here.
#[derive(Debug)]
#[must_use = "dropping it disconnects"]
pub struct Connection(());

impl Connection {
    /// Whether rings go by user interrupt.
    pub fn by_user_interrupt(&self) -> bool {
        false
    }
}

/// Connects this process to the target's receiver, so that [`crate::ring`] reaches it by user interrupt: which no
/// receiver of this kind of machine has.
///
/// # Errors
/// [`Error::Unavailable`] when the receiver is one of backend `uintr`.
pub fn connect(target: &Descriptor) -> Result<Connection, Error> {
    if target.backend() == Some(BackendKind::Uintr) { Err(unavailable()) } else { Ok(Connection(())) }
}

/// Nobody is connected.
#[cfg(not(loom))]
pub(crate) fn ring<const CHECKED: bool>(_target: &Descriptor) -> bool {
    false
}

/// Nothing to forget.
pub(crate) fn in_child() {}
