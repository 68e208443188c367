//! Announcements that bring their message, taken by who waits and declined by all others.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Target, tight_config};
use tocsin_p2p::{
    Budget, Class, Code, Config, ConstBuf, Glance, Id, MessageId, Mode, Outcome, P2p, RecvArgs, SendArgs,
};
use tocsin_progress::Context;
use tocsin_transport::loopback::{Limits, Loopback, fabric_with_single_copies};
use tocsin_transport::{Header, Reach, Recv, SendOutcome, Transport, Urgency, kind};

/// Longer than eager messages are, and than a stride.
const LEN: usize = 10_000;

struct Pair([P2p<Loopback>; 2]);

/// Two ranks that have talked, of which the first brings what it sends.
fn pair() -> Pair {
    let limits = Limits { packets: [3, 2, 2, 2], max_payload: [LEN, 300, 16, 8192] };
    let config = Config { pipelines: true, ..tight_config() };
    let ends = fabric_with_single_copies(2, limits, Reach::Kernel);
    let mut pair =
        Pair(ends.into_iter().map(|e| P2p::new(e, config).unwrap()).collect::<Vec<_>>().try_into().unwrap());
    let mut target = Target::new(1);
    let (send, recv) = (pair.isend(0, b"x"), pair.irecv(Some(0), 0, &mut target));
    pair.settle();
    assert!(pair.outcome(0, send).is_some() && pair.outcome(1, recv).is_some());
    pair.0[0].set_waits(true);
    pair
}

fn args(source: Option<u32>, tag: i32, target: &mut Target) -> RecvArgs {
    RecvArgs { context: 0, source, tag: Some(tag), buf: target.buf(), class: Class::Eager, cookie: 0 }
}

impl Pair {
    fn isend(&mut self, tag: i32, data: &[u8]) -> Id {
        let buf = ConstBuf::contiguous(data.as_ptr(), data.len());
        let (mode, class) = (Mode::Standard, Class::Eager);
        // SAFETY: tests keep the data until the send is complete, or the pair is gone.
        unsafe { self.0[0].isend(SendArgs { context: 0, dest: 1, tag, buf, mode, class, cookie: 0 }) }
            .unwrap()
    }

    fn irecv(&mut self, source: Option<u32>, tag: i32, target: &mut Target) -> Id {
        // SAFETY: as in `isend`.
        unsafe { self.0[1].irecv(args(source, tag, target)) }.unwrap()
    }

    /// One whose thread is expected to wait for it next.
    fn irecv_soon(&mut self, tag: i32, target: &mut Target) -> Id {
        self.0[1].set_waits(true);
        let id = self.irecv(Some(0), tag, target);
        self.0[1].set_waits(false);
        id
    }

    fn take_in_hand(&mut self, tag: i32, target: &mut Target) -> bool {
        // SAFETY: the target lives, and is not looked at, until it is put down.
        unsafe { self.0[1].take_in_hand(&args(Some(0), tag, target)) }.unwrap()
    }

    /// Has a posted receive say that its thread waits for it, as the sender sees.
    fn awaits(&mut self, id: Id) {
        self.0[0].transport_mut().set_waiting(1, true);
        self.0[1].await_posted(id);
    }

    fn pass(&mut self, rank: usize, mut budget: Budget) {
        self.0[rank].progress(&mut budget);
        self.0[rank].transport_mut().flush();
    }

    fn waiting_pass(&mut self, rank: usize) {
        self.pass(rank, Budget::of(Context::User).waiting());
    }

    /// Handlers alone, until nothing moves.
    fn settle(&mut self) {
        for _ in 0..200 {
            for rank in [0, 1] {
                self.pass(rank, Budget::limited(Context::Handler, 32, 64 << 10));
                self.0[rank].grow_unexpected();
            }
        }
    }

    fn outcome(&self, rank: usize, id: Id) -> Option<Outcome> {
        let completion = self.0[rank].completion(id).unwrap();
        // SAFETY: the slab lives as long as the rank.
        unsafe { completion.as_ref() }.outcome()
    }

    /// What lies at the head of the second rank's lane.
    fn next(&mut self) -> Option<Header> {
        match self.0[1].transport_mut().peek(0, Class::Eager) {
            Recv::Packet(packet) => Some(packet.header),
            _ => None,
        }
    }

