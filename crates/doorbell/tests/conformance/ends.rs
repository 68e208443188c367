//! Processes and threads that end, exec, fork, or are killed in the middle of a ring.

use crate::rank::{self, Child, Ended, Rank, Shared, signal_this_thread, until};
use tocsin_doorbell::testing::{RING_STEPS, Step, Stopped, Variant, ring_as};
use tocsin_doorbell::{BackendKind, Config, Receiver, RingOutcome, Urgency};
use tocsin_sync::atomic::real::Ordering;

/// This binary's argument that makes it the program that a target execs.
pub const EXEC_HELPER: &str = "--exec-helper";

fn kill(child: &Child) {
    // SAFETY: our own child, not reaped yet.
    unsafe { libc::kill(child.0, libc::SIGKILL) };
}

/// A rank in a process of its own, which computes until it is killed.
fn victim(shared: &'static Shared, kind: BackendKind) -> Child {
    let child = rank::fork(move || {
        let rank = Rank::start(shared, kind);
        shared.flag.store(1, Ordering::Relaxed);
        rank.compute_until("to be killed", || false);
    });
    until("the victim did not start", || shared.flag.load(Ordering::Relaxed) == 1);
    child
}

pub fn target_exits(shared: &'static Shared, kind: BackendKind) {
    let child = victim(shared, kind);
    kill(&child);
    let _racing = shared.send(0, Urgency::Urgent);
    assert_eq!(child.wait(), Ended::Killed(libc::SIGKILL));
    shared.marks[0].clear_if_set();
    let outcome = shared.send(0, Urgency::Urgent);
    match kind {
        BackendKind::Signal => assert_eq!(outcome, RingOutcome::Gone),
        // SENDUIPI does not tell; the signal that follows when nobody answers does.
        BackendKind::Uintr => {
            until("its end is noticed", || shared.send(0, Urgency::Urgent) == RingOutcome::Gone);
        }
        // Its thread may have died asleep.
        _ => assert!(matches!(outcome, RingOutcome::NotNeeded | RingOutcome::Woke), "{outcome:?}"),
    }
    assert!(!shared.marks[0].is_set(), "who is gone suppresses nothing");
    tocsin_doorbell::wake_any(&shared.descriptor);
}

pub fn target_thread_ends(shared: &'static Shared, kind: BackendKind) {
    std::thread::spawn(move || drop(Rank::start(shared, kind))).join().unwrap();
    assert_eq!(shared.descriptor.attention().tid(), 0);
    assert_eq!(shared.send(0, Urgency::Urgent), RingOutcome::NotNeeded, "nobody there");
    // The next one finds what came meanwhile by its first look, and is rung from then on.
    shared.stop.store(false, Ordering::Relaxed);
    let rank = Rank::start(shared, kind);
    rank.compute_until_all_seen();
    let _any = shared.send(0, Urgency::Urgent);
    rank.compute_until_all_seen();
}

/// Says that it is there, then waits for the end of its input.
pub fn exec_helper() {
    let mut byte = [0u8; 1];
    // SAFETY: a live buffer of one byte.
    unsafe {
        libc::write(1, c"!".as_ptr().cast(), 1);
        while libc::read(0, byte.as_mut_ptr().cast(), 1) < 0 {}
    }
}

pub fn target_execs(shared: &'static Shared, kind: BackendKind) {
    let (mut hold, mut there) = ([0i32; 2], [0i32; 2]);
    // SAFETY: arrays of two.
    unsafe { assert_eq!(libc::pipe(hold.as_mut_ptr()) | libc::pipe(there.as_mut_ptr()), 0) };
    let own_program = std::ffi::CString::new(std::env::current_exe().unwrap().to_str().unwrap()).unwrap();
    let child = rank::fork(|| {
        core::mem::forget(Rank::start(shared, kind));
        let helper = std::ffi::CString::new(EXEC_HELPER).unwrap();
        // SAFETY: descriptors and null-terminated strings and arrays of ours.
        unsafe {
            libc::dup2(hold[0], 0);
            libc::dup2(there[1], 1);
            for fd in hold.into_iter().chain(there) {
                libc::close(fd);
            }
            let arguments = [own_program.as_ptr(), helper.as_ptr(), core::ptr::null()];
            libc::execv(own_program.as_ptr(), arguments.as_ptr());
        }
        panic!("exec failed");
    });
    let mut byte = [0u8; 1];
    // SAFETY: a live buffer of one byte; descriptors of ours.
    unsafe {
        libc::close(hold[0]);
        libc::close(there[1]);
        assert_eq!(libc::read(there[0], byte.as_mut_ptr().cast(), 1), 1);
    }
    // The descriptor still names the process, which knows nothing of signals any more.
    for _ in 0..100 {
        let _harmless = shared.send(0, Urgency::Urgent);
        shared.marks[0].clear_if_set();
    }
    // SAFETY: a descriptor of ours.
    unsafe { libc::close(hold[1]) };
    assert_eq!(child.wait(), Ended::Exit(0), "late rings after exec harm nobody");
}

