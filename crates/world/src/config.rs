//! Configuration of a rank: the one place that reads `TOCSIN_*` variables.
//!
//! [`VARIABLES`] is the table that the README and a test print; [`Config::set`] is the one parser, used for
//! the environment and for command-line options of the same names alike.

mod placement;
mod size;
mod thresholds;
mod trace_format;
mod variables;

use std::ffi::OsString;
use std::path::PathBuf;

use tocsin_shm_transport::{HEAP_PAGE, MAX_HEAP};

use crate::BackendKind;
use crate::error::Error;
use crate::tune::{Table, Tuning};
pub(crate) use placement::{cores_here, cores_of, dedicated_of, progress_cpu, sharers_of};
pub use size::parse_size;
/// How progress threads of the backend `thread` that share a core are scheduled.
pub use tocsin_progress::Schedule;
/// Where ranks run.
pub use tocsin_topology::Policy as Bind;
/// Where progress threads of the backend `thread` run.
pub use tocsin_topology::ProgressPolicy as ProgressPlacement;
/// Where a rank and its progress thread run.
pub use tocsin_topology::Seat;
pub use trace_format::TraceFormat;
pub(crate) use variables::{BOOTSTRAP_FD, BOOTSTRAP_WORLD, CHILD};
pub use variables::{VARIABLES, Variable};

/// Default limit of eager messages in bytes: what a data ring holds several of.
pub const DEFAULT_EAGER_MAX: usize = 16 << 10;
/// Default hard limit of memory for unexpected messages in bytes, per rank and class.
pub const DEFAULT_UNEXPECTED_MAX: usize = 64 << 20;
/// Default signal: SIGURG, whose default action is to ignore, so that a late ring harms nobody.
pub const DEFAULT_SIGNAL: i32 = libc::SIGURG;

/// How large messages travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lmt {
    /// The best that works between the two ranks.
    #[default]
    Auto,
    /// One plain copy, between ranks of one process and from the shared heap; double buffering otherwise.
    Direct,
    /// One plain copy, of memory that the device XPMEM maps; double buffering where there is none.
    Xpmem,
    /// One copy by the kernel (`process_vm_readv`, `process_vm_writev`); double buffering where that is refused.
    Cma,
    /// One copy by the kernel, of buffers that the device KNEM was told of; double buffering where there is none.
    Knem,
    /// One copy by the kernel, of pages that the sender puts into a pipe (`vmsplice`); double buffering where that is refused.
    Vmsplice,
    /// Pipelined through shared memory: the sender's pool, or two buffers of 64 KiB.
    Double,
}

impl Lmt {
    /// All, with their names.
    const NAMES: [(Lmt, &str); 7] = [
        (Lmt::Auto, "auto"),
        (Lmt::Direct, "direct"),
        (Lmt::Xpmem, "xpmem"),
        (Lmt::Cma, "cma"),
        (Lmt::Knem, "knem"),
        (Lmt::Vmsplice, "vmsplice"),
        (Lmt::Double, "double"),
    ];

    /// Its name in `TOCSIN_LMT`.
    pub fn name(self) -> &'static str {
        Lmt::NAMES.iter().find(|(lmt, _)| *lmt == self).map_or("auto", |(_, name)| name)
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Lmt> {
        Lmt::NAMES.iter().find(|(_, known)| *known == name).map(|(lmt, _)| *lmt)
    }

    pub(crate) fn strategies(self) -> tocsin_shm_transport::Strategies {
        tocsin_shm_transport::Strategies {
            direct: matches!(self, Lmt::Auto | Lmt::Direct),
            xpmem: matches!(self, Lmt::Auto | Lmt::Xpmem),
            cma: matches!(self, Lmt::Auto | Lmt::Cma),
            knem: matches!(self, Lmt::Auto | Lmt::Knem),
            pages: self == Lmt::Vmsplice,
        }
    }
}

/// What a rank needs to know before it joins a world.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Notification backend; `None` is `auto`: the first usable of uintr, signal.
    pub backend: Option<BackendKind>,
    /// Signal number of the backend `signal`.
    pub signal: i32,
    /// Largest eager message in bytes; longer ones go by rendezvous. `None` is what was measured, else
    /// [`DEFAULT_EAGER_MAX`].
    pub eager_max: Option<usize>,
    /// Hard limit of memory for unexpected messages in bytes.
    pub unexpected_max: usize,
    /// Large-message transfer strategy.
    pub lmt: Lmt,
    /// Bytes that each rank may allocate from the world's shared heap; 0: there is none. `None` is the machine's memory, or as much of
    /// it as addresses allow for.
    pub heap: Option<usize>,
    /// Measured thresholds.
    pub tune: Option<Tuning>,
    /// Placement of ranks.
    pub bind: Bind,
    /// Placement of progress threads.
    pub progress: ProgressPlacement,
    /// How many cores get no rank, so that progress threads have them to themselves.
    pub reserve: u32,
    /// How progress threads that share a core are scheduled.
    pub schedule: Schedule,
    /// The machine as placement sees it, in the notation of [`tocsin_topology::Synthetic`]; `None` is the machine.
    pub topology: Option<String>,
    /// File for the trace, of all ranks that this library's launcher or [`threads`](crate::threads()) starts. One of several that was not
    /// writes its own, with its number before the extension.
    pub trace: Option<PathBuf>,
    /// Its format.
    pub trace_format: TraceFormat,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            backend: None,
            signal: DEFAULT_SIGNAL,
            eager_max: None,
            unexpected_max: DEFAULT_UNEXPECTED_MAX,
            lmt: Lmt::default(),
            heap: None,
            tune: None,
            bind: Bind::None,
            progress: ProgressPlacement::default(),
            reserve: 0,
            schedule: Schedule::default(),
            topology: None,
            trace: None,
            trace_format: TraceFormat::default(),
        }
    }
}

