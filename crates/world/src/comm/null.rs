//! The null process: at the edge of a grid, the neighbour that is none.

use super::Comm;
use crate::error::Error;
use crate::request::Status;

/// A rank that is none (MPI's `MPI_PROC_NULL`): what is sent to it is sent at once and goes nowhere, a receive from it is complete at once and leaves its buffer
/// as it is, and a probe of it finds that at once. Such a receive's [`Status`] has this source, tag -1 and 0 bytes. In point-to-point calls only: no collective has it as its root.
///
/// Its value is far from those that a computation of a neighbour runs to beyond either end, so that none is taken for it by mistake.
pub const PROC_NULL: u32 = (-1000i32).cast_unsigned();

impl Comm {
    /// What a send to the null process says of itself, or why the rank may not send now.
    pub(super) fn send_to_null(&self, operation: &'static str, tag: i32) -> Result<Status, Error> {
        let tag = Comm::tag(operation, tag)?;
        self.check_open(operation)?;
        Ok(Status { source: self.rank(), tag, bytes: 0 })
    }

    /// What a receive from the null process says of itself, or why the rank may not receive now.
    pub(super) fn receive_from_null(
        &self,
        operation: &'static str,
        tag: Option<i32>,
    ) -> Result<Status, Error> {
        tag.map_or(Ok(0), |tag| Comm::tag(operation, tag))?;
        self.check_open(operation)?;
        Ok(Status { source: PROC_NULL, tag: -1, bytes: 0 })
    }

    /// Whether anything may be started here. Does what every call does for others.
    fn check_open(&self, operation: &'static str) -> Result<(), Error> {
        self.shared().open(operation)?;
        self.advance();
        let state = self.shared().enter_open(operation)?;
        if state.p2p.is_revoked(self.context()) { Err(Error::Revoked { operation }) } else { Ok(()) }
    }
}
