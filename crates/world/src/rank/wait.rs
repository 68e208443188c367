//! Waiting for requests, and staying after the post of a large collective.

use std::time::{Duration, Instant};

use tocsin_p2p::Grown;
use tocsin_progress::engine::{Entered, Looking};
use tocsin_progress::{Budget, Context, Id, Pass};

use super::{Need, Rank};
use crate::state::RankState;
use tocsin_sync::atomic::Ordering;

/// A full pool of unexpected messages from which nothing was received for this long stays full.
const STUCK: Duration = Duration::from_secs(1);
/// How often a waiter behind a full pool looks at it.
const WATCH: Duration = Duration::from_millis(100);

/// For how long who has posted something large looks for those who post it at the same time, nanoseconds: less than the interrupt that it
/// would else take.
const TOGETHER_NS: u64 = 3_000;
/// Who stays for pieces of large messages goes when none has moved for this long...
const STALLED: Duration = Duration::from_micros(50);
/// ...of which one that sleeps is told after this...
const ASLEEP: Duration = Duration::from_millis(1);
/// ...and after this whatever moves: some 16 MiB. What a caller posts and does not wait for is not to keep it from computing for as long as it
/// takes, however large it is; handlers, which take longer, do the rest.
const AT_MOST: Duration = Duration::from_millis(2);

impl Rank {
    /// Waits until `done`, this rank has left, or time is up. `need`: what a full pool of unexpected messages may be
    /// grown for.
    ///
    /// A pool that has reached its limit and from which nobody has received for [`STUCK`] ends the needs that only a
    /// lane behind it could meet.
    ///
    /// # Panics
    /// In a user operator, as [`enter`](Self::enter).
    pub(crate) fn wait_until(
        &self,
        need: &[Need<'_>],
        done: impl FnMut() -> bool,
        timeout: Option<Duration>,
    ) -> bool {
        if crate::operator::InsideOperator::is_here() {
            super::inside_operator();
        }
        self.open_gates();
        self.wait_in_call(need, done, timeout)
    }

    /// Does what this rank has to do itself in its next call: its levels of split trees, and what it has [dropped](Self::drop_communicator). Called by all that wait or look. It waits
    /// until nobody else is inside the engine, and may run callbacks, user operators, and drops of buffers that were kept.
    #[inline]
    pub(crate) fn open_gates(&self) {
        // SYNC POINT: Relaxed: a hint, set by the calls of this rank's own threads; who waits for what another thread has started meets it
        // when that one waits.
        if self.gated.load(Ordering::Relaxed) || self.given_up_due.has_come() {
            self.open_gates_now();
        }
    }

    #[cold]
    fn open_gates_now(&self) {
        // Who has left may still look at what it had.
        if self.is_closed() || !self.may_open_gates() {
            return;
        }
        let mut guard = self.enter();
        let state = &mut *guard;
        state.nbc.open_gates(&mut state.p2p);
        self.forget_dropped(state);
        drop(guard);
        if self.given_up_due.has_come() {
            self.look_what_has_ended();
        }
    }

    /// [`open_gates`](Self::open_gates) where a value ends, or by a thread that is seen looking: runs no callback, which may want a lock that the value's
    /// owner holds, or last.
    pub(crate) fn open_gates_quietly(&self) {
        // SYNC POINT: Relaxed: as in `open_gates`.
        if self.gated.load(Ordering::Relaxed) && self.may_open_gates() {
            let mut guard = self.enter();
            guard.leave_callbacks();
            let state = &mut *guard;
            state.nbc.open_gates(&mut state.p2p);
            self.forget_dropped(state);
        }
    }

    /// The same for who asks whether something is over, which waits for nobody, and runs neither callbacks nor operators: as much as a handler
    /// does, and the rest when it is asked again.
    #[inline]
    pub(crate) fn try_open_gates(&self) {
        // SYNC POINT: Relaxed: as in `open_gates`.
        if self.gated.load(Ordering::Relaxed) {
            self.try_open_gates_now();
        }
    }

    #[cold]
    fn try_open_gates_now(&self) {
        let Some(mut guard) = self.try_enter_open("is_done") else { return };
        let state = &mut *guard;
        // SYNC POINT: Relaxed: as in `open_gates`.
        self.gated.store(false, Ordering::Relaxed);
        self.forget_dropped(state);
        if state.nbc.open_gates_within(&mut state.p2p, &mut Budget::handler()) == Pass::More {
            self.gated.store(true, Ordering::Relaxed);
        }
    }

    /// Something is left for this rank's next call.
    pub(super) fn leave_to_next_call(&self) {
        // SYNC POINT: Relaxed: as in `open_gates`.
        self.gated.store(true, Ordering::Relaxed);
    }

    /// Whether this thread may enter the engine for that: not in a user operator, nor in a child of `fork`, whose parent's gates they are. Then
    /// nothing is left for the next call.
    fn may_open_gates(&self) -> bool {
        let may = !crate::operator::InsideOperator::is_here() && !tocsin_doorbell::fork::disowned();
        if may {
            // SYNC POINT: Relaxed: as in `open_gates`. Before the gates are opened, so that what is started meanwhile sets it again.
            self.gated.store(false, Ordering::Relaxed);
        }
        may
    }

    /// A collective was started whose levels concern the call that starts it, or the next one: does the former.
    #[cold]
    pub(crate) fn start_split(&self, id: Id) {
        if self.enter().nbc.is_in_call(id) {
            self.wait_in_call(&[Need::Collective], || !self.enter_in_wait().nbc.is_in_call(id), None);
        }
        self.enter().nbc.leave_call(id);
        self.leave_to_next_call();
    }

    /// [`enter`](Self::enter) by what a wait asks, or does before it sleeps: runs no callbacks, which may last, while this thread counts as one who
    /// looks or sleeps. The wait runs them when it does not.
    pub(crate) fn enter_in_wait(&self) -> Entered<'_, RankState> {
        let mut state = self.enter();
        state.leave_callbacks();
        state
    }

