//! The compute loop: a fixed amount of work without a library call.
//!
//! Not "until the clock says": such a loop hides the time that handlers steal from it. Not memory: its speed must not
//! depend on what a copy leaves in the caches, so that a ratio shows stolen time and nothing else.

use std::hint::black_box;
use std::time::Instant;

/// Does `work` units; the result depends on every one of them, and on `seed`.
///
/// A unit is one step of a multiply-add-rotate chain, some 5 cycles, that no compiler can shorten.
#[inline(never)]
pub fn compute(work: u64, seed: u64) -> u64 {
    let mut x = black_box(seed);
    for _ in 0..black_box(work) {
        x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1).rotate_left(29);
    }
    black_box(x)
}

/// Units of work per nanosecond on an otherwise idle core.
#[derive(Clone, Copy, Debug)]
pub struct Speed(f64);

impl Speed {
    /// Measures for some 20 ms. The best of several slices: noise only ever makes a slice slower.
    pub fn calibrate() -> Speed {
        const SLICE: u64 = 200_000;
        // The first slices bring the core out of its sleep states.
        for seed in 0..3 {
            compute(SLICE, seed);
        }
        let slice = |seed| {
            let start = Instant::now();
            black_box(compute(SLICE, seed));
            start.elapsed().as_nanos() as f64
        };
        let best = (0..40).map(slice).fold(f64::INFINITY, f64::min);
        Speed(SLICE as f64 / best.max(1.0))
    }

    /// The work that takes this long.
    pub fn work_for_ns(self, ns: f64) -> u64 {
        (ns * self.0).max(1.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_real_and_repeatable() {
        assert_eq!(compute(1000, 7), compute(1000, 7));
        assert_ne!(compute(1000, 7), compute(1001, 7));
        assert_ne!(compute(1000, 7), compute(1000, 8));
    }

    #[test]
    fn time_follows_work() {
        let speed = Speed::calibrate();
        assert!(speed.work_for_ns(2000.0) > speed.work_for_ns(1000.0));
        assert!(speed.work_for_ns(0.0) == 1);
    }
}
