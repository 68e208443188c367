//! Persistent messages: sends and receives that are prepared once and started as often as one likes.

use tocsin_world::{ConstBuf, Mode, MutBuf};

use crate::Error;
use crate::buffer::{ElementBuffer, Held};
use crate::comm::{Comm, Source, Tag};
use crate::element::Element;
use crate::lent::Lent;
use crate::persistent::{Persistent, PersistentReceive};
use crate::scope::Scope;
use crate::scoped_persistent::{ScopedPersistent, ScopedPersistentReceive};

/// Preparing a message concerns no other rank.
impl Comm {
    fn prepare_send<B: ElementBuffer>(
        &self,
        buf: B,
        dest: u32,
        tag: i32,
        mode: Mode,
    ) -> Result<Persistent<B>, Error> {
        let buffer = Held::new(buf);
        let (base, bytes) = buffer.memory();
        let raw = self.raw().send_init_raw(ConstBuf::contiguous(base, bytes), dest, tag, mode)?;
        Ok(Persistent::new(raw, buffer, Held::new(())))
    }

    /// Prepares a send. Each [start](Persistent::start) sends what the buffer holds then, as [`isend`](Self::isend) does.
    ///
    /// # Errors
    /// `dest` out of range, `tag` negative, communicator revoked. Whether `dest` is there, each start asks.
    pub fn send_init<B: ElementBuffer>(&self, buf: B, dest: u32, tag: i32) -> Result<Persistent<B>, Error> {
        self.prepare_send(buf, dest, tag, Mode::Standard)
    }

    /// As [`send_init`](Self::send_init); a run is complete only when a receive has matched it, as of [`issend`](Self::issend).
    ///
    /// # Errors
    /// As [`send_init`](Self::send_init).
    pub fn ssend_init<B: ElementBuffer>(&self, buf: B, dest: u32, tag: i32) -> Result<Persistent<B>, Error> {
        self.prepare_send(buf, dest, tag, Mode::Synchronous)
    }

    /// Prepares a receive. Each [start](Persistent::start) takes one message, as [`irecv`](Self::irecv) does; its outcome says
    /// who has sent how much.
    ///
    /// # Errors
    /// `source` out of range, `tag` negative, communicator revoked. A message that is longer than the buffer is
    /// [`Error::Truncated`] of the run.
    pub fn recv_init<B: ElementBuffer>(
        &self,
        buf: B,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<PersistentReceive<B>, Error> {
        let buffer = Held::new(buf);
        let (base, bytes) = buffer.memory();
        let (source, tag) = (source.into().raw(), tag.into().raw());
        let raw = self.raw().recv_init_raw(MutBuf::contiguous(base, bytes), source, tag)?;
        Ok(Persistent::new(raw, buffer, Held::new(())))
    }
}

/// Preparing concerns no other rank, and starts nothing.
impl<'scope, 'env> Scope<'scope, 'env> {
    fn prepare_send<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        dest: u32,
        tag: i32,
        mode: Mode,
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T]>, Error> {
        let buf = Lent::new(buf);
        let MutBuf { base, layout } = buf.memory();
        let raw = self.comm().raw().send_init_raw(ConstBuf { base, layout }, dest, tag, mode)?;
        Ok(self.keep_persistent(raw, buf, Lent::NOTHING))
    }

    /// As [`Comm::send_init`], of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::send_init`].
    pub fn send_init<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        dest: u32,
        tag: i32,
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T]>, Error> {
        self.prepare_send(buf, dest, tag, Mode::Standard)
    }

    /// As [`Comm::ssend_init`], of a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::send_init`].
    pub fn ssend_init<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        dest: u32,
        tag: i32,
    ) -> Result<ScopedPersistent<'scope, &'scope mut [T]>, Error> {
        self.prepare_send(buf, dest, tag, Mode::Synchronous)
    }

    /// As [`Comm::recv_init`], into a borrowed buffer.
    ///
    /// # Errors
    /// As [`Comm::recv_init`].
    pub fn recv_init<T: Element>(
        &'scope self,
        buf: &'scope mut [T],
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<ScopedPersistentReceive<'scope, T>, Error> {
        let buf = Lent::new(buf);
        let (source, tag) = (source.into().raw(), tag.into().raw());
        let raw = self.comm().raw().recv_init_raw(buf.memory(), source, tag)?;
        Ok(self.keep_persistent(raw, buf, Lent::NOTHING))
    }
}
