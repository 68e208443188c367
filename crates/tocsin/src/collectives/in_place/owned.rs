//! In-place collectives that own their buffer, and blocking ones.

use tocsin_world::Block;

use super::{Blocks, Form};
use crate::Error;
use crate::buffer::ElementBuffer;
use crate::collectives::owned::one;
use crate::comm::Comm;
use crate::element::Element;
use crate::op::Op;
use crate::request::Request;

impl Comm {
    /// Starts giving each rank a block of the root's `buf`, where the root's own block stays; the other ranks receive into
    /// theirs, which are as long as a block. The in-place form of [`iscatter`](Self::iscatter), for any of the ranks: the
    /// others may use that one.
    ///
    /// # Errors
    /// A `buf` at the root that is no multiple of [`size`](Self::size) long, and as [`iscatter`](Self::iscatter).
    pub fn iscatter_in_place<B: ElementBuffer>(&self, buf: B, root: u32) -> Result<Request<B>, Error> {
        // SAFETY: - the request owns the buffer and keeps it until it is complete, also when dropped; forgotten, it leaks.
        one(buf, |buf| unsafe { self.begin_scatter_in_place(Form::Now, buf, root) })
    }

    /// As [`iscatter_in_place`](Self::iscatter_in_place), with blocks of different lengths: each as long as the `buf` of its
    /// rank. `blocks` is used at the root only.
    ///
    /// # Errors
    /// Blocks that leave `buf` or are not one per rank, and as [`iscatter`](Self::iscatter).
    pub fn iscatterv_in_place<B: ElementBuffer>(
        &self,
        buf: B,
        blocks: Blocks<'_>,
        root: u32,
    ) -> Result<Request<B>, Error> {
        // SAFETY: - the request owns the buffer and keeps it until it is complete, also when dropped; forgotten, it leaks.
        one(buf, |buf| unsafe { self.begin_scatterv_in_place(Form::Now, buf, blocks, root) })
    }

    /// Starts collecting every rank's `buf` in the root's, in rank order: the root's own block stands there already, and the
    /// others' stay as they are. The in-place form of [`igather`](Self::igather), for any of the ranks: the others may use
    /// that one.
    ///
    /// # Errors
    /// A `buf` at the root that is no multiple of [`size`](Self::size) long, and as [`igather`](Self::igather).
    pub fn igather_in_place<B: ElementBuffer>(&self, buf: B, root: u32) -> Result<Request<B>, Error> {
        // SAFETY: - the request owns the buffer and keeps it until it is complete, also when dropped; forgotten, it leaks.
        one(buf, |buf| unsafe { self.begin_gather_in_place(Form::Now, buf, root) })
    }

    /// As [`igather_in_place`](Self::igather_in_place), with blocks of different lengths: each as long as the `buf` of its
    /// rank. `blocks` is used at the root only; what lies between them stays as it is.
    ///
    /// # Errors
    /// Blocks that overlap, leave `buf` or are not one per rank, and as [`igather`](Self::igather).
    pub fn igatherv_in_place<B: ElementBuffer>(
        &self,
        buf: B,
        blocks: Blocks<'_>,
        root: u32,
    ) -> Result<Request<B>, Error> {
        // SAFETY: - the request owns the buffer and keeps it until it is complete, also when dropped; forgotten, it leaks.
        one(buf, |buf| unsafe { self.begin_gatherv_in_place(Form::Now, buf, blocks, root) })
    }

    /// Starts collecting every rank's block in everybody's `buf`, in rank order: this rank's stands there already. The
    /// in-place form of [`iallgather`](Self::iallgather), for any of the ranks: the others may use that one.
    ///
    /// # Errors
    /// A `buf` that is no multiple of [`size`](Self::size) long, and as [`iallgather`](Self::iallgather).
    pub fn iallgather_in_place<B: ElementBuffer>(&self, buf: B) -> Result<Request<B>, Error> {
        // SAFETY: - the request owns the buffer and keeps it until it is complete, also when dropped; forgotten, it leaks.
        one(buf, |buf| unsafe { self.begin_allgather_in_place(Form::Now, buf) })
    }

    /// As [`iallgather_in_place`](Self::iallgather_in_place), with blocks of different lengths, the same on all ranks; where
    /// they stand is each rank's own business, and what lies between them stays as it is.
    ///
    /// # Errors
    /// Blocks that overlap, leave `buf` or are not one per rank, and as [`iallgather`](Self::iallgather).
    pub fn iallgatherv_in_place<B: ElementBuffer>(
        &self,
        buf: B,
        blocks: Blocks<'_>,
    ) -> Result<Request<B>, Error> {
        // SAFETY: - the request owns the buffer and keeps it until it is complete, also when dropped; forgotten, it leaks.
        one(buf, |buf| unsafe { self.begin_allgatherv_in_place(Form::Now, buf, blocks) })
    }

