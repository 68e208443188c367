//! Persistent requests, and collectives that are: prepared once, started as often as one likes.

use std::ffi::{c_char, c_int, c_void};

use crate::blocks::{
    allgather, allgatherv, alltoall, alltoallv, alltoallw, gather, gatherv, scatter, scatterv,
};
use crate::border::{Failure, guarded};
use crate::collectives::{barrier, bcast};
use crate::comm::Comm;
use crate::form::Call;
use crate::reductions::{allreduce, exscan, reduce, reduce_scatter, reduce_scatter_block, scan};
use crate::request::{Request, array, with};

/// Starts a persistent request once more: a collective as the next one of its communicator, which every rank starts, in the
/// same order among the others; a message as tocsin_isend, tocsin_issend or tocsin_irecv does. It is active then, until
/// tocsin_wait or tocsin_test gives its outcome. Where the start fails, it is as it was. That of a collective allocates
/// nothing, and asks the system only to ring a peer. Excepted are what a peer has done after the preparation, once: that it
/// joined, that it is the first to share memory of the heap, that it made its pipe to this rank (TOCSIN_LMT=vmsplice); and
/// what any pass of progress does on its way out: it may set the timer, have the kernel make the single copy of a long
/// message, and run callbacks. TOCSIN_ERROR_ARGUMENT for one that is active or not persistent.
/// Errors: ARGUMENT as said, REVOKED; of a message, PEER_DEAD, PEER_FINALIZED and PROTOCOL, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_start(request: *mut Request) -> c_int {
    guarded("tocsin_start", || {
        // SAFETY: - NULL or a live handle, used by this thread only; the buffers are as long, apart, ours alone while it is active: the header's contract.
        Ok(unsafe { with(request, |request| request.start())? }?)
    })
}

/// Starts `count` persistent requests, in the order of the array, none of which may be NULL: that is an error here. The
/// first that fails ends it: those before it are started, it and those after it are as they were.
/// Errors: as tocsin_start; ARGUMENT also for a request that is in the array twice.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_startall(count: usize, requests: *mut *mut Request) -> c_int {
    guarded("tocsin_startall", || {
        // SAFETY: - the header's contract.
        for handle in unsafe { array(count, requests)? } {
            if handle.is_null() {
                return Err(Failure::null("a request"));
            }
            // SAFETY: - a live handle, used by this thread only: the header's contract; each once: just checked. The buffers: as in tocsin_start.
            unsafe { with(*handle, |request| request.start())? }?;
        }
        Ok(())
    })
}

/// Prepares a barrier: arguments as those of tocsin_ibarrier.
///
/// Here and below, preparing concerns no other rank, reads lists during the call only and leaves the buffers alone: they
/// belong to the library while the request is active, and have to stay where they are until it is freed. The request is
/// persistent: tocsin_start starts it, tocsin_wait, tocsin_test and the like wait for it and leave it, inactive, in its
/// place, to be started again; tocsin_request_free frees it.
/// Errors: as tocsin_ibarrier.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_barrier_init(
    comm: Option<&Comm>,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::persistent(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_barrier_init", || unsafe { barrier(call) })
}

/// Prepares a broadcast: arguments as those of tocsin_ibcast.
/// Errors: as tocsin_ibcast.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_bcast_init(
    comm: Option<&Comm>,
    buffer: *mut c_void,
    bytes: usize,
    root: c_int,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::persistent(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_bcast_init", || unsafe { bcast(call, buffer, bytes, root) })
}

/// Prepares a scatter: arguments as those of tocsin_iscatter.
/// Errors: as tocsin_iscatter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_scatter_init(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    bytes_per_rank: usize,
    root: c_int,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::persistent(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_scatter_init", || unsafe { scatter(call, send, receive, bytes_per_rank, root) })
}

/// Prepares a scatter of blocks of different lengths: arguments as those of tocsin_iscatterv.
/// Errors: as tocsin_iscatterv.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_scatterv_init(
    comm: Option<&Comm>,
    send: *const c_void,
    send_bytes: *const usize,
    send_offsets: *const usize,
    receive: *mut c_void,
    receive_bytes: usize,
    root: c_int,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::persistent(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_scatterv_init", || unsafe {
        scatterv(call, send, send_bytes, send_offsets, receive, receive_bytes, root)
    })
}

