//! Starting a world of processes: the library form of `tocsin run`.
//!
//! # For users
//! [`Launch`] describes the ranks, [`Launch::run`] starts them and waits. The calling process is no rank; what it starts
//! as ranks are its direct children, and its own death, however it comes, ends them all, also those that joined behind
//! a shell. Survivors that are killed take with them what ranks have started.
//!
//! # Implementation details
//! All is done by one thread: the kernel's parent-death signal follows the *thread* that forked, so it must live as
//! long as the ranks. That thread writes each rank's greeting into its socket before the rank runs, watches the ranks'
//! pidfds, and reaps them at the very end, so that nobody ever rings a recycled process id.
//!
//! A program behind a shell is no child, and no signal of the kernel's follows its parents. So a rank that has joined
//! keeps its socket, and the kernel kills it when the launcher's end closes; what has not joined is found by
//! an environment variable: `descendants`.

mod child;
mod descendants;
mod limits;
mod output;
mod reexecute;
mod signals;
mod watch;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::config::Config;
use crate::error::Error;
use crate::trace;
pub use tocsin_shm_transport::MAX_RANKS;

pub use reexecute::{child_call, launch_self, spawn_self};

/// How long survivors have after a failure under [`OnFailure::Kill`].
pub const DEFAULT_GRACE: Duration = Duration::from_secs(1);

/// What to do when a rank fails: dies by a signal, or exits with another status than 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The survivors get [`Launch::grace`], then they are killed.
    #[default]
    Kill,
    /// The survivors see the error and finish by themselves.
    Report,
}

/// A program to start as the ranks of a world.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Launch {
    /// The program; without a slash it is looked for in `PATH`.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// How many ranks.
    pub ranks: u32,
    /// Their configuration, placement included.
    pub config: Config,
    /// More environment variables for them.
    pub env: Vec<(OsString, OsString)>,
    /// Prefix each line of their output with `[rank]`; one of more than 64 KiB is several.
    pub tag_output: bool,
    /// What to do when one fails.
    pub on_failure: OnFailure,
    /// Pass SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGCONT that this process is sent on to the ranks.
    /// What a terminal's keys send is not passed on: the ranks get it themselves. Ranks that are asked twice to end, by the same of SIGINT,
    /// SIGTERM and SIGQUIT, have [`grace`](Launch::grace) from then on, and are killed. Other threads of the process must block these signals.
    pub forward_signals: bool,
    /// How long survivors have under [`OnFailure::Kill`], and ranks that were asked twice to end.
    pub grace: Duration,
}

/// How a world ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// 0, or the status of the first rank that failed: its exit status, 128 + n if signal n ended it, or the code of
    /// an abort.
    pub status: i32,
    /// The first rank that failed.
    pub failed: Option<u32>,
    /// Each rank's own status by the same rule.
    pub ranks: Vec<i32>,
    /// By rank: the signal that ended it; none of one that has ended by itself, also with a status above 128, as a shell's is whose program a signal has ended.
    pub signals: Vec<Option<i32>>,
    /// Ranks that ended with status 0 and without finalizing the world that they had joined, in the order of their ends: by `exit(0)`, or in C by
    /// a return from `main`. None of them failed, but the others took them for dead.
    pub unfinalized: Vec<u32>,
    /// Ranks that ended with status 0 and had never joined the world, in the order of their ends: programs that do not use the library, or that were
    /// kept from what tells them of their launcher (`env -i`, `sudo`, a container) and were each a world of one.
    pub unjoined: Vec<u32>,
}

impl Launch {
    /// `ranks` times `program`, with the default configuration.
    pub fn new(program: impl Into<PathBuf>, ranks: u32) -> Launch {
        Launch {
            program: program.into(),
            args: Vec::new(),
            ranks,
            config: Config::default(),
            env: Vec::new(),
            tag_output: false,
            on_failure: OnFailure::Kill,
            forward_signals: false,
            grace: DEFAULT_GRACE,
        }
    }

    /// Starts the ranks and waits for them all.
    ///
    /// # Errors
    /// What kept them from starting: then none runs. A rank that fails is a status in the report.
    pub fn run(self) -> Result<Report, Error> {
        self.spawn()?.wait()
    }

    /// Starts the ranks.
    ///
    /// # Errors
    /// [`Error::DescriptorLimit`], [`Error::Start`], [`Error::BackendUnusable`], refusals of the system; [`Error::InvalidArgument`] without ranks, or where the process ignores
    /// SIGCHLD.
    pub fn spawn(self) -> Result<Running, Error> {
        if self.ranks == 0 {
            let what = "0 ranks make no world: start at least 1".into();
            return Err(Error::InvalidArgument { operation: "launch", what });
        }
        if signals::children_are_forgotten() {
            let what = "this process ignores SIGCHLD, so that nobody hears how a rank ends: set that signal to its default before";
            return Err(Error::InvalidArgument { operation: "launch", what: what.into() });
        }
        self.config.usable_backend()?;
        trace::check(&self.config)?;
        limits::check(self.ranks, self.tag_output)?;
        // Blocked here so that the thread inherits it and can take them.
        let blocked = self.forward_signals.then(signals::Blocked::new);
        let (orders, take_orders) = mpsc::channel();
        let (started, starts) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("tocsin-launcher".into())
            .spawn(move || watch::run(&self, &started, &take_orders))
            .map_err(|e| Error::thread("starting the launcher's thread", e))?;
        match starts.recv() {
            Ok(Ok(pids)) => Ok(Running { pids, orders, thread: Some(thread), _blocked: blocked }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(Error::Internal {
                operation: "starting the ranks",
                what: "the launcher's thread ended".into(),
            }),
        }
    }
}

/// What the launcher's thread can be asked for.
enum Order {
    Signal(u32, i32),
    KillAll,
}

/// A world of processes that runs. Dropping it kills the ranks and waits for their end.
#[derive(Debug)]
pub struct Running {
    pids: Vec<i32>,
    orders: mpsc::Sender<Order>,
    thread: Option<JoinHandle<Result<Report, Error>>>,
    _blocked: Option<signals::Blocked>,
}

impl Running {
    /// Process ids by rank; valid until [`wait`](Self::wait), because nobody is reaped before.
    pub fn pids(&self) -> &[i32] {
        &self.pids
    }

    /// Sends `signal` to one rank, soon. A rank that has ended gets nothing.
    ///
    /// # Errors
    /// [`Error::RankOutOfRange`].
    pub fn signal(&self, rank: u32, signal: i32) -> Result<(), Error> {
        if rank as usize >= self.pids.len() {
            let size = self.pids.len() as u32;
            return Err(Error::RankOutOfRange { operation: "signal", rank, size });
        }
        // An error means that all ranks have ended.
        let _ended = self.orders.send(Order::Signal(rank, signal));
        Ok(())
    }

    /// Whether all ranks have ended.
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for all ranks.
    ///
    /// # Errors
    /// Refusals of the system.
    pub fn wait(mut self) -> Result<Report, Error> {
        self.join()
    }

    fn join(&mut self) -> Result<Report, Error> {
        let lost = || Error::Internal {
            operation: "waiting for the ranks",
            what: "the launcher's thread is gone".into(),
        };
        self.thread.take().ok_or_else(lost)?.join().map_err(|_| lost())?
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.thread.is_some() {
            let _ended = self.orders.send(Order::KillAll);
            let _report = self.join();
        }
    }
}
