//! Scoped requests: operations on borrowed buffers.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tocsin_world::{ConstBuf, Mode, MutBuf, RawRequest};

use crate::collectives::{Form, Part};
use crate::comm::{Comm, Message, Source, Tag};
use crate::element::Element;
use crate::lent::Lent;
use crate::op::Op;
use crate::{Error, Status};

pub(crate) type Shared = Arc<Mutex<RawRequest>>;

/// Operations on buffers borrowed from outside the closure of [`Comm::scope`].
///
/// Each takes its buffer for the rest of the scope; [`ScopedRequest::wait`] gives it back.
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope> {
    comm: &'env Comm,
    requests: Mutex<Vec<Shared>>,
    // Invariant: a scope must not be taken for a shorter or a longer one.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// An operation in flight on a borrowed buffer.
///
/// Forgetting it is harmless: its scope does not end before nothing can touch the buffer.
#[derive(Debug)]
#[must_use = "a scoped request that nobody waits for is cancelled when its scope ends"]
pub struct ScopedRequest<'scope, R> {
    raw: Shared,
    buffer: Lent<R>,
    scope: PhantomData<&'scope mut &'scope ()>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a request may yet touch its buffer.
fn is_needed(request: &Shared) -> bool {
    // One that a thread holds is being waited for, perhaps for what is posted here: it stays.
    let Ok(raw) = request.try_lock() else { return true };
    // One that can be started again has somebody who can do it, until only this list is left to know of it: a handle that is
    // forgotten keeps it here, one that is dropped does not.
    !raw.is_over() || raw.is_persistent() && Arc::strong_count(request) > 1
}

/// Ends what a scope left pending, also while unwinding.
struct End<'a, 'scope, 'env> {
    scope: &'a Scope<'scope, 'env>,
}

impl End<'_, '_, '_> {
    /// How many operations had to be stopped.
    fn settle(&self) -> usize {
        let requests = std::mem::take(&mut *lock(&self.scope.requests));
        // What needs no peer any more, such as an eager send, is no reason to revoke anything.
        let pending: Vec<&Shared> = requests.iter().filter(|r| lock(r).test_once().is_none()).collect();
        let mut stopped = 0;
        let mut revoke = false;
        for request in &pending {
            stopped += 1;
            lock(request).cancel();
            revoke = true;
        }
        if revoke {
            self.scope.comm.revoke();
        }
        for request in pending {
            lock(request).settle();
        }
        stopped
    }
}

impl Drop for End<'_, '_, '_> {
    fn drop(&mut self) {
        self.settle();
    }
}

