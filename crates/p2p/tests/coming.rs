//! Messages that their sender still copies, met by posted receives.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use tocsin_p2p::{Budget, Class, Code, Config, Id, Pass};
use tocsin_transport::loopback::Limits;
use tocsin_transport::{Recv, Transport};

/// Two strides, and some more.
const LEN: usize = 10_000;

/// A pass of a thread that waits.
fn wait(w: &mut World, rank: u32) -> Pass {
    w.pass_with(rank, &mut Budget::user())
}

fn set_coming(w: &mut World, step: Option<u64>) {
    w.ranks[1].transport_mut().set_coming(step);
}

/// Two ranks, of which one receives into `target`, and what the other sends comes.
fn sent(target: &mut Target, data: &[u8], step: u64) -> (World, Id) {
    let mut w = World::new(2);
    let recv = w.irecv(1, Some(0), Some(5), target);
    let send = w.isend(0, 1, 5, data);
    assert_eq!(w.outcome(0, send).unwrap().code, Code::Ok);
    // So that it knows whom to look at.
    set_coming(&mut w, Some(0));
    w.pass(1);
    set_coming(&mut w, Some(step));
    (w, recv)
}

#[test]
fn who_waits_copies_what_comes() {
    let text = text(1, LEN);
    for step in [LEN as u64, 4096, 1024] {
        let mut target = Target::new(LEN);
        let (mut w, recv) = sent(&mut target, &text, step);
        assert!(w.ranks[1].has_coming());
        // A handler does not wait for it, nor does who only posts something.
        assert_eq!(w.pass(1), Pass::Idle);
        assert_eq!(w.pass_with(1, &mut Budget::user().in_passing()), Pass::Idle);
        assert!(w.outcome(1, recv).is_none());
        assert_eq!(wait(&mut w, 1), Pass::Worked);
        let outcome = w.outcome(1, recv).unwrap();
        assert_eq!((outcome.code, outcome.bytes, outcome.source), (Code::Ok, LEN as u64, 0));
        assert_eq!(target.bytes(), text);
        assert!(!w.ranks[1].has_coming(), "it is consumed");
    }
}

/// Its sender stops in the middle: whoever comes takes the whole when it is there.
#[test]
fn what_stops_is_not_waited_for_again() {
    let text = text(2, LEN);
    let mut target = Target::new(LEN);
    // One byte at a time is no news either.
    let (mut w, recv) = sent(&mut target, &text, 1);
    assert_eq!(wait(&mut w, 1), Pass::Idle);
    assert!(!w.ranks[1].has_coming());
    let looked = w.ranks[1].transport().come(0, Class::Eager);
    assert_eq!(wait(&mut w, 1), Pass::Idle);
    assert_eq!(w.ranks[1].transport().come(0, Class::Eager) - looked, 1, "it looks no more");
    set_coming(&mut w, None);
    assert_eq!(w.pass(1), Pass::Worked);
    assert_eq!(w.outcome(1, recv).unwrap().code, Code::Ok);
    assert_eq!(target.bytes(), text);
    // The next one is another matter.
    let recv = w.irecv(1, Some(0), Some(5), &mut target);
    w.isend(0, 1, 5, &text[1..]);
    set_coming(&mut w, Some(4096));
    assert!(w.ranks[1].has_coming());
    assert_eq!(wait(&mut w, 1), Pass::Worked);
    assert_eq!(w.outcome(1, recv).unwrap().bytes, LEN as u64 - 1);
}

#[test]
fn it_is_cut_like_others() {
    let text = text(3, LEN);
    let mut target = Target::new(5000);
    let (mut w, recv) = sent(&mut target, &text, 4096);
    assert_eq!(wait(&mut w, 1), Pass::Worked);
    let outcome = w.outcome(1, recv).unwrap();
    assert_eq!((outcome.code, outcome.bytes, outcome.detail), (Code::Truncated, LEN as u64, 5000));
    assert_eq!(target.bytes(), &text[..5000]);
}

