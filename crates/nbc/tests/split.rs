//! Trees of which ranks do levels themselves: what begins when, whoever makes passes.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::driver::group;
use common::network::{End, network};
use tocsin_nbc::table::{self, Arguments};
use tocsin_nbc::{DataType, Nbc, Op};
use tocsin_progress::budget::{Budget, Context};
use tocsin_progress::slots::Id;

struct World {
    ranks: Vec<(End, Nbc)>,
    buffers: Vec<Vec<u64>>,
    ids: Vec<Option<Id>>,
    dedicated: u32,
}

impl World {
    fn new(ranks: u32, dedicated: u32) -> World {
        let ends = network(ranks, 7).into_iter().map(|end| (end, Nbc::new())).collect();
        let buffers = (0..ranks).map(|rank| vec![u64::from(rank) + 1; 2 * ranks as usize]).collect();
        World { ranks: ends, buffers, ids: vec![None; ranks as usize], dedicated }
    }

    /// Starts on one rank what works on its buffer.
    fn start(&mut self, rank: u32, arguments: impl Fn(*mut u8) -> Arguments<'static>) {
        let of = group(self.ranks.len() as u32, rank).with_dedicated_cores(self.dedicated);
        let arguments = arguments(self.buffers[rank as usize].as_mut_ptr().cast());
        let schedule = table::compile(&of, &arguments, Some("split-tree")).unwrap();
        let (end, nbc) = &mut self.ranks[rank as usize];
        // SAFETY: - the world keeps the buffers, and looks at them when all is over.
        self.ids[rank as usize] = Some(unsafe { nbc.post(end, schedule, 1 << 31, 1) }.unwrap());
    }

    fn is_in_call(&self, rank: u32) -> bool {
        self.ranks[rank as usize].1.is_in_call(self.ids[rank as usize].unwrap())
    }

    /// The call that started it returns.
    fn leave(&mut self, rank: u32) {
        let id = self.ids[rank as usize].unwrap();
        assert!(!self.is_in_call(rank));
        self.ranks[rank as usize].1.leave_call(id);
    }

    fn comes_back(&mut self, rank: u32) {
        let (end, nbc) = &mut self.ranks[rank as usize];
        nbc.open_gates(end);
    }

    /// What handlers and progress threads do.
    fn passes(&mut self) {
        for round in 0..200 {
            for (end, nbc) in &mut self.ranks {
                end.pump();
                let context = [Context::Handler, Context::ProgressThread][round % 2];
                nbc.progress(end, &mut Budget::of(context));
            }
        }
    }

    fn done(&self) -> Vec<bool> {
        let is_done = |(rank, id): (usize, &Option<Id>)| {
            let completion = self.ranks[rank].1.completion((*id)?)?;
            // SAFETY: - it lives as long as the Nbc.
            Some(unsafe { completion.as_ref() }.is_done())
        };
        self.ids.iter().enumerate().map(|id| is_done(id).unwrap_or(false)).collect()
    }
}

fn bcast(buffer: *mut u8) -> Arguments<'static> {
    Arguments::Ibcast { buffer, bytes: 8, root: 0 }
}

fn reduce(buffer: *mut u8) -> Arguments<'static> {
    let (data_type, op) = (DataType::U64, Op::Sum);
    let send = Some(buffer.wrapping_add(8).cast_const());
    Arguments::Ireduce { send, recv: buffer, count: 1, data_type, op, root: 0 }
}

#[test]
fn without_cores_to_spare_a_rank_passes_on_what_it_has_when_it_is_called_next() {
    let mut world = World::new(4, 0);
    for rank in 0..4 {
        world.start(rank, bcast);
        world.leave(rank);
    }
    world.passes();
    assert_eq!(world.done(), [false; 4], "nobody but the root itself sends");
    world.comes_back(0);
    world.passes();
    assert_eq!(world.done(), [true, true, false, false], "rank 2 has it, and has yet to pass it on");
    world.comes_back(3);
    world.passes();
    assert_eq!(world.done(), [true, true, false, false]);
    world.comes_back(2);
    world.passes();
    assert_eq!(world.done(), [true; 4]);
    assert!(world.buffers.iter().all(|buffer| buffer[0] == 1));
}

