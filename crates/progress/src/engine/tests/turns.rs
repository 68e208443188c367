//! Threads that look by themselves, and give their core away between.

use super::*;
use crate::engine::Posts;
use crate::trace::kind;
use crate::{Completion, Outcome};
use tocsin_sync::affinity::move_to;
use tocsin_sync::thread::core;

fn crowded() -> (Arc<Shared>, Arc<Engine<Counting>>) {
    let shared = Shared::new();
    let engine = engine_as(&shared, 0, EngineConfig::default().oversubscribed());
    (shared, engine)
}

#[test]
fn turns_are_taken_until_they_do_not_pay() {
    let (shared, engine) = crowded();
    assert!(engine.is_crowded() && !engine_as(&shared, 0, EngineConfig::default()).is_crowded());
    let (begun, yields) = (now_ns(), engine.config.yield_ns);
    let mut turns = engine.turns(false, false);
    while turns.give_way() {}
    // A core that came back late may have been the end, too.
    assert!(engine.yields.is_barred(now_ns()) || now_ns() - begun > yields);
    drop(turns);
    engine.yields.bar_asleep(now_ns() + yields);
    assert!(!engine.turns(false, false).give_way(), "as for any other wait");
    engine.yields.forget();
    shared.beside.store(true, SeqCst);
    compute_until("nobody is known to compute", || engine.would_yield_to_computing(now_ns()));
    assert!(!engine.turns(false, false).give_way(), "somebody computes on this core");
}

/// Whoever sends runs on this core: so that the system may place this thread on another one.
#[test]
fn who_always_yields_once_sleeps_in_between() {
    let (_, engine) = crowded();
    let sleeps = || engine.stats().snapshot().sleeps;
    // For a shorter time than it yields.
    let sleeps_at_once = || {
        let before = sleeps();
        assert!(!engine.wait_until(|| false, Some(Duration::from_micros(200))));
        sleeps() > before
    };
    let turns = engine.turns(false, false);
    (1..apart::FIRST).for_each(|_| turns.note_met(false));
    // In a run in which no core came back late.
    assert!((0..50).any(|_| {
        engine.yields.forget();
        !sleeps_at_once()
    }));
    while !engine.yields.apart.is_asked() {
        turns.note_met(false);
    }
    drop(turns);
    assert!(!engine.turns(false, false).give_way(), "it is to wait");
    engine.yields.forget();
    assert!(sleeps_at_once() && !engine.yields.apart.is_asked(), "once");
}

/// A ringer that sees a poller rings nobody.
#[test]
fn who_counts_as_a_poller_looks_once_more() {
    let (shared, engine) = crowded();
    let pollers = || shared.descriptor.attention().pollers();
    let turns = engine.turns(true, false);
    assert_eq!(pollers(), 1);
    shared.posted[0].fetch_add(1, SeqCst);
    drop(turns);
    assert_eq!((pollers(), shared.handled.load(SeqCst)), (0, 1));
    // Inside, the look is the pass that its caller makes before it leaves.
    let turns = engine.turns(true, false);
    let inside = engine.enter();
    shared.posted[0].fetch_add(1, SeqCst);
    drop(turns);
    assert_eq!((pollers(), shared.handled.load(SeqCst)), (0, 1));
    drop(inside);
    assert_eq!(shared.handled.load(SeqCst), 2);
    drop(engine.turns(false, false));
    let turns = engine.turns(false, false);
    assert_eq!(pollers(), 0, "it is rung as a rank that computes");
    drop(turns);
}

