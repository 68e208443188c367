//! Requests: operations in flight.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::time::Duration;

use tocsin_world::{Error, RawRequest};

use crate::border::{Failure, guarded};
use crate::over::{status_of, take_status};
use crate::pointer::{give, place, take, write};
use crate::status::{TOCSIN_ERROR_INTERNAL, TOCSIN_OK, code_of};

/// An operation in flight.
pub struct Request {
    pub(crate) raw: RawRequest,
    /// In the array of the call that is under way; false between calls.
    listed: bool,
}

impl Request {
    /// Makes a handle.
    pub(crate) fn give(raw: RawRequest) -> *mut Request {
        give(Request { raw, listed: false })
    }

    /// Whether the call that is under way, whose array it is in, has to wait for it.
    fn is_pending(&self) -> bool {
        self.listed && self.raw.succeeded().is_none()
    }
}

/// What a completed operation says.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Status {
    /// Rank of the sender (receives and probes), or TOCSIN_PROC_NULL.
    pub source: c_int,
    /// Tag of the message; -1 from TOCSIN_PROC_NULL.
    pub tag: c_int,
    /// TOCSIN_OK, or why the operation failed.
    pub error: c_int,
    /// Bytes received, or sent; those of the whole message where TOCSIN_ERROR_TRUNCATED says that it was longer than the buffer.
    pub bytes: usize,
}

impl Status {
    pub(crate) const EMPTY: Status = Status { source: -1, tag: -1, error: TOCSIN_OK, bytes: 0 };

    #[inline]
    fn success(of: &tocsin_world::Status) -> Status {
        Status { source: of.source.cast_signed(), tag: of.tag, error: TOCSIN_OK, bytes: of.bytes }
    }

    pub(crate) fn of(outcome: &Result<tocsin_world::Status, Error>) -> Status {
        match outcome {
            Ok(s) => Status::success(s),
            Err(e) => {
                let error = code_of(e);
                match e {
                    Error::Truncated { source_rank, tag, message, .. } => Status {
                        source: source_rank.cast_signed(),
                        tag: *tag,
                        error,
                        bytes: usize::try_from(*message).unwrap_or(usize::MAX),
                    },
                    _ => Status { error, ..Status::EMPTY },
                }
            }
        }
    }
}

/// The place of a handle, which is NULL until there is one, whatever keeps it from being there.
pub(crate) fn cleared(mut request: Option<&mut *mut Request>) -> Option<&mut *mut Request> {
    if let Some(request) = &mut request {
        **request = std::ptr::null_mut();
    }
    request
}

/// Starts an operation: checks the place of the handle first, so that nothing is started that nobody could wait for.
pub(crate) fn start(
    request: Option<&mut *mut Request>,
    operation: impl FnOnce() -> Result<RawRequest, Failure>,
) -> Result<(), Failure> {
    start_in(request, |place| Ok(place.write(operation()?)))
}

/// [`start`] of what writes its request where that is to stay, and gives it back from there.
pub(crate) fn start_in(
    request: Option<&mut *mut Request>,
    operation: impl FnOnce(&mut MaybeUninit<RawRequest>) -> Result<&mut RawRequest, Failure>,
) -> Result<(), Failure> {
    let request = place(request, "request")?;
    let mut memory = Box::<Request>::new_uninit();
    let whole = memory.as_mut_ptr();
    // SAFETY: - the memory is there, and no other reference into it.
    let place = unsafe { &mut *(&raw mut (*whole).raw).cast::<MaybeUninit<RawRequest>>() };
    let written: *const RawRequest = operation(place)?;
    // SAFETY: - the memory is there; no reference is formed.
    if !std::ptr::eq(written, unsafe { &raw const (*whole).raw }) {
        return Err(Failure::new(TOCSIN_ERROR_INTERNAL, "the request is not where it was to be written"));
    }
    // SAFETY: - as above; the operation has written the other field: it gave it back from there.
    *request = unsafe {
        (&raw mut (*whole).listed).write(false);
        Box::into_raw(memory.assume_init())
    };
    Ok(())
}

/// The request in memory behind a handle; `None` for a NULL handle, and for that of a send that was over at once ([`status_of`]).
///
/// # Safety
/// NULL or a live handle that no other thread uses.
#[inline]
unsafe fn in_memory<'a>(handle: *mut Request) -> Option<&'a mut Request> {
    if status_of(handle).is_some() {
        return None;
    }
    // SAFETY: - promised by the caller: NULL, or the address of a request.
    unsafe { handle.as_mut() }
}

