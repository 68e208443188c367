//! Rings from everywhere.

use crate::rank::{CONTROL, LANES, Rank, Shared, fork, until};
use std::time::{Duration, Instant};
use tocsin_doorbell::{BackendKind, Descriptor, Mark, RingOutcome, Urgency, remind, ring};
use tocsin_sync::atomic::real::Ordering;

pub fn self_ring(shared: &'static Shared, kind: BackendKind) {
    let rank = Rank::start(shared, kind);
    for round in 1..=1000 {
        let outcome = shared.send(0, Urgency::Urgent);
        if kind == BackendKind::Signal {
            // A signal to the running thread is delivered before tgkill returns.
            assert_eq!((outcome, shared.seen(0)), (RingOutcome::Rang, round));
        }
        rank.compute_until_all_seen();
    }
    assert_eq!(shared.runs() >= 1000, kind.interrupts());
}

/// Sends `count` messages, each only when the last was seen: every single ring matters.
fn ping(shared: &'static Shared, lane: usize, count: u64) {
    for round in 1..=count {
        let outcome = shared.send(lane, Urgency::Urgent);
        assert!(!matches!(outcome, RingOutcome::Gone | RingOutcome::Retry), "{outcome:?}");
        until("the rank did not look", || shared.seen(lane) >= round);
    }
}

pub fn thread_to_thread(shared: &'static Shared, kind: BackendKind) {
    let rank = Rank::start(shared, kind);
    let senders: Vec<_> = (0..2).map(|lane| std::thread::spawn(move || ping(shared, lane, 2000))).collect();
    rank.compute_until("2 x 2000 messages", || shared.seen(0) == 2000 && shared.seen(1) == 2000);
    senders.into_iter().for_each(|s| s.join().unwrap());
}

pub fn process_to_process(shared: &'static Shared, kind: BackendKind) {
    let children: Vec<_> = (0..2)
        .map(|lane| {
            fork(move || {
                until("the rank did not start", || shared.descriptor.attention().tid() != 0);
                ping(shared, lane, 2000);
            })
        })
        .collect();
    let rank = Rank::start(shared, kind);
    rank.compute_until("2 x 2000 messages", || shared.seen(0) == 2000 && shared.seen(1) == 2000);
    for child in children {
        assert_eq!(child.wait(), crate::rank::Ended::Exit(0));
    }
}

pub fn burst_collapses(shared: &'static Shared, kind: BackendKind) {
    let rank = Rank::start(shared, kind);
    let masked = tocsin_doorbell::Masked::new();
    let mut rang = 0;
    let start = Instant::now();
    for _ in 0..1000 {
        if shared.send(0, Urgency::Urgent).rang() {
            rang += 1;
        }
    }
    let allowed = if kind.interrupts() { 1 + start.elapsed().as_millis() as u64 } else { 0 };
    assert!(rang <= allowed, "{rang} signals for one burst");
    assert_eq!(shared.runs(), 0);
    drop(masked);
    rank.compute_until_all_seen();
    assert_eq!(shared.runs(), u64::from(kind.interrupts()), "one run drains all");
}

pub fn ring_inside_the_handler(shared: &'static Shared, kind: BackendKind) {
    let rank = Rank::start(shared, kind);
    shared.ring_in_handler.store(100, Ordering::Relaxed);
    let _any = shared.send(0, Urgency::Urgent);
    rank.compute_until_all_seen();
    if kind.interrupts() {
        rank.compute_until("100 rings from inside the handler", || shared.seen(LANES - 1) == 100);
        assert_eq!(shared.runs(), 101);
    }
}

pub fn alternate_stack(shared: &'static Shared, kind: BackendKind) {
    // SAFETY: zeroed is a valid stack_t; asks only.
    let stack_now = || unsafe {
        let mut now: libc::stack_t = core::mem::zeroed();
        libc::sigaltstack(core::ptr::null(), &raw mut now);
        (now.ss_sp.addr(), now.ss_size, now.ss_flags)
    };
    let before = stack_now();
    {
        let _rank = Rank::start(shared, kind);
        let (base, size, _) = stack_now();
        assert!(size >= 64 * 1024 + libc::MINSIGSTKSZ);
        let mut canaries = [0xA5u8; 4096];
        core::hint::black_box(&mut canaries);
        for _ in 0..100 {
            let _rang = shared.send(0, Urgency::Urgent);
            let used = shared.stack.load(Ordering::Relaxed);
            assert!((base..base + size).contains(&used), "{used:#x} not in {base:#x}+{size:#x}");
        }
        assert!(core::hint::black_box(&canaries).iter().all(|&c| c == 0xA5));
    }
    assert_eq!(stack_now(), before, "the previous stack is back");
}

