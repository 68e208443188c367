//! Transfers beside computing on large arrays.

use super::messages::wait;
use super::{Member, timed};
use crate::error::Error;
use crate::fleet::block::{Load, Measured, Phase};
use crate::values::Kernel;
use std::hint::black_box;
use tocsin_sync::clock::now_ns;
use tocsin_world::{ConstBuf, Mode, MutBuf, RawRequest};

const TAG: i32 = 10;
/// Of what says whether another batch follows.
const MORE: i32 = 11;
/// Elements that are computed at once: what the compiler keeps in vector registers.
const LANES: usize = 8;
/// Triad's factor. Below 1, so that repeating it neither overflows nor ends in subnormal numbers.
const FACTOR: f64 = 0.5;
/// Round trips of a batch that is only there to disturb, before the end is looked for.
const BATCH: u64 = 8;

/// The arrays of a rank that computes.
#[derive(Default)]
pub(super) struct Arrays {
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
}

impl Arrays {
    /// Makes them as long as asked; written here first, so that their memory is this rank's core's.
    fn resize(&mut self, bytes: u64) {
        let elements = (bytes as usize / size_of::<f64>()).next_multiple_of(LANES);
        if self.a.len() != elements {
            self.a = (0..elements).map(|i| (i % 17) as f64).collect();
            self.b = (0..elements).map(|i| (i % 23) as f64).collect();
            self.c = vec![0.0; elements];
        }
    }

    /// One pass over them.
    fn pass(&mut self, load: Load) {
        let (a, _) = self.a.as_chunks::<LANES>();
        let (b, _) = self.b.as_chunks::<LANES>();
        let (c, _) = self.c.as_chunks_mut::<LANES>();
        match load.kernel {
            Kernel::Copy => c.iter_mut().zip(a).for_each(|(c, a)| *c = *a),
            Kernel::Triad => {
                let repeat = black_box(load.repeat);
                for ((c, a), b) in c.iter_mut().zip(a).zip(b) {
                    let mut x = *b;
                    for _ in 0..repeat {
                        for (x, a) in x.iter_mut().zip(a) {
                            *x = a + FACTOR * *x;
                        }
                    }
                    *c = x;
                }
            }
        }
        black_box(&mut self.c);
    }

    /// Whether the first and the last element are what a pass leaves there.
    fn is_right(&self, load: Load) -> bool {
        [0, self.c.len() - 1].into_iter().all(|i| {
            let right = match load.kernel {
                Kernel::Copy => self.a[i],
                Kernel::Triad => (0..load.repeat).fold(self.b[i], |x, _| self.a[i] + FACTOR * x),
            };
            self.c[i].to_bits() == right.to_bits()
        })
    }
}

