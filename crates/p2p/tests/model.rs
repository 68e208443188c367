//! Random operations against MPI's matching rules.
//!
//! Two models. *Settled*: everything is delivered after each operation, so the order of arrival is known and a plain
//! sequential matcher says which receive gets which message. *Loose*: passes are random and small, so messages from
//! different ranks may arrive in any order; then each outcome is checked against MPI's non-overtaking rules, which
//! leave no freedom between two ranks.

#![allow(clippy::unwrap_used, clippy::expect_used)] // clippy exempts test functions only, not what they share

mod common;

use common::{Target, World, text};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use tocsin_p2p::{Budget, Class, Code, ConstBuf, Id, Mode, MutBuf, RecvArgs, SendArgs};
use tocsin_progress::Context;

const SIZES: [usize; 14] = [0, 1, 8, 63, 64, 65, 66, 127, 128, 129, 200, 256, 700, 3000];

#[derive(Clone, Debug)]
enum Op {
    Send {
        from: u32,
        to: u32,
        tag: i32,
        context: u32,
        size: usize,
        synchronous: bool,
        coll: bool,
        strided: bool,
    },
    Recv {
        at: u32,
        source: Option<u32>,
        tag: Option<i32>,
        context: u32,
        room: usize,
        coll: bool,
        strided: bool,
    },
    Probe {
        at: u32,
        source: Option<u32>,
        tag: Option<i32>,
        context: u32,
        take: bool,
    },
    Cancel {
        which: prop::sample::Index,
    },
    Pass {
        rank: u32,
        packets: u32,
        bytes: usize,
    },
}

fn op(n: u32) -> impl Strategy<Value = Op> {
    let size = || prop::sample::select(&SIZES[..]);
    let room = prop_oneof![4 => Just(3000usize), 1 => size()];
    let tag = || 0i32..3;
    let any_tag = || prop::option::weighted(0.7, 0i32..3);
    let any_source = move || prop::option::weighted(0.6, 0..n);
    let coll = || prop::bool::weighted(0.2);
    prop_oneof![
        8 => (0..n, 0..n, tag(), 0u32..2, size(), prop::bool::weighted(0.3), coll(), prop::bool::weighted(0.2))
            .prop_map(|(from, to, tag, context, size, synchronous, coll, strided)| Op::Send {
                from, to, tag, context, size, synchronous, coll, strided }),
        8 => (0..n, any_source(), any_tag(), 0u32..2, room, coll(), prop::bool::weighted(0.2))
            .prop_map(|(at, source, tag, context, room, coll, strided)| Op::Recv {
                at, source, tag, context, room, coll, strided }),
        2 => (0..n, any_source(), any_tag(), 0u32..2, any::<bool>())
            .prop_map(|(at, source, tag, context, take)| Op::Probe { at, source, tag, context, take }),
        1 => any::<prop::sample::Index>().prop_map(|which| Op::Cancel { which }),
        12 => (0..n, 1u32..6, 1usize..400).prop_map(|(rank, packets, bytes)| Op::Pass { rank, packets, bytes }),
    ]
}

struct Sent {
    from: u32,
    to: u32,
    tag: i32,
    context: u32,
    coll: bool,
    data: Vec<u8>,
    _memory: Vec<u8>,
    id: Id,
    synchronous: bool,
}

struct Received {
    at: u32,
    source: Option<u32>,
    tag: Option<i32>,
    context: u32,
    coll: bool,
    target: Target,
    spread: Option<Vec<u8>>,
    id: Id,
    room: usize,
    cancelled: bool,
    /// What the sequential model says.
    expected: Option<usize>,
    /// What it got.
    message: Option<usize>,
}

impl Received {
    fn accepts(&self, m: &Sent) -> bool {
        m.to == self.at
            && m.context == self.context
            && m.coll == self.coll
            && self.source.is_none_or(|s| s == m.from)
            && self.tag.is_none_or(|t| t == m.tag)
    }
}

const BLOCK: usize = 7;

struct Run {
    world: World,
    sent: Vec<Sent>,
    /// In order of posting; a probe that takes its message counts as posted there.
    received: Vec<Received>,
    settled: bool,
}

