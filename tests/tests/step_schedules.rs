//! Every instruction of a schedule whose steps go on a slice at a time, with the doorbell's handler injected at each: the
//! message that makes its reduction ready comes, or the handler goes on with what another pass has begun. Each byte is copied and
//! combined once, in order, and no handler does more of it than its budget says.
//!
//! Rank 0 is stepped; its peer, which the handler moves, only sends and receives.
//! `cargo test -p tocsin-tests --profile step --test step_schedules -- --nocapture`; `TOCSIN_TEST_DEEP=1` takes every boundary
//! where the ordinary run takes every nth.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::unwrap_used)]

use std::cell::{Cell, UnsafeCell};
use std::sync::Arc;

use tocsin_doorbell::{Cause, Own};
use tocsin_nbc::builder::{Mem, Reduction, ScheduleBuilder};
use tocsin_nbc::{DataType, Group, Nbc, Op, Schedule};
use tocsin_p2p::{Class, Config, ConstBuf, Mode, MutBuf, P2p, RecvArgs, SendArgs};
use tocsin_progress::{Budget, Code, Context, Engine, EngineConfig, Id, Pass, Stats, Work};
use tocsin_shm_transport::{Life, Segment, ShmTransport};
use tocsin_tests::stepper::Stepper;
use tocsin_transport::Transport;

const ME: u32 = 0;
const PEER: u32 = 1;
/// Context of the collectives.
const CONTEXT: u32 = 1 << 31;
const SEQUENCE: u32 = 3;
/// Numbers that are reduced and copied, and bytes of them.
const COUNT: usize = 40;
const BYTES: usize = 8 * COUNT;
/// Numbers of a message, and bytes that a pass may copy and combine.
const PART: usize = 8;
const MOST: usize = 8 * PART;

/// What a rank of a world runs, with small budgets.
struct Sliced {
    p2p: P2p<ShmTransport>,
    nbc: Nbc,
    /// Most bytes that steps took in one pass, and in all passes of handlers.
    most: u64,
    in_handlers: u64,
}

// SAFETY: p2p, nbc and transport promise handler safety of the methods used here.
unsafe impl Work for Sliced {
    fn progress(&mut self, budget: &mut Budget) -> Pass {
        let messages = self.p2p.progress(budget);
        let mut small = Budget::limited(budget.context(), 32, MOST);
        let before = self.nbc.copied();
        let collectives = self.nbc.progress(&mut self.p2p, &mut small);
        let after = self.nbc.copied();
        let by_handler = after.handler - before.handler;
        self.most = self.most.max(by_handler + after.user - before.user);
        self.in_handlers += by_handler;
        match (messages, collectives) {
            (Pass::More, _) | (_, Pass::More) => Pass::More,
            (Pass::Idle, Pass::Idle) => Pass::Idle,
            _ => Pass::Worked,
        }
    }

    fn leave(&mut self) {
        self.p2p.transport_mut().flush();
    }

    fn wants_plain(&self) -> bool {
        self.p2p.wants_plain()
    }

    fn wants_offers(&self) -> bool {
        self.p2p.wants_offers()
    }

    fn work_left(&self) -> bool {
        self.p2p.work_left() || self.nbc.work_left()
    }
}

/// The user's memory: used by steps under the token, looked at when all is over.
struct Memory {
    sums: [f64; COUNT],
    others: [f64; COUNT],
    copied: [f64; COUNT],
    /// What the peer sends, and what it gets.
    sent: [f64; PART],
    got: [f64; PART],
}

impl Memory {
    fn new() -> Memory {
        let number = |i: usize| (i * 37 % 11) as f64 / 7.0;
        Memory {
            sums: std::array::from_fn(|i| number(i) + 1e6),
            others: std::array::from_fn(|i| number(i + 5)),
            copied: [0.0; COUNT],
            sent: std::array::from_fn(|i| number(i + 9)),
            got: [0.0; PART],
        }
    }
}

struct Pair {
    engine: Engine<Sliced>,
    /// Used by set-up, handler and check, never by the operation.
    peer: UnsafeCell<P2p<ShmTransport>>,
    /// Its requests: a send that is not started yet, and a receive.
    to_send: Cell<Option<Id>>,
    receive: Id,
    collective: Id,
    memory: Box<UnsafeCell<Memory>>,
}

/// A message, then a reduction in place and a copy of its result, then an answer of the copy's beginning.
fn schedule(memory: *mut Memory) -> Box<Schedule> {
    let group = Group::new(&[ME, PEER], ME).unwrap();
    let mut b = ScheduleBuilder::new(&group);
    // SAFETY: the memory is there; places of it are taken, nothing is read.
    let [sums, others, copied] = unsafe {
        [&raw mut (*memory).sums, &raw mut (*memory).others, &raw mut (*memory).copied]
            .map(|at| Mem::User(at.cast()))
    };
    let came = b.temp(MOST);
    let message = b.recv(PEER, 0, came, MOST, &[]);
    let of_message = Reduction { left: sums, right: came, out: sums, count: PART };
    let first = b.reduce(of_message, DataType::F64, Op::Sum, &[message]).unwrap();
    let of_others = Reduction { left: sums, right: others, out: sums, count: COUNT };
    let second = b.reduce(of_others, DataType::F64, Op::Sum, &[first]).unwrap();
    let copy = b.copy(sums, copied, BYTES, &[second]);
    b.send(PEER, 1, copied, MOST, &[copy]);
    b.finish().unwrap()
}

