//! Lanes that are full: who asks for room, and who is told of it.

use tocsin_sync::atomic::fence;

use super::*;

#[test]
fn a_full_lane_gets_room_in_quarters() {
    let mut ends = world(2);
    ends[0].connect(1).unwrap();
    ends[1].begin_pass();
    let mut sent = 0;
    while conformance::send(&mut ends[0], 1, Class::Coll, sent, 0) == SendOutcome::Sent {
        sent += 1;
    }
    assert_eq!(sent, 128);
    let mut rings = vec![];
    for n in 0..sent {
        assert!(conformance::receive(&mut ends[1], 0, Class::Coll, n));
        fence(Ordering::SeqCst);
        if ends[1].state(0).takes_waiting_sender() {
            rings.push(n + 1);
        }
    }
    assert_eq!(rings, [32], "one ring, when a quarter is free");
}

/// The consumer's answer may come for room that is too small and that the sender had seen: the sender has to ask again.
#[test]
fn who_was_told_of_room_tries_again() {
    const LONG: usize = 64 << 10;
    let mut ends = world(2);
    ends[0].connect(1).unwrap();
    ends[1].begin_pass();
    for (n, len) in [(0, 64), (1, LONG), (2, LONG / 2)] {
        assert_eq!(conformance::send(&mut ends[0], 1, Class::Coll, n, len), SendOutcome::Sent);
    }
    assert!(conformance::receive(&mut ends[1], 0, Class::Coll, 0));
    assert_eq!(conformance::send(&mut ends[0], 1, Class::Coll, 3, LONG), SendOutcome::Full);
    assert!(!ends[0].work_left());
    fence(Ordering::SeqCst);
    assert!(ends[1].state(0).takes_waiting_sender());
    assert!(ends[0].work_left(), "nobody would tell of the room to come");
    ends[0].begin_pass();
    assert_eq!(conformance::send(&mut ends[0], 1, Class::Coll, 3, LONG), SendOutcome::Full);
    assert!(!ends[0].work_left());
    assert!(conformance::receive(&mut ends[1], 0, Class::Coll, 1));
    fence(Ordering::SeqCst);
    assert!(ends[1].state(0).takes_waiting_sender());
    assert!(ends[0].work_left());
    assert_eq!(conformance::send(&mut ends[0], 1, Class::Coll, 3, LONG), SendOutcome::Sent);
}

/// A lane that was refilled before the consumer looked at the flag: the flag stands, and nobody would come back.
#[test]
fn a_lane_that_is_refilled_rings_again() {
    // Length of the first packet, and the slots that all but the last grain are, given back.
    for (len, given_back) in [(0, 256), (17, 193)] {
        let mut ends = world(2);
        ends[0].connect(1).unwrap();
        ends[1].begin_pass();
        let fill = |end: &mut ShmTransport, mut n| {
            while conformance::send(end, 1, Class::Eager, n, if n == 0 { len } else { 0 })
                == SendOutcome::Sent
            {
                n += 1;
            }
            (n, end.state(1).send_lane(Class::Eager).has_asked())
        };
        let (sent, told) = fill(&mut ends[0], 0);
        assert!(told && sent == 256);
        assert_eq!(fill(&mut ends[0], sent), (sent, false), "once for what it holds");
        let quarter = sent / 4;
        for n in 0..quarter {
            assert!(conformance::receive(&mut ends[1], 0, Class::Eager, n));
        }
        let room = if len == 0 { quarter } else { 1 };
        assert_eq!(fill(&mut ends[0], sent), (sent + room, false));
        for n in quarter..sent {
            assert!(conformance::receive(&mut ends[1], 0, Class::Eager, n));
        }
        assert_eq!(fill(&mut ends[0], sent + room), (sent + given_back, true));
        fence(Ordering::SeqCst);
        assert!(!ends[1].state(0).takes_waiting_sender(), "most of it is filled");
    }
}

