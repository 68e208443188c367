//! What arguments must keep to before anything is compiled.

use super::{Arguments, Block};
use crate::{DataType, Error, Group, Op};
use std::ops::Range;

impl Arguments<'_> {
    /// The first thing that is wrong. User threads only: allocates.
    ///
    /// # Errors
    /// What [`compile`](crate::table::compile) says of invalid arguments.
    pub fn check(&self, group: &Group) -> Result<(), Error> {
        let (rank, size) = (group.rank(), group.size());
        let ranks = size as usize;
        let is_root = |root: u32| match root < size {
            true => Ok(root == rank),
            false => Err(Error::NoSuchRank { what: "root", rank: root, size }),
        };
        match *self {
            Arguments::Ibarrier => Ok(()),
            Arguments::Ibcast { bytes, root, .. } => {
                is_root(root)?;
                fits(bytes, 1)
            }
            Arguments::Iscatter { send, recv, block, root } => {
                fits(ranks, block)?;
                let all = [Block::new(0, block * ranks)];
                let whole = Some(Placed::new(send, &all)).filter(|_| rank == root);
                let is_root = is_root(root)?;
                rooted(is_root, whole, recv.map(|r| r.cast_const()), block, Some(root as usize * block))
            }
            Arguments::Igather { send, recv, block, root } => {
                fits(ranks, block)?;
                let all = [Block::new(0, block * ranks)];
                let whole = Some(Placed::new(recv, &all)).filter(|_| rank == root);
                rooted(is_root(root)?, whole, send, block, Some(root as usize * block))
            }
            Arguments::Iscatterv { send, blocks, recv, bytes, root } => {
                fits(bytes, 1)?;
                let is_root = is_root(root)?;
                let (mut whole, mut own) = (None, None);
                if is_root {
                    one_per_rank("send", blocks, size)?;
                    whole = Some(Placed::new(send, blocks));
                    own = own_block(blocks, rank, bytes, recv.is_none())?;
                }
                rooted(is_root, whole, recv.map(|r| r.cast_const()), bytes, own)
            }
            Arguments::Igatherv { send, bytes, recv, blocks, root } => {
                fits(bytes, 1)?;
                let is_root = is_root(root)?;
                let (mut whole, mut own) = (None, None);
                if is_root {
                    one_per_rank("receive", blocks, size)?;
                    disjoint(blocks)?;
                    whole = Some(Placed::new(recv, blocks));
                    own = own_block(blocks, rank, bytes, send.is_none())?;
                }
                rooted(is_root, whole, send, bytes, own)
            }
            Arguments::Iallgather { send, recv, block } => {
                fits(ranks, block)?;
                let all = [Block::new(0, block * ranks)];
                // Not even where its own block goes: with one address on all ranks that is right on one of them, which would wait for the others.
                rooted(true, Some(Placed::new(recv, &all)), send, block, None)
            }
            Arguments::Iallgatherv { send, recv, blocks } => {
                one_per_rank("receive", blocks, size)?;
                disjoint(blocks)?;
                let own = blocks.get(rank as usize).copied().unwrap_or_default();
                rooted(true, Some(Placed::new(recv, blocks)), send, own.bytes, None)
            }
            Arguments::Ialltoall { send, recv, block } => {
                fits(ranks, block)?;
                same_or_apart(send, recv, block * ranks)
            }
            Arguments::Ialltoallv { send, recv, blocks } | Arguments::Ialltoallw { send, recv, blocks } => {
                one_per_rank("receive", blocks, size)?;
                disjoint(blocks)?;
                let Some((send, sent)) = send else { return Ok(()) };
                one_per_rank("send", sent, size)?;
                let own = |list: &[Block]| list.get(rank as usize).map(|b| b.bytes);
                if own(sent) != own(blocks) {
                    return Err(Error::Buffers(OWN));
                }
                apart(&Placed::new(send, sent), &Placed::new(recv, blocks))
            }
            Arguments::Ireduce { send, recv, count, data_type, op, root } => {
                let bytes = reducible(count, data_type, op)?;
                let all = [Block::new(0, bytes)];
                let whole = Some(Placed::new(recv, &all)).filter(|_| rank == root);
                rooted(is_root(root)?, whole, send, bytes, Some(0))
            }
            Arguments::Iallreduce { send, recv, count, data_type, op }
            | Arguments::Iscan { send, recv, count, data_type, op }
            | Arguments::Iexscan { send, recv, count, data_type, op } => {
                let bytes = reducible(count, data_type, op)?;
                // To the first rank nothing comes.
                let has_result = rank > 0 || !matches!(self, Arguments::Iexscan { .. });
                if has_result { same_or_apart(send, recv, bytes) } else { Ok(()) }
            }
            Arguments::IreduceScatter { send, recv, counts, data_type, op } => {
                if counts.len() != ranks {
                    return Err(Error::Blocks { what: "send", given: counts.len(), size });
                }
                let whole = counts.iter().fold(0usize, |sum, count| sum.saturating_add(*count));
                let own = counts.get(rank as usize).copied().unwrap_or(0);
                parts(send, recv, reducible(whole, data_type, op)?, own * data_type.size())
            }
            Arguments::IreduceScatterBlock { send, recv, count, data_type, op } => {
                let part = reducible(count, data_type, op)?;
                fits(ranks, part)?;
                parts(send, recv, ranks * part, part)
            }
        }
    }
}

