//! The host's watch over the processes of the ranks.
//!
//! A [`Watcher`] holds one pidfd per rank's process. A pidfd becomes readable when the process has ended, and
//! means this process for ever, whatever its number is given to later. The exit status is read without
//! reaping, so that the number stays taken, and nobody rings a stranger, until [`Watcher::reap`] at the end
//! of the world.
//!
//! The rank may be another process than the one that was started, which is a shell or a debugger, and may go on without it: then it
//! [sends](say_who) its own pidfd when it joins, and is dead to the others when that process has ended. Nor is it before: it may write into their memory as long as it
//! runs. Where the one that was started ends first, it is killed.
//!
//! Only the parent of the processes can read their exit status. Ranks that are threads don't come here: who
//! runs them says their end by [`Segment::set_life`] and [`Segment::wake_all`].

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout};

use crate::rendezvous_socket::RendezvousSocket;
use crate::{Error, Segment};

/// What a rank says in one piece is there in one piece.
const PATIENCE: Duration = Duration::from_millis(100);

/// An ended rank.
#[derive(Clone, Copy, Debug)]
pub struct Death {
    /// The rank.
    pub rank: u32,
    /// How its process ended.
    pub status: ExitStatus,
    /// Whether the rank had left the world in good order before.
    pub finalized: bool,
    /// Whether it was in the world, and had not said that it leaves.
    pub inside: bool,
    /// Whether it had never come into the world.
    pub outside: bool,
}

/// Watches the processes of the ranks, marks deaths in the segment and wakes the survivors.
#[derive(Debug)]
pub struct Watcher {
    segment: Arc<Segment>,
    watched: Vec<Watched>,
}

#[derive(Debug)]
struct Watched {
    rank: u32,
    pidfd: OwnedFd,
    behind: Behind,
    /// How the process that was started has ended, if it has.
    status: Option<ExitStatus>,
    /// It was dead before it had joined.
    outside: bool,
    /// So has the rank's own.
    ended: bool,
    reaped: bool,
}

/// The rank's own process.
#[derive(Debug)]
enum Behind {
    /// Is the one that was started, for all that is known.
    Nobody,
    /// Will say here who it is, if it joins.
    Joins(RendezvousSocket),
    /// Is this one.
    Process(OwnedFd),
    /// Was another one, and has ended without finalizing.
    Lost,
}

impl Watched {
    /// What becomes readable when there is news of the rank's own process.
    fn news(&self) -> Option<BorrowedFd<'_>> {
        match &self.behind {
            Behind::Joins(socket) if self.status.is_none() => Some(socket.as_fd()),
            Behind::Process(pidfd) if !self.ended => Some(pidfd.as_fd()),
            _ => None,
        }
    }

    /// Takes the news in. Whether the rank's own process has ended.
    fn hear(&mut self) -> bool {
        match std::mem::replace(&mut self.behind, Behind::Nobody) {
            Behind::Joins(socket) => {
                // Nothing, or nonsense: then there is no more to know than of the process that was started.
                let said = socket.receive().ok().and_then(|frame| frame.fd);
                self.behind = said.map_or(Behind::Nobody, Behind::Process);
                false
            }
            Behind::Process(_) => true,
            Behind::Nobody | Behind::Lost => false,
        }
    }

    /// The process that signals are for: the one that was started, or what it has left.
    fn process(&self) -> &OwnedFd {
        match &self.behind {
            Behind::Process(pidfd) if self.status.is_some() => pidfd,
            _ => &self.pidfd,
        }
    }
}

impl Watcher {
    /// A watcher of nobody yet.
    pub fn new(segment: Arc<Segment>) -> Watcher {
        Watcher { segment, watched: Vec::new() }
    }

    /// Watches the process `pid`, an unreaped child of this one, as `rank`.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`]; [`Error::Os`] when there is no such process, or the kernel is older than 5.3.
    pub fn watch(&mut self, rank: u32, pid: u32) -> Result<(), Error> {
        let ranks = self.segment.ranks();
        if rank >= ranks {
            return Err(Error::NoSuchRank { rank, ranks });
        }
        let pidfd = open(pid)?;
        let (behind, status) = (Behind::Nobody, None);
        let (outside, ended, reaped) = (false, false, false);
        self.watched.push(Watched { rank, pidfd, behind, status, outside, ended, reaped });
        Ok(())
    }

