//! Collectives that combine elements.

use tocsin_nbc::table::Arguments;
use tocsin_nbc::{DataType, Op};

use crate::comm::Comm;
use crate::error::Error;
use crate::request::RawRequest;

impl Comm {
    /// Starts a reduction of `count` elements to `root`. `recv` is used at the root only; `send` `None`, at the root only: in
    /// place.
    ///
    /// # Errors
    /// [`Error::RootOutOfRange`], and those of [`iallreduce_raw`](Self::iallreduce_raw).
    ///
    /// # Safety
    /// As for [`iallreduce_raw`](Self::iallreduce_raw).
    #[allow(clippy::too_many_arguments, reason = "those of MPI_Ireduce")]
    pub unsafe fn ireduce_raw(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        count: usize,
        data_type: DataType,
        op: Op,
        root: u32,
        algorithm: Option<&str>,
    ) -> Result<RawRequest, Error> {
        let arguments = Arguments::Ireduce { send, recv, count, data_type, op, root };
        // SAFETY: - the buffers and the operator: promised by the caller.
        unsafe { self.start_raw(&arguments, algorithm) }
    }

    /// Starts an allreduce of `count` elements; `send` `None`: in place.
    ///
    /// # Errors
    /// [`Error::OperatorType`], [`Error::InvalidArgument`] for buffers that overlap, and those of
    /// [`ibarrier_raw`](Self::ibarrier_raw).
    ///
    /// # Safety
    /// `count` elements at `recv` as for [`ibcast_raw`](Self::ibcast_raw), and at `send` readable and not written. A user
    /// operator fits the element type and lives as long.
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
        unsafe { self.start_raw(&arguments, algorithm) }
    }

    /// Starts a reduction of which each rank gets as many elements as `counts` says, the same list on all ranks. `send` has
    /// them all; `None`: in place, and the part of this rank goes to the start of the input in `recv`.
    ///
    /// # Errors
    /// [`Error::BufferLength`] for a list that has not one count per rank, and those of
    /// [`iallreduce_raw`](Self::iallreduce_raw).
    ///
    /// # Safety
    /// As for [`iallreduce_raw`](Self::iallreduce_raw).
    pub unsafe fn ireduce_scatter_raw(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        counts: &[usize],
        data_type: DataType,
        op: Op,
        algorithm: Option<&str>,
    ) -> Result<RawRequest, Error> {
        let arguments = Arguments::IreduceScatter { send, recv, counts, data_type, op };
        // SAFETY: - the buffers and the operator: promised by the caller.
        unsafe { self.start_raw(&arguments, algorithm) }
    }

    /// As [`ireduce_scatter_raw`](Self::ireduce_scatter_raw), with `count` elements for each rank.
    ///
    /// # Errors
    /// As [`iallreduce_raw`](Self::iallreduce_raw).
    ///
    /// # Safety
    /// As for [`iallreduce_raw`](Self::iallreduce_raw).
    pub unsafe fn ireduce_scatter_block_raw(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        count: usize,
        data_type: DataType,
        op: Op,
        algorithm: Option<&str>,
    ) -> Result<RawRequest, Error> {
        let arguments = Arguments::IreduceScatterBlock { send, recv, count, data_type, op };
        // SAFETY: - the buffers and the operator: promised by the caller.
        unsafe { self.start_raw(&arguments, algorithm) }
    }

    /// Starts a reduction of the ranks up to each rank; `send` `None`: in place.
    ///
    /// # Errors
    /// As [`iallreduce_raw`](Self::iallreduce_raw).
    ///
    /// # Safety
    /// As for [`iallreduce_raw`](Self::iallreduce_raw).
    pub unsafe fn iscan_raw(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        count: usize,
        data_type: DataType,
        op: Op,
        algorithm: Option<&str>,
    ) -> Result<RawRequest, Error> {
        let arguments = Arguments::Iscan { send, recv, count, data_type, op };
        // SAFETY: - the buffers and the operator: promised by the caller.
        unsafe { self.start_raw(&arguments, algorithm) }
    }

    /// Starts a reduction of the ranks before each rank; `send` `None`: in place. On rank 0 `recv` stays as it is.
    ///
    /// # Errors
    /// As [`iallreduce_raw`](Self::iallreduce_raw).
    ///
    /// # Safety
    /// As for [`iallreduce_raw`](Self::iallreduce_raw).
    pub unsafe fn iexscan_raw(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        count: usize,
        data_type: DataType,
        op: Op,
        algorithm: Option<&str>,
    ) -> Result<RawRequest, Error> {
        let arguments = Arguments::Iexscan { send, recv, count, data_type, op };
        // SAFETY: - the buffers and the operator: promised by the caller.
        unsafe { self.start_raw(&arguments, algorithm) }
    }
}
