//! No wake-up is lost, whoever stops: the real ring and owner code, driven by loom.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p tocsin-doorbell --release --test loom_doorbell -- --nocapture`
//!
//! The kernel is a model: a signal is a pending flag that may be delivered between any two steps of the
//! owner, so is a user interrupt, a futex is a queue. Time stands still, so that marks never grow old: the 1 ms
//! fall-back does not help here, but where it is the point. Each property is checked for the protocol as it ships, and once more with one part of it
//! removed, where loom must find the lost wake-up: a proof that cannot fail proves nothing.
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use loom::sync::Arc;
use loom::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tocsin_doorbell::testing::{RING_STEPS, Real, Step, Stopped, Variant, ring_as};
use tocsin_doorbell::{
    BackendKind, COMPUTES_NS, Descriptor, MARK_LIFE_NS, Mark, Own, Urgency, hold_back, is_held,
    is_left_alone, release, ring,
};
use tocsin_sync::atomic::{AtomicU64, Ordering, fence, real};

/// A protocol to check: the crate's variation points, and those of its callers.
trait Protocol: Variant + Send + Sync + 'static {
    /// The ringer's fence between its data and the ring.
    const RINGER_FENCE: bool = true;
    /// The owner's fence between clearing marks and looking.
    const LOOK_FENCE: bool = true;
    /// One mark per ringer.
    const OWN_MARKS: bool = true;
    /// The owner looks once more after it stopped to poll.
    const LOOK_ONCE_MORE: bool = true;
    /// The variation points as a value.
    fn protocol() -> Self;
}
impl Protocol for Real {
    fn protocol() -> Self {
        Real
    }
}

macro_rules! broken {
    ($name:ident { $($point:ident),* } { $($caller_point:ident),* }) => {
        struct $name;
        impl Variant for $name { $(const $point: bool = false;)* }
        impl Protocol for $name {
            $(const $caller_point: bool = false;)*
            fn protocol() -> Self {
                $name
            }
        }
    };
}
broken!(NoRingerFence {} { RINGER_FENCE });
broken!(NoLookFence {} { LOOK_FENCE });
// A look has a fence of its own, which makes up for a missing one before it: both go.
broken!(NoOwnerFence { OWNER_FENCE } { LOOK_FENCE });
broken!(NoLookOnceMore {} { LOOK_ONCE_MORE });
broken!(NoSleeperFence { SLEEPER_FENCE } {});
broken!(NoSequence { BUMP_SEQUENCE } {});
broken!(SharedMark {} { OWN_MARKS });
broken!(NoSerial { CHECK_SERIAL } {});
broken!(NeverSignals { SIGNAL_THE_SILENT } {});

struct Shared {
    descriptor: Descriptor,
    marks: [Mark; 2],
    sent: [AtomicU64; 2],
}

impl Shared {
    fn new(kind: BackendKind) -> Arc<Shared> {
        let shared = Shared {
            descriptor: Descriptor::new(),
            marks: [Mark::new(), Mark::new()],
            sent: [AtomicU64::new(0), AtomicU64::new(0)],
        };
        shared.descriptor.model_install(kind);
        Arc::new(shared)
    }

    fn own(&self) -> Own {
        // SAFETY: the users of the result hold the `Arc`.
        unsafe { Own::new(&raw const self.descriptor) }
    }

    /// What a pass of the engine does.
    fn look<P: Protocol>(&self) -> [u64; 2] {
        self.own().take();
        for mark in &self.marks {
            mark.clear_if_set();
        }
        if P::LOOK_FENCE {
            fence(Ordering::SeqCst);
        }
        [self.sent[0].load(Ordering::Relaxed), self.sent[1].load(Ordering::Relaxed)]
    }

    /// A message from a ringer, who may stop for ever on the way.
    fn send<P: Protocol>(&self, variant: &impl Variant, ringer: usize, message: u64) {
        self.send_as::<P>(variant, ringer, message, Urgency::Urgent);
    }

    fn send_as<P: Protocol>(&self, variant: &impl Variant, ringer: usize, message: u64, urgency: Urgency) {
        self.sent[ringer].store(message, Ordering::Relaxed);
        if P::RINGER_FENCE {
            fence(Ordering::SeqCst);
        }
        // Who would tell nobody goes away, as who asks before it looks for all the rest that there is to say.
        if is_left_alone(&self.descriptor, urgency) {
            return;
        }
        let mark = &self.marks[if P::OWN_MARKS { ringer } else { 0 }];
        let _outcome_or_stopped = ring_as(variant, &self.descriptor, mark, ringer as u8, urgency);
    }

