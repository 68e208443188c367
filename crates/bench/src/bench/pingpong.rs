//! `tocsin bench pingpong`: half round trip and bandwidth.
//!
//! malloc'ed buffers; the sender rewrites its buffer (a store in every 64-byte line) before each send. A round is a
//! batch of 500 round trips, 20 above 64 KiB; `min` and `p50` are over the batches' means. Of more than two ranks, two play
//! and the others wait for a message, inside the library.
//!
//! `bytes_once_by`: how much of a message was copied once, and by which way, mean of the rounds; the rest went through the lanes, in two copies. Ways of nothing are left out.
//!
//! With `--count`, what happened to the threads of both while a message travelled, median of the batches: `events_per_message`; or why that is
//! not known.

use super::{check, from_two_ranks, progress, row, sizes, us};
use crate::cli::Pingpong;
use crate::error::Error;
use crate::events::why;
use crate::fleet::block::Task;
use crate::fleet::{Fleet, Plan};
use crate::plot::{self, curves};
use crate::row::Sink;
use crate::stats::Times;
use crate::values::Backend;
use serde_json::{Map, Value};

/// Fewer batches than this are not asked for by default.
const BATCHES: u64 = 40;

/// The ways of one copy.
const WAYS: [&str; 4] = ["memory", "kernel", "knem", "pages"];

/// Times of a half round trip are kept in hundredths of a nanosecond: a thousandth of a nanosecond would be noise, a
/// whole one is much for a batch's mean.
const UNIT: f64 = 100.0;

pub(crate) fn run(args: &Pingpong) -> Result<(), Error> {
    plot::prepare(args.common.plot.as_deref())?;
    let mut sink = Sink::new(args.common.json);
    let mut series = Vec::new();
    for ranks in from_two_ranks(&args.common, "pingpong", 2)? {
        series.extend(measure(args, ranks, &mut sink)?);
    }
    if let Some(dir) = &args.common.plot {
        let chart = curves::Chart {
            file: "pingpong",
            title: "How long a message takes",
            subtitle: "Half a round trip between two ranks (median of batches); lower is better",
            x: "message size",
            y: "half round trip (µs)",
            x_is_bytes: true,
        };
        plot::announce(&curves::draw(dir, &chart, &series)?);
    }
    Ok(())
}

/// The rows of one number of ranks, and the curves of its plans.
fn measure(args: &Pingpong, ranks: u32, sink: &mut Sink) -> Result<Vec<curves::Series>, Error> {
    let plans = Plan::all(&args.common, ranks, &[Backend::Auto])?;
    let sizes = sizes(&args.common, &[0, 8, 64, 512, 4 << 10, 64 << 10, 1 << 20, 4 << 20]);
    let rounds = args.common.rounds.unwrap_or(BATCHES);
    let mut fleet = Fleet::start(&plans)?;
    let named = |plan: &Plan| match plan.ranks {
        2 => format!("{} ({})", plan.label(), plan.kind),
        ranks => format!("{} ({}, {ranks} ranks)", plan.label(), plan.kind),
    };
    let mut series: Vec<curves::Series> = plans.iter().map(|p| curves::Series::new(named(p))).collect();
    let bar = progress::bar(sizes.len() as u64 * rounds, "ping-pong");
    for &bytes in &sizes {
        let trips = if bytes > 64 << 10 { 20 } else { 500 };
        let mut half: Vec<Times> = plans.iter().map(|_| Times::default()).collect();
        let mut events: Vec<Times> = plans.iter().map(|_| Times::default()).collect();
        let mut refused = None;
        let mut once = vec![[0u64; WAYS.len()]; plans.len()];
        fleet.rounds(args.common.warmup, rounds, |at, counts, world| {
            let measured = world.run(Task::Pingpong { bytes, trips, count: args.count })?;
            check(&measured, &world.plan, "a ping-pong")?;
            if counts {
                for m in &measured {
                    let ways = [m.once_in_place, m.once_by_kernel, m.once_by_knem, m.once_by_pages];
                    once[at].iter_mut().zip(ways).for_each(|(sum, bytes)| *sum += bytes);
                }
                half[at].add((measured[0].t_comm as f64 / trips as f64 / 2.0 * UNIT) as u64);
                let of_both = || measured.iter().take(2);
                events[at].add(of_both().map(|m| m.counted).sum());
                refused = refused.or(of_both().map(|m| m.not_counted as i32).find(|error| *error != 0));
                bar.inc(u64::from(at == 0));
            }
            Ok(())
        })?;
        let of_plans = plans.iter().zip(&half).zip(&events).zip(&once);
        for ((((plan, half), events), once), series) in of_plans.zip(&mut series) {
            // Both send as many messages as there are round trips.
            let messages = 2 * trips * rounds.max(1);
            let once = WAYS.into_iter().zip(once.map(|bytes| bytes / messages));
            let once: Map<String, Value> =
                once.filter(|(_, bytes)| *bytes > 0).map(|(way, bytes)| (way.into(), bytes.into())).collect();
            let per_message = match (args.count, refused) {
                (Some(_), None) => events.median() / (2 * trips) as f64,
                _ => f64::NAN,
            };
            let (min, p50) = (us(half.min() / UNIT), us(half.median() / UNIT));
            series.points.push((bytes as f64, p50));
            sink.row(
                &row("pingpong", plan)
                    .set("size_bytes", bytes)
                    .set("rounds", rounds)
                    .set("round_trips", trips)
                    .number("half_rtt_us_min", min)
                    .number("half_rtt_us_p50", p50)
                    .number("bandwidth_gbps", if bytes > 0 { bytes as f64 / p50 / 1000.0 } else { f64::NAN })
                    .set("bytes_once_by", once)
                    .set("event", args.count.map(|event| event.to_string()))
                    .number("events_per_message", per_message)
                    .set("not_counted", args.count.zip(refused).map(|(event, error)| why(event, error)))
                    .set("verified", true),
            );
        }
    }
    bar.finish_and_clear();
    fleet.stop()?;
    Ok(series)
}