const OWN: &str = "this rank's block for itself is sent with another length than it is received";
const OVERLAP: &str = "the send and the receive buffer overlap: keep them apart, or use the in-place form";
const NOT_ROOT: &str = "only the root has an in-place form: the other ranks need both buffers";
const PIECES: &str = "the pieces of a block overlap: make its stride at least the length of a piece";

/// Blocks in memory: each has an end, and none overlaps itself.
struct Placed<'a> {
    start: usize,
    blocks: &'a [Block],
}

impl<'a> Placed<'a> {
    fn new(start: *const u8, blocks: &'a [Block]) -> Self {
        Placed { start: start.addr(), blocks }
    }

    /// Those that have bytes, in the order of their first.
    fn sorted(&self, shift: usize) -> Vec<Block> {
        let mut blocks: Vec<Block> = self.blocks.iter().filter(|block| block.bytes > 0).copied().collect();
        blocks.iter_mut().for_each(|block| block.offset += shift);
        blocks.sort_unstable_by_key(|block| block.offset);
        blocks
    }

    /// From the first byte of a block to the end of the last.
    fn extent(&self) -> Range<usize> {
        let blocks = || self.blocks.iter().filter(|block| block.bytes > 0);
        let first = blocks().map(|block| block.offset).min().unwrap_or(0);
        let end = blocks().filter_map(Block::end).max().unwrap_or(0);
        self.start.saturating_add(first)..self.start.saturating_add(end)
    }
}

/// All blocks in one buffer against this rank's block in another, which is missing, or is the block at `own`, in the in-place form.
fn rooted(
    is_root: bool,
    whole: Option<Placed<'_>>,
    single: Option<*const u8>,
    bytes: usize,
    own: Option<usize>,
) -> Result<(), Error> {
    let Some(single) = single else {
        return if is_root { Ok(()) } else { Err(Error::Buffers(NOT_ROOT)) };
    };
    let Some(whole) = whole else { return Ok(()) };
    if own.is_some_and(|own| single.addr() == whole.start.wrapping_add(own)) {
        return Ok(());
    }
    apart(&whole, &Placed::new(single, &[Block::new(0, bytes)]))
}

/// Where a block stands, if one run of bytes can be the same.
fn place(block: &Block) -> Option<usize> {
    (!block.is_strided()).then_some(block.offset)
}

/// The [`place`] of the root's block for itself, if both sides agree about its length.
fn own_block(blocks: &[Block], rank: u32, bytes: usize, in_place: bool) -> Result<Option<usize>, Error> {
    let own = blocks.get(rank as usize).copied().unwrap_or_default();
    if !in_place && own.bytes != bytes {
        return Err(Error::Buffers(OWN));
    }
    Ok(place(&own))
}

/// Bytes of the vector, if the operator takes it.
fn reducible(count: usize, data_type: DataType, op: Op) -> Result<usize, Error> {
    crate::kernels::Operator::new(op, data_type)?;
    fits(count, data_type.size())?;
    Ok(count * data_type.size())
}

/// No allocation is longer than `isize::MAX`; temporaries need at most a few times as much as the user's buffers,
/// and the builder checks them by itself.
fn fits(count: usize, size: usize) -> Result<(), Error> {
    match count.checked_mul(size) {
        Some(bytes) if isize::try_from(bytes).is_ok() => Ok(()),
        _ => Err(Error::TooLarge { count, size }),
    }
}

/// One block per rank, each of which can be in a buffer.
fn one_per_rank(what: &'static str, blocks: &[Block], size: u32) -> Result<(), Error> {
    if blocks.len() != size as usize {
        return Err(Error::Blocks { what, given: blocks.len(), size });
    }
    let mut sum = 0usize;
    // What is empty stands nowhere.
    for block in blocks.iter().filter(|block| block.bytes > 0) {
        fits(block.end().unwrap_or(usize::MAX), 1)?;
        if block.overlaps_itself() {
            return Err(Error::Buffers(PIECES));
        }
        // Overlapping blocks can be more than the memory that they stand in.
        sum = sum.saturating_add(block.bytes);
    }
    fits(sum, 1)
}

/// What is received must not be received twice.
fn disjoint(blocks: &[Block]) -> Result<(), Error> {
    let used = Placed { start: 0, blocks }.sorted(0);
    let meets = |(i, block): (usize, &Block)| meets_one(block, &used[i + 1..]);
    if used.iter().enumerate().any(meets) {
        return Err(Error::Buffers("two blocks of the receive buffer overlap: each rank needs its own"));
    }
    Ok(())
}

