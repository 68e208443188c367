//! `tocsin bench contention`: what transfers and computing on large arrays take from each other.
//!
//! After Swartvagher's study of memory contention: STREAM's copy and triad on arrays that no cache holds, with a repeat factor
//! that sets the arithmetic intensity, beside messages of all sizes. Each round measures computing alone (twice: the null),
//! communication alone, computing while messages go to and fro, and communication while the others compute; the rounds of the
//! backends alternate. What is measured is a fixed amount of work, and what disturbs it goes on until that is done.
//!
//! With `--computing 0` there are two ranks, and the one that receives computes: it has posted its receives, so that the
//! messages' progress comes out of its own time. Both are then measured at once, for about the same time alone.

use super::{check, most, progress, row, sizes, two_ranks, us};
use crate::cli::Contention;
use crate::error::Error;
use crate::fleet::block::{Load, Measured, Phase, Task};
use crate::fleet::{Fleet, Plan, World};
use crate::plot::{self, curves};
use crate::row::{Row, Sink};
use crate::stats::{Ratios, Times};
use crate::values::{Backend, Kernel};
use std::path::Path;
use tocsin_topology::Topology;
use tocsin_world::say;

/// Rounds when nothing else is asked for.
const ROUNDS: u64 = 15;
/// Rounds that find how long a pass and a message take.
const PILOT_ROUNDS: u64 = 5;
/// What one rank moves to and fro, or has receives posted for, in one measurement at most.
const MOST_BYTES: u64 = 64 << 20;
/// Messages, and passes, of one measurement at most.
const MOST_TRIPS: u64 = 500;
const MOST_PASSES: u64 = 1000;
/// How long each side's measurement is to last at least, alone: many times what a clock and a wake-up cost.
const LEAST_NS: f64 = 2e6;

pub(crate) fn run(args: &Contention) -> Result<(), Error> {
    two_ranks(&args.common, "contention").map_err(|_| {
        Error::Usage("bench contention has two ranks and those of --computing: leave --ranks out".into())
    })?;
    plot::prepare(args.common.plot.as_deref())?;
    let cores = Topology::machine().map_err(Error::failed)?.cores.len() as u64;
    let computing = match &args.computing {
        Some(list) => list.0.clone(),
        None => (0..=cores.saturating_sub(2)).collect(),
    };
    let mut sink = Sink::new(args.common.json);
    let mut rows = Vec::new();
    for computing in computing {
        if computing + 2 > cores {
            say(format_args!(
                "tocsin bench contention: {} ranks share {cores} cores: they take more than memory from each other",
                computing + 2
            ));
        }
        let plans = Plan::all(&args.common, computing as u32 + 2, &[Backend::Auto])?;
        let mut fleet = Fleet::start(&plans)?;
        for load in loads(args) {
            for bytes in sizes(&args.common, &[4, 4 << 10, 64 << 10, 1 << 20, 64 << 20]) {
                let cell = Cell { load, bytes, beside: computing > 0 };
                let measured = cell.measure(args, &mut fleet)?;
                measured.iter().for_each(|row| sink.row(row));
                rows.extend(measured);
            }
        }
        fleet.stop()?;
    }
    match &args.common.plot {
        Some(dir) => draw(dir, &rows),
        None => Ok(()),
    }
}

