//! Point to point: isend, issend, irecv, sendrecv, sendrecv_replace, probes.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use tocsin_world::{Mode, PROC_NULL, RawRequest};

use crate::border::{Failure, guarded};
use crate::comm::Comm;
use crate::over;
use crate::pointer::{give, given, place, rank, readable, take, writable, write};
use crate::request::{Request, Status, cleared, start, start_in};

/// Receive from whichever rank.
/// When all other ranks of the communicator have left, such a receive or probe meets what this rank has sent itself before; if there is no such message it is refused (PEER_FINALIZED).
pub const TOCSIN_ANY_SOURCE: c_int = -1;
/// A rank that is none, as the neighbour beyond the edge of a grid: what is sent to it is sent at once and goes nowhere; a receive from it is complete at once, leaves its buffer as it is, and has
/// a status with this source, tag -1 and 0 bytes; a probe finds that. In point-to-point calls only, those of tocsin_send_init and tocsin_recv_init too; no collective has it as its root.
pub const TOCSIN_PROC_NULL: c_int = -1000;
const _: () = assert!(TOCSIN_PROC_NULL == PROC_NULL.cast_signed());
/// Receive whichever tag.
pub const TOCSIN_ANY_TAG: c_int = -1;

/// A message that a probe took out of matching.
pub struct Message {
    comm: tocsin_world::Comm,
    raw: tocsin_world::Message,
}

pub(crate) fn source_of(value: c_int) -> Result<Option<u32>, Failure> {
    if value == TOCSIN_ANY_SOURCE { Ok(None) } else { peer(value, "source").map(Some) }
}

/// The other side of a message, which may be none.
pub(crate) fn peer(value: c_int, name: &str) -> Result<u32, Failure> {
    if value == TOCSIN_PROC_NULL { Ok(PROC_NULL) } else { rank(value, name) }
}

pub(crate) fn tag_of(value: c_int) -> Option<i32> {
    // Other negative tags are refused below, with a message.
    (value != TOCSIN_ANY_TAG).then_some(value)
}

unsafe fn isend(
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
    let request = place(request, "request")?;
    // SAFETY: - readable and unchanged until completion: the header's contract.
    if let Some(sent) = unsafe { comm.raw.isend_raw_at_once(&buffer, dest, tag, mode) } {
        *request = over::handle_of(&sent).unwrap_or_else(|| Request::give(RawRequest::sent(sent)));
        return Ok(());
    }
    // SAFETY: - as above.
    start(Some(request), || Ok(unsafe { comm.raw.isend_raw_later(buffer, dest, tag, mode) }?))
}

/// Starts to send `bytes` bytes to a rank. Complete when the buffer may be used again.
/// Errors: RANK, TAG, PEER_DEAD, PEER_FINALIZED, REVOKED, PROTOCOL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_isend(
    comm: Option<&Comm>,
    buffer: *const c_void,
    bytes: usize,
    dest: c_int,
    tag: c_int,
    request: Option<&mut *mut Request>,
) -> c_int {
    let request = cleared(request);
    // SAFETY: - passed on from our caller.
    guarded("tocsin_isend", || unsafe { isend(comm, buffer, bytes, dest, tag, Mode::Standard, request) })
}

/// As tocsin_isend, but complete only when the receiver has matched the message.
/// Errors: as tocsin_isend.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_issend(
    comm: Option<&Comm>,
    buffer: *const c_void,
    bytes: usize,
    dest: c_int,
    tag: c_int,
    request: Option<&mut *mut Request>,
) -> c_int {
    let request = cleared(request);
    // SAFETY: - passed on from our caller.
    guarded("tocsin_issend", || unsafe { isend(comm, buffer, bytes, dest, tag, Mode::Synchronous, request) })
}

/// Starts to receive at most `bytes` bytes from a rank or TOCSIN_ANY_SOURCE, with a tag or TOCSIN_ANY_TAG. A longer
/// message is TOCSIN_ERROR_TRUNCATED.
/// Errors: RANK, TAG, PEER_DEAD, PEER_FINALIZED, REVOKED, PROTOCOL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_irecv(
    comm: Option<&Comm>,
    buffer: *mut c_void,
    bytes: usize,
    source: c_int,
    tag: c_int,
    request: Option<&mut *mut Request>,
) -> c_int {
    let request = cleared(request);
    guarded("tocsin_irecv", || {
        let comm = given(comm, "comm")?;
        let buffer = writable(buffer.cast(), bytes, "buffer")?;
        let source = source_of(source)?;
        // SAFETY: - writable and ours alone until completion: the header's contract.
        start_in(request, |place| Ok(unsafe { comm.raw.irecv_raw_in(place, buffer, source, tag_of(tag)) }?))
    })
}

