//! Threads that sleep until they are rung, beside threads that enter and leave: they are woken for what is left.

use super::*;

/// Runs `stays` beside a thread that attends, as a progress thread does that has nothing to do, and counts how often it was woken; once more at the
/// end, which is counted, too.
fn woken_by(engine: &Arc<Engine<Counting>>, stays: impl FnOnce(&AtomicU64)) -> u64 {
    let (over, woken) = (AtomicBool::new(false), AtomicU64::new(0));
    let sleeps = || engine.own().descriptor().attention().attendants() > 0;
    std::thread::scope(|threads| {
        let attendant = threads.spawn(|| {
            // Until a wake-up is missing for so long.
            while !over.load(SeqCst)
                && engine.own().attend(Some(Duration::from_secs(20)), || over.load(SeqCst))
            {
                woken.fetch_add(1, SeqCst);
            }
        });
        compute_until("a thread that attends", sleeps);
        stays(&woken);
        compute_until("a thread that attends again", sleeps);
        over.store(true, SeqCst);
        engine.own().wake_own();
        attendant.join().unwrap();
    });
    woken.into_inner()
}

/// A stay in which something is posted.
fn stay(engine: &Arc<Engine<Counting>>) {
    let mut inside = engine.enter();
    let _touched = &mut *inside;
}

#[test]
fn who_leaves_something_wakes_who_comes_for_that() {
    let shared = Shared::new();
    let engine = engine(&shared, 0);
    let receiver = install(&shared, &engine, BackendKind::Thread);
    stay(&engine);
    woken_by(&engine, |woken| {
        let mut inside = engine.enter();
        let _touched = &mut *inside;
        // Nobody rings for it.
        shared.unfinished.store(true, SeqCst);
        drop(inside);
        compute_until("who comes for what is left", || woken.load(SeqCst) > 0);
    });
    shared.unfinished.store(false, SeqCst);
    // After a pass that leaves something, too.
    shared.posted[0].store(1_000_000, SeqCst);
    woken_by(&engine, |woken| {
        engine.look_in_passing();
        compute_until("who comes for the rest", || woken.load(SeqCst) > 0);
    });
    assert!(shared.handled.load(SeqCst) < shared.posted());
    drop(receiver);
}

/// Who has posted something and goes away looks in passing, and may find nothing that it does not leave.
#[test]
fn a_look_in_passing_that_leaves_all_wakes_who_comes_for_that() {
    let shared = Shared::new();
    let engine = engine(&shared, 0);
    let receiver = install(&shared, &engine, BackendKind::Thread);
    stay(&engine);
    woken_by(&engine, |woken| {
        engine.looking().leave();
        assert_eq!(woken.load(SeqCst), 0, "nothing is left");
        shared.unfinished.store(true, SeqCst);
        engine.looking().leave();
        compute_until("who comes for what is left", || woken.load(SeqCst) > 0);
        shared.unfinished.store(false, SeqCst);
    });
    drop(receiver);
}