    fn has_brought(&mut self) -> bool {
        self.next().is_some_and(|header| header.kind == kind::RTS && header.flags == 0x1f)
    }

    fn asked_for_pieces(&self) -> bool {
        self.0[1].counters().packets_sent > 0
    }
}

fn text(seed: u64, len: usize) -> Vec<u8> {
    common::text(seed, len)
}

/// In one look, or in several: into the buffer of a receive in hand, whose sender hears at once.
#[test]
fn a_receive_in_hand_takes_it_as_it_comes() {
    for step in [None, Some(LEN as u64), Some(4096), Some(1024)] {
        let (mut p, text, mut target) = (pair(), text(1, LEN), Target::new(LEN));
        assert!(p.take_in_hand(5, &mut target));
        let send = p.isend(5, &text);
        assert!(p.has_brought() && p.outcome(0, send).is_none());
        p.0[1].transport_mut().set_coming(step);
        assert_eq!(p.0[1].glance(), Glance::Over);
        let met = p.0[1].put_down().unwrap();
        assert_eq!((met.source, met.tag, met.bytes), (0, 5, LEN));
        assert_eq!(target.bytes(), text);
        p.waiting_pass(0);
        assert_eq!(p.outcome(0, send).map(|o| (o.code, o.bytes)), Some((Code::Ok, LEN as u64)));
        assert!(p.next().is_none(), "it is consumed");
    }
}

#[test]
fn a_posted_receive_takes_it_as_it_comes() {
    for step in [None, Some(4096)] {
        let (mut p, text, mut target) = (pair(), text(2, LEN), Target::new(LEN));
        let recv = p.irecv(Some(0), 5, &mut target);
        p.awaits(recv);
        let send = p.isend(5, &text);
        assert!(p.has_brought());
        p.0[1].transport_mut().set_coming(step);
        p.waiting_pass(1);
        assert_eq!(p.outcome(1, recv).map(|o| (o.code, o.bytes)), Some((Code::Ok, LEN as u64)));
        p.waiting_pass(0);
        assert_eq!(p.outcome(0, send).map(|o| o.code), Some(Code::Ok));
        assert_eq!(target.bytes(), text);
    }
}

/// Whose thread was expected to wait for it right after its post is told of before it does, and takes what comes in whatever it does next.
#[test]
fn a_receive_that_is_waited_for_soon_takes_it_in_passing() {
    let (mut p, text, mut target) = (pair(), text(8, LEN), Target::new(LEN));
    let recv = p.irecv_soon(5, &mut target);
    let send = p.isend(5, &text);
    assert!(p.has_brought());
    p.pass(1, Budget::of(Context::User).in_passing());
    assert_eq!(p.outcome(1, recv).map(|o| (o.code, o.bytes)), Some((Code::Ok, LEN as u64)));
    p.waiting_pass(0);
    assert_eq!(p.outcome(0, send).map(|o| o.code), Some(Code::Ok));
    assert_eq!(target.bytes(), text);
    // It is told of no other.
    let mut other = Target::new(LEN);
    let recv = p.irecv(Some(0), 5, &mut other);
    p.isend(5, &text);
    assert!(!p.has_brought());
    p.settle();
    assert!(p.outcome(1, recv).is_some());
}

/// As of any other receive, a handler copies nothing, and asks for pieces; and who posts takes nothing for one that nobody is expected to wait for.
#[test]
fn what_was_expected_in_vain_comes_in_pieces() {
    for soon in [true, false] {
        let (mut p, text, mut target) = (pair(), text(9, LEN), Target::new(LEN));
        let recv = if soon {
            p.irecv_soon(5, &mut target)
        } else {
            let recv = p.irecv(Some(0), 5, &mut target);
            p.awaits(recv);
            recv
        };
        let send = p.isend(5, &text);
        assert!(p.has_brought());
        let before = p.0[1].counters().bytes_copied;
        let budget = if soon {
            Budget::limited(Context::Handler, 32, 64 << 10)
        } else {
            Budget::of(Context::User).in_passing()
        };
        p.pass(1, budget);
        assert_eq!(p.0[1].counters().bytes_copied, before);
        assert!(p.asked_for_pieces() && p.outcome(1, recv).is_none());
        p.settle();
        assert!(p.outcome(0, send).is_some() && p.outcome(1, recv).is_some());
        assert_eq!(target.bytes(), text);
    }
}

