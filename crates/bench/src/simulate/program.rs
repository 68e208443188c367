//! The schedules of all ranks as the simulation keeps them: 12 bytes per step, and what ranks whose schedules are alike have in common.
//!
//! In a ring every rank does the same with other peers, and there are N of N^2 steps or more: what steps do is kept once for all ranks of one
//! [`Shape`], in which peers are named by how far they are.

use crate::error::Error;
use std::collections::HashSet;
use std::rc::Rc;
use tocsin_nbc::{Action, Outline};

/// What a step is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Send,
    Recv,
    Copy,
    Reduce,
    Join,
}

/// How far a receive is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Its dependencies are not done, and its message is not there.
    Waiting,
    /// It waits for its message.
    Posted,
    /// Its message waits for it.
    Arrived,
}

/// No step.
pub(super) const NONE: u32 = u32::MAX;

/// What changes of a step, and what differs between ranks of one shape.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub bytes: u32,
    /// Dependencies that are not done; then the next step that waits for the core.
    pub link: u32,
    /// 2 bits of stage above 30 of the longest chain of messages that leads here.
    stage_chain: u32,
}

const CHAIN: u32 = (1 << 30) - 1;

impl State {
    pub(super) fn chain(&self) -> u32 {
        self.stage_chain & CHAIN
    }

    /// Another chain leads here.
    pub(super) fn lengthen(&mut self, chain: u32) {
        let longest = self.chain().max(chain.min(CHAIN));
        self.stage_chain = self.stage_chain & !CHAIN | longest;
    }

    pub(super) fn stage(&self) -> Stage {
        match self.stage_chain >> 30 {
            0 => Stage::Waiting,
            1 => Stage::Posted,
            _ => Stage::Arrived,
        }
    }

    pub(super) fn set_stage(&mut self, stage: Stage) {
        self.stage_chain = self.stage_chain & CHAIN | (stage as u32) << 30;
    }
}

/// What a step does in every schedule of a shape.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Step {
    /// 8 bits of kind above 24 of the distance of the peer, upwards: there are at most 100 000 ranks.
    kind_distance: u32,
    round: u32,
    /// Where its dependants begin; they end where the next step's begin.
    first: u32,
}

const DISTANCE: u32 = (1 << 24) - 1;

impl Step {
    fn distance(&self) -> u32 {
        self.kind_distance & DISTANCE
    }

    fn message(&self) -> (u32, u32) {
        (self.distance(), self.round)
    }
}

/// What the schedules of some ranks have in common.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Shape {
    steps: Box<[Step]>,
    dependants: Box<[u32]>,
    /// Receives, by the distance of their peer and round.
    receives: Box<[u32]>,
}

impl Shape {
    pub(super) fn kind(&self, step: u32) -> Kind {
        match self.steps[step as usize].kind_distance >> 24 {
            0 => Kind::Send,
            1 => Kind::Recv,
            2 => Kind::Copy,
            3 => Kind::Reduce,
            _ => Kind::Join,
        }
    }

    pub(super) fn round(&self, step: u32) -> u32 {
        self.steps[step as usize].round
    }

    /// How far upwards the peer of a step is.
    pub(super) fn distance(&self, step: u32) -> u32 {
        self.steps[step as usize].distance()
    }

    /// The step that receives a message from who is so far upwards, of so many ranks.
    pub(super) fn receiver(&self, distance: u32, round: u32, ranks: u32) -> Option<u32> {
        let message = |at: &u32| self.steps[*at as usize].message();
        let wanted = (distance, round);
        // Where it stands if all others send equally much: a search through what is not in a cache takes long.
        let guess = (u64::from(distance) * self.receives.len() as u64 / u64::from(ranks)) as usize;
        let near = self.receives.get(guess.saturating_sub(2)..self.receives.len().min(guess + 2));
        if let Some(at) = near.unwrap_or(&[]).iter().find(|at| message(at) == wanted) {
            return Some(*at);
        }
        let found = self.receives.binary_search_by_key(&wanted, message);
        found.ok().map(|at| self.receives[at])
    }

    /// The dependants of a step.
    pub(super) fn dependants(&self, step: u32) -> &[u32] {
        let first = self.steps[step as usize].first as usize;
        let end = self.steps.get(step as usize + 1).map_or(self.dependants.len(), |next| next.first as usize);
        &self.dependants[first..end]
    }