    /// Starts an exchange: block i of `buf` goes to rank i, and the block that comes from rank i takes its place. Ranks may
    /// mix it with [`ialltoall`](Self::ialltoall), which leaves what is sent alone and allocates the result; here the
    /// schedule has room for a copy of what is sent.
    ///
    /// # Errors
    /// As [`ialltoall`](Self::ialltoall).
    pub fn ialltoall_in_place<B: ElementBuffer>(&self, buf: B) -> Result<Request<B>, Error> {
        // SAFETY: - the request owns the buffer and keeps it until it is complete, also when dropped; forgotten, it leaks.
        one(buf, |buf| unsafe { self.begin_alltoall_in_place(Form::Now, buf) })
    }

    /// As [`ialltoall_in_place`](Self::ialltoall_in_place), with blocks of different lengths: what a rank sends to another is
    /// as long as what comes from there. What lies between the blocks stays as it is.
    ///
    /// # Errors
    /// Blocks that overlap, leave `buf` or are not one per rank, and as [`ialltoallv`](Self::ialltoallv).
    pub fn ialltoallv_in_place<B: ElementBuffer>(
        &self,
        buf: B,
        blocks: Blocks<'_>,
    ) -> Result<Request<B>, Error> {
        // SAFETY: - the request owns the buffer and keeps it until it is complete, also when dropped; forgotten, it leaks.
        one(buf, |buf| unsafe { self.begin_alltoallv_in_place(Form::Now, buf, blocks) })
    }

    /// As [`ialltoallv_in_place`](Self::ialltoallv_in_place), where each block may have elements of its own type: they are
    /// given in bytes.
    ///
    /// # Errors
    /// As [`ialltoallv_in_place`](Self::ialltoallv_in_place).
    pub fn ialltoallw_in_place<B: ElementBuffer>(
        &self,
        buf: B,
        blocks: &[Block],
    ) -> Result<Request<B>, Error> {
        // SAFETY: - the request owns the buffer and keeps it until it is complete, also when dropped; forgotten, it leaks.
        one(buf, |buf| unsafe { self.begin_alltoallw_in_place(Form::Now, buf, blocks) })
    }

    /// Starts combining every rank's `buf` element by element; of the result, this rank's part takes the start of its own:
    /// the `counts[i]` elements that follow those of the ranks before it, on rank i. What stands behind it is in no particular
    /// state then. All ranks give the same counts. The in-place form of [`ireduce_scatter`](Self::ireduce_scatter).
    ///
    /// # Errors
    /// A `buf` that is not as long as the counts say, and as [`ireduce_scatter`](Self::ireduce_scatter).
    pub fn ireduce_scatter_in_place<B: ElementBuffer>(
        &self,
        buf: B,
        counts: &[usize],
        op: Op<B::Item>,
    ) -> Result<Request<B>, Error> {
        // SAFETY: - the request owns the buffer and keeps it until it is complete, also when dropped; forgotten, it leaks.
        one(buf, |buf| unsafe { self.begin_reduce_scatter_in_place(Form::Now, buf, counts, op) })
    }

    /// As [`ireduce_scatter_in_place`](Self::ireduce_scatter_in_place), with parts of one length.
    ///
    /// # Errors
    /// A `buf` that is no multiple of [`size`](Self::size) long, and as [`ireduce_scatter`](Self::ireduce_scatter).
    pub fn ireduce_scatter_block_in_place<B: ElementBuffer>(
        &self,
        buf: B,
        op: Op<B::Item>,
    ) -> Result<Request<B>, Error> {
        // SAFETY: - the request owns the buffer and keeps it until it is complete, also when dropped; forgotten, it leaks.
        one(buf, |buf| unsafe { self.begin_reduce_scatter_block_in_place(Form::Now, buf, op) })
    }

    /// As [`iscatter_in_place`](Self::iscatter_in_place), and waits.
    ///
    /// # Errors
    /// As [`iscatter_in_place`](Self::iscatter_in_place).
    pub fn scatter_in_place<T: Element>(&self, buf: &mut [T], root: u32) -> Result<(), Error> {
        self.scope(|s| s.iscatter_in_place(buf, root)?.wait().map(|_| ()))
    }