/// Who posts a receive and goes away does not copy out what lies there for it.
#[test]
fn a_post_takes_what_was_brought_only_if_its_thread_waits() {
    for waits in [true, false] {
        let (mut p, text) = (pair(), text(12, LEN));
        let [mut first, mut second] = [(); 2].map(|()| Target::new(LEN));
        let _older = p.irecv_soon(5, &mut first);
        let send = p.isend(7, &text);
        assert!(p.has_brought());
        let before = p.0[1].counters().bytes_copied;
        p.0[1].set_waits(waits);
        // SAFETY: as in `isend`.
        let (recv, met) = unsafe { p.0[1].irecv_long(args(Some(0), 7, &mut second)) }.unwrap();
        p.0[1].set_waits(false);
        assert!(met && p.outcome(1, recv).is_some() == waits);
        assert_eq!(p.0[1].counters().bytes_copied == before, !waits);
        p.settle();
        assert!(p.outcome(0, send).is_some() && p.outcome(1, recv).is_some());
        assert_eq!(second.bytes(), text);
    }
}

/// What the post of such a receive finds brought in vain for one before it leaves nothing behind.
#[test]
fn what_was_brought_in_vain_before_a_post_is_not_counted_of_it() {
    let (mut p, text) = (pair(), text(11, LEN));
    let [mut first, mut second] = [(); 2].map(|()| Target::new(LEN));
    let awaited = |p: &Pair| p.0[0].transport().is_awaited_soon(1);
    let older = p.irecv_soon(5, &mut first);
    p.isend(6, &text);
    assert!(p.has_brought());
    p.0[1].set_waits(true);
    // SAFETY: as in `isend`.
    let (newer, met) = unsafe { p.0[1].irecv_long(args(Some(0), 7, &mut second)) }.unwrap();
    p.0[1].set_waits(false);
    assert!(met && awaited(&p));
    assert!(p.0[1].cancel(newer) && !awaited(&p), "the older one was waited for in vain");
    assert!(p.0[1].cancel(older) && !awaited(&p));
}

/// As long as one of them is posted, and until the last is met or cancelled.
#[test]
fn several_are_waited_for_soon() {
    let (mut p, text) = (pair(), text(10, LEN));
    let [mut first, mut second, mut third] = [(); 3].map(|()| Target::new(LEN));
    let awaited = |p: &Pair| p.0[0].transport().is_awaited_soon(1);
    let _posted = p.irecv_soon(5, &mut first);
    let cancelled = p.irecv_soon(6, &mut second);
    let anybodys = {
        p.0[1].set_waits(true);
        let id = p.irecv(None, 7, &mut third);
        p.0[1].set_waits(false);
        id
    };
    assert!(awaited(&p));
    p.isend(5, &text);
    p.waiting_pass(1);
    assert!(awaited(&p));
    assert!(p.0[1].cancel(cancelled));
    assert!(!awaited(&p), "of that of any source nobody is told");
    assert!(p.0[1].cancel(anybodys));
    let mut short = Target::new(10);
    p.irecv_soon(8, &mut short);
    assert!(!awaited(&p), "a short one");
}

/// What was brought for nobody, or declined, is told: until another receive is posted that is waited for soon, as long as that is.
#[test]
fn what_was_expected_in_vain_is_expected_no_more() {
    let handler = || Budget::limited(Context::Handler, 32, 64 << 10);
    let waiting = || Budget::of(Context::User).waiting();
    for (tag, budget) in [(6, waiting()), (6, handler()), (5, handler())] {
        let (mut p, text) = (pair(), text(12, LEN));
        let [mut first, mut second, mut third] = [(); 3].map(|()| Target::new(LEN));
        let awaited = |p: &Pair| p.0[0].transport().is_awaited_soon(1);
        let stays = p.irecv_soon(5, &mut first);
        let sends = [p.isend(tag, &text), p.isend(9, &text)];
        assert!(p.has_brought() && awaited(&p));
        p.pass(1, budget);
        assert!(!awaited(&p), "{tag}");
        p.irecv_soon(7, &mut second);
        assert!(awaited(&p));
        p.isend(7, &text);
        p.waiting_pass(1);
        assert!(!awaited(&p), "of the first one nothing is expected");
        let others = p.irecv(Some(0), tag, &mut third);
        p.0[1].cancel(if tag == 5 { others } else { stays });
        p.irecv_soon(9, &mut second);
        p.settle();
        assert!(!awaited(&p));
        assert!(sends.iter().all(|send| p.outcome(0, *send).map(|o| o.code) == Some(Code::Ok)));
        assert_eq!((if tag == 5 { first } else { third }).bytes(), text);
    }
}

