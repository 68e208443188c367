//! Persistent collectives: each prepared once, by the checks of the form that is started at once.

use tocsin_world::{Arguments, Block, RawRequest};

use super::{Blocks, Form, Part};
use crate::Error;
use crate::buffer::{ElementBuffer, Held};
use crate::comm::Comm;
use crate::op::Op;
use crate::persistent::Persistent;

fn pair<R: ElementBuffer, S: ElementBuffer>(
    send: S,
    recv: R,
    prepare: impl FnOnce(Part<S::Item>, Part<R::Item>) -> Result<RawRequest, Error>,
) -> Result<Persistent<R, S>, Error> {
    let (send, recv) = (Held::new(send), Held::new(recv));
    let raw = prepare(Part::held(&send), Part::held(&recv))?;
    Ok(Persistent::new(raw, recv, send))
}

pub(super) fn one<B: ElementBuffer>(
    buf: B,
    prepare: impl FnOnce(Part<B::Item>) -> Result<RawRequest, Error>,
) -> Result<Persistent<B>, Error> {
    let buffer = Held::new(buf);
    let raw = prepare(Part::held(&buffer))?;
    Ok(Persistent::new(raw, buffer, Held::new(())))
}

/// Preparing concerns no other rank. The buffers of the other ranks are as the form that is started at once asks.
impl Comm {
    /// Prepares a barrier. As [`ibarrier`](Self::ibarrier), started by [`Persistent::start`].
    ///
    /// # Errors
    /// As [`ibarrier`](Self::ibarrier).
    pub fn barrier_init(&self) -> Result<Persistent<()>, Error> {
        // SAFETY: - a barrier has no buffers.
        let raw = unsafe { self.begin(Form::Persistent, &Arguments::Ibarrier)? };
        Ok(Persistent::new(raw, Held::new(()), Held::new(())))
    }

    /// Prepares a broadcast. As [`ibcast`](Self::ibcast), started by [`Persistent::start`].
    ///
    /// # Errors
    /// As [`ibcast`](Self::ibcast).
    pub fn bcast_init<B: ElementBuffer>(&self, buf: B, root: u32) -> Result<Persistent<B>, Error> {
        // SAFETY: - the buffer is the result's, which keeps it until no run needs it.
        one(buf, |buf| unsafe { self.begin_bcast(Form::Persistent, buf, root) })
    }

    /// Prepares a scatter. As [`iscatter`](Self::iscatter), started by [`Persistent::start`].
    ///
    /// # Errors
    /// As [`iscatter`](Self::iscatter).
    pub fn scatter_init<B: ElementBuffer>(
        &self,
        send: B,
        recv: B,
        root: u32,
    ) -> Result<Persistent<B, B>, Error> {
        // SAFETY: - the buffers are the result's, which keeps them until no run needs them.
        pair(send, recv, |send, recv| unsafe { self.begin_scatter(Form::Persistent, send, recv, root) })
    }

    /// Prepares a scatter of blocks of different lengths. As [`iscatterv`](Self::iscatterv), started by [`Persistent::start`].
    ///
    /// # Errors
    /// As [`iscatterv`](Self::iscatterv).
    pub fn scatterv_init<B: ElementBuffer>(
        &self,
        send: B,
        blocks: Blocks<'_>,
        recv: B,
        root: u32,
    ) -> Result<Persistent<B, B>, Error> {
        // SAFETY: - the buffers are the result's, which keeps them until no run needs them.
        pair(send, recv, |send, recv| unsafe {
            self.begin_scatterv(Form::Persistent, send, blocks, recv, root)
        })
    }

    /// Prepares a gather. As [`igather`](Self::igather), started by [`Persistent::start`].
    ///
    /// # Errors
    /// As [`igather`](Self::igather).
    pub fn gather_init<B: ElementBuffer>(
        &self,
        send: B,
        recv: B,
        root: u32,
    ) -> Result<Persistent<B, B>, Error> {
        // SAFETY: - the buffers are the result's, which keeps them until no run needs them.
        pair(send, recv, |send, recv| unsafe { self.begin_gather(Form::Persistent, send, recv, root) })
    }

