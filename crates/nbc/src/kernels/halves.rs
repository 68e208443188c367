//! Floats of 16 bits as `f32`, and back.
//!
//! # Implementation details
//! Without a branch or a call, so that the loops over them are packed on every processor. The crate `half` asks, for each
//! element, what the processor can.

/// Bits of the mantissa that `f32` has and binary16 has not.
const CUT: u32 = 23 - 10;
/// What the exponent of an `f32` is larger by, in its place.
const BIAS: u32 = (127 - 15) << 23;
/// Bits of an `f32`: infinity; 2 to the 16th, too large for binary16; 2 to the -14th, its smallest normal number.
const INFINITY: u32 = 0x7f80_0000;
const TOO_LARGE: u32 = (127 + 16) << 23;
const NORMAL: u32 = (127 - 14) << 23;

/// The number that binary16 has in `bits`, exactly.
#[inline(always)]
pub(super) fn f16_to_f32(bits: u16) -> f32 {
    let magnitude = u32::from(bits & 0x7fff) << CUT;
    let normal = magnitude + BIAS;
    // An exponent of ones becomes one of ones, in two steps.
    let special = normal + BIAS;
    // The bit before the point is none: 1 is subtracted, in units of the smallest normal number.
    let subnormal = (f32::from_bits(magnitude + NORMAL) - f32::from_bits(NORMAL)).to_bits();
    let result = if bits & 0x7c00 == 0 {
        subnormal
    } else if bits & 0x7c00 == 0x7c00 {
        special
    } else {
        normal
    };
    f32::from_bits(result | u32::from(bits & 0x8000) << 16)
}

/// The binary16 number next to `value`; of two as near, the even one.
#[inline(always)]
pub(super) fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let odd = (magnitude >> CUT) & 1;
    let normal = magnitude.wrapping_sub(BIAS).wrapping_add((1 << (CUT - 1)) - 1 + odd) >> CUT;
    // Numbers from a half on have the smallest subnormal number for their last bit: the addition rounds.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    // Quiet, with what has room of what it says.
    let nan = 0x7e00 | (magnitude >> CUT & 0x3ff);
    let result = if magnitude > INFINITY {
        nan
    } else if magnitude >= TOO_LARGE {
        0x7c00
    } else if magnitude < NORMAL {
        subnormal
    } else {
        normal
    };
    (result | (bits >> 16 & 0x8000)) as u16
}

/// The number whose upper half `bits` are.
#[inline(always)]
pub(super) fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The upper half of the number next to `value` that has nothing in the lower half; of two as near, the even one.
#[inline(always)]
pub(super) fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let odd = bits >> 16 & 1;
    let rounded = bits.wrapping_add(0x7fff + odd) >> 16;
    let nan = bits >> 16 | 0x40;
    (if bits & 0x7fff_ffff > INFINITY { nan } else { rounded }) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    /// Equal, but that one NaN is as good as another that is quiet or not.
    fn same(ours: f32, theirs: f32) -> bool {
        ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan())
    }

    /// Rounds and compares, with either sign.
    fn rounds(bits: u32) {
        for value in [f32::from_bits(bits), f32::from_bits(bits | 1 << 31)] {
            assert_eq!(f32_to_f16(value), f16::from_f32(value).to_bits(), "{value:e}, {bits:#x}");
            assert_eq!(f32_to_bf16(value), bf16::from_f32(value).to_bits(), "{value:e}, {bits:#x}");
        }
    }

    #[test]
    fn each_of_16_bits_is_what_it_is() {
        for bits in 0..=u16::MAX {
            assert!(same(f16_to_f32(bits), f16::from_bits(bits).to_f32()), "f16 {bits:#x}");
            assert!(same(bf16_to_f32(bits), bf16::from_bits(bits).to_f32()), "bf16 {bits:#x}");
        }
    }

    /// Each number of 16 bits, each middle between two, and their neighbours.
    #[test]
    fn what_is_between_goes_to_the_next_one() {
        for bits in 0..0x7fff_u16 {
            let (this, next) = (f16_to_f32(bits), f16_to_f32(bits + 1));
            for middle in
                [bf16_to_f32(bits).to_bits() + 0x8000, ((this + next) / 2.0).to_bits(), this.to_bits()]
            {
                for near in middle.saturating_sub(2)..=middle + 2 {
                    rounds(near & 0x7fff_ffff);
                }
            }
        }
    }

    /// Numbers of all magnitudes, 1021 apart, and the greatest.
    #[test]
    fn all_magnitudes_round() {
        (0..1 << 31).step_by(1021).chain([0x7fff_ffff]).for_each(rounds);
    }
}
