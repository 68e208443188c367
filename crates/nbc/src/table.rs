//! The table of algorithms. The dispatcher, the tests, the documentation and `--algorithm` read it; an algorithm that
//! is not in it does not exist.

use crate::board::{Call, PART};
use crate::builder::ScheduleBuilder;
use crate::order::{Shape, Share};
use crate::schedule::Schedule;
use crate::view::Outline;
use crate::{Choices, Error, Group, algorithms};
use tocsin_transport::board::MEMBERS;

use crate::arguments::Lists;
pub use crate::arguments::{Arguments, Block};
pub use crate::operation::{Operation, UnknownOperation};
pub use restrictions::Restrictions;

mod restrictions;

const NO_BOARD: &str = "needs memory that all ranks of the communicator share, which this one has not: worlds of 2 to 64 \
                        ranks have some for their first communicators";
const NO_LONG_MEMORY: &str = "takes no more than 2 KiB from each rank and 32 KiB in all on this communicator: of its world, only the first \
                              communicators have memory for more, and none in worlds of more than 32 ranks";
const _: () = assert!(MEMBERS == 64 && PART == 1 << 20 && crate::board::MOST == 32 << 10);

/// Translates a call into steps.
pub type Compile = fn(&Arguments, &mut ScheduleBuilder) -> Result<(), Error>;

/// One algorithm.
#[derive(Debug)]
pub struct Algorithm {
    /// What it computes.
    pub operation: Operation,
    /// Its name, unique within the operation.
    pub name: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// What it takes on p ranks with n bytes (the size that `size_bytes` means): `a` is the time of a message, `b` of
    /// moving a byte, `g` of reducing a byte.
    pub cost: &'static str,
    /// What it cannot do.
    pub restrictions: Restrictions,
    /// How it does it.
    pub compile: Compile,
    /// Reductions: the documented combination order of what a rank gets, for each range of its elements.
    pub order: Option<fn(&Shape) -> Vec<Share>>,
}

/// The name of those that leave levels of their tree to the calls of their ranks.
pub(crate) const SPLIT_TREE: &str = "split-tree";
/// The name of those whose tree follows the parts of the machine.
pub(crate) const TOPOLOGY_AWARE: &str = "topology-aware";

impl Algorithm {
    /// Whether ranks do levels of its tree themselves, inside the call that starts it, or in their next call: it is not local to start, and
    /// handlers alone do not end it.
    pub fn is_split(&self) -> bool {
        self.name == SPLIT_TREE
    }

    /// Whether its tree follows the [parts of the machine](Group::with_hierarchy). Where these are not known, or all ranks are in one, it is a
    /// binomial tree.
    pub fn is_topology_aware(&self) -> bool {
        self.name == TOPOLOGY_AWARE
    }
}

