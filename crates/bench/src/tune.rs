//! `tocsin tune`: measures each usable strategy for large messages by size, and the algorithms of collectives, and writes the
//! thresholds and choices that follow.
//!
//! Of messages: half round trips between ranks that both wait, the buffer rewritten before each send, as `bench pingpong`; the worlds of
//! one kind of ranks in turn in one run. One world sends all that it may without asking (`eager`), each other one forces a
//! strategy on messages of any size. So many pairs as `--at-once` says exchange at once, and the slowest counts. Where processors of
//! the machine differ in what lies between them, one pair is measured at each distance. What the times mean is decided in `decide`.
//! Collectives are measured in `collectives`. What was measured joins the rows that the file has already.

mod choose;
mod collectives;
mod decide;
mod output;
mod places;

use crate::bench::{check, progress_bar};
use crate::cli::Tune;
use crate::error::Error;
use crate::fleet::block::Task;
use crate::fleet::{Fleet, Plan, usable};
use crate::row::{Row, Sink};
use crate::stats::Times;
use crate::values::{Buffers, Kind, Lmt, Tuned};
use decide::{Curve, Spread};
use output::Output;
use std::time::{Duration, Instant};
use tocsin_topology::Policy;
use tocsin_world::Config;
use tocsin_world::say;
use tocsin_world::tune::{self, EAGER_LIMIT, Relation, Table};

