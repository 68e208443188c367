//! Pages through pipes (`vmsplice`): a sender puts the pages of its buffer into a pipe, the receiver reads from that into its own.
//!
//! One copy, made by the kernel in the receiver's `read`, for which it asks neither who may trace whom nor in which name spaces they are: a rank
//! that got the pipe's end may read. So it works where `process_vm_readv` is forbidden, if `vmsplice` is not.
//!
//! | what | where |
//! |---|---|
//! | a pipe per ordered pair, made by its sender when it first has something large for the receiver | [`Lender`] |
//! | its read end travels by a datagram to a socket of the receiver's, without a name in the file system; the kernel's name for it and a secret stand in the receiver's block | [`Mailbox`] |
//! | the receiver fetches it in calls of user threads | [`Mailbox::collect`] |
//!
//! The sender keeps a read end, too, so that no `vmsplice` finds a pipe that nobody reads, for which the kernel would send SIGPIPE. Whoever has
//! no descriptors left, or cannot be reached, goes without: its messages are copied through the Bulk lane.
//!
//! Both calls go past libc's functions of their names, which are cancellation points: a handler may run where the program can be cancelled.
//!
//! Nothing here waits: both ends are non-blocking, the receiver's by an open file of its own, so that no sender can make it otherwise. A lock of
//! the kernel's on the pipe is held by who puts or reads for as long as that takes: for a piece, and what its buffer's pages have to be fetched from.
//! So a sender may wait for as long as a receiver's faults take, as who copies by the kernel may for those of the other's buffer.

use std::ffi::CStr;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr};
use tocsin_sync::atomic::Ordering;

use crate::segment::layout::State;

/// Bytes that a pipe is asked to hold: several pieces, so that a sender that is interrupted for it puts more than one in. The kernel may leave it
/// at less, for who has many.
const PIPE_BYTES: libc::c_int = 512 << 10;
/// A pipe that holds less than a piece is none: each few pages of a message would take an interrupt at either end.
const LEAST_BYTES: libc::c_int = 64 << 10;
/// Datagrams looked at in one go.
const MAILS: u32 = 1024;
/// Bytes of one: the secret, who sends, 0.
const MAIL: usize = 24;
/// Calls that one read may take.
const CALLS: u32 = 4;

/// Where descriptors for this rank come in.
#[derive(Debug)]
pub(super) struct Mailbox {
    socket: OwnedFd,
    secret: [u64; 2],
    /// How many were sent, as of the last look.
    collected: u32,
}

impl Mailbox {
    /// Opens one, and says in the rank's block where it is. User threads only.
    pub(super) fn open(state: &State) -> io::Result<Mailbox> {
        let (socket, name) = socket()?;
        let mut secret = [0u64; 2];
        // SAFETY: `secret` is writable for its size.
        let got = unsafe { libc::getrandom(secret.as_mut_ptr().cast(), size_of_val(&secret), 0) };
        if got != size_of_val(&secret) as isize {
            return Err(io::Error::last_os_error());
        }
        let [first, second] = &state.mail_secret;
        first.store(secret[0], Ordering::Relaxed);
        second.store(secret[1], Ordering::Relaxed);
        // SYNC POINT: Release: who finds the name finds the secret.
        state.mail_name.store(name, Ordering::Release);
        Ok(Mailbox { socket, secret, collected: 0 })
    }

    /// Whether something has come since the last look.
    #[inline]
    pub(super) fn has_mail(&self, state: &State) -> bool {
        // SYNC POINT: Acquire pairs with the Release of `Lender::new`: what is counted has been sent.
        state.mails.load(Ordering::Acquire) != self.collected
    }

    /// Takes in what has come since: `keep` gets the sender and the end to read from. User threads only.
    pub(super) fn collect(&mut self, state: &State, mut keep: impl FnMut(u32, Reader)) {
        // SYNC POINT: Acquire pairs with the Release of `Lender::new`: what is counted has been sent.
        let sent = state.mails.load(Ordering::Acquire);
        if sent == self.collected {
            return;
        }
        for _ in 0..MAILS {
            match self.receive() {
                Ok(Some((from, reader))) => keep(from, reader),
                Ok(None) => {}
                Err(Errno::EINTR) => {}
                Err(_) => break,
            }
        }
        self.collected = sent;
    }

