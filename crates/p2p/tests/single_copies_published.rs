//! Receives that are posted before their send, and that the sender finds: what it may copy into them, and when.

#![allow(clippy::unwrap_used)] // clippy exempts test functions only, not what they share

mod common;

use common::{TIGHT, Target, World, text, tight_config};
use tocsin_p2p::{Budget, Code, Pass};
use tocsin_progress::Context;
use tocsin_transport::transfer::{Claim, chunks};
use tocsin_transport::{PeerState, Transport};

const LARGE: usize = 200_000;

/// Two ranks that have talked before, so that the pair's memory is there.
fn pair() -> World {
    prepared(World::new(2), LARGE)
}

/// The same, whose lanes hold little.
fn tight_pair() -> World {
    prepared(World::with(2, TIGHT, tight_config()), 2000)
}

fn prepared(mut w: World, len: usize) -> World {
    for rank in [0, 1] {
        w.ranks[rank].prepare_peer(1 - rank as u32, len).unwrap();
    }
    (0..2).for_each(|rank| while w.pass(rank) != Pass::Idle {});
    w
}

/// One pass that copies one chunk.
fn pass_of_one_chunk(w: &mut World, rank: u32) -> Pass {
    w.pass_with(rank, &mut Budget::limited(Context::Handler, 32, 1))
}

#[test]
fn the_sender_needs_nobody() {
    let mut w = pair();
    let data = text(1, LARGE);
    for round in 0..5 {
        let mut target = Target::new(LARGE + round);
        let recv = w.irecv(1, Some(0), if round % 2 == 0 { Some(3) } else { None }, &mut target);
        let send = w.isend(0, 1, 3, &data);
        while w.pass(0) != Pass::Idle {}
        assert_eq!(w.code(0, send), Some(Code::Ok), "the receiver did nothing");
        assert_eq!(target.bytes()[..LARGE], data);
        assert_eq!(w.code(1, recv), None);
        w.pass(1);
        let outcome = w.outcome(1, recv).unwrap();
        assert_eq!(
            (outcome.code, outcome.bytes, outcome.tag, outcome.source),
            (Code::Ok, LARGE as u64, 3, 0)
        );
        for (rank, id) in [(0usize, send), (1, recv)] {
            w.ranks[rank].release(id);
        }
    }
    assert_eq!(w.ranks[1].counters().bytes_copied, [0; 3]);
}

#[test]
fn both_copy() {
    let mut w = pair();
    let (data, mut target) = (text(2, LARGE), Target::new(LARGE));
    let recv = w.irecv(1, Some(0), Some(1), &mut target);
    let send = w.isend(0, 1, 1, &data);
    for _ in 0..20 {
        pass_of_one_chunk(&mut w, 0);
        pass_of_one_chunk(&mut w, 1);
    }
    assert_eq!((w.code(0, send), w.code(1, recv)), (Some(Code::Ok), Some(Code::Ok)));
    assert_eq!(target.bytes(), data);
    assert!((0..2).all(|rank| w.ranks[rank].counters().bytes_copied[1] > 0));
}

/// A thread that posts and goes on leaves the copying to a peer that waits; when none does, it copies itself.
#[test]
fn who_passes_by_leaves_the_copying_to_who_waits() {
    for waits in [true, false] {
        let mut w = pair();
        let (data, mut target) = (text(3, LARGE), Target::new(LARGE));
        let send = w.isend(0, 1, 1, &data);
        let recv = w.irecv(1, Some(0), Some(1), &mut target);
        w.ranks[1].transport_mut().set_waiting(0, waits);
        w.pass_with(1, &mut Budget::user().in_passing());
        let copied = if waits { 0 } else { LARGE as u64 };
        assert_eq!(w.ranks[1].counters().bytes_copied, [copied, 0, 0]);
        assert!(!w.ranks[1].is_unfinished(), "the peer goes on, or nothing is left");
        w.pass_with(0, &mut Budget::user());
        assert_eq!(w.ranks[0].counters().bytes_copied, [LARGE as u64 - copied, 0, 0]);
        w.settle();
        assert_eq!((w.code(0, send), w.code(1, recv)), (Some(Code::Ok), Some(Code::Ok)));
        assert_eq!(target.bytes(), data);
    }
}