/// All algorithms; the first of each operation has no restriction.
pub static ALGORITHMS: &[Algorithm] = &[
    algorithms::ibarrier_dissemination::ALGORITHM,
    algorithms::ibarrier_tree::ALGORITHM,
    algorithms::ibarrier_linear::ALGORITHM,
    algorithms::ibarrier_topology::ALGORITHM,
    algorithms::ibarrier_shm::ALGORITHM,
    algorithms::ibcast_binomial::ALGORITHM,
    algorithms::ibcast_k_ary::BINARY,
    algorithms::ibcast_k_ary::QUATERNARY,
    algorithms::ibcast_k_ary::OCTONARY,
    algorithms::ibcast_chain::ALGORITHM,
    algorithms::ibcast_chain::PIPELINED,
    algorithms::ibcast_scatter_allgather::ALGORITHM,
    algorithms::ibcast_linear::ALGORITHM,
    algorithms::ibcast_topology::ALGORITHM,
    algorithms::ibcast_binomial::SPLIT,
    algorithms::ibcast_shm::ALGORITHM,
    algorithms::iscatter_binomial::ALGORITHM,
    algorithms::iscatter_linear::ALGORITHM,
    algorithms::iscatter_binomial::SPLIT,
    algorithms::iscatter_shm::ALGORITHM,
    algorithms::iscatter_linear::DISPLACED,
    algorithms::iscatterv_shm::ALGORITHM,
    algorithms::igather_binomial::ALGORITHM,
    algorithms::igather_linear::ALGORITHM,
    algorithms::igather_binomial::SPLIT,
    algorithms::igather_shm::ALGORITHM,
    algorithms::igather_linear::DISPLACED,
    algorithms::igatherv_shm::ALGORITHM,
    algorithms::iallgather_linear::ALGORITHM,
    algorithms::iallgather_ring::ALGORITHM,
    algorithms::iallgather_recursive_doubling::ALGORITHM,
    algorithms::iallgather_bruck::ALGORITHM,
    algorithms::iallgather_shm::ALGORITHM,
    algorithms::iallgather_linear::DISPLACED,
    algorithms::iallgather_ring::DISPLACED,
    algorithms::iallgather_recursive_doubling::DISPLACED,
    algorithms::iallgather_bruck::DISPLACED,
    algorithms::iallgatherv_shm::ALGORITHM,
    algorithms::ialltoall_linear::ALGORITHM,
    algorithms::ialltoall_pairwise::ALGORITHM,
    algorithms::ialltoall_bruck::ALGORITHM,
    algorithms::ialltoall_shm::ALGORITHM,
    algorithms::ialltoallv_linear::ALGORITHM,
    algorithms::ialltoallv_pairwise::ALGORITHM,
    algorithms::ialltoallv_shm::ALGORITHM,
    algorithms::ialltoallv_linear::TYPED,
    algorithms::ialltoallv_pairwise::TYPED,
    algorithms::ialltoallv_shm::TYPED,
    algorithms::iallreduce_recursive_doubling::ALGORITHM,
    algorithms::iallreduce_reduce_bcast::ALGORITHM,
    algorithms::iallreduce_rabenseifner::ALGORITHM,
    algorithms::iallreduce_ring::ALGORITHM,
    algorithms::iallreduce_linear::ALGORITHM,
    algorithms::iallreduce_topology::ALGORITHM,
    algorithms::iallreduce_reduce_bcast::SPLIT,
    algorithms::iallreduce_shm::ALGORITHM,
    algorithms::ireduce_binomial::ALGORITHM,
    algorithms::ireduce_binomial_root::ALGORITHM,
    algorithms::ireduce_rabenseifner::ALGORITHM,
    algorithms::ireduce_linear::ALGORITHM,
    algorithms::ireduce_topology::ALGORITHM,
    algorithms::ireduce_binomial::SPLIT,
    algorithms::ireduce_shm::ALGORITHM,
    algorithms::ireduce_scatter_reduce_scatter::ALGORITHM,
    algorithms::ireduce_scatter_halving::ALGORITHM,
    algorithms::ireduce_scatter_pairwise::ALGORITHM,
    algorithms::ireduce_scatter_shm::ALGORITHM,
    algorithms::ireduce_scatter_reduce_scatter::BLOCK,
    algorithms::ireduce_scatter_halving::BLOCK,
    algorithms::ireduce_scatter_pairwise::BLOCK,
    algorithms::ireduce_scatter_shm::BLOCK,
    algorithms::iscan_recursive_doubling::ALGORITHM,
    algorithms::iscan_chain::ALGORITHM,
    algorithms::iscan_chain::PIPELINED,
    algorithms::iscan_shm::ALGORITHM,
    algorithms::iscan_recursive_doubling::EXCLUSIVE,
    algorithms::iscan_chain::EXCLUSIVE,
    algorithms::iscan_chain::PIPELINED_EXCLUSIVE,
    algorithms::iscan_shm::EXCLUSIVE,
];

/// The algorithms of an operation.
pub fn of(operation: Operation) -> impl Iterator<Item = &'static Algorithm> {
    ALGORITHMS.iter().filter(move |a| a.operation == operation)
}

