//! A moment for the receiver of a full lane.

use tocsin_progress::Entered;
use tocsin_progress::engine::Lingering;
use tocsin_sync::atomic::spin_loop;
use tocsin_sync::clock::now_ns;

use super::Comm;
use crate::state::RankState;

/// How long a sender waits for a receiver that takes nothing out, nanoseconds: longer than one that is in the library does anything else between, an interrupt included. (A receiver that is
/// interrupted has its messages kept by the handler, receives them later than those in the lane, and falls back as much again. In streams of 300 000 messages of 8 B one took 86 to 180 ns with 2 us and 23 to 28 with 10, where lines take longer from core to core 55 to 200 and 42 to 59: `bench rate --sizes 8 --window 300000 --receives blocking`, EPYC of Zen 5.)
const UNMOVED_NS: u64 = 10_000;
/// How often the sender looks at everything else meanwhile: some 5 us are between two of these.
const LOOKS: u32 = 32;
/// Pauses between two looks at what the receiver has taken: each look takes the line away from it.
const PAUSES: u32 = 4;

impl Comm {
    /// Waits for room in the lane to a rank, if it is full and the receiver is seen to take messages out: it is in the library, and would be interrupted, or asked to
    /// ring back, for nothing. Neither is said to it here: if there is no room after this, the send says it, as it does without.
    #[inline]
    pub(super) fn linger_for_room(&self, state: &mut Entered<'_, RankState>, dest: u32) {
        if let Some(taken) = state.p2p.lacks_room(dest) {
            self.linger_while_full(state, dest, taken);
        }
    }

