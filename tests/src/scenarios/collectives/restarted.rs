//! Persistent collectives: prepared once, started again and again with other contents.

use std::time::Duration;

use tocsin_nbc::table::{self, Algorithm, Operation};
use tocsin_world::{Comm, Error, RawRequest};

use super::call::{Call, Part};
use super::{Choice, Planned, call_of, check, finish, fitted, start};
use crate::random::Random;
use crate::run::Arguments;

pub(in crate::scenarios) struct Prepared {
    call: Call,
    pub(in crate::scenarios) request: RawRequest,
    part: Part,
}

fn prepare(comm: &Comm, random: &mut Random, algorithm: &'static Algorithm, max: u64) -> Prepared {
    prepare_call(comm, call_of(comm, algorithm, random, max))
}

/// A random call.
pub(in crate::scenarios) fn prepare_any(comm: &Comm, random: &mut Random, choice: Choice) -> Prepared {
    prepare_call(comm, choice.call(comm, random))
}

fn prepare_call(comm: &Comm, call: Call) -> Prepared {
    let call = fitted(call, comm);
    let mut part = call.part(comm);
    part.share(comm, call.seed ^ u64::from(comm.rank()));
    let request = call.prepare(comm, &mut part).unwrap_or_else(|e| panic!("{call:?}: {e}"));
    assert!(request.is_persistent() && !request.is_active());
    Prepared { call, request, part }
}

impl Prepared {
    pub(in crate::scenarios) fn start(&mut self, comm: &Comm, run: u64) {
        self.call.run = run;
        self.call.refill(&mut self.part, comm);
        // SAFETY: the buffers are heap memory that stays where it is while the request is active: `finish`, `abandon`.
        unsafe { self.request.start() }.unwrap_or_else(|e| panic!("run {run} of {:?}: {e}", self.call));
        assert!(self.request.is_active());
        // SAFETY: it is refused.
        let twice = unsafe { self.request.start() };
        assert!(matches!(twice, Err(Error::InvalidArgument { .. })), "started while active: {twice:?}");
    }

    pub(in crate::scenarios) fn finish(&mut self, comm: &Comm, own: &mut Random) {
        let outcome = match own.below(3) {
            0 => self.request.wait(),
            1 => loop {
                if let Some(outcome) = self.request.test() {
                    break outcome;
                }
            },
            _ => loop {
                if let Some(outcome) = self.request.wait_timeout(Duration::from_micros(50)) {
                    break outcome;
                }
            },
        };
        outcome.unwrap_or_else(|e| panic!("rank {}: {:?}: {e}", comm.rank(), self.call));
        assert!(!self.request.is_active());
        check(comm, &self.part, &format!("{:?}", self.call));
    }

    /// Drops the request while it is active: its run goes on, in buffers that stay.
    fn abandon(self) {
        assert!(self.request.is_active());
        std::mem::forget(self.part);
        drop(self.request);
    }
}

/// `seed`, `rounds`, `max` (bytes per rank): each operation, by one of its algorithms, is prepared once and then started in
/// most rounds, in an order that differs from round to round, non-blocking ones between them; all are outstanding at once
/// and end in any order. Now and then one is freed, active or not, and another prepared in its place.
pub fn restarted(comm: &Comm, arguments: &Arguments) {
    let mut random = Random::new(arguments.number("seed"));
    let mut own = Random::new(u64::from(comm.rank()) + 0xab1e);
    let max = arguments.number("max");
    let one_of = |operation: Operation, random: &mut Random| {
        let all: Vec<&'static Algorithm> = table::of(operation).collect();
        all[random.below(all.len() as u64) as usize]
    };
    let mut prepared: Vec<Prepared> = Vec::new();
    for &operation in Operation::ALL {
        let algorithm = one_of(operation, &mut random);
        prepared.push(prepare(comm, &mut random, algorithm, max));
    }
    for round in 1..=arguments.number("rounds") {
        random.shuffle(&mut prepared);
        let mut others: Vec<Planned> = Vec::new();
        for one in &mut prepared {
            if random.below(5) > 0 {
                one.start(comm, round);
            }
            if random.below(4) == 0 {
                others.push(start(comm, &mut random, max));
            }
        }
        let replaced = random.below(2 * prepared.len() as u64) as usize;
        if replaced < prepared.len() {
            let old = prepared.swap_remove(replaced);
            let algorithm = one_of(old.call.operation, &mut random);
            if old.request.is_active() {
                old.abandon();
            }
            prepared.push(prepare(comm, &mut random, algorithm, max));
        }
        let mut order: Vec<usize> = (0..prepared.len()).collect();
        own.shuffle(&mut order);
        for which in order {
            if own.below(4) == 0 && !others.is_empty() {
                finish(comm, others.swap_remove(0));
            }
            let one = &mut prepared[which];
            if one.request.is_active() {
                one.finish(comm, &mut own);
            }
        }
        others.into_iter().for_each(|planned| finish(comm, planned));
    }
}

/// `seed`, `victim`: starts prepared collectives again and again until one fails; the error must name `victim`, and every later run
/// must fail too. Prints as [`until_death`](crate::scenarios::faults::until_death) does.
pub fn restarted_until_death(comm: &Comm, arguments: &Arguments) {
    let victim = arguments.number("victim") as u32;
    let mut random = Random::new(arguments.number("seed"));
    // Of all, so that every rank needs every other.
    let all = [Operation::Ibarrier, Operation::Iallgather, Operation::Iallreduce, Operation::Ialltoall];
    let mut prepared: Vec<Prepared> = Vec::new();
    for operation in all {
        let algorithm = table::of(operation).next().unwrap_or_else(|| panic!("no {operation}"));
        let mut call = call_of(comm, algorithm, &mut random, 96 << 10);
        // Without elements nothing would be sent.
        call.elements = call.elements.max(1);
        prepared.push(prepare_call(comm, call));
    }
    if comm.rank() == 0 {
        println!("running");
    }
    let mut run = |which: usize| {
        let request = &mut prepared[which].request;
        // SAFETY: the buffers live as long as the request, which is waited for.
        unsafe { request.start() }.and_then(|()| request.wait()).map(drop)
    };
    let error = loop {
        if let Err(error) = run(random.below(all.len() as u64) as usize) {
            break error;
        }
    };
    let at = tocsin_sync::clock::now_ns();
    assert!(
        matches!(error, Error::PeerDead { rank, .. } if rank == victim),
        "rank {}: expected the death of {victim}, got: {error}",
        comm.rank()
    );
    for (which, operation) in all.into_iter().enumerate() {
        let again = run(which);
        let named = matches!(again, Err(Error::PeerDead { rank, .. }) if rank == victim);
        // Another survivor may have left, having seen enough.
        let left = matches!(again, Err(Error::PeerFinalized { .. }));
        assert!(named || left, "{operation} after the death of {victim}: {again:?}");
    }
    // Only now: a rank that failed above has not seen it.
    println!("saw {} {at}", comm.rank());
}
