//! `tocsin bench compare`: where progress threads run and how they share a core, beside each other. Source: Taboada's thesis, chapters 4 to 6.
//!
//! A world lives for its own part of a round only: progress threads that look for ever would take the core from the world whose turn
//! it is. Rounds begin with another one of the sides each time, and `ratio` is the median of the rounds' own ratios to the first side.
//!
//! | comparison | ranks | measured |
//! |---|---|---|
//! | numa-bind, equivalent, split-tree | compute between post and wait | collective and computing together |
//! | odd-even, policies | sleep outside the library; rank 0 posts last | from that post to the last completion |

use super::coll::{EQUIVALENT_MS, verify};
use super::{chosen, ignored, most, progress, row, sizes, us};
use crate::cli::Compare;
use crate::compute::Speed;
use crate::error::Error;
use crate::fleet::block::Task;
use crate::fleet::{Plan, World};
use crate::plot::{self, curves, spread};
use crate::row::{Row, Sink};
use crate::stats::{Overlap, Ratios, Times};
use crate::values::{Buffers, Comparison, Kind, Operation};
use std::path::Path;
use tocsin_topology::{Policy, ProgressPolicy, Topology};
use tocsin_world::say;
use tocsin_world::{BackendKind, Schedule, algorithms};

/// Rounds when nothing else is asked for.
const ROUNDS: u64 = 11;
/// Operations of a world's part of a round while ranks sleep, and those before them.
const OPERATIONS: u64 = 21;
const FIRST_OPERATIONS: u64 = 3;
/// The same while they compute.
const OVERLAPS: u64 = 5;
const FIRST_OVERLAPS: u64 = 2;
/// Operations that find out how long one takes.
const PILOTS: u64 = 11;
/// Ranks of the collectives that sleep: those of the thesis are more than the cores of this machine, too.
const RANKS: u32 = 16;
const POLICIES: [Schedule; 5] =
    [Schedule::Event, Schedule::RoundRobin, Schedule::Suspend, Schedule::Semaphore, Schedule::Priority(20)];

/// What stands beside the others.
struct Side {
    name: String,
    plan: Plan,
}

/// What one world gave.
#[derive(Default)]
struct Sum {
    /// What is compared.
    time: Times,
    ratio: Ratios,
    t_comm: Times,
    t_comp: Times,
    rate: Ratios,
    turns: u64,
}

/// One part of one round.
#[derive(Clone, Copy, Default)]
struct Part {
    time: u64,
    t_comm: u64,
    t_comp: u64,
    rate: f64,
    turns: u64,
}

