//! Random collectives by random algorithms, several outstanding at once, against a sequential model; floating-point sums against
//! a model that replays the algorithm's stated order, to the last bit.

use tocsin_nbc::order::Shape;
use tocsin_nbc::table::{self, Operation};
use tocsin_world::{Comm, DataType, Error, Op, RawRequest};

use crate::random::Random;
use crate::run::Arguments;
use crate::scenarios::messages;

type Fold = fn(u64, u64) -> u64;

/// One collective of the plan, with what this rank's buffer holds and what it must hold in the end.
struct Planned {
    request: RawRequest,
    kept: Vec<u8>,
    result: Vec<u8>,
    expected: Vec<u8>,
    what: String,
}

fn contribution(seed: u64, rank: u32, bytes: usize) -> Vec<u8> {
    let mut buffer = vec![0; bytes];
    Random::fill(seed ^ (u64::from(rank) << 32), &mut buffer);
    buffer
}

/// Sum, minimum or bitwise xor of 64-bit integers over all ranks.
fn reduced(seed: u64, ranks: u32, bytes: usize, fold: Fold) -> Vec<u8> {
    let words = |rank| {
        contribution(seed, rank, bytes)
            .chunks_exact(8)
            .map(|c| u64::from_le_bytes([c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]]))
            .collect::<Vec<u64>>()
    };
    let mut total = words(0);
    for rank in 1..ranks {
        for (t, w) in total.iter_mut().zip(words(rank)) {
            *t = fold(*t, w);
        }
    }
    total.into_iter().flat_map(u64::to_le_bytes).collect()
}

/// The sum of floating-point numbers in the order that the algorithm states.
fn summed(seed: u64, ranks: u32, count: usize, algorithm: &table::Algorithm) -> Vec<u8> {
    let all: Vec<Vec<f64>> = (0..ranks).map(|rank| floats(seed, rank, count)).collect();
    let order = algorithm.order.unwrap_or_else(|| panic!("{} states no order", algorithm.name));
    let mut total = vec![0.0; count];
    for share in order(&Shape { ranks, count, root: 0, rank: 0 }) {
        for i in share.elements {
            total[i] = share.order.evaluate(&|rank| all[rank as usize][i], &|a, b| a + b);
        }
    }
    total.into_iter().flat_map(f64::to_le_bytes).collect()
}

/// Numbers of very different sizes, so that the order of a sum shows in its last bits.
fn floats(seed: u64, rank: u32, count: usize) -> Vec<f64> {
    let mut random = Random::new(seed ^ (u64::from(rank) << 32));
    (0..count).map(|_| (random.bits() as f64 - 9e18) * (0.5_f64).powi(random.below(90) as i32)).collect()
}

/// Starts it by `algorithm`, or by whichever fits if that one cannot serve this communicator (all ranks find the same).
fn by(
    algorithm: &str,
    call: impl Fn(Option<&str>) -> Result<RawRequest, Error>,
) -> Result<RawRequest, Error> {
    match call(Some(algorithm)) {
        Err(Error::InvalidArgument { .. }) => call(None),
        other => other,
    }
}