/// Nobody has posted a receive for it: it is kept when it is whole; and the oldest receive that it meets has it.
#[test]
fn it_meets_what_it_would_have_met() {
    let (first, second) = (text(4, LEN), text(5, LEN));
    let mut other = Target::new(LEN);
    let (mut w, unmet) = sent(&mut other, b"", 0);
    set_coming(&mut w, None);
    w.settle();
    assert!(w.outcome(1, unmet).is_some());
    w.isend(0, 1, 6, &first);
    set_coming(&mut w, Some(4096));
    assert_eq!(wait(&mut w, 1), Pass::Idle);
    let (mut wild, mut exact) = (Target::new(LEN), Target::new(LEN));
    let posted = [w.irecv(1, None, None, &mut wild), w.irecv(1, Some(0), Some(6), &mut exact)];
    w.isend(0, 1, 6, &second);
    set_coming(&mut w, Some(4096));
    assert!(w.ranks[1].has_coming(), "a receive was posted for its sender");
    // But one of any source goes before, into whose buffer another's message may come meanwhile.
    assert_eq!(wait(&mut w, 1), Pass::Idle);
    assert!(!w.ranks[1].has_coming());
    assert!(wild.bytes().iter().all(|byte| *byte == 0xee));
    set_coming(&mut w, None);
    w.settle();
    assert!(posted.iter().all(|id| w.outcome(1, *id).is_some()));
    assert_eq!((wild.bytes(), exact.bytes()), (&first[..], &second[..]));
}

/// A large message, of which the first piece lies in the lane and comes so many bytes at a time.
fn sent_in_pieces(target: &mut Target, data: &[u8], from: u64, step: u64) -> (World, Id) {
    let mut w = World::new(2);
    let recv = w.irecv(1, Some(0), Some(5), target);
    w.isend(0, 1, 5, data);
    for rank in [0, 1] {
        w.pass(rank);
    }
    // It has been asked for.
    w.pass(0);
    w.ranks[1].transport_mut().set_coming_in(Class::Bulk, from, Some(step));
    (w, recv)
}

/// Several pieces.
const LARGE: usize = 300_000;

#[test]
fn who_waits_copies_pieces_as_they_come() {
    let text = text(6, LARGE);
    for step in [LARGE as u64, 4096, 2048] {
        let mut target = Target::new(LARGE);
        let (mut w, recv) = sent_in_pieces(&mut target, &text, 0, step);
        assert!(w.ranks[1].has_coming());
        assert_eq!(w.pass(1), Pass::Idle, "no handler waits for it");
        for _ in 0..100 {
            wait(&mut w, 1);
            w.pass(0);
        }
        let outcome = w.outcome(1, recv).unwrap();
        assert_eq!((outcome.code, outcome.bytes, outcome.source), (Code::Ok, LARGE as u64, 0));
        assert_eq!(target.bytes(), text);
    }
}

/// Its sender stops in the midst of a piece: the rest is taken when it is there, by whoever comes.
#[test]
fn a_piece_that_stops_is_gone_on_with_when_it_is_whole() {
    let text = text(7, LARGE);
    let mut target = Target::new(LARGE);
    const THERE: usize = 5000;
    let (mut w, recv) = sent_in_pieces(&mut target, &text, THERE as u64, 0);
    let Recv::Packet(piece) = w.ranks[1].transport_mut().peek_coming(0, Class::Bulk) else {
        panic!("it is there")
    };
    // The first piece is the message's last.
    let begins = LARGE - piece.len;
    wait(&mut w, 1);
    assert!(!w.ranks[1].has_coming(), "it is not waited for again");
    assert!(w.outcome(1, recv).is_none());
    let there = begins..begins + THERE;
    assert_eq!(target.bytes()[there.clone()], text[there.clone()]);
    assert!(target.bytes()[..begins].iter().chain(&target.bytes()[there.end..]).all(|byte| *byte == 0xee));
    w.ranks[1].transport_mut().set_coming_in(Class::Bulk, 0, None);
    w.settle();
    assert_eq!(w.outcome(1, recv).unwrap().code, Code::Ok);
    assert_eq!(target.bytes(), text);
}

/// Of two that wait, pieces are longer where there is room for such.
#[test]
fn pieces_are_long_where_there_is_room() {
    const BULK: usize = 256 << 10;
    const WHOLE: usize = 2 << 20;
    let text = text(8, WHOLE);
    for (waits, most) in [(true, WHOLE / BULK * 2 + 3), (false, usize::MAX)] {
        let limits = Limits { max_payload: [1 << 14, 1 << 14, 16, BULK], ..Limits::default() };
        let mut w = World::with(2, limits, Config { publish: true, ..Config::default() });
        let mut target = Target::new(WHOLE);
        let recv = w.irecv(1, Some(0), Some(5), &mut target);
        w.isend(0, 1, 5, &text);
        for rank in [0, 1].into_iter().cycle().take(1000) {
            let budget = Budget::user();
            w.pass_with(rank, &mut if waits { budget.waiting() } else { budget });
        }
        assert_eq!(w.outcome(1, recv).unwrap().code, Code::Ok);
        assert_eq!(target.bytes(), text);
        let packets = w.ranks[0].counters().packets_sent as usize;
        assert!(packets <= most && (waits || packets >= WHOLE >> 16), "{packets}");
    }
}
