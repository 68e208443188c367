//! Where the blocks of a buffer stand.

use tocsin_world::Block;

use crate::Error;
use crate::element::Element;

/// The blocks of a buffer, one per rank, in elements: how long they are and where they start.
///
/// ```
/// use tocsin::{Blocks, World};
/// let all = World::threads(2, |comm| -> Result<Vec<u32>, tocsin::Error> {
///     // Rank 0 has one element, rank 1 two; the result has a gap between them.
///     let mine = vec![comm.rank() + 7; 1 + comm.rank() as usize];
///     comm.iallgatherv(mine, vec![0; 4], Blocks::placed(&[1, 2], &[0, 2]))?.wait()
/// })?;
/// for result in all {
///     assert_eq!(result?, [7, 0, 8, 8]);
/// }
/// # Ok::<(), tocsin::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Blocks<'a> {
    counts: &'a [usize],
    starts: Option<&'a [usize]>,
}

impl<'a> Blocks<'a> {
    /// Blocks of these lengths, one after the other.
    pub const fn packed(counts: &'a [usize]) -> Blocks<'a> {
        Blocks { counts, starts: None }
    }

    /// Blocks of these lengths that start at these elements.
    pub const fn placed(counts: &'a [usize], starts: &'a [usize]) -> Blocks<'a> {
        Blocks { counts, starts: Some(starts) }
    }

    /// In bytes, within a buffer of `len` elements.
    pub(super) fn in_bytes<T: Element>(
        &self,
        operation: &'static str,
        what: &str,
        len: usize,
        ranks: u32,
    ) -> Result<Vec<Block>, Error> {
        let ranks = ranks as usize;
        if self.counts.len() != ranks || self.starts.is_some_and(|starts| starts.len() != ranks) {
            let what = format!("the {what} buffer needs one block for each of the {ranks} ranks");
            return Err(Error::BufferLength { operation, what });
        }
        let mut next = 0usize;
        let mut blocks = Vec::with_capacity(ranks);
        for (rank, &count) in self.counts.iter().enumerate() {
            let start = self.starts.and_then(|starts| starts.get(rank).copied()).unwrap_or(next);
            next = start.checked_add(count).filter(|end| *end <= len).ok_or_else(|| {
                let what = format!(
                    "block {rank} of the {what} buffer, {count} elements from {start} on, leaves its {len} elements"
                );
                Error::BufferLength { operation, what }
            })?;
            blocks.push(Block { offset: start * size_of::<T>(), bytes: count * size_of::<T>() });
        }
        Ok(blocks)
    }
}

/// Whether blocks lie within a buffer of `bytes` bytes. How many there are is checked below.
pub(super) fn check(
    operation: &'static str,
    what: &str,
    blocks: &[Block],
    bytes: usize,
    ranks: u32,
) -> Result<(), Error> {
    let leaves = |block: &Block| block.offset.checked_add(block.bytes).is_none_or(|end| end > bytes);
    if blocks.len() != ranks as usize || blocks.iter().any(leaves) {
        let what = format!(
            "the {what} buffer needs one block for each of the {ranks} ranks, all within its {bytes} bytes"
        );
        return Err(Error::BufferLength { operation, what });
    }
    Ok(())
}
