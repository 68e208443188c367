//! Collectives that own their buffers, and blocking ones.

use std::fmt::Debug;

use tocsin_world::{Block, RawRequest};

use super::{Blocks, Form, Part};
use crate::Error;
use crate::buffer::{ElementBuffer, Held};
use crate::comm::Comm;
use crate::element::Element;
use crate::op::Op;
use crate::request::Request;

/// The request owns what is received; what is sent lives as long and is freed then.
fn pair<S, R>(
    send: S,
    recv: R,
    start: impl FnOnce(Part<S::Item>, Part<R::Item>) -> Result<RawRequest, Error>,
) -> Result<Request<R>, Error>
where
    S: ElementBuffer + Debug,
    R: ElementBuffer,
{
    let (send, recv) = (Held::new(send), Held::new(recv));
    let raw = start(Part::held(&send), Part::held(&recv))?;
    Ok(Request::with_companion(raw, recv, Box::new(send)))
}

pub(super) fn one<B: ElementBuffer>(
    buf: B,
    start: impl FnOnce(Part<B::Item>) -> Result<RawRequest, Error>,
) -> Result<Request<B>, Error> {
    let buffer = Held::new(buf);
    let raw = start(Part::held(&buffer))?;
    Ok(Request::new(raw, buffer))
}

impl Comm {
    /// Starts giving each rank a block of the root's `send`, which is as long as all `recv` together; other ranks' `send` is
    /// not used and may be empty.
    ///
    /// # Errors
    /// A `send` that is not [`size`](Self::size) times as long as `recv`, `root` out of range, unknown algorithm, dead member,
    /// revoked communicator.
    pub fn iscatter<B: ElementBuffer + Debug>(
        &self,
        send: B,
        recv: B,
        root: u32,
    ) -> Result<Request<B>, Error> {
        // SAFETY: - the request owns both buffers and keeps them until it is complete, also when dropped; forgotten, they
        //           leak.
        pair(send, recv, |send, recv| unsafe { self.begin_scatter(Form::Now, send, recv, root) })
    }

    /// As [`iscatter`](Self::iscatter), with blocks of different lengths: each as long as the `recv` of its rank. `blocks` is
    /// used at the root only.
    ///
    /// # Errors
    /// Blocks that leave `send` or are not one per rank, and as [`iscatter`](Self::iscatter).
    pub fn iscatterv<B: ElementBuffer + Debug>(
        &self,
        send: B,
        blocks: Blocks<'_>,
        recv: B,
        root: u32,
    ) -> Result<Request<B>, Error> {
        // SAFETY: - the request owns both buffers and keeps them until it is complete, also when dropped; forgotten, they
        //           leak.
        pair(send, recv, |send, recv| unsafe { self.begin_scatterv(Form::Now, send, blocks, recv, root) })
    }

    /// Starts collecting every rank's `send` in the root's `recv`, in rank order; other ranks' `recv` is not used and may be
    /// empty.
    ///
    /// # Errors
    /// A `recv` that is not [`size`](Self::size) times as long as `send`, and as [`iscatter`](Self::iscatter).
    pub fn igather<B: ElementBuffer + Debug>(
        &self,
        send: B,
        recv: B,
        root: u32,
    ) -> Result<Request<B>, Error> {
        // SAFETY: - the request owns both buffers and keeps them until it is complete, also when dropped; forgotten, they
        //           leak.
        pair(send, recv, |send, recv| unsafe { self.begin_gather(Form::Now, send, recv, root) })
    }

    /// As [`igather`](Self::igather), with blocks of different lengths: each as long as the `send` of its rank. `blocks` is
    /// used at the root only; what lies between them stays as it is.
    ///
    /// # Errors
    /// Blocks that overlap, leave `recv` or are not one per rank, and as [`iscatter`](Self::iscatter).
    pub fn igatherv<B: ElementBuffer + Debug>(
        &self,
        send: B,
        recv: B,
        blocks: Blocks<'_>,
        root: u32,
    ) -> Result<Request<B>, Error> {
        // SAFETY: - the request owns both buffers and keeps them until it is complete, also when dropped; forgotten, they
        //           leak.
        pair(send, recv, |send, recv| unsafe { self.begin_gatherv(Form::Now, send, recv, blocks, root) })
    }

