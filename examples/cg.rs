//! Conjugate gradients with two reductions a step, both under way while the ranks compute: the equations of a chain of elements,
//! solved for many right-hand sides at once, with the elements dealt out to the ranks.
//!
//! ```sh
//! cargo build --release --bin tocsin --example cg
//! target/release/tocsin run -n 4 -- target/release/examples/cg --size 400 --tolerance 1e-6
//! target/release/tocsin run -n 3 -- target/release/examples/cg --skew 8 --skewed turns --algorithm ring
//! ```
//!
//! The matrix is block tridiagonal: a dense block for the unknowns of an element, and the coupling to its two neighbours. The
//! preconditioner solves each element by itself. The method is in W. Gropp's form (Update on libraries for Blue Waters, 2010; also in
//! Ghysels and Vanroose 2014): one sum is on its way while the preconditioner is applied, the other during the product with the
//! matrix. Each right-hand side has sums of its own, so that what is reduced is a vector of some KiB. Where that is combined by messages,
//! along a tree or in rounds, a rank that computes for longer than the others may have theirs to combine and to pass on.
//!
//! # When interrupts gain
//! Where another rank is late in each step (`--skewed turns`), as where the work wanders: the others go on to the next sum without it,
//! but for what it has to pass on, and interrupted it does that while it computes. The next late one can begin with its preconditioner, then,
//! while the last one is still at its product. Without interrupts it begins when the last one has ended, if that had something to pass on: all
//! ranks where sums take rounds, those inside of the tree (of 4 ranks, 0 and 2) with `--algorithm reduce-bcast`.
//!
//! Where it is always the same rank that is late, its own computing is the time of all, whatever notifies it. Little is to be gained:
//! where ranks share cores, that the others do what they do with a sum while it computes, and not beside it. Nothing is where the load is
//! balanced, or where sums stand in memory that all ranks share: the library's own choice up to 2 KiB (`--systems` of at most 128), and
//! for longer ones where ranks share cores or are two. Poll, too, is then as quick as signals are.
//!
//! # The same bits
//! The sum over an element is one number, which is added to the others' as an integer (of two words), so that no order
//! changes the result (as in Demmel and Nguyen 2013). So residual and checksum are the same to the last bit with every backend and
//! any number of ranks.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tocsin::{Comm, Op, Request, World};

const USAGE: &str = "\
usage: cg [--size N] [--unknowns N] [--systems N] [--steps N] [--tolerance T] [--skew X] [--skewed WHICH]
          [--algorithm NAME] [--threads N]

  --size N        elements (192)
  --unknowns N    unknowns of an element (12)
  --systems N     right-hand sides, solved at once (160)
  --steps N       most steps (100)
  --tolerance T   ends when all residuals are less than T of what they were at first (0: never)
  --skew X        in each step, one rank computes X times its preconditioner and its product again (0)
  --skewed WHICH  that rank: always the first, the last, or a number, or each in its turn for a step: turns (first)
  --algorithm A   how sums are combined, such as recursive-doubling (what the library chooses)
  --threads N     ranks are N threads of this process, not processes of `tocsin run`";

/// An element to the rank before; one to the rank after.
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

/// The rank that computes for longer.
enum Skewed {
    Rank(usize),
    Last,
    Turns,
}

struct Options {
    size: usize,
    unknowns: usize,
    systems: usize,
    steps: usize,
    tolerance: f64,
    skew: f64,
    skewed: Skewed,
    algorithm: Option<String>,
    threads: Option<u32>,
}

impl Options {
    /// `None`: what is asked for is the usage.
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Options>, Usage> {
        let mut options = Options {
            size: 192,
            unknowns: 12,
            systems: 160,
            steps: 100,
            tolerance: 0.0,
            skew: 0.0,
            skewed: Skewed::Rank(0),
            algorithm: None,
            threads: None,
        };
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
            let some = || match value.parse() {
                Ok(number) if (1..=1 << 16).contains(&number) => Ok(number),
                _ => Err(wrong("a number from 1 to 65536")),
            };
            let real = || match value.parse() {
                Ok(number) if (0.0..=1e6).contains(&number) => Ok(number),
                _ => Err(wrong("a number from 0 to 1e6")),
            };
            match name.as_str() {
                "--size" => options.size = some()?,
                "--unknowns" => options.unknowns = some()?,
                "--systems" => options.systems = some()?,
                "--steps" => options.steps = whole()?,
                "--tolerance" => options.tolerance = real()?,
                "--skew" => options.skew = real()?,
                "--skewed" => {
                    options.skewed = match value.as_str() {
                        "first" => Skewed::Rank(0),
                        "last" => Skewed::Last,
                        "turns" => Skewed::Turns,
                        _ => Skewed::Rank(
                            value.parse().map_err(|_| wrong("first, last, turns or a rank's number"))?,
                        ),
                    }
                }
                "--algorithm" => options.algorithm = Some(value),
                "--threads" => options.threads = Some(value.parse().map_err(|_| wrong("a whole number"))?),
                _ => return Err(Usage(format!("there is no option {name}\n{USAGE}"))),
            }
        }
        Ok(Some(options))
    }
}