#[test]
fn who_counts_as_a_poller_does_not_while_callbacks_run() {
    let config = EngineConfig { callback_thread: false, ..EngineConfig::default().oversubscribed() };
    for (announces, gives_way) in [(true, true), (true, false), (false, true), (false, false)] {
        let shared = Shared::new();
        let engine = engine_as(&shared, 0, config.clone());
        let completion = Completion::new();
        let (pollers, handled) = (Arc::new(AtomicU64::new(9)), Arc::new(AtomicU64::new(0)));
        let call = {
            let (shared, pollers, handled) = (shared.clone(), pollers.clone(), handled.clone());
            move |_| {
                pollers.store(shared.descriptor.attention().pollers().into(), SeqCst);
                handled.store(shared.handled.load(SeqCst), SeqCst);
            }
        };
        engine.callbacks.set(&completion, Box::new(call)).unwrap();
        let mut turns = engine.turns(announces, false);
        let inside = engine.enter();
        completion.finish(Outcome::default());
        turns.leave(inside);
        assert_eq!(engine.callbacks.is_empty(), !announces);
        // A ringer sees a poller.
        shared.posted[0].store(u64::from(announces), SeqCst);
        if gives_way {
            turns.give_way();
            assert!(engine.callbacks.is_empty());
            assert_eq!(shared.descriptor.attention().pollers(), u32::from(announces), "it goes on");
        }
        drop(turns);
        assert!(engine.callbacks.is_empty());
        assert_eq!((pollers.load(SeqCst), handled.load(SeqCst)), (0, u64::from(announces)));
        assert_eq!(shared.descriptor.attention().pollers(), 0);
    }
}

#[test]
fn what_comes_while_it_stays_says_whether_to_stay() {
    let (_, engine) = crowded();
    let mut turns = engine.turns(false, false);
    while turns.stays(false) {
        engine.yields.note_stay(false);
    }
    turns.note_met(false);
    assert!(!turns.stays(false), "it was there at once");
    turns.note_met(true);
    assert!(turns.stays(false));
}

/// Who waits for this core sends nothing as long as somebody looks there, and that says nothing of those who run elsewhere.
#[test]
fn what_comes_from_this_core_is_not_stayed_for() {
    let (_, engine) = crowded();
    let mut turns = engine.turns(false, true);
    for _ in 0..200 {
        // In a run in which no core came back late.
        engine.yields.forget();
        if !turns.give_way() {
            turns = engine.turns(false, true);
        }
        assert!(!turns.stays(true));
    }
    assert!(turns.stays(false) && engine.yields.should_look(), "neither was in vain");
}

#[test]
fn whose_collective_ends_says_where_and_knows_what_follows() {
    let (shared, engine) = crowded();
    let place = || shared.descriptor.is_where(now_ns());
    let own_core = engine_as(&shared, 0, EngineConfig::default());
    own_core.has_ended();
    assert!(place().is_none() && !own_core.follows(now_ns()));
    let begun = now_ns();
    assert!(!engine.follows(begun), "nothing has ended yet");
    // The system may move it between.
    let is_said = || {
        let before = core();
        engine.has_ended();
        place() == Some(before)
    };
    assert!((0..100).any(|_| is_said()));
    assert_eq!(shared.descriptor.waits_where(now_ns()), None);
    assert!(engine.follows(begun), "it has ended since");
    compute_until("it follows for long", || !engine.follows(now_ns()));
}

/// Where it shares its core with more ranks than are elsewhere.
#[test]
fn who_gives_its_core_away_goes_to_a_roomier_one() {
    let moves_to = |to: u32| {
        let (shared, engine) = crowded();
        shared.roomier.store(to + 1, SeqCst);
        let begun = Instant::now();
        while core() != to && begun.elapsed() < Duration::from_millis(20) {
            engine.would_yield_to_computing(now_ns());
        }
        // It may have waited for that core for so long that what it has said counts no more.
        core() == to && shared.descriptor.waits_where(now_ns()).is_none_or(|said| said == to)
    };
    let here = core();
    // The system may move it, too. One that is bound goes nowhere.
    if let Some(other) = (0..4096).find(|&other| other != here && move_to(other)) {
        assert!((0..20).any(|_| moves_to(here) && moves_to(other)));
    }
}

/// A look that finds nothing to do, but a request.
#[test]
fn a_look_that_finds_nothing_makes_the_pass_that_was_asked_for() {
    let (_, engine) = crowded();
    engine.token.request();
    let passes = engine.stats().snapshot().passes;
    drop(engine.turns(true, false));
    assert!(!engine.token.is_requested() && engine.stats().snapshot().passes > passes);
}