    #[cold]
    fn linger_while_full(&self, state: &mut Entered<'_, RankState>, dest: u32, mut taken: u32) {
        // Nor where the receiver needs this core to get on.
        if !self.shared().engine.should_look() || self.shared().is_beside(state, dest) {
            return;
        }
        // Or its answer to an earlier send that found no room would interrupt this one, and end its patience.
        state.p2p.looks_for_room(dest);
        let mut moved = now_ns();
        state.linger(LOOKS, |state| {
            let Some(now_taken) = state.p2p.lacks_room(dest) else { return Lingering::Over };
            let now = now_ns();
            if now_taken != taken {
                (taken, moved) = (now_taken, now);
            } else if now.wrapping_sub(moved) >= UNMOVED_NS {
                return Lingering::Over;
            }
            (0..PAUSES).for_each(|_| spin_loop());
            Lingering::Nothing
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, ConstBuf, Mode, MutBuf, threads};
    use tocsin_sync::atomic::{AtomicU32, Ordering};

    fn config(backend: &str) -> Config {
        let mut config = Config::default();
        config.set("TOCSIN_BACKEND", backend).unwrap();
        config
    }

    fn wait_for(word: &AtomicU32, value: u32) {
        while word.load(Ordering::Acquire) != value {
            std::thread::yield_now();
        }
    }

    /// Sends to rank 1 as long as there is room. How many.
    fn fill(comm: &Comm) -> u32 {
        let mut sent = 0;
        while comm.shared().enter().p2p.lacks_room(1).is_none() {
            let buf = ConstBuf::contiguous((&raw const sent).cast(), size_of::<u32>());
            // SAFETY: - it lives as long as the call.
            unsafe { comm.send_raw(buf, 1, 0, Mode::Standard) }.unwrap();
            sent += 1;
        }
        sent
    }

    fn receive(comm: &Comm, count: u32) {
        for expected in 0..count {
            let mut got = u32::MAX;
            let buf = MutBuf::contiguous((&raw mut got).cast(), size_of::<u32>());
            // SAFETY: - as above.
            unsafe { comm.recv_raw(buf, Some(0), Some(0)) }.unwrap();
            assert_eq!(got, expected);
        }
    }

    /// Who receives one after the other takes each out of its lane itself: a look at all else between is no look at these.
    #[test]
    fn messages_that_are_there_are_received_and_not_kept() {
        const COUNT: u32 = 100;
        let sent = AtomicU32::new(0);
        let kept = threads(2, &config("poll"), |comm| {
            let mut kept = 0;
            // The first ones come before their sender is known.
            for (count, round) in [(1, 1), (COUNT, 3)] {
                if comm.rank() == 0 {
                    for number in 0..count {
                        let buf = ConstBuf::contiguous((&raw const number).cast(), size_of::<u32>());
                        // SAFETY: - it lives as long as the call.
                        unsafe { comm.send_raw(buf, 1, 0, Mode::Standard) }.unwrap();
                    }
                    sent.store(round, Ordering::Release);
                    wait_for(&sent, round + 1);
                } else {
                    wait_for(&sent, round);
                    let before = comm.shared().enter().p2p.unexpected_freed();
                    receive(&comm, count);
                    kept = comm.shared().enter().p2p.unexpected_freed() - before;
                    sent.store(round + 1, Ordering::Release);
                }
            }
            kept
        });
        assert_eq!(kept.unwrap(), [0; 2]);
    }

    #[test]
    fn who_lingers_sees_the_room_that_its_receiver_makes() {
        const ROUNDS: u32 = 10_000;
        // How many messages rank 1 is to take, and rounds that it has ended; none of which needs the library.
        let (lie, taken) = (AtomicU32::new(0), AtomicU32::new(0));
        let met = threads(2, &config("poll"), |comm| {
            if comm.rank() == 1 {
                for round in 1.. {
                    while lie.load(Ordering::Acquire) == 0 {
                        spin_loop();
                    }
                    match lie.swap(0, Ordering::AcqRel) {
                        u32::MAX => break,
                        count => receive(&comm, count),
                    }
                    taken.store(round, Ordering::Release);
                }
                return true;
            }
            // Whose core it is may be taken from either.
            let met = (1..=ROUNDS).any(|round| {
                let sent = fill(&comm);
                let mut state = comm.shared().enter();
                // Not where it joins only now, and takes in what is there.
                let full = state.p2p.lacks_room(1).is_some();
                lie.store(sent, Ordering::Release);
                comm.linger_for_room(&mut state, 1);
                let met = state.p2p.lacks_room(1).is_none();
                drop(state);
                wait_for(&taken, round);
                full && met
            });
            lie.store(u32::MAX, Ordering::Release);
            // Nobody looks where both may have one core.
            met || comm.shared().shares_cores
        });
        assert_eq!(met.unwrap(), [true; 2]);
    }

    /// The send itself asks for room, and rings.
    #[test]
    fn who_lingers_in_vain_has_told_nobody() {
        let (computes, sent) = (AtomicU32::new(0), AtomicU32::new(0));
        let seen = threads(2, &config("signal"), |comm| {
            if comm.rank() == 1 {
                computes.store(1, Ordering::Release);
                while sent.load(Ordering::Acquire) == 0 {
                    spin_loop();
                }
                receive(&comm, sent.load(Ordering::Acquire));
                return None;
            }
            wait_for(&computes, 1);
            let rings = || comm.stats().rings_by_signal;
            let taken = || comm.shared().enter().p2p.lacks_room(1);
            let filled = fill(&comm);
            let before = (rings(), taken());
            comm.linger_for_room(&mut comm.shared().enter(), 1);
            let after = (rings(), taken());
            let buf = ConstBuf::contiguous((&raw const filled).cast(), size_of::<u32>());
            // SAFETY: - it lives until the request is complete.
            let mut last = unsafe { comm.isend_raw(buf, 1, 0, Mode::Standard) }.unwrap();
            let rings = rings();
            // Nothing is asserted before: rank 1 would compute for ever.
            sent.store(filled + 1, Ordering::Release);
            last.wait().unwrap();
            Some((before, after, rings))
        });
        let seen = seen.unwrap();
        let [Some((before, after, rings)), None] = seen[..] else { panic!("{seen:?}") };
        assert!(before.1.is_some() && before == after && rings > before.0, "{seen:?}");
    }
}
