//! Drives all ranks in one thread, in random order, with random budgets and contexts.

use super::Random;
use super::model::{Case, Sides, extent, put};
use super::network::End;
use super::supply;
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;
use tocsin_nbc::messages::Messages;
use tocsin_nbc::table::{self, Algorithm, Arguments, Block, Operation, Origin};
use tocsin_nbc::trace::{STEPPED, STEPS, Stepped};
use tocsin_nbc::{Group, Hierarchy, Nbc, Posted, Schedule};
use tocsin_progress::Trace;
use tocsin_progress::budget::{Budget, Context, Pass};
use tocsin_progress::completion::{Code, Outcome};
use tocsin_progress::slots::Id;
use tocsin_sync::atomic::AtomicU64;
use tocsin_sync::thread::HandlerScope;
use tocsin_topology::Topology;
use tocsin_transport::board::{Area, Board, LONG_MEMORY, MEMBERS};

thread_local! {
    static IN_HANDLER: Cell<bool> = const { Cell::new(false) };
}

/// What a step copies or combines at least: a short piece of a block, or an element.
const LEAST: usize = 64;

/// When the steps of a kind began that a trace says are done.
pub fn steps(trace: &Trace, kind: &str) -> Vec<u64> {
    let at = STEPS.iter().position(|name| *name == kind).unwrap() as u16;
    let events = trace.drain().into_iter().filter(|event| event.kind == STEPPED + at);
    events.map(|event| event.ns - Stepped::from_words([event.a, event.b]).took).collect()
}

/// Whether the pass that runs plays a handler's.
pub fn in_handler() -> bool {
    IN_HANDLER.get()
}

/// A layer below that needs a push.
pub trait Lower: Messages {
    fn pump(&mut self, budget: &mut Budget) -> Pass;
    fn is_clean(&self) -> bool;

    /// Before the token is released.
    fn after(&mut self) {}

    /// Before a schedule is started again.
    fn before_restart(&mut self) {}

    /// What was allocated of long memory: addresses and bytes.
    fn allocated(&self) -> Vec<(usize, usize)> {
        Vec::new()
    }

    /// Opened around passes that play a handler's.
    fn scope() -> Option<HandlerScope> {
        None
    }
}

impl Lower for End {
    fn pump(&mut self, _: &mut Budget) -> Pass {
        End::pump(self);
        Pass::Idle
    }

    fn is_clean(&self) -> bool {
        End::is_clean(self)
    }

    fn before_restart(&mut self) {
        self.forget_peers();
    }

    fn allocated(&self) -> Vec<(usize, usize)> {
        End::allocated(self)
    }
}

pub struct Rank<L> {
    pub lower: L,
    pub nbc: Nbc,
}

pub struct Machine<L> {
    pub ranks: Vec<Rank<L>>,
    pub random: Random,
    sequence: u32,
    /// A rank that gets no passes but handlers'.
    pub only_handlers: Option<usize>,
    /// A rank that gets no passes.
    pub silent: Option<usize>,
    /// Whether the library may choose the board, which is there in any case that ranks can have one.
    pub chooses_board: bool,
    /// The areas of the board, and its long memory.
    pub areas: Vec<Box<Area>>,
    long: Vec<Vec<u64>>,
}

/// Memory at an odd address with guards around it.
pub struct Buffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

const GUARD: usize = 64;

impl Buffer {
    pub fn new(contents: &[u8], misalign: usize) -> Buffer {
        let mut memory = vec![0xa5; contents.len() + 2 * GUARD + 8];
        let start = GUARD + misalign % 8;
        memory[start..start + contents.len()].copy_from_slice(contents);
        Buffer { memory, start, len: contents.len() }
    }

    pub fn pointer(&mut self) -> *mut u8 {
        self.memory[self.start..].as_mut_ptr()
    }

    pub fn contents(&self) -> &[u8] {
        let end = self.start + self.len;
        assert!(self.memory[..self.start].iter().all(|b| *b == 0xa5), "memory before the buffer is written");
        assert!(self.memory[end..].iter().all(|b| *b == 0xa5), "memory after the buffer is written");
        &self.memory[self.start..end]
    }

