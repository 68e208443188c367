//! `tocsin bench coll`: collectives: times, overlap, reactivity to a late rank.

use super::{check, ignored, most, progress, ranks, row, sizes, us};
use crate::cli::Coll;
use crate::error::Error;
use crate::fleet::block::{Measured, Task};
use crate::fleet::{Fleet, Plan};
use crate::plot::{self, curves};
use crate::rank::{elements, parts};
use crate::row::{Row, Sink};
use crate::stats::{self, Ratios, Times};
use crate::values::{Backend, Mode, Operation};
use std::path::Path;
use tocsin_topology::Topology;
use tocsin_world::algorithms::{self, Arguments};
use tocsin_world::{Block, Op};

/// Rounds when nothing else is asked for.
const ROUNDS: u64 = 30;
/// The same with a late rank: each lasts as long as it is late.
const LATE_ROUNDS: u64 = 10;
/// Rounds that find `t_comm`.
const PILOT_ROUNDS: u64 = 11;
/// Mode `equivalent`: what all ranks compute together, in milliseconds of one core.
const EQUIVALENT_MS: f64 = 8.0;

pub(crate) fn run(args: &Coll) -> Result<(), Error> {
    let only = |op| args.op.iter().all(|asked| *asked == op);
    ignored(
        "coll",
        &[
            ("--sizes", args.common.sizes.is_some() && only(Operation::Ibarrier)),
            ("--root", args.root.is_some() && !args.op.iter().any(|op| op.has_root())),
        ],
    );
    let mut sink = Sink::new(args.common.json);
    let mut rows = Vec::new();
    if let Some(name) = &args.algorithm {
        for op in &args.op {
            algorithms::find(*op, name).map_err(|error| Error::Usage(error.to_string()))?;
        }
    }
    let cores = Topology::machine().map_err(Error::failed)?.cores.len() as u64;
    for ranks in ranks(&args.common, cores.max(2)) {
        if u64::from(ranks) > cores && args.late_rank.is_none() {
            eprintln!(
                "tocsin bench coll: {ranks} ranks share {cores} cores: computing delays computing, too"
            );
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
        plans.iter_mut().for_each(|plan| plan.algorithm.clone_from(&args.algorithm));
        let mut fleet = Fleet::start(&plans)?;
        for &op in &args.op {
            let sizes =
                if op == Operation::Ibarrier { vec![0] } else { sizes(&args.common, &[1 << 10, 64 << 10]) };
            for bytes in sizes {
                let measured = match (args.late_rank, args.late_us) {
                    (Some(rank), Some(us)) => late(&mut fleet, args, op, bytes, rank, us)?,
                    _ => overlap(&mut fleet, args, op, bytes)?,
                };
                for row in measured {
                    sink.row(&row);
                    rows.push(row);
                }
            }
        }
        fleet.stop()?;
    }
    match &args.common.plot {
        Some(dir) => draw(dir, &rows, args.late_rank.is_some()),
        None => Ok(()),
    }
}

fn root(args: &Coll) -> u32 {
    args.root.unwrap_or(0)
}

/// The algorithm asked for, or the one the library takes by itself.
fn algorithm(args: &Coll, op: Operation, bytes: u64, ranks: u32) -> String {
    if let Some(name) = &args.algorithm {
        return name.clone();
    }
    let (block, root) = (bytes as usize, root(args));
    let (recv, (count, data_type)) = (std::ptr::null_mut(), elements(block));
    let (send, op_sum) = (None, Op::Sum);
    let blocks = vec![Block { offset: 0, bytes: block }; ranks as usize];
    let counts: Vec<usize> = parts(count, ranks as usize).collect();
    // Only the sizes are looked at, never the buffers.
    let arguments = match op {
        Operation::Ibcast => Arguments::Ibcast { buffer: recv, bytes: block, root },
        Operation::Iscatter => Arguments::Iscatter { send: recv, recv: None, block, root },
        Operation::Iscatterv => {
            Arguments::Iscatterv { send: recv, blocks: &blocks, recv: None, bytes: block, root }
        }
        Operation::Igather => Arguments::Igather { send, recv, block, root },
        Operation::Igatherv => Arguments::Igatherv { send, bytes: block, recv, blocks: &blocks, root },
        Operation::Iallgather => Arguments::Iallgather { send, recv, block },
        Operation::Iallgatherv => Arguments::Iallgatherv { send, recv, blocks: &blocks },
        Operation::Ialltoall => Arguments::Ialltoall { send, recv, block },
        Operation::Ialltoallv => Arguments::Ialltoallv { send: None, recv, blocks: &blocks },
        Operation::Ialltoallw => Arguments::Ialltoallw { send: None, recv, blocks: &blocks },
        Operation::Ireduce => Arguments::Ireduce { send, recv, count, data_type, op: op_sum, root },
        Operation::Iallreduce => Arguments::Iallreduce { send, recv, count, data_type, op: op_sum },
        Operation::IreduceScatter => {
            Arguments::IreduceScatter { send, recv, counts: &counts, data_type, op: op_sum }
        }
        Operation::IreduceScatterBlock => {
            Arguments::IreduceScatterBlock { send, recv, count, data_type, op: op_sum }
        }
        Operation::Iscan => Arguments::Iscan { send, recv, count, data_type, op: op_sum },
        Operation::Iexscan => Arguments::Iexscan { send, recv, count, data_type, op: op_sum },
        _ => Arguments::Ibarrier,
    };
    algorithms::choose(&arguments, ranks).name.to_owned()
}

fn start(args: &Coll, plan: &Plan, op: Operation, bytes: u64, rounds: u64, mode: &str) -> Row {
    let row = row("coll", plan).set("size_bytes", bytes).set("rounds", rounds).set("op", op.to_string());
    row.set("algorithm", algorithm(args, op, bytes, plan.ranks)).set("mode", mode)
}

/// Nobody may leave a barrier before all have come; the clock is common to all ranks.
fn verify(measured: &[Measured], plan: &Plan, op: Operation) -> Result<(), Error> {
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
        start(args, plan, op, bytes, rounds, "late")
            .set("late_rank", late_rank)
            .set("late_us", late_us)
            .number("t_comp_us", us(computing[at].median()))
            .number("others_done_us", us(others[at].median()))
            .number("others_done_us_max", us(others[at].max()))
            .number("interrupts", interrupts[at] as f64 / rounds as f64)
            .set("verified", true)
    };
    Ok(fleet.worlds.iter().enumerate().map(|(at, world)| row(at, &world.plan)).collect())
}

