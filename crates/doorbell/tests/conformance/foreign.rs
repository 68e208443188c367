//! Signals and stacks of the user's own.

use crate::rank::{Rank, Shared, signal_this_thread};
use tocsin_doorbell::{BackendKind, Config, Urgency};
use tocsin_sync::atomic::real::{AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

static CALLS: AtomicU32 = AtomicU32::new(0);
static CODE: AtomicI32 = AtomicI32::new(0);
static MASK_HELD: AtomicU32 = AtomicU32::new(0);

extern "C" fn one_argument(signal: i32) {
    assert_eq!(signal, libc::SIGURG);
    CALLS.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn three_arguments(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    assert!(signal == libc::SIGURG && !info.is_null() && !context.is_null());
    CALLS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the kernel's siginfo; the set is a live local.
    unsafe {
        CODE.store((*info).si_code, Ordering::Relaxed);
        let mut now: libc::sigset_t = core::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, core::ptr::null(), &raw mut now);
        MASK_HELD.store(libc::sigismember(&raw const now, libc::SIGUSR2) as u32, Ordering::Relaxed);
    }
}

fn set(handler: usize, flags: i32) -> (usize, i32) {
    // SAFETY: a zeroed sigaction is valid; the handlers have the form that the flags say.
    unsafe {
        let mut new: libc::sigaction = core::mem::zeroed();
        let mut old: libc::sigaction = core::mem::zeroed();
        new.sa_sigaction = handler;
        new.sa_flags = flags;
        libc::sigaddset(&raw mut new.sa_mask, libc::SIGUSR2);
        assert_eq!(libc::sigaction(libc::SIGURG, &raw const new, &raw mut old), 0);
        (old.sa_sigaction, old.sa_flags)
    }
}

fn now() -> (usize, i32, bool) {
    // SAFETY: asks only.
    unsafe {
        let mut now: libc::sigaction = core::mem::zeroed();
        assert_eq!(libc::sigaction(libc::SIGURG, core::ptr::null(), &raw mut now), 0);
        (now.sa_sigaction, now.sa_flags, libc::sigismember(&raw const now.sa_mask, libc::SIGUSR2) == 1)
    }
}

fn calls() -> u32 {
    CALLS.load(Ordering::Relaxed)
}

pub fn handlers_are_chained(shared: &'static Shared, kind: BackendKind) {
    for (handler, flags) in [
        (one_argument as *const () as usize, 0),
        (three_arguments as *const () as usize, libc::SA_SIGINFO | libc::SA_RESTART),
    ] {
        CALLS.store(0, Ordering::Relaxed);
        set(handler, flags);
        let rank = Rank::start(shared, kind);
        let runs = shared.runs();
        // Ours may have swallowed one of theirs.
        for _ in 0..100 {
            let _rang = shared.send(0, Urgency::Urgent);
        }
        rank.compute_until_all_seen();
        // As if one of theirs had come, whatever it was.
        if kind == BackendKind::Signal && flags & libc::SA_SIGINFO != 0 {
            assert_eq!(CODE.load(Ordering::Relaxed), libc::SI_TKILL);
        }
        // What comes by user interrupt is no signal.
        let by_signal = kind == BackendKind::Signal;
        assert!(calls() == 100 || !by_signal && calls() < 100, "{CALLS:?}");
        assert_eq!(shared.runs(), runs + 100);
        CALLS.store(0, Ordering::Relaxed);
        // By kill, by tgkill, to this thread and to one that is no rank: theirs.
        let runs = shared.runs();
        // SAFETY: no memory is involved. One thread: delivered before kill returns.
        unsafe { libc::kill(libc::getpid(), libc::SIGURG) };
        assert_eq!(calls(), 1);
        signal_this_thread(libc::SIGURG);
        assert_eq!(calls(), 2);
        std::thread::spawn(|| signal_this_thread(libc::SIGURG)).join().unwrap();
        assert_eq!((calls(), shared.runs()), (3, runs));
        if flags & libc::SA_SIGINFO != 0 {
            assert_eq!(
                (CODE.load(Ordering::Relaxed), MASK_HELD.load(Ordering::Relaxed)),
                (libc::SI_TKILL, 1)
            );
        }
        drop(rank);
        assert_eq!(now().0, handler);
        assert!(now().2);
    }
}

extern "C" fn real_time(_signal: i32) {
    CALLS.fetch_add(1, Ordering::Relaxed);
}

/// Of real-time signals the kernel keeps each: ours are ours alone.
pub fn queued_signals_are_told_apart(shared: &'static Shared, kind: BackendKind) {
    let signal = libc::SIGRTMIN() + 6;
    // SAFETY: a zeroed sigaction is valid; the handler takes one argument.
    unsafe {
        let mut new: libc::sigaction = core::mem::zeroed();
        new.sa_sigaction = real_time as *const () as usize;
        assert_eq!(libc::sigaction(signal, &raw const new, core::ptr::null_mut()), 0);
    }
    let mut config = Config::new(kind);
    config.signal = signal;
    let rank = Rank::configured(shared, &config);
    for _ in 0..100 {
        let _rang = shared.send(0, Urgency::Urgent);
    }
    rank.compute_until_all_seen();
    // A ring whose vectors a poller took before the signal came is still ours.
    {
        let _masked = tocsin_doorbell::Masked::new();
        let _rang = shared.send(0, Urgency::Urgent);
        shared.look();
    }
    assert_eq!(calls(), 0);
    signal_this_thread(signal);
    assert_eq!(calls(), 1);
}

/// Memory of a signal stack, with what nobody may touch below it.
struct Stack {
    usable: *mut libc::c_void,
    bytes: usize,
}

impl Stack {
    fn new(bytes: usize) -> Stack {
        let bytes = bytes.next_multiple_of(4096);
        // SAFETY: a new mapping, which stays.
        let usable = unsafe {
            let (none, flags) = (core::ptr::null_mut(), libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let all = libc::mmap(none, bytes + 4096, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(all, libc::MAP_FAILED);
            let usable = all.wrapping_byte_add(4096);
            assert_eq!(libc::mprotect(usable, bytes, libc::PROT_READ | libc::PROT_WRITE), 0);
            usable
        };
        Stack { usable, bytes }
    }

    fn install(&self) {
        let new = libc::stack_t { ss_sp: self.usable, ss_flags: 0, ss_size: self.bytes };
        // SAFETY: the mapping stays.
        assert_eq!(unsafe { libc::sigaltstack(&raw const new, core::ptr::null_mut()) }, 0);
    }
}

/// On a signal stack that the program has put in the place of ours nothing runs for which it may be too small.
pub fn a_small_signal_stack_is_not_overrun(shared: &'static Shared, kind: BackendKind) {
    const AT_MINSIGSTKSZ: libc::c_ulong = 51;
    // SAFETY: asks only.
    let frame = unsafe { libc::getauxval(AT_MINSIGSTKSZ) as usize }.max(libc::MINSIGSTKSZ);
    set(three_arguments as *const () as usize, libc::SA_SIGINFO);
    let rank = Rank::start(shared, kind);
    Stack::new(frame + 8192).install();
    let runs = shared.runs();
    for _ in 0..100 {
        let _rang = shared.send(0, Urgency::Urgent);
        signal_this_thread(libc::SIGURG);
    }
    assert!(calls() >= 100, "others' handlers are called all the same");
    assert_eq!(shared.runs(), runs);
    Stack::new(frame + (256 << 10)).install();
    // Nobody rings any more.
    rank.compute_until_all_seen();
    assert!(shared.runs() > runs);
}

static DEPTH: AtomicU32 = AtomicU32::new(0);
static DEEPEST: AtomicU32 = AtomicU32::new(0);
static OURS: AtomicUsize = AtomicUsize::new(0);

/// On top of ours, which it calls, and without the signal blocked meanwhile.
extern "C" fn on_top(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let depth = DEPTH.fetch_add(1, Ordering::Relaxed) + 1;
    DEEPEST.fetch_max(depth, Ordering::Relaxed);
    let ours = OURS.load(Ordering::Relaxed);
    // SAFETY: the address of the handler that was installed before, with SA_SIGINFO.
    unsafe {
        core::mem::transmute::<usize, extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void)>(ours)(
            signal, info, context,
        );
    }
    DEPTH.fetch_sub(1, Ordering::Relaxed);
}

/// Who is run again and again while the signal is not blocked runs one after the other, and not each on top of the last.
pub fn run_again_unblocked(shared: &'static Shared, kind: BackendKind) {
    let rank = Rank::start(shared, kind);
    let control = rank.control();
    crate::rank::CONTROL.store(Box::leak(Box::new(control)), Ordering::Relaxed);
    let flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_ONSTACK | libc::SA_RESTART;
    OURS.store(set(on_top as *const () as usize, flags).0, Ordering::Relaxed);
    for times in [1, 8, 9, 100, 1000] {
        let before = shared.runs();
        shared.again.store(times, Ordering::Relaxed);
        let _any = shared.send(0, Urgency::Urgent);
        rank.compute_until("the last run", || shared.runs() - before == times + 1);
    }
    assert!((1..=3).contains(&DEEPEST.load(Ordering::Relaxed)), "{DEEPEST:?}");
    assert_eq!(shared.broken_runs.load(Ordering::Relaxed), 0);
}

pub fn one_shot_handler_is_chained_once(shared: &'static Shared, kind: BackendKind) {
    set(one_argument as *const () as usize, libc::SA_RESETHAND);
    let rank = Rank::start(shared, kind);
    // Not for one of ours.
    let _rang = shared.send(0, Urgency::Urgent);
    rank.compute_until_all_seen();
    assert_eq!(calls(), 0);
    for _ in 0..3 {
        signal_this_thread(libc::SIGURG);
    }
    assert_eq!(calls(), 1);
}

pub fn everything_is_restored(shared: &'static Shared, kind: BackendKind) {
    // SAFETY: live locals.
    let block = |how| unsafe {
        let mut set: libc::sigset_t = core::mem::zeroed();
        let mut old: libc::sigset_t = core::mem::zeroed();
        libc::sigaddset(&raw mut set, libc::SIGURG);
        libc::pthread_sigmask(how, &raw const set, &raw mut old);
        libc::sigismember(&raw const old, libc::SIGURG) == 1
    };
    set(three_arguments as *const () as usize, libc::SA_SIGINFO | libc::SA_NODEFER);
    let before = now();
    block(libc::SIG_BLOCK);
    for _ in 0..3 {
        let rank = Rank::start(shared, kind);
        assert_ne!(now().0, before.0);
        // Another rank of the process: the disposition stays until the last one goes.
        std::thread::spawn(|| {
            let context = core::ptr::from_ref(shared).cast();
            let config = tocsin_doorbell::Config::default();
            // SAFETY: the memory is never unmapped; `run` obeys the handler rules.
            let second = unsafe {
                tocsin_doorbell::Receiver::install(
                    &raw const shared.other,
                    &config,
                    crate::rank::run,
                    context,
                )
            };
            drop(second.unwrap());
        })
        .join()
        .unwrap();
        let _rang = shared.send(0, Urgency::Urgent);
        assert!(shared.all_seen());
        drop(rank);
        assert_eq!(now(), before);
        assert!(block(libc::SIG_BLOCK), "blocked again");
    }
}

pub fn a_later_handler_stays(shared: &'static Shared, kind: BackendKind) {
    static OURS: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
    /// Someone who politely calls what was there before.
    extern "C" fn polite(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the handler that was replaced, of the three-argument form.
        unsafe {
            let before = core::mem::transmute::<
                *mut (),
                extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void),
            >(OURS.load(Ordering::Relaxed));
            before(signal, info, context);
        }
    }
    let rank = Rank::start(shared, kind);
    let (ours, flags) = set(polite as *const () as usize, libc::SA_SIGINFO);
    assert_ne!(flags & libc::SA_ONSTACK, 0);
    OURS.store(core::ptr::with_exposed_provenance_mut(ours), Ordering::Relaxed);
    let _rang = shared.send(0, Urgency::Urgent);
    assert_eq!((shared.seen(0), calls()), (1, 1), "the polite one passes it on");
    drop(rank);
    assert_eq!(now().0, polite as *const () as usize, "theirs stays");
    signal_this_thread(libc::SIGURG);
    assert_eq!(calls(), 2);
    // A new rank goes on top of theirs: no circle.
    let rank = Rank::start(shared, kind);
    let _rang = shared.send(0, Urgency::Urgent);
    assert_eq!((shared.seen(0), calls()), (2, 3), "one of theirs may have been dropped for it");
    signal_this_thread(libc::SIGURG);
    assert_eq!(calls(), 4);
    drop(rank);
    assert_eq!(now().0, polite as *const () as usize);
}

pub fn dropped_on_its_own_stack(shared: &'static Shared, kind: BackendKind) {
    static RANK: AtomicPtr<Rank> = AtomicPtr::new(core::ptr::null_mut());
    extern "C" fn dropper(_: i32) {
        // SAFETY: the test put it there for this one call. (Freeing in a handler is the test's own risk: it
        // raises the signal itself.)
        drop(unsafe { Box::from_raw(RANK.load(Ordering::Relaxed)) });
    }
    RANK.store(Box::into_raw(Box::new(Rank::start(shared, kind))), Ordering::Relaxed);
    // SAFETY: a valid sigaction.
    unsafe {
        let mut new: libc::sigaction = core::mem::zeroed();
        new.sa_sigaction = dropper as *const () as usize;
        new.sa_flags = libc::SA_ONSTACK;
        libc::sigaction(libc::SIGUSR1, &raw const new, core::ptr::null_mut());
    }
    signal_this_thread(libc::SIGUSR1);
    assert_eq!(shared.descriptor.attention().tid(), 0);
    let rank = Rank::start(shared, kind);
    let _rang = shared.send(0, Urgency::Urgent);
    rank.compute_until_all_seen();
}
