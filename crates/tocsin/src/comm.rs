//! Communicators.

use std::sync::Arc;

use tocsin_world::{ConstBuf, Mode, MutBuf, RawRequest};

use crate::buffer::{ElementBuffer, Held};
use crate::collectives::{Form, Part};
use crate::element::Element;
use crate::op::Op;
use crate::request::Request;
use crate::scope::{Scope, const_buf, mut_buf};
use crate::shared::Shared;
use crate::{BackendKind, Error, Snapshot, Status};

/// Which sender a receive takes: a rank, [`PROC_NULL`](crate::PROC_NULL), or [`ANY_SOURCE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source(Option<u32>);
/// Takes a message from any rank. As soon as one rank of the communicator is dead, a receive or a probe that no message is there for ends with [`Error::PeerDead`]: nobody knows whose would have come.
pub const ANY_SOURCE: Source = Source(None);

/// Which tag a receive takes: a number from 0 on, or [`ANY_TAG`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(Option<i32>);
/// Takes a message with any tag.
pub const ANY_TAG: Tag = Tag(None);

impl From<u32> for Source {
    fn from(rank: u32) -> Source {
        Source(Some(rank))
    }
}

impl From<i32> for Tag {
    fn from(tag: i32) -> Tag {
        Tag(Some(tag))
    }
}

impl Source {
    pub(crate) fn raw(self) -> Option<u32> {
        self.0
    }
}

impl Tag {
    pub(crate) fn raw(self) -> Option<i32> {
        self.0
    }
}

/// A group of ranks whose traffic matches only itself. Cheap to clone; usable from any thread of its rank.
#[derive(Clone, Debug)]
pub struct Comm {
    raw: tocsin_world::Comm,
    algorithm: Option<Arc<str>>,
}

/// A message that [`Comm::improbe`] took out of matching: only who holds it can receive it. Dropping it discards
/// the message.
#[derive(Debug)]
pub struct Message {
    pub(crate) raw: tocsin_world::Message,
}

impl From<tocsin_world::Comm> for Comm {
    fn from(raw: tocsin_world::Comm) -> Comm {
        Comm { raw, algorithm: None }
    }
}

impl Comm {
    /// The untyped communicator beneath.
    pub fn raw(&self) -> &tocsin_world::Comm {
        &self.raw
    }

    pub(crate) fn algorithm(&self) -> Option<&str> {
        self.algorithm.as_deref()
    }