    /// Two messages whose rings are held back, in case the owner looks by itself; the second is sent while the first one's is.
    fn send_patiently<P: Protocol>(&self) {
        let mark = &self.marks[0];
        let publish = |message| {
            self.sent[0].store(message, Ordering::Relaxed);
            if P::RINGER_FENCE {
                fence(Ordering::SeqCst);
            }
        };
        let looks = || {
            fence(Ordering::SeqCst);
            self.descriptor.attention().pollers() > 0
        };
        publish(1);
        let mut held = hold_back(&self.descriptor, mark, Urgency::Urgent);
        if !held {
            let _outcome = ring(&self.descriptor, mark, 0, Urgency::Urgent);
        }
        publish(2);
        if held {
            // Whether the owner has looked says nothing of this message: held back anew.
            release(mark);
        }
        held = hold_back(&self.descriptor, mark, Urgency::Urgent);
        if held && is_held(&self.descriptor, mark, Urgency::Urgent) {
            thread::yield_now();
        }
        if held && (looks() || !mark.is_set()) {
            release(mark);
            return;
        }
        if held {
            release(mark);
        }
        let _outcome = ring(&self.descriptor, mark, 0, Urgency::Urgent);
    }

    /// The owner computes: a pending signal is delivered at this point, and its handler looks.
    fn compute<P: Protocol>(&self, seen: &mut [u64; 2]) {
        if self.descriptor.model_deliver() {
            *seen = self.look::<P>();
        }
    }
}

/// A ringer of protocol `P` that stops for ever at a step.
struct StopsAt(Option<u8>);

impl Variant for StopsAt {
    fn at(&self, step: Step) -> Result<(), Stopped> {
        if Some(step as u8) == self.0 { Err(Stopped) } else { Ok(()) }
    }
}

fn check(name: &str, model: impl Fn() + Sync + Send + 'static) {
    static COUNT: real::AtomicU64 = real::AtomicU64::new(0);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.unwrap_or(3));
    let start = std::time::Instant::now();
    COUNT.store(0, Ordering::Relaxed);
    builder.check(move || {
        COUNT.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let count = COUNT.load(Ordering::Relaxed);
    println!("{name}: no wake-up lost in {count} executions ({} ms)", start.elapsed().as_millis());
}

/// In a process of its own: loom's objects may panic once more while they are dropped, which aborts.
fn must_be_caught(name: &str, model: impl Fn() + Sync + Send + 'static) {
    // SAFETY: the child runs loom, which keeps to its own (only) thread, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let answer = catch_unwind(AssertUnwindSafe(|| {
            // What it says of the loss it finds is of no interest.
            // SAFETY: a descriptor and a string of ours.
            unsafe { libc::dup2(libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY), 2) };
            check(name, model);
        }));
        // SAFETY: ends the child without running the parent's destructors.
        unsafe { libc::_exit(if answer.is_ok() { 0 } else { 101 }) }
    }
    let mut status = 0;
    // SAFETY: our own child; a live local.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    let caught = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 101
        || libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT;
    assert!(caught, "{name}: the broken variant was not caught (status {status:#x})");
    println!("{name}: caught");
}

/// The owner stops to poll and computes, while a ringer sends.
fn poll_then_compute<P: Protocol>(kind: BackendKind) {
    let shared = Shared::new(kind);
    shared.own().begin_poll();
    let ringer = thread::spawn({
        let shared = shared.clone();
        move || shared.send::<P>(&StopsAt(None), 0, 1)
    });
    let mut seen = shared.look::<P>();
    shared.own().end_poll_as::<P>();
    if P::LOOK_ONCE_MORE {
        seen = shared.look::<P>();
    }
    shared.compute::<P>(&mut seen);
    ringer.join().unwrap();
    // From here on the owner computes for ever: it is told, or it knows.
    shared.compute::<P>(&mut seen);
    assert_eq!(seen[0], 1, "lost");
}

