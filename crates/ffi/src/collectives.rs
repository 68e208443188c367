//! Collectives. All ranks of the communicator start the same ones in the same order.

use std::ffi::{c_char, c_int, c_void};

use crate::border::guarded;
use crate::comm::Comm;
use crate::datatype::data_type;
use crate::operator::operator;
use crate::pointer::{algorithm_name, base_of, given, product, rank};
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

/// Starts an allreduce of `count` elements: every rank receives the combination of all send buffers. With `send` NULL
/// the data is taken from `receive`. `datatype` is one of TOCSIN_INT8 ... or from tocsin_type_opaque, `op` one of
/// TOCSIN_SUM ... or from tocsin_op_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_iallreduce(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    guarded("tocsin_iallreduce", || {
        let comm = given(comm, "comm")?;
        let (element, op) = (data_type(datatype)?, operator(op)?);
        let bytes = product(count, element.size(), "count")?;
        let receive = base_of(receive.cast(), bytes, "receive")?;
        let send = (!send.is_null()).then_some(send.cast());
        // SAFETY: - NULL or a string: the header's contract.
        let name = unsafe { algorithm_name(algorithm)? };
        // SAFETY: - `bytes` readable and writable bytes, apart, ours alone until completion: the header's contract.
        start(request, || Ok(unsafe { comm.raw.iallreduce_raw(send, receive, count, element, op, name) }?))
    })
}

/// Starts an alltoall: the block `i` of `send` goes to rank `i`, whose block for us arrives as block `i` of `receive`.
/// Each block has `bytes_per_rank` bytes. The buffers do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_ialltoall(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    bytes_per_rank: usize,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    guarded("tocsin_ialltoall", || {
        let comm = given(comm, "comm")?;
        let bytes = product(bytes_per_rank, comm.raw.size() as usize, "bytes_per_rank")?;
        let send = Some(base_of(send.cast_mut().cast(), bytes, "send")?.cast_const());
        let receive = base_of(receive.cast(), bytes, "receive")?;
        // SAFETY: - NULL or a string: the header's contract.
        let name = unsafe { algorithm_name(algorithm)? };
        // SAFETY: - `bytes` readable and writable bytes, apart, ours alone until completion: the header's contract.
        start(request, || Ok(unsafe { comm.raw.ialltoall_raw(send, receive, bytes_per_rank, name) }?))
    })
}
