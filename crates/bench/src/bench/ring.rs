//! `tocsin bench ring`: a message goes round all ranks, each of which waits for it, rewrites its own and sends that on.
//!
//! A round is a batch of laps; `min` and `p50` are over the batches' means. With more ranks than cores, it shows how a rank
//! that waits gives its core to the one that has work.

use super::{check, from_two_ranks, progress, row, sizes, us};
use crate::cli::Ring;
use crate::error::Error;
use crate::fleet::block::Task;
use crate::fleet::{Fleet, Plan};
use crate::plot::{self, curves};
use crate::row::Sink;
use crate::stats::Times;
use crate::values::Backend;

/// Batches per row.
const BATCHES: u64 = 40;
/// Laps per batch, and above 64 KiB.
const LAPS: u64 = 50;
const FEW_LAPS: u64 = 20;
/// Ranks when nothing else is asked for.
const RANKS: u64 = 4;
/// Times of a hop are kept in hundredths of a nanosecond, as those of a ping-pong.
const UNIT: f64 = 100.0;

pub(crate) fn run(args: &Ring) -> Result<(), Error> {
    plot::prepare(args.common.plot.as_deref())?;
    let mut sink = Sink::new(args.common.json);
    let mut rows = Vec::new();
    let rounds = args.common.rounds.unwrap_or(BATCHES);
    for ranks in from_two_ranks(&args.common, "ring", RANKS)? {
        let mut fleet = Fleet::start(&Plan::all(&args.common, ranks, &[Backend::Auto])?)?;
        for bytes in sizes(&args.common, &[8, 1 << 10, 64 << 10]) {
            let laps = if bytes > 64 << 10 { FEW_LAPS } else { LAPS };
            let hops = (laps * u64::from(ranks)) as f64;
            let mut hop: Vec<Times> = fleet.worlds.iter().map(|_| Times::default()).collect();
            let bar = progress::bar(rounds, "ring");
            fleet.rounds(args.common.warmup, rounds, |at, counts, world| {
                let measured = world.run(Task::Ring { bytes, laps })?;
                check(&measured, &world.plan, "a ring")?;
                if counts {
                    hop[at].add((measured[0].t_comm as f64 / hops * UNIT) as u64);
                    bar.inc(u64::from(at == 0));
                }
                Ok(())
            })?;
            bar.finish_and_clear();
            for (world, hop) in fleet.worlds.iter().zip(&hop) {
                rows.push(
                    row("ring", &world.plan)
                        .set("size_bytes", bytes)
                        .set("rounds", rounds)
                        .set("laps", laps)
                        .number("hop_us_min", us(hop.min() / UNIT))
                        .number("hop_us_p50", us(hop.median() / UNIT))
                        .set("verified", true),
                );
                rows.last().into_iter().for_each(|row| sink.row(row));
            }
        }
        fleet.stop()?;
    }
    if let Some(dir) = &args.common.plot {
        let chart = curves::Chart {
            file: "ring",
            title: "How long a message takes from rank to rank",
            subtitle: "Of a message that goes round all ranks, each of which waits for it (median of batches); lower is better",
            x: "message size",
            y: "from one rank to the next (µs)",
            x_is_bytes: true,
        };
        let series = curves::of_rows(&rows, &curves::OF_PLAN, "size_bytes", "hop_us_p50");
        plot::announce(&curves::draw(dir, &chart, &series)?);
    }
    Ok(())
}