pub(crate) fn run(args: &Compare) -> Result<(), Error> {
    let common = &args.common;
    ignored(
        "compare",
        &[
            ("--backend", !common.backend.is_empty()),
            ("--progress", !common.progress.is_empty() && args.what != Comparison::Policies),
            ("--algorithm", args.algorithm.is_some() && args.what == Comparison::SplitTree),
            ("--reserve", common.reserve.is_some() && args.what == Comparison::Equivalent),
        ],
    );
    let chains = [Operation::Iscan, Operation::Iexscan];
    let ops = match &args.op[..] {
        [] if is_asleep(args.what) => vec![Operation::Iscan],
        [] if args.what == Comparison::SplitTree => vec![Operation::Ireduce],
        [] => vec![Operation::Ibcast],
        asked => asked.to_vec(),
    };
    let algorithm_of = |op: Operation| match &args.algorithm {
        Some(name) => Some(name.clone()),
        None => chains.contains(&op).then(|| "pipelined-chain".to_owned()),
    };
    for op in &ops {
        if let Some(name) = algorithm_of(*op) {
            algorithms::find(*op, &name).map_err(|error| Error::Usage(error.to_string()))?;
        }
    }
    let cores = Topology::machine().map_err(Error::failed)?.cores.len() as u32;
    let kinds = if common.kind.is_empty() { &[Kind::Thread][..] } else { &common.kind };
    let asked = common.ranks.as_ref().map(|list| list.0.iter().map(|n| Some(*n as u32)).collect());
    plot::prepare(common.plot.as_deref())?;
    let mut sink = Sink::new(common.json);
    let mut rows = Vec::new();
    for &kind in kinds {
        for ranks in asked.clone().unwrap_or_else(|| vec![None]) {
            let mut sides = sides(args, kind, ranks, cores)?;
            for side in &sides {
                side.plan.is_placeable()?;
            }
            for &op in &ops {
                for side in &mut sides {
                    side.plan.algorithm = match args.what {
                        Comparison::SplitTree => Some(tree(op, &side.name)?.to_owned()),
                        _ => algorithm_of(op),
                    };
                }
                let default = if is_asleep(args.what) { 8 } else { 64 << 10 };
                let sizes = if op == Operation::Ibarrier { vec![0] } else { sizes(common, &[default]) };
                for bytes in sizes {
                    let measured = measure(args, &sides, op, bytes)?;
                    measured.iter().for_each(|row| sink.row(row));
                    rows.extend(measured);
                }
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
        file: "compare",
        title: "How do they do beside the first of them?",
        subtitle: "Time against the first side's in the same round, medians; the lines have half of the rounds; less is faster",
        x: "time / time of the first side",
    };
    let keys = [("side", ""), ("op", ""), ("kind", ""), ("ranks", " ranks"), ("size_bytes", "")];
    let names = curves::Names::of(rows, &keys);
    let number = |row: &Row, key| row.as_number(key).unwrap_or(f64::NAN);
    let of_row = |row| spread::Spread {
        name: names.name(row),
        low: number(row, "ratio_p25"),
        median: number(row, "ratio"),
        high: number(row, "ratio_p75"),
    };
    plot::announce(&spread::draw(dir, &chart, &rows.iter().map(of_row).collect::<Vec<_>>())?);
    Ok(())
}

/// The algorithm of a side of `split-tree`.
fn tree(op: Operation, side: &str) -> Result<&'static str, Error> {
    let split = algorithms::of(op).find(|algorithm| algorithm.is_split()).ok_or_else(|| {
        let able =
            Operation::ALL.iter().filter(|op| algorithms::of(**op).any(|algorithm| algorithm.is_split()));
        let able: Vec<&str> = able.map(|op| op.name()).collect();
        Error::Usage(format!("{op} has no split tree; these have: {}", able.join(", ")))
    })?;
    let whole = if op == Operation::Iallreduce { "reduce-bcast" } else { "binomial" };
    Ok(if side == split.name { split.name } else { whole })
}

fn is_asleep(what: Comparison) -> bool {
    matches!(what, Comparison::OddEven | Comparison::Policies)
}

/// What stands beside what. At least two ranks, or as many as are asked for.
fn sides(args: &Compare, kind: Kind, ranks: Option<u32>, cores: u32) -> Result<Vec<Side>, Error> {
    let common = &args.common;
    if ranks == Some(1) {
        return Err(Error::Usage("bench compare needs 2 ranks or more".into()));
    }
    if common.schedule.len() > 1 && args.what != Comparison::Policies {
        return Err(Error::Usage(
            "--schedule: a list is for `tocsin bench compare policies`, one applies here".into(),
        ));
    }
    // One for each core that is left.
    let fitting = |reserve: u32| ranks.unwrap_or_else(|| cores.saturating_sub(reserve).max(2));
    let side =
        |name: &str, ranks: u32, reserve: u32, policy: ProgressPolicy, schedule: Option<Schedule>| Side {
            name: name.to_owned(),
            plan: Plan {
                backend: Some(BackendKind::Thread),
                kind,
                ranks,
                bind: common.bind.unwrap_or(Policy::Scatter),
                lmt: common.lmt,
                eager_max: None,
                algorithm: None,
                persistent: false,
                buffers: Buffers::Private,
                progress: Some(policy),
                reserve: Some(reserve),
                schedule,
                trace: None,
            },
        };
    let schedule = common.schedule.first().copied();
    let placed =
        |policy: ProgressPolicy, ranks, reserve| side(policy.name(), ranks, reserve, policy, schedule);
    let (bind, numa, odd_even) = (ProgressPolicy::Bind, ProgressPolicy::Numa, ProgressPolicy::OddEven);
    Ok(match args.what {
        Comparison::NumaBind => {
            let reserve = common.reserve.unwrap_or(1);
            [bind, numa].map(|policy| placed(policy, fitting(reserve), reserve)).into()
        }
        Comparison::OddEven => {
            let reserve = common.reserve.unwrap_or_else(|| cores.saturating_sub(1).min(2));
            [numa, odd_even].map(|policy| placed(policy, ranks.unwrap_or(RANKS), reserve)).into()
        }
        Comparison::Policies => {
            let (reserve, ranks) = (common.reserve.unwrap_or(1), ranks.unwrap_or(RANKS));
            let policy = common.progress.first().copied().unwrap_or(numa);
            let all = if common.schedule.is_empty() { &POLICIES[..] } else { &common.schedule };
            all.iter().map(|s| side(&s.to_string(), ranks, reserve, policy, Some(*s))).collect()
        }
        Comparison::SplitTree => {
            let reserve = common.reserve.unwrap_or(1);
            let side = |name| {
                let mut side = side(name, fitting(reserve), reserve, numa, schedule);
                // What is started again learns for how long its program computes.
                side.plan.persistent = true;
                side
            };
            ["whole-tree", "split-tree"].map(side).into()
        }
        Comparison::Equivalent => {
            let given = |away: u32| {
                let policy = if away == 0 { bind } else { numa };
                side(&format!("{away} given away"), fitting(away), away, policy, schedule)
            };
            let most = cores.saturating_sub(1).min(2);
            if most < 2 {
                say(format_args!(
                    "tocsin bench compare: of {cores} cores at most {most} can be given away: the rest is left out"
                ));
            }
            (0..=most).map(given).collect()
        }
    })
}

/// A row per side.
fn measure(args: &Compare, sides: &[Side], op: Operation, bytes: u64) -> Result<Vec<Row>, Error> {
    let common = &args.common;
    let rounds = common.rounds.unwrap_or(ROUNDS);
    let speed = Speed::calibrate();
    // Both sides compute the same, as long as the first one's collective takes.
    let exploit = match (args.what, sides.first()) {
        (Comparison::NumaBind | Comparison::SplitTree, Some(first)) => pilot(&first.plan, op, bytes)?,
        _ => 0.0,
    };
    let mut sums: Vec<Sum> = sides.iter().map(|_| Sum::default()).collect();
    let bar = progress::bar(rounds, &format!("{}, {op}", args.what));
    for round in 0..common.warmup.min(1) + rounds {
        let mut parts = vec![Part::default(); sides.len()];
        for turn in 0..sides.len() {
            let at = (turn + round as usize) % sides.len();
            let plan = &sides[at].plan;
            let ns = match args.what {
                Comparison::Equivalent => EQUIVALENT_MS * 1e6 / f64::from(plan.ranks),
                _ => exploit,
            };
            parts[at] = if is_asleep(args.what) {
                asleep(plan, op, bytes)?
            } else {
                computing(plan, op, bytes, speed.work_for_ns(ns))?
            };
        }
        if round >= common.warmup.min(1) {
            let first = parts.first().map_or(0, |part| part.time) as f64;
            sums.iter_mut().zip(&parts).for_each(|(sum, part)| sum.add(part, first));
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let fastest = sums.iter().map(|sum| sum.time.median()).fold(f64::INFINITY, f64::min);
    let against = sides.first().map(|side| side.name.clone());
    let row = |(side, sum): (&Side, &Sum)| {
        let mode = match args.what {
            Comparison::NumaBind | Comparison::SplitTree => "cpu-exploit",
            Comparison::Equivalent => "equivalent",
            _ => "asleep",
        };
        let algorithm = chosen::algorithm(&side.plan, op, bytes, 0)?;
        let row = row("compare", &side.plan)
            .set("comparison", args.what.to_string())
            .set("side", side.name.clone())
            .set("against", against.clone())
            .set("size_bytes", bytes)
            .set("rounds", rounds)
            .set("op", op.to_string())
            .set("algorithm", algorithm)
            .set("mode", mode);
        let row = if is_asleep(args.what) {
            row.number("t_comm_us", us(sum.time.median()))
                .number("t_comm_us_min", us(sum.time.min()))
                .number("turns", sum.turns as f64 / (rounds * OPERATIONS) as f64)
        } else {
            row.number("t_comm_us", us(sum.t_comm.median()))
                .number("t_comp_us", us(sum.t_comp.median()))
                .number("t_ovrl_us", us(sum.time.median()))
                .number("rate_percent", sum.rate.median())
        };
        let row = row
            .number("ratio", sum.ratio.median())
            .number("ratio_p25", sum.ratio.percentile(25.0))
            .number("ratio_p75", sum.ratio.percentile(75.0))
            .number("of_fastest", sum.time.median() / fastest)
            .set("verified", true);
        Ok(row)
    };
    sides.iter().zip(&sums).map(row).collect()
}

impl Sum {
    /// `first`: the first side's time in the same round.
    fn add(&mut self, part: &Part, first: f64) {
        self.time.add(part.time);
        self.ratio.add(part.time as f64 / first);
        self.t_comm.add(part.t_comm);
        self.t_comp.add(part.t_comp);
        self.rate.add(part.rate);
        self.turns += part.turns;
    }
}

/// How long a collective takes that ranks wait for.
fn pilot(plan: &Plan, op: Operation, bytes: u64) -> Result<f64, Error> {
    let mut world = World::start(plan)?;
    let mut times = Times::default();
    for _ in 0..PILOTS {
        let measured = world.run(Task::Coll { op, bytes, root: 0, work: 0 })?;
        verify(&measured, plan, op)?;
        times.add(most(&measured, |m| m.t_comm));
    }
    world.stop()?;
    Ok(times.median())
}

fn asleep(plan: &Plan, op: Operation, bytes: u64) -> Result<Part, Error> {
    let mut world = World::start(plan)?;
    let mut part = Part::default();
    for count in [FIRST_OPERATIONS, OPERATIONS] {
        let measured = world.run(Task::Asleep { op, bytes, root: 0, count })?;
        verify(&measured, plan, op)?;
        part.time = most(&measured, |m| m.t_comm);
        part.turns = measured.iter().map(|m| m.turns).sum();
    }
    world.stop()?;
    Ok(part)
}

fn computing(plan: &Plan, op: Operation, bytes: u64, work: u64) -> Result<Part, Error> {
    let mut world = World::start(plan)?;
    let [mut t_comm, mut t_comp, mut t_ovrl] = [(); 3].map(|()| Times::default());
    for at in 0..FIRST_OVERLAPS + OVERLAPS {
        let measured = world.run(Task::Coll { op, bytes, root: 0, work })?;
        verify(&measured, plan, op)?;
        if at >= FIRST_OVERLAPS {
            t_comm.add(most(&measured, |m| m.t_comm));
            t_comp.add(most(&measured, |m| m.t_comp));
            t_ovrl.add(most(&measured, |m| m.t_ovrl));
        }
    }
    world.stop()?;
    let overlap = Overlap { t_comm: t_comm.median(), t_comp: t_comp.median(), t_ovrl: t_ovrl.median() };
    Ok(Part {
        time: overlap.t_ovrl as u64,
        t_comm: overlap.t_comm as u64,
        t_comp: overlap.t_comp as u64,
        rate: overlap.rate_percent(),
        turns: 0,
    })
}
