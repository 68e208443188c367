//! Persistent operations of borrowed buffers.

use std::marker::PhantomData;
use std::time::Duration;

use tocsin_world::RawRequest;

use crate::element::Element;
use crate::lent::Lent;
use crate::persistent::Outcome;
use crate::scope::{Scope, Shared, lock};
use crate::{Error, Status};

/// A collective, a send or a receive of borrowed buffers that is prepared once in a scope and started there as often as one likes.
///
/// As [`Persistent`](crate::Persistent), with buffers that are borrowed for the rest of the scope, the same ones for every
/// run. Between runs they are reached through it; [`into_buffer`](Self::into_buffer) and
/// [`into_buffers`](Self::into_buffers) end it and give them back. What is sent is borrowed exclusively too, so that it can
/// be changed between runs.
///
/// Dropping or forgetting it is harmless: its scope does not end before nothing can touch the buffers. A run that is
/// pending at that end is cancelled, as any other operation of the scope.
///
/// ```
/// use tocsin::{Op, World};
/// let all = World::threads(2, |comm| -> Result<f64, tocsin::Error> {
///     let mut sum = [0.0];
///     comm.scope(|s| {
///         let mut reduction = s.allreduce_init(&mut sum, Op::Sum)?;
///         for step in 0..10 {
///             reduction.buffer_mut()?[0] += f64::from(step);
///             reduction.start()?;
///             // ... computing; the sum goes on by interrupt ...
///             reduction.wait()?;
///         }
///         Ok(())
///     })?;
///     Ok(sum[0])
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
/// World::threads(2, |comm| -> Result<(), tocsin::Error> {
///     let (mut mine, mut theirs) = ([0u32; 16], [0u32; 16]);
///     let other = 1 - comm.rank();
///     comm.scope(|s| {
///         let mut send = s.send_init(&mut mine, other, 0)?;
///         let mut receive = s.recv_init(&mut theirs, other, 0)?;
///         for step in 0..10 {
///             send.buffer_mut()?.fill(step + comm.rank());
///             receive.start()?;
///             send.start()?;
///             // ... computing; the messages travel by interrupt ...
///             assert_eq!(receive.wait()?.bytes, 64);
///             send.wait()?;
///             assert_eq!(receive.buffer()?, [step + other; 16]);
///         }
///         Ok(())
///     })
/// })?
/// .into_iter()
/// .collect::<Result<(), _>>()?;
/// # Ok::<(), tocsin::Error>(())
/// ```
///
/// The buffer is reached through it alone:
///
/// ```compile_fail,E0506
/// # fn steps(comm: &tocsin::Comm) -> Result<(), tocsin::Error> {
/// let mut sum = [0.0];
/// comm.scope(|s| {
///     let mut reduction = s.allreduce_init(&mut sum, tocsin::Op::Sum)?;
///     reduction.start()?;
///     sum[0] = 1.0; // borrowed until the scope's end
///     reduction.wait()
/// })
/// # }
/// ```
///
/// and what was reached between two runs is not kept over a start:
///
/// ```compile_fail,E0499
/// # fn steps(comm: &tocsin::Comm) -> Result<(), tocsin::Error> {
/// let mut sum = [0.0];
/// comm.scope(|s| {
///     let mut reduction = s.allreduce_init(&mut sum, tocsin::Op::Sum)?;
///     let inside = reduction.buffer_mut()?;
///     reduction.start()?;
///     inside[0] = 1.0; // the run may be reading it
///     reduction.wait()
/// })
/// # }
/// ```
///
/// Nor does it leave its scope, where nobody would wait for its runs:
///
/// ```compile_fail
/// # fn steps(comm: &tocsin::Comm) -> Result<(), tocsin::Error> {
/// let mut sum = [0.0];
/// let mut reduction = comm.scope(|s| s.allreduce_init(&mut sum, tocsin::Op::Sum))?;
/// reduction.start()
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a persistent operation does nothing until it is started"]
pub struct ScopedPersistent<'scope, R, S = (), O = ()> {
    raw: Shared,
    recv: Lent<R>,
    send: Lent<S>,
    /// As in a scoped request.
    scope: PhantomData<&'scope mut &'scope ()>,
    outcome: PhantomData<fn() -> O>,
}

/// A persistent receive into a borrowed buffer: the outcome of its runs is a [`Status`].
pub type ScopedPersistentReceive<'scope, T> = ScopedPersistent<'scope, &'scope mut [T], (), Status>;

impl<'scope, 'env> Scope<'scope, 'env> {
    /// A prepared operation that uses these buffers when it is started.
    pub(crate) fn keep_persistent<R, S, O>(
        &'scope self,
        raw: RawRequest,
        recv: Lent<R>,
        send: Lent<S>,
    ) -> ScopedPersistent<'scope, R, S, O> {
        ScopedPersistent { raw: self.keep_raw(raw), recv, send, scope: PhantomData, outcome: PhantomData }
    }
}

