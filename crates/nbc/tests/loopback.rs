//! The algorithms over point to point and the in-memory transport: eager, rendezvous, full lanes. Handlers' passes run
//! inside a `HandlerScope` with an allocator that aborts when one allocates or frees.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::driver::{Lower, Machine, Rank, steps};
use common::model::{AFFINE, Case, affine_op};
use common::{Random, has_blocks, most, takes};
use std::sync::Arc;
use tocsin_nbc::table::{self, Operation};
use tocsin_nbc::{DataType, Op};
use tocsin_p2p::{Config, P2p};
use tocsin_progress::Trace;
use tocsin_progress::budget::{Budget, Context, Pass};
use tocsin_progress::completion::Code;
use tocsin_sync::clock::now_ns;
use tocsin_sync::thread::HandlerScope;
use tocsin_sync::tripwire::Tripwire;
use tocsin_transport::loopback::{self, Loopback};
use tocsin_transport::{PeerState, Transport};

#[global_allocator]
static ALLOCATOR: Tripwire<std::alloc::System> = Tripwire::new(std::alloc::System);

impl Lower for P2p<Loopback> {
    fn pump(&mut self, budget: &mut Budget) -> Pass {
        self.progress(budget)
    }

    fn after(&mut self) {
        self.transport_mut().flush();
    }

    fn is_clean(&self) -> bool {
        self.outstanding_sends() == 0
    }

    fn scope() -> Option<HandlerScope> {
        Some(HandlerScope::enter())
    }
}

fn machine(ranks: u32, seed: u64) -> Machine<P2p<Loopback>> {
    let ends = loopback::fabric(ranks).into_iter();
    Machine::new(ends.map(|end| P2p::new(end, Config::default()).unwrap()).collect(), seed)
}

const RANKS: [u32; 8] = [1, 2, 3, 4, 7, 8, 16, 33];
const BYTES: [usize; 10] = [0, 1, 8, 1000, 8184, 8192, 8200, 65536, 300_000, 1 << 20];
const TYPES: [(DataType, Op); 5] = [
    (DataType::F64, Op::Sum),
    (DataType::F32, Op::Prod),
    (DataType::I16, Op::Max),
    (DataType::U8, Op::BXor),
    (DataType::F64Index, Op::MinLoc),
];

fn case(random: &mut Random, ranks: u32, operation: Operation, algorithm: Option<&'static str>) -> Case {
    let commutative = algorithm.is_some_and(|a| table::find(operation, a).unwrap().restrictions.commutative);
    let user = random.chance(20) && !commutative;
    let (data_type, op) = if user { (AFFINE, affine_op()) } else { *random.pick(&TYPES) };
    let named = algorithm.map(|name| table::find(operation, name).unwrap());
    let most = ((1 << 20) / ranks as usize).min(most(named, ranks));
    let bytes = (*random.pick(&BYTES)).min(most);
    let bytes = if has_blocks(operation) { bytes / ranks as usize } else { bytes };
    let count = bytes / data_type.size();
    let root = random.below(ranks as usize) as u32;
    let (in_place, layout) = (random.chance(40), random.word());
    Case { operation, algorithm, root, data_type, op, count, in_place, layout }
}

fn with_thread(test: impl FnOnce()) {
    let _thread = tocsin_sync::thread::register(std::ptr::null()).unwrap();
    test();
}

#[test]
fn every_algorithm_on_all_rank_counts() {
    with_thread(|| {
        let mut random = Random(0x10b_0001);
        for algorithm in table::ALGORITHMS {
            for ranks in RANKS.into_iter().filter(|ranks| takes(algorithm, *ranks)) {
                for _ in 0..if ranks > 8 { 2 } else { 8 } {
                    let case = case(&mut random, ranks, algorithm.operation, Some(algorithm.name));
                    machine(ranks, random.word()).run(&[case]);
                }
            }
        }
    });
}

#[test]
fn several_outstanding_in_any_order() {
    with_thread(|| {
        let mut random = Random(0x10b_0002);
        for _ in 0..30 {
            let ranks = *random.pick(&RANKS[1..6]);
            let cases: Vec<Case> = (0..1 + random.below(32))
                .map(|_| {
                    let operation = *random.pick(Operation::ALL);
                    let mut case = case(&mut random, ranks, operation, None);
                    case.count = case.count.min(random.below(4000));
                    case
                })
                .collect();
            let mut machine = machine(ranks, random.word());
            machine.run(&cases);
            machine.run(&cases);
        }
    });
}

