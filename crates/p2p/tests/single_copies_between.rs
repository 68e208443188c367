//! What is taken in without a pass: an announcement before its receive is told to anybody, and the end of a message by who waits for it. And whom a handler has copy, too.

#![allow(clippy::unwrap_used)] // clippy exempts test functions only, not what they share

mod common;

use common::{Target, World, spread, text};
use tocsin_p2p::{Budget, Class, Code, ConstBuf, Mode, Pass, SendArgs};
use tocsin_progress::Context;

const LARGE: usize = 200_000;

/// Two ranks that have talked before, so that the pair's memory is there.
fn pair() -> World {
    let mut w = World::new(2);
    for rank in [0, 1] {
        w.ranks[rank].prepare_peer(1 - rank as u32, LARGE).unwrap();
    }
    (0..2).for_each(|rank| while w.pass(rank) != Pass::Idle {});
    w
}

/// A pass of a handler's, that copies one chunk.
fn entry(w: &mut World, rank: u32) {
    w.pass_with(rank, &mut Budget::limited(Context::Handler, 32, 1));
}

#[test]
fn an_announcement_that_is_there_is_answered_by_the_post() {
    let mut w = pair();
    let (data, mut target) = (text(1, LARGE), Target::new(LARGE));
    let send = w.isend(0, 1, 1, &data);
    let (recv, met) = w.irecv_long(1, Some(0), Some(1), &mut target);
    assert!(met && !w.ranks[1].takes_published(), "it was there before the buffer was told");
    // The receiver makes no pass from here on.
    assert!(w.ranks[1].is_unfinished(), "nobody is seen waiting");
    w.ranks[1].transport_mut().set_waiting(0, true);
    assert!(!w.ranks[1].is_unfinished(), "the sender goes on with it");
    assert!(w.ranks[1].is_left_to_who_waits() && !w.ranks[1].is_left_behind());
    // A thread that sleeps there until it is rung may have left it to this rank.
    w.ranks[1].transport_mut().set_attending(0);
    assert!(w.ranks[1].is_left_behind(), "who only comes when it is rung goes on with nothing");
    assert!(!w.ranks[1].is_unfinished() && w.ranks[1].is_left_to_who_waits(), "but has the first turn");
    w.pass_with(0, &mut Budget::user().waiting());
    assert_eq!((w.code(0, send), w.code(1, recv)), (Some(Code::Ok), None));
    assert!(w.ranks[1].has_answer(recv) && w.ranks[1].meet_end(recv));
    assert_eq!(w.code(1, recv), Some(Code::Ok));
    assert_eq!(target.bytes(), data);
    assert_eq!(w.ranks[1].counters().bytes_copied, [0; 3]);
}

#[test]
fn what_comes_before_an_announcement_stays_before_it() {
    for tag in [Some(1), None] {
        let mut w = pair();
        let (small, large) = (text(1, 10), text(2, LARGE));
        w.isend(0, 1, 2, &small);
        w.isend(0, 1, 1, &large);
        let (mut target, mut other) = (Target::new(LARGE), Target::new(LARGE));
        let (first, met) = w.irecv_long(1, Some(0), tag, &mut target);
        let (second, more) = w.irecv_long(1, Some(0), None, &mut other);
        assert_eq!((met, more), (true, false));
        w.settle();
        assert_eq!((w.code(1, first), w.code(1, second)), (Some(Code::Ok), Some(Code::Ok)));
        let (mine, theirs) = if tag.is_some() { (&large, &small) } else { (&small, &large) };
        assert_eq!((&target.bytes()[..mine.len()], &other.bytes()[..theirs.len()]), (&mine[..], &theirs[..]));
    }
}

#[test]
fn a_receive_that_nothing_in_the_lane_is_for_is_published() {
    let mut w = pair();
    let (small, data) = (text(1, 10), text(2, LARGE));
    let (mut target, mut other) = (Target::new(LARGE), Target::new(10));
    w.isend(0, 1, 2, &small);
    let (recv, met) = w.irecv_long(1, Some(0), Some(1), &mut target);
    assert!(met && w.ranks[1].takes_published());
    let send = w.isend(0, 1, 1, &data);
    w.pass_with(0, &mut Budget::user().waiting());
    assert_eq!(w.code(0, send), Some(Code::Ok), "it has found the buffer");
    assert!(w.ranks[1].meet_end(recv));
    assert_eq!((w.code(1, recv), target.bytes() == data), (Some(Code::Ok), true));
    let kept = w.irecv(1, Some(0), Some(2), &mut other);
    assert_eq!((w.code(1, kept), other.bytes() == small), (Some(Code::Ok), true));
}

