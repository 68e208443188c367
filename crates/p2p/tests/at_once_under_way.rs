//! From which length on messages go in a single copy where several are under way at once.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Target, text};
use tocsin_p2p::{Budget, Class, Code, Config, ConstBuf, Mode, P2p, RecvArgs, SendArgs};
use tocsin_transport::loopback::{Limits, Loopback, fabric_with_single_copies};
use tocsin_transport::{Reach, Transport};

const LEN: usize = 100_000;

/// Sends so many messages at once, each of which says that so many begin together, from a rank whose threshold for one is this. Bytes that went through a
/// lane, and so in two copies.
fn copied_twice(from: u64, sends: usize, class: Class, mode: Mode) -> u64 {
    let config = Config { single_copy_from: from, publish: false, ..Config::default() };
    let ends = fabric_with_single_copies(2, Limits::default(), Reach::Kernel);
    let mut ranks: Vec<P2p<Loopback>> = ends.into_iter().map(|end| P2p::new(end, config).unwrap()).collect();
    let data: Vec<_> = (0..sends as u64).map(|seed| text(seed, LEN)).collect();
    let mut targets: Vec<_> = (0..sends).map(|_| Target::new(LEN)).collect();
    let mut posted = Vec::new();
    for (data, target) in data.iter().zip(&mut targets) {
        let buf = ConstBuf::contiguous(data.as_ptr(), LEN);
        let send = SendArgs { context: 0, dest: 1, tag: 1, buf, mode, class, cookie: 0 };
        let recv =
            RecvArgs { context: 0, source: Some(0), tag: Some(1), buf: target.buf(), class, cookie: 0 };
        // SAFETY: data and targets live longer.
        posted.push(unsafe { (ranks[0].isend(send).unwrap(), ranks[1].irecv(recv).unwrap()) });
    }
    for _ in 0..1000 {
        for rank in &mut ranks {
            rank.progress(&mut Budget::user());
            rank.transport_mut().flush();
        }
    }
    for ((sent, received), (data, target)) in posted.into_iter().zip(data.iter().zip(&targets)) {
        for (rank, id) in [(&ranks[0], sent), (&ranks[1], received)] {
            // SAFETY: the slab lives as long as the rank.
            let outcome = unsafe { rank.completion(id).unwrap().as_ref() }.outcome();
            assert_eq!(outcome.map(|outcome| outcome.code), Some(Code::Ok));
        }
        assert_eq!(target.bytes(), data);
    }
    ranks[0].counters().bytes_sent
}

#[test]
fn of_several_at_once_a_part_of_the_length_is_enough() {
    let len = LEN as u64;
    for class in [Class::Eager, Class::Coll] {
        let twice = |from, sends| copied_twice(from, sends, class, Mode::Standard);
        assert_eq!([twice(len, 1), twice(len, 3)], [0, 0]);
        // The first goes by itself, the second as one of two, and so on.
        assert_eq!([twice(2 * len, 1), twice(2 * len, 2), twice(2 * len, 4)], [len; 3]);
        assert_eq!([twice(2 * len + 1, 2), twice(2 * len + 1, 3), twice(3 * len, 5)], [2 * len; 3]);
        assert_eq!(twice(u64::MAX, 4), 4 * len, "never");
    }
}

#[test]
fn a_collective_says_how_many_begin_together() {
    let len = LEN as u64;
    let twice = |from, sends, at_once| {
        let mode = Mode::Step { ends_there: false, ends_here: false, at_once };
        copied_twice(from, sends, Class::Coll, mode)
    };
    assert_eq!([twice(3 * len, 1, 0), twice(3 * len, 1, 2), twice(3 * len, 1, 3)], [len, len, 0]);
    assert_eq!([twice(3 * len, 3, 3), twice(3 * len, 3, 1)], [0, 2 * len]);
    assert_eq!(twice(u64::MAX, 1, u32::MAX), len, "never");
}
