//! Backend `poll`: nobody is ever notified; progress happens inside library calls only.

use crate::backend::{Backend, Control, Place};
use crate::error::Error;
use crate::kind::BackendKind;

/// Nothing to install, nothing to give back.
pub(crate) struct Poll;

impl Backend for Poll {
    const KIND: BackendKind = BackendKind::Poll;

    fn install(_place: &Place) -> Result<Self, Error> {
        Ok(Poll)
    }

    fn control(&self) -> Control {
        Control::none()
    }
}