#[test]
fn the_end_of_a_message_into_a_published_receive_is_met_without_a_pass() {
    let mut w = pair();
    for round in 0..3 {
        let (data, mut target) = (text(round, LARGE), Target::new(LARGE));
        let recv = w.irecv(1, Some(0), Some(3), &mut target);
        assert!(!w.ranks[1].has_answer(recv) && !w.ranks[1].meet_end(recv));
        let send = w.isend(0, 1, 3, &data);
        entry(&mut w, 0);
        assert!(!w.ranks[1].meet_end(recv), "a part of it is copied");
        assert_eq!(w.code(1, recv), None);
        while w.pass(0) != Pass::Idle {}
        assert!(w.ranks[1].has_answer(recv) && w.ranks[1].meet_end(recv));
        assert_eq!((w.code(0, send), w.code(1, recv)), (Some(Code::Ok), Some(Code::Ok)));
        assert_eq!(target.bytes(), data);
        w.ranks[0].release(send);
        w.ranks[1].release(recv);
    }
    assert_eq!(w.ranks[1].counters().bytes_copied, [0; 3]);
}

/// A receive that is published asks for what its sender announces all the same; the attention word, which all read, does not.
#[test]
fn what_is_announced_beside_a_published_receive_is_answered_by_the_post() {
    let mut w = pair();
    let (data, mut target, mut other) = (text(3, LARGE), Target::new(LARGE), Target::new(LARGE));
    for round in 0..3 {
        assert!(!w.ranks[1].takes_published());
        // Between the look of the post and the publication.
        let send = w.isend(0, 1, 1, &data);
        let recv = w.irecv(1, Some(0), Some(1), &mut target);
        assert!(!w.ranks[1].wants_offers(), "the sender asks what is published");
        assert!(w.ranks[1].take_in_after(0) && !w.ranks[1].take_in_after(0), "{round}");
        // The receiver makes no pass from here on.
        w.ranks[1].transport_mut().set_waiting(0, true);
        assert!(!w.ranks[1].is_unfinished(), "it is answered");
        w.pass_with(0, &mut Budget::user().waiting());
        assert!(w.ranks[1].has_answer(recv) && w.ranks[1].meet_end(recv));
        assert_eq!((w.code(0, send), w.code(1, recv)), (Some(Code::Ok), Some(Code::Ok)));
        assert_eq!(target.bytes(), data);
        w.ranks[0].release(send);
        w.ranks[1].release(recv);
    }
    let first = w.irecv(1, Some(0), Some(1), &mut target);
    assert!(
        !w.ranks[1].wants_offers() && w.ranks[1].takes_published(),
        "who does not look so has the engine look"
    );
    let second = w.irecv(1, Some(0), Some(2), &mut other);
    assert!(w.ranks[1].wants_offers() && !w.ranks[1].takes_published(), "one is published");
    assert!(w.ranks[1].cancel(first) && w.ranks[1].wants_offers());
    assert!(w.ranks[1].cancel(second) && !w.ranks[1].wants_offers());
}

/// More than a post takes in, before its receive is published and afterwards, is left to the engine's look.
#[test]
fn what_a_post_leaves_in_the_lane_is_looked_at() {
    for before in [true, false] {
        let mut w = pair();
        let (small, data, mut target) = (text(1, 10), text(2, LARGE), Target::new(LARGE));
        for _ in 0..20 {
            w.isend(0, 1, 7, &small);
        }
        let send = w.isend(0, 1, 1, &data);
        let recv = if before {
            let (recv, met) = w.irecv_long(1, Some(0), Some(1), &mut target);
            assert!(met);
            recv
        } else {
            let recv = w.irecv(1, Some(0), Some(1), &mut target);
            assert!(w.ranks[1].take_in_after(0));
            recv
        };
        assert!(w.ranks[1].takes_published());
        w.settle();
        assert_eq!((w.code(0, send), w.code(1, recv)), (Some(Code::Ok), Some(Code::Ok)));
        assert_eq!(target.bytes(), data);
    }
}