    pub fn set(&mut self, contents: &[u8]) {
        let start = self.start;
        self.memory[start..start + contents.len()].copy_from_slice(contents);
    }
}

/// A collective on all ranks.
pub struct Call {
    pub case: Case,
    pub algorithm: &'static Algorithm,
    pub ids: Vec<Option<Id>>,
    /// Outcomes of posts that had nothing to wait for.
    pub at_once: Vec<Option<Outcome>>,
    send: Vec<Buffer>,
    recv: Vec<Buffer>,
    sides: Vec<Sides>,
    /// Of a reduce-scatter.
    counts: Vec<usize>,
    /// What each rank's blocks hold.
    inputs: Vec<Vec<Vec<u8>>>,
    /// The receive buffers before the start.
    before: Vec<Vec<u8>>,
    sequence: u32,
}

impl Call {
    fn new(case: Case, group: &Group, random: &mut Random, sequence: u32) -> Call {
        let ranks = group.size();
        let mut call = Call {
            case,
            algorithm: table::choose(&Arguments::Ibarrier, 1),
            ids: vec![None; ranks as usize],
            at_once: vec![None; ranks as usize],
            send: Vec::new(),
            recv: Vec::new(),
            sides: (0..ranks as usize).map(|rank| case.sides(rank, ranks as usize)).collect(),
            counts: case.counts(ranks as usize),
            inputs: vec![Vec::new(); ranks as usize],
            before: vec![Vec::new(); ranks as usize],
            sequence,
        };
        for (rank, sides) in call.sides.iter().enumerate() {
            let (send, recv) = (random.below(8), random.below(8));
            call.send.push(Buffer::new(&vec![0x5b; extent(&sides.send)], send));
            call.recv.push(Buffer::new(&vec![0x5b; case.room(rank, sides)], recv));
        }
        call.fill_in(random);
        let arguments = call.arguments(0);
        let chosen = match case.algorithm {
            Some(name) => table::find(case.operation, name).unwrap(),
            None => table::choose_for(&arguments, group),
        };
        call.algorithm = chosen;
        call
    }

    /// New inputs in the same buffers, as before each start of a persistent collective.
    fn fill_in(&mut self, random: &mut Random) {
        let case = self.case;
        for rank in 0..self.inputs.len() {
            let sides = &self.sides[rank];
            let is_bcast = case.operation == Operation::Ibcast;
            let given = if is_bcast { &sides.recv } else { &sides.send };
            let inputs: Vec<Vec<u8>> = given
                .iter()
                .map(|b| supply::cut(case.data_type, random.word(), b.bytes, 0..b.bytes))
                .collect();
            let mut before = vec![0x5b; case.room(rank, sides)];
            if case.is_in_place(rank) || (is_bcast && rank == case.root as usize) {
                let first = case.input_at(rank).unwrap_or(usize::MAX);
                for (block, input) in sides.recv.iter().skip(first).zip(&inputs) {
                    // The input of a reduction may be longer than its result.
                    let mut place = *block;
                    place.bytes = input.len();
                    put(&mut before, &place, input);
                }
            }
            if !is_bcast {
                let mut send = vec![0x5b; extent(&sides.send)];
                for (block, input) in sides.send.iter().zip(&inputs) {
                    put(&mut send, block, input);
                }
                self.send[rank].set(&send);
            }
            self.recv[rank].set(&before);
            self.before[rank] = before;
            self.inputs[rank] = inputs;
        }
    }

    /// Bytes that a rank's part has on a board, where each gives to all, and those of its own block that it puts into its result.
    pub fn gives_and_keeps(&self, rank: usize) -> (u64, u64) {
        let blocks = &self.sides[rank].recv;
        let (own, all) = (blocks[rank].bytes, blocks.iter().map(|block| block.bytes).sum::<usize>());
        let part = if self.case.operation == Operation::Ialltoall { all - own } else { own };
        (part as u64, if self.case.is_in_place(rank) { 0 } else { own as u64 })
    }