#[test]
fn started_again_and_again() {
    with_thread(|| {
        let mut random = Random(0x10b_0003);
        for algorithm in table::ALGORITHMS {
            for ranks in [1, 2, 5, 8].into_iter().filter(|ranks| takes(algorithm, *ranks)) {
                let mut case = case(&mut random, ranks, algorithm.operation, Some(algorithm.name));
                case.count = case.count.min(20_000);
                machine(ranks, random.word()).run_again(case, 3);
            }
        }
    });
}

/// The late rank of the command line's reactivity test: it has posted, and nothing but handler passes runs on it.
#[test]
fn handlers_alone_carry_a_rank_that_has_posted() {
    with_thread(|| {
        let mut random = Random(0x10b_0004);
        for algorithm in table::ALGORITHMS.iter().filter(|algorithm| !algorithm.is_split()) {
            for bytes in [1 << 10, 64 << 10] {
                let (data_type, op) = (DataType::F64, Op::Sum);
                let case = Case {
                    operation: algorithm.operation,
                    algorithm: Some(algorithm.name),
                    root: 0,
                    data_type,
                    op,
                    count: bytes
                        .min(most(Some(algorithm), 4) / if has_blocks(algorithm.operation) { 4 } else { 1 })
                        / 8,
                    in_place: false,
                    layout: random.word(),
                };
                let mut machine = machine(4, random.word());
                machine.only_handlers = Some(2);
                machine.run(&[case]);
            }
        }
    });
}

#[test]
fn a_dead_member_fails_every_pending_collective() {
    with_thread(|| {
        let mut random = Random(0x10b_0005);
        for round in 0..100 {
            let ranks = 2 + random.below(7) as u32;
            let mut machine = machine(ranks, random.word());
            let mut calls: Vec<_> = (0..1 + random.below(4))
                .map(|_| {
                    let operation = *random.pick(Operation::ALL);
                    let case = case(&mut random, ranks, operation, None);
                    machine.call(case)
                })
                .collect();
            for call in &mut calls {
                for rank in 0..ranks as usize {
                    machine.post(call, rank);
                }
            }
            for _ in 0..random.below(100) {
                let rank = random.below(ranks as usize);
                machine.step(rank);
            }
            let dead = random.below(ranks as usize);
            machine.silent = Some(dead);
            let transport = machine.ranks[dead].lower.transport();
            transport.set_state(dead as u32, PeerState::Dead);
            let alive = || (0..ranks as usize).filter(|rank| *rank != dead);
            let done = |machine: &Machine<_>| {
                alive().all(|rank| calls.iter().all(|call| machine.outcome(call, rank).is_some()))
            };
            machine.drive(&format!("round {round}"), |_, _| {}, done);
            for rank in alive() {
                for call in &calls {
                    let outcome = machine.outcome(call, rank).unwrap();
                    let blames = outcome.code == Code::PeerDead && outcome.source == dead as u32;
                    assert!(
                        outcome.code == Code::Ok || blames,
                        "round {round}, rank {rank}, dead {dead}: {outcome:?}, {:?}",
                        call.case
                    );
                    let Rank { lower, nbc } = &mut machine.ranks[rank];
                    assert!(nbc.release(lower, call.ids[rank].unwrap()));
                }
            }
        }
    });
}

#[test]
fn a_send_that_waits_for_a_fresh_budget_has_not_begun() {
    let mut machine = machine(4, 6);
    let case = Case {
        operation: Operation::Ibcast,
        algorithm: Some("binomial"),
        root: 0,
        data_type: DataType::U8,
        op: Op::Sum,
        count: 100,
        in_place: false,
        layout: 9,
    };
    let mut call = machine.call(case);
    // It passes on to 3 what comes from 0.
    let recorded = Arc::new(Trace::new(64));
    machine.ranks[2].nbc.set_trace(Some(recorded.clone()));
    (0..4).rev().for_each(|rank| machine.post(&mut call, rank));
    let mut put_back = false;
    for _ in 0..1000 {
        for Rank { lower, .. } in &mut machine.ranks {
            lower.pump(&mut Budget::user());
            lower.after();
        }
        let Rank { lower, nbc } = &mut machine.ranks[2];
        put_back |= nbc.progress(lower, &mut Budget::limited(Context::Handler, 64, 1)) == Pass::More;
    }
    assert!(put_back);
    let goes_on = now_ns();
    let done = |machine: &Machine<P2p<Loopback>>| (0..4).all(|rank| machine.outcome(&call, rank).is_some());
    machine.drive("a send put back", |_, _| {}, done);
    machine.finish(&call);
    let sends = steps(&recorded, "send");
    assert!(sends.len() == 1 && sends[0] >= goes_on, "{sends:?} {goes_on}");
}
