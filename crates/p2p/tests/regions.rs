//! Buffers that are exposed before they are copied from or to: that they are not any more when nobody uses them, and what becomes of messages whose buffers are not.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Target, World, text};
use tocsin_p2p::{Budget, Class, Code, Mode, Pass, RecvArgs};
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
                assert!(sender + receiver > 0, "{class:?} {before}");
                assert_eq!(exposed(&w), [0, 0], "{class:?} {before}");
            }
        }
    }
}

/// Of a receive with much more room than its message takes, no more is exposed than that.
#[test]
fn long_receives_are_not_published() {
    let mut w = pair();
    let (data, mut target) = (text(3, LEN), Target::new(5 << 20));
    let recv = w.irecv(1, Some(0), Some(1), &mut target);
    assert_eq!(exposed(&w), [0, 0]);
    let send = w.isend(0, 1, 1, &data);
    assert_eq!(exposed(&w), [1, 0]);
    settle(&mut w);
    assert_eq!((w.code(0, send), w.code(1, recv)), (Some(Code::Ok), Some(Code::Ok)));
    assert_eq!((target.bytes()[..LEN] == data, exposed(&w)), (true, [0, 0]));
    assert!(w.ranks[0].transport().copies() + w.ranks[1].transport().copies() > 0);
}

/// Messages arrive, whoever's buffers the kernel does not take.
#[test]
fn who_exposes_nothing_copies_alone() {
    for class in [Class::Eager, Class::Coll] {
        for before in [false, true] {
            let mut w = pair();
            refuse(&mut w, 1, true);
            let [sender, receiver] = message(&mut w, class, before);
            assert!(sender == 0 && receiver > 0, "{class:?} {before}: {sender} {receiver}");
            refuse(&mut w, 0, true);
            assert_eq!(message(&mut w, class, before), [0, 0], "{class:?} {before}: through the lanes");
            refuse(&mut w, 1, false);
            assert_eq!(
                message(&mut w, class, before),
                [0, 0],
                "{class:?} {before}: the receiver cannot pull"
            );
            refuse(&mut w, 0, false);
            let [sender, receiver] = message(&mut w, class, before);
            assert!(sender + receiver > 0, "{class:?} {before}");
            assert_eq!(exposed(&w), [0, 0]);
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

/// A handler that takes an offer does not have the kernel look at so many pages: it copies alone.
#[test]
fn handlers_expose_little() {
    for (len, helped) in [(1 << 20, true), ((1 << 20) + 1, false)] {
        let mut w = pair();
        let (data, mut target) = (text(9, len), Target::new(len));
        let recv = w.irecv(1, None, Some(1), &mut target);
        let send = w.isend(0, 1, 1, &data);
        w.pass_with(1, &mut Budget::limited(Context::Handler, 32, 1));
        assert_eq!(exposed(&w), [1, usize::from(helped)], "{len}");
        for _ in 0..100 {
            settle(&mut w);
        }
        assert_eq!((w.code(0, send), w.code(1, recv)), (Some(Code::Ok), Some(Code::Ok)));
        assert!(target.bytes() == data);
        assert_eq!((w.ranks[0].transport().copies() > 0, exposed(&w)), (helped, [0, 0]), "{len}");
    }
}

/// A receive that ends by anything but its message is not exposed any more.
#[test]
fn what_is_cancelled_is_concealed() {
    let mut w = pair();
    let mut target = Target::new(LEN);
    let recv = w.irecv(1, Some(0), Some(1), &mut target);
    assert_eq!(exposed(&w), [0, 1], "it is published");
    assert!(w.ranks[1].cancel(recv));
    assert_eq!(exposed(&w), [0, 0]);
    w.ranks[1].release(recv);
    // One that another message meets, which is short.
    let recv = w.irecv(1, Some(0), Some(1), &mut target);
    let send = w.isend(0, 1, 1, &[5; 8]);
    settle(&mut w);
    assert_eq!((w.code(0, send), w.code(1, recv)), (Some(Code::Ok), Some(Code::Ok)));
    assert_eq!(exposed(&w), [0, 0]);
    // A send that nobody receives, abandoned.
    let data = text(1, LEN);
    let send = w.isend(0, 1, 1, &data);
    settle(&mut w);
    assert_eq!(exposed(&w), [1, 0]);
    w.ranks[0].abandon(send);
    assert_eq!(exposed(&w), [0, 0]);
}
