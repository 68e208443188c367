//! Collectives: overlap and reactivity to a late rank.

use super::contents::{addends, exchanged, is_sum};
use super::layout::{Layout, elements};
use super::messages::{wait, work_if_any};
use super::prepared::{Of, Prepared};
use super::{Member, no_library, timed};
use crate::error::Error;
use crate::fleet::block::Measured;
use crate::shared::sleep_until_ns;
use crate::values::Operation;
use tocsin_sync::clock::now_ns;
use tocsin_world::RawRequest;

/// The others of a late rank post this long after its flag.
const AFTER_FLAG_NS: u64 = 200_000;

/// Times of one collective: start, before the wait (the start, if nothing is done between), end.
pub(super) struct Times {
    pub(super) start: u64,
    waiting: u64,
    pub(super) end: u64,
}

impl Member<'_> {
    /// One round: the collective alone, computing alone (twice: the null), both.
    pub(super) fn coll(
        &mut self,
        op: Operation,
        bytes: usize,
        root: u32,
        work: u64,
    ) -> Result<Measured, Error> {
        let mut measured = Measured { verified: 1, ..Measured::default() };
        let alone = self.collective(op, bytes, root, 0, &mut measured)?;
        measured.t_comm = alone.end - alone.start;
        measured.posted_at = alone.start;
        measured.done_at = alone.end;
        if work == 0 {
            return Ok(measured);
        }
        self.block.barrier().wait();
        measured.t_comp = timed(|| work_if_any(work, self.round));
        self.block.barrier().wait();
        measured.t_comp_again = timed(|| work_if_any(work, self.round));

        let before = self.comm()?.stats().interrupts;
        let both = self.collective(op, bytes, root, work, &mut measured)?;
        measured.interrupts = self.comm()?.stats().interrupts - before;
        measured.t_ovrl = both.end - both.start;
        measured.waited = both.end - both.waiting;
        Ok(measured)
    }

    /// One, with computing between post and wait, all ranks beginning at once.
    pub(super) fn collective(
        &mut self,
        op: Operation,
        bytes: usize,
        root: u32,
        work: u64,
        measured: &mut Measured,
    ) -> Result<Times, Error> {
        self.prepare(op, bytes, root)?;
        let (comm, algorithm) = (self.comm.as_ref().ok_or_else(no_library)?, self.algorithm.as_deref());
        let (from, to) = (self.send.as_ptr(), self.recv.as_mut_ptr());
        let arguments = self.layout.arguments(op, bytes, root, from, to)?;
        self.block.barrier().wait();
        let start = now_ns();
        let posted = match &mut self.prepared {
            Some(prepared) => prepared.start().map(|()| None),
            // SAFETY: as in `post`.
            None => unsafe { comm.start_raw(&arguments, algorithm) }.map(Some).map_err(Error::failed),
        }?;
        work_if_any(work, self.round);
        // With nothing between, no time is taken between either: that would be measured, too.
        let waiting = if work > 0 { now_ns() } else { start };
        self.complete(posted)?;
        let end = now_ns();
        // Where ranks share cores, who checks what came would keep a core from who is not done.
        self.block.barrier().wait();
        if !self.is_right(op, bytes, root) {
            measured.verified = 0;
        }
        Ok(Times { start, waiting, end })
    }

    /// The late rank posts, raises the flag, computes; the others post 200 us after the flag.
    pub(super) fn late(
        &mut self,
        op: Operation,
        bytes: usize,
        root: u32,
        late: usize,
        work: u64,
    ) -> Result<Measured, Error> {
        self.prepare(op, bytes, root)?;
        self.block.barrier().wait();
        let mut measured = Measured { verified: 1, ..Measured::default() };
        let before = self.comm()?.stats().interrupts;
        let posted = if self.rank == late {
            measured.posted_at = now_ns();
            let posted = self.post(op, bytes, root)?;
            self.block.raise(now_ns());
            measured.t_comp = timed(|| work_if_any(work, self.round));
            posted
        } else {
            // Asleep, so that with more ranks than cores the late one computes undisturbed.
            sleep_until_ns(self.block.flag() + AFTER_FLAG_NS);
            measured.posted_at = now_ns();
            self.post(op, bytes, root)?
        };
        self.complete(posted)?;
        measured.done_at = now_ns();
        measured.interrupts = self.comm()?.stats().interrupts - before;
        // As in `collective`.
        self.block.barrier().wait();
        measured.verified = u64::from(self.is_right(op, bytes, root));
        Ok(measured)
    }

    /// Posts the collective; `None`: the prepared one was started, and nothing posted.
    pub(super) fn post(
        &mut self,
        op: Operation,
        bytes: usize,
        root: u32,
    ) -> Result<Option<RawRequest>, Error> {
        if let Some(prepared) = &mut self.prepared {
            prepared.start()?;
            return Ok(None);
        }
        let comm = self.comm.as_ref().ok_or_else(no_library)?;
        let (from, to) = (self.send.as_ptr(), self.recv.as_mut_ptr());
        let arguments = self.layout.arguments(op, bytes, root, from, to)?;
        // SAFETY: `fill` has sized both buffers for this operation and these bytes; they are not touched, moved or
        // dropped before the request is waited for (see `isend` in messages.rs); they are distinct.
        unsafe { comm.start_raw(&arguments, self.algorithm.as_deref()) }.map(Some).map_err(Error::failed)
    }

    /// Waits for what `post` has posted or started.
    pub(super) fn complete(&mut self, posted: Option<RawRequest>) -> Result<(), Error> {
        match (posted, &mut self.prepared) {
            (Some(request), _) => wait(request),
            (None, Some(prepared)) => prepared.wait(),
            (None, None) => Ok(()),
        }
    }

    /// Sizes and rewrites the buffers, and prepares what is prepared.
    pub(super) fn prepare(&mut self, op: Operation, bytes: usize, root: u32) -> Result<(), Error> {
        self.fill(op, bytes, root)?;
        if !self.persistent {
            return Ok(());
        }
        let of = Of { op, bytes, root, from: self.send.as_ptr(), to: self.recv.as_mut_ptr() };
        if self.prepared.as_ref().is_none_or(|prepared| prepared.of != of) {
            // The old one first: it holds what the new one wants.
            self.prepared = None;
            let comm = self.comm.as_ref().ok_or_else(no_library)?;
            self.prepared = Some(Prepared::new(comm, of, &self.layout, self.algorithm.as_deref())?);
        }
        Ok(())
    }

    /// Sizes and rewrites the buffers.
    fn fill(&mut self, op: Operation, bytes: usize, root: u32) -> Result<(), Error> {
        let ranks = self.comm()?.size();
        let (seed, rank) = (self.round, self.rank as u64);
        let is_root = rank == u64::from(root);
        let kind = elements(bytes).1;
        self.layout = Layout::of(op, bytes, ranks as usize);
        let whole = self.layout.extent();
        let (send, recv) = match op {
            Operation::Ibarrier => (0, 0),
            Operation::Ibcast => (0, bytes),
            Operation::Iscatter | Operation::Iscatterv => (if is_root { whole } else { 0 }, bytes),
            Operation::Igather | Operation::Igatherv => (bytes, if is_root { whole } else { 0 }),
            Operation::Iallgather | Operation::Iallgatherv => (bytes, whole),
            Operation::Ialltoall | Operation::Ialltoallv | Operation::Ialltoallw => (whole, whole),
            Operation::IreduceScatter => (bytes, self.layout.counts[self.rank] * kind.size()),
            Operation::IreduceScatterBlock => (bytes * ranks as usize, bytes),
            _ => (bytes, bytes),
        };
        self.send.resize(send)?;
        self.recv.resize(recv)?;
        self.recv.as_bytes_mut().fill(UNTOUCHED);
        let out = self.send.as_bytes_mut();
        match op {
            Operation::Ibcast => self.recv.fill(if is_root { seed } else { !seed }),
            Operation::Igather | Operation::Igatherv => exchanged(out, seed, rank, u64::from(root)),
            Operation::Iallgather | Operation::Iallgatherv => exchanged(out, seed, rank, 0),
            op if op.is_reduction() => addends(out, kind, seed, rank),
            _ if send > 0 => {
                for (to, block) in (0..).zip(&self.layout.blocks) {
                    exchanged(&mut out[block.offset..block.offset + block.bytes], seed, rank, to);
                }
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn is_right(&self, op: Operation, bytes: usize, root: u32) -> bool {
        let (seed, rank) = (self.round, self.rank as u64);
        let ranks = self.comm.as_ref().map_or(1, |comm| u64::from(comm.size()));
        let (got, kind) = (self.recv.as_bytes(), elements(bytes).1);
        let is_root = rank == u64::from(root);
        let is_from = |block: &[u8], from: u64, to: u64| {
            let mut right = vec![0; block.len()];
            exchanged(&mut right, seed, from, to);
            right == block
        };
        // Each block of the receive buffer, from its rank to `to`.
        let all_from = |to: u64| {
            (0..)
                .zip(&self.layout.blocks)
                .all(|(from, block)| is_from(&got[block.offset..block.offset + block.bytes], from, to))
        };
        match op {
            // The bench compares the ranks' clocks: nobody may leave before all have come.
            Operation::Ibarrier => true,
            Operation::Ibcast => self.recv.is_filled(seed),
            Operation::Iscatter | Operation::Iscatterv => is_from(got, u64::from(root), rank),
            Operation::Igather | Operation::Igatherv => !is_root || all_from(u64::from(root)),
            Operation::Iallgather | Operation::Iallgatherv => all_from(0),
            Operation::Ialltoall | Operation::Ialltoallv | Operation::Ialltoallw => all_from(rank),
            Operation::Ireduce => !is_root || is_sum(got, kind, seed, 0..ranks, 0),
            Operation::IreduceScatter => {
                let before = self.layout.counts[..self.rank].iter().sum::<usize>();
                is_sum(got, kind, seed, 0..ranks, before as u64)
            }
            Operation::IreduceScatterBlock => {
                is_sum(got, kind, seed, 0..ranks, rank * (bytes / kind.size()) as u64)
            }
            Operation::Iscan => is_sum(got, kind, seed, 0..rank + 1, 0),
            Operation::Iexscan if rank == 0 => got.iter().all(|byte| *byte == UNTOUCHED),
            Operation::Iexscan => is_sum(got, kind, seed, 0..rank, 0),
            _ => is_sum(got, kind, seed, 0..ranks, 0),
        }
    }
}

/// What receive buffers hold before.
const UNTOUCHED: u8 = 0xff;
