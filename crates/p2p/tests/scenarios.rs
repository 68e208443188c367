//! One behaviour per test.

#![allow(clippy::unwrap_used, clippy::expect_used)] // clippy exempts test functions only, not what they share

mod common;

use common::{ANY, Target, World, spread, text};
use tocsin_p2p::{Budget, Class, Code, ConstBuf, Error, Mode, MutBuf, RecvArgs, SendArgs};
use tocsin_progress::Context;
use tocsin_transport::Transport;

#[test]
fn every_size_either_order_either_mode() {
    for mode in [Mode::Standard, Mode::Synchronous] {
        for class in [Class::Eager, Class::Coll] {
            for posted_first in [true, false] {
                for to in [0, 1] {
                    let mut w = World::tight(2);
                    for len in [0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1000, 70_000] {
                        let data = text(len as u64, len);
                        let mut target = Target::new(len);
                        let args = RecvArgs {
                            context: 0,
                            source: Some(0),
                            tag: Some(5),
                            buf: target.buf(),
                            class,
                            cookie: 0,
                        };
                        let mut recv = None;
                        if posted_first {
                            // SAFETY: the target outlives the receive.
                            recv = Some(unsafe { w.ranks[to as usize].irecv(args) }.unwrap());
                        }
                        let send = w.isend_with(0, to, 5, &data, mode, class);
                        w.settle();
                        if !posted_first {
                            let done = w.outcome(0, send).is_some();
                            assert_eq!(done, mode == Mode::Standard && len <= 64, "{len} {mode:?}");
                            // SAFETY: as above.
                            recv = Some(unsafe { w.ranks[to as usize].irecv(args) }.unwrap());
                            w.settle();
                        }
                        let outcome = w.outcome(to, recv.unwrap()).unwrap();
                        assert_eq!((outcome.code, outcome.source, outcome.tag), (Code::Ok, 0, 5));
                        assert_eq!(outcome.bytes, len as u64);
                        assert_eq!(target.bytes(), data);
                        assert_eq!(w.code(0, send), Some(Code::Ok));
                        w.ranks[0].release(send);
                        w.ranks[to as usize].release(recv.unwrap());
                    }
                    assert_eq!(w.ranks[0].outstanding_sends(), 0);
                }
            }
        }
    }
}

#[test]
fn layouts_on_both_sides() {
    for len in [0usize, 7, 60, 64, 65, 500, 5000] {
        for (from_block, to_block) in [(1, 5), (7, 7), (64, 3), (1000, 9)] {
            let mut w = World::tight(2);
            let data = text(9, len);
            let (memory, _) = spread(&data, from_block);
            // The last block may be cut by the layout: send whole blocks.
            let count = len / from_block;
            let sent = count * from_block;
            let layout =
                tocsin_p2p::Layout::Strided { block: from_block, stride: from_block as isize + 3, count };
            let (mut into, room) = spread(&vec![0; len], to_block);
            let before = into.clone();
            let recv = RecvArgs {
                context: 3,
                source: None,
                tag: None,
                buf: MutBuf { base: into.as_mut_ptr(), layout: room },
                class: Class::Eager,
                cookie: 0,
            };
            let send = SendArgs {
                context: 3,
                dest: 1,
                tag: 0,
                buf: ConstBuf { base: memory.as_ptr(), layout },
                mode: Mode::Standard,
                class: Class::Eager,
                cookie: 0,
            };
            // SAFETY: both live to the end of the test.
            let (r, s) = unsafe { (w.ranks[1].irecv(recv).unwrap(), w.ranks[0].isend(send).unwrap()) };
            w.settle();
            assert_eq!(w.code(0, s), Some(Code::Ok));
            assert_eq!(w.outcome(1, r).unwrap().bytes, sent as u64);
            let mut expected = before;
            for (i, byte) in data[..sent].iter().enumerate() {
                expected[i / to_block * (to_block + 3) + i % to_block] = *byte;
            }
            assert!(into == expected, "{len} bytes, blocks {from_block} to {to_block}");
        }
    }
}

