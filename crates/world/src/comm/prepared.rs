//! Persistent messages: checked once, posted by each start.

use tocsin_p2p::Layout;

use super::Comm;
use super::null::PROC_NULL;
use crate::error::Error;
use crate::outcome::message_error;
use crate::request::{Prepared, RawRequest};
use crate::{ConstBuf, Mode, MutBuf};

impl Comm {
    /// Prepares a send that is then [started](RawRequest::start) as often as one likes; each start sends what the buffer holds then. Says nothing to the other
    /// rank, and touches no buffer.
    ///
    /// # Errors
    /// [`Error::RankOutOfRange`], [`Error::NegativeTag`], [`Error::Revoked`], [`Error::Finalized`], [`Error::Aborted`], [`Error::InHandler`] where the thread may not call the
    /// library, a buffer that is longer than any can be. What has become of the other rank is asked by each start.
    pub fn send_init_raw(&self, buf: ConstBuf, dest: u32, tag: i32, mode: Mode) -> Result<RawRequest, Error> {
        let operation = if mode == Mode::Synchronous { "ssend_init" } else { "send_init" };
        if dest != PROC_NULL {
            self.peer(operation, dest)?;
        }
        Comm::tag(operation, tag)?;
        self.prepared(operation, Prepared::Send { buf, dest, tag, mode }, &buf.layout)
    }

    /// Prepares a receive that is then [started](RawRequest::start) as often as one likes; `None` matches any. Each run takes a message of its own, and its
    /// outcome says whose.
    ///
    /// # Errors
    /// As [`send_init_raw`](Self::send_init_raw).
    pub fn recv_init_raw(
        &self,
        buf: MutBuf,
        source: Option<u32>,
        tag: Option<i32>,
    ) -> Result<RawRequest, Error> {
        let operation = "recv_init";
        self.selection(operation, source.filter(|rank| *rank != PROC_NULL), tag)?;
        self.prepared(operation, Prepared::Receive { buf, source, tag }, &buf.layout)
    }

    fn prepared(
        &self,
        operation: &'static str,
        message: Prepared,
        layout: &Layout,
    ) -> Result<RawRequest, Error> {
        let bytes = layout.bytes();
        let state = self.shared().enter_open(operation)?;
        if bytes > isize::MAX as usize {
            return Err(message_error(operation, tocsin_p2p::Error::TooLong { bytes }));
        }
        if state.p2p.is_revoked(self.context()) {
            return Err(Error::Revoked { operation });
        }
        drop(state);
        Ok(RawRequest::message(self.clone(), message))
    }
}
