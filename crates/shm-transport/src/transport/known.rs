//! Sets of ranks: as others write them in shared memory, and what this rank has learnt of that.

use tocsin_sync::atomic::Ordering;

use crate::segment::layout::{Ranks, RanksCopy};

#[inline]
pub(super) fn has(ranks: &RanksCopy, rank: u32) -> bool {
    ranks.get(rank as usize / 64).is_some_and(|word| word & (1 << (rank % 64)) != 0)
}

/// The bits of word `i` that stand for ranks.
fn valid(i: usize, size: u32) -> u64 {
    let below = (size as usize).saturating_sub(i.saturating_mul(64));
    if below >= 64 { u64::MAX } else { (1u64 << below).wrapping_sub(1) }
}

/// Copies the shared bits into the private ones; whether there were new ones.
pub(super) fn update(known: &mut RanksCopy, shared: &Ranks, size: u32) -> bool {
    let mut new = false;
    let words = (size as usize).div_ceil(64);
    for (i, (known, shared)) in known.iter_mut().zip(shared).take(words).enumerate() {
        // SYNC POINT: Acquire pairs with `set_bit`: the pair's memory is allocated.
        let bits = shared.load(Ordering::Acquire) & valid(i, size);
        new |= bits & !*known != 0;
        *known |= bits;
    }
    new
}

/// Whether `update` would find new bits.
pub(super) fn would_update(known: &RanksCopy, shared: &Ranks, size: u32) -> bool {
    let words = (size as usize).div_ceil(64);
    let mut pairs = known.iter().zip(shared).take(words).enumerate();
    pairs.any(|(i, (known, shared))| shared.load(Ordering::Acquire) & valid(i, size) & !known != 0)
}

/// Writes the ranks of a bitmap into `out`, ascending; returns how many.
pub(super) fn list(ranks: &RanksCopy, out: &mut [u32]) -> usize {
    let mut len = 0usize;
    for (i, word) in ranks.iter().enumerate() {
        let mut bits = *word;
        while bits != 0 {
            let Some(entry) = out.get_mut(len) else { return len };
            *entry = (i as u32).wrapping_mul(64).wrapping_add(bits.trailing_zeros());
            len = len.wrapping_add(1);
            bits &= bits.wrapping_sub(1);
        }
    }
    len
}

#[cfg(test)]
mod tests {
    use tocsin_transport::Transport;

    use super::*;
    use crate::transport::tests::world;

    #[test]
    fn bits_beyond_the_ranks_are_left_out() {
        let mut ends = world(3);
        ends[0].segment().clone().block(1).unwrap().incoming[0].store(u64::MAX << 3, Ordering::Relaxed);
        ends[0].segment().clone().block(1).unwrap().incoming[5].store(u64::MAX, Ordering::Relaxed);
        assert!(!ends[1].work_left());
        ends[1].begin_pass();
        assert!(ends[1].connected().is_empty());
        assert_eq!((valid(0, 64), valid(1, 64), valid(1, 65)), (u64::MAX, 0, 1));
    }
}