/// Who meets one end after the other makes a pass for everybody else now and then.
#[test]
fn others_have_their_turn_between_ends() {
    let mut w = pair();
    let (data, mut target) = (text(4, LARGE), Target::new(LARGE));
    let mut met = 0;
    loop {
        let recv = w.irecv(1, Some(0), Some(3), &mut target);
        let send = w.isend(0, 1, 3, &data);
        while w.pass(0) != Pass::Idle {}
        if !w.ranks[1].has_answer(recv) {
            assert!(w.ranks[1].work_left(), "a wait makes a pass");
            while w.pass(1) != Pass::Idle {}
            assert_eq!(w.code(1, recv), Some(Code::Ok));
            w.ranks[1].release(recv);
            break;
        }
        assert!(w.ranks[1].meet_end(recv));
        met += 1;
        assert!(met < 100, "nobody else is looked at");
        w.ranks[0].release(send);
        w.ranks[1].release(recv);
    }
    assert!(met > 1);
    // It has looked.
    let recv = w.irecv(1, Some(0), Some(3), &mut target);
    w.isend(0, 1, 3, &data);
    while w.pass(0) != Pass::Idle {}
    assert!(w.ranks[1].has_answer(recv) && w.ranks[1].meet_end(recv));
    assert_eq!(target.bytes(), data);
}

#[test]
fn the_end_of_a_message_that_was_pulled_is_met_without_a_pass() {
    let mut w = pair();
    let (data, mut target) = (text(1, LARGE), Target::new(LARGE));
    let send = w.isend(0, 1, 1, &data);
    let recv = w.irecv(1, Some(0), Some(1), &mut target);
    entry(&mut w, 1);
    assert!(!w.ranks[0].meet_end(send), "it has its answer now, and chunks are left");
    while w.pass(1) != Pass::Idle {}
    assert!(w.ranks[0].has_answer(send) && w.ranks[0].meet_end(send));
    assert_eq!((w.code(0, send), w.code(1, recv)), (Some(Code::Ok), Some(Code::Ok)));
    assert_eq!(target.bytes(), data);
}

/// An answer that is not the end sets something going that only a pass goes on with.
#[test]
fn an_answer_that_is_no_end_leaves_work() {
    let mut w = pair();
    let (data, mut target) = (text(1, LARGE), Target::new(LARGE));
    // In pieces, because its buffer is strided.
    let (memory, layout) = spread(&data, 1000);
    let args = SendArgs {
        context: 0,
        dest: 1,
        tag: 1,
        buf: ConstBuf { base: memory.as_ptr(), layout },
        mode: Mode::Standard,
        class: Class::Eager,
        cookie: 0,
    };
    // SAFETY: the buffer lives as long as the world.
    let send = unsafe { w.ranks[0].isend(args) }.unwrap();
    let recv = w.irecv(1, Some(0), Some(1), &mut target);
    entry(&mut w, 1);
    assert!(w.ranks[0].has_answer(send));
    assert!(!w.ranks[0].meet_end(send) && !w.ranks[0].has_answer(send));
    assert!(w.ranks[0].work_left(), "nothing else would have the pieces sent");
    w.settle();
    assert_eq!((w.code(0, send), w.code(1, recv)), (Some(Code::Ok), Some(Code::Ok)));
    assert_eq!(target.bytes(), data);
}

/// What is answered to another request is left to a pass, which goes on with it.
#[test]
fn an_answer_to_another_is_left_where_it_is() {
    let mut w = pair();
    let (data, other) = (text(1, LARGE), text(2, LARGE));
    let (mut target, mut second) = (Target::new(LARGE), Target::new(LARGE));
    let sends = [w.isend(0, 1, 1, &data), w.isend(0, 1, 2, &other)];
    let receives = [w.irecv(1, Some(0), Some(1), &mut target), w.irecv(1, Some(0), Some(2), &mut second)];
    while w.pass(1) != Pass::Idle {}
    assert!(w.ranks[0].has_answer(sends[1]) && !w.ranks[0].meet_end(sends[1]));
    assert_eq!(sends.map(|id| w.code(0, id)), [None; 2]);
    w.settle();
    assert_eq!(sends.map(|id| w.code(0, id)), [Some(Code::Ok); 2]);
    assert_eq!(receives.map(|id| w.code(1, id)), [Some(Code::Ok); 2]);
    assert_eq!((target.bytes(), second.bytes()), (&data[..], &other[..]));
}

