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
                let whole = Some((send, block * ranks)).filter(|_| rank == root);
                let is_root = is_root(root)?;
                rooted(is_root, whole, recv.map(|r| r.cast_const()), block, Some(root as usize * block))
            }
            Arguments::Igather { send, recv, block, root } => {
                fits(ranks, block)?;
                let whole = Some((recv.cast_const(), block * ranks)).filter(|_| rank == root);
                rooted(is_root(root)?, whole, send, block, Some(root as usize * block))
            }
            Arguments::Iscatterv { send, blocks, recv, bytes, root } => {
                fits(bytes, 1)?;
                let is_root = is_root(root)?;
                let (mut whole, mut own) = (None, None);
                if is_root {
                    whole = Some((send, extent("send", blocks, size)?));
                    own = own_block(blocks, rank, bytes, recv.is_none())?;
                }
                rooted(is_root, whole, recv.map(|r| r.cast_const()), bytes, own)
            }
            Arguments::Igatherv { send, bytes, recv, blocks, root } => {
                fits(bytes, 1)?;
                let is_root = is_root(root)?;
                let (mut whole, mut own) = (None, None);
                if is_root {
                    whole = Some((recv.cast_const(), extent("receive", blocks, size)?));
                    disjoint(blocks)?;
                    own = own_block(blocks, rank, bytes, send.is_none())?;
                }
                rooted(is_root, whole, send, bytes, own)
            }
            Arguments::Iallgather { send, recv, block } => {
                fits(ranks, block)?;
                let own = rank as usize * block;
                rooted(true, Some((recv.cast_const(), block * ranks)), send, block, Some(own))
            }
            Arguments::Iallgatherv { send, recv, blocks } => {
                let whole = extent("receive", blocks, size)?;
                disjoint(blocks)?;
                let own = blocks.get(rank as usize).copied().unwrap_or_default();
                rooted(true, Some((recv.cast_const(), whole)), send, own.bytes, place(&own))
            }
            Arguments::Ialltoall { send, recv, block } => {
                fits(ranks, block)?;
                same_or_apart(send, recv, block * ranks)
            }
            Arguments::Ialltoallv { send, recv, blocks } | Arguments::Ialltoallw { send, recv, blocks } => {
                let to = extent("receive", blocks, size)?;
                disjoint(blocks)?;
                let Some((send, sent)) = send else { return Ok(()) };
                let from = extent("send", sent, size)?;
                let own = |list: &[Block]| list.get(rank as usize).map(|b| b.bytes);
                if own(sent) != own(blocks) {
                    return Err(Error::Buffers(OWN));
                }
                apart(bytes_at(send, from), bytes_at(recv, to))
            }
            Arguments::Ireduce { send, recv, count, data_type, op, root } => {
                let bytes = reducible(count, data_type, op)?;
                let whole = Some((recv.cast_const(), bytes)).filter(|_| rank == root);
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

/// One buffer of all blocks against one of this rank's block alone, which is missing, or the block at `own`, in the
/// in-place form.
fn rooted(
    is_root: bool,
    whole: Option<(*const u8, usize)>,
    single: Option<*const u8>,
    bytes: usize,
    own: Option<usize>,
) -> Result<(), Error> {
    let Some(single) = single else {
        return if is_root { Ok(()) } else { Err(Error::Buffers(NOT_ROOT)) };
    };
    let Some((all, length)) = whole else { return Ok(()) };
    if own.is_some_and(|own| std::ptr::eq(single, all.wrapping_add(own))) {
        return Ok(());
    }
    apart(bytes_at(all, length), bytes_at(single, bytes))
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

/// Bytes from the start of the buffer to the end of its last block; one block per rank.
fn extent(what: &'static str, blocks: &[Block], size: u32) -> Result<usize, Error> {
    if blocks.len() != size as usize {
        return Err(Error::Blocks { what, given: blocks.len(), size });
    }
    let mut sum = 0usize;
    let mut most = 0;
    // What is empty stands nowhere.
    for block in blocks.iter().filter(|block| block.bytes > 0) {
        let end = block.end().unwrap_or(usize::MAX);
        fits(end, 1)?;
        if block.overlaps_itself() {
            return Err(Error::Buffers(PIECES));
        }
        // Overlapping blocks can be more than the memory that they stand in.
        sum = sum.saturating_add(block.bytes);
        most = most.max(end);
    }
    fits(sum, 1)?;
    Ok(most)
}

/// What is received must not be received twice. Blocks that stand between each other's pieces are looked at pair by pair.
fn disjoint(blocks: &[Block]) -> Result<(), Error> {
    let mut used: Vec<Block> = blocks.iter().filter(|b| b.bytes > 0).copied().collect();
    used.sort_unstable_by_key(|b| b.offset);
    let meets = |(i, block): (usize, &Block)| {
        let until = block.end();
        let reached = used[i + 1..].iter().take_while(|next| Some(next.offset) < until);
        reached.into_iter().any(|next| block.overlaps(next))
    };
    if used.iter().enumerate().any(meets) {
        return Err(Error::Buffers("two blocks of the receive buffer overlap: each rank needs its own"));
    }
    Ok(())
}

fn bytes_at(start: *const u8, bytes: usize) -> Range<usize> {
    start.addr()..start.addr().saturating_add(bytes)
}

fn apart(a: Range<usize>, b: Range<usize>) -> Result<(), Error> {
    if !a.is_empty() && !b.is_empty() && a.start < b.end && b.start < a.end {
        return Err(Error::Buffers(OVERLAP));
    }
    Ok(())
}

/// Input of `whole` bytes, result of `part`; the same start is the in-place form.
fn parts(send: Option<*const u8>, recv: *mut u8, whole: usize, part: usize) -> Result<(), Error> {
    match send {
        Some(send) if !std::ptr::eq(send, recv) => apart(bytes_at(send, whole), bytes_at(recv, part)),
        _ => Ok(()),
    }
}

fn same_or_apart(send: Option<*const u8>, recv: *mut u8, bytes: usize) -> Result<(), Error> {
    parts(send, recv, bytes, bytes)
}
