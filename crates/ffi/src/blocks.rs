//! Collectives that move blocks. All ranks of the communicator start the same ones in the same order.
//!
//! Blocks of different lengths are given by lists of one entry per rank: their lengths, and their offsets in bytes from
//! the start of the buffer; offsets NULL: one block follows the other. Lists are read during the call only.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;

use tocsin_world::{Arguments, Block};

use crate::border::{Failure, guarded};
use crate::comm::Comm;
use crate::datatype::data_type;
use crate::form::Call;
use crate::pointer::{base_of, product, rank};
use crate::request::Request;

/// The entries of a list of one per rank.
///
/// # Safety
/// `list` is NULL or has `ranks` entries, unchanged during the call.
pub(crate) unsafe fn entries<'a, T>(list: *const T, ranks: usize, name: &str) -> Result<&'a [T], Failure> {
    if list.is_null() {
        return Err(Failure::null(name));
    }
    // SAFETY: - so many entries, not changed meanwhile: promised by the caller.
    Ok(unsafe { std::slice::from_raw_parts(list, ranks) })
}

/// Blocks from lengths and offsets.
///
/// # Safety
/// As [`entries`], for both.
unsafe fn blocks(
    lengths: impl Iterator<Item = Result<usize, Failure>>,
    offsets: *const usize,
    ranks: usize,
) -> Result<Vec<Block>, Failure> {
    // SAFETY: - promised by the caller.
    let offsets = if offsets.is_null() { None } else { Some(unsafe { entries(offsets, ranks, "offsets")? }) };
    let mut next = 0usize;
    lengths
        .enumerate()
        .map(|(rank, bytes)| {
            let bytes = bytes?;
            let offset = offsets.and_then(|all| all.get(rank).copied()).unwrap_or(next);
            next = offset
                .checked_add(bytes)
                .ok_or_else(|| Failure::argument(format!("block {rank}: offset and length overflow")))?;
            Ok(Block::new(offset, bytes))
        })
        .collect()
}

/// Blocks whose lengths are in bytes.
///
/// # Safety
/// As [`entries`], for both.
unsafe fn blocks_of_bytes(
    bytes: *const usize,
    offsets: *const usize,
    ranks: usize,
    name: &str,
) -> Result<Vec<Block>, Failure> {
    // SAFETY: - promised by the caller.
    unsafe { blocks(entries(bytes, ranks, name)?.iter().map(|b| Ok(*b)), offsets, ranks) }
}

/// Blocks of elements of a type each.
///
/// # Safety
/// As [`entries`], for all three.
unsafe fn blocks_of_elements(
    counts: *const usize,
    offsets: *const usize,
    datatypes: *const c_int,
    ranks: usize,
    side: &str,
) -> Result<Vec<Block>, Failure> {
    let (counts_name, types_name) = (format!("{side}_counts"), format!("{side}_datatypes"));
    // SAFETY: - promised by the caller.
    let (counts, types) =
        unsafe { (entries(counts, ranks, &counts_name)?, entries(datatypes, ranks, &types_name)?) };
    let lengths = counts
        .iter()
        .zip(types)
        .map(|(count, datatype)| product(*count, data_type(*datatype)?.size(), &counts_name));
    // SAFETY: - promised by the caller.
    unsafe { blocks(lengths, offsets, ranks) }
}

/// Bytes from the start of the buffer to the end of its last block.
pub(crate) fn reach(blocks: &[Block]) -> usize {
    // One without an end is refused below.
    blocks.iter().filter(|b| b.bytes > 0).map(|b| b.end().unwrap_or(usize::MAX)).max().unwrap_or(0)
}

/// A buffer of one block: NULL at the root asks for the in-place form.
pub(crate) fn single(
    base: *mut u8,
    bytes: usize,
    is_root: bool,
    name: &str,
) -> Result<Option<*mut u8>, Failure> {
    match NonNull::new(base) {
        None if is_root => Ok(None),
        _ => base_of(base, bytes, name).map(Some),
    }
}

