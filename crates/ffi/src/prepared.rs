//! Persistent messages: send_init, ssend_init, recv_init.

use std::ffi::{c_int, c_void};

use tocsin_world::Mode;

use crate::border::{Failure, guarded};
use crate::comm::Comm;
use crate::point_to_point::{peer, source_of, tag_of};
use crate::pointer::{given, readable, writable};
use crate::request::{Request, cleared, start};

fn send_init(
    comm: Option<&Comm>,
    buffer: *const c_void,
    bytes: usize,
    dest: c_int,
    tag: c_int,
    mode: Mode,
    request: Option<&mut *mut Request>,
) -> Result<(), Failure> {
    let comm = given(comm, "comm")?;
    let buffer = readable(buffer.cast(), bytes, "buffer")?;
    let dest = peer(dest, "dest")?;
    start(request, || Ok(comm.raw.send_init_raw(buffer, dest, tag, mode)?))
}

/// Prepares a send: arguments as those of tocsin_isend. Each tocsin_start sends what the buffer holds then, to a receive of
/// any kind. Whether the rank is there, the start asks.
/// Errors: RANK, TAG, REVOKED.
#[unsafe(no_mangle)]
pub extern "C" fn tocsin_send_init(
    comm: Option<&Comm>,
    buffer: *const c_void,
    bytes: usize,
    dest: c_int,
    tag: c_int,
    request: Option<&mut *mut Request>,
) -> c_int {
    let request = cleared(request);
    guarded("tocsin_send_init", || send_init(comm, buffer, bytes, dest, tag, Mode::Standard, request))
}

/// As tocsin_send_init; a run is complete only when the receiver has matched its message.
/// Errors: as tocsin_send_init.
#[unsafe(no_mangle)]
pub extern "C" fn tocsin_ssend_init(
    comm: Option<&Comm>,
    buffer: *const c_void,
    bytes: usize,
    dest: c_int,
    tag: c_int,
    request: Option<&mut *mut Request>,
) -> c_int {
    let request = cleared(request);
    guarded("tocsin_ssend_init", || send_init(comm, buffer, bytes, dest, tag, Mode::Synchronous, request))
}

/// Prepares a receive: arguments as those of tocsin_irecv. Each tocsin_start takes one message, of a send of any kind, and
/// the status of the wait or test says whose. A run that tocsin_cancel has cancelled may be followed by others.
/// Errors: as tocsin_send_init.
#[unsafe(no_mangle)]
pub extern "C" fn tocsin_recv_init(
    comm: Option<&Comm>,
    buffer: *mut c_void,
    bytes: usize,
    source: c_int,
    tag: c_int,
    request: Option<&mut *mut Request>,
) -> c_int {
    let request = cleared(request);
    guarded("tocsin_recv_init", || {
        let comm = given(comm, "comm")?;
        let buffer = writable(buffer.cast(), bytes, "buffer")?;
        let source = source_of(source)?;
        start(request, || Ok(comm.raw.recv_init_raw(buffer, source, tag_of(tag))?))
    })
}