/// The algorithm of that name.
///
/// # Errors
/// [`Error::UnknownAlgorithm`], which lists the names there are.
pub fn find(operation: Operation, name: &str) -> Result<&'static Algorithm, Error> {
    of(operation).find(|a| a.name == name).ok_or_else(|| Error::UnknownAlgorithm {
        operation,
        name: name.to_owned(),
        known: names(of(operation)),
    })
}

/// The algorithm that the library takes by itself on a group: what [was measured](Group::with_choices) there, if it can serve
/// the call, else what is mostly the quickest. The same on all ranks, because it looks at nothing but what all ranks know.
pub fn choose_for(arguments: &Arguments, group: &Group) -> &'static Algorithm {
    if let Some((_, measured)) = measured(arguments, group) {
        return measured;
    }
    let on_board = group.board().and_then(|_| on_board(arguments.operation()));
    on_board
        .filter(|_| has_room(arguments, group) && is_quick_on_board(arguments, group))
        .filter(|a| a.restrictions.refusal(arguments, group.size()).is_none())
        .unwrap_or_else(|| match arguments.operation() {
            // Two rounds at most, whose messages are copied once: what a chain saves is less.
            Operation::Iscan | Operation::Iexscan
                if group.is_one_process() && group.size() <= 4 && arguments.size_bytes() >= 128 << 10 =>
            {
                able_or_first("recursive-doubling", arguments, group.size())
            }
            // Its root would copy in for all the others, one after the other (4 MiB among 4 and 8 on 2 cores of a Zen 5: 0.54 and 2.4 ms instead of 0.89 and 2.7; among 3 0.65 instead
            // of 0.54). Threads' messages are copied by who receives them.
            Operation::Ibcast
                if group.shares_cores()
                    && !group.is_one_process()
                    && group.size() > 3
                    && arguments.size_bytes() >= 2 << 20 =>
            {
                able_or_first("2-ary", arguments, group.size())
            }
            // As in `choose_sharing`, where messages are copied twice (4 on 2 cores of a Zen 5, 256 and 512 KiB: 0.17 and 0.40 ms instead of 0.20 and 0.60; 8: 1.34 instead of 1.90, and 1 MiB 6.5
            // instead of 6.7. Among 16 256 KiB took 9.8 instead of 7.9; among 4 threads 0.12 instead of 0.09).
            Operation::Ialltoall
                if group.shares_cores()
                    && !group.is_one_process()
                    && (4..=8).contains(&group.size())
                    && arguments.size_bytes() >= 256 << 10 =>
            {
                able_or_first("pairwise", arguments, group.size())
            }
            _ if group.shares_cores() => choose_sharing(arguments, group.size()),
            _ => choose(arguments, group.size()),
        })
}

/// Whether the group's board, if it has one, has the memory that a call needs there.
#[inline]
fn has_room(arguments: &Arguments, group: &Group) -> bool {
    group.has_long_parts() || crate::board::is_short(arguments, group.size() as usize)
}