    fn arguments(&mut self, rank: usize) -> Arguments<'_> {
        let Case { operation, root, data_type, op, count, .. } = self.case;
        let in_place = self.case.is_in_place(rank);
        let (from, recv) = (self.send[rank].pointer().cast_const(), self.recv[rank].pointer());
        let (send, to) = ((!in_place).then_some(from), (!in_place).then_some(recv));
        let sides = &self.sides[rank];
        let block = count * data_type.size();
        let own = |blocks: &[Block]| match blocks {
            [one] => one.bytes,
            all => all.get(rank).map_or(0, |b| b.bytes),
        };
        let exchanged = send.map(|send| (send, &sides.send[..]));
        match operation {
            Operation::Ibarrier => Arguments::Ibarrier,
            Operation::Ibcast => Arguments::Ibcast { buffer: recv, bytes: block, root },
            Operation::Iscatter => Arguments::Iscatter { send: from, recv: to, block, root },
            Operation::Iscatterv => Arguments::Iscatterv {
                send: from,
                blocks: &sides.send,
                recv: to,
                bytes: own(&sides.recv),
                root,
            },
            Operation::Igather => Arguments::Igather { send, recv, block, root },
            Operation::Igatherv => {
                Arguments::Igatherv { send, bytes: own(&sides.send), recv, blocks: &sides.recv, root }
            }
            Operation::Iallgather => Arguments::Iallgather { send, recv, block },
            Operation::Iallgatherv => Arguments::Iallgatherv { send, recv, blocks: &sides.recv },
            Operation::Ialltoall => Arguments::Ialltoall { send, recv, block },
            Operation::Ialltoallv => Arguments::Ialltoallv { send: exchanged, recv, blocks: &sides.recv },
            Operation::Ialltoallw => Arguments::Ialltoallw { send: exchanged, recv, blocks: &sides.recv },
            Operation::Ireduce => Arguments::Ireduce { send, recv, count, data_type, op, root },
            Operation::IreduceScatter => {
                Arguments::IreduceScatter { send, recv, counts: &self.counts, data_type, op }
            }
            Operation::IreduceScatterBlock => {
                Arguments::IreduceScatterBlock { send, recv, count, data_type, op }
            }
            Operation::Iscan => Arguments::Iscan { send, recv, count, data_type, op },
            Operation::Iexscan => Arguments::Iexscan { send, recv, count, data_type, op },
            _ => Arguments::Iallreduce { send, recv, count, data_type, op },
        }
    }

    fn compile(&mut self, group: &Group) -> Box<Schedule> {
        let algorithm = self.case.algorithm;
        let arguments = self.arguments(group.rank() as usize);
        table::compile(group, &arguments, algorithm).unwrap()
    }

    fn check(&self) {
        let (case, name) = (&self.case, self.algorithm.name);
        for rank in 0..self.inputs.len() {
            let mut expected = self.before[rank].clone();
            let results = case.results(rank, self.algorithm, &self.inputs).unwrap_or_default();
            for (block, result) in self.sides[rank].recv.iter().zip(&results) {
                put(&mut expected, block, result);
            }
            let got = self.recv[rank].contents();
            if got != expected {
                let first = got.iter().zip(&expected).position(|(a, b)| a != b);
                panic!("rank {rank}: first wrong byte {first:?}; {case:?} by {name}");
            }
            for (block, input) in self.sides[rank].send.iter().zip(&self.inputs[rank]) {
                let contents = self.send[rank].contents();
                let sent = block.runs().map(|(at, n)| &contents[at..at + n]).collect::<Vec<_>>().concat();
                assert!(sent == *input, "rank {rank}: the input was changed; {case:?} by {name}");
            }
        }
    }
}

pub fn group(ranks: u32, me: u32) -> Group {
    Group::new(&(0..ranks).collect::<Vec<_>>(), me).unwrap().with_hierarchy(hierarchy(ranks))
}