/// Where both compute, the handler that begins has the other one copy, too, once; that one calls nobody.
#[test]
fn handlers_of_both_copy() {
    for published in [true, false] {
        let mut w = pair();
        let (data, mut target) = (text(2, LARGE), Target::new(LARGE));
        let early = published.then(|| w.irecv(1, Some(0), Some(1), &mut target));
        let send = w.isend(0, 1, 1, &data);
        let recv = early.unwrap_or_else(|| w.irecv(1, Some(0), Some(1), &mut target));
        let first = if published { 0 } else { 1 };
        let answered = |w: &World| w.ranks[1 - first].has_answer(if published { recv } else { send });
        assert!(!answered(&w), "{published}");
        entry(&mut w, first as u32);
        assert!(answered(&w), "{published}");
        for _ in 0..3 {
            entry(&mut w, 1 - first as u32);
            entry(&mut w, first as u32);
        }
        w.settle();
        assert_eq!((w.code(0, send), w.code(1, recv)), (Some(Code::Ok), Some(Code::Ok)));
        assert_eq!(target.bytes(), data);
        for rank in &w.ranks {
            let [_, by_handler, _] = rank.counters().bytes_copied;
            assert!(by_handler >= LARGE as u64 / 3, "{published}: {by_handler}");
        }
        // The announcement, its answer if there was one, the call, and the end.
        let sent: u64 = w.ranks.iter().map(|rank| rank.counters().packets_sent).sum();
        assert_eq!(sent, if published { 3 } else { 4 });
    }
}

#[test]
fn nobody_is_called_for_little_or_by_who_is_no_handler() {
    // Nor by one whose own thread waits.
    let table =
        [(40_000, Context::Handler, false), (LARGE, Context::User, false), (LARGE, Context::Handler, true)];
    for (bytes, context, waits) in table {
        let mut w = pair();
        w.ranks[0].transport_mut().set_waiting(0, waits);
        let (data, mut target) = (text(2, bytes), Target::new(bytes));
        let recv = w.irecv(1, Some(0), Some(1), &mut target);
        let send = w.isend(0, 1, 1, &data);
        w.pass_with(0, &mut Budget::limited(context, 32, 1));
        assert!(!w.ranks[1].has_answer(recv), "{bytes} {context:?}");
        w.settle();
        assert_eq!((w.code(0, send), w.code(1, recv)), (Some(Code::Ok), Some(Code::Ok)));
        assert_eq!(target.bytes(), data);
    }
}

/// Who is about to wait leaves its copies to its next pass, when peers see it waiting, and nothing else.
#[test]
fn who_is_about_to_wait_copies_when_it_does() {
    for published in [true, false] {
        let mut w = pair();
        let (data, small) = (text(2, LARGE), text(3, 100));
        let (mut target, mut other) = (Target::new(LARGE), Target::new(100));
        let early = published.then(|| w.irecv(1, Some(0), Some(1), &mut target));
        let send = w.isend(0, 1, 1, &data);
        w.isend(0, 1, 2, &small);
        let recv = early.unwrap_or_else(|| w.irecv(1, Some(0), Some(1), &mut target));
        let short = w.irecv(1, Some(0), Some(2), &mut other);
        for rank in [1, 0, 1] {
            w.pass_with(rank, &mut Budget::user().sparing());
        }
        assert_eq!(w.code(1, short), Some(Code::Ok));
        assert_eq!((w.code(0, send), w.code(1, recv)), (None, None));
        assert!(w.ranks.iter().all(|rank| rank.counters().bytes_copied[0] <= 200), "{published}");
        assert!(w.ranks[1].work_left(), "a wait finds it at its first look");
        w.pass_with(1, &mut Budget::user().waiting());
        assert!(w.ranks[1].counters().bytes_copied[0] >= LARGE as u64, "{published}");
        w.settle();
        assert_eq!((w.code(0, send), w.code(1, recv)), (Some(Code::Ok), Some(Code::Ok)));
        assert_eq!((target.bytes(), other.bytes()), (&data[..], &small[..]));
    }
}
