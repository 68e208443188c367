//! Waiters that yield, and signals that are held back.

use super::*;
use crate::engine::patience::{PATIENCE_NS, PATIENT_YIELDS};
use tocsin_sync::slice;

#[test]
fn yields_in_vain_are_given_up() {
    let shared = Shared::new();
    let config = EngineConfig::default().oversubscribed();
    let (spin, yields) = (config.spin_ns, config.yield_ns);
    let engine = engine_as(&shared, 0, config);
    let patience = || engine.patience(Context::User, now_ns());
    assert!(patience().1 > yields);
    // A progress thread's waits tell nothing of its rank's.
    assert!(!engine.wait_in(Context::ProgressThread, true, || false, Some(Duration::from_millis(2))));
    assert!(patience().1 > yields);
    let slept = engine.stats().snapshot().sleeps;
    let begun = now_ns();
    assert!(!engine.wait_until(|| false, Some(Duration::from_millis(100))));
    assert!(engine.yields.is_barred(begun + yields), "as long as it took to find out, and longer");
    assert_eq!(engine.patience(Context::User, begun), (spin, spin));
    assert!(engine.stats().snapshot().sleeps > slept, "then it sleeps");
    // What is there at once is met by a look, and no yield is tried.
    assert!(engine.wait_until(|| true, None));
}

#[test]
fn a_signal_is_held_back_while_that_pays() {
    let shared = Shared::new();
    let engine = engine(&shared, 0);
    let leave = |holds: u64, context: Context| {
        shared.holds.store(holds, Ordering::Relaxed);
        let before = [&shared.signals, &shared.quiet].map(|n| n.load(Ordering::Relaxed));
        match context {
            Context::Handler => drop(engine.try_enter(context)),
            _ => drop(engine.enter()),
        }
        let after = [&shared.signals, &shared.quiet].map(|n| n.load(Ordering::Relaxed));
        assert_eq!(shared.descriptor.attention().pollers(), 0);
        [after[0] - before[0], after[1] - before[1]]
    };
    assert_eq!(leave(0, Context::User), [0, 1], "nobody to hold back");
    assert_eq!(leave(u64::MAX, Context::Handler), [1, 0], "a handler holds nobody back");
    // Who looks by himself before the patience ends is not interrupted; on a busy machine the patience may be over first.
    let spared = (0..100).filter(|_| leave(4, Context::User)[0] == 0).count();
    assert!(spared > 0);
    // Who does not is, and what has come meanwhile had its pass before.
    engine.patience.note(true);
    shared.post(0, Urgency::Urgent);
    assert_eq!(leave(u64::MAX, Context::User)[0], 1);
    assert_eq!(shared.handled.load(Ordering::Relaxed), 1);
    while engine.patience.is_good() {
        engine.patience.note(false);
    }
    assert_eq!(leave(u64::MAX, Context::User), [1, 2], "it did not pay");
    assert_eq!(leave(1, Context::User), [0, 2], "but who looks meanwhile is spared all the same");
}

/// As who posts a message, and is expected to wait for it next, does.
#[test]
fn a_pass_that_was_asked_for_before_does_not_end_the_patience() {
    let shared = Shared::new();
    let engine = engine(&shared, 0);
    let leave = |holds: u64| {
        shared.holds.store(holds, Ordering::Relaxed);
        let signals = shared.signals.load(Ordering::Relaxed);
        let mut inside = engine.enter();
        let _work: &mut Counting = &mut inside;
        shared.posted[0].fetch_add(1, Ordering::Relaxed);
        inside.ask_for_pass();
        drop(inside);
        assert_eq!(shared.handled.load(Ordering::Relaxed), shared.posted[0].load(Ordering::Relaxed));
        shared.signals.load(Ordering::Relaxed) - signals
    };
    // On a busy machine the patience may be over first.
    let spared = (0..100)
        .filter(|_| {
            engine.patience.note(true);
            leave(4) == 0
        })
        .count();
    assert!(spared > 0);
    assert_eq!(leave(u64::MAX), 1, "who does not look is interrupted all the same");
}

#[test]
fn what_comes_as_the_patience_ends_has_its_pass() {
    let shared = Shared::new();
    let engine = engine(&shared, 0);
    for late in [1, PATIENCE_NS / 2, PATIENCE_NS, 3 * PATIENCE_NS] {
        shared.late_ns.store(late, Ordering::Relaxed);
        let mut held = 0;
        for _ in 0..50 {
            engine.patience.note(true);
            let before = shared.posted[0].load(Ordering::Relaxed);
            shared.holds.store(u64::MAX, Ordering::Relaxed);
            drop(engine.enter());
            let posted = shared.posted[0].load(Ordering::Relaxed);
            held += u64::from(posted > before);
            assert_eq!(shared.handled.load(Ordering::Relaxed), posted, "nobody was told of it");
        }
        assert!(held > 0, "{late} ns: it never looked");
    }
}

