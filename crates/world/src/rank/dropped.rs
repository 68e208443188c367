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
//! because messages for it are still to come. Nobody is told of that end: the rank's calls look, those that wait again and again, [once in a while](super::due).

use std::sync::PoisonError;

use tocsin_progress::Context;
use tocsin_sync::clock::now_ns;

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
        let (panics, goes_on) = (std::thread::panicking(), dropped.goes_on);
        if !panics && let Some(board) = dropped.board.take() {
            self.boards.drop_board(board);
        }
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).push(dropped);
        if goes_on {
            self.given_up_due.keep();
        }
        // Whoever is inside sees to the board, this thread itself if it is.
        let inside = if panics { None } else { self.engine.try_enter(Context::User) };
        let Some(mut state) = inside else { return self.leave_to_next_call() };
        state.leave_callbacks();
        // It may have ended by now.
        let looks = goes_on && !self.given_up_due.is_too_soon();
        let begun = if looks { now_ns() } else { 0 };
        self.forget(&mut state, looks);
        if looks {
            self.given_up_due.looked_early(begun);
        }
    }

    /// Tells the engine what was dropped, but for communicators in which operations were given up. User threads only.
    pub(super) fn forget_dropped(&self, state: &mut RankState) {
        self.forget(state, false);
    }

    /// Looks what has ended of what was given up: tells the engine of communicators that were dropped, and frees what was kept for requests that were. Outside the engine, by
    /// calls that may run callbacks: a dropped buffer may be anything.
    pub(super) fn look_what_has_ended(&self) {
        let begun = now_ns();
        // These may be the last that have a communicator.
        let (freed, parked) = self.free_parked();
        let (told, dropped) = self.forget(&mut self.enter(), true);
        let left = parked.wrapping_add(dropped);
        self.given_up_due.looked(begun, freed.wrapping_add(told), left);
        // What another thread has left meanwhile was not looked at.
        if left == 0 && self.keeps_any() {
            self.given_up_due.keep();
        }
    }

    fn keeps_any(&self) -> bool {
        self.has_parked() || !self.dropped.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// `looks`: at those in which operations were given up, too, which else are kept. How many the engine was told of, and how many are left.
    fn forget(&self, state: &mut RankState, looks: bool) -> (usize, usize) {
        // Nobody who holds the lock waits for the engine.
        let mut dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        if std::thread::panicking() {
            self.leave_to_next_call();
            return (0, dropped.len());
        }
        let boards = dropped.iter_mut().filter_map(|dropped| dropped.board.take());
        boards.for_each(|board| self.boards.drop_board(board));
        state.close_boards();
        let ended = if looks { ended(state, &dropped) } else { Vec::new() };
        let were = dropped.len();
        dropped.retain(|Dropped { context, goes_on, .. }| {
            let keeps = *goes_on && ended.binary_search(context).is_err();
            if !keeps {
                state.p2p.forget_context(*context);
            }
            keeps
        });
        (were.wrapping_sub(dropped.len()), dropped.len())
    }
}

/// Of communicators that were dropped the contexts of those in which operations were given up, and none goes on any more, in order. None, if there is no memory to note them.
fn ended(state: &RankState, dropped: &[Dropped]) -> Vec<u32> {
    let given_up =
        || dropped.iter().filter(|dropped| dropped.goes_on).map(|dropped| (dropped.context, false));
    let mut used: Vec<(u32, bool)> = Vec::new();
    if used.try_reserve_exact(given_up().count()).is_err() {
        return Vec::new();
    }
    used.extend(given_up());
    if used.is_empty() {
        return Vec::new();
    }
    used.sort_unstable();
    for context in state.p2p.used().chain(state.nbc.used()) {
        if let Ok(at) = used.binary_search_by_key(&(context & !COLLECTIVE), |(context, _)| *context) {
            used[at].1 = true;
        }
    }
    used.into_iter().filter(|(_, is_used)| !is_used).map(|(context, _)| context).collect()
}

#[cfg(test)]
mod tests {
    use crate::{Comm, Config, ConstBuf, DataType, Error, Mode, MutBuf, Op, RawRequest, threads};
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::time::Duration;
    use tocsin_shm_transport::BOARDS;

    #[test]
    fn what_was_given_up_goes_on_in_a_dropped_communicator() {
        // By messages, and by a board alone.
        goes_on("ring", |dropped| dropped());
        goes_on("shm", |dropped| dropped());
    }

