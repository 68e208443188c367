//! Collectives: overlap and reactivity to a late rank.

use super::contents::{addends, exchanged, is_sum};
use super::messages::{wait, work_if_any};
use super::{Member, timed};
use crate::error::Error;
use crate::fleet::block::Measured;
use crate::shared::sleep_until_ns;
use crate::values::Operation;
use tocsin_sync::clock::now_ns;
use tocsin_world::{Block, DataType, Op, RawRequest};

/// The others of a late rank post this long after its flag (command-line.md).
const AFTER_FLAG_NS: u64 = 200_000;

/// Times of one collective: start, before the wait, end.
struct Times {
    start: u64,
    waiting: u64,
    end: u64,
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

    fn collective(
        &mut self,
        op: Operation,
        bytes: usize,
        root: u32,
        work: u64,
        measured: &mut Measured,
    ) -> Result<Times, Error> {
        self.prepare(op, bytes, root)?;
        self.block.barrier().wait();
        let start = now_ns();
        let request = self.post(op, bytes, root)?;
        work_if_any(work, self.round);
        let waiting = now_ns();
        wait(request)?;
        let end = now_ns();
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
        let request = if self.rank == late {
            measured.posted_at = now_ns();
            let request = self.post(op, bytes, root)?;
            self.block.raise(now_ns());
            measured.t_comp = timed(|| work_if_any(work, self.round));
            request
        } else {
            // Asleep, so that with more ranks than cores the late one computes undisturbed.
            sleep_until_ns(self.block.flag() + AFTER_FLAG_NS);
            measured.posted_at = now_ns();
            self.post(op, bytes, root)?
        };
        wait(request)?;
        measured.done_at = now_ns();
        measured.interrupts = self.comm()?.stats().interrupts - before;
        measured.verified = u64::from(self.is_right(op, bytes, root));
        Ok(measured)
    }

    fn post(&mut self, op: Operation, bytes: usize, root: u32) -> Result<RawRequest, Error> {
        let comm = self.comm.as_ref().ok_or_else(|| Error::Failed("this world has no library".into()))?;
        let name = self.algorithm.as_deref();
        let (from, to) = (self.send.as_ptr(), self.recv.as_mut_ptr());
        let (send, recv) = (Some(from), Some(to));
        let Layout { blocks, counts } = &self.layout;
        let (count, kind) = elements(bytes);
        let sum = Op::Sum;
        // SAFETY: `prepare` has sized both buffers for this operation and these bytes; they are not touched, moved or
        // dropped before the request is waited for (see `isend` in messages.rs); they are distinct.
        let posted = unsafe {
            match op {
                Operation::Ibarrier => comm.ibarrier_raw(name),
                Operation::Ibcast => comm.ibcast_raw(to, bytes, root, name),
                Operation::Iscatter => comm.iscatter_raw(from, recv, bytes, root, name),
                Operation::Iscatterv => comm.iscatterv_raw(from, blocks, recv, bytes, root, name),
                Operation::Igather => comm.igather_raw(send, to, bytes, root, name),
                Operation::Igatherv => comm.igatherv_raw(send, bytes, to, blocks, root, name),
                Operation::Iallgather => comm.iallgather_raw(send, to, bytes, name),
                Operation::Iallgatherv => comm.iallgatherv_raw(send, to, blocks, name),
                Operation::Ialltoall => comm.ialltoall_raw(send, to, bytes, name),
                Operation::Ialltoallv => comm.ialltoallv_raw(Some((from, blocks)), to, blocks, name),
                Operation::Ialltoallw => comm.ialltoallw_raw(Some((from, blocks)), to, blocks, name),
                Operation::Ireduce => comm.ireduce_raw(send, to, count, kind, sum, root, name),
                Operation::Iallreduce => comm.iallreduce_raw(send, to, count, kind, sum, name),
                Operation::IreduceScatter => comm.ireduce_scatter_raw(send, to, counts, kind, sum, name),
                Operation::IreduceScatterBlock => {
                    comm.ireduce_scatter_block_raw(send, to, count, kind, sum, name)
                }
                Operation::Iscan => comm.iscan_raw(send, to, count, kind, sum, name),
                Operation::Iexscan => comm.iexscan_raw(send, to, count, kind, sum, name),
                other => return Err(Error::Failed(format!("{other} has no bench: please report this"))),
            }
        };
        posted.map_err(Error::failed)
    }

    /// Sizes and rewrites the buffers.
    fn prepare(&mut self, op: Operation, bytes: usize, root: u32) -> Result<(), Error> {
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
        self.send.resize(send);
        self.recv.resize(recv);
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

    fn is_right(&self, op: Operation, bytes: usize, root: u32) -> bool {
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

/// Bytes between displaced blocks.
const GAP: usize = 64;

/// Where the blocks stand, and how many elements each rank's part of a reduction has.
#[derive(Default)]
pub(super) struct Layout {
    blocks: Vec<Block>,
    counts: Vec<usize>,
}

impl Layout {
    fn of(op: Operation, bytes: usize, ranks: usize) -> Layout {
        let displaced = matches!(
            op,
            Operation::Iscatterv
                | Operation::Igatherv
                | Operation::Iallgatherv
                | Operation::Ialltoallv
                | Operation::Ialltoallw
        );
        let stride = bytes + if displaced { GAP } else { 0 };
        let blocks = (0..ranks).map(|rank| Block { offset: rank * stride, bytes }).collect();
        Layout { blocks, counts: parts(elements(bytes).0, ranks).collect() }
    }

    fn extent(&self) -> usize {
        self.blocks.last().map_or(0, |last| last.offset + last.bytes)
    }
}

/// Sums are of 8-byte integers where the size allows it.
pub(crate) fn elements(bytes: usize) -> (usize, DataType) {
    if bytes.is_multiple_of(8) { (bytes / 8, DataType::I64) } else { (bytes, DataType::U8) }
}

/// A vector divided among ranks: lengths differ by at most one.
pub(crate) fn parts(count: usize, ranks: usize) -> impl Iterator<Item = usize> {
    (0..ranks).map(move |rank| count / ranks + usize::from(rank < count % ranks))
}
