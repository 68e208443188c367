//! Collectives that move blocks: scatter, gather, allgather, alltoall, and their displaced forms.

use tocsin_nbc::table::{Arguments, Block};

use crate::comm::Comm;
use crate::error::Error;
use crate::request::RawRequest;

impl Comm {
    /// Starts a scatter of `bytes_per_rank` bytes to each rank. `send` is used at the root only; `recv` `None`, at the root
    /// only: its block stays where it is.
    ///
    /// # Errors
    /// [`Error::RootOutOfRange`], [`Error::InvalidArgument`] for buffers that overlap, and those of
    /// [`ibarrier_raw`](Self::ibarrier_raw).
    ///
    /// # Safety
    /// What is received is writable, and used by nobody else, until the request is complete or the rank has finalized; what
    /// is sent is readable and not written.
    pub unsafe fn iscatter_raw(
        &self,
        send: *const u8,
        recv: Option<*mut u8>,
        bytes_per_rank: usize,
        root: u32,
        algorithm: Option<&str>,
    ) -> Result<RawRequest, Error> {
        let arguments = Arguments::Iscatter { send, recv, block: bytes_per_rank, root };
        // SAFETY: - the buffers: promised by the caller.
        unsafe { self.start_raw(&arguments, algorithm) }
    }

    /// Starts a scatter of blocks of different lengths. `send` and `blocks`, one per rank, are used at the root only; `recv`
    /// has `bytes` bytes, or is `None` at the root.
    ///
    /// # Errors
    /// [`Error::BufferLength`] for a list that has not one block per rank, and those of [`iscatter_raw`](Self::iscatter_raw).
    ///
    /// # Safety
    /// As for [`iscatter_raw`](Self::iscatter_raw), where the blocks are.
    pub unsafe fn iscatterv_raw(
        &self,
        send: *const u8,
        blocks: &[Block],
        recv: Option<*mut u8>,
        bytes: usize,
        root: u32,
        algorithm: Option<&str>,
    ) -> Result<RawRequest, Error> {
        let arguments = Arguments::Iscatterv { send, blocks, recv, bytes, root };
        // SAFETY: - the buffers: promised by the caller.
        unsafe { self.start_raw(&arguments, algorithm) }
    }

    /// Starts a gather of `bytes_per_rank` bytes from each rank. `recv` is used at the root only; `send` `None`, at the root
    /// only: its block stands among the others.
    ///
    /// # Errors
    /// As [`iscatter_raw`](Self::iscatter_raw).
    ///
    /// # Safety
    /// As for [`iscatter_raw`](Self::iscatter_raw).
    pub unsafe fn igather_raw(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        bytes_per_rank: usize,
        root: u32,
        algorithm: Option<&str>,
    ) -> Result<RawRequest, Error> {
        let arguments = Arguments::Igather { send, recv, block: bytes_per_rank, root };
        // SAFETY: - the buffers: promised by the caller.
        unsafe { self.start_raw(&arguments, algorithm) }
    }

    /// Starts a gather of blocks of different lengths. `recv` and `blocks`, one per rank and apart from each other, are used
    /// at the root only; `send` has `bytes` bytes, or is `None` at the root.
    ///
    /// # Errors
    /// As [`iscatterv_raw`](Self::iscatterv_raw).
    ///
    /// # Safety
    /// As for [`iscatterv_raw`](Self::iscatterv_raw).
    pub unsafe fn igatherv_raw(
        &self,
        send: Option<*const u8>,
        bytes: usize,
        recv: *mut u8,
        blocks: &[Block],
        root: u32,
        algorithm: Option<&str>,
    ) -> Result<RawRequest, Error> {
        let arguments = Arguments::Igatherv { send, bytes, recv, blocks, root };
        // SAFETY: - the buffers: promised by the caller.
        unsafe { self.start_raw(&arguments, algorithm) }
    }

    /// Starts an allgather of `bytes_per_rank` bytes from each rank; `send` `None`: in place.
    ///
    /// # Errors
    /// As [`iscatter_raw`](Self::iscatter_raw), without the root.
    ///
    /// # Safety
    /// As for [`iscatter_raw`](Self::iscatter_raw).
    pub unsafe fn iallgather_raw(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        bytes_per_rank: usize,
        algorithm: Option<&str>,
    ) -> Result<RawRequest, Error> {
        let arguments = Arguments::Iallgather { send, recv, block: bytes_per_rank };
        // SAFETY: - the buffers: promised by the caller.
        unsafe { self.start_raw(&arguments, algorithm) }
    }

    /// Starts an allgather of blocks of different lengths, the same on all ranks; `send` is as long as this rank's block, or
    /// `None`: in place.
    ///
    /// # Errors
    /// As [`iscatterv_raw`](Self::iscatterv_raw), without the root.
    ///
    /// # Safety
    /// As for [`iscatterv_raw`](Self::iscatterv_raw).
    pub unsafe fn iallgatherv_raw(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        blocks: &[Block],
        algorithm: Option<&str>,
    ) -> Result<RawRequest, Error> {
        let arguments = Arguments::Iallgatherv { send, recv, blocks };
        // SAFETY: - the buffers: promised by the caller.
        unsafe { self.start_raw(&arguments, algorithm) }
    }

    /// Starts an alltoall of `bytes_per_peer` bytes from and to each rank; `send` `None`: in place.
    ///
    /// # Errors
    /// As [`iallgather_raw`](Self::iallgather_raw).
    ///
    /// # Safety
    /// As for [`iscatter_raw`](Self::iscatter_raw), with `size * bytes_per_peer` bytes each.
    pub unsafe fn ialltoall_raw(
        &self,
        send: Option<*const u8>,
        recv: *mut u8,
        bytes_per_peer: usize,
        algorithm: Option<&str>,
    ) -> Result<RawRequest, Error> {
        let arguments = Arguments::Ialltoall { send, recv, block: bytes_per_peer };
        // SAFETY: - the buffers: promised by the caller.
        unsafe { self.start_raw(&arguments, algorithm) }
    }

    /// Starts an alltoall of blocks of different lengths; `send` `None`: in place, and each block that is sent is as long as
    /// the one that takes its place.
    ///
    /// # Errors
    /// As [`iallgatherv_raw`](Self::iallgatherv_raw).
    ///
    /// # Safety
    /// As for [`iscatterv_raw`](Self::iscatterv_raw).
    pub unsafe fn ialltoallv_raw(
        &self,
        send: Option<(*const u8, &[Block])>,
        recv: *mut u8,
        blocks: &[Block],
        algorithm: Option<&str>,
    ) -> Result<RawRequest, Error> {
        let arguments = Arguments::Ialltoallv { send, recv, blocks };
        // SAFETY: - the buffers: promised by the caller.
        unsafe { self.start_raw(&arguments, algorithm) }
    }

    /// Starts an alltoall of blocks that differ in type too: as [`ialltoallv_raw`](Self::ialltoallv_raw), in bytes already.
    ///
    /// # Errors
    /// As [`ialltoallv_raw`](Self::ialltoallv_raw).
    ///
    /// # Safety
    /// As for [`ialltoallv_raw`](Self::ialltoallv_raw).
    pub unsafe fn ialltoallw_raw(
        &self,
        send: Option<(*const u8, &[Block])>,
        recv: *mut u8,
        blocks: &[Block],
        algorithm: Option<&str>,
    ) -> Result<RawRequest, Error> {
        let arguments = Arguments::Ialltoallw { send, recv, blocks };
        // SAFETY: - the buffers: promised by the caller.
        unsafe { self.start_raw(&arguments, algorithm) }
    }
}
