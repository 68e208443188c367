//! Persistent operations: prepared once, started as often as one likes.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tocsin_world::RawRequest;

use crate::buffer::{ElementBuffer, Held, OwnedBuffer, sealed};
use crate::{Error, Status};

/// What a run of a persistent operation says when it has ended well: `()` of a collective and of a send; of a receive
/// [`Status`], who has sent how much.
pub trait Outcome: sealed::Sealed {
    #[doc(hidden)]
    fn of(status: Status) -> Self;
}

impl Outcome for () {
    fn of(_: Status) {}
}

impl sealed::Sealed for Status {}
impl Outcome for Status {
    fn of(status: Status) -> Status {
        status
    }
}

/// A collective, a send or a receive that is prepared once and started as often as one likes: it owns its buffers, the same
/// ones for every run.
///
/// It is *inactive* until [`start`](Self::start), and again once [`wait`](Self::wait) or [`test`](Self::test) has given the
/// run's outcome; its buffers can be reached meanwhile. A collective is started by all ranks, in the same order among the
/// communicator's other collectives, of which any number may be in flight. Each start of a send or a receive
/// ([`Comm::send_init`](crate::Comm::send_init), [`ssend_init`](crate::Comm::ssend_init),
/// [`recv_init`](crate::Comm::recv_init)) is a message as those of [`isend`](crate::Comm::isend) and
/// [`irecv`](crate::Comm::irecv), which match each other whether they are persistent or not. Preparing says nothing to the
/// other ranks.
///
/// What a collective's run needs is reserved when it is prepared: its `start` allocates nothing, and asks the system only to
/// ring a peer. Excepted are what a peer has done after the preparation, once: that it joined, that it is the first to share memory
/// of the heap, that it made its pipe to this rank (`TOCSIN_LMT=vmsplice`); and what any pass of progress does on its way
/// out: it may set the timer, have the kernel make the single copy of a long message, and run users' callbacks. The `start`
/// of a message costs what `isend` or `irecv` does, which allocate for the first message to a peer, and where more are under way
/// than ever were.
///
/// Dropping or forgetting an active one detaches its run: it goes on, and the buffers live until nothing can touch them.
/// It is a future of the run that is active; its waker runs as that of a [`Request`](crate::Request).
///
/// ```
/// use tocsin::{Op, World};
/// let all = World::threads(2, |comm| -> Result<f64, tocsin::Error> {
///     let mut sum = comm.allreduce_init(vec![0.0], Op::Sum)?;
///     let mut total = 0.0;
///     for step in 0..10 {
///         sum.buffer_mut()?[0] = f64::from(step) + total;
///         sum.start()?;
///         // ... computing; the sum goes on by interrupt ...
///         sum.wait()?;
///         total = sum.buffer()?[0];
///     }
///     Ok(total)
/// })?;
/// for total in all {
///     assert_eq!(total?, 2026.0);
/// }
/// # Ok::<(), tocsin::Error>(())
/// ```
///
/// Two ranks that exchange their edges in each step:
///
/// ```
/// use tocsin::World;
/// let all = World::threads(2, |comm| -> Result<f64, tocsin::Error> {
///     let other = 1 - comm.rank();
///     let mut mine = comm.send_init(vec![0.0; 64], other, 0)?;
///     let mut theirs = comm.recv_init(vec![0.0; 64], other, 0)?;
///     let mut edge = f64::from(comm.rank());
///     for _step in 0..10 {
///         mine.buffer_mut()?.fill(edge);
///         theirs.start()?;
///         mine.start()?;
///         // ... what needs no edge is computed; the messages travel by interrupt ...
///         let status = theirs.wait()?;
///         assert_eq!((status.source, status.bytes), (other, 64 * 8));
///         mine.wait()?;
///         edge = 0.5 * (edge + theirs.buffer()?[0]);
///     }
///     Ok(edge)
/// })?;
/// for edge in all {
///     assert_eq!(edge?, 0.5);
/// }
/// # Ok::<(), tocsin::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a persistent operation does nothing until it is started"]
pub struct Persistent<R: OwnedBuffer, S: OwnedBuffer = (), O: Outcome = ()> {
    /// `None` once the buffers went elsewhere.
    raw: Option<RawRequest>,
    recv: Held<R>,
    send: Held<S>,
    outcome: PhantomData<fn() -> O>,
}