    /// One datagram; `None`: it is not from a rank of this world, or has no pipe.
    fn receive(&self) -> Result<Option<(u32, Reader)>, Errno> {
        let mut mail = [0u8; MAIL];
        let mut data = libc::iovec { iov_base: mail.as_mut_ptr().cast(), iov_len: MAIL };
        // Words, so that it is aligned.
        let mut space = [0u64; 4];
        // SAFETY: zeros are a `msghdr`.
        let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut data, 1);
        (message.msg_control, message.msg_controllen) = (space.as_mut_ptr().cast(), size_of_val(&space) as _);
        let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
        // SAFETY: what the message points to is on this stack, writable and as long as it says.
        let received =
            Errno::result(unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, flags) })?;
        // SAFETY: the kernel has just filled it in.
        let received_end = unsafe { descriptor(&message) };
        let whole = usize::try_from(received) == Ok(MAIL);
        let (word, [.., from, zero]) = (|at: usize| word(&mail, at), [word(&mail, 4), word(&mail, 5)]);
        let secret = [0, 2].map(|at| u64::from(word(at)) | u64::from(word(at + 1)) << 32);
        if !whole || zero != 0 || secret != self.secret {
            return Ok(None);
        }
        Ok(received_end.and_then(|fd| Reader::of(&fd)).map(|reader| (from, reader)))
    }
}

/// The last descriptor that came with a message. All others are closed: also those of one that brought more than there was room for, whoever
/// sent it. Allocates nothing: a start of what was prepared before the peer has sent it may come here.
///
/// # Safety
/// `recvmsg` has filled the message in, and nobody has taken its descriptors yet.
#[allow(clippy::unnecessary_cast)] // lengths are of another type in other C libraries
unsafe fn descriptor(message: &libc::msghdr) -> Option<OwnedFd> {
    let mut last = None;
    // SAFETY: - the parts lie where and end where the kernel says: the caller's promise;
    //         - it has installed these descriptors for us.
    unsafe {
        let mut part = libc::CMSG_FIRSTHDR(message);
        while let Some(head) = part.as_ref() {
            if (head.cmsg_level, head.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let bytes = (head.cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                let first = libc::CMSG_DATA(part).cast::<RawFd>();
                let each = (0..bytes / size_of::<RawFd>()).map(|n| first.wrapping_add(n).read_unaligned());
                each.for_each(|fd| last = Some(OwnedFd::from_raw_fd(fd)));
            }
            part = libc::CMSG_NXTHDR(message, part);
        }
    }
    last
}

fn word(mail: &[u8; MAIL], at: usize) -> u32 {
    mail.chunks_exact(4).nth(at).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// A socket for datagrams, and its name: the kernel chooses one in its own space of names, and forgets it with the socket.
fn socket() -> io::Result<(OwnedFd, u64)> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = nix::sys::socket::socket(AddressFamily::Unix, SockType::Datagram, flags, None)?;
    nix::sys::socket::bind(socket.as_raw_fd(), &UnixAddr::new_unnamed())?;
    let address: UnixAddr = nix::sys::socket::getsockname(socket.as_raw_fd())?;
    let name = address.as_abstract().filter(|name| name.len() <= size_of::<u64>() && !name.contains(&0));
    let name =
        name.ok_or_else(|| io::Error::other("the kernel names sockets in a way that is not known here"))?;
    let mut word = [0u8; size_of::<u64>()];
    word.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
    Ok((socket, u64::from_le_bytes(word)))
}

/// The address of the socket of a name.
fn address(name: u64) -> io::Result<UnixAddr> {
    let name = name.to_le_bytes();
    let len = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    Ok(UnixAddr::new_abstract(name.get(..len).unwrap_or(&name))?)
}

/// What became of an attempt to put pages into a pipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Put {
    Bytes(usize),
    Full,
    /// Not these pages, or not now: the next ones perhaps.
    Refused,
    /// Nor any others.
    Never,
    /// The lane that tells of them is broken.
    Corrupt,
}

/// The sender's side of a pipe.
#[derive(Debug)]
pub(super) struct Lender {
    pipe: OwnedFd,
    /// See the module's text.
    _read_end: OwnedFd,
}

