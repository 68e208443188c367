//! `tocsin bench coll`: collectives: times, overlap, reactivity to a late rank.
//!
//! Before each operation every rank rewrites its buffers, then meets the others at a barrier outside the library; the time of
//! the operation is that of its slowest rank, from its own post on.

use super::overlapped::Overlapped;
use super::{check, chosen, ignored, most, progress, ranks, row, sizes, us};
use crate::cli::Coll;
use crate::compute::Speed;
use crate::error::{Error, doing};
use crate::fleet::block::{Measured, Task};
use crate::fleet::{Fleet, Plan, World};
use crate::plot::{self, curves};
use crate::row::{Row, Sink};
use crate::stats::Times;
use crate::steps::{Pick, Steps};
use crate::values::{Backend, Mode, Operation, human_size};
use std::path::{Path, PathBuf};
use tocsin_topology::Topology;
use tocsin_world::algorithms;
use tocsin_world::say;

/// Rounds when nothing else is asked for.
const ROUNDS: u64 = 30;
/// The same with a late rank: each lasts as long as it is late.
const LATE_ROUNDS: u64 = 10;
/// Rounds that find `t_comm`.
const PILOT_ROUNDS: u64 = 11;
/// Mode `alone`: batches.
const BATCHES: u64 = 11;
/// Mode `alone`: operations of a batch, and above 64 KiB.
const OPERATIONS: u64 = 51;
const FEW_OPERATIONS: u64 = 21;
/// Collectives before the one that is drawn, which has what they set up.
const TRACED_ROUNDS: u64 = 5;
/// Mode `equivalent`: what all ranks compute together, in milliseconds of one core.
pub(super) const EQUIVALENT_MS: f64 = 8.0;

pub(crate) fn run(args: &Coll) -> Result<(), Error> {
    plot::prepare(args.common.plot.as_deref())?;
    let only = |op| args.op.iter().all(|asked| *asked == op);
    ignored(
        "coll",
        &[
            ("--sizes", args.common.sizes.is_some() && only(Operation::Ibarrier)),
            ("--root", args.root.is_some() && !args.op.iter().any(|op| op.has_root())),
        ],
    );
    let mut sink = Sink::new(args.common.json);
    let (mut rows, mut pictures) = (Vec::new(), Vec::new());
    if let Some(name) = &args.algorithm {
        for op in &args.op {
            let found = algorithms::find(*op, name).map_err(|error| Error::Usage(error.to_string()))?;
            if args.late_rank.is_some() && found.is_split() {
                return Err(Error::Usage(format!(
                    "--late-rank: with {name}, calls of a rank do a part of the collective by design, so that a rank without calls is waited for"
                )));
            }
        }
    }
    let cores = Topology::machine().map_err(Error::failed)?.cores.len() as u64;
    for ranks in ranks(&args.common, cores.max(2)) {
        if u64::from(ranks) > cores && args.late_rank.is_none() && args.mode != Mode::Alone {
            say(format_args!(
                "tocsin bench coll: {ranks} ranks share {cores} cores: computing delays computing, too"
            ));
        }
        if root(args) >= ranks || args.late_rank.is_some_and(|late| late >= ranks) {
            return Err(Error::Usage(format!(
                "--root and --late-rank must be below the number of ranks, {ranks}"
            )));
        }
        if args.late_rank.is_some() && ranks < 2 {
            return Err(Error::Usage(
                "--late-rank needs --ranks 2 or more: somebody must wait for it".into(),
            ));
        }
        let mut plans = Plan::all(&args.common, ranks, &[Backend::Auto])?;
        for plan in &mut plans {
            (plan.algorithm, plan.persistent) = (args.algorithm.clone(), args.persistent);
        }
        let mut fleet = Fleet::start(&plans)?;
        for &op in &args.op {
            for bytes in sizes_of(args, op) {
                let measured = match (args.late_rank, args.late_us) {
                    (Some(rank), Some(us)) => late(&mut fleet, args, op, bytes, rank, us)?,
                    _ if args.mode == Mode::Alone => alone(&mut fleet, args, op, bytes)?,
                    _ => overlap(&mut fleet, args, op, bytes)?,
                };
                for row in measured {
                    sink.row(&row);
                    rows.push(row);
                }
            }
        }
        let speed = fleet.speed;
        fleet.stop()?;
        if let Some(dir) = &args.common.plot {
            for plan in &plans {
                for &op in &args.op {
                    pictures.extend(traced(dir, args, plan, op, speed)?);
                }
            }
        }
    }
    match &args.common.plot {
        Some(dir) => draw(dir, &rows, args).map(|()| plot::announce(&pictures)),
        None => Ok(()),
    }
}

