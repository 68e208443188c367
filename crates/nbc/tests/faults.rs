//! What goes wrong: dead members, revoked communicators, operators that panic, ranks that disagree, requests dropped.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::Random;
use common::driver::{Buffer, Machine, Rank, group, steps};
use common::model::{AFFINE, Case, affine_op};
use common::network::{End, network};
use common::space::takes_any_length;
use std::rc::Rc;
use std::sync::Arc;
use tocsin_nbc::table::{self, Arguments, Operation};
use tocsin_nbc::trace::{STARTED, Started};
use tocsin_nbc::{DataType, Group, Op, UserOp};
use tocsin_progress::Trace;
use tocsin_progress::budget::{Budget, Context, Pass};
use tocsin_progress::completion::{Code, Outcome};
use tocsin_sync::clock::now_ns;

fn case(operation: Operation) -> Case {
    let (data_type, op) = (DataType::U32, Op::Sum);
    Case { operation, algorithm: None, root: 0, data_type, op, count: 3000, in_place: false, layout: 9 }
}

/// The same, half the time on a board and by messages beside it, if there is such a form.
fn case_beside(operation: Operation, random: &mut Random) -> Case {
    let algorithm = (takes_any_length(operation) && random.chance(50)).then_some("shm");
    Case { algorithm, ..case(operation) }
}

/// Every survivor's pending collectives fail, at any moment of the death; what had ended stays as it was.
#[test]
fn a_dead_member_fails_every_pending_collective() {
    let mut random = Random(0xdead);
    for round in 0..200 {
        let ranks = 2 + random.below(8) as u32;
        let mut machine = Machine::new(network(ranks, random.word()), random.word());
        if round % 2 == 1 {
            machine.ranks[0].lower.linger();
        }
        let mut calls: Vec<_> = (0..1 + random.below(6))
            .map(|_| machine.call(case_beside(*random.pick(Operation::ALL), &mut random)))
            .collect();
        for call in &mut calls {
            for rank in 0..ranks as usize {
                machine.post(call, rank);
            }
        }
        for _ in 0..random.below(200) {
            let rank = random.below(ranks as usize);
            machine.step(rank);
        }
        let dead = random.below(ranks as usize);
        machine.ranks[dead].lower.kill(dead as u32);
        let done = |machine: &Machine<End>| {
            let alive = (0..ranks as usize).filter(|rank| *rank != dead);
            alive.clone().all(|rank| calls.iter().all(|call| machine.outcome(call, rank).is_some()))
        };
        machine.drive(&format!("round {round}"), |_, _| {}, done);
        for rank in (0..ranks as usize).filter(|rank| *rank != dead) {
            for call in &calls {
                let outcome = machine.outcome(call, rank).unwrap();
                let blames = outcome.code == Code::PeerDead && outcome.source == dead as u32;
                assert!(outcome.code == Code::Ok || blames, "{outcome:?}");
                let Rank { lower, nbc } = &mut machine.ranks[rank];
                assert!(nbc.release(lower, call.ids[rank].unwrap()));
            }
            assert_eq!(machine.ranks[rank].nbc.outstanding(), 0);
        }
        // A collective posted later fails at once.
        let mut late = machine.call(case(Operation::Iallreduce));
        let rank = (dead + 1) % ranks as usize;
        machine.post(&mut late, rank);
        assert_eq!(machine.outcome(&late, rank).unwrap().code, Code::PeerDead);
    }
}

#[test]
fn a_revoked_context_fails_its_collectives_only() {
    let mut machine = Machine::new(network(2, 1), 1);
    let mut first = machine.call(case(Operation::Iallreduce));
    machine.post(&mut first, 0);
    let Rank { lower, nbc } = &mut machine.ranks[0];
    nbc.fail_context(lower, 77);
    assert_eq!(machine.outcome(&first, 0), None);
    let Rank { lower, nbc } = &mut machine.ranks[0];
    nbc.fail_context(lower, 1 << 31);
    assert_eq!(machine.outcome(&first, 0).unwrap().code, Code::Revoked);
    let Rank { lower, nbc } = &mut machine.ranks[0];
    assert!(nbc.release(lower, first.ids[0].unwrap()));
}

