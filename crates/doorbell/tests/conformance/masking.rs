//! Masking by a flag.

use crate::rank::{Ended, LANES, Rank, Shared, fork};
use tocsin_doorbell::{BackendKind, Cause, Config, Masked, Receiver, Urgency};
use tocsin_sync::atomic::real::Ordering;
use tocsin_sync::errno;

pub fn ring_while_masked(shared: &'static Shared, kind: BackendKind) {
    let rank = Rank::start(shared, kind);
    for round in 1..=500 {
        {
            let _masked = Masked::new();
            let runs = shared.runs();
            let _any = shared.send(0, Urgency::Urgent);
            assert_eq!(shared.runs(), runs, "nothing runs while masked");
        }
        if kind.interrupts() {
            assert_eq!((shared.seen(0), shared.unmask_runs.load(Ordering::Relaxed)), (round, round));
        }
        rank.compute_until_all_seen();
    }
    let runs = shared.runs();
    drop(Masked::new());
    assert_eq!(shared.runs(), runs, "nothing came, nothing runs");
}

pub fn guards_nest(shared: &'static Shared, kind: BackendKind) {
    let rank = Rank::start(shared, kind);
    let outer = Masked::new();
    let inner = Masked::new();
    let _any = shared.send(0, Urgency::Urgent);
    drop(outer); // the order does not matter
    assert_eq!(shared.runs(), 0);
    drop(inner);
    assert_eq!(shared.runs(), u64::from(kind.interrupts()));
    rank.compute_until_all_seen();
}

pub fn ring_during_the_unmask_run(shared: &'static Shared, kind: BackendKind) {
    let rank = Rank::start(shared, kind);
    // The unmask run happens with the signal unblocked: its own ring comes in at once, nested. It must be
    // noted and run by the outer one; more of them than one entry runs must not be lost either.
    shared.ring_in_handler.store(50, Ordering::Relaxed);
    {
        let _masked = Masked::new();
        let _rang = shared.send(0, Urgency::Urgent);
    }
    rank.compute_until("50 nested rings", || shared.seen(LANES - 1) == 50);
    rank.compute_until_all_seen();
    assert_eq!(shared.runs(), 51);
}

pub fn guard_outlives_its_receiver(shared: &'static Shared, kind: BackendKind) {
    let rank = Rank::start(shared, kind);
    let old = Masked::new();
    let _rang = shared.send(0, Urgency::Urgent);
    drop(rank);
    // The block is recycled for the next one, whose mask must not be touched by the old guard.
    let rank = Rank::start(shared, kind);
    let masked = Masked::new();
    drop(old);
    let runs = shared.runs();
    let _rang = shared.send(0, Urgency::Urgent);
    assert_eq!(shared.runs(), runs);
    drop(masked);
    assert_eq!(shared.runs(), runs + 1);
    rank.compute_until_all_seen();
}

pub fn errno_and_float_state_survive(shared: &'static Shared, kind: BackendKind) {
    let rank = Rank::start(shared, kind);
    for round in 0..200 {
        errno::set(round);
        crate::rank::signal_this_thread(libc::SIGURG); // none of ours: chained to "ignore"
        assert_eq!(errno::get(), round);
        let value = core::hint::black_box(f64::from(round) + 0.5);
        let _rang = shared.send(0, Urgency::Urgent);
        assert_eq!(core::hint::black_box(value) - 0.5, f64::from(round));
        {
            let _masked = Masked::new();
            let _rang = shared.send(0, Urgency::Urgent);
            errno::set(round);
        }
        assert_eq!(errno::get(), round);
    }
    rank.compute_until_all_seen();
}

/// A proof that cannot fail proves nothing: the allocator that watches over this suite's handlers does.
pub fn allocation_in_the_handler_is_caught(_shared: &'static Shared, kind: BackendKind) {
    unsafe fn allocates(_context: *const (), _cause: Cause) {
        drop(core::hint::black_box(Box::new(7u64)));
    }
    for masked in [false, true] {
        let shared = Shared::map(); // the one before died with its name in it
        let child = fork(|| {
            // SAFETY: the memory is never unmapped; the entry function breaks the rules, which is the point.
            let receiver = unsafe {
                let config = Config::new(kind);
                Receiver::install(&raw const shared.descriptor, &config, allocates, core::ptr::null())
            };
            let receiver = receiver.unwrap();
            drop(core::hint::black_box(Box::new(7u64)));
            let guard = masked.then(Masked::new);
            // SAFETY: no memory of ours: the one line the allocator writes is of no interest.
            unsafe { libc::close(2) };
            let _rang = shared.send(0, Urgency::Urgent);
            drop(guard);
            drop(receiver);
        });
        assert_eq!(child.wait(), Ended::Killed(libc::SIGABRT));
    }
}