/// [`in_memory`], of the request itself.
///
/// # Safety
/// As there.
#[inline]
unsafe fn raw<'a>(handle: *mut Request) -> Option<&'a mut RawRequest> {
    // SAFETY: - promised by the caller.
    unsafe { in_memory(handle) }.map(|request| &mut request.raw)
}

/// Does something with the request behind a handle, which stays what it is. Fails for NULL.
///
/// # Safety
/// As [`in_memory`].
pub(crate) unsafe fn with<R>(
    handle: *mut Request,
    act: impl FnOnce(&mut RawRequest) -> R,
) -> Result<R, Failure> {
    match status_of(handle) {
        Some(sent) => Ok(act(&mut RawRequest::sent(sent))),
        // SAFETY: - promised by the caller.
        None => unsafe { raw(handle) }.map(act).ok_or_else(|| Failure::null("request")),
    }
}

/// The request in memory behind a handle that there is something to wait for; `None` for a NULL handle, for a persistent request
/// that is not active, and for a send that was over at once.
///
/// # Safety
/// As [`raw`].
unsafe fn awaited<'a>(handle: *mut Request) -> Option<&'a mut RawRequest> {
    // SAFETY: - promised by the caller.
    unsafe { raw(handle) }.filter(|raw| is_awaited(raw))
}

/// Whether there is something to wait for.
pub(crate) fn is_awaited(raw: &RawRequest) -> bool {
    raw.is_active() || !raw.is_persistent()
}

/// Ends a request: frees the handle unless it is persistent, writes the status, gives the operation's error.
///
/// # Safety
/// As [`take`].
unsafe fn finish(
    handle: &mut *mut Request,
    status: Option<&mut MaybeUninit<Status>>,
    outcome: Result<tocsin_world::Status, Error>,
) -> Result<(), Failure> {
    // SAFETY: - promised by the caller.
    if unsafe { raw(*handle) }.is_none_or(|raw| !raw.is_persistent()) {
        // SAFETY: - promised by the caller.
        drop(unsafe { take(handle) });
    }
    write(status, Status::of(&outcome));
    outcome.map(drop).map_err(Failure::from)
}

/// Looks whether the operation is complete. If it is, `done` becomes 1, the request is freed and set to NULL, or inactive if
/// it is persistent, the operation's own error is returned, and `status`, unless NULL, is written. A NULL request is
/// complete; so is a persistent one that is not active, here and below. Does not wait; but where ranks share cores, who tests in vain again and again, and computes
/// nothing in between, gives its core away, here and in all calls that only look.
/// Errors: as tocsin_wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_test(
    request: Option<&mut *mut Request>,
    done: Option<&mut c_int>,
    status: Option<&mut MaybeUninit<Status>>,
) -> c_int {
    guarded("tocsin_test", || {
        let request = place(request, "request")?;
        let done = place(done, "done")?;
        *done = 0;
        if let Some(sent) = take_status(request) {
            *done = 1;
            write(status, Status::success(&sent));
            return Ok(());
        }
        // SAFETY: - NULL or a live handle, used by this thread only: the header's contract.
        let Some(raw) = (unsafe { awaited(*request) }) else {
            *done = 1;
            write(status, Status::EMPTY);
            return Ok(());
        };
        let Some(outcome) = raw.test() else { return Ok(()) };
        *done = 1;
        // SAFETY: - as above; the reference to it is used no more.
        unsafe { finish(request, status, outcome) }
    })
}

/// Looks whether the operation is complete, for who computes and looks at it between: `done` becomes 1 or 0. Does not wait
/// and runs no callback; a few loads, but the first time that it is pending: from then on its message, or a small
/// collective's last part, interrupts this rank, as collectives' messages that others depend on always do. Makes no progress itself: with the
/// backend poll, tocsin_test does. Frees nothing: tocsin_wait or tocsin_test does. A NULL request is complete. Who only asks, on a core that ranks share, gives that away, as in tocsin_test.
/// Errors: none of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_is_done(request: *const Request, done: Option<&mut c_int>) -> c_int {
    guarded("tocsin_is_done", || {
        let done = place(done, "done")?;
        let is_sent = status_of(request.cast_mut()).is_some();
        // SAFETY: - NULL or a live handle, which is only looked at: the header's contract.
        let pending = if is_sent { None } else { unsafe { request.as_ref() } };
        *done = c_int::from(pending.is_none_or(|request| request.raw.is_done()));
        Ok(())
    })
}

