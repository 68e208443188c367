//! The exchange of blocks in pieces at equal distances, at once or prepared.

use std::ffi::{c_char, c_int, c_void};

use tocsin_world::{Arguments, Block};

use crate::blocks::{entries, reach};
use crate::border::{Failure, guarded};
use crate::comm::Comm;
use crate::form::{Call, Form};
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

/// As tocsin_ialltoallw, of blocks in pieces: the lists have one entry per rank and are read during the call only. A block is
/// as long at its sender as at its receiver, whatever pieces it has there; one of no bytes is not sent. Pieces of received
/// blocks may stand between each other, and do not overlap. What has pieces is packed and unpacked through memory of the
/// request. With `send_blocks` NULL the data is taken from `receive`.
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
    let call = Call { form: Form::Now, comm, algorithm, request };
    // SAFETY: - the header's contract.
    guarded("tocsin_ialltoallw_strided", || unsafe {
        alltoallw_strided(call, send, send_blocks, receive, receive_blocks)
    })
}

/// Prepares an alltoall of blocks in pieces: arguments as those of tocsin_ialltoallw_strided.
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
    let call = Call { form: Form::Persistent, comm, algorithm, request };
    // SAFETY: - the header's contract.
    guarded("tocsin_alltoallw_strided_init", || unsafe {
        alltoallw_strided(call, send, send_blocks, receive, receive_blocks)
    })
}
