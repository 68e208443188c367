//! Collectives that move blocks in pieces at equal distances, at once or prepared.

use std::ffi::{c_char, c_int, c_void};

use tocsin_world::{Arguments, Block};

use crate::blocks::{allgather_blocks, entries, gather_blocks, reach, scatter_blocks};
use crate::border::{Failure, guarded};
use crate::comm::Comm;
use crate::form::Call;
use crate::pointer::{base_of, product};
use crate::request::Request;

/// A block of `count` pieces of `length` bytes each, whose starts lie `stride` bytes apart, the first of them `offset` bytes
/// after the start of the buffer: MPI_Type_vector. `stride` is at least `length`; one run of bytes is one piece.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Strided {
    pub offset: usize,
    pub count: usize,
    pub length: usize,
    pub stride: usize,
}

/// Blocks as the library takes them.
///
/// # Safety
/// As [`entries`].
unsafe fn blocks(list: *const Strided, ranks: usize, name: &str) -> Result<Vec<Block>, Failure> {
    // SAFETY: - promised by the caller.
    let list = unsafe { entries(list, ranks, name)? };
    let block = |of: &Strided| {
        product(of.count, of.length, name)?;
        Ok(Block::strided(of.offset, of.count, of.length, of.stride))
    };
    list.iter().map(block).collect()
}

/// # Safety
/// The header's contract.
pub(crate) unsafe fn scatterv_strided(
    call: Call,
    send: *const c_void,
    send_blocks: *const Strided,
    receive: *mut c_void,
    receive_bytes: usize,
    root: c_int,
) -> Result<(), Failure> {
    // SAFETY: - one entry per rank: the header's contract.
    let blocks = |ranks| unsafe { blocks(send_blocks, ranks, "send_blocks") };
    // SAFETY: - the header's contract.
    unsafe { scatter_blocks(call, send, blocks, receive, receive_bytes, root) }
}

/// # Safety
/// The header's contract.
pub(crate) unsafe fn gatherv_strided(
    call: Call,
    send: *const c_void,
    send_bytes: usize,
    receive: *mut c_void,
    receive_blocks: *const Strided,
    root: c_int,
) -> Result<(), Failure> {
    // SAFETY: - one entry per rank: the header's contract.
    let blocks = |ranks| unsafe { blocks(receive_blocks, ranks, "receive_blocks") };
    // SAFETY: - the header's contract.
    unsafe { gather_blocks(call, send, send_bytes, receive, blocks, root) }
}

/// # Safety
/// The header's contract.
pub(crate) unsafe fn allgatherv_strided(
    call: Call,
    send: *const c_void,
    receive: *mut c_void,
    receive_blocks: *const Strided,
) -> Result<(), Failure> {
    // SAFETY: - one entry per rank: the header's contract.
    let blocks = |ranks| unsafe { blocks(receive_blocks, ranks, "receive_blocks") };
    // SAFETY: - the header's contract.
    unsafe { allgather_blocks(call, send, receive, blocks) }
}

/// # Safety
/// The header's contract.
pub(crate) unsafe fn alltoallw_strided(
    call: Call,
    send: *const c_void,
    send_blocks: *const Strided,
    receive: *mut c_void,
    receive_blocks: *const Strided,
) -> Result<(), Failure> {
    let ranks = call.comm()?.raw.size() as usize;
    // SAFETY: - one entry per rank: the header's contract.
    let to = unsafe { blocks(receive_blocks, ranks, "receive_blocks")? };
    let receive = base_of(receive.cast(), reach(&to), "receive")?;
    let mut from = None;
    if !send_blocks.is_null() {
        // SAFETY: - one entry per rank: the header's contract.
        let blocks = unsafe { blocks(send_blocks, ranks, "send_blocks")? };
        from = Some((base_of(send.cast_mut().cast(), reach(&blocks), "send")?.cast_const(), blocks));
    }
    let send = from.as_ref().map(|(base, blocks)| (*base, &blocks[..]));
    // SAFETY: - the buffers are as long, apart, ours alone while it is active: promised by the caller.
    unsafe { call.begin(&Arguments::Ialltoallw { send, recv: receive, blocks: &to }) }
}

