use std::sync::Arc;

use tocsin_doorbell::BackendKind;
use tocsin_sync::atomic::{AtomicU32, fence};
use tocsin_transport::publication::Notice;
use tocsin_transport::{conformance, kind};

use super::peer::Bell;
use super::*;

pub(crate) fn world(ranks: u32) -> Vec<ShmTransport> {
    let segment = Arc::new(Segment::create(ranks).unwrap());
    (0..ranks)
        .map(|rank| {
            segment.set_life(rank, Life::Alive);
            ShmTransport::new(segment.clone(), rank).unwrap()
        })
        .collect()
}

impl ShmTransport {
    fn state(&mut self, peer: usize) -> &mut Peer {
        self.peers.get_mut(peer).unwrap()
    }
}

#[test]
fn conforms() {
    conformance::all(&mut world);
}

#[test]
fn conforms_between_threads() {
    conformance::threaded(&mut world);
}

#[test]
fn a_rank_has_one_endpoint() {
    let segment = Arc::new(Segment::create(2).unwrap());
    let first = ShmTransport::new(segment.clone(), 1).unwrap();
    drop(first);
    assert!(matches!(ShmTransport::new(segment.clone(), 1), Err(Error::RankTaken { rank: 1 })));
    assert!(matches!(ShmTransport::new(segment, 2), Err(Error::NoSuchRank { rank: 2, ranks: 2 })));
}

#[test]
fn the_gone_are_gone_and_what_they_sent_is_there() {
    for life in [Life::Finalized, Life::Dead] {
        let mut ends = world(2);
        ends[0].connect(1).unwrap();
        ends[1].begin_pass();
        assert_eq!(conformance::send(&mut ends[1], 0, Class::Eager, 0, 100), SendOutcome::Sent);
        let before = ends[0].epoch();
        ends[0].begin_pass();
        ends[0].segment().clone().set_life(1, life);
        assert!(ends[0].epoch() > before);
        assert!(ends[0].work_left());
        assert_eq!(conformance::send(&mut ends[0], 1, Class::Eager, 0, 0), SendOutcome::Gone);
        ends[0].begin_pass();
        assert!(conformance::receive(&mut ends[0], 1, Class::Eager, 0));
        assert!(!ends[0].segment().mark_dead(1), "whoever is gone does not die again");
    }
}

#[test]
fn an_abort_reaches_everybody_and_the_first_code_stays() {
    let mut ends = world(3);
    ends[0].begin_pass();
    assert!(!ends[0].work_left());
    ends[2].segment().set_abort(-7);
    ends[1].segment().set_abort(9);
    assert!(ends[0].work_left());
    assert!(ends.iter().all(|e| e.aborted() == Some(-7)));
}

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

/// A rank of backend `uintr` that cannot be connected to is rung by signal, and that is said.
#[test]
fn a_refused_connection_is_counted_once() {
    let mut ends = world(3);
    let segment = ends[0].segment().clone();
    let descriptor = &raw const segment.block(1).unwrap().descriptor;
    // What a peer may write there. No process has this number, so that there is no vector to take.
    let lies =
        [(2, u32::MAX), (3, u32::MAX), (5, BackendKind::Uintr as u32), (6, 0x3FFF_FFFF), (9, 5), (10, 7)];
    for (word, lie) in lies {
        // SAFETY: the descriptor has 32 words, which are atomic, in memory that peers write.
        unsafe { (*descriptor.cast::<AtomicU32>().add(word)).store(lie, Ordering::Relaxed) };
    }
    for _ in 0..3 {
        assert!(ends[0].prepare_rings(1), "it is known that it goes by signal");
        assert!(!ends[0].prepare_rings(2), "it is alive, but its doorbell is not there yet");
    }
    let rings = ends[0].rings();
    assert_eq!((rings.refused, rings.by_user_interrupt, rings.by_signal), (1, 0, 0));
    assert!(matches!(ends[0].state(1).bell, Bell::Plain));
    assert!(matches!(ends[0].state(2).bell, Bell::Unknown));
}

