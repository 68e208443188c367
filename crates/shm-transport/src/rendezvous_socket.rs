//! Framed messages and descriptors over a Unix socket between the launcher and a rank.
//!
//! A frame is a 16-byte head (magic, length of the body, number of descriptors) and a body of at most
//! [`MAX_BODY`] bytes; a descriptor travels with the first byte of its frame. The other end is refused unless
//! it runs as the same user. Every call has a time-out, and what does not look like a frame of ours is an
//! error. After an error the socket is of no more use.

#[cfg(test)]
mod tests;

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, getsockopt, recvmsg, sendmsg, sockopt::PeerCredentials,
};

use crate::{Error, Segment};

/// Longest body of a frame, in bytes.
pub const MAX_BODY: usize = 64 << 10;
const HEAD: usize = 16;
const MAGIC: u32 = u32::from_le_bytes(*b"tocR");
/// Most descriptors that a hostile frame can make the kernel install here, all of which are closed:
/// SCM_MAX_FD.
const MAX_FDS: usize = 253;

/// One end of a connection between launcher and rank.
#[derive(Debug)]
pub struct RendezvousSocket {
    stream: UnixStream,
    timeout: Duration,
}

/// A received frame.
#[derive(Debug)]
pub struct Frame {
    /// The body.
    pub body: Vec<u8>,
    /// The descriptor that came with it. Close-on-exec.
    pub fd: Option<OwnedFd>,
}

impl RendezvousSocket {
    /// Takes over a connected Unix stream socket, if its other end runs as this process's user. `timeout` is
    /// for each call to come.
    ///
    /// A socketpair's credentials are those of who made it: a rank checks its launcher, while a launcher that
    /// made the pair checks itself.
    ///
    /// # Errors
    /// [`Error::ForeignUser`]; [`Error::Os`] when it is no Unix socket.
    pub fn new(stream: UnixStream, timeout: Duration) -> Result<RendezvousSocket, Error> {
        // SAFETY: no arguments, cannot fail.
        let expected = unsafe { libc::geteuid() };
        Self::for_user(stream, timeout, expected)
    }

    fn for_user(stream: UnixStream, timeout: Duration, expected: u32) -> Result<RendezvousSocket, Error> {
        let peer = getsockopt(&stream, PeerCredentials)
            .map_err(|e| Error::Os { call: "getsockopt(SO_PEERCRED)", source: e.into() })?;
        if peer.uid() != expected {
            return Err(Error::ForeignUser { found: peer.uid(), expected });
        }
        stream.set_nonblocking(true).map_err(|source| Error::Os { call: "fcntl(O_NONBLOCK)", source })?;
        Ok(RendezvousSocket { stream, timeout })
    }

    /// Changes the time allowed for each call.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::TimedOut`], [`Error::Os`]; [`Error::Protocol`] for a body longer than
    /// [`MAX_BODY`].
    pub fn send(&self, body: &[u8], fd: Option<BorrowedFd<'_>>) -> Result<(), Error> {
        const DOING: &str = "sending a message";
        if body.len() > MAX_BODY {
            let what = format!("a message of {} bytes, longer than {MAX_BODY}", body.len());
            return Err(Error::Protocol { what });
        }
        let mut frame = Vec::with_capacity(HEAD + body.len());
        frame.extend(MAGIC.to_le_bytes());
        frame.extend((body.len() as u32).to_le_bytes());
        frame.extend(u32::from(fd.is_some()).to_le_bytes());
        frame.extend(0u32.to_le_bytes());
        frame.extend(body);
        let deadline = Instant::now() + self.timeout;
        let fds: Vec<RawFd> = fd.iter().map(AsRawFd::as_raw_fd).collect();
        let mut sent = 0;
        while sent < frame.len() {
            let rights = [ControlMessage::ScmRights(&fds)];
            // The descriptor goes with the first byte and only once.
            let control = if sent == 0 && !fds.is_empty() { &rights[..] } else { &[] };
            let data = [IoSlice::new(&frame[sent..])];
            let flags = MsgFlags::MSG_NOSIGNAL;
            match sendmsg::<()>(self.stream.as_raw_fd(), &data, control, flags, None) {
                Ok(n) => sent += n,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => self.wait(PollFlags::POLLOUT, deadline, DOING)?,
                Err(Errno::EPIPE | Errno::ECONNRESET) => return Err(Error::Closed { doing: DOING }),
                Err(e) => return Err(Error::Os { call: "sendmsg", source: e.into() }),
            }
        }
        Ok(())
    }