/// # Safety
/// The header's contract.
pub(crate) unsafe fn scatter(
    call: Call,
    send: *const c_void,
    receive: *mut c_void,
    bytes_per_rank: usize,
    root: c_int,
) -> Result<(), Failure> {
    let (comm, root) = (call.comm()?, rank(root, "root")?);
    let is_root = comm.raw.rank() == root;
    let mut send: *const u8 = send.cast();
    if is_root {
        let whole = product(bytes_per_rank, comm.raw.size() as usize, "bytes_per_rank")?;
        send = base_of(send.cast_mut(), whole, "send")?;
    }
    let receive = single(receive.cast(), bytes_per_rank, is_root, "receive")?;
    // SAFETY: - the buffers are as long, apart, ours alone while it is active: promised by the caller.
    unsafe { call.begin(&Arguments::Iscatter { send, recv: receive, block: bytes_per_rank, root }) }
}

/// Starts a scatter: the block `i` of the root's `send` goes to rank `i`. Each has `bytes_per_rank` bytes. `send` is used at
/// the root only; with `receive` NULL the root's block stays where it is.
/// Errors: RANK, ALGORITHM, REVOKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_iscatter(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    bytes_per_rank: usize,
    root: c_int,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::now(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_iscatter", || unsafe { scatter(call, send, receive, bytes_per_rank, root) })
}

/// # Safety
/// The header's contract.
pub(crate) unsafe fn scatterv(
    call: Call,
    send: *const c_void,
    send_bytes: *const usize,
    send_offsets: *const usize,
    receive: *mut c_void,
    receive_bytes: usize,
    root: c_int,
) -> Result<(), Failure> {
    // SAFETY: - one entry per rank: the header's contract.
    let blocks = |ranks| unsafe { blocks_of_bytes(send_bytes, send_offsets, ranks, "send_bytes") };
    // SAFETY: - the header's contract.
    unsafe { scatter_blocks(call, send, blocks, receive, receive_bytes, root) }
}

/// [`scatterv`] of what `blocks` makes, at the root only, of lists of so many entries.
///
/// # Safety
/// The header's contract.
pub(crate) unsafe fn scatter_blocks(
    call: Call,
    send: *const c_void,
    blocks: impl FnOnce(usize) -> Result<Vec<Block>, Failure>,
    receive: *mut c_void,
    receive_bytes: usize,
    root: c_int,
) -> Result<(), Failure> {
    let (comm, root) = (call.comm()?, rank(root, "root")?);
    let is_root = comm.raw.rank() == root;
    let (mut send, mut at): (*const u8, _) = (send.cast(), Vec::new());
    if is_root {
        at = blocks(comm.raw.size() as usize)?;
        send = base_of(send.cast_mut(), reach(&at), "send")?;
    }
    let receive = single(receive.cast(), receive_bytes, is_root, "receive")?;
    // SAFETY: - the buffers are as long, apart, ours alone while it is active: promised by the caller.
    unsafe {
        call.begin(&Arguments::Iscatterv { send, blocks: &at, recv: receive, bytes: receive_bytes, root })
    }
}

/// Starts a scatter of blocks of different lengths. `send`, `send_bytes` and `send_offsets` are used at the root only;
/// `receive` has `receive_bytes` bytes. With `receive` NULL the root's block stays where it is.
///
/// Here and below, lists have one entry per rank and are read during the call only: the blocks' lengths, and how many bytes
/// after the start of the buffer each begins; offsets NULL: one follows the other. Received blocks may stand between
/// each other and what is sent, and overlap neither.
/// Errors: RANK, ALGORITHM, REVOKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_iscatterv(
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
    let call = Call::now(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_iscatterv", || unsafe {
        scatterv(call, send, send_bytes, send_offsets, receive, receive_bytes, root)
    })
}

