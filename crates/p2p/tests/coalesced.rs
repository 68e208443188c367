//! Short messages that wait behind a full lane, and go in together when there is room.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::*;
use tocsin_p2p::trace::{Passed, SENT, TAKEN};
use tocsin_p2p::{Budget, Class, Code, Config, ConstBuf, Glance, Id, Layout, Mode, P2p, RecvArgs, SendArgs};
use tocsin_progress::{Context, Trace};
use tocsin_transport::loopback::{Limits, Loopback, fabric_with};
use tocsin_transport::{Header, SendOutcome, Transport, Urgency, kind};

const LANE: usize = 4;
const LIMITS: Limits = Limits { packets: [LANE as u32, 4, 4, 4], max_payload: [2048, 300, 16, 4096] };

fn world(config: Config) -> World {
    World::with(2, LIMITS, config)
}

/// Hardly any room among the unexpected messages.
fn cramped() -> Config {
    Config { eager_max: 1000, ..tight_config() }
}

impl World {
    fn packets(&self, rank: u32) -> u64 {
        self.ranks[rank as usize].counters().packets_received
    }

    /// A pass of the sender, of a user's thread, and one of the receiver.
    fn both_pass(&mut self) {
        for rank in [0, 1] {
            self.pass_with(rank, &mut Budget::limited(Context::User, 256, 1 << 20));
        }
    }
}

/// In few packets, in order, each with its tag and length, the long and synchronous ones between them by themselves.
#[test]
fn those_behind_a_full_lane_go_together() {
    let mut w = world(Config::default());
    let sizes = [8, 0, 1, 16, 17, 64, 127, 128, 129, 200, 3, 40];
    let data: Vec<Vec<u8>> = (0..400u64).map(|n| text(n, sizes[n as usize % sizes.len()])).collect();
    let synchronous = |n: usize| n % 50 == 49;
    let sends: Vec<Id> = data
        .iter()
        .enumerate()
        .map(|(n, data)| {
            let mode = if synchronous(n) { Mode::Synchronous } else { Mode::Standard };
            w.isend_with(0, 1, n as i32 % 7, data, mode, Class::Eager)
        })
        .collect();
    // Every other one by a pattern that others meet as well.
    let mut targets: Vec<Target> = data.iter().map(|data| Target::new(data.len())).collect();
    let mut receives = vec![None; data.len()];
    for (n, target) in targets.iter_mut().enumerate().take(200) {
        let (source, tag) = if n % 2 == 0 { (Some(0), Some(n as i32 % 7)) } else { ANY };
        receives[n] = Some(w.irecv(1, source, tag, target));
    }
    w.settle();
    for (n, target) in targets.iter_mut().enumerate().skip(200) {
        receives[n] = Some(w.irecv(1, Some(0), Some(n as i32 % 7), target));
    }
    w.settle();
    for (n, (send, receive)) in sends.iter().zip(&receives).enumerate() {
        assert_eq!(w.code(0, *send), Some(Code::Ok), "{n}");
        let outcome = w.outcome(1, receive.unwrap()).unwrap();
        assert_eq!(
            (outcome.code, outcome.tag, outcome.bytes),
            (Code::Ok, n as i32 % 7, data[n].len() as u64)
        );
        assert_eq!(targets[n].bytes(), data[n], "{n}");
    }
    let bytes: usize = data.iter().map(Vec::len).sum();
    let [sent, received] = [w.ranks[0].counters(), w.ranks[1].counters()];
    assert_eq!((sent.bytes_sent, received.bytes_received), (bytes as u64, bytes as u64));
    assert_eq!(sent.packets_sent, received.packets_received);
    assert!(received.packets_received < 250, "{} packets", received.packets_received);
}

/// What a lane has room for goes at once, and nothing waits for company.
#[test]
fn nothing_is_held_back() {
    let mut w = world(Config::default());
    let sends: Vec<Id> = (0..LANE).map(|_| w.isend(0, 1, 1, b"at once")).collect();
    assert!(sends.iter().all(|id| w.code(0, *id) == Some(Code::Ok)));
    let one = w.isend(0, 1, 1, b"alone");
    assert_eq!(w.code(0, one), None);
    w.settle();
    assert_eq!((w.code(0, one), w.packets(1)), (Some(Code::Ok), LANE as u64 + 1));
}

