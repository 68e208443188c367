//! Very many messages: memory, order, push-back.

#![allow(clippy::unwrap_used, clippy::expect_used)] // clippy exempts test functions only, not what they share

mod common;

use common::{Target, World, text, tight_config};
use tocsin_p2p::{Class, Code, Config, Grown, Mode, MutBuf, Pass, RecvArgs};
use tocsin_transport::loopback::Limits;

#[test]
fn many_pending_sends_cost_memory_per_request_only() {
    const N: usize = 1_000_000;
    let start = std::time::Instant::now();
    let mut w = World::new(2);
    let data: Vec<u64> = (0..N as u64 * 8).map(|i| i / 8).collect();
    let bytes: Vec<&[u8]> = data
        .chunks(8)
        // SAFETY: eight u64 are 64 bytes.
        .map(|c| unsafe { std::slice::from_raw_parts(c.as_ptr().cast(), 64) })
        .collect();
    let ids: Vec<_> = bytes.iter().map(|b| w.isend(0, 1, 1, b)).collect();
    assert!(w.ranks[0].outstanding_sends() > N - 100);
    // A collective passes the flood.
    let token = w.isend_with(0, 1, 0, &[], Mode::Synchronous, Class::Coll);
    let args = RecvArgs {
        context: 0,
        source: Some(0),
        tag: Some(0),
        buf: MutBuf::contiguous(std::ptr::dangling_mut(), 0),
        class: Class::Coll,
        cookie: 0,
    };
    // SAFETY: an empty buffer.
    let there = unsafe { w.ranks[1].irecv(args) }.unwrap();
    for rank in [0, 1, 0] {
        w.pass(rank);
    }
    assert_eq!((w.code(0, token), w.code(1, there)), (Some(Code::Ok), Some(Code::Ok)));
    let mut target = Target::new(64);
    for b in &bytes {
        let id = w.irecv(1, Some(0), Some(1), &mut target);
        while w.outcome(1, id).is_none() {
            w.pass(1);
            w.pass(0);
        }
        assert_eq!(target.bytes(), *b);
        w.ranks[1].release(id);
    }
    for id in ids {
        assert_eq!(w.code(0, id), Some(Code::Ok));
        w.ranks[0].release(id);
    }
    assert_eq!(w.ranks[0].outstanding_sends(), 0);
    // About a second; quadratic behaviour would take hours.
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}

#[test]
fn many_posted_receives_in_reverse_and_many_unexpected() {
    const N: usize = 50_000;
    for posted_first in [true, false] {
        let mut w = World::with(2, Limits::default(), tight_config());
        let mut targets: Vec<_> = (0..N).map(|_| Target::new(4)).collect();
        let data: Vec<[u8; 4]> = (0..N as u32).map(u32::to_le_bytes).collect();
        let post = |w: &mut World, targets: &mut Vec<Target>| {
            (0..N).rev().map(|n| w.irecv(1, Some(0), Some(n as i32), &mut targets[n])).collect::<Vec<_>>()
        };
        let mut ids = Vec::new();
        if posted_first {
            ids = post(&mut w, &mut targets);
        }
        for (n, d) in data.iter().enumerate() {
            let id = w.isend(0, 1, n as i32, d);
            w.ranks[0].detach(id);
        }
        w.settle();
        if !posted_first {
            ids = post(&mut w, &mut targets);
        }
        assert!(ids.iter().all(|id| w.code(1, *id) == Some(Code::Ok)));
        assert!(targets.iter().zip(&data).all(|(t, d)| t.bytes() == d));
    }
}