/// The sizes of an operation.
fn sizes_of(args: &Coll, op: Operation) -> Vec<u64> {
    if op == Operation::Ibarrier { vec![0] } else { sizes(&args.common, &[1 << 10, 64 << 10]) }
}

/// The steps of one collective of the largest size, in a world of its own: what is traced is not what is measured. Gives the
/// paths of the trace and of the pictures.
fn traced(dir: &Path, args: &Coll, plan: &Plan, op: Operation, speed: Speed) -> Result<Vec<PathBuf>, Error> {
    let file = format!("steps-{op}-{}-{}-{}", plan.backend_name(), plan.kind, plan.ranks);
    let file = plan.progress.map_or(file.clone(), |policy| format!("{file}-{policy}"));
    let file = plan.schedule.map_or(file.clone(), |schedule| format!("{file}-{schedule}").replace(':', "-"));
    std::fs::create_dir_all(dir).map_err(doing(format!("making the directory {}", dir.display())))?;
    let trace = dir.join(format!("{file}.json"));
    let bytes = sizes_of(args, op).into_iter().max().unwrap_or(0);
    let (root, mut t_comm) = (u64::from(root(args)), Times::default());
    let mut world = World::start(&Plan { trace: Some(trace.clone()), ..plan.clone() })?;
    for _ in 0..TRACED_ROUNDS {
        let measured = world.run(Task::Coll { op, bytes, root, work: 0 })?;
        verify(&measured, plan, op)?;
        t_comm.add(most(&measured, |m| m.t_comm));
    }
    // The last collective is the one that is drawn: with what the bench computes beside it.
    let task = match (args.late_rank, args.late_us) {
        (Some(rank), Some(us)) => {
            let work = speed.work_for_ns(us as f64 * 1000.0);
            Task::Late { op, bytes, root, rank: rank.into(), work }
        }
        _ => Task::Coll { op, bytes, root, work: speed.work_for_ns(compute_ns(args, plan, &t_comm)) },
    };
    verify(&world.run(task)?, plan, op)?;
    world.stop()?;
    let what = format!(", {}, backend {}", human_size(bytes), plan.label());
    let mut paths = plot::steps::draw(dir, &file, &what, &Steps::read(&trace, Pick::Last)?)?;
    paths.push(trace);
    Ok(paths)
}

/// How long the ranks compute, nanoseconds.
fn compute_ns(args: &Coll, plan: &Plan, t_comm: &Times) -> f64 {
    match args.mode {
        Mode::CpuExploit => t_comm.median(),
        Mode::Equivalent => EQUIVALENT_MS * 1e6 / f64::from(plan.ranks),
        // Measured by `alone`.
        Mode::Alone => 0.0,
    }
}

fn root(args: &Coll) -> u32 {
    args.root.unwrap_or(0)
}

fn start(args: &Coll, plan: &Plan, op: Operation, bytes: u64, rounds: u64, mode: &str) -> Result<Row, Error> {
    let row = row("coll", plan).set("size_bytes", bytes).set("rounds", rounds).set("op", op.to_string());
    let algorithm = chosen::algorithm(plan, op, bytes, root(args))?;
    let row = row.set("algorithm", algorithm).set("mode", mode);
    Ok(row.set("persistent", args.persistent.then_some(true)))
}