/// A rank's part of the heap, where nothing else is wanted: as much as the machine has memory, or as all ranks of the world can have, in whole pages.
fn default_arena(memory: u64, ranks: u32) -> u64 {
    let most = MAX_HEAP / u64::from(ranks.max(1));
    memory.min(most) / HEAP_PAGE * HEAP_PAGE
}

impl Config {
    /// For ranks that leave their traces to this process, which [joins](crate::trace::join()) them.
    pub(crate) fn for_ranks(&self) -> Config {
        let Some(path) = &self.trace else { return self.clone() };
        let trace = Some(crate::trace::part(path));
        Config { trace, trace_format: TraceFormat::Part, ..self.clone() }
    }

    /// Each rank's part of the heap in bytes, in a world of so many.
    pub(crate) fn arena(&self, ranks: u32) -> u64 {
        match self.heap {
            Some(bytes) => bytes as u64,
            None => default_arena(crate::heap::memory(), ranks),
        }
    }

    /// Reads the `TOCSIN_*` variables of this process.
    ///
    /// # Errors
    /// [`Error::Environment`] for a wrong value, [`Error::UnknownVariable`] for a `TOCSIN_` variable that is not
    /// in [`VARIABLES`].
    pub fn from_env() -> Result<Config, Error> {
        Config::from_variables(std::env::vars_os())
    }

    /// Reads the `TOCSIN_*` variables among `variables`, ignoring all others.
    ///
    /// # Errors
    /// As [`Config::from_env`].
    pub fn from_variables(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Config, Error> {
        let mut config = Config::default();
        for (name, value) in variables {
            if !name.as_encoded_bytes().starts_with(b"TOCSIN_") {
                continue;
            }
            // What is no text is nobody's name, and is found to be none.
            let name = &*name.to_string_lossy();
            if name.starts_with("TOCSIN_TEST_") {
                // Read by the test programs, whose ranks inherit them.
                continue;
            }
            let known = variables::find(name)?;
            let Some(value) = value.to_str() else {
                let right = format!("text, in UTF-8: {}", known.values);
                return Err(Error::Environment {
                    variable: name.into(),
                    value: value.to_string_lossy().into(),
                    right,
                });
            };
            if !known.internal {
                config.set(name, value)?;
            }
        }
        Ok(config)
    }

    /// Sets what the variable `name` means to `value`.
    ///
    /// # Errors
    /// As [`Config::from_env`].
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let known = variables::find(name)?;
        match (known.set)(self, value) {
            Some(()) => Ok(()),
            None => Err(wrong(known, value)),
        }
    }

    /// The variables that give another process this configuration.
    pub fn to_variables(&self) -> Vec<(&'static str, String)> {
        VARIABLES
            .iter()
            .filter(|v| !v.internal)
            .filter_map(|v| (v.get)(self).map(|value| (v.name, value)))
            .collect()
    }

    /// The backend that this configuration means on this machine.
    ///
    /// # Errors
    /// [`Error::BackendUnusable`] when the one asked for cannot run here.
    pub fn usable_backend(&self) -> Result<BackendKind, Error> {
        match self.backend {
            None if tocsin_uintr_sys::why_not().is_none() => Ok(BackendKind::Uintr),
            None => Ok(BackendKind::Signal),
            Some(BackendKind::Uintr) => match tocsin_uintr_sys::why_not() {
                None => Ok(BackendKind::Uintr),
                Some(reason) => Err(Error::BackendUnusable { backend: "uintr".into(), reason }),
            },
            Some(kind) => Ok(kind),
        }
    }
}

fn wrong(variable: &Variable, value: &str) -> Error {
    let mut right = variable.values.to_owned();
    // Of a table there is more to say than that it is none.
    if variable.name == variables::TUNE
        && let Err(why) = Table::read(value.as_ref())
    {
        right += &format!(" ({why})");
    }
    Error::Environment { variable: variable.name.into(), value: value.into(), right }
}

#[cfg(test)]
mod tests;