impl Member<'_> {
    /// One phase. Ranks from 2 on compute while 0 and 1 play ping-pong; of two ranks, rank 1 receives and computes.
    pub(super) fn contend(
        &mut self,
        bytes: usize,
        trips: u64,
        load: Load,
        passes: u64,
        phase: Phase,
    ) -> Result<Measured, Error> {
        let ranks = self.comm()?.size();
        let computes = if ranks == 2 { self.rank == 1 } else { self.rank >= 2 };
        if computes {
            self.arrays.resize(load.bytes);
        }
        let measured = match phase {
            Phase::ComputingAlone => self.computing_alone(computes, load, passes),
            _ if ranks == 2 => {
                let passes = if phase == Phase::CommunicationBeside { passes } else { 0 };
                self.receive_and_compute(bytes, trips, load, passes)?
            }
            Phase::ComputingBeside if computes => self.computing(load, passes),
            Phase::CommunicationAlone if computes => {
                self.block.barrier().wait();
                Measured { verified: 1, ..Measured::default() }
            }
            Phase::CommunicationBeside if computes => self.disturbing(load),
            Phase::ComputingBeside => self.playing_on(bytes, u64::from(ranks) - 2)?,
            _ => self.playing(bytes, trips)?,
        };
        // Who is done sleeps until all are.
        self.block.barrier().wait();
        Ok(measured)
    }

    /// Twice: the second is the null.
    fn computing_alone(&mut self, computes: bool, load: Load, passes: u64) -> Measured {
        let passes = if computes { passes } else { 0 };
        let (arrays, barrier) = (&mut self.arrays, self.block.barrier());
        let mut times = [0; 2];
        for time in &mut times {
            barrier.wait();
            *time = timed(|| (0..passes).for_each(|_| arrays.pass(load)));
        }
        let [t_comp, t_comp_again] = times;
        let verified = u64::from(!computes || arrays.is_right(load));
        Measured { t_comp, t_comp_again, verified, ..Measured::default() }
    }

    /// What is measured, while the others communicate.
    fn computing(&mut self, load: Load, passes: u64) -> Measured {
        self.block.barrier().wait();
        let arrays = &mut self.arrays;
        let t_comp = timed(|| (0..passes).for_each(|_| arrays.pass(load)));
        self.block.end();
        Measured { t_comp, verified: u64::from(self.arrays.is_right(load)), ..Measured::default() }
    }

    /// What disturbs the others until they have ended.
    fn disturbing(&mut self, load: Load) -> Measured {
        self.block.barrier().wait();
        while self.block.ended() == 0 {
            self.arrays.pass(load);
        }
        Measured { verified: 1, ..Measured::default() }
    }

    /// What is measured, whatever the others do.
    fn playing(&mut self, bytes: usize, trips: u64) -> Result<Measured, Error> {
        self.resize(bytes, bytes)?;
        self.block.barrier().wait();
        let start = now_ns();
        let right = self.ping_pong(trips)?;
        let t_comm = now_ns() - start;
        if self.rank == 0 {
            self.block.end();
        }
        Ok(Measured { t_comm, verified: u64::from(right), ..Measured::default() })
    }

    /// What disturbs the others until all of them have ended. Rank 0 sees that, and says it.
    fn playing_on(&mut self, bytes: usize, computing: u64) -> Result<Measured, Error> {
        self.resize(bytes, bytes)?;
        self.block.barrier().wait();
        let mut right = true;
        while self.agree(self.block.ended() < computing)? {
            right &= self.ping_pong(BATCH)?;
        }
        Ok(Measured { verified: u64::from(right), ..Measured::default() })
    }

    /// Whether rank 0 wants more.
    fn agree(&self, more: bool) -> Result<bool, Error> {
        let mut word = [u8::from(more)];
        let comm = self.comm()?;
        if self.rank == 0 {
            let buf = ConstBuf::contiguous(word.as_ptr(), 1);
            // SAFETY: the word is borrowed during the call.
            unsafe { comm.send_raw(buf, 1, MORE, Mode::Standard) }.map_err(Error::failed)?;
        } else {
            let buf = MutBuf::contiguous(word.as_mut_ptr(), 1);
            // SAFETY: as above.
            unsafe { comm.recv_raw(buf, Some(0), Some(MORE)) }.map_err(Error::failed)?;
        }
        Ok(word == [1])
    }

    fn resize(&mut self, send: usize, recv: usize) -> Result<(), Error> {
        self.send.resize(send)?;
        self.recv.resize(recv)?;
        // So that content that stayed from another phase cannot pass for this one's.
        self.recv.touch(0);
        Ok(())
    }

    /// Round trips; each sender rewrites its buffer. Whether what came is right.
    fn ping_pong(&mut self, trips: u64) -> Result<bool, Error> {
        let mut right = true;
        for trip in 0..trips {
            let stamp = (trip % 251) as u8 + 1;
            if self.rank == 0 {
                self.send.touch(stamp);
                self.send(1)?;
                self.receive(1)?;
            } else {
                self.receive(0)?;
                self.send.touch(stamp);
                self.send(0)?;
            }
            right &= self.recv.is_touched_at_ends(stamp);
        }
        Ok(right)
    }

    /// Rank 0 sends `trips` messages, each of which it knows to be received before the next; rank 1 has posted all receives,
    /// and computes, if it does, before it waits for them.
    fn receive_and_compute(
        &mut self,
        bytes: usize,
        trips: u64,
        load: Load,
        passes: u64,
    ) -> Result<Measured, Error> {
        let mut measured = Measured { verified: 1, ..Measured::default() };
        let before = self.comm()?.stats().interrupts;
        if self.rank == 0 {
            self.resize(bytes, 0)?;
            self.block.barrier().wait();
            let start = now_ns();
            for trip in 0..trips {
                self.send.touch((trip % 251) as u8 + 1);
                let buf = ConstBuf::contiguous(self.send.as_ptr(), bytes);
                let comm = self.comm()?;
                // SAFETY: the buffer is borrowed during the call.
                unsafe { comm.send_raw(buf, 1, TAG, Mode::Synchronous) }.map_err(Error::failed)?;
            }
            measured.t_comm = now_ns() - start;
        } else {
            self.resize(0, bytes * trips as usize)?;
            let posted = self.post_all(bytes, trips)?;
            self.block.barrier().wait();
            let arrays = &mut self.arrays;
            measured.t_comp = timed(|| (0..passes).for_each(|_| arrays.pass(load)));
            posted.into_iter().try_for_each(wait)?;
            let right = (0..trips as usize).all(|trip| {
                let message = &self.recv.as_bytes()[trip * bytes..(trip + 1) * bytes];
                message.iter().step_by(64).all(|byte| *byte == (trip % 251) as u8 + 1)
            });
            measured.verified = u64::from(right && (passes == 0 || self.arrays.is_right(load)));
        }
        measured.interrupts = self.comm()?.stats().interrupts - before;
        Ok(measured)
    }

    /// A receive for each message, in the order in which they are sent.
    fn post_all(&mut self, bytes: usize, trips: u64) -> Result<Vec<RawRequest>, Error> {
        let base = self.recv.as_mut_ptr();
        let comm = self.comm()?;
        (0..trips as usize)
            .map(|trip| {
                let buf = MutBuf::contiguous(base.wrapping_add(trip * bytes), bytes);
                // SAFETY: the buffer has a part for each message; nobody touches it, or drops it, before all are waited for
                // (an error ends the process, see `Member::fail`).
                unsafe { comm.irecv_raw(buf, Some(0), Some(TAG)) }.map_err(Error::failed)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_does_what_it_says() {
        let mut arrays = Arrays::default();
        for bytes in [64, 200, 4096] {
            arrays.resize(bytes);
            assert!(arrays.a.len() * 8 >= bytes as usize && arrays.a.len().is_multiple_of(LANES));
            for (kernel, repeat) in [(Kernel::Copy, 1), (Kernel::Triad, 1), (Kernel::Triad, 7)] {
                let load = Load { kernel, repeat, bytes };
                arrays.c.fill(-1.0);
                assert!(!arrays.is_right(load));
                arrays.pass(load);
                assert!(arrays.is_right(load), "{load:?}");
            }
        }
        assert_eq!(arrays.c[20], (0..7).fold(20.0, |x, _| 3.0 + 0.5 * x));
    }
}