/// Bytes that the steps of the schedule copy and combine.
const ALL: u64 = (MOST + 2 * BYTES) as u64;

/// Tag of a message of the collective.
fn tag(round: i32) -> i32 {
    (SEQUENCE << 12) as i32 | round
}

impl Pair {
    fn new() -> Pair {
        let segment = Arc::new(Segment::create(2).unwrap());
        let config = Config {
            unexpected_messages: 8,
            unexpected_blocks: 1,
            unexpected_limit: 1 << 20,
            ..Config::default()
        };
        let rank = |rank| {
            let p2p = P2p::new(ShmTransport::new(segment.clone(), rank).unwrap(), config).unwrap();
            segment.set_life(rank, Life::Alive);
            p2p
        };
        let (mut p2p, mut peer, mut nbc) = (rank(ME), rank(PEER), Nbc::new());
        let memory = Box::new(UnsafeCell::new(Memory::new()));
        let collective = nbc.prepare(&mut p2p, schedule(memory.get()), CONTEXT).unwrap();
        peer.prepare_peer(ME, 64).unwrap();
        let to_send = Cell::new(Some(peer.reserve_request().unwrap()));
        // SAFETY: the memory lives as long as both ranks; a place in it is taken.
        let got = unsafe { &raw mut (*memory.get()).got };
        let buf = MutBuf::contiguous(got.cast(), MOST);
        let args = RecvArgs {
            context: CONTEXT,
            source: Some(ME),
            tag: Some(tag(1)),
            buf,
            class: Class::Coll,
            cookie: 0,
        };
        // SAFETY: as above, and it is looked at after completion only.
        let receive = unsafe { peer.irecv(args) }.unwrap();
        // SAFETY: the transport keeps the segment, which has the descriptor.
        let own = unsafe { Own::new(segment.descriptor(ME)) };
        let config = EngineConfig { callback_thread: false, ..EngineConfig::default() };
        let work = Sliced { p2p, nbc, most: 0, in_handlers: 0 };
        let engine = Engine::new(work, own, config, Arc::new(Stats::new()));
        engine.poke(Context::User);
        Pair { engine, peer: UnsafeCell::new(peer), to_send, receive, collective, memory }
    }

    #[allow(clippy::mut_from_ref)]
    fn peer(&self) -> &mut P2p<ShmTransport> {
        // SAFETY: one thread; callers keep no reference across each other's uses, and no operation uses it.
        unsafe { &mut *self.peer.get() }
    }

    /// The peer's message, once.
    fn peer_sends(&self) {
        if let Some(id) = self.to_send.take() {
            // SAFETY: the memory is there; a place in it is taken.
            let sent = unsafe { &raw const (*self.memory.get()).sent };
            let buf = ConstBuf::contiguous(sent.cast(), MOST);
            let args = SendArgs {
                context: CONTEXT,
                dest: ME,
                tag: tag(0),
                buf,
                mode: Mode::Standard,
                class: Class::Coll,
                cookie: 0,
            };
            // SAFETY: the memory lives as long as both ranks, unchanged there.
            unsafe { self.peer().start_send(id, args) };
        }
        self.peer().progress(&mut Budget::limited(Context::User, 64, 1 << 20));
        self.peer().transport_mut().flush();
    }

    fn enter_handler(&self) {
        // SAFETY: the engine outlives the run; the stepper opens the handler's scope, and does not nest.
        unsafe { Engine::<Sliced>::handler_entry((&raw const self.engine).cast(), Cause::Ring) };
    }

    /// What comes between two instructions: the message, or time for more of the steps.
    fn ring(&self) {
        self.peer_sends();
        self.enter_handler();
    }

    fn start(&self) {
        let mut inside = self.engine.enter();
        let Sliced { p2p, nbc, .. } = &mut *inside;
        // SAFETY: the memory lives as long as the ranks, and is looked at when all is over.
        unsafe { nbc.start(p2p, self.collective, SEQUENCE) }.unwrap();
    }

    fn is_done(&self) -> bool {
        let completion = self.engine.enter().nbc.completion(self.collective).unwrap();
        // SAFETY: valid as long as the collectives.
        unsafe { completion.as_ref() }.is_done()
    }

