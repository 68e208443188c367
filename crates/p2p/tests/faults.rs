//! Peers that die, finalize, revoke.

#![allow(clippy::unwrap_used, clippy::expect_used)] // clippy exempts test functions only, not what they share

mod common;

use common::{Target, World, text};
use tocsin_p2p::{Budget, Class, Code, Error, Lost, Mode, Pass};
use tocsin_progress::Context;
use tocsin_transport::{PeerState, Transport};

#[test]
fn the_dead_are_drained_then_named() {
    let mut w = World::tight(3);
    let data = text(1, 40);
    let large = text(2, 2000);
    let mut targets: Vec<_> = (0..6).map(|_| Target::new(2000)).collect();
    let mut targets = targets.iter_mut();
    let mut target = || targets.next().unwrap();
    // Sent before the death, not taken in yet.
    w.isend(2, 0, 1, &data);
    w.isend(2, 0, 3, &large);
    let sent_before = w.irecv(0, Some(2), Some(1), target());
    let announced = w.irecv(0, Some(2), Some(3), target());
    let never = w.irecv(0, Some(2), Some(2), target());
    let any = w.irecv(0, None, Some(9), target());
    let other = w.irecv(0, Some(1), None, target());
    let sync = w.isend_with(0, 2, 1, &data, Mode::Synchronous, Class::Eager);
    let big = w.isend(0, 2, 1, &large);
    w.set_state(2, PeerState::Dead);
    while w.pass(0) != Pass::Idle {}
    assert_eq!(w.code(0, sent_before), Some(Code::Ok));
    for id in [never, any, announced, sync, big] {
        let outcome = w.outcome(0, id).unwrap();
        assert_eq!((outcome.code, outcome.source, outcome.detail), (Code::PeerDead, 2, 2));
    }
    assert_eq!(w.code(0, other), None, "needs another rank");
    // From now on at once.
    assert!(matches!(w.try_irecv(0, Some(2), None, target()), Err(Error::PeerDead { rank: 2 })));
    assert!(matches!(w.ranks[0].iprobe(0, None, None), Err(Error::PeerDead { rank: 2 })));
    assert_eq!(w.ranks[0].failed_peer(&[0, 1, 2]), Some((2, Code::PeerDead)));
    assert_eq!(w.ranks[0].failed_peer(&[0, 1]), None);
    assert_eq!(w.ranks[0].outstanding_sends(), 0);
    w.isend(1, 0, 4, &data);
    w.settle();
    assert_eq!(w.code(0, other), Some(Code::Ok));
}

#[test]
fn a_post_after_the_death_is_refused_before_any_pass() {
    let mut w = World::new(2);
    let mut target = Target::new(8);
    w.set_state(1, PeerState::Dead);
    let buf = tocsin_p2p::ConstBuf::contiguous(std::ptr::null(), 0);
    let args = tocsin_p2p::SendArgs {
        context: 0,
        dest: 1,
        tag: 0,
        buf,
        mode: Mode::Standard,
        class: Class::Eager,
        cookie: 0,
    };
    // SAFETY: an empty buffer.
    let refused = unsafe { w.ranks[0].isend(args) };
    assert!(matches!(refused, Err(Error::PeerDead { rank: 1 })));
    assert!(matches!(w.try_irecv(0, Some(1), None, &mut target), Err(Error::PeerDead { rank: 1 })));
    assert!(matches!(w.try_irecv(0, None, None, &mut target), Err(Error::PeerDead { rank: 1 })));
    // Started requests end instead.
    let id = w.ranks[0].reserve_request().unwrap();
    // SAFETY: an empty buffer.
    unsafe { w.ranks[0].start_send(id, tocsin_p2p::SendArgs { cookie: 5, ..args }) };
    let (cookie, outcome) = w.ranks[0].next_completed().unwrap();
    assert_eq!((cookie, outcome.code, outcome.detail), (5, Code::PeerDead, 1));
}

#[test]
fn what_the_dead_sent_is_received_after_its_death() {
    let mut w = World::tight(2);
    let data: Vec<_> = (0..3).map(|n| text(n, 50)).collect();
    for d in &data {
        w.isend(1, 0, 0, d);
    }
    w.settle();
    w.set_state(1, PeerState::Dead);
    w.settle();
    for d in &data {
        let mut target = Target::new(50);
        let id = w.irecv(0, Some(1), None, &mut target);
        assert_eq!(w.code(0, id), Some(Code::Ok));
        assert_eq!(target.bytes(), d);
    }
}