/// What each side keeps of its speed, over the message sizes; and over the arithmetic intensities, if there are several.
fn draw(dir: &Path, rows: &[Row]) -> Result<(), Error> {
    let communication = curves::Chart {
        file: "contention-communication",
        title: "What do transfers keep of their speed beside computing?",
        subtitle: "Speed beside computing / speed alone (median of rounds); 1: nothing is lost",
        x: "message size",
        y: "speed beside computing / alone",
        x_is_bytes: true,
    };
    let computing = curves::Chart {
        file: "contention-computing",
        title: "What does computing keep of its speed beside transfers?",
        subtitle: "Speed beside messages / speed alone, the slowest rank's (median of rounds); 1: nothing is lost",
        x: "message size",
        y: "speed beside messages / alone",
        x_is_bytes: true,
    };
    let mut keys = curves::OF_PLAN.to_vec();
    keys.retain(|(key, _)| *key != "ranks");
    keys.push(("computing", " computing"));
    let mut paths = Vec::new();
    for (chart, of_intensity, y) in [
        (communication, "contention-communication-intensity", "comm_speed_ratio"),
        (computing, "contention-computing-intensity", "compute_speed_ratio"),
    ] {
        let mut of_sizes = keys.clone();
        of_sizes.extend([("kernel", ""), ("repeat", "x")]);
        let series = curves::of_rows(rows, &of_sizes, "size_bytes", y);
        paths.extend(curves::draw(dir, &chart, &series)?);
        let intensity = "flop_per_byte";
        if rows.windows(2).any(|pair| pair[0].get(intensity) != pair[1].get(intensity)) {
            let chart = curves::Chart {
                file: of_intensity,
                x: "arithmetic intensity (flop/byte)",
                x_is_bytes: false,
                ..chart
            };
            let mut of_intensities = keys.clone();
            of_intensities.push(("size_bytes", ""));
            let series = curves::of_rows(rows, &of_intensities, intensity, y);
            paths.extend(curves::draw(dir, &chart, &series)?);
        }
    }
    plot::announce(&paths);
    Ok(())
}

/// What is computed, one after the other. A copy has nothing to repeat.
fn loads(args: &Contention) -> Vec<Load> {
    let of_kernel = |kernel: &Kernel| {
        let repeats = if *kernel == Kernel::Copy { &[1][..] } else { &args.repeat.0 };
        repeats
            .iter()
            .map(|repeat| Load { kernel: *kernel, repeat: *repeat, bytes: args.array })
            .collect::<Vec<_>>()
    };
    args.kernel.iter().flat_map(of_kernel).collect()
}

/// Bytes that a pass moves between memory and core, and floating-point operations per byte.
fn traffic(load: Load) -> (f64, f64) {
    match load.kernel {
        Kernel::Copy => (2.0 * load.bytes as f64, 0.0),
        Kernel::Triad => (3.0 * load.bytes as f64, 2.0 * load.repeat as f64 / 24.0),
    }
}

/// One combination.
struct Cell {
    load: Load,
    bytes: u64,
    /// Whether others compute than those that communicate.
    beside: bool,
}

/// How much of each is measured at once.
#[derive(Clone, Copy)]
struct Amount {
    trips: u64,
    passes: u64,
}

/// What the rounds of one world add up to.
#[derive(Default)]
struct Sum {
    t_comp: Times,
    t_comp_beside: Times,
    t_comm: Times,
    t_comm_beside: Times,
    computing: Ratios,
    communication: Ratios,
    null: Ratios,
    interrupts: u64,
}

/// The slowest rank's computing, and rank 0's communication.
fn times(measured: &[Measured]) -> (u64, u64) {
    (most(measured, |m| m.t_comp), measured[0].t_comm)
}

impl Cell {
    fn run(&self, world: &mut World, amount: Amount, phase: Phase) -> Result<Vec<Measured>, Error> {
        let Amount { trips, passes } = amount;
        let task = Task::Contend { bytes: self.bytes, trips, load: self.load, passes, phase };
        let measured = world.run(task)?;
        check(&measured, &world.plan, "contention")?;
        Ok(measured)
    }

    /// Most messages at once.
    fn most_trips(&self) -> u64 {
        (MOST_BYTES / self.bytes.max(1)).clamp(1, MOST_TRIPS)
    }

    /// As much of each as takes about the same time.
    fn amounts(&self, fleet: &mut Fleet) -> Result<Vec<Amount>, Error> {
        let mut times_alone: Vec<(Times, Times)> = fleet.worlds.iter().map(|_| Default::default()).collect();
        let some = Amount { trips: self.most_trips().min(20), passes: 1 };
        fleet.rounds(1, PILOT_ROUNDS, |at, counts, world| {
            let (t_comp, _) = times(&self.run(world, some, Phase::ComputingAlone)?);
            let (_, t_comm) = times(&self.run(world, some, Phase::CommunicationAlone)?);
            if counts {
                times_alone[at].0.add(t_comp);
                times_alone[at].1.add(t_comm);
            }
            Ok(())
        })?;
        let amount = |(pass, trips): &(Times, Times)| {
            let (pass, trip) = (pass.median().max(1.0), (trips.median() / some.trips as f64).max(1.0));
            let trips = (pass.max(LEAST_NS) / trip).ceil().clamp(1.0, self.most_trips() as f64);
            let passes = (trips * trip / pass).max(LEAST_NS / pass).ceil().clamp(1.0, MOST_PASSES as f64);
            Amount { trips: trips as u64, passes: passes as u64 }
        };
        Ok(times_alone.iter().map(amount).collect())
    }