    /// This rank's number in the communicator.
    pub fn rank(&self) -> u32 {
        self.raw.rank()
    }

    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.raw.size()
    }

    /// Backend that interrupts this rank.
    pub fn backend(&self) -> BackendKind {
        self.raw.backend()
    }

    /// Statistics of this rank so far.
    pub fn stats(&self) -> Snapshot {
        self.raw.stats()
    }

    /// Makes one pass of progress: what the backend `poll` needs in long computations. Where ranks share cores, who calls it in vain again and again, and computes nothing in between, gives its core away.
    pub fn progress(&self) {
        self.raw.progress();
    }

    /// A buffer of `len` zeros in this rank's part of the world's shared heap: see [`Shared`].
    ///
    /// ```
    /// let world = tocsin::World::from_env()?;
    /// let mut field = world.comm().alloc::<f64>(1024)?;
    /// field[3] = 1.0;
    /// assert_eq!(field.iter().sum::<f64>(), 1.0);
    /// # Ok::<(), tocsin::Error>(())
    /// ```
    ///
    /// # Errors
    /// The world has no heap (`TOCSIN_HEAP`), or this rank's part of it no such piece; memory that the system refuses; a call after
    /// finalize.
    pub fn alloc<T: Element>(&self, len: usize) -> Result<Shared<T>, Error> {
        Shared::new(self, len)
    }

    /// The same communicator, whose collectives all use the algorithm `name` (`binomial`, `recursive-doubling`,
    /// ...). A name that an operation does not have is an error of that operation. With `split-tree`, the call that starts a collective may wait
    /// for other ranks', and those may wait for this rank's next call that waits or looks.
    pub fn with_algorithm(&self, name: &str) -> Comm {
        Comm { raw: self.raw.clone(), algorithm: Some(name.into()) }
    }

    /// A communicator of the same ranks whose traffic is apart. Collective: every rank calls it, in the same order
    /// among the collectives of this communicator.
    ///
    /// # Errors
    /// As a collective: a dead member, a revoked communicator.
    pub fn dup(&self) -> Result<Comm, Error> {
        Ok(Comm { raw: self.raw.dup()?, algorithm: self.algorithm.clone() })
    }

    /// Splits the ranks by `color`; within one color, ranks are ordered by `key`, then by rank. `None` as color: in
    /// no new communicator. Collective.
    ///
    /// # Errors
    /// As [`dup`](Self::dup).
    pub fn split(&self, color: Option<u32>, key: i32) -> Result<Option<Comm>, Error> {
        let part = self.raw.split(color, key)?;
        Ok(part.map(|raw| Comm { raw, algorithm: self.algorithm.clone() }))
    }

    /// Makes every pending and later operation on this communicator fail with [`Error::Revoked`], on all its ranks. None of the survivors can be made of it: who is to go on after a death goes on in a
    /// communicator that was [split](Self::split) off before.
    pub fn revoke(&self) {
        self.raw.revoke();
    }

    /// Ends every rank of the world; `code` becomes the status of `tocsin run`.
    pub fn abort(&self, code: i32) -> ! {
        self.raw.abort(code)
    }

    /// Runs `body` with operations on borrowed buffers.
    ///
    /// When `body` returns with operations pending, or unwinds, its receives are cancelled and the communicator is
    /// revoked; then the scope waits, for a bounded time, until nothing can touch the buffers.
    ///
    /// ```
    /// use tocsin::World;
    /// World::threads(2, |comm| {
    ///     let mut data = [0u32; 4];
    ///     if comm.rank() == 0 {
    ///         data = [1, 2, 3, 4];
    ///     }
    ///     comm.scope(|s| {
    ///         let request = s.ibcast(&mut data, 0)?;
    ///         // ... computing; the message arrives by interrupt ...
    ///         request.wait()?;
    ///         Ok(())
    ///     })?;
    ///     assert_eq!(data, [1, 2, 3, 4]);
    ///     Ok::<(), tocsin::Error>(())
    /// })?
    /// .into_iter()
    /// .collect::<Result<(), _>>()?;
    /// # Ok::<(), tocsin::Error>(())
    /// ```
    ///
    /// # Errors
    /// What `body` returns; [`Error::ScopeLeftPending`] if it returned `Ok` and left operations pending.
    pub fn scope<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        crate::scope::run(self, body)
    }

    fn start_send<B: ElementBuffer>(
        &self,
        buf: B,
        dest: u32,
        tag: i32,
        mode: Mode,
    ) -> Result<Request<B>, Error> {
        let buffer = Held::new(buf);
        let (base, bytes) = buffer.memory();
        // SAFETY: - the request owns the buffer and keeps it until it is complete, also when dropped; forgotten, the
        //           buffer leaks.
        let raw = unsafe { self.raw.isend_raw(ConstBuf::contiguous(base, bytes), dest, tag, mode)? };
        Ok(Request::new(raw, buffer))
    }

    /// Starts sending `buf` to rank `dest`. Complete when the buffer is free again, which may be before it was
    /// received.
    ///
    /// # Errors
    /// `dest` out of range, `tag` negative, `dest` dead, communicator revoked.
    pub fn isend<B: ElementBuffer>(&self, buf: B, dest: u32, tag: i32) -> Result<Request<B>, Error> {
        self.start_send(buf, dest, tag, Mode::Standard)
    }

    /// As [`isend`](Self::isend), complete only when a receive has matched it.
    ///
    /// # Errors
    /// As [`isend`](Self::isend).
    pub fn issend<B: ElementBuffer>(&self, buf: B, dest: u32, tag: i32) -> Result<Request<B>, Error> {
        self.start_send(buf, dest, tag, Mode::Synchronous)
    }

    /// Starts receiving into `buf`, which may be longer than the message:
    /// [`Request::wait_with_status`] tells how long it was.
    ///
    /// # Errors
    /// `source` out of range, `tag` negative, communicator revoked. A longer message is
    /// [`Error::Truncated`] of the wait.
    pub fn irecv<B: ElementBuffer>(
        &self,
        buf: B,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Request<B>, Error> {
        let buffer = Held::new(buf);
        let (base, bytes) = buffer.memory();
        // SAFETY: - as in `start_send`; nobody else has the buffer.
        let raw = unsafe {
            self.raw.irecv_raw(MutBuf::contiguous(base, bytes), source.into().raw(), tag.into().raw())?
        };
        Ok(Request::new(raw, buffer))
    }

    /// Sends `send` and receives into `recv`, both at once; says who sent what.
    ///
    /// # Errors
    /// As [`isend`](Self::isend) and [`irecv`](Self::irecv).
    pub fn sendrecv<S: Element, T: Element>(
        &self,
        send: &[S],
        dest: u32,
        send_tag: i32,
        recv: &mut [T],
        source: impl Into<Source>,
        recv_tag: impl Into<Tag>,
    ) -> Result<Status, Error> {
        let (source, recv_tag) = (source.into().raw(), recv_tag.into().raw());
        // SAFETY: - the call returns when both are complete or nothing touches the buffers any more.
        unsafe { self.raw.sendrecv_raw(const_buf(send), dest, send_tag, mut_buf(recv), source, recv_tag) }
    }

    /// [`sendrecv`](Self::sendrecv) from and into one buffer, which may be longer than the message that is received; a copy of what is sent is made first.
    ///
    /// # Errors
    /// As there, and [`Error::System`] without memory for the copy: nothing was sent then.
    pub fn sendrecv_replace<T: Element>(
        &self,
        buf: &mut [T],
        dest: u32,
        send_tag: i32,
        source: impl Into<Source>,
        recv_tag: impl Into<Tag>,
    ) -> Result<Status, Error> {
        let (source, recv_tag) = (source.into().raw(), recv_tag.into().raw());
        // SAFETY: - the call returns when both are complete or nothing touches the buffer any more.
        unsafe { self.raw.sendrecv_replace_raw(mut_buf(buf), dest, send_tag, source, recv_tag) }
    }

    /// Sends, and waits until the buffer is free again.
    ///
    /// # Errors
    /// As [`isend`](Self::isend).
    pub fn send<T: Element>(&self, buf: &[T], dest: u32, tag: i32) -> Result<(), Error> {
        // SAFETY: - the call returns when it is complete or nothing touches the buffer any more.
        unsafe { self.raw.send_raw(const_buf(buf), dest, tag, Mode::Standard) }.map(drop)
    }

    /// Receives, and waits for it.
    ///
    /// # Errors
    /// As [`irecv`](Self::irecv).
    pub fn recv<T: Element>(
        &self,
        buf: &mut [T],
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Status, Error> {
        // SAFETY: - the call returns when it is complete or nothing touches the buffer any more.
        unsafe { self.raw.recv_raw(mut_buf(buf), source.into().raw(), tag.into().raw()) }
    }

    /// Looks whether a message is there, without receiving it.
    ///
    /// # Errors
    /// `source` out of range, `tag` negative.
    pub fn iprobe(&self, source: impl Into<Source>, tag: impl Into<Tag>) -> Result<Option<Status>, Error> {
        self.raw.iprobe(source.into().raw(), tag.into().raw())
    }

    /// Takes a message out of matching, if one is there, for [`mrecv`](Self::mrecv).
    ///
    /// # Errors
    /// As [`iprobe`](Self::iprobe).
    pub fn improbe(
        &self,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Option<(Message, Status)>, Error> {
        let found = self.raw.improbe(source.into().raw(), tag.into().raw())?;
        Ok(found.map(|(raw, status)| (Message { raw }, status)))
    }

    /// Waits for a message and says what it is, without receiving it. Waits as a receive does: it makes progress, and after some looks gives the core to others, or
    /// sleeps.
    ///
    /// # Errors
    /// As [`iprobe`](Self::iprobe), and [`Error::TooManyUnexpected`] where the message is behind more unexpected ones than `TOCSIN_UNEXPECTED_MAX` holds, of which none was
    /// received for a second.
    pub fn probe(&self, source: impl Into<Source>, tag: impl Into<Tag>) -> Result<Status, Error> {
        self.raw.probe(source.into().raw(), tag.into().raw())
    }

    /// Waits, as [`probe`](Self::probe) does, for a message and takes it out of matching, for [`mrecv`](Self::mrecv).
    ///
    /// ```
    /// use tocsin::{ANY_SOURCE, ANY_TAG, World};
    /// let received = World::threads(2, |comm| {
    ///     if comm.rank() == 0 {
    ///         comm.send(&[1u32, 2, 3], 1, 7)?;
    ///         return Ok(Vec::new());
    ///     }
    ///     let (message, status) = comm.mprobe(ANY_SOURCE, ANY_TAG)?;
    ///     comm.mrecv(message, vec![0u32; status.bytes / 4])?.wait()
    /// })?;
    /// let received: Result<Vec<Vec<u32>>, tocsin::Error> = received.into_iter().collect();
    /// assert_eq!(received?[1], [1, 2, 3]);
    /// # Ok::<(), tocsin::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`probe`](Self::probe).
    pub fn mprobe(&self, source: impl Into<Source>, tag: impl Into<Tag>) -> Result<(Message, Status), Error> {
        let (raw, status) = self.raw.mprobe(source.into().raw(), tag.into().raw())?;
        Ok((Message { raw }, status))
    }

    /// Starts receiving a message that [`mprobe`](Self::mprobe) or [`improbe`](Self::improbe) took.
    ///
    /// # Errors
    /// As [`irecv`](Self::irecv).
    pub fn mrecv<B: ElementBuffer>(&self, message: Message, buf: B) -> Result<Request<B>, Error> {
        let buffer = Held::new(buf);
        let (base, bytes) = buffer.memory();
        // SAFETY: - as in `irecv`.
        let raw = unsafe { self.raw.mrecv_raw(message.raw, MutBuf::contiguous(base, bytes))? };
        Ok(Request::new(raw, buffer))
    }

    /// Starts a barrier: complete when every rank has started it.
    ///
    /// # Errors
    /// Unknown algorithm, dead member, revoked communicator.
    pub fn ibarrier(&self) -> Result<Request<()>, Error> {
        Ok(Request::new(self.raw.ibarrier_raw(self.algorithm())?, Held::new(())))
    }

    /// Starts a broadcast of `buf` from `root` to every rank's buffer of the same length.
    ///
    /// # Errors
    /// `root` out of range, unknown algorithm, dead member, revoked communicator.
    pub fn ibcast<B: ElementBuffer>(&self, buf: B, root: u32) -> Result<Request<B>, Error> {
        let buffer = Held::new(buf);
        // SAFETY: - as in `irecv`.
        let raw = unsafe { self.begin_bcast(Form::Now, Part::held(&buffer), root)? };
        Ok(Request::new(raw, buffer))
    }

    /// Starts combining every rank's `buf` element by element; each gets the result in its own.
    ///
    /// # Errors
    /// An operator that is not defined on the element type, unknown algorithm, dead member, revoked communicator.
    pub fn iallreduce<B: ElementBuffer>(&self, buf: B, op: Op<B::Item>) -> Result<Request<B>, Error> {
        let buffer = Held::new(buf);
        // SAFETY: - as in `irecv`.
        let raw = unsafe { self.begin_allreduce(Form::Now, Part::held(&buffer), op)? };
        Ok(Request::new(raw, buffer))
    }

    /// Starts an exchange: block i of `buf` goes to rank i, and block i of the result comes from rank i.
    ///
    /// # Errors
    /// A length that is no multiple of [`size`](Self::size), no memory for the result, unknown algorithm, dead
    /// member, revoked communicator.
    pub fn ialltoall<B>(&self, buf: B) -> Result<Request<B>, Error>
    where
        B: ElementBuffer + std::fmt::Debug,
    {
        let recv = buf.another().map_err(|reason| Error::System {
            operation: "ialltoall: memory for the result".into(),
            reason,
        })?;
        let (send, recv) = (Held::new(buf), Held::new(recv));
        // SAFETY: - as in `irecv`, for both; they are two allocations.
        let raw = unsafe { self.begin_alltoall(Form::Now, Part::held(&send), Part::held(&recv))? };
        Ok(Request::with_companion(raw, recv, Box::new(send)))
    }

    /// Waits until every rank is in the barrier.
    ///
    /// # Errors
    /// As [`ibarrier`](Self::ibarrier).
    pub fn barrier(&self) -> Result<(), Error> {
        self.ibarrier()?.wait()
    }

    /// Broadcasts and waits.
    ///
    /// # Errors
    /// As [`ibcast`](Self::ibcast).
    pub fn bcast<T: Element>(&self, buf: &mut [T], root: u32) -> Result<(), Error> {
        self.scope(|s| s.ibcast(buf, root)?.wait().map(|_| ()))
    }

    /// Combines and waits.
    ///
    /// # Errors
    /// As [`iallreduce`](Self::iallreduce).
    pub fn allreduce<T: Element>(&self, buf: &mut [T], op: Op<T>) -> Result<(), Error> {
        self.scope(|s| s.iallreduce(buf, op)?.wait().map(|_| ()))
    }

    /// Exchanges and waits.
    ///
    /// # Errors
    /// As [`ialltoall`](Self::ialltoall).
    pub fn alltoall<T: Element>(&self, send: &[T], recv: &mut [T]) -> Result<(), Error> {
        self.scope(|s| s.ialltoall(send, recv)?.wait().map(|_| ()))
    }
}

const _: () = {
    const fn shared<T: Send + Sync + Clone>() {}
    const fn movable<T: Send>() {}
    shared::<Comm>();
    movable::<Request<Vec<f64>>>();
    movable::<RawRequest>();
};
