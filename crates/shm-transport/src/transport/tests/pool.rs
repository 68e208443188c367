//! What goes through the pool of its sender.

use super::*;

/// Takes what came to rank 1 from rank 0.
fn take(ends: &mut [ShmTransport], n: u64) {
    assert!(conformance::receive(&mut ends[1], 0, Class::Eager, n), "{n}");
}

#[test]
fn long_payloads_go_through_the_pool() {
    let mut ends = world(2);
    ends[0].connect(1).unwrap();
    ends[1].begin_pass();
    let max = ends[0].capabilities().max_payload(Class::Eager);
    ends[0].prepare_long(1, 1024);
    assert!(ends[0].room(1, std::ptr::null(), max, 0).is_some());
    // More at once than the lane's ring has room for; lengths around the lines of the pool, round and round.
    for n in 0..20 {
        assert_eq!(conformance::send(&mut ends[0], 1, Class::Eager, n, max), SendOutcome::Sent, "{n}");
    }
    (0..20).for_each(|n| take(&mut ends, n));
    for n in 20..400 {
        let len = [max, 1024, 1025, 4096 + 63, max - 64, 8192][n as usize % 6];
        assert_eq!(conformance::send(&mut ends[0], 1, Class::Eager, n, len), SendOutcome::Sent, "{n}: {len}");
        take(&mut ends, n);
    }
}

/// Who takes nothing keeps half of the pool at most, wherever its pieces lie, and the others have the rest.
#[test]
fn a_receiver_that_takes_nothing_leaves_the_pool_to_the_others() {
    let mut ends = world(3);
    let pool = ends[0].segment().geometry().pool_bytes() as usize;
    for peer in [1, 2] {
        ends[0].connect(peer).unwrap();
        ends[peer as usize].begin_pass();
    }
    ends[0].prepare_long(1, 1024);
    let max = ends[0].capabilities().max_payload(Class::Eager);
    let (mut kept, mut taken, mut refused) = (0, 0, 0);
    loop {
        // Rank 2 takes nothing.
        let in_pool = ends[0].room(2, std::ptr::null(), max, 0).is_some();
        match conformance::send(&mut ends[0], 2, Class::Eager, kept, max) {
            SendOutcome::Sent => kept += 1,
            _ => break,
        }
        assert!(!in_pool || kept as usize * max <= pool / 2, "{kept} messages of {max} bytes");
        for _ in 0..3 {
            refused += u32::from(ends[0].room(1, std::ptr::null(), 20_000, 0).is_none());
            assert_eq!(conformance::send(&mut ends[0], 1, Class::Eager, taken, 20_000), SendOutcome::Sent);
            take(&mut ends, taken);
            taken += 1;
        }
    }
    assert!(kept as usize * max > pool / 4, "{kept} messages of {max} bytes");
    for _ in 0..500 {
        refused += u32::from(ends[0].room(1, std::ptr::null(), 20_000, 0).is_none());
        assert_eq!(conformance::send(&mut ends[0], 1, Class::Eager, taken, 20_000), SendOutcome::Sent);
        take(&mut ends, taken);
        taken += 1;
    }
    assert!(refused < 10, "{refused} of {taken}");
    // It goes on, and gets as much as before.
    for n in 0..kept {
        assert!(conformance::receive(&mut ends[2], 0, Class::Eager, n), "{n}");
    }
    assert!(ends[0].room(2, std::ptr::null(), max, 0).is_some());
    for n in kept..kept + 8 {
        assert_eq!(conformance::send(&mut ends[0], 2, Class::Eager, n, max), SendOutcome::Sent);
    }
}

/// Two that take nothing have all of it. Nobody reads on behalf of a rank that has ended.
#[test]
fn what_lies_in_the_pool_for_the_dead_is_free() {
    let mut ends = world(3);
    ends[0].prepare_long(1, 1024);
    let max = ends[0].capabilities().max_payload(Class::Eager);
    for peer in [0, 1, 2] {
        ends[0].connect(peer).unwrap();
    }
    for peer in [1, 2] {
        while conformance::send(&mut ends[0], peer, Class::Eager, 0, max) == SendOutcome::Sent {}
    }
    for _ in 0..100 {
        assert!(ends[0].room(0, std::ptr::null(), max, 0).is_none());
    }
    ends[0].segment().clone().set_life(1, Life::Dead);
    assert!((0..100).any(|_| ends[0].room(0, std::ptr::null(), max, 0).is_some()));
}
