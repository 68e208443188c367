//! `tocsin bench exchange`: every rank sends to the next and receives from the one before at once, and waits for both: by one call (sendrecv), or by
//! irecv, isend and two waits (posts), as programs do that exchange the borders of their parts of a grid.
//!
//! Each rank rewrites what it sends before each exchange. A round is a batch of exchanges, whose time is the slowest rank's; `min` and `p50` are over the
//! batches' means.

use super::{check, from_two_ranks, most, progress, row, sizes, us};
use crate::cli::Exchange;
use crate::error::Error;
use crate::fleet::block::Task;
use crate::fleet::{Fleet, Plan};
use crate::plot::{self, curves};
use crate::row::Sink;
use crate::stats::Times;
use crate::values::Backend;

/// Batches per row.
const BATCHES: u64 = 40;
/// Exchanges per batch, and above 64 KiB.
const TRIPS: u64 = 500;
const FEW_TRIPS: u64 = 20;
/// Times of an exchange are kept in hundredths of a nanosecond, as those of a ping-pong.
const UNIT: f64 = 100.0;

pub(crate) fn run(args: &Exchange) -> Result<(), Error> {
    plot::prepare(args.common.plot.as_deref())?;
    let mut sink = Sink::new(args.common.json);
    let mut rows = Vec::new();
    let rounds = args.common.rounds.unwrap_or(BATCHES);
    for ranks in from_two_ranks(&args.common, "exchange", 2)? {
        let mut fleet = Fleet::start(&Plan::all(&args.common, ranks, &[Backend::Auto])?)?;
        for bytes in sizes(&args.common, &[8, 1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20]) {
            let trips = if bytes > 64 << 10 { FEW_TRIPS } else { TRIPS };
            for &waits in &args.waits {
                let mut each: Vec<Times> = fleet.worlds.iter().map(|_| Times::default()).collect();
                let bar = progress::bar(rounds, &format!("exchange, {waits}"));
                fleet.rounds(args.common.warmup, rounds, |at, counts, world| {
                    let measured = world.run(Task::BothWays { bytes, trips, waits })?;
                    check(&measured, &world.plan, "an exchange")?;
                    if counts {
                        let slowest = most(&measured, |m| m.t_comm);
                        each[at].add((slowest as f64 / trips as f64 * UNIT) as u64);
                        bar.inc(u64::from(at == 0));
                    }
                    Ok(())
                })?;
                bar.finish_and_clear();
                for (world, each) in fleet.worlds.iter().zip(&each) {
                    rows.push(
                        row("exchange", &world.plan)
                            .set("size_bytes", bytes)
                            .set("rounds", rounds)
                            .set("waits", waits.to_string())
                            .set("trips", trips)
                            .number("exchange_us_min", us(each.min() / UNIT))
                            .number("exchange_us_p50", us(each.median() / UNIT))
                            .set("verified", true),
                    );
                    rows.last().into_iter().for_each(|row| sink.row(row));
                }
            }
        }
        fleet.stop()?;
    }
    if let Some(dir) = &args.common.plot {
        let chart = curves::Chart {
            file: "exchange",
            title: "How long a message each way takes",
            subtitle: "Every rank sends to the next and receives from the one before at once (median of batches); lower is better",
            x: "message size",
            y: "an exchange (µs)",
            x_is_bytes: true,
        };
        let mut keys = curves::OF_PLAN.to_vec();
        keys.push(("waits", ""));
        plot::announce(&curves::draw(
            dir,
            &chart,
            &curves::of_rows(&rows, &keys, "size_bytes", "exchange_us_p50"),
        )?);
    }
    Ok(())
}