#[test]
fn the_memory_of_unconnected_pairs_is_never_touched() {
    let blocks = |end: &ShmTransport| {
        let file = std::fs::File::from(end.segment().fd().try_clone_to_owned().unwrap());
        std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap())
    };
    let mut ends = world(4);
    let (small, bulk) = ends[0].segment().geometry().connection_bytes();
    let start = blocks(&ends[0]);
    for end in &mut ends {
        end.begin_pass();
        for peer in 0..4 {
            for class in Class::ALL {
                assert!(matches!(end.peek(peer, class), Recv::Empty));
                end.consume(peer, class);
                assert_eq!(conformance::send(end, peer, class, 0, 0), SendOutcome::Gone);
            }
        }
        assert!(!end.work_left());
        end.flush();
    }
    assert_eq!(blocks(&ends[0]), start);
    ends[0].connect(1).unwrap();
    assert_eq!(blocks(&ends[0]) - start, 2 * small / 512);
    ends[1].connect(0).unwrap();
    assert_eq!(blocks(&ends[0]) - start, 2 * small / 512);
    ends[1].connect_bulk(0).unwrap();
    ends[1].connect_bulk(0).unwrap();
    assert_eq!(blocks(&ends[0]) - start, (2 * small + bulk) / 512);
    let before = blocks(&ends[0]);
    ends[3].connect(3).unwrap();
    assert_eq!(blocks(&ends[0]) - before, small / 512);
}

#[test]
fn many_ranks_fit() {
    let segment = Arc::new(Segment::create(crate::MAX_RANKS).unwrap());
    let mut last = ShmTransport::new(segment.clone(), 1023).unwrap();
    let mut first = ShmTransport::new(segment, 0).unwrap();
    last.connect_bulk(0).unwrap();
    first.begin_pass();
    assert_eq!(first.connected(), [1023]);
    for class in Class::ALL {
        let len = last.capabilities().max_payload(class);
        assert_eq!(conformance::send(&mut last, 0, class, 0, len), SendOutcome::Sent);
        assert!(conformance::receive(&mut first, 1023, class, 0));
    }
}

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
    ends[0].prepare_long(1);
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
    ends[0].prepare_long(1);
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
    ends[0].prepare_long(1);
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

/// Who has published a receive waits for what its sender announces, though its attention word does not say so.
#[test]
fn an_offer_is_urgent_where_a_receive_is_published() {
    let mut ends = world(2);
    ends[0].connect_bulk(1).unwrap();
    ends[1].begin_pass();
    let at = ends[1].publication(0, 1).unwrap();
    // SAFETY: it is there as long as the transports.
    let at = unsafe { at.as_ref() };
    let notice = Notice { number: 0, context: 0, tag: None, name: 1, address: 1, room: 1 };
    let header = Header { kind: kind::RTS, ..Header::default() };
    for (ticket, urgency, expected) in [
        (0, Urgency::Offer, Urgency::Offer),
        (1, Urgency::Plain, Urgency::Plain),
        (2, Urgency::Offer, Urgency::Urgent),
    ] {
        if ticket > 0 {
            at.publish(ticket, &notice);
        }
        // SAFETY: nothing is read of no bytes.
        let sent = unsafe { ends[0].try_send(1, Class::Eager, urgency, &header, std::ptr::null(), 0) };
        assert_eq!(sent, SendOutcome::Sent);
        fence(Ordering::SeqCst);
        let state = ends[0].peers.get(1).unwrap();
        assert_eq!(ring::urgency_after_fence(&ends[0].segment, 0, 1, state), expected, "{ticket}");
        ends[0].flush();
        assert!(ticket == 0 || at.withdraw(ticket));
    }
}

/// Whoever else something was sent to.
#[test]
fn who_has_published_a_receive_is_rung_for_what_its_sender_announces() {
    use tocsin_doorbell::{Cause, Config, Receiver};
    unsafe fn looks_at_nothing(_context: *const (), _cause: Cause) {}

    let mut ends = world(3);
    ends[0].connect_bulk(1).unwrap();
    ends[0].connect(2).unwrap();
    let descriptor = ends[1].segment().descriptor(1);
    let config = Config::new(BackendKind::Signal);
    // SAFETY: the descriptor's segment outlives the receiver, and the function needs no context.
    let _receiver =
        unsafe { Receiver::install(descriptor, &config, looks_at_nothing, std::ptr::null()) }.unwrap();
    ends[1].begin_pass();
    let at = ends[1].publication(0, 1).unwrap();
    // SAFETY: it is there as long as the transports.
    let at = unsafe { at.as_ref() };
    let notice = Notice { number: 0, context: 0, tag: None, name: 1, address: 1, room: 1 };
    let header = Header { kind: kind::RTS, ..Header::default() };
    let mut rings = 0;
    for (ticket, others, published) in
        [(1, false, false), (2, false, true), (3, true, false), (4, true, true)]
    {
        if published {
            at.publish(ticket, &notice);
        }
        if others {
            assert_eq!(
                conformance::send(&mut ends[0], 2, Class::Eager, u64::from(ticket), 0),
                SendOutcome::Sent
            );
        }
        // SAFETY: nothing is read of no bytes.
        let sent = unsafe { ends[0].try_send(1, Class::Eager, Urgency::Offer, &header, std::ptr::null(), 0) };
        assert_eq!(sent, SendOutcome::Sent);
        ends[0].flush();
        rings += u64::from(published);
        assert_eq!(ends[0].rings().by_signal, rings, "others {others}, published {published}");
        assert!(!published || at.withdraw(ticket));
        ends[1].begin_pass();
    }
}