/// Messages that lie apart in memory are gathered.
#[test]
fn strided_messages_go_together() {
    let mut w = world(Config::default());
    let data = text(5, 60);
    let (memory, layout) = spread(&data, 7);
    let buf = ConstBuf { base: memory.as_ptr(), layout };
    assert!(matches!(layout, Layout::Strided { .. }));
    let count = 20 + LANE;
    let args =
        SendArgs { context: 0, dest: 1, tag: 1, buf, mode: Mode::Standard, class: Class::Eager, cookie: 0 };
    // SAFETY: the memory outlives the world's use of it.
    let sends: Vec<Id> = (0..count).map(|_| unsafe { w.ranks[0].isend(args) }.unwrap()).collect();
    let mut targets: Vec<Target> = (0..count).map(|_| Target::new(layout.bytes())).collect();
    targets.iter_mut().for_each(|target| _ = w.irecv(1, Some(0), None, target));
    w.settle();
    assert!(sends.iter().all(|id| w.code(0, *id) == Some(Code::Ok)));
    assert!(targets.iter().all(|target| target.bytes()[..60] == data[..]));
    assert!(w.packets(1) < LANE as u64 + 5);
}

/// A packet stays until there is room for its next message, and goes on with that.
#[test]
fn without_room_for_unexpected_ones_the_rest_stays() {
    let mut w = world(cramped());
    let data: Vec<Vec<u8>> = (0..2000u64).map(|n| text(n, 100)).collect();
    let sends: Vec<Id> = data.iter().map(|data| w.isend(0, 1, 1, data)).collect();
    w.settle_with(false);
    assert!(sends.iter().any(|id| w.code(0, *id).is_none()), "there is room for few");
    for (n, data) in data.iter().enumerate() {
        let mut target = Target::new(100);
        let id = w.irecv(1, Some(0), Some(1), &mut target);
        w.settle_with(false);
        assert_eq!((w.code(1, id), target.bytes()), (Some(Code::Ok), &data[..]), "{n}");
        w.ranks[1].release(id);
    }
    assert!(sends.iter().all(|id| w.code(0, *id) == Some(Code::Ok)));
    assert!(w.packets(1) < 400);
}

/// Sixteen are a packet of either end's budget, and each of their bytes is one.
#[test]
fn budgets_end_in_the_middle() {
    let mut w = world(Config::default());
    let sends: Vec<Id> = (0..LANE + 200).map(|n| w.isend(0, 1, n as i32, b"8 bytes.")).collect();
    let mut targets: Vec<Target> = sends.iter().map(|_| Target::new(8)).collect();
    let receives: Vec<Id> =
        targets.iter_mut().enumerate().map(|(n, t)| w.irecv(1, Some(0), Some(n as i32), t)).collect();
    let done = |w: &World, rank, ids: &[Id]| ids.iter().filter(|id| w.outcome(rank, **id).is_some()).count();
    let few = |packets, bytes| Budget::limited(Context::User, packets, bytes);
    // What the lane had room for.
    w.pass_with(1, &mut few(10, 1 << 10));
    assert_eq!((done(&w, 0, &sends), done(&w, 1, &receives)), (LANE, LANE));
    for (packets, bytes, gone) in [(6, 1 << 13, 85), (9, 24 * 7, 92), (9, 1 << 13, 200)] {
        w.pass_with(0, &mut few(packets, bytes));
        assert_eq!(done(&w, 0, &sends), LANE + gone);
    }
    // 85, 7, 85 and 23 in a packet.
    for (packets, bytes, come) in
        [(1, 1 << 12, 16), (2, 8 * 5, 21), (1, 1 << 12, 37), (9, 8 * 13, 50), (99, 1 << 13, 200)]
    {
        w.pass_with(1, &mut few(packets, bytes));
        assert_eq!(done(&w, 1, &receives), LANE + come);
    }
    assert!(targets.iter().all(|target| target.bytes() == b"8 bytes."));
}

/// A thread that receives one after the other takes each out of the packet, where the next ones stay meanwhile.
#[test]
fn one_by_one_into_the_hand() {
    let mut w = world(Config { publish: false, ..Config::default() });
    let data: Vec<Vec<u8>> = (0..40u64).map(|n| text(n, 24)).collect();
    let sends: Vec<Id> = data.iter().map(|data| w.isend(0, 1, 3, data)).collect();
    for (n, data) in data.iter().enumerate() {
        let mut target = Target::new(24);
        let args = RecvArgs {
            context: 0,
            source: Some(0),
            tag: Some(3),
            buf: target.buf(),
            class: Class::Eager,
            cookie: 0,
        };
        // SAFETY: the target lives until the receive is put down.
        assert!(unsafe { w.ranks[1].take_in_hand(&args) }.unwrap(), "{n}: one was kept");
        while w.ranks[1].glance() != Glance::Over {
            w.pass_with(0, &mut Budget::user());
        }
        assert_eq!(w.ranks[1].put_down().map(|met| met.bytes), Some(24), "{n}");
        assert_eq!(target.bytes(), data);
    }
    assert!(sends.iter().all(|id| w.code(0, *id) == Some(Code::Ok)));
    assert!(w.packets(1) < LANE as u64 + 5);
}

