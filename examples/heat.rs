//! Heat in the wall of a tube: Jacobi's iteration on a grid of points, whose rows are dealt out to the ranks.
//!
//! ```sh
//! cargo build --release --bin tocsin --example heat
//! target/release/tocsin run -n 4 -- target/release/examples/heat --size 512 --steps 200
//! target/release/examples/heat --threads 4 --size 512 --steps 200
//! ```
//!
//! A step replaces each point by the mean of its four neighbours, but for the two ends of the tube, which stay as hot as
//! they are. A rank computes first the two rows that its neighbours wait for, and the others while those travel and while
//! the ranks agree on the residual, which is the largest change of a point: that of a step is known one step later. Nothing
//! in between polls.
//!
//! A point depends on no order of summing and a largest change neither, so residual and checksum are the same to the last
//! bit with every backend and any number of ranks.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tocsin::{Comm, Op, Request, World};

const USAGE: &str = "\
usage: heat [--size N] [--steps N] [--tolerance T] [--skew X] [--skewed first|turns] [--threads N]

  --size N        rows, and points in a row (256)
  --steps N       most steps (100)
  --tolerance T   ends when no point has changed by T or more in a step (0: never)
  --skew X        in each step, one rank computes X times its rows again (0)
  --skewed WHICH  that rank: always the first, or each in its turn for a step (first)
  --threads N     ranks are N threads of this process, not processes of `tocsin run`";

/// A row to the rank above; one to the rank below.
const UP: i32 = 1;
const DOWN: i32 = 2;

type Failure = Box<dyn Error + Send + Sync>;

