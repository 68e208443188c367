//! Point to point: ping-pong and overlap of one message.

use super::{Member, timed};
use crate::compute::compute;
use crate::error::Error;
use crate::events::Counter;
use crate::fleet::block::Measured;
use crate::values::{Case, Event};
use std::hint::spin_loop;
use std::sync::mpsc::{Sender, channel};
use tocsin_progress::UNFINISHED_NS;
use tocsin_sync::clock::now_ns;
use tocsin_world::{ConstBuf, Mode, MutBuf, RawRequest};

pub(super) const TAG: i32 = 7;
/// Longer than a rank that has had a callback is looked after: it is interrupted once more within that time, which is not to be in the next round's computing.
const LOOKED_AFTER_NS: u64 = 2 * UNFINISHED_NS;
/// Of the message for which ranks wait that have no part in a measurement.
const OVER: i32 = 8;

impl Member<'_> {
    /// Starts sending the whole send buffer.
    pub(super) fn isend(&self, to: u32) -> Result<RawRequest, Error> {
        let bytes = self.send.as_bytes().len();
        let buf = ConstBuf::contiguous(self.send.as_ptr(), bytes);
        // SAFETY: the buffer is neither written nor dropped before the request is waited for: every caller waits,
        // and an error ends the process without dropping anything (`Member::fail`).
        unsafe { self.comm()?.isend_raw(buf, to, TAG, Mode::Standard) }.map_err(Error::failed)
    }

    /// Starts receiving into the whole receive buffer.
    pub(super) fn irecv(&mut self, from: u32) -> Result<RawRequest, Error> {
        let bytes = self.recv.as_bytes().len();
        let buf = MutBuf::contiguous(self.recv.as_mut_ptr(), bytes);
        // SAFETY: as `isend`; nobody else uses the buffer meanwhile.
        unsafe { self.comm()?.irecv_raw(buf, Some(from), Some(TAG)) }.map_err(Error::failed)
    }

    /// Sends the whole send buffer.
    #[inline(always)]
    pub(super) fn send(&self, to: u32) -> Result<(), Error> {
        let bytes = self.send.as_bytes().len();
        let buf = ConstBuf::contiguous(self.send.as_ptr(), bytes);
        // SAFETY: the buffer is borrowed during the call.
        unsafe { self.comm()?.send_raw(buf, to, TAG, Mode::Standard) }.map(drop).map_err(Error::failed)
    }

    /// Receives into the whole receive buffer.
    #[inline(always)]
    pub(super) fn receive(&mut self, from: u32) -> Result<(), Error> {
        let bytes = self.recv.as_bytes().len();
        let buf = MutBuf::contiguous(self.recv.as_mut_ptr(), bytes);
        // SAFETY: the buffer is borrowed during the call.
        unsafe { self.comm()?.recv_raw(buf, Some(from), Some(TAG)) }.map(drop).map_err(Error::failed)
    }

    /// Where ranks from 2 on wait, in the library as in a program's receive; rank 0 ends it.
    fn others_wait(&self) -> Result<(), Error> {
        let comm = self.comm()?;
        let nothing = std::ptr::NonNull::<u8>::dangling().as_ptr();
        if self.rank == 0 {
            for other in 2..comm.size() {
                let buf = ConstBuf::contiguous(nothing, 0);
                // SAFETY: a buffer of no bytes is never read.
                unsafe { comm.send_raw(buf, other, OVER, Mode::Standard) }.map_err(Error::failed)?;
            }
        } else if self.rank > 1 {
            let buf = MutBuf::contiguous(nothing, 0);
            // SAFETY: a buffer of no bytes is never written.
            unsafe { comm.recv_raw(buf, Some(0), Some(OVER)) }.map_err(Error::failed)?;
        }
        Ok(())
    }

    /// `trips` round trips between ranks 0 and 1; rank 0's time is the result. And what happened to both meanwhile, if that is to be counted.
    pub(super) fn pingpong(
        &mut self,
        bytes: usize,
        trips: u64,
        count: Option<Event>,
    ) -> Result<Measured, Error> {
        let partner = (self.rank < 2).then_some(self.rank ^ 1);
        self.count(count.filter(|_| partner.is_some()));
        let before = self.comm()?.stats();
        let measured = self.trips(bytes, trips, partner)?;
        self.others_wait()?;
        let since = self.comm()?.stats().since(&before);
        Ok(Measured {
            once_in_place: since.bytes_in_place,
            once_by_kernel: since.bytes_by_kernel,
            once_by_knem: since.bytes_by_knem,
            once_by_pages: since.bytes_by_pages,
            ..measured
        })
    }

    /// Has an event of this thread's counted while messages travel, or none.
    fn count(&mut self, event: Option<Event>) {
        let same = |counter: &Counter| Some(counter.event()) == event;
        if !self.counter.as_ref().is_some_and(|counter| counter.as_ref().is_ok_and(same)) {
            self.counter = event.map(Counter::new);
        }
    }

    /// `trips` round trips of every even rank with the next.
    pub(super) fn together(&mut self, bytes: usize, trips: u64) -> Result<Measured, Error> {
        let ranks = self.comm()?.size() as usize;
        let partner = Some(self.rank ^ 1).filter(|other| *other < ranks);
        self.trips(bytes, trips, partner)
    }

    /// `trips` round trips with a partner, if this rank has one, begun by the even rank.
    fn trips(&mut self, bytes: usize, trips: u64, partner: Option<usize>) -> Result<Measured, Error> {
        self.send.resize(bytes)?;
        self.recv.resize(bytes)?;
        // So that content that stayed from another batch cannot pass for this one's.
        self.recv.touch(0);
        let mut right = true;
        self.block.barrier().wait();
        let counts = self.counter.as_ref().map(|counter| counter.as_ref().map_err(|e| *e)?.start());
        let start = now_ns();
        let begins = self.rank.is_multiple_of(2);
        let mut stamp = 0;
        for _ in 0..trips {
            stamp = if stamp == 251 { 1 } else { stamp + 1 };
            let Some(other) = partner else { break };
            if begins {
                self.send.touch(stamp);
                self.send(other as u32)?;
                self.receive(other as u32)?;
            } else {
                self.receive(other as u32)?;
                self.send.touch(stamp);
                self.send(other as u32)?;
            }
            right &= self.recv.is_touched_at_ends(stamp);
        }
        let t_comm = now_ns() - start;
        let stop = || self.counter.as_ref().map_or(Ok(0), |counter| counter.as_ref().map_err(|e| *e)?.stop());
        let counted = counts.map_or(Ok(0), |started| started.and_then(|()| stop()));
        if partner.is_some() && trips > 0 {
            right &= self.recv.is_touched(stamp);
        }
        Ok(Measured {
            t_comm,
            counted: counted.unwrap_or(0),
            not_counted: counted.err().map_or(0, |error| error as u64),
            verified: u64::from(right),
            ..Measured::default()
        })
    }

    /// One round: communication alone, computing alone, computing alone again (the null), both.
    pub(super) fn overlap(&mut self, bytes: usize, case: Case, work: u64) -> Result<Measured, Error> {
        self.send.resize(bytes)?;
        self.recv.resize(bytes)?;
        let computes = match case {
            Case::Recv => self.rank == 1,
            Case::Send => self.rank == 0,
            Case::Both => self.rank < 2,
        };
        let mine = if computes { work } else { 0 };
        let mut measured = Measured { verified: 1, ..Measured::default() };

        let (t_comm, _) = self.message(0, &mut measured, None)?;
        measured.t_comm = t_comm;
        if work == 0 {
            return Ok(measured);
        }
        self.block.barrier().wait();
        measured.t_comp = timed(|| work_if_any(mine, self.round));
        self.block.barrier().wait();
        measured.t_comp_again = timed(|| work_if_any(mine, self.round));

        let before = self.comm()?.stats();
        (measured.t_ovrl, measured.waited) = self.message(mine, &mut measured, None)?;
        let after = self.comm()?.stats();
        measured.interrupts = after.interrupts - before.interrupts;
        measured.copied_user = after.bytes_copied_user - before.bytes_copied_user;
        measured.copied_handler = after.bytes_copied_handler - before.bytes_copied_handler;
        measured.copied_progress = after.bytes_copied_progress - before.bytes_copied_progress;

        // Once more with a callback, which has its price: what was measured above is without.
        if case == Case::Both && self.rank < 2 {
            let (called, calls) = channel();
            (measured.t_called, _) = self.message(mine, &mut measured, Some(called))?;
            let complete = calls.recv();
            measured.complete = complete.map_err(|_| Error::failed("a completion's callback was dropped"))?;
            let over = now_ns() + LOOKED_AFTER_NS;
            while now_ns() < over {
                spin_loop();
            }
        }
        Ok(measured)
    }

    /// One message from rank 0 to rank 1 with computing between post and wait: total time, and time in the library. `called`: who is
    /// told by a callback how long it took to be complete.
    fn message(
        &mut self,
        work: u64,
        measured: &mut Measured,
        called: Option<Sender<u64>>,
    ) -> Result<(u64, u64), Error> {
        let seed = self.round;
        match self.rank {
            0 => self.send.fill(seed),
            _ => self.recv.fill(!seed),
        }
        self.block.barrier().wait();
        let start = now_ns();
        let mut request = match self.rank {
            0 => self.isend(1)?,
            1 => self.irecv(0)?,
            _ => return Ok((0, 0)),
        };
        if let Some(called) = called {
            // Nobody listens any more if the wait has failed.
            request.on_complete(Box::new(move |_| {
                let _unheard = called.send(now_ns() - start);
            }));
        }
        let posted = now_ns();
        work_if_any(work, seed);
        let waiting = now_ns();
        wait(request)?;
        let end = now_ns();
        if self.rank == 1 && !self.recv.is_filled(seed) {
            measured.verified = 0;
        }
        Ok((end - start, posted - start + end - waiting))
    }
}

pub(super) fn work_if_any(work: u64, seed: u64) {
    if work > 0 {
        compute(work, seed);
    }
}

pub(super) fn wait(mut request: RawRequest) -> Result<(), Error> {
    request.wait().map(drop).map_err(Error::failed)
}
