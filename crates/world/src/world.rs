//! The world of one rank.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::bootstrap::{Bootstrap, LauncherSocket, Singleton};
use crate::comm::Comm;
use crate::config::Config;
use crate::error::Error;
use crate::rank::{self, Bound, Rank};
use crate::{BackendKind, Snapshot};

/// Membership of a world. It is bound to the thread that made it, which is the one that is interrupted.
///
/// Dropping it finalizes; dropping it while unwinding leaves this rank dead to the others.
#[derive(Debug)]
pub struct World {
    rank: Arc<Rank>,
    comm: Comm,
    /// Taken when it leaves.
    bound: Option<Bound>,
    _thread: PhantomData<*const ()>,
}

impl World {
    /// Joins the world of the launcher that started this process, or makes a world of one.
    ///
    /// # Errors
    /// [`Error::Environment`] and [`Error::UnknownVariable`] for wrong `TOCSIN_*` variables, and those of
    /// [`World::join`].
    pub fn from_env() -> Result<World, Error> {
        World::with_config(Config::from_env()?)
    }

    /// As [`World::from_env`] with a configuration in place of the variables that people set.
    ///
    /// # Errors
    /// As [`World::join`].
    pub fn with_config(config: Config) -> Result<World, Error> {
        match LauncherSocket::from_env()? {
            Some(socket) => World::join(socket, &config),
            None => World::join(Singleton { heap: config.arena(1) }, &config),
        }
    }

    /// Joins the world that `bootstrap` finds.
    ///
    /// # Errors
    /// [`Error::Bootstrap`], [`Error::Version`], [`Error::BackendUnusable`], refusals of the system.
    pub fn join(bootstrap: impl Bootstrap, config: &Config) -> Result<World, Error> {
        // Before the place is taken: a wrong backend must not cost the world a rank.
        config.usable_backend()?;
        let (rank, bound) = rank::join(bootstrap.place()?, config)?;
        let comm = Comm::world(rank.clone())?;
        Ok(World { rank, comm, bound: Some(bound), _thread: PhantomData })
    }

    /// This rank's number.
    pub fn rank(&self) -> u32 {
        self.rank.rank
    }

    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.rank.segment.ranks()
    }

    /// The communicator of all ranks.
    pub fn comm(&self) -> Comm {
        self.comm.clone()
    }

    /// Backend in use.
    pub fn backend(&self) -> BackendKind {
        self.rank.backend
    }

    /// Statistics of this rank so far.
    pub fn stats(&self) -> Snapshot {
        self.rank.stats()
    }

    /// Drains what is pending, dropped requests included, then leaves the world. What a dead or finalized rank would
    /// have to take is given up.
    ///
    /// # Errors
    /// [`Error::Aborted`].
    pub fn finalize(mut self) -> Result<(), Error> {
        match self.bound.take() {
            Some(bound) => self.rank.finalize(bound),
            None => Ok(()),
        }
    }

    /// Ends every rank of the world; `code` becomes the launcher's status.
    pub fn abort(&self, code: i32) -> ! {
        self.rank.abort(code)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let Some(bound) = self.bound.take() else { return };
        if std::thread::panicking() {
            self.rank.die(bound);
        } else {
            // An abort is reported by who called it.
            let _aborted = self.rank.finalize(bound);
        }
    }
}
