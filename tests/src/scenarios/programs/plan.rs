//! What all ranks know of a program.

use tocsin_world::Mode;

use crate::random::Random;
use crate::scenarios::messages::{Way, size};

/// A message of the plan; ranks are the world's.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Which communicator.
    pub on: usize,
    pub source: u32,
    pub dest: u32,
    pub tag: i32,
    pub bytes: usize,
    pub content: u64,
    pub mode: Mode,
}

/// A step of the plan.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    /// The message of this number.
    Message(usize),
    /// The message of this number and the next, which goes the other way.
    Exchange(usize),
    /// On which communicator, and a seed.
    Collective(usize, u64),
    /// The prepared one of this number.
    Restart(usize),
}

/// A stretch of the plan at whose end everything that was begun is over.
#[derive(Debug)]
pub struct Round {
    /// Receives name their sources, so that a rank may wait for messages in the middle. Otherwise a message that is later in the plan
    /// may take the receive of an earlier one, and ranks wait for messages once they have started all.
    pub is_orderly: bool,
    pub operations: Vec<Operation>,
    pub messages: Vec<Message>,
    /// The rank that comes late.
    pub late: u64,
    seed: u64,
}

impl Round {
    /// How a rank of the world receives on a communicator.
    pub fn way(&self, on: usize, dest: u32) -> Way {
        let all = [Way::Exact, Way::AnyTag, Way::AnySource, Way::Any];
        let most = if self.is_orderly { 2 } else { 4 };
        all[Random::new(self.seed ^ (on as u64) << 32 ^ u64::from(dest) << 40).below(most) as usize]
    }
}

/// A program, whose rounds are made one after the other.
#[derive(Debug)]
pub struct Plan {
    pub random: Random,
    /// Whether operators may be a user's, which no handler runs.
    pub users: bool,
    /// Whether a rank may wait by computing, so that handlers alone make progress.
    pub spins: bool,
    ranks: u64,
    operations: u64,
    max: u64,
}

impl Plan {
    pub fn new(seed: u64, ranks: u64, operations: u64, max: u64) -> Plan {
        let mut random = Random::new(seed);
        let spins = random.below(2) == 0;
        Plan { users: !spins, spins, random, ranks, operations, max }
    }

    /// The next one.
    pub fn round(&mut self) -> Round {
        let is_orderly = self.random.below(3) > 0;
        let (mut operations, mut messages) = (Vec::new(), Vec::new());
        // Of messages, exchanges, collectives and restarts, in each round another mixture.
        let shares = [8, 2, 4, 2].map(|most| self.random.below(most + 1));
        for _ in 0..1 + self.random.below(self.operations) {
            let mut lot = self.random.below(shares.iter().sum::<u64>() + 1);
            let kind = shares.iter().position(|share| {
                let is_here = lot < *share;
                lot = lot.saturating_sub(*share);
                is_here
            });
            match kind {
                Some(1) if self.ranks > 1 => {
                    let there = loop {
                        let message = self.message();
                        if message.source != message.dest {
                            break message;
                        }
                    };
                    let back = Message { source: there.dest, dest: there.source, ..self.message() };
                    operations.push(Operation::Exchange(messages.len()));
                    // As `sendrecv` sends.
                    let (mode, on) = (Mode::Standard, there.on);
                    messages.extend([Message { mode, ..there }, Message { mode, on, ..back }]);
                }
                Some(2) => {
                    operations.push(Operation::Collective(self.random.below(3) as usize, self.random.bits()));
                }
                Some(3) => operations.push(Operation::Restart(self.random.below(super::PREPARED) as usize)),
                _ => {
                    operations.push(Operation::Message(messages.len()));
                    messages.push(self.message());
                }
            }
        }
        let late = self.random.below(3 * self.ranks);
        Round { is_orderly, operations, messages, late, seed: self.random.bits() }
    }

    fn message(&mut self) -> Message {
        let random = &mut self.random;
        let on = random.below(3) as usize;
        let source = random.below(self.ranks);
        let mut dest = random.below(self.ranks);
        if on == 2 && (source ^ dest) & 1 == 1 {
            // Another half: a rank of the same.
            dest = source;
        }
        let caps = [100, 100, 100, 20_000, 20_000, 20_000, 200_000, 200_000, self.max];
        let cap = caps[random.below(caps.len() as u64) as usize].min(self.max);
        Message {
            on,
            source: source as u32,
            dest: dest as u32,
            tag: random.below(3) as i32,
            bytes: size(random, cap),
            content: random.bits(),
            mode: if random.below(4) == 0 { Mode::Synchronous } else { Mode::Standard },
        }
    }
}
