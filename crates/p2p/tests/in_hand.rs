//! Receives that their threads wait for inside the engine, of messages that are there, and that come.

mod common;

use common::*;
use tocsin_p2p::{Class, Config, ConstBuf, Glance, RecvArgs};

const LEN: usize = 200;

impl World {
    fn take_in_hand(&mut self, at: u32, from: u32, tag: i32, target: &mut Target) {
        let args = RecvArgs {
            context: 0,
            source: Some(from),
            tag: Some(tag),
            buf: target.buf(),
            class: Class::Eager,
            cookie: 0,
        };
        // SAFETY: the target lives, and is not looked at, until it is put down.
        assert!(unsafe { self.ranks[at as usize].take_in_hand(&args) }.unwrap());
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
    // In one look, in several, byte by byte.
    for step in [LEN as u64, 67, 1] {
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

/// Its sender stops in the middle: the receiver turns away, and takes the whole when it is there.
#[test]
fn what_stops_is_waited_for() {
    let text = text(2, LEN);
    let mut w = talking();
    let mut target = Target::new(LEN);
    w.take_in_hand(1, 0, 5, &mut target);
    assert!(w.send_now(0, 1, 5, &text));
    w.ranks[1].transport_mut().set_coming(Some(0));
    for _ in 0..3 {
        assert_eq!(w.ranks[1].glance(), Glance::Nothing);
    }
    w.ranks[1].transport_mut().set_coming(None);
    assert_eq!(w.ranks[1].glance(), Glance::Over);
    assert_eq!(w.ranks[1].put_down().unwrap().bytes, LEN);
    assert_eq!(target.bytes(), text);
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
    w.ranks[1].transport_mut().set_coming(Some(1));
    assert_eq!(w.ranks[1].glance(), Glance::Nothing);
    w.ranks[1].transport_mut().set_coming(None);
    assert_eq!(w.ranks[1].glance(), Glance::Other);
    assert_eq!(w.ranks[1].glance(), Glance::Over);
    assert_eq!(w.ranks[1].put_down().unwrap().bytes, LEN);
    assert!(w.outcome(1, posted).is_some());
    assert_eq!((first.bytes(), target.bytes()), (&text[..], &other[..]));
}

/// A message that would be announced goes at once to who waits, up to a length.
#[test]
fn long_ones_go_to_who_waits() {
    let config = Config { eager_max: 64, waiting_eager_max: LEN, ..Config::default() };
    let mut w = World::with(2, Default::default(), config);
    let (mut target, text) = (Target::new(1), text(5, LEN + 1));
    let _send = w.isend(0, 1, 0, b"x");
    let _recv = w.irecv(1, Some(0), Some(0), &mut target);
    w.settle();
    assert!(w.send_now(0, 1, 5, &text[..64]) && !w.send_now(0, 1, 5, &text[..65]));
    w.ranks[0].transport_mut().set_waiting(1, true);
    assert!(w.send_now(0, 1, 6, &text[..LEN]) && !w.send_now(0, 1, 6, &text));
    // It does not wait for this one, and keeps it.
    w.settle();
    let mut target = Target::new(LEN);
    let recv = w.irecv(1, Some(0), Some(6), &mut target);
    assert!(w.outcome(1, recv).is_some());
    assert_eq!(target.bytes(), &text[..LEN]);
}