/// Whether a board is mostly the quickest for what fits there: always if it fits into slots; else where ranks share cores, and what counts is how often
/// a rank has to wait for another, and how much all copy (4 ranks on 2 cores of an EPYC: iallgather of 1 MiB 0.65 ms instead of 0.98); and where two exchange as much, each of which
/// would copy both ways in turns (256 KiB: 31 us instead of 35 to 48 on a Granite Rapids; where places pass, 1 MiB: 71 us instead of 109 on an EPYC), or combine all of it after that, and on the board
/// combines it where it lies (64 KiB and 1 MiB on the second: 4.0 us by any built-in operator, 59 us; 16 KiB 1.3 instead of 2.5, and 2.5 instead of 5.4 while a line takes 250 ns, between threads, too), or one alone does, out of a buffer rather than where it lies; and for a broadcast between
/// two, from some size on (64 KiB and 1 MiB on an EPYC: 3.5 us instead of 4.6, 39 instead of 44, and where its cores share no cache, 7.4 instead of 9.7; on an Emerald Rapids 6.9 instead of 9.4, 85 instead of
/// 113; 2 and 4 MiB on one of Zen 5: 46 and 91 instead of 48 to 110 and 95 to 259). On that EPYC an allreduce of 64 KiB took, in shared pieces, 6.3 us instead of 8.5, 12.8 instead of 13.5 without a shared cache, and one of 16 KiB 2.5 instead of 3.1 with and 5.7 instead of 4.7 without; a reduction of 16 KiB 2.0 instead of
/// 2.7, and 3.5 instead of 4.6.
///
/// Where what a core's own caches do not hold [is far](Group::has_far_cache), two copies outside of them are slower than [one by the kernel](Group::has_single_copies) (allgather and alltoall of 1 MiB
/// on an Emerald Rapids: 173 and 185 us by messages, 205 and 226 on the board).
///
/// A reduce-scatter combines others' parts where they lie, and so does a scan; messages of theirs are copied out first, or passed on (2 ranks of an EPYC of Zen 5: blocks of 16 KiB 1.1 us
/// instead of 1.8, of 256 KiB 14 instead of 18; scans of 4 KiB 0.44 instead of 0.80, of 1 MiB 51 instead of 84. 4 on 2 cores: vectors of 1 MiB in all 126 instead of 294, scans of as
/// much 254 instead of 480. Gathers and scatters of 64 KiB among those 8.4 and 10.5 instead of 10.7 and 14, but of 1 MiB 112 and 153 instead of 95 and 148; two ranks: 2.4 and 3.9 instead of 3.2 and 5.8, of 1 MiB 37 and 42 instead of
/// 56 and 112. 16: scans of 64 KiB 148 instead of 237, but of 256 KiB 820 instead of 640).
///
/// Messages of threads of one process are copied once, where a board has two copies: from some size on they are quicker (4 threads there: ibcast of 1 MiB 57 us instead of 136).
#[inline]
fn is_quick_on_board(arguments: &Arguments, group: &Group) -> bool {
    let (operation, bytes) = (arguments.operation(), arguments.size_bytes());
    let ranks = group.size() as usize;
    let (shares, two, once) = (group.shares_cores(), ranks == 2, group.is_one_process());
    let far = group.has_far_cache();
    let single = far && group.has_single_copies() && bytes >= 512 << 10;
    let from_root = if far { 256 << 10 } else { 0 };
    if two && arguments.is_long_between_two(group) || !crate::board::has_few_rounds(arguments, ranks) {
        return false;
    }
    let is_quick = crate::board::is_short(arguments, ranks)
        || match operation {
            Operation::Iallreduce if far && two && (12 << 10..96 << 10).contains(&bytes) => shares,
            Operation::Iallreduce if two => !once || bytes <= 128 << 10,
            Operation::Iallreduce => shares && (!once || bytes <= 512 << 10),
            // One way it is a broadcast between two, and places do not pass.
            Operation::Iallgatherv if !shares && !arguments.has_equal_blocks() => false,
            Operation::Iallgather | Operation::Iallgatherv | Operation::Ialltoall => {
                (shares || two && !single) && (!once || bytes <= 128 << 10)
            }
            // The root copies alone.
            Operation::Iscatter | Operation::Igather => {
                let most = if operation == Operation::Igather && !once { 512 << 10 } else { 128 << 10 };
                (shares && bytes <= most || two && !single) && (!once || bytes <= most)
            }
            Operation::IreduceScatter | Operation::IreduceScatterBlock => {
                (shares || two && !single) && (!once || bytes <= 128 << 10 || shares && ranks <= 4)
            }
            // All that is combined grows with the square of the ranks.
            Operation::Iscan | Operation::Iexscan => {
                let few = ranks <= 8 || bytes.saturating_mul(ranks * ranks) <= 32 << 20;
                (shares || two && !single) && few
            }
            Operation::Ibcast => {
                let most = if shares { 128 << 10 } else { 64 << 10 };
                let between_two = two && bytes >= 32 << 10 && (!far || bytes <= 1 << 20);
                (shares || between_two) && (!once || bytes <= most)
            }
            Operation::Ireduce => shares || two && !once && bytes >= from_root,
            _ => shares,
        };
    // What waits on a board for a user's operator holds up all that was started there after it.
    is_quick && !arguments.has_user_operator()
}