#[test]
fn members_decide_whom_any_source_needs() {
    let mut w = World::new(4);
    w.ranks[0].set_members(0, &[0, 1]).unwrap();
    let (mut a, mut b) = (Target::new(8), Target::new(8));
    let any = w.irecv(0, None, None, &mut a);
    w.set_state(3, PeerState::Dead);
    w.settle();
    assert_eq!(w.code(0, any), None, "rank 3 is no member");
    w.set_state(1, PeerState::Finalized);
    w.settle();
    assert_eq!(w.code(0, any), Some(Code::PeerFinalized));
    w.ranks[0].forget_context(0);
    assert!(matches!(w.try_irecv(0, None, None, &mut b), Err(Error::PeerDead { rank: 3 })));
}

#[test]
fn what_a_rank_has_sent_itself_is_received_from_any_source_when_the_others_are_gone() {
    for end in [PeerState::Dead, PeerState::Finalized] {
        for before in [0, 10, 100, 2000] {
            let mut w = World::new(2);
            w.set_state(1, end);
            w.settle();
            // More than a lane holds, and than there is room for at first.
            let others: Vec<_> = (0..before).map(|n| text(n, 1000)).collect();
            for text in &others {
                w.isend(0, 0, 4, text);
            }
            let (short, long) = (text(7, 8), text(8, 100_000));
            let sends = [w.isend(0, 0, 3, &short), w.isend(0, 0, 5, &long)];
            let found = w.ranks[0].iprobe(0, None, Some(3)).unwrap();
            assert_eq!(found.map(|status| status.bytes), Some(8), "{before}");
            for (tag, text) in [(5, &long), (3, &short)] {
                let mut target = Target::new(text.len());
                let id = w.irecv(0, None, Some(tag), &mut target);
                w.settle();
                assert_eq!((w.code(0, id), target.bytes()), (Some(Code::Ok), &text[..]), "{before}, {tag}");
            }
            assert!(sends.iter().all(|id| w.code(0, *id) == Some(Code::Ok)));
            let mut target = Target::new(8);
            assert!(w.try_irecv(0, None, Some(3), &mut target).is_err(), "there is nothing more");
        }
    }
}

#[test]
fn what_comes_for_a_forgotten_communicator_is_dropped() {
    let mut w = World::tight(2);
    let data = text(1, 60);
    let mut target = Target::new(60);
    // More than there is room for: the lane is blocked until they are dropped.
    for _ in 0..200 {
        w.isend(1, 0, 0, &data);
    }
    w.settle();
    let freed = w.ranks[0].unexpected_freed();
    w.ranks[0].forget_context(0);
    w.settle();
    assert!(w.ranks[0].unexpected_freed() > freed);
    assert!(!w.ranks[0].is_blocked());
    w.isend(1, 0, 0, &data);
    w.settle();
    assert!(matches!(w.ranks[0].iprobe(0, None, None), Ok(None)));
    assert_eq!(w.ranks[1].outstanding_sends(), 0);
    // What was pending keeps its message.
    let id = w.irecv(0, Some(1), None, &mut target);
    assert!(w.ranks[0].used().eq([0]));
    w.isend(1, 0, 0, &data);
    w.settle();
    assert_eq!((w.code(0, id), target.bytes()), (Some(Code::Ok), &data[..]));
    assert_eq!(w.ranks[0].used().count(), 0);
    // A revocation that comes late is not kept.
    w.ranks[1].revoke(0, &[0, 1]);
    w.settle();
    assert!(!w.ranks[0].is_revoked(0));
}

#[test]
fn a_finalized_peer_fails_only_what_it_alone_could_meet() {
    let mut w = World::tight(3);
    let data = text(1, 30);
    let mut targets: Vec<_> = (0..3).map(|_| Target::new(30)).collect();
    let [a, b, c] = &mut targets[..] else { panic!() };
    w.isend(2, 0, 1, &data);
    let there = w.irecv(0, Some(2), Some(1), a);
    let never = w.irecv(0, Some(2), Some(2), b);
    let any = w.irecv(0, None, None, c);
    w.set_state(2, PeerState::Finalized);
    w.settle();
    assert_eq!((w.code(0, there), w.code(0, never)), (Some(Code::Ok), Some(Code::PeerFinalized)));
    assert_eq!(w.code(0, any), None);
    w.isend(1, 0, 0, &data);
    w.settle();
    assert_eq!(w.code(0, any), Some(Code::Ok));
    assert_eq!(w.ranks[0].failed_peer(&[0, 1, 2]), None);
}

