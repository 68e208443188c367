//! `tocsin bench overlap`: how much of a message's time hides behind computing.
//!
//! Each round measures communication alone, computing alone (twice) and both, one after the other; the rounds of the
//! backends alternate. The computing is a fixed amount of work without a library call. When both compute, the same once more
//! with a callback at each end: how long after its start the message is complete, and how near that run comes to its bound.

use super::overlapped::Overlapped;
use super::{check, effective_lmt, most, progress, row, sizes, two_ranks, us};
use crate::cli::Overlap;
use crate::error::Error;
use crate::fleet::block::{Measured, Task};
use crate::fleet::{Fleet, Plan, World};
use crate::plot::{self, heat};
use crate::row::{Row, Sink};
use crate::stats::{Ratios, Times};
use crate::values::{Backend, Case, ComputeTime};
use serde_json::json;

/// Rounds when nothing else is asked for.
const ROUNDS: u64 = 30;
/// Rounds that find `t_comm` for computing times such as `4x`, and the price of a copy.
const PILOT_ROUNDS: u64 = 15;

pub(crate) fn run(args: &Overlap) -> Result<(), Error> {
    let ranks = two_ranks(&args.common, "overlap")?;
    plot::prepare(args.common.plot.as_deref())?;
    let plans = Plan::all(&args.common, ranks, &[Backend::Auto])?;
    let sizes = sizes(&args.common, &[64 << 10, 256 << 10, 1 << 20]);
    let rounds = args.common.rounds.unwrap_or(ROUNDS);
    let mut fleet = Fleet::start(&plans)?;
    let mut sink = Sink::new(args.common.json);
    let mut rows = Vec::new();
    let cells = sizes.len() * args.case.len() * args.compute_us.0.len();
    let bar = progress::bar(cells as u64 * rounds, "overlap");
    for &case in &args.case {
        for &bytes in &sizes {
            let pilots = pilot(&mut fleet, bytes, case)?;
            for &compute_time in &args.compute_us.0 {
                let cell = Cell { case, bytes, compute_time };
                let sums = cell.measure(&mut fleet, &pilots, args.common.warmup, rounds, || bar.inc(1))?;
                for (plan, sum) in plans.iter().zip(&sums) {
                    let row = cell.row(plan, sum, rounds);
                    bar.suspend(|| sink.row(&row));
                    rows.push(row);
                }
            }
        }
    }
    bar.finish_and_clear();
    fleet.stop()?;
    if let Some(dir) = &args.common.plot {
        plot::announce(&heat::draw(dir, &rows)?);
    }
    Ok(())
}

/// What is known of a size before it is measured with computing.
struct Pilot {
    t_comm_ns: f64,
    copy_ns: f64,
}

fn pilot(fleet: &mut Fleet, bytes: u64, case: Case) -> Result<Vec<Pilot>, Error> {
    let mut comm: Vec<(Times, Times)> = fleet.worlds.iter().map(|_| Default::default()).collect();
    fleet.rounds(2, PILOT_ROUNDS, |at, counts, world| {
        let alone = world.run(Task::Overlap { bytes, case, work: 0 })?;
        check(&alone, &world.plan, "a message")?;
        let copy = world.run(Task::CopyCost { bytes })?;
        if counts {
            comm[at].0.add(most(&alone, |m| m.t_comm));
            comm[at].1.add(most(&copy, |m| m.t_comm));
        }
        Ok(())
    })?;
    Ok(comm.iter().map(|(t, copy)| Pilot { t_comm_ns: t.median(), copy_ns: copy.median() }).collect())
}

/// One combination.
struct Cell {
    case: Case,
    bytes: u64,
    compute_time: ComputeTime,
}

/// What the rounds of one world add up to.
#[derive(Default)]
struct Sum {
    overlapped: Overlapped,
    efficiency: Ratios,
    efficiency_called: Ratios,
    blocked: Times,
    complete: Times,
    copied: [u64; 3],
    compute_ns: f64,
    /// What a rank that computes cannot leave to others.
    copies_ns: f64,
}

