//! Short plain messages that are sent and received in one step, and all that must be in the way of that.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use tocsin_p2p::{Class, Code, Config, Glance, INLINE, Mode, Put, RecvArgs, Took, Wanted};
use tocsin_transport::PeerState;
use tocsin_transport::loopback::Limits;

impl World {
    fn send_at_once(&mut self, from: u32, to: u32, tag: i32, data: &[u8]) -> bool {
        // SAFETY: the data outlive the call.
        let put = unsafe { self.ranks[from as usize].send_at_once(0, to, tag, data.as_ptr(), data.len()) };
        put != Put::Not
    }

    fn may_receive(&self, at: u32, from: u32, target: &mut Target) -> bool {
        self.ranks[at as usize].can_receive_at_once(from, target.buf().layout.bytes())
    }

    fn receive(&mut self, at: u32, from: u32, tag: Option<i32>, target: &mut Target) -> Took {
        assert!(self.may_receive(at, from, target));
        let buf = target.buf();
        let (wanted, room) = (Wanted::new(0, tag), buf.layout.bytes());
        // SAFETY: asked above; the target lives.
        unsafe { self.ranks[at as usize].receive_at_once(from, wanted, buf.base, room, 2) }
    }

    /// The general way for what has come.
    fn receive_in_hand(&mut self, at: u32, from: u32, tag: i32, target: &mut Target) -> (Code, u64) {
        let (source, tag, buf) = (Some(from), Some(tag), target.buf());
        let args = RecvArgs { context: 0, source, tag, buf, class: Class::Eager, cookie: 0 };
        // SAFETY: the target lives, and is not looked at, until it is put down.
        assert!(unsafe { self.ranks[at as usize].take_in_hand(&args) }.unwrap());
        assert_eq!(self.ranks[at as usize].glance(), Glance::Over);
        let outcome = self.ranks[at as usize].put_down().unwrap().outcome(buf.layout.bytes());
        (outcome.code, outcome.bytes)
    }
}

const fn message(tag: i32, len: usize) -> Took {
    Took::Message { tag, len, flush: true }
}

/// Two ranks that have talked.
fn talking() -> World {
    talking_with(Limits::default(), Config::default())
}

fn talking_with(limits: Limits, config: Config) -> World {
    let mut w = World::with(2, limits, config);
    for (from, to) in [(0, 1), (1, 0), (1, 1)] {
        let mut target = Target::new(1);
        let (send, recv) = (w.isend(from, to, 0, b"x"), w.irecv(to, Some(from), Some(0), &mut target));
        w.settle();
        assert!(w.outcome(from, send).is_some() && w.outcome(to, recv).is_some());
    }
    w
}

#[test]
fn all_short_lengths_by_tag_and_by_any() {
    let mut w = talking();
    for len in 0..=INLINE {
        let (data, mut target) = (text(len as u64, len), Target::new(INLINE));
        assert_eq!(w.receive(1, 0, Some(7), &mut target), Took::Nothing);
        assert!(w.send_at_once(0, 1, 7, &data));
        let tag = (len % 2 == 0).then_some(7);
        assert_eq!(w.receive(1, 0, tag, &mut target), message(7, len));
        assert_eq!(&target.bytes()[..len], data);
        assert!(target.bytes()[len..].iter().all(|byte| *byte == 0xee));
        w.settle();
    }
    let counters = w.ranks[1].counters();
    assert_eq!(counters.packets_received, 3 + INLINE as u64, "and those of the beginning");
    assert!(!w.send_at_once(0, 1, 7, &text(1, INLINE + 1)), "that is not short");
}