/// What fails while a peer copies into its memory has not ended, and is neither freed nor started again, before that is over.
#[test]
fn what_fails_ends_with_the_last_copy_into_its_memory() {
    let (mut lingered, mut left) = (0, 0);
    for round in 0..300 {
        let mut machine = Machine::new(network(3, round), round);
        machine.ranks[0].lower.linger();
        let operation = [Operation::Ialltoall, Operation::Ialltoallv][round as usize % 2];
        let mut call = machine.call(case_beside(operation, &mut Random(round)));
        machine.post(&mut call, 0);
        let Rank { lower, nbc } = &mut machine.ranks[0];
        let id = call.ids[0].unwrap();
        nbc.fail_context(lower, 1 << 31);
        // Of a second reason nobody hears.
        nbc.fail_group(lower, 1);
        if lower.closing() == 0 {
            assert_eq!(machine.outcome(&call, 0).unwrap().code, Code::Revoked);
            continue;
        }
        lingered += 1;
        assert!(!nbc.release(lower, id) && nbc.used().eq([1 << 31]) && nbc.outstanding() == 1);
        // SAFETY: - not started.
        let again = unsafe { nbc.start(lower, id, 9) }.unwrap_err().to_string();
        assert!(again.contains("still running"), "{again}");
        if round % 3 == 0 {
            // Whoever leaves has waited for the copies.
            while lower.closing() > 0 {
                assert_eq!(nbc.outstanding(), 1);
                lower.pump();
            }
            nbc.end_all(lower, Outcome { code: Code::Finalized, ..Outcome::default() });
            assert_eq!(nbc.outstanding(), 0);
            left += 1;
        }
        while machine.outcome(&call, 0).is_none() {
            let Rank { lower, nbc } = &mut machine.ranks[0];
            assert!(lower.closing() > 0 || lower.has_completed());
            lower.pump();
            nbc.progress(lower, &mut Budget::of(Context::Handler));
        }
        let Rank { lower, nbc } = &mut machine.ranks[0];
        assert_eq!((lower.closing(), nbc.outstanding()), (0, 0));
        assert_eq!(machine.outcome(&call, 0).unwrap().code, Code::Revoked);
        let Rank { lower, nbc } = &mut machine.ranks[0];
        assert!(nbc.release(lower, id));
    }
    assert!(lingered > 100 && left > 20, "{lingered} {left}");
}