/// What a rank sent before it died is received, to the last message of a packet.
#[test]
fn who_dies_has_sent_them() {
    let mut w = world(Config::default());
    let sends: Vec<Id> = (0..LANE + 20).map(|n| w.isend(0, 1, n as i32, b"testament")).collect();
    w.pass_with(1, &mut Budget::limited(Context::User, LANE as u32, 1 << 10));
    w.pass_with(0, &mut Budget::user());
    assert!(sends.iter().all(|id| w.code(0, *id) == Some(Code::Ok)));
    w.set_state(0, tocsin_transport::PeerState::Dead);
    let mut targets: Vec<Target> = (0..=sends.len()).map(|_| Target::new(9)).collect();
    let receives: Vec<_> =
        targets.iter_mut().enumerate().map(|(n, t)| w.try_irecv(1, Some(0), Some(n as i32), t)).collect();
    for _ in 0..20 {
        w.pass(1);
    }
    for (n, receive) in receives.into_iter().enumerate() {
        let code = receive.map_or(Some(Code::PeerDead), |id| w.code(1, id));
        assert_eq!(code, Some(if n < sends.len() { Code::Ok } else { Code::PeerDead }), "{n}");
    }
    assert!(targets.iter().take(sends.len()).all(|target| target.bytes() == b"testament"));
}

/// Each message is recorded, under a number of its own that both ends give it.
#[test]
fn traces_tell_them_apart() {
    let mut w = world(Config::default());
    let traces = [0, 1].map(|_| Arc::new(Trace::new(1024)));
    for (rank, trace) in w.ranks.iter_mut().zip(&traces) {
        rank.set_trace(Some(trace.clone()));
    }
    let sends: Vec<Id> = (0..LANE + 100).map(|n| w.isend(0, 1, n as i32, b"8 bytes.")).collect();
    w.settle();
    let last = w.isend(0, 1, sends.len() as i32, b"alone");
    w.settle();
    assert!(sends.iter().chain([&last]).all(|id| w.code(0, *id) == Some(Code::Ok)));
    let passed = |trace: &Trace, event| -> Vec<(u32, i32)> {
        let events = trace.drain();
        let of = events.iter().filter(|e| e.kind == event).map(|e| Passed::from_words([e.a, e.b]));
        of.map(|passed| (passed.number, passed.tag)).collect()
    };
    let expected: Vec<(u32, i32)> = (0..=sends.len()).map(|n| (n as u32 + 1, n as i32)).collect();
    assert_eq!(passed(&traces[0], SENT), expected);
    assert_eq!(passed(&traces[1], TAKEN), expected);
}

/// Sends that were cancelled while they waited go nowhere, and the others keep their order.
#[test]
fn what_is_abandoned_in_the_queue_does_not_go() {
    let mut w = world(Config::default());
    let data: Vec<[u8; 8]> = (0..LANE as u64 + 30).map(u64::to_ne_bytes).collect();
    let sends: Vec<Id> = data.iter().map(|data| w.isend(0, 1, 0, data)).collect();
    let kept = |n: &usize| *n < LANE || !n.is_multiple_of(3);
    (0..data.len()).filter(|n| !kept(n)).for_each(|n| w.ranks[0].abandon(sends[n]));
    for n in (0..data.len()).filter(kept) {
        let mut target = Target::new(8);
        let id = w.irecv(1, Some(0), None, &mut target);
        w.both_pass();
        assert_eq!((w.code(1, id), target.bytes()), (Some(Code::Ok), &data[n][..]));
    }
}

