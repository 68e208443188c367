//! Completion callbacks.

use std::ffi::{c_int, c_void};

use crate::border::{Failure, guarded};
use crate::request::{Request, Status, is_awaited, with};

/// What runs when an operation is complete: on some thread of the process, never inside an interrupt. It gets the
/// argument given with it and the operation's status, valid during the call.
pub type Callback = Option<unsafe extern "C" fn(argument: *mut c_void, status: *const Status)>;

/// The argument goes to whichever thread runs the callback.
struct Argument(*mut c_void);

// SAFETY: - the pointer is only handed through; that the callback may use it on any thread is the header's contract.
unsafe impl Send for Argument {}

/// Has `callback` called once when the operation is complete, at once if it is already. A request has one: a later call
/// before that puts its callback in the place of the earlier one, which is not called then. The request must be waited for
/// or freed as without it. Of a persistent request it is for the run that is active, and leaves it active: tocsin_wait or
/// tocsin_test makes it inactive; of one that is not active it is called at once, with the status that tocsin_wait gives then. The callback may start operations, and must not use the request that it is of, nor one
/// that a call is working on. It should be short and had better not wait for operations (the start of a `split-tree` may
/// wait, too): nothing refuses that, but the thread that runs it, which may be the one that runs all callbacks of the rank,
/// goes on only when it returns. To wait in one for what another callback does is to wait for ever.
/// Errors: none of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_on_complete(
    request: *mut Request,
    callback: Callback,
    argument: *mut c_void,
) -> c_int {
    guarded("tocsin_on_complete", || {
        if request.is_null() {
            return Err(Failure::null("request"));
        }
        let callback = callback.ok_or_else(|| Failure::null("callback"))?;
        // SAFETY: - a live handle, used by this thread only: the header's contract, here and below.
        if !unsafe { with(request, |request| is_awaited(request))? } {
            let nothing = Status::EMPTY;
            // SAFETY: - the callback takes that argument: the header's contract; the status lives here.
            unsafe { callback(argument, &raw const nothing) };
            return Ok(());
        }
        let argument = Argument(argument);
        let call = Box::new(move |outcome| {
            let Argument(pointer) = { argument };
            let status = Status::of(&outcome);
            // SAFETY: - the callback takes that argument on any thread: the header's contract; the status lives here.
            unsafe { callback(pointer, &raw const status) };
        });
        // SAFETY: - as above.
        unsafe { with(request, |request| request.on_complete(call)) }
    })
}
