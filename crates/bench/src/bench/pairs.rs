//! `tocsin bench pairs`: a world of many ranks, all of which talk to all: what it takes to set it up, in memory and in time.
//!
//! Memory is what is allocated of the world's segment, and what is resident of the ranks' own; of ranks that are threads,
//! their process's, less what it had before. It is looked at when nobody has talked, when each rank has sent to the one
//! after it, and when each has sent to each. What a silent pair takes is what grows with the square of the number of ranks
//! when nobody talks: of worlds of R, 3/4 R and R/2 silent ranks, M(R) - 2 M(3/4 R) + M(R/2) is 1/8 of that, without anything
//! that is constant or grows with the ranks. What the library keeps for peers is in mappings whose pages come when they are
//! first written: it counts as resident, in pages of 4 KiB, with the noise of stacks. The heap's bytes are counted, of ranks that are threads by
//! the command's own allocator; what is of lists that double, which grow in steps, is in them, too, some 10 KB in all. (Above 32 and above
//! 64 ranks the library reserves less for each: of worlds on both sides of such a step nothing is said.)

use super::{check, from_two_ranks, most, row, sizes};
use crate::Counted;
use crate::cli::Pairs;
use crate::error::Error;
use crate::fleet::block::{Measured, Task};
use crate::fleet::{Plan, World};
use crate::plot::{self, curves};
use crate::rank::Memory;
use crate::row::{Row, Sink};
use crate::stats::Times;
use crate::values::{Backend, Kind};
use std::time::Instant;
use tocsin_topology::Topology;

/// Rounds of the exchange when nothing else is asked for.
const ROUNDS: u64 = 5;
/// Fewer ranks than this have no part to compare with.
const LEAST_FOR_SILENCE: u32 = 8;

pub(crate) fn run(args: &Pairs) -> Result<(), Error> {
    let common = &args.common;
    plot::prepare(common.plot.as_deref())?;
    Counted::begin();
    let cores = Topology::machine().map_err(Error::failed)?.cores.len() as u64;
    let mut sink = Sink::new(common.json);
    let mut rows = Vec::new();
    for ranks in from_two_ranks(common, "pairs", 4 * cores.max(1))? {
        for plan in Plan::all(common, ranks, &[Backend::Auto])? {
            for bytes in sizes(common, &[8]) {
                rows.push(measure(args, &plan, bytes)?);
                rows.last().into_iter().for_each(|row| sink.row(row));
            }
        }
    }
    if let Some(dir) = &common.plot {
        let chart = curves::Chart {
            file: "pairs",
            title: "How long does it take all to send to all?",
            subtitle: "The slowest rank's time when lanes are there (median of rounds); lower is better",
            x: "ranks",
            y: "each sends to each (ms)",
            x_is_bytes: false,
        };
        let mut keys = curves::OF_PLAN.to_vec();
        keys.retain(|(key, _)| *key != "ranks");
        keys.push(("size_bytes", ""));
        let series = curves::of_rows(&rows, &keys, "ranks", "exchange_ms_p50");
        plot::announce(&curves::draw(dir, &chart, &series)?);
    }
    Ok(())
}

/// A world, and the memory that this process had before it.
struct Watched {
    world: World,
    before: Memory,
    setup_ms: f64,
}

/// What a world takes, in bytes.
#[derive(Clone, Copy, Debug)]
struct Taken {
    segment: f64,
    resident: f64,
    heap: f64,
}

impl Watched {
    /// A world whose ranks have all begun.
    fn start(plan: &Plan) -> Result<Watched, Error> {
        Memory::settle();
        let before = Memory::now();
        let start = Instant::now();
        let mut world = World::start(plan)?;
        world.run(Task::Compute { work: 0 })?;
        Ok(Watched { world, before, setup_ms: start.elapsed().as_secs_f64() * 1e3 })
    }

    /// Everybody sends to the `reach` ranks after it; how long the slowest took, in ms, and the memory then.
    fn exchange(&mut self, bytes: u64, reach: u64) -> Result<(f64, Taken), Error> {
        let measured = self.world.run(Task::Exchange { bytes, reach })?;
        check(&measured, &self.world.plan, "an exchange")?;
        Ok((most(&measured, |m| m.t_comm) as f64 / 1e6, self.taken(&measured)))
    }

