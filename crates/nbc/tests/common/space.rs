//! All that a collective depends on, for [pairwise coverage](super::pairwise), and what the restrictions of algorithms leave out.
//! The cross-crate tests have this file, too.

use super::pairwise::Model;
use tocsin_nbc::table::{self, Algorithm, Operation};
use tocsin_nbc::{DataType, Op};

pub const RANKS: [u32; 6] = [5, 8, 16, 17, 32, 33];
/// Bytes from which on something is done otherwise: short blocks, a packet, a slot of a board, a piece, segments, what a handler
/// reads at once, temporaries, pipelines, own choices, long parts.
pub const THRESHOLDS: [usize; 12] = [
    256,
    1 << 10,
    2 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    768 << 10,
    1 << 20,
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

/// What is called: an operation by each of its algorithms, or by the library's choice.
pub fn calls() -> Vec<(Operation, Option<&'static Algorithm>)> {
    let named = table::ALGORITHMS.iter().map(|a| (a.operation, Some(a)));
    named.chain(Operation::ALL.iter().map(|operation| (*operation, None))).collect()
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

/// Whether what two ranks have for each other may be of any length on a board, because what is long goes by messages beside it.
pub fn takes_any_length(operation: Operation) -> bool {
    use Operation::{Ialltoallv, Ialltoallw, Igatherv, Iscatterv};
    matches!(operation, Iscatterv | Igatherv | Ialltoallv | Ialltoallw)
}

/// Whether a board takes so many elements of so many bytes, with long parts or without, as the library's errors say it.
pub fn fits_board(operation: Operation, count: usize, size: usize, ranks: usize, is_long: bool) -> bool {
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
    takes_any_length(operation) || short || is_long && takes_long(operation) && long
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

/// Of the buffers of one side of all ranks.
pub fn bytes_of_all(operation: Operation, bytes: usize, ranks: u32) -> usize {
    bytes * ranks as usize * if has_blocks(operation) { ranks as usize } else { 1 }
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
    let (calls, types, operators) = (calls(), types(), operators(user));
    let values = vec![calls.len(), RANKS.len(), 3, SIZES, types.len(), operators.len(), 2, layouts, worlds];
    let allows = move |row: &[Option<usize>]| {
        let [call, ranks, root, size, data_type, operator, in_place, layout, _] = *row else {
            unreachable!()
        };
        let (data_type, op) = (data_type.map(|t| types[t]), operator.map(|op| operators[op]));
        if let (Some(data_type), Some(Some(op))) = (data_type, op)
            && !combines(data_type, op)
        {
            return false;
        }
        let Some((operation, algorithm)) = call.map(|call| calls[call]) else { return true };
        let is_barrier = operation == Operation::Ibarrier;
        let commutes = |algorithm: &Algorithm| {
            !algorithm.restrictions.commutative || op.flatten().is_none_or(|op| op.is_commutative())
        };
        let fits = |ranks: u32, size: usize, data_type: DataType| {
            let (one, ranks) = (data_type.size(), ranks as usize);
            let on_board = algorithm.is_some_and(|a| a.restrictions.needs_board());
            let has_long = has_long(ranks as u32);
            bytes_of_all(operation, count(size, one) * one, ranks as u32) <= most
                && (!on_board || fits_board(operation, count(size, one), one, ranks, has_long))
        };
        let ranks = ranks.map(|ranks| RANKS[ranks]);
        op.is_none_or(|op| op.is_some() == operation.is_reduction())
            && root.is_none_or(|root| root == 0 || operation.has_root())
            && in_place.is_none_or(|it| it == 0 || !is_barrier && operation != Operation::Ibcast)
            && layout.is_none_or(|layout| layout == 0 || has_layout(operation))
            && !(is_barrier && size.is_some_and(|size| size > 0))
            && !(is_barrier && data_type.is_some_and(|data_type| data_type != types[0]))
            && algorithm.is_none_or(commutes)
            && algorithm.zip(ranks).is_none_or(|(algorithm, ranks)| takes(algorithm, ranks))
            && ranks.zip(size.zip(data_type)).is_none_or(|(ranks, (size, t))| fits(ranks, size, t))
    };
    Model { values, allows }
}