/// On a crowded node it yields meanwhile, unless a yield has cost a time slice.
#[test]
fn a_signal_is_held_back_for_yields_on_a_crowded_node() {
    let shared = Shared::new();
    let engine = engine_as(&shared, 0, EngineConfig::default().oversubscribed());
    let leave = |holds: u64| {
        shared.holds.store(holds, Ordering::Relaxed);
        let before = [&shared.signals, &shared.quiet].map(|n| n.load(Ordering::Relaxed));
        drop(engine.enter());
        let after = [&shared.signals, &shared.quiet].map(|n| n.load(Ordering::Relaxed));
        assert_eq!(shared.descriptor.attention().pollers(), 0);
        [after[0] - before[0], after[1] - before[1]]
    };
    // On a busy machine a yield may be late.
    let mut spared = 0;
    for _ in 0..100 {
        spared += u64::from(leave(2)[0] == 0);
        engine.yields.forget();
    }
    assert!(spared > 0);
    // Asked on the way out, at the start, and after each yield.
    let [signals, quiet] = leave(u64::MAX);
    assert!(signals == 1 && quiet <= 2 + u64::from(PATIENT_YIELDS), "{quiet}");
    // What has come meanwhile has its pass.
    engine.yields.forget();
    shared.late_ns.store(1, Ordering::Relaxed);
    let _signals = leave(u64::MAX);
    assert_eq!(shared.handled.load(Ordering::Relaxed), shared.posted[0].load(Ordering::Relaxed));
    shared.late_ns.store(0, Ordering::Relaxed);
    // Somebody has computed on this core.
    assert_eq!(engine.yields.give_way(now_ns() - 10_000_000), None, "as if the yield had begun then");
    // Asked once on the way out, and once before it is rung.
    assert_eq!(leave(u64::MAX), [1, 2]);
}

#[test]
fn nobody_yields_to_who_computes() {
    let shared = Shared::new();
    let engine = engine_as(&shared, 0, EngineConfig::default().oversubscribed());
    let spin = engine.config.spin_ns;
    let patience = || engine.patience(Context::User, now_ns());
    shared.beside.store(true, Ordering::Relaxed);
    assert_eq!(patience(), (spin, spin));
    shared.holds.store(u64::MAX, Ordering::Relaxed);
    drop(engine.enter());
    let [signals, quiet] = [&shared.signals, &shared.quiet].map(|n| n.load(Ordering::Relaxed));
    assert_eq!(signals, 1, "nobody is held back for a yield");
    assert!(quiet <= 3, "{quiet}");
    let slept = engine.stats().snapshot().sleeps;
    // Unless it has no core for so long.
    let sleeps = || {
        assert!(!engine.wait_until(|| false, Some(Duration::from_millis(1))));
        engine.stats().snapshot().sleeps > slept
    };
    assert!((0..100).any(|_| sleeps()));
    assert!(shared.asked.load(Ordering::Relaxed) > 0);
    // It ends: the next look yields again. Nothing has been lost by a yield meanwhile.
    shared.beside.store(false, Ordering::Relaxed);
    compute_until("yields", || patience().1 > spin);
    // Where no other rank wants the core, nobody asks.
    let asked = shared.asked.load(Ordering::Relaxed);
    let alone = engine_as(&shared, 0, EngineConfig::default());
    assert!(!alone.wait_until(|| false, Some(Duration::from_millis(1))));
    assert_eq!(shared.asked.load(Ordering::Relaxed), asked);
}

#[test]
fn who_computes_on_a_crowded_node_says_so() {
    let shared = Shared::new();
    let says = || shared.descriptor.computes_on(|| u64::MAX);
    for (crowded, config) in
        [(false, EngineConfig::default()), (true, EngineConfig::default().oversubscribed())]
    {
        let engine = engine_as(&shared, 0, config);
        let receiver = install(&shared, &engine, BackendKind::Signal);
        let leave = |stays: bool| {
            let mut inside = engine.enter();
            inside.seen[1] = 0;
            if stays {
                inside.stay();
            }
        };
        leave(true);
        assert_eq!(says(), None, "it waits next");
        leave(false);
        assert_eq!(says().is_some(), crowded);
        assert!(!shared.descriptor.computes(), "not for long");
        shared.idle.store(true, Ordering::Relaxed);
        leave(false);
        assert_eq!(says(), None, "nothing is under way");
        shared.idle.store(false, Ordering::Relaxed);
        drop(receiver);
    }
}

/// Where the kernel lets it: who sleeps is to have the core from who computes there when it is woken.
#[test]
fn who_sleeps_where_ranks_share_cores_has_a_short_slice() {
    let own = slice::current();
    let shortest = |config: EngineConfig| {
        let engine = engine_as(&Shared::new(), 0, config);
        let shortest = std::cell::Cell::new(own);
        let look = || {
            shortest.set(shortest.get().min(slice::current()));
            false
        };
        assert!(!engine.wait_until(look, Some(Duration::from_millis(20))));
        assert!(engine.stats().snapshot().sleeps > 0);
        assert_eq!(slice::current(), own, "it has its own again");
        shortest.get()
    };
    assert_eq!(shortest(EngineConfig::default()), own, "a core of its own");
    let mut known = slice::ShortSlice::new();
    known.begin();
    let short = slice::current();
    drop(known);
    assert_eq!(shortest(EngineConfig::default().oversubscribed()), short);
}
