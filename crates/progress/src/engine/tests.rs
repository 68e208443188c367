//! The engine over the real doorbell: whatever interrupts whatever, nothing is lost.

#![allow(clippy::unwrap_used)]

mod at_once;
mod attended;
mod called_back;
mod late;
mod patience;
mod storms;
mod turns;

use super::entered::GLANCES;
use super::*;
use crate::{Completion, Outcome};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use tocsin_doorbell::{BackendKind, Config, Descriptor, Mark, Receiver, Urgency, ring};
use tocsin_sync::atomic::{AtomicBool, AtomicPtr, AtomicU64};
use tocsin_sync::clock::now_ns;

/// What senders and receiver share: one counter and one mark per sender.
struct Shared {
    descriptor: Descriptor,
    posted: [AtomicU64; 2],
    marks: [Mark; 2],
    handled: AtomicU64,
    inside: AtomicBool,
    handled_by_handler: AtomicU64,
    wants_plain: AtomicBool,
    wants_offers: AtomicBool,
    unfinished: AtomicBool,
    /// The last pass was of a thread that waits.
    waited: AtomicBool,
    /// Calls of `leave_quietly` that find somebody to be held back, and those made; signals sent by `leave`.
    holds: AtomicU64,
    quiet: AtomicU64,
    signals: AtomicU64,
    /// So long does a call of `leave_quietly` take by a thread that polls, and then a message has come. 0: none does.
    late_ns: AtomicU64,
    /// Somebody computes on this core; how often that was asked.
    beside: AtomicBool,
    asked: AtomicU64,
    /// Another core has fewer ranks, by its number plus one; 0: none has.
    roomier: AtomicU32,
    /// What the next message completes, and leaves a long copy: none, or a completion that lives as long as this.
    completes: AtomicPtr<Completion>,
    idle: AtomicBool,
}

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared {
            descriptor: Descriptor::new(),
            posted: [AtomicU64::new(0), AtomicU64::new(0)],
            marks: [Mark::new(), Mark::new()],
            handled: AtomicU64::new(0),
            inside: AtomicBool::new(false),
            handled_by_handler: AtomicU64::new(0),
            wants_plain: AtomicBool::new(true),
            wants_offers: AtomicBool::new(false),
            unfinished: AtomicBool::new(false),
            waited: AtomicBool::new(false),
            holds: AtomicU64::new(0),
            quiet: AtomicU64::new(0),
            signals: AtomicU64::new(0),
            late_ns: AtomicU64::new(0),
            beside: AtomicBool::new(false),
            asked: AtomicU64::new(0),
            roomier: AtomicU32::new(0),
            completes: AtomicPtr::new(std::ptr::null_mut()),
            idle: AtomicBool::new(false),
        })
    }

    fn post(&self, sender: usize, urgency: Urgency) {
        self.posted[sender].fetch_add(1, Ordering::Relaxed);
        fence(SeqCst);
        let _outcome = ring(&self.descriptor, &self.marks[sender], sender as u8, urgency);
    }

    fn posted(&self) -> u64 {
        self.posted.iter().map(|p| p.load(SeqCst)).sum()
    }
}

/// Takes one item per packet of its budget, and notices when two are inside.
struct Counting {
    shared: Arc<Shared>,
    seen: [u64; 2],
    item_ns: u64,
}

// SAFETY: loads, stores and a bounded busy loop.
unsafe impl Work for Counting {
    fn progress(&mut self, budget: &mut Budget) -> Pass {
        let shared = &*self.shared;
        if shared.inside.swap(true, SeqCst) {
            std::process::abort();
        }
        shared.waited.store(budget.is_waiting(), SeqCst);
        let mut found = Pass::Idle;
        for (sender, seen) in self.seen.iter_mut().enumerate() {
            shared.marks[sender].clear_if_set();
            fence(SeqCst);
            while *seen < shared.posted[sender].load(Ordering::Relaxed) {
                if !budget.packet() {
                    found = Pass::More;
                    break;
                }
                let until = now_ns() + self.item_ns;
                while self.item_ns > 0 && now_ns() < until {}
                *seen += 1;
                found = Pass::Worked;
                shared.handled.fetch_add(1, SeqCst);
                let completes = shared.completes.swap(std::ptr::null_mut(), SeqCst);
                // SAFETY: the test's, which lives longer; the token is this thread's.
                if let Some(completion) = unsafe { completes.as_ref() } {
                    completion.finish(Outcome::default());
                    shared.unfinished.store(true, SeqCst);
                }
                if budget.context() == Context::Handler {
                    shared.handled_by_handler.fetch_add(1, SeqCst);
                }
            }
        }
        shared.inside.store(false, SeqCst);
        found
    }

