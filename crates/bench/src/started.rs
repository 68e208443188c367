//! Processes and threads that are started for a measurement, and end with it.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::channel;

use crate::error::{Error, doing};

/// Has the system tell how processes end that this one starts: it may have been started by one that ignores SIGCHLD, and does so then, too.
pub(crate) fn hear_of_children() {
    // SAFETY: no handler; nobody has set one.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// A process that is killed when this is dropped, and by the system when the thread that started it ends.
pub(crate) struct Started(Child);

impl Started {
    /// `what`: for the error.
    pub(crate) fn new(command: &mut Command, what: &str) -> Result<Started, Error> {
        ends_with_this_thread(command).spawn().map(Started).map_err(doing(what))
    }

    pub(crate) fn lives(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }

    pub(crate) fn wait(&mut self) -> std::io::Result<ExitStatus> {
        self.0.wait()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // One that was waited for is not there any more, which is no harm.
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

/// A command whose process the system kills when the thread that starts it ends.
pub(crate) fn ends_with_this_thread(command: &mut Command) -> &mut Command {
    // SAFETY: prctl is async-signal-safe and touches no memory of this process.
    unsafe { command.pre_exec(die_with_parent) }
}

fn die_with_parent() -> std::io::Result<()> {
    // SAFETY: no pointers are passed.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Waits for all, and no longer than until the first one fails, whichever that is.
pub(crate) fn wait_for_all(children: Vec<Child>) -> Result<(), Error> {
    let (tell, told) = channel();
    for (rank, mut child) in children.into_iter().enumerate() {
        let tell = tell.clone();
        // Nobody is told once one has failed.
        let wait = move || drop(tell.send((rank, child.wait())));
        std::thread::Builder::new().spawn(wait).map_err(doing("waiting for the ranks"))?;
    }
    drop(tell);
    told.into_iter().try_for_each(|(rank, ended)| match ended.map_err(doing("waiting for a rank"))? {
        status if status.success() => Ok(()),
        status => Err(Error::Failed(format!("rank {rank}, one without the library, ended: {status}"))),
    })
}

/// Measures on a thread of its own, so that the caller's affinity stays as it is.
pub(crate) fn apart<T: Send>(measure: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, measure);
        let ended = thread.map_err(doing("starting the measuring thread"))?.join();
        ended.map_err(|_| Error::Failed("the measuring thread panicked".into()))?
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn the_first_that_fails_ends_the_wait_for_all() {
        let start = |script| ends_with_this_thread(&mut shell(script)).spawn().unwrap();
        assert!(wait_for_all(vec![start("exit 0"), start("exit 0")]).is_ok());
        let failed = wait_for_all(vec![start("exec sleep 1000"), start("exit 3")]).unwrap_err().to_string();
        assert!(failed.contains("rank 1") && failed.contains("exit status: 3"), "{failed}");
    }

    #[test]
    fn what_was_started_is_gone_when_it_is_dropped() {
        let mut started = Started::new(&mut shell("exec sleep 1000"), "starting").unwrap();
        assert!(started.lives());
        let pid = started.0.id() as i32;
        drop(started);
        // SAFETY: no pointers; the process was a child of this one's.
        assert_eq!(unsafe { libc::kill(pid, 0) }, -1);
        let mut ended = Started::new(&mut shell("exit 4"), "starting").unwrap();
        assert_eq!(ended.wait().unwrap().code(), Some(4));
        assert!(!ended.lives());
    }

    #[test]
    fn a_panic_of_the_measuring_thread_is_an_error() {
        assert_eq!(apart(|| Ok(7)).unwrap(), 7);
        assert!(apart(|| -> Result<(), Error> { std::panic::resume_unwind(Box::new("")) }).is_err());
    }
}