/// Waits until the operation is complete, frees the request and sets it to NULL; a persistent one becomes inactive instead.
/// Returns the operation's own error. `status` may be NULL. A NULL request is complete.
/// Errors: those that the operation ends with. A send: PEER_DEAD, PEER_FINALIZED, REVOKED, PROTOCOL, UNEXPECTED. A receive: these,
/// TRUNCATED, and CANCELLED after tocsin_cancel. A collective: those of a send, CANCELLED,
/// USER and SYSTEM. CANCELLED is then that another rank gave it up; PROTOCOL also that its ranks called different ones, USER that the
/// operator of a rank in Rust panicked, SYSTEM also that a rank was refused memory: in this one, or in an earlier one of its communicator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_wait(
    request: Option<&mut *mut Request>,
    status: Option<&mut MaybeUninit<Status>>,
) -> c_int {
    guarded("tocsin_wait", || {
        let request = place(request, "request")?;
        if let Some(sent) = take_status(request) {
            write(status, Status::success(&sent));
            return Ok(());
        }
        // SAFETY: - NULL or a live handle, used by this thread only: the header's contract.
        let Some(raw) = (unsafe { awaited(*request) }) else {
            write(status, Status::EMPTY);
            return Ok(());
        };
        match raw.wait() {
            Ok(success) if !raw.is_persistent() => {
                // SAFETY: - as above; the reference to it is used no more.
                drop(unsafe { take(request) });
                write(status, Status::success(&success));
                Ok(())
            }
            // SAFETY: - as above.
            outcome => unsafe { finish(request, status, outcome) },
        }
    })
}

/// As tocsin_wait, but no longer than `nanoseconds`; then `done` is 0 and the request goes on.
/// Errors: as tocsin_wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_wait_timeout(
    request: Option<&mut *mut Request>,
    nanoseconds: u64,
    done: Option<&mut c_int>,
    status: Option<&mut MaybeUninit<Status>>,
) -> c_int {
    guarded("tocsin_wait_timeout", || {
        let request = place(request, "request")?;
        let done = place(done, "done")?;
        *done = 0;
        if let Some(sent) = take_status(request) {
            *done = 1;
            write(status, Status::success(&sent));
            return Ok(());
        }
        // SAFETY: - NULL or a live handle, used by this thread only: the header's contract.
        let Some(raw) = (unsafe { awaited(*request) }) else {
            *done = 1;
            write(status, Status::EMPTY);
            return Ok(());
        };
        let Some(outcome) = raw.wait_timeout(Duration::from_nanos(nanoseconds)) else { return Ok(()) };
        *done = 1;
        // SAFETY: - as above; the reference to it is used no more.
        unsafe { finish(request, status, outcome) }
    })
}

/// The array's handles, checked: no handle twice.
///
/// # Safety
/// NULL, or `count` handles, each NULL or live and used by this thread only.
pub(crate) unsafe fn array<'a>(
    count: usize,
    requests: *mut *mut Request,
) -> Result<&'a mut [*mut Request], Failure> {
    if count == 0 {
        return Ok(&mut []);
    }
    if requests.is_null() {
        return Err(Failure::null("requests"));
    }
    if isize::try_from(count.saturating_mul(size_of::<*mut Request>())).is_err() {
        return Err(Failure::argument(format!("{count} requests are more than any array has")));
    }
    // SAFETY: - not NULL, `count` handles: promised by the caller; no larger than an object can be: checked.
    let handles = unsafe { std::slice::from_raw_parts_mut(requests, count) };
    let mut twice = false;
    for handle in handles.iter() {
        // SAFETY: - NULL or live and used by this thread only: promised by the caller.
        if let Some(request) = unsafe { in_memory(*handle) } {
            twice |= std::mem::replace(&mut request.listed, true);
        }
    }
    for handle in handles.iter() {
        // SAFETY: - as above.
        if let Some(request) = unsafe { in_memory(*handle) } {
            request.listed = false;
        }
    }
    if twice {
        return Err(Failure::argument("a request is in the array twice"));
    }
    Ok(handles)
}

/// The requests in memory of an array that there is something to wait for, and the position of each in it.
///
/// # Safety
/// The handles passed [`array`].
unsafe fn present<'a>(handles: &[*mut Request]) -> (Vec<&'a mut RawRequest>, Vec<usize>) {
    // SAFETY: - NULL or live, each once: promised by the caller.
    let requests = handles.iter().enumerate().filter_map(|(at, h)| Some((unsafe { awaited(*h) }?, at)));
    requests.unzip()
}

