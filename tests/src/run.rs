//! Runs a scenario on every rank of a world: ranks as threads of this process, or as processes.

use std::fmt;
use std::path::Path;

use tocsin_world::launcher::{Launch, OnFailure, Report};
use tocsin_world::{BackendKind, Comm, Config, Error, threads};

use crate::scenarios;

/// Ranks are threads, or processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Threads of the test process.
    Threads,
    /// Processes that run the program `tocsin-rank`.
    Processes,
}

impl Kind {
    /// Both kinds.
    pub const ALL: [Kind; 2] = [Kind::Threads, Kind::Processes];
}

/// The backends that run on every machine.
pub const BACKENDS: [BackendKind; 3] = [BackendKind::Signal, BackendKind::Thread, BackendKind::Poll];

/// Arguments of a scenario: `name=value` words, as they stand on a command line.
#[derive(Clone, Debug, Default)]
pub struct Arguments(Vec<String>);

impl Arguments {
    /// No arguments.
    pub fn new() -> Arguments {
        Arguments::default()
    }

    /// These.
    pub fn of(pairs: &[(&str, impl fmt::Display)]) -> Arguments {
        pairs.iter().fold(Arguments::new(), |all, (name, value)| all.with(name, value))
    }

    /// Adds one.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl fmt::Display) -> Arguments {
        self.0.push(format!("{name}={value}"));
        self
    }

    /// Those of a command line.
    pub fn parse(words: impl IntoIterator<Item = String>) -> Arguments {
        Arguments(words.into_iter().collect())
    }

    /// The value of a number.
    pub fn number(&self, name: &str) -> u64 {
        let text = self.text(name);
        text.parse().unwrap_or_else(|_| panic!("{name}={text}: not a number"))
    }

    /// The value of a word.
    pub fn text(&self, name: &str) -> &str {
        self.optional(name).unwrap_or_else(|| panic!("the scenario needs {name}=..."))
    }

    /// Makes the settings among them in a configuration: `lmt=...`, and each `TOCSIN_...=...`.
    ///
    /// # Errors
    /// [`Error::Environment`] for a wrong value, [`Error::UnknownVariable`] for a variable that there is not.
    pub fn configure(&self, config: &mut Config) -> Result<(), Error> {
        let settings = self.0.iter().filter_map(|word| word.split_once('='));
        for (name, value) in settings {
            match name {
                "lmt" => config.set("TOCSIN_LMT", value)?,
                _ if name.starts_with("TOCSIN_") => config.set(name, value)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The value of a word that need not be there.
    pub fn optional(&self, name: &str) -> Option<&str> {
        self.0.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }
}

/// A world to run a scenario in.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    /// The program `tocsin-rank`: `env!("CARGO_BIN_EXE_tocsin-rank")`.
    pub program: &'a Path,
    /// Ranks as threads or processes.
    pub kind: Kind,
    /// How many.
    pub ranks: u32,
    /// How they are notified.
    pub backend: BackendKind,
    /// The scenario's name in [`scenarios::ALL`].
    pub scenario: &'a str,
    /// Its arguments. `lmt=...` says how large messages travel, whatever the scenario, and `TOCSIN_...=...` sets any variable of that
    /// name; `topology=...` says on which machine ranks are placed, in several parts of it, though this one need not have them; `forbid=...`,
    /// to ranks that are processes, when the system stops copying between them; `private=yes`, that no other
    /// process of their user, an ordinary one, may look into them.
    pub arguments: Arguments,
    /// Seconds after which the ranks are killed and the case has failed.
    pub limit_s: u32,
}

impl Case<'_> {
    /// Runs it; panics, naming the case, unless every rank succeeds.
    pub fn pass(&self) {
        let mut config = Config::default();
        config.backend = Some(self.backend);
        self.arguments.configure(&mut config).unwrap_or_else(|error| panic!("{self:?}: {error}"));
        if let Some(machine) = self.arguments.optional("topology") {
            for (name, value) in [("TOCSIN_TOPOLOGY", machine), ("TOCSIN_BIND", "scatter_numa")] {
                config.set(name, value).unwrap_or_else(|error| panic!("{self:?}: {error}"));
            }
        }
        match self.kind {
            Kind::Threads => {
                // SAFETY: alarm has no memory effects; SIGALRM's default action ends a process that hangs.
                unsafe { libc::alarm(self.limit_s) };
                let outcome = threads(self.ranks, &config, |comm: Comm| {
                    scenarios::run(self.scenario, &comm, &self.arguments);
                });
                // SAFETY: as above.
                unsafe { libc::alarm(0) };
                if let Err(error) = outcome {
                    panic!("{self:?}: {error}");
                }
            }
            Kind::Processes => {
                let report = self.launch(config, OnFailure::Kill).run();
                match report {
                    Ok(Report { status: 0, .. }) => {}
                    Ok(report) => panic!("{self:?}: {report:?}"),
                    Err(error) => panic!("{self:?}: {error}"),
                }
            }
        }
    }

    /// The launch of its ranks as processes.
    pub fn launch(&self, config: Config, on_failure: OnFailure) -> Launch {
        let mut launch = Launch::new(self.program, self.ranks);
        launch.args = [self.limit_s.to_string(), self.scenario.to_string()]
            .into_iter()
            .chain(self.arguments.0.iter().cloned())
            .map(Into::into)
            .collect();
        launch.config = config;
        launch.on_failure = on_failure;
        launch
    }
}

/// How many of a large product an ordinary run takes: all of it under `TOCSIN_TEST_DEEP=1`, a seeded sample else.
pub fn deep() -> bool {
    std::env::var_os("TOCSIN_TEST_DEEP").is_some_and(|v| v == "1")
}