/// # Safety
/// The header's contract.
pub(crate) unsafe fn gather(
    call: Call,
    send: *const c_void,
    receive: *mut c_void,
    bytes_per_rank: usize,
    root: c_int,
) -> Result<(), Failure> {
    let (comm, root) = (call.comm()?, rank(root, "root")?);
    let is_root = comm.raw.rank() == root;
    let mut receive: *mut u8 = receive.cast();
    if is_root {
        let whole = product(bytes_per_rank, comm.raw.size() as usize, "bytes_per_rank")?;
        receive = base_of(receive, whole, "receive")?;
    }
    let send = single(send.cast_mut().cast(), bytes_per_rank, is_root, "send")?.map(<*mut u8>::cast_const);
    // SAFETY: - the buffers are as long, apart, ours alone while it is active: promised by the caller.
    unsafe { call.begin(&Arguments::Igather { send, recv: receive, block: bytes_per_rank, root }) }
}

/// Starts a gather: rank `i`'s `send` becomes block `i` of the root's `receive`. Each has `bytes_per_rank` bytes. `receive` is
/// used at the root only; with `send` NULL the root's block stands there already.
/// Errors: RANK, ALGORITHM, REVOKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_igather(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    bytes_per_rank: usize,
    root: c_int,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::now(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_igather", || unsafe { gather(call, send, receive, bytes_per_rank, root) })
}

/// # Safety
/// The header's contract.
pub(crate) unsafe fn gatherv(
    call: Call,
    send: *const c_void,
    send_bytes: usize,
    receive: *mut c_void,
    receive_bytes: *const usize,
    receive_offsets: *const usize,
    root: c_int,
) -> Result<(), Failure> {
    // SAFETY: - one entry per rank: the header's contract.
    let blocks = |ranks| unsafe { blocks_of_bytes(receive_bytes, receive_offsets, ranks, "receive_bytes") };
    // SAFETY: - the header's contract.
    unsafe { gather_blocks(call, send, send_bytes, receive, blocks, root) }
}

/// [`gatherv`] into what `blocks` makes, at the root only, of lists of so many entries.
///
/// # Safety
/// The header's contract.
pub(crate) unsafe fn gather_blocks(
    call: Call,
    send: *const c_void,
    send_bytes: usize,
    receive: *mut c_void,
    blocks: impl FnOnce(usize) -> Result<Vec<Block>, Failure>,
    root: c_int,
) -> Result<(), Failure> {
    let (comm, root) = (call.comm()?, rank(root, "root")?);
    let is_root = comm.raw.rank() == root;
    let (mut receive, mut at): (*mut u8, _) = (receive.cast(), Vec::new());
    if is_root {
        at = blocks(comm.raw.size() as usize)?;
        receive = base_of(receive, reach(&at), "receive")?;
    }
    let send = single(send.cast_mut().cast(), send_bytes, is_root, "send")?.map(<*mut u8>::cast_const);
    // SAFETY: - the buffers are as long, apart, ours alone while it is active: promised by the caller.
    unsafe { call.begin(&Arguments::Igatherv { send, bytes: send_bytes, recv: receive, blocks: &at, root }) }
}

/// Starts a gather of blocks of different lengths. `send` has `send_bytes` bytes; with `send` NULL the root's block stands in
/// `receive` already. `receive`, `receive_bytes` and `receive_offsets` are used at the root only, and `receive_offsets` may be
/// NULL; what lies between the blocks stays as it is.
/// Errors: RANK, ALGORITHM, REVOKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_igatherv(
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
    let call = Call::now(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_igatherv", || unsafe {
        gatherv(call, send, send_bytes, receive, receive_bytes, receive_offsets, root)
    })
}

