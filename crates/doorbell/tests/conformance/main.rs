//! One suite for all backends: what a doorbell must do, whatever it rings with.
//!
//! Each case runs in a process of its own with a time limit, so that a case may change dispositions, limits
//! or die, and none can hang. `cargo test -p tocsin-doorbell --test conformance [-- FILTER]`.
//! `TOCSIN_TEST_STEPS` sets the number of random steps, `TOCSIN_TEST_SEED` their seed; `TOCSIN_TEST_DROPS` how many connections
//! are dropped under ringing threads.
//! Backend `uintr` runs for real where the machine has user interrupts, elsewhere by an emulation with signals; with
//! `TOCSIN_TEST_UINTR_REQUIRED=1` only the real thing will do.
#![cfg_attr(loom, allow(dead_code, unused_imports))]
#![allow(clippy::unwrap_used)] // clippy knows a test by its harness; this one has its own

mod connecting;
mod ends;
mod foreign;
mod limits;
mod masking;
mod random;
mod rank;
mod rings;
mod sleeping;

use rank::Shared;
use tocsin_doorbell::BackendKind;
use tocsin_sync::tripwire::Tripwire;

/// Whatever a handler does in any case here, it does not allocate.
#[global_allocator]
static ALLOCATOR: Tripwire<std::alloc::System> = Tripwire::new(std::alloc::System);

