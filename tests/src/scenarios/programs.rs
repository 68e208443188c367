//! Random programs that do everything at once: messages of all sizes in all ways, collectives on several communicators, prepared ones
//! among them, while ranks compute, sleep, are masked or late, and wait for what they have started in any way and order.
//!
//! All ranks derive the same list of operations from a seed (`programs/plan.rs`). Each rank starts its parts in the order of the list, and
//! at any time waits only for what stands before in it: then some rank can always go on, as in any right MPI program. When and how it
//! does what it does besides is its own choice.

mod books;
pub mod death;
mod pending;
mod plan;
mod watch;

use std::time::Duration;

use tocsin_world::{Comm, Masked, wait_any};

use crate::random::Random;
use crate::run::Arguments;
use crate::scenarios::collectives::{Choice, restarted, start_any, three};
use books::Books;
use pending::{Pending, Thing};
use plan::{Operation, Plan, Round};
use restarted::Prepared;
use watch::Watch;

/// Prepared collectives of a program.
const PREPARED: u64 = 6;

/// `seed`, `rounds`, `operations` (per round), `max` (bytes of a message), `threads` (of each rank, each with a program of its own).
/// With `victim` and `after_us`, where ranks are processes: that rank kills itself after that time, and the others leave when they learn of it.
pub fn random_programs(comm: &Comm, arguments: &Arguments) {
    if arguments.optional("victim").is_some() {
        death::expect(comm, arguments);
    }
    let threads = arguments.number("threads");
    let own = |thread| (thread > 0).then(|| comm.dup().unwrap_or_else(|e| panic!("{e}")));
    let comms: Vec<Comm> = (0..threads).map(|thread| own(thread).unwrap_or_else(|| comm.clone())).collect();
    std::thread::scope(|scope| {
        for (thread, comm) in (1..).zip(&comms[1..]) {
            scope.spawn(move || Program::new(comm, arguments, thread).run());
        }
        Program::new(&comms[0], arguments, 0).run();
    });
    comm.ibarrier_raw(None).and_then(|mut all| all.wait()).unwrap_or_else(|e| panic!("{e}"));
}

/// What one thread of a rank does.
struct Program<'a> {
    plan: Plan,
    rounds: u64,
    /// For collectives on each of the communicators.
    choices: [Choice; 3],
    /// All, one like it, one of every second rank in reverse order.
    on: [Comm; 3],
    prepared: Vec<(usize, Prepared)>,
    own: Random,
    watch: Watch,
    masked: Option<Masked>,
    world: &'a Comm,
}

