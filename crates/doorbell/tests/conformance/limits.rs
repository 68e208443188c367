//! Limits and refusals.

use crate::rank::{Rank, Shared, run};
use tocsin_doorbell::{BackendKind, Config, Error, Receiver, RingOutcome, Urgency};
use tocsin_sync::atomic::real::Ordering;

fn allow_pending(signals: u64) {
    // SAFETY: a live local.
    unsafe {
        let mut limit: libc::rlimit = core::mem::zeroed();
        assert_eq!(libc::getrlimit(libc::RLIMIT_SIGPENDING, &raw mut limit), 0);
        limit.rlim_cur = signals.min(limit.rlim_max);
        assert_eq!(libc::setrlimit(libc::RLIMIT_SIGPENDING, &raw const limit), 0);
    }
}

pub fn no_pending_signals_allowed(shared: &'static Shared, kind: BackendKind) {
    let rank = Rank::start(shared, kind);
    allow_pending(0);
    // The kernel then delivers the signal without saying who sent it.
    for _ in 0..1000 {
        let outcome = shared.send(0, Urgency::Urgent);
        assert!(!matches!(outcome, RingOutcome::Gone | RingOutcome::Retry), "{outcome:?}");
        rank.compute_until_all_seen();
    }
    assert!(!kind.interrupts() || rank.control().arm(1));
}

pub fn real_time_signal_queue_full(shared: &'static Shared, kind: BackendKind) {
    let mut config = Config::new(kind);
    config.signal = libc::SIGRTMIN() + 3;
    let rank = Rank::configured(shared, &config);
    allow_pending(0);
    assert_eq!(shared.send(0, Urgency::Urgent), RingOutcome::Retry);
    assert!(!shared.marks[0].is_set(), "nobody was told, so nothing is suppressed");
    assert_eq!(shared.seen(0), 0);
    allow_pending(u64::MAX);
    assert!(shared.send(0, Urgency::Urgent).rang());
    rank.compute_until_all_seen();
}

fn install(shared: &'static Shared, config: &Config) -> Result<Receiver, Error> {
    let context = core::ptr::from_ref(shared).cast();
    // SAFETY: the memory is never unmapped; `run` obeys the handler rules.
    unsafe { Receiver::install(&raw const shared.descriptor, config, run, context) }
}

pub fn install_is_refused_cleanly(shared: &'static Shared, kind: BackendKind) {
    allow_pending(0);
    let error = install(shared, &Config::new(kind)).unwrap_err();
    assert!(error.to_string().contains("RLIMIT_SIGPENDING"), "{error}");
    assert_eq!(shared.descriptor.attention().tid(), 0);
    allow_pending(u64::MAX);
    drop(install(shared, &Config::new(kind)).unwrap());
    let rank = Rank::start(shared, kind);
    let _any = shared.send(0, Urgency::Urgent);
    rank.compute_until_all_seen();
    assert_eq!(shared.broken_runs.load(Ordering::Relaxed), 0);
}

pub fn bad_configuration(shared: &'static Shared, kind: BackendKind) {
    let mut config = Config::new(BackendKind::Signal);
    for signal in [-1, 0, libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, libc::SIGCHLD, 32, 33, 65, i32::MAX] {
        config.signal = signal;
        assert!(matches!(install(shared, &config), Err(Error::BadSignal(s)) if s == signal));
    }
    if tocsin_uintr_sys::why_not().is_some() {
        assert!(matches!(
            install(shared, &Config::new(BackendKind::Uintr)),
            Err(Error::Unavailable { backend: BackendKind::Uintr, .. })
        ));
    }
    let _rank = Rank::start(shared, kind);
    assert!(matches!(install(shared, &Config::new(kind)), Err(Error::Taken(_))));
    if kind.interrupts() {
        // SAFETY: as above; the thread is interruptible already, so this is refused.
        let second = unsafe {
            let context = core::ptr::from_ref(shared).cast();
            Receiver::install(&raw const shared.other, &Config::new(kind), run, context)
        };
        assert!(matches!(second, Err(Error::Threads(_))));
        let _rang = shared.send(0, Urgency::Urgent);
        assert!(shared.all_seen(), "the first is unharmed");
    }
    assert!("signals".parse::<BackendKind>().unwrap_err().to_string().contains("poll"));
    for kind in BackendKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
}
