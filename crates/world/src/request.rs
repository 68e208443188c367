//! Raw requests: a message or a collective in flight.

use std::task::Waker;
use std::time::Duration;

use crate::error::Error;

/// What a completed operation says about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Rank of the sender in the communicator (receives); own rank for sends and collectives.
    pub source: u32,
    /// Tag of the message.
    pub tag: i32,
    /// Bytes received, or sent.
    pub bytes: usize,
}

/// What runs when a request completes, outside handlers.
pub type Callback = Box<dyn FnOnce(Result<Status, Error>) + Send>;

/// An operation in flight. Dropping it detaches the operation: it goes on, and its buffer must stay valid until
/// it is complete.
#[derive(Debug)]
pub struct RawRequest {}

impl RawRequest {
    /// Whether it is complete. Makes no progress.
    pub fn is_done(&self) -> bool {
        false
    }
    /// Makes some progress, then gives the outcome if there is one. The outcome stays: later calls repeat it.
    pub fn test(&mut self) -> Option<Result<Status, Error>> {
        None
    }
    /// Waits for the outcome.
    ///
    /// # Errors
    /// That of the operation.
    pub fn wait(&mut self) -> Result<Status, Error> {
        Err(Error::Cancelled { operation: "wait" })
    }
    /// Waits at most `timeout`.
    pub fn wait_timeout(&mut self, _timeout: Duration) -> Option<Result<Status, Error>> {
        None
    }
    /// Cancels a receive that has not matched. Whether it was cancelled.
    pub fn cancel(&mut self) -> bool {
        false
    }
    /// Runs `callback` once when complete, outside handlers, on some thread of this process.
    pub fn on_complete(&mut self, _callback: Callback) {}
    /// Wakes `waker` when complete.
    pub fn set_waker(&mut self, _waker: &Waker) {}

    /// Gives it up: the operation goes on, and `keep` lives until nothing can touch its buffer.
    pub fn detach(self, _keep: Option<Box<dyn std::any::Any + Send>>) {}
    /// Waits, for a bounded time, until nothing can touch the buffer, after a cancel and a revoke.
    pub fn settle(&mut self) {}
}

/// Waits for all; each request keeps its own outcome for `test` or `wait`.
///
/// # Errors
/// The first failed request's error, by position, after all are complete.
pub fn wait_all(_requests: &mut [&mut RawRequest]) -> Result<(), Error> {
    Ok(())
}

/// Waits until one is complete and gives its position; `None` if `requests` is empty.
pub fn wait_any(_requests: &mut [&mut RawRequest]) -> Option<usize> {
    None
}