/// Both sides sleep whenever they find nothing to do, with `work_left` as the last look: nobody sleeps
/// through a packet or through room in a full lane.
#[test]
fn sleepers_are_woken() {
    const PACKETS: u64 = 20_000;
    let ends = world(2);
    std::thread::scope(|scope| {
        for mut end in ends {
            scope.spawn(move || {
                let peer = 1 - end.rank();
                end.connect(peer).unwrap();
                let own = end.own;
                let (mut sent, mut received, mut sleeps) = (0, 0, 0u64);
                while sent < PACKETS || received < PACKETS {
                    end.begin_pass();
                    let before = sent + received;
                    while sent < PACKETS
                        && conformance::send(&mut end, peer, Class::Eager, sent, sent as usize % 700)
                            == SendOutcome::Sent
                    {
                        sent += 1;
                    }
                    while conformance::receive(&mut end, peer, Class::Eager, received) {
                        received += 1;
                    }
                    end.flush();
                    if sent + received == before {
                        sleeps += 1;
                        let timeout = std::time::Duration::from_secs(20);
                        let woken = own.sleep(Some(timeout), || end.work_left());
                        assert!(woken, "slept through it: sent {sent}, received {received}");
                    }
                }
                assert!(sleeps > 0);
            });
        }
    });
}

/// The same of short plain messages, each put and taken in one step: who is not told looks, and who may sleep is told.
#[test]
fn sleepers_are_woken_at_once() {
    const PACKETS: u64 = 20_000;
    let ends = world(2);
    std::thread::scope(|scope| {
        for mut end in ends {
            scope.spawn(move || {
                let peer = 1 - end.rank();
                end.connect(peer).unwrap();
                end.state(peer as usize).bell = Bell::Plain;
                let (own, wanted) = (end.own, Wanted::new(3, None));
                let (mut sent, mut received, mut sleeps, mut at_once) = (0u64, 0u64, 0u64, 0u64);
                while sent < PACKETS || received < PACKETS {
                    let before = sent + received;
                    while sent < PACKETS {
                        let (tag, payload) = (sent as i32, (&raw const sent).cast::<u8>());
                        // SAFETY: eight bytes of this frame's.
                        let put = unsafe { end.put_short(peer, 3, tag, payload, 8) };
                        at_once += u64::from(put != Put::Not);
                        match put {
                            Put::Quiet => {}
                            Put::Flush => end.flush(),
                            Put::Not => {
                                let header = tocsin_transport::short::plain(3, tag, 8);
                                let (class, urgency) = (Class::Eager, Urgency::Plain);
                                // SAFETY: as above.
                                let outcome =
                                    unsafe { end.try_send(peer, class, urgency, &header, payload, 8) };
                                if outcome != SendOutcome::Sent {
                                    break;
                                }
                            }
                        }
                        sent += 1;
                    }
                    let mut got = 0u64;
                    // SAFETY: eight bytes of this frame's.
                    while let Took::Message { tag, len, flush } =
                        // SAFETY: a word of this frame's.
                        unsafe { end.take_short(peer, wanted, (&raw mut got).cast(), 8, 2) }
                    {
                        assert_eq!((tag, len, got), (received as i32, 8, received));
                        received += 1;
                        if flush {
                            end.flush();
                        }
                    }
                    end.flush();
                    if sent + received == before {
                        end.begin_pass();
                        sleeps += 1;
                        let timeout = std::time::Duration::from_secs(20);
                        let woken = own.sleep(Some(timeout), || end.work_left());
                        assert!(woken, "slept through it: sent {sent}, received {received}");
                    }
                }
                assert!(sleeps > 0 && at_once > 0, "{sleeps} sleeps, {at_once} at once");
            });
        }
    });
}

