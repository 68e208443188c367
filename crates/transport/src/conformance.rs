//! The suite that every transport passes: call [`all`] and [`threaded`] from a test with a function that
//! makes a fresh world of n alive ranks.
//!
//! The functions panic where a transport breaks the contract. They pump endpoints in turn, so that one thread
//! is enough, except in [`threaded`].

#![allow(clippy::unwrap_used)] // a suite of tests: it panics by design

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::{Class, Header, Packet, PeerState, Recv, SendOutcome, Transport, Urgency, kind};

/// A small deterministic generator (xorshift64*), so that a failure comes back with its seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator; seed 0 counts as 1.
    pub fn new(seed: u64) -> Random {
        Random(seed.max(1))
    }

    /// The next number.
    pub fn word(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound` (0 for bound 0).
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.word() >> 16) as usize % bound }
    }
}

/// A packet that says what it should hold: number `n` from `from` to `to`, `len` bytes that follow from
/// these.
pub fn make(from: u32, to: u32, n: u64, len: usize) -> (Header, Vec<u8>) {
    let header = Header {
        kind: kind::PRIVATE,
        flags: n as u8,
        context: from,
        tag: -(to as i32) - 1,
        a: n,
        b: !n,
        c: len as u64,
    };
    (header, (0..len).map(|i| byte(from, n, i)).collect())
}

fn byte(from: u32, n: u64, i: usize) -> u8 {
    (n as usize).wrapping_mul(31).wrapping_add(i).wrapping_add(i >> 8).wrapping_add(from as usize) as u8
}

/// Panics unless `packet` is number `n` from `from` to `to`.
pub fn check(packet: &Packet, from: u32, to: u32, n: u64) {
    let (header, payload) = make(from, to, n, packet.header.c as usize);
    assert_eq!(packet.header, header, "packet {n} from {from} to {to}");
    assert_eq!(packet.len, payload.len(), "length of packet {n} from {from} to {to}");
    assert!(!packet.payload.is_null());
    // SAFETY: the transport promises that the payload is readable until it is consumed, and no peer
    // misbehaves here.
    let got = unsafe { std::slice::from_raw_parts(packet.payload, packet.len) };
    assert!(got == payload, "content of packet {n} from {from} to {to} ({} bytes)", packet.len);
}

/// Sends packet number `n` of `len` bytes.
pub fn send<T: Transport>(end: &mut T, to: u32, class: Class, n: u64, len: usize) -> SendOutcome {
    let (header, payload) = make(end.rank(), to, n, len);
    // SAFETY: the payload is a live vector of `len` bytes.
    unsafe { end.try_send(to, class, Urgency::Urgent, &header, payload.as_ptr(), len) }
}

/// Peeks, checks that number `n` is there, consumes it. False if the lane is empty.
pub fn receive<T: Transport>(end: &mut T, from: u32, class: Class, n: u64) -> bool {
    let to = end.rank();
    match end.peek(from, class) {
        Recv::Empty => false,
        Recv::Packet(packet) => {
            check(&packet, from, to, n);
            end.consume(from, class);
            true
        }
        Recv::Corrupt => panic!("lane {class:?} from {from} to {to} is corrupt"),
    }
}

/// Every part of the suite that one thread can run.
pub fn all<T: Transport>(world: &mut dyn FnMut(u32) -> Vec<T>) {
    shape(world);
    one_packet(world);
    to_oneself(world);
    sizes(world);
    long_pieces(world);
    full_and_again(world);
    classes_are_independent(world);
    what_cannot_be_sent(world);
    learning_senders(world);
    random_traffic(world, 0x70c5_1234);
}

/// Ranks, sizes, states and capabilities are as they should be.
pub fn shape<T: Transport>(world: &mut dyn FnMut(u32) -> Vec<T>) {
    for n in [1, 2, 7] {
        let ends = world(n);
        assert_eq!(ends.len(), n as usize);
        for (i, end) in ends.iter().enumerate() {
            assert_eq!(end.rank() as usize, i);
            assert_eq!(end.size(), n);
            assert_eq!(end.aborted(), None);
            assert!((0..n).all(|peer| end.peer_state(peer) == PeerState::Alive));
            assert_eq!(end.peer_state(n), PeerState::Absent);
            assert!(!end.is_connected(0) && !end.is_connected(n));
            assert!(end.connected().is_empty());
            assert!(Class::ALL.into_iter().all(|c| end.capabilities().max_payload(c) >= 16));
        }
    }
}

/// Nothing is there before a packet is sent, peeking repeats, consuming removes.
pub fn one_packet<T: Transport>(world: &mut dyn FnMut(u32) -> Vec<T>) {
    let mut ends = world(2);
    ends[0].connect(1).unwrap();
    ends[0].connect(1).unwrap();
    for class in [Class::Eager, Class::Coll, Class::Control] {
        ends[1].begin_pass();
        assert!(matches!(ends[1].peek(0, class), Recv::Empty));
        ends[1].consume(0, class);
        assert_eq!(send(&mut ends[0], 1, class, 7, 16), SendOutcome::Sent);
        ends[0].flush();
        assert!(ends[1].work_left());
        for _ in 0..2 {
            match ends[1].peek(0, class) {
                Recv::Packet(packet) => check(&packet, 0, 1, 7),
                other => panic!("{other:?} instead of a packet"),
            }
        }
        assert!(receive(&mut ends[1], 0, class, 7));
        assert!(matches!(ends[1].peek(0, class), Recv::Empty));
        ends[1].consume(0, class);
        ends[1].begin_pass();
        assert!(!ends[1].work_left());
        ends[1].flush();
    }
}

/// A rank reaches itself through the same lanes.
pub fn to_oneself<T: Transport>(world: &mut dyn FnMut(u32) -> Vec<T>) {
    for n in [1, 3] {
        let mut ends = world(n);
        let me = n - 1;
        let end = &mut ends[me as usize];
        end.connect_bulk(me).unwrap();
        end.begin_pass();
        assert_eq!(end.connected(), [me]);
        for class in Class::ALL {
            let len = end.capabilities().max_payload(class);
            assert_eq!(send(end, me, class, 1, len), SendOutcome::Sent);
            end.flush();
            assert!(receive(end, me, class, 1));
            assert!(!receive(end, me, class, 2));
        }
        end.flush();
    }
}

/// Every payload size near a border arrives intact, many times around the ring.
pub fn sizes<T: Transport>(world: &mut dyn FnMut(u32) -> Vec<T>) {
    let mut ends = world(2);
    ends[0].connect_bulk(1).unwrap();
    ends[1].begin_pass();
    for class in Class::ALL {
        let max = ends[0].capabilities().max_payload(class);
        let borders = [0, 1, 15, 16, 17, 63, 64, 65, max / 2, max - 1, max];
        let mut n = 0;
        for round in 0..40 {
            for len in borders.into_iter().filter(|l| *l <= max) {
                let len = if round % 2 == 1 { max - len } else { len };
                assert_eq!(send(&mut ends[0], 1, class, n, len), SendOutcome::Sent);
                assert!(receive(&mut ends[1], 0, class, n));
                n += 1;
            }
        }
    }
}

/// Pieces longer than what their class carries arrive intact, or are not sent.
pub fn long_pieces<T: Transport>(world: &mut dyn FnMut(u32) -> Vec<T>) {
    let mut ends = world(2);
    for (peer, end) in [1, 0].into_iter().zip(&mut ends) {
        end.connect_bulk(peer).unwrap();
        end.prepare_long(peer, 1 << 20);
    }
    ends.iter_mut().for_each(T::begin_pass);
    for n in 0..100 {
        let from = n as usize % 2;
        let to = 1 - from as u32;
        let len = [100_000, 128 << 10, 70_001][n as usize % 3].min(ends[from].longest_whole());
        let (header, payload) = make(from as u32, to, n, len);
        // SAFETY: the payload is that long.
        let sent = unsafe { ends[from].try_send_long_piece(to, &header, payload.as_ptr(), len, 1 << 20) };
        ends[from].flush();
        assert!(sent || len <= ends[from].capabilities().max_payload(Class::Bulk), "there is room");
        assert_eq!(receive(&mut ends[to as usize], from as u32, Class::Bulk, n), sent);
    }
}

/// A full lane says so, loses nothing, and tells the sender when there is room again.
pub fn full_and_again<T: Transport>(world: &mut dyn FnMut(u32) -> Vec<T>) {
    for class in Class::ALL {
        for len in [0, 16, 17, usize::MAX] {
            let mut ends = world(2);
            ends[0].connect_bulk(1).unwrap();
            ends[0].begin_pass();
            ends[1].begin_pass();
            let len = len.min(ends[0].capabilities().max_payload(class));
            let (mut sent, mut received) = (0, 0);
            for _ in 0..5 {
                while send(&mut ends[0], 1, class, sent, len) == SendOutcome::Sent {
                    sent += 1;
                    assert!(sent - received < 1 << 20, "a lane without bound");
                }
                assert!(sent > received, "an empty lane takes the longest packet");
                assert!(!ends[0].work_left(), "no room yet");
                while receive(&mut ends[1], 0, class, received) {
                    received += 1;
                }
                assert_eq!(sent, received);
                ends[1].flush();
                assert!(ends[0].work_left(), "room in a lane that was full is work");
            }
        }
    }
}

/// A full lane blocks no other class.
pub fn classes_are_independent<T: Transport>(world: &mut dyn FnMut(u32) -> Vec<T>) {
    for full in Class::ALL {
        let mut ends = world(2);
        ends[0].connect_bulk(1).unwrap();
        ends[1].begin_pass();
        let mut n = 0;
        while send(&mut ends[0], 1, full, n, 16) == SendOutcome::Sent {
            n += 1;
        }
        for other in Class::ALL.into_iter().filter(|c| *c != full) {
            let len = ends[0].capabilities().max_payload(other);
            assert_eq!(send(&mut ends[0], 1, other, 3, len), SendOutcome::Sent);
            assert!(receive(&mut ends[1], 0, other, 3));
        }
    }
}

/// Errors of the caller are answered, not followed.
pub fn what_cannot_be_sent<T: Transport>(world: &mut dyn FnMut(u32) -> Vec<T>) {
    let mut ends = world(3);
    assert!(ends[0].connect(3).is_err());
    assert!(ends[0].connect_bulk(u32::MAX).is_err());
    assert_eq!(send(&mut ends[0], 3, Class::Eager, 0, 0), SendOutcome::Gone);
    assert_eq!(send(&mut ends[0], 1, Class::Eager, 0, 0), SendOutcome::Gone, "not connected");
    ends[0].connect(1).unwrap();
    assert_eq!(send(&mut ends[0], 1, Class::Bulk, 0, 0), SendOutcome::Gone, "bulk is not connected");
    let max = ends[0].capabilities().max_payload(Class::Eager);
    assert_eq!(send(&mut ends[0], 1, Class::Eager, 0, max + 1), SendOutcome::Gone, "too long");
    assert!(matches!(ends[0].peek(2, Class::Eager), Recv::Empty));
    assert!(matches!(ends[0].peek(9, Class::Bulk), Recv::Empty));
    ends[0].consume(2, Class::Eager);
    ends[0].consume(9, Class::Control);
}

/// `connected` lists who has connected, in rank order; the connected side may answer without connecting.
pub fn learning_senders<T: Transport>(world: &mut dyn FnMut(u32) -> Vec<T>) {
    let mut ends = world(5);
    for peer in [3, 0, 4] {
        ends[peer].connect(2).unwrap();
        assert!(ends[2].work_left(), "a new connection is work");
        ends[2].begin_pass();
        assert!(ends[2].is_connected(peer as u32));
    }
    assert_eq!(ends[2].connected(), [0, 3, 4]);
    assert_eq!(send(&mut ends[2], 4, Class::Control, 5, 16), SendOutcome::Sent);
    ends[4].begin_pass();
    assert_eq!(ends[4].connected(), [2]);
    assert!(receive(&mut ends[4], 2, Class::Control, 5));
}

/// Random sizes over random pairs and classes, against queues as the model.
pub fn random_traffic<T: Transport>(world: &mut dyn FnMut(u32) -> Vec<T>, seed: u64) {
    const RANKS: u32 = 3;
    let mut random = Random::new(seed);
    let mut ends = world(RANKS);
    for from in 0..RANKS {
        for to in 0..RANKS {
            ends[from as usize].connect_bulk(to).unwrap();
        }
    }
    for end in &mut ends {
        end.begin_pass();
    }
    let lanes = (RANKS * RANKS) as usize * 4;
    let mut model: Vec<VecDeque<u64>> = vec![VecDeque::new(); lanes];
    let mut next = vec![0u64; lanes];
    for _ in 0..20_000 {
        let (from, to) = (random.below(3) as u32, random.below(3) as u32);
        let class = Class::ALL[random.below(4)];
        let lane = ((from * RANKS + to) as usize) * 4 + class.index();
        if random.below(2) == 0 {
            let max = ends[from as usize].capabilities().max_payload(class);
            let bound = if random.below(4) == 0 { max + 1 } else { (max + 1).min(100) };
            let len = random.below(bound);
            let n = next[lane];
            if send(&mut ends[from as usize], to, class, n, len) == SendOutcome::Sent {
                model[lane].push_back(n);
                next[lane] += 1;
            } else {
                assert!(!model[lane].is_empty(), "an empty lane is never full (seed {seed:#x})");
            }
        } else {
            match model[lane].pop_front() {
                Some(n) => assert!(receive(&mut ends[to as usize], from, class, n), "lost (seed {seed:#x})"),
                None => assert!(matches!(ends[to as usize].peek(from, class), Recv::Empty)),
            }
        }
        if random.below(8) == 0 {
            ends[from as usize].flush();
        }
        if random.below(8) == 0 {
            ends[to as usize].begin_pass();
        }
    }
}

/// Two threads, one endpoint each, random sizes both ways in every class at once.
pub fn threaded<T: Transport>(world: &mut dyn FnMut(u32) -> Vec<T>) {
    const PACKETS: u64 = 5_000;
    let ends = world(2);
    std::thread::scope(|scope| {
        for end in ends {
            scope.spawn(move || exchange(end, PACKETS, 42));
        }
    });
}

/// One side of a two-rank exchange of `packets` packets per class each way; panics after 180 s without end.
pub fn exchange<T: Transport>(mut end: T, packets: u64, seed: u64) {
    let me = end.rank();
    let peer = 1 - me;
    let mut random = Random::new(seed + u64::from(me));
    end.connect_bulk(peer).unwrap();
    let (mut sent, mut received) = ([0u64; 4], [0u64; 4]);
    let deadline = Instant::now() + Duration::from_secs(180);
    while sent != [packets; 4] || received != [packets; 4] {
        assert!(Instant::now() < deadline, "rank {me}: sent {sent:?}, received {received:?} after 180 s");
        end.begin_pass();
        let mut worked = false;
        for class in Class::ALL {
            let i = class.index();
            let max = end.capabilities().max_payload(class);
            for _ in 0..16 {
                if sent[i] == packets {
                    break;
                }
                let bound = if random.below(16) == 0 { max + 1 } else { (max + 1).min(200) };
                let len = random.below(bound);
                match send(&mut end, peer, class, sent[i], len) {
                    SendOutcome::Sent => sent[i] += 1,
                    SendOutcome::Full => break,
                    SendOutcome::Gone => panic!("rank {peer} is gone"),
                }
                worked = true;
            }
            for _ in 0..16 {
                if received[i] == packets || !receive(&mut end, peer, class, received[i]) {
                    break;
                }
                received[i] += 1;
                worked = true;
            }
        }
        end.flush();
        if !worked {
            std::thread::yield_now();
        }
    }
}