/// What the group's choices say, with its number in the [trace](crate::trace), if that can serve the call.
#[inline]
fn measured(arguments: &Arguments, group: &Group) -> Option<(u16, &'static Algorithm)> {
    group.choices().and_then(|choices| able(choices, arguments, group))
}

#[inline(never)]
fn able(choices: &Choices, arguments: &Arguments, group: &Group) -> Option<(u16, &'static Algorithm)> {
    let number = choices.find(arguments.operation(), arguments.size_bytes() as u64)?;
    let chosen = crate::trace::algorithm(number)?;
    // As in `choose_for`.
    let has_board = || {
        group.board().is_some()
            && has_room(arguments, group)
            && crate::board::has_few_rounds(arguments, group.size() as usize)
            && !arguments.has_user_operator()
    };
    let able = !chosen.restrictions.needs_board() || has_board();
    (able && chosen.restrictions.refusal(arguments, group.size()).is_none()).then_some((number, chosen))
}

/// By operation: the place in the table of the algorithm that uses a board, plus one; 0 where there is none.
static ON_BOARD: [u16; OPERATIONS] = {
    let mut places = [0; OPERATIONS];
    let mut at = 0;
    while at < ALGORITHMS.len() {
        if ALGORITHMS[at].restrictions.needs_board() {
            places[ALGORITHMS[at].operation as usize] = at as u16 + 1;
        }
        at += 1;
    }
    places
};
const OPERATIONS: usize = Operation::ALL.len();

/// The algorithm that uses a board.
#[inline]
pub(crate) fn on_board(operation: Operation) -> Option<&'static Algorithm> {
    ALGORITHMS.get(usize::from(number_on_board(operation).checked_sub(1)?))
}

/// Its number in the [trace](crate::trace).
#[inline]
pub(crate) fn number_on_board(operation: Operation) -> u16 {
    ON_BOARD.get(operation as usize).copied().unwrap_or(0)
}

/// [`call_on_board`] of what is short, where one look tells that there is nothing else to choose and nothing wrong with it.
#[inline]
pub fn short_on_board(group: &Group, arguments: &Arguments, algorithm: Option<&str>) -> Option<Call> {
    let board = group.board()?;
    let chosen = on_board(arguments.operation())?;
    let ranks = group.size() as usize;
    let is_chosen = match algorithm {
        Some(name) => name == chosen.name,
        None => group.choices().is_none(),
    };
    if !is_chosen || ranks > MEMBERS || arguments.has_user_operator() {
        return None;
    }
    crate::board::short(chosen, arguments, group, board)
}

/// The call as it is done on the group's board, without a schedule, if that is how [`compile`] would do it and there is
/// something to do.
///
/// # Errors
/// As [`compile`].
#[inline]
pub fn call_on_board(
    group: &Group,
    arguments: &Arguments,
    algorithm: Option<&str>,
) -> Result<Option<Call>, Error> {
    // What it needs until it has ended is a schedule's.
    if arguments.has_lists_on_board() {
        return Ok(None);
    }
    let Some(chosen) = chosen_on_board(group, arguments, algorithm) else { return Ok(None) };
    arguments.check(group)?;
    crate::board::call(chosen, arguments, group)
}