fn start(comm: &Comm, random: &mut Random, max: u64) -> Planned {
    let (me, ranks) = (comm.rank(), comm.size());
    let seed = random.bits();
    let scale = [8, 64, 1024, max][random.below(4) as usize].min(max);
    let elements = random.below(scale / 8 + 1) as usize;
    let root = random.below(u64::from(ranks)) as u32;
    let which = random.below(5) as usize;
    let fold = random.below(3) as usize;
    let bytes = elements * 8;
    let operation = [
        Operation::Ibarrier,
        Operation::Ibcast,
        Operation::Iallreduce,
        Operation::Iallreduce,
        Operation::Ialltoall,
    ][which];
    let algorithms: Vec<_> = table::of(operation).collect();
    let algorithm = algorithms[random.below(algorithms.len() as u64) as usize];
    let name = algorithm.name;
    let (kept, mut result, expected, what);
    let request = match which {
        0 => {
            (kept, result, expected) = (Vec::new(), Vec::new(), Vec::new());
            what = format!("ibarrier by {name}");
            by(name, |name| comm.ibarrier_raw(name))
        }
        1 => {
            expected = contribution(seed, root, bytes);
            kept = Vec::new();
            result = if me == root { expected.clone() } else { vec![0; bytes] };
            what = format!("ibcast of {bytes} bytes from {root} by {name}");
            let buffer = result.as_mut_ptr();
            // SAFETY: `result` is heap memory that stays where it is until the request is complete.
            by(name, |name| unsafe { comm.ibcast_raw(buffer, bytes, root, name) })
        }
        2 => {
            let folds: [(Op, Fold); 3] =
                [(Op::Sum, u64::wrapping_add), (Op::Min, u64::min), (Op::BXor, |a, b| a ^ b)];
            let (op, fold) = folds[fold];
            kept = contribution(seed, me, bytes);
            result = vec![0; bytes];
            expected = reduced(seed, ranks, bytes, fold);
            what = format!("iallreduce of {elements} integers, {op:?}, by {name}");
            let (from, to) = (kept.as_ptr(), result.as_mut_ptr());
            // SAFETY: as above, for both buffers.
            by(name, |name| unsafe { comm.iallreduce_raw(Some(from), to, elements, DataType::U64, op, name) })
        }
        3 => {
            kept = floats(seed, me, elements).into_iter().flat_map(f64::to_le_bytes).collect();
            result = vec![0; bytes];
            expected = summed(seed, ranks, elements, algorithm);
            what = format!("iallreduce of {elements} floats by {name}");
            let (from, to) = (kept.as_ptr(), result.as_mut_ptr());
            // A sum serves every algorithm of the table. SAFETY: as above, for both buffers.
            unsafe { comm.iallreduce_raw(Some(from), to, elements, DataType::F64, Op::Sum, Some(name)) }
        }
        _ => {
            let block = bytes / ranks as usize;
            kept = contribution(seed, me, block * ranks as usize);
            result = vec![0; block * ranks as usize];
            expected = (0..ranks)
                .flat_map(|r| {
                    contribution(seed, r, block * ranks as usize)[block * me as usize..][..block].to_vec()
                })
                .collect();
            what = format!("ialltoall of {block} bytes by {name}");
            let (from, to) = (kept.as_ptr(), result.as_mut_ptr());
            // SAFETY: as above, for both buffers.
            by(name, |name| unsafe { comm.ialltoall_raw(Some(from), to, block, name) })
        }
    };
    let request = request.unwrap_or_else(|e| panic!("rank {me}: {what}: {e}"));
    Planned { request, kept, result, expected, what }
}

fn finish(comm: &Comm, mut planned: Planned) {
    if let Err(error) = planned.request.wait() {
        panic!("rank {}: {}: {error}", comm.rank(), planned.what);
    }
    assert!(planned.result == planned.expected, "rank {}: wrong result of {}", comm.rank(), planned.what);
    drop(planned.kept);
}

/// `seed`, `rounds`, `outstanding` (at most, at once), `max` (bytes per rank).
pub fn random_collectives(comm: &Comm, arguments: &Arguments) {
    let mut random = Random::new(arguments.number("seed"));
    let outstanding = arguments.number("outstanding");
    let mut own = Random::new(u64::from(comm.rank()) + 77);
    for _ in 0..arguments.number("rounds") {
        let count = 1 + random.below(outstanding);
        let mut pending: Vec<Planned> =
            (0..count).map(|_| start(comm, &mut random, arguments.number("max"))).collect();
        own.shuffle(&mut pending);
        for planned in pending {
            finish(comm, planned);
        }
    }
}

/// `seed`, `operations` in all, `max`: rounds of messages with collectives outstanding meanwhile, on three communicators.
pub fn mixed(comm: &Comm, arguments: &Arguments) {
    let mut random = Random::new(arguments.number("seed"));
    let dup = comm.dup().unwrap_or_else(|e| panic!("{e}"));
    let color = comm.rank() % 2;
    let half = comm
        .split(Some(color), -(comm.rank() as i32))
        .unwrap_or_else(|e| panic!("{e}"))
        .unwrap_or_else(|| panic!("split gave no communicator"));
    let mut own = Random::new(u64::from(comm.rank()) ^ 0xfeed);
    let (operations, max) = (arguments.number("operations"), arguments.number("max"));
    let mut done = 0;
    while done < operations {
        let collectives = 1 + random.below(4);
        let messages = 1 + random.below(24);
        let mut pending: Vec<(&Comm, Planned)> =
            (0..collectives).map(|_| (&dup, start(&dup, &mut random, max))).collect();
        // The two halves have different sizes when the number of ranks is odd: a plan of their own.
        let mut halves = Random::new(random.bits() ^ u64::from(color));
        pending.push((&half, start(&half, &mut halves, max)));
        messages::round(comm, &mut random, messages, max);
        own.shuffle(&mut pending);
        for (on, planned) in pending {
            finish(on, planned);
        }
        done += collectives + messages + 1;
    }
}