/// Waits until all `count` requests are complete, and ends each as tocsin_wait does. NULL requests are complete. With
/// `statuses` (may be NULL) each request's own error is in its status. Returns the error of the first that failed.
/// Errors: as tocsin_wait; ARGUMENT also for a request that is in the array twice, but for a send's that was over when it was posted, whose handle is not its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_waitall(
    count: usize,
    requests: *mut *mut Request,
    statuses: *mut MaybeUninit<Status>,
) -> c_int {
    guarded("tocsin_waitall", || {
        // SAFETY: - the header's contract.
        let handles = unsafe { array(count, requests)? };
        // SAFETY: - just checked by `array`; `count` statuses are writable: the header's contract.
        unsafe { end_all(handles, statuses) }
    })
}

/// Waits until all requests of an array are complete, and ends each. The error of the first that failed.
///
/// # Safety
/// The handles passed [`array`]; there are as many statuses, which are writable, or none.
unsafe fn end_all(handles: &mut [*mut Request], statuses: *mut MaybeUninit<Status>) -> Result<(), Failure> {
    let mut pending = 0;
    for handle in handles.iter() {
        // SAFETY: - NULL or live, each once: checked by `array`, promised by the caller.
        if let Some(request) = unsafe { in_memory(*handle) } {
            request.listed = is_awaited(&request.raw);
            pending += usize::from(request.is_pending());
        }
    }
    // SAFETY: - as above; nobody uses them meanwhile.
    let mut left = handles.iter().filter_map(|handle| unsafe { in_memory(*handle) });
    let first = match pending {
        // Many a send was over when it was made. Those that know their rank see to what it left to who waits.
        0 => {
            left.filter(|request| request.listed).for_each(|request| request.raw.note_wait());
            Ok(())
        }
        1 => left.find(|request| request.is_pending()).map_or(Ok(()), |request| request.raw.wait().map(drop)),
        _ => {
            let mut raws = Vec::with_capacity(pending);
            raws.extend(left.filter(|request| request.is_pending()).map(|request| &mut request.raw));
            tocsin_world::wait_all(&mut raws)
        }
    };
    for (position, handle) in handles.iter_mut().enumerate() {
        let sent = take_status(handle);
        // SAFETY: - as above.
        let request = unsafe { in_memory(*handle) }.filter(|request| request.listed);
        let succeeded = || request.as_ref().and_then(|request| request.raw.succeeded());
        if let Some(succeeded) = sent.or_else(succeeded) {
            // SAFETY: - the handle is NULL or live; the references to it are gone.
            drop(unsafe { take(handle) });
            if !statuses.is_null() {
                // SAFETY: - `count` statuses are writable: the header's contract.
                unsafe { (*statuses.add(position)).write(Status::success(&succeeded)) };
            }
            continue;
        }
        let outcome = request.and_then(|request| {
            request.listed = false;
            request.raw.test()
        });
        // SAFETY: - `count` statuses are writable: the header's contract.
        let status = (!statuses.is_null()).then(|| unsafe { &mut *statuses.add(position) });
        match outcome {
            // SAFETY: - the handle is live; the references to it are gone. Its error is in its status, and the first of
            //           them in `first`.
            Some(outcome) => drop(unsafe { finish(handle, status, outcome) }),
            None => write(status, Status::EMPTY),
        }
    }
    first.map_err(Failure::from)
}

/// Waits until one of the requests is complete, writes its position into `index` and ends it as tocsin_wait does. Returns
/// that operation's own error. If all are NULL or inactive, `index` becomes -1 at once. `status` may be NULL.
/// Errors: as tocsin_wait; ARGUMENT also for a request that is in the array twice, as in tocsin_waitall.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_waitany(
    count: usize,
    requests: *mut *mut Request,
    index: Option<&mut isize>,
    status: Option<&mut MaybeUninit<Status>>,
) -> c_int {
    guarded("tocsin_waitany", || {
        let index = place(index, "index")?;
        *index = -1;
        // SAFETY: - the header's contract.
        let handles = unsafe { array(count, requests)? };
        // SAFETY: - just checked by `array`.
        let Any { at, .. } = unsafe { any(handles, tocsin_world::wait_any, RawRequest::note_wait) };
        let Some(position) = at else {
            write(status, Status::EMPTY);
            return Ok(());
        };
        *index = isize::try_from(position).unwrap_or(-1);
        let handle = handles.get_mut(position).ok_or_else(|| Failure::null("request"))?;
        // SAFETY: - live; the references to it are gone.
        unsafe { end(handle, status) }
    })
}

