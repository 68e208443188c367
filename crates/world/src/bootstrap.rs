//! How a rank learns which world it belongs to.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout};
use tocsin_progress::ProgressCore;
use tocsin_shm_transport::Segment;
use tocsin_shm_transport::deaths::say_who;
use tocsin_shm_transport::rendezvous_socket::{RendezvousSocket, recv_segment, send_segment};
use tocsin_sync::atomic::{AtomicBool, Ordering};
use tocsin_topology::Relation;

use crate::VERSION;
use crate::config::{BOOTSTRAP_FD, Seat};
use crate::error::Error;
use crate::state::RankState;

/// First line of the launcher's message.
const GREETING: &str = "tocsin-launch";
/// The launcher has written before the rank runs, so that this only bounds a launcher that is stuck.
const PATIENCE: Duration = Duration::from_secs(10);

/// As in the kernel's asm-generic/fcntl.h.
const F_SETSIG: libc::c_int = 10;

/// A rank's place in a world.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Place {
    /// The world's memory.
    pub segment: Arc<Segment>,
    /// Which rank of it this is.
    pub rank: u32,
    /// The processor that the rank is bound to.
    pub cpu: Option<usize>,
    /// The processor that its progress thread is to be bound to, if it has one.
    pub progress: Option<usize>,
    /// How many processors the world's ranks are bound to, together; `None`: they are not bound.
    pub cores: Option<usize>,
    /// What lies between the farthest two of the world's ranks: [`Config::relation`](crate::Config::relation).
    pub relation: Option<Relation>,
    /// How many ranks' progress threads share the processor of this rank's, if it is bound; 1: it has that to itself.
    pub sharers: u32,
    /// On how many processors progress threads run that no rank is bound to.
    pub dedicated: u32,
    /// What the progress threads of this process share.
    pub(crate) progress_cores: Arc<ProgressCores>,
    /// Process id of the launcher.
    pub launcher: Option<i32>,
}

impl Place {
    /// The place of `rank` in `segment`.
    pub fn new(segment: Arc<Segment>, rank: u32) -> Place {
        let (cpu, progress, cores, launcher) = (None, None, None, None);
        let progress_cores = Arc::default();
        let relation = None;
        let (sharers, dedicated) = (1, 0);
        Place { segment, rank, cpu, progress, cores, relation, sharers, dedicated, progress_cores, launcher }
    }
}

/// The cores that progress threads of this process run on, by the kernel's number of the processor.
#[derive(Debug, Default)]
pub(crate) struct ProgressCores(Mutex<BTreeMap<usize, Arc<ProgressCore<RankState>>>>);

impl ProgressCores {
    /// The one that a progress thread starts on, which shares it with others if there are `sharers`; `None`: it is not bound, and
    /// has what it needs to itself.
    pub(crate) fn at(&self, cpu: Option<usize>, sharers: u32) -> Arc<ProgressCore<RankState>> {
        let new = || Arc::new(ProgressCore::new(sharers > 1));
        let Some(cpu) = cpu else { return new() };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(cpu).or_insert_with(new).clone()
    }
}

/// A way to find a rank's place. The launcher's socket, threads of this process and a world of one are here; a job
/// manager can be another.
pub trait Bootstrap {
    /// Finds the place. Called once.
    ///
    /// # Errors
    /// [`Error::Bootstrap`], [`Error::JoinedBefore`], [`Error::Version`], or a refusal by the system.
    fn place(self) -> Result<Place, Error>;
}

/// A world of one rank.
#[derive(Debug, Default)]
pub struct Singleton {
    /// Bytes of its heap.
    pub heap: u64,
}

impl Bootstrap for Singleton {
    fn place(self) -> Result<Place, Error> {
        Ok(Place::new(Arc::new(Segment::create_with_heap(1, self.heap).map_err(segment_error)?), 0))
    }
}

/// A rank that is a thread: whoever made the segment tells each its number.
#[derive(Debug)]
pub struct InProcess {
    /// The world's memory.
    pub segment: Arc<Segment>,
    /// Which rank.
    pub rank: u32,
}

impl Bootstrap for InProcess {
    fn place(self) -> Result<Place, Error> {
        Ok(Place::new(self.segment, self.rank))
    }
}

/// A rank that a launcher started: it inherited a socket on which the launcher has said everything.
#[derive(Debug)]
pub struct LauncherSocket {
    fd: RawFd,
}

/// The socket is read once; a second world of the same process finds it used.
static JOINED: AtomicBool = AtomicBool::new(false);

const JOINED_BEFORE: &str = "this process has joined its launcher's world before, and may do so once, also when it has left: join at its \
                             beginning, keep that World until the end, and use its communicators (or `dup` of one) wherever one is needed";

