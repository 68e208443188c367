//! A rank that writes what no honest one writes: it alone is to blame, nothing is read or written out of bounds.

#![allow(clippy::unwrap_used, clippy::expect_used)] // clippy exempts test functions only, not what they share

mod common;

use common::{TIGHT, Target, tight_config};
use tocsin_p2p::{Budget, Class, Code, ConstBuf, Id, Mode, Outcome, P2p, RecvArgs, SendArgs};
use tocsin_transport::loopback::{Loopback, fabric_with};
use tocsin_transport::{Header, SendOutcome, Transport, Urgency, kind};

struct Scene {
    victim: P2p<Loopback>,
    /// Rank 1: raw, no engine.
    hostile: Loopback,
    honest: P2p<Loopback>,
}

fn scene() -> Scene {
    let mut ends = fabric_with(3, TIGHT).into_iter();
    let victim = P2p::new(ends.next().unwrap(), tight_config()).unwrap();
    let mut hostile = ends.next().unwrap();
    let honest = P2p::new(ends.next().unwrap(), tight_config()).unwrap();
    hostile.connect_bulk(0).unwrap();
    Scene { victim, hostile, honest }
}

impl Scene {
    fn send(&mut self, class: Class, header: Header, payload: &[u8]) {
        for _ in 0..100 {
            // SAFETY: the payload is a slice.
            let sent = unsafe {
                self.hostile.try_send(0, class, Urgency::Urgent, &header, payload.as_ptr(), payload.len())
            };
            if sent != SendOutcome::Full {
                return;
            }
            self.pass();
        }
        panic!("the victim takes nothing any more");
    }

    fn pass(&mut self) {
        for _ in 0..4 {
            self.victim.progress(&mut Budget::handler());
            self.victim.transport_mut().flush();
            self.honest.progress(&mut Budget::handler());
            self.honest.transport_mut().flush();
        }
    }

    fn irecv(&mut self, target: &mut Target) -> Id {
        let args = RecvArgs {
            context: 0,
            source: Some(1),
            tag: None,
            buf: target.buf(),
            class: Class::Eager,
            cookie: 0,
        };
        // SAFETY: the target outlives the scene's use of it.
        unsafe { self.victim.irecv(args) }.unwrap()
    }

    fn isend(&mut self, dest: u32, data: &[u8], mode: Mode) -> Id {
        let buf = ConstBuf::contiguous(data.as_ptr(), data.len());
        let args = SendArgs { context: 0, dest, tag: 0, buf, mode, class: Class::Eager, cookie: 0 };
        // SAFETY: the data outlive the scene's use of them.
        unsafe { self.victim.isend(args) }.unwrap()
    }

    fn outcome(&self, id: Id) -> Option<Outcome> {
        // SAFETY: the slab lives as long as the victim.
        self.victim.completion(id).and_then(|c| unsafe { c.as_ref() }.outcome())
    }

    /// The next control packet that the victim sent to the hostile rank.
    fn answer(&mut self) -> Option<Header> {
        self.hostile.begin_pass();
        for class in Class::ALL {
            if let tocsin_transport::Recv::Packet(packet) = self.hostile.peek(0, class) {
                self.hostile.consume(0, class);
                return Some(packet.header);
            }
        }
        None
    }

    fn is_condemned(&self) -> bool {
        self.victim.failed_peer(&[1]) == Some((1, Code::Protocol))
    }

    /// The victim still serves the honest rank.
    fn check_others(&mut self) {
        let data = [7u8; 500];
        let mut target = Target::new(500);
        let args = RecvArgs {
            context: 0,
            source: Some(0),
            tag: None,
            buf: target.buf(),
            class: Class::Eager,
            cookie: 0,
        };
        // SAFETY: the target outlives the receive.
        let recv = unsafe { self.honest.irecv(args) }.unwrap();
        let send = self.isend(2, &data, Mode::Synchronous);
        for _ in 0..50 {
            self.pass();
        }
        assert_eq!(self.outcome(send).map(|o| o.code), Some(Code::Ok));
        assert!(!self.honest.is_pending(recv));
        assert_eq!(target.bytes(), data);
    }
}

fn header(kind: u8) -> Header {
    Header { kind, ..Header::default() }
}