/// Where ranks share cores, those of up to a KiB go at once, too.
#[test]
fn longer_ones_where_ranks_share_cores() {
    let limits = Limits { max_payload: [2000; 4], ..Limits::default() };
    let mut w = talking_with(limits, Config { eager_max: 2000, ..Config::default() });
    w.ranks.iter_mut().for_each(tocsin_p2p::P2p::set_crowded);
    let longest = w.ranks[0].longest_at_once();
    assert_eq!(longest, 1024);
    for len in [0, 16, 17, 64, 100, 1000, longest] {
        let (data, mut target) = (text(len as u64, len), Target::new(longest));
        assert!(w.send_at_once(0, 1, 7, &data));
        assert_eq!(w.receive(1, 0, Some(7), &mut target), message(7, len));
        assert_eq!(&target.bytes()[..len], data);
        assert!(target.bytes()[len..].iter().all(|byte| *byte == 0xee));
        w.settle();
    }
    let long = text(1, longest + 1);
    assert!(!w.send_at_once(0, 1, 7, &long));
    let (mut roomy, mut target) = (Target::new(longest + 1), Target::new(longest));
    // One that is too long for that, and one that is too long for its buffer.
    let _send = w.isend(0, 1, 7, &long);
    assert_eq!(w.receive(1, 0, Some(7), &mut roomy), Took::Other);
    assert!(!w.may_receive(1, 0, &mut roomy) && w.may_receive(1, 0, &mut target));
    assert_eq!(w.receive_in_hand(1, 0, 7, &mut roomy), (Code::Ok, long.len() as u64));
    assert_eq!(roomy.bytes(), long);
    w.settle();
    assert!(w.send_at_once(0, 1, 7, &text(40, 40)));
    assert_eq!(w.receive(1, 0, Some(7), &mut Target::new(39)), Took::Other);
    assert_eq!(w.receive_in_hand(1, 0, 7, &mut target), (Code::Ok, 40));
}

#[test]
fn to_itself() {
    let (mut w, mut target) = (talking(), Target::new(2));
    assert!(w.send_at_once(1, 1, 3, b"me"));
    assert_eq!(w.receive(1, 1, Some(3), &mut target), message(3, 2));
    assert_eq!(target.bytes(), b"me");
}

/// What is not for the receive stays where it is, and all that is general finds it.
#[test]
fn what_is_other_stays() {
    let (mut w, long) = (talking(), text(4, INLINE + 1));
    let (mut target, mut roomy) = (Target::new(4), Target::new(INLINE + 1));
    // Another tag, a message too long for the buffer or for this, one whose sender waits.
    assert!(w.send_at_once(0, 1, 5, b"five"));
    assert_eq!(w.receive(1, 0, Some(6), &mut target), Took::Other);
    assert_eq!(w.receive(1, 0, Some(5), &mut target), message(5, 4));
    assert!(w.send_at_once(0, 1, 5, b"fives"));
    assert_eq!(w.receive(1, 0, Some(5), &mut target), Took::Other);
    assert_eq!(w.receive_in_hand(1, 0, 5, &mut target), (Code::Truncated, 5));
    assert_eq!(target.bytes(), b"five");
    w.settle();
    let _send = w.isend(0, 1, 5, &long);
    assert_eq!(w.receive(1, 0, Some(5), &mut roomy), Took::Other);
    assert!(!w.may_receive(1, 0, &mut roomy), "the next is taken for one as long");
    assert!(w.may_receive(1, 0, &mut target), "that has no room for one");
    assert_eq!(w.receive_in_hand(1, 0, 5, &mut roomy), (Code::Ok, long.len() as u64));
    assert_eq!(roomy.bytes(), long);
    w.settle();
    assert!(w.send_at_once(0, 1, 5, b"short") && !w.may_receive(1, 0, &mut roomy));
    assert_eq!(w.receive_in_hand(1, 0, 5, &mut roomy), (Code::Ok, 5));
    assert!(w.may_receive(1, 0, &mut roomy), "it was short after all");
    let synchronous = w.isend_with(0, 1, 5, b"sync", Mode::Synchronous, Class::Eager);
    assert_eq!(w.receive(1, 0, Some(5), &mut target), Took::Other);
    let recv = w.irecv(1, Some(0), Some(5), &mut target);
    w.settle();
    assert_eq!((w.code(1, recv), w.code(0, synchronous)), (Some(Code::Ok), Some(Code::Ok)));
}