/// Of a communicator that is revoked meanwhile nothing is received; of others everything.
#[test]
fn those_of_a_revoked_communicator_are_left_out() {
    let mut w = world(Config::default());
    let mut send = |context, tag: usize| {
        let buf = ConstBuf::contiguous(b"context".as_ptr(), 7);
        let args = SendArgs {
            context,
            dest: 1,
            tag: tag as i32,
            buf,
            mode: Mode::Standard,
            class: Class::Eager,
            cookie: 0,
        };
        // SAFETY: the text is static.
        unsafe { w.ranks[0].isend(args) }.unwrap()
    };
    let sends: Vec<Id> = (0..LANE + 30).map(|n| send([0, 2][n % 2], n)).collect();
    // All are in the lane.
    w.pass_with(1, &mut Budget::limited(Context::User, LANE as u32, 1 << 10));
    w.pass_with(0, &mut Budget::user());
    assert!(sends.iter().all(|id| w.code(0, *id) == Some(Code::Ok)));
    w.ranks[1].revoke(2, &[0, 1]);
    let mut targets: Vec<Target> = (0..sends.len()).map(|_| Target::new(7)).collect();
    for (n, target) in targets.iter_mut().enumerate().step_by(2) {
        let id = w.irecv(1, Some(0), Some(n as i32), target);
        w.settle();
        assert_eq!((w.code(1, id), target.bytes()), (Some(Code::Ok), &b"context"[..]));
    }
}

/// Rank 1 as somebody who writes what he likes.
fn forged(payload: &[u8]) -> (P2p<Loopback>, Vec<Option<Code>>, Vec<Target>) {
    let mut ends = fabric_with(2, LIMITS).into_iter();
    let mut victim = P2p::new(ends.next().unwrap(), Config::default()).unwrap();
    let mut liar = ends.next().unwrap();
    liar.connect_bulk(0).unwrap();
    let mut targets: Vec<Target> = (0..3).map(|_| Target::new(8)).collect();
    let mut post = |target: &mut Target| {
        let args = RecvArgs {
            context: 0,
            source: Some(1),
            tag: None,
            buf: target.buf(),
            class: Class::Eager,
            cookie: 0,
        };
        // SAFETY: the targets outlive the victim.
        unsafe { victim.irecv(args) }.unwrap()
    };
    let ids: Vec<Id> = targets.iter_mut().map(&mut post).collect();
    let header = Header { kind: kind::COALESCED, ..Header::default() };
    // SAFETY: the payload is a slice.
    let sent =
        unsafe { liar.try_send(0, Class::Eager, Urgency::Urgent, &header, payload.as_ptr(), payload.len()) };
    assert_eq!(sent, SendOutcome::Sent);
    (0..4).for_each(|_| _ = victim.progress(&mut Budget::handler()));
    // SAFETY: the slab lives as long as the victim.
    let code = |id: &Id| unsafe { victim.completion(*id).unwrap().as_ref() }.outcome().map(|o| o.code);
    let codes = ids.iter().map(code).collect();
    (victim, codes, targets)
}

fn entry(len: u32, bytes: &[u8]) -> Vec<u8> {
    [&[0u8; 8][..], &len.to_ne_bytes(), &[0; 4], bytes].concat()
}

/// What is not inside the packet is nobody's message.
#[test]
fn envelopes_that_lie() {
    let good = entry(8, b"8 bytes.");
    let (victim, codes, targets) = forged(&[good.clone(), entry(3, b"abc....."), entry(0, b"")].concat());
    assert_eq!((victim.failed_peer(&[1]), codes), (None, vec![Some(Code::Ok); 3]));
    assert_eq!((targets[0].bytes(), &targets[1].bytes()[..3]), (&b"8 bytes."[..], &b"abc"[..]));
    let table = [
        ("no message", vec![]),
        ("half an envelope", vec![0; 15]),
        ("a length beyond the packet", entry(9, b"8 bytes.")),
        ("a length that is not filled up", entry(7, b"7 bytes")),
        ("a length beyond memory", entry(u32::MAX, b"8 bytes.")),
        ("longer than such messages are", entry(129, &[7; 136])),
        ("a rest that is no envelope", [good.clone(), vec![0; 8]].concat()),
        ("a second that lies", [good.clone(), entry(16, b"8 bytes.")].concat()),
        ("more than goes together", [good.repeat(84), entry(9, &[0; 16])].concat()),
    ];
    for (what, payload) in table {
        let (victim, codes, targets) = forged(&payload);
        assert_eq!(victim.failed_peer(&[1]), Some((1, Code::Protocol)), "{what}");
        assert!(codes.iter().all(Option::is_some) && codes.contains(&Some(Code::Protocol)), "{what}");
        targets.iter().for_each(|target| _ = target.bytes());
    }
}
