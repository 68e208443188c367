//! How many chunks of a large message are copied in one call.
#![allow(clippy::unwrap_used)] // clippy exempts test functions only, not what they share

mod common;

use common::{Target, World, text};
use tocsin_p2p::{Budget, Class, Code, Mode, Pass, RecvArgs};
use tocsin_progress::Context;
use tocsin_transport::Transport;

/// Ten chunks, the last of them short.
const LARGE: usize = 600_000;
const CHUNK: usize = 64 << 10;

/// In how many calls a message is received with passes like this, alone: its sender has left.
fn copies(class: Class, budget: impl Fn() -> Budget) -> u64 {
    let mut w = World::new(2);
    let data = text(1, LARGE);
    let send = w.isend_with(0, 1, 1, &data, Mode::Standard, class);
    w.ranks[0].transport_mut().flush();
    w.ranks[1].transport_mut().set_waiting(0, false);
    let mut target = Target::new(LARGE);
    let args = RecvArgs { context: 0, source: Some(0), tag: Some(1), buf: target.buf(), class, cookie: 0 };
    // SAFETY: the target lives longer.
    let recv = unsafe { w.ranks[1].irecv(args) }.unwrap();
    while w.pass_with(1, &mut budget()) != Pass::Idle {}
    assert_eq!(w.code(1, recv), Some(Code::Ok));
    assert_eq!(target.bytes()[..LARGE], data);
    w.settle();
    assert_eq!(w.code(0, send), Some(Code::Ok));
    w.ranks[1].transport_mut().copies()
}

#[test]
fn who_waits_for_a_collective_copies_what_its_budget_has_in_one_call() {
    let user = |bytes| Budget::limited(Context::User, 32, bytes);
    assert_eq!(copies(Class::Coll, || user(LARGE)), 1);
    assert_eq!(copies(Class::Coll, || user(4 * CHUNK)), 3);
    assert_eq!(copies(Class::Coll, || user(1)), 10, "a chunk a pass");
}

#[test]
fn chunks_that_are_copied_in_handlers_or_in_passing_are_copied_one_by_one() {
    assert_eq!(copies(Class::Coll, || Budget::limited(Context::Handler, 32, LARGE)), 10);
    assert_eq!(copies(Class::Coll, || Budget::limited(Context::User, 32, LARGE).in_passing()), 10);
}

#[test]
fn who_waits_for_a_message_copies_a_few_in_one_call_as_long_as_many_are_left() {
    // Three, until seven are left, which the other end may take a part of.
    assert_eq!(copies(Class::Eager, || Budget::limited(Context::User, 32, LARGE)), 8);
}