#[test]
fn with_cores_to_spare_others_pass_it_on() {
    let mut world = World::new(4, 4);
    for rank in 0..4 {
        world.start(rank, bcast);
        world.leave(rank);
    }
    world.passes();
    assert_eq!(world.done(), [true; 4]);
}

#[test]
fn the_call_that_starts_does_the_levels_next_to_the_leaves() {
    let mut world = World::new(4, 0);
    world.start(0, reduce);
    world.passes();
    assert!(world.is_in_call(0), "it waits for ranks 1 and 2");
    world.start(1, reduce);
    world.passes();
    world.leave(1);
    assert!(world.is_in_call(0));
    world.start(2, reduce);
    world.passes();
    assert!(world.is_in_call(2));
    world.start(3, reduce);
    world.passes();
    (0..4).filter(|rank| *rank != 1).for_each(|rank| world.leave(rank));
    assert_eq!(world.done(), [true; 4]);
    assert_eq!(world.buffers[0][0], 10);
    // With cores to spare, it waits for nobody.
    let mut world = World::new(4, 4);
    world.start(0, reduce);
    world.leave(0);
}

/// A wait for something else, or a second collective, is a call, too: nobody waits for a rank that is in the library.
#[test]
fn whoever_is_called_opens_all() {
    let mut world = World::new(2, 0);
    world.start(1, bcast);
    world.start(0, bcast);
    let first = world.ids[0];
    let mut second = vec![0u64; 2];
    let of = group(2, 0);
    let arguments = bcast(second.as_mut_ptr().cast());
    let schedule = table::compile(&of, &arguments, Some("split-tree")).unwrap();
    let (end, nbc) = &mut world.ranks[0];
    // SAFETY: - `second` is dropped after the world's ranks have had their last pass.
    let other = unsafe { nbc.post(end, schedule, 1 << 31, 2) }.unwrap();
    world.passes();
    assert_eq!(world.done(), [true; 2], "the second start has let the first one go on");
    let (end, nbc) = &mut world.ranks[0];
    assert!(nbc.is_gated());
    nbc.detach(end, other, None);
    assert!(!nbc.is_gated(), "given up, it goes on by itself");
    assert!(first.is_some());
}

#[test]
fn what_is_restarted_goes_through_its_gates_again() {
    let mut world = World::new(2, 0);
    world.start(1, bcast);
    world.start(0, bcast);
    world.comes_back(0);
    world.passes();
    assert_eq!(world.done(), [true; 2]);
    for sequence in 2..5 {
        for rank in 0..2 {
            let (end, nbc) = &mut world.ranks[rank];
            // SAFETY: - as before.
            unsafe { nbc.start(end, world.ids[rank].unwrap(), sequence) }.unwrap();
        }
        world.passes();
        assert_eq!(world.done(), [false; 2]);
        world.comes_back(0);
        world.comes_back(1);
        world.passes();
        assert_eq!(world.done(), [true; 2]);
    }
}

/// What is left of a run that failed before the rank came back opens nothing of the next one.
#[test]
fn what_is_restarted_after_a_failure_goes_through_its_gates_again() {
    let mut world = World::new(2, 0);
    world.start(1, bcast);
    world.start(0, bcast);
    world.passes();
    for (end, nbc) in &mut world.ranks {
        nbc.fail_context(end, 1 << 31);
    }
    world.passes();
    assert_eq!(world.done(), [true; 2]);
    for rank in 0..2 {
        let (end, nbc) = &mut world.ranks[rank];
        // SAFETY: - as before.
        unsafe { nbc.start(end, world.ids[rank].unwrap(), 2) }.unwrap();
    }
    world.passes();
    assert_eq!(world.done(), [false; 2]);
    world.comes_back(0);
    world.passes();
    assert_eq!(world.done(), [true; 2]);
}
