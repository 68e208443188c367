//! What becomes of collectives that nobody waits for any more: they are freed, or run on first.

use super::list::Link;
use super::{Nbc, Stage};
use crate::messages::Messages;
use crate::schedule::{NONE, Schedule};
use tocsin_progress::completion::Code;
use tocsin_progress::slots::Id;

impl Nbc {
    /// Frees a collective that is not running. False, and nothing happens, if it is running or was freed before. User
    /// threads only.
    pub fn release<M: Messages>(&mut self, messages: &mut M, id: Id) -> bool {
        self.collect(messages);
        match self.slots.get(id) {
            Some(active) if active.stage == Stage::Resting && !active.detached => {
                self.free(messages, id);
                true
            }
            _ => false,
        }
    }

    /// Gives up a collective without waiting for it: it runs on, and is freed, with `keep` (its buffers, say), by a
    /// later call in user context. User threads only.
    pub fn detach<M: Messages>(&mut self, messages: &mut M, id: Id, keep: Option<Box<dyn Send>>) {
        self.collect(messages);
        self.open_gates(messages);
        let Some(active) = self.slots.get_mut(id) else { return };
        if active.stage != Stage::Resting {
            active.detached = true;
            active.kept = keep;
        } else if !active.detached {
            self.free(messages, id);
        }
    }

    /// Frees what has ended since it was detached. User threads only; [`prepare`](Self::prepare),
    /// [`release`](Self::release) and [`detach`](Self::detach) do it too.
    pub fn collect<M: Messages>(&mut self, messages: &mut M) {
        while self.garbage != NONE {
            let Some(id) = self.slots.by_index(self.garbage) else { break };
            self.garbage = self.slots.get(id).map_or(NONE, |active| active.next_garbage);
            self.free(messages, id);
        }
    }

    /// Gives up the schedules that were kept for calls like those that are over: their memory and requests. User threads only.
    pub fn forget<M: Messages>(&mut self, messages: &mut M) {
        self.collect(messages);
        self.kept.clear(messages);
    }

    pub(super) fn free<M: Messages>(&mut self, messages: &mut M, id: Id) {
        self.ready.remove(&mut self.slots, id.index, Link::Ready);
        self.deferred.remove(&mut self.slots, id.index, Link::Deferred);
        self.gated.remove(&mut self.slots, id.index, Link::Gated);
        let Some((active, completion)) = self.slots.both_mut(id) else { return };
        let went_well = completion.outcome().is_some_and(|outcome| outcome.code == Code::Ok);
        let (schedule, kept) = (active.schedule.take(), active.kept.take());
        match schedule {
            Some(schedule) if went_well => self.kept.put(messages, schedule),
            Some(mut schedule) => give_back(messages, &mut schedule),
            None => {}
        }
        self.slots.free(id);
        drop(kept);
    }
}

pub(super) fn give_back<M: Messages>(messages: &mut M, schedule: &mut Schedule) {
    for request in schedule.state.iter_mut().filter_map(|state| state.request.take()) {
        messages.release(request);
    }
}