#[derive(Default)]
struct Sum {
    t_comm: Times,
    t_comp: Times,
    t_ovrl: Times,
    ratio: Ratios,
    null_ratio: Ratios,
    rate: Ratios,
    interrupts: u64,
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
    let mut sums: Vec<Sum> = pilots.iter().map(|_| Sum::default()).collect();
    let bar = progress::bar(rounds, &op.to_string());
    fleet.rounds(args.common.warmup, rounds, |at, counts, world| {
        let ns = match args.mode {
            Mode::CpuExploit => pilots[at].median(),
            Mode::Equivalent => EQUIVALENT_MS * 1e6 / f64::from(world.plan.ranks),
        };
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
    let row = |plan: &Plan, sum: &Sum| {
        start(args, plan, op, bytes, rounds, &mode)
            .number("t_comm_us", us(sum.t_comm.median()))
            .number("t_comp_us", us(sum.t_comp.median()))
            .number("t_ovrl_us", us(sum.t_ovrl.median()))
            .number("ratio", sum.ratio.median())
            .number("null_ratio", sum.null_ratio.median())
            .number("rate_percent", sum.rate.median())
            .number("interrupts", sum.interrupts as f64 / rounds as f64)
            .set("verified", true)
    };
    Ok(fleet.worlds.iter().zip(&sums).map(|(world, sum)| row(&world.plan, sum)).collect())
}

impl Sum {
    fn add(&mut self, measured: &[Measured]) {
        let overlap = stats::Overlap {
            t_comm: most(measured, |m| m.t_comm) as f64,
            t_comp: most(measured, |m| m.t_comp) as f64,
            t_ovrl: most(measured, |m| m.t_ovrl) as f64,
        };
        self.t_comm.add(overlap.t_comm as u64);
        self.t_comp.add(overlap.t_comp as u64);
        self.t_ovrl.add(overlap.t_ovrl as u64);
        self.ratio.add(overlap.ratio());
        self.null_ratio.add(overlap.null_ratio(most(measured, |m| m.t_comp_again) as f64));
        self.rate.add(overlap.rate_percent());
        self.interrupts += measured.iter().map(|m| m.interrupts).sum::<u64>();
    }
}

/// One curve per operation and backend.
fn draw(dir: &Path, rows: &[Row], late: bool) -> Result<(), Error> {
    let key = if late { "others_done_us" } else { "t_ovrl_us" };
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
