//! Blocking collectives: started and waited for in one call.

use std::ffi::{c_char, c_int, c_void};

use crate::blocks::{
    allgather, allgatherv, alltoall, alltoallv, alltoallw, gather, gatherv, scatter, scatterv,
};
use crate::border::guarded;
use crate::collectives::{barrier, bcast};
use crate::comm::Comm;
use crate::form::Call;
use crate::reductions::{allreduce, exscan, reduce, reduce_scatter, reduce_scatter_block, scan};
use crate::strided::{Strided, allgatherv_strided, alltoallw_strided, gatherv_strided, scatterv_strided};

/// A barrier, and the wait for it: arguments as those of tocsin_ibarrier, but for the request.
///
/// Here and below, the call returns when this rank's part is over, with the operation's own error; the buffers are then the
/// caller's again. All ranks of the communicator call it, in the same order among their other collectives: one that starts it
/// and waits later, or has prepared it, is as good. Not in a callback.
/// Errors: as tocsin_ibarrier, and those that a collective ends with (tocsin_wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_barrier(comm: Option<&Comm>, algorithm: *const c_char) -> c_int {
    let call = Call::blocking(comm, algorithm);
    // SAFETY: - the header's contract.
    guarded("tocsin_barrier", || unsafe { barrier(call) })
}

/// A broadcast, and the wait for it: arguments as those of tocsin_ibcast, but for the request.
/// Errors: as tocsin_ibcast, and those that a collective ends with (tocsin_wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_bcast(
    comm: Option<&Comm>,
    buffer: *mut c_void,
    bytes: usize,
    root: c_int,
    algorithm: *const c_char,
) -> c_int {
    let call = Call::blocking(comm, algorithm);
    // SAFETY: - the header's contract.
    guarded("tocsin_bcast", || unsafe { bcast(call, buffer, bytes, root) })
}

/// A scatter, and the wait for it: arguments as those of tocsin_iscatter, but for the request.
/// Errors: as tocsin_iscatter, and those that a collective ends with (tocsin_wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_scatter(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    bytes_per_rank: usize,
    root: c_int,
    algorithm: *const c_char,
) -> c_int {
    let call = Call::blocking(comm, algorithm);
    // SAFETY: - the header's contract.
    guarded("tocsin_scatter", || unsafe { scatter(call, send, receive, bytes_per_rank, root) })
}

/// A scatter of blocks of different lengths, and the wait for it: arguments as those of tocsin_iscatterv, but for the request.
/// Errors: as tocsin_iscatterv, and those that a collective ends with (tocsin_wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_scatterv(
    comm: Option<&Comm>,
    send: *const c_void,
    send_bytes: *const usize,
    send_offsets: *const usize,
    receive: *mut c_void,
    receive_bytes: usize,
    root: c_int,
    algorithm: *const c_char,
) -> c_int {
    let call = Call::blocking(comm, algorithm);
    // SAFETY: - the header's contract.
    guarded("tocsin_scatterv", || unsafe {
        scatterv(call, send, send_bytes, send_offsets, receive, receive_bytes, root)
    })
}

/// A gather, and the wait for it: arguments as those of tocsin_igather, but for the request.
/// Errors: as tocsin_igather, and those that a collective ends with (tocsin_wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_gather(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    bytes_per_rank: usize,
    root: c_int,
    algorithm: *const c_char,
) -> c_int {
    let call = Call::blocking(comm, algorithm);
    // SAFETY: - the header's contract.
    guarded("tocsin_gather", || unsafe { gather(call, send, receive, bytes_per_rank, root) })
}

/// A gather of blocks of different lengths, and the wait for it: arguments as those of tocsin_igatherv, but for the request.
/// Errors: as tocsin_igatherv, and those that a collective ends with (tocsin_wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_gatherv(
    comm: Option<&Comm>,
    send: *const c_void,
    send_bytes: usize,
    receive: *mut c_void,
    receive_bytes: *const usize,
    receive_offsets: *const usize,
    root: c_int,
    algorithm: *const c_char,
) -> c_int {
    let call = Call::blocking(comm, algorithm);
    // SAFETY: - the header's contract.
    guarded("tocsin_gatherv", || unsafe {
        gatherv(call, send, send_bytes, receive, receive_bytes, receive_offsets, root)
    })
}