/// A persistent receive: the outcome of its runs is a [`Status`].
pub type PersistentReceive<B> = Persistent<B, (), Status>;

fn given_back() -> Error {
    Error::InvalidArgument {
        operation: "persistent",
        what: "the buffers of this operation were already given back".into(),
    }
}

impl<R: OwnedBuffer, S: OwnedBuffer, O: Outcome> Persistent<R, S, O> {
    pub(crate) fn new(raw: RawRequest, recv: Held<R>, send: Held<S>) -> Persistent<R, S, O> {
        Persistent { raw: Some(raw), recv, send, outcome: PhantomData }
    }

    /// Starts it once more: the next collective of its communicator, or a message. Where that fails, it is inactive and as it
    /// was.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is active; a revoked communicator, a world that is over; of a message, a peer that is
    /// dead or has left. A dead member is an error of a collective's run, which [`wait`](Self::wait) gives.
    pub fn start(&mut self) -> Result<(), Error> {
        let raw = self.raw.as_mut().ok_or_else(given_back)?;
        // SAFETY: - the buffers are ours; while it is active we lend them to nobody, and whatever becomes of us then, they
        //           live until it is complete: `drop`; forgotten, they leak
        //         - a user operator is a function.
        unsafe { raw.start() }
    }

    /// Whether it was started and its outcome not given yet.
    pub fn is_active(&self) -> bool {
        self.raw.as_ref().is_some_and(RawRequest::is_active)
    }

    /// Whether it is inactive, or its run complete, for who computes and looks at it between: as
    /// [`Request::is_done`](crate::Request::is_done).
    pub fn is_done(&self) -> bool {
        self.raw.as_ref().is_none_or(RawRequest::is_done)
    }

    /// Makes some progress, then gives the run's outcome if there is one; from then on it is inactive. Of an inactive one:
    /// the outcome of its last run, or success: of no bytes, from this rank itself, if it was never started.
    ///
    /// # Errors
    /// Inside `Some`: that of the run.
    pub fn test(&mut self) -> Option<Result<O, Error>> {
        match &mut self.raw {
            Some(raw) => raw.test().map(|outcome| outcome.map(O::of)),
            None => Some(Err(given_back())),
        }
    }

    /// Waits until the run is complete; from then on it is inactive. Of an inactive one: gives the outcome of its last run,
    /// or success, as [`test`](Self::test) does.
    ///
    /// # Errors
    /// That of the run. What is received is then in no particular state.
    pub fn wait(&mut self) -> Result<O, Error> {
        self.raw.as_mut().ok_or_else(given_back)?.wait().map(O::of)
    }

    /// Waits at most `timeout`; the outcome if it came, `None` if time was up.
    ///
    /// # Errors
    /// Inside `Some`: that of the run. That time was up is none.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Option<Result<O, Error>> {
        match &mut self.raw {
            Some(raw) => raw.wait_timeout(timeout).map(|outcome| outcome.map(O::of)),
            None => Some(Err(given_back())),
        }
    }

    /// Runs `then` once with the outcome of the run that is active, as
    /// [`Request::on_complete`](crate::Request::on_complete) does; at once if it is complete or inactive. It is for one run,
    /// and makes nothing inactive: a wait or a test does. Polled as a [`Future`] while the run is active, the waker takes
    /// its place.
    pub fn on_complete(&mut self, then: impl FnOnce(Result<O, Error>) + Send + 'static) {
        match &mut self.raw {
            Some(raw) => raw.on_complete(Box::new(move |outcome| then(outcome.map(O::of)))),
            None => then(Err(given_back())),
        }
    }

    /// Gives the buffers back, received first, once it is complete, and frees the rest.
    ///
    /// # Errors
    /// That of the run, if it was active; the buffers are then freed.
    pub fn into_buffers(mut self) -> Result<(R, S), Error> {
        if self.is_active() {
            self.wait()?;
        }
        // It has their addresses: it goes first.
        self.raw = None;
        let (recv, send) = (self.recv.take(), self.send.take());
        recv.zip(send).ok_or_else(given_back)
    }

    /// That the buffers are nobody's but ours.
    fn inactive(&self) -> Result<(), Error> {
        inactive(self.raw.as_ref().ok_or_else(given_back)?)
    }
}

