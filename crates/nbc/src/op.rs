use std::fmt;

/// A reduction operator.
///
/// Sums and products of integers wrap. `Min` and `Max` of floats give the left operand if either is a NaN, so that
/// the combination order decides. `MinLoc` and `MaxLoc` give the lower index among equal values.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Op {
    /// Sum.
    Sum,
    /// Product.
    Prod,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
    /// Minimum of the value and its place.
    MinLoc,
    /// Maximum of the value and its place.
    MaxLoc,
    /// 1 if both are not 0, else 0.
    LAnd,
    /// 1 if either is not 0, else 0.
    LOr,
    /// 1 if exactly one is not 0, else 0.
    LXor,
    /// Bitwise and.
    BAnd,
    /// Bitwise or.
    BOr,
    /// Bitwise exclusive or.
    BXor,
    /// An operator of the user.
    User(UserOp),
}

impl Op {
    /// Every built-in operator.
    pub const BUILT_IN: &'static [Op] = &[
        Op::Sum,
        Op::Prod,
        Op::Min,
        Op::Max,
        Op::MinLoc,
        Op::MaxLoc,
        Op::LAnd,
        Op::LOr,
        Op::LXor,
        Op::BAnd,
        Op::BOr,
        Op::BXor,
    ];

    /// Whether operands may be exchanged. All built-in operators are treated as commutative (floats too, as MPI
    /// does); the order in which each algorithm combines is in [`Algorithm::order`](crate::table::Algorithm::order).
    pub fn is_commutative(&self) -> bool {
        match self {
            Op::User(user) => user.commutative,
            _ => true,
        }
    }

    /// The name used in messages and on the command line.
    pub const fn name(&self) -> &'static str {
        match self {
            Op::Sum => "sum",
            Op::Prod => "prod",
            Op::Min => "min",
            Op::Max => "max",
            Op::MinLoc => "minloc",
            Op::MaxLoc => "maxloc",
            Op::LAnd => "land",
            Op::LOr => "lor",
            Op::LXor => "lxor",
            Op::BAnd => "band",
            Op::BOr => "bor",
            Op::BXor => "bxor",
            Op::User(_) => "user",
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// `out[i] = left[i] op right[i]` for `count` elements. `out` is exactly `left`, exactly `right`, or apart from
/// both. Nothing is aligned.
pub type UserFunction =
    unsafe fn(context: *const (), left: *const u8, right: *const u8, out: *mut u8, count: usize);

/// An operator of the user.
///
/// It runs under the rank's engine token: it must not call the communication library. Unless it is declared
/// [`handler_safe`](Self::handler_safe) it never runs in a handler: its steps wait for the rank's next library call
/// or for a progress thread. A panic in it fails the collective with
/// [`Code::UserOperatorPanicked`](tocsin_progress::completion::Code::UserOperatorPanicked).
#[derive(Clone, Copy)]
pub struct UserOp {
    function: UserFunction,
    context: *const (),
    commutative: bool,
    handler_safe: bool,
}

impl UserOp {
    /// An operator that runs in user calls and progress threads only. It must be associative; `commutative` says
    /// whether operands may be exchanged too.
    ///
    /// # Safety
    /// - `function` keeps to the contract of [`UserFunction`] for the element type it is used with;
    /// - `context` is what `function` expects, usable from any thread of this rank, until every schedule made with
    ///   the operator has been released.
    pub const unsafe fn new(function: UserFunction, context: *const (), commutative: bool) -> UserOp {
        UserOp { function, context, commutative, handler_safe: false }
    }

    /// Allows the operator to run in handlers.
    ///
    /// # Safety
    /// The function keeps to the handler contract (HANDLER.md): no allocation, no lock, no wait, no panic, no
    /// thread-local storage that is set up lazily, and a time bounded by its `count`.
    pub const unsafe fn handler_safe(self) -> UserOp {
        UserOp { handler_safe: true, ..self }
    }

    /// Whether operands may be exchanged.
    pub const fn is_commutative(&self) -> bool {
        self.commutative
    }

    /// Whether it may run in a handler.
    pub const fn is_handler_safe(&self) -> bool {
        self.handler_safe
    }

    /// Applies the operator.
    ///
    /// # Safety
    /// As [`UserFunction`]: `count` elements readable at `left` and `right`, writable at `out`.
    pub(crate) unsafe fn apply(&self, left: *const u8, right: *const u8, out: *mut u8, count: usize) {
        // SAFETY: - function and context fit together: promised to `new`
        //         - memory: promised by the caller.
        unsafe { (self.function)(self.context, left, right, out, count) }
    }
}

impl PartialEq for UserOp {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.function, other.function) && std::ptr::eq(self.context, other.context)
    }
}

impl fmt::Debug for UserOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserOp")
            .field("commutative", &self.commutative)
            .field("handler_safe", &self.handler_safe)
            .finish_non_exhaustive()
    }
}

// SAFETY: - the function may run on any thread and the context is usable from any thread of the rank: promised to
//           `UserOp::new`.
unsafe impl Send for UserOp {}
// SAFETY: - as above; the struct itself is never changed.
unsafe impl Sync for UserOp {}