/// Sends `bytes` bytes to a rank and waits until the buffer may be used again.
/// Errors: as tocsin_isend, and those that a send ends with (tocsin_wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_send(
    comm: Option<&Comm>,
    buffer: *const c_void,
    bytes: usize,
    dest: c_int,
    tag: c_int,
) -> c_int {
    guarded("tocsin_send", || {
        let comm = given(comm, "comm")?;
        let buffer = readable(buffer.cast(), bytes, "buffer")?;
        let dest = peer(dest, "dest")?;
        // SAFETY: - readable and unchanged during the call: the header's contract.
        Ok(unsafe { comm.raw.send_raw(buffer, dest, tag, Mode::Standard) }.map(drop)?)
    })
}

/// Receives as tocsin_irecv and waits for it. `status` may be NULL.
/// Errors: as tocsin_irecv, and those that a receive ends with (tocsin_wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_recv(
    comm: Option<&Comm>,
    buffer: *mut c_void,
    bytes: usize,
    source: c_int,
    tag: c_int,
    status: Option<&mut MaybeUninit<Status>>,
) -> c_int {
    guarded("tocsin_recv", || {
        let comm = given(comm, "comm")?;
        let buffer = writable(buffer.cast(), bytes, "buffer")?;
        let source = source_of(source)?;
        // SAFETY: - writable and ours alone during the call: the header's contract.
        let outcome = unsafe { comm.raw.recv_raw(buffer, source, tag_of(tag)) };
        write(status, Status::of(&outcome));
        Ok(outcome.map(drop)?)
    })
}

/// Sends and receives at the same time and waits for both. The buffers do not overlap. `status` (may be NULL) is the
/// receive's, or names the error of a send that failed.
/// Errors: as tocsin_send and tocsin_recv.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_sendrecv(
    comm: Option<&Comm>,
    send: *const c_void,
    send_bytes: usize,
    dest: c_int,
    send_tag: c_int,
    receive: *mut c_void,
    receive_bytes: usize,
    source: c_int,
    receive_tag: c_int,
    status: Option<&mut MaybeUninit<Status>>,
) -> c_int {
    guarded("tocsin_sendrecv", || {
        let comm = given(comm, "comm")?;
        let send = readable(send.cast(), send_bytes, "send")?;
        let receive = writable(receive.cast(), receive_bytes, "receive")?;
        let (dest, source) = (peer(dest, "dest")?, source_of(source)?);
        // SAFETY: - valid during the call, apart: the header's contract.
        let outcome =
            unsafe { comm.raw.sendrecv_raw(send, dest, send_tag, receive, source, tag_of(receive_tag)) };
        write(status, Status::of(&outcome));
        Ok(outcome.map(drop)?)
    })
}

/// Sends a buffer's `bytes` bytes and receives at most as many into it, as tocsin_sendrecv; a copy of what is sent is made first. `status` as there.
/// Errors: as tocsin_sendrecv, and SYSTEM without memory for the copy: nothing was sent then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_sendrecv_replace(
    comm: Option<&Comm>,
    buffer: *mut c_void,
    bytes: usize,
    dest: c_int,
    send_tag: c_int,
    source: c_int,
    receive_tag: c_int,
    status: Option<&mut MaybeUninit<Status>>,
) -> c_int {
    guarded("tocsin_sendrecv_replace", || {
        let comm = given(comm, "comm")?;
        let buffer = writable(buffer.cast(), bytes, "buffer")?;
        let (dest, source) = (peer(dest, "dest")?, source_of(source)?);
        // SAFETY: - valid and ours alone during the call: the header's contract.
        let outcome =
            unsafe { comm.raw.sendrecv_replace_raw(buffer, dest, send_tag, source, tag_of(receive_tag)) };
        write(status, Status::of(&outcome));
        Ok(outcome.map(drop)?)
    })
}

/// Looks for a message that a receive with these arguments would match; `found` becomes 1 if there is one. `status`
/// may be NULL.
/// Errors: RANK, TAG, PEER_DEAD, PEER_FINALIZED, REVOKED, PROTOCOL.
#[unsafe(no_mangle)]
pub extern "C" fn tocsin_iprobe(
    comm: Option<&Comm>,
    source: c_int,
    tag: c_int,
    found: Option<&mut c_int>,
    status: Option<&mut MaybeUninit<Status>>,
) -> c_int {
    guarded("tocsin_iprobe", || {
        let comm = given(comm, "comm")?;
        let found = place(found, "found")?;
        *found = 0;
        if let Some(seen) = comm.raw.iprobe(source_of(source)?, tag_of(tag))? {
            *found = 1;
            write(status, Status::of(&Ok(seen)));
        }
        Ok(())
    })
}