impl Run {
    fn send(&mut self, op: &Op) {
        let Op::Send { from, to, tag, context, size, synchronous, coll, strided } = *op else { return };
        let n = self.sent.len();
        let mut data = text(n as u64 + 1, size);
        let (memory, layout) = if strided {
            data.truncate(size / BLOCK * BLOCK);
            common::spread(&data, BLOCK)
        } else {
            (data.clone(), tocsin_p2p::Layout::Contiguous { bytes: size })
        };
        let mode = if synchronous { Mode::Synchronous } else { Mode::Standard };
        let class = if coll { Class::Coll } else { Class::Eager };
        let buf = ConstBuf { base: memory.as_ptr(), layout };
        let args = SendArgs { context, dest: to, tag, buf, mode, class, cookie: 0 };
        // SAFETY: the memory is kept as long as the world.
        let id = unsafe { self.world.ranks[from as usize].isend(args) }.unwrap();
        self.sent.push(Sent { from, to, tag, context, coll, data, _memory: memory, id, synchronous });
        if self.settled {
            let m = &self.sent[n];
            let open = |r: &&mut Received| r.expected.is_none() && !r.cancelled && r.accepts(m);
            if let Some(r) = self.received.iter_mut().find(open) {
                r.expected = Some(n);
            }
        }
    }

    /// The message that the sequential model gives to a receive posted now.
    fn first_for(&self, r: &Received) -> Option<usize> {
        let taken = |n| self.received.iter().any(|r| r.expected == Some(n));
        (0..self.sent.len()).find(|n| !taken(*n) && r.accepts(&self.sent[*n]))
    }

    fn recv(&mut self, op: &Op) {
        let Op::Recv { at, source, tag, context, room, coll, strided } = *op else { return };
        let class = if coll { Class::Coll } else { Class::Eager };
        let mut target = Target::new(room);
        let mut spread = None;
        let mut room = room;
        let buf = if strided {
            let (mut memory, layout) = common::spread(&vec![0; room], BLOCK);
            memory.fill(0xdd);
            room = layout.bytes();
            let base = memory.as_mut_ptr();
            spread = Some(memory);
            MutBuf { base, layout }
        } else {
            target.buf()
        };
        let args = RecvArgs { context, source, tag, buf, class, cookie: 0 };
        // SAFETY: the target is kept as long as the world.
        let id = unsafe { self.world.ranks[at as usize].irecv(args) }.unwrap();
        let mut r = Received {
            at,
            source,
            tag,
            context,
            coll,
            target,
            spread,
            id,
            room,
            cancelled: false,
            expected: None,
            message: None,
        };
        if self.settled {
            r.expected = self.first_for(&r);
        }
        self.received.push(r);
    }

    fn probe(&mut self, op: &Op) {
        let Op::Probe { at, source, tag, context, take } = *op else { return };
        let mut target = Target::new(3000);
        let p2p = &mut self.world.ranks[at as usize];
        let found = p2p.iprobe(context, source, tag).unwrap();
        let mut r = Received {
            at,
            source,
            tag,
            context,
            coll: false,
            target: Target::new(0),
            spread: None,
            id: Id { index: 0, generation: 0 },
            room: 3000,
            cancelled: false,
            expected: None,
            message: None,
        };
        if self.settled {
            let expected = self.first_for(&r);
            assert_eq!(
                found.map(|s| (s.source, s.tag, s.bytes)),
                expected.map(|n| &self.sent[n]).map(|m| (m.from, m.tag, m.data.len()))
            );
            r.expected = expected;
        }
        if let (true, Some(status)) = (take, found) {
            let p2p = &mut self.world.ranks[at as usize];
            let (message, again) = p2p.improbe(context, source, tag).unwrap().unwrap();
            assert_eq!(status, again);
            // SAFETY: as in `recv`.
            r.id = unsafe { p2p.mrecv(message, target.buf(), 0) }.unwrap();
            r.target = target;
            self.received.push(r);
        }
    }

    fn cancel(&mut self, which: prop::sample::Index) {
        if self.received.is_empty() {
            return;
        }
        let r = which.index(self.received.len());
        let r = &mut self.received[r];
        let cancelled = self.world.ranks[r.at as usize].cancel(r.id);
        if self.settled {
            assert_eq!(cancelled, !r.cancelled && r.expected.is_none());
        }
        r.cancelled |= cancelled;
    }