#[test]
fn truncation_is_an_error_on_one_request() {
    for (len, posted_first, mode) in [
        (50, true, Mode::Standard),
        (50, false, Mode::Standard),
        (50, false, Mode::Synchronous),
        (500, true, Mode::Standard),
        (500, false, Mode::Synchronous),
    ] {
        let mut w = World::tight(2);
        let (long, fits) = (text(1, len), text(2, len));
        let (mut short, mut whole) = (Target::new(10), Target::new(len));
        let mut recvs = None;
        if posted_first {
            recvs =
                Some([w.irecv(1, Some(0), Some(1), &mut short), w.irecv(1, Some(0), Some(1), &mut whole)]);
        }
        let sends = [&long, &fits].map(|data| w.isend_with(0, 1, 1, data, mode, Class::Eager));
        w.settle();
        let [first, second] = recvs.unwrap_or_else(|| {
            [w.irecv(1, Some(0), Some(1), &mut short), w.irecv(1, Some(0), Some(1), &mut whole)]
        });
        w.settle();
        let outcome = w.outcome(1, first).unwrap();
        assert_eq!((outcome.code, outcome.bytes, outcome.detail), (Code::Truncated, len as u64, 10));
        assert_eq!(w.code(1, second), Some(Code::Ok));
        assert_eq!(whole.bytes(), fits);
        let beginning = if len <= 64 { long[..10].to_vec() } else { vec![0xee; 10] };
        assert_eq!(short.bytes(), beginning);
        assert!(sends.iter().all(|s| w.code(0, *s) == Some(Code::Ok)));
    }
}

#[test]
fn cancel_before_and_after_the_match() {
    let mut w = World::tight(2);
    let data = text(1, 1000);
    let (mut a, mut b) = (Target::new(1000), Target::new(1000));
    let first = w.irecv(1, None, None, &mut a);
    assert!(w.ranks[1].cancel(first));
    assert_eq!(w.code(1, first), Some(Code::Cancelled));
    assert!(!w.ranks[1].cancel(first));
    let second = w.irecv(1, None, None, &mut b);
    let send = w.isend(0, 1, 0, &data);
    assert!(!w.ranks[0].cancel(send));
    w.pass(0);
    w.pass(1);
    assert!(!w.ranks[1].cancel(second), "matched");
    w.settle();
    assert_eq!(w.code(1, second), Some(Code::Ok));
    assert_eq!(b.bytes(), data);
    assert!(a.bytes().iter().all(|x| *x == 0xee));
}

#[test]
fn probes() {
    let mut w = World::tight(3);
    assert_eq!(w.ranks[1].iprobe(0, None, None).unwrap(), None);
    for rank in [9, u32::MAX] {
        let refused = w.ranks[1].iprobe(0, Some(rank), None);
        assert!(matches!(refused, Err(Error::NoSuchRank { rank: no, size: 3 }) if no == rank), "{refused:?}");
    }
    let (small, large) = (text(1, 20), text(2, 2000));
    let sends = [w.isend(0, 1, 7, &large), w.isend(0, 1, 7, &small)];
    w.settle();
    let status = w.ranks[1].iprobe(0, Some(0), Some(7)).unwrap().unwrap();
    assert_eq!((status.source, status.tag, status.bytes), (0, 7, 2000));
    assert_eq!(w.ranks[1].iprobe(1, Some(0), Some(7)).unwrap(), None, "another context");
    let (message, status) = w.ranks[1].improbe(0, None, None).unwrap().unwrap();
    assert_eq!(status.bytes, 2000);
    assert_eq!(w.ranks[1].iprobe(0, None, None).unwrap().unwrap().bytes, 20, "taken out of matching");
    let (mut a, mut b) = (Target::new(2000), Target::new(20));
    let recv = w.irecv(1, None, None, &mut b);
    // SAFETY: the target lives to the end.
    let whole = unsafe { w.ranks[1].mrecv(message, a.buf(), 0) }.unwrap();
    // SAFETY: as above.
    assert!(matches!(unsafe { w.ranks[1].mrecv(message, a.buf(), 0) }, Err(Error::NoSuchMessage)));
    w.settle();
    assert_eq!((w.code(1, recv), w.code(1, whole)), (Some(Code::Ok), Some(Code::Ok)));
    assert_eq!((a.bytes(), b.bytes()), (&large[..], &small[..]));
    assert!(sends.iter().all(|s| w.code(0, *s) == Some(Code::Ok)));
}