pub fn plain_waits_until_wanted(shared: &'static Shared, kind: BackendKind) {
    let rank = Rank::start(shared, kind);
    if kind != BackendKind::Thread {
        assert_eq!(shared.send(0, Urgency::Plain), RingOutcome::NotNeeded);
        assert_eq!((shared.seen(0), shared.runs()), (0, 0));
    }
    assert!(shared.own().set_wants(true, false));
    assert!(!shared.own().set_wants(true, false), "not newly");
    let _any = shared.send(0, Urgency::Plain);
    rank.compute_until_all_seen();
    assert!(!shared.own().set_wants(false, false));
    assert!(!shared.descriptor.attention().wants_plain());
}

pub fn offers_wait_until_wanted(shared: &'static Shared, kind: BackendKind) {
    let rank = Rank::start(shared, kind);
    if kind != BackendKind::Thread {
        assert_eq!(shared.send(0, Urgency::Offer), RingOutcome::NotNeeded);
        assert_eq!((shared.seen(0), shared.runs()), (0, 0));
    }
    assert!(shared.own().set_wants(false, true));
    assert!(!shared.own().set_wants(false, true), "not newly");
    if kind != BackendKind::Thread {
        assert_eq!(shared.send(0, Urgency::Plain), RingOutcome::NotNeeded, "plain ones are not asked for");
    }
    let _any = shared.send(0, Urgency::Offer);
    rank.compute_until_all_seen();
    assert!(!shared.own().set_wants(false, false));
    assert!(!shared.descriptor.attention().wants_offers());
    // Who wants even plain messages wants these.
    assert!(shared.own().set_wants(true, true));
    assert!(!shared.own().set_wants(false, true), "less than before");
    assert!(shared.own().set_wants(true, false));
    assert!(shared.descriptor.attention().wants_plain() && !shared.descriptor.attention().wants_offers());
    let _any = shared.send(0, Urgency::Offer);
    rank.compute_until_all_seen();
}

pub fn throttled_is_left_alone(shared: &'static Shared, kind: BackendKind) {
    let rank = Rank::start(shared, kind);
    shared.own().suppress(true);
    if kind != BackendKind::Thread {
        assert_eq!(shared.send(0, Urgency::Urgent), RingOutcome::NotNeeded);
        assert_eq!(shared.runs(), 0);
    }
    shared.own().suppress(false);
    shared.look();
    let _any = shared.send(0, Urgency::Urgent);
    rank.compute_until_all_seen();
    shared.own().begin_poll();
    assert_eq!(shared.send(0, Urgency::Urgent), RingOutcome::NotNeeded, "pollers look by themselves");
    shared.own().end_poll();
    shared.look();
    assert!(shared.all_seen());
    assert_eq!(shared.descriptor.attention().pollers(), 0);
}

pub fn old_mark_does_not_suppress(shared: &'static Shared, kind: BackendKind) {
    let rank = Rank::start(shared, kind);
    let masked = tocsin_doorbell::Masked::new();
    // Before the mark is set, so that the mark is never older than this.
    let start = Instant::now();
    let first = shared.send(0, Urgency::Urgent);
    if kind.interrupts() {
        assert_eq!(first, RingOutcome::Rang);
        let mut again = RingOutcome::Suppressed;
        while again == RingOutcome::Suppressed {
            again = shared.send(0, Urgency::Urgent);
            assert!(start.elapsed() < Duration::from_secs(5));
        }
        let by_signal =
            if kind == BackendKind::Uintr { RingOutcome::RangBySignal } else { RingOutcome::Rang };
        assert_eq!(again, by_signal);
        let life = Duration::from_nanos(tocsin_doorbell::MARK_LIFE_NS);
        assert!(start.elapsed() >= life, "{:?}", start.elapsed());
    }
    drop(masked);
    rank.compute_until_all_seen();
}

pub fn timer(shared: &'static Shared, kind: BackendKind) {
    let rank = Rank::start(shared, kind);
    let timer_runs = || shared.timer_runs.load(Ordering::Relaxed);
    let control = rank.control();
    assert!(control.arm(200_000));
    rank.compute_until("the timer", || timer_runs() == 1);
    assert!(control.arm(0), "at once, not never");
    rank.compute_until("the timer", || timer_runs() == 2);
    assert!(control.arm(3_600_000_000_000));
    assert!(control.arm(100_000), "replaces the one before");
    rank.compute_until("the timer", || timer_runs() == 3);
    {
        let _masked = tocsin_doorbell::Masked::new();
        assert!(control.arm(1));
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(2) {
            core::hint::spin_loop();
        }
        assert_eq!(timer_runs(), 3);
    }
    assert_eq!(timer_runs(), 4, "the unmask run knows that it was the timer");
    drop(rank);
    assert!(!control.arm(1), "no receiver, no timer");
}

