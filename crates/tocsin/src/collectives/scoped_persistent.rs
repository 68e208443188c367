//! Persistent collectives of borrowed buffers.

use tocsin_world::{Arguments, Block};

use super::{Blocks, Form};
use crate::Error;
use crate::element::Element;
use crate::lent::Lent;
use crate::op::Op;
use crate::scope::Scope;
use crate::scoped_persistent::ScopedPersistent;

/// Preparing concerns no other rank, and starts nothing.
impl<'scope, 'env> Scope<'scope, 'env> {
    /// As [`Comm::barrier_init`](crate::Comm::barrier_init).
    ///
    /// # Errors
    /// As [`Comm::barrier_init`](crate::Comm::barrier_init).
    pub fn barrier_init(&'scope self) -> Result<ScopedPersistent<'scope, ()>, Error> {
        // SAFETY: - a barrier has no buffers.
        let raw = unsafe { self.comm().begin(Form::Persistent, &Arguments::Ibarrier)? };
        Ok(self.keep_persistent(raw, Lent::NOTHING, Lent::NOTHING))
    }

    /// As [`Comm::bcast_init`](crate::Comm::bcast_init), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::bcast_init`](crate::Comm::bcast_init).
    pub fn bcast_init<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        root: u32,
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - the buffer is the scope's, which ends only after no run touches it.
        let raw = unsafe { self.comm().begin_bcast(Form::Persistent, buf.part(), root)? };
        Ok(self.keep_persistent(raw, buf, Lent::NOTHING))
    }