    fn taken(&self, measured: &[Measured]) -> Taken {
        // Threads are of one process, and each has seen all of it.
        let (of_all, before) = match self.world.plan.kind {
            Kind::Process => (true, Memory::default()),
            Kind::Thread => (false, self.before),
        };
        let own = |of: fn(&Measured) -> u64, before: u64| {
            let now = if of_all { measured.iter().map(of).sum() } else { most(measured, of) };
            now as f64 - before as f64
        };
        Taken {
            segment: most(measured, |m| m.segment) as f64 - self.before.segment as f64,
            resident: own(|m| m.resident, before.resident),
            heap: own(|m| m.heap, before.heap),
        }
    }
}

/// What a world of so many ranks takes when nobody talks.
fn silent(plan: &Plan, ranks: u32) -> Result<Taken, Error> {
    let mut watched = Watched::start(&Plan { ranks, ..plan.clone() })?;
    let (_, taken) = watched.exchange(0, 0)?;
    watched.world.stop()?;
    Ok(taken)
}

fn measure(args: &Pairs, plan: &Plan, bytes: u64) -> Result<Row, Error> {
    let rounds = args.common.rounds.unwrap_or(ROUNDS);
    let ranks = plan.ranks;
    let comparable = ranks >= LEAST_FOR_SILENCE && ranks.is_multiple_of(4) && step(ranks) == step(ranks / 2);
    let smaller =
        if comparable { Some((silent(plan, ranks / 2)?, silent(plan, ranks / 4 * 3)?)) } else { None };
    let mut watched = Watched::start(plan)?;
    let (_, quiet) = watched.exchange(bytes, 0)?;
    let (_, neighbours) = watched.exchange(bytes, 1)?;
    let (first_ms, all) = watched.exchange(bytes, u64::from(ranks))?;
    let mut later = Times::default();
    for _ in 0..rounds {
        let (ms, _) = watched.exchange(bytes, u64::from(ranks))?;
        later.add((ms * 1e6) as u64);
    }
    let setup_ms = watched.setup_ms;
    watched.world.stop()?;

    let r = f64::from(ranks);
    let pairs = r * (r - 1.0) / 2.0;
    // Two ranks are each other's only neighbours.
    let neighbouring = if ranks == 2 { 1.0 } else { r };
    let mut row = row("pairs", plan)
        .set("size_bytes", bytes)
        .set("rounds", rounds)
        .number("setup_ms", setup_ms)
        .number("rank_bytes_shared", quiet.segment / r)
        .number("rank_bytes_private", quiet.resident / r);
    if let Some((half, most)) = smaller {
        let of = |of: fn(&Taken) -> f64| per_silent_pair(r, of(&half), of(&most), of(&quiet));
        row = row
            .number("silent_pair_bytes_shared", of(|t| t.segment))
            .number("silent_pair_bytes_private", of(|t| t.resident))
            .number("silent_pair_bytes_heap", of(|t| t.heap));
    }
    Ok(row
        .number("neighbour_pair_bytes_shared", (neighbours.segment - quiet.segment) / neighbouring)
        .number("pair_bytes_shared", (all.segment - quiet.segment) / pairs)
        .number("pair_bytes_private", (all.resident - quiet.resident) / pairs)
        .number("first_exchange_ms", first_ms)
        .number("exchange_ms_p50", later.median() / 1e6)
        .set("verified", true))
}

/// Worlds of so many ranks reserve alike for each (`Geometry::for_ranks` in the transport, and the eager sizes that follow
/// from it).
fn step(ranks: u32) -> usize {
    [32, 64].into_iter().filter(|most| ranks > *most).count()
}

/// What grows with the square of the number of ranks, per pair: `ranks` squared are two times as many pairs, nearly.
fn per_silent_pair(ranks: f64, half: f64, three_quarters: f64, whole: f64) -> f64 {
    let square = (whole - 2.0 * three_quarters + half) / (0.125 * ranks * ranks);
    2.0 * square
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_worlds_that_reserve_alike_are_compared() {
        assert!(step(32) == step(16) && step(256) == step(129));
        assert!(step(64) != step(32) && step(128) != step(64));
    }

    #[test]
    fn only_what_grows_with_the_square_is_a_pairs() {
        let world = |square: f64| move |ranks: f64| 5000.0 + 300.0 * ranks + square * ranks * ranks;
        for square in [0.0, 7.0] {
            let of = world(square);
            let got = per_silent_pair(64.0, of(32.0), of(48.0), of(64.0));
            assert!((got - 2.0 * square).abs() < 1e-9, "{got}");
        }
    }
}
