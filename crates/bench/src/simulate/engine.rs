//! The run itself: events in the order of their times, ties in the order in which they arose.

use super::program::{Kind, NONE, Programs, Stage};
use super::queue::Queue;
use super::{Model, Totals};
use crate::error::Error;

/// Something that happens to a step of a rank.
#[derive(Clone, Copy)]
enum What {
    /// The rank's core has done its part of it.
    Worked,
    /// A send's last byte has left: the buffer may change.
    Left,
    /// A receive's first byte stands before the interface of its node, at the end of a chain of so many messages.
    Head(u32),
    /// A receive's last byte is in memory.
    Arrived(u32),
}

/// Rank, step.
type Event = (u32, u32, What);

/// Most events to come at once: a GiB, or a few where no two are at the same time.
const MOST_EVENTS: usize = 48 << 20;

/// A rank's core: what it works on, and what waits for it, linked through the steps.
#[derive(Clone, Copy)]
struct Core {
    busy: bool,
    head: u32,
    tail: u32,
}

pub(super) struct Engine {
    model: Model,
    programs: Programs,
    cores: Vec<Core>,
    /// When the interfaces of the nodes are free: outward, inward.
    outward: Vec<u64>,
    inward: Vec<u64>,
    events: Queue<Event>,
    now: u64,
    done: u64,
    totals: Totals,
    /// Steps that have just become ready, of one rank.
    ready: Vec<u32>,
}

impl Engine {
    pub(super) fn new(model: Model, programs: Programs) -> Engine {
        let ranks = programs.ranks();
        let nodes = ranks.checked_sub(1).map_or(0, |last| model.node(last) + 1);
        let steps = programs.states.len() as u64;
        Engine {
            model,
            cores: vec![Core { busy: false, head: NONE, tail: NONE }; ranks as usize],
            outward: vec![0; nodes],
            inward: vec![0; nodes],
            programs,
            events: Queue::new(),
            now: 0,
            done: 0,
            totals: Totals { steps, messages: 0, bytes: 0, chain: 0, time_ps: 0 },
            ready: Vec::new(),
        }
    }

    pub(super) fn run(mut self) -> Result<Totals, Error> {
        for rank in 0..self.programs.ranks() {
            let steps = self.programs.of(rank).iter();
            self.ready = (0..).zip(steps).filter(|(_, step)| step.link == 0).map(|(at, _)| at).collect();
            // The last is taken first.
            self.ready.reverse();
            self.start_ready(rank);
        }
        while let Some((time, (rank, step, what))) = self.events.pop() {
            self.now = time;
            match what {
                What::Worked => self.worked(rank, step)?,
                What::Left => self.complete(rank, step),
                What::Head(chain) => self.head(rank, step, chain),
                What::Arrived(chain) => self.arrived(rank, step, chain),
            }
            if self.events.len() > MOST_EVENTS {
                return Err(Error::Usage(format!(
                    "more than {MOST_EVENTS} messages and steps are under way at once, whose list would take some GiB: take \
                     fewer ranks, or shorter messages"
                )));
            }
        }
        if self.done != self.totals.steps {
            return Err(Error::Failed(format!(
                "{} of {} steps are never reached: this is an error in the algorithm, please report it",
                self.totals.steps - self.done,
                self.totals.steps
            )));
        }
        self.totals.time_ps = self.now;
        Ok(self.totals)
    }

    fn at(&mut self, time: u64, rank: u32, step: u32, what: What) {
        self.events.push(time, (rank, step, what));
    }

    /// The step is done: its dependants may be ready.
    fn complete(&mut self, rank: u32, step: u32) {
        self.finish(rank, step);
        self.start_ready(rank);
    }

    fn finish(&mut self, rank: u32, step: u32) {
        self.done += 1;
        self.totals.chain = self.totals.chain.max(self.programs.state(rank, step).chain());
        self.programs.release(rank, step, &mut self.ready);
    }

