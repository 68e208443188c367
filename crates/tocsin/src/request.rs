//! Owned requests: the request holds the buffer and gives it back.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tocsin_world::RawRequest;

use crate::buffer::{Held, OwnedBuffer};
use crate::{Error, Status};

/// An operation in flight that owns its buffer, and gives it back when it is complete.
///
/// Dropping or forgetting it detaches the operation: it goes on, and the buffer lives until nothing can touch it.
/// It is a future; its waker runs outside handlers, with the backend `poll` in calls of this rank's only: somebody has to make some, such as [`Comm::progress`](crate::Comm::progress).
///
/// ```
/// use tocsin::World;
/// let values = World::threads(2, |comm| -> Result<Vec<u32>, tocsin::Error> {
///     if comm.rank() == 0 {
///         comm.isend(vec![1u32, 2, 3], 1, 7)?.wait()
///     } else {
///         comm.irecv(vec![0u32; 3], 0, 7)?.wait()
///     }
/// })?;
/// for value in values {
///     assert_eq!(value?, [1, 2, 3]);
/// }
/// # Ok::<(), tocsin::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a request that is dropped goes on by itself, and its buffer never comes back"]
pub struct Request<B: OwnedBuffer> {
    /// `None` once the buffer went elsewhere.
    raw: Option<RawRequest>,
    buffer: Held<B>,
    /// What else the operation reads: the send side of an alltoall.
    companion: Option<Box<dyn Companion>>,
}

pub(crate) trait Companion: Send + std::fmt::Debug {}
impl<B: OwnedBuffer + std::fmt::Debug> Companion for Held<B> {}

impl<B: OwnedBuffer> Request<B> {
    pub(crate) fn new(raw: RawRequest, buffer: Held<B>) -> Request<B> {
        Request { raw: Some(raw), buffer, companion: None }
    }

    pub(crate) fn with_companion(
        raw: RawRequest,
        buffer: Held<B>,
        companion: Box<dyn Companion>,
    ) -> Request<B> {
        Request { raw: Some(raw), buffer, companion: Some(companion) }
    }

    /// Whether it is complete, for who computes and looks at it between. Does not wait, and runs no callback. A few loads,
    /// but the first time that it is pending: from then on its message, or a small collective's last part, interrupts this
    /// rank, as collectives' messages that others depend on always do. Makes no progress itself: with the backend `poll`, [`test`](Self::test) does. Where ranks share cores, who asks in vain
    /// again and again, and computes nothing in between, gives its core away, as in [`test`](Self::test) and the like. Not for signal handlers of one's own.
    pub fn is_done(&self) -> bool {
        self.raw.as_ref().is_none_or(RawRequest::is_done)
    }

    /// Makes some progress, then gives the outcome if there is one; the buffer stays until [`wait`](Self::wait). Does not wait; but where ranks share cores, who tests in vain again and
    /// again, and computes nothing in between, gives its core away.
    ///
    /// # Errors
    /// Inside `Some`: that of the operation.
    pub fn test(&mut self) -> Option<Result<Status, Error>> {
        match &mut self.raw {
            Some(raw) => raw.test(),
            None => Some(Err(taken())),
        }
    }

    /// Waits until it is complete and gives the buffer back.
    ///
    /// # Errors
    /// That of the operation; the buffer is then freed. [`wait_with_status`](Self::wait_with_status) tells more.
    pub fn wait(self) -> Result<B, Error> {
        self.wait_with_status().map(|(buffer, _)| buffer)
    }

    /// Waits until it is complete; gives the buffer back and says who sent how much.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_with_status(mut self) -> Result<(B, Status), Error> {
        let status = match &mut self.raw {
            Some(raw) => raw.wait()?,
            None => return Err(taken()),
        };
        Ok((self.buffer.take().ok_or_else(taken)?, status))
    }

    /// Waits at most `timeout`; the outcome if it came, `None` if time was up.
    ///
    /// # Errors
    /// Inside `Some`: that of the operation. That time was up is none.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Option<Result<Status, Error>> {
        match &mut self.raw {
            Some(raw) => raw.wait_timeout(timeout),
            None => Some(Err(taken())),
        }
    }

    /// Cancels a receive that has matched no message: its outcome is then [`Error::Cancelled`]. Whether it was
    /// cancelled; sends and collectives are not.
    pub fn cancel(&mut self) -> bool {
        self.raw.as_mut().is_some_and(RawRequest::cancel)
    }

    /// Runs `then` once with the outcome, outside handlers, on a thread of this process: one that leaves a library
    /// call, or the callback thread. It may start operations, and should be short: where a thread that waits runs
    /// it, the rank makes no progress meanwhile. It had better not wait for operations: nothing refuses that, but the thread that runs it, which may be the one that runs
    /// all callbacks of the rank, goes on only when it returns, and to wait in one for what another does is to wait for ever. A call may run those of any requests: hold
    /// no lock that one of them wants. What is dropped (a request, a message, a communicator) runs none.
    pub fn on_complete(mut self, then: impl FnOnce(Result<(B, Status), Error>) + Send + 'static) {
        let Some(mut raw) = self.raw.take() else { return };
        let mut buffer = Held::new_empty();
        std::mem::swap(&mut buffer, &mut self.buffer);
        let companion = self.companion.take();
        raw.on_complete(Box::new(move |outcome| {
            drop(companion);
            then(outcome.and_then(|status| Ok((buffer.take().ok_or_else(taken)?, status))));
        }));
        raw.detach(None);
    }
}

