//! Kernels against scalar code written apart from them, on unaligned memory, in all three forms.

use super::*;

/// Runs an operator with the result in the left operand's place, the right one's, and apart.
fn forms<T: Copy + PartialEq + std::fmt::Debug>(
    op: Op,
    data_type: DataType,
    left: &[T],
    right: &[T],
) -> Vec<T> {
    let operator = Operator::new(op, data_type).unwrap();
    assert_eq!(operator.size(), size_of::<T>());
    let n = left.len();
    let bytes = size_of_val(left);
    let mut results = Vec::new();
    for form in 0..3 {
        let mut memory = vec![0u8; 3 * bytes + 64];
        let (a, b, c) = (1, 9 + bytes, 17 + 2 * bytes);
        // SAFETY: - all three ranges lie inside `memory` and are apart; accesses are unaligned.
        unsafe {
            let base = memory.as_mut_ptr();
            base.add(a).copy_from_nonoverlapping(left.as_ptr().cast(), bytes);
            base.add(b).copy_from_nonoverlapping(right.as_ptr().cast(), bytes);
            let out = base.add([a, b, c][form]);
            operator.combine(base.add(a), base.add(b), out, n).unwrap();
            results.push((0..n).map(|i| out.cast::<T>().add(i).read_unaligned()).collect::<Vec<T>>());
        }
    }
    assert_eq!((&results[0], &results[0]), (&results[1], &results[2]));
    results.swap_remove(0)
}

#[test]
fn integers_wrap() {
    let (a, b) = ([i8::MAX, -5, 0, 7], [1, 3, 0, -7]);
    assert_eq!(forms(Op::Sum, DataType::I8, &a, &b), [i8::MIN, -2, 0, 0]);
    assert_eq!(forms(Op::Prod, DataType::I8, &a, &b), [127, -15, 0, -49]);
    assert_eq!(forms(Op::Min, DataType::I8, &a, &b), [1, -5, 0, -7]);
    assert_eq!(forms(Op::Max, DataType::I8, &a, &b), [127, 3, 0, 7]);
    assert_eq!(forms(Op::LAnd, DataType::I8, &a, &b), [1, 1, 0, 1]);
    assert_eq!(forms(Op::LXor, DataType::I8, &[0, 2, 0, 4], &[0, 0, 3, 5]), [0i8, 1, 1, 0]);
    assert_eq!(forms(Op::LOr, DataType::U64, &[0u64, 2], &[0, 0]), [0, 1]);
    assert_eq!(forms(Op::Prod, DataType::U64, &[1u64 << 63], &[2]), [0]);
    assert_eq!(forms(Op::BAnd, DataType::Byte, &[0xf0u8], &[0x3c]), [0x30]);
    assert_eq!(forms(Op::BOr, DataType::U16, &[0xf0u16], &[0x3c]), [0xfc]);
    assert_eq!(forms(Op::BXor, DataType::I32, &[0xf0i32], &[0x3c]), [0xcc]);
}

#[test]
fn floats_keep_the_left_operand_beside_a_nan() {
    let long: Vec<f64> = (0..1001).map(|i| 1.0 / f64::from(i + 1)).collect();
    let other: Vec<f64> = long.iter().map(|x| x * 3.7).collect();
    let sum: Vec<f64> = long.iter().zip(&other).map(|(a, b)| a + b).collect();
    assert_eq!(forms(Op::Sum, DataType::F64, &long, &other), sum);
    assert_eq!(forms(Op::Min, DataType::F32, &[1.0f32, 5.0], &[f32::NAN, 2.0]), [1.0, 2.0]);
    let operator = Operator::new(Op::Max, DataType::F64).unwrap();
    let (left, right, mut out) = ([f64::NAN], [1.0], [0.0f64]);
    // SAFETY: - one element each, apart.
    unsafe {
        operator.combine(left.as_ptr().cast(), right.as_ptr().cast(), out.as_mut_ptr().cast(), 1).unwrap();
    }
    assert!(out[0].is_nan());
}

#[test]
fn places_of_equal_values_are_the_lower() {
    let at = |value, index| ValueIndex64 { value, index, padding: 0 };
    let (a, b) = ([at(1.5, 4), at(2.0, 0), at(7.0, 9)], [at(1.5, 2), at(1.0, 1), at(8.0, 3)]);
    assert_eq!(forms(Op::MinLoc, DataType::F64Index, &a, &b), [at(1.5, 2), at(1.0, 1), at(7.0, 9)]);
    assert_eq!(forms(Op::MaxLoc, DataType::F64Index, &a, &b), [at(1.5, 2), at(2.0, 0), at(8.0, 3)]);
}

