//! All that a collective depends on, for [pairwise coverage](super::pairwise), and what the restrictions of algorithms leave out.
//! The cross-crate tests have this file, too.

use super::pairwise::Model;
use tocsin_nbc::table::{self, Algorithm, Operation};
use tocsin_nbc::{DataType, Op};

pub const RANKS: [u32; 6] = [5, 8, 16, 17, 32, 33];
/// Bytes from which on something is done otherwise: short blocks, pages of their own, a packet, a slot of a board, a step of rounds, a piece,
/// segments, what a handler reads at once, who looks while he posts, temporaries, pipelines, own choices, long parts, rounds, and how many of those are few.
pub const THRESHOLDS: [usize; 19] = [
    256,
    512,
    1 << 10,
    2 << 10,
    4 << 10,
    8 << 10,
    12 << 10,
    16 << 10,
    24 << 10,
    32 << 10,
    64 << 10,
    96 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    768 << 10,
    1 << 20,
    2 << 20,
    4 << 20,
];
/// So few elements are sizes of their own.
pub const FEW: usize = 4;
/// And three about each threshold: at it, one less, one more.
pub const SIZES: usize = FEW + 3 * THRESHOLDS.len();
/// Elements of a size.
pub fn count(size: usize, bytes_of_one: usize) -> usize {
    match size.checked_sub(FEW) {
        None => size,
        Some(about) => THRESHOLDS[about / 3] / bytes_of_one + about % 3 - 1,
    }
}
/// The size that is so many elements less or more, one at most, than a threshold.
pub fn about(threshold: usize, further: isize) -> usize {
    let at = THRESHOLDS.iter().position(|bytes| *bytes == threshold);
    let middle = FEW + 3 * at.unwrap_or_else(|| panic!("{threshold} bytes are no threshold")) + 1;
    middle.checked_add_signed(further).unwrap_or(middle)
}

/// What is called: an operation by each of its algorithms, or by the library's choice.
pub fn calls() -> Vec<(Operation, Option<&'static Algorithm>)> {
    let named = table::ALGORITHMS.iter().map(|a| (a.operation, Some(a)));
    named.chain(Operation::ALL.iter().map(|operation| (*operation, None))).collect()
}

/// What is called in [`model`]: those, and what a board makes in rounds once more, in rounds alone, so that these, too, stand together with any
/// number of ranks, type, operator and root.
pub fn called() -> Vec<(Operation, Option<&'static Algorithm>, Option<Way>)> {
    let on_board = table::ALGORITHMS.iter().filter(|a| a.restrictions.needs_board());
    let in_rounds = on_board.filter(|a| takes_rounds(a.operation));
    let any = calls().into_iter().map(|(operation, algorithm)| (operation, algorithm, None));
    any.chain(in_rounds.map(|a| (a.operation, Some(a), Some(Way::Rounds)))).collect()
}

/// The types, the last of which only the user's operator takes.
pub fn types() -> Vec<DataType> {
    DataType::BUILT_IN.iter().copied().chain([DataType::Opaque(8)]).collect()
}

/// The operators, and `None` of what combines nothing.
pub fn operators(user: Op) -> Vec<Option<Op>> {
    [None].into_iter().chain(Op::BUILT_IN.iter().copied().chain([user]).map(Some)).collect()
}

/// Whether an operator takes a type.
pub fn combines(data_type: DataType, op: Op) -> bool {
    use DataType::{Byte, F32Index, F64Index, I32Index, I64Index, Opaque};
    let is_index = matches!(data_type, I32Index | F32Index | I64Index | F64Index);
    let is_number = !is_index && !matches!(data_type, Byte | Opaque(_));
    match op {
        Op::User(_) => matches!(data_type, Opaque(8)),
        Op::MinLoc | Op::MaxLoc => is_index,
        Op::Sum | Op::Prod | Op::Min | Op::Max => is_number,
        Op::BAnd | Op::BOr | Op::BXor if data_type == Byte => true,
        _ => is_number && !super::values::is_float(data_type),
    }
}

/// Whether an algorithm takes so many ranks.
pub fn takes(algorithm: &Algorithm, ranks: u32) -> bool {
    let restrictions = &algorithm.restrictions;
    (!restrictions.power_of_two || ranks.is_power_of_two()) && (!restrictions.needs_board() || ranks > 1)
}

