//! Collectives with nothing between post and wait, many in one task: the ranks stay awake from one to the next. Each by itself, or one after the other.

use super::Member;
use crate::error::Error;
use crate::fleet::block::{COPY_WORDS, Measured};
use crate::values::Operation;
use tocsin_sync::atomic::{AtomicU64, Ordering};
use tocsin_sync::clock::now_ns;

/// Most of one task: each rank leaves two times of each in the shared area.
const MOST: usize = COPY_WORDS / 2 / tocsin_world::launcher::MAX_RANKS as usize;

impl Member<'_> {
    /// `count` operations, each with other content. `t_comm` is the median of their times, each of which is that of its
    /// slowest rank; `posted_at` and `done_at` are of the one in which a rank was done soonest after the last post.
    pub(super) fn alone(
        &mut self,
        op: Operation,
        bytes: usize,
        root: u32,
        count: usize,
    ) -> Result<Measured, Error> {
        if count == 0 || count > MOST {
            return Err(Error::Failed(format!("{count} operations in one task: between 1 and {MOST}")));
        }
        let mut measured = Measured { verified: 1, ..Measured::default() };
        let before = self.comm()?.stats().interrupts;
        let block = self.block;
        let mine = 2 * self.rank * count;
        for at in 0..count {
            self.round += 1;
            let times = self.collective(op, bytes, root, 0, &mut measured)?;
            let [start, end] = [mine + 2 * at, mine + 2 * at + 1].map(|word| &block.copy_area()[word]);
            start.store(times.start, Ordering::Relaxed);
            end.store(times.end, Ordering::Relaxed);
        }
        measured.interrupts = self.comm()?.stats().interrupts - before;
        // What all have stored before it is visible after it.
        block.barrier().wait();
        let ranks = self.comm()?.size() as usize;
        let summary = Summary::of(&block.copy_area()[..2 * ranks * count], count);
        // Nobody writes into the area while others read it.
        block.barrier().wait();
        let (posted_at, done_at) = summary.closest[self.rank];
        Ok(Measured { t_comm: summary.median, posted_at, done_at, ..measured })
    }

    /// `count` operations with the same content, nobody waiting for anything else between. `t_comm` is the time of all of them, divided by their number.
    pub(super) fn in_a_row(
        &mut self,
        op: Operation,
        bytes: usize,
        root: u32,
        count: usize,
    ) -> Result<Measured, Error> {
        self.round += 1;
        self.prepare(op, bytes, root)?;
        self.block.barrier().wait();
        let start = now_ns();
        for _ in 0..count {
            let posted = self.post(op, bytes, root)?;
            self.complete(posted)?;
        }
        let t_comm = (now_ns() - start) / count.max(1) as u64;
        self.block.barrier().wait();
        let verified = u64::from(self.is_right(op, bytes, root));
        Ok(Measured { t_comm, verified, ..Measured::default() })
    }
}

/// What the times of all ranks say: the same on each.
struct Summary {
    /// Of the slowest ranks' times.
    median: u64,
    /// Of the operation in which a rank was done soonest after the last post: post and end, by rank.
    closest: Vec<(u64, u64)>,
}

impl Summary {
    /// `words`: by rank, start and end of each of `count` operations.
    fn of(words: &[AtomicU64], count: usize) -> Summary {
        let of_one = |at: usize| {
            let word = |rank: &[AtomicU64], at: usize| rank[at].load(Ordering::Relaxed);
            words.chunks_exact(2 * count).map(move |rank| (word(rank, 2 * at), word(rank, 2 * at + 1)))
        };
        let slowest = |at| of_one(at).map(|(start, end)| end - start).max().unwrap_or(0);
        let mut times: Vec<u64> = (0..count).map(slowest).collect();
        times.sort_unstable();
        let after_last_post = |at: &usize| {
            let last_post = of_one(*at).map(|(start, _)| start).max().unwrap_or(0);
            let first_end = of_one(*at).map(|(_, end)| end).min().unwrap_or(0);
            i128::from(first_end) - i128::from(last_post)
        };
        let closest = (0..count).min_by_key(after_last_post).unwrap_or(0);
        Summary { median: times[count / 2], closest: of_one(closest).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_slowest_ranks_and_the_closest_end_is_found() {
        let words = |numbers: &[u64]| numbers.iter().map(|n| AtomicU64::new(*n)).collect::<Vec<_>>();
        // Two ranks, three operations of 5, 30 and 9; in the second, a rank is done before the other has posted.
        let both = words(&[10, 15, 20, 25, 50, 52, 11, 13, 26, 56, 50, 59]);
        let summary = Summary::of(&both, 3);
        assert_eq!((summary.median, summary.closest), (9, vec![(20, 25), (26, 56)]));
    }
}
