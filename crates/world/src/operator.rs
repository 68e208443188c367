//! User operators run under the engine's token: a call of the library from one could only wait for itself.

use std::cell::Cell;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// While it lives, calls of the library on this thread answer [`Error::InHandler`](crate::Error::InHandler). For what
/// runs user operators outside handlers; not for handlers.
#[derive(Debug)]
#[must_use = "the mark goes when this is dropped"]
pub struct InsideOperator(());

impl InsideOperator {
    /// Marks this thread.
    pub fn enter() -> InsideOperator {
        DEPTH.with(|depth| depth.set(depth.get().saturating_add(1)));
        InsideOperator(())
    }

    /// Whether this thread runs a user's operator.
    #[inline]
    pub fn is_here() -> bool {
        DEPTH.with(Cell::get) > 0
    }
}

impl Drop for InsideOperator {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get().saturating_sub(1)));
    }
}
