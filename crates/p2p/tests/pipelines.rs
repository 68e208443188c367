//! Which way a large message goes where threads of both ranks wait for it, and where not.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Target, text};
use tocsin_p2p::{Budget, Class, Code, Config, ConstBuf, Id, Mode, Outcome, P2p, Pass, RecvArgs, SendArgs};
use tocsin_progress::Context;
use tocsin_transport::loopback::{Limits, Loopback, fabric_with_single_copies};
use tocsin_transport::{Reach, Transport};

const LEN: usize = 300_000;

fn pair(reach: Reach, config: Config) -> Vec<P2p<Loopback>> {
    let ends = fabric_with_single_copies(2, Limits::default(), reach);
    ends.into_iter().map(|end| P2p::new(end, config).unwrap()).collect()
}

fn pipelines() -> Config {
    Config { pipelines: true, ..Config::default() }
}

fn pass(rank: &mut P2p<Loopback>, waits: bool) -> Pass {
    let mut budget = if waits { Budget::user() } else { Budget::user().in_passing() };
    let pass = rank.progress(&mut budget);
    rank.transport_mut().flush();
    pass
}

fn outcome(rank: &P2p<Loopback>, id: Id) -> Option<Outcome> {
    // SAFETY: the slab lives as long as the rank.
    unsafe { rank.completion(id).unwrap().as_ref() }.outcome()
}

/// Sends a message, the receive posted before or after; the ends wait or do not, the sender from its post on if it `blocks`, and else
/// afterwards. Bytes that went through a lane.
fn through_lanes(ranks: &mut [P2p<Loopback>], waits: [bool; 2], blocks: bool, before: bool) -> u64 {
    through_lanes_in(Class::Eager, ranks, waits, blocks, before)
}

/// The same in a given class.
fn through_lanes_in(
    class: Class,
    ranks: &mut [P2p<Loopback>],
    waits: [bool; 2],
    blocks: bool,
    before: bool,
) -> u64 {
    // A sender that blocks is not seen waiting when its announcement is.
    ranks[0].transport_mut().set_waiting(1, waits[1]);
    ranks[1].transport_mut().set_waiting(0, waits[0] && !blocks);
    let (data, mut target) = (text(7, LEN), Target::new(LEN));
    let buf = ConstBuf::contiguous(data.as_ptr(), data.len());
    let mode = Mode::Standard;
    let send = SendArgs { context: 0, dest: 1, tag: 1, buf, mode, class, cookie: 0 };
    let recv = RecvArgs { context: 0, source: Some(0), tag: Some(1), buf: target.buf(), class, cookie: 0 };
    let mut receive = None;
    if before {
        // SAFETY: the target lives longer.
        receive = Some(unsafe { ranks[1].irecv(recv) }.unwrap());
    }
    ranks[0].set_waits(blocks && waits[0]);
    // SAFETY: the data live longer.
    let sent = unsafe { ranks[0].isend(send) }.unwrap();
    ranks[0].set_waits(false);
    while !before && pass(&mut ranks[1], waits[1]) != Pass::Idle {}
    ranks[1].set_waits(waits[1]);
    // SAFETY: the target lives longer.
    let received = receive.unwrap_or_else(|| unsafe { ranks[1].irecv(recv) }.unwrap());
    ranks[1].set_waits(false);
    let before = ranks[0].counters().bytes_sent;
    for _ in 0..1000 {
        pass(&mut ranks[0], waits[0]);
        pass(&mut ranks[1], waits[1]);
        // Who does not wait has handlers.
        for rank in ranks.iter_mut() {
            rank.progress(&mut Budget::limited(
                Context::Handler,
                32,
                if waits == [true; 2] { 0 } else { 64 << 10 },
            ));
        }
        if outcome(&ranks[0], sent).is_some() && outcome(&ranks[1], received).is_some() {
            break;
        }
    }
    assert_eq!(outcome(&ranks[0], sent).unwrap().code, Code::Ok);
    assert_eq!(outcome(&ranks[1], received).unwrap().code, Code::Ok);
    assert_eq!(target.bytes(), data);
    ranks[0].release(sent);
    ranks[1].release(received);
    ranks[0].counters().bytes_sent - before
}

#[test]
fn in_pieces_where_both_wait_and_the_kernel_would_copy() {
    for (blocks, before) in [(false, false), (true, false), (true, true)] {
        let mut ranks = pair(Reach::Kernel, pipelines());
        assert_eq!(through_lanes(&mut ranks, [true, true], blocks, before), LEN as u64);
        for waits in [[false, true], [true, false], [false, false]] {
            assert_eq!(through_lanes(&mut ranks, waits, blocks, before), 0, "{waits:?}");
        }
        assert_eq!(through_lanes(&mut ranks, [true, true], blocks, before), LEN as u64);
    }
    // Who has only posted it finds the receive, and copies there with no handshake; but with the first message there is no place yet to
    // publish it in.
    let mut ranks = pair(Reach::Kernel, pipelines());
    assert_eq!(through_lanes(&mut ranks, [true, true], false, true), LEN as u64);
    assert_eq!(through_lanes(&mut ranks, [true, true], false, true), 0);
    // One address space, where no system call is saved.
    assert_eq!(through_lanes(&mut pair(Reach::Direct, pipelines()), [true, true], true, false), 0);
    let not = Config { pipelines: false, ..Config::default() };
    assert_eq!(through_lanes(&mut pair(Reach::Kernel, not), [true, true], true, false), 0);
}

/// Who has just posted a collective looks by itself, and may compute afterwards: it is not taken for one that waits.
#[test]
fn a_sender_in_a_collective_must_have_said_that_it_waits() {
    let mut ranks = pair(Reach::Kernel, pipelines());
    for (blocks, bytes) in [(false, 0), (true, LEN as u64), (false, 0)] {
        assert_eq!(through_lanes_in(Class::Coll, &mut ranks, [true, true], blocks, false), bytes);
        assert_eq!(through_lanes_in(Class::Coll, &mut ranks, [true, true], blocks, true), bytes);
        assert_eq!(through_lanes_in(Class::Coll, &mut ranks, [true, false], blocks, true), 0);
    }
}

/// Who waits sends pieces that the other can copy out meanwhile; a handler takes as much as it may.
#[test]
fn pieces_are_short_for_who_waits() {
    let (data, mut target) = (text(9, LEN), Target::new(LEN));
    for (waits, packets) in [(true, LEN.div_ceil(32 << 10)), (false, LEN.div_ceil(64 << 10))] {
        let mut ranks = pair(Reach::None, pipelines());
        let buf = ConstBuf::contiguous(data.as_ptr(), data.len());
        let (mode, class) = (Mode::Standard, Class::Eager);
        let send = SendArgs { context: 0, dest: 1, tag: 1, buf, mode, class, cookie: 0 };
        let recv =
            RecvArgs { context: 0, source: Some(0), tag: Some(1), buf: target.buf(), class, cookie: 0 };
        // SAFETY: data and target live longer.
        let (sent, received) = unsafe { (ranks[0].isend(send).unwrap(), ranks[1].irecv(recv).unwrap()) };
        while outcome(&ranks[1], received).is_none() {
            pass(&mut ranks[1], waits);
            pass(&mut ranks[0], waits);
        }
        assert_eq!(outcome(&ranks[0], sent).unwrap().code, Code::Ok);
        // With the announcement.
        assert_eq!(ranks[0].counters().packets_sent, packets as u64 + 1);
        assert_eq!(target.bytes(), data);
    }
}
