//! `tocsin bench idle`: a compute loop with the library initialised and no traffic, against the same without.
//!
//! Sets of the same processes (or threads), bound alike: one with the library per backend, two without. Every round, each
//! set in turn does the same fixed work, a slice, while the others sleep; which one begins rotates, so that drift of the
//! machine cancels. A round pairs each slice with the library with one without; the two without make the null.

use super::{check, ignored, progress, ranks, row, us};
use crate::cli::Idle;
use crate::error::Error;
use crate::fleet::block::Task;
use crate::fleet::{Fleet, Plan};
use crate::plot::{self, curves, spread};
use crate::row::{Row, Sink};
use crate::stats::{Ratios, Times};
use crate::values::{Backend, Kind, Lmt};
use std::path::Path;
use tocsin_topology::Topology;

/// Slices per row at least.
const SLICES: u64 = 300;

pub(crate) fn run(args: &Idle) -> Result<(), Error> {
    let common = &args.common;
    ignored("idle", &[("--sizes", common.sizes.is_some()), ("--lmt", common.lmt != Lmt::Auto)]);
    plot::prepare(common.plot.as_deref())?;
    let cores = Topology::machine().map_err(Error::failed)?.cores.len() as u64;
    let mut sink = Sink::new(common.json);
    let mut rows = Vec::new();
    for ranks in ranks(common, cores.max(1)) {
        let plans = Plan::all(common, ranks, &[Backend::Auto])?;
        for kind in [Kind::Process, Kind::Thread] {
            let of_kind: Vec<Plan> = plans.iter().filter(|plan| plan.kind == kind).cloned().collect();
            if !of_kind.is_empty() {
                let measured = measure(args, of_kind)?;
                measured.iter().for_each(|row| sink.row(row));
                rows.extend(measured);
            }
        }
    }
    match &common.plot {
        Some(dir) => draw(dir, &rows),
        None => Ok(()),
    }
}

fn draw(dir: &Path, rows: &[Row]) -> Result<(), Error> {
    let chart = spread::Chart {
        file: "idle",
        title: "Is a rank without traffic as fast as without the library?",
        subtitle: "Speed of computing, medians of pairs of slices; the lines have eight of ten pairs; none: without, against without",
        x: "speed with the library / without",
    };
    let names = curves::Names::of(rows, &curves::OF_PLAN);
    let number = |row: &Row, key| row.as_number(key).unwrap_or(f64::NAN);
    let mut all: Vec<spread::Spread> = Vec::new();
    for row in rows {
        all.push(spread::Spread {
            name: names.name(row),
            low: number(row, "speed_ratio_p10"),
            median: number(row, "speed_ratio"),
            high: number(row, "speed_ratio_p90"),
        });
    }
    // One null for the backends of a kind and a number of ranks.
    for (at, row) in rows.iter().enumerate() {
        let null = row.clone().set("backend", "none");
        let (name, median) = (names.name(&null), number(row, "null_speed_ratio"));
        let same = |other: &Row| ["kind", "ranks"].iter().all(|key| other.get(key) == row.get(key));
        if !rows[..at].iter().any(same) {
            all.push(spread::Spread { name, low: f64::NAN, median, high: f64::NAN });
        }
    }
    plot::announce(&spread::draw(dir, &chart, &all)?);
    Ok(())
}

/// What the rounds of one world with the library add up to.
#[derive(Clone, Default)]
struct Sum {
    slices: Times,
    ratio: Ratios,
}

/// Worlds of one kind and number of ranks, interleaved.
fn measure(args: &Idle, plans: Vec<Plan>) -> Result<Vec<Row>, Error> {
    let rounds = args.common.rounds.unwrap_or(SLICES);
    let mut sums = vec![Sum::default(); plans.len()];
    let (mut without, mut null) = (Times::default(), Ratios::default());
    let Some(first) = plans.first() else { return Ok(Vec::new()) };
    let plain = Plan { backend: None, ..first.clone() };
    let worlds: Vec<Plan> = plans.iter().cloned().chain([plain.clone(), plain]).collect();
    let mut fleet = Fleet::start(&worlds)?;
    let work = fleet.speed.work_for_ns(args.slice_us as f64 * 1000.0);
    let mut round = vec![0u64; worlds.len()];
    let mut taken = 0;
    let bar = progress::bar(rounds, "idle");
    fleet.rounds(args.common.warmup, rounds, |at, counts, world| {
        let measured = world.run(Task::Compute { work })?;
        check(&measured, &world.plan, "a slice")?;
        round[at] = measured.iter().map(|m| m.t_comp).sum::<u64>() / u64::from(world.plan.ranks);
        taken += 1;
        if counts && taken % worlds.len() == 0 {
            let [with @ .., one, two] = round.as_slice() else { return Ok(()) };
            // Which of the two without is the pair alternates with the rounds.
            let (pair, other) =
                if (taken / worlds.len()).is_multiple_of(2) { (*one, *two) } else { (*two, *one) };
            without.add(pair);
            null.add(pair as f64 / other as f64);
            for (sum, with) in sums.iter_mut().zip(with) {
                sum.slices.add(*with);
                // Speed is the inverse of time.
                sum.ratio.add(pair as f64 / *with as f64);
            }
            bar.inc(1);
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    fleet.stop()?;
    let of_plan = |(plan, sum): (&Plan, &Sum)| {
        row("idle", plan)
            .set("rounds", rounds)
            .set("slices", sum.ratio.len())
            .number("slice_us", us(sum.slices.median()))
            .number("slice_us_without", us(without.median()))
            .number("speed_ratio", sum.ratio.median())
            .number("speed_ratio_p10", sum.ratio.percentile(10.0))
            .number("speed_ratio_p90", sum.ratio.percentile(90.0))
            .number("null_speed_ratio", null.median())
    };
    Ok(plans.iter().zip(&sums).map(of_plan).collect())
}
