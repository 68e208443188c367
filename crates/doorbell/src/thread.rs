//! Backend `thread`: a progress thread of the rank sleeps in [`crate::Own::sleep`]; rings wake it by futex.
//!
//! The ringer needs nothing beyond the attention word, which counts that thread among the sleepers: between
//! two sleeps it looks by itself. Who runs the thread, and where, is the business of the engine above.

use crate::backend::{Backend, Control, Place};
use crate::error::Error;
use crate::kind::BackendKind;

/// Nothing to install, nothing to give back.
pub(crate) struct Thread;

impl Backend for Thread {
    const KIND: BackendKind = BackendKind::Thread;

    fn install(_place: &Place) -> Result<Self, Error> {
        Ok(Thread)
    }

    fn control(&self) -> Control {
        Control::none()
    }
}
