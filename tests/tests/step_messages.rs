//! Every instruction of posting, testing, waiting for and cancelling messages, with the doorbell's handler injected at
//! each: a peer acts (takes what it was sent, answers, sends another message), then `Engine::handler_entry` runs, as it
//! would if that peer's ring had come between just these two instructions. Nothing hangs, nothing is lost, nothing
//! comes out of order, and what was announced is never left lying.
//!
//! Two ranks of one real segment in one thread: rank 0, whose engine is stepped, and its peer, which the handler moves.
//! `cargo test -p tocsin-tests --profile step --test step_messages -- --nocapture`; `TOCSIN_TEST_DEEP=1` takes every
//! boundary where the ordinary run takes every nth.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::unwrap_used)]

use std::cell::{Cell, RefCell, UnsafeCell};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tocsin_doorbell::{Cause, Own};
use tocsin_nbc::Nbc;
use tocsin_p2p::{Class, Config, ConstBuf, Mode, MutBuf, P2p, RecvArgs, SendArgs};
use tocsin_progress::{
    Budget, Code, Completion, Context, Engine, EngineConfig, Id, Outcome, Pass, Stats, Work,
};
use tocsin_shm_transport::{Life, Segment, ShmTransport};
use tocsin_tests::stepper::{Report, Stepper};
use tocsin_transport::Transport;

const ME: u32 = 0;
const PEER: u32 = 1;
/// Messages that there is room for, in each direction: more than a lane holds.
const ROOM: usize = 512;
/// Sends that the handler's peer has ready.
const READY: usize = 24;

/// What a rank of a world runs.
struct Whole {
    p2p: P2p<ShmTransport>,
    nbc: Nbc,
}