    fn leave(&mut self) {
        if self.shared.holds.swap(0, Ordering::Relaxed) > 0 {
            self.shared.signals.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn leave_quietly(&mut self) -> bool {
        let late = self.shared.late_ns.load(Ordering::Relaxed);
        if late > 0 && self.shared.descriptor.attention().pollers() > 0 {
            // A peer that sees this rank looking rings nobody.
            let until = now_ns() + late;
            while now_ns() < until {}
            self.shared.posted[0].fetch_add(1, Ordering::Relaxed);
        }
        self.shared.quiet.fetch_add(1, Ordering::Relaxed);
        let left = self.shared.holds.load(Ordering::Relaxed);
        self.shared.holds.store(left.saturating_sub(1), Ordering::Relaxed);
        left > 0
    }

    fn computes_beside(&mut self, _core: u32, _now: u64) -> bool {
        self.shared.asked.fetch_add(1, Ordering::Relaxed);
        self.shared.beside.load(Ordering::Relaxed)
    }

    fn roomier_core(&mut self, core: u32, _now: u64) -> Option<u32> {
        self.shared.roomier.load(Ordering::Relaxed).checked_sub(1).filter(|roomier| *roomier != core)
    }

    fn has_operations(&self) -> bool {
        !self.shared.idle.load(Ordering::Relaxed)
    }

    fn wants_plain(&self) -> bool {
        self.shared.wants_plain.load(Ordering::Relaxed)
    }

    fn is_unfinished(&self) -> bool {
        self.shared.unfinished.load(Ordering::Relaxed)
    }

    fn wants_offers(&self) -> bool {
        self.shared.wants_offers.load(Ordering::Relaxed)
    }

    fn work_left(&self) -> bool {
        // What is left to a peer a pass may find, and leave again.
        self.shared.unfinished.load(Ordering::Relaxed)
            || self
                .seen
                .iter()
                .zip(&self.shared.posted)
                .any(|(seen, posted)| *seen < posted.load(Ordering::Relaxed))
    }
}

fn engine(shared: &Arc<Shared>, item_ns: u64) -> Arc<Engine<Counting>> {
    engine_as(shared, item_ns, EngineConfig::default())
}

fn engine_as(shared: &Arc<Shared>, item_ns: u64, config: EngineConfig) -> Arc<Engine<Counting>> {
    // SAFETY: the work holds the Arc, so the descriptor lives as long as the engine.
    let own = unsafe { Own::new(&shared.descriptor) };
    let work = Counting { shared: shared.clone(), seen: [0; 2], item_ns };
    let config = EngineConfig { trace: Some(Arc::new(Trace::new(1024))), ..config };
    Arc::new(Engine::new(work, own, config, Arc::new(Stats::new())))
}

fn install(shared: &Arc<Shared>, engine: &Arc<Engine<Counting>>, backend: BackendKind) -> Receiver {
    // SAFETY: the tests keep engine and descriptor until the receiver is dropped, on this thread.
    let receiver = unsafe {
        Receiver::install(
            &shared.descriptor,
            &Config::new(backend),
            Engine::<Counting>::handler_entry,
            Arc::as_ptr(engine).cast(),
        )
    }
    .unwrap();
    engine.attach(receiver.control());
    receiver
}

/// Computes, without a library call, until the condition holds.
fn compute_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::hint::spin_loop();
    }
}

#[test]
fn a_computing_rank_is_interrupted() {
    let shared = Shared::new();
    let engine = engine(&shared, 0);
    let receiver = install(&shared, &engine, BackendKind::Signal);
    let sender = shared.clone();
    let posting = std::thread::spawn(move || (0..100).for_each(|_| sender.post(0, Urgency::Urgent)));
    compute_until("interrupts", || shared.handled.load(SeqCst) == 100);
    posting.join().unwrap();
    let stats = engine.stats().snapshot();
    assert!(stats.interrupts > 0 && stats.stolen_ns > 0, "{stats:?}");
    drop(receiver);
    // An end says by itself what its beginning said.
    let (mut begun, mut ended) = (None, 0);
    for event in engine.trace().unwrap().drain() {
        match event.kind {
            kind::INTERRUPT => begun = Some(event.a),
            kind::INTERRUPT_END => {
                let cause = kind::interrupt_end(event.b).0;
                assert!(begun.take().is_none_or(|begun| begun == cause), "{event:?}");
                ended += 1;
            }
            _ => {}
        }
    }
    assert!(ended > 0);
    // Each stay in the library is one event, whose thread it names.
    let stays = || {
        let events = engine.trace().unwrap().drain().into_iter();
        events.filter(|e| e.kind == kind::LIBRARY && e.b == thread::pointer() as u64).count()
    };
    let before = stays();
    drop(engine.enter());
    drop(engine.try_enter(Context::Handler));
    engine.wait_until(|| true, None);
    assert_eq!(stays() - before, 2);
}

