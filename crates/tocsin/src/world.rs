//! The world of one rank, and the ways to make one.

use tocsin_world::launcher::Report;

use crate::comm::Comm;
use crate::{BackendKind, Config, Error, Snapshot};
use tocsin_world::say;

/// Membership of a world. It makes the thread that created it interruptible, and is bound to it; communicators are
/// not. Dropping it finalizes; dropping it while unwinding leaves this rank dead to the others, and so does a process that ends without dropping
/// it, by [`std::process::exit`].
#[derive(Debug)]
pub struct World {
    raw: tocsin_world::World,
}

impl World {
    /// Joins the world of the launcher that started this program (`tocsin run`, [`World::spawn`]), or makes a world
    /// of one. Configuration: the `TOCSIN_*` variables.
    ///
    /// ```
    /// let world = tocsin::World::from_env()?;
    /// assert_eq!((world.rank(), world.size()), (0, 1));
    /// world.finalize()?;
    /// # Ok::<(), tocsin::Error>(())
    /// ```
    ///
    /// # Errors
    /// A wrong variable, a launcher that cannot be reached or has another version, a backend that cannot run here,
    /// memory that the system refuses.
    pub fn from_env() -> Result<World, Error> {
        Ok(World { raw: tocsin_world::World::from_env()? })
    }

    /// As [`World::from_env`], with a configuration in place of the variables.
    ///
    /// # Errors
    /// As [`World::from_env`].
    pub fn with_config(config: Config) -> Result<World, Error> {
        Ok(World { raw: tocsin_world::World::with_config(config)? })
    }

    /// Runs `f` on `ranks` threads of this process, each a rank of one world, and gives what each returned. The
    /// configuration comes from the `TOCSIN_*` variables.
    ///
    /// ```
    /// use tocsin::{Op, World};
    /// let sums = World::threads(2, |comm| {
    ///     let mine = vec![comm.rank() as f64 + 1.0; 8];
    ///     comm.iallreduce(mine, Op::Sum)?.wait()
    /// })?;
    /// for sum in sums {
    ///     assert_eq!(sum?, [3.0; 8]);
    /// }
    /// # Ok::<(), tocsin::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`World::from_env`]; [`Error::RankPanicked`] naming the first rank that panicked. The others saw it dead.
    pub fn threads<R: Send>(ranks: u32, f: impl Fn(Comm) -> R + Sync) -> Result<Vec<R>, Error> {
        World::threads_with(ranks, &Config::from_env()?, f)
    }

    /// As [`World::threads`], with a configuration in place of the variables.
    ///
    /// # Errors
    /// As [`World::threads`].
    pub fn threads_with<R: Send>(
        ranks: u32,
        config: &Config,
        f: impl Fn(Comm) -> R + Sync,
    ) -> Result<Vec<R>, Error> {
        tocsin_world::threads(ranks, config, |comm| f(comm.into()))
    }

    /// As [`World::threads_with`], with one result per rank: a rank that panicked is an error in its place.
    ///
    /// # Errors
    /// As [`World::threads`], before any rank ran.
    pub fn threads_each<R: Send>(
        ranks: u32,
        config: &Config,
        f: impl Fn(Comm) -> R + Sync,
    ) -> Result<Vec<Result<R, Error>>, Error> {
        tocsin_world::threads_each(ranks, config, |comm| f(comm.into()))
    }

    /// Re-executes the current program as `ranks` processes, each of which runs the function that its
    /// [`child_entry`] registered as `name`, with `args`; waits for them. This process launches and is no rank.
    ///
    /// # Errors
    /// The program cannot be started, wrong configuration, more ranks than descriptors allow. A rank that fails is
    /// no error here but a status in the report.
    pub fn spawn(ranks: u32, name: &str, args: &[&str]) -> Result<Report, Error> {
        tocsin_world::launcher::spawn_self(ranks, name, args, &Config::from_env()?)
    }

    /// This rank's number.
    pub fn rank(&self) -> u32 {
        self.raw.rank()
    }

    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.raw.size()
    }

    /// The communicator of all ranks.
    pub fn comm(&self) -> Comm {
        self.raw.comm().into()
    }

    /// Backend that interrupts this rank.
    pub fn backend(&self) -> BackendKind {
        self.raw.backend()
    }

    /// Statistics of this rank so far.
    pub fn stats(&self) -> Snapshot {
        self.raw.stats()
    }

    /// Finishes what is pending, dropped requests included, then leaves the world. Does not wait for dead ranks; waits until a
    /// large message that was sent is received, or its receiver gone.
    ///
    /// # Errors
    /// [`Error::NeverReceived`] where a message that asked its receiver first was not taken, [`Error::Aborted`]; [`Error::InvalidArgument`] in a child of `fork`, whose parent's world goes on; [`Error::InHandler`] in a
    /// user operator: the rank leaves when its thread ends, or the process exits on it.
    pub fn finalize(self) -> Result<(), Error> {
        self.raw.finalize()
    }

    /// Ends every rank of the world; `code` becomes the status of `tocsin run`.
    pub fn abort(&self, code: i32) -> ! {
        self.raw.abort(code)
    }
}

/// A function that [`World::spawn`] can run in a child, by its name.
pub type Child = (&'static str, fn(World, &[String]) -> Result<(), Error>);

/// To be called first in `main` of a program that uses [`World::spawn`]: in a re-executed child it runs the function
/// that the parent named and exits; otherwise it returns.
///
/// The child's status is 0 after `Ok`, 1 after an error (printed on standard error), 101 after a panic.
pub fn child_entry(children: &[Child]) {
    let Some((name, args)) = tocsin_world::launcher::child_call() else { return };
    let outcome = match children.iter().find(|c| c.0 == name) {
        Some((_, run)) => World::from_env().and_then(|world| run(world, &args)),
        None => Err(Error::Bootstrap {
            what: format!("this program registered no function `{name}` with child_entry"),
        }),
    };
    let status = match outcome {
        Ok(()) => 0,
        Err(error) => {
            say(format_args!("tocsin: {name}: {error}"));
            1
        }
    };
    std::process::exit(status)
}
