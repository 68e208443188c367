//! The sequential model: what each rank's buffers hold afterwards, computed without the crate's kernels.

use super::Random;
use tocsin_nbc::table::{Algorithm, Operation};
use tocsin_nbc::{DataType, Op, UserOp, order::Shape};

/// The operator of an affine map: `x -> a x + b` in wrapping arithmetic, composed: associative, not commutative.
pub fn compose(left: (u32, u32), right: (u32, u32)) -> (u32, u32) {
    (left.0.wrapping_mul(right.0), left.0.wrapping_mul(right.1).wrapping_add(left.1))
}

pub const AFFINE: DataType = DataType::Opaque(8);

/// As a user writes it: it allocates, and must not run in a handler.
///
/// # Safety
/// As `tocsin_nbc::UserFunction`, with elements of two `u32`.
pub unsafe fn affine(_: *const (), left: *const u8, right: *const u8, out: *mut u8, count: usize) {
    assert!(!super::driver::in_handler(), "a user operator runs in a handler");
    let values: Vec<(u32, u32)> = (0..count)
        // SAFETY: - promised by the caller.
        .map(|i| unsafe { compose(pair(left, i), pair(right, i)) })
        .collect();
    for (i, value) in values.into_iter().enumerate() {
        // SAFETY: - promised by the caller.
        unsafe { out.cast::<[u32; 2]>().add(i).write_unaligned([value.0, value.1]) };
    }
}

/// # Safety
/// `i` is the index of a readable element.
unsafe fn pair(memory: *const u8, i: usize) -> (u32, u32) {
    // SAFETY: - promised by the caller.
    let [a, b] = unsafe { memory.cast::<[u32; 2]>().add(i).read_unaligned() };
    (a, b)
}

pub fn affine_op() -> Op {
    // SAFETY: - `affine` keeps to the contract for elements of type AFFINE; its context is unused.
    Op::User(unsafe { UserOp::new(affine, std::ptr::null(), false) })
}

macro_rules! elementwise {
    ($type:ty, $a:expr, $b:expr, $combine:expr) => {{
        const SIZE: usize = std::mem::size_of::<$type>();
        let combine: fn($type, $type) -> $type = $combine;
        let of = |v: &[u8]| <$type>::from_le_bytes(v.try_into().unwrap());
        $a.chunks_exact(SIZE)
            .zip($b.chunks_exact(SIZE))
            .flat_map(|(a, b)| combine(of(a), of(b)).to_le_bytes())
            .collect()
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
        DataType::Opaque(8) => elementwise!(u64, a, b, |x, y| {
            let of = |v: u64| (v as u32, (v >> 32) as u32);
            let (a, b) = compose(of(x), of(y));
            u64::from(b) << 32 | u64::from(a)
        }),
        _ => located(op, data_type, a, b),
    }
}

/// Contents that make a mistake visible: floats of mixed magnitude, values that repeat for minloc.
pub fn contents(random: &mut Random, data_type: DataType, count: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(count * data_type.size());
    for i in 0..count {
        let small = (random.below(7) as i64) - 3;
        let float = (random.word() as i64 as f64) / (1u64 << random.below(63)) as f64;
        match data_type {
            DataType::F32 => out.extend((float as f32).to_le_bytes()),
            DataType::F64 => out.extend(float.to_le_bytes()),
            DataType::I32Index => out.extend((small as i32).to_le_bytes()),
            DataType::F32Index => out.extend((small as f32).to_le_bytes()),
            DataType::I64Index => out.extend(small.to_le_bytes()),
            DataType::F64Index => out.extend((small as f64).to_le_bytes()),
            // Zeros often, for the logical operators.
            _ if random.chance(20) => out.resize(out.len() + data_type.size(), 0),
            _ => {
                let word = random.word().to_le_bytes();
                out.extend((0..data_type.size()).map(|i| word[i % 8]));
            }
        }
        match data_type {
            DataType::I32Index | DataType::F32Index => out.extend((random.below(50) as i32).to_le_bytes()),
            DataType::I64Index | DataType::F64Index => out.extend((random.below(50) as u64).to_le_bytes()),
            _ => {}
        }
        debug_assert_eq!(out.len(), (i + 1) * data_type.size());
    }
    out
}

/// A call, as all ranks make it.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub operation: Operation,
    pub algorithm: Option<&'static str>,
    pub root: u32,
    pub data_type: DataType,
    pub op: Op,
    pub count: usize,
    pub in_place: bool,
}

impl Case {
    /// Bytes of the (send, receive) buffers on `ranks` ranks.
    pub fn bytes(&self, ranks: u32) -> (usize, usize) {
        let bytes = self.count * self.data_type.size();
        match self.operation {
            Operation::Ibarrier => (0, 0),
            Operation::Ibcast => (0, bytes),
            Operation::Iallreduce => (bytes, bytes),
            _ => (bytes * ranks as usize, bytes * ranks as usize),
        }
    }

    /// What the receive buffers hold at the end, given what each rank contributes.
    pub fn expected(&self, algorithm: &Algorithm, inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let ranks = inputs.len();
        match self.operation {
            Operation::Ibarrier => vec![Vec::new(); ranks],
            Operation::Ibcast => vec![inputs[self.root as usize].clone(); ranks],
            Operation::Iallreduce => vec![self.reduced(algorithm, inputs); ranks],
            _ => {
                let block = self.count * self.data_type.size();
                let of = |from: usize, to: usize| &inputs[from][to * block..(to + 1) * block];
                (0..ranks).map(|to| (0..ranks).flat_map(|from| of(from, to).to_vec()).collect()).collect()
            }
        }
    }

    fn reduced(&self, algorithm: &Algorithm, inputs: &[Vec<u8>]) -> Vec<u8> {
        let (size, op) =
            (self.data_type.size(), |a: Vec<u8>, b: Vec<u8>| combine(self.data_type, self.op, &a, &b));
        let is_float = matches!(self.data_type, DataType::F32 | DataType::F64);
        if !is_float {
            return inputs[1..].iter().fold(inputs[0].clone(), |a, b| op(a, b.clone()));
        }
        let shape = Shape { ranks: inputs.len() as u32, count: self.count };
        let mut out = vec![0; self.count * size];
        for share in algorithm.order.expect("a reduction states its order")(&shape) {
            let bytes = share.elements.start * size..share.elements.end * size;
            let value = share.order.evaluate(&|rank| inputs[rank as usize][bytes.clone()].to_vec(), &op);
            out[bytes].copy_from_slice(&value);
        }
        out
    }
}
