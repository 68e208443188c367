//! Intrusive lists, so that nothing is allocated when a step becomes ready. All operations are handler-safe and take a
//! constant number of plain memory accesses; an index out of range ends a list instead of panicking.

use super::Active;
use crate::schedule::{NONE, StepState};
use tocsin_progress::completion::Completion;
use tocsin_progress::slots::Slots;

/// First in, first out list of a schedule's steps, linked by `StepState::next`.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepList {
    head: u32,
    tail: u32,
}

impl StepList {
    pub(super) const EMPTY: StepList = StepList { head: NONE, tail: NONE };

    pub(super) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub(super) fn front(&self) -> u32 {
        self.head
    }

    pub(super) fn push(&mut self, state: &mut [StepState], step: u32) {
        let Some(entry) = state.get_mut(step as usize) else { return };
        entry.next = NONE;
        match state.get_mut(self.tail as usize) {
            Some(last) if self.tail != NONE => last.next = step,
            _ => self.head = step,
        }
        self.tail = step;
    }

    pub(super) fn pop(&mut self, state: &[StepState]) {
        self.head = state.get(self.head as usize).map_or(NONE, |entry| entry.next);
        if self.head == NONE {
            self.tail = NONE;
        }
    }

    /// Moves all of `other` to the end of this list.
    pub(super) fn append(&mut self, state: &mut [StepState], other: &mut StepList) {
        match state.get_mut(self.tail as usize) {
            Some(last) if self.tail != NONE => last.next = other.head,
            _ => self.head = other.head,
        }
        if !other.is_empty() {
            self.tail = other.tail;
        }
        *other = StepList::EMPTY;
    }
}

/// Which link of a slot a queue uses.
#[derive(Clone, Copy)]
pub(super) enum Link {
    Ready,
    Deferred,
    Gated,
}

impl Active {
    fn link(&mut self, link: Link) -> (&mut bool, &mut u32) {
        match link {
            Link::Ready => (&mut self.in_ready_queue, &mut self.next_ready),
            Link::Deferred => (&mut self.in_deferred_queue, &mut self.next_deferred),
            Link::Gated => (&mut self.in_gated_queue, &mut self.next_gated),
        }
    }
}

type Table = Slots<Active, Completion>;

/// First in, first out queue of slots in use. A schedule that ends may stand in it until its turn comes and finds no
/// ready step; one that is freed is taken out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    head: u32,
    tail: u32,
}

impl Queue {
    pub(super) const EMPTY: Queue = Queue { head: NONE, tail: NONE };

    pub(super) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub(super) fn front(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    /// Appends a slot, unless it is in the queue.
    pub(super) fn push(&mut self, table: &mut Table, slot: u32, link: Link) {
        let Some(active) = slot_mut(table, slot) else { return };
        let (queued, next) = active.link(link);
        if std::mem::replace(queued, true) {
            return;
        }
        *next = NONE;
        match slot_mut(table, self.tail) {
            Some(last) if self.tail != NONE => *last.link(link).1 = slot,
            _ => self.head = slot,
        }
        self.tail = slot;
    }

    /// Takes a slot out, wherever it stands; as many accesses as the queue has entries.
    pub(super) fn remove(&mut self, table: &mut Table, slot: u32, link: Link) {
        let mut rest = std::mem::replace(self, Queue::EMPTY);
        while let Some(first) = rest.pop(table, link) {
            if first != slot {
                self.push(table, first, link);
            }
        }
    }

    /// Removes the first slot.
    pub(super) fn pop(&mut self, table: &mut Table, link: Link) -> Option<u32> {
        let slot = self.front()?;
        self.head = slot_mut(table, slot).map_or(NONE, |active| {
            let (queued, next) = active.link(link);
            *queued = false;
            *next
        });
        if self.head == NONE {
            self.tail = NONE;
        }
        Some(slot)
    }
}

fn slot_mut(table: &mut Table, slot: u32) -> Option<&mut Active> {
    let id = table.by_index(slot)?;
    table.get_mut(id)
}