/// Which run when the engine is left.
#[test]
fn what_callbacks_take_is_no_core_that_was_away() {
    // This thread runs them.
    let config = EngineConfig { callback_thread: false, ..EngineConfig::default().oversubscribed() };
    let engine = engine_as(&Shared::new(), 0, config);
    let queue_one_that_lasts = || {
        let completion = Completion::new();
        // Asleep: who has computed that long gives the core away for longer.
        let lasts = Box::new(|_| std::thread::sleep(Duration::from_millis(12)));
        engine.callbacks.set(&completion, lasts).unwrap();
        completion.finish(Outcome::default());
    };
    // In a run in which nobody else had the core for long.
    let once = |run: &dyn Fn()| {
        (0..50).any(|_| {
            engine.yields.forget();
            queue_one_that_lasts();
            run();
            assert!(engine.callbacks.is_empty());
            !engine.yields.is_barred(now_ns())
        })
    };
    assert!(once(&|| {
        let mut turns = engine.turns(false, false);
        drop(engine.enter());
        turns.give_way();
    }));
    assert!(once(&|| {
        while engine.yields.look_ns() > 0 {
            engine.yields.note_look(false);
        }
        // Over when the callback is.
        assert!(!engine.wait_until(|| false, Some(Duration::from_millis(12))));
    }));
}

#[test]
fn what_is_there_from_the_start_says_nothing_of_looks() {
    let (_, engine) = crowded();
    let yields = &engine.yields;
    // Whether looks pay still when one more was in vain, after waits that end when that was asked so often: before the first look, and after it, ...
    let pay_after = |asked: u32| {
        while yields.should_look() {
            yields.note_look(false);
        }
        (0..4).for_each(|_| yields.note_look(true));
        for _ in 0..8 {
            let mut left = asked;
            let over = || {
                left -= 1;
                left == 0
            };
            assert!(engine.wait_until(over, None));
        }
        yields.note_look(false);
        yields.should_look()
    };
    assert!(!pay_after(2));
    // ...or after some more, unless it was kept from them meanwhile.
    assert!((0..100).any(|_| pay_after(4)));
}

/// Asks for something that is not complete: whether the core was given away.
fn asks_for(engine: &Engine<Counting>, what: u64) -> bool {
    let again = engine.asks(what);
    engine.asked_in_vain(again)
}

fn compute_for(ns: u64) {
    let begun = now_ns();
    while now_ns() - begun < ns {}
}

/// A crowded engine for which no look pays.
fn crowded_without_looks() -> (Arc<Shared>, Arc<Engine<Counting>>) {
    let (shared, engine) = crowded();
    stop_looking(&engine);
    (shared, engine)
}

fn stop_looking(engine: &Engine<Counting>) {
    while engine.yields.look_ns() > 0 {
        engine.yields.note_look(false);
    }
}