impl Lender {
    /// Makes the pipe from `rank` to the one of this state, and sends it the end to read from. `None`: it has not joined yet. An error may be that
    /// it has more in its mailbox than that holds. User threads only.
    pub(super) fn new(mailbox: &Mailbox, rank: u32, theirs: &State) -> io::Result<Option<Lender>> {
        // SYNC POINT: Acquire pairs with `Mailbox::open`.
        let name = theirs.mail_name.load(Ordering::Acquire);
        if name == 0 {
            return Ok(None);
        }
        let address = address(name)?;
        let (read_end, pipe) = pipe()?;
        let secret = theirs.mail_secret.each_ref().map(|word| word.load(Ordering::Relaxed).to_le_bytes());
        let mut mail = [0u8; MAIL];
        let content = secret.iter().flatten().copied().chain(rank.to_le_bytes());
        mail.iter_mut().zip(content).for_each(|(to, from)| *to = from);
        let fds = [read_end.as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&fds)];
        let data = [io::IoSlice::new(&mail)];
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        let socket = mailbox.socket.as_raw_fd();
        nix::sys::socket::sendmsg(socket, &data, &rights, flags, Some(&address))?;
        // SYNC POINT: Release: who finds the count finds the datagram.
        theirs.mails.fetch_add(1, Ordering::Release);
        Ok(Some(Lender { pipe, _read_end: read_end }))
    }

    /// Puts pages in. Handler-safe; one system call, which does not wait.
    ///
    /// # Safety
    /// `from` is readable for `len` bytes.
    pub(super) unsafe fn put(&self, from: *const u8, len: usize) -> Put {
        let pages = libc::iovec { iov_base: from.cast_mut().cast(), iov_len: len };
        // Not as a gift: the pages stay the buffer's.
        // SAFETY: the vector lives on this stack, and the kernel only reads what it names, which the caller vouches for.
        let n = unsafe {
            libc::syscall(
                libc::SYS_vmsplice,
                self.pipe.as_raw_fd(),
                &raw const pages,
                1usize,
                libc::SPLICE_F_NONBLOCK,
            )
        };
        match usize::try_from(n) {
            Ok(n) if n > 0 => Put::Bytes(n.min(len)),
            Ok(_) => Put::Refused,
            Err(_) => refusal(tocsin_sync::errno::get()),
        }
    }
}

/// What an error of `vmsplice` says of the pages that come after these.
fn refusal(errno: i32) -> Put {
    match errno {
        libc::EAGAIN => Put::Full,
        // A device's memory, which has no pages to lend; no memory at the moment; somebody who looks on at the system's calls.
        libc::EFAULT | libc::ENOMEM | libc::EINTR => Put::Refused,
        // A filter of system calls, or the pipe is not one any more.
        _ => Put::Never,
    }
}

/// Whether an error of [`Lender::new`] stays: it is not for want of something that may be there again.
fn is_for_good(error: &io::Error) -> bool {
    let passes = [
        libc::EMFILE,
        libc::ENFILE,
        libc::ENOMEM,
        libc::ENOBUFS,
        libc::EAGAIN,
        libc::EINTR,
        libc::ETOOMANYREFS,
        libc::EDQUOT,
    ];
    error.raw_os_error().is_none_or(|errno| !passes.contains(&errno))
}

/// A pipe, of as much as the kernel gives: the end to read from, and that to write to.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made these descriptors for us.
    let [read_end, pipe] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    // Refused to ordinary users who have many pages in pipes: it holds less then, two pages in the end.
    // SAFETY: no pointers.
    let bytes = unsafe {
        libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES);
        libc::fcntl(pipe.as_raw_fd(), libc::F_GETPIPE_SZ)
    };
    if bytes < LEAST_BYTES {
        // What holds pages now may give them back.
        return Err(io::Error::from_raw_os_error(libc::EDQUOT));
    }
    Ok((read_end, pipe))
}

/// The receiver's side of a pipe.
#[derive(Debug)]
pub(super) struct Reader {
    pipe: OwnedFd,
}