#[test]
fn nonsense_condemns_its_sender_alone() {
    let eager = |a| Header { a, ..header(kind::EAGER) };
    let rts = |flags| Header { flags, a: 100, b: 9, c: 4096, ..header(kind::RTS) };
    let table: Vec<(&str, Class, Header, usize)> = vec![
        ("unknown kind", Class::Eager, header(kind::PRIVATE), 0),
        ("control kind in a message lane", Class::Eager, header(kind::CTS), 0),
        ("control kind in the collective lane", Class::Coll, header(kind::REVOKE), 0),
        ("data in a message lane", Class::Coll, header(kind::DATA), 5),
        ("unknown flags", Class::Eager, Header { flags: 4, ..eager(0) }, 0),
        ("a long message in the wrong lane", Class::Eager, Header { flags: 2, ..eager(0) }, 0),
        ("two flags", Class::Coll, Header { flags: 3, ..eager(0) }, 0),
        ("flags on an announcement", Class::Eager, Header { flags: 1, a: 100, ..header(kind::RTS) }, 0),
        ("an announcement that waits and offers nothing", Class::Eager, rts(0x80), 8),
        ("a record beyond the last", Class::Eager, rts(31), 8),
        ("a record beyond the last, who waits", Class::Coll, rts(0x80 | 31), 8),
        ("one that brings and offers", Class::Eager, rts(0x20 | 0x1f), 8),
        ("one that brings less than it announces", Class::Eager, rts(0x1f), 99),
        ("one that brings more", Class::Eager, rts(0x1f), 101),
        ("one that brings a collective's", Class::Coll, rts(0x1f), 100),
        ("an announcement that is to be pulled from nowhere", Class::Eager, rts(0x40), 8),
        ("an offer to be pulled from nowhere", Class::Coll, Header { c: 0, ..rts(0xc0 | 1) }, 8),
        ("an offer without tickets, who waits", Class::Eager, rts(0x80 | 1), 0),
        ("an offer of nowhere, who waits", Class::Eager, Header { c: 0, ..rts(0x80 | 1) }, 8),
        ("several messages, and none", Class::Eager, header(kind::COALESCED), 0),
        ("several that are not there", Class::Eager, header(kind::COALESCED), 40),
        ("several with flags", Class::Eager, Header { flags: 1, ..header(kind::COALESCED) }, 40),
        ("several of a collective", Class::Coll, header(kind::COALESCED), 40),
        ("several answers", Class::Control, header(kind::COALESCED), 0),
        ("length that is not the payload's", Class::Eager, eager(6), 5),
        ("length beyond memory", Class::Eager, Header { a: u64::MAX, ..header(kind::RTS) }, 0),
        ("announcement with a payload", Class::Eager, Header { a: 100, ..header(kind::RTS) }, 5),
        ("message in the control lane", Class::Control, eager(0), 0),
        ("control with a payload", Class::Control, header(kind::ACK), 4),
        ("control with flags", Class::Control, Header { flags: 1, ..header(kind::REVOKE) }, 0),
        ("kind nobody sends", Class::Control, header(kind::GOODBYE), 0),
        ("CTS for nothing", Class::Control, Header { a: 77, ..header(kind::CTS) }, 0),
        ("CTS for a wild index", Class::Control, Header { a: u64::MAX, ..header(kind::CTS) }, 0),
        ("ACK for nothing", Class::Control, Header { a: 1 << 32, ..header(kind::ACK) }, 0),
        ("abort of nothing", Class::Control, Header { a: 3, ..header(kind::ABORT_SEND) }, 0),
        ("never received, of nothing", Class::Control, Header { a: 3, ..header(kind::CANCEL) }, 0),
        ("never received, with flags", Class::Control, Header { flags: 1, ..header(kind::CANCEL) }, 0),
        ("data for nothing", Class::Bulk, header(kind::DATA), 9),
        ("empty data", Class::Bulk, header(kind::DATA), 0),
        ("message in the bulk lane", Class::Bulk, eager(9), 9),
    ];
    for (what, class, header, len) in table {
        let mut s = scene();
        let mut target = Target::new(64);
        let recv = s.irecv(&mut target);
        s.pass();
        s.send(class, header, &vec![1; len]);
        s.pass();
        assert!(s.is_condemned(), "{what}");
        let outcome = s.outcome(recv).unwrap();
        assert_eq!((outcome.code, outcome.detail), (Code::Protocol, 1), "{what}");
        // Whatever else it sends is dropped, and does not pile up.
        for _ in 0..20 {
            s.send(Class::Eager, eager(0), &[]);
            s.send(Class::Bulk, Header { a: 3, ..header }, &[1; 9]);
        }
        s.pass();
        assert_eq!(s.victim.iprobe(0, Some(2), None).unwrap(), None);
        assert!(s.victim.iprobe(0, Some(1), None).is_err(), "{what}");
        s.check_others();
        target.bytes();
    }
}