    /// Where the engine is not told that it is given up.
    #[test]
    fn what_was_dropped_in_a_user_operator_goes_on() {
        goes_on("ring", |dropped| {
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

    /// A receive in a communicator that is given up, and whose message comes afterwards: then the communicator is gone, and what is still sent there is declined, while
    /// the rank waits for something else.
    #[test]
    fn what_has_ended_in_a_dropped_communicator_is_seen_by_who_waits() {
        for (backend, keeps) in [("poll", false), ("poll", true), ("signal", false), ("signal", true)] {
            let mut config = Config::default();
            config.set("TOCSIN_BACKEND", backend).unwrap();
            let ends = threads(2, &config, |comm| {
                let dup = comm.dup().unwrap();
                if comm.rank() == 1 {
                    let mut buffer = Box::new([0u8; 8]);
                    let into = MutBuf::contiguous(buffer.as_mut_ptr(), 8);
                    // SAFETY: the buffer is kept with the request, or for good.
                    let request = unsafe { dup.irecv_raw(into, Some(0), Some(1)).unwrap() };
                    match keeps {
                        true => request.detach(Some(Box::new(buffer))),
                        false => drop((request, Box::leak(buffer))),
                    }
                    drop(dup);
                    comm.ibarrier_raw(None).unwrap().wait().unwrap();
                    comm.ibarrier_raw(None).unwrap().wait().unwrap();
                    return None;
                }
                comm.ibarrier_raw(None).unwrap().wait().unwrap();
                let out = [1u8; 8];
                let send = || ConstBuf::contiguous(out.as_ptr(), out.len());
                // SAFETY: the buffer lives until the sends have ended, or the test has failed.
                let mut sending = unsafe {
                    dup.send_raw(send(), 1, 1, Mode::Standard).unwrap();
                    dup.isend_raw(send(), 1, 1, Mode::Synchronous).unwrap()
                };
                let end = sending.wait_timeout(Duration::from_secs(30)).expect("nobody tells the sender");
                comm.ibarrier_raw(None).unwrap().wait().unwrap();
                Some(end)
            });
            let end = ends.unwrap()[0].clone();
            assert!(matches!(end, Some(Err(Error::NeverReceived { .. }))), "{backend}, {keeps}: {end:?}");
        }
    }

    /// Of several that were dropped, in another order than they were made, beside requests in others.
    #[test]
    fn those_in_which_nothing_goes_on_are_gone() {
        let mut config = Config::default();
        config.set("TOCSIN_BACKEND", "poll").unwrap();
        let ends = threads(1, &config, |comm| {
            let mut buffer = [0u8; 8];
            let base = buffer.as_mut_ptr();
            let dups: Vec<Comm> = (0..6).map(|_| comm.dup().unwrap()).collect();
            let contexts: Vec<u32> = dups.iter().map(Comm::context).collect();
            // SAFETY: the buffer lives until all have ended.
            let receive = |of: &Comm, tag| unsafe {
                of.irecv_raw(MutBuf::contiguous(base, 8), Some(0), Some(tag)).unwrap()
            };
            let mut pending: Vec<RawRequest> = (0..3).map(|_| receive(&comm, 9)).collect();
            dups.iter().for_each(|dup| drop(receive(dup, 1)));
            let out = [3u8; 8];
            for ends in [5, 0, 3] {
                // SAFETY: the buffer lives until the call is over.
                unsafe { dups[ends].send_raw(ConstBuf::contiguous(out.as_ptr(), 8), 0, 1, Mode::Standard) }
                    .unwrap();
            }
            comm.progress();
            let mut dups: Vec<_> = dups.into_iter().map(Some).collect();
            [4, 1, 5, 0, 2, 3].iter().for_each(|&at| drop(dups[at].take()));
            let shared = comm.shared();
            shared.look_what_has_ended();
            let left: Vec<u32> =
                shared.dropped.lock().unwrap().iter().map(|dropped| dropped.context).collect();
            for request in &mut pending {
                assert!(request.cancel());
            }
            (left == [4, 1, 2].map(|at| contexts[at]), shared.given_up_due.left().is_some())
        });
        assert_eq!(ends.unwrap(), [(true, true)]);
    }

    /// `drops` runs what drops a request and its communicator.
    fn goes_on(algorithm: &str, drops: impl Fn(&mut dyn FnMut()) + Sync) {
        const COUNT: usize = 8 << 10;
        let mut config = Config::default();
        config.set("TOCSIN_BACKEND", "poll").unwrap();
        let ends = threads(4, &config, |comm| {
            let mut sum = vec![1u64; COUNT];
            let dup = comm.dup().unwrap();
            let first = comm.rank() == 0;
            let post = |sum: &mut Vec<u64>| {
                let (to, algorithm) = (sum.as_mut_ptr().cast(), Some(algorithm));
                // SAFETY: the buffer lives until all have met below, after which nothing is on its way.
                unsafe { dup.iallreduce_raw(None, to, COUNT, DataType::U64, Op::Sum, algorithm).unwrap() }
            };
            if first {
                let mut both = Some((post(&mut sum), dup));
                drops(&mut || drop(both.take()));
                // Tells the engine what was dropped, if nobody has.
                comm.shared().look_what_has_ended();
                assert_eq!(comm.shared().dropped.lock().unwrap().len(), 1);
                comm.ibarrier_raw(None).unwrap().wait().unwrap();
            } else {
                // Messages of the others' come when the first has dropped its communicator.
                comm.ibarrier_raw(None).unwrap().wait().unwrap();
                post(&mut sum).wait().unwrap();
            }
            comm.ibarrier_raw(None).unwrap().wait().unwrap();
            comm.shared().look_what_has_ended();
            (sum == [4; COUNT], comm.shared().dropped.lock().unwrap().len())
        });
        assert_eq!(ends.unwrap(), [(true, 0); 4]);
    }
}
