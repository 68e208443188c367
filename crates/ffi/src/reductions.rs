//! Collectives that combine elements. All ranks of the communicator start the same ones in the same order.

use std::ffi::{c_char, c_int, c_void};

use tocsin_world::Arguments;

use crate::blocks::entries;
use crate::border::{Failure, guarded};
use crate::comm::Comm;
use crate::datatype::data_type as type_of;
use crate::form::Call;
use crate::operator::operator;
use crate::pointer::{base_of, product, rank};
use crate::request::Request;

/// # Safety
/// The header's contract.
pub(crate) unsafe fn reduce(
    call: Call,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    root: c_int,
) -> Result<(), Failure> {
    let (comm, root) = (call.comm()?, rank(root, "root")?);
    let (data_type, op) = (type_of(datatype)?, operator(op)?);
    let bytes = product(count, data_type.size(), "count")?;
    let mut receive: *mut u8 = receive.cast();
    let mut send: Option<*const u8> = (!send.is_null()).then_some(send.cast());
    if comm.raw.rank() == root {
        receive = base_of(receive, bytes, "receive")?;
    } else {
        let base = send.map_or(std::ptr::null_mut(), <*const u8>::cast_mut);
        send = Some(base_of(base, bytes, "send")?.cast_const());
    }
    // SAFETY: - the buffers are as long, apart, ours alone while it is active: promised by the caller.
    unsafe { call.begin(&Arguments::Ireduce { send, recv: receive, count, data_type, op, root }) }
}

/// Starts a reduction of `count` elements: the root receives the combination of all send buffers. `receive` is used at the
/// root only; with `send` NULL the root's data is taken from there. `datatype` and `op` as in tocsin_iallreduce.
/// Errors: RANK, OPERATOR, ALGORITHM, REVOKED.
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
    let call = Call::now(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_ireduce", || unsafe { reduce(call, send, receive, count, datatype, op, root) })
}

/// # Safety
/// The header's contract.
pub(crate) unsafe fn allreduce(
    call: Call,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
) -> Result<(), Failure> {
    let (data_type, op) = (type_of(datatype)?, operator(op)?);
    let bytes = product(count, data_type.size(), "count")?;
    let receive = base_of(receive.cast(), bytes, "receive")?;
    let send = (!send.is_null()).then_some(send.cast());
    // SAFETY: - the buffers are as long, apart, ours alone while it is active: promised by the caller.
    unsafe { call.begin(&Arguments::Iallreduce { send, recv: receive, count, data_type, op }) }
}

/// Starts an allreduce of `count` elements: every rank receives the combination of all send buffers. With `send` NULL
/// the data is taken from `receive`. `datatype` is one of TOCSIN_INT8 ... or from tocsin_type_opaque, `op` one of
/// TOCSIN_SUM ... or from tocsin_op_create.
/// Errors: OPERATOR, ALGORITHM, REVOKED.
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
    let call = Call::now(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_iallreduce", || unsafe { allreduce(call, send, receive, count, datatype, op) })
}

/// # Safety
/// The header's contract.
pub(crate) unsafe fn reduce_scatter(
    call: Call,
    send: *const c_void,
    receive: *mut c_void,
    counts: *const usize,
    datatype: c_int,
    op: c_int,
) -> Result<(), Failure> {
    let comm = call.comm()?;
    let (data_type, op) = (type_of(datatype)?, operator(op)?);
    // SAFETY: - one entry per rank: the header's contract.
    let counts = unsafe { entries(counts, comm.raw.size() as usize, "counts")? };
    // In place, the input needs room, not the part alone.
    let used = match send.is_null() {
        true => counts.iter().fold(0usize, |sum, count| sum.saturating_add(*count)),
        false => counts.get(comm.raw.rank() as usize).copied().unwrap_or(0),
    };
    let receive = base_of(receive.cast(), product(used, data_type.size(), "counts")?, "receive")?;
    let send = (!send.is_null()).then_some(send.cast());
    // SAFETY: - the buffers are as long, apart, ours alone while it is active: promised by the caller.
    unsafe { call.begin(&Arguments::IreduceScatter { send, recv: receive, counts, data_type, op }) }
}

/// Starts a reduction of which rank `i` receives `counts[i]` elements, those that follow the parts of the ranks before it;
/// `counts` has one entry per rank, the same on all ranks, and is read during the call only. `send` has all elements. With
/// `send` NULL the data is taken from `receive`, at whose start this rank's part then arrives.
/// Errors: as tocsin_iallreduce.
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
    let call = Call::now(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_ireduce_scatter", || unsafe { reduce_scatter(call, send, receive, counts, datatype, op) })
}

/// # Safety
/// The header's contract.
pub(crate) unsafe fn reduce_scatter_block(
    call: Call,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
) -> Result<(), Failure> {
    let (data_type, op) = (type_of(datatype)?, operator(op)?);
    let bytes = product(count, data_type.size(), "count")?;
    let receive = base_of(receive.cast(), bytes, "receive")?;
    let send = (!send.is_null()).then_some(send.cast());
    // SAFETY: - the buffers are as long, apart, ours alone while it is active: promised by the caller.
    unsafe { call.begin(&Arguments::IreduceScatterBlock { send, recv: receive, count, data_type, op }) }
}

/// As tocsin_ireduce_scatter, with `count` elements for each rank.
/// Errors: as tocsin_iallreduce.
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
    let call = Call::now(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_ireduce_scatter_block", || unsafe {
        reduce_scatter_block(call, send, receive, count, datatype, op)
    })
}

/// # Safety
/// The header's contract.
pub(crate) unsafe fn scan(
    call: Call,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
) -> Result<(), Failure> {
    let (data_type, op) = (type_of(datatype)?, operator(op)?);
    let bytes = product(count, data_type.size(), "count")?;
    let receive = base_of(receive.cast(), bytes, "receive")?;
    let send = (!send.is_null()).then_some(send.cast());
    // SAFETY: - the buffers are as long, apart, ours alone while it is active: promised by the caller.
    unsafe { call.begin(&Arguments::Iscan { send, recv: receive, count, data_type, op }) }
}

/// Starts a reduction of which rank `i` receives the combination of the ranks 0 to `i`, in that order. With `send` NULL the
/// data is taken from `receive`.
/// Errors: as tocsin_iallreduce.
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
    let call = Call::now(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_iscan", || unsafe { scan(call, send, receive, count, datatype, op) })
}

/// # Safety
/// The header's contract.
pub(crate) unsafe fn exscan(
    call: Call,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
) -> Result<(), Failure> {
    let comm = call.comm()?;
    let (data_type, op) = (type_of(datatype)?, operator(op)?);
    let bytes = product(count, data_type.size(), "count")?;
    let send = (!send.is_null()).then_some(send.cast());
    // Rank 0 receives nothing; in place it reads there.
    let used = if comm.raw.rank() == 0 && send.is_some() { 0 } else { bytes };
    let receive = base_of(receive.cast(), used, "receive")?;
    // SAFETY: - the buffers are as long, apart, ours alone while it is active: promised by the caller.
    unsafe { call.begin(&Arguments::Iexscan { send, recv: receive, count, data_type, op }) }
}

/// As tocsin_iscan, without the rank's own contribution: rank `i` receives that of the ranks 0 to `i` - 1. `receive` of rank
/// 0 stays as it is, and may be NULL unless `send` is.
/// Errors: as tocsin_iallreduce.
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
    let call = Call::now(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_iexscan", || unsafe { exscan(call, send, receive, count, datatype, op) })
}
