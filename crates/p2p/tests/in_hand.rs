//! Receives that their threads wait for inside the engine, of messages that are there, and that come.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use tocsin_p2p::{Class, Code, Config, ConstBuf, Glance, Layout, MutBuf, RecvArgs};
use tocsin_transport::Transport;

/// Two strides, and some more.
const LEN: usize = 10_000;

impl World {
    fn try_take(&mut self, at: u32, from: u32, tag: i32, buf: MutBuf) -> bool {
        let (source, tag) = (Some(from), Some(tag));
        let args = RecvArgs { context: 0, source, tag, buf, class: Class::Eager, cookie: 0 };
        // SAFETY: the target lives, and is not looked at, until it is put down.
        unsafe { self.ranks[at as usize].take_in_hand(&args) }.unwrap()
    }

    fn take_in_hand(&mut self, at: u32, from: u32, tag: i32, target: &mut Target) {
        assert!(self.try_take(at, from, tag, target.buf()));
    }

    fn send_now(&mut self, from: u32, to: u32, tag: i32, data: &[u8]) -> bool {
        let buf = ConstBuf::contiguous(data.as_ptr(), data.len());
        // SAFETY: the data outlive the call.
        unsafe { self.ranks[from as usize].send_now(0, to, tag, &buf) }.unwrap()
    }
}

/// Two ranks that have talked.
fn talking() -> World {
    let mut w = World::new(2);
    let mut target = Target::new(1);
    let (send, recv) = (w.isend(0, 1, 0, b"x"), w.irecv(1, Some(0), Some(0), &mut target));
    w.settle();
    assert!(w.outcome(0, send).is_some() && w.outcome(1, recv).is_some());
    w
}

#[test]
fn as_it_comes() {
    let text = text(1, LEN);
    // In one look, in several, in more than there are strides.
    for step in [LEN as u64, 4096, 1024] {
        let mut w = talking();
        let mut target = Target::new(LEN);
        w.take_in_hand(1, 0, 5, &mut target);
        assert_eq!(w.ranks[1].glance(), Glance::Nothing);
        assert!(w.send_now(0, 1, 5, &text));
        w.ranks[1].transport_mut().set_coming(Some(step));
        assert_eq!(w.ranks[1].glance(), Glance::Over);
        let met = w.ranks[1].put_down().unwrap();
        assert_eq!((met.source, met.tag, met.bytes), (0, 5, LEN));
        assert_eq!(target.bytes(), text);
        // It is consumed: the next one is the next one.
        w.ranks[1].transport_mut().set_coming(None);
        let mut target = Target::new(LEN);
        w.take_in_hand(1, 0, 6, &mut target);
        assert!(w.send_now(0, 1, 6, &text[1..]));
        assert_eq!(w.ranks[1].glance(), Glance::Over);
        assert_eq!((w.ranks[1].put_down().unwrap().bytes, &target.bytes()[..LEN - 1]), (LEN - 1, &text[1..]));
    }
}

/// One that is posted is looked for likewise, whatever comes before it.
#[test]
fn for_a_posted_one() {
    let (text, other) = (text(7, LEN), text(8, 100));
    for coming in [None, Some(LEN as u64), Some(4096)] {
        let mut w = talking();
        let (mut target, mut late) = (Target::new(LEN), Target::new(100));
        let recv = w.irecv(1, Some(0), Some(5), &mut target);
        assert_eq!(w.ranks[1].glance_for(recv), Glance::Nothing);
        assert!(w.send_now(0, 1, 6, &other) && w.send_now(0, 1, 5, &text));
        assert_eq!(w.ranks[1].glance_for(recv), Glance::Other, "that is kept");
        w.ranks[1].transport_mut().set_coming(coming);
        assert_eq!(w.ranks[1].glance_for(recv), Glance::Over);
        let outcome = w.outcome(1, recv).unwrap();
        assert_eq!((outcome.source, outcome.tag, outcome.bytes), (0, 5, LEN as u64));
        assert_eq!(target.bytes(), text);
        assert_eq!(w.ranks[1].glance_for(recv), Glance::Over, "there is nothing to wait for");
        w.ranks[1].transport_mut().set_coming(None);
        let recv = w.irecv(1, Some(0), Some(6), &mut late);
        assert!(w.outcome(1, recv).is_some());
        assert_eq!(late.bytes(), other);
    }
}

