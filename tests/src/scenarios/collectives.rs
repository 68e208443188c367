//! Random collectives by random algorithms, several outstanding at once, against a sequential model; floating-point sums against
//! a model that replays the algorithm's stated order, to the last bit. And the product of all that a collective depends on.

mod call;
pub mod covered;
// The generator, what it is given, and the elements are those of the tests of the algorithms alone.
#[path = "../../../crates/nbc/tests/common/pairwise.rs"]
#[allow(missing_docs)]
pub mod pairwise;
pub(in crate::scenarios) mod restarted;
#[path = "../../../crates/nbc/tests/common/space.rs"]
#[allow(missing_docs, dead_code)]
pub(in crate::scenarios) mod space;
#[path = "../../../crates/nbc/tests/common/supply.rs"]
mod supply;
#[path = "../../../crates/nbc/tests/common/values.rs"]
#[allow(clippy::unwrap_used)]
mod values;

use tocsin_nbc::table::{self, Algorithm, Operation};
use tocsin_world::{Comm, Error, RawRequest};

use crate::memory;
use crate::random::Random;
use crate::run::Arguments;
use crate::scenarios::messages;
use crate::ways;
pub(super) use call::Part;
use call::{Call, Combine};
pub use restarted::{restarted, restarted_until_death};
use space::has_blocks;

/// Random numbers, one after the other.
fn words(seed: u64) -> impl FnMut() -> u64 {
    let mut random = Random::new(seed);
    move || random.bits()
}

/// One collective of the plan, with what this rank's buffer holds and what it must hold in the end.
pub(super) struct Planned {
    pub(super) request: RawRequest,
    pub(super) part: Part,
    pub(super) what: String,
}

/// Whether a communicator does the call on its board.
fn fits_board(call: &Call, comm: &Comm) -> bool {
    let (size, ranks) = (call.combine.size(), comm.size() as usize);
    ranks > 1 && space::fits_board(call.operation, call.elements, size, ranks, comm.has_long_parts())
}

/// The call by its algorithm, or by whichever fits if that one cannot serve so many ranks (all find the same).
fn fitted(mut call: Call, comm: &Comm) -> Call {
    let restrictions = call.algorithm.restrictions;
    let odd = restrictions.power_of_two && !comm.size().is_power_of_two();
    if odd || restrictions.needs_board() && !fits_board(&call, comm) {
        call.algorithm = first_of(call.operation);
    }
    call
}

/// An algorithm that serves everybody.
fn first_of(operation: Operation) -> &'static Algorithm {
    table::of(operation).next().unwrap_or_else(|| panic!("{operation} has no algorithm"))
}

fn post(comm: &Comm, call: Call) -> Planned {
    let call = fitted(call, comm);
    post_by(comm, call, Some(call.algorithm.name))
}

/// By the algorithm of this name, or the library's own choice.
fn post_by(comm: &Comm, call: Call, name: Option<&str>) -> Planned {
    let me = comm.rank();
    let mut part = call.part(comm);
    if name.is_none() && call.operation.is_reduction() && call.combine.is_float() {
        // Which one the library chooses is its own affair; that it keeps to an order is not.
        let orders = table::of(call.operation).filter(|a| a.name != call.algorithm.name);
        part.others = orders.map(|algorithm| Call { algorithm, ..call }.part(comm).expected).collect();
    }
    part.share(comm, call.seed ^ u64::from(me));
    let what = format!("{} by {}: {call:?}", call.operation, name.unwrap_or("choice"));
    // SAFETY: the buffers are heap memory that stays where it is until the request is complete: `finish`.
    let request = unsafe { call.start(comm, &mut part, name) };
    let request = request.unwrap_or_else(|e: Error| panic!("rank {me}: {what}: {e}"));
    Planned { request, part, what }
}

fn start(comm: &Comm, random: &mut Random, max: u64) -> Planned {
    let algorithm = &table::ALGORITHMS[random.below(table::ALGORITHMS.len() as u64) as usize];
    post(comm, call_of(comm, algorithm, random, max))
}

/// What there is for random calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    /// Bytes per rank, at most.
    pub(super) max: u64,
    /// Operators may be a user's.
    pub(super) users: bool,
    /// The communicator has memory that all its ranks share.
    pub(super) board: bool,
}