/// An allgather, and the wait for it: arguments as those of tocsin_iallgather, but for the request.
/// Errors: as tocsin_iallgather, and those that a collective ends with (tocsin_wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_allgather(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    bytes_per_rank: usize,
    algorithm: *const c_char,
) -> c_int {
    let call = Call::blocking(comm, algorithm);
    // SAFETY: - the header's contract.
    guarded("tocsin_allgather", || unsafe { allgather(call, send, receive, bytes_per_rank) })
}

/// An allgather of blocks of different lengths, and the wait for it: arguments as those of tocsin_iallgatherv, but for the request.
/// Errors: as tocsin_iallgatherv, and those that a collective ends with (tocsin_wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_allgatherv(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    receive_bytes: *const usize,
    receive_offsets: *const usize,
    algorithm: *const c_char,
) -> c_int {
    let call = Call::blocking(comm, algorithm);
    // SAFETY: - the header's contract.
    guarded("tocsin_allgatherv", || unsafe {
        allgatherv(call, send, receive, receive_bytes, receive_offsets)
    })
}

/// An alltoall, and the wait for it: arguments as those of tocsin_ialltoall, but for the request.
/// Errors: as tocsin_ialltoall, and those that a collective ends with (tocsin_wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_alltoall(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    bytes_per_rank: usize,
    algorithm: *const c_char,
) -> c_int {
    let call = Call::blocking(comm, algorithm);
    // SAFETY: - the header's contract.
    guarded("tocsin_alltoall", || unsafe { alltoall(call, send, receive, bytes_per_rank) })
}

/// An alltoall of blocks of different lengths, and the wait for it: arguments as those of tocsin_ialltoallv, but for the request.
/// Errors: as tocsin_ialltoallv, and those that a collective ends with (tocsin_wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_alltoallv(
    comm: Option<&Comm>,
    send: *const c_void,
    send_bytes: *const usize,
    send_offsets: *const usize,
    receive: *mut c_void,
    receive_bytes: *const usize,
    receive_offsets: *const usize,
    algorithm: *const c_char,
) -> c_int {
    let call = Call::blocking(comm, algorithm);
    // SAFETY: - the header's contract.
    guarded("tocsin_alltoallv", || unsafe {
        alltoallv(call, send, send_bytes, send_offsets, receive, receive_bytes, receive_offsets)
    })
}

/// An alltoall of blocks that differ in type too, and the wait for it: arguments as those of tocsin_ialltoallw, but for the request.
/// Errors: as tocsin_ialltoallw, and those that a collective ends with (tocsin_wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_alltoallw(
    comm: Option<&Comm>,
    send: *const c_void,
    send_counts: *const usize,
    send_offsets: *const usize,
    send_datatypes: *const c_int,
    receive: *mut c_void,
    receive_counts: *const usize,
    receive_offsets: *const usize,
    receive_datatypes: *const c_int,
    algorithm: *const c_char,
) -> c_int {
    let call = Call::blocking(comm, algorithm);
    // SAFETY: - the header's contract.
    guarded("tocsin_alltoallw", || unsafe {
        alltoallw(
            call,
            send,
            send_counts,
            send_offsets,
            send_datatypes,
            receive,
            receive_counts,
            receive_offsets,
            receive_datatypes,
        )
    })
}

/// A reduction, and the wait for it: arguments as those of tocsin_ireduce, but for the request.
/// Errors: as tocsin_ireduce, and those that a collective ends with (tocsin_wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_reduce(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    root: c_int,
    algorithm: *const c_char,
) -> c_int {
    let call = Call::blocking(comm, algorithm);
    // SAFETY: - the header's contract.
    guarded("tocsin_reduce", || unsafe { reduce(call, send, receive, count, datatype, op, root) })
}

/// An allreduce, and the wait for it: arguments as those of tocsin_iallreduce, but for the request.
/// Errors: as tocsin_iallreduce, and those that a collective ends with (tocsin_wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_allreduce(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    algorithm: *const c_char,
) -> c_int {
    let call = Call::blocking(comm, algorithm);
    // SAFETY: - the header's contract.
    guarded("tocsin_allreduce", || unsafe { allreduce(call, send, receive, count, datatype, op) })
}

/// A reduction of which each rank receives a part, and the wait for it: arguments as those of tocsin_ireduce_scatter, but for the request.
/// Errors: as tocsin_ireduce_scatter, and those that a collective ends with (tocsin_wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_reduce_scatter(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    counts: *const usize,
    datatype: c_int,
    op: c_int,
    algorithm: *const c_char,
) -> c_int {
    let call = Call::blocking(comm, algorithm);
    // SAFETY: - the header's contract.
    guarded("tocsin_reduce_scatter", || unsafe { reduce_scatter(call, send, receive, counts, datatype, op) })
}