#[cfg(feature = "half")]
#[test]
fn halves_round_at_each_combination() {
    use ::half::{bf16, f16};
    let h = |x: f32| f16::from_f32(x);
    assert_eq!(forms(Op::Sum, DataType::F16, &[h(2048.0)], &[h(1.0)]), [h(2048.0)]);
    assert_eq!(forms(Op::Max, DataType::F16, &[h(-1.0)], &[h(0.5)]), [h(0.5)]);
    let b = |x: f32| bf16::from_f32(x);
    assert_eq!(forms(Op::Prod, DataType::Bf16, &[b(3.0)], &[b(0.5)]), [b(1.5)]);
}

/// All pairs of some bits, so many that packed loops run and leave a rest. Which of two NaNs a sum or product is, is left open.
#[cfg(feature = "half")]
#[test]
fn halves_are_those_of_the_crate() {
    use ::half::{bf16, f16};
    // Of either type subnormal, small, large, infinite and no number, with either sign.
    let special = [1, 0x7c00, 0x7e01, 0x7f80, 0x7fc1, 0x7fff];
    let bits: Vec<u16> =
        (0..=0x7fff).step_by(331).chain(special).flat_map(|bits| [bits, bits | 0x8000]).collect();
    macro_rules! check {
        ($type:ty, $data_type:expr) => {{
            type Combine = fn($type, $type) -> $type;
            let operators: [(Op, bool, Combine); 4] = [
                (Op::Sum, true, |a, b| <$type>::from_f32(a.to_f32() + b.to_f32())),
                (Op::Prod, true, |a, b| <$type>::from_f32(a.to_f32() * b.to_f32())),
                (Op::Min, false, |a, b| if b.to_f32() < a.to_f32() { b } else { a }),
                (Op::Max, false, |a, b| if b.to_f32() > a.to_f32() { b } else { a }),
            ];
            for left in bits.iter().map(|bits| <$type>::from_bits(*bits)) {
                for (op, computed, combine) in operators {
                    let open = |right: &$type| computed && left.is_nan() && right.is_nan();
                    let right: Vec<$type> =
                        bits.iter().map(|bits| <$type>::from_bits(*bits)).filter(|r| !open(r)).collect();
                    // Bits, and the same ones for each NaN that was computed.
                    let told = |x: $type| if computed && x.is_nan() { u16::MAX } else { x.to_bits() };
                    let expected: Vec<u16> = right.iter().map(|right| told(combine(left, *right))).collect();
                    let right: Vec<u16> = right.iter().map(|right| right.to_bits()).collect();
                    let result = forms(op, $data_type, &vec![left.to_bits(); right.len()], &right);
                    let result: Vec<u16> =
                        result.iter().map(|bits| told(<$type>::from_bits(*bits))).collect();
                    assert_eq!(result, expected, "{op} of {left:?} and each");
                }
            }
        }};
    }
    check!(f16, DataType::F16);
    check!(bf16, DataType::Bf16);
}

unsafe fn explode(_: *const (), _: *const u8, _: *const u8, _: *mut u8, _: usize) {
    panic!("as users do");
}

#[test]
fn a_panic_stays_in() {
    // SAFETY: - the operator touches nothing.
    let op = Op::User(unsafe { UserOp::new(explode, std::ptr::null(), true) });
    let operator = Operator::new(op, DataType::Opaque(3)).unwrap();
    assert!(!operator.is_handler_safe());
    let mut memory = [0u8; 3];
    let at = memory.as_mut_ptr();
    // SAFETY: - one element of three bytes.
    assert_eq!(unsafe { operator.combine(at, at, at, 1) }, Err(Panicked));
}

#[test]
fn only_what_makes_sense_exists() {
    let exists = |op: &Op, t: &DataType| Operator::new(*op, *t).is_ok();
    let count = |t: &DataType| Op::BUILT_IN.iter().filter(|op| exists(op, t)).count();
    for data_type in DataType::BUILT_IN {
        let expected = match data_type.name() {
            "byte" => 3,
            "f32" | "f64" | "f16" | "bf16" => 4,
            name if name.ends_with("-index") => 2,
            _ => 10,
        };
        assert_eq!(count(data_type), expected, "{data_type}");
    }
    assert_eq!(count(&DataType::Opaque(8)), 0);
}
