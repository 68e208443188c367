//! Receives that are posted in one step, short messages that are taken in one behind the other, and all that must be left to the general ways.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use tocsin_p2p::{AtOnce, Budget, Class, Code, Config, INLINE, Id, Mode, Pass, Put};
use tocsin_progress::Context;
use tocsin_transport::PeerState;
use tocsin_transport::loopback::Limits;

impl World {
    fn post(&mut self, at: u32, from: u32, tag: Option<i32>, target: &mut Target) -> Option<Id> {
        let buf = target.buf();
        // SAFETY: tests keep the target until the receive is complete or the world gone.
        let posted =
            unsafe { self.ranks[at as usize].post_at_once(0, from, tag, buf.base, buf.layout.bytes()) };
        match posted {
            AtOnce::Posted(id, completion) => {
                assert_eq!(self.ranks[at as usize].completion(id), Some(completion));
                Some(id)
            }
            AtOnce::Met { .. } => panic!("it had come: {posted:?}"),
            AtOnce::Not => None,
        }
    }

    fn put(&mut self, from: u32, to: u32, tag: i32, data: &[u8]) {
        // SAFETY: the data outlive the call.
        let put = unsafe { self.ranks[from as usize].send_at_once(0, to, tag, data.as_ptr(), data.len()) };
        assert!(put != Put::Not);
    }

    /// Sends a message that goes at once.
    fn put_or_send(&mut self, from: u32, to: u32, tag: i32, data: &[u8]) {
        let id = self.isend(from, to, tag, data);
        assert_eq!(self.code(from, id), Some(Code::Ok));
        self.ranks[from as usize].release(id);
    }

    /// A pass by a user's thread, in which nothing may allocate all the same.
    fn look(&mut self, rank: u32) -> Pass {
        self.pass_with(rank, &mut Budget::limited(Context::User, 256, 64 << 10))
    }

    fn give_back(&mut self, rank: u32, ids: &[Id]) {
        ids.iter().for_each(|id| self.ranks[rank as usize].release(*id));
    }
}

/// Two ranks that have talked, the second of which has had `slots` requests.
fn talking(slots: usize) -> World {
    let mut w = World::with(2, Limits::default(), Config { publish: true, ..Config::default() });
    for (from, to) in [(0, 1), (1, 0)] {
        let mut target = Target::new(1);
        let (send, recv) = (w.isend(from, to, 0, b"x"), w.irecv(to, Some(from), Some(0), &mut target));
        w.settle();
        w.give_back(from, &[send]);
        w.give_back(to, &[recv]);
    }
    let ids: Vec<Id> = (0..slots).map(|_| w.ranks[1].reserve_request().unwrap()).collect();
    w.give_back(1, &ids);
    w.look(1);
    w
}

fn targets(count: usize, len: usize) -> Vec<Target> {
    (0..count).map(|_| Target::new(len)).collect()
}

#[test]
fn windows_of_all_short_lengths() {
    let mut w = talking(20);
    let mut targets = targets(INLINE + 1, INLINE);
    for round in 0..3u64 {
        let ids: Vec<Id> = targets.iter_mut().map(|target| w.post(1, 0, Some(7), target).unwrap()).collect();
        let data: Vec<Vec<u8>> = (0..=INLINE).map(|len| text(round * 100 + len as u64, len)).collect();
        let before = w.ranks[1].counters();
        data.iter().for_each(|data| w.put(0, 1, 7, data));
        assert_ne!(w.look(1), Pass::Idle);
        for ((id, data), target) in ids.iter().zip(&data).zip(&targets) {
            let outcome = w.outcome(1, *id).unwrap();
            assert_eq!(
                (outcome.code, outcome.source, outcome.tag, outcome.bytes),
                (Code::Ok, 0, 7, data.len() as u64)
            );
            assert_eq!(&target.bytes()[..data.len()], data);
        }
        let after = w.ranks[1].counters();
        assert_eq!(after.packets_received - before.packets_received, INLINE as u64 + 1);
        assert_eq!(after.bytes_received - before.bytes_received, (INLINE * (INLINE + 1) / 2) as u64);
        assert_eq!(after.bytes_copied[0] - before.bytes_copied[0], (INLINE * (INLINE + 1) / 2) as u64);
        assert!(!w.ranks[1].has_requests() && w.look(1) == Pass::Idle);
        w.give_back(1, &ids);
    }
}