/// What is said of later ones does not end with those of which it was taken back, nor with the message that was declined.
#[test]
fn what_was_taken_back_is_not_counted_twice() {
    let (mut p, text) = (pair(), text(13, LEN));
    let mut targets = [(); 4].map(|()| Target::new(LEN));
    let [first, second, third, fourth] = &mut targets;
    let awaited = |p: &Pair| p.0[0].transport().is_awaited_soon(1);
    let [declined, taken_back] = [p.irecv_soon(5, first), p.irecv_soon(6, second)];
    let send = p.isend(5, &text);
    assert!(p.has_brought() && awaited(&p));
    p.pass(1, Budget::limited(Context::Handler, 32, 64 << 10));
    assert!(!awaited(&p), "one of them is posted, and was expected in vain");
    let [later, last] = [p.irecv_soon(7, third), p.irecv_soon(8, fourth)];
    for ended in [taken_back, later] {
        assert!(awaited(&p));
        assert!(p.0[1].cancel(ended));
    }
    assert!(awaited(&p), "the last one is posted");
    assert!(p.0[1].cancel(last));
    assert!(!awaited(&p));
    p.settle();
    assert!(p.outcome(0, send).is_some() && p.outcome(1, declined).is_some());
    assert_eq!(targets[0].bytes(), text);
}

/// A message too long to be brought is not copied into the buffer that was published for it: who takes its announcement, though only in passing, asks for pieces.
/// Not so a handler: that rank computes after all.
#[test]
fn longer_ones_come_in_pieces_where_both_wait_soon() {
    const LONGER: usize = 3 * LEN;
    let passing = || Budget::of(Context::User).in_passing();
    for (sender, receiver, handler, pieces) in [
        (true, true, false, true),
        (true, true, true, false),
        (true, false, false, false),
        (false, true, false, false),
    ] {
        let mut p = pair();
        let case = format!("{sender}, {receiver}, {handler}");
        // From the first long one on there are publications.
        for round in 0..2 {
            let (text, mut target) = (text(11 + round, LONGER), Target::new(LONGER));
            let recv = match round == 1 && receiver {
                true => p.irecv_soon(5, &mut target),
                false => p.irecv(Some(0), 5, &mut target),
            };
            p.0[0].set_waits(round == 1 && sender);
            let send = p.isend(5, &text);
            p.0[0].set_waits(false);
            assert!(p.next().is_some() && !p.has_brought(), "{case}");
            let before = p.0[0].counters();
            if round == 1 {
                p.pass(0, passing());
                let pushed = p.0[0].counters().bytes_copied != before.bytes_copied;
                assert_eq!(pushed, !(sender && receiver), "{case}");
                p.pass(1, if handler { Budget::limited(Context::Handler, 32, 64 << 10) } else { passing() });
            }
            for _ in 0..20 {
                (0..2).for_each(|rank| p.waiting_pass(rank));
            }
            p.settle();
            assert!(p.outcome(0, send).is_some() && p.outcome(1, recv).is_some(), "{case}");
            assert_eq!(target.bytes(), text, "{case}");
            if round == 1 {
                assert_eq!(p.0[0].counters().bytes_sent > before.bytes_sent, pieces, "{case}");
            }
        }
    }
}

/// A handler copies nothing of it, and asks for pieces.
#[test]
fn handlers_decline() {
    let (mut p, text, mut target) = (pair(), text(3, LEN), Target::new(LEN));
    let recv = p.irecv(Some(0), 5, &mut target);
    p.awaits(recv);
    let send = p.isend(5, &text);
    assert!(p.has_brought());
    let before = p.0[1].counters().bytes_copied;
    p.pass(1, Budget::limited(Context::Handler, 32, 64 << 10));
    assert_eq!(p.0[1].counters().bytes_copied, before);
    assert!(p.next().is_none() && p.asked_for_pieces() && p.outcome(1, recv).is_none());
    p.settle();
    assert_eq!(p.outcome(0, send).map(|o| o.code), Some(Code::Ok));
    assert_eq!(p.outcome(1, recv).map(|o| o.code), Some(Code::Ok));
    assert_eq!(target.bytes(), text);
}