/// Whether a call is done on the group's board, if it can be done at all, though its long blocks may go by messages beside it.
pub fn goes_on_board(group: &Group, arguments: &Arguments, algorithm: Option<&str>) -> bool {
    chosen_on_board(group, arguments, algorithm).is_some()
}

/// Whether some of it may go by messages.
pub fn goes_by_messages(group: &Group, arguments: &Arguments, algorithm: Option<&str>) -> bool {
    arguments.is_between_pairs() || !goes_on_board(group, arguments, algorithm)
}

#[inline]
fn chosen_on_board(
    group: &Group,
    arguments: &Arguments,
    algorithm: Option<&str>,
) -> Option<&'static Algorithm> {
    let chosen = group.board().and_then(|_| on_board(arguments.operation()))?;
    let own = || match measured(arguments, group) {
        Some((_, measured)) => std::ptr::eq(measured, chosen),
        None => is_quick_on_board(arguments, group),
    };
    let is_chosen = algorithm.map_or_else(own, |name| name == chosen.name)
        && has_room(arguments, group)
        && chosen.restrictions.refusal(arguments, group.size()).is_none();
    is_chosen.then_some(chosen)
}

/// The algorithm that the library takes by itself where there is no board, nothing was measured, and each rank has a core.
pub fn choose(arguments: &Arguments, ranks: u32) -> &'static Algorithm {
    able_or_first(own(arguments, ranks), arguments, ranks)
}

/// [`choose`] where ranks [take turns on cores](Group::with_shared_cores).
pub fn choose_sharing(arguments: &Arguments, ranks: u32) -> &'static Algorithm {
    // What a rank waits for another for costs a turn, and nothing is gained by what several do at once: few rounds, and little that is
    // passed on. As `tocsin tune` measured it with 4, 8 and 16 ranks on 2 cores.
    let bytes = arguments.size_bytes();
    let (few, some) = (ranks <= 4, ranks <= 16);
    let name = match arguments.operation() {
        _ if ranks <= 2 => own(arguments, ranks),
        Operation::Ibcast | Operation::Iscatter | Operation::Igather => "linear",
        // The root has a buffer for each of the others.
        Operation::Ireduce if bytes <= 128 << 10 && some => "linear",
        Operation::IreduceScatter | Operation::IreduceScatterBlock if !few && bytes < 2 << 10 => {
            "reduce-then-scatter"
        }
        Operation::IreduceScatter | Operation::IreduceScatterBlock if !few && bytes < 256 << 10 => {
            "recursive-halving"
        }
        // In a chain least is sent; where many have little to wait for, they wait longer for each other.
        Operation::Iscan | Operation::Iexscan if few || bytes >= 64 << 10 => "pipelined-chain",
        Operation::Iscan | Operation::Iexscan => "recursive-doubling",
        Operation::Iallgather | Operation::Iallgatherv if some || bytes >= 32 << 10 => "linear",
        Operation::Iallreduce if bytes < 1 << 20 && (bytes < 128 << 10 || ranks > 8) => "reduce-bcast",
        Operation::Iallreduce if bytes < 1 << 20 => "linear",
        Operation::Iallreduce => "rabenseifner",
        // With one to copy so much from at a time, ranks are in each other's way less (4 on 2 cores of an Emerald Rapids: 1.04 ms, all at once 1.13; of 512 KiB alike).
        Operation::Ialltoall if ranks == 4 && bytes >= 1 << 20 => "pairwise",
        Operation::Ialltoall if some || bytes >= 4 << 10 => "linear",
        _ => own(arguments, ranks),
    };
    able_or_first(name, arguments, ranks)
}

/// The algorithm of this name, if it can serve the call, else the first that can.
fn able_or_first(name: &str, arguments: &Arguments, ranks: u32) -> &'static Algorithm {
    let able =
        |a: &&Algorithm| !a.restrictions.needs_board() && a.restrictions.refusal(arguments, ranks).is_none();
    of(arguments.operation())
        .find(|a| a.name == name)
        .filter(able)
        .or_else(|| of(arguments.operation()).find(able))
        .unwrap_or(&ALGORITHMS[0])
}

