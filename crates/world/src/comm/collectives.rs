//! Collectives: the raw calls. Where a buffer is an `Option`, `None` is the in-place form of MPI.

mod blocks;
mod reductions;

use tocsin_nbc::table::{self, Arguments};

use super::{COLLECTIVE, Comm};
use crate::error::Error;
use crate::outcome::collective_error;
use crate::request::{Kind, RawRequest};

impl Comm {
    /// Starts a barrier.
    ///
    /// # Errors
    /// [`Error::UnknownAlgorithm`], [`Error::InvalidArgument`] for an algorithm that cannot serve this communicator or
    /// operator, [`Error::PeerDead`], [`Error::Revoked`], [`Error::Finalized`], refusals of memory.
    pub fn ibarrier_raw(&self, algorithm: Option<&str>) -> Result<RawRequest, Error> {
        // SAFETY: - a barrier has no buffers.
        unsafe { self.start("ibarrier", &Arguments::Ibarrier, algorithm) }
    }

    /// Starts a broadcast of `bytes` bytes at `buf` from `root`.
    ///
    /// # Errors
    /// [`Error::RootOutOfRange`], and those of [`ibarrier_raw`](Self::ibarrier_raw).
    ///
    /// # Safety
    /// `bytes` bytes at `buf` are writable, and used by nobody else, until the request is complete or the rank has
    /// finalized.
    pub unsafe fn ibcast_raw(
        &self,
        buf: *mut u8,
        bytes: usize,
        root: u32,
        algorithm: Option<&str>,
    ) -> Result<RawRequest, Error> {
        // SAFETY: - the buffer: promised by the caller.
        unsafe { self.start("ibcast", &Arguments::Ibcast { buffer: buf, bytes, root }, algorithm) }
    }

    /// # Safety
    /// The arguments' buffers live until the request is complete or the rank has finalized.
    unsafe fn start(
        &self,
        operation: &'static str,
        arguments: &Arguments,
        algorithm: Option<&str>,
    ) -> Result<RawRequest, Error> {
        self.shared().open(operation)?;
        let refused = |e| collective_error(operation, e);
        let schedule = table::compile(&self.inner.group, arguments, algorithm).map_err(refused)?;
        let mut guard = self.shared().enter_open(operation)?;
        let state = &mut *guard;
        if state.p2p.is_revoked(self.context()) {
            return Err(Error::Revoked { operation });
        }
        // Counted under the token, and only for what is posted: ranks that were refused alike stay in step.
        let sequence = self.next_sequence();
        // SAFETY: - the buffers: promised by the caller.
        let posted =
            unsafe { state.nbc.post(&mut state.p2p, schedule, self.context() | COLLECTIVE, sequence) };
        let id = posted.map_err(refused)?;
        let completion = state.nbc.completion(id).ok_or_else(|| Error::System {
            operation: operation.into(),
            reason: "the request was lost; please report this".into(),
        })?;
        drop(guard);
        Ok(RawRequest::new(self.clone(), operation, Kind::Collective, id, completion, None))
    }
}