/// The victim waits for 200 bytes from the hostile rank, which changes one word of the data packet.
#[test]
fn wrong_data_is_not_copied() {
    type Change = fn(&mut Header, &mut usize);
    let table: [(&str, Change, bool); 10] = [
        ("as it should be", |_, _| (), false),
        ("offset beyond the end", |h, _| h.b = 200, true),
        ("offset that wraps", |h, _| h.b = u64::MAX, true),
        ("gap", |h, _| h.b = 1, true),
        ("another serial", |h, _| h.a += 1 << 32, true),
        ("another slot", |h, _| h.a += 1, true),
        ("flags", |h, _| h.flags = 1, true),
        ("too short is no error yet", |h, len| (h.b, *len) = (97, 3), false),
        ("from the front", |_, len| *len = 3, true),
        ("longer than what is left", |_, len| *len = 101, true),
    ];
    for (what, change, nonsense) in table {
        let mut s = scene();
        let mut target = Target::new(100);
        let recv = s.irecv(&mut target);
        s.send(Class::Eager, Header { a: 100, b: 9, ..header(kind::RTS) }, &[]);
        s.pass();
        let cts = s.answer().unwrap();
        assert_eq!((cts.kind, cts.a, cts.c), (kind::CTS, 9, 100));
        let mut data = Header { a: cts.b, ..header(kind::DATA) };
        let mut len = 100;
        change(&mut data, &mut len);
        s.send(Class::Bulk, data, &vec![5; len]);
        s.pass();
        assert_eq!(s.is_condemned(), nonsense, "{what}");
        match s.outcome(recv).map(|o| o.code) {
            Some(Code::Ok) => assert!(!nonsense && len == 100, "{what}"),
            Some(code) => assert!(nonsense && code == Code::Protocol, "{what}"),
            None => assert!(!nonsense && len == 3, "{what}"),
        }
        if nonsense {
            assert!(target.bytes().iter().all(|b| *b == 0xee), "{what}");
        } else {
            let (before, there) = target.bytes().split_at(100 - len);
            assert!(before.iter().all(|b| *b == 0xee) && there.iter().all(|b| *b == 5), "{what}");
            // One byte too many, after what was right.
            s.send(Class::Bulk, Header { b: 0, ..data }, &vec![6; 101 - len]);
            s.pass();
            assert!(s.is_condemned(), "{what}");
        }
        target.bytes();
        s.check_others();
    }
}

/// The victim's send is announced; the hostile rank answers wrongly.
#[test]
fn wrong_answers_end_the_send() {
    type Change = fn(&mut Header);
    let table: [(&str, Change); 5] = [
        ("more than announced", |h| h.c = 301),
        ("less than announced", |h| h.c = 299),
        ("another slot", |h| h.a += 1),
        ("another serial", |h| h.a ^= 1 << 40),
        ("acknowledged instead", |h| h.kind = kind::ACK),
    ];
    for (what, change) in table {
        let mut s = scene();
        let data = [3u8; 300];
        let send = s.isend(1, &data, Mode::Standard);
        s.pass();
        let rts = s.answer().unwrap();
        assert_eq!((rts.kind, rts.a), (kind::RTS, 300));
        let mut cts = Header { a: rts.b, b: 1, c: 300, ..header(kind::CTS) };
        change(&mut cts);
        s.send(Class::Control, cts, &[]);
        s.pass();
        assert!(s.is_condemned(), "{what}");
        assert_eq!(s.outcome(send).map(|o| o.code), Some(Code::Protocol), "{what}");
        assert_eq!(s.victim.outstanding_sends(), 0);
        s.check_others();
    }
}

