//! One rank's schedule as the simulation keeps it: 20 bytes per step, and 4 per dependency and per receive.

use crate::error::Error;
use tocsin_nbc::{Action, Schedule};

/// What a step is, and how far a receive is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Send,
    /// Its dependencies are not done, and its message is not there.
    Recv,
    /// It waits for its message.
    Posted,
    /// Its message waits for it.
    Arrived,
    Copy,
    Reduce,
    Join,
}

/// No step.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub bytes: u32,
    /// 8 bits of kind above 24 of peer: there are at most 100 000 ranks.
    kind_peer: u32,
    /// Dependencies that are not done; then the next step that waits for the core.
    pub link: u32,
    /// Messages on the longest chain that leads here.
    pub chain: u32,
    /// Where its dependants begin; they end where the next step's begin.
    first: u32,
}

const PEER: u32 = (1 << 24) - 1;

impl Step {
    pub(super) fn kind(&self) -> Kind {
        match self.kind_peer >> 24 {
            0 => Kind::Send,
            1 => Kind::Recv,
            2 => Kind::Posted,
            3 => Kind::Arrived,
            4 => Kind::Copy,
            5 => Kind::Reduce,
            _ => Kind::Join,
        }
    }

    pub(super) fn set_kind(&mut self, kind: Kind) {
        self.kind_peer = self.kind_peer & PEER | (kind as u32) << 24;
    }

    pub(super) fn peer(&self) -> u32 {
        self.kind_peer & PEER
    }
}

/// What a rank does.
pub(super) struct Program {
    pub steps: Box<[Step]>,
    dependants: Box<[u32]>,
    /// Sends and receives that have a round other than 0 among those of their peer: (step, round), by step.
    rounds: Box<[(u32, u32)]>,
    /// Receives, by peer and round.
    receives: Box<[u32]>,
}

impl Program {
    pub(super) fn new(schedule: &Schedule) -> Result<Program, Error> {
        let mut steps = Vec::with_capacity(schedule.len());
        let mut dependants = Vec::new();
        let mut rounds = Vec::new();
        for (number, view) in (0u32..).zip(schedule.view()) {
            let (kind, peer, bytes, round) = match view.action {
                Action::Send { peer, round, bytes } => (Kind::Send, peer, bytes, round),
                Action::Recv { peer, round, bytes } => (Kind::Recv, peer, bytes, round),
                Action::Copy { bytes } => (Kind::Copy, 0, bytes, 0),
                Action::Reduce { bytes } => (Kind::Reduce, 0, bytes, 0),
                Action::Join => (Kind::Join, 0, 0, 0),
                other => return Err(Error::Failed(format!("{other:?} cannot be simulated yet"))),
            };
            if round > 0 {
                rounds.push((number, round));
            }
            steps.push(Step {
                bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
                kind_peer: peer & PEER | (kind as u32) << 24,
                link: view.dependencies,
                chain: 0,
                first: dependants.len() as u32,
            });
            dependants.extend_from_slice(view.dependants);
        }
        let mut program = Program {
            steps: steps.into_boxed_slice(),
            dependants: dependants.into_boxed_slice(),
            rounds: rounds.into_boxed_slice(),
            receives: Box::default(),
        };
        let is_receive = |at: &u32| program.steps[*at as usize].kind() == Kind::Recv;
        let mut receives: Vec<u32> = (0..program.steps.len() as u32).filter(is_receive).collect();
        receives.sort_by_key(|at| program.message(*at));
        program.receives = receives.into_boxed_slice();
        Ok(program)
    }

    /// Peer and round of a step.
    fn message(&self, step: u32) -> (u32, u32) {
        (self.steps[step as usize].peer(), self.round(step))
    }

    pub(super) fn round(&self, step: u32) -> u32 {
        let found = self.rounds.binary_search_by_key(&step, |(step, _)| *step);
        found.map_or(0, |at| self.rounds[at].1)
    }

    /// The step that receives a message.
    pub(super) fn receiver(&self, peer: u32, round: u32) -> Option<u32> {
        let found = self.receives.binary_search_by_key(&(peer, round), |at| self.message(*at));
        found.ok().map(|at| self.receives[at])
    }

    /// The dependants of a step, as positions for [`dependant`](Self::dependant).
    pub(super) fn dependants(&self, step: u32) -> std::ops::Range<u32> {
        let end = self.steps.get(step as usize + 1).map_or(self.dependants.len() as u32, |next| next.first);
        self.steps[step as usize].first..end
    }

    pub(super) fn dependant(&self, position: u32) -> u32 {
        self.dependants[position as usize]
    }
}
