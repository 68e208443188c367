//! What collectives send in a bench, and what must arrive.

use std::ops::Range;
use tocsin_world::DataType;

/// The contribution of a rank to an 8-byte integer.
fn addend(seed: u64, rank: u64, at: u64) -> u64 {
    (seed % 1000) * 1_000_000 + (rank + 1) * 1000 + at % 997
}

/// To a byte: at most 3, so that few ranks do not overflow it, as the sum may anyway.
fn small_addend(seed: u64, rank: u64, at: u64) -> u8 {
    ((seed + rank + at) % 4) as u8
}

/// A rank's contribution to a sum of 8-byte integers or bytes.
pub(super) fn addends(buffer: &mut [u8], kind: DataType, seed: u64, rank: u64) {
    if kind == DataType::I64 {
        for (at, chunk) in (0..).zip(buffer.chunks_exact_mut(8)) {
            chunk.copy_from_slice(&addend(seed, rank, at).to_le_bytes());
        }
    } else {
        (0..).zip(buffer).for_each(|(at, byte)| *byte = small_addend(seed, rank, at));
    }
}

/// Whether `got` is the sum over some ranks, from element `first` on.
pub(super) fn is_sum(got: &[u8], kind: DataType, seed: u64, ranks: Range<u64>, first: u64) -> bool {
    if kind == DataType::I64 {
        let right = |at| ranks.clone().map(|rank| addend(seed, rank, at)).sum::<u64>();
        return (first..).zip(got.chunks_exact(8)).all(|(at, chunk)| *chunk == right(at).to_le_bytes());
    }
    let right = |at| ranks.clone().fold(0, |sum: u8, rank| sum.wrapping_add(small_addend(seed, rank, at)));
    (first..).zip(got).all(|(at, byte)| *byte == right(at))
}

/// What `from` sends to `to`.
pub(super) fn exchanged(block: &mut [u8], seed: u64, from: u64, to: u64) {
    let start = seed.wrapping_mul(31).wrapping_add(from * 131).wrapping_add(to * 17) as u8;
    block
        .iter_mut()
        .enumerate()
        .for_each(|(at, byte)| *byte = start.wrapping_add(at as u8).wrapping_add((at >> 8) as u8));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_sum_is_seen() {
        for kind in [DataType::I64, DataType::U8] {
            let mut mine = vec![0; 48];
            addends(&mut mine, kind, 5, 2);
            assert!(is_sum(&mine, kind, 5, 2..3, 0));
            let size = kind.size();
            assert!(is_sum(&mine[size..], kind, 5, 2..3, 1));
            assert!(!is_sum(&mine, kind, 5, 2..4, 0) && !is_sum(&mine, kind, 6, 2..3, 0));
            mine[47] ^= 1;
            assert!(!is_sum(&mine, kind, 5, 2..3, 0));
        }
    }
}