/// A case: what it checks, on which backends, for how many seconds at most.
pub struct Case {
    name: &'static str,
    run: fn(&'static Shared, BackendKind),
    only: fn(BackendKind) -> bool,
    /// Ringers of a `uintr` receiver connect. (A case about the signal's handler wants to see the signal.)
    connects: bool,
    seconds: u32,
}

macro_rules! cases {
    ($($module:ident :: $name:ident $(($only:ident))? $seconds:literal;)*) => {
        &[$(Case {
            name: concat!(stringify!($module), "::", stringify!($name)),
            run: $module::$name,
            only: cases!(@only $($only)?),
            connects: cases!(@connects $($only)?),
            seconds: $seconds,
        }),*]
    };
    (@only) => { |_| true };
    (@only interrupts) => { BackendKind::interrupts };
    (@only by_signal) => { BackendKind::interrupts };
    (@connects by_signal) => { false };
    (@connects $($other:ident)?) => { true };
    (@only uintr) => { |kind| kind == BackendKind::Uintr };
}

static CASES: &[Case] = cases! {
    rings::self_ring 10;
    rings::thread_to_thread 30;
    rings::process_to_process 30;
    rings::burst_collapses 10;
    rings::ring_inside_the_handler 10;
    rings::alternate_stack (interrupts) 10;
    rings::plain_waits_until_wanted 10;
    rings::offers_wait_until_wanted 10;
    rings::throttled_is_left_alone 10;
    rings::old_mark_does_not_suppress 10;
    rings::timer (interrupts) 10;
    rings::run_again (interrupts) 10;
    rings::nonsense_descriptor_is_harmless 10;
    rings::blocked_in_a_call_of_its_own (interrupts) 10;
    connecting::user_interrupts_need_no_signal (uintr) 30;
    connecting::from_another_process (uintr) 30;
    connecting::a_new_receiver_is_reached (uintr) 30;
    connecting::connections_are_counted (uintr) 10;
    connecting::dropped_while_rung (uintr) 30;
    connecting::first_connection_under_signals (uintr) 30;
    connecting::nobody_there (uintr) 10;
    connecting::a_mask_left_behind_heals (uintr) 10;
    masking::ring_while_masked 10;
    masking::guards_nest 10;
    masking::ring_during_the_unmask_run (interrupts) 10;
    masking::guard_outlives_its_receiver (interrupts) 10;
    masking::errno_and_float_state_survive (interrupts) 10;
    masking::allocation_in_the_handler_is_caught (interrupts) 10;
    sleeping::sleeper_is_woken 20;
    sleeping::last_look_prevents_sleep 10;
    sleeping::time_out 10;
    sleeping::wake_any_reaches_everybody 10;
    ends::target_exits 10;
    ends::target_thread_ends 10;
    ends::target_execs 20;
    ends::fork 20;
    ends::ringer_killed_at_every_step 30;
    ends::ringer_killed_while_target_sleeps 30;
    limits::no_pending_signals_allowed 10;
    limits::real_time_signal_queue_full (interrupts) 10;
    limits::install_is_refused_cleanly (interrupts) 10;
    limits::bad_configuration 10;
    foreign::handlers_are_chained (interrupts) 10;
    foreign::queued_signals_are_told_apart (by_signal) 10;
    foreign::a_small_signal_stack_is_not_overrun (by_signal) 10;
    foreign::run_again_unblocked (interrupts) 10;
    foreign::one_shot_handler_is_chained_once (interrupts) 10;
    foreign::everything_is_restored (interrupts) 10;
    foreign::a_later_handler_stays (by_signal) 10;
    foreign::dropped_on_its_own_stack (interrupts) 10;
    random::steps 120;
    random::a_broken_owner_is_caught (interrupts) 30;
};

#[cfg(loom)]
fn main() {}

#[cfg(not(loom))]
fn main() {
    if std::env::args().any(|a| a == ends::EXEC_HELPER) {
        return ends::exec_helper();
    }
    let filter: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let (mut run, mut failed) = (0, Vec::new());
    for kind in kinds() {
        for case in CASES {
            let name = format!("{kind}::{}", case.name);
            let wanted = filter.is_empty() || filter.iter().any(|f| name.contains(f.as_str()));
            if !wanted || !(case.only)(kind) {
                continue;
            }
            run += 1;
            let start = std::time::Instant::now();
            let answer = in_a_process(case, kind);
            let ms = start.elapsed().as_millis();
            match answer {
                Ok(()) => println!("test {name} ... ok ({ms} ms)"),
                Err(why) => {
                    println!("test {name} ... FAILED: {why}");
                    failed.push(name);
                }
            }
        }
    }
    println!("\ntest result: {} of {run} conformance cases passed", run - failed.len());
    if !failed.is_empty() {
        println!("failed: {}", failed.join(", "));
        std::process::exit(101);
    }
}

/// The backends that this machine has, by emulation if need be.
#[cfg(not(loom))]
fn kinds() -> Vec<BackendKind> {
    let mut kinds = vec![BackendKind::Signal, BackendKind::Thread, BackendKind::Poll];
    let Some(why) = tocsin_uintr_sys::why_not() else {
        kinds.insert(0, BackendKind::Uintr);
        return kinds;
    };
    if std::env::var("TOCSIN_TEST_UINTR_REQUIRED").as_deref() == Ok("1") {
        println!("test uintr::is_there ... FAILED: {why}");
        std::process::exit(101);
    }
    if rank::emulation_possible() {
        println!("no user interrupts ({why}): backend uintr is emulated by signals");
        kinds.insert(0, BackendKind::Uintr);
    }
    kinds
}

#[cfg(not(loom))]
fn in_a_process(case: &Case, kind: BackendKind) -> Result<(), String> {
    let shared = Shared::map();
    let child = rank::fork(|| {
        // SAFETY: SIGALRM's default action ends the process: the time limit.
        unsafe { libc::alarm(case.seconds) };
        if kind == BackendKind::Uintr {
            rank::emulate_if_need_be();
            rank::CONNECTS.store(case.connects, tocsin_sync::atomic::real::Ordering::Relaxed);
        }
        (case.run)(shared, kind);
    });
    match child.wait() {
        rank::Ended::Exit(0) => Ok(()),
        rank::Ended::Exit(code) => Err(format!("exit code {code}")),
        rank::Ended::Killed(libc::SIGALRM) => Err(format!("no end within {} s: {shared:?}", case.seconds)),
        rank::Ended::Killed(signal) => Err(format!("killed by signal {signal}")),
    }
}