/// Ranks all over one of some machines; of some of them nobody may know where they are.
pub fn hierarchy(ranks: u32) -> Option<Arc<Hierarchy>> {
    let machines = ["numa:2 l3:2 core:2", "package:2 numa:2 l3:2 core:3", "package:3 core:5", "l3:4 core:2"];
    let machine = Topology::synthetic(machines[ranks as usize % machines.len()]).unwrap();
    let cpu =
        |rank| Some(rank as usize * 11 % machine.pus()).filter(|cpu| cpu % 7 > 0 || !ranks.is_multiple_of(2));
    let cpus: Vec<Option<usize>> = (0..ranks).map(cpu).collect();
    Hierarchy::new(&machine.localities(&cpus)).map(Arc::new)
}

impl<L: Lower> Machine<L> {
    pub fn new(lower: Vec<L>, seed: u64) -> Machine<L> {
        let mut ranks: Vec<_> = lower.into_iter().map(|lower| Rank { lower, nbc: Nbc::new() }).collect();
        let mut random = Random(seed);
        let areas: Vec<Box<Area>> = (0..ranks.len()).map(|_| Box::new(Area::new())).collect();
        let has_board = (2..=MEMBERS).contains(&ranks.len());
        // Zeros, which take no memory before they are written.
        let mut memory = (0..if has_board { ranks.len() } else { 0 })
            .map(|_| vec![0u64; LONG_MEMORY / 8])
            .collect::<Vec<_>>();
        let long: Vec<NonNull<AtomicU64>> =
            memory.iter_mut().map(|words| NonNull::from(&mut words[0]).cast()).collect();
        if has_board {
            let all = group(ranks.len() as u32, 0).world_ranks().to_vec();
            for (rank, me) in ranks.iter_mut().zip(0..) {
                let areas = areas.iter().map(|area| NonNull::from(&**area)).collect();
                // SAFETY: - the machine keeps the areas, and drops them after the ranks.
                let board = unsafe { Board::new(areas, me, 1) }.unwrap();
                // SAFETY: - likewise.
                let board = unsafe { board.with_long(long.clone().into()) };
                let number = rank.nbc.open_board(board, &Group::new(&all, me).unwrap()).unwrap();
                assert_eq!(number, 0);
            }
        }
        let chooses_board = random.chance(50);
        Machine {
            ranks,
            random,
            sequence: 0,
            only_handlers: None,
            silent: None,
            chooses_board,
            areas,
            long: memory,
        }
    }

    /// The group as a rank sees it, for an algorithm that is named or one that the library chooses.
    pub fn group(&self, me: u32, named: bool) -> Group {
        let plain = group(self.size(), me);
        let has_board = (2..=MEMBERS).contains(&self.ranks.len()) && (named || self.chooses_board);
        if has_board { plain.with_board(0) } else { plain }
    }

    pub fn size(&self) -> u32 {
        self.ranks.len() as u32
    }

    pub fn call(&mut self, case: Case) -> Call {
        self.sequence += 1;
        let group = self.group(0, case.algorithm.is_some());
        Call::new(case, &group, &mut self.random, self.sequence)
    }

    pub fn post(&mut self, call: &mut Call, rank: usize) {
        let schedule = call.compile(&self.group(rank as u32, call.case.algorithm.is_some()));
        let Rank { lower, nbc } = &mut self.ranks[rank];
        // SAFETY: - the call owns the buffers, untouched until the machine has seen the completion.
        let id = unsafe { nbc.post(lower, schedule, 1 << 31, call.sequence) };
        nbc.announce(lower);
        lower.after();
        call.ids[rank] = Some(id.unwrap());
    }

    /// As `post`, half the time without a schedule where there is a board: then a request may be over at once.
    fn post_any(&mut self, call: &mut Call, rank: usize) {
        let named = call.case.algorithm;
        let group = self.group(rank as u32, named.is_some());
        let direct = match self.random.chance(50) {
            true => table::call_on_board(&group, &call.arguments(rank), named).unwrap(),
            false => None,
        };
        let Some(mut direct) = direct else { return self.post(call, rank) };
        direct.number(call.sequence);
        let Rank { lower, nbc } = &mut self.ranks[rank];
        // SAFETY: - as `post`.
        match unsafe { nbc.post_on_board(lower, &direct, 1 << 31, call.sequence) }.unwrap() {
            Posted::Done => call.at_once[rank] = Some(Outcome::default()),
            Posted::Failed(outcome) => call.at_once[rank] = Some(outcome),
            Posted::Waits(id) => call.ids[rank] = Some(id),
        }
        nbc.announce(lower);
        lower.after();
    }

