//! What a call is about, as untyped memory.

use crate::board::{Way, limit};
use crate::operation::Operation;
use crate::{DataType, Group, Op};
use std::borrow::Cow;

mod block;
mod check;
mod lists;

pub use block::Block;
pub(crate) use lists::Lists;

/// The arguments of a call, as untyped memory. Where a buffer is an `Option`, `None` is the in-place form: the other
/// buffer holds the input where the result will stand. Lists of blocks have one entry per rank.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Arguments<'a> {
    /// Barrier.
    Ibarrier,
    /// Broadcast of `bytes` from `root`'s `buffer` into everybody's.
    Ibcast {
        /// Read at the root, written elsewhere.
        buffer: *mut u8,
        /// Its length.
        bytes: usize,
        /// The rank that sends.
        root: u32,
    },
    /// A block for each rank, from the root.
    Iscatter {
        /// One block per rank; used at the root only.
        send: *const u8,
        /// One block; `None`, at the root only: the root's block stays where it is.
        recv: Option<*mut u8>,
        /// Bytes of a block.
        block: usize,
        /// The rank that sends.
        root: u32,
    },
    /// The same with blocks of different lengths.
    Iscatterv {
        /// The blocks; used at the root only.
        send: *const u8,
        /// Where they stand; used at the root only.
        blocks: &'a [Block],
        /// One block; `None`, at the root only: the root's block stays where it is.
        recv: Option<*mut u8>,
        /// Bytes of this rank's block.
        bytes: usize,
        /// The rank that sends.
        root: u32,
    },
    /// A block of each rank, for the root.
    Igather {
        /// One block; `None`, at the root only: it stands among the others.
        send: Option<*const u8>,
        /// One block per rank; used at the root only.
        recv: *mut u8,
        /// Bytes of a block.
        block: usize,
        /// The rank that receives.
        root: u32,
    },
    /// The same with blocks of different lengths.
    Igatherv {
        /// One block; `None`, at the root only: it stands among the others.
        send: Option<*const u8>,
        /// Bytes of this rank's block.
        bytes: usize,
        /// The blocks; used at the root only.
        recv: *mut u8,
        /// Where they go; used at the root only.
        blocks: &'a [Block],
        /// The rank that receives.
        root: u32,
    },
    /// A block of each rank, for all.
    Iallgather {
        /// One block, or in place.
        send: Option<*const u8>,
        /// One block per rank.
        recv: *mut u8,
        /// Bytes of a block.
        block: usize,
    },
    /// The same with blocks of different lengths.
    Iallgatherv {
        /// As long as this rank's block in `recv`, or in place.
        send: Option<*const u8>,
        /// The blocks.
        recv: *mut u8,
        /// Where they go. Their lengths are the same on all ranks.
        blocks: &'a [Block],
    },
    /// Exchange of blocks.
    Ialltoall {
        /// One block per rank, or in place.
        send: Option<*const u8>,
        /// One block per rank.
        recv: *mut u8,
        /// Bytes of a block.
        block: usize,
    },
    /// Exchange of blocks of different lengths: what a rank sends to another is as long as what that one receives.
    Ialltoallv {
        /// The blocks to send and where they stand. `None`: they stand in `recv`, as long as what takes their place.
        send: Option<(*const u8, &'a [Block])>,
        /// The blocks.
        recv: *mut u8,
        /// Where they go.
        blocks: &'a [Block],
    },
    /// The same, where blocks differ in type too, which in bytes shows nowhere but in their pieces.
    Ialltoallw {
        /// As in `Ialltoallv`.
        send: Option<(*const u8, &'a [Block])>,
        /// The blocks.
        recv: *mut u8,
        /// Where they go.
        blocks: &'a [Block],
    },
    /// Reduction to the root.
    Ireduce {
        /// Input; `None`, at the root only: it stands in `recv`.
        send: Option<*const u8>,
        /// Result; used at the root only.
        recv: *mut u8,
        /// Elements.
        count: usize,
        /// Their type.
        data_type: DataType,
        /// The operator.
        op: Op,
        /// The rank that gets the result.
        root: u32,
    },
    /// Reduction.
    Iallreduce {
        /// Input, or in place.
        send: Option<*const u8>,
        /// Result.
        recv: *mut u8,
        /// Elements.
        count: usize,
        /// Their type.
        data_type: DataType,
        /// The operator.
        op: Op,
    },
    /// Reduction of which every rank gets a part.
    IreduceScatter {
        /// Input: the parts of all ranks, one after the other. In place, it stands in `recv`.
        send: Option<*const u8>,
        /// This rank's part; in place, at the start of what holds the input.
        recv: *mut u8,
        /// Elements of each rank's part, the same on all ranks.
        counts: &'a [usize],
        /// Their type.
        data_type: DataType,
        /// The operator.
        op: Op,
    },
    /// The same with parts of one length.
    IreduceScatterBlock {
        /// As in `IreduceScatter`.
        send: Option<*const u8>,
        /// As in `IreduceScatter`.
        recv: *mut u8,
        /// Elements of one part.
        count: usize,
        /// Their type.
        data_type: DataType,
        /// The operator.
        op: Op,
    },
    /// Reduction of the ranks up to this one.
    Iscan {
        /// Input, or in place.
        send: Option<*const u8>,
        /// Result.
        recv: *mut u8,
        /// Elements.
        count: usize,
        /// Their type.
        data_type: DataType,
        /// The operator.
        op: Op,
    },
    /// Reduction of the ranks before this one.
    Iexscan {
        /// Input, or in place.
        send: Option<*const u8>,
        /// Result; on rank 0 it stays as it is.
        recv: *mut u8,
        /// Elements.
        count: usize,
        /// Their type.
        data_type: DataType,
        /// The operator.
        op: Op,
    },
}

impl<'a> Arguments<'a> {
    /// The operation these arguments are for.
    pub const fn operation(&self) -> Operation {
        match self {
            Arguments::Ibarrier => Operation::Ibarrier,
            Arguments::Ibcast { .. } => Operation::Ibcast,
            Arguments::Iscatter { .. } => Operation::Iscatter,
            Arguments::Iscatterv { .. } => Operation::Iscatterv,
            Arguments::Igather { .. } => Operation::Igather,
            Arguments::Igatherv { .. } => Operation::Igatherv,
            Arguments::Iallgather { .. } => Operation::Iallgather,
            Arguments::Iallgatherv { .. } => Operation::Iallgatherv,
            Arguments::Ialltoall { .. } => Operation::Ialltoall,
            Arguments::Ialltoallv { .. } => Operation::Ialltoallv,
            Arguments::Ialltoallw { .. } => Operation::Ialltoallw,
            Arguments::Ireduce { .. } => Operation::Ireduce,
            Arguments::Iallreduce { .. } => Operation::Iallreduce,
            Arguments::IreduceScatter { .. } => Operation::IreduceScatter,
            Arguments::IreduceScatterBlock { .. } => Operation::IreduceScatterBlock,
            Arguments::Iscan { .. } => Operation::Iscan,
            Arguments::Iexscan { .. } => Operation::Iexscan,
        }
    }

    /// The size by which an algorithm is chosen, as far as all ranks know it: the whole buffer of a broadcast or
    /// reduction, the block or part per rank of the others, on average where lengths differ; 0 where they have
    /// [no size in common](Operation::has_common_size).
    pub fn size_bytes(&self) -> usize {
        match self {
            Arguments::Ibarrier => 0,
            Arguments::Ibcast { bytes, .. } => *bytes,
            Arguments::Iscatter { block, .. }
            | Arguments::Igather { block, .. }
            | Arguments::Iallgather { block, .. }
            | Arguments::Ialltoall { block, .. } => *block,
            Arguments::Iallgatherv { blocks, .. } => {
                let sum = blocks.iter().fold(0usize, |sum, b| sum.saturating_add(b.bytes));
                sum / blocks.len().max(1)
            }
            // Only the root, or each pair of ranks for itself, knows the lengths.
            Arguments::Iscatterv { .. }
            | Arguments::Igatherv { .. }
            | Arguments::Ialltoallv { .. }
            | Arguments::Ialltoallw { .. } => 0,
            Arguments::Ireduce { count, data_type, .. }
            | Arguments::Iallreduce { count, data_type, .. }
            | Arguments::Iscan { count, data_type, .. }
            | Arguments::Iexscan { count, data_type, .. }
            | Arguments::IreduceScatterBlock { count, data_type, .. } => {
                count.saturating_mul(data_type.size())
            }
            Arguments::IreduceScatter { counts, data_type, .. } => {
                let sum = counts.iter().fold(0usize, |sum, count| sum.saturating_add(*count));
                (sum / counts.len().max(1)).saturating_mul(data_type.size())
            }
        }
    }

    /// The longest block that this rank knows of, in bytes; else [`size_bytes`](Self::size_bytes).
    pub fn longest_block(&self) -> usize {
        let longest = |blocks: &[Block]| blocks.iter().map(|block| block.bytes).max().unwrap_or(0);
        match self {
            Arguments::Iallgatherv { blocks, .. } => longest(blocks),
            Arguments::IreduceScatter { counts, data_type, .. } => {
                counts.iter().max().map_or(0, |count| count.saturating_mul(data_type.size()))
            }
            Arguments::Iscatterv { blocks, bytes, .. } | Arguments::Igatherv { blocks, bytes, .. } => {
                longest(blocks).max(*bytes)
            }
            Arguments::Ialltoallv { send, blocks, .. } | Arguments::Ialltoallw { send, blocks, .. } => {
                longest(blocks).max(send.map_or(0, |(_, blocks)| longest(blocks)))
            }
            _ => self.size_bytes(),
        }
    }

    /// The same with empty lists, and what they are. `None`: it has an operator of the user's, whose context may end with the call.
    pub(crate) fn without_lists(&self) -> Option<(Arguments<'static>, Lists<'a>)> {
        let built_in = |op: &Op| !matches!(op, Op::User(_));
        let mut lists = Lists::default();
        let arguments = match *self {
            Arguments::Ibarrier => Arguments::Ibarrier,
            Arguments::Ibcast { buffer, bytes, root } => Arguments::Ibcast { buffer, bytes, root },
            Arguments::Iscatter { send, recv, block, root } => {
                Arguments::Iscatter { send, recv, block, root }
            }
            Arguments::Iscatterv { send, blocks, recv, bytes, root } => {
                lists.recv = Cow::Borrowed(blocks);
                Arguments::Iscatterv { send, blocks: &[], recv, bytes, root }
            }
            Arguments::Igather { send, recv, block, root } => Arguments::Igather { send, recv, block, root },
            Arguments::Igatherv { send, bytes, recv, blocks, root } => {
                lists.recv = Cow::Borrowed(blocks);
                Arguments::Igatherv { send, bytes, recv, blocks: &[], root }
            }
            Arguments::Iallgather { send, recv, block } => Arguments::Iallgather { send, recv, block },
            Arguments::Iallgatherv { send, recv, blocks } => {
                lists.recv = Cow::Borrowed(blocks);
                Arguments::Iallgatherv { send, recv, blocks: &[] }
            }
            Arguments::Ialltoall { send, recv, block } => Arguments::Ialltoall { send, recv, block },
            Arguments::Ialltoallv { send, recv, blocks } => {
                let send = lists.exchanged(send, blocks);
                Arguments::Ialltoallv { send, recv, blocks: &[] }
            }
            Arguments::Ialltoallw { send, recv, blocks } => {
                let send = lists.exchanged(send, blocks);
                Arguments::Ialltoallw { send, recv, blocks: &[] }
            }
            Arguments::Ireduce { send, recv, count, data_type, op, root } if built_in(&op) => {
                Arguments::Ireduce { send, recv, count, data_type, op, root }
            }
            Arguments::Iallreduce { send, recv, count, data_type, op } if built_in(&op) => {
                Arguments::Iallreduce { send, recv, count, data_type, op }
            }
            Arguments::IreduceScatter { send, recv, counts, data_type, op } if built_in(&op) => {
                lists.counts = Cow::Borrowed(counts);
                Arguments::IreduceScatter { send, recv, counts: &[], data_type, op }
            }
            Arguments::IreduceScatterBlock { send, recv, count, data_type, op } if built_in(&op) => {
                Arguments::IreduceScatterBlock { send, recv, count, data_type, op }
            }
            Arguments::Iscan { send, recv, count, data_type, op } if built_in(&op) => {
                Arguments::Iscan { send, recv, count, data_type, op }
            }
            Arguments::Iexscan { send, recv, count, data_type, op } if built_in(&op) => {
                Arguments::Iexscan { send, recv, count, data_type, op }
            }
            _ => return None,
        };
        Some((arguments, lists))
    }

    /// Whether each length is known to two ranks only.
    #[inline]
    pub(crate) fn is_between_pairs(&self) -> bool {
        matches!(
            self,
            Arguments::Iscatterv { .. }
                | Arguments::Igatherv { .. }
                | Arguments::Ialltoallv { .. }
                | Arguments::Ialltoallw { .. }
        )
    }

    /// Of two ranks: whether all that they have for each other, which both know, is longer than what [goes on a board](crate::board).
    pub(crate) fn is_long_between_two(&self, group: &Group) -> bool {
        let me = group.rank() as usize;
        let other = 1usize.wrapping_sub(me);
        let of = |blocks: &[Block]| blocks.get(other).map_or(0, |block| block.bytes);
        let (longest, way) = match *self {
            Arguments::Iscatterv { blocks, bytes, root, .. } => {
                (if me == root as usize { of(blocks) } else { bytes }, Way::Scatter { root })
            }
            Arguments::Igatherv { blocks, bytes, root, .. } => {
                (if me == root as usize { of(blocks) } else { bytes }, Way::Gather { root })
            }
            Arguments::Ialltoallv { send, blocks, .. } | Arguments::Ialltoallw { send, blocks, .. } => {
                let sent = send.map_or(of(blocks), |(_, sent)| of(sent));
                (sent.min(of(blocks)), Way::All)
            }
            _ => return false,
        };
        longest > limit(way, group)
    }

    /// Whether a call [on a board](crate::board) needs lists until it has ended.
    #[inline]
    pub(crate) fn has_lists_on_board(&self) -> bool {
        matches!(self, Arguments::Iallgatherv { .. }) || self.is_between_pairs()
    }

    /// Whether all its blocks are as long, if all ranks know the list of them.
    #[inline]
    pub(crate) fn has_equal_blocks(&self) -> bool {
        let blocks = if let Arguments::Iallgatherv { blocks, .. } = *self { blocks } else { &[] };
        blocks.windows(2).all(|two| matches!(two, [one, other] if one.bytes == other.bytes))
    }

    /// Whether it combines by an operator of the user's, which runs outside handlers only.
    pub(crate) fn has_user_operator(&self) -> bool {
        match self {
            Arguments::Ireduce { op, .. }
            | Arguments::Iallreduce { op, .. }
            | Arguments::IreduceScatter { op, .. }
            | Arguments::IreduceScatterBlock { op, .. }
            | Arguments::Iscan { op, .. }
            | Arguments::Iexscan { op, .. } => matches!(op, Op::User(_)),
            _ => false,
        }
    }

    pub(crate) fn is_commutative(&self) -> bool {
        match self {
            Arguments::Ireduce { op, .. }
            | Arguments::Iallreduce { op, .. }
            | Arguments::IreduceScatter { op, .. }
            | Arguments::IreduceScatterBlock { op, .. }
            | Arguments::Iscan { op, .. }
            | Arguments::Iexscan { op, .. } => op.is_commutative(),
            _ => true,
        }
    }
}