#[test]
fn death_at_every_stage_ends_everything() {
    for k in 0..80 {
        let mut w = World::tight(2);
        let (small, large) = (text(1, 60), text(2, 1500));
        let mut targets: Vec<_> = (0..6).map(|_| Target::new(1500)).collect();
        let mut pending = Vec::new();
        for (n, t) in targets.iter_mut().enumerate() {
            let data = if n % 2 == 0 { &small } else { &large };
            pending.push(w.isend(0, 1, 0, data));
            w.isend(1, 0, 0, data);
            let mut other = Target::new(1500);
            if n < 4 {
                pending.push(w.irecv(0, None, None, t));
                w.irecv(1, None, None, &mut other);
            }
            std::mem::forget(other);
        }
        for n in 0..k {
            w.pass(n % 2);
        }
        w.set_state(1, PeerState::Dead);
        let mut passes = 0;
        while w.pass(0) != Pass::Idle {
            passes += 1;
            assert!(passes < 1000);
        }
        for id in pending {
            assert!(matches!(w.code(0, id), Some(Code::Ok | Code::PeerDead)), "{k}");
        }
        assert_eq!(w.ranks[0].outstanding_sends(), 0);
    }
}

/// Who has revoked may be gone before it has told both: the end that hears of it, and gives the message up, tells the other.
#[test]
fn who_gives_a_message_up_for_a_revocation_says_so() {
    use tocsin_transport::{Header, SendOutcome, Urgency, kind};
    const LARGE: usize = 500_000;
    for (hears, passes) in (0..24).map(|n| (1, n)).chain((1..24).map(|n| (0, n))) {
        let mut w = World::new(3);
        let data = text(1, LARGE);
        let mut target = Target::new(LARGE);
        for (rank, peer) in [(0, 1), (1, 0), (2, hears)] {
            w.ranks[rank].prepare_peer(peer, LARGE).unwrap();
        }
        let send = w.isend(0, 1, 1, &data);
        let recv = w.irecv(1, Some(0), Some(1), &mut target);
        for n in 0..passes {
            w.pass_with(n % 2, &mut Budget::limited(Context::Handler, 4, 1));
        }
        let header = Header { kind: kind::REVOKE, context: 0, ..Header::default() };
        let third = w.ranks[2].transport_mut();
        // SAFETY: there is no payload.
        let told =
            unsafe { third.try_send(hears, Class::Control, Urgency::Urgent, &header, std::ptr::null(), 0) };
        assert_eq!(told, SendOutcome::Sent);
        w.settle();
        let codes = [w.code(0, send), w.code(1, recv)];
        assert!(
            codes.iter().all(|code| matches!(code, Some(Code::Ok | Code::Revoked))),
            "{hears} {passes}: {codes:?}"
        );
    }
}

/// So does who drops what nobody has received yet.
#[test]
fn who_drops_an_announcement_for_a_revocation_says_so() {
    use tocsin_transport::{Header, SendOutcome, Urgency, kind};
    for mode in [Mode::Standard, Mode::Synchronous] {
        let mut w = World::new(3);
        let data = text(1, if mode == Mode::Synchronous { 100 } else { 500_000 });
        w.ranks[0].prepare_peer(1, data.len()).unwrap();
        w.ranks[2].prepare_peer(1, 0).unwrap();
        let send = w.isend_with(0, 1, 1, &data, mode, Class::Eager);
        w.settle();
        assert_eq!(w.code(0, send), None);
        let header = Header { kind: kind::REVOKE, context: 0, ..Header::default() };
        let third = w.ranks[2].transport_mut();
        // SAFETY: there is no payload.
        let told =
            unsafe { third.try_send(1, Class::Control, Urgency::Urgent, &header, std::ptr::null(), 0) };
        assert_eq!(told, SendOutcome::Sent);
        w.settle();
        assert_eq!(w.code(0, send), Some(Code::Revoked), "{mode:?}");
    }
}

