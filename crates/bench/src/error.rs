/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The command line asks for something that does not exist or does not fit together. Exit status 2.
    #[error("{0}")]
    Usage(String),
    /// The run failed. Exit status 1.
    #[error("{0}")]
    Failed(String),
    /// A file or a system call failed.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: String,
        /// The reason.
        source: std::io::Error,
    },
}

impl Error {
    /// The process's exit status.
    pub fn status(&self) -> u8 {
        match self {
            Error::Usage(_) => 2,
            _ => 1,
        }
    }

    /// The last system error, with what was being done.
    pub fn last_os(what: impl Into<String>) -> Error {
        Error::System { what: what.into(), source: std::io::Error::last_os_error() }
    }

    /// A failed run, from any other error.
    pub fn failed(what: impl std::fmt::Display) -> Error {
        Error::Failed(what.to_string())
    }
}

/// Turns an `io::Error` into ours, with what was being done.
pub(crate) fn doing(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
    let what = what.into();
    move |source| Error::System { what, source }
}
