//! Who is rung, when, and how.

use tocsin_doorbell::{BackendKind, Cause, Config, Receiver};
use tocsin_sync::atomic::{AtomicU32, fence};
use tocsin_transport::kind;
use tocsin_transport::publication::Notice;

use super::super::peer::Bell;
use super::*;

/// Has a rank rung by signal, which looks at nothing for that.
fn receiver(end: &ShmTransport) -> Receiver {
    unsafe fn looks_at_nothing(_context: *const (), _cause: Cause) {}

    let descriptor = end.segment().descriptor(end.rank());
    let config = Config::new(BackendKind::Signal);
    // SAFETY: the descriptor's segment outlives the receiver, which tests drop before their transports, and the function needs no context.
    unsafe { Receiver::install(descriptor, &config, looks_at_nothing, std::ptr::null()) }.unwrap()
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
    let mut ends = world(3);
    ends[0].connect_bulk(1).unwrap();
    ends[0].connect(2).unwrap();
    let _receiver = receiver(&ends[1]);
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

/// The same of short plain messages, each put and taken in one step: who is not told looks, and who may sleep is told. Both send more at a time than a lane holds, in turns,
/// and who is to take that out does not begin before the other has slept.
#[test]
fn sleepers_are_woken_at_once() {
    const PACKETS: u64 = 20_000;
    const BURST: u64 = 1000;
    let ends = world(2);
    let slept = [AtomicU32::new(0), AtomicU32::new(0)];
    std::thread::scope(|scope| {
        for mut end in ends {
            let slept = &slept;
            scope.spawn(move || {
                let peer = 1 - end.rank();
                end.connect(peer).unwrap();
                end.state(peer as usize).bell = Bell::Plain;
                let (own, wanted) = (end.own, Wanted::new(3, None));
                let (mut sent, mut received, mut at_once, mut looked) = (0u64, 0u64, 0u64, false);
                let [mine, theirs] = [1 - peer, peer].map(|rank| &slept[rank as usize]);
                let (mut seen, mut waits) = (0, true);
                while sent < PACKETS || received < PACKETS {
                    let before = sent + received;
                    let ahead = if peer == 1 { BURST } else { 0 };
                    while sent < (received / BURST * BURST + ahead).min(PACKETS) {
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
                    let begun = std::time::Instant::now();
                    while waits && end.has_arrived(peer, Class::Eager) {
                        waits = theirs.load(Ordering::Relaxed) == seen;
                        assert!(begun.elapsed().as_secs() < 20, "the other found room for all: {received}");
                        std::thread::yield_now();
                    }
                    let mut got = 0u64;
                    // SAFETY: eight bytes of this frame's.
                    while !waits
                        && let Took::Message { tag, len, flush } =
                            // SAFETY: a word of this frame's.
                            unsafe { end.take_short(peer, wanted, (&raw mut got).cast(), 8, 2) }
                    {
                        assert_eq!((tag, len, got), (received as i32, 8, received));
                        received += 1;
                        if received % BURST == 0 {
                            (seen, waits) = (theirs.load(Ordering::Relaxed), true);
                        }
                        if flush {
                            end.flush();
                        }
                    }
                    end.flush();
                    if sent + received != before {
                        looked = false;
                    } else if looked {
                        mine.fetch_add(1, Ordering::Relaxed);
                        let timeout = std::time::Duration::from_secs(20);
                        let woken = own.sleep(Some(timeout), || end.work_left());
                        assert!(woken, "slept through it: sent {sent}, received {received}");
                        looked = false;
                    } else {
                        // As passes do: who begins one anew looks at all before it sleeps, and tries again what had no room.
                        end.begin_pass();
                        looked = true;
                    }
                }
                assert!(at_once > 0);
            });
        }
    });
}

#[test]
fn a_signal_is_held_back_until_its_rank_looks() {
    let mut ends = world(2);
    ends[0].connect(1).unwrap();
    ends[1].begin_pass();
    let _receiver = receiver(&ends[1]);
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
    let mut ends = world(2);
    let _receiver = receiver(&ends[1]);
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