fn taken() -> Error {
    Error::InvalidArgument {
        operation: "wait",
        what: "the buffer of this request was already given back".into(),
    }
}

impl<B: OwnedBuffer> Drop for Request<B> {
    fn drop(&mut self) {
        if let Some(raw) = self.raw.take() {
            if raw.is_over() {
                return;
            }
            let mut buffer = Held::<B>::new_empty();
            std::mem::swap(&mut buffer, &mut self.buffer);
            raw.detach(Some(Box::new((buffer, self.companion.take()))));
        }
    }
}

impl<B: OwnedBuffer + Unpin> Future for Request<B> {
    type Output = Result<B, Error>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Some(raw) = &mut this.raw else { return Poll::Ready(Err(taken())) };
        // First the waker, then the look: a completion in between wakes.
        raw.set_waker(context.waker());
        match raw.test_once() {
            None => Poll::Pending,
            Some(Ok(_)) => Poll::Ready(this.buffer.take().ok_or_else(taken)),
            Some(Err(error)) => Poll::Ready(Err(error)),
        }
    }
}

/// Waits for all and gives the buffers back in order.
///
/// # Errors
/// The first error by position, after all are complete; the buffers are then freed.
pub fn wait_all<B: OwnedBuffer>(requests: impl IntoIterator<Item = Request<B>>) -> Result<Vec<B>, Error> {
    let mut requests: Vec<Request<B>> = requests.into_iter().collect();
    let mut raw: Vec<&mut RawRequest> = requests.iter_mut().filter_map(|r| r.raw.as_mut()).collect();
    // All are waited for, whatever fails: an error must not leave the rest to chance. Each request keeps its own.
    let _of_each = tocsin_world::wait_all(&mut raw);
    requests.into_iter().map(Request::wait).collect()
}

/// Waits until one of them is complete and gives its position; `None` if there is none.
pub fn wait_any<B: OwnedBuffer>(requests: &mut [Request<B>]) -> Option<usize> {
    if let Some(done) = requests.iter().position(|r| r.raw.as_ref().is_none_or(RawRequest::is_over)) {
        requests.iter().filter_map(|r| r.raw.as_ref()).for_each(RawRequest::open_gates);
        return Some(done);
    }
    let mut raw: Vec<&mut RawRequest> = requests.iter_mut().filter_map(|r| r.raw.as_mut()).collect();
    tocsin_world::wait_any(&mut raw)
}

/// Waits until some of them are complete and gives the positions of all that are; none if there is none to wait for.
pub fn wait_some<B: OwnedBuffer>(requests: &mut [Request<B>]) -> Vec<usize> {
    let _first = wait_any(requests);
    let is_over = |request: &Request<B>| request.raw.as_ref().is_none_or(RawRequest::is_over);
    requests.iter().enumerate().filter(|(_, request)| is_over(request)).map(|(at, _)| at).collect()
}

/// Makes some progress, then gives the position of one that is complete, if there is one: its [`wait`](Request::wait) returns at once.
///
/// ```
/// use tocsin::{World, test_any};
/// let sums = World::threads(2, |comm| {
///     let other = 1 - comm.rank();
///     let _sent = comm.isend(vec![comm.rank()], other, 0)?;
///     let mut receives = vec![comm.irecv(vec![0u32], other, 0)?];
///     let first = loop {
///         if let Some(first) = test_any(&mut receives) {
///             break first;
///         }
///         std::thread::yield_now(); // or something to compute
///     };
///     receives.swap_remove(first).wait()
/// })?;
/// let sums: Result<Vec<Vec<u32>>, tocsin::Error> = sums.into_iter().collect();
/// assert_eq!(sums?, [[1], [0]]);
/// # Ok::<(), tocsin::Error>(())
/// ```
pub fn test_any<B: OwnedBuffer>(requests: &mut [Request<B>]) -> Option<usize> {
    if let Some(done) = requests.iter().position(|r| r.raw.is_none()) {
        return Some(done);
    }
    let raw: Vec<&mut RawRequest> = requests.iter_mut().filter_map(|r| r.raw.as_mut()).collect();
    tocsin_world::test_any(&raw)
}

/// Makes some progress, then says whether all are complete: [`wait_all`] returns at once then.
pub fn test_all<B: OwnedBuffer>(requests: &mut [Request<B>]) -> bool {
    let raw: Vec<&mut RawRequest> = requests.iter_mut().filter_map(|r| r.raw.as_mut()).collect();
    tocsin_world::test_all(&raw)
}
