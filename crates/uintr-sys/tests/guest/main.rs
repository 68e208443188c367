//! User interrupts as programs see them: delivery, stacks, saved state, nestings, scheduling, refusals.
//!
//! On a machine that has them these run for real; elsewhere by the emulation (a case that needs the real thing is
//! then left out). With `TOCSIN_TEST_UINTR_REQUIRED=1` only the real thing will do. Each case runs in a process of its own
//! under a time limit. `cargo test -p tocsin-uintr-sys --test guest [-- FILTER]`.
//! `TOCSIN_TEST_RINGS`, `TOCSIN_TEST_MIGRATIONS` and `TOCSIN_TEST_KILLS` set how many rings, migrations and killed processes there
//! are; `TOCSIN_TEST_PATIENCE` multiplies every time limit (a kernel with checkers is slow at making processes).
#![allow(clippy::unwrap_used)] // clippy knows a test by its harness; this one has its own

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod common;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod delivery;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod masked;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod nesting;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod processes;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod refusals;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod rings;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod scheduling;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod sequences;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod stacks;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod state;

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn main() {
    println!("skipped: no user interrupts on this kind of machine");
}

/// A case: what it checks, for how many seconds at most, and whether only the real thing will do.
#[cfg(all(target_arch = "x86_64", not(miri)))]
struct Case {
    name: &'static str,
    run: fn(),
    seconds: u32,
    real_only: bool,
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! cases {
    ($($module:ident :: $name:ident $(($only:ident))? $seconds:literal;)*) => {
        &[$(Case {
            name: concat!(stringify!($module), "::", stringify!($name)),
            run: $module::$name,
            seconds: $seconds,
            real_only: cases!(@only $($only)?),
        }),*]
    };
    (@only) => { false };
    (@only real) => { true };
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
static CASES: &[Case] = cases! {
    delivery::itself 10;
    delivery::two_threads 30;
    delivery::highest_vector_first 10;
    delivery::one_vector_collapses 10;
    delivery::each_of_64_vectors 20;
    delivery::duplicate_registration 10;
    delivery::different_handlers_in_different_threads 20;
    delivery::registered_again 20;
    delivery::any_thread_may_send 20;
    processes::descriptor_by_inheritance 30;
    processes::descriptor_by_scm_rights 30;
    processes::descriptor_by_pidfd_getfd 30;
    processes::receiver_killed_while_rung 60;
    processes::sender_killed 60;
    processes::a_child_has_neither_receiver_nor_senders 20;
    processes::exec_leaves_nothing (real) 20;
    stacks::interrupted_stack 20;
    stacks::own_stack 20;
    stacks::kernel_stack 20;
    stacks::canaries_around_the_kernels_stack 20;
    stacks::unmasking_inside_a_handler 20;
    stacks::overflow_faults 20;
    state::registers_survive 120;
    state::a_broken_trampoline_is_caught 120;
    state::default_floating_point_environment 20;
    state::direction_flag_is_clear 20;
    state::restartable_sequence_is_aborted 60;
    state::restartable_sequence_that_says_no 60;
    sequences::forgotten_at_each_instruction 60;
    sequences::preempted_at_any_instruction (real) 120;
    nesting::signal_in_handler 20;
    nesting::handler_in_signal 20;
    nesting::signal_in_handler_in_signal 20;
    nesting::signal_stack_in_the_ordinary_stack 20;
    nesting::a_handler_that_leaves_the_signal_stack_is_caught 20;
    nesting::signals_and_handlers_at_random 120;
    nesting::siglongjmp_out_of_a_signal_in_a_handler 20;
    nesting::breakpoint_in_a_handler 20;
    nesting::single_steps_through_a_handler 60;
    nesting::a_signals_guard_at_each_instruction_of_a_guard 60;
    masked::guards_nest 10;
    masked::a_guard_of_an_earlier_receiver 10;
    masked::nothing_runs_while_masked 20;
    masked::a_guard_in_a_handler_keeps_it_masked 10;
    scheduling::in_the_kernel 60;
    scheduling::blocked 30;
    scheduling::preempted_by_a_hog 60;
    scheduling::migrated_while_rung 300;
    rings::each_is_seen 600;
    rings::none_is_lost_in_a_storm 600;
    rings::both_ways 600;
    refusals::bad_vector 10;
    refusals::bad_stack 10;
    refusals::bad_descriptor 10;
    refusals::bad_index 10;
    refusals::second_receiver 10;
    refusals::receiver_is_gone 10;
    refusals::senders_full 20;
    refusals::who_has_no_descriptor_cannot_ring 20;
    refusals::flags_and_pointers (real) 10;
    refusals::calls_of_the_unregistered 10;
};

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn main() {
    if std::env::args().any(|a| a == processes::EXEC_HELPER) {
        return processes::exec_helper();
    }
    let real = tocsin_uintr_sys::why_not();
    if let Some(why) = &real {
        if std::env::var("TOCSIN_TEST_UINTR_REQUIRED").as_deref() == Ok("1") {
            println!("test user_interrupts_are_there ... FAILED: {why}");
            std::process::exit(101);
        }
        println!("the real thing is skipped: no user interrupts ({why}); emulated by signals:");
        if !tocsin_uintr_sys::emulation::start() || tocsin_uintr_sys::xsave::compact_size(3).is_none() {
            println!("skipped: no user interrupts");
            return;
        }
    }
    let filter: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let patience = std::env::var("TOCSIN_TEST_PATIENCE").ok().and_then(|n| n.parse().ok()).unwrap_or(1u32);
    let (mut run, mut failed) = (0, Vec::new());
    for case in CASES {
        let wanted = filter.is_empty() || filter.iter().any(|f| case.name.contains(f.as_str()));
        if !wanted || (case.real_only && real.is_some()) {
            continue;
        }
        run += 1;
        let start = std::time::Instant::now();
        let answer = common::fork(|| {
            // SAFETY: SIGALRM's default action ends the process: the time limit.
            unsafe { libc::alarm(case.seconds * patience) };
            (case.run)();
        })
        .wait();
        let ms = start.elapsed().as_millis();
        match answer {
            common::Ended::Exit(0) => println!("test {} ... ok ({ms} ms)", case.name),
            common::Ended::Killed(libc::SIGALRM) => {
                println!("test {} ... FAILED: no end within {} s", case.name, case.seconds * patience);
                failed.push(case.name);
            }
            other => {
                println!("test {} ... FAILED: {other:?}", case.name);
                failed.push(case.name);
            }
        }
    }
    println!("\ntest result: {} of {run} cases passed", run - failed.len());
    if !failed.is_empty() {
        println!("failed: {}", failed.join(", "));
        std::process::exit(101);
    }
}