#[test]
fn a_signal_is_held_back_until_its_rank_looks() {
    use tocsin_doorbell::{Cause, Config, Receiver};
    unsafe fn looks_at_nothing(_context: *const (), _cause: Cause) {}

    let mut ends = world(2);
    ends[0].connect(1).unwrap();
    ends[1].begin_pass();
    let descriptor = ends[1].segment().descriptor(1);
    let config = Config::new(BackendKind::Signal);
    // SAFETY: the descriptor's segment outlives the receiver, and the function needs no context.
    let _receiver =
        unsafe { Receiver::install(descriptor, &config, looks_at_nothing, std::ptr::null()) }.unwrap();
    let send = |end: &mut ShmTransport, n| {
        assert_eq!(conformance::send(end, 1, Class::Coll, n, 0), SendOutcome::Sent);
    };
    send(&mut ends[0], 0);
    assert!(ends[0].flush_quietly() && ends[0].flush_quietly());
    ends[1].begin_pass();
    assert!(!ends[0].flush_quietly(), "it has looked");
    ends[0].flush();
    assert_eq!(ends[0].rings().by_signal, 0);

    // What is sent after it has looked is another matter.
    send(&mut ends[0], 1);
    assert!(ends[0].flush_quietly());
    ends[1].begin_pass();
    send(&mut ends[0], 2);
    assert!(ends[0].flush_quietly(), "it has not seen that");
    ends[0].flush();
    assert_eq!(ends[0].rings().by_signal, 1);

    // One that looks by itself, whether the ring was held back before or not.
    ends[1].begin_pass();
    let own = ends[1].own;
    send(&mut ends[0], 3);
    assert!(ends[0].flush_quietly());
    own.begin_poll();
    assert!(!ends[0].flush_quietly());
    send(&mut ends[0], 4);
    assert!(!ends[0].flush_quietly());
    own.end_poll();
    ends[0].flush();
    assert_eq!(ends[0].rings().by_signal, 1);

    // A plain flush leaves no mark behind that would suppress the next.
    ends[1].begin_pass();
    send(&mut ends[0], 5);
    assert!(ends[0].flush_quietly());
    ends[0].flush();
    assert_eq!(ends[0].rings().by_signal, 2);

    // What is taken out before the mark is set: its looks come too soon to clear it.
    ends[1].begin_pass();
    let take = |end: &mut ShmTransport, n| assert!(conformance::receive(end, 0, Class::Coll, n));
    (0..=5).for_each(|n| take(&mut ends[1], n));
    send(&mut ends[0], 6);
    send(&mut ends[0], 7);
    take(&mut ends[1], 6);
    assert!(ends[0].flush_quietly() && ends[0].flush_quietly(), "one is left");
    take(&mut ends[1], 7);
    assert!(!ends[0].flush_quietly());
    ends[0].flush();
    assert_eq!(ends[0].rings().by_signal, 2);
    send(&mut ends[0], 8);
    assert!(ends[0].flush_quietly());
    ends[0].flush();
    assert_eq!(ends[0].rings().by_signal, 3);
}

/// A ring for a board that is held back is not forgotten when its rank connects meanwhile.
#[test]
fn a_held_ring_keeps_its_mark() {
    use tocsin_doorbell::{Cause, Config, Receiver};
    unsafe fn looks_at_nothing(_context: *const (), _cause: Cause) {}

    let mut ends = world(2);
    let descriptor = ends[1].segment().descriptor(1);
    let config = Config::new(BackendKind::Signal);
    // SAFETY: the descriptor's segment outlives the receiver, and the function needs no context.
    let _receiver =
        unsafe { Receiver::install(descriptor, &config, looks_at_nothing, std::ptr::null()) }.unwrap();
    ends[0].prepare_rings(1);
    ends[0].announce(1);
    assert!(ends[0].flush_quietly());
    ends[1].connect(0).unwrap();
    ends[0].begin_pass();
    assert!(ends[0].flush_quietly(), "it has not looked");
    ends[0].flush();
    assert_eq!(ends[0].rings().by_signal, 1);
    // The next is marked in the pair's pages.
    ends[1].begin_pass();
    ends[0].announce(1);
    assert!(ends[0].flush_quietly());
    ends[1].begin_pass();
    assert!(!ends[0].flush_quietly(), "it has looked");
    ends[0].flush();
    assert_eq!(ends[0].rings().by_signal, 1);
}