    fn start_ready(&mut self, rank: u32) {
        while let Some(step) = self.ready.pop() {
            let state = self.programs.state(rank, step);
            match self.programs.shape(rank).kind(step) {
                Kind::Join => self.finish(rank, step),
                Kind::Recv if state.stage() == Stage::Waiting => {
                    self.programs.state_mut(rank, step).set_stage(Stage::Posted);
                }
                _ => self.give_to_core(rank, step),
            }
        }
    }

    fn give_to_core(&mut self, rank: u32, step: u32) {
        let core = &mut self.cores[rank as usize];
        if !core.busy {
            core.busy = true;
            let end = self.now + self.work(rank, step);
            return self.at(end, rank, step, What::Worked);
        }
        let steps = self.programs.of(rank);
        steps[step as usize].link = NONE;
        match core.tail {
            NONE => core.head = step,
            tail => steps[tail as usize].link = step,
        }
        core.tail = step;
    }

    /// How long the core works on a step.
    fn work(&self, rank: u32, step: u32) -> u64 {
        let bytes = u64::from(self.programs.state(rank, step).bytes);
        let is_near = || self.model.node(self.programs.peer(rank, step).0) == self.model.node(rank);
        match self.programs.shape(rank).kind(step) {
            Kind::Send if is_near() => self.model.overhead + bytes * self.model.byte,
            Kind::Copy | Kind::Reduce => bytes * self.model.compute,
            _ => self.model.overhead,
        }
    }

    fn worked(&mut self, rank: u32, step: u32) -> Result<(), Error> {
        let core = &mut self.cores[rank as usize];
        match core.head {
            NONE => core.busy = false,
            next => {
                core.head = self.programs.state(rank, next).link;
                if core.head == NONE {
                    core.tail = NONE;
                }
                let end = self.now + self.work(rank, next);
                self.at(end, rank, next, What::Worked);
            }
        }
        match self.programs.shape(rank).kind(step) {
            Kind::Send => self.send(rank, step),
            _ => {
                self.complete(rank, step);
                Ok(())
            }
        }
    }

    fn send(&mut self, rank: u32, step: u32) -> Result<(), Error> {
        let (state, round) = (*self.programs.state(rank, step), self.programs.shape(rank).round(step));
        let ((to, back), bytes) = (self.programs.peer(rank, step), u64::from(state.bytes));
        let Some(receiver) = self.programs.shape(to).receiver(back, round, self.programs.ranks()) else {
            return Err(Error::Failed(format!(
                "rank {to} never receives what rank {rank} sends it in round {round}: this is an error in the \
                 algorithm, please report it"
            )));
        };
        self.totals.messages += 1;
        self.totals.bytes += bytes;
        // There may be room for more than comes.
        self.programs.state_mut(to, receiver).bytes = state.bytes;
        let chain = state.chain() + 1;
        let (from, into) = (self.model.node(rank), self.model.node(to));
        if from == into {
            self.at(self.now, to, receiver, What::Arrived(chain));
            self.complete(rank, step);
            return Ok(());
        }
        let start = self.now.max(self.outward[from]);
        let length = bytes * self.model.byte;
        self.outward[from] = start + length.max(self.model.gap);
        self.at(start + length, rank, step, What::Left);
        self.at(start + self.model.latency, to, receiver, What::Head(chain));
        Ok(())
    }

    fn head(&mut self, rank: u32, step: u32, chain: u32) {
        let node = self.model.node(rank);
        let start = self.now.max(self.inward[node]);
        let length = u64::from(self.programs.state(rank, step).bytes) * self.model.byte;
        self.inward[node] = start + length.max(self.model.gap);
        self.at(start + length, rank, step, What::Arrived(chain));
    }

    fn arrived(&mut self, rank: u32, step: u32, chain: u32) {
        let state = self.programs.state_mut(rank, step);
        state.lengthen(chain);
        match state.stage() {
            Stage::Posted => self.give_to_core(rank, step),
            _ => state.set_stage(Stage::Arrived),
        }
    }
}
