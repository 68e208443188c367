//! Operators of reductions: the built-in ones, and C functions.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use tocsin_world::{Op, UserOp};

use crate::border::{Failure, guarded};
use crate::pointer::place;
use crate::status::TOCSIN_ERROR_OPERATOR;

/// Sum. Of integers it wraps.
pub const TOCSIN_SUM: c_int = 1;
/// Product. Of integers it wraps.
pub const TOCSIN_PROD: c_int = 2;
/// Minimum. Of floats the left operand if either is a NaN, so that the order in which they are combined decides.
pub const TOCSIN_MIN: c_int = 3;
/// Maximum. Of floats as TOCSIN_MIN.
pub const TOCSIN_MAX: c_int = 4;
/// Minimum and its index.
pub const TOCSIN_MINLOC: c_int = 5;
/// Maximum and its index.
pub const TOCSIN_MAXLOC: c_int = 6;
/// Logical and.
pub const TOCSIN_LAND: c_int = 7;
/// Logical or.
pub const TOCSIN_LOR: c_int = 8;
/// Logical exclusive or.
pub const TOCSIN_LXOR: c_int = 9;
/// Bitwise and.
pub const TOCSIN_BAND: c_int = 10;
/// Bitwise or.
pub const TOCSIN_BOR: c_int = 11;
/// Bitwise exclusive or.
pub const TOCSIN_BXOR: c_int = 12;

/// The first number of a user's operator.
const USER: c_int = 1 << 16;
/// So many operators exist at once, at most.
const USER_MAX: usize = 4096;

/// out[i] = left[i] op right[i] for `count` elements. `out` is exactly `left`, exactly `right`, or apart from both; the
/// elements may be unaligned. It runs outside interrupts, on any thread of the process, must be associative and must
/// not call this library: what is more than to abort, to ask for a rank, a size or whether a request is done, or to
/// create or free an operator answers TOCSIN_ERROR_THREAD there.
pub type Function = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        left: *const c_void,
        right: *const c_void,
        out: *mut c_void,
        count: usize,
    ),
>;

/// A C function as the layer below calls it.
struct Operator {
    function: unsafe extern "C" fn(*mut c_void, *const c_void, *const c_void, *mut c_void, usize),
    context: *mut c_void,
    commutative: bool,
}

// SAFETY: - function and context are usable on any thread: the contract of tocsin_op_create.
unsafe impl Sync for Operator {}

/// Operators by number. The few bytes of each live until the end of the process, since a schedule may point to them;
/// a freed number is used again, and so are they by who creates the same operator.
struct Registry {
    operators: Vec<Option<&'static Operator>>,
    freed: Vec<usize>,
    /// By the addresses of function and context, and whether it commutes.
    all: BTreeMap<(usize, usize, bool), &'static Operator>,
}

static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { operators: Vec::new(), freed: Vec::new(), all: BTreeMap::new() });

unsafe fn apply(context: *const (), left: *const u8, right: *const u8, out: *mut u8, count: usize) {
    // SAFETY: - `operator` put a reference to an Operator that is never freed there.
    let operator = unsafe { &*context.cast::<Operator>() };
    // A call of the library would wait for itself: it is refused.
    let _inside = tocsin_world::InsideOperator::enter();
    // SAFETY: - `count` elements at each: promised by our caller; the function takes them: tocsin_op_create.
    unsafe { (operator.function)(operator.context, left.cast(), right.cast(), out.cast(), count) }
}

fn unknown(value: c_int) -> Failure {
    let text = format!("{value} is no operator: use TOCSIN_SUM ... or a number from tocsin_op_create");
    Failure::new(TOCSIN_ERROR_OPERATOR, text)
}

fn slot(value: c_int) -> Result<usize, Failure> {
    value.checked_sub(USER).and_then(|slot| usize::try_from(slot).ok()).ok_or_else(|| unknown(value))
}

