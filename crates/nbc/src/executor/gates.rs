//! Levels of a tree that a rank does itself: inside the call that starts the collective, or in its next one ([`split`](crate::split)).

use super::list::Link;
use super::{Nbc, Stage};
use crate::messages::Messages;
use crate::schedule::Status;
use tocsin_progress::budget::{Budget, Pass};
use tocsin_progress::slots::Id;
use tocsin_sync::clock::now_ns;

impl Nbc {
    /// Whether a collective was started by a call that has to do levels of its tree before it returns, and has not: the caller waits until that
    /// is over, or the collective is. Handler-safe.
    pub fn is_in_call(&self, id: Id) -> bool {
        let Some(active) = self.slots.get(id).filter(|active| active.stage == Stage::Running) else {
            return false;
        };
        let Some(schedule) = active.schedule.as_deref() else { return false };
        let end = schedule.split.as_ref().and_then(|split| split.end());
        let state = end.and_then(|end| schedule.state.get(end as usize));
        state.is_some_and(|state| state.status != Status::Done)
    }

    /// The call that started a collective returns. User threads only.
    pub fn leave_call(&mut self, id: Id) {
        let split = self.slots.get_mut(id).and_then(|active| active.schedule.as_mut()?.split.as_mut());
        if let Some(split) = split {
            split.leave(now_ns());
        }
    }

    /// Whether this rank has levels to do in its next call. Handler-safe.
    #[inline]
    pub fn is_gated(&self) -> bool {
        !self.gated.is_empty()
    }

    /// The rank is in a call that waits or looks: it does what it has to do itself. User threads only.
    pub fn open_gates<M: Messages>(&mut self, messages: &mut M) {
        if self.is_gated() && self.recall_gated() {
            while self.progress(messages, &mut Budget::user()) == Pass::More {}
        }
    }

    /// The rank is in a call that looks and does no more than the budget allows. [`Pass::More`]: that is not all; call it again. User threads only.
    pub fn open_gates_within<M: Messages>(&mut self, messages: &mut M, budget: &mut Budget) -> Pass {
        if self.is_gated() {
            self.recall_gated();
        }
        self.progress(messages, budget)
    }

    /// Opens the gates of all that run. False: nothing was behind any. Of what has ended since, it only tells for how long the rank has computed.
    #[cold]
    pub(super) fn recall_gated(&mut self) -> bool {
        let now = now_ns();
        let mut opened = false;
        while let Some(slot) = self.gated.pop(&mut self.slots, Link::Gated) {
            let Some(active) = self.slots.by_index(slot).and_then(|id| self.slots.get_mut(id)) else {
                continue;
            };
            let Some(schedule) = active.schedule.as_mut() else { continue };
            let Some(split) = schedule.split.as_mut() else { continue };
            split.come_back(now);
            if active.stage != Stage::Running {
                continue;
            }
            for gate in split.gates(true) {
                active.ready.push(&mut schedule.state, gate);
            }
            if !active.ready.is_empty() {
                self.ready.push(&mut self.slots, slot, Link::Ready);
                opened = true;
            }
        }
        opened
    }

    /// A run of a split tree begins: what is not behind a gate that is closed goes on at once.
    pub(super) fn begin_split(&mut self, id: Id) {
        let Some(active) = self.slots.get_mut(id).filter(|active| active.stage == Stage::Running) else {
            return;
        };
        let Some(schedule) = active.schedule.as_mut() else { return };
        let Some(split) = schedule.split.as_mut() else { return };
        split.begin(now_ns());
        for gate in split.gates(false) {
            active.ready.push(&mut schedule.state, gate);
        }
        let waits = !active.ready.is_empty();
        // Also what has no gate: when the rank comes back tells for how long it has computed.
        self.gated.push(&mut self.slots, id.index, Link::Gated);
        if waits {
            self.ready.push(&mut self.slots, id.index, Link::Ready);
        }
    }
}