/// The name of what is mostly the quickest where each rank has a core.
fn own(arguments: &Arguments, ranks: u32) -> &'static str {
    // The orders of magnitude at which MPICH and Open MPI switch too; `tocsin tune` measures better ones.
    let bytes = arguments.size_bytes();
    match arguments.operation() {
        Operation::Ibarrier => "dissemination",
        // Two ranks copy in and out at once by themselves, piece by piece.
        Operation::Ibcast if bytes >= 512 << 10 && ranks > 2 => "pipelined-chain",
        Operation::Ibcast => "binomial",
        // The root alone, while its messages are few: blocks move once.
        Operation::Iscatter | Operation::Igather if ranks <= 4 || bytes >= 16 << 10 => "linear",
        Operation::Iscatter | Operation::Igather => "binomial",
        Operation::Iscatterv | Operation::Igatherv => "linear",
        // Few ranks: all at once. Above, few messages for short blocks, neighbours only for long ones.
        Operation::Iallgather | Operation::Iallgatherv if ranks <= 4 => "linear",
        Operation::Iallgather | Operation::Iallgatherv if bytes >= 32 << 10 => "ring",
        Operation::Iallgather | Operation::Iallgatherv if ranks.is_power_of_two() => "recursive-doubling",
        Operation::Iallgather | Operation::Iallgatherv => "bruck",
        // No rank knows how long the others' blocks are.
        Operation::Ialltoallv | Operation::Ialltoallw => "linear",
        Operation::Ireduce if bytes > 64 << 10 && ranks > 2 => "rabenseifner",
        Operation::Ireduce if arguments.is_commutative() => "binomial-root",
        Operation::Ireduce => "binomial",
        Operation::IreduceScatter | Operation::IreduceScatterBlock if bytes >= 64 << 10 => "pairwise",
        Operation::IreduceScatter | Operation::IreduceScatterBlock => "recursive-halving",
        Operation::Iscan | Operation::Iexscan if bytes > 64 << 10 => "pipelined-chain",
        Operation::Iscan | Operation::Iexscan => "recursive-doubling",
        Operation::Iallreduce if ranks <= 2 && bytes >= 128 << 10 => "linear",
        Operation::Iallreduce if bytes <= 16 << 10 || ranks <= 2 => "recursive-doubling",
        Operation::Iallreduce if bytes >= 1 << 20 && (ranks as usize) <= bytes >> 16 => "ring",
        Operation::Iallreduce => "rabenseifner",
        Operation::Ialltoall if bytes <= 256 && ranks >= 8 => "bruck",
        Operation::Ialltoall if bytes <= 32 << 10 => "linear",
        Operation::Ialltoall => "pairwise",
    }
}

/// What a schedule was compiled for.
#[derive(Clone, Debug)]
pub struct Origin<'a> {
    group: Group,
    /// Its number, and whether it has long parts: a later communicator's of that number may have none.
    board: Option<(u32, bool)>,
    arguments: Arguments<'static>,
    lists: Lists<'a>,
    /// The algorithm that was asked for or measured, by its number in the [trace](crate::trace); `None`: what these
    /// arguments always take on this group.
    algorithm: Option<u16>,
}

// SAFETY: - the addresses are compared, and never followed.
unsafe impl Send for Origin<'_> {}

impl PartialEq for Origin<'_> {
    /// What differs most comes first.
    fn eq(&self, other: &Origin) -> bool {
        self.arguments == other.arguments
            && (self.board, self.algorithm) == (other.board, other.algorithm)
            && self.lists == other.lists
            && self.group.is_same(&other.group)
    }
}