    /// Goes on until all is over, and compares.
    fn check(&self) -> Result<(), String> {
        for _ in 0..4 * ALL / MOST as u64 {
            self.peer_sends();
            self.engine.poke(Context::User);
        }
        self.peer_sends();
        let inside = self.engine.enter();
        let completion = inside.nbc.completion(self.collective).unwrap();
        // SAFETY: valid as long as the collectives.
        let outcome = unsafe { completion.as_ref() }.outcome();
        if outcome.is_none_or(|outcome| outcome.code != Code::Ok) {
            return Err(format!("the collective: {outcome:?}"));
        }
        let answer = self.peer().completion(self.receive).unwrap();
        // SAFETY: valid as long as the peer.
        let answer = unsafe { answer.as_ref() }.outcome();
        if answer.is_none_or(|answer| answer.code != Code::Ok) {
            return Err(format!("the answer: {answer:?}"));
        }
        // SAFETY: nothing moves any more.
        let now = unsafe { &*self.memory.get() };
        let then = Memory::new();
        for i in 0..COUNT {
            let came = then.sent.get(i).map_or(then.sums[i], |sent| then.sums[i] + sent);
            let right = came + then.others[i];
            if now.sums[i] != right
                || now.copied[i] != right
                || now.got.get(i).is_some_and(|got| *got != right)
            {
                return Err(format!("number {i} is {}, {} instead of {right}", now.sums[i], now.copied[i]));
            }
        }
        let copied = inside.nbc.copied();
        if copied.user + copied.handler != ALL || inside.most > MOST as u64 {
            return Err(format!("{copied:?}, {} at once, for {ALL} bytes", inside.most));
        }
        Ok(())
    }
}

/// Of how many boundaries one is taken, in an ordinary run and in a deep one.
type Nth = [u64; 2];

/// Steps an operation; how many bytes handlers took of the run that has one at every boundary.
fn step(name: &str, [ordinary, deep]: Nth, fresh: impl Fn() -> Pair, operation: fn(&Pair)) -> u64 {
    // SAFETY: no memory effects; the default action ends a test that hangs.
    unsafe { libc::alarm(if tocsin_tests::run::deep() { 900 } else { 300 }) };
    // As fast as they ship: a stepped handler would find its time over at once.
    let stepper = Stepper::new().step_handler(false);
    let nth = if tocsin_tests::run::deep() { deep } else { ordinary };
    let report = stepper.every_nth(nth, &fresh, operation, Pair::ring, Pair::check);
    println!("{name}, every {nth}th boundary: {report}");
    assert!(report.is_clean() && report.boundaries > 20 && report.injections > 0, "{name}: {report}");
    let by_handlers = Cell::new(0);
    let check = |pair: &Pair| {
        by_handlers.set(pair.engine.enter().in_handlers);
        pair.check()
    };
    let turn = stepper.in_turn(&fresh, operation, Pair::ring, check);
    println!("{name}, at every boundary in turn: {turn}, {} of {ALL} bytes by handlers", by_handlers.get());
    assert!(turn.is_clean(), "{name}, in turn: {turn}");
    by_handlers.get()
}

/// Nothing has come yet.
fn started() -> Pair {
    let pair = Pair::new();
    pair.start();
    pair
}

#[test]
fn a_start_whose_message_comes_meanwhile() {
    // It holds the token all the time, so that a handler may find nothing but that.
    step("start", [61, 1], Pair::new, Pair::start);
}

#[test]
fn a_pass_while_the_message_comes() {
    let by_handlers = step("pass", [61, 1], started, |pair| {
        pair.engine.poke(Context::User);
    });
    assert!(by_handlers > 0, "no handler had anything to do");
}

#[test]
fn a_pass_in_the_middle_of_a_step() {
    let fresh = || {
        let pair = started();
        // A handler's entry takes the message and begins with the second reduction.
        for _ in 0..2 {
            let _scope = tocsin_sync::thread::HandlerScope::enter();
            pair.ring();
        }
        pair
    };
    let by_handlers = step("pass in the middle", [61, 1], fresh, |pair| {
        pair.engine.poke(Context::User);
    });
    assert!(by_handlers > 0, "no handler had anything to do");
}

#[test]
fn a_wait_for_the_collective() {
    let fresh = || {
        let pair = started();
        pair.peer_sends();
        pair
    };
    // It looks for as long as it may, which is many instructions.
    let by_handlers = step("wait", [4001, 101], fresh, |pair| {
        let completion = pair.engine.enter().nbc.completion(pair.collective).unwrap();
        // SAFETY: valid as long as the collectives.
        pair.engine.wait_until(|| unsafe { completion.as_ref() }.is_done(), None);
    });
    assert!(by_handlers > 0, "no handler had anything to do");
}

/// Broken: a pass that does not know how far a step was, and does its last slice again.
#[test]
fn a_slice_that_is_done_twice_is_caught() {
    let pair = started();
    while !pair.is_done() {
        let _scope = tocsin_sync::thread::HandlerScope::enter();
        pair.ring();
    }
    // SAFETY: nothing moves any more.
    let memory = unsafe { &mut *pair.memory.get() };
    memory.sums[COUNT - 1] += 1.0;
    assert!(pair.check().unwrap_err().contains("number 39"));
}