/// A receiver that owes its answer to a full lane tells the sender why it does not come.
#[test]
fn who_owes_an_answer_says_that_there_is_a_revocation() {
    use tocsin_transport::{Header, SendOutcome, Urgency, kind};
    let mut w = World::new(2);
    let data = text(1, 100);
    let mut target = Target::new(100);
    w.ranks[0].prepare_peer(1, 100).unwrap();
    w.ranks[1].prepare_peer(0, 100).unwrap();
    let send = w.isend_with(0, 1, 1, &data, Mode::Synchronous, Class::Eager);
    w.pass(0);
    let header = Header { kind: kind::FIN, flags: 1, ..Header::default() };
    let receiver = w.ranks[1].transport_mut();
    // SAFETY: there is no payload.
    while unsafe { receiver.try_send(0, Class::Control, Urgency::Plain, &header, std::ptr::null(), 0) }
        == SendOutcome::Sent
    {}
    let recv = w.irecv(1, Some(0), Some(1), &mut target);
    w.pass(1);
    assert_eq!((w.code(0, send), w.code(1, recv)), (None, None), "it owes the answer");
    w.ranks[1].revoke(0, &[]);
    w.settle();
    assert_eq!((w.code(0, send), w.code(1, recv)), (Some(Code::Revoked), Some(Code::Ok)));
}

/// A receiver that has granted nothing, because the message is too long, is no more there to hear that its sender has given it up.
#[test]
fn who_gives_up_what_was_too_long_is_no_liar() {
    let mut w = World::new(2);
    let data = text(1, 500_000);
    let mut target = Target::new(100);
    w.ranks[0].prepare_peer(1, data.len()).unwrap();
    w.ranks[1].prepare_peer(0, 100).unwrap();
    let send = w.isend(0, 1, 1, &data);
    let recv = w.irecv(1, Some(0), Some(1), &mut target);
    w.pass(0);
    w.pass(1);
    assert_eq!((w.code(0, send), w.code(1, recv)), (None, Some(Code::Truncated)));
    w.ranks[0].revoke(0, &[]);
    w.settle();
    assert_eq!(w.code(0, send), Some(Code::Revoked));
    assert!(w.ranks.iter().all(|rank| rank.failed_epoch() == 0));
}

#[test]
fn revocation_ends_both_ends_at_every_stage() {
    for k in 0..60 {
        for revoker in [0u32, 1] {
            let mut w = World::tight(3);
            let (small, large) = (text(1, 60), text(2, 1500));
            let mut targets: Vec<_> = (0..4).map(|_| Target::new(1500)).collect();
            let mut all = Vec::new();
            for (n, t) in targets.iter_mut().enumerate() {
                let data = if n % 2 == 0 { &small } else { &large };
                all.push((0, w.isend_with(0, 1, 0, data, Mode::Synchronous, Class::Eager)));
                if n < 3 {
                    all.push((1, w.irecv(1, Some(0), None, t)));
                }
            }
            let mut last = Target::new(8);
            all.push((2, w.irecv(2, Some(0), None, &mut last)));
            for n in 0..k {
                w.pass(n % 2);
            }
            w.ranks[revoker as usize].revoke(0, &[0, 1, 2]);
            for (rank, id) in &all {
                if *rank == revoker {
                    assert!(w.code(*rank, *id).is_some(), "nothing of it is touched after revoke returns");
                }
            }
            w.settle();
            for (rank, id) in &all {
                let code = w.code(*rank, *id);
                assert!(matches!(code, Some(Code::Ok | Code::Revoked)), "{k}: {code:?} on rank {rank}");
            }
            let mut target = Target::new(8);
            for rank in 0..3 {
                assert!(w.ranks[rank as usize].is_revoked(0) && w.ranks[rank as usize].is_revoked(1 << 31));
                let refused = w.try_irecv(rank, None, None, &mut target);
                assert!(matches!(refused, Err(Error::Revoked { context: 0 })));
                assert_eq!(w.ranks[rank as usize].failed_peer(&[0, 1, 2]), None, "nobody is to blame");
                assert_eq!(w.ranks[rank as usize].outstanding_sends(), 0);
            }
        }
    }
}