impl<'a> Program<'a> {
    fn new(comm: &'a Comm, arguments: &Arguments, thread: u64) -> Program<'a> {
        let seed = arguments.number("seed") ^ thread << 40;
        let max = arguments.number("max");
        let mut plan = Plan::new(seed, u64::from(comm.size()), arguments.number("operations"), max);
        let on = three(comm);
        let color = u64::from(comm.rank() % 2);
        let choices = [0, 1, 2].map(|at: usize| {
            // The world's first communicators have memory that all their ranks share.
            let barrier = on[at].ibarrier_raw(Some("shm"));
            let board = barrier.and_then(|mut all| all.wait()).is_ok();
            Choice { max: max / 8, users: plan.users, board }
        });
        let prepared = (0..PREPARED)
            .map(|which| {
                let at = (which % 3) as usize;
                let mut random = Random::new(plan.random.bits() ^ if at == 2 { color } else { 0 });
                (at, restarted::prepare_any(&on[at], &mut random, choices[at]))
            })
            .collect();
        let me = u64::from(comm.rank());
        let watch = Watch::new(format!("programs, seed {seed}, rank {me}, thread {thread}"));
        let own = Random::new(seed ^ (me + 1) << 20);
        let rounds = arguments.number("rounds");
        Program { plan, rounds, choices, on, prepared, own, watch, masked: None, world: comm }
    }

    fn run(mut self) {
        for number in 0..self.rounds {
            let round = self.plan.round();
            if round.late == u64::from(self.world.rank()) {
                self.dawdle();
            }
            self.round(number, &round);
        }
        self.watch.end();
    }

    /// Everything of a round is over at its end, but for prepared collectives.
    fn round(&mut self, number: u64, round: &Round) {
        let me = self.world.rank();
        let mut books = Books::new(round, &self.on, me);
        let mut pending: Vec<Pending> = Vec::new();
        for (position, operation) in round.operations.iter().enumerate() {
            self.watch.say(|| format!("round {number}, operation {position}: {operation:?}"));
            match *operation {
                Operation::Message(which) => self.message(&mut books, &mut pending, which),
                Operation::Exchange(which) => self.exchange(&mut books, &mut pending, which),
                Operation::Collective(at, seed) => {
                    let color = if at == 2 { u64::from(me % 2) } else { 0 };
                    let mut random = Random::new(seed ^ color);
                    let planned = start_any(&self.on[at], &mut random, self.choices[at]);
                    pending.push(Pending::new(
                        Thing::Collective(at, planned.part, planned.what),
                        planned.request,
                    ));
                }
                Operation::Restart(which) => {
                    let (at, prepared) = &mut self.prepared[which];
                    if prepared.request.is_active() {
                        prepared.finish(&self.on[*at], &mut self.own);
                    }
                    prepared.start(&self.on[*at], number << 16 | position as u64);
                }
            }
            self.between(&mut books, &mut pending, round.is_orderly);
        }
        self.masked = None;
        self.own.shuffle(&mut pending);
        while let Some(one) = pending.pop() {
            self.say_pending("the end", number, &pending, &one);
            self.finish(&mut books, one);
        }
        for (at, prepared) in &mut self.prepared {
            // Some go on into the next round.
            if prepared.request.is_active() && (number + 1 == self.rounds || self.own.below(2) == 0) {
                self.watch.say(|| format!("round {number}: a prepared one at the end"));
                prepared.finish(&self.on[*at], &mut self.own);
            }
        }
        self.watch.say(|| format!("round {number}: callbacks"));
        books.finish(&mut self.own, self.world);
        if !round.is_orderly {
            // A message of the next round must find no wildcard of this one.
            self.watch.say(|| format!("round {number}: the barrier"));
            for on in [1, 2, 0] {
                let barrier = self.on[on].ibarrier_raw(None);
                barrier.and_then(|mut all| all.wait()).unwrap_or_else(|e| panic!("{e}"));
            }
        }
    }

    fn say_pending(&self, place: &str, round: u64, pending: &[Pending], one: &Pending) {
        self.watch.say(|| {
            let others: Vec<String> = pending.iter().map(Pending::describe).collect();
            format!("{place} of round {round}: waits for {}; beside it {}", one.describe(), others.join(", "))
        });
    }

    fn message(&mut self, books: &mut Books, pending: &mut Vec<Pending>, which: usize) {
        let message = books.round.messages[which];
        let me = self.world.rank();
        let to_itself = message.source == me && message.dest == me;
        let receives_first = self.own.below(2) == 0;
        if message.dest == me && receives_first {
            pending.extend(books.receive(which, &mut self.own, !to_itself));
        }
        if message.source == me {
            pending.extend(books.send(which, &mut self.own, !to_itself));
        }
        if message.dest == me && !receives_first {
            pending.extend(books.receive(which, &mut self.own, !to_itself));
        }
    }

    /// Two ranks send each other a message: this one and the next of the plan.
    fn exchange(&mut self, books: &mut Books, pending: &mut Vec<Pending>, which: usize) {
        let me = self.world.rank();
        let [first, second] = [which, which + 1].map(|which| books.round.messages[which]);
        let (sent, received) = if first.source == me {
            (which, which + 1)
        } else if second.source == me {
            (which + 1, which)
        } else {
            return;
        };
        if books.round.is_orderly && self.own.below(2) == 0 {
            return books.exchange(sent, received, &mut self.own);
        }
        // Both are under way before either is waited for.
        if self.own.below(2) == 0 {
            pending.extend(books.receive(received, &mut self.own, false));
            pending.extend(books.send(sent, &mut self.own, false));
        } else {
            pending.extend(books.send(sent, &mut self.own, false));
            pending.extend(books.receive(received, &mut self.own, false));
        }
    }

    /// What a rank does of its own.
    fn between(&mut self, books: &mut Books, pending: &mut Vec<Pending>, is_orderly: bool) {
        match self.own.below(40) {
            0 => self.dawdle(),
            1..=4 => compute(self.own.below(200)),
            5 => self.masked = if self.masked.is_none() { Some(Masked::new()) } else { None },
            6 | 7 => books.want_what_nobody_sends(&mut self.own),
            8 | 9 => books.give_up(&mut self.own),
            10 | 11 => books.cancel_one(&mut self.own, pending),
            12..=15 => {
                let bound = pending.len() as u64;
                if bound > 0 {
                    let one = &mut pending[self.own.below(bound) as usize];
                    // Once, which is no wait.
                    let _over = one.request.test();
                }
            }
            16 => self.world.progress(),
            17..=19 => self.any_of(books, pending, is_orderly),
            20..=29 => {
                let may: Vec<usize> =
                    (0..pending.len()).filter(|at| is_orderly || pending[*at].is_collective()).collect();
                if !may.is_empty() {
                    let one = pending.swap_remove(may[self.own.below(may.len() as u64) as usize]);
                    self.say_pending("the middle", 0, pending, &one);
                    self.finish(books, one);
                }
            }
            _ => {}
        }
    }

    /// Waits for any of some.
    fn any_of(&mut self, books: &mut Books, pending: &mut Vec<Pending>, is_orderly: bool) {
        let from = self.own.below(pending.len() as u64 + 1) as usize;
        let may = |one: &Pending| is_orderly || one.is_collective();
        // One of them is there to be over.
        if !pending[from..].iter().any(may) {
            return;
        }
        self.watch.say(|| {
            let some: Vec<String> = pending[from..].iter().map(Pending::describe).collect();
            format!("waits for any of {}", some.join(", "))
        });
        let mut some: Vec<_> = pending[from..].iter_mut().map(|one| &mut one.request).collect();
        let Some(which) = wait_any(&mut some) else { return };
        let mut one = pending.swap_remove(from + which);
        assert!(one.request.is_done(), "wait_any gave what is not over: {}", one.describe());
        let outcome = one.request.wait();
        books.over(one, outcome);
    }

    fn finish(&mut self, books: &mut Books, mut one: Pending) {
        let spins = self.plan.spins && self.masked.is_none() && self.world.backend().name() != "poll";
        let outcome = pending::wait(&mut one, &mut self.own, spins);
        books.over(one, outcome);
    }

    /// Is late.
    fn dawdle(&mut self) {
        if self.own.below(2) == 0 {
            compute(self.own.below(5000));
        } else {
            std::thread::sleep(Duration::from_micros(self.own.below(5000)));
        }
    }
}

/// Calls nothing for these microseconds.
fn compute(microseconds: u64) {
    let until = tocsin_sync::clock::now_ns() + 1000 * microseconds;
    while tocsin_sync::clock::now_ns() < until {
        std::hint::black_box(());
    }
}