/// Whether what an operation's ranks contribute on a board may be longer than a slot.
pub fn takes_long(operation: Operation) -> bool {
    use Operation::{Iallgather, Iallgatherv, Ialltoall, Ibarrier, Ibcast, Igather, Iscatter};
    operation.is_reduction()
        || matches!(operation, Ibarrier | Ibcast | Igather | Iscatter | Iallgather | Iallgatherv | Ialltoall)
}

/// Whether what an operation's ranks contribute on a board may be of any length, because it is made in rounds.
pub fn takes_rounds(operation: Operation) -> bool {
    use Operation::{Iallgatherv, Ibarrier, IreduceScatter};
    takes_long(operation) && !matches!(operation, Ibarrier | Iallgatherv | IreduceScatter)
}

/// Whether what two ranks have for each other may be of any length on a board, because what is long goes by messages beside it.
pub fn takes_any_length(operation: Operation) -> bool {
    use Operation::{Ialltoallv, Ialltoallw, Igatherv, Iscatterv};
    matches!(operation, Iscatterv | Igatherv | Ialltoallv | Ialltoallw)
}

/// How a board takes a collective.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// In slots, and read at once.
    Slots,
    /// By long parts, one of each rank.
    Long,
    /// By several long parts of each rank, one after the other.
    Rounds,
    /// What is too long for it goes by messages.
    Beside,
}

/// How a board takes so many elements of so many bytes, with long parts or without, as the library's errors say it: at most 64 ranks, in reductions elements of
/// 32 KiB in all, in allgatherv and reduce_scatter 1 MiB from each; without long parts 2 KiB from each and 32 KiB in all.
pub fn way_on_board(
    operation: Operation,
    count: usize,
    size: usize,
    ranks: usize,
    has_long: bool,
) -> Option<Way> {
    let bytes = count * size;
    let short = match operation {
        Operation::Ibcast => bytes <= 2 << 10,
        Operation::Ialltoall
        | Operation::Iscatter
        | Operation::IreduceScatter
        | Operation::IreduceScatterBlock => bytes * ranks <= 2 << 10,
        _ => bytes <= 2 << 10 && bytes * ranks <= 32 << 10,
    };
    let long = match operation {
        Operation::Ialltoall | Operation::Iscatter => bytes * (ranks - 1) <= 1 << 20,
        Operation::IreduceScatter | Operation::IreduceScatterBlock => bytes * ranks <= 1 << 20,
        // In 128 pieces at most, of which all ranks' together are read at once.
        Operation::Iallreduce => bytes <= 1 << 20 && count.div_ceil(128) * size * ranks <= 32 << 10,
        _ => bytes <= 1 << 20,
    };
    let wide = operation.is_reduction() && size * ranks > 32 << 10;
    match operation {
        _ if ranks > 64 => None,
        _ if takes_any_length(operation) => Some(Way::Beside),
        _ if short => Some(Way::Slots),
        _ if !has_long || wide => None,
        _ if long => Some(Way::Long),
        _ => takes_rounds(operation).then_some(Way::Rounds),
    }
}

/// Whether a board takes that.
pub fn fits_board(operation: Operation, count: usize, size: usize, ranks: usize, has_long: bool) -> bool {
    way_on_board(operation, count, size, ranks, has_long).is_some()
}

/// Whether blocks may stand anywhere.
pub fn has_layout(operation: Operation) -> bool {
    use Operation::{Iallgatherv, Ialltoallv, Ialltoallw, Igatherv, Iscatterv};
    matches!(operation, Iscatterv | Igatherv | Iallgatherv | Ialltoallv | Ialltoallw)
}

/// Whether the size of a call is that of the block of one rank.
pub fn has_blocks(operation: Operation) -> bool {
    match operation {
        Operation::IreduceScatter | Operation::IreduceScatterBlock => true,
        Operation::Ibcast => false,
        other => !other.is_reduction(),
    }
}

/// Of the buffers of one side of all ranks: of blocks, a root alone has all.
pub fn bytes_of_all(operation: Operation, bytes: usize, ranks: u32) -> usize {
    let blocks = if has_blocks(operation) && !operation.has_root() { ranks as usize } else { 1 };
    bytes * ranks as usize * blocks
}

