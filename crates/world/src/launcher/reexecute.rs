//! The current program as its own ranks.

use std::ffi::OsString;

use super::{Launch, Report};
use crate::config::{CHILD, Config};
use crate::error::Error;

/// Re-executes the current program as `ranks` ranks, each of which finds `name` and `args` by [`child_call`].
///
/// # Errors
/// As [`Launch::run`].
pub fn spawn_self(ranks: u32, name: &str, args: &[&str], config: &Config) -> Result<Report, Error> {
    let mut launch = launch_self(ranks, name, args)?;
    launch.config = config.clone();
    launch.run()
}

/// The launch of the current program for the function `name`, to be changed before it is run.
///
/// # Errors
/// The current program cannot be found.
pub fn launch_self(ranks: u32, name: &str, args: &[&str]) -> Result<Launch, Error> {
    let program = std::env::current_exe().map_err(|e| Error::os("finding the current program", e))?;
    let mut launch = Launch::new(program, ranks);
    launch.args = args.iter().map(OsString::from).collect();
    launch.env.push((CHILD.into(), name.into()));
    Ok(launch)
}

/// In a program that [`spawn_self`] re-executed: the name of the function to run and its arguments.
pub fn child_call() -> Option<(String, Vec<String>)> {
    let name = std::env::var(CHILD).ok()?;
    let args = std::env::args_os().skip(1).map(|a| a.to_string_lossy().into_owned()).collect();
    Some((name, args))
}
