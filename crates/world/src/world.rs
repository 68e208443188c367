//! The world of one rank.

use std::marker::PhantomData;

use crate::comm::Comm;
use crate::config::Config;
use crate::error::Error;
use crate::{BackendKind, Snapshot};

/// This process's membership of a world. Bound to the thread that made it, which is the one interrupted.
/// Dropping it finalizes.
#[derive(Debug)]
pub struct World {
    _thread: PhantomData<*const ()>,
}

impl World {
    /// Joins the world that a launcher made, or makes a world of one.
    /// # Errors
    /// Wrong environment.
    pub fn from_env() -> Result<World, Error> {
        World::with_config(Config::from_env()?)
    }
    /// As `from_env` with a configuration instead of the variables that people set.
    /// # Errors
    /// Wrong environment.
    pub fn with_config(_config: Config) -> Result<World, Error> {
        Ok(World { _thread: PhantomData })
    }
    /// Rank.
    pub fn rank(&self) -> u32 {
        0
    }
    /// Number of ranks.
    pub fn size(&self) -> u32 {
        1
    }
    /// The communicator of all ranks.
    pub fn comm(&self) -> Comm {
        Comm {}
    }
    /// Backend in use.
    pub fn backend(&self) -> BackendKind {
        BackendKind::Poll
    }
    /// Statistics of this rank.
    pub fn stats(&self) -> Snapshot {
        Snapshot::default()
    }
    /// Drains what is pending, then leaves the world.
    /// # Errors
    /// What could not be drained.
    pub fn finalize(self) -> Result<(), Error> {
        Ok(())
    }
    /// Ends every rank of the world with `code`.
    pub fn abort(&self, code: i32) -> ! {
        std::process::exit(code)
    }
}