impl Reader {
    /// Of an end that was received; `None`: it is no pipe, or cannot be opened anew. User threads only.
    fn of(received: &OwnedFd) -> Option<Reader> {
        let fd = received.as_raw_fd();
        // SAFETY: zeros are a `stat`, which the call fills in.
        let found = unsafe {
            let mut found: libc::stat = core::mem::zeroed();
            (libc::fstat(fd, &raw mut found) == 0).then_some(found)
        };
        if found?.st_mode & libc::S_IFMT != libc::S_IFIFO {
            return None;
        }
        // Whether reads wait is a property of the open file, which the sender shares: so this is another of the same pipe.
        let mut path = [0; 32];
        write!(path.as_mut_slice(), "/proc/self/fd/{fd}\0").ok()?;
        let path = CStr::from_bytes_until_nul(&path).ok()?;
        // SAFETY: the path ends with a zero byte and lives through the call.
        let own = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_NONBLOCK | libc::O_CLOEXEC) };
        // SAFETY: the kernel has just made this descriptor for us.
        (own >= 0).then(|| Reader { pipe: unsafe { OwnedFd::from_raw_fd(own) } })
    }

    /// Reads `len` bytes; false: they are not there. Handler-safe; mostly one system call, which does not wait.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes.
    pub(super) unsafe fn read(&self, to: *mut u8, len: usize) -> bool {
        let mut done = 0usize;
        for _ in 0..CALLS {
            let left = len.saturating_sub(done);
            // SAFETY: done + left <= len, for which the caller vouches.
            let n =
                unsafe { libc::syscall(libc::SYS_read, self.pipe.as_raw_fd(), to.wrapping_add(done), left) };
            match usize::try_from(n) {
                Ok(n) if n >= left => return true,
                Ok(n) if n > 0 => done = done.saturating_add(n),
                _ => return false,
            }
        }
        false
    }
}

/// What is known of the pipe to a peer.
#[derive(Debug)]
pub(super) enum To {
    /// Not made yet.
    Unknown,
    /// It could not be made, and may be the `calls`th time that somebody asks for it; if not, then after `next` more.
    Later {
        calls: u32,
        next: u32,
    },
    Refused,
    Open(Lender),
}

/// How often a pipe is asked for between two attempts to make it, at most: an attempt takes some system calls.
const SELDOM: u32 = 64;

impl To {
    /// Whether an attempt is due. Each question counts.
    pub(super) fn is_due(&mut self) -> bool {
        match self {
            To::Unknown => true,
            To::Later { calls, .. } => {
                *calls = calls.saturating_sub(1);
                *calls == 0
            }
            To::Refused | To::Open(_) => false,
        }
    }

    /// An attempt has failed.
    pub(super) fn failed(&mut self, error: &io::Error) {
        *self = match self {
            _ if is_for_good(error) => To::Refused,
            To::Later { next, .. } => To::Later { calls: *next, next: next.saturating_mul(2).min(SELDOM) },
            _ => To::Later { calls: 1, next: 2 },
        };
    }
}