/// Detached while it closes, it keeps what it was given until then.
#[test]
fn what_is_detached_while_it_closes_is_freed_later() {
    struct Kept(#[allow(dead_code)] Rc<()>);
    // SAFETY: - this test has one thread.
    unsafe impl Send for Kept {}
    let mut lingered = 0;
    for round in 0..50 {
        let mut machine = Machine::new(network(3, round), round);
        machine.ranks[0].lower.linger();
        let mut call = machine.call(case(Operation::Ialltoall));
        machine.post(&mut call, 0);
        let Rank { lower, nbc } = &mut machine.ranks[0];
        nbc.fail_context(lower, 1 << 31);
        let witness = Rc::new(());
        let closes = lower.closing() > 0;
        nbc.detach(lower, call.ids[0].unwrap(), Some(Box::new(Kept(witness.clone()))));
        assert_eq!(Rc::strong_count(&witness), if closes { 2 } else { 1 });
        while lower.closing() > 0 || lower.has_completed() {
            lingered += 1;
            assert_eq!(Rc::strong_count(&witness), 2);
            lower.pump();
            nbc.progress(lower, &mut Budget::of(Context::Handler));
        }
        nbc.collect(lower);
        assert_eq!((Rc::strong_count(&witness), nbc.outstanding()), (1, 0));
        machine.forget();
    }
    assert!(lingered > 0);
}

unsafe fn explode(_: *const (), _: *const u8, _: *const u8, _: *mut u8, _: usize) {
    panic!("as users do");
}

#[test]
fn an_operator_that_panics_fails_the_collective() {
    let mut machine = Machine::new(network(2, 2), 2);
    // SAFETY: - the operator touches nothing.
    let op = Op::User(unsafe { UserOp::new(explode, std::ptr::null(), true) });
    let mut call = machine.call(Case { data_type: AFFINE, op, ..case(Operation::Iallreduce) });
    machine.post(&mut call, 0);
    machine.post(&mut call, 1);
    // The other may wait for what this one did not send any more: its communicator has to be revoked.
    let ended = |machine: &Machine<End>| (0..2).find(|rank| machine.outcome(&call, *rank).is_some());
    machine.drive("a panic", |_, _| {}, |machine| ended(machine).is_some());
    let rank = ended(&machine).unwrap();
    assert_eq!(machine.outcome(&call, rank).unwrap().code, Code::UserOperatorPanicked);
    assert_eq!(machine.ranks[rank].nbc.outstanding(), 0);
}

#[test]
fn a_user_operator_waits_for_a_pass_outside_handlers() {
    let mut machine = Machine::new(network(2, 3), 3);
    let mut call = machine.call(Case { data_type: AFFINE, op: affine_op(), ..case(Operation::Iallreduce) });
    let recorded = Arc::new(Trace::new(1024));
    machine.ranks[0].nbc.set_trace(Some(recorded.clone()));
    machine.post(&mut call, 0);
    machine.post(&mut call, 1);
    let Rank { lower, nbc } = &mut machine.ranks[0];
    for _ in 0..1000 {
        lower.pump();
        let pass = nbc.progress(lower, &mut Budget::of(Context::Handler));
        assert_ne!(pass, Pass::More, "a handler would be entered again and again for nothing");
    }
    assert!(nbc.has_deferred_user_steps());
    assert_eq!(machine.outcome(&call, 0), None);
    let recalled = now_ns();
    let done =
        |machine: &Machine<End>| machine.outcome(&call, 0).is_some() && machine.outcome(&call, 1).is_some();
    machine.drive("a deferred step", |_, _| {}, done);
    machine.finish(&call);
    // As long as it waited it did not run.
    let reduces = steps(&recorded, "reduce");
    assert!(!reduces.is_empty() && reduces.iter().all(|begun| *begun >= recalled), "{reduces:?} {recalled}");
}

#[test]
fn a_trace_names_the_group_of_a_collective() {
    let mut machine = Machine::new(network(6, 3), 3);
    let recorded = Arc::new(Trace::new(16));
    let Rank { lower, nbc } = &mut machine.ranks[5];
    nbc.set_trace(Some(recorded.clone()));
    let alone = Group::new(&[5], 0).unwrap();
    let schedule = table::compile(&alone, &Arguments::Ibarrier, None).unwrap();
    // SAFETY: - no buffers.
    let id = unsafe { nbc.post(lower, schedule, 7, 2) }.unwrap();
    assert!(nbc.release(lower, id));
    let event = recorded.drain()[0];
    let started = Started::from_words([event.a, event.b]);
    assert_eq!((event.kind, started.ranks, started.first_rank), (STARTED, 1, 5));
    assert_eq!((started.context, started.sequence), (7, 2));
}

#[test]
fn ranks_that_disagree_about_sizes_get_errors() {
    for bytes in [100, 300] {
        let mut machine = Machine::new(network(2, 4), 4);
        let mut buffers = [Buffer::new(&vec![1; bytes], 0), Buffer::new(&[2; 200], 0)];
        let mut ids = Vec::new();
        for (rank, bytes) in [(0, bytes), (1, 200)] {
            let buffer = buffers[rank].pointer();
            let arguments = Arguments::Ibcast { buffer, bytes, root: 0 };
            let schedule = table::compile(&group(2, rank as u32), &arguments, None).unwrap();
            let Rank { lower, nbc } = &mut machine.ranks[rank];
            // SAFETY: - the buffers outlive the machine's last step.
            ids.push(unsafe { nbc.post(lower, schedule, 0, 0) }.unwrap());
        }
        for step in 0..500 {
            machine.step(step % 2);
        }
        let completion = machine.ranks[1].nbc.completion(ids[1]).unwrap();
        // SAFETY: - valid as long as the Nbc.
        assert_eq!(unsafe { completion.as_ref() }.outcome().unwrap().code, Code::Protocol, "{bytes}");
        buffers[1].contents();
    }
}

/// A member that has heard of a death goes on with what comes later: who has yet to hear of it names the dead, not that member.
#[test]
fn a_wrong_size_beside_a_death_is_blamed_on_the_dead() {
    for gone in [false, true] {
        let mut machine = Machine::new(network(3, 4), 4);
        let mut buffers = [Buffer::new(&[1; 300], 0), Buffer::new(&[2; 200], 0)];
        let mut ids = Vec::new();
        for (rank, bytes) in [(0, 300), (1, 200)] {
            let buffer = buffers[rank].pointer();
            let arguments = Arguments::Ibcast { buffer, bytes, root: 0 };
            let schedule = table::compile(&group(3, rank as u32), &arguments, None).unwrap();
            let Rank { lower, nbc } = &mut machine.ranks[rank];
            // SAFETY: - the buffers outlive the machine's last step.
            ids.push(unsafe { nbc.post(lower, schedule, 0, 0) }.unwrap());
        }
        if gone {
            machine.ranks[1].lower.kill_unheard(2);
        }
        for step in 0..500 {
            machine.step(step % 2);
        }
        let completion = machine.ranks[1].nbc.completion(ids[1]).unwrap();
        // SAFETY: - valid as long as the Nbc.
        let outcome = unsafe { completion.as_ref() }.outcome().unwrap();
        let right = if gone { (Code::PeerDead, 2) } else { (Code::Protocol, 0) };
        assert_eq!((outcome.code, outcome.source), right);
        buffers[1].contents();
    }
}

/// A detached collective goes on; its buffers are freed by a later call in user context.
#[test]
fn what_is_detached_runs_on_and_is_freed_later() {
    struct Kept(#[allow(dead_code)] Rc<()>);
    // SAFETY: - this test has one thread.
    unsafe impl Send for Kept {}
    let mut machine = Machine::new(network(3, 5), 5);
    let mut call = machine.call(case(Operation::Ialltoall));
    let witness = Rc::new(());
    for rank in 0..3 {
        machine.post(&mut call, rank);
        let Rank { lower, nbc } = &mut machine.ranks[rank];
        nbc.detach(lower, call.ids[rank].unwrap(), Some(Box::new(Kept(witness.clone()))));
    }
    let done = |machine: &Machine<End>| machine.ranks.iter().all(|rank| rank.nbc.outstanding() == 0);
    machine.drive("detached", |_, _| {}, done);
    assert_eq!(Rc::strong_count(&witness), 4, "freed where a handler may be");
    for rank in &mut machine.ranks {
        rank.nbc.collect(&mut rank.lower);
    }
    assert_eq!(Rc::strong_count(&witness), 1);
    machine.forget();
}

#[test]
fn handles_are_checked() {
    let mut machine = Machine::new(network(2, 6), 6);
    let mut call = machine.call(case(Operation::Ibarrier));
    machine.post(&mut call, 0);
    let Rank { lower, nbc } = &mut machine.ranks[0];
    let id = call.ids[0].unwrap();
    assert!(!nbc.release(lower, id), "a running collective is not freed");
    // SAFETY: - a barrier has no buffers.
    let again = unsafe { nbc.start(lower, id, 9) }.unwrap_err().to_string();
    assert!(again.contains("still running"), "{again}");
    nbc.fail_context(lower, 1 << 31);
    assert!(nbc.release(lower, id));
    // SAFETY: - as above.
    let released = unsafe { nbc.start(lower, id, 9) }.unwrap_err().to_string();
    assert!(released.contains("released before"), "{released}");
    assert!(nbc.completion(id).is_none());
}