impl<'a> Origin<'a> {
    /// Of a call whose schedule can serve another one like it. None of one with a user's operator, or whose algorithm does not exist.
    pub fn new(group: &Group, arguments: &Arguments<'a>, algorithm: Option<&str>) -> Option<Origin<'a>> {
        let algorithm = match algorithm {
            Some(name) => Some(crate::trace::number_of(find(arguments.operation(), name).ok()?)),
            None => measured(arguments, group).map(|(number, _)| number),
        };
        let (arguments, lists) = arguments.without_lists()?;
        let board = group.board().map(|board| (board, group.has_long_parts()));
        Some(Origin { group: group.members(), board, arguments, lists, algorithm })
    }

    /// The same, with copies of the lists. `None`: there is no memory for these.
    fn kept(self) -> Option<Origin<'static>> {
        let Origin { group, board, arguments, lists, algorithm } = self;
        Some(Origin { group, board, arguments, lists: lists.kept()?, algorithm })
    }
}

/// Compiles a call. User threads only: allocates.
///
/// The schedule keeps the addresses of the buffers; who posts it promises that they live.
///
/// # Errors
/// Invalid arguments, an unknown or restricted algorithm, memory refused.
pub fn compile(
    group: &Group,
    arguments: &Arguments,
    algorithm: Option<&str>,
) -> Result<Box<Schedule>, Error> {
    arguments.check(group)?;
    let chosen = able_of(group, arguments, algorithm, Restrictions::refusal)?;
    let mut builder = ScheduleBuilder::new(group);
    (chosen.compile)(arguments, &mut builder)?;
    let mut schedule = builder.finish()?;
    schedule.algorithm = crate::trace::number_of(chosen);
    schedule.origin = Origin::new(group, arguments, algorithm).and_then(Origin::kept);
    Ok(schedule)
}

/// The steps that [`compile`] would make, for those who do not run them, of groups as large as they like: it takes no memory for
/// temporaries, and no notice of how many rounds a tag can number.
///
/// The arguments are to be [checked](Arguments::check) before: once for all ranks, if they are the same.
///
/// # Errors
/// As [`compile`]; what is done on a board has no steps, but for a rank that is alone.
pub fn outline(group: &Group, arguments: &Arguments, algorithm: Option<&str>) -> Result<Outline, Error> {
    let chosen = able_of(group, arguments, algorithm, Restrictions::refusal_of_outline)?;
    let mut builder = ScheduleBuilder::new(group);
    (chosen.compile)(arguments, &mut builder)?;
    builder.outline()
}

/// The algorithm that was asked for, or is chosen, if nothing refuses it.
fn able_of(
    group: &Group,
    arguments: &Arguments,
    algorithm: Option<&str>,
    refused: fn(&Restrictions, &Arguments, u32) -> Option<&'static str>,
) -> Result<&'static Algorithm, Error> {
    let operation = arguments.operation();
    let chosen = match algorithm {
        None => choose_for(arguments, group),
        // A rank that is alone shares nothing: what a program names for its rows is right for a row of one.
        Some(name) => match find(operation, name)? {
            named if named.restrictions.needs_board() && group.size() == 1 && group.board().is_none() => {
                choose_for(arguments, group)
            }
            named => named,
        },
    };
    let refusal = |a: &Algorithm| match a.restrictions.needs_board() {
        true if group.board().is_none() => Some(NO_BOARD),
        true if !has_room(arguments, group) => Some(NO_LONG_MEMORY),
        _ => refused(&a.restrictions, arguments, group.size()),
    };
    if let Some(why) = refusal(chosen) {
        let able = of(operation).filter(|a| refusal(a).is_none());
        return Err(Error::Restricted { operation, name: chosen.name, why, others: names(able) });
    }
    Ok(chosen)
}

fn names(algorithms: impl Iterator<Item = &'static Algorithm>) -> String {
    algorithms.map(|a| a.name).collect::<Vec<_>>().join(", ")
}

/// For `compile` functions: the arguments of another operation than their own.
pub(crate) const fn misplaced() -> Error {
    Error::BadSchedule("an algorithm was given another operation's arguments")
}

#[cfg(test)]
mod tests;
