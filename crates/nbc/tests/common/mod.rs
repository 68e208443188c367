//! What the integration tests share: random numbers, the fabrics, the sequential model, the driver of all ranks.
#![allow(dead_code, missing_docs, clippy::unwrap_used, clippy::expect_used)]

pub mod blocks;
pub mod driver;
pub mod members;
pub mod model;
pub mod network;
pub mod pairwise;
pub mod space;
pub mod supply;
pub mod values;

#[allow(unused_imports)]
pub use space::{has_blocks, takes};

/// SplitMix64 (Steele, Lea and Flood 2014): every test prints its seed.
pub struct Random(pub u64);

impl Random {
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 to `n` - 1.
    pub fn below(&mut self, n: usize) -> usize {
        (self.word() % n as u64) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// Random numbers, one after the other.
fn words(seed: u64) -> impl FnMut() -> u64 {
    let mut random = Random(seed);
    move || random.word()
}

/// The longest whole buffer that an algorithm takes, if it says so.
pub fn most(algorithm: Option<&tocsin_nbc::table::Algorithm>, ranks: u32) -> usize {
    let ranks = ranks as usize;
    match algorithm.filter(|a| a.restrictions.needs_board()) {
        None => usize::MAX,
        Some(on_board) if space::takes_any_length(on_board.operation) => usize::MAX,
        Some(on_board) if space::takes_long(on_board.operation) => (256 << 10).min((1 << 20) / ranks),
        Some(_) => (2 << 10).min((32 << 10) / ranks),
    }
}