/// Rank 1 leaves at any time while rank 0 sends to it: what it has receives for arrives, who waits for anything else hears of it.
#[test]
fn who_leaves_says_what_is_never_received() {
    for k in 0..60 {
        for (source, tag) in [(Some(0), Some(1)), (Some(0), None), (None, Some(1)), (None, None)] {
            let mut w = World::tight(2);
            let (small, large) = (text(1, 60), text(2, 1500));
            let mut targets: Vec<_> = (0..2).map(|_| Target::new(1500)).collect();
            let received: Vec<_> = targets.iter_mut().map(|t| w.irecv(1, source, tag, t)).collect();
            // One that nothing of this meets.
            let mut other = Target::new(1500);
            let idle = w.irecv(1, Some(0), Some(77), &mut other);
            let sent = [w.isend(0, 1, 1, &large), w.isend(0, 1, 1, &large)];
            let eager = w.isend(0, 1, 2, &small);
            let synchronous = w.isend_with(0, 1, 3, &small, Mode::Synchronous, Class::Eager);
            let lost = [w.isend(0, 1, 4, &large), w.isend(0, 1, 5, &large)];
            let mut there = Target::new(1500);
            let back = w.isend(1, 0, 6, &large);
            for n in 0..k {
                w.pass(n % 2);
            }
            w.ranks[1].take_no_more(Class::Eager);
            assert!(w.ranks[1].wants_offers());
            w.settle();
            for (recv, target) in received.iter().zip(&targets) {
                assert_eq!((w.code(1, *recv), target.bytes()), (Some(Code::Ok), &large[..]), "{k}");
            }
            for send in sent.into_iter().chain([eager]) {
                assert_eq!(w.code(0, send), Some(Code::Ok), "{k}");
            }
            for (send, tag, bytes) in [(synchronous, 3, 60), (lost[0], 4, 1500), (lost[1], 5, 1500)] {
                let end = w.outcome(0, send).unwrap();
                assert_eq!((end.code, end.source), (Code::NeverReceived, 1), "{k} {tag}");
                assert_eq!((end.tag, end.bytes), (tag, bytes), "{k}");
            }
            // Who looks at its request needs nobody else to tell; who does not hears of it when it leaves.
            assert_eq!(w.ranks[0].lost().count, 0);
            w.ranks[0].release(synchronous);
            lost.into_iter().for_each(|send| w.ranks[0].detach(send));
            let Lost { count, last: (to, tag, bytes) } = w.ranks[0].lost();
            assert_eq!((count, to, tag, bytes), (2, 1, 5, 1500));
            // What the leaving rank has sent is received, and what it had a receive for, later, too.
            let end = w.irecv(0, Some(1), None, &mut there);
            let late = w.isend(0, 1, 77, &large);
            w.settle();
            assert_eq!((w.code(0, end), w.code(1, back)), (Some(Code::Ok), Some(Code::Ok)));
            assert_eq!((w.code(1, idle), w.code(0, late)), (Some(Code::Ok), Some(Code::Ok)));
            assert_eq!(other.bytes(), large);
            assert_eq!([0, 1].map(|rank: usize| w.ranks[rank].outstanding_sends()), [0, 0]);
        }
    }
}

