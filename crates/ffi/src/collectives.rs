//! Barrier and broadcast. All ranks of the communicator start the same ones in the same order.

use std::ffi::{c_char, c_int, c_void};

use crate::border::guarded;
use crate::comm::Comm;
use crate::pointer::{algorithm_name, base_of, given, rank};
use crate::request::{Request, start};

/// Starts a barrier: complete when every rank has started it. `algorithm` NULL: the library chooses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_ibarrier(
    comm: Option<&Comm>,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    guarded("tocsin_ibarrier", || {
        let comm = given(comm, "comm")?;
        // SAFETY: - NULL or a string: the header's contract.
        let name = unsafe { algorithm_name(algorithm)? };
        start(request, || Ok(comm.raw.ibarrier_raw(name)?))
    })
}

/// Starts a broadcast of `bytes` bytes from the root's buffer to everybody's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_ibcast(
    comm: Option<&Comm>,
    buffer: *mut c_void,
    bytes: usize,
    root: c_int,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    guarded("tocsin_ibcast", || {
        let comm = given(comm, "comm")?;
        let buffer = base_of(buffer.cast(), bytes, "buffer")?;
        let root = rank(root, "root")?;
        // SAFETY: - NULL or a string: the header's contract.
        let name = unsafe { algorithm_name(algorithm)? };
        // SAFETY: - `bytes` writable bytes, ours alone until completion: the header's contract.
        start(request, || Ok(unsafe { comm.raw.ibcast_raw(buffer, bytes, root, name) }?))
    })
}
