//! Many receives outstanding at once, met in an order of their own.

use super::{Member, timed};
use crate::error::Error;
use crate::fleet::block::Measured;
use crate::shared::{sleep_while, wake_sleepers};
use crate::stats::Times;
use std::sync::Arc;
use std::time::Duration;
use tocsin_sync::atomic::{AtomicU64, Ordering};
use tocsin_sync::clock::now_ns;
use tocsin_world::{BackendKind, ConstBuf, Mode, MutBuf, RawRequest};

/// What the callbacks of one batch share with who waits for them.
#[derive(Default)]
struct Watch {
    left: AtomicU64,
    failed: AtomicU64,
    /// The clock in the last of them.
    done_at: AtomicU64,
}

impl Member<'_> {
    /// `batches` times: rank 1 posts `count` receives with tags of their own, then rank 0 sends as many messages in
    /// shuffled order of tags. Medians over the batches, by rank 1: from rank 0's first send to the last completion
    /// (`t_comm`), and the time to post (`t_comp`); the smallest of the former (`waited`).
    pub(super) fn outstanding(
        &mut self,
        bytes: usize,
        count: usize,
        batches: u64,
        callbacks: bool,
    ) -> Result<Measured, Error> {
        let mut measured = Measured { verified: 1, ..Measured::default() };
        let order = shuffled(count, self.round);
        let mut requests: Vec<RawRequest> = Vec::with_capacity(count);
        let watch = Arc::new(Watch::default());
        match self.rank {
            0 => self.send.resize(bytes)?,
            _ => self.recv.resize(bytes * count)?,
        }
        // Clocks of rank 0, for rank 1: one clock for all of the node.
        let started = &self.block.copy_area()[0];
        let (mut posting, mut taken) = (Times::default(), Times::default());
        let before = self.comm()?.stats().interrupts;
        for batch in 0..batches {
            let mut done_at = 0;
            if self.rank == 1 {
                // So that content that stayed from another batch cannot pass for this one's.
                self.recv.as_bytes_mut().fill(0);
                let mut posted = self.post_receives(bytes, count, &mut requests)?;
                if callbacks {
                    watch.left.store(count as u64, Ordering::Relaxed);
                    posted += timed(|| call_back(&mut requests, &watch));
                }
                posting.add(posted);
            }
            self.block.barrier().wait();
            match self.rank {
                0 => {
                    // SYNC POINT: Relaxed: the barrier after the batch publishes it.
                    started.store(now_ns(), Ordering::Relaxed);
                    self.send_all(&order, batch)?;
                }
                1 => {
                    done_at = if callbacks { self.sleep(&watch)? } else { wait_all(&mut requests)? };
                    requests.clear();
                    measured.verified &= u64::from(self.all_came(bytes, count, batch));
                }
                _ => {}
            }
            self.block.barrier().wait();
            if self.rank == 1 {
                taken.add(done_at.saturating_sub(started.load(Ordering::Relaxed)));
            }
        }
        if self.rank == 1 {
            measured.t_comm = taken.median() as u64;
            measured.waited = taken.min() as u64;
            measured.t_comp = posting.median() as u64;
        }
        measured.interrupts = self.comm()?.stats().interrupts - before;
        Ok(measured)
    }

    /// Posts the receives; how long that took.
    fn post_receives(
        &mut self,
        bytes: usize,
        count: usize,
        requests: &mut Vec<RawRequest>,
    ) -> Result<u64, Error> {
        let base = self.recv.as_mut_ptr();
        let comm = self.comm()?;
        let start = now_ns();
        for tag in 0..count {
            let buf = MutBuf::contiguous(base.wrapping_add(tag * bytes), bytes);
            // SAFETY: the buffer has a block for each tag, which nobody else touches before the batch is over; an error
            // ends the process without dropping it (`Member::fail`).
            let request = unsafe { comm.irecv_raw(buf, Some(0), Some(tag as i32)) };
            requests.push(request.map_err(Error::failed)?);
        }
        Ok(now_ns() - start)
    }

    fn send_all(&mut self, order: &[u32], batch: u64) -> Result<(), Error> {
        for tag in order {
            self.send.touch(stamp(*tag as usize, batch));
            let buf = ConstBuf::contiguous(self.send.as_ptr(), self.send.as_bytes().len());
            // SAFETY: the buffer is borrowed during the call.
            let sent = unsafe { self.comm()?.send_raw(buf, 1, *tag as i32, Mode::Standard) };
            sent.map_err(Error::failed)?;
        }
        Ok(())
    }

    /// Sleeps outside of the library until the callbacks have run, as a rank does that has nothing else to do; where
    /// nothing but calls makes progress, calls. When the last one ran.
    fn sleep(&self, watch: &Watch) -> Result<u64, Error> {
        let comm = self.comm()?;
        let only_calls = comm.backend() == BackendKind::Poll;
        loop {
            // SYNC POINT: Acquire pairs with the last callback's Release: what all of them wrote is visible.
            match watch.left.load(Ordering::Acquire) {
                0 => break,
                _ if only_calls => comm.progress(),
                left => sleep_while(&watch.left, left, Duration::from_secs(1)),
            }
        }
        match watch.failed.load(Ordering::Relaxed) {
            0 => Ok(watch.done_at.load(Ordering::Relaxed)),
            failed => Err(Error::Failed(format!("{failed} receives failed"))),
        }
    }

    /// Whether every receive has the message of its tag.
    fn all_came(&self, bytes: usize, count: usize, batch: u64) -> bool {
        let got = self.recv.as_bytes();
        bytes == 0
            || (0..count).all(|tag| {
                let mut lines = got[tag * bytes..(tag + 1) * bytes].iter().step_by(64);
                lines.all(|byte| *byte == stamp(tag, batch))
            })
    }
}

/// Sets a callback for each request, and gives the requests up: they end by themselves.
fn call_back(requests: &mut Vec<RawRequest>, watch: &Arc<Watch>) {
    for mut request in requests.drain(..) {
        let watch = Arc::clone(watch);
        request.on_complete(Box::new(move |result| {
            if result.is_err() {
                watch.failed.fetch_add(1, Ordering::Relaxed);
            }
            // Before the count: who sees the last one's sees its clock.
            watch.done_at.fetch_max(now_ns(), Ordering::Relaxed);
            // SYNC POINT: AcqRel: who sees 0 sees what every callback wrote.
            if watch.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                wake_sleepers(&watch.left);
            }
        }));
    }
}

/// Waits for all in the order of posting; when the last one was complete.
fn wait_all(requests: &mut [RawRequest]) -> Result<u64, Error> {
    for request in requests.iter_mut() {
        request.wait().map_err(Error::failed)?;
    }
    Ok(now_ns())
}

/// What a message has in it.
fn stamp(tag: usize, batch: u64) -> u8 {
    ((tag as u64).wrapping_mul(31).wrapping_add(batch) % 251) as u8 + 1
}

/// The numbers below `count` in an order that looks like chance and is the same for the same seed (Fisher and Yates).
fn shuffled(count: usize, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count as u32).collect();
    let mut state = seed;
    for last in (1..order.len()).rev() {
        // Knuth's MMIX multiplier and increment; the upper half is the better one.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(last, (state >> 33) as usize % (last + 1));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tag_is_sent_once() {
        for count in [0, 1, 2, 10, 1000] {
            let mut order = shuffled(count, 7);
            assert!(count < 10 || !order.is_sorted());
            order.sort_unstable();
            assert_eq!(order, (0..count as u32).collect::<Vec<_>>());
        }
    }
}