/// Why no pages go through pipes here; `None` if they do, as far as one process can try. User threads only.
pub fn vmsplice_refusal() -> Option<String> {
    const MORE: &str = "raise `ulimit -n`";
    let why = |what: &str, error: io::Error| {
        let errno = error.raw_os_error().unwrap_or(0);
        let hint = match errno {
            libc::EMFILE | libc::ENFILE => MORE,
            libc::EDQUOT => "this user has too many pages in pipes, raise fs.pipe-user-pages-soft",
            libc::ENOSYS | libc::EPERM => "a filter of system calls or a container",
            _ => "large messages go otherwise",
        };
        Some(format!("{what} is refused ({error}): {hint}"))
    };
    if let Err(error) = socket() {
        return why("a socket for the pipes' ends", error);
    }
    let (read_end, pipe) = match pipe() {
        Ok(ends) => ends,
        Err(error) => return why("a pipe", error),
    };
    let Some(reader) = Reader::of(&read_end) else {
        return Some("a pipe cannot be opened anew: mount /proc, or raise `ulimit -n`".into());
    };
    let lender = Lender { pipe, _read_end: read_end };
    let (from, mut to) = ([7u8; 64], [0u8; 64]);
    // SAFETY: arrays are readable and writable for their length.
    let (put, read) = unsafe { (lender.put(from.as_ptr(), from.len()), io::Error::last_os_error()) };
    if put != Put::Bytes(from.len()) {
        return why("vmsplice", read);
    }
    // SAFETY: as above.
    let arrived = unsafe { reader.read(to.as_mut_ptr(), to.len()) } && from == to;
    (!arrived).then(|| "vmsplice puts other bytes into a pipe than are there".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two ranks' mailboxes, and what the second has been sent by the first.
    fn sent(change: impl Fn(&State)) -> (Lender, Vec<(u32, Reader)>) {
        let (mine, theirs) = (State::running(), State::running());
        let first = Mailbox::open(&mine).unwrap();
        assert!(Lender::new(&first, 3, &theirs).unwrap().is_none(), "who has not joined is asked again");
        let mut second = Mailbox::open(&theirs).unwrap();
        change(&theirs);
        let lender = Lender::new(&first, 3, &theirs).unwrap().unwrap();
        let mut got = Vec::new();
        second.collect(&theirs, |from, reader| got.push((from, reader)));
        second.collect(&theirs, |_, _| panic!("it came once"));
        (lender, got)
    }

    #[test]
    fn pages_come_through_and_a_full_pipe_says_so() {
        let (lender, mut got) = sent(|_| {});
        let (from, reader) = got.pop().unwrap();
        assert_eq!((from, got.len()), (3, 0));
        let message: Vec<u8> = (0..2 << 20).map(|i: u32| (i / 7) as u8).collect();
        let (mut put, mut read) = (0, 0);
        let mut target = vec![0u8; message.len()];
        // SAFETY: nothing is there to be read.
        assert!(!unsafe { reader.read(target.as_mut_ptr(), 1) });
        while read < message.len() {
            // SAFETY: inside the vectors.
            unsafe {
                while let Put::Bytes(n) =
                    lender.put(message[put..].as_ptr(), (message.len() - put).min(65_536))
                {
                    put += n;
                    if put == message.len() {
                        break;
                    }
                }
                assert!(put == message.len() || lender.put(message[put..].as_ptr(), 1) == Put::Full);
                let n = (put - read).min(50_001);
                assert!(reader.read(target[read..].as_mut_ptr(), n));
                read += n;
            }
        }
        assert!(target == message);
        assert_eq!(vmsplice_refusal(), None);
    }

    #[test]
    fn the_receiver_is_gone_and_nobody_gets_a_signal() {
        let (lender, got) = sent(|_| {});
        drop(got);
        // SAFETY: the array is readable.
        assert_eq!(unsafe { lender.put([1u8; 64].as_ptr(), 64) }, Put::Bytes(64));
    }

    #[test]
    fn strangers_send_nothing() {
        let (_lender, got) = sent(|state| {
            state.mail_secret[1].fetch_add(1, Ordering::Relaxed);
        });
        assert!(got.is_empty());
    }

    /// However many there are: a rank has only so many descriptors.
    #[test]
    fn what_strangers_send_is_closed() {
        for many in [1, 2, 3, 40] {
            let theirs = State::running();
            let mut mailbox = Mailbox::open(&theirs).unwrap();
            let (read_end, pipe) = pipe().unwrap();
            let fds = vec![pipe.as_raw_fd(); many];
            let rights = [ControlMessage::ScmRights(&fds)];
            let address = address(theirs.mail_name.load(Ordering::Relaxed)).unwrap();
            let (stranger, _) = socket().unwrap();
            let data = [io::IoSlice::new(&[0; MAIL])];
            let flags = MsgFlags::empty();
            nix::sys::socket::sendmsg(stranger.as_raw_fd(), &data, &rights, flags, Some(&address)).unwrap();
            drop(pipe);
            theirs.mails.store(1, Ordering::Relaxed);
            mailbox.collect(&theirs, |_, _| panic!("it is a stranger's"));
            let mut byte = 0u8;
            // SAFETY: one byte is writable.
            let n = unsafe { libc::read(read_end.as_raw_fd(), (&raw mut byte).cast(), 1) };
            assert_eq!(n, 0, "somebody has kept an end to write to, of {many}");
        }
    }

    #[test]
    fn what_is_no_pipe_is_not_read() {
        let file = std::fs::File::open("/dev/zero").unwrap();
        assert!(Reader::of(&file.into()).is_none());
    }
}