/// # Safety
/// The header's contract.
pub(crate) unsafe fn allgather(
    call: Call,
    send: *const c_void,
    receive: *mut c_void,
    bytes_per_rank: usize,
) -> Result<(), Failure> {
    let comm = call.comm()?;
    let whole = product(bytes_per_rank, comm.raw.size() as usize, "bytes_per_rank")?;
    let receive = base_of(receive.cast(), whole, "receive")?;
    let send = (!send.is_null()).then_some(send.cast());
    // SAFETY: - the buffers are as long, apart, ours alone while it is active: promised by the caller.
    unsafe { call.begin(&Arguments::Iallgather { send, recv: receive, block: bytes_per_rank }) }
}

/// Starts an allgather: rank `i`'s `send` becomes block `i` of everybody's `receive`. Each has `bytes_per_rank` bytes. With
/// `send` NULL this rank's block stands in `receive` already; else the buffers do not overlap.
/// Errors: as tocsin_ibarrier.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_iallgather(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    bytes_per_rank: usize,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::now(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_iallgather", || unsafe { allgather(call, send, receive, bytes_per_rank) })
}

/// # Safety
/// The header's contract.
pub(crate) unsafe fn allgatherv(
    call: Call,
    send: *const c_void,
    receive: *mut c_void,
    receive_bytes: *const usize,
    receive_offsets: *const usize,
) -> Result<(), Failure> {
    // SAFETY: - one entry per rank: the header's contract.
    let blocks = |ranks| unsafe { blocks_of_bytes(receive_bytes, receive_offsets, ranks, "receive_bytes") };
    // SAFETY: - the header's contract.
    unsafe { allgather_blocks(call, send, receive, blocks) }
}

/// [`allgatherv`] into what `blocks` makes of lists of so many entries.
///
/// # Safety
/// The header's contract.
pub(crate) unsafe fn allgather_blocks(
    call: Call,
    send: *const c_void,
    receive: *mut c_void,
    blocks: impl FnOnce(usize) -> Result<Vec<Block>, Failure>,
) -> Result<(), Failure> {
    let at = blocks(call.comm()?.raw.size() as usize)?;
    let receive = base_of(receive.cast(), reach(&at), "receive")?;
    let send = (!send.is_null()).then_some(send.cast());
    // SAFETY: - the buffers are as long, apart, ours alone while it is active: promised by the caller.
    unsafe { call.begin(&Arguments::Iallgatherv { send, recv: receive, blocks: &at }) }
}

/// Starts an allgather of blocks of different lengths: `receive_bytes` is the same on all ranks, `receive_offsets` each rank's
/// own business, or NULL. `send` is as long as this rank's block; NULL: it stands in `receive` already.
/// Errors: as tocsin_ibarrier.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_iallgatherv(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    receive_bytes: *const usize,
    receive_offsets: *const usize,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::now(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_iallgatherv", || unsafe {
        allgatherv(call, send, receive, receive_bytes, receive_offsets)
    })
}

/// # Safety
/// The header's contract.
pub(crate) unsafe fn alltoall(
    call: Call,
    send: *const c_void,
    receive: *mut c_void,
    bytes_per_rank: usize,
) -> Result<(), Failure> {
    let comm = call.comm()?;
    let bytes = product(bytes_per_rank, comm.raw.size() as usize, "bytes_per_rank")?;
    let send = Some(base_of(send.cast_mut().cast(), bytes, "send")?.cast_const());
    let receive = base_of(receive.cast(), bytes, "receive")?;
    // SAFETY: - the buffers are as long, apart, ours alone while it is active: promised by the caller.
    unsafe { call.begin(&Arguments::Ialltoall { send, recv: receive, block: bytes_per_rank }) }
}