    /// [`wait_until`](Self::wait_until) by a call that has just started something.
    fn wait_in_call(
        &self,
        need: &[Need<'_>],
        mut done: impl FnMut() -> bool,
        timeout: Option<Duration>,
    ) -> bool {
        let ends = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let commits = need.iter().any(|need| matches!(need, Need::Collective));
        let mut full: Option<FullPool> = None;
        loop {
            if self.given_up_due.has_come() && !self.is_closed() {
                self.look_what_has_ended();
            }
            let _committed = commits.then(|| self.segment.commit(self.rank));
            let left = ends.map(|end| end.saturating_duration_since(Instant::now())).or(timeout);
            // Whoever watches a full pool, or is to look what has ended, comes back for that; the others sleep as long as they may.
            let watches = full.is_some().then_some(WATCH);
            let slice = [left, watches, self.given_up_due.left()].into_iter().flatten().min();
            let mut newly_full = false;
            let over_or_full = || {
                if done() || self.is_closed() || self.end_if_aborted() {
                    return true;
                }
                match self.make_room(need) {
                    Grown::NotNeeded => {
                        full = None;
                        false
                    }
                    Grown::Room => {
                        full = None;
                        done()
                    }
                    Grown::Full => match &mut full {
                        Some(pool) => {
                            pool.is_stuck(self) && !self.grow_anew(need) && self.give_up(need) && done()
                        }
                        None => {
                            full = Some(FullPool::new(self));
                            newly_full = true;
                            true
                        }
                    },
                }
            };
            let over = if need
                .iter()
                .all(|need| matches!(need, Need::Message { rings: false, .. } | Need::Probe(_)))
            {
                self.engine.wait_unannounced(over_or_full, slice)
            } else {
                self.engine.wait_until(over_or_full, slice)
            };
            if over && !newly_full {
                return true;
            }
            // Only this wait's own end is one: a slice may have begun behind a pool that has room since.
            if !newly_full && ends.is_some_and(|end| Instant::now() >= end) {
                return false;
            }
        }
    }

    /// After the post of a collective: looks for those who post it at the same time, and makes progress as long as pieces of large messages come
    /// from or go to ranks that wait or stay, too, but no longer than [`AT_MOST`]. Who did not would copy the same alone, and for longer, here or in
    /// handlers.
    pub(crate) fn stay(&self, looking: Looking<'_, RankState>, mut done: impl FnMut() -> bool) {
        // Peers that ask for pieces now find this rank here.
        let _stays = self.segment.commit(self.rank);
        // Before anything that may sleep: nobody would wake a rank that looks by itself.
        let more = looking.go_on(TOGETHER_NS, &mut done);
        let mut state = self.enter();
        if done() || !state.p2p.has_pieces() {
            state.p2p.end_stay();
            if more {
                state.come_back();
            }
            return;
        }
        state.is_looking();
        drop(state);
        let mut patience = Patience::new(Instant::now());
        let mut over = || {
            let state = self.enter_in_wait();
            let moved = state.p2p.pieces_moved();
            done() || !state.p2p.has_pieces() || patience.is_over(Instant::now(), moved)
        };
        // The wait says to the peers that somebody stays.
        while !self.wait_until(&[Need::Collective], &mut over, Some(ASLEEP)) {}
        self.enter().p2p.end_stay();
        if more {
            // A wait that was over at once has not looked.
            self.engine.poke(Context::User);
        }
    }
}

/// For how long somebody stays.
struct Patience {
    begun: Instant,
    /// What had moved when something last did.
    moved: u64,
    since: Instant,
}

impl Patience {
    fn new(now: Instant) -> Patience {
        Patience { begun: now, moved: 0, since: now }
    }