/// A budget bounds a run as it bounds single packets, and a handler's is left to these.
#[test]
fn no_more_than_the_budget() {
    let mut w = talking(9);
    let mut targets = targets(9, 1);
    let ids: Vec<Id> = targets.iter_mut().map(|target| w.post(1, 0, Some(1), target).unwrap()).collect();
    (0..9u8).for_each(|n| w.put(0, 1, 1, &[n]));
    let done = |w: &World| ids.iter().filter(|id| w.outcome(1, **id).is_some()).count();
    assert_eq!(w.pass_with(1, &mut Budget::limited(Context::User, 3, 1 << 10)), Pass::More);
    assert_eq!(done(&w), 3);
    assert_eq!(w.pass_with(1, &mut Budget::limited(Context::User, 256, 2)), Pass::More);
    assert_eq!(done(&w), 5, "two bytes");
    assert_eq!(w.pass_with(1, &mut Budget::handler()), Pass::Worked);
    assert_eq!(done(&w), 9);
    assert!(targets.iter().zip(0..).all(|(target, n)| target.bytes() == [n]));
}

/// Whatever comes between short messages that have receives: each goes its way, and nothing overtakes.
#[test]
fn what_is_other_in_the_middle_of_a_window() {
    let long = text(3, INLINE + 1);
    let mut w = talking(12);
    let mut targets = targets(7, INLINE + 1);
    let mut short = Target::new(2);
    // Too long for its buffer; longer than what a run takes; synchronous; of another tag, which nobody expects.
    let a = w.post(1, 0, Some(1), &mut targets[0]).unwrap();
    let b = w.post(1, 0, Some(1), &mut short).unwrap();
    let rest: Vec<Id> =
        targets[1..6].iter_mut().map(|target| w.post(1, 0, Some(1), target).unwrap()).collect();
    w.put(0, 1, 1, b"first");
    w.put(0, 1, 1, b"too long");
    let _long = w.isend(0, 1, 1, &long);
    w.put(0, 1, 1, b"4");
    let synchronous = w.isend_with(0, 1, 1, b"5", Mode::Synchronous, Class::Eager);
    w.put(0, 1, 2, b"unexpected");
    w.put(0, 1, 1, b"6");
    w.put(0, 1, 1, b"7");
    w.look(1);
    w.look(0);
    assert_eq!((w.code(1, a), &targets[0].bytes()[..5]), (Some(Code::Ok), &b"first"[..]));
    assert_eq!((w.code(1, b), short.bytes()), (Some(Code::Truncated), &b"to"[..]));
    assert_eq!(w.code(0, synchronous), Some(Code::Ok));
    assert!(rest.iter().all(|id| w.code(1, *id) == Some(Code::Ok)));
    let expected: [&[u8]; 5] = [&long, b"4", b"5", b"6", b"7"];
    for (target, data) in targets[1..].iter().zip(expected) {
        assert_eq!(&target.bytes()[..data.len()], data);
    }
    let kept = w.irecv(1, Some(0), Some(2), &mut targets[6]);
    assert_eq!((w.code(1, kept), &targets[6].bytes()[..10]), (Some(Code::Ok), &b"unexpected"[..]));
    assert!(w.post(1, 0, Some(1), &mut targets[0]).is_some());
}

