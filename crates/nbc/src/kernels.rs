//! The loops that combine two vectors.
//!
//! # Implementation details
//!
//! One monomorphic loop per operator and element type over raw, possibly unaligned memory. A result that stands in an
//! operand's place is a loop of its own: with three pointers, the compiler's run-time overlap test would send it to
//! the scalar form. `ci/disasm.sh` looks whether all three are vectorised, as all but those of a value and its place are.
//! Handler-safe: no panics, no allocation, bounded by `count`. Floating-point environment:
//! [`combine`](Operator::combine) sets the default one.

use crate::{DataType, Error, Op, UserOp, ValueIndex32, ValueIndex64};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tocsin_sync::fpenv::DefaultFp;

#[cfg(feature = "half")]
mod halves;

type Kernel = unsafe fn(left: *const u8, right: *const u8, out: *mut u8, count: usize);

/// An operator for one element type.
#[derive(Clone, Copy)]
pub(crate) struct Operator {
    size: usize,
    function: Function,
}

#[derive(Clone, Copy)]
enum Function {
    BuiltIn(Kernel),
    User(UserOp),
}

/// A user operator panicked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Panicked;

impl Operator {
    pub(crate) fn new(op: Op, data_type: DataType) -> Result<Operator, Error> {
        let size = data_type.size();
        let function = match op {
            Op::User(user) if size > 0 => Some(Function::User(user)),
            _ => kernel(op, data_type).map(Function::BuiltIn),
        };
        let function = function.ok_or(Error::InvalidOperator { op, data_type })?;
        Ok(Operator { size, function })
    }

    /// Bytes of an element; not 0.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Whether it is one of the library's own, all of which combine sooner than other cores' lines come.
    pub(crate) fn is_built_in(&self) -> bool {
        matches!(self.function, Function::BuiltIn(_))
    }

    /// Whether a handler may run it.
    pub(crate) fn is_handler_safe(&self) -> bool {
        match self.function {
            Function::BuiltIn(_) => true,
            Function::User(user) => user.is_handler_safe(),
        }
    }

    /// `out = left op right` for `count` elements.
    ///
    /// # Safety
    /// `count` elements are readable at `left` and `right` and writable at `out`, which is equal to an operand or apart
    /// from it.
    pub(crate) unsafe fn combine(
        &self,
        left: *const u8,
        right: *const u8,
        out: *mut u8,
        count: usize,
    ) -> Result<(), Panicked> {
        let _fp = DefaultFp::enter();
        match self.function {
            Function::BuiltIn(kernel) => {
                // SAFETY: - memory: promised by the caller.
                unsafe { kernel(left, right, out, count) };
                Ok(())
            }
            Function::User(user) => {
                // SAFETY: - memory: promised by the caller.
                //         - element type: the operator was made for elements of this size.
                let run = AssertUnwindSafe(|| unsafe { user.apply(left, right, out, count) });
                catch_unwind(run).map_err(|payload| {
                    // Its drop may free or panic, and this may be a progress pass: a leak per panic is the lesser evil.
                    std::mem::forget(payload);
                    Panicked
                })
            }
        }
    }
}

impl std::fmt::Debug for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operator").field("size", &self.size).finish_non_exhaustive()
    }
}

/// # Safety
/// As [`Operator::combine`], for elements of type `T`.
#[inline(always)]
unsafe fn apply<T: Copy>(
    left: *const u8,
    right: *const u8,
    out: *mut u8,
    count: usize,
    combine: impl Fn(T, T) -> T,
) {
    let (left, right, out) = (left.cast::<T>(), right.cast::<T>(), out.cast::<T>());
    // SAFETY: - all accesses are to elements below `count`, which the caller vouches for, and unaligned
    //         - any bit pattern is a T: the kernels below use plain numbers only.
    unsafe {
        if left == out.cast_const() {
            for i in 0..count {
                let value = combine(out.add(i).read_unaligned(), right.add(i).read_unaligned());
                out.add(i).write_unaligned(value);
            }
        } else if right == out.cast_const() {
            for i in 0..count {
                let value = combine(left.add(i).read_unaligned(), out.add(i).read_unaligned());
                out.add(i).write_unaligned(value);
            }
        } else {
            for i in 0..count {
                let value = combine(left.add(i).read_unaligned(), right.add(i).read_unaligned());
                out.add(i).write_unaligned(value);
            }
        }
    }
}

/// The loop is a function of the operator's name, inside one of the type's: profilers and `ci/packed.txt` know it by that.
macro_rules! kernel {
    ($operator:ident, $type:ty, $combine:expr) => {{
        /// # Safety
        /// As `Operator::combine`.
        unsafe fn $operator(left: *const u8, right: *const u8, out: *mut u8, count: usize) {
            // SAFETY: - promised by the caller.
            unsafe { apply::<$type>(left, right, out, count, $combine) }
        }
        $operator as Kernel
    }};
}

