//! `tocsin plan`: what the policies and models of the library decide.

mod algorithms;
mod placement;
mod schedule;
mod split_tree;

use crate::cli::PlanCommand;
use crate::error::Error;
use tocsin_world::Config;

pub(crate) fn run(command: &PlanCommand) -> Result<(), Error> {
    match command {
        PlanCommand::Algorithms(args) => {
            algorithms::run(args);
            Ok(())
        }
        PlanCommand::Placement(args) => placement::run(args),
        PlanCommand::SplitTree(args) => split_tree::run(args),
        PlanCommand::Schedule(args) => schedule::run(args),
    }
}

/// The environment's configuration: it may name a policy or a topology.
fn environment() -> Result<Config, Error> {
    Config::from_env().map_err(|e| Error::Usage(e.to_string()))
}
