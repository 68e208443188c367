//! Reduction operators.

use std::marker::PhantomData;

use tocsin_world::Op as RawOp;
use tocsin_world::UserOp as RawUserOp;

use crate::element::Element;

/// How a reduction combines two elements. Sums and products of integers wrap.
///
/// ```
/// use tocsin::{Op, World};
/// let sums = World::threads(2, |comm| comm.allreduce(&mut [comm.rank() as u64, 1], Op::Sum).map(|_| ()))?;
/// assert_eq!(sums.len(), 2);
/// # Ok::<(), tocsin::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Op<T: Element> {
    /// Sum.
    Sum,
    /// Product.
    Prod,
    /// Smaller of the two; the first if either is a NaN.
    Min,
    /// Larger of the two; the first if either is a NaN.
    Max,
    /// Smaller value with its place; the lower place among equals. For value-index pairs.
    MinLoc,
    /// Larger value with its place; the lower place among equals. For value-index pairs.
    MaxLoc,
    /// 1 if both are not 0, else 0.
    LAnd,
    /// 1 if either is not 0, else 0.
    LOr,
    /// 1 if exactly one is not 0, else 0.
    LXor,
    /// Bitwise and, of integers.
    BAnd,
    /// Bitwise or, of integers.
    BOr,
    /// Bitwise exclusive or, of integers.
    BXor,
    /// An operator of the user.
    User(UserOp<T>),
}

/// An associative operator of the user.
///
/// It runs on a user thread inside a library call, or on a progress thread, never in a handler: a rank that only
/// computes does not combine, until it calls the library again. It must not call the library:
/// calls answer [`Error::InHandler`](crate::Error::InHandler), do nothing, or panic; a [`World`](crate::World) that is finalized or dropped in it is left when
/// its thread ends, or the process exits on it; a panic in it is the error [`Error::UserOperatorPanicked`](crate::Error::UserOperatorPanicked) of the collective.
///
/// ```
/// use tocsin::{Op, UserOp, World};
/// let gcd = UserOp::commutative(|mut a: u64, mut b: u64| {
///     while b != 0 {
///         (a, b) = (b, a % b);
///     }
///     a
/// });
/// let all = World::threads(2, |comm| {
///     let mut x = [if comm.rank() == 0 { 12u64 } else { 18 }];
///     comm.allreduce(&mut x, Op::User(gcd))?;
///     Ok::<u64, tocsin::Error>(x[0])
/// })?;
/// for x in all {
///     assert_eq!(x?, 6);
/// }
/// # Ok::<(), tocsin::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct UserOp<T: Element> {
    combine: fn(T, T) -> T,
    commutative: bool,
    handler_safe: bool,
    element: PhantomData<T>,
}

impl<T: Element> UserOp<T> {
    /// An operator whose operands may be exchanged.
    pub const fn commutative(combine: fn(T, T) -> T) -> UserOp<T> {
        UserOp { combine, commutative: true, handler_safe: false, element: PhantomData }
    }

    /// An operator whose operands stay in rank order.
    pub const fn ordered(combine: fn(T, T) -> T) -> UserOp<T> {
        UserOp { combine, commutative: false, handler_safe: false, element: PhantomData }
    }

    /// Lets the operator run in handlers too, so that a computing rank combines what arrives.
    ///
    /// # Safety
    /// The function keeps to the handler contract (HANDLER.md): it does not allocate, free, lock, wait, format,
    /// panic, or use thread-local storage, and takes less than a microsecond.
    pub const unsafe fn handler_safe(self) -> UserOp<T> {
        UserOp { handler_safe: true, ..self }
    }
}

/// As [`apply`], marking the thread so that calls of the library are refused.
unsafe fn apply_guarded<T: Element>(
    context: *const (),
    left: *const u8,
    right: *const u8,
    out: *mut u8,
    count: usize,
) {
    let _inside = tocsin_world::InsideOperator::enter();
    // SAFETY: - promised by the caller.
    unsafe { apply::<T>(context, left, right, out, count) }
}

/// Applies the function whose address is `context`.
unsafe fn apply<T: Element>(
    context: *const (),
    left: *const u8,
    right: *const u8,
    out: *mut u8,
    count: usize,
) {
    // SAFETY: - `Op::raw` made `context` of a function of exactly this type.
    let combine = unsafe { std::mem::transmute::<*const (), fn(T, T) -> T>(context) };
    let (left, right, out) = (left.cast::<T>(), right.cast::<T>(), out.cast::<T>());
    for i in 0..count {
        // SAFETY: - `count` elements are there: promised by the caller
        //         - unaligned access is used, and any bytes are a T (Pod).
        unsafe {
            out.add(i).write_unaligned(combine(left.add(i).read_unaligned(), right.add(i).read_unaligned()))
        }
    }
}

impl<T: Element> Op<T> {
    pub(crate) fn raw(self) -> RawOp {
        match self {
            Op::Sum => RawOp::Sum,
            Op::Prod => RawOp::Prod,
            Op::Min => RawOp::Min,
            Op::Max => RawOp::Max,
            Op::MinLoc => RawOp::MinLoc,
            Op::MaxLoc => RawOp::MaxLoc,
            Op::LAnd => RawOp::LAnd,
            Op::LOr => RawOp::LOr,
            Op::LXor => RawOp::LXor,
            Op::BAnd => RawOp::BAnd,
            Op::BOr => RawOp::BOr,
            Op::BXor => RawOp::BXor,
            Op::User(user) => {
                // `apply::<T>` keeps the contract of a user function for elements of type T, the only ones
                // it is used with: the collective takes `Op<T>` with a buffer of T. The context is a function's address,
                // valid for ever from any thread.
                // Thread-local storage is not for handlers: an operator declared safe there runs without the mark.
                let function: tocsin_world::UserFunction =
                    if user.handler_safe { apply::<T> } else { apply_guarded::<T> };
                // SAFETY: - what stands above: the function fits the elements, and the context the function.
                let raw = unsafe { RawUserOp::new(function, user.combine as *const (), user.commutative) };
                if user.handler_safe {
                    // SAFETY: - promised to `UserOp::handler_safe`; `apply` itself only loops.
                    RawOp::User(unsafe { raw.handler_safe() })
                } else {
                    RawOp::User(raw)
                }
            }
        }
    }
}