/// Rank 1 is gone in the midst of a message, whichever way that goes: its sender is told so, unless all of it is there.
#[test]
fn who_is_gone_in_the_midst_has_not_received() {
    const LARGE: usize = 500_000;
    for posted_first in [false, true] {
        for (passes, looks) in (0..24).flat_map(|passes| [(passes, false), (passes, true)]) {
            let case = format!("posted first: {posted_first}, {passes} passes, a look: {looks}");
            let mut w = World::new(2);
            let data = text(1, LARGE);
            let mut target = Target::new(LARGE);
            for rank in 0..2 {
                w.ranks[rank].prepare_peer(1 - rank as u32, LARGE).unwrap();
            }
            let (send, recv) = if posted_first {
                let recv = w.irecv(1, Some(0), Some(1), &mut target);
                (w.isend(0, 1, 1, &data), recv)
            } else {
                let send = w.isend(0, 1, 1, &data);
                (send, w.irecv(1, Some(0), Some(1), &mut target))
            };
            for n in 0..passes {
                w.pass_with(n % 2, &mut Budget::limited(Context::Handler, 4, 1));
            }
            let (sent, received) = (w.code(0, send), w.code(1, recv));
            // As a rank finalizes.
            w.ranks[1].take_no_more(Class::Eager);
            w.ranks[1].close_transfers();
            w.ranks[1].transport_mut().flush();
            w.ranks[1].end_all(Code::Finalized, 0);
            if looks {
                // Its sender looks between the end of its transfers and its own.
                w.pass_with(0, &mut Budget::limited(Context::Handler, 4, 1));
            }
            w.set_state(1, PeerState::Finalized);
            for _ in 0..100 {
                w.pass(0);
            }
            let end = w.outcome(0, send).unwrap();
            let is_told = matches!(end.code, Code::NeverReceived | Code::PeerFinalized);
            match (sent, received) {
                // Its buffer was given back before.
                (Some(Code::Ok), _) => assert_eq!(end.code, Code::Ok, "{case}"),
                (_, Some(Code::Ok)) => assert!(is_told || end.code == Code::Ok, "{case}: {end:?}"),
                _ if target.bytes() == data => assert!(is_told || end.code == Code::Ok, "{case}: {end:?}"),
                _ => assert!(is_told && end.source == 1, "{case}: {end:?}"),
            }
            assert_eq!(w.ranks[0].outstanding_sends(), 0, "{case}");
        }
    }
}

/// Rank 0 is gone in the midst of its message: its receiver hears that it is, unless all of it is there.
#[test]
fn who_loses_its_sender_in_the_midst_hears_why() {
    const LARGE: usize = 500_000;
    let mut lost = 0;
    for (state, code) in [(PeerState::Finalized, Code::PeerFinalized), (PeerState::Dead, Code::PeerDead)] {
        for (posted_first, passes) in (0..24).flat_map(|passes| [(false, passes), (true, passes)]) {
            let case = format!("{state:?}, posted first: {posted_first}, {passes} passes");
            let mut w = World::new(2);
            let data = text(1, LARGE);
            let mut target = Target::new(LARGE);
            for rank in 0..2 {
                w.ranks[rank].prepare_peer(1 - rank as u32, LARGE).unwrap();
            }
            let before = posted_first.then(|| w.irecv(1, Some(0), Some(1), &mut target));
            w.isend(0, 1, 1, &data);
            let recv = before.unwrap_or_else(|| w.irecv(1, Some(0), Some(1), &mut target));
            for n in 0..passes {
                w.pass_with(n % 2, &mut Budget::limited(Context::Handler, 4, 1));
            }
            w.ranks[0].close_transfers();
            w.ranks[0].transport_mut().flush();
            // The receiver looks between the end of its sender's transfers and its sender's own.
            w.pass(1);
            let early = w.code(1, recv);
            assert!(matches!(early, None | Some(Code::Ok)), "{case}: {early:?}");
            w.set_state(0, state);
            for _ in 0..100 {
                w.pass(1);
            }
            let end = w.outcome(1, recv).unwrap();
            if end.code == Code::Ok {
                assert!(target.bytes() == data, "{case}");
            } else {
                assert_eq!((end.code, end.source), (code, 0), "{case}");
                lost += 1;
            }
        }
    }
    assert!(lost > 0);
}

/// More is declined than a lane has room for answers, by a rank that has room for one message.
#[test]
fn nobody_waits_for_want_of_room_to_say_that_a_message_is_never_received() {
    for grow in [false, true] {
        let mut w = World::tight(2);
        let large = text(2, 1500);
        let before: Vec<_> = (0..20).map(|_| w.isend(0, 1, 1, &large)).collect();
        if grow {
            w.settle();
        }
        w.ranks[1].take_no_more(Class::Eager);
        let after: Vec<_> = (0..20).map(|_| w.isend(0, 1, 1, &large)).collect();
        w.ranks[0].detach(before[0]);
        // The other looks no more for a while.
        for _ in 0..100 {
            w.pass(1);
        }
        w.settle_with(false);
        for send in before.into_iter().chain(after).skip(1) {
            assert_eq!(w.code(0, send), Some(Code::NeverReceived));
        }
        assert_eq!(w.ranks[0].lost().count, 1, "the first was dropped before");
        assert_eq!((w.ranks[0].outstanding_sends(), w.ranks[1].is_blocked()), (0, false));
        assert_eq!((w.pass(1), w.pass(0)), (Pass::Idle, Pass::Idle));
    }
}