    /// Starts collecting every rank's `send` in everybody's `recv`, in rank order.
    ///
    /// # Errors
    /// A `recv` that is not [`size`](Self::size) times as long as `send`, unknown algorithm, dead member, revoked communicator.
    pub fn iallgather<B: ElementBuffer + Debug>(&self, send: B, recv: B) -> Result<Request<B>, Error> {
        // SAFETY: - the request owns both buffers and keeps them until it is complete, also when dropped; forgotten, they
        //           leak.
        pair(send, recv, |send, recv| unsafe { self.begin_allgather(Form::Now, send, recv) })
    }

    /// As [`iallgather`](Self::iallgather), with blocks of different lengths, the same on all ranks; where they stand is each
    /// rank's own business, and what lies between them stays as it is.
    ///
    /// # Errors
    /// Blocks that overlap, leave `recv` or are not one per rank, a `send` that is not as long as this rank's block, and as
    /// [`iallgather`](Self::iallgather).
    pub fn iallgatherv<B: ElementBuffer + Debug>(
        &self,
        send: B,
        recv: B,
        blocks: Blocks<'_>,
    ) -> Result<Request<B>, Error> {
        // SAFETY: - the request owns both buffers and keeps them until it is complete, also when dropped; forgotten, they
        //           leak.
        pair(send, recv, |send, recv| unsafe { self.begin_allgatherv(Form::Now, send, recv, blocks) })
    }

    /// Starts combining every rank's `send` element by element; rank i gets, of the result, the `counts[i]` elements that
    /// follow those of the ranks before it. All ranks give the same counts.
    ///
    /// # Errors
    /// Buffers that are not as long as the counts say, an operator that is not defined on the element type, unknown
    /// algorithm, dead member, revoked communicator.
    pub fn ireduce_scatter<B: ElementBuffer + Debug>(
        &self,
        send: B,
        recv: B,
        counts: &[usize],
        op: Op<B::Item>,
    ) -> Result<Request<B>, Error> {
        // SAFETY: - the request owns both buffers and keeps them until it is complete, also when dropped; forgotten, they
        //           leak.
        pair(send, recv, |send, recv| unsafe { self.begin_reduce_scatter(Form::Now, send, recv, counts, op) })
    }

    /// As [`ireduce_scatter`](Self::ireduce_scatter), with as many elements for each rank as `recv` has.
    ///
    /// # Errors
    /// A `send` that is not [`size`](Self::size) times as long as `recv`, and as [`ireduce_scatter`](Self::ireduce_scatter).
    pub fn ireduce_scatter_block<B: ElementBuffer + Debug>(
        &self,
        send: B,
        recv: B,
        op: Op<B::Item>,
    ) -> Result<Request<B>, Error> {
        // SAFETY: - the request owns both buffers and keeps them until it is complete, also when dropped; forgotten, they
        //           leak.
        pair(send, recv, |send, recv| unsafe { self.begin_reduce_scatter_block(Form::Now, send, recv, op) })
    }

    /// Starts combining every rank's `buf` element by element; the root gets the result in its own, the others' stay as they
    /// are.
    ///
    /// # Errors
    /// `root` out of range, an operator that is not defined on the element type, unknown algorithm, dead member, revoked
    /// communicator.
    pub fn ireduce<B: ElementBuffer>(&self, buf: B, op: Op<B::Item>, root: u32) -> Result<Request<B>, Error> {
        // SAFETY: - the request owns the buffer, as in `iscatter`.
        one(buf, |buf| unsafe { self.begin_reduce(Form::Now, buf, op, root) })
    }

