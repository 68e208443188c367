//! Elements: what buffers hold before, and what operators make of two, computed without the crate's kernels. The cross-crate
//! tests have this file, too.

use tocsin_nbc::{DataType, Op};

/// The operator of an affine map: `x -> a x + b` in wrapping arithmetic, composed: associative, not commutative.
pub fn compose(left: (u32, u32), right: (u32, u32)) -> (u32, u32) {
    (left.0.wrapping_mul(right.0), left.0.wrapping_mul(right.1).wrapping_add(left.1))
}

macro_rules! elementwise {
    ($type:ty, $a:expr, $b:expr, $combine:expr) => {{
        const SIZE: usize = std::mem::size_of::<$type>();
        let combine: fn($type, $type) -> $type = $combine;
        let of = |v: &[u8]| <$type>::from_le_bytes(v.try_into().unwrap());
        let mut out = vec![0; $a.len()];
        let operands = $a.chunks_exact(SIZE).zip($b.chunks_exact(SIZE));
        for (out, (a, b)) in out.chunks_exact_mut(SIZE).zip(operands) {
            out.copy_from_slice(&combine(of(a), of(b)).to_le_bytes());
        }
        out
    }};
}

macro_rules! integers {
    ($type:ty, $op:expr, $a:expr, $b:expr) => {
        match $op {
            Op::Sum => elementwise!($type, $a, $b, <$type>::wrapping_add),
            Op::Prod => elementwise!($type, $a, $b, <$type>::wrapping_mul),
            Op::Min => elementwise!($type, $a, $b, Ord::min),
            Op::Max => elementwise!($type, $a, $b, Ord::max),
            Op::LAnd => elementwise!($type, $a, $b, |x, y| (x != 0 && y != 0) as $type),
            Op::LOr => elementwise!($type, $a, $b, |x, y| (x != 0 || y != 0) as $type),
            Op::LXor => elementwise!($type, $a, $b, |x, y| ((x != 0) != (y != 0)) as $type),
            Op::BAnd => elementwise!($type, $a, $b, |x, y| x & y),
            Op::BOr => elementwise!($type, $a, $b, |x, y| x | y),
            Op::BXor => elementwise!($type, $a, $b, |x, y| x ^ y),
            _ => unreachable!(),
        }
    };
}

macro_rules! floats {
    ($type:ty, $op:expr, $a:expr, $b:expr) => {
        match $op {
            Op::Sum => elementwise!($type, $a, $b, |x, y| x + y),
            Op::Prod => elementwise!($type, $a, $b, |x, y| x * y),
            Op::Min => elementwise!($type, $a, $b, |x, y| if y < x { y } else { x }),
            Op::Max => elementwise!($type, $a, $b, |x, y| if y > x { y } else { x }),
            _ => unreachable!(),
        }
    };
}

#[cfg(feature = "half")]
macro_rules! halves {
    ($type:ty, $op:expr, $a:expr, $b:expr) => {
        match $op {
            Op::Sum => elementwise!($type, $a, $b, |x, y| <$type>::from_f32(f32::from(x) + f32::from(y))),
            Op::Prod => elementwise!($type, $a, $b, |x, y| <$type>::from_f32(f32::from(x) * f32::from(y))),
            Op::Min => elementwise!($type, $a, $b, |x, y| if f32::from(y) < f32::from(x) { y } else { x }),
            Op::Max => elementwise!($type, $a, $b, |x, y| if f32::from(y) > f32::from(x) { y } else { x }),
            _ => unreachable!(),
        }
    };
}

/// Value, then index: `size` bytes in all, the value in the first half.
fn located(op: Op, data_type: DataType, a: &[u8], b: &[u8]) -> Vec<u8> {
    let half = data_type.size() / 2;
    let value = |v: &[u8]| -> f64 {
        match data_type {
            DataType::I32Index => i32::from_le_bytes(v[..half].try_into().unwrap()) as f64,
            DataType::F32Index => f32::from_le_bytes(v[..half].try_into().unwrap()) as f64,
            DataType::I64Index => i64::from_le_bytes(v[..half].try_into().unwrap()) as f64,
            _ => f64::from_le_bytes(v[..half].try_into().unwrap()),
        }
    };
    let index = |v: &[u8]| i32::from_le_bytes(v[half..half + 4].try_into().unwrap());
    let mut out = Vec::new();
    for (a, b) in a.chunks_exact(2 * half).zip(b.chunks_exact(2 * half)) {
        let better = match op {
            Op::MinLoc => value(b) < value(a),
            _ => value(b) > value(a),
        };
        let tie = value(a) == value(b) && index(b) < index(a);
        out.extend_from_slice(if better || tie { b } else { a });
    }
    out
}