impl LauncherSocket {
    /// The socket that the environment names; `None` when there is no launcher.
    ///
    /// # Errors
    /// [`Error::Bootstrap`] when the variable is there and wrong.
    pub fn from_env() -> Result<Option<LauncherSocket>, Error> {
        let Some(text) = std::env::var_os(BOOTSTRAP_FD) else { return Ok(None) };
        let fd =
            text.to_str().and_then(|t| t.parse::<RawFd>().ok()).filter(|fd| *fd > 2).ok_or_else(|| {
                broken(format!("{BOOTSTRAP_FD}={} is no descriptor number", text.to_string_lossy()))
            })?;
        Ok(Some(LauncherSocket { fd }))
    }
}

impl Bootstrap for LauncherSocket {
    fn place(self) -> Result<Place, Error> {
        if JOINED.swap(true, Ordering::AcqRel) {
            return Err(Error::JoinedBefore { what: JOINED_BEFORE });
        }
        let fd = self.fd;
        // SAFETY: - no pointers; a wrong number is an error of the call.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            return Err(broken(format!("{BOOTSTRAP_FD}={fd}: the descriptor is not open in this process")));
        }
        // SAFETY: - as above: programs that this rank starts must not get the socket.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        // SAFETY: - the launcher left the descriptor to whoever reads the variable, and `JOINED` makes that once.
        let stream = UnixStream::from(unsafe { OwnedFd::from_raw_fd(fd) });
        let wrong = |e: tocsin_shm_transport::Error| broken(format!("{BOOTSTRAP_FD}={fd}: {e}"));
        // All was said before the rank was started, to whoever reads it first.
        let mut poll = [PollFd::new(stream.as_fd(), PollFlags::POLLIN)];
        if nix::poll::poll(&mut poll, PollTimeout::ZERO) == Ok(0) {
            return Err(broken(
                "another process of this rank has joined already, or has tried to: a rank is one process"
                    .into(),
            ));
        }
        let lifeline = stream.try_clone().map_err(|e| Error::os("keeping the launcher's socket", e))?;
        let socket = RendezvousSocket::new(stream, PATIENCE).map_err(wrong)?;
        let hello = Hello::parse(&socket.receive().map_err(wrong)?.body)?;
        let segment = recv_segment(&socket, hello.ranks).map_err(|e| match e {
            tocsin_shm_transport::Error::Version { found, expected } => Error::Version {
                launcher: format!("{VERSION} with segments of version {found}"),
                program: format!("{VERSION} with those of version {expected}"),
            },
            tocsin_shm_transport::Error::Layout { found, expected } => Error::Version {
                launcher: format!("{VERSION} with segments laid out as {found:#x}"),
                program: format!("{VERSION} with those laid out as {expected:#x}"),
            },
            other => wrong(other),
        })?;
        if hello.rank >= hello.ranks {
            return Err(broken(format!("the launcher said rank {} of {}", hello.rank, hello.ranks)));
        }
        say_who(&socket, hello.launcher).map_err(wrong)?;
        end_with_launcher(lifeline)?;
        Ok(Place {
            segment: Arc::new(segment),
            rank: hello.rank,
            cpu: hello.seat.cpu,
            progress: hello.seat.progress,
            cores: hello.cores,
            relation: hello.relation,
            sharers: hello.sharers,
            dedicated: hello.dedicated,
            progress_cores: Arc::default(),
            launcher: Some(hello.launcher),
        })
    }
}

/// From here on the kernel ends this process when the launcher's end of the socket closes: the launcher has died, or has
/// ended the world. The parent-death signal does that for children of the launcher only, and between it and a rank
/// there may be a shell or a debugger.
fn end_with_launcher(socket: UnixStream) -> Result<(), Error> {
    let fd = socket.as_raw_fd();
    let asked = |answer: libc::c_int| match answer {
        -1 => Err(Error::os("asking for the launcher's end", io::Error::last_os_error())),
        answer => Ok(answer),
    };
    // The launcher writes no more, so that its end is all that can happen on the socket.
    // SAFETY: - no pointers.
    asked(unsafe { libc::fcntl(fd, libc::F_SETOWN, libc::getpid()) })?;
    // SAFETY: - as above.
    asked(unsafe { libc::fcntl(fd, F_SETSIG, libc::SIGKILL) })?;
    // SAFETY: - as above.
    let flags = asked(unsafe { libc::fcntl(fd, libc::F_GETFL) })?;
    // SAFETY: - as above.
    asked(unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_ASYNC) })?;
    // If it ended before the calls above, nobody sends the signal.
    let mut poll = [PollFd::new(socket.as_fd(), PollFlags::empty())];
    let ended = nix::poll::poll(&mut poll, PollTimeout::ZERO);
    if ended.map_err(|e| Error::os("looking at the launcher's socket", e.into()))? > 0 {
        return Err(broken("the launcher has ended".into()));
    }
    // Open for as long as this process lives.
    let _kept = socket.into_raw_fd();
    Ok(())
}