/// Looks whether all `count` requests are complete: `done` becomes 1, and each is ended as tocsin_waitall does, with that call's results; or 0, and none is.
/// Errors: as tocsin_waitall.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_testall(
    count: usize,
    requests: *mut *mut Request,
    done: Option<&mut c_int>,
    statuses: *mut MaybeUninit<Status>,
) -> c_int {
    guarded("tocsin_testall", || {
        let done = place(done, "done")?;
        *done = 0;
        // SAFETY: - the header's contract.
        let handles = unsafe { array(count, requests)? };
        // SAFETY: - just checked by `array`.
        let (raws, _) = unsafe { present(handles) };
        if !tocsin_world::test_all(&raws) {
            return Ok(());
        }
        drop(raws);
        *done = 1;
        // SAFETY: - as above; `count` statuses are writable: the header's contract.
        unsafe { end_all(handles, statuses) }
    })
}

/// Looks whether one of the requests is complete: `done` becomes 1, `index` its position, and it is ended as tocsin_wait does; or 0 and -1. If all are NULL or inactive,
/// `done` is 1 and `index` -1. `status` may be NULL.
/// Errors: as tocsin_waitany.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_testany(
    count: usize,
    requests: *mut *mut Request,
    done: Option<&mut c_int>,
    index: Option<&mut isize>,
    status: Option<&mut MaybeUninit<Status>>,
) -> c_int {
    guarded("tocsin_testany", || {
        let (done, index) = (place(done, "done")?, place(index, "index")?);
        (*done, *index) = (0, -1);
        // SAFETY: - the header's contract.
        let handles = unsafe { array(count, requests)? };
        // SAFETY: - just checked by `array`.
        let Any { at, is_none } =
            unsafe { any(handles, |raws| tocsin_world::test_any(raws), RawRequest::open_gates) };
        let Some(position) = at else {
            *done = c_int::from(is_none);
            if is_none {
                write(status, Status::EMPTY);
            }
            return Ok(());
        };
        (*done, *index) = (1, isize::try_from(position).unwrap_or(-1));
        let handle = handles.get_mut(position).ok_or_else(|| Failure::null("request"))?;
        // SAFETY: - as above.
        unsafe { end(handle, status) }
    })
}

/// Waits until some of the requests are complete, and ends all that are as tocsin_wait does: `completed` becomes how many; their positions are the first so many of
/// `indices`, their statuses the first of `statuses` (may be NULL). Both have room for `count`. If all are NULL or inactive, `completed` becomes -1 at once. Returns the error of the first of
/// them that failed.
/// Errors: as tocsin_waitany.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_waitsome(
    count: usize,
    requests: *mut *mut Request,
    completed: Option<&mut isize>,
    indices: *mut usize,
    statuses: *mut MaybeUninit<Status>,
) -> c_int {
    guarded("tocsin_waitsome", || {
        // SAFETY: - the header's contract.
        unsafe {
            some(count, requests, completed, (indices, statuses), |raws, is_over| match is_over {
                true => tell(raws, RawRequest::note_wait),
                false => {
                    let _first = tocsin_world::wait_any(raws);
                }
            })
        }
    })
}

/// As tocsin_waitsome, without waiting: `completed` is 0 when none is complete.
/// Errors: as tocsin_waitany.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_testsome(
    count: usize,
    requests: *mut *mut Request,
    completed: Option<&mut isize>,
    indices: *mut usize,
    statuses: *mut MaybeUninit<Status>,
) -> c_int {
    guarded("tocsin_testsome", || {
        // SAFETY: - the header's contract.
        unsafe {
            some(count, requests, completed, (indices, statuses), |raws, _| {
                let _all = tocsin_world::test_all(raws);
            })
        }
    })
}

/// Which of several is complete.
struct Any {
    /// The position of the first that is, as far as it was looked for.
    at: Option<usize>,
    /// There is none to wait for.
    is_none: bool,
}

/// Has `look` find the first that is complete, of those that there is something to wait for. Where a send was over when it was posted, nobody waits, and `told` is what is done for the rank.
///
/// # Safety
/// The handles passed [`array`].
unsafe fn any(
    handles: &[*mut Request],
    look: impl FnOnce(&mut [&mut RawRequest]) -> Option<usize>,
    told: fn(&RawRequest),
) -> Any {
    let sent = handles.iter().position(|handle| status_of(*handle).is_some());
    // SAFETY: - promised by the caller.
    let (mut raws, positions) = unsafe { present(handles) };
    let is_none = sent.is_none() && raws.is_empty();
    let which = if sent.is_none() {
        look(&mut raws)
    } else {
        tell(&raws, told);
        raws.iter().position(|raw| raw.is_over())
    };
    let other = which.and_then(|which| positions.get(which).copied());
    Any { at: sent.into_iter().chain(other).min(), is_none }
}