/// The message is none of those that wait: what is kept of it is its announcement.
#[test]
fn what_meets_nothing_is_not_kept() {
    let (mut p, text) = (pair(), text(4, LEN));
    let (mut other, mut target) = (Target::new(LEN), Target::new(LEN));
    let awaited = p.irecv(Some(0), 6, &mut other);
    p.awaits(awaited);
    let send = p.isend(5, &text);
    assert!(p.has_brought());
    let before = p.0[1].counters().bytes_copied;
    p.waiting_pass(1);
    assert_eq!(p.0[1].counters().bytes_copied, before);
    let found = p.0[1].iprobe(0, Some(0), Some(5)).unwrap();
    assert_eq!(found.map(|status| status.bytes), Some(LEN));
    let message: Option<(MessageId, _)> = p.0[1].improbe(0, Some(0), Some(5)).unwrap();
    // SAFETY: the target lives longer.
    let recv = unsafe { p.0[1].mrecv(message.unwrap().0, target.buf(), 0) }.unwrap();
    p.settle();
    assert_eq!(p.outcome(1, recv).map(|o| o.code), Some(Code::Ok));
    assert_eq!(p.outcome(0, send).map(|o| o.code), Some(Code::Ok));
    assert_eq!(target.bytes(), text);
    assert!(p.outcome(1, awaited).is_none());
}

/// The receive that was posted first has no room for it: it alone says so, and nothing is in its buffer.
#[test]
fn without_room_it_is_truncated() {
    let (mut p, text) = (pair(), text(5, LEN));
    let (mut short, mut target) = (Target::new(LEN - 1), Target::new(LEN));
    let first = p.irecv(None, 5, &mut short);
    let awaited = p.irecv(Some(0), 6, &mut target);
    p.awaits(awaited);
    let send = p.isend(5, &text);
    assert!(p.has_brought());
    p.waiting_pass(1);
    p.settle();
    let outcome = p.outcome(1, first).unwrap();
    assert_eq!((outcome.code, outcome.bytes, outcome.detail), (Code::Truncated, LEN as u64, LEN as u64 - 1));
    assert!(short.bytes().iter().all(|byte| *byte == 0xee));
    assert_eq!(p.outcome(0, send).map(|o| o.code), Some(Code::Ok));
}

/// Its sender stops in the middle: who waits turns away, and takes the whole when it is there.
#[test]
fn what_stops_is_waited_for() {
    let (mut p, text, mut target) = (pair(), text(6, LEN), Target::new(LEN));
    assert!(p.take_in_hand(5, &mut target));
    let send = p.isend(5, &text);
    p.0[1].transport_mut().set_coming(Some(0));
    assert_eq!(p.0[1].glance(), Glance::Nothing);
    p.0[1].transport_mut().set_coming(None);
    assert_eq!(p.0[1].glance(), Glance::Over);
    assert_eq!(p.0[1].put_down().unwrap().bytes, LEN);
    assert_eq!(target.bytes(), text);
    p.waiting_pass(0);
    assert!(p.outcome(0, send).is_some());
}