fn after_a_fork(shared: &'static Shared, kind: BackendKind) -> Rank {
    let rank = Rank::start(shared, kind);
    let named = shared.descriptor.attention().tid();
    // The child inherits the masked flag, too, and drops what it inherited.
    let masked = tocsin_doorbell::Masked::new();
    let mut moved = Some((rank, masked));
    let child = rank::fork(|| {
        let runs = shared.runs();
        assert_eq!(shared.send(1, Urgency::Urgent), RingOutcome::Gone, "a child does not ring");
        shared.sent[1].fetch_sub(1, Ordering::Relaxed);
        shared.own().begin_poll();
        assert_eq!(shared.descriptor.attention().pollers(), 0, "nor speaks for its parent");
        signal_this_thread(libc::SIGURG);
        let (rank, masked) = moved.take().unwrap();
        drop(masked);
        assert_eq!(shared.runs(), runs, "nor runs the parent's engine");
        if kind != BackendKind::Thread {
            drop(rank); // the progress thread does not exist here: not to be joined
        } else {
            core::mem::forget(rank);
        }
        assert_eq!(shared.descriptor.attention().tid(), named, "the descriptor names the parent");
        // A rank of its own right.
        // SAFETY: the memory is never unmapped; nothing runs but the entry function of these tests.
        let receiver = unsafe {
            let context = core::ptr::from_ref(shared).cast();
            Receiver::install(&raw const shared.other, &Config::new(kind), crate::rank::run, context)
        };
        drop(receiver.unwrap());
        assert_eq!(shared.other.attention().tid(), 0);
    });
    assert_eq!(child.wait(), Ended::Exit(0));
    let (rank, masked) = moved.take().unwrap();
    drop(masked);
    assert_eq!(shared.descriptor.attention().tid(), named);
    rank
}

pub fn fork(shared: &'static Shared, kind: BackendKind) {
    let rank = after_a_fork(shared, kind);
    for _ in 0..100 {
        let _any = shared.send(0, Urgency::Urgent);
        rank.compute_until_all_seen();
    }
}

/// Kills its own process at one step.
struct KilledAt(u8);

impl Variant for KilledAt {
    fn at(&self, step: Step) -> Result<(), Stopped> {
        if step as u8 == self.0 {
            // SAFETY: ends this very process.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
        Ok(())
    }
}

/// A ringer on lane 0 that is killed at the step, if its way leads there.
fn killed_ringer(shared: &'static Shared, step: u8) -> Ended {
    rank::fork(|| {
        tocsin_doorbell::fork::participate();
        shared.publish(0);
        let _ = ring_as(&KilledAt(step), &shared.descriptor, &shared.marks[0], 0, Urgency::Urgent);
    })
    .wait()
}

pub fn ringer_killed_at_every_step(shared: &'static Shared, kind: BackendKind) {
    let rank = Rank::start(shared, kind);
    let mut killed = 0;
    for _round in 0..10 {
        for step in 0..RING_STEPS {
            if killed_ringer(shared, step) != Ended::Exit(0) {
                killed += 1;
            }
            // Another one must get through, whatever the first has left behind.
            let before = shared.sent(1);
            let _any = shared.send(1, Urgency::Urgent);
            rank.compute_until("the second ringer was silenced", || shared.seen(1) > before);
            rank.compute_until_all_seen();
        }
    }
    // A ring of a computing thread passes 7 of the steps; one that finds nobody to interrupt, 3 at least.
    if kind.interrupts() {
        assert_eq!(killed, 10 * 7);
    } else {
        assert!(killed >= 10 * 3, "{killed}");
    }
}

pub fn ringer_killed_while_target_sleeps(shared: &'static Shared, kind: BackendKind) {
    let _rank = Rank::start(shared, kind);
    for step in 0..RING_STEPS {
        let before = shared.sent(1);
        let both = rank::fork(|| {
            tocsin_doorbell::fork::participate();
            until("the rank does not sleep", || shared.descriptor.attention().sleepers() > 0);
            if killed_ringer(shared, step) != Ended::Exit(0) {
                shared.flag.fetch_add(1, Ordering::Relaxed);
            }
            let _any = shared.send(1, Urgency::Urgent);
        });
        while shared.seen(1) == before {
            shared.own().sleep(None, || shared.sent(1) > before);
            shared.look();
        }
        assert_eq!(both.wait(), Ended::Exit(0));
    }
    // Whoever sleeps is rung in 5 steps; a sleeper that wakes for its own reasons may spare some of them.
    assert!(shared.flag.load(Ordering::Relaxed) >= 3);
}