/// The command line's fault, and so that of all ranks alike: one of them says it.
#[derive(Debug)]
struct Usage(String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Usage {}

struct Options {
    size: usize,
    steps: usize,
    tolerance: f64,
    skew: f64,
    turns: bool,
    threads: Option<u32>,
}

impl Options {
    /// `None`: what is asked for is the usage.
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Options>, Usage> {
        let mut options =
            Options { size: 256, steps: 100, tolerance: 0.0, skew: 0.0, turns: false, threads: None };
        while let Some(name) = words.next() {
            if name == "--help" {
                return Ok(None);
            }
            if !USAGE.lines().any(|line| line.split_whitespace().next() == Some(&name)) {
                return Err(Usage(format!("there is no option {name}\n{USAGE}")));
            }
            let value = words.next().ok_or_else(|| Usage(format!("{name} wants a value\n{USAGE}")))?;
            let wrong = |right: &str| Usage(format!("{name} {value}: use {right}"));
            let whole = || value.parse().map_err(|_| wrong("a whole number"));
            let real = || match value.parse() {
                Ok(number) if (0.0..=1e6).contains(&number) => Ok(number),
                _ => Err(wrong("a number from 0 to 1e6")),
            };
            match name.as_str() {
                "--size" => options.size = whole()?,
                "--steps" => options.steps = whole()?,
                "--tolerance" => options.tolerance = real()?,
                "--skew" => options.skew = real()?,
                "--skewed" => {
                    options.turns = match value.as_str() {
                        "first" => false,
                        "turns" => true,
                        _ => return Err(wrong("first or turns")),
                    }
                }
                "--threads" => options.threads = Some(value.parse().map_err(|_| wrong("a whole number"))?),
                _ => return Err(Usage(format!("there is no option {name}\n{USAGE}"))),
            }
        }
        if !(3..=1 << 16).contains(&options.size) {
            return Err(Usage(format!("--size {}: use 3 to 65536", options.size)));
        }
        Ok(Some(options))
    }
}

/// The rows of one rank, and around them a copy of each neighbour's nearest.
#[derive(Clone)]
struct Rows {
    width: usize,
    points: Vec<f64>,
}

impl Rows {
    /// How many, without the neighbours'.
    fn count(&self) -> usize {
        self.points.len() / self.width - 2
    }

    /// Row `i`; those of the rank itself begin with 1.
    fn row(&self, i: usize) -> &[f64] {
        &self.points[i * self.width..][..self.width]
    }

    fn row_mut(&mut self, i: usize) -> &mut [f64] {
        &mut self.points[i * self.width..][..self.width]
    }
}

/// Computes a row of `new` from `old`, and gives the largest change of a point.
fn relax(old: &Rows, new: &mut Rows, i: usize) -> f64 {
    let (above, row, below) = (old.row(i - 1), old.row(i), old.row(i + 1));
    let out = &mut new.row_mut(i)[..row.len()];
    let mut largest = 0.0;
    for j in 1..row.len() - 1 {
        out[j] = 0.25 * (above[j] + below[j] + row[j - 1] + row[j + 1]);
        let change = (out[j] - row[j]).abs();
        if change > largest {
            largest = change;
        }
    }
    largest
}

/// The outer rows of a rank on their way to its neighbours, and theirs to it.
struct Exchange {
    sent: [Request<Vec<f64>>; 2],
    received: [Request<Vec<f64>>; 2],
}

impl Exchange {
    fn start(comm: &Comm, rows: &Rows, buffers: [Vec<f64>; 4]) -> Result<Exchange, tocsin::Error> {
        // Above the first rank is the last: the rows go round the tube.
        let above = (comm.rank() + comm.size() - 1) % comm.size();
        let below = (comm.rank() + 1) % comm.size();
        let [mut up, mut down, from_above, from_below] = buffers;
        up.copy_from_slice(rows.row(1));
        down.copy_from_slice(rows.row(rows.count()));
        // A message that finds its receive needs no copy in between: the receives come first.
        let received = [comm.irecv(from_above, above, DOWN)?, comm.irecv(from_below, below, UP)?];
        let sent = [comm.isend(up, above, UP)?, comm.isend(down, below, DOWN)?];
        Ok(Exchange { sent, received })
    }

    /// Waits, puts the neighbours' rows around ours, and gives the buffers back.
    fn finish(self, rows: &mut Rows) -> Result<[Vec<f64>; 4], tocsin::Error> {
        let ([up, down], [from_above, from_below]) = (self.sent, self.received);
        let (from_above, from_below) = (from_above.wait()?, from_below.wait()?);
        rows.row_mut(0).copy_from_slice(&from_above);
        rows.row_mut(rows.count() + 1).copy_from_slice(&from_below);
        Ok([up.wait()?, down.wait()?, from_above, from_below])
    }
}

/// What a run gives; the same on every rank, but for the time.
struct Outcome {
    heading: String,
    time: Duration,
    residual: f64,
    checksum: u64,
}

fn solve(comm: &Comm, options: &Options) -> Result<Outcome, Failure> {
    let (rank, ranks, size) = (comm.rank() as usize, comm.size() as usize, options.size);
    if size < ranks {
        let told = format!("--size {size}: every rank needs a row, and there are {ranks} ranks");
        return Err(Usage(told).into());
    }
    let (first, end) = (size * rank / ranks, size * (rank + 1) / ranks);
    let blank = vec![0.0; size];
    let mut points = blank.clone(); // The row above comes from a neighbour, and so does that below.
    for row in first..end {
        points.extend((0..size).map(|column| ((row * row + 3 * column) % 101) as f64));
    }
    points.extend(&blank);
    let mut old = Rows { width: size, points };
    let mut new = old.clone();
    let last = old.count();
    let again = (options.skew * last as f64) as usize;

    let mut exchange = Exchange::start(comm, &old, [blank.clone(), blank.clone(), blank.clone(), blank])?;
    let mut reduction: Option<Request<Vec<f64>>> = None;
    let (mut steps, mut residual) = (0, f64::INFINITY);
    comm.barrier()?;
    let begun = Instant::now();
    while steps < options.steps && residual >= options.tolerance {
        // What the neighbours wait for comes first...
        let buffers = exchange.finish(&mut old)?;
        let mut change = relax(&old, &mut new, 1).max(relax(&old, &mut new, last));
        exchange = Exchange::start(comm, &new, buffers)?;
        // ...and the rest while that travels, and while the reduction of the last step goes on.
        for i in 2..last {
            change = change.max(relax(&old, &mut new, i));
        }
        let skewed = if options.turns { steps % ranks } else { 0 };
        if rank == skewed {
            for i in 0..again {
                // It gives what is there: only time passes.
                change = change.max(relax(&old, &mut new, 1 + i % last));
            }
        }
        let next = comm.iallreduce(vec![change], Op::Max)?;
        if let Some(request) = reduction.replace(next) {
            residual = request.wait()?[0];
        }
        std::mem::swap(&mut old, &mut new);
        steps += 1;
    }
    exchange.finish(&mut old)?;
    if let Some(request) = reduction {
        residual = request.wait()?[0];
    }
    let time = begun.elapsed();

    // The bits of each point by an odd number of its own. Sums of integers wrap, so their order is no matter.
    let mut checksum = 0u64;
    for (place, point) in (first * size..).zip(&old.points[size..][..last * size]) {
        checksum = checksum.wrapping_add(point.to_bits().wrapping_mul(2 * place as u64 + 1));
    }
    let checksum = comm.iallreduce(vec![checksum], Op::Sum)?.wait()?[0];
    let backend = comm.backend();
    let heading = format!("heat on {size} x {size} points, {steps} steps, {ranks} ranks, backend {backend}");
    Ok(Outcome { heading, time, residual, checksum })
}

/// What rank 0 has to print.
fn run() -> Result<Option<String>, Failure> {
    let options = Options::parse(std::env::args().skip(1));
    if let Ok(Some(options @ Options { threads: Some(ranks), .. })) = &options {
        let outcomes = World::threads(*ranks, |comm| solve(&comm, options))?;
        let outcomes = outcomes.into_iter().collect::<Result<Vec<Outcome>, Failure>>()?;
        return Ok(outcomes.first().map(told));
    }
    // Which rank this is, is known in the world only: so all join it, whatever the words are.
    let world = World::from_env()?;
    let said = match options {
        Ok(Some(options)) => solve(&world.comm(), &options).map(|outcome| told(&outcome)),
        Ok(None) => Ok(USAGE.to_owned()),
        Err(usage) => Err(usage.into()),
    };
    let first = world.rank() == 0;
    world.finalize()?;
    match said {
        Ok(said) => Ok(first.then_some(said)),
        Err(failure) if failure.is::<Usage>() && !first => Err(Usage(String::new()).into()),
        Err(failure) => Err(failure),
    }
}

fn told(Outcome { heading, time, residual, checksum }: &Outcome) -> String {
    let time = time.as_secs_f64();
    format!("{heading}\ntime_s {time:.6}\nresidual {residual:.9e}\nchecksum {checksum:016x}")
}

/// Public for `tests/tests/heat.rs`, whose ranks are this program too.
pub fn main() -> ExitCode {
    match run() {
        Ok(said) => {
            said.iter().for_each(|said| println!("{said}"));
            ExitCode::SUCCESS
        }
        Err(failure) => {
            let told = failure.to_string();
            if !told.is_empty() {
                eprintln!("heat: {told}");
            }
            if failure.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}