/// A reduction of which each rank receives a part of the same length, and the wait for it: arguments as those of tocsin_ireduce_scatter_block, but for the request.
/// Errors: as tocsin_ireduce_scatter_block, and those that a collective ends with (tocsin_wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_reduce_scatter_block(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    algorithm: *const c_char,
) -> c_int {
    let call = Call::blocking(comm, algorithm);
    // SAFETY: - the header's contract.
    guarded("tocsin_reduce_scatter_block", || unsafe {
        reduce_scatter_block(call, send, receive, count, datatype, op)
    })
}

/// A reduction of the ranks up to each rank, and the wait for it: arguments as those of tocsin_iscan, but for the request.
/// Errors: as tocsin_iscan, and those that a collective ends with (tocsin_wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_scan(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    algorithm: *const c_char,
) -> c_int {
    let call = Call::blocking(comm, algorithm);
    // SAFETY: - the header's contract.
    guarded("tocsin_scan", || unsafe { scan(call, send, receive, count, datatype, op) })
}

/// A reduction of the ranks before each rank, and the wait for it: arguments as those of tocsin_iexscan, but for the request.
/// Errors: as tocsin_iexscan, and those that a collective ends with (tocsin_wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_exscan(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    algorithm: *const c_char,
) -> c_int {
    let call = Call::blocking(comm, algorithm);
    // SAFETY: - the header's contract.
    guarded("tocsin_exscan", || unsafe { exscan(call, send, receive, count, datatype, op) })
}

/// A scatter of blocks in pieces, and the wait for it: arguments as those of tocsin_iscatterv_strided, but for the request.
/// Errors: as tocsin_iscatterv_strided, and those that a collective ends with (tocsin_wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_scatterv_strided(
    comm: Option<&Comm>,
    send: *const c_void,
    send_blocks: *const Strided,
    receive: *mut c_void,
    receive_bytes: usize,
    root: c_int,
    algorithm: *const c_char,
) -> c_int {
    let call = Call::blocking(comm, algorithm);
    // SAFETY: - the header's contract.
    guarded("tocsin_scatterv_strided", || unsafe {
        scatterv_strided(call, send, send_blocks, receive, receive_bytes, root)
    })
}

/// A gather of blocks in pieces, and the wait for it: arguments as those of tocsin_igatherv_strided, but for the request.
/// Errors: as tocsin_igatherv_strided, and those that a collective ends with (tocsin_wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_gatherv_strided(
    comm: Option<&Comm>,
    send: *const c_void,
    send_bytes: usize,
    receive: *mut c_void,
    receive_blocks: *const Strided,
    root: c_int,
    algorithm: *const c_char,
) -> c_int {
    let call = Call::blocking(comm, algorithm);
    // SAFETY: - the header's contract.
    guarded("tocsin_gatherv_strided", || unsafe {
        gatherv_strided(call, send, send_bytes, receive, receive_blocks, root)
    })
}

/// An allgather of blocks in pieces, and the wait for it: arguments as those of tocsin_iallgatherv_strided, but for the request.
/// Errors: as tocsin_iallgatherv_strided, and those that a collective ends with (tocsin_wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_allgatherv_strided(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    receive_blocks: *const Strided,
    algorithm: *const c_char,
) -> c_int {
    let call = Call::blocking(comm, algorithm);
    // SAFETY: - the header's contract.
    guarded("tocsin_allgatherv_strided", || unsafe {
        allgatherv_strided(call, send, receive, receive_blocks)
    })
}

/// An alltoall of blocks in pieces, and the wait for it: arguments as those of tocsin_ialltoallw_strided, but for the request.
/// Errors: as tocsin_ialltoallw_strided, and those that a collective ends with (tocsin_wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_alltoallw_strided(
    comm: Option<&Comm>,
    send: *const c_void,
    send_blocks: *const Strided,
    receive: *mut c_void,
    receive_blocks: *const Strided,
    algorithm: *const c_char,
) -> c_int {
    let call = Call::blocking(comm, algorithm);
    // SAFETY: - the header's contract.
    guarded("tocsin_alltoallw_strided", || unsafe {
        alltoallw_strided(call, send, send_blocks, receive, receive_blocks)
    })
}
