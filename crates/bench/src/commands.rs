//! Commands that measure nothing.

pub(crate) mod info;
pub(crate) mod plan;
pub(crate) mod run;

use tocsin_topology::{Policy, Topology};
use tocsin_world::Config;

/// Which policy binds the ranks: what the command line says, else the environment, else `scatter` while there are cores
/// enough or some are to be kept free.
fn default_bind(given: Option<Policy>, config: &Config, machine: &Topology, ranks: usize) -> Policy {
    match given {
        Some(policy) => policy,
        None if std::env::var_os("TOCSIN_BIND").is_some() => config.bind,
        None if ranks <= machine.cores.len() || config.reserve > 0 => Policy::Scatter,
        None => Policy::None,
    }
}