/// The consumer tells of slots a quarter at a time, so that a sender that has room is not looked after for each.
#[test]
fn slots_come_back_a_quarter_at_a_time() {
    let mut ends = world(2);
    ends[0].connect(1).unwrap();
    ends[1].begin_pass();
    let mut sent = 0;
    while conformance::send(&mut ends[0], 1, Class::Eager, sent, 0) == SendOutcome::Sent {
        sent += 1;
    }
    for n in 0..sent / 4 {
        assert!(!ends[0].work_left(), "{n}");
        assert!(conformance::receive(&mut ends[1], 0, Class::Eager, n));
    }
    assert!(ends[0].work_left());
    fence(Ordering::SeqCst);
    assert!(ends[1].state(0).takes_waiting_sender(), "a quarter is room enough to ring for");
}

/// Few packets fill the data, with nearly all slots free. The consumer is told once of what lies there, however often the
/// sender tries.
#[test]
fn long_packets_ask_for_room_once() {
    for len in [8 << 10, 16 << 10] {
        let mut ends = world(2);
        ends[0].connect(1).unwrap();
        ends[1].begin_pass();
        let held = ends[0].segment().geometry().shape(Class::Eager).data as usize / len;
        let mut sent = 0;
        for given_back in 0..3 * held {
            let mut rings = 0;
            for _ in 0..held + 10 {
                if conformance::send(&mut ends[0], 1, Class::Eager, sent, len) == SendOutcome::Sent {
                    sent += 1;
                } else {
                    rings += u32::from(ends[0].state(1).send_lane(Class::Eager).has_asked());
                }
            }
            assert_eq!(sent as usize, held + given_back);
            assert_eq!(rings, u32::from(given_back % held == 0), "{len} bytes, {given_back} given back");
            assert!(conformance::receive(&mut ends[1], 0, Class::Eager, given_back as u64));
        }
    }
}

/// Who looks by itself is not told; and when it asks again, it is.
#[test]
fn who_asks_no_more_is_told_of_nothing() {
    let mut ends = world(2);
    ends[0].connect(1).unwrap();
    ends[1].begin_pass();
    let (mut sent, mut received) = (0, 0);
    for asks in [false, true, false] {
        while conformance::send(&mut ends[0], 1, Class::Eager, sent, 0) == SendOutcome::Sent {
            sent += 1;
        }
        assert!(ends[0].state(1).send_lane(Class::Eager).has_asked());
        if !asks {
            ends[0].asks_no_more(1, Class::Eager);
        }
        let mut told = 0;
        while received < sent {
            assert!(conformance::receive(&mut ends[1], 0, Class::Eager, received));
            received += 1;
            fence(Ordering::SeqCst);
            told += u32::from(ends[1].state(0).takes_waiting_sender());
        }
        assert_eq!(told, u32::from(asks));
        ends[0].begin_pass();
    }
}

#[test]
fn who_waits_for_room_sees_that_kept_messages_are_received() {
    let mut ends = world(2);
    ends[0].connect(1).unwrap();
    ends[1].begin_pass();
    ends[1].note_handed(0, Class::Eager);
    let mut sent = 0;
    while conformance::send(&mut ends[0], 1, Class::Eager, sent, 0) == SendOutcome::Sent {
        sent += 1;
    }
    let before = ends[0].filled(1, Class::Eager);
    assert_eq!(ends[0].filled(1, Class::Eager), before);
    ends[1].note_handed(0, Class::Eager);
    let after = ends[0].filled(1, Class::Eager);
    assert!(before.is_some() && after.is_some() && before != after, "{before:?} {after:?}");
}

#[test]
fn work_beside_a_lane_is_all_that_is_elsewhere() {
    let mut ends = world(3);
    for from in [1, 2] {
        ends[from].connect(0).unwrap();
        assert_eq!(conformance::send(&mut ends[from], 0, Class::Eager, 0, 0), SendOutcome::Sent);
    }
    assert!(ends[0].work_left_beside(1, Class::Eager), "nobody has connected as far as this end knows");
    ends[0].begin_pass();
    assert!(ends[0].work_left_beside(1, Class::Eager));
    assert!(conformance::receive(&mut ends[0], 2, Class::Eager, 0));
    assert!(ends[0].work_left() && !ends[0].work_left_beside(1, Class::Eager));
    assert!(ends[0].work_left_beside(1, Class::Coll) && ends[0].work_left_beside(2, Class::Eager));
    assert_eq!(conformance::send(&mut ends[1], 0, Class::Control, 0, 0), SendOutcome::Sent);
    assert!(ends[0].work_left_beside(1, Class::Eager));
}
