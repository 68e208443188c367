//! Backend `uintr`: who is connected rings without the kernel, who is not by signal.

use crate::random::from_environment;
use crate::rank::{self, CONNECTS, Ended, Rank, Shared, until};
use tocsin_doorbell::{BackendKind, Connection, Error, RingOutcome, Urgency, connect};
use tocsin_sync::atomic::real::{AtomicU64, Ordering};

/// Blocks (or unblocks) the backend's signal on the calling thread: nothing comes by it.
fn block_signal(how: i32) {
    // SAFETY: live locals.
    unsafe {
        let mut set: libc::sigset_t = core::mem::zeroed();
        libc::sigaddset(&raw mut set, libc::SIGURG);
        libc::pthread_sigmask(how, &raw const set, core::ptr::null_mut());
    }
}

fn connected(shared: &Shared) -> Connection {
    let connection = connect(&shared.descriptor).unwrap();
    assert!(connection.by_user_interrupt());
    connection
}

/// Sends messages, each when the last was seen.
fn ping(shared: &Shared, lane: usize, count: u64) {
    for round in 1..=count {
        // Suppressed: another's ring had it seen before this one's was.
        let outcome = shared.send(lane, Urgency::Urgent);
        assert!(outcome.rang() || outcome == RingOutcome::Suppressed, "{outcome:?}");
        until("the rank did not look", || shared.seen(lane) >= round);
    }
}

pub fn user_interrupts_need_no_signal(shared: &'static Shared, kind: BackendKind) {
    let rank = Rank::start(shared, kind);
    let _connection = connected(shared);
    block_signal(libc::SIG_BLOCK);
    let senders: Vec<_> = (0..2).map(|lane| std::thread::spawn(move || ping(shared, lane, 1000))).collect();
    rank.compute_until("2 x 1000 messages", || shared.seen(0) == 1000 && shared.seen(1) == 1000);
    senders.into_iter().for_each(|s| s.join().unwrap());
    block_signal(libc::SIG_UNBLOCK);
}

pub fn from_another_process(shared: &'static Shared, kind: BackendKind) {
    let children: Vec<_> = (0..2)
        .map(|lane| {
            rank::fork(move || {
                until("the rank did not start", || shared.descriptor.attention().tid() != 0);
                let _connection = connected(shared);
                ping(shared, lane, 1000);
            })
        })
        .collect();
    let rank = Rank::start(shared, kind);
    block_signal(libc::SIG_BLOCK);
    rank.compute_until("2 x 1000 messages", || shared.seen(0) == 1000 && shared.seen(1) == 1000);
    for child in children {
        assert_eq!(child.wait(), Ended::Exit(0));
    }
    // A stale connection does no harm, nor does its end.
    block_signal(libc::SIG_UNBLOCK);
}

pub fn a_new_receiver_is_reached(shared: &'static Shared, kind: BackendKind) {
    CONNECTS.store(false, Ordering::Relaxed);
    let rank = Rank::start(shared, kind);
    let old = connected(shared);
    drop(rank);
    let rank = Rank::start(shared, kind);
    // Connected to the one before: by signal.
    let _rang = shared.send(0, Urgency::Urgent);
    rank.compute_until_all_seen();
    block_signal(libc::SIG_BLOCK);
    let _rang = shared.send(0, Urgency::Urgent);
    assert!(!shared.all_seen(), "its signal is blocked");
    block_signal(libc::SIG_UNBLOCK);
    rank.compute_until_all_seen();
    // Connected anew; the old connection's end does not end it.
    let _new = connected(shared);
    drop(old);
    block_signal(libc::SIG_BLOCK);
    let _rang = shared.send(0, Urgency::Urgent);
    rank.compute_until_all_seen();
    block_signal(libc::SIG_UNBLOCK);
}

pub fn connections_are_counted(shared: &'static Shared, kind: BackendKind) {
    CONNECTS.store(false, Ordering::Relaxed);
    let rank = Rank::start(shared, kind);
    let (one, two) = (connected(shared), connected(shared));
    block_signal(libc::SIG_BLOCK);
    drop(one);
    let _rang = shared.send(0, Urgency::Urgent);
    rank.compute_until_all_seen();
    drop(two);
    assert_eq!(shared.send(0, Urgency::Urgent), RingOutcome::RangBySignal);
    assert!(!shared.all_seen(), "the signal is blocked");
    block_signal(libc::SIG_UNBLOCK);
    rank.compute_until_all_seen();
    // Many times: neither the table nor the kernel's fills up.
    for _ in 0..1000 {
        drop(connected(shared));
    }
}

/// Rings of the case below.
static BY_USER_INTERRUPT: AtomicU64 = AtomicU64::new(0);