    /// As [`iscatterv_in_place`](Self::iscatterv_in_place), and waits.
    ///
    /// # Errors
    /// As [`iscatterv_in_place`](Self::iscatterv_in_place).
    pub fn scatterv_in_place<T: Element>(
        &self,
        buf: &mut [T],
        blocks: Blocks<'_>,
        root: u32,
    ) -> Result<(), Error> {
        self.scope(|s| s.iscatterv_in_place(buf, blocks, root)?.wait().map(|_| ()))
    }

    /// As [`igather_in_place`](Self::igather_in_place), and waits.
    ///
    /// # Errors
    /// As [`igather_in_place`](Self::igather_in_place).
    pub fn gather_in_place<T: Element>(&self, buf: &mut [T], root: u32) -> Result<(), Error> {
        self.scope(|s| s.igather_in_place(buf, root)?.wait().map(|_| ()))
    }

    /// As [`igatherv_in_place`](Self::igatherv_in_place), and waits.
    ///
    /// # Errors
    /// As [`igatherv_in_place`](Self::igatherv_in_place).
    pub fn gatherv_in_place<T: Element>(
        &self,
        buf: &mut [T],
        blocks: Blocks<'_>,
        root: u32,
    ) -> Result<(), Error> {
        self.scope(|s| s.igatherv_in_place(buf, blocks, root)?.wait().map(|_| ()))
    }

    /// As [`iallgather_in_place`](Self::iallgather_in_place), and waits.
    ///
    /// # Errors
    /// As [`iallgather_in_place`](Self::iallgather_in_place).
    pub fn allgather_in_place<T: Element>(&self, buf: &mut [T]) -> Result<(), Error> {
        self.scope(|s| s.iallgather_in_place(buf)?.wait().map(|_| ()))
    }

    /// As [`iallgatherv_in_place`](Self::iallgatherv_in_place), and waits.
    ///
    /// # Errors
    /// As [`iallgatherv_in_place`](Self::iallgatherv_in_place).
    pub fn allgatherv_in_place<T: Element>(&self, buf: &mut [T], blocks: Blocks<'_>) -> Result<(), Error> {
        self.scope(|s| s.iallgatherv_in_place(buf, blocks)?.wait().map(|_| ()))
    }

    /// As [`ialltoall_in_place`](Self::ialltoall_in_place), and waits.
    ///
    /// # Errors
    /// As [`ialltoall_in_place`](Self::ialltoall_in_place).
    pub fn alltoall_in_place<T: Element>(&self, buf: &mut [T]) -> Result<(), Error> {
        self.scope(|s| s.ialltoall_in_place(buf)?.wait().map(|_| ()))
    }

    /// As [`ialltoallv_in_place`](Self::ialltoallv_in_place), and waits.
    ///
    /// # Errors
    /// As [`ialltoallv_in_place`](Self::ialltoallv_in_place).
    pub fn alltoallv_in_place<T: Element>(&self, buf: &mut [T], blocks: Blocks<'_>) -> Result<(), Error> {
        self.scope(|s| s.ialltoallv_in_place(buf, blocks)?.wait().map(|_| ()))
    }

    /// As [`ialltoallw_in_place`](Self::ialltoallw_in_place), and waits.
    ///
    /// # Errors
    /// As [`ialltoallw_in_place`](Self::ialltoallw_in_place).
    pub fn alltoallw_in_place<T: Element>(&self, buf: &mut [T], blocks: &[Block]) -> Result<(), Error> {
        self.scope(|s| s.ialltoallw_in_place(buf, blocks)?.wait().map(|_| ()))
    }

    /// As [`ireduce_scatter_in_place`](Self::ireduce_scatter_in_place), and waits.
    ///
    /// # Errors
    /// As [`ireduce_scatter_in_place`](Self::ireduce_scatter_in_place).
    pub fn reduce_scatter_in_place<T: Element>(
        &self,
        buf: &mut [T],
        counts: &[usize],
        op: Op<T>,
    ) -> Result<(), Error> {
        self.scope(|s| s.ireduce_scatter_in_place(buf, counts, op)?.wait().map(|_| ()))
    }

    /// As [`ireduce_scatter_block_in_place`](Self::ireduce_scatter_block_in_place), and waits.
    ///
    /// # Errors
    /// As [`ireduce_scatter_block_in_place`](Self::ireduce_scatter_block_in_place).
    pub fn reduce_scatter_block_in_place<T: Element>(&self, buf: &mut [T], op: Op<T>) -> Result<(), Error> {
        self.scope(|s| s.ireduce_scatter_block_in_place(buf, op)?.wait().map(|_| ()))
    }
}
