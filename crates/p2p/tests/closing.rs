//! Messages of collectives that their senders copy, and that are given up while a peer copies from or to their buffers.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Target, text};
use std::cell::Cell;
use tocsin_p2p::{Budget, Class, Code, Config, ConstBuf, Id, Mode, P2p, RecvArgs, SendArgs};
use tocsin_progress::Context;
use tocsin_transport::loopback::{Limits, Loopback, fabric_with_single_copies};
use tocsin_transport::transfer::{Claim, chunks};
use tocsin_transport::{Header, PeerState, Reach, Record, SendOutcome, Transport, Urgency, kind};

const LEN: usize = 300_000;
const COOKIE: u64 = 7;

/// Two ranks and a message of a collective between them, of which nothing is copied yet. Each takes the other for one that waits, so that the handlers
/// of neither copy.
struct Pair {
    ends: [P2p<Loopback>; 2],
    send: Id,
    recv: Id,
}

impl Pair {
    fn new(data: &[u8], target: &mut Target) -> Pair {
        Pair::by(Reach::Direct, data, target)
    }

    fn by(reach: Reach, data: &[u8], target: &mut Target) -> Pair {
        let mut ends = fabric_with_single_copies(2, Limits::default(), reach);
        ends[0].set_waiting(1, true);
        ends[1].set_waiting(0, true);
        let config = Config { single_copy_from: 0, publish: true, pipelines: true, ..Config::default() };
        let mut ends: Vec<_> = ends.into_iter().map(|end| P2p::new(end, config).unwrap()).collect();
        let receiver = ends.pop().unwrap();
        let mut ends = [ends.pop().unwrap(), receiver];
        ends[0].prepare_peer(1, LEN).unwrap();
        ends[1].prepare_peer(0, 0).unwrap();
        let (send, recv) = (ends[0].reserve_request().unwrap(), ends[1].reserve_request().unwrap());
        let mut pair = Pair { ends, send, recv };
        pair.start(data, target);
        pair
    }

    /// All is copied by one end, which has no room to say so.
    fn copied_by(copies: usize, data: &[u8], target: &mut Target) -> Pair {
        let mut pair = Pair::new(data, target);
        pair.pass(0);
        pair.pass(1);
        pair.pass(0);
        let copier = pair.ends[copies].transport_mut();
        fill_control(copier, 1 - copies as u32);
        copier.set_waiting(1 - copies as u32, false);
        (0..10).for_each(|_| pair.pass(copies));
        pair
    }

    fn start(&mut self, data: &[u8], target: &mut Target) {
        let buf = ConstBuf::contiguous(data.as_ptr(), data.len());
        let (tag, class, cookie) = (3, Class::Coll, COOKIE);
        let send = SendArgs { context: 1 << 31, dest: 1, tag, buf, mode: Mode::Standard, class, cookie };
        let (source, tag, buf) = (Some(0), Some(3), target.buf());
        let recv = RecvArgs { context: 1 << 31, source, tag, buf, class, cookie };
        // SAFETY: - the buffers outlive the pair's last pass.
        unsafe {
            self.ends[0].start_send(self.send, send);
            self.ends[1].start_recv(self.recv, recv);
        }
    }

    fn pass(&mut self, rank: usize) {
        let p2p = &mut self.ends[rank];
        p2p.progress(&mut Budget::limited(Context::Handler, 32, 64 << 10));
        p2p.transport_mut().flush();
    }

    fn settle(&mut self) {
        (0..40).for_each(|at| self.pass(at % 2));
    }

    /// The record of the transfer that is open, and its ticket: what the peer has of it.
    fn record(&self) -> (&Record, u32) {
        let transport = self.ends[0].transport();
        (0..2)
            .filter_map(|slot| transport.record(0, 1, slot))
            // SAFETY: - the fabric lives as long as its ends.
            .map(|record| unsafe { &*record.as_ptr() })
            .find_map(|record| Some((record, record.untouched()?)))
            .unwrap()
    }
}