    /// Whether nothing moves any more, or it has taken too long. `moved`: anything that changes when something moves.
    fn is_over(&mut self, now: Instant, moved: u64) -> bool {
        if moved != self.moved {
            (self.moved, self.since) = (moved, now);
        }
        let passed = |since: Instant| now.saturating_duration_since(since);
        passed(self.since) >= STALLED || passed(self.begun) >= AT_MOST
    }
}

/// Somebody waits behind a pool of unexpected messages that has reached its limit.
struct FullPool {
    since: Instant,
    freed: u64,
}

impl FullPool {
    fn new(rank: &Rank) -> FullPool {
        FullPool { since: Instant::now(), freed: rank.enter_in_wait().p2p.unexpected_freed() }
    }

    /// Whether nobody has received anything from it for so long that nobody will.
    fn is_stuck(&mut self, rank: &Rank) -> bool {
        let freed = rank.enter_in_wait().p2p.unexpected_freed();
        if freed != self.freed {
            *self = FullPool { since: Instant::now(), freed };
        }
        self.since.elapsed() >= STUCK
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::last::Last;
    use crate::{Comm, Config, threads};
    use std::sync::{Arc, Mutex};
    use tocsin_progress::{Completion, Outcome};

    /// Runs `test` on a rank of which nobody but its own calls runs callbacks.
    fn alone(test: impl Fn(&Comm) + Sync) {
        let mut config = Config::default();
        config.set("TOCSIN_BACKEND", "poll").unwrap();
        threads(1, &config, |comm| test(&comm)).unwrap();
    }

    #[test]
    fn what_a_wait_asks_runs_no_callbacks() {
        type Ask<'a> = &'a (dyn Fn(&Rank) + Sync);
        const NEEDS: [Need<'static>; 1] = [Need::Collective];
        let asks: [(&str, Ask<'_>); 6] = [
            ("room", &|rank| assert_eq!(rank.make_room(&NEEDS), Grown::NotNeeded)),
            ("room anew", &|rank| assert!(!rank.grow_anew(&NEEDS))),
            ("a full pool", &|rank| assert_eq!(FullPool::new(rank).freed, 0)),
            ("a pool that was full", &|rank| {
                assert!(!FullPool { since: Instant::now(), freed: u64::MAX }.is_stuck(rank));
            }),
            ("an end", &|rank| assert!(!rank.give_up(&NEEDS))),
            ("what leaves", &|rank| {
                let mut last = Last::new(&mut rank.enter_in_wait());
                assert!(last.is_over(rank));
            }),
        ];
        alone(|comm| {
            let rank = comm.shared();
            for (name, ask) in asks {
                let completion = Completion::new();
                rank.engine.callbacks().set(&completion, Box::new(|_| {})).unwrap();
                completion.finish(Outcome::default());
                rank.blocked.store(true, Ordering::Relaxed);
                ask(rank);
                assert!(!rank.engine.callbacks().is_empty(), "{name}");
                assert_eq!(rank.engine.callbacks().run(), 1);
            }
        });
    }

    #[test]
    fn a_wait_runs_what_came_while_it_asked() {
        alone(|comm| {
            let rank = comm.shared();
            let attention = || rank.engine.own().descriptor().attention();
            let completion = Completion::new();
            let seen = Arc::new(Mutex::new(None));
            let call = {
                let (seen, own) = (seen.clone(), *rank.engine.own());
                move |_| {
                    let attention = own.descriptor().attention();
                    *seen.lock().unwrap() = Some((attention.pollers(), attention.sleepers()));
                }
            };
            rank.engine.callbacks().set(&completion, Box::new(call)).unwrap();
            let over = || {
                if attention().pollers() > 0 && !completion.is_done() {
                    completion.finish(Outcome::default());
                    // A full pool is looked at next.
                    rank.blocked.store(true, Ordering::Relaxed);
                }
                seen.lock().unwrap().is_some()
            };
            assert!(rank.wait_until(&[Need::Collective], over, None));
            assert_eq!(*seen.lock().unwrap(), Some((0, 0)));
        });
    }

    #[test]
    fn a_post_that_looks_runs_callbacks_when_it_does_not() {
        use tocsin_nbc::table::Arguments;
        alone(|comm| {
            let engine = &comm.shared().engine;
            let (send, mut recv) = (vec![1u8; 1 << 20], vec![0u8; 1 << 20]);
            let copies =
                Arguments::Ialltoall { send: Some(send.as_ptr()), recv: recv.as_mut_ptr(), block: 1 << 20 };
            for refused in [false, true] {
                if refused {
                    comm.revoke();
                }
                let completion = Completion::new();
                let seen = Arc::new(Mutex::new(None));
                let call = {
                    let (seen, own) = (seen.clone(), *engine.own());
                    move |_| *seen.lock().unwrap() = Some(own.descriptor().attention().pollers())
                };
                engine.callbacks().set(&completion, Box::new(call)).unwrap();
                completion.finish(Outcome::default());
                // SAFETY: - both buffers outlive the request.
                let post = || unsafe { comm.start_raw(&copies, None) };
                match post() {
                    Ok(mut request) => assert!(request.wait().is_ok() && !refused),
                    Err(error) => {
                        assert!(matches!(error, crate::Error::Revoked { .. }) && refused, "{error}")
                    }
                }
                assert_eq!(*seen.lock().unwrap(), Some(0), "refused: {refused}");
            }
        });
    }

    /// Ranks that share cores and compute after their posts are expected to, whoever is done before they wait.
    #[test]
    fn who_computes_after_its_posts_is_expected_to() {
        use std::thread::available_parallelism;
        use tocsin_nbc::table::Arguments;
        use tocsin_progress::engine::Posts;
        const BYTES: usize = 64 << 10;
        alone(|comm| {
            assert!(comm.shared().engine.begins_post(Posts::Collective).is_none(), "it shares no core")
        });
        let ranks = u32::try_from(available_parallelism().unwrap().get()).unwrap() + 1;
        threads(ranks, &Config::default(), |comm| {
            let engine = &comm.shared().engine;
            let is_expected = || engine.begins_post(Posts::Collective).is_some_and(|post| post.soon);
            assert!(is_expected(), "nothing is known yet");
            let mut data = vec![u8::from(comm.rank() == 0); BYTES];
            let broadcast = Arguments::Ibcast { buffer: data.as_mut_ptr(), bytes: BYTES, root: 0 };
            // SAFETY: - the buffer outlives the request, and nobody else uses it before its end.
            let post = || unsafe { comm.start_raw(&broadcast, Some("binomial")) }.unwrap();
            let mut computing = post();
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_micros(200) {}
            computing.wait().unwrap();
            assert!(!is_expected());
            // Of a broadcast, what is over when it is waited for counts, too.
            let expected = (0..300).filter(|_| {
                post().wait().unwrap();
                is_expected()
            });
            assert!(expected.count() > 0, "some in a row were waited for at once");
            assert!(data.iter().all(|byte| *byte == 1));
        })
        .unwrap();
    }

    #[test]
    fn who_stays_goes_when_nothing_moves_or_it_takes_too_long() {
        let begun = Instant::now();
        let step = STALLED / 2;
        let mut still = Patience::new(begun);
        assert!(!still.is_over(begun + step, 7));
        assert!(!still.is_over(begun + 2 * step, 7), "it has moved since");
        assert!(still.is_over(begun + 3 * step, 7));
        let mut moving = Patience::new(begun);
        let steps = (1u32..).take_while(|n| !moving.is_over(begun + *n * step, u64::from(*n))).count() as u32;
        assert!((steps + 1) * step >= AT_MOST && steps * step < AT_MOST);
    }
}