    fn round(&self, world: &mut World, amount: Amount, sum: Option<&mut Sum>) -> Result<(), Error> {
        let alone = self.run(world, amount, Phase::ComputingAlone)?;
        let again = most(&alone, |m| m.t_comp_again);
        let (t_comp, _) = times(&alone);
        let (_, t_comm) = times(&self.run(world, amount, Phase::CommunicationAlone)?);
        let both = self.run(world, amount, Phase::CommunicationBeside)?;
        let (mut t_comp_beside, t_comm_beside) = times(&both);
        if self.beside {
            (t_comp_beside, _) = times(&self.run(world, amount, Phase::ComputingBeside)?);
        }
        let Some(sum) = sum else { return Ok(()) };
        sum.t_comp.add(t_comp);
        sum.t_comp_beside.add(t_comp_beside);
        sum.t_comm.add(t_comm);
        sum.t_comm_beside.add(t_comm_beside);
        // Speed is the inverse of time.
        sum.computing.add(t_comp as f64 / t_comp_beside as f64);
        sum.communication.add(t_comm as f64 / t_comm_beside as f64);
        sum.null.add(t_comp as f64 / again as f64);
        sum.interrupts += both.iter().map(|m| m.interrupts).sum::<u64>();
        Ok(())
    }

    fn measure(&self, args: &Contention, fleet: &mut Fleet) -> Result<Vec<Row>, Error> {
        let rounds = args.common.rounds.unwrap_or(ROUNDS);
        let amounts = self.amounts(fleet)?;
        let mut sums: Vec<Sum> = amounts.iter().map(|_| Sum::default()).collect();
        let bar = progress::bar(rounds, &format!("contention, {}", self.load.kernel));
        fleet.rounds(args.common.warmup, rounds, |at, counts, world| {
            self.round(world, amounts[at], counts.then_some(&mut sums[at]))?;
            bar.inc(u64::from(counts && at == 0));
            Ok(())
        })?;
        bar.finish_and_clear();
        let rows = fleet.worlds.iter().zip(&sums).zip(&amounts);
        Ok(rows.map(|((world, sum), amount)| self.row(&world.plan, sum, *amount, rounds)).collect())
    }

    fn row(&self, plan: &Plan, sum: &Sum, amount: Amount, rounds: u64) -> Row {
        let Amount { trips, passes } = amount;
        let (pass_bytes, intensity) = traffic(self.load);
        let ways = if self.beside { 2.0 } else { 1.0 };
        let moved = ways * self.bytes as f64 * trips as f64;
        let row = row("contention", plan)
            .set("size_bytes", self.bytes)
            .set("rounds", rounds)
            .set("kernel", self.load.kernel.to_string())
            .set("repeat", self.load.repeat)
            .number("flop_per_byte", intensity)
            .set("array_bytes", self.load.bytes)
            .set("computing", plan.ranks - 2)
            .set("messages", ways as u64 * trips)
            .set("passes", passes)
            .number("t_comp_us", us(sum.t_comp.median()))
            .number("t_comp_beside_us", us(sum.t_comp_beside.median()))
            .number("compute_speed_ratio", sum.computing.median())
            .number("null_speed_ratio", sum.null.median())
            .number("compute_gbps", pass_bytes * passes as f64 / sum.t_comp.median())
            .number("t_comm_us", us(sum.t_comm.median()))
            .number("t_comm_beside_us", us(sum.t_comm_beside.median()))
            .number("comm_speed_ratio", sum.communication.median());
        let row = match self.bytes {
            0 => row,
            _ => row.number("bandwidth_gbps", moved / sum.t_comm.median()),
        };
        // Of those that compute beside others, none has traffic.
        let row = match self.beside {
            true => row,
            false => row.number("interrupts", sum.interrupts as f64 / rounds as f64),
        };
        row.set("verified", true)
    }
}