/// One ringer sends twice: the second ring may only be suppressed if the owner looks after it.
fn suppression<P: Protocol>(kind: BackendKind) {
    let shared = Shared::new(kind);
    let ringer = thread::spawn({
        let shared = shared.clone();
        move || {
            shared.send::<P>(&StopsAt(None), 0, 1);
            shared.send::<P>(&StopsAt(None), 0, 2);
        }
    });
    let mut seen = [0; 2];
    shared.compute::<P>(&mut seen);
    shared.compute::<P>(&mut seen);
    ringer.join().unwrap();
    shared.compute::<P>(&mut seen);
    assert_eq!(seen[0], 2, "lost");
}

/// The owner polls or not, looks, and computes for ever, while a ringer holds its rings back: it is told, or it has seen all.
fn held_back<P: Protocol>(polls: bool) {
    let shared = Shared::new(BackendKind::Signal);
    if polls {
        shared.own().begin_poll();
    }
    let ringer = thread::spawn({
        let shared = shared.clone();
        move || shared.send_patiently::<P>()
    });
    let mut seen = shared.look::<P>();
    if polls {
        shared.own().end_poll_as::<P>();
        if P::LOOK_ONCE_MORE {
            seen = shared.look::<P>();
        }
    }
    shared.compute::<P>(&mut seen);
    ringer.join().unwrap();
    shared.compute::<P>(&mut seen);
    assert_eq!(seen[0], 2, "lost");
}

/// The same, while the owner says that it computes, has computed for long, and has nothing under way any more.
fn held_back_from_computing<P: Protocol>() {
    let shared = Shared::new(BackendKind::Signal);
    let ringer = thread::spawn({
        let shared = shared.clone();
        move || shared.send_patiently::<P>()
    });
    let mut seen = shared.look::<P>();
    shared.own().computes_from(0, 3);
    shared.descriptor.model_later(2 * COMPUTES_NS);
    shared.own().has_nothing_under_way();
    shared.compute::<P>(&mut seen);
    ringer.join().unwrap();
    shared.compute::<P>(&mut seen);
    assert_eq!(seen[0], 2, "lost");
}

#[test]
fn rings_that_are_held_back_are_not_lost() {
    check("held back, who says that it computes", held_back_from_computing::<Real>);
    must_be_caught(
        "held back from who computes without the ringer's fence",
        held_back_from_computing::<NoRingerFence>,
    );
    must_be_caught(
        "held back from who computes without the owner's fence",
        held_back_from_computing::<NoLookFence>,
    );
    check("held back, computing", || held_back::<Real>(false));
    check("held back, polling", || held_back::<Real>(true));
    must_be_caught("held back without the ringer's fence", || held_back::<NoRingerFence>(false));
    must_be_caught("held back without the owner's fence", || held_back::<NoLookFence>(false));
    must_be_caught("held back, and nobody looks once more", || held_back::<NoLookOnceMore>(true));
}

/// One ringer stops for ever at a step, another one must get through to a computing owner.
fn stopped_ringer<P: Protocol>(kind: BackendKind, step: u8) {
    let shared = Shared::new(kind);
    let stopping = thread::spawn({
        let shared = shared.clone();
        move || shared.send::<P>(&StopsAt(Some(step)), 0, 1)
    });
    let other = thread::spawn({
        let shared = shared.clone();
        move || shared.send::<P>(&StopsAt(None), 1, 1)
    });
    let mut seen = [0; 2];
    shared.compute::<P>(&mut seen);
    stopping.join().unwrap();
    other.join().unwrap();
    shared.compute::<P>(&mut seen);
    assert_eq!(seen[1], 1, "silenced by another's death");
}

/// The owner sleeps until it has seen the message. A lost wake-up is a deadlock, which loom reports.
fn sleep<P: Protocol>(kind: BackendKind, variant: &'static P) {
    let shared = Shared::new(kind);
    let ringer = thread::spawn({
        let shared = shared.clone();
        move || shared.send::<P>(variant, 0, 1)
    });
    let mut seen = shared.look::<P>();
    while seen[0] == 0 {
        shared.own().sleep_as::<P>(None, || shared.sent[0].load(Ordering::Relaxed) != 0);
        seen = shared.look::<P>();
    }
    ringer.join().unwrap();
    assert_eq!(shared.descriptor.attention().sleepers(), 0);
}