    /// Starts combining, for each rank, the `buf` of all ranks up to it, element by element and in rank order; each gets its
    /// result in its own.
    ///
    /// # Errors
    /// An operator that is not defined on the element type, unknown algorithm, dead member, revoked communicator.
    pub fn iscan<B: ElementBuffer>(&self, buf: B, op: Op<B::Item>) -> Result<Request<B>, Error> {
        // SAFETY: - the request owns the buffer, as in `iscatter`.
        one(buf, |buf| unsafe { self.begin_scan(Form::Now, buf, op) })
    }

    /// As [`iscan`](Self::iscan), without the rank's own contribution. That of rank 0 stays as it is.
    ///
    /// # Errors
    /// As [`iscan`](Self::iscan).
    pub fn iexscan<B: ElementBuffer>(&self, buf: B, op: Op<B::Item>) -> Result<Request<B>, Error> {
        // SAFETY: - the request owns the buffer, as in `iscatter`.
        one(buf, |buf| unsafe { self.begin_exscan(Form::Now, buf, op) })
    }

    /// Starts an exchange of blocks of different lengths: block i of `send` goes to rank i, and block i of `recv` comes from
    /// rank i. Each is as long on one side as on the other; what lies between received blocks stays as it is.
    ///
    /// # Errors
    /// Received blocks that overlap, blocks that leave their buffer or are not one per rank, unknown algorithm, dead
    /// member, revoked communicator.
    pub fn ialltoallv<B: ElementBuffer + Debug>(
        &self,
        send: B,
        send_blocks: Blocks<'_>,
        recv: B,
        recv_blocks: Blocks<'_>,
    ) -> Result<Request<B>, Error> {
        // SAFETY: - the request owns both buffers, as in `iscatter`.
        pair(send, recv, |send, recv| unsafe {
            self.begin_alltoallv(Form::Now, (send, send_blocks), (recv, recv_blocks))
        })
    }

    /// As [`ialltoallv`](Self::ialltoallv), where each block may have elements of its own type: they are given in bytes, in
    /// one run ([`Block::new`]) or in pieces ([`Block::strided`]).
    ///
    /// # Errors
    /// As [`ialltoallv`](Self::ialltoallv).
    pub fn ialltoallw<S, R>(
        &self,
        send: S,
        send_blocks: &[Block],
        recv: R,
        recv_blocks: &[Block],
    ) -> Result<Request<R>, Error>
    where
        S: ElementBuffer + Debug,
        R: ElementBuffer,
    {
        // SAFETY: - the request owns both buffers, as in `iscatter`.
        pair(send, recv, |send, recv| unsafe {
            self.begin_alltoallw(Form::Now, (send, send_blocks), (recv, recv_blocks))
        })
    }

    /// As [`iscatter`](Self::iscatter), and waits.
    ///
    /// # Errors
    /// As [`iscatter`](Self::iscatter).
    pub fn scatter<T: Element>(&self, send: &[T], recv: &mut [T], root: u32) -> Result<(), Error> {
        self.scope(|s| s.iscatter(send, recv, root)?.wait().map(|_| ()))
    }

    /// As [`iscatterv`](Self::iscatterv), and waits.
    ///
    /// # Errors
    /// As [`iscatterv`](Self::iscatterv).
    pub fn scatterv<T: Element>(
        &self,
        send: &[T],
        blocks: Blocks<'_>,
        recv: &mut [T],
        root: u32,
    ) -> Result<(), Error> {
        self.scope(|s| s.iscatterv(send, blocks, recv, root)?.wait().map(|_| ()))
    }

    /// As [`igather`](Self::igather), and waits.
    ///
    /// # Errors
    /// As [`igather`](Self::igather).
    pub fn gather<T: Element>(&self, send: &[T], recv: &mut [T], root: u32) -> Result<(), Error> {
        self.scope(|s| s.igather(send, recv, root)?.wait().map(|_| ()))
    }

    /// As [`igatherv`](Self::igatherv), and waits.
    ///
    /// # Errors
    /// As [`igatherv`](Self::igatherv).
    pub fn gatherv<T: Element>(
        &self,
        send: &[T],
        recv: &mut [T],
        blocks: Blocks<'_>,
        root: u32,
    ) -> Result<(), Error> {
        self.scope(|s| s.igatherv(send, recv, blocks, root)?.wait().map(|_| ()))
    }