    fn run(&mut self, ops: &[Op]) {
        for op in ops {
            match op {
                Op::Send { .. } => self.send(op),
                Op::Recv { .. } => self.recv(op),
                Op::Probe { .. } => self.probe(op),
                Op::Cancel { which } => self.cancel(*which),
                Op::Pass { rank, packets, bytes } => {
                    self.world.pass_with(*rank, &mut Budget::limited(Context::Handler, *packets, *bytes));
                }
            }
            if self.settled {
                self.world.settle();
            }
        }
        self.world.settle();
        self.check();
    }

    fn check(&mut self) {
        // Which message each receive got. Messages of one source, context, class and tag are alike for every pattern,
        // so the k-th receive that got one of them, in order of posting, must have the k-th of them.
        let mut next: std::collections::HashMap<(u32, u32, u32, bool, i32), usize> = Default::default();
        for r in &mut self.received {
            let Some(outcome) = self.world.outcome(r.at, r.id) else { continue };
            if r.cancelled {
                assert_eq!(outcome.code, Code::Cancelled);
                continue;
            }
            let key = (outcome.source, r.at, r.context, r.coll, outcome.tag);
            let from = next.entry(key).or_default();
            let found = (*from..self.sent.len()).find(|n| {
                let m = &self.sent[*n];
                (m.from, m.to, m.context, m.coll, m.tag) == key
            });
            let n = found.expect("a message that was sent, once");
            *from = n + 1;
            r.message = Some(n);
            let m = &self.sent[n];
            assert!(r.accepts(m));
            assert_eq!(outcome.bytes, m.data.len() as u64);
            let code = if m.data.len() > r.room { Code::Truncated } else { Code::Ok };
            assert_eq!(outcome.code, code);
            if code == Code::Ok {
                if let Some(memory) = &r.spread {
                    let mut expected = vec![0xdd; memory.len()];
                    for (i, byte) in m.data.iter().enumerate() {
                        expected[i / BLOCK * (BLOCK + 3) + i % BLOCK] = *byte;
                    }
                    assert!(*memory == expected, "bytes of message {n}");
                } else {
                    assert!(r.target.bytes()[..m.data.len()] == m.data, "bytes of message {n}");
                    assert!(r.target.bytes()[m.data.len()..].iter().all(|b| *b == 0xee));
                }
            } else {
                r.target.bytes();
            }
        }
        if self.settled {
            for (i, r) in self.received.iter().enumerate() {
                assert_eq!(r.message, r.expected, "receive {i}");
            }
        }
        let mut taker = vec![None; self.sent.len()];
        for (i, r) in self.received.iter().enumerate() {
            if let Some(n) = r.message {
                assert_eq!(taker[n].replace(i), None, "received twice");
            }
        }
        for (i, r) in self.received.iter().enumerate() {
            for (n, m) in self.sent.iter().enumerate().filter(|(_, m)| r.accepts(m)) {
                match r.message {
                    // An earlier message of the same rank that would have done went to an earlier receive.
                    Some(got) if self.sent[got].from == m.from && n < got => {
                        assert!(taker[n].is_some_and(|t| t < i), "message {got} overtook {n}");
                    }
                    // Nothing is left that somebody waits for.
                    None if !r.cancelled => {
                        assert!(taker[n].is_some_and(|t| t < i), "message {n} was missed")
                    }
                    _ => {}
                }
            }
        }
        for (n, m) in self.sent.iter().enumerate() {
            let must_wait = taker[n].is_none() && (m.synchronous || m.data.len() > 64);
            let expected = if must_wait { None } else { Some(Code::Ok) };
            assert_eq!(self.world.code(m.from, m.id), expected, "send {n}");
        }
        // All slots come back.
        for r in &self.received {
            self.world.ranks[r.at as usize].release(r.id);
        }
    }
}

fn start(n: u32, settled: bool) -> Run {
    Run { world: World::tight(n), sent: Vec::new(), received: Vec::new(), settled }
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|s| s.parse().ok()).unwrap_or(300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn settled((n, ops) in (2u32..5).prop_flat_map(|n| (Just(n), prop::collection::vec(op(n), 1..150)))) {
        start(n, true).run(&ops);
    }

    #[test]
    fn loose((n, ops) in (2u32..5).prop_flat_map(|n| (Just(n), prop::collection::vec(op(n), 1..600)))) {
        start(n, false).run(&ops);
    }
}

/// One long run: more unexpected messages than there is room for, so that lanes block and pools grow.
#[test]
fn long_loose_run() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..5 {
        let ops = prop::collection::vec(op(3), 20_000).new_tree(&mut runner).unwrap().current();
        start(3, false).run(&ops);
    }
}