/// Whether a block has a byte in common with one of those that begin no earlier, in the order of their first bytes. One whose pieces they
/// stand between is looked at with each of them.
fn meets_one(block: &Block, later: &[Block]) -> bool {
    let until = block.end();
    later.iter().take_while(|next| Some(next.offset) < until).any(|next| block.overlaps(next))
}

/// What is sent must not be received: blocks of one buffer may stand between those of the other, and have no byte in common.
fn apart(a: &Placed<'_>, b: &Placed<'_>) -> Result<(), Error> {
    let (reach_a, reach_b) = (a.extent(), b.extent());
    if reach_a.is_empty()
        || reach_b.is_empty()
        || reach_a.end <= reach_b.start
        || reach_b.end <= reach_a.start
    {
        return Ok(());
    }
    // From the start of the one that begins first. They reach each other, and neither is longer than `isize::MAX`: nothing overflows.
    let start = a.start.min(b.start);
    let (a, b) = (a.sorted(a.start - start), b.sorted(b.start - start));
    let meets = |blocks: &[Block], others: &[Block]| {
        blocks.iter().any(|block| {
            meets_one(block, &others[others.partition_point(|other| other.offset < block.offset)..])
        })
    };
    if meets(&a, &b) || meets(&b, &a) {
        return Err(Error::Buffers(OVERLAP));
    }
    Ok(())
}

/// Input of `whole` bytes, result of `part`; the same start is the in-place form.
fn parts(send: Option<*const u8>, recv: *mut u8, whole: usize, part: usize) -> Result<(), Error> {
    match send {
        Some(send) if !std::ptr::eq(send, recv) => {
            apart(&Placed::new(send, &[Block::new(0, whole)]), &Placed::new(recv, &[Block::new(0, part)]))
        }
        _ => Ok(()),
    }
}

fn same_or_apart(send: Option<*const u8>, recv: *mut u8, bytes: usize) -> Result<(), Error> {
    parts(send, recv, bytes, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Short lists of few and short blocks, of which one may stand in the other.
    fn lists() -> Vec<Vec<Block>> {
        let mut lists = Vec::new();
        for (first, second) in (0..12).flat_map(|first| (0..12).map(move |second| (first, second))) {
            lists.push(vec![Block::new(first, 2), Block::new(second, 3)]);
            lists.push(vec![Block::strided(first, 3, 1, 4), Block::strided(second, 2, 2, 5)]);
            lists.push(vec![Block::new(second, 0), Block::strided(first, 2, 2, 6)]);
        }
        lists
    }

    #[test]
    fn buffers_overlap_where_bytes_do() {
        let bytes = |shift: usize, list: &[Block]| {
            let at = |byte| 1u64 << (byte + shift);
            list.iter()
                .flat_map(Block::runs)
                .flat_map(|(start, n)| start..start + n)
                .fold(0, |all, byte| all | at(byte))
        };
        let (all, mut apart_inside) = (lists(), 0);
        for (sent, received) in all.iter().flat_map(|sent| all.iter().map(move |received| (sent, received))) {
            for (from, to) in [(0, 0), (0, 7), (3, 0)] {
                let both = bytes(from, sent) & bytes(to, received) != 0;
                let (send, recv) =
                    (Placed { start: from, blocks: sent }, Placed { start: to, blocks: received });
                let told = (apart(&send, &recv).is_err(), apart(&recv, &send).is_err());
                assert_eq!(told, (both, both), "{sent:?} from {from}, {received:?} from {to}");
                let (reach, theirs) = (send.extent(), recv.extent());
                apart_inside += usize::from(!both && reach.start < theirs.end && theirs.start < reach.end);
            }
        }
        assert!(apart_inside > 1000, "{apart_inside}");
    }

    #[test]
    fn addresses_that_no_buffer_has() {
        let most = isize::MAX as usize;
        let (long, last) = ([Block::new(0, most)], [Block::new(most - 8, 8)]);
        for (a, b, one, other, meet) in [
            (usize::MAX, usize::MAX - 3, &long, &long, false),
            (usize::MAX - 9, usize::MAX - 3, &long, &long, true),
            (usize::MAX - 9, usize::MAX - 3, &long, &last, false),
            (most, most, &long, &last, true),
            (most, most + 4, &last, &last, true),
            (most, most + 8, &last, &last, false),
            (0, most, &long, &long, false),
        ] {
            let (one, other) = (Placed { start: a, blocks: one }, Placed { start: b, blocks: other });
            assert_eq!(
                (apart(&one, &other).is_err(), apart(&other, &one).is_err()),
                (meet, meet),
                "{a:x}, {b:x}"
            );
        }
    }
}