    /// As [`iallgather`](Self::iallgather), and waits.
    ///
    /// # Errors
    /// As [`iallgather`](Self::iallgather).
    pub fn allgather<T: Element>(&self, send: &[T], recv: &mut [T]) -> Result<(), Error> {
        self.scope(|s| s.iallgather(send, recv)?.wait().map(|_| ()))
    }

    /// As [`iallgatherv`](Self::iallgatherv), and waits.
    ///
    /// # Errors
    /// As [`iallgatherv`](Self::iallgatherv).
    pub fn allgatherv<T: Element>(
        &self,
        send: &[T],
        recv: &mut [T],
        blocks: Blocks<'_>,
    ) -> Result<(), Error> {
        self.scope(|s| s.iallgatherv(send, recv, blocks)?.wait().map(|_| ()))
    }

    /// As [`ireduce_scatter`](Self::ireduce_scatter), and waits.
    ///
    /// # Errors
    /// As [`ireduce_scatter`](Self::ireduce_scatter).
    pub fn reduce_scatter<T: Element>(
        &self,
        send: &[T],
        recv: &mut [T],
        counts: &[usize],
        op: Op<T>,
    ) -> Result<(), Error> {
        self.scope(|s| s.ireduce_scatter(send, recv, counts, op)?.wait().map(|_| ()))
    }

    /// As [`ireduce_scatter_block`](Self::ireduce_scatter_block), and waits.
    ///
    /// # Errors
    /// As [`ireduce_scatter_block`](Self::ireduce_scatter_block).
    pub fn reduce_scatter_block<T: Element>(
        &self,
        send: &[T],
        recv: &mut [T],
        op: Op<T>,
    ) -> Result<(), Error> {
        self.scope(|s| s.ireduce_scatter_block(send, recv, op)?.wait().map(|_| ()))
    }

    /// As [`ireduce`](Self::ireduce), and waits.
    ///
    /// # Errors
    /// As [`ireduce`](Self::ireduce).
    pub fn reduce<T: Element>(&self, buf: &mut [T], op: Op<T>, root: u32) -> Result<(), Error> {
        self.scope(|s| s.ireduce(buf, op, root)?.wait().map(|_| ()))
    }

    /// As [`iscan`](Self::iscan), and waits.
    ///
    /// # Errors
    /// As [`iscan`](Self::iscan).
    pub fn scan<T: Element>(&self, buf: &mut [T], op: Op<T>) -> Result<(), Error> {
        self.scope(|s| s.iscan(buf, op)?.wait().map(|_| ()))
    }

    /// As [`iexscan`](Self::iexscan), and waits.
    ///
    /// # Errors
    /// As [`iexscan`](Self::iexscan).
    pub fn exscan<T: Element>(&self, buf: &mut [T], op: Op<T>) -> Result<(), Error> {
        self.scope(|s| s.iexscan(buf, op)?.wait().map(|_| ()))
    }

    /// As [`ialltoallv`](Self::ialltoallv), and waits.
    ///
    /// # Errors
    /// As [`ialltoallv`](Self::ialltoallv).
    pub fn alltoallv<T: Element>(
        &self,
        send: &[T],
        send_blocks: Blocks<'_>,
        recv: &mut [T],
        recv_blocks: Blocks<'_>,
    ) -> Result<(), Error> {
        self.scope(|s| s.ialltoallv(send, send_blocks, recv, recv_blocks)?.wait().map(|_| ()))
    }

    /// As [`ialltoallw`](Self::ialltoallw), and waits.
    ///
    /// # Errors
    /// As [`ialltoallw`](Self::ialltoallw).
    pub fn alltoallw<S: Element, R: Element>(
        &self,
        send: &[S],
        send_blocks: &[Block],
        recv: &mut [R],
        recv_blocks: &[Block],
    ) -> Result<(), Error> {
        self.scope(|s| s.ialltoallw(send, send_blocks, recv, recv_blocks)?.wait().map(|_| ()))
    }
}