pub(crate) fn run<'env, R>(
    comm: &'env Comm,
    body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<R, Error>,
) -> Result<R, Error> {
    let scope = Scope { comm, requests: Mutex::new(Vec::new()), scope: PhantomData, env: PhantomData };
    let end = End { scope: &scope };
    let result = body(&scope);
    match end.settle() {
        0 => result,
        pending => result.and(Err(Error::ScopeLeftPending { pending })),
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// The communicator of the scope.
    pub fn comm(&self) -> &'env Comm {
        self.comm
    }

    pub(crate) fn keep<R>(&'scope self, raw: RawRequest, buffer: Lent<R>) -> ScopedRequest<'scope, R> {
        ScopedRequest { raw: self.keep_raw(raw), buffer, scope: PhantomData }
    }

    /// Has the scope's end see to what may touch a borrowed buffer.
    pub(crate) fn keep_raw(&'scope self, raw: RawRequest) -> Shared {
        let raw = Arc::new(Mutex::new(raw));
        let mut requests = lock(&self.requests);
        if requests.len() == requests.capacity() {
            // Before growing: a long-lived scope must not keep every request it ever had.
            requests.retain(is_needed);
        }
        requests.push(raw.clone());
        raw
    }

    /// As [`Comm::isend`], of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::isend`].
    pub fn isend<T: Element>(
        &'scope self,
        buf: &'scope [T],
        dest: u32,
        tag: i32,
    ) -> Result<ScopedRequest<'scope, &'scope [T]>, Error> {
        let buf = Lent::read(buf);
        // SAFETY: - `buf` is borrowed for 'scope, and `run` ends 'scope only after nothing touches it: `settle`.
        let raw = unsafe { self.comm.raw().isend_raw(buf.memory(), dest, tag, Mode::Standard)? };
        Ok(self.keep(raw, buf))
    }

    /// As [`Comm::issend`], of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::isend`].
    pub fn issend<T: Element>(
        &'scope self,
        buf: &'scope [T],
        dest: u32,
        tag: i32,
    ) -> Result<ScopedRequest<'scope, &'scope [T]>, Error> {
        let buf = Lent::read(buf);
        // SAFETY: - as in `isend`.
        let raw = unsafe { self.comm.raw().isend_raw(buf.memory(), dest, tag, Mode::Synchronous)? };
        Ok(self.keep(raw, buf))
    }

    /// As [`Comm::irecv`], into a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::irecv`].
    pub fn irecv<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - `buf` is exclusively borrowed for 'scope, and `run` ends 'scope only after nothing touches it.
        let raw = unsafe { self.comm.raw().irecv_raw(buf.memory(), source.into().raw(), tag.into().raw())? };
        Ok(self.keep(raw, buf))
    }

    /// Receives a message that [`Comm::improbe`] took, into a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::irecv`]; [`Error::InvalidArgument`] for a message of another communicator than the scope's, which is
    /// dropped then: the scope's end could not end it.
    pub fn mrecv<T: Element>(
        &'scope self,
        message: Message,
        buf: &'scope mut [T],
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        if !message.raw.is_of(self.comm.raw()) {
            let what = "the message was probed in another communicator: receive it by Comm::mrecv".into();
            return Err(Error::InvalidArgument { operation: "mrecv", what });
        }
        let buf = Lent::new(buf);
        // SAFETY: - as in `irecv`.
        let raw = unsafe { self.comm.raw().mrecv_raw(message.raw, buf.memory())? };
        Ok(self.keep(raw, buf))
    }

    /// As [`Comm::ibarrier`].
    ///
    /// # Errors
    /// As [`Comm::ibarrier`].
    pub fn ibarrier(&'scope self) -> Result<ScopedRequest<'scope, ()>, Error> {
        let raw = self.comm.raw().ibarrier_raw(self.comm.algorithm())?;
        Ok(self.keep(raw, Lent::NOTHING))
    }

    /// As [`Comm::ibcast`], of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::ibcast`].
    pub fn ibcast<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        root: u32,
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - as in `irecv`.
        let raw = unsafe { self.comm.begin_bcast(Form::Now, buf.part(), root)? };
        Ok(self.keep(raw, buf))
    }

    /// As [`Comm::iallreduce`], in place in a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::iallreduce`].
    pub fn iallreduce<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        op: Op<T>,
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        // SAFETY: - as in `irecv`.
        let raw = unsafe { self.comm.begin_allreduce(Form::Now, buf.part(), op)? };
        Ok(self.keep(raw, buf))
    }

    /// As [`Comm::ialltoall`], between two borrowed buffers of the same length.
    ///
    /// # Errors
    /// As [`Comm::ialltoall`].
    pub fn ialltoall<T: Element>(
        &'scope self,
        send: &'scope [T],
        recv: &'scope mut [T],
    ) -> Result<ScopedRequest<'scope, &'scope mut [T]>, Error> {
        let recv = Lent::new(recv);
        // SAFETY: - as in `isend` and `irecv`; an exclusive borrow overlaps no other.
        let raw = unsafe { self.comm.begin_alltoall(Form::Now, Part::read(send), recv.part())? };
        Ok(self.keep(raw, recv))
    }
}

impl<R> ScopedRequest<'_, R> {
    /// As [`Request::is_done`](crate::Request::is_done).
    pub fn is_done(&self) -> bool {
        lock(&self.raw).is_done()
    }

    /// Makes some progress, then gives the outcome if there is one; the buffer stays until [`wait`](Self::wait).
    ///
    /// # Errors
    /// Inside `Some`: that of the operation.
    pub fn test(&mut self) -> Option<Result<Status, Error>> {
        lock(&self.raw).test()
    }

    /// Waits until it is complete and gives the borrowed buffer back.
    ///
    /// # Errors
    /// That of the operation.
    pub fn wait(self) -> Result<R, Error> {
        self.wait_with_status().map(|(buffer, _)| buffer)
    }

    /// Waits until it is complete; gives the borrowed buffer back and says who sent how much.
    ///
    /// # Errors
    /// That of the operation.
    pub fn wait_with_status(self) -> Result<(R, Status), Error> {
        let status = lock(&self.raw).wait()?;
        Ok((self.buffer.give_back(), status))
    }

    /// Waits at most `timeout`; the outcome if it came, `None` if time was up.
    ///
    /// # Errors
    /// Inside `Some`: that of the operation. That time was up is none.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Option<Result<Status, Error>> {
        lock(&self.raw).wait_timeout(timeout)
    }

    /// Cancels a receive that has matched no message. Whether it was cancelled.
    pub fn cancel(&mut self) -> bool {
        lock(&self.raw).cancel()
    }
}

pub(crate) fn const_buf<T: Element>(buf: &[T]) -> ConstBuf {
    ConstBuf::contiguous(buf.as_ptr().cast(), size_of_val(buf))
}

pub(crate) fn mut_buf<T: Element>(buf: &mut [T]) -> MutBuf {
    MutBuf::contiguous(buf.as_mut_ptr().cast(), size_of_val(buf))
}
