//! A collective that is prepared once and restarted for each round.

use super::layout::Layout;
use crate::error::Error;
use crate::values::Operation;
use tocsin_world::{Comm, RawRequest};

/// What it was prepared for.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Of {
    pub(super) op: Operation,
    pub(super) bytes: usize,
    pub(super) root: u32,
    /// The buffers: one that has moved is another.
    pub(super) from: *const u8,
    pub(super) to: *mut u8,
}

/// The collective, between its runs.
pub(super) struct Prepared {
    pub(super) of: Of,
    request: RawRequest,
}

impl Prepared {
    pub(super) fn new(
        comm: &Comm,
        of: Of,
        layout: &Layout,
        algorithm: Option<&str>,
    ) -> Result<Prepared, Error> {
        let arguments = layout.arguments(of.op, of.bytes, of.root, of.from, of.to)?;
        let request = comm.prepare_raw(&arguments, algorithm).map_err(Error::failed)?;
        Ok(Prepared { of, request })
    }

    pub(super) fn start(&mut self) -> Result<(), Error> {
        // SAFETY: the buffers are those of `of`, sized for it: `Member::prepare` prepares anew when one has moved. They are
        // not touched, moved or dropped before the run is waited for (see `isend` in messages.rs); they are distinct.
        unsafe { self.request.start() }.map_err(Error::failed)
    }

    pub(super) fn wait(&mut self) -> Result<(), Error> {
        self.request.wait().map(drop).map_err(Error::failed)
    }
}