/// Nobody may leave a barrier before all have come; the clock is common to all ranks.
pub(crate) fn verify(measured: &[Measured], plan: &Plan, op: Operation) -> Result<(), Error> {
    check(measured, plan, &op.to_string())?;
    let last_post = most(measured, |m| m.posted_at);
    if op == Operation::Ibarrier && measured.iter().any(|m| m.done_at < last_post) {
        return Err(Error::Failed(format!(
            "a rank of backend {} left a barrier before all had come: please report this",
            plan.backend_name()
        )));
    }
    Ok(())
}

fn late(
    fleet: &mut Fleet,
    args: &Coll,
    op: Operation,
    bytes: u64,
    late_rank: u32,
    late_us: u64,
) -> Result<Vec<Row>, Error> {
    let rounds = args.common.rounds.unwrap_or(LATE_ROUNDS);
    let work = fleet.speed.work_for_ns(late_us as f64 * 1000.0);
    let (root, rank) = (u64::from(root(args)), u64::from(late_rank));
    let mut others: Vec<Times> = fleet.worlds.iter().map(|_| Times::default()).collect();
    let mut computing = others.clone();
    let mut interrupts = vec![0; others.len()];
    let bar = progress::bar(rounds, &format!("{op}, rank {late_rank} late"));
    fleet.rounds(args.common.warmup, rounds, |at, counts, world| {
        let measured = world.run(Task::Late { op, bytes, root, rank, work })?;
        verify(&measured, &world.plan, op)?;
        if counts {
            let of = |number: fn(&Measured) -> u64| {
                let others = measured.iter().enumerate().filter(|(r, _)| *r as u32 != late_rank);
                others.map(|(_, m)| number(m)).max().unwrap_or(0)
            };
            others[at].add(of(|m| m.done_at).saturating_sub(of(|m| m.posted_at)));
            computing[at].add(measured[late_rank as usize].t_comp);
            interrupts[at] += measured[late_rank as usize].interrupts;
            bar.inc(u64::from(at == 0));
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    let row = |at: usize, plan: &Plan| {
        let row = start(args, plan, op, bytes, rounds, "late")?
            .set("late_rank", late_rank)
            .set("late_us", late_us)
            .number("t_comp_us", us(computing[at].median()))
            .number("others_done_us", us(others[at].median()))
            .number("others_done_us_max", us(others[at].max()))
            .number("interrupts", interrupts[at] as f64 / rounds as f64)
            .set("verified", true);
        Ok(row)
    };
    fleet.worlds.iter().enumerate().map(|(at, world)| row(at, &world.plan)).collect()
}

fn overlap(fleet: &mut Fleet, args: &Coll, op: Operation, bytes: u64) -> Result<Vec<Row>, Error> {
    let rounds = args.common.rounds.unwrap_or(ROUNDS);
    let root = u64::from(root(args));
    let speed = fleet.speed;
    let mut pilots: Vec<Times> = fleet.worlds.iter().map(|_| Times::default()).collect();
    fleet.rounds(2, PILOT_ROUNDS, |at, counts, world| {
        let measured = world.run(Task::Coll { op, bytes, root, work: 0 })?;
        verify(&measured, &world.plan, op)?;
        if counts {
            pilots[at].add(most(&measured, |m| m.t_comm));
        }
        Ok(())
    })?;
    let mut sums: Vec<Overlapped> = pilots.iter().map(|_| Overlapped::default()).collect();
    let bar = progress::bar(rounds, &op.to_string());
    fleet.rounds(args.common.warmup, rounds, |at, counts, world| {
        let ns = compute_ns(args, &world.plan, &pilots[at]);
        let measured = world.run(Task::Coll { op, bytes, root, work: speed.work_for_ns(ns) })?;
        verify(&measured, &world.plan, op)?;
        if counts {
            sums[at].add(&measured);
            bar.inc(u64::from(at == 0));
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    let mode = args.mode.to_string();
    let row = |plan: &Plan, sum: &Overlapped| {
        let row = sum
            .columns(start(args, plan, op, bytes, rounds, &mode)?)
            .number("interrupts", sum.interrupts as f64 / rounds as f64)
            .set("verified", true);
        Ok(row)
    };
    fleet.worlds.iter().zip(&sums).map(|(world, sum)| row(&world.plan, sum)).collect()
}

/// Batches of operations with nothing between post and wait; `t_comm` is the median of their medians. After each as many in a row, of which the time of one is that of all of
/// them, the slowest rank's, divided by their number.
fn alone(fleet: &mut Fleet, args: &Coll, op: Operation, bytes: u64) -> Result<Vec<Row>, Error> {
    let rounds = args.common.rounds.unwrap_or(BATCHES);
    let root = u64::from(root(args));
    let count = if bytes > 64 << 10 { FEW_OPERATIONS } else { OPERATIONS };
    let mut t_comm: Vec<Times> = fleet.worlds.iter().map(|_| Times::default()).collect();
    let mut in_a_row = t_comm.clone();
    let mut interrupts = vec![0; t_comm.len()];
    let bar = progress::bar(rounds, &op.to_string());
    fleet.rounds(args.common.warmup, rounds, |at, counts, world| {
        let measured = world.run(Task::Alone { op, bytes, root, count, algorithm: 0 })?;
        verify(&measured, &world.plan, op)?;
        let row = world.run(Task::InARow { op, bytes, root, count })?;
        verify(&row, &world.plan, op)?;
        if counts {
            t_comm[at].add(most(&measured, |m| m.t_comm));
            in_a_row[at].add(most(&row, |m| m.t_comm));
            interrupts[at] += measured.iter().map(|m| m.interrupts).sum::<u64>();
            bar.inc(u64::from(at == 0));
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    let mode = args.mode.to_string();
    let row = |(((world, t_comm), in_a_row), interrupts): (((&World, &Times), &Times), &u64)| {
        let row = start(args, &world.plan, op, bytes, rounds, &mode)?
            .set("operations", count)
            .number("t_comm_us", us(t_comm.median()))
            .number("t_comm_us_min", us(t_comm.min()))
            .number("in_a_row_us", us(in_a_row.median()))
            .number("interrupts", *interrupts as f64 / (rounds * count) as f64)
            .set("verified", true);
        Ok(row)
    };
    fleet.worlds.iter().zip(&t_comm).zip(&in_a_row).zip(&interrupts).map(row).collect()
}

/// One curve per operation and backend.
fn draw(dir: &Path, rows: &[Row], args: &Coll) -> Result<(), Error> {
    let (late, alone) = (args.late_rank.is_some(), args.mode == Mode::Alone);
    let key = match (late, alone) {
        (true, _) => "others_done_us",
        (_, true) => "t_comm_us",
        _ => "t_ovrl_us",
    };
    let mut series: Vec<curves::Series> = Vec::new();
    for row in rows {
        let text = |key| row.as_text(key).unwrap_or_default().to_owned();
        let ranks = row.as_number("ranks").unwrap_or(0.0);
        let name = format!("{}, {}, {} ranks", text("op"), text("backend"), ranks);
        let point = (row.as_number("size_bytes").unwrap_or(0.0), row.as_number(key).unwrap_or(f64::NAN));
        match series.iter_mut().find(|s| s.name == name) {
            Some(series) => series.points.push(point),
            None => series.push(curves::Series { name, points: vec![point] }),
        }
    }
    let chart = if late {
        curves::Chart {
            file: "coll-late",
            title: "One rank computes: how long do the others wait?",
            subtitle: "From the last post of the other ranks to their last completion; lower is better",
            x: "message size",
            y: "the others are done after (µs)",
            x_is_bytes: true,
        }
    } else if alone {
        curves::Chart {
            file: "coll-alone",
            title: "How long a collective takes",
            subtitle: "From the post to the completion, the slowest rank's; lower is better",
            x: "message size",
            y: "the collective (µs)",
            x_is_bytes: true,
        }
    } else {
        curves::Chart {
            file: "coll",
            title: "Collective and computing together",
            subtitle: "Time of both, the slowest rank's; lower is better",
            x: "message size",
            y: "both together (µs)",
            x_is_bytes: true,
        }
    };
    plot::announce(&curves::draw(dir, &chart, &series)?);
    Ok(())
}
