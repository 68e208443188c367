//! A message that goes round all ranks.

use super::Member;
use crate::error::Error;
use crate::fleet::block::Measured;
use tocsin_sync::clock::now_ns;

impl Member<'_> {
    /// `laps` times round; rank 0's time is the result. Each rank rewrites its buffer before it sends on.
    pub(super) fn ring(&mut self, bytes: usize, laps: u64) -> Result<Measured, Error> {
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
        for lap in 0..laps {
            let stamp = (lap % 251) as u8 + 1;
            if self.rank != 0 {
                self.receive(before)?;
            }
            self.send.touch(stamp);
            self.send(after)?;
            if self.rank == 0 {
                self.receive(before)?;
            }
            right &= self.recv.is_touched_at_ends(stamp);
        }
        let t_comm = now_ns() - start;
        if laps > 0 {
            right &= self.recv.is_touched(((laps - 1) % 251) as u8 + 1);
        }
        Ok(Measured { t_comm, verified: u64::from(right), ..Measured::default() })
    }
}