/// Sizes that are measured, by default and in a hurry.
const SIZES: [u64; 12] = [
    2 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    2 << 20,
    4 << 20,
];
const QUICK_SIZES: [u64; 6] = [4 << 10, 16 << 10, 32 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Rounds per size, by default and in a hurry.
const ROUNDS: u64 = 15;
const QUICK_ROUNDS: u64 = 5;
/// After so long each size that is left gets one round.
const LIMIT: Duration = Duration::from_secs(120);
const QUICK_LIMIT: Duration = Duration::from_secs(10);
/// Bytes of messages each way in a round: enough of them that the clock's own time does not show.
const BYTES: u64 = 4 << 20;
/// Most round trips in a round.
const MOST_TRIPS: u64 = 100;
/// Times of a half round trip are kept in hundredths of a nanosecond, as in `bench pingpong`.
const UNIT: f64 = 100.0;

/// Measures, and writes the table.
pub(crate) fn run(args: &Tune) -> Result<(), Error> {
    // Before anything takes time.
    let messages = is_wanted(args, Tuned::P2p).then(|| Ok((sizes(args)?, at_once(args)?))).transpose()?;
    let wanted = is_wanted(args, Tuned::Collectives).then(|| collectives::Wanted::new(args)).transpose()?;
    ignored(args);
    let output = Output::create(&args.output)?;
    let before = output::before(&args.output)?;
    let mut sink = Sink::new(args.json);
    let kinds = if args.kind.is_empty() { &[Kind::Process, Kind::Thread][..] } else { &args.kind };
    let (mut rows, mut notes) = (Vec::new(), String::new());
    if let Some((sizes, at_once)) = messages {
        let measured;
        (rows, measured) = messages_of(args, kinds, &sizes, &at_once, &mut sink)?;
        notes += "measured: ranks, pairs at once, strategy, bytes, half round trip in microseconds, between which processors\n";
        notes += &measured;
    }
    let mut choices = Vec::new();
    if let Some(wanted) = wanted {
        let messages = Table::new(rows.clone(), Vec::new()).ok();
        let measured;
        (choices, measured) = collectives::measure(args, &wanted, kinds, messages.as_ref(), &mut sink)?;
        notes += "measured: ranks, how many, operation, bytes, algorithm, microseconds from the post to the completion, part of the \
                  time of the library's own choice, where the farthest two are\n";
        notes += &measured;
    }
    if rows.is_empty() && choices.is_empty() {
        return Err(Error::Failed(format!(
            "nothing is clear enough to be written to {}",
            args.output.display()
        )));
    }
    let anew = rows.len() + choices.len();
    // Measuring takes minutes, in which another run may have added its own.
    let before = output::before(&args.output).ok().flatten().or(before);
    let table = match &before {
        Some(before) => before.renewed(rows, choices),
        None => Table::new(rows, choices),
    };
    let table = table.map_err(Error::failed)?;
    let kept = table.rows().len() + table.collectives().len() - anew;
    if kept > 0 {
        notes += &format!("rows of earlier runs, of which it is not said what was measured: {kept}\n");
    }
    output.finish(&table.text(&notes))?;
    let and_kept = if kept > 0 { format!(", beside {kept} of earlier runs") } else { String::new() };
    say(format_args!(
        "wrote {anew} rows{and_kept} to {0}; use them with TOCSIN_TUNE={0}",
        args.output.display()
    ));
    Ok(())
}

/// Whether the command line asks for it.
fn is_wanted(args: &Tune, what: Tuned) -> bool {
    match &args.what[..] {
        [] => what == Tuned::Collectives || args.op.is_empty(),
        asked => asked.contains(&what),
    }
}

/// Says which options mean nothing to what is measured.
fn ignored(args: &Tune) {
    let of_messages = args.at_once.is_some() && !is_wanted(args, Tuned::P2p);
    let unused = !is_wanted(args, Tuned::Collectives);
    let options = [
        ("--at-once", of_messages),
        ("--op", !args.op.is_empty() && unused),
        ("--ranks", args.ranks.is_some() && unused),
    ];
    for (option, _) in options.iter().filter(|(_, given)| *given) {
        say(format_args!("tocsin tune: {option} does not apply here and is ignored"));
    }
}

/// Measures messages; the rows, and what was measured in words.
fn messages_of(
    args: &Tune,
    kinds: &[Kind],
    sizes: &[u64],
    at_once: &[u32],
    sink: &mut Sink,
) -> Result<(Vec<tune::Row>, String), Error> {
    let start = Instant::now();
    let (mut rows, mut measured) = (Vec::new(), String::new());
    let relations = places::relations()?;
    for &kind in kinds {
        for &at_once in at_once {
            // More pairs at once are as far apart as they can be.
            for relation in places::to_measure(&relations, at_once) {
                let curves = {
                    let _there = relation.map(places::Confined::to).transpose()?;
                    measure(args, kind, at_once, relation, sizes, start, sink)?
                };
                for curve in &curves {
                    for (bytes, us) in &curve.points {
                        let (name, us) = (curve.name(), crate::row::rounded(*us));
                        let place = relation.map_or_else(String::new, |relation| format!(" {relation}"));
                        measured += &format!("{kind} {at_once} {name} {bytes} {us}{place}\n");
                    }
                }
                let what = || match relation {
                    None => format!("{kind} ranks, {at_once} at once"),
                    Some(relation) => format!("{kind} ranks, {at_once} at once ({relation})"),
                };
                if args.quick
                    && let Some(why) = decide::noise(&curves)
                {
                    unclear(&what(), &why);
                    continue;
                }
                for relation in places::that_it_says(&relations, relation) {
                    let row = row_of(kind, at_once, relation, &curves);
                    sink.row(
                        &Row::new("tune")
                            .set("kind", kind.to_string())
                            .set("at_once", at_once)
                            .set("relation", relation.map(Relation::name))
                            .set("eager_max_bytes", row.eager_max)
                            .set("strategy", row.strategy.name())
                            .set("from_bytes", row.from),
                    );
                    rows.push(row);
                }
            }
        }
    }
    rows.sort_by_key(|row| (row.ranks, row.at_once, row.relation));
    Ok((rows, measured))
}

/// The row that follows from times.
fn row_of(kind: Kind, at_once: u32, relation: Option<Relation>, curves: &[Curve]) -> tune::Row {
    let thresholds = decide::thresholds(curves);
    tune::Row {
        ranks: kind.of_library(),
        at_once,
        eager_max: thresholds.eager_max.unwrap_or(tocsin_world::DEFAULT_EAGER_MAX),
        strategy: thresholds.strategy,
        from: thresholds.from,
        relation,
    }
}

/// Says what has no row, because a measurement in a hurry does not tell.
fn unclear(what: &str, why: &str) {
    say(format_args!(
        "tocsin tune: {what}: no row, {why}; measure it without --quick, or when less else runs on this machine"
    ));
}

/// A world to measure in: what the environment says of a table does not count.
fn plan(args: &Tune, kind: Kind, ranks: u32, lmt: Lmt, eager_max: usize) -> Result<Plan, Error> {
    let cores = Config::default().machine().map_err(Error::failed)?.cores.len();
    Ok(Plan {
        backend: Some(usable(args.backend)?),
        kind,
        ranks,
        bind: if ranks as usize <= cores { Policy::Scatter } else { Policy::None },
        lmt,
        eager_max: Some(eager_max),
        algorithm: None,
        persistent: false,
        buffers: Buffers::Private,
        progress: None,
        reserve: None,
        schedule: None,
        trace: None,
    })
}

/// The sizes to measure, ascending: some that can be eager, and some that cannot, else they decide nothing.
fn sizes(args: &Tune) -> Result<Vec<u64>, Error> {
    let Some(asked) = &args.sizes else {
        return Ok(if args.quick { QUICK_SIZES.to_vec() } else { SIZES.to_vec() });
    };
    let mut sizes = asked.0.clone();
    sizes.sort_unstable();
    sizes.dedup();
    let limit = EAGER_LIMIT as u64;
    match sizes[..] {
        [least, .., most] if least > 0 && least <= limit && most > limit => Ok(sizes),
        [0, ..] => Err(Error::Usage("--sizes: messages of 0 bytes decide nothing: leave them out".into())),
        _ => Err(Error::Usage(
            "--sizes: at least one of up to 32K, for the eager limit, and one above it, for the strategy of longer \
             messages, such as 4K..1M"
                .into(),
        )),
    }
}

/// How many pairs exchange at once: 1, 2, 4, ... as long as each rank has a core.
fn at_once(args: &Tune) -> Result<Vec<u32>, Error> {
    if let Some(asked) = &args.at_once {
        let mut pairs: Vec<u32> = asked.0.iter().map(|n| *n as u32).collect();
        pairs.sort_unstable();
        pairs.dedup();
        return match pairs.last() {
            Some(most) if *most > tocsin_world::launcher::MAX_RANKS / 2 => Err(Error::Usage(format!(
                "--at-once {most}: at most {}",
                tocsin_world::launcher::MAX_RANKS / 2
            ))),
            _ => Ok(pairs),
        };
    }
    let cores = Config::default().machine().map_err(Error::failed)?.cores.len() as u32;
    Ok(std::iter::successors(Some(1u32), |pairs| pairs.checked_mul(2))
        .take_while(|n| *n == 1 || n * 2 <= cores)
        .collect())
}

/// The strategies that ranks of a kind have here.
fn strategies(kind: Kind) -> Vec<Lmt> {
    if kind == Kind::Thread {
        return vec![Lmt::Direct, Lmt::Double];
    }
    let mapped = tocsin_world::xpmem_refusal().is_none().then_some(Lmt::Xpmem);
    let by_kernel = tocsin_world::cma_refusal().is_none().then_some(Lmt::Cma);
    // Of a rank that computes it needs more than the others do, which this does not measure: it is for where there are none.
    let pages = || tocsin_world::vmsplice_refusal().is_none().then_some(Lmt::Vmsplice);
    // Where the kernel copies otherwise, what is measured of this is not what runs.
    let by_key = by_kernel.is_none() && tocsin_world::knem_refusal().is_none();
    let by_kernel = by_kernel.or(by_key.then_some(Lmt::Knem));
    let once = mapped.into_iter().chain(by_kernel).collect::<Vec<_>>();
    let pages = if once.is_empty() { pages() } else { None };
    once.into_iter().chain(pages).chain([Lmt::Double]).collect()
}

/// The times of every strategy and of eager messages, for one kind of ranks and number of pairs.
fn measure(
    args: &Tune,
    kind: Kind,
    at_once: u32,
    relation: Option<Relation>,
    sizes: &[u64],
    start: Instant,
    sink: &mut Sink,
) -> Result<Vec<Curve>, Error> {
    let ranks = at_once * 2;
    let plan = |lmt, eager_max| plan(args, kind, ranks, lmt, eager_max);
    let mut curves = vec![Curve::new(None)];
    let mut plans = vec![plan(Lmt::Auto, EAGER_LIMIT)?];
    for lmt in strategies(kind) {
        curves.push(Curve::new(Some(lmt)));
        plans.push(plan(lmt, 0)?);
    }
    let rounds = args.rounds.unwrap_or(if args.quick { QUICK_ROUNDS } else { ROUNDS });
    let limit = if args.quick { QUICK_LIMIT } else { LIMIT };
    let mut fleet = Fleet::start(&plans)?;
    let bar = progress_bar(sizes.len() as u64, &format!("{kind} ranks, {at_once} at once"));
    for &bytes in sizes {
        let trips = (BYTES / bytes).clamp(1, MOST_TRIPS);
        let rounds = if start.elapsed() < limit { rounds } else { 1 };
        let mut half: Vec<Times> = plans.iter().map(|_| Times::default()).collect();
        fleet.rounds(1, rounds, |at, counts, world| {
            // What the library does not send without asking has no time.
            if curves[at].strategy.is_none() && bytes > EAGER_LIMIT as u64 {
                return Ok(());
            }
            let measured = world.run(Task::Together { bytes, trips })?;
            check(&measured, &world.plan, "an exchange")?;
            if counts {
                let slowest = measured.iter().map(|m| m.t_comm).max().unwrap_or(0);
                half[at].add((slowest as f64 / trips as f64 / 2.0 * UNIT) as u64);
            }
            Ok(())
        })?;
        for (curve, half) in curves.iter_mut().zip(&half).filter(|(_, half)| !half.is_empty()) {
            let us = half.median() / UNIT / 1000.0;
            curve.points.push((bytes, us));
            curve.spreads.push(Spread::of(bytes, half));
            sink.row(
                &Row::new("tune")
                    .set("backend", plans[0].backend_name())
                    .set("kind", kind.to_string())
                    .set("ranks", ranks)
                    .set("at_once", at_once)
                    .set("relation", relation.map(Relation::name))
                    .set("lmt", curve.name())
                    .set("size_bytes", bytes)
                    .set("rounds", half.len())
                    .number("half_rtt_us_p50", us),
            );
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    fleet.stop()?;
    Ok(curves)
}