/// Does something for the rank of several, once: those that are pending know it.
fn tell(raws: &[&mut RawRequest], told: fn(&RawRequest)) {
    if let Some(raw) = raws.iter().find(|raw| !raw.is_over()).or(raws.first()) {
        told(raw);
    }
}

/// Ends all requests of an array that are complete when `look` has looked at those in memory that there is something to wait for. It is told whether another is complete.
///
/// # Safety
/// As the header says of tocsin_waitsome.
unsafe fn some(
    count: usize,
    requests: *mut *mut Request,
    completed: Option<&mut isize>,
    (indices, statuses): (*mut usize, *mut MaybeUninit<Status>),
    look: impl FnOnce(&mut [&mut RawRequest], bool),
) -> Result<(), Failure> {
    let completed = place(completed, "completed")?;
    *completed = -1;
    // SAFETY: - promised by the caller.
    let handles = unsafe { array(count, requests)? };
    if count > 0 && indices.is_null() {
        return Err(Failure::null("indices"));
    }
    let sent = handles.iter().enumerate().filter(|(_, handle)| status_of(**handle).is_some());
    let mut over: Vec<usize> = sent.map(|(position, _)| position).collect();
    // SAFETY: - just checked by `array`.
    let (mut raws, positions) = unsafe { present(handles) };
    if raws.is_empty() && over.is_empty() {
        return Ok(());
    }
    look(&mut raws, !over.is_empty());
    over.extend(raws.iter().zip(positions).filter(|(raw, _)| raw.is_over()).map(|(_, position)| position));
    drop(raws);
    over.sort_unstable();
    *completed = over.len() as isize;
    let mut first = Ok(());
    for (at, position) in over.into_iter().enumerate() {
        // SAFETY: - `count` of both are writable, unless there are no statuses: promised by the caller; there are no more of these.
        let status = unsafe {
            *indices.add(at) = position;
            (!statuses.is_null()).then(|| &mut *statuses.add(at))
        };
        let handle = handles.get_mut(position).ok_or_else(|| Failure::null("request"))?;
        // SAFETY: - live: as above.
        let ended = unsafe { end(handle, status) };
        first = first.and(ended);
    }
    first
}

/// Ends a request that is complete.
///
/// # Safety
/// As [`finish`].
unsafe fn end(handle: &mut *mut Request, status: Option<&mut MaybeUninit<Status>>) -> Result<(), Failure> {
    if let Some(sent) = take_status(handle) {
        write(status, Status::success(&sent));
        return Ok(());
    }
    // SAFETY: - promised by the caller.
    match unsafe { awaited(*handle) }.and_then(RawRequest::test) {
        // SAFETY: - promised by the caller; the reference to it is gone.
        Some(outcome) => unsafe { finish(handle, status, outcome) },
        None => Err(Failure::new(TOCSIN_ERROR_INTERNAL, "what was complete is pending")),
    }
}

/// Cancels a receive that no message has matched yet; `cancelled` becomes 1 if it was, else 0. The request must be
/// waited for all the same; a cancelled one gives TOCSIN_ERROR_CANCELLED.
/// Errors: none of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_cancel(request: *mut Request, cancelled: Option<&mut c_int>) -> c_int {
    guarded("tocsin_cancel", || {
        if request.is_null() {
            return Err(Failure::null("request"));
        }
        let cancelled = place(cancelled, "cancelled")?;
        // SAFETY: - a live handle, used by this thread only: the header's contract.
        *cancelled = c_int::from(unsafe { with(request, RawRequest::cancel)? });
        Ok(())
    })
}

/// Frees the handle and sets it to NULL. An operation in flight, or the run of a persistent one, goes on, and its buffers
/// must stay valid until it is complete.
/// Errors: none of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tocsin_request_free(request: Option<&mut *mut Request>) -> c_int {
    guarded("tocsin_request_free", || {
        let request = place(request, "request")?;
        if take_status(request).is_none() {
            // SAFETY: - NULL or a live handle: the header's contract.
            drop(unsafe { take(request) });
        }
        Ok(())
    })
}