    /// Prepares a gather of blocks of different lengths. As [`igatherv`](Self::igatherv), started by [`Persistent::start`].
    ///
    /// # Errors
    /// As [`igatherv`](Self::igatherv).
    pub fn gatherv_init<B: ElementBuffer>(
        &self,
        send: B,
        recv: B,
        blocks: Blocks<'_>,
        root: u32,
    ) -> Result<Persistent<B, B>, Error> {
        // SAFETY: - the buffers are the result's, which keeps them until no run needs them.
        pair(send, recv, |send, recv| unsafe {
            self.begin_gatherv(Form::Persistent, send, recv, blocks, root)
        })
    }

    /// Prepares an allgather. As [`iallgather`](Self::iallgather), started by [`Persistent::start`].
    ///
    /// # Errors
    /// As [`iallgather`](Self::iallgather).
    pub fn allgather_init<B: ElementBuffer>(&self, send: B, recv: B) -> Result<Persistent<B, B>, Error> {
        // SAFETY: - the buffers are the result's, which keeps them until no run needs them.
        pair(send, recv, |send, recv| unsafe { self.begin_allgather(Form::Persistent, send, recv) })
    }

    /// Prepares an allgather of blocks of different lengths. As [`iallgatherv`](Self::iallgatherv), started by [`Persistent::start`].
    ///
    /// # Errors
    /// As [`iallgatherv`](Self::iallgatherv).
    pub fn allgatherv_init<B: ElementBuffer>(
        &self,
        send: B,
        recv: B,
        blocks: Blocks<'_>,
    ) -> Result<Persistent<B, B>, Error> {
        // SAFETY: - the buffers are the result's, which keeps them until no run needs them.
        pair(send, recv, |send, recv| unsafe { self.begin_allgatherv(Form::Persistent, send, recv, blocks) })
    }

    /// Prepares an exchange: block i of `send` goes to rank i, and block i of `recv` comes from rank i. As
    /// [`ialltoall`](Self::ialltoall), started by [`Persistent::start`].
    ///
    /// # Errors
    /// Buffers of different lengths, and as [`ialltoall`](Self::ialltoall).
    pub fn alltoall_init<B: ElementBuffer>(&self, send: B, recv: B) -> Result<Persistent<B, B>, Error> {
        // SAFETY: - the buffers are the result's, which keeps them until no run needs them.
        pair(send, recv, |send, recv| unsafe { self.begin_alltoall(Form::Persistent, send, recv) })
    }

    /// Prepares an exchange of blocks of different lengths. As [`ialltoallv`](Self::ialltoallv), started by [`Persistent::start`].
    ///
    /// # Errors
    /// As [`ialltoallv`](Self::ialltoallv).
    pub fn alltoallv_init<B: ElementBuffer>(
        &self,
        send: B,
        send_blocks: Blocks<'_>,
        recv: B,
        recv_blocks: Blocks<'_>,
    ) -> Result<Persistent<B, B>, Error> {
        // SAFETY: - the buffers are the result's, which keeps them until no run needs them.
        pair(send, recv, |send, recv| unsafe {
            self.begin_alltoallv(Form::Persistent, (send, send_blocks), (recv, recv_blocks))
        })
    }

    /// Prepares an exchange of blocks that differ in type too. As [`ialltoallw`](Self::ialltoallw), started by
    /// [`Persistent::start`].
    ///
    /// # Errors
    /// As [`ialltoallw`](Self::ialltoallw).
    pub fn alltoallw_init<S: ElementBuffer, R: ElementBuffer>(
        &self,
        send: S,
        send_blocks: &[Block],
        recv: R,
        recv_blocks: &[Block],
    ) -> Result<Persistent<R, S>, Error> {
        // SAFETY: - the buffers are the result's, which keeps them until no run needs them.
        pair(send, recv, |send, recv| unsafe {
            self.begin_alltoallw(Form::Persistent, (send, send_blocks), (recv, recv_blocks))
        })
    }

