//! Persistent in-place collectives.

use tocsin_world::Block;

use super::{Blocks, Form};
use crate::Error;
use crate::buffer::ElementBuffer;
use crate::collectives::persistent::one;
use crate::comm::Comm;
use crate::op::Op;
use crate::persistent::Persistent;

impl Comm {
    /// Prepares [`iscatter_in_place`](Self::iscatter_in_place), started by [`Persistent::start`].
    ///
    /// # Errors
    /// As [`iscatter_in_place`](Self::iscatter_in_place).
    pub fn scatter_in_place_init<B: ElementBuffer>(&self, buf: B, root: u32) -> Result<Persistent<B>, Error> {
        // SAFETY: - the buffer is the result's, which keeps it until no run needs it.
        one(buf, |buf| unsafe { self.begin_scatter_in_place(Form::Persistent, buf, root) })
    }

    /// Prepares [`iscatterv_in_place`](Self::iscatterv_in_place), started by [`Persistent::start`].
    ///
    /// # Errors
    /// As [`iscatterv_in_place`](Self::iscatterv_in_place).
    pub fn scatterv_in_place_init<B: ElementBuffer>(
        &self,
        buf: B,
        blocks: Blocks<'_>,
        root: u32,
    ) -> Result<Persistent<B>, Error> {
        // SAFETY: - the buffer is the result's, which keeps it until no run needs it.
        one(buf, |buf| unsafe { self.begin_scatterv_in_place(Form::Persistent, buf, blocks, root) })
    }

    /// Prepares [`igather_in_place`](Self::igather_in_place), started by [`Persistent::start`].
    ///
    /// # Errors
    /// As [`igather_in_place`](Self::igather_in_place).
    pub fn gather_in_place_init<B: ElementBuffer>(&self, buf: B, root: u32) -> Result<Persistent<B>, Error> {
        // SAFETY: - the buffer is the result's, which keeps it until no run needs it.
        one(buf, |buf| unsafe { self.begin_gather_in_place(Form::Persistent, buf, root) })
    }

    /// Prepares [`igatherv_in_place`](Self::igatherv_in_place), started by [`Persistent::start`].
    ///
    /// # Errors
    /// As [`igatherv_in_place`](Self::igatherv_in_place).
    pub fn gatherv_in_place_init<B: ElementBuffer>(
        &self,
        buf: B,
        blocks: Blocks<'_>,
        root: u32,
    ) -> Result<Persistent<B>, Error> {
        // SAFETY: - the buffer is the result's, which keeps it until no run needs it.
        one(buf, |buf| unsafe { self.begin_gatherv_in_place(Form::Persistent, buf, blocks, root) })
    }

    /// Prepares [`iallgather_in_place`](Self::iallgather_in_place), started by [`Persistent::start`].
    ///
    /// # Errors
    /// As [`iallgather_in_place`](Self::iallgather_in_place).
    pub fn allgather_in_place_init<B: ElementBuffer>(&self, buf: B) -> Result<Persistent<B>, Error> {
        // SAFETY: - the buffer is the result's, which keeps it until no run needs it.
        one(buf, |buf| unsafe { self.begin_allgather_in_place(Form::Persistent, buf) })
    }

    /// Prepares [`iallgatherv_in_place`](Self::iallgatherv_in_place), started by [`Persistent::start`].
    ///
    /// # Errors
    /// As [`iallgatherv_in_place`](Self::iallgatherv_in_place).
    pub fn allgatherv_in_place_init<B: ElementBuffer>(
        &self,
        buf: B,
        blocks: Blocks<'_>,
    ) -> Result<Persistent<B>, Error> {
        // SAFETY: - the buffer is the result's, which keeps it until no run needs it.
        one(buf, |buf| unsafe { self.begin_allgatherv_in_place(Form::Persistent, buf, blocks) })
    }

    /// Prepares [`ialltoall_in_place`](Self::ialltoall_in_place), started by [`Persistent::start`].
    ///
    /// # Errors
    /// As [`ialltoall_in_place`](Self::ialltoall_in_place).
    pub fn alltoall_in_place_init<B: ElementBuffer>(&self, buf: B) -> Result<Persistent<B>, Error> {
        // SAFETY: - the buffer is the result's, which keeps it until no run needs it.
        one(buf, |buf| unsafe { self.begin_alltoall_in_place(Form::Persistent, buf) })
    }

    /// Prepares [`ialltoallv_in_place`](Self::ialltoallv_in_place), started by [`Persistent::start`].
    ///
    /// # Errors
    /// As [`ialltoallv_in_place`](Self::ialltoallv_in_place).
    pub fn alltoallv_in_place_init<B: ElementBuffer>(
        &self,
        buf: B,
        blocks: Blocks<'_>,
    ) -> Result<Persistent<B>, Error> {
        // SAFETY: - the buffer is the result's, which keeps it until no run needs it.
        one(buf, |buf| unsafe { self.begin_alltoallv_in_place(Form::Persistent, buf, blocks) })
    }

    /// Prepares [`ialltoallw_in_place`](Self::ialltoallw_in_place), started by [`Persistent::start`].
    ///
    /// # Errors
    /// As [`ialltoallw_in_place`](Self::ialltoallw_in_place).
    pub fn alltoallw_in_place_init<B: ElementBuffer>(
        &self,
        buf: B,
        blocks: &[Block],
    ) -> Result<Persistent<B>, Error> {
        // SAFETY: - the buffer is the result's, which keeps it until no run needs it.
        one(buf, |buf| unsafe { self.begin_alltoallw_in_place(Form::Persistent, buf, blocks) })
    }

    /// Prepares [`ireduce_scatter_in_place`](Self::ireduce_scatter_in_place), started by [`Persistent::start`].
    ///
    /// # Errors
    /// As [`ireduce_scatter_in_place`](Self::ireduce_scatter_in_place).
    pub fn reduce_scatter_in_place_init<B: ElementBuffer>(
        &self,
        buf: B,
        counts: &[usize],
        op: Op<B::Item>,
    ) -> Result<Persistent<B>, Error> {
        // SAFETY: - the buffer is the result's, which keeps it until no run needs it.
        one(buf, |buf| unsafe { self.begin_reduce_scatter_in_place(Form::Persistent, buf, counts, op) })
    }

    /// Prepares [`ireduce_scatter_block_in_place`](Self::ireduce_scatter_block_in_place), started by [`Persistent::start`].
    ///
    /// # Errors
    /// As [`ireduce_scatter_block_in_place`](Self::ireduce_scatter_block_in_place).
    pub fn reduce_scatter_block_in_place_init<B: ElementBuffer>(
        &self,
        buf: B,
        op: Op<B::Item>,
    ) -> Result<Persistent<B>, Error> {
        // SAFETY: - the buffer is the result's, which keeps it until no run needs it.
        one(buf, |buf| unsafe { self.begin_reduce_scatter_block_in_place(Form::Persistent, buf, op) })
    }
}