    /// One pass of a rank.
    pub fn step(&mut self, rank: usize) -> Pass {
        if self.silent == Some(rank) {
            return Pass::Idle;
        }
        let contexts = [Context::User, Context::Handler, Context::ProgressThread];
        let context = match self.only_handlers == Some(rank) {
            true => Context::Handler,
            false => *self.random.pick(&contexts),
        };
        let bytes = match self.random.below(4) {
            0 => 1 + self.random.below(64),
            1 => 1 + self.random.below(4096),
            _ => 65536,
        };
        let mut budget = Budget::limited(context, 1 + self.random.below(32) as u32, bytes);
        let Rank { lower, nbc } = &mut self.ranks[rank];
        let scope = (context == Context::Handler).then(L::scope);
        IN_HANDLER.set(context == Context::Handler);
        if context == Context::User {
            nbc.open_gates(lower);
        }
        let below = lower.pump(&mut budget);
        let (before, left) = (nbc.copied().handler, budget.bytes_left());
        let pass = nbc.progress(lower, &mut budget);
        let copied = (nbc.copied().handler - before) as usize;
        assert!(copied < left + LEAST, "{copied} bytes in a handler that had {left} left");
        nbc.announce(lower);
        lower.after();
        IN_HANDLER.set(false);
        drop(scope);
        if below == Pass::Idle { pass } else { below }
    }

    pub fn outcome(&self, call: &Call, rank: usize) -> Option<Outcome> {
        if call.at_once[rank].is_some() {
            return call.at_once[rank];
        }
        let completion = self.ranks[rank].nbc.completion(call.ids[rank]?)?;
        // SAFETY: - valid as long as the Nbc.
        unsafe { completion.as_ref() }.outcome()
    }

    /// Steps ranks in random order until `done`.
    pub fn drive(&mut self, what: &str, mut act: impl FnMut(&mut Self, usize), done: impl Fn(&Self) -> bool) {
        let mut idle = 0;
        while !done(self) {
            let rank = self.random.below(self.ranks.len());
            act(self, rank);
            idle = if self.step(rank) == Pass::Idle { idle + 1 } else { 0 };
            assert!(idle < 20_000 + 2000 * self.ranks.len(), "hang: {what}");
        }
    }

    /// Posts the cases on every rank in the same order, at random moments, and checks their results.
    pub fn run(&mut self, cases: &[Case]) {
        let mut calls: Vec<Call> = cases.iter().map(|case| self.call(*case)).collect();
        let mut posted = vec![0; self.ranks.len()];
        {
            let calls = std::cell::RefCell::new(&mut calls);
            let what = format!("{cases:?} on {} ranks", self.ranks.len());
            let act = |machine: &mut Self, rank: usize| {
                while posted[rank] < cases.len() && machine.random.chance(60) {
                    machine.post_any(&mut calls.borrow_mut()[posted[rank]], rank);
                    posted[rank] += 1;
                }
            };
            let done = |machine: &Self| {
                (0..machine.ranks.len())
                    .all(|rank| calls.borrow().iter().all(|call| machine.outcome(call, rank).is_some()))
            };
            self.drive(&what, act, done);
        }
        // Released in any order.
        while !calls.is_empty() {
            let which = self.random.below(calls.len());
            let call = calls.swap_remove(which);
            self.finish(&call);
        }
        self.forget();
    }

    /// One more view of the board, as a rank has it that does as it likes.
    pub fn board_of(&mut self, me: u32) -> Board {
        let areas = self.areas.iter().map(|area| NonNull::from(&**area)).collect();
        let long = self.long.iter_mut().map(|words| NonNull::from(&mut words[0]).cast()).collect();
        // SAFETY: the machine keeps the areas and the long memory longer than its tests their boards; of each rank one board is used.
        unsafe { Board::new(areas, me, 1).unwrap().with_long(long) }
    }