/// What has stopped coming, and what anybody may send, is for a pass.
#[test]
fn for_a_posted_one_that_is_looked_for_elsewhere() {
    let text = text(9, LEN);
    let mut w = talking();
    let (mut target, mut wild) = (Target::new(LEN), Target::new(LEN));
    let recv = w.irecv(1, Some(0), Some(5), &mut target);
    assert!(w.send_now(0, 1, 5, &text));
    w.ranks[1].transport_mut().set_coming(Some(0));
    assert_eq!(w.ranks[1].glance_for(recv), Glance::Over);
    assert!(w.outcome(1, recv).is_none());
    w.ranks[1].transport_mut().set_coming(None);
    assert_eq!(w.ranks[1].glance_for(recv), Glance::Over);
    assert!(w.outcome(1, recv).is_some() && target.bytes() == text);
    let anybodys = w.irecv(1, None, Some(6), &mut wild);
    assert!(w.send_now(0, 1, 6, &text));
    assert_eq!(w.ranks[1].glance_for(anybodys), Glance::Over);
    assert!(w.outcome(1, anybodys).is_none());
    w.settle();
    assert!(w.outcome(1, anybodys).is_some() && wild.bytes() == text);
}

/// Its sender stops in the middle: the receiver turns away, and takes the whole when it is there.
#[test]
fn what_stops_is_waited_for() {
    let text = text(2, LEN);
    let mut w = talking();
    let mut target = Target::new(LEN);
    w.take_in_hand(1, 0, 5, &mut target);
    assert!(w.send_now(0, 1, 5, &text));
    // One byte at a time is no news either.
    for step in [0, 1] {
        w.ranks[1].transport_mut().set_coming(Some(step));
        assert_eq!(w.ranks[1].glance(), Glance::Nothing);
        let looked = w.ranks[1].transport().come(0, Class::Eager);
        assert_eq!(w.ranks[1].glance(), Glance::Nothing);
        let more = w.ranks[1].transport().come(0, Class::Eager) - looked;
        assert_eq!(more, step, "it looks no more: the step of the look here");
    }
    w.ranks[1].transport_mut().set_coming(None);
    assert_eq!(w.ranks[1].glance(), Glance::Over);
    assert_eq!(w.ranks[1].put_down().unwrap().bytes, LEN);
    assert_eq!(target.bytes(), text);
}

/// Into a buffer with gaps, and into one that is too short: which one stands for truncation.
#[test]
fn as_it_comes_into_other_layouts() {
    let text = text(6, LEN);
    let mut w = talking();
    let mut memory = vec![0xee; 2 * LEN];
    let layout = Layout::Strided { block: 100, stride: 150, count: LEN / 100 };
    assert!(w.try_take(1, 0, 5, MutBuf { base: memory.as_mut_ptr(), layout }));
    assert!(w.send_now(0, 1, 5, &text));
    w.ranks[1].transport_mut().set_coming(Some(4096));
    assert_eq!(w.ranks[1].glance(), Glance::Over);
    assert_eq!(w.ranks[1].put_down().unwrap().bytes, LEN);
    for (block, sent) in text.chunks(100).enumerate() {
        assert_eq!(&memory[150 * block..][..100], sent);
        assert!(memory[150 * block + 100..][..50].iter().all(|byte| *byte == 0xee), "a gap");
    }
    w.ranks[1].transport_mut().set_coming(None);
    let mut target = Target::new(5000);
    w.take_in_hand(1, 0, 5, &mut target);
    assert!(w.send_now(0, 1, 5, &text));
    w.ranks[1].transport_mut().set_coming(Some(4096));
    assert_eq!(w.ranks[1].glance(), Glance::Over);
    let outcome = w.ranks[1].put_down().unwrap().outcome(5000);
    assert_eq!((outcome.code, outcome.bytes, outcome.detail), (Code::Truncated, LEN as u64, 5000));
    assert_eq!(target.bytes(), &text[..5000]);
}

/// It is not for the receive in hand, or another one was posted before it.
#[test]
fn what_comes_for_others_is_theirs() {
    let (text, other) = (text(3, LEN), text(4, LEN));
    let mut w = talking();
    let (mut first, mut target) = (Target::new(LEN), Target::new(LEN));
    let posted = w.irecv(1, Some(0), None, &mut first);
    w.take_in_hand(1, 0, 5, &mut target);
    assert!(w.send_now(0, 1, 5, &text) && w.send_now(0, 1, 5, &other));
    w.ranks[1].transport_mut().set_coming(Some(4096));
    assert_eq!(w.ranks[1].glance(), Glance::Nothing);
    w.ranks[1].transport_mut().set_coming(None);
    assert_eq!(w.ranks[1].glance(), Glance::Other);
    assert_eq!(w.ranks[1].glance(), Glance::Over);
    assert_eq!(w.ranks[1].put_down().unwrap().bytes, LEN);
    assert!(w.outcome(1, posted).is_some());
    assert_eq!((first.bytes(), target.bytes()), (&text[..], &other[..]));
}