/// Whoever waits does the copying, also for a collective: a handler leaves it to the sender.
#[test]
fn a_sender_that_waits_copies_into_a_rank_that_computes() {
    let (data, mut target) = (text(1, LEN), Target::new(LEN));
    let mut pair = Pair::new(&data, &mut target);
    pair.pass(0);
    (0..4).for_each(|_| pair.pass(1));
    assert!(pair.ends[1].is_pending(pair.recv));
    assert!(target.bytes().iter().all(|byte| *byte == 0xee), "it is left to the sender");
    let mut budget = Budget::user().waiting();
    pair.ends[0].progress(&mut budget);
    pair.ends[0].transport_mut().flush();
    assert_eq!(pair.ends[0].next_completed().map(|(cookie, _)| cookie), Some(COOKIE));
    pair.pass(1);
    let (cookie, outcome) = pair.ends[1].next_completed().unwrap();
    assert_eq!((cookie, outcome.code, outcome.bytes), (COOKIE, Code::Ok, LEN as u64));
    assert_eq!(target.bytes(), data);
}

/// Who comes to wait while the sender copies does not have it begin anew in another way.
#[test]
fn what_is_mostly_copied_is_not_asked_for_in_pieces() {
    const CHUNK: usize = 64 << 10;
    for (copied, in_pieces) in [(0, true), (CHUNK, true), (2 * CHUNK, false)] {
        let (data, mut target) = (text(1, LEN), Target::new(LEN));
        let mut pair = Pair::by(Reach::Kernel, &data, &mut target);
        pair.pass(0);
        pair.pass(1);
        pair.ends[1].transport_mut().set_committed(0, true);
        if copied > 0 {
            pair.ends[0].progress(&mut Budget::limited(Context::User, 32, copied).waiting());
        }
        let before = pair.ends[0].counters().bytes_sent;
        for at in 0..40 {
            let end = &mut pair.ends[1 - at % 2];
            end.set_waits(true);
            end.progress(&mut Budget::user().waiting());
            end.set_waits(false);
            end.transport_mut().flush();
        }
        assert_eq!(
            pair.ends[0].counters().bytes_sent - before,
            if in_pieces { LEN as u64 } else { 0 },
            "{copied}"
        );
        assert!(pair.ends.iter_mut().all(|end| end.next_completed().is_some()));
        assert_eq!(target.bytes(), data);
    }
}

/// Given up between a claim of the peer's and its end, at either end: it has ended when the peer has.
#[test]
fn what_is_given_up_ends_with_the_copy_that_is_under_way() {
    let data = text(2, LEN);
    for (who, dies) in [(0, false), (1, false), (0, true), (1, true)] {
        let mut target = Target::new(LEN);
        let mut pair = Pair::new(&data, &mut target);
        let id = if who == 0 { pair.send } else { pair.recv };
        pair.pass(0);
        pair.pass(1);
        pair.pass(0);
        let (record, ticket) = pair.record();
        let count = chunks(LEN as u64).unwrap();
        let record = std::ptr::from_ref(record);
        // SAFETY: - the fabric lives as long as its ends.
        let record = unsafe { &*record };
        assert_eq!(record.claim(ticket, count), Claim::Chunk(0));
        assert!(!pair.ends[who].abandon_collective(id), "it is given back under a copy: {who}");
        assert!(!pair.ends[who].abandon_collective(id), "asked again: {who}");
        assert!(pair.ends[who].is_pending(id));
        // The other end copies on, and begins nothing more.
        for _ in 0..4 {
            pair.pass(who);
        }
        assert!(pair.ends[who].next_completed().is_none());
        assert!(matches!(record.claim(ticket, count), Claim::Closed { failed: false }));
        if dies {
            pair.ends[who].transport().set_state(1 - who as u32, PeerState::Dead);
        } else {
            assert!(!pair.ends[who].work_left(), "a pass would find nothing");
            record.finish(count);
        }
        assert!(pair.ends[who].work_left(), "a pass would find that it is over");
        pair.pass(who);
        let (cookie, outcome) = pair.ends[who].next_completed().unwrap();
        assert_eq!((cookie, outcome.code), (COOKIE, Code::Cancelled), "{who}");
        assert!(!pair.ends[who].is_pending(id));
        if dies {
            continue;
        }
        // The other gives up, too; then both start again.
        pair.settle();
        let other = if who == 0 { pair.recv } else { pair.send };
        if pair.ends[1 - who].is_pending(other) {
            assert!(pair.ends[1 - who].abandon_collective(other));
        } else {
            while pair.ends[1 - who].next_completed().is_some() {}
        }
        pair.ends[1].transport_mut().set_waiting(0, false);
        pair.start(&data, &mut target);
        pair.settle();
        for end in &mut pair.ends {
            let (cookie, outcome) = end.next_completed().unwrap();
            assert_eq!((cookie, outcome.code), (COOKIE, Code::Ok), "{who}");
        }
        assert_eq!(target.bytes(), data);
    }
}