    /// Nothing was written to long memory that was not allocated before.
    pub fn check_long(&self) {
        for (rank, words) in self.ranks.iter().zip(&self.long) {
            let allocated = rank.lower.allocated();
            let is_allocated =
                |at: usize| allocated.iter().any(|(from, bytes)| (*from..from + bytes).contains(&at));
            let mut written =
                words.iter().filter(|word| **word != 0).map(|word| std::ptr::from_ref(word).addr());
            assert!(written.all(is_allocated), "long memory was written that was never allocated");
        }
    }

    /// After this no request is reserved.
    pub fn forget(&mut self) {
        for Rank { lower, nbc } in &mut self.ranks {
            nbc.forget(lower);
            assert!(lower.is_clean(), "requests are left");
        }
    }

    /// Posts the same call `times` times, with new contents: on ranks that have seen it before without compiling it, if it is one whose
    /// schedules are kept. Whether it was.
    pub fn post_again(&mut self, case: Case, times: usize) -> bool {
        let mut call = self.call(case);
        let mut again = 0;
        for _ in 0..times {
            call.fill_in(&mut self.random);
            self.sequence += 1;
            call.sequence = self.sequence;
            for rank in 0..self.ranks.len() {
                let group = self.group(rank as u32, case.algorithm.is_some());
                let sequence = call.sequence;
                let origin = Origin::new(&group, &call.arguments(rank), case.algorithm);
                let Rank { lower, nbc } = &mut self.ranks[rank];
                // SAFETY: - as `post`.
                let posted =
                    origin.and_then(|o| unsafe { nbc.post_again(lower, &o, 1 << 31, sequence) }.unwrap());
                nbc.announce(lower);
                lower.after();
                match posted {
                    Some(_) => (call.ids[rank], again) = (posted, again + 1),
                    None => self.post(&mut call, rank),
                }
            }
            let done = |machine: &Self| (0..machine.ranks.len()).all(|r| machine.outcome(&call, r).is_some());
            self.drive("a collective that was posted before", |_, _| {}, done);
            self.finish(&call);
        }
        assert!(again == 0 || again == self.ranks.len() * (times - 1), "{again} of {times}; {case:?}");
        again > 0
    }

    pub fn finish(&mut self, call: &Call) {
        for rank in 0..self.ranks.len() {
            assert_eq!(self.outcome(call, rank).unwrap().code, Code::Ok, "rank {rank}, {:?}", call.case);
            if call.at_once[rank].is_some() {
                continue;
            }
            let Rank { lower, nbc } = &mut self.ranks[rank];
            assert!(nbc.release(lower, call.ids[rank].unwrap()));
            assert!(!nbc.release(lower, call.ids[rank].unwrap()), "a second release is refused");
        }
        call.check();
    }

    /// A persistent collective: prepared once, started `times` with new contents.
    pub fn run_again(&mut self, case: Case, times: usize) {
        let mut call = self.call(case);
        for rank in 0..self.ranks.len() {
            let schedule = call.compile(&self.group(rank as u32, case.algorithm.is_some()));
            let Rank { lower, nbc } = &mut self.ranks[rank];
            call.ids[rank] = Some(nbc.prepare(lower, schedule, 1 << 31).unwrap());
        }
        for _ in 0..times {
            call.fill_in(&mut self.random);
            self.sequence += 1;
            for rank in 0..self.ranks.len() {
                let Rank { lower, nbc } = &mut self.ranks[rank];
                let id = call.ids[rank].unwrap();
                lower.before_restart();
                // SAFETY: - as `post`.
                unsafe { nbc.start(lower, id, self.sequence).unwrap() };
                lower.after();
            }
            let done = |machine: &Self| (0..machine.ranks.len()).all(|r| machine.outcome(&call, r).is_some());
            self.drive("a persistent collective", |_, _| {}, done);
            call.check();
        }
        self.finish(&call);
    }
}
