//! Which way a large message goes where threads of both ranks wait for it, and where not.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Target, text};
use tocsin_p2p::{Budget, Class, Code, Config, ConstBuf, Id, Mode, Outcome, P2p, Pass, RecvArgs, SendArgs};
use tocsin_progress::Context;
use tocsin_transport::loopback::{Limits, Loopback, fabric_with_single_copies};
use tocsin_transport::{PeerState, Reach, Transport};

const LEN: usize = 300_000;

fn pair(reach: Reach, config: Config) -> Vec<P2p<Loopback>> {
    let ends = fabric_with_single_copies(2, Limits::default(), reach);
    ends.into_iter().map(|end| P2p::new(end, config).unwrap()).collect()
}

fn pipelines() -> Config {
    Config { pipelines: true, ..Config::default() }
}

fn pass(rank: &mut P2p<Loopback>, waits: bool) -> Pass {
    let mut budget = if waits { Budget::user().waiting() } else { Budget::user().in_passing() };
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
        // The sender has the answer of who has just posted later than that one looks for itself.
        pass(&mut ranks[1], waits[1]);
        pass(&mut ranks[0], waits[0]);
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

/// Where ranks share cores, too.
#[test]
fn in_pieces_where_ranks_share_cores() {
    let mut ranks = pair(Reach::Kernel, pipelines());
    ranks.iter_mut().for_each(P2p::set_crowded);
    for (blocks, before) in [(false, false), (true, false), (true, true)] {
        assert_eq!(through_lanes(&mut ranks, [true, true], blocks, before), LEN as u64);
        for waits in [[false, true], [true, false], [false, false]] {
            assert_eq!(through_lanes(&mut ranks, waits, blocks, before), 0, "{waits:?}");
        }
        assert_eq!(through_lanes_in(Class::Coll, &mut ranks, [true, true], true, before), LEN as u64);
    }
}

/// The first piece lies where it will be sent from, before anybody has asked for it; but for those who wait, and for those who are waited for.
#[test]
fn the_first_piece_is_copied_ahead() {
    for (waits, ahead) in [([true, true], 1), ([true, false], 0), ([false, true], 0)] {
        let mut ranks = pair(Reach::Kernel, pipelines());
        for times in 1..4 {
            through_lanes(&mut ranks, waits, true, true);
            assert_eq!(ranks[0].transport().sent_ahead(), times * ahead, "{waits:?}");
        }
    }
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

/// Of who posts a collective and is expected to wait for it, that is taken for granted: by itself, and by who has its announcement.
#[test]
fn who_will_wait_for_a_collective_goes_as_one_that_waits() {
    let mut ranks = pair(Reach::Kernel, pipelines());
    ranks.iter_mut().for_each(P2p::set_crowded);
    let mut through = |soon: [bool; 2], waits, blocks, before| {
        ranks.iter_mut().zip(soon).for_each(|(rank, soon)| rank.set_waits_soon(soon));
        through_lanes_in(Class::Coll, &mut ranks, waits, blocks, before)
    };
    for (soon, bytes) in [(true, LEN as u64), (false, 0)] {
        assert_eq!(through([soon, false], [true, true], false, true), bytes, "the sender, {soon}");
        // It does not wait yet when it meets the announcement.
        assert_eq!(through([false, soon], [true, false], true, false), bytes, "the receiver, {soon}");
    }
    // A plain message is not meant.
    ranks[0].set_waits_soon(true);
    assert_eq!(through_lanes(&mut ranks, [false, true], false, false), 0);
}

/// Who was expected to wait has waited, is interrupted, or stays no more: what is posted then is not for it.
#[test]
fn what_is_expected_ends() {
    let ends: [fn(&mut P2p<Loopback>); 3] = [
        |rank| _ = rank.progress(&mut Budget::user().waiting()),
        |rank| _ = rank.progress(&mut Budget::handler()),
        |rank| rank.end_stay(),
    ];
    for (at, end) in ends.iter().enumerate() {
        let mut ranks = pair(Reach::Kernel, pipelines());
        ranks.iter_mut().for_each(P2p::set_crowded);
        ranks[0].begin_stay();
        ranks[0].set_waits_soon(true);
        end(&mut ranks[0]);
        assert_eq!(through_lanes_in(Class::Coll, &mut ranks, [true, true], false, true), 0, "{at}");
    }
    // A pass in passing is part of the post.
    let mut ranks = pair(Reach::Kernel, pipelines());
    ranks[0].set_waits_soon(true);
    pass(&mut ranks[0], false);
    assert_eq!(through_lanes_in(Class::Coll, &mut ranks, [true, true], false, true), LEN as u64);
}

/// A receiver that is expected to wait changes over to pieces, as one that waits does, when its peer waits.
#[test]
fn who_will_wait_changes_over_to_pieces() {
    for (soon, bytes) in [(true, LEN as u64), (false, 0)] {
        let mut ranks = pair(Reach::Kernel, pipelines());
        ranks.iter_mut().for_each(P2p::set_crowded);
        ranks[1].transport_mut().set_committed(0, true);
        ranks[1].begin_stay();
        ranks[1].set_waits_soon(soon);
        assert_eq!(through_lanes_in(Class::Coll, &mut ranks, [true, false], false, false), bytes, "{soon}");
    }
}

/// Who waits for a collective, or stays after its post, asks for pieces of what another one that waits has only announced.
#[test]
fn a_receiver_in_a_collective_asks_for_pieces_of_one_that_waits() {
    let through = |ranks: &mut [P2p<Loopback>], waits, before| {
        through_lanes_in(Class::Coll, ranks, waits, false, before)
    };
    for before in [false, true] {
        let mut ranks = pair(Reach::Kernel, pipelines());
        for committed in [true, false, true] {
            ranks[1].transport_mut().set_committed(0, committed);
            let bytes = if committed { LEN as u64 } else { 0 };
            assert_eq!(through(&mut ranks, [true, true], before), bytes, "{before} {committed}");
            assert!(!ranks[1].has_pieces());
            // A handler pulls.
            assert_eq!(through(&mut ranks, [true, false], before), 0);
            ranks[1].begin_stay();
            assert_eq!(through(&mut ranks, [true, true], before), bytes);
            ranks[1].end_stay();
        }
        for (reach, config) in [
            (Reach::Direct, pipelines()),
            (Reach::Kernel, Config::default()),
            (Reach::Kernel, Config { pieces_from: LEN as u64 + 1, ..pipelines() }),
        ] {
            let mut ranks = pair(reach, config);
            ranks[1].transport_mut().set_committed(0, true);
            assert_eq!(through(&mut ranks, [true, true], before), 0, "{reach:?} {config:?}");
        }
    }
}

/// Where the kernel's copies are compared with the pipeline, the first two messages go either way, and what is quicker then is tried against the other.
#[test]
fn both_ways_are_tried_where_they_are_compared() {
    let compared = Config { compares: true, ..pipelines() };
    let mut ranks = pair(Reach::Kernel, compared);
    let mut coll = || through_lanes_in(Class::Coll, &mut ranks, [true, true], true, true);
    assert_eq!(coll(), LEN as u64, "nothing is known");
    assert_eq!(coll(), 0, "nothing is known of the kernel");
    let ways: Vec<bool> = (0..50).map(|_| coll() > 0).collect();
    assert!(ways.contains(&true) && ways.contains(&false), "{ways:?}");
    // A plain message of that length has nothing to find out.
    for _ in 0..3 {
        assert_ne!(through_lanes(&mut ranks, [true, true], true, true), 0);
    }
}

/// Of two threads that stay, each does until its own pieces are there, whatever the other does.
#[test]
fn threads_of_a_rank_stay_apart_from_each_other() {
    let mut ranks = pair(Reach::Kernel, pipelines());
    ranks[1].transport_mut().set_committed(0, true);
    ranks[0].transport_mut().set_committed(1, true);
    // The shorter is asked for last and is there first.
    let lengths = [LEN, LEN / 2, LEN];
    let data = lengths.map(|len| text(len as u64, len));
    let mut targets = lengths.map(Target::new);
    let (mode, class) = (Mode::Standard, Class::Coll);
    let sent: Vec<Id> = (1..)
        .zip(&data)
        .map(|(tag, data)| {
            let buf = ConstBuf::contiguous(data.as_ptr(), data.len());
            // SAFETY: the data live longer.
            unsafe { ranks[0].isend(SendArgs { context: 0, dest: 1, tag, buf, mode, class, cookie: 0 }) }
                .unwrap()
        })
        .collect();
    let mut receive = |ranks: &mut [P2p<Loopback>], at: usize| {
        let (buf, tag) = (targets[at].buf(), Some(at as i32 + 1));
        // SAFETY: the target lives longer.
        unsafe { ranks[1].irecv(RecvArgs { context: 0, source: Some(0), tag, buf, class, cookie: 0 }) }
            .unwrap()
    };
    ranks[1].begin_stay();
    let first = receive(&mut ranks, 0);
    pass(&mut ranks[1], false);
    ranks[1].begin_stay();
    let second = receive(&mut ranks, 1);
    pass(&mut ranks[1], false);
    let mut alone = 0;
    while outcome(&ranks[1], first).is_none() {
        assert!(ranks[1].has_pieces(), "the first thread leaves its message");
        if outcome(&ranks[1], second).is_some() {
            alone += 1;
        }
        pass(&mut ranks[0], true);
        pass(&mut ranks[1], true);
    }
    assert!(alone > 0 && outcome(&ranks[1], second).is_some());
    // The second goes; what comes is still asked for in pieces.
    ranks[1].end_stay();
    let third = receive(&mut ranks, 2);
    pass(&mut ranks[1], false);
    assert!(ranks[1].has_pieces());
    while outcome(&ranks[1], third).is_none() {
        pass(&mut ranks[0], true);
        pass(&mut ranks[1], true);
    }
    ranks[1].end_stay();
    pass(&mut ranks[0], true);
    assert!(sent.into_iter().all(|id| outcome(&ranks[0], id).is_some()));
    assert!(targets.iter().zip(&data).all(|(target, data)| target.bytes() == data));
    assert!(!ranks[1].has_pieces());
}

/// Who has only posted a collective pulls, unless it stays: then until the pieces are there.
#[test]
fn who_stays_after_a_post_knows_for_how_long() {
    for stays in [false, true] {
        let mut ranks = pair(Reach::Kernel, pipelines());
        ranks[1].transport_mut().set_committed(0, true);
        ranks[0].transport_mut().set_committed(1, true);
        let (data, mut target) = (text(7, LEN), Target::new(LEN));
        let buf = ConstBuf::contiguous(data.as_ptr(), data.len());
        let (mode, class) = (Mode::Standard, Class::Coll);
        let send = SendArgs { context: 0, dest: 1, tag: 1, buf, mode, class, cookie: 0 };
        let recv =
            RecvArgs { context: 0, source: Some(0), tag: Some(1), buf: target.buf(), class, cookie: 0 };
        // SAFETY: the data live longer.
        let sent = unsafe { ranks[0].isend(send) }.unwrap();
        if stays {
            ranks[1].begin_stay();
        }
        // SAFETY: the target lives longer.
        let received = unsafe { ranks[1].irecv(recv) }.unwrap();
        pass(&mut ranks[1], false);
        assert_eq!(ranks[1].has_pieces(), stays);
        assert_eq!(outcome(&ranks[1], received).is_some(), !stays, "the pull is over with the pass");
        let moved = |ranks: &[P2p<Loopback>]| [ranks[0].pieces_moved(), ranks[1].pieces_moved()];
        while outcome(&ranks[1], received).is_none() {
            assert!(ranks[1].has_pieces());
            let before = moved(&ranks);
            pass(&mut ranks[0], true);
            pass(&mut ranks[1], true);
            assert!(outcome(&ranks[1], received).is_some() || moved(&ranks) != before);
        }
        pass(&mut ranks[0], true);
        assert_eq!(outcome(&ranks[0], sent).unwrap().code, Code::Ok);
        assert!(target.bytes() == data && !ranks[1].has_pieces() && !ranks[0].has_pieces());
        // What else comes and goes is no reason to stay.
        let before = moved(&ranks);
        let (other, mut room) = (text(3, 100), Target::new(100));
        let buf = ConstBuf::contiguous(other.as_ptr(), other.len());
        let recv = RecvArgs { buf: room.buf(), class: Class::Eager, ..recv };
        // SAFETY: the text lives longer.
        unsafe { ranks[0].isend(SendArgs { buf, class: Class::Eager, ..send }) }.unwrap();
        ranks[0].transport_mut().flush();
        // SAFETY: the room lives longer.
        let received = unsafe { ranks[1].irecv(recv) }.unwrap();
        pass(&mut ranks[1], true);
        assert_eq!(outcome(&ranks[1], received).unwrap().code, Code::Ok);
        assert_eq!(moved(&ranks), before);
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

/// A post that takes in what a peer sent before its end makes a pass, and goes away afterwards all the same.
#[test]
fn who_only_posts_does_not_wait_whoever_has_ended() {
    let ends = fabric_with_single_copies(3, Limits::default(), Reach::Kernel);
    let mut ranks: Vec<P2p<Loopback>> =
        ends.into_iter().map(|end| P2p::new(end, pipelines()).unwrap()).collect();
    let (data, mut target) = (text(7, LEN), Target::new(LEN));
    let buf = ConstBuf::contiguous(data.as_ptr(), data.len());
    let (mode, class) = (Mode::Standard, Class::Eager);
    let send = SendArgs { context: 0, dest: 1, tag: 1, buf, mode, class, cookie: 0 };
    let recv = RecvArgs { context: 0, source: Some(0), tag: Some(1), buf: target.buf(), class, cookie: 0 };
    // SAFETY: the data live longer.
    let sent = unsafe { ranks[0].isend(send) }.unwrap();
    while pass(&mut ranks[1], false) != Pass::Idle {}
    ranks[1].transport_mut().set_waiting(0, true);
    ranks[1].transport_mut().set_state(2, PeerState::Finalized);
    // SAFETY: the target lives longer.
    let received = unsafe { ranks[1].irecv(recv) }.unwrap();
    while outcome(&ranks[1], received).is_none() {
        pass(&mut ranks[0], true);
        pass(&mut ranks[1], false);
    }
    pass(&mut ranks[0], true);
    assert_eq!(outcome(&ranks[0], sent).unwrap().code, Code::Ok);
    assert_eq!(target.bytes(), data);
    assert_eq!(ranks[0].counters().bytes_sent, 0, "in one copy, which interrupts nobody");
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn flip(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// What a rank does next: it waits or does not, is seen to or is not, and both change in the middle of messages. Each arrives once, whole
/// and in its turn.
#[test]
fn in_order_whoever_waits_when() {
    let (mut in_pieces, mut received, mut ahead) = (0, 0, 0);
    for seed in 0..400 {
        let mut random = Random(seed);
        let limits = Limits { packets: [3, 2, 2, 2], max_payload: [300, 300, 16, 8192] };
        let config = Config { pipelines: true, ..common::tight_config() };
        let ends = fabric_with_single_copies(2, limits, Reach::Kernel);
        let mut ranks: Vec<P2p<Loopback>> = ends.into_iter().map(|e| P2p::new(e, config).unwrap()).collect();
        let mut sent: [Vec<(Id, Vec<u8>)>; 2] = Default::default();
        let mut posted: [Vec<(Id, Target)>; 2] = Default::default();
        for step in 0..200 {
            let tag = random.below(2) as i32;
            let rank = random.below(2) as usize;
            match random.below(8) {
                0 if sent[tag as usize].len() < 20 => {
                    let data = text(
                        seed * 1000 + step,
                        [10, 64, 65, 5000, 70_000, 200_000][random.below(6) as usize],
                    );
                    let buf = ConstBuf::contiguous(data.as_ptr(), data.len());
                    let mode = if random.below(4) == 0 { Mode::Synchronous } else { Mode::Standard };
                    let class = Class::Eager;
                    ranks[0].set_waits(random.flip());
                    // SAFETY: the data live longer.
                    let id = unsafe {
                        ranks[0].isend(SendArgs { context: 0, dest: 1, tag, buf, mode, class, cookie: 0 })
                    };
                    ranks[0].set_waits(false);
                    sent[tag as usize].push((id.unwrap(), data));
                }
                1 if posted[tag as usize].len() < 20 => {
                    let mut target = Target::new(200_000);
                    let source = random.flip().then_some(0);
                    let (buf, class) = (target.buf(), Class::Eager);
                    ranks[1].set_waits(random.flip());
                    // SAFETY: the target lives longer.
                    let id = unsafe {
                        ranks[1].irecv(RecvArgs { context: 0, source, tag: Some(tag), buf, class, cookie: 0 })
                    };
                    ranks[1].set_waits(false);
                    posted[tag as usize].push((id.unwrap(), target));
                }
                2 if random.flip() => {
                    let of = &mut posted[tag as usize];
                    if !of.is_empty() {
                        let at = random.below(of.len() as u64) as usize;
                        if ranks[1].is_pending(of[at].0) && ranks[1].cancel(of[at].0) {
                            ranks[1].release(of.remove(at).0);
                        }
                    }
                }
                3 => ranks[rank].transport_mut().set_waiting(1 - rank as u32, random.flip()),
                _ => {
                    let (packets, bytes) = (1 + random.below(8) as u32, 1 + random.below(64 << 10) as usize);
                    let budget = |context| Budget::limited(context, packets, bytes);
                    let mut budget = match random.below(3) {
                        0 => budget(Context::Handler),
                        1 => budget(Context::User).in_passing(),
                        _ => budget(Context::User).waiting(),
                    };
                    ranks[rank].progress(&mut budget);
                    ranks[rank].transport_mut().flush();
                }
            }
        }
        // Handlers alone end it: nobody waits any more.
        for _ in 0..2000 {
            for (peer, rank) in [1, 0].into_iter().zip(&mut ranks) {
                rank.transport_mut().set_waiting(peer, false);
                rank.progress(&mut Budget::limited(Context::Handler, 32, 64 << 10));
                rank.transport_mut().flush();
                rank.grow_unexpected();
            }
        }
        for (sent, posted) in sent.iter().zip(&posted) {
            for ((send, data), (receive, target)) in sent.iter().zip(posted) {
                assert_eq!(outcome(&ranks[0], *send).unwrap().code, Code::Ok, "{seed}");
                let got = outcome(&ranks[1], *receive).unwrap_or_else(|| panic!("{seed}: a message stalls"));
                assert_eq!((got.code, got.bytes), (Code::Ok, data.len() as u64), "{seed}");
                assert!(target.bytes()[..data.len()] == data[..], "{seed}");
            }
            for (receive, _) in posted.iter().skip(sent.len()) {
                assert_eq!(outcome(&ranks[1], *receive), None, "{seed}");
            }
            received += sent.iter().zip(posted).map(|((_, data), _)| data.len() as u64).sum::<u64>();
        }
        in_pieces += ranks[0].counters().bytes_sent;
        ahead += ranks[0].transport().sent_ahead();
    }
    assert!(ahead > 100, "{ahead} pieces were copied ahead");
    assert!(in_pieces > received / 20 && in_pieces < received / 2, "{in_pieces} of {received} bytes");
}
