//! Sleepers.

use crate::rank::{Ended, Rank, Shared, fork, until};
use std::time::{Duration, Instant};
use tocsin_doorbell::{BackendKind, RingOutcome, Urgency, wake_any};
use tocsin_sync::atomic::real::Ordering;

pub fn sleeper_is_woken(shared: &'static Shared, kind: BackendKind) {
    const ROUNDS: u64 = 5000;
    let _rank = Rank::start(shared, kind);
    // From another process, each message only after the last was seen.
    let child = fork(|| {
        tocsin_doorbell::fork::participate();
        for round in 1..=ROUNDS {
            let outcome = shared.send(0, Urgency::Plain);
            assert!(!matches!(outcome, RingOutcome::Gone | RingOutcome::Retry), "{outcome:?}");
            until("the sleeper did not look", || shared.seen(0) >= round);
        }
    });
    while shared.seen(0) < ROUNDS {
        shared.own().sleep(None, || !shared.all_seen());
        shared.look();
    }
    assert_eq!(child.wait(), Ended::Exit(0));
    until("sleepers are counted", || {
        shared.descriptor.attention().sleepers() == u32::from(kind == BackendKind::Thread)
    });
}

pub fn last_look_prevents_sleep(shared: &'static Shared, kind: BackendKind) {
    let _rank = Rank::start(shared, kind);
    assert!(shared.own().sleep(None, || true));
}

pub fn time_out(shared: &'static Shared, kind: BackendKind) {
    let _rank = Rank::start(shared, kind);
    let start = Instant::now();
    let limit = Duration::from_millis(20);
    while shared.own().sleep(Some(limit), || false) {
        assert!(start.elapsed() < Duration::from_secs(5));
    }
    assert!(start.elapsed() >= limit);
}

pub fn wake_any_reaches_everybody(shared: &'static Shared, kind: BackendKind) {
    let rank = Rank::start(shared, kind);
    // The rank computes and does not want to be rung at all.
    shared.own().suppress(true);
    shared.publish(0);
    wake_any(&shared.descriptor);
    if kind.interrupts() {
        assert_eq!((shared.seen(0), shared.runs()), (1, 1));
    }
    rank.compute_until_all_seen();
    // A thread of it sleeps.
    let sleeper = std::thread::spawn(|| {
        shared.own().sleep(None, || shared.flag.swap(1, Ordering::Relaxed) == 1);
    });
    until("the sleeper is about to sleep", || shared.flag.load(Ordering::Relaxed) == 1);
    while !sleeper.is_finished() {
        wake_any(&shared.descriptor);
    }
    sleeper.join().unwrap();
    // A thread of its own rank wakes it.
    shared.flag.store(0, Ordering::Relaxed);
    let sleeper = std::thread::spawn(|| {
        while shared.flag.load(Ordering::Relaxed) == 0 {
            shared.own().sleep(None, || shared.flag.load(Ordering::Relaxed) != 0);
        }
    });
    shared.flag.store(1, Ordering::Relaxed);
    shared.own().wake_own();
    sleeper.join().unwrap();
}
