//! A message to the next rank and one from the rank before, at once.

use super::Member;
use super::messages::{TAG, wait};
use crate::error::Error;
use crate::fleet::block::Measured;
use crate::values::Waits;
use tocsin_sync::clock::now_ns;
use tocsin_world::{ConstBuf, MutBuf};

impl Member<'_> {
    /// `trips` times, all ranks at once; the time of the slowest is the result. Each rewrites what it sends before each.
    pub(super) fn both_ways(&mut self, bytes: usize, trips: u64, waits: Waits) -> Result<Measured, Error> {
        let ranks = self.comm()?.size() as usize;
        let (before, after) = ((self.rank + ranks - 1) % ranks, (self.rank + 1) % ranks);
        let (before, after) = (before as u32, after as u32);
        self.send.resize(bytes)?;
        self.recv.resize(bytes)?;
        // So that content that stayed from another batch cannot pass for this one's.
        self.recv.touch(0);
        let mut right = true;
        self.block.barrier().wait();
        let start = now_ns();
        for trip in 0..trips {
            let stamp = (trip % 251) as u8 + 1;
            self.send.touch(stamp);
            match waits {
                Waits::Sendrecv => self.sendrecv(after, before)?,
                Waits::Posts => {
                    let receive = self.irecv(before)?;
                    let send = self.isend(after)?;
                    wait(receive)?;
                    wait(send)?;
                }
            }
            right &= self.recv.is_touched_at_ends(stamp);
        }
        let t_comm = now_ns() - start;
        if trips > 0 {
            right &= self.recv.is_touched(((trips - 1) % 251) as u8 + 1);
        }
        Ok(Measured { t_comm, verified: u64::from(right), ..Measured::default() })
    }

    fn sendrecv(&mut self, to: u32, from: u32) -> Result<(), Error> {
        let bytes = self.send.as_bytes().len();
        let send = ConstBuf::contiguous(self.send.as_ptr(), bytes);
        let receive = MutBuf::contiguous(self.recv.as_mut_ptr(), bytes);
        // SAFETY: both buffers are borrowed during the call, and are two.
        unsafe { self.comm()?.sendrecv_raw(send, to, TAG, receive, Some(from), Some(TAG)) }
            .map(drop)
            .map_err(Error::failed)
    }
}
