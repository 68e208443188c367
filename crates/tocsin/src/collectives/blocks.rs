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
    places: Places<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Places<'a> {
    Packed { counts: &'a [usize] },
    Placed { counts: &'a [usize], starts: &'a [usize] },
    Strided { all: &'a [Strided] },
}

/// A block in pieces of one length at equal distances, in elements: MPI_Type_vector, for [`Blocks::strided`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Strided {
    /// Where its first piece starts.
    pub start: usize,
    /// How many pieces it has.
    pub count: usize,
    /// How long a piece is.
    pub length: usize,
    /// From the start of a piece to the start of the next: at least its length.
    pub stride: usize,
}

impl<'a> Blocks<'a> {
    /// Blocks of these lengths, one after the other.
    pub const fn packed(counts: &'a [usize]) -> Blocks<'a> {
        Blocks { places: Places::Packed { counts } }
    }

    /// Blocks of these lengths that start at these elements.
    pub const fn placed(counts: &'a [usize], starts: &'a [usize]) -> Blocks<'a> {
        Blocks { places: Places::Placed { counts, starts } }
    }

    /// Blocks in pieces, which may stand between those of the others. A block is as long as its pieces together, whatever
    /// the other rank has it in.
    ///
    /// ```
    /// use tocsin::{Blocks, Strided, World};
    /// let all = World::threads(2, |comm| -> Result<Vec<u32>, tocsin::Error> {
    ///     // Each rank has a row of two elements; the result has them as the columns of a matrix.
    ///     let row = vec![10 * comm.rank(), 10 * comm.rank() + 1];
    ///     let column = |start| Strided { start, count: 2, length: 1, stride: 2 };
    ///     comm.iallgatherv(row, vec![0; 4], Blocks::strided(&[column(0), column(1)]))?.wait()
    /// })?;
    /// for result in all {
    ///     assert_eq!(result?, [0, 10, 1, 11]);
    /// }
    /// # Ok::<(), tocsin::Error>(())
    /// ```
    pub const fn strided(all: &'a [Strided]) -> Blocks<'a> {
        Blocks { places: Places::Strided { all } }
    }

    /// In bytes, within a buffer of `len` elements.
    pub(super) fn in_bytes<T: Element>(
        &self,
        operation: &'static str,
        what: &str,
        len: usize,
        ranks: u32,
    ) -> Result<Vec<Block>, Error> {
        let (ranks, size) = (ranks as usize, size_of::<T>());
        if !self.are_for(ranks) {
            let what = format!("the {what} buffer needs one block for each of the {ranks} ranks");
            return Err(Error::BufferLength { operation, what });
        }
        let mut next = 0usize;
        let mut blocks = Vec::with_capacity(ranks);
        for rank in 0..ranks {
            let Strided { start, count, length, stride } = self.block(rank, next);
            let [first, piece, apart] = [start, length, stride].map(|elements| elements.saturating_mul(size));
            let block = Block::strided(first, count, piece, apart);
            if leaves(&block, len * size) {
                let is = match count {
                    1 => format!("{length} elements"),
                    _ => format!("{count} pieces of {length} elements at a stride of {stride}"),
                };
                let what = format!(
                    "block {rank} of the {what} buffer, {is} from {start} on, leaves its {len} elements"
                );
                return Err(Error::BufferLength { operation, what });
            }
            next = start.saturating_add(length);
            blocks.push(block);
        }
        Ok(blocks)
    }

    /// Whether there is one for each rank.
    fn are_for(&self, ranks: usize) -> bool {
        match self.places {
            Places::Packed { counts } => counts.len() == ranks,
            Places::Placed { counts, starts } => counts.len() == ranks && starts.len() == ranks,
            Places::Strided { all } => all.len() == ranks,
        }
    }

    /// A rank's, where what is packed goes on at `next`.
    fn block(&self, rank: usize, next: usize) -> Strided {
        let of = |list: &[usize]| list.get(rank).copied().unwrap_or(0);
        match self.places {
            Places::Packed { counts } => Strided { start: next, count: 1, length: of(counts), stride: 0 },
            Places::Placed { counts, starts } => {
                Strided { start: of(starts), count: 1, length: of(counts), stride: 0 }
            }
            Places::Strided { all } => all.get(rank).copied().unwrap_or_default(),
        }
    }
}

/// Whether a block has a byte outside a buffer of `bytes` bytes. What is empty stands nowhere.
fn leaves(block: &Block, bytes: usize) -> bool {
    block.bytes > 0 && block.end().is_none_or(|end| end > bytes)
}

/// Whether blocks lie within a buffer of `bytes` bytes. How many there are is checked below.
pub(super) fn check(
    operation: &'static str,
    what: &str,
    blocks: &[Block],
    bytes: usize,
    ranks: u32,
) -> Result<(), Error> {
    if blocks.len() != ranks as usize || blocks.iter().any(|block| leaves(block, bytes)) {
        let what = format!(
            "the {what} buffer needs one block for each of the {ranks} ranks, all within its {bytes} bytes"
        );
        return Err(Error::BufferLength { operation, what });
    }
    Ok(())
}