/// The request exists, but belongs to another rank.
#[test]
fn a_request_of_another_rank_is_out_of_reach() {
    let mut s = scene();
    let data = [3u8; 300];
    let send = s.isend(2, &data, Mode::Standard);
    s.pass();
    // Slot 0, first start: what an attacker would guess.
    s.send(Class::Control, Header { a: 1 << 32, b: 1, c: 300, ..header(kind::CTS) }, &[]);
    s.pass();
    assert!(s.is_condemned());
    assert_eq!(s.outcome(send), None);
    let mut target = Target::new(300);
    let args = RecvArgs {
        context: 0,
        source: Some(0),
        tag: None,
        buf: target.buf(),
        class: Class::Eager,
        cookie: 0,
    };
    // SAFETY: the target lives to the end.
    unsafe { s.honest.irecv(args) }.unwrap();
    for _ in 0..20 {
        s.pass();
    }
    assert_eq!(s.outcome(send).map(|o| o.code), Some(Code::Ok));
    assert_eq!(target.bytes(), data);
}

/// A message that its receiver has asked for is not one that is never received; nor is one that it has said so of before.
#[test]
fn what_is_under_way_is_not_declined() {
    for asked in [false, true] {
        let mut s = scene();
        let data = [3u8; 300];
        let send = s.isend(1, &data, Mode::Standard);
        s.pass();
        let rts = s.answer().unwrap();
        if asked {
            s.send(Class::Control, Header { a: rts.b, b: 1, c: 300, ..header(kind::CTS) }, &[]);
            s.pass();
        }
        let cancel = Header { a: rts.b, ..header(kind::CANCEL) };
        s.send(Class::Control, cancel, &[]);
        s.pass();
        assert_eq!(s.is_condemned(), asked);
        let code = if asked { Code::Protocol } else { Code::NeverReceived };
        assert_eq!(s.outcome(send).map(|o| o.code), Some(code));
        s.send(Class::Control, cancel, &[]);
        s.pass();
        assert_eq!((s.is_condemned(), s.outcome(send).map(|o| o.code)), (asked, Some(code)));
        assert_eq!(s.victim.outstanding_sends(), 0);
        s.check_others();
    }
}

#[test]
fn revocations_without_end_are_a_flood() {
    let mut s = scene();
    // Apart from each other: those that follow each other take no room.
    for context in 0..5000 {
        s.send(Class::Control, Header { context: 10 + 7 * context, ..header(kind::REVOKE) }, &[]);
    }
    for _ in 0..2000 {
        s.pass();
    }
    assert!(s.is_condemned());
    s.check_others();
}

/// xorshift64*: the same packets in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 16) as usize % bound
    }
}

/// Random packets in random lanes, with requests of every kind pending.
#[test]
fn random_packets() {
    let mut random = Random(77);
    for _ in 0..2000 {
        let mut s = scene();
        let data = [3u8; 300];
        let mut targets: Vec<_> = (0..3).map(|n| Target::new(n * 100)).collect();
        for target in &mut targets {
            s.irecv(target);
        }
        s.isend(1, &data, Mode::Standard);
        s.isend(1, &data[..5], Mode::Synchronous);
        for _ in 0..30 {
            let class = Class::ALL[random.below(4)];
            let small = |r: &mut Random| match r.below(4) {
                0 => r.next(),
                1 => r.below(6) as u64 | (1 + r.below(2) as u64) << 32,
                _ => r.below(310) as u64,
            };
            let len = random.below(if class == Class::Control { 2 } else { 100 });
            let header = Header {
                kind: 1 + random.below(8) as u8,
                flags: u8::from(random.below(8) == 0),
                context: random.below(20) as u32 / 19,
                tag: 0,
                a: if random.below(2) == 0 { len as u64 } else { small(&mut random) },
                b: small(&mut random),
                c: small(&mut random),
            };
            s.send(class, header, &data[..len]);
            s.pass();
            while s.answer().is_some() {}
            if s.is_condemned() {
                break;
            }
        }
        for target in &targets {
            target.bytes();
        }
    }
}