/// Who finds that the other end has given up tells it that its own last claim is over: that one may compute, or sleep.
#[test]
fn who_finds_it_given_up_says_that_it_copies_no_more() {
    for who in [0, 1] {
        let (data, mut target) = (text(4, LEN), Target::new(LEN));
        let mut pair = Pair::new(&data, &mut target);
        pair.pass(0);
        pair.pass(1);
        pair.pass(0);
        let id = if who == 0 { pair.send } else { pair.recv };
        let (record, ticket) = pair.record();
        // SAFETY: - the fabric lives as long as its ends.
        let record = unsafe { &*std::ptr::from_ref(record) };
        let count = chunks(LEN as u64).unwrap();
        assert_eq!(record.claim(ticket, count), Claim::Chunk(0));
        assert!(!pair.ends[who].abandon_collective(id));
        let rings = pair.ends[1 - who].transport().rings_to(who as u32);
        record.finish(count);
        pair.pass(1 - who);
        assert_eq!(pair.ends[1 - who].transport().rings_to(who as u32), rings + 1, "{who}");
    }
}

/// A sender gives a message up and uses its record anew before the receiver looks: that one hears of it all the same, also where there was no room to say
/// so.
#[test]
fn what_was_given_up_is_said_though_its_record_serves_another() {
    for full in [false, true] {
        let (first, second) = (text(1, LEN), text(2, LEN));
        let (mut one, mut two) = (Target::new(LEN), Target::new(LEN));
        let mut pair = Pair::new(&first, &mut one);
        pair.pass(1);
        pair.pass(0);
        if full {
            fill_control(pair.ends[0].transport_mut(), 1);
        }
        assert!(pair.ends[0].abandon_collective(pair.send));
        let given_up = pair.recv;
        pair.recv = pair.ends[1].reserve_request().unwrap();
        pair.start(&second, &mut two);
        for _ in 0..10 {
            pair.pass(1);
            pair.ends[0].progress(&mut Budget::user().waiting());
        }
        let mut codes: Vec<Code> =
            std::iter::from_fn(|| pair.ends[1].next_completed()).map(|end| end.1.code).collect();
        codes.sort_unstable_by_key(|code| *code as u32);
        assert_eq!(codes, [Code::Ok, Code::Cancelled], "{full}");
        assert!(!pair.ends[1].is_pending(given_up) && two.bytes() == second);
    }
}

/// Fills a Control lane with what asks for nothing.
fn fill_control(transport: &mut Loopback, to: u32) {
    let header = Header { kind: kind::FIN, flags: 1, ..Header::default() };
    // SAFETY: there is no payload.
    while unsafe { transport.try_send(to, Class::Control, Urgency::Plain, &header, std::ptr::null(), 0) }
        == SendOutcome::Sent
    {}
}

/// All is copied, and only one end, to which the other's lane is full, does not know: that either gives up takes nothing back.
#[test]
fn what_is_copied_is_received_though_one_end_gives_up() {
    for (copies, gives_up) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let (data, mut target) = (text(5, LEN), Target::new(LEN));
        let mut pair = Pair::copied_by(copies, &data, &mut target);
        let ids = [pair.send, pair.recv];
        assert!(target.bytes() == data && pair.ends[copies].is_pending(ids[copies]));
        assert!(pair.ends[gives_up].abandon_collective(ids[gives_up]));
        let other = 1 - gives_up;
        (0..4).for_each(|_| pair.pass(other));
        pair.settle();
        let end = pair.ends[other].next_completed().map(|(_, end)| end.code);
        assert_eq!(end, Some(Code::Ok), "{copies} {gives_up}");
        assert!(pair.ends.iter().all(|end| end.failed_epoch() == 0));
    }
}