/// The same, with another ringer that stops for ever at a step.
fn sleep_with_stopped_ringer(kind: BackendKind, step: u8) {
    let shared = Shared::new(kind);
    let stopping = thread::spawn({
        let shared = shared.clone();
        move || shared.send::<Real>(&StopsAt(Some(step)), 0, 1)
    });
    let other = thread::spawn({
        let shared = shared.clone();
        move || shared.send::<Real>(&Real, 1, 1)
    });
    let mut seen = shared.look::<Real>();
    while seen[1] == 0 {
        shared.own().sleep(None, || shared.sent[1].load(Ordering::Relaxed) != 0);
        seen = shared.look::<Real>();
    }
    stopping.join().unwrap();
    other.join().unwrap();
}

/// The owner throttles, then computes.
fn throttle<P: Protocol>(kind: BackendKind) {
    let shared = Shared::new(kind);
    shared.own().suppress(true);
    let ringer = thread::spawn({
        let shared = shared.clone();
        move || shared.send::<P>(&StopsAt(None), 0, 1)
    });
    shared.own().suppress(false);
    // The contract: fence (the look's own), look.
    let mut seen = shared.look::<P>();
    ringer.join().unwrap();
    shared.compute::<P>(&mut seen);
    assert_eq!(seen[0], 1, "lost");
}

/// The owner asks for offers, then computes, while a ringer has one.
fn offer<P: Protocol>(kind: BackendKind) {
    let shared = Shared::new(kind);
    let ringer = thread::spawn({
        let shared = shared.clone();
        move || shared.send_as::<P>(&StopsAt(None), 0, 1, Urgency::Offer)
    });
    let mut seen = [0; 2];
    assert!(shared.own().set_wants(false, true));
    if P::LOOK_ONCE_MORE {
        // The contract: fence (the look's own), look.
        seen = shared.look::<P>();
    }
    shared.compute::<P>(&mut seen);
    ringer.join().unwrap();
    shared.compute::<P>(&mut seen);
    assert_eq!(seen[0], 1, "lost");
}

/// The owner goes from plain messages to offers alone, then computes, while another thread of its rank polls and stops
/// to, and a ringer has an offer.
fn offer_while_polling<P: Protocol>(kind: BackendKind) {
    let shared = Shared::new(kind);
    assert!(shared.own().set_wants(true, false));
    let ringer = thread::spawn({
        let shared = shared.clone();
        move || shared.send_as::<P>(&StopsAt(None), 0, 1, Urgency::Offer)
    });
    let polling = thread::spawn({
        let shared = shared.clone();
        move || {
            shared.own().begin_poll();
            let seen = shared.look::<P>();
            shared.own().end_poll_as::<P>();
            if P::LOOK_ONCE_MORE { shared.look::<P>() } else { seen }
        }
    });
    let mut seen = [0; 2];
    assert!(shared.own().set_wants(false, true));
    if P::LOOK_ONCE_MORE {
        // The contract: fence (the look's own), look.
        seen = shared.look::<P>();
    }
    shared.compute::<P>(&mut seen);
    let [seen_polling, _] = polling.join().unwrap();
    ringer.join().unwrap();
    shared.compute::<P>(&mut seen);
    assert_eq!(seen[0].max(seen_polling), 1, "lost");
    let attention = shared.descriptor.attention();
    assert_eq!((attention.pollers(), attention.wants_plain(), attention.wants_offers()), (0, false, true));
}

/// A thread of the rank completes something and wakes its own sleepers.
fn wake_own(kind: BackendKind) {
    let shared = Shared::new(kind);
    let completer = thread::spawn({
        let shared = shared.clone();
        move || {
            shared.sent[0].store(1, Ordering::Relaxed);
            shared.own().wake_own();
        }
    });
    while shared.sent[0].load(Ordering::Relaxed) == 0 {
        shared.own().sleep(None, || shared.sent[0].load(Ordering::Relaxed) != 0);
    }
    completer.join().unwrap();
}

/// The receiver is installed anew while a ringer, connected to the one before, sends.
fn installed_anew<P: Protocol>() {
    let shared = Shared::new(BackendKind::Uintr);
    let ringer = thread::spawn({
        let shared = shared.clone();
        move || shared.send::<P>(&P::protocol(), 0, 1)
    });
    shared.descriptor.model_install_anew(BackendKind::Uintr);
    // The first look of whoever installs a receiver.
    let mut seen = shared.look::<P>();
    ringer.join().unwrap();
    shared.compute::<P>(&mut seen);
    assert_eq!(seen[0], 1, "lost");
}

