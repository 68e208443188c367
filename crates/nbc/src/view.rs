//! A schedule for those who do not run it (simulations, pictures): what its steps do, without the memory they use.

use crate::Schedule;
use crate::schedule::{Kind, Step};

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

/// A schedule that cannot be run: [`table::outline`](crate::table::outline) makes it of what no world is large enough for.
pub struct Outline {
    steps: Vec<Step>,
    dependants: Vec<u32>,
}

impl Outline {
    pub(crate) fn new(steps: Vec<Step>, dependants: Vec<u32>) -> Outline {
        Outline { steps, dependants }
    }

    /// Number of steps.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The steps; the position of each is its number.
    pub fn view(&self) -> impl ExactSizeIterator<Item = StepView<'_>> {
        view(&self.steps, &self.dependants)
    }
}

impl std::fmt::Debug for Outline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.view()).finish()
    }
}

impl Schedule {
    /// The steps; the position of each is its number.
    pub fn view(&self) -> impl ExactSizeIterator<Item = StepView<'_>> {
        view(&self.steps, &self.dependants)
    }
}

fn view<'a>(steps: &'a [Step], dependants: &'a [u32]) -> impl ExactSizeIterator<Item = StepView<'a>> {
    steps.iter().map(move |step| {
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
        let dependants = dependants.get(first..first + step.dependants as usize).unwrap_or(&[]);
        StepView { action, dependencies: step.dependencies, dependants }
    })
}
