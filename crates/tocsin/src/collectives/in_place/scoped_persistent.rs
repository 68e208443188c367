//! Persistent in-place collectives of a borrowed buffer.

use tocsin_world::Block;

use super::{Blocks, Form};
use crate::Error;
use crate::element::Element;
use crate::lent::Lent;
use crate::op::Op;
use crate::scope::Scope;
use crate::scoped_persistent::ScopedPersistent;

impl<'scope, 'env> Scope<'scope, 'env> {
    /// As [`Comm::scatter_in_place_init`](crate::Comm::scatter_in_place_init), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::scatter_in_place_init`](crate::Comm::scatter_in_place_init).
    pub fn scatter_in_place_init<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        root: u32,
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - the buffer is the scope's, which ends only after no run touches it.
        let raw = unsafe { self.comm().begin_scatter_in_place(Form::Persistent, buf.part(), root)? };
        Ok(self.keep_persistent(raw, buf, Lent::NOTHING))
    }

    /// As [`Comm::scatterv_in_place_init`](crate::Comm::scatterv_in_place_init), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::scatterv_in_place_init`](crate::Comm::scatterv_in_place_init).
    pub fn scatterv_in_place_init<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        blocks: Blocks<'_>,
        root: u32,
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - the buffer is the scope's, which ends only after no run touches it.
        let raw = unsafe { self.comm().begin_scatterv_in_place(Form::Persistent, buf.part(), blocks, root)? };
        Ok(self.keep_persistent(raw, buf, Lent::NOTHING))
    }

    /// As [`Comm::gather_in_place_init`](crate::Comm::gather_in_place_init), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::gather_in_place_init`](crate::Comm::gather_in_place_init).
    pub fn gather_in_place_init<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        root: u32,
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - the buffer is the scope's, which ends only after no run touches it.
        let raw = unsafe { self.comm().begin_gather_in_place(Form::Persistent, buf.part(), root)? };
        Ok(self.keep_persistent(raw, buf, Lent::NOTHING))
    }

    /// As [`Comm::gatherv_in_place_init`](crate::Comm::gatherv_in_place_init), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::gatherv_in_place_init`](crate::Comm::gatherv_in_place_init).
    pub fn gatherv_in_place_init<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        blocks: Blocks<'_>,
        root: u32,
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - the buffer is the scope's, which ends only after no run touches it.
        let raw = unsafe { self.comm().begin_gatherv_in_place(Form::Persistent, buf.part(), blocks, root)? };
        Ok(self.keep_persistent(raw, buf, Lent::NOTHING))
    }

    /// As [`Comm::allgather_in_place_init`](crate::Comm::allgather_in_place_init), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::allgather_in_place_init`](crate::Comm::allgather_in_place_init).
    pub fn allgather_in_place_init<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - the buffer is the scope's, which ends only after no run touches it.
        let raw = unsafe { self.comm().begin_allgather_in_place(Form::Persistent, buf.part())? };
        Ok(self.keep_persistent(raw, buf, Lent::NOTHING))
    }

    /// As [`Comm::allgatherv_in_place_init`](crate::Comm::allgatherv_in_place_init), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::allgatherv_in_place_init`](crate::Comm::allgatherv_in_place_init).
    pub fn allgatherv_in_place_init<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        blocks: Blocks<'_>,
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - the buffer is the scope's, which ends only after no run touches it.
        let raw = unsafe { self.comm().begin_allgatherv_in_place(Form::Persistent, buf.part(), blocks)? };
        Ok(self.keep_persistent(raw, buf, Lent::NOTHING))
    }

    /// As [`Comm::alltoall_in_place_init`](crate::Comm::alltoall_in_place_init), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::alltoall_in_place_init`](crate::Comm::alltoall_in_place_init).
    pub fn alltoall_in_place_init<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - the buffer is the scope's, which ends only after no run touches it.
        let raw = unsafe { self.comm().begin_alltoall_in_place(Form::Persistent, buf.part())? };
        Ok(self.keep_persistent(raw, buf, Lent::NOTHING))
    }

    /// As [`Comm::alltoallv_in_place_init`](crate::Comm::alltoallv_in_place_init), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::alltoallv_in_place_init`](crate::Comm::alltoallv_in_place_init).
    pub fn alltoallv_in_place_init<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        blocks: Blocks<'_>,
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - the buffer is the scope's, which ends only after no run touches it.
        let raw = unsafe { self.comm().begin_alltoallv_in_place(Form::Persistent, buf.part(), blocks)? };
        Ok(self.keep_persistent(raw, buf, Lent::NOTHING))
    }

    /// As [`Comm::alltoallw_in_place_init`](crate::Comm::alltoallw_in_place_init), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::alltoallw_in_place_init`](crate::Comm::alltoallw_in_place_init).
    pub fn alltoallw_in_place_init<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        blocks: &[Block],
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - the buffer is the scope's, which ends only after no run touches it.
        let raw = unsafe { self.comm().begin_alltoallw_in_place(Form::Persistent, buf.part(), blocks)? };
        Ok(self.keep_persistent(raw, buf, Lent::NOTHING))
    }

    /// As [`Comm::reduce_scatter_in_place_init`](crate::Comm::reduce_scatter_in_place_init), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::reduce_scatter_in_place_init`](crate::Comm::reduce_scatter_in_place_init).
    pub fn reduce_scatter_in_place_init<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        counts: &[usize],
        op: Op<T>,
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - the buffer is the scope's, which ends only after no run touches it.
        let raw =
            unsafe { self.comm().begin_reduce_scatter_in_place(Form::Persistent, buf.part(), counts, op)? };
        Ok(self.keep_persistent(raw, buf, Lent::NOTHING))
    }

    /// As [`Comm::reduce_scatter_block_in_place_init`](crate::Comm::reduce_scatter_block_in_place_init), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::reduce_scatter_block_in_place_init`](crate::Comm::reduce_scatter_block_in_place_init).
    pub fn reduce_scatter_block_in_place_init<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        op: Op<T>,
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - the buffer is the scope's, which ends only after no run touches it.
        let raw =
            unsafe { self.comm().begin_reduce_scatter_block_in_place(Form::Persistent, buf.part(), op)? };
        Ok(self.keep_persistent(raw, buf, Lent::NOTHING))
    }
}