pub(crate) fn operator(value: c_int) -> Result<Op, Failure> {
    Ok(match value {
        TOCSIN_SUM => Op::Sum,
        TOCSIN_PROD => Op::Prod,
        TOCSIN_MIN => Op::Min,
        TOCSIN_MAX => Op::Max,
        TOCSIN_MINLOC => Op::MinLoc,
        TOCSIN_MAXLOC => Op::MaxLoc,
        TOCSIN_LAND => Op::LAnd,
        TOCSIN_LOR => Op::LOr,
        TOCSIN_LXOR => Op::LXor,
        TOCSIN_BAND => Op::BAnd,
        TOCSIN_BOR => Op::BOr,
        TOCSIN_BXOR => Op::BXor,
        _ => {
            let slot = slot(value)?;
            let registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
            let found: &'static Operator =
                registry.operators.get(slot).copied().flatten().ok_or_else(|| unknown(value))?;
            let context = std::ptr::from_ref(found).cast();
            // SAFETY: - `apply` keeps to the contract with this context; the Operator is never freed, and usable on
            //           any thread.
            Op::User(unsafe { UserOp::new(apply, context, found.commutative) })
        }
    })
}

/// Registers an operator of the user and writes its number. `commutative`: whether operands may be exchanged.
/// Errors: ARGUMENT also when 4096 operators exist.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_op_create(
    function: Function,
    context: *mut c_void,
    commutative: c_int,
    op: Option<&mut c_int>,
) -> c_int {
    guarded("tocsin_op_create", || {
        let function = function.ok_or_else(|| Failure::null("function"))?;
        let op = place(op, "op")?;
        let mut registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = registry.freed.pop().unwrap_or(registry.operators.len());
        if slot >= USER_MAX {
            return Err(Failure::argument(format!(
                "{USER_MAX} operators exist already: free some by tocsin_op_free"
            )));
        }
        let commutative = commutative != 0;
        // Never freed: see `Registry`.
        let new =
            || -> &'static Operator { Box::leak(Box::new(Operator { function, context, commutative })) };
        let operator: &'static Operator =
            registry.all.entry((function as usize, context.addr(), commutative)).or_insert_with(new);
        if slot == registry.operators.len() {
            registry.operators.push(None);
        }
        if let Some(place) = registry.operators.get_mut(slot) {
            *place = Some(operator);
        }
        *op = USER + c_int::try_from(slot).unwrap_or(0);
        Ok(())
    })
}

/// Frees the number of a user's operator and sets it to 0. Collectives that use it go on with it. Some 100 bytes of each other function,
/// or context, are kept until the process ends.
/// Errors: OPERATOR.
#[unsafe(no_mangle)]
pub extern "C" fn tocsin_op_free(op: Option<&mut c_int>) -> c_int {
    guarded("tocsin_op_free", || {
        let op = place(op, "op")?;
        if *op == 0 {
            return Ok(());
        }
        if (TOCSIN_SUM..=TOCSIN_BXOR).contains(op) {
            let text = format!("{op} is a built-in operator: free numbers from tocsin_op_create only");
            return Err(Failure::new(TOCSIN_ERROR_OPERATOR, text));
        }
        let slot = slot(*op)?;
        let mut registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
        let place = registry.operators.get_mut(slot).filter(|place| place.is_some());
        *place.ok_or_else(|| unknown(*op))? = None;
        registry.freed.push(slot);
        *op = 0;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = include_str!("../include/tocsin.h");

    #[test]
    fn every_built_in_operator_is_in_the_header() {
        for built_in in Op::BUILT_IN {
            let name = format!("#define TOCSIN_{} ", built_in.name().to_uppercase());
            let value = HEADER.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok());
            let value = value.unwrap_or_else(|| panic!("{built_in}: the header has no {name}"));
            assert_eq!(operator(value).ok(), Some(*built_in), "{name}");
        }
        let numbers = (-1..USER).filter(|&value| operator(value).is_ok()).count();
        assert_eq!(numbers, Op::BUILT_IN.len());
    }
}