/// The earliest posted that matches wins, whichever way it was posted.
#[test]
fn wildcards_and_tags_keep_their_order() {
    let mut w = talking(12);
    let mut targets = targets(5, 1);
    let [a, b, c, d, e] = &mut targets[..] else { panic!() };
    let ids = [
        w.post(1, 0, Some(1), a).unwrap(),
        w.irecv(1, None, Some(1), b),
        w.post(1, 0, None, c).unwrap(),
        w.post(1, 0, Some(2), d).unwrap(),
        w.post(1, 0, Some(1), e).unwrap(),
    ];
    // To the first; to any source; to any tag, though 2 is named later; to that; to the last.
    for (tag, data) in [(1, b"a"), (1, b"b"), (2, b"c"), (2, b"d"), (1, b"e")] {
        w.put(0, 1, tag, data);
    }
    w.look(1);
    assert_eq!(ids.map(|id| w.code(1, id)), [Some(Code::Ok); 5]);
    let bytes: Vec<u8> = targets.iter().map(|target| target.bytes()[0]).collect();
    assert_eq!(bytes, b"abcde");
    let outcome = w.outcome(1, ids[2]).unwrap();
    assert_eq!((outcome.source, outcome.tag), (0, 2));
}

/// Many receives of several tags, in bins that some of them share, and messages in another order.
#[test]
fn crowded_bins() {
    const COUNT: i32 = 600;
    let mut w = talking(COUNT as usize + 8);
    let mut targets = targets(COUNT as usize, 4);
    let mut general = 0;
    let ids: Vec<Id> = (0..COUNT)
        .zip(&mut targets)
        .map(|(tag, target)| match w.post(1, 0, Some(tag), target) {
            Some(id) => id,
            None => {
                general += 1;
                let id = w.irecv(1, Some(0), Some(tag), target);
                if w.ranks[1].owes_a_pass() {
                    w.look(1);
                }
                id
            }
        })
        .collect();
    assert!((1..COUNT / 8).contains(&general), "{general} of {COUNT}: one in so many owes a pass");
    for tag in (0..COUNT).rev() {
        w.put(0, 1, tag, &tag.to_le_bytes());
        if tag % 16 == 0 {
            while w.look(1) != Pass::Idle {}
        }
    }
    for (tag, (id, target)) in (0..COUNT).zip(ids.iter().zip(&targets)) {
        assert_eq!((w.code(1, *id), target.bytes()), (Some(Code::Ok), &tag.to_le_bytes()[..]), "{tag}");
    }
    assert!(!w.ranks[1].has_requests());
}

/// Receives that were cancelled, given up, or are wanted by somebody who does not look.
#[test]
fn ends_that_others_hear_of() {
    let mut w = talking(12);
    let mut targets = targets(4, 1);
    let [a, b, c, d] = &mut targets[..] else { panic!() };
    let ids = [
        w.post(1, 0, Some(1), a).unwrap(),
        w.post(1, 0, Some(1), b).unwrap(),
        w.post(1, 0, Some(1), c).unwrap(),
        w.post(1, 0, Some(1), d).unwrap(),
    ];
    assert!(w.ranks[1].cancel(ids[0]));
    w.ranks[1].set_wants(ids[1]);
    w.ranks[1].detach(ids[2]);
    assert!(w.ranks[1].wants_plain());
    [b"b", b"c", b"d"].iter().for_each(|data| w.put(0, 1, 1, *data));
    w.look(1);
    assert_eq!(w.code(1, ids[0]), Some(Code::Cancelled));
    assert_eq!((w.code(1, ids[1]), w.code(1, ids[3])), (Some(Code::Ok), Some(Code::Ok)));
    assert!(!w.ranks[1].wants_plain(), "it is complete");
    assert!(w.ranks[1].completion(ids[2]).is_none(), "nobody has it any more");
    assert_eq!([b, c, d].map(|target| target.bytes()[0]), *b"bcd");
    assert!(!w.ranks[1].has_requests());
}

