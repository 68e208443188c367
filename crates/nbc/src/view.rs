//! A schedule for those who do not run it (simulations, pictures): what its steps do, without the memory they use.

use crate::Schedule;
use crate::schedule::Kind;

/// What a step does. Peers are world ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Action {
    /// A message to `peer`.
    Send {
        /// Who gets it.
        peer: u32,
        /// What tells it from others between the same ranks.
        round: u32,
        /// Its length.
        bytes: usize,
    },
    /// A message from `peer`.
    Recv {
        /// Who sends it.
        peer: u32,
        /// What tells it from others between the same ranks.
        round: u32,
        /// The room for it.
        bytes: usize,
    },
    /// A copy within the rank.
    Copy {
        /// Its length.
        bytes: usize,
    },
    /// A reduction.
    Reduce {
        /// Bytes of the result.
        bytes: usize,
    },
    /// Nothing: one name for many dependencies.
    Join,
}

/// A step among the others of its schedule.
#[derive(Clone, Copy, Debug)]
pub struct StepView<'a> {
    /// What it does.
    pub action: Action,
    /// How many steps must be done before it.
    pub dependencies: u32,
    /// The steps that wait for it, by their numbers.
    pub dependants: &'a [u32],
}

impl Schedule {
    /// The steps; the position of each is its number.
    pub fn view(&self) -> impl ExactSizeIterator<Item = StepView<'_>> {
        self.steps.iter().map(|step| {
            let action = match step.kind {
                Kind::Send { peer, round, bytes, .. } => Action::Send { peer, round, bytes },
                Kind::Recv { peer, round, bytes, .. } => Action::Recv { peer, round, bytes },
                Kind::Copy { bytes, .. } | Kind::Pack { bytes, .. } | Kind::Unpack { bytes, .. } => {
                    Action::Copy { bytes }
                }
                Kind::Reduce { count, operator, .. } => {
                    Action::Reduce { bytes: count.saturating_mul(operator.size()) }
                }
                Kind::Join => Action::Join,
            };
            let first = step.first_dependant as usize;
            let dependants = self.dependants.get(first..first + step.dependants as usize).unwrap_or(&[]);
            StepView { action, dependencies: step.dependencies, dependants }
        })
    }
}