/// The owner blocks in a system call of its own; a ringer, which waits for the answer, reminds it a millisecond
/// later.
fn blocked<P: Protocol>() {
    let shared = Shared::new(BackendKind::Uintr);
    let ringer = thread::spawn({
        let shared = shared.clone();
        move || {
            shared.send::<P>(&P::protocol(), 0, 1);
            shared.descriptor.model_later(MARK_LIFE_NS);
            if shared.marks[0].is_set() {
                let mark = &shared.marks[0];
                let _outcome = ring_as(&P::protocol(), &shared.descriptor, mark, 0, Urgency::Urgent);
            }
        }
    });
    let mut seen = [0; 2];
    shared.compute::<P>(&mut seen);
    shared.descriptor.model_block();
    ringer.join().unwrap();
    shared.compute::<P>(&mut seen);
    assert_eq!(seen[0], 1, "lost");
}

/// Every model for one backend that interrupts.
fn models(kind: BackendKind) {
    let name = |what: &str| format!("{kind}: {what}");
    check(&name("poll, then compute"), move || poll_then_compute::<Real>(kind));
    must_be_caught(&name("poll, then compute; no fence in the ringer"), move || {
        poll_then_compute::<NoRingerFence>(kind);
    });
    must_be_caught(&name("poll, then compute; no fence in the owner"), move || {
        poll_then_compute::<NoOwnerFence>(kind);
    });
    must_be_caught(&name("poll, then compute; no last look"), move || {
        poll_then_compute::<NoLookOnceMore>(kind);
    });

    check(&name("suppression"), move || suppression::<Real>(kind));
    must_be_caught(&name("suppression; no fence in the ringer"), move || suppression::<NoRingerFence>(kind));
    must_be_caught(&name("suppression; no fence before the look"), move || suppression::<NoLookFence>(kind));

    check(&name("throttle"), move || throttle::<Real>(kind));
    must_be_caught(&name("throttle; no fence in the ringer"), move || throttle::<NoRingerFence>(kind));
    must_be_caught(&name("throttle; no fence before the look"), move || throttle::<NoLookFence>(kind));

    check(&name("offer"), move || offer::<Real>(kind));
    must_be_caught(&name("offer; no fence in the ringer"), move || offer::<NoRingerFence>(kind));
    must_be_caught(&name("offer; no fence before the look"), move || offer::<NoLookFence>(kind));
    must_be_caught(&name("offer; no look after asking"), move || offer::<NoLookOnceMore>(kind));

    check(&name("offer while polling"), move || offer_while_polling::<Real>(kind));
    must_be_caught(&name("offer while polling; no fence in the ringer"), move || {
        offer_while_polling::<NoRingerFence>(kind);
    });
    must_be_caught(&name("offer while polling; no fence in the owner"), move || {
        offer_while_polling::<NoOwnerFence>(kind);
    });
    must_be_caught(&name("offer while polling; no last look"), move || {
        offer_while_polling::<NoLookOnceMore>(kind);
    });

    check(&name("sleep"), move || sleep(kind, &Real));
    must_be_caught(&name("sleep; no fence in the ringer"), move || sleep(kind, &NoRingerFence));
    must_be_caught(&name("sleep; no fence in the sleeper"), move || sleep(kind, &NoSleeperFence));
    must_be_caught(&name("sleep; the sequence does not move"), move || sleep(kind, &NoSequence));
    check(&name("wake own"), move || wake_own(kind));

    for step in 0..RING_STEPS {
        check(&name(&format!("another ringer stopped at step {step}, owner computes")), move || {
            stopped_ringer::<Real>(kind, step);
        });
        check(&name(&format!("another ringer stopped at step {step}, owner sleeps")), move || {
            sleep_with_stopped_ringer(kind, step);
        });
    }
    must_be_caught(&name("another ringer stopped after marking; ringers share a mark"), move || {
        stopped_ringer::<SharedMark>(kind, Step::MarkSet as u8);
    });
}

#[test]
fn all() {
    models(BackendKind::Signal);
    models(BackendKind::Uintr);
    check("uintr: installed anew", installed_anew::<Real>);
    must_be_caught("uintr: installed anew; ringers do not look for whom they are connected to", || {
        installed_anew::<NoSerial>();
    });
    check("uintr: blocked in a call", blocked::<Real>);
    must_be_caught("uintr: blocked in a call; the silent get no signal", blocked::<NeverSignals>);
}