    /// Hears from a rank that is watched, when it joins, which process it is. `socket`: this end of the one at whose other end it [says so](say_who).
    pub fn hear_from(&mut self, rank: u32, mut socket: RendezvousSocket) {
        socket.set_timeout(PATIENCE);
        if let Some(watched) = self.watched.iter_mut().find(|watched| watched.rank == rank) {
            watched.behind = Behind::Joins(socket);
        }
    }

    /// How many watched processes have not ended.
    pub fn running(&self) -> usize {
        self.watched.iter().filter(|w| !w.ended).count()
    }

    /// Waits up to `timeout` (for ever if none) for processes to end. Marks each that had not finalized as
    /// dead, which changes the epoch, and wakes all survivors; also those whose own process, behind the one that was started, has ended. Returns those that have ended, each once;
    /// nothing when the time is over, a signal came, nobody is left to wait for, or there was news of a rank's own process only. Who was started and has left a rank behind
    /// ends with that.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn poll(&mut self, timeout: Option<Duration>) -> Result<Vec<Death>, Error> {
        let running: Vec<usize> = (0..self.watched.len()).filter(|i| !self.watched[*i].ended).collect();
        if running.is_empty() {
            return Ok(Vec::new());
        }
        let speaking: Vec<usize> =
            running.iter().copied().filter(|i| self.watched[*i].news().is_some()).collect();
        let unended: Vec<usize> =
            running.iter().copied().filter(|i| self.watched[*i].status.is_none()).collect();
        let ends = unended.iter().map(|i| self.watched[*i].pidfd.as_fd());
        let news = speaking.iter().filter_map(|i| self.watched[*i].news());
        let mut fds: Vec<PollFd<'_>> =
            ends.chain(news).map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // Rounded up, so that a wait in a loop does not spin through the last millisecond.
        let timeout = timeout.map_or(PollTimeout::NONE, |t| {
            PollTimeout::try_from(t.as_nanos().div_ceil(1_000_000)).unwrap_or(PollTimeout::MAX)
        });
        match nix::poll::poll(&mut fds, timeout) {
            Err(nix::errno::Errno::EINTR) => return Ok(Vec::new()),
            // When time is up, too: who could not be killed may have finalized meanwhile.
            Ok(_) => {}
            Err(e) => return Err(Error::Os { call: "poll", source: e.into() }),
        }
        let mut ended: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(true)).collect();
        let spoke = ended.split_off(unended.len());
        let mut deaths = Vec::new();
        let mut died = false;
        for (i, _) in speaking.into_iter().zip(spoke).filter(|(_, spoke)| *spoke) {
            let watched = &mut self.watched[i];
            if watched.hear() && self.segment.mark_dead(watched.rank) {
                watched.behind = Behind::Lost;
                died = true;
            }
        }
        for (i, _) in unended.into_iter().zip(ended).filter(|(_, ended)| *ended) {
            self.watched[i].status = exit_status(&self.watched[i].pidfd, libc::WNOWAIT)?;
            if self.watched[i].status.is_some() {
                died |= self.hear_at_the_end(i);
            }
            if self.watched[i].status.is_some() && self.outlives(i) {
                // Who may not be killed is waited for.
                let _refused = send(self.watched[i].process(), libc::SIGKILL);
            }
        }
        for i in running {
            let Some(status) = self.watched[i].status.filter(|_| !self.outlives(i)) else { continue };
            let watched = &mut self.watched[i];
            watched.ended = true;
            let life = self.segment.life(watched.rank);
            let inside = life == crate::Life::Alive || matches!(watched.behind, Behind::Lost);
            let outside = watched.outside || life == crate::Life::Absent;
            died |= self.segment.mark_dead(watched.rank);
            let finalized = self.segment.life(watched.rank) == crate::Life::Finalized;
            deaths.push(Death { rank: watched.rank, status, finalized, inside, outside });
        }
        if died {
            self.segment.wake_all();
        }
        Ok(deaths)
    }

    /// The process that was started has ended: whoever has yet to join is dead, and is refused; who has joined has said before who it is. Whether it died by that.
    fn hear_at_the_end(&mut self, i: usize) -> bool {
        let watched = &mut self.watched[i];
        if !matches!(watched.behind, Behind::Joins(_)) {
            return false;
        }
        watched.outside = self.segment.mark_absent_dead(watched.rank);
        if !watched.outside {
            watched.hear();
        }
        watched.outside
    }

    /// Whether a rank that has not finalized runs in another process than the one that was started.
    fn outlives(&self, i: usize) -> bool {
        let watched = &self.watched[i];
        matches!(watched.behind, Behind::Process(_))
            && self.segment.life(watched.rank) != crate::Life::Finalized
    }

    /// Sends a signal to a rank's process, if it is watched and has not ended.
    ///
    /// # Errors
    /// [`Error::Os`]; that the process has just ended is none.
    pub fn kill(&self, rank: u32, signal: i32) -> Result<(), Error> {
        let mut watched = self.watched.iter().filter(|w| w.rank == rank && !w.ended);
        watched.try_for_each(|watched| send(watched.process(), signal))
    }

    /// Reaps all processes that have ended: at the end of the world, when nobody rings any more. Waits up to
    /// `timeout` for those that are still running; returns how many are left.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn reap(&mut self, timeout: Duration) -> Result<usize, Error> {
        let deadline = Instant::now() + timeout;
        while self.running() > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.poll(Some(left))?;
        }
        for watched in self.watched.iter_mut().filter(|w| w.ended && !w.reaped) {
            exit_status(&watched.pidfd, 0)?;
            watched.reaped = true;
        }
        Ok(self.running())
    }
}