/// Call, ranks, root (0, 1, the last), size, type, operator, in place, layout, world. `most`: bytes of the
/// buffers of one side of all ranks. `has_long`: whether boards of so many ranks take long parts.
pub fn model(
    user: Op,
    most: usize,
    layouts: usize,
    worlds: usize,
    has_long: impl Fn(u32) -> bool,
) -> Model<impl Fn(&[Option<usize>]) -> bool> {
    let (calls, types, operators) = (called(), types(), operators(user));
    let values = vec![calls.len(), RANKS.len(), 3, SIZES, types.len(), operators.len(), 2, layouts, worlds];
    let fits = Fitting::new(&types, most, has_long);
    let allows = move |row: &[Option<usize>]| {
        let [call, ranks, root, size, data_type, operator, in_place, layout, _] = *row else {
            unreachable!()
        };
        let op = operator.map(|op| operators[op]);
        if let (Some(data_type), Some(Some(op))) = (data_type, op)
            && !combines(types[data_type], op)
        {
            return false;
        }
        let Some(number) = call else { return true };
        let (operation, algorithm, _) = calls[number];
        let is_barrier = operation == Operation::Ibarrier;
        let commutes = |algorithm: &Algorithm| {
            !algorithm.restrictions.commutative || op.flatten().is_none_or(|op| op.is_commutative())
        };
        op.is_none_or(|op| op.is_some() == operation.is_reduction())
            && root.is_none_or(|root| root == 0 || operation.has_root())
            && in_place.is_none_or(|it| it == 0 || !is_barrier && operation != Operation::Ibcast)
            && layout.is_none_or(|layout| layout == 0 || has_layout(operation))
            && algorithm.is_none_or(commutes)
            && fits.some(number, [ranks, size, data_type])
    };
    Model { values, allows }
}

/// Which ranks, sizes and types go together in each call, by their numbers, the last of which stands for any: so a row that nothing can mend is
/// seen while others of its values are open.
struct Fitting {
    numbers: [usize; 3],
    fits: Vec<bool>,
}

impl Fitting {
    fn new(types: &[DataType], most: usize, has_long: impl Fn(u32) -> bool) -> Fitting {
        let (calls, numbers) = (called(), [RANKS.len() + 1, SIZES + 1, types.len() + 1]);
        let mut all = Fitting { numbers, fits: vec![false; calls.len() * numbers.iter().product::<usize>()] };
        let places = |n: usize, size: usize, t: usize| [n, size, t].map(Some);
        let each = |call| (0..RANKS.len()).map(move |n| (call, n));
        for (call, n) in (0..calls.len()).flat_map(each) {
            let (operation, algorithm, way) = calls[call];
            let fits = |size: usize, data_type: DataType| {
                let (ranks, one) = (RANKS[n], data_type.size());
                let count = count(size, one);
                let on_board = || way_on_board(operation, count, one, ranks as usize, has_long(ranks));
                let is_able = |a: &Algorithm| {
                    let is_so = || on_board().is_some_and(|is| way.is_none_or(|way| way == is));
                    takes(a, ranks) && (!a.restrictions.needs_board() || is_so())
                };
                let is_nothing = size == 0 && data_type == types[0];
                (operation != Operation::Ibarrier || is_nothing)
                    && bytes_of_all(operation, count * one, ranks) <= most
                    && algorithm.is_none_or(is_able)
            };
            for (size, (t, data_type)) in
                (0..SIZES).flat_map(|size| types.iter().enumerate().map(move |t| (size, t)))
            {
                if fits(size, *data_type) {
                    for open in 0..8usize {
                        let mut known = places(n, size, t);
                        (0..3).filter(|at| open >> at & 1 == 1).for_each(|at| known[at] = None);
                        let place = all.place(call, known);
                        all.fits[place] = true;
                    }
                }
            }
        }
        all
    }

    fn place(&self, call: usize, known: [Option<usize>; 3]) -> usize {
        let at =
            |place: usize, at: usize| place * self.numbers[at] + known[at].unwrap_or(self.numbers[at] - 1);
        (0..3).fold(call, at)
    }

    /// Whether the ranks, size and type that are known go together with some that are not.
    fn some(&self, call: usize, known: [Option<usize>; 3]) -> bool {
        self.fits[self.place(call, known)]
    }
}