    fn memory(&self) -> usize {
        size_of_val(&*self.steps) + size_of_val(&*self.dependants) + size_of_val(&*self.receives)
    }
}

/// What all ranks do.
pub(super) struct Programs {
    ranks: u32,
    pub states: Vec<State>,
    /// By rank: its shape, and where its states begin.
    all: Vec<(Rc<Shape>, usize)>,
    shapes: HashSet<Rc<Shape>>,
    /// Bytes of the shapes.
    shared: usize,
}

impl Programs {
    pub(super) fn new(ranks: u32) -> Programs {
        let all = Vec::with_capacity(ranks as usize);
        Programs { ranks, states: Vec::new(), all, shapes: HashSet::new(), shared: 0 }
    }

    /// Bytes that they take.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.states) + self.shared
    }

    /// Adds what the next rank does.
    pub(super) fn push(&mut self, outline: &Outline) -> Result<(), Error> {
        let (rank, start) = (self.all.len() as u32, self.states.len());
        let mut steps = Vec::with_capacity(outline.len());
        let mut dependants = Vec::new();
        let mut receives = Vec::new();
        self.states.reserve(outline.len());
        for (number, view) in (0u32..).zip(outline.view()) {
            let (kind, peer, bytes, round) = match view.action {
                Action::Send { peer, round, bytes } => (Kind::Send, peer, bytes, round),
                Action::Recv { peer, round, bytes } => (Kind::Recv, peer, bytes, round),
                Action::Copy { bytes } => (Kind::Copy, rank, bytes, 0),
                Action::Reduce { bytes } => (Kind::Reduce, rank, bytes, 0),
                Action::Join => (Kind::Join, rank, 0, 0),
                other => return Err(Error::Failed(format!("{other:?} cannot be simulated yet"))),
            };
            if kind == Kind::Recv {
                receives.push(number);
            }
            let distance = if peer < rank { peer + self.ranks - rank } else { peer - rank };
            steps.push(Step {
                kind_distance: distance & DISTANCE | (kind as u32) << 24,
                round,
                first: dependants.len() as u32,
            });
            self.states.push(State {
                bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
                link: view.dependencies,
                stage_chain: 0,
            });
            dependants.extend_from_slice(view.dependants);
        }
        receives.sort_unstable_by_key(|at| steps[*at as usize].message());
        let shape = Shape {
            steps: steps.into_boxed_slice(),
            dependants: dependants.into_boxed_slice(),
            receives: receives.into_boxed_slice(),
        };
        let shape = match self.shapes.get(&shape) {
            Some(known) => Rc::clone(known),
            None => {
                self.shared += shape.memory();
                let shape = Rc::new(shape);
                self.shapes.insert(Rc::clone(&shape));
                shape
            }
        };
        self.all.push((shape, start));
        Ok(())
    }

    pub(super) fn ranks(&self) -> u32 {
        self.all.len() as u32
    }

    pub(super) fn shape(&self, rank: u32) -> &Shape {
        &self.all[rank as usize].0
    }

    /// The states of a rank's steps.
    pub(super) fn of(&mut self, rank: u32) -> &mut [State] {
        let (shape, start) = &self.all[rank as usize];
        &mut self.states[*start..*start + shape.steps.len()]
    }

    pub(super) fn state(&self, rank: u32, step: u32) -> &State {
        &self.states[self.all[rank as usize].1 + step as usize]
    }

    pub(super) fn state_mut(&mut self, rank: u32, step: u32) -> &mut State {
        let at = self.all[rank as usize].1 + step as usize;
        &mut self.states[at]
    }

    /// The other end of a message, and how far upwards this one is from there.
    pub(super) fn peer(&self, rank: u32, step: u32) -> (u32, u32) {
        let distance = self.shape(rank).distance(step);
        let up = rank + distance;
        (if up < self.ranks { up } else { up - self.ranks }, self.ranks - distance)
    }

    /// A step is done: its dependants that became ready come last in `ready`, the first of them at the end.
    pub(super) fn release(&mut self, rank: u32, step: u32, ready: &mut Vec<u32>) {
        let (shape, start) = &self.all[rank as usize];
        let states = &mut self.states[*start..*start + shape.steps.len()];
        let chain = states[step as usize].chain();
        // Backwards, because the last is taken first.
        for &next in shape.dependants(step).iter().rev() {
            let state = &mut states[next as usize];
            state.lengthen(chain);
            state.link -= 1;
            if state.link == 0 {
                ready.push(next);
            }
        }
    }
}
