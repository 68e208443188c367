//! Processes of a world that are not the launcher's children: what ranks have started, such as a program behind a shell.
//!
//! They are found by an environment variable whose value belongs to this world alone. It goes to every descendant and
//! stays with it whatever happens to its parents, its process group and its session; only a program that clears its
//! environment gets away. Process groups of their own would be easier to kill, and worse to live with: ranks stay in the
//! launcher's, so that the terminal's keys reach them and rank 0 may read what is typed.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use nix::poll::{PollFd, PollFlags, PollTimeout};

use crate::config::BOOTSTRAP_WORLD;

/// How long a process may be in the midst of `execve`, if it has its core.
const EXECVE: Duration = Duration::from_millis(5);

/// What tells the processes of one world from all others.
#[derive(Debug)]
pub(super) struct Mark {
    name: String,
}

impl Mark {
    /// A new one: what an earlier world of this process left running is not part of the next.
    pub(super) fn new() -> Mark {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Mark { name: format!("{}-{}", std::process::id(), now.as_nanos()) }
    }

    /// The value of [`BOOTSTRAP_WORLD`].
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Kills all that bear the mark and run.
    pub(super) fn kill(&self) {
        self.kill_once();
    }

    /// Kills all that bear the mark, those included that others start meanwhile, and waits for their end, at most for
    /// `patience`.
    pub(super) fn end(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        while let Some(process) = self.kill_once() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            // An error is a look at the others before this one has ended.
            let _ended = nix::poll::poll(&mut [PollFd::new(process.as_fd(), PollFlags::POLLIN)], timeout);
        }
    }

    /// Kills all that bear the mark; gives one that has not ended.
    fn kill_once(&self) -> Option<OwnedFd> {
        let entry = format!("{BOOTSTRAP_WORLD}={}", self.name);
        let mut running = None;
        for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            // Opened before the environment is read: if the number has passed to another process by then, the signal
            // goes to the one that has ended.
            let Ok(pidfd) = open(pid) else { continue };
            let environment = environment(&process.path());
            if environment.split(|byte| *byte == 0).any(|variable| variable == entry.as_bytes())
                && kill(&pidfd)
            {
                running = Some(pidfd);
            }
        }
        running
    }
}

/// The environment that a process was started with; nothing of other users' processes, which are none of ours.
///
/// For a moment in the midst of `execve` a process has none, as a kernel thread and one that has ended have none; but it has a program. So
/// one with a program is looked at again, unless it has none for so long that it must have been started without.
fn environment(process: &Path) -> Vec<u8> {
    let deadline = Instant::now() + EXECVE;
    loop {
        let environment = std::fs::read(process.join("environ")).unwrap_or_default();
        let is_started = || std::fs::read_link(process.join("exe")).is_ok();
        if !environment.is_empty() || !is_started() || Instant::now() >= deadline {
            return environment;
        }
        std::thread::yield_now();
    }
}

fn open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: - no pointers; the call returns a new descriptor (close-on-exec) or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: - `fd` is a new descriptor that nobody else owns; descriptors fit into an int.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// Whether it had not ended.
fn kill(pidfd: &OwnedFd) -> bool {
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: - a null siginfo asks for the default one; the other arguments are no pointers.
    unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), libc::SIGKILL, no_info, 0) == 0 }
}