/// There is no room for the answer: the receive is posted, and answers when there is some.
#[test]
fn a_full_lane_of_answers() {
    let (mut p, text, mut target) = (pair(), text(7, LEN), Target::new(LEN));
    assert!(p.take_in_hand(5, &mut target));
    let send = p.isend(5, &text);
    let filler = Header { kind: kind::REVOKE, context: 77, ..Header::default() };
    let fill = |end: &mut Loopback| {
        // SAFETY: no payload.
        unsafe { end.try_send(0, Class::Control, Urgency::Urgent, &filler, std::ptr::null(), 0) }
    };
    while fill(p.0[1].transport_mut()) == SendOutcome::Sent {}
    assert_eq!(p.0[1].glance(), Glance::Over);
    assert!(p.0[1].put_down().is_none());
    let recv = p.irecv(Some(0), 5, &mut target);
    p.waiting_pass(1);
    assert!(p.outcome(0, send).is_none());
    p.settle();
    assert_eq!(p.outcome(1, recv).map(|o| o.code), Some(Code::Ok));
    assert_eq!(p.outcome(0, send).map(|o| o.code), Some(Code::Ok));
    assert_eq!(target.bytes(), text);
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn flip(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// Whoever takes and declines, and however much has come when: each message arrives once, whole and in its turn.
#[test]
fn in_order_whoever_waits_when() {
    let (mut brought, mut met) = (0, 0);
    for seed in 0..300 {
        let (mut p, mut random) = (pair(), Random(seed));
        let mut sent: [Vec<(Id, Vec<u8>)>; 2] = Default::default();
        let mut received: [Vec<Vec<u8>>; 2] = Default::default();
        let mut posted: [Vec<(Id, Target, bool)>; 2] = Default::default();
        for step in 0..300 {
            let tag = random.below(2) as usize;
            match random.below(8) {
                0 | 1 if sent[tag].len() < received[tag].len() + 10 => {
                    let data = text(seed * 1000 + step, [10, 64, 65, 3000, LEN][random.below(5) as usize]);
                    p.0[0].set_waits(random.below(4) != 0);
                    let id = p.isend(tag as i32, &data);
                    p.0[0].set_waits(false);
                    sent[tag].push((id, data));
                    brought += u64::from(p.has_brought());
                }
                2 if posted[tag].iter().filter(|(.., told)| !told).count() < 6 => {
                    let mut target = Target::new(LEN);
                    p.0[1].set_waits(random.below(3) == 0);
                    let id = p.irecv(random.flip().then_some(0), tag as i32, &mut target);
                    p.0[1].set_waits(false);
                    if random.flip() {
                        p.awaits(id);
                    }
                    posted[tag].push((id, target, false));
                }
                3 if posted[tag].iter().all(|(id, ..)| p.outcome(1, *id).is_some()) => {
                    let mut target = Target::new(LEN);
                    if p.take_in_hand(tag as i32, &mut target) {
                        for _ in 0..1 + random.below(3) {
                            p.0[1].glance();
                        }
                        if let Some(found) = p.0[1].put_down() {
                            met += 1;
                            let bytes = target.bytes()[..found.bytes].to_vec();
                            drain(&p, &mut posted[tag], &mut received[tag]);
                            received[tag].push(bytes);
                        }
                    }
                }
                4 => {
                    let comes = random.flip().then(|| 4096 * random.below(3));
                    p.0[1].transport_mut().set_coming(comes);
                }
                _ => {
                    let rank = random.below(2) as usize;
                    let (packets, bytes) = (1 + random.below(8) as u32, 1 + random.below(64 << 10) as usize);
                    let budget = |context| Budget::limited(context, packets, bytes);
                    let budget = match random.below(3) {
                        0 => budget(Context::Handler),
                        1 => budget(Context::User).in_passing(),
                        _ => budget(Context::User).waiting(),
                    };
                    p.pass(rank, budget);
                }
            }
            (0..2).for_each(|tag| drain(&p, &mut posted[tag], &mut received[tag]));
        }
        p.0[1].transport_mut().set_coming(None);
        p.settle();
        for tag in 0..2 {
            while received[tag].len() + posted[tag].iter().filter(|(.., told)| !told).count()
                < sent[tag].len()
            {
                let mut target = Target::new(LEN);
                let id = p.irecv(Some(0), tag as i32, &mut target);
                posted[tag].push((id, target, false));
            }
            p.settle();
            drain(&p, &mut posted[tag], &mut received[tag]);
            let texts: Vec<&Vec<u8>> = sent[tag].iter().map(|(_, text)| text).collect();
            assert_eq!(received[tag].iter().collect::<Vec<_>>(), texts, "seed {seed}, tag {tag}");
            assert!(sent[tag].iter().all(|(id, _)| p.outcome(0, *id).map(|o| o.code) == Some(Code::Ok)));
        }
    }
    assert!(brought > 200 && met > 40, "{brought} brought, {met} met in hand");
}

/// Notes what was received since, in the order in which receives were posted.
fn drain(p: &Pair, posted: &mut [(Id, Target, bool)], received: &mut Vec<Vec<u8>>) {
    for (id, target, told) in posted.iter_mut().filter(|(.., told)| !told) {
        let Some(outcome) = p.outcome(1, *id) else { break };
        received.push(target.bytes()[..outcome.bytes as usize].to_vec());
        *told = true;
    }
}