#[test]
fn a_flood_blocks_its_own_lane_only_and_growing_ends_that() {
    let mut w = World::tight(3);
    let data = text(1, 60);
    for _ in 0..1000 {
        let id = w.isend(0, 1, 1, &data);
        w.ranks[0].detach(id);
    }
    w.settle_with(false);
    assert!(w.ranks[0].outstanding_sends() > 500, "pushed back");
    assert_eq!(w.pass(1), Pass::Idle, "a blocked lane is no reason to come back");
    // From another rank, in another class, large: all pass.
    let (big, last) = (text(3, 5000), text(4, 60));
    let (mut a, mut b, mut c) = (Target::new(5000), Target::new(60), Target::new(60));
    let from_two = w.irecv(1, Some(2), Some(9), &mut a);
    let s = w.isend(2, 1, 9, &big);
    w.settle_with(false);
    assert_eq!((w.code(1, from_two), w.code(2, s)), (Some(Code::Ok), Some(Code::Ok)));
    // A receive for the head of the lane frees nothing, but takes the head.
    let head = w.irecv(1, Some(0), Some(1), &mut b);
    w.settle_with(false);
    assert_eq!(w.code(1, head), Some(Code::Ok));
    // Behind the flood: only growing gets there.
    w.isend(0, 1, 2, &last);
    let behind = w.irecv(1, Some(0), Some(2), &mut c);
    w.settle_with(false);
    assert_eq!(w.code(1, behind), None);
    assert_eq!(w.ranks[1].grow_for_message(from_two), Grown::NotNeeded);
    assert_eq!(w.ranks[1].grow_for_collective(), Grown::NotNeeded);
    while w.code(1, behind).is_none() {
        w.ranks[1].grow_for_message(behind);
        for rank in 0..3 {
            w.pass(rank);
        }
    }
    assert_eq!(c.bytes(), last);
    // Nothing is lost.
    for _ in 0..999 {
        let id = w.irecv(1, Some(0), Some(1), &mut b);
        w.settle();
        assert_eq!(w.code(1, id), Some(Code::Ok));
        assert_eq!(b.bytes(), data);
    }
    assert_eq!(w.ranks[1].iprobe(0, None, None).unwrap(), None);
}

#[test]
fn a_flood_of_collectives_does_not_block_users() {
    let mut w = World::tight(2);
    for n in 0..1000 {
        let id = w.isend_with(0, 1, n, &[], Mode::Standard, Class::Coll);
        w.ranks[0].detach(id);
    }
    w.settle_with(false);
    assert!(w.ranks[0].outstanding_sends() > 500);
    let data = text(1, 4000);
    let mut target = Target::new(4000);
    let recv = w.irecv(1, None, None, &mut target);
    w.isend(0, 1, 0, &data);
    w.settle_with(false);
    assert_eq!(w.code(1, recv), Some(Code::Ok));
}

#[test]
fn at_the_limit_the_receive_behind_fails_and_no_other() {
    for targeted in [true, false] {
        let mut w = World::with(
            3,
            common::TIGHT,
            Config { unexpected_messages: 1, unexpected_blocks: 1, unexpected_limit: 0, ..tight_config() },
        );
        for _ in 0..1000 {
            let id = w.isend(0, 1, 1, &[1, 2, 3]);
            w.ranks[0].detach(id);
        }
        let (mut a, mut b) = (Target::new(4), Target::new(4));
        let behind = w.irecv(1, Some(0), Some(2), &mut a);
        let other = w.irecv(1, Some(2), None, &mut b);
        w.settle_with(false);
        let rank = &mut w.ranks[1];
        let grown = if targeted { rank.grow_for_message(behind) } else { rank.grow_unexpected() };
        assert_eq!(grown, Grown::Full);
        assert_eq!(w.code(1, behind), None, "somebody may still receive what fills the pool");
        assert!(w.ranks[1].give_up_message(behind) && !w.ranks[1].give_up_message(other));
        assert_eq!(w.code(1, behind), Some(Code::TooManyUnexpected));
        assert_eq!(w.code(1, other), None);
        w.isend(2, 1, 5, &[9]);
        w.settle();
        assert_eq!(w.code(1, other), Some(Code::Ok));
    }
}

/// A thread that sleeps may have to make room for a lane that another's pass found blocked: such a pass has worked, so
/// that the engine wakes sleepers. Once for each lane, or nobody would ever sleep.
#[test]
fn a_newly_blocked_lane_is_news() {
    let mut w = World::with(3, Limits::default(), tight_config());
    let text = text(1, 64);
    for _ in 0..500 {
        w.isend(0, 2, 1, &text);
    }
    w.settle_with(false);
    assert!(w.ranks[2].is_blocked());
    w.isend(1, 2, 1, &text);
    assert_eq!((w.pass(2), w.pass(2)), (Pass::Worked, Pass::Idle));
}