#[test]
fn an_earlier_message_in_the_lane_comes_first() {
    for size in [10, LARGE] {
        for same in [true, false] {
            let mut w = pair();
            let (first, second) = (text(1, size), text(2, LARGE));
            let tag = if same { 5 } else { 6 };
            w.isend(0, 1, tag, &first);
            // The receiver has not taken it when it posts.
            let mut target = Target::new(LARGE);
            let recv = w.irecv(1, Some(0), Some(5), &mut target);
            w.isend(0, 1, 5, &second);
            while w.pass(0) != Pass::Idle {}
            let mut other = Target::new(LARGE);
            let last = w.irecv(1, Some(0), None, &mut other);
            w.settle();
            assert_eq!((w.code(1, recv), w.code(1, last)), (Some(Code::Ok), Some(Code::Ok)));
            let (mine, theirs) = if same { (&first, &second) } else { (&second, &first) };
            assert_eq!(target.bytes()[..mine.len()], mine[..], "{size} {same}");
            assert_eq!(other.bytes()[..theirs.len()], theirs[..], "{size} {same}");
        }
    }
}

#[test]
fn an_earlier_message_that_waits_for_room_comes_first() {
    let mut w = tight_pair();
    let mut target = Target::new(2000);
    let recv = w.irecv(1, Some(0), Some(1), &mut target);
    // More than the lane holds, and behind them two messages that could meet the receive.
    for n in 0..6 {
        w.isend(0, 1, 2, [n].as_slice());
    }
    let (first, second) = (text(1, 1000), text(2, 2000));
    w.isend(0, 1, 1, &first);
    w.isend(0, 1, 1, &second);
    w.settle();
    assert_eq!(w.code(1, recv), Some(Code::Ok));
    assert_eq!(target.bytes()[..1000], first);
    assert!(target.bytes()[1000..].iter().all(|b| *b == 0xee));
}

/// The receive is published for the next message that is put into the lane, and the large one would be that.
#[test]
fn an_earlier_small_message_that_waits_for_room_comes_first() {
    let mut w = tight_pair();
    let mut target = Target::new(2000);
    let recv = w.irecv(1, Some(0), Some(1), &mut target);
    for n in 0..6 {
        w.isend(0, 1, 2, [n].as_slice());
    }
    let (small, large) = (text(1, 20), text(2, 2000));
    w.isend(0, 1, 1, &small);
    // All that is in the lane is taken out, and the sender has not been there since.
    while w.pass(1) != Pass::Idle {}
    assert_eq!(w.code(1, recv), None);
    let behind = w.isend(0, 1, 1, &large);
    w.settle();
    assert_eq!((w.code(1, recv), w.code(0, behind)), (Some(Code::Ok), None));
    assert_eq!(target.bytes()[..20], small);
    assert!(target.bytes()[20..].iter().all(|b| *b == 0xee));
}

#[test]
fn an_earlier_receive_of_any_source_comes_first() {
    let mut w = pair();
    let (data, other) = (text(1, LARGE), text(2, LARGE));
    let (mut any, mut exact) = (Target::new(LARGE), Target::new(LARGE));
    let first = w.irecv(1, None, Some(1), &mut any);
    let second = w.irecv(1, Some(0), Some(1), &mut exact);
    let send = w.isend(0, 1, 1, &data);
    while w.pass(0) != Pass::Idle {}
    assert_eq!(w.code(0, send), None, "nothing was published");
    w.settle();
    assert_eq!((w.code(1, first), w.code(1, second)), (Some(Code::Ok), None));
    assert_eq!(any.bytes(), data);
    w.isend(0, 1, 1, &other);
    w.settle();
    assert_eq!(exact.bytes(), other);
}

#[test]
fn an_earlier_receive_of_the_same_source_comes_first() {
    let mut w = pair();
    let (data, other) = (text(1, LARGE), text(2, LARGE));
    let (mut a, mut b) = (Target::new(LARGE), Target::new(LARGE));
    w.irecv(1, Some(0), None, &mut a);
    w.irecv(1, Some(0), Some(1), &mut b);
    w.isend(0, 1, 1, &data);
    w.isend(0, 1, 1, &other);
    w.settle();
    assert_eq!(a.bytes(), data);
    assert_eq!(b.bytes(), other);
}

