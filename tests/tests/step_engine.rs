//! Every instruction of entering and leaving the engine, with a handler that enters injected at each: its work
//! is always done by the end, by it or by the one it interrupted, and never by both at once.
//! `cargo test -p tocsin-tests --profile step --test 'step_*'`
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::sync::Arc;
use tocsin_doorbell::{Cause, Descriptor, Own};
use tocsin_progress::slots::Slots;
use tocsin_progress::token::Token;
use tocsin_progress::{
    Budget, Callbacks, Completion, Context, Engine, EngineConfig, Outcome, Pass, Stats, Work,
};
use tocsin_sync::atomic::{AtomicU64, Ordering};
use tocsin_tests::stepper::Stepper;

/// What may be looked at without the token.
#[derive(Default)]
struct Seen {
    posted: AtomicU64,
    handled: AtomicU64,
    inside: AtomicU64,
    concurrent: AtomicU64,
    by_handler: AtomicU64,
}

struct Counting {
    seen: Arc<Seen>,
    wants: u64,
}

impl Counting {
    fn enter(&self) {
        if self.seen.inside.fetch_add(1, Ordering::Relaxed) != 0 {
            self.seen.concurrent.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn exit(&self) {
        self.seen.inside.fetch_sub(1, Ordering::Relaxed);
    }
}

// SAFETY: loads and stores.
unsafe impl Work for Counting {
    fn progress(&mut self, budget: &mut Budget) -> Pass {
        self.enter();
        let posted = self.seen.posted.load(Ordering::Relaxed);
        let done = posted - self.seen.handled.load(Ordering::Relaxed);
        self.seen.handled.store(posted, Ordering::Relaxed);
        if budget.context() == Context::Handler {
            self.seen.by_handler.fetch_add(done, Ordering::Relaxed);
        }
        self.exit();
        if done > 0 { Pass::Worked } else { Pass::Idle }
    }

    fn leave(&mut self) {
        self.enter();
        self.exit();
    }

    fn wants_plain(&self) -> bool {
        // Comes and goes, so that the look-once-more is stepped, too.
        self.wants > 0 && self.seen.handled.load(Ordering::Relaxed).is_multiple_of(2)
    }

    fn wants_offers(&self) -> bool {
        false
    }

    fn work_left(&self) -> bool {
        self.seen.handled.load(Ordering::Relaxed) != self.seen.posted.load(Ordering::Relaxed)
    }
}

struct Rank {
    engine: Engine<Counting>,
    seen: Arc<Seen>,
    _descriptor: Box<Descriptor>,
}

impl Rank {
    fn new(wants: u64) -> Rank {
        let descriptor = Box::new(Descriptor::new());
        let seen = Arc::new(Seen::default());
        // SAFETY: the box is kept beside the engine.
        let own = unsafe { Own::new(&raw const *descriptor) };
        let work = Counting { seen: seen.clone(), wants };
        let engine = Engine::new(work, own, EngineConfig::default(), Arc::new(Stats::new()));
        Rank { engine, seen, _descriptor: descriptor }
    }

    /// What the doorbell's handler runs, with a message that came in just before.
    fn message(&self) {
        self.seen.posted.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the engine outlives the run; the stepper opens the handler's scope, and does not nest.
        unsafe { Engine::<Counting>::handler_entry((&raw const self.engine).cast(), Cause::Ring) };
    }

    fn check(&self) -> Result<(), String> {
        let (posted, handled) =
            (self.seen.posted.load(Ordering::Relaxed), self.seen.handled.load(Ordering::Relaxed));
        if self.seen.concurrent.load(Ordering::Relaxed) != 0 {
            return Err("two were inside".into());
        }
        if posted != handled {
            return Err(format!("{handled} of {posted} handled"));
        }
        if self.engine.try_enter(Context::Handler).is_none_or(|inside| inside.work_left()) {
            return Err("the token was lost".into());
        }
        Ok(())
    }
}

fn step(name: &str, wants: u64, operation: fn(&Rank)) {
    let report = Stepper::new().every_boundary(|| Rank::new(wants), operation, Rank::message, Rank::check);
    println!("{name}: {report}");
    assert!(report.is_clean() && report.boundaries > 20, "{name}: {report}");
    let two = Stepper::new().every_nth(
        7,
        || Rank::new(wants),
        operation,
        |rank| {
            rank.message();
            rank.message();
        },
        Rank::check,
    );
    assert!(two.is_clean(), "{name}, two messages: {two}");
    // (That none of these handlers hangs was shown above: stepping them would take most of a minute.)
    let report = Stepper::new().step_handler(false).in_turn(
        || Rank::new(wants),
        operation,
        Rank::message,
        Rank::check,
    );
    println!("{name}, at every boundary in turn: {report}");
    assert!(report.is_clean(), "{name}: {report}");
}

#[test]
fn enter_and_leave() {
    step("enter, leave", 0, |rank| drop(rank.engine.enter()));
}

#[test]
fn enter_work_and_leave() {
    step("enter, post, pass, leave", 0, |rank| {
        let mut inside = rank.engine.enter();
        inside.seen.posted.fetch_add(1, Ordering::Relaxed);
        inside.pass();
    });
}

#[test]
fn enter_and_leave_while_wanting_plain_messages() {
    step("enter, leave with changing wishes", 1, |rank| drop(rank.engine.enter()));
}

#[test]
fn try_enter_and_leave() {
    step("try_enter, leave", 0, |rank| drop(rank.engine.try_enter(Context::User)));
}

#[test]
fn poke() {
    step("poke", 0, |rank| {
        rank.engine.poke(Context::User);
    });
}

/// A wait for what a pass of one's own, or the handler's, handles.
#[test]
fn wait_with_a_condition_that_holds_soon() {
    let report = Stepper::new().every_nth(
        7,
        || Rank::new(0),
        |rank| {
            rank.seen.posted.fetch_add(1, Ordering::Relaxed);
            let seen = &rank.seen;
            let all = || seen.handled.load(Ordering::Relaxed) == seen.posted.load(Ordering::Relaxed);
            rank.engine.wait_until(all, None);
        },
        Rank::message,
        Rank::check,
    );
    println!("wait: {report}");
    assert!(report.is_clean() && report.boundaries > 20, "{report}");
}

/// Broken: the holder looks for requests, then leaves; a handler in between is not heard.
#[test]
fn a_holder_that_looks_and_then_leaves_is_caught() {
    struct Bare {
        token: Token,
        posted: Cell<u64>,
        handled: Cell<u64>,
    }
    let pass = |it: &Bare| it.handled.set(it.posted.get());
    let report = Stepper::new().every_boundary(
        || Bare { token: Token::new(), posted: Cell::new(0), handled: Cell::new(0) },
        |it| {
            if it.token.request_or_lock() {
                while it.token.is_requested() {
                    it.token.take_requests();
                    pass(it);
                }
                it.token.leave_pending();
            }
        },
        |it| {
            it.posted.set(it.posted.get() + 1);
            if it.token.request_or_lock() {
                it.token.take_requests();
                pass(it);
                it.token.leave_pending();
            }
        },
        |it| match (it.posted.get(), it.handled.get()) {
            (posted, handled) if posted == handled => Ok(()),
            (posted, handled) => Err(format!("{handled} of {posted} handled")),
        },
    );
    println!("look, then leave: {report}");
    assert!(!report.wrong.is_empty(), "not caught: {report}");
}

/// A completion finished by a handler while its callback is being set: run exactly once.
#[test]
fn setting_a_callback_interrupted_by_the_completion() {
    struct Pending {
        completion: Completion,
        callbacks: Callbacks,
        ran: Arc<AtomicU64>,
    }
    let report = Stepper::new().every_boundary(
        || Pending {
            completion: Completion::new(),
            callbacks: Callbacks::new(false),
            ran: Arc::new(AtomicU64::new(0)),
        },
        |it| {
            let ran = it.ran.clone();
            let call = Box::new(move |_: Outcome| {
                ran.fetch_add(1, Ordering::Relaxed);
            });
            it.callbacks.set(&it.completion, call).unwrap();
            it.callbacks.run();
        },
        |it| it.completion.finish(Outcome::default()),
        |it| {
            it.callbacks.run();
            match it.ran.load(Ordering::Relaxed) {
                1 => Ok(()),
                n => Err(format!("ran {n} times")),
            }
        },
    );
    println!("set a callback: {report}");
    assert!(report.is_clean(), "{report}");
}

/// Slots are used under the token; what a handler does meanwhile is look at a slot's shared part.
#[test]
fn slots_keep_shared_parts_readable() {
    struct Slab {
        slots: Cell<Option<Slots<u64, Completion>>>,
        shared: *const Completion,
        seen: Cell<u64>,
    }
    let report = Stepper::new().every_boundary(
        || {
            let mut slots = Slots::with_shared(|| 0, Completion::new);
            slots.reserve(2).unwrap();
            let first = slots.alloc().unwrap();
            let shared = slots.shared_pointer(first).unwrap().as_ptr().cast_const();
            Slab { slots: Cell::new(Some(slots)), shared, seen: Cell::new(0) }
        },
        |slab| {
            if let Some(mut slots) = slab.slots.take() {
                let id = slots.alloc().unwrap();
                if let Some(value) = slots.get_mut(id) {
                    *value += 1;
                }
                slots.free(id);
                slab.slots.set(Some(slots));
            }
        },
        |slab| {
            // SAFETY: slots never move, whoever holds the slab.
            slab.seen.set(slab.seen.get() + u64::from(!unsafe { &*slab.shared }.is_done()));
        },
        |slab| if slab.seen.get() == 1 { Ok(()) } else { Err("not readable".into()) },
    );
    println!("alloc, change, free: {report}");
    assert!(report.is_clean(), "{report}");
}

#[inline(never)]
extern "C" fn try_lock(token: &Token) -> bool {
    token.try_lock()
}

#[inline(never)]
extern "C" fn request(token: &Token) {
    token.request();
}

/// The machine code of a function up to its return.
fn code(function: *const u8) -> Vec<u8> {
    // SAFETY: code is readable, and no function that is looked at here is shorter than its return; 64 bytes
    // further there is still the text of this program.
    let bytes = unsafe { std::slice::from_raw_parts(function, 64) };
    let end = bytes.iter().position(|byte| *byte == 0xc3).unwrap();
    bytes[..end].to_vec()
}

/// Wait-free means no compare-and-swap loop, which is the compiler's to decide: one `lock bts`, one `lock or`.
#[test]
fn entering_compiles_to_single_instructions() {
    if cfg!(debug_assertions) {
        return;
    }
    let (tries, asks) = (code(try_lock as *const u8), code(request as *const u8));
    println!("try_lock: {tries:02x?}, request: {asks:02x?}");
    let has = |code: &[u8], what: &[u8]| code.windows(what.len()).any(|window| window == what);
    assert!(has(&tries, &[0xf0, 0x0f, 0xba]), "no lock bts: {tries:02x?}");
    assert!(has(&asks, &[0xf0, 0x80]) || has(&asks, &[0xf0, 0x83]), "no lock or: {asks:02x?}");
    for code in [&tries, &asks] {
        assert!(!has(code, &[0x0f, 0xb1]), "a cmpxchg loop: {code:02x?}");
    }
}
