//! Communicators that nobody here has any more: what the engine keeps of them goes.
//!
//! # Implementation details
//! A drop may come anywhere, also where the engine cannot be entered: in a user operator, in a callback. So it notes the context here, and
//! tells the engine if it finds it free; else the rank's next call that waits or looks does, or the next drop or new communicator. It runs no callbacks: who drops may hold
//! a lock that one of them wants.
//!
//! A thread that panics mostly takes its rank with it, which the others hear. That the rank has dropped a communicator would be told first to who sends to it there, so that
//! such a drop is only noted. If somebody catches the panic, as callbacks' are, the rank's next call tells the engine; a rank that dies makes none.
//!
//! An operation that was given up goes on, in a communicator that is dropped, too. Then its context is kept until it has ended,
//! because messages for it are still to come.

use std::sync::PoisonError;

use tocsin_progress::Context;

use super::Rank;
use crate::comm::COLLECTIVE;
use crate::state::RankState;

/// A communicator that was dropped, and of which the engine has not heard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dropped {
    pub(crate) context: u32,
    /// Operations were given up in it, which may go on.
    pub(crate) goes_on: bool,
    /// The board that it had, if that has not been given back.
    pub(crate) board: Option<u32>,
}

impl Rank {
    /// A communicator is gone. Anywhere but in a handler.
    pub(crate) fn drop_communicator(&self, mut dropped: Dropped) {
        // In the child of a fork, too: it is the parent's, and a lock may be one that another thread held.
        if self.is_closed() {
            return;
        }
        let panics = std::thread::panicking();
        if !panics && let Some(board) = dropped.board.take() {
            self.boards.drop_board(board);
        }
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).push(dropped);
        // Whoever is inside sees to the board, this thread itself if it is.
        let inside = if panics { None } else { self.engine.try_enter(Context::User) };
        let Some(mut state) = inside else { return self.leave_to_next_call() };
        state.leave_callbacks();
        self.forget_dropped(&mut state);
    }

    /// Tells the engine what was dropped. User threads only.
    pub(super) fn forget_dropped(&self, state: &mut RankState) {
        if std::thread::panicking() {
            return self.leave_to_next_call();
        }
        // Nobody who holds the lock waits for the engine.
        let mut dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        let boards = dropped.iter_mut().filter_map(|dropped| dropped.board.take());
        boards.for_each(|board| self.boards.drop_board(board));
        state.close_boards();
        let used = if dropped.iter().any(|dropped| dropped.goes_on) { used(state) } else { Some(Vec::new()) };
        dropped.retain(|Dropped { context, goes_on, .. }| {
            let is_used = |used: &Vec<u32>| used.binary_search(context).is_ok();
            let goes_on = *goes_on && used.as_ref().is_none_or(is_used);
            if !goes_on {
                state.p2p.forget_context(*context);
            }
            goes_on
        });
    }
}

/// The contexts in which something goes on, in order. None: there was no memory to note them.
fn used(state: &RankState) -> Option<Vec<u32>> {
    let all = || state.p2p.used().chain(state.nbc.used());
    let mut used = Vec::new();
    used.try_reserve_exact(all().count()).ok()?;
    used.extend(all().map(|context| context & !COLLECTIVE));
    used.sort_unstable();
    Some(used)
}

#[cfg(test)]
mod tests {
    use crate::{Config, ConstBuf, DataType, Error, Mode, Op, threads};
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::time::Duration;
    use tocsin_shm_transport::BOARDS;

    #[test]
    fn what_was_given_up_goes_on_in_a_dropped_communicator() {
        goes_on(|dropped| dropped());
    }

    /// Where the engine is not told that it is given up.
    #[test]
    fn what_was_dropped_in_a_user_operator_goes_on() {
        goes_on(|dropped| {
            let _inside = crate::InsideOperator::enter();
            dropped();
        });
    }

    /// Drops it while a panic unwinds that somebody catches.
    fn drop_in_panic<T>(dropped: T) {
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _dropped = dropped;
            resume_unwind(Box::new(()));
        }));
        assert!(unwound.is_err());
    }

    #[test]
    fn what_was_dropped_in_a_panic_is_told_by_the_next_call() {
        for backend in ["poll", "signal"] {
            let mut config = Config::default();
            config.set("TOCSIN_BACKEND", backend).unwrap();
            let ends = threads(2, &config, |comm| {
                let dup = comm.dup().unwrap();
                if comm.rank() == 1 {
                    drop_in_panic(dup);
                    comm.ibarrier_raw(None).unwrap().wait().unwrap();
                    return None;
                }
                let out = [1u8; 8];
                let send = ConstBuf::contiguous(out.as_ptr(), out.len());
                // SAFETY: the buffer lives until the send has ended, or the test has failed.
                let mut sending = unsafe { dup.isend_raw(send, 1, 1, Mode::Synchronous).unwrap() };
                let end = sending.wait_timeout(Duration::from_secs(30)).expect("nobody tells the sender");
                comm.ibarrier_raw(None).unwrap().wait().unwrap();
                Some(end)
            });
            let end = ends.unwrap()[0].clone();
            assert!(matches!(end, Some(Err(Error::NeverReceived { .. }))), "{end:?}");
        }
    }

    #[test]
    fn boards_come_back_from_panics() {
        let ends = threads(2, &Config::default(), |comm| {
            for _ in 0..2 * BOARDS {
                drop_in_panic(comm.dup().unwrap());
            }
            comm.dup().unwrap().has_board()
        });
        assert_eq!(ends.unwrap(), [true; 2]);
    }

    /// `drops` runs what drops a request and its communicator.
    fn goes_on(drops: impl Fn(&mut dyn FnMut()) + Sync) {
        const COUNT: usize = 8 << 10;
        let mut config = Config::default();
        config.set("TOCSIN_BACKEND", "poll").unwrap();
        let ends = threads(4, &config, |comm| {
            let mut sum = vec![1u64; COUNT];
            let dup = comm.dup().unwrap();
            let first = comm.rank() == 0;
            let post = |sum: &mut Vec<u64>| {
                let (to, algorithm) = (sum.as_mut_ptr().cast(), Some("ring"));
                // SAFETY: the buffer lives until all have met below, after which nothing is on its way.
                unsafe { dup.iallreduce_raw(None, to, COUNT, DataType::U64, Op::Sum, algorithm).unwrap() }
            };
            if first {
                let mut both = Some((post(&mut sum), dup));
                drops(&mut || drop(both.take()));
                // Tells the engine what was dropped, if nobody has.
                comm.shared().forget_dropped(&mut comm.shared().enter());
                assert_eq!(comm.shared().dropped.lock().unwrap().len(), 1);
                comm.ibarrier_raw(None).unwrap().wait().unwrap();
            } else {
                // Messages of the others' come when the first has dropped its communicator.
                comm.ibarrier_raw(None).unwrap().wait().unwrap();
                post(&mut sum).wait().unwrap();
            }
            comm.ibarrier_raw(None).unwrap().wait().unwrap();
            comm.shared().forget_dropped(&mut comm.shared().enter());
            (sum == [4; COUNT], comm.shared().dropped.lock().unwrap().len())
        });
        assert_eq!(ends.unwrap(), [(true, 0); 4]);
    }
}
