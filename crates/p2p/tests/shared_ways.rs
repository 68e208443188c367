//! Which way a large message goes from and to buffers that both ranks have mapped, and that neither needs the other's thread for it.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::text;
use tocsin_p2p::{Budget, Class, Code, Config, ConstBuf, Id, Mode, MutBuf, P2p, RecvArgs, SendArgs};
use tocsin_progress::Context;
use tocsin_transport::loopback::{Limits, Loopback, fabric_with_shared_buffers, is_shared};
use tocsin_transport::{Reach, Transport};

/// More than goes in pieces, and no more than that.
const LEN: usize = 300_000;
const SHORT: usize = 256 << 10;

/// `LEN` bytes that are shared, or are not, inside of more.
struct Place {
    memory: Vec<u8>,
    at: usize,
}

impl Place {
    fn new(shared: bool) -> Place {
        let memory = vec![0; LEN + 4096];
        let base = memory.as_ptr() as u64;
        let at = (0..4096).find(|at| is_shared(base + *at as u64) == shared).unwrap();
        Place { memory, at }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.at..][..LEN]
    }
}

fn is_done(rank: &P2p<Loopback>, id: Id) -> bool {
    // SAFETY: the slab lives as long as the rank.
    let outcome = unsafe { rank.completion(id).unwrap().as_ref() }.outcome();
    outcome.is_some_and(|outcome| outcome.code == Code::Ok)
}

fn pass(rank: &mut P2p<Loopback>, waits: bool) {
    let limited = |context| Budget::limited(context, 32, 64 << 10);
    let mut budget = if waits { limited(Context::User).waiting() } else { limited(Context::Handler) };
    rank.progress(&mut budget);
    rank.transport_mut().flush();
}

/// Sends a message; each end's thread waits or does not, and then its handler runs. Bytes that went through a lane.
fn through_lanes(reach: Reach, shared: [bool; 2], waits: [bool; 2], class: Class, posted: bool) -> u64 {
    through_lanes_of(LEN, reach, shared, waits, class, posted)
}

/// The same of a message of `len` bytes, of a sender that says that it waits when it posts.
fn through_lanes_of(
    len: usize,
    reach: Reach,
    shared: [bool; 2],
    waits: [bool; 2],
    class: Class,
    posted: bool,
) -> u64 {
    let config = Config { pipelines: true, publish: true, ..Config::default() };
    let ends = fabric_with_shared_buffers(2, Limits::default(), reach);
    let mut ranks: Vec<_> = ends.into_iter().map(|end| P2p::new(end, config).unwrap()).collect();
    ranks[0].transport_mut().set_waiting(1, waits[1]);
    ranks[1].transport_mut().set_waiting(0, waits[0]);
    let (mut source, mut target) = (Place::new(shared[0]), Place::new(shared[1]));
    source.bytes()[..len].copy_from_slice(&text(3, len));
    let buf = ConstBuf::contiguous(source.bytes().as_ptr(), len);
    let room = MutBuf::contiguous(target.bytes().as_mut_ptr(), len);
    let send = SendArgs { context: 0, dest: 1, tag: 1, buf, mode: Mode::Standard, class, cookie: 0 };
    let recv = RecvArgs { context: 0, source: Some(0), tag: Some(1), buf: room, class, cookie: 0 };
    let mut receive = None;
    if posted {
        // SAFETY: the target lives longer.
        receive = Some(unsafe { ranks[1].irecv(recv) }.unwrap());
    }
    ranks[0].set_waits(waits[0]);
    // SAFETY: the source lives longer.
    let sent = unsafe { ranks[0].isend(send) }.unwrap();
    ranks[0].set_waits(false);
    if !posted {
        pass(&mut ranks[1], waits[1]);
    }
    // SAFETY: the target lives longer.
    let received = receive.unwrap_or_else(|| unsafe { ranks[1].irecv(recv) }.unwrap());
    for turn in 0.. {
        pass(&mut ranks[0], waits[0]);
        pass(&mut ranks[1], waits[1]);
        if is_done(&ranks[0], sent) && is_done(&ranks[1], received) {
            break;
        }
        assert!(turn < 1000, "{reach:?} shared {shared:?} waits {waits:?} {class:?}: it stands still");
    }
    assert!(target.bytes() == source.bytes());
    ranks[0].counters().bytes_sent
}

const WAITS: [[bool; 2]; 4] = [[true, true], [true, false], [false, true], [false, false]];

#[test]
fn from_a_shared_buffer_in_one_copy_whoever_waits() {
    for (waits, posted, to) in WAITS
        .into_iter()
        .flat_map(|w| [(w, false, false), (w, false, true), (w, true, false), (w, true, true)])
    {
        for class in [Class::Eager, Class::Coll] {
            for reach in [Reach::None, Reach::Kernel] {
                assert_eq!(through_lanes(reach, [true, to], waits, class, posted), 0, "{waits:?} {class:?}");
            }
        }
    }
}

#[test]
fn in_pieces_up_to_a_length_where_both_wait() {
    for (to, posted) in [(false, false), (false, true), (true, false), (true, true)] {
        let lanes = |len, reach, waits, class| through_lanes_of(len, reach, [true, to], waits, class, posted);
        let both = [true, true];
        assert_eq!(lanes(SHORT, Reach::Kernel, both, Class::Eager), SHORT as u64, "{to} {posted}");
        assert_eq!(lanes(SHORT + 1, Reach::Kernel, both, Class::Eager), 0, "{to} {posted}");
        assert_eq!(lanes(SHORT, Reach::Kernel, both, Class::Coll), 0, "{to} {posted}");
        for waits in [[true, false], [false, true], [false, false]] {
            assert_eq!(lanes(SHORT, Reach::Kernel, waits, Class::Eager), 0, "{to} {posted} {waits:?}");
        }
    }
}

#[test]
fn from_another_buffer_as_ever() {
    for (waits, posted, to) in WAITS.into_iter().flat_map(|w| [(w, false, false), (w, true, true)]) {
        for class in [Class::Eager, Class::Coll] {
            assert_eq!(through_lanes(Reach::None, [false, to], waits, class, posted), LEN as u64);
        }
    }
    for waits in [[true, false], [false, true], [false, false]] {
        assert_eq!(through_lanes(Reach::Kernel, [false, true], waits, Class::Eager, false), 0);
    }
}