#[test]
fn wildcards_take_the_earliest_and_the_earliest_posted_wins() {
    let mut w = World::new(2);
    let data: Vec<_> = (0..4).map(|i| text(i, 8)).collect();
    let mut targets: Vec<_> = (0..4).map(|_| Target::new(8)).collect();
    let patterns = [(Some(0), None), (None, Some(2)), (Some(0), Some(2)), ANY];
    let ids: Vec<_> = patterns.iter().zip(&mut targets).map(|((s, t), b)| w.irecv(1, *s, *t, b)).collect();
    for (tag, bytes) in [2, 2, 2, 1].into_iter().zip(&data) {
        w.isend(0, 1, tag, bytes);
    }
    w.settle();
    for (n, target) in targets.iter().enumerate() {
        assert_eq!(target.bytes(), data[n], "receive {n}");
        assert_eq!(w.code(1, ids[n]), Some(Code::Ok));
    }
}

#[test]
fn large_messages_to_one_peer_take_turns() {
    let mut w = World::tight(2);
    let data: Vec<_> = (0..3).map(|n| text(n, 12_800)).collect();
    let mut targets: Vec<_> = (0..3).map(|_| Target::new(12_800)).collect();
    let recvs: Vec<_> = targets.iter_mut().map(|t| w.irecv(1, Some(0), None, t)).collect();
    for d in &data {
        w.isend(0, 1, 0, d);
    }
    let mut passes = 0;
    while recvs.iter().all(|r| w.code(1, *r).is_none()) {
        w.pass(0);
        w.pass(1);
        passes += 1;
        assert!(passes < 10_000);
    }
    w.pass(0);
    w.pass(1);
    // Equal lengths in turn: the others are nearly there; but for those that go another way than through the lane.
    for _ in 0..if common::shared_buffers() { 1000 } else { 6 } {
        w.pass(0);
        w.pass(1);
    }
    assert!(recvs.iter().all(|r| w.code(1, *r) == Some(Code::Ok)));
    assert!(targets.iter().zip(&data).all(|(t, d)| t.bytes() == d));
}

#[test]
fn a_handler_copies_within_its_budget() {
    let mut w = World::new(2);
    let data = text(1, 1 << 20);
    let mut target = Target::new(1 << 20);
    let recv = w.irecv(1, Some(0), None, &mut target);
    w.isend(0, 1, 0, &data);
    for _ in 0..100_000 {
        if w.code(1, recv).is_some() {
            break;
        }
        w.pass(0);
        let before = w.ranks[1].counters().bytes_copied[1];
        let mut budget = Budget::limited(Context::Handler, 32, 1000);
        w.pass_with(1, &mut budget);
        // Of a single copy a chunk is the least.
        let most = if common::single_copies() { 64 << 10 } else { 1000 };
        assert!(w.ranks[1].counters().bytes_copied[1] - before <= most);
    }
    assert_eq!(w.code(1, recv), Some(Code::Ok));
    assert!(target.bytes() == data);
}

