//! Collectives.

use tocsin_nbc::table::{self, Arguments};
use tocsin_nbc::{DataType, Op};

use super::{COLLECTIVE, Comm};
use crate::error::Error;
use crate::outcome::collective_error;
use crate::request::{Kind, RawRequest};

impl Comm {
    /// Starts a barrier.
    ///
    /// # Errors
    /// [`Error::UnknownAlgorithm`], [`Error::PeerDead`], [`Error::Revoked`], [`Error::Finalized`], refusals of memory.
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

    /// Starts an allreduce of `count` elements; `send` `None`: in place.
    ///
    /// # Errors
    /// [`Error::OperatorType`], and those of [`ibarrier_raw`](Self::ibarrier_raw).
    ///
    /// # Safety
    /// `count` elements at `recv` as for [`ibcast_raw`](Self::ibcast_raw), and at `send` readable and not written; the
    /// two do not overlap. A user operator fits the element type and lives as long.
    pub unsafe fn iallreduce_raw(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        count: usize,
        data_type: DataType,
        op: Op,
        algorithm: Option<&str>,
    ) -> Result<RawRequest, Error> {
        let arguments = Arguments::Iallreduce { send, recv, count, data_type, op };
        // SAFETY: - the buffers and the operator: promised by the caller.
        unsafe { self.start("iallreduce", &arguments, algorithm) }
    }

    /// Starts an alltoall of `bytes_per_peer` bytes from and to each rank.
    ///
    /// # Errors
    /// [`Error::BufferLength`], and those of [`ibarrier_raw`](Self::ibarrier_raw).
    ///
    /// # Safety
    /// As for [`iallreduce_raw`](Self::iallreduce_raw), with `size * bytes_per_peer` bytes each.
    pub unsafe fn ialltoall_raw(
        &self,
        send: *const u8,
        recv: *mut u8,
        bytes_per_peer: usize,
        algorithm: Option<&str>,
    ) -> Result<RawRequest, Error> {
        let arguments = Arguments::Ialltoall { send: Some(send), recv, block: bytes_per_peer };
        // SAFETY: - the buffers: promised by the caller.
        unsafe { self.start("ialltoall", &arguments, algorithm) }
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