pub fn dropped_while_rung(shared: &'static Shared, kind: BackendKind) {
    CONNECTS.store(false, Ordering::Relaxed);
    let rank = Rank::start(shared, kind);
    let ringers: Vec<_> = (0..2)
        .map(|lane| {
            std::thread::spawn(move || {
                let stopped = || shared.stop.load(Ordering::Relaxed);
                while !stopped() {
                    let connection = shared.flag.load(Ordering::Relaxed);
                    let outcome = shared.send(lane, Urgency::Urgent);
                    assert!(!matches!(outcome, RingOutcome::Gone | RingOutcome::Retry), "{outcome:?}");
                    if outcome == RingOutcome::Rang {
                        BY_USER_INTERRUPT.fetch_add(1, Ordering::Relaxed);
                    }
                    // One signal per connection: a thread that gets the next one whenever it has answered the last connects
                    // to nobody.
                    while outcome == RingOutcome::RangBySignal
                        && shared.flag.load(Ordering::Relaxed) == connection
                        && !stopped()
                    {
                        std::thread::yield_now();
                    }
                }
            })
        })
        .collect();
    // An index that is used after its end faults.
    for _ in 0..from_environment("TOCSIN_TEST_DROPS", 2000) {
        let connection = connected(shared);
        let before = BY_USER_INTERRUPT.load(Ordering::Relaxed);
        shared.flag.fetch_add(1, Ordering::Relaxed);
        // In the midst of ringing.
        until("somebody rings by user interrupt", || BY_USER_INTERRUPT.load(Ordering::Relaxed) != before);
        drop(connection);
    }
    shared.stop.store(true, Ordering::Relaxed);
    ringers.into_iter().for_each(|r| r.join().unwrap());
    rank.compute_until_all_seen();
}

/// What a process's first connection takes, the kernel does not do while a signal is pending; it takes a while where much is
/// mapped.
pub fn first_connection_under_signals(shared: &'static Shared, kind: BackendKind) {
    CONNECTS.store(false, Ordering::Relaxed);
    map_in_pieces(6000);
    let rank = Rank::start(shared, kind);
    let ringers: Vec<_> = (0..2)
        .map(|lane| {
            std::thread::spawn(move || {
                while !shared.stop.load(Ordering::Relaxed) {
                    let _rang = shared.send(lane, Urgency::Urgent);
                }
            })
        })
        .collect();
    until("the signals come", || shared.runs.load(Ordering::Relaxed) > 10);
    drop(connected(shared));
    shared.stop.store(true, Ordering::Relaxed);
    ringers.into_iter().for_each(|r| r.join().unwrap());
    rank.compute_until_all_seen();
}

/// Leaves so many mappings in the process.
fn map_in_pieces(pieces: usize) {
    const PAGE: usize = 4096;
    // SAFETY: a new mapping at a place of the kernel's choice.
    let start = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        libc::mmap(core::ptr::null_mut(), pieces * PAGE, libc::PROT_READ, flags, -1, 0)
    };
    assert_ne!(start, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
    for piece in (0..pieces).step_by(2) {
        // SAFETY: a page of that mapping, which nobody uses.
        let result = unsafe { libc::mprotect(start.byte_add(piece * PAGE), PAGE, libc::PROT_NONE) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    }
}

pub fn nobody_there(shared: &'static Shared, kind: BackendKind) {
    // An empty descriptor is of no backend: nothing to connect.
    assert!(!connect(&shared.descriptor).unwrap().by_user_interrupt());
    drop(Rank::start(shared, kind));
    assert!(matches!(connect(&shared.descriptor), Err(Error::NotInstalled)));
    // A descriptor that lies about its process and its file.
    let child = rank::fork(|| {
        core::mem::forget(Rank::start(shared, kind));
        shared.flag.store(1, Ordering::Relaxed);
    });
    until("the child starts", || shared.flag.load(Ordering::Relaxed) == 1);
    assert_eq!(child.wait(), Ended::Exit(0));
    assert!(connect(&shared.descriptor).is_err(), "its process is gone");
}

/// Other code masks user interrupts, and does not unmask them. (A jump out of a handler, which leaves more behind, is
/// forbidden.)
pub fn a_mask_left_behind_heals(shared: &'static Shared, kind: BackendKind) {
    let rank = Rank::start(shared, kind);
    let _connection = connected(shared);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a receiver is installed.
    unsafe {
        tocsin_uintr_sys::instructions::clui();
    }
    let _rang = shared.send(0, Urgency::Urgent);
    for _ in 0..1000 {
        core::hint::spin_loop();
    }
    assert!(!shared.all_seen(), "masked");
    // Nobody answers for a millisecond: the signal comes, and finds it.
    until("the signal comes", || {
        let _any = tocsin_doorbell::remind(&shared.descriptor, &shared.marks[0], 0, Urgency::Urgent);
        shared.all_seen()
    });
    block_signal(libc::SIG_BLOCK);
    let _rang = shared.send(0, Urgency::Urgent);
    rank.compute_until_all_seen();
    block_signal(libc::SIG_UNBLOCK);
}