    /// Receives a frame.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::TimedOut`], [`Error::Protocol`], [`Error::Os`].
    pub fn receive(&self) -> Result<Frame, Error> {
        const DOING: &str = "waiting for a message";
        let deadline = Instant::now() + self.timeout;
        let mut head = [0u8; HEAD];
        let mut fds = self.fill(&mut head, deadline, DOING)?;
        let word = |i: usize| u32::from_le_bytes([head[i], head[i + 1], head[i + 2], head[i + 3]]);
        let (magic, len, announced, zero) = (word(0), word(4) as usize, word(8) as usize, word(12));
        let nonsense = |what: String| Err(Error::Protocol { what });
        if magic != MAGIC || zero != 0 {
            return nonsense(format!("a frame that starts with {magic:#010x}"));
        }
        if len > MAX_BODY {
            return nonsense(format!("a message of {len} bytes, longer than {MAX_BODY}"));
        }
        let mut body = vec![0; len];
        fds.extend(self.fill(&mut body, deadline, DOING)?);
        if announced > 1 || fds.len() != announced {
            return nonsense(format!("{} descriptors where {announced} were announced", fds.len()));
        }
        Ok(Frame { body, fd: fds.pop() })
    }

    /// Reads until `buffer` is full; returns the descriptors that came along.
    fn fill(&self, buffer: &mut [u8], deadline: Instant, doing: &'static str) -> Result<Vec<OwnedFd>, Error> {
        let mut fds = Vec::new();
        let mut filled = 0;
        while filled < buffer.len() {
            let mut space = nix::cmsg_space!([RawFd; MAX_FDS]);
            let mut data = [IoSliceMut::new(&mut buffer[filled..])];
            let received = recvmsg::<()>(
                self.stream.as_raw_fd(),
                &mut data,
                Some(&mut space),
                MsgFlags::MSG_CMSG_CLOEXEC,
            );
            match received {
                Ok(message) => {
                    let control =
                        message.cmsgs().map_err(|e| Error::Os { call: "recvmsg", source: e.into() })?;
                    for part in control {
                        if let ControlMessageOwned::ScmRights(raw) = part {
                            // SAFETY: the kernel has just installed these descriptors for us.
                            fds.extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
                        }
                    }
                    if message.bytes == 0 {
                        return Err(Error::Closed { doing });
                    }
                    filled += message.bytes;
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => self.wait(PollFlags::POLLIN, deadline, doing)?,
                Err(Errno::ECONNRESET) => return Err(Error::Closed { doing }),
                Err(e) => return Err(Error::Os { call: "recvmsg", source: e.into() }),
            }
        }
        Ok(fds)
    }

    fn wait(&self, what: PollFlags, deadline: Instant, doing: &'static str) -> Result<(), Error> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::TimedOut { doing, seconds: self.timeout.as_secs_f64() });
        }
        let mut fds = [PollFd::new(self.stream.as_fd(), what)];
        let timeout = PollTimeout::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(PollTimeout::MAX);
        match nix::poll::poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(e) => Err(Error::Os { call: "poll", source: e.into() }),
        }
    }
}

impl AsFd for RendezvousSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl From<RendezvousSocket> for UnixStream {
    fn from(socket: RendezvousSocket) -> UnixStream {
        socket.stream
    }
}

/// Passes a segment on.
///
/// # Errors
/// As [`RendezvousSocket::send`].
pub fn send_segment(socket: &RendezvousSocket, segment: &Segment) -> Result<(), Error> {
    socket.send(&segment.ranks().to_le_bytes(), Some(segment.fd()))
}

/// Receives a segment for `expected_ranks` ranks and attaches it.
///
/// # Errors
/// As [`RendezvousSocket::receive`] and [`Segment::attach`].
pub fn recv_segment(socket: &RendezvousSocket, expected_ranks: u32) -> Result<Segment, Error> {
    let frame = socket.receive()?;
    let nonsense = |what: &str| Error::Protocol { what: what.to_owned() };
    let ranks: [u8; 4] =
        frame.body.try_into().map_err(|_| nonsense("another message where the segment should come"))?;
    let fd = frame.fd.ok_or_else(|| nonsense("a segment without its descriptor"))?;
    let found = u32::from_le_bytes(ranks);
    if found != expected_ranks {
        return Err(Error::RankCount { found, expected: expected_ranks });
    }
    Segment::attach(fd, expected_ranks)
}