/// So it is though the end that knows of it hears of a revocation, of which the other does not, or later.
#[test]
fn what_is_copied_is_received_though_one_end_hears_of_a_revocation() {
    for (copies, members) in [0, 1].into_iter().flat_map(|copies| [(copies, &[][..]), (copies, &[0, 1])]) {
        let (data, mut target) = (text(5, LEN), Target::new(LEN));
        let mut pair = Pair::copied_by(copies, &data, &mut target);
        assert!(pair.ends[copies].is_pending([pair.send, pair.recv][copies]));
        pair.ends[copies].revoke(0, members);
        pair.settle();
        let codes = pair.ends.each_mut().map(|end| end.next_completed().map(|(_, end)| end.code));
        assert_eq!(codes, [Some(Code::Ok); 2], "{copies} {members:?}");
        assert!(pair.ends.iter().all(|end| end.failed_epoch() == 0));
    }
}

/// What is given up for a revocation ends with that, though the closed record is seen before the word of it.
#[test]
fn a_revocation_is_heard_of_by_its_name() {
    for third in [false, true] {
        let (data, mut target) = (text(5, LEN), Target::new(LEN));
        let mut pair = Pair::new(&data, &mut target);
        pair.pass(1);
        pair.pass(0);
        fill_control(pair.ends[0].transport_mut(), 1);
        // By this rank, or by another that tells only this one.
        pair.ends[0].revoke(0, if third { &[] } else { &[0, 1] });
        // What the lane is full of is taken in, and the record looked at.
        pair.pass(1);
        assert!(pair.ends[1].is_pending(pair.recv) && pair.ends[1].next_completed().is_none());
        pair.settle();
        let end = pair.ends[1].next_completed().map(|(_, end)| end.code);
        assert_eq!(end, Some(Code::Revoked), "{third}");
    }
}

/// So it is with one that leaves: what it gives up for that ends when its end is heard of.
#[test]
fn an_end_is_heard_of_by_its_name() {
    for (state, code) in [(PeerState::Dead, Code::PeerDead), (PeerState::Finalized, Code::PeerFinalized)] {
        let (data, mut target) = (text(5, LEN), Target::new(LEN));
        let mut pair = Pair::new(&data, &mut target);
        pair.pass(1);
        pair.pass(0);
        pair.ends[0].close_transfers();
        assert!(pair.ends[0].abandon_collective(pair.send));
        pair.ends[0].transport_mut().flush();
        (0..4).for_each(|_| pair.pass(1));
        assert!(pair.ends[1].is_pending(pair.recv) && pair.ends[1].next_completed().is_none());
        pair.ends[1].transport().set_state(0, state);
        (0..4).for_each(|_| pair.pass(1));
        let end = pair.ends[1].next_completed().map(|(_, end)| (end.code, end.source));
        assert_eq!(end, Some((code, 0)));
    }
}

thread_local! {
    /// The record of the transfer that a peer ends while its receiver makes up its mind, and its ticket.
    static ENDS: Cell<Option<(*const Record, u32)>> = const { Cell::new(None) };
}

/// Copies all that is left and counts it, as the sender does.
fn copy_the_rest() {
    let Some((record, ticket)) = ENDS.take() else { return };
    // SAFETY: - the fabric lives as long as its ends.
    let record = unsafe { &*record };
    let count = chunks(LEN as u64).unwrap();
    while let Claim::Chunk(_) = record.claim(ticket, count) {
        record.finish(count);
    }
}

/// A receiver that turns to pieces does not undo what its sender has just ended.
#[test]
fn who_asks_for_pieces_does_so_before_the_last_is_claimed() {
    let (data, mut target) = (text(1, LEN), Target::new(LEN));
    let mut pair = Pair::by(Reach::Kernel, &data, &mut target);
    pair.pass(0);
    pair.pass(1);
    let (record, ticket) = pair.record();
    let record = std::ptr::from_ref(record);
    let receiver = pair.ends[1].transport_mut();
    receiver.set_committed(0, true);
    receiver.set_meanwhile(Some(copy_the_rest));
    ENDS.set(Some((record, ticket)));
    pair.ends[1].set_waits(true);
    pair.ends[1].progress(&mut Budget::user().waiting());
    assert!(ENDS.get().is_none(), "it has thought of pieces");
    // SAFETY: - the fabric lives as long as its ends.
    let record = unsafe { &*record };
    assert_eq!(
        record.look(ticket, chunks(LEN as u64).unwrap()),
        Claim::NoneLeft,
        "closed when it was complete"
    );
    assert!(pair.ends[1].is_pending(pair.recv), "its sender says that it is over");
}
