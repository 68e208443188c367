//! Buffers that are exposed before they are copied from: that they are not any more when nobody uses them, and what becomes of messages whose buffers are not.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Target, World, text};
use tocsin_p2p::{Budget, Class, Code, ConstBuf, Mode, Pass, RecvArgs, SendArgs};
use tocsin_progress::Context;
use tocsin_transport::Reach;

const LEN: usize = 300_000;

fn settle(w: &mut World) {
    for _ in 0..100 {
        if (0..2).map(|rank| w.pass(rank)).filter(|pass| *pass != Pass::Idle).count() == 0 {
            break;
        }
    }
}

fn pair() -> World {
    let mut w = World::new(2);
    (0..2).for_each(|rank| w.ranks[rank].prepare_peer(1 - rank as u32, LEN).unwrap());
    settle(&mut w);
    w
}

fn exposed(w: &World) -> [usize; 2] {
    [0, 1].map(|rank| w.ranks[rank].transport().exposed())
}

fn refuse(w: &mut World, rank: usize, refuses: bool) {
    w.ranks[rank].transport_mut().set_refuses_regions(refuses);
}

/// One message, its receive posted before or after. Copies made by the sender and by the receiver.
fn message(w: &mut World, class: Class, before: bool) -> [u64; 2] {
    let (data, mut target) = (text(7, LEN), Target::new(LEN));
    let copies = |w: &World| [0, 1].map(|rank| w.ranks[rank].transport().copies());
    let made = copies(w);
    let post = |w: &mut World, target: &mut Target| {
        let recv =
            RecvArgs { context: 0, source: Some(0), tag: Some(1), buf: target.buf(), class, cookie: 0 };
        // SAFETY: the target lives longer.
        unsafe { w.ranks[1].irecv(recv) }.unwrap()
    };
    let early = before.then(|| post(w, &mut target));
    let send = w.isend_with(0, 1, 1, &data, Mode::Standard, class);
    if !before {
        settle(w);
    }
    let recv = early.unwrap_or_else(|| post(w, &mut target));
    settle(w);
    assert_eq!((w.code(0, send), w.code(1, recv)), (Some(Code::Ok), Some(Code::Ok)));
    assert_eq!(target.bytes(), data);
    w.ranks[0].release(send);
    w.ranks[1].release(recv);
    let now = copies(w);
    [0, 1].map(|rank| now[rank] - made[rank])
}

#[test]
fn nothing_is_exposed_that_is_not_used() {
    let mut w = pair();
    for class in [Class::Eager, Class::Coll] {
        for before in [false, true] {
            for _ in 0..3 {
                let [sender, receiver] = message(&mut w, class, before);
                assert!(sender == 0 && receiver > 0, "{class:?} {before}: the receiver copies");
                assert_eq!(exposed(&w), [0, 0], "{class:?} {before}");
            }
        }
    }
}

/// Messages arrive whose buffers the kernel does not take.
#[test]
fn what_is_not_exposed_goes_through_lanes() {
    for class in [Class::Eager, Class::Coll] {
        for before in [false, true] {
            let mut w = pair();
            refuse(&mut w, 0, true);
            assert_eq!(message(&mut w, class, before), [0, 0], "{class:?} {before}");
            refuse(&mut w, 0, false);
            refuse(&mut w, 1, true);
            let [sender, receiver] = message(&mut w, class, before);
            assert!(sender == 0 && receiver > 0, "{class:?} {before}: {sender} {receiver}");
            assert_eq!(exposed(&w), [0, 0]);
        }
    }
}

/// What a sender exposes less of than it has announced comes otherwise, all of it.
#[test]
fn what_is_exposed_in_part_goes_through_lanes() {
    for class in [Class::Eager, Class::Coll] {
        for (before, exposed_max) in
            [false, true].into_iter().flat_map(|b| [0, 1, LEN / 2, LEN - 1].map(|max| (b, max)))
        {
            let mut w = pair();
            w.ranks[0].transport_mut().set_exposed_max(exposed_max);
            message(&mut w, class, before);
            assert_eq!(exposed(&w), [0, 0], "{class:?} {before} {exposed_max}");
        }
    }
}

/// Messages arrive where one rank reaches the other otherwise than it is reached, or not at all.
#[test]
fn two_may_reach_each_other_in_different_ways() {
    let ways = [Reach::Region, Reach::Kernel, Reach::None];
    for (sends, receives) in ways.into_iter().flat_map(|sends| ways.map(|receives| (sends, receives))) {
        for class in [Class::Eager, Class::Coll] {
            let mut w = pair();
            w.ranks[0].transport_mut().set_reach(sends);
            w.ranks[1].transport_mut().set_reach(receives);
            for before in [false, true, false] {
                message(&mut w, class, before);
                assert_eq!(exposed(&w), [0, 0], "{sends:?} {receives:?} {class:?} {before}");
            }
        }
    }
}