// SAFETY: p2p, nbc and transport promise handler safety of the methods used here.
unsafe impl Work for Whole {
    fn progress(&mut self, budget: &mut Budget) -> Pass {
        let messages = self.p2p.progress(budget);
        let collectives = self.nbc.progress(&mut self.p2p, budget);
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

type Buffer = [u8; 64];

/// The `n`th message of a stream, 0 to 64 bytes of it.
fn message(n: usize) -> (Buffer, usize) {
    let mut bytes: Buffer = std::array::from_fn(|i| (n * 31 + i * 7) as u8);
    bytes[..8].copy_from_slice(&(n as u64).to_le_bytes());
    (bytes, [64, 8, 33, 16][n % 4])
}

/// One end of a message, and what became of it.
struct Ended {
    completion: NonNull<Completion>,
    id: Id,
    /// What a release has seen.
    seen: Cell<Option<Outcome>>,
}

impl Ended {
    fn outcome(&self) -> Option<Outcome> {
        // SAFETY: the slab lives as long as the rank.
        self.seen.get().or_else(|| unsafe { self.completion.as_ref() }.outcome())
    }
}

/// Messages from one rank to one rank with one tag, which must arrive in order.
struct Stream {
    from: u32,
    to: u32,
    tag: i32,
    contents: Box<[Buffer]>,
    targets: Box<[UnsafeCell<Buffer>]>,
    sends: RefCell<Vec<Ended>>,
    receives: RefCell<Vec<Ended>>,
}

impl Stream {
    fn new(from: u32, to: u32, tag: i32) -> Stream {
        Stream {
            from,
            to,
            tag,
            contents: (0..ROOM).map(|n| message(n).0).collect(),
            targets: (0..ROOM).map(|_| UnsafeCell::new([0xee; 64])).collect(),
            sends: RefCell::new(Vec::with_capacity(ROOM)),
            receives: RefCell::new(Vec::with_capacity(ROOM)),
        }
    }

    fn next_send(&self, mode: Mode) -> SendArgs {
        let n = self.sends.borrow().len();
        let buf = ConstBuf::contiguous(self.contents[n].as_ptr(), message(n).1);
        SendArgs { context: 0, dest: self.to, tag: self.tag, buf, mode, class: Class::Eager, cookie: 0 }
    }

    fn note(list: &RefCell<Vec<Ended>>, p2p: &P2p<ShmTransport>, id: Id) {
        let completion = p2p.completion(id).unwrap();
        list.borrow_mut().push(Ended { completion, id, seen: Cell::new(None) });
    }

    fn send(&self, p2p: &mut P2p<ShmTransport>, mode: Mode) {
        // SAFETY: the contents live as long as both ranks, unchanged.
        let id = unsafe { p2p.isend(self.next_send(mode)) }.unwrap();
        Self::note(&self.sends, p2p, id);
    }

    /// On a reserved request: handlers may.
    fn start_send(&self, p2p: &mut P2p<ShmTransport>, id: Id) {
        // SAFETY: as in `send`.
        unsafe { p2p.start_send(id, self.next_send(Mode::Standard)) };
        Self::note(&self.sends, p2p, id);
    }

    fn receive(&self, p2p: &mut P2p<ShmTransport>, any: bool) {
        let target = &self.targets[self.receives.borrow().len()];
        let (source, tag) = if any { (None, None) } else { (Some(self.from), Some(self.tag)) };
        let buf = MutBuf::contiguous(target.get().cast(), 64);
        let args = RecvArgs { context: 0, source, tag, buf, class: Class::Eager, cookie: 0 };
        // SAFETY: the target lives as long as both ranks and is looked at after completion only.
        let id = unsafe { p2p.irecv(args) }.unwrap();
        Self::note(&self.receives, p2p, id);
    }

    /// Each message once, whole, in order; a cancelled receive takes none.
    fn check(&self) -> Result<(), String> {
        let (from, to) = (self.from, self.to);
        for (n, send) in self.sends.borrow().iter().enumerate() {
            match send.outcome() {
                Some(Outcome { code: Code::Ok, .. }) => {}
                other => return Err(format!("send {n} of {from} to {to}: {other:?}")),
            }
        }
        let mut n = 0;
        for (i, receive) in self.receives.borrow().iter().enumerate() {
            // SAFETY: nothing moves any more.
            let bytes = unsafe { *self.targets[i].get() };
            let Some(outcome) = receive.outcome() else {
                return Err(format!("receive {i} of {from} to {to} never completes"));
            };
            let (content, len) = message(n);
            let whole = match outcome.code {
                Code::Cancelled => bytes == [0xee; 64],
                Code::Ok => {
                    n += 1;
                    (outcome.source, outcome.tag, outcome.bytes) == (from, self.tag, len as u64)
                        && bytes[..len] == content[..len]
                        && bytes[len..].iter().all(|byte| *byte == 0xee)
                }
                _ => false,
            };
            if !whole {
                return Err(format!("receive {i} of {from} to {to} got {outcome:?}, {:?}", &bytes[..8]));
            }
        }
        match self.sends.borrow().len() {
            sent if sent == n => Ok(()),
            sent => Err(format!("{n} of {sent} from {from} to {to}")),
        }
    }

    /// Sends without a receive (positive), or receives without a send.
    fn missing(&self) -> isize {
        let cancelled = |r: &&Ended| r.outcome().is_some_and(|o| o.code == Code::Cancelled);
        let receives = self.receives.borrow();
        let good = receives.len() - receives.iter().filter(cancelled).count();
        self.sends.borrow().len() as isize - good as isize
    }
}

struct Pair {
    engine: Engine<Whole>,
    /// Used by set-up, handler and check, never by the operation.
    peer: UnsafeCell<P2p<ShmTransport>>,
    ready: UnsafeCell<Vec<Id>>,
    arriving: Stream,
    leaving: Stream,
    own: Stream,
}

impl Pair {
    fn new() -> Pair {
        let segment = Arc::new(Segment::create(2).unwrap());
        let config = Config {
            unexpected_messages: ROOM,
            unexpected_blocks: 1,
            unexpected_limit: 1 << 20,
            ..Config::default()
        };
        let rank = |rank| {
            let p2p = P2p::new(ShmTransport::new(segment.clone(), rank).unwrap(), config).unwrap();
            segment.set_life(rank, Life::Alive);
            p2p
        };
        let (mut p2p, mut peer) = (rank(ME), rank(PEER));
        p2p.prepare_peer(PEER, 64).unwrap();
        p2p.prepare_peer(ME, 64).unwrap();
        peer.prepare_peer(ME, 64).unwrap();
        // Filling a new chunk of slots takes tens of thousands of instructions under the token, all alike.
        let slots: Vec<Id> = (0..32).map(|_| p2p.reserve_request().unwrap()).collect();
        slots.into_iter().for_each(|id| p2p.release(id));
        let ready = (0..READY).map(|_| peer.reserve_request().unwrap()).collect();
        // SAFETY: the transport keeps the segment, which has the descriptor.
        let own = unsafe { Own::new(segment.descriptor(ME)) };
        let config = EngineConfig { callback_thread: false, ..EngineConfig::default() };
        let engine = Engine::new(Whole { p2p, nbc: Nbc::new() }, own, config, Arc::new(Stats::new()));
        engine.poke(Context::User);
        Pair {
            engine,
            peer: UnsafeCell::new(peer),
            ready: UnsafeCell::new(ready),
            arriving: Stream::new(PEER, ME, 1),
            leaving: Stream::new(ME, PEER, 2),
            own: Stream::new(ME, ME, 3),
        }
    }

    #[allow(clippy::mut_from_ref)]
    fn peer(&self) -> &mut P2p<ShmTransport> {
        // SAFETY: one thread; callers keep no reference across each other's uses, and no operation uses it.
        unsafe { &mut *self.peer.get() }
    }

    /// The peer's next message.
    fn peer_sends(&self) {
        // SAFETY: as for `peer`.
        if let Some(id) = unsafe { &mut *self.ready.get() }.pop() {
            self.arriving.start_send(self.peer(), id);
        }
    }

    fn peer_passes(&self) {
        self.peer().progress(&mut Budget::limited(Context::User, 4096, 1 << 20));
        self.peer().transport_mut().flush();
    }

    /// The peer takes, answers and sends.
    fn peer_acts(&self) {
        self.peer_sends();
        self.peer_passes();
    }

    /// What comes between two instructions.
    fn ring(&self) {
        self.peer_acts();
        self.enter_handler();
    }

    fn enter_handler(&self) {
        // SAFETY: the engine outlives the run; the stepper opens the handler's scope, and does not nest.
        unsafe { Engine::<Whole>::handler_entry((&raw const self.engine).cast(), Cause::Ring) };
    }

    fn send(&self, mode: Mode) {
        self.leaving.send(&mut self.engine.enter().p2p, mode);
    }

    fn receive(&self, any: bool) {
        self.arriving.receive(&mut self.engine.enter().p2p, any);
    }

    /// Waits for the first receive, and releases it.
    fn wait_and_release(&self, timeout: Option<Duration>) {
        let receives = self.arriving.receives.borrow();
        let first = &receives[0];
        if self.engine.wait_until(|| first.outcome().is_some(), timeout) {
            first.seen.set(first.outcome());
            self.engine.enter().p2p.release(first.id);
        }
    }

    /// Nobody may have left with something announced and not looked at.
    fn nothing_is_left(&self) -> Result<(), String> {
        if self.engine.enter().work_left() {
            return Err("left with something in the lanes that was announced".into());
        }
        Ok(())
    }

    /// Receives what was sent, sends what receives wait for, and compares.
    fn settle(&self) -> Result<(), String> {
        (0..-self.arriving.missing()).for_each(|_| self.peer_sends());
        (0..-self.leaving.missing()).for_each(|_| self.send(Mode::Standard));
        (0..self.arriving.missing()).for_each(|_| self.receive(false));
        (0..self.leaving.missing()).for_each(|_| self.leaving.receive(self.peer(), false));
        (0..self.own.missing()).for_each(|_| self.own.receive(&mut self.engine.enter().p2p, false));
        for _ in 0..64 {
            self.engine.poke(Context::User);
            self.peer_passes();
        }
        [&self.arriving, &self.leaving, &self.own].iter().try_for_each(|stream| stream.check())
    }

    fn check(&self) -> Result<(), String> {
        self.nothing_is_left()?;
        self.settle()
    }
}

/// What rank 0 does, from what state.
struct State {
    name: &'static str,
    prepare: fn(&Pair),
    operation: fn(&Pair),
}

const STATES: &[State] = &[
    State {
        name: "isend into an empty lane, its receive posted",
        prepare: |pair| pair.leaving.receive(pair.peer(), false),
        operation: |pair| pair.send(Mode::Standard),
    },
    State {
        name: "isend while a posted receive's message arrives",
        prepare: |pair| {
            pair.receive(false);
            pair.receive(false);
        },
        operation: |pair| pair.send(Mode::Standard),
    },
    State {
        name: "isend to a full lane, behind queued sends",
        prepare: |pair| {
            while pair.engine.enter().p2p.outstanding_sends() < 3 {
                pair.send(Mode::Standard);
            }
        },
        operation: |pair| pair.send(Mode::Standard),
    },
    State {
        name: "synchronous isend, answered while it is posted",
        prepare: |pair| {
            (0..4).for_each(|_| pair.leaving.receive(pair.peer(), false));
            pair.send(Mode::Synchronous);
        },
        operation: |pair| pair.send(Mode::Synchronous),
    },
    State { name: "irecv, no message", prepare: |_| {}, operation: |pair| pair.receive(false) },
    State {
        name: "irecv of an unexpected message",
        prepare: |pair| {
            pair.peer_acts();
            pair.peer_acts();
            pair.engine.poke(Context::User);
        },
        operation: |pair| pair.receive(false),
    },
    State {
        name: "irecv of anything, one unexpected, one in the lane",
        prepare: |pair| {
            pair.peer_acts();
            pair.engine.poke(Context::User);
            pair.peer_acts();
        },
        operation: |pair| pair.receive(true),
    },
    State {
        name: "wait for a posted receive, then release it",
        prepare: |pair| {
            pair.receive(false);
            pair.receive(false);
            pair.peer_acts();
        },
        operation: |pair| pair.wait_and_release(None),
    },
    State {
        name: "test of a synchronous send and its release",
        prepare: |pair| {
            pair.leaving.receive(pair.peer(), false);
            pair.send(Mode::Synchronous);
        },
        operation: |pair| {
            pair.engine.poke(Context::User);
            let sends = pair.leaving.sends.borrow();
            if let Some(outcome) = sends[0].outcome() {
                sends[0].seen.set(Some(outcome));
                pair.engine.enter().p2p.release(sends[0].id);
            }
        },
    },
    State {
        name: "cancel of a receive whose message arrives",
        prepare: |pair| pair.receive(false),
        operation: |pair| {
            let receives = pair.arriving.receives.borrow();
            pair.engine.enter().p2p.cancel(receives[0].id);
        },
    },
    State {
        name: "isend to oneself, its irecv, a test",
        prepare: |pair| pair.receive(false),
        operation: |pair| {
            pair.own.send(&mut pair.engine.enter().p2p, Mode::Standard);
            pair.own.receive(&mut pair.engine.enter().p2p, false);
            pair.engine.poke(Context::User);
        },
    },
];

impl State {
    fn fresh(&self) -> Pair {
        let pair = Pair::new();
        (self.prepare)(&pair);
        pair
    }
}

/// Of how many boundaries one is taken. (All of them: some 4 million steps for a state, 40 s.)
fn nth(ordinary: u64, deep: u64) -> u64 {
    if tocsin_tests::run::deep() { deep } else { ordinary }
}

/// Every state, the handler at every boundary (or every nth), and a pass with a handler at every boundary in turn.
/// Handlers run as fast as they ship: a stepped one would find its 20 us over at once. One that hangs ends the test
/// by SIGALRM.
#[test]
fn every_boundary_of_every_state() {
    // SAFETY: no memory effects; the default action ends a test that hangs.
    unsafe { libc::alarm(if tocsin_tests::run::deep() { 1500 } else { 120 }) };
    let mut total = Report::default();
    for (i, state) in STATES.iter().enumerate() {
        // Of the first eight all, when there is time; the others are long and much like them.
        let (start, name, nth) = (Instant::now(), state.name, nth(41, if i < 8 { 1 } else { 7 }));
        let stepper = Stepper::new().step_handler(false);
        let report = stepper.every_nth(nth, || state.fresh(), state.operation, Pair::ring, Pair::check);
        let of = if nth == 1 { "every boundary".into() } else { format!("every {nth}th boundary") };
        println!("{name}, {of}: {report} ({:.1} s)", start.elapsed().as_secs_f64());
        assert!(report.is_clean() && report.boundaries > 20 && report.injections > 0, "{name}: {report}");
        let turn = stepper.in_turn(|| state.fresh(), state.operation, Pair::ring, Pair::check);
        println!("{name}, at every boundary in turn: {turn}");
        assert!(turn.is_clean(), "{name}, in turn: {turn}");
        total.add(&report);
        total.add(&turn);
    }
    println!("all {} states: {total}", STATES.len());
}

/// Handlers stepped too, with a message of the peer's in the lane: their time is over before they begin, so that they leave all the work behind, which must
/// still be there for the next to come; and the number of their instructions is bounded.
#[test]
fn handlers_without_time_lose_nothing() {
    let (mut total, nth) = (Report::default(), nth(201, 11));
    for state in STATES {
        let fresh = || {
            let pair = state.fresh();
            pair.peer_acts();
            pair
        };
        let report = Stepper::new().every_nth(nth, fresh, state.operation, Pair::enter_handler, Pair::settle);
        assert!(report.is_clean(), "{}: {report}", state.name);
        total.add(&report);
    }
    println!("handlers stepped, every {nth}th boundary: {total}");
}

/// Broken: a handler that works without asking for the token.
#[test]
fn a_handler_that_enters_without_the_token_is_caught() {
    let state = STATES.iter().find(|state| state.name.starts_with("wait")).unwrap();
    let report = Stepper::new().step_handler(false).every_nth(
        29,
        || state.fresh(),
        // What a broken handler has lost never comes.
        |pair| pair.wait_and_release(Some(Duration::from_millis(50))),
        |pair| {
            pair.peer_acts();
            // SAFETY: none: that is the point. One thread, and all the memory lives.
            let work = unsafe { &mut *(&raw const pair.engine).cast_mut() }.work_mut();
            work.progress(&mut Budget::handler());
            work.leave();
        },
        Pair::settle,
    );
    println!("without the token, {}: {report}", state.name);
    assert!(!report.is_clean(), "not caught: {report}");
}

/// Broken: a ring that is lost.
#[test]
fn a_lost_ring_is_caught() {
    for state in &STATES[..2] {
        let report = Stepper::new().step_handler(false).every_nth(
            101,
            || state.fresh(),
            state.operation,
            Pair::peer_acts,
            Pair::check,
        );
        println!("lost ring, {}: {report}", state.name);
        assert!(!report.wrong.is_empty(), "not caught: {report}");
    }
}