/// MPI's matching order: of receives, and of messages.
#[test]
fn nothing_is_overtaken() {
    let (mut w, mut first, mut target) = (talking(), Target::new(3), Target::new(3));
    // A receive that was posted before, of whatever source.
    let posted = w.irecv(1, None, None, &mut first);
    assert!(!w.may_receive(1, 0, &mut target));
    assert!(w.send_at_once(0, 1, 1, b"one"));
    w.settle();
    assert_eq!((w.code(1, posted), first.bytes()), (Some(Code::Ok), &b"one"[..]));
    assert!(w.may_receive(1, 0, &mut target));
    // One that was posted before and cancelled is in nobody's way.
    let posted = w.irecv(1, Some(0), None, &mut first);
    assert!(!w.may_receive(1, 0, &mut target) && w.ranks[1].cancel(posted));
    assert!(w.may_receive(1, 0, &mut target));
    // A message that has been taken in.
    assert!(w.send_at_once(0, 1, 1, b"two") && w.send_at_once(0, 1, 1, b"3rd"));
    w.settle();
    assert!(!w.may_receive(1, 0, &mut target));
    let recv = [w.irecv(1, Some(0), Some(1), &mut first), w.irecv(1, Some(0), Some(1), &mut target)];
    assert_eq!(recv.map(|id| w.code(1, id)), [Some(Code::Ok); 2]);
    assert_eq!((first.bytes(), target.bytes()), (&b"two"[..], &b"3rd"[..]));
    assert!(w.may_receive(1, 0, &mut target));
}

/// Of a lane that is full, and behind messages that wait for room in it.
#[test]
fn a_full_lane_keeps_its_order() {
    let mut w = talking_with(TIGHT, tight_config());
    let mut sent = 0u8;
    while w.send_at_once(0, 1, 1, &[sent]) {
        sent += 1;
    }
    assert!((1..100).contains(&sent), "{sent} have room");
    let last = [sent];
    let waits = w.isend(0, 1, 1, &last);
    assert_eq!(w.outcome(0, waits), None);
    let mut target = Target::new(1);
    assert_eq!(w.receive(1, 0, Some(1), &mut target), message(1, 1));
    assert_eq!(target.bytes(), [0]);
    assert!(!w.send_at_once(0, 1, 1, b"?"), "there is room, for the one that waits");
    w.settle();
    assert!(w.outcome(0, waits).is_some());
    for expected in 1..=sent {
        let recv = w.irecv(1, Some(0), Some(1), &mut target);
        w.settle();
        assert_eq!((w.code(1, recv), target.bytes()), (Some(Code::Ok), &[expected][..]));
    }
}

#[test]
fn the_dead_and_the_revoked_are_the_general_ways() {
    for state in [PeerState::Dead, PeerState::Finalized] {
        let (mut w, mut target) = (talking(), Target::new(4));
        assert!(w.send_at_once(0, 1, 1, b"last"));
        w.set_state(0, state);
        assert!(!w.may_receive(1, 0, &mut target) && !w.send_at_once(1, 0, 1, b"late"));
        let recv = w.irecv(1, Some(0), Some(1), &mut target);
        w.settle();
        assert_eq!((w.code(1, recv), target.bytes()), (Some(Code::Ok), &b"last"[..]));
        assert!(!w.may_receive(1, 0, &mut target) && !w.send_at_once(1, 0, 1, b"late"));
    }
    let (mut w, mut target) = (talking(), Target::new(4));
    w.ranks[1].revoke(0, &[0, 1]);
    assert!(!w.may_receive(1, 0, &mut target) && !w.send_at_once(1, 0, 1, b"late"));
}

/// Who receives one message after the other looks at everybody else now and then.
#[test]
fn others_have_their_turn() {
    let (mut w, mut target) = (talking(), Target::new(1));
    let mut met = 0;
    while w.may_receive(1, 0, &mut target) {
        assert!(w.send_at_once(0, 1, 1, b"x"));
        assert_eq!(w.receive(1, 0, Some(1), &mut target), message(1, 1));
        met += 1;
        assert!(met < 100, "nobody else is looked at");
    }
    assert!(met > 1);
    assert!(w.send_at_once(0, 1, 1, b"x"));
    assert_eq!(w.receive_in_hand(1, 0, 1, &mut target), (Code::Ok, 1));
    assert!(w.ranks[1].owes_a_look(false), "the general way looks then");
    assert!(w.may_receive(1, 0, &mut target));
    // As does who has looked before, and found nothing.
    while !w.ranks[1].is_look_due() {
        assert!(w.send_at_once(0, 1, 1, b"x"));
        assert_eq!(w.receive(1, 0, Some(1), &mut target), message(1, 1));
    }
    assert!(!w.may_receive(1, 0, &mut target) && !w.ranks[1].work_left());
    w.ranks[1].note_looked();
    assert!(w.may_receive(1, 0, &mut target) && !w.ranks[1].is_look_due());
}