impl Choice {
    /// A random call, the same on all ranks.
    fn call(self, comm: &Comm, random: &mut Random) -> Call {
        let algorithm = &table::ALGORITHMS[random.below(table::ALGORITHMS.len() as u64) as usize];
        let mut call = call_of(comm, algorithm, random, self.max);
        if !self.users && call.combine.is_users() {
            call.combine = Combine::FLOATS;
        }
        if !self.board && call.algorithm.restrictions.needs_board() {
            call.algorithm = first_of(call.operation);
        }
        call
    }
}

/// Starts a random call, now and then by an algorithm of the library's choice.
pub(super) fn start_any(comm: &Comm, random: &mut Random, choice: Choice) -> Planned {
    let call = choice.call(comm, random);
    if random.below(3) == 0 { post_by(comm, call, None) } else { post(comm, call) }
}

/// A random call by an algorithm, the same on all ranks.
fn call_of(comm: &Comm, algorithm: &'static Algorithm, random: &mut Random, max: u64) -> Call {
    let ranks = u64::from(comm.size());
    let scale = [8, 64, 1024, max][random.below(4) as usize].min(max);
    let elements = random.below(scale / 8 + 1);
    let (integers, which) = (Combine::integers(random.below(3) as usize), random.below(3) as usize);
    let seed = random.bits();
    let mut call = Call {
        operation: algorithm.operation,
        algorithm,
        combine: [integers, Combine::FLOATS, Combine::affine()][which],
        seed,
        run: 0,
        elements: (if has_blocks(algorithm.operation) { elements / ranks } else { elements }) as usize,
        root: random.below(ranks) as u32,
        in_place: random.below(3) == 0,
        pieces: Call::any_pieces(seed),
    };
    if !call.is_allowed() {
        call.combine = Combine::FLOATS;
    }
    call
}

/// Every operation by every algorithm and by the library's choice, from every root, in both forms, around every size at which
/// something changes, with some ways to combine, or with `types=all` every operator and type: one in `every` of them, of the
/// long ones one in `long`, of those of megabytes one in `longest`, if that is said, and none that is longer than `most`, bytes of
/// the buffers of one side of all ranks, if that is said. Worlds of different `turn` take different ones. `seed` is the same on
/// all ranks. `algorithm`: only those of that name. `malloc=keep`: what is freed [stays](memory::keep).
pub fn product(comm: &Comm, arguments: &Arguments) {
    if arguments.optional("malloc") == Some("keep") {
        memory::keep();
    }
    let mut random = Random::new(arguments.number("seed"));
    let (every, long) = (arguments.number("every"), arguments.number("long"));
    let longest = arguments.optional("longest").map_or(long, |_| arguments.number("longest"));
    let turn = arguments.optional("turn").map_or(0, |_| arguments.number("turn"));
    let some = || vec![Combine::integers(0), Combine::integers(1), Combine::FLOATS, Combine::affine()];
    let combines: Vec<Combine> =
        if arguments.optional("types") == Some("all") { Combine::all().collect() } else { some() };
    let only = arguments.optional("algorithm");
    let most = arguments.optional("most").map_or(u64::MAX, |_| arguments.number("most")) as usize;
    // All of the machines that tests name have several parts, and where ranks are was said to processes, too.
    let parts = arguments.optional("topology").is_some();
    assert!(!parts || comm.hierarchy().is_some(), "no rank knows of any part");
    let mut done = 0;
    for (operation, named) in space::calls() {
        if only.is_some() && only != named.map(|a| a.name) {
            continue;
        }
        let algorithm = named.unwrap_or_else(|| first_of(operation));
        let roots = if operation.has_root() { comm.size() } else { 1 };
        let combines = if operation.is_reduction() { &combines[..] } else { &combines[..1] };
        let sizes = if operation == Operation::Ibarrier { 1 } else { space::SIZES };
        for (root, size) in (0..roots).flat_map(|root| (0..sizes).map(move |size| (root, size))) {
            for (&combine, in_place) in combines.iter().flat_map(|c| [(c, false), (c, true)]) {
                let seed = random.bits();
                let (elements, pieces) = (space::count(size, combine.size()), Call::any_pieces(seed));
                let call =
                    Call { operation, algorithm, combine, seed, run: 0, elements, root, in_place, pieces };
                let bytes = elements * combine.size();
                let every = match bytes {
                    LONGEST.. => longest,
                    LONG.. => long,
                    _ => every,
                };
                let is_short_enough = || space::bytes_of_all(operation, bytes, comm.size()) <= most;
                let allowed = named.is_none_or(|a| {
                    call.is_allowed()
                        && space::takes(a, comm.size())
                        && (!a.restrictions.needs_board() || fits_board(&call, comm))
                });
                if (seed >> 8) % every == turn % every && allowed && is_short_enough() {
                    finish(comm, post_by(comm, call, named.map(|a| a.name)));
                    done += 1;
                }
            }
        }
    }
    assert!(done > 0, "nothing was run");
}

