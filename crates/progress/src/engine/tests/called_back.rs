//! Callbacks that run on a thread that waits, and last.

use super::*;
use crate::{Completion, Outcome};

/// Runs `wait` on an engine with a callback queued that has a peer post, and computes until that is handled.
fn wait_beside_a_callback(wait: impl FnOnce(&Engine<Counting>, &Shared)) {
    let shared = Shared::new();
    // Nobody else runs them.
    let config = EngineConfig { callback_thread: false, ..EngineConfig::default() };
    let engine = engine_as(&shared, 0, config);
    let receiver = install(&shared, &engine, BackendKind::Signal);
    let completion = Completion::new();
    let call = {
        let shared = shared.clone();
        move |_| {
            shared.post(0, Urgency::Urgent);
            compute_until("nobody rings", || shared.handled.load(SeqCst) == 1);
        }
    };
    engine.callbacks.set(&completion, Box::new(call)).unwrap();
    completion.finish(Outcome::default());
    wait(&engine, &shared);
    assert_eq!(shared.handled_by_handler.load(SeqCst), 1, "while the callback ran");
    assert_eq!(shared.descriptor.attention().pollers(), 0);
    drop(receiver);
}

#[test]
fn a_rank_is_rung_while_a_callback_of_a_wait_runs() {
    wait_beside_a_callback(|engine, shared| {
        assert!(engine.wait_until(|| shared.handled.load(SeqCst) == 1, None));
    });
    wait_beside_a_callback(|engine, shared| {
        assert!(engine.wait_unannounced(|| shared.handled.load(SeqCst) == 1, None));
    });
}

#[test]
fn a_rank_is_rung_while_a_callback_of_a_post_that_looks_runs() {
    wait_beside_a_callback(|engine, shared| {
        let _more = engine.looking().go_on(1_000_000, || shared.handled.load(SeqCst) == 1);
    });
}

/// What a stay leaves that runs a callback comes back while that runs, which nobody rings for.
#[test]
fn what_is_left_beside_a_callback_comes_back_before_that_ends() {
    // More than any pass takes.
    let all = u64::from(crate::budget::USER_PACKETS) * 100;
    type Leave<'a> = &'a dyn Fn(&Engine<Counting>, &dyn Fn());
    let leaves = |name: &str, leave: Leave<'_>| {
        let shared = Shared::new();
        let config = EngineConfig { callback_thread: false, ..EngineConfig::default() };
        let engine = engine_as(&shared, 0, config);
        let receiver = install(&shared, &engine, BackendKind::Signal);
        let completion = Completion::new();
        let came_back = Arc::new(AtomicBool::new(false));
        let call = {
            let (shared, came_back) = (shared.clone(), came_back.clone());
            move |_| {
                compute_until("nobody comes back", || shared.handled.load(SeqCst) == all);
                came_back.store(true, SeqCst);
            }
        };
        engine.callbacks.set(&completion, Box::new(call)).unwrap();
        leave(&engine, &|| {
            shared.posted[0].store(all, SeqCst);
            completion.finish(Outcome::default());
        });
        assert!(came_back.load(SeqCst), "{name}");
        drop(receiver);
    };
    leaves("an entry", &|engine, begin| {
        let inside = engine.enter();
        begin();
        inside.ask_for_pass();
    });
    leaves("an entry that looks", &|engine, begin| {
        let mut inside = engine.enter();
        inside.is_looking();
        begin();
        inside.ask_for_pass();
    });
    leaves("a poke", &|engine, begin| {
        begin();
        engine.poke(Context::User);
    });
    leaves("a look between", &|engine, begin| {
        begin();
        engine.look_between();
    });
    leaves("a post that looks", &|engine, begin| {
        let looking = engine.looking();
        begin();
        drop(looking);
    });
    leaves("a post that looks in passing", &|engine, begin| {
        let looking = engine.looking();
        begin();
        looking.leave();
    });
    leaves("turns", &|engine, begin| {
        let turns = engine.turns(true, false);
        begin();
        drop(turns);
    });
    leaves("the end of a wait", &|engine, begin| {
        let mut asked = 0;
        let over = || {
            asked += 1;
            if asked == 2 {
                begin();
            }
            asked == 2
        };
        assert!(engine.wait_until(over, None));
    });
}

/// Who waits while another thread runs callbacks, and more are queued, sleeps.
#[test]
fn a_wait_sleeps_beside_another_threads_callbacks() {
    let shared = Shared::new();
    let config = EngineConfig { callback_thread: false, ..EngineConfig::default() };
    let engine = engine_as(&shared, 0, config);
    let slept = || engine.stats().snapshot().sleeps > 0;
    let (first, second) = (Completion::new(), Completion::new());
    let done = Arc::new(AtomicBool::new(false));
    let computes = {
        let engine = engine.clone();
        move |_| compute_until("nobody sleeps", || engine.stats().snapshot().sleeps > 0)
    };
    engine.callbacks.set(&first, Box::new(computes)).unwrap();
    let ends = {
        let (engine, done) = (engine.clone(), done.clone());
        move |_| {
            done.store(true, SeqCst);
            engine.own().wake_own();
        }
    };
    engine.callbacks.set(&second, Box::new(ends)).unwrap();
    std::thread::scope(|scope| {
        first.finish(Outcome::default());
        let calls = scope.spawn(|| engine.callbacks.run());
        while !engine.callbacks.are_running() {
            std::thread::yield_now();
        }
        second.finish(Outcome::default());
        assert!(engine.wait_until(|| done.load(SeqCst), None));
        calls.join().unwrap();
    });
    assert!(slept());
}
