//! Members of a board that disagree, lie or leave.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::driver::{Machine, Rank};
use common::network::{End, network};
use std::ptr::NonNull;
use tocsin_nbc::messages::{Envelope, Messages};
use tocsin_nbc::table::{self, Arguments};
use tocsin_nbc::{DataType, Error, Nbc, Op, Posted};
use tocsin_progress::budget::Budget;
use tocsin_progress::completion::{Code, Outcome};
use tocsin_progress::slots::Id;
use tocsin_transport::board::Board;

/// Two ranks, of whom the first alone is driven; and the board as the second sees it.
fn with_other() -> (Machine<End>, Board) {
    let machine = Machine::new(network(2, 5), 6);
    let areas = machine.areas.iter().map(|area| NonNull::from(&**area)).collect();
    // SAFETY: the machine, which the tests keep, has the areas; its own board of this rank is not used.
    let other = unsafe { Board::new(areas, 1, 1) }.unwrap();
    (machine, other)
}

/// Posts an allreduce of so many numbers on a rank.
fn post<M: Messages>(lower: &mut M, nbc: &mut Nbc, me: u32, numbers: &mut [u64]) -> Posted {
    let group = common::driver::group(2, me).with_board(0);
    let arguments = Arguments::Iallreduce {
        send: None,
        recv: numbers.as_mut_ptr().cast(),
        count: numbers.len(),
        data_type: DataType::U64,
        op: Op::Sum,
    };
    let call = table::call_on_board(&group, &arguments, None).unwrap().unwrap();
    // SAFETY: the tests keep the numbers until the request is over.
    unsafe { nbc.post_on_board(lower, &call, 1 << 31, 0) }.unwrap()
}

fn outcome(nbc: &Nbc, posted: Posted) -> Option<Outcome> {
    match posted {
        Posted::Done(outcome) => Some(outcome),
        // SAFETY: valid as long as the Nbc.
        Posted::Waits(id) => unsafe { nbc.completion(id).unwrap().as_ref() }.outcome(),
    }
}

/// Who posts before the other, and who after.
fn both_orders(act: impl Fn(&mut Board), ends: Code) {
    for other_first in [true, false] {
        let (mut machine, mut other) = with_other();
        let Rank { lower, nbc } = &mut machine.ranks[0];
        let mut numbers = [1u64, 2];
        if other_first {
            act(&mut other);
        }
        let posted = post(lower, nbc, 0, &mut numbers);
        if !other_first {
            assert_eq!(outcome(nbc, posted), None);
            act(&mut other);
            while nbc.work_left() {
                nbc.progress(lower, &mut Budget::handler());
            }
        }
        let end = outcome(nbc, posted).unwrap();
        assert_eq!((end.code, end.source), (ends, u32::from(ends != Code::Ok)));
        if ends == Code::Protocol {
            // Nothing that comes later on this board can be trusted.
            assert!(matches!(
                post(lower, nbc, 0, &mut numbers),
                Posted::Done(Outcome { code: Code::Protocol, .. })
            ));
        }
    }
}

#[test]
fn what_is_about_something_else_is_an_error() {
    both_orders(
        |other| {
            // SAFETY: no bytes.
            unsafe { other.post(0x1234, std::ptr::null(), 0) };
        },
        Code::Protocol,
    );
}

#[test]
fn a_part_from_the_future_is_an_error() {
    both_orders(
        |other| {
            for _ in 0..9 {
                // SAFETY: no bytes.
                unsafe { other.post(0, std::ptr::null(), 0) };
            }
        },
        Code::Protocol,
    );
}

#[test]
fn ranks_that_disagree_about_sizes_hear_of_it() {
    let mut machine = Machine::new(network(2, 5), 6);
    let [first, second] = &mut machine.ranks[..] else { unreachable!() };
    let (mut few, mut many) = ([1u64; 2], [1u64; 3]);
    let waits = post(&mut first.lower, &mut first.nbc, 0, &mut few);
    let late = post(&mut second.lower, &mut second.nbc, 1, &mut many);
    assert_eq!(outcome(&second.nbc, late).unwrap().code, Code::Protocol);
    first.nbc.progress(&mut first.lower, &mut Budget::user());
    assert_eq!(outcome(&first.nbc, waits).unwrap().code, Code::Protocol);
    assert_eq!((few, many), ([1; 2], [1; 3]));
}

/// Whoever waits is rung by the last to come, nobody else is, and nobody twice.
#[test]
fn the_last_rings_those_who_wait() {
    /// Notes who is rung.
    struct Rung(End, Vec<u32>);
    impl Messages for Rung {
        fn reserve(&mut self) -> Result<Id, Error> {
            self.0.reserve()
        }
        fn prepare_peer(&mut self, peer: u32, bytes: usize) -> Result<(), Error> {
            self.0.prepare_peer(peer, bytes)
        }
        fn release(&mut self, request: Id) {
            self.0.release(request);
        }
        unsafe fn start_send(&mut self, _: Id, _: &Envelope, _: *const u8, _: usize) {}
        unsafe fn start_recv(&mut self, _: Id, _: &Envelope, _: *mut u8, _: usize) {}
        fn eager_max(&self) -> usize {
            self.0.eager_max()
        }
        fn copied(&self) -> u64 {
            0
        }
        fn abandon(&mut self, request: Id) {
            self.0.abandon(request);
        }
        fn next_completed(&mut self) -> Option<(u64, Outcome)> {
            None
        }
        fn failures(&self) -> u64 {
            0
        }
        fn failed_among(&self, _: &[u32]) -> Option<(u32, Code)> {
            None
        }
        fn announce(&mut self, rank: u32) {
            self.1.push(rank);
        }
        fn would_signal(&self, _: u32) -> bool {
            true
        }
    }
    for looks in [false, true] {
        let mut machine = Machine::new(network(2, 5), 6);
        let mut ranks: Vec<_> =
            machine.ranks.drain(..).map(|Rank { lower, nbc }| (Rung(lower, Vec::new()), nbc)).collect();
        let [(one, first), (two, second)] = &mut ranks[..] else { unreachable!() };
        let (mut mine, mut theirs) = ([5u64], [6u64]);
        let posted = post(one, first, 0, &mut mine);
        first.announce(one);
        assert!(one.1.is_empty());
        let Posted::Waits(id) = posted else { unreachable!() };
        if looks {
            assert!(first.begin_look(id) && !first.look(id));
        }
        assert!(matches!(post(two, second, 1, &mut theirs), Posted::Done(Outcome { code: Code::Ok, .. })));
        // A signal is held back as long as the other waits.
        assert_eq!(second.announce_quietly(two), !looks);
        assert!(two.1.is_empty());
        second.announce(two);
        assert_eq!(two.1, if looks { vec![] } else { vec![0] });
        second.announce(two);
        assert!(two.1.len() < 2);
        assert!(if looks {
            first.look(id)
        } else {
            first.progress(one, &mut Budget::handler()) != tocsin_progress::Pass::Idle
        });
        assert_eq!((mine, theirs), ([11], [11]));
        assert!(first.release(one, id));
        drop(machine);
    }
}