#[test]
fn posts_that_take_the_general_way() {
    let (mut target, mut roomy) = (Target::new(4), Target::new(1 << 20));
    let mut fresh = World::new(2);
    assert!(fresh.post(1, 0, Some(1), &mut target).is_none(), "a peer that is not known");
    let mut w = talking(2);
    assert!(w.post(1, 2, Some(1), &mut target).is_none(), "no such rank");
    assert!(w.post(1, 0, Some(1), &mut roomy).is_none(), "more than one packet");
    let posted = [(); 2].map(|()| w.post(1, 0, Some(1), &mut target).unwrap());
    assert!(w.post(1, 0, Some(1), &mut target).is_none(), "no slot was used before");
    w.give_back(1, &posted);
    for state in [PeerState::Dead, PeerState::Finalized] {
        let mut w = talking(4);
        let id = w.post(1, 0, Some(1), &mut target).unwrap();
        w.put(0, 1, 1, b"last");
        w.set_state(0, state);
        assert!(w.post(1, 0, Some(1), &mut target).is_none(), "it has ended");
        w.look(1);
        assert_eq!((w.code(1, id), target.bytes()), (Some(Code::Ok), &b"last"[..]));
        assert!(w.post(1, 0, Some(1), &mut target).is_none());
        assert!(w.try_irecv(1, Some(0), Some(1), &mut target).is_err());
    }
    let mut w = talking(4);
    let posted = w.post(1, 0, Some(1), &mut target).unwrap();
    w.ranks[1].revoke(0, &[0, 1]);
    assert_eq!(w.code(1, posted), Some(Code::Revoked));
    assert!(w.post(1, 0, Some(1), &mut target).is_none());
}

/// Who dies with a window half sent: what came is received, the rest ends.
#[test]
fn half_a_window_of_the_dead() {
    let mut w = talking(4);
    let mut targets = targets(3, 1);
    let ids: Vec<Id> = targets.iter_mut().map(|target| w.post(1, 0, Some(1), target).unwrap()).collect();
    w.put(0, 1, 1, b"1");
    w.put(0, 1, 1, b"2");
    w.set_state(0, PeerState::Dead);
    while w.look(1) != Pass::Idle {}
    let codes: Vec<_> = ids.iter().map(|id| w.code(1, *id)).collect();
    assert_eq!(codes, [Some(Code::Ok), Some(Code::Ok), Some(Code::PeerDead)]);
    assert_eq!((targets[0].bytes(), targets[1].bytes()), (&b"1"[..], &b"2"[..]));
}

/// A long receive that its sender may find counts the messages before it, however they are taken.
#[test]
fn a_published_receive_behind_a_window() {
    let long = text(5, 100_000);
    let mut w = talking(8);
    let mut targets = targets(3, 1);
    let mut roomy = Target::new(long.len());
    let ids: Vec<Id> = targets.iter_mut().map(|target| w.post(1, 0, Some(1), target).unwrap()).collect();
    (0..2u8).for_each(|n| w.put(0, 1, 1, &[n]));
    let large = w.irecv(1, Some(0), Some(1), &mut roomy);
    w.put(0, 1, 1, &[2]);
    let send = w.isend(0, 1, 1, &long);
    w.look(1);
    w.settle();
    assert!(ids.iter().all(|id| w.code(1, *id) == Some(Code::Ok)));
    assert_eq!((w.code(1, large), w.code(0, send)), (Some(Code::Ok), Some(Code::Ok)));
    assert!(roomy.bytes() == long && targets.iter().zip(0..).all(|(target, n)| target.bytes() == [n]));
}

#[test]
fn who_gives_many_back_owes_a_pass_now_and_then() {
    let mut w = talking(1);
    let owed = |w: &mut World| (0..64).filter(|_| w.ranks[1].owes_a_pass_for_one_more()).count();
    assert_eq!(owed(&mut w), 2);
    w.ranks[1].owes_a_pass_for_one_more();
    w.look(1);
    assert_eq!((0..31).filter(|_| w.ranks[1].owes_a_pass_for_one_more()).count(), 0, "a pass was made");
}