#[test]
fn who_only_asks_gives_its_core_away() {
    // The system may have something else run in between.
    let gives =
        |asks: &dyn Fn(&Engine<Counting>) -> bool| (0..1000).any(|_| asks(&crowded_without_looks().1));
    assert!(gives(&|engine| !asks_for(engine, 1) && asks_for(engine, 1)));
    // Of several it is the first that counts, as long as that is asked for.
    assert!(gives(&|engine| {
        let first = [1, 3, 5].map(|what| asks_for(engine, what));
        let again = [1, 3, 5].map(|what| asks_for(engine, what));
        first == [false; 3] && again == [true, false, false]
    }));
    // It was complete, and the others go on to be asked for.
    assert!(gives(&|engine| {
        asks_for(engine, 1);
        engine.asks(1);
        engine.asked_well(1, false);
        stop_looking(engine);
        !asks_for(engine, 3) && asks_for(engine, 3)
    }));
    assert!(gives(&|engine| {
        asks_for(engine, 1);
        let begun = now_ns();
        while !asks_for(engine, 3) && now_ns() - begun < 1_000_000 {}
        now_ns() - begun >= 20_000 && asks_for(engine, 3)
    }));
    // It waits where others do, and is about to compute.
    assert!((0..1000).any(|_| {
        let (shared, engine) = crowded_without_looks();
        asks_for(&engine, 1);
        asks_for(&engine, 1) && shared.descriptor.waits_where(now_ns()).is_some()
    }));
    let (_, engine) = crowded_without_looks();
    for what in 0..100 {
        // One round.
        assert!(!asks_for(&engine, 2 * what + 1));
    }
    for _ in 0..100 {
        compute_for(1_000);
        assert!(!asks_for(&engine, 1), "it computes in between");
    }
    for _ in 0..100 {
        asks_for(&engine, 1);
        engine.asks(1);
        engine.asked_well(1, false);
        assert!(!asks_for(&engine, 1), "it was answered");
        engine.asked_well(1, false);
    }
    let own_core = engine_as(&Shared::new(), 0, EngineConfig::default());
    assert!((0..100).all(|_| !asks_for(&own_core, 1)));
}

/// Who asks cannot sleep, whoever else there is, and makes no pass for that: its caller's locks are not known.
#[test]
fn who_asks_gives_way_to_whoever_is_there() {
    let gives = |engine: &Engine<Counting>| (0..1000).any(|_| asks_for(engine, 1));
    let (shared, engine) = crowded_without_looks();
    engine.yields.bar_asleep(now_ns() + 1_000_000_000);
    shared.beside.store(true, SeqCst);
    let asked = shared.asked.load(Ordering::Relaxed);
    assert!(gives(&engine) && shared.asked.load(Ordering::Relaxed) == asked);
    // Whoever is inside, too.
    let inside = engine.enter();
    assert!(gives(&engine));
    drop(inside);
}

#[test]
fn a_long_round_of_questions_comes_again() {
    let rounds = || {
        let (_, engine) = crowded_without_looks();
        let begun = now_ns();
        while now_ns() - begun < 20_000_000 {
            if (0..500u64).any(|what| asks_for(&engine, 2 * what + 1)) {
                return true;
            }
        }
        false
    };
    assert!((0..100).any(|_| rounds()));
}

/// Be it on a core of its own.
#[test]
fn who_only_asks_after_its_posts_waits_for_them() {
    for config in [EngineConfig::default(), EngineConfig::default().oversubscribed()] {
        let engine = engine_as(&Shared::new(), 0, config);
        let post = |then: &dyn Fn()| {
            engine.begins_post(Posts::Receive).unwrap();
            engine.has_posted(Posts::Receive);
            then();
        };
        let is_expected = || engine.begins_post(Posts::Receive).unwrap().soon;
        let ask = |what| {
            asks_for(&engine, what);
        };
        let computes = || compute_for(100_000);
        let in_a_row = |then: &dyn Fn()| {
            (0..10).for_each(|_| post(then));
            is_expected()
        };
        // The system may have something else run in between.
        let asks = || (0..3).for_each(|_| ask(1));
        assert!((0..100).any(|_| in_a_row(&asks)));
        assert!((0..100).any(|_| in_a_row(&|| (0..3).for_each(|_| [1, 3].into_iter().for_each(ask)))));
        let computing: [(&str, &dyn Fn()); 4] = [
            ("it asks once", &|| {
                ask(1);
                computes();
            }),
            ("it asks for each once", &|| {
                (0..10).for_each(|what| ask(2 * what + 1));
                computes();
            }),
            ("it computes first", &|| {
                computes();
                asks();
            }),
            ("it computes in between", &|| {
                ask(1);
                computes();
                asks();
            }),
        ];
        for (what, then) in computing {
            assert!((0..100).any(|_| in_a_row(&asks)));
            assert!(!in_a_row(then), "{what}");
        }
        // What was over waits, too, however long that took, unless it was something else.
        let is_over = |posted| {
            engine.asks(1);
            computes();
            engine.asked_well(1, posted);
        };
        assert!((0..100).any(|_| !in_a_row(&computes) && in_a_row(&|| is_over(true))));
        assert!(!in_a_row(&|| is_over(false)));
        // So does who asked for something else that was not, and has not computed since.
        let asks_for_both = |then: &dyn Fn()| {
            ask(1);
            then();
            engine.asks_for_what_is_over();
        };
        assert!((0..100).any(|_| !in_a_row(&computes) && in_a_row(&|| asks_for_both(&|| ()))));
        assert!(!in_a_row(&|| asks_for_both(&computes)));
    }
}

