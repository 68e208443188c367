//! What can go wrong when a receiver is installed.

use std::io;

/// Why a receiver could not be installed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine or kernel lacks what the backend needs.
    #[error("the `{backend}` doorbell is not available here: {why}")]
    Unavailable {
        /// The backend asked for.
        backend: crate::BackendKind,
        /// What is missing.
        why: String,
    },
    /// The signal is not one that a rank may be rung by.
    #[error(
        "signal {0} cannot ring a doorbell: use SIGURG (the default), SIGIO, SIGUSR1, SIGUSR2, SIGWINCH or a real-time \
         signal"
    )]
    BadSignal(i32),
    /// The descriptor has an interruptible thread already.
    #[error("the descriptor already belongs to thread {0}: one rank has one interruptible thread")]
    Taken(u32),
    /// The thread is interruptible already, or too many threads are.
    #[error(transparent)]
    Threads(#[from] tocsin_sync::thread::TableFull),
    /// Other code replaced our signal handler again and again, each time on top of the last.
    #[error("the handler of signal {0} was replaced by other code too often; choose another signal")]
    Replaced(i32),
    /// There is no receiver in the descriptor to connect to: connect when it is installed.
    #[error("the descriptor has no receiver (any more) to connect to")]
    NotInstalled,
    /// The table of connections has no place for this one.
    #[error("too many connections of this process to other ranks; rings go by signal")]
    NoPlace,
    /// The kernel refused something about user interrupts.
    #[error(transparent)]
    Interrupts(Box<dyn std::error::Error + Send + Sync>),
    /// A system call failed.
    #[error("{call} failed: {source}{hint}")]
    System {
        /// The call.
        call: &'static str,
        /// The kernel's answer.
        source: io::Error,
        /// What to do about it; empty, or starts with "; ".
        hint: &'static str,
    },
}

impl Error {
    pub(crate) fn last(call: &'static str) -> Error {
        Error::System { call, source: io::Error::last_os_error(), hint: "" }
    }

    pub(crate) fn last_with(call: &'static str, hint: &'static str) -> Error {
        Error::System { call, source: io::Error::last_os_error(), hint }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl From<tocsin_uintr_sys::Error> for Error {
    fn from(error: tocsin_uintr_sys::Error) -> Error {
        Error::Interrupts(Box::new(error))
    }
}