    /// Prepares a reduction to the root. As [`ireduce`](Self::ireduce), started by [`Persistent::start`].
    ///
    /// # Errors
    /// As [`ireduce`](Self::ireduce).
    pub fn reduce_init<B: ElementBuffer>(
        &self,
        buf: B,
        op: Op<B::Item>,
        root: u32,
    ) -> Result<Persistent<B>, Error> {
        // SAFETY: - the buffer is the result's, which keeps it until no run needs it.
        one(buf, |buf| unsafe { self.begin_reduce(Form::Persistent, buf, op, root) })
    }

    /// Prepares a reduction. As [`iallreduce`](Self::iallreduce), started by [`Persistent::start`].
    ///
    /// # Errors
    /// As [`iallreduce`](Self::iallreduce).
    pub fn allreduce_init<B: ElementBuffer>(&self, buf: B, op: Op<B::Item>) -> Result<Persistent<B>, Error> {
        // SAFETY: - the buffer is the result's, which keeps it until no run needs it.
        one(buf, |buf| unsafe { self.begin_allreduce(Form::Persistent, buf, op) })
    }

    /// Prepares a reduction of which each rank gets a part. As [`ireduce_scatter`](Self::ireduce_scatter), started by [`Persistent::start`].
    ///
    /// # Errors
    /// As [`ireduce_scatter`](Self::ireduce_scatter).
    pub fn reduce_scatter_init<B: ElementBuffer>(
        &self,
        send: B,
        recv: B,
        counts: &[usize],
        op: Op<B::Item>,
    ) -> Result<Persistent<B, B>, Error> {
        // SAFETY: - the buffers are the result's, which keeps them until no run needs them.
        pair(send, recv, |send, recv| unsafe {
            self.begin_reduce_scatter(Form::Persistent, send, recv, counts, op)
        })
    }

    /// Prepares a reduction of which each rank gets a part of the same length. As [`ireduce_scatter_block`](Self::ireduce_scatter_block), started by [`Persistent::start`].
    ///
    /// # Errors
    /// As [`ireduce_scatter_block`](Self::ireduce_scatter_block).
    pub fn reduce_scatter_block_init<B: ElementBuffer>(
        &self,
        send: B,
        recv: B,
        op: Op<B::Item>,
    ) -> Result<Persistent<B, B>, Error> {
        // SAFETY: - the buffers are the result's, which keeps them until no run needs them.
        pair(send, recv, |send, recv| unsafe {
            self.begin_reduce_scatter_block(Form::Persistent, send, recv, op)
        })
    }

    /// Prepares a reduction of the ranks up to each rank. As [`iscan`](Self::iscan), started by [`Persistent::start`].
    ///
    /// # Errors
    /// As [`iscan`](Self::iscan).
    pub fn scan_init<B: ElementBuffer>(&self, buf: B, op: Op<B::Item>) -> Result<Persistent<B>, Error> {
        // SAFETY: - the buffer is the result's, which keeps it until no run needs it.
        one(buf, |buf| unsafe { self.begin_scan(Form::Persistent, buf, op) })
    }

    /// Prepares a reduction of the ranks before each rank. As [`iexscan`](Self::iexscan), started by [`Persistent::start`].
    ///
    /// # Errors
    /// As [`iexscan`](Self::iexscan).
    pub fn exscan_init<B: ElementBuffer>(&self, buf: B, op: Op<B::Item>) -> Result<Persistent<B>, Error> {
        // SAFETY: - the buffer is the result's, which keeps it until no run needs it.
        one(buf, |buf| unsafe { self.begin_exscan(Form::Persistent, buf, op) })
    }
}