impl<R, S, O: Outcome> ScopedPersistent<'_, R, S, O> {
    /// Starts it once more: the next collective of its communicator, or a message.
    ///
    /// # Errors
    /// As [`Persistent::start`](crate::Persistent::start).
    pub fn start(&mut self) -> Result<(), Error> {
        // SAFETY: - the buffers are borrowed for the scope; while it is active we lend them to nobody, and the scope, which
        //           knows the request for as long as it can be started, ends only after nothing touches them
        //         - a user operator is a function.
        unsafe { lock(&self.raw).start() }
    }

    /// As [`Persistent::is_active`](crate::Persistent::is_active).
    pub fn is_active(&self) -> bool {
        lock(&self.raw).is_active()
    }

    /// As [`Persistent::is_done`](crate::Persistent::is_done).
    pub fn is_done(&self) -> bool {
        lock(&self.raw).is_done()
    }

    /// As [`Persistent::test`](crate::Persistent::test).
    ///
    /// # Errors
    /// Inside `Some`: that of the run.
    pub fn test(&mut self) -> Option<Result<O, Error>> {
        lock(&self.raw).test().map(|outcome| outcome.map(O::of))
    }

    /// As [`Persistent::wait`](crate::Persistent::wait).
    ///
    /// # Errors
    /// That of the run. What is received is then in no particular state.
    pub fn wait(&mut self) -> Result<O, Error> {
        lock(&self.raw).wait().map(O::of)
    }

    /// Waits at most `timeout`; the outcome if it came, `None` if time was up.
    ///
    /// # Errors
    /// Inside `Some`: that of the run. That time was up is none.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Option<Result<O, Error>> {
        lock(&self.raw).wait_timeout(timeout).map(|outcome| outcome.map(O::of))
    }

    /// That the buffers are nobody's but ours.
    fn inactive(&self) -> Result<(), Error> {
        crate::persistent::inactive(&lock(&self.raw))
    }

    /// The same, once the run that is active is over.
    fn settled(&mut self) -> Result<(), Error> {
        if self.is_active() { self.wait().map(drop) } else { Ok(()) }
    }
}

/// Of operations with one buffer, for what goes in and what comes out.
impl<'scope, T: Element, O: Outcome> ScopedPersistent<'scope, &'scope mut [T], (), O> {
    /// The buffer.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] while it is active.
    pub fn buffer(&self) -> Result<&[T], Error> {
        self.inactive()?;
        Ok(self.recv.elements())
    }

    /// The buffer, to be changed.
    ///
    /// # Errors
    /// As [`buffer`](Self::buffer).
    pub fn buffer_mut(&mut self) -> Result<&mut [T], Error> {
        self.inactive()?;
        Ok(self.recv.elements_mut())
    }

    /// Gives the borrowed buffer back, once it is complete.
    ///
    /// # Errors
    /// That of the run, if it was active; the buffer is then borrowed until the scope's end.
    pub fn into_buffer(mut self) -> Result<&'scope mut [T], Error> {
        self.settled()?;
        Ok(self.recv.give_back())
    }
}

/// Of receives.
impl<T> ScopedPersistentReceive<'_, T> {
    /// As [`PersistentReceive::cancel`](crate::PersistentReceive::cancel).
    pub fn cancel(&mut self) -> bool {
        lock(&self.raw).cancel()
    }
}

/// Of operations with two buffers.
impl<'scope, R: Element, S: Element> ScopedPersistent<'scope, &'scope mut [R], &'scope mut [S]> {
    /// What was received.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] while it is active.
    pub fn recv(&self) -> Result<&[R], Error> {
        self.inactive()?;
        Ok(self.recv.elements())
    }

    /// What was received, to be changed.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn recv_mut(&mut self) -> Result<&mut [R], Error> {
        self.inactive()?;
        Ok(self.recv.elements_mut())
    }

    /// What is sent.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn send(&self) -> Result<&[S], Error> {
        self.inactive()?;
        Ok(self.send.elements())
    }

    /// What is sent, to be changed.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn send_mut(&mut self) -> Result<&mut [S], Error> {
        self.inactive()?;
        Ok(self.send.elements_mut())
    }

    /// Gives the borrowed buffers back, received first, once it is complete.
    ///
    /// # Errors
    /// That of the run, if it was active; the buffers are then borrowed until the scope's end.
    pub fn into_buffers(mut self) -> Result<(&'scope mut [R], &'scope mut [S]), Error> {
        self.settled()?;
        Ok((self.recv.give_back(), self.send.give_back()))
    }
}

const _: () = {
    const fn movable<T: Send>() {}
    movable::<ScopedPersistent<'static, &'static mut [f64], &'static mut [f64]>>();
};
