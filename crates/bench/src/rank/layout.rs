//! What a collective of a bench works on: where its blocks stand, and the library's arguments of it.

use crate::error::Error;
use crate::values::Operation;
use tocsin_world::algorithms::Arguments;
use tocsin_world::{Block, DataType, Op};

/// Bytes between displaced blocks.
const GAP: usize = 64;

/// Where the blocks stand, and how many elements each rank's part of a reduction has.
#[derive(Default)]
pub(crate) struct Layout {
    pub(super) blocks: Vec<Block>,
    pub(super) counts: Vec<usize>,
}

impl Layout {
    pub(crate) fn of(op: Operation, bytes: usize, ranks: usize) -> Layout {
        let displaced = matches!(
            op,
            Operation::Iscatterv
                | Operation::Igatherv
                | Operation::Iallgatherv
                | Operation::Ialltoallv
                | Operation::Ialltoallw
        );
        let stride = bytes + if displaced { GAP } else { 0 };
        let blocks = (0..ranks).map(|rank| Block::new(rank * stride, bytes)).collect();
        Layout { blocks, counts: parts(elements(bytes).0, ranks).collect() }
    }

    pub(super) fn extent(&self) -> usize {
        self.blocks.last().map_or(0, |last| last.offset + last.bytes)
    }

    /// The operation of `bytes` in the library's words, from `from` to `to`. The buffers are not looked at.
    pub(crate) fn arguments(
        &self,
        op: Operation,
        bytes: usize,
        root: u32,
        from: *const u8,
        to: *mut u8,
    ) -> Result<Arguments<'_>, Error> {
        let (send, recv, block, op_sum) = (Some(from), to, bytes, Op::Sum);
        let (blocks, counts) = (self.blocks.as_slice(), self.counts.as_slice());
        let (count, data_type) = elements(bytes);
        Ok(match op {
            Operation::Ibarrier => Arguments::Ibarrier,
            Operation::Ibcast => Arguments::Ibcast { buffer: to, bytes, root },
            Operation::Iscatter => Arguments::Iscatter { send: from, recv: Some(to), block, root },
            Operation::Iscatterv => Arguments::Iscatterv { send: from, blocks, recv: Some(to), bytes, root },
            Operation::Igather => Arguments::Igather { send, recv, block, root },
            Operation::Igatherv => Arguments::Igatherv { send, bytes, recv, blocks, root },
            Operation::Iallgather => Arguments::Iallgather { send, recv, block },
            Operation::Iallgatherv => Arguments::Iallgatherv { send, recv, blocks },
            Operation::Ialltoall => Arguments::Ialltoall { send, recv, block },
            Operation::Ialltoallv => Arguments::Ialltoallv { send: Some((from, blocks)), recv, blocks },
            Operation::Ialltoallw => Arguments::Ialltoallw { send: Some((from, blocks)), recv, blocks },
            Operation::Ireduce => Arguments::Ireduce { send, recv, count, data_type, op: op_sum, root },
            Operation::Iallreduce => Arguments::Iallreduce { send, recv, count, data_type, op: op_sum },
            Operation::IreduceScatter => {
                Arguments::IreduceScatter { send, recv, counts, data_type, op: op_sum }
            }
            Operation::IreduceScatterBlock => {
                Arguments::IreduceScatterBlock { send, recv, count, data_type, op: op_sum }
            }
            Operation::Iscan => Arguments::Iscan { send, recv, count, data_type, op: op_sum },
            Operation::Iexscan => Arguments::Iexscan { send, recv, count, data_type, op: op_sum },
            other => return Err(Error::Failed(format!("{other} has no bench: please report this"))),
        })
    }
}

/// Sums are of 8-byte integers where the size allows it.
pub(crate) fn elements(bytes: usize) -> (usize, DataType) {
    if bytes.is_multiple_of(8) { (bytes / 8, DataType::I64) } else { (bytes, DataType::U8) }
}

/// A vector divided among ranks: lengths differ by at most one.
fn parts(count: usize, ranks: usize) -> impl Iterator<Item = usize> {
    (0..ranks).map(move |rank| count / ranks + usize::from(rank < count % ranks))
}
