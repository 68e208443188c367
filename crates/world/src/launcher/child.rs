//! One rank's process: what is set up before and after the fork.

use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tocsin_shm_transport::Segment;
use tocsin_shm_transport::rendezvous_socket::RendezvousSocket;
use tocsin_topology::Relation;

use crate::bootstrap::Hello;
use crate::config::{BOOTSTRAP_FD, BOOTSTRAP_WORLD, CHILD, Seat, VARIABLES};
use crate::error::Error;
use crate::launcher::descendants::Mark;
use crate::launcher::{Launch, signals};

/// Everything a greeting needs fits the socket's buffer: writing never waits for the rank.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a rank is told of where the others are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    /// As [`Place::cores`](crate::bootstrap::Place::cores), and so the others.
    pub cores: Option<usize>,
    pub sharers: u32,
    pub dedicated: u32,
    pub relation: Option<Relation>,
}

/// A rank's process, and the launcher's end of its socket, twice: a rank that has joined has said there which process it is, and ends when that end is shut down.
pub(super) fn start(
    launch: &Launch,
    segment: &Segment,
    mark: &Mark,
    rank: u32,
    seat: Seat,
    shared: Shared,
) -> Result<(Child, UnixStream, RendezvousSocket), Error> {
    let (ours, theirs) = UnixStream::pair().map_err(|e| Error::os("socketpair", e))?;
    let lifeline = ours.try_clone().map_err(|e| Error::os("keeping the rank's socket", e))?;
    let socket = RendezvousSocket::new(ours, PATIENCE).map_err(crate::bootstrap::segment_error)?;
    // SAFETY: - neither call has a precondition.
    let launcher = unsafe { libc::getpid() };
    let Shared { cores, sharers, dedicated, relation } = shared;
    let ranks = launch.ranks;
    Hello { rank, ranks, launcher, seat, cores, sharers, dedicated, relation }.send(&socket, segment)?;
    let theirs = OwnedFd::from(theirs);

    let mut command = Command::new(&launch.program);
    command.args(&launch.args);
    // A rank's configuration is the launch's alone; what the launcher's own environment says was read by whoever made it.
    for variable in VARIABLES.iter().filter(|v| v.name != CHILD) {
        command.env_remove(variable.name);
    }
    for (name, value) in launch.config.for_ranks().to_variables() {
        command.env(name, value);
    }
    command.envs(launch.env.iter().map(|(n, v)| (n, v)));
    command.env(BOOTSTRAP_FD, theirs.as_raw_fd().to_string());
    command.env(BOOTSTRAP_WORLD, mark.name());
    if launch.tag_output {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    if rank > 0 {
        // Only one can read the terminal.
        command.stdin(Stdio::null());
    }
    let inherited = theirs.as_raw_fd();
    let set = seat.cpu.map(cpu_set);
    let unblock = launch.forward_signals;
    // SAFETY: - between fork and exec only prctl, getppid, pthread_sigmask, fcntl, sched_setaffinity and _exit
    //           are called, all
    //           async-signal-safe; nothing is allocated.
    //         - the mask is as long as the call is told.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            // The launcher may have died before the call above; then nobody sends the signal.
            if libc::getppid() != launcher {
                libc::_exit(128 + libc::SIGKILL);
            }
            if unblock {
                signals::unblock();
            }
            if libc::fcntl(inherited, libc::F_SETFD, 0) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            if let Some(set) = &set {
                // Placement is a wish, never a reason to fail.
                libc::sched_setaffinity(0, size_of_val(set.as_slice()), set.as_ptr().cast());
            }
            Ok(())
        });
    }
    let child = command.spawn().map_err(|e| Error::Start {
        program: launch.program.display().to_string(),
        reason: why_not(&launch.program, &e),
    })?;
    Ok((child, lifeline, socket))
}

/// Why a program could not be started, and what to do.
fn why_not(program: &Path, error: &io::Error) -> String {
    let by_name = !program.as_os_str().as_encoded_bytes().contains(&b'/');
    let what = match error.kind() {
        ErrorKind::NotFound if by_name && program.is_file() => {
            "PATH has no program of that name: write ./ before it if the one in this directory is meant"
        }
        ErrorKind::NotFound if by_name => "PATH has no program of that name",
        ErrorKind::NotFound if program.exists() => "what its first line names to run it by is not there",
        ErrorKind::NotFound => "there is no such file: check the path",
        ErrorKind::PermissionDenied if program.is_dir() => "it is a directory: name a program in it",
        ErrorKind::PermissionDenied => {
            "it, or a directory on the way to it, may not be executed: check their permissions (chmod +x)"
        }
        ErrorKind::ArgumentListTooLong => "arguments and environment are too long together: pass less",
        // EAGAIN: of fork, there is no other.
        ErrorKind::WouldBlock => {
            "no more processes are allowed: start fewer ranks, or raise the limit (ulimit -u, or cgroup pids.max)"
        }
        _ => "check the path, its permissions, and the limits of the job (ulimit -a)",
    };
    format!("{what} ({error})")
}

/// An affinity mask of one processor. As long as it has to be: a `cpu_set_t` has room for 1024.
fn cpu_set(cpu: usize) -> Vec<u64> {
    let mut set = vec![0; cpu / 64 + 1];
    if let Some(word) = set.last_mut() {
        *word = 1 << (cpu % 64);
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_one_processor_whatever_its_number() {
        assert_eq!((cpu_set(0), cpu_set(63), cpu_set(64)), (vec![1], vec![1 << 63], vec![0, 1]));
        let far = cpu_set(1500);
        assert_eq!((far.len(), far[23], far.iter().map(|word| word.count_ones()).sum()), (24, 1 << 28, 1u32));
    }
}
