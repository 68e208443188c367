//! Point to point.

use tocsin_p2p::{Class, MessageId, RecvArgs, SendArgs};

use super::Comm;
use crate::error::Error;
use crate::outcome::message_error;
use crate::request::{Kind, RawRequest, Status};
use crate::{ConstBuf, Mode, MutBuf};

/// A message that [`Comm::improbe`] took out of matching, to be received once by [`Comm::mrecv_raw`].
#[derive(Debug)]
#[must_use = "a message that nobody receives stays in memory until finalize"]
pub struct Message {
    id: MessageId,
}

impl Comm {
    /// World rank of `rank`, or the error of a rank out of range.
    fn peer(&self, operation: &'static str, rank: u32) -> Result<u32, Error> {
        self.world_rank(rank).ok_or_else(|| Error::RankOutOfRange { operation, rank, size: self.size() })
    }

    fn tag(operation: &'static str, tag: i32) -> Result<i32, Error> {
        if tag < 0 { Err(Error::NegativeTag { operation, tag }) } else { Ok(tag) }
    }

    /// Checked source and tag of a receive.
    fn selection(
        &self,
        operation: &'static str,
        source: Option<u32>,
        tag: Option<i32>,
    ) -> Result<(Option<u32>, Option<i32>), Error> {
        self.shared().open(operation)?;
        let source = source.map(|rank| self.peer(operation, rank)).transpose()?;
        let tag = tag.map(|tag| Comm::tag(operation, tag)).transpose()?;
        Ok((source, tag))
    }

    /// Starts a send.
    ///
    /// # Errors
    /// [`Error::RankOutOfRange`], [`Error::NegativeTag`], [`Error::PeerDead`], [`Error::PeerFinalized`],
    /// [`Error::Revoked`], [`Error::Finalized`], refusals of memory.
    ///
    /// # Safety
    /// What `buf` describes is readable, and not written, until the request is complete or the rank has finalized.
    pub unsafe fn isend_raw(
        &self,
        buf: ConstBuf,
        dest: u32,
        tag: i32,
        mode: Mode,
    ) -> Result<RawRequest, Error> {
        let operation = if mode == Mode::Synchronous { "issend" } else { "isend" };
        self.shared().open(operation)?;
        let dest = self.peer(operation, dest)?;
        let tag = Comm::tag(operation, tag)?;
        let args = SendArgs { context: self.context(), dest, tag, buf, mode, class: Class::Eager, cookie: 0 };
        let mut state = self.shared().enter();
        // SAFETY: - the buffer: promised by the caller.
        let id = unsafe { state.p2p.isend(args) }.map_err(|e| message_error(operation, e))?;
        let completion = state.p2p.completion(id);
        drop(state);
        self.request(operation, Kind::Send { tag, bytes: buf.layout.bytes() }, id, completion)
    }

    fn request(
        &self,
        operation: &'static str,
        kind: Kind,
        id: tocsin_progress::Id,
        completion: Option<std::ptr::NonNull<tocsin_progress::Completion>>,
    ) -> Result<RawRequest, Error> {
        // A request that was just made has a completion.
        let completion = completion.ok_or_else(|| Error::System {
            operation: operation.into(),
            reason: "the request was lost; please report this".into(),
        })?;
        Ok(RawRequest::new(self.clone(), operation, kind, id, completion))
    }

    /// Starts a receive; `None` matches any.
    ///
    /// # Errors
    /// [`Error::RankOutOfRange`], [`Error::NegativeTag`], [`Error::PeerDead`], [`Error::Revoked`],
    /// [`Error::Finalized`], refusals of memory.
    ///
    /// # Safety
    /// What `buf` describes is writable, and used by nobody else, until the request is complete or the rank has
    /// finalized.
    pub unsafe fn irecv_raw(
        &self,
        buf: MutBuf,
        source: Option<u32>,
        tag: Option<i32>,
    ) -> Result<RawRequest, Error> {
        let (source, tag) = self.selection("irecv", source, tag)?;
        let args = RecvArgs { context: self.context(), source, tag, buf, class: Class::Eager, cookie: 0 };
        let mut state = self.shared().enter();
        // SAFETY: - the buffer: promised by the caller.
        let id = unsafe { state.p2p.irecv(args) }.map_err(|e| message_error("irecv", e))?;
        let completion = state.p2p.completion(id);
        drop(state);
        self.request("irecv", Kind::Receive { room: buf.layout.bytes() }, id, completion)
    }