/// What the launcher tells a rank, before the segment.
pub(crate) struct Hello {
    pub rank: u32,
    pub ranks: u32,
    pub launcher: i32,
    pub seat: Seat,
    /// As [`Place::cores`].
    pub cores: Option<usize>,
    /// As [`Place::sharers`].
    pub sharers: u32,
    /// As [`Place::dedicated`].
    pub dedicated: u32,
    /// As [`Place::relation`].
    pub relation: Option<Relation>,
}

impl Hello {
    /// Says everything that a rank needs; the socket's buffer holds it until the rank reads.
    pub(crate) fn send(&self, socket: &RendezvousSocket, segment: &Segment) -> Result<(), Error> {
        let place = |cpu: Option<usize>| cpu.map_or_else(|| "-".to_owned(), |c| c.to_string());
        let (cpu, progress, cores) = (place(self.seat.cpu), place(self.seat.progress), place(self.cores));
        let relation = self.relation.map_or("-", Relation::name);
        let Hello { rank, ranks, launcher, sharers, dedicated, .. } = self;
        let text = format!(
            "{GREETING}\n{VERSION}\n{rank}\n{ranks}\n{launcher}\n{sharers}\n{dedicated}\n{cpu}\n{progress}\n{cores}\n{relation}\n"
        );
        socket.send(text.as_bytes(), None).map_err(segment_error)?;
        send_segment(socket, segment).map_err(segment_error)
    }

    fn parse(body: &[u8]) -> Result<Hello, Error> {
        let nonsense = || broken("the socket's first message is not a launcher's".into());
        let text = std::str::from_utf8(body).map_err(|_| nonsense())?;
        let mut lines = text.lines();
        if lines.next() != Some(GREETING) {
            return Err(nonsense());
        }
        let version = lines.next().ok_or_else(nonsense)?;
        if version != VERSION {
            return Err(Error::Version { launcher: version.into(), program: VERSION.into() });
        }
        let mut number = || lines.next().and_then(|l| l.parse::<u32>().ok()).ok_or_else(nonsense);
        let (rank, ranks, launcher) = (number()?, number()?, number()?);
        let (sharers, dedicated) = (number()?, number()?);
        let mut place = || lines.next().and_then(|l| l.parse().ok());
        let seat = Seat { cpu: place(), progress: place() };
        let cores = place();
        let relation = lines.next().and_then(Relation::named);
        Ok(Hello { rank, ranks, launcher: launcher as i32, seat, cores, sharers, dedicated, relation })
    }
}

fn broken(what: String) -> Error {
    Error::Bootstrap { what }
}

/// What the shared-memory layer refused.
pub(crate) fn segment_error(error: tocsin_shm_transport::Error) -> Error {
    Error::System { operation: "shared memory of the world".into(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_of_strangers_are_refused() {
        for body in
            [&b""[..], b"hello\n", b"\xff\xfe", b"tocsin-launch\n", b"tocsin-launch\n0.1.0\nx\n1\n1\n-\n"]
        {
            assert!(matches!(Hello::parse(body), Err(Error::Bootstrap { .. })), "{body:?}");
        }
        let other = b"tocsin-launch\n99.0.0\n0\n1\n1\n-\n";
        let text = Hello::parse(other).err().unwrap().to_string();
        assert!(text.contains("99.0.0") && text.contains(VERSION), "{text}");
        for (cpu, progress, relation) in
            [(Some(3), Some(4), Some(Relation::Node)), (Some(3), None, None), (None, None, None)]
        {
            let place = |cpu: Option<usize>| cpu.map_or("-".to_owned(), |c| c.to_string());
            let seat = format!("{}\n{}\n{}\n", place(cpu), place(progress), place(cpu));
            let last = relation.map_or("-", Relation::name);
            let good = format!("tocsin-launch\n{VERSION}\n1\n2\n77\n5\n3\n{seat}{last}\n");
            let hello = Hello::parse(good.as_bytes()).unwrap();
            assert_eq!((hello.rank, hello.ranks, hello.launcher), (1, 2, 77));
            assert_eq!((hello.sharers, hello.dedicated), (5, 3));
            assert_eq!((hello.seat, hello.cores, hello.relation), (Seat { cpu, progress }, cpu, relation));
        }
    }
}