/// What a thread that looks by itself leaves was announced to nobody: whoever posted it saw this rank looking.
#[test]
fn what_is_left_after_a_look_interrupts() {
    // More than all the looks take.
    let all = u64::from(crate::budget::USER_PACKETS) * 100;
    for (ends, config) in [
        ("drop", EngineConfig::default()),
        ("leave", EngineConfig::default()),
        ("go on", EngineConfig::default()),
        ("go on", EngineConfig { yield_ns: 1, ..EngineConfig::default() }),
    ] {
        let shared = Shared::new();
        let engine = engine_as(&shared, 0, config);
        let receiver = install(&shared, &engine, BackendKind::Signal);
        let looking = engine.looking();
        shared.posted[0].store(all, SeqCst);
        match ends {
            "drop" => drop(looking),
            "leave" => looking.leave(),
            _ => {
                let more = looking.go_on(0, || false);
                assert!(more);
                assert!(shared.handled.load(SeqCst) < all);
                let mut state = engine.enter();
                state.seen[1] = 0;
                state.come_back();
            }
        }
        compute_until("nobody comes back", || shared.handled.load(SeqCst) == all);
        drop(receiver);
    }
}

/// What comes to be wanted while it is there already must not be left lying.
#[test]
fn wanting_more_messages_looks_once_more() {
    for urgency in [Urgency::Plain, Urgency::Offer] {
        let shared = Shared::new();
        shared.wants_plain.store(false, SeqCst);
        let engine = engine(&shared, 0);
        let receiver = install(&shared, &engine, BackendKind::Signal);
        shared.post(0, urgency);
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(shared.handled.load(SeqCst), 0, "{urgency:?}: it must not interrupt");
        let wants = if urgency == Urgency::Plain { &shared.wants_plain } else { &shared.wants_offers };
        wants.store(true, SeqCst);
        drop(engine.enter());
        assert_eq!(shared.handled.load(SeqCst), 1);
        drop(receiver);
    }
}

/// Who leaves with something unfinished has the timer bring it back; who waits next needs no timer.
#[test]
fn who_stays_sets_no_timer() {
    for stays in [false, true] {
        let shared = Shared::new();
        shared.unfinished.store(true, SeqCst);
        let engine = engine(&shared, 0);
        let receiver = install(&shared, &engine, BackendKind::Signal);
        let mut inside = engine.enter();
        // As a post does.
        let _work: &mut Counting = &mut inside;
        if stays {
            inside.stay();
        }
        let before = engine.timer.load(SeqCst);
        drop(inside);
        let armed = engine.timer.load(SeqCst) != before || engine.stats().snapshot().interrupts > 0;
        assert_eq!(armed, !stays);
        drop(receiver);
    }
}

/// Who lingers learns whether it has looked at all else: then what lay there has had its pass.
#[test]
fn who_lingers_learns_whether_it_looked() {
    const LOOKS: u32 = 3;
    /// What the glances find, the last again and again; whether somebody asks for the engine; glances in all, and looks.
    type Row = (&'static str, &'static [(u32, Lingering)], bool, u32, bool);
    let table: [Row; 6] = [
        ("over at once", &[(1, Lingering::Over)], false, 1, false),
        (
            "over before the first look",
            &[(GLANCES - 1, Lingering::Nothing), (1, Lingering::Over)],
            false,
            GLANCES,
            false,
        ),
        ("over after it", &[(GLANCES, Lingering::Nothing), (1, Lingering::Over)], false, GLANCES + 1, true),
        ("news for others, then over", &[(1, Lingering::Worked), (1, Lingering::Over)], false, 2, true),
        ("never over", &[(1, Lingering::Nothing)], false, LOOKS * GLANCES + 1, true),
        ("asked to leave", &[(1, Lingering::Nothing)], true, GLANCES + 1, true),
    ];
    for (what, found, asked, glances, looked) in table {
        let shared = Shared::new();
        let engine = engine(&shared, 0);
        let mut found =
            found.iter().flat_map(|(times, answer)| std::iter::repeat_n(*answer, *times as usize));
        let (mut last, mut count) = (Lingering::Nothing, 0);
        let mut inside = engine.enter();
        shared.post(0, Urgency::Plain);
        if asked {
            engine.token.request();
        }
        let has_looked = inside.linger(LOOKS, |_| {
            count += 1;
            last = found.next().unwrap_or(last);
            last
        });
        assert_eq!((has_looked, count), (looked, glances), "{what}");
        assert_eq!(shared.handled.load(SeqCst), u64::from(looked), "{what}: the pass for all else");
    }
}

