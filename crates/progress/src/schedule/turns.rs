//! Turns: of the progress threads of one process on one core, one runs, and the list says who is next. Ordinary threads only, by a
//! mutex: nothing of it is reached from a handler.
//!
//! Nobody waits for ever for a turn. Who has it may run a user's callback, which may wait for what another one's turn would bring; so
//! a turn that is not handed on for 10 ms goes to who waits. Two that run at once do no harm: engines have
//! tokens.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A turn that lasts longer is taken from its holder: thousands of times what a look takes.
const OVERDUE: Duration = Duration::from_millis(10);

/// What has a place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// A progress thread.
    Member(u64),
    /// Everything else that the kernel has for the core.
    Rest,
}

/// A place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    who: Who,
    base: u8,
    current: u8,
}

impl Place {
    fn new(who: Who, base: u8) -> Place {
        Place { who, base, current: base }
    }
}

/// Those who are ready, by current priority, equals in the order in which they came.
#[derive(Debug)]
struct ReadyList(VecDeque<Place>);

impl ReadyList {
    fn new() -> ReadyList {
        ReadyList(VecDeque::from([Place::new(Who::Rest, 0)]))
    }

    fn add(&mut self, place: Place) {
        let behind = self.0.partition_point(|other| other.current >= place.current);
        self.0.insert(behind, place);
    }

    /// The first. Its priority decays.
    fn take(&mut self) -> Option<Place> {
        let mut place = self.0.pop_front()?;
        place.current = if place.current == 0 { place.base } else { place.current - 1 };
        Some(place)
    }

    fn has(&self, who: Who) -> bool {
        self.0.iter().any(|place| place.who == who)
    }

    fn remove(&mut self, who: Who) -> Option<Place> {
        let at = self.0.iter().position(|place| place.who == who)?;
        self.0.remove(at)
    }
}

#[derive(Debug)]
struct State {
    list: ReadyList,
    /// Who runs, out of the list.
    running: Option<Place>,
    /// How to wake those who wait.
    waiting: Vec<(u64, Arc<Condvar>)>,
    /// Goes up with each turn.
    turns: u64,
    /// Turns of everything else.
    rests: u64,
    next: u64,
}

/// The turns of one core. See the module.
#[derive(Debug)]
pub struct Turns {
    state: Mutex<State>,
    /// How long a turn may last while others wait.
    overdue: Duration,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns::new()
    }
}

impl Turns {
    /// Nobody's. Not for handlers.
    pub fn new() -> Turns {
        Turns::taken_after(OVERDUE)
    }

    fn taken_after(overdue: Duration) -> Turns {
        let (list, running, waiting) = (ReadyList::new(), None, Vec::new());
        let state = Mutex::new(State { list, running, waiting, turns: 0, rests: 0, next: 0 });
        Turns { state, overdue }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the calling thread's first turn; or, if that is sooner, until `stop` says so, which is asked whenever `bell` is
    /// [rung](Turns::ring). `base`: the thread's priority. Not for handlers.
    pub fn join(self: &Arc<Self>, base: u8, bell: &Arc<Condvar>, stop: impl Fn() -> bool) -> Turn {
        let mut state = self.lock();
        let id = state.next;
        state.next += 1;
        state.waiting.push((id, bell.clone()));
        let place = Place::new(Who::Member(id), base);
        state.list.add(place);
        let mut turn = Turn { turns: self.clone(), id, place, bell: bell.clone() };
        if state.running.is_none() {
            state = self.choose(state);
        }
        turn.wait(state, stop);
        turn
    }

    /// Has whoever waits with `bell` ask its `stop`.
    pub fn ring(&self, bell: &Condvar) {
        // Who has asked and does not wait yet holds the lock.
        let _state = self.lock();
        bell.notify_all();
    }

    /// Turns so far of everything that is no progress thread of this process.
    pub fn rests(&self) -> u64 {
        self.lock().rests
    }

    /// Gives the turn, which nobody has, to who is next.
    fn choose<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        loop {
            state.turns += 1;
            match state.list.take() {
                Some(place) if place.who == Who::Rest => {
                    state.list.add(place);
                    if state.list.0.len() == 1 {
                        return state;
                    }
                    state.rests += 1;
                    drop(state);
                    std::thread::yield_now();
                    state = self.lock();
                    if state.running.is_some() {
                        // Somebody has come meanwhile, and chosen.
                        return state;
                    }
                }
                chosen => {
                    state.running = chosen;
                    if let Some(Place { who: Who::Member(id), .. }) = chosen
                        && let Some((_, bell)) = state.waiting.iter().find(|(waiting, _)| *waiting == id)
                    {
                        bell.notify_all();
                    }
                    return state;
                }
            }
        }
    }
}