/// Prepares a gather: arguments as those of tocsin_igather.
/// Errors: as tocsin_igather.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_gather_init(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    bytes_per_rank: usize,
    root: c_int,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::persistent(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_gather_init", || unsafe { gather(call, send, receive, bytes_per_rank, root) })
}

/// Prepares a gather of blocks of different lengths: arguments as those of tocsin_igatherv.
/// Errors: as tocsin_igatherv.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_gatherv_init(
    comm: Option<&Comm>,
    send: *const c_void,
    send_bytes: usize,
    receive: *mut c_void,
    receive_bytes: *const usize,
    receive_offsets: *const usize,
    root: c_int,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::persistent(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_gatherv_init", || unsafe {
        gatherv(call, send, send_bytes, receive, receive_bytes, receive_offsets, root)
    })
}

/// Prepares an allgather: arguments as those of tocsin_iallgather.
/// Errors: as tocsin_iallgather.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_allgather_init(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    bytes_per_rank: usize,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::persistent(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_allgather_init", || unsafe { allgather(call, send, receive, bytes_per_rank) })
}

/// Prepares an allgather of blocks of different lengths: arguments as those of tocsin_iallgatherv.
/// Errors: as tocsin_iallgatherv.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_allgatherv_init(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    receive_bytes: *const usize,
    receive_offsets: *const usize,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::persistent(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_allgatherv_init", || unsafe {
        allgatherv(call, send, receive, receive_bytes, receive_offsets)
    })
}

/// Prepares an alltoall: arguments as those of tocsin_ialltoall.
/// Errors: as tocsin_ialltoall.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_alltoall_init(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    bytes_per_rank: usize,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::persistent(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_alltoall_init", || unsafe { alltoall(call, send, receive, bytes_per_rank) })
}

/// Prepares an alltoall of blocks of different lengths: arguments as those of tocsin_ialltoallv.
/// Errors: as tocsin_ialltoallv.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_alltoallv_init(
    comm: Option<&Comm>,
    send: *const c_void,
    send_bytes: *const usize,
    send_offsets: *const usize,
    receive: *mut c_void,
    receive_bytes: *const usize,
    receive_offsets: *const usize,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::persistent(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_alltoallv_init", || unsafe {
        alltoallv(call, send, send_bytes, send_offsets, receive, receive_bytes, receive_offsets)
    })
}

/// Prepares an alltoall of blocks that differ in type too: arguments as those of tocsin_ialltoallw.
/// Errors: as tocsin_ialltoallw.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_alltoallw_init(
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
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::persistent(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_alltoallw_init", || unsafe {
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

/// Prepares a reduction: arguments as those of tocsin_ireduce.
/// Errors: as tocsin_ireduce.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_reduce_init(
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
    let call = Call::persistent(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_reduce_init", || unsafe { reduce(call, send, receive, count, datatype, op, root) })
}

/// Prepares an allreduce: arguments as those of tocsin_iallreduce.
/// Errors: as tocsin_iallreduce.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_allreduce_init(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::persistent(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_allreduce_init", || unsafe { allreduce(call, send, receive, count, datatype, op) })
}

/// Prepares a reduction of which each rank receives a part: arguments as those of tocsin_ireduce_scatter.
/// Errors: as tocsin_ireduce_scatter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_reduce_scatter_init(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    counts: *const usize,
    datatype: c_int,
    op: c_int,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::persistent(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_reduce_scatter_init", || unsafe {
        reduce_scatter(call, send, receive, counts, datatype, op)
    })
}

/// Prepares a reduction of which each rank receives a part of the same length: arguments as those of tocsin_ireduce_scatter_block.
/// Errors: as tocsin_ireduce_scatter_block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_reduce_scatter_block_init(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::persistent(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_reduce_scatter_block_init", || unsafe {
        reduce_scatter_block(call, send, receive, count, datatype, op)
    })
}

/// Prepares a reduction of the ranks up to each rank: arguments as those of tocsin_iscan.
/// Errors: as tocsin_iscan.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_scan_init(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::persistent(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_scan_init", || unsafe { scan(call, send, receive, count, datatype, op) })
}

/// Prepares a reduction of the ranks before each rank: arguments as those of tocsin_iexscan.
/// Errors: as tocsin_iexscan.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_exscan_init(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    datatype: c_int,
    op: c_int,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::persistent(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_exscan_init", || unsafe { exscan(call, send, receive, count, datatype, op) })
}
