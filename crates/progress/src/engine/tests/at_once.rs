//! Being inside for one step.

use super::*;

fn untraced(config: EngineConfig) -> (Arc<Shared>, Engine<Counting>) {
    let shared = Shared::new();
    // SAFETY: the work holds the Arc, so the descriptor lives as long as the engine.
    let own = unsafe { Own::new(&shared.descriptor) };
    let work = Counting { shared: shared.clone(), seen: [0; 2], item_ns: 0 };
    (shared, Engine::new(work, own, config, Arc::new(Stats::new())))
}

fn passes(engine: &Engine<Counting>) -> u64 {
    engine.stats().snapshot().passes
}

#[test]
fn nothing_is_done_for_a_step_that_changed_nothing() {
    let (shared, engine) = untraced(EngineConfig::default());
    let quiet = shared.quiet.load(SeqCst);
    engine.enter_at_once().unwrap().leave_as_found();
    assert_eq!((passes(&engine), shared.quiet.load(SeqCst)), (0, quiet));
    // It has left.
    engine.enter_at_once().unwrap().leave_as_found();
}

#[test]
fn a_request_meanwhile_has_its_pass() {
    let (shared, engine) = untraced(EngineConfig::default());
    for leaves in [0, 1, 2] {
        let before = passes(&engine);
        let inside = engine.enter_at_once().unwrap();
        assert!(engine.enter_at_once().is_none() && !inside.is_asked());
        assert_eq!(engine.poke(Context::Handler), Pass::Idle, "somebody is inside");
        assert!(inside.is_asked());
        shared.posted[0].fetch_add(1, SeqCst);
        match leaves {
            0 => inside.leave_as_found(),
            1 => drop(inside),
            _ => drop(inside.stay()),
        }
        assert!(passes(&engine) > before);
        assert_eq!(shared.handled.load(SeqCst), shared.posted[0].load(SeqCst));
    }
}

#[test]
fn what_is_to_be_flushed_is_by_its_drop() {
    let (shared, engine) = untraced(EngineConfig::default());
    let quiet = shared.quiet.load(SeqCst);
    let mut inside = engine.enter_at_once().unwrap();
    assert_eq!(inside.work().item_ns, 0);
    drop(inside);
    assert_eq!(shared.quiet.load(SeqCst), quiet + 1);
}

#[test]
fn stays_that_say_more_are_no_steps() {
    let shared = Shared::new();
    assert!(super::engine(&shared, 0).enter_at_once().is_none(), "it is recorded");
    let (_, engine) = untraced(EngineConfig::default());
    engine.token.request();
    assert!(engine.enter_at_once().is_none(), "a pass is due");
}

/// Where ranks share cores: after a step as after any stay.
#[test]
fn whose_thread_goes_computing_says_so() {
    for (crowded, begins) in [(false, false), (true, false), (true, true)] {
        let config = EngineConfig::default();
        let (shared, engine) = untraced(if crowded { config.oversubscribed() } else { config });
        let engine = Arc::new(engine);
        let _receiver = install(&shared, &engine, BackendKind::Signal);
        let says = || shared.descriptor.computes_on(|| u64::MAX).is_some();
        let step = || {
            let inside = engine.enter_at_once().unwrap();
            if begins { inside.leave_begun() } else { inside.leave_as_found() }
        };
        for (idle, computes) in [(true, false), (false, crowded), (false, crowded), (true, false)] {
            shared.idle.store(idle, SeqCst);
            step();
            assert_eq!(says(), computes, "{crowded}, {begins}, {idle}");
        }
        // Who waits says nothing.
        shared.idle.store(false, SeqCst);
        engine.enter_at_once().unwrap().leave_waiting();
        assert!(!says());
    }
}
