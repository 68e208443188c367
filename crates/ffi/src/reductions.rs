//! Collectives that combine elements. All ranks of the communicator start the same ones in the same order.

use std::ffi::{c_char, c_int, c_void};

use crate::blocks::entries;
use crate::border::guarded;
use crate::comm::Comm;
use crate::datatype::data_type;
use crate::operator::operator;
use crate::pointer::{algorithm_name, base_of, given, product, rank};
use crate::request::{Request, start};

/// Starts a reduction of `count` elements: the root receives the combination of all send buffers. `receive` is used at the
/// root only; with `send` NULL the root's data is taken from there. `datatype` and `op` as in tocsin_iallreduce.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_ireduce(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    root: c_int,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    guarded("tocsin_ireduce", || {
        let (comm, root) = (given(comm, "comm")?, rank(root, "root")?);
        let (element, op) = (data_type(datatype)?, operator(op)?);
        let bytes = product(count, element.size(), "count")?;
        let mut receive: *mut u8 = receive.cast();
        let mut send: Option<*const u8> = (!send.is_null()).then_some(send.cast());
        if comm.raw.rank() == root {
            receive = base_of(receive, bytes, "receive")?;
        } else {
            let base = send.map_or(std::ptr::null_mut(), <*const u8>::cast_mut);
            send = Some(base_of(base, bytes, "send")?.cast_const());
        }
        // SAFETY: - NULL or a string: the header's contract.
        let name = unsafe { algorithm_name(algorithm)? };
        // SAFETY: - the buffers are as long, apart, ours alone until completion: the header's contract.
        let raw = || unsafe { comm.raw.ireduce_raw(send, receive, count, element, op, root, name) };
        start(request, || Ok(raw()?))
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

/// Starts a reduction of which rank `i` receives `counts[i]` elements, those that follow the parts of the ranks before it;
/// `counts` has one entry per rank, the same on all ranks, and is read during the call only. `send` has all elements. With
/// `send` NULL the data is taken from `receive`, at whose start this rank's part then arrives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_ireduce_scatter(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    counts: *const usize,
    datatype: c_int,
    op: c_int,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    guarded("tocsin_ireduce_scatter", || {
        let comm = given(comm, "comm")?;
        let (element, op) = (data_type(datatype)?, operator(op)?);
        // SAFETY: - one entry per rank: the header's contract.
        let counts = unsafe { entries(counts, comm.raw.size() as usize, "counts")? };
        // In place, the input needs room, not the part alone.
        let used = match send.is_null() {
            true => counts.iter().fold(0usize, |sum, count| sum.saturating_add(*count)),
            false => counts.get(comm.raw.rank() as usize).copied().unwrap_or(0),
        };
        let receive = base_of(receive.cast(), product(used, element.size(), "counts")?, "receive")?;
        let send = (!send.is_null()).then_some(send.cast());
        // SAFETY: - NULL or a string: the header's contract.
        let name = unsafe { algorithm_name(algorithm)? };
        // SAFETY: - the buffers are as long, apart, ours alone until completion: the header's contract.
        let raw = || unsafe { comm.raw.ireduce_scatter_raw(send, receive, counts, element, op, name) };
        start(request, || Ok(raw()?))
    })
}

/// As tocsin_ireduce_scatter, with `count` elements for each rank.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_ireduce_scatter_block(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    guarded("tocsin_ireduce_scatter_block", || {
        let comm = given(comm, "comm")?;
        let (element, op) = (data_type(datatype)?, operator(op)?);
        let bytes = product(count, element.size(), "count")?;
        let receive = base_of(receive.cast(), bytes, "receive")?;
        let send = (!send.is_null()).then_some(send.cast());
        // SAFETY: - NULL or a string: the header's contract.
        let name = unsafe { algorithm_name(algorithm)? };
        start(request, || {
            // SAFETY: - the buffers are as long, apart, ours alone until completion: the header's contract.
            Ok(unsafe { comm.raw.ireduce_scatter_block_raw(send, receive, count, element, op, name) }?)
        })
    })
}

/// Starts a reduction of which rank `i` receives the combination of the ranks 0 to `i`, in that order. With `send` NULL the
/// data is taken from `receive`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_iscan(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    guarded("tocsin_iscan", || {
        let comm = given(comm, "comm")?;
        let (element, op) = (data_type(datatype)?, operator(op)?);
        let bytes = product(count, element.size(), "count")?;
        let receive = base_of(receive.cast(), bytes, "receive")?;
        let send = (!send.is_null()).then_some(send.cast());
        // SAFETY: - NULL or a string: the header's contract.
        let name = unsafe { algorithm_name(algorithm)? };
        // SAFETY: - the buffers are as long, apart, ours alone until completion: the header's contract.
        start(request, || Ok(unsafe { comm.raw.iscan_raw(send, receive, count, element, op, name) }?))
    })
}

/// As tocsin_iscan, without the rank's own contribution: rank `i` receives that of the ranks 0 to `i` - 1. `receive` of rank
/// 0 stays as it is, and may be NULL unless `send` is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_iexscan(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    guarded("tocsin_iexscan", || {
        let comm = given(comm, "comm")?;
        let (element, op) = (data_type(datatype)?, operator(op)?);
        let bytes = product(count, element.size(), "count")?;
        let send = (!send.is_null()).then_some(send.cast());
        // Rank 0 receives nothing; in place it reads there.
        let used = if comm.raw.rank() == 0 && send.is_some() { 0 } else { bytes };
        let receive = base_of(receive.cast(), used, "receive")?;
        // SAFETY: - NULL or a string: the header's contract.
        let name = unsafe { algorithm_name(algorithm)? };
        // SAFETY: - the buffers are as long, apart, ours alone until completion: the header's contract.
        start(request, || Ok(unsafe { comm.raw.iexscan_raw(send, receive, count, element, op, name) }?))
    })
}