/// A thread's part in the turns, which it leaves when this is dropped.
#[derive(Debug)]
pub struct Turn {
    turns: Arc<Turns>,
    id: u64,
    /// As of its last turn.
    place: Place,
    bell: Arc<Condvar>,
}

impl Turn {
    /// Ends the turn, and waits for the next one, or until `stop` says so. Not for handlers.
    pub fn hand_on(&mut self, stop: impl Fn() -> bool) {
        let turns = self.turns.clone();
        let mut state = turns.lock();
        if self.runs(&state) {
            state.list.add(self.place);
            state.running = None;
            state = turns.choose(state);
        }
        self.wait(state, stop);
    }

    fn runs(&self, state: &State) -> bool {
        state.running.is_some_and(|place| place.who == Who::Member(self.id))
    }

    fn wait(&mut self, mut state: MutexGuard<'_, State>, stop: impl Fn() -> bool) {
        while !self.runs(&state) {
            if stop() {
                return;
            }
            if !state.list.has(Who::Member(self.id)) {
                // The turn was taken before this thread knew that it had it.
                state.list.add(self.place);
            }
            let seen = state.turns;
            let waited =
                self.bell.wait_timeout(state, self.turns.overdue).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            if waited.1.timed_out() && state.turns == seen && !self.runs(&state) {
                state.turns += 1;
                state.running = state.list.remove(Who::Member(self.id));
            }
        }
        self.place = state.running.unwrap_or(self.place);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.turns.lock();
        state.waiting.retain(|(id, _)| *id != self.id);
        state.list.remove(Who::Member(self.id));
        if self.runs(&state) {
            state.running = None;
            drop(self.turns.choose(state));
        }
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use tocsin_sync::atomic::{AtomicBool, Ordering};

    /// Who has the first `n` turns.
    fn order(places: &[Place], n: usize) -> Vec<Who> {
        let mut list = ReadyList(VecDeque::new());
        places.iter().for_each(|place| list.add(*place));
        (0..n)
            .map(|_| {
                let place = list.take().unwrap();
                list.add(place);
                place.who
            })
            .collect()
    }

    #[test]
    fn without_priorities_everybody_in_turn() {
        use Who::{Member, Rest};
        let places = [Place::new(Member(0), 0), Place::new(Member(1), 0), Place::new(Rest, 0)];
        assert_eq!(order(&places, 7), [Member(0), Member(1), Rest, Member(0), Member(1), Rest, Member(0)]);
    }

    #[test]
    fn a_priority_decays_and_comes_back() {
        use Who::{Member, Rest};
        let places = [Place::new(Rest, 0), Place::new(Member(0), 2)];
        let m = Member(0);
        // Two down to 0; then the one that waited; then from the base on, three times for each other turn.
        assert_eq!(order(&places, 11), [m, m, Rest, m, m, m, Rest, m, m, m, Rest]);
        // Of equals, the one that waited for longest.
        let places = [Place::new(Member(0), 1), Place::new(Member(1), 1), Place::new(Rest, 0)];
        let [a, b] = [Member(0), Member(1)];
        assert_eq!(order(&places, 9), [a, b, Rest, a, a, b, b, Rest, a]);
    }

    /// What threads with these priorities log, one letter a turn, until one of them has had `turns` turns. No turn is taken from who has it, however busy the
    /// machine is.
    fn log(bases: &[u8], turns: usize) -> (Vec<usize>, u64) {
        let list = Arc::new(Turns::taken_after(Duration::from_secs(3600)));
        let (stop, all) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let bells: Vec<Arc<Condvar>> = bases.iter().map(|_| Arc::default()).collect();
        let (joined, join) = mpsc::channel();
        // Holds the turn until all wait for theirs.
        let gate = list.join(0, &Arc::default(), || false);
        std::thread::scope(|scope| {
            for (who, (base, bell)) in bases.iter().zip(&bells).enumerate() {
                let (list, stop, all, joined) = (&list, &stop, &all, joined.clone());
                scope.spawn(move || {
                    joined.send(()).unwrap();
                    let stopped = || stop.load(Ordering::Acquire);
                    let mut turn = list.join(*base, bell, stopped);
                    while !stopped() {
                        let mut all = all.lock().unwrap();
                        all.push(who);
                        if all.iter().filter(|at| **at == who).count() == turns {
                            stop.store(true, Ordering::Release);
                        }
                        drop(all);
                        turn.hand_on(stopped);
                    }
                });
                join.recv().unwrap();
                // In the order of the bases.
                while list.lock().list.0.len() < who + 2 {
                    std::thread::yield_now();
                }
            }
            drop(gate);
            while !stop.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            bells.iter().for_each(|bell| list.ring(bell));
        });
        let all = std::mem::take(&mut *all.lock().unwrap());
        assert!(list.lock().running.is_none() && list.lock().list.0.len() == 1, "all have left");
        (all, list.rests())
    }

    #[test]
    fn threads_run_one_after_the_other() {
        let (all, rests) = log(&[0, 0, 0], 200);
        let distinct = |turns: &[usize]| turns[0] != turns[1] && turns[1] != turns[2] && turns[0] != turns[2];
        assert!(all.windows(3).all(distinct), "{all:?}");
        assert!(rests >= 100, "{rests} yields in {} turns", all.len());
    }

    #[test]
    fn threads_run_by_their_priority() {
        let (all, rests) = log(&[4, 0], 500);
        let others = all.iter().filter(|who| **who == 1).count();
        assert!((80..=120).contains(&others), "500 turns of priority 4 and {others} of priority 0");
        assert!((80..=120).contains(&rests), "{rests} turns of everything else");
    }

    /// Who does not hand its turn on does not stop the others.
    #[test]
    fn an_overdue_turn_is_taken() {
        let list = Arc::new(Turns::new());
        let mut held = list.join(0, &Arc::default(), || false);
        let other = std::thread::spawn({
            let list = list.clone();
            move || drop(list.join(0, &Arc::default(), || false))
        });
        other.join().unwrap();
        // The holder goes on all the same.
        held.hand_on(|| false);
        drop(held);
        assert!(list.lock().running.is_none());
    }

    /// Who was given the turn and did not notice before it was overdue is in the list again.
    #[test]
    fn a_turn_that_was_taken_too_early_comes_again() {
        let list = Arc::new(Turns::new());
        let bell = Arc::new(Condvar::new());
        let mut turn = list.join(0, &bell, || false);
        let other = Place::new(Who::Member(100), 0);
        let mut state = list.lock();
        state.running = Some(other);
        drop(state);
        // It waits for it until the other one's is overdue, and has it then.
        turn.hand_on(|| false);
        assert!(turn.runs(&list.lock()));
        drop(turn);
        let state = list.lock();
        assert!(state.running.is_none() && state.list.0.len() == 1, "{state:?}");
    }

    #[test]
    fn who_waits_can_be_stopped() {
        let list = Arc::new(Turns::new());
        let _held = list.join(0, &Arc::default(), || false);
        let (bell, stop) = (Arc::new(Condvar::new()), Arc::new(AtomicBool::new(false)));
        let waiter = std::thread::spawn({
            let (list, bell, stop) = (list.clone(), bell.clone(), stop.clone());
            move || drop(list.join(0, &bell, || stop.load(Ordering::Acquire)))
        });
        stop.store(true, Ordering::Release);
        list.ring(&bell);
        waiter.join().unwrap();
    }
}