macro_rules! integer {
    ($op:expr, $name:ident, $type:ty) => {{
        fn $name(op: Op) -> Option<Kernel> {
            Some(match op {
                Op::Sum => kernel!(sum, $type, |a, b| a.wrapping_add(b)),
                Op::Prod => kernel!(prod, $type, |a, b| a.wrapping_mul(b)),
                Op::Min => kernel!(min, $type, |a, b| if b < a { b } else { a }),
                Op::Max => kernel!(max, $type, |a, b| if b > a { b } else { a }),
                Op::LAnd => kernel!(land, $type, |a, b| <$type>::from((a != 0) & (b != 0))),
                Op::LOr => kernel!(lor, $type, |a, b| <$type>::from((a != 0) | (b != 0))),
                Op::LXor => kernel!(lxor, $type, |a, b| <$type>::from((a != 0) ^ (b != 0))),
                Op::BAnd => kernel!(band, $type, |a, b| a & b),
                Op::BOr => kernel!(bor, $type, |a, b| a | b),
                Op::BXor => kernel!(bxor, $type, |a, b| a ^ b),
                Op::MinLoc | Op::MaxLoc | Op::User(_) => return None,
            })
        }
        $name($op)
    }};
}

macro_rules! float {
    ($op:expr, $name:ident, $type:ty) => {{
        fn $name(op: Op) -> Option<Kernel> {
            Some(match op {
                Op::Sum => kernel!(sum, $type, |a, b| a + b),
                Op::Prod => kernel!(prod, $type, |a, b| a * b),
                Op::Min => kernel!(min, $type, |a, b| if b < a { b } else { a }),
                Op::Max => kernel!(max, $type, |a, b| if b > a { b } else { a }),
                _ => return None,
            })
        }
        $name($op)
    }};
}

#[cfg(feature = "half")]
macro_rules! half {
    ($op:expr, $name:ident, $wide:path, $round:path) => {{
        fn $name(op: Op) -> Option<Kernel> {
            Some(match op {
                Op::Sum => kernel!(sum, u16, |a, b| $round($wide(a) + $wide(b))),
                Op::Prod => kernel!(prod, u16, |a, b| $round($wide(a) * $wide(b))),
                Op::Min => kernel!(min, u16, |a, b| if $wide(b) < $wide(a) { b } else { a }),
                Op::Max => kernel!(max, u16, |a, b| if $wide(b) > $wide(a) { b } else { a }),
                _ => return None,
            })
        }
        $name($op)
    }};
}

macro_rules! indexed {
    ($op:expr, $name:ident, $type:ty) => {{
        fn $name(op: Op) -> Option<Kernel> {
            Some(match op {
                Op::MinLoc => kernel!(minloc, $type, |a, b| {
                    if b.value < a.value || (b.value == a.value && b.index < a.index) { b } else { a }
                }),
                Op::MaxLoc => kernel!(maxloc, $type, |a, b| {
                    if b.value > a.value || (b.value == a.value && b.index < a.index) { b } else { a }
                }),
                _ => return None,
            })
        }
        $name($op)
    }};
}

fn kernel(op: Op, data_type: DataType) -> Option<Kernel> {
    match data_type {
        DataType::I8 => integer!(op, i8, i8),
        DataType::I16 => integer!(op, i16, i16),
        DataType::I32 => integer!(op, i32, i32),
        DataType::I64 => integer!(op, i64, i64),
        DataType::U8 => integer!(op, u8, u8),
        DataType::U16 => integer!(op, u16, u16),
        DataType::U32 => integer!(op, u32, u32),
        DataType::U64 => integer!(op, u64, u64),
        DataType::F32 => float!(op, f32, f32),
        DataType::F64 => float!(op, f64, f64),
        #[cfg(feature = "half")]
        DataType::F16 => half!(op, f16, halves::f16_to_f32, halves::f32_to_f16),
        #[cfg(feature = "half")]
        DataType::Bf16 => half!(op, bf16, halves::bf16_to_f32, halves::f32_to_bf16),
        DataType::Byte if matches!(op, Op::BAnd | Op::BOr | Op::BXor) => kernel(op, DataType::U8),
        DataType::I32Index => indexed!(op, i32_index, ValueIndex32<i32>),
        DataType::F32Index => indexed!(op, f32_index, ValueIndex32<f32>),
        DataType::I64Index => indexed!(op, i64_index, ValueIndex64<i64>),
        DataType::F64Index => indexed!(op, f64_index, ValueIndex64<f64>),
        DataType::Byte | DataType::Opaque(_) => None,
    }
}

#[cfg(test)]
mod tests;