/// Starts an alltoall: the block `i` of `send` goes to rank `i`, whose block for us arrives as block `i` of `receive`.
/// Each block has `bytes_per_rank` bytes. The buffers do not overlap, or are the same: the data is then taken from there.
/// Errors: as tocsin_ibarrier.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_ialltoall(
    comm: Option<&Comm>,
    send: *const c_void,
    receive: *mut c_void,
    bytes_per_rank: usize,
    algorithm: *const c_char,
    request: Option<&mut *mut Request>,
) -> c_int {
    let call = Call::now(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_ialltoall", || unsafe { alltoall(call, send, receive, bytes_per_rank) })
}

/// # Safety
/// The header's contract.
pub(crate) unsafe fn alltoallv(
    call: Call,
    send: *const c_void,
    send_bytes: *const usize,
    send_offsets: *const usize,
    receive: *mut c_void,
    receive_bytes: *const usize,
    receive_offsets: *const usize,
) -> Result<(), Failure> {
    let comm = call.comm()?;
    let ranks = comm.raw.size() as usize;
    // SAFETY: - one entry per rank: the header's contract.
    let to = unsafe { blocks_of_bytes(receive_bytes, receive_offsets, ranks, "receive_bytes")? };
    let receive = base_of(receive.cast(), reach(&to), "receive")?;
    let mut from = None;
    if !send_bytes.is_null() {
        // SAFETY: - one entry per rank: the header's contract.
        let blocks = unsafe { blocks_of_bytes(send_bytes, send_offsets, ranks, "send_bytes")? };
        from = Some((base_of(send.cast_mut().cast(), reach(&blocks), "send")?.cast_const(), blocks));
    }
    let send = from.as_ref().map(|(base, blocks)| (*base, &blocks[..]));
    // SAFETY: - the buffers are as long, apart, ours alone while it is active: promised by the caller.
    unsafe { call.begin(&Arguments::Ialltoallv { send, recv: receive, blocks: &to }) }
}

/// Starts an alltoall of blocks of different lengths, each as long at its sender as at its receiver. Offsets may be NULL.
/// With `send_bytes` NULL the data is taken from `receive`, each block as long as the one that takes its place.
/// Errors: as tocsin_ibarrier.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_ialltoallv(
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
    let call = Call::now(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_ialltoallv", || unsafe {
        alltoallv(call, send, send_bytes, send_offsets, receive, receive_bytes, receive_offsets)
    })
}

/// # Safety
/// The header's contract.
#[allow(clippy::too_many_arguments, reason = "those of MPI_Ialltoallw")]
pub(crate) unsafe fn alltoallw(
    call: Call,
    send: *const c_void,
    send_counts: *const usize,
    send_offsets: *const usize,
    send_datatypes: *const c_int,
    receive: *mut c_void,
    receive_counts: *const usize,
    receive_offsets: *const usize,
    receive_datatypes: *const c_int,
) -> Result<(), Failure> {
    let comm = call.comm()?;
    let ranks = comm.raw.size() as usize;
    // SAFETY: - one entry per rank: the header's contract.
    let to =
        unsafe { blocks_of_elements(receive_counts, receive_offsets, receive_datatypes, ranks, "receive")? };
    let receive = base_of(receive.cast(), reach(&to), "receive")?;
    let mut from = None;
    if !send_counts.is_null() {
        // SAFETY: - one entry per rank: the header's contract.
        let blocks = unsafe { blocks_of_elements(send_counts, send_offsets, send_datatypes, ranks, "send")? };
        from = Some((base_of(send.cast_mut().cast(), reach(&blocks), "send")?.cast_const(), blocks));
    }
    let send = from.as_ref().map(|(base, blocks)| (*base, &blocks[..]));
    // SAFETY: - the buffers are as long, apart, ours alone while it is active: promised by the caller.
    unsafe { call.begin(&Arguments::Ialltoallw { send, recv: receive, blocks: &to }) }
}

/// As tocsin_ialltoallv, where each block has elements of a type of its own: lengths are counts of elements of
/// `send_datatypes` and `receive_datatypes` (TOCSIN_INT8 ... or from tocsin_type_opaque), offsets are in bytes. With
/// `send_counts` NULL the data is taken from `receive`.
/// Errors: OPERATOR for what is no element type, ALGORITHM, REVOKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_ialltoallw(
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
    let call = Call::now(comm, algorithm, request);
    // SAFETY: - the header's contract.
    guarded("tocsin_ialltoallw", || unsafe {
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