#[test]
fn cookies_come_back_in_order_and_requests_are_reused_without_allocating() {
    let mut w = World::tight(2);
    let data = text(5, 300);
    let mut target = Target::new(300);
    let (s, r) = (w.ranks[0].reserve_request().unwrap(), w.ranks[1].reserve_request().unwrap());
    w.ranks[0].prepare_peer(1, 300).unwrap();
    w.ranks[1].prepare_peer(0, 300).unwrap();
    for round in 0..50u64 {
        {
            let _scope = tocsin_sync::thread::HandlerScope::enter();
            let send = SendArgs {
                context: 1 << 31,
                dest: 1,
                tag: round as i32,
                buf: ConstBuf::contiguous(data.as_ptr(), 300),
                mode: Mode::Standard,
                class: Class::Coll,
                cookie: 2 * round + 1,
            };
            let recv = RecvArgs {
                context: 1 << 31,
                source: Some(0),
                tag: Some(round as i32),
                buf: target.buf(),
                class: Class::Coll,
                cookie: 2 * round + 2,
            };
            // SAFETY: both live to the end.
            unsafe {
                w.ranks[0].start_send(s, send);
                w.ranks[0].start_send(s, send); // in use: ignored
                w.ranks[1].start_recv(r, recv);
            }
        }
        w.settle();
        let _scope = tocsin_sync::thread::HandlerScope::enter();
        let (cookie, outcome) = w.ranks[0].next_completed().unwrap();
        assert_eq!((cookie, outcome.code), (2 * round + 1, Code::Ok));
        let (cookie, outcome) = w.ranks[1].next_completed().unwrap();
        assert_eq!((cookie, outcome.code, outcome.bytes), (2 * round + 2, Code::Ok, 300));
        assert!(w.ranks[0].next_completed().is_none() && w.ranks[1].next_completed().is_none());
    }
    assert_eq!(target.bytes(), data);
}

#[test]
fn abandoned_requests_touch_nothing_more_and_start_again() {
    // After k passes, so at every stage of the transfer.
    for k in 0..60 {
        for who in [0u32, 1] {
            let mut w = World::tight(2);
            let data = text(5, 2000);
            let (mut target, mut second) = (Target::new(2000), Target::new(2000));
            let (s, r) = (w.ranks[0].reserve_request().unwrap(), w.ranks[1].reserve_request().unwrap());
            w.ranks[0].prepare_peer(1, 2000).unwrap();
            let send = |tag| SendArgs {
                context: 0,
                dest: 1,
                tag,
                buf: ConstBuf::contiguous(data.as_ptr(), 2000),
                mode: Mode::Standard,
                class: Class::Coll,
                cookie: 3,
            };
            let recv = |tag, buf| RecvArgs {
                context: 0,
                source: Some(0),
                tag: Some(tag),
                buf,
                class: Class::Coll,
                cookie: 4,
            };
            // SAFETY: all live to the end.
            unsafe {
                w.ranks[0].start_send(s, send(1));
                w.ranks[1].start_recv(r, recv(1, target.buf()));
            }
            for n in 0..k {
                w.pass(n % 2);
            }
            let id = [s, r][who as usize];
            {
                let _scope = tocsin_sync::thread::HandlerScope::enter();
                w.ranks[who as usize].abandon(id);
            }
            let frozen = target.bytes().to_vec();
            w.settle();
            if who == 1 {
                assert_eq!(target.bytes(), frozen, "written after it was abandoned");
            }
            while w.ranks[0].next_completed().is_some() || w.ranks[1].next_completed().is_some() {}
            // The other end too, then once more.
            w.ranks[0].abandon(s);
            w.ranks[1].abandon(r);
            w.settle();
            // SAFETY: as above.
            unsafe {
                w.ranks[0].start_send(s, send(2));
                w.ranks[1].start_recv(r, recv(2, second.buf()));
            }
            w.settle();
            assert_eq!(w.ranks[0].next_completed().map(|c| c.1.code), Some(Code::Ok), "{k} {who}");
            assert_eq!(w.ranks[1].next_completed().map(|c| c.1.code), Some(Code::Ok), "{k} {who}");
            assert_eq!(second.bytes(), data);
        }
    }
}

#[test]
fn wants_follow_the_request() {
    let mut w = World::new(2);
    let mut target = Target::new(8);
    let id = w.irecv(1, None, None, &mut target);
    assert!(!w.ranks[1].wants_plain());
    w.ranks[1].set_wants(id);
    w.ranks[1].set_wants(id);
    assert!(w.ranks[1].wants_plain());
    w.isend(0, 1, 0, &[1]);
    w.settle();
    assert!(!w.ranks[1].wants_plain());
    w.ranks[1].set_wants(id);
    assert!(!w.ranks[1].wants_plain(), "complete already");
}