impl Cell {
    fn compute_ns(&self, pilot: &Pilot) -> f64 {
        match self.compute_time {
            ComputeTime::Us(us) => us * 1000.0,
            ComputeTime::TimesComm(factor) => factor * pilot.t_comm_ns,
        }
    }

    /// How many copies of the message a rank that computes has to make itself, whoever else makes others: a rank that waits could
    /// make all of a message that takes one, two that compute half of it each.
    fn own_copies(&self, lmt: &str) -> f64 {
        match (lmt, self.case) {
            ("double", _) | ("vmsplice", Case::Recv | Case::Both) => 1.0,
            (_, Case::Both) => 0.5,
            (_, Case::Recv | Case::Send) => 0.0,
        }
    }

    fn measure(
        &self,
        fleet: &mut Fleet,
        pilots: &[Pilot],
        warmup: u64,
        rounds: u64,
        mut tick: impl FnMut(),
    ) -> Result<Vec<Sum>, Error> {
        let mut sums: Vec<Sum> = pilots.iter().map(|_| Sum::default()).collect();
        let speed = fleet.speed;
        let copies: Vec<f64> =
            fleet.worlds.iter().map(|world| self.own_copies(&effective_lmt(&world.plan))).collect();
        fleet.rounds(warmup, rounds, |at, counts, world: &mut World| {
            let compute_ns = self.compute_ns(&pilots[at]);
            let work = speed.work_for_ns(compute_ns);
            let measured = world.run(Task::Overlap { bytes: self.bytes, case: self.case, work })?;
            check(&measured, &world.plan, "an overlapped message")?;
            if counts {
                sums[at].compute_ns = compute_ns;
                sums[at].copies_ns = copies[at] * pilots[at].copy_ns;
                sums[at].add(&measured, self.case);
                if at == 0 {
                    tick();
                }
            }
            Ok(())
        })?;
        Ok(sums)
    }

    fn row(&self, plan: &Plan, sum: &Sum, rounds: u64) -> Row {
        let per_round = |count: u64| count as f64 / rounds as f64;
        let [sender, receiver, progress] = sum.copied.map(|bytes| per_round(bytes).round());
        let row = row("overlap", plan)
            .set("size_bytes", self.bytes)
            .set("rounds", rounds)
            .set("case", self.case.to_string())
            .set("compute", self.compute_time.to_string())
            .number("compute_us", us(sum.compute_ns));
        let row = sum
            .overlapped
            .columns(row)
            .number("bound_us", us(sum.overlapped.t_comp.median() + sum.copies_ns))
            .number("efficiency", sum.efficiency.median())
            .number("peer_blocked_us", us(sum.blocked.median()))
            .number("interrupts", per_round(sum.overlapped.interrupts))
            .set("bytes_copied_by", json!({"sender": sender, "receiver": receiver, "progress": progress}));
        // Only when both compute is it nobody's to wait for.
        let row = match self.case {
            Case::Both => row
                .number("complete_us", us(sum.complete.median()))
                .number("complete_us_max", us(sum.complete.max()))
                .number("efficiency_called", sum.efficiency_called.median()),
            Case::Recv | Case::Send => row,
        };
        row.set("verified", true)
    }
}

impl Sum {
    fn add(&mut self, measured: &[Measured], case: Case) {
        let overlap = self.overlapped.add(measured);
        self.efficiency.add((overlap.t_comp + self.copies_ns) / overlap.t_ovrl);
        // The peer is who does not compute; when both do, who is in the library for longer.
        self.blocked.add(match case {
            Case::Recv => measured[0].waited,
            Case::Send => measured[1].waited,
            Case::Both => most(measured, |m| m.waited),
        });
        if case == Case::Both {
            self.complete.add(most(measured, |m| m.complete));
            let t_called = most(measured, |m| m.t_called) as f64;
            self.efficiency_called.add((overlap.t_comp + self.copies_ns) / t_called);
        }
        for (rank, m) in measured.iter().enumerate().take(2) {
            self.copied[rank] += m.copied_user + m.copied_handler;
            self.copied[2] += m.copied_progress;
        }
    }
}