/// A number for each system at each unknown of a rank's elements: an element's in one row, the systems of an unknown side by
/// side.
struct Field {
    /// Numbers in a row.
    width: usize,
    numbers: Vec<f64>,
}

impl Field {
    fn new(rows: usize, width: usize) -> Field {
        Field { width, numbers: vec![0.0; rows * width] }
    }

    fn row(&self, i: usize) -> &[f64] {
        &self.numbers[i * self.width..][..self.width]
    }

    fn row_mut(&mut self, i: usize) -> &mut [f64] {
        &mut self.numbers[i * self.width..][..self.width]
    }
}

/// A dense matrix for the unknowns of an element, row by row.
struct Block {
    unknowns: usize,
    numbers: Vec<f64>,
}

impl Block {
    /// What couples the unknowns of an element: a kernel of their distance, which is positive definite, and enough beside it for the
    /// two neighbours to take off.
    fn of_element(unknowns: usize) -> Block {
        let numbers = (0..unknowns * unknowns).map(|at| {
            let (row, column) = (at / unknowns, at % unknowns);
            let distance = row.abs_diff(column) as f64;
            1.0 / (1.0 + distance * distance) + if row == column { 2.001 } else { 0.0 }
        });
        Block { unknowns, numbers: numbers.collect() }
    }

    /// By elimination, without pivots: it is positive definite.
    fn inverse(&self) -> Block {
        let n = self.unknowns;
        let mut left = self.numbers.clone();
        let mut right: Vec<f64> = (0..n * n).map(|at| if at / n == at % n { 1.0 } else { 0.0 }).collect();
        for pivot in 0..n {
            let scale = 1.0 / left[pivot * n + pivot];
            for column in 0..n {
                left[pivot * n + column] *= scale;
                right[pivot * n + column] *= scale;
            }
            for row in (0..n).filter(|row| *row != pivot) {
                let factor = left[row * n + pivot];
                for column in 0..n {
                    left[row * n + column] -= factor * left[pivot * n + column];
                    right[row * n + column] -= factor * right[pivot * n + column];
                }
            }
        }
        Block { unknowns: n, numbers: right }
    }

    /// Times the numbers of an element.
    fn times(&self, x: &[f64], out: &mut [f64]) {
        let systems = x.len() / self.unknowns;
        for (out, factors) in out.chunks_exact_mut(systems).zip(self.numbers.chunks_exact(self.unknowns)) {
            // So many systems at a time as have their sums in registers.
            const TOGETHER: usize = 8;
            let (some, rest) = out.as_chunks_mut::<TOGETHER>();
            let mut at = 0;
            for out in some {
                let mut sums = [0.0; TOGETHER];
                for (x, factor) in x.chunks_exact(systems).zip(factors) {
                    sums.iter_mut().zip(&x[at..at + TOGETHER]).for_each(|(sum, x)| *sum += factor * x);
                }
                *out = sums;
                at += TOGETHER;
            }
            rest.fill(0.0);
            for (x, factor) in x.chunks_exact(systems).zip(factors) {
                rest.iter_mut().zip(&x[at..]).for_each(|(out, x)| *out += factor * x);
            }
        }
    }
}

/// The matrix times `x`, for an element.
fn product(block: &Block, x: &Field, i: usize, out: &mut [f64]) {
    block.times(x.row(i), out);
    for (out, (before, after)) in out.iter_mut().zip(x.row(i - 1).iter().zip(x.row(i + 1))) {
        *out -= before + after;
    }
}

/// A sum for each system: of its elements' as integers, so that no order changes it.
struct Sums {
    /// Of the element at hand.
    row: Vec<f64>,
    /// Two words for each: in units of 2^-30, and what is less than one of these in units of 2^-80.
    words: Vec<i64>,
}

const COARSE: f64 = (1u64 << 30) as f64;
const FINE: f64 = (1u128 << 80) as f64;

impl Sums {
    fn new(systems: usize) -> Sums {
        Sums { row: vec![0.0; systems], words: vec![0; 2 * systems] }
    }