/// Between two chunks all that is claimed is copied: the record is not another receive's for that.
#[test]
fn a_receive_posted_in_the_midst_of_a_transfer() {
    for [sender, receiver] in [[1, 1], [2, 1], [1, 2], [0, 3], [3, 0], [1, 20], [20, 1]] {
        for late_send in [false, true] {
            let mut w = pair();
            let texts = [text(1, LARGE), text(2, LARGE)];
            let mut targets = [Target::new(LARGE), Target::new(LARGE)];
            let [first, second] = &mut targets;
            let mut received = vec![w.irecv(1, Some(0), Some(1), first)];
            let mut sent = vec![w.isend(0, 1, 1, &texts[0])];
            for (rank, passes) in [(0, sender), (1, receiver)] {
                for _ in 0..passes {
                    pass_of_one_chunk(&mut w, rank);
                }
            }
            received.push(w.irecv(1, Some(0), Some(1), second));
            if late_send {
                pass_of_one_chunk(&mut w, 0);
            }
            sent.push(w.isend(0, 1, 1, &texts[1]));
            w.settle();
            for (rank, ids) in [(0, &sent), (1, &received)] {
                let codes: Vec<_> = ids.iter().map(|id| w.code(rank, *id)).collect();
                assert_eq!(codes, [Some(Code::Ok); 2], "rank {rank}, {sender} and {receiver} passes");
            }
            for (target, text) in targets.iter().zip(&texts) {
                assert_eq!(target.bytes(), text);
            }
        }
    }
}

#[test]
fn a_cancel_at_every_moment() {
    for passes in 0..6 {
        let mut w = pair();
        let data = text(1, LARGE);
        let (mut target, mut second) = (Target::new(LARGE), Target::new(LARGE));
        let recv = w.irecv(1, Some(0), Some(1), &mut target);
        let send = (passes > 0).then(|| w.isend(0, 1, 1, &data));
        for _ in 1..passes {
            pass_of_one_chunk(&mut w, 0);
        }
        let cancelled = w.ranks[1].cancel(recv);
        // Before the sender has begun to copy, and not after.
        assert_eq!(cancelled, passes < 2, "{passes}");
        let frozen = target.bytes().to_vec();
        let send = send.unwrap_or_else(|| w.isend(0, 1, 1, &data));
        let again = w.irecv(1, Some(0), Some(1), &mut second);
        w.settle();
        assert_eq!(w.code(0, send), Some(Code::Ok), "{passes}");
        if cancelled {
            assert_eq!(w.code(1, recv), Some(Code::Cancelled));
            assert_eq!(target.bytes(), frozen, "written after it was cancelled");
            assert_eq!(w.code(1, again), Some(Code::Ok));
            assert_eq!(second.bytes(), data);
        } else {
            assert_eq!((w.code(1, recv), w.code(1, again)), (Some(Code::Ok), None), "{passes}");
            assert_eq!(target.bytes(), data);
        }
    }
}

#[test]
fn a_death_in_the_midst_ends_the_other() {
    for victim in [0u32, 1] {
        for receiver_passes in 0..3 {
            let mut w = pair();
            let data = text(1, LARGE);
            let mut target = Target::new(LARGE);
            let recv = w.irecv(1, Some(0), Some(1), &mut target);
            let send = w.isend(0, 1, 1, &data);
            pass_of_one_chunk(&mut w, 0);
            for _ in 0..receiver_passes {
                pass_of_one_chunk(&mut w, 1);
            }
            w.set_state(victim, PeerState::Dead);
            let survivor = 1 - victim;
            for _ in 0..50 {
                w.pass(survivor);
            }
            let id = if survivor == 0 { send } else { recv };
            // What is left a receiver may pull from the dead sender's memory here, where it is still there.
            let code = w.code(survivor, id);
            assert!(matches!(code, Some(Code::PeerDead | Code::Ok)), "{victim} {receiver_passes}: {code:?}");
            if code == Some(Code::Ok) && survivor == 1 {
                assert_eq!(target.bytes(), data);
            }
        }
    }
}