/// Announcements interrupt only who has posted a receive for which one might come.
#[test]
fn offers_are_wanted_while_a_long_receive_is_posted() {
    let mut w = World::new(2);
    let eager = w.ranks[1].eager_max(Class::Eager);
    let (mut small, mut large, mut other) =
        (Target::new(eager), Target::new(eager + 1), Target::new(eager + 1));
    w.irecv(1, Some(0), Some(1), &mut small);
    assert!(!w.ranks[1].wants_offers(), "what fits is not announced");
    for source in [Some(0), None] {
        let first = w.irecv(1, source, Some(2), &mut large);
        let second = w.irecv(1, source, Some(3), &mut other);
        assert!(w.ranks[1].wants_offers());
        assert!(w.ranks[1].cancel(first));
        assert!(w.ranks[1].wants_offers(), "one is left");
        let data = text(1, eager + 1);
        let send = w.isend(0, 1, 3, &data);
        w.settle();
        assert_eq!((w.code(0, send), w.code(1, second)), (Some(Code::Ok), Some(Code::Ok)));
        assert!(!w.ranks[1].wants_offers(), "met");
        w.ranks[1].release(first);
        w.ranks[1].release(second);
    }
}

#[test]
fn bad_input_is_refused() {
    let mut w = World::new(2);
    let buf = ConstBuf::contiguous([0u8; 4].as_ptr(), 4);
    let good =
        SendArgs { context: 0, dest: 1, tag: 0, buf, mode: Mode::Standard, class: Class::Eager, cookie: 0 };
    let huge = tocsin_p2p::Layout::Strided { block: usize::MAX / 2, stride: 1, count: 3 };
    // SAFETY: refused before any buffer is touched.
    unsafe {
        let p2p = &mut w.ranks[0];
        assert!(matches!(
            p2p.isend(SendArgs { dest: 2, ..good }),
            Err(Error::NoSuchRank { rank: 2, size: 2 })
        ));
        assert!(matches!(p2p.isend(SendArgs { class: Class::Bulk, ..good }), Err(Error::WrongClass { .. })));
        let long = ConstBuf { base: buf.base, layout: huge };
        assert!(matches!(p2p.isend(SendArgs { buf: long, ..good }), Err(Error::TooLong { .. })));
        let recv = RecvArgs {
            context: 0,
            source: Some(7),
            tag: None,
            buf: MutBuf::contiguous(std::ptr::null_mut(), 0),
            class: Class::Eager,
            cookie: 0,
        };
        assert!(matches!(p2p.irecv(recv), Err(Error::NoSuchRank { rank: 7, size: 2 })));
        let wrong = RecvArgs { source: None, class: Class::Control, ..recv };
        assert!(matches!(p2p.irecv(wrong), Err(Error::WrongClass { .. })));
    }
    // Ids that name nothing are ignored.
    let stale = w.ranks[0].reserve_request().unwrap();
    w.ranks[0].release(stale);
    w.ranks[0].release(stale);
    w.ranks[0].abandon(stale);
    w.ranks[0].set_wants(stale);
    assert!(!w.ranks[0].cancel(stale) && w.ranks[0].completion(stale).is_none());
    assert!(w.ranks[0].transport().rank() == 0);
}

/// Eight receives in hand, one after the other, and the next look at all else is the caller's.
#[test]
fn receives_in_hand_owe_a_look() {
    let mut w = World::new(2);
    let p2p = &mut w.ranks[0];
    let eight = [false, false, false, false, false, false, false, true];
    for _ in 0..3 {
        assert_eq!(eight.map(|_| p2p.owes_a_look(false)), eight);
    }
    assert!((0..7).all(|_| !p2p.owes_a_look(false)) && !p2p.owes_a_look(true), "it has looked");
    assert_eq!(eight.map(|_| p2p.owes_a_look(false)), eight);
    assert!((0..7).all(|_| !p2p.owes_a_look(false)));
    w.pass(0);
    assert_eq!(eight.map(|_| w.ranks[0].owes_a_look(false)), eight, "a pass has looked");
}
