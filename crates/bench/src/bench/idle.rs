//! `tocsin bench idle`: a compute loop with the library initialised and no traffic, against the same without.
//!
//! Three sets of the same processes (or threads), bound alike: one with the library, two without. Every slice, each
//! set in turn does the same fixed work while the others sleep; which one begins rotates, so that drift of the machine
//! cancels. A round pairs a slice with the library with one without; the two without make the null.

use super::{check, progress, ranks, row, us};
use crate::cli::Idle;
use crate::error::Error;
use crate::fleet::block::Task;
use crate::fleet::{Fleet, Plan};
use crate::row::Sink;
use crate::stats::{Ratios, Times};
use crate::values::Backend;
use tocsin_topology::Topology;

/// Slices per row at least (command-line.md).
const SLICES: u64 = 300;

pub(crate) fn run(args: &Idle) -> Result<(), Error> {
    let cores = Topology::machine().map_err(Error::failed)?.cores.len() as u64;
    let rounds = args.common.rounds.unwrap_or(SLICES);
    let mut sink = Sink::new(args.common.json);
    for ranks in ranks(&args.common, cores.max(1)) {
        for plan in Plan::all(&args.common, ranks, &[Backend::Auto])? {
            let plain = Plan { backend: None, ..plan.clone() };
            let mut fleet = Fleet::start(&[plan.clone(), plain.clone(), plain])?;
            let work = fleet.speed.work_for_ns(args.slice_us as f64 * 1000.0);
            let mut slices: Vec<Times> = (0..3).map(|_| Times::default()).collect();
            let (mut ratio, mut null) = (Ratios::default(), Ratios::default());
            let mut round = [0u64; 3];
            let mut taken = 0;
            let bar = progress::bar(rounds, &format!("idle, {}", plan.backend_name()));
            fleet.rounds(args.common.warmup, rounds, |at, counts, world| {
                let measured = world.run(Task::Compute { work })?;
                check(&measured, &world.plan, "a slice")?;
                round[at] = measured.iter().map(|m| m.t_comp).sum::<u64>() / u64::from(world.plan.ranks);
                taken += 1;
                if counts {
                    slices[at].add(round[at]);
                }
                if counts && taken % 3 == 0 {
                    let [with, without, again] = round.map(|ns| ns as f64);
                    // Speed is the inverse of time. Which of the two without is the pair rotates with the rounds.
                    let (pair, other) = if taken % 2 == 0 { (without, again) } else { (again, without) };
                    ratio.add(pair / with);
                    null.add(pair / other);
                    bar.inc(1);
                }
                Ok(())
            })?;
            bar.finish_and_clear();
            fleet.stop()?;
            sink.row(
                &row("idle", &plan)
                    .set("rounds", rounds)
                    .set("slices", ratio.len())
                    .number("slice_us", us(slices[0].median()))
                    .number("slice_us_without", us(slices[1].median()))
                    .number("speed_ratio", ratio.median())
                    .number("speed_ratio_p10", ratio.percentile(10.0))
                    .number("speed_ratio_p90", ratio.percentile(90.0))
                    .number("null_speed_ratio", null.median()),
            );
        }
    }
    Ok(())
}