/// Says to who started this process, or one in front of it, that this is the rank: `starter` is the process that watches. The descriptor that it sends
/// means this process for ever.
///
/// # Errors
/// As [`RendezvousSocket::send`].
pub fn say_who(socket: &RendezvousSocket, starter: i32) -> Result<(), Error> {
    // SAFETY: no arguments, cannot fail.
    let (own, parent) = unsafe { (libc::getpid(), libc::getppid()) };
    // Where there is no such descriptor, the process that was started is all that is watched.
    let pidfd = (parent != starter).then(|| open(own as u32).ok()).flatten();
    let said = own.to_le_bytes();
    match (socket.send(&said, pidfd.as_ref().map(AsFd::as_fd)), pidfd) {
        // Or where it may not be sent: it goes with the first byte, or nothing has gone.
        (Err(Error::Os { .. }), Some(_)) => socket.send(&said, None),
        (sent, _) => sent,
    }
}

/// Sends a signal to a process, if it has not ended.
fn send(pidfd: &OwnedFd, signal: i32) -> Result<(), Error> {
    let info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: a null siginfo asks for the default one; the other arguments are no pointers.
    let answer = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, info, 0) };
    if answer != 0 && io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH) {
        return Err(Error::os("pidfd_send_signal"));
    }
    Ok(())
}

/// A descriptor that means a process.
fn open(pid: u32) -> Result<OwnedFd, Error> {
    // SAFETY: no pointers; the call returns a new descriptor (close-on-exec) or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    if fd < 0 {
        return Err(Error::os("pidfd_open"));
    }
    // SAFETY: `fd` is a new descriptor that nobody else owns; descriptors fit into an int.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// The exit status of an ended process; `None` if it has not ended. Somebody else's reaping counts as an end
/// that nobody knows more about.
fn exit_status(pidfd: &OwnedFd, flags: libc::c_int) -> Result<Option<ExitStatus>, Error> {
    // SAFETY: zero is a valid `siginfo_t`.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOHANG | flags;
    // SAFETY: `info` is live; the pidfd is open.
    let answer =
        unsafe { libc::waitid(libc::P_PIDFD, pidfd.as_raw_fd() as libc::id_t, &raw mut info, options) };
    if answer != 0 {
        let source = io::Error::last_os_error();
        return match source.raw_os_error() {
            Some(libc::ECHILD) => Ok(Some(ExitStatus::from_raw(0xff00))),
            Some(libc::EINTR) => Ok(None),
            _ => Err(Error::Os { call: "waitid", source }),
        };
    }
    // SAFETY: `waitid` with WEXITED fills the fields of SIGCHLD's siginfo, or leaves it zero.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    if pid == 0 {
        return Ok(None);
    }
    Ok(Some(ExitStatus::from_raw(match info.si_code {
        libc::CLD_EXITED => (status & 0xff) << 8,
        libc::CLD_DUMPED => (status & 0x7f) | 0x80,
        _ => status & 0x7f,
    })))
}
