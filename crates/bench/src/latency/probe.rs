//! Single batches, for benches that keep their own statistics.

use super::Pair;
use crate::error::Error;
use crate::stats::Times;
use crate::values::{Kind, Mechanism};
use std::time::Duration;
use tocsin_topology::{Distance, Topology};

/// A sender (the calling thread) and a receiver on two near cores.
///
/// The current program must pass `peer` on its command line to [`crate::run`]: the receiver is itself.
pub struct Probe(Pair);

impl Probe {
    /// Starts the receiver and binds the calling thread.
    ///
    /// # Errors
    /// When there are no two cores, or the receiver does not start.
    pub fn start(kind: Kind) -> Result<Probe, Error> {
        let machine = Topology::machine().map_err(Error::failed)?;
        let Some((here, there)) = machine.pair(Distance::Near) else {
            return Err(Error::Failed("latency is measured between two cores of one NUMA node".into()));
        };
        let pair = Pair::start(kind, there)?;
        tocsin_topology::bind_thread(here).map_err(Error::failed)?;
        Ok(Probe(pair))
    }

    /// The sum of the latencies of so many posts.
    ///
    /// # Errors
    /// When the receiver ended.
    pub fn total(&mut self, mechanism: Mechanism, posts: u64) -> Result<Duration, Error> {
        let mut times = Times::default();
        self.0.batch(mechanism, posts, &mut times)?;
        Ok(Duration::from_nanos((times.mean() * posts as f64) as u64))
    }

    /// Ends the receiver.
    ///
    /// # Errors
    /// When it failed.
    pub fn stop(self) -> Result<(), Error> {
        self.0.stop()
    }
}