/// Users' messages and those of collectives are two matters: the ones may go on when no others come.
#[test]
fn classes_are_left_one_by_one() {
    let mut w = World::tight(2);
    let large = text(2, 1500);
    let of_collective = w.isend_with(0, 1, 1, &large, Mode::Standard, Class::Coll);
    w.ranks[1].take_no_more(Class::Eager);
    w.settle();
    assert_eq!(w.code(0, of_collective), None);
    w.ranks[1].take_no_more(Class::Coll);
    w.settle();
    // A collective names the rank that takes no part.
    let end = w.outcome(0, of_collective).unwrap();
    assert_eq!((end.code, end.source), (Code::PeerFinalized, 1));
    assert_eq!(w.ranks[0].lost().count, 0, "it is no user's");
}

#[test]
fn what_is_sent_in_a_forgotten_communicator_is_never_received() {
    let mut w = World::tight(2);
    let (small, large) = (text(1, 60), text(2, 1500));
    let mut target = Target::new(1500);
    let probed = w.isend(0, 1, 1, &large);
    let kept = w.isend(0, 1, 2, &large);
    w.settle();
    let (name, _) = w.ranks[1].improbe(0, None, Some(1)).unwrap().unwrap();
    w.ranks[1].forget_context(0);
    let late = w.isend_with(0, 1, 3, &small, Mode::Synchronous, Class::Eager);
    w.settle();
    for send in [kept, late] {
        assert_eq!(w.code(0, send), Some(Code::NeverReceived));
    }
    assert_eq!(w.code(0, probed), None, "it may still be received");
    // SAFETY: the target lives to the end.
    let received = unsafe { w.ranks[1].mrecv(name, target.buf(), 0) }.unwrap();
    w.settle();
    assert_eq!((w.code(0, probed), w.code(1, received)), (Some(Code::Ok), Some(Code::Ok)));
    assert_eq!(target.bytes(), large);
}

#[test]
fn what_was_probed_is_never_received_by_who_leaves() {
    let mut w = World::tight(2);
    let large = text(2, 1500);
    let sent = w.isend(0, 1, 1, &large);
    w.settle();
    let (name, _) = w.ranks[1].improbe(0, None, None).unwrap().unwrap();
    w.ranks[1].take_no_more(Class::Eager);
    w.settle();
    assert_eq!(w.code(0, sent), Some(Code::NeverReceived));
    let mut target = Target::new(1500);
    // SAFETY: the target lives to the end.
    let gone = unsafe { w.ranks[1].mrecv(name, target.buf(), 0) };
    assert!(matches!(gone, Err(Error::NoSuchMessage)));
}

#[test]
fn a_sweep_over_many_requests_is_bounded_per_pass() {
    let mut w = World::new(3);
    let mut target = Target::new(8);
    let ids: Vec<_> = (0..20_000).map(|_| w.irecv(0, Some(1), None, &mut target)).collect();
    w.set_state(1, PeerState::Dead);
    let mut passes = 0;
    while w.pass(0) == Pass::More {
        passes += 1;
    }
    assert!(passes >= 15, "{passes} passes");
    assert!(ids.iter().all(|id| w.code(0, *id) == Some(Code::PeerDead)));
}

/// What a rank that has died sent last is met in the order in which it was sent, or the receiver hears of the death.
#[test]
fn what_follows_a_lost_announcement_does_not_overtake_it() {
    let mut w = World::tight(2);
    let (large, small) = (text(1, 2000), text(2, 40));
    w.isend(1, 0, 5, &large);
    w.isend(1, 0, 5, &small);
    w.settle();
    assert_eq!(w.ranks[0].iprobe(0, Some(1), Some(5)).unwrap().unwrap().bytes, 2000);
    w.set_state(1, PeerState::Dead);
    while w.pass(0) != Pass::Idle {}
    let mut target = Target::new(2000);
    let code = match w.try_irecv(0, Some(1), Some(5), &mut target) {
        Err(error) => {
            assert!(matches!(error, Error::PeerDead { rank: 1 }), "{error}");
            return;
        }
        Ok(id) => {
            w.settle();
            w.outcome(0, id).unwrap().code
        }
    };
    assert_eq!(code, Code::PeerDead);
}