/// As tocsin_iscatterv, of blocks in pieces in `send`: the list, used at the root only, has one entry per rank and is read during the call
/// only. `receive` is one run of `receive_bytes` bytes. What has pieces is packed through memory of the request.
/// Errors: as tocsin_iscatterv.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_iscatterv_strided(
    comm: Option<&Comm>,
    send: *const c_void,
    send_blocks: *const Strided,
    receive: *mut c_void,
    receive_bytes: usize,
    root: c_int,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::now(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_iscatterv_strided", || unsafe {
        scatterv_strided(call, send, send_blocks, receive, receive_bytes, root)
    })
}

/// Prepares a scatter of blocks in pieces: arguments as those of tocsin_iscatterv_strided.
/// Errors: as tocsin_iscatterv_strided.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_scatterv_strided_init(
    comm: Option<&Comm>,
    send: *const c_void,
    send_blocks: *const Strided,
    receive: *mut c_void,
    receive_bytes: usize,
    root: c_int,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::persistent(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_scatterv_strided_init", || unsafe {
        scatterv_strided(call, send, send_blocks, receive, receive_bytes, root)
    })
}

/// As tocsin_igatherv, into blocks in pieces of `receive`, which do not overlap: the list, used at the root only, has one entry per rank and is
/// read during the call only. `send` is one run of `send_bytes` bytes. What has pieces is unpacked through memory of the request.
/// Errors: as tocsin_igatherv.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_igatherv_strided(
    comm: Option<&Comm>,
    send: *const c_void,
    send_bytes: usize,
    receive: *mut c_void,
    receive_blocks: *const Strided,
    root: c_int,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::now(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_igatherv_strided", || unsafe {
        gatherv_strided(call, send, send_bytes, receive, receive_blocks, root)
    })
}

/// Prepares a gather of blocks in pieces: arguments as those of tocsin_igatherv_strided.
/// Errors: as tocsin_igatherv_strided.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_gatherv_strided_init(
    comm: Option<&Comm>,
    send: *const c_void,
    send_bytes: usize,
    receive: *mut c_void,
    receive_blocks: *const Strided,
    root: c_int,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::persistent(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_gatherv_strided_init", || unsafe {
        gatherv_strided(call, send, send_bytes, receive, receive_blocks, root)
    })
}

/// As tocsin_iallgatherv, into blocks in pieces of `receive`, which do not overlap: the list has one entry per rank, is read during the call
/// only, and may have other pieces on each rank, where blocks are as long on all. `send` is one run of bytes; NULL: this rank's block stands
/// in `receive` already. What has pieces is packed and unpacked through memory of the request.
/// Errors: as tocsin_ibarrier.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_iallgatherv_strided(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    receive_blocks: *const Strided,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::now(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_iallgatherv_strided", || unsafe {
        allgatherv_strided(call, send, receive, receive_blocks)
    })
}

/// Prepares an allgather of blocks in pieces: arguments as those of tocsin_iallgatherv_strided.
/// Errors: as tocsin_iallgatherv_strided.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_allgatherv_strided_init(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    receive_blocks: *const Strided,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::persistent(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_allgatherv_strided_init", || unsafe {
        allgatherv_strided(call, send, receive, receive_blocks)
    })
}

/// As tocsin_ialltoallw, of blocks in pieces: the lists have one entry per rank and are read during the call only. A block is
/// as long at its sender as at its receiver, whatever pieces it has there; one of no bytes is not sent. Pieces of received
/// blocks may stand between each other, and do not overlap. What has pieces is packed and unpacked through memory of the
/// request. With `send_blocks` NULL the data is taken from `receive`.
/// Errors: as tocsin_ibarrier.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_ialltoallw_strided(
    comm: Option<&Comm>,
    send: *const c_void,
    send_blocks: *const Strided,
    receive: *mut c_void,
    receive_blocks: *const Strided,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::now(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_ialltoallw_strided", || unsafe {
        alltoallw_strided(call, send, send_blocks, receive, receive_blocks)
    })
}

/// Prepares an alltoall of blocks in pieces: arguments as those of tocsin_ialltoallw_strided.
/// Errors: as tocsin_ialltoallw_strided.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_alltoallw_strided_init(
    comm: Option<&Comm>,
    send: *const c_void,
    send_blocks: *const Strided,
    receive: *mut c_void,
    receive_blocks: *const Strided,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::persistent(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_alltoallw_strided_init", || unsafe {
        alltoallw_strided(call, send, send_blocks, receive, receive_blocks)
    })
}
