//! Barrier and broadcast. All ranks of the communicator start the same ones in the same order.

use std::ffi::{c_char, c_int, c_void};

use tocsin_world::Arguments;

use crate::border::{Failure, guarded};
use crate::comm::Comm;
use crate::form::Call;
use crate::pointer::{base_of, rank};
use crate::request::Request;

/// # Safety
/// The header's contract.
pub(crate) unsafe fn barrier(call: Call) -> Result<(), Failure> {
    // SAFETY: - a barrier has no buffers.
    unsafe { call.begin(&Arguments::Ibarrier) }
}

/// Starts a barrier: complete when every rank has started it. `algorithm` NULL: the library chooses.
/// Errors: ALGORITHM, REVOKED. Here and below, ARGUMENT is also that the algorithm cannot do this here; that a rank died or has
/// finalized is what the operation ends with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_ibarrier(
    comm: Option<&Comm>,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::now(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_ibarrier", || unsafe { barrier(call) })
}

/// # Safety
/// The header's contract.
pub(crate) unsafe fn bcast(
    call: Call,
    buffer: *mut c_void,
    bytes: usize,
    root: c_int,
) -> Result<(), Failure> {
    let buffer = base_of(buffer.cast(), bytes, "buffer")?;
    let root = rank(root, "root")?;
    // SAFETY: - the buffers are as long, apart, ours alone while it is active: promised by the caller.
    unsafe { call.begin(&Arguments::Ibcast { buffer, bytes, root }) }
}

/// Starts a broadcast of `bytes` bytes from the root's buffer to everybody's.
/// Errors: RANK, ALGORITHM, REVOKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_ibcast(
    comm: Option<&Comm>,
    buffer: *mut c_void,
    bytes: usize,
    root: c_int,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::now(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_ibcast", || unsafe { bcast(call, buffer, bytes, root) })
}
