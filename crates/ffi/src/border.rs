//! The border: what happens around the body of every exported function.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use tocsin_world::{Error, InsideOperator};

use crate::status::{
    TOCSIN_ERROR_ARGUMENT, TOCSIN_ERROR_INTERNAL, TOCSIN_ERROR_RANK, TOCSIN_ERROR_THREAD, TOCSIN_OK, code_of,
};

/// Why a call failed.
pub(crate) struct Failure {
    pub(crate) code: c_int,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(code: c_int, text: impl Into<String>) -> Failure {
        Failure { code, text: text.into() }
    }

    pub(crate) fn argument(text: impl Into<String>) -> Failure {
        Failure::new(TOCSIN_ERROR_ARGUMENT, text)
    }

    pub(crate) fn null(name: &str) -> Failure {
        Failure::argument(format!("{name} is NULL"))
    }

    pub(crate) fn rank(name: &str, value: c_int) -> Failure {
        Failure::new(
            TOCSIN_ERROR_RANK,
            format!(
                "{name} {value} is negative: ranks are numbered from 0; of point-to-point calls, TOCSIN_PROC_NULL is nobody"
            ),
        )
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let text = match error {
            // The text names what only Rust has.
            Error::Finalized { .. } => {
                "this rank has finalized: make the call before tocsin_finalize, or before tocsin_threads_run returns".into()
            }
            _ => error.to_string(),
        };
        Failure { code: code_of(&error), text }
    }
}

thread_local! {
    static LAST: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// What may be called in the function of an operator, too: it does not enter the engine.
const ANYWHERE: [&str; 8] = [
    "tocsin_abort",
    "tocsin_comm_rank",
    "tocsin_comm_size",
    "tocsin_is_done",
    "tocsin_op_create",
    "tocsin_op_free",
    "tocsin_world_rank",
    "tocsin_world_size",
];

/// Runs the body of an exported function: a failure is remembered for `tocsin_last_error`, a panic becomes one.
pub(crate) fn guarded(name: &str, body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    if InsideOperator::is_here() && !ANYWHERE.contains(&name) {
        let text = "the function of an operator may only combine its operands: make the call outside of it";
        let failure = Failure::new(TOCSIN_ERROR_THREAD, text);
        remember(name, &failure);
        return failure.code;
    }
    // What a panic leaves half done is behind a handle that the caller can still free, never in memory of ours that
    // later calls trust: the layers below have their own guards.
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        // Its drop could panic again: leak it.
        std::mem::forget(panic);
        Err(Failure::new(TOCSIN_ERROR_INTERNAL, "a panic was caught: please report it"))
    });
    match outcome {
        Ok(()) => TOCSIN_OK,
        Err(failure) => {
            remember(name, &failure);
            failure.code
        }
    }
}

fn remember(name: &str, failure: &Failure) {
    // The layer below names its calls as we do, without the prefix.
    let operation = name.strip_prefix("tocsin_").unwrap_or(name);
    let said = failure.text.strip_prefix(operation).and_then(|text| text.strip_prefix(": "));
    let text = format!("{name}: {}", said.unwrap_or(&failure.text)).replace('\0', " ");
    // A thread at its very end has no such storage any more, and nobody left to read it.
    let _ = LAST.try_with(|last| {
        if let (Ok(mut last), Ok(text)) = (last.try_borrow_mut(), CString::new(text)) {
            *last = Some(text);
        }
    });
}

/// What was wrong in the last failing call of this thread, and what to do; "" if none failed. Never NULL. Valid until
/// the next failing call of the same thread.
#[unsafe(no_mangle)]
pub extern "C" fn tocsin_last_error() -> *const c_char {
    let text =
        LAST.try_with(|last| last.try_borrow().ok().and_then(|text| text.as_ref().map(|text| text.as_ptr())));
    text.ok().flatten().unwrap_or(c"".as_ptr())
}
