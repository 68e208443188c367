//! Collectives of borrowed buffers.

use tocsin_world::Block;

use super::{Blocks, Form, Part};
use crate::Error;
use crate::element::Element;
use crate::lent::Lent;
use crate::op::Op;
use crate::scope::{Scope, ScopedRequest};

impl<'scope, 'env> Scope<'scope, 'env> {
    /// As [`Comm::iscatter`](crate::Comm::iscatter), of borrowed buffers.
    ///
    /// # Errors
    /// As [`Comm::iscatter`](crate::Comm::iscatter).
    pub fn iscatter<T: Element>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
        root: u32,
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let recv = Lent::new(recv);
        // SAFETY: - both are borrowed for 'scope, which ends only after nothing touches them.
        let raw = unsafe { self.comm().begin_scatter(Form::Now, Part::read(send), recv.part(), root)? };
        Ok(self.keep(raw, recv))
    }

    /// As [`Comm::iscatterv`](crate::Comm::iscatterv), of borrowed buffers.
    ///
    /// # Errors
    /// As [`Comm::iscatterv`](crate::Comm::iscatterv).
    pub fn iscatterv<T: Element>(
        &'scope self,
        send: &'scope [T],
        blocks: Blocks<'_>,
        recv: &'scope mut [T],
        root: u32,
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let recv = Lent::new(recv);
        // SAFETY: - both are borrowed for 'scope, which ends only after nothing touches them.
        let raw =
            unsafe { self.comm().begin_scatterv(Form::Now, Part::read(send), blocks, recv.part(), root)? };
        Ok(self.keep(raw, recv))
    }

    /// As [`Comm::igather`](crate::Comm::igather), of borrowed buffers.
    ///
    /// # Errors
    /// As [`Comm::igather`](crate::Comm::igather).
    pub fn igather<T: Element>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
        root: u32,
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let recv = Lent::new(recv);
        // SAFETY: - both are borrowed for 'scope, which ends only after nothing touches them.
        let raw = unsafe { self.comm().begin_gather(Form::Now, Part::read(send), recv.part(), root)? };
        Ok(self.keep(raw, recv))
    }

    /// As [`Comm::igatherv`](crate::Comm::igatherv), of borrowed buffers.
    ///
    /// # Errors
    /// As [`Comm::igatherv`](crate::Comm::igatherv).
    pub fn igatherv<T: Element>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
        blocks: Blocks<'_>,
        root: u32,
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let recv = Lent::new(recv);
        // SAFETY: - both are borrowed for 'scope, which ends only after nothing touches them.
        let raw =
            unsafe { self.comm().begin_gatherv(Form::Now, Part::read(send), recv.part(), blocks, root)? };
        Ok(self.keep(raw, recv))
    }

    /// As [`Comm::iallgather`](crate::Comm::iallgather), of borrowed buffers.
    ///
    /// # Errors
    /// As [`Comm::iallgather`](crate::Comm::iallgather).
    pub fn iallgather<T: Element>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let recv = Lent::new(recv);
        // SAFETY: - both are borrowed for 'scope, which ends only after nothing touches them.
        let raw = unsafe { self.comm().begin_allgather(Form::Now, Part::read(send), recv.part())? };
        Ok(self.keep(raw, recv))
    }

    /// As [`Comm::iallgatherv`](crate::Comm::iallgatherv), of borrowed buffers.
    ///
    /// # Errors
    /// As [`Comm::iallgatherv`](crate::Comm::iallgatherv).
    pub fn iallgatherv<T: Element>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
        blocks: Blocks<'_>,
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let recv = Lent::new(recv);
        // SAFETY: - both are borrowed for 'scope, which ends only after nothing touches them.
        let raw = unsafe { self.comm().begin_allgatherv(Form::Now, Part::read(send), recv.part(), blocks)? };
        Ok(self.keep(raw, recv))
    }

    /// As [`Comm::ireduce_scatter`](crate::Comm::ireduce_scatter), of borrowed buffers.
    ///
    /// # Errors
    /// As [`Comm::ireduce_scatter`](crate::Comm::ireduce_scatter).
    pub fn ireduce_scatter<T: Element>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
        counts: &[usize],
        op: Op<T>,
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let recv = Lent::new(recv);
        // SAFETY: - both are borrowed for 'scope, which ends only after nothing touches them.
        let raw = unsafe {
            self.comm().begin_reduce_scatter(Form::Now, Part::read(send), recv.part(), counts, op)?
        };
        Ok(self.keep(raw, recv))
    }

    /// As [`Comm::ireduce_scatter_block`](crate::Comm::ireduce_scatter_block), of borrowed buffers.
    ///
    /// # Errors
    /// As [`Comm::ireduce_scatter_block`](crate::Comm::ireduce_scatter_block).
    pub fn ireduce_scatter_block<T: Element>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
        op: Op<T>,
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let recv = Lent::new(recv);
        // SAFETY: - both are borrowed for 'scope, which ends only after nothing touches them.
        let raw =
            unsafe { self.comm().begin_reduce_scatter_block(Form::Now, Part::read(send), recv.part(), op)? };
        Ok(self.keep(raw, recv))
    }

    /// As [`Comm::ireduce`](crate::Comm::ireduce), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::ireduce`](crate::Comm::ireduce).
    pub fn ireduce<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        op: Op<T>,
        root: u32,
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - exclusively borrowed for 'scope, which ends only after nothing touches it.
        let raw = unsafe { self.comm().begin_reduce(Form::Now, buf.part(), op, root)? };
        Ok(self.keep(raw, buf))
    }

    /// As [`Comm::iscan`](crate::Comm::iscan), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::iscan`](crate::Comm::iscan).
    pub fn iscan<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        op: Op<T>,
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - exclusively borrowed for 'scope, which ends only after nothing touches it.
        let raw = unsafe { self.comm().begin_scan(Form::Now, buf.part(), op)? };
        Ok(self.keep(raw, buf))
    }

    /// As [`Comm::iexscan`](crate::Comm::iexscan), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::iexscan`](crate::Comm::iexscan).
    pub fn iexscan<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        op: Op<T>,
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - exclusively borrowed for 'scope, which ends only after nothing touches it.
        let raw = unsafe { self.comm().begin_exscan(Form::Now, buf.part(), op)? };
        Ok(self.keep(raw, buf))
    }

    /// As [`Comm::ialltoallv`](crate::Comm::ialltoallv), of borrowed buffers.
    ///
    /// # Errors
    /// As [`Comm::ialltoallv`](crate::Comm::ialltoallv).
    pub fn ialltoallv<T: Element>(
        &'scope self,
        send: &'scope [T],
        send_blocks: Blocks<'_>,
        recv: &'scope mut [T],
        recv_blocks: Blocks<'_>,
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let recv = Lent::new(recv);
        let from = (Part::read(send), send_blocks);
        // SAFETY: - both are borrowed for 'scope, which ends only after nothing touches them.
        let raw = unsafe { self.comm().begin_alltoallv(Form::Now, from, (recv.part(), recv_blocks))? };
        Ok(self.keep(raw, recv))
    }

    /// As [`Comm::ialltoallw`](crate::Comm::ialltoallw), of borrowed buffers.
    ///
    /// # Errors
    /// As [`Comm::ialltoallw`](crate::Comm::ialltoallw).
    pub fn ialltoallw<S: Element, R: Element>(
        &'scope self,
        send: &'scope [S],
        send_blocks: &[Block],
        recv: &'scope mut [R],
        recv_blocks: &[Block],
    ) -> Result<ScopedRequest<'scope, &'scope mut [R]>, Error> {
        let recv = Lent::new(recv);
        let from = (Part::read(send), send_blocks);
        // SAFETY: - both are borrowed for 'scope, which ends only after nothing touches them.
        let raw = unsafe { self.comm().begin_alltoallw(Form::Now, from, (recv.part(), recv_blocks))? };
        Ok(self.keep(raw, recv))
    }
}