    /// Adds the products of an element's numbers.
    fn add(&mut self, a: &[f64], b: &[f64]) {
        let k = self.row.len();
        self.row.fill(0.0);
        for (a, b) in a.chunks_exact(k).zip(b.chunks_exact(k)) {
            self.row.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
        }
        for (words, sum) in self.words.chunks_exact_mut(2).zip(&self.row) {
            let coarse = (sum * COARSE) as i64;
            words[0] += coarse;
            words[1] += ((sum - coarse as f64 / COARSE) * FINE) as i64;
        }
    }

    /// Has the ranks' sums added, while this rank computes, and begins anew.
    fn reduce(&mut self, comm: &Comm, words: Vec<i64>) -> Result<Request<Vec<i64>>, tocsin::Error> {
        let words = std::mem::replace(&mut self.words, words);
        self.words.fill(0);
        comm.iallreduce(words, Op::Sum)
    }
}

/// Waits for sums, and gives back the memory they came in.
fn finish(request: Request<Vec<i64>>, sums: &mut [f64]) -> Result<Vec<i64>, tocsin::Error> {
    let words = request.wait()?;
    for (sum, words) in sums.iter_mut().zip(words.chunks_exact(2)) {
        *sum = words[0] as f64 / COARSE + words[1] as f64 / FINE;
    }
    Ok(words)
}

/// `a / b` for each system; none where there is nothing left to do.
fn quotients(out: &mut [f64], a: &[f64], b: &[f64]) {
    for (out, (a, b)) in out.iter_mut().zip(a.iter().zip(b)) {
        *out = if *b > 0.0 { a / b } else { 0.0 };
    }
}

/// Makes of each number of `y` what `f` makes of it, of its system's factor and of the number of `x` in the same place.
fn update(y: &mut [f64], by: &[f64], x: &[f64], f: impl Fn(f64, f64, f64) -> f64) {
    for (y, x) in y.chunks_exact_mut(by.len()).zip(x.chunks_exact(by.len())) {
        y.iter_mut().zip(by.iter().zip(x)).for_each(|(y, (by, x))| *y = f(*y, *by, *x));
    }
}

fn plus(y: f64, by: f64, x: f64) -> f64 {
    y + by * x
}

fn minus(y: f64, by: f64, x: f64) -> f64 {
    y - by * x
}

fn anew(y: f64, by: f64, x: f64) -> f64 {
    x + by * y
}

/// The outer elements of a rank on their way to its neighbours, and theirs to it. The chain ends at the first rank and at the
/// last.
struct Exchange {
    requests: [Option<[Request<Vec<f64>>; 2]>; 2],
}

impl Exchange {
    /// Sends rows `1` and `last` of `z`.
    fn start(comm: &Comm, z: &Field, last: usize) -> Result<Exchange, tocsin::Error> {
        let rank = comm.rank();
        let begin = |peer: Option<u32>, row: usize, to: i32, from: i32| {
            let Some(peer) = peer.filter(|peer| *peer < comm.size()) else { return Ok(None) };
            // A message that finds its receive needs no copy in between: the receive comes first.
            let received = comm.irecv(vec![0.0; z.width], peer, from)?;
            Ok::<_, tocsin::Error>(Some([received, comm.isend(z.row(row).to_vec(), peer, to)?]))
        };
        let above = begin(rank.checked_sub(1), 1, UP, DOWN)?;
        let below = begin(Some(rank + 1), last, DOWN, UP)?;
        Ok(Exchange { requests: [above, below] })
    }

