//! `tocsin bench outstanding`: time per completed request with many receives outstanding.
//!
//! Rank 1 posts receives with tags of their own; rank 0 then sends as many messages in shuffled order of tags. The time
//! is that from before the first send to after the last completion, over the number of requests; posting is timed apart.
//! A round has several batches of few requests, and its time is their median, so that few outstanding are measured as well
//! as many. The numbers take turns, and `to_first` is the median over the rounds of what one has against the first
//! number of the same round.

use super::{check, progress, row, sizes, two_ranks};
use crate::cli::Outstanding;
use crate::error::Error;
use crate::fleet::block::{Measured, Task};
use crate::fleet::{Fleet, Plan};
use crate::plot::{self, curves};
use crate::row::{Row, Sink};
use crate::stats::{Ratios, Times};
use crate::values::{Backend, Completion};

/// Rounds when nothing else is asked for.
const ROUNDS: u64 = 20;
/// A round has batches enough for so many requests, but at most so many batches.
const REQUESTS: u64 = 10_000;
const MOST_BATCHES: u64 = 100;
/// Most that all the receives together may hold.
const MOST_BYTES: u64 = 1 << 30;
/// Times per request are kept in hundredths of a nanosecond.
const UNIT: f64 = 100.0;

pub(crate) fn run(args: &Outstanding) -> Result<(), Error> {
    plot::prepare(args.common.plot.as_deref())?;
    let ranks = two_ranks(&args.common, "outstanding")?;
    let sizes = sizes(&args.common, &[8]);
    let most = args.count.0.iter().max().copied().unwrap_or(1);
    if let Some(bytes) = sizes.iter().find(|bytes| bytes.saturating_mul(most) > MOST_BYTES) {
        let what =
            format!("{most} receives of {bytes} B hold more than 1 GiB: ask for fewer or smaller ones");
        return Err(Error::Usage(what));
    }
    let mut fleet = Fleet::start(&Plan::all(&args.common, ranks, &[Backend::Auto])?)?;
    let mut sink = Sink::new(args.common.json);
    let mut rows = Vec::new();
    for &bytes in &sizes {
        for &completion in &args.completion {
            let measured = measure(&mut fleet, args, bytes, completion)?;
            measured.iter().for_each(|row| sink.row(row));
            rows.extend(measured);
        }
    }
    fleet.stop()?;
    if let Some(dir) = &args.common.plot {
        let chart = curves::Chart {
            file: "outstanding",
            title: "What a request costs when many are outstanding",
            subtitle: "From the first message of a batch to its last completion, per request (median of rounds); flat is good, lower is better",
            x: "receives outstanding",
            y: "time per request (ns)",
            x_is_bytes: false,
        };
        let mut keys = curves::OF_PLAN.to_vec();
        keys.extend([("completion", ""), ("size_bytes", "")]);
        let series = curves::of_rows(&rows, &keys, "outstanding", "request_ns_p50");
        plot::announce(&curves::draw(dir, &chart, &series)?);
    }
    Ok(())
}

fn batches_of(count: u64) -> u64 {
    REQUESTS.div_ceil(count).min(MOST_BATCHES)
}

/// What the rounds of one number of requests in one world add up to.
#[derive(Clone)]
struct Sum {
    each: Times,
    /// Of a batch.
    least: f64,
    post: Times,
    to_first: Ratios,
    interrupts: u64,
    /// That of the round.
    last: f64,
}

fn measure(
    fleet: &mut Fleet,
    args: &Outstanding,
    bytes: u64,
    completion: Completion,
) -> Result<Vec<Row>, Error> {
    let rounds = args.common.rounds.unwrap_or(ROUNDS);
    let counts = &args.count.0;
    let mut sums = vec![vec![Sum::new(); counts.len()]; fleet.worlds.len()];
    let bar = progress::bar(rounds, &format!("outstanding, {completion}"));
    fleet.rounds(args.common.warmup, rounds, |at, is_measured, world| {
        for (which, &count) in counts.iter().enumerate() {
            let batches = batches_of(count);
            let callbacks = completion == Completion::Callback;
            let measured = world.run(Task::Outstanding { bytes, count, batches, callbacks })?;
            check(&measured, &world.plan, "outstanding receives")?;
            if is_measured {
                let of_world = &mut sums[at];
                of_world[which].add(&measured, count);
                let to_first = of_world[which].last / of_world[0].last;
                of_world[which].to_first.add(to_first);
            }
        }
        bar.inc(u64::from(is_measured && at == 0));
        Ok(())
    })?;
    bar.finish_and_clear();
    let mut rows = Vec::new();
    for (world, sums) in fleet.worlds.iter().zip(&sums) {
        for (&count, sum) in counts.iter().zip(sums) {
            let batches = batches_of(count);
            rows.push(
                row("outstanding", &world.plan)
                    .set("size_bytes", bytes)
                    .set("rounds", rounds)
                    .set("outstanding", count)
                    .set("completion", completion.to_string())
                    .set("batches", batches)
                    .number("request_ns_min", sum.least)
                    .number("request_ns_p50", sum.each.median() / UNIT)
                    .number("post_ns_p50", sum.post.median() / UNIT)
                    .number("to_first", sum.to_first.median())
                    .number("interrupts", sum.interrupts as f64 / (rounds * batches) as f64)
                    .set("verified", true),
            );
        }
    }
    Ok(rows)
}

impl Sum {
    fn new() -> Sum {
        Sum {
            each: Times::default(),
            least: f64::INFINITY,
            post: Times::default(),
            to_first: Ratios::default(),
            interrupts: 0,
            last: 0.0,
        }
    }

    fn add(&mut self, measured: &[Measured], count: u64) {
        let [_, receiver] = measured else { return };
        let each = |ns: u64| ns as f64 / count as f64;
        self.last = each(receiver.t_comm);
        self.least = self.least.min(each(receiver.waited));
        self.each.add((self.last * UNIT) as u64);
        self.post.add((each(receiver.t_comp) * UNIT) as u64);
        self.interrupts += receiver.interrupts;
    }
}
