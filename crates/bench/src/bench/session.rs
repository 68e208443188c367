//! Rounds of overlap one at a time, for benches that keep their own statistics.

use super::check;
use crate::error::Error;
use crate::fleet::block::Task;
use crate::fleet::{Fleet, Plan, usable};
use crate::stats::Overlap;
use crate::values::{Backend, Buffers, Case, Kind, Lmt};
use tocsin_topology::{Policy, Topology};

/// Two ranks for each of some backends, side by side.
///
/// The current program must pass `rank` and `peer` on its command line to [`crate::run`]: its ranks are itself.
pub struct Session {
    fleet: Fleet,
}

impl Session {
    /// Starts a world of two for each backend.
    ///
    /// # Errors
    /// When a backend is not usable, or a world does not start.
    pub fn start(backends: &[Backend], kind: Kind) -> Result<Session, Error> {
        let cores = Topology::machine().map_err(Error::failed)?.cores.len();
        let bind = if cores >= 2 { Policy::Scatter } else { Policy::None };
        let plan = |backend: &Backend| {
            let backend = Some(usable(*backend)?);
            let (lmt, eager_max, algorithm, persistent) = (Lmt::Auto, None, None, false);
            let (progress, reserve, schedule, trace) = (None, None, None, None);
            let of_threads = Plan {
                backend,
                kind,
                ranks: 2,
                bind,
                lmt,
                eager_max,
                algorithm,
                persistent,
                buffers: Buffers::Private,
                progress,
                reserve,
                schedule,
                trace,
            };
            Ok(of_threads)
        };
        let plans = backends.iter().map(plan).collect::<Result<Vec<_>, Error>>()?;
        Ok(Session { fleet: Fleet::start(&plans)? })
    }

    /// One round of the world `at` (in the order of the backends): `bytes` travel while `case` computes for
    /// `compute_ns`; 0: the communication alone. Data is checked.
    ///
    /// # Errors
    /// When the world ended, or data was wrong.
    ///
    /// # Panics
    /// When there is no world `at`.
    pub fn round(&mut self, at: usize, bytes: u64, case: Case, compute_ns: f64) -> Result<Overlap, Error> {
        let work = if compute_ns > 0.0 { self.fleet.speed.work_for_ns(compute_ns) } else { 0 };
        let world = &mut self.fleet.worlds[at];
        let measured = world.run(Task::Overlap { bytes, case, work })?;
        check(&measured, &world.plan, "a message")?;
        let most = |of: fn(&crate::fleet::block::Measured) -> u64| super::most(&measured, of) as f64;
        Ok(Overlap { t_comm: most(|m| m.t_comm), t_comp: most(|m| m.t_comp), t_ovrl: most(|m| m.t_ovrl) })
    }

    /// Ends the worlds.
    ///
    /// # Errors
    /// When a rank failed.
    pub fn stop(self) -> Result<(), Error> {
        self.fleet.stop()
    }
}
