//! `tocsin bench rate`: messages per second from one rank to another, many of them under way at once.
//!
//! The sender starts a window of sends, waits for all, and for a short answer that the receiver sends when all of its
//! receives are complete. Each message has buffers of its own, which the sender rewrites (a store in every 64-byte line). A
//! round is a batch of windows; the time of a message is the sender's for the batch, answers included, over their number;
//! `min` and `p50` are over the rounds. Receives are posted early, before the first message of their window is sent
//! (while the window before is under way), or late, when the last one is in the lane: each of those messages is kept first, and
//! then received. Or they are posted early by a rank that computes then, 1 us for each message; the time is that of the sends until all are complete then, and
//! `interrupts` how often both ranks were interrupted for a window. Or both sides use calls that wait, for one message after the other: with a window of thousands, a stream
//! that the lane has no room for. Of more than two ranks, each even one sends to the next; the slowest pair's time counts.

use super::{check, from_two_ranks, most, progress, row, sizes};
use crate::cli::Rate;
use crate::error::Error;
use crate::fleet::block::Task;
use crate::fleet::{Fleet, Plan};
use crate::plot::{self, curves};
use crate::row::{Row, Sink};
use crate::stats::Times;
use crate::values::{Backend, Receives};
use std::path::Path;

/// Batches per row.
const BATCHES: u64 = 40;
/// A batch has windows enough for so many messages.
const MESSAGES: u64 = 6400;
/// Most that the receives of a window may hold.
const MOST_BYTES: u64 = 1 << 29;
/// A receiver that computes does so for so long for each message.
const COMPUTING_NS: f64 = 1000.0;
/// Times of a message are kept in hundredths of a nanosecond, as those of a ping-pong.
const UNIT: f64 = 100.0;

pub(crate) fn run(args: &Rate) -> Result<(), Error> {
    plot::prepare(args.common.plot.as_deref())?;
    let sizes = sizes(&args.common, &[8, 64, 1 << 10]);
    let widest = args.window.0.iter().max().copied().unwrap_or(1);
    if let Some(bytes) = sizes.iter().find(|bytes| bytes.saturating_mul(widest) > MOST_BYTES) {
        let what = format!(
            "a window of {widest} messages of {bytes} B holds more than 512 MiB: ask for fewer or smaller ones"
        );
        return Err(Error::Usage(what));
    }
    let all = from_two_ranks(&args.common, "rate", 2)?;
    if let Some(odd) = all.iter().find(|ranks| !ranks.is_multiple_of(2)) {
        return Err(Error::Usage(format!("bench rate is between pairs: {odd} ranks are an odd number")));
    }
    let mut sink = Sink::new(args.common.json);
    let mut rows = Vec::new();
    for ranks in all {
        let mut fleet = Fleet::start(&Plan::all(&args.common, ranks, &[Backend::Auto])?)?;
        for &bytes in &sizes {
            for &window in &args.window.0 {
                for &receives in &args.receives {
                    let measured = measure(&mut fleet, args, Windows { bytes, window, receives })?;
                    measured.iter().for_each(|row| sink.row(row));
                    rows.extend(measured);
                }
            }
        }
        fleet.stop()?;
    }
    match &args.common.plot {
        Some(dir) => draw(dir, &rows, &args.window.0, sizes.len()),
        None => Ok(()),
    }
}

/// Over the sizes, or over the windows when there is but one size.
fn draw(dir: &Path, rows: &[Row], windows: &[u64], sizes: usize) -> Result<(), Error> {
    let of_windows = sizes == 1 && windows.len() > 1;
    let chart = curves::Chart {
        file: "rate",
        title: "How many messages go in a second",
        subtitle: "Of all pairs together, answers to each window included (median of batches); higher is better",
        x: if of_windows { "messages under way at once" } else { "message size" },
        y: "million messages per second",
        x_is_bytes: !of_windows,
    };
    let (x, other) = match of_windows {
        true => ("window", ("size_bytes", "")),
        false => ("size_bytes", ("window", " at once")),
    };
    let mut keys = curves::OF_PLAN.to_vec();
    keys.extend([("receives", " receives"), other]);
    let mut series = curves::of_rows(rows, &keys, x, "messages_per_s");
    series.iter_mut().flat_map(|series| &mut series.points).for_each(|point| point.1 /= 1e6);
    plot::announce(&curves::draw(dir, &chart, &series)?);
    Ok(())
}

#[derive(Clone, Copy)]
struct Windows {
    bytes: u64,
    window: u64,
    receives: Receives,
}

fn measure(fleet: &mut Fleet, args: &Rate, of: Windows) -> Result<Vec<Row>, Error> {
    let Windows { bytes, window, receives } = of;
    let rounds = args.common.rounds.unwrap_or(BATCHES);
    let windows = MESSAGES.div_ceil(window);
    let work = match receives {
        Receives::Computing => fleet.speed.work_for_ns(window as f64 * COMPUTING_NS),
        Receives::Early | Receives::Late | Receives::Blocking => 0,
    };
    let mut each: Vec<Times> = fleet.worlds.iter().map(|_| Times::default()).collect();
    let mut interrupts = vec![0; fleet.worlds.len()];
    let bar = progress::bar(rounds, &format!("rate, {receives}"));
    fleet.rounds(args.common.warmup, rounds, |at, counts, world| {
        let measured = world.run(Task::Rate { bytes, window, windows, receives, work })?;
        check(&measured, &world.plan, "a window of messages")?;
        if counts {
            let taken = most(&measured, |m| m.t_comm) as f64;
            each[at].add((taken / (window * windows) as f64 * UNIT) as u64);
            interrupts[at] += measured.iter().map(|m| m.interrupts).sum::<u64>();
            bar.inc(u64::from(at == 0));
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    let mut rows = Vec::new();
    for ((world, each), interrupts) in fleet.worlds.iter().zip(&each).zip(interrupts) {
        let pairs = f64::from(world.plan.ranks / 2);
        let (min, p50) = (each.min() / UNIT, each.median() / UNIT);
        rows.push(
            row("rate", &world.plan)
                .set("size_bytes", bytes)
                .set("rounds", rounds)
                .set("receives", receives.to_string())
                .set("window", window)
                .set("windows", windows)
                .number("message_ns_min", min)
                .number("message_ns_p50", p50)
                .number("messages_per_s", pairs * 1e9 / p50)
                .number("interrupts", interrupts as f64 / (rounds * windows) as f64)
                .set("verified", true),
        );
    }
    Ok(rows)
}