/// A receive whose message was kept is over at once, without a request; what takes more is left to the general way.
#[test]
fn what_was_kept_is_received_at_once() {
    let mut w = talking(4);
    let long = text(9, 65);
    w.put(0, 1, 1, b"first");
    w.put(0, 1, 2, b"other");
    let _long = w.isend(0, 1, 1, &long);
    let synchronous = w.isend_with(0, 1, 1, b"answered", Mode::Synchronous, Class::Eager);
    w.put(0, 1, 1, &b"longer than its buffer"[..INLINE]);
    w.look(1);
    let at_once = |w: &mut World, tag, target: &mut Target| {
        let buf = target.buf();
        // SAFETY: the target outlives the call, and nothing is posted.
        unsafe { w.ranks[1].post_at_once(0, 0, tag, buf.base, buf.layout.bytes()) }
    };
    let mut target = Target::new(65);
    assert_eq!(at_once(&mut w, Some(1), &mut target), AtOnce::Met { tag: 1, bytes: 5 });
    assert_eq!(&target.bytes()[..5], b"first");
    assert_eq!(at_once(&mut w, Some(1), &mut target), AtOnce::Met { tag: 1, bytes: 65 });
    assert_eq!(target.bytes(), long);
    // One whose sender is answered; then one that is cut.
    assert_eq!(at_once(&mut w, Some(1), &mut target), AtOnce::Not);
    let id = w.irecv(1, Some(0), Some(1), &mut target);
    assert_eq!(w.code(1, id), Some(Code::Ok));
    w.ranks[1].release(id);
    let mut short = Target::new(3);
    assert_eq!(at_once(&mut w, Some(1), &mut short), AtOnce::Not);
    let id = w.irecv(1, Some(0), Some(1), &mut short);
    assert_eq!(w.code(1, id), Some(Code::Truncated));
    w.ranks[1].release(id);
    assert_eq!(at_once(&mut w, None, &mut target), AtOnce::Met { tag: 2, bytes: 5 });
    assert_eq!(&target.bytes()[..5], b"other");
    assert!(matches!(at_once(&mut w, None, &mut target), AtOnce::Posted(..)));
    w.settle();
    assert_eq!(w.code(0, synchronous), Some(Code::Ok));
}

/// Whichever pattern asks first, and after whatever: the earliest that matches, and nothing twice.
#[test]
fn kept_messages_are_found_by_patterns_of_every_kind() {
    for first in 0..4usize {
        let mut w = World::new(3);
        let mut left = Vec::new();
        for n in 0..60u32 {
            let (from, tag) = ([0, 2][n as usize % 2], (n / 2 % 5) as i32);
            w.put_or_send(from, 1, tag, &n.to_ne_bytes());
            w.pass_with(1, &mut Budget::user());
            left.push((from, tag, n));
        }
        for n in 0..60usize {
            let kind = if n < 10 { 0 } else { (n + first) % 4 };
            let wanted = left[n * 7 % left.len()];
            let pattern = ((kind & 1 == 0).then_some(wanted.0), (kind & 2 == 0).then_some(wanted.1));
            let matches = |m: &&(u32, i32, u32)| {
                pattern.0.is_none_or(|from| from == m.0) && pattern.1.is_none_or(|tag| tag == m.1)
            };
            let earliest = *left.iter().find(matches).unwrap();
            left.retain(|m| *m != earliest);
            let mut target = Target::new(4);
            let id = w.irecv(1, pattern.0, pattern.1, &mut target);
            let outcome = w.outcome(1, id).unwrap();
            assert_eq!((outcome.source, outcome.tag), (earliest.0, earliest.1), "{first}, {n}");
            assert_eq!(target.bytes(), earliest.2.to_ne_bytes(), "{first}, {n}");
            w.ranks[1].release(id);
        }
    }
}
