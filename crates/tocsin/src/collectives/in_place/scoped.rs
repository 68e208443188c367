//! In-place collectives of a borrowed buffer.

use tocsin_world::Block;

use super::{Blocks, Form};
use crate::Error;
use crate::element::Element;
use crate::lent::Lent;
use crate::op::Op;
use crate::scope::{Scope, ScopedRequest};

impl<'scope, 'env> Scope<'scope, 'env> {
    /// As [`Comm::iscatter_in_place`](crate::Comm::iscatter_in_place), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::iscatter_in_place`](crate::Comm::iscatter_in_place).
    pub fn iscatter_in_place<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        root: u32,
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - exclusively borrowed for 'scope, which ends only after nothing touches it.
        let raw = unsafe { self.comm().begin_scatter_in_place(Form::Now, buf.part(), root)? };
        Ok(self.keep(raw, buf))
    }

    /// As [`Comm::iscatterv_in_place`](crate::Comm::iscatterv_in_place), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::iscatterv_in_place`](crate::Comm::iscatterv_in_place).
    pub fn iscatterv_in_place<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        blocks: Blocks<'_>,
        root: u32,
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - exclusively borrowed for 'scope, which ends only after nothing touches it.
        let raw = unsafe { self.comm().begin_scatterv_in_place(Form::Now, buf.part(), blocks, root)? };
        Ok(self.keep(raw, buf))
    }

    /// As [`Comm::igather_in_place`](crate::Comm::igather_in_place), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::igather_in_place`](crate::Comm::igather_in_place).
    pub fn igather_in_place<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        root: u32,
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - exclusively borrowed for 'scope, which ends only after nothing touches it.
        let raw = unsafe { self.comm().begin_gather_in_place(Form::Now, buf.part(), root)? };
        Ok(self.keep(raw, buf))
    }

    /// As [`Comm::igatherv_in_place`](crate::Comm::igatherv_in_place), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::igatherv_in_place`](crate::Comm::igatherv_in_place).
    pub fn igatherv_in_place<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        blocks: Blocks<'_>,
        root: u32,
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - exclusively borrowed for 'scope, which ends only after nothing touches it.
        let raw = unsafe { self.comm().begin_gatherv_in_place(Form::Now, buf.part(), blocks, root)? };
        Ok(self.keep(raw, buf))
    }

    /// As [`Comm::iallgather_in_place`](crate::Comm::iallgather_in_place), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::iallgather_in_place`](crate::Comm::iallgather_in_place).
    pub fn iallgather_in_place<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - exclusively borrowed for 'scope, which ends only after nothing touches it.
        let raw = unsafe { self.comm().begin_allgather_in_place(Form::Now, buf.part())? };
        Ok(self.keep(raw, buf))
    }

    /// As [`Comm::iallgatherv_in_place`](crate::Comm::iallgatherv_in_place), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::iallgatherv_in_place`](crate::Comm::iallgatherv_in_place).
    pub fn iallgatherv_in_place<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        blocks: Blocks<'_>,
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - exclusively borrowed for 'scope, which ends only after nothing touches it.
        let raw = unsafe { self.comm().begin_allgatherv_in_place(Form::Now, buf.part(), blocks)? };
        Ok(self.keep(raw, buf))
    }

    /// As [`Comm::ialltoall_in_place`](crate::Comm::ialltoall_in_place), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::ialltoall_in_place`](crate::Comm::ialltoall_in_place).
    pub fn ialltoall_in_place<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - exclusively borrowed for 'scope, which ends only after nothing touches it.
        let raw = unsafe { self.comm().begin_alltoall_in_place(Form::Now, buf.part())? };
        Ok(self.keep(raw, buf))
    }

    /// As [`Comm::ialltoallv_in_place`](crate::Comm::ialltoallv_in_place), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::ialltoallv_in_place`](crate::Comm::ialltoallv_in_place).
    pub fn ialltoallv_in_place<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        blocks: Blocks<'_>,
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - exclusively borrowed for 'scope, which ends only after nothing touches it.
        let raw = unsafe { self.comm().begin_alltoallv_in_place(Form::Now, buf.part(), blocks)? };
        Ok(self.keep(raw, buf))
    }

    /// As [`Comm::ialltoallw_in_place`](crate::Comm::ialltoallw_in_place), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::ialltoallw_in_place`](crate::Comm::ialltoallw_in_place).
    pub fn ialltoallw_in_place<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        blocks: &[Block],
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - exclusively borrowed for 'scope, which ends only after nothing touches it.
        let raw = unsafe { self.comm().begin_alltoallw_in_place(Form::Now, buf.part(), blocks)? };
        Ok(self.keep(raw, buf))
    }

    /// As [`Comm::ireduce_scatter_in_place`](crate::Comm::ireduce_scatter_in_place), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::ireduce_scatter_in_place`](crate::Comm::ireduce_scatter_in_place).
    pub fn ireduce_scatter_in_place<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        counts: &[usize],
        op: Op<T>,
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - exclusively borrowed for 'scope, which ends only after nothing touches it.
        let raw = unsafe { self.comm().begin_reduce_scatter_in_place(Form::Now, buf.part(), counts, op)? };
        Ok(self.keep(raw, buf))
    }

    /// As [`Comm::ireduce_scatter_block_in_place`](crate::Comm::ireduce_scatter_block_in_place), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::ireduce_scatter_block_in_place`](crate::Comm::ireduce_scatter_block_in_place).
    pub fn ireduce_scatter_block_in_place<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        op: Op<T>,
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - exclusively borrowed for 'scope, which ends only after nothing touches it.
        let raw = unsafe { self.comm().begin_reduce_scatter_block_in_place(Form::Now, buf.part(), op)? };
        Ok(self.keep(raw, buf))
    }
}