/// That no run uses the buffers of a persistent operation.
pub(crate) fn inactive(raw: &RawRequest) -> Result<(), Error> {
    if raw.is_active() {
        return Err(Error::InvalidArgument {
            operation: raw.operation(),
            what: "the operation is active: wait for it, or test it until it is complete, and then use its buffers"
                .into(),
        });
    }
    Ok(())
}

/// Of operations with one buffer, for what goes in and what comes out.
impl<B: ElementBuffer, O: Outcome> Persistent<B, (), O> {
    /// The buffer.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] while it is active.
    pub fn buffer(&self) -> Result<&[B::Item], Error> {
        self.inactive()?;
        Ok(self.recv.elements_of())
    }

    /// The buffer, to be changed.
    ///
    /// # Errors
    /// As [`buffer`](Self::buffer).
    pub fn buffer_mut(&mut self) -> Result<&mut [B::Item], Error> {
        self.inactive()?;
        Ok(self.recv.elements_of_mut())
    }
}

/// Of receives.
impl<B: OwnedBuffer> PersistentReceive<B> {
    /// Cancels a run that has matched no message: its outcome is then [`Error::Cancelled`], and it may be started again.
    /// Whether it was cancelled.
    pub fn cancel(&mut self) -> bool {
        self.raw.as_mut().is_some_and(RawRequest::cancel)
    }
}

/// Of operations with two buffers.
impl<R: ElementBuffer, S: ElementBuffer> Persistent<R, S> {
    /// What was received.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] while it is active.
    pub fn recv(&self) -> Result<&[R::Item], Error> {
        self.inactive()?;
        Ok(self.recv.elements_of())
    }

    /// What was received, to be changed.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn recv_mut(&mut self) -> Result<&mut [R::Item], Error> {
        self.inactive()?;
        Ok(self.recv.elements_of_mut())
    }

    /// What is sent.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn send(&self) -> Result<&[S::Item], Error> {
        self.inactive()?;
        Ok(self.send.elements_of())
    }

    /// What is sent, to be changed.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn send_mut(&mut self) -> Result<&mut [S::Item], Error> {
        self.inactive()?;
        Ok(self.send.elements_of_mut())
    }
}

impl<R: OwnedBuffer, S: OwnedBuffer, O: Outcome> Drop for Persistent<R, S, O> {
    fn drop(&mut self) {
        let Some(raw) = self.raw.take() else { return };
        if raw.is_over() {
            return;
        }
        let (mut recv, mut send) = (Held::<R>::new_empty(), Held::<S>::new_empty());
        std::mem::swap(&mut recv, &mut self.recv);
        std::mem::swap(&mut send, &mut self.send);
        raw.detach(Some(Box::new((recv, send))));
    }
}

impl<R: OwnedBuffer + Unpin, S: OwnedBuffer + Unpin, O: Outcome> Future for Persistent<R, S, O> {
    type Output = Result<O, Error>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(raw) = &mut self.raw else { return Poll::Ready(Err(given_back())) };
        // First the waker, then the look: a completion in between wakes.
        raw.set_waker(context.waker());
        raw.test_once().map_or(Poll::Pending, |outcome| Poll::Ready(outcome.map(O::of)))
    }
}

const _: () = {
    const fn movable<T: Send>() {}
    movable::<Persistent<Vec<f64>, Vec<f64>>>();
    movable::<PersistentReceive<Vec<f64>>>();
};