/// A test may be the last call for long, and so may a post; a blocking call ends with a wait.
#[test]
fn who_waits_says_so_in_its_passes() {
    type Row = (&'static str, fn(&Engine<Counting>, &Shared), bool);
    let table: [Row; 4] = [
        ("a test", |engine, _| assert_eq!(engine.poke(Context::User), Pass::Worked), false),
        (
            "a post",
            |engine, _| {
                let inside = engine.enter();
                engine.token.request();
                drop(inside);
            },
            false,
        ),
        (
            "a blocking call",
            |engine, _| {
                let mut inside = engine.enter();
                engine.token.request();
                inside.stay();
                drop(inside);
            },
            true,
        ),
        (
            "a wait",
            |engine, shared| assert!(engine.wait_until(|| shared.handled.load(SeqCst) == 1, None)),
            true,
        ),
    ];
    for (what, enter, waits) in table {
        let shared = Shared::new();
        let engine = engine(&shared, 0);
        shared.post(0, Urgency::Plain);
        enter(&engine, &shared);
        assert_eq!(shared.handled.load(SeqCst), 1, "{what}");
        assert_eq!(shared.waited.load(SeqCst), waits, "{what}");
    }
}

/// Threads that wait are woken by whoever completes what they wait for.
#[test]
fn waiters_are_woken_by_other_contexts() {
    for backend in [BackendKind::Signal, BackendKind::Thread, BackendKind::Poll] {
        let shared = Shared::new();
        let engine = engine(&shared, 0);
        let receiver = install(&shared, &engine, backend);
        let progress = (backend == BackendKind::Thread)
            .then(|| crate::ProgressThread::spawn(engine.clone(), None).unwrap());
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (1..=3u64)
                .map(|n| {
                    let (shared, engine) = (&shared, &engine);
                    scope.spawn(move || {
                        engine.wait_until(
                            || shared.handled.load(SeqCst) >= n * 100,
                            Some(Duration::from_secs(20)),
                        )
                    })
                })
                .collect();
            for n in 0..300 {
                shared.post(n % 2, Urgency::Urgent);
                if n % 50 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            for waiter in waiters {
                assert!(waiter.join().unwrap(), "{backend:?}");
            }
        });
        assert!(!engine.wait_until(|| false, Some(Duration::from_millis(3))));
        drop(progress);
        drop(receiver);
        assert_eq!(shared.descriptor.attention().pollers(), 0);
        assert_eq!(shared.descriptor.attention().sleepers(), 0);
    }
}

/// A progress thread serves a rank whose own thread never calls.
#[test]
fn a_progress_thread_serves_a_computing_rank() {
    let shared = Shared::new();
    let engine = engine(&shared, 0);
    let receiver = install(&shared, &engine, BackendKind::Thread);
    let thread = crate::ProgressThread::spawn(engine.clone(), Some(0)).unwrap();
    for n in 1..=50 {
        shared.post(0, Urgency::Urgent);
        compute_until("the progress thread", || shared.handled.load(SeqCst) == n);
        if n % 10 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert_eq!(engine.stats().snapshot().interrupts, 0);
    drop(thread);
    drop(receiver);
}

/// A second thread that stays inside while the first is rung: the handler defers, the holder serves.
#[test]
fn the_holder_serves_what_a_handler_deferred() {
    let shared = Shared::new();
    let engine = engine(&shared, 0);
    let receiver = install(&shared, &engine, BackendKind::Signal);
    let inside = Arc::new(AtomicBool::new(false));
    let (holder, entered) = (engine.clone(), inside.clone());
    let holding = std::thread::spawn(move || {
        let inside = holder.enter();
        entered.store(true, SeqCst);
        let begun = Instant::now();
        while holder.stats().snapshot().deferrals == 0 && begun.elapsed() < Duration::from_secs(20) {}
        drop(inside);
    });
    compute_until("the holder", || inside.load(SeqCst));
    shared.post(1, Urgency::Urgent);
    compute_until("the holder's pass", || shared.handled.load(SeqCst) == 1);
    assert_eq!(shared.handled_by_handler.load(SeqCst), 0);
    holding.join().unwrap();
    drop(receiver);
}

/// A progress thread that sleeps goes on where the callback thread's look stops: its rank has no timer.
#[test]
fn what_a_look_in_passing_leaves_wakes_the_progress_thread() {
    let shared = Shared::new();
    let engine = engine(&shared, 0);
    let receiver = install(&shared, &engine, BackendKind::Thread);
    let woken = std::thread::scope(|threads| {
        let progress = threads.spawn(|| engine.own().attend(Some(Duration::from_secs(10)), || false));
        while shared.descriptor.attention().sleepers() == 0 {
            std::thread::yield_now();
        }
        // Said to nobody: it came while the callback thread was seen looking.
        shared.posted[0].store(1_000_000, SeqCst);
        engine.look_in_passing();
        assert!(shared.handled.load(SeqCst) < shared.posted(), "something is left");
        progress.join().unwrap()
    });
    assert!(woken, "nobody goes on");
    drop(receiver);
}