    /// Waits, and puts the neighbours' elements around ours.
    fn finish(self, z: &mut Field, last: usize) -> Result<(), tocsin::Error> {
        for (requests, row) in self.requests.into_iter().zip([0, last + 1]) {
            if let Some([received, sent]) = requests {
                z.row_mut(row).copy_from_slice(&received.wait()?);
                sent.wait()?;
            }
        }
        Ok(())
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
    let (rank, ranks) = (comm.rank() as usize, comm.size() as usize);
    let &Options { size, unknowns, systems, .. } = options;
    if size < ranks {
        let told = format!("--size {size}: every rank needs an element, and there are {ranks} ranks");
        return Err(Usage(told).into());
    }
    if let Skewed::Rank(late) = options.skewed
        && late >= ranks
    {
        return Err(Usage(format!("--skewed {late}: the last of {ranks} ranks is {}", ranks - 1)).into());
    }
    let (first, end) = (size * rank / ranks, size * (rank + 1) / ranks);
    let sums = options.algorithm.as_ref().map_or_else(|| comm.clone(), |name| comm.with_algorithm(name));
    // The rank's elements are in rows 1 to `last`; around them are its neighbours', or zeros.
    let (last, width) = (end - first, unknowns * systems);
    let field = || Field::new(last + 2, width);
    let block = Block::of_element(unknowns);
    let inverse = block.inverse();

    let [mut x, mut r, mut z, mut q, mut w] = [field(), field(), field(), field(), field()];
    for i in 1..=last {
        let element = first + i - 1;
        for (at, b) in r.row_mut(i).iter_mut().enumerate() {
            let (unknown, system) = (at / systems, at % systems);
            *b = ((element * element + 3 * unknown + 7 * system * (element + 1)) % 101) as f64 / 101.0 - 0.5;
        }
        inverse.times(r.row(i), z.row_mut(i));
    }
    Exchange::start(comm, &z, last)?.finish(&mut z, last)?;
    let (mut gammas, mut deltas) = (Sums::new(systems), Sums::new(systems));
    for i in 1..=last {
        product(&block, &z, i, w.row_mut(i));
        gammas.add(r.row(i), z.row(i));
        deltas.add(z.row(i), w.row(i));
    }
    let (mut p, mut s) = (field(), field());
    p.numbers.copy_from_slice(&z.numbers);
    s.numbers.copy_from_slice(&w.numbers);
    let [mut gamma, mut next, mut delta, mut factor] = [(); 4].map(|()| vec![0.0; systems]);
    let mut spare = finish(gammas.reduce(&sums, vec![0; 2 * systems])?, &mut gamma)?;
    let at_first = gamma.clone();
    let mut residual = 1.0;

    let mut steps = 0;
    comm.barrier()?;
    let begun = Instant::now();
    while steps < options.steps && residual >= options.tolerance {
        let late = match options.skewed {
            Skewed::Rank(late) => late,
            Skewed::Last => ranks - 1,
            Skewed::Turns => steps % ranks,
        };
        let again = if rank == late { options.skew } else { 0.0 };

        // The preconditioner, while delta = (p, s) is added up.
        let sum = deltas.reduce(&sums, spare)?;
        for i in (1..=last).chain((0..(again * last as f64) as usize).map(|i| 1 + i % last)) {
            inverse.times(s.row(i), q.row_mut(i));
        }
        spare = finish(sum, &mut delta)?;
        quotients(&mut factor, &gamma, &delta);

        // What the neighbours wait for comes first...
        for i in [1, last].into_iter().take(last.min(2)) {
            update(z.row_mut(i), &factor, q.row(i), minus);
        }
        let exchange = Exchange::start(comm, &z, last)?;
        for i in 1..=last {
            if i != 1 && i != last {
                update(z.row_mut(i), &factor, q.row(i), minus);
            }
            update(x.row_mut(i), &factor, p.row(i), plus);
            update(r.row_mut(i), &factor, s.row(i), minus);
            gammas.add(r.row(i), z.row(i));
        }

        // ...and then the product, while that travels and gamma = (r, z) is added up.
        let sum = gammas.reduce(&sums, spare)?;
        let inner = last.saturating_sub(2);
        for i in (2..last).chain((0..(again * inner as f64) as usize).map(|i| 2 + i % inner)) {
            product(&block, &z, i, w.row_mut(i));
        }
        exchange.finish(&mut z, last)?;
        for i in [1, last].into_iter().take(last.min(2)) {
            product(&block, &z, i, w.row_mut(i));
        }
        spare = finish(sum, &mut next)?;
        quotients(&mut factor, &next, &gamma);
        std::mem::swap(&mut gamma, &mut next);
        for i in 1..=last {
            update(p.row_mut(i), &factor, z.row(i), anew);
            update(s.row_mut(i), &factor, w.row(i), anew);
            deltas.add(p.row(i), s.row(i));
        }
        let ratios =
            gamma.iter().zip(&at_first).map(|(now, then)| if *then > 0.0 { now / then } else { 0.0 });
        residual = ratios.fold(0.0, f64::max).sqrt();
        steps += 1;
    }
    let time = begun.elapsed();

    // The bits of each number by an odd number of its own. Sums of integers wrap, so their order is no matter.
    let mut checksum = 0u64;
    for (place, number) in (first * width..).zip(&x.numbers[width..][..last * width]) {
        checksum = checksum.wrapping_add(number.to_bits().wrapping_mul(2 * place as u64 + 1));
    }
    let checksum = comm.iallreduce(vec![checksum], Op::Sum)?.wait()?[0];
    let backend = comm.backend();
    let heading =
        format!("cg on {size} elements, {systems} systems, {steps} steps, {ranks} ranks, backend {backend}");
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

/// Public for `tests/tests/cg.rs`, whose ranks are this program too.
pub fn main() -> ExitCode {
    match run() {
        Ok(said) => {
            said.iter().for_each(|said| println!("{said}"));
            ExitCode::SUCCESS
        }
        Err(failure) => {
            let told = failure.to_string();
            if !told.is_empty() {
                eprintln!("cg: {told}");
            }
            if failure.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}