    /// Sends and receives at once, and waits for both. After an error of one, the other is given up and nothing touches
    /// the buffers any more.
    ///
    /// # Errors
    /// Those of either.
    ///
    /// # Safety
    /// As [`isend_raw`](Self::isend_raw) and [`irecv_raw`](Self::irecv_raw), for the time of the call.
    pub unsafe fn sendrecv_raw(
        &self,
        send: ConstBuf,
        dest: u32,
        send_tag: i32,
        recv: MutBuf,
        source: Option<u32>,
        recv_tag: Option<i32>,
    ) -> Result<Status, Error> {
        // All arguments are looked at before anything starts.
        let dest_world = self.peer("sendrecv", dest)?;
        Comm::tag("sendrecv", send_tag)?;
        // SAFETY: - the buffer: promised by the caller for the time of the call, and the request is complete before any
        //           return below.
        let mut receive = unsafe { self.irecv_raw(recv, source, recv_tag)? };
        debug_assert!(self.world_rank(dest) == Some(dest_world));
        // SAFETY: - as above.
        let mut sending = match unsafe { self.isend_raw(send, dest, send_tag, Mode::Standard) } {
            Ok(request) => request,
            Err(error) => {
                self.give_up(&mut receive);
                return Err(error);
            }
        };
        let status = receive.wait();
        let sent = sending.wait();
        sent.and(status)
    }

    /// Ends a receive that nobody wants any more.
    fn give_up(&self, receive: &mut RawRequest) {
        if !receive.cancel() {
            // It has matched: it ends by itself, or with its sender.
            let _outcome = receive.wait();
        }
    }

    /// Looks for a message without receiving it.
    ///
    /// # Errors
    /// [`Error::RankOutOfRange`], [`Error::NegativeTag`], [`Error::PeerDead`], [`Error::Revoked`].
    pub fn iprobe(&self, source: Option<u32>, tag: Option<i32>) -> Result<Option<Status>, Error> {
        let (source, tag) = self.selection("iprobe", source, tag)?;
        self.progress();
        let mut state = self.shared().enter();
        let found = state.p2p.iprobe(self.context(), source, tag);
        drop(state);
        Ok(found.map_err(|e| message_error("iprobe", e))?.map(|s| self.status(s)))
    }

    /// Takes a message out of matching, if one is there.
    ///
    /// # Errors
    /// As [`iprobe`](Self::iprobe).
    pub fn improbe(&self, source: Option<u32>, tag: Option<i32>) -> Result<Option<(Message, Status)>, Error> {
        let (source, tag) = self.selection("improbe", source, tag)?;
        self.progress();
        let mut state = self.shared().enter();
        let found = state.p2p.improbe(self.context(), source, tag);
        drop(state);
        let found = found.map_err(|e| message_error("improbe", e))?;
        Ok(found.map(|(id, status)| (Message { id }, self.status(status))))
    }

    fn status(&self, found: tocsin_p2p::Status) -> Status {
        Status { source: self.rank_of(found.source), tag: found.tag, bytes: found.bytes }
    }

    /// Receives a message that [`improbe`](Self::improbe) took.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a message of another rank's engine; refusals of memory.
    ///
    /// # Safety
    /// As [`irecv_raw`](Self::irecv_raw).
    pub unsafe fn mrecv_raw(&self, message: Message, buf: MutBuf) -> Result<RawRequest, Error> {
        self.shared().open("mrecv")?;
        let mut state = self.shared().enter();
        // SAFETY: - the buffer: promised by the caller.
        let id = unsafe { state.p2p.mrecv(message.id, buf, 0) }.map_err(|e| message_error("mrecv", e))?;
        let completion = state.p2p.completion(id);
        drop(state);
        self.request("mrecv", Kind::Receive { room: buf.layout.bytes() }, id, completion)
    }
}