/// A handler that begins a step of a collective does not have the kernel look at so many pages.
#[test]
fn handlers_expose_little() {
    for (len, exposes) in [(256 << 10, true), ((256 << 10) + 1, false)] {
        for context in [Context::User, Context::Handler] {
            let mut w = pair();
            w.ranks[0].prepare_peer(1, len).unwrap();
            let (data, mut target) = (text(9, len), Target::new(len));
            let (buf, class) = (ConstBuf::contiguous(data.as_ptr(), len), Class::Coll);
            let recv =
                RecvArgs { context: 0, source: Some(0), tag: Some(1), buf: target.buf(), class, cookie: 0 };
            // SAFETY: the target lives longer.
            let recv = unsafe { w.ranks[1].irecv(recv) }.unwrap();
            let send = w.ranks[0].reserve_request().unwrap();
            w.pass_with(0, &mut Budget::limited(context, 32, 1));
            let args = SendArgs { context: 0, dest: 1, tag: 1, buf, mode: Mode::Standard, class, cookie: 0 };
            // SAFETY: the data live longer.
            unsafe { w.ranks[0].start_send(send, args) };
            let is_told = exposes || context == Context::User;
            assert_eq!(exposed(&w), [usize::from(is_told), 0], "{len} {context:?}");
            for _ in 0..100 {
                settle(&mut w);
            }
            assert_eq!((w.code(0, send), w.code(1, recv)), (Some(Code::Ok), Some(Code::Ok)));
            assert!(target.bytes() == data);
            assert_eq!((w.ranks[1].transport().copies() > 0, exposed(&w)), (is_told, [0, 0]), "{len}");
        }
    }
}

/// Receives are not exposed, and sends that nobody receives no longer than they last.
#[test]
fn what_is_given_up_is_concealed() {
    let mut w = pair();
    let mut target = Target::new(LEN);
    let recv = w.irecv(1, Some(0), Some(1), &mut target);
    assert_eq!(exposed(&w), [0, 0]);
    let send = w.isend(0, 1, 1, &[5; 8]);
    settle(&mut w);
    assert_eq!((w.code(0, send), w.code(1, recv)), (Some(Code::Ok), Some(Code::Ok)));
    let data = text(1, LEN);
    let send = w.isend(0, 1, 1, &data);
    settle(&mut w);
    assert_eq!(exposed(&w), [1, 0]);
    w.ranks[0].abandon(send);
    assert_eq!(exposed(&w), [0, 0]);
}

/// An announcement that is still to be read when its send is given up, and its record and its key serve the next: that arrives whole, and nothing of it where the first
/// would have gone, or in a receive that nobody has sent to.
#[test]
fn a_stale_announcement_brings_nothing() {
    for (class, early) in
        [(Class::Eager, true), (Class::Eager, false), (Class::Coll, true), (Class::Coll, false)]
    {
        let mut w = pair();
        let (first, second) = (text(1, LEN), text(2, LEN));
        let [mut one, mut two, mut three] = [(); 3].map(|()| Target::new(LEN));
        let post = |w: &mut World, target: &mut Target, tag| {
            let buf = target.buf();
            let recv = RecvArgs { context: 0, source: None, tag: Some(tag), buf, class, cookie: 0 };
            // SAFETY: the targets live longer.
            unsafe { w.ranks[1].irecv(recv) }.unwrap()
        };
        let mut receives = Vec::new();
        if early {
            receives = vec![post(&mut w, &mut one, 1), post(&mut w, &mut two, 2)];
        }
        let given_up = w.isend_with(0, 1, 1, &first, Mode::Standard, class);
        match class {
            Class::Coll => assert!(w.ranks[0].abandon_collective(given_up)),
            _ => w.ranks[0].abandon(given_up),
        }
        let send = w.isend_with(0, 1, 2, &second, Mode::Standard, class);
        if !early {
            settle(&mut w);
            receives = vec![post(&mut w, &mut one, 1), post(&mut w, &mut two, 2)];
        }
        let third = post(&mut w, &mut three, 3);
        w.pass_with(1, &mut Budget::limited(Context::Handler, 32, 1));
        w.pass_with(0, &mut Budget::limited(Context::Handler, 32, 1));
        for _ in 0..50 {
            settle(&mut w);
        }
        assert_eq!(
            (w.code(0, send), w.code(1, receives[1])),
            (Some(Code::Ok), Some(Code::Ok)),
            "{class:?} {early}"
        );
        assert!(two.bytes() == second, "{class:?} {early}");
        assert_ne!(w.code(1, receives[0]), Some(Code::Ok));
        assert_eq!((w.code(1, third), exposed(&w)), (None, [0, 0]));
        assert!(three.bytes().iter().all(|byte| *byte == 0xee), "{class:?} {early}");
        let same = one.bytes().iter().zip(&second).filter(|(a, b)| a == b).count();
        assert!(same < LEN / 50, "{class:?} {early}: {same} bytes of the second in the first's place");
    }
}