/// Bytes of a vector or block from which on one of a product takes long.
const LONG: usize = 130 << 10;
/// And very long.
const LONGEST: usize = 1100 << 10;

fn finish(comm: &Comm, mut planned: Planned) {
    if let Err(error) = planned.request.wait() {
        panic!("rank {}: {}: {error}", comm.rank(), planned.what);
    }
    check(comm, &planned.part, &planned.what);
}

pub(super) fn check(comm: &Comm, part: &Part, what: &str) {
    // To look for the byte at once would take longer than the call.
    if part.recv[..] == part.expected[..] || part.others.iter().any(|other| *other == part.recv[..]) {
        return;
    }
    let wrong = part.recv.iter().zip(&part.expected).position(|(is, should)| is != should);
    assert!(wrong.is_none(), "rank {}: byte {wrong:?} of the result of {what}", comm.rank());
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

/// The communicator of all, one like it, and one of every second rank in reverse order.
pub(super) fn three(comm: &Comm) -> [Comm; 3] {
    let dup = comm.dup().unwrap_or_else(|e| panic!("{e}"));
    let color = comm.rank() % 2;
    let half = comm.split(Some(color), -(comm.rank() as i32)).unwrap_or_else(|e| panic!("{e}"));
    [comm.clone(), dup, half.unwrap_or_else(|| panic!("split gave no communicator"))]
}

/// `seed`, `rounds`, `max`: up to 32 collectives outstanding on three communicators, each rank waiting for them in an order of its own.
pub fn interleaved(comm: &Comm, arguments: &Arguments) {
    const OUTSTANDING: u64 = 32;
    let mut random = Random::new(arguments.number("seed"));
    let on = three(comm);
    let mut own = Random::new(u64::from(comm.rank()) ^ 0xbead);
    for round in 0..arguments.number("rounds") {
        // The first with all that there may be.
        let count = if round == 0 { OUTSTANDING } else { 1 + random.below(OUTSTANDING) };
        let mut pending: Vec<(&Comm, Planned)> = Vec::new();
        for _ in 0..count {
            let on = &on[random.below(on.len() as u64) as usize];
            // The halves have different sizes when the number of ranks is odd: a plan of their own.
            let color = if on.size() == comm.size() { 0 } else { comm.rank() % 2 };
            let mut plan = Random::new(random.bits() ^ u64::from(color));
            pending.push((on, start(on, &mut plan, arguments.number("max"))));
        }
        own.shuffle(&mut pending);
        for (on, planned) in pending {
            finish(on, planned);
        }
    }
}

/// `seed`, `operations` in all, `max`: rounds of messages with collectives outstanding meanwhile, on three communicators.
pub fn mixed(comm: &Comm, arguments: &Arguments) {
    let mut random = Random::new(arguments.number("seed"));
    let [_, dup, half] = three(comm);
    let color = comm.rank() % 2;
    let mut own = Random::new(u64::from(comm.rank()) ^ 0xfeed);
    let (operations, max) = (arguments.number("operations"), arguments.number("max"));
    let (mut done, mut sent) = (0, messages::Sent::default());
    let before = comm.stats();
    while done < operations {
        let collectives = 1 + random.below(4);
        let messages = 1 + random.below(24);
        let mut pending: Vec<(&Comm, Planned)> =
            (0..collectives).map(|_| (&dup, start(&dup, &mut random, max))).collect();
        // The two halves have different sizes when the number of ranks is odd: a plan of their own.
        let mut halves = Random::new(random.bits() ^ u64::from(color));
        pending.push((&half, start(&half, &mut halves, max)));
        sent = sent.and(messages::round(comm, &mut random, messages, max));
        own.shuffle(&mut pending);
        for (on, planned) in pending {
            finish(on, planned);
        }
        done += collectives + messages + 1;
    }
    if let Some(by) = arguments.optional("by") {
        ways::assert_all(comm, by, &comm.stats().since(&before), sent.large);
    }
}