#[test]
fn who_asks_looks_first_if_looks_pay() {
    // When it gives its core away for the first time, if it does.
    let lasts = || {
        let (_, engine) = crowded();
        let (begun, looks) = (now_ns(), engine.yields.look_ns());
        let lasted = || now_ns() - begun;
        while lasted() < 1_000_000 {
            if asks_for(&engine, 1) {
                return Some((lasted(), looks));
            }
        }
        None
    };
    let seen: Vec<_> = (0..100).filter_map(|_| lasts()).collect();
    assert!(!seen.is_empty() && seen.iter().all(|(lasted, looks)| lasted >= looks && *looks > 0));
}

/// As who waits is, in a trace.
#[test]
fn who_looks_or_takes_turns_is_in_the_library_all_the_while() {
    type Enter<'a> = &'a dyn Fn();
    let lasts = |begin: &dyn Fn(&Engine<Counting>, Enter<'_>)| {
        let (_, engine) = crowded();
        let lasted = core::cell::Cell::new(0);
        begin(&engine, &|| {
            let begun = now_ns();
            (0..3).for_each(|_| drop(engine.enter()));
            lasted.set(now_ns() - begun);
        });
        let stays = engine.trace().unwrap().drain().into_iter().filter(|event| event.kind == kind::LIBRARY);
        assert!(stays.map(|event| event.a).max() >= Some(lasted.get()));
    };
    for announces in [false, true] {
        lasts(&|engine, enter| {
            let _turns = engine.turns(announces, false);
            enter();
        });
    }
    lasts(&|engine, enter| {
        let _looking = engine.looking();
        enter();
    });
}

/// Also where the ranks should have had cores of their own.
#[test]
fn who_shares_a_core_sleeps_in_between_too() {
    for config in [EngineConfig::default().oversubscribed(), EngineConfig::default()] {
        let engine = engine_as(&Shared::new(), 0, config);
        engine.together.note(true);
        while !engine.yields.apart.is_asked() {
            engine.yields.apart.note_yielded(false);
        }
        let mut asked = 0;
        assert!(engine.wait_until(
            || {
                asked += 1;
                asked == 3
            },
            None
        ));
        assert!(engine.stats().snapshot().sleeps == 1 && !engine.yields.apart.is_asked());
    }
}

/// Which of them have cores of their own is found out by yields: some bring what was waited for, and others ran meanwhile.
#[test]
fn yields_tell_who_shares_a_core() {
    let engine = engine_as(&Shared::new(), 0, EngineConfig::default());
    let spins = || engine.patience(Context::User, now_ns());
    let (spin, most) = spins();
    assert!(spin == most && engine.yield_ns() == 0 && engine.tries_a_yield(now_ns()));
    engine.together.note(true);
    assert!(spins().1 > spins().0 && engine.yield_ns() > 0);
    (0..4).for_each(|_| engine.together.note(false));
    assert_eq!(spins(), (spin, most), "nobody was there");
    let away = 10_000_000;
    for (back, others) in
        [(None, false), (Some(away + 700), false), (Some(away + 3_000), true), (Some(2 * away), false)]
    {
        assert_eq!(together::others_had_it(away, back), others, "{back:?}");
    }
    // A time slice was lost, of which nothing had been saved.
    engine.together.note(true);
    assert_eq!(engine.yields.give_way(now_ns() - away), None);
    assert_eq!(spins(), (spin, most));
    assert!(!engine.tries_a_yield(now_ns()));
}