    /// As [`Comm::reduce_init`](crate::Comm::reduce_init), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::reduce_init`](crate::Comm::reduce_init).
    pub fn reduce_init<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        op: Op<T>,
        root: u32,
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - the buffer is the scope's, which ends only after no run touches it.
        let raw = unsafe { self.comm().begin_reduce(Form::Persistent, buf.part(), op, root)? };
        Ok(self.keep_persistent(raw, buf, Lent::NOTHING))
    }

    /// As [`Comm::allreduce_init`](crate::Comm::allreduce_init), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::allreduce_init`](crate::Comm::allreduce_init).
    pub fn allreduce_init<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        op: Op<T>,
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - the buffer is the scope's, which ends only after no run touches it.
        let raw = unsafe { self.comm().begin_allreduce(Form::Persistent, buf.part(), op)? };
        Ok(self.keep_persistent(raw, buf, Lent::NOTHING))
    }

    /// As [`Comm::scan_init`](crate::Comm::scan_init), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::scan_init`](crate::Comm::scan_init).
    pub fn scan_init<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        op: Op<T>,
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - the buffer is the scope's, which ends only after no run touches it.
        let raw = unsafe { self.comm().begin_scan(Form::Persistent, buf.part(), op)? };
        Ok(self.keep_persistent(raw, buf, Lent::NOTHING))
    }

    /// As [`Comm::exscan_init`](crate::Comm::exscan_init), of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::exscan_init`](crate::Comm::exscan_init).
    pub fn exscan_init<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        op: Op<T>,
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - the buffer is the scope's, which ends only after no run touches it.
        let raw = unsafe { self.comm().begin_exscan(Form::Persistent, buf.part(), op)? };
        Ok(self.keep_persistent(raw, buf, Lent::NOTHING))
    }

    /// As [`Comm::scatter_init`](crate::Comm::scatter_init), of borrowed buffers.
    ///
    /// # Errors
    /// As [`Comm::scatter_init`](crate::Comm::scatter_init).
    pub fn scatter_init<T: Element>(
        &'scope self,
        send: &'scope mut [T],
        recv: &'scope mut [T],
        root: u32,
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T], &'scope mut [T]>, Error> {
        let (send, recv) = (Lent::new(send), Lent::new(recv));
        // SAFETY: - the buffers are the scope's, which ends only after no run touches them.
        let raw = unsafe { self.comm().begin_scatter(Form::Persistent, send.part(), recv.part(), root)? };
        Ok(self.keep_persistent(raw, recv, send))
    }

    /// As [`Comm::scatterv_init`](crate::Comm::scatterv_init), of borrowed buffers.
    ///
    /// # Errors
    /// As [`Comm::scatterv_init`](crate::Comm::scatterv_init).
    pub fn scatterv_init<T: Element>(
        &'scope self,
        send: &'scope mut [T],
        blocks: Blocks<'_>,
        recv: &'scope mut [T],
        root: u32,
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T], &'scope mut [T]>, Error> {
        let (send, recv) = (Lent::new(send), Lent::new(recv));
        // SAFETY: - the buffers are the scope's, which ends only after no run touches them.
        let raw =
            unsafe { self.comm().begin_scatterv(Form::Persistent, send.part(), blocks, recv.part(), root)? };
        Ok(self.keep_persistent(raw, recv, send))
    }

    /// As [`Comm::gather_init`](crate::Comm::gather_init), of borrowed buffers.
    ///
    /// # Errors
    /// As [`Comm::gather_init`](crate::Comm::gather_init).
    pub fn gather_init<T: Element>(
        &'scope self,
        send: &'scope mut [T],
        recv: &'scope mut [T],
        root: u32,
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T], &'scope mut [T]>, Error> {
        let (send, recv) = (Lent::new(send), Lent::new(recv));
        // SAFETY: - the buffers are the scope's, which ends only after no run touches them.
        let raw = unsafe { self.comm().begin_gather(Form::Persistent, send.part(), recv.part(), root)? };
        Ok(self.keep_persistent(raw, recv, send))
    }

    /// As [`Comm::gatherv_init`](crate::Comm::gatherv_init), of borrowed buffers.
    ///
    /// # Errors
    /// As [`Comm::gatherv_init`](crate::Comm::gatherv_init).
    pub fn gatherv_init<T: Element>(
        &'scope self,
        send: &'scope mut [T],
        recv: &'scope mut [T],
        blocks: Blocks<'_>,
        root: u32,
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T], &'scope mut [T]>, Error> {
        let (send, recv) = (Lent::new(send), Lent::new(recv));
        // SAFETY: - the buffers are the scope's, which ends only after no run touches them.
        let raw =
            unsafe { self.comm().begin_gatherv(Form::Persistent, send.part(), recv.part(), blocks, root)? };
        Ok(self.keep_persistent(raw, recv, send))
    }

    /// As [`Comm::allgather_init`](crate::Comm::allgather_init), of borrowed buffers.
    ///
    /// # Errors
    /// As [`Comm::allgather_init`](crate::Comm::allgather_init).
    pub fn allgather_init<T: Element>(
        &'scope self,
        send: &'scope mut [T],
        recv: &'scope mut [T],
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T], &'scope mut [T]>, Error> {
        let (send, recv) = (Lent::new(send), Lent::new(recv));
        // SAFETY: - the buffers are the scope's, which ends only after no run touches them.
        let raw = unsafe { self.comm().begin_allgather(Form::Persistent, send.part(), recv.part())? };
        Ok(self.keep_persistent(raw, recv, send))
    }

    /// As [`Comm::allgatherv_init`](crate::Comm::allgatherv_init), of borrowed buffers.
    ///
    /// # Errors
    /// As [`Comm::allgatherv_init`](crate::Comm::allgatherv_init).
    pub fn allgatherv_init<T: Element>(
        &'scope self,
        send: &'scope mut [T],
        recv: &'scope mut [T],
        blocks: Blocks<'_>,
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T], &'scope mut [T]>, Error> {
        let (send, recv) = (Lent::new(send), Lent::new(recv));
        // SAFETY: - the buffers are the scope's, which ends only after no run touches them.
        let raw =
            unsafe { self.comm().begin_allgatherv(Form::Persistent, send.part(), recv.part(), blocks)? };
        Ok(self.keep_persistent(raw, recv, send))
    }

    /// As [`Comm::alltoall_init`](crate::Comm::alltoall_init), of borrowed buffers.
    ///
    /// # Errors
    /// As [`Comm::alltoall_init`](crate::Comm::alltoall_init).
    pub fn alltoall_init<T: Element>(
        &'scope self,
        send: &'scope mut [T],
        recv: &'scope mut [T],
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T], &'scope mut [T]>, Error> {
        let (send, recv) = (Lent::new(send), Lent::new(recv));
        // SAFETY: - the buffers are the scope's, which ends only after no run touches them.
        let raw = unsafe { self.comm().begin_alltoall(Form::Persistent, send.part(), recv.part())? };
        Ok(self.keep_persistent(raw, recv, send))
    }

    /// As [`Comm::alltoallv_init`](crate::Comm::alltoallv_init), of borrowed buffers.
    ///
    /// # Errors
    /// As [`Comm::alltoallv_init`](crate::Comm::alltoallv_init).
    pub fn alltoallv_init<T: Element>(
        &'scope self,
        send: &'scope mut [T],
        send_blocks: Blocks<'_>,
        recv: &'scope mut [T],
        recv_blocks: Blocks<'_>,
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T], &'scope mut [T]>, Error> {
        let (send, recv) = (Lent::new(send), Lent::new(recv));
        // SAFETY: - the buffers are the scope's, which ends only after no run touches them.
        let raw = unsafe {
            self.comm().begin_alltoallv(
                Form::Persistent,
                (send.part(), send_blocks),
                (recv.part(), recv_blocks),
            )?
        };
        Ok(self.keep_persistent(raw, recv, send))
    }

    /// As [`Comm::alltoallw_init`](crate::Comm::alltoallw_init), of borrowed buffers.
    ///
    /// # Errors
    /// As [`Comm::alltoallw_init`](crate::Comm::alltoallw_init).
    #[allow(clippy::type_complexity, reason = "two buffers of two types")]
    pub fn alltoallw_init<S: Element, R: Element>(
        &'scope self,
        send: &'scope mut [S],
        send_blocks: &[Block],
        recv: &'scope mut [R],
        recv_blocks: &[Block],
    ) -> Result<ScopedPersistent<'scope, &'scope mut [R], &'scope mut [S]>, Error> {
        let (send, recv) = (Lent::new(send), Lent::new(recv));
        // SAFETY: - the buffers are the scope's, which ends only after no run touches them.
        let raw = unsafe {
            self.comm().begin_alltoallw(
                Form::Persistent,
                (send.part(), send_blocks),
                (recv.part(), recv_blocks),
            )?
        };
        Ok(self.keep_persistent(raw, recv, send))
    }

    /// As [`Comm::reduce_scatter_init`](crate::Comm::reduce_scatter_init), of borrowed buffers.
    ///
    /// # Errors
    /// As [`Comm::reduce_scatter_init`](crate::Comm::reduce_scatter_init).
    pub fn reduce_scatter_init<T: Element>(
        &'scope self,
        send: &'scope mut [T],
        recv: &'scope mut [T],
        counts: &[usize],
        op: Op<T>,
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T], &'scope mut [T]>, Error> {
        let (send, recv) = (Lent::new(send), Lent::new(recv));
        // SAFETY: - the buffers are the scope's, which ends only after no run touches them.
        let raw = unsafe {
            self.comm().begin_reduce_scatter(Form::Persistent, send.part(), recv.part(), counts, op)?
        };
        Ok(self.keep_persistent(raw, recv, send))
    }

    /// As [`Comm::reduce_scatter_block_init`](crate::Comm::reduce_scatter_block_init), of borrowed buffers.
    ///
    /// # Errors
    /// As [`Comm::reduce_scatter_block_init`](crate::Comm::reduce_scatter_block_init).
    pub fn reduce_scatter_block_init<T: Element>(
        &'scope self,
        send: &'scope mut [T],
        recv: &'scope mut [T],
        op: Op<T>,
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T], &'scope mut [T]>, Error> {
        let (send, recv) = (Lent::new(send), Lent::new(recv));
        // SAFETY: - the buffers are the scope's, which ends only after no run touches them.
        let raw = unsafe {
            self.comm().begin_reduce_scatter_block(Form::Persistent, send.part(), recv.part(), op)?
        };
        Ok(self.keep_persistent(raw, recv, send))
    }
}