/// Whoever dies within a copy: the other does not wait for its end, and takes the message for a whole one in no case.
#[test]
fn a_death_within_a_copy_ends_the_other() {
    for victim in [0u32, 1] {
        let mut w = pair();
        let data = text(1, LARGE);
        let mut target = Target::new(LARGE);
        let recv = w.irecv(1, Some(0), Some(1), &mut target);
        let send = w.isend(0, 1, 1, &data);
        pass_of_one_chunk(&mut w, 1);
        let at = w.ranks[0].transport().publication(0, 1).unwrap();
        // SAFETY: - the fabric keeps publications as long as its ends live.
        let record = unsafe { at.as_ref() }.record();
        // The first since the pair was made.
        let Claim::Chunk(_) = record.claim(1, chunks(LARGE as u64).unwrap()) else {
            panic!("no chunk is left")
        };
        let survivor = 1 - victim;
        let id = if survivor == 0 { send } else { recv };
        for _ in 0..20 {
            pass_of_one_chunk(&mut w, survivor);
        }
        assert_eq!(w.code(survivor, id), None, "{victim}: a copy is under way");
        w.set_state(victim, PeerState::Dead);
        for _ in 0..50 {
            w.pass(survivor);
        }
        assert_eq!(w.code(survivor, id), Some(Code::PeerDead), "{victim}");
    }
}

#[test]
fn a_revoke_in_the_midst_ends_both() {
    for receiver_passes in 0..3 {
        for who in [0usize, 1] {
            let mut w = pair();
            let data = text(1, LARGE);
            let mut target = Target::new(LARGE);
            let recv = w.irecv(1, Some(0), Some(1), &mut target);
            let send = w.isend(0, 1, 1, &data);
            pass_of_one_chunk(&mut w, 0);
            for _ in 0..receiver_passes {
                pass_of_one_chunk(&mut w, 1);
            }
            w.ranks[who].revoke(0, &[0, 1]);
            let frozen = target.bytes().to_vec();
            w.settle();
            assert!(w.code(0, send).is_some() && w.code(1, recv).is_some(), "{receiver_passes} {who}");
            if w.code(1, recv) == Some(Code::Revoked) && who == 1 {
                assert_eq!(target.bytes(), frozen);
            }
            // Nobody is taken for a liar.
            assert_eq!((w.ranks[0].failed_peer(&[1]), w.ranks[1].failed_peer(&[0])), (None, None));
        }
    }
}

/// A send has found a published receive, which is withdrawn; another receive takes its announcement, accepts it and copies. What the send is given up for then
/// ends neither before that copy, nor by another name.
#[test]
fn what_another_receive_has_accepted_is_given_back_behind_its_copy() {
    use tocsin_transport::transfer::{Claim, chunks};
    use tocsin_transport::{Class, Header, SendOutcome, Transport, Urgency, kind};
    let mut w = pair();
    let (data, mut target, mut other) = (text(3, LARGE), Target::new(LARGE), Target::new(LARGE));
    let first = w.irecv(1, Some(0), Some(1), &mut target);
    // Each takes the other for one that waits, and leaves the copying to it.
    w.ranks[0].transport_mut().set_waiting(1, true);
    let send = w.isend(0, 1, 1, &data);
    w.ranks[0].transport_mut().flush();
    assert!(w.ranks[1].cancel(first));
    w.ranks[0].transport_mut().set_waiting(1, true);
    w.ranks[1].transport_mut().set_waiting(0, true);
    let recv = w.irecv(1, None, None, &mut other);
    w.pass_with(1, &mut Budget::limited(Context::Handler, 32, 1));
    assert_eq!((w.code(0, send), w.code(1, recv)), (None, None));
    let transport = w.ranks[0].transport();
    let records = (0..4).filter_map(|slot| transport.record(0, 1, slot));
    // SAFETY: the fabric lives as long as its ends.
    let mut records = records.map(|record| unsafe { &*record.as_ptr() });
    let (record, ticket) = records.find_map(|record| Some((record, record.untouched()?))).unwrap();
    let count = chunks(LARGE as u64).unwrap();
    assert_eq!(record.claim(ticket, count), Claim::Chunk(0));
    // The closed record is seen before the word of the revocation.
    let header = Header { kind: kind::FIN, flags: 1, ..Header::default() };
    let end = w.ranks[0].transport_mut();
    // SAFETY: there is no payload.
    while unsafe { end.try_send(1, Class::Control, Urgency::Urgent, &header, std::ptr::null(), 0) }
        == SendOutcome::Sent
    {}
    w.ranks[0].revoke(0, &[0, 1]);
    assert_eq!((w.code(0, send), record.says_why(ticket)), (None, true), "it is being copied");
    record.finish(count);
    w.pass(1);
    assert_eq!(w.code(1, recv), None);
    w.settle();
    assert_eq!((w.code(0, send), w.code(1, recv)), (Some(Code::Revoked), Some(Code::Revoked)));
}