/// A message that would be announced goes at once to a receive that copies it out, up to a length.
#[test]
fn long_ones_go_to_who_waits() {
    let config = Config { eager_max: 64, waiting_eager_max: LEN, ..Config::default() };
    let mut w = World::with(2, Default::default(), config);
    let (mut target, text) = (Target::new(1), text(5, LEN + 1));
    let _send = w.isend(0, 1, 0, b"x");
    let _recv = w.irecv(1, Some(0), Some(0), &mut target);
    w.settle();
    assert!(w.send_now(0, 1, 5, &text[..64]) && !w.send_now(0, 1, 5, &text[..65]));
    let (mut short, mut long, mut longer) = (Target::new(64), Target::new(LEN), Target::new(LEN + 1));
    w.take_in_hand(1, 0, 6, &mut short);
    assert!(!w.send_now(0, 1, 5, &text[..65]), "a receive of what comes anyhow says nothing");
    w.ranks[1].put_down();
    assert!(!w.try_take(1, 0, 6, longer.buf()), "that is announced");
    w.take_in_hand(1, 0, 6, &mut long);
    assert!(!w.send_now(0, 1, 6, &text));
    // It does not wait for this one, and keeps it.
    assert!(w.send_now(0, 1, 7, &text[..LEN]));
    assert_eq!(w.ranks[1].glance(), Glance::Other);
    assert!(w.ranks[1].put_down().is_none());
    assert!(!w.send_now(0, 1, 6, &text[..65]), "it is put down");
    let recv = w.irecv(1, Some(0), Some(7), &mut long);
    w.settle();
    assert!(w.outcome(1, recv).is_some());
    assert_eq!(long.bytes(), &text[..LEN]);
}

/// A receive that was posted says that its thread waits until it ends, as long as that thread is seen to wait.
#[test]
fn posted_receives_say_that_they_wait() {
    let config = Config { eager_max: 64, waiting_eager_max: LEN, ..Config::default() };
    let mut w = World::with(2, Default::default(), config);
    let (mut target, text) = (Target::new(LEN), text(8, LEN));
    let _send = w.isend(0, 1, 0, b"x");
    let _recv = w.irecv(1, Some(0), Some(0), &mut target);
    w.settle();
    let recv = w.irecv(1, Some(0), Some(5), &mut target);
    w.ranks[1].await_posted(recv);
    assert!(!w.send_now(0, 1, 5, &text), "it computes again, as far as one can see");
    w.ranks[0].transport_mut().set_waiting(1, true);
    assert!(w.send_now(0, 1, 5, &text));
    w.settle();
    assert_eq!(w.outcome(1, recv).unwrap().bytes, LEN as u64);
    assert_eq!(target.bytes(), text);
    assert!(!w.send_now(0, 1, 5, &text), "it has ended");
    // From anybody, or shorter than what comes anyhow, says nothing; nor does one that is cancelled.
    let wild = w.irecv(1, None, Some(5), &mut target);
    w.ranks[1].await_posted(wild);
    assert!(!w.send_now(0, 1, 5, &text));
    let exact = w.irecv(1, Some(0), Some(6), &mut target);
    w.ranks[1].await_posted(exact);
    assert!(w.ranks[1].cancel(exact));
    assert!(!w.send_now(0, 1, 6, &text));
}

/// Two threads of a rank receive: the first alone is heard of, and what it says is taken back with it.
#[test]
fn one_receive_at_a_time_says_that_it_waits() {
    let config = Config { eager_max: 64, waiting_eager_max: LEN, ..Config::default() };
    let mut w = World::with(3, Default::default(), config);
    let (mut first, mut second, text) = (Target::new(LEN), Target::new(LEN), text(9, LEN));
    for from in [0, 2] {
        let mut target = Target::new(1);
        let _send = w.isend(from, 1, 0, b"x");
        let _recv = w.irecv(1, Some(from), Some(0), &mut target);
        w.settle();
    }
    w.ranks[0].transport_mut().set_waiting(1, true);
    w.ranks[2].transport_mut().set_waiting(1, true);
    let posted = w.irecv(1, Some(0), Some(5), &mut first);
    w.ranks[1].await_posted(posted);
    assert!(!w.try_take(1, 2, 6, second.buf()), "it takes a request");
    let other = w.irecv(1, Some(2), Some(6), &mut second);
    w.ranks[1].await_posted(other);
    assert!(!w.send_now(2, 1, 6, &text));
    // Nor does a short one in hand, or its end, say anything else.
    let mut short = Target::new(8);
    w.take_in_hand(1, 2, 7, &mut short);
    assert!(w.ranks[1].put_down().is_none());
    assert!(w.send_now(0, 1, 5, &text));
    w.settle();
    assert!(w.outcome(1, posted).is_some());
    assert!(!w.send_now(0, 1, 5, &text), "it has ended");
    assert!(w.ranks[1].cancel(other));
    w.take_in_hand(1, 2, 6, &mut second);
    assert!(w.send_now(2, 1, 6, &text));
    assert_eq!(w.ranks[1].glance(), Glance::Over);
    assert_eq!(w.ranks[1].put_down().unwrap().bytes, LEN);
    assert!(!w.send_now(2, 1, 6, &text), "it is put down");
}
