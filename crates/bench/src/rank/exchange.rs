//! Messages between many pairs of ranks, and the memory that they leave.

use super::messages::wait;
use super::{Member, Memory};
use crate::error::Error;
use crate::fleet::block::Measured;
use tocsin_sync::clock::now_ns;
use tocsin_world::{ConstBuf, Mode, MutBuf, RawRequest};

const TAG: i32 = 9;

impl Member<'_> {
    /// A message to each of the `reach` ranks after this one, and from each of those before it; then the memory that
    /// there is. With a `reach` of 0 nobody sends.
    pub(super) fn exchange(&mut self, bytes: usize, reach: u32) -> Result<Measured, Error> {
        let ranks = self.comm()?.size();
        let reach = reach.min(ranks - 1);
        let me = self.rank as u32;
        self.send.resize(bytes)?;
        self.recv.resize(bytes * reach as usize)?;
        self.send.touch(stamp(me));
        // So that content that stayed from another round cannot pass for this one's.
        self.recv.as_bytes_mut().fill(0);
        self.block.barrier().wait();
        let start = now_ns();
        self.exchange_with(bytes, reach, ranks)?;
        let t_comm = now_ns() - start;
        let mut right = true;
        if bytes > 0 {
            for (block, distance) in self.recv.as_bytes().chunks_exact(bytes).zip(1..) {
                let from = (me + ranks - distance) % ranks;
                right &= block.iter().step_by(64).all(|byte| *byte == stamp(from));
            }
        }
        // All have done what takes memory.
        self.block.barrier().wait();
        let memory = Memory::now();
        self.block.barrier().wait();
        Ok(Measured {
            t_comm,
            segment: memory.segment,
            resident: memory.resident,
            heap: memory.heap,
            verified: u64::from(right),
            ..Measured::default()
        })
    }

    fn exchange_with(&mut self, bytes: usize, reach: u32, ranks: u32) -> Result<(), Error> {
        let me = self.rank as u32;
        let mut requests: Vec<RawRequest> = Vec::with_capacity(2 * reach as usize);
        let (send, recv) = (self.send.as_ptr(), self.recv.as_mut_ptr());
        let comm = self.comm()?;
        for distance in 1..=reach {
            let from = (me + ranks - distance) % ranks;
            let at = recv.wrapping_add(bytes * (distance - 1) as usize);
            // SAFETY: the buffer has a block for each of `reach`; nobody touches it, or drops it, before the request is
            // waited for (an error ends the process, see `Member::fail`).
            let request = unsafe { comm.irecv_raw(MutBuf::contiguous(at, bytes), Some(from), Some(TAG)) };
            requests.push(request.map_err(Error::failed)?);
        }
        for distance in 1..=reach {
            let to = (me + distance) % ranks;
            // SAFETY: as above; all sends read the same buffer, which nobody writes meanwhile.
            let request =
                unsafe { comm.isend_raw(ConstBuf::contiguous(send, bytes), to, TAG, Mode::Standard) };
            requests.push(request.map_err(Error::failed)?);
        }
        requests.into_iter().try_for_each(wait)
    }
}

/// What a rank writes into its message.
fn stamp(rank: u32) -> u8 {
    (rank % 251) as u8 + 1
}