pub fn run_again(shared: &'static Shared, kind: BackendKind) {
    let rank = Rank::start(shared, kind);
    let control = rank.control();
    assert!(!control.again(), "no entry is under way");
    assert!(!std::thread::spawn(move || control.again()).join().unwrap(), "nor is this its thread");
    CONTROL.store(Box::leak(Box::new(control)), Ordering::Relaxed);
    // By turns as often as one entry runs what it has put off, and oftener.
    for times in [1, 2, 8, 9, 100] {
        let before = shared.runs();
        shared.again.store(times, Ordering::Relaxed);
        let _any = shared.send(0, Urgency::Urgent);
        if kind == BackendKind::Signal {
            // The thread comes back from tgkill when nothing is pending.
            assert_eq!(shared.runs() - before, times + 1);
        }
        rank.compute_until("the last run", || shared.runs() - before == times + 1);
        // Once more, and by that no more.
        let _any = shared.send(0, Urgency::Urgent);
        rank.compute_until("a run that does not ask", || shared.runs() - before == times + 2);
    }
    {
        let _masked = tocsin_doorbell::Masked::new();
        shared.again.store(3, Ordering::Relaxed);
        let _any = shared.send(0, Urgency::Urgent);
        assert_eq!(shared.again.load(Ordering::Relaxed), 3, "it is masked");
    }
    rank.compute_until("the unmasked", || shared.again.load(Ordering::Relaxed) == 0);
    // On top of a user interrupt, where the signal comes at once, the timer takes over after some runs.
    assert!(kind == BackendKind::Uintr || shared.timer_runs.load(Ordering::Relaxed) == 0);
    assert_eq!(shared.broken_runs.load(Ordering::Relaxed), 0);
    drop(rank);
    assert!(!control.again(), "no receiver");
}

pub fn nonsense_descriptor_is_harmless(_shared: &'static Shared, _kind: BackendKind) {
    // What a lying peer might put there; SIGKILL to everybody would be a good catch.
    for (pid, tid, signal) in
        [(1u32, 1u32, 9u32), (u32::MAX, u32::MAX, 23), (0, 5, 23), (1, 1, 0), (7, 7, 4096)]
    {
        for backend in [0u32, 1, 2, 3, 4, 99] {
            let mut words = [0u32; 32];
            words[3] = tid;
            words[5] = backend;
            words[6] = pid;
            words[7] = signal;
            // SAFETY: any bits are a valid descriptor.
            let descriptor: Descriptor = unsafe { core::mem::transmute(words) };
            let mark = Mark::new();
            let outcome = ring(&descriptor, &mark, 200, Urgency::Urgent);
            assert!(matches!(outcome, RingOutcome::NotNeeded | RingOutcome::Gone), "{outcome:?}");
            assert!(!mark.is_set());
            assert_eq!(descriptor.posted(), 1 << (200 & 63));
        }
    }
}

pub fn blocked_in_a_call_of_its_own(shared: &'static Shared, kind: BackendKind) {
    let _rank = Rank::start(shared, kind);
    let mut pipe = [0i32; 2];
    // SAFETY: an array of two; no precondition.
    let tid = unsafe {
        assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
        libc::gettid()
    };
    // One message, and nothing after it: who waits for the answer sees to it that it is looked at.
    let ringer = std::thread::spawn(move || {
        for round in 1..=20 {
            until("the rank goes to sleep in its call", || {
                let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap();
                shared.flag.load(Ordering::Acquire) == round && stat.contains(") S ")
            });
            let _rang = shared.send(0, Urgency::Urgent);
            until("the rank was not interrupted", || {
                let _reminded = remind(&shared.descriptor, &shared.marks[0], 0, Urgency::Urgent);
                shared.seen(0) >= round
            });
            // SAFETY: a live buffer of one byte.
            unsafe { libc::write(pipe[1], c"!".as_ptr().cast(), 1) };
        }
    });
    for round in 1..=20 {
        shared.flag.store(round, Ordering::Release);
        let mut byte = 0u8;
        // SAFETY: a live buffer of one byte. (SA_RESTART: it goes on.)
        assert_eq!(unsafe { libc::read(pipe[0], (&raw mut byte).cast(), 1) }, 1);
        assert!(shared.seen(0) >= round, "the handler ran while the call was blocked");
    }
    ringer.join().unwrap();
}