/// Whether the order in which elements are combined shows in the result.
pub fn is_float(data_type: DataType) -> bool {
    match data_type {
        DataType::F32 | DataType::F64 => true,
        #[cfg(feature = "half")]
        DataType::F16 | DataType::Bf16 => true,
        _ => false,
    }
}

/// `left op right`, element by element.
pub fn combine(data_type: DataType, op: Op, a: &[u8], b: &[u8]) -> Vec<u8> {
    match data_type {
        DataType::I8 => integers!(i8, op, a, b),
        DataType::I16 => integers!(i16, op, a, b),
        DataType::I32 => integers!(i32, op, a, b),
        DataType::I64 => integers!(i64, op, a, b),
        DataType::U8 | DataType::Byte => integers!(u8, op, a, b),
        DataType::U16 => integers!(u16, op, a, b),
        DataType::U32 => integers!(u32, op, a, b),
        DataType::U64 => integers!(u64, op, a, b),
        DataType::F32 => floats!(f32, op, a, b),
        DataType::F64 => floats!(f64, op, a, b),
        #[cfg(feature = "half")]
        DataType::F16 => halves!(half::f16, op, a, b),
        #[cfg(feature = "half")]
        DataType::Bf16 => halves!(half::bf16, op, a, b),
        DataType::Opaque(8) => elementwise!(u64, a, b, |x, y| {
            let of = |v: u64| (v as u32, (v >> 32) as u32);
            let (a, b) = compose(of(x), of(y));
            u64::from(b) << 32 | u64::from(a)
        }),
        _ => located(op, data_type, a, b),
    }
}

/// Contents that make a mistake visible: floats of mixed magnitude, values that repeat for minloc. `word`: the next random number.
pub fn contents(mut word: impl FnMut() -> u64, data_type: DataType, count: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(count * data_type.size());
    for i in 0..count {
        let bits = word();
        let small = (bits % 7) as i64 - 3;
        // By other bits than those that the sum shows in.
        let float = || bits as i64 as f64 / (1u64 << ((bits & 0xff) % 63)) as f64;
        match data_type {
            DataType::F32 => out.extend((float() as f32).to_le_bytes()),
            DataType::F64 => out.extend(float().to_le_bytes()),
            // No sum of those that tests have overflows.
            #[cfg(feature = "half")]
            DataType::F16 => {
                let magnitude = (1.0 + (bits >> 32) as f64 / 2f64.powi(32)) * 2f64.powi((bits & 7) as i32);
                let value = if bits & 8 == 0 { magnitude } else { -magnitude };
                out.extend(half::f16::from_f64(value).to_le_bytes());
            }
            #[cfg(feature = "half")]
            DataType::Bf16 => out.extend(half::bf16::from_f64(float()).to_le_bytes()),
            DataType::I32Index => out.extend((small as i32).to_le_bytes()),
            DataType::F32Index => out.extend((small as f32).to_le_bytes()),
            DataType::I64Index => out.extend(small.to_le_bytes()),
            DataType::F64Index => out.extend((small as f64).to_le_bytes()),
            // Zeros often, for the logical operators.
            _ if bits.is_multiple_of(5) => out.resize(out.len() + data_type.size(), 0),
            _ => {
                let bytes = bits.to_le_bytes();
                out.extend((0..data_type.size()).map(|i| bytes[i % 8]));
            }
        }
        let place = (bits >> 32) % 50;
        match data_type {
            DataType::I32Index | DataType::F32Index => out.extend((place as i32).to_le_bytes()),
            DataType::I64Index | DataType::F64Index => out.extend(place.to_le_bytes()),
            _ => {}
        }
        debug_assert_eq!(out.len(), (i + 1) * data_type.size());
    }
    out
}