/// Waits for a message as tocsin_iprobe finds it. Waits as a receive does: it makes progress, and after some looks gives the core to others, or sleeps.
/// `status` may be NULL.
/// Errors: as tocsin_iprobe; UNEXPECTED where the message is behind more unexpected ones than TOCSIN_UNEXPECTED_MAX holds, of which none was received for a second.
#[unsafe(no_mangle)]
pub extern "C" fn tocsin_probe(
    comm: Option<&Comm>,
    source: c_int,
    tag: c_int,
    status: Option<&mut MaybeUninit<Status>>,
) -> c_int {
    guarded("tocsin_probe", || {
        let comm = given(comm, "comm")?;
        let seen = comm.raw.probe(source_of(source)?, tag_of(tag))?;
        write(status, Status::of(&Ok(seen)));
        Ok(())
    })
}

/// As tocsin_iprobe, and takes the message out of matching, so that only tocsin_imrecv with this handle receives it.
/// Without a message the handle becomes NULL.
/// Errors: as tocsin_iprobe.
#[unsafe(no_mangle)]
pub extern "C" fn tocsin_improbe(
    comm: Option<&Comm>,
    source: c_int,
    tag: c_int,
    message: Option<&mut *mut Message>,
    status: Option<&mut MaybeUninit<Status>>,
) -> c_int {
    guarded("tocsin_improbe", || {
        let comm = given(comm, "comm")?;
        let message = place(message, "message")?;
        *message = null_mut();
        if let Some((raw, seen)) = comm.raw.improbe(source_of(source)?, tag_of(tag))? {
            *message = give(Message { comm: comm.raw.clone(), raw });
            write(status, Status::of(&Ok(seen)));
        }
        Ok(())
    })
}

/// Waits for a message as tocsin_probe does, and takes it out of matching, as tocsin_improbe.
/// Errors: as tocsin_probe.
#[unsafe(no_mangle)]
pub extern "C" fn tocsin_mprobe(
    comm: Option<&Comm>,
    source: c_int,
    tag: c_int,
    message: Option<&mut *mut Message>,
    status: Option<&mut MaybeUninit<Status>>,
) -> c_int {
    guarded("tocsin_mprobe", || {
        let comm = given(comm, "comm")?;
        let message = place(message, "message")?;
        *message = null_mut();
        let (raw, seen) = comm.raw.mprobe(source_of(source)?, tag_of(tag))?;
        *message = give(Message { comm: comm.raw.clone(), raw });
        write(status, Status::of(&Ok(seen)));
        Ok(())
    })
}

/// Starts to receive a message that a probe took, frees its handle and sets it to NULL.
/// Errors: PEER_DEAD, REVOKED, PROTOCOL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_imrecv(
    message: Option<&mut *mut Message>,
    buffer: *mut c_void,
    bytes: usize,
    request: Option<&mut *mut Request>,
) -> c_int {
    let request = cleared(request);
    guarded("tocsin_imrecv", || {
        let message = place(message, "message")?;
        let buffer = writable(buffer.cast(), bytes, "buffer")?;
        let request = place(request, "request")?;
        // SAFETY: - NULL or a live handle: the header's contract.
        let taken = unsafe { take(message) }.ok_or_else(|| Failure::null("*message"))?;
        let Message { comm, raw } = *taken;
        // SAFETY: - writable and ours alone until completion: the header's contract.
        start(Some(request), || Ok(unsafe { comm.mrecv_raw(raw, buffer) }?))
    })
}

/// Receives a message that a probe took: tocsin_imrecv and tocsin_wait. `status` may be NULL.
/// Errors: as tocsin_imrecv, and those that a receive ends with (tocsin_wait).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_mrecv(
    message: Option<&mut *mut Message>,
    buffer: *mut c_void,
    bytes: usize,
    status: Option<&mut MaybeUninit<Status>>,
) -> c_int {
    guarded("tocsin_mrecv", || {
        let message = place(message, "message")?;
        let buffer = writable(buffer.cast(), bytes, "buffer")?;
        // SAFETY: - NULL or a live handle: the header's contract.
        let taken = unsafe { take(message) }.ok_or_else(|| Failure::null("*message"))?;
        let Message { comm, raw } = *taken;
        // SAFETY: - writable and ours alone during the call: the header's contract.
        let outcome = unsafe { comm.mrecv_raw(raw, buffer) }?.wait();
        write(status, Status::of(&outcome));
        Ok(outcome.map(drop)?)
    })
}
