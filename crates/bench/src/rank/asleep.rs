//! Collectives while all ranks sleep outside the library, so that only progress threads or handlers move them.

use super::Member;
use crate::error::Error;
use crate::fleet::block::Measured;
use crate::shared::{sleep_until_ns, sleep_while, wake_sleepers};
use crate::stats::Times;
use crate::values::Operation;
use std::time::Duration;
use tocsin_sync::atomic::{AtomicU64, Ordering};
use tocsin_sync::clock::now_ns;
use tocsin_world::BackendKind;

/// Rank 0 posts this long after all others have: they and their progress threads sleep by then.
const AFTER_POSTS_NS: u64 = 200_000;
/// Words between two that different ranks write: a cache line.
const LINE: usize = 8;

/// What the callbacks of all ranks share, in memory of the bench.
#[derive(Clone, Copy)]
struct Watch {
    words: *const [AtomicU64],
}

// SAFETY: atomics, in memory that outlives every callback: a rank returns from the task when all have run, and one that
// fails ends its process.
unsafe impl Send for Watch {}

impl Watch {
    fn word(&self, line: usize) -> &AtomicU64 {
        // SAFETY: see above.
        let words = unsafe { &*self.words };
        &words[line * LINE]
    }

    /// Ranks whose callback has not run.
    fn left(&self) -> &AtomicU64 {
        self.word(0)
    }

    /// Not 0: all have; 1: none failed.
    fn over(&self) -> &AtomicU64 {
        self.word(1)
    }

    fn failed(&self) -> &AtomicU64 {
        self.word(2)
    }

    /// The clock in the last callback.
    fn done_at(&self) -> &AtomicU64 {
        self.word(3)
    }

    fn begin(&self, ranks: u64) {
        // SYNC POINT: Relaxed: the barrier that follows publishes them.
        self.left().store(ranks, Ordering::Relaxed);
        for word in [self.over(), self.failed(), self.done_at()] {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// A rank's callback. Only the last one of all wakes anybody, so that no callback delays the next rank's.
    fn called(&self, right: bool) {
        if !right {
            self.failed().store(1, Ordering::Relaxed);
        }
        // Before the count: who sees the last one's sees its clock.
        self.done_at().fetch_max(now_ns(), Ordering::Relaxed);
        // SYNC POINT: AcqRel: the last one sees what all others wrote, and passes it on by Release.
        if self.left().fetch_sub(1, Ordering::AcqRel) == 1 {
            self.over().store(1 + self.failed().load(Ordering::Relaxed), Ordering::Release);
            wake_sleepers(self.over());
        }
    }

    /// Sleeps until all have been called.
    fn sleep(&self) -> Result<(), Error> {
        loop {
            // SYNC POINT: Acquire pairs with the last callback's Release.
            match self.over().load(Ordering::Acquire) {
                0 => sleep_while(self.over(), 0, Duration::from_secs(1)),
                1 => return Ok(()),
                _ => return Err(Error::Failed("a collective failed".into())),
            }
        }
    }
}

impl Member<'_> {
    /// `count` operations, each with other content. `t_comm`, of rank 0: the median of the times from its post, the last one, to
    /// the last completion of all. `turns`: of this rank's progress thread, in all.
    pub(super) fn asleep(
        &mut self,
        op: Operation,
        bytes: usize,
        root: u32,
        count: usize,
    ) -> Result<Measured, Error> {
        if self.comm()?.backend() == BackendKind::Poll {
            return Err(Error::Failed(
                "with the backend poll nothing moves while ranks sleep outside".into(),
            ));
        }
        let block = self.block;
        let watch = Watch { words: block.copy_area() };
        let ranks = u64::from(self.comm()?.size());
        let mut measured = Measured { verified: 1, ..Measured::default() };
        let mut times = Times::default();
        let before = self.comm()?.stats();
        for _ in 0..count {
            self.round += 1;
            self.prepare(op, bytes, root)?;
            if self.rank == 0 {
                watch.begin(ranks);
            }
            block.barrier().wait();
            if self.rank > 0 {
                measured.posted_at = now_ns();
                self.post_and_leave(op, bytes, root, watch)?;
            }
            block.barrier().wait();
            if self.rank == 0 {
                sleep_until_ns(now_ns() + AFTER_POSTS_NS);
                measured.posted_at = now_ns();
                self.post_and_leave(op, bytes, root, watch)?;
            }
            watch.sleep()?;
            measured.done_at = watch.done_at().load(Ordering::Relaxed);
            if self.rank == 0 {
                times.add(measured.done_at.saturating_sub(measured.posted_at));
            }
            measured.verified &= u64::from(self.is_right(op, bytes, root));
            // Nobody begins the next one while somebody looks at this one's clocks.
            block.barrier().wait();
        }
        let after = self.comm()?.stats().since(&before);
        (measured.turns, measured.interrupts) = (after.turns, after.interrupts);
        measured.t_comm = if self.rank == 0 { times.median() as u64 } else { 0 };
        Ok(measured)
    }

    /// Posts the collective, whose end `watch` hears of.
    fn post_and_leave(&mut self, op: Operation, bytes: usize, root: u32, watch: Watch) -> Result<(), Error> {
        let Some(mut request) = self.post(op, bytes, root)? else {
            return Err(Error::Failed("a prepared collective has no callback here".into()));
        };
        request.on_complete(Box::new(move |result| {
            // All of it, not its field alone: that is what may be sent.
            let watch = watch;
            watch.called(result.is_ok());
        }));
        Ok(())
    }
}
