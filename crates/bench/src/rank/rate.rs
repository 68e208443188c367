//! Many messages one after the other: windows of sends against windows of receives.

use super::Member;
use crate::compute::compute;
use crate::error::Error;
use crate::fleet::block::Measured;
use crate::values::Receives;
use tocsin_sync::clock::now_ns;
use tocsin_world::{ConstBuf, Mode, MutBuf, RawRequest};

const TAG: i32 = 10;
/// Of the message behind a window's last, for which a receiver that posts late waits.
const ALL_SENT: i32 = 11;
/// Of the receiver's answer to a window.
const ANSWER: i32 = 12;

impl Member<'_> {
    /// `windows` times, from every even rank to the next: `window` sends against as many receives, and an answer when all have
    /// come. The sender's time is the result. Early receives are posted while the window before is under way. `work`: what a receiver computes that
    /// computes; the result is the time that its sends take then.
    pub(super) fn rate(
        &mut self,
        bytes: usize,
        window: usize,
        windows: u64,
        receives: Receives,
        work: u64,
    ) -> Result<Measured, Error> {
        let other = (self.rank ^ 1) as u32;
        let before = self.comm()?.stats().interrupts;
        let mut measured = match receives {
            _ if self.rank.is_multiple_of(2) => self.send_windows(other, bytes, window, windows, receives)?,
            Receives::Early => self.receive_windows(other, bytes, window, windows)?,
            Receives::Late | Receives::Blocking => {
                self.receive_windows_unposted(other, bytes, window, windows, receives)?
            }
            Receives::Computing => self.receive_windows_computing(other, bytes, window, windows, work)?,
        };
        measured.interrupts = self.comm()?.stats().interrupts - before;
        Ok(measured)
    }

    fn send_windows(
        &mut self,
        to: u32,
        bytes: usize,
        window: usize,
        windows: u64,
        receives: Receives,
    ) -> Result<Measured, Error> {
        self.send.resize(bytes * window)?;
        let mut requests: Vec<RawRequest> = Vec::with_capacity(window);
        self.block.barrier().wait();
        let base = self.send.as_mut_ptr();
        let (start, mut t_sends) = (now_ns(), 0);
        for number in 0..windows {
            let begun = now_ns();
            for at in 0..window {
                let block = base.wrapping_add(at * bytes);
                for line in (0..bytes).step_by(64) {
                    // SAFETY: the buffer has `window` blocks of so many bytes; the last send of this one is complete.
                    unsafe { block.add(line).write(stamp(at, number)) };
                }
                let buf = ConstBuf::contiguous(block, bytes);
                if receives == Receives::Blocking {
                    // SAFETY: nobody writes the block meanwhile.
                    unsafe { self.comm()?.send_raw(buf, to, TAG, Mode::Standard) }.map_err(Error::failed)?;
                    continue;
                }
                // SAFETY: nobody writes the block, or drops the buffer, before the request is waited for; an error ends the
                // process without dropping it (`Member::fail`).
                let request = unsafe { self.comm()?.isend_raw(buf, to, TAG, Mode::Standard) };
                requests.push(request.map_err(Error::failed)?);
            }
            if receives == Receives::Late {
                self.send_nothing(to, ALL_SENT)?;
            }
            wait_for(&mut requests)?;
            t_sends += now_ns() - begun;
            self.receive_nothing(to, ANSWER)?;
        }
        let t_comm = if receives == Receives::Computing { t_sends } else { now_ns() - start };
        Ok(Measured { t_comm, verified: 1, ..Measured::default() })
    }

    /// Two windows are posted at once, the next and that which is under way.
    fn receive_windows(
        &mut self,
        from: u32,
        bytes: usize,
        window: usize,
        windows: u64,
    ) -> Result<Measured, Error> {
        self.clear_received(2 * bytes * window)?;
        let half = bytes * window;
        let (mut posted, mut next) = (Vec::with_capacity(window), Vec::with_capacity(window));
        self.post_window(from, 0, bytes, window, &mut posted)?;
        self.block.barrier().wait();
        let mut right = true;
        for number in 0..windows {
            let (mine, others) = if number.is_multiple_of(2) { (0, half) } else { (half, 0) };
            if number + 1 < windows {
                self.post_window(from, others, bytes, window, &mut next)?;
            }
            wait_for(&mut posted)?;
            right &= self.all_came_to(mine, bytes, window, number);
            self.send_nothing(from, ANSWER)?;
            std::mem::swap(&mut posted, &mut next);
        }
        Ok(Measured { verified: u64::from(right), ..Measured::default() })
    }

    /// Nothing is posted before its message may be there.
    fn receive_windows_unposted(
        &mut self,
        from: u32,
        bytes: usize,
        window: usize,
        windows: u64,
        receives: Receives,
    ) -> Result<Measured, Error> {
        self.clear_received(bytes * window)?;
        let mut posted = Vec::with_capacity(window);
        self.block.barrier().wait();
        let mut right = true;
        for number in 0..windows {
            if receives == Receives::Late {
                self.receive_nothing(from, ALL_SENT)?;
                self.post_window(from, 0, bytes, window, &mut posted)?;
                wait_for(&mut posted)?;
            } else {
                let base = self.recv.as_mut_ptr();
                for at in 0..window {
                    let buf = MutBuf::contiguous(base.wrapping_add(at * bytes), bytes);
                    // SAFETY: the buffer has a block for each, which nobody else touches meanwhile.
                    unsafe { self.comm()?.recv_raw(buf, Some(from), Some(TAG)) }.map_err(Error::failed)?;
                }
            }
            right &= self.all_came_to(0, bytes, window, number);
            self.send_nothing(from, ANSWER)?;
        }
        Ok(Measured { verified: u64::from(right), ..Measured::default() })
    }

    fn receive_windows_computing(
        &mut self,
        from: u32,
        bytes: usize,
        window: usize,
        windows: u64,
        work: u64,
    ) -> Result<Measured, Error> {
        self.clear_received(bytes * window)?;
        let mut posted = Vec::with_capacity(window);
        self.post_window(from, 0, bytes, window, &mut posted)?;
        self.block.barrier().wait();
        let mut right = true;
        for number in 0..windows {
            compute(work, number);
            wait_for(&mut posted)?;
            right &= self.all_came_to(0, bytes, window, number);
            if number + 1 < windows {
                self.post_window(from, 0, bytes, window, &mut posted)?;
            }
            self.send_nothing(from, ANSWER)?;
        }
        Ok(Measured { verified: u64::from(right), ..Measured::default() })
    }

    /// Room for messages. What stayed from another round cannot pass for this one's.
    fn clear_received(&mut self, bytes: usize) -> Result<(), Error> {
        self.recv.resize(bytes)?;
        self.recv.as_bytes_mut().fill(0);
        Ok(())
    }

    /// Posts a window of receives into the blocks from `offset` on.
    fn post_window(
        &mut self,
        from: u32,
        offset: usize,
        bytes: usize,
        window: usize,
        requests: &mut Vec<RawRequest>,
    ) -> Result<(), Error> {
        let base = self.recv.as_mut_ptr().wrapping_add(offset);
        for at in 0..window {
            let buf = MutBuf::contiguous(base.wrapping_add(at * bytes), bytes);
            // SAFETY: the buffer has a block for each, which nobody else touches, or drops, before the request is waited for; an
            // error ends the process without dropping it (`Member::fail`).
            let request = unsafe { self.comm()?.irecv_raw(buf, Some(from), Some(TAG)) };
            requests.push(request.map_err(Error::failed)?);
        }
        Ok(())
    }

    /// Whether each block has its message, by its first and last line.
    fn all_came_to(&self, offset: usize, bytes: usize, window: usize, number: u64) -> bool {
        let last = bytes.saturating_sub(1) / 64 * 64;
        // Other blocks may be received into meanwhile: only these are looked at.
        let base = self.recv.as_ptr().wrapping_add(offset);
        let is = |at: usize, line: usize| {
            // SAFETY: inside the block, whose receive is complete.
            unsafe { base.add(at * bytes + line).read() == stamp(at, number) }
        };
        bytes == 0 || (0..window).all(|at| is(at, 0) && is(at, last))
    }

    fn send_nothing(&self, to: u32, tag: i32) -> Result<(), Error> {
        let nothing = ConstBuf::contiguous(std::ptr::NonNull::<u8>::dangling().as_ptr(), 0);
        // SAFETY: a buffer of no bytes is never read.
        unsafe { self.comm()?.send_raw(nothing, to, tag, Mode::Standard) }.map(drop).map_err(Error::failed)
    }

    fn receive_nothing(&self, from: u32, tag: i32) -> Result<(), Error> {
        let nothing = MutBuf::contiguous(std::ptr::NonNull::<u8>::dangling().as_ptr(), 0);
        // SAFETY: a buffer of no bytes is never written.
        unsafe { self.comm()?.recv_raw(nothing, Some(from), Some(tag)) }.map(drop).map_err(Error::failed)
    }
}

/// Waits for all, and forgets them.
fn wait_for(requests: &mut Vec<RawRequest>) -> Result<(), Error> {
    tocsin_world::wait_all(&mut requests.iter_mut().collect::<Vec<_>>()).map_err(Error::failed)?;
    requests.clear();
    Ok(())
}

/// What a message has in it.
fn stamp(at: usize, number: u64) -> u8 {
    ((at as u64 + 7 * number) % 251) as u8 + 1
}
