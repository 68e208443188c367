//! What was measured goes before the dispatcher's own choice, where it can.

use super::*;
use std::sync::Arc;

/// A choice for one operation from 0 on.
pub(super) fn only(operation: Operation, name: &str) -> Option<Arc<Choices>> {
    let mut choices = Choices::NONE;
    assert!(choices.add(operation, 0, Some(find(operation, name).unwrap())));
    Some(Arc::new(choices))
}

fn allreduce(op: Op, count: usize) -> Arguments<'static> {
    Arguments::Iallreduce {
        send: Some(SEND as *const u8),
        recv: RECV as *mut u8,
        count,
        data_type: DataType::U8,
        op,
    }
}

/// Of a call: the names of who is chosen, and of whose schedule is compiled; whether the board has it, and at once unless it needs a list.
fn taken(arguments: &Arguments, group: &Group) -> (&'static str, &'static str, bool) {
    let schedule = compile(group, arguments, None).unwrap();
    let compiled = crate::trace::algorithm(schedule.algorithm).unwrap().name;
    let goes = goes_on_board(group, arguments, None);
    let at_once = call_on_board(group, arguments, None).unwrap().is_some();
    assert_eq!(at_once, goes && !arguments.has_lists_on_board());
    (choose_for(arguments, group).name, compiled, goes)
}

#[test]
fn every_algorithm_is_taken_where_its_restrictions_allow_it() {
    for algorithm in ALGORITHMS {
        for ranks in [2, 3, 4, 6, 8, 64] {
            for bytes in [8, 100_000] {
                let at = blocks(algorithm.operation, ranks, bytes, false);
                let counts = counts(ranks, bytes);
                let mut names = Vec::new();
                for me in 0..ranks {
                    let arguments = arguments(algorithm.operation, bytes, 1, false, me, (&at, &counts));
                    let plain = group_with_board(ranks, me);
                    let group = plain.clone().with_choices(only(algorithm.operation, algorithm.name));
                    // Nor more rounds on a board than a rank may post.
                    let few = crate::board::has_few_rounds(&arguments, ranks as usize);
                    let able = algorithm.restrictions.refusal(&arguments, ranks).is_none()
                        && (few || !algorithm.restrictions.needs_board());
                    let right = if able { algorithm } else { choose_for(&arguments, &plain) };
                    let on_board = right.restrictions.needs_board();
                    assert_eq!(
                        taken(&arguments, &group),
                        (right.name, right.name, on_board),
                        "{arguments:?}"
                    );
                    names.push(right.name);
                }
                names.dedup();
                assert_eq!(names.len(), 1, "the ranks choose alike");
            }
        }
    }
}

#[test]
fn what_cannot_serve_the_call_is_not_taken() {
    // SAFETY: - the operator is never applied.
    let user = |commutes| Op::User(unsafe { UserOp::new(nothing, std::ptr::null(), commutes) });
    let with = |group: Group, name| group.with_choices(only(Operation::Iallreduce, name));
    let name = |op, group: &Group| choose_for(&allreduce(op, 8), group).name;
    // Order of operands.
    let ring = with(group_with_board(4, 0), "ring");
    assert_eq!(name(Op::Sum, &ring), "ring");
    assert_eq!(name(user(true), &ring), "ring");
    assert_eq!(name(user(false), &ring), "recursive-doubling");
    // No board; a user's operator, which would hold up others there.
    let board = with(group_with_board(4, 0), "shm");
    assert_eq!(name(Op::Sum, &board), "shm");
    assert_eq!(name(user(true), &board), "recursive-doubling");
    assert_eq!(name(Op::Sum, &with(group(4, 0), "shm")), "recursive-doubling");
    // Another operation than the one measured.
    assert_eq!(choose_for(&Arguments::Ibarrier, &ring).name, "shm");
}

#[test]
fn sizes_decide_and_what_is_asked_for_goes_first() {
    let mut choices = Choices::NONE;
    let of = |name| Some(find(Operation::Iallreduce, name).unwrap());
    assert!(choices.add(Operation::Iallreduce, 8, of("reduce-bcast")));
    assert!(choices.add(Operation::Iallreduce, 64, None));
    assert!(choices.add(Operation::Iallreduce, 100_000, of("ring")));
    let group = group_with_board(4, 2).with_choices(Some(Arc::new(choices)));
    for (bytes, right) in [
        (7, "shm"),
        (8, "reduce-bcast"),
        (63, "reduce-bcast"),
        (64, "shm"),
        (50_000, "rabenseifner"),
        (100_000, "ring"),
    ] {
        let arguments = allreduce(Op::Sum, bytes);
        assert_eq!(taken(&arguments, &group), (right, right, right == "shm"), "{bytes}");
        let forced = compile(&group, &arguments, Some("recursive-doubling")).unwrap();
        assert_eq!(crate::trace::algorithm(forced.algorithm).unwrap().name, "recursive-doubling");
    }
    let asked = call_on_board(&group, &allreduce(Op::Sum, 8), Some("shm")).unwrap();
    assert!(asked.is_some(), "the board was asked for");
}

/// A schedule that is kept serves the calls that would compile the same one.
#[test]
fn kept_schedules_follow_the_choice() {
    let arguments = allreduce(Op::Sum, 8);
    let origin = |group: &Group, name| Origin::new(group, &arguments, name).unwrap();
    let plain = group(4, 0);
    let measured = plain.clone().with_choices(only(Operation::Iallreduce, "ring"));
    let elsewhere = plain.clone().with_choices(only(Operation::Ireduce, "linear"));
    assert_ne!(origin(&plain, None), origin(&measured, None));
    assert_eq!(origin(&plain, None), origin(&elsewhere, None));
    assert_eq!(origin(&measured, None), origin(&plain, Some("ring")));
    assert_ne!(origin(&measured, Some("reduce-bcast")), origin(&measured, None));
    assert_eq!(compile(&measured, &arguments, None).unwrap().origin, Some(origin(&measured, None)));
}
