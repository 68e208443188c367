//! Communicators.

use crate::error::Error;
use crate::request::{RawRequest, Status};
use crate::{BackendKind, ConstBuf, DataType, Mode, MutBuf, Op, Snapshot};

/// A group of ranks whose traffic matches only itself.
#[derive(Clone, Debug)]
pub struct Comm {}

/// A message taken out of matching by [`Comm::improbe`], to be received by [`Comm::mrecv_raw`].
#[derive(Debug)]
pub struct Message {}

impl Comm {
    /// This process's rank in the communicator.
    pub fn rank(&self) -> u32 {
        0
    }
    /// Number of ranks.
    pub fn size(&self) -> u32 {
        1
    }
    /// Rank in the world of a rank of this communicator.
    pub fn world_rank(&self, _rank: u32) -> Option<u32> {
        None
    }
    /// Context id.
    pub fn context(&self) -> u32 {
        0
    }
    /// Backend of this rank.
    pub fn backend(&self) -> BackendKind {
        BackendKind::Poll
    }
    /// Statistics of this rank.
    pub fn stats(&self) -> Snapshot {
        Snapshot::default()
    }
    /// Makes one pass of progress.
    pub fn progress(&self) {}
    /// A communicator of the same ranks with its own context. Collective.
    /// # Errors
    /// As a collective.
    pub fn dup(&self) -> Result<Comm, Error> {
        Ok(self.clone())
    }
    /// As MPI_Comm_split; `None` color: no communicator. Collective.
    /// # Errors
    /// As a collective.
    pub fn split(&self, _color: Option<u32>, _key: i32) -> Result<Option<Comm>, Error> {
        Ok(None)
    }
    /// Every pending and later operation on it fails, here and on all its ranks.
    pub fn revoke(&self) {}
    /// Ends every rank of the world with `code`.
    pub fn abort(&self, code: i32) -> ! {
        std::process::exit(code)
    }
    /// Starts a send.
    /// # Errors
    /// Wrong arguments; dead peer.
    /// # Safety
    /// `buf` is readable and not written until the request is complete.
    pub unsafe fn isend_raw(
        &self,
        _buf: ConstBuf,
        _dest: u32,
        _tag: i32,
        _mode: Mode,
    ) -> Result<RawRequest, Error> {
        Ok(RawRequest {})
    }
    /// Starts a receive; `None` matches any.
    /// # Errors
    /// Wrong arguments; dead peer.
    /// # Safety
    /// `buf` is writable and used by nobody else until the request is complete.
    pub unsafe fn irecv_raw(
        &self,
        _buf: MutBuf,
        _source: Option<u32>,
        _tag: Option<i32>,
    ) -> Result<RawRequest, Error> {
        Ok(RawRequest {})
    }
    /// Sends and receives, waiting for both.
    /// # Errors
    /// Those of either.
    /// # Safety
    /// As `isend_raw` and `irecv_raw`, for the time of the call.
    pub unsafe fn sendrecv_raw(
        &self,
        _send: ConstBuf,
        _dest: u32,
        _send_tag: i32,
        _recv: MutBuf,
        _source: Option<u32>,
        _recv_tag: Option<i32>,
    ) -> Result<Status, Error> {
        Ok(Status::default())
    }
    /// Looks for a message without receiving it.
    /// # Errors
    /// Wrong arguments.
    pub fn iprobe(&self, _source: Option<u32>, _tag: Option<i32>) -> Result<Option<Status>, Error> {
        Ok(None)
    }
    /// Takes a message out of matching.
    /// # Errors
    /// Wrong arguments.
    pub fn improbe(
        &self,
        _source: Option<u32>,
        _tag: Option<i32>,
    ) -> Result<Option<(Message, Status)>, Error> {
        Ok(None)
    }
    /// Receives a message that `improbe` took.
    /// # Errors
    /// Dead peer.
    /// # Safety
    /// As `irecv_raw`.
    pub unsafe fn mrecv_raw(&self, _message: Message, _buf: MutBuf) -> Result<RawRequest, Error> {
        Ok(RawRequest {})
    }
    /// Starts a barrier.
    /// # Errors
    /// Unknown algorithm.
    pub fn ibarrier_raw(&self, _algorithm: Option<&str>) -> Result<RawRequest, Error> {
        Ok(RawRequest {})
    }
    /// Starts a broadcast of `bytes` bytes at `buf` from `root`.
    /// # Errors
    /// Wrong arguments.
    /// # Safety
    /// As `irecv_raw`.
    pub unsafe fn ibcast_raw(
        &self,
        _buf: *mut u8,
        _bytes: usize,
        _root: u32,
        _algorithm: Option<&str>,
    ) -> Result<RawRequest, Error> {
        Ok(RawRequest {})
    }
    /// Starts an allreduce of `count` elements; `send` `None`: in place.
    /// # Errors
    /// Wrong arguments.
    /// # Safety
    /// As `isend_raw` and `irecv_raw`; the buffers do not overlap.
    pub unsafe fn iallreduce_raw(
        &self,
        _send: Option<*const u8>,
        _recv: *mut u8,
        _count: usize,
        _data_type: DataType,
        _op: Op,
        _algorithm: Option<&str>,
    ) -> Result<RawRequest, Error> {
        Ok(RawRequest {})
    }
    /// Starts an alltoall of `bytes_per_peer` bytes from and to each rank.
    /// # Errors
    /// Wrong arguments.
    /// # Safety
    /// As `isend_raw` and `irecv_raw` for `size * bytes_per_peer` bytes; the buffers do not overlap.
    pub unsafe fn ialltoall_raw(
        &self,
        _send: *const u8,
        _recv: *mut u8,
        _bytes_per_peer: usize,
        _algorithm: Option<&str>,
    ) -> Result<RawRequest, Error> {
        Ok(RawRequest {})
    }
}
