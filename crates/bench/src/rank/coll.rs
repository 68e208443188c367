//! Collectives: overlap and reactivity to a late rank.

use super::messages::{wait, work_if_any};
use super::{Member, timed};
use crate::error::Error;
use crate::fleet::block::Measured;
use crate::shared::sleep_until_ns;
use crate::values::Operation;
use tocsin_sync::clock::now_ns;
use tocsin_world::{DataType, Op, RawRequest};

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
        let algorithm = self.algorithm.as_deref();
        let (send, recv) = (self.send.as_ptr(), self.recv.as_mut_ptr());
        // SAFETY: `prepare` has sized both buffers for this operation and these bytes; they are not touched, moved or
        // dropped before the request is waited for (see `isend` in messages.rs); they are distinct.
        let posted = unsafe {
            match op {
                Operation::Ibarrier => comm.ibarrier_raw(algorithm),
                Operation::Ibcast => comm.ibcast_raw(recv, bytes, root, algorithm),
                Operation::Iallreduce => {
                    let (count, data_type) = elements(bytes);
                    comm.iallreduce_raw(Some(send), recv, count, data_type, Op::Sum, algorithm)
                }
                Operation::Ialltoall => comm.ialltoall_raw(Some(send), recv, bytes, algorithm),
            }
        };
        posted.map_err(Error::failed)
    }

    /// Sizes and rewrites the buffers.
    fn prepare(&mut self, op: Operation, bytes: usize, root: u32) -> Result<(), Error> {
        let ranks = self.comm()?.size() as usize;
        let (seed, rank) = (self.round, self.rank as u64);
        match op {
            Operation::Ibarrier => {}
            Operation::Ibcast => {
                self.recv.resize(bytes);
                self.recv.fill(if self.rank == root as usize { seed } else { !seed });
            }
            Operation::Iallreduce => {
                self.send.resize(bytes);
                self.recv.resize(bytes);
                self.recv.as_bytes_mut().fill(0xff);
                addends(self.send.as_bytes_mut(), seed, rank);
            }
            Operation::Ialltoall => {
                self.send.resize(bytes * ranks);
                self.recv.resize(bytes * ranks);
                self.recv.as_bytes_mut().fill(0xff);
                if bytes > 0 {
                    for (to, block) in self.send.as_bytes_mut().chunks_exact_mut(bytes).enumerate() {
                        exchanged(block, seed, rank, to as u64);
                    }
                }
            }
        }
        Ok(())
    }

    fn is_right(&self, op: Operation, bytes: usize, _root: u32) -> bool {
        let (seed, rank) = (self.round, self.rank as u64);
        let got = self.recv.as_bytes();
        match op {
            // The bench compares the ranks' clocks: nobody may leave before all have come.
            Operation::Ibarrier => true,
            Operation::Ibcast => self.recv.is_filled(seed),
            Operation::Iallreduce => {
                let ranks = self.comm.as_ref().map_or(1, |comm| u64::from(comm.size()));
                let whole = got.chunks_exact(8);
                match elements(bytes).1 {
                    DataType::I64 => whole
                        .enumerate()
                        .all(|(at, chunk)| *chunk == sum_i64(seed, ranks, at as u64).to_le_bytes()),
                    _ => got.iter().enumerate().all(|(at, byte)| *byte == sum_u8(seed, ranks, at as u64)),
                }
            }
            Operation::Ialltoall => {
                let mut right = vec![0; bytes];
                bytes == 0
                    || got.chunks_exact(bytes).enumerate().all(|(from, block)| {
                        exchanged(&mut right, seed, from as u64, rank);
                        *block == right[..]
                    })
            }
        }
    }
}

/// Sums are of 8-byte integers where the size allows it.
pub(crate) fn elements(bytes: usize) -> (usize, DataType) {
    if bytes.is_multiple_of(8) { (bytes / 8, DataType::I64) } else { (bytes, DataType::U8) }
}

fn addend(seed: u64, rank: u64, at: u64) -> u64 {
    (seed % 1000) * 1_000_000 + (rank + 1) * 1000 + at % 997
}

fn addends(buffer: &mut [u8], seed: u64, rank: u64) {
    if buffer.len().is_multiple_of(8) {
        for (at, chunk) in buffer.chunks_exact_mut(8).enumerate() {
            chunk.copy_from_slice(&addend(seed, rank, at as u64).to_le_bytes());
        }
    } else {
        // Bytes wrap, in the sum as here.
        buffer.iter_mut().enumerate().for_each(|(at, byte)| *byte = small_addend(seed, rank, at as u64));
    }
}

/// At most 3, so that 64 ranks do not overflow a byte.
fn small_addend(seed: u64, rank: u64, at: u64) -> u8 {
    ((seed + rank + at) % 4) as u8
}

fn sum_i64(seed: u64, ranks: u64, at: u64) -> u64 {
    (0..ranks).map(|rank| addend(seed, rank, at)).sum()
}

fn sum_u8(seed: u64, ranks: u64, at: u64) -> u8 {
    (0..ranks).fold(0, |sum: u8, rank| sum.wrapping_add(small_addend(seed, rank, at)))
}

/// What `from` sends to `to`.
fn exchanged(block: &mut [u8], seed: u64, from: u64, to: u64) {
    let start = seed.wrapping_mul(31).wrapping_add(from * 131).wrapping_add(to * 17) as u8;
    block
        .iter_mut()
        .enumerate()
        .for_each(|(at, byte)| *byte = start.wrapping_add(at as u8).wrapping_add((at >> 8) as u8));
}
