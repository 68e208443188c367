//! Times of collectives by each of their algorithms.
//!
//! One world for each kind, number and place of ranks does all of it: an operation of one size by each algorithm that can serve it, in turn,
//! so that all of them meet the same machine. What the times mean is decided in `choose`.

use super::choose::{self, Contest, Rival};
use super::places::{self, Confined};
use crate::bench::chosen::{has_board, own, with_arguments};
use crate::bench::coll::verify;
use crate::bench::progress_bar;
use crate::cli::Tune;
use crate::error::Error;
use crate::fleet::block::Task;
use crate::fleet::{Plan, World};
use crate::row::{Row, Sink, rounded};
use crate::stats::{Ratios, Times};
use crate::values::{Kind, Operation};
use std::time::{Duration, Instant};
use tocsin_topology::Topology;
use tocsin_world::Config;
use tocsin_world::algorithms::{self, ALGORITHMS, Algorithm};
use tocsin_world::tune::{Collective, MOST_ROWS, Relation, Table};

/// Sizes that are measured, by default and in a hurry.
const SIZES: [u64; 7] = [8, 256, 2 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
const QUICK_SIZES: [u64; 4] = [8, 2 << 10, 64 << 10, 1 << 20];
/// Rounds per size, by default and in a hurry.
const ROUNDS: u64 = 11;
const QUICK_ROUNDS: u64 = 5;
/// Time for all of them, shared out among what is left to do; each size has a round at least.
const LIMIT: Duration = Duration::from_secs(120);
const QUICK_LIMIT: Duration = Duration::from_secs(10);
/// Operations in a round, and in the one that says how long they take.
const MOST_OPERATIONS: u64 = 51;
const PILOT_OPERATIONS: u64 = 3;
/// Percentiles of ratios.
const MEDIAN: f64 = 50.0;
const MOST_ROUNDS: f64 = 90.0;
/// The blocks of all ranks together in one rank's buffer, at most: each rank has two of them.
const MOST_BYTES: u64 = 8 << 20;

/// What is measured.
pub(super) struct Wanted {
    operations: Vec<Operation>,
    sizes: Vec<u64>,
    ranks: Vec<u32>,
    rounds: u64,
    limit: Duration,
}

impl Wanted {
    /// What a command line asks for.
    pub(super) fn new(args: &Tune) -> Result<Wanted, Error> {
        let mut operations = Operation::ALL.to_vec();
        operations.retain(|op| args.op.is_empty() || args.op.contains(op));
        let sizes = args.sizes.as_ref().map(|sizes| sizes.0.clone());
        let sizes = ascending(sizes.unwrap_or(if args.quick { QUICK_SIZES.into() } else { SIZES.into() }));
        if sizes.first() == Some(&0) {
            return Err(Error::Usage("--sizes: messages of 0 bytes decide nothing: leave them out".into()));
        }
        let ranks = match &args.ranks {
            Some(asked) => ascending(asked.0.iter().map(|n| *n as u32).collect()),
            None => {
                let cores = Config::default().machine().map_err(Error::failed)?.cores.len();
                numbers_of_ranks(cores as u32)
            }
        };
        if ranks.first() == Some(&1) {
            return Err(Error::Usage("--ranks: 1 rank has nobody to communicate with: leave it out".into()));
        }
        let wanted = Wanted {
            operations,
            sizes,
            ranks,
            rounds: args.rounds.unwrap_or(if args.quick { QUICK_ROUNDS } else { ROUNDS }),
            limit: if args.quick { QUICK_LIMIT } else { LIMIT },
        };
        let of_ranks = |ranks: &u32| wanted.cells(*ranks).iter().map(|(_, sizes)| sizes.len()).sum::<usize>();
        // For both kinds of ranks, each at every distance and anywhere.
        match 2 * (Relation::ALL.len() + 1) * wanted.ranks.iter().map(of_ranks).sum::<usize>() {
            0 => Err(Error::Usage(
                "--sizes: none of these has blocks of up to 8M for all ranks together: name smaller ones"
                    .into(),
            )),
            cells if cells > MOST_ROWS => Err(Error::Usage(format!(
                "--ranks, --sizes: more than the {MOST_ROWS} rows that a table takes: name fewer"
            ))),
            _ => Ok(wanted),
        }
    }

    /// The operations, with the sizes of each.
    fn cells(&self, ranks: u32) -> Vec<(Operation, Vec<u64>)> {
        let sizes = |op: Operation| match op {
            Operation::Ibarrier => vec![0],
            op if has_blocks(op) => {
                let most = MOST_BYTES / u64::from(ranks);
                self.sizes.iter().copied().filter(|bytes| *bytes <= most).collect()
            }
            _ => self.sizes.clone(),
        };
        self.operations.iter().map(|op| (*op, sizes(*op))).collect()
    }
}

fn ascending<T: Ord>(mut numbers: Vec<T>) -> Vec<T> {
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// 2, 4, 8, ... as long as each rank has a core, and as many as there are.
fn numbers_of_ranks(cores: u32) -> Vec<u32> {
    let most = cores.clamp(2, tocsin_world::launcher::MAX_RANKS);
    let doubling = std::iter::successors(Some(2u32), |ranks| ranks.checked_mul(2));
    ascending(doubling.take_while(|ranks| *ranks <= most).chain([most]).collect())
}

/// Whether a rank has a buffer of as many blocks as there are ranks.
fn has_blocks(op: Operation) -> bool {
    use Operation::{Ibarrier, Ibcast, Iexscan, IreduceScatter, Iscan};
    let whole = [Ibarrier, Ibcast, Operation::Ireduce, Operation::Iallreduce, IreduceScatter, Iscan, Iexscan];
    !whole.contains(&op)
}

/// Measures; the rows, and what was measured in words. `messages` is what was measured of messages, of which the eager limit
/// holds here.
pub(super) fn measure(
    args: &Tune,
    wanted: &Wanted,
    kinds: &[Kind],
    messages: Option<&Table>,
    sink: &mut Sink,
) -> Result<(Vec<Collective>, String), Error> {
    let (mut rows, mut measured) = (Vec::new(), String::new());
    let end = Instant::now() + wanted.limit;
    let (relations, machine) = (places::relations()?, Topology::machine().map_err(Error::failed)?);
    let mut worlds = Vec::new();
    for &kind in kinds {
        for &ranks in &wanted.ranks {
            let there = places_of(args, kind, ranks, &machine, &relations)?;
            for place in places::to_measure(&there, 1) {
                worlds.push((kind, ranks, place, places::that_it_says(&there, place)));
            }
        }
    }
    for (at, (kind, ranks, place, said)) in worlds.iter().enumerate() {
        let row = messages.and_then(|table| table.row(kind.of_library(), *ranks, *place));
        let eager_max = row.map_or(tocsin_world::DEFAULT_EAGER_MAX, |row| row.eager_max);
        let _there = place.map(|place| Confined::to_part(place, *ranks)).transpose()?;
        let plan = super::plan(args, *kind, *ranks, crate::values::Lmt::Auto, eager_max)?;
        let until = Instant::now() + left(end, worlds.len() - at);
        let (of_world, times) = in_one_world(args, wanted, &plan, (*place, said), until, sink)?;
        rows.extend(of_world);
        measured += &times;
    }
    Ok((rows, measured))
}

/// The places at which so many ranks are measured; none where there is no choice.
fn places_of(
    args: &Tune,
    kind: Kind,
    ranks: u32,
    machine: &Topology,
    relations: &[Relation],
) -> Result<Vec<Relation>, Error> {
    let mut all = Vec::new();
    for place in places::with_room(machine, relations, ranks) {
        let _there = Confined::to_part(place, ranks)?;
        let plan = super::plan(args, kind, ranks, crate::values::Lmt::Auto, 0)?;
        let seats = plan.config()?.seats(ranks).map_err(Error::failed)?;
        // Where parts are uneven ranks may be nearer to each other than the part allows.
        if places::of_seats(machine, &seats) == Some(place) {
            all.push(place);
        }
    }
    Ok(if all.len() > 1 { all } else { Vec::new() })
}

/// Measures in a world, until a time; `said`: what the rows say of where its ranks were, which were at `place`.
fn in_one_world(
    args: &Tune,
    wanted: &Wanted,
    plan: &Plan,
    (place, said): (Option<Relation>, &[Option<Relation>]),
    until: Instant,
    sink: &mut Sink,
) -> Result<(Vec<Collective>, String), Error> {
    let (mut rows, mut measured) = (Vec::new(), String::new());
    let &Plan { kind, ranks, .. } = plan;
    let config = plan.config()?;
    let shares_cores = config.shares_cores(ranks).map_err(Error::failed)?;
    let copies = config.copies(kind.of_library(), ranks).map_err(Error::failed)?;
    let has_parts = config.hierarchy(ranks).map_err(Error::failed)?.is_some();
    let mut world = World::start(plan)?;
    let cells = wanted.cells(ranks);
    let mut cells_left: usize = cells.iter().map(|(_, sizes)| sizes.len()).sum();
    let where_they_are = place.map_or_else(String::new, |place| format!(" ({place})"));
    let bar = progress_bar(cells_left as u64, &format!("{ranks} ranks, {kind}{where_they_are}"));
    for (op, sizes) in cells {
        let mut contests = Vec::new();
        for bytes in sizes {
            let time = left(until, cells_left);
            cells_left -= 1;
            bar.inc(1);
            let race = Race::new(op, bytes, ranks, kind, (shares_cores, copies, has_parts))?;
            let Some(mut race) = race else { continue };
            race.run(&mut world, wanted.rounds, time)?;
            race.tell(&world, place, sink, &mut measured);
            contests.push(race.contest());
        }
        if args.quick
            && let Some(why) = choose::unclear(op, &contests)
        {
            super::unclear(&format!("{op} on {ranks} ranks, {kind}{where_they_are}"), &why);
            continue;
        }
        for &relation in said {
            for row in choose::rows(op, (kind.of_library(), ranks, relation), &contests) {
                let line = Row::new("tune")
                    .set("kind", kind.to_string())
                    .set("ranks", ranks)
                    .set("relation", relation.map(Relation::name))
                    .set("op", op.to_string())
                    .set("from_bytes", row.from)
                    .set("algorithm", row.algorithm.unwrap_or("auto"));
                sink.row(&line);
                rows.push(row);
            }
        }
    }
    bar.finish_and_clear();
    world.stop()?;
    Ok((rows, measured))
}

/// The part of the time until `end` that one of so many has.
fn left(end: Instant, parts: usize) -> Duration {
    end.saturating_duration_since(Instant::now()) / parts.max(1) as u32
}

/// One operation of one size by several algorithms.
struct Race {
    op: Operation,
    bytes: u64,
    /// The size by which algorithms are chosen.
    from: u64,
    runners: Vec<Runner>,
    /// Which of them the library takes by itself.
    own: usize,
    /// Operations in a round.
    count: u64,
}

struct Runner {
    algorithm: &'static Algorithm,
    times: Times,
    /// To the own one's time in the same round.
    ratios: Ratios,
}

impl Race {
    /// Of all that can serve it; `None`: there is nothing to choose.
    fn new(
        op: Operation,
        bytes: u64,
        ranks: u32,
        kind: Kind,
        (shares_cores, copies, has_parts): (bool, (bool, bool), bool),
    ) -> Result<Option<Race>, Error> {
        with_arguments(op, bytes, 0, ranks, |arguments| {
            let able = |a: &&Algorithm| {
                // Whether calls may do a part is the program's to say, not the clock's.
                !a.is_split()
                    // Where there are no parts to follow, it is another algorithm under another name.
                    && (has_parts || !a.is_topology_aware())
                    && a.restrictions.refusal(arguments, ranks).is_none()
                    && (has_board(ranks) || !a.restrictions.needs_board())
            };
            let runner = |algorithm| Runner { algorithm, times: Times::default(), ratios: Ratios::default() };
            let runners: Vec<Runner> = algorithms::of(op).filter(able).map(runner).collect();
            let own = own(arguments, ranks, kind, (shares_cores, copies), None)?;
            let own = runners.iter().position(|runner| std::ptr::eq(runner.algorithm, own));
            let from = arguments.size_bytes() as u64;
            let race = |own| Race { op, bytes, from, runners, own, count: PILOT_OPERATIONS };
            Ok(own.map(race).filter(|race| race.runners.len() > 1))
        })?
    }

    /// As many rounds, each beginning with another runner, as there is time for.
    fn run(&mut self, world: &mut World, rounds: u64, time: Duration) -> Result<(), Error> {
        let start = Instant::now();
        for at in 0..self.runners.len() {
            self.time(world, at)?;
        }
        let one_of_each = start.elapsed().as_secs_f64() / PILOT_OPERATIONS as f64;
        let affordable = (time.as_secs_f64() / one_of_each.max(1e-9)) as u64;
        let rounds = affordable.clamp(1, rounds);
        self.count = (affordable / rounds).clamp(1, MOST_OPERATIONS);
        let mut round = vec![0; self.runners.len()];
        for first in 0..rounds {
            for turn in 0..round.len() {
                let at = (turn + first as usize) % round.len();
                round[at] = self.time(world, at)?;
            }
            let own = round[self.own];
            for (runner, time) in self.runners.iter_mut().zip(&round) {
                runner.times.add(*time);
                runner.ratios.add(*time as f64 / own as f64);
            }
        }
        Ok(())
    }

    /// The median over some operations of the slowest rank's time, in nanoseconds.
    fn time(&self, world: &mut World, at: usize) -> Result<u64, Error> {
        let here = |algorithm: &Algorithm| std::ptr::eq(algorithm, self.runners[at].algorithm);
        let number = ALGORITHMS.iter().position(here).map_or(0, |at| at as u64 + 1);
        let (op, bytes, count) = (self.op, self.bytes, self.count);
        let measured = world.run(Task::Alone { op, bytes, root: 0, count, algorithm: number })?;
        verify(&measured, &world.plan, op)?;
        Ok(measured.iter().map(|m| m.t_comm).max().unwrap_or(0).max(1))
    }

    fn contest(&self) -> Contest {
        let rival = |(at, runner): (usize, &Runner)| Rival {
            name: runner.algorithm.name,
            ratio: self.ratio(at, MEDIAN),
            most: self.ratio(at, MOST_ROUNDS),
        };
        let rounds = self.runners.first().map_or(0, |runner| runner.times.len());
        Contest { from: self.from, rounds, rivals: self.runners.iter().enumerate().map(rival).collect() }
    }

    /// A runner's part of the own one's time, of which so many percent are not above it; that of the own one is 1 to the last
    /// digit.
    fn ratio(&self, at: usize, percent: f64) -> f64 {
        let of_other = || self.runners.get(at).map_or(f64::NAN, |runner| runner.ratios.percentile(percent));
        if at == self.own { 1.0 } else { of_other() }
    }

    fn tell(&self, world: &World, place: Option<Relation>, sink: &mut Sink, measured: &mut String) {
        let Race { op, bytes, .. } = self;
        let (kind, ranks) = (world.plan.kind, world.plan.ranks);
        for (at, runner) in self.runners.iter().enumerate() {
            let (name, us) = (runner.algorithm.name, runner.times.median() / 1000.0);
            let ratio = self.ratio(at, MEDIAN);
            let there = place.map_or_else(String::new, |place| format!(" {place}"));
            let (us_text, ratio_text) = (rounded(us), rounded(ratio));
            *measured += &format!("{kind} {ranks} {op} {bytes} {name} {us_text} {ratio_text}{there}\n");
            let row = Row::new("tune")
                .set("backend", world.plan.backend_name())
                .set("kind", kind.to_string())
                .set("ranks", ranks)
                .set("relation", place.map(Relation::name))
                .set("op", op.to_string())
                .set("size_bytes", *bytes)
                .set("algorithm", name)
                .set("rounds", runner.times.len())
                .set("operations", self.count)
                .number("t_comm_us", us)
                .number("ratio", ratio)
                .set("own", (at == self.own).then_some(true));
            sink.row(&row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_ranks_fit_the_machine() {
        for (cores, right) in [(1, &[2][..]), (2, &[2]), (3, &[2, 3]), (6, &[2, 4, 6]), (8, &[2, 4, 8])] {
            assert_eq!(numbers_of_ranks(cores), right, "{cores}");
        }
        assert_eq!(numbers_of_ranks(5000).last(), Some(&1024));
    }

    #[test]
    fn who_runs_is_who_can() {
        let names = |op, bytes, ranks| {
            let race = Race::new(op, bytes, ranks, Kind::Process, (false, (false, false), false)).unwrap();
            race.map(|race| {
                let names: Vec<_> = race.runners.iter().map(|runner| runner.algorithm.name).collect();
                (names, race.runners[race.own].algorithm.name, race.from)
            })
        };
        let (six, own, from) = names(Operation::Iallgather, 8, 6).unwrap();
        assert_eq!((&six[..], own, from), (&["linear", "ring", "bruck", "shm"][..], "shm", 8));
        // Neither a board nor a power of two.
        let (many, own, _) = names(Operation::Iallgather, 8, 66).unwrap();
        assert_eq!((&many[..], own), (&["linear", "ring", "bruck"][..], "bruck"));
        // The size of a reduce-scatter is that of a part.
        assert_eq!(names(Operation::IreduceScatter, 1024, 4).unwrap().2, 256);
        assert_eq!(names(Operation::Ialltoallv, 1024, 4).unwrap().2, 0);
        assert_eq!(names(Operation::Igatherv, 1024, 4), Some((vec!["linear", "shm"], "shm", 0)));
        assert_eq!(names(Operation::Igatherv, 1024, 66), None);
        // A tree that follows parts of the machine, where ranks are in several.
        for has_parts in [false, true] {
            let race = Race::new(Operation::Ibcast, 8, 4, Kind::Process, (false, (false, false), has_parts))
                .unwrap()
                .unwrap();
            let follows = race.runners.iter().any(|runner| runner.algorithm.is_topology_aware());
            assert_eq!(follows, has_parts);
        }
    }
}
